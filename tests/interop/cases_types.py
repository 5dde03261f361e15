# SPDX-License-Identifier: Apache-2.0
"""Type identity with Cyclone DDS: hashes, lookups in both directions, evolved types.

Method: tests/idlc/typeids.c runs a participant of each vendor over every type shape of tests/idlc and
checks; the traffic is recorded and shown to tshark.
"""

import functools
import json
import os

import checks
from lib.process import Failure
from lib.runner import Skip, case, equal, expect
from lib.world import Paths, World

CYCLONE = ('<CycloneDDS><Domain Id="any"><General><Interfaces><NetworkInterface address="127.0.0.1" '
           'multicast="true"/></Interfaces></General></Domain></CycloneDDS>')


def start(world, *words, program="typeids"):
    path = os.path.join(Paths.peers, "tests", "idlc", program)
    if not os.access(path, os.X_OK):
        raise Skip(f"not built: {path}")
    return world.start([path, *words], program + " " + words[0],
                       env={**os.environ, "CYCLONEDDS_URI": CYCLONE})


def result(process, timeout_s=60):
    events = process.wait(timeout_s)
    return events[-1]


@case("types/hashes")
def hashes():
    """Every shape, strictly: Cyclone and Apus announce the same two hashes, and match both ways."""
    with World() as world:
        path = world.capture()
        done = result(start(world, "hashes"))
        equal(done["failures"], 0, "differences")
        expect(done["shapes"] > 150, f"only {done['shapes']} shapes")
        checks.traffic_is_clean(world, path)


@case("types/cyclone-asks")
def cyclone_asks():
    """Cyclone, which has none of the types, gets each of them from Apus, complete and minimal."""
    with World() as world:
        path = world.capture()
        done = result(start(world, "lookup"))
        equal(done["failures"], 0, "types not got")
        checks.traffic_is_clean(world, path)


@case("types/apus-asks")
def apus_asks():
    """Apus, which has none of the types, gets each of them from Cyclone and builds the same descriptors."""
    with World() as world:
        path = world.capture()
        done = result(start(world, "build"))
        equal(done["failures"], 0, "types not got, or not the same")
        checks.traffic_is_clean(world, path)


@case("types/apus-sub-without-idl")
def sub_without_idl():
    """`apus sub TOPIC` prints what Cyclone writes of a type that Apus was not told, whoever starts first."""
    for first in ("apus", "cyclone"):
        with World() as world:
            sub = None
            if first == "apus":
                sub = world.apus("sub", "Typed", "--json", "--count", 3, "--timeout", 20)
            pub = start(world, "publish")
            if first == "cyclone":
                pub.wait_event(lambda event: event.get("event") == "ready", "ready", 20)
                sub = world.apus("sub", "Typed", "--json", "--count", 3, "--timeout", 20)
            events = [event for event in sub.wait(30) if "data" in event]
            equal(len(events), 3, "lines")
            for event in events:
                equal(event["data"], {"k": 7, "note": "hello", "part": {"a": 4, "b": 5},
                                      "parts": [{"a": 1, "b": 2}], "added": 42, "text": "world",
                                      "color": "GREEN"}, "sample")
            listing = world.apus("ls", "--wait", 1, "--types").wait(20)
            text = "\n".join(event.get("text", "") for event in listing)
            for part in ("struct new_a {", "@key long k;", "enum Color { RED, GREEN, BLUE };"):
                expect(part in text, f"`apus ls --types` does not show {part!r}: {text}")
            pub.stop()


@case("types/idl-at-run-time")
def idl_at_run_time():
    """A type from a file has the two hashes Cyclone announces for it: they match strictly, both ways."""
    idl = os.path.join(Paths.source, "tests", "interop", "peers", "shape.idl")
    strict = ("--set", "type_matching=strict")
    with World() as world:
        sub = world.sub("cyclone", "Square", count=5)
        pub = world.pub("apus", "Square", count=5, matched=1,
                        extra=("--idl", idl, "--type", "ShapeType", *strict))
        checks.complete(sub.finish(), 5, ("RED",))
        pub.finish(code=None)
    with World() as world:
        sub = world.sub("apus", "Square", count=5,
                        extra=("--idl", idl, "--type", "ShapeType", *strict))
        pub = world.pub("cyclone", "Square", count=5, matched=1, linger=1.5, rate=20, settle=0.5)
        checks.complete(sub.finish(), 5, ("RED",))
        pub.finish(code=None)


@case("types/fastdds-passes-over")
def fastdds_passes_over():
    """Fast DDS 2.9, which has an older form of type information, is not disturbed by ours, nor we by its
    having none: they match by the type's name."""
    idl = os.path.join(Paths.source, "tests", "interop", "peers", "shape.idl")
    with World() as world:
        path = world.capture()
        sub = world.sub("fastdds", "Square", count=5)
        pub = world.pub("apus", "Square", count=5, matched=1, keep_all=True, extra=("--idl", idl))
        checks.complete(sub.finish(), 5, ("RED",))
        pub.finish(code=None)
        checks.traffic_is_clean(world, path)
    with World() as world:
        sub = world.sub("apus", "Square", count=5, extra=("--idl", idl))
        pub = world.pub("fastdds", "Square", count=5, matched=1, linger=1.5, keep_all=True)
        checks.complete(sub.finish(), 5, ("RED",))
        pub.finish(code=None)


@case("types/fastdds-newer-and-older")
def fastdds_evolved():
    """Fast DDS, which has XCDR1 and announces no types, has an older version of an appendable type: what it
    writes has defaults at its end, what it reads it reads as far as it knows it."""
    newer = ("--idl", os.path.join(Paths.source, "tests", "interop", "peers", "shape_newer.idl"))
    with World() as world:
        sub = world.sub("apus", "Square", count=5, extra=newer)
        pub = world.pub("fastdds", "Square", count=5, matched=1, linger=1.5, keep_all=True)
        checks.complete(sub.finish(), 5, ("RED",))
        for event in sub.process.events:
            if "data" in event:
                equal((event["data"]["weight"], event["data"]["note"]), (7, ""), "what is new")
        pub.finish(code=None)
    with World() as world:
        sub = world.sub("fastdds", "Square", count=5)
        pub = world.apus("pub", "Square", "--wait-matched", 1, "--qos",
                         "reliability=reliable,history=keep_all", *newer, stdin=True)
        for x in range(1, 6):
            pub.write_line(json.dumps({"color": "RED", "x": x, "y": 2 * x, "shapesize": 30,
                                       "weight": 9, "note": "unheard"}))
        checks.complete(sub.finish(), 5, ("RED",))
        pub.close_input()
        pub.wait(20)


@case("types/evolved")
def evolved():
    """Older and newer appendable and mutable types match, others do not; each side asks the other."""
    with World() as world:
        path = world.capture()
        done = result(start(world, "evolved"))
        equal(done["failures"], 0, "wrong matches")
        checks.traffic_is_clean(world, path)


def evolution(writer, version):
    """Samples of one version of each pair of types arrive at readers of the other, between an Apus and a
    Cyclone process: members of both as written, others with their defaults."""
    reader = "apus" if writer == "cyclone" else "cyclone"
    with World() as world:
        path = world.capture()
        taking = start(world, reader, "read", version, program="evolution-live")
        writing = start(world, writer, "write", version, program="evolution-live")
        done = result(taking, 100)
        writing.poll_events()
        equal(done["failures"], 0, "differences")
        # Cyclone would abort where it has to make up an absent struct: two pairs less; one is refused by rule.
        topics = 47 if (reader, version) == ("cyclone", "older") else 49
        equal(done["topics"], topics, "pairs")
        equal(done["samples"], 3 * (topics - 1), "samples")
        expect(reader != "apus" or done["learnt"] > 20, f"types were not asked for: {done}")
        equal(writing.events[-1].get("failures"), 0, "writers without a match")
        writing.stop()
        checks.traffic_is_clean(world, path)


for _writer in ("apus", "cyclone"):
    for _version in ("older", "newer"):
        case(f"types/{_version}-from-{_writer}")(functools.partial(evolution, _writer, _version))
