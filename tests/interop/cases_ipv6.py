# SPDX-License-Identifier: Apache-2.0
"""IPv6: discovery and samples with every peer, by multicast and by unicast, in both directions."""

import os
import subprocess

import checks
from lib.capture import check_ours, tshark_fields
from lib.process import Failure
from lib.runner import case, equal, expect
from lib.world import World

COUNT = 200


def config(world, host, *lines):
    """A configuration file of IPv6 for the apus command."""
    path = os.path.join(world.directory, f"ipv6-{host}.conf")
    with open(path, "w") as file:
        file.write("\n".join(("transport.ipv6 = on",) + lines) + "\n")
    return ("--config", path)


def extra(world, impl, host, *lines):
    return config(world, host, *lines) if impl == "apus" else ()


def exchange(pub_impl, sub_impl, *lines):
    """Every sample arrives, all of it by IPv6, and tshark objects to nothing of ours."""
    with World(two_hosts=True, ipv6=True) as world:
        path = world.capture()
        sub = world.sub(sub_impl, "Square", count=COUNT, extra=extra(world, sub_impl, "b"))
        pub = world.pub(pub_impl, "Square", count=COUNT, matched=1, keep_all=True,
                        extra=extra(world, pub_impl, "a", *lines))
        checks.complete(sub.finish(), COUNT, ("RED",))
        pub.finish(code=None)
        world.stop_captures()
        expect(check_ours(path) > 10, "hardly anything of ours was captured")
        equal(tshark_fields(path, "rtps && ip", ["frame.number"]), [], "RTPS by IPv4")


for pair in (("apus", "apus"), ("apus", "cyclone"), ("cyclone", "apus"), ("apus", "fastdds"),
             ("fastdds", "apus")):
    case(f"ipv6/{pair[0]}-to-{pair[1]}")(
        lambda pair=pair: exchange(*pair))


@case("ipv6/peers-without-multicast")
def unicast():
    """A peer named by its address in brackets is found without any multicast."""
    exchange("apus", "apus", "multicast = off", "peers = [fd77::2]")


@case("ipv6/address-changes")
def address_changes():
    """An address replaced on the writer's side is announced and followed."""
    def ip(world, *words):
        done = subprocess.run(["ip", "-n", world.prefix("a")[3], "-6", *words], capture_output=True,
                              text=True)
        if done.returncode != 0:
            raise Failure(done.stderr.strip())
    with World(two_hosts=True, ipv6=True) as world:
        sub = world.sub("apus", "Square", count=400, extra=config(world, "b"))
        pub = world.pub("apus", "Square", count=400, matched=1, keep_all=True, rate=100,
                        extra=config(world, "a"))
        sub.wait_sample()
        ip(world, "addr", "del", "fd77::1/64", "dev", "va")
        ip(world, "addr", "add", "fd77::9/64", "dev", "va", "nodad")
        checks.complete(sub.finish(), 400, ("RED",))
        pub.finish(code=None)
