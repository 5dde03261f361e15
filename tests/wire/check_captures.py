#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares our decoding of every recording in tests/captures with tshark's and with the facts files.

Usage: check_captures.py DUMP_CAPTURES CAPTURES_DIRECTORY [NAME...]

Method: tshark's decoding (PDML) is brought into the form dump_captures prints and then has to be equal
as a whole, one object a datagram and one a submessage: a key that only one side has is a difference
too. tshark sees a datagram as malformed exactly where we do. The facts files, made without either
decoder, must agree on the number of submessages of each kind.
At the end the comparison is proved on itself: for one submessage of each kind every single value is
changed in turn, and one bit in a recording; each change must be reported.
Exit codes: 0 equal, 1 different, 77 no tshark here (the facts were still checked).
"""
import concurrent.futures
import copy
import datetime
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

PAD, ACKNACK, HEARTBEAT, GAP, INFO_TS, INFO_SRC = 0x01, 0x06, 0x07, 0x08, 0x09, 0x0C
INFO_DST, NACK_FRAG, HEARTBEAT_FRAG, DATA, DATA_FRAG = 0x0E, 0x12, 0x13, 0x15, 0x16
NAMES = {
    PAD: "PAD", ACKNACK: "ACKNACK", HEARTBEAT: "HEARTBEAT", GAP: "GAP", INFO_TS: "INFO_TS",
    INFO_SRC: "INFO_SRC", INFO_DST: "INFO_DST", NACK_FRAG: "NACK_FRAG",
    HEARTBEAT_FRAG: "HEARTBEAT_FRAG", DATA: "DATA", DATA_FRAG: "DATA_FRAG",
}


def ours(dump, path):
    out = subprocess.run([dump, path], check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in out.splitlines()]


# --- tshark's view ---------------------------------------------------------------------------------


def number(field):
    return int(field.get("show"), 0)


def direct(submessage, name):
    """Fields of that name below a submessage, without those of its payload."""
    found = []
    for field in submessage:
        if field.get("name") == name:
            found.append(field)
        elif not field.get("name") and not is_payload(field) and not is_inline(field):
            found += direct(field, name)
    return found


def one(submessage, name):
    fields = direct(submessage, name)
    if len(fields) != 1:
        raise ValueError(f"{len(fields)} fields {name}")
    return number(fields[0])


def is_payload(field):
    return field.get("show") in ("serializedData", "serializedKey", "ParticipantMessageData")


def is_inline(field):
    return field.get("show", "").startswith("inlineQos")


def hex_value(field):
    return field.get("value")


def ids(submessage):
    return {"reader": one(submessage, "rtps.sm.rdEntityId"),
            "writer": one(submessage, "rtps.sm.wrEntityId")}


def bits(submessage, name):
    """From the bytes tshark takes for the whole set: 4.0.17 loses the last bits of the text it prints
    (trailing zeros in an ACKNACK, the last bit in a NACK_FRAG). What it prints must agree."""
    num_bits = one(submessage, name)
    (whole,) = [f for f in submessage
                if f.get("show") in ("readerSNState", "gapList", "fragmentNumberState")]
    head = 8 if whole.get("show") == "fragmentNumberState" else 12
    raw = bytes.fromhex(hex_value(whole))[head:]
    order = "little" if flag(submessage, "rtps.flag.endianness") else "big"
    words = [int.from_bytes(raw[i:i + 4], order) for i in range(0, len(raw), 4)]
    text = "".join(f"{word:032b}" for word in words)[:num_bits]
    fields = direct(submessage, "rtps.bitmap")
    printed = fields[0].get("showname").split(": ", 1)[1] if fields else ""
    if not text.startswith(printed):
        raise ValueError(f"bitmap {text}, printed {printed}")
    return {"num_bits": num_bits, "bitmap": text}


def flag(submessage, name):
    found = [f for f in submessage.iter("field") if f.get("name") == name]
    if len(found) != 1:
        raise ValueError(f"{len(found)} flags {name}")
    return number(found[0])


def inline_qos(submessage):
    lists = [f for f in submessage if is_inline(f)]
    if not lists:
        return {}
    fields = list(lists[0].iter("field"))
    pids = [number(f) for f in fields if f.get("name") == "rtps.param.id"]
    lengths = [number(f) for f in fields if f.get("name") == "rtps.param.length"]
    if pids[-1] != 1:
        raise ValueError("inline QoS without sentinel")
    if len(lengths) == len(pids):
        lengths.pop()
    result = {"inline": [list(pair) for pair in zip(pids[:-1], lengths, strict=True)]}
    for index, pid in enumerate(pids[:-1]):
        heads = [f for f in fields if f.get("name") == "rtps.param.id"]
        start = int(heads[index].get("pos")) + 4
        end = start + lengths[index]
        inside = [f for f in fields if f.get("name") and start <= int(f.get("pos")) < end]
        if pid == 0x70:
            result["key_hash"] = [hex_value(f) for f in inside if f.get("name") == "rtps.guid"][0]
        if pid == 0x71:
            result["status_info"] = [number(f) for f in inside
                                     if f.get("name") == "rtps.param.status_info"][0]
        if pid == 0x55:
            result["filter_info"] = filter_info(inside)
    return result


def filter_info(inside):
    """The bytes of a ContentFilterInfo_t, rebuilt from the words and signatures tshark lists."""
    words = [number(f) for f in inside if f.get("name") == "rtps.filter_bitmap"]
    signatures = [hex_value(f) for f in inside if f.get("name") == "rtps.filter_signature"]
    out = len(words).to_bytes(4, "little")
    out += b"".join(w.to_bytes(4, "little") for w in words)
    out += len(signatures).to_bytes(4, "little") + bytes.fromhex("".join(signatures))
    return out.hex()


def payload_place(submessage, base, key):
    for field in submessage:
        if is_payload(field):
            place = [int(field.get("pos")) - base, int(field.get("size"))]
            return {"key" if field.get("show") == "serializedKey" else key: place}
    return {}


def fragments_place(submessage, base):
    parts = [f for f in submessage if f.get("show", "").startswith("fragment [")]
    start = int(parts[0].get("pos")) - base
    return {"payload": [start, sum(int(p.get("size")) for p in parts)]}


def numbers(submessage):
    return [number(f) for f in direct(submessage, "rtps.sm.seqNumber")]


def data(submessage, base):
    (seq,) = numbers(submessage)
    return {**ids(submessage), "seq": seq, **payload_place(submessage, base, "payload"),
            **inline_qos(submessage)}


def data_frag(submessage, base):
    (seq,) = numbers(submessage)
    return {**ids(submessage), "seq": seq, "first": one(submessage, "rtps.data_frag.number"),
            "count": one(submessage, "rtps.data_frag.num_fragments"),
            "fragment_bytes": one(submessage, "rtps.data_frag.size"),
            "sample_bytes": one(submessage, "rtps.data_frag.sample_size"),
            **fragments_place(submessage, base), **inline_qos(submessage)}


def heartbeat(submessage, _):
    first, last = numbers(submessage)
    return {**ids(submessage), "first": first, "last": last,
            "count": one(submessage, "rtps.heartbeat_count"),
            "final": flag(submessage, "rtps.flag.final"),
            "liveliness": flag(submessage, "rtps.flag.liveliness")}


def heartbeat_frag(submessage, _):
    (seq,) = numbers(submessage)
    return {**ids(submessage), "seq": seq, "last": one(submessage, "rtps.heartbeat_frag.number"),
            "count": one(submessage, "rtps.heartbeat_frag.count")}


def gap(submessage, _):
    start, base = numbers(submessage)
    return {**ids(submessage), "start": start, "base": base,
            **bits(submessage, "rtps.bitmap.num_bits")}


def acknack(submessage, _):
    (base,) = numbers(submessage)
    return {**ids(submessage), "base": base, **bits(submessage, "rtps.bitmap.num_bits"),
            "count": one(submessage, "rtps.acknack.count"),
            "final": flag(submessage, "rtps.flag.final")}


def nack_frag(submessage, _):
    (seq,) = numbers(submessage)
    return {**ids(submessage), "seq": seq, "base": one(submessage, "rtps.fragment_number.base32"),
            **bits(submessage, "rtps.fragment_number.num_bits"),
            "count": one(submessage, "rtps.nack_frag.count")}


def info_ts(submessage, _):
    (stamp,) = direct(submessage, "rtps.info_ts.timestamp")
    text, fraction = stamp.get("show").removesuffix(" UTC").split(".")
    when = datetime.datetime.strptime(text, "%b %d, %Y %H:%M:%S")
    seconds = int(when.replace(tzinfo=datetime.timezone.utc).timestamp())
    return {"time_ns": seconds * 10**9 + int(fraction.ljust(9, "0"))}


def info_dst(submessage, _):
    (prefix,) = direct(submessage, "rtps.guidPrefix.dst")
    return {"dest": hex_value(prefix)}


DECODERS = {
    DATA: data, DATA_FRAG: data_frag, HEARTBEAT: heartbeat, HEARTBEAT_FRAG: heartbeat_frag,
    GAP: gap, ACKNACK: acknack, NACK_FRAG: nack_frag, INFO_TS: info_ts, INFO_DST: info_dst,
}


def header(frame, proto):
    fields = {f.get("name"): f for f in proto}
    return {"frame": frame, "verdict": "accept", "version": number(fields["rtps.version"]),
            "vendor": number(fields["rtps.vendorId"]),
            "source": hex_value(fields["rtps.guidPrefix.src"])}


def submessage_of(frame, base, field):
    kind = number(field)
    result = {"frame": frame, "id": kind, "offset": int(field.get("pos")) - base,
              "bytes": int(field.get("size")) - 4, "verdict": "skip"}
    # A vendor's submessages are one piece for tshark: its flags are not in the tree.
    if kind < 0x80:
        result["flags"] = number([f for f in field if f.get("name") == "rtps.sm.flags"][0])
    if kind in DECODERS:
        result["verdict"] = "accept"
        result.update(DECODERS[kind](field, base))
    return result


def packet(element):
    """The objects of one frame."""
    protos = {p.get("name"): p for p in element}
    general = {f.get("name"): f for f in protos["geninfo"]}
    frame = int(general["num"].get("show"), 0)
    proto = protos.get("rtps")
    if proto is None:
        return [{"frame": frame, "verdict": "skip"}]
    base = int(proto.get("pos"))
    result = [header(frame, proto)]
    result += [submessage_of(frame, base, f) for f in proto if f.get("name") == "rtps.sm.id"]
    if "_ws.malformed" in protos or any(f.get("name") == "_ws.malformed" for f in element.iter()):
        result[-1]["verdict"] = "malformed"
    return result


def theirs(path):
    command = ["tshark", "-n", "-r", str(path), "-Y", "udp", "-T", "pdml"]
    result = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        for _, element in ElementTree.iterparse(process.stdout):
            if element.tag == "packet":
                result += packet(element)
                element.clear()
    if process.returncode:
        raise RuntimeError(f"tshark: exit code {process.returncode} for {path}")
    return result


# --- Comparing -------------------------------------------------------------------------------------


def same(key, a, b):
    """tshark cuts times to ns, we round: its ns or the next."""
    if key == "time_ns" and a is not None and b is not None:
        return a in (b, b + 1)
    return a == b


def differences(our, their):
    """One line for each difference between two lists of objects."""
    lines = []
    if len(our) != len(their):
        lines.append(f"{len(our)} objects, tshark has {len(their)}")
    for a, b in zip(our, their):
        keys = sorted(set(a) | set(b))
        if a.get("id", 0) >= 0x80:
            keys.remove("flags")
        for key in keys:
            if not same(key, a.get(key), b.get(key)):
                lines.append(f"frame {a['frame']} id {a.get('id')}: {key} is {a.get(key)}, "
                             f"tshark has {b.get(key)}")
    return lines


def check_facts(our, path):
    """Number of submessages of each kind against the facts file."""
    expected = {}
    for participant in json.loads(path.with_suffix(".json").read_text())["participants"].values():
        for name, count in participant["submessages"].items():
            expected[name.lower()] = expected.get(name.lower(), 0) + count
    found = {}
    for item in our:
        if "id" in item:
            name = NAMES.get(item["id"], f"0x{item['id']:02x}").lower()
            found[name] = found.get(name, 0) + 1
    return [] if found == expected else [f"facts: {expected}, we have {found}"]


def check_file(dump, path, with_tshark):
    our = ours(dump, path)
    their = theirs(path) if with_tshark else our
    return path, our, their, check_facts(our, path) + differences(our, their)


def change(value):
    if isinstance(value, int):
        return value + 2
    if isinstance(value, str):
        return value[:-1] + ("1" if value.endswith("0") else "0")
    changed = copy.deepcopy(value)
    if changed and isinstance(changed[0], int):
        changed[0] += 1
    elif changed:
        changed[0][1] += 4
    else:
        changed.append([0, 0])
    return changed


def prove(results, dump):
    """Changed values, and one changed bit of a recording, must be seen. Returns failures."""
    failures, seen, changes = [], set(), 0
    for _, our, their, _ in results:
        for a, b in zip(our, their):
            if a.get("id") in seen:
                continue
            seen.add(a.get("id"))
            for key in a:
                if key in ("frame", "flags") and a.get("id", 0) >= 0x80:
                    continue
                changes += 1
                if not differences([{**a, key: change(a[key])}], [b]):
                    failures.append(f"change of {key} in id {a.get('id')} not noticed")
    path, our, their, _ = results[0]
    target = next(i for i in our if i.get("id") == DATA)
    raw = bytearray(path.read_bytes())
    rtps = [i.start() for i in re.finditer(b"RTPS\x02", bytes(raw))]
    frames = sorted({i["frame"] for i in our if "source" in i})
    raw[rtps[frames.index(target["frame"])] + target["offset"] + 20] ^= 2  # low byte of seq
    with tempfile.TemporaryDirectory() as directory:
        altered = pathlib.Path(directory) / "altered.pcapng"
        altered.write_bytes(raw)
        lines = differences(ours(dump, altered), their)
    if len(lines) != 1 or ": seq is " not in lines[0]:
        failures.append(f"changed bit in {path.name}: {lines}")
    print(f"proof: {changes} changed values in {len(seen)} kinds of objects and 1 changed bit")
    return failures


def main():
    dump, directory, *names = sys.argv[1:]
    paths = sorted(pathlib.Path(directory).glob("*.pcapng"))
    if names:
        paths = [p for p in paths if p.stem in names]
    if not paths:
        print(f"no recordings in {directory}")
        return 1
    with_tshark = shutil.which("tshark") is not None
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        results = list(pool.map(check_file, [dump] * len(paths), paths,
                                [with_tshark] * len(paths)))
    failed = 0
    for path, our, _, lines in results:
        failed += bool(lines)
        for line in lines[:20]:
            print(f"{path.name}: {line}")
        print(f"{path.stem}: {sum('id' in i for i in our)} submessages, "
              f"{'different' if lines else 'equal'}")
    failures = prove(results, dump) if with_tshark and not failed else []
    for line in failures:
        print(line)
    print(f"{len(paths)} recordings, {failed} different")
    if failed or failures:
        return 1
    return 0 if with_tshark else 77


if __name__ == "__main__":
    sys.exit(main())
