#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""bench/gpu and tests/gpu/run do what they say, on the fake CUDA: every row
that it can compute has a figure, wrong results are seen, and what is missing
is skipped aloud. Says nothing of a card. Run by make check; prints TAP.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

BUILD = os.path.abspath(os.environ.get("FERRY_BUILDDIR", "."))
SOURCE = os.path.abspath(os.environ.get("FERRY_SRCDIR") or os.path.join(
    os.path.dirname(__file__), "../.."))
CALLS = os.path.join(BUILD, "bench/gpu_calls")
# Row -> what it is compared with on the fake: it has no cuBLASXt, no NVBLAS.
ROWS = {"dgemm": ("hand", "core"), "dgemm-cap": ("core",), "zgemm": ("core",),
        "ssyrk": ("core",), "dtrsm": ("core",), "dsymm": ("core",),
        "dpotrf-cap": ("core",), "dgetrf-cap": ("core",)}
WRONG = """
/* Computes nothing. */
void dgemm_(void) {}
/* Leaves the factor as it was, but for one element of the other triangle. */
void dpotrf_(const char *u, const int *n, double *a) { (void)u; a[*n] = 0; }
"""

# For ./check: a row of each kind, the short one of the two testers, and not the unit test,
# which runs by itself there.
SAMPLE = os.environ.get("FERRY_TEST_TIER") == "edit"
if SAMPLE:
    ROWS = {name: ROWS[name] for name in ("dgemm", "dgemm-cap", "dgetrf-cap")}

tests = failures = 0


def check(good, name, detail=""):
    global tests, failures
    tests += 1
    if not good:
        failures += 1
        print(re.sub(r"(?m)^", "# ", str(detail).rstrip()))
    print("%sok %d - %s" % ("" if good else "not ", tests, name), flush=True)


def run(*argv, **extra):
    """(status, output) of a command, both streams."""
    env = dict(os.environ, FERRY=os.path.join(BUILD, "ferry"), **extra)
    done = subprocess.run(argv, env=env, stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.STDOUT, timeout=500, check=False)
    return done.returncode, done.stdout


def cells(text):
    """The table's lines."""
    return [[y.strip() for y in x.strip("| \n").split(" | ")]
            for x in text.splitlines() if x.startswith("|")]


def benchmark():
    status, text = run(sys.executable, os.path.join(SOURCE, "bench/gpu"),
                       "--fake", "--scale", "tiny", "--rounds", "1",
                       "--rows", ",".join([*ROWS, "sweep", "reuse", "numpy", "workloads"]))
    rows = cells(text)
    check(status == 0, "bench/gpu: nothing is wrong", text)
    for name, against in ROWS.items():
        mine = [x for x in rows if x[0] == name]
        ferry = [x for x in mine if x[2] == "ferry" and re.match(
            r"[\d.e-]+ s$", x[3])]
        check(len(ferry) == 1, "bench/gpu: %s by ferry" % name, mine)
        for way in against:
            figures = [x for x in mine if x[2] == way and re.match(
                r"[\d.e-]+$", x[4])]
            check(len(figures) == 1, "bench/gpu: %s against %s" % (name, way),
                  mine)
    check(any("no cuBLASXt function" in "".join(x) for x in rows),
          "bench/gpu: says that cuBLASXt is not there", text)
    sweep = [x for x in rows if x[0].startswith("sweep")]
    check(sweep and "lose more than" in "".join(sweep[-1]), "bench/gpu: sweep",
          sweep)
    for name in ("black-scholes", "haversine", "pca", "truncated-svd",
                 "dbscan"):
        mine = [x for x in rows if x[0].startswith(name)]
        check(len(mine) == 2 and
              all("calls offloaded" in x[-1] for x in mine),
              "bench/gpu: %s in every way" % name, mine)
    if any("no NumPy" in "".join(x) for x in rows):
        print("ok %d - bench/gpu: numpy # SKIP no NumPy" % (tests + 1))
        return 1
    check(sum(x[0].startswith("numpy ") for x in rows) == 5,
          "bench/gpu: numpy", rows[-6:])
    return 0


def wrong_results(folder):
    """The check of gpu_calls sees them."""
    source, library = (os.path.join(folder, x) for x in ("w.c", "w.so"))
    with open(source, "w", encoding="ascii") as file:
        file.write(WRONG)
    subprocess.run([os.environ.get("CC", "cc").split()[0], "-w", "-shared",
                    "-fPIC", "-o", library, source], check=True)
    for job in ("dgemm:40", "dpotrf:40"):
        status, text = run(CALLS, "-r", "1", "blas", job, LD_PRELOAD=library)
        check(status == 0 and json.loads(text)["right"] is False,
              "gpu_calls: %s that is wrong" % job, text)


def tests_of_a_card():
    script = os.path.join(SOURCE, "tests/gpu/run")
    groups = ("doctor", "trouble", "numpy", "sanitizer", "judges") if SAMPLE else ()
    status, text = run(sys.executable, script, "--fake", "--largest", "65",
                       "--judge", "netlib/xblat3s" + "-few" * SAMPLE,
                       *(word for group in groups for word in ("--only", group)))
    check(status == 0 and "FAIL" not in text, "tests/gpu/run", text)
    for name in ("doctor names the card", "unit test_cuda_device")[:1 if SAMPLE else 2]:
        check("ok    " + name in text, "tests/gpu/run: " + name, text)
    check(re.search(r"skip  sanitizer", text), "tests/gpu/run: skips aloud")
    # No driver at all.
    if not os.path.exists("/dev/nvidiactl"):
        status, text = run(sys.executable, script)
        check(status == 0 and "skip  everything" in text,
              "tests/gpu/run: no card", text)
        status, text = run(sys.executable, os.path.join(SOURCE, "bench/gpu"))
        check(status == 0 and "skipped" in text, "bench/gpu: no card", text)


def main():
    if any(x in os.environ.get("FERRY_SANITIZED", "")
           for x in ("thread", "address")):
        print("1..0 # SKIP a sanitizer's library cannot be preloaded here")
        return 77
    if not (os.path.exists(CALLS) and os.path.exists(os.path.join(
            BUILD, "tests/fakecuda/.libs/libcuda.so.1"))):
        print("1..0 # SKIP bench/gpu_calls or the fake CUDA is not built")
        return 77
    folder = tempfile.mkdtemp(prefix="ferry-gpu-tiny-")
    try:
        more = benchmark()
        wrong_results(folder)
        tests_of_a_card()
    finally:
        shutil.rmtree(folder)
    print("1..%d" % (tests + more))
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
