#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Infinities, NaNs and zeros go through BLAS on the fake CUDA as without ferry,
with each copy of BLAS that is installed: factors of 0 above all, which some
libraries take for "set to 0" and others multiply by. Functions that return
numbers stay with the original. Run by make check; prints TAP.

With an argument it is the program: calls through ctypes, a line of output each.
"""
import array
import ctypes
import glob
import itertools
import json
import math
import os
import subprocess
import sys
import tempfile
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from patience import patient  # noqa: E402

BUILD = os.path.abspath(os.environ.get("FERRY_BUILDDIR", "."))
FAKE = os.path.join(BUILD, "tests/fakecuda/.libs")
FERRY = os.path.join(BUILD, "ferry")
SAMPLE = os.environ.get("FERRY_TEST_TIER") == "edit"
INF, NAN = math.inf, math.nan
ODD = (1.0, -2.0, NAN, INF, -INF, 0.0, -0.0, 3.0)
FACTORS = (0.0, -0.0, 1.0, -1.0, 2.5, INF, NAN)


# ---- the program ----------------------------------------------------------------

class Blas:
    """Functions of one type: numbers by address, arrays as they are."""

    def __init__(self, letter):
        self.library = ctypes.CDLL("libblas.so.3")
        self.letter = letter
        self.width = 2 if letter in "cz" else 1
        self.code = "f" if letter in "sc" else "d"

    def vector(self, values):
        """Real numbers as elements of the type."""
        flat = []
        for value in values:
            flat += [value] + [0.0] * (self.width - 1)
        return array.array(self.code, flat)

    def real(self, value):
        return array.array(self.code, [value])

    def call(self, name, *args, result=None):
        function = getattr(self.library, name + "_")
        function.restype = result
        passed = []
        for arg in args:
            if isinstance(arg, array.array):
                passed.append(ctypes.c_void_p(arg.buffer_info()[0]))
            elif isinstance(arg, str):
                passed.append(ctypes.c_char_p(arg.encode()))
            else:
                passed.append(ctypes.byref(ctypes.c_int(arg)))
        return function(*passed)


def show(name, values):
    """No sign of a NaN, and six digits: what is the same for all libraries."""
    print(name, *("nan" if math.isnan(v) else "%.6g" % v for v in values))


def vectors(blas):
    p = blas.letter
    # (x + 0i) (a + 0i) is another number of NaNs to every library.
    for factor in FACTORS if blas.width == 1 else FACTORS[:2] + (NAN,):
        for inc in (1, 2):
            x = blas.vector(ODD)
            blas.call(p + "scal", 8 // inc, blas.vector([factor]), x, inc)
            show("%sscal %g %d" % (p, factor, inc), x)
        y = blas.vector(range(8))
        blas.call(p + "axpy", 8, blas.vector([factor]), blas.vector(ODD), 1, y, 1)
        show("%saxpy %g" % (p, factor), y)
    if blas.width == 2:
        x = blas.vector(range(8))
        blas.call(p + "scal", 8, blas.vector([2.5]), x, 1)
        show(p + "scal", x)
        blas.call(p + "axpy", 8, blas.vector([2.5]), blas.vector(range(8)), 1, x, 1)
        show(p + "axpy", x)
        name = {"c": "csscal", "z": "zdscal"}[p]
        for factor in FACTORS:
            x = blas.vector(ODD)
            blas.call(name, 8, blas.real(factor), x, 1)
            show("%s %g" % (name, factor), x)


def products(blas):
    p = blas.letter
    sound = list(range(1, 10))
    broken = sound[:4] + [NAN] + sound[5:]
    for matrix, alpha, beta in itertools.product((sound, broken), (0, 1, 2),
                                                 (0, 1, 0.5)):
        a, b = blas.vector(matrix), blas.vector(sound)
        # What beta = 0 must not read.
        old = [NAN if beta == 0 else 7] + [1] * 8
        factors = blas.vector([alpha]), blas.vector([beta])
        what = "%g %g %s" % (alpha, beta, matrix is broken)
        for trans in "NT":
            y = blas.vector(old[:3])
            blas.call(p + "gemv", trans, 3, 3, factors[0], a, 3,
                      blas.vector([1, 2, 3]), 1, factors[1], y, 1)
            show("%sgemv %s %s" % (p, trans, what), y)
        c = blas.vector(old)
        blas.call(p + "gemm", "N", "T", 3, 3, 3, factors[0], a, 3, b, 3, factors[1], c, 3)
        show("%sgemm %s" % (p, what), c)
        c = blas.vector(old)
        blas.call(p + "gemm", "N", "N", 3, 3, 0, factors[0], a, 3, b, 3, factors[1], c, 3)
        show("%sgemm k=0 %s" % (p, what), c)
        c = blas.vector(old)
        blas.call(p + "syrk", "U", "N", 3, 3, factors[0], a, 3, factors[1], c, 3)
        show("%ssyrk %s" % (p, what), c)
        c = blas.vector(old)
        blas.call(p + "symm", "L", "U", 3, 3, factors[0], b, 3, a, 3, factors[1], c, 3)
        show("%ssymm %s" % (p, what), c)
        for name in ("trmm", "trsm"):
            c = blas.vector(matrix)
            blas.call(p + name, "L", "U", "N", "N", 3, 3, factors[0], b, 3, c, 3)
            show("%s%s %s" % (p, name, what), c)


def triangles(blas):
    """Zeros beside infinities, which netlib's solvers step over."""
    p = blas.letter
    for matrix in ([1, 0, 0, 2, 3, 0, 4, 5, 6], [INF] * 9, [1, 0, 0, 2, NAN, 0, 4, 5, 6]):
        a = blas.vector(matrix)
        for trans in "NT":
            x = blas.vector([1, 2, 0])
            for name in ("trsv", "trmv"):
                blas.call(p + name, "U", trans, "N", 3, a, 3, x, 1)
                show("%s%s %s %s" % (p, name, trans, matrix[4]), x)
            packed = blas.vector(matrix[:1] + matrix[3:5] + matrix[6:])
            for name in ("tpsv", "tpmv"):
                x = blas.vector([0, 1, 2])
                blas.call(p + name, "U", trans, "N", 3, packed, x, 1)
                show("%s%s %s %s" % (p, name, trans, matrix[4]), x)


def numbers(blas):
    p = blas.letter
    x = blas.vector((3.0, -4.0, 0.0, 12.0))
    if blas.width == 1:
        kind = ctypes.c_float if p == "s" else ctypes.c_double
        for name in (p + "dot", p + "nrm2", p + "asum"):
            args = (x, 1, x, 1) if name[1:] == "dot" else (x, 1)
            show(name, [blas.call(name, 4, *args, result=kind)])
        c, s, y = blas.real(0.5), blas.real(0.25), blas.vector((1, 2, 3, 4))
        blas.call(p + "rot", 4, x, 1, y, 1, c, s)
        show(p + "rot", x + y)
        parameters = blas.vector((-1, 0.5, 2, 3, 0.25))
        blas.call(p + "rotm", 4, x, 1, y, 1, parameters)
        show(p + "rotm", x + y)
    print("i%samax" % p, blas.call("i%samax" % p, 4, x, 1, result=ctypes.c_int))


LEVEL3 = {  # arguments before the sizes, how many sizes, operands, scalars
    "gemm": (("NN", "TN", "NT"), 3, "abc"), "symm": (("LL", "RU"), 2, "abc"),
    "hemm": (("LL", "RU"), 2, "abc"), "syrk": (("LN", "UT"), 2, "ac"),
    "herk": (("LN", "UC"), 2, "ac"), "syr2k": (("LN", "UT"), 2, "abc"),
    "her2k": (("LN", "UC"), 2, "abc"), "trmm": (("LLNN", "RUTU"), 2, "ab"),
    "trsm": (("LLNN", "RUTU"), 2, "ab")}


def blocks(blas):
    """One element or factor of a product is odd, the others are 0 or 1: which elements
    of the result are NaN or infinite, and a sum of the others."""
    p, n = blas.letter, 24
    for name, (words, sizes, operands) in LEVEL3.items():
        if name[:2] == "he" and blas.width == 1:
            continue
        factors = ("alpha", "beta") if "c" in operands else ("alpha",)
        cases = itertools.product(words[:1] if SAMPLE else words, [*operands, *factors],
                                  (NAN, INF), (0.0,) if SAMPLE else (0.0, 1.0))
        for word, where, odd, other in cases:
            values = {x: [other] * (n * n) for x in operands}
            if "tr" in name:
                values["a"][:: n + 1] = [2.0] * n
            values.update(alpha=[1.0], beta=[0.5])
            values[where][9 * n + 8 if where in "abc" else 0] = odd
            arrays = {x: blas.vector(v) for x, v in values.items()}
            arguments = [*word, *[n] * sizes, arrays["alpha"]]
            for x in operands:
                arguments += [arrays["beta"]] if x == "c" else []
                arguments += [arrays[x], n]
            blas.call(p + name, *arguments)
            result = arrays[operands[-1]]
            # Infinite complex numbers have parts that are NaN, or not.
            kinds = [abs(v) if blas.width == 1 else NAN for v in result]
            odds = [(i // blas.width, str(kinds[i])) for i, v in enumerate(result)
                    if not math.isfinite(v)]
            show("%s%s %s %s=%g %g" % (p, name, word, where, odd, other),
                 [zlib.crc32(repr(sorted(set(odds))).encode()),
                  sum(v for i, v in enumerate(result) if math.isfinite(v) and
                      (i // blas.width, "nan") not in odds)])


def program(part):
    if part == "blocks":
        for letter in "dz" if SAMPLE else "sdcz":
            blocks(Blas(letter))
        return
    for letter in "sdcz":
        blas = Blas(letter)
        vectors(blas)
        products(blas)
        triangles(blas)
        numbers(blas)


# ---- the test -------------------------------------------------------------------

STAY = [p + f for p in "sd" for f in ("dot", "nrm2", "asum", "rot", "rotm")] + \
    ["i%samax" % p for p in "sdcz"]
GO = [p + f for p in "sdcz" for f in ("scal", "axpy", "gemv", "gemm", "syrk", "symm",
                                      "trmm", "trsm", "trsv", "trmv",
                                      "tpsv", "tpmv")] + ["csscal", "zdscal"]

checks, failures = 0, 0


def check(good, name, detail=""):
    global checks, failures
    checks += 1
    if not good:
        failures += 1
        print("# " + str(detail).replace("\n", "\n# "))
    print("%sok %d - %s" % ("" if good else "not ", checks, name), flush=True)


def main():
    if any(x in os.environ.get("FERRY_SANITIZED", "") for x in ("thread", "address")):
        print("1..0 # SKIP a sanitizer's library cannot be preloaded here")
        return 77
    copies = [os.path.dirname(x) for x in
              sorted(glob.glob("/usr/lib/*/blas/libblas.so.3") +
                     glob.glob("/usr/lib/*/openblas*/libblas.so.3"))]
    if not copies or not os.path.exists(os.path.join(FAKE, "libcuda.so.1")):
        print("1..0 # SKIP no BLAS, or the fake CUDA is not built")
        return 77
    with tempfile.TemporaryDirectory(prefix="ferry-special-") as folder:
        for copy in copies:
            report = os.path.join(folder, "report")
            env = dict(os.environ, LD_LIBRARY_PATH=copy + ":" + FAKE, FAKECUDA_DELAY="0",
                       OPENBLAS_NUM_THREADS="1")
            there = os.path.basename(copy)
            # On the host device the matrices of `blocks' are cut.
            for part, device in (("blocks", "host,memory=10KiB"), ("all", "cuda")):
                command = [sys.executable, os.path.abspath(__file__), part]
                plain, ferry = (
                    subprocess.run(before + command, env=env, capture_output=True, text=True,
                                   timeout=patient(600), check=False)
                    for before in ([], [FERRY, "run", "--no-discover", "--early", "--device",
                                        device, "--force", "--report=" + report, "--"]))
                check(plain.returncode == 0 and ferry.returncode == 0 and
                      not ferry.stderr, "%s, %s: ends well" % (there, part),
                      plain.stderr + ferry.stderr)
                lines = zip(plain.stdout.splitlines(), ferry.stdout.splitlines())
                other = ["%s\n  instead of %s" % (b, a) for a, b in lines if a != b]
                check(plain.stdout and plain.stdout == ferry.stdout,
                      "%s, %s: the same numbers" % (there, part), "\n".join(other[:10]))
            with open(report, encoding="utf-8") as file:
                rows = {x["name"]: x["offloaded"] for x in json.load(file)["functions"]}
            wrong = [x for x in STAY if rows.get(x, 1)] + \
                [x for x in GO if not rows.get(x)]
            check(not wrong, there + ": what goes and what stays", wrong)
    print("1..%d" % checks)
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(program(sys.argv[1]) if len(sys.argv) > 1 else main())
