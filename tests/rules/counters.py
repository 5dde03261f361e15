# SPDX-License-Identifier: Apache-2.0
"""Goal: every counter has a name that others see, and docs/counters.md tells when it moves.

Method: the fields of all counter structs against the tables that export them; then the names that are exported, and those
put into counter files, against the page, in both directions. Usage: counters.py SOURCE_DIR
"""

import glob
import os
import re
import sys

root = sys.argv[1]
HEADERS = ["dataplane/*.h", "dataplane/io/*.h", "control/*.h"]


def read(path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read()


def fields():
    """(struct, field) of every counter in a struct whose name ends in _counters."""
    for pattern in HEADERS:
        for path in glob.glob(os.path.join(root, pattern)):
            text = re.sub(r"/\*.*?\*/", "", read(path), flags=re.S)
            for name, body in re.findall(r"^struct (\w+_counters) \{(.*?)^\};", text, re.S | re.M):
                for declaration in re.findall(r"struct apus_counter\s+([^;]+);", body):
                    for field in declaration.split(","):
                        yield name, re.match(r"\w+", field.strip()).group()


info = read("control/domain_info.c") + read("control/domain_relay_host.c")
stats = read("control/domain_stats.c")
entries = re.findall(r'COUNTER\(\s*(\w+),\s*([\w.]+)[^",]*,\s*"([^"]+)"', info)
shown = {(struct, field.split(".")[-1]) for struct, field, _ in entries}
names = {name for _, _, name in entries}
names |= set(re.findall(r'put\(r, "([^"]+)"', stats)) | {"stats.dropped"}
names |= {"port." + name for name in re.findall(r"\bPORT\((\w+)\)", read("dpdk/port.c")) if name != "field"}
names |= set(re.findall(r'stat_out->name = "([^"]+)"', read("dpdk/port.c")))
ip_names = set(re.findall(r'= "([a-z]+\.[a-z_]+)"', read("ip/control.c")))
documented = set(re.findall(r"`([a-z_]+\.[a-z_.]+)`", read("docs/counters.md"))) - {"stats.file"}
# Of the IP layer's, which have a page of their own, some are named as examples.
documented -= {"ip." + name for name in ip_names}

# Structs that a participant holds are reached through it.
wrong = [f"{struct}.{field} is exported by no name" for struct, field in sorted(set(fields()))
         if not {(struct, field), ("apus_participant", field)} & shown]
wrong += [f"{name} is not in docs/counters.md" for name in sorted(names - documented)]
wrong += [f"docs/counters.md tells of {name}, which is not there" for name in sorted(documented - names)]
# Those of ports without the kernel, which have a page of their own.
ip_documented = set(re.findall(r"`([a-z]+\.[a-z_]+)`", read("docs/ip.md"))) - {"limits.md"}
wrong += [f"{name} is in one of ip/control.c and docs/ip.md only" for name in sorted(ip_names ^ ip_documented)]
print("\n".join(wrong))
sys.exit(1 if wrong or len(names) < 100 else 0)
