# SPDX-License-Identifier: Apache-2.0
"""A participant whose readers announce hostile content filters, made by hand.

It announces itself at a socket of its own and proves that address by answering HEARTBEATs. Then it announces
readers of Square, over and over with another filter each: counts up to 2^32-1, lengths past the end, texts without
NUL, nesting and NOT as deep as a datagram holds, patterns built to explode, lists as long as they go, noise, and
between them filters that are right, so that writers compile and apply them. Old announcements are repeated.

Prints {"sent", "records", "good", "samples"} at the end. The seed is fixed.
"""

import argparse
import json
import random
import struct
import time

from forged_announcement import parameter, locator, text
from forged_types import SUBSCRIPTIONS, Liar

READERS = 32


def words(*numbers):
    return struct.pack(f"<{len(numbers)}I", *numbers)


def filter_property(expression, params=(), count=None, name="F", topic="Square", class_name="DDSSQL"):
    """The filter as it should be, but for a count of parameters that may be a lie."""
    body = text(name) + text(topic) + text(class_name) + text(expression)
    body += words(len(params) if count is None else count)
    return body + b"".join(text(param) for param in params)


def raw_text(said, contents):
    """A string whose length and contents need not agree, nor end in NUL."""
    return words(said) + contents + bytes(-len(contents) % 4)


LONG = [
    "(" * 60000 + "x = 1" + ")" * 10,
    "(" * 2000 + "x = 1" + ")" * 2000,
    "NOT " * 15000 + "x = 1",
    "NOT " * 900 + "x = 1",
    "color LIKE '" + "%a" * 1000 + "'",
    "color LIKE '" + "%_" * 1000 + "'",
    "color MATCH '" + "*a" * 1000 + ",[a-z]*[!b]*" * 50 + "'",
    "color MATCH '" + "[" * 2000 + "'",
    "x IN (" + ",".join(str(n) for n in range(900)) + ")",
    " AND ".join(["x > 1"] * 400),
    "x = " + "9" * 4000,
    "x > " + "0." + "0" * 3000 + "1e-999999999",
    "color = '" + "''" * 1900 + "'",
    "x = %0" + " OR x = %99" * 300,
]


def hostile_properties(rng):
    """Well-formed lists with filters that nobody can want, and lists that are none."""
    good = filter_property("x > %0", ("5",))
    broken = text("F") + text("Square") + text("DDSSQL")
    yield from (filter_property(expression) for expression in LONG)
    for count in (1, 2, 100, 101, 0xffff, 0x7fffffff, 0xffffffff):
        yield filter_property("x > %0", (), count)
        yield filter_property("x > %0", ("5",), count + 1 & 0xffffffff)
    for said in (0, 1, 5, 0xffff, 0x7fffffff, 0xfffffffc, 0xffffffff):
        yield raw_text(said, b"FFFF") + good[8:]
        yield broken + raw_text(said, b"x = 1") + words(0)
        yield broken + text("x > %0") + words(1) + raw_text(said, b"5555")
    yield filter_property("x > 1", class_name="nobody's")
    yield filter_property("x > 1", class_name="C" * 300)
    yield filter_property("", ())
    yield filter_property("x > %0", ("5",) * 100)
    yield filter_property("x > %0", ("5" * 600,) * 100)
    yield good + words(1)
    yield good + bytes(8)
    for cut in range(0, len(good), 4):
        yield good[:cut]
    for _ in range(40):
        yield bytes(b ^ rng.choice((0, 0, 0, 0, 1, 128, 255)) for b in good)
        yield rng.randbytes(4 * rng.randrange(1, 40))


def record(liar, number, content):
    """A best-effort reader of Square: nobody waits for it."""
    payload = b"\x00\x03\x00\x00"
    payload += parameter(0x005a, liar.prefix + struct.pack(">I", number << 8 | 7))
    payload += parameter(0x0005, text("Square")) + parameter(0x0007, text("ShapeType"))
    payload += parameter(0x001a, words(1, 0, 0)) + locator(0x002f, *liar.address)
    return liar.data(SUBSCRIPTIONS, payload + parameter(0x0035, content) + parameter(1, b""))


class Filterer(Liar):
    samples = 0

    def hear(self, kind, flags, body, source, types):
        super().hear(kind, flags, body, source, types)
        if kind == 0x15 and len(body) >= 20 and body[11] in (0x02, 0x03):
            self.samples += 1


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--domain", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=6)
    options = parser.parse_args()
    rng = random.Random(9)
    base = 7410 + 250 * options.domain
    liar = Filterer(b"filterer..", rng, [("127.0.0.1", base + 2 * n) for n in range(3)])
    begun, turn, good, old = time.monotonic(), 0, 0, []
    hostile = hostile_properties(rng)
    while time.monotonic() < begun + options.seconds:
        if turn % 200 == 0:
            liar.send(liar.announcement())
        liar.listen(None, 0.002)
        turn += 1
        if turn < 100:
            continue
        content = next(hostile, None)
        if content is None:
            hostile = hostile_properties(rng)
        if content is None or turn % 5 == 0:
            content, good = filter_property("x > %0 OR color = 'RED'", (str(turn),)), good + 1
        made = record(liar, 1 + turn % READERS, content)
        old = (old + [made])[-20:]
        liar.send(made)
        if turn % 3 == 0:
            liar.send(rng.choice(old))
    print(json.dumps({"sent": liar.sent, "records": turn - 100, "good": good, "samples": liar.samples}))


if __name__ == "__main__":
    main()
