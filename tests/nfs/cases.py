# SPDX-License-Identifier: Apache-2.0
"""Commands on the kernel's NFS, plain and under ferry; within tests/nfs/guest.

  cases.py [--only REGEX] [--version VERSION]...

A case has a folder of its own for each run, made at the server as root. What the runs
print, and what lies at the server afterwards, must be the same. Cases that differ in
the export alone (ro, all_squash, ...) have an export of their own each.
Ends with `N passed, N failed, N skipped'.
"""
import argparse
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(os.path.dirname(HERE), "pipeline"), os.path.dirname(HERE)]
sys.dont_write_bytecode = True

import chosen  # noqa: E402
import rig as rigs  # noqa: E402
from patience import patient  # noqa: E402

USER = 1001
TRIES = 3  # of what ferry did not find out in time, as this machine is emulated
LINES = "".join("line %d\n" % n for n in (3, 1, 2, 5, 4))
# A program that holds w open for appending, and runs a command that changes it.
HOLDER = """python3 -c 'import os, subprocess
w = os.open("w", os.O_WRONLY | os.O_APPEND | os.O_TRUNC)
os.write(w, b"first\\n")
subprocess.run(%s)
os.write(w, b"last\\n")'; od -c w"""
LATE = "files that it reads here do not answer|does not answer in time"
# Shell commands that run in the folder; F: what each made before, at the server.
# PLACED: a command that must have run at the server.
CASES = {
    "between": ("{ echo head; sort f; echo tail; } >o; cat o | od -c", "sort f"),
    "between-stderr": ("{ echo head >&2; sort f nothing; echo tail >&2; } >o 2>&1; od -c o", ""),
    "append-sort": (HOLDER % '["sort", "-o", "w", "g"]', "sort -o w g"),
    "append-dd": (HOLDER % ('["dd", "if=g", "of=w", "conv=notrunc", "oflag=append", '
                            '"status=none"]'), "dd if=g of=w"),
    "mapped": (
        "python3 -c 'import mmap, os, subprocess\n"
        "w = os.open(\"w\", os.O_RDONLY)\n"
        "m = mmap.mmap(w, 4, prot=mmap.PROT_READ)\n"
        "print(m[:4])\n"
        "subprocess.run([\"sort\", \"-o\", \"w\", \"g\"])\n"
        "print(os.pread(w, 99, 0), m[:4])'", "sort -o w g"),
    "missing-tee": ("for n in $(seq 8); do [ -e x$n ]; tee x$n <f >/dev/null; echo new >x$n; done; "
                    "cat x*", ""),
    "missing-cp": ("for n in 1 2 3 4; do [ -e y$n ]; cp f y$n; echo new >y$n; done; cat y*",
                   "cp f y1"),
    "removed-read": ("while read -r line; do echo \"$line\"; rm -f f; done <f; echo $?", ""),
    "removed-held": ("exec 7<f; rm f; cat <&7", ""),
    "replaced-held": ("exec 7<f; mv -f g f; cat <&7; cat f", ""),
    "folder-held": ("mkdir d; echo in >d/i; exec 7<d/i; rm -r d; cat <&7; ls", ""),
    "delegated": ("exec 7<f; read -r x <&7; exec 7<&-; truncate -s 3 f; echo $?; od -c f",
                  "truncate -s 3 f"),
    "made-and-read": ("cp f n; cat n; truncate -s 3 n; cat n; mv n m; cat m; ls", "cp f n"),
}


class Cases:
    def __init__(self, rig, version, only):
        self.rig, self.version, self.only = rig, version, only
        self.passed = self.failed = self.count = 0
        self.ferry = os.path.join(rig.build, "ferry")
        for folder in (rig.work, rig.folder + "/run"):  # an ordinary user's, too
            os.chmod(folder, 0o1777)

    def say(self, name, trouble):
        name = "v%s %s" % (self.version, name)
        if not trouble:
            self.passed += 1
            print("ok - " + name, flush=True)
            return
        self.failed += 1
        chosen.failed(name)
        print("not ok - " + name, flush=True)
        for text in trouble:
            print("    " + text[:800], flush=True)

    def takes(self, name):
        name = "v%s %s" % (self.version, name)
        return re.search(self.only, name) and chosen.chosen(name)

    def run(self, script, folder, ferry, who, options):
        argv = ["bash", "-c", 'cd "$1" && eval "$2"', "bash", folder, script]
        if ferry:
            argv = [self.ferry, "run", "--force", "--explain", "--report=/dev/null", *options,
                    "--", *argv]
        argv = who + argv
        # The client's own /tmp, where no stage's is.
        done = self.rig.call("client", argv, capture_output=True, text=True, errors="replace",
                             timeout=patient(300),
                             env=dict(os.environ, LC_ALL="C.UTF-8", HOME=self.rig.work,
                                      TMPDIR=self.rig.folder + "/run",
                                      PATH=self.rig.folder + "/bin:/usr/bin:/bin:/usr/sbin",
                                      XDG_CACHE_HOME=self.rig.work + "/cache%d" % len(who)))
        said = [line for line in done.stderr.splitlines(True)]
        log = [line for line in said if re.match(r"ferry: |    ", line)]
        rest = [line for line in said if line not in log]
        return done.returncode, done.stdout, "".join(rest), "".join(log)

    def compare(self, name, script, make, export=None, mount=None, placed="", here="",
                who=(), options=None):
        """`make(folder)' fills one at the server; `here': a reason that must be told."""
        if not self.takes(name):
            return
        export, mount = export or self.rig.export, mount or self.rig.mnt
        if options is None:
            options = ["--mount", self.rig.mount_option()]
        seen = {}
        for side in "p" + TRIES * "f":
            self.count += 1
            top = "%s%d" % (side, self.count)
            folder = os.path.join(export, top)
            self.at_server("mkdir", folder)
            make(folder)
            status, out, err, log = self.run(script, os.path.join(mount, top), side == "f",
                                             list(who), options)
            text = lambda t: t.replace(top, "TOP")  # noqa: E731
            seen[side] = status, text(out), text(err), self.tree(folder)
            if side == "f" and (seen["p"] != seen["f"] or not re.search(LATE, log)):
                break
        trouble = ["%s: %r, plain %r" % (what, other, plain)
                   for what, plain, other in zip(("status", "stdout", "stderr", "files"),
                                                 seen["p"], seen["f"])
                   if plain != other]
        if placed and not re.search(r" " + re.escape(placed) + r".*: at ", log):
            trouble.append("not placed: " + placed)
        if here and not re.search(here, log):
            trouble.append("another reason than " + here)
        self.say(name, trouble + [log] if trouble else [])

    def at_server(self, *argv):
        self.rig.must("storage", *argv)

    def tree(self, folder):
        """All below a folder as the server has it, settled by the client before."""
        done = self.rig.call("storage", ["sh", "-c", (
            "cd \"$1\" && sync -f . && find . ! -name '.nfs*' -printf '%P %y %m %U %s\\n' | sort &&"
            " find . -type f ! -name '.nfs*' | sort | xargs -r od -An -c"), "sh", folder],
            capture_output=True, text=True)
        return done.stdout

    def plain_files(self, folder):
        self.at_server("sh", "-c", "cd \"$1\" && printf %s \"$2\" | tee f g s w >/dev/null",
                       "sh", folder, LINES)

    def all(self):
        for name, (script, placed) in CASES.items():
            self.compare(name, script, self.plain_files, placed=placed)
        self.exports()

    # ---- exports that are not as usual ---------------------------------------

    def export(self, name, options, mount=True):
        """An export with these options; its folder at the server and the client's mount."""
        export = os.path.join(self.rig.folder, "storage", name)
        mnt = os.path.join(self.rig.folder, "client", name)
        self.at_server("mkdir", "-p", export)
        self.rig.must("client", "mkdir", "-p", mnt)
        self.rig.export_nfs(options, export)
        if mount:
            self.rig.mount_nfs(export, mnt)
        return {"export": export, "mount": mnt, "options":
                ["--no-discover", "--mount",
                 self.rig.mount_option().replace(self.rig.mnt + "=", mnt + "=").replace(
                     self.rig.export + "?", export + "?")]}

    def exports(self):
        if any(self.takes(name) for name in ("ro", "ro-reads")):
            ro = self.export("ro", "ro,no_root_squash")
            self.compare("ro", "truncate -s 2 f; echo $?; cat f", self.plain_files, **ro)
            self.compare("ro-reads", "sort f", self.plain_files, placed="sort f", **ro)
        if any(self.takes(name) for name in ("squash", "squash-makes")):
            squash = self.export("squash", "rw,all_squash")

            def secret(folder):
                self.plain_files(folder)
                self.at_server("chmod", "777", folder)
                self.at_server("chmod", "600", folder + "/f")
            self.compare("squash", "sort f", secret, **squash)
            self.compare("squash-makes", "cp g n; stat -c %U n", secret, **squash)
        if self.takes("anonuid"):
            self.compare("anonuid", "cp g n; stat -c %U n", self.open_folder,
                         **self.export("anonuid", "rw,root_squash,anonuid=%d" % USER))
        if self.takes("below"):
            below = self.export("below", "rw,no_root_squash")

            def mounted(folder):
                self.at_server("mkdir", folder + "/d")
                self.at_server("sh", "-c", "echo under >$1/d/i; mount -t tmpfs fyover $1/d; "
                               "echo over >$1/d/i", "sh", folder)
            self.compare("below", "sort d/i; cat d/i; sort <d/i; ls d", mounted, **below)
        self.groups()
        self.pseudo()

    def open_folder(self, folder):
        self.plain_files(folder)
        self.at_server("chmod", "777", folder)

    def user(self, *groups):
        return ["setpriv", "--reuid", str(USER), "--regid", str(USER), "--groups",
                ",".join(map(str, groups)) or str(USER)]

    def groups(self):
        """An ordinary user, of whose groups client and server say the same, or not."""
        for name, there, here in (("groups-alike", (USER, 2002), (USER, 2002)),
                                  ("groups-fewer", (USER,), (USER, 2002)),
                                  ("groups-more", (USER, 2002), (USER,))):
            if not self.takes(name):
                continue
            self.rig.relay(self.user(*there))

            def shared(folder):
                self.open_folder(folder)
                self.at_server("sh", "-c", "cd $1 && chown 0:2002 f && chmod 640 f", "sh", folder)
            self.compare(name, "sort f; sort g", shared, who=self.user(*here),
                         placed="sort g" if name == "groups-alike" else "")
            self.rig.relay()

    def pseudo(self):
        """v4: a path that means another folder to the server's programs."""
        if self.version == "3" or not self.takes("pseudo"):
            return
        top = os.path.join(self.rig.folder, "storage/nfs4")
        self.at_server("mkdir", "-p", top + "/fyproj")
        self.at_server("chown", str(USER), top + "/fyproj")
        # One pseudo root a server: it is that of this rig from now on.
        self.rig.export_nfs("rw,no_root_squash,fsid=0,crossmnt", top)
        mnt = os.path.join(self.rig.folder, "client/pseudo")
        self.rig.must("client", "mkdir", mnt)
        self.rig.mount_nfs("/fyproj", mnt)
        self.rig.relay(self.user())
        os.makedirs(self.rig.folder + "/bin", exist_ok=True)
        subprocess.run(["cp", self.rig.folder + "/keys/relay", self.rig.folder + "/bin/ssh"],
                       check=True)

        def copied(folder):
            """/fyproj looks just like the export, and holds other contents."""
            self.at_server("sh", "-c", (
                "echo right >$1/f; chown %d $1 $1/f; rm -rf /fyproj; cp -a $2/fyproj /; "
                "echo wrong >/fyproj/${1##*/}/f") % USER, "sh", folder, top)
        self.compare("pseudo", "sort f; echo more | tee -a f; cat f", copied,
                     export=top + "/fyproj", mount=mnt, who=self.user(), options=[])
        seen = self.rig.call("storage", ["sh", "-c", "cat /fyproj/f*/f; rm -r /fyproj"],
                             capture_output=True, text=True)
        self.say("pseudo-unchanged", [seen.stdout] if seen.stdout != "wrong\n" else [])
        self.rig.relay()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", default="", metavar="REGEX")
    parser.add_argument("--version", action="append")
    a = parser.parse_args()
    passed = failed = skipped = 0
    for version in a.version or ("3", "4.2"):
        try:
            with rigs.Rig("nfs", shape=False, options=["vers=" + version]) as rig:
                cases = Cases(rig, version, a.only)
                cases.all()
                passed, failed = passed + cases.passed, failed + cases.failed
        except rigs.Trouble as e:
            skipped += 1
            print("skip v%s: %s" % (version, e))
    return chosen.close(passed, failed, skipped)


if __name__ == "__main__":
    sys.exit(main())
