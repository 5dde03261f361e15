# SPDX-License-Identifier: Apache-2.0
"""Discovery Servers of Fast DDS, with Apus and Fast DDS as their clients.

The servers are the packaged `fast-discovery-server`. Nobody uses multicast: whoever is found is found through a
server. Fast DDS learns of the servers by ROS_DISCOVERY_SERVER.
"""

import json
import os
import shutil
import time

import checks
from lib.capture import check_ours, tshark_fields
from lib.process import Failure
from lib.runner import Skip, case, equal, expect
from lib.world import World

PROGRAM = "fast-discovery-server"
PORTS = (11811, 11821)
COUNT = 200
# Of the first server; that of number n has 44 + n in its first byte's second half … see Fast DDS's manual.
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

    def extra(self, impl, *settings):
        """Options of the apus command; the peers have their environment."""
        if impl != "apus":
            return ()
        words = ("multicast=off", "discovery.servers=" + ",".join(self.names())) + settings
        return tuple(word for setting in words for word in ("--set", setting))


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
        sub = world.sub(sub_impl, "Square", count=COUNT, extra=servers.extra(sub_impl))
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
    for header, port, pids, vendors in tshark_fields(
            path, "rtps.vendorId == 0x01ee || rtps.guidPrefix.src[0:2] == 01:ee",
            ["rtps.guidPrefix.src", "udp.dstport", "rtps.param.id", "rtps.vendorId"]):
        if not header.startswith("01ee") or int(port) in PORTS:
            continue
        expect("0x800f" not in pids, f"PID 0x800f went to port {port}")
        expect("0x010f" not in vendors, f"the vendor of Fast DDS was claimed to port {port}")


for pair in (("apus", "apus"), ("apus", "fastdds"), ("fastdds", "apus")):
    case(f"server/{pair[0]}-to-{pair[1]}")(lambda pair=pair: exchange(*pair))


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
