#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A stage that is killed at the proxy while another reads it there: the reader
sees an end of input that is none, and may have ended before the proxy hears what
became of the first. A tracer makes that long: the proxy gets to know of a death
only when it lets go. Prints TAP."""
import ctypes
import os
import shutil
import signal
import sys
import tempfile
import time

import pipes
from pipes import patient

SEIZE, DETACH = 0x4206, 17


def trace(request, pid):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long] * 2 + [ctypes.c_void_p] * 2
    return libc.ptrace(request, pid, None, None)


def until(get):
    """Waits for what get() finds, and returns it; 0 if it does not come."""
    end = time.monotonic() + patient(60)
    while time.monotonic() < end:
        found = get()
        if found:
            return found
        time.sleep(0.01)
    return 0


def words_of(pid):
    """The words of a process that is no stub."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().split(b"\0")[:-1]
        return words if "ferry" not in os.readlink(f"/proc/{pid}/exe") else []
    except OSError:
        return []


def find(argv):
    """The process of these words that is no stub."""
    return until(lambda: next((int(pid) for pid in os.listdir("/proc")
                               if pid.isdigit() and words_of(pid) == argv), 0))


def reader_of(pid):
    """The process that reads what another one writes."""
    try:
        pipe = os.readlink(f"/proc/{pid}/fd/1")
        return next((one for one in os.listdir("/proc") if one.isdigit() and
                     words_of(one) == [b"wc", b"-l"] and
                     os.readlink(f"/proc/{one}/fd/0") == pipe), 0)
    except OSError:
        return 0


def written(pid):
    """The bytes that a process has written."""
    try:
        with open(f"/proc/{pid}/io", encoding="ascii") as file:
            return int(file.read().split("wchar: ")[1].split()[0])
    except OSError:
        return 0


def main():
    top = tempfile.mkdtemp()
    folder = os.path.join(top, "mnt")
    pipes.prepare(folder)
    private = tempfile.mkdtemp(dir=top)
    mark = str(os.getpid())
    os.rename(os.path.join(folder, "n"), os.path.join(folder, mark))
    script = f"tail -n 9 -f {mark} | wc -l; echo ${{PIPESTATUS[*]}}"
    argv = [b"tail", b"-n", b"9", b"-f", mark.encode()]
    process = pipes.start(
        ["bash", "-c", 'exec 9>"$1"; shift; exec "$@"', "x",
         os.path.join(private, "report"), pipes.DRIVE, pipes.STUB,
         pipes.COMMANDS, private,
         f"{folder}=loopback://{folder}{pipes.PROXY}", "--", "bash", "-c",
         script], folder)
    pid = find(argv)
    if not pid or trace(SEIZE, pid) != 0:
        pipes.kill_all()
        pipes.finish(process)
        shutil.rmtree(top)
        print("1..0 # SKIP processes cannot be traced")
        return 0
    reader = until(lambda: reader_of(pid))
    os.kill(pid, signal.SIGKILL)
    until(lambda: reader and not words_of(reader))  # it has ended
    first = select_bytes(process)
    os.waitpid(pid, 0)  # and now the proxy hears of it
    pid = find(argv)  # the original
    if pid:
        until(lambda: written(pid))
        os.kill(pid, signal.SIGTERM)
    out, err, _ = pipes.finish(process)
    with open(os.path.join(private, "report"), encoding="utf-8") as file:
        rows = file.read()
    shutil.rmtree(top)
    good = first == b"" and out.split() == [b"9", b"143", b"0"]
    print(f"{'ok' if good else 'not ok'} 1 - a killed stage, and what read it")
    if not good:
        print(f"# {first} {out} {err}\n# " + rows.replace("\n", "\n# "))
    print("1..1")
    return 0 if good else 1


def select_bytes(process):
    os.set_blocking(process.stdout.fileno(), False)
    text = process.stdout.read() or b""
    os.set_blocking(process.stdout.fileno(), True)
    return text


sys.exit(main())
