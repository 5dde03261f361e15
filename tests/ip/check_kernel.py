#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: our IP layer and Linux's understand each other, and a switch with snooping knows where our groups go.

Method: a network namespace with a bridge and two veth pairs; the kernel has one end (10.77.0.1, fd77::1), kernel_port
(argument 1) the other. Neighbours, echo, datagrams of all sizes in both families, multicast, unused ports; the bridge
is an impatient querier, and sets a group's timer anew only when a query was answered, in each version. Exit 77 without
the right to make a namespace.
"""
import json
import os
import socket
import struct
import subprocess
import sys
import time

NAME = f"apus-ip-{os.getpid()}"
CLONE_NEWNET = 0x40000000
GROUPS = {"239.255.7.7", "ff15::77"}
failures = []


def run(*words, check=True):
    return subprocess.run(words, check=check, capture_output=True, text=True).stdout


def require(condition, what):
    if not condition:
        failures.append(what)


def build():
    for a, b in ("va", "pa"), ("vb", "pb"):
        run("ip", "link", "add", a, "type", "veth", "peer", "name", b)
    run("ip", "link", "add", "br0", "type", "bridge", "mcast_snooping", "1", "mcast_querier", "1",
        "mcast_query_use_ifaddr", "0", "mcast_igmp_version", "3", "mcast_mld_version", "2",
        "mcast_query_interval", "100", "mcast_query_response_interval", "50", "mcast_membership_interval", "1000",
        "mcast_startup_query_interval", "100")
    for name in "va", "pa", "vb", "pb", "br0":
        # A bridge asks nobody before its own address is sure.
        setting = "dad_transmits" if name in ("va", "br0") else "disable_ipv6"
        with open(f"/proc/sys/net/ipv6/conf/{name}/{setting}", "w") as file:
            file.write("0" if setting == "dad_transmits" else "1")
        run("ip", "link", "set", name, "up")
    for name in "pa", "pb":
        run("ip", "link", "set", name, "master", "br0")
    run("ip", "addr", "add", "10.77.0.1/24", "dev", "va")
    run("ip", "addr", "add", "fd77::1/64", "dev", "va", "nodad")
    run("ip", "route", "add", "224.0.0.0/4", "dev", "va")


def wait_for(condition, seconds=10.0):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def groups():
    """What the bridge knows to be behind our port: groups, and for how many seconds it still believes it."""
    table = json.loads(run("bridge", "-j", "-d", "-s", "mdb", "show"))
    return {entry["grp"]: float(entry["timer"]) for entry in table[0].get("mdb", []) if entry["port"] == "pb"}


def connected(family, host, port):
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.settimeout(10)
    s.connect((host, port))
    return s


def datagrams(family, host, largest):
    with connected(family, host, 7007) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        for size in 0, 1, 64, 1452, 1453, 1472, 1473, 5000, 30001, largest:
            data = os.urandom(size)
            s.send(data)
            try:
                require(s.recv(65536) == data, f"{host}: another answer to {size} bytes")
            except OSError as error:
                require(False, f"{host}: {size} bytes: {error}")


def multicast(family, group):
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        s.settimeout(10)
        index = socket.if_nametoindex("va")
        if family == socket.AF_INET6:
            s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)
        s.sendto(b"to all", (group, 7007))
        try:
            data, source = s.recvfrom(100)
            require(data == b"to all" and source[0] in ("10.77.0.2", "fd77::2", "fe80::77:ff:fe00:2%va"),
                    f"{group}: {data} from {source}")
        except OSError as error:
            require(False, f"{group}: {error}")


def unused_port(family, host):
    with connected(family, host, 7008) as s:
        s.send(b"anybody?")
        try:
            s.recv(100)
            require(False, f"{host}: an answer from port 7008")
        except ConnectionRefusedError:
            pass
        except OSError as error:
            require(False, f"{host}: port 7008: {error}")


def checksum(data):
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def echo(family, host, size):
    protocol, request, reply = (socket.IPPROTO_ICMP, 8, 0) if family == socket.AF_INET else \
        (socket.IPPROTO_ICMPV6, 128, 129)
    with socket.socket(family, socket.SOCK_RAW, protocol) as s:
        s.settimeout(10)
        body = struct.pack(">HH", 77, size) + bytes(size)
        head = struct.pack(">BBH", request, 0, 0)
        if family == socket.AF_INET:
            head = struct.pack(">BBH", request, 0, checksum(head + body))
        s.sendto(head + body, (host, 0))
        try:
            while True:
                data = s.recv(65536)
                data = data[20:] if family == socket.AF_INET else data
                if data[0] == reply:
                    break
            require(data[4:] == body, f"{host}: another echo of {size} bytes")
        except OSError as error:
            require(False, f"{host}: echo of {size} bytes: {error}")


def neighbours():
    table = {entry["dst"]: entry for entry in json.loads(run("ip", "-j", "neigh", "show", "dev", "va"))}
    for host in "10.77.0.2", "fd77::2":
        require(table.get(host, {}).get("lladdr") == "02:77:00:00:00:02", f"{host}: neighbour {table.get(host)}")


def refreshed():
    """Whether each group's timer is set anew twice: a report may be the second one of joining, two are answers."""
    before, times = groups(), dict.fromkeys(GROUPS, 0)

    def look():
        nonlocal before
        now = groups()
        for group in GROUPS:
            times[group] += now.get(group, 0) > before.get(group, 0) + 0.1
        before = now
        return min(times.values()) >= 2
    return wait_for(look)


def snooping():
    for versions in ("3", "2"), ("2", "1"):
        run("ip", "link", "set", "br0", "type", "bridge", "mcast_igmp_version", versions[0], "mcast_mld_version",
            versions[1])
        require(refreshed(), f"IGMPv{versions[0]}, MLDv{versions[1]}: the bridge has not heard again of all: {groups()}")


def main():
    if os.geteuid() != 0 or subprocess.run(["ip", "netns", "add", NAME], capture_output=True).returncode:
        return 77
    port = None
    try:
        with open(f"/run/netns/{NAME}") as namespace:
            import ctypes
            if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), CLONE_NEWNET):
                return 77
        build()
        port = subprocess.Popen([sys.argv[1], "vb"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        require(port.stdout.readline() == "ready\n", "kernel_port did not start")
        require(wait_for(lambda: GROUPS <= set(groups())), f"the bridge has learned {groups()} only")
        for family, host, group, largest in ((socket.AF_INET, "10.77.0.2", "239.255.7.7", 65507),
                                             (socket.AF_INET6, "fd77::2", "ff15::77", 65507)):
            datagrams(family, host, largest)
            multicast(family, group)
            unused_port(family, host)
            for size in 4, 56, 1400:
                echo(family, host, size)
        neighbours()
        snooping()
        counters = dict(line.split() for line in port.communicate(timeout=10)[0].splitlines())
        port = None
        bad = [name for name in counters if name.startswith("drop.") and
               name not in ("drop.not_ours", "drop.protocol", "drop.ethertype")]
        require(not bad, f"dropped: {[(name, counters[name]) for name in bad]}")
        print(counters)
    finally:
        if port:
            port.kill()
            port.wait()
        run("ip", "netns", "del", NAME, check=False)
    print("\n".join(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
