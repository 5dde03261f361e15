# SPDX-License-Identifier: Apache-2.0
"""Sends rubbish to the RTPS ports of one domain on 127.0.0.1 for a bounded time.

Three kinds in turn: random bytes, datagrams of captures with bytes changed, and truncated ones.
The seed is fixed, so a crash can be made again. Prints {"sent": n} at the end.
"""

import argparse
import json
import random
import socket
import struct
import time

ETHERNET, IPV4_UDP_MIN = 14, 28


def blocks(data):
    """The enhanced packet blocks of a little-endian pcapng file: captured bytes."""
    at = 0
    while at + 12 <= len(data):
        kind, length = struct.unpack_from("<II", data, at)
        if length < 12 or at + length > len(data):
            return
        if kind == 6 and length >= 32:
            captured = struct.unpack_from("<I", data, at + 20)[0]
            yield data[at + 28:at + 28 + min(captured, length - 32)]
        at += length


def datagrams(path):
    """UDP payloads that begin with RTPS."""
    with open(path, "rb") as file:
        data = file.read()
    for frame in blocks(data):
        at = frame.find(b"RTPS", ETHERNET + IPV4_UDP_MIN)
        if at == ETHERNET + IPV4_UDP_MIN:
            yield frame[at:]


def mutate(rng, seed):
    """Changes one to eight bytes, seldom those that make it RTPS at all."""
    changed = bytearray(seed)
    for _ in range(rng.randint(1, 8)):
        at = rng.randrange(len(changed)) if rng.random() < 0.1 else rng.randrange(16, len(changed))
        changed[at] = rng.choice((0, 1, 0x7f, 0x80, 0xff, rng.randrange(256)))
    return bytes(changed)


def rubbish(rng, seeds):
    """One hostile datagram."""
    kind = rng.randrange(4)
    if kind == 0:
        return rng.randbytes(rng.randint(0, 1400))
    if kind == 1:
        return b"RTPS\x02\x03\x01\xee" + rng.randbytes(rng.randint(0, 1400))
    seed = rng.choice(seeds)
    if kind == 2:
        return seed[:rng.randrange(len(seed))]
    return mutate(rng, seed)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--domain", type=int, default=0)
    parser.add_argument("--rate", type=float, default=2000, help="datagrams a second")
    parser.add_argument("seeds", nargs="+")
    options = parser.parse_args()
    rng = random.Random(20)
    seeds = [payload for path in sorted(options.seeds) for payload in datagrams(path)
             if 20 < len(payload) <= 9000][:4000]
    base = 7400 + 250 * options.domain
    # Discovery and user ports of the first participants; both groups are reached through unicast too.
    ports = [base, base + 1] + [base + 10 + n for n in range(8)]
    out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    out.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
    ends = time.monotonic() + options.seconds
    sent = 0
    while time.monotonic() < ends:
        for _ in range(int(options.rate / 100)):
            port = rng.choice(ports)
            host = "239.255.0.1" if port in (base, base + 1) else "127.0.0.1"
            try:
                out.sendto(rubbish(rng, seeds), (host, port))
            except ConnectionRefusedError:
                pass  # nobody at that port
            sent += 1
        time.sleep(0.01)
    print(json.dumps({"sent": sent}))


if __name__ == "__main__":
    main()
