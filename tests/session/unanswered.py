#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A proxy that is stopped while a command runs: the first signal that ends a command ends
it here within seconds, also one of a pipeline, and a second signal at once. Prints TAP."""
import os
import signal
import subprocess
import sys
import tempfile
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
from patience import patient  # noqa: E402

FERRY = os.path.join(os.environ.get("FERRY_BUILDDIR", "."), "ferry")
SECONDS = patient(60)
# name, shell command, the signals, the status that a shell shows
CASES = [
    ("SIGINT", "exec wc -l f", [signal.SIGINT], -signal.SIGINT),
    ("SIGTERM", "exec wc -l f", [signal.SIGTERM], -signal.SIGTERM),
    ("SIGTERM and SIGINT", "exec wc -l f", [signal.SIGTERM, signal.SIGINT], -signal.SIGTERM),
    ("SIGINT of a pipeline", "cat f | tr a b | wc -l", [signal.SIGINT], -signal.SIGINT),
]


def processes():
    """Process number -> (parent, words)."""
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="ascii", errors="replace") as file:
                parent = int(file.read().rsplit(")", 1)[1].split()[1])
            with open(f"/proc/{name}/cmdline", "rb") as file:
                found[int(name)] = parent, file.read().decode(errors="replace").split("\0")
        except OSError:
            pass
    return found


def below(root):
    """The processes below one, with their words."""
    known = processes()
    mine, grown = {root}, True
    while grown:
        more = {pid for pid, (parent, _) in known.items() if parent in mine} - mine
        mine |= more
        grown = bool(more)
    return {pid: known[pid][1] for pid in mine if pid in known}


def event(condition):
    """Waits for it; its value."""
    end = time.monotonic() + SECONDS
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


def one(script, numbers):
    """The status, and the seconds from the first signal to the end."""
    with tempfile.TemporaryDirectory(prefix="ferry-unanswered-") as folder:
        with open(os.path.join(folder, "f"), "wb") as file:
            file.truncate(1 << 40)  # holes, which take minutes to read
        run = subprocess.Popen(  # pylint: disable=consider-using-with
            [FERRY, "run", "--no-discover", "--force", "--mount",
             f"{folder}=loopback://{folder}", "--", "sh", "-c", script],
            cwd=folder, stdout=subprocess.DEVNULL, start_new_session=True)
        proxies = []
        try:
            proxies = event(lambda: [
                pid for pid, words in below(run.pid).items() if "--stdio" in words and
                any("--stdio" not in of[1:] and of[0] in ("wc", "/usr/bin/wc")
                    for of in below(pid).values())])
            if not proxies:
                return "no stage runs", 0
            for pid in proxies:
                os.kill(pid, signal.SIGSTOP)
            began = time.monotonic()
            for number in numbers:
                os.killpg(run.pid, number)
                time.sleep(0.5)
            status = run.wait(SECONDS)
            taken = time.monotonic() - began
        except subprocess.TimeoutExpired:
            status, taken = "does not end", SECONDS
        finally:
            # What is stopped outlives the run.
            for pid in {*below(run.pid), *(each for pid in proxies for each in below(pid))}:
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass
            run.wait()
        return status, taken


def main():
    """Runs the cases."""
    failed = 0
    for number, (name, script, numbers, wanted) in enumerate(CASES, 1):
        status, taken = one(script, numbers)
        good = status == wanted and taken < patient(15)
        failed += not good
        print("%sok %d - %s" % ("" if good else "not ", number, name))
        if not good:
            print("# status %s after %.1f s, %s expected" % (status, taken, wanted))
    print("1..%d" % len(CASES))
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
