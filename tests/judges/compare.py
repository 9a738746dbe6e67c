# SPDX-License-Identifier: Apache-2.0
"""What a judge's output says, without what may differ between two runs.

Times are ignored. Numbers with a fraction are rounding dependent: only that
they are there is compared, and "largest error" values against a bound. A judge
that fails some of its own tests without ferry may fail the same group of tests
under ferry in about the same number. Another group may fail at most three of a
thousand or more, by a residual below three times the threshold: single precision
programs have such cases with one BLAS and not with the other, too.
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
RATIO = re.compile(r"(?:test\s*(?:\(\s*\d+\s*\))?\s*=|result\s+\d+ is|"
                   r"ratio\s*=)\s*(\S+)")
THRESHOLD = re.compile(r"test ratio is less than\s+(\S+)")
# A few tests that only just fail because sums were added in another order.
MARGINAL_TESTS, MARGINAL_RATIO = 3, 3.0
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
    marginal = _only_just(other)
    # A group that failed is not among the "passed" lines; failures are counted.
    if before.failures or (after.failures and marginal):
        names = {name.split()[0] for name in (*before.failures,
                                              *after.failures)}
        before.lines = [x for x in before.lines if not _about(x, names)]
        after.lines = [x for x in after.lines if not _about(x, names)]
    if before.lines != after.lines:
        problems.append(first_difference(before.lines, after.lines))
    for group, (bad, of) in after.failures.items():
        known = before.failures.get(group, (0, of))[0]
        if known == 0 and bad <= MARGINAL_TESTS and of >= 1000 and marginal:
            continue
        if known == 0 or bad > known + max(3, known // 2):
            problems.append("%s: %d of %d tests fail, %d without ferry"
                            % (group, bad, of, known))
    for old, new in zip(before.largest, after.largest):
        if not new <= max(10 * abs(old), 10.0):
            problems.append("largest error %g, %g without ferry" % (new, old))
    return problems


def _only_just(text):
    """Whether no ratio of a failed test is far above the threshold."""
    threshold = THRESHOLD.search(text)
    ratios = RATIO.findall(text)
    return bool(threshold and ratios) and all(
        _value(x) < MARGINAL_RATIO * _value(threshold.group(1))
        for x in ratios if NUMBER.fullmatch(x)) and not any(
            not NUMBER.fullmatch(x) for x in ratios)


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


def octave(plain, other):
    """As many of as many tests pass, or more: some depend on rounding."""
    before = re.findall(r"(\d+) of (\d+)", plain)
    after = re.findall(r"(\d+) of (\d+)", other)
    if not before or not after or before[-1][1] != after[-1][1]:
        return ["no count, or another one of tests"]
    if int(after[-1][0]) < int(before[-1][0]):
        return ["%s of %s pass, %s without ferry" % (after[-1] + before[-1][:1])]
    return []


HPCC = re.compile(r"PASSED|FAILED|passed|failed|Found \d+ errors|Success=|"
                  r"Node\(s\) with error|Solution Validates|END OF TESTS|"
                  r"End of \w+ section|_Errors=|Abort|Scaled residual")


def hpcc(plain, other):
    """hpccoutf.txt: every check, HPL's and DGEMM's residual under 16.

    PTRANS writes one row per clock, WALL and CPU, and none for a clock that
    did not move: rows of one transposition count as one, whichever are there.
    """
    problems = []

    def checks(text):
        rows = []
        for line in text.splitlines():
            if HPCC.search(line):
                line = re.sub(r"\d+\.\d+", "#", line)
                line = re.sub(r"\s+", " ", line).strip()
                line = re.sub(r"^(?:WALL|CPU) ", "", line)
                if not rows or rows[-1] != line:
                    rows.append(line)
        return rows
    before, after = checks(plain), checks(other)
    if not any("...... PASSED" in line for line in before):
        problems.append("HPL did not pass without ferry")
    if before != after:
        problems.append(first_difference(before, after))
    for value in re.findall(r"Scaled residual: (\S+)", other):
        if not float(value) < 16.0:
            problems.append("DGEMM's scaled residual is " + value)
    return problems
