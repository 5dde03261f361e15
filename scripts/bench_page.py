# SPDX-License-Identifier: Apache-2.0
"""Makes a page of what scripts/bench measured: HTML with its plots inside, and the same tables in Markdown.

The page needs nothing from outside: no script, font or picture. It takes its colours from two sets (light, dark) and is
laid out for a telephone as well. All of it comes from one JSON object, so it can be made again.
"""

import collections
import html
import math

from bench_routes import FLOORS, LABELS, PACED_RATE

COLOURS = {  # light, dark
    "apus-shm": ("#0b62d6", "#5aa2ff"), "apus-process": ("#0b8f8c", "#3fd0c9"),
    "apus-udp": ("#6f8fd8", "#9db8f5"), "iceoryx": ("#d9730d", "#ff9f45"),
    "cyclone": ("#8a3ffc", "#b98cff"), "fastdds-sharing": ("#c9184a", "#ff6b8e"),
    "fastdds-shm": ("#a3586b", "#d98da0"), "fastdds-udp": ("#8d6e63", "#c7a99d"),
    "raw-ring": ("#6b7280", "#9aa3b0"), "raw-flag": ("#a1a7b3", "#737b88")}

JOBS = (
    ("latency", "Round trips", "Half of the time from a write to the return of its answer, payload written from memory of "
     "the application's and read back into it on both sides. Both sides poll where they can."),
    ("lent", "Round trips, payload not touched", "The payload is lent and filled in place; only its first eight bytes "
     "are written and read. What is left is the price of saying where it is."),
    ("stream", "One way, a sample a call", "Samples a second that arrived, reliable, nothing lost."),
    ("batch", "One way, 64 samples a call", "As above, where the application writes and takes in batches. Who has no "
     "such call is not shown."),
)


def esc(text):
    """Text for HTML."""
    return html.escape(str(text))


def size_text(n):
    """Bytes in words."""
    for unit, name in ((1048576, "MiB"), (1024, "KiB")):
        if n >= unit:
            return f"{n // unit} {name}"
    return f"{n} B"


def digits(value):
    """Three significant digits."""
    if value == 0:
        return "0"
    places = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{places}f}"


def time_text(ns):
    """A duration."""
    for unit, name in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if ns >= unit:
            return digits(ns / unit) + " " + name
    return f"{ns:.0f} ns"


def rate_text(rate):
    """Samples a second."""
    for unit, name in ((1e6, " M/s"), (1e3, " k/s")):
        if rate >= unit:
            return digits(rate / unit) + name
    return f"{rate:.0f} /s"


def is_rate(job):
    """True if more is better."""
    return job in ("stream", "batch")


def value_of(row):
    """What is compared: one-way ns, or samples a second; with lowest and highest round."""
    spread = row["rate"] if is_rate(row["job"]) else row["p50"]
    scale = 0.5 if row["job"] in ("latency", "lent") else 1
    return {k: spread[k] * scale for k in ("median", "low", "high")}


def text_of(job, value):
    """That value in words."""
    return rate_text(value) if is_rate(job) else time_text(value)


class Results:
    """Rows by job, contender and size."""

    def __init__(self, data):
        self.data = data
        self.rows = {(r["job"], r["key"], r["bytes"]): r for r in data["rows"]}

    def keys(self, job, size):
        """Contenders that did it, in the order of the page."""
        return [k for k in LABELS if (job, k, size) in self.rows]

    def sizes(self, job):
        """Sizes of a job."""
        return sorted({s for j, _, s in self.rows if j == job})

    def get(self, job, key, size):
        """A row or None."""
        return self.rows.get((job, key, size))


# ---- pictures -----------------------------------------------------------------------------------------


def bars(results, job, size):
    """Bars of one size, on a scale from nothing, with the rounds' range and the ratio to Apus."""
    keys = results.keys(job, size)
    base = results.get(job, "apus-shm", size)
    values = {k: value_of(results.get(job, k, size)) for k in keys}
    top = max(v["high"] for v in values.values())
    logarithmic = top > 40 * min(v["median"] for v in values.values())
    floor = min(v["low"] for v in values.values()) / 2

    def place(value):
        if not logarithmic:
            return 100 * value / top
        return 100 * math.log(max(value, floor * 1.01) / floor) / math.log(top / floor)

    out = [f'<figure><figcaption>{size_text(size)}{" <small>log scale</small>" if logarithmic else ""}'
           "</figcaption>"]
    for key in keys:
        v = values[key]
        ratio = ""
        if base and key != "apus-shm":
            times = v["median"] / value_of(base)["median"]
            ratio = f"{digits(times)} ×"
        out.append(
            f'<div class="bar{" floor" if key in FLOORS else ""}"><span class="who">{esc(LABELS[key])}</span>'
            f'<svg height="18" width="100%" role="img" aria-label="{esc(LABELS[key])}: '
            f'{text_of(job, v["median"])}">'
            f'<rect class="f-{key}" x="0" y="3" height="12" width="{place(v["median"]):.2f}%" rx="2"/>'
            f'<line class="range" x1="{place(v["low"]):.2f}%" x2="{place(v["high"]):.2f}%" y1="9" y2="9"/>'
            f'</svg><span class="num"><b>{text_of(job, v["median"])}</b> <i>{ratio}</i></span></div>')
    return "".join(out) + "</figure>"


def ticks(low, high):
    """Powers of ten, with 2 and 5 if there are few."""
    found = [m * 10.0 ** e for e in range(-1, 12) for m in (1, 2, 5) if low <= m * 10.0 ** e <= high]
    return [t for t in found if math.log10(t) % 1 == 0] if len(found) > 7 else found


WIDE, HIGH, LEFT, BELOW = 420, 300, 52, 34


def frame(title, y_low, y_high, x_marks, y_text):
    """Axes, and functions that place points; y is logarithmic."""
    def place_y(value):
        share = math.log(max(value, y_low) / y_low) / math.log(y_high / y_low)
        return HIGH - BELOW - share * (HIGH - BELOW - 12)

    out = [f'<svg class="plot" viewBox="0 0 {WIDE} {HIGH}" role="img" aria-label="{esc(title)}">']
    for tick in ticks(y_low, y_high):
        y = place_y(tick)
        out.append(f'<line class="grid" x1="{LEFT}" x2="{WIDE - 8}" y1="{y:.1f}" y2="{y:.1f}"/>'
                   f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{y_text(tick)}</text>')
    for x, label in x_marks:
        at = LEFT + x * (WIDE - LEFT - 12)
        out.append(f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="12" y2="{HIGH - BELOW}"/>'
                   f'<text x="{at:.1f}" y="{HIGH - BELOW + 18}" text-anchor="middle">{label}</text>')
    return out, place_y


def curve(key, points):
    """A line."""
    path = " ".join(f"{'M' if i == 0 else 'L'}{x:.1f} {y:.1f}" for i, (x, y) in enumerate(points))
    return f'<path class="s-{key}" d="{path}"><title>{esc(LABELS[key])}</title></path>'


def legend(keys):
    """Names of the lines."""
    return '<p class="legend">' + "".join(
        f'<span><svg width="14" height="10"><rect class="f-{k}" width="14" height="10" rx="2"/></svg> '
        f"{esc(LABELS[k])}</span>" for k in keys) + "</p>"


SHARES = [1 - 10 ** (-i / 12) for i in range(0, 37)]  # to three nines


def percentiles(row, scale):
    """Points (share, value) of a histogram, up to what its count can tell."""
    points, seen, i = [], 0, 0
    for lower, count in row["histogram"]:
        seen += count
        while i < len(SHARES) and seen >= SHARES[i] * row["count"] and (1 - SHARES[i]) * row["count"] >= 3:
            points.append((SHARES[i], lower * scale))
            i += 1
    return points


def percentile_plot(results, job, size, scale, caption):
    """Latency over the share of samples, nines evenly spaced."""
    keys = results.keys(job, size)
    lines = {k: percentiles(results.get(job, k, size), scale) for k in keys}
    lines = {k: v for k, v in lines.items() if v}
    if not lines:
        return ""
    low = min(v for line in lines.values() for _, v in line) * 0.8
    high = max(v for line in lines.values() for _, v in line) * 1.2
    marks = [(0, "0"), (1 / 3, "90 %"), (2 / 3, "99 %"), (1, "99.9 %")]
    out, place_y = frame(caption, low, high, marks, time_text)
    for key, line in lines.items():
        out.append(curve(key, [(LEFT - math.log10(1 - s) / 3 * (WIDE - LEFT - 12), place_y(v))
                               for s, v in line]))
    return f"<figure><figcaption>{caption}</figcaption>{''.join(out)}</svg></figure>"


def fan_points(results, key):
    """(readers, ns a write)."""
    found = []
    for n in (1, 2, 4, 8):
        row = results.get(f"fanout{n}", key, 64)
        if row:
            found.append((n, row["p50"]["median"]))
    return found


def fan_slope(points):
    """ns that one more reader adds to a write."""
    if len(points) < 2:
        return None
    return (points[-1][1] - points[0][1]) / (points[-1][0] - points[0][0])


def fan_cells(points, readers):
    """Figures of these numbers of readers, empty where there is none."""
    known = dict(points)
    return [time_text(known[n]) if n in known else "" for n in readers]


def fan_plot(results):
    """What a write costs its writer."""
    lines = {k: fan_points(results, k) for k in LABELS}
    lines = {k: v for k, v in lines.items() if len(v) > 1}
    if not lines:
        return ""
    low = min(v for line in lines.values() for _, v in line) * 0.7
    high = max(v for line in lines.values() for _, v in line) * 1.4
    marks = [(i / 3, str(2 ** i)) for i in range(4)]
    out, place_y = frame("cost of a write by readers", low, high, marks, time_text)
    for key, line in lines.items():
        points = [(LEFT + math.log2(n) / 3 * (WIDE - LEFT - 12), place_y(v)) for n, v in line]
        out.append(curve(key, points) + "".join(
            f'<circle class="f-{key}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in points))
    rows = [(LABELS[k], *fan_cells(v, (1, 8)), time_text(max(0, fan_slope(v)))) for k, v in lines.items()]
    return ('<div class="pair"><figure><figcaption>A write of 64 B, by readers</figcaption>'
            + "".join(out) + "</svg></figure><figure>"
            + table(("", "1 reader", "8 readers", "each further"), rows) + "</figure></div>"
            + legend(lines))


# ---- words --------------------------------------------------------------------------------------------


def table(head, rows):
    """A table that scrolls by itself where it is too wide."""
    return ('<div class="scroll"><table><tr>' + "".join(f"<th>{esc(h)}</th>" for h in head) + "</tr>"
            + "".join("<tr>" + "".join(f"<td>{esc(c)}</td>" for c in row) + "</tr>" for row in rows)
            + "</table></div>")


def verdicts(results):
    """Where a peer is ahead of Apus on the nearest route, and where it is not, by how much. Floors do not count."""
    behind, ahead = [], []
    for job, title, _ in JOBS:
        for size in results.sizes(job):
            ours = results.get(job, "apus-shm", size)
            theirs = [(k, value_of(results.get(job, k, size))["median"]) for k in results.keys(job, size)
                      if not k.startswith("apus") and k not in FLOORS]
            if not theirs or not ours:
                continue
            best = (max if is_rate(job) else min)(theirs, key=lambda t: t[1])
            mine = value_of(ours)["median"]
            times = mine / best[1] if is_rate(job) else best[1] / mine
            text = f"{title}, {size_text(size)}: {text_of(job, mine)} against {text_of(job, best[1])}"
            if times >= 1:
                ahead.append(f"{text} of the next, {LABELS[best[0]]} ({digits(times)} ×).")
            else:
                behind.append(f"{text}: {LABELS[best[0]]} is {digits(1 / times)} × ahead.")
    ours = results.get("start", "apus-shm", 64)
    for key in results.keys("start", 64):
        if not ours or key.startswith("apus"):
            continue
        row = results.get("start", key, 64)
        for name, what, say in (("start", "Start to matched", time_text),
                                ("pss", "Idle memory", lambda kib: digits(kib / 1024) + " MiB")):
            if row[name]["median"] < ours[name]["median"]:
                extra = f" (and a daemon of {digits(results.data['roudi_pss_kib'] / 1024)} MiB)" \
                    if key == "iceoryx" and name == "pss" and results.data.get("roudi_pss_kib") else ""
                behind.append(f"{what}: {LABELS[key]} needs {say(row[name]['median'])}{extra}, Apus "
                              f"{say(ours[name]['median'])}.")
    return ahead, behind


def cards(results):
    """The few figures to see first."""
    out = []
    for job, size, title in (("latency", 64, "64 B, one way, median"), ("stream", 16, "16 B, a sample a call"),
                             ("batch", 16, "16 B, 64 a call")):
        row = results.get(job, "apus-shm", size)
        if not row:
            continue
        mine = value_of(row)["median"]
        lines = []
        for key in ("iceoryx", "cyclone", "fastdds-sharing", "raw-ring"):
            other = results.get(job, key, size) or (results.get("stream", key, size) if job == "batch" else None)
            if other:
                lines.append(f"<li><span>{esc(LABELS[key])}</span> {text_of(job, value_of(other)['median'])}</li>")
        out.append(f'<div class="card"><small>{title}</small><strong>{text_of(job, mine)}</strong>'
                   f"<ul>{''.join(lines)}</ul></div>")
    slope = fan_slope(fan_points(results, "apus-shm"))
    if slope is not None:
        lines = []
        for key in ("iceoryx", "cyclone", "raw-ring"):
            other = fan_slope(fan_points(results, key))
            if other is not None:
                lines.append(f"<li><span>{esc(LABELS[key])}</span> {time_text(max(0, other))}</li>")
        out.append(f'<div class="card"><small>each further reader adds to a write</small>'
                   f"<strong>{time_text(max(0, slope))}</strong><ul>{''.join(lines)}</ul></div>")
    return '<div class="cards">' + "".join(out) + "</div>"


def start_table(results):
    """Start and memory: (head, rows)."""
    rows = []
    for key in results.keys("start", 64):
        r = results.get("start", key, 64)
        rows.append((LABELS[key], time_text(r["start"]["median"]),
                     f"{time_text(r['start']['low'])} … {time_text(r['start']['high'])}",
                     f"{r['pss']['median'] / 1024:.1f} MiB", f"{r['anonymous']['median'] / 1024:.1f} MiB"))
    if results.data.get("roudi_pss_kib"):
        rows.append(("iceoryx's daemon beside it, pools included", "", "", f"{results.data['roudi_pss_kib'] / 1024:.1f} MiB", ""))
    return ("", "start to matched", "range", "memory (PSS)", "of it anonymous"), rows


def limits_of(results):
    """What the page does not say."""
    data = results.data
    out = [f"{LABELS[k]} was not measured: {why}." for k, why in data["missing"].items()]
    out += [f"Failed, and not in the figures: {f}{f' ({n} times)' if n > 1 else ''}."
            for f, n in sorted(collections.Counter(data["failures"]).items())]
    out += [
        "Two hosts, a real network, more than two cores, and other traffic at the same time were not measured.",
        "Cyclone DDS takes no shared-memory route here: its package is built without iceoryx.",
        "Cyclone DDS and Fast DDS are woken by threads of their own and answer from their listeners, the quickest way "
        "they offer; the others poll. A waiting Apus or iceoryx application pays for being woken as well, which is not "
        "on this page.",
        "On a virtual machine the host takes the cores away now and then, for everybody: what lies above the 99th "
        "percentile is its work rather than anyone's here.",
        "iceoryx has no call that writes or takes several samples; its single calls stand beside our batches.",
    ]
    return out


CSS = """
:root{--bg:#fbfbfd;--fg:#1b1f27;--dim:#5c6573;--line:#d9dde5;--card:#fff;--good:#13703a;--bad:#a8290f}
@media(prefers-color-scheme:dark){:root{--bg:#12151b;--fg:#e7eaf0;--dim:#9aa3b2;--line:#2c323d;--card:#1a1f28;
--good:#5fd08f;--bad:#ff8f73}}
*{box-sizing:border-box}body{margin:0;background:var(--bg);color:var(--fg);font:16px/1.5 system-ui,sans-serif}
main{max-width:1000px;margin:0 auto;padding:24px 16px 64px}h1{font-size:1.9rem;line-height:1.2;margin:.2em 0}
h2{margin:2.2em 0 .3em;font-size:1.35rem;border-top:1px solid var(--line);padding-top:1em}
p,li{max-width:46em}small,.dim{color:var(--dim)}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(215px,1fr));gap:14px;margin:1.4em 0}
.card{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:14px 16px}
.card small{display:block}.card strong{font-size:1.8rem;color:var(--apus-shm)}
.card ul{list-style:none;padding:0;margin:.4em 0 0;font-size:.86rem}
.card li{display:flex;justify-content:space-between;border-top:1px solid var(--line);padding:2px 0}
.card li span{color:var(--dim)}
figure{margin:1em 0;background:var(--card);border:1px solid var(--line);border-radius:12px;padding:12px 14px;min-width:0}
figcaption{font-weight:600;margin-bottom:.4em}figcaption small{font-weight:400}
.pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,400px),1fr));gap:0 16px}
.bar{display:grid;grid-template-columns:11.5em 1fr 10.5em;gap:10px;align-items:center;font-size:.9rem}
.bar .num{font-variant-numeric:tabular-nums}.bar i{color:var(--dim);font-style:normal;font-size:.85em}
.bar.floor .who{color:var(--dim)}
@media(max-width:640px){.bar{grid-template-columns:1fr auto;gap:0 8px}.bar svg{grid-row:2;grid-column:1/3}
.bar{margin-bottom:6px}}
.range{stroke:var(--fg);stroke-width:1.5;opacity:.55}
.plot{width:100%;height:auto;font-size:12px}.plot text{fill:var(--dim)}.plot path{fill:none;stroke-width:2}
.grid{stroke:var(--line)}.legend{display:flex;flex-wrap:wrap;gap:4px 16px;font-size:.9rem}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums}
td,th{padding:4px 12px 4px 0;border-bottom:1px solid var(--line);text-align:left;white-space:nowrap}
.ahead li::marker{color:var(--good)}.behind li::marker{color:var(--bad)}details{margin:1em 0}
summary{cursor:pointer;font-weight:600}
"""


def style():
    """The sheet, with a colour for each contender."""
    light = "".join(f"--{k}:{c[0]};" for k, c in COLOURS.items())
    dark = "".join(f"--{k}:{c[1]};" for k, c in COLOURS.items())
    uses = "".join(f".f-{k}{{fill:var(--{k})}}.s-{k}{{stroke:var(--{k})}}" for k in COLOURS)
    return (CSS + f":root{{{light}}}@media(prefers-color-scheme:dark){{:root{{{dark}}}}}" + uses)


def items(texts, kind=""):
    """A list."""
    return f'<ul class="{kind}">' + "".join(f"<li>{esc(t)}</li>" for t in texts) + "</ul>"


def raw_rows(results):
    """Every figure, for those who want to see it: (head, rows)."""
    rows = []
    for row in results.data["rows"]:
        if row["job"] == "start":
            continue
        v = value_of(row)
        tail = "" if is_rate(row["job"]) else " / ".join(
            time_text(row[n]["median"] * (0.5 if row["job"] in ("latency", "lent") else 1))
            for n in ("p90", "p99", "p999"))
        rows.append((row["job"], LABELS[row["key"]], size_text(row["bytes"]), text_of(row["job"], v["median"]),
                     f"{text_of(row['job'], v['low'])} … {text_of(row['job'], v['high'])}", tail))
    return ("what", "who", "size", "median of rounds", "rounds", "p90 / p99 / p99.9"), rows


def page(data):
    """The whole page."""
    results = Results(data)
    ahead, behind = verdicts(results)
    line = data["cache_line_ns"] or {"median": 0, "low": 0, "high": 0}
    out = ["<!doctype html><html lang=en><meta charset=utf-8>"
           '<meta name=viewport content="width=device-width,initial-scale=1">'
           f"<title>Apus beside its peers</title><style>{style()}</style><main>",
           "<h1>Apus beside its peers, on one host</h1>",
           f'<p class="dim">Apus {esc(data["apus"])}, commit {esc(data["commit"])}. Medians of {data["rounds"]} '
           "rounds, in each of which all contenders took their turn in random order; the thin line on a bar is the range "
           "of the rounds. Everybody runs on the same two pinned cores.</p>", cards(results)]
    out.append("<h2>Who is ahead</h2>")
    if behind:
        out.append("<p>Where a peer is ahead of Apus over shared memory:</p>" + items(behind, "behind"))
    else:
        out.append("<p>No peer is ahead of Apus in what was measured here.</p>")
    if ahead:
        out.append(f"<details open><summary>Where Apus is ahead</summary>{items(ahead, 'ahead')}</details>")
    for job, title, text in JOBS:
        sizes = results.sizes(job)
        if not sizes:
            continue
        out.append(f"<h2>{title}</h2><p>{text}{' Beside each figure: how many times that of Apus over shared memory.'}"
                   "</p>" + "".join(bars(results, job, s) for s in sizes))
        if job == "latency":
            plots = [percentile_plot(results, job, s, 0.5, f"One way, {size_text(s)}: latency by share of samples")
                     for s in sizes]
            out.append('<div class="pair">' + "".join(plots) + "</div>" + legend(results.keys(job, sizes[0])))
    if results.sizes("paced"):
        out.append(f"<h2>Round trips by the clock</h2><p>{PACED_RATE:,} samples a second, whether the last has come "
                   "back or not, each timed from the instant it was due: what waits behind a stall counts as late "
                   "(no coordinated omission). Whole round trips.</p>"
                   + percentile_plot(results, "paced", 64, 1, "64 B, round trip from when it was due")
                   + legend(results.keys("paced", 64)))
    fan = fan_plot(results)
    if fan:
        out.append("<h2>Many readers</h2><p>What a write costs the writer, by the number of readers of the other side; "
                   "bursts of 16, and all read before the next.</p>" + fan)
    head, rows = start_table(results)
    if rows:
        out.append("<h2>Start and idle memory</h2><p>From the start of a process to both of its endpoints (a writer and a "
                   "reader, defaults) being matched with those of a process that runs already; proportional set size of it "
                   "half a second later.</p>" + table(head, rows))
    out.append("<h2>The machine</h2>" + table(("", ""), data["machine"] + [
        ("Peers", ", ".join(f"{n} {v}" for n, v in sorted(data["versions"].items()) if v and n != "apus")),
        ("Scheduling", "SCHED_FIFO 10" if data["fifo"] else "ordinary: other work shares the cores"),
        ("Cache line, one way", f"{line['median']:.0f} ns ({line['low']:.0f} … {line['high']:.0f} over the runs)")])
        + "<h2>What this page does not say</h2>" + items(limits_of(results)))
    head, rows = raw_rows(results)
    out.append(f"<details><summary>All figures</summary>{table(head, rows)}</details>"
               '<p class="dim">Made by scripts/bench; the programs are in bench/e2e, the histograms (.hgrm) and '
               "bench.json beside this page.</p></main></html>")
    return "\n".join(out)


def md_table(head, rows):
    """A table in Markdown."""
    clean = lambda cells: "| " + " | ".join(str(c).replace("|", "/") for c in cells) + " |"
    return [clean(head), "|" + " --- |" * len(head)] + [clean(r) for r in rows] + [""]


def markdown(data):
    """The same without pictures."""
    results = Results(data)
    ahead, behind = verdicts(results)
    out = ["# Apus beside its peers, on one host", "",
           f"Apus {data['apus']}, commit {data['commit']}; medians of {data['rounds']} interleaved rounds, in brackets "
           "lowest … highest round.", ""]
    out += md_table(("machine", ""), data["machine"] + [
        ("Peers", ", ".join(f"{n} {v}" for n, v in sorted(data["versions"].items()) if v and n != "apus"))])
    for job, title, text in JOBS:
        sizes = results.sizes(job)
        if not sizes:
            continue
        rows = []
        for key in LABELS:
            if not any(results.get(job, key, s) for s in sizes):
                continue
            cells = []
            for size in sizes:
                row = results.get(job, key, size)
                v = value_of(row) if row else None
                cells.append(f"{text_of(job, v['median'])} ({text_of(job, v['low'])} … {text_of(job, v['high'])})"
                             if v else "")
            rows.append([LABELS[key]] + cells)
        out += [f"## {title}", "", text, ""] + md_table([""] + [size_text(s) for s in sizes], rows)
    lines = {k: fan_points(results, k) for k in LABELS}
    readers = sorted({n for line in lines.values() for n, _ in line})
    rows = [(LABELS[k], *fan_cells(v, readers), time_text(max(0, fan_slope(v))))
            for k, v in lines.items() if len(v) > 1]
    if rows:
        out += ["## Cost of a write by readers", ""] + md_table(["", *readers, "each further"], rows)
    head, rows = start_table(results)
    if rows:
        out += ["## Start and idle memory", ""] + md_table(head, rows)
    out += ["## Where a peer is ahead", ""] + [f"- {t}" for t in behind or ["Nowhere in what was measured."]]
    out += ["", "## Where Apus is ahead", ""] + [f"- {t}" for t in ahead or ["Nowhere."]]
    out += ["", "## What was not measured", ""] + [f"- {t}" for t in limits_of(results)] + [""]
    return "\n".join(out)
