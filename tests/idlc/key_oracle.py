#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: keys, key hashes and key-only payloads of every keyed shape are what XTypes 1.3 §7.6.8 says, and
whatever form a peer sends leads to the same instance.
Method: an encoder of its own writes, from the JSON of random samples, the rule's hash (members in id order,
big-endian XCDR2, MD5 where the longest possible key exceeds 16 bytes), the hashes Cyclone DDS 0.10.2 (by
actual length) and Fast DDS 2.9.1 (declaration order, XCDR1) make, and key-only payloads as XTypes and as
Cyclone have them, in both representations and byte orders; `keys extract` must find the same key in all.

Usage: key_oracle.py KEYS
"""
import base64
import hashlib
import json
import struct
import subprocess
import sys

(BOOL, OCTET, CHAR, INT8, UINT8, INT16, UINT16, INT32, UINT32, INT64, UINT64, FLOAT32, FLOAT64, ENUM, BITMASK, STRING,
 ARRAY, SEQUENCE, STRUCT, UNION) = range(1, 21)
CODES = {BOOL: "B", OCTET: "B", CHAR: "B", INT8: "b", UINT8: "B", INT16: "h", UINT16: "H", INT32: "i", UINT32: "I",
         INT64: "q", UINT64: "Q", FLOAT32: "f", FLOAT64: "d"}
FINAL, APPENDABLE, MUTABLE = range(3)


class Writer:
    def __init__(self, xcdr2, big):
        self.out, self.xcdr2, self.order, self.origin = bytearray(), xcdr2, ">" if big else "<", 0

    def align(self, size):
        size = min(size, 4 if self.xcdr2 else 8)
        self.out += bytes(-(len(self.out) - self.origin) % size)

    def number(self, code, value):
        self.align(struct.calcsize(code))
        self.out += struct.pack(self.order + code, value)

    def delimit(self, write):
        self.number("I", 0)
        at = len(self.out)
        write()
        self.out[at - 4:at] = struct.pack(self.order + "I", len(self.out) - at)


def scalar_code(t):
    if t["kind"] == ENUM:
        return {1: "b", 2: "h", 4: "i"}[t["size"]]
    if t["kind"] == BITMASK:
        return {1: "B", 2: "H", 4: "I", 8: "Q"}[t["size"]]
    return CODES[t["kind"]]


def scalar_value(t, v):
    if t["kind"] == ENUM:
        return next(int(number) for number, label in t["labels"].items() if label == v)
    if t["kind"] == BITMASK:
        return sum(1 << int(bit) for bit, label in t["labels"].items() if label in v)
    return ord(v) if t["kind"] == CHAR else int(v) if t["kind"] == BOOL else v


def leaf(w, t, v):
    if t["kind"] == STRING:
        text = v.encode("latin-1") + b"\0"
        w.number("I", len(text))
        w.out += text
    elif t["kind"] == ARRAY:
        e = t["element"]
        values = list(base64.b64decode(v)) if isinstance(v, str) else v

        def elements():
            for value in values:
                leaf(w, e, value)
        if w.xcdr2 and e["kind"] in (ENUM, BITMASK):
            w.delimit(elements)
        else:
            elements()
    else:
        w.number(scalar_code(t), scalar_value(t, v))


def keys_of(t, top=False):
    keys = [m for m in t["members"] if m["key"]]
    return keys if keys or top else t["members"]


def shuffled(t):
    ids = [m["id"] for m in keys_of(t, True)]
    return ids != sorted(ids)


def holder(w, t, v, by_id, top=True):
    """The key members alone, without any struct's DHEADER: canonical, or as Cyclone sends them."""
    members = keys_of(t, top)
    for m in sorted(members, key=lambda m: m["id"]) if by_id else members:
        if m["type"]["kind"] == STRUCT:
            holder(w, m["type"], v[m["name"]], by_id, False)
        else:
            leaf(w, m["type"], v[m["name"]])


def erased(w, t, v, top=True):
    """The key members as XTypes sends them: in place, each struct in its own extensibility."""
    def members():
        for m in keys_of(t, top):
            def value(m=m):
                if m["type"]["kind"] == STRUCT:
                    erased(w, m["type"], v[m["name"]], False)
                else:
                    leaf(w, m["type"], v[m["name"]])
            if t["ext"] != MUTABLE:
                value()
            elif w.xcdr2:
                w.number("I", 1 << 31 | 4 << 28 | m["id"])
                w.delimit(value)
            else:
                w.align(4)
                w.number("H", 0x4000 | 0x3F01)
                w.number("H", 8)
                w.number("I", m["id"])
                w.number("I", 0)
                at, outer, w.origin = len(w.out), w.origin, len(w.out)
                value()
                w.out[at - 4:at] = struct.pack(w.order + "I", len(w.out) - at)
                w.origin = outer
        if t["ext"] == MUTABLE and not w.xcdr2:
            w.align(4)
            w.number("H", 0x3F02)
            w.number("H", 0)
    if w.xcdr2 and t["ext"] != FINAL:
        w.delimit(members)
    else:
        members()


def longest(w, t, by_id, top=True):
    """Writes the longest possible key; False if there is none."""
    members = keys_of(t, top)
    bounded = True
    for m in sorted(members, key=lambda m: m["id"]) if by_id else members:
        k = m["type"]
        if k["kind"] == STRUCT:
            bounded &= longest(w, k, by_id, False)
        elif k["kind"] == STRING:
            bounded &= k["bound"] > 0
            w.number("I", 0)
            w.out += bytes(k["bound"] + 1)
        elif k["kind"] == ARRAY:
            if w.xcdr2 and k["element"]["kind"] in (ENUM, BITMASK):
                w.number("I", 0)
            for _ in range(k["bound"]):
                w.number(scalar_code(k["element"]), 0)
        else:
            w.number(scalar_code(k), 0)
    return bounded


def digest(body, clear):
    return bytes(body).ljust(16, b"\0") if clear else hashlib.md5(body).digest()


def expectations(t, v):
    """[(form, bytes)] to extract from, and the canonical key and hashes."""
    w = Writer(True, True)
    holder(w, t, v, True)
    canonical = bytes(w.out)
    w = Writer(True, True)
    rule_clear = longest(w, t, True) and len(w.out) <= 16
    f = Writer(False, True)
    holder(f, t, v, False)
    w = Writer(False, True)
    fast = digest(f.out, longest(w, t, False) and len(w.out) <= 16)
    forms = []
    for xcdr2 in (False, True):
        base = {FINAL: 6, APPENDABLE: 8, MUTABLE: 10}[t["ext"]] if xcdr2 else 2 if t["ext"] == MUTABLE else 0
        for big in (False, True):
            for name, write in (("cyclone", lambda w: holder(w, t, v, True)), ("xtypes", lambda w: erased(w, t, v))):
                if name == "xtypes" and t["ext"] != MUTABLE and (not xcdr2 or t["ext"] == FINAL and shuffled(t)):
                    continue  # nothing tells declaration order from id order here, and no peer sends it
                w = Writer(xcdr2, big)
                write(w)
                forms.append((name, "key", bytes([0, base + (not big), 0, 0]) + bytes(w.out)))
    rule = digest(canonical, rule_clear)
    forms.append(("hash", "hash", rule if rule_clear else None))
    forms.append(("cyclone's hash", "clear", digest(canonical, True) if len(canonical) <= 16 else None))
    return canonical, rule, fast, [form for form in forms if form[2] is not None]


def main():
    done = subprocess.run([sys.argv[1]], capture_output=True, text=True, check=True, timeout=60)
    name, t, wanted, lines, failures, types, differ = "", None, [], [], 0, 0, set()

    def fail(text):
        nonlocal failures
        failures += 1
        if failures < 20:
            print(f"{name}: {text}")

    for line in done.stdout.rstrip("\n").split("\n"):
        word, rest = line.split(" ", 1)
        parsed = json.loads(rest)
        if word == "type":
            name, t, types, may_differ = parsed["name"], parsed["type"], types + 1, parsed["differs"]
            continue
        canonical, rule, fast, forms = expectations(t, parsed["value"])
        if parsed["canonical"] != canonical.hex():
            fail(f"canonical key {parsed['canonical']} instead of {canonical.hex()}")
        if parsed["hash"] != rule.hex():
            fail(f"hash {parsed['hash']} instead of {rule.hex()}")
        if parsed["fast"] != fast.hex():
            fail(f"hash for Fast DDS {parsed['fast']} instead of {fast.hex()}")
        if rule != fast:
            differ.add(name)
            if not may_differ:
                fail("the hash for Fast DDS differs, and the plan does not know")
        for field in ("full1", "full2", "key1", "key2"):
            forms.append((field, "full" if field[0] == "f" else "key", bytes.fromhex(parsed[field])))
        for what, form, payload in forms:
            wanted.append((name, what, payload.hex(), canonical.hex()))
            lines.append(f"{name} {form} {payload.hex()}\n")
    found = subprocess.run([sys.argv[1], "extract"], input="".join(lines), capture_output=True, text=True,
                           check=True, timeout=60).stdout.split()
    if len(found) != len(wanted):
        fail(f"{len(found)} answers to {len(wanted)} questions")
    for (name, what, payload, key), got in zip(wanted, found):
        if got != key:
            fail(f"{what} {payload} leads to {got} instead of {key}")
    print(f"{types} types, {len(wanted)} forms, {failures} failures; Fast DDS hashes differ for: "
          + " ".join(sorted(differ)))
    return 1 if failures or types < 20 else 0


if __name__ == "__main__":
    sys.exit(main())
