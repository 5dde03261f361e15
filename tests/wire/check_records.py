#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: a third party reads our discovery records as we meant them.

Method: write_records (argument 1) writes a capture; tshark decodes it. No packet may be malformed or
carry an expert note of warning or above, and the decoded text must hold each value written, as many
times as it was written. Exit 77 if there is no tshark.
"""
import os
import shutil
import subprocess
import sys
import tempfile

# (what must stand in tshark's text, how often)
EXPECTED = [
    ("PID_SENTINEL (0x0001)", 12),  # one a list: 8 payloads, 4 inline QoS lists
    ("encapsulation kind: PL_CDR_LE (0x0003)", 8),
    ("Protocol version: 2.3", 4 + 9),  # records and message headers
    ("lease_duration: 10.500000 sec", 1),
    ("parameterData: 07000000", 1),  # domain id
    ("Flags: 0x0000fc3f", 1),
    ("PID_ENTITY_NAME", 2), ("entityName: swift", 1),
    ("PID_METATRAFFIC_UNICAST_LOCATOR (LOCATOR_KIND_UDPV4, 127.0.0.1:9160)", 1),
    ("PID_METATRAFFIC_MULTICAST_LOCATOR (LOCATOR_KIND_UDPV4, 127.0.0.1:9150)", 1),
    ("PID_DEFAULT_UNICAST_LOCATOR (LOCATOR_KIND_UDPV4, 127.0.0.1:9161)", 1),
    ("PID_DEFAULT_MULTICAST_LOCATOR (LOCATOR_KIND_UDPV4, 127.0.0.1:9151)", 1),
    ("PID_UNICAST_LOCATOR (LOCATOR_KIND_UDPV4, 127.0.0.1:9161)", 3),
    ("topic: Square", 3), ("typeName: ShapeType", 3),
    ("Kind: RELIABLE_RELIABILITY_QOS (0x00000002)", 3),
    ("TRANSIENT_LOCAL_DURABILITY_QOS (0x00000001)", 3),
    ("MANUAL_BY_TOPIC_LIVELINESS_QOS (0x00000002)", 3),
    ("EXCLUSIVE_OWNERSHIP_QOS (0x00000001)", 3),
    ("Kind: KEEP_LAST_HISTORY_QOS (0x00000000)", 1), ("Depth: 3", 1),
    ("Kind: KEEP_ALL_HISTORY_QOS (0x00000001)", 2),
    ("0.400000 sec", 3), ("1.500000 sec", 1), ("0.200000 sec", 2),
    ("robot/*", 3), ("diagnostics", 3),
    ("Data Representation Sequence[2]", 3),
    ("filterClassName: DDSSQL", 1), ("contentFilterTopicName: RedSquares", 1),
    ("filterExpression: color = %0 AND x > %1", 1),
    ("expressionParameters[0]: 'RED'", 1), ("expressionParameters[1]: 5", 1),
    ("Flags: 0x00000003, Unregistered, Disposed", 4),
]


def tshark(*arguments):
    return subprocess.run(["tshark", "-n", *arguments], check=True, capture_output=True,
                          text=True).stdout


def main():
    if not shutil.which("tshark"):
        return 77
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "records.pcap")
        subprocess.run([sys.argv[1], path], check=True)
        bad = tshark("-r", path, "-Y", "_ws.malformed || _ws.expert.severity >= warning")
        text = tshark("-r", path, "-O", "rtps")
    failures = [f"malformed or noted: {line}" for line in bad.splitlines()]
    for what, times in EXPECTED:
        found = text.count(what)
        if found != times:
            failures.append(f"{what!r}: {found} times instead of {times}")
    for failure in failures:
        print(failure)
    if failures:
        print(text)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
