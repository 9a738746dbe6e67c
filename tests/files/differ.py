#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The differential judge (differ.h): system calls on the mount and on a plain folder do
the same, and it sees where a file system does not: sshfs is known for some.

  differ.py [--full] [--seed S] [--kind ferry] [ARGUMENTS of differ]
"""
import argparse
import errno
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import mounts  # noqa: E402
import tap  # noqa: E402

PROGRAM = os.path.join(mounts.BUILD, "tests/files/differ")
KNOWN = os.path.join(mounts.HERE, "differences")
# What sshfs does otherwise, as the judge tells it.
SSHFS = {
    "links are not counted": r"links 2 .*\| .*links 1 ",
    "inodes are its own": r"\| .*other inode at the storage",
    "nanoseconds are lost": r"\| .*other [mc]time at the storage",
    "RENAME_EXCHANGE": r"renameat2\(.*\) = 0 \| renameat2\(.*\): EINVAL",
    "extended attributes": r"lsetxattr.* = 0 \| lsetxattr.*: EOPNOTSUPP",
    "fifos": r"\| mkfifo.*: E",
}


OTHER = 65534
# The process at the storage as an ordinary user.
FERRY = """#!/bin/sh
exec setpriv --reuid %d --regid %d --clear-groups env HOME=%s XDG_RUNTIME_DIR=%s %s "$@"
"""


def differ(mount, *arguments, words=()):
    """Runs the judge; its output. The judge ends by itself."""
    storage = [] if mount.kind == "plain" else ["--storage", mount.export]
    done = subprocess.run([*words, PROGRAM, *storage, *arguments, mount.plain, mount.mnt],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          errors="replace", check=False)
    return done.returncode, done.stdout + done.stderr


def itself(sample):
    """Two plain folders do not differ."""
    with mounts.Mount("plain") as mount:
        status, said = differ(mount, *sample)
        tap.ok("two folders of one file system are the same", status == 0, said)


def sshfs():
    """The judge sees what sshfs does otherwise."""
    name = "sshfs differs: "
    reason = mounts.why_not("sshfs")
    if reason:
        return tap.skip(name + "all", reason)
    said = ""
    with mounts.Mount("sshfs") as mount:
        for only in ("renameat2(file, f", "setxattr(file)", "mkdir(nothing)"):
            said += differ(mount, "--only", only)[1]
    unseen = [what for what, pattern in SSHFS.items()
              if not re.search("FAIL .*" + pattern, said)]
    for what in SSHFS:
        tap.ok(name + what, what not in unseen, said)
        said = said if what not in unseen else ""
    return None


def judged(kind, arguments):
    """The mount itself."""
    name = kind + " does as the storage's file system"
    reason = mounts.why_not(kind)
    if reason:
        return tap.skip(name, reason)
    with mounts.Mount(kind) as mount:
        status, said = differ(mount, "--known", KNOWN, *arguments)
        print("# " + "\n# ".join(said.splitlines()[-2:]))
        return tap.ok(name, status == 0, said)


def by_user(arguments):
    """The mount of an ordinary user, whom the process at the storage has no more rights than."""
    name = "ferry does as the storage's file system for an ordinary user"
    reason = mounts.why_not("ferry")
    reason = reason or (None if shutil.which("setpriv") else "there is no setpriv")
    if reason:
        return tap.skip(name, reason)
    with tempfile.TemporaryDirectory() as home:
        os.chmod(home, 0o755)
        os.mkdir(home + "/own")
        os.mkdir(home + "/mount")
        os.chown(home + "/own", OTHER, OTHER)
        program = home + "/ferry"
        with open(program, "w", encoding="ascii") as f:
            f.write(FERRY % (OTHER, OTHER, home + "/own", home + "/own",
                             os.path.join(mounts.BUILD, "ferry")))
        os.chmod(program, 0o755)
        for part in ("export", "plain"):
            os.mkdir(home + "/mount/" + part)
            os.chown(home + "/mount/" + part, OTHER, OTHER)
        with mounts.Mount("ferry", program=program, folder=home + "/mount") as mount:
            status, said = differ(mount, "--known", KNOWN, *arguments, words=[
                "setpriv", "--reuid", str(OTHER), "--regid", str(OTHER), "--clear-groups"])
            return tap.ok(name, status == 0, said)


def refusals(folder):
    """The errors of every call that changes something, where nothing can be changed."""
    calls = {
        "chmod": lambda p: os.chmod(p, 0o600), "chown": lambda p: os.chown(p, 0, 0),
        "link": lambda p: os.link(p, folder + "/new"), "link to it":
        lambda p: os.link(folder + "/f", p), "mkdir": os.mkdir, "mkfifo": os.mkfifo,
        "mknod": os.mknod, "rename": lambda p: os.rename(p, folder + "/new"),
        "rename to it": lambda p: os.rename(folder + "/f", p), "rmdir": os.rmdir,
        "symlink": lambda p: os.symlink("x", p), "truncate": lambda p: os.truncate(p, 0),
        "unlink": os.unlink, "utime": os.utime, "utime 0": lambda p: os.utime(p, (0, 0)),
        "setxattr": lambda p: os.setxattr(p, "user.a", b"b"),
        "access": lambda p: os.access(p, os.W_OK) or os.stat(p), "list": os.listdir,
    }
    for flags in ("O_RDONLY", "O_WRONLY", "O_RDWR", "O_TRUNC", "O_CREAT", "O_CREAT | O_EXCL",
                  "O_CREAT | O_WRONLY", "O_DIRECTORY | O_RDWR"):
        bits = sum(getattr(os, word) for word in flags.split(" | ")) | os.O_NONBLOCK
        calls[flags] = lambda p, bits=bits: os.close(os.open(p, bits))
    found = {}
    for name in ("f", "d", "d/in", "l", "to", "p", "none", "none/x", "f/x"):
        for call, deed in calls.items():
            try:
                deed(folder + "/" + name)
                found[name, call] = "fine"
            except OSError as e:
                found[name, call] = errno.errorcode[e.errno]
    return found


def read_only():
    """With -o ro calls fail as they do on another file system that is mounted so."""
    name = "-o ro fails as a file system that is mounted so"
    reason = mounts.why_not("ferry")
    if reason:
        return tap.skip(name, reason)
    with mounts.Mount("ferry", ["ro"]) as mount:
        for folder in (mount.export, mount.plain):
            os.mkdir(folder + "/d")
            for file in ("/f", "/d/in"):
                with open(folder + file, "w", encoding="ascii") as f:
                    f.write("0123456789")
            os.symlink("none", folder + "/l")
            os.symlink("f", folder + "/to")
            os.mkfifo(folder + "/p")
        for words in (["--bind", mount.plain], ["-o", "remount,ro,bind"]):
            subprocess.run(["mount", *words, mount.plain], check=True)
        want, got = refusals(mount.plain), refusals(mount.mnt)
        subprocess.run(["umount", mount.plain], check=True)
        return tap.ok(name, want == got and "EROFS" in want.values(), "\n".join(
            "%s: %s | %s" % (key, want[key], got[key]) for key in want if want[key] != got[key]))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--seed", default=os.environ.get("FERRY_SEED", "1"))
    parser.add_argument("--kind", default="")
    options, rest = parser.parse_known_args()
    sample = ["--seed", options.seed]
    if options.kind:
        judged(options.kind, sample + rest)
        tap.finish()
    itself([*sample, "--sample", "100"])
    sshfs()
    judged("ferry", sample + ([] if options.full else ["--sample", "300"]) + rest)
    read_only()
    by_user(sample + ["--sample", "8000" if options.full else "150"] + rest)
    tap.finish()


if __name__ == "__main__":
    main()
