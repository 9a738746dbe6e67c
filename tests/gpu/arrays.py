# SPDX-License-Identifier: Apache-2.0
"""An ordinary NumPy program (and SciPy, where it is): products and solvers of
every type, order, stride and shape. Prints a line for each: its name, a
projection of the result, and what the projection may differ by. Run by
tests/gpu/run with and without ferry; knows nothing of either.

  arrays.py LARGEST
"""
import sys

import numpy as np

try:
    import scipy.linalg as sl
except ImportError:
    sl = None

TYPES = (np.float32, np.float64, np.complex64, np.complex128)
SIZES = (1, 7, 65, 250, 1024, 2048, 4096)


def make(seed, kind, *shape):
    """Numbers of that type, the same in every run."""
    random = np.random.default_rng(seed)
    a = random.uniform(-1, 1, shape)
    if np.issubdtype(kind, np.complexfloating):
        a = a + 1j * random.uniform(-1, 1, shape)
    return a.astype(kind)


def say(name, result, scale=1.0):
    """The projection of a result on signs, and its bound: rounding of sums
    over the longest extent, `scale' for what a solver adds."""
    result = np.asarray(result)
    flat = result.reshape(-1)
    signs = np.resize(np.array([1, 1, -1, 1, -1, -1, 1]), flat.size)
    value = (flat.astype(np.complex128) * signs).sum()
    size = float(np.sqrt((np.abs(flat.astype(np.complex128)) ** 2).sum()))
    eps = np.finfo(result.dtype).eps
    longest = max(result.shape, default=1)
    bound = 32 * scale * eps * max(longest, 16) * size + 1e-300
    print("%s %.17g %.17g %.3g" % (name, value.real, value.imag, bound),
          flush=True)


def products(kind, n):
    """The forms that become calls of gemm and syrk."""
    word = "%s %d" % (np.dtype(kind).name, n)
    a, b = make(1, kind, n, n), make(2, kind, n, n)
    f = np.asfortranarray(b)
    say("matmul " + word, a @ b)
    say("transposed " + word, a.T @ b)
    say("both " + word, a.T @ b.T)
    say("fortran " + word, a @ f)
    say("fortran, transposed " + word, f.T @ a)
    say("conjugated " + word, a.conj().T @ b)
    say("own transpose " + word, a @ a.T)
    say("own product " + word, a.T @ a)
    if n >= 7:
        say("part " + word, a[2:-1, 3:] @ b[3:, 1:-2])
        say("strided " + word, a[::2, ::3] @ b[::3, ::2])
        say("backwards " + word, a[::-1] @ b[:, ::-1])
        say("into a part " + word, np.dot(a, b, out=np.empty_like(a)))
        say("tall " + word, np.tile(a, (3, 1)) @ b[:, :7])
        say("wide " + word, a[:7] @ np.tile(b, (1, 3)))
        say("small k " + word, a[:, :7] @ b[:7])
        say("stack " + word, np.stack([a[:64, :64], b[:64, :64]])
            @ make(3, kind, 2, min(n, 64), 9))
    if np.issubdtype(kind, np.inexact) and n >= 7:
        say("vector " + word, a @ b[:, 1])


def solvers(kind, n):
    """LAPACK by NumPy's names; matrices that are far from singular."""
    word = "%s %d" % (np.dtype(kind).name, n)
    v = np.linalg
    g = make(4, kind, n, n) + n * np.eye(n, dtype=kind)
    s = (g @ g.conj().T) / n
    right = make(5, kind, n, max(1, n // 3))
    say("solve " + word, v.solve(g, right), 16)
    say("solve, one " + word, v.solve(g, right[:, 0]), 16)
    say("solve, fortran " + word, v.solve(np.asfortranarray(g).T, right), 16)
    say("cholesky " + word, v.cholesky(s), 16)
    if n <= 1024:
        say("inv " + word, v.inv(g), 16)
        say("det " + word, np.array(v.slogdet(g)[1]), 16)
    if n <= 250:
        say("eigvalsh " + word, v.eigvalsh(s), 16)
        say("singular values " + word, v.svd(g, compute_uv=False), 16)
        q, r = v.qr(g)
        say("qr " + word, q @ r, 64)


def scipy(kind, n):
    """The level 3 and the factorisations by SciPy's wrappers."""
    word = "%s %d" % (np.dtype(kind).name, n)
    a = make(6, kind, n, n) + n * np.eye(n, dtype=kind)
    b = make(7, kind, n, max(1, n // 2))
    f = np.asfortranarray
    for name, arguments, more in (
            ("symm", (1, f(a + a.T), f(b)), {}),
            ("syrk", (1, f(a)), {}),
            ("syr2k", (1, f(a), f(a * 2)), {}),
            ("trmm", (1, f(a), f(b)), {"lower": 1}),
            ("trsm", (1, f(a), f(b)), {"trans_a": 1}),
            ("hemm", (1, f(a + a.conj().T), f(b)), {}),
            ("herk", (1, f(a)), {})):
        try:
            function = sl.get_blas_funcs(name, (a,))
        except ValueError:
            continue  # real types have no Hermitian ones
        say("%s %s" % (name, word), function(*arguments, **more), 16)
    lu, rows = sl.lu_factor(a)
    say("lu_factor " + word, lu, 16)
    say("its rows " + word, rows.astype(np.float64))
    say("lu_solve " + word, sl.lu_solve((lu, rows), b), 16)
    s = (a @ a.conj().T) / n
    factor = sl.cho_factor(s, lower=True)
    say("cho_solve " + word, sl.cho_solve(factor, b), 64)
    say("solve_triangular " + word, sl.solve_triangular(
        a, b, lower=True, trans=1), 16)


def main():
    largest = int(sys.argv[1])
    for n in SIZES:
        if n > largest:
            break
        for kind in TYPES:
            # The largest: what tells of paths of their own, by two types.
            if n > 2048 and kind in (np.complex64, np.complex128):
                continue
            products(kind, n)
            if n <= 2048 or kind is np.float64:
                solvers(kind, n)
            if sl is not None and n <= 1024:
                scipy(kind, n)


if __name__ == "__main__":
    main()
