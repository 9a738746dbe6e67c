#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What `split' promises: a command over parts, put together as `merge' says, gives
what the command gives over the whole.

Each command line runs over several inputs as they are and in copies over ranges
of them, by the proxy's own proxy/split.c (split lines), or over each operand
alone (split files). The inputs are the awkward ones: no final newline, empty lines at the seams,
equal lines on both sides, NULs, bytes that are no UTF-8. A command line that the
annotation does not split counts as a mistake of this list, unless it begins
with `!': then splitting it would be wrong, and must not be declared.
"""
import os
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
! grep b FILES
! grep -c b FILES
! grep -c -h b FILES
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


def run(argv, stdin, cwd):
    environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8",
                   "HOME": "/nonexistent"}
    result = subprocess.run(argv, stdin=stdin, cwd=cwd, env=environment,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                            timeout=60, check=False)
    return result.stdout, result.returncode


def in_copies(argv, copies, program):
    """The command line that runs it as the proxy does."""
    return [SPLIT, str(copies), program, *annotated.FILES, "--", *argv]


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


def compare_lines(argv, cwd):
    program = shutil.which(argv[0])
    for name, data in INPUTS.items():
        with open(os.path.join(cwd, "FILE"), "wb") as file:
            file.write(data)
        whole = with_input(argv, argv, cwd)
        for copies in (2, 5):
            got = with_input(in_copies(argv, copies, program), argv, cwd)
            if got != whole:
                return "%s, %d copies\nwhole:  %r\ncopies: %r" % (
                    name, copies, whole, got)
        if name == "plain" and not runs_in_copies(argv, cwd):
            return "it ran as one"
    return ""


def compare_files(argv, found, cwd):
    """What the annotation promises; nobody splits by files yet."""
    names = []
    for i, data in enumerate(INPUTS.values()):
        names.append("input%d" % i)
        with open(os.path.join(cwd, names[-1]), "wb") as file:
            file.write(data)
    at = argv.index("FILES")
    whole = run(argv[:at] + names, subprocess.DEVNULL, cwd)
    pieces = [run(argv[:at] + [name], subprocess.DEVNULL, cwd)
              for name in names]
    got = (b"".join(piece[0] for piece in pieces),
           status_of([p[1] for p in pieces], found))
    return "" if got == whole else "whole: %r\nparts: %r" % (whole, got)


def main():
    tap = annotated.Tap()
    cases = [shlex.split(line) for line in CASES.splitlines() if line]
    lines = [[w for w in case if w != "!"] for case in cases]
    named = [[name for w in line for name in (
        ("x", "y") if w == "FILES" else (w,))] for line in lines]
    calls = annotated.parse(named)
    cwd = tempfile.mkdtemp(prefix="ferry-parts-")
    try:
        for case, argv, call in zip(cases, lines, calls):
            name = shlex.join(case)
            splits = [line.split()[1:] for line in call.lines
                      if line.startswith("split ")]
            if not shutil.which(argv[0]):
                tap.skip(name, "it is not installed")
            elif case[0] == "!":
                tap.result(not splits, name, call.text)
            elif not splits:
                tap.result(False, name, "it is not split\n" + call.text)
            else:
                (split, kind), = splits
                if split == "lines":
                    wrong = compare_lines(argv, cwd)
                elif kind == "concat":
                    wrong = compare_files(argv, call.says("status-found"), cwd)
                else:
                    wrong = "files are not merged by " + kind
                tap.result(not wrong, name, wrong)
    finally:
        shutil.rmtree(cwd, ignore_errors=True)
    return tap.finish()


if __name__ == "__main__":
    sys.exit(main())
