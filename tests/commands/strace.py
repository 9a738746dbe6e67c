# SPDX-License-Identifier: Apache-2.0
"""Runs one command under strace and tells which paths it looked at, read and
changed, whether it read stdin, and which programs it ran. For touched.py."""
import glob
import os
import re
import signal
import subprocess

import annotated

CALLS = ("%file,fchdir,getdents64,read,readv,pread64,splice,copy_file_range,sendfile,"
         "clone,clone3,fork,vfork")
LINE = re.compile(r"^(\w+)\((.*)\) += (-?\d+|\?|0x[0-9a-f]+)(.*)$", re.S)
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"(?:\.\.\.)?')

LOOKS = {"stat", "lstat", "newfstatat", "statx", "access", "faccessat",
         "faccessat2", "readlink", "readlinkat", "getxattr", "lgetxattr",
         "listxattr", "llistxattr", "chdir", "statfs", "inotify_add_watch"}
# The index of the paths among the strings that are changed.
CHANGES = {"creat": (0,), "mkdir": (0,), "mkdirat": (0,), "mknod": (0,),
           "mknodat": (0,), "unlink": (0,), "unlinkat": (0,), "rmdir": (0,),
           "rename": (0, 1), "renameat": (0, 1), "renameat2": (0, 1),
           "link": (1,), "linkat": (1,), "symlink": (1,),
           "symlinkat": (1,), "chmod": (0,), "fchmodat": (0,),
           "fchmodat2": (0,), "chown": (0,), "lchown": (0,), "fchownat": (0,),
           "utime": (0,), "utimes": (0,), "utimensat": (0,), "futimesat": (0,),
           "truncate": (0,), "setxattr": (0,), "lsetxattr": (0,),
           "removexattr": (0,)}


def unescape(text):
    data = re.sub(rb"\\([0-7]{1,3}|.)", lambda m: (
        bytes([int(m.group(1), 8)]) if m.group(1)[0:1].isdigit() else
        {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"f": b"\f", b"v": b"\v"}.get(
            m.group(1), m.group(1))), text.encode("latin-1"), flags=re.S)
    return os.fsdecode(data)


class Trace:
    """What a command did: sets of absolute paths."""

    def __init__(self, pipe):
        self.pipe = "0<pipe:[%d]>" % pipe
        self.opened, self.listed, self.names = set(), set(), {}
        self.looked, self.read, self.changed = set(), set(), set()
        self.programs = []
        self.stdin = False

    def paths_of(self, arguments, cwd):
        """The path arguments of one call, absolute, in order."""
        paths = []
        for found in STRING.finditer(arguments):
            before = arguments[:found.start()].rstrip(", ")
            text = unescape(found.group(1))
            base = re.search(r"(?:AT_FDCWD|\d+)<((?:[^>\\]|\\.)*)>$", before)
            if not text:
                continue
            start = unescape(base.group(1)) if base else cwd
            paths.append(os.path.normpath(os.path.join(start, text)))
        return paths

    def take_open(self, name, arguments, path):
        flags = arguments[STRING.search(arguments).end():]
        writes = re.search(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC", flags)
        if name == "creat" or writes:
            self.changed.add(path)
        elif "O_PATH" in flags:
            self.looked.add(path)
        else:
            self.opened.add(path)

    def settle(self):
        """A folder that is opened and not listed is only looked at."""
        for path in self.opened:
            if os.path.isdir(path) and path not in self.listed:
                self.looked.add(path)
            else:
                self.read.add(path)
        self.read |= self.listed

    def take(self, prefix, pid, cwd):
        """One process's calls; its children begin in the folder it is in."""
        with open("%s.%d" % (prefix, pid), encoding="latin-1") as file:
            lines = file.read().split("\n")
        for line in lines:
            match = LINE.match(line)
            if not match:
                continue
            name, arguments, result, rest = match.groups()
            if name in ("clone", "clone3", "fork", "vfork"):
                if result.isdigit():
                    self.take(prefix, int(result), cwd)
                continue
            if name in ("read", "readv", "pread64", "splice", "sendfile",
                        "copy_file_range"):
                first = arguments.split(",")[1 if name == "sendfile" else 0]
                self.stdin |= first.strip() == self.pipe
                continue
            if name == "getdents64":
                listed = unescape(
                    re.match(r"\d+<(.*?)>,", arguments).group(1))
                self.listed.add(self.names.get(listed, listed))
                continue
            if name == "fchdir":
                target = re.match(r"\d+<(.*)>$", arguments)
                if target and result == "0":
                    cwd = unescape(target.group(1))
                continue
            if name in ("setxattr", "lsetxattr", "removexattr", "getxattr",
                        "lgetxattr"):
                arguments = arguments[:STRING.search(arguments).end()]
            if name == "execve":
                if result == "0":
                    program = STRING.search(arguments).group(1)
                    self.programs.append(unescape(program))
                continue
            paths = self.paths_of(arguments, cwd)
            if not paths:
                continue
            if name in ("open", "openat", "openat2"):
                self.take_open(name, arguments, paths[0])
                real = re.match(r"<(.*)>$", rest)
                if real:
                    self.names[unescape(real.group(1))] = paths[0]
            elif name in CHANGES:
                changed = CHANGES[name]
                if name in ("symlink", "symlinkat"):
                    paths = [None, paths[-1]]
                for i in changed:
                    if i < len(paths):
                        self.changed.add(paths[i])
            elif name in LOOKS:
                self.looked.add(paths[0])
                if name == "chdir" and result == "0":
                    cwd = paths[0]
            else:
                self.looked.update(paths)


def run(program, argv, cwd, environment, stdin, scratch):
    """Trace of one command, and its exit status. stdin: bytes for a pipe."""
    out = os.path.join(scratch, "trace")
    for old in glob.glob(glob.escape(out) + ".*"):
        os.unlink(old)
    process = subprocess.Popen(
        ["strace", "-ff", "-y", "-qq", "-s", "4096", "-o", out, "-e",
         "trace=" + CALLS, "-e", "signal=none", "-a", "1",
         program] + argv[1:], cwd=cwd, env=environment,
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, start_new_session=True)
    pipe = os.fstat(process.stdin.fileno()).st_ino
    try:
        _, errors = process.communicate(stdin, timeout=annotated.LIMIT)
    except subprocess.TimeoutExpired:
        # Without strace the command would go on, and keep the pipe.
        os.killpg(process.pid, signal.SIGKILL)
        try:
            process.communicate(timeout=annotated.LIMIT)
        except subprocess.TimeoutExpired:
            process.stderr.close()
        return None, -1, b"it hangs"
    trace = Trace(pipe)
    pids = sorted(int(p.rsplit(".", 1)[1])
                  for p in glob.glob(glob.escape(out) + ".*"))
    first = None
    for pid in pids:
        with open("%s.%d" % (out, pid), encoding="latin-1") as file:
            if file.readline().startswith("execve("):
                first = pid
                break
    if first is None:
        return None, process.returncode, errors
    trace.take(out, first, cwd)
    trace.settle()
    return trace, process.returncode, errors
