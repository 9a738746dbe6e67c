#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A host that says that a stage ended as no process can end: it counts as lost,
and the original runs. An end that can be is taken. One that says nothing of what a
stage changed on a mount with caches makes one effect wait, not each. Prints TAP."""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
from patience import patient  # noqa: E402

BUILD = os.path.realpath(os.environ.get("FERRY_BUILDDIR", "."))
FERRY = os.path.join(BUILD, "ferry")
LIAR = os.path.join(BUILD, "tests/security/.libs/liar.so")

# What is said, and the status that follows: 0 is that of the original.
LIES = [("ferry-exit=3", 3), ("ferry-signal=9", -9),
        ("ferry-signal=34", -34), ("ferry-exit=255", 255)]
LIES += [(f"ferry-signal={number}", 0) for number in
         (signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU,
          signal.SIGCONT, signal.SIGCHLD, signal.SIGURG, signal.SIGWINCH,
          0, 65, 2 ** 32 + 9, 2 ** 64 + 9, -9)]
LIES += [("ferry-exit=256", 0), ("ferry-exit=-1", 0), ("ferry-exit=", 0),
         ("ferry-exit=3;ferry-signal=9", 0),
         ("ferry-exit=3;ferry-signal=19", 0),
         ("ferry-exit=3;ferry-signal=x", 0),
         ("ferry-exit=3;ferry-exit=4", 0),
         ("ferry-exit=3;ferry-reason=over-memory", 0),
         ("ferry-exit=0;ferry-in-bytes=3", 0),
         ("ferry-exit=0;ferry-in-bytes=99999999", 0),
         # Less of the output came than was told: the rest is made here.
         ("ferry-exit=0;ferry-out-bytes=4", 0)]


def run(folder, top, lie, script, there):
    """Output and status; None: it did not end."""
    env = dict(os.environ, FERRY_LIE=lie, XDG_CACHE_HOME=top + "/cache",
               PATH=os.path.join(top, "bin") + ":" + os.environ["PATH"])
    process = subprocess.Popen(
        [FERRY, "run", "--no-discover", "--force", "--mount",
         f"{folder}=ssh://there{there}", "--", "bash", "-c", script],
        cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        start_new_session=True)
    try:
        return process.communicate(timeout=patient(60))[0], process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return None


# CSI as one byte and in UTF-8, in a host's words and in arguments.
CONTROLS = b"\x9b31m \xc2\x9b31m \x1b[31m \x7f"


def explain(folder, top, *options):
    """What --explain prints when the host and the arguments hold controls."""
    env = dict(os.environb, PATH=os.fsencode(top) + b"/bin:" +
               os.environb[b"PATH"], XDG_CACHE_HOME=os.fsencode(top) + b"/cache",
               FERRY_LIE=b"ferry-reason=" + CONTROLS[:10])
    env = {os.fsencode(name): value for name, value in env.items()}
    done = subprocess.run(
        [FERRY, "run", "--no-discover", "--force", *options, "--mount",
         f"{folder}=ssh://there{folder}", "--", "sort", "f",
         CONTROLS, "é"], cwd=folder, env=env, check=False, timeout=patient(60),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    lines = [line for line in done.stderr.splitlines()
             if line.startswith(b"ferry: ")]
    return b"\n".join(lines)


def silent(top):
    """What is wrong with three effects on sshfs; None: sshfs does not mount."""
    folder, point, report = (os.path.join(top, name) for name in ("mnt", "point", "r"))
    env = dict(os.environ, FERRY_LIE="silent", XDG_CACHE_HOME=top + "/cache",
               PATH=os.path.join(top, "bin") + ":" + os.environ["PATH"])
    os.mkdir(point)
    if not shutil.which("sshfs") or subprocess.run(
            ["sshfs", "-o", "dcache_timeout=1", "there:" + folder, point], env=env, check=False,
            stderr=subprocess.DEVNULL).returncode:
        return None
    script = "for n in 1 2 3; do sort -o $n f; cat <$n; done"
    process = subprocess.Popen(
        [FERRY, "run", "--no-discover", "--force", "--report=" + report, "--mount",
         f"{point}=ssh://there{folder}", "--", "bash", "-c", script],
        cwd=point, env=env, stdout=subprocess.PIPE, start_new_session=True)
    try:
        said = process.communicate(timeout=patient(60))[0]
        with open(report, encoding="utf-8") as file:
            sorts = [stage.get("declined") or "placed" for stage in json.load(file)["stages"]
                     if stage["argv"][0] == "sort"]
        good = said == b"a\nb\n" * 3 and sorts == ["placed", "forbidden", "forbidden"]
        return "" if good else f"{said} {sorts}"
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return "it does not end"
    finally:
        subprocess.run(["fusermount3", "-u", "-z", point], check=False)


def main():
    if not os.path.exists(LIAR) or os.environ.get("FERRY_SANITIZED"):
        print("1..0 # SKIP no tests/security/liar, or a sanitized ferry")
        return 77
    top = os.path.realpath(tempfile.mkdtemp(dir="/var/tmp"))
    folder = os.path.join(top, "mnt")
    count = failed = 0
    try:
        os.makedirs(folder)
        os.mkdir(os.path.join(top, "bin"))
        with open(os.path.join(folder, "f"), "w", encoding="ascii") as file:
            file.write("b\na\n")
        short = os.path.join(top, "short")  # of a host that has less
        os.mkdir(short)
        with open(os.path.join(short, "f"), "w", encoding="ascii") as file:
            file.write("a\n")
        ssh = os.path.join(top, "bin/ssh")
        with open(ssh, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\ncase $* in *' sftp') for server in /usr/lib*/openssh/sftp-server"
                       " /usr/lib/ssh/sftp-server; do\n"
                       "[ ! -x $server ] || exec $server; done ;; esac\n"
                       f"touch {top}/asked\nexec env "
                       f"LD_PRELOAD={LIAR} {FERRY} proxy --stdio\n")
        os.chmod(ssh, 0o755)
        for lie, wanted in LIES:
            streamed = "in-bytes" in lie
            script, said = "sort f", b"a\nb\n"
            if streamed:  # what was left of stdin
                script = "{ sort f -; grep pos /proc/self/fdinfo/0; } <../rest"
                said = b"a\nb\nc\npos:\t2\n"
            with open(os.path.join(top, "rest"), "w", encoding="ascii") as file:
                file.write("c\n")
            got = run(folder, top, lie, script,
                      short if "out-bytes" in lie else folder)
            good = got is not None and got[1] == wanted and \
                (wanted != 0 or got[0] == said)
            count += 1
            failed += not good
            if not good:
                print(f"# {got}, wanted status {wanted}")
            print(f"{'' if good else 'not '}ok {count} - {lie}", flush=True)
        for name, said in (
                ("--explain", explain(folder, top, "--explain")),
                ("a report's file", explain(folder, top, "--report=" + top +
                                            "/r") + open(top + "/r", "rb").read()
                 + subprocess.run([FERRY, "report", top + "/r"], check=False,
                                  stdout=subprocess.PIPE).stdout)):
            text = said.decode("utf-8", "surrogateescape")
            good = text.count("31m") >= 5 and "é" in text and not any(
                ord(c) < 32 and c != "\n" or 127 <= ord(c) < 160 or
                0xdc80 <= ord(c) <= 0xdcff for c in text)
            count += 1
            failed += not good
            if not good:
                print("# " + ascii(text))
            print(f"{'' if good else 'not '}ok {count} - {name} prints no "
                  "control characters", flush=True)
        count += 1
        wrong = silent(top)
        failed += bool(wrong)
        print("%sok %d - a host that says nothing of what changed%s" % (
            "not " if wrong else "", count, " # SKIP sshfs does not mount" if wrong is None else ""))
        if wrong:
            print("# " + wrong)
        count += 1
        asked = os.path.exists(os.path.join(top, "asked"))
        failed += not asked
        print(f"{'' if asked else 'not '}ok {count} - the proxy was asked")
    finally:
        shutil.rmtree(top, ignore_errors=True)
    print(f"1..{count}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
