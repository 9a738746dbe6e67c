#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Guards the words of comments and of commit subjects. Prints TAP.

usage: tests/style/words.py [--write]

Counts in each C file of the product the comments that begin with a noun clause (What,
Whether, Where, ...) and the words "what", "its" and "one", which hide their subject.
tests/style/WORDS.today lists the counts of today, FILE OPENINGS WORDS, which may only
shrink; --write writes it anew. A file that is not listed may have no such opening, and 20
such words in 1,000. Subjects of commits since the one named in the first line of the list
are "area: Imperative summary"."""
import collections
import os
import re
import subprocess
import sys

SOURCE = os.environ.get("FERRY_SRCDIR") or os.path.join(os.path.dirname(__file__), "../..")
PRODUCT = ("common", "annotations", "pager", "proxy", "shim", "tools")
LIST = os.path.join(SOURCE, "tests/style/WORDS.today")
COMMENT = re.compile(r"/\*(.*?)\*/", re.S)
OPENING = re.compile(r"(What|Whether|Where|Who|How|Of|The same|Likewise|Once|Not)\b")
HIDING = ("what", "its", "one")
MOST_IN_1000 = 20
SUBJECT = re.compile(r"[\w.*{}/+-]+(, [\w.*{}/+-]+)*: ([A-Z]\w*)")
NO_VERB = {"A", "All", "An", "Each", "How", "In", "It", "Its", "No", "Of", "On", "One", "Only", "Some",
           "The", "What", "When", "Where", "Who"}

Counts = collections.namedtuple("Counts", "openings hiding words")


def counts_of(path):
    """Counts of one file's comments."""
    openings = hiding = total = 0
    with open(path, encoding="utf-8") as file:
        for comment in COMMENT.findall(file.read()):
            text = re.sub(r"[\s*]+", " ", comment).strip()
            words = re.findall(r"[a-z']+", text.lower())
            openings += bool(OPENING.match(text))
            hiding += sum(word in HIDING for word in words)
            total += len(words)
    return Counts(openings, hiding, total)


def sources():
    """Names of the product's C files, below the sources."""
    for room in PRODUCT:
        for folder, _, names in os.walk(os.path.join(SOURCE, room)):
            for name in sorted(names):
                if name.endswith((".c", ".h")) and ".tab." not in name and ".lex." not in name:
                    yield os.path.relpath(os.path.join(folder, name), SOURCE)


def listed():
    """The commit and the allowed counts in the list."""
    with open(LIST, encoding="utf-8") as file:
        first, *lines = file.read().splitlines()
    rows = (line.rsplit(" ", 2) for line in lines)
    return first.split()[-1], {name: (int(a), int(b)) for name, a, b in rows}


def subjects(since):
    """Subjects of commits since then that are none; empty without a repository."""
    done = subprocess.run(["git", "-C", SOURCE, "log", "--no-merges", "--format=%s", since + ".."],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    for subject in done.stdout.splitlines() if done.returncode == 0 else []:
        match = SUBJECT.match(subject)
        if not match or match[2] in NO_VERB:
            yield subject


def write(found):
    """Writes the list of today, with the commit that it had."""
    since = listed()[0] if os.path.exists(LIST) else "HEAD"
    with open(LIST, "w", encoding="utf-8") as file:
        print("# FILE OPENINGS WORDS; subjects of commits count since", since, file=file)
        for name, counts in sorted(found.items()):
            if counts.openings or counts.hiding:
                print(name, counts.openings, counts.hiding, file=file)


def main():
    """Judges, or writes the list."""
    found = {name: counts_of(os.path.join(SOURCE, name)) for name in sources()}
    if sys.argv[1:] == ["--write"]:
        write(found)
        return 0
    since, allowed = listed()
    worse = []
    for name, counts in sorted(found.items()):
        most = allowed.get(name, (0, counts.words * MOST_IN_1000 / 1000))
        if counts.openings > most[0] or counts.hiding > most[1]:
            worse.append("%s: %d openings and %d words, %d and %d allowed" % (
                name, counts.openings, counts.hiding, *most))
    results = {"no comments with more noun clauses or hidden subjects": worse,
               "no files in WORDS.today that are gone": sorted(set(allowed) - set(found)),
               "commit subjects: area: Imperative summary": list(subjects(since))}
    for number, (name, lines) in enumerate(results.items(), 1):
        for line in lines:
            print("#", line)
        print("%sok %d - %s" % ("not " if lines else "", number, name))
    print("1..%d" % len(results))
    return int(any(results.values()))


if __name__ == "__main__":
    sys.exit(main())
