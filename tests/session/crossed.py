#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a report says that crossed the network (bytes_from_link, bytes_to_link of
ferry-run(1)) is what a command wrote here and was sent of its input. Prints TAP."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
from patience import patient  # noqa: E402

BUILD = os.environ.get("FERRY_BUILDDIR", ".")
FERRY = os.path.join(BUILD, "ferry")
WORDS = "".join(f"{n}\n" for n in range(900)).encode()

# name, command, bytes of its input from here, whether its output stays on the host
CASES = [
    ("output", "cat f", 0, False),
    ("output and errors", "cat f missing", 0, False),
    ("no output", "grep -q 7 f", 0, False),
    ("output into a file there", "sort -r f > out", 0, True),
    ("input", "sort -r -o out < ../given", len(WORDS), False),
    ("input and output", "tee out < ../given", len(WORDS), False),
]


def crossed(folder, report, script):
    """The bytes that the command wrote, its row in the report, and whether it ended
    and wrote as without ferry."""
    plain = subprocess.run(["sh", "-c", script], cwd=folder, check=False,
                           capture_output=True, timeout=patient(120))
    done = subprocess.run(
        [FERRY, "run", "--no-discover", "--force", "--report=" + report,
         "--mount", f"{folder}=loopback://{folder}", "--", "sh", "-c", script],
        cwd=folder, check=False, capture_output=True, timeout=patient(120))
    with open(report, encoding="utf-8") as file:
        rows = json.load(file)["stages"]
    lines = [x for x in done.stderr.splitlines(True)
             if b"missing" in x and not x.startswith(b"ferry")]
    same = (done.returncode, done.stdout) == (plain.returncode, plain.stdout)
    return len(done.stdout) + sum(map(len, lines)), rows, same


def main():
    top = os.path.realpath(tempfile.mkdtemp(dir="/var/tmp"))
    folder = os.path.join(top, "mnt")
    os.mkdir(folder)
    with open(os.path.join(folder, "f"), "wb") as file:
        file.write(WORDS * 3)
    with open(os.path.join(top, "given"), "wb") as file:
        file.write(WORDS)
    bad = 0
    for number, (name, script, given, stays) in enumerate(CASES, 1):
        came, rows, same = crossed(folder, os.path.join(top, "report.json"), script)
        want = (None, 0 if stays else came, given)
        found = [(row["declined"] if row["declined"] != "none" else None,
                  row["bytes_from_link"], row["bytes_to_link"]) for row in rows]
        good = same and found == [want]
        bad += not good
        print(f"{'' if good else 'not '}ok {number} - {name}")
        if not good:
            print(f"# {found}, not {want}, or another output: {not same}")
    print(f"1..{len(CASES)}")
    shutil.rmtree(top)
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
