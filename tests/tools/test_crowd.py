#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: many processes on a host that has only loopback find each other, and ports of those that end are reused.

Method: in a network namespace of its own, starts N readers and lets `apus ls` list them: all of them, with
ports of their own. Ends every second one, starts as many again, and lists again: all are there, within the
ports of before. Every run is bounded in time.

Usage: test_crowd.py APUS [N]. Exit codes: 0 all hold, 1 some do not, 77 no right to make a namespace.
"""

import json
import os
import subprocess
import sys
import time

APUS = sys.argv[1] if len(sys.argv) > 1 else ""
COUNT = int(sys.argv[2]) if len(sys.argv) > 2 else 12
IN_NAMESPACE = "APUS_TEST_IN_NAMESPACE"
TOPIC = "Square"
PATIENCE_S = 60
failures = []


def expect(holds, what):
    if not holds:
        failures.append(what)
        print("FAILED:", what)


def start():
    return subprocess.Popen([APUS, "sub", TOPIC, "--verbose", "--timeout", "300"],
                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE, text=True)


def metatraffic_port(process):
    """The port it reports once it has joined the domain; keeps reading nothing: the report is short."""
    for line in process.stderr:
        if line.startswith("metatraffic: port "):
            return int(line.split()[-1])
    return None


def stop(processes):
    for process in processes:
        process.terminate()
    for process in processes:
        process.communicate(timeout=PATIENCE_S)


def listed():
    """Readers of the topic, and the ports at which their participants hear discovery."""
    done = subprocess.run([APUS, "ls", "--json", "--wait", "1"], capture_output=True, text=True,
                          timeout=PATIENCE_S)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    ports = [int(text.split()[0].rsplit(":", 1)[1]) for row in rows
             if row["kind"] == "participant" and not row["local"]
             for text in row["locators"] if text.endswith("(metatraffic)")]
    return sum(row["kind"] == "reader" for row in rows), ports


def expect_all(ports, when):
    """A crowd may take some listings until all are heard; none may be missing in the end."""
    end = time.monotonic() + PATIENCE_S
    readers, heard = listed()
    while (readers, sorted(heard)) != (len(ports), sorted(ports)) and time.monotonic() < end:
        readers, heard = listed()
    expect(readers == len(ports), f"{when}: {readers} readers listed of {len(ports)}")
    expect(sorted(heard) == sorted(ports), f"{when}: at {sorted(heard)}, not {sorted(ports)}")


def crowd():
    processes = [start() for _ in range(COUNT)]
    try:
        before = [metatraffic_port(process) for process in processes]
        expect(None not in before and len(set(before)) == COUNT, f"ports of their own: {before}")
        expect_all(before, "at first")
        stop(processes[::2])
        processes[::2] = [start() for _ in processes[::2]]
        after = [metatraffic_port(process) for process in processes[::2]]
        expect(sorted(after) == sorted(before[::2]), f"{before[::2]} are used again: {after}")
        expect_all(before[1::2] + after, "after half were replaced")
    finally:
        stop(processes)


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
        sys.exit("usage: test_crowd.py APUS [N]")
    if not os.environ.pop(IN_NAMESPACE, None):
        enter_namespace()
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    crowd()
    print(f"{len(failures)} failed")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
