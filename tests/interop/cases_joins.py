# SPDX-License-Identifier: Apache-2.0
"""Late joins at random times to a transient-local KEEP_LAST(5) keyed writer that goes on writing.

Method: a writer counts x up, KEYS keys in turn, without end. One process of the other side creates a
reader, takes until it has COUNT samples, deletes it, and again after a random pause. Of each join, for each
instance: the samples are consecutive from the first on (so none is missing, doubled or out of order), and the
first five are what the history held at the join. That has two halves, by the clock both sides share:
never older (the sixth was written after the reader began to be created) and never younger (the fifth was
written before the first was taken, so a reader that got live samples only fails).

KEEP_LAST gives a sample up five writes of its instance later even if a slow reader has yet to acknowledge it, so the
rate leaves 5 * KEYS / RATE seconds for a repair.
"""

import functools

from cases_qos import start
from lib.runner import case, equal, expect
from lib.world import World

DEPTH = 5
KEYS = ("RED", "GREEN", "BLUE", "CYAN")
RATE = 100
COUNT = len(KEYS) * (DEPTH + 4)
SLACK_NS = 1000  # RTPS times are fractions of 2^-32 s
PAIRS = (("apus", "apus"), ("apus", "cyclone"), ("apus", "fastdds"), ("cyclone", "apus"), ("fastdds", "apus"))
SMOKE_JOINS = 12
ALL_JOINS = 1000
QOS = ("--reliable", "--transient-local")


def by_join(events):
    """(n, when it began, its samples) of each join."""
    joins = []
    for event in events:
        if event.get("event") == "join":
            joins.append((event["n"], event["t"], []))
        elif event.get("event") == "sample":
            joins[-1][2].append(event)
    return joins


def check_instance(what, begun, samples):
    """One instance as one join saw it."""
    expect(all(sample["state"] == "alive" for sample in samples), f"{what}: not alive")
    xs = [sample["x"] for sample in samples]
    equal(xs, list(range(xs[0], xs[0] + len(KEYS) * len(xs), len(KEYS))), f"{what}: x")
    for sample in samples:
        equal((sample["y"], sample["shapesize"]), (2 * sample["x"], 30), f"{what}: fields")
    expect(len(xs) > DEPTH, f"{what}: only {len(xs)} samples")
    expect(samples[DEPTH]["source_time"] > begun - SLACK_NS, f"{what}: older than the last {DEPTH}")
    # From the very first sample on: the history may not have held five yet.
    if xs[0] > len(KEYS):
        expect(samples[DEPTH - 1]["source_time"] < samples[0]["t"] + SLACK_NS, f"{what}: not the last {DEPTH}")


def check_join(what, begun, samples):
    equal(len({sample["writer"] for sample in samples}), 1, f"{what}: writers")
    equal({sample["color"] for sample in samples}, set(KEYS), f"{what}: instances")
    for color in KEYS:
        check_instance(f"{what}, {color}", begun, [s for s in samples if s["color"] == color])


def start_pair(world, writer, reader, topic, joins, patience):
    pub = start(world, writer, "pub", topic, *QOS, "--depth", DEPTH, "--colors", ",".join(KEYS), "--rate", RATE,
                "--timeout", patience, *(("--heartbeat", 50) if writer != "apus" else ()))
    sub = start(world, reader, "sub", topic, *QOS, "--keep-all", "--joins", joins, "--count", COUNT,
                "--pause", 50, "--timeout", 20)
    return pub, sub


def finish_pair(pub, sub, joins, patience):
    events = sub.wait(patience)
    pub.stop()
    seen = by_join(events)
    equal([n for n, _, _ in seen], list(range(1, joins + 1)), "joins")
    for n, begun, samples in seen:
        check_join(f"{pub.name}, {sub.name}: join {n}", begun, samples)


@case("joins/smoke")
def smoke():
    """A few joins of each pair, all pairs at once."""
    with World() as world:
        ends = [start_pair(world, *pair, f"Joins{n}", SMOKE_JOINS, 60) for n, pair in enumerate(PAIRS)]
        for pub, sub in ends:
            finish_pair(pub, sub, SMOKE_JOINS, 60)


def all_joins(writer, reader):
    """The whole check: 1,000 joins."""
    with World() as world:
        pub, sub = start_pair(world, writer, reader, "Joins", ALL_JOINS, 3000)
        finish_pair(pub, sub, ALL_JOINS, 1500)


for one in PAIRS:
    case(f"joins/1000/{one[0]}-to-{one[1]}", long=True)(functools.partial(all_joins, *one))
