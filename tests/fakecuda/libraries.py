#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The fake cuBLAS, cuSOLVER and cuFFT compute what they should: random shapes,
all types, against NumPy.  Run by make check; prints TAP.  The numbers are of
the host's reference BLAS; what is tested is that every argument gets there.  Long because every family of
routines has a definition of its own here."""
import ctypes as c
import os
import sys

try:
    import numpy as np
except ImportError:
    print("1..0 # SKIP no NumPy")
    sys.exit(77)

if "thread" in os.environ.get("FERRY_SANITIZED", "") or \
        "address" in os.environ.get("FERRY_SANITIZED", ""):
    print("1..0 # SKIP a sanitizer's library cannot be loaded by Python")
    sys.exit(77)

FOLDER = os.path.join(os.environ.get("FERRY_BUILDDIR", "."), "tests/fakecuda/.libs/")
driver = c.CDLL(FOLDER + "libcuda.so.1", mode=c.RTLD_GLOBAL)
cublas = c.CDLL(FOLDER + "libcublas.so.13")
cusolver = c.CDLL(FOLDER + "libcusolver.so.12")
cufft = c.CDLL(FOLDER + "libcufft.so.12")
TYPES = {"S": np.float32, "D": np.float64, "C": np.complex64, "Z": np.complex128}
REAL = {"S": np.float32, "D": np.float64, "C": np.float32, "Z": np.float64}
random = np.random.default_rng(1)
failures = 0
tests = 0


def must(status, what):
    if status != 0:
        raise RuntimeError(f"{what}: {status}")


def setup():
    context = c.c_void_p()
    must(driver.cuInit(0), "cuInit")
    must(driver.cuDevicePrimaryCtxRetain(c.byref(context), 0), "context")
    must(driver.cuCtxSetCurrent(context), "current")
    stream, blas, solver = c.c_void_p(), c.c_void_p(), c.c_void_p()
    must(driver.cuStreamCreate(c.byref(stream), 1), "stream")
    must(cublas.cublasCreate_v2(c.byref(blas)), "cuBLAS")
    must(cublas.cublasSetStream_v2(blas, stream), "cuBLAS stream")
    must(cusolver.cusolverDnCreate(c.byref(solver)), "cuSOLVER")
    must(cusolver.cusolverDnSetStream(solver, stream), "cuSOLVER stream")
    return stream, blas, solver


stream, blas, solver = setup()


class Device:
    """An array on the device, Fortran order, with spare rows (ld)."""

    def __init__(self, array, spare=0):
        self.shape, self.dtype = array.shape, array.dtype
        rows = array.shape[0] + spare
        columns = array.shape[1] if array.ndim == 2 else 1
        self.ld = max(1, rows)
        self.host = np.full((self.ld, max(1, columns)), 99, array.dtype, order="F")
        if array.size:
            self.host[:array.shape[0], :columns] = array.reshape(array.shape[0], columns)
        self.address = c.c_uint64()
        must(driver.cuMemAlloc_v2(c.byref(self.address), c.c_size_t(self.host.nbytes)), "memory")
        must(driver.cuMemcpyHtoD_v2(self.address, c.c_void_p(self.host.ctypes.data),
                                    c.c_size_t(self.host.nbytes)), "to device")

    def get(self):
        must(driver.cuStreamSynchronize(stream), "stream")
        back = np.empty_like(self.host)
        must(driver.cuMemcpyDtoH_v2(c.c_void_p(back.ctypes.data), self.address,
                                    c.c_size_t(back.nbytes)), "from device")
        if not (back[self.shape[0]:] == self.host[self.shape[0]:]).all():
            raise RuntimeError("rows beside the matrix were written")
        must(driver.cuMemFree_v2(self.address), "free")
        columns = self.shape[1] if len(self.shape) == 2 else 1
        return back[:self.shape[0], :columns].reshape(self.shape)


def rand(letter, *shape):
    array = random.uniform(-1, 1, shape)
    if letter in "CZ":
        array = array + 1j * random.uniform(-1, 1, shape)
    return array.astype(TYPES[letter])


def scalar(letter, value):
    return np.array([value], TYPES[letter])


def pass_on(arguments, wide):
    """ctypes arguments: devices, host scalars, integers."""
    out = []
    for one in arguments:
        if isinstance(one, Device):
            out.append(one.address)
        elif isinstance(one, np.ndarray):
            out.append(c.c_void_p(one.ctypes.data))
        elif isinstance(one, int):
            out.append(c.c_int64(one) if wide else c.c_int(one))
        else:
            out.append(one)
    return out


def call(name, *arguments):
    wide = bool(random.integers(2))
    function = getattr(cublas, name + ("_64" if wide else ""))
    must(function(blas, *pass_on(arguments, wide)), name)


def solve(name, *arguments):
    function = getattr(cusolver, "cusolverDn" + name)
    must(function(solver, *pass_on(arguments, False)), name)


def op(trans, a):
    return [a, a.T, a.conj().T][trans]


def size():
    return int(random.integers(1, 40))


def close(letter, got, want, note=""):
    bound = (2e-3 if letter in "SC" else 1e-10) * (1 + np.abs(want).max(initial=0))
    if got.shape != want.shape or not np.abs(got - want).max(initial=0) < bound:
        raise RuntimeError(f"wrong {note} by {np.abs(got - want).max()}")


def check(name, letters, function):
    """function(letter), several times; one TAP line."""
    global tests, failures
    tests += 1
    try:
        for letter in letters:
            for _ in range(3):
                function(letter)
        print(f"ok {tests} - {name}")
    except RuntimeError as error:
        failures += 1
        print(f"# {letter}: {error}\nnot ok {tests} - {name}")


def triangle(uplo, a):
    return np.tril(a) if uplo == 0 else np.triu(a)


def full(uplo, a, hermitian):
    """What a routine that reads one triangle takes a for."""
    low = np.tril(a) if uplo == 0 else (np.triu(a).conj().T if hermitian else np.triu(a).T)
    strict = np.tril(low, -1)
    diagonal = np.diag(np.diag(low).real if hermitian else np.diag(low))
    return strict + (strict.conj().T if hermitian else strict.T) + diagonal


def one_of(*values):
    return values[random.integers(len(values))]


def gemm(letter):
    m, n, k, ta, tb = size(), size(), size(), one_of(0, 1, 2), one_of(0, 1, 2)
    a, b = rand(letter, *((m, k) if ta == 0 else (k, m))), rand(letter, *((k, n) if tb == 0 else (n, k)))
    x, y = rand(letter, m, n), rand(letter, 1)
    alpha, beta = rand(letter, 1), y
    da, db, dc = Device(a, 1), Device(b, 2), Device(x, 3)
    call(f"cublas{letter}gemm_v2", ta, tb, m, n, k, alpha, da, da.ld, db, db.ld, beta, dc, dc.ld)
    close(letter, dc.get(), alpha * (op(ta, a) @ op(tb, b)) + beta * x)


def gemm_strided(letter):
    m, n, k, count = 5, 4, 3, 6
    a, b, x = rand(letter, m, k * count), rand(letter, k, n), rand(letter, m, n * count)
    da, db, dc = Device(a), Device(b), Device(x)
    wide = bool(random.integers(2))
    one, integer = scalar(letter, 1), (c.c_int64 if wide else c.c_int)
    function = getattr(cublas, f"cublas{letter}gemmStridedBatched" + ("_64" if wide else ""))
    must(function(blas, 0, 0, integer(m), integer(n), integer(k), c.c_void_p(one.ctypes.data),
                  da.address, integer(m), c.c_int64(m * k), db.address, integer(k), c.c_int64(0),
                  c.c_void_p(one.ctypes.data), dc.address, integer(m), c.c_int64(m * n),
                  integer(count)), "strided")
    want = np.hstack([a[:, i * k:(i + 1) * k] @ b for i in range(count)]) + x
    close(letter, dc.get(), want)


def gemm_batched(letter):
    m, n, k, count = 5, 4, 3, 6
    a, b, x = rand(letter, m, k * count), rand(letter, k, n), rand(letter, m, n * count)
    da, db, dc = Device(a), Device(b), Device(x)
    bytes_each = a.itemsize
    arrays = [Device(np.array(list, np.uint64)) for list in (
        [da.address.value + i * m * k * bytes_each for i in range(count)],
        [db.address.value] * count,
        [dc.address.value + i * m * n * bytes_each for i in range(count)])]
    call(f"cublas{letter}gemmBatched", 0, 0, m, n, k, scalar(letter, 1), arrays[0], m, arrays[1], k,
         scalar(letter, 1), arrays[2], m, count)
    close(letter, dc.get(), np.hstack([a[:, i * k:(i + 1) * k] @ b for i in range(count)]) + x)


def symm(letter, hermitian=False):
    m, n, side, uplo = size(), size(), one_of(0, 1), one_of(0, 1)
    order = m if side == 0 else n
    a, b, x = rand(letter, order, order), rand(letter, m, n), rand(letter, m, n)
    alpha, beta = rand(letter, 1), rand(letter, 1)
    da, db, dc = Device(a, 1), Device(b, 2), Device(x, 3)
    name = "hemm" if hermitian else "symm"
    call(f"cublas{letter}{name}_v2", side, uplo, m, n, alpha, da, da.ld, db, db.ld, beta, dc, dc.ld)
    s = full(uplo, a, hermitian)
    close(letter, dc.get(), alpha * (s @ b if side == 0 else b @ s) + beta * x)


def rank_k(letter, hermitian=False, two=False):
    n, k, uplo = size(), size(), one_of(0, 1)
    trans = one_of(0, 2) if hermitian else one_of(0, 1)
    shape = (n, k) if trans == 0 else (k, n)
    a, b, x = rand(letter, *shape), rand(letter, *shape), rand(letter, n, n)
    real = hermitian and not two
    alpha = np.array([0.7], REAL[letter]) if real else rand(letter, 1)
    beta = np.array([0.3], REAL[letter]) if hermitian else rand(letter, 1)
    da, db, dc = Device(a, 1), Device(b, 2), Device(x, 3)
    name = ("her" if hermitian else "syr") + ("2k" if two else "k")
    flip = (lambda z: z.conj().T) if hermitian else (lambda z: z.T)
    p, q = (a, b) if trans == 0 else (flip(a), flip(b))
    if two:
        call(f"cublas{letter}{name}_v2", uplo, trans, n, k, alpha, da, da.ld, db, db.ld, beta, dc, dc.ld)
        other = alpha.conj() if hermitian else alpha
        product = alpha * (p @ flip(q)) + other * (q @ flip(p))
    else:
        call(f"cublas{letter}{name}_v2", uplo, trans, n, k, alpha, da, da.ld, beta, dc, dc.ld)
        product = alpha * (p @ flip(p))
    if hermitian:
        x = x - 1j * np.diag(np.diag(x).imag)
    got = dc.get()
    close(letter, triangle(uplo, got), triangle(uplo, product + beta * x))
    other = 1 - uplo
    if not (np.diag(np.diag(got)) + triangle(other, got) - 2 * np.diag(np.diag(got)) ==
            triangle(other, dc.host[:n]) - np.diag(np.diag(dc.host[:n]))).all():
        raise RuntimeError("the other triangle was written")


def triangular(letter, solve_it):
    m, n, side, uplo, trans, diag = size(), size(), one_of(0, 1), one_of(0, 1), one_of(0, 1, 2), one_of(0, 1)
    order = m if side == 0 else n
    a, b, alpha = rand(letter, order, order), rand(letter, m, n), rand(letter, 1)
    a = (a / order + np.eye(order) * 2).astype(a.dtype)
    t = triangle(uplo, a)
    if diag == 1:
        t = t - np.diag(np.diag(t)) + np.eye(order)
    t = op(trans, t)
    da, db = Device(a, 1), Device(b, 2)
    if solve_it:
        call(f"cublas{letter}trsm_v2", side, uplo, trans, diag, m, n, alpha, da, da.ld, db, db.ld)
        want = np.linalg.solve(t, alpha * b) if side == 0 else np.linalg.solve(t.T, (alpha * b).T).T
        close(letter, db.get(), want)
        return
    want = alpha * (t @ b if side == 0 else b @ t)
    if one_of(True, False):
        call(f"cublas{letter}trmm_v2", side, uplo, trans, diag, m, n, alpha, da, da.ld, db, db.ld, db, db.ld)
        close(letter, db.get(), want)
    else:
        dc = Device(rand(letter, m, n), 4)
        call(f"cublas{letter}trmm_v2", side, uplo, trans, diag, m, n, alpha, da, da.ld, db, db.ld, dc, dc.ld)
        close(letter, dc.get(), want)
        close(letter, db.get(), b, "B")


def geam(letter):
    m, n, ta, tb = size(), size(), one_of(0, 1, 2), one_of(0, 1, 2)
    a, b = rand(letter, *((m, n) if ta == 0 else (n, m))), rand(letter, *((m, n) if tb == 0 else (n, m)))
    alpha, beta = rand(letter, 1), rand(letter, 1)
    da, db, dc = Device(a, 1), Device(b, 2), Device(rand(letter, m, n), 3)
    call(f"cublas{letter}geam", ta, tb, m, n, alpha, da, da.ld, beta, db, db.ld, dc, dc.ld)
    close(letter, dc.get(), alpha * op(ta, a) + beta * op(tb, b))


def gemv(letter):
    m, n, t = size(), size(), one_of(0, 1, 2)
    a, x, y = rand(letter, m, n), rand(letter, n if t == 0 else m), rand(letter, m if t == 0 else n)
    alpha, beta = rand(letter, 1), rand(letter, 1)
    da, dx, dy = Device(a, 1), Device(x), Device(y)
    call(f"cublas{letter}gemv_v2", t, m, n, alpha, da, da.ld, dx, 1, beta, dy, 1)
    close(letter, dy.get(), alpha * (op(t, a) @ x) + beta * y)


def symv(letter, hermitian=False):
    n, uplo = size(), one_of(0, 1)
    a, x, y, alpha, beta = rand(letter, n, n), rand(letter, n), rand(letter, n), rand(letter, 1), rand(letter, 1)
    da, dx, dy = Device(a, 1), Device(x), Device(y)
    name = "hemv" if hermitian else "symv"
    call(f"cublas{letter}{name}_v2", uplo, n, alpha, da, da.ld, dx, 1, beta, dy, 1)
    close(letter, dy.get(), alpha * (full(uplo, a, hermitian) @ x) + beta * y)


def trv(letter, solve_it):
    n, uplo, t, diag = size(), one_of(0, 1), one_of(0, 1, 2), one_of(0, 1)
    a, x = rand(letter, n, n), rand(letter, n)
    a = (a / n + np.eye(n) * 2).astype(a.dtype)
    m = triangle(uplo, a)
    if diag == 1:
        m = m - np.diag(np.diag(m)) + np.eye(n)
    da, dx = Device(a, 1), Device(x)
    call(f"cublas{letter}{'trsv' if solve_it else 'trmv'}_v2", uplo, t, diag, n, da, da.ld, dx, 1)
    close(letter, dx.get(), np.linalg.solve(op(t, m), x) if solve_it else op(t, m) @ x)


def ger(letter, name, conjugate=False):
    m, n = size(), size()
    a, x, y, alpha = rand(letter, m, n), rand(letter, m), rand(letter, n), rand(letter, 1)
    da, dx, dy = Device(a, 1), Device(x), Device(y)
    call(f"cublas{letter}{name}_v2", m, n, alpha, dx, 1, dy, 1, da, da.ld)
    close(letter, da.get(), alpha * np.outer(x, y.conj() if conjugate else y) + a)


def rank_1(letter, name, hermitian=False, two=False):
    n, uplo = size(), one_of(0, 1)
    a, x, y = rand(letter, n, n), rand(letter, n), rand(letter, n)
    alpha = np.array([0.7], REAL[letter]) if hermitian and not two else rand(letter, 1)
    da, dx, dy = Device(a, 1), Device(x), Device(y)
    flip = np.conj if hermitian else (lambda z: z)
    if two:
        call(f"cublas{letter}{name}_v2", uplo, n, alpha, dx, 1, dy, 1, da, da.ld)
        sum_ = alpha * np.outer(x, flip(y)) + flip(alpha) * np.outer(y, flip(x))
    else:
        call(f"cublas{letter}{name}_v2", uplo, n, alpha, dx, 1, da, da.ld)
        sum_ = alpha * np.outer(x, flip(x))
    if hermitian:
        a = a - 1j * np.diag(np.diag(a).imag)
    close(letter, triangle(uplo, da.get()), triangle(uplo, sum_ + a))


def vectors(letter):
    n = size()
    x, y, alpha = rand(letter, n), rand(letter, n), rand(letter, 1)
    dx, dy = Device(x), Device(y)
    call(f"cublas{letter}axpy_v2", n, alpha, dx, 1, dy, 1)
    call(f"cublas{letter}swap_v2", n, dx, 1, dy, 1)
    call(f"cublas{letter}scal_v2", n, alpha, dx, 1)
    close(letter, dx.get(), alpha * (y + alpha * x))
    dz = Device(y)
    call(f"cublas{letter}copy_v2", n, dy, -1, dz, 1)
    close(letter, dz.get(), x[::-1])
    close(letter, dy.get(), x)


def answers(letter):
    n = size()
    x, y = rand(letter, n), rand(letter, n)
    dx, dy = Device(x), Device(y)
    result, real, index = np.zeros(1, TYPES[letter]), np.zeros(1, REAL[letter]), np.zeros(1, np.int64)
    prefix = {"S": "S", "D": "D", "C": "Sc", "Z": "Dz"}[letter]
    for name, conjugate in (("dot", 0),) if letter in "SD" else (("dotu", 0), ("dotc", 1)):
        call(f"cublas{letter}{name}_v2", n, dx, 1, dy, 1, result)
        close(letter, result, np.array([np.dot(x.conj() if conjugate else x, y)]), name)
    call(f"cublas{prefix}nrm2_v2", n, dx, 1, real)
    close(letter, real, np.array([np.linalg.norm(x)]), "nrm2")
    call(f"cublas{prefix}asum_v2", n, dx, 1, real)
    close(letter, real, np.array([np.abs(x.real).sum() + np.abs(x.imag).sum()]), "asum")
    call(f"cublasI{letter.lower()}amax_v2", n, dx, 1, index)
    if index[0] != 1 + np.argmax(np.abs(x.real) + np.abs(x.imag)):
        raise RuntimeError("amax")
    dx.get(), dy.get()


# ---- cuSOLVER ----

def work_for(letter, name, *arguments):
    elements = c.c_int()
    solve(f"{letter}{name}_bufferSize", *arguments, c.byref(elements))
    return Device(np.zeros(elements.value, TYPES[letter])), elements.value


def info_of(device, want=0):
    got = int(device.get()[0])
    if got != want:
        raise RuntimeError(f"devInfo {got}, not {want}")


def no_info():
    return Device(np.array([55], np.int32))


def small(letter, name, *arguments):
    """One element too few is an error, and nothing runs."""
    function = getattr(cusolver, f"cusolverDn{letter}{name}")
    if function(solver, *pass_on(arguments, False)) != 3:
        raise RuntimeError("a small work space was taken")


def potrf(letter):
    n, nrhs, uplo = size(), size(), one_of(0, 1)
    g = rand(letter, n, n)
    a, b = (g @ g.conj().T + n * np.eye(n)).astype(g.dtype), rand(letter, n, nrhs)
    da, db = Device(a, 1), Device(b, 2)
    work, lwork = work_for(letter, "potrf", uplo, n, da, da.ld)
    info = no_info()
    small(letter, "potrf", uplo, n, da, da.ld, work, lwork - 1, info)
    solve(f"{letter}potrf", uplo, n, da, da.ld, work, lwork, info)
    solve(f"{letter}potrs", uplo, n, nrhs, da, da.ld, db, db.ld, info)
    info_of(info)
    close(letter, db.get(), np.linalg.solve(a, b))
    factor = triangle(uplo, da.get())
    close(letter, factor @ factor.conj().T if uplo == 0 else factor.conj().T @ factor, a)
    bad = Device(-np.eye(3).astype(TYPES[letter]))
    work, lwork = work_for(letter, "potrf", 0, 3, bad, 3)
    info = no_info()
    solve(f"{letter}potrf", 0, 3, bad, 3, work, lwork, info)
    info_of(info, 1)
    da = Device(a)
    info = no_info()
    work, lwork = work_for(letter, "potri", uplo, n, da, da.ld)
    solve(f"{letter}potrf", uplo, n, da, da.ld, work, lwork, info)
    solve(f"{letter}potri", uplo, n, da, da.ld, work, lwork, info)
    info_of(info)
    close(letter, full(uplo, da.get(), True), np.linalg.inv(a))


def getrf(letter):
    n, nrhs, t = size(), size(), one_of(0, 1, 2)
    a, b = rand(letter, n, n), rand(letter, n, nrhs)
    a = (a + n * np.eye(n)).astype(a.dtype)[random.permutation(n)]
    da, db, pivots = Device(a, 1), Device(b, 2), Device(np.zeros(n, np.int32))
    work, _ = work_for(letter, "getrf", n, n, da, da.ld)
    info = no_info()
    solve(f"{letter}getrf", n, n, da, da.ld, work, pivots, info)
    solve(f"{letter}getrs", t, n, nrhs, da, da.ld, pivots, db, db.ld, info)
    info_of(info)
    close(letter, db.get(), np.linalg.solve(op(t, a), b))


def laswp(letter):
    m, n = size() + 3, size()
    a = rand(letter, m, n)
    pivots = random.integers(1, m + 1, 3).astype(np.int32)
    k1, step = int(random.integers(1, 3)), one_of(1, 1, -1)
    da, dp = Device(a, 2), Device(np.concatenate([np.full(k1 - 1, 77, np.int32), pivots]))
    solve(f"{letter}laswp", n, da, da.ld, k1, k1 + 2, dp, step)
    want = a.copy()
    for i in (0, 1, 2)[::step]:
        want[[k1 - 1 + i, pivots[i] - 1]] = want[[pivots[i] - 1, k1 - 1 + i]]
    close(letter, da.get(), want)


def geqrf(letter):
    n, p = size(), size()
    m = n + size()
    a, b, q = rand(letter, m, n), rand(letter, m, p), "or" if letter in "SD" else "un"
    da, db, tau = Device(a, 1), Device(b, 2), Device(np.zeros(n, TYPES[letter]))
    info = no_info()
    work, lwork = work_for(letter, "geqrf", m, n, da, da.ld)
    small(letter, "geqrf", m, n, da, da.ld, tau, work, lwork - 1, info)
    solve(f"{letter}geqrf", m, n, da, da.ld, tau, work, lwork, info)
    work, lwork = work_for(letter, q + "mqr", 0, 2 if q == "un" else 1, m, p, n, da, da.ld, tau, db, db.ld)
    solve(f"{letter}{q}mqr", 0, 2 if q == "un" else 1, m, p, n, da, da.ld, tau, db, db.ld, work, lwork, info)
    work, lwork = work_for(letter, q + "gqr", m, n, n, da, da.ld, tau)
    solve(f"{letter}{q}gqr", m, n, n, da, da.ld, tau, work, lwork, info)
    info_of(info)
    got = da.get()
    close(letter, got.conj().T @ got, np.eye(n), "Q'Q")
    close(letter, got @ (got.conj().T @ a), a, "QQ'A")
    close(letter, db.get()[:n], got.conj().T @ b, "Q'B")


def syevd(letter):
    n, uplo = size(), one_of(0, 1)
    a, name = rand(letter, n, n), "syevd" if letter in "SD" else "heevd"
    s = full(uplo, a, letter in "CZ")
    da, values = Device(a, 1), Device(np.zeros(n, REAL[letter]))
    info = no_info()
    work, lwork = work_for(letter, name, 1, uplo, n, da, da.ld, values)
    solve(f"{letter}{name}", 1, uplo, n, da, da.ld, values, work, lwork, info)
    info_of(info)
    w, v = values.get(), da.get()
    close(letter, w, np.linalg.eigvalsh(s).astype(w.dtype), "eigenvalues")
    close(letter, s @ v, v * w, "eigenvectors")


def gesvd(letter):
    n = size()
    m = n + size()
    a = rand(letter, m, n)
    da, s = Device(a, 1), Device(np.zeros(n, REAL[letter]))
    u, vt = Device(np.zeros((m, n), TYPES[letter]), 1), Device(np.zeros((n, n), TYPES[letter]), 2)
    info = no_info()
    work, lwork = work_for(letter, "gesvd", m, n)
    solve(f"{letter}gesvd", c.c_byte(ord("S")), c.c_byte(ord("S")), m, n, da, da.ld, s, u, u.ld, vt, vt.ld,
          work, lwork, None, info)
    info_of(info)
    close(letter, (u.get() * s.get()) @ vt.get(), a)


# ---- cuFFT ----

def plan_for(type_, shape, batch, many=None):
    plan, n = c.c_int(), (c.c_int * len(shape))(*shape)
    if many:
        must(cufft.cufftPlanMany(c.byref(plan), len(shape), n, *many, type_, batch), "plan")
    elif len(shape) == 1:
        must(cufft.cufftPlan1d(c.byref(plan), shape[0], type_, batch), "plan")
    elif len(shape) == 2:
        must(cufft.cufftPlan2d(c.byref(plan), *shape, type_), "plan")
    else:
        must(cufft.cufftPlan3d(c.byref(plan), *shape, type_), "plan")
    must(cufft.cufftSetStream(plan, stream), "stream")
    return plan


def flat(array):
    return Device(np.ascontiguousarray(array).reshape(-1))


def fft(letter):
    for shape in ((30,), (17,), (64,), (6, 10), (5, 4, 6)):
        batch = 3 if len(shape) == 1 else 1
        a = rand(letter, batch, *shape)
        axes = tuple(range(1, 1 + len(shape)))
        execute = getattr(cufft, "cufftExecC2C" if letter == "C" else "cufftExecZ2Z")
        plan = plan_for(0x29 if letter == "C" else 0x69, shape, batch)
        d, out = flat(a), flat(np.zeros_like(a))
        must(execute(plan, d.address, out.address, -1), "forward")
        close(letter, out.get().reshape(a.shape), np.fft.fftn(a, axes=axes), f"forward {shape}")
        must(execute(plan, d.address, d.address, 1), "inverse")
        close(letter, d.get().reshape(a.shape), np.fft.ifftn(a, axes=axes) * np.prod(shape), "inverse")
        must(cufft.cufftDestroy(plan), "destroy")


def fft_real(letter):
    wide = letter == "Z"
    real = "D" if wide else "S"
    there = getattr(cufft, "cufftExecD2Z" if wide else "cufftExecR2C")
    back = getattr(cufft, "cufftExecZ2D" if wide else "cufftExecC2R")
    for shape in ((30,), (17,), (6, 10), (6, 9), (5, 4, 6)):
        batch = 3 if len(shape) == 1 else 1
        a = rand(real, batch, *shape)
        axes = tuple(range(1, 1 + len(shape)))
        want = np.fft.rfftn(a, axes=axes)
        d, out = flat(a), flat(np.zeros(want.shape, TYPES[letter]))
        plan = plan_for(0x6a if wide else 0x2a, shape, batch)
        must(there(plan, d.address, out.address), "there")
        must(driver.cuStreamSynchronize(stream), "stream")
        inverse = plan_for(0x6c if wide else 0x2c, shape, batch)
        must(back(inverse, out.address, d.address), "back")
        close(letter, d.get().reshape(a.shape) / np.prod(shape), a, f"there and back {shape}")
        d, out = flat(a), flat(np.zeros(want.shape, TYPES[letter]))
        must(there(plan, d.address, out.address), "there")
        close(letter, out.get().reshape(want.shape), want, f"there {shape}")
        padded = np.zeros(shape[:-1] + (2 * (shape[-1] // 2 + 1),), a.dtype) if batch == 1 else \
            np.zeros((batch, 2 * (shape[-1] // 2 + 1)), a.dtype)
        padded[..., :shape[-1]] = a if batch > 1 else a[0]
        d = flat(padded)
        must(there(plan, d.address, d.address), "in place")
        close(letter, d.get().view(TYPES[letter]).reshape(want.shape), want, f"in place {shape}")
        must(cufft.cufftDestroy(plan), "destroy")
        must(cufft.cufftDestroy(inverse), "destroy")


def fft_many(letter):
    """Columns of a row-major matrix with spare columns, and a transposed result."""
    n, columns, spare = 12, 5, 7
    a = rand(letter, n, spare)
    d, out = flat(a), flat(np.zeros((columns, n), TYPES[letter]))
    embed = (c.c_int * 1)(n)
    plan = plan_for(0x29 if letter == "C" else 0x69, (n,), columns, (embed, spare, 1, embed, 1, n))
    execute = getattr(cufft, "cufftExecC2C" if letter == "C" else "cufftExecZ2Z")
    must(execute(plan, d.address, out.address, -1), "many")
    close(letter, out.get().reshape(columns, n), np.fft.fft(a[:, :columns], axis=0).T)
    must(cufft.cufftDestroy(plan), "destroy")
    if cufft.cufftDestroy(plan) != 1:
        raise RuntimeError("a plan was destroyed twice")


ALL = "SDCZ"
check("gemm", ALL, gemm)
check("gemm, strided batches", ALL, gemm_strided)
check("gemm, batches by pointer", ALL, gemm_batched)
check("symm", ALL, symm)
check("hemm", "CZ", lambda letter: symm(letter, True))
check("syrk", ALL, rank_k)
check("herk", "CZ", lambda letter: rank_k(letter, True))
check("syr2k", ALL, lambda letter: rank_k(letter, False, True))
check("her2k", "CZ", lambda letter: rank_k(letter, True, True))
check("trmm", ALL, lambda letter: triangular(letter, False))
check("trsm", ALL, lambda letter: triangular(letter, True))
check("geam", ALL, geam)
check("gemv", ALL, gemv)
check("symv", ALL, symv)
check("hemv", "CZ", lambda letter: symv(letter, True))
check("trmv", ALL, lambda letter: trv(letter, False))
check("trsv", ALL, lambda letter: trv(letter, True))
check("ger", "SD", lambda letter: ger(letter, "ger"))
check("geru", "CZ", lambda letter: ger(letter, "geru"))
check("gerc", "CZ", lambda letter: ger(letter, "gerc", True))
check("syr", ALL, lambda letter: rank_1(letter, "syr"))
check("her", "CZ", lambda letter: rank_1(letter, "her", True))
check("syr2", "SD", lambda letter: rank_1(letter, "syr2", False, True))
check("her2", "CZ", lambda letter: rank_1(letter, "her2", True, True))
check("axpy, swap, scal, copy", ALL, vectors)
check("dot, nrm2, asum, amax", ALL, answers)
check("potrf, potrs, potri", ALL, potrf)
check("getrf, getrs", ALL, getrf)
check("laswp", ALL, laswp)
check("geqrf, ormqr, orgqr", ALL, geqrf)
check("syevd", ALL, syevd)
check("gesvd", ALL, gesvd)
check("fft", "CZ", fft)
check("fft of reals", "CZ", fft_real)
check("fft with strides", "CZ", fft_many)
print(f"1..{tests}")
sys.exit(1 if failures else 0)
