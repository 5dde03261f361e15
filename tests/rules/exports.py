# SPDX-License-Identifier: Apache-2.0
"""Goal: the shared library exports what the version script names, and what the headers declare.

Method: three sets of names (nm -D of the library, the map's global section, APUS_API declarations
in the public headers) must be equal. Usage: exports.py LIBRARY MAP INCLUDE_DIR
"""

import glob
import os
import re
import subprocess
import sys

library, map_path, include = sys.argv[1:4]


def exported():
    out = subprocess.run(["nm", "-D", "--defined-only", "--extern-only", library], check=True,
                         capture_output=True, text=True).stdout
    names = {line.split()[-1].split("@")[0] for line in out.splitlines()}
    return {name for name in names if not re.fullmatch(r"APUS_\d+", name)}


def mapped():
    with open(map_path, encoding="utf-8") as file:
        text = file.read()
    section = text[text.index("global:"):text.index("local:")]
    return re.findall(r"\b(apus_\w+);", section)


def declared():
    names = set()
    for path in glob.glob(os.path.join(include, "apus", "*.h")):
        with open(path, encoding="utf-8") as file:
            text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
        for statement in re.findall(r"APUS_API\s+(?!__attribute__)([^;{]*);", text):
            function = re.search(r"\b(apus_\w+)\s*\(", statement)
            if function:
                names.add(function.group(1))
            else:
                names.update(re.findall(r"\b(apus_\w+)\s*(?:,|$)", statement))
    return names


def report(names, text):
    for name in sorted(names):
        print(f"{name}: {text}")
    return bool(names)


listed = mapped()
sets = exported(), set(listed), declared()
failed = report(sets[0] - sets[1], "exported, but not in the map")
failed |= report(sets[1] - sets[0], "in the map, but not exported")
failed |= report(sets[2] - sets[1], "declared in a public header, but not in the map")
failed |= report(sets[1] - sets[2], "in the map, but in no public header")
if listed != sorted(listed):
    print("the map is not sorted")
    failed = True
sys.exit(1 if failed else 0)
