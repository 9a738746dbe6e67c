# SPDX-License-Identifier: Apache-2.0
"""Set-ups that are bad or odd: one clear line, and the program runs as without
ferry. Each check returns None, or what is wrong; Skip when it cannot be tried."""
import json
import os
import select
import shutil
import signal
import subprocess
import threading
import time

from programs import FAKE, FAKED, HERE, ferryrun
from ferryrun import patient

HOST = ["--device", "host,memory=1MiB", "--force"]


class Skip(Exception):
    """The check cannot be made on this machine."""


class Context:
    """The ferry to test, compiled programs, and a folder for all files."""

    def __init__(self, ferry, built, base):
        self.ferry = ferry
        self.built = built
        self.base = base
        self.lock = threading.Lock()
        self.count = 0

    def folder(self):
        """A new empty folder."""
        with self.lock:
            self.count += 1
            path = os.path.join(self.base, "setup-%d" % self.count)
        os.mkdir(path)
        return path

    def program(self, name="threads"):
        path, why = self.built[name]
        if path is None:
            raise Skip(why)
        return path

    def env(self, **extra):
        copies = ferryrun.blas_copies()
        if "netlib" not in copies:
            raise Skip("netlib's BLAS is not installed")
        return ferryrun.environment(copies["netlib"], extra)

    def run(self, options, argv, ferry=None, **extra):
        """`ferry run OPTIONS -- ARGV' in a new folder."""
        return ferryrun.execute([ferry or self.ferry, "run"] + options + ["--"]
                                + argv, self.folder(), self.env(**extra),
                                timeout=60)

    def threads(self):
        return [self.program(), "2", "0", "4"]


GOOD = "2 threads, 4 calls each, 0 wrong\n"


def unlike(result, lines=1, status=0, out=GOOD, word=""):
    """What is wrong with a run that should have gone well, with so many lines
    of ferry's on stderr (-1: any number), one of which has `word' in it."""
    said = result.err.splitlines()
    if result.status != status:
        return "status %s, not %s: %s" % (result.status, status, result.err)
    if result.out != out:
        return "stdout is %r" % result.out
    if lines >= 0 and len(said) != lines:
        return "%d lines on stderr, not %d: %r" % (len(said), lines,
                                                   result.err)
    if any(not line.startswith("ferry") for line in said):
        return "a line that is not ferry's: %r" % result.err
    if word not in result.err:
        return "nothing about %r: %r" % (word, result.err)
    return None


def report_to_full_disk(context):
    """--report=/dev/full"""
    return unlike(context.run(HOST + ["--report=/dev/full"], context.threads()),
                  word="/dev/full") or unlike(
        context.run(HOST + ["--report=/dev/full"], ["sh", "-c", "exit 5"]),
        status=5, out="", word="/dev/full")


def report_to_nowhere(context):
    """--report=FILE in a folder that does not exist."""
    return unlike(context.run(HOST + ["--report=/nonexistent/report.json"],
                              context.threads()), word="/nonexistent")


def _copy_of_ferry(context, engine=None, shim=True, annotations=True):
    """A copy of the build tree's ferry with parts missing."""
    build = os.path.dirname(context.ferry)
    mark = os.path.join(build, "tools", "uninstalled")
    if not os.path.exists(mark):
        raise Skip("the ferry to test is not in a build tree")
    folder = context.folder()
    os.mkdir(os.path.join(folder, ".libs"))
    os.mkdir(os.path.join(folder, "tools"))
    shutil.copy(context.ferry, folder)
    if os.path.lexists(os.path.join(build, "mode")):  # tests/standin/ferry
        shutil.copy(os.path.join(build, "real"), folder)
        shutil.copy(os.path.join(build, "mode"), folder, follow_symlinks=False)
    with open(mark, encoding="utf-8") as file:
        source = file.read()
    with open(os.path.join(folder, "tools", "uninstalled"), "w",
              encoding="utf-8") as file:
        file.write(source if annotations else "/nonexistent\n")
    if shim:
        shutil.copy(os.path.join(build, ".libs", "libferry.so"),
                    os.path.join(folder, ".libs"))
    if engine is not None:
        path = os.path.join(folder, ".libs", "libferry-engine.so")
        if engine == "":
            shutil.copy(os.path.join(build, ".libs", "libferry-engine.so"),
                        path)
        else:
            with open(path, "w", encoding="utf-8") as file:
                file.write(engine)
    return os.path.join(folder, "ferry")


def engine_missing(context):
    """No libferry-engine.so at all."""
    return unlike(context.run(HOST, context.threads(),
                              ferry=_copy_of_ferry(context)), word="engine")


def engine_broken(context):
    """A file that is no library: known at the first call, and counted."""
    ferry = _copy_of_ferry(context, engine="not a library\n")
    folder = context.folder()
    result, report = ferryrun.under_ferry(ferry, HOST, context.threads(),
                                          folder, context.env())
    wrong = unlike(result, lines=-1)
    if wrong:
        return wrong
    if len(result.err.splitlines()) > 1:
        return "more than one line: %r" % result.err
    declined = (report or {}).get("dgemm", {}).get("declined engine-missing", 0)
    return None if declined == 8 else "declined: %r" % (report,)


def shim_missing(context):
    """No libferry.so, without a mount and with one: one line each."""
    ferry = _copy_of_ferry(context, engine="", shim=False)
    mount = ["--mount", "%s=loopback:///tmp" % context.folder()]
    return unlike(context.run(HOST, context.threads(), ferry=ferry),
                  word="libferry.so") or \
        unlike(context.run(HOST + mount, context.threads(), ferry=ferry),
               word="libferry.so")


def annotations_missing(context):
    """The shipped annotations cannot be found."""
    return unlike(context.run(HOST, context.threads(), ferry=_copy_of_ferry(
        context, engine="", annotations=False)), word="annotations")


def annotations_bad(context):
    """A file that is missing, and one that is wrong."""
    path = os.path.join(context.folder(), "bad.ferry")
    with open(path, "w", encoding="utf-8") as file:
        file.write("function void f(int n { nonsense\n")
    return unlike(context.run(
        HOST + ["--annotations", "/nonexistent/x.ferry"], context.threads()),
        word="/nonexistent/x.ferry") or _diagnosed(context.run(
            HOST + ["--annotations", path], context.threads()))


def _diagnosed(result):
    if result.status != 0 or result.out != GOOD:
        return "status %s, stdout %r" % (result.status, result.out)
    if "bad.ferry:1:" not in result.err:
        return "no diagnostic: %r" % result.err
    return None


def memory_too_small(context):
    """Less memory than any chunk needs."""
    return unlike(context.run(["--device", "host,memory=1", "--force"],
                              context.threads()), word="memory")


def memory_of_a_page(context):
    """A page is enough for small chunks, without a word."""
    return unlike(context.run(["--device", "host,memory=4KiB", "--force"],
                              context.threads()), lines=0)


def options_wrong(context):
    """Options that are not understood: status 2, and nothing runs."""
    for bad in (["--device", "moon"], ["--device", "host,memory=much"],
                ["--chunk", "odd"], ["--no-such-option"]):
        result = context.run(bad, ["echo", "ran"])
        if result.status != 2 or result.out:
            return "%r: status %s, stdout %r" % (bad, result.status, result.out)
    return None


def configuration_bad(context):
    """ferry.conf is a folder, binary, wrong, or not ours to read."""
    for kind in ("folder", "binary", "wrong", "unknown"):
        home = context.folder()
        path = os.path.join(home, "ferry", "ferry.conf")
        os.makedirs(path if kind == "folder" else os.path.dirname(path))
        text = {"binary": b"\x00\x01\xff" * 1000, "wrong": b"memory = lots\n",
                "unknown": b"colour = blue\nno equals sign\n"}.get(kind)
        if text is not None:
            with open(path, "wb") as file:
                file.write(text)
        wrong = unlike(context.run(HOST, context.threads(),
                                   XDG_CONFIG_HOME=home),
                       lines=2 if kind == "unknown" else 1, word="ferry.conf")
        if wrong:
            return "%s: %s" % (kind, wrong)
    return None


def settings_spoiled(context):
    """The program's own environment has nonsense for ferry."""
    for text in ("", "mode=9;memory=99999999999999999999", "%%%;=;;mode",
                 "mode=2;engine=/nonexistent;record=/nonexistent;device=x",
                 "mode=4;device=host;record=/dev/full;explain=/dev/full",
                 "x" * 100000):
        wrong = unlike(context.run(HOST, ["env", "FERRY_SETTINGS=" + text]
                                   + context.threads()), lines=0)
        if wrong:
            return "%.40r: %s" % (text, wrong)
    return None


def cache_spoiled(context):
    """What ferry keeps between runs is cut short, wrong or unreadable."""
    for spoil in (b"", b"\x7fELF nonsense", None):
        cache = context.folder()
        options = HOST + ["--report=" + os.path.join(cache, "r.json")]
        wrong = unlike(context.run(options, context.threads(),
                                   XDG_CACHE_HOME=cache), lines=0)
        if wrong:
            return "first: " + wrong
        for top, _, names in os.walk(os.path.join(cache, "ferry")):
            for name in names:
                path = os.path.join(top, name)
                with open(path, "rb") as file:
                    content = file.read()
                os.chmod(path, 0o600)
                with open(path, "wb") as file:
                    file.write(content[:len(content) // 2] if spoil is None
                               else spoil)
        wrong = unlike(context.run(options, context.threads(),
                                   XDG_CACHE_HOME=cache), lines=0)
        if wrong:
            return "spoiled with %r: %s" % (spoil, wrong)
        report = ferryrun.read_report(os.path.join(cache, "r.json"))
        if not report or report.get("dgemm", {}).get("offloaded", 0) == 0:
            return "spoiled with %r: nothing was offloaded" % (spoil,)
    return None


def cache_unwritable(context):
    """No home, no cache folder: still works."""
    return unlike(context.run(HOST, context.threads(), HOME="/nonexistent",
                              XDG_CACHE_HOME="/proc/nowhere"), lines=0)


def many_at_once(context):
    """Eight runs that start together with an empty cache."""
    cache = context.folder()
    results = []

    def one():
        results.append(unlike(context.run(HOST, context.threads(),
                                          XDG_CACHE_HOME=cache), lines=0))
    workers = [threading.Thread(target=one) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    wrong = [x for x in results if x]
    return wrong[0] if wrong else None


def setuid_program(context):
    """The dynamic linker drops preloads; nothing is said about it."""
    if os.geteuid() != 0:
        raise Skip("needs root to make a setuid program")
    folder = context.folder()
    path = os.path.join(folder, "setuid")
    shutil.copy(context.program(), path)
    os.chown(path, 65534, 65534)
    os.chmod(path, 0o4755)
    result, report = ferryrun.under_ferry(
        context.ferry, HOST, [path, "2", "0", "4"], folder, context.env())
    wrong = unlike(result, lines=0)
    if wrong:
        return wrong
    if (report or {}).get("dgemm", {}).get("calls", 0):
        return "calls were counted: was it setuid at all?"
    return _doctor(context, path, "setuid")


def static_program(context):
    """Runs as always; doctor says why nothing is intercepted."""
    path = context.program("static")
    wrong = unlike(context.run(HOST, [path, "2", "0", "4"]), lines=0)
    return wrong or _doctor(context, path, "static")


def _doctor(context, path, word):
    said = ferryrun.execute([context.ferry, "doctor", "--", path], context.base,
                            context.env(), timeout=60)
    if word not in said.out.lower() + said.err.lower():
        return "ferry doctor says nothing of %s: %r" % (word, said.out)
    return None


def signals_to_ferry(context):
    """SIGTERM to ferry ends the program, and ferry by the same signal."""
    for report in ([], ["--report=" + os.path.join(context.base, "sig.json")]):
        folder = context.folder()
        child = subprocess.Popen(
            [context.ferry, "run"] + HOST + report + ["--", "sh", "-c",
                                                      "echo up; exec sleep 30"],
            env=context.env(), cwd=folder, stdout=subprocess.PIPE)
        if select.select([child.stdout], [], [], patient(60))[0]:
            child.stdout.readline()
        begin = time.monotonic()
        child.send_signal(signal.SIGTERM)
        try:
            child.communicate(timeout=patient(60))  # ends when the program is gone as well
        except subprocess.TimeoutExpired:
            child.kill()
            return "it goes on"
        status = child.returncode
        if status != -signal.SIGTERM or time.monotonic() - begin > patient(25):
            return "status %s after %.0f s" % (status,
                                               time.monotonic() - begin)
    return None


def ferry_in_ferry(context):
    """A program that itself starts ferry."""
    return unlike(context.run(HOST, [context.ferry, "run"] + HOST + ["--"]
                              + context.threads()), lines=0)


def other_preloads(context):
    """A preload of the user's is kept, and so is its order."""
    library = ferryrun.blas_copies().get("openblas")
    if not library:
        raise Skip("OpenBLAS is not installed")
    library = os.path.join(library, "libblas.so.3")
    result = context.run(HOST, ["sh", "-c", "cat /proc/self/maps | grep -c "
                                "openblas-pthread/libblas.so.3 >/dev/null && "
                                "echo kept; echo $LD_PRELOAD | grep -o "
                                "'[^/]*libblas.so.3$'"], LD_PRELOAD=library)
    return unlike(result, lines=0, out="kept\nlibblas.so.3\n") or unlike(
        context.run(HOST, context.threads(), LD_PRELOAD=library), lines=0)


def flags_of_originals(context):
    """A call that is thought about, and stays here: no flag of the thinking."""
    report = os.path.join(context.folder(), "report.json")
    result = context.run(["--device", "host,memory=1MiB", "--report=" + report],
                         [context.program("floating"), "exact"])
    with open(report, encoding="utf-8") as file:
        offloaded = sum(x["offloaded"] for x in json.load(file)["functions"])
    raised = result.out.count("inexact: 1\n")
    if offloaded == 4:
        raise Skip("this machine's device is thought to pay")
    if raised > offloaded:
        return "raised in %d of 4 calls, %d offloaded" % (raised, offloaded)
    return unlike(result, lines=0, out=result.out)


def libraries_with_static_tls(context):
    """As many of them can be opened after a call as without ferry."""
    folder, plugins = context.folder(), []
    source = os.path.join(folder, "plugin.c")
    with open(source, "w", encoding="ascii") as file:
        file.write("static __thread char x[64] __attribute__((tls_model("
                   "\"initial-exec\")));\nchar *f(void) { return x; }\n")
    for i in range(60):
        plugins.append(os.path.join(folder, "plugin%d.so" % i))
        if i == 0:
            subprocess.run(["gcc", "-shared", "-fPIC", source, "-o",
                            plugins[0]], check=True)
        else:
            shutil.copy(plugins[0], plugins[i])
    argv = [context.program("plugins")] + plugins
    plain = ferryrun.execute(argv, folder, context.env(), timeout=60)
    if "opened: 60" in plain.out:
        raise Skip("there is room for all of them")
    return unlike(context.run(HOST, argv), lines=0, out=plain.out)


def few_addresses(context):
    """Of limited addresses the host device takes a part, whatever it is for."""
    result = context.run(["--device", "host", "--force"],
                         [context.program("odd"), "addresses"])
    return unlike(result, lines=0,
                  out="0 wrong\n600 MiB more, 0 wrong\n")


def timer_of_a_profiler(context):
    """What a library preloaded into ferry has set ends no program."""
    folder = context.folder()
    source, library = (os.path.join(folder, x) for x in ("timer.c", "timer.so"))
    with open(source, "w", encoding="ascii") as file:
        file.write("""#define _GNU_SOURCE
            #include <errno.h>
            #include <signal.h>
            #include <string.h>
            #include <sys/time.h>
            static void tick(int number) { (void)number; }
            __attribute__((constructor)) static void start(void) {
                struct itimerval often = {{0, 10000}, {0, 10000}};
                if (strcmp(program_invocation_short_name, "ferry") == 0) {
                    signal(SIGPROF, tick);
                    setitimer(ITIMER_PROF, &often, NULL);
                }
            }\n""")
    subprocess.run(["gcc", "-shared", "-fPIC", source, "-o", library],
                   check=True)
    busy = ["sh", "-c", "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; echo up"]
    for options in (["--device", "host"], HOST):
        wrong = unlike(context.run(options, busy, LD_PRELOAD=library), lines=0,
                       out="up\n")
        if wrong:
            return wrong
    return None


def mutexes_of_the_engine(context):
    """Signals are blocked under them, their order holds, none over fork."""
    folder = context.folder()
    library, counted = (os.path.join(folder, x) for x in ("check.so", "count"))
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", os.path.join(
        HERE, "lockcheck.c"), "-o", library], check=True)
    devices = [HOST, ["--device", "host"]]
    path = context.env()["LD_LIBRARY_PATH"]
    if FAKED:
        devices.append(["--device", "cuda", "--force"])
    for device in devices:
        for argv in (["locks", "leave"], ["locks", "forks"],
                     ["threads", "4", "0", "20"]):
            result = context.run(
                device, [context.program(argv[0])] + argv[1:],
                LD_PRELOAD=library, LOCKCHECK_FILE=counted,
                LD_LIBRARY_PATH=FAKE + ":" + path)
            if result.status != 0:
                return "%s: %s" % (argv, result.err.strip())
    if not os.path.exists(counted):
        return "no mutex was seen"
    return None


def no_descriptor_is_kept(context):
    """Of a program that has called; and after its closefrom(3) no line of ferry's lands
    in its own file."""
    file = os.path.join(context.folder(), "own")
    argv = [context.program("closes"), file]
    log = os.path.join(context.folder(), "log")
    for options in (["--explain"], ["--report=" + file + ".json"], ["--verify"],
                    ["--debug=all", "--debug-file", log]):
        result = context.run(HOST + options, argv)
        if options == ["--explain"] and result.err.count(": offloaded") < 2:
            return "lines are missing: %s" % result.err
        if (result.status, result.out) != (
                0, "0 wrong, 3 open, descriptor 3, 0 bytes\n"):
            return "%s: status %s, stdout is %r" % (options, result.status,
                                                    result.out)
    return None


def reasons_are_told(context):
    """Calls that stay for want of memory, in a handler, of an unseen plan."""
    for mode, function, reason, lines, argv in (
            ("handler", "dgemm", "in-handler", 0, []),
            ("first", "dgemm", "in-handler", 0, []),
            ("memory", "dgemm", "host-memory", 2, []),
            ("handle", "fftw_execute", "unknown-handle", 1,
             ["libfftw3.so.3"])):
        argv = [context.program("reasons"), mode] + argv
        plain = ferryrun.execute(argv, context.folder(), context.env(),
                                 timeout=60)
        if "is not there" in plain.out:
            raise Skip("libfftw3.so.3 is not installed")
        report = os.path.join(context.folder(), "report.json")
        result = context.run(["--device", "host,memory=1MiB", "--force",
                              "--no-discover", "--explain",
                              "--report=" + report], argv)
        if (result.status, result.out) != (plain.status, plain.out):
            return "%s: status %s, stdout %r" % (mode, result.status, result.out)
        row = (ferryrun.read_report(report) or {}).get(function, {})
        if row.get("declined " + reason, 0) != 1:
            return "%s: reported is %r" % (mode, row)
        said = [x for x in result.err.splitlines() if " caller=0x" in x]
        if len(said) != lines or (said and reason not in said[-1]):
            return "%s: explained by %r" % (mode, said)
    return None


def options_of_asan_are_the_programs(context):
    """A program with __asan_default_options of its own and a shared libasan: it
    does not start, but with ASAN_OPTIONS, as docs/ARCHITECTURE.md says."""
    argv = [context.program("options")]
    plain = ferryrun.execute(argv, context.folder(), context.env(), timeout=60)
    freed = "heap-use-after-free"
    if plain.status != 7 or freed not in plain.err:
        return "without ferry: status %s, %s" % (plain.status, plain.err)
    result = context.run(HOST, argv)
    if freed in result.err or "does not come first" not in result.err:
        return "status %s, %s" % (result.status, result.err)
    result = context.run(HOST, argv, ASAN_OPTIONS="verify_asan_link_order=0")
    if result.status != 7 or freed not in result.err:
        return "with ASAN_OPTIONS: status %s, %s" % (result.status, result.err)
    return None


CHECKS = [report_to_full_disk, report_to_nowhere, engine_missing, engine_broken,
          shim_missing, annotations_missing, annotations_bad, memory_too_small,
          memory_of_a_page, options_wrong, configuration_bad, settings_spoiled,
          cache_spoiled, cache_unwritable, many_at_once, setuid_program,
          static_program, signals_to_ferry, ferry_in_ferry, other_preloads,
          flags_of_originals, few_addresses,
          mutexes_of_the_engine,
          timer_of_a_profiler,
          libraries_with_static_tls,
          no_descriptor_is_kept,
          reasons_are_told, options_of_asan_are_the_programs]
