#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A signal to a process group reaches what reads before what feeds it, also when
the reader's stub is slow to say that it has it: otherwise the reader would take
the death of its feeder for the end of its input, and deliver a result. The stub
is stopped for a while to make it slow. And a signal for the feeder alone ends
only that. Prints TAP."""
import os
import shutil
import signal
import sys
import tempfile
import time

import pipes
from pipes import patient

WORDS = [["tail", "-n", "9", "-f"], ["cat", "-"], ["sort", "-r"]]


def processes():
    """(pid, words, whether it is a stub) of all that run."""
    for entry in os.listdir("/proc"):
        try:
            with open(f"/proc/{entry}/cmdline", encoding="utf-8") as file:
                words = file.read().rstrip("\0").split("\0")
            yield int(entry), words, "ferry-stub" in os.readlink(
                f"/proc/{entry}/exe")
        except (OSError, ValueError):
            continue


def catches(pid, number):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        for line in file:
            if line.startswith("SigCgt:"):
                return int(line.split()[1], 16) >> (number - 1) & 1
    return 0


def state(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return file.read().rpartition(")")[2].split()[0]


def stubs(mark):
    """Of tail, cat and sort, once all run at the proxy, one behind the other, and
    their stubs pass signals on; else []."""
    words = [WORDS[0] + [mark], *WORDS[1:]]
    found = [(pid, argv, is_stub) for pid, argv, is_stub in processes()
             if argv in words]
    try:
        group = [os.getpgid(pid) for pid, argv, is_stub in found
                 if is_stub and argv == words[0]]
        here = [pid for one in words for pid, argv, is_stub in found
                if is_stub and argv == one and [os.getpgid(pid)] == group]
        there = [pid for pid, argv, is_stub in found
                 if not is_stub and argv == words[0]]
        for one in words[1:]:
            there += [pid for pid, argv, is_stub in found
                      if there and not is_stub and argv == one and
                      os.readlink(f"/proc/{pid}/fd/0") ==
                      os.readlink(f"/proc/{there[-1]}/fd/1")]
        ready = len(here) == len(there) == 3 and all(
            catches(pid, signal.SIGINT) for pid in here)
        return here if ready else []
    except OSError:
        return []


def until(get, seconds=20):
    for _ in range(int(patient(seconds) * 50)):
        found = get()
        if found:
            return found
        time.sleep(0.02)
    return None


def to_all(pids):
    os.kill(pids[2], signal.SIGSTOP)
    until(lambda: state(pids[2]) == "T")
    os.killpg(os.getpgid(pids[0]), signal.SIGINT)
    time.sleep(0.3)  # a tenth of what the session's patience is
    os.kill(pids[2], signal.SIGCONT)


def to_the_first(pids):
    os.kill(pids[0], signal.SIGINT)


def run(top, folder, send, patience):
    """What a pipeline prints when its stages get signals like that; to a file of
    here, for which nothing has to be known of who reads it. None: they were not
    joined, as they need not be where nobody has time (`patience' seconds)."""
    private = tempfile.mkdtemp(dir=top)
    mark = os.path.basename(private)
    with open(os.path.join(folder, mark), "w", encoding="ascii") as file:
        file.write("b\na\nc\n")
    script = " | ".join(" ".join(one) for one in WORDS).replace(
        "-f", f"-f {mark}")
    process = pipes.start(
        ["bash", "-c", 'exec 9>"$1"; shift; exec "$@"', "x",
         os.path.join(private, "report"), pipes.DRIVE, pipes.STUB,
         pipes.COMMANDS, private,
         f"{folder}=loopback://{folder}{pipes.PROXY}", "--", "bash", "-c",
         f"set -m; {script} >{private}/out & wait -f %1"], folder)
    pids = until(lambda: stubs(mark) or process.poll() is not None, patience)
    joined = isinstance(pids, list)
    if joined:
        send(pids)
    else:
        pipes.kill_all()  # also the originals: tail would go on for ever
    err = pipes.finish(process)[1]
    if not joined:  # it may have been killed before it made a file
        return None, err, ""
    with open(os.path.join(private, "out"), "rb") as file:
        out = file.read()
    with open(os.path.join(private, "report"), encoding="utf-8") as file:
        rows = file.read()
    return out, err, rows


def main():
    # Whoever runs this in the background may have them ignored.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    top = tempfile.mkdtemp()
    folder = os.path.join(top, "mnt")
    pipes.prepare(folder)
    failed = 0
    rows = [("to all, and the last stub is slow", to_all, b""),
            ("to the first only", to_the_first, b"c\nb\na\n")]
    for number, (name, send, expected) in enumerate(rows, 1):
        for patience in (5, 5, 5, 10, 20, 40, 80):
            out, err, report = run(top, folder, send, patience)
            if out is not None:
                break
        good = out == expected
        failed += not good
        print(f"{'ok' if good else 'not ok'} {number} - {name}")
        if not good:
            print(f"# {out} {err}\n# " + report.replace("\n", "\n# "))
    print(f"1..{len(rows)}")
    shutil.rmtree(top)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
