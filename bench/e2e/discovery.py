#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Discovery in bulk, the three implementations in one interleaved run; see discovery.h.

Each round runs every implementation once, in a network namespace of its own (needs root): two processes
with the given number of endpoints each, told to begin once both run, until all are matched. Prints the median
of the rounds: seconds and CPU seconds of the slower process, its memory, and packets on the interface.
"""

import argparse
import json
import os
import statistics
import subprocess

PROGRAMS = ("apus", "cyclone", "fastdds")


def packets(namespace):
    path = "/sys/class/net/lo/statistics/rx_packets"
    return int(subprocess.run(["ip", "netns", "exec", namespace, "cat", path], check=True,
                              capture_output=True, text=True).stdout)


def run(program, endpoints):
    """One run; returns the figures of both processes and the packets."""
    namespace = f"apus-bulk-{os.getpid()}"
    subprocess.run(["ip", "netns", "add", namespace], check=True)
    try:
        subprocess.run(["ip", "-n", namespace, "link", "set", "lo", "up", "multicast", "on"],
                       check=True)
        subprocess.run(["ip", "-n", namespace, "route", "add", "224.0.0.0/4", "dev", "lo"], check=True)
        pair = [subprocess.Popen(["ip", "netns", "exec", namespace, program, "0", str(endpoints),
                                  str(role)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 stderr=subprocess.DEVNULL, text=True) for role in (0, 1)]
        for process in pair:
            process.stdout.readline() # it runs
        for process in pair:
            process.stdin.write("go\n")
            process.stdin.flush()
        lines = [process.stdout.readline() for process in pair]
        count = packets(namespace)
        for process in pair:
            process.stdin.close()
        for process in pair:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
        return [json.loads(line) for line in lines], count
    finally:
        subprocess.run(["ip", "netns", "del", namespace], check=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build")
    parser.add_argument("--endpoints", type=int, nargs="+", default=[500, 2000])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", action="append")
    options = parser.parse_args()
    programs = {name: os.path.join(options.build, "bench", "discovery_" + name)
                for name in options.only or PROGRAMS}
    programs = {name: path for name, path in programs.items() if os.access(path, os.X_OK)}
    for endpoints in options.endpoints:
        results = {name: [] for name in programs}
        for _ in range(options.rounds):
            for name, path in programs.items():
                results[name].append(run(path, endpoints))
        for name, runs in results.items():
            def median(key):
                return statistics.median(max(side[key] for side in pair) for pair, _ in runs)
            complete = all(side["complete"] for pair, _ in runs for side in pair)
            print(f"2 x {endpoints:5d} {name:8s} {median('seconds'):7.3f} s "
                  f"{median('cpu_seconds'):7.3f} CPU s {median('memory_kib') / 1024:7.1f} MiB "
                  f"(anonymous {median('anonymous_kib') / 1024:6.1f}) "
                  f"{statistics.median(count for _, count in runs):8.0f} packets"
                  f"{'' if complete else '  NOT COMPLETE'}", flush=True)


if __name__ == "__main__":
    main()
