#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Large singular value decompositions through `ferry run' on the fake CUDA:
NumPy, row-major LAPACKE, wide matrices; and a NaN, which the original meets. Run by
make check; with an argument it is the program that ferry runs."""
import ctypes
import os
import re
import subprocess
import sys
import tempfile

SECONDS = 300  # of one program; it takes a few
ORDERS = {"row": 101, "column": 102}


def lapacke(name, order, a, jobs):
    """U, s, V^H by LAPACKE's high-level function of that name."""
    library = ctypes.CDLL("liblapacke.so.3")
    m, n = a.shape
    k = min(m, n)
    layout = "C" if order == "row" else "F"
    u = np.zeros((m, k), a.dtype, layout)
    v = np.zeros((k, n), a.dtype, layout)
    s = np.zeros(k, a.real.dtype)
    rest = np.zeros(k, s.dtype)
    work = a.copy(layout)
    lds = [x.strides[0 if order == "row" else 1] // x.itemsize for x in (work, u, v)]
    at = [ctypes.c_void_p(x.ctypes.data) for x in (work, s, u, v, rest)]
    letters = [ctypes.c_char(job.encode()) for job in jobs]
    info = getattr(library, "LAPACKE_" + name)(
        ORDERS[order], *letters, m, n, at[0], lds[0], at[1], at[2], lds[1], at[3], lds[2],
        *at[4:4 + len(jobs) - 1])
    if info != 0:
        raise RuntimeError(f"{name}: info {info}")
    return u, s, v


def program(what, letter, m, n):
    """Prints how far the decomposition is from right, in max(m, n) * eps."""
    random = np.random.default_rng(5)
    a = random.standard_normal((m, n)).astype(letter)
    if letter in "FD":
        a = a + 1j * random.standard_normal((m, n)).astype(a.real.dtype)
    if what == "nan":
        a[3, 4] = np.nan
    if what in ("numpy", "values", "nan"):
        try:
            out = np.linalg.svd(a, full_matrices=m == n, compute_uv=what != "values")
        except np.linalg.LinAlgError as error:
            print("LinAlgError", error)
            return
    else:
        name, order, jobs = what.split(":")
        out = lapacke(name, order, a, jobs)
    if what == "values":
        print("values", abs((out ** 2).sum() - (np.abs(a) ** 2).sum()) < 1e-8 * m * n)
        return
    if what == "nan":
        print("vectors", np.isnan(out[0]).any())
        return
    u, s, v = (np.asarray(x, "D" if letter in "FD" else "d") for x in out)
    one = np.eye(min(m, n))
    off = max(np.abs(u * s @ v - a).max() / s[0], np.abs(u.conj().T @ u - one).max(),
              np.abs(v @ v.conj().T - one).max())
    unit = max(m, n) * np.finfo(a.dtype).eps
    print("right" if off < unit and (s[1:] <= s[:-1]).all() else f"off by {off / unit}")


if len(sys.argv) > 1:
    import numpy as np
    program(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    sys.exit(0)

source = os.environ.get("FERRY_SRCDIR") or os.path.join(os.path.dirname(__file__), "..", "..")
build = os.path.abspath(os.environ.get("FERRY_BUILDDIR") or os.path.join(source, "_build"))
fake = os.path.join(build, "tests", "fakecuda", ".libs")
PYTHON = "/usr/bin/python3"  # Debian's, whose NumPy calls the system's LAPACK
tests = failures = 0


def skip_all(why):
    print(f"1..0 # SKIP {why}")
    sys.exit(0)


if os.environ.get("FERRY_SANITIZED"):
    skip_all("sanitized libraries cannot be preloaded")
if not os.path.exists(os.path.join(fake, "libcusolver.so.12")) or not os.path.exists(os.path.join(build, "ferry")):
    skip_all("ferry or the fake CUDA is not built")
if subprocess.run([PYTHON, "-c", "import numpy, ctypes; ctypes.CDLL('liblapacke.so.3')"],
                  stderr=subprocess.DEVNULL, check=False).returncode != 0:
    skip_all("no NumPy or no LAPACKE")


def run(name, arguments, wanted, calls):
    """Runs the program; `calls': what the fake must have seen of cuSOLVER."""
    global tests, failures
    tests += 1
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log")
        environment = dict(os.environ, LD_LIBRARY_PATH=fake, FAKECUDA_LOG=log, FAKECUDA_DELAY="0")
        try:
            done = subprocess.run(
                [os.path.join(build, "ferry"), "run", "--no-discover", "--device", "cuda", "--force", "--",
                 PYTHON, os.path.abspath(__file__)] + arguments.split(),
                env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS, check=False)
            said = done.stdout.decode(errors="replace").strip()
            if done.returncode:
                said += f" (status {done.returncode})"
        except subprocess.TimeoutExpired:
            said = "ran out of time"
        seen = ""
        if os.path.exists(log):
            with open(log, encoding="ascii", errors="replace") as file:
                seen = file.read()
    got = sorted(re.findall(r"(cusolverDn\wgesvd) = 0", seen))
    faults = re.findall(r"(?:bad-\S+|small-workspace|free-in-use|race|illegal-address): .*", seen)
    if said == wanted and got == sorted(calls) and not faults:
        print(f"ok {tests} - {name}")
        return
    failures += 1
    print(f"not ok {tests} - {name}\n# said: {said}\n# calls: {got}\n# {faults[:3]}")


run("NumPy, square", "numpy d 512 512", "right", ["cusolverDnDgesvd"])
run("NumPy, wide", "numpy d 512 530", "right", ["cusolverDnDgesvd"])
run("LAPACKE, row-major", "sgesdd:row:S f 530 512", "right", ["cusolverDnSgesvd"])
run("LAPACKE, wide and complex", "cgesvd:column:SS F 512 520", "right", ["cusolverDnCgesvd"])
run("fewer columns", "sgesdd:column:S f 530 300", "right", ["cusolverDnSgesvd"])
run("values alone", "values d 512 512", "values True", ["cusolverDnDgesvd"])
plain = subprocess.run([PYTHON, os.path.abspath(__file__), "nan", "d", "512", "512"], stdout=subprocess.PIPE,
                       check=False, timeout=SECONDS).stdout.decode().strip()
run("a NaN", "nan d 512 512", plain, [])
print(f"1..{tests}")
sys.exit(1 if failures else 0)
