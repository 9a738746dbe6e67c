#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Judges from outside on the mount: fio, stress-ng, dbench, sqlite3, git, and random calls
on one file (fsx.c).

  outside.py [--seconds N] [--kind KIND] [--only TEXT] [--seed S]

N is about what each takes."""
import argparse
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import mounts  # noqa: E402
import tap  # noqa: E402
from chosen import few  # noqa: E402
from mounts import patient  # noqa: E402

FSX = os.path.join(mounts.BUILD, "tests/files/fsx")
LOADS = "/usr/share/dbench/client.txt"
# stress-ng's stressors of file systems that end by themselves and need no rights or hardware.
STRESSORS = ["access", "chdir", "chmod", "chown", "copy-file", "dentry", "dir", "dirdeep",
             "dirmany", "fallocate", "fiemap", "filename", "flock", "fpunch", "fstat", "getdent",
             "hdd", "iomix", "link", "locka", "lockf", "lockofd", "mknod", "open", "readahead",
             "rename", "seek", "sync-file", "symlink", "touch", "truncate", "unlink", "utime",
             "xattr", "mmap", "msync", "aio", "metamix", "filerace", "verity"]

SIZES = {"hdd": ["--hdd-bytes", "16m"], "copy-file": ["--copy-file-bytes", "128m"],
         "fallocate": ["--fallocate-bytes", "8m"], "iomix": ["--iomix-bytes", "16m"],
         "mmap": ["--mmap-bytes", "8m", "--mmap-file"], "fpunch": [],
         "seek": ["--seek-size", "8m"], "readahead": ["--readahead-bytes", "16m"],
         "sync-file": ["--sync-file-bytes", "16m"], "fiemap": ["--fiemap-bytes", "16m"]}


def run(*argv, cwd=None, timeout=900, stdin=None):
    """(fine, what it said); one that does not end is not fine."""
    env = dict(os.environ, HOME=cwd or "/", GIT_CONFIG_NOSYSTEM="1", LC_ALL="C")
    with subprocess.Popen(argv, cwd=cwd, stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env,
                          start_new_session=True, errors="replace", text=True) as process:
        try:
            said, _ = process.communicate(stdin, timeout=patient(timeout))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            return False, "%s does not end in %d s" % (argv[0], timeout)
    return process.returncode == 0, said


class Judges:
    """Each method `judge_NAME' is one; it runs in an empty folder of the mount."""

    def __init__(self, mount, options):
        self.mount, self.options = mount, options

    def judge_fsx(self, folder):
        far = os.path.join(self.mount.export, os.path.basename(folder), "file")
        for seed in range(self.options.seed, self.options.seed + 3):
            fine, said = run(FSX, "--seed", str(seed), "--other", far, "--seconds",
                             str(max(1, self.options.seconds // 3)), folder + "/file")
            tap.ok("fsx: seed %d" % seed, fine, said)

    def judge_fio(self, folder):
        common = ["--directory=" + folder, "--size=8m", "--nrfiles=2", "--verify=crc32c",
                  "--verify_fatal=1", "--end_fsync=1", "--verify_state_save=0", "--minimal", "--fallocate=none"]
        for name, *job in (("write", "--rw=write", "--bs=64k"),
                           ("randwrite", "--rw=randwrite", "--bs=4k-20k", "--bs_unaligned"),
                           ("threads", "--rw=randwrite", "--bs=8k", "--numjobs=3", "--thread"),
                           ("mmap", "--rw=randwrite", "--bs=4k", "--ioengine=mmap"),
                           ("direct", "--rw=randwrite", "--bs=4k", "--direct=1"),
                           ("libaio", "--rw=randwrite", "--bs=16k", "--ioengine=libaio",
                            "--iodepth=8"),
                           ("fsync", "--rw=write", "--bs=32k", "--fsync=4")):
            fine, said = run("fio", "--name=" + name, *job, *common,
                             "--randseed=%d" % self.options.seed)
            tap.ok("fio: " + name, fine and "verify:" not in said, said)

    def judge_stress_ng(self, folder):
        each = max(1, self.options.seconds // 12)
        _, known = run("stress-ng", "--stressors")
        known = known.split()
        for name in few(STRESSORS, 3):
            if name not in known:
                continue
            fine, said = run("stress-ng", "--" + name, "1", "--timeout", "%ds" % each,
                             "--temp-path", folder, "--verify", "--no-rand-seed",
                             *SIZES.get(name, ()), cwd=folder,
                             timeout=each + 120)
            tap.ok("stress-ng: " + name, fine and "fail:" not in said, said)

    def judge_dbench(self, folder):
        if not os.path.exists(LOADS):
            return tap.skip("dbench", LOADS + " is not installed")
        fine, said = run("dbench", "-c", LOADS, "-D", folder, "-t", str(self.options.seconds),
                         "2", timeout=self.options.seconds + 300)
        rate = re.search(r"Throughput.*", said)
        print("# " + (rate.group(0) if rate else "no rate"))
        return tap.ok("dbench", fine and not re.search(r"^\[\d+\]", said, re.M), said[-3000:])

    def judge_sqlite3(self, folder):
        script = ("import sqlite3,sys\n"
                  "db=sqlite3.connect(sys.argv[1],timeout=300,isolation_level=None)\n"
                  "for i in range(int(sys.argv[3])):\n"
                  "    db.execute('begin immediate')\n"
                  "    n=db.execute('select count(*) from t').fetchone()[0]\n"
                  "    db.execute('insert into t(b,w) values(?,?)',"
                  "(n,sys.argv[2]*(i%900)))\n"
                  "    db.execute('rollback' if i%7==3 else 'commit')\n")
        count = 8 * self.options.seconds
        for mode in ("delete", "truncate", "persist"):
            for far in (0, 1):
                name = "%s%d.db" % (mode, far)
                here = os.path.join(folder, name)
                there = os.path.join(self.mount.export, os.path.basename(folder), name)
                run("sqlite3", here, "PRAGMA journal_mode=%s; CREATE TABLE t(a INTEGER PRIMARY "
                    "KEY, b, w);" % mode)
                writers = [subprocess.Popen(
                    [sys.executable, "-c", script, path, str(w), str(count)],
                    stderr=subprocess.PIPE, text=True)
                           for w, path in enumerate([here, here, there][:2 + far])]
                errors = "".join(w.communicate()[1] for w in writers)
                want = len(writers) * sum(i % 7 != 3 for i in range(count))
                _, said = run("sqlite3", here, "PRAGMA integrity_check; SELECT count(*), "
                              "count(DISTINCT b) FROM t;")
                tap.ok("sqlite3: two here%s, journal %s" % (
                    " and one at the storage" if far else "", mode),
                       said == "ok\n%d|%d\n" % (want, want) and not errors,
                       "%d rows were written; %s %s" % (want, said, errors))

    def judge_git(self, folder):
        origin = os.path.join(self.mount.plain, "origin")
        identity = ["-c", "user.name=n", "-c", "user.email=e", "-c", "init.defaultBranch=m"]
        run("git", *identity, "init", "-q", origin, cwd=self.mount.plain)
        for commit in range(4):
            for i in range(60):
                path = os.path.join(origin, "d%d/e%d" % (i % 5, i % 3))
                os.makedirs(path, exist_ok=True)
                with open(os.path.join(path, "f%d" % i), "w", encoding="ascii") as f:
                    f.write("%d %d\n" % (i, commit * (i % 4)) * (i * 10 + 1))
            run("git", *identity, "add", "-A", cwd=origin)
            run("git", *identity, "commit", "-q", "-m", str(commit), cwd=origin)
        here = os.path.join(folder, "clone")
        for argv in (["clone", "-q", "--no-hardlinks", origin, here], ["-C", here, "fsck", "--full"],
                     ["-C", here, "checkout", "-q", "HEAD~2"], ["-C", here, "checkout", "-q", "m"],
                     ["-C", here, "gc", "-q", "--aggressive", "--prune=now"],
                     ["-C", here, *identity, "merge", "-q", "HEAD~1"],
                     ["-C", here, *identity, "rebase", "-q", "-f", "HEAD~2"],
                     ["-C", here, "stash", "list"], ["-C", here, "fsck", "--full", "--strict"],
                     ["-C", here, "diff", "--exit-code", "origin/m"]):
            fine, said = run("git", *argv, cwd=self.mount.plain)
            words = [word for word in argv if word[0] not in "-/" and "=" not in word]
            tap.ok("git " + " ".join(words), fine, said)
        fine, said = run("git", "-C", here, "status", "--porcelain", cwd=self.mount.plain)
        tap.ok("git status is clean", fine and not said, said)

    def judge_tar(self, folder):
        """A tree with links, modes, times and holes comes back as it was."""
        tree = os.path.join(self.mount.plain, "tree")
        os.makedirs(tree + "/d/e")
        for i in range(200):
            with open("%s/d/e/f%d" % (tree, i), "wb") as f:
                f.write(os.urandom(i * 37))
        os.link(tree + "/d/e/f7", tree + "/hard")
        os.symlink("d/e", tree + "/soft")
        os.truncate(tree + "/d/e/f9", 3 << 20)
        os.chmod(tree + "/d/e/f3", 0o4711)
        for name, text in (("tar", "tar c -S --xattrs . | tar x -p -C %s" % folder),
                           ("cp -a", "cp -a . %s/copied" % folder),
                           ("rsync", "rsync -aHS . %s/synced" % folder)):
            target = {"tar": folder, "cp -a": folder + "/copied", "rsync": folder + "/synced"}
            if not shutil.which(name.split()[0]):
                tap.skip(name, name + " is not installed")
                continue
            run("sh", "-c", text, cwd=tree)
            look = "find . -path ./copied -prune -o -path ./synced -prune -o -printf " \
                   "'%P %M %n %T@ %l %y\\n' | grep -v '^ ' | sed '/ d$/s/ [0-9]* / /' | sort; " \
                   "find . -path ./copied -prune -o -path ./synced -prune -o -type f -print0 | " \
                   "sort -z | xargs -0 sha256sum"
            _, want = run("sh", "-c", look, cwd=tree)
            _, got = run("sh", "-c", look, cwd=target[name])
            tap.ok(name + " makes the same tree", got == want and "f199" in got, got[:2000])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=12)
    parser.add_argument("--kind", default="ferry")
    parser.add_argument("--only", default="")
    parser.add_argument("--seed", type=int, default=int(os.environ.get("FERRY_SEED", "1")))
    options = parser.parse_args()
    reason = mounts.why_not(options.kind)
    for method in sorted(name for name in dir(Judges) if name.startswith("judge_")):
        name = method[len("judge_"):].replace("_", "-")
        if options.only not in name:
            continue
        if reason:
            tap.skip(name, reason)
        elif not shutil.which(name) and name != "fsx":
            tap.skip(name, name + " is not installed")
        else:
            with mounts.Mount(options.kind) as mount:
                folder = os.path.join(mount.mnt, name)
                os.mkdir(folder)
                getattr(Judges(mount, options), method)(folder)
    tap.finish()


if __name__ == "__main__":
    main()
