# SPDX-License-Identifier: Apache-2.0
"""Content filters across vendors: announced, shown, applied at the writer, right at the reader."""

import os

import checks
from lib import capture
from lib.runner import case, equal, expect
from lib.world import VENDOR, World

FILTER = "color = %0 AND x BETWEEN %1 AND %2"
PARAMS = ("'RED'", "4", "9")


@case("filter/fastdds-reader-shown-by-ls")
def shown():
    """A Fast DDS reader's expression and parameters appear in `apus ls`."""
    with World() as world:
        sub = world.sub("fastdds", "Square", count=0, filter=FILTER, params=PARAMS)
        sub.process.wait_event(lambda e: e.get("event") == "ready", "ready")
        listing = world.ls()
        for wanted in (FILTER, *PARAMS):
            expect(checks.mentions(listing, wanted), f"`apus ls --json` does not show {wanted}")


@case("filter/apus-reader-fastdds-writer")
def applied_by_fastdds():
    """A Fast DDS writer applies an Apus reader's filter: GAPs on the wire, the right samples taken."""
    with World() as world:
        path = world.capture()
        sub = world.sub("apus", "Square", count=4, filter="x > %0 AND x < %1", params=("6", "11"))
        # Fast DDS sends a GAP only with the next sample that passes: 7…10 follow the rejected six.
        pub = world.pub("fastdds", "Square", count=10, matched=1, keep_all=True)
        samples = sub.finish()
        pub.finish(code=None)
        checks.traffic_is_clean(world, path)
        equal(checks.by_color(samples), {"RED": [7, 8, 9, 10]}, "samples")
        gaps = capture.count_kind(path, capture.GAP, VENDOR["fastdds"])
        expect(gaps > 0, "no GAP from Fast DDS: it did not filter")


@case("filter/apus-reader-cyclone-writer")
def applied_at_reader():
    """Cyclone DDS cannot filter: the Apus reader does, and still acknowledges everything."""
    with World() as world:
        sub = world.sub("apus", "Square", count=3, filter=FILTER, params=PARAMS)
        pub = world.pub("cyclone", "Square", count=20, colors=("RED", "GREEN"), matched=1,
                        keep_all=True)
        equal(checks.by_color(sub.finish()), {"RED": [5, 7, 9]}, "samples")
        pub.finish(code=None)


@case("filter/fastdds-reader-apus-writer")
def fastdds_reader():
    """Whether or not Apus filters for it, a Fast DDS reader gets exactly what it asked for."""
    with World() as world:
        path = world.capture()
        sub = world.sub("fastdds", "Square", count=3, filter=FILTER, params=PARAMS)
        pub = world.pub("apus", "Square", count=20, colors=("RED", "GREEN"), matched=1, keep_all=True)
        equal(checks.by_color(sub.finish()), {"RED": [5, 7, 9]}, "samples")
        pub.finish()
        checks.traffic_is_clean(world, path)


@case("filter/apus-to-apus")
def apus_both():
    """The same between two Apus processes, with a best-effort reader beside the filtered one."""
    with World() as world:
        sub = world.sub("apus", "Square", count=3, filter=FILTER, params=PARAMS)
        plain = world.sub("apus", "Square", count=20)
        pub = world.pub("apus", "Square", count=20, colors=("RED", "GREEN"), matched=2, keep_all=True)
        equal(checks.by_color(sub.finish()), {"RED": [5, 7, 9]}, "filtered samples")
        checks.complete(plain.finish(), 20, ("RED", "GREEN"))
        pub.finish()


def info_between(reader, writer):
    """What each says of the same reader's filter: signatures and results."""
    with World() as world:
        path = world.capture()
        sub = world.sub(reader, "Square", count=3, filter=FILTER, params=PARAMS)
        pub = world.pub(writer, "Square", count=20, colors=("RED", "GREEN"), matched=1, keep_all=True)
        equal(checks.by_color(sub.finish()), {"RED": [5, 7, 9]}, "samples")
        pub.finish(code=None if writer == "fastdds" else 0)
        if "apus" in (reader, writer):
            checks.traffic_is_clean(world, path)
        else:
            world.stop_captures()
        return capture.filter_infos(path, VENDOR[writer])


@case("filter/info-as-fastdds-says-it")
def info():
    """Our samples tell a Fast DDS reader the verdict under the very signature a Fast DDS writer gives its filter,
    which makes the reader take our word for it."""
    theirs, _ = info_between("fastdds", "fastdds")
    ours, results = info_between("fastdds", "apus")
    expect(len(theirs) == 1, f"Fast DDS's own signatures: {theirs}")
    equal(ours, theirs, "signatures")
    equal(results, {0x80000000}, "words of results")


REFUSED = [
    ("colour = 'RED'", "colour"),
    ("x >", ""),
    ("x = 'RED'", ""),
    ("x BETWEEN %0 AND %1", "%"),
    ("", ""),
]


@case("filter/refused")
def refused():
    """What does not compile ends with exit code 2 and names the word, before anything is announced."""
    with World() as world:
        for expression, word in REFUSED:
            process = world.apus("sub", "Square", "--domain", world.domain, "--timeout", 5, "--filter",
                                 expression)
            process.wait(10, code=2)
            expect(process.errors.strip() != "", f"no message for {expression!r}")
            expect(word in process.errors, f"message for {expression!r} does not name {word!r}: "
                                           f"{process.errors.strip()[:200]}")


# Every construct Fast DDS 2.9.1 accepts: expression, parameters, and what it means. x = 1…24, y = 2x,
# size 30, RED and GREEN in turn; each lets the last sample pass, which Fast DDS sends its GAPs with.
CONSTRUCTS = [
    ("x >= 3 AND x < 7 OR x = 24", (), lambda c, x: 3 <= x < 7 or x == 24),
    ("NOT (x > 4) OR y = 48", (), lambda c, x: x <= 4 or x == 24),
    ("x NOT BETWEEN %0 AND %1", ("3", "22"), lambda c, x: not 3 <= x <= 22),
    ("color LIKE 'G%' AND x > 15", (), lambda c, x: c == "GREEN" and x > 15),
    ("color <> %0 AND 18 <= x", ("'RED'",), lambda c, x: c != "RED" and x >= 18),
    ("y > shapesize AND x <> 20", (), lambda c, x: 2 * x > 30 and x != 20),
]


def wanted_of(meaning):
    """The samples of 1…24 that pass, by colour."""
    streams = {}
    for x in range(1, 25):
        color = "RED" if x % 2 else "GREEN"
        if meaning(color, x):
            streams.setdefault(color, []).append(x)
    return streams


def every_construct(reader, writer):
    """One reader a construct, all behind one writer, which must serve each by its own condition."""
    with World() as world:
        path = world.capture()
        subs = []
        for expression, params, meaning in CONSTRUCTS:
            wanted = wanted_of(meaning)
            count = sum(len(xs) for xs in wanted.values())
            subs.append((expression, wanted, world.sub(reader, "Square", count=count, filter=expression,
                                                       params=params, timeout=60)))
        pub = world.pub(writer, "Square", count=24, colors=("RED", "GREEN"), matched=len(subs), keep_all=True,
                        timeout=60)
        for expression, wanted, sub in subs:
            equal(checks.by_color(sub.finish()), wanted, f"samples of {expression!r}")
        pub.finish(code=None if writer == "fastdds" else 0)
        checks.traffic_is_clean(world, path)
        gaps = capture.count_kind(path, capture.GAP, VENDOR[writer])
        expect(gaps > 0, f"no GAP from {writer}: it did not filter")


@case("filter/constructs-fastdds-readers")
def constructs_fastdds_readers():
    """Fast DDS readers with every construct they accept get the same from our writer, which filters."""
    every_construct("fastdds", "apus")


@case("filter/constructs-fastdds-writer")
def constructs_fastdds_writer():
    """And the reverse: our readers with the same expressions at a Fast DDS writer."""
    every_construct("apus", "fastdds")


def almost_nothing_passes(reader, writer):
    """3,000 samples, the last three pass: neither side stalls, everything is acknowledged."""
    with World() as world:
        path = world.capture()
        sub = world.sub(reader, "Square", count=3, filter="x > %0", params=("2997",), timeout=60)
        pub = world.pub(writer, "Square", count=3000, matched=1, keep_all=True, timeout=60)
        equal(checks.by_color(sub.finish()), {"RED": [2998, 2999, 3000]}, "samples")
        pub.finish(code=None if writer == "fastdds" else 0)
        sent = capture.count_kind(path, capture.DATA, VENDOR[writer])
        expect(sent < 300, f"{sent} DATA for three samples: the writer did not filter")


@case("filter/99.9-percent-fastdds-reader")
def nothing_fastdds_reader():
    """99.9 % filtered out at our writer; a Fast DDS reader."""
    almost_nothing_passes("fastdds", "apus")


@case("filter/99.9-percent-fastdds-writer")
def nothing_fastdds_writer():
    """99.9 % filtered out at a Fast DDS writer; our reader."""
    almost_nothing_passes("apus", "fastdds")


def best_effort_readers(reliable):
    """Best-effort readers of all three behind one writer, two of them filtered at it: GAPs for these leave, each with
    the sample that follows, everybody gets what it asked for, and an Apus reader counts nothing as lost."""
    wanted = {"RED": [*range(41, 61), 200]}
    words = {"count": 21, "reliable": False, "filter": "x > %0 AND x < %1 OR x = 200", "params": ("40", "61")}
    with World() as world:
        path, stats = world.capture(), os.path.join(world.directory, "sub.stats")
        theirs = world.sub("fastdds", "Square", **words)
        ours = world.sub("apus", "Square", **{**words, "count": 0}, extra=("--set", "stats.file=" + stats))
        plain = world.sub("cyclone", "Square", count=200, reliable=False)
        pub = world.pub("apus", "Square", count=200, rate=400, matched=3, keep_all=True, reliable=reliable,
                        held=True)
        for sub in (theirs, plain):
            sub.wait_matched()
        pub.release()
        equal(checks.by_color(theirs.finish()), wanted, "Fast DDS's samples")
        checks.complete(plain.finish(), 200, ("RED",))
        ours.drain(200)
        counted = [event["counters"] for event in world.apus("stats", stats, "--json").wait(20)
                   if event.get("kind") == "reader" and event.get("topic") == "Square"]
        equal(checks.by_color(ours.samples()), wanted, "our samples")
        ours.process.stop()
        pub.finish()
        checks.traffic_is_clean(world, path)
        expect(len(counted) == 1, f"readers of Square: {counted}")
        equal(counted[0]["status.lost"], 0, "lost")
        expect(counted[0]["reader.gaps"] >= 1, "no GAP came to our reader")
        # The two have a GAP in front of 41 and one in front of 200 each.
        expect(capture.count_kind(path, capture.GAP, VENDOR["apus"]) >= 4, "GAPs are missing")


@case("filter/best-effort-readers")
def best_effort_writer():
    """A best-effort writer."""
    best_effort_readers(False)


@case("filter/best-effort-readers-reliable-writer")
def reliable_writer():
    """A reliable one."""
    best_effort_readers(True)
