#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A proxy that lies to the mount (liar.c): programs get errors and can be killed, the
mount does not crash, and goes away when it is told to.

  liar.py [-o OPTION] [LIE...]    OPTION: of the mount, such as async"""
import argparse
import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import mounts  # noqa: E402
import tap  # noqa: E402
from mounts import patient  # noqa: E402

LIAR = os.path.join(mounts.BUILD, "tests/files/liar")
PATIENCE_S = 4   # of a program on a proxy that is silent
KILLED_S = patient(60)    # until a killed one is gone
# Each in a process of its own: what they get is not judged, only that they end.
VICTIMS = [
    "ls -la {m}; ls -la {m}/d; cat {m}/f1 {m}/d/f2 {m}/l | head -c 100000",
    "find {m} -maxdepth 12 | head -n 2000; du -s {m}",
    "echo new >{m}/new; mkdir {m}/nd; mv {m}/new {m}/nd/moved; rm -rf {m}/nd",
    "dd if=/dev/zero of={m}/f1 bs=64k count=20 conv=fsync,notrunc; truncate -s 5 {m}/f1",
    "python3 -c 'import mmap;f=open(\"{m}/d/f3\",\"r+b\");m=mmap.mmap(f.fileno(),0);"
    "print(sum(m));m[0]=1;m.flush()'",
    "ls {m}/d; for i in 1 2 3 4 5; do echo $i >{m}/d/n$i; done; mv {m}/d/n1 {m}/d/n6; "
    "ls -i {m}/d; rm {m}/d/n2; echo x >>{m}/d/n3; cat {m}/d/n4",
    "stat {m}/none {m}/d/none; ln {m}/f1 {m}/hard; readlink {m}/l; chmod 600 {m}/f1",
    "cp -r {m}/d {m}/copy; getfattr -d {m}/f1; flock {m}/f1 true; df {m}",
]

# Lies that leave the connection up: no program waits for ever.
ANSWERED = ("never-whole", "rows", "names", "same-names", "late-renames")


def names():
    """The lies, as liar.c has them."""
    with open(os.path.join(mounts.HERE, "liar.c"), encoding="ascii") as f:
        return re.findall(r'^    \{"([a-z-]+)", \w+, \w+, \w+\},$', f.read(), re.M)


def fill(folder):
    """Something to lie about."""
    os.makedirs(folder + "/d")
    for name in ("f1", "d/f2", "d/f3"):
        with open(os.path.join(folder, name), "wb") as f:
            f.write(os.urandom(5000 if name != "d/f3" else 300000))
    os.symlink("d/f2", folder + "/l")


def gone(processes, seconds):
    """Kills them after so many seconds; those that had to be killed, and those that are still there."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and any(p.poll() is None for p in processes):
        time.sleep(0.02)
    late = [p for p in processes if p.poll() is None]
    for process in late: # another's group may have the number of one that has ended
        os.killpg(process.pid, signal.SIGKILL)
    until = time.monotonic() + KILLED_S
    while time.monotonic() < until and any(p.poll() is None for p in processes):
        time.sleep(0.02)
    return [p.args for p in late], [p.args for p in processes if p.poll() is None]


def told(lie, options):
    """One lie."""
    with tempfile.TemporaryDirectory(prefix="fyliar.", dir=os.environ.get("FILES_DIR")) as work:
        program = os.path.join(work, "liar." + lie)
        shutil.copy(LIAR, program)
        # As in a build tree: its annotations are those of the sources (tools/places.c).
        os.makedirs(work + "/tools")
        with open(work + "/tools/uninstalled", "w", encoding="utf-8") as f:
            f.write(mounts.SOURCE + "\n")
        with mounts.Mount("ferry", options, program=program) as mount:
            judged(lie, mount)


def exchanged(mount):
    """Both files of an exchange are written to afterwards."""
    paths = [mount.mnt + "/d/f2", mount.mnt + "/d/f3"]
    files = [os.open(path, os.O_RDWR) for path in paths]
    error = None
    try:
        if ctypes.CDLL(None).renameat2(-100, os.fsencode(paths[0]), -100, os.fsencode(paths[1]), 2):
            error = "renameat2"
        for fd, text in zip(files, (b"was f2", b"was f3")):
            os.pwrite(fd, text, 10)
            os.fsync(fd)
    except OSError as caught:
        error = caught
    for fd in files:
        os.close(fd)
    found = []
    for name in ("f3", "f2"):
        with open(mount.export + "/d/" + name, "rb") as file:
            found.append(file.read()[10:16])
    tap.ok("both files of an exchange are written to", error is None and
           found == [b"was f2", b"was f3"], "%s, %s" % (error, found))


def renamed(mount):
    """An open file is written to after its rename, also over another one and of a folder."""
    for old, new in (("d/f2", "d/f4"), ("d/f3", "d/f4"), ("d", "e")):
        path = "d/f4" if old == "d" else old
        fd = os.open(os.path.join(mount.mnt, path), os.O_RDWR)
        try:
            os.rename(os.path.join(mount.mnt, old), os.path.join(mount.mnt, new))
            os.pwrite(fd, b"written", 10)
            os.fsync(fd)
            error = None
        except OSError as caught:
            error = caught
        os.close(fd)
        path = os.path.join(mount.export, "e/f4" if old == "d" else new)
        with open(path, "rb") as file:
            written = file.read()[10:17]
        tap.ok("%s is written to after it became %s" % (old, new),
               error is None and written == b"written", "%s, %s" % (error, written))
    os.rename(mount.export + "/e", mount.export + "/d")


def judged(lie, mount):
    """What programs and the mount do with it."""
    fill(mount.export)
    if lie == "late-renames":
        exchanged(mount)
        renamed(mount)
    victims = [subprocess.Popen(["sh", "-c", text.format(m=mount.mnt)],
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL, start_new_session=True)
               for text in VICTIMS]
    late, stuck = gone(victims, patient(60) if lie in ANSWERED else PATIENCE_S)
    if lie in ANSWERED:
        tap.ok(lie + ": programs end by themselves", not late, late)
    tap.ok(lie + ": programs end or can be killed", not stuck, stuck)
    begin = time.monotonic()
    if mounts.mounted(mount.mnt):
        subprocess.run([os.path.join(mounts.BUILD, "ferry"), "umount", "--force", mount.mnt],
                       stdin=subprocess.DEVNULL, capture_output=True, timeout=patient(60), check=False)
    tap.ok(lie + ": the mount goes away", not mounts.mounted(mount.mnt),
           "still there after %.1f s" % (time.monotonic() - begin))
    try:
        status = mount.process.wait(patient(60))
    except subprocess.TimeoutExpired:
        status = "it goes on"
    tap.ok(lie + ": the mount does not crash",
           isinstance(status, int) and 0 <= status < 126 and "Sanitizer" not in mount.said(),
           "%s\n%s" % (status, mount.said()))


def killed():
    """A holder of locks ends when it is killed, also while the server says nothing."""
    with mounts.Mount("ferry") as mount:
        fill(mount.export)
        process = subprocess.Popen(
            [sys.executable, "-c", "import fcntl, sys, time; f = open(sys.argv[1], 'r+b'); "
             "fcntl.lockf(f, fcntl.LOCK_EX); print(1, flush=True); time.sleep(100)",
             mount.mnt + "/f1"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        process.stdout.readline()
        stopped = mounts.children(mount.process.pid)
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        process.kill()
        try:
            process.wait(KILLED_S)
            ends = True
        except subprocess.TimeoutExpired:
            ends = False
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
        process.wait(60)
        process.stdout.close()
        tap.ok("a holder of locks is killed while the server is stopped", ends)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", action="append", default=[], dest="options")
    parser.add_argument("lies", nargs="*")
    given = parser.parse_args()
    lies = given.lies or names()
    reason = mounts.why_not("ferry")
    for lie in lies:
        if reason:
            tap.skip(lie, reason)
        else:
            told(lie, given.options)
    if not reason:
        killed()
    tap.finish()


if __name__ == "__main__":
    main()
