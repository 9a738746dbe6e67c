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


def main():
    reason = mounts.why_not("ferry")
    for case in (names, contents):
        if reason:
            tap.skip(case.__name__, reason)
            continue
        with mounts.Mount("ferry") as mount:
            fill(mount.export)
            case(mount)
    tap.finish()


if __name__ == "__main__":
    main()
