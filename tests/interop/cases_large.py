# SPDX-License-Identifier: Apache-2.0
"""Samples larger than a datagram, between Apus and each peer, both ways.

Method: the blob programs write samples of a list of sizes whose bytes follow a pattern; the subscriber
compares every byte. All traffic is recorded and shown to tshark. On loopback (MTU 65,536) Apus cuts to
64,000 bytes, over the virtual Ethernet to 1,344. Where Apus writes, what its repairs cost is printed.
"""

import functools
import os

import checks
from lib.process import Failure
from lib.runner import case, equal, expect
from lib.world import Paths, World

PAIRS = [("cyclone", "apus"), ("apus", "cyclone"), ("fastdds", "apus"), ("apus", "fastdds"),
         ("apus", "apus")]
# By the fragment size of each side: 1,344 of Apus and Cyclone, 64,000 of Apus, 65,324 of Fast DDS.
OVERHEAD = 12
EDGES = ",".join(f"{n * size - OVERHEAD + d}-{n * size - OVERHEAD + d}:1"
                 for size, n in ((1344, 1), (1344, 2), (64000, 1))
                 for d in (-9, -4, -1, 0, 1, 4, 9))
STEPS = "0-70000:3500," + EDGES
LARGE = "100000,204800,1048576,4194304"
HUGE = "20971520"


def program(impl):
    path = os.path.join(Paths.build, "tests", "interop", "peers", "blob-" + impl)
    if not os.access(path, os.X_OK):
        raise Failure(f"not built: {path}")
    return path


def start(world, impl, role, host, sizes, *extra):
    return world.start([program(impl), role, "--topic", "Blobs", "--interface", world.interface[host],
                        "--sizes", sizes, *map(str, extra)], f"{impl} blob {role}", host)


def expand(sizes):
    """What the programs make of a list of sizes."""
    numbers = []
    for word in sizes.split(","):
        if "-" in word:
            span, step = word.split(":")
            low, high = map(int, span.split("-"))
            numbers += range(low, high + 1, int(step))
        elif "x" in word:
            size, count = word.split("x")
            numbers += [int(size)] * int(count)
        else:
            numbers.append(int(word))
    return numbers


def stats(events):
    """The counters that blob-apus printed."""
    return {event["name"]: event["value"] for event in events if event.get("event") == "stat"}


def exact(events, sizes):
    """Every sample, in order, once, each byte in its place."""
    samples = [event for event in events if event.get("event") == "sample"]
    equal([sample["bytes"] for sample in samples], expand(sizes), "sizes")
    expect(all(sample["exact"] for sample in samples), "a sample differs from what was written")


def told(writer, reader, sent, taken, sizes):
    """One line for people: how long it took, and what repairs cost."""
    needed = sum(expand(sizes)) + OVERHEAD * len(expand(sizes))
    done = [event for event in sent if event.get("event") == "done"]
    line = f"     {writer} to {reader}: {needed / 1e6:.1f} MB in {done[-1]['ms']} ms"
    counters = stats(sent)
    if "queue.tx_bytes" in counters:
        line += f", sent / needed {counters['queue.tx_bytes'] / needed:.2f}"
    for name in ("writer.repairs", "writer.suppressed", "writer.acknacks", "writer.nack_frags",
                 "writer.heartbeats"):
        if name in counters:
            line += f", {name.split('.')[1]} {counters[name]}"
    print(line, flush=True)


def transfer(sizes, writer, reader, loss=0, two_hosts=False, patience=60, recorded=True, extra=(),
             faults=False, pub_extra=(), sub_extra=()):
    with World(two_hosts=two_hosts, loss=loss, faults=faults) as world:
        path = world.capture() if recorded else None
        sub = start(world, reader, "sub", "b", sizes, "--timeout", patience, "--linger", 0.5, *extra,
                    *sub_extra)
        pub = start(world, writer, "pub", "a", sizes, "--timeout", patience, "--linger", 0.2, *extra,
                    *pub_extra)
        taken = sub.wait(patience + 20)
        sent = pub.wait(patience + 20, code=None if loss or faults else 0)
        exact(taken, sizes)
        told(writer, reader, sent, taken, sizes)
        if recorded:
            checks.traffic_is_clean(world, path)


for pair in PAIRS:
    name = f"{pair[0]}-to-{pair[1]}"
    case(f"large/steps/{name}")(functools.partial(transfer, STEPS, *pair))
    case(f"large/steps-mtu-1500/{name}")(functools.partial(transfer, STEPS, *pair, two_hosts=True))
    case(f"large/4-mb/{name}")(functools.partial(transfer, LARGE, *pair))
    case(f"large/4-mb-mtu-1500/{name}")(functools.partial(transfer, LARGE, *pair, two_hosts=True))
    case(f"large/20-mb/{name}")(
        functools.partial(transfer, HUGE, *pair, recorded=False, extra=("--depth", 2)))
    case(f"large/loss-10/{name}")(
        functools.partial(transfer, "0-70000:3500,204800,1048576", *pair, two_hosts=True, loss=10))
