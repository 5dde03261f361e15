#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: the back-end of idlc refuses what Apus cannot do, with file, line and name, leaving nothing
behind; what it writes compiles without a warning, alone, as C and (the header) as C++.
Method: small IDL files through `idlc -l PLUGIN` in a fresh directory each.

Usage: check_idlc.py IDLC PLUGIN INCLUDE
"""
import os
import re
import subprocess
import sys
import tempfile

IDLC, PLUGIN, INCLUDE = sys.argv[1], os.path.abspath(sys.argv[2]), sys.argv[3]

# name: IDL, line of the error, what it says
REFUSED = {
    "long_double": ("@final struct T {\n  long double ratio;\n};", 2, r"ratio: type not supported"),
    "recursive": ("struct T;\ntypedef sequence<T> Ts;\n@final struct T { long v; Ts kids; };", 3,
                  r"T: recursive types not supported"),
    "key_sequence": ("@final struct T {\n  @key sequence<long> path;\n};", 2, r"path"),
    "key_union": ("@nested @final union U switch(long) { case 1: long a; };\n@final struct T {\n  @key U choice;\n};", 3, r"choice"),
    "mutable_union": ("@mutable union U switch(long) { case 1: long a; };", 1, r"[Mm]utable unions"),
    "key_discriminator": ("@final union U switch(@key long) { case 1: long a; };", 1, r"U: @key on a discriminator not supported"),
    "keylist": ("struct T { long a; long b; };\n#pragma keylist T a", 1, r"T: #pragma keylist not supported"),
    "enum_range": ("@bit_bound(8) enum E { SMALL,\n @value(200) LARGE };\n@final struct T { E e; };", 2, r"LARGE: value does not fit"),
    "try_construct": ("@final struct T {\n  @try_construct(TRIM) string<4> name;\n};", 2, r"name: @try_construct not supported"),
    "representation": ("@data_representation(XCDR1) @final struct T { long a; };", 1, r"T: @data_representation not supported"),
    "forward_only": ("struct Missing;\n@final struct T { sequence<Missing> m; };", None, r""),
    "wstring": ("@final struct T { wstring w; };", 1, r""),
    "wchar": ("@final struct T {\n  wchar w;\n};", 2, r"w"),
    "wstring_bounded": ("@final struct T {\n  wstring<4> w;\n};", 2, r"w"),
    "wide_constant": ("const wchar W = L'x';\n@final struct T { long a; };", 1, r""),
    "any": ("@final struct T {\n  any a;\n};", 2, r""),
    "fixed": ("@final struct T {\n  fixed<5,2> money;\n};", 2, r""),
    "map": ("@final struct T {\n  map<long, string> m;\n};", 2, r""),
    "bitset": ("bitset B {\n  bitfield<3> a;\n};", None, r""),
    "interface": ("interface I {\n  void f();\n};", 1, r""),
    "native": ("native N;\n@final struct T { long a; };", 1, r""),
    "valuetype": ("valuetype V { public long a; };", 1, r""),
    "recursive_self": ("@final struct T {\n  long v;\n  sequence<T> kids;\n};", 1, r"T: recursive types not supported"),
    "recursive_pair": ("struct B;\n@final struct A { sequence<B> bs; };\n@final struct B { sequence<A> as; };", 2,
                       r"A: recursive types not supported"),
    "recursive_external": ("struct T;\n@final struct T {\n  long v;\n  @external @optional T next;\n};", 2,
                           r"T: recursive types not supported"),
    "recursive_union": ("union U;\ntypedef sequence<U> Us;\n@final union U switch(long) {\n case 1: long a;\n case 2: Us u; };", 3,
                        r"U: recursive types not supported"),
    "mutable_union_nested": ("module m {\n@nested @mutable union U switch(boolean) { case TRUE: long a; };\n"
                             "@final struct T { U u; }; };", 2, r"U: mutable unions not supported"),
    "key_optional": ("@final struct T {\n  @key @optional long k;\n};", 2, r"k"),
    "key_strings": ("@final struct T {\n  @key string names[2];\n};", 2, r"names: type of a key member not supported"),
    "default_string": ("@final struct T {\n  @default(\"long\") string<3> name;\n};", 2, r"@default does not fit the string"),
    "default_list": ("@final struct T {\n  @default(1) sequence<long> name;\n};", 2, r"@default"),
    "default_enum": ("enum E { P, Q };\n@final struct T {\n  @default(Q) E e;\n};", 3, r"@default"),
    "default_range": ("@final struct T {\n  @default(70000) short s;\n};", 2, r""),
    "bit_bound_enum": ("@bit_bound(40) enum E { P, Q };\n@final struct T { E e; };", 1, r""),
    "bit_bound_mask": ("@bit_bound(65) bitmask B { P };\n@final struct T { B b; };", 1, r""),
    "position": ("@bit_bound(8) bitmask B { P,\n @position(8) Q };\n@final struct T { B b; };", 2, r""),
    "same_value": ("enum E { @value(1) P,\n @value(1) Q };\n@final struct T { E e; };", 2, r""),
    "same_id": ("@mutable struct T {\n  @id(3) long a;\n  @id(3) long b;\n};", 3, r""),
    "same_case": ("@final union U switch(long) { case 1: long a;\n case 1: long b; };", 2, r""),
    "float_discriminator": ("@final union U switch(double) {\n case 1: long a; };", 1, r""),
    "wide_label": ("@final union U switch(long long) {\n case 5000000000: long a; };\n@final struct T { U u; };", None, r""),
    "array_zero": ("@final struct T {\n  long a[0];\n};", 2, r""),
    "dimensions": ("@final struct T {\n  octet a[1][1][1][1][1][1][1][1][1];\n};", 2, r"a: more dimensions than supported"),
    "dimensions_alias": ("typedef octet R[1][1][1][1];\ntypedef R S[1][1][1][1];\n@final struct T {\n  S a[2];\n};", 4,
                         r"a: more dimensions than supported"),
    "empty_struct": ("@final struct T {\n};", 1, r""),
    "huge_array": ("@final struct T {\n  octet a[65536][65536];\n};", 2, r"a: size of the array"),
    "deep": ("".join(f"@nested @final struct L{i} {{ {'L%d next' % (i - 1) if i else 'long v'}; }};\n" for i in range(18)), 17,
             r"L16: nested deeper"),
    "many": ("@final struct T {\n" + "\n".join(f"  long m{i};" for i in range(257)) + "\n};", 1, r"T: more than 256 members"),
    "same_c_name": ("module a { struct b_c { long x; }; };\nmodule a_b { struct c { long x; }; };", 2, r"declaration has the name of another: a_b_c"),
    "same_c_name_enum": ("module a { enum b_E { X }; };\nmodule a_b { enum E { X }; };", 2, r"a_b_E"),
    "macro_and_member": ("const long size = 4;\nstruct T { long size; };", 2, r"T: in C its member has the name of another: size"),
    "macro_and_descriptor": ("const long T_type = 3;\nstruct T { long a; };", 2, r"T_type"),
    "macro_and_flag": ("bitmask B { P,\n Q };\nconst long B_Q = 3;", None, r"B_Q"),
    "keyword_and_member": ("struct T {\n long int; long int_; };", 1, r"int_"),
    "library_type": ("module apus {\n struct type { long a; }; };", 2, r"type: in C its declaration has a name of the headers': apus_type"),
    "library_member": ("struct apus_member { long a; };", 1, r"apus_member: in C"),
    "library_macro": ("struct T {\n long APUS_API; };", 1, r"in C its member has a name of the headers': APUS_API"),
    "library_label": ("enum E { P,\n APUS_KIND_BOOL };", 2, r"APUS_KIND_BOOL"),
    "flag_and_macro": ("bitmask INT32 { P,\n MAX };", 2, r"INT32_MAX"),
    "wide": ("".join(f"@nested @final struct L{i} {{\n" + "".join(f" {f'L{i - 1}' if i else 'long'} m{j};" for j in range(256)) + "};\n"
                     for i in range(6)), 3, r"L1: more than 65536 members"),
    "labels": ("enum E {" + ",".join(f"L{i}" for i in range(4097)) + "};\n@final struct T { E e; };", 1, r"E: more than 4096 labels"),
    "included": ("#include \"inner.idl\"\n@final struct T { Inner i; };", None, r"inner\.idl:1:.*ratio: type not supported"),
}
FILES = {"included": {"inner.idl": "@nested @final struct Inner { long double ratio; };"}}

ACCEPTED = {
    "keywords": "@final struct T { long int; @key long class; long register; string restrict; };",
    "macros": "enum E { NULL, linux }; struct T { long typeof; long linux; long unix; long requires; long char8_t; long EOF; long INT8_MAX; long UINT_LEAST16_C; long INTERVAL_MAX; };\n"
              "struct int32_t { double errno; long size_t; };\n"
              "struct PTRDIFF_MIN { long INT32_MAX; long PTRDIFF_MAX; long SIZE_MAX; long WINT_MIN; long SIG_ATOMIC_WIDTH;"
              " long UINTPTR_WIDTH; long PTRDIFF; long apus_type; }; const long WCHAR_MAX = 3; enum INTMAX_C { SIZE_WIDTH };",
    "floats": "const float F = 3; const double D = 3; const double E = 1e300; const float G = 1e-30; const double H = -0.5;",
    "apart": "const long a = 1; module m { const long b = 2; struct T { long b; long m; }; struct U { long b; }; };",
    "modules": "module a { module b { enum E { P, Q }; @final struct T { @key E e; }; }; };\n"
               "module a { @final struct S { b::T t; sequence<b::T, 3> ts; }; };",
    "constants": "const long SIZE = 4; const string HI = \"a\\\"b\"; const double PI = 3.25; const boolean YES = TRUE;\n"
                 "const long long LEAST = -9223372036854775807; const octet O = 7; const char C = 'x';\n"
                 "enum E { P, Q }; const E FIRST = P; @final struct T { long a[SIZE]; };",
    "include": "#include \"inner.idl\"\n@appendable struct T { @key inner::Kind k; inner::In i; @optional inner::In j; };",
    "typedefs": "typedef long A[2][3]; typedef A B; typedef sequence<B> C; typedef string<4> D; typedef D Ds[2];\n"
                "@mutable struct T { A a; B b; C c; D d; Ds e; @optional Ds f; @external B g; };",
    "unions": "@nested @final union U switch(unsigned short) { case 1: case 65535: string a; default: long b[2]; };\n"
              "@final struct T { @key long k; U u; };",
    "ranges": "@final struct T { @min(1) @max(5) long a; @unit(\"m\") double b; };",
    "ids": "@autoid(HASH) @mutable struct T { long x; @id(5) @must_understand long y; @default(-3) long z; };",
    "derived": "@final struct B { @key long k; }; @final struct D : B { long v; }; @final struct E : D { string s; };",
    "defaults": "@final struct T { @default(\"a\\\"b\") string s; @default(\"xy\") string<2> t; @default(3) octet o; };",
    "empty_file": "const long NOTHING = 1;",
}
FILES["include"] = {"inner.idl": "module inner { enum Kind { K1, K2 }; @nested @final struct In { Kind k; bits b; };\n"
                                 "};".replace("bits b", "long b")}

failures = []


def write(folder, name, text):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
        f.write(text + "\n")


def compile_idl(folder, name, text):
    for other, content in FILES.get(name, {}).items():
        write(folder, other, content)
    write(folder, f"{name}.idl", text)
    return subprocess.run([IDLC, "-f", "case-sensitive", "-l", PLUGIN, f"{name}.idl"], cwd=folder, text=True, timeout=30,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)


def check_refused(name, text, line, pattern):
    with tempfile.TemporaryDirectory() as folder:
        done = compile_idl(folder, name, text)
        if done.returncode == 0:
            failures.append(f"{name}: accepted")
        if pattern and not re.search(pattern, done.stdout):
            failures.append(f"{name}: no /{pattern}/ in: {done.stdout}")
        if line and f"{name}.idl:{line}:" not in done.stdout:
            failures.append(f"{name}: line {line} not named in: {done.stdout}")
        left = [f for f in os.listdir(folder) if not f.endswith(".idl")]
        if left:
            failures.append(f"{name}: left behind {left}")


def run(folder, *command):
    done = subprocess.run(command, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return done.stdout if done.returncode else None


def check_accepted(name, text):
    with tempfile.TemporaryDirectory() as folder:
        done = compile_idl(folder, name, text)
        if done.returncode:
            failures.append(f"{name}: {done.stdout}")
            return
        for other in FILES.get(name, {}):
            compile_idl(folder, other[:-4], FILES[name][other])
        flags = ["-Wall", "-Wextra", "-Wno-missing-field-initializers", "-Werror", "-I", INCLUDE, "-fsyntax-only"]
        if name == "floats":  # a macro is looked at where it is used
            write(folder, "use.c", '#include "floats.h"\nfloat f = F + G; double d = D / 2 + E + H;\n_Static_assert(D / 2 == 1.5, "");')
        problem = run(folder, "cc", "-std=c11", *flags, "use.c") if name == "floats" else None
        problem = problem or run(folder, "cc", "-std=c11", *flags, f"{name}.c") or \
            run(folder, "c++", "-std=c++17", "-x", "c++", *flags, f"{name}.h")
        if problem:
            failures.append(f"{name}: {problem}")


for key, (idl, at, what) in REFUSED.items():
    check_refused(key, idl, at, what)
for key, idl in ACCEPTED.items():
    check_accepted(key, idl)
print(f"{len(REFUSED)} refused, {len(ACCEPTED)} accepted: {len(failures)} failures")
for failure in failures:
    print(failure)
sys.exit(1 if failures else 0)
