#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each signal to a command that runs at a proxy has the effect and the exit status
that it has without ferry, and leaves no process there. Prints TAP."""
import fcntl
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import termios
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
from patience import patient  # noqa: E402

BUILD = os.environ.get("FERRY_BUILDDIR", ".")
FERRY = os.path.join(BUILD, "ferry")
STOPS = (signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
IGNORED = 0  # SIGPIPE to a command that ignores it: tee -p
GO_ON = (IGNORED, signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH)
# 32 and 33 are glibc's own.
NUMBERS = [n for n in range(65) if n not in (32, 33)]
AT_ONCE = 31
UNREAD = ("stdout", "stderr")
MISSING = 800  # names whose complaints fill a pipe, and the stub's window
PIPE_BYTES = 65536
FILE_BYTES = 1 << 22
SECONDS = patient(60)


def left(names):
    """Those of the files that processes still have in their command lines."""
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                found.update(file.read().decode(errors="replace").split("\0"))
        except OSError:
            pass
    return found.intersection(names)


def state(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rsplit(")", 1)[1].split()[0]
    except OSError:
        return "gone"


def wait_for(condition):
    end = time.monotonic() + SECONDS
    while not condition() and time.monotonic() < end:
        time.sleep(0.005)
    return condition()


def effect(number, command, out):
    """Its end or stop, or how much is written by one that goes on."""
    stop = number in STOPS
    ends = number not in GO_ON
    if stop:
        stopped = wait_for(lambda: state(command.pid) == "T")
        command.send_signal(signal.SIGCONT)
        ends = False
    if ends:
        try:
            return f"status {command.wait(SECONDS)}"
        except subprocess.TimeoutExpired:
            return "does not end"
    with os.fdopen(out, "rb", closefd=False) as file:
        count = PIPE_BYTES
        while count:
            count = len(file.read(PIPE_BYTES))
            effect.total += count
    total, effect.total = effect.total, 0
    return (f"{'stopped ' if stop and stopped else ''}{total} bytes, "
            f"status {command.wait(SECONDS)}")


effect.total = 0


def start(number, name, unread):
    """A command in the middle of its output, or one that waits for the reader of
    its complaints alone: at the proxy that one has ended."""
    ours, theirs = os.pipe()
    argv = ["cat", name] if number else ["tee", "-p"]
    if unread == "stderr":
        argv[1 + (not number):] = [f"{name}.d/{i:060}" for i in range(MISSING)]
    with open(name, "rb") as file:
        # pylint: disable=consider-using-with
        command = subprocess.Popen(
            argv, stdin=file, preexec_fn=lambda: os.setpgid(0, 0),
            stdout=theirs if unread == "stdout" else subprocess.DEVNULL,
            stderr=theirs if unread == "stderr" else None)
    os.close(theirs)
    return number, ours, command


def none_writes(outs):
    """Waits until no pipe has got more for a second."""
    held, since = None, 0
    while held is None or time.monotonic() - since < patient(1):
        now = [fcntl.ioctl(out, termios.FIONREAD, bytes(4)) for out in outs]
        if now != held:
            held, since = now, time.monotonic()
        time.sleep(0.02)


def child(names):
    """All commands wait for their readers when the signals come."""
    for unread, first in itertools.product(UNREAD, range(0, len(NUMBERS), AT_ONCE)):
        rows = [start(number, names[number], unread)
                for number in NUMBERS[first:first + AT_ONCE]]
        for number, out, command in rows:
            assert len(os.read(out, 1)) == 1  # it runs
        if unread == "stderr":
            none_writes([out for _, out, _ in rows])
        for number, out, command in rows:
            command.send_signal(number or signal.SIGPIPE)
        for number, out, command in rows:
            said = effect(number, command, out)
            command.kill()
            print(f"{unread} unread, {number}: {said}", flush=True)
            os.close(out)
        wait_for(lambda: not left(names.values()))
        for name in left(names.values()):
            print(f"{name} is left at the proxy", flush=True)


def main():
    # Whoever runs this in the background may have them ignored.
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    with tempfile.TemporaryDirectory() as top:
        data, report = os.path.join(top, "data"), os.path.join(top, "report")
        os.mkdir(data)
        with open(os.path.join(data, "f"), "wb") as file:
            file.write(b"x" * FILE_BYTES)
        for number in NUMBERS:
            os.link(os.path.join(data, "f"), os.path.join(data, f"f{number}"))
        argv = [sys.executable, os.path.abspath(__file__), data]
        environment = dict(os.environ, HOME=top, XDG_CONFIG_HOME=top,
                           XDG_CACHE_HOME=top, LC_ALL="C")
        plain = subprocess.run(argv, env=environment, stdout=subprocess.PIPE,
                               check=False, timeout=patient(600))
        far = subprocess.run(
            [FERRY, "run", "--no-discover", "--force", "--device", "none",
             "--report=" + report, "--mount", f"{data}=loopback://{data}",
             "--"] + argv, env=environment, stdout=subprocess.PIPE,
            check=False, timeout=patient(600))
        with open(report, encoding="utf-8") as file:
            placed = sum(1 for stage in json.load(file)["stages"]
                         if not stage.get("declined"))
    wanted, found = plain.stdout.decode(), far.stdout.decode()
    rows = list(zip(wanted.splitlines(), found.splitlines()))
    cases = list(itertools.product(UNREAD, NUMBERS))
    print(f"1..{len(cases) + 1}")
    for i, (unread, number) in enumerate(cases):
        row = rows[i] if i < len(rows) else ("nothing", "no line")
        print(f"{'ok' if row[0] == row[1] else 'not ok'} {i + 1} - "
              f"signal {number}, {unread} unread")
        if row[0] != row[1]:
            print(f"# {row[1]}, without ferry {row[0]}")
    every = placed == len(cases)
    print(f"{'ok' if every else 'not ok'} {len(cases) + 1} - all ran at the proxy")
    if not every:
        print(f"# {placed} of {len(cases)}")
    bad = not every or wanted != found
    return 1 if bad or plain.returncode or far.returncode else 0


if __name__ == "__main__":
    if len(sys.argv) > 1:
        child({n: os.path.join(sys.argv[1], f"f{n}") for n in NUMBERS})
    else:
        sys.exit(main())
