#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How many round trips a small command costs, over a link so slow that nothing
else counts: its window is opened along with the request. The first one of a
session goes with the hello, and where its host is known and it changes nothing
before that host has greeted. Prints TAP."""
import os
import shutil
import sys
import tempfile
import time

import pipes

TRIP_MS = 700  # a loaded machine takes 200 ms for the rest
RUNS = 3
# name, script, most round trips of a command
SCRIPTS = [
    ("to a file here", "wc -l s > $HERE/o", 1),
    ("to a pipe", "x=$(wc -l s)", 1),
    ("an error", "cat missing 2> $HERE/o", 1),
]
# The first command: since its session began. The greeting is as late as an answer.
FIRST_MS = 1000
FIRST = [
    ("the first command, of an unknown host", "wc -l s > $HERE/o", 2),
    ("the first command, of a known host", "wc -l s > $HERE/o", 1),
    ("a first pipeline, of a known host", "wc -l s | cat > $HERE/o", 1),
    ("a first command with an effect", "touch made", 2),
]


READS = ('/usr/bin/timeout 0.1 /usr/bin/head -c 100 >&2; '
         'exec "$DRIVE" proxy --stdio')
TWICE = "wc -l s; sleep 0.2; wc -l s"
# What became of a known host: the program there, what the report says of the
# commands, the script and its output. What was sent early is lost; the original runs,
# and says the same. What has an effect is not sent early.
CHANGED = [
    ("a known host without a proxy", "exit 1", ["no-proxy", "no-proxy"],
     TWICE, b"3 s\n3 s\n"),
    ("a known host that says nothing and reads", "cat >&2", None, TWICE,
     b"3 s\n3 s\n"),
    ("a known host of which a start-up file reads",
     READS, ["lost-link", "none"], TWICE, b"3 s\n3 s\n"),
    ("a first command with an effect, where a start-up file reads",
     READS, ["none"], "touch made2; echo $?", b"0\n"),
]


def changed(top, folder, body, script):
    program = os.path.join(top, "program")
    with open(program, "w", encoding="utf-8") as file:
        file.write(f"#!/bin/sh\n{body}\n")
    os.chmod(program, 0o755)
    os.environ["DRIVE"] = pipes.DRIVE
    return first(top, folder, script,
                 pipes.badly_linked(folder, "chunk=65536", program))


def first(top, folder, script, place=None):
    """Of a session in which it is the only command; all have one history."""
    private = tempfile.mkdtemp(dir=top)
    report = os.path.join(private, "report")
    times = os.path.join(private, "times")
    os.environ["DRIVE_HISTORY"] = os.path.join(top, "history")
    if not place:
        place = pipes.badly_linked(folder, f"delay={FIRST_MS}ms")
    begin = time.time()
    out, said, _ = pipes.run(
        ["bash", "-c", 'exec 9>"$1"; shift; exec "$@"', "x", report,
         pipes.DRIVE, pipes.STUB, pipes.COMMANDS, private,
         place, "--", "bash", "-c",
         f"{script}; echo $EPOCHREALTIME > {times}"], folder)
    del os.environ["DRIVE_HISTORY"]
    with open(report, encoding="utf-8") as file:
        rows = file.read().splitlines()
    with open(times, encoding="ascii") as file:
        spent = float(file.read()) - begin
    shutil.rmtree(private)
    reasons = [row.split()[1] for row in rows if not row.startswith("#")]
    return spent, reasons, out, said


def seconds(top, folder, script):
    private = tempfile.mkdtemp(dir=top)
    report = os.path.join(private, "report")
    times = os.path.join(private, "times")
    # The first one waits for the connection.
    loop = (f"{script}; for i in {{1..{RUNS}}}; do a=$EPOCHREALTIME; {script}; "
            f"echo $a $EPOCHREALTIME >> {times}; done")
    _, said, _ = pipes.run(
        ["bash", "-c", 'exec 9>"$1"; shift; exec "$@"', "x", report,
         pipes.DRIVE, pipes.STUB, pipes.COMMANDS, private,
         pipes.badly_linked(folder, f"delay={TRIP_MS}ms"), "--", "bash", "-c", loop], folder)
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
    trip = FIRST_MS / 1000
    for name, script, most in FIRST:
        spent, reasons, _, said = first(top, folder, script)
        good = (set(reasons) == {"none"} and
                most * trip <= spent < (most + 0.9) * trip)
        number += 1
        failed += not good
        print(f"{'ok' if good else 'not ok'} {number} - {name}")
        if not good:
            print(f"# {spent} s, {reasons}, {said}")
        sys.stdout.flush()
    for name, body, wanted, script, output in CHANGED:
        _, reasons, out, said = changed(top, folder, body, script)
        good = out == output and (reasons == wanted if wanted else
                                  "none" not in reasons[:1])
        number += 1
        failed += not good
        print(f"{'ok' if good else 'not ok'} {number} - {name}")
        if not good:
            print(f"# {out}, {reasons}, {said}")
        sys.stdout.flush()
    shutil.rmtree(top)
    print(f"1..{number}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
