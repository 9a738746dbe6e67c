#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What is fetched ahead of programs on `ferry mount', by the mount's count of requests: names
that are looked up one by one, and small files that eight threads read in folders of their
own. What the programs see is compared with the exported files. TAP.
"""
import os
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import mounts  # noqa: E402
import tap  # noqa: E402

FOLDERS, FILES = 8, 100


def fill(folder):
    """FOLDERS of FILES small files."""
    for i in range(FOLDERS):
        os.mkdir("%s/d%d" % (folder, i))
        for k in range(FILES):
            with open("%s/d%d/f%02d" % (folder, i, k), "w", encoding="ascii") as f:
                f.write("%d of %d\n" % (k, i) * 50)


def names(mount):
    """Each name is looked up, and no folder is read, as by `git status'."""
    same = all(os.stat("%s/d%d/f%02d" % (mount.mnt, i, k)).st_size ==
               os.stat("%s/d%d/f%02d" % (mount.export, i, k)).st_size
               for i in range(FOLDERS) for k in range(FILES))
    lookups = mount.report().get("request lookup", 0)
    tap.ok("names are those of the export", same)
    tap.ok("few names are asked for one by one", lookups <= FOLDERS * FILES // 8, lookups)


def contents(mount):
    """Eight threads, each in its folder."""
    wrong = []

    def read(i):
        for name in os.listdir("%s/d%d" % (mount.mnt, i)):
            texts = []
            for root in (mount.mnt, mount.export):
                with open("%s/d%d/%s" % (root, i, name), "rb") as f:
                    texts.append(f.read())
            if texts[0] != texts[1]:
                wrong.append(name)

    threads = [threading.Thread(target=read, args=(i,)) for i in range(FOLDERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    reads = mount.report().get("request read", 0)
    tap.ok("contents are those of the export", not wrong, wrong)
    tap.ok("few files are asked for one by one", reads <= FOLDERS * FILES // 4, reads)


def again(mount):
    """What is in the page cache is not asked for again, though many reads had to wait at first."""
    folders = ["/again%d" % (i * 67 % 150) for i in range(150)]
    for folder in folders:
        os.mkdir(mount.export + folder)
        for k in range(3):
            with open("%s%s/%d" % (mount.export, folder, k), "wb") as f:
                f.write(b"%d" % k * 20000)
    for _ in range(2):
        for folder in folders:
            for name in os.listdir(mount.mnt + folder):
                with open("%s%s/%s" % (mount.mnt, folder, name), "rb") as f:
                    f.read()
    pushed = mount.report()["pushed_files"]
    tap.ok("no file comes twice", pushed <= FOLDERS * FILES + 3 * len(folders) + 8, pushed)


def around(mount):
    """The first small file of a folder brings the others; statfs is asked once."""
    os.mkdir(mount.export + "/few")
    for i in range(14):
        with open("%s/few/f%02d" % (mount.export, i), "w", encoding="ascii") as f:
            f.write("%d\n" % i)
    os.listdir(mount.mnt + "/few")
    for name in ("f00", "f13", "f07", "f01", "f11", "f04"):
        with open(mount.mnt + "/few/" + name, encoding="ascii") as f:
            f.read()
    before = mount.report()
    for _ in range(5):
        os.statvfs(mount.mnt + "/d0")
    after = mount.report()
    asked = [before.get("request " + kind, 0) for kind in ("read", "fetch")]
    tap.ok("a folder of few files comes at once", asked[0] <= 1 and asked[1] <= 4, asked)
    count = after.get("request statfs", 0) - before.get("request statfs", 0)
    tap.ok("statfs is asked once", count <= 1, count)
    free = os.statvfs(mount.mnt).f_bavail
    with open(mount.mnt + "/large", "wb") as f:
        f.write(bytes(64 << 20))
        os.fsync(f.fileno())
    tap.ok("and again after a change", os.statvfs(mount.mnt).f_bavail != free, free)


def read_back(mount):
    """A program that reads between its writes, as an assembler does, waits for none of them;
    others see the same file, and what the program was told of it stays so."""
    path, far = mount.mnt + "/new", mount.export + "/new"
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    before, wrong = mount.report()["waited"], []
    for i in range(30):
        os.pwrite(fd, b"%d" % i * 50, i * 90)
        if os.pread(fd, 20, i * 90 + 30) != (b"%d" % i * 50)[30:50] or \
                os.lseek(fd, 0, os.SEEK_END) != i * 90 + len(b"%d" % i * 50):
            wrong.append(i)
    waited = mount.report()["waited"] - before
    tap.ok("reads between writes", not wrong and waited <= 15, (wrong, waited))
    about = os.fstat(fd)
    os.close(fd)
    there = os.stat(far)
    tap.ok("times before and after close", about.st_mtime_ns == os.stat(path).st_mtime_ns ==
           there.st_mtime_ns and about.st_size == there.st_size, (about, there))
    with open(path, "rb") as here, open(far, "rb") as f:
        tap.ok("contents on both sides", here.read() == f.read())


def written(mount):
    """What a program has made is read without a request (a linker after an assembler), and as
    others have changed it since."""
    def paths(root):
        return ["%s/d%d/made%d" % (root, i % FOLDERS, i) for i in range(40)]

    def make(path, text):
        with open(path, "wb") as f:
            f.write(text)

    def read(path):
        with open(path, "rb") as f:
            return f.read()
    for path in paths(mount.mnt):
        make(path, path.encode() * 130)
    for i in range(2):
        mount.control("barrier")
        before = mount.report()
        wrong = [path for path in paths(mount.mnt) if read(path) != path.encode() * 130]
        after = mount.report()
        asked = [after.get("request " + kind, 0) - before.get("request " + kind, 0)
                 for kind in ("read", "fetch")]
        tap.ok("own files are read", not wrong and sum(asked) <= 8, (wrong, asked))
    for i, path in enumerate(paths(mount.mnt)[:20]):
        make(path, b"again %d" % i * 1000)
        make(paths(mount.export)[i], b"other %d" % i * 1000)
    os.unlink(paths(mount.mnt)[20])
    os.rename(paths(mount.export)[21], paths(mount.export)[22])
    mount.control("barrier")
    wrong = [i for i, path in enumerate(paths(mount.mnt)[:20])
             if read(path) != b"other %d" % i * 1000]
    tap.ok("changed by others", not wrong and read(paths(mount.mnt)[22]) ==
           read(paths(mount.export)[22]) and not os.path.exists(paths(mount.mnt)[20]), wrong)


def replaced(mount):
    """The target of a rename that is on its way is replaced at the storage: the rename goes on."""
    wrong = []
    for i in range(20):
        a, b = ("%s/d%d/%s%d" % (mount.mnt, i % FOLDERS, name, i) for name in "ab")
        for path in (a, b):
            with open(path, "w", encoding="ascii") as f:
                f.write(path)
        new = "%s/new%d" % (mount.export, i)
        with open(new, "w", encoding="ascii") as f:
            f.write("new")
        thread = threading.Thread(target=os.rename, args=(a, b))
        thread.start()
        os.rename(new, b.replace(mount.mnt, mount.export))
        thread.join()
        mount.control("barrier")
        with open(b, encoding="ascii") as f, \
                open(b.replace(mount.mnt, mount.export), encoding="ascii") as far:
            if f.read() != far.read() or os.path.exists(a):
                wrong.append(i)
    tap.ok("renamed over a file that others replace", not wrong, wrong)


def removed(mount):
    """A file that others replace just before it is removed is gone after that."""
    wrong = []
    for i in range(20):
        path = "%s/d%d/f%02d" % (mount.mnt, i % FOLDERS, i)
        there = path.replace(mount.mnt, mount.export)
        os.stat(path)
        with open(there + "new", "w", encoding="ascii") as f:
            f.write("new")
        os.rename(there + "new", there)
        try:
            os.unlink(path)
        except OSError as error:
            wrong.append(error)
        if os.path.exists(there) or os.path.exists(path):
            wrong.append(path)
    tap.ok("removed, just replaced by others", not wrong, wrong)


def main():
    reason = mounts.why_not("ferry")
    for case in (names, contents, again, around, read_back, written, replaced, removed):
        if reason:
            tap.skip(case.__name__, reason)
            continue
        with mounts.Mount("ferry", fault="both,delay=15ms" if case in (
                again, read_back, written, replaced, removed) else "") as mount:
            fill(mount.export)
            case(mount)
    tap.finish()


if __name__ == "__main__":
    main()
