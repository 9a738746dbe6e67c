# SPDX-License-Identifier: Apache-2.0
"""The judges: programs of Debian packages, with what they read and must call.

A case runs without ferry, then once per way of WAYS. `fast' cases are part of
./check --both, those with `brief' ways of ./check, all of ./check --full. `expect' names functions of which
forced runs must have offloaded at least one call: a run that offloaded nothing
would prove nothing.
"""
import glob
import os
import re
import shutil

import compare
import ferryrun

LIB = ferryrun.multiarch()
HERE = os.path.dirname(os.path.abspath(__file__))
LIBRARY = os.path.join(HERE, "..", "..", "annotations", "lib")

# name -> options of `ferry run'. %d is the case's seed.
WAYS = {
    "tiny": ["--device", "host,memory=6KiB", "--force",
             "--chunk", "random:%d"],
    "plenty": ["--device", "host,memory=1GiB", "--force"],
    "default": ["--device", "host"],
    # Operands stay on the device, in mirrors that push each other out.
    "resident": ["--device", "host,memory=24MiB", "--force",
                 "--chunk", "random:%d", "--residency", "write-through"],
    "compared": ["--device", "host,memory=24MiB", "--force",
                 "--chunk", "random:%d", "--residency", "compare"],
    # The fake CUDA of tests/fakecuda: the CUDA device's own code.
    "cuda": ["--device", "cuda,memory=6KiB", "--force",
             "--chunk", "random:%d"],
}
# Calls that fit, which they do: the vendor's functions and not parts of them.
WAYS["whole"] = ["--device", "cuda", "--force"]
# The same with ferry's engine and the fake CUDA under ThreadSanitizer.
WAYS["thread"] = WAYS["cuda"]
CUDA_WAYS = ("cuda", "whole", "thread")
HOST_WAYS = ("tiny", "plenty", "default", "resident", "compared")


class Case:
    """One program with one input, for one copy of BLAS."""

    def __init__(self, name, argv, blas, stdin=None, verdict=compare.generic,
                 fast=False, expect=(), out=None, edit=None, extra=None,
                 needs=(), memory=None, timeout=900, split=True,
                 ways=HOST_WAYS, seeds=1, cuda=(), cuda_fast=False,
                 thread=None, source=None, solvers=False, brief=None):
        self.name = name
        self.argv = argv
        self.blas = blas        # LD_LIBRARY_PATH, or None for the machine's
        self.stdin = stdin
        self.verdict = verdict
        self.fast = fast
        # ./check's ways: one copy of BLAS (the same calls go to any), in chunks,
        # and what the cost model lets happen; or those that the case names.
        self.brief = ()
        if fast and blas == list(ferryrun.blas_copies().values() or [None])[-1]:
            self.brief = ("tiny", "default") if brief is None else brief
        elif brief and not fast and ways == ():
            self.brief = brief
        self.expect = expect
        self.out = out          # a file it writes that is compared as well
        self.edit = edit        # (source, name, [(pattern, by)]): its input
        self.extra = extra
        self.needs = needs      # paths without which the case is skipped
        self.memory = memory    # instead of the tiny way's
        self.timeout = timeout
        self.split = split      # forced runs must need several chunks a call
        self.ways = ways
        self.seeds = seeds      # of random chunks, tried in --full
        self.cuda = cuda        # like expect, on the fake CUDA; (): not there
        self.cuda_fast = cuda_fast
        self.thread = thread    # "fast" or "full": in which of ./check's two
        self.source = source    # (C file here, libraries): argv[0] is made of it
        # BLAS stays here: LAPACK's programs call it ten million times inside of
        # what they test.
        self.solvers = solvers

    def options(self, way, seed, folder):
        options = [x % seed if "%d" in x else x for x in WAYS[way]]
        if self.solvers:
            options += ["--annotations", no_blas(folder)]
        if way in ("tiny", "cuda", "thread") and self.memory:
            device = "host" if way == "tiny" else "cuda"
            options[1] = "%s,memory=%s" % (device, self.memory)
        return options

    def missing(self):
        """What this machine lacks for the case, or None."""
        paths = list(self.needs) + ["cc" if self.source else self.argv[0]]
        if self.edit:
            paths.append(self.edit[0])
        elif self.stdin:
            paths.append(self.stdin)
        for path in paths:
            if not (os.path.exists(path) or shutil.which(path)):
                return path
        return None


def no_blas(folder):
    """Annotations for a run in `folder' by which BLAS alone never goes anywhere;
    blocks of LAPACK's functions still do."""
    path = os.path.join(folder, "no-blas")
    os.makedirs(path, exist_ok=True)
    for name in ("blas1", "blas2", "blas3"):
        with open(os.path.join(LIBRARY, name + ".ferry"),
                  encoding="utf-8") as file:
            text = re.sub(r"(?m)^\{$", "{\n    require 0 > 1 else unsupported;",
                          file.read())
        with open(os.path.join(path, name + "-here.ferry"), "w",
                  encoding="utf-8") as file:
            file.write(text)
    return path


LEVEL2 = {
    "s": "gemv gbmv symv sbmv spmv trmv tbmv tpmv trsv tbsv tpsv ger syr spr "
         "syr2 spr2",
    "c": "gemv gbmv hemv hbmv hpmv trmv tbmv tpmv trsv tbsv tpsv gerc geru her "
         "hpr her2 hpr2",
}
LEVEL3 = {
    "s": "gemm symm trmm trsm syrk syr2k",
    "c": "gemm hemm symm trmm trsm herk syrk her2k syr2k",
}
LEVEL1 = {
    "s": "axpy scal copy swap dot nrm2 asum",
    "c": "axpy scal copy swap",
}


def _names(table, p, prefix=""):
    kind = "s" if p in "sd" else "c"
    return [prefix + p + word for word in table[kind].split()]


def _row_major(copy, path):
    """The CBLAS testers want a variable that only netlib's library has."""
    netlib = os.path.join(LIB, "blas", "libblas.so.3")
    if copy == "netlib" or not os.path.exists(netlib):
        return None
    return {"LD_PRELOAD": "%s/libblas.so.3:%s" % (path, netlib)}


# One size, and one alpha that is neither 0 nor 1.
FEW = [
    (r"(?m)^6( .*NUMBER OF VALUES OF N)$", r"1\1"),
    (r"(?m)^[01] \d \d \d \d 9( .*)$", r"17\1"),
    (r"(?m)^3( .*NUMBER OF VALUES OF ALPHA)$", r"1\1"),
    (r"(?m)^(?:0\.0|\(0\.0,0\.0\)) \S+ (\S+ +VALUES OF ALPHA)$", r"\1"),
]


def few_blas_cases():
    """Level 3 again with few calls, for ThreadSanitizer."""
    folder = os.path.join(LIB, "blas")
    path = ferryrun.blas_copies().get("netlib")
    for p in "sdcz" if path else "":
        for name, source, prefix in (
                ("xblat3" + p, p + "blat3.in", ""),
                ("x%scblat3" % p, p + "in3", "cblas_")):
            names = _names(LEVEL3, p, prefix)
            yield Case("blas/netlib/%s-few" % name,
                       [os.path.join(folder, name)], path, "few.in",
                       out=None if prefix else p + "blat3.out", ways=(),
                       edit=(os.path.join(folder, source), "few.in", FEW),
                       expect=names, cuda=names,
                       thread="full" if prefix and p != "z" else "fast",
                       memory="6KiB" if p == "z" else "4KiB")


def blas_cases():
    """libblas-test: levels 1 to 3, Fortran and CBLAS, s d c z."""
    folder = os.path.join(LIB, "blas")
    for copy, path in ferryrun.blas_copies().items():
        for p in "sdcz":
            for level, table in ((1, LEVEL1), (2, LEVEL2), (3, LEVEL3)):
                stdin = None
                if level > 1:
                    stdin = "%s/%sblat%d.in" % (folder, p, level)
                yield Case("blas/%s/xblat%d%s" % (copy, level, p),
                           ["%s/xblat%d%s" % (folder, level, p)], path, stdin,
                           out="%sblat%d.out" % (p, level), fast=True,
                           brief=None if level == 1 or p in "dc" else ("default",),
                           expect=_names(table, p), seeds=4,
                           cuda=_names(table, p) if level == 3 else (),
                           cuda_fast=copy + p in ("netlibd", "netlibc"),
                           thread="full" if copy == "netlib" else None)
                extra = None
                names = _names(table, p, "cblas_")
                if level == 1 and p in "cz":
                    names.remove("cblas_%sscal" % p)  # it calls Fortran's
                if level > 1:
                    stdin = "%s/%sin%d" % (folder, p, level)
                    extra = _row_major(copy, path)
                yield Case("blas/%s/x%scblat%d" % (copy, p, level),
                           ["%s/x%scblat%d" % (folder, p, level)], path, stdin,
                           fast=True, expect=names, extra=extra, seeds=4,
                           brief=None if level == 1 or p in "sz" else ("default",),
                           cuda=names if level == 3 else (),
                           cuda_fast=copy + p == "netlibz",
                           thread="full" if copy == "netlib" else None)


# Fewer sizes, for ./check: a fiftieth of the time.
SMALL = [
    (r"(?m)^7( .*Number of values of [MN])$", r"2\1"),
    (r"(?m)^0 1 2 3 5 10 50( .*)$", r"0 17\1"),
    (r"(?m)^5( .*Number of values of NB)$", r"1\1"),
    (r"(?m)^1 3 3 3 20( .*)$", r"3\1"),
    (r"(?m)^1 0 5 9 1( .*)$", r"5\1"),
    (r"(?m)^3( .*Number of values of NRHS.*)$", r"1\1"),
    (r"(?m)^1 2 15( .*)$", r"2\1"),
    # Bands alone are two thirds of the calls; variants of SY and HE.
    (r"(?m)^.(?:GB|PB|TB|SR|SK|SA|S2|HR|HK|HA|H2) .*\n", ""),
]
# Fewer still, for ThreadSanitizer: systems of one size, LU and Cholesky.
FEW_SYSTEMS = [
    (r"(?m)^7( .*Number of values of [MN])$", r"1\1"),
    (r"(?m)^0 1 2 3 5 10 50( .*)$", r"17\1"),
    (r"(?m)^3( .*Number of values of NRHS.*)$", r"1\1"),
    (r"(?m)^1 2 15( .*)$", r"2\1"),
    (r"(?m)^5( .*Number of values of NB)$", r"1\1"),
    (r"(?m)^1 3 3 3 20( .*)$", r"5\1"),
    (r"(?m)^1 0 5 9 1( .*)$", r"5\1"),
    (r"(?m)^.(?!GE |PO )[A-Z0-9]{2}(?: .*)?\n", ""),
    (r"(?m)^(.GE) .*\n", r"\1 1\n4\n"), # random, well conditioned
    (r"(?m)^(.PO) .*\n", r"\1 1\n2\n"),
]
# LU, Cholesky, triangles and least squares, every kind of matrix, few sizes.
FEW_SOLVERS = [
    (r"(?m)^7( .*Number of values of [MN])$", r"3\1"),
    (r"(?m)^0 1 2 3 5 10 50( .*)$", r"1 10 50\1"),
    (r"(?m)^5( .*Number of values of NB)$", r"1\1"),
    (r"(?m)^1 3 3 3 20( .*)$", r"20\1"),
    (r"(?m)^1 0 5 9 1( .*)$", r"1\1"),
    (r"(?m)^3( .*Number of values of NRHS.*)$", r"2\1"),
    (r"(?m)^1 2 15( .*)$", r"1 15\1"),
    (r"(?m)^.(?!GE |PO |TR |LS )[A-Z0-9]{2}(?: .*)?\n", ""),
]
SMALL_NEP = [
    (r"(?m)^7( .*Number of values of N)$", r"3\1"),
    (r"(?m)^0 1 2 3 5 10 16( .*)$", r"0 3 12\1"),
    (r"(?m)^5( .*Number of values of NB,.*)$", r"2\1"),
]

SMALL_SVD = [
    (r"(?m)^19( .*Number of values of M)$", r"5\1"),
    (r"(?m)^0 0 0 1 1 1 2 2 3 3 3 10 10 16 16 30 30 40 40( .*)$",
     r"0 1 3 10 16\1"),
    (r"(?m)^0 1 3 0 1 2 0 1 0 1 3 10 16 10 16 30 40 30 40( .*)$",
     r"2 1 3 16 10\1"),
]
EIG = ("nep sep se2 svd %ec %ed %gg %gd %sb %sg %bb glm gqr gsv csd lse %bal "
       "%bak %gbal %gbak")
# What cuSOLVER stands in for, by program and input, without type letter: r and c
# for real and complex matrices.
SOLVERS = {
    "r": "gesv getrf getrs getri potrf potri potrs posv trtri geqrf gels ormqr orgqr gesvd",
    "c": "gesv getrf getrs getri potrf potri potrs posv trtri geqrf gels unmqr ungqr gesvd",
}
EIGENSOLVERS = {
    "sep": {"r": "syev syevd", "c": "heev heevd"},
    "se2": {"r": "syevd", "c": "heevd"},
    "svd": {"r": "gesvd gesdd", "c": "gesvd gesdd"},
    "%sg": {"r": "syev syevd", "c": "heev heevd"},
}
# Ten million calls and more: forced, minutes each.
LONG = ("svd", "sec", "dec", "sed", "ded", "ced", "zed")
EDITED = (("nep", SMALL_NEP), ("svd", SMALL_SVD))


def lapack_cases():
    """liblapack-test: linear equations, RFP, mixed precision, eigenvalues."""
    folder = os.path.join(LIB, "lapack")
    for copy, path in ferryrun.blas_copies().items():
        for p in "sdcz":
            expect = [p + "gemm", p + "gemv"]
            lin = "%s/xlintst%s" % (folder, p)
            yield Case("lapack/%s/xlintst%s-small" % (copy, p), [lin], path,
                       "small.in", expect=expect,
                       fast=copy + p in ("netlibd", "openblasz"), brief=("default",),
                       edit=("%s/%stest.in" % (folder, p), "small.in", SMALL),
                       cuda=[p + "gemm", p + "potrf", p + "getrf"])
            if copy == "netlib":
                names = [p + word for word in ("gemm", "potrf", "getrf")]
                yield Case("lapack/netlib/xlintst%s-few" % p, [lin], path,
                           "few.in", expect=names, cuda=names, ways=(),
                           edit=("%s/%stest.in" % (folder, p), "few.in",
                                 FEW_SYSTEMS), memory="16KiB",
                           brief=("tiny",) if p == "d" else None,
                           thread="fast" if p in "dc" else "full")
            forced = copy + p in ("netlibd", "openblasz")
            yield Case("lapack/%s/xlintst%s" % (copy, p), [lin], path,
                       "%s/%stest.in" % (folder, p), expect=expect,
                       timeout=2400,
                       ways=HOST_WAYS if forced else ("default",))
            yield Case("lapack/%s/xlintstrf%s" % (copy, p),
                       ["%s/xlintstrf%s" % (folder, p)], path,
                       "%s/%stest_rfp.in" % (folder, p), expect=expect[:1])
            yield from _eigenvalue_cases(folder, copy, path, p)
            if copy == "netlib":
                yield from _solver_cases(folder, path, p)
        for both, stdin in (("ds", "dstest"), ("zc", "zctest")):
            yield Case("lapack/%s/xlintst%s" % (copy, both),
                       ["%s/xlintst%s" % (folder, both)], path,
                       "%s/%s.in" % (folder, stdin),
                       expect=[both[0] + "gemm"])


def _solver_cases(folder, path, p):
    """All of the linear equations, and all inputs of the eigenvalues, as the
    fake cuSOLVER computes them; some in parts as well."""
    kind = "r" if p in "sd" else "c"
    names = [p + word for word in SOLVERS[kind].split()]
    yield Case("lapack/netlib/xlintst%s-solvers" % p,
               ["%s/xlintst%s" % (folder, p)], path,
               "%s/%stest.in" % (folder, p), solvers=True, ways=("whole",),
               expect=names, cuda=names if p in "dz" else (), memory="16KiB",
               timeout=3600)
    names = [p + word for word in
             "gesv getrf getrs getri potrf potri potrs posv trtri gels".split()]
    yield Case("lapack/netlib/xlintst%s-few-solvers" % p,
               ["%s/xlintst%s" % (folder, p)], path, "few.in", solvers=True,
               ways=("whole",), expect=names, cuda=names, memory="16KiB",
               edit=("%s/%stest.in" % (folder, p), "few.in", FEW_SOLVERS))
    for word in EIG.split():
        names = EIGENSOLVERS.get(word, {}).get(kind, "").split()
        word = word.replace("%", p)
        yield Case("lapack/netlib/xeigtst%s-%s-solvers" % (p, word),
                   ["%s/xeigtst%s" % (folder, p)], path,
                   "%s/%s.in" % (folder, word), solvers=True, ways=("whole",),
                   expect=[p + name for name in names], timeout=3600)


def _eigenvalue_cases(folder, copy, path, p):
    """xeigtst of one precision, with every input and with smaller ones."""
    argv = ["%s/xeigtst%s" % (folder, p)]
    for word in EIG.replace("%", p).split():
        yield Case("lapack/%s/xeigtst%s-%s" % (copy, p, word), argv, path,
                   "%s/%s.in" % (folder, word), split=False, timeout=1800,
                   ways=("default",) if word in LONG else HOST_WAYS,
                   fast=p == "d" and word in ("glm", "gqr", "gsv", "lse"),
                   brief=None if word == "lse" else ("default",))
    for word, edit in EDITED:
        yield Case("lapack/%s/xeigtst%s-%s-small" % (copy, p, word), argv,
                   path, "small.in", expect=[p + "gemm", p + "gemv"],
                   edit=("%s/%s.in" % (folder, word), "small.in", edit),
                   fast=p == "d" and word == "nep")


def numpy_cases():
    """numpy.linalg's own tests with Debian's python3-numpy."""
    tests = glob.glob("/usr/lib/python3/dist-packages/numpy/linalg/tests")
    for copy, path in ferryrun.blas_copies().items():
        argv = ["/usr/bin/python3", "-m", "pytest", "-rA", "-q", "--tb=no",
                "-p", "no:cacheprovider", "--pyargs", "numpy.linalg"]
        needs = ["/usr/lib/python3/dist-packages/pytest",
                 "/usr/lib/python3/dist-packages/hypothesis"] + (
                     tests or ["numpy/linalg/tests"])
        yield Case("numpy/%s/linalg-fast" % copy,
                   argv + ["-k", "TestSolve or TestInv or TestEigh or TestSVD "
                           "or TestCholesky or TestQR or TestMultiDot or "
                           "TestMatrixPower"], path,
                   verdict=compare.pytest, fast=copy == "openblas", brief=("default",),
                   needs=needs, expect=["cblas_dgemm"],
                   cuda=["cblas_dgemm"])
        yield Case("numpy/%s/linalg" % copy, argv, path,
                   verdict=compare.pytest, needs=needs,
                   expect=["cblas_dgemm", "cblas_zgemm"])


def hpcc_cases():
    """hpcc: HPL with its residual check, DGEMM and the others, two ranks."""
    ranks = ["mpirun", "--oversubscribe", "-np", "2", "hpcc"]
    extra = {"OMPI_ALLOW_RUN_AS_ROOT": "1",
             "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
             "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
             "OMPI_MCA_hwloc_base_binding_policy": "none"}
    for copy, path in ferryrun.blas_copies().items():
        source = "/usr/share/doc/hpcc/examples/_hpccinf.txt"
        for size in ("100", "300"):
            edit = [(r"(?m)^1000( .*Ns)$", size + r"\1"),
                    (r"(?m)^80( .*NBs)$", r"32\1"),
                    (r"(?m)^2( .*Ps)$", r"1\1")]
            yield Case("hpcc/%s/n%s" % (copy, size), ranks, path,
                       verdict=compare.hpcc, out="hpccoutf.txt",
                       edit=(source, "hpccinf.txt", edit), extra=extra,
                       needs=["hpcc", source], memory="16KiB",
                       fast=copy == "openblas" and size == "100", brief=("tiny",),
                       expect=["cblas_dgemm", "cblas_dtrsm"])


def interpreter_cases():
    """Octave's own tests of its decompositions; R's linear algebra."""
    octave = sorted(glob.glob("/usr/share/octave/*/etc/tests/libinterp/"
                              "corefcn"))
    words = "chol svd lu qr inv det eig schur hess pinv".split()
    for copy, path in ferryrun.blas_copies().items():
        for word in words:
            file = os.path.join(octave[-1] if octave else "/nonexistent",
                                word + ".cc-tst")
            yield Case("octave/%s/%s" % (copy, word),
                       ["octave-cli", "--norc", "-W", "--eval",
                        "[n, nmax] = test('%s', 'quiet'); "
                        "printf('%%d of %%d\\n', n, nmax)" % file], path,
                       verdict=compare.octave, needs=[file], split=False)
        script = os.path.join(HERE, "algebra.R")
        yield Case("r/%s/algebra" % copy, ["Rscript", "--vanilla", script],
                   path, verdict=compare.exact, needs=[script],
                   expect=["dgemm"])


def thread_cases():
    """Threads that share matrices, come, go, fork and are cancelled."""
    path = ferryrun.blas_copies().get("netlib")
    names = ["dgemm", "dgemv", "dsyrk", "dtrsm", "dpotrf", "dgetrf"]
    source = ("threads.c", ["-llapack", "-lblas", "-lm", "-pthread"])
    # The object that loads the engine is not watched: `warm' has it loaded
    # before there are threads.
    for threads, rounds, warm, thread in ((6, 1, True, "fast"),
                                          (8, 6, True, "full"),
                                          (4, 2, False, None)) if path else ():
        argv = ["threads", str(threads), str(rounds), "1"]
        yield Case("threads/netlib/%d-%d" % (threads, rounds),
                   argv + ["warm"] * warm, path, verdict=compare.exact,
                   fast=not warm, ways=() if warm else ("tiny",),
                   expect=names if warm else ["dgemm"],
                   cuda=names if warm else ["dgemm"], cuda_fast=not warm,
                   seeds=4, thread=thread, timeout=300, source=source)


def all_cases():
    """Every case, in the order in which it is best to run them."""
    for group in (numpy_cases, hpcc_cases, blas_cases, few_blas_cases,
                  thread_cases, lapack_cases, interpreter_cases):
        yield from group()
