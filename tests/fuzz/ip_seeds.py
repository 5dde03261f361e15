# SPDX-License-Identifier: Apache-2.0
"""Seeds of fuzz_ip: frames of every kind the engine knows, with checksums that hold, and steps around them."""
import struct

OUR_MAC, THEIR_MAC = bytes.fromhex("020000000001"), bytes.fromhex("020000000002")
OUR4, THEIR4 = bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2])
OUR6 = bytes.fromhex("20010db8" + "00" * 11 + "01")
THEIR6 = bytes.fromhex("20010db8" + "00" * 11 + "02")
LOCAL6 = bytes.fromhex("fe80000000000000000000fffe000002")
NODE6 = bytes.fromhex("ff0200000000000000000001ff000001")
ALL6 = bytes.fromhex("ff02" + "00" * 13 + "01")


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def with_checksum(data, at, pseudo=b""):
    data = data[:at] + b"\0\0" + data[at + 2:]
    return data[:at] + struct.pack(">H", checksum(pseudo + data)) + data[at + 2:]


def ethernet(kind, packet, to=OUR_MAC):
    return to + THEIR_MAC + struct.pack(">H", kind) + packet


def group_mac(address):
    if len(address) == 4:
        return b"\x01\x00\x5e" + bytes([address[1] & 127]) + address[2:]
    return b"\x33\x33" + address[12:]


def ipv4(protocol, body, to=OUR4, ttl=64, flags=0, ident=7, options=b""):
    words = 5 + len(options) // 4
    head = struct.pack(">BBHHHBBH", 0x40 | words, 0, words * 4 + len(body), ident, flags, ttl, protocol, 0)
    head = with_checksum(head + THEIR4 + to + options, 10)
    return ethernet(0x0800, head + body, OUR_MAC if to == OUR4 else group_mac(to))


def ipv6(protocol, body, to=OUR6, source=THEIR6, hops=64):
    head = struct.pack(">IHBB", 0x60000000, len(body), protocol, hops) + source + to
    return ethernet(0x86dd, head + body, OUR_MAC if to == OUR6 else group_mac(to))


def udp(payload, source=THEIR4, to=OUR4):
    body = struct.pack(">HHHH", 7400, 7401, 8 + len(payload), 0) + payload
    length = struct.pack(">HH", 17, len(body)) if len(to) == 4 else struct.pack(">II", len(body), 17)
    return with_checksum(body, 6, source + to + length)


def icmp6(body, to=OUR6, source=THEIR6):
    return with_checksum(body, 2, source + to + struct.pack(">II", len(body), 58))


def arp(operation, sender=THEIR4, target=OUR4):
    return ethernet(0x0806, struct.pack(">HHBBH", 1, 0x800, 6, 4, operation) + THEIR_MAC + sender +
                    OUR_MAC + target)


def pieces4(datagram, size):
    for at in range(0, len(datagram), size):
        more = 0x2000 if at + size < len(datagram) else 0
        yield ipv4(17, datagram[at:at + size], flags=more | at // 8)


def pieces6(datagram, size):
    for at in range(0, len(datagram), size):
        more = int(at + size < len(datagram))
        yield ipv6(44, struct.pack(">BBHI", 17, 0, at | more, 9) + datagram[at:at + size])


def igmp(body, to, ttl=1):
    return ipv4(2, with_checksum(body, 2), to, ttl, options=bytes.fromhex("94040000"))


def mld(body, to=ALL6):
    alert = bytes.fromhex("3a00050200000100")
    return ipv6(0, alert + icmp6(body, to, LOCAL6), to, LOCAL6, 1)


def frames():
    """(name, frames) of each kind."""
    hosts, group = bytes([224, 0, 0, 1]), bytes([239, 255, 0, 1])
    option = bytes([1, 1]) + THEIR_MAC
    yield "arp", [arp(1), arp(2), arp(1, OUR4), arp(1, bytes(4))]
    yield "udp4", [ipv4(17, udp(b"hello")), ipv4(17, udp(b"hello", to=group), group),
                   ipv4(17, udp(b"hello"), options=b"\1" * 8)]
    yield "pieces4", list(pieces4(udp(bytes(range(64))), 24))
    yield "overlap4", list(pieces4(udp(bytes(range(64))), 24)) + list(pieces4(udp(bytes(64)), 16))
    yield "icmp4", [ipv4(1, with_checksum(b"\x08\0\0\0\0\1\0\1ping", 2))]
    yield "igmp", [igmp(b"\x11\x64\0\0" + bytes(4), hosts), igmp(b"\x11\0\0\0" + bytes(4), hosts),
                   igmp(b"\x11\x64\0\0" + bytes(8), hosts), igmp(b"\x16\0\0\0" + group, group),
                   igmp(b"\x11\x0a\0\0" + group + bytes(4), group)]
    yield "udp6", [ipv6(17, udp(b"hello", THEIR6, OUR6)),
                   ipv6(0, bytes([60, 0, 1, 4]) + bytes(4) + bytes([17, 0]) + bytes(6) +
                        udp(b"hello", THEIR6, OUR6))]
    yield "pieces6", list(pieces6(udp(bytes(range(64)), THEIR6, OUR6), 24))
    yield "nd", [ipv6(58, icmp6(b"\x87\0\0\0\0\0\0\0" + OUR6 + option, NODE6), NODE6, hops=255),
                 ipv6(58, icmp6(b"\x88\0\0\0\x60\0\0\0" + THEIR6 + b"\2\1" + THEIR_MAC), hops=255),
                 ipv6(58, icmp6(b"\x87\0\0\0\0\0\0\0" + OUR6, NODE6, bytes(16)), NODE6, bytes(16), 255)]
    yield "icmp6", [ipv6(58, icmp6(b"\x80\0\0\0\0\1\0\1ping"))]
    yield "mld", [mld(b"\x82\0\0\0\x03\xe8\0\0" + bytes(16)), mld(b"\x82\0\0\0\x03\xe8\0\0" + bytes(20)),
                  mld(b"\x83\0\0\0\0\0\0\0" + ALL6[:15] + b"\5", ALL6[:15] + b"\5")]


def steps(list_of_frames, refuse=0):
    return b"".join(bytes([0x43 | refuse]) + struct.pack(">H", len(frame)) + frame
                    for frame in list_of_frames)


def seeds():
    """The inputs: each kind by itself, with what a host does around it."""
    groups = b"\x42\x01\x42\x25"
    later = b"\x40\x07\xd0"
    send4 = b"\x41\x00\x21" + bytes(12) + THEIR4
    send6 = b"\x41\x10\x00" + THEIR6
    for _, kind in frames():
        for options in (0, 1, 2, 8):
            yield bytes([options]) + later + groups + send4 + send6 + steps(kind) + later + send4
            yield bytes([options]) + later + groups + steps(kind, 0x80) + later + b"\x42\x81"
