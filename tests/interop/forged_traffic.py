# SPDX-License-Identifier: Apache-2.0
"""Speaks to a matched writer and reader under each other's GUIDs, in bursts.

To the reader, as its writer: GAPs over 2^40 numbers, HEARTBEATs far ahead, fragments of samples that claim
4 GB, of size 0, overlapping and late ones, HEARTBEAT_FRAGs. To the writer, as its reader: ACKNACKs and
NACK_FRAGs for what was never written. Counts run backwards half of the time. Every datagram goes to all
ports a participant of the domain may have. Prints {"sent": n} at the end; the seed is fixed.
"""

import argparse
import json
import random
import socket
import struct
import time

FAR = 1 << 40
ACKNACK, HEARTBEAT, GAP, NACK_FRAG, HEARTBEAT_FRAG, DATA, DATA_FRAG = (
    0x06, 0x07, 0x08, 0x12, 0x13, 0x15, 0x16)


def number(value):
    """A SequenceNumber_t."""
    return struct.pack("<iI", value >> 32, value & 0xffffffff)


def bitmap(rng):
    """The bits of a set of up to 256 members, with their number."""
    bits = rng.randrange(257)
    return struct.pack("<I", bits) + rng.randbytes((bits + 31) // 32 * 4)


class Forger:
    """Makes one kind of submessage after another."""

    def __init__(self, rng, writer, reader):
        self.rng, self.writer, self.reader = rng, writer, reader
        self.count = 1 << 20

    def next_count(self):
        """Rises, or runs backwards from wherever."""
        self.count += 1
        return struct.pack("<I", self.count if self.rng.random() < 0.5
                           else (self.count - self.rng.randrange(1 << 31)) & 0xffffffff)

    def message(self, kind, flags, body, from_writer=True):
        """A datagram with one submessage, addressed by entity ids."""
        sender = self.writer if from_writer else self.reader
        ids = self.reader[12:] + self.writer[12:]
        extra = struct.pack("<HH", 0, 16 if kind == DATA else 28) if kind in (DATA, DATA_FRAG) else b""
        body = extra + ids + body
        return (b"RTPS\x02\x03\x01\xee" + sender[:12] +
                struct.pack("<BBH", kind, flags | 1, len(body)) + body)

    def some_far(self):
        return self.rng.choice((FAR, FAR + self.rng.randrange(300), (1 << 62) + 1, (1 << 63) - 5))

    def gap(self):
        return self.message(GAP, 0, number(2) + number(self.some_far()) + bitmap(self.rng))

    def heartbeat(self):
        first = self.rng.choice((1, self.some_far()))
        last = max(first - 1 + self.rng.randrange(1000), self.some_far())
        return self.message(HEARTBEAT, self.rng.choice((0, 2)),
                            number(first) + number(min(last, (1 << 63) - 1)) + self.next_count())

    def fragment(self):
        # None is a whole sample: that would be forged data, which a reader must believe.
        size = self.rng.choice((0, 1, 4, 32, 64))
        body = number(self.rng.choice((2, FAR, 400 + self.rng.randrange(400))))
        body += struct.pack("<IHHI", self.rng.choice((1, 2, 3, 0xffffffff)), self.rng.choice((0, 1, 2)),
                            size, self.rng.choice((0xffffffff, 0, 400, 1 << 20)))
        return self.message(DATA_FRAG, 0, body + bytes(self.rng.choice((size, 64))))

    def heartbeat_frag(self):
        return self.message(HEARTBEAT_FRAG, 0, number(self.rng.choice((2, FAR))) +
                            struct.pack("<I", self.rng.choice((1, 0xffffffff))) + self.next_count())

    def far_data(self):
        return self.message(DATA, 4, number(self.some_far()) + b"\0\1\0\0" + bytes(12))

    def acknack(self):
        return self.message(ACKNACK, self.rng.choice((0, 2)), number(self.some_far()) +
                            bitmap(self.rng) + self.next_count(), False)

    def nack_frag(self):
        return self.message(NACK_FRAG, 0, number(self.rng.choice((2, FAR))) +
                            struct.pack("<I", self.rng.choice((1, 0, 0xfffffff0))) + bitmap(self.rng) +
                            self.next_count(), False)

    def any(self, victim):
        """A datagram for the victim: "reader", "writer" or "both"."""
        to_reader = (self.gap, self.heartbeat, self.fragment, self.fragment, self.heartbeat_frag,
                     self.far_data) if victim != "writer" else ()
        to_writer = (self.acknack, self.nack_frag) if victim != "reader" else ()
        return self.rng.choice(to_reader + to_writer)()


def guid(text):
    """From "0110b2c3.…:000102", with whatever separators."""
    raw = bytes.fromhex("".join(letter for letter in text if letter in "0123456789abcdefABCDEF"))
    if len(raw) != 16:
        raise argparse.ArgumentTypeError("a GUID has 16 bytes")
    return raw


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--domain", type=int, default=0)
    parser.add_argument("--bursts", type=int, default=3)
    parser.add_argument("--burst", type=int, default=1500, help="datagrams of one burst")
    parser.add_argument("--pause", type=float, default=1.3, help="seconds after each burst")
    parser.add_argument("--victim", choices=("reader", "writer", "both"), default="both")
    parser.add_argument("writer", type=guid)
    parser.add_argument("reader", type=guid)
    options = parser.parse_args()
    forger = Forger(random.Random(4), options.writer, options.reader)
    base = 7400 + 250 * options.domain
    out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sent = 0
    for _ in range(options.bursts):
        for _ in range(options.burst):
            datagram = forger.any(options.victim)
            for port in range(base + 10, base + 18):
                try:
                    out.sendto(datagram, ("127.0.0.1", port))
                    sent += 1
                except ConnectionRefusedError:
                    pass  # nobody at that port
            time.sleep(0.0002)
        time.sleep(options.pause)
    print(json.dumps({"sent": sent}))


if __name__ == "__main__":
    main()
