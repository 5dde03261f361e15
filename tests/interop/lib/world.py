# SPDX-License-Identifier: Apache-2.0
"""A test's surroundings: network namespaces of its own, programs of three vendors, one vocabulary.

`World.pub` and `World.sub` start a publisher or subscriber of any implementation ("apus", "cyclone",
"fastdds") with the same keyword arguments, and samples come back in one form, whoever took them.
"""

import collections
import itertools
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time

from . import capture
from .process import Failure, Process

VENDOR = {"apus": "0x01ee", "fastdds": "0x010f", "cyclone": "0x0110"}
Sample = collections.namedtuple("Sample", "color x y size state writer valid")
_ids = itertools.count(1)


class Paths:
    """Where the programs are; set once by the runner."""
    build = None
    peers = None  # build directory of the peers; usually the same
    source = None
    keep = None  # directory in which captures survive, or None
    shm = False  # Apus publishers and subscribers share memory, those of a host with each other

    @classmethod
    def program(cls, impl):
        if impl == "apus":
            path = os.path.join(cls.build, "tools", "apus")
        else:
            path = os.path.join(cls.peers, "tests", "interop", "peers", "peer-" + impl)
        if not os.access(path, os.X_OK):
            raise Failure(f"not built: {path}")
        return path


class Publisher:
    """A running publisher. Apus is fed by stdin, which also keeps it there for late joiners."""

    def __init__(self, impl, process, lines=None, ends=False, held=False):
        self.impl, self.process = impl, process
        self._released = threading.Event()
        if not held:
            self._released.set()
        self._feeder, self._ends = None, ends
        if lines is not None:
            # A pipe holds 64 KiB and the publisher may wait for readers first: feed it from aside.
            self._feeder = threading.Thread(target=self._feed, args=(lines,), daemon=True)
            self._feeder.start()

    def release(self):
        """Lets a publisher that is held have its input; the peers take no notice."""
        self._released.set()

    def _feed(self, lines):
        self._released.wait(60)
        try:
            for line in lines:
                self.process.write_line(line)
            if self._ends:
                # Apus disposes and unregisters when its input ends.
                self.process.close_input()
        except (Failure, OSError, ValueError):
            pass  # it has ended; finish() reports how

    def finish(self, timeout_s=40.0, code=0):
        """Lets it end once all is sent and acknowledged, and checks the exit code."""
        self.end_input(timeout_s)
        self.process.wait(timeout_s, code)

    def wait_written(self, settle_s=1.0):
        """Waits until all it was given is probably in its history, on a busy machine too."""
        if self._feeder:
            self._feeder.join(20)
        time.sleep(settle_s)

    def end_input(self, timeout_s=20.0):
        """Tells Apus that there are no more samples: what comes after the last one comes now."""
        if self._feeder:
            self._feeder.join(timeout_s)
            if self._feeder.is_alive():
                raise Failure(f"{self.process.name}: does not read its input")
            self.process.close_input()


class Subscriber:
    """A running subscriber."""

    def __init__(self, impl, process):
        self.impl, self.process = impl, process

    def samples(self):
        self.process.poll_events()
        return [self._sample(event) for event in self.process.events if self._is_sample(event)]

    def finish(self, timeout_s=60.0, code=0):
        """Waits for the end; returns what it took."""
        self.process.wait(timeout_s, code)
        return self.samples()

    def wait_matched(self, timeout_s=20.0):
        """Waits until it has matched a writer, if it is one that says so."""
        if self.impl != "apus":
            self.process.wait_event(lambda event: event.get("event") == "matched", "match", timeout_s)

    def wait_sample(self, timeout_s=20.0):
        self.process.wait_event(self._is_sample, "sample", timeout_s)

    def drain(self, x, timeout_s=2.0):
        """Gives it time to take what is in its socket, until it has a sample with this x."""
        try:
            self.process.wait_event(lambda event: self._is_sample(event) and self._sample(event).x == x,
                                    "last sample", timeout_s)
        except Failure:
            pass  # lost, perhaps by right: the case judges

    def wait_states(self, wanted, timeout_s=20.0):
        """Waits until each colour of the mapping has been seen in its state."""
        for color, state in wanted.items():
            self.process.wait_event(
                lambda event, color=color, state=state: self._is_sample(event) and
                self._sample(event)[:1] == (color,) and event["state"] == state,
                f"{color} {state}", timeout_s)

    def _is_sample(self, event):
        return "data" in event if self.impl == "apus" else event.get("event") == "sample"

    def _sample(self, event):
        data = event["data"] if self.impl == "apus" else event
        return Sample(data.get("color"), data.get("x"), data.get("y"), data.get("shapesize"),
                      event["state"], event["writer"], "x" in data)


def qos_words(reliable, transient_local, depth, keep_all, exclusive, strength, extra):
    """The QoS argument of the apus command."""
    words = ["reliability=" + ("reliable" if reliable else "best_effort")]
    if transient_local:
        words.append("durability=transient_local")
    words.append("history=keep_all" if keep_all else f"history=keep_last:{depth}")
    if exclusive:
        words.append("ownership=exclusive")
    if strength is not None:
        words.append(f"strength={strength}")
    return ",".join(words + list(extra))


def peer_flags(reliable, transient_local, depth, keep_all, exclusive, strength):
    """The same for the peers."""
    flags = ["--reliable" if reliable else "--best-effort"]
    if transient_local:
        flags.append("--transient-local")
    flags += ["--depth", str(depth)]
    if keep_all:
        flags.append("--keep-all")
    if exclusive:
        flags += ["--ownership", "exclusive"]
    if strength is not None:
        flags += ["--strength", str(strength)]
    return flags


class World:
    """Namespaces, processes and the capture of one test; everything is gone after close()."""

    def __init__(self, two_hosts=False, loss=0, domain=0, faults=False, ipv6=False, bare=False, vlan=0):
        """faults: between two hosts, 5 % of the packets are doubled and 10 % reordered, too.
        ipv6: two hosts that the peers reach by IPv6. bare: the kernel has no address on host a's interface.
        vlan: host b's interface is in that VLAN."""
        self.ipv6 = ipv6
        self.domain = domain
        self.environment = None  # of what is started from now on; None: ours
        self.two_hosts = two_hosts
        self._processes = []
        self._captures = []
        self._id = f"{os.getpid()}.{next(_ids)}"
        self._netns = os.path.join(Paths.source, "scripts", "netns")
        self.directory = tempfile.mkdtemp(prefix="apus-interop-", dir=Paths.keep)
        if faults:
            self._bad_wire(loss)
            return
        self._run([self._netns, "up", self._id, "--loss", str(loss)] +
                  ([] if two_hosts else ["--single"]) + (["--bare"] if bare else []))
        for host in (("b",) if bare else ("a", "b")) if ipv6 else ():
            self._run(["ip", "-n", f"apus-{self._id}-{host}", "-6", "addr", "add",
                       self.interface[host] + "/64", "dev", "v" + host, "nodad"])

        if vlan:
            self._tag("b", vlan)

    def _tag(self, host, vlan):
        """Puts that host's interface into a VLAN, without the kernel's VLANs, which not every kernel has. Tags are written into
        the frame: the other end of a veth finds them beside it otherwise, where programs of XDP do not see them."""
        device, program = "v" + host, os.path.join(self.directory, "vlan_tag.o")
        self._run(["clang", "-O2", "-g0", "-target", "bpf", f"-DVLAN={vlan}", "-c",
                   os.path.join(Paths.source, "tests", "interop", "vlan_tag.c"), "-o", program])
        self._run(self.prefix(host) + ["ethtool", "-K", device, "txvlan", "off"])
        self._run(self.prefix(host) + ["tc", "qdisc", "add", "dev", device, "clsact"])
        for way, section in (("egress", "leaves"), ("ingress", "comes")):
            self._run(self.prefix(host) + ["tc", "filter", "add", "dev", device, way, "bpf", "da", "obj", program, "sec", section])

    def _bad_wire(self, loss):
        program = os.path.join(Paths.build, "tests", "interop", "lossy_wire")
        self._run([self._netns, "up", self._id, "--unwired"])
        wire = self.start([program, f"apus-{self._id}-a", f"apus-{self._id}-b", str(loss), "5", "10"],
                          "lossy_wire")
        wire.wait_event(lambda event: event.get("ready"), "ready", 10)
        self._run([self._netns, "wire", self._id])

    @staticmethod
    def _run(argv):
        done = subprocess.run(argv, capture_output=True, text=True, timeout=30)
        if done.returncode != 0:
            raise Failure(f"{' '.join(argv)}: {done.stderr.strip()[-300:]}")

    def prefix(self, host="a"):
        """What a command line starts with to run on that host."""
        return ["ip", "netns", "exec", f"apus-{self._id}-{host if self.two_hosts else 'a'}"]

    @property
    def interface(self):
        """For the peers, by host."""
        if self.ipv6:
            return {"a": "fd77::1", "b": "fd77::2"}
        return {"a": "10.77.0.1", "b": "10.77.0.2"} if self.two_hosts else {"a": "127.0.0.1",
                                                                           "b": "127.0.0.1"}

    def start(self, argv, name, host="a", stdin=False, env=None):
        process = Process(self.prefix(host) + argv, name, stdin, env or self.environment)
        self._processes.append(process)
        return process

    def apus(self, *words, host="a", stdin=False):
        """Starts the apus command with these words."""
        shared = []
        if Paths.shm and words[0] in ("pub", "sub") and "shm=on" not in words:
            where = os.path.join(self.directory, "shm-" + (host if self.two_hosts else "a"))
            shared = ["-s", "shm=on", "-s", "shm.directory=" + where]
        return self.start([Paths.program("apus"), *map(str, words), *shared], "apus " + str(words[0]), host,
                          stdin)

    def mac(self, host):
        """The hardware address of that host's interface."""
        done = subprocess.run(self.prefix(host) + ["cat", f"/sys/class/net/v{host}/address"], capture_output=True,
                              text=True, timeout=10, check=True)
        return done.stdout.strip()

    def capture(self, name="traffic", host="a", everything=False):
        """everything: not UDP only."""
        path = os.path.join(self.directory, name + ".pcapng")
        recorder = capture.Capture(self.prefix(host), "v" + host if self.two_hosts else "lo", path,
                                   "" if everything else "udp")
        self._captures.append(recorder)
        return path

    def socket_drops(self, host="a"):
        """Datagrams that the sockets of that host had no room for."""
        done = subprocess.run(self.prefix(host) + ["cat", "/proc/net/snmp"], capture_output=True,
                              text=True, timeout=10, check=True)
        names, values = [line.split() for line in done.stdout.splitlines()
                         if line.startswith("Udp:")]
        return int(values[names.index("RcvbufErrors")])

    def stop_captures(self):
        if self._captures:
            time.sleep(1)  # packets reach dumpcap in blocks; the last ones would be lost
        for recorder in self._captures:
            recorder.stop()
        self._captures.clear()

    def pub(self, impl, topic, host="a", count=1, colors=("RED",), rate=0, matched=0, dispose=None,
            unregister=None, linger=2.0, timeout=40, reliable=True, transient_local=False, depth=1,
            keep_all=False, exclusive=False, strength=None, partitions=(), extra_qos=(),
            extra=(), end_with=(), settle=0, held=False):
        """Starts a publisher of x = 1…count (y = 2x, size 30), colours in turn.

        end_with: pairs (colour, x) written after that. dispose, unregister: colours, last of all.
        settle: seconds a peer waits after it has matched. held: Apus gets its input at release() only.
        """
        if impl == "apus":
            return self._pub_apus(topic, host, count, colors, rate, matched, dispose, unregister,
                                  qos_words(reliable, transient_local, depth, keep_all, exclusive,
                                            strength, extra_qos), partitions, extra, end_with, held)
        if end_with:
            raise ValueError("only apus writes chosen samples")
        argv = [Paths.program(impl), "pub", "--topic", topic, "--domain", str(self.domain),
                "--interface", self.interface[host], "--count", str(count),
                "--colors", ",".join(colors), "--rate", str(rate), "--wait-matched", str(matched),
                "--linger", str(linger), "--timeout", str(timeout)]
        argv += peer_flags(reliable, transient_local, depth, keep_all, exclusive, strength)
        argv += [word for name in partitions for word in ("--partition", name)]
        argv += ["--settle", str(settle)] if settle else []
        argv += ["--dispose", dispose] if dispose else []
        argv += ["--unregister", unregister] if unregister else []
        return Publisher(impl, self.start(argv + list(extra), impl + " pub", host))

    def _pub_apus(self, topic, host, count, colors, rate, matched, dispose, unregister, qos,
                  partitions, extra, end_with, held):
        words = ["pub", topic, "--domain", self.domain, "--qos", qos, "--wait-matched", matched]
        words += ["--rate", rate] if rate else []
        words += [word for name in partitions for word in ("--partition", name)]
        words += ["--dispose", json.dumps({"color": dispose})] if dispose else []
        words += ["--unregister", json.dumps({"color": unregister})] if unregister else []
        process = self.apus(*words, *extra, host=host, stdin=True)
        lines = [(colors[(n - 1) % len(colors)], n) for n in range(1, count + 1)] + list(end_with)
        return Publisher("apus", process, [
            json.dumps({"color": color, "x": x, "y": 2 * x, "shapesize": 30}) for color, x in lines],
            ends=bool(dispose or unregister), held=held)

    def sub(self, impl, topic, host="b", count=1, not_alive=0, linger=1.0, timeout=40, reliable=True,
            transient_local=False, depth=1, keep_all=True, exclusive=False, partitions=(),
            extra_qos=(), filter=None, params=(), extra=()):
        """Starts a subscriber that ends after `count` samples and `not_alive` state changes.

        Apus counts lines of either kind, and does not linger: for it, `linger` means nothing.
        """
        if impl == "apus":
            words = ["sub", topic, "--domain", self.domain, "--json", "--timeout", timeout, "--qos",
                     qos_words(reliable, transient_local, depth, keep_all, exclusive, None, extra_qos)]
            words += ["--count", count + not_alive] if count else []
            words += [word for name in partitions for word in ("--partition", name)]
            words += ["--filter", filter] if filter else []
            words += [word for value in params for word in ("--param", value)]
            return Subscriber("apus", self.apus(*words, *extra, host=host))
        argv = [Paths.program(impl), "sub", "--topic", topic, "--domain", str(self.domain),
                "--interface", self.interface[host], "--count", str(count),
                "--not-alive", str(not_alive), "--linger", str(linger), "--timeout", str(timeout)]
        argv += peer_flags(reliable, transient_local, depth, keep_all, exclusive, None)
        argv += [word for name in partitions for word in ("--partition", name)]
        argv += ["--filter", filter] if filter else []
        argv += [word for value in params for word in ("--param", value)]
        return Subscriber(impl, self.start(argv + list(extra), impl + " sub", host))

    def ls(self, host="a", wait=3.0):
        """What `apus ls --json` prints, as a list of objects."""
        process = self.apus("ls", "--domain", self.domain, "--wait", wait, "--json", host=host)
        return process.wait(wait + 20)

    def close(self):
        for process in self._processes:
            process.stop()
        self.stop_captures()
        subprocess.run([self._netns, "down", self._id], capture_output=True, timeout=30)
        if not Paths.keep:
            shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
