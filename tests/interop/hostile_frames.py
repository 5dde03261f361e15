# SPDX-License-Identifier: Apache-2.0
"""Sends bad Ethernet frames to one host for a while: hostile_frames.py INTERFACE MAC IPV4 SECONDS.

Random bytes, frames cut short inside each header, fragments that overlap, repeat, leave holes or exceed 65,535 bytes,
floods of ARP (requests, forged answers, claims of the host's own address), of echo requests and of IGMP. Prints how
many of each left. Deterministic but for time: seed 1.
"""

import json
import random
import socket
import struct
import sys
import time


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


class Sender:
    def __init__(self, interface, mac, ip):
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        self.socket.bind((interface, 0))
        self.mac = bytes.fromhex(mac.replace(":", ""))
        self.own_mac = self.socket.getsockname()[4]
        self.ip = socket.inet_aton(ip)
        self.random = random.Random(1)

    def source(self):
        return bytes([10, 77, 0, self.random.randrange(3, 255)])

    def ethernet(self, kind, body, to=None):
        return (to or self.mac) + self.own_mac + struct.pack(">H", kind) + body

    def ipv4(self, protocol, payload, number=0, offset=0, more=False, total=None):
        head = struct.pack(">BBHHHBBH4s4s", 0x45, 0, total or 20 + len(payload), number,
                           offset // 8 | (0x2000 if more else 0), 64, protocol, 0, self.source(), self.ip)
        head = head[:10] + struct.pack(">H", checksum(head)) + head[12:]
        return self.ethernet(0x0800, head + payload)

    def udp(self, length):
        return self.ipv4(17, struct.pack(">HHHH", 4000, self.random.choice((7400, 7410, 7411, 9)), 8 + length, 0) +
                         self.random.randbytes(length))

    def noise(self):
        return self.mac + self.own_mac + self.random.randbytes(self.random.randrange(2, 1400))

    def ip_noise(self):
        return self.ethernet(self.random.choice((0x0800, 0x86dd, 0x0806, 0x8100)),
                             self.random.randbytes(self.random.randrange(0, 200)))

    def short(self):
        whole = self.udp(40)
        return whole[:self.random.randrange(15, len(whole))]

    def fragment(self):
        offset = 8 * self.random.choice((0, 1, 100, 120, 180, 185, 8190, self.random.randrange(8192)))
        return self.ipv4(17, self.random.randbytes(self.random.choice((8, 64, 1400, 1480))),
                         self.random.randrange(8), offset, self.random.random() < 0.7)

    def arp(self):
        sender = self.random.choice((self.source(), self.ip, b"\0\0\0\0", b"\xff" * 4))
        body = struct.pack(">HHBBH6s4s6s4s", 1, 0x0800, 6, 4, self.random.choice((1, 2)), self.random.randbytes(6), sender,
                           self.random.choice((self.mac, b"\0" * 6)), self.ip)
        return self.ethernet(0x0806, body, self.random.choice((None, b"\xff" * 6)))

    def echo(self):
        payload = struct.pack(">BBHHH", 8, 0, 0, 1, 1) + self.random.randbytes(self.random.randrange(600))
        return self.ipv4(1, payload[:2] + struct.pack(">H", checksum(payload)) + payload[4:])

    def igmp(self):
        return self.ipv4(2, self.random.choice((b"\x11\x00", b"\x16\x00", b"\x22\x00")) + self.random.randbytes(10))

    KINDS = ("noise", "ip_noise", "short", "udp_random", "fragment", "arp", "echo", "igmp")

    def udp_random(self):
        return self.udp(self.random.randrange(0, 1400))


def main():
    interface, mac, ip, seconds = sys.argv[1:5]
    sender = Sender(interface, mac, ip)
    counts = dict.fromkeys(Sender.KINDS, 0)
    end = time.monotonic() + float(seconds)
    while time.monotonic() < end:
        for kind in Sender.KINDS:
            for _ in range(20):
                try:
                    sender.socket.send(getattr(sender, kind)())
                    counts[kind] += 1
                except OSError:
                    time.sleep(0.001)
    print(json.dumps({"event": "sent", **counts}), flush=True)


main()
