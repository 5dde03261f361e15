# SPDX-License-Identifier: Apache-2.0
"""Runs the programs bench/routes_NAME in turns, and gathers what they say. Used by scripts/bench.

Every contender is one implementation on one route. A round runs every job of every contender once, in an order of its
own, so that a machine that changes its speed meanwhile does so for all. What is compared is the median of the
rounds' figures, with the lowest and highest beside it, and ratios within a round.
"""

import glob
import json
import os
import platform
import random
import statistics
import subprocess
import time

# Key, name of the program, route, label, short description.
CONTENDERS = (
    ("apus-shm", "apus", "shm", "Apus, shared memory", "two processes, payloads through shared memory"),
    ("apus-process", "apus", "process", "Apus, one process", "two threads of one participant"),
    ("apus-udp", "apus", "udp", "Apus, UDP", "two processes, RTPS over loopback"),
    ("iceoryx", "iceoryx", "shm", "iceoryx", "two processes, its daemon iox-roudi, polled"),
    ("cyclone", "cyclone", "udp", "Cyclone DDS, UDP", "two processes, RTPS over loopback, listener"),
    ("fastdds-sharing", "fastdds", "sharing", "Fast DDS, data sharing", "data sharing, SHM transport, listener"),
    ("fastdds-shm", "fastdds", "shm", "Fast DDS, SHM transport", "its shared-memory transport, listener"),
    ("fastdds-udp", "fastdds", "udp", "Fast DDS, UDP", "two processes, RTPS over loopback, listener"),
    ("raw-ring", "raw", "ring", "floor: a raw ring", "memcpy through a single-producer ring, nothing else"),
    ("raw-flag", "raw", "flag", "floor: a flag", "one slot and a flag beside it"),
)
LABELS = {c[0]: c[3] for c in CONTENDERS}

LATENCY_BYTES = (64, 1024, 65536, 1048576)
STREAM_BYTES = (16, 256, 4096, 1048576)
FANOUT = (1, 2, 4, 8)
PACED_RATE = 5000
FLOORS = ("raw-ring", "raw-flag")

ROUDI_POOLS = ((128, 4096), (2048, 4096), (16384, 1024), (131072, 512), (2097152, 64))


class Roudi:
    """iceoryx's daemon, started for these runs and ended by its pid."""

    def __init__(self, folder, prefix):
        self.process = None
        self.reason = None
        path = os.path.join(folder, "roudi.toml")
        with open(path, "w", encoding="utf-8") as file:
            file.write("[general]\nversion = 1\n[[segment]]\n")
            for size, count in ROUDI_POOLS:
                file.write(f"[[segment.mempool]]\nsize = {size}\ncount = {count}\n")
        try:
            self.process = subprocess.Popen(prefix + ["iox-roudi", "-c", path, "-l", "error"],
                                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        except FileNotFoundError:
            self.reason = "iox-roudi is not installed (Debian package iceoryx)"
            return
        os.set_blocking(self.process.stdout.fileno(), False)
        for _ in range(100):
            if self.process.poll() is not None:
                self.reason = "iox-roudi did not start (does another one run?)"
                self.process = None
                return
            if b"ready" in (self.process.stdout.read() or b""):
                return
            time.sleep(0.1)

    def memory_kib(self):
        """Proportional set size of the daemon, or None."""
        try:
            with open(f"/proc/{self.process.pid}/smaps_rollup", encoding="utf-8") as file:
                return next(int(line.split()[1]) for line in file if line.startswith("Pss:"))
        except (AttributeError, OSError, StopIteration):
            return None

    def end(self):
        """Ends the daemon this started, and no other."""
        if self.process:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def jobs_of(key, quick):
    """What one contender has to do: (name, arguments). Names tell what is compared with what."""
    polled = not key.startswith(("cyclone", "fastdds"))
    listed = lambda sizes: ",".join(str(n) for n in sizes)
    ms = "15" if quick else "60"
    latency = listed(LATENCY_BYTES[:1] if quick else LATENCY_BYTES)
    stream = listed(STREAM_BYTES[:1] if quick else STREAM_BYTES)
    jobs = [("latency", ["--mode", "latency", "--bytes", latency, "--ms", ms])]
    if key == "raw-flag":
        return jobs
    jobs.append(("stream", ["--mode", "stream", "--bytes", stream, "--ms", ms]))
    if key.startswith(("apus", "raw")):
        jobs.append(("batch", ["--mode", "stream", "--batch", "--bytes", stream, "--ms", ms]))
    for readers in (1, 8) if quick else FANOUT:
        jobs.append((f"fanout{readers}", ["--mode", "fanout", "--readers", str(readers), "--ms", ms]))
    if quick:
        return jobs
    if key in ("apus-shm", "raw-ring", "iceoryx"):
        jobs.append(("lent", ["--mode", "latency", "--lent", "--bytes", latency, "--ms", ms]))
    if polled or key in ("cyclone", "fastdds-sharing"):
        jobs.append(("paced", ["--mode", "latency", "--rate", str(PACED_RATE), "--ms", "200"]))
    if key not in FLOORS + ("apus-process",):
        jobs.append(("start", ["--mode", "start", "--repeats", "3"]))
    return jobs


def program(name, build):
    """Path of an implementation's program."""
    return os.path.join(build, "bench", "routes_" + name)


class Runner:
    """All contenders that there are."""

    def __init__(self, build, out, cores, quick, progress):
        self.build, self.out, self.cores, self.quick = build, out, cores, quick
        self.progress = progress
        # Other work keeps off the two cores, where that may be asked for.
        self.prefix = ["chrt", "-f", "10"] if subprocess.run(
            ["chrt", "-f", "10", "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0 else []
        self.roudi = Roudi(out, self.prefix)
        self.missing = {}
        self.failures = []
        self.results = {}   # (job, key) -> the rounds' JSON
        self.keys = [c for c in CONTENDERS if self.is_there(c)]

    def is_there(self, contender):
        """True if it can be run; the reason goes to the page otherwise."""
        key, name = contender[:2]
        if self.quick and key not in ("apus-shm", "iceoryx", "raw-ring"):
            self.missing[key] = "left out by --quick"
        elif not os.path.exists(self.program(name)):
            self.missing[key] = f"not built (routes_{name}: is its development package installed?)"
        elif name == "iceoryx" and self.roudi.reason:
            self.missing[key] = self.roudi.reason
        return key not in self.missing

    def program(self, name):
        """Path of an implementation's program."""
        return program(name, self.build)

    def run_one(self, contender, job, arguments):
        """One run; what it said is kept, a failure is told on the page."""
        key, name, route = contender[:3]
        command = self.prefix if job != "start" else []
        command = command + [self.program(name), "--route", route, "--cores", self.cores, *arguments]
        if job in ("latency", "paced"):
            command += ["--hgrm", os.path.join(self.out, job + "_")]
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=90,
                                  check=False)
            if done.returncode == 0:
                said = json.loads(done.stdout)
                self.results.setdefault((job, key), []).append(said)
                self.failures += [f"{LABELS[key]}, {job}, {r['bytes']} bytes: nothing came back"
                                  for r in said["results"] if r.get("count") == 0 or r.get("received") == 0]
                return
            why = f"exit code {done.returncode}"
        except (subprocess.TimeoutExpired, json.JSONDecodeError) as error:
            why = type(error).__name__
        self.failures.append(f"{LABELS[key]}, {job}: {why}")

    def run(self, rounds):
        """All rounds."""
        order = random.Random(1)
        work = [(c, job, arguments) for c in self.keys for job, arguments in jobs_of(c[0], self.quick)]
        for i in range(rounds):
            order.shuffle(work)
            for n, (contender, job, arguments) in enumerate(work):
                if job == "start" and i > 1:
                    continue
                self.progress(f"round {i + 1} of {rounds}, {n + 1} of {len(work)}: {contender[3]}, {job}")
                self.run_one(contender, job, arguments)
        return self.digest(rounds)

    def digest(self, rounds):
        """All there is to say, as one JSON object; the page is made of it alone."""
        rows = []
        for (job, key), runs in sorted(self.results.items()):
            rows += start_rows(key, runs) if job == "start" else rows_of(job, key, runs)
        lines = [r["cache_line_one_way_ns"] for v in self.results.values() for r in v
                 if "cache_line_one_way_ns" in r]
        versions = {r[0]["peer"]: r[0]["version"] for r in self.results.values()}
        return {"rounds": rounds, "quick": self.quick, "rows": rows, "versions": versions,
                "missing": self.missing, "failures": self.failures,
                "fifo": bool(self.prefix), "cores": self.cores,
                "roudi_pss_kib": self.roudi.memory_kib(),
                "cache_line_ns": spread(lines) if lines else None}


def spread(values):
    """Median with lowest and highest."""
    return {"median": statistics.median(values), "low": min(values), "high": max(values),
            "runs": len(values)}


def rows_of(job, key, runs):
    """One row a size: figures of the rounds, and one histogram of all."""
    rows = []
    for i, first in enumerate(runs[0]["results"]):
        parts = [r["results"][i] for r in runs]
        row = {"job": job, "key": key, "bytes": first["bytes"], "readers": runs[0]["readers"]}
        if job in ("stream", "batch"):
            row["rate"] = spread([p["samples_per_second"] for p in parts])
            row["rounds"] = [p["samples_per_second"] for p in parts]
            row["lost"] = sum(p["sent"] * runs[0]["readers"] - p["received"] for p in parts)
        else:
            parts = [p for p in parts if p["count"]]
            if not parts:
                continue
            for name in ("p50", "p90", "p99", "p999"):
                row[name] = spread([p[name + "_ns"] for p in parts])
            row["min"] = min(p["min_ns"] for p in parts)
            row["max"] = max(p["max_ns"] for p in parts)
            row["count"] = sum(p["count"] for p in parts)
            row["rounds"] = [p["p50_ns"] for p in parts]
            merged = {}
            for part in parts:
                for lower, count in part["histogram"]:
                    merged[lower] = merged.get(lower, 0) + count
            row["histogram"] = sorted(merged.items())
        rows.append(row)
    return rows


def start_rows(key, runs):
    """One row for starting."""
    starts = [s for r in runs for s in r["results"]]
    if not starts:
        return []
    return [{"job": "start", "key": key, "bytes": 64, "readers": 1,
             "start": spread([s["start_to_matched_ns"] for s in starts]),
             "pss": spread([s["pss_kib"] for s in starts]),
             "anonymous": spread([s["anonymous_kib"] for s in starts])}]


def first_line(path, default="unknown"):
    """What a file of the system says, in a line."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.readline().strip()
    except OSError:
        return default


def machine(cores):
    """What the figures depend on, but never on which host they were made."""
    cpu = "unknown"
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                cpu = line.split(":", 1)[1].strip()
                break
    huge = first_line("/sys/kernel/mm/transparent_hugepage/enabled")
    shmem = first_line("/sys/kernel/mm/transparent_hugepage/shmem_enabled")
    reserved = sum(int(first_line(p, "0")) for p in
                   glob.glob("/sys/kernel/mm/hugepages/hugepages-*/nr_hugepages"))
    flags = first_line("/sys/hypervisor/type", "")
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        virtual = " hypervisor" in file.read() or bool(flags)
    chosen = lambda text: text[text.find("[") + 1:text.find("]")] if "[" in text else text
    first = cores.split(",")[0]
    return [
        ("CPU", cpu + (" (virtual machine)" if virtual else "")),
        ("Cores", f"{os.cpu_count()} online; writer on {first}, reader on {cores.split(',')[1]}"),
        ("Kernel", platform.release()),
        ("Huge pages", f"transparent {chosen(huge)}, shared memory {chosen(shmem)}, {reserved} reserved"),
        ("Governor", first_line(f"/sys/devices/system/cpu/cpu{first}/cpufreq/scaling_governor",
                                "none (no frequency scaling visible)")),
        ("Load", " ".join(first_line("/proc/loadavg").split()[:3]) + " when it ended"),
    ]
