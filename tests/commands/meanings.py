#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What the shipped annotations make of command lines: meanings.test.

A case is two lines: a command line as a shell would write it (NAME=VALUE in
front sets a variable of its environment; $'...' as in bash), and its
meaning: `uses; facts; output', or `never: why' or `declined'. Files and
folders that are read by name from elsewhere (reads, absent) are not shown.
With --print it prints the file anew with the meanings of now, for a reader to
check before it replaces the old one.
"""
import os
import re
import shlex
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import annotated  # noqa: E402

CASES = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                     "meanings.test")
FACTS = ("stdin", "pure", "effect", "reads-cwd", "cwd-tree", "cwd-follows",
         "writes-cwd", "targets", "owners", "attributes", "terminal", "status-found",
         "lists", "fed", "shows-modes", "removes-folders", "replaces-operands",
         "takes-descriptors", "makes-folders", "changes-modes", "makes-files",
         "excuses-pipes", "outlives-pipes", "ignores-interrupts")


def meaning(call):
    """One line for people."""
    if call.declined:
        word, _, why = call.lines[0].partition(" ")
        return "never: " + why.partition(": ")[2] if word == "never" else word
    uses = []
    for access, kind, path in call.uses:
        words = [access] + [w for w in kind.split("+") if w != "file"]
        uses.append(" ".join(words + [path]))
    facts = [f for f in FACTS if call.says(f)]
    output = "?"
    for line in call.lines:
        if line.startswith("split "):
            facts.append(line[6:].replace(" ", "/"))
        if line.startswith("stdout "):
            output = line[7:]
    return "; ".join([", ".join(uses) or "nothing", " ".join(facts), output])


def words_of(text):
    """Arguments of a shell's words; $'...' holds newlines and tabs."""
    text = re.sub(r"\$'((?:[^'\\]|\\.)*)'", lambda m: shlex.quote(
        m.group(1).replace("\\n", "\n").replace("\\t", "\t")), text)
    return shlex.split(text)


def read_cases():
    """[(comments before it, command line, meaning)]"""
    cases, before, command = [], [], None
    with open(CASES, encoding="utf-8") as file:
        for line in file:
            line = line.rstrip("\n")
            if not line or line.startswith("#"):
                if command:
                    cases.append((before, command, "missing"))
                    before, command = [], None
                before.append(line)
            elif line.startswith("    "):
                cases.append((before, command, line.strip()))
                before, command = [], None
            else:
                if command:
                    cases.append((before, command, "missing"))
                    before = []
                command = line
    if command:
        cases.append((before, command, "missing"))
    return cases


def ask(cases):
    calls = []
    for _, command, _ in cases:
        words = words_of(command)
        variables = []
        while re.match(r"[A-Z_0-9]+=", words[0]):
            variables.append(words.pop(0))
        calls.append((words, variables))
    # One run for all that have no variables of their own.
    plain = [w for w, v in calls if not v]
    answers = iter(annotated.parse(plain))
    return [annotated.parse([w], v)[0] if v else next(answers)
            for w, v in calls]


def main():
    cases = read_cases()
    answers = [meaning(call) for call in ask(cases)]
    if sys.argv[1:] == ["--print"]:
        for (before, command, _), answer in zip(cases, answers):
            print("\n".join(before + [command, "    " + answer]))
        return 0
    tap = annotated.Tap()
    for (_, command, wanted), answer in zip(cases, answers):
        tap.result(answer == wanted, command,
                   "got:    %s\nwanted: %s" % (answer, wanted))
    return tap.finish()


if __name__ == "__main__":
    sys.exit(main())
