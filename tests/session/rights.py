#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Commands of processes that may less than `ferry run', or see other files: each runs
locally, with the output, status and files of a run without ferry. Rights are given up as
launchers of sandboxes and containers do: namespaces, roots, capabilities, groups, filters,
Landlock. Prints TAP."""
import glob
import json
import os
import resource
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
from patience import patient  # noqa: E402

BUILD = os.path.abspath(os.environ.get("FERRY_BUILDDIR", "."))
HERE = os.path.dirname(os.path.abspath(__file__))
FERRY = os.path.join(BUILD, "ferry")
STRANGER = 54321  # the number of no user or group

# Name; command line of a shell; how many of its commands run at the proxy; the setting
# around ferry. $D is the mount, $T a folder beside it; `confine' and `unseen' are confine.c.
CASES = [
    ("all is as ferry has it", "cat $D/f; cat <$D/f; cd $D; cat f; rm g; ls", 5, ""),
    ("a mount namespace with another tree",
     "unshare -m sh -c 'mount -t tmpfs x $D; echo other >$D/f; cat $D/f'", 0, ""),
    ("a mount namespace where it can only be read",
     "unshare -m sh -c 'mount --bind $D $D; mount -o remount,bind,ro $D; touch $D/n'; ls $D",
     1, ""),
    ("a mount namespace alone", "unshare -m cat $D/f", 0, ""),
    ("a user namespace", "unshare -U cat $D/secret; cat $D/secret", 1, ""),
    ("root of a user namespace",
     "unshare -r cat $D/secret; unshare -rm sh -c 'rm -f $D/secret'; ls $D", 1, ""),
    ("process numbers of its own", "unshare -pf cat $D/f", 0, ""),
    ("process numbers and /proc of its own", "unshare -pf --mount-proc cat $D/f", 0, ""),
    ("a root folder", "chroot $T/base cat $D/f; chroot / cat $D/f", 1,
     "mount --bind / $T/base; mount --rbind /proc $T/base/proc;"
     "mount -t tmpfs x $T/base$D; echo other >$T/base$D/f"),
    ("an exchanged root, as containers have",
     "unshare -m sh -c 'mount --rbind / $T/base; mount -t tmpfs x $T/base$D;"
     " echo other >$T/base$D/f; cd $T/base; pivot_root . .$T/old; chroot . cat $D/f'", 0, ""),
    ("capabilities that are bound",
     "setpriv --bounding-set=-dac_override,-dac_read_search cat $D/secret", 0, ""),
    ("a capability less, by a shell",
     "setpriv --bounding-set=-fowner sh -c 'chmod 644 $D/secret'; cat $D/secret", 1, ""),
    ("capabilities that are less for ferry as well", "cat $D/secret; cat $D/f", 2,
     "set -- setpriv --bounding-set=-dac_override,-dac_read_search \"$@\""),
    ("ambient and inherited capabilities", "setpriv --inh-caps=-all cat $D/f", 0,
     "set -- setpriv --inh-caps=+chown \"$@\""),
    ("a program whose file gives capabilities", "cat $D/f", 0,
     "cp /usr/bin/cat $T/cat; setcap cap_dac_read_search+ep $T/cat;"
     "mount --bind $T/cat /usr/bin/cat"),
    ("no groups", "setpriv --clear-groups cat $D/shared; cat $D/shared", 1,
     "set -- setpriv --bounding-set=-dac_override,-dac_read_search --groups $STRANGER \"$@\""),
    ("another group", "setpriv --regid $STRANGER --clear-groups touch $D/n; stat -c %g $D/n",
     1, ""),
    ("another user", "setpriv --reuid $STRANGER --clear-groups cat $D/private", 0, ""),
    ("no new privileges", "confine privileges $D cat $D/f", 0, ""),
    ("a seccomp filter", "confine filter $D rm $D/g; confine filter $D sh -c 'rm $D/g'; ls $D",
     1, ""),
    ("a filter that is unseen", "unseen filter $D sh -c 'rm $D/g'; ls $D", 1, ""),
    ("a filter that kills", "confine killer $D cat $D/f; confine killer $D sh -c 'cat $D/f'",
     0, ""),
    ("a Landlock domain", "confine changes $D rm $D/g; confine changes $D sh -c 'rm $D/g;"
     " touch $D/n; cp $D/f $D/n'; ls $D", 1, ""),
    ("a Landlock domain that is unseen", "unseen changes $D sh -c 'rm $D/g'; ls $D", 1, ""),
    ("a Landlock domain without ferry's files",
     "confine system $D cat $D/f; confine system $D sh -c 'cat $D/f; true'", 0, ""),
    ("... that spawns", "confine spawn $D cat $D/f; confine spawn $D /bin/sh -c 'cat $D/f'",
     0, ""),
    ("bwrap", "bwrap --bind / / --tmpfs $D sh -c 'echo other >$D/f; cat $D/f';"
     " bwrap --ro-bind / / --dev /dev touch $D/n; ls $D", 1, ""),
    ("bwrap with a user namespace",
     "bwrap --unshare-all --bind / / --dev /dev --proc /proc cat $D/secret", 0, ""),
    # Without a mount namespace of its own: ferry sees the change, too.
    ("a mount over the mount, later",
     "cat $D/f; mount -t tmpfs x $D; echo other >$D/f; cat $D/f; umount $D; cat $D/f", 2,
     "mount --bind $T/store $D"),
    ("read-only, later", "touch $D/n; mount -o remount,bind,ro $D; touch $D/o; ls $T/store",
     1, "mount --bind $T/store $D"),
    ("gone, later", "cat $D/f; umount $D; cat $D/f", 1, "mount --bind $T/store $D"),
    ("a working folder that is hidden, later",
     "cd $D; mount -t tmpfs x $D; echo other >$D/f; cat f; exec 3<f; cat <&3", 0, ""),
    ("a stream of a hidden file",
     "exec 4<$D/f; mount -t tmpfs x $D; echo other >$D/f; cat <&4", 0, ""),
    ("a working folder above", "cd $T; mount -t tmpfs x $T; mkdir mnt; echo other >mnt/f;"
     " cat $D/f; cat mnt/f", 0, ""),
]


# Answers of the session to a process that speaks as a stub.
STUBS = [("that tells the truth", "RUN"), ("with false limits", "EXEC"),
         ("of one that has ended", "EXEC")]


def make(top):
    """The folders of one run."""
    for name in ("mnt", "base", "old", "store"):
        os.mkdir(os.path.join(top, name))
    for folder in ("mnt", "store"):
        for name, mode, owner, group in (
                ("f", 0o644, 0, 0), ("g", 0o644, 0, 0), ("private", 0o600, 0, 0),
                ("secret", 0o600, STRANGER, STRANGER), ("shared", 0o640, STRANGER, STRANGER)):
            path = os.path.join(top, folder, name)
            with open(path, "w", encoding="utf-8") as file:
                file.write(f"{folder}'s {name}\n")
            os.chown(path, owner, group)
            os.chmod(path, mode)


def run(top, line, around, ferry):
    """What one run shows, and the reasons of its stages."""
    folder = os.path.join(top, "run")
    report = os.path.join(top, "report.json")
    os.mkdir(folder)
    make(folder)
    mount = os.path.join(folder, "mnt")
    environment = dict(os.environ, D=mount, T=folder, STRANGER=str(STRANGER), LC_ALL="C",
                       PATH=os.path.join(top, "bin") + ":" + os.environ["PATH"])
    command = ["sh", "-c", line]
    if ferry:
        place = folder + "/store" if "store" in around else mount
        command = [FERRY, "run", "--no-discover", "--force", "--device=none",
                   "--report=" + report, "--mount", f"{mount}=loopback://{place}", "--"] + command
    done = subprocess.run(["unshare", "-m", "sh", "-ec", around + '\nexec "$@"', "sh"] + command,
                          cwd=folder, env=environment, check=False, stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=patient(120))
    shutil.rmtree(folder)
    stages = []
    if ferry:
        with open(report, encoding="utf-8") as file:
            stages = [s.get("declined") or "placed" for s in json.load(file)["stages"]]
    return (done.stdout, done.stderr, done.returncode), stages


def missing(top, line, around):
    """Why a case cannot be tried here, or None."""
    path = os.path.join(top, "bin") + ":" + os.environ["PATH"]

    def fails(*command):
        return subprocess.run(command, check=False, stderr=subprocess.DEVNULL,
                              env=dict(os.environ, PATH=path)).returncode != 0
    for word, reason in (("bwrap", "bwrap is not installed"), ("confine", "no C compiler"),
                         ("unseen", "no static libc"), ("setcap", "no setcap")):
        if word in line + around and not shutil.which(word, path=path):
            return reason
    if any(how in line for how in (" changes", " system", " spawn")) and \
            fails("confine", "changes", "/", "true"):
        return "no Landlock"
    if ("unshare -r" in line or "unshare -U" in line or "unshare-all" in line) and \
            fails("unshare", "-U", "true"):
        return "namespaces are not allowed"
    return None


def false_stub(how, path):
    """Asks the session itself for a command; says what it is to do."""
    with socket.socket(socket.AF_UNIX) as session:
        session.connect(glob.glob(os.environ["TMPDIR"] + "/*/session")[0])
        pid = os.getpid()
        if how == "of one that has ended" and os.fork() != 0:
            os._exit(0)
        while how == "of one that has ended" and (
                os.getppid() == pid or os.path.exists(f"/proc/{pid}")):
            time.sleep(0.01)  # until its parent's end is waited for
        limits = [resource.prlimit(0, number) for number in range(16)]
        if how == "with false limits":
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        words = ["/usr/bin/cat", "cat", path, "PATH=/usr/bin"]
        body = struct.pack("<IiIIIIiIIIIHH", 4, pid, 7, 0, 0, 0o22, *[0] * 7)
        body += b"".join(struct.pack("<QQ", *[n & (2 ** 64 - 1) for n in row]) for row in limits)
        body += struct.pack("<II", 2, 1) + b"".join(os.fsencode(w) + b"\0" for w in words)
        null = os.open("/dev/null", os.O_RDWR)
        socket.send_fds(session, [struct.pack("<II", len(body), 1) + body],
                        [null, null, null, os.open(".", os.O_PATH)])
        word = session.recv(8)
        print({1: "EXEC", 2: "RUN"}[struct.unpack("<II", word)[1]], flush=True)


def ask(top, how):
    """The first word of the session to a false stub."""
    folder = os.path.join(top, "ask")
    os.mkdir(folder)
    done = subprocess.run(
        [FERRY, "run", "--no-discover", "--force", "--device=none", "--mount",
         f"{HERE}=loopback://{HERE}", "--", "sh", "-c", '"$@" | cat', "sh", sys.executable,
         os.path.abspath(__file__), how, os.path.join(HERE, "confine.c")],
        env=dict(os.environ, TMPDIR=folder), check=False, capture_output=True,
        timeout=patient(120))
    shutil.rmtree(folder)
    return done.stdout.decode().strip()


def main():
    if len(sys.argv) == 3:
        return false_stub(*sys.argv[1:])
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], check=False,
                                           stderr=subprocess.DEVNULL).returncode:
        print("1..0 # SKIP not root, or no mounts of its own")
        return 77
    if os.environ.get("FERRY_SANITIZED"):
        print("1..0 # SKIP the preloaded library cannot run so")
        return 77
    top = os.path.realpath(tempfile.mkdtemp(dir="/var/tmp"))
    os.chmod(top, 0o755)
    os.mkdir(os.path.join(top, "bin"))
    for name, flags in (("confine", []), ("unseen", ["-static"])):
        subprocess.run(["cc", "-O1", *flags, "-o", os.path.join(top, "bin", name),
                        os.path.join(HERE, "confine.c")], check=False)
    bad = 0
    for number, (name, line, placed, around) in enumerate(CASES, 1):
        lacks = missing(top, line, around)
        if lacks:
            print(f"ok {number} - {name} # SKIP {lacks}")
            continue
        plain, _ = run(top, line, around, False)
        carried, stages = run(top, line, around, True)
        good = plain == carried and stages.count("placed") == placed
        bad += not good
        print(f"{'' if good else 'not '}ok {number} - {name}", flush=True)
        if not good:
            print(f"# wanted {placed} placed, got {stages}\n# {plain}\n# {carried}")
    for number, (how, wanted) in enumerate(STUBS, len(CASES) + 1):
        word = ask(top, how)
        bad += word != wanted
        print(f"{'' if word == wanted else 'not '}ok {number} - a stub {how}: {wanted} {word}")
    print(f"1..{len(CASES) + len(STUBS)}")
    shutil.rmtree(top)
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
