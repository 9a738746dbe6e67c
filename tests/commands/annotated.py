# SPDX-License-Identifier: Apache-2.0
"""What the shipped command annotations say: their flags as `ferry check
--dump' lists them, and what they make of a command line (tests/commands/parse).
For the tests of this folder."""
import glob
import os
import re
import subprocess
import sys
import urllib.parse

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from patience import patient  # noqa: E402

SOURCE = os.environ.get("FERRY_SRCDIR") or os.path.dirname(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("FERRY_BUILDDIR") or os.path.join(SOURCE, "_build")
FILES = sorted(glob.glob(
    os.path.join(SOURCE, "annotations/lib/commands/*.ferry")))
LIMIT = patient(60)  # seconds that one command may take

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|\S+')


class Tap:
    """Results as TAP; the exit status is that of `make check'."""

    def __init__(self):
        self.count = self.failed = self.skipped = 0

    def result(self, good, name, text=""):
        self.count += 1
        self.failed += not good
        if not good:
            for line in text.splitlines():
                print("# " + line)
        print("%sok %d - %s" % ("" if good else "not ", self.count, name),
              flush=True)

    def skip(self, name, why):
        self.count += 1
        self.skipped += 1
        print("ok %d - %s # SKIP %s" % (self.count, name, why), flush=True)

    def finish(self):
        print("1..%d" % self.count)
        print("# %d passed, %d failed, %d skipped" % (
            self.count - self.failed - self.skipped, self.failed,
            self.skipped))
        return 1 if self.failed else 0


def read_item(words):
    """'-F --file[=X] NAME in' -> {spelling: values}; 2: optional."""
    spellings, values = {}, 0
    for word in words:
        bracket = re.match(r'("?)([-+(!,)].*?)\1\[=?[A-Z]\w*\]$', word)
        bare = word.strip('"')
        if bracket:
            spellings[bracket.group(2)] = 2
        elif re.match(r"[A-Z][A-Z0-9_]*$", word):
            values += 1
        elif re.match(r"[-+(!,)]|[a-z]+=$", bare) and not values:
            spellings[bare] = None
        else:
            break
    return {s: values if n is None else n for s, n in spellings.items()}


def flags():
    """{command: [[{spelling: values}, ...] per block]}, commons included."""
    text = subprocess.run(
        [os.path.join(BUILD, "ferry"), "check", "--dump"] + FILES,
        stdout=subprocess.PIPE, check=True, text=True).stdout
    commands, block = {}, None
    for line in text.splitlines():
        if line.startswith("command "):
            block = []
            name = line[len("command "):].split("  #")[0].strip()
            commands.setdefault(name, []).append(block)
            continue
        words = TOKEN.findall(line)
        common = words[:1] == ["common"]
        if common:
            words = words[1:]
        if words[:1] in (["flag"], ["option"]) and not common:
            block.append(read_item(words[1:]))
        elif words[:1] == ["number"] and not common:
            block.append({"-NUM": 0})
    return commands


class Invocation:
    """One answer of tests/commands/parse."""

    def __init__(self, text):
        self.text = text
        self.lines = text.splitlines()
        self.declined = self.lines[0].split(" ", 1)[0] in (
            "never", "declined", "unknown")
        self.uses = []
        for line in self.lines:
            if line.startswith("use "):
                _, access, kind, path = (line + " ").split(" ", 3)
                self.uses.append((access, kind, urllib.parse.unquote(
                    path.rstrip(" "), errors="surrogateescape")))

    def says(self, word):
        return word in self.lines

    def named(self, word):
        """The paths of a statement that takes some."""
        return [urllib.parse.unquote(line[len(word) + 1:])
                for line in self.lines if line.startswith(word + " ")]

    def configs(self):
        return [urllib.parse.unquote(line[6:]) for line in self.lines
                if line.startswith("reads ")]


def parse(command_lines, environment=(), asked=None):
    """Invocations of lists of arguments, in order; `asked': for each the names
    of variables that are looked for among those that the command gets."""
    data = b""
    for i, line in enumerate(command_lines):
        for word in line:
            data += os.fsencode(word) + b"\0"
        for variable in environment:
            data += b"\x1d" + os.fsencode(variable) + b"\0"
        for variable in asked[i] if asked else ():
            data += b"\x1c" + os.fsencode(variable) + b"\0"
        data += b"\x1e\0"
    out = subprocess.run(
        [os.path.join(BUILD, "tests/commands/parse")] + FILES, input=data,
        stdout=subprocess.PIPE, check=True).stdout.decode("latin-1")
    return [Invocation(text) for text in out.split("\n\n")[:-1]]
