#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes an IDL file of many type shapes, and a C table of their descriptors.

Usage: shapes.py IDL OUTPUT     the IDL file
       shapes.py table OUTPUT   SHAPE(name, keyed) lines, one a topic type

Every construct comes as final, appendable and mutable.
"""
import sys

COMMON = """
module n {
enum Color { RED, GREEN, @default_literal BLUE };
@bit_bound(8) enum Tiny { T_ONE, T_TWO, T_THREE };
@bit_bound(16) enum Mid { M_ONE, M_TWO };
@bit_bound(8) bitmask Bits8 { @position(0) b8_a, @position(3) b8_b, @position(7) b8_c };
@bit_bound(12) bitmask Bits12 { b12_a, b12_b, @position(11) b12_c };
bitmask Bits32 { b32_a, @position(31) b32_b };
@bit_bound(40) bitmask Bits40 { b40_a, @position(39) b40_b };
const long SIZE = 3;
typedef long Row[SIZE];
enum Valued { @value(5) V_FIVE, V_SIX, @value(70) V_MORE, @value(1000000) V_HIGH };
@bit_bound(3) enum Narrow { N_ONE, @value(3) N_THREE };
@bit_bound(64) bitmask Bits64 { b64_a, @position(63) b64_b };
@bit_bound(16) bitmask Bits16 { @position(15) b16_a, @position(2) b16_b };
typedef sequence<octet> Octets;
typedef sequence<string<7>, 4> Words;
typedef Color Paint;
@nested @final struct Fin { octet o; long long l; short s; };
@nested @final struct Plain { double x; long y; long z; };
@nested @appendable struct App { octet o; double d; string s; };
@nested @mutable struct Mut { @id(7) octet o; @id(3) @optional long long l; @id(12) string s; sequence<long> v; };
@bit_bound(1) bitmask Bits1 { b1_a };
enum Extreme { X_ZERO, @value(2147483647) X_MAX };
@nested @final union UDefault switch(long) { default: long a; };
@nested @appendable union UOnly switch(short) { default: string a; };
@nested @final struct Opt { octet o; @optional long l; @optional string s; @optional double d; };
@nested @final union UFin switch(long) { case 1: long long a; case 2: case 3: string b; default: octet c; };
@nested @appendable union UApp switch(char) { case 'a': double a; case 'b': sequence<short> b; };
@nested @final union UEnum switch(Color) { case RED: Fin f; case BLUE: App g; };
@nested @final union UBool switch(boolean) { case TRUE: long a; case FALSE: string<5> b; };
@nested @final union UTiny switch(Tiny) { case T_ONE: float a; default: Row b; };
@nested @final union UOctet switch(octet) { case 0: long a; case 255: string b; default: double c; };
@nested @final union UWide switch(long long) { case -5: octet a; case 2000000000: Fin b; };
@nested @appendable union UHuge switch(unsigned long long) { case 1: App a; default: sequence<Fin> b; };
@nested @final union UHeld switch(short) { case 1: @external Fin a; case 2: @external string b; };
@nested @final union UMid switch(Mid) { case M_ONE: Words a; case M_TWO: Row b; };
@nested @final struct KeyFin { @key long a; string note; @key short b; };
@nested @appendable struct KeyApp { @id(2) @key long a; @id(1) string note; @id(0) @key short b; };
@nested @mutable struct KeyMut { @id(9) @key long a; @id(4) string note; @id(6) @key octet b; };
@nested @final struct AllKey { octet a; long b; };
};
"""

# name: members. A member written with {x} is in the named extensibility of the shape.
SHAPES = {
    "prims": "boolean b; octet o; char c; int8 i1; uint8 u1; short i2; unsigned short u2; long i4; "
             "unsigned long u4; long long i8; unsigned long long u8; float f; double d;",
    "mixed": "octet a; double b; octet c; long long d; octet e; short f; octet g;",
    "strings": "string s; string<9> t; string u; octet o; string<1> v;",
    "enums": "n::Color c; n::Tiny t; n::Mid mm; n::Paint p; octet o; n::Color last;",
    "bitmasks": "n::Bits8 a; n::Bits12 b; n::Bits32 c; octet o; n::Bits40 d;",
    "arrays": "octet a[3]; short b[5]; long c[2]; double d[3]; boolean e[4]; char f[7]; float g[2][3][2];",
    "arrays_rich": "n::Color a[2]; n::Bits12 b[3]; string c[2]; string<4> d[3]; n::Fin e[2]; n::App f[2]; n::Mid g[3];",
    "arrays_alias": "n::Row a; n::Octets b[2]; n::Row c; octet o; n::Words d;",
    "seq_prims": "sequence<boolean> a; sequence<octet> b; sequence<char, 5> c; sequence<short> d; sequence<long> e; "
                 "sequence<long long> f; sequence<double, 3> g; octet o; sequence<float> h; sequence<uint64> i;",
    "seq_rich": "sequence<string> a; sequence<string<6>, 3> b; sequence<n::Color> c; sequence<n::Tiny> d; "
                "sequence<n::Bits40> e; sequence<n::Fin> f; sequence<n::App> g; sequence<n::Plain> h;",
    "seq_nested": "sequence<sequence<long> > a; sequence<n::Octets, 3> b; sequence<n::Words> c; sequence<sequence<n::App> > d;",
    "seq_mutable": "sequence<n::Mut> a; n::Mut b[2]; octet o;",
    "nested_final": "octet a; n::Fin b; octet c; n::Plain d; n::Fin e;",
    "nested_app": "octet a; n::App b; octet c; n::App d;",
    "nested_mut": "octet a; n::Mut b; octet c; n::Mut d; long long e;",
    "optional": "octet a; @optional long b; @optional long long c; octet d; @optional string e; @optional double f; octet g;",
    "optional_rich": "@optional n::Fin a; @optional n::App b; @optional n::Mut c; @optional sequence<short> d; "
                     "@optional string<5> e; @optional n::Row f; octet g; n::Opt h; @optional n::Color i; @optional boolean j;",
    "external": "@external long a; @external n::Fin b; @external string c; @external string<5> d; octet e;",
    "external_rich": "@external n::App a; @external sequence<long> b; @optional @external n::Fin c; @optional @external string d;",
    "union_fin": "octet a; n::UFin b; octet c; n::UFin d;",
    "union_app": "octet a; n::UApp b; long long c; n::UApp d;",
    "union_kinds": "n::UEnum a; n::UBool b; n::UTiny c; octet d;",
    "union_in": "sequence<n::UFin> a; sequence<n::UApp> b; n::UBool c[2]; @optional n::UFin d; @external n::UApp e;",
    "ids": "@id(30) octet a; @id(10) long b; @hashid short c; @hashid(\"other\") double d; @id(2) string e;",
    "must": "octet a; @must_understand long b; @must_understand string c; double d;",
    "int_names": "int16 a; int32 b; int64 c; uint16 d; uint32 e; uint64 f; int8 g; uint8 h; sequence<int16> i; int64 j[2];",
    "values": "n::Valued a; n::Narrow b; n::Valued c[3]; sequence<n::Valued> d; octet e; @optional n::Valued f;",
    "bit_bounds": "n::Bits64 a; n::Bits16 b; sequence<n::Bits16> c; n::Bits64 d[2]; n::Narrow e[5]; sequence<n::Narrow, 3> f;",
    "dimensions": "octet a[2][3]; double b[2][1][2]; n::Fin c[2][2]; string d[2][2]; n::Row e[2]; n::Color f[1][3];",
    "seq_deep": "sequence<sequence<sequence<short>, 2> > a; sequence<n::Row> b; sequence<sequence<string<3> >, 4> c; "
                "sequence<sequence<n::UFin> > d; sequence<n::Opt> e;",
    "union_discriminators": "n::UOctet a; n::UMid d; octet e;",
    # Cyclone 0.10.2 aborts on discriminators of 8 bytes: differential.c leaves it out here.
    "union_wide": "n::UWide b; n::UHuge c; octet e;",
    "union_external": "n::UHeld a; octet b;",
    "external_deep": "@external n::Mut a; @external n::Row b; @external n::UFin c; sequence<n::Fin, 3> d; @external n::Color e;",
    "autoid": "octet alpha; long beta; @id(77) short gamma; @optional double delta;",
    "must_optional": "@must_understand @optional long a; @optional @must_understand string b; octet c;",
    "defaults": "@default(7) long a; @default(2.5) double b; @default(TRUE) boolean c; @default('x') char d; octet e;",
    "plain_tick": "unsigned long long a; unsigned long long b; double c; double d; long e; long f;",
    "deep": "n::UEnum a; sequence<n::Mut> b; n::App c[2]; sequence<n::UApp> d; @optional n::Mut e;",
    "odd_unions": "n::UDefault a; n::UOnly b; sequence<n::UDefault, 2> c; @optional n::UOnly d; octet e;",
    "odd_labels": "n::Bits1 a; n::Extreme b; sequence<n::Bits1> c; n::Extreme d[2]; @optional n::Bits1 e; octet f;",
    "optional_unions": "@optional n::UApp a; @optional sequence<n::UFin> b; @optional n::UEnum c; octet d;",
    "external_seqs": "@external sequence<n::UApp> a; @external sequence<string> b; @optional @external sequence<n::Fin, 2> c; "
                     "octet d;",
    "arrays_large": "octet a[300]; short b[10][9][2]; n::Fin c[12]; string<3> d[15]; boolean e[70];",
    # keyed
    "key_int": "@key long k; double v;",
    "key_plain": "@key unsigned long long k; double a; long b; long c;",
    "key_plain_behind": "double a; long b; @key unsigned short k; short c;",
    "key_two": "@key long long k1; octet x; @key short k2; string v;",
    "key_big": "octet x; @key long k[8]; double v;",
    "key_string": "@key string k; long v;",
    "key_bounded": "octet x; @key string<8> k; @key octet z; long v;",
    "key_bounded_big": "@key string<40> k; long v;",
    "key_ids": "@id(9) @key octet a; @id(3) @key long long b; @id(5) string v; @id(1) @key short c;",
    "key_enum": "@key n::Color a; @key n::Tiny b; @key n::Bits12 c; long v; @key boolean d;",
    "key_fin": "octet x; @key n::KeyFin k; string v;",
    "key_app": "string v; @key n::KeyApp k; octet x;",
    "key_mut": "string v; @key n::KeyMut k; octet x;",
    "key_all": "@key n::AllKey k; octet x; @key octet z;",
    "key_past": "sequence<n::App> a; @optional long b; n::UFin c; n::Mut d; @key long k; string v;",
    "key_external": "@key @external long a; octet x; @key @external n::KeyFin b; @key octet c;",
    "key_arrays": "@key octet a[3]; @key short b[2]; long v; @key n::Color c[2];",
    "key_8": "@key octet a; @key long long b; long v;",
    "key_16": "@key octet a[16]; long v;",
    "key_17": "@key octet a[17]; long v;",
    "key_float": "@key float a; @key double b; @key char c; octet v;",
    "key_mid": "octet x; @key n::Mid a; @key n::Bits40 b;",
    "key_uint": "@key unsigned long a; @key uint8 b; @key int8 c; @key unsigned short d; long v;",
}
# Two versions of a type, the newer with more members. (No struct among the new ones: Cyclone 0.10.2
# aborts where it has to make up one.)
EVOLVED = """
@nested @{x} struct part_old_{k} {{ long a; }};
@nested @{x} struct part_new_{k} {{ long a; @default(3) short b; }};
@{x} struct old_{k} {{ @id(1) @key long k; @id(2) string note; @id(3) part_old_{k} part; @id(4) sequence<part_old_{k}> parts; }};
@{x} struct new_{k} {{ @id(1) @key long k; @id(2) string note; @id(3) part_new_{k} part; @id(4) sequence<part_new_{k}> parts;
  @id(5) @default(42) long added; @id(6) string text; @id(7) n::Color color; @id(8) @optional long maybe; }};
"""
KINDS = {"f": "final", "a": "appendable", "m": "mutable"}

# A base and what derives from it, for each extensibility.
DERIVED = """
@{x} struct base_{k} {{ @key long k; string note; }};
@{x} struct derived_{k} : base_{k} {{ octet more; sequence<short> tail; }};
"""


def topics():
    for name, members in SHAPES.items():
        for k, x in KINDS.items():
            yield f"{name}_{k}", x, members


def write_idl(out):
    out.write("// Made by shapes.py\n" + COMMON + "module s {\n")
    for name, x, members in topics():
        if name.startswith("must_") and x != "mutable":
            members = members.replace("@must_understand ", "")
        if name.startswith("autoid_"):
            x = f"{x} @autoid(HASH)"
        out.write(f"@topic @{x} struct {name} {{ {members} }};\n")
    for k, x in KINDS.items():
        out.write(DERIVED.format(k=k, x=x))
        if k != "f":
            out.write(EVOLVED.format(k=k, x=x))
    out.write("};\n")


def write_table(out):
    out.write("/* Made by shapes.py */\n")
    for name, _, _ in topics():
        out.write(f"SHAPE(s_{name})\n")
    for k in KINDS:
        out.write(f"SHAPE(s_base_{k})\nSHAPE(s_derived_{k})\n")
        if k != "f":
            out.write(f"SHAPE(s_old_{k})\nSHAPE(s_new_{k})\n")


if __name__ == "__main__":
    with open(sys.argv[2], "w", encoding="utf-8") as f:
        (write_table if sys.argv[1] == "table" else write_idl)(f)
