#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Whatever is wrong with a card, its driver, its libraries or the settings: the
program prints what it prints without ferry, ends with the same status, and
nothing is said unless --explain or --report asks. On the fake CUDA; run by make
check, prints TAP.
"""
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

import fake
from fake import FAKE, FERRY, check

CALLS = fake.calls("dgemm:64*3", "dgesv:140", "dpotrf:140", "singular:130",
                   "dgemv:70", "dgemm:40*2")
# Every call of the fake fails once: the first ones one by one, then some.
FIRST, SOME = 14, (19, 31, 47, 83, 149)

class Bench:
    """The program's own output, and runs that are compared with it."""

    def __init__(self, folder):
        self.folder = folder
        self.report = os.path.join(folder, "report.json")
        self.plain = subprocess.run(CALLS, env=self.environment(FAKE),
                                    capture_output=True, text=True,
                                    timeout=300, check=False)

    @staticmethod
    def environment(libraries, **extra):
        return fake.environment(libraries, **{
            "FAKECUDA_MEMORY": "256M", "CALLS_ROUNDED": "1", **extra})

    def run(self, name, options=("--early", "--device", "cuda", "--force"),
            libraries=FAKE, offloaded=None, why=None, **extra):
        """`offloaded': whether any call was; why: what --explain must say."""
        ferry = [FERRY, "run", "--no-discover", *options]
        env = self.environment(libraries, **extra)
        done = subprocess.run(
            [*ferry, "--report=" + self.report, *(["--explain"] if why else []),
             "--", *CALLS], env=env, capture_output=True, text=True,
            timeout=600, check=False)
        count = 0
        if os.path.exists(self.report):
            with open(self.report, encoding="utf-8") as file:
                count = sum(x["offloaded"] for x in json.load(file)[
                    "functions"])
            os.unlink(self.report)
        problems = []
        if done.returncode != self.plain.returncode:
            problems.append("status %d" % done.returncode)
        if done.stdout != self.plain.stdout:
            problems.append("other results:\n" + done.stdout)
        if why is None and done.stderr:
            problems.append("not silent: " + done.stderr)
        if why and not re.search(why, done.stderr):
            problems.append("does not say %s:\n%s" % (why, done.stderr))
        if offloaded is not None and offloaded != (count > 0):
            problems.append("%d calls were offloaded" % count)
        check(not problems, name, "\n".join(problems))
        return count

    def only(self, names):
        """A folder with some of the fake's libraries."""
        folder = tempfile.mkdtemp(dir=self.folder)
        for name in names:
            os.symlink(os.path.join(FAKE, name), os.path.join(folder, name))
        return folder


def absent(bench):
    nothing = bench.only([])
    bench.run("no libcuda", libraries=nothing, offloaded=False)
    bench.run("no libcuda, explained", libraries=nothing, offloaded=False,
              why=r"no-device.*libcuda")
    # Without the fake's a toolkit's may be found: it does not like the driver.
    driver = bench.only(["libcuda.so.1"])
    bench.run("no cuBLAS, no cuSOLVER", libraries=driver, offloaded=False)
    bench.run("no cuBLAS, explained", libraries=driver, offloaded=False,
              why=r"dgemm_ .*original, (unsupported|device-error).*: cuBLAS: ")
    bench.run("no cuSOLVER: the rest goes", offloaded=True,
              libraries=bench.only(["libcuda.so.1", "libcublas.so.13"]))
    # A library that has none of its functions.
    empty = bench.only(["libcuda.so.1", "libcusolver.so.12"])
    subprocess.run([os.environ.get("CC", "cc").split()[0], "-shared", "-o",
                    os.path.join(empty, "libcublas.so.13"), "-x", "c",
                    os.devnull], check=True)
    bench.run("a cuBLAS without functions", libraries=empty)
    os.unlink(os.path.join(empty, "libcuda.so.1"))
    subprocess.run([os.environ.get("CC", "cc").split()[0], "-shared", "-o",
                    os.path.join(empty, "libcuda.so.1"), "-x", "c",
                    os.devnull], check=True)
    bench.run("a driver without functions", libraries=empty, offloaded=False)
    with open(os.path.join(bench.only([]), "libcuda.so.1"), "w",
              encoding="ascii") as file:
        file.write("no library\n")
        file.flush()
        bench.run("a driver that is no library", offloaded=False,
                  libraries=os.path.dirname(file.name))


def invisible(bench):
    for value in ("", "-1", "7", "garbage", "0,0", "GPU-0"):
        bench.run("CUDA_VISIBLE_DEVICES='%s'" % value,
                  CUDA_VISIBLE_DEVICES=value,
                  offloaded=None if value in ("0,0", "garbage",
                                              "GPU-0") else False)
    bench.run("no device, explained", CUDA_VISIBLE_DEVICES="", offloaded=False,
              why="original, no-device")
    bench.run("no devices", FAKECUDA_DEVICES="0", offloaded=False)
    bench.run("cuda:9", ("--early", "--device", "cuda:9", "--force"), offloaded=False)
    bench.run("cuda:1 of two", ("--early", "--device", "cuda:1", "--force"),
              FAKECUDA_DEVICES="2", offloaded=True)
    bench.run("a driver older than the libraries", FAKECUDA_DRIVER="12040",
              why=r"dgemm_ .*original, (unsupported|device-error).*: cuBLAS: ")
    bench.run("a driver of long ago", FAKECUDA_DRIVER="9000")


def settings(bench):
    for memory in ("1M", "64KiB", "4096", "1TiB"):
        bench.run("memory=" + memory, ("--early", "--device", "cuda,memory=" + memory,
                                       "--force"))
    bench.run("memory=0 is the device's own",
              ("--early", "--device", "cuda,memory=0", "--force"), offloaded=True)
    for value in ("cuda,memory=garbage", "cuda,memory=", "cuda,memory=-1",
                  "cuda:", "cuda:x", "cuda:99999", "cuda,size=1M", "nvidia",
                  "auto,memory=1M"):
        done = subprocess.run([FERRY, "run", "--device", value, "true"],
                              capture_output=True, text=True, check=False)
        check(done.returncode == 2 and done.stderr.startswith(
            "ferry: --device"),
              "--device %s is refused" % value, done)
    for memory in ("40M", "8M", "2M"):
        bench.run("a card with %s" % memory, FAKECUDA_MEMORY=memory)
    bench.run("no page-locked memory", FAKECUDA_PINNED_MEMORY="4096")
    bench.run("auto", ("--device", "auto", "--force"), why=None)
    bench.run("auto, by the model", ("--device", "auto"))
    bench.run("by the model", ("--early", "--device", "cuda"),
              XDG_CACHE_HOME=bench.only([]))
    bench.run("none", ("--device", "none"), offloaded=False)


def failing(bench):
    for n in [*range(1, FIRST + 1), *SOME]:
        bench.run("call %d fails" % n, FAKECUDA_FAIL_ANY=str(n))
    for n in (1, 9, 30, 60, 120):
        bench.run("from call %d on all fail" % n, FAKECUDA_FAIL_ANY="%d+" % n)
    for n in (1, 4, 9, 20):
        bench.run("operation %d fails later" % n, FAKECUDA_FAIL_ASYNC=str(n))
    bench.run("operations fail for ever", FAKECUDA_FAIL_ASYNC="1+",
              offloaded=False)
    bench.run("operations fail, explained", FAKECUDA_FAIL_ASYNC="1+",
              offloaded=False, why="original, (device-error|disabled)")
    for name in ("cublasCreate_v2", "cusolverDnCreate", "cuMemHostAlloc",
                 "cuStreamCreate", "cuEventCreate", "cuMemAlloc_v2",
                 "cublasDgemm_v2", "cuInit", "cuDevicePrimaryCtxRetain"):
        bench.run("%s never works" % name, FAKECUDA_FAIL=name + ":1+")


def jumping(bench):
    """A handler that leaves by siglongjmp runs when the call is over, so nobody
    waits for the device for ever. With the reference BLAS, which may be left."""
    source = os.path.join(os.path.dirname(fake.HERE), "program/signals.c")
    program = os.path.join(bench.folder, "signals")
    reference = [os.path.dirname(x) for x in
                 glob.glob("/usr/lib/*/blas/libblas.so.3")]
    if not reference:
        return
    subprocess.run([os.environ.get("CC", "cc").split()[0], "-O1", "-o", program,
                    source, "-lblas", "-lpthread", "-lm"], check=True)
    # A jump may come before a call is accepted: then signals come at longer intervals,
    # until of the 30 calls that are left, and of 4 calls behind them, 8 are offloaded.
    for microseconds in (1500 << n for n in range(10)):
        done = subprocess.run(
            [FERRY, "run", "--no-discover", "--early", "--device", "cuda", "--force",
             "--report=" + bench.report, "--", program, "jump", str(microseconds)],
            env=fake.environment(reference[0] + ":" + FAKE, FAKECUDA_DELAY="1000"),
            capture_output=True, text=True, timeout=300, check=False)
        with open(bench.report, encoding="utf-8") as file:
            row = json.load(file)["functions"][0]
        os.unlink(bench.report)
        right = done.returncode == 0 and done.stdout == (
            "jumped enough: 1, not to be cancelled: 0\n"
            "afterwards: 0 wrong\n" + 3 * "another thread: 0 wrong\n")
        if not right or row["offloaded"] >= 8:
            break
    check(right and row["offloaded"] >= 8, "handlers that jump out of calls",
          (microseconds, done, row))


def body(folder):
    bench = Bench(folder)
    check(bench.plain.returncode == 0, "without ferry", bench.plain)
    check(bench.run("nothing is wrong", offloaded=True) >= 7,
          "most calls are offloaded")
    for group in (absent, invisible, settings, failing, jumping):
        group(bench)


if __name__ == "__main__":
    sys.exit(fake.main("trouble", body))
