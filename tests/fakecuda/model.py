#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The card that tests/fakecuda simulates in time: engines work side by side, a
stream's operations one after the other, memory that libraries take is counted,
a model that is not known is refused. Prints TAP; bench/gpu --model relies on it.
"""
import os
import subprocess
import sys
import tempfile

BUILD = os.path.abspath(os.environ.get("FERRY_BUILDDIR", "."))
LIBRARIES = os.path.join(BUILD, "tests/fakecuda/.libs")
CLOCK = os.path.join(LIBRARIES, "libfakeclock.so")

# Run in a process with the clock preloaded: prints a name and a number a line.
PROGRAM = r"""
import ctypes, time
from ctypes import byref, c_double, c_int, c_size_t, c_uint64, c_void_p
clock = ctypes.CDLL(None)
clock.fakeclock_begin()
begin = time.monotonic()
cuda = ctypes.CDLL("libcuda.so.1")
blas = ctypes.CDLL("libcublas.so.13")
def must(status):
    if status:
        raise SystemExit("status %d" % status)
must(cuda.cuInit(0))
context = c_void_p()
must(cuda.cuDevicePrimaryCtxRetain(byref(context), 0))
must(cuda.cuCtxPushCurrent_v2(context))
handle = c_void_p()
free, total = c_size_t(), c_size_t()
must(blas.cublasCreate_v2(byref(handle)))
print("opened", time.monotonic() - begin)
must(cuda.cuMemGetInfo_v2(byref(free), byref(total)))
print("total", total.value)
print("taken", total.value - free.value)
MIB = 1 << 20
N = 4096
BYTES = 8 * N * N
host, streams, device = [c_void_p(), c_void_p()], [], [c_uint64() for _ in range(5)]
for one in host:
    must(cuda.cuMemHostAlloc(byref(one), c_size_t(BYTES), 0))
for one in device:
    must(cuda.cuMemAlloc_v2(byref(one), c_size_t(BYTES)))
for _ in range(3):
    streams.append(c_void_p())
    must(cuda.cuStreamCreate(byref(streams[-1]), 1))
a, b = c_double(1), c_double(0)
def copy_in(stream):
    must(cuda.cuMemcpyHtoDAsync_v2(device[3], host[0], c_size_t(BYTES), stream))
def copy_out(stream):
    must(cuda.cuMemcpyDtoHAsync_v2(host[1], device[4], c_size_t(BYTES), stream))
def product(stream):
    must(blas.cublasSetStream_v2(handle, stream))
    must(blas.cublasDgemm_v2(handle, 0, 0, N, N, N, byref(a), device[0], N,
                             device[1], N, byref(b), device[2], N))
def took(name, *work):
    start = time.monotonic()
    for operation, stream in work:
        operation(stream)
    for stream in streams:
        must(cuda.cuStreamSynchronize(stream))
    print(name, time.monotonic() - start)
took("first product", (product, streams[2]))
took("in", (copy_in, streams[0]))
took("out", (copy_out, streams[1]))
took("product", (product, streams[2]))
took("apart", (copy_in, streams[0]), (copy_out, streams[1]), (product, streams[2]))
took("ordered", (copy_in, streams[0]), (product, streams[0]), (copy_out, streams[0]))
took("two", (product, streams[1]), (product, streams[2]))
big = c_uint64()
must(cuda.cuMemGetInfo_v2(byref(free), byref(total)))
print("refused", cuda.cuMemAlloc_v2(byref(big), c_size_t(free.value + MIB)))
"""
tests = failures = 0


def check(good, name, detail=""):
    global tests, failures
    tests += 1
    failures += not good
    if not good:
        print("# " + str(detail).strip().replace("\n", "\n# "))
    print("%sok %d - %s" % ("" if good else "not ", tests, name), flush=True)


def run(model, program=PROGRAM, preload=CLOCK):
    """(status, name -> number, stderr)"""
    env = dict(os.environ, FAKECUDA_MODEL=model, LD_LIBRARY_PATH=LIBRARIES)
    env.pop("LD_PRELOAD", None)
    if preload:
        env["LD_PRELOAD"] = preload
    done = subprocess.run([sys.executable, "-c", program], env=env, text=True,
                          capture_output=True, check=False)
    rows = [x.rsplit(" ", 1) for x in done.stdout.splitlines()]
    return done.returncode, {x: float(y) for x, y in rows}, done.stderr


def near(value, wanted, share=0.03):
    """Equal but for a share, and the processor's time of host calls on a slow machine."""
    return abs(value - wanted) <= share * wanted + 0.0005


def stays(order, tier, wanted):
    """Whether later products of sgemm find operands on an l4."""
    env = dict(os.environ, FAKECUDA_MODEL="l4", LD_LIBRARY_PATH=LIBRARIES,
               LD_PRELOAD=CLOCK + ":" + os.path.join(LIBRARIES, "libhostblas.so"))
    done = subprocess.run(
        [os.path.join(BUILD, "ferry"), "run", "--early", "--report", "--device", "cuda",
         "--residency", tier, "--", os.path.join(BUILD, "bench/gpu_calls"), "-r", "2", "blas",
         "sgemm:%d" % order], env=env, text=True, capture_output=True, check=False)
    check(done.returncode == 0 and " 3 offloaded" in done.stderr and
          ("on the device already" in done.stderr) == wanted,
          "operands of order %d by %s: %s" % (
              order, tier, "stay" if wanted else "kernels hide copies"), done.stderr)


def engines(model, gib):
    status, t, err = run(model)
    check(status == 0, model + ": runs", err)
    if status:
        return None
    check(t["total"] == gib << 30, model + ": has its memory", t)
    longest = max(t["in"], t["out"], t["product"])
    check(t["apart"] >= longest and
          t["apart"] < 0.4 * longest + 0.6 * (t["in"] + t["out"] + t["product"]),
          model + ": three engines work side by side", t)
    check(near(t["ordered"], t["in"] + t["out"] + t["product"]),
          model + ": one after the other within a stream", t)
    check(near(t["two"], 2 * t["product"]),
          model + ": one kernel at a time", t)
    check(t["first product"] > t["product"] + 0.005,
          model + ": the first kernel of a kind is loaded", t)
    check(500 << 20 < t["taken"] < 1 << 30 and t["refused"] == 2,
          model + ": memory of the context and the libraries counts", t)
    check(t["opened"] > 0.1, model + ": opening takes time", t)
    return t


def main():
    first = engines("h100-sxm", 80)
    engines("l4", 24)
    status, again, err = run("h100-sxm")
    names = ("in", "out", "product", "apart", "ordered", "two")
    check(status == 0 and first and
          all(near(again[x], first[x], 0.02) for x in names),
          "another run has the same times", (first, again, err))
    for name, preload, text in (("h100", CLOCK, "no such card"),
                                ("h100-sxm", None, "libfakeclock.so")):
        status, _, err = run(name, "import ctypes, sys\n"
                             "cuda = ctypes.CDLL('libcuda.so.1')\n"
                             "sys.exit(cuda.cuInit(0))\n", preload)
        check(status == 1 and text in err, "refused: " + text, (status, err))
    # Kernels of order 8192 take 0.037 s, the copies in 0.021 s; of 4096 0.0046 and 0.0054.
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        stays(4096, "auto", True)
        stays(8192, "auto", False)
        stays(8192, "write-through", True)
    print("1..%d" % tests)
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
