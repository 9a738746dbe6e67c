#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A storage without room, and one with more than usual: a full disk, a quota, no inodes left,
writes that a killed mount has lost, sparse files of 8 TiB, a folder of very many files. And a
clock that jumps.

  room.py [--full]   a million files instead of 30,000"""
import argparse
import errno
import os
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

MIB = 1 << 20
MEMORY_MIB = 400 # of ferry-mount, a million files known


def error_of(deed):
    """The name of the errno with which it fails, or ""."""
    try:
        deed()
    except OSError as e:
        return errno.errorcode[e.errno]
    return ""


def put(path, data, flags=0):
    """Writes, fsyncs and closes; all of that may fail."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | flags, 0o644)
    try:
        for at in range(0, len(data), 64 << 10):
            os.write(fd, data[at:at + (64 << 10)])
        os.fsync(fd)
    finally:
        os.close(fd)


def get(path):
    """Its contents."""
    with open(path, "rb") as f:
        return f.read()


class Small:
    """A mount whose storage is a small file system of its own."""

    def __init__(self, how, options=()):
        self.how, self.options = how, options
        self.folder = tempfile.mkdtemp(prefix="fyroom.")

    def __enter__(self):
        os.mkdir(self.folder + "/export")
        subprocess.run(["mount", "-t", "tmpfs", "-o", self.how, "none", self.folder + "/export"],
                       check=True)
        self.mount = mounts.Mount("ferry", self.options, folder=self.folder)
        return self.mount.__enter__()

    def __exit__(self, *_):
        self.mount.__exit__()
        subprocess.run(["umount", "-l", self.folder + "/export"], check=False)
        subprocess.run(["rm", "-rf", "--one-file-system", self.folder], check=False)


def full_disk(options):
    """What was told to be written is; what does not fit fails with ENOSPC, once and there."""
    name = "a full disk%s: " % "".join(", -o " + option for option in options)
    with Small("size=4m", options) as mount:
        first, second = os.urandom(3 * MIB), os.urandom(3 * MIB)
        a, b = mount.mnt + "/a", mount.mnt + "/b"
        put(a, first)
        error = error_of(lambda: put(b, second))
        tap.ok(name + "a file that does not fit", error == "ENOSPC", error)
        tap.ok(name + "the file before it", get(a) == first == get(mount.export + "/a"))
        size = os.stat(mount.export + "/b").st_size
        tap.ok(name + "both sides see one size", os.stat(b).st_size == size and
               get(b) == get(mount.export + "/b"), (os.stat(b).st_size, size))
        error = error_of(lambda: put(a, first[:100], os.O_APPEND))
        fd = os.open(b, os.O_WRONLY)
        error += error_of(lambda: os.posix_fallocate(fd, 0, 3 * MIB))
        os.close(fd)
        tap.ok(name + "append, fallocate", error == "ENOSPCENOSPC", error)
        os.unlink(a)
        error = error_of(lambda: put(b, second))
        tap.ok(name + "room again", not error and get(b) == second ==
               get(mount.export + "/b"), error)
        put(a, second[:1000])
        with open(a, "r+b", buffering=0) as f: # what is there can be overwritten
            f.write(b"12345")
            os.fsync(f.fileno())
        tap.ok(name + "the next file", get(mount.export + "/a") == b"12345" + second[5:1000])


def odd(variable, value):
    """Variables for both sides: tests/files/odd.c."""
    return {"LD_PRELOAD": os.path.join(mounts.BUILD, "tests/files/.libs/odd.so"), variable: value}


def quota(options):
    """As with a full disk; what fits stays, and the mount goes on."""
    name = "a quota%s: " % "".join(", -o " + option for option in options)
    with mounts.Mount("ferry", options, more=odd("ODD_QUOTA", str(MIB))) as mount:
        first = os.urandom(MIB - 100)
        a, b = mount.mnt + "/a", mount.mnt + "/b"
        put(a, first)
        errors = [error_of(lambda: put(b, first)), error_of(lambda: put(b, b"1" * 200))]
        tap.ok(name + "what does not fit", errors == ["EDQUOT"] * 2, errors)
        os.mkdir(mount.mnt + "/folder")
        size = os.stat(mount.export + "/b").st_size
        tap.ok(name + "both sides see the same", get(a) == first == get(mount.export + "/a") and
               os.stat(b).st_size == size and get(b) == get(mount.export + "/b"), size)


def clock(options):
    """The time of day jumps at each look of ferry-mount at it."""
    name = "a clock that jumps%s: " % "".join(", -o " + option for option in options)
    with mounts.Mount("ferry", [*options, "ac=1"], more=odd("ODD_CLOCK", "1")) as mount:
        root, far, wrong = mount.mnt, mount.export, []
        for i in range(30):
            path = "%s/f%d" % (root, i)
            put(path, b"%d" % i * 1000)
            with open(path, "ab") as f:
                f.write(b"more")
            here, there = os.stat(path), os.stat("%s/f%d" % (far, i))
            if (here.st_mtime_ns, here.st_ctime_ns, here.st_size) != (
                    there.st_mtime_ns, there.st_ctime_ns, there.st_size) or \
                    get(path) != b"%d" % i * 1000 + b"more":
                wrong.append((i, here, there))
        tap.ok(name + "times and contents are the storage's", not wrong, wrong)
        os.link(far + "/f0", far + "/f0.link")
        for i in range(2):
            for k in range(30):
                put("%s/f%d" % (far, k), b"others %d" % i * (i + 1))
            want = b"others %d" % i * (i + 1)
            until, seen = time.monotonic() + mounts.SEEN_S, []
            while seen != [want] * 30 and time.monotonic() < until:
                seen = [get("%s/f%d" % (root, k))[:len(want)] for k in range(30)]
            tap.ok(name + "changes by others are seen", seen == [want] * 30, seen)
        tap.ok(name + "it was faked", "odd.so" in get("/proc/%d/maps" % mount.pids(
            "ferry-mount")[0]).decode(errors="replace"))


def no_inodes():
    """Names fail one by one, and the mount goes on."""
    with Small("size=4m,nr_inodes=60") as mount:
        made, error = 0, ""
        while not error and made < 100:
            error = error_of(lambda i=made: os.mkdir("%s/d%d" % (mount.mnt, i)))
            made += not error
        others = [error_of(lambda: put(mount.mnt + "/f", b"")),
                  error_of(lambda: os.symlink("x", mount.mnt + "/l")),
                  error_of(lambda: os.mkfifo(mount.mnt + "/p"))]
        tap.ok("no inodes are left", error == "ENOSPC" and others == ["ENOSPC"] * 3,
               (made, error, others))
        os.rmdir(mount.mnt + "/d0")
        error = error_of(lambda: put(mount.mnt + "/f", b"1"))
        tap.ok("one is given back", not error and sorted(os.listdir(mount.mnt)) == sorted(
            os.listdir(mount.export)) and len(os.listdir(mount.mnt)) == made, error)


def lost_writes():
    """Writes that were queued when the mount was killed: the next one says how many bytes."""
    with mounts.Mount() as mount:
        put(mount.mnt + "/kept", b"kept")
        servers = mount.pids("ferry")
        for pid in servers:
            os.kill(pid, signal.SIGSTOP)
        fd = os.open(mount.mnt + "/kept", os.O_WRONLY)
        os.write(fd, b"x" * 5000)
        mount.kill()
        for pid in servers:
            if os.path.exists("/proc/%d" % pid):
                os.kill(pid, signal.SIGCONT)
        try:
            os.close(fd)
        except OSError:
            pass # the mount is gone
        mount.start()
        tap.ok("the next mount says what was lost", "5000 bytes" in mount.said(), mount.said())
        tap.ok("what was synced is there", get(mount.mnt + "/kept")[:4] in (b"kept", b"xxxx"))


def sparse():
    """8 TiB with 3 pieces of data: read, sought, copied, cut without reading the holes."""
    with mounts.Mount() as mount:
        path, far = mount.mnt + "/large", mount.export + "/large"
        places = (0, 5 << 40, (8 << 40) - 4096)
        fd = os.open(path, os.O_RDWR | os.O_CREAT)
        os.truncate(path, 8 << 40)
        for place in places:
            os.pwrite(fd, b"%d" % place, place)
        os.fsync(fd)
        found, at = [], 0
        while True:
            try:
                at = os.lseek(fd, at, os.SEEK_DATA)
            except OSError as e:
                found += [] if e.errno == errno.ENXIO else [e.errno]
                break
            found.append(at)
            at = os.lseek(fd, at, os.SEEK_HOLE)
        tap.ok("8 TiB: data and holes", found == list(places), found)
        tap.ok("8 TiB: holes are zeros", os.pread(fd, 8192, 3 << 40) == bytes(8192) and
               os.pread(fd, 13, 5 << 40) == b"5497558138880")
        about, there = os.stat(path), os.stat(far)
        tap.ok("8 TiB: size and blocks", (about.st_size, about.st_blocks) ==
               (there.st_size, there.st_blocks) == (8 << 40, there.st_blocks) and
               there.st_blocks < 1000, (about, there))
        done = subprocess.run(["cp", "--sparse=always", path, mount.mnt + "/copy"],
                              timeout=patient(120), check=False)
        copied = os.stat(mount.export + "/copy")
        with open(mount.export + "/copy", "rb") as f:
            same = all(os.pread(f.fileno(), 30, p) == os.pread(fd, 30, p) for p in places)
        tap.ok("8 TiB: copied", done.returncode == 0 and same and
               copied.st_size == 8 << 40 and copied.st_blocks < 1000, copied)
        os.truncate(path, (5 << 40) + 3)
        tap.ok("8 TiB: cut", os.pread(fd, 30, 5 << 40) == b"549" and
               os.stat(far).st_size == (5 << 40) + 3)
        os.close(fd)


def many_files(count):
    """One folder of very many names, listed, changed there, listed again."""
    with mounts.Mount() as mount:
        folder = mount.export + "/many"
        os.mkdir(folder)
        at = os.open(folder, os.O_RDONLY)
        for i in range(count):
            os.mknod("%07d" % i, dir_fd=at)
        begun = time.monotonic()
        with os.scandir(mount.mnt + "/many") as entries:
            found = {int(entry.name) for entry in entries
                     if entry.stat(follow_symlinks=False).st_size == 0}
        took = time.monotonic() - begun
        tap.ok("%d files in a folder" % count, found == set(range(count)), len(found))
        os.unlink("0000007", dir_fd=at)
        os.mknod("new", dir_fd=at)
        os.unlink(mount.mnt + "/many/0000009")
        until = time.monotonic() + mounts.SEEN_S
        want, names = sorted(os.listdir(folder)), []
        while names != want and time.monotonic() < until:
            names = sorted(os.listdir(mount.mnt + "/many"))
        tap.ok("changes in it", names == want and len(names) == count - 1, len(names))
        with open("/proc/%d/status" % mount.pids("ferry-mount")[0], encoding="ascii") as f:
            mib = [int(line.split()[1]) // 1024 for line in f if line.startswith("VmHWM")][0]
        print("# %.1f s, ferry-mount %d MiB" % (took, mib))
        tap.ok("memory", mib <= MEMORY_MIB, mib)
        os.close(at)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true")
    options = parser.parse_args()
    reason = mounts.why_not("ferry")
    if reason:
        tap.skip("room", reason)
        tap.finish()
    full_disk([])
    full_disk(["async"])
    for how in ([], ["async"]):
        quota(how)
        clock(how)
    no_inodes()
    lost_writes()
    sparse()
    many_files(1000000 if options.full else 30000)
    tap.finish()


if __name__ == "__main__":
    main()
