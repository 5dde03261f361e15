# SPDX-License-Identifier: Apache-2.0
"""Matches through shared memory: the same samples as by the network, on one host; kills, strangers, fall-backs."""

import json
import os
import random
import socket
import struct
import subprocess
import time

from lib.process import Failure
from lib.runner import case, equal, expect
from lib.world import Paths, World


class Shm:
    """A world whose Apus programs meet in a directory of its own, and tell their counters."""

    def __init__(self, world):
        self.world = world
        self.directory = os.path.join(world.directory, "s")
        self._number = 0

    def settings(self, name, on=True, directory=None):
        words = ["-s", "interfaces=lo", "-s", f"stats.file={self.file(name)}"]
        if on:
            words += ["-s", "shm=on", "-s", f"shm.directory={directory or self.directory}"]
        return words

    def file(self, name):
        return os.path.join(self.world.directory, name + ".stats")

    def sub(self, name, *words, **keys):
        return self.world.apus("sub", "Square", "--json", *self.settings(name, **keys), *words)

    def pub(self, name, *words, **keys):
        return self.world.apus("pub", "Square", *self.settings(name, **keys), *words, stdin=True)

    def counter(self, name, counter):
        """The sum of a counter over the rows of a program's file."""
        done = subprocess.run([Paths.program("apus"), "stats", "--json", self.file(name)],
                              capture_output=True, text=True, timeout=20)
        if done.returncode != 0:
            raise Failure(f"apus stats: {done.stderr.strip()}")
        return sum(_sum(json.loads(line), counter) for line in done.stdout.splitlines())


def _sum(node, name):
    if isinstance(node, dict):
        return sum(value if key == name and isinstance(value, int) else _sum(value, name)
                   for key, value in node.items())
    if isinstance(node, list):
        return sum(_sum(item, name) for item in node)
    return 0


def write(pub, first, last, color="RED"):
    for x in range(first, last + 1):
        pub.write_line(json.dumps({"color": color, "x": x, "y": 0, "shapesize": 30}))


def taken(sub):
    sub.poll_events()
    return [event["data"]["x"] for event in sub.events if "x" in event.get("data", {})]


def await_taken(sub, count, what, timeout_s=30):
    begun = time.monotonic()
    while len(taken(sub)) < count:
        expect(time.monotonic() - begun < timeout_s, f"{what}: {len(taken(sub))} of {count}")
        time.sleep(0.05)


RELIABLE = ("--qos", "reliability=reliable,history=keep_all")


@case("shm/reliable")
def reliable():
    """20,000 samples in order, once, none of them over the network; nothing is left in the directory."""
    with World() as world:
        shm = Shm(world)
        sub = shm.sub("sub", *RELIABLE, "--count", 20000, "--timeout", 60)
        pub = shm.pub("pub", *RELIABLE, "--wait-matched", 1)
        write(pub, 1, 10000)
        await_taken(sub, 10000, "first half")
        time.sleep(0.6)  # the counters' period
        equal(shm.counter("pub", "shm.matches"), 1, "matches")
        equal(shm.counter("pub", "writer.data"), 0, "samples over the network")
        write(pub, 10001, 20000)
        pub.close_input()
        pub.wait(60)
        sub.wait(60)
        equal(taken(sub), list(range(1, 20001)), "samples")
        equal(os.listdir(shm.directory), [], "names left")


@case("shm/best-effort")
def best_effort():
    """A best-effort reader that is stopped has the latest samples when it goes on, in order; what it missed is counted
    at the writer, sample for sample."""
    with World() as world:
        shm = Shm(world)
        sub = shm.sub("sub", "--qos", "history=keep_all", "--timeout", 60)
        pub = shm.pub("pub", *RELIABLE, "--wait-matched", 1)
        write(pub, 1, 20)
        await_taken(sub, 20, "before")
        os.kill(sub.pid, 19)
        write(pub, 21, 1000)
        time.sleep(0.7)
        os.kill(sub.pid, 18)
        write(pub, 1001, 1010)
        begun = time.monotonic()
        while 1010 not in taken(sub):
            expect(time.monotonic() - begun < 20, f"it stays at {taken(sub)[-1]}")
            time.sleep(0.05)
        got = taken(sub)
        equal(got, sorted(set(got)), "order")
        expect(set(range(1000 - 100, 1011)) <= set(got), "it does not have the latest")
        time.sleep(0.6)
        equal(shm.counter("pub", "writer.shm_displaced"), 1010 - len(got), "samples missed")
        pub.close_input()
        pub.wait(30)


@case("shm/late-joiner")
def late_joiner():
    """A reader that comes late has the history of a transient-local writer, then what follows."""
    with World() as world:
        shm = Shm(world)
        qos = "reliability=reliable,durability=transient_local,history="
        pub = shm.pub("pub", "--qos", qos + "keep_last:5", "--linger", 3)
        write(pub, 1, 50)
        time.sleep(1)
        sub = shm.sub("sub", "--qos", qos + "keep_all", "--count", 15, "--timeout", 30)
        await_taken(sub, 5, "history")
        write(pub, 51, 60)
        sub.wait(40)
        equal(taken(sub), list(range(46, 61)), "samples")
        pub.close_input()
        pub.wait(40)


@case("shm/writer-killed")
def writer_killed():
    """A writer killed with -9: its reader has everything that was written, and hears of the death at once, not when
    a lease ends, and removes the name it has left. What nobody is left to remove the next participant does."""
    with World() as world:
        shm = Shm(world)
        sub = shm.sub("sub", *RELIABLE, "--timeout", 60)
        pub = shm.pub("pub", *RELIABLE, "--wait-matched", 1)
        write(pub, 1, 100)
        await_taken(sub, 100, "samples")
        begun = time.monotonic()
        pub.kill()
        sub.wait_event(lambda event: event.get("state") == "no_writers", "no_writers", 5)
        print(f"     no_writers {1000 * (time.monotonic() - begun):.0f} ms after the kill")
        equal(taken(sub), list(range(1, 101)), "samples")
        while len(os.listdir(shm.directory)) > 1:
            expect(time.monotonic() - begun < 10, "the dead one's name is left")
            time.sleep(0.01)
        left = os.path.join(shm.directory, "01" * 12)  # of one that died alone
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as dead:
            dead.bind(left)
        other = shm.pub("other", *RELIABLE, "--wait-matched", 1)
        write(other, 101, 110)
        await_taken(sub, 110, "samples of the next writer")
        equal(len(os.listdir(shm.directory)), 2, "names")
        other.close_input()
        other.wait(30)


@case("shm/readers-killed")
def readers_killed():
    """Of three readers one is killed and one stopped and continued, under a stream; the third misses nothing, and the
    continued one in the end neither, as the history holds it all."""
    with World() as world:
        shm = Shm(world)
        subs = [shm.sub(f"sub{i}", *RELIABLE, "--count", 6000, "--timeout", 90) for i in range(3)]
        pub = shm.pub("pub", *RELIABLE, "--wait-matched", 3, "-s", "history.samples=8192",
                      "-s", "history.samples_per_instance=8192", "-s", "demote.after=inf")
        write(pub, 1, 1000)
        await_taken(subs[0], 1000, "before")
        os.kill(subs[1].pid, 19)
        subs[2].kill()
        write(pub, 1001, 6000)
        await_taken(subs[0], 6000, "while one is stopped")
        os.kill(subs[1].pid, 18)
        pub.close_input()
        pub.wait(60)
        for sub in subs[:2]:
            sub.wait(60)
            equal(taken(sub), list(range(1, 6001)), "samples")


@case("shm/stopped-reader-demoted")
def stopped_demoted():
    """A stopped reader holds a writer with a small history up for demote.after, no longer; continued, it has what was
    in its ring, then what the history still held, in order."""
    with World() as world:
        shm = Shm(world)
        subs = [shm.sub(f"sub{i}", *RELIABLE, "--timeout", 90) for i in range(2)]
        pub = shm.pub("pub", *RELIABLE, "--wait-matched", 2, "-s", "demote.after=500ms")
        write(pub, 1, 100)
        await_taken(subs[1], 100, "before")
        os.kill(subs[1].pid, 19)
        write(pub, 101, 4000)
        await_taken(subs[0], 4000, "while the other is stopped")
        os.kill(subs[1].pid, 18)
        write(pub, 4001, 4001)
        begun = time.monotonic()
        while 4001 not in taken(subs[1]):
            expect(time.monotonic() - begun < 30, f"it stays at {taken(subs[1])[-1]}")
            time.sleep(0.05)
        got = taken(subs[1])
        equal(got, sorted(set(got)), "order")
        expect(len(got) >= 1024, f"only {len(got)} of what the history held")
        equal(taken(subs[0]), list(range(1, 4002)), "samples of the other")
        pub.close_input()
        pub.wait(30)


@case("shm/falls-back")
def falls_back():
    """One has it off; they meet in different directories; a writer's slots are all taken: samples flow, by the
    network."""
    with World() as world:
        shm = Shm(world)
        elsewhere = shm.directory + "2"
        subs = {"off": shm.sub("off", *RELIABLE, "--count", 100, "--timeout", 60, on=False),
                "elsewhere": shm.sub("elsewhere", *RELIABLE, "--count", 100, "--timeout", 60,
                                     directory=elsewhere)}
        for i in range(3):
            subs[f"here{i}"] = shm.sub(f"here{i}", *RELIABLE, "--count", 100, "--timeout", 60)
        pub = shm.pub("pub", *RELIABLE, "--wait-matched", 5, "-s", "shm.readers=2")
        write(pub, 1, 100)
        for name, sub in subs.items():
            await_taken(sub, 100, name)
        time.sleep(0.6)
        equal(shm.counter("pub", "shm.matches"), 2, "matches")
        expect(shm.counter("pub", "shm.fallbacks") >= 1, "no fall-back is counted")
        pub.close_input()
        pub.wait(60)
        for name, sub in subs.items():
            sub.wait(60)
            equal(taken(sub), list(range(1, 101)), name)


@case("shm/many-come-and-go")
def come_and_go():
    """Twenty readers one after the other on one writer: every slot comes back, so the last one is served as the first."""
    with World() as world:
        shm = Shm(world)
        pub = shm.pub("pub", *RELIABLE, "-s", "shm.readers=2")
        written = 0
        for i in range(20):
            sub = shm.sub(f"sub{i}", *RELIABLE, "--count", 200, "--timeout", 30)
            begun = time.monotonic()
            while not taken(sub):
                expect(time.monotonic() - begun < 20, f"reader {i} gets nothing")
                write(pub, written + 1, written + 10)
                written += 10
                time.sleep(0.02)
            write(pub, written + 1, written + 250)
            written += 250
            if i % 3 == 2:
                sub.kill()
            else:
                sub.wait(30)
                got = taken(sub)
                equal(got, list(range(got[0], got[0] + 200)), f"samples of reader {i}")
        time.sleep(0.6)
        equal(shm.counter("pub", "shm.matches"), 20, "matches")
        pub.close_input()
        pub.wait(30)


def _departures(shm, qos):
    """Readers, then writers, that come, do their work and go, each beside one program that stays; returns those two."""
    pub = shm.pub("pub", *qos)
    for i in range(20):
        sub = shm.sub(f"sub{i}", *qos, "--count", 3, "--timeout", 30)
        begun, written = time.monotonic(), 0
        while sub.child.poll() is None:
            expect(time.monotonic() - begun < 30, f"reader {i} gets nothing")
            written += 1
            write(pub, written, written)
            time.sleep(0.02)
        sub.wait(10)
    sub = shm.sub("sub", *qos, "--timeout", 90)
    for i in range(10):
        other = shm.pub(f"pub{i}", *qos, "--wait-matched", 1)
        write(other, 1, 3)
        other.close_input()
        other.wait(30)
    return pub, sub


@case("shm/departures")
def departures():
    """Readers and writers, reliable and best effort, that end in good order one after the other: no death is counted and
    no fall-back. Then one of each is killed: a death each, still no fall-back."""
    for qos in (("--qos", "history=keep_all"), RELIABLE):
        with World() as world:
            shm = Shm(world)
            pub, sub = _departures(shm, qos)
            victims = [shm.sub("victim-sub", *qos, "--timeout", 60),
                       shm.pub("victim-pub", *qos, "--wait-matched", 1)]
            begun = time.monotonic()
            while not taken(victims[0]):
                expect(time.monotonic() - begun < 20, "the last reader gets nothing")
                write(pub, 1, 1)
                time.sleep(0.05)
            time.sleep(0.6)
            for name in ("pub", "sub"):
                for counter in ("shm.deaths", "shm.fallbacks", "shm.malformed"):
                    equal(shm.counter(name, counter), 0, f"{counter} of the {name} that stays")
            for victim in victims:
                victim.kill()
            begun = time.monotonic()
            while not shm.counter("pub", "shm.deaths") or not shm.counter("sub", "shm.deaths"):
                expect(time.monotonic() - begun < 8, "a death is not counted before its lease ends")
                time.sleep(0.1)
            equal(shm.counter("pub", "shm.deaths"), 1, "deaths at the writer")
            equal(shm.counter("sub", "shm.deaths"), 1, "deaths at the reader")
            for name in ("pub", "sub"):
                equal(shm.counter(name, "shm.fallbacks"), 0, f"fall-backs of the {name} that stays")
            pub.close_input()
            pub.wait(30)


class Stranger:
    """What claims to be a participant: listens, connects, and speaks for a process that can be killed."""

    HELLO, NONE, BYE = 1, 3, 10

    def __init__(self, directory, path, number):
        self.prefix = bytes([7] * 11 + [number])
        self.child = subprocess.Popen(["sleep", "60"])
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.name = os.path.join(directory, self.prefix.hex())
        self.listener.bind(self.name)
        self.listener.listen(4)
        self.link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.link.connect(path)
        self.link.setblocking(False)
        pidfd = os.pidfd_open(self.child.pid)
        socket.send_fds(self.link, [self.message(self.HELLO)], [pidfd])
        os.close(pidfd)

    def message(self, kind):
        return struct.pack("<IHH12sI16s", 0x53555041, 4, kind, self.prefix, 0, self.prefix + b"\0\0\1\2").ljust(88, b"\0")

    def say(self, kind, count=1):
        """False if that cannot be said now."""
        try:
            for _ in range(count):
                self.link.send(self.message(kind))
        except BlockingIOError:
            return False
        return True

    def kill(self):
        self.child.kill()
        self.child.wait(5)

    def end(self):
        self.kill()
        self.link.close()
        self.listener.close()


@case("shm/goodbyes")
def goodbyes():
    """Whoever has said goodbye may end as it likes, also behind much that was said before and is not read yet; whoever
    has not is dead, though somebody goes on speaking for it; after a goodbye nothing more is listened to."""
    with World() as world:
        shm = Shm(world)
        sub = shm.sub("sub", *RELIABLE, "--timeout", 60)
        pub = shm.pub("pub", *RELIABLE, "--wait-matched", 1)
        write(pub, 1, 10)
        await_taken(sub, 10, "before")
        paths = [os.path.join(shm.directory, name) for name in os.listdir(shm.directory)]
        held = [[Stranger(shm.directory, path, 4 * i + n) for n in range(4)] for i, path in enumerate(paths)]
        time.sleep(0.3)
        for process in (sub, pub):
            os.kill(process.pid, 19)
        for polite, late, dead, talker in held:
            expect(polite.say(Stranger.BYE), "goodbye")
            expect(late.say(Stranger.NONE, 100) and late.say(Stranger.BYE), "goodbye after much")
            expect(talker.say(Stranger.BYE) and talker.say(Stranger.NONE), "more after goodbye")
            while dead.say(Stranger.NONE):
                pass
            for stranger in (polite, late, dead):
                stranger.kill()
        for process in (sub, pub):
            os.kill(process.pid, 18)
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            for _, _, dead, _ in held:
                dead.say(Stranger.NONE)
        write(pub, 11, 400)
        await_taken(sub, 400, "after")
        time.sleep(0.6)
        for name in ("pub", "sub"):
            equal(shm.counter(name, "shm.deaths"), 1, f"deaths at the {name}")
            equal(shm.counter(name, "shm.malformed"), 1, f"talk after a goodbye at the {name}")
            equal(shm.counter(name, "shm.fallbacks"), 0, f"fall-backs at the {name}")
        for stranger in sum(held, []):
            stranger.end()
        pub.close_input()
        pub.wait(30)


def _pester(path, seconds, rng):
    """Connects, says random things with random descriptors, hangs up or not."""
    held, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        s.settimeout(0.5)
        try:
            s.connect(path)
            for _ in range(rng.randrange(4)):
                data = bytearray(rng.randbytes(rng.choice([1, 40, 88, 200, 256, 400])))
                if rng.random() < 0.7 and len(data) >= 8:
                    data[:8] = b"APUS\x01\x00" + bytes([rng.randrange(9), 0])
                fds = [rng.choice([0, s.fileno()]) for _ in range(rng.randrange(6))]
                socket.send_fds(s, [bytes(data)], fds)
        except OSError:
            pass
        held.append(s)
        if len(held) > 100:
            held.pop(rng.randrange(100)).close()
    for s in held:
        s.close()


@case("shm/pestered")
def pestered():
    """Somebody of the same user connects to both sides and talks nonsense, with descriptors: the stream goes on, and
    memory and descriptors stay."""
    with World() as world:
        shm = Shm(world)
        rng = random.Random(5)
        sub = shm.sub("sub", *RELIABLE, "--timeout", 60)
        pub = shm.pub("pub", *RELIABLE, "--wait-matched", 1)
        write(pub, 1, 10)
        await_taken(sub, 10, "before")
        paths = [os.path.join(shm.directory, name) for name in os.listdir(shm.directory)]
        before = [(p.rss_kib(), len(os.listdir(f"/proc/{p.pid}/fd"))) for p in (sub, pub)]
        for i in range(4):
            _pester(paths[i % 2], 1.0, rng)
            write(pub, 11 + 100 * i, 110 + 100 * i)
        await_taken(sub, 410, "after")
        time.sleep(1)
        for process, (rss, fds) in zip((sub, pub), before):
            expect(process.rss_kib() < rss + 1024, f"{process.name} has grown")
            expect(len(os.listdir(f"/proc/{process.pid}/fd")) <= fds,
                   f"{process.name} holds descriptors")
        equal(taken(sub), list(range(1, 411)), "samples")
        expect(shm.counter("pub", "shm.malformed") + shm.counter("sub", "shm.malformed") > 0,
               "nothing was refused")
        pub.close_input()
        pub.wait(30)
