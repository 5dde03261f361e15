#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: a third party finds nothing wrong with the frames our IP layer sends, and sees what we meant.

Method: write_frames (argument 1) writes a capture; tshark decodes it, all checksums verified and fragments put
together. No frame may be malformed, have a bad checksum or carry an expert note of warning or above, and each kind
must be there as often as it was sent. Exit 77 if there is no tshark.
"""
import os
import shutil
import subprocess
import sys
import tempfile

OPTIONS = [word for name in ("ip.check_checksum", "udp.check_checksum", "ip.defragment", "ipv6.defragment")
           for word in ("-o", f"{name}:TRUE")]
BAD = ("_ws.malformed || _ws.expert.severity >= warning || ip.checksum.status == 0 || udp.checksum.status == 0 || "
       "icmp.checksum.status == 0 || icmpv6.checksum.status == 0 || igmp.checksum.status == 0")
# (frames, what their fields are); a field of None is not there. Of several values the first counts.
EXPECTED = [
    (4, {"arp.isgratuitous": "1"}),
    (1, {"arp.opcode": "1", "arp.isgratuitous": None}), (1, {"arp.opcode": "2"}),
    (4, {"icmpv6.type": "135", "ipv6.src": "::"}), (1, {"icmpv6.type": "135", "ipv6.src": "2001:db8::1"}),
    (8, {"icmpv6.type": "136", "ipv6.dst": "ff02::1", "icmpv6.nd.na.flag.s": "0"}),
    (1, {"icmpv6.type": "136", "icmpv6.nd.na.flag.s": "1"}),
    (2, {"udp.length": "72"}), (2, {"udp.length": "73"}), (1, {"udp.length": "8"}),
    (6, {"ip.flags.mf": "1", "udp.length": None}), (1, {"ip.reassembled.length": "10008", "udp.length": "10008"}),
    (6, {"ipv6.fraghdr.more": "1", "udp.length": None}),
    (1, {"ipv6.reassembled.length": "10008", "udp.length": "10008"}),
    (1, {"icmp.type": "3", "icmp.code": "3", "udp.length": "41"}), (1, {"icmp.type": "0"}),
    (1, {"icmpv6.type": "1", "icmpv6.code": "4", "udp.length": "41"}),
    (2, {"igmp.type": "0x22", "igmp.record_type": "4", "igmp.maddr": "239.255.0.1", "ip.opt.ra": "0"}),
    (2, {"igmp.type": "0x22", "igmp.record_type": "3", "igmp.maddr": "239.255.0.1", "ip.opt.ra": "0"}),
    (2, {"igmp.type": "0x16", "ip.dst": "239.255.0.1", "ip.opt.ra": "0"}),
    (1, {"igmp.type": "0x17", "ip.dst": "224.0.0.2", "ip.opt.ra": "0"}),
    (4, {"icmpv6.type": "143", "icmpv6.mldr.mar.multicast_address": "ff15::1", "ipv6.opt.router_alert": "0"}),
    (4, {"icmpv6.type": "143", "ipv6.src": "::", "ipv6.opt.router_alert": "0"}),
    (2, {"icmpv6.type": "131", "icmpv6.mld.multicast_address": "ff15::1", "ipv6.opt.router_alert": "0"}),
    (1, {"icmpv6.type": "132", "ipv6.dst": "ff02::2", "ipv6.opt.router_alert": "0"}),
    (1, {"vlan.id": "42", "udp.length": "74"}),
]
FIELDS = sorted({name for _, fields in EXPECTED for name in fields})


def tshark(path, *arguments):
    return subprocess.run(["tshark", "-n", *OPTIONS, "-r", path, *arguments], check=True, capture_output=True,
                          text=True).stdout.splitlines()


def fields_of(path):
    """A dictionary of each frame: the first value of each field."""
    chosen = [word for name in FIELDS for word in ("-e", name)]
    for line in tshark(path, "-T", "fields", "-E", "occurrence=f", *chosen):
        yield {name: value or None for name, value in zip(FIELDS, line.split("\t"))}


def main():
    if not shutil.which("tshark"):
        return 77
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "frames.pcap")
        subprocess.run([sys.argv[1], path], check=True)
        failures = [f"bad: {line}" for line in tshark(path, "-Y", BAD)]
        frames = list(fields_of(path))
    for times, wanted in EXPECTED:
        found = sum(all(frame[name] == value for name, value in wanted.items()) for frame in frames)
        if found != times:
            failures.append(f"{wanted}: {found} frames, not {times}")
    print("\n".join(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
