#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Files that a command of `ferry run' was given are fetched ahead on `ferry mount', by the
mount's counts: with and without an annotation, and where the words lead nowhere. What the
commands print is compared with what they print without ferry. TAP.
"""
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import mounts  # noqa: E402
import tap  # noqa: E402

FOLDERS = 12
# In an order that no walk has.
ORDER = [i * 5 % FOLDERS for i in range(FOLDERS)]
READER = """#!/usr/bin/python3
import os, sys
for path in sys.argv[1:]:
    try:
        if os.path.isdir(path):
            for folder, folders, files in os.walk(path):
                folders.sort()
                for name in sorted(files):
                    with open(os.path.join(folder, name), "rb") as f:
                        print(name, len(f.read()))
        else:
            with open(path, "rb") as f:
                print(len(f.read()))
    except OSError as error:
        print(error.errno)
"""
# Two names of one program, which both stay local.
ANNOTATIONS = """
command fy-reads { operand FILE... in tree; pure; never "it stays"; }
command fy-walks { operand FILE... in tree; walks; pure; never "it stays"; }
"""


def fill(folder):
    """A file each in FOLDERS folders, and a tree."""
    for i in range(FOLDERS):
        os.makedirs("%s/d%02d/e" % (folder, i))
        with open("%s/d%02d/e/f" % (folder, i), "w", encoding="ascii") as f:
            f.write("%d\n" % i * 500)
    for i in range(9):
        os.makedirs("%s/tree/t%d" % (folder, i))
        for k in range(9):
            with open("%s/tree/t%d/f%d" % (folder, i, k), "w", encoding="ascii") as f:
                f.write("%d %d\n" % (i, k) * 300)


class Run:
    """One mount, and commands on it."""

    def __init__(self, mount):
        self.mount = mount
        for name in ("fy-plain", "fy-reads", "fy-walks"):
            path = os.path.join(mount.folder, name)
            with open(path, "w", encoding="ascii") as f:
                f.write(READER)
            os.chmod(path, 0o755)
        self.annotations = os.path.join(mount.folder, "own.ferry")
        with open(self.annotations, "w", encoding="ascii") as f:
            f.write(ANNOTATIONS)

    def __call__(self, ferry, name, words, shell=True, **more):
        """Prints, status and the differences of the counts."""
        argv = [os.path.join(self.mount.folder, name), *words]
        if shell:
            argv = ["/bin/sh", "-c", '"$@"; exit $?', "sh", *argv]
        if ferry:
            argv = [os.path.join(mounts.BUILD, "ferry"), "run", "--annotations",
                    self.annotations, "--", *argv]
        before = self.mount.report()
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              check=False, **more)
        after = self.mount.report()
        return (done.stdout + done.stderr, done.returncode), {
            key: after.get(key, 0) - before.get(key, 0)
            for key in ("waited", "named_files", "used_files", "requests", "request read",
                        "request list", "request fetch")}


def paths(mount):
    return ["%s/d%02d/e/f" % (mount.mnt, i) for i in ORDER]


def fresh(work):
    """A mount that knows nothing."""
    with mounts.Mount("ferry", fault="both,delay=15ms") as mount:
        fill(mount.export)
        return work(Run(mount))


def none(_):
    return {}


def compare(what, name, words, most, shell=True, more=none):
    """The command prints the same and waits less; most: number of waits."""
    same, plain = fresh(lambda run: run(False, name, words(run.mount), shell, **more(run)))
    said, counts = fresh(lambda run: run(True, name, words(run.mount), shell, **more(run)))
    tap.ok(what + ": output", same == said, (same, said))
    tap.ok(what + ": waits", counts["waited"] <= most < plain["waited"], (plain, counts))
    return counts


def inside(run):
    return {"cwd": run.mount.mnt + "/d00"}


def relative(mount):
    return ["../d%02d/e/f" % i for i in ORDER if i] + ["--list=e/f"]


def above(mount):
    return ["mnt/d%02d/e/f" % i for i in ORDER]


def guessed():
    """Commands without annotation."""
    for what, words, shell, more in (
            ("by a shell", paths, True, none), ("the first command", paths, False, none),
            ("below the mount", relative, True, inside),
            ("above the mount", above, True, lambda run: {"cwd": run.mount.folder})):
        counts = compare(what, "fy-plain", words, 2, shell, more=more)
        tap.ok(what + ": files", counts["named_files"] >= FOLDERS - 1 and
               counts["request read"] <= 1, counts)


def annotated():
    """`never' keeps it here; its trees are read, or only walked."""
    counts = compare("files of an annotation", "fy-reads", paths, 2)
    tap.ok("files of an annotation: files", counts["named_files"] >= FOLDERS - 1, counts)

    def tree(ferry):
        return fresh(lambda run: run(ferry, "fy-reads", [run.mount.mnt + "/tree"]))
    plain = tree(False)[0]
    said, counts = tree(True)
    tap.ok("a tree: output", plain == said, (plain, said))
    tap.ok("a tree: files", counts["named_files"] >= 80 and counts["waited"] <= 2 and
           counts["request read"] <= 1, counts)
    said, counts = fresh(lambda run: run(True, "fy-walks", [run.mount.mnt + "/tree"]))
    tap.ok("`walks': no files", counts["named_files"] == 0 and len(said[0].split()) == 162, counts)


def bad(mount):
    """Words that lead nowhere, or to too much."""
    os.mkfifo(mount.export + "/fifo")
    os.symlink("d00", mount.export + "/link")
    os.symlink("loop", mount.export + "/loop")
    os.symlink("/etc/hostname", mount.export + "/out")
    with open(mount.export + "/large", "wb") as f:
        f.truncate(1 << 40)
    os.mkdir(mount.export + "/many")
    for i in range(3000):
        with open("%s/many/%d" % (mount.export, i), "wb") as f:
            f.write(b"x" * 9000)
    root = mount.mnt
    return [root + "/none", root + "/none/none", root + "/d00/e/f/g", root + "/link/e/f",
            root + "/loop", root + "/d00/../d01/e/f", root + "/" + "n" * 255,
            root + "/" + "n" * 300, root + "/x" * 2500, "/" * 5000, root + "x/y", "--=", "-", "=",
            "", root + "/\udcff\udcfe", root + "/d00/e", root + "\n/d01", "x" * 100000]


def wrong():
    """None of it changes what the command prints, and little is fetched."""
    def words(run):
        given = bad(run.mount)
        return [run(ferry, name, given)[0] for ferry, name in
                ((False, "fy-plain"), (True, "fy-plain"), (True, "fy-reads"))]
    said = fresh(words)
    tap.ok("wrong words: output", said[0] == said[1] == said[2], said)

    def many(run):
        bad(run.mount)
        argv = ["/bin/true"] + ["%s/many/%d" % (run.mount.mnt, i) for i in range(3000)]
        argv += [run.mount.mnt + "/large", run.mount.mnt + "/fifo", run.mount.mnt + "/out",
                 run.mount.mnt + "/many"] + ["%s/none/%d" % (run.mount.mnt, i) for i in range(3000)]
        counts = []
        for _ in range(8):
            counts.append(run(True, "../../" * 9 + "bin/true", argv[1:])[1])
        return counts
    counts = fresh(many)
    total = sum(count["named_files"] for count in counts)
    tap.ok("files that no program reads become fewer", 10 <= total <= 500 and
           counts[-1]["named_files"] <= 50 and
           all(count["requests"] <= 60 for count in counts), counts)


def others():
    """A mount of another user, one that does not answer and one that has ended."""
    def user(run):
        words = paths(run.mount)
        os.chmod(run.mount.folder, 0o755)
        more = {"user": 65534, "group": 65534, "extra_groups": [],
                "env": dict(os.environ, HOME="/nonexistent", XDG_CACHE_HOME="/nonexistent",
                            XDG_RUNTIME_DIR="/nonexistent", TMPDIR="/tmp")}
        return run(False, "fy-plain", words, **more)[0], run(True, "fy-plain", words, **more)
    plain, (said, counts) = fresh(user)
    tap.ok("another user's mount", plain == said and counts["named_files"] == 0,
           (plain, said, counts))

    def stopped(run):
        pid = run.mount.pids("ferry-mount")[0]
        script = "kill -STOP %d; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do " \
            "/usr/bin/printf '%%s\n' %s/d0$i/e/f; done; kill -CONT %d" % (pid, run.mount.mnt, pid)
        try:
            return subprocess.run([os.path.join(mounts.BUILD, "ferry"), "run", "--", "/bin/sh",
                                   "-c", script], capture_output=True, text=True,
                                  timeout=mounts.patient(60), check=False)
        except subprocess.TimeoutExpired:
            return None
        finally:
            os.kill(pid, signal.SIGCONT)
    done = fresh(stopped)
    tap.ok("nothing waits for a mount", done and done.returncode == 0 and not done.stderr and
           len(done.stdout.split()) == 20, done)

    def killed(run):
        words = paths(run.mount)
        script = '"$@"; kill -KILL %d; "$@"; exit $?' % run.mount.pids("ferry-mount")[0]
        return subprocess.run([os.path.join(mounts.BUILD, "ferry"), "run", "--", "/bin/sh", "-c",
                               script, "sh", os.path.join(run.mount.folder, "fy-plain"), *words],
                              capture_output=True, text=True, check=False)
    done = fresh(killed)
    tap.ok("a mount that ends meanwhile", done.returncode == 0 and not done.stderr and
           [int(word) > 999 for word in done.stdout.split()] ==
           [True] * FOLDERS + [False] * FOLDERS, done)


def main():
    reason = mounts.why_not("ferry")
    for case in (guessed, annotated, wrong, others):
        if reason:
            tap.skip(case.__name__, reason)
        else:
            case()
    tap.finish()


if __name__ == "__main__":
    main()
