#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The line that `ferry run' shows on a terminal while it copies files of `ferry mount' for long:
it comes, it goes, and a run without a terminal, or of another command, has none. TAP.
"""
import os
import pty
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import mounts  # noqa: E402
import tap  # noqa: E402

# Reads on and on until the second file is there, or so many seconds.
COPY = """#!/usr/bin/python3
import os, sys, time
until = time.monotonic() + float(sys.argv[3])
with open(sys.argv[1], "rb", buffering=0) as f:
    while not os.path.exists(sys.argv[2]) and time.monotonic() < until:
        f.read(1 << 20)
        time.sleep(0.05)
sys.exit(7)
"""


def command(mount, name, seconds, *options):
    path = os.path.join(mount.folder, name)
    with open(path, "w", encoding="ascii") as f:
        f.write(COPY)
    os.chmod(path, 0o755)
    return [os.path.join(mounts.BUILD, "ferry"), "run", "--device", "none", "--", path,
            mount.mnt + "/large", mount.folder + "/stop", str(seconds), *options]


def on_terminal(mount, argv, word):
    """What it writes on a terminal; it is told to end once the word has come."""
    pid, master = pty.fork()
    if pid == 0:
        os.execv(argv[0], argv)
    text = b""
    try:
        while part := os.read(master, 4096):
            text += part
            if word in text:
                with open(mount.folder + "/stop", "w", encoding="ascii"):
                    pass
    except OSError:
        pass
    os.close(master)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), text


def main():
    reason = mounts.why_not("ferry")
    if reason:
        tap.skip("the status line", reason)
        tap.finish()
    with mounts.Mount() as mount:
        with open(mount.export + "/large", "wb") as f:
            f.truncate(64 << 30)
        status, text = on_terminal(mount, command(mount, "cp", mounts.SEEN_S), b"MiB/s")
        tap.ok("a long copy has a line", status == 7 and b"\rcp: " in text, (status, text))
        tap.ok("which goes at the end", text.endswith(b"\r\x1b[K"), text)
        os.unlink(mount.folder + "/stop")
        for name, options in ("other", ()), ("mv", ("-v",)):
            status, text = on_terminal(mount, command(mount, name, 3.2, *options), b"MiB/s")
            tap.ok("%s has none" % " ".join([name, *options]), (status, text) == (7, b""), text)
        start = time.monotonic()
        done = subprocess.run(command(mount, "cp", 3.2), capture_output=True, check=False)
        tap.ok("nor has a copy without a terminal", done.returncode == 7 and done.stderr == b"" and
               time.monotonic() - start > 3, done)
    tap.finish()


if __name__ == "__main__":
    main()
