# SPDX-License-Identifier: Apache-2.0
"""Discovery Servers of Fast DDS, with Apus and Fast DDS as their clients.

The servers are the packaged `fast-discovery-server`. Nobody uses multicast: whoever is found is found through a
server. Fast DDS learns of the servers by ROS_DISCOVERY_SERVER.
"""

import os
import shutil
import time

import checks
from lib.capture import check_ours, tshark_fields
from lib.runner import Skip, case, equal, expect
from lib.world import World

PROGRAM = "fast-discovery-server"
PORTS = (11811, 11821)
COUNT = 200
LEASE_S = 3


class Servers:
    """Servers on host a, and what their clients have to know."""

    def __init__(self, world, count=1):
        if not shutil.which(PROGRAM):
            raise Skip(f"{PROGRAM} is not installed")
        self.world, self.count = world, count
        self.address = world.interface["a"]
        self.running = {}
        for index in range(count):
            self.up(index)

    def up(self, index=0):
        self.running[index] = self.world.start(
            ["env", "-u", "ROS_DISCOVERY_SERVER", PROGRAM, "-i", str(index), "-l", self.address,
             "-p", str(PORTS[index])], f"server {index}")

    def kill(self, index=0):
        """As if its host had lost power."""
        self.running.pop(index).child.kill()

    def names(self):
        return [f"{self.address}:{port}" for port in PORTS[:self.count]]

    def extra(self, impl, *settings, typed=False):
        """Options of the apus command; the peers have their environment."""
        if impl != "apus":
            return ()
        words = ("multicast=off", "discovery.servers=" + ",".join(self.names())) + settings
        return tuple(word for setting in words for word in ("--set", setting)) + \
            (("--type", "ShapeType") if typed else ())


def meet(world, servers):
    """From here on Fast DDS is a client."""
    world.environment = dict(os.environ, ROS_DISCOVERY_SERVER=";".join(servers.names()))


def exchange(pub_impl, sub_impl, servers=1):
    """Every sample arrives, tshark objects to nothing of ours, and nobody but the server is told that we are
    Fast DDS."""
    with World() as world:
        path = world.capture()
        servers = Servers(world, servers)
        meet(world, servers)
        # Without a type `apus sub` would look around for one first, for as long as the peer needs to match.
        sub = world.sub(sub_impl, "Square", count=COUNT, extra=servers.extra(sub_impl, typed=True))
        pub = world.pub(pub_impl, "Square", count=COUNT, matched=1, keep_all=True,
                        extra=servers.extra(pub_impl))
        begun = time.monotonic()
        sub.wait_sample(30)
        print(f"     {pub_impl}-{sub_impl}: first sample after {time.monotonic() - begun:.2f} s")
        checks.complete(sub.finish(), COUNT, ("RED",))
        pub.finish(code=None)
        world.stop_captures()
        expect(check_ours(path) > 10, "hardly anything of ours was captured")
        claims_go_to_servers(path)


def claims_go_to_servers(path):
    """Of what we send, only announcements to a server name the vendor of Fast DDS, or use its parameter."""
    claimed = False
    for header, port, pids, vendors in tshark_fields(
            path, "rtps.vendorId == 0x01ee",
            ["rtps.guidPrefix.src", "udp.dstport", "rtps.param.id", "rtps.vendorId"]):
        if not header.startswith("01ee"):
            continue
        claims = "0x800f" in pids or "0x010f" in vendors
        claimed = claimed or claims
        expect(not claims or int(port) in PORTS, f"port {port} was told that we are Fast DDS")
    expect(claimed, "no server was told that we are Fast DDS: this looks for the wrong thing")


for pair in (("apus", "apus"), ("apus", "fastdds"), ("fastdds", "apus")):
    case(f"server/{pair[0]}-to-{pair[1]}", long=pair == ("apus", "apus"))(
        lambda pair=pair: exchange(*pair))


@case("server/fastdds-to-fastdds", long=True)
def reference():
    """What Fast DDS makes of it alone; for comparison."""
    with World() as world:
        servers = Servers(world)
        meet(world, servers)
        sub = world.sub("fastdds", "Square", count=COUNT)
        world.pub("fastdds", "Square", count=COUNT, matched=1, keep_all=True)
        begun = time.monotonic()
        sub.wait_sample(30)
        print(f"     fastdds-fastdds: first sample after {time.monotonic() - begun:.2f} s")
        sub.finish()


def participants(world, servers, wait=4):
    """What `apus ls` is told of, without itself."""
    rows = world.apus("ls", "--wait", wait, "--json", *servers.extra("apus")).wait(wait + 30)
    return [row for row in rows if row["kind"] == "participant" and not row["local"]], rows


@case("server/ends-are-told")
def ends():
    """ls shows the server, and what it tells of; a writer's end and a killed participant's reach the readers."""
    with World() as world:
        servers = Servers(world)
        meet(world, servers)
        sub = world.sub("apus", "Square", count=0, timeout=60, extra=servers.extra("apus"))
        pub = world.pub("apus", "Square", count=1, colors=("RED",), matched=1,
                        extra=servers.extra("apus"))
        killed = world.pub("apus", "Square", count=1, colors=("GREEN",), matched=1,
                           extra=servers.extra("apus", f"lease={LEASE_S}s", "announce.period=1s"))
        peer = world.pub("fastdds", "Square", count=1, colors=("BLUE",), matched=1, linger=4)
        for color in ("RED", "GREEN", "BLUE"):
            sub.process.wait_event(lambda event, color=color: mentions(event, color), color, 40)
        # Each run of ls is a newcomer, whom the server tells of the others one after the other.
        deadline, words = time.monotonic() + 30, []
        while words.count("by_server") < 3 and time.monotonic() < deadline:
            known, rows = participants(world, servers)
            words = sorted(row["known"] for row in known)
        equal(words[-1:], ["server"], "the server")
        expect(words.count("by_server") >= 3, f"ls knows {words}")
        writers = [row for row in rows if row["kind"] == "writer" and row["topic"] == "Square"]
        expect(len(writers) >= 2, f"ls knows {len(writers)} writers")
        killed.process.child.kill()
        pub.finish(code=None)
        peer.finish(code=None)
        sub.wait_states({"RED": "no_writers", "GREEN": "no_writers", "BLUE": "no_writers"}, 40)


def mentions(event, color):
    return event.get("data", {}).get("color") == color and event.get("state") == "alive"


@case("server/killed-and-restarted", long=True)
def restarted():
    """A stream outlives its server by more than its participants' leases; the server that comes back tells
    newcomers of its writer, and that of them."""
    with World() as world:
        servers = Servers(world)
        meet(world, servers)
        short = (f"lease={LEASE_S}s", "announce.period=1s")
        sub = world.sub("apus", "Square", count=0, timeout=120, extra=servers.extra("apus", *short))
        pub = world.pub("apus", "Square", count=6000, rate=50, matched=1, keep_all=True,
                        extra=servers.extra("apus", *short))
        sub.wait_sample(30)
        servers.kill()
        time.sleep(3 * LEASE_S)
        before = len(sub.samples())
        time.sleep(1)
        expect(len(sub.samples()) > before, "the stream has stopped without the server")
        servers.up()
        begun = time.monotonic()
        late = {impl: world.sub(impl, "Square", count=20, timeout=60, extra=servers.extra(impl))
                for impl in ("apus", "fastdds")}
        for impl, newcomer in late.items():
            newcomer.wait_sample(40)
            print(f"     {impl} joined within {time.monotonic() - begun:.1f} s of the restart")
        xs = [sample.x for sample in sub.samples()]
        equal(xs, list(range(1, len(xs) + 1)), "samples of the stream")
        pub.process.child.terminate()


@case("server/two-of-them", long=True)
def two():
    """Clients of two servers meet; without the first one, a newcomer still finds them through the second."""
    for pair in (("apus", "fastdds"), ("fastdds", "apus")):
        exchange(*pair, servers=2)
    with World() as world:
        servers = Servers(world, 2)
        meet(world, servers)
        pub = world.pub("apus", "Square", count=1500, rate=50, extra=servers.extra("apus"))
        first = world.sub("apus", "Square", count=20, extra=servers.extra("apus"))
        first.wait_sample(30)
        servers.kill(0)
        for impl in ("apus", "fastdds"):
            late = world.sub(impl, "Square", count=20, timeout=60, extra=servers.extra(impl))
            late.wait_sample(40)
        pub.process.child.terminate()


@case("server/fifty-clients", long=True)
def crowd():
    """One writer and 49 readers, 4 of them of Fast DDS, all match and all get every sample."""
    with World() as world:
        servers = Servers(world)
        meet(world, servers)
        subs = [world.sub("apus" if n < 45 else "fastdds", "Square", count=COUNT, timeout=110,
                          extra=servers.extra("apus" if n < 45 else "fastdds")) for n in range(49)]
        begun = time.monotonic()
        pub = world.pub("apus", "Square", count=COUNT, matched=49, keep_all=True, timeout=110,
                        extra=servers.extra("apus"))
        for sub in subs:
            checks.complete(sub.finish(120), COUNT, ("RED",))
        print(f"     all 50 done after {time.monotonic() - begun:.1f} s")
        pub.finish(120, code=None)


@case("server/impostor", long=True)
def impostor():
    """Under the server's name, but from another host, somebody tells of a participant: it is not believed, and
    counted. The same words from the server's own host are believed, so it is the host that matters."""
    with World(two_hosts=True) as world:
        servers = Servers(world)
        stats = "stats.file=" + os.path.join(world.directory, "stats")
        world.sub("apus", "Square", host="a", count=0, timeout=60, extra=servers.extra("apus", stats))
        forger = os.path.join(os.path.dirname(os.path.abspath(__file__)), "forged_server.py")

        def forge(host, counter):
            """Until the counter moves: first the server has to be known and to prove itself."""
            deadline = time.monotonic() + 30
            while True:
                world.start(["python3", forger, servers.address], "forger", host).wait(20)
                time.sleep(1.5)  # the counters are written once a second
                found = counters(world)
                if found[counter] > 0:
                    return found
                expect(time.monotonic() < deadline, f"{counter} stays 0, forged on host {host}")

        time.sleep(2)  # the file of counters appears
        equal(forge("b", "discovery.impostors")["discovery.relayed"], 0, "believed from host b")
        forge("a", "discovery.relayed")


def counters(world):
    """Those of the participant that keeps a file of them."""
    rows = world.apus("stats", os.path.join(world.directory, "stats"), "--json").wait(20)
    return next(row for row in rows if row["kind"] == "participant")["counters"]
