#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: `apus pub|sub|filter --idl FILE` work with types no program was built with.
Method: an IDL file with a directive and every kind of member; samples through loopback in a network
namespace of its own, in each extensibility and both representations; what comes out as JSON is what
went in. Wrong files and names are refused with exit code 2; so is whatever the preprocessor cannot do.

Then every shape of shapes.py: its samples as JSON through `apus filter --idl`, with a condition on its
first field that always holds.

Usage: check_cli.py APUS DIFFERENTIAL. Exit codes: 0 all hold, 1 some do not, 77 no right to make a namespace.
"""
import json
import os
import subprocess
import sys
import tempfile

APUS, DIFFERENTIAL = map(os.path.abspath, sys.argv[1:3])
SHAPES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "shapes.py")
STRING, ARRAY, SEQUENCE = 16, 17, 18
IDL = """
#define LEGS 3
module r {
enum Mode { IDLE, RUN };
@bit_bound(8) bitmask Flags { HOT, @position(6) LOUD };
@nested @%s struct Leg { string name; double angle; };
@nested union Goal switch(Mode) { case IDLE: long since; default: sequence<double> path; };
@%s struct Robot {
  @key string<16> name; Mode mode; Flags flags; sequence<Leg, LEGS> legs; Goal goal;
  @optional long battery; @external Leg tail; octet raw[4]; unsigned long long serial_number;
};
};
"""
SAMPLES = [
    {"name": "a", "mode": "RUN", "flags": ["HOT", "LOUD"], "legs": [{"name": "l", "angle": 1.5}],
     "goal": {"$discriminator": "RUN", "path": [0.5, -1.0]}, "battery": -5, "tail": {"name": "t", "angle": 0.0},
     "raw": "AQIDBA==", "serial_number": 18446744073709551615},
    {"name": "b", "mode": "IDLE", "flags": [], "legs": [], "goal": {"$discriminator": "IDLE", "since": 7},
     "tail": {"name": "", "angle": -2.0}, "raw": "AAAAAA==", "serial_number": 0},
]
failures = []


def expect(holds, what):
    if not holds:
        failures.append(what)
        print("FAILED:", what)


def write(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    return path


def run(*words, stdin=""):
    return subprocess.run([APUS, *words], input=stdin, capture_output=True, text=True, timeout=30, check=False)


def stream(path, what, qos):
    common = ["--idl", path, "--qos", qos]
    with subprocess.Popen([APUS, "sub", "Robots", *common, "--json", "--count", "2", "--timeout", "15"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as sub:
        done = run("pub", "Robots", *common, "--wait-matched", "1", *[json.dumps(s) for s in SAMPLES])
        expect(done.returncode == 0, f"{what}: pub exit code {done.returncode}: {done.stderr}")
        out, err = sub.communicate(timeout=30)
        expect(sub.returncode == 0, f"{what}: sub exit code {sub.returncode}: {err}")
        got = [json.loads(line)["data"] for line in out.splitlines()]
        expect(got == SAMPLES, f"{what}: {got}")


def refusals(folder, path):
    broken = write(folder, "broken.idl", "struct T { long; };\n")
    two = write(folder, "two.idl", "struct A { long a; }; struct B { long b; };\n")
    wide = write(folder, "wide.idl", "@final struct A {\n long double a;\n};\n")
    for words, part in [((path, "--type", "r::None"), "no struct r::None"), ((two,), "name one"),
                        ((folder + "/none.idl",), "No such file"), ((broken,), "does not compile"),
                        ((wide,), "wide.idl:2:")]:
        done = run("pub", "T", "--idl", *words, "{}")
        expect(done.returncode == 2 and part in done.stderr, f"{words}: {done.returncode} {done.stderr}")
    done = run("pub", "T", "--idl", path, json.dumps({**SAMPLES[0], "goal": {"since": 1, "path": []}}))
    expect(done.returncode == 2 and "goal" in done.stderr, f"two cases: {done.stderr}")
    # A file named like an option is a file.
    write(folder, "-v.idl", "struct class { long a; };\n")
    done = subprocess.run([APUS, "filter", "a = 1", "--idl", "-v.idl"], input='{"a": 1}', cwd=folder,
                          capture_output=True, text=True, timeout=30, check=False)
    expect(done.returncode == 0 and done.stdout == "true\n", f"-v.idl: {done.returncode} {done.stderr}")
    done = run("pub", "T", "--idl", path, json.dumps({**SAMPLES[0], "mode": "FLY"}))
    expect(done.returncode == 2 and "mode" in done.stderr, f"no such label: {done.stderr}")


def includes(folder):
    """Included files work; what the preprocessor cannot do is told with file and line, whatever is left."""
    rest = "struct T { long x; };\n"
    os.mkdir(os.path.join(folder, "sub"))
    write(folder, "sub/x.idl", '#ifndef X\n#define X\n#include "y.idl"\n#include "../outer.idl"\nstruct X { Y y; };\n#endif\n')
    write(folder, "sub/y.idl", "struct Y { long n; };\n")
    outer = write(folder, "outer.idl", '#include "sub/x.idl"\n#ifndef T_IDL\n#define T_IDL\nstruct T { X x; };\n#endif\n')
    done = run("filter", "x.y.n = 1", "--idl", outer, stdin='{"x": {"y": {"n": 1}}}')
    expect(done.returncode != 139, f"circular: {done.returncode}")
    plain = write(folder, "plain.idl", '#include "sub/y.idl"\n#include "sub/y2.idl"\nstruct T { Y y; };\n')
    write(folder, "sub/y2.idl", "struct Z { long n; };\n")
    done = run("filter", "y.n = 1", "--idl", plain, stdin='{"y": {"n": 1}}')
    expect(done.returncode == 0 and done.stdout == "true\n", f"include: {done.returncode} {done.stderr}")
    write(folder, "sub/y2.idl", "\nstruct Z { long; };\n")
    done = run("filter", "y.n = 1", "--idl", plain, stdin='{"y": {"n": 1}}')
    expect(done.returncode == 2 and "y2.idl:2:" in done.stderr, f"included error: {done.returncode} {done.stderr}")
    for name, text, part in [
            ("missing", '#include "none.idl"\n' + rest, "missing.idl:1: error: Can't open include file"),
            ("error", "#error no\n" + rest, "error.idl:1: error: #error no"),
            ("open", "#ifdef FOO\n#endif\n#ifndef FOO\n" + rest, "open.idl:4: error: "),
            ("itself", '#include "itself.idl"\n' + rest, "itself.idl:1: fatal error: "),
            ("long", rest + "struct U { long " + "x" * 70000 + "; };\n", "long.idl:2: fatal error: ")]:
        done = run("filter", "x = 1", "--idl", write(folder, name + ".idl", text), stdin='{"x": 1}')
        expect(done.returncode == 2 and part in done.stderr and "does not compile" in done.stderr and
               done.stdout == "" and len(done.stderr) < 2000, f"{name}: {done.returncode} {done.stderr[:2000]}")
    done = run("filter", "x = 1", "--idl", folder, stdin="{}")
    expect(done.returncode == 2 and "File read error" in done.stderr, f"directory: {done.returncode} {done.stderr}")


def field(t):
    """Path of the first field of a struct or union: a number or a string."""
    for m in t["members"]:
        path, inner = m["name"], m["type"]
        while inner["kind"] == ARRAY:
            path, inner = path + "[0]" * inner["dims"], inner["element"]
        if inner["kind"] == SEQUENCE:
            return path + ".length"
        if inner["kind"] <= STRING:
            return path
        return f"{path}.{field(inner)}"
    raise ValueError("no field in " + json.dumps(t))


def shapes(folder):
    """Every shape, loaded at run time."""
    path = os.path.join(folder, "shapes.idl")
    subprocess.run([sys.executable, SHAPES, "idl", path], check=True)
    dump = subprocess.run([DIFFERENTIAL, "dump"], capture_output=True, text=True, check=True).stdout
    types = {}
    for line in dump.rstrip("\n").split("\n"):
        word, first, rest = line.split(" ", 2)
        if word == "type":
            samples = types[first] = (field(json.loads(rest)), [])
        else:
            samples[1].append(rest)
    for name, (where, samples) in types.items():
        done = run("filter", f"{where} IS NULL OR {where} IS NOT NULL", "--idl", path, "--type",
                   name.replace("_", "::", 1), stdin="\n".join(samples) + "\n")
        expect(done.returncode == 0 and done.stdout == "true\n" * len(samples),
               f"{name}, {where}: {done.returncode} {done.stderr}")
    return len(types)


def main():
    with tempfile.TemporaryDirectory() as folder:
        for nested in ("final", "appendable", "mutable"):
            for outer in ("final", "appendable", "mutable"):
                path = write(folder, f"{nested}_{outer}.idl", IDL % (nested, outer))
                for representation in ("xcdr1", "xcdr2"):
                    stream(path, f"{outer} of {nested}, {representation}",
                           f"reliability=reliable,representation={representation}")
        refusals(folder, path)
        includes(folder)
        count = shapes(folder)
    print("18 streams,", count, "shapes,", len(failures), "failures")
    return 1 if failures else 0


if __name__ == "__main__":
    if os.environ.get("APUS_TEST_IN_NAMESPACE"):
        subprocess.run(["ip", "link", "set", "lo", "up", "multicast", "on"], check=True)
        sys.exit(main())
    probe = subprocess.run(["unshare", "-n", "true"], capture_output=True, check=False)
    if probe.returncode:
        sys.exit(77)
    os.environ["APUS_TEST_IN_NAMESPACE"] = "1"
    os.execvp("unshare", ["unshare", "-n", sys.executable, *sys.argv])
