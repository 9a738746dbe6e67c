#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What `split' promises: a command over parts, put together as `merge' says, gives
what the command gives over the whole.

Each command line runs over several inputs as they are and in copies over ranges
of them, by the proxy's own proxy/server/split.c (split lines), or in parts over its
operands (split files), as proxy/client/stage_parts.c makes them: also of operands that
are missing, or folders. The inputs are the awkward ones: no final newline, empty lines at the seams,
equal lines on both sides, NULs, bytes that are no UTF-8. A command line that the
annotation does not split counts as a mistake of this list, unless it begins
with `!': then splitting it would be wrong, and must not be declared.
"""
import functools
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import annotated  # noqa: E402

# FILE stands for the input: on stdin where it is not named, else for one
# operand. FILES stands for several operands.
CASES = r"""
cat
cat FILE
cat -A FILE
cat -v
! cat -n FILE
! cat -s
! cat -b
cut -c 2-3
cut -d , -f 2 FILE
! cut -z -c 1-4
! rev
fold -w 3
fold -s -w 5 FILE
expand
expand -t 3 FILE
unexpand -a
tr a-z A-Z
tr -d '\n'
tr '\n' ,
! tr -s '\n'
! tr -s a
sort
sort FILE
sort -n
sort -rn
sort -k 2
sort -t , -k 2,2n -k 1
sort -f
sort -d -r
sort -M
sort -V
sort -h
! sort -u
! sort -s -k 2
! sort -m
! sort -z
uniq
uniq FILE
! uniq -c
! uniq -d
! uniq -u
! uniq -i
! uniq -w 2
grep -a b
grep -a -v b
grep -a -i B FILE
grep -a -o b
grep -a -c b
grep -a -h b FILE
grep -a -x ''
grep -a zzz
! grep b
! grep -a -n b
! grep -a -b b
! grep -a -m 2 b
! grep -a -A 1 b
! grep -a -z b
! grep -a -H -c b FILE
! grep -a -L b FILE
! grep -a -l b FILE
! grep -a -q b
grep -H b FILES
grep -h b FILES
grep -c -H b FILES
grep -l -H b FILES
grep b FILES
grep -v b FILES
grep -n -o b FILES
grep -c b FILES
grep -c -h b FILES
grep -L b FILES
grep -l b FILES
grep -lZ b FILES
grep -r b FILES
grep -rh b FILES
grep -s b FILES
grep -m 1 b FILES
grep -z b FILES
grep -x '' FILES
grep -b b FILES
grep -i --include=*1 -r B FILES
grep -e a -e b -- FILES
grep -f input0 FILES
grep --color=always b FILES
grep zzz FILES
grep -a -b b FILES
! grep -q b FILES
! grep -A 1 b FILES
! grep -2 b FILES
! grep -T b FILES
! grep b FILES -
cat FILES
cat -v FILES
cat -T FILES
! cat -n FILES
! cat -s FILES
! cat -A FILES
! cat -E FILES
cut -c 2- FILES
cut -d , -f 2 FILES
cut -s -d , -f 1 FILES
! cut -z -c 1 FILES
strings FILES
strings -f -n 1 FILES
stat -c '%n %s %F' FILES
find FILES -name 'i*'
find FILES -type f -size +1c
! find FILES -quit
! head FILES
! tail FILES
! sed s/a/b/ FILES
! awk 1 FILES
! wc FILES
! ls FILES
! nl FILES
! tac FILES
! gzip -dc FILES
wc -l
wc -w
wc -c
wc -m
! wc
! wc -L
! wc -lw
md5sum FILES
sha256sum -b FILES
b2sum FILES
cksum FILES
! sum FILES
sed s/a/b/
sed -e s/b/c/g -e /c/d
sed -n /b/p
sed '/b/!d'
sed 's,b,x,gI' FILE
! sed 2d
! sed '$d'
! sed -n '$='
! sed 's/a/b/;n'
! sed -s 1d FILE
awk '{print $1}'
awk '/b/'
awk '$2 > 2' FILE
awk '$1 == "b" {print $2, $1}'
awk -F, '{print $2}' FILE
mawk '{ print }'
gawk '/b/ { print $1 }' FILE
! awk 'NR > 1'
! awk 'END {print NR}'
! awk '{n++} n > 2'
! head -n 3
! tail -n 3
! nl
! paste -s
! od -c
! jq .
"""

INPUTS = {
    "plain": b"a 1\nb 2\nb 2\nb 3\nc,4\nb,5\n",
    "no final newline": b"b 2\na 1\nc,3\nb 2",
    "empty lines": b"\n\nb\n\n\nb\n\n",
    "nothing": b"",
    "one line": b"b b b\n",
    "no newline": b"b",
    "NUL": b"a\nb\0b\nb\nb,1\n",
    "no UTF-8": b"b\xff\xfe\nb\nc\xc3\xa9b\n\xe9b\n",
    "CR": b"b\r\nb\r\na,1\r\nb",
    "tabs": b"\tb\n b\tb\n        b\nb \t \n",
    "numbers": b"10\n9\n1e1\n-3\n2K\n1M\nJan\nFeb\n10\nx1.10\nx1.9\n",
}


SPLIT = os.path.join(annotated.BUILD, "tests/commands/split")
SAMPLE = os.environ.get("FERRY_SANITIZED") or os.environ.get("FERRY_TEST_TIER") == "edit"


def run(argv, stdin, cwd):
    environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8",
                   "HOME": "/nonexistent"}
    result = subprocess.run(argv, stdin=stdin, cwd=cwd, env=environment,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                            timeout=annotated.LIMIT, check=False)
    return result.stdout, result.returncode


@functools.cache
def files_of(command):
    """The annotations of one command: all of them would be read each time."""
    found = []
    for path in annotated.FILES:
        with open(path, encoding="utf-8") as file:
            if re.search(r"(?m)^command [^#{]*\b%s\b" % re.escape(command),
                         file.read()):
                found.append(path)
    return found


def in_copies(argv, copies, program):
    """The command line that runs it as the proxy does."""
    return [SPLIT, str(copies), program, *files_of(argv[0]), "--", *argv]


def status_of(statuses, found):
    """As `status' says: the greatest, or for `found' 0 if any is 0."""
    if max(statuses) > 1 or not found:
        return max(statuses)
    return min(statuses)


def with_input(argv, words, cwd):
    """Over the file FILE, named by one of the words or on stdin."""
    if "FILE" in words:
        return run(argv, subprocess.DEVNULL, cwd)
    with open(os.path.join(cwd, "FILE"), "rb") as file:
        return run(argv, file, cwd)


def runs_in_copies(argv, cwd):
    """Whether there are several processes: some input is really split."""
    log, counter = os.path.join(cwd, "log"), os.path.join(cwd, "counter")
    with open(counter, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\necho >>%s\nexec %s \"$@\"\n" % (
            log, shutil.which(argv[0])))
    os.chmod(counter, 0o755)
    with_input(in_copies(argv, 2, counter), argv, cwd)
    with open(log, encoding="utf-8") as file:
        return len(file.readlines()) > 2


def inputs_of(number):
    """(name, data, numbers of copies) for the case of this number. For ./check, and
    where our part is slow, each case takes some, and each input meets a third of
    them."""
    for i, (name, data) in enumerate(INPUTS.items()):
        if not SAMPLE:
            yield name, data, (2, 5)
        elif i % 3 == number % 3:
            yield name, data, ((2, 5)[(i + number // 3) % 2],)


def compare_lines(argv, number, cwd):
    program = shutil.which(argv[0])
    for name, data, numbers in inputs_of(number):
        with open(os.path.join(cwd, "FILE"), "wb") as file:
            file.write(data)
        whole = with_input(argv, argv, cwd)
        for copies in numbers:
            got = with_input(in_copies(argv, copies, program), argv, cwd)
            if got != whole:
                return "%s, %d copies\nwhole:  %r\ncopies: %r" % (
                    name, copies, whole, got)
        if name == "plain" and not runs_in_copies(argv, cwd):
            return "it ran as one"
    return ""


def odd(text, argv, names):
    """Whether what a later part says first is of none of its operands: then
    proxy/client/stage_parts.c gives up, and the original runs."""
    start = os.fsencode(argv[0]) + b": "
    rest = text[len(start):].lstrip(b"'\"`\xe2\x80\x98")
    return bool(text) and not (text.startswith(start) and any(
        rest.startswith(os.fsencode(name)) for name in names))


def run_both(argv, cwd):
    environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8",
                   "HOME": "/nonexistent"}
    result = subprocess.run(argv, stdin=subprocess.DEVNULL, cwd=cwd,
                            env=environment, capture_output=True, timeout=annotated.LIMIT,
                            check=False)
    return result.stdout, result.stderr, result.returncode


def compare_operands(argv, found, first, names, size, cwd):
    """Parts of `size' operands each."""
    at = argv.index("FILES")
    whole = run_both(argv[:at] + names + argv[at + 1:], cwd)
    got = [b"", b"", []]
    for i in range(0, len(names), size):
        own = names[i:i + size]
        out, err, status = run_both(
            argv[:1] + first + argv[1:at] + own + argv[at + 1:], cwd)
        if i and odd(err, argv, own):
            return ""
        got[0] += out
        got[1] += err
        got[2].append(status)
    parts = (got[0], got[1], status_of(got[2], found))
    return "" if parts == whole else "parts of %d\nwhole: %r\nparts: %r" % (
        size, whole, parts)


def compare_files(argv, found, first, number, cwd):
    names = []
    for i, data in enumerate(INPUTS.values()):
        names.append("input%d" % i)
        with open(os.path.join(cwd, names[-1]), "wb") as file:
            file.write(data)
    folder = os.path.join(cwd, "folder")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "in"), "wb") as file:
        file.write(INPUTS["plain"])
    mixed = ["input0", "missing", "input1", "folder", "input3", "none at all",
             "input5", "input0"]
    lists = (names, mixed, ["missing", "folder"], ["missing", "input0"],
             ["input3", "folder", "input2"])
    for at, names in enumerate(lists):
        for size in ((1, 3)[(at + number) % 2],) if SAMPLE else (1, 3):
            wrong = compare_operands(argv, found, first, names, size, cwd)
            if wrong:
                return wrong
    return ""


def main():
    tap = annotated.Tap()
    cases = [shlex.split(line) for line in CASES.splitlines() if line]
    if os.environ.get("FERRY_SANITIZED"):
        # Parts over operands are made here: nothing of ours would run.
        cases = [case for case in cases if "FILES" not in case]
    lines = [[w for w in case if w != "!"] for case in cases]
    named = [[name for w in line for name in (
        ("x", "y") if w == "FILES" else (w,))] for line in lines]
    calls = annotated.parse(named)
    cwd = tempfile.mkdtemp(prefix="ferry-parts-")
    try:
        for number, (case, argv, call) in enumerate(zip(cases, lines, calls)):
            name = shlex.join(case)
            splits = [line.split()[1:] for line in call.lines
                      if line.startswith("split ")]
            if not shutil.which(argv[0]):
                tap.skip(name, argv[0] + " is not installed")
            elif case[0] == "!":
                tap.result(not splits, name, call.text)
            elif not splits:
                tap.result(False, name, "it is not split\n" + call.text)
            else:
                (split, kind), = splits
                if split == "lines":
                    wrong = compare_lines(argv, number, cwd)
                elif kind == "concat":
                    first = [line.split()[1] for line in call.lines
                             if line.startswith("split-with ")]
                    wrong = compare_files(argv, call.says("status-found"),
                                          first, number, cwd)
                else:
                    wrong = "files are not merged by " + kind
                tap.result(not wrong, name, wrong)
    finally:
        shutil.rmtree(cwd, ignore_errors=True)
    return tap.finish()


if __name__ == "__main__":
    sys.exit(main())
