#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Whether the rooms keep their order: prints TAP.

usage: tests/style/layers.py [--write | --show]

tests/style/LAYERS says which rooms a room may use. Judged are includes, calls (by nm of
the objects in FERRY_BUILDDIR), knots (files that call each other in a circle, of more than
4), folders of more than 40 files, names
of commands in strings of proxy/, CUDA's names outside its room, variables of file scope in the pager, and functions without a contract: those
that another room calls and that have no comment in their header, before them, behind them
or before their group ("Each ...", "Both ...", "These ..."). What breaks a rule today stands in tests/style/LAYERS.today. That list may only shrink: a finding that is not
in it fails, and so does a line of it that is found no longer. --write writes the list
anew, --show prints what is found."""
import collections
import functools
import glob
import os
import re
import subprocess
import sys

SOURCE = os.environ.get("FERRY_SRCDIR") or os.path.join(os.path.dirname(__file__), "../..")
BUILD = os.environ.get("FERRY_BUILDDIR") or os.path.join(SOURCE, "_build")
PRODUCT = ("common", "annotations", "pager", "proxy", "shim", "tools")
MOST_FILES, MOST_KNOT = 40, 4
INCLUDE = re.compile(r'^\s*#\s*include\s+"((?:%s)/[\w/.-]+)"' % "|".join(PRODUCT), re.M)
COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*', re.S)
STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
# The device's name in settings, annotations and messages is the language's word.
CUDA = re.compile(r"\b(?:cu[A-Z]\w+|cuda[A-Z]\w+|cublas\w*|cufft\w*|cusolver\w*|nvrtc\w*)\b")

DECLARED = re.compile(r"^(?!static|typedef)(?=[a-zA-Z])[^;{}#/]*?\b(fy_\w+)\([^;{}]*;([ \t]*/\*)?", re.M)
GROUP = re.compile(r"/\*[\s*]*(?:Each|Both|These)\b")


@functools.cache
def text_of(path):
    with open(os.path.join(SOURCE, path), encoding="utf-8") as file:
        return file.read()


def sources():
    """The product's sources, without what bison and flex make."""
    found = []
    for folder in PRODUCT:
        for base, _, names in os.walk(os.path.join(SOURCE, folder)):
            found += [os.path.relpath(os.path.join(base, name), SOURCE) for name in names
                      if re.search(r"\.[chlyS]$", name)
                      and not re.search(r"\.(tab|lex)\.[ch]$", name)]
    return sorted(found)


class Rooms:
    """LAYERS: the rooms and what each may use."""

    def __init__(self):
        self.direct = {}
        for line in text_of("tests/style/LAYERS").splitlines():
            words = line.split("#")[0].split()
            if words:
                self.direct[words[0]] = [word for word in words[1:] if word != "-"]

    def of(self, path):
        """The room of a file: the longest row that is a folder above it."""
        folder = os.path.dirname(path)
        while folder and folder not in self.direct:
            folder = os.path.dirname(folder)
        return folder

    def may_use(self, path, other):
        """Whether a file may use another one."""
        targets = {self.of(other), re.sub(r"\.[chlyS]$", "", other)}
        seen, left = set(), [self.of(path)]
        while left:
            name = left.pop()
            if name in targets:
                return True
            if name not in seen:
                seen.add(name)
                left += self.direct.get(name, ())
        return False


def includes(rooms, paths):
    for path in paths:
        for name in INCLUDE.findall(text_of(path)):
            if not rooms.may_use(path, name):
                yield f"include {path} {name}", 1


@functools.cache
def object_files():
    """{source without its ending: object file} of the product."""
    found = {}
    for folder in PRODUCT:
        for path in glob.glob(os.path.join(BUILD, folder, "**/*.o"), recursive=True) + \
                glob.glob(os.path.join(BUILD, folder, "**/.libs/*.o"), recursive=True):
            name = re.sub(r"^(?:\w+_la|ferry_stub|ferry)-", "", os.path.basename(path)[:-2])
            base = os.path.relpath(os.path.dirname(path), BUILD)
            stem = os.path.join(re.sub(r"/\.libs$", "", base), re.sub(r"\.(tab|lex)$", "", name))
            if glob.glob(os.path.join(SOURCE, stem) + ".[cSyl]"):
                found.setdefault(stem, path)
    return found


def symbols(*options):
    """{source without its ending: what nm says of its object file}, by one nm for all."""
    stems = {path: stem for stem, path in sorted(object_files().items())}
    said = subprocess.run(["nm", *options, *stems], stdout=subprocess.PIPE, check=True,
                          text=True).stdout
    parts = re.split(r"^(?:Symbols from )?(\S+\.o):$", said, flags=re.M)
    return {stems[path]: text for path, text in zip(parts[1::2], parts[2::2])}


def objects():
    """Of each object file of the product: its source without the ending, the fy_ names
    that it defines, those of them that are functions, and those that it needs."""
    for stem, said in symbols().items():
        yield (stem, set(re.findall(r"^[0-9a-f]+ [A-TV-Z] (fy_\w+)$", said, re.M)),
               set(re.findall(r"^[0-9a-f]+ [TWi] (fy_\w+)$", said, re.M)),
               set(re.findall(r"^ +[Uw] (fy_\w+)$", said, re.M)))


def calls_between(known, functions=False):
    """{source: {source that it calls: a name}}; a name that two sources define is the
    nearer one's. With `functions', variables count for nothing."""
    owners = collections.defaultdict(list)
    for stem, defined, called, _ in known:
        for name in called if functions else defined:
            owners[name].append(stem)
    edges = {stem: {} for stem, *_ in known}
    for stem, _, _, needed in known:
        for name in sorted(needed):
            near = sorted(owners[name], key=lambda other: -len(os.path.commonprefix([stem, other])))
            if near and near[0] != stem:
                edges[stem].setdefault(near[0], name)
    return edges


def calls(rooms, edges):
    for stem, others in edges.items():
        for other, name in others.items():
            if not rooms.may_use(stem, other):
                yield f"call {stem} {other} {name}", 1


def knots(edges):
    """Tarjan's strongly connected components of more than MOST_KNOT files."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in edges[node]:
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            at = stack.index(node)
            found.append(sorted(stack[at:]))
            del stack[at:]

    for node in edges:
        if node not in index:
            visit(node)
    for knot in found:
        if len(knot) > MOST_KNOT:
            for stem in knot:
                yield f"knot {stem}", len(knot)


def folders(paths):
    count = collections.Counter(os.path.dirname(path) for path in paths)
    for folder, number in count.items():
        if number > MOST_FILES:
            yield f"folder {folder}", number


def command_names(paths):
    names = set()
    for path in glob.glob(os.path.join(SOURCE, "annotations/lib/commands/*.ferry")):
        with open(path, encoding="utf-8") as file:
            for row in re.findall(r"^command\s+([^{\n]+)", file.read(), re.M):
                names |= set(re.findall(r"[\w.+\[-]+", row))
    for path in paths:
        if path.startswith("proxy/"):
            count = collections.Counter(
                word[1:-1] for word in STRING.findall(COMMENT.sub("", text_of(path)))
                if word[1:-1] in names)
            for name, number in count.items():
                yield f"command {path} {name}", number


def vendor_names(rooms, paths):
    for path in paths:
        if rooms.of(path) != "pager/device/cuda":
            number = len(CUDA.findall(COMMENT.sub("", text_of(path))))
            if number:
                yield f"cuda {path}", number


def variables():
    """How many variables the objects of each room of the pager keep, those of functions too."""
    count = collections.Counter()
    for stem, said in symbols("-S", "-f", "sysv").items():
        if not stem.startswith("pager/"):
            continue
        for name, _, _, kind, _, _, section in re.findall(
                r"^(\S+) *" + r"\|([^|\n]*)" * 6 + "$", said, re.M):
            if kind.strip() == "OBJECT" and re.match(r"[a-z]\w*(\.\d+)?$", name) and \
                    re.match(r"\.t?(bss|data)\b(?!\.rel\.ro)", section):
                count[os.path.dirname(stem)] += 1
    yield from ((f"variables {room}", number) for room, number in count.items())


def contracts(rooms, paths, known):
    """How many functions of a header another room calls that no comment tells about."""
    owners, called = collections.defaultdict(set), set()
    for stem, _, functions, _ in known:
        for name in functions:
            owners[name].add(rooms.of(stem))
    for stem, _, _, needed in known:
        called |= {name for name in needed if name in owners and rooms.of(stem) not in owners[name]}
    for path in paths:
        number = 0
        for block in re.split(r"\n\s*\n(?! \*)", text_of(path)) if path.endswith(".h") else ():
            for match in DECLARED.finditer(block):
                before = block[:match.start()]
                last = re.split(r"^(?=/\*)", before, flags=re.M)[-1]
                own = match[2] or re.fullmatch(r"/\*((?!\*/).)*\*/\s*", last, re.S)
                number += match[1] in called and not own and not GROUP.match(last)
        if number:
            yield f"contract {path}", number


RULES = (
    ("include", "includes go down"),
    ("call", "calls go down"),
    ("knot", "no more than 4 files call each other in a circle"),
    ("folder", "no folder has more than 40 files"),
    ("command", "proxy/ names no command"),
    ("cuda", "CUDA is named in its room only"),
    ("variables", "the pager's rooms keep nothing in variables of file scope"),
    ("contract", "headers tell about each function that another room calls"),
)


def main():
    rooms, paths = Rooms(), sources()
    known = list(objects())
    edges = calls_between(known)
    found = {}
    for findings in (includes(rooms, paths), calls(rooms, edges), knots(calls_between(known, True)), folders(paths),
                     command_names(paths), vendor_names(rooms, paths), variables(),
                     contracts(rooms, paths, known)):
        found.update(findings)
    lines = [f"{what} {number}" for what, number in sorted(found.items())]
    if sys.argv[1:] == ["--show"]:
        print("\n".join(lines))
        return 0
    listed = os.path.join(SOURCE, "tests/style/LAYERS.today")
    if sys.argv[1:] == ["--write"]:
        with open(listed, "w", encoding="utf-8") as file:
            file.write("# SPDX-License-Identifier: Apache-2.0\n"
                       "# What breaks a rule of tests/style/layers.py, and how often. "
                       "The list may only shrink.\n" + "\n".join(lines) + "\n")
        return 0
    today = {}
    for line in text_of("tests/style/LAYERS.today").splitlines():
        if line and not line.startswith("#"):
            what, number = line.rsplit(" ", 1)
            today[what] = int(number)
    failed = 0
    print(f"1..{len(RULES) + 2}")
    for number, (kind, name) in enumerate(RULES, 1):
        new = [f"{what} {count}, not {today.get(what, 0)}" for what, count in sorted(found.items())
               if what.split()[0] == kind and count > today.get(what, 0)]
        for what in new:
            print("#", what)
        failed += bool(new)
        print(f"{'not ok' if new else 'ok'} {number} - {name}, but for today's list")
    gone = [f"{what}: {count} in LAYERS.today, {found.get(what, 0)} found"
            for what, count in sorted(today.items()) if found.get(what, 0) < count]
    for what in gone:
        print("#", what)
    print(f"{'not ok' if gone else 'ok'} {len(RULES) + 1} - today's list has nothing that is mended")
    homeless = [path for path in paths if not rooms.of(path)]
    named = [*rooms.direct, *(name for row in rooms.direct.values() for name in row)]
    homeless += [name for name in named if not glob.glob(os.path.join(SOURCE, name) + "*")]
    for what in homeless:
        print("#", what)
    print(f"{'not ok' if homeless else 'ok'} {len(RULES) + 2} - every file has a room, every room files")
    return 1 if failed or gone or homeless else 0


if __name__ == "__main__":
    sys.exit(main())
