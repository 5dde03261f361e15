# SPDX-License-Identifier: Apache-2.0
"""Hostile datagrams at the ports of a running reader: noise, mutated captures, truncations.

A reliable stream runs meanwhile and must come through unharmed; the reader's memory must not grow.
"""

import glob
import os
import sys
import time

import checks
from lib.runner import case, expect
from lib.world import Paths, World

SECONDS = int(os.environ.get("APUS_HOSTILE_SECONDS", "60"))
RATE = 150
GROWTH_KIB = 4096
SENDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hostile_sender.py")


@case("hostile/datagrams-while-streaming")
def hostile():
    """One minute of rubbish at discovery and user ports; every one of the stream's samples arrives."""
    seeds = glob.glob(os.path.join(Paths.source, "tests", "captures", "*.pcapng"))
    expect(seeds != [], "no captures to mutate in tests/captures")
    count = (SECONDS + 15) * RATE  # the stream outlasts the rubbish
    with World() as world:
        sub = world.sub("apus", "Square", count=count, timeout=SECONDS + 60)
        pub = world.pub("cyclone", "Square", count=count, matched=1, keep_all=True, rate=RATE,
                        timeout=SECONDS + 60)
        sub.wait_sample()
        sender = world.start([sys.executable, SENDER, "--seconds", str(SECONDS), "--domain",
                              str(world.domain), *seeds], "hostile sender")
        time.sleep(min(10, SECONDS / 4))
        before = sub.process.rss_kib()
        sent = sender.wait(SECONDS + 20)[-1]["sent"]
        after = sub.process.rss_kib()
        samples = sub.finish(90)
        pub.finish(code=None)
        expect(sent > 1000, f"only {sent} hostile datagrams were sent")
        checks.complete([s for s in samples if s.valid], count, ("RED",))
        # A sanitizer touches its own shadow memory; only an ordinary build can be held to a limit.
        sanitized = Paths.peers != Paths.build
        expect(sanitized or after - before < GROWTH_KIB, f"memory grew from {before} to {after} KiB")
