#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Wrong annotations, made from right ones.

Every operand of every function of some annotation files is broken in each way
that applies: a wrong stride, swapped axes, a wrong access mode, no operand at
all, a wrong extent; and sums without what they are `with'. Or every `map': a wrong sign, operator, function, number or
operand, operands swapped. Mutants are handed out in rounds: a round breaks one thing
in every function at once, since functions are verified independently. Line
numbers never change, so that a finding can be told by its line.

As a script: mutate.py FOLDER... lists the mutants.
"""
import collections
import os
import re
import sys

Mutant = collections.namedtuple(
    "Mutant", "file function first last line kind start end text was")

FUNCTION = re.compile(r"^function\b[^{;]*\{", re.M | re.S)
OPERAND = re.compile(
    r"^(?P<lead>[ \t]*)(?P<mode>inout|in|out|scratch)(?P<gap>[ \t]+)"
    r"(?P<base>[A-Za-z_][\w.>-]*?)\[", re.M)


def blank_comments(text):
    """The same text with comments and strings' brackets harmless."""
    text = re.sub(r"#[^\n]*", lambda m: " " * len(m.group()), text)
    return re.sub(r'"[^"\n]*"', lambda m: '"' + "s" * (len(m.group()) - 2) + '"',
                  text)


def matching(text, at, pair):
    """Where the bracket that opens at `at' closes."""
    depth = 0
    for i in range(at, len(text)):
        if text[i] == pair[0]:
            depth += 1
        elif text[i] == pair[1]:
            depth -= 1
            if depth == 0:
                return i
    raise ValueError("unbalanced %s" % pair)


def split_axes(text, start, end):
    """[(axis start, axis end, stride start, stride end)] of a bracket."""
    entries, depth, ternary, begin, colon = [], 0, 0, start, None
    for i in range(start, end + 1):
        c = text[i] if i < end else ","
        if c in "([":
            depth += 1
        elif c in ")]":
            depth -= 1
        elif depth == 0 and c == "?":
            ternary += 1
        elif depth == 0 and c == ":":
            if ternary > 0:
                ternary -= 1
            elif colon is None:
                colon = i
        elif depth == 0 and c == "," and ternary == 0:
            at = colon if colon is not None else i
            entries.append((begin, at, at + 1 if colon is not None else i, i))
            begin, colon = i + 1, None
    return entries


def trimmed(text, start, end):
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end


def axis_extents(body):
    """Axis name -> (extent text, split)."""
    axes = {}
    for m in re.finditer(r"\baxis\s+([^;]*);", body):
        rows = m.group(1)
        split = bool(re.search(r"\bsplit\b", rows))
        for part in re.split(r",(?![^()]*\))", rows):
            part = re.sub(r"\b(split|sums|multiple|combines)\b.*", "", part,
                          flags=re.S)
            name, _, extent = part.partition("=")
            axes[name.strip()] = ((extent or name).strip(), split)
    return axes


def operand_mutants(path, text, plain, function, first, last, body_span, m):
    """Every mutant of the operand that m matches."""
    body = plain[body_span[0]:body_span[1]]
    axes = axis_extents(body)
    open_at = m.end() - 1
    close_at = matching(plain, open_at, "[]")
    stop = plain.index(";", close_at)
    entries = split_axes(plain, open_at + 1, close_at)
    line = text.count("\n", 0, m.start("mode")) + 1
    mode, base = m.group("mode"), m.group("base")
    rest = plain[close_at:stop]

    def mutant(kind, start, end, new):
        was = text[start:end]
        new += "\n" * (was.count("\n") - new.count("\n"))
        return Mutant(path, function, first, last, line, kind, start, end, new,
                      " ".join(text[m.start("mode"):stop + 1].split()))

    for begin, axis_end, stride, end in entries:
        a0, a1 = trimmed(text, begin, axis_end)
        s0, s1 = trimmed(text, stride, end)
        axis, step = text[a0:a1], text[s0:s1]
        # An extent of 1 makes every stride right.
        if step and axis != "1":
            inner = step[4:] if step.startswith("inc ") else step
            inc = "inc " if step.startswith("inc ") else ""
            yield mutant("wrong-stride", s0, s1, "%s(%s) + 1" % (inc, inner))
            if step != "1":
                yield mutant("wrong-stride", s0, s1, "1")
        atom = axis if re.fullmatch(r"\w+", axis) else "(%s)" % axis
        yield mutant("wrong-extent", a0, a1, "%s + 1" % atom)
        yield mutant("wrong-extent", a0, a1, "%s - 1" % atom)
    if len(entries) == 2:
        spans = [trimmed(text, e[0], e[1]) for e in entries]
        names = [text[a:b] for a, b in spans]
        extents = [axes.get(n, (n, False)) for n in names]
        # The same set of elements (triangles go by position, not by name), and
        # never cut: nothing is wrong.
        same = (extents[0][0] == extents[1][0] and
                not re.search(r"\bwhere\b", rest) and
                not extents[0][1] and not extents[1][1])
        if names[0] != names[1] and not same:
            whole = names[1] + text[spans[0][1]:spans[1][0]] + names[0]
            yield mutant("swapped-axes", spans[0][0], spans[1][1], whole)
    for wrong in {"in": ["out"], "inout": ["in", "out"], "out": ["in"],
                  "scratch": []}[mode]:
        yield mutant("wrong-access", m.start("mode"), m.end("mode"), wrong)
    others = len(re.findall(r"^[ \t]*(?:inout|in|out|scratch)[ \t]+%s\[" %
                            re.escape(base), body, re.M))
    hidden = "opaque %s;" % base
    if others > 1 or not re.fullmatch(r"\w+", base):
        hidden = ""
    yield mutant("missing-operand", m.start("mode"), stop + 1, hidden)


WITH = re.compile(r"\bsums\s+into\s+\w+(?P<with>\s+with\s+\w+\s*=[^;]*);")


def sum_mutants(path, text, function, first, last, m):
    """A sum whose later chunks scale what the earlier ones have made."""
    line = text.count("\n", 0, m.start()) + 1
    yield Mutant(path, function, first, last, line, "missing-with",
                 m.start("with"), m.end("with"), "",
                 " ".join(m.group().split()))


MAP = re.compile(r"\bmap\s+(?P<name>\w+)\s*=\s*(?P<value>[^;]*);")
ATOM = r"[A-Za-z_]\w*(?:\([^()]*\))?|[0-9.]+|\([^()]*\)"
OTHER_OPERATOR = {"+": "-", "-": "+", "*": "/", "/": "*", "<": ">", ">": "<"}
OTHER_FUNCTION = {
    "fabs": "sqrt", "sqrt": "cbrt", "cbrt": "sqrt", "floor": "ceil",
    "ceil": "floor", "trunc": "ceil", "rint": "floor", "round": "trunc",
    "exp": "exp2", "exp2": "exp", "exp10": "exp", "expm1": "exp", "log": "log2",
    "log2": "log10", "log10": "log", "log1p": "log", "sin": "cos", "cos": "sin",
    "tan": "tanh", "asin": "acos", "acos": "asin", "atan": "tanh",
    "sinh": "cosh", "cosh": "sinh", "tanh": "sinh", "asinh": "sinh",
    "acosh": "asinh", "atanh": "atan", "erf": "erfc", "erfc": "erf",
    "erfinv": "erf", "erfcinv": "erfc", "normcdf": "erfc",
    "normcdfinv": "normcdf", "tgamma": "lgamma", "lgamma": "tgamma",
    "pow": "hypot", "atan2": "pow", "hypot": "fmax", "fmod": "remainder",
    "remainder": "fmod", "fmin": "fmax", "fmax": "fmin", "fdim": "fmax",
    "copysign": "fmin", "nextafter": "fmin", "min": "max", "max": "min"}
COMMUTATIVE = ("fmin", "fmax", "hypot", "min", "max")


def map_mutants(path, text, function, first, last, m):
    """Every mutant of the map that m matches: what it computes is wrong."""
    line = text.count("\n", 0, m.start()) + 1
    at, value = m.start("value"), m.group("value")

    def mutant(kind, start, end, new):
        was = value[start:end]
        new += "\n" * (was.count("\n") - new.count("\n"))
        return Mutant(path, function, first, last, line, kind, at + start,
                      at + end, new, " ".join(m.group().split()))

    yield mutant("wrong-sign", 0, len(value), "-(%s)" % value)
    for o in re.finditer(r" ([-+*/<>]) ", value):
        yield mutant("wrong-operator", o.start(1), o.end(1),
                     OTHER_OPERATOR[o.group(1)])
    for o in re.finditer(r"(%s) ([-/]) (%s)" % (ATOM, ATOM), value):
        if o.group(1) != o.group(3):
            yield mutant("swapped-operands", o.start(), o.end(), "%s %s %s" % (
                o.group(3), o.group(2), o.group(1)))
    for o in re.finditer(r"(\w+)\((\w+), (\w+)\)", value):
        if o.group(1) not in COMMUTATIVE:
            yield mutant("swapped-operands", o.start(2), o.end(3), "%s, %s" % (
                o.group(3), o.group(2)))
    for o in re.finditer(r"\b([a-z]\w*)\(", value):
        if o.group(1) in OTHER_FUNCTION:
            yield mutant("wrong-function", o.start(1), o.end(1),
                         OTHER_FUNCTION[o.group(1)])
    for o in re.finditer(r"(?<![\w.])[0-9][0-9.]*(?![\w.])", value):
        yield mutant("wrong-number", o.start(), o.end(),
                     "(%s + 1)" % o.group())
    names = [o for o in re.finditer(r"\b[a-z]\w*\b(?!\()", value)]
    for o in names[1:]:
        if o.group() != names[0].group():
            yield mutant("wrong-operand", o.start(), o.end(),
                         names[0].group())


def functions(text, plain):
    for m in FUNCTION.finditer(plain):
        end = matching(plain, m.end() - 1, "{}")
        name = re.search(r"([\w<>]+)\s*\(", text[m.start():m.end()])
        yield (name.group(1), text.count("\n", 0, m.start()) + 1,
               text.count("\n", 0, end) + 1, (m.end(), end))


FAMILY = re.compile(r"^family\s+(?P<name>\w+)(?:\((?P<columns>[^)]*)\))?:\s*"
                    r"(?P<rows>\{)", re.M)
COLUMN = re.compile(r"\bmap\s+\w+\s*=\s*<(\w+)(?::\w+)?>")
VALUE = re.compile(r"(?P<value>.*)", re.S)
ROW = re.compile(r"(\w+)(\()")


def value_mutants(path, text, plain, family):
    """(file, row of a family) -> mutants of its values that functions map."""
    used = [(name, first, last, COLUMN.findall(plain[span[0]:span[1]]))
            for name, first, last, span in functions(text, plain)
            if "<%s>" % family.group("name") in name.lower()]
    at = family.end()
    while used and (row := ROW.search(plain, at, matching(plain, family.start("rows"), "{}"))):
        at, values = row.end(), []
        end = matching(plain, row.start(2), "()")
        for value in split_axes(text, at, end):
            values.append(VALUE.match(text, *trimmed(text, *value[:2])))
        wanted = [v for c, v in zip(re.split(r",\s*", family.group("columns")), values)
                  if any(c in columns for *_, columns in used)]
        function = used[0][0].replace("<%s>" % family.group("name"), row.group(1))
        yield (path, row.group(1)), [m for v in wanted for m in map_mutants(
            path, text, function, min(u[1] for u in used), max(u[2] for u in used), v)]
        at = end


def file_mutants(path, maps=False):
    """(file, first line of a function) -> its mutants."""
    with open(path, encoding="utf-8") as f:
        text = f.read()
    plain = blank_comments(text)
    result = collections.OrderedDict()
    for name, first, last, span in functions(text, plain):
        rows = []
        by_row = COLUMN.search(plain, *span)  # then it is the value that is broken
        for m in MAP.finditer(plain, *span) if maps and not by_row else ():
            rows += map_mutants(path, text, name, first, last, m)
        for m in () if maps else OPERAND.finditer(plain, span[0], span[1]):
            rows += operand_mutants(path, text, plain, name, first, last, span,
                                    m)
        for m in () if maps else WITH.finditer(plain, span[0], span[1]):
            rows += sum_mutants(path, text, name, first, last, m)
        if rows:
            result[(path, first)] = rows
    for family in FAMILY.finditer(plain) if maps else ():
        if family.group("columns"):
            result.update((k, v) for k, v in value_mutants(path, text, plain, family) if v)
    return result


def families(paths):
    """Family name -> [(row, type)] of all files."""
    result = {}
    for path in annotation_files(paths):
        with open(path, encoding="utf-8") as f:
            text = blank_comments(f.read())
            for m in FAMILY.finditer(text):
                rows = text[m.end():matching(text, m.start("rows"), "{}")]
                result[m.group("name")] = re.findall(
                    r"(\w+)\s*(?:\([^()]*\))?\s*:\s*(\w[\w ]*)", rows)
    return result


def doubles(function, rows):
    """The names in double precision that a function's head stands for."""
    m = re.search(r"<(\w+)>", function)
    if not m:
        return [function]
    table = rows.get(m.group(1), [])
    names = [n for n, t in table if "double" in t] or [n for n, _ in table]
    return [function.replace(m.group(), n) for n in names]


def annotation_files(paths):
    names = []
    for path in paths:
        names += ([os.path.join(path, n) for n in sorted(os.listdir(path))
                   if n.endswith(".ferry")] if os.path.isdir(path) else [path])
    return names


def all_mutants(paths, maps=False):
    result = collections.OrderedDict()
    for path in annotation_files(paths):
        result.update(file_mutants(path, maps))
    return result


def write_round(paths, chosen, folder):
    """Writes every file with the chosen mutants (one per function) applied."""
    for path in annotation_files(paths):
        with open(path, encoding="utf-8") as f:
            text = f.read()
        rows = sorted((m for m in chosen if m.file == path),
                      key=lambda m: m.start, reverse=True)
        for m in rows:
            text = text[:m.start] + m.text + text[m.end:]
        with open(os.path.join(folder, os.path.basename(path)), "w",
                  encoding="utf-8") as f:
            f.write(text)


def main():
    total = collections.Counter()
    for rows in all_mutants(sys.argv[1:]).values():
        for m in rows:
            total[m.kind] += 1
            print("%s:%d: %s: %s: %s -> %s" % (
                m.file, m.line, m.function, m.kind, m.was, m.text.strip()))
    print(sum(total.values()), dict(total))


if __name__ == "__main__":
    main()
