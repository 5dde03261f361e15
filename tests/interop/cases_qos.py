# SPDX-License-Identifier: Apache-2.0
"""The same QoS on both sides, and what each side reports of it: peer-apus and the peers, one command line.

Each case runs all its pairs at once, on topics of their own: waiting for leases costs time, not work.
"""

import os
import signal
import time

from lib.process import Failure
from lib.runner import case, equal, expect
from lib.world import Paths, World

PAIRS = [(writer, reader) for peer in ("cyclone", "fastdds") for writer, reader in
         (("apus", peer), (peer, "apus"))] + [("apus", "apus")]


def start(world, impl, role, topic, *flags):
    program = os.path.join(Paths.peers, "tests", "interop", "peers", "peer-" + impl)
    if not os.access(program, os.X_OK):
        raise Failure(f"not built: {program}")
    return world.start([program, role, "--topic", topic, *map(str, flags)], f"{impl} {role} {topic}")


def statuses(process):
    process.poll_events()
    return [event for event in process.events if event.get("event") == "status"]


def wait_status(process, what, wanted, timeout=15):
    return process.wait_event(lambda event: event.get("event") == "status" and wanted(event), what, timeout)


# Policy id, what the writer offers, what the reader requests.
INCOMPATIBLE = (
    (2, (), ("--transient-local",)),
    (4, ("--deadline", 2000), ("--deadline", 1000)),
    (5, ("--latency", 2000), ("--latency", 1000)),
    (6, ("--ownership", "exclusive"), ()),
    (8, (), ("--liveliness", "topic")),
    (8, ("--live", 9000), ("--live", 8000)),
    (11, ("--best-effort",), ("--reliable",)),
    (12, (), ("--by-source",)),
)
# Fast DDS 2.9.1 does not compare these, and does not announce the second.
FASTDDS_IGNORES = {5, 12}


def tells(impl, other, policy):
    """Whether this side can know."""
    if impl == "fastdds":
        return policy not in FASTDDS_IGNORES
    return other != "fastdds" or policy != 12

for writer, reader in PAIRS:
    def incompatible(writer=writer, reader=reader):
        """Each policy fails alone: both sides count one endpoint, and name that policy."""
        with World() as world:
            ends = []
            for n, (policy, offered, requested) in enumerate(INCOMPATIBLE):
                topic = f"Incompatible{n}"
                sub = start(world, reader, "sub", topic, "--timeout", 60, *requested)
                pub = start(world, writer, "pub", topic, "--wait-matched", 1, "--timeout", 60, *offered)
                ends.append((policy, pub, sub))
            for policy, pub, sub in ends:
                for impl, other, process in ((writer, reader, pub), (reader, writer, sub)):
                    if not tells(impl, other, policy):
                        continue
                    event = process.wait_event(lambda e: e.get("event") == "incompatible_qos",
                                               f"incompatible QoS {policy}")
                    equal((event["policy"], event["total"]), (policy, 1), f"{process.name}")
            time.sleep(0.3)
            for policy, pub, sub in ends:
                for impl, process in ((writer, pub), (reader, sub)):
                    process.poll_events()
                    events = [e for e in process.events if e.get("event") == "incompatible_qos"]
                    ignored = "fastdds" in (writer, reader) and policy in FASTDDS_IGNORES
                    expect(len(events) == 1 or ignored, f"{process.name}: {events}")
                    matched = [e for e in process.events if e.get("event") == "matched"]
                    expect(not matched or ignored, f"{process.name} matched")
                for process in (pub, sub):
                    process.stop()
    case(f"qos/incompatible/{writer}-to-{reader}")(incompatible)


LIVE_MS = 1000

for writer, reader in PAIRS:
    def liveliness(writer=writer, reader=reader):
        """Three kinds. Asserted, a writer stays alive without writing; then silent, a manual one lapses once on both
        sides, however long that is watched; an automatic one never does."""
        with World() as world:
            runs = {}
            for kind in ("automatic", "participant", "topic"):
                qos = ("--liveliness", kind, "--live", LIVE_MS)
                sub = start(world, reader, "sub", "Live" + kind, *qos, "--timeout", 60)
                pub = start(world, writer, "pub", "Live" + kind, *qos, "--wait-matched", 1, "--count", 1,
                            "--settle", 0.3, "--linger", 7,
                            *(("--assert", 150) if kind != "automatic" else ()))
                runs[kind] = pub, sub
            # What comes before the first sample depends on who discovers whom when: a lease begins with the match.
            before = {}
            for kind, (pub, sub) in runs.items():
                sub.wait_event(lambda e: e.get("event") == "sample", "sample")
                wait_status(sub, "alive", lambda e: (e["alive"], e["not_alive"]) == (1, 0))
            time.sleep(0.3)
            for kind, (pub, sub) in runs.items():
                equal((statuses(sub)[-1]["alive"], statuses(sub)[-1]["not_alive"]), (1, 0), f"{kind}: after the sample")
                before[kind] = len(statuses(sub)), len(statuses(pub))
            time.sleep(1.7)
            for kind, (pub, sub) in runs.items():
                equal((len(statuses(sub)), len(statuses(pub))), before[kind], f"{kind}: changes while asserted")
            for kind, (pub, sub) in runs.items():
                pub.wait_event(lambda e: e.get("event") == "done", "end")
                seen = [(e["alive"], e["not_alive"]) for e in statuses(sub)[before[kind][0]:]]
                lost = len(statuses(pub)[before[kind][1]:])
                if kind == "automatic":
                    expect((0, 1) not in seen and lost == 0, f"{kind}: {seen}, lost {lost}")
                else:
                    equal((seen[:1], seen.count((0, 1)), lost), ([(0, 1)], 1, 1), f"{kind}: lapses")
                sub.stop()
    case(f"qos/liveliness/{writer}-to-{reader}")(liveliness)


for writer, reader in PAIRS:
    def deadline(writer=writer, reader=reader):
        """One sample, then silence for five periods and more: both sides count the same misses."""
        with World() as world:
            sub = start(world, reader, "sub", "Deadline", "--deadline", 300, "--timeout", 60)
            pub = start(world, writer, "pub", "Deadline", "--deadline", 300, "--wait-matched", 1, "--count", 1,
                        "--settle", 0.3, "--linger", 60)
            for process in (pub, sub):
                process.wait_event(lambda e: e.get("event") == "status" and e["deadline"] >= 5, "misses", 15)
            time.sleep(0.15)
            offered, requested = ([e["deadline"] for e in statuses(p) if e["deadline"]] for p in (pub, sub))
            expect(abs(offered[-1] - requested[-1]) <= 1, f"offered {offered}, requested {requested}")
            for counts in (offered, requested):
                equal(counts, sorted(counts), "totals")
            pub.stop()
            sub.stop()
    case(f"qos/deadline/{writer}-to-{reader}")(deadline)


LEASE_MS = 600
# What a period of the writer and a busy machine add to a lease.
LATE_MS = 500


def take_over(world, writer, reader, within_ms, *lease):
    """kill -9 of the stronger of two exclusive writers: the weaker's samples come within that time, for each instance,
    and not one of them before."""
    qos = ("--ownership", "exclusive", "--live", LEASE_MS, *lease)
    sub = start(world, reader, "sub", "Owner", *qos, "--timeout", 60, "--depth", 100)
    flags = (*qos, "--wait-matched", 1, "--rate", 100, "--count", 3000, "--colors", "RED,BLUE", "--settle", 0.3)
    strong = start(world, writer, "pub", "Owner", *flags, "--strength", 5, "--size", 5)
    sub.wait_event(lambda e: e.get("shapesize") == 5, "strong sample")
    weak = start(world, writer, "pub", "Owner", *flags, "--strength", 3, "--size", 3)
    weak.wait_event(lambda e: e.get("event") == "matched", "match")
    time.sleep(1.5)
    killed = time.time_ns()
    os.kill(strong.pid, signal.SIGKILL)
    for color in ("RED", "BLUE"):
        sub.wait_event(lambda e, c=color: e.get("shapesize") == 3 and e["color"] == c, "weak " + color, 10)
    samples = [e for e in sub.events if e.get("event") == "sample" and "x" in e]
    for color in ("RED", "BLUE"):
        mine = [e for e in samples if e["color"] == color]
        first = next(e for e in mine if e["shapesize"] == 3)
        after_ms = (first["t"] - killed) / 1e6
        print(f"    {color}: the weaker after {after_ms:.0f} ms")
        expect(first["t"] > killed, f"{color}: a weak sample before the kill")
        expect(after_ms < within_ms, f"{color}: after {after_ms} ms")
        expect(all(e["shapesize"] == 3 for e in mine[mine.index(first):]), f"{color}: interleaved")
    weak.stop()
    sub.stop()


for writer, reader in PAIRS:
    # Readers of Fast DDS 2.9.1 take the lapse of a writer's lease for no reason to forget it as an owner.
    if reader == "fastdds":
        continue

    def failover(writer=writer, reader=reader):
        """kill -9 of the stronger of two exclusive writers: the weaker takes over within the lease."""
        with World() as world:
            take_over(world, writer, reader, LEASE_MS + LATE_MS)
    case(f"qos/failover/{writer}-to-{reader}")(failover)


for writer in ("apus", "cyclone", "fastdds"):
    def failover_by_participant(writer=writer):
        """The same with a reader of Fast DDS, which forgets an owner when it is unmatched: with its participant, whose
        lease is announced apart from the writer's."""
        with World() as world:
            take_over(world, writer, "fastdds", 2 * 1000 + LATE_MS, "--lease", 1)
    case(f"qos/failover-by-participant/{writer}-to-fastdds")(failover_by_participant)


for writer, reader in PAIRS:
    def lifespan(writer=writer, reader=reader):
        """Samples whose lifespan has passed reach no late joiner; fresh ones do."""
        with World() as world:
            common = ("--transient-local", "--keep-all")
            early = start(world, reader, "sub", "Old", *common, "--count", 5, "--timeout", 20)
            # A reader may match later than its writer says; longer than half a second, and nothing would be left.
            old = start(world, writer, "pub", "Old", *common, "--count", 5, "--lifespan", 500, "--wait-matched", 1,
                        "--settle", 1.5, "--linger", 30)
            fresh = start(world, writer, "pub", "Fresh", *common, "--count", 5, "--lifespan", 60000, "--linger", 30)
            early.wait(20)
            time.sleep(0.8)
            late = start(world, reader, "sub", "Old", *common, "--count", 1, "--timeout", 20)
            control = start(world, reader, "sub", "Fresh", *common, "--count", 5, "--timeout", 20)
            control.wait(20)
            late.wait_event(lambda e: e.get("event") == "matched", "match of the late joiner")
            time.sleep(1)
            late.stop()
            late.poll_events()
            equal([e for e in late.events if e.get("event") == "sample"], [], "expired samples")
            old.stop()
            fresh.stop()
    case(f"qos/lifespan/{writer}-to-{reader}")(lifespan)


for peer in ("cyclone", "fastdds", "apus"):
    def separation(peer=peer):
        """200 samples a second for two seconds, wanted once in 200 ms: an instance gets ten of them, or eleven."""
        with World() as world:
            sub = world.apus("sub", "Fast", "--qos", "reliability=reliable,time_filter=200ms", "--json",
                             "-s", "interfaces=lo")
            pub = start(world, peer, "pub", "Fast", "--wait-matched", 1, "--rate", 200, "--count", 400, "--settle",
                        0.3, "--colors", "RED,BLUE", "--keep-all")
            pub.wait(30, None)
            time.sleep(0.3)
            sub.stop()
            sub.poll_events()
            for color in ("RED", "BLUE"):
                n = sum(1 for e in sub.events if "data" in e and e["data"].get("color") == color and "x" in e["data"])
                expect(9 <= n <= 12, f"{color}: {n} samples")
    case(f"qos/time-filter/{peer}-to-apus")(separation)


def kinds(process, *wanted):
    process.poll_events()
    return [event for event in process.events if event.get("event") in wanted]


for writer, reader in PAIRS:
    def deadline_changes(writer=writer, reader=reader):
        """Apus changes its deadline while samples flow: what still fits goes on, what does not ends."""
        with World() as world:
            fits, breaks = (("--later-deadline", ms) for ms in
                            ((1500, 2500) if writer == "apus" else (1200, 500)))
            ends = []
            for n, later in enumerate((fits, breaks)):
                topic = f"Later{n}"
                sub = start(world, reader, "sub", topic, "--deadline", 2000, "--timeout", 60, "--depth", 100,
                            *(later if writer != "apus" else ()))
                pub = start(world, writer, "pub", topic, "--deadline", 1000, "--wait-matched", 1, "--rate", 20,
                            "--count", 60, "--settle", 0.3, "--linger", 60, *(later if writer == "apus" else ()))
                ends.append((pub, sub))
            (pub, sub), (parted_pub, parted_sub) = ends
            sub.wait_event(lambda e: e.get("x") == 60, "last sample", 30)
            for impl, process in ((writer, parted_pub), (reader, parted_sub)):
                if impl == "cyclone":  # 0.10.2 does not match what it knows again
                    continue
                process.wait_event(lambda e: e.get("event") == "matched" and e["current"] == 0, "end of the match")
                event = process.wait_event(lambda e: e.get("event") == "incompatible_qos", "incompatible QoS")
                equal((event["policy"], event["total"]), (4, 1), process.name)
            for process in (pub, sub):
                equal(kinds(process, "matched", "incompatible_qos"),
                      [{"event": "matched", "current": 1, "total": 1}], process.name)
            for process in (pub, sub, parted_pub, parted_sub):
                process.stop()
    case(f"qos/deadline-change/{writer}-to-{reader}")(deadline_changes)
