# SPDX-License-Identifier: Apache-2.0
"""Recording of a test's own traffic, and tshark's opinion of it."""

import collections
import subprocess
import time

from .process import Failure, Process

# wire/record.h APUS_WIRE_VENDOR, as tshark prints it.
APUS_VENDOR = "0x01ee"
# tshark's expert-info severities (epan/proto.h).
SEVERITY_ERROR = 0x00800000
GAP, ACKNACK, HEARTBEAT, DATA = 0x08, 0x06, 0x07, 0x15

Message = collections.namedtuple("Message", "frame vendor kinds")


class Capture:
    """dumpcap on one interface of one namespace. start() returns once it records."""

    def __init__(self, prefix, interface, path, wanted="udp"):
        self.path = path
        self._process = Process(
            prefix + ["dumpcap", "-q", "-i", interface, "-f", wanted, "-B", "16", "-w", path], "dumpcap")
        self._wait_started()

    def _wait_started(self):
        deadline = time.monotonic() + 10
        while "File:" not in self._process.errors:
            if time.monotonic() > deadline or self._process.child.poll() is not None:
                raise Failure("dumpcap did not start: " + self._process.errors[-300:])
            time.sleep(0.02)

    def stop(self):
        self._process.stop()


def tshark_fields(path, display_filter, fields, options=()):
    """One list of strings a frame that passes the filter."""
    argv = ["tshark", "-n", *options, "-r", path, "-Y", display_filter, "-T", "fields", "-E", "separator=|"]
    for field in fields:
        argv += ["-e", field]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=180)
    if done.returncode != 0:
        raise Failure("tshark: " + done.stderr.strip()[-300:])
    return [line.split("|") for line in done.stdout.splitlines()]


def messages(path):
    """Every RTPS message of the capture with the kinds of its submessages."""
    rows = tshark_fields(path, "rtps", ["frame.number", "rtps.vendorId", "rtps.sm.id"])
    return [Message(int(row[0]), row[1].split(",")[0],
                    [int(kind, 16) for kind in row[2].split(",") if kind]) for row in rows]


def check_ours(path):
    """Fails if tshark finds a malformed frame or an expert error in what Apus sent.

    Returns the number of messages Apus sent: a capture without any proves nothing.
    """
    vendors = {message.frame: message.vendor for message in messages(path)}
    ours = sum(1 for vendor in vendors.values() if vendor == APUS_VENDOR)
    bad = tshark_fields(path, f"_ws.malformed || _ws.expert.severity == {SEVERITY_ERROR}",
                        ["frame.number", "_ws.expert.message"])
    bad = [row for row in bad if vendors.get(int(row[0])) == APUS_VENDOR]
    if bad:
        raise Failure(f"tshark objects to {len(bad)} of our frames in {path}, first frame "
                      f"{bad[0][0]}: {' '.join(bad[0][1:])[:200]}")
    return ours


def count_kind(path, kind, vendor=None):
    """Submessages of a kind, of one vendor or of all."""
    return sum(message.kinds.count(kind) for message in messages(path)
               if vendor in (None, message.vendor))


def filter_infos(path, vendor):
    """The signatures that a vendor's samples carry, and the words of results, each as a set of hex digits."""
    rows = tshark_fields(path, f"rtps.vendorId == {vendor} && rtps.filter_signature",
                         ["rtps.filter_signature", "rtps.filter_bitmap"])
    return ({digest for row in rows for digest in row[0].replace(":", "").split(",")},
            {int(word, 0) for row in rows for word in row[1].split(",")})


def user_samples(path):
    """Sequence numbers of the DATA that Apus's best-effort writers of keyed topics sent, in the order of the wire."""
    rows = tshark_fields(path, f"rtps.vendorId == {APUS_VENDOR} && rtps.sm.id == {DATA} && "
                         "rtps.sm.wrEntityId.entityKind == 0x02", ["rtps.sm.seqNumber"])
    return [int(number) for row in rows for number in row[0].split(",")]
