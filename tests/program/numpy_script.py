# SPDX-License-Identifier: Apache-2.0
"""An ordinary NumPy program: prints residuals as true or false, whole-number
results exactly, and what threads, forks and ctypes callers get."""
import ctypes
import multiprocessing
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np


def whole(seed, shape):
    """Small whole numbers: their products are exact."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(float)


def product(seed):
    """A checksum of a product, and whether it is right."""
    a, b = whole(seed, (70, 50)), whole(seed + 1, (50, 90))
    right = (a.astype(np.int64) @ b.astype(np.int64)).astype(float)
    return float((a @ b).sum()), bool(((a @ b) == right).all())


def main():
    a, b = whole(1, (120, 80)), whole(2, (80, 100))
    print("matmul", (a @ b).sum(), (a.T @ a).sum(), (b @ b.T).sum())
    print("views", (a[::2, ::-1] @ b[:, 3:90:3]).sum(),
          (a[5:50, 7:60].T @ a[5:50, 1:9]).sum())
    print("vectors", a[0] @ b[:, 0], (a @ b[:, 1]).sum(), np.vdot(a[1], a[2]))
    z = a[:80] + 1j * b.T[:80]
    print("complex", (z @ z.conj().T).sum(), np.vdot(z[0], z[1]))
    print("out", np.dot(a, b, out=np.empty((120, 100))).sum())
    print("float32", (a.astype("f") @ b.astype("f")).sum())
    print("empty", (np.ones((0, 5)) @ np.ones((5, 3))).shape,
          (np.ones((4, 0)) @ np.ones((0, 3))).sum())
    print("einsum", np.einsum("ij,jk->ik", a, b, optimize=True).sum())

    eps = np.finfo(float).eps
    g = np.random.default_rng(3).standard_normal((90, 90))
    s = g @ g.T + 90 * np.eye(90)
    v = np.linalg
    bound = 1000 * 90 * eps
    print("solve", np.abs(g @ v.solve(g, g[:, :5]) - g[:, :5]).max()
          < bound * v.cond(g))
    low = v.cholesky(s)
    print("cholesky", np.abs(low @ low.T - s).max() < bound * 90)
    values, vectors = v.eigh(s)
    print("eigh", np.abs(vectors * values @ vectors.T - s).max() < bound * 90)
    left, sizes, right = v.svd(g)
    print("svd", np.abs(left * sizes @ right - g).max() < bound * 20)
    q, r = v.qr(g)
    print("qr", np.abs(q @ r - g).max() < bound * 20)
    print("nan", np.isnan(np.full((40, 40), np.nan) @ np.eye(40)).sum())

    with ThreadPoolExecutor(6) as pool:
        print("threads", sorted(pool.map(product, range(12))))
    fork = multiprocessing.get_context("fork")
    with fork.Pool(2) as pool:
        print("fork", pool.map(product, range(4)))
    blas = ctypes.CDLL("libblas.so.3")
    blas.cblas_ddot.restype = ctypes.c_double
    pointer = a.ctypes.data_as(ctypes.POINTER(ctypes.c_double))
    print("ctypes", blas.cblas_ddot(800, pointer, 1, pointer, 2))
    try:
        v.inv(np.zeros((3, 3)))
    except v.LinAlgError as error:
        print("singular", error)
    sys.exit(3)


if __name__ == "__main__":
    main()
