# SPDX-License-Identifier: Apache-2.0
"""Streams between Apus and each peer, both ways: reliable, best-effort, late joiners, ends, loss.

Method: a publisher writes x = 1…1,000 with two keys in turn; the subscriber's output is compared with
what was written. Everything runs in network namespaces of the test's own, and all traffic is recorded
and shown to tshark.
"""

import functools

import checks
from lib import capture
from lib.runner import case, equal, expect
from lib.world import World

COUNT = 1000
COLORS = ("RED", "GREEN")
PAIRS = [("cyclone", "apus"), ("apus", "cyclone"), ("fastdds", "apus"), ("apus", "fastdds"),
         ("apus", "apus")]


def settle(writer):
    """A Fast DDS writer may match seconds before its announcement gets through (heartbeats every 3 s);
    what it writes meanwhile is lost to a best-effort reader, by right."""
    return 4 if writer == "fastdds" else 0.5


def each_pair(name, pairs=tuple(PAIRS), **options):
    """Registers the function as one case a pair (writer, reader)."""
    def register(function):
        for writer, reader in pairs:
            case(f"{name}/{writer}-to-{reader}")(
                functools.partial(function, writer, reader, **options))
        return function
    return register


@each_pair("reliable")
def reliable(writer, reader):
    """All of 1,000 samples, in order, once; the writer ends by itself, acknowledged."""
    with World() as world:
        path = world.capture()
        sub = world.sub(reader, "Square", count=COUNT)
        pub = world.pub(writer, "Square", count=COUNT, colors=COLORS, matched=1, keep_all=True)
        samples = sub.finish()
        pub.finish()
        checks.complete(samples, COUNT, COLORS)
        checks.traffic_is_clean(world, path)


def stream_best_effort(world, writer, reader, count, path, **options):
    """Samples of a best-effort reader. What is written before it has matched, or finds no room in its
    socket because the machine is busy, is lost by right, and by nothing of ours; next to nothing else."""
    sub = world.sub(reader, "Square", count=0, reliable=False, timeout=60)
    pub = world.pub(writer, "Square", count=count, colors=COLORS, matched=1, rate=1000,
                    linger=0.5, settle=settle(writer), held=True, **options)
    sub.wait_matched()
    pub.release()
    sub.wait_sample()
    # A writer that leaves may overtake its last samples, which come by another socket.
    sub.drain(count)
    pub.finish()
    sub.process.stop()
    sub.process.wait(5, code=None)
    world.stop_captures()
    if writer == "apus" and reader != "apus":
        equal(capture.user_samples(path), list(range(1, count + 1)), "sequence numbers on the wire")
    checks.increasing(sub.samples(), count * 9 // 10 - world.socket_drops())


@each_pair("best-effort")
def best_effort(writer, reader):
    """In order, no duplicate; next to nothing is lost, and Apus puts every sample on the wire."""
    with World() as world:
        path = world.capture()
        stream_best_effort(world, writer, reader, COUNT, path, reliable=False)
        checks.traffic_is_clean(world, path)


@each_pair("best-effort-reader")
def best_effort_reader(writer, reader):
    """A reliable writer serves a reader that asks for less."""
    with World() as world:
        stream_best_effort(world, writer, reader, 200, world.capture(), keep_all=True)


@each_pair("late-joiner")
def late_joiner(writer, reader):
    """A transient-local reader that comes late gets exactly what the writer's history holds."""
    with World() as world:
        path = world.capture()
        pub = world.pub(writer, "Square", count=20, colors=COLORS, transient_local=True, depth=5,
                        linger=10)
        pub.wait_written()
        late = world.sub(reader, "Square", count=10, transient_local=True, depth=5, keep_all=False,
                         linger=1)
        samples = late.finish()
        last_five = {"RED": [11, 13, 15, 17, 19], "GREEN": [12, 14, 16, 18, 20]}
        equal(checks.by_color(samples), last_five, "samples by colour")
        pub.finish()
        checks.traffic_is_clean(world, path)


@each_pair("volatile-late-joiner")
def volatile_late_joiner(writer, reader):
    """A volatile reader that comes late gets nothing of the past, and all of the future."""
    with World() as world:
        first = world.sub("apus" if writer == "apus" else writer, "Square", host="a", count=COUNT)
        pub = world.pub(writer, "Square", count=COUNT, colors=("RED",), matched=1, rate=300,
                        keep_all=True)
        first.wait_sample()
        late = world.sub(reader, "Square", count=100)
        xs = checks.by_color(late.finish()).get("RED", [])
        expect(len(xs) >= 100, f"only {len(xs)} samples")
        expect(xs[0] > 1, "the late reader got the first sample")
        equal(xs, list(range(xs[0], xs[0] + len(xs))), "x of the late reader")
        first.finish()
        pub.finish()


@each_pair("ends")
def ends(writer, reader):
    """Dispose and unregister arrive with the right state for the right instance."""
    with World() as world:
        path = world.capture()
        sub = world.sub(reader, "Square", count=0)
        pub = world.pub(writer, "Square", count=4, colors=COLORS, matched=1, keep_all=True,
                        dispose="RED", unregister="GREEN", linger=20, settle=settle(writer))
        pub.end_input()
        sub.wait_states({"RED": "disposed", "GREEN": "no_writers"})
        sub.process.stop()
        sub.process.wait(5, code=None)
        samples = sub.samples()
        pub.process.stop()
        equal(checks.states(samples), {"RED": "disposed", "GREEN": "no_writers"}, "states")
        equal(checks.by_color(samples), {"RED": [1, 3], "GREEN": [2, 4]}, "samples by colour")
        checks.traffic_is_clean(world, path)


def lossy(loss, writer, reader):
    """Reliable means reliable: everything arrives, in order, whatever the network drops."""
    # Fast DDS heartbeats every 3 s by default, so a lost tail takes long: give it time.
    with World(two_hosts=True, loss=loss) as world:
        path = world.capture()
        patience = 120 if loss >= 30 else 60
        extra = ("--heartbeat", "200") if writer != "apus" else ()
        sub = world.sub(reader, "Square", count=COUNT, timeout=patience, linger=3)
        pub = world.pub(writer, "Square", count=COUNT, colors=COLORS, matched=1, rate=500,
                        keep_all=True, timeout=patience, linger=3, extra=extra)
        samples = sub.finish(patience + 20)
        pub.finish(patience + 20, code=None)
        checks.complete(samples, COUNT, COLORS)
        checks.traffic_is_clean(world, path)


for percent in (10, 30):
    for pair in PAIRS:
        case(f"loss-{percent}/{pair[0]}-to-{pair[1]}")(functools.partial(lossy, percent, *pair))


@each_pair("two-hosts")
def two_hosts(writer, reader):
    """The same over a virtual Ethernet between two addresses, without loss."""
    with World(two_hosts=True) as world:
        path = world.capture()
        sub = world.sub(reader, "Square", count=COUNT)
        pub = world.pub(writer, "Square", count=COUNT, colors=COLORS, matched=1, keep_all=True)
        checks.complete(sub.finish(), COUNT, COLORS)
        pub.finish()
        checks.traffic_is_clean(world, path)
