# SPDX-License-Identifier: Apache-2.0
"""Type identity with Cyclone DDS: hashes, lookups in both directions, evolved types.

Method: tests/idlc/typeids.c runs a participant of each vendor over every type shape of tests/idlc and
checks; the traffic is recorded and shown to tshark.
"""

import os

import checks
from lib.process import Failure
from lib.runner import Skip, case, equal, expect
from lib.world import Paths, World

CYCLONE = ('<CycloneDDS><Domain Id="any"><General><Interfaces><NetworkInterface address="127.0.0.1" '
           'multicast="true"/></Interfaces></General></Domain></CycloneDDS>')


def start(world, *words):
    path = os.path.join(Paths.peers, "tests", "idlc", "typeids")
    if not os.access(path, os.X_OK):
        raise Skip(f"not built: {path}")
    return world.start([path, *words], "typeids " + words[0],
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


@case("types/evolved")
def evolved():
    """Older and newer appendable and mutable types match, others do not; each side asks the other."""
    with World() as world:
        path = world.capture()
        done = result(start(world, "evolved"))
        equal(done["failures"], 0, "wrong matches")
        checks.traffic_is_clean(world, path)
