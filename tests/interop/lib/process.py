# SPDX-License-Identifier: Apache-2.0
"""Child processes that cannot outlive their test.

Every line a child prints on stdout is parsed as JSON where it is JSON; waiting is always bounded.
Children are ended by their own pid, politely first.
"""

import json
import os
import queue
import signal
import subprocess
import threading
import time


class Failure(Exception):
    """A check that does not hold. Its text is all the report says."""


class Process:
    """A running program whose stdout is collected line by line."""

    def __init__(self, argv, name, stdin=False, env=None):
        self.name = name
        self.argv = argv
        self.events = []
        self._lines = queue.Queue()
        self.child = subprocess.Popen(
            argv, stdin=subprocess.PIPE if stdin else subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, errors="replace", env=env)
        self._errors = []
        self._readers = [threading.Thread(target=self._read_out, daemon=True),
                         threading.Thread(target=self._read_err, daemon=True)]
        for reader in self._readers:
            reader.start()

    def _read_out(self):
        for line in self.child.stdout:
            try:
                event = json.loads(line)
            except ValueError:
                event = {"text": line.rstrip("\n")}
            self._lines.put(event)
        self._lines.put(None)

    def _read_err(self):
        for line in self.child.stderr:
            self._errors.append(line)
            del self._errors[:-200]

    @property
    def pid(self):
        return self.child.pid

    @property
    def errors(self):
        return "".join(self._errors)

    def poll_events(self):
        """Moves what has arrived into `events` without waiting."""
        while True:
            try:
                event = self._lines.get_nowait()
            except queue.Empty:
                return
            if event is not None:
                self.events.append(event)

    def wait_event(self, wanted, what, timeout_s=20.0):
        """Waits until an event satisfies `wanted`, also among those already seen; returns it."""
        deadline = time.monotonic() + timeout_s
        checked = 0
        while True:
            while checked < len(self.events):
                if wanted(self.events[checked]):
                    return self.events[checked]
                checked += 1
            try:
                event = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise Failure(f"{self.name}: no {what} within {timeout_s:g} s{self._tail()}")
            if event is None:
                raise Failure(f"{self.name}: ended without {what}{self._tail()}")
            self.events.append(event)

    def write_line(self, text):
        try:
            self.child.stdin.write(text + "\n")
            self.child.stdin.flush()
        except BrokenPipeError:
            raise Failure(f"{self.name}: closed its input{self._tail()}")

    def close_input(self):
        try:
            self.child.stdin.close()
        except (BrokenPipeError, ValueError):
            pass  # it has ended, or the input was closed already

    def wait(self, timeout_s=30.0, code=0):
        """Waits for the end and checks the exit code (None: any). Returns all events."""
        try:
            got = self.child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise Failure(f"{self.name}: still running after {timeout_s:g} s{self._tail()}")
        for reader in self._readers:
            reader.join(5)
        self.poll_events()
        if code is not None and got != code:
            raise Failure(f"{self.name}: exit code {got}, expected {code}{self._tail()}")
        return self.events

    def rss_kib(self):
        """Resident memory of the running process."""
        with open(f"/proc/{self.pid}/status") as status:
            for line in status:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1])
        raise Failure(f"{self.name}: no VmRSS")

    def kill(self):
        if self.child.poll() is None:
            os.kill(self.pid, signal.SIGKILL)
        self.child.wait(5)

    def stop(self):
        """SIGTERM, a short time to leave in order, then SIGKILL."""
        if self.child.poll() is None:
            self.child.terminate()
            try:
                self.child.wait(3)
            except subprocess.TimeoutExpired:
                self.kill()

    def _tail(self):
        errors = self.errors.strip().splitlines()[-3:]
        return "".join(f"\n      {self.name}: {line[:300]}" for line in errors)
