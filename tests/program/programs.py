# SPDX-License-Identifier: Apache-2.0
"""The small programs: sources, how each is run, and what must be offloaded."""
import os
import sys

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, of)
                for of in ("", "judges")]
import chosen  # noqa: E402
import ferryrun  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
FAKE = os.path.join(os.environ.get("FERRY_BUILDDIR", "."),
                    "tests/fakecuda/.libs")
LIB = ferryrun.multiarch()

WAYS = {
    "cut": ["--device", "host,memory=64KiB", "--force", "--chunk", "random:3"],
    "whole": ["--device", "host,memory=64MiB", "--force"],
    "default": ["--device", "host"],
    "resident": ["--device", "host,memory=64MiB", "--force",
                 "--residency", "write-through"],
    "evicted": ["--device", "host,memory=2MiB", "--force",
                "--residency", "write-through", "--chunk", "random:5"],
    "parted": ["--device", "host,memory=64MiB", "--force",
               "--residency", "write-through", "--chunk", "random:7"],
    "compared": ["--device", "host,memory=64MiB", "--force",
                 "--residency", "compare"],
    "auto": ["--device", "host,memory=64MiB", "--force", "--residency", "auto"],
    "card": ["--device", "cuda", "--force"], # tests/fakecuda
    "slow": ["--device", "host"], # with rates by which it never pays
}
SLOW = "call_seconds=1000\n"

ALL = ("cut", "whole", "default")
# With a report, to see what was offloaded. Otherwise the program takes ferry's
# own process, which is the other half of `ferry run'.
COUNTED = ("cut", "whole", "card", "resident", "evicted", "parted",
           "compared", "auto")
BOTH = ("netlib", "openblas")
# The fake card, where `make check' has built it.
FAKED = ("card",) if os.path.exists(
    os.path.join(FAKE, "libcublas.so.13")) else ()

# output -> (source, compiler flags after it)
SOURCES = {
    "threads": ("threads.c", ["-lblas", "-pthread"]),
    "faults": ("faults.c", ["-lblas", "-pthread"]),
    "plugins": ("plugins.c", ["-lblas", "-ldl"]),
    "resident": ("resident.c", ["-D_GNU_SOURCE", "-lblas", "-pthread"]),
    "watched": ("watched.c", ["-D_GNU_SOURCE", "-lblas", "-pthread"]),
    "mirrored": ("mirrored.c", ["-D_GNU_SOURCE", "-lblas", "-pthread"]),
    "racing": ("racing.c", ["-D_GNU_SOURCE", "-lblas", "-pthread"]),
    "habits": ("habits.c", ["-D_GNU_SOURCE", "-llapack", "-lblas", "-pthread"]),
    "locks": ("locks.c", ["-lblas", "-pthread"]),
    "forks": ("forks.c", ["-lblas", "-pthread"]),
    "signals": ("signals.c", ["-lblas", "-pthread"]),
    "alone": ("alone.c", ["-D_GNU_SOURCE", "-lblas", "-pthread"]),
    "sandbox": ("sandbox.c", ["-lblas", "-pthread"]),
    "ends": ("ends.c", ["-lblas", "-pthread"]),
    "last": ("last.c", ["-D_GNU_SOURCE", "-fopenmp", "-lblas", "-pthread"]),
    "last-address": ("last.c", ["-D_GNU_SOURCE", "-fsanitize=address",
                                "-lblas", "-pthread"]),
    "closes": ("closes.c", ["-lblas"]),
    "xerbla": ("xerbla.c", ["-lblas"]),
    "pointers": ("pointers.c", ["-lblas"]),
    "values": ("values.c", ["-lblas", "-lm"]),
    "values64": ("values.c", ["-DILP64", "-L%s/blas64" % LIB, "-lblas64",
                              "-lm"]),
    "threads64": ("threads.c", ["-DILP64", "-L%s/blas64" % LIB, "-lblas64",
                                "-pthread"]),
    "copies": ("copies.c", ["-ldl"]),
    "reasons": ("reasons.c", ["-lblas", "-ldl"]),
    "options": ("options.c", ["-fsanitize=address"]),
    "odd": ("odd.c", ["-lblas", "-lm"]),
    "ownmalloc": ("ownmalloc.c", ["-lblas"]),
    "neighbours": ("neighbours.c", ["-lblas", "-pthread"]),
    "floating": ("floating.c", ["-frounding-math", "-lblas", "-lm"]),
    "numbers": ("numbers.f90", ["-lblas"]),
    # -static needs the archive; without a static BLAS it is skipped.
    "static": ("threads.c", ["-static", "-L%s/blas" % LIB, "-lblas",
                             "-lgfortran", "-lquadmath", "-lm", "-pthread"]),
    "now": ("threads.c", ["-no-pie", "-Wl,-z,now", "-lblas", "-pthread"]),
    "noplt": ("threads.c", ["-fno-plt", "-fPIE", "-pie", "-lblas",
                            "-pthread"]),
    # Its runtime looks up libc's functions before any constructor runs.
    "sanitized": ("threads.c", ["-fsanitize=thread", "-lblas", "-pthread"]),
    # Its shared runtime wants to be the first library; the other has no wish.
    "address": ("threads.c", ["-fsanitize=address", "-lblas", "-pthread"]),
    "address-static": ("threads.c", ["-fsanitize=address", "-static-libasan",
                                     "-lblas", "-pthread"]),
    "overflow": ("overflow.c", ["-fsanitize=address", "-lblas"]),
}


class Program:
    """One run of one program, compared with the same run without ferry."""

    def __init__(self, name, argv, blas=BOTH, ways=ALL, extra=None,
                 expect=("dgemm",), stdin=None, timeout=120, loose=False):
        self.name = name
        self.argv = argv        # argv[0]: a key of SOURCES, or a command
        self.blas = blas        # copies of BLAS to run it with; () for none
        self.ways = ways
        self.extra = extra      # environment
        self.expect = expect    # offloaded in forced ways
        self.stdin = stdin
        self.timeout = timeout
        self.loose = loose      # stderr is not compared


def _shell(name, script, **more):
    return Program("sh/" + name, ["sh", "-c", script], blas=("netlib",),
                   expect=(), **more)


def programs():
    """All of them. OpenBLAS itself hangs or crashes, without ferry, when left
    by siglongjmp or exit, on small stacks and without memory: netlib only."""
    one = ("netlib",)
    for count, stack, calls in ((8, 0, 20), (40, 0, 5), (8, 64, 5),
                                (300, 64, 2)):
        yield Program("threads/%d-%dK" % (count, stack),
                      ["threads", str(count), str(stack), str(calls)],
                      blas=one if stack else BOTH)
    for name in ("now", "noplt"):
        yield Program("threads/" + name, [name, "4", "0", "5"])
    for name in ("sanitized", "address", "address-static"):
        yield Program("threads/" + name, [name, "4", "0", "5"], blas=one)
    yield Program("address/overflow", ["overflow"], blas=one, loose=True)
    yield Program("address/exec", ["overflow", "again"], blas=one, loose=True)
    yield Program("address/options", ["overflow"], blas=one, loose=True,
                  extra={"ASAN_OPTIONS": "exitcode=7"})
    yield Program("threads/ilp64", ["threads64", "4", "0", "10"], blas=one)
    for mode in ("before", "after", "both", "deep", "spawn", "shared",
                 "first", "busy"):
        yield Program("forks/" + mode, ["forks", mode],
                      blas=one if mode in ("busy", "shared", "first")
                      else BOTH,
                      timeout=30)
    for mode in ("count", "nested", "masks", "altstack", "alternate",
                 "coroutines", "jump"):
        yield Program("signals/" + mode, ["signals", mode], blas=one)
    yield Program("signals/collector", ["signals", "collector"], blas=one,
                  ways=("slow",))
    for mode in ("declined", "threads", "handlers"):
        yield Program("sandbox/" + mode, ["sandbox", mode], blas=one,
                      ways=("slow",))
    for mode in ("prctl", "number", "seccomp", "tsync", "thread", "strict",
                 "refused", "early", "inherited"):
        yield Program("sandbox/" + mode, ["sandbox", mode], blas=one,
                      expect=() if mode == "early" else ("dgemm",),
                      timeout=30)
    for mode in ("user", "number", "mount", "threads", "child", "again"):
        yield Program("alone/" + mode, ["alone", mode], blas=one, timeout=60)
    for mode in ("truncated", "tracked", "vanishing", "key"):
        yield Program("faults/" + mode, ["faults", mode], blas=one,
                      ways=ALL + FAKED)
    for mode in ("leave", "forks", "prepared", "nodefer"):
        yield Program("locks/" + mode, ["locks", mode], blas=one, timeout=60)
    for mode in ("exit", "thread", "quick", "abort", "segv", "kill", "late",
                 "cancel", "crowd", "pthread_exit"):
        yield Program("ends/" + mode, ["ends", mode], blas=one,
                      extra=None if mode == "cancel" else {"EARLY": "1"})
    for mode in ("alone", "before", "during", "after", "detached", "cancel",
                 "thrd", "chain", "waited", "fork", "child", "keys",
                 "team", "full", "space"):
        yield Program("last/" + mode, ["last", mode], blas=one, timeout=60)
    yield Program("last/filter", ["last", "filter"], blas=one, expect=(),
                  timeout=60)
    for mode in ("alone", "before", "detached", "chain"):
        yield Program("last/%s-address" % mode, ["last-address", mode],
                      blas=one, timeout=60)
    yield Program("xerbla", ["xerbla"])
    yield Program("values", ["values"], expect=("dgemm", "dgemv", "daxpy"))
    yield Program("values/ilp64", ["values64"], blas=one,
                  expect=("dgemm", "dgemv", "daxpy"))
    for row in range(12):
        yield Program("pointers/%d" % row, ["pointers", str(row)])
    lib = [os.path.join(LIB, folder, name) for folder, name in
           (("blas", "libblas.so.3"), ("blas64", "libblas64.so.3"),
            ("openblas-pthread", "libblas.so.3"))]
    if all(os.path.exists(path) for path in lib):
        yield Program("copies/both", ["copies", "both"] + lib, blas=one,
                      expect=("dgemm", "ddot"))
        yield Program("copies/reload-width", ["copies", "reload"] + lib[:2],
                      blas=one)
        yield Program("copies/reload", ["copies", "reload", lib[0], lib[2]],
                      blas=one)
    for mode in ("rounding", "files", "streams", "shared"):
        yield Program("odd/" + mode, ["odd", mode])
    # Without descriptors before the first call there can be no engine.
    yield Program("odd/limits", ["odd", "limits"], expect=())
    yield Program("odd/limits-later", ["odd", "limits"], extra={"FIRST": "1"})
    for mode in ("chroot", "user"):
        yield Program("odd/" + mode, ["odd", mode], expect=())
        yield Program("odd/%s-later" % mode, ["odd", mode], blas=one,
                      extra={"FIRST": "1"})
    for mode in ("padding", "triangle", "columns", "strided"):
        yield Program("neighbours/" + mode, ["neighbours", mode],
                      expect={"triangle": ("dsyrk",), "strided": ("dgemv",)
                              }.get(mode, ("dgemm",)))
    for seed in (1, 2, 3):
        yield Program("resident/%d" % seed, ["resident", "200", str(seed)],
                      blas=one, ways=("whole", "resident", "evicted", "compared"))
    for words in ("remap", "userfault", "huge", "user", "forks 1", "forks 4",
                  "ENOSYS remap", "EPERM huge", "EPERM forks 2"):
        yield Program("watched/" + words.replace(" ", "-"), ["watched", *words.split()],
                      blas=one, ways=("resident", "compared", "auto"))
    for threads in ("1", "3", "8"):
        yield Program("mirrored/" + threads, ["mirrored", threads, "600", threads],
                      blas=one, ways=("resident", "parted", "compared", "auto"))
    for mode in ("shared", "beside", "rows", "late", "ends", "away"):
        for threads in ("1", "2", "8"):
            yield Program("racing/%s-%s" % (mode, threads),
                          ["racing", mode, "200" if chosen.EDIT else "2000", threads],
                          blas=one, ways=("resident", "compared"), timeout=300)
    for words in ("leader", "closed", "few 3", "few 5", "few 10", "few 100", "locked",
                  "space", "written", "raw-fork", "shared-child", "daemon", "refs",
                  "protected", "device", "many", "inverse", "blocks"):
        yield Program("habits/" + words.replace(" ", "-"), ["habits", *words.split()],
                      blas=one,
                      ways=("resident", "evicted", "parted", "compared", "auto"),
                      expect={"few": (), "inv": ("dgetri",)}.get(words[:3], ("dgemm",)))
    for mode in ("flags", "exact", "traps", "trapped", "zero"):
        yield Program("floating/" + mode, ["floating", mode],
                      expect=() if "trap" in mode else ("dgemm",))
    yield Program("odd/memory", ["odd", "memory"], blas=one, expect=())
    yield Program("odd/memory-later", ["odd", "memory"], blas=one,
                  extra={"FIRST": "1"})
    yield Program("ownmalloc", ["ownmalloc"], blas=one)
    for first in (0, 1, 3, 8, 20):
        yield Program("ownmalloc/%d" % first, ["ownmalloc"], blas=one,
                      extra={"FAIL": str(first)}, expect=())
    yield Program("numbers", ["numbers"], expect=("dgemm", "zgemm", "dsyrk",
                                                  "zherk", "dtrmm", "dgemv"))
    yield Program("numpy", ["/usr/bin/python3",
                            os.path.join(HERE, "numpy_script.py")],
                  expect=("cblas_dgemm", "cblas_dgemv"))
    yield Program("static", ["static", "4", "0", "5"], blas=one, expect=())
    yield from shell_programs()


def shell_programs():
    """Exit statuses, signals, descriptors and environments pass through."""
    yield _shell("status", "exit 42")
    for number in (1, 2, 6, 9, 11, 15):
        yield _shell("signal-%d" % number, "kill -%d $$" % number)
    yield _shell("streams", "cat; echo err >&2", stdin=__file__)
    yield _shell("closed", "exec 0<&- 1>&- 2>&-; exit 4")
    yield _shell("descriptors", "ls /proc/self/fd | wc -l")
    yield _shell("state", "grep -E '^(Sig[PBCI]|Shd|NoNewPrivs|Seccomp|Cpus_allowed"
                 "_list)' /proc/self/status; umask; pwd; ulimit -a")
    yield _shell("arguments", "printf '<%s>' \"$@\" -- --device '' 'a b' '*'")
    yield _shell("pipes", "yes | head -2; (sleep 0.1; echo late) | cat; "
                 "false | true; echo $?")
    yield _shell("empty-environment", "env -i /usr/bin/python3 -c 'print(7)'; "
                 "env -i env")
    yield _shell("background", "sleep 0.2 & echo $?; wait; trap 'echo t' TERM; "
                 "kill -TERM $$; echo on")
    yield _shell("limits", "ulimit -v 400000; ulimit -f 0; ulimit -n 16; "
                 "/usr/bin/python3 -c 'print(8)' | cat")
    for command, name in ((["/nonexistent/program"], "missing"),
                          (["/etc/passwd"], "not-executable"),
                          (["/"], "folder")):
        # A shell's statuses: 127 not found, 126 found but cannot run.
        yield Program("exec/" + name, command, blas=("netlib",), expect=(),
                      loose=True)
