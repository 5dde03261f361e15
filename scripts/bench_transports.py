# SPDX-License-Identifier: Apache-2.0
"""Measures the transports over one veth pair between two network namespaces, in turns, and makes a table of them
(docs/transports.md). Used by scripts/bench --only transports.

Each contender is a process pair made by bench/routes_NAME: round trips of 64 bytes and 1 KiB, both sides polling
where the implementation can, and a stream of each. memif joins the two processes by shared memory, without the veth
pair. Plain sockets and bare frames stand beside Apus: what the kernel, and a DPDK port, do for nothing else."""

import glob
import json
import os
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
NETNS = os.path.join(ROOT, "scripts", "netns")
ADDRESSES = "10.77.0.1,10.77.0.2"
SIZES = "64,1024"
LIMIT_S = 60

PACKET = "net_af_packet0,iface=va,qdisc_bypass=1|net_af_packet0,iface=vb,qdisc_bypass=1"
XDP = "net_af_xdp0,iface=va,busy_budget=0|net_af_xdp0,iface=vb,busy_budget=0"


def memif(name):
    """Both ends of a memif: shared memory between two processes that find each other by a file (abstract names are
    each network namespace's own)."""
    return "|".join(f"net_memif0,role={role},id=1,socket-abstract=no,socket=/tmp/apus-bench-{os.getpid()}-{name}"
                    for role in ("server", "client"))


def frames(device):
    """Bare frames over a port."""
    return ("frames", [f"dpdk.port={device}"], "bare")


def over_port(device, library):
    """Apus over a port."""
    return ("apus", ["transport=dpdk", f"dpdk.library={library}", f"dpdk.port={device}",
                     "dpdk.address=10.77.0.1/24|10.77.0.2/24", "dpdk.partial_checksums=accept"], "bare")


def contenders(build):
    """Name: (program, settings, whether the kernel has addresses on the pair)."""
    library = os.path.join(os.path.realpath(build), "dpdk", "libapus-dpdk.so")
    sockets = ["interfaces=va|vb"]
    rows = {
        "plain sockets": ("socket", [], "dressed"),
        "Apus, socket": ("apus", sockets + ["transport=socket"], "dressed"),
        "Apus, io_uring": ("apus", sockets + ["transport=io_uring"], "dressed"),
        "Cyclone DDS": ("cyclone", [], "dressed"),
        "Fast DDS": ("fastdds", [], "dressed"),
        "frames, af_packet": frames(PACKET),
        "Apus, af_packet": over_port(PACKET, library),
        "frames, af_xdp": frames(XDP),
        "Apus, af_xdp": over_port(XDP, library),
        "frames, memif": frames(memif("f")),
        "Apus, memif": over_port(memif("a"), library),
    }
    return {name: row for name, row in rows.items() if os.path.exists(program(row[0], build))}


def program(kind, build):
    """Path of a contender's program."""
    return os.path.join(build, "bench", "routes_" + kind)


class Rig:
    """The two namespaces: with addresses of the kernel's on the pair, and without."""

    def __init__(self):
        self.ids = {"dressed": f"{os.getpid()}.t", "bare": f"{os.getpid()}.b"}

    def __enter__(self):
        for kind, ident in self.ids.items():
            subprocess.run([NETNS, "up", ident], check=True)
            if kind == "bare":
                self.undress(ident)
        return self

    def undress(self, ident):
        """No address, and nothing else of the kernel's either, at both ends."""
        for side in "ab":
            inside = ["ip", "netns", "exec", f"apus-{ident}-{side}"]
            subprocess.run(inside + ["ip", "addr", "flush", "dev", "v" + side], check=True)
            subprocess.run(inside + ["sysctl", "-q", "-w", f"net.ipv6.conf.v{side}.disable_ipv6=1"], check=True)

    def __exit__(self, *_):
        for path in glob.glob(f"/tmp/apus-bench-{os.getpid()}-[fa]"):
            os.unlink(path)
        for ident in self.ids.values():
            subprocess.run([NETNS, "down", ident], check=False)

    def names(self, kind):
        """Of the two namespaces, as --netns takes them."""
        return ",".join(f"apus-{self.ids[kind]}-{side}" for side in "ab")


def run_one(rig, row, mode, milliseconds, cores, build):
    """One block of one contender: its results, or why there are none."""
    kind, settings, dress = row
    command = [program(kind, build), "--mode", mode, "--bytes", SIZES, "--ms", str(milliseconds), "--cores", cores,
               "--netns", rig.names(dress), "--address", ADDRESSES] + (["--route", "udp"] if kind == "apus" else [])
    for setting in settings:
        command += ["--set", setting]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=LIMIT_S, check=False)
        return json.loads(done.stdout)["results"], None
    except subprocess.TimeoutExpired:
        return [], "no end in time"
    except json.JSONDecodeError:
        return [], done.stderr.decode(errors="replace").strip()[-300:] or f"exit code {done.returncode}"


def median(values):
    """The middle one, None of none."""
    return sorted(values)[len(values) // 2] if values else None


def summary(name, rounds):
    """One contender's figures: medians over rounds, and the best median of round trips."""
    row = {"name": name, "failures": [why for r in rounds for why in r["why"]]}
    for i, size in enumerate(SIZES.split(",")):
        trips = [r["latency"][i] for r in rounds if len(r["latency"]) > i and r["latency"][i]["count"]]
        streams = [r["stream"][i] for r in rounds if len(r["stream"]) > i]
        row[size] = {"p50_ns": median([t["p50_ns"] for t in trips]), "p99_ns": median([t["p99_ns"] for t in trips]),
                     "least_p50_ns": min([t["p50_ns"] for t in trips], default=None),
                     "samples_per_second": median([s["samples_per_second"] for s in streams]),
                     "most_per_second": max([s["samples_per_second"] for s in streams], default=None),
                     "lost": median([1 - s["received"] / s["sent"] if s["sent"] else 1 for s in streams])}
    return row


def cell(value, form):
    """A figure, or a dash."""
    return "–" if value is None else form(value)


def markdown(rows):
    """The table."""
    out = ["| over | 64 B: p50 | p99 | least p50 | samples/s | 1 KiB: p50 | p99 | least p50 | samples/s |",
           "| --- " + "| ---: " * 8 + "|"]
    for row in rows:
        cells = [row["name"]]
        for size in SIZES.split(","):
            r = row[size]
            for key in ("p50_ns", "p99_ns", "least_p50_ns"):
                cells.append(cell(r[key], lambda v: f"{v / 1000:.1f}"))
            lost = f" ({100 * r['lost']:.0f} % lost)" if r["lost"] and r["lost"] > 0.005 else ""
            cells.append(cell(r["samples_per_second"], lambda v: f"{v / 1000:,.0f} k") + lost)
        out.append("| " + " | ".join(cells) + " |")
    return "\n".join(out)


def main(chosen, build):
    """Runs all contenders in turns; the exit code."""
    table = {name: row for name, row in contenders(build).items()
             if not chosen.match or any(word in name for word in chosen.match.split(","))}
    rounds = {name: [] for name in table}
    milliseconds = max(50, round(chosen.time * 3000))
    with Rig() as rig:
        for number in range(chosen.rounds):
            for name, row in table.items():
                one = {"why": []}
                for mode in ("latency", "stream"):
                    one[mode], why = run_one(rig, row, mode, milliseconds, chosen.cores, build)
                    if why:
                        one["why"].append(f"{mode}: {why}")
                rounds[name].append(one)
                print(f"round {number + 1}: {name}{''.join('; failed: ' + w for w in one['why'])}", flush=True)
    rows = [summary(name, rounds[name]) for name in table]
    with open(os.path.join(chosen.out, "transports.json"), "w", encoding="utf-8") as file:
        json.dump({"rounds": chosen.rounds, "ms": milliseconds, "rows": rows}, file, indent=1)
    page = f"Microseconds, medians of {chosen.rounds} rounds of {milliseconds} ms each.\n\n{markdown(rows)}\n"
    with open(os.path.join(chosen.out, "transports.md"), "w", encoding="utf-8") as file:
        file.write(page)
    print(page)
    return 1 if any(row["failures"] for row in rows) else 0
