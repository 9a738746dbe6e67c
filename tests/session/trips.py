#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How many round trips a small command costs: its window is opened along with the
request. The first one of a session goes with the hello, and where its host is known
and it changes nothing before that host has greeted.

Trips are counted, not timed. A relay keeps what the proxy sends until every process
of the session sleeps: then nothing more can happen without that answer. What it
delivers at once is one trip, however slow the machine is. Prints TAP."""
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

import pipes

LOOK_SECONDS = 0.01
LOOKS = 20  # that find nothing changed: asleep
RUNS = 3
# name, script, round trips of a command
SCRIPTS = [
    ("to a file here", "wc -l s > $HERE/o", 1),
    ("to a pipe", "x=$(wc -l s)", 1),
    ("an error", "cat missing 2> $HERE/o", 1),
]
# The first command: since its session began. The greeting is as late as an answer.
FIRST = [
    # It is asked whether it has the same program, too.
    ("the first command, of an unknown host", "wc -l s > $HERE/o", 3),
    ("the first command, of a known host", "wc -l s > $HERE/o", 1),
    ("a first pipeline, of a known host", "wc -l s | cat > $HERE/o", 1),
    ("a first command with an effect", "touch made", 2),
]

TRIPS = os.path.abspath(__file__)
READS = f"exec {TRIPS} --reads 100"
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


# ---- beside the session ----

def threads():
    """{thread: (its state, how often it slept and was interrupted)} of the processes
    that descend from TRIPS_ROOT; this one is left out."""
    below = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                parent = file.read().rpartition(b")")[2].split()[1].decode()
        except OSError:
            continue
        below.setdefault(parent, []).append(pid)
    family = [os.environ["TRIPS_ROOT"]]
    for pid in family:
        family += [one for one in below.get(pid, ()) if one != str(os.getpid())]
    found = {}
    for pid in family:
        try:
            for task in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{task}/status", encoding="utf-8") as file:
                    rows = dict(line.split(":", 1) for line in file)
                found[task] = (rows["State"].split()[0],
                               rows.get("voluntary_ctxt_switches"),
                               rows.get("nonvoluntary_ctxt_switches"))
        except OSError:
            found[pid] = ("R",)  # it just ended
    return found


class Sleep:
    """Whether all of them sleep: none ran between so many looks."""

    def __init__(self):
        self.looks, self.seen = 0, None

    def lasts(self):
        seen = threads()
        same = seen == self.seen and not any(one[0] in "RD" for one in seen.values())
        self.looks = self.looks + 1 if same else 0
        self.seen = seen
        return self.looks >= LOOKS


def relay(words):
    """A transport: each delivery to the session is a line of TRIPS_LOG."""
    signal.signal(signal.SIGTERM, lambda *_: None)  # as badlink
    inner, proxy = socket.socketpair()
    outer = socket.socket(fileno=0)
    os.close(1)
    with subprocess.Popen(["/bin/sh", "-c", words[-1]], stdin=proxy, stdout=proxy):
        proxy.close()
        held, sleep, ended = b"", Sleep(), False
        while held or not ended:
            ready = select.select([outer] if ended else [outer, inner], [], [],
                                  LOOK_SECONDS if held else None)[0]
            if outer in ready:
                sent = outer.recv(65536)
                if not sent:
                    break
                if not ended:
                    inner.sendall(sent)
            if inner in ready:
                answer = inner.recv(65536)
                held, ended = held + answer, not answer
            if ready:
                sleep = Sleep()
            elif sleep.lasts():
                log = os.open(os.environ["TRIPS_LOG"], os.O_WRONLY | os.O_APPEND)
                os.write(log, b"trip\n")
                os.close(log)
                outer.sendall(held)
                held = b""
        inner.close()
        outer.close()


def reads(most):
    """A start-up file that takes what was sent before the proxy has greeted."""
    sleep = Sleep()
    while most > 0 and not sleep.lasts():
        if select.select([0], [], [], LOOK_SECONDS)[0]:
            most -= len(os.read(0, most)) or most
            sleep = Sleep()
    os.execl(pipes.DRIVE, pipes.DRIVE, "proxy", "--stdio")


# ---- the test ----

def session(top, folder, script, place):
    """What a session did: its log, the reason of each command, output and errors."""
    private = tempfile.mkdtemp(dir=top)
    report = os.path.join(private, "report")
    log = os.environ["TRIPS_LOG"] = os.path.join(private, "log")
    out, said, _ = pipes.run(
        ["bash", "-c", 'export TRIPS_ROOT=$$; exec 9>"$1" 8>"$2"; shift 2; exec "$@"',
         "x", report, log, pipes.DRIVE, pipes.STUB, pipes.COMMANDS, private, place,
         "--", "bash", "-c", script], folder)
    with open(report, encoding="utf-8") as file:
        rows = file.read().splitlines()
    with open(log, encoding="ascii") as file:
        lines = file.read().split()
    shutil.rmtree(private)
    reasons = [row.split()[1] for row in rows if not row.startswith("#")]
    return lines, reasons, out, said


def counted(lines):
    """The trips between each `start' and the `end' after it."""
    trips, found = 0, []
    for line in lines:
        trips = 0 if line == "start" else trips + (line == "trip")
        found += [trips] if line == "end" else []
    return found


def slow(folder):
    return pipes.badly_linked(folder, "--relay", relay=TRIPS)


def main():
    top = tempfile.mkdtemp()
    folder = os.path.join(top, "mnt")
    pipes.prepare(folder)
    number = failed = 0

    def tell(good, name, *what):
        nonlocal number, failed
        number += 1
        failed += not good
        print(f"{'ok' if good else 'not ok'} {number} - {name}")
        if not good:
            print("#", *what)
        sys.stdout.flush()

    end = 'echo end >> "$TRIPS_LOG"'
    for name, script, wanted in SCRIPTS:
        # The first one waits for the connection.
        lines, reasons, _, said = session(
            top, folder, f"{script}; for i in {{1..{RUNS}}}; do "
            f'echo start >> "$TRIPS_LOG"; {script}; {end}; done', slow(folder))
        tell(counted(lines) == [wanted] * RUNS and reasons == ["none"] * (RUNS + 1),
             name, lines, reasons, said)
    os.environ["DRIVE_LOGINS"] = os.path.join(top, "login-")
    for name, script, wanted in FIRST:
        lines, reasons, _, said = session(top, folder, f"{script}; {end}",
                                          slow(folder))
        tell(counted(lines) == [wanted] and set(reasons) == {"none"},
             name, lines, reasons, said)
    for name, body, wanted, script, output in CHANGED:
        program = os.path.join(top, "program")
        with open(program, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\n{body}\n")
        os.chmod(program, 0o755)
        _, reasons, out, said = session(
            top, folder, script, pipes.badly_linked(folder, "chunk=65536", program))
        tell(out == output and (reasons == wanted if wanted else
                                "none" not in reasons[:1]), name, out, reasons, said)
    shutil.rmtree(top)
    print(f"1..{number}")
    return 1 if failed else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--relay"]:
        relay(sys.argv)
    elif sys.argv[1:2] == ["--reads"]:
        reads(int(sys.argv[2]))
    else:
        sys.exit(main())
