#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks discovery.pml with Spin: the model holds, and every mistake built into it is found.

Without arguments the configurations that take seconds; --long adds those that take minutes. Prints one line
each: states stored and seconds. Exit codes: 0 all as expected, 1 not, 77 Spin is not installed.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

MODEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "discovery.pml")
DEPTH = "-m4000000"

# name, participants, trouble, restarts, mistake (0: none), kind, what is expected
QUICK = [
    ("two, safety", 2, 1, 1, 0, "safety", True),
    ("two, safety, coarse steps", 2, 1, 1, 0, "coarse", True),
    ("two, liveness under loss, duplication, delay", 2, 1, 0, 0, "liveness", True),
    ("two, liveness with a restart", 2, 0, 1, 0, "liveness", True),
    ("mistake: announced once", 2, 1, 1, 1, "liveness", False),
    ("mistake: matched unproved", 2, 1, 1, 2, "safety", False),
    ("mistake: matched unproved, coarse steps", 2, 1, 1, 2, "coarse", False),
    ("mistake: endpoints of strangers believed", 2, 1, 1, 3, "safety", False),
    ("mistake: restarts missed", 2, 1, 1, 4, "liveness", False),
    ("mistake: the dead believed", 2, 2, 1, 5, "safety", False),
]
LONG = [
    ("three, safety, all states", 3, 0, 0, 0, "coarse", True),
    ("three, safety under trouble, all states", 3, 1, 0, 0, "coarse", True),
    ("two, safety, more trouble", 2, 3, 1, 0, "safety", True),
    ("two, liveness with a restart under trouble", 2, 1, 1, 0, "liveness", True),
    ("three, safety with a restart, all states of the pairs it concerns", 3, 0, 1, 0, "star", True),
    ("three, safety with a restart, all pairs, some states", 3, 0, 1, 0, "bitstate", True),
]
# Bitstate search visits some states only; it is no proof, and ends at the depth and time given here.
BUILD = {
    "safety": ["-DSAFETY"],
    "coarse": ["-DSAFETY", "-DCOLLAPSE"],
    "star": ["-DSAFETY", "-DCOLLAPSE"],
    "liveness": ["-DNFAIR=3"],
    "bitstate": ["-DSAFETY", "-DBITSTATE"],
}
RUN = {"safety": [], "coarse": ["-w26"], "star": ["-w26"],
       "liveness": ["-a", "-f"], "bitstate": ["-w28", "-k2", "-Q5"]}


def check(name, participants, trouble, restarts, mistake, kind, holds, timeout_s):
    """Runs one configuration; returns whether it came out as expected."""
    with tempfile.TemporaryDirectory(prefix="apus-model-") as directory:
        options = [f"-DN={participants}", f"-DTROUBLE={trouble}", f"-DRESTARTS={restarts}",
                   f"-DBROKEN={mistake}"] + (["-DLIVE"] if kind == "liveness" else []) + (
                       ["-DCOARSE"] if kind in ("coarse", "star", "bitstate") else []) + (
                           ["-DSTAR"] if kind == "star" else [])
        shutil.copy(MODEL, directory)
        made = subprocess.run(["spin", *options, "-a", "discovery.pml"], cwd=directory,
                              capture_output=True, text=True)
        if made.returncode != 0:
            print(f"FAIL {name}: {made.stdout}{made.stderr}")
            return False
        subprocess.run(["gcc", "-O2", "-w", *BUILD[kind], "-o", "pan", "pan.c"], cwd=directory,
                       check=True)
        begun = time.monotonic()
        try:
            done = subprocess.run(["./pan", DEPTH, *RUN[kind]], cwd=directory, capture_output=True,
                                  text=True, timeout=timeout_s)
        except subprocess.TimeoutExpired:
            print(f"FAIL {name}: not done after {timeout_s} s")
            return False
        errors = re.search(r"errors: (\d+)", done.stdout)
        states = re.search(r"(\d+) states, stored", done.stdout)
        complete = "search too small" not in done.stdout and "out of memory" not in done.stdout
        good = errors is not None and complete and (errors.group(1) == "0") == holds
        print(f"{'ok  ' if good else 'FAIL'} {name}: {states.group(1) if states else '?'} states, "
              f"{time.monotonic() - begun:.1f} s", flush=True)
        if not good:
            print(done.stdout[-2000:])
        return good


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--long", action="store_true")
    options = parser.parse_args()
    if not shutil.which("spin"):
        print("spin is not installed")
        return 77
    cases = QUICK + (LONG if options.long else [])
    results = [check(*case, 1800 if options.long else 300) for case in cases]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
