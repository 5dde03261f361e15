# SPDX-License-Identifier: Apache-2.0
"""Hostile datagrams at the ports of a running reader: noise, mutated captures, truncations.

A reliable stream runs meanwhile and must come through unharmed; the reader's memory must not grow.
"""

import functools
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
FORGER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "forged_announcement.py")
SENDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hostile_sender.py")
IMPOSTOR = os.path.join(os.path.dirname(os.path.abspath(__file__)), "forged_traffic.py")
FILTERER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "forged_filters.py")
LIAR = os.path.join(os.path.dirname(os.path.abspath(__file__)), "forged_types.py")
TRAFFIC_COUNT, TRAFFIC_RATE, TRAFFIC_GROWTH_KIB = 2400, 200, 1024


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


FORGERIES = [
    ("once", []),
    ("repeated", ["--repeat", "20"]),
    ("insisting", ["--repeat", "20", "--insist"]),
    ("hundred-names", ["--participants", "100", "--repeat", "3", "--insist"]),
]


@case("hostile/forged-announcement")
def forged():
    """Announcements naming a third address: it gets less than three times what the forger sent."""
    for name, words in FORGERIES:
        with World() as world:
            pub = world.pub("apus", "Square", count=0, linger=30)
            world.sub("apus", "Square", count=0, timeout=60)
            time.sleep(1)
            forger = world.start([sys.executable, FORGER, "--domain", str(world.domain),
                                  "--seconds", "2.5", *words], "forger")
            counted = forger.wait(20)[-1]
            expect(counted["received"] > 0, f"{name}: the forgery was not believed at all: {counted}")
            expect(counted["received_with_headers"] < 3 * counted["sent"] and counted["worst"] < 3,
                   f"{name}: amplified: {counted}")
            print(f"     {name}: {counted}")
            pub.process.stop()


def guids(world, topic, wait=0.5):
    """The GUIDs of the writer and the reader of a topic."""
    found = {event["kind"]: event["guid"] for event in world.ls(wait=wait)
             if event.get("topic") == topic and event["kind"] in ("writer", "reader")}
    expect(len(found) == 2, f"not one writer and one reader: {found}")
    return found["writer"], found["reader"]


def stream_under_forgery(writer, reader):
    """A reliable stream while an impostor speaks to both ends under each other's GUIDs: claims of 2^40
    numbers and 4 GB cost nothing, and every sample arrives, in order, once."""
    with World() as world:
        sub = world.sub(reader, "Square", count=TRAFFIC_COUNT, timeout=40)
        pub = world.pub(writer, "Square", count=TRAFFIC_COUNT, matched=1, keep_all=True,
                        rate=TRAFFIC_RATE, timeout=40)
        sub.wait_sample()
        ours = [end.process for end in (sub, pub) if end.impl == "apus"]
        words = guids(world, "Square", 2)
        before = [process.rss_kib() for process in ours]
        victim = "both" if len(ours) == 2 else "reader" if reader == "apus" else "writer"
        forger = world.start([sys.executable, IMPOSTOR, "--domain", str(world.domain), "--victim",
                              victim, *words], "impostor")
        sent = forger.wait(20)[-1]["sent"]
        after = [process.rss_kib() for process in ours]
        samples = sub.finish(40)
        pub.finish(code=None)
        expect(sent > 4000, f"only {sent} forged datagrams were sent")
        checks.complete([s for s in samples if s.valid], TRAFFIC_COUNT, ("RED",))
        sanitized = Paths.peers != Paths.build
        expect(sanitized or all(b - a < TRAFFIC_GROWTH_KIB for a, b in zip(before, after)),
               f"memory grew from {before} to {after} KiB")
        print(f"     {sent} forged datagrams, memory from {before} to {after} KiB")


for _writer, _reader in (("apus", "apus"), ("apus", "cyclone"), ("cyclone", "apus"),
                         ("apus", "fastdds"), ("fastdds", "apus")):
    case(f"hostile/forged-traffic-{_writer}-to-{_reader}")(
        functools.partial(stream_under_forgery, _writer, _reader))


def counters(world, path):
    """What a participant has counted so far."""
    events = world.apus("stats", path, "--json").wait(20)
    return next(event["counters"] for event in events if event.get("kind") == "participant")


@case("hostile/types")
def lies_about_types():
    """Requests, replies and type information that lie, from a participant that proves its address and from one
    that does not: the stream beside it is whole, memory is bounded, answers too, and all of it is counted."""
    idl = ("--idl", os.path.join(Paths.source, "tests", "interop", "peers", "shape.idl"))
    with World() as world:
        files = [os.path.join(world.directory, name) for name in ("sub.stats", "pub.stats")]
        words = [(*idl, "--set", "limits.types=512", "--set", "stats.file=" + path) for path in files]
        sub = world.sub("apus", "Square", count=TRAFFIC_COUNT, timeout=60, extra=words[0])
        pub = world.pub("apus", "Square", count=TRAFFIC_COUNT, matched=1, keep_all=True,
                        rate=TRAFFIC_RATE, timeout=60, extra=words[1])
        sub.wait_sample()
        prefixes = [guid.split(":")[0] for guid in guids(world, "Square", 2)]
        before = [end.process.rss_kib() for end in (sub, pub)]
        liar = world.start([sys.executable, LIAR, "--domain", str(world.domain), *prefixes], "liar")
        told = liar.wait(60)[-1]
        after = [end.process.rss_kib() for end in (sub, pub)]
        counted = [counters(world, path) for path in files]
        samples = sub.finish(60)
        pub.finish(code=None)
        checks.complete([s for s in samples if s.valid], TRAFFIC_COUNT, ("RED",))
        for names in counted:
            for name in ("types.learnt", "types.unwanted", "types.forged", "types.asked", "types.answered",
                         "types.withheld", "discovery.malformed"):
                expect(names[name] > 0, f"{name} is 0")
        expect(told["victim_got"] < 3 * told["victim_paid"], f"amplified: {told}")
        expect(told["got"] < told["sent"], f"amplified: {told}")
        sanitized = Paths.peers != Paths.build
        expect(sanitized or all(b - a < GROWTH_KIB for a, b in zip(before, after)),
               f"memory grew from {before} to {after} KiB")
        print(f"     {told}, memory from {before} to {after} KiB")


@case("hostile/filters")
def hostile_filters():
    """Readers that announce filters with lying counts and lengths, nesting, exploding patterns, noise, old versions:
    the stream beside them is whole and keeps its pace, memory is bounded, and all of it is counted."""
    with World() as world:
        files = [os.path.join(world.directory, name) for name in ("sub.stats", "pub.stats")]
        ends = [("--set", "stats.file=" + path) for path in files]
        sub = world.sub("apus", "Square", count=TRAFFIC_COUNT, timeout=60, extra=ends[0],
                        filter="x > %0", params=("0",))
        pub = world.pub("apus", "Square", count=TRAFFIC_COUNT, matched=1, keep_all=True,
                        rate=TRAFFIC_RATE, timeout=60, extra=ends[1])
        sub.wait_sample()
        before = [end.process.rss_kib() for end in (sub, pub)]
        filterer = world.start([sys.executable, FILTERER, "--domain", str(world.domain)], "filterer")
        told = filterer.wait(60)[-1]
        after = [end.process.rss_kib() for end in (sub, pub)]
        counted = [counters(world, path) for path in files]
        samples = sub.finish(60)
        pub.finish(code=None)
        checks.complete([s for s in samples if s.valid], TRAFFIC_COUNT, ("RED",))
        expect(told["records"] > 500 and told["good"] > 50, f"too little was announced: {told}")
        expect(told["samples"] > 0, f"nothing came through a good filter: {told}")
        for names in counted:
            expect(names["discovery.malformed"] > 0, "discovery.malformed is 0")
        expect(counted[1]["snapshots.filters_refused"] > 0, "no filter was refused")
        sanitized = Paths.peers != Paths.build
        expect(sanitized or all(b - a < GROWTH_KIB for a, b in zip(before, after)),
               f"memory grew from {before} to {after} KiB")
        print(f"     {told}, refused {counted[1]['snapshots.filters_refused']}, malformed "
              f"{counted[1]['discovery.malformed']}, memory from {before} to {after} KiB")
