#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Goal: the IP layer asks nobody for anything: no system call, clock, lock, output, and memory at creation only.
# Method: the symbols its library leaves to others (nm), against those it may. Usage: pure.sh LIBRARY
command -v nm >/dev/null || exit 77
others=$(nm -u "$1" | sed -n 's/^ *U //p' | grep -v '^apus_ip_' |
	grep -Evx 'aligned_alloc|free|bcmp|mem(cmp|cpy|move|set)|strlen|__stack_chk_fail|_GLOBAL_OFFSET_TABLE_' | sort -u)
[ -z "$others" ] || { echo "ip/ uses: $others"; exit 1; }
# Memory is taken in one place.
[ "$(nm -A -u "$1" | grep -c ' U aligned_alloc$')" = 1 ]
