#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: XCDR1 of appendable and mutable types and of optional members, which no packaged peer writes,
is what XTypes 1.3 §7.4 says.
Method: a decoder of its own, written from the specification, reads the payloads of `differential dump`
(both byte orders) and compares with the JSON of the same samples.

Usage: oracle.py PROGRAM     differential or evolution: what it dumps; of the latter, samples as another
version of their type reads them.
"""
import base64
import json
import struct
import subprocess
import sys

(BOOL, OCTET, CHAR, INT8, UINT8, INT16, UINT16, INT32, UINT32, INT64, UINT64, FLOAT32, FLOAT64, ENUM, BITMASK, STRING,
 ARRAY, SEQUENCE, STRUCT, UNION) = range(1, 21)
FORMATS = {BOOL: "B", OCTET: "B", CHAR: "B", INT8: "b", UINT8: "B", INT16: "h", UINT16: "H", INT32: "i", UINT32: "I",
           INT64: "q", UINT64: "Q", FLOAT32: "f", FLOAT64: "d"}
SIGNED = {1: "b", 2: "h", 4: "i"}
UNSIGNED = {1: "B", 2: "H", 4: "I", 8: "Q"}
MUTABLE = 2
EXTENDED, LIST_END, MUST_UNDERSTAND = 0x3F01, 0x3F02, 0x4000


class Reader:
    """A position in the body; alignment counts from `origin` (rules for MMEMBER and OMEMBER)."""

    def __init__(self, body, order):
        self.body, self.order, self.at, self.origin = body, order, 0, 0

    def number(self, code):
        size = struct.calcsize(code)
        while (self.at - self.origin) % size:
            assert self.body[self.at] == 0, "padding is not zero"
            self.at += 1
        value, = struct.unpack_from(self.order + code, self.body, self.at)
        self.at += size
        return value

    def header(self):
        """(id, length, must-understand) of the next parameter."""
        while (self.at - self.origin) % 4:
            assert self.body[self.at] == 0, "padding is not zero"
            self.at += 1
        pid, length = self.number("H"), self.number("H")
        must = bool(pid & MUST_UNDERSTAND)
        pid &= 0x3FFF
        if pid == EXTENDED:
            assert length == 8
            pid, length = self.number("I"), self.number("I")
        else:
            assert pid <= 0x3F00 or pid == LIST_END
        return pid, length, must


class Single(float):
    """A float32: equal to whatever rounds to it."""

    def __eq__(self, other):
        return struct.pack("f", self) == struct.pack("f", other)

    __hash__ = None


def scalar(kind, t, r):
    if kind == ENUM:
        return t["labels"][str(r.number(SIGNED[t["size"]]))]
    if kind == BITMASK:
        bits = r.number(UNSIGNED[t["size"]])
        return [name for bit, name in t["labels"].items() if bits >> int(bit) & 1]
    value = r.number(FORMATS[kind])
    if kind == BOOL:
        assert value in (0, 1)
        return bool(value)
    return chr(value) if kind == CHAR else Single(value) if kind == FLOAT32 else value


def collection(t, r):
    count = t["bound"] if t["kind"] == ARRAY else r.number("I")
    values = [read(t["element"], r) for _ in range(count)]
    if t["element"]["kind"] == OCTET:
        return base64.b64encode(bytes(values)).decode()
    return values


def delimited(m, r, length):
    """A value behind a header of this length: alignment starts anew, and it ends exactly there."""
    end, outer, r.origin = r.at + length, r.origin, r.at
    value = read(m["type"], r)
    assert r.at == end, f"{m['name']} ends at {r.at}, its header says {end}"
    r.origin = outer
    return value


def mutable(t, r):
    members, found = {m["id"]: m for m in t["members"]}, {}
    while True:
        pid, length, must = r.header()
        if pid == LIST_END:
            assert length == 0
            break
        m = members[pid]
        assert must == bool(m["must"]) and m["name"] not in found
        if m["optional"] and length == 0:
            continue
        found[m["name"]] = delimited(m, r, length)
    assert all(m["optional"] or m["name"] in found for m in t["members"])
    return found


def aggregate(t, r):
    if t["ext"] == MUTABLE:
        return mutable(t, r)
    found = {}
    for m in t["members"]:
        if not m["optional"]:
            found[m["name"]] = read(m["type"], r)
            continue
        pid, length, _ = r.header()
        assert pid == m["id"]
        if length:
            found[m["name"]] = delimited(m, r, length)
    return found


def union(t, r):
    start = r.at
    shown = read(t["element"], r)
    size = t["element"]["size"]
    code = (SIGNED if t["element"]["kind"] in (ENUM, INT8, INT16, INT32, INT64) else UNSIGNED)
    value, = struct.unpack_from(r.order + code.get(size, "q"), r.body, r.at - size)
    assert r.at - start >= size
    found = {"$discriminator": shown}
    chosen = [m for m in t["members"] if value in m["cases"]] or [m for m in t["members"] if m["default"]]
    if chosen:
        found[chosen[0]["name"]] = read(chosen[0]["type"], r)
    return found


def read(t, r):
    kind = t["kind"]
    if kind == STRING:
        length = r.number("I")
        text = r.body[r.at:r.at + length]
        r.at += length
        assert len(text) == length and text[-1] == 0
        return text[:-1].decode("latin-1")
    if kind in (ARRAY, SEQUENCE):
        return collection(t, r)
    return union(t, r) if kind == UNION else aggregate(t, r) if kind == STRUCT else scalar(kind, t, r)


def default(m):
    """What a member takes that the writer did not have; None: it is absent."""
    t = m["type"]
    if m["optional"]:
        return None
    if "init" in m:
        return m["init"]
    if t["kind"] == ENUM:
        return list(t["labels"].values())[t["default_label"]]
    if t["kind"] == ARRAY:
        return [default({"optional": 0, "type": t["element"]})] * t["bound"]
    if t["kind"] == STRUCT:
        return {part["name"]: default(part) for part in t["members"] if not part["optional"]}
    return {BOOL: False, CHAR: "\0", STRING: "", SEQUENCE: [], BITMASK: []}.get(t["kind"], 0)


def project(source, target, value):
    """A value of one version as the other understands it."""
    if target["kind"] in (ARRAY, SEQUENCE):
        return [project(source["element"], target["element"], v) for v in value] if isinstance(value, list) else value
    if target["kind"] != STRUCT:
        return value
    had, found = {m["id"]: m for m in source["members"]}, {}
    for m in target["members"]:
        before = had.get(m["id"])
        if not before:
            if not m["optional"]:
                found[m["name"]] = default(m)
        elif before["name"] in value:
            found[m["name"]] = project(before["type"], m["type"], value[before["name"]])
    return found


def check(t, payload, expected, target=None):
    encapsulation, padding = payload[1], payload[3] & 3
    assert payload[0] == 0 and encapsulation == (2 if t["ext"] == MUTABLE else 0) + (encapsulation & 1)
    r = Reader(payload[4:len(payload) - padding], "<" if encapsulation & 1 else ">")
    got = read(t, r)
    assert r.at == len(r.body), f"{len(r.body) - r.at} bytes are left"
    if target:
        got = project(t, target, got)
    assert got == expected, f"{got} instead of {expected}"


def main():
    done = subprocess.run([sys.argv[1], "dump"], capture_output=True, text=True, check=True, timeout=60)
    name, t, target, count, failures = "", None, None, 0, 0
    for line in done.stdout.rstrip("\n").split("\n"):
        word, first, rest = line.split(" ", 2)
        if word in ("type", "from"):
            name, t, target = first, json.loads(rest), None
            continue
        if word == "to":
            name, target = f"{name} as {first}", json.loads(rest)
            continue
        count += 1
        try:
            check(t, bytes.fromhex(first), json.loads(rest), target)
        except (AssertionError, KeyError, struct.error, IndexError) as problem:
            failures += 1
            if failures < 20:
                print(f"{name}: {type(problem).__name__} {problem}\n  {first}")
    print(f"{count} samples, {failures} failures")
    return 1 if failures or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
