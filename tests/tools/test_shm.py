#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: `apus shm ls` and `apus shm gc` tell what is there, remove what is dead, and are held up by nobody.

Method: a publisher and a subscriber in a network namespace of their own share memory; then one is stopped, killed, and
sockets that say nothing, nonsense, or lie about memory stand in the directory beside them.

Usage: test_shm.py APUS. Exit codes: 0 all hold, 1 some do not, 77 no right to make a namespace.
"""

import array
import fcntl
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

APUS = sys.argv[1]
IN_NAMESPACE = "APUS_TEST_IN_NAMESPACE"
PATIENCE_S = 30
SAMPLE = '{"color":"RED","x":0,"y":1,"shapesize":30}\n'
failures = []


def expect(holds, what):
    """Notes what does not hold."""
    if not holds:
        failures.append(what)
        print("FAILED:", what)


def run(*words):
    """Runs `apus shm` to the end; (code, stdout, stderr)."""
    clean = {key: value for key, value in os.environ.items() if key != "APUS_CONFIG"}
    done = subprocess.run([APUS, "shm", *words], capture_output=True, text=True, timeout=PATIENCE_S, env=clean,
                          check=False)
    return done.returncode, done.stdout, done.stderr


def rows(directory, *words):
    """What ls says, as objects."""
    code, out, err = run("ls", "--json", "--directory", directory, *words)
    expect(code == 0, f"ls: exit code {code}: {err}")
    return [json.loads(line) for line in out.splitlines()]


def of(all_rows, **wanted):
    """Rows with these members."""
    return [r for r in all_rows if all(r.get(k) == v for k, v in wanted.items())]


def until(directory, what, holds):
    """Asks until something holds; what was said last."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        said = rows(directory)
        if holds(said):
            return said
        time.sleep(0.1)
    expect(False, what)
    return said


def start(directory, *words, **options):
    """Starts a command that shares memory in this directory."""
    return subprocess.Popen([APUS, *words, "--set", "shm=on", "--set", f"shm.directory={directory}",
                             "--set", "interfaces=lo"], text=True, stdout=subprocess.DEVNULL, **options)


def check_words(directory):
    """What is refused, and how."""
    for words in ([], ["rm"], ["ls", "gc"], ["ls", "--dry-run"], ["ls", "--timeout", "0"], ["ls", "--tea"]):
        code, out, err = run(*words)
        expect(code == 2 and not out and err, f"{words}: exit code {code}")
    os.chmod(directory, 0o755)
    for word in ("ls", "gc"):
        code, _, err = run(word, "--directory", directory)
        expect(code == 3 and directory in err, f"{word} of a directory that others may enter: {code}, {err}")
    os.chmod(directory, 0o700)
    code, out, _ = run("ls", "--directory", directory)
    expect(code == 0 and out.startswith("nobody in " + directory) and out.count("\n") == 1,
           f"an empty directory: {code}, {out}")
    expect(run("ls", "--json", "--directory", directory)[:2] == (0, ""), "an empty directory, as JSON")


def check_sharing(directory):
    """Both are shown with what they have; stopped, then killed, then removed."""
    sub = start(directory, "sub", "Square")
    pub = start(directory, "pub", "Square", stdin=subprocess.PIPE)
    said = until(directory, "no pool is shown", lambda r: of(r, kind="lent") and of(r, kind="borrowed"))
    for _ in range(5):
        pub.stdin.write(SAMPLE)
    pub.stdin.flush()
    expect({r["pid"] for r in of(said, kind="process", state="alive")} == {sub.pid, pub.pid}, f"processes: {said}")
    pool, lent, borrowed = (of(said, kind=k)[0] for k in ("pool", "lent", "borrowed"))
    expect(pool["topic"] == "Square" and pool["slots"] > 1024 and pool["slots_used"] <= pool["slots"] and
           pool["bytes"] >= pool["slots"] * pool["slot_bytes"], f"pool: {pool}")
    expect(lent["pid"] == sub.pid and lent["program"] == "apus" and lent["slots"] == 128 and
           lent["slots_used"] <= 128 and lent["writer"] == pool["writer"], f"lent: {lent}")
    expect(borrowed["pid"] == pub.pid and borrowed["topic"] == "Square" and
           (borrowed["writer"], borrowed["reader"]) == (lent["writer"], lent["reader"]), f"borrowed: {borrowed}")
    code, out, _ = run("ls", "--directory", directory)
    expect(code == 0 and f"pid {sub.pid} (apus)" in out and "of 128 slots" in out, f"text: {out}")

    os.kill(sub.pid, signal.SIGSTOP)
    said = rows(directory, "--timeout", "0.2")
    expect(of(said, kind="process", state="silent", pid=sub.pid), f"a stopped process: {said}")
    expect(run("gc", "--directory", directory)[1] == "", "gc removes what is stopped")
    os.kill(sub.pid, signal.SIGKILL)
    sub.wait()
    # The living remove what is left of it.
    until(directory, "the name of a killed process stays",
          lambda r: [p["pid"] for p in of(r, kind="process")] == [pub.pid])
    name = "0123456789abcdef01234567"
    left = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    left.bind(os.path.join(directory, name))
    left.listen(1)
    left.close()
    dead = of(rows(directory), kind="process", state="dead")
    expect([(r["name"], r["pid"]) for r in dead] == [(name, 0)], f"a name left over: {dead}")
    code, out, _ = run("gc", "--dry-run", "--directory", directory)
    expect((code, out) == (0, f"would remove {name}\n"), f"gc --dry-run: {code}, {out}")
    code, out, _ = run("gc", "--json", "--directory", directory)
    expect(code == 0 and json.loads(out) == {"name": name, "removed": True}, f"gc: {code}, {out}")
    expect(run("gc", "--directory", directory)[:2] == (0, ""), "gc a second time")
    expect(len(of(rows(directory), kind="process")) == 1, "gc removes the living")
    pub.stdin.close()
    pub.terminate()
    pub.wait()


def lie(directory, name, answer):
    """A socket that answers whoever asks by what `answer` sends; it goes with this process."""
    at = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    at.bind(os.path.join(directory, name))
    at.listen(8)

    def serve():
        try:
            while True:
                peer, _ = at.accept()
                asked = peer.recv(256)
                if asked:  # gc only looks who listens
                    answer(peer, asked)
                    time.sleep(0.2)
                peer.close()
        except OSError:
            pass  # closed: the test is over
    threading.Thread(target=serve, daemon=True).start()
    return at


def told(asked):
    """The question as an answer: the kind stands behind magic and version."""
    return asked[:6] + struct.pack("<H", struct.unpack_from("<H", asked, 6)[0] + 1) + asked[8:]


def memory(data, seal=True):
    """A memfd with this in it."""
    fd = os.memfd_create("lie", os.MFD_ALLOW_SEALING)
    os.write(fd, data)
    if seal:
        fcntl.fcntl(fd, 1033, 2)  # F_ADD_SEALS, F_SEAL_SHRINK
    return fd


def tell(data, seal=True):
    """Sends a report."""
    def answer(peer, asked):
        fd = memory(data, seal)
        peer.sendmsg([told(asked)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))])
        os.close(fd)
    return answer


def check_hostile(directory):
    """Nobody in the directory can hold it up or make it believe something."""
    row = struct.pack("<8IQ16s16s256s", 1, 7, 0, 64, 3, 2, 0, 0, 192, b"w" * 16, b"", b"\x1b[2J" + b"A" * 252)
    head = lambda count, size=len(row), magic=0x31525053: struct.pack("<4IQ", magic, size, 1, count, 0)
    full = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    full.bind(os.path.join(directory, "00full"))
    full.listen(0)
    held = []
    for _ in range(2):
        held.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        held[-1].setblocking(False)
        try:
            held[-1].connect(os.path.join(directory, "00full"))
        except BlockingIOError:
            pass
    liars = {
        "01garbage": lambda peer, asked: peer.send(b"\xff" * 72),
        "02short": lambda peer, asked: peer.send(b"x"),
        "03hangup": lambda peer, asked: None,
        "04no memory": lambda peer, asked: peer.send(told(asked)),
        "05shrinks": tell(head(1) + row, seal=False),
        "06empty": tell(b""),
        "07many": tell(head(0xffffffff)),
        "08cut": tell(head(2) + row),
        "09size": tell(head(1, 1) + row),
        "10magic": tell(head(1, magic=1) + row),
        "11long": lambda peer, asked: peer.send(b"x" * 4096),
        "12kind": tell(head(2) + b"\xff" * len(row) + row),
        "13stream\n\x1b[31m": lambda peer, asked: peer.send(b""),
    }
    sockets = [lie(directory, name, answer) for name, answer in liars.items()]
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    stream.bind(os.path.join(directory, "14stream"))
    stream.listen(1)
    open(os.path.join(directory, "15file"), "w", encoding="utf-8").close()
    os.symlink("/dev/null", os.path.join(directory, "16link"))
    os.mkfifo(os.path.join(directory, "17fifo"))

    begun = time.monotonic()
    said = rows(directory, "--timeout", "1")
    expect(time.monotonic() - begun < PATIENCE_S / 2, "it took long")
    states = {r["name"][:2]: r["state"] for r in of(said, kind="process")}
    expect(states.pop("00", "") == "silent", f"a full backlog: {said}")
    expect(states.pop("12", "") == "alive", "a report with a row of no kind")
    silent = states.pop("13", "")
    expect(silent in ("foreign", "silent"), f"an empty answer: {silent}")
    expect(set(states) == {f"{i:02}" for i in range(1, 12)} | {"14"} and set(states.values()) == {"foreign"},
           f"liars: {states}")
    expect([r["bytes"] for r in of(said, kind="pool")] == [192], f"rows of liars: {of(said, kind='pool')}")
    code, out, _ = run("ls", "--directory", directory)
    expect(code == 0 and "\x1b" not in out and "AAAA" in out, "escape sequences of others reach the terminal")
    expect(run("gc", "--directory", directory)[:2] == (0, ""), "gc removes what listens, or is no socket")
    for one in sockets + [full, stream] + held:
        one.close()
    for name in ("15file", "16link", "17fifo"):
        expect(os.path.lexists(os.path.join(directory, name)), f"gc removed {name}")


def main():
    if not os.environ.get(IN_NAMESPACE):
        os.environ[IN_NAMESPACE] = "1"
        if subprocess.run(["unshare", "--net", "true"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
            sys.exit(77)
        os.execvp("unshare", ["unshare", "--net", sys.executable, *sys.argv])
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    with tempfile.TemporaryDirectory(prefix="apus-shm-") as directory:
        check_words(directory)
        check_sharing(directory)
        check_hostile(directory)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
