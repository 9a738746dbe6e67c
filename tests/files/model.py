#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Random operations of three programs on the mount and one at the storage, mirrored on a
plain tree: each result, and what all see afterwards, must be that of the plain tree.

  model.py [--seed S] [--calls N] [--seconds N] [--faults LIST] [--kind KIND] [--races]

Faults: cut (the link ends after some bytes, again and again), stall, proxy (the proxy is
killed), server (the process next to the files is killed), client (the mount is killed and
made anew: what was closed or synced is there), pause (SIGSTOP for a while). What the
storage's program changed is seen within mounts.SEEN_S. --races: the programs act at once;
afterwards the mount and the storage must show the same. Prints the seed and, where
something differs, the last operations. TAP."""
import argparse
import collections
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import mounts  # noqa: E402
import tap  # noqa: E402
from mounts import patient  # noqa: E402
from worker import Worker  # noqa: E402

CALL_S = patient(150.0)   # of one call, a broken link included
NAMES = ["a", "b", "c", "d.txt", "e.txt", "f", "\u00e4\u00f6", "a name"]
LOOKS = ("stat", "get", "list", "read", "size", "readlink", "getx", "open", "close", "sync",
         "lock", "unlock")
FOLDERS = ["", "", "p", "q", "p/r", "p/r/s"]


class Differs(Exception):
    """The mount and the model differ; the text says how."""


class Program:
    """A worker in a process of its own."""

    def __init__(self, name, root, wrap=()):
        self.name, self.root, self.wrap = name, root, wrap
        self.opens = {}  # number -> path, as opened
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [*self.wrap, sys.executable, os.path.join(mounts.HERE, "worker.py"), self.root],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def tell(self, *call):
        """Does it; its answer. A call that does not end is a difference."""
        timer = threading.Timer(CALL_S, self.process.kill)
        timer.start()
        try:
            self.process.stdin.write(json.dumps(call) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            timer.cancel()
        if not line:
            raise Differs("%s: %s does not end, or ends the program" % (self.name, call))
        return json.loads(line)

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Model:
    """See above."""

    def __init__(self, options, mount):
        self.random = random.Random(options.seed)
        self.options, self.mount = options, mount
        self.faults = [f for f in options.faults.split(",") if f]
        self.truth = Worker(mount.plain)
        self.history = collections.deque(maxlen=60)
        self.slowest = 0.0
        self.here = [Program("here%d" % i, mount.mnt) for i in range(3)]
        self.there = Program("storage", mount.export)
        self.number = 0
        self.held = {}  # number -> program
        self.mended, self.faults_made = time.monotonic(), 0
        self.locked = {}  # number -> program: may hold a lock
        self.lost = collections.Counter()  # program -> locks that a fault may have taken
        self.gone = set()  # inodes of which the storage's program removed a name
        self.n = 0

    # ---- choosing ---------------------------------------------------------

    def path(self):
        return os.path.join(self.random.choice(FOLDERS), self.random.choice(NAMES))

    def text(self):
        n = self.random.choice([0, 1, 10, 100, 4096, 5000, 70000, 140000])
        seed = self.random.randrange(1 << 30)
        return ("%x %d|" % (seed, self.n) * (n // 8 + 1))[:n]

    def offset(self):
        return self.random.choice([0, 1, 10, 4095, 4096, 5000, 131072, 150000])

    def choose(self):
        """(program, call)."""
        r = self.random
        program = r.choice([*self.here, self.there])
        mine = [n for n, p in self.held.items() if p is program]
        if mine and r.random() < 0.35:
            number = r.choice(mine)
            return program, r.choice([
                ("write", number, self.offset(), self.text()),
                ("write", number, self.offset(), self.text()),
                ("read", number, self.offset(), 5000), ("read", number, 0, 200000),
                ("sync", number), ("size", number), ("cut", number, self.offset()),
                ("close", number), ("close", number),
                ("lock", number, r.random() < 0.5), ("unlock", number)])
        if len(mine) < 3 and r.random() < 0.1:
            self.number += 1
            return program, ("open", self.number, self.path())
        a, b = self.path(), self.path()
        return program, r.choice([
            ("mkdir", r.choice(FOLDERS[2:])), ("mkdir", r.choice(FOLDERS[2:])),
            ("mkdir", a), ("rmdir", a), ("rmdir", r.choice(FOLDERS[2:])), ("unlink", a),
            ("unlink", a), ("rename", a, b), ("rename", a, b),
            ("rename", r.choice(FOLDERS[2:]), r.choice(FOLDERS[2:])), ("link", a, b),
            ("symlink", r.choice(NAMES), a), ("readlink", a), ("list", r.choice(FOLDERS)),
            ("list", r.choice(FOLDERS)), ("chmod", a, r.choice([0o600, 0o644, 0o755])),
            ("utime", a, r.randrange(1 << 60)), ("stat", a), ("stat", a),
            ("put", a, self.text()), ("put", a, self.text()), ("make", a, self.text()),
            ("replace", a, self.text()), ("append", a, self.text()), ("get", a),
            ("get", a), ("get", a), ("truncate", a, self.offset()),
            ("patch", a, self.offset(), self.text()), ("map", a, self.offset(), "mapped"),
            ("setx", a, "n", self.text()[:100]), ("getx", a, "n"), ("copy", a, b)])

    # ---- comparing --------------------------------------------------------

    def same(self, what, program, call, want, changed):
        """What a program sees is the model's; a change of the other side has time."""
        begin = time.monotonic()
        while True:
            got = program.tell(*call)
            if got == want:
                break
            if not changed or time.monotonic() - begin > mounts.SEEN_S:
                got, want = apart(got, want)
                raise Differs("%s: %s of %s:\n got    %s\n wanted %s" % (
                    what, call, program.name, short(got), short(want)))
            time.sleep(0.02)
        if changed:
            self.slowest = max(self.slowest, time.monotonic() - begin)

    def look(self, program, call):
        """Everyone sees the objects of a call as the model does."""
        far = program is self.there
        for path in [part for part in call[1:3] if isinstance(part, str)][:2]:
            if call[0] in ("write", "cut", "symlink") or len(path) > 60:
                continue
            for viewer in self.here + [self.there]:
                late = (viewer is self.there) != far
                want = self.truth.do("stat", path)
                self.same("afterwards", viewer, ("stat", path), want, late)
                if want[0] == "ok" and want[1][0] & 0o170000 == 0o100000 and \
                        self.random.random() < 0.5:
                    self.same("afterwards", viewer, ("get", path),
                              self.truth.do("get", path), late)

    def all_same(self):
        want = self.truth.do("tree", "")
        for program in self.here + [self.there]:
            self.same("the whole tree", program, ("tree", ""), want, True)

    def inode(self, path):
        try:
            return os.lstat(os.path.join(self.mount.plain, path)).st_ino
        except OSError:
            return 0

    def removed_there(self, program, call):
        """An open file whose last name the storage's program removed: whether it goes on
        is not promised, as with NFS; it may be stale from then on."""
        if call[0] not in ("write", "read", "sync", "size", "cut", "lock", "unlock", "close"):
            return False
        fd = self.truth.open.get(call[1])
        if fd is None or os.fstat(fd).st_nlink or os.fstat(fd).st_ino not in self.gone:
            return False
        program.tell("close", call[1])
        self.truth.do("close", call[1])
        self.held.pop(call[1], None)
        return True

    def step(self):
        program, call = self.choose()
        self.n += 1
        self.history.append("%d %s %s" % (self.n, program.name, short(call)))
        if program is self.there and call[0] in ("unlink", "rename", "replace"):
            self.gone |= {self.inode(path) for path in call[1:3]}
        if program is not self.there and self.removed_there(program, call):
            return
        if program is self.there and call[0] not in LOOKS:
            # Writes are on their way as long as the link is away.
            self.same("written", program, ("tree", ""), self.truth.do("tree", ""), True)
        want = self.truth.do(*call)
        if call[0] == "open" and want[0] == "ok":
            self.held[call[1]] = program
        if call[0] == "close":
            self.held.pop(call[1], None)
        # What the other side changed has been seen before; but the kernel tells the mount
        # of a close, which ends locks, after it has returned. A lost lock is told by EIO, once
        # a lock, by what closes any descriptor of its file.
        if self.lost[program]:
            got = program.tell(*call)
            if got != want and got != ["error", "EIO"]:
                raise Differs("%s of %s:\n got    %s\n wanted %s" % (
                    call, program.name, short(got), short(want)))
            self.lost[program] -= got != want
        else:
            self.same("result", program, call, want, call[0] == "lock" and want[0] == "ok")
        if call[0] == "lock" and want[0] == "ok":
            self.locked[call[1]] = program
        elif call[0] == "close":
            self.locked.pop(call[1], None)
        if program is self.there and want[0] == "ok" and call[0] not in LOOKS:
            self.all_same()
        if call[0] not in LOOKS:
            self.look(program, call)
        if self.n % 50 == 0:
            self.all_same()
        if self.faults and self.n % 25 == 0:
            self.fault()

    # ---- faults -----------------------------------------------------------

    def fault(self):
        fault = self.random.choice(self.faults)
        self.history.append("%d fault: %s" % (self.n, fault))
        if fault == "client":
            self.client_dies()
        elif fault in ("proxy", "server", "pause"):
            # The proxy, and below it the process next to the files.
            pids = [pid for pid in self.mount.pids("ferry")
                    if "--stdio" in mounts.command_of(pid)]
            if not pids and time.monotonic() - self.mended > CALL_S:
                raise Differs("the mount has had no proxy for %d s" % CALL_S)
            self.mended = time.monotonic() if pids else self.mended
            self.faults_made += bool(pids)
            if fault == "server":
                self.lost = collections.Counter(
                    program for program in self.locked.values() if program in self.here)
            for pid in pids[:1] if fault == "proxy" else pids[-1:]:
                if fault == "pause":
                    os.kill(pid, signal.SIGSTOP)
                    threading.Timer(self.random.random() * 3, continued, [pid]).start()
                else:
                    os.kill(pid, signal.SIGKILL)

    def client_dies(self):
        """Open files end with it; the rest is there when it is mounted again."""
        for number, program in list(self.held.items()):
            if program is not self.there:
                program.tell("sync", number)
                program.tell("close", number)
                self.truth.do("close", number)
                del self.held[number]
        for program in self.here:
            program.end()
        self.faults_made += 1
        self.mount.kill()
        self.mount.start()
        for program in self.here:
            program.start()
        self.all_same()

    # ---- all of it --------------------------------------------------------

    def run(self):
        until = time.monotonic() + self.options.seconds if self.options.seconds else None
        while self.n < self.options.calls and (not until or time.monotonic() < until):
            self.step()
        for number, program in list(self.held.items()):
            program.tell("close", number)
        self.all_same()

    def end(self):
        for program in [*self.here, self.there]:
            program.end()


def continued(pid):
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        pass


def apart(got, want):
    """Without the rows of a tree that are the same."""
    if got[0] == want[0] == "ok" and isinstance(got[1], list) and isinstance(want[1], list):
        return (["ok", [row for row in got[1] if row not in want[1]]],
                ["ok", [row for row in want[1] if row not in got[1]]])
    return got, want


def short(thing):
    text = json.dumps(thing, ensure_ascii=False)
    return text if len(text) < 300 else text[:200] + " ... " + text[-80:]


def races(options, mount):
    """All at once; then the mount shows what the storage has."""
    programs = [Program("here%d" % i, mount.mnt) for i in range(3)]
    programs.append(Program("storage", mount.export))
    model = Model.__new__(Model)
    model.n, model.number, model.held = 0, 0, {}

    def act(index):
        mine = Model.__new__(Model)
        mine.random = random.Random(options.seed * 4 + index)
        mine.here, mine.there, mine.held = [programs[index]], programs[index], {}
        mine.number, mine.n = index * 1000000, index * 1000000
        for _ in range(options.calls):
            mine.n += 1
            _, call = mine.choose()
            try:
                answer = programs[index].tell(*call)
            except Differs:
                # What was mapped is another's to cut.
                if call[0] != "map" or programs[index].process.wait() != -signal.SIGBUS:
                    raise
                programs[index].start()
                mine.held.clear()
                continue
            if answer[0] == "ok":
                if call[0] == "open":
                    mine.held[call[1]] = programs[index]
            if call[0] == "close":
                mine.held.pop(call[1], None)
        for number in mine.held:
            programs[index].tell("close", number)

    try:
        threads = [threading.Thread(target=act, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        until = time.monotonic() + mounts.SEEN_S
        while True:
            seen = [program.tell("tree", "") for program in programs]
            if all(one == seen[3] for one in seen):
                return
            if time.monotonic() > until:
                raise Differs("\n".join("mount:   %s\nstorage: %s" % tuple(
                    short(rows[1]) for rows in apart(one, seen[3])) for one in seen[:3]))
            time.sleep(0.05)
    finally:
        for program in programs:
            program.end()


def fault_text(options):
    """For tests/badlink: what the transport does by itself."""
    words = []
    if "cut" in options.faults:
        words += ["down", "seed=%d" % options.seed, "cut=1500000..4000000"]
    if "stall" in options.faults:
        words += ["both", "stall=50000..400000", "for=2s"]
    return ",".join(words)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("FERRY_SEED", "1")))
    parser.add_argument("--calls", type=int, default=1000000)
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--faults", default="")
    parser.add_argument("--kind", default="ferry")
    parser.add_argument("--races", action="store_true")
    parser.add_argument("-o", action="append", default=[], dest="mount_options")
    options = parser.parse_args()
    if not options.seconds and options.calls == 1000000:
        options.calls = 400
    name = "%s%s, seed %d" % ("races" if options.races else "model",
                              ", faults " + options.faults if options.faults else "",
                              options.seed)
    reason = mounts.why_not(options.kind)
    if reason:
        tap.skip(name, reason)
        tap.finish()
    with mounts.Mount(options.kind, options=options.mount_options,
                      fault=fault_text(options)) as mount:
        model = None
        try:
            if options.races:
                races(options, mount)
            else:
                model = Model(options, mount)
                model.run()
                print("# %d calls, %d faults; the slowest change was seen after %.2f s" % (
                    model.n, model.faults_made, model.slowest))
                if model.n > 60 and {"proxy", "server", "client", "pause"} & set(model.faults) \
                        and not model.faults_made:
                    raise Differs("no fault was made")
            tap.ok(name)
        except Differs as error:
            tap.ok(name, False, "the last calls:\n%s\nthe mount says: %s\n%s" % (
                "\n".join(line[:200] for line in (model.history if model else [])),
                mount.said() if mount.process else "", error))
        finally:
            if model:
                model.end()
    if model and os.environ.get("FILES_KEEP"):
        shutil.copytree(mount.plain, os.environ["FILES_KEEP"], symlinks=True)
    tap.finish()


if __name__ == "__main__":
    main()
