#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# Names in the sources: every fy_ name and every source file that a comment or a
# document speaks of exists, and every function that a header declares is used
# by another file than the one that defines it (else it is dead, or static).
# Reads text; prints TAP.
import os
import re
import sys

SOURCE = os.environ.get("FERRY_SRCDIR") or os.path.join(os.path.dirname(__file__), "../..")
FOLDERS = ("common", "annotations", "pager", "proxy", "shim", "tools", "tests", "bench", "demo")
CODE = (".c", ".h", ".S", ".y", ".l", ".cc")
DOCUMENTS = (".md", ".py", ".sh", ".mk", ".test")
MADE = re.compile(r"\.(tab\.[ch]|lex\.c)$")  # by bison and flex
COMMENT = re.compile(r"/\*.*?\*/", re.S)
# A file of ours: its folder first, or a bare name that only this tree can mean.
FILE = re.compile(r"\b(?:%s)/[\w/.-]*\.(?:c|h|y|l|S|py|sh|mk)\b" % "|".join(FOLDERS))


def read_all():
    texts = {}
    for folder in FOLDERS:
        for base, _, names in os.walk(os.path.join(SOURCE, folder)):
            for name in names:
                if name.endswith(CODE + DOCUMENTS) and not MADE.search(name):
                    path = os.path.join(base, name)
                    with open(path, encoding="utf-8", errors="replace") as file:
                        texts[os.path.relpath(path, SOURCE)] = file.read()
    for name in ("docs/ARCHITECTURE.md",):
        with open(os.path.join(SOURCE, name), encoding="utf-8") as file:
            texts[name] = file.read()
    return texts


def at(text, position):
    return text.count("\n", 0, position) + 1


def unknown_names(texts, bare):
    known = set()
    for code in bare.values():
        known |= set(re.findall(r"\bfy_\w+", code))
    for path, text in texts.items():
        for match in re.finditer(r"\bfy_\w+\b(?!\*)", text):
            if match.group() not in known:
                yield f"{path}:{at(text, match.start())}: no {match.group()}"


def unknown_files(texts):
    made = set()  # by make
    for path, text in texts.items():
        if path.endswith(".mk"):
            for targets in re.findall(r"^([\w/. ]+):", text.replace("\\\n", " "), re.M):
                made |= set(targets.split())
    for path, text in texts.items():
        if path.endswith(".mk"):
            continue  # make sees to it
        spans = ([m.span() for m in COMMENT.finditer(text)]
                 if path.endswith(CODE) else [(0, len(text))])
        for begin, end in spans:
            for match in FILE.finditer(text, begin, end):
                name = match.group()
                if MADE.search(name) or name in made or os.path.exists(os.path.join(SOURCE, name)):
                    continue
                yield f"{path}:{at(text, match.start())}: no file {name}"


def unused_functions(bare):
    users = {}
    for path, code in bare.items():
        for name in set(re.findall(r"\bfy_\w+", code)):
            users.setdefault(name, set()).add(path)
    made = tuple(name for name in users if name.endswith("_"))  # by macros
    for path, code in bare.items():
        if not path.endswith(".h"):
            continue
        # Not what the header itself uses, in a macro or an inline function.
        for name in set(re.findall(r"^(?!typedef)(?:\w[\w *]*?[ *])(fy_\w+)\(", code, re.M)):
            if (len(re.findall(r"\b%s\b" % name, code)) == 1 and len(users[name]) <= 2
                    and not name.startswith(made)):
                yield f"{path}: {name}() is of no use to others"


def main():
    texts = read_all()
    bare = {path: COMMENT.sub("", text) for path, text in texts.items() if path.endswith(CODE)}
    failed = 0
    checks = (
        ("every fy_ name that is spoken of exists", unknown_names(texts, bare)),
        ("every source file that is spoken of exists", unknown_files(texts)),
        ("every function of a header is used elsewhere", unused_functions(bare)),
    )
    for number, (name, found) in enumerate(checks, 1):
        findings = sorted(found)
        for finding in findings:
            print("#", finding)
        failed += bool(findings)
        print(f"{'not ok' if findings else 'ok'} {number} - {name}")
    print(f"1..{len(checks)}")
    return 1 if failed else 0


sys.exit(main())
