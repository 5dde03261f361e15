# SPDX-License-Identifier: Apache-2.0
"""Apus on a DPDK port, the peers behind the kernel, across a veth pair.

Method: host a's end of the pair has no address of the kernel's; Apus drives it (AF_PACKET, AF_XDP) as 10.77.0.1. The
tests are those of the kernel's transports: shapes and blobs, both directions, loss, discovery by multicast and by
unicast. All traffic is recorded at host b's end, and tshark must object to none of it at any layer.
"""

import functools
import os
import subprocess

import cases_large
import checks
from lib import capture
from lib.process import Failure
from lib.runner import Skip, case, equal, expect
from lib.world import Paths, World

PORTS = {"af_packet": "net_af_packet0,iface=va,qdisc_bypass=1", "af_xdp": "net_af_xdp0,iface=va,busy_budget=0"}
PEERS = ("cyclone", "fastdds")
COUNT = 200
# Every driver, peer and direction once without --long.
SHORT = ("af_packet/apus-to-cyclone", "af_xdp/fastdds-to-apus")


def library():
    path = os.path.join(Paths.build, "dpdk", "libapus-dpdk.so")
    if not os.path.exists(path):
        raise Skip("built without DPDK")
    return path


def settings(port):
    """What host a is configured with, as words of the form name=value."""
    return ["transport=dpdk", "dpdk.port=" + PORTS[port], "dpdk.address=10.77.0.1/24",
            "dpdk.partial_checksums=accept", "dpdk.library=" + library()]


def config(world, port, *more):
    path = os.path.join(world.directory, "dpdk.conf")
    with open(path, "w") as file:
        file.write("".join(line.replace("=", " = ", 1) + "\n" for line in settings(port) + list(more)))
    return ("--config", path)


def world_of(loss=0):
    return World(two_hosts=True, bare=True, loss=loss)


def clean(world, path):
    """Nothing malformed at any layer; whom it comes from does not matter. Bad checksums are not looked for: those of the
    kernel's end of a veth are partial."""
    world.stop_captures()
    expect(capture.check_ours(path) > 0, "the capture holds no message from Apus")
    bad = capture.tshark_fields(path, "_ws.malformed && eth.src != " + world.mac("b"), ["frame.number", "frame.protocols"])
    equal(bad, [], "malformed frames of ours")
    sums = capture.tshark_fields(path, "ip.src == 10.77.0.1 && (ip.checksum.status == 0 || udp.checksum.status == 0)",
                                 ["frame.number"], ("-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE"))
    equal(sums, [], "frames of ours with a wrong checksum")


def shapes(port, pub_impl, sub_impl, loss=0, more=()):
    """Every sample of a reliable writer arrives once, in order."""
    with world_of(loss) as world:
        path = world.capture(host="b", everything=True)
        ours = config(world, port, *more)
        hosts = {"apus": "a", pub_impl if pub_impl != "apus" else sub_impl: "b"}
        sub = world.sub(sub_impl, "Square", count=COUNT, host=hosts[sub_impl],
                        extra=ours if sub_impl == "apus" else ())
        pub = world.pub(pub_impl, "Square", count=COUNT, matched=1, keep_all=True, host=hosts[pub_impl],
                        extra=ours if pub_impl == "apus" else ())
        checks.complete(sub.finish(), COUNT, ("RED",))
        pub.finish(code=None if loss else 0)
        clean(world, path)


def start_blob(world, port, impl, role, sizes, *extra):
    words = [word for setting in settings(port) for word in ("--set", setting)] if impl == "apus" else []
    host = "a" if impl == "apus" else "b"
    return world.start([cases_large.program(impl), role, "--topic", "Blobs", "--interface", world.interface[host],
                        "--sizes", sizes, *words, *map(str, extra)], f"{impl} blob {role}", host)


def message_bytes(port, impl, loss):
    """Longest datagrams of Fast DDS, 65,500 bytes by default. The kernel hands them to AF_PACKET whole, in frames that
    DPDK's buffers do not hold; and here fragments are lost, not datagrams: hardly any of 45 would be complete."""
    if impl != "fastdds" or not (loss or port == "af_packet"):
        return ()
    return ("--message-bytes", 1400 if loss else 60000)


def blobs(port, pub_impl, sub_impl, sizes, loss=0, patience=60):
    """Samples of many packets, in fragments of RTPS and of IP, each byte in its place."""
    with world_of(loss) as world:
        sub = start_blob(world, port, sub_impl, "sub", sizes, "--timeout", patience, "--linger", 0.5)
        pub = start_blob(world, port, pub_impl, "pub", sizes, "--timeout", patience, "--linger", 0.2,
                         *message_bytes(port, pub_impl, loss))
        taken = sub.wait(patience + 20)
        sent = pub.wait(patience + 20, code=None if loss else 0)
        cases_large.exact(taken, sizes)
        cases_large.told(pub_impl, sub_impl, sent, taken, sizes)


def both_ways(peer):
    return (("apus", peer), (peer, "apus"))


for port in PORTS:
    for peer in PEERS:
        for pair in both_ways(peer):
            name = f"{port}/{pair[0]}-to-{pair[1]}"
            case(f"dpdk/shapes/{name}", long=name not in SHORT)(functools.partial(shapes, port, *pair))
            case(f"dpdk/loss-10/{name}", long=True)(functools.partial(shapes, port, *pair, loss=10))
            case(f"dpdk/unicast/{name}", long=True)(
                functools.partial(shapes, port, *pair, more=("multicast=off", "peers=10.77.0.2")))
            case(f"dpdk/4-mb/{name}", long=True)(
                functools.partial(blobs, port, *pair, "0-70000:3500,100000,1048576,4194304"))
            case(f"dpdk/4-mb-loss-10/{name}", long=True)(
                functools.partial(blobs, port, *pair, "0-70000:7000,204800,1048576", loss=10))


def hostile(port, seconds):
    """A stream to Cyclone DDS stays whole while host b floods the port with bad frames; memory stays where it was."""
    count = int(100 * seconds) + 200
    with world_of() as world:
        sub = world.sub("cyclone", "Square", count=count, host="b", timeout=seconds + 60)
        pub = world.pub("apus", "Square", count=count, matched=1, keep_all=True, rate=100, host="a",
                        extra=config(world, port))
        sub.wait_sample()
        before = pub.process.rss_kib()
        flood = world.start(["python3", os.path.join(os.path.dirname(__file__), "hostile_frames.py"), "vb",
                             world.mac("a"), "10.77.0.1", str(seconds)], "hostile frames", "b")
        sent = flood.wait(seconds + 30)[-1]
        grown = pub.process.rss_kib() - before
        print(f"     {sum(value for value in sent.values() if isinstance(value, int))} bad frames, memory grew by "
              f"{grown} KiB", flush=True)
        expect(grown < 16384, f"memory grew by {grown} KiB")
        checks.complete(sub.finish(), count, ("RED",))
        pub.finish()


for port in PORTS:
    case(f"dpdk/hostile/{port}", long=port != "af_xdp")(functools.partial(hostile, port, 3))
    case(f"dpdk/hostile-60-s/{port}", long=True)(functools.partial(hostile, port, 60))
