#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A program that cannot run when the kernel has the answer to its call, while the storage
changes what the answer was about: what it asks then is the storage's. Its processor is
taken by a loop of a higher class for that time. And changes of a file by the mount just behind
the storage's write: their answers come before the notice of that write, which the attributes in
them have already. Prints TAP."""
import os
import signal
import subprocess
import sys
import tempfile
import time

import mounts
import tap

TAKEN_S = 0.4    # the kernel gives the processor back after 0.95
LOOP = """
import os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(20))
print("begun", flush=True)
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    pass
"""
# Does what a line says, and prints what it sees. What a file holds is read last: that
# may bring its attributes.
PROGRAM = """
import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
def told(how, path):
    if how == "list":
        return sorted(os.listdir(os.path.dirname(path)))
    if how == "open":
        with open(path) as file:
            return file.read()
    about = os.stat(path)
    return (about.st_mode, about.st_size, about.st_mtime_ns)
for line in sys.stdin:
    try:
        print(repr(told(*line.split())), flush=True)
    except OSError as error:
        print(error.errno, flush=True)
"""


def put(path, text, mode="w"):
    with open(path, mode, encoding="ascii") as file:
        file.write(text)


def replace(path):
    put(path + ".new", "another\n")
    os.rename(path + ".new", path)


CHANGES = {
    "written": lambda path: put(path, "longer than before\n"),
    "as long": lambda path: put(path, "now\n"),
    "appended": lambda path: put(path, "more\n", "a"),
    "of another mode": lambda path: os.chmod(path, 0o600),
    "replaced": replace,
    "removed": os.unlink,
    "a folder": lambda path: (os.unlink(path), os.mkdir(path), put(path + "/x", "")),
    "made": lambda path: put(path, "made\n"),
}
CASES = [(how, name) for how in ("stat", "open", "list") for name in CHANGES
         if name != "made" or how != "open"]


def run(script, processor, *words):
    return subprocess.Popen([sys.executable, "-c", script, str(processor), *words], text=True,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def tell(program, line):
    program.stdin.write(line + "\n")
    program.stdin.flush()


def told(program, line):
    tell(program, line)
    return program.stdout.readline().strip()


def case(mount, number, how, change, processor):
    there = os.path.join(mount.export, "d%d" % number)
    here = os.path.join(mount.mnt, "d%d" % number)
    os.mkdir(there)
    if change != "made":
        put(there + "/f", "old\n")
    late, plain = run(PROGRAM, processor), run(PROGRAM, processor)
    for _ in range(10):  # until no more is asked about the folder and what is above
        told(late, "stat " + here)
        time.sleep(0.02)
    stopped = mount.pids("ferry-mount")
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    tell(late, "%s %s/f" % (how, here))
    time.sleep(0.1)  # it waits for the answer
    loop = run(LOOP, processor, str(TAKEN_S))
    loop.stdout.readline()
    for pid in stopped:
        os.kill(pid, signal.SIGCONT)
    time.sleep(TAKEN_S / 3)
    CHANGES[change](there + "/f")
    loop.wait()
    late.stdout.readline()
    got = wanted = None
    for what in ("stat", "list", "open"):
        wanted = told(plain, "%s %s/f" % (what, there))
        until = time.monotonic() + mounts.SEEN_S
        while (got := told(late, "%s %s/f" % (what, here))) != wanted and \
                time.monotonic() < until:
            time.sleep(0.05)
        if got != wanted:
            break
    tap.ok("%s, %s meanwhile" % (how, change), got == wanted,
           "%s: here %s, at the storage %s" % (what, got, wanted))
    late.communicate()
    plain.communicate()


def by_descriptor(act):
    def change(path):
        fd = os.open(path, os.O_RDWR)
        act(fd)
        os.close(fd)
    return change


# Each once a file, and what the first bytes are then.
OWN = {
    "nothing": lambda path: None, "chmod": lambda path: os.chmod(path, 0o600),
    "utime": lambda path: os.utime(path, (1000, 1000)),
    "rename": lambda path: os.rename(path, path + "-") or os.rename(path + "-", path),
    "link": lambda path: os.link(path, path + "-"), "fsync": by_descriptor(os.fsync),
    "write": by_descriptor(lambda fd: os.pwrite(fd, b"c", 5000)),
    "truncate": lambda path: os.truncate(path, 8000),
    "truncate to the same": lambda path: os.truncate(path, 8192),
    "allocate": by_descriptor(lambda fd: os.posix_fallocate(fd, 0, 8192)),
    "setxattr": lambda path: os.setxattr(path, "user.n", b"x"),
}


def behind(mount, what):
    """The storage's write is seen, whatever the mount does with the file just behind it."""
    seen = True
    for number in range(12):
        name = "%s %d" % (what, number)
        here, there = os.path.join(mount.mnt, name), os.path.join(mount.export, name)
        put(here, "a" * 8192)
        with open(here, encoding="ascii") as file:
            file.read()
        with open(there, "r+b", buffering=0) as file:
            file.write(b"b" * 100)
            OWN[what](here)
        until = time.monotonic() + mounts.SEEN_S
        seen = False
        while not seen and time.monotonic() < until:
            with open(here, encoding="ascii") as file:
                seen = file.read(100) == "b" * 100
        if not seen:
            break
    tap.ok("a write at the storage, then here: %s" % what, seen, "file %d" % number)


def twice(mount):
    """Two writes at the storage that have the same times, one read between them."""
    wrong, same = [], 0
    for number in range(400):
        here, there = (os.path.join(root, "t%d" % number) for root in (mount.mnt, mount.export))
        put(there, "a" * 100)
        os.utime(there, (1, 1))  # the first write is seen by it
        mount.control("barrier")
        os.stat(here)
        with open(there, "r+b", buffering=0) as file:
            os.pwrite(file.fileno(), b"b" * 100, 0)
            time.sleep(0.001)
            with open(here, "rb") as seen:
                seen.read()
            first = os.stat(there).st_mtime_ns
            os.pwrite(file.fileno(), b"c" * 100, 0)
            same += os.stat(there).st_mtime_ns == first
        mount.control("barrier")
        until = time.monotonic() + mounts.SEEN_S
        text = b""
        while text != b"c" * 100 and time.monotonic() < until:
            with open(here, "rb") as file:
                text = file.read()
        if text != b"c" * 100:
            wrong.append(number)
        if wrong or same == 10:
            break
    tap.ok("two writes of one time at the storage", not wrong and same > 0, (wrong, same))


def on_ramfs():
    """A file system whose times are as coarse as the kernel's tick, as all are before Linux 6.13."""
    folder = tempfile.mkdtemp(prefix="fyramfs.")
    if subprocess.run(["mount", "-t", "ramfs", "none", folder], check=False).returncode == 0:
        try:
            with mounts.Mount(folder=folder + "/m") as mount:
                twice(mount)
                for what in OWN:
                    if what != "setxattr":  # ramfs has none
                        behind(mount, what)
        finally:
            subprocess.run(["umount", "-l", folder], check=False)
    else:
        tap.skip("two writes of one time at the storage", "no ramfs")
    os.rmdir(folder)


def main():
    if not mounts.why_not("ferry"):
        with mounts.Mount() as mount:
            for what in OWN:
                behind(mount, what)
        on_ramfs()
    processors = sorted(os.sched_getaffinity(0))
    reason = mounts.why_not("ferry")
    if not reason and len(processors) < 2:
        reason = "one processor"
    if not reason:
        loop = run(LOOP, processors[0], "0")
        reason = "no real-time scheduling" if loop.communicate()[0] == "" else None
    if reason:
        tap.skip("a program that is late", reason)
        tap.finish()
    os.sched_setaffinity(0, set(processors[1:]))
    with mounts.Mount() as mount:
        for number, (how, change) in enumerate(CASES):
            case(mount, number, how, change, processors[0])
    tap.finish()


if __name__ == "__main__":
    main()
