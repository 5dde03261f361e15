#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes an IDL file of pairs of types, an older and a newer version of each, and a C table of them.

Usage: evolutions.py idl OUTPUT     the IDL file
       evolutions.py table OUTPUT   EVOLUTION(old, new, flags, expected) lines

`expected` is what the JSON of an older sample must hold where the newer version reads it: the members it
adds, with their defaults as the IDL says. Flags: NESTED, what changes is below the top, so that XCDR1 has
nothing that tells where an appendable ends; MADE_UP, Cyclone 0.10.2 aborts where it has to make up such a
member; REFUSED, the newer version has a member the older one must understand.
"""
import sys

COMMON = """
module w {
enum Color { RED, GREEN, @default_literal BLUE };
@bit_bound(8) bitmask Bits { b_a, @position(3) b_b };
@nested @final struct Fin { long a; @default(4) short b; };
"""
PARTS = """
@nested @{x} struct part_old_{k} {{ @id(1) long a; }};
@nested @{x} struct part_new_{k} {{ @id(1) long a; @id(2) @default(3) short b; }};
"""

# name: extensibilities, flags, members of the older, members of the newer version, expected
EVOLUTIONS = {
    "nothing": ("am", "0", "@id(1) long a;", "@id(1) long a;", '"a":'),
    "integer": ("am", "0", "@id(1) octet a;", "@id(1) octet a; @id(2) @default(-42) long added;", '"added":-42'),
    "wide": ("am", "0", "@id(1) octet a;", "@id(1) octet a; @id(2) @default(5000000000) long long added;", '"added":5000000000'),
    "real": ("am", "0", "@id(1) string a;", "@id(1) string a; @id(2) @default(2.5) double added;", '"added":2.5'),
    "truth": ("am", "0", "@id(1) short a;", "@id(1) short a; @id(2) @default(TRUE) boolean added;", '"added":true'),
    "character": ("am", "0", "@id(1) short a;", "@id(1) short a; @id(2) @default('x') char added;", '"added":"x"'),
    "no_default": ("am", "0", "@id(1) long a;", "@id(1) long a; @id(2) unsigned short added;", '"added":0'),
    "text": ("am", "0", "@id(1) long a;", "@id(1) long a; @id(2) string added;", '"added":""'),
    "bounded": ("am", "0", "@id(1) long a;", "@id(1) long a; @id(2) string<5> added;", '"added":""'),
    "text_default": ("am", "0", "@id(1) long a;", "@id(1) long a; @id(2) @default(\"hello\") string added;", '"added":"hello"'),
    "bounded_default": ("am", "0", "@id(1) octet a;", "@id(1) octet a; @id(2) @default(\"abc\") string<5> added;", '"added":"abc"'),
    "list": ("am", "0", "@id(1) long a;", "@id(1) long a; @id(2) sequence<double> added;", '"added":[]'),
    "array": ("am", "0", "@id(1) long a;", "@id(1) long a; @id(2) short added[2];", '"added":[0,0]'),
    "label": ("am", "0", "@id(1) long a;", "@id(1) long a; @id(2) w::Color added;", '"added":"BLUE"'),
    "flags": ("am", "0", "@id(1) long a;", "@id(1) long a; @id(2) w::Bits added;", '"added":[]'),
    "optional": ("am", "0", "@id(1) long a;", "@id(1) long a; @id(2) @optional long added;", '"a":'),
    "struct": ("am", "MADE_UP", "@id(1) long a;", "@id(1) long a; @id(2) w::Fin added;", '"added":{"a":0,"b":4}'),
    "several": ("am", "0", "@id(1) @key long k; @id(2) string note;",
                "@id(1) @key long k; @id(2) string note; @id(3) @default(7) octet a; @id(4) @default(8) long long b; "
                "@id(5) string c; @id(6) @default(9) short d;", '"a":7,"b":8,"c":"","d":9'),
    "part": ("am", "NESTED", "@id(1) part_old_{k} p; @id(2) octet a;", "@id(1) part_new_{k} p; @id(2) octet a;", '"b":3'),
    "parts": ("am", "NESTED", "@id(1) sequence<part_old_{k}> p; @id(2) long long a;",
              "@id(1) sequence<part_new_{k}> p; @id(2) long long a;", '"a":'),
    "part_array": ("am", "NESTED", "@id(1) part_old_{k} p[2]; @id(2) string a;", "@id(1) part_new_{k} p[2]; @id(2) string a;",
                   '"b":3'),
    "part_optional": ("am", "NESTED", "@id(1) @optional part_old_{k} p; @id(2) string a;",
                      "@id(1) @optional part_new_{k} p; @id(2) string a;", '"a":'),
    "between": ("m", "0", "@id(1) long a; @id(3) string c;", "@id(1) long a; @id(2) @default(5) short b; @id(3) string c;", '"b":5'),
    "reordered": ("m", "0", "@id(1) octet a; @id(2) double b; @id(3) string c;",
                  "@id(3) string c; @id(1) octet a; @id(2) double b;", '"a":'),
    "removed": ("m", "0", "@id(1) octet a; @id(2) double b; @id(3) string c;", "@id(1) octet a; @id(3) string c;", '"a":'),
    "replaced": ("m", "0", "@id(1) octet a; @id(2) double b;", "@id(1) octet a; @id(4) sequence<string> c;", '"c":[]'),
    "understood": ("m", "REFUSED", "@id(1) octet a;", "@id(1) octet a; @id(2) @must_understand @default(6) long added;",
                   '"added":6'),
}
KINDS = {"a": "appendable", "m": "mutable"}


def pairs():
    for name, (kinds, flags, old, new, expected) in EVOLUTIONS.items():
        for k in kinds:
            yield f"{name}_{k}", k, flags, old.replace("{k}", k), new.replace("{k}", k), expected


def write_idl(out):
    out.write("// Made by evolutions.py\n" + COMMON)
    for k, x in KINDS.items():
        out.write(PARTS.format(k=k, x=x))
    for name, k, _, old, new, _ in pairs():
        for version, members in (("old", old), ("new", new)):
            out.write(f"@topic @{KINDS[k]} struct {name}_{version} {{ {members} }};\n")
    out.write("};\n")


def write_table(out):
    out.write("/* Made by evolutions.py */\n")
    for name, _, flags, _, _, expected in pairs():
        text = expected.replace('"', '\\"')
        out.write(f"EVOLUTION(w_{name}_old, w_{name}_new, {'0' if flags == '0' else 'VERSIONS_' + flags}, \"{text}\")\n")


if __name__ == "__main__":
    with open(sys.argv[2], "w", encoding="utf-8") as f:
        (write_table if sys.argv[1] == "table" else write_idl)(f)
