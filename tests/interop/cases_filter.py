# SPDX-License-Identifier: Apache-2.0
"""Content filters across vendors: announced, shown, applied at the writer, right at the reader."""

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
