#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`ferry run` where something that it would like to have is missing: limits of
nearly nothing, closed descriptors, no folder for files, no /proc, system calls
that fail. The command must do what it does without ferry; ferry may say why on
standard error, in lines of its own. Prints TAP. What needs namespaces is skipped
where there are none."""
import ctypes
import os
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.dont_write_bytecode = True

from patience import patient  # noqa: E402

if os.environ.get("FERRY_SANITIZED"):
    print("1..0 # SKIP sanitizers need memory, descriptors and /proc")
    sys.exit(77)

BUILD = os.environ.get("FERRY_BUILDDIR", ".")
FERRY = os.path.abspath(os.path.join(BUILD, "ferry"))
SECONDS = patient(60)
# ./check tries each odd thing in one of the modes, in turn.
SAMPLE = os.environ.get("FERRY_TEST_TIER") == "edit"


def limit(which, value):
    def apply():
        resource.setrlimit(which, (value, value))
    return apply


def close(*numbers):
    def apply():
        for number in numbers:
            os.close(number)
    return apply


def no_processes():
    """As a user who may have one process, this one. Nobody else's: not another
    run's of this test, nor one's before that has not quite ended."""
    user = 100000 + os.getpid()
    resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
    os.setgid(user)
    os.setuid(user)


def in_removed_folder():
    folder = tempfile.mkdtemp()
    os.chdir(folder)
    os.rmdir(folder)


def seccomp(numbers, action):
    """These system calls end so (x86-64)."""
    def apply():
        code = [(0x20, 0, 0, 0)]
        for number in numbers:
            code += [(0x15, 0, 1, number), (0x06, 0, 0, action)]
        code.append((0x06, 0, 0, 0x7fff0000))
        block = b"".join(struct.pack("HBBI", *row) for row in code)
        libc = ctypes.CDLL(None)
        room = ctypes.create_string_buffer(block)
        program = ctypes.create_string_buffer(
            struct.pack("HxxxxxxP", len(code), ctypes.addressof(room)))
        if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, program, 0, 0):
            os._exit(99)
    return apply


# clone3, close_range, openat2, faccessat2, pidfd_open, epoll_pwait2,
# landlock_*, memfd_secret, process_mrelease, futex_waitv, cachestat, statx
YOUNG = [435, 436, 437, 439, 434, 441, 444, 445, 446, 447, 448, 449, 451, 332]
ENOSYS, EPERM, KILL = 0x00050000 | 38, 0x00050000 | 1, 0x80000000

SPEAK = ["sh", "-c", "echo out; echo err >&2; exit 3"]
READ = ["sh", "-c", "cat; exit 4"]
PIPE = ["sh", "-c", "cat f | grep -c 1; echo $?; wc -l < f; exit 5"]
DIE = ["sh", "-c", "kill -TERM $$"]
NONE = ["/no/such/program"]
MODE = ["sh", "-c", "umask; : > made; stat -c %a made; rm -f made"]


def namespaced(script):
    """The command in a mount namespace in which the script was run."""
    return ["unshare", "--mount", "--map-root-user", "sh", "-c",
            script + ' && exec "$@"', "sh"]


# name, what the child does before exec, variables (None: unset), prefix, commands
def rows(top):
    full = os.path.join(top, "full")
    unwritable = os.path.join(top, "unwritable")
    cache = os.path.join(top, "cache")
    for folder in (full, unwritable, cache):
        os.mkdir(folder)
    os.chmod(unwritable, 0o500)
    no = os.path.join(top, "no")
    yield "nothing odd", None, {}, [], [SPEAK, READ, PIPE, DIE, NONE, MODE]
    for number in (4, 5, 6, 8, 10, 12, 16, 20, 24, 32):
        yield (f"{number} descriptors", limit(resource.RLIMIT_NOFILE, number),
               {}, [], [SPEAK, READ])
    yield ("files of no bytes", limit(resource.RLIMIT_FSIZE, 0), {}, [],
           [SPEAK, READ, PIPE])
    yield ("files of 100 bytes", limit(resource.RLIMIT_FSIZE, 100), {}, [],
           [SPEAK, PIPE])
    for mega in (12, 24, 48, 96):
        yield (f"{mega} MB of addresses",
               limit(resource.RLIMIT_AS, mega << 20), {}, [], [SPEAK, READ])
    yield ("8 MB of data", limit(resource.RLIMIT_DATA, 8 << 20), {}, [],
           [SPEAK, READ])
    yield ("256 KiB of stack", limit(resource.RLIMIT_STACK, 256 << 10), {}, [],
           [SPEAK, PIPE])
    if os.geteuid() == 0:  # of whom nothing runs yet; root has no such limit
        yield ("no processes", no_processes, {}, [],
               [["sh", "-c", "echo out; echo err >&2; exit 3"]])
    yield ("no locked memory, no core", limit(resource.RLIMIT_MEMLOCK, 0), {},
           [], [SPEAK])
    for numbers in ((0,), (1,), (2,), (0, 1), (0, 1, 2)):
        yield (f"closed {numbers}", close(*numbers), {}, [],
               [["sh", "-c", "echo out; echo err >&2; [ -e /proc/self/fd/0 ];"
                 "exit 3"]])
    for name, value in (("missing", no), ("unwritable", unwritable),
                        ("empty", ""), ("relative", "x"), ("unset", None),
                        ("no folder", "/dev/null"),
                        ("too long", "/" + "x" * 3000)):
        yield f"TMPDIR {name}", None, {"TMPDIR": value}, [], [SPEAK, PIPE]
    for name, value in (("unset", None), ("missing", no), ("empty", ""),
                        ("unwritable", unwritable), ("relative", "x")):
        yield (f"HOME {name}", None,
               {"HOME": value, "XDG_CACHE_HOME": None, "XDG_CONFIG_HOME": None,
                "XDG_RUNTIME_DIR": None}, [], [SPEAK, PIPE])
    yield ("nothing at all to write to", None,
           {"HOME": no, "XDG_CACHE_HOME": no, "XDG_RUNTIME_DIR": no,
            "TMPDIR": no}, [], [SPEAK, PIPE])
    yield ("an empty environment", None, None, [], [SPEAK])
    yield "a removed folder", in_removed_folder, {}, [], [SPEAK, READ]
    yield "umask 0777", lambda: os.umask(0o777), {}, [], [SPEAK, READ, MODE]
    yield "umask 0", lambda: os.umask(0), {}, [], [SPEAK, MODE]
    yield ("signals ignored", lambda: [
        signal.signal(s, signal.SIG_IGN) for s in
        (signal.SIGCHLD, signal.SIGPIPE, signal.SIGINT, signal.SIGTERM)],
        {}, [], [SPEAK, PIPE])
    yield ("signals blocked", lambda: signal.pthread_sigmask(
        signal.SIG_BLOCK, range(1, 65)), {}, [], [SPEAK, PIPE])
    if os.uname().machine == "x86_64":
        yield "young calls unknown", seccomp(YOUNG, ENOSYS), {}, [], \
            [SPEAK, READ, PIPE]
        yield "young calls forbidden", seccomp(
            [n for n in YOUNG if n != 435], EPERM), {}, [], [SPEAK, READ, PIPE]
        yield "young calls kill", seccomp(
            [n for n in YOUNG if n not in (435, 332, 439)], KILL), {}, [], \
            [SPEAK, READ, PIPE]
    mounts = {
        "no /proc": "mount -t tmpfs none /proc",
        "no /dev/shm": "mount -t tmpfs -o size=4k,mode=755 none /dev/shm && "
                       "chmod 0 /dev/shm",
        "a full TMPDIR": f"mount -t tmpfs -o size=4k none {full} && "
                         f"head -c 9999 /dev/zero >{full}/x 2>/dev/null; true",
        "a read-only cache": f"mount -t tmpfs none {cache} && "
                             f"mount -o remount,ro {cache}",
        "a cache without code": f"mount -t tmpfs -o noexec none {cache}",
        "all read-only": "mount --bind / / && mount -o remount,ro,bind / && "
                         "mount -t tmpfs -o ro none /tmp",
    }
    if subprocess.run(namespaced("true") + ["true"], check=False,
                      stderr=subprocess.DEVNULL).returncode != 0:
        print("# skipped: namespaces cannot be made")
        return
    for name, script in mounts.items():
        commands = [SPEAK, READ]
        if name not in ("no /proc", "all read-only"):
            commands.append(PIPE)
        yield (name, None, {"TMPDIR": full, "XDG_CACHE_HOME": cache},
               namespaced(script), commands)


MODES = {
    "bare": ["--no-discover"],
    "calls": ["--no-discover", "--device", "host", "--force"],
    "report": ["--no-discover", "--report=/dev/null"],
    "mount": ["--no-discover", "--force"],
}


def run(command, prepare, variables, folder):
    environment = {} if variables is None else dict(os.environ)
    for name, value in (variables or {}).items():
        environment.pop(name, None)
        if value is not None:
            environment[name] = value

    def before():
        os.chdir(folder)
        if prepare:
            prepare()
    with open(os.path.join(folder, "f"), "rb") as stdin:
        try:
            done = subprocess.run(command, stdin=stdin, capture_output=True,
                                  env=environment, preexec_fn=before,
                                  check=False, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            return "it hangs", b"", b""
        except (OSError, subprocess.SubprocessError):
            return "no start", b"", b""
    said = b"".join(line for line in done.stderr.splitlines(keepends=True)
                    if not line.startswith(b"ferry: "))
    return done.returncode, done.stdout, said


def alike(plain, carried, command):
    if plain == carried:
        return True
    # Who says that there is no such program is another.
    return command is NONE and carried[0] == 127


def main():
    top = os.path.realpath(tempfile.mkdtemp())
    folder = os.path.join(top, "folder")
    os.mkdir(folder)
    os.chmod(top, 0o755)
    with open(os.path.join(folder, "f"), "w", encoding="utf-8") as file:
        file.write("".join(f"{n}\n" for n in range(2000)))
    number = failed = turn = 0
    for name, prepare, variables, prefix, commands in rows(top):
        turn += 1
        for at, (mode, options) in enumerate(MODES.items()):
            if SAMPLE and turn > 1 and at != turn % len(MODES):
                continue
            if mode == "mount":
                options = options + ["--mount", f"{folder}=loopback://{folder}"]
            odd = []
            for command in commands:
                plain = run(prefix + command, prepare, variables, folder)
                carried = run(prefix + [FERRY, "run"] + options + ["--"] +
                              command, prepare, variables, folder)
                if not alike(plain, carried, command):
                    odd.append((command, plain, carried))
            number += 1
            failed += bool(odd)
            print(f"{'not ' if odd else ''}ok {number} - {name}: {mode}",
                  flush=True)
            for row in odd:
                print("# " + repr(row))
    print(f"1..{number}")
    shutil.rmtree(top)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
