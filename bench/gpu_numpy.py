# SPDX-License-Identifier: Apache-2.0
"""What bench/gpu times of NumPy: matmul, solve, svd and eigh, each once after
a small one, and the residual of each. Prints JSON.

  gpu_numpy.py N
"""
import json
import sys
import time

import numpy as np


def residual(got, want):
    """Relative difference of two vectors."""
    return float(np.abs(got - want).max() / np.abs(want).max())


def main():
    n = int(sys.argv[1])
    random = np.random.default_rng(1)
    a, b = random.standard_normal((n, n)), random.standard_normal((n, n))
    s = a + a.T
    x = random.standard_normal(n)
    v = np.linalg
    rows = (
        ("matmul", lambda m: a[:m, :m] @ b[:m, :m],
         lambda c: residual(c @ x, a @ (b @ x))),
        ("solve", lambda m: v.solve(a[:m, :m], b[:m, :m]),
         # The error may be that of the condition, the residual may not.
         lambda c: residual(a @ (c @ x), b @ x)),
        ("svd", lambda m: v.svd(a[:m, :m]),
         lambda c: residual(c[0] @ (c[1] * (c[2] @ x)), a @ x)),
        ("eigh", lambda m: v.eigh(s[:m, :m]),
         lambda c: residual(c[1] @ (c[0] * (c[1].T @ x)), s @ x)),
    )
    out = {}
    for name, function, check in rows:
        function(max(1, n // 8))  # starts threads, opens libraries
        start = time.monotonic()
        result = function(n)
        out[name] = {"seconds": time.monotonic() - start,
                     "residual": check(result)}
    print(json.dumps(out))


if __name__ == "__main__":
    main()
