#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: the contract of the apus command that scripts rely on: exit codes, messages, lines.

Method: runs the program with right and wrong words in a network namespace of its own that has nothing
but loopback, and compares code, message and output. Every run is bounded in time.

Usage: test_cli.py APUS. Exit codes: 0 all hold, 1 some do not, 77 no right to make a namespace.
"""

import ctypes
import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time

APUS = sys.argv[1] if len(sys.argv) > 1 else ""
IN_NAMESPACE = "APUS_TEST_IN_NAMESPACE"
S = '{"color":"RED","x":0,"y":1,"shapesize":30}'
PATIENCE_S = 20
failures = []


def run(*words, stdin="", env=None, preexec=None):
    """Runs to the end; returns (code, stdout, stderr)."""
    clean = {key: value for key, value in os.environ.items() if key != "APUS_CONFIG"}
    done = subprocess.run([APUS, *words], input=stdin, capture_output=True, text=True,
                          timeout=PATIENCE_S, env={**clean, **(env or {})}, preexec_fn=preexec)
    return done.returncode, done.stdout, done.stderr


def start(*words, stdin=subprocess.DEVNULL):
    return subprocess.Popen([APUS, *words], stdin=stdin, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def start_ready(*words, stdin=subprocess.DEVNULL):
    """Starts a command and waits until it has joined the domain."""
    process = start(*words, "--verbose", stdin=stdin)
    for line in process.stderr:
        if line.startswith("pages: "):
            return process
    process.wait(PATIENCE_S)
    expect(False, f"{words} ended with {process.returncode} before it was ready")
    return process


def expect(holds, what):
    if not holds:
        failures.append(what)
        print("FAILED:", what)


def refused(words, code, *named, **options):
    """The exit code, nothing on stdout, and a message with these parts."""
    got, out, err = run(*words, **options)
    expect(got == code, f"{words}: exit code {got}, expected {code}: {err.strip()[-300:]}")
    expect(out == "", f"{words}: prints {out[:100]!r}")
    expect(err.startswith("apus"), f"{words}: no message")
    for part in named:
        expect(part in err, f"{words}: message does not hold {part!r}: {err.strip()[-300:]}")


def usage():
    refused(["fly"], 2, "fly: no such command")
    refused(["pup", "Square"], 2, "did you mean pub?")
    refused(["sub"], 2, "a topic is wanted")
    refused(["sub", "A", "B"], 2, "B: one topic is wanted")
    refused(["sub", ""], 2, "0 bytes; 1 to 255")
    refused(["sub", "T" * 256], 2, "256 bytes")
    refused(["ls", "Square"], 2, "Square")
    refused(["config", "x"], 2, "x")
    refused(["sub", "Square", "--wings", "2"], 2, "--wings (word 2): no such option")
    refused(["sub", "Square", "--partiton", "2"], 2, "did you mean --partition?")
    refused(["sub", "Square", "--part", "2"], 2, "--part (word 2): no such option")
    refused(["sub", "Square", "-x"], 2, "-x (word 2)")
    refused(["sub", "Square", "--json=yes"], 2, "takes no value")
    refused(["sub", "Square", "--count"], 2, "--count (word 2): wants a value: N")
    for count in ("0", "-1", "two", "1.5", "", "9223372036854775808"):
        refused(["sub", "Square", "--count", count], 2, f"--count {count} (word 3)")
    for domain in ("233", "-1", "0x1", "4294967296"):
        refused(["sub", "Square", "--domain", domain], 2, f"--domain {domain} (word 3)", "0 to 232")
    for rate in ("0", "-1", "fast", "inf"):
        refused(["pub", "Square", S, "--rate", rate], 2, f"--rate {rate} (word 4)")
    refused(["sub", "Square", "--timeout", "1s"], 2, "--timeout 1s (word 3)", "seconds")
    refused(["sub", "Square", "--type", "Circle"], 2, "--type Circle", "ShapeType")
    refused(["sub", "Square", "--param", "1"], 2, "no --filter")
    code, out, _ = run("sub", "--help")
    expect(code == 0 and "--filter EXPR" in out, "sub --help")
    code, out, _ = run("--version")
    expect(code == 0 and out == "apus 0.1.0\n", f"--version prints {out!r}")
    code, out, err = run()
    expect(code == 2 and out == "" and "Usage" in err, "no words at all")


def qos():
    refused(["pub", "Square", S, "--qos", "strength=1,reliablity=reliable"], 2,
            "--qos, position 11: no such QoS word: reliablity; did you mean reliability?",
            "\n  strength=1,reliablity=reliable\n             ^~~~~~~~~~\n")
    refused(["sub", "Square", "--qos", "history=keep_last:0"], 2, "position 8", "keep_last:N")
    refused(["sub", "Square", "--qos", "user_data=x"], 2, "no effect")
    refused(["sub", "Square", "--qos", "deadline=1ms,time_filter=2ms"], 2, "deadline")
    refused(["sub", "Square", *(["--partition", "p"] * 65)], 2, "more than 64 partitions")
    refused(["sub", "Square", "--partition", "p" * 256], 2, "longer than 255 bytes")


def samples():
    def bad(text, *named):
        refused(["pub", "Square", S, text], 2, "sample 2: ", *named)
        refused(["pub", "Square"], 2, "stdin, line 3: ", *named, stdin=f"{S}\n\n{text}\n")

    bad('{"color":"RED","x":1,"y":2}', "shapesize: missing")
    bad('{"color":"RED","x":1,"y":2,"shapesize":3,"z":4}', "z: no such member")
    bad('{"color":"RED","x":"one","y":2,"shapesize":3}', "x: ")
    bad('{"color":"RED","x":2147483648,"y":2,"shapesize":3}', "x: 2147483648 out of range for int32")
    bad('{"color":"%s","x":1,"y":2,"shapesize":3}' % ("R" * 129), "color: ")
    bad('{"color":', "not JSON")
    bad("[1]", "")
    refused(["pub", "Square", S, "--dispose", '{"x":1}'], 2, "--dispose", "color: missing")
    refused(["pub", "Square", S, "--increment", "color"], 2, "--increment color: not an integer")
    refused(["pub", "Square", S, "--increment", "z"], 2, "no such field")
    refused(["pub", "Square", "--increment", "x"], 2, "--increment x")


def filters():
    def bad(expression, position, *named, params=()):
        words = [word for value in params for word in ("--param", value)]
        refused(["sub", "Square", "--type", "ShapeType", "--filter", expression, *words], 2,
                f"filter, position {position}: ", *named)
        refused(["filter", expression, *words], 2, f"filter, position {position}: ", *named)

    bad("colour = 'RED'", 0, "colour", "\n  colour = 'RED'\n  ^~~~~~\n")
    bad("x > 1 AND z = 2", 10, "'z'")
    # Of a long one what is near.
    bad("x = 1 AND " * 20 + "zz = 3", 200, "'zz'",
        "\n  ...= 1 AND" + " x = 1 AND" * 4 + " zz = 3\n" + " " * 53 + "^~\n")
    bad("x >", 3)
    bad("", 0, "empty")
    bad("x = 'RED'", 4)
    bad("x BETWEEN %0 AND %1", 17, "%1", params=("1",))
    refused(["filter"], 2, "one expression")
    # Without --type the filter may fit the type that a writer tells; what no type can mend is refused at once.
    refused(["sub", "Square", "--filter", "x >"], 2, "filter, position 3: ")
    refused(["sub", "Square", "--filter", "a = -5", "--timeout", "0.3"], 2, "filter, position 0: ")
    lines = "".join(json.dumps({"color": "RED", "x": x, "y": 0, "shapesize": 1}) + "\n"
                    for x in range(4))
    code, out, err = run("filter", "x BETWEEN %0 AND %1", "--param", "1", "--param", "2", stdin=lines)
    expect((code, out) == (0, "false\ntrue\ntrue\nfalse\n"), f"filter: {code} {out!r} {err!r}")
    payload = "00010000 04000000 52454400 09000000 01000000 03000000"
    code, out, err = run("filter", "x = 9", "--cdr", stdin=payload + "\n" + payload.replace("09", "08", 1) + "\n")
    expect((code, out) == (0, "true\nfalse\n"), f"hex samples: {code} {out!r} {err!r}")
    code, out, err = run("filter", "x = 9", "--cdr", stdin="0001zz\n")
    expect(code == 2, f"not hex: {code}")
    code, out, err = run("filter", "color = 'RED'", "--check")
    expect(code == 0 and "field 0: color (string)" in out and "index: texts of color" in out, out + err)
    code, out, err = run("filter", "x > 1", stdin=S + "\n{}\n")
    expect(code == 2 and out == "false\n" and "stdin, line 2: " in err, f"filter: {code} {err!r}")


def descriptors(directory):
    """Standard descriptors that are closed, full or no text: told, never mistaken for a socket."""
    def ends(words, code, named, **streams):
        done = subprocess.run([APUS, *words], stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S,
                              check=False, **streams)
        expect(done.returncode == code and named in done.stderr,
               f"{words} {streams}: {done.returncode} {done.stderr!r}")

    null = subprocess.DEVNULL
    ends(["pub", "Square"], 2, "stdin: ", preexec_fn=lambda: os.close(0), stdout=null)
    with open("/dev/full", "w", encoding="ascii") as full:
        for words in (["--help"], ["--version"], ["config"]):
            ends(words, 3, "cannot write", stdout=full, stdin=null)
            ends(words, 3, "cannot write", preexec_fn=lambda: os.close(1), stdin=null)
        sub = subprocess.Popen([APUS, "sub", "Square", "--timeout", "10", "--qos",
                                "reliability=reliable"], stdin=null, stdout=full,
                               stderr=subprocess.PIPE, text=True)
        run("pub", "Square", S, "--wait-matched", "1", "--timeout", "8")
        _, err = sub.communicate(timeout=PATIENCE_S)
        expect(sub.returncode == 3 and "cannot write" in err, f"sub to a full disk: {err!r}")
    folder = os.open(directory, os.O_RDONLY)
    for words in (["pub", "Square"], ["filter", "x > 1"]):
        ends(words, 2, "stdin: Is a directory", stdin=folder, stdout=null)
        refused(words, 2, "stdin, line 1: holds a NUL", stdin=S + "\0\n")
        refused(words, 2, "stdin, line 1: longer than", stdin=" " * (5 << 20))
    os.close(folder)


def left_out(directory):
    """A sample that does not decode is told and left out; those of other writers are still printed."""
    path = os.path.join(directory, "short.idl")
    with open(path, "w", encoding="ascii") as out:
        out.write("@final struct ShapeType { @key string<128> color; long x; };\n")
    sub = start_ready("sub", "Square", "--json", "--count", "2", "--timeout", "15", "--qos",
                      "reliability=reliable")  # one alive, one no_writers
    # Types that are read live to the end of the program: no leak, whatever a sanitizer says.
    code, _, err = run("pub", "Square", '{"color":"BAD","x":1}', "--idl", path, "--wait-matched", "1",
                       "--timeout", "8", env={"ASAN_OPTIONS": "detect_leaks=0"})
    if "no IDL front end" not in err:
        expect(code == 0, f"pub of another type: {code} {err}")
    run("pub", "Square", S, "--wait-matched", "1", "--timeout", "8")
    code2, got, told = lines(sub)
    alive = [line["data"]["color"] for line in got if line["state"] == "alive"]
    expect(code2 == 0 and alive == ["RED"], f"beside a sample left out: {code2} {got} {told}")
    expect(code != 0 or "is left out: invalid encoding" in told, f"left out unsaid: {told!r}")


def told_type(directory):
    """A filter is compiled for the type that the writer tells, whether or not it fits the guessed one."""
    path = os.path.join(directory, "told.idl")
    with open(path, "w", encoding="ascii") as out:
        out.write("@final struct Told { @key long k; long a; string x; };\n")
    samples = ['{"k":1,"a":-5,"x":"p"}', '{"k":2,"a":7,"x":"q"}']
    for expression, expected in (("a = -5", 1), ("k > %0", 2), ("x = 'q'", 2)):
        sub = start_ready("sub", "Typed", "--json", "--count", "1", "--timeout", "15", "--filter", expression,
                          "--param", "1", "--qos", "reliability=reliable")
        code, _, err = run("pub", "Typed", *samples, "--idl", path, "--wait-matched", "1", "--timeout", "10",
                           "--qos", "durability=transient_local", env={"ASAN_OPTIONS": "detect_leaks=0"})
        if "no IDL front end" in err:
            sub.kill()
            sub.communicate()
            return
        expect(code == 0, f"pub of a told type: {code} {err}")
        code, got, err = lines(sub)
        expect(code == 0 and [line["data"]["k"] for line in got] == [expected], f"{expression}: {code} {got} {err}")
    sub = start_ready("sub", "Typed", "--json", "--timeout", "15", "--filter", "nothing = 1")
    run("pub", "Typed", *samples, "--idl", path, "--linger", "2", env={"ASAN_OPTIONS": "detect_leaks=0"})
    code, got, err = lines(sub)
    expect(code == 2 and got == [] and "filter, position 0: " in err, f"a member nobody has: {code} {got} {err}")
    # A writer of the guessed type decides too.
    sub = start_ready("sub", "Square", "--json", "--timeout", "15", "--filter", "nothing = 1")
    run("pub", "Square", S, "--linger", "2")
    code, got, err = lines(sub)
    expect(code == 2 and got == [] and "filter, position 0: " in err, f"of ShapeType: {code} {got} {err}")


def unasked(directory):
    """A writer that is there already meets no reader of a guessed type, even for a moment."""
    idl, counters_path = (os.path.join(directory, name) for name in ("told.idl", "unasked"))
    pub = start("pub", "Unasked", '{"k":1,"a":-5,"x":"p"}', "--idl", idl, "--linger", "30", "--qos",
                "durability=transient_local", "--set", "stats.file=" + counters_path, "--verbose")
    if not any(line.startswith("pages: ") for line in pub.stderr):
        pub.communicate(timeout=PATIENCE_S)
        return  # no IDL front end
    code, out, err = run("sub", "Unasked", "--json", "--count", "1", "--timeout", "15", "--qos",
                         "reliability=reliable,durability=transient_local")
    expect(code == 0 and json.loads(out)["data"]["k"] == 1, f"a told type: {code} {out} {err}")
    deadline = time.monotonic() + PATIENCE_S
    rows = []
    while time.monotonic() < deadline and not any(r["counters"].get("discovery.departed") for r in rows):
        time.sleep(0.1)
        _, out, err = run("stats", counters_path, "--json")
        rows = [json.loads(line) for line in out.splitlines()]
    counts = [r["counters"]["status.inconsistent"] for r in rows if "status.inconsistent" in r["counters"]]
    expect(counts == [0], f"inconsistent: {counts} {out} {err}")
    pub.terminate()
    pub.communicate(timeout=PATIENCE_S)


def settings(directory):
    def file(text):
        path = os.path.join(directory, "apus.conf")
        with open(path, "w", encoding="utf-8") as out:
            out.write(text)
        return path

    refused(["config", "--set", "domian=3"], 2, "domian", "did you mean domain?")
    refused(["config", "--set", "domain"], 2, "NAME=VALUE")
    refused(["config", "--set", "domain=233"], 2, "233", "0…232")
    refused(["config", "--set", "lease=5"], 2, "lease")
    refused(["config", "--config", directory + "/none"], 2, "none")
    path = file("domain = 1\nlease = soon\n")
    refused(["config", "--config", path], 2, path, "2", "soon")
    refused(["config"], 2, "APUS_CONFIG", "soon", env={"APUS_CONFIG": path})
    refused(["sub", "Square", "--config", path], 2, "soon")

    path = file("domain = 7\nlease = 5s\n")
    for words, env, domain in ((["--config", path], {}, "7"), ([], {"APUS_CONFIG": path}, "7"),
                               ([], {}, "0"), (["--config", path, "--domain", "8"], {}, "8"),
                               (["--domain", "8", "--set", "domain=9"], {"APUS_CONFIG": path}, "9")):
        code, out, err = run("config", "--json", *words, env=env)
        rows = {row["name"]: row for row in map(json.loads, out.splitlines())}
        expect(code == 0 and rows["domain"]["value"] == domain, f"config {words} {env}: {err}")
        expect(all({"name", "value", "default", "range", "unit", "help"} == set(row)
                   for row in rows.values()), "keys of config --json")

    # What is printed is a file of settings with the same values.
    _, listing, _ = run("config", "--set", "peers=127.0.0.1,127.0.0.1:7410", "--set", "lease=7s")
    code, again, err = run("config", "--config", file(listing))
    expect(code == 0 and again == listing, f"config does not read its own listing: {err}")


def no_io_uring():
    """Makes io_uring_setup fail with EPERM, as container runtimes do (seccomp)."""
    def statement(code, true, false, k):
        return struct.pack("HBBI", code, true, false, k)

    program = (statement(0x20, 0, 0, 0) +            # load the number of the system call
               statement(0x15, 0, 1, 425) +          # io_uring_setup
               statement(0x06, 0, 0, 0x00050001) +   # errno 1
               statement(0x06, 0, 0, 0x7fff0000))    # allow
    buffer = ctypes.create_string_buffer(program)
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None)
    libc.prctl(38, 1, 0, 0, 0)
    libc.prctl(22, 2, ctypes.create_string_buffer(header), 0, 0)


def system():
    """What the machine refuses: a clear message and 3, or a fall-back that --verbose tells."""
    refused(["sub", "Square", "--set", "interfaces=nowhere0", "--timeout", "1"], 3, "nowhere0")
    refused(["sub", "Square", "--set", "interfaces=192.0.2.1", "--timeout", "1"], 3, "192.0.2.1")
    refused(["sub", "Square", "--set", "control.core=1023", "--timeout", "1"], 3, "control.core")
    holder = start_ready("sub", "Square", "--set", "participant.index=3", "--json")
    refused(["sub", "Square", "--set", "participant.index=3", "--timeout", "1"], 3,
            "participant index 3")
    code, _, err = run("sub", "Square", "--timeout", "0.2")
    expect(code == 0, f"another index beside one that is taken: {err}")
    holder.terminate()
    holder.communicate(timeout=PATIENCE_S)

    refused(["sub", "Square", "--set", "transport=io_uring", "--timeout", "1"], 3, "io_uring",
            preexec=no_io_uring)
    code, _, err = run("sub", "Square", "--timeout", "0.2", "--verbose", preexec=no_io_uring)
    expect(code == 0 and "sockets because io_uring" in err, f"no fall-back from io_uring: {code} {err}")
    code, _, err = run("sub", "Square", "--timeout", "0.2", "--verbose")
    expect(code == 0 and "pages: " in err, f"--verbose tells nothing of pages: {err}")


def codes():
    """0, 1 and signals."""
    refused(["sub", "Square", "--count", "1", "--timeout", "0.3"], 1, "0 of 1 samples")
    refused(["pub", "Square", S, "--wait-matched", "1", "--timeout", "0.3"], 1, "0 readers")
    expect(run("sub", "Square", "--timeout", "0.2")[::2] == (0, ""), "sub --timeout")
    expect(run("pub", "Square", S)[::2] == (0, ""), "pub without readers")
    expect(run("pub", "Square", "--count", "0", S)[::2] == (0, ""), "pub --count 0")
    for words, number, code in ((["sub", "Square"], signal.SIGINT, 0),
                                (["sub", "Square"], signal.SIGTERM, 0),
                                (["sub", "Square", "--count", "1"], signal.SIGTERM, 1),
                                (["pub", "Square"], signal.SIGTERM, 1),
                                (["ls", "--wait", "15"], signal.SIGINT, 1)):
        process = start_ready(*words, stdin=subprocess.PIPE)
        process.send_signal(number)
        expect(process.wait(5) == code, f"{words} after {number}: {process.returncode}")
        process.communicate()


def lines(process):
    out, err = process.communicate(timeout=PATIENCE_S)
    return process.returncode, [json.loads(line) for line in out.splitlines()], err


def exchange():
    """Two processes: every line, its keys, its states, and the filter."""
    sub = start("sub", "Square", "--json", "--count", "7", "--timeout", "10", "--qos",
                "reliability=reliable")
    low = start("sub", "Square", "--json", "--count", "2", "--timeout", "10", "--qos",
                "reliability=reliable", "--filter", "x > %0", "--param", "1", "--stats")
    green = S.replace("RED", "GREEN")
    code, out, err = run("pub", "Square", S, green, "--count", "5", "--increment", "x",
                         "--wait-matched", "2", "--timeout", "8", "--unregister",
                         '{"color":"GREEN"}', "--dispose", '{"color":"RED"}')
    expect((code, out, err) == (0, "", ""), f"pub: {code} {out!r} {err!r}")
    code, got, err = lines(sub)
    expect(code == 0, f"sub: {code} {err}")
    keys = ["topic", "writer", "seq", "source_time", "state", "data"]
    expect([list(line) for line in got] == [keys] * 7, f"keys of the lines: {got}")
    expect([(line["data"].get("color"), line["data"].get("x")) for line in got[:5]] ==
           [("RED", 0), ("GREEN", 0), ("RED", 1), ("GREEN", 1), ("RED", 2)], f"samples: {got}")
    expect([(line["state"], line["data"]) for line in got[5:]] ==
           [("no_writers", {"color": "GREEN"}), ("disposed", {"color": "RED"})], f"ends: {got}")
    expect([line["seq"] for line in got] == list(range(1, 8)), f"sequence numbers: {got}")
    expect(all(abs(time.time_ns() - line["source_time"]) < 60e9 for line in got), "source_time")
    # Of the ends, the filtered reader hears of those instances it has seen.
    code, got, err = lines(low)
    expect(code == 0 and [line["data"] for line in got] ==
           [{"color": "RED", "x": 2, "y": 1, "shapesize": 30}, {"color": "RED"}],
           f"filtered: {code} {got} {err}")
    expect("reader.rejected.filter " in err, "--stats")


def late_joiner():
    """--linger keeps a durable writer there; a signal ends the stay, and all is done."""
    writer = start_ready("pub", "Square", S, "--qos", "durability=transient_local", "--linger", "60")
    code, out, err = run("sub", "Square", "--json", "--count", "1", "--timeout", "10", "--qos",
                         "reliability=reliable,durability=transient_local")
    expect(code == 0 and json.loads(out)["data"]["x"] == 0, f"late joiner: {code} {out} {err}")
    writer.terminate()
    writer.communicate(timeout=PATIENCE_S)
    expect(writer.returncode == 0, f"stopped while lingering: {writer.returncode}")


def routes():
    """Where data goes: to the default address that the reader's participant announces, and why."""
    other = start("sub", "Square", "--partition", "A", "--timeout", "6")
    code, out, err = run("ls", "--json", "--routes", "--wait", "2")
    found = [json.loads(line) for line in out.splitlines()]
    ways = [row for row in found if row["kind"] == "route"]
    expect(code == 0 and len(ways) == 1, f"one route: {ways} {err}")
    for way in ways:
        for end, name in (("reader", "data"), ("writer", "acknowledgements")):
            owner = [row for row in found if row["kind"] == "participant" and
                     row["guid"].rsplit(".", 1)[0] == way[end].rsplit(".", 1)[0]]
            defaults = [text.split()[0] for row in owner for text in row["locators"]
                        if text.endswith("(default)")]
            expect(way[name]["address"] in defaults and "default" in way[name]["why"],
                   f"{name} goes to {way[name]}, announced {defaults} {owner}")
    code, out, _ = run("ls", "--routes", "--set", "addresses.deny=127.0.0.0/8", "--set",
                       "interfaces=127.0.0.1")
    expect(code != 0, "no address left")
    code, out, _ = run("ls", "--routes")
    expect("data to udp4://" in out and "(its participant's default)" in out and
           "see `apus shm ls`" in out, f"as text: {out}")
    code, out, _ = run("ls")
    expect("apus shm ls" not in out, f"without --routes: {out}")
    other.terminate()
    other.communicate(timeout=PATIENCE_S)


def listing():
    reader = start("sub", "Square", "--partition", "A", "--qos", "reliability=reliable", "--filter",
                   "x > %0 OR color = 'RED'", "--param", "5", "--timeout", "6")
    writer = start("pub", "Square", "--qos", "partition=A,reliability=best_effort",
                   stdin=subprocess.PIPE)
    code, out, err = run("ls", "--json", "--wait", "2")
    rows = [json.loads(line) for line in out.splitlines()]
    kinds = [row["kind"] for row in rows]
    expect(code == 0 and sorted(kinds) == ["mismatch", "participant", "participant", "participant",
                                           "reader", "topic", "writer"], f"ls: {kinds} {err}")
    by_kind = {row["kind"]: row for row in rows}
    if "reader" in by_kind and "mismatch" in by_kind:
        expect(by_kind["reader"]["filter"] == {
            "class": "DDSSQL", "expression": "x > %0 OR color = 'RED'", "parameters": ["5"]},
            f"filter in ls: {by_kind['reader']}")
        expect(by_kind["writer"]["qos"]["reliability"] == "best_effort" and
               by_kind["writer"]["qos"]["partition"] == ["A"], f"QoS in ls: {by_kind['writer']}")
        expect(by_kind["mismatch"]["policy"] == "reliability" and
               by_kind["mismatch"]["writer"] == by_kind["writer"]["guid"], "mismatch in ls")
    code, out, _ = run("ls")
    expect(code == 0 and "topic Square" in out and "differ in reliability" in out and
           "\033" not in out, f"ls as text: {out}")
    routes()
    for process in (reader, writer):
        process.terminate()
        process.communicate(timeout=PATIENCE_S)
    code, out, _ = run("ls", "--json", "--wait", "0.5")
    expect(code == 0 and "Square" not in out, f"ls after orderly departure: {out}")


def stale(path):
    """A participant that is killed leaves its file: it is called stale, and the next takes it over."""
    reader = start_ready("sub", "Square", "--set", "stats.file=" + path, "--timeout", "15")
    reader.kill()
    reader.communicate(timeout=PATIENCE_S)
    code, out, err = run("stats", path, "--json")
    expect(code == 0 and json.loads(out.splitlines()[0])["problem"] == "stale" and
           f"stale: process {reader.pid} ended" in err, f"stale: {out} {err}")
    code, out, err = run("stats", path, "--prometheus")
    expect(code == 0 and out == "" and "stale" in err, f"stale for a monitor: {out} {err}")
    code, out, _ = run("top", path, "--count", "1")
    expect(code == 0 and "stale" in out and "Square" not in out, f"stale in top: {out}")
    reader = start_ready("sub", "Square", "--set", "stats.file=" + path, "--timeout", "15")
    code, out, err = run("stats", path, "--json")
    expect(code == 0 and json.loads(out.splitlines()[0])["problem"] == "" and err == "",
           f"taken over: {out} {err}")
    reader.terminate()
    reader.communicate(timeout=PATIENCE_S)
    with open(path, "w", encoding="utf-8") as other:
        other.write("somebody's notes, not to be written over")
    refused(["sub", "Square", "--set", "stats.file=" + path], 3, "no counter file")
    with open(path, encoding="utf-8") as other:
        expect(other.read().startswith("somebody's notes"), "a file of another kind was written over")
    os.unlink(path)


def counters(directory):
    """`apus stats` and `apus top` of a running participant, as text, JSON and for Prometheus; of other files."""
    path = os.path.join(directory, "counters")
    reader = start_ready("sub", "Square", "--set", "stats.file=" + path, "--qos",
                         "reliability=reliable", "--timeout", "15")
    writer = start("pub", "Square", "--wait-matched", "1", stdin=subprocess.PIPE)
    writer.stdin.write(S + "\n")
    writer.stdin.flush()
    rows = []
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        code, out, err = run("stats", path, "--json")
        rows = [json.loads(line) for line in out.splitlines()]
        if any(row["counters"].get("status.available") == 1 for row in rows):
            break
        time.sleep(0.1)
    kinds = [row["kind"] for row in rows]
    expect(code == 0 and kinds == ["participant", "reader", "matched_writer"], f"rows: {kinds} {err}")
    expect(rows and rows[-1]["counters"] == {"match.alive": 1, "match.losses": 0}, f"match: {rows[-1:]}")
    expect(len(rows) > 1 and rows[1]["topic"] == "Square" and rows[1]["matched"] == 1, f"{rows[1:2]}")
    code, out, _ = run("stats", path, "--prometheus")
    expect(code == 0 and 'apus_status_available{kind="reader",guid="' in out and
           out.count('topic="Square"} 1\n') > 0, f"prometheus: {out[-300:]}")
    code, out, _ = run("stats", path)
    expect(code == 0 and "reader " in out and "status.available" in out, f"text: {out[:300]}")
    code, out, _ = run("top", path, "--count", "2", "--interval", "50")
    expect(code == 0 and out.count("Square") == 2 and out.count("losses 0  ok") == 2, f"top: {out}")
    expect(rows and rows[0]["matched"] == 1, f"of the participant: {rows[:1]}")
    for process in (writer, reader):
        process.terminate()
        process.communicate(timeout=PATIENCE_S)
    expect(not os.path.exists(path), "the file is left behind")
    stale(path)
    refused(["stats"], 2, "name the counter files")
    refused(["top"], 2, "counter files")
    refused(["stats", path, "--json", "--prometheus"], 2, "exclude")
    refused(["stats", path], 3, path)
    with open(path, "wb") as foreign:
        foreign.write(b"x" * 100000)
    refused(["stats", path], 3, "not a counter file")
    refused(["stats", directory], 3, "not a counter file")
    os.unlink(path)


def enter_namespace():
    """Runs this program again where only loopback exists."""
    argv = ["unshare", "--net", sys.executable, *sys.argv]
    if subprocess.run(["unshare", "--net", "true"], capture_output=True).returncode != 0:
        if subprocess.run(["unshare", "-r", "--net", "true"], capture_output=True).returncode != 0:
            print("no right to make a network namespace")
            sys.exit(77)
        argv.insert(1, "-r")
    os.environ[IN_NAMESPACE] = "1"
    os.execvp(argv[0], argv)


def main():
    if not os.access(APUS, os.X_OK):
        sys.exit("usage: test_cli.py APUS")
    if not os.environ.pop(IN_NAMESPACE, None):
        enter_namespace()
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    usage()
    qos()
    samples()
    filters()
    with tempfile.TemporaryDirectory(prefix="apus-cli-") as directory:
        settings(directory)
        counters(directory)
        descriptors(directory)
        left_out(directory)
        told_type(directory)
        unasked(directory)
    system()
    codes()
    exchange()
    late_joiner()
    listing()
    print(f"{len(failures)} failed")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
