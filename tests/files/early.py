#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""-o async: what a program does with a file that it has created and that the storage has
not made yet is as on a plain folder; what others do there meanwhile spoils no file, and
what failed is told. The process next to the files is stopped for that time. TAP."""
import os
import re
import select
import signal
import subprocess
import sys
import time

import mounts
import tap

# Creates a file as far as the second word says, says so, and does what the third does.
PROGRAM = r'''
import errno, fcntl, mmap, os, sys
folder, far, deed = sys.argv[1:4]
p, q, old = folder + "/new", folder + "/other", folder + "/old"
text = b"new text\n" * 700
fd = os.open(p, os.O_CREAT | os.O_TRUNC | os.O_RDWR, 0o640)
if far != "open":
    os.write(fd, text)
if far == "closed":
    os.close(fd)
    fd = None
print("early", flush=True)

def put(path, text, flags=0):
    at = os.open(path, os.O_WRONLY | os.O_CREAT | flags, 0o644)
    os.write(at, text)
    os.close(at)

def get(path):
    with open(path, "rb") as file:
        return file.read()

def about(path):
    found = os.stat(path) if isinstance(path, str) else os.fstat(path)
    return found.st_size, oct(found.st_mode), found.st_nlink, found.st_uid, found.st_gid

def names(of=folder):
    return sorted(os.listdir(of))

def numbers():
    at = os.open(p, os.O_RDONLY)
    seen = {os.fstat(at).st_ino, os.stat(p).st_ino}
    seen |= {e.inode() for e in os.scandir(folder) if e.name == "new"}
    return len(seen), 0 in seen

def unlinked():
    at = os.open(p, os.O_RDWR)
    os.unlink(p)
    os.write(at, b"gone")
    return names(), about(at), os.pread(at, 100, 0)

def mapped():
    at = os.open(p, os.O_RDWR)
    os.ftruncate(at, 9000)
    with mmap.mmap(at, 9000) as m:
        m[10:13] = b"abc"
        m.flush()
    return get(p)

def locked():
    at = os.open(p, os.O_RDWR)
    fcntl.lockf(at, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.lockf(at, fcntl.LOCK_UN)

def attribute():
    os.setxattr(p, "user.a", b"b")
    return os.getxattr(p, "user.a"), os.listxattr(p)

def copied():
    at, to = os.open(p, os.O_RDONLY), os.open(q, os.O_WRONLY | os.O_CREAT, 0o600)
    return os.copy_file_range(at, to, 5000), get(q)

def moved():
    os.rename(folder, folder + "2")
    put(folder + "2/more", b"more")
    return names(folder + "2"), get(folder + "2/new")

def twice():
    put(p, b"second", os.O_TRUNC)
    put(q, b"third", os.O_TRUNC)
    return get(p), get(q), names()

DEEDS = {
    "nothing": lambda: None,
    "listed": names,
    "looked at": lambda: about(p),
    "numbers": numbers,
    "read": lambda: get(p),
    "read from its end": lambda: os.lseek(os.open(p, os.O_RDONLY), 0, os.SEEK_END),
    "appended": lambda: (put(p, b"end", os.O_APPEND), get(p)),
    "emptied": lambda: (put(p, b"x", os.O_TRUNC), get(p)),
    "made exclusively": lambda: os.open(p, os.O_CREAT | os.O_EXCL),
    "a folder of that name": lambda: os.mkdir(p),
    "a link of that name": lambda: os.symlink("x", p),
    "renamed": lambda: (os.rename(p, q), names(), get(q)),
    "renamed over": lambda: (os.rename(p, old), names(), get(old)),
    "replaced": lambda: (os.rename(old, p), names(), get(p)),
    "renamed and made": lambda: (os.rename(p, q), put(p, b"2"), get(p), get(q)),
    "unlinked": unlinked,
    "unlinked and made": lambda: (os.unlink(p), put(p, b"again"), get(p), names()),
    "linked": lambda: (os.link(p, q), names(), about(p), get(q)),
    "made more": twice,
    "mode": lambda: (os.chmod(p, 0o600), about(p)),
    "times": lambda: (os.utime(p, ns=(10**18, 10**18)), os.stat(p).st_mtime_ns),
    "owner": lambda: (os.chown(p, 12, 34), about(p)),
    "cut": lambda: (os.truncate(p, 100), about(p), get(p)),
    "longer": lambda: (os.truncate(p, 20000), get(p)),
    "synced itself": lambda: fd is None or os.fsync(fd),
    "synced": lambda: os.fsync(os.open(p, os.O_RDWR)),
    "mapped": mapped,
    "locked": locked,
    "attribute": attribute,
    "copied": copied,
    "folder removed": lambda: os.rmdir(folder),
    "folder moved": moved,
    "writable": lambda: os.access(p, os.W_OK),
}
try:
    print(repr(DEEDS[deed]()), flush=True)
    if fd is not None and far == "written":
        os.write(fd, b"the end\n")
        print(repr(os.pread(fd, 20000, 0)))
    if fd is not None:
        os.close(fd)
except OSError as error:
    print(errno.errorcode[error.errno], flush=True)
'''
DEEDS = re.findall(r'^    "([a-z ]+)":', PROGRAM, re.M)
FAR = ("open", "written", "closed")


class Window:
    """While it is open the process next to the files does nothing."""

    def __init__(self, mount):
        self.pids = [pid for pid in mount.pids("ferry")
                     if "--stdio" in mounts.command_of(pid)][-1:]

    def __enter__(self):
        for pid in self.pids:
            os.kill(pid, signal.SIGSTOP)
        return self

    def __exit__(self, *_):
        for pid in self.pids:
            os.kill(pid, signal.SIGCONT)


def first_line(run):
    """What it says before the window is closed again."""
    return run.stdout.readline() if select.select([run.stdout], [], [], 20)[0] else ""


def program(*words):
    return subprocess.Popen([sys.executable, "-c", PROGRAM, *words], text=True,
                            stdout=subprocess.PIPE)


def tree(top):
    """What is below it."""
    found = []
    for folder, folders, names in os.walk(top):
        for name in sorted(folders + names):
            path = os.path.join(folder, name)
            about = os.lstat(path)
            text = b""
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, "rb") as file:
                    text = file.read()
            found.append((path[len(top):], oct(about.st_mode), about.st_nlink, text[:60],
                          len(text)))
    return sorted(found)


def settled(*tops):
    """The trees, once they are the same or time is over."""
    until = time.monotonic() + mounts.SEEN_S
    while True:
        trees = [tree(top) for top in tops]
        if all(one == trees[0] for one in trees) or time.monotonic() > until:
            return trees
        time.sleep(0.05)


def fill(there, here=None):
    """A folder at the storage; here all its names are known afterwards."""
    os.makedirs(there)
    with open(there + "/old", "w", encoding="ascii") as file:
        file.write("old text\n")
    until = time.monotonic() + mounts.SEEN_S
    while here and tree(here) != tree(there) and time.monotonic() < until:
        time.sleep(0.01)


def known(mount, here):
    """Returns once the mount knows all names of the folder: then it asks for none that is not
    there. So a window cannot hold a program up that makes a file."""
    until, asked, number = time.monotonic() + mounts.SEEN_S, True, 0
    while asked and time.monotonic() < until:
        os.listdir(here)
        before = mount.report().get("request lookup", 0)
        os.path.exists("%s/absent%d" % (here, number := number + 1))
        asked = mount.report().get("request lookup", 0) > before


def deeds(mount):
    for number, (far, deed) in enumerate((far, deed) for far in FAR for deed in DEEDS):
        tops = [os.path.join(top, "d%d" % number) for top in (mount.plain, mount.mnt,
                                                              mount.export)]
        fill(tops[0] + "/x")
        fill(tops[2] + "/x", tops[1] + "/x")
        wanted = program(tops[0] + "/x", far, deed).communicate()[0]
        with Window(mount):
            run = program(tops[1] + "/x", far, deed)
            said = first_line(run)
            time.sleep(0.05)
        got = said + run.communicate()[0]
        trees = settled(*tops)
        tap.ok("%s, then %s" % (far, deed),
               got == wanted and trees[0] == trees[1] == trees[2],
               "plain %s\nmount %s\nplain   %s\nmount   %s\nstorage %s" % (
                   wanted, got, *trees))


def there_before(mount):
    """Others make the name, or take the folder, before the storage makes the file."""
    def put(path):
        with open(path, "w", encoding="ascii") as file:
            file.write("theirs\n")

    def away(path):
        os.unlink(os.path.dirname(path) + "/old")
        os.rmdir(os.path.dirname(path))

    victim = mount.export + "/victim"
    put(victim)
    others = {  # what they do, the errno of the close or sync
        "a file": (put, None),
        "a longer file": (lambda path: (put(path), os.truncate(path, 50000)), None),
        "a folder": (os.mkdir, "EEXIST"),
        "a link": (lambda path: os.symlink(victim, path), "EEXIST"),
        "a pipe": (os.mkfifo, "EEXIST"),
        "a name of another file": (lambda path: os.link(victim, path), None),
        "the folder is gone": (away, "ENOENT"),
        "the folder is another": (lambda path: os.rename(
            os.path.dirname(path), os.path.dirname(path) + "2"), "ENOENT"),
    }
    for number, (name, (act, error)) in enumerate(others.items()):
        here, there = (os.path.join(top, "o%d" % number) for top in (mount.mnt, mount.export))
        fill(there, here)
        put(victim)
        with Window(mount):
            run = program(here, "written", "synced itself")
            early = first_line(run)
            act(there + "/new")
        said = run.communicate()[0].split("\n")[0]
        trees = settled(mount.mnt, mount.export)
        with open(victim, encoding="ascii") as file:
            held = file.read()
        good = trees[0] == trees[1] and early == "early\n"
        if error is None:
            with open(there + "/new", "rb") as file:
                good = good and said == "None" and file.read() == b"new text\n" * 700 + \
                    b"the end\n"
        else:
            good = good and said in (error, "ESTALE") and held == "theirs\n"
        tap.ok("others make " + name, good, "%s %s %s" % (said, held, sorted(set(trees[0]) ^ set(trees[1]))))


def appended(mount):
    """What others wrote before the file was made stays in front of what is appended."""
    here, there = mount.mnt + "/a", mount.export + "/a"
    fill(there, here)
    with Window(mount):
        run = subprocess.Popen(["sh", "-c", "exec >>$0; sleep 0.2; echo mine; echo end",
                                here + "/new"])
        time.sleep(0.1)
        with open(there + "/new", "w", encoding="ascii") as file:
            file.write("theirs\n" * 5)
    run.wait()
    wanted, found = "theirs\n" * 5 + "mine\nend\n", ""
    until = time.monotonic() + mounts.SEEN_S  # no close has waited
    while found != wanted and time.monotonic() < until:
        time.sleep(0.01)
        with open(there + "/new", encoding="ascii") as file:
            found = file.read()
    tap.ok("appended behind what others wrote", found == wanted, found)


def folder_times(mount):
    """The times of the folder are the storage's in the end, also for a program that looked
    at it over a slow link before the file was made."""
    here, there = mount.mnt + "/t", mount.export + "/t"
    fill(there, here)
    late = []
    for i in range(10):
        with open("%s/f%d" % (here, i), "wb"):
            pass
        os.stat(here)
        time.sleep(0.2)
        until = time.monotonic() + mounts.SEEN_S
        while (about := os.stat(here).st_mtime_ns) != os.stat(there).st_mtime_ns and \
                time.monotonic() < until:
            time.sleep(0.05)
        late += [i] if about != os.stat(there).st_mtime_ns else []
    tap.ok("times of the folder", not late, late)


def two_failures(mount):
    """What one file's close tells does not hide the other's failure."""
    here, there = mount.mnt + "/w", mount.export + "/w"
    fill(there, here)
    with Window(mount):
        fds = [os.open(here + "/" + name, os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
               for name in "ab"]
        os.close(fds[1])
        for name in "ab":
            os.mkdir(there + "/" + name)
    found = []
    folder = os.open(here, os.O_RDONLY)
    for call, fd in (os.fsync, fds[0]), (os.fsync, folder), (os.fsync, folder):
        try:
            found.append(call(fd))
        except OSError as error:
            found.append(error.strerror)
    os.close(fds[0]), os.close(folder)
    tap.ok("two failures are told", found == ["File exists", "File exists", None], found)


def told(mount):
    """An error whose file is closed already is told by fsync of its folder."""
    def closed(number):
        here, there = (os.path.join(top, "t%d" % number) for top in (mount.mnt, mount.export))
        fill(there, here)
        with Window(mount):
            run = program(here, "closed", "nothing")
            said = first_line(run)
            os.mkdir(there + "/new")
        said += run.communicate()[0]
        return here, said

    here, said = closed(0)
    fd = os.open(here, os.O_RDONLY)
    found = []
    for _ in range(2):
        try:
            found.append(os.fsync(fd))
        except OSError as error:
            found.append(error.strerror)
    os.close(fd)
    tap.ok("fsync of the folder, once", found == ["File exists", None] and
           said == "early\nNone\n", "%s %s" % (found, said))
    closed(1)
    done = subprocess.run([os.path.join(mounts.BUILD, "ferry"), "umount", mount.mnt],
                          capture_output=True, text=True, check=False)
    tap.ok("ferry umount", done.returncode != 0 and "File exists" in done.stderr,
           "%d %s" % (done.returncode, done.stderr))


def ended(mount):
    """Another process serves: every file is made, with what was written."""
    here, there = mount.mnt + "/e", mount.export + "/e"
    fill(there, here)
    for round_ in range(4):
        wanted = {}
        known(mount, here)
        with Window(mount) as window:
            for i in range(20):
                name = "f%d-%d" % (round_, i)
                wanted[name] = os.urandom(1000 + 5000 * (i % 3))
                with open(os.path.join(here, name), "wb", buffering=0) as file:
                    for at in range(0, len(wanted[name]), 700):
                        file.write(wanted[name][at:at + 700])
            if round_ % 2 == 0:
                for pid in window.pids:
                    os.kill(pid, signal.SIGKILL)
        if round_ % 2:  # in the midst of it
            time.sleep(0.0005 * round_)
            for pid in window.pids:
                os.kill(pid, signal.SIGKILL)
        found = {}
        for name in wanted:
            with open(os.path.join(here, name), "rb") as file:
                found[name] = file.read()
        there_too = {}
        for name in wanted:
            with open(os.path.join(there, name), "rb") as file:
                there_too[name] = file.read()
        tap.ok("the process next to the files is killed, %d" % round_,
               found == wanted == there_too,
               {n: (len(found[n]), len(there_too[n]), len(wanted[n])) for n in wanted})


def forced():
    """ferry umount --force says what it gives up."""
    with mounts.Mount(options=["async"]) as mount:
        fill(mount.export + "/k", mount.mnt + "/k")
        with Window(mount):
            for i in range(3):
                with open("%s/k/%d" % (mount.mnt, i), "wb") as file:
                    file.write(b"12345" * i)
            done = subprocess.run([os.path.join(mounts.BUILD, "ferry"), "umount", "--force",
                                   mount.mnt], capture_output=True, text=True, check=False)
        tap.ok("ferry umount --force", "15 bytes of 2 files" in done.stderr and
               "3 files that were created are lost" in done.stderr, done.stderr)


def lost():
    """The next mount says what a killed one has lost."""
    with mounts.Mount(options=["async"]) as mount:
        fill(mount.export + "/k", mount.mnt + "/k")
        with Window(mount):
            for i in range(3):
                with open("%s/k/%d" % (mount.mnt, i), "wb"):
                    pass
            mount.kill()
        mount.start()
        tap.ok("what a killed mount has lost", "3 creations" in mount.said(), mount.said())


def main():
    reason = mounts.why_not("ferry")
    if reason:
        tap.skip("early files", reason)
        tap.finish()
    with mounts.Mount(options=["async"]) as mount:
        deeds(mount)
        there_before(mount)
        ended(mount)
        appended(mount)
        two_failures(mount)
        told(mount)
    with mounts.Mount(options=["async"], fault="both,delay=15ms") as mount:
        folder_times(mount)
    forced()
    lost()
    tap.finish()


if __name__ == "__main__":
    main()
