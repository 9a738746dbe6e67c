#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Commands under LD_LIBRARY_PATH and its relatives: placed where the linker finds
the same files with and without it, run here where a folder of the user's changes
what a command is. Needs a C compiler for the library that does. Prints TAP."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
from patience import patient  # noqa: E402

BUILD = os.environ.get("FERRY_BUILDDIR", ".")
FERRY = os.path.join(BUILD, "ferry")


def output(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, check=False,
                          stderr=subprocess.DEVNULL).stdout.decode()


def run(folder, top, environment, script):
    """stdout, stderr and status of both, and the stages' reasons."""
    report = os.path.join(top, "report.json")
    wanted = dict(os.environ, **environment)
    wanted.pop("TMPDIR", None)  # some commands are not placed with it
    command = ["sh", "-c", script]
    plain = subprocess.run(command, cwd=folder, env=wanted, check=False,
                           capture_output=True, timeout=patient(60))
    carried = subprocess.run(
        [FERRY, "run", "--no-discover", "--force", "--report=" + report,
         "--mount", f"{folder}=loopback://{folder}", "--"] + command,
        cwd=folder, env=wanted, check=False, capture_output=True, timeout=patient(120))
    with open(report, encoding="utf-8") as file:
        stages = json.load(file)["stages"]
    same = (plain.stdout, plain.stderr, plain.returncode) == \
        (carried.stdout, carried.stderr, carried.returncode)
    return same, [s.get("declined") or "placed" for s in stages], carried


def make_fake(top):
    """A libpcre2-8.so.0 that makes grep say more; its folder, or None."""
    grep = shutil.which("grep")
    names = re.findall(r" U (pcre2_\w+)", output("nm", "-D", grep))
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not names or not compiler:
        return None
    folder = os.path.join(top, "fake")
    os.mkdir(folder)
    source = os.path.join(folder, "fake.c")
    with open(source, "w", encoding="utf-8") as file:
        file.write("#include <unistd.h>\n")
        for name in names:
            file.write(f"long {name}(void) {{ return 0; }}\n")
        file.write("__attribute__((constructor)) static void speak(void)\n"
                   "{ (void)!write(1, \"fake\\n\", 5); }\n")
    done = subprocess.run(
        [compiler, "-shared", "-fPIC", "-Wl,-soname,libpcre2-8.so.0", "-o",
         os.path.join(folder, "libpcre2-8.so.0"), source], check=False)
    return folder if done.returncode == 0 else None


def main():
    top = os.path.realpath(tempfile.mkdtemp(dir="/var/tmp"))
    folder = os.path.join(top, "mnt")
    os.mkdir(folder)
    with open(os.path.join(folder, "f"), "w", encoding="utf-8") as file:
        file.write("".join(f"{n}\n" for n in range(30000)))
    empty = os.path.join(top, "empty")
    os.mkdir(empty)
    fake = make_fake(top)
    patched = os.path.join(top, "patched")
    os.mkdir(patched)
    library = re.search(r"libpcre2-8\S* => (\S+)",
                        output("ldd", shutil.which("grep")))
    if library:
        shutil.copy(library.group(1), os.path.join(patched, "libpcre2-8.so.0"))
        with open(os.path.join(patched, "libpcre2-8.so.0"), "ab") as file:
            file.write(b"x")
    path = "LD_LIBRARY_PATH"
    grep = "grep -c 7 f"
    cases = [
        ("nothing set", {}, grep, "placed"),
        ("folders without libraries", {path: f"{empty}:/no/such:/usr"}, grep,
         "placed"),
        ("the working folder", {path: f":{empty}"}, grep, "placed"),
        ("the system's own folder",
         {path: os.path.dirname(library.group(1)) if library else empty}, grep,
         "placed"),
        ("modules' and linkers' own", {"LD_RUN_PATH": "/x", "LD_BIND_NOW": "1",
                                       path + "_modshare": "/x:1"}, grep,
         "placed"),
        ("what only the linker knows", {path: "$ORIGIN/../lib"}, grep,
         "other-tool"),
        ("a large file that a program reads", {}, "file f", "placed"),
        ("a program that shows it", {path: empty},
         f"awk '{{print ENVIRON[\"{path}\"]; exit}}' f", "forbidden"),
    ]
    # A sanitizer's library wants to be the first of all.
    if library and not os.environ.get("FERRY_SANITIZED"):
        cases.append(("another's preload", {"LD_PRELOAD": library.group(1)},
                      grep, "other-tool"))
        cases.append(("a changed copy", {path: patched}, grep, "other-tool"))
        cases.append(("a changed copy, by the working folder",
                      {path: ":/no/such"}, f"cd {folder}/sub && grep -c 7 ../f",
                      "other-tool"))
        os.mkdir(os.path.join(folder, "sub"))
        shutil.copy(os.path.join(patched, "libpcre2-8.so.0"),
                    os.path.join(folder, "sub"))
    if fake:
        cases.append(("another library", {path: f"{empty}:{fake}"}, grep,
                      "other-tool"))
        cases.append(("that comes while the run goes on", {path: empty},
                      f"grep -c 7 f; cp {fake}/lib* {empty}; grep -c 7 f; "
                      f"rm {empty}/*; grep -c 7 f", None))
    mogrify = shutil.which("mogrify")
    if mogrify:
        cases.append(("a program of modules", {path: empty},
                      "mogrify -resize 50% f.png; true", "other-tool"))
        open(os.path.join(folder, "f.png"), "wb").close()
    bad = 0
    for number, (name, environment, script, want) in enumerate(cases, 1):
        same, stages, carried = run(folder, top, environment, script)
        if want is None:
            stages = [s for s in stages if s != "local-files"]  # cp, rm
            good = same and stages == ["placed", "other-tool", "placed"]
        else:
            good = same and stages == [want]
        bad += not good
        print(f"{'' if good else 'not '}ok {number} - {name}")
        if not good:
            print(f"# {stages} {same} {carried}")
    print(f"1..{len(cases)}")
    shutil.rmtree(top)
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
