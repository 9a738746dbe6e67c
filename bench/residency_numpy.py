#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The workloads of residency.c in NumPy, with the same trace: `residency_numpy.py MODE N'."""
import hashlib
import os
import sys

import numpy as np

TRACE = os.environ.get("RESIDENCY_TRACE")
LINES = open(TRACE, "w", encoding="ascii") if TRACE else None
ROUNDS = 12


def operand(array, access):
    """Address, bytes and access; a transposed view has its base's memory."""
    return " %d:%d:%s" % (array.__array_interface__["data"][0], array.nbytes, access)


def wrote(*arrays):
    """The program has given these other values."""
    if LINES:
        print("write" + "".join(operand(x, "w") for x in arrays), file=LINES)


def times(a, b):
    """a @ b, told of."""
    c = a @ b
    if LINES:
        print("call dot" + operand(a, "r") + operand(b, "r") + operand(c, "w"),
              file=LINES)
    if a.base is b or b.base is a: # dsyrk, and NumPy writes the other triangle
        wrote(c)
    return c


def inner(a, b):
    """No call of BLAS, which would not be in the trace."""
    return (a * b).sum()


def matrix(rows, columns, seed):
    return np.random.default_rng(seed).random((rows, columns)) - 0.4


def chain(n):
    a, b = matrix(n, n, 1), matrix(n, n, 2) / n
    for _ in range(ROUNDS):
        a = times(a, b)
    return a


def power(n):
    a, x = matrix(n, n, 1), matrix(n, 1, 2)[:, 0]
    for _ in range(5 * ROUNDS):
        y = times(a, x)
        x = y / np.sqrt(inner(y, y))
        wrote(x)
    return x


def gradients(n):
    b = matrix(n, n, 1)
    a = times(b.T, b)
    a += n * np.eye(n)
    wrote(a)
    r = matrix(n, 1, 3)[:, 0]
    x, p = np.zeros(n), r.copy()
    rr = inner(r, r)
    for _ in range(2 * ROUNDS):
        q = times(a, p)
        alpha = rr / inner(p, q)
        x += alpha * p
        r -= alpha * q
        rr, before = inner(r, r), rr
        p = r + rr / before * p
        wrote(p)
    return x


def kmeans(n):
    points, centres = matrix(n, n, 1), matrix(64, n, 2)
    for _ in range(ROUNDS):
        d = times(centres, points)
        centres += d / n / 100
        wrote(centres)
    return centres


def components(n):
    data = matrix(n, n, 1)
    c = times(data.T, data)
    v = matrix(n, 16, 3)
    for _ in range(ROUNDS):
        w = times(c, v)
        for k in range(16):
            w[:, k] -= (v[:, :k] * (v[:, :k] * w[:, k:k + 1]).sum(0)).sum(1)
            v[:, k] = w[:, k] / np.sqrt(inner(w[:, k], w[:, k]))
        wrote(v)
    return v


def training(n):
    x, w1, w2 = matrix(n, n, 1), matrix(n, n, 2), matrix(n, n, 3)
    for _ in range(ROUNDS // 2):
        h = np.maximum(times(w1, x), 0) / n
        wrote(h)
        y = (times(w2, h) - 0.5) / n
        wrote(y)
        g = times(w2.T, y)
        w2 -= times(y, h.T)
        w1 -= times(g, x.T)
        wrote(w1, w2)
    return w1 + w2


MODES = {f.__name__: f for f in (chain, power, gradients, kmeans, components, training)}

if __name__ == "__main__":
    print(hashlib.sha256(np.ascontiguousarray(
        MODES[sys.argv[1]](int(sys.argv[2])))).hexdigest()[:16])
    if LINES:
        LINES.close()
