#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A file system of this machine that stops answering (sshfs whose server is
stopped): only what waits for it waits, all other commands are placed and end as
ever. Needs sshfs and the right to mount. Prints TAP."""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
from patience import patient  # noqa: E402

BUILD = os.environ.get("FERRY_BUILDDIR", ".")
FERRY = os.path.join(BUILD, "ferry")
SERVERS = ["/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server",
           "/usr/lib/ssh/sftp-server"]

# Until each jq in the background is the original, because ferry has declined it.
DECLINED = ("for p in $(jobs -p); do until [ /proc/$p/exe -ef $JQ ]; do sleep 0.1; done; "
            "done; ")

# name, script (H: the file system, SERVER: its server), what it prints (a digit:
# how many numbers have it), most seconds on a quiet machine, what is placed in the report by its words
CASES = [
    ("an extra descriptor", "exec 3<$H/x; sleep 1.5; kill -STOP $SERVER; "
     "grep -c 7 f; exec 3<&-; grep -c 8 f; wc -l < f", "7 8 30000", 60,
     {"grep -c 7 f": "open-files", "grep -c 8 f": "placed"}),
    ("a home", "kill -STOP $SERVER; HOME=$H/home jq -c . j >/dev/null 2>&1 & "
     "sleep 0.2; for i in 1 2 3; do grep -c $i f; done; "
     "[ $SECONDS -lt $SOON ] && echo soon; " + DECLINED + "kill -CONT $SERVER; "
     "wait $!; grep -c 9 f", "1 2 3 soon 9", 60,
     {"jq -c . j": "other-config", "grep -c 1 f": "placed",
      "grep -c 3 f": "placed", "grep -c 9 f": "placed"}),
    ("many homes", "kill -STOP $SERVER; for i in 1 2 3 4 5 6; do "
     "HOME=$H/home jq -c .$i j >/dev/null 2>&1 & done; "
     "sleep 0.5; grep -c 1 f; [ $SECONDS -lt $SOON ] && echo soon; " + DECLINED +
     "wc -l < f; kill -CONT $SERVER; wait; grep -c 2 f", "1 soon 30000 2", 60,
     {"jq -c .1 j": "other-config", "grep -c 2 f": "placed"}),
    # What is found out for it comes when its stage is long gone.
    ("a home, and its command is killed", "kill -STOP $SERVER; "
     "HOME=$H/home jq -c . j >/dev/null 2>&1 & sleep 0.5; kill -KILL $!; "
     "wait $!; grep -c 1 f; kill -CONT $SERVER; sleep 1; grep -c 2 f", "1 2", 60,
     {"grep -c 1 f": "placed", "grep -c 2 f": "placed"}),
    ("inherited from the beginning", None, "4", 60, {"grep -c 4 f": "placed"}),
]


def mount(point, shown):
    """sshfs and its server, joined by pipes."""
    server = next((path for path in SERVERS if os.path.exists(path)), None)
    if not server or not shutil.which("sshfs"):
        return None
    up, down = os.pipe(), os.pipe()
    # pylint: disable=consider-using-with
    sftp = subprocess.Popen([server], stdin=up[0], stdout=down[1], cwd="/")
    fuse = subprocess.Popen(
        ["sshfs", "-f", "-o", "passive,attr_timeout=0,dcache_timeout=1",
         "x:" + shown, point], stdin=down[0], stdout=up[1],
        stderr=subprocess.DEVNULL)
    for end in up + down:
        os.close(end)
    for _ in range(int(patient(300))):
        if os.path.ismount(point):
            return sftp, fuse
        time.sleep(0.1)
    sftp.kill()
    fuse.kill()
    return None


def one(top, name, script, printed, seconds, want):
    seconds = patient(seconds)
    folder, point = os.path.join(top, "mnt"), os.path.join(top, "hung")
    shown, report = os.path.join(top, "shown"), os.path.join(top, "report")
    pair = mount(point, shown)
    if not pair:
        return None
    sftp, fuse = pair
    environment = dict(os.environ, H=point, SERVER=str(sftp.pid), TOP=top,
                       SOON=str(int(patient(12))), JQ=shutil.which("jq") or "",
                       MALLOC_PERTURB_="165")  # what is freed is no more
    began = time.monotonic()
    inherited = []
    if script is None:
        inherited = [os.open(os.path.join(point, "x"), os.O_RDONLY)]
        time.sleep(1.5)
        sftp.send_signal(signal.SIGSTOP)
        script = "grep -c 4 f"
    # pylint: disable=consider-using-with
    out, err = tempfile.TemporaryFile(), tempfile.TemporaryFile()
    run = subprocess.Popen(  # pylint: disable=consider-using-with
        [FERRY, "run", "--no-discover", "--force", "--report=" + report,
         "--mount", f"{folder}=loopback://{folder}", "--", "bash", "-c",
         script], cwd=folder, env=environment, stdout=out, stderr=err,
        pass_fds=inherited, start_new_session=True)
    try:
        run.wait(2 * seconds)
        taken = time.monotonic() - began
        with open(report, encoding="utf-8") as file:
            stages = {" ".join(s["argv"]): s.get("declined") or "placed"
                      for s in json.load(file)["stages"]}
    except FileNotFoundError:
        taken, stages = 0, {}  # no report
    except subprocess.TimeoutExpired:
        taken, stages = 2 * seconds, {}
        os.killpg(run.pid, signal.SIGKILL)
        run.wait()
    finally:
        sftp.send_signal(signal.SIGCONT)
        sftp.kill()
        for fd in inherited:
            try:
                os.close(fd)
            except OSError:
                pass
        fuse.kill()
        try:
            subprocess.run(["fusermount3", "-u", "-z", point], check=False,
                           stderr=subprocess.DEVNULL, timeout=patient(30))
            sftp.wait(patient(60))
            fuse.wait(patient(60))
        except subprocess.TimeoutExpired as error:
            print(f"# {error}")
    lines = []
    for word in printed.split():
        lines.append(str(sum(word in str(n) for n in range(30000)))
                     if len(word) == 1 else word)
    for file in (out, err):
        file.seek(0)
    text = out.read().decode()
    good = taken <= seconds and run.returncode == 0 and all(
        stages.get(words) == what for words, what in want.items()) and \
        text.split() == lines
    if not good:
        print(f"# {name}: {taken:.1f} s, status {run.returncode}, {stages}, "
              f"{text!r} for {lines}, {err.read()}")
    return good


def main():
    top = os.path.realpath(tempfile.mkdtemp(dir="/var/tmp"))
    for name in ("mnt", "hung", "shown", "shown/home"):
        os.mkdir(os.path.join(top, name))
    with open(os.path.join(top, "mnt", "f"), "w", encoding="utf-8") as file:
        file.write("".join(f"{n}\n" for n in range(30000)))
    for name, text in (("mnt/j", "{}\n"), ("shown/x", "x\n")):
        with open(os.path.join(top, name), "w", encoding="utf-8") as file:
            file.write(text)
    failed = 0
    for number, (name, script, printed, seconds, want) in enumerate(CASES, 1):
        if "jq" in (script or "") and not shutil.which("jq"):
            print(f"ok {number} - {name} # SKIP jq is not installed")
            continue
        good = one(top, name, script, printed, seconds, want)
        if good is None:
            print(f"ok {number} - {name} # SKIP sshfs does not mount")
            continue
        failed += not good
        print(f"{'' if good else 'not '}ok {number} - {name}", flush=True)
    print(f"1..{len(CASES)}")
    shutil.rmtree(top)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
