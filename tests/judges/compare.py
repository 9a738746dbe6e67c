# SPDX-License-Identifier: Apache-2.0
"""What a judge's output says, without what may differ between two runs.

Times are ignored. Numbers with a fraction are rounding dependent: only that
they are there is compared, and "largest error" values against a bound. A judge
that fails some of its own tests without ferry may fail the same group of tests
under ferry in about the same number, but no other group.
"""
import re

NUMBER = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+(?=[EeDd][-+]))"
                    r"(?:[EeDd][-+]?\d+|[-+]\d{3})?|\bNaN\b|\bInfinity\b")
TIMES = re.compile(r"Total time used|^\s*Current time|seconds")
FAILED = re.compile(r"^\s*(.*?):?\s+(\d+) out of\s+(\d+) tests? failed")
# The details of single failures: counted by the line above that sums them up.
DETAIL = re.compile(r"test\s*\(?\s*\d*\s*\)?\s*=|test=|, ratio|Error\(s\) or "
                    r"Failure|Failure in|^\s*Matrix order=|type\s+\d+, seed="
                    r"|result\s+\d+ is")
LARGEST = re.compile(r"largest (?:test )?error\s*=|Largest.*[:=]", re.I)


class Verdict:
    """The comparable part of one output."""

    def __init__(self, text):
        self.lines = []     # exact, numbers masked
        self.failures = {}  # group -> (failed, of)
        self.largest = []   # values of "largest error"
        failing = FAILED.search(text) or "failed" in text
        for line in text.splitlines():
            line = re.sub(r"\s+", " ", line).strip()
            if not line or TIMES.search(line):
                continue
            match = FAILED.search(line)
            if match:
                group = match.group(1)
                bad, of = self.failures.get(group, (0, 0))
                self.failures[group] = (bad + int(match.group(2)),
                                        of + int(match.group(3)))
                continue
            passed = re.search(r"^All tests for (.*?) passed the (?:tests of "
                               r"the )?threshold \( *(\d+)", line)
            if passed:
                line = "tests for %s: %s run" % passed.groups()
            if LARGEST.search(line):
                self.largest += [_value(x) for x in NUMBER.findall(line)]
            if failing and DETAIL.search(line):
                continue
            self.lines.append(NUMBER.sub("#", line))


def _value(text):
    text = text.replace("D", "E").replace("d", "e")
    text = re.sub(r"(\d)([-+]\d{3})$", r"\1E\2", text)
    return float(text)


def generic(plain, other):
    """Differences between two outputs of a Fortran tester, as texts."""
    before, after = Verdict(plain), Verdict(other)
    problems = []
    # A group that failed plain is not among its "passed" lines; drop those.
    if before.failures:
        names = {name.split()[0] for name in before.failures}
        before.lines = [x for x in before.lines if not _about(x, names)]
        after.lines = [x for x in after.lines if not _about(x, names)]
    if before.lines != after.lines:
        problems.append(first_difference(before.lines, after.lines))
    for group, (bad, of) in after.failures.items():
        known = before.failures.get(group, (0, of))[0]
        if known == 0 or bad > known + max(3, known // 2):
            problems.append("%s: %d of %d tests fail, %d without ferry"
                            % (group, bad, of, known))
    for old, new in zip(before.largest, after.largest):
        if not new <= max(10 * abs(old), 10.0):
            problems.append("largest error %g, %g without ferry" % (new, old))
    return problems


def _about(line, names):
    return any(re.search(r"\b%s\b" % re.escape(name), line) for name in names)


def first_difference(before, after):
    """The first line that differs, both ways."""
    for i in range(max(len(before), len(after))):
        old = before[i] if i < len(before) else "(end of output)"
        new = after[i] if i < len(after) else "(end of output)"
        if old != new:
            return "line %d: %r, without ferry %r" % (i + 1, new, old)
    return "same"


def exact(plain, other):
    """Byte for byte the same lines."""
    if plain == other:
        return []
    return [first_difference(plain.splitlines(), other.splitlines())]


def pytest(plain, other):
    """The same tests with the same outcomes (output of pytest -rA)."""
    def outcomes(text):
        return sorted(set(re.findall(
            r"^(?:PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS) \S+", text, re.M)))
    before, after = outcomes(plain), outcomes(other)
    if not before:
        return ["no outcomes in pytest's output without ferry"]
    return exact("\n".join(before), "\n".join(after))


HPCC = re.compile(r"PASSED|FAILED|passed|failed|Found \d+ errors|Success=|"
                  r"Node\(s\) with error|Solution Validates|END OF TESTS|"
                  r"End of \w+ section|_Errors=|Abort|Scaled residual")


def hpcc(plain, other):
    """hpccoutf.txt: every check, HPL's and DGEMM's residual under 16."""
    problems = []

    def checks(text):
        lines = [x for x in text.splitlines() if HPCC.search(x)]
        return [re.sub(r"\s+", " ", re.sub(r"\d+\.\d+", "#", x)).strip()
                for x in lines]
    before, after = checks(plain), checks(other)
    if not any("...... PASSED" in line for line in before):
        problems.append("HPL did not pass without ferry")
    if before != after:
        problems.append(first_difference(before, after))
    for value in re.findall(r"Scaled residual: (\S+)", other):
        if not float(value) < 16.0:
            problems.append("DGEMM's scaled residual is " + value)
    return problems
