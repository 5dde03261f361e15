#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a benchmark for a moment and checks that what it prints can be believed.

Goal: every benchmark runs on this machine, ends by itself, and its JSON is complete. No time is
judged: this is no place for it. Method: run it as short as it goes, parse its JSON.

Usage: tests/bench/smoke.py micro|e2e PROGRAM
Exit codes: 0 in order, 1 not, 77 skipped (fewer than two cores for two polling processes).
"""

import json
import os
import subprocess
import sys

LIMIT_S = 100
COMMON = ("cpu", "kernel", "commit", "apus")


def run(*command):
    """Runs a command and returns its exit code and output."""
    done = subprocess.run(command, stdout=subprocess.PIPE, timeout=LIMIT_S, check=False)
    return done.returncode, done.stdout.decode()


def check(condition, what):
    """Ends the test if a condition does not hold."""
    if not condition:
        sys.exit(f"smoke: {what}")


def check_micro(program):
    """Google Benchmark: an error in one run leaves the exit code 0 and must be looked for."""
    code, text = run(program, "--benchmark_min_time=0.001", "--benchmark_format=json")
    check(code == 0, f"exit code {code}")
    result = json.loads(text)
    context = result["context"]
    check(context["host_name"] == "-", "the host's name is in the output")
    for name in COMMON + ("compiler",):
        check(context.get(name), f"no {name} in the context")
    runs = result["benchmarks"]
    check(runs, "no results")
    failed = [r["name"] + ": " + r["error_message"] for r in runs if r.get("error_occurred")]
    check(not failed, f"failed: {failed}")
    check(all(r["iterations"] > 0 for r in runs), "a run made no turn")
    check(run(program, "--no_such_option")[0] == 1, "an unknown option is accepted")


def check_e2e(program):
    """Ours: one object, every variant with a positive figure; mistakes refused with exit code 2."""
    check(run(program, "--help")[0] == 0, "--help fails")
    for wrong in (["--bytes", "12"], ["--bytes", "20"], ["--seconds", "0"], ["--rounds", "x"],
                  ["--cores", "1,1"], ["--domain", "233"], ["--transport", "tin"], ["more"]):
        check(run(program, *wrong)[0] == 2, f"{wrong} is accepted")
    code, text = run(program, "--seconds", "1", "--rounds", "1", "--bytes", "64", "--json")
    check(code == 0, f"exit code {code}")
    result = json.loads(text)
    for name in COMMON + ("transport", "cores", "cache_line_one_way_ns"):
        check(result.get(name), f"no {name} in the result")
    kinds = {r["kind"] for r in result["results"]}
    check({"best_effort", "reliable"} < kinds, f"only {kinds}")
    for row in result["results"]:
        check(row.get("count", row.get("received")) > 0, f"{row['kind']}: nothing arrived")
        if "histogram" in row:
            check(sum(n for _, n in row["histogram"]) == row["count"], "histogram and count differ")
        if row["kind"] == "reliable" and "received" in row:
            check(row["received"] == row["sent"] and row["disordered"] == 0,
                  f"reliable: {row['received']} of {row['sent']}, {row['disordered']} disordered")


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ("micro", "e2e"):
        sys.exit(__doc__)
    if sys.argv[1] == "micro":
        check_micro(sys.argv[2])
    elif len(os.sched_getaffinity(0)) < 2:
        sys.exit(77)
    else:
        check_e2e(sys.argv[2])


if __name__ == "__main__":
    main()
