#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Scripts whose stages run at a loopback proxy through tests/session/drive,
against the same scripts without it: output, errors, status, files. Prints TAP.

Arguments: words that must be in a test's name; --shell NAME; --repeat N."""
import concurrent.futures
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
from patience import patient  # noqa: E402

BUILD = os.path.abspath(os.environ.get("FERRY_BUILDDIR", "."))
SOURCE = os.path.abspath(os.environ.get("FERRY_SRCDIR", "."))
DRIVE = os.path.join(BUILD, "tests/session/drive")
STUB = os.path.join(BUILD, "ferry-stub")
# A proxy cannot enter its namespaces under ThreadSanitizer: another build.
PROXY = os.environ.get("FERRY_TEST_PROXY", "")
PROXY = f"?ferry={PROXY}" if PROXY else ""
BADLINK = os.path.join(BUILD, "tests/badlink/badlink")
COMMANDS = os.path.join(SOURCE, "tests/session/commands.ferry")

def badly_linked(folder, fault, ferry=None, relay=BADLINK):
    """A place for --mount: the folder behind a link with that fault (see
    tests/badlink/fault.h)."""
    ferry = ferry or os.environ.get("FERRY_TEST_PROXY") or DRIVE
    return (f"{folder}=ssh://bad{folder}?ferry={ferry}"
            f"&command={relay}%20{fault}")


# Scripts at a time: most of them wait most of the time.
JOBS = 2 * os.cpu_count()


def mark():
    """What all that this thread starts has in its environment, as (name, value)."""
    return "FERRY_TEST_PIPES", f"{os.getpid()}.{threading.get_ident()}.{BEGAN}"


BEGAN = time.time_ns()

# name, script, what the report must hold (stages that went, joins), or None
SCRIPTS = [
    ("one command", "cat s", "cat none 0"),
    ("two files", "cat s t", "cat none 0"),
    ("a missing file", "cat s missing t", "cat none 1"),
    ("an error before output that nobody reads",
     "for i in {1..40}; do cat missing n | true; done", "cat none"),
    ("status", "grep -c nothing s; echo $?", "grep none 1"),
    ("a chain", "cat n | grep 7 | sort -r | head -3", "linked 3"),
    ("pipestatus", "cat n | grep -v 77 | sort -r | head -3;"
     "echo ${PIPESTATUS[*]}", "linked 3"),
    ("to a builtin", "cat s | while read x; do echo \"<$x>\"; done", "none"),
    ("from a builtin", "echo b | sort", "sort local-input"),
    ("two writers", "(cat s; cat t) | sort", "none"),
    ("two writers in braces", "{ cat s; cat t; } | sort | head -2", "none"),
    ("two readers", "cat n | { head -1; cat; } | tail -1", "none"),
    ("a loop", "for f in s t; do cat $f; done | sort -r", "none"),
    ("nested subshells", "( (cat s); (cat t | tac) ) | sort | uniq -c",
     "none"),
    ("errors into the pipe", "cat s missing 2>&1 | sort", "none"),
    ("errors into the pipe by another way",
     "cat s missing 2>/dev/stdout | sort", "linked 1"),
    ("errors only", "cat missing 2>&1 >/dev/null | tr a-z A-Z", "none"),
    ("early end", "cat n n n n | head -1", "none"),
    ("early end, status", "cat n n n n | head -1; echo ${PIPESTATUS[*]}",
     None),
    ("early end here", "cat n n n n | sed 1q; echo ${PIPESTATUS[1]}", "none"),
    ("no reader at all", "cat n n n n | true; echo ${PIPESTATUS[1]}", "none"),
    ("a reader that does not read", "cat n | sleep 0.2", "none"),
    ("a reader with its own file", "cat n | cat s", "none"),
    ("stdin of the mount", "wc -l < n", "wc none 0"),
    ("shared position", "{ head -n 2; cat; } < s", None),
    ("position after", "{ sort; echo; cat; } < s", None),
    ("to a file there", "sort s > out; cat out; rm out", "sort none 0"),
    ("appended", "echo x > out; sort s >> out; sort t >> out; cat out;"
     "rm out", "sort none 0"),
    ("chain to a file", "cat n | grep 9 | sort -r > out; md5sum < out;"
     "rm out", "linked 2"),
    ("side by side into one file", "(sort s & sort t & wait) > out; sort out;"
     "rm out", "sort none 0"),
    ("one behind the other into one file", "{ cat s; echo x; cat t; } > out;"
     "cat out; rm out", "cat none 0"),
    ("its own output", "cp s out; { grep . out s; echo $?; } >> out; wc out;"
     "{ echo x; cat out; } > out; cat out; rm out", None),
    ("its own output by a link", "cp s out; ln -s out l; ln out h;"
     "{ echo x; cat l; echo $?; cat h s; echo $?; } >> out; cat out;"
     "rm out l h", "cat odd-stream"),
    ("its own output by a link behind many names", "cp s out; ln -s out l;"
     "for i in {1..99}; do cp s f$i; done; { cat f? f?? l; echo $?; } >> out;"
     "wc -l < out; rm out l f? f??", "cat odd-stream"),
    ("its own output of here", "ln $HERE/../mnt/n $HERE/h; cat n >> $HERE/h;"
     "echo $?; rm $HERE/h", "cat odd-stream"),
    ("nobody reads, and nobody dies of it", "trap '' PIPE;"
     "{ sleep 0.2; cat s; echo $? >&2; } | true", "cat lost-link"),
    ("output option", "sort -o out s; cat out; rm out", "sort none 0"),
    ("tee", "cat s | tee out | tr a-z A-Z; cat out; rm out", "none"),
    ("to a file here", "f=$(mktemp); sort s > $f; cat $f; rm $f",
     "sort none 0"),
    ("substitution", "x=$(cat s | sort); echo \"$x\"", "linked 1"),
    ("process substitution", "paste <(cat s) <(sort t)", "none"),
    ("process substitution, out", "cat s > >(tr a-z A-Z); sleep 0.4", None),
    ("from here and there", "cat s /etc/hostname", "cat mixed-places"),
    ("files of here", "cat /etc/hostname", "cat local-files"),
    ("dot dot", "cd sub; cat ../s", "cat none 0"),
    ("unclear dot dot", "cat sub/../s", "cat unclear-path"),
    ("standard input by name", "cat s | cat - t", "linked 1"),
    ("background", "cat n | sort | tail -1 & wait; echo $?", "none"),
    ("background filter", "cat s | sort > /dev/null & cat t | sort; wait",
     None),
    ("pipefail", "set -o pipefail; cat missing | sort; echo $?", "none"),
    ("much output", "cat n n n n n n n n | md5sum", "cat none 0"),
    ("much output through a filter", "cat n n n n | tac | md5sum",
     "linked 1"),
    ("a slow reader", "cat n | (sleep 0.3; md5sum)", "none"),
    ("named pipe", "mkfifo p; cat s > p & sort p; wait; rm p", None),
    ("here document", "cat - s <<E\nhello\nE", None),
    ("closed stdout", "cat s >&-; echo $?", "cat odd-stream"),
    ("full device", "cat s > /dev/full; echo $?", None),
    ("no input", "sort < /dev/null; cat s > /dev/null", "none"),
    ("coprocess", "coproc cat; echo hi >&${COPROC[1]};"
     "read x <&${COPROC[0]}; echo $x; exec {COPROC[1]}>&-; wait", None),
    ("a filter in a function", "f() { grep 7; }; cat n | f | wc -l", None),
    ("wrappers in between", "cat n | env grep 7 | nice sort | tail -1",
     "linked"),
    ("exec", "exec cat s", "cat none 0"),
    ("interrupted by timeout", "timeout 0.3 cat p0; echo $?", None),
]


def prepare(folder):
    os.makedirs(os.path.join(folder, "sub"))
    with open(os.path.join(folder, "s"), "w", encoding="ascii") as file:
        file.write("pear\napple\nfig\n")
    with open(os.path.join(folder, "t"), "w", encoding="ascii") as file:
        file.write("zebra\nant\n")
    with open(os.path.join(folder, "n"), "w", encoding="ascii") as file:
        file.write("".join(f"{i}\n" for i in range(1, 50001)))
    os.mkfifo(os.path.join(folder, "p0"))
    os.makedirs(os.path.join(os.path.dirname(folder), "here"))


def started():
    """The processes that a script has started and left, in whatever group."""
    wanted = "=".join(mark()).encode()
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                if (wanted in file.read().split(b"\0")
                        and entry != str(os.getpid())):
                    yield entry
        except OSError:
            continue


def kill_all():
    """Kills them: as long as one holds a pipe of the script's, nobody sees the
    end of that."""
    for _ in range(50):
        found = False
        for entry in started():
            try:
                os.kill(int(entry), signal.SIGKILL)
                found = True
            except OSError:
                continue
        if not found:
            return
        time.sleep(0.02)


def show_all():
    """What each of their threads does, and the pipes that it has."""
    for entry in started():
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                words = file.read().replace(b"\0", b" ").decode(errors="replace")
            print(f"# {entry} {words[:120]}")
            for fd in os.listdir(f"/proc/{entry}/fd"):
                print(f"#   {fd}", os.readlink(f"/proc/{entry}/fd/{fd}"))
            for task in os.listdir(f"/proc/{entry}/task"):
                for what in ("wchan", "syscall"):
                    with open(f"/proc/{entry}/task/{task}/{what}",
                              encoding="ascii") as file:
                        print(f"#   {task} {what} {file.read().strip()}")
        except OSError:
            continue


def start(argv, folder):
    name, value = mark()
    return subprocess.Popen(argv, cwd=folder, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            start_new_session=True,
                            env=dict(os.environ, HERE=os.path.join(
                                os.path.dirname(folder), "here"), **{name: value}))


def finish(process, seconds=120):
    """Its output, its errors and its status. It does not wait for ever, whoever
    holds the pipes: what is left after `seconds' is killed."""
    status = None
    try:
        out, err = process.communicate(timeout=seconds)
        status = process.returncode
    except subprocess.TimeoutExpired:
        show_all()
        kill_all()
        try:
            out, err = process.communicate(timeout=patient(30))
        except subprocess.TimeoutExpired:
            out, err = b"", b""
        print(f"# it hangs, after {out[:200]} {err[:200]}", flush=True)
        out, err, status = b"", b"it hangs", -999
    for pipe in (process.stdout, process.stderr):
        pipe.close()
    return out, err, status


def run(argv, folder):
    return finish(start(argv, folder))


def one(folders, script, wanted, shell):
    """Runs a script plain and carried; what is wrong, with the report's rows."""
    folder = folders.get()
    plain = run([shell, "-c", script], folder)
    # Stages need not be joined where nobody has time to look: within five runs they
    # are.
    for _ in range(5 if (wanted or "").startswith("linked") else 1):
        private = tempfile.mkdtemp(dir=os.path.dirname(folder))
        report = os.path.join(private, "report")
        carried = run(
            ["bash", "-c", 'exec 9>"$1"; shift; exec "$@"', "x",
             report, DRIVE, STUB, COMMANDS, private,
             f"{folder}=loopback://{folder}{PROXY}", "--", shell, "-c",
             script], folder)
        with open(report, encoding="utf-8") as file:
            rows = file.read()
        shutil.rmtree(private)
        good = plain == carried
        if wanted and wanted.startswith("linked"):
            joins = int(wanted.split()[1]) if " " in wanted else 1
            good_report = rows.count(" linked ") >= joins
        else:
            good_report = not wanted or wanted in rows
        if not good or good_report:
            break
    folders.put(folder)
    if not good:
        return [f"plain   {plain}\ncarried {carried}"[:600], rows]
    return [] if good_report else [rows]


def main(scripts):
    arguments = sys.argv[1:]
    shells, repeat = ["bash"], 1
    if "--shell" in arguments:
        at = arguments.index("--shell")
        shells = arguments[at + 1].split(",")
        del arguments[at:at + 2]
    if "--repeat" in arguments:
        at = arguments.index("--repeat")
        repeat = int(arguments[at + 1])
        del arguments[at:at + 2]
    todo = []
    for shell in shells * repeat:
        for name, script, wanted in scripts:
            if any(word not in name for word in arguments):
                continue
            if shell not in ("bash", "zsh") and any(
                    word in script for word in
                    ("PIPESTATUS", "<(", ">(", "coproc", "pipefail")):
                continue
            if shell == "zsh" and ("PIPESTATUS" in script or "coproc" in script):
                continue
            todo.append((name, script, wanted, shell))
    top = tempfile.mkdtemp()
    folders = queue.SimpleQueue()
    for job in range(JOBS):
        folders.put(os.path.join(top, str(job), "mnt"))
        prepare(os.path.join(top, str(job), "mnt"))
    number = failed = 0
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        for (name, _, _, shell), found in zip(todo, pool.map(
                lambda case: one(folders, *case[1:]), todo)):
            number += 1
            failed += bool(found)
            print(f"{'not ok' if found else 'ok'} {number} - {shell}: {name}")
            for text in found:
                print("# " + text.replace("\n", "\n# "))
            sys.stdout.flush()
    shutil.rmtree(top)
    print(f"1..{number}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(SCRIPTS))
