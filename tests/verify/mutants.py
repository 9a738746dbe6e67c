#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does `ferry verify' catch wrong annotations?

  mutants.py [--sample N] [--least PERCENT] [--missed FILE] [--jobs N]
             [--names] --ferry FERRY --annotations FOLDER -- DRIVER...

Breaks the annotations one operand at a time (mutate.py), runs DRIVER, a program
that calls the annotated functions, under `ferry verify', and counts the mutants
whose function had a finding. Prints TAP; --missed writes the others to FILE.
Mutants that `ferry check' already refuses, and functions that the driver never
calls, are counted apart.
"""
import argparse
import collections
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import mutate

FINDING = re.compile(r"^(?P<file>[^:\n]+):(?P<line>\d+): (?P<function>[^:]+): "
                     r"(?P<text>.*) \[(?P<kind>[\w-]+)\]$", re.M)
CALLS = re.compile(r"^(?P<file>[^:\n]+):(?P<line>\d+): (?P<function>\S+): "
                   r"(?P<calls>\d+) calls, (?P<checked>\d+) checked", re.M)
REFUSED = re.compile(r"^(?P<file>[^:\n]+):(?P<line>\d+):\d+: error: ", re.M)


FEW = 80  # functions in a round


def run(command, timeout):
    try:
        p = subprocess.run(command, stdin=subprocess.DEVNULL, timeout=timeout,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           check=False)
        return p.returncode, p.stdout.decode(errors="replace")
    except subprocess.TimeoutExpired as e:
        return None, (e.stdout or b"").decode(errors="replace")


def functions_at(chosen, pattern, text):
    """The mutants whose function has a line that the pattern found."""
    hit = set()
    for m in pattern.finditer(text):
        name, line = os.path.basename(m.group("file")), int(m.group("line"))
        if pattern is FINDING and m.group("kind").startswith("note-"):
            continue
        for c in chosen:
            if os.path.basename(c.file) == name and c.first <= line <= c.last:
                hit.add(c)
    return hit


class Tester:
    def __init__(self, options):
        self.options = options
        self.families = mutate.families([options.annotations])

    def names(self, chosen):
        """Few functions: only those are called."""
        if len(chosen) > FEW or not self.options.names:
            return []
        names = {n for m in chosen
                 for n in mutate.doubles(m.function, self.families)}
        return sorted(names)

    def check(self, chosen, folder):
        """Writes a round; drops mutants that the checker refuses."""
        refused = set()
        while True:
            mutate.write_round([self.options.annotations], chosen, folder)
            status, text = run([self.options.ferry, "check", folder], 60)
            if status == 0:
                return chosen, refused
            hit = functions_at(chosen, REFUSED, text)
            if not hit:
                raise SystemExit("ferry check fails without naming a mutant:\n"
                                 + text[-2000:])
            refused |= hit
            chosen = [c for c in chosen if c not in hit]

    def round(self, chosen):
        """(caught, missed, refused) of one round."""
        with tempfile.TemporaryDirectory() as folder:
            chosen, refused = self.check(chosen, folder)
            status, text = run([self.options.ferry, "verify", folder, "--"] +
                               self.options.driver + self.names(chosen),
                               self.options.timeout)
            if status not in (0, 1, 2, 3, None) and not FINDING.search(text):
                print("# driver ended with %s: %s" % (status, text[-300:]))
            caught = functions_at(chosen, FINDING, text)
            return (caught, [c for c in chosen if c not in caught], refused)


def exercised(options):
    """(file, line) of functions that the driver calls, and the findings on the
    unbroken annotations."""
    status, text = run([options.ferry, "verify", options.annotations, "--"] +
                       options.driver, options.timeout)
    names = {(os.path.basename(m.group("file")), int(m.group("line")))
             for m in CALLS.finditer(text) if int(m.group("checked")) >= 3}
    findings = [m.group() for m in FINDING.finditer(text)
                if not m.group("kind").startswith("note-")]
    # Operands of which ferry verify itself says that `out' would do.
    unread = {(os.path.basename(m.group("file")), int(m.group("line")))
              for m in FINDING.finditer(text)
              if m.group("kind") == "note-never-read"}
    if not names:
        raise SystemExit("nothing was verified (status %s):\n%s" %
                         (status, text[-2000:]))
    return names, findings, unread


def is_called(mutant, called):
    return any((os.path.basename(mutant.file), line) in called
               for line in range(mutant.first, mutant.last + 1))


def rounds(mutants, sample):
    """Lists of mutants, at most one of each function in each."""
    queues = [list(rows) for rows in mutants.values()]
    if sample:
        total = sum(len(q) for q in queues)
        step, at = max(1, total // sample), 0
        for i, rows in enumerate(queues):
            queues[i] = [m for k, m in enumerate(rows) if (at + k) % step == 0]
            at += len(rows)
    result = []
    for i in range(max(len(q) for q in queues)):
        result.append([q[i] for q in queues if i < len(q)])
    return [r for r in result if r]


def write_missed(path, missed, counts):
    with open(path, "w", encoding="utf-8") as f:
        f.write("# What `ferry verify` misses\n\n")
        f.write("Wrong annotations made from the shipped ones (one operand "
                "broken at a time) that verification\ndid not notice, with the "
                "drivers of tests/drive. Generated by `make verify-missed`.\n\n")
        f.write("| how it is broken | mutants | refused by `ferry check` | "
                "caught | missed |\n|---|---|---|---|---|\n")
        for kind in sorted(counts):
            n = counts[kind]
            f.write("| %s | %d | %d | %d | %d |\n" % (
                kind, sum(n.values()), n["refused"], n["caught"], n["missed"]))
        f.write("\n")
        for m in sorted(missed, key=lambda m: (m.file, m.line)):
            f.write("- %s:%d `%s`: %s: `%s`, changed to `%s`\n" % (
                os.path.basename(m.file), m.line, m.function, m.kind, m.was,
                " ".join(m.text.split()) or "nothing"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ferry", required=True)
    parser.add_argument("--annotations", required=True)
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--least", type=float, default=95)
    parser.add_argument("--missed")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--names", action="store_true",
                        help="DRIVER takes names of functions to call")
    parser.add_argument("--timeout", type=int, default=600)
    parser.add_argument("driver", nargs="+")
    options = parser.parse_args()

    print("1..2")
    names, findings, unread = exercised(options)
    for line in findings[:20]:
        print("# " + line)
    print("%sok 1 - no finding on the annotations as they are (%d functions)"
          % ("not " if findings else "", len(names)))

    mutants = mutate.all_mutants([options.annotations])
    called = collections.OrderedDict(
        (k, rows) for k, rows in mutants.items() if is_called(rows[0], names))
    equal = 0
    for key, rows in called.items():
        kept = [m for m in rows if not (
            m.kind == "wrong-access" and m.text == "out" and
            (os.path.basename(m.file), m.line) in unread)]
        equal += len(rows) - len(kept)
        called[key] = kept
    tester, counts = Tester(options), collections.defaultdict(
        collections.Counter)
    missed = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for caught, lost, refused in pool.map(
                tester.round, rounds(called, options.sample)):
            for word, group in (("caught", caught), ("missed", lost),
                                ("refused", refused)):
                for m in group:
                    counts[m.kind][word] += 1
            missed += lost
    good = sum(n["caught"] for n in counts.values())
    refused = sum(n["refused"] for n in counts.values())
    total = good + len(missed)
    percent = 100.0 * good / max(1, total)
    if options.missed:
        write_missed(options.missed, missed, counts)
    else:
        for m in missed[:60]:
            print("# missed: %s:%d %s: %s: %s -> %s" % (
                os.path.basename(m.file), m.line, m.function, m.kind, m.was,
                " ".join(m.text.split())))
    print("# %d functions not called by the driver" %
          (len(mutants) - len(called)))
    print("# %d mutants are as right as the original (out for an inout whose "
          "content never matters)" % equal)
    for kind, n in sorted(counts.items()):
        print("# %s: %s" % (kind, dict(n)))
    ok = percent >= options.least and total > 0
    print("%sok 2 - %d of %d mutants caught, %.1f %% (%d more refused by check)"
          % ("" if ok else "not ", good, total, percent, refused))
    return 0 if ok and not findings else 1


if __name__ == "__main__":
    sys.exit(main())
