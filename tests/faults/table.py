#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each system call of ferry's fails once: what the script prints, returns and
writes is what it does without ferry, nothing is left running, within 30 s.

Runs with tests/faults/inject first tell which system calls ferry run, the proxy,
the stub and the preloaded library make, and from where in ferry's code: a site is
the return addresses of the calls that are under way (frames.h). Then the script is
run once for each site and each error that the call could meet there (ERRORS), the
first time, and for the first of these errors the last time: the number of the call
at this site, of the recorded run with the fewest. Likewise for each site that
allocates memory (nomem.c). --full runs all (about 3,500), in a drawn order with
--seconds; else a sample is drawn, with a seed that is printed (FERRY_SEED, or 1).

Not failed: calls that cannot fail (SILENT), futex(2), what the dynamic linker does
for ferry run before main() (no ferry has started then), the stub's allocations (it is
static), ssh, and cards. A case whose site is not met in three runs (threads and
processes race) counts as not occurred. A fault stays one: no call fails for good.
"""
import argparse
import collections
import errno
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                os.pardir))
sys.dont_write_bytecode = True

from chosen import EDIT  # noqa: E402  pylint: disable=wrong-import-position
from patience import patient  # noqa: E402  pylint: disable=wrong-import-position
from sample import Sample  # noqa: E402  pylint: disable=wrong-import-position

BUILD = os.path.realpath(os.environ.get("FERRY_BUILDDIR", "."))
SOURCE = os.path.realpath(os.environ.get("FERRY_SRCDIR", os.path.join(
    os.path.dirname(os.path.abspath(__file__)), os.pardir, os.pardir)))
FERRY = os.path.join(BUILD, "ferry")
STUB = os.path.join(BUILD, "ferry-stub")
INJECT = os.path.join(BUILD, "tests/faults/inject")
NOMEM = os.path.join(BUILD, "tests/faults/ferry")  # its allocations can fail
SECONDS = int(patient(30))
RECORDS = 1 if EDIT else 3  # runs differ: an interrupt, a process that is ready sooner
TRIES = 3    # runs for a fault to occur in

# Scripts, started in the mounted folder; $OUT is a local one.
SCRIPTS = {
    "pipe": "grep 1 f | sort -r | uniq -c; echo $?",
    "files": "grep -c 7 f >count; sort -r f >$OUT/sorted 2>err; cat count err; "
             "sed -i s/1/x/ g; tar xf t.tar; cat t/a g; "
             "tar cf - t | gzip -c | gzip -dc | tar tf -; grep none f; echo $?",
    "killed": "tail -f f >followed & for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 "
              "16 17 18 19 20; do [ -s followed ] && break; sleep 0.1; done; "
              "kill -TERM $!; wait $!; echo $?; wc -l <followed",
    "calls": '"$CALLS"',
}

# What a call may fail with; names that share a row do the same.
ERRORS = {
    "open openat openat2 open_tree": "EMFILE EACCES ENOMEM",
    "read.file readv.file pread64": "EIO EINTR",
    "read.pipe read.socket read.other recvfrom recvmsg": "EINTR",
    "write.file writev.file pwrite64": "ENOSPC EIO EINTR",
    "write.pipe write.other writev.pipe": "EINTR",
    "write.socket writev.socket sendto sendmsg": "ENOBUFS EINTR",
    "malloc mmap mremap": "ENOMEM",
    "mprotect munmap madvise": "ENOMEM",
    "fork vfork clone": "EAGAIN",
    "clone3": "EAGAIN ENOSYS",
    "execve execveat": "ENOMEM EACCES",
    "socket socketpair accept accept4": "EMFILE EACCES",
    "connect bind listen": "EACCES ECONNREFUSED",
    "pipe pipe2 dup dup2 dup3 eventfd2 epoll_create1 signalfd4 memfd_create "
    "inotify_init1 pidfd_open timerfd_create": "EMFILE ENOSYS",
    "fcntl": "EMFILE EINVAL",
    "stat lstat fstat newfstatat statx access faccessat2 statfs fstatfs":
        "EACCES EIO ENOSYS",
    "readlink readlinkat getcwd getdents64": "EACCES ENOMEM",
    "poll ppoll epoll_wait epoll_pwait select pselect6": "EINTR ENOMEM",
    "epoll_ctl timer_create": "ENOMEM",
    "wait4 waitid": "EINTR",
    "rt_sigtimedwait": "EINTR EAGAIN",
    "unshare setns mount umount2 move_mount mount_setattr pivot_root chroot "
    "fsopen fsconfig fsmount": "EPERM ENOSYS ENOMEM",
    "landlock_create_ruleset landlock_add_rule landlock_restrict_self":
        "ENOSYS EPERM ENOMEM",
    "prctl": "EINVAL EPERM",
    "prlimit64 setrlimit": "EPERM",
    "process_vm_readv process_vm_writev userfaultfd": "EPERM ENOSYS",
    "unlink unlinkat rename renameat renameat2 mkdir mkdirat rmdir link linkat "
    "symlink symlinkat chmod fchmod fchmodat chown fchown fchownat utimensat "
    "ftruncate fallocate": "EACCES ENOSPC EIO",
    "fsync fdatasync syncfs": "EIO ENOSPC",
    "sendfile copy_file_range splice": "EINVAL EIO",
    "lseek": "ESPIPE",
    "ioctl": "ENOTTY EPERM",
    "getrandom": "ENOSYS EINTR",
    "flock": "EINTR ENOLCK",
    "chdir fchdir": "EACCES",
    "setsid setpgid kill pidfd_send_signal": "EPERM",
    "getsockopt setsockopt getpeername shutdown": "ENOBUFS",
    "getxattr setxattr fgetxattr": "ENOTSUP",
    "close_range": "ENOSYS",
    "sched_getaffinity fadvise64": "EPERM",
    "setpriority": "EACCES",
}
# They cannot fail, or not by an error (brk), or not where ferry calls them: close()
# has always closed.
SILENT = set("""brk close getpid getppid gettid getuid geteuid getgid getegid getpgrp
getsid getpgid umask rt_sigaction rt_sigprocmask sigaltstack set_robust_list rseq
set_tid_address arch_prctl clock_gettime clock_getres sysinfo uname getpriority
getrlimit setitimer tgkill exit exit_group clock_nanosleep nanosleep alarm pause
restart_syscall sched_yield getrusage times gettimeofday rt_sigsuspend
timer_settime timer_delete membarrier rt_sigpending capget getresuid getresgid
getgroups""".split())

# (case, place in the code, what is wrong): a regular expression each. These are
# ferry's answers, or the system's, and no others are taken.
KNOWN = [
    # The program itself, or a command that runs here, cannot be executed: as env(1)
    # says it, and as a shell ends then.
    (r" (run|stub|shim) execve ", r"child_main|fy_child_become|stub_exec|exec.c",
     r"status 126, plain|stdout .*126"),
    # The program's own dlopen() has no memory: it says so, as without ferry.
    (r"^calls shim malloc ", r"^dlopen ", r"stdout b'no dlerror"),
    # The stub's C library ends it before main(), as it would the command's.
    (r" stub mprotect ", r"_dl_protect_relro",
     r"cannot apply additional memory|stdout .*127"),
    # glibc's regcomp() frees twice when memory ends within a bracket expression.
    (r" malloc ", r"fy_command_regex", r"status -6|double free"),
    # The folder cannot be removed, because that is what fails. The next proxy
    # removes it.
    (r" proxy ", r"remove_below|fy_temporary_remove",
     r"^temporary files are left: \['ferry-proxy-......'\]$"),
    # The proxy or the connection is lost while a command with effects runs: that
    # is said, and nothing is repeated.
    (r"^files (proxy|run) ", r"", r"what it did at loopback:// is incomplete or "
     r"unknown"),
]


def numbers():
    """{number: name} of the system calls."""
    found = {}
    text = subprocess.run(["cc", "-E", "-dM", "-include", "sys/syscall.h", "-xc",
                           "/dev/null"], stdout=subprocess.PIPE, check=True).stdout
    for name, number in re.findall(r"#define __NR_(\w+) (\d+)", text.decode()):
        found[int(number)] = name
    return found


CALLS = numbers()
MALLOC = 1000000  # stands for malloc() and the like
CALLS[MALLOC] = "malloc"
NEVER = ["fail", str(MALLOC), "1", "-", "-", "1"]
OF_CALL = {name: errors.split() for names, errors in ERRORS.items()
           for name in names.split()}


class Place:
    """One process at a time runs scripts here."""

    def __init__(self, top):
        self.top = top
        self.mount, self.out = os.path.join(top, "m"), os.path.join(top, "o")
        self.result = os.path.join(top, "result")
        self.calls = os.path.join(top, os.pardir, "calls")
        self.preload = os.path.join(top, os.pardir, "nomem.so")
        self.environment = dict(
            os.environ, LC_ALL="C", HOME=os.path.join(top, "home"),
            XDG_CONFIG_HOME=os.path.join(top, "home"),
            XDG_CACHE_HOME=os.path.join(top, "cache"),
            TMPDIR=os.path.join(top, "tmp"), OUT=self.out, CALLS=self.calls)
        for name in ("home", "cache"):
            os.makedirs(os.path.join(top, name))

    def fill(self):
        for name in ("m", "o", "tmp"):
            path = os.path.join(self.top, name)
            shutil.rmtree(path, ignore_errors=True)
            os.mkdir(path)
        for name, content in (
                ("f", "".join("%d\n" % n for n in range(3000))), ("g", "1\n21\n")):
            with open(os.path.join(self.mount, name), "w", encoding="ascii") as f:
                f.write(content)
        os.mkdir(os.path.join(self.mount, "t"))
        with open(os.path.join(self.mount, "t/a"), "w", encoding="ascii") as f:
            f.write("a\n")
        subprocess.run(["tar", "--mtime=@1000000", "-cf", "t.tar", "t"], cwd=self.mount, check=True)
        shutil.rmtree(os.path.join(self.mount, "t"))

    def files(self):
        """{path: what it is} of what the script may have written."""
        seen = {}
        for root in (self.mount, self.out):
            for folder, names, files in os.walk(root):
                for name in names + files:
                    path = os.path.join(folder, name)
                    about = os.lstat(path)
                    content = b""
                    if stat.S_ISREG(about.st_mode):
                        with open(path, "rb") as f:
                            content = f.read()
                    seen[os.path.relpath(path, self.top)] = (
                        stat.filemode(about.st_mode), about.st_nlink, content)
        return seen

    def run(self, command):
        self.fill()
        with open(os.path.join(self.top, "out"), "wb") as out, \
                open(os.path.join(self.top, "err"), "wb") as err:
            status = subprocess.run(
                command, cwd=self.mount, env=self.environment, stdout=out,
                stderr=err, stdin=subprocess.DEVNULL, check=False,
                start_new_session=True).returncode
        with open(out.name, "rb") as out, open(err.name, "rb") as err:
            return status, out.read(), err.read(), self.files()

    def ferry(self, script, *more, program=FERRY):
        if script == SCRIPTS["calls"]:
            return [program, "run", "--no-discover", "--force", "--device",
                    "host,memory=64KiB", *more, "--", "sh", "-c", script]
        return [program, "run", "--no-discover", "--force", "--device", "none", *more,
                "--mount", "%s=loopback://%s" % (self.mount, self.mount),
                "--", "sh", "-c", script]

    def nomem(self, script, at=None):
        """What a run did of whose allocations one fails: (outcome, lines); all
        are told without `at'."""
        bed = os.path.join(self.top, "bed")
        if not os.path.exists(bed):
            os.makedirs(os.path.join(bed, "tools"))
            shutil.copy(os.path.join(BUILD, "tools/uninstalled"),
                        os.path.join(bed, "tools"))
            shutil.copy(NOMEM, os.path.join(bed, "ferry"))
            shutil.copy(STUB, bed)
            os.symlink(os.path.join(BUILD, ".libs"), os.path.join(bed, ".libs"))
        told = os.path.join(self.top, "told")
        with open(told, "wb"):
            pass
        self.environment["FERRY_NOMEM"] = told
        if at:
            self.environment["FERRY_NOMEM_AT"] = at
        program = os.path.join(bed, "ferry")
        if script == SCRIPTS["calls"] and (not at or at.startswith("shim")):
            program = FERRY  # two of these would be in each other's way
            self.environment["LD_PRELOAD"] = self.preload
        # Compiled anew, as at the first start.
        outcome, lines = self.injected(NEVER, self.ferry(script, program=program),
                                       warm=False)
        for name in ("FERRY_NOMEM", "FERRY_NOMEM_AT", "LD_PRELOAD"):
            self.environment.pop(name, None)
        most = {}  # allocations of a site, of the process that makes most of them
        with open(told, encoding="ascii") as f:
            for line, times in collections.Counter(f).items():
                words = line.split()
                if words[0] != "alloc":
                    lines.append(line.strip())
                elif program != FERRY or words[1] == "shim":
                    site = " ".join(words[1:3])
                    most[site] = max(times, most.get(site, 0))
        for site, times in most.items():
            lines += ["call %d %s -" % (MALLOC, site)] * times
        return outcome, lines

    def warm(self, scripts):
        """Keeps the cache that these scripts leave: each run starts with it."""
        for name in scripts:
            self.run(self.ferry(SCRIPTS[name]))
        shutil.copytree(os.path.join(self.top, "cache"),
                        os.path.join(self.top, "warm"))

    def injected(self, how, command, warm=True):
        """What a run under inject did: (outcome, lines of its result)."""
        shutil.rmtree(os.path.join(self.top, "cache"))
        if warm:
            shutil.copytree(os.path.join(self.top, "warm"),
                            os.path.join(self.top, "cache"))
        else:
            os.mkdir(os.path.join(self.top, "cache"))
        answer = self.run([INJECT, self.result, str(SECONDS), FERRY, STUB, *how,
                           "--", *command])
        with open(self.result, encoding="utf-8", errors="replace") as f:
            lines = f.read().splitlines()
        if answer[0]:
            print("1..0 # SKIP " + answer[2].decode().strip())
            sys.exit(77)
        status = [int(line.split()[1]) for line in lines
                  if line.startswith("status ")]
        if status:
            status = os.waitstatus_to_exitcode(status[0])
        return (status, *answer[1:]), lines


def calls_of(lines):
    """{(call, role, site): [times, kind, times by the dynamic linker]} of a record."""
    count, started = {}, False
    for line in lines:
        if not line.startswith("call "):
            continue
        _, number, role, site, kind = line.split()
        key = int(number), role, site
        started = started or (role == "run" and site != "-")
        of_site = count.setdefault(key, [0, kind, 0])
        of_site[0] += 1
        of_site[2] += role == "run" and not started
    return count


def cases_of(records):
    """[(call, error, role, site, which)] from the calls of some records: `which' is
    a number that each record with the site has."""
    count = {}
    for record in records:
        for key, (times, kind, linker) in calls_of(record).items():
            least = count.setdefault(key, [times, kind, linker])
            least[0] = min(least[0], times)
    found = []
    for (number, role, site), (times, kind, skip) in count.items():
        name = CALLS.get(number, str(number))
        if name in SILENT:
            continue
        errors = OF_CALL.get(name + "." * (kind != "-") + kind.strip("-"),
                             ["EPERM", "ENOSYS"])
        if times > skip:
            found += [(number, error, role, site, skip + 1) for error in errors]
        found += [(number, errors[0], role, site, which)
                  for which in [times] if which > skip + 1]
    return found


def strip(err):
    """What ferry run may say for itself: that something runs without it."""
    return b"".join(line for line in err.splitlines(True)
                    if not line.startswith(b"ferry: "))


def differences(plain, outcome, lines):
    """What an outcome under ferry has that the plain one has not."""
    found = [line for line in lines if line.startswith(("left ", "late"))]
    for what, a, b in zip(("status", "stdout", "stderr"), plain,
                          (*outcome[:2], strip(outcome[2]))):
        if a != b:
            found.append("%s %.300r, plain %.300r" % (what, b, a))
    for path in sorted(set(plain[3]) | set(outcome[3])):
        a, b = plain[3].get(path), outcome[3].get(path)
        if a != b:
            found.append("%s: %.200r, plain %.200r" % (path, b, a))
    return found


def judge(place, plain, case, script):
    """What is wrong with a run; None when the fault did not occur."""
    number, error, role, site, which = case
    before = time.monotonic()
    if number == MALLOC:
        outcome, lines = place.nomem(script, "%s %s %d" % (role, site, which))
    else:
        outcome, lines = place.injected(
            ["fail", str(number), str(getattr(errno, error)), role, site,
             str(which)], place.ferry(script))
    found = differences(plain, outcome, lines)
    name = CALLS.get(number)
    if name not in ("unlink", "rmdir", "unlinkat") and not found:
        left = os.listdir(os.path.join(place.top, "tmp"))
        if left:
            found.append("temporary files are left: %s" % left)
    if not any(line.startswith("hit ") for line in lines) and not found:
        return None
    taken = time.monotonic() - before
    return found, taken, outcome[2]


def sooner(case):
    """The case for the next try: not so late a call of a site. (Where no site is
    told, "-", the first calls are the dynamic linker's.)"""
    *what, site, which = case
    return (*what, site, max(1, which * 2 // 3) if site != "-" else which)


def places_of(number, site):
    """The functions and lines of a site."""
    texts = []
    ferry = NOMEM if number == MALLOC else FERRY
    for frame in site.split(","):
        if "+" not in frame:
            texts.append(frame)
            continue
        module, offset = frame.split("+")
        path = {"ferry": ferry, "ferry-stub": STUB}.get(module)
        if not path:
            path = os.path.join(BUILD, ".libs", "libferry.so")
        offset = int(offset, 16) + (0x400000 if module == "ferry-stub" else 0) - 1
        text = subprocess.run(["addr2line", "-fse", path, hex(offset)], check=False,
                              stdout=subprocess.PIPE).stdout.decode().split()
        texts.append("%s (%s)" % tuple(text[:2]))
    return " < ".join(texts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="every case")
    parser.add_argument("--sample", type=int, default=10 if EDIT else 30)
    parser.add_argument("--seed", type=int)
    Sample.arguments(parser)
    parser.add_argument("--only", help="a regular expression for case names")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("scripts", nargs="*", default=list(SCRIPTS))
    options = parser.parse_args()
    missing = [path for path in (INJECT, NOMEM) if not os.path.exists(path)]
    if os.environ.get("FERRY_SANITIZED"):
        missing = ["a ferry without sanitizers"]
    if missing:
        print("1..0 # SKIP needs " + missing[0])
        return 77
    sample = Sample(options.seconds, options.seed)
    print("# seed %d" % sample.seed, flush=True)
    top = tempfile.mkdtemp(dir="/var/tmp")
    work, plains, seen, total = [], {}, set(), 0
    first = Place(os.path.join(top, "0"))
    here = os.path.join(SOURCE, "tests/faults")
    for output, source, flags in (
            (first.calls, "calls.c", ["-lblas", "-pthread"]),
            (first.preload, "nomem.c", ["-D_GNU_SOURCE", "-fPIC", "-shared",
                                        "-I" + BUILD, "-I" + SOURCE])):
        subprocess.run(["cc", "-O1", "-g", "-o", output,
                        os.path.join(here, source), *flags], check=True)
    first.warm(options.scripts)
    for name in options.scripts:
        script = SCRIPTS[name]
        plains[name] = first.run(["sh", "-c", script])
        records = []
        for _ in range(RECORDS):
            outcome, lines = first.injected(["record"], first.ferry(script))
            found = differences(plains[name], outcome, lines)
            if found:
                print("not ok - %s without a fault: %s" % (name, "; ".join(found)))
                return 1
            records.append(lines + first.nomem(script)[1])
        for case in cases_of(records):
            total += 1
            if case not in seen:
                seen.add(case)
                work.append((name, case))
    if options.only:
        work = [one for one in work if re.search(options.only, label(*one))]
    work = sample.draw(work, drawn, always=True)
    if not options.full and not options.only:
        work = work[:options.sample]
    print("# %d cases of %d" % (len(work), total), flush=True)
    lock, bad, absent, done = threading.Lock(), [], [], [0]

    def worker(number):
        place = first if number == 0 else Place(os.path.join(top, str(number)))
        if number:
            place.warm(options.scripts)
        mine = dict(plains)
        while True:
            with lock:
                if not work or not sample.takes():
                    return
                name, case = work.pop(0)
            answer = None
            for _ in range(TRIES):
                answer = judge(place, mine[name], case, SCRIPTS[name])
                if answer:
                    break
                case = sooner(case)
            with lock:
                done[0] += 1
                if answer is None:
                    absent.append((name, case))
                elif answer[0]:
                    place_text = places_of(case[0], case[3])
                    text = label(name, case)
                    known = any(re.search(a, text) and re.search(b, place_text) and
                                any(re.search(c, one) for one in answer[0])
                                for a, b, c in KNOWN)
                    bad.extend([(name, case)] * (not known))
                    print("%s %d - %s%s" % ("ok" if known else "not ok", done[0],
                                            text, " (known)" * known))
                    print("#   at " + place_text)
                    for text in answer[0]:
                        print("#   " + text)
                    if answer[2]:
                        print("#   said %.300r" % answer[2])
                else:
                    print("ok %d - %s (%.1f s)" % (done[0], label(name, case),
                                                   answer[1]))
                sys.stdout.flush()
    threads = [threading.Thread(target=worker, args=(n,))
               for n in range(options.jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sample.say()
    print("1..%d" % done[0])
    for one in absent:
        print("# did not occur: " + label(*one))
    print("# %d did not occur, %d failed" % (len(absent), len(bad)))
    shutil.rmtree(top)
    return len(bad) > 0


def drawn(one):
    """Names a case as another run of this build does: how often a place is met
    differs from run to run."""
    name, case = one
    return "%s %d" % (label(name, case).rsplit(None, 1)[0], case[4] > 1)


def label(name, case):
    number, error, role, site, which = case
    return "%s %s %s %s %s %d" % (name, role, CALLS.get(number), error, site, which)


if __name__ == "__main__":
    sys.exit(main())
