# SPDX-License-Identifier: Apache-2.0
"""A small test runner: registers cases, runs them, prints ok or FAIL for each.

With --jobs N, N cases run at a time, each in a process and in namespaces of its own; a case that
measures its process registers with alone=True and runs after those, with nothing beside it.
The last line is `N passed, N failed` (and how many were skipped, if any, on the line before).
"""

import argparse
import concurrent.futures
import multiprocessing
import os
import signal
import subprocess
import sys
import time
import traceback

from .process import Failure
from .world import Paths

_cases = []


class Skip(Exception):
    """The machine cannot run this case; the text says why."""


def case(name, long=False, alone=False):
    """Registers the decorated function as a case of that name."""
    def register(function):
        _cases.append((name, function, long, alone))
        return function
    return register


def expect(condition, text):
    if not condition:
        raise Failure(text)


def equal(got, wanted, what):
    if got != wanted:
        raise Failure(f"{what}: got {_short(got)}, expected {_short(wanted)}")


def _short(value):
    text = repr(value)
    return text if len(text) <= 160 else text[:100] + f"… ({len(text)} characters)"


def _arguments():
    parser = argparse.ArgumentParser(description="Runs the interoperability tests.")
    parser.add_argument("--build", default="build", help="build directory (default: build)")
    parser.add_argument("--peers", metavar="DIR",
                        help="build directory of the peers, if another (Apus with a sanitizer)")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose name contains TEXT")
    parser.add_argument("--keep", metavar="DIR", help="keep captures there, a directory a case")
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    parser.add_argument("--jobs", type=int, default=1, metavar="N",
                        help="cases at a time (default: 1)")
    parser.add_argument("--long", action="store_true", help="also the cases that take minutes")
    parser.add_argument("--shm", action="store_true",
                        help="Apus publishers and subscribers share memory with those of their host")
    return parser.parse_args()


def _run_one(index):
    """Returns (verdict, text, seconds) of the case at that index."""
    begun = time.monotonic()
    try:
        _cases[index][1]()
        verdict, text = "ok", ""
    except Skip as reason:
        verdict, text = "skip", str(reason)
    except Failure as failure:
        verdict, text = "FAIL", str(failure)
    except Exception:  # pylint: disable=broad-except
        verdict, text = "FAIL", traceback.format_exc(limit=3)
    return verdict, text, time.monotonic() - begun


def _results(chosen, jobs):
    """Yields (index, result) as the cases end: those that may share the machine first."""
    together = [index for index in chosen if jobs > 1 and not _cases[index][3]]
    if together:
        # Forked workers inherit the registered cases and the paths.
        context = multiprocessing.get_context("fork")
        with concurrent.futures.ProcessPoolExecutor(jobs, mp_context=context) as pool:
            running = {pool.submit(_run_one, index): index for index in together}
            for done in concurrent.futures.as_completed(running):
                yield running[done], done.result()
    for index in chosen:
        if index not in together:
            yield index, _run_one(index)


def main():
    """Runs what the command line selects; the exit code is 1 if anything failed."""
    options = _arguments()
    Paths.source = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
    Paths.build = os.path.abspath(options.build)
    Paths.peers = os.path.abspath(options.peers or options.build)
    Paths.shm = options.shm
    if options.keep:
        Paths.keep = os.path.abspath(options.keep)
        os.makedirs(Paths.keep, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
    chosen = [index for index, (name, _, long, _) in enumerate(_cases)
              if options.only in name and (options.long or not long)]
    if options.list:
        print("\n".join(_cases[index][0] for index in chosen))
        return 0
    if os.geteuid() != 0:
        print("skip: network namespaces need root")
        print("0 passed, 0 failed")
        return 77
    subprocess.run([os.path.join(Paths.source, "scripts", "netns"), "gc"], check=False)
    counts = {"ok": 0, "FAIL": 0, "skip": 0}
    for index, (verdict, text, seconds) in _results(chosen, options.jobs):
        counts[verdict] += 1
        print(f"{verdict:4} {_cases[index][0]} ({seconds:.1f} s)" + (f": {text}" if text else ""),
              flush=True)
    if counts["skip"]:
        print(f"{counts['skip']} skipped")
    print(f"{counts['ok']} passed, {counts['FAIL']} failed")
    return 1 if counts["FAIL"] else 0
