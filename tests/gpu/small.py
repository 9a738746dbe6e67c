# SPDX-License-Identifier: Apache-2.0
"""Products of whole numbers, exact in any order, in the situation that the
first argument names: plain fork threads children memory. Prints the same with
and without ferry, whatever the card does. Run by tests/gpu/run.
"""
import ctypes
import multiprocessing
import os
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np

N = 300


def product(seed):
    random = np.random.default_rng(seed)
    a, b = (random.integers(-4, 5, (N, N)).astype(float) for _ in range(2))
    c = a @ b
    right = a.astype(np.int64) @ b.astype(np.int64)
    return int(c.sum()), bool((c == right).all())


def forked():
    """A child computes after its parent has used the card, then the parent."""
    print(product(1), flush=True)
    child = os.fork()
    if child == 0:
        print("child", product(2), flush=True)
        os._exit(0)
    print(os.waitpid(child, 0)[1], product(3))


def children():
    with multiprocessing.get_context("fork").Pool(3) as pool:
        print(product(1), pool.map(product, range(6)), product(2))


def no_memory():
    """Computes while this process itself holds most of the card's memory."""
    driver = ctypes.CDLL("libcuda.so.1")
    context, free, total = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
    address = ctypes.c_uint64()
    if driver.cuInit(0) == 0 and driver.cuDevicePrimaryCtxRetain(
            ctypes.byref(context), 0) == 0:
        driver.cuCtxPushCurrent_v2(context)
        driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
        take = free.value - (64 << 20)
        while take > (1 << 20) and driver.cuMemAlloc_v2(
                ctypes.byref(address), ctypes.c_size_t(take)):
            take -= take // 16
    print([product(i) for i in range(3)])


def main():
    word = sys.argv[1]
    if word == "fork":
        forked()
    elif word == "children":
        children()
    elif word == "memory":
        no_memory()
    elif word == "threads":
        with ThreadPoolExecutor(8) as pool:
            print(list(pool.map(product, range(16))))
    else:
        print([product(i) for i in range(3)])


if __name__ == "__main__":
    main()
