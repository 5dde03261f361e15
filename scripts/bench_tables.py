# SPDX-License-Identifier: Apache-2.0
"""Runs the other benchmarks (micro-benchmarks; Apus beside plain sockets) and makes tables of what they said. Used
by scripts/bench --only."""

import json
import os
import subprocess

MICRO = ("base", "cdr", "filter", "history", "snapshot", "stream", "wire")
E2E = ("pingpong", "throughput")


def expand(only):
    """Names meant by --only: empty for the routes, None if there is one that is no benchmark's."""
    if only == "routes":
        return []
    names = []
    for word in only.split(","):
        names += MICRO if word == "micro" else E2E if word == "sockets" else (word,)
    return names if all(n in MICRO + E2E for n in names) else None


def run(command):
    """Runs a benchmark; its JSON, or None."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    try:
        return json.loads(done.stdout) if done.returncode == 0 else None
    except json.JSONDecodeError:
        return None


def program(name, build):
    """Path of a benchmark."""
    return os.path.join(build, "bench", name + "_bench" if name in MICRO else name)


def command_for(name, build, seconds):
    """The command line of a benchmark."""
    if name in MICRO:
        return [program(name, build), "--benchmark_format=json",
                f"--benchmark_min_time={seconds}"]
    peers = ["--peers", "--bytes", "16,256,4096,1048576"] if name == "throughput" else []
    return [program(name, build), "--json", *peers,
            "--seconds", str(max(1, round(seconds * (200 if peers else 50))))]


def micro_table(results):
    """Rows of one table for all micro-benchmarks."""
    rows = ["| benchmark | ns (CPU) | remarks |", "| --- | ---: | --- |"]
    for result in results:
        for one in result["benchmarks"]:
            if one.get("error_occurred"):
                rows.append(f"| {one['name']} | failed | {one['error_message']} |")
                continue
            size = [f"{int(one[k])} bytes" for k in ("payload_bytes", "datagram_bytes") if k in one]
            rows.append(f"| {one['name']} | {one['cpu_time']:.1f} | {' '.join(size)} |")
    return rows


def pingpong_table(result):
    """Round trips, in microseconds."""
    rows = ["| bytes | kind | p50 µs | p90 | p99 | p99.9 | of plain | rounds |",
            "| ---: | --- | ---: | ---: | ---: | ---: | ---: | --- |"]
    for r in result["results"]:
        spread = r["round_ratio"]
        times = " | ".join(f"{r[k] / 1000:.2f}" for k in ("p50_ns", "p90_ns", "p99_ns", "p999_ns"))
        rows.append(f"| {r['bytes']} | {r['kind']} | {times} | {r['ratio_to_plain']:.2f} | "
                    f"{spread['low']:.2f}…{spread['high']:.2f} |")
    return rows


def throughput_table(result):
    """Streams, in samples a second."""
    rows = ["| bytes | kind | samples/s | lost % | of plain_single |",
            "| ---: | --- | ---: | ---: | ---: |"]
    for r in result["results"]:
        lost = 100 * (r["sent"] - r["received"]) / max(1, r["sent"])
        rows.append(f"| {r['bytes']} | {r['kind']} | {r['samples_per_second']:,.0f} | {lost:.1f} | "
                    f"{r['ratio_to_plain_single']:.2f} |")
    return rows


def state_of(result):
    """What an end-to-end result says of the machine while it ran."""
    lines = ", ".join(f"{ns:.0f}" for ns in result["cache_line_one_way_ns"])
    return f"Transport: {result['transport']}. Cache line, one way, by rounds: {lines} ns."


def markdown(results):
    """The whole page."""
    first = next(iter(results.values()))
    context = first.get("context", first)
    page = ["# Benchmark results", "",
            f"Apus {context['apus']}, commit {context['commit']}, {context['cpu']}, "
            f"kernel {context['kernel']}.", ""]
    micro = [results[n] for n in MICRO if n in results]
    if micro:
        page += ["## Micro-benchmarks", ""] + micro_table(micro) + [""]
    for name, table, title in (("pingpong", pingpong_table, "Round trips"),
                               ("throughput", throughput_table, "Streams")):
        if name in results:
            page += [f"## {title}", "", state_of(results[name]), ""]
            page += table(results[name]) + [""]
    return "\n".join(page)


def main(chosen, build):
    """Runs what was chosen; the exit code."""
    results = {}
    failed = []
    for name in chosen.tables:
        command = command_for(name, build, chosen.time)
        if not os.path.exists(command[0]):
            print(f"{name}: not built ({command[0]})")
            failed.append(name)
            continue
        result = run(command)
        bad = [r["name"] for r in (result or {}).get("benchmarks", []) if r.get("error_occurred")]
        if result is None or bad:
            failed.append(name)
        print(f"{name}: {'failed ' + ' '.join(bad) if name in failed else 'done'}", flush=True)
        if result is None:
            continue
        results[name] = result
        with open(os.path.join(chosen.out, name + ".json"), "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
    if results:
        with open(os.path.join(chosen.out, "bench.md"), "w", encoding="utf-8") as file:
            file.write(markdown(results))
    print(f"results in {chosen.out}")
    return 1 if failed else 0
