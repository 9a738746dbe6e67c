# SPDX-License-Identifier: Apache-2.0
"""File systems to judge: `with Mount(kind) as m:' makes one and takes it away.

  m.mnt      the folder that is judged
  m.export   the same folder at the storage
  m.plain    an empty folder on the storage's file system

Kinds: `ferry' (ferry mount of loopback:///EXPORT, or of a place that `fault' spoils),
`sshfs' (with the sftp server as its child, no ssh), `plain' (export and mnt are one
folder: the judges themselves). As root with -o allow_other, and owners as they are.
"""
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
from patience import patient  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
BUILD = os.path.abspath(os.environ.get("FERRY_BUILDDIR") or os.path.join(SOURCE, "_build"))
# Of another build, with a sanitizer that the proxy's sandbox cannot have.
CLIENT = os.environ.get("FILES_CLIENT") or os.path.join(BUILD, "ferry-mount")
SFTP = "/usr/lib/openssh/sftp-server"
START_S = patient(60)
SEEN_S = patient(20)  # until a change is seen on the other side: "ac" of 3 s


class Trouble(Exception):
    """The mount cannot be made; the text says why."""


def why_not(kind):
    """None, or the reason for which this machine cannot have it."""
    if kind == "plain":
        return None
    if not os.path.exists("/dev/fuse"):
        return "there is no /dev/fuse"
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "no /dev/fuse"
    if os.geteuid() != 0:
        return "not root"
    if kind == "sshfs" and not shutil.which("sshfs"):
        return "sshfs is not installed"
    if kind == "sshfs" and not os.path.exists(SFTP):
        return SFTP + " is not installed"
    if kind == "ferry" and not os.path.exists(CLIENT):
        return "libfuse3 is not installed"
    return None


def mounted(folder):
    """Whether something is mounted there."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as f:
        return any(line.split()[4] == folder for line in f)


def children(pid):
    """All processes below one, itself not included."""
    found, todo = [], [pid]
    while todo:
        pid = todo.pop()
        try:
            for task in os.listdir("/proc/%d/task" % pid):
                with open("/proc/%d/task/%s/children" % (pid, task), encoding="ascii") as f:
                    below = [int(word) for word in f.read().split()]
                found += below
                todo += below
        except OSError:
            pass
    return found


def command_of(pid):
    """The words of a process, or none."""
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as f:
            return f.read().decode("utf-8", "replace").split("\0")[:-1]
    except OSError:
        return []


def control(pid, request, timeout=patient(60)):
    """What a ferry-mount answers, as lines (proxy/files/client/control.h)."""
    paths = [word[len("--control="):] for word in command_of(pid)
             if word.startswith("--control=")]
    if not paths:
        raise Trouble("no control socket is known")
    text = b""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(timeout)
        sock.connect(paths[0])
        sock.sendall(request.encode() + b"\n")
        while not ended(text):
            part = sock.recv(65536)
            if not part:
                break
            text += part
    return text.decode("utf-8", "replace").splitlines()


def ended(text):
    """Whether the last line of an answer is there."""
    if not text.endswith(b"\n"):
        return False
    last = text[:-1].rsplit(b"\n", 1)[-1]
    return last == b"ok" or last.startswith(b"error")


def counters(lines):
    """The lines of a report, as numbers where they are: "request TYPE" is one key."""
    found = {}
    for line in lines:
        words = line.split(" ")
        n = 2 if words[0] == "request" and len(words) > 2 else 1
        rest = " ".join(words[n:])
        found[" ".join(words[:n])] = int(rest) if rest.isdigit() else rest
    return found


class Mount:
    """See above. `options' are for -o; `fault' is the text of tests/badlink."""

    def __init__(self, kind="ferry", options=(), fault="", program="", folder=None, place="",
                 more=()):
        self.kind, self.options = kind, list(options)
        self.fault, self.program, self.place = fault, program, place
        self.given, self.folder = folder, None
        self.more = dict(more)  # variables of both sides
        self.process = None

    def __enter__(self):
        reason = why_not(self.kind)
        if reason:
            raise Trouble(reason)
        base = os.environ.get("FILES_DIR") or os.environ.get("TMPDIR") or "/tmp"
        self.folder = os.path.realpath(self.given or tempfile.mkdtemp(prefix="fyfiles.", dir=base))
        os.makedirs(self.folder, exist_ok=True)
        os.chmod(self.folder, 0o755)
        self.export = os.path.join(self.folder, "export")
        self.plain = os.path.join(self.folder, "plain")
        self.mnt = os.path.join(self.folder, "mnt")
        os.makedirs(self.plain, exist_ok=True)
        os.makedirs(self.export, exist_ok=True)
        if self.kind == "plain":
            self.mnt = self.export
            return self
        os.makedirs(self.mnt, exist_ok=True)
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def argv(self):
        """The command that mounts, in the foreground."""
        if self.kind == "sshfs":
            script = os.path.join(self.folder, "sftp")
            with open(script, "w", encoding="ascii") as f:
                f.write("#!/bin/sh\nexec %s\n" % SFTP)
            os.chmod(script, 0o755)
            options = ["allow_other", "default_permissions", "ssh_command=" + script,
                       *self.options]
            return ["sshfs", "storage:" + self.export, self.mnt, "-f", "-o", ",".join(options)]
        ferry = os.path.join(BUILD, "ferry")
        place = self.place or "loopback://" + self.export
        if self.fault or self.program or os.environ.get("FILES_CLIENT"):
            relay = "command=%s/tests/badlink/badlink%%20%s" % (BUILD, self.fault or "down")
            place = "ssh://far%s?ferry=%s&%s" % (self.export, self.program or ferry, relay)
        options = ",".join(["allow_other", "idmap=none", "dev", *self.options])
        if place.startswith("ssh:"): # ferry mount knows ssh alone, not what spoils a link
            return [CLIENT, "-f", "-o",
                    options.replace("dev", "devices"),
                    "--control=" + os.path.join(self.folder, "control"), place, self.mnt]
        return [ferry, "mount", "-f", "-o", options, place, self.mnt]

    def start(self):
        """Mounts; returns when the mount answers."""
        self.log = open(os.path.join(self.folder, "log"), "ab")
        self.process = subprocess.Popen(
            self.argv(), stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
            start_new_session=True, env=dict(os.environ, **self.more))
        until = time.monotonic() + START_S
        while not mounted(self.mnt):
            if self.process.poll() is not None or time.monotonic() > until:
                raise Trouble("%s does not mount: %s" % (self.kind, self.said()))
            time.sleep(0.02)
        os.stat(self.mnt)

    def said(self):
        """The end of what the mount wrote."""
        with open(os.path.join(self.folder, "log"), encoding="utf-8", errors="replace") as f:
            return f.read()[-2000:].strip()

    def pids(self, word):
        """Processes of this mount whose command has the word."""
        return [pid for pid in [self.process.pid, *children(self.process.pid)]
                if any(os.path.basename(part) == word for part in command_of(pid)[:2])]

    def control(self, request, timeout=patient(60)):
        """What the control socket answers, as lines."""
        for pid in self.pids("ferry-mount"):
            return control(pid, request, timeout)
        raise Trouble("no ferry-mount runs: " + self.said())

    def report(self):
        """Counters of the mount, as numbers where they are."""
        return counters(self.control("report"))

    def unmount(self):
        """Takes the mount away, by force if need be; false: it would not go."""
        for how in ([os.path.join(BUILD, "ferry"), "umount", self.mnt], ["umount", self.mnt],
                    ["umount", "-l", self.mnt]):
            if self.kind != "ferry" and how[1] == "umount":
                continue
            if not mounted(self.mnt):
                break
            try:
                subprocess.run(how, stdin=subprocess.DEVNULL, capture_output=True, timeout=patient(30),
                               check=False)
            except subprocess.TimeoutExpired:
                pass
        return not mounted(self.mnt)

    def kill(self):
        """SIGKILL to every process of the mount; its folder is made free."""
        pids = [self.process.pid, *children(self.process.pid)]
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()
        while mounted(self.mnt):
            subprocess.run(["umount", "-l", self.mnt], capture_output=True, check=False)

    def __exit__(self, *_):
        if self.process:
            self.unmount()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()
            self.log.close()
            with open(os.path.join(self.folder, "log"), encoding="utf-8", errors="replace") as f:
                found = f.read()
            if "Sanitizer" in found:
                raise Trouble("a sanitizer's report:\n" + found[:8000])
        if not self.given and self.folder and not mounted(self.mnt):
            shutil.rmtree(self.folder, ignore_errors=True)


def main():
    """mounts.py KIND COMMAND...: runs it with FILES_MNT, FILES_EXPORT, FILES_PLAIN."""
    with Mount(sys.argv[1]) as mount:
        env = dict(os.environ, FILES_MNT=mount.mnt, FILES_EXPORT=mount.export,
                   FILES_PLAIN=mount.plain, FILES_PID=str(mount.process.pid if mount.process
                                                          else 0))
        return subprocess.run(sys.argv[2:], env=env, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
