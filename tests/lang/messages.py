#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every text of a diagnostic in annotations/ occurs in a test, word for word."""
import glob
import os
import re
import sys

SOURCE = os.environ.get("FERRY_SRCDIR", ".")
CALLS = re.compile(r"(?:fy_error|fy_warning|fy_diagnostics_add|"
                   r"fy_diagnostic_hint|too_long|type_error|cannot_read)\s*\(")
LITERALS = re.compile(r'((?:"(?:[^"\\]|\\.)*"\s*)+)')
FORMATS = re.compile(r"%(?:\\\.\\\*s|\\\.[0-9]+s|s|d|u|lld|zu|c|02x)")
SHORTEST = 6  # shorter literals are names and punctuation


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def arguments(text, begin):
    """The text from `begin' to the bracket that closes the call."""
    depth, quoted, i = 1, False, begin
    while depth and i < len(text):
        if quoted:
            if text[i] == "\\":
                i += 1
            elif text[i] == '"':
                quoted = False
        elif text[i] == '"':
            quoted = True
        elif text[i] in "()":
            depth += 1 if text[i] == "(" else -1
        i += 1
    return text[begin:i - 1]


def messages(text):
    for call in CALLS.finditer(text):
        for literal in LITERALS.findall(arguments(text, call.end())):
            parts = re.findall(r'"((?:[^"\\]|\\.)*)"', literal)
            message = "".join(parts).replace('\\"', '"')
            if len(message) >= SHORTEST:
                yield message


def main():
    tests = glob.glob(os.path.join(SOURCE, "tests/lang/*.test"))
    tests += glob.glob(os.path.join(SOURCE, "tests/unit/test_com*.c"))
    # C joins literals that stand side by side.
    seen = re.sub(r'"\s*"', "", "\n".join(read(path) for path in tests))
    failed = total = 0
    for path in sorted(glob.glob(os.path.join(SOURCE, "annotations/*/*.[cly]"))):
        found = sorted(set(messages(read(path))))
        missing = [m for m in found if not re.search(
            FORMATS.sub(".*", re.escape(m)).replace("%%", "%"), seen)]
        if not found:
            continue
        total += 1
        failed += bool(missing)
        for message in missing:
            print(f"# no test has: {message}")
        print(f"{'not ok' if missing else 'ok'} {total} - "
              f"{os.path.basename(path)}: {len(found)} texts are in tests")
    print(f"1..{total}")
    return 1 if failed or not total else 0


sys.exit(main())
