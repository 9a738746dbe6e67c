#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Every flag of the installed tools against the shipped annotations, both ways.

The truth is the table that a tool hands to getopt or argp (tables.c is preloaded
to print it: also what no manual says), and for tools with parsers of their
own the text of their help. Reported are flags that are not declared, declared ones
that do not exist, other numbers of values, and spellings of one thing that are
not declared as one. A tool that is not installed is skipped, visibly.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import annotated  # noqa: E402

TABLES = os.path.join(annotated.BUILD, "tests/commands/.libs/tables.so")

# Not declared: {command: {spelling or "*": why}}.
UNDECLARED = {
    "unexpand": {"-,": "a cluster such as -2,4 is left to the original"},
    "chmod": {"-" + c: "modes that look like flags are left to the original"
              for c in "rwxXstugoa,+=01234567"},
    "find": dict.fromkeys(
        "-exec -execdir -ok -okdir -fls -fprint -fprint0 -fprintf".split(),
        "it runs commands or writes files: left to the original") | {
            "-fstype": "the mount shows this otherwise",
            "-context": "the mount shows this otherwise"},
    "mogrify": {"*": "options that name files or run programs, and rare ones"},
    "convert": {"*": "options that name files or run programs, and rare ones"},
    "identify": {"*": "only what prints a format is declared"},
    "zstd": {"*": "training, benchmarks, lists of files"},
    "git": {"*": "what asks, runs programs or is rare"},
    "tar": {"--HANG": "for its own tests", "--program-name": "likewise"},
    "mawk": {"-W": "its own options are left to the original"},
}
UNDECLARED["awk"] = {"*": "only what POSIX says is declared for any awk"}
UNDECLARED["unzstd"] = UNDECLARED["zstdcat"] = UNDECLARED["zstd"]
UNDECLARED["zstdmt"] = UNDECLARED["zstd"]

# Declared, though the table does not show it: {command: {spelling: why}}.
UNSEEN = {
    "find": dict.fromkeys(("-version", "-ipath", "-samefile"),
                          "documented in the manual only"),
    "git blame": {"--date": "documented in the manual only"},
    "git grep": {"(": "not with the flags in the help", ")": "likewise"},
}

# Spellings that are one thing to the tool and two to us, or the reverse.
APART = {
    "grep": {"-y": "two letters for one thing", "--no-group-separator": "the value differs, not the option"},
    "cp": {"-R": "two letters for one thing", "--recursive": "likewise",
           "--backup": "-b has no value", "--context": "-Z has no value"},
    "mv": {"--backup": "-b has no value"},
    "csplit": {"-q": "two letters for one thing", "--quiet": "likewise",
               "--silent": "likewise"},
    "rm": {"-R": "two letters for one thing"},
    "pr": {"-F": "two letters for one thing"},
    "sed": {"-E": "two letters for one thing"},
    "strings": {"-V": "two letters for one thing"},
    "ln": {"-F": "two letters for one thing", "--directory": "likewise",
           "--backup": "-b has no value"},
    "mkdir": {"--context": "-Z has no value"},
    "ls": {"--classify": "-F has no value"},
    "uniq": {"--all-repeated": "-D has no value"},
    "tee": {"--output-error": "-p has no value"},
    "split": {"--numeric-suffixes": "-d has no value",
              "--hex-suffixes": "-x has no value"},
    "diff": {"--context": "-C has a value", "--unified": "-U has a value"},
    "od": {"--strings": "-S has a value"},
}
APART["dir"] = APART["ls"]


def from_table(path):
    """{spelling: (values, group)}, or None: it asks nobody."""
    read, write = os.pipe()
    environment = dict(os.environ, LD_PRELOAD=TABLES, FERRY_TABLES=str(write))
    try:
        subprocess.run([path, "x", "y", "z"], env=environment,
                       pass_fds=[write], stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       cwd="/", timeout=annotated.LIMIT, check=False)
    finally:
        os.close(write)
    with os.fdopen(read, encoding="latin-1") as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    return {s: (int(n), group) for s, n, group in rows
            if not s.startswith("---")} or None


def help_of(*argv):
    run = subprocess.run(argv, stdin=subprocess.DEVNULL, cwd="/",
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         timeout=annotated.LIMIT, check=False)
    return run.stdout.decode("latin-1")


def rows(pairs):
    return {spelling: (values, None) for spelling, values in pairs}


def from_find(path):
    """Words that begin with a dash, and whether a capital word follows."""
    text = help_of(path, "-help").split("Other common options")[0]
    text = text.split("default expression is -print.")[-1]
    found = {"-H": 0, "-L": 0, "-P": 0, "(": 0, ")": 0, "!": 0, ",": 0,
             "-D": 1, "-a": 0, "-o": 0}
    for name, value in re.findall(
            r"(?<![\w\[/])(-[a-z][\w-]*)(?: ((?:\[\S+\]|[A-Z])\S*))?",
            text):
        found[name] = 1 if value else 0
    for name in ("-not", "-and", "-or"):
        found[name] = 0
    # Not spelled out in the help: the manual's.
    for name in ("-newermm", "-neweram", "-newercm", "-newermt", "-newerat",
                 "-newerct"):
        found[name] = 1
    found["-regextype"] = 1
    for name in ("-d", "-help", "--help", "--version", "-a", "-o"):
        found[name] = 0
    return rows(found.items())


def from_jq(path):
    """The help lists some; the strings of the program are the others."""
    with open(path, "rb") as file:
        words = file.read()
    text = help_of(path, "-h")
    found = dict.fromkeys(
        re.findall(r"^  (-[A-Za-z])  ", text, flags=re.M), 0)
    found.update({"-h": 0, "-V": 0, "-L": 1, "-f": 0, "-a": 0, "-j": 0})
    values = {"arg": 2, "argjson": 2, "slurpfile": 2, "rawfile": 2,
              "argfile": 2, "indent": 1}
    for name in ("arg argjson slurpfile rawfile argfile indent args jsonargs "
                 "compact-output null-input exit-status slurp raw-output "
                 "raw-input color-output monochrome-output sort-keys tab "
                 "ascii-output join-output unbuffered seq stream "
                 "stream-errors help version from-file run-tests "
                 "debug-dump-disasm debug-trace raw-output0 binary "
                 "build-configuration").split():
        # The end of a longer string is a string too.
        if name.encode() + b"\0" in words:
            found["--" + name] = values.get(name, 0)
    return rows(found.items())


def from_bzip2(path):
    text = help_of(path, "--help")
    found = {"-" + c: 0 for c in "123456789"}
    for line in text.splitlines():
        for name in re.findall(r"(?<!\S)(--?[a-zA-Z]\w*)(?= )", line[:22]):
            found[name] = 0
    # Of old, undocumented, still taken.
    for name in ("--repetitive-fast", "--repetitive-best", "--exponential"):
        found[name] = 0
    return rows(found.items())


def from_zstd(path):
    """Spellings only where the help says clearly how values are given."""
    found = {}
    for line in help_of(path, "-H").splitlines():
        head = re.match(r"  (--?\S.*?)(?:  +|$)", line)
        for part in head.group(1).split(", ") if head else ():
            word, _, value = part.partition(" ")
            names = re.sub(r"^--\[no-\](.*)", r"--\1 --no-\1", word).split()
            for name in names:
                bare = re.match(r"--?[A-Za-z][A-Za-z-]*", name)
                if bare:
                    rest = name[bare.end():]
                    found[bare.group()] = 1 if value else 2 if rest else 0
    # Taken, and not in the help.
    found.update({"--to-stdout": 0, "--uncompress": 0, "--compress": 0,
                  "-C": 0, "-z": 0, "--list": 0, "-t": 0, "-M": 2, "--threads": 2,
                  "--memory": 2, "--content-size": 0,
                  "--no-content-size": 0})
    return rows(found.items())


def from_mawk(path):
    text = help_of(path, "-W", "help")
    found = {name: 1 for name in re.findall(r"^    (-[A-Za-z]) \w", text,
                                            flags=re.M)}
    return rows(found.items())


def from_magick(path):
    found = {}
    for name, value in re.findall(r"^  ([-+][a-z-]+)(?: ([\w<\"].*?))?$|",
                                  re.sub(r"  +\w.*$", "", re.sub(
                                      r"^  ([-+][a-z-]+ \S+)( \S*)?  .*$",
                                      r"  \1", help_of(path, "-help"),
                                      flags=re.M), flags=re.M), flags=re.M):
        if name:
            found.setdefault(name, 1 if value else 0)
    # A plus turns off what a minus turns on, without a value.
    for name in ("+repage", "+matte", "+dither", "+contrast", "+antialias"):
        found[name] = 0
    return rows(found.items())


def from_tar(path):
    """The help; what it hides is in the complaint about no name at all."""
    found = {}
    for line in help_of(path, "--help").splitlines():
        head = re.match(r"  (?:    )?(-\S.*?)(?:  +| (?=[a-z(])|$)", line)
        parts = head.group(1).split(", ") if head else ()
        tail = re.sub(r"^--?[\w?-]+", "", parts[-1]) if parts else ""
        for part in parts:
            name = re.match(r"--?[\w?-]+", part)
            if name:
                found[name.group()] = (
                    2 if tail.startswith("[") else 1 if tail else 0,
                    parts[0])
    for name in re.findall(r"'(--[\w-]+)'", help_of(path, "--=x")):
        found.setdefault(name, (None, name))
    return found


def from_dd(path):
    found = {}
    for line in help_of(path, "--help").splitlines():
        word = re.match(r"  ([a-z]+)=[A-Z]+ ", line)
        if word:
            found[word.group(1) + "="] = 1
        for name in re.findall(r"\(or ([a-z]+)=", line):
            found[name + "="] = 1
    found.update({"--help": 0, "--version": 0})
    return rows(found.items())


def git_from(sub):
    """The help and what its completion is told; revision options are not in
    either, and not looked for."""
    def read(path):
        found = {}
        for line in help_of(path, sub, "-h").splitlines():
            head = re.match(r"    (-\S.*?)(?:  +|$)", line)
            parts = head.group(1).split(", ") if head else ()
            for part in parts:
                name = re.match(r"(--?[\w-]+)(.*)", part)
                if not name:
                    continue
                last = parts[-1]
                tail = re.sub(r"^--?[\w-]+", "", last)
                found[name.group(1)] = 2 if tail.startswith("[") else (
                    1 if tail.strip() else 0)
        with tempfile.TemporaryDirectory() as folder:
            help_of(path, "init", "-q", folder)
            words = help_of(path, "-C", folder, sub,
                            "--git-completion-helper-all").split()
        for word in words:
            if word != "--":
                found.setdefault(word.rstrip("="),
                                 1 if word.endswith("=") else None)
        return rows(found.items())
    return read


def git_probe(path, command, block):
    """What git itself makes of each flag of a block that no list has: revision
    options, and those of git rev-parse, which prints what it does not know."""
    wrong = []
    sub = command.split()[1]
    tail = {"diff-tree": ["HEAD", "HEAD"], "diff-index": ["--cached", "HEAD"]}.get(
        sub, ["HEAD"])
    with tempfile.TemporaryDirectory() as folder:
        def git(*words):
            return subprocess.run(
                [path, "-C", folder, *words], stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                timeout=annotated.LIMIT, env=dict(os.environ, LC_ALL="C"))

        def takes(*words):
            run = git(sub, *words, *tail)
            return run.returncode != 129 and not re.search(
                rb"usage:|unrecognized|unknown (option|switch)|ambiguous arg|"
                rb"requires a value|takes no value|bad (revision '-|flag)",
                run.stderr) and not (sub == "rev-parse" and
                                     words[0].encode() in run.stdout.split())
        git("init", "-q")
        git("-c", "user.name=a", "-c", "user.email=a", "commit", "-q",
            "--allow-empty", "-m", "x")
        for flag, values in ((f, n) for item in block for f, n in item.items()
                             if f != "-NUM"):
            value = VALUES_OF_GIT.get(flag, "1")
            joint = "=" if flag.startswith("--") else ""
            words = {0: [flag], 1: [flag, value],
                     2: [flag + joint + value]}[values]
            if not takes(*words):
                wrong.append("git refuses %s" % " ".join(words))
            if values == 0 and joint and takes(flag + "=1"):
                wrong.append("%s takes a value" % flag)
            bare = git(sub, *tail, flag)
            if values == 1 and bare.returncode < 128:
                wrong.append("%s needs no value" % flag)
            if values == 2 and b" requires " in bare.stderr:
                wrong.append("%s may stand before its value" % flag)
    return wrong


PROBED = {"git " + sub for sub in "log show diff rev-parse rev-list diff-tree "
          "diff-index".split()}
VALUES_OF_GIT = {
    "--default": "HEAD", "--abbrev-ref": "strict", "--stat": "80",
    "--diff-algorithm": "patience", "--color": "never", "--pretty": "%H",
    "--format": "%H", "--date": "iso", "--diff-filter": "A",
    "--word-diff": "plain", "--show-object-format": "storage", "--dirstat": "lines",
    "--ignore-submodules": "all", "--disambiguate": "abcd",
}


OWN_PARSERS = {
    "find": from_find, "jq": from_jq, "bzip2": from_bzip2,
    "bunzip2": from_bzip2, "bzcat": from_bzip2, "zstd": from_zstd,
    "unzstd": from_zstd, "zstdcat": from_zstd, "zstdmt": from_zstd,
    "mawk": from_mawk, "awk": from_mawk, "dd": from_dd, "tar": from_tar,
    "mogrify": from_magick, "convert": from_magick, "identify": from_magick,
    "mogrify-im6.q16": from_magick, "convert-im6.q16": from_magick,
    "identify-im6.q16": from_magick,
}
OWN_PARSERS.update({"git " + sub: git_from(sub) for sub in (
    "status add commit ls-files ls-tree merge-base cat-file symbolic-ref "
    "show-ref for-each-ref describe name-rev branch tag blame grep config"
).split()})


def gawk_table(path):
    """gawk's help: one column of letters, one of words."""
    found = {"-W": (1, "W")}
    for line in help_of(path, "-h").splitlines():
        two = re.match(r"\t(-\w)(\[\S+\]| \S+)?\t+(--[\w-]+)", line)
        if two:
            value = two.group(2) or ""
            n = 2 if value.startswith("[") else 1 if value else 0
            found[two.group(1)] = found[two.group(3)] = (n, two.group(1))
    return found


OWN_PARSERS["gawk"] = gawk_table


def installed(command):
    word = command.split()[0]
    for folder in ("/usr/bin", "/bin"):
        path = os.path.join(folder, word)
        if os.access(path, os.X_OK):
            return path
    return shutil.which(word)


def allowed(table, command, spelling):
    for key in (command, command.split()[0], command.split("-im6")[0]):
        row = table.get(key, {})
        if spelling in row or "*" in row:
            return True
    return False


def compare(command, block, truth):
    """What is wrong with one block, a line each."""
    wrong = []
    declared = {}
    for i, item in enumerate(block):
        for spelling, values in item.items():
            declared[spelling] = (values, i)
    number = declared.pop("-NUM", None)
    for spelling, (values, group) in truth.items():
        if number and re.match(r"-[0-9]$", spelling):
            continue
        if spelling not in declared:
            if not allowed(UNDECLARED, command, spelling):
                wrong.append("%s is not declared" % spelling)
        elif values is not None and declared[spelling][0] != values:
            wrong.append("%s takes %s, declared: %s" % (
                spelling, values, declared[spelling][0]))
    for spelling, (values, item) in declared.items():
        if spelling not in truth:
            if not allowed(UNSEEN, command, spelling):
                wrong.append("%s does not exist" % spelling)
            continue
        group = truth[spelling][1]
        for other, (_, other_item) in declared.items():
            if other <= spelling or group is None or other not in truth:
                continue
            same = truth[other][1] == group
            if same != (other_item == item) and not (
                    allowed(APART, command, spelling) or
                    allowed(APART, command, other)):
                wrong.append("%s and %s are %s" % (
                    spelling, other, "one thing, declared apart" if same
                    else "two things, declared as one"))
    return wrong


def main():
    tap = annotated.Tap()
    for command, blocks in sorted(annotated.flags().items()):
        path = installed(command)
        name = "%s: its flags" % command
        if not path:
            tap.skip(name, command + " is not installed")
            continue
        if command in PROBED:
            wrong = [w for block in blocks
                     for w in git_probe(path, command, block)]
            tap.result(not wrong, name, "\n".join(wrong))
            continue
        with open(path, "rb") as file:
            script = file.read(2) == b"#!"
        if script:
            tap.skip(name, path + " is a script here")
            continue
        reader = OWN_PARSERS.get(command)
        if command == "awk" and "gawk" in os.path.realpath(path):
            reader = gawk_table
        truth = reader(path) if reader else from_table(path)
        if not truth:
            tap.result(False, name, "no table and no help")
            continue
        wrong = []
        for block in blocks:
            wrong += [w for w in compare(command, block, truth)
                      if w not in wrong]
        tap.result(not wrong, name, "\n".join(wrong))
    return tap.finish()


if __name__ == "__main__":
    sys.exit(main())
