# SPDX-License-Identifier: Apache-2.0
"""Who sees whom: listing, mismatched QoS, departures in order and by kill, crowds, bad words."""

import os
import time

import checks
from lib.process import Failure
from lib.runner import case, equal, expect
from lib.world import Paths, World


def wait_matched(process, current, timeout_s=20.0):
    """Waits for a peer to report that number of matched endpoints."""
    process.wait_event(lambda e: e.get("event") == "matched" and e["current"] == current,
                       f"match count {current}", timeout_s)


def mismatch(world, impl, policy, pub, sub, pub_impl):
    """Starts a pair that must not match because of `policy` and asks `apus ls` for the reason."""
    writer = world.pub(pub_impl, "Square", linger=30, count=1, **pub)
    reader = world.sub(impl, "Square", count=1, timeout=30, **sub)
    listing = world.ls(wait=4)
    expect(checks.mentions(listing, policy), f"`apus ls --json` gives no reason {policy!r}")
    peer = writer if pub_impl != "apus" else reader
    if peer.impl != "apus":
        peer.process.poll_events()
        seen = [e["policy"] for e in peer.process.events if e.get("event") == "incompatible_qos"]
        expect(seen != [] or policy == "partition", f"{peer.impl} reports no incompatible QoS")
    return writer, reader


MISMATCHES = [
    ("reliability", {"reliable": False}, {"reliable": True}),
    ("durability", {}, {"transient_local": True}),
    ("ownership", {"exclusive": True}, {}),
    ("partition", {"partitions": ("one",)}, {"partitions": ("two",)}),
]

for policy, offered, requested in MISMATCHES:
    for pair in (("cyclone", "apus"), ("apus", "fastdds")):
        def run(policy=policy, offered=offered, requested=requested, pair=pair):
            """One policy differs; nothing may match, and the reason is told."""
            with World() as world:
                mismatch(world, pair[1], policy, offered, requested, pair[0])
        case(f"mismatch/{policy}/{pair[0]}-to-{pair[1]}")(run)


@case("partition/literal")
def partitions():
    """Readers in partition A;B get what is written into B, others do not."""
    with World() as world:
        inside = world.sub("apus", "Square", count=10, partitions=("A", "B"))
        outside = world.sub("apus", "Square", count=1, partitions=("C",), timeout=6)
        pub = world.pub("cyclone", "Square", count=10, matched=1, keep_all=True, partitions=("B",))
        checks.complete(inside.finish(), 10, ("RED",))
        equal(outside.finish(code=1), [], "samples in the other partition")
        pub.finish(code=None)


@case("departure/apus-in-order")
def orderly():
    """Peers unmatch an Apus reader that ends, long before its lease would run out."""
    with World() as world:
        peers = [world.pub(impl, "Square", count=0, rate=10) for impl in ("cyclone", "fastdds")]
        sub = world.sub("apus", "Square", count=0, timeout=60)
        for peer in peers:
            wait_matched(peer.process, 1)
        sub.process.stop()
        for peer in peers:
            wait_matched(peer.process, 0, 4)


@case("departure/peer-killed")
def peer_killed():
    """Peers killed with SIGKILL vanish from Apus when their lease has passed."""
    with World() as world:
        peers = [world.pub(impl, "Square", count=0, rate=10, extra=("--lease", "3"))
                 for impl in ("cyclone", "fastdds")]
        watcher = world.sub("apus", "Square", count=0, timeout=60)
        watcher.wait_sample()
        expect(checks.mentions(world.ls(), "Square"), "the writers are not listed")
        for peer in peers:
            peer.process.kill()
        watcher.process.stop()
        time.sleep(4)
        listing = world.ls(wait=4)
        expect(not checks.mentions(listing, "Square"), "a killed writer is still listed")


@case("restart/same-address")
def restart():
    """An Apus writer killed and started again at once is a new writer, and its samples arrive."""
    with World() as world:
        for impl in ("cyclone", "fastdds"):
            sub = world.sub(impl, "Square" + impl, count=20, timeout=60)
            first = world.pub("apus", "Square" + impl, count=10, matched=1, keep_all=True)
            sub.wait_sample()
            time.sleep(0.5)
            first.process.kill()
            second = world.pub("apus", "Square" + impl, count=10, matched=1, keep_all=True)
            samples = sub.finish()
            second.finish(code=None)
            writers = {sample.writer for sample in samples if sample.valid}
            equal(len(writers), 2, "writers seen by " + impl)


CROWD = 20
ENDPOINTS = 10
CYCLONES = 5


@case("crowd/20-apus-5-cyclone")
def crowd():
    """20 Apus processes with ten endpoints each, 5 Cyclone processes: all match; the killed vanish."""
    program = os.path.join(Paths.build, "tests", "interop", "crowd")
    if not os.access(program, os.X_OK):
        raise Failure(f"not built: {program}")
    with World() as world:
        # Each process has five writers and five readers of topics Crowd0…Crowd4.
        members = [world.start([program, "--domain", str(world.domain), "--topics", "5",
                                "--lease", "3s"], f"crowd {n}") for n in range(CROWD)]
        others = [world.sub("cyclone", "Crowd0", count=0, timeout=120, extra=("--lease", "3"))
                  for _ in range(CYCLONES)]
        # A writer matches the reader of every member, itself included, and the Cyclone readers.
        wanted = {"writers": 4 * CROWD + CROWD + CYCLONES, "readers": 5 * CROWD}
        for member in members:
            member.wait_event(lambda e: e.get("writer_matches") == wanted["writers"] and
                              e.get("reader_matches") == wanted["readers"], f"{wanted}", 60)
        for other in others:
            wait_matched(other.process, CROWD, 60)
        for victim in members[::2] + [other.process for other in others[::2]]:
            victim.kill()
        left = CROWD - len(members[::2])
        remaining = {"writers": 5 * left + CYCLONES - len(others[::2]), "readers": 5 * left}
        for member in members[1::2]:
            member.events.clear()
            member.wait_event(lambda e: e.get("writer_matches") == remaining["writers"] and
                              e.get("reader_matches") == remaining["readers"], f"{remaining}", 15)


WRONG = [
    (("pub", "Square", "--qos", "reliablity=reliable"), "reliablity"),
    (("pub", "Square", "--qos", "reliability=certain"), "certain"),
    (("sub", "Square", "--qos", "history=keep_last:0"), "keep_last"),
    (("sub", "Square", "--domain", "233"), "233"),
    (("sub", "Square", "--domain", "-1"), "-1"),
    (("sub", "Square", "--type", "NoSuchType"), "NoSuchType"),
    (("sub",), ""),
    (("fly", "Square"), "fly"),
    (("sub", "Square", "--wings", "2"), "wings"),
    (("pub", "Square", '{"color":"RED","x":1,"y":2}'), "shapesize"),
    (("pub", "Square", '{"color":"RED","x":1,"y":2,"shapesize":3,"z":4}'), "z"),
    (("pub", "Square", '{"color":"RED","x":"one","y":2,"shapesize":3}'), "x"),
    (("pub", "Square", '{"color":"RED","x":4294967296,"y":2,"shapesize":3}'), "x"),
    (("pub", "Square", '{"color":'), ""),
]


@case("usage/refused")
def wrong_usage():
    """Wrong words end with exit code 2 and a message that names the word; nothing is sent."""
    with World() as world:
        for words, named in WRONG:
            process = world.apus(*words)
            process.wait(10, code=2)
            expect(process.errors.strip() != "", f"no message for {words}")
            expect(named in process.errors,
                   f"message for {words} does not name {named!r}: {process.errors.strip()[:200]}")


@case("usage/interface-missing")
def no_such_interface():
    """An interface that does not exist is a clear error that names it."""
    with World() as world:
        config = os.path.join(world.directory, "apus.conf")
        with open(config, "w") as file:
            file.write("interfaces = nowhere0\n")
        process = world.apus("sub", "Square", "--timeout", 2, "--config", config)
        process.wait(10, code=None)
        expect(process.child.returncode in (2, 3), f"exit code {process.child.returncode}")
        expect("nowhere0" in process.errors, "the message does not name the interface")


@case("usage/timeout")
def times_out():
    """`apus sub` without any writer ends with 1 when its time is over."""
    with World() as world:
        process = world.apus("sub", "Square", "--count", 1, "--timeout", 1)
        process.wait(10, code=1)
