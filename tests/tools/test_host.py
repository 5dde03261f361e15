#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: `apus worker --check` finds what costs latency and nothing else, and the scripts that mend it refuse nonsense and
change nothing unless told to.

Method: trees of /proc and /sys made here, good and bad; the scripts in their dry forms, which need no rights.
Usage: test_host.py APUS SCRIPTS
"""

import json
import os
import subprocess
import sys
import tempfile

apus, scripts = sys.argv[1:3]

GOOD = {
    "sys/devices/system/cpu/isolated": "2-3",
    "sys/devices/system/cpu/nohz_full": "2-3",
    "proc/irq/default_smp_affinity": "3",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance",
    "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "performance",
    "sys/devices/system/cpu/smt/active": "0",
    "sys/devices/system/cpu/cpu0/cpuidle/state3/disable": "1",
    "proc/sys/vm/nr_hugepages": "64",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never",
    "proc/sys/kernel/numa_balancing": "0",
    "proc/sys/net/core/rmem_max": "8388608",
    "proc/sys/net/core/wmem_max": "8388608",
    "proc/sys/kernel/sched_rt_runtime_us": "-1",
    "proc/self/timerslack_ns": "1",
    "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc",
}
# Of four processors: a mask that leaves two out is well, "f" is not.
GOOD["proc/irq/default_smp_affinity"] = "00000000,00000005"
BAD = {
    "sys/devices/system/cpu/isolated": ("", "isolated cores"),
    "sys/devices/system/cpu/nohz_full": ("(null)", "tickless cores"),
    "proc/irq/default_smp_affinity": ("3f,ffffffff", "interrupts"),
    "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": ("powersave", "governor"),
    "sys/devices/system/cpu/smt/active": ("1", "hyper-threads"),
    "sys/devices/system/cpu/cpu0/cpuidle/state3/disable": ("0", "idle states"),
    "proc/sys/vm/nr_hugepages": ("0", "huge pages"),
    "sys/kernel/mm/transparent_hugepage/enabled": ("[always] madvise never",
                                                   "transparent huge pages"),
    "proc/sys/kernel/numa_balancing": ("1", "NUMA balancing"),
    "proc/sys/net/core/rmem_max": ("212992", "receive buffers"),
    "proc/sys/net/core/wmem_max": ("212992", "send buffers"),
    "proc/sys/kernel/sched_rt_runtime_us": ("950000", "real-time throttling"),
    "proc/self/timerslack_ns": ("50001", "timer slack"),
    "sys/devices/system/clocksource/clocksource0/current_clocksource": ("hpet", "clock"),
}


def plant(root, files):
    for path, text in files.items():
        os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
        with open(os.path.join(root, path), "w") as file:
            file.write(text + "\n")


def check(files):
    """(exit code, rows) of a tree."""
    with tempfile.TemporaryDirectory() as root:
        plant(root, files)
        done = subprocess.run([apus, "worker", "--check", "--json", "--root", root],
                              capture_output=True, text=True, timeout=60)
        return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


code, rows = check(GOOD)
assert code == 0 and len(rows) == 14 and all(row["ok"] for row in rows), (code, rows)
for path, (text, name) in BAD.items():
    code, rows = check({**GOOD, path: text})
    found = [row["name"] for row in rows if not row["ok"]]
    assert code == 1 and found == [name], (path, code, found)
    assert all(row["mend"] and row["cost"] for row in rows if not row["ok"]), rows
# What a kernel does not tell is no finding; what is no host is nothing to look at.
assert check({"proc/x": ""}) == (0, []), check({"proc/x": ""})
assert check({}) == (2, []), check({})

with tempfile.TemporaryDirectory() as root:
    done = subprocess.run([apus, "worker", "--check", "--root", root + "/none"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "/none" in done.stderr and not done.stdout, done
    # A core that no host has is named, and how many there are.
    done = subprocess.run([apus, "worker", "--set", "worker.cores=1023", "--set", f"worker.directory={root}", "--set",
                           "interfaces=lo"], capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and "no core 1023" in done.stderr and f"host has {os.cpu_count()} (" in done.stderr, done
done = subprocess.run([apus, "worker", "--help"], capture_output=True, text=True, timeout=60)
assert "--domain" not in done.stdout and "dpdk.port" in done.stdout and "stats.file" in done.stdout, done

huge = os.path.join(scripts, "hugepages")
code, out, err = run(huge, "reserve", "2", "--dry-run")
assert code == 0 and "2" in out, (code, out, err)
code, out, _ = run(huge, "--dry-run", "reserve", "8")
assert code == 0 and "8" in out, out
code, out, _ = run(huge, "--dry-run", "mount", "/mnt/x", "--user", "root")
assert code == 0 and "mount -t hugetlbfs" in out and "/mnt/x" in out, out
for words in (["reserve"], ["reserve", "x"], ["reserve", "1", "x"], ["mount", "relative"],
              ["mount", "--user"], ["mount", "--user", "no-such-user-at-all"], ["what"], []):
    code, out, err = run(huge, *words)
    assert code == 2 and "--help" in err, (words, code, out, err)
isolate = os.path.join(scripts, "isolate")
with open("/sys/devices/system/cpu/present") as file:
    last = file.read().strip().split("-")[-1]
if last != "0":
    code, out, _ = run(isolate, "--cpus", last)
    assert code == 0 and f"nohz_full={last}" in out and "with --apply" in out, out
for words in (["--cpus"], ["--cpus", "a"], ["--cpus", "3-1"], ["--cpus", "9999"],
              ["--cpus", f"0-{last}"], ["--cpuset", "/no/such"], ["x"], []):
    code, out, err = run(isolate, *words)
    assert code == 2 and "--help" in err, (words, code, out, err)
for script in (huge, isolate, os.path.join(scripts, "netns")):
    code, out, _ = run(script, "--help")
    assert code == 0 and "Exit codes" in out, script
