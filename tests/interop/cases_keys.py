# SPDX-License-Identifier: Apache-2.0
"""Instances of every keyed type shape, as the peers name them on the wire.

The programs are tests/idlc/keys_cyclone.c and keys_fastdds.cc: the peer writes, disposes and unregisters,
and Apus in the same process says whether each notice led to the right instance. Here the key hashes that
the peer sent are compared with those that Apus computes for it.
"""

import hashlib
import os
import re

from lib import capture
from lib.runner import Skip, case, equal, expect
from lib.world import Paths, VENDOR, World

CYCLONE = ("<CycloneDDS><Domain><General><Interfaces><NetworkInterface address='127.0.0.1'/></Interfaces>"
           "</General><Internal><GenerateKeyhash>{}</GenerateKeyhash></Internal></Domain></CycloneDDS>")


def run_peer(world, peer, suffix, env=None):
    """The hashes it should send, and those it sent (in PID_KEY_HASH, little-endian)."""
    program = os.path.join(Paths.peers, "tests", "idlc", "keys-" + peer)
    if not os.access(program, os.X_OK):
        raise Skip(f"not built: {program}")
    path = world.capture()
    process = world.start([program, suffix], "keys-" + peer, env={**os.environ, **(env or {})})
    samples = process.wait(60)
    world.stop_captures()
    sent = set()
    for vendor, payload in capture.tshark_fields(path, "rtps", ["rtps.vendorId", "udp.payload"]):
        if vendor.split(",")[0] == VENDOR[peer]:
            sent.update(re.findall("70001000([0-9a-f]{32})", payload.replace(":", "")))
    return samples, sent


def cyclone_hash(sample):
    """In clear where this key is short enough."""
    key = bytes.fromhex(sample["key"])
    return key.ljust(16, b"\0").hex() if len(key) <= 16 else hashlib.md5(key).hexdigest()


# Writers of XCDR1 (final types) hash what XCDR1's alignment makes of the key, which for these is neither the
# rule's form nor that of Fast DDS: keys out of id order, and a key cut off at 16 bytes.
CYCLONE_ALONE = {"s_key_ids_f", "s_key_arrays_f"}

for suffix, shapes in (("f", 25), ("a", 27), ("m", 27)):
    def cyclone(suffix=suffix, shapes=shapes):
        """Cyclone's notices with key payloads and key hashes: each finds its instance."""
        with World() as world:
            samples, sent = run_peer(world, "cyclone", suffix, {"CYCLONEDDS_URI": CYCLONE.format("true")})
            equal(len(samples), 3 * shapes, "samples")
            forms = {sample["shape"]: {cyclone_hash(sample)} | ({sample["fast"]} if suffix == "f" else set())
                     for sample in samples if sample["n"] == 1}
            equal({shape for shape, hashes in forms.items() if not hashes & sent},
                  CYCLONE_ALONE if suffix == "f" else set(), "shapes with a key hash of Cyclone's own")
    case(f"keys/cyclone-{suffix}")(cyclone)

for suffix, shapes in (("f", 25), ("a", 27)):
    def fastdds(suffix=suffix, shapes=shapes):
        """Fast DDS's notices, which carry a key hash only: each finds its instance, also where that is not
        the hash of the rule."""
        with World() as world:
            samples, sent = run_peer(world, "fastdds", suffix)
            equal(len(samples), 3 * shapes, "samples")
            for sample in samples:
                if sample["n"] > 0:
                    expect(sample["fast"] in sent, f"{sample['shape']}: no such key hash: {sample['fast']}")
            differ = {sample["shape"] for sample in samples if sample["fast"] != sample["rule"]}
            expect(len(differ) >= 5, f"the hashes differ for {differ} only")
    case(f"keys/fastdds-{suffix}")(fastdds)
