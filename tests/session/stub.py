#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ferry-stub against a scripted session: what it says, how it ends, that it
becomes the original on any doubt. Prints TAP. Long because each message of the
protocol has its cases here, on one scripted session."""
import errno
import fcntl
import hashlib
import os
import random
import resource
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import termios
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
from patience import patient  # noqa: E402

STUB = os.path.join(os.environ.get("FERRY_BUILDDIR", "."), "ferry-stub")
EXEC, RUN, OUT, ERR, WANT, EXIT, AGAIN, STOPPED, FORGET, PING, PLACE = range(1, 12)
(HELLO, READABLE, INPUT, INPUT_END, SIGNAL, WINDOW, CREDIT,
 BROKEN, FULL, PONG) = range(1, 11)
FIXED = struct.calcsize("=IiIIIIi4I2H32QII")
count = failed = 0


def check(name, ok, note=""):
    global count, failed
    count += 1
    if not ok:
        failed += 1
    print(f"{'ok' if ok else 'not ok'} {count} - {name}")
    if not ok and note:
        print(f"# {note}")
    sys.stdout.flush()


class Session:
    """The other end of one stub."""

    def __init__(self):
        self.folder = tempfile.mkdtemp()
        self.path = os.path.join(self.folder, "session")
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen()
        self.listener.settimeout(patient(60))
        self.block = b""

    def start(self, argv, **options):
        path = options.pop("path", argv[0])
        return subprocess.Popen([STUB, self.path, path] + argv, **options)

    def accept(self):
        self.peer, _ = self.listener.accept()
        self.peer.settimeout(patient(60))
        data, fds, _, _ = socket.recv_fds(self.peer, 1 << 16, 8)
        self.block, self.nfds = data, len(fds)
        self.cwd = os.readlink(f"/proc/self/fd/{fds[-1]}")
        for fd in fds:
            os.close(fd)
        kind, body = self.receive()
        assert kind == HELLO
        values = struct.unpack("=IiIIIIi4I2H32QII", body[:FIXED])
        self.hello = dict(zip(
            "version pid open same extra umask nice".split(),
            values))
        self.hello["ignored"] = values[7] | values[8] << 32
        self.strings = body[FIXED:].split(b"\0")[:-1]
        self.argc, self.envc = values[-2:]

    def run(self):
        """RUN; it catches signals from then on."""
        self.send(RUN, struct.pack("=I", 0))
        self.send(PING, b"")
        assert self.receive() == (PONG, b"")

    def receive(self):
        while True:
            if len(self.block) >= 8:
                n, kind = struct.unpack("=II", self.block[:8])
                if len(self.block) >= 8 + n:
                    body = self.block[8:8 + n]
                    self.block = self.block[8 + n:]
                    return kind, body
            data = self.peer.recv(1 << 16)
            if not data:
                return None, b""
            self.block += data

    def send(self, kind, body=b""):
        self.peer.sendall(struct.pack("=II", len(body), kind) + body)

    def close(self):
        self.peer.close()
        self.listener.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def no_session():
    got = subprocess.run([STUB, "/nonexistent", "/bin/sh", "sh", "-c",
                          "echo $0 $1; exit 3", "zero", "one"],
                         stdout=subprocess.PIPE, check=False)
    check("without a session it is the original",
          got.returncode == 3 and got.stdout == b"zero one\n")
    got = subprocess.run([STUB, "/nonexistent", "/nonexistent/x", "x"],
                         stderr=subprocess.PIPE, check=False)
    check("an original that is gone ends with 127", got.returncode == 127)


def hello_and_exec():
    s = Session()
    environment = {"A": "b", "FERRY_SETTINGS": "mode=0", "LD_PRELOAD":
                   "/nonexistent/ferry-preload-1.so", "Z": ""}
    p = s.start(["sh", "-c", "echo here; exit 7"], path="/bin/sh",
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                env=environment, umask=0o027)
    s.accept()
    check("the hello has pid, umask and words",
          s.hello["pid"] == p.pid and s.hello["umask"] == 0o027 and
          s.strings[:4] == [b"/bin/sh", b"sh", b"-c",
                            b"echo here; exit 7"] and s.argc == 3)
    check("ferry's own variables are left out",
          s.strings[4:] == [b"A=b", b"Z="] and s.envc == 2,
          str(s.strings[4:]))
    check("four descriptors come along", s.nfds == 4 and
          s.cwd == os.getcwd())
    check("no descriptor is counted that is not the program's",
          s.hello["extra"] == 0, str(s.hello))
    with open(f"/proc/{p.pid}/comm", encoding="ascii") as file:
        check("its name is the command's", file.read() == "sh\n")
    for _ in range(int(patient(6000))):  # it changes them once the hello is out
        with open(f"/proc/{p.pid}/cmdline", encoding="ascii") as file:
            words = file.read().rstrip("\0")
        if words == "sh\0-c\0echo here; exit 7":
            break
        time.sleep(0.01)
    check("its words are the command's", words == "sh\0-c\0echo here; exit 7",
          repr(words))
    s.send(EXEC)
    out, _ = p.communicate(timeout=patient(60))
    check("EXEC runs the original", out == b"here\n" and p.returncode == 7)
    s.close()


def closed_and_extra():
    s = Session()
    r, w = os.pipe()
    p = s.start(["sh", "-c", "ls /proc/self/fd | tr '\\n' ' ' >&2"],
                path="/bin/sh", stderr=subprocess.PIPE, pass_fds=(r, w),
                preexec_fn=lambda: os.close(0))
    os.close(r)
    os.close(w)
    s.accept()
    check("closed and further descriptors are told",
          s.hello["open"] == 6 and s.hello["extra"] == 2 and s.nfds == 3,
          str(s.hello))
    s.send(EXEC)
    _, err = p.communicate(timeout=patient(60))
    check("the original finds its descriptors as they were",
          err.split()[:3] == [b"0", b"1", b"2"] or err != b"", str(err))
    s.close()


def output_and_status():
    s = Session()
    p = s.start(["cat"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                stdin=subprocess.DEVNULL)
    s.accept()
    s.send(RUN, struct.pack("=I", 0))
    s.send(OUT, b"one\n")
    s.send(ERR, b"two\n")
    s.send(EXIT, struct.pack("=ii", 0, 42))
    out, err = p.communicate(timeout=patient(60))
    check("output, errors and status arrive",
          (out, err, p.returncode) == (b"one\n", b"two\n", 42))
    s.close()
    for number in (signal.SIGTERM, signal.SIGSEGV, signal.SIGKILL):
        s = Session()
        p = s.start(["cat"], stdin=subprocess.DEVNULL)
        s.accept()
        s.send(RUN, struct.pack("=I", 0))
        s.send(EXIT, struct.pack("=ii", number, 0))
        check(f"it dies of {number.name}", p.wait(patient(60)) == -number)
        s.close()


def many_bytes():
    s = Session()
    p = s.start(["cat"], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    s.accept()
    s.send(RUN, struct.pack("=I", 0))
    piece = os.urandom(65536)
    sent, credit = 0, 0
    pid = os.fork()
    if pid == 0:
        data = p.stdout.read()
        os._exit(0 if hashlib.sha256(data).digest() ==
                 hashlib.sha256(piece * 160).digest() else 1)
    p.stdout.close()
    while sent < 160 * len(piece):
        s.send(OUT, piece)
        sent += len(piece)
        while sent - credit > 1 << 20:
            kind, body = s.receive()
            assert kind == CREDIT
            credit += struct.unpack("=I", body)[0]
    while credit < sent:
        _, body = s.receive()
        credit += struct.unpack("=I", body)[0]
    s.send(EXIT, struct.pack("=ii", 0, 0))
    check("every byte is written and credited", p.wait(patient(60)) == 0 and
          credit == sent and os.waitpid(pid, 0)[1] == 0)
    s.close()


def broken_pipe():
    for ignored in (False, True):
        s = Session()
        r, w = os.pipe()
        p = s.start(["cat"], stdout=w, stdin=subprocess.DEVNULL,
                    restore_signals=not ignored)
        os.close(w)
        s.accept()
        os.close(r)
        s.send(RUN, struct.pack("=I", 0))
        s.send(OUT, b"x")
        if not ignored:
            check("SIGPIPE kills it", p.wait(patient(60)) == -signal.SIGPIPE)
        else:
            kind, body = s.receive()
            check("with SIGPIPE ignored the session is told",
                  kind == BROKEN and struct.unpack("=ii", body) == (1, 32) and
                  s.hello["ignored"] >> 12 & 1)
            s.send(EXIT, struct.pack("=ii", 0, 1))
            p.wait(patient(60))
        s.close()


def signals():
    s = Session()
    p = s.start(["cat"], stdin=subprocess.DEVNULL)
    s.accept()
    s.run()
    p.send_signal(signal.SIGINT)
    check("a signal is passed on", s.receive() ==
          (SIGNAL, struct.pack("=I", signal.SIGINT)))
    p.send_signal(signal.SIGTSTP)
    check("a stop is passed on", s.receive() ==
          (SIGNAL, struct.pack("=I", signal.SIGTSTP)))
    # In an orphaned group, which this test may be in, TSTP stops no process.
    for _ in range(int(patient(100))):
        with open(f"/proc/{p.pid}/stat", encoding="ascii") as file:
            state = file.read().rpartition(")")[2].split()[0]
        if state == "T":
            break
        time.sleep(0.01)
    p.send_signal(signal.SIGCONT)
    check("and so is going on", s.receive() ==
          (SIGNAL, struct.pack("=I", signal.SIGCONT)))
    s.send(EXIT, struct.pack("=ii", signal.SIGINT, 0))
    check("it ends as the command did", p.wait(patient(60)) == -signal.SIGINT)
    s.close()
    s = Session()
    p = s.start(["cat"], stdin=subprocess.DEVNULL)
    s.accept()
    s.send(PING, b"")
    check("a ping is answered before the decision", s.receive()[0] == PONG)
    s.send(RUN, struct.pack("=I", 0))
    s.send(PING, b"")
    check("and behind it", s.receive()[0] == PONG)
    p.send_signal(signal.SIGSTOP)
    os.waitpid(p.pid, os.WUNTRACED)
    s.send(PING, b"")
    p.send_signal(signal.SIGINT)
    p.send_signal(signal.SIGCONT)
    kinds = [s.receive() for _ in range(3)]
    check("after the signals that were there", kinds[2][0] == PONG and
          (SIGNAL, struct.pack("=I", signal.SIGINT)) in kinds, kinds)
    s.send(EXIT, struct.pack("=ii", 0, 0))
    p.wait(patient(60))
    s.close()
    s = Session()
    p = s.start(["cat"], stdin=subprocess.DEVNULL)
    s.accept()
    p.send_signal(signal.SIGTERM)
    check("before the decision signals have their usual effect",
          p.wait(patient(60)) == -signal.SIGTERM)
    s.close()


def nearly_blocked_write():
    """The signal comes about when the write begins to wait."""
    good = 0
    for i in range(40):
        s = Session()
        r, w = os.pipe()
        p = s.start(["cat"], stdout=w, stdin=subprocess.DEVNULL)
        os.close(w)
        s.accept()
        s.send(RUN, struct.pack("=I", 0))
        s.send(OUT, b"x" * 65536)
        while s.receive()[0] != CREDIT:
            pass
        s.send(OUT, b"x" * 4096)
        for _ in range(i * 20):
            pass
        p.send_signal(signal.SIGINT)
        kind = CREDIT
        while kind == CREDIT:
            kind, body = s.receive()
        s.send(EXIT, struct.pack("=ii", signal.SIGINT, 0))
        good += kind == SIGNAL and p.wait(patient(60)) == -signal.SIGINT
        os.close(r)
        s.close()
    check("so does one that comes as it begins", good == 40, str(good))


def blocked_write():
    s = Session()
    r, w = os.pipe()
    p = s.start(["cat"], stdout=w, stdin=subprocess.DEVNULL)
    os.close(w)
    s.accept()
    s.run()
    for _ in range(2):
        s.send(OUT, b"x" * 65536)
    while fionread(r) < 65536:
        time.sleep(0.001)
    p.send_signal(signal.SIGINT)
    while True:
        kind, body = s.receive()
        if kind != CREDIT:
            break
    check("a signal gets through while a write waits",
          (kind, body) == (SIGNAL, struct.pack("=I", signal.SIGINT)))
    s.send(EXIT, struct.pack("=ii", signal.SIGINT, 0))
    check("and ends it, whoever does not read", p.wait(patient(60)) == -signal.SIGINT)
    os.close(r)
    s.close()


def held_output():
    """Behind a signal output waits for its reader, and the stub for none of it."""
    def start():
        s = Session()
        r, w = os.pipe()
        p = s.start(["cat"], stdout=w, stderr=subprocess.PIPE,
                    stdin=subprocess.DEVNULL, restore_signals=False)
        os.close(w)
        s.accept()
        s.run()
        p.send_signal(signal.SIGINT)
        assert s.receive() == (SIGNAL, struct.pack("=I", signal.SIGINT))
        data = os.urandom(6 * 65536)
        for at in range(0, len(data), 65536):
            s.send(OUT, data[at:at + 65536])
        s.send(ERR, b"behind it\n")
        s.send(PING)
        while True:
            kind, _ = s.receive()
            if kind != CREDIT:
                break
        return s, r, p, data, kind

    s, r, p, data, kind = start()
    check("output that waits keeps no word from the session", kind == PONG)
    got, more = b"", b"more"
    while len(got) < len(data) and more:
        more = os.read(r, 30000)
        got += more
    check("all of it arrives", got == data and
          p.stderr.readline() == b"behind it\n")
    s.send(EXIT, struct.pack("=ii", 0, 7))
    check("and the status behind it", p.wait(patient(60)) == 7)
    os.close(r)
    s.close()

    s, r, p, data, kind = start()
    os.close(r)
    while True:
        kind, body = s.receive()
        if kind != CREDIT:
            break
    check("a reader that goes meanwhile is told once", kind == BROKEN and
          struct.unpack("=ii", body) == (1, errno.EPIPE) and
          p.stderr.readline() == b"behind it\n")
    s.send(EXIT, struct.pack("=ii", 0, 9))
    check("and the signal ends it, which came while it wrote",
          p.wait(patient(60)) == -signal.SIGINT)
    s.close()


def standard_input():
    s = Session()
    p = s.start(["cat"], stdin=subprocess.PIPE)
    s.accept()
    p.stdin.write(b"hello")
    p.stdin.flush()
    check("waiting data is told", s.receive()[0] == READABLE)
    s.send(RUN, struct.pack("=I", 1))
    s.send(WANT, struct.pack("=I", 3))
    check("no more is read than wanted", s.receive() == (INPUT, b"hel"))
    s.send(WANT, struct.pack("=I", 100))
    check("the rest follows", s.receive() == (INPUT, b"lo"))
    p.stdin.close()
    check("the end is told", s.receive()[0] == INPUT_END)
    s.send(EXIT, struct.pack("=ii", 0, 0))
    p.wait(patient(60))
    s.close()


def kept_input():
    """What was taken of a pipe comes again, then the rest; the pipe ends with
    who reads it."""
    for n in (5, 300000, 2000000):
        for kind, body in ((EXEC, b""), (AGAIN, b"")):
            s = Session()
            r, w = os.pipe()
            p = s.start(["sh", "-c", "head -c 1000000000 | md5sum"],
                        path="/bin/sh", stdin=r, stdout=subprocess.PIPE)
            os.close(r)
            s.accept()
            s.send(RUN, struct.pack("=II", 1, 1))
            s.send(WANT, struct.pack("=I", 1 << 30))
            data = random.Random(n).randbytes(n)
            at = taken = 0
            while taken < n:
                at += os.write(w, data[at:at + 4096])
                while taken < at:
                    what, piece = s.receive()
                    if what == INPUT:
                        taken += len(piece)
            s.send(kind, body)
            s.close()
            os.write(w, b"the rest")
            os.close(w)
            wanted = hashlib.md5(data + b"the rest").hexdigest().encode()
            out, _ = p.communicate(timeout=patient(60))
            check(f"{n} bytes of a pipe are had again", p.returncode == 0 and
                  out.split()[:1] == [wanted], repr(out))
    s = Session()
    r, w = os.pipe()
    p = s.start(["head", "-c", "1"], path="/usr/bin/head", stdin=r,
                stdout=subprocess.PIPE)
    os.close(r)
    s.accept()
    s.send(RUN, struct.pack("=II", 1, 1))
    s.send(WANT, struct.pack("=I", 100))
    os.write(w, b"abc")
    while s.receive()[0] != INPUT:
        pass
    s.send(EXEC)
    out, _ = p.communicate(timeout=patient(60))
    poll = select.poll()
    poll.register(w, 0)
    check("its writer learns that nobody reads any more",
          out == b"a" and poll.poll(patient(60000)) == [(w, select.POLLERR)])
    os.close(w)
    s.close()


def input_without_room(name, most, before=None, limit=None):
    """What cannot be kept is not taken: the original reads all of it, in order."""
    s = Session()
    r, w = os.pipe()
    p = s.start(["md5sum"], path="/usr/bin/md5sum", stdin=r, stdout=subprocess.PIPE,
                preexec_fn=limit)
    os.close(r)
    s.accept()
    if before:
        before(s)
    s.send(RUN, struct.pack("=II", 1, 1))
    s.send(WANT, struct.pack("=I", 1 << 30))
    data = random.Random(most).randbytes(1 << 20)

    def write():
        with open(w, "wb") as file:
            file.write(data)
    writer = threading.Thread(target=write)
    writer.start()
    taken, piece = 0, b""
    while taken < 128 << 10:
        what, piece = s.receive()
        taken += len(piece) if what == INPUT else 0
    s.peer.settimeout(1)
    try:
        while what is not None:
            what, piece = s.receive()
            taken += len(piece) if what == INPUT else 0
    except TimeoutError:
        pass
    s.peer.settimeout(patient(60))
    s.send(EXEC)
    s.close()
    out, _ = p.communicate(timeout=patient(60))
    writer.join()
    check(f"{name}: no more is taken than can be kept", taken <= most, str(taken))
    check(f"{name}: the original reads all of it", p.returncode == 0 and
          out.split()[:1] == [hashlib.md5(data).hexdigest().encode()], repr(out))


def full_disks():
    memory = 256 << 10
    input_without_room("the run's folder is gone", memory,
                       before=lambda s: shutil.rmtree(s.folder))
    most = 200 << 10
    input_without_room("files may have 200 KiB", memory + most, limit=lambda:
                       resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)))


def too_large(appends):
    """Standard output is a file that may not become so large; when the original
    comes, it may."""
    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
    text = b"some line\n" * 300
    with tempfile.NamedTemporaryFile() as source, tempfile.TemporaryFile() as file:
        if appends:
            fcntl.fcntl(file, fcntl.F_SETFL, os.O_APPEND)
        source.write(text)
        source.flush()
        s = Session()
        p = s.start(["cat", source.name], path="/bin/cat", stdout=file,
                    stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                    env={"LC_ALL": "C"}, preexec_fn=limit)
        s.accept()
        s.send(RUN, struct.pack("=I", 0))
        s.send(OUT, text)
        what = s.receive()
        resource.prlimit(p.pid, resource.RLIMIT_FSIZE,
                         (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        s.send(AGAIN)
        _, err = p.communicate(timeout=patient(60))
        s.close()
        written = os.pread(file.fileno(), 10000, 0)
    check("a write beyond the limit of a file is told",
          what == (BROKEN, struct.pack("=ii", 1, errno.EFBIG)), str(what))
    if appends:
        check("what was appended to a file does not come twice",
              (p.returncode, written) == (1, text[:1000]) and
              err == b"cat: write error: File too large\n", f"{len(written)} {err}")
    else:
        check("a file is written from where it was begun",
              (p.returncode, written, err) == (0, text, b""), f"{len(written)} {err}")


def limited_files():
    too_large(False)
    too_large(True)


def late_complaints():
    """stderr that comes with a place waits until a pipe would have let the command
    write that much of stdout."""
    place = lambda n: struct.pack("=Q", n)  # noqa: E731
    text = b"line\n" * 40000  # more than a pipe holds

    def start(**how):
        s = Session()
        r, w = os.pipe()
        p = s.start(how.pop("argv", ["cat"]), stdout=w, stderr=subprocess.PIPE,
                    stdin=subprocess.DEVNULL, env={"LC_ALL": "C"}, **how)
        os.close(w)
        s.accept()
        s.run()
        return s, r, p

    # Its reader leaves, and takes nothing or some of it.
    for taken, at, shown in ((0, 65536, True), (0, 65537, False), (5000, 65536, True),
                             (8192, 65536 + 8192, True), (8192, 65536 + 8193, False),
                             (8192, len(text), False)):
        s, r, p = start()
        s.send(OUT, text[:65536])
        while fionread(r) < 65536:
            time.sleep(0.001)
        s.send(PLACE, place(at))
        s.send(ERR, b"trouble\n")
        got = b""
        while len(got) < taken:
            got += os.read(r, taken - len(got))
        s.send(OUT, text[65536:131072])
        while fionread(r) < 65536 - taken % 4096:  # a page is freed as a whole
            time.sleep(0.001)
        os.close(r)
        _, err = p.communicate(timeout=patient(60))
        check(f"{taken} bytes are read, it complains at {at}: " +
              ("before SIGPIPE" if shown else "not any more"),
              (p.returncode, err) ==
              (-signal.SIGPIPE, b"trouble\n" if shown else b""),
              repr((p.returncode, err)))
        s.close()

    # Its reader takes all: behind the bytes that it came behind, in order.
    s, r, p = start()
    s.send(OUT, b"one\n")
    for at, said in ((4, b"a"), (80000, b"b"), (80000, b"c"), (2**64 - 2, b"d")):
        s.send(PLACE, place(at))
        s.send(ERR, said)
    said = p.stderr.read(1)
    for at in range(0, len(text), 50000):
        s.send(OUT, text[at:at + 50000])
    got = 0
    while got < 80000 - 65536 + 4096:
        got += len(os.read(r, 4096))
    check("what is taken lets it complain", (said, p.stderr.read(2)) == (b"a", b"bc"))
    while got < 4 + len(text):  # first: what the socket holds is in the way of more
        got += len(os.read(r, 65536))
    s.send(PLACE, place(2**64 - 1))
    s.send(ERR, b"e")
    check("what has no place takes with it what waits", p.stderr.read(2) == b"de")
    s.send(PLACE, place(2**63))
    s.send(ERR, b"f")
    s.send(EXIT, struct.pack("=ii", 0, 3))
    _, err = p.communicate(timeout=patient(60))
    check("its end brings the rest", (p.returncode, err) == (3, b"f"))
    os.close(r)
    s.close()

    # What it would not have said is none of what the original has said.
    with tempfile.NamedTemporaryFile() as file:
        file.write(text)
        file.flush()
        for gone in (False, True):
            s, r, p = start(path="/bin/cat", argv=["cat", file.name, "/missing"],
                            preexec_fn=lambda: signal.signal(signal.SIGPIPE,
                                                             signal.SIG_IGN))
            s.send(OUT, text[:65536])
            s.send(PLACE, place(len(text)))
            s.send(ERR, b"cat: /missing: No such file or directory\n")
            if gone:
                os.close(r)
                s.send(OUT, text[65536:100000])
                while s.receive()[0] != BROKEN:
                    pass
            s.send(AGAIN)
            got, more = 0, b"more"
            while not gone and more:
                more = os.read(r, 65536)
                got += len(more)
            _, err = p.communicate(timeout=patient(60))
            check("run again, it complains itself, " +
                  ("of its reader" if gone else "once"),
                  (p.returncode, err) ==
                  (1, b"cat: write error: Broken pipe\n" if gone else
                   b"cat: /missing: No such file or directory\n") and
                  got == (0 if gone else len(text)), repr((p.returncode, err, got)))
            s.close()

    # What outlives its reader tells all; what is no pipe lets nothing wait.
    s, r, p = start()
    s.send(RUN, struct.pack("=III", 0, 0, 1))
    s.send(PLACE, place(1 << 20))
    s.send(ERR, b"done\n")
    os.close(r)
    s.send(OUT, text[:100])
    check("what outlives its reader tells what it did",
          p.stderr.readline() == b"done\n")
    s.send(EXIT, struct.pack("=ii", 0, 0))
    p.communicate(timeout=patient(60))
    s.close()


def ends_again():
    """The original, repeated, writes to both outputs and dies of a signal."""
    s = Session()
    p = s.start(["sh", "-c", "echo one; echo two >&2; echo three; kill -TERM $$"],
                path="/bin/sh", stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                stdin=subprocess.DEVNULL)
    s.accept()
    s.send(RUN, struct.pack("=I", 0))
    s.send(OUT, b"one\n")
    s.send(ERR, b"tw")
    s.send(AGAIN)
    out, err = p.communicate(timeout=patient(60))
    check("repeated, both outputs go on where they were, and the signal is the same",
          (out, err, p.returncode) == (b"one\nthree\n", b"two\n", -signal.SIGTERM),
          repr((out, err, p.returncode)))
    s.close()


def closed_output():
    s = Session()
    p = s.start(["sh", "-c", "echo lost; exit 3"], path="/bin/sh",
                stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                preexec_fn=lambda: os.close(1))
    s.accept()
    check("a closed output is told, and is not the same as another",
          s.hello["open"] == 5 and s.hello["same"] == 0, str(s.hello))
    s.send(EXEC)
    _, err = p.communicate(timeout=patient(60))
    check("the original finds it closed", p.returncode == 3 and err != b"", repr(err))
    s.close()


def again():
    text = b"".join(b"line %d\n" % i for i in range(50000))
    with tempfile.NamedTemporaryFile() as file:
        file.write(text)
        file.flush()
        for good in (True, False):
            s = Session()
            p = s.start(["sh", "-c", "cat %s; exit 9" % file.name],
                        path="/bin/sh", stdout=subprocess.PIPE,
                        stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
            s.accept()
            s.send(RUN, struct.pack("=I", 0))
            delivered = text[:60000] if good else text[:59999] + b"?"
            s.send(OUT, delivered)
            s.send(AGAIN)
            out, err = p.communicate(timeout=patient(60))
            if good:
                check("repeated, every byte comes once",
                      out == text and p.returncode == 9 and err == b"")
            else:
                check("repeated with other output, it fails and says so",
                      out == delivered and p.returncode == 125 and
                      b"ferry" in err)
            s.close()


def signal_and_original():
    """A signal that the session was told of, and then the original has to run:
    it must not run as if there had been none."""
    text = b"y\n" * 40000
    for delivered, number in ((0, signal.SIGTERM), (10, signal.SIGTERM),
                              (0, signal.SIGABRT), (10, signal.SIGPROF)):
        s = Session()
        p = s.start(["yes"], path="/usr/bin/yes", stdout=subprocess.PIPE,
                    stdin=subprocess.DEVNULL)
        s.accept()
        s.run()
        if delivered:
            s.send(OUT, text[:delivered])
            assert p.stdout.read(delivered) == text[:delivered]
        p.send_signal(number)
        while s.receive()[0] != SIGNAL:
            pass
        if delivered:
            s.send(AGAIN)
        else:
            s.send(EXEC)
        try:
            got = p.wait(patient(60))
        except subprocess.TimeoutExpired:
            got = "it goes on"
            p.kill()
        check("a signal is not forgotten when the original has to run " +
              ("again" if delivered else "after all") + " (%d)" % number,
              got == -number, str(got))
        p.stdout.close()
        s.close()


def signal_and_unread():
    """The original runs again, and nobody reads what it writes."""
    text = b"y\n" * 5
    good = 0
    for i in range(10):
        s = Session()
        p = s.start(["yes"], path="/usr/bin/yes", stdout=subprocess.PIPE,
                    stdin=subprocess.DEVNULL)
        s.accept()
        s.run()
        s.send(OUT, text)
        while s.receive()[0] != CREDIT:
            pass
        s.send(AGAIN)
        # Where it writes, just begins to wait, or has waited for long.
        until = time.monotonic() + patient(60)
        while i < 8 and fionread(p.stdout) < 65536 >> (7 - i) and \
                time.monotonic() < until:
            time.sleep(0.001)
        if i == 8:
            time.sleep(0.3)
        p.send_signal(signal.SIGTERM)
        try:
            good += p.wait(patient(60)) == -signal.SIGTERM
        except subprocess.TimeoutExpired:
            p.kill()
        p.stdout.close()
        s.close()
    check("a signal ends what runs again, whoever does not read", good == 10,
          str(good))


def fionread(file):
    return struct.unpack("i", fcntl.ioctl(file, termios.FIONREAD, bytes(4)))[0]


def write_error():
    text = b"some lines\n" * 10
    with tempfile.NamedTemporaryFile() as file, open("/dev/full", "wb") as full:
        file.write(text)
        file.flush()
        s = Session()
        p = s.start(["cat", file.name], path="/bin/cat", stdout=full,
                    stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                    env={"LC_ALL": "C"})
        s.accept()
        s.send(RUN, struct.pack("=I", 0))
        s.send(OUT, text)
        check("a write that fails is told before its credit",
              s.receive() == (BROKEN, struct.pack("=ii", 1, errno.ENOSPC)) and
              s.receive()[0] == CREDIT)
        s.send(AGAIN)
        _, err = p.communicate(timeout=patient(60))
        check("repeated, the original meets the error itself",
              p.returncode == 1 and
              err == b"cat: write error: No space left on device\n", str(err))
        s.close()


def lost():
    s = Session()
    p = s.start(["echo", "here"], path="/bin/echo", stdout=subprocess.PIPE)
    s.accept()
    s.close()
    out, _ = p.communicate(timeout=patient(60))
    check("a session that goes away before the decision changes nothing",
          out == b"here\n" and p.returncode == 0)


def same_output():
    s = Session()
    p = s.start(["cat"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL)
    s.accept()
    check("2>&1 is told", s.hello["same"] == 2, str(s.hello))
    s.send(EXEC)
    p.communicate(timeout=patient(60))
    s.close()
    s = Session()
    r, w = os.pipe()
    other = os.open(f"/proc/self/fd/{w}", os.O_WRONLY)
    p = s.start(["cat"], stdout=w, stderr=other, stdin=subprocess.DEVNULL)
    s.accept()
    check("two ways into one pipe are one", s.hello["same"] == 2, str(s.hello))
    s.send(EXEC)
    p.wait(patient(60))
    for fd in (r, w, other):
        os.close(fd)
    s.close()


def main():
    # Whoever runs this in the background may have them ignored.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    for test in (no_session, hello_and_exec, closed_and_extra,
                 output_and_status, many_bytes, broken_pipe, signals,
                 blocked_write, nearly_blocked_write, held_output, standard_input,
                 kept_input, full_disks, limited_files, late_complaints, ends_again,
                 closed_output,
                 again, signal_and_original, signal_and_unread,
                 write_error, lost, same_output):
        try:
            test()
        except Exception as error:  # pylint: disable=broad-except
            check(test.__name__, False, re.sub(r"\s+", " ", repr(error)))
    print(f"1..{count}")
    return 1 if failed else 0


sys.exit(main())
