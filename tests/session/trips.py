#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How many round trips a small command costs, over a link so slow that nothing
else counts: its window is opened along with the request. Prints TAP."""
import os
import shutil
import sys
import tempfile
import time

import pipes

TRIP_MS = 300
RUNS = 3
# name, script, most round trips of a command
SCRIPTS = [
    ("to a file here", "wc -l s > $HERE/o", 1),
    ("to a pipe", "x=$(wc -l s)", 1),
    ("an error", "cat missing 2> $HERE/o", 1),
]


def seconds(top, folder, script):
    private = tempfile.mkdtemp(dir=top)
    report = os.path.join(private, "report")
    place = f"{folder}=loopback://{folder}"
    place += (pipes.PROXY + "&" if pipes.PROXY else "?")
    times = os.path.join(private, "times")
    # The first one waits for the connection.
    loop = (f"{script}; for i in {{1..{RUNS}}}; do a=$EPOCHREALTIME; {script}; "
            f"echo $a $EPOCHREALTIME >> {times}; done")
    _, said, _ = pipes.run(
        ["bash", "-c", 'exec 9>"$1"; shift; exec "$@"', "x", report,
         pipes.DRIVE, pipes.STUB, pipes.COMMANDS, private,
         f"{place}fault=delay={TRIP_MS}ms", "--", "bash", "-c", loop], folder)
    with open(report, encoding="utf-8") as file:
        rows = file.read()
    with open(times, encoding="ascii") as file:
        spent = sorted(float(end) - float(begin) for begin, end in
                       (line.split() for line in file))
    shutil.rmtree(private)
    return spent[len(spent) // 2], rows.count(" none ") > RUNS, said


def main():
    top = tempfile.mkdtemp()
    folder = os.path.join(top, "mnt")
    pipes.prepare(folder)
    number = failed = 0
    trip = TRIP_MS / 1000
    for name, script, most in SCRIPTS:
        spent, placed, said = seconds(top, folder, script)
        good = placed and most * trip <= spent < (most + 0.7) * trip
        number += 1
        failed += not good
        print(f"{'ok' if good else 'not ok'} {number} - {name}")
        if not good:
            print(f"# {spent} s, placed {placed}, {said}")
        sys.stdout.flush()
    shutil.rmtree(top)
    print(f"1..{number}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
