# SPDX-License-Identifier: Apache-2.0
"""A small test runner: registers cases, runs them one after another, prints ok or FAIL for each.

The last line is `N passed, N failed` (and how many were skipped, if any, on the line before).
"""

import argparse
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


def case(name, long=False):
    """Registers the decorated function as a case of that name."""
    def register(function):
        _cases.append((name, function, long))
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
    parser.add_argument("--long", action="store_true", help="also the cases that take minutes")
    return parser.parse_args()


def _run_one(function):
    """Returns (verdict, text)."""
    try:
        function()
        return "ok", ""
    except Skip as reason:
        return "skip", str(reason)
    except Failure as failure:
        return "FAIL", str(failure)
    except Exception:  # pylint: disable=broad-except
        return "FAIL", traceback.format_exc(limit=3)


def main():
    """Runs what the command line selects; the exit code is 1 if anything failed."""
    options = _arguments()
    Paths.source = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
    Paths.build = os.path.abspath(options.build)
    Paths.peers = os.path.abspath(options.peers or options.build)
    if options.keep:
        Paths.keep = os.path.abspath(options.keep)
        os.makedirs(Paths.keep, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
    chosen = [entry for entry in _cases
              if options.only in entry[0] and (options.long or not entry[2])]
    if options.list:
        print("\n".join(name for name, _, _ in chosen))
        return 0
    if os.geteuid() != 0:
        print("skip: network namespaces need root")
        print("0 passed, 0 failed")
        return 77
    subprocess.run([os.path.join(Paths.source, "scripts", "netns"), "gc"], check=False)
    counts = {"ok": 0, "FAIL": 0, "skip": 0}
    for name, function, _ in chosen:
        begun = time.monotonic()
        verdict, text = _run_one(function)
        counts[verdict] += 1
        print(f"{verdict:4} {name} ({time.monotonic() - begun:.1f} s)" + (f": {text}" if text else ""),
              flush=True)
    if counts["skip"]:
        print(f"{counts['skip']} skipped")
    print(f"{counts['ok']} passed, {counts['FAIL']} failed")
    return 1 if counts["FAIL"] else 0
