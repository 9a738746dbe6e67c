#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Extended attributes and ACLs of files on sshfs, which shows none: commands that are placed
see and copy none either. Compares output, modes and attributes at the server with those of a
run without ferry on the mount. Prints TAP."""
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
from patience import patient  # noqa: E402

FERRY = os.path.join(os.path.realpath(os.environ.get("FERRY_BUILDDIR", ".")), "ferry")
ACL = struct.pack("<I", 2) + b"".join(
    struct.pack("<HHI", tag, rights, user) for tag, rights, user in (
        (1, 6, 2 ** 32 - 1), (2, 6, 54321), (4, 4, 2 ** 32 - 1), (16, 6, 2 ** 32 - 1),
        (32, 4, 2 ** 32 - 1)))
# Command, whether it must have been placed
CASES = [("cp f g", True), ("cp -p f g", True), ("cp -a f g", False), ("cp -a d e", False),
         ("cp -r d e", True), ("cp --preserve=mode,timestamps f g", False),
         ("sed -i s/a/b/ f", True), ("mv f g", False), ("gzip -k f", False), ("gzip f", False),
         ("xz -k f", False), ("sort -o f f", True), ("sort -o g f", True), ("tar cf t f d", True),
         ("tar xf t.tar", True), ("ls -l", False), ("ls -ld d", False), ("find . -type f -ls", False),
         ("chmod g-w f", True), ("touch -r d f", True), ("split -l 1 f", True)]


def fill(folder):
    """A file, a folder with one, and an archive; the first three have attributes."""
    os.makedirs(folder + "/d")
    for name in ("f", "d/f"):
        with open(os.path.join(folder, name), "w", encoding="ascii") as file:
            file.write("a\nb\n")
    subprocess.run(["tar", "cf", "t.tar", "d/f"], cwd=folder, check=True)
    for name in ("f", "d/f", "d"):
        path = os.path.join(folder, name)
        os.setxattr(path, "system.posix_acl_access", ACL)
        os.setxattr(path, "user.ferry", b"x")
    os.setxattr(folder + "/d", "system.posix_acl_default", ACL)
    for name in ("f", "d/f", "t.tar", "d", ""):
        os.utime(os.path.join(folder, name), (10 ** 9, 10 ** 9))


def shown(folder):
    """{path: mode and attributes}, at the server."""
    found = {}
    for at, folders, files in os.walk(folder):
        for name in folders + files:
            path = os.path.join(at, name)
            found[os.path.relpath(path, folder)] = oct(os.stat(path).st_mode), {
                key: os.getxattr(path, key) for key in os.listxattr(path)}
    return found


def run(top, command, ferry):
    """Output, status and files; the stages' reasons."""
    for name in ("data", "point"):
        os.mkdir(os.path.join(top, name))
    data, point, report = (os.path.join(top, name) for name in ("data", "point", "report"))
    fill(data)
    env = dict(os.environ, XDG_CACHE_HOME=top + "/cache", LC_ALL="C",
               PATH=os.path.join(top, "bin") + ":" + os.environ["PATH"])
    try:
        if subprocess.run(["sshfs", "there:" + data, point], env=env, check=False,
                          stderr=subprocess.DEVNULL).returncode:
            return None, []
        argv = ["sh", "-c", command]
        if ferry:
            argv = [FERRY, "run", "--no-discover", "--force", "--report=" + report, "--mount",
                    f"{point}=ssh://there{data}", "--"] + argv
        done = subprocess.run(argv, cwd=point, env=env, check=False, timeout=patient(120),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        stages = []
        if ferry:
            with open(report, encoding="utf-8") as file:
                stages = [s.get("declined") or "placed" for s in json.load(file)["stages"]]
        return (done.returncode, done.stdout, done.stderr, shown(data)), stages
    finally:
        subprocess.run(["fusermount3", "-u", "-z", point], check=False,
                       stderr=subprocess.DEVNULL)
        shutil.rmtree(data)
        os.rmdir(point)


def main():
    """Runs the cases."""
    if os.environ.get("FERRY_SANITIZED"):
        print("1..0 # SKIP the preloaded library cannot run so")
        return 77
    if not os.path.exists("/dev/fuse") or not shutil.which("sshfs"):
        print("1..0 # SKIP sshfs is not installed")
        return 77
    failed = 0
    top = os.path.realpath(tempfile.mkdtemp(dir="/var/tmp"))
    os.mkdir(os.path.join(top, "bin"))
    with open(os.path.join(top, "bin/ssh"), "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\ncase $* in *' sftp') for server in /usr/lib*/openssh/sftp-server"
                   " /usr/lib/ssh/sftp-server; do\n[ ! -x $server ] || exec $server; done ;; esac\n"
                   f"exec {FERRY} proxy --stdio\n")
    os.chmod(os.path.join(top, "bin/ssh"), 0o755)
    try:
        fill(top + "/try")
    except OSError:
        print("1..0 # SKIP no ACLs in /var/tmp")
        shutil.rmtree(top)
        return 77
    for number, (command, placed) in enumerate(CASES, 1):
        plain, _ = run(top, command, False)
        if not plain:
            print(f"ok {number} - {command} # SKIP sshfs does not mount")
            continue
        other, stages = run(top, command, True)
        good = plain == other and (not placed or stages == ["placed"])
        failed += not good
        print(f"{'' if good else 'not '}ok {number} - {command}", flush=True)
        if not good:
            print("# %s" % stages, *(pair for pair in zip(plain, other) if pair[0] != pair[1]),
                  sep="\n# ")
    print(f"1..{len(CASES)}")
    shutil.rmtree(top)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
