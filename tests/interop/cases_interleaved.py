# SPDX-License-Identifier: Apache-2.0
"""Two reliable writers of one topic, at the same time and of the same instances, into one reader of each kind.

Method: both writers count x from 1 to COUNT at the same rate, two keys in turn. By the GUID that comes with each
sample, what the reader took is taken apart: the samples of each writer are complete, in order within each
instance, and once. That both ran at the same time is checked, too.
"""

import functools
import time

from cases_qos import start
from lib.runner import case, equal, expect
from lib.world import World

COUNT = 600
RATE = 400
TOGETHER_S = 3  # from the start of the programs to the first samples
VENDORS = ("apus", "cyclone", "fastdds")
KEYS = ("RED", "GREEN")
QOS = ("--reliable", "--keep-all")


def check(name, samples):
    writers = {sample["writer"] for sample in samples}
    equal(len(writers), 2, f"{name}: writers")
    expect(None not in writers, f"{name}: a sample without writer")
    equal(len(samples), 2 * COUNT, f"{name}: samples")
    for writer in sorted(writers):
        for first, color in enumerate(KEYS, 1):
            mine = [s for s in samples if (s["writer"], s["color"]) == (writer, color)]
            equal([s["x"] for s in mine], list(range(first, COUNT + 1, len(KEYS))), f"{name}: {writer}, {color}: x")
            equal({(s["y"] - 2 * s["x"], s["shapesize"], s["state"]) for s in mine}, {(0, 30, "alive")},
                  f"{name}: {writer}, {color}: contents")
    turns = sum(a["writer"] != b["writer"] for a, b in zip(samples, samples[1:]))
    expect(turns >= COUNT // 10, f"{name}: only {turns} turns: the writers did not run at the same time")


def interleaved(second):
    with World() as world:
        subs = [start(world, reader, "sub", "Shared", *QOS, "--count", 2 * COUNT, "--linger", 0.5, "--timeout", 40)
                for reader in VENDORS]
        pubs = [start(world, writer, "pub", "Shared", *QOS, "--colors", ",".join(KEYS), "--count", COUNT, "--rate",
                      RATE, "--wait-matched", len(subs), "--settle", 0.5, "--at", time.time() + TOGETHER_S,
                      "--timeout", 40, "--linger", 1, *(("--heartbeat", 100) if writer != "apus" else ()))
                for writer in ("apus", second)]
        for sub in subs:
            events = sub.wait(50, code=None)
            check(sub.name, [event for event in events if event.get("event") == "sample"])
        for pub in pubs:
            done = pub.wait(30)[-1]
            expect(done["acknowledged"], f"{pub.name}: {done}")


for vendor in VENDORS:
    case(f"interleaved/apus+{vendor}")(functools.partial(interleaved, vendor))
