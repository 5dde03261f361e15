#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: scripts/bench measures, and its page holds together and needs nothing from outside.

Method: runs it with --quick on this build; parses page, table and JSON. No time is judged. And the page is made of
figures that are made up, so that what it says of who is ahead can be compared with what is known.

Usage: tests/bench/page.py SCRIPT BUILD
Exit codes: 0 in order, 1 not, 77 skipped (no namespace, or fewer than two cores).
"""

import html.parser
import json
import os
import re
import subprocess
import sys
import tempfile

SCRIPT, BUILD = sys.argv[1:3]
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(SCRIPT))
import bench_page


def check(condition, what):
    """Ends the test if a condition does not hold."""
    if not condition:
        sys.exit(f"page: {what}")


class Balance(html.parser.HTMLParser):
    """Counts what is opened and closed."""
    VOID = {"meta", "rect", "line", "circle", "path"}

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attrs):
        if tag not in self.VOID and tag != "html":
            self.open.append(tag)
        for name, value in attrs:
            check(name not in ("src", "href") and "url(" not in (value or ""), f"<{tag} {name}>")

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        if tag in self.VOID or tag == "html":
            return
        check(self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-1:]}")
        self.open.pop()


def check_page(text):
    """Balanced, and all in one file."""
    balance = Balance()
    balance.feed(text)
    check(not balance.open, f"left open: {balance.open}")
    check("<svg" in text and "prefers-color-scheme:dark" in text and "viewport" in text, "no page for people")
    check(not re.search(r"https?://|@import|<script|<link|<img", text), "a resource from outside")
    check("nan" not in re.findall(r'="([^"]*)"', text), "not a number")


def spread(value):
    """A spread of one value."""
    return {"median": value, "low": value * 0.9, "high": value * 1.1, "runs": 1}


def made_up():
    """Results in which iceoryx is twice as quick in round trips, and half as quick in streams."""
    def trip(key, ns):
        return {"job": "latency", "key": key, "bytes": 64, "readers": 1, "count": 1000, "min": ns / 2, "max": ns * 9,
                "p50": spread(ns), "p90": spread(ns), "p99": spread(ns), "p999": spread(ns), "rounds": [ns],
                "histogram": [[ns, 990], [ns * 4, 10]]}

    def stream(key, rate):
        return {"job": "stream", "key": key, "bytes": 16, "readers": 1, "rate": spread(rate), "rounds": [rate],
                "lost": 0}
    return {"rounds": 1, "quick": False, "missing": {"cyclone": "<not> built"}, "failures": [], "fifo": False,
            "cores": "0,1", "roudi_pss_kib": None, "cache_line_ns": spread(50), "commit": "c0ffee", "apus": "1",
            "versions": {"iceoryx": "2"}, "machine": [("CPU", "a & b")],
            "rows": [trip("apus-shm", 1000), trip("iceoryx", 500), trip("raw-ring", 100),
                     stream("apus-shm", 2e6), stream("iceoryx", 1e6), stream("raw-ring", 9e6)]}


def check_words():
    """What is said is what was measured, the floor left out."""
    data = made_up()
    ahead, behind = bench_page.verdicts(bench_page.Results(data))
    check(behind == ["Round trips, 64 B: 500 ns against 250 ns: iceoryx is 2.00 × ahead."], behind)
    check(ahead == ["One way, a sample a call, 16 B: 2.00 M/s against 1.00 M/s of the next, iceoryx (2.00 ×)."],
          ahead)
    text = bench_page.page(data)
    check_page(text)
    check("&lt;not&gt; built" in text and "a &amp; b" in text, "text is not escaped")


def check_refusals():
    """Mistakes are told from failures."""
    for wrong in (["--rounds", "0"], ["--only", "tea"], ["--cores", "1,1"], ["--time", "0"]):
        code = subprocess.run([SCRIPT, *wrong], stderr=subprocess.DEVNULL, check=False).returncode
        check(code == 2, f"{wrong}: exit code {code}")
    with tempfile.TemporaryDirectory() as empty:
        for build in (empty, os.path.join(empty, "missing")):
            done = subprocess.run([SCRIPT, "--quick", "--build", build, "--out", os.path.join(empty, "out")],
                                  stderr=subprocess.PIPE, text=True, check=False)
            check(done.returncode == 2 and f"bench: --build {build}: no" in done.stderr,
                  f"--build {build}: exit code {done.returncode}: {done.stderr}")
            check(not os.path.exists(os.path.join(empty, "out")), "results of nothing")
    check(subprocess.run([SCRIPT, "--help"], stdout=subprocess.DEVNULL, check=False).returncode == 0, "--help")


def main():
    check_words()
    if len(os.sched_getaffinity(0)) < 2:
        sys.exit(77)
    check_refusals()
    with tempfile.TemporaryDirectory() as out:
        done = subprocess.run([SCRIPT, "--quick", "--build", BUILD, "--out", out, "--json"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=110, check=False)
        if "namespace" in done.stderr:
            sys.exit(77)
        check(done.returncode <= 1, f"exit code {done.returncode}: {done.stderr[-500:]}")
        data = json.loads(done.stdout)
        # The moments of a quick run may pass without a result where much else runs. That is said, and no more is asked.
        check(all(f.endswith("nothing came back") for f in data["failures"]), data["failures"])
        check(done.returncode == (1 if data["failures"] else 0), f"exit code {done.returncode}")
        with open(os.path.join(out, "index.html"), encoding="utf-8") as file:
            check_page(file.read())
        with open(os.path.join(out, "bench.md"), encoding="utf-8") as file:
            check("| Apus, shared memory |" in file.read(), "no table")
        with open(os.path.join(out, "latency_apus_shm_64.hgrm"), encoding="utf-8") as file:
            check("#[Max" in file.read(), "no histogram")
    jobs = {(r["job"], r["key"]) for r in data["rows"]}
    for job in ("latency", "stream", "batch", "fanout1", "fanout8"):
        check({(job, "apus-shm"), (job, "raw-ring")} <= jobs or data["failures"], f"no {job} among {sorted(jobs)}")
    for row in data["rows"]:
        if row["job"] in ("stream", "batch"):
            check(row["lost"] == 0, f"{row['key']}, {row['job']}: {row['lost']} lost, reliable")


if __name__ == "__main__":
    main()
