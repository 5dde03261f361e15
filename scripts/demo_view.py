# SPDX-License-Identifier: Apache-2.0
"""The live view of scripts/demo, in two acts.

1. A Cyclone DDS and a Fast DDS program publish moving squares; Apus subscribes with a filter. Each
   square runs along its lane, bright where the filter lets it through.
2. Apus publishes; both peers print what they receive.

Everything runs on 127.0.0.1. On a terminal the screen is redrawn some fifteen times a second: 80 columns
and 24 rows suffice, and what there is beyond that is used. Else a line is printed every second. Programs
are started here and ended here, also on signals; were this one killed, they would end within a minute.
"""

import argparse
import collections
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

FRAME_S = 1 / 15
DOMAIN = "42"
SPAN = 100            # squares run between x = 1 and x = SPAN
LOW, HIGH = 40, 70    # the filter's window
FILTER = "color = 'RED' AND x BETWEEN %0 AND %1"
RATE = 45             # samples a second and publisher
TRACK = 46            # columns of a lane, more on wide terminals: a line fits 80
TRACK_MAX = 100
BESIDE_TRACK = 34     # columns of a lane's line that are not track
NEWEST = 12           # most lines of the list of newest samples
LIFE_S = "55"         # programs end after this if nobody ends them
VENDORS = {"0110": "Cyclone DDS", "010f": "Fast DDS"}
BUCKETS_US = (50, 100, 200, 400, 800, 1600, 3200, 6400)
INK = {"RED": 196, "GREEN": 40, "BLUE": 39, "YELLOW": 226, "ORANGE": 208, "MAGENTA": 201}


class Child:
    """A program whose stdout lines become (child, JSON object, arrival) on a shared queue."""

    def __init__(self, name, argv, events, env=None, stdin=False):
        self.name = name
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        env=env, stdin=subprocess.PIPE if stdin else subprocess.DEVNULL)
        self.errors = []
        threading.Thread(target=self._read, args=(events,), daemon=True).start()
        threading.Thread(target=self._read_errors, daemon=True).start()

    def _read(self, events):
        for line in self.process.stdout:
            now = time.time_ns()
            try:
                events.put((self, json.loads(line), now))
            except ValueError:
                pass

    def _read_errors(self):
        for line in self.process.stderr:
            self.errors = self.errors[-4:] + [line.strip()]

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(3)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class Latency:
    """A histogram of delays, by powers of two."""

    def __init__(self):
        self.counts = [0] * (len(BUCKETS_US) + 1)
        self.values = []

    def add(self, ns):
        micros = max(0, ns) / 1000
        self.values.append(micros)
        self.counts[next((i for i, top in enumerate(BUCKETS_US) if micros < top), -1)] += 1

    def percentile(self, fraction):
        if not self.values:
            return 0.0
        ordered = sorted(self.values)
        return ordered[min(len(ordered) - 1, int(fraction * len(ordered)))]

    def text(self):
        if not self.values:
            return "no samples yet"
        return f"median {micros_text(self.percentile(0.5))}, 99 % below {micros_text(self.percentile(0.99))}"


def micros_text(micros):
    return f"{micros / 1000:.1f} ms" if micros >= 1000 else f"{micros:.0f} µs"


class Lane:
    """One stream of squares: where it is, how many came."""

    def __init__(self, label, color):
        self.label, self.color = label, color
        self.x = None
        self.direction = 1
        self.seen = 0
        self.passed = 0

    def move(self, x):
        if self.x is not None and x != self.x:
            self.direction = 1 if x > self.x else -1
        self.x = x
        self.seen += 1


class Screen:
    """Draws frames on a terminal; restores it at the end."""

    def __init__(self, plain):
        self.plain = plain
        self.track, self.rows = TRACK, 24
        if not plain:
            sys.stdout.write("\x1b[?1049h\x1b[?25l\x1b[2J")

    def ink(self, text, color=None, bold=False, dim=False):
        if self.plain:
            return text
        codes = (["1"] if bold else []) + (["2"] if dim else []) + ([f"38;5;{color}"] if color else [])
        return f"\x1b[{';'.join(codes)}m{text}\x1b[0m" if codes else text

    def measure(self):
        columns, self.rows = shutil.get_terminal_size((80, 24))
        self.track = max(TRACK, min(TRACK_MAX, columns - BESIDE_TRACK))

    def draw(self, lines):
        lines = lines[:self.rows]
        frame = "\n".join(line + "\x1b[K" for line in lines)  # no last newline: 24 rows suffice
        sys.stdout.write("\x1b[H" + frame + "\x1b[J")
        sys.stdout.flush()

    def close(self):
        if not self.plain:
            sys.stdout.write("\x1b[?25h\x1b[?1049l")
            sys.stdout.flush()
            self.plain = True

    def title(self, act, text, left_s):
        head = self.ink(" A P U S ", 231, bold=True) if self.plain else \
            "\x1b[48;5;24m\x1b[1m\x1b[38;5;231m  A P U S  \x1b[0m"
        return f"{head}  {self.ink(text, 252, bold=True)}   " + \
            self.ink(f"act {act} of 2, {left_s:2.0f} s", 244)

    def lane(self, lane, window):
        """A track with its square, the filter's window shaded, a short tail behind the square."""
        color = INK.get(lane.color, 250)
        at = None if lane.x is None else (lane.x - 1) * self.track // SPAN
        cells = []
        for column in range(self.track):
            x = column * SPAN // self.track + 1
            inside = window and LOW <= x <= HIGH
            behind = None if at is None else (at - column) * lane.direction
            lit = not window or (lane.color == "RED" and lane.x is not None and LOW <= lane.x <= HIGH)
            if behind == 0:
                cells.append(self.ink("■", color if lit else 240, bold=lit))
            elif behind is not None and 0 < behind <= 3:
                cells.append(self.ink("▪" if behind == 1 else "·", color if lit else 238, dim=not lit))
            else:
                cells.append(self.ink("░", 23) if inside else self.ink("·", 236))
        name = self.ink(f"{lane.label:<12}", 252) + self.ink(f"{lane.color:<8}", color)
        count = f"{lane.passed:4d} of {lane.seen}" if window else f"{lane.seen:4d}"
        return f" {name}{''.join(cells)} {self.ink(count, 244)}"

    def bar(self, label, value, total, color, note):
        width = self.track - 6
        filled = round(width * value / total) if total else 0
        return f" {label:<12}" + self.ink("█" * filled, color) + self.ink("░" * (width - filled), 236) + \
            f" {value:6d}  " + self.ink(note, 244)

    def histogram(self, latency):
        top = max(latency.counts + [1])
        total = max(1, sum(latency.counts))
        lines = [" " + self.ink("latency", 252, bold=True) + "  writer's clock to printed line: " +
                 self.ink(latency.text(), 250)]
        for i, count in enumerate(latency.counts):
            label = f"< {micros_text(BUCKETS_US[i])}" if i < len(BUCKETS_US) else "more"
            shade = (46, 82, 118, 154, 190, 226, 220, 214, 202)[i]
            width = round(self.track * count / top)
            bar = "█" * width if width or not count else "▏"
            lines.append(f"  {label:>9} " + self.ink(bar, shade) + f" {100 * count / total:.0f} %")
        return lines

    def list_newest(self, above, title, newest):
        """Newest samples in the rows that are left below `above`, fading with age; none if few are."""
        room = min(NEWEST, self.rows - len(above) - 2)
        if room < 3:
            return []
        lines = ["", " " + self.ink(title, 252, bold=True)]
        for age, (color, text) in enumerate(list(newest)[:room]):
            shade = max(238, 252 - 2 * age)
            lines.append("  " + self.ink("■ ", INK.get(color, 250), dim=age > 3) + self.ink(text, shade))
        return lines


def vendor_of(guid):
    digits = re.sub(r"[^0-9a-f]", "", guid.lower())
    return VENDORS.get(digits[:4], "another")


class Demo:
    """The programs, the figures and the two acts."""

    def __init__(self, options):
        self.build = os.path.abspath(options.build)
        self.seconds = options.seconds
        self.events = queue.Queue()
        self.children = []
        self.screen = Screen(options.plain or not sys.stdout.isatty())
        self.plain = self.screen.plain
        self.summary = []
        self.failed = False
        self.config = tempfile.NamedTemporaryFile("w", prefix="apus-demo-", suffix=".conf")
        self.config.write("interfaces = 127.0.0.1\n")
        self.config.flush()

    def apus(self, *words, stdin=False):
        environment = dict(os.environ, APUS_CONFIG=self.config.name)
        argv = [os.path.join(self.build, "tools", "apus"), *words, "--domain", DOMAIN]
        return self._start("apus " + words[0], argv, environment, stdin)

    def peer(self, vendor, *words):
        path = os.path.join(self.build, "tests", "interop", "peers", "peer-" + vendor)
        return self._start(vendor, [path, *words, "--domain", DOMAIN, "--timeout", LIFE_S])

    def _start(self, name, argv, environment=None, stdin=False):
        child = Child(name, argv, self.events, environment, stdin)
        self.children.append(child)
        return child

    def stop_children(self):
        for child in self.children:
            child.process.poll() is None and child.process.terminate()
        for child in self.children:
            child.stop()
        self.children.clear()

    def run(self):
        try:
            self.act_subscribe()
            self.stop_children()
            self.act_publish()
        finally:
            self.stop_children()
            self.screen.close()
        print("\n".join(self.summary))
        return 3 if self.failed else 0

    def loop(self, on_event, frame, line):
        """Feeds events and draws until the act's time is over or a program has failed."""
        begun = time.monotonic()
        next_line = 1.0
        while (spent := time.monotonic() - begun) < self.seconds:
            deadline = time.monotonic() + FRAME_S
            while (left := deadline - time.monotonic()) > 0:
                try:
                    on_event(*self.events.get(timeout=left))
                except queue.Empty:
                    break
            if self.plain and spent >= next_line:
                print(line(), flush=True)
                next_line += 1.0
            elif not self.plain:
                self.screen.measure()
                self.screen.draw(frame(self.seconds - spent))
            dead = [child for child in self.children if child.process.poll() not in (None, 0)]
            if dead:
                self.failed = True
                self.summary += [f"{dead[0].name} ended with {dead[0].process.returncode}:",
                                 *dead[0].errors]
                return

    def act_subscribe(self):
        lanes = {(vendor, color): Lane(vendor, color) for vendor, colors in
                 (("Cyclone DDS", ("RED", "GREEN", "BLUE")), ("Fast DDS", ("RED", "YELLOW", "ORANGE")))
                 for color in colors}
        latency, newest = Latency(), collections.deque(maxlen=NEWEST)
        words = ("sub", "Square", "--qos", "reliability=reliable", "--json", "--timeout", LIFE_S)
        filtered = self.apus(*words, "--filter", FILTER, "--param", str(LOW), "--param", str(HIGH))
        plain = self.apus(*words)
        for vendor, colors, rate in (("cyclone", "RED,GREEN,BLUE", RATE),
                                     ("fastdds", "RED,YELLOW,ORANGE", RATE * 4 / 5)):
            self.peer(vendor, "pub", "--topic", "Square", "--colors", colors, "--rate", str(rate),
                      "--modulo", str(SPAN))

        def on_event(child, event, now):
            data = event.get("data", {})
            lane = lanes.get((vendor_of(event.get("writer", "")), data.get("color")))
            if lane is None or "x" not in data:
                return
            if child is plain:
                lane.move(data["x"])
                return
            if child is not filtered:
                return
            if lane.color != "RED" or not LOW <= data["x"] <= HIGH:
                self.failed = True
                self.summary.append(f"the filter let through: {data}")
            lane.passed += 1
            newest.appendleft((lane.color, shape_text(data) + f"  from {lane.label}"))
            latency.add(now - event.get("source_time", now))

        def totals():
            seen = sum(lane.seen for lane in lanes.values())
            passed = sum(lane.passed for lane in lanes.values())
            return passed, max(0, seen - passed), max(1, seen)

        def frame(left):
            passed, rejected, seen = totals()
            ink = self.screen.ink
            lines = [
                self.screen.title(1, "two vendors publish, Apus listens", left), "",
                f" filter  {ink(FILTER, 231, bold=True)}   {ink(f'%0 = {LOW}, %1 = {HIGH}', 244)}", "",
                *(self.screen.lane(lane, True) for lane in lanes.values()), "",
                self.screen.bar("let through", passed, seen, 46, f"{100 * passed / seen:.0f} %"),
                self.screen.bar("rejected", rejected, seen, 240, f"{100 * rejected / seen:.0f} %"), "",
                *self.screen.histogram(latency)]
            return lines + self.screen.list_newest(lines, "newest let through", newest)

        def line():
            passed, rejected, _ = totals()
            return f"act 1: let through {passed}, rejected {rejected}; latency {latency.text()}"

        if self.plain:
            print(f"act 1: Cyclone DDS and Fast DDS publish Square; apus sub --filter \"{FILTER}\" "
                  f"({LOW}, {HIGH})", flush=True)
        self.loop(on_event, frame, line)
        passed, rejected, _ = totals()
        silent = [f"{lane.label} {lane.color}" for lane in lanes.values() if not lane.seen]
        self.failed |= bool(silent) or passed == 0
        self.summary += [f"act 1  Apus received from both vendors: {passed} let through by the filter, "
                         f"{rejected} rejected", f"       latency {latency.text()}"]
        self.summary += [f"       nothing came from: {', '.join(silent)}"] if silent else []

    def act_publish(self):
        lanes = {"cyclone": Lane("Cyclone DDS", "MAGENTA"), "fastdds": Lane("Fast DDS", "MAGENTA")}
        latency = Latency()
        for vendor in lanes:
            self.peer(vendor, "sub", "--topic", "Square")
        publisher = self.apus("pub", "Square", "--qos", "reliability=reliable", "--wait-matched", "2",
                              stdin=True)
        ending = threading.Event()
        feeder = threading.Thread(target=feed, args=(publisher.process, ending), daemon=True)
        feeder.start()
        last, newest = {}, collections.deque(maxlen=NEWEST)

        def on_event(child, event, now):
            if event.get("event") == "sample" and "x" in event:
                lanes[child.name].color = event["color"]
                lanes[child.name].move(event["x"])
                latency.add(event["t"] - event["source_time"])
                last[child.name] = event
                newest.appendleft((event["color"], shape_text(event) + f"  at {lanes[child.name].label}"))

        def frame(left):
            lines = [self.screen.title(2, "Apus publishes, both peers print", left), ""]
            for vendor, lane in lanes.items():
                lines += [self.screen.lane(lane, False),
                          self.screen.ink("   printed  " + printed(last.get(vendor)), 244), ""]
            lines += self.screen.histogram(latency)
            return lines + self.screen.list_newest(lines, "newest printed", newest)

        def line():
            return "act 2: " + ", ".join(f"{lane.label} received {lane.seen}" for lane in
                                         lanes.values()) + f"; latency {latency.text()}"

        if self.plain:
            print("act 2: apus pub Square; Cyclone DDS and Fast DDS subscribe", flush=True)
        self.loop(on_event, frame, line)
        ending.set()
        self.failed |= not all(lane.seen for lane in lanes.values())
        self.summary += ["act 2  Apus published: " + ", ".join(
            f"{lane.label} received {lane.seen}" for lane in lanes.values()),
            f"       latency {latency.text()}"]


def shape_text(shape):
    return f"{shape['color']:<8} x {shape['x']:>3}  y {shape['y']:>3}  size {shape['shapesize']:>3}"


def printed(event):
    """The part of a peer's line that fits one of ours."""
    if event is None:
        return "nothing yet"
    return ", ".join(f"{name} {event[name]}" for name in ("color", "x", "y", "shapesize")) + \
        f", from {event['writer'][:24]}"


def feed(process, ending):
    """Writes swinging squares to the publisher's stdin, changing colour at each end."""
    colors = [color for color in INK if color != "RED"]
    x, step, turn = 1, 2, 0
    try:
        while not ending.wait(1 / RATE):
            shape = {"color": colors[turn % len(colors)], "x": x, "y": SPAN - x, "shapesize": 30}
            process.stdin.write(json.dumps(shape) + "\n")
            process.stdin.flush()
            x += step
            if not 1 <= x <= SPAN:
                step, turn = -step, turn + 1
                x += 2 * step
        process.stdin.close()
    except (OSError, ValueError):
        pass  # the publisher has ended; the act's loop tells


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build")
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--seconds", type=float, default=18)
    options = parser.parse_args()
    if not 3 <= options.seconds <= 25:
        parser.error("--seconds must be 3 to 25")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda got, _: sys.exit(128 + got))
    return Demo(options).run()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
