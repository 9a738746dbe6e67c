#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Operands that stay on a card which fails: at each kind of call, at operations in the
middle of a chain, without memory, and while another process takes the memory. The program
(tests/program/resident.c) prints what it prints without ferry. On the fake CUDA; run by
make check, prints TAP.
"""
import glob
import json
import os
import re
import subprocess
import sys

import fake
from fake import FAKE, FERRY, check

ROUNDS, TIERS = 40, ("write-through", "compare")
EDIT = os.environ.get("FERRY_TEST_TIER", "full") == "edit"
RENT = 176 * 176 * 8 # bytes of an operand
HOG = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
context, at = ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
size = 1 << 30
while size >= 1 << 20:
    if cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(size)):
        size >>= 1
print("full", flush=True)
sys.stdin.read()
"""


class Bench:
    """The program's own output, and runs that are compared with it."""

    def __init__(self, folder):
        self.report = os.path.join(folder, "report.json")
        self.program = os.path.join(folder, "resident")
        source = os.path.join(os.path.dirname(fake.HERE), "program/resident.c")
        subprocess.run([os.environ.get("CC", "cc").split()[0], "-O1", "-D_GNU_SOURCE",
                        "-o", self.program, source, "-lblas", "-lpthread"], check=True)
        blas = [os.path.dirname(x) for x in glob.glob("/usr/lib/*/blas/libblas.so.3")]
        self.libraries = ":".join([FAKE, *blas[:1]])
        self.log = os.path.join(folder, "log")
        self.plain = subprocess.run(self.command(1), env=fake.environment(self.libraries),
                                    capture_output=True, check=True).stdout

    def command(self, seed):
        return [self.program, str(ROUNDS), str(seed)]

    def run(self, name, tier, device="cuda", **extra):
        """The program's row of the report, or {}."""
        done = subprocess.run(
            [FERRY, "run", "--no-discover", "--early", "--device", device, "--force",
             "--residency", tier, "--report=" + self.report, "--", *self.command(1)],
            env=fake.environment(self.libraries, **{"FAKECUDA_MEMORY": "64M", **extra}),
            capture_output=True, timeout=300, check=False)
        rows = []
        if os.path.exists(self.report):
            with open(self.report, encoding="utf-8") as file:
                rows = json.load(file)["functions"]
            os.unlink(self.report)
        check(done.returncode == 0 and done.stdout == self.plain and not done.stderr,
              "%s: %s" % (tier, name), "status %d\n%s\n%s" % (
                  done.returncode, done.stderr.decode(), done.stdout.decode()[-300:]))
        return rows[0] if rows else {}

    def calls(self, tier):
        """The fake's calls of a run, by name, and how many there were."""
        self.run("is logged", tier, FAKECUDA_LOG=self.log)
        with open(self.log, encoding="utf-8", errors="replace") as file:
            names = re.findall(r"^(?:\S+ )*?((?:cu|cublas)[A-Z]\w+)", file.read(), flags=re.M)
        os.unlink(self.log)
        return {name: names.count(name) for name in names}, len(names)


def failing(bench, tier):
    """Each function's first, middle and last call; some operations."""
    counts, total = bench.calls(tier)
    check(total > 100, "%s: the log has calls" % tier, counts)
    names = sorted(counts)
    for i, name in enumerate(names[::5] if EDIT else names):
        middle = counts[name] // 2 + 1
        bench.run("%s fails" % name, tier,
                  FAKECUDA_FAIL="%s:%d" % (name, middle))
        if i % 3 == 0:
            bench.run("%s fails from then on" % name, tier,
                      FAKECUDA_FAIL="%s:%d+" % (name, middle))
    for n in range(1, 3 * ROUNDS, 40 if EDIT else 7):
        bench.run("operation %d fails later" % n, tier, FAKECUDA_FAIL_ASYNC=str(n))


def small(bench, tier):
    """Limits below an operand, two and some more."""
    for memory in ("64KiB", "%d" % (RENT + 4096), "600KiB", "2MiB"):
        bench.run("memory=" + memory, tier, "cuda,memory=" + memory)
    for memory in ("2M", "6M", "8M"):
        bench.run("a card with " + memory, tier, FAKECUDA_MEMORY=memory)


def taken(bench, tier, folder):
    """A process has all that is free before the first call."""
    shared = {"FAKECUDA_SHARED": os.path.join(folder, "shared"), "FAKECUDA_MEMORY": "64M"}
    with subprocess.Popen([sys.executable, "-c", HOG], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE,
                          env=fake.environment(bench.libraries, **shared)) as hog:
        check(hog.stdout.readline() == b"full\n", "%s: another process" % tier)
        bench.run("another process has the memory", tier, **shared)
        hog.stdin.close()


def body(folder):
    bench = Bench(folder)
    for tier in TIERS:
        row = bench.run("nothing is wrong", tier)
        check(row.get("offloaded", 0) >= ROUNDS - 5 and row["kept_bytes"] > 10 * RENT,
              "%s: operands stay" % tier, row)
        failing(bench, tier)
        small(bench, tier)
        taken(bench, tier, folder)


if __name__ == "__main__":
    sys.exit(fake.main("resident", body))
