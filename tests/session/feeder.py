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

SEIZE, DETACH = 0x4206, 17


def trace(request, pid):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long] * 2 + [ctypes.c_void_p] * 2
    return libc.ptrace(request, pid, None, None)


def find(argv):
    """The process of these words that is no stub."""
    for _ in range(500):
        for entry in os.listdir("/proc"):
            try:
                with open(f"/proc/{entry}/cmdline", "rb") as file:
                    words = file.read().split(b"\0")[:-1]
                name = os.readlink(f"/proc/{entry}/exe")
            except OSError:
                continue
            if words == argv and "ferry" not in name:
                return int(entry)
        time.sleep(0.01)
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
    time.sleep(0.5)  # both have been joined
    os.kill(pid, signal.SIGKILL)
    time.sleep(0.7)  # the reader has ended
    first = select_bytes(process)
    os.waitpid(pid, 0)  # and now the proxy hears of it
    pid = find(argv)  # the original
    time.sleep(0.3)
    if pid:
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
