#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Signals and job control through `ferry run --report`, on a real terminal."""
import os
import pty
import select
import signal
import subprocess
import sys
import tempfile
import time

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.dont_write_bytecode = True

from patience import patient  # noqa: E402

FERRY = os.path.join(os.environ.get("FERRY_BUILDDIR", "."), "ferry")
RUN = [FERRY, "run", "--device", "none", "--report=/dev/null", "--"]
PATIENCE_S = patient(60)  # for what takes a moment
results = []

# A job in the background of a script starts with some of them ignored.
for ignored in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM,
                signal.SIGUSR1, signal.SIGCHLD):
    signal.signal(ignored, signal.SIG_DFL)


def result(name, good, detail=""):
    results.append(good)
    if not good and detail:
        print(f"# {detail}")
    print(f"{'ok' if good else 'not ok'} {len(results)} - {name}", flush=True)


def start(script, **keywords):
    """A program that says when it is ready."""
    process = subprocess.Popen(RUN + ["sh", "-c", script],
                               stdout=subprocess.PIPE, **keywords)
    text = b""
    while not text.endswith(b"\n"):
        if not select.select([process.stdout], [], [], PATIENCE_S)[0]:
            process.kill()
            break
        more = os.read(process.stdout.fileno(), 100)
        text += more or b"(its end)\n"
    assert text == b"ready\n", text
    return process


def wait(process):
    try:
        out = process.communicate(timeout=PATIENCE_S)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        return "timeout", ""
    return process.returncode, out.decode()


def until_gone(pid):
    """The wait status of a child that is about to end; of one that does not, that
    it was killed."""
    deadline = time.time() + PATIENCE_S
    while time.time() < deadline:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found == pid:
            return status
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    return os.waitpid(pid, 0)[1]


for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGINT):
    name = number.name
    process = start(f"trap 'echo got; exit 9' {name[3:]}; echo ready; "
                    "while :; do sleep 0.05; done")
    process.send_signal(number)
    status, out = wait(process)
    result(f"{name} sent to ferry reaches the program",
           (status, out) == (9, "got\n"), f"{status} {out!r}")

for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV):
    process = subprocess.run(RUN + ["sh", "-c", f"kill -{int(number)} $$"],
                             timeout=PATIENCE_S)
    result(f"ferry dies of {number.name} as the program did",
           process.returncode == -number, str(process.returncode))

done = subprocess.run(RUN + ["grep", "-c", "ferry.*\\.so", "/proc/self/maps"],
                      timeout=PATIENCE_S, stdout=subprocess.PIPE)
result("the program has ferry's object in its memory",
       done.returncode == 0 and int(done.stdout) > 0, str(done))

# From outside of the group ferry cannot know that the program got it as well.
process = start("n=0; trap 'n=$((n+1))' TERM; echo ready; sleep 0.05; "
                "i=0; while [ $i -lt 10 ]; do sleep 0.05; i=$((i+1)); done; "
                "echo $n", start_new_session=True)
os.killpg(process.pid, signal.SIGTERM)
status, out = wait(process)
result("a signal to the group from outside arrives",
       status == 0 and out.strip() in ("1", "2"), f"{status} {out!r}")

# Ctrl-C on a terminal: once to the program, and ferry waits for its end.
def on_terminal(script, keys):
    pid, master = pty.fork()
    if pid == 0:
        os.execvp(RUN[0], RUN + ["sh", "-c", script])
    text, deadline, sent = b"", time.time() + PATIENCE_S, 0
    while time.time() < deadline:
        if not select.select([master], [], [], 1)[0]:
            continue
        try:
            chunk = os.read(master, 1000)
        except OSError:
            break
        if not chunk:
            break
        text += chunk
        if sent < len(keys) and text.count(b"ready") > sent:
            os.write(master, keys[sent])
            sent += 1
    status = until_gone(pid)
    os.close(master)
    return os.waitstatus_to_exitcode(status), text


status, text = on_terminal("n=0; trap 'n=$((n+1))' INT; echo ready; "
                           "sleep 0.5; sleep 0.5; echo count $n; exit 4",
                           [b"\x03"])
result("Ctrl-C reaches the program once", status == 4 and b"count 1" in text,
       f"{status} {text!r}")
# By exec, because the child of a dash that is interrupted while it forks goes on.
status, text = on_terminal("echo ready; exec sleep 9999", [b"\x03"])
result("Ctrl-C ends program and ferry", status == -signal.SIGINT,
       f"{status} {text!r}")

# Ctrl-Z under an interactive shell: the shell sees the job stop and go on.
with tempfile.TemporaryDirectory() as folder:
    rc = os.path.join(folder, "rc")
    with open(rc, "w", encoding="utf-8") as file:
        file.write("PS1=\n")
    pid, master = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "dumb"
        os.execvp("bash", ["bash", "--noprofile", "--rcfile", rc, "-i"])

    def until(word):
        text, deadline = b"", time.time() + PATIENCE_S
        os.set_blocking(master, False)
        while word not in text and time.time() < deadline:
            try:
                text += os.read(master, 1000)
            except BlockingIOError:
                time.sleep(0.02)
            except OSError:
                break
        return text

    def type_line(line):
        os.write(master, line.encode() + b"\n")

    type_line("stty -echo; echo be''gin")
    until(b"begin")
    # The job lasts until it is allowed to end, however slow this machine is. It
    # starts nothing: a shell that waits for vfork's child, stopped before its exec,
    # cannot stop.
    may_end = os.path.join(folder, "may-end")
    os.mkfifo(may_end)
    held = os.open(may_end, os.O_RDWR)
    type_line(" ".join(RUN) + " sh -c 'echo rea\"\"dy; read line < " + may_end +
              "; echo af\"\"ter'")
    until(b"ready")
    os.write(master, b"\x1a")
    text = until(b"Stopped")
    result("Ctrl-Z stops the job for the shell", b"Stopped" in text,
           repr(text))
    type_line("fg")
    os.write(held, b"\n")
    text = until(b"after")
    result("fg continues it", b"after" in text, repr(text))
    type_line("exit")
    until(b"nothing: read it to its end, so that it can write")
    until_gone(pid)

# Timers go on over exec: what the parent has set is the program's, also where it
# runs out, or has run out, while `ferry run' begins.
TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)


def set_timers():
    for timer in TIMERS:
        signal.setitimer(timer, 5000 + timer, 70 + timer)


def run_out():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    signal.setitimer(signal.ITIMER_REAL, 0.001)
    while signal.SIGALRM not in signal.sigpending():
        time.sleep(0.001)


# The kernel adds a tick to a timer of processor time each time that it is set.
LOOK = ("import signal; print([(4000 < v < 5001 + t, i) for t in range(3) "
        "for v, i in [signal.getitimer(t)]], list(signal.sigpending()))")
for name, before, expected in (
        ("timers of the parent go on in the program", set_timers,
         "[(True, 70.0), (True, 71.0), (True, 72.0)] []\n"),
        ("an alarm that is pending stays so", run_out,
         "[(False, 0.0), (False, 0.0), (False, 0.0)] "
         "[<Signals.SIGALRM: 14>]\n")):
    process = subprocess.run(
        RUN + ["/usr/bin/python3", "-c", LOOK], stdout=subprocess.PIPE, text=True,
        timeout=PATIENCE_S, preexec_fn=before)
    result(name, process.stdout == expected, process.stdout)
process = subprocess.run(
    RUN + ["sleep", str(2 * PATIENCE_S)], timeout=PATIENCE_S,
    preexec_fn=lambda: signal.alarm(1))
result("an alarm of the parent ends the program",
       process.returncode == -signal.SIGALRM, process.returncode)

# A parent that ignores SIGCHLD must not confuse the wait.
process = subprocess.run(
    ["sh", "-c", "trap '' CHLD; \"$@\"; echo $?", "sh"] + RUN +
    ["sh", "-c", "exit 6"], stdout=subprocess.PIPE, text=True, timeout=PATIENCE_S)
result("SIGCHLD ignored from outside", process.stdout == "6\n",
       process.stdout)

print(f"1..{len(results)}")
sys.exit(0 if all(results) else 1)
