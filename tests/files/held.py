#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A file that is open on the mount goes on when programs of the storage remove its name or
give it to another file, as on a plain folder, and the storage gets its descriptors back.
TAP."""
import os
import shutil
import signal
import subprocess
import sys
import time

import mounts
import tap
from mounts import patient

HELD_S = patient(0.5)  # a file that is open so long is held
OLD = b"the old contents of the file\n" * 800
# Opens the file as the second word says, waits for a line, and says what it finds.
PROGRAM = r'''
import errno, fcntl, mmap, os, sys
path, how = sys.argv[1:3]
flags = {"read": os.O_RDONLY, "unread": os.O_RDONLY, "write": os.O_WRONLY | os.O_APPEND,
         "mapped": os.O_RDWR, "locked": os.O_RDWR}.get(how, os.O_RDWR)
fd = os.open(path, flags)
if how == "read":
    os.pread(fd, 100000, 0)
elif how == "written":
    os.pwrite(fd, b"mine", 0)
elif how == "locked":
    fcntl.lockf(fd, fcntl.LOCK_EX)
elif how == "mapped":
    view = mmap.mmap(fd, 8192)
    os.close(fd)
print("open", flush=True)
for line in sys.stdin:
    found = []
    for deed in (lambda: os.fstat(fd).st_nlink, lambda: os.fstat(fd).st_size,
                 lambda: os.pread(fd, 60, 10), lambda: len(os.pread(fd, 100000, 0)),
                 lambda: os.write(fd, b"new end"), lambda: os.pwrite(fd, b"middle", 5000),
                 lambda: os.pread(fd, 20, 4990), lambda: os.ftruncate(fd, 7000),
                 lambda: os.fstat(fd).st_size, lambda: os.fchmod(fd, 0o604),
                 lambda: oct(os.fstat(fd).st_mode), lambda: os.fsync(fd),
                 lambda: fcntl.lockf(fd, fcntl.LOCK_UN) if how == "locked" else None,
                 lambda: os.close(fd)):
        if how == "mapped":
            view[5000:5006] = b"middle"
            view.flush()
            found = [view[10:60], view[4990:5010]]
            break
        try:
            found.append(deed())
        except OSError as error:
            found.append(errno.errorcode[error.errno])
    print(found, flush=True)
    break
'''
HOW = ("read", "unread", "write", "written", "mapped", "locked")


def put(path, text):
    with open(path, "wb") as file:
        file.write(text)


def replaced(path):
    put(path + ".new", b"another\n" * 2000)
    os.rename(path + ".new", path)


def again(path):
    os.unlink(path)
    put(path, b"another\n" * 2000)


def moved(path):
    os.rename(path, path + ".away")
    os.unlink(path + ".away")


def one_of_two(path):
    os.link(path, path + ".second")
    os.unlink(path)


GOES = {
    "unlinked": os.unlink,
    "replaced": replaced,
    "made again": again,
    "renamed": lambda path: os.rename(path, path + ".away"),
    "renamed and unlinked": moved,
    "linked and unlinked": one_of_two,
    "gone with its folder": lambda path: shutil.rmtree(os.path.dirname(path)),
}


def start(*words):
    run = subprocess.Popen([sys.executable, "-c", PROGRAM, *words], text=True,
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    run.stdout.readline()
    return run


def looks(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        return error.errno


def wait_for(path):
    until = time.monotonic() + mounts.SEEN_S
    while not os.path.exists(path) and time.monotonic() < until:
        time.sleep(0.01)


def descriptors(mount):
    """What the process next to the files has open below the mount's folder."""
    found = []
    folder = "/proc/%d/fd" % server(mount)
    for fd in os.listdir(folder):
        try:
            found.append(os.readlink(os.path.join(folder, fd)))
        except FileNotFoundError:
            pass
    return sorted(path for path in found if path.startswith(mount.export + "/"))


def server(mount):
    return [pid for pid in mount.pids("ferry") if "--stdio" in mounts.command_of(pid)][-1]


def all_ways(mount, killed):
    """Every way to open, every way to go; `killed': another process serves meanwhile."""
    rows = []
    for number, (how, goes) in enumerate((how, goes) for how in HOW for goes in GOES):
        name = "%s%d/f" % ("k" if killed else "d", number)
        for top in (mount.plain, mount.export):
            os.mkdir(os.path.dirname(os.path.join(top, name)))
            put(os.path.join(top, name), OLD)
        rows.append((how, goes, name))
    runs = []
    for how, _, name in rows:
        wait_for(os.path.join(mount.mnt, name))
        runs.append((start(os.path.join(mount.plain, name), how),
                     start(os.path.join(mount.mnt, name), how)))
    time.sleep(HELD_S)
    if killed:
        os.kill(server(mount), signal.SIGKILL)
        for _, _, name in rows[:3]:
            looks(os.path.join(mount.mnt, name))
        time.sleep(HELD_S)
    for _, goes, name in rows:
        for top in (mount.plain, mount.export):
            GOES[goes](os.path.join(top, name))
    for (how, goes, name), pair in zip(rows, runs):
        until = time.monotonic() + mounts.SEEN_S
        here, there = (os.path.join(top, name) for top in (mount.mnt, mount.export))
        while looks(here) != looks(there) and time.monotonic() < until:
            time.sleep(0.01)
        wanted, got = (run.communicate("go\n")[0] for run in pair)
        if killed and how == "locked":  # the lock went with the process, and that is told
            got = got.replace("'EIO'", "None")
        tap.ok("%s, %s%s" % (how, goes, ", another process" if killed else ""),
               got == wanted and looks(here) == looks(there),
               "plain %s\nmount %s\n%s %s" % (wanted, got, looks(here), looks(there)))


def given_back(mount):
    until = time.monotonic() + mounts.SEEN_S
    while descriptors(mount) and time.monotonic() < until:
        time.sleep(0.1)
    tap.ok("nothing is held any more", not descriptors(mount), descriptors(mount))


def many(mount):
    """More files than the storage holds: what it does not hold is found by its name."""
    os.mkdir(mount.export + "/many")
    for i in range(3000):
        put(mount.export + "/many/%d" % i, b"%d" % i)
    wait_for(mount.mnt + "/many/2999")
    files = [open(mount.mnt + "/many/%d" % i, "rb") for i in range(3000)]
    time.sleep(HELD_S)
    good = all(file.read() == b"%d" % i for i, file in enumerate(files))
    for file in files:
        file.close()
    tap.ok("3,000 open files", good)


def run_there(mount):
    """A program that was written here and runs here can be run at the storage."""
    shutil.copy("/bin/sleep", mount.mnt + "/sleep")
    run = subprocess.Popen([mount.mnt + "/sleep", str(5 + HELD_S)])
    time.sleep(HELD_S)
    done = subprocess.run([mount.export + "/sleep", "0"], check=False)
    os.unlink(mount.export + "/sleep")
    ended = run.wait()
    tap.ok("a program runs on both sides", done.returncode == ended == 0,
           "%s %s" % (done.returncode, ended))


def main():
    reason = mounts.why_not("ferry")
    if reason:
        tap.skip("held files", reason)
        tap.finish()
    with mounts.Mount() as mount:
        all_ways(mount, False)
        given_back(mount)
        run_there(mount)
        many(mount)
        given_back(mount)
        all_ways(mount, True)
    tap.finish()


if __name__ == "__main__":
    main()
