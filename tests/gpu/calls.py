# SPDX-License-Identifier: Apache-2.0
"""Calls of the system's BLAS and LAPACK by ctypes, one line of output each: what
they return and a digest of all bytes they were given. Arguments: calls, as
dgemm:40 or dgemm:40*7 for seven of them. Needs no NumPy. Run under ferry by
tests/gpu/*.py. With CALLS_ROUNDED a rounded sum stands for the digest.
"""
import array
import ctypes
import hashlib
import os
import sys

BLAS = ctypes.CDLL("libblas.so.3")
LAPACK = ctypes.CDLL("liblapack.so.3")


def integer(value):
    return ctypes.byref(ctypes.c_int(value))


def char(text):
    return ctypes.c_char_p(text.encode())


class Call:
    """Arrays that are kept for the digest, filled from a seed."""

    def __init__(self, seed):
        self.state, self.arrays = seed * 2654435761 % 2 ** 32, []

    def reals(self, count, scale=1.0, shift=0.0):
        values = array.array("d")
        for _ in range(count):
            self.state = (self.state * 1103515245 + 12345) % 2 ** 31
            values.append(((self.state >> 8) % 2001 - 1000) / 1000.0 * scale
                          + shift)
        return self.keep(values)

    def keep(self, values):
        self.arrays.append(values)
        return values

    def at(self, values):
        return ctypes.c_void_p(values.buffer_info()[0])

    def digest(self):
        if "CALLS_ROUNDED" in os.environ:
            return "%.7g" % sum(x * (i % 13 - 5.3) for y in self.arrays
                                for i, x in enumerate(y))
        return hashlib.sha256(b"".join(x.tobytes() for x in self.arrays)
                              ).hexdigest()[:16]


def dgemm(call, n):
    a, b, c = (call.reals(n * n) for _ in range(3))
    scalars = call.keep(array.array("d", [2.0, 0.5]))
    BLAS.dgemm_(char("N"), char("T"), integer(n), integer(n), integer(n),
                call.at(scalars), call.at(a), integer(n), call.at(b),
                integer(n), ctypes.c_void_p(call.at(scalars).value + 8),
                call.at(c), integer(n))


def dgemv(call, n):
    a, x, y = call.reals(n * n), call.reals(n), call.reals(2 * n)
    scalars = call.keep(array.array("d", [2.0, 0.5]))
    BLAS.dgemv_(char("T"), integer(n), integer(n), call.at(scalars),
                call.at(a), integer(n), call.at(x), integer(-1),
                ctypes.c_void_p(call.at(scalars).value + 8), call.at(y),
                integer(2))


def ddot(call, n):
    BLAS.ddot_.restype = ctypes.c_double
    return BLAS.ddot_(integer(n), call.at(call.reals(n)), integer(1),
                      call.at(call.reals(n)), integer(1))


def solve(call, n, a):
    b, info = call.reals(n), call.keep(array.array("i", [7]))
    pivots = call.keep(array.array("i", [0] * n))
    LAPACK.dgesv_(integer(n), integer(1), call.at(a), integer(n),
                  call.at(pivots), call.at(b), integer(n), call.at(info))
    return info[0]


def dgesv(call, n):
    return solve(call, n, call.reals(n * n))


def hilbert(call, n):
    """A system whose solution is all rounding."""
    return solve(call, n, call.keep(array.array("d", [
        1.0 / (i + j + 1) for j in range(n) for i in range(n)])))


def singular(call, n):
    """info > 0."""
    return solve(call, n, call.keep(array.array("d", [1.0] * n * n)))


def dpotrf(call, n):
    a, info = call.reals(n * n), call.keep(array.array("i", [7]))
    for i in range(n):
        a[i * n + i] += 2.0 * n
    LAPACK.dpotrf_(char("L"), integer(n), call.at(a), integer(n),
                   call.at(info))
    return info[0]


def dsyev(call, n):
    """Vectors and values of a matrix."""
    a, w = call.reals(n * n), call.reals(n)
    work = array.array("d", [0.0] * (34 * n))
    info = call.keep(array.array("i", [7]))
    LAPACK.dsyev_(char("V"), char("U"), integer(n), call.at(a), integer(n),
                  call.at(w), call.at(work), integer(34 * n), call.at(info))
    return info[0]


def main():
    for word in sys.argv[1:]:
        name, _, rest = word.partition(":")
        order, _, times = rest.partition("*")
        for seed in range(int(times or 1)):
            call = Call(seed + 1)
            value = globals()[name](call, int(order))
            print(word, value, call.digest(), flush=True)


if __name__ == "__main__":
    main()
