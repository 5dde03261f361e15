# SPDX-License-Identifier: Apache-2.0
"""Addresses and links that change under running programs: traffic resumes without a restart."""

import subprocess
import time

from lib.process import Failure
from lib.runner import case, expect
from lib.world import World

PERIOD_S = 3.0  # announce.period


def ip(world, host, *words):
    """Runs `ip` on one of the two hosts."""
    namespace = world.prefix(host)[3]
    done = subprocess.run(["ip", "-n", namespace, *words], capture_output=True, text=True)
    if done.returncode != 0:
        raise Failure(f"ip {' '.join(words)}: {done.stderr.strip()}")


def down_and_up(world):
    ip(world, "a", "link", "set", "va", "down")
    time.sleep(2)
    ip(world, "a", "link", "set", "va", "up")


def another_address(world):
    ip(world, "a", "addr", "del", "10.77.0.1/24", "dev", "va")
    time.sleep(0.5)
    ip(world, "a", "addr", "add", "10.77.0.9/24", "dev", "va")


def another_address_at_the_reader(world):
    ip(world, "b", "addr", "del", "10.77.0.2/24", "dev", "vb")
    time.sleep(0.5)
    ip(world, "b", "addr", "add", "10.77.0.8/24", "dev", "vb")


def another_interface(world):
    ip(world, "a", "link", "del", "va")
    time.sleep(2)
    ip(world, "a", "link", "add", "va2", "type", "veth", "peer", "name", "vb2", "netns",
       world.prefix("b")[3])
    for host, device, address in (("a", "va2", "10.78.0.1"), ("b", "vb2", "10.78.0.2")):
        ip(world, host, "addr", "add", address + "/24", "dev", device)
        ip(world, host, "link", "set", device, "up")


STEPS = [down_and_up, another_address, another_address_at_the_reader, another_interface]


@case("address/changes-while-streaming")
def changes():
    """Link down and up, addresses replaced on either side, another interface: each time samples go on
    within two announcement periods, and in the end none is missing."""
    with World(two_hosts=True) as world:
        count = 1000
        sub = world.sub("apus", "Square", count=count, timeout=70)
        pub = world.pub("apus", "Square", count=count, matched=1, keep_all=True, rate=60)
        sub.wait_sample()
        for step in STEPS:
            before = len(sub.samples())
            step(world)
            begun = time.monotonic()
            held = len(sub.samples())
            while len(sub.samples()) <= held + 5:
                expect(time.monotonic() - begun < 2 * PERIOD_S,
                       f"{step.__name__}: no samples for two announcement periods "
                       f"({before}, {held}, {len(sub.samples())})")
                time.sleep(0.05)
            print(f"     {step.__name__}: samples after {time.monotonic() - begun:.2f} s")
            time.sleep(1)
        samples = sub.finish(90)
        expect([s.x for s in samples] == list(range(1, count + 1)), "samples are missing")
        pub.finish(code=None)
