# SPDX-License-Identifier: Apache-2.0
"""Applications behind a worker process (`apus worker`), and peers on another host.

Method: host a has one worker process and two applications that have no sockets of their own (their ports are asserted to
be the process's); host b has a peer of each vendor. Then the same with loss, and with each of the three processes
killed under traffic.
"""

import functools
import os
import signal
import subprocess
import time

import checks
from lib.process import Failure
from lib.runner import Skip, case, equal, expect
from lib.world import Paths, World

COUNT = 300


class Behind:
    """A worker process on host a, and what applications of it are started with."""

    def __init__(self, world, *settings, host="a"):
        self.world, self.host = world, host
        self.directory = os.path.join(world.directory, "w")
        os.mkdir(self.directory, 0o700)
        self.settings = settings
        self.process = None
        self.start()

    def start(self):
        words = [word for s in (f"worker.directory={self.directory}", *self.settings)
                 for word in ("--set", s)]
        self.process = self.world.apus("worker", "--json", *words, host=self.host)
        self.process.wait_event(lambda event: event.get("event") == "ready", "ready")

    def kill(self):
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait(20, None)

    @property
    def extra(self):
        return ("--set", "transport=worker", "--set", f"worker.directory={self.directory}")

    def attached(self, pid):
        """The ports of an application."""
        self.process.poll_events()
        return [event["port"] for event in self.process.events
                if event.get("event") == "attached" and event["pid"] == pid]

    def await_detached(self, pid, text, count=2):
        """Waits until that many queues of a process have been taken back, for this reason."""
        begun = time.monotonic()
        while True:
            self.process.poll_events()
            gone = [event["text"] for event in self.process.events
                    if event.get("event") == "detached" and event["pid"] == pid]
            if len(gone) >= count:
                return equal(set(gone), {text}, "why its queues were taken back")
            expect(time.monotonic() - begun < 20, f"only {len(gone)} queues were taken back")
            time.sleep(0.02)

    def sockets_of(self, pid):
        """Ports of UDP sockets that a process has itself."""
        done = subprocess.run(self.world.prefix(self.host) + ["ss", "-uanpH"], capture_output=True,
                              text=True, timeout=10, check=True)
        return [line for line in done.stdout.splitlines() if f"pid={pid}," in line]

    def end(self):
        """Stops it in order; its counters."""
        os.kill(self.process.pid, signal.SIGTERM)
        self.process.wait(20)
        return next(event for event in self.process.events if event.get("event") == "end")


def exchange(peer, loss, *settings):
    """Two applications, one to the peer and one from it, each complete and in order."""
    with World(two_hosts=True, loss=loss) as world:
        path = world.capture()
        behind = Behind(world, *settings)
        there = world.sub(peer, "Square", count=COUNT, timeout=60)
        here = world.sub("apus", "Circle", host="a", count=COUNT, timeout=60, extra=behind.extra)
        out = world.pub("apus", "Square", count=COUNT, matched=1, keep_all=True,
                        extra=behind.extra)
        back = world.pub(peer, "Circle", host="b", count=COUNT, matched=1, keep_all=True, settle=1,
                         timeout=60)
        checks.complete(there.finish(80), COUNT, ("RED",))
        checks.complete(here.finish(80), COUNT, ("RED",))
        out.finish(60, code=None if loss else 0)
        back.finish(60, code=None)
        for pid in (here.process.pid, out.process.pid):
            equal(len(behind.attached(pid)), 2, "queues of an application")
        counters = behind.end()
        equal((counters["relay.reclaimed"], counters["relay.broken"], counters["relay.bad"]),
              (0, 0, 0), "reclaimed, broken, bad")
        expect(counters["relay.in"] > COUNT // 20 and counters["relay.out"] > COUNT // 20,
               "hardly anything went through the worker process")
        checks.traffic_is_clean(world, path)


for vendor in ("cyclone", "fastdds"):
    case(f"worker/exchange/{vendor}")(functools.partial(exchange, vendor, 0))
    case(f"worker/loss-10/{vendor}", long=vendor != "cyclone")(functools.partial(exchange, vendor, 10))
case("worker/exchange-two-threads", long=True)(
    functools.partial(exchange, "cyclone", 0, "worker.count=2", "transport=socket"))


@case("worker/dpdk")
def dpdk():
    """The worker process drives the interface without the kernel, and three applications share its address: two talk to
    the peer, and two to each other."""
    library = os.path.join(Paths.build, "dpdk", "libapus-dpdk.so")
    if not os.path.exists(library):
        raise Skip("built without DPDK")
    with World(two_hosts=True) as world:
        done = subprocess.run(world.prefix("a") + ["ip", "addr", "flush", "dev", "va"],
                              capture_output=True, text=True, timeout=10)
        equal(done.returncode, 0, "the kernel gives the address up")
        behind = Behind(world, "transport=dpdk", "dpdk.port=net_af_packet0,iface=va,qdisc_bypass=1",
                        "dpdk.address=10.77.0.1/24", "dpdk.partial_checksums=accept",
                        "dpdk.library=" + library, "worker.idle=pause", "stats.file=" + world.directory + "/stats")
        there = world.sub("cyclone", "Square", count=COUNT, timeout=60)
        here = world.sub("apus", "Circle", host="a", count=COUNT, timeout=60, extra=behind.extra)
        beside = world.sub("apus", "Square", host="a", count=COUNT, timeout=60, extra=behind.extra)
        out = world.pub("apus", "Square", count=COUNT, matched=2, keep_all=True,
                        extra=behind.extra)
        back = world.pub("cyclone", "Circle", host="b", count=COUNT, matched=1, keep_all=True,
                         settle=1, timeout=60)
        here.wait_sample()
        time.sleep(0.5)
        (row,) = world.apus("stats", world.directory + "/stats", "--json").wait(20)
        equal((row["kind"], row["name"], row["problem"]), ("worker", "default", ""), "the row of the counter file")
        expect(row["matched"] >= 2 and row["counters"]["port.rx_frames"] > 0 and row["counters"]["relay.in"] > 0,
               f"the counter file shows no traffic: {row}")
        for sub in (there, here, beside):
            checks.complete(sub.finish(80), COUNT, ("RED",))
        out.finish(60)
        back.finish(60, code=None)
        end = behind.end()
        expect(end["port.rx_frames"] > 0 and end["ip.rx.udp"] > 0 and end["ip.drop.short"] == 0,
               f"no counters of the port at the end: {end}")
        equal(end["relay.refused"], 0, "refusals: looking for a free index is none")
        expect(end["relay.taken"] > 0 and not os.path.exists(world.directory + "/stats"), "taken ports, or a file left")


@case("worker/one-host")
def one_host():
    """Two applications of one worker process hear each other; they have no UDP socket, it has them all."""
    with World() as world:
        behind = Behind(world)
        sub = world.sub("apus", "Square", host="a", count=COUNT, extra=behind.extra)
        pub = world.pub("apus", "Square", count=COUNT, rate=100, matched=1, keep_all=True,
                        extra=behind.extra)
        sub.wait_sample()
        for process in (sub.process, pub.process):
            equal(behind.sockets_of(process.pid), [], "UDP sockets of an application")
            equal(len(behind.attached(process.pid)), 2, "queues of an application")
        expect(len(behind.sockets_of(behind.process.pid)) >= 4, "the worker process has none")
        checks.complete(sub.finish(), COUNT, ("RED",))
        pub.finish()
        behind.await_detached(pub.process.pid, "closed")


@case("worker/application-is-killed")
def application_is_killed():
    """Killed applications lose their ports at once; another one's stream goes on, and the next has the ports."""
    with World(two_hosts=True) as world:
        behind = Behind(world)
        victim = world.sub("apus", "Circle", host="a", count=0, extra=behind.extra)
        there = world.sub("cyclone", "Square", count=600, timeout=60)
        noise = world.pub("cyclone", "Circle", host="b", count=100000, rate=300, timeout=60,
                          depth=10)
        out = world.pub("apus", "Square", count=600, rate=200, matched=1, keep_all=True,
                        extra=behind.extra)
        there.wait_sample()
        victim.wait_sample()
        for _ in range(3):
            ports = behind.attached(victim.process.pid)
            os.kill(victim.process.pid, signal.SIGKILL)
            behind.await_detached(victim.process.pid, "its process has died")
            victim = world.sub("apus", "Circle", host="a", count=0, extra=behind.extra)
            victim.wait_sample()
            equal(behind.attached(victim.process.pid), ports, "ports of the next application")
        checks.complete(there.finish(80), 600, ("RED",))
        out.finish()
        noise.process.stop()
        victim.process.stop()
        expect(behind.end()["relay.reclaimed"] >= 6, "nothing was reclaimed")


def worker_is_killed(peer):
    """The worker process is killed twice under traffic and started again: applications keep their ports, no sample is
    missing, and both streams go on within a second."""
    with World(two_hosts=True) as world:
        behind = Behind(world)
        there = world.sub(peer, "Square", count=1200, timeout=80)
        here = world.sub("apus", "Circle", host="a", count=1200, timeout=80, extra=behind.extra)
        out = world.pub("apus", "Square", count=1200, rate=200, matched=1, keep_all=True,
                        extra=behind.extra)
        back = world.pub(peer, "Circle", host="b", count=1200, rate=200, matched=1, settle=1,
                         keep_all=True, timeout=80, linger=5)
        there.wait_sample()
        here.wait_sample()
        applications = (here.process.pid, out.process.pid)
        gaps = []
        for _ in range(2):
            ports = {pid: sorted(behind.attached(pid)) for pid in applications}
            behind.kill()
            behind.start()
            begun = time.monotonic()
            before = len(there.samples()), len(here.samples())
            for pid in applications:
                while len(behind.attached(pid)) < 2:
                    expect(time.monotonic() - begun < 20, "an application did not come back")
                    time.sleep(0.01)
            gaps.append(time.monotonic() - begun)
            while len(there.samples()) <= before[0] or len(here.samples()) <= before[1]:
                expect(time.monotonic() - begun < 20, "a stream does not go on")
                time.sleep(0.01)
            gaps.append(time.monotonic() - begun)
            for pid in applications:
                equal(sorted(behind.attached(pid)), ports[pid], "ports after the restart")
            time.sleep(1)
        print("     attached again, and both streams on, after (ms): " +
              ", ".join(f"{1000 * gap:.0f}" for gap in gaps), flush=True)
        checks.complete(there.finish(90), 1200, ("RED",))
        checks.complete(here.finish(90), 1200, ("RED",))
        out.finish(60)
        back.finish(60, code=None)
        behind.end()


for vendor in ("cyclone", "fastdds"):
    case(f"worker/worker-is-killed/{vendor}", long=vendor != "cyclone")(functools.partial(worker_is_killed, vendor))


@case("worker/nobody-there")
def nobody_there():
    """Without a worker process, and with settings that have no effect, a command says what is wrong."""
    with World() as world:
        directory = os.path.join(world.directory, "none")
        os.mkdir(directory, 0o700)

        def refused(words, code, text):
            process = world.apus(*words)
            process.wait(20, code)
            if text not in process.errors:
                raise Failure(f"'{text}' is not in: {process.errors}")

        refused(("sub", "Square", "-s", "transport=worker", "-s", f"worker.directory={directory}"), 3,
                "no worker process of the name 'default' runs")
        refused(("sub", "Square", "-s", "worker.queues=3"), 3, "worker.queues: has no effect")
        refused(("sub", "Square", "-s", "worker.name=x"), 3, "worker.name: has no effect")
        refused(("worker", "-s", "transport=worker"), 2, "needs one of its own")
        refused(("worker", "-s", "lease=30s"), 2, "lease: has no effect on a worker process")
        refused(("worker", "-s", "interfaces=eth77"), 3, "no interface is named 'eth77'")
        behind = Behind(world)
        refused(("worker", "-s", f"worker.directory={behind.directory}"), 3,
                "another worker process of that name runs")
        behind.end()
