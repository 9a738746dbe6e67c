# SPDX-License-Identifier: Apache-2.0
"""Runs a script plain and under ferry on a rig, and finds every difference.

Each script has a folder of its own on the mount (M, where it starts) and one on
the client (L), filled with the same tree; the names of the two runs' folders
differ in one letter, which is put back before comparing. Compared are stdout,
stderr, the exit status, what was left running, and both folders: kind, mode,
owner, links, content, and the times that are older than the run.
"""
import base64
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import threading
import time
import zlib

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)),
                os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]

import chosen  # noqa: E402
from patience import patient  # noqa: E402
import signal

# A shell's background and nohup ignore these; the scripts' commands die by them.
for number, action in ((signal.SIGINT, signal.default_int_handler),
                       (signal.SIGQUIT, signal.SIG_DFL), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, action)


HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = "/usr/bin/python3"
# What shells say of a child that a signal ended: "script: line 3: 1234 Killed".
PIDS = re.compile(rb"(line \d+: +|^ +|^\[\d+\] *[-+]? *)\d+ ", re.M)
OLD = 1577836800  # the files' times: 2020-01-01 and on


def below(pid):
    """The processes that descend from one."""
    children = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/stat" % name, "rb") as f:
                parent = int(f.read().rsplit(b")", 1)[1].split()[1])
        except (OSError, IndexError):
            continue
        children.setdefault(parent, []).append(int(name))
    found = children.get(pid, [])
    for each in found:
        found += children.get(each, [])
    return found


class Side:
    """One worker on the client: plain, or under ferry."""

    def __init__(self, rig, letter, ferry=None, report=None, options=()):
        self.rig, self.letter, self.ferry = rig, letter, ferry
        self.report, self.options = report, list(options)
        self.process, self.lock = None, threading.Lock()
        self.reports, self.sessions = [], 0

    def command(self):
        worker = [PYTHON, os.path.join(HERE, "worker.py")]
        if not self.ferry:
            return worker
        report = []
        if self.report:
            self.reports.append("%s.%d" % (self.report, self.sessions))
            report = ["--report=" + self.reports[-1]]
        return [self.ferry, "run", *report, *self.options, "--", *worker]

    def start(self):
        self.sessions += 1
        # Nothing of the session lies in /tmp: scripts may put another there.
        env = dict(os.environ, LC_ALL="C.UTF-8",
                   TMPDIR=os.path.join(self.rig.folder, "run"),
                   XDG_CACHE_HOME=os.path.join(self.rig.folder, "run/cache"))
        self.log = open(os.path.join(self.rig.folder, "run/worker-%s.log" %
                                     self.letter), "ab")
        self.said_before = self.log.tell()
        self.process = self.rig.popen(
            "client", self.command(), stdin=subprocess.PIPE, env=env,
            stdout=subprocess.PIPE, stderr=self.log, start_new_session=True)

    def run(self, job):
        """The answer of worker.py, or {"trouble": text}."""
        job = dict(job, timeout=patient(job["timeout"]), linger=patient(20))
        with self.lock:
            if not self.process:
                self.start()
            timer = threading.Timer(job["timeout"] + 15, self.kill)
            timer.start()
            try:
                self.process.stdin.write(json.dumps(job).encode() + b"\n")
                self.process.stdin.flush()
                line = self.process.stdout.readline()
            except OSError:
                line = b""
            finally:
                timer.cancel()
            if line:
                return json.loads(line)
            status = self.stop()
            return {"trouble": "the session ended (status %s): %s" % (
                status, self.said())}

    def kill(self):
        """All of it, down to what has our end of the pipe: nsenter is only the
        parent of what it runs."""
        process = self.process
        for pid in [*below(process.pid), process.pid] if process else []:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def said(self):
        with open(self.log.name, "rb") as f:
            f.seek(self.said_before)
            return f.read()[-500:].decode(errors="replace").strip()

    def stop(self):
        """Ends the session; its exit status, or None when it had to be
        killed."""
        process = self.process
        if not process:
            return 0
        try:
            process.stdin.close()
        except OSError:
            pass
        try:
            status = process.wait(patient(60))
        except subprocess.TimeoutExpired:
            self.kill()
            process.wait()
            status = None
        self.process = None
        process.stdout.close()
        return status


def write(path, content, mode=0o644):
    with open(path, "wb") as f:
        f.write(content)
    os.chmod(path, mode)


class Bench:
    """A rig with two sides, and numbered folders for scripts."""

    def __init__(self, rig, fill, ferry=None, report=None, options=(),
                 mount=True, first=0, loose=False, environment=()):
        """`fill(folder, local, view)' makes the tree of one script. `loose':
        stages that run at once may complain in any order. `environment' is
        that of the other side's scripts alone."""
        self.environment = dict(environment)
        self.rig, self.fill = rig, fill
        if mount and ferry:
            options = [*rig.mount_options(), *options]
        self.plain = Side(rig, "p")
        self.other = Side(rig, "f", ferry, report, options)
        self.loose = loose
        self.number, self.lock = first, threading.Lock()
        self.began = time.time()

    def prepare(self):
        with self.lock:
            self.number += 1
            number = self.number
        data = self.rig.data()
        for letter in "pf":
            name = "%s%07d" % (letter, number)
            folder = os.path.join(data, name)
            local = self.local(name)
            os.mkdir(folder)
            os.makedirs(local)
            self.fill(folder, local, os.path.join(self.rig.work, name))
            for seed, (export, _) in enumerate(self.rig.others(), 1):
                folder = os.path.join(self.rig.data(export), name)
                os.mkdir(folder)
                fill_other(folder, seed)
        return number

    def local(self, name):
        return os.path.join(self.rig.work, name)

    def job(self, number, letter, argv, script, cwd="mnt", env=None,
            timeout=60, **more):
        """`script' is put on the client; SCRIPT in argv stands for it."""
        name = "%s%07d" % (letter, number)
        mnt = os.path.join(self.rig.mnt, name)
        work = os.path.join(self.rig.work, name)
        write(os.path.join(self.local(name), "script"), script)
        values = {"M": mnt, "L": work, "HOME": work, "TERM": "xterm",
                  "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
                  "LC_ALL": "C.UTF-8"}
        for variable, (_, mount) in zip("NO", self.rig.others()):
            values[variable] = os.path.join(mount, name)
        values.update(env or {})
        if letter == "f":
            values.update(self.environment)
        if more.get("stdin"):
            more["stdin"] = os.path.join(mnt, more["stdin"])
        return dict(more, argv=[work + "/script" if a == "SCRIPT" else a
                                for a in argv],
                    cwd=work if cwd == "local" else mnt, env=values,
                    work=work, timeout=timeout)

    def run(self, argv, script, races=(), **how):
        """Both runs: (list of differences, plain answer, other answer). `races':
        scripts that do one thing that the script may do, by who is first; stderr
        may be that of one of them, run plain."""
        number = self.prepare()
        answers = {}

        def one(side):
            answers[side.letter] = side.run(
                self.job(number, side.letter, argv, script, **how))
        second = threading.Thread(target=one, args=(self.other,))
        second.start()
        one(self.plain)
        second.join()
        found = self.differences(number, answers)
        if "trouble" not in answers["f"]:
            left = self.left("f%07d" % number)
            if left:
                found.append("left running: " + ", ".join(left))
        if found and all(text.startswith("stderr: ") for text in found) and any(
                self.is_as_if(number, answers["f"], argv, other, **how) for other in races):
            found = []
        if not found:
            self.forget(number)
        return found, answers["p"], answers["f"]

    def forget(self, number):
        for letter in "pf":
            name = "%s%07d" % (letter, number)
            for folder in (*(os.path.join(root, name) for _, root in
                             self.roots()), self.local(name)):
                shutil.rmtree(folder, ignore_errors=True)

    def roots(self):
        """The exports, by what they are called."""
        return [("mount", self.rig.data()),
                *(("mount " + os.path.basename(mount), self.rig.data(export))
                  for export, mount in self.rig.others())]

    # ---- comparing --------------------------------------------------------

    def left(self, name, seconds=20):
        """What still runs for a script, on either host; it may be ending."""
        mark = os.fsencode("/" + name)
        ours = {os.readlink("/proc/%d/ns/pid" % pid)
                for pid in self.rig.hosts.values()}
        deadline = time.monotonic() + patient(seconds)
        while True:
            found = []
            for pid in os.listdir("/proc"):
                try:
                    if (pid.isdigit() and mark in os.fsencode(
                            os.readlink("/proc/%s/cwd" % pid)) and
                            os.readlink("/proc/%s/ns/pid" % pid) in ours):
                        with open("/proc/%s/cmdline" % pid, "rb") as f:
                            found.append(f.read().replace(b"\0", b" ").decode(
                                errors="replace").strip())
                except OSError:
                    pass
            if not found or time.monotonic() > deadline:
                return sorted(found)
            time.sleep(0.02)

    def is_as_if(self, number, other, argv, script, **how):
        """Whether another script, run plain, does what the other side did in `number'."""
        again = self.prepare()
        plain = self.plain.run(self.job(again, "p", argv, script, **how))
        for letter, folder in (("f", number), ("p", again)):
            write(os.path.join(self.local("%s%07d" % (letter, folder)), "script"), b"")
        same = not self.differences(number, {"p": plain, "f": other}, again)
        self.forget(again)
        return same

    def differences(self, number, answers, plain_number=None):
        plain, other = answers["p"], answers["f"]
        for name, answer in (("plain", plain), ("ferry", other)):
            if "trouble" in answer:
                return ["%s: %s" % (name, answer["trouble"])]
        old, new = b"f%07d" % number, b"p%07d" % (plain_number or number)
        found = []
        if plain["status"] != other["status"]:
            found.append("status %s, plain %s" % (other["status"],
                                                  plain["status"]))
        for name, a, b in zip(("stdout", "stderr"), plain["texts"],
                              other["texts"]):
            a = base64.b64decode(a)
            b = base64.b64decode(b).replace(old, new)
            a, b = PIDS.sub(rb"\1PID ", a), PIDS.sub(rb"\1PID ", b)
            if self.loose and name == "stderr":
                # Even within a line: they write the name and the rest apart.
                a, b = bytes(sorted(a)), bytes(sorted(b))
            if a != b:
                found.append(name + ": " + first_difference(a, b))
        if "timed out" in plain["notes"]:
            found.append("the plain run timed out")
        if plain["notes"] != other["notes"]:
            found.append("%s, plain %s" % (other["notes"], plain["notes"]))
        for what, root in (*self.roots(), ("client", self.rig.work)):
            trees = [self.look(os.path.join(os.fsencode(root), name), old, new)
                     for name in (new, old)]
            for path in sorted(set(trees[0]) | set(trees[1])):
                a, b = trees[0].get(path), trees[1].get(path)
                if a != b:
                    found.append("%s file %r: %s, plain %s" % (what, path, b,
                                                               a))
        return found

    def look(self, root, old, new):
        """{path: what it is} of everything below a folder."""
        seen = {}
        for folder, names, files in os.walk(root):
            for name in names + files:
                path = os.path.join(folder, name)
                seen[os.path.relpath(path, root)] = self.entry(path, old, new)
        seen[b"."] = self.entry(root, old, new)
        return seen

    def entry(self, path, old, new):
        try:
            s = os.lstat(path)
        except OSError as e:
            return str(e)
        what = [stat.filemode(s.st_mode), s.st_uid, s.st_gid,
                "new" if s.st_mtime > self.began - 5 else s.st_mtime_ns]
        if stat.S_ISLNK(s.st_mode):
            what.append(os.readlink(path).replace(old, new))
            what[3] = ""
        elif stat.S_ISREG(s.st_mode):
            content = b""
            if s.st_size < 100 << 20:
                with open(path, "rb") as f:
                    content = f.read().replace(old, new)
            if path.endswith(b"/.git/index"):
                content = b""  # has inodes and times of change
            size, content = self.timeless(s.st_size, content)
            what += [s.st_nlink, size,
                     hashlib.sha256(content).hexdigest()[:12],
                     content[:60]]
        return what

    def timeless(self, size, content):
        """(size, content) of a file. An archive with a time of this run is
        what it holds: gzip and tar keep the times of files, and the two runs
        may fall into two seconds."""
        def when(t):
            return "new" if t > self.began - 5 else t
        inner, kinds = content, []
        try:
            if inner[:2] == b"\x1f\x8b":
                kinds.append(when(int.from_bytes(inner[4:8], "little")))
                inner = gzip.decompress(inner)
            if inner[257:262] == b"ustar":
                with tarfile.open(fileobj=io.BytesIO(inner)) as archive:
                    members = [
                        (m.name, m.mode, m.uid, m.gid, m.size, m.type,
                         m.linkname, when(m.mtime),
                         m.isreg() and archive.extractfile(m).read())
                        for m in archive]
                kinds += [m[7] for m in members]
                inner = repr(members).encode()
        except (tarfile.TarError, OSError, EOFError, zlib.error):
            pass
        return ("archive", inner) if "new" in kinds else (size, content)


def first_difference(a, b):
    """Where two outputs part, for people."""
    i = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y),
             min(len(a), len(b)))
    start = max(0, a.rfind(b"\n", 0, i) + 1)
    return "from byte %d of %d, plain %d: %r, plain %r" % (
        i, len(b), len(a), b[start:i + 120], a[start:i + 120])


# ---- reports ----------------------------------------------------------------

def stages(reports):
    """Every stage of the sessions' JSON reports, and what was wrong."""
    found, wrong = [], []
    for path in reports:
        try:
            with open(path, encoding="utf-8", errors="surrogateescape") as f:
                found.append(json.load(f).get("stages", []))
        except (OSError, ValueError) as e:
            found.append([])
            wrong.append("%s: %s" % (os.path.basename(path), e))
    return found, wrong


def is_placed(stage):
    return bool(stage.get("placed")) and not stage.get("declined")


# ---- the tree ----------------------------------------------------------------

WORDS = ("apple banana cherry date elder fig grape hazel iris juniper kiwi "
         "lemon mango nettle olive pear quince rose sage thyme umber violet "
         "willow yarrow zinnia").split()


class Numbers:
    """A small generator of its own: the same tree on every machine."""

    def __init__(self, seed):
        self.state = seed * 2654435761 % (1 << 32) or 1

    def __call__(self, below):
        self.state ^= self.state << 13 & 0xffffffff
        self.state ^= self.state >> 17
        self.state ^= self.state << 5 & 0xffffffff
        return self.state % below


def contents():
    n = Numbers(7)

    def words(lines):
        return "".join("%s %s %d\n" % (WORDS[n(25)], WORDS[n(25)], n(1000))
                       for _ in range(lines)).encode()
    log = "".join(
        '10.0.%d.%d - - [01/Jan/2020:%02d:%02d:%02d] "GET /%s/%s HTTP/1.1" '
        "%d %d\n" % (n(3), n(9), n(24), n(60), n(60), WORDS[n(5)],
                     WORDS[n(25)], (200, 200, 200, 304, 404, 500)[n(6)],
                     n(90000)) for _ in range(1500)).encode()
    return {
        b"a.txt": words(100), b"b.txt": words(80),
        b"c.txt": words(9)[:-1],  # no final newline
        b"nums": "".join("%d\n" % n(100000) for _ in range(1000)).encode(),
        b"log": log, b"empty": b"", b"one": b"one line\n",
        b"crlf.txt": b"first\r\nsecond\r\n",
        b"tabs": b"".join(b"%d\t%s\t%d\n" % (i, WORDS[i % 25].encode(),
                                             n(99)) for i in range(60)),
        b"sorted1": "".join(sorted(w + "\n" for w in WORDS[:18])).encode(),
        b"sorted2": "".join(sorted(w + "\n" for w in WORDS[9:])).encode(),
        b"binary": bytes(n(256) for _ in range(4000)),
        b"data.json": b'{"name": "x", "list": [1, 2, {"deep": true}]}\n' * 3,
        b"with space.txt": words(5), b"new\nline.txt": words(4),
        b"-dash": words(3), b"\xff\xfe.txt": words(3),
        b"*star": words(2), "héé.txt".encode(): words(3),
        b"sub/one.txt": words(20), b"sub/two.txt": words(20),
        b"sub/deep/three.txt": words(10), b"sub/deep/.hidden": words(2),
        b"sub/deep/code.c": b"#include <stdio.h>\nint main(void)\n{\n"
                            b"\tputs(\"hello\");\n\treturn 0;\n}\n",
        b"run.sh": b"#!/bin/sh\necho \"$0 $*\"\nexit 3\n",
    }


CONTENTS = contents()


def fill(folder, local, view):
    """The tree of a case; `view' is what the client calls `local'."""
    top = os.fsencode(folder)
    os.makedirs(os.path.join(top, b"sub/deep"))
    os.mkdir(os.path.join(top, b"nothing"))
    for name, content in CONTENTS.items():
        write(os.path.join(top, name), content,
              0o755 if name == b"run.sh" else 0o644)
    os.link(os.path.join(top, b"one"), os.path.join(top, b"one.hard"))
    for name, target in ((b"link", b"a.txt"), (b"sub/up", b".."),
                         (b"dangling", b"nowhere"),
                         (b"abs", os.fsencode(view) + b"/local.txt"),
                         (b"outside", os.fsencode(view)),
                         (b"sub/back", b"../b.txt")):
        os.symlink(target, os.path.join(top, name))
    write(os.path.join(local, "local.txt"), CONTENTS[b"b.txt"][:300])
    write(os.path.join(local, "big"), CONTENTS[b"log"] * 2)
    os.mkdir(os.path.join(local, "dir"))
    age(top)
    age(os.fsencode(local))


def fill_other(folder, seed):
    """What a case finds on a further mount: the same names, other contents."""
    top = os.fsencode(folder)
    os.makedirs(os.path.join(top, b"sub/deep"))
    for name in (b"a.txt", b"b.txt", b"c.txt", b"nums", b"log", b"empty",
                 b"binary", b"with space.txt", b"-dash", b"crlf.txt",
                 b"sub/one.txt", b"sub/deep/three.txt"):
        lines = CONTENTS[name].split(b"\n")
        write(os.path.join(top, name), b"\n".join(
            lines[seed:-1][::-1] + lines[-1:]))
    write(os.path.join(top, b"only%d" % seed), b"apple only %d" % seed)
    age(top)


def age(top):
    """Gives all of it old times; os.walk names links to folders as folders."""
    for i, (folder, below, files) in enumerate(sorted(os.walk(top, topdown=False))):
        links = [n for n in below if os.path.islink(os.path.join(folder, n))]
        for j, name in enumerate(sorted(files + links)):
            os.utime(os.path.join(folder, name), (OLD, OLD + i * 100 + j),
                     follow_symlinks=False)
        os.utime(folder, (OLD, OLD + i))


def wanted(pattern, name):
    return chosen.chosen(name) and (not pattern or re.search(pattern, name))
