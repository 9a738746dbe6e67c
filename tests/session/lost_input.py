#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Connections that break, are slow or cut into pieces while a stage gets its
stdin from this machine: what ends well is what it is without ferry; what does
not ends with 125 and says so; nothing hangs. Prints TAP."""
import os
import shutil
import sys
import tempfile

import pipes
from chosen import EDIT

# name, script, whether the end may be an error: what has effects is not
# repeated.
SCRIPTS = [
    ("patterns of a file", "seq 1 30000 > $HERE/f; grep -c -f - n < $HERE/f",
     False),
    ("a file to a file there", "seq 1 60000 > $HERE/f; sort -r < $HERE/f > out;"
     "md5sum < out; rm out", False),
    ("a drained file", "seq 1 60000 > $HERE/f; { cat s - t; cat; } < $HERE/f |"
     "md5sum", False),
    ("a pipe", "seq 1 60000 | cat s - t > $HERE/g; echo ${PIPESTATUS[*]};"
     "md5sum < $HERE/g", False),
    ("a pipe, delivered", "seq 1 60000 | cat s - t | cat - - | md5sum;"
     "seq 1 400000 | cat - t | sed 's/7/seven/' | md5sum", False),
    ("a slow pipe", "(seq 1 30000; sleep 0.2; seq 1 30000) | cat s - t |"
     "sed 's/7/seven/' | md5sum", False),
    ("a pipe and its filters", "seq 1 90000 | cat s - t | grep 7 | sort -r |"
     "sed 's/7/seven/' | md5sum; echo ${PIPESTATUS[*]}", False),
    ("an early end", "(seq 1 99999; trap 'echo pipe >&2; exit 9' PIPE;"
     "while echo x || exit 8; do :; done) | cat s - t | sed 3q;"
     "echo ${PIPESTATUS[*]}", False),
    ("an effect", "seq 1 60000 | tee out > /dev/null; echo ${PIPESTATUS[*]};"
     "md5sum < out; rm out", True),
    ("joined behind", "seq 1 60000 | tee out | sort -r > $HERE/g;"
     "echo ${PIPESTATUS[*]}; md5sum < $HERE/g; rm out", True),
]
FAULTS = ["up,cut=1000", "up,cut=3000", "up,cut=3500", "up,cut=20000",
          "up,cut=100KiB", "down,cut=200", "down,cut=500", "down,cut=900",
          "up,slow=2MiB/s", "chunk=1000", "delay=2ms"]


def run(top, folder, script, fault):
    """What a script does over such a link, and the session's report."""
    private = tempfile.mkdtemp(dir=top)
    report = os.path.join(private, "report")
    carried = pipes.run(
        ["bash", "-c", 'exec 9>"$1"; shift; exec "$@"', "x", report,
         pipes.DRIVE, pipes.STUB, pipes.COMMANDS, private,
         pipes.badly_linked(folder, fault), "--", "bash", "-c", script], folder)
    with open(report, encoding="utf-8") as file:
        rows = file.read()
    shutil.rmtree(private)
    return carried, rows


def main():
    top = tempfile.mkdtemp()
    folder = os.path.join(top, "mnt")
    pipes.prepare(folder)
    number = failed = broke = 0
    for at, (name, script, may_fail) in enumerate(SCRIPTS):
        plain = pipes.run(["bash", "-c", script], folder)
        # In the tier edit each third fault, for the next script another third.
        for fault in FAULTS[at % 3::3] if EDIT else FAULTS:
            # A slow link may be too slow for who waits here: within five runs it
            # is not, where nothing breaks.
            for _ in range(1 if "cut" in fault else 5):
                carried, rows = run(top, folder, script, fault)
                good = carried == plain
                if not good or " none " in rows:
                    break
            broken = not good and b"ferry: " in carried[1]
            if broken and may_fail and "cut" in fault:
                broke += 1
                good = b"125" in carried[0]
            if "cut" not in fault:
                good = good and " none " in rows
            number += 1
            failed += not good
            print(f"{'ok' if good else 'not ok'} {number} - {name}: {fault}")
            if not good:
                print(f"# plain   {plain}\n# carried {carried}"[:600])
                print("# " + rows.replace("\n", "\n# "))
            sys.stdout.flush()
            for rest in ("out", "sorted"):
                if os.path.exists(os.path.join(folder, rest)):
                    os.remove(os.path.join(folder, rest))
    shutil.rmtree(top)
    number += 1
    failed += broke == 0
    print(f"{'ok' if broke else 'not ok'} {number} - some could not be repeated"
          f" ({broke})")
    print(f"1..{number}")
    return 1 if failed else 0


sys.exit(main())
