# SPDX-License-Identifier: Apache-2.0
"""Apus on a DPDK port, the peers behind the kernel, across a veth pair.

Method: host a's end of the pair has no address of the kernel's; Apus drives it (AF_PACKET, AF_XDP) as 10.77.0.1. The
tests are those of the kernel's transports: shapes and blobs, both directions, loss, discovery by multicast and by
unicast. All traffic is recorded at host b's end, and tshark must object to none of it at any layer.
"""

import functools
import os
import shutil
import subprocess
import time

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
    """A file with these settings, later ones winning."""
    path = os.path.join(world.directory, "dpdk.conf")
    with open(path, "w") as file:
        file.write("".join(line.replace("=", " = ", 1) + "\n" for line in settings(port) + list(more)))
    return ("--config", path)


IPV6 = ("transport.ipv6=on", "dpdk.address=", "dpdk.ipv6=fd77::1/64")


def world_of(loss=0, **more):
    return World(two_hosts=True, bare=True, loss=loss, **more)


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


def shapes(port, pub_impl, sub_impl, loss=0, more=(), judge=None, **world_words):
    """Every sample of a reliable writer arrives once, in order. judge: is given the world and the capture."""
    with world_of(loss, **world_words) as world:
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
        if judge:
            judge(world, path)


def is_there(path, what, shown):
    expect(capture.tshark_fields(path, shown, ["frame.number"]), what + " of ours is not in the capture")


def judge_ipv6(world, path):
    for what, shown in (("a solicitation", "icmpv6.type == 135"), ("an advertisement", "icmpv6.type == 136"),
                        ("a report of MLDv2", "icmpv6.type == 143"), ("RTPS", "rtps")):
        is_there(path, what, f"{shown} && ipv6 && eth.src == {world.mac('a')}")
    equal(capture.tshark_fields(path, "rtps && ip", ["frame.number"]), [], "RTPS by IPv4")


def ipv6(port, *pair):
    """By neighbour discovery and MLD in place of ARP and IGMP: both are on the wire, and nothing by IPv4."""
    shapes(port, *pair, more=IPV6, judge=judge_ipv6, ipv6=True)


def judge_vlan(world, path):
    for what, shown in (("RTPS", "rtps"), ("ARP", "arp"), ("a report of IGMP", "igmp")):
        is_there(path, what, f"{shown} && vlan.id == 7 && eth.src == {world.mac('a')}")
    equal(capture.tshark_fields(path, f"eth.src == {world.mac('a')} && !vlan", ["frame.number"]), [], "frames of ours without a tag")


def vlan(port, *pair):
    """Every frame of ours has the tag, and theirs are taken with it only."""
    if not shutil.which("clang") or not shutil.which("tc"):
        raise Skip("no clang or no tc to make a VLAN with")
    shapes(port, *pair, more=("dpdk.vlan=7",), judge=judge_vlan, vlan=7)


def start_blob(world, port, impl, role, sizes, *extra):
    words = [word for setting in settings(port) for word in ("--set", setting)] if impl == "apus" else []
    host = "a" if impl == "apus" else "b"
    return world.start([cases_large.program(impl), role, "--topic", "Blobs", "--interface", world.interface[host],
                        "--sizes", sizes, *words, *map(str, extra)], f"{impl} blob {role}", host)


def message_bytes(impl, loss):
    """Longest datagrams of Fast DDS, 65,500 bytes by default. With loss it is fragments of IP that are lost, not datagrams:
    hardly any of 45 would be complete, on whatever transport."""
    return ("--message-bytes", 1400) if impl == "fastdds" and loss else ()


def blobs(port, pub_impl, sub_impl, sizes, loss=0, patience=60):
    """Samples of many packets, in fragments of RTPS and of IP, each byte in its place."""
    with world_of(loss) as world:
        sub = start_blob(world, port, sub_impl, "sub", sizes, "--timeout", patience, "--linger", 0.5)
        pub = start_blob(world, port, pub_impl, "pub", sizes, "--timeout", patience, "--linger", 0.2,
                         *message_bytes(pub_impl, loss))
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
                functools.partial(blobs, port, *pair, "0-70000:7000,204800,1048576,4194304", loss=10))


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


# Each peer, direction and driver over IPv6 and in a VLAN.
for port, pair in (("af_packet", ("apus", "cyclone")), ("af_xdp", ("fastdds", "apus")), ("af_packet", ("fastdds", "apus")),
                   ("af_xdp", ("apus", "cyclone")), ("af_packet", ("cyclone", "apus")), ("af_xdp", ("apus", "fastdds")),
                   ("af_packet", ("apus", "fastdds")), ("af_xdp", ("cyclone", "apus"))):
    name = f"{port}/{pair[0]}-to-{pair[1]}"
    case(f"dpdk/ipv6/{name}", long=True)(functools.partial(ipv6, port, *pair))
    case(f"dpdk/vlan/{name}", long=True)(functools.partial(vlan, port, *pair))

# Two sockets that share what comes in by the hash of addresses and ports.
for peer in PEERS:
    case(f"dpdk/two-queues/{peer}-to-apus", long=True)(
        functools.partial(shapes, "af_packet", peer, "apus", more=("dpdk.queues=2",)))


@case("dpdk/queue-of-another-process")
def queue_of_another_process():
    """A second process is refused the queue of an AF_XDP interface by name, and the first goes on hearing: the driver of the
    refused one would have taken the first one's program off the interface."""
    with world_of() as world:
        sub = world.sub("apus", "Square", count=COUNT, host="a", timeout=60, extra=config(world, "af_xdp"))
        pub = world.pub("cyclone", "Square", count=COUNT, matched=1, keep_all=True, host="b", rate=50, timeout=60)
        sub.wait_sample()
        for _ in range(3):
            refused(world, 3, "another process has queue 0 of va", "dpdk.address=10.77.0.9/24", port="af_xdp")
        before = len(sub.samples())
        expect(before < COUNT, "the stream was over before anybody was refused")
        checks.complete(sub.finish(), COUNT, ("RED",))
        pub.finish()


def refused(world, code, text, *more, port="af_packet"):
    """A command on host a ends so, and says that."""
    words = [word for setting in [*settings(port), *more] for word in ("--set", setting)]
    process = world.apus("ls", "--wait", 0.2, *words)
    process.wait(20, code)
    if text not in process.errors:
        raise Failure(f"'{text}' is not in: {process.errors}")
    expect("libbpf" not in process.errors and "libxdp" not in process.errors, f"noise: {process.errors}")


@case("dpdk/set-ups-that-cannot-work")
def set_ups():
    """What is certain to fail is refused by name, what may mend itself is told."""
    def ip(*words):
        done = subprocess.run(["ip", "-n", world.prefix("a")[3], *words], capture_output=True, text=True)
        equal((done.returncode, done.stderr), (0, ""), "ip " + " ".join(words))

    with world_of(ipv6=True) as world:
        for port in PORTS:
            refused(world, 3, f"10.77.0.2 is in use on this link, by {world.mac('b')}", "dpdk.address=10.77.0.2/24", port=port)
        refused(world, 3, "fd77::2 is in use on this link, by", "transport.ipv6=on", "dpdk.address=", "dpdk.ipv6=fd77::2/64")
        refused(world, 3, "va has 1 receive queues, not 2", "dpdk.queues=2", port="af_xdp")
        refused(world, 3, "dpdk.queues says how many", "dpdk.port=net_af_packet0,iface=va,qpairs=2")
        refused(world, 3, "there is no interface 'vx'", "dpdk.port=net_af_packet0,iface=vx")
        first = world.apus("sub", "Square", "--verbose", "--json", *config(world, "af_packet"))
        deadline = time.monotonic() + 20
        while "metatraffic" not in first.errors and time.monotonic() < deadline:
            time.sleep(0.05)
        refused(world, 3, "another process has 10.77.0.1 on va")
        first.stop()
        ip("addr", "add", "10.77.0.1/24", "dev", "va")
        refused(world, 3, "the kernel has 10.77.0.1 as well, on va")
        ip("addr", "del", "10.77.0.1/24", "dev", "va")
        subprocess.run(["ip", "-n", world.prefix("b")[3], "link", "set", "vb", "down"], check=True)
        deadline = time.monotonic() + 20  # the kernel takes its time to tell
        while "NO-CARRIER" not in subprocess.run(world.prefix("a") + ["ip", "link", "show", "va"], capture_output=True,
                                                 text=True, check=True).stdout and time.monotonic() < deadline:
            time.sleep(0.05)
        refused(world, 0, "warning: va has no carrier")
        ip("link", "set", "va", "down")
        refused(world, 3, "va is down; ip link set dev va up")
