#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The interoperability tests: Apus with Cyclone DDS and Fast DDS. See --help and lib/runner.py."""

import sys

import cases_address  # noqa: F401  (importing registers the cases)
import cases_discovery  # noqa: F401
import cases_dpdk  # noqa: F401
import cases_filter  # noqa: F401
import cases_hostile  # noqa: F401
import cases_interleaved  # noqa: F401
import cases_ipv6  # noqa: F401
import cases_joins  # noqa: F401
import cases_keys  # noqa: F401
import cases_large  # noqa: F401
import cases_peers  # noqa: F401
import cases_shape_main  # noqa: F401
import cases_shm  # noqa: F401
import cases_qos  # noqa: F401
import cases_server  # noqa: F401
import cases_stream  # noqa: F401
import cases_writer  # noqa: F401
import cases_types  # noqa: F401
import cases_worker  # noqa: F401
from lib.runner import main

sys.exit(main())
