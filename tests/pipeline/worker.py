# SPDX-License-Identifier: Apache-2.0
"""Runs scripts one after the other for harness.py, on the client of a rig.

Reads one JSON object a line from stdin, writes one a line to stdout. Runs plain
or under `ferry run', and is the same program both times, so that what differs
is ferry. Never reads or writes the mount itself.
"""
import base64
import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time


def last_pid():
    """The newest pid of this host: what a script starts has later ones."""
    with open("/proc/sys/kernel/ns_last_pid", encoding="ascii") as f:
        return int(f.read())


def of_session(leader):
    """The living processes of a session, and of sessions made below it are
    found by the groups' parents: (pid, command) pairs."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open("/proc/%s/stat" % name, "rb") as f:
                text = f.read()
        except OSError:
            continue
        command = text[text.index(b"(") + 1:text.rindex(b")")]
        fields = text[text.rindex(b")") + 2:].split()
        if int(fields[3]) == leader and fields[0] not in (b"Z", b"X"):
            found.append((int(name), command.decode(errors="replace")))
    return found


def kill_session(leader):
    for _ in range(20):
        found = of_session(leader)
        if not found:
            return
        for pid, _ in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.01)


class Outputs:
    """Collects what a script writes, from pipes or a terminal."""

    def __init__(self, fds):
        self.texts = {fd: b"" for fd in fds}
        self.open = set(fds)

    def read(self, seconds):
        ready = select.select(list(self.open), [], [], max(0, seconds))[0]
        for fd in ready:
            try:
                piece = os.read(fd, 1 << 16)
            except OSError:  # a terminal whose other side is gone
                piece = b""
            if not piece:
                self.open.discard(fd)
            self.texts[fd] += piece


def run(job):
    start_pid, begun = last_pid(), time.monotonic()
    deadline = begun + job["timeout"]
    env = {k: os.fsencode(v) for k, v in job["env"].items()}
    how = {"cwd": os.fsencode(job["cwd"]), "env": env}
    if job.get("tty"):
        master, slave = pty.openpty()
        rows, columns = job["tty"]
        fcntl.ioctl(slave, termios.TIOCSWINSZ,
                    struct.pack("HHHH", rows, columns, 0, 0))

        def own_terminal():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        process = subprocess.Popen(job["argv"], stdin=slave, stdout=slave,
                                   stderr=slave, preexec_fn=own_terminal,
                                   **how)
        os.close(slave)
        fds = [master]
    else:
        # Scripts inherit no description that the other side shares.
        how["stdin"] = subprocess.DEVNULL
        if job.get("stdin"):
            how["stdin"] = open(os.fsencode(job["stdin"]), "rb")
        fds = []
        for name in ("stdout", "stderr"):
            if job.get("out") == "file":
                how[name] = open(os.fsencode(job["work"]) + b"/." +
                                 name.encode(), "wb")
            else:
                read_end, how[name] = os.pipe()
                fds.append(read_end)
        process = subprocess.Popen(job["argv"], start_new_session=True, **how)
        for name in ("stdin", "stdout", "stderr"):
            if hasattr(how[name], "close"):
                how[name].close()
            elif how[name] >= 0:
                os.close(how[name])
    outputs = Outputs(fds)
    notes, status = [], None
    while status is None or outputs.open:
        now = time.monotonic()
        if status is None:
            status = process.poll()
            if status is not None:
                # What it left running may write on for a while.
                deadline = min(deadline, now + job.get("linger", 20))
        if now > deadline:
            notes.append("timed out" if status is None else
                         "output was held open after the end")
            notes += ["still running: %s" % c for _, c in
                      of_session(process.pid)]
            break
        if outputs.open:
            outputs.read(min(0.01 if status is None else 0.5, deadline - now))
        else:
            try:
                process.wait(max(0.001, deadline - now))
            except subprocess.TimeoutExpired:
                pass
    left = [1]
    # A process may be on its way to its end.
    while left and not notes:
        left = [c for _, c in of_session(process.pid)]
        if time.monotonic() > deadline - 3:
            break
        time.sleep(0.001)
    if left and not notes:
        notes.append("left running: " + " ".join(sorted(left)))
    kill_session(process.pid)
    status = process.wait()
    for fd in fds:
        os.close(fd)
    texts = [outputs.texts[fd] for fd in fds]
    if not fds:
        for name in ("stdout", "stderr"):
            path = os.fsencode(job["work"]) + b"/." + name.encode()
            with open(path, "rb") as f:
                texts.append(f.read())
            os.unlink(path)
    return {"status": status, "notes": notes, "pids": [start_pid, last_pid()],
            "seconds": time.monotonic() - begun,
            "texts": [base64.b64encode(t).decode() for t in texts]}


def main():
    # Not what the scripts are to inherit: python ignores it.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    out = os.fdopen(os.dup(1), "w", encoding="ascii")
    jobs = os.fdopen(os.dup(0), "r", encoding="ascii")
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(2, 1)
    os.close(null)
    os.umask(0o022)
    for line in jobs:
        try:
            answer = run(json.loads(line))
        except OSError as e:
            answer = {"trouble": str(e)}
        out.write(json.dumps(answer) + "\n")
        out.flush()


if __name__ == "__main__":
    sys.exit(main())
