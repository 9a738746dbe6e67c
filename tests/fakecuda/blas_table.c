/* SPDX-License-Identifier: Apache-2.0
 *
 * The routines of the fake cuBLAS, one row each (arguments.c has the language),
 * and functions for the few that BLAS has not.
 */
#include "config.h"

#include <complex.h>
#include <string.h>

#include "tests/fakecuda/blas.h"

#define INVALID CUBLAS_STATUS_INVALID_VALUE
#define FINE    CUBLAS_STATUS_SUCCESS

#define GEMM \
    "transa transb m n k alpha A(m,k,transa) B(k,n,transb) beta C(m,n)!"
#define SYMM     "side uplo m n alpha A(order,order) B(m,n) beta C(m,n)!"
#define SYRK     "uplo trans n k alpha A(n,k,trans) beta C(n,n)!"
#define SYR2K    "uplo trans n k alpha A(n,k,trans) B(n,k,trans) beta C(n,n)!"
#define TRMM     "side uplo trans diag m n alpha A(order,order) B(m,n)"
#define PRODUCT  " x(n) beta y(n)!"
#define TRIANGLE "uplo trans diag n "
#define PAIR     "n x(n) y(n)"

static int
check_geam(struct blas_call *call)
{
    bool ta = call->transa != CUBLAS_OP_N, tb = call->transb != CUBLAS_OP_N;

    /* In place for operands that are not transposed. */
    return (call->A == call->C && (ta || call->lda != call->ldc)) ||
                   (call->B == call->C && (tb || call->ldb != call->ldc))
               ? INVALID
               : FINE;
}

static double complex
load(const struct blas_call *call, const char *base, int64_t at)
{
    switch (call->type) {
    case 'S':
        return (double)((const float *)base)[at];
    case 'D':
        return ((const double *)base)[at];
    case 'C':
        return (double complex)((const float complex *)base)[at];
    default:
        return ((const double complex *)base)[at];
    }
}

static void
store(const struct blas_call *call, char *base, int64_t at,
      double complex value)
{
    switch (call->type) {
    case 'S':
        ((float *)base)[at] = (float)creal(value);
        break;
    case 'D':
        ((double *)base)[at] = creal(value);
        break;
    case 'C':
        ((float complex *)base)[at] = (float complex)value;
        break;
    default:
        ((double complex *)base)[at] = value;
        break;
    }
}

/* Returns element (i, j) of op(M). */
static double complex
element(const struct blas_call *call, int trans, const char *base, int64_t ld,
        int64_t i, int64_t j)
{
    double complex value =
        load(call, base, trans == CUBLAS_OP_N ? i + j * ld : j + i * ld);

    return trans == CUBLAS_OP_C ? conj(value) : value;
}

static int
run_geam(struct blas_call *call)
{
    double complex alpha = load(call, (const char *)call->alpha_value, 0);
    double complex beta = load(call, (const char *)call->beta_value, 0);
    const char *a = blas_at(call->A), *b = blas_at(call->B);
    char *c = blas_at(call->C);

    for (int64_t j = 0; j < call->n; j++) {
        for (int64_t i = 0; i < call->m; i++) {
            double complex sum = 0;

            if (alpha != 0) {
                sum += alpha * element(call, call->transa, a, call->lda, i, j);
            }
            if (beta != 0) {
                sum += beta * element(call, call->transb, b, call->ldb, i, j);
            }
            store(call, c, i + j * call->ldc, sum);
        }
    }
    return CUDA_SUCCESS;
}

static const struct blas_routine gemm = {.fortran = "?gemm_",
                                         .arguments = GEMM};

/* Looks at the first and the last product of the batch, as one rectangle each
 * would be too many. */
static int
check_strided(struct blas_call *call)
{
    int64_t last = call->batchCount - 1;
    int64_t bytes = (int64_t)blas_bytes(call);
    struct blas_call at = *call;
    int status;

    if (call->batchCount < 0 || call->strideC < 0) {
        return INVALID;
    }
    for (int64_t i = 0; i <= last; i += last > 0 ? last : 1) {
        at.A = (const char *)call->A + i * call->strideA * bytes;
        at.B = (const char *)call->B + i * call->strideB * bytes;
        at.C = (char *)call->C + i * call->strideC * bytes;
        status = blas_check_arguments(&at, GEMM);
        if (status != FINE) {
            return status;
        }
    }
    memcpy(call->uses, at.uses, sizeof(call->uses));
    call->n_uses = at.n_uses;
    return FINE;
}

static int
run_strided(struct blas_call *call)
{
    int64_t bytes = (int64_t)blas_bytes(call);
    int result = CUDA_SUCCESS;

    for (int64_t i = 0; i < call->batchCount && result == CUDA_SUCCESS; i++) {
        struct blas_call one = *call;

        one.A = (const char *)call->A + i * call->strideA * bytes;
        one.B = (const char *)call->B + i * call->strideB * bytes;
        one.C = (char *)call->C + i * call->strideC * bytes;
        result = blas_call_fortran(&one, &gemm, NULL);
    }
    return result;
}

static int
check_batched(struct blas_call *call)
{
    const void *arrays[] = {call->Aarray, call->Barray, call->Carray};
    struct blas_call shape = *call;

    shape.A = shape.B = shape.C = (void *)(uintptr_t)256; /* aligned */
    if (call->batchCount < 0 || blas_check_arguments(&shape, GEMM) != FINE) {
        return INVALID;
    }
    for (size_t i = 0; i < 3 && call->batchCount > 0; i++) {
        if (arrays[i] == NULL) {
            return INVALID;
        }
        call->uses[call->n_uses++] =
            (struct fake_use){(uintptr_t)arrays[i],
                              (size_t)call->batchCount * sizeof(void *),
                              0,
                              1,
                              false,
                              false};
    }
    return FINE;
}

static int
run_batched(struct blas_call *call)
{
    size_t bytes = (size_t)call->batchCount * sizeof(void *);
    const void *const *a = fakecuda_at((uintptr_t)call->Aarray, bytes);
    const void *const *b = fakecuda_at((uintptr_t)call->Barray, bytes);
    void *const *c = fakecuda_at((uintptr_t)call->Carray, bytes);
    int result = CUDA_SUCCESS;

    for (int64_t i = 0; i < call->batchCount && result == CUDA_SUCCESS; i++) {
        struct blas_call one = *call;

        one.A = a[i];
        one.B = b[i];
        one.C = c[i];
        one.n_uses = 0;
        if (blas_check_arguments(&one, GEMM) != FINE) {
            return CUDA_ERROR_ILLEGAL_ADDRESS;
        }
        for (size_t j = 0; j < one.n_uses; j++) {
            const struct fake_use *use = &one.uses[j];
            if (fakecuda_at(use->address, use->pitch_bytes * (use->rows - 1) +
                                              use->width_bytes) == NULL) {
                return CUDA_ERROR_ILLEGAL_ADDRESS;
            }
        }
        result = blas_call_fortran(&one, &gemm, NULL);
    }
    return result;
}

/* A complex symmetric update has no conjugated form, a Hermitian one no plain
 * one. */
static int
check_symmetric(struct blas_call *call)
{
    return blas_complex(call) && call->trans == CUBLAS_OP_C ? INVALID : FINE;
}

static int
check_hermitian(struct blas_call *call)
{
    return call->trans == CUBLAS_OP_T ? INVALID : FINE;
}

/* B and C may be the same matrix, else they must not meet. */
static int
check_trmm(struct blas_call *call)
{
    return call->B == call->C && call->ldb != call->ldc
               ? INVALID
               : blas_use(call, call->C, call->m, call->n, call->ldc, true);
}

static int
run_trmm(struct blas_call *call)
{
    static const struct blas_routine trmm = {.fortran = "?trmm_",
                                             .arguments = TRMM "!"};
    struct blas_call in_place = *call;
    size_t bytes = blas_bytes(call);
    char *c = blas_at(call->C);
    const char *b = blas_at(call->B);

    for (int64_t j = 0; j < call->n; j++) {
        memmove(c + (size_t)(j * call->ldc) * bytes,
                b + (size_t)(j * call->ldb) * bytes, (size_t)call->m * bytes);
    }
    in_place.B = call->C;
    in_place.ldb = call->ldc;
    return blas_call_fortran(&in_place, &trmm, NULL);
}

static int
check_scal(struct blas_call *call)
{
    return call->incx <= 0 ? INVALID : FINE;
}

#define VECTORS .vector = true
#define ANSWERS .vector = true, .answer

/* The rows of cublas_routines.rows name them. */
static const struct blas_routine routines[] = {
    {.name = "gemm", .fortran = "?gemm_", .arguments = GEMM},
    {.name = "gemm_strided",
     .fortran = "?gemm_",
     .arguments = "",
     .check = check_strided,
     .run = run_strided},
    {.name = "gemm_batched",
     .fortran = "?gemm_",
     .arguments = "",
     .check = check_batched,
     .run = run_batched},
    {.name = "symm", .fortran = "?symm_", .arguments = SYMM},
    {.name = "hemm", .fortran = "?hemm_", .arguments = SYMM},
    {.name = "syrk",
     .fortran = "?syrk_",
     .arguments = SYRK,
     .check = check_symmetric},
    {.name = "herk",
     .fortran = "?herk_",
     .arguments = SYRK,
     .real_alpha = true,
     .real_beta = true,
     .check = check_hermitian},
    {.name = "syr2k",
     .fortran = "?syr2k_",
     .arguments = SYR2K,
     .check = check_symmetric},
    {.name = "her2k",
     .fortran = "?her2k_",
     .arguments = SYR2K,
     .real_beta = true,
     .check = check_hermitian},
    {.name = "trmm",
     .fortran = "?trmm_",
     .arguments = TRMM,
     .check = check_trmm,
     .run = run_trmm},
    {.name = "trsm", .fortran = "?trsm_", .arguments = TRMM "!"},
    {.name = "geam",
     .fortran = "",
     .arguments =
         "transa transb m n alpha A(m,n,transa) beta B(m,n,transb) C(m,n)!",
     .check = check_geam,
     .run = run_geam},
    {.name = "gemv",
     .fortran = "?gemv_",
     .arguments = "trans m n alpha A(m,n) x(n,m,trans) beta y(m,n,trans)!"},
    {.name = "symv",
     .fortran = "?symv_",
     .arguments = "uplo n alpha A(n,n)" PRODUCT},
    {.name = "hemv",
     .fortran = "?hemv_",
     .arguments = "uplo n alpha A(n,n)" PRODUCT},
    {.name = "trmv", .fortran = "?trmv_", .arguments = TRIANGLE "A(n,n) x(n)!"},
    {.name = "trsv", .fortran = "?trsv_", .arguments = TRIANGLE "A(n,n) x(n)!"},
    {.name = "ger",
     .fortran = "?ger_",
     .arguments = "m n alpha x(m) y(n) A(m,n)!"},
    {.name = "geru",
     .fortran = "?geru_",
     .arguments = "m n alpha x(m) y(n) A(m,n)!"},
    {.name = "gerc",
     .fortran = "?gerc_",
     .arguments = "m n alpha x(m) y(n) A(m,n)!"},
    {.name = "syr",
     .fortran = "?syr_",
     .arguments = "uplo n alpha x(n) A(n,n)!"},
    {.name = "her",
     .fortran = "?her_",
     .arguments = "uplo n alpha x(n) A(n,n)!",
     .real_alpha = true},
    {.name = "syr2",
     .fortran = "?syr2_",
     .arguments = "uplo n alpha x(n) y(n) A(n,n)!"},
    {.name = "her2",
     .fortran = "?her2_",
     .arguments = "uplo n alpha x(n) y(n) A(n,n)!"},
    {.name = "gbmv",
     .fortran = "?gbmv_",
     .arguments =
         "trans m n kl ku alpha A(kl+ku+1,n) x(n,m,trans) beta y(m,n,trans)!"},
    {.name = "sbmv",
     .fortran = "?sbmv_",
     .arguments = "uplo n k alpha A(k+1,n)" PRODUCT},
    {.name = "hbmv",
     .fortran = "?hbmv_",
     .arguments = "uplo n k alpha A(k+1,n)" PRODUCT},
    {.name = "spmv",
     .fortran = "?spmv_",
     .arguments = "uplo n alpha A(packed)" PRODUCT},
    {.name = "hpmv",
     .fortran = "?hpmv_",
     .arguments = "uplo n alpha A(packed)" PRODUCT},
    {.name = "tbmv",
     .fortran = "?tbmv_",
     .arguments = TRIANGLE "k A(k+1,n) x(n)!"},
    {.name = "tbsv",
     .fortran = "?tbsv_",
     .arguments = TRIANGLE "k A(k+1,n) x(n)!"},
    {.name = "tpmv",
     .fortran = "?tpmv_",
     .arguments = TRIANGLE "A(packed) x(n)!"},
    {.name = "tpsv",
     .fortran = "?tpsv_",
     .arguments = TRIANGLE "A(packed) x(n)!"},
    {.name = "spr",
     .fortran = "?spr_",
     .arguments = "uplo n alpha x(n) A(packed)!"},
    {.name = "hpr",
     .fortran = "?hpr_",
     .arguments = "uplo n alpha x(n) A(packed)!",
     .real_alpha = true},
    {.name = "spr2",
     .fortran = "?spr2_",
     .arguments = "uplo n alpha x(n) y(n) A(packed)!"},
    {.name = "hpr2",
     .fortran = "?hpr2_",
     .arguments = "uplo n alpha x(n) y(n) A(packed)!"},
    {.name = "axpy",
     .fortran = "?axpy_",
     .arguments = "n alpha x(n) y(n)!",
     VECTORS},
    {.name = "scal",
     .fortran = "?scal_",
     .arguments = "n alpha x(n)!",
     VECTORS,
     .check = check_scal},
    {.name = "rscal",
     .fortran = "?%scal_",
     .arguments = "n alpha x(n)!",
     .real_alpha = true,
     VECTORS,
     .check = check_scal},
    {.name = "copy", .fortran = "?copy_", .arguments = "n x(n) y(n)!", VECTORS},
    {.name = "swap",
     .fortran = "?swap_",
     .arguments = "n x(n)! y(n)!",
     VECTORS},
    {.name = "dot",
     .fortran = "?dot_",
     .arguments = PAIR,
     ANSWERS = BLAS_ELEMENT},
    {.name = "dotu",
     .fortran = "?dotu_",
     .arguments = PAIR,
     ANSWERS = BLAS_ELEMENT},
    {.name = "dotc",
     .fortran = "?dotc_",
     .arguments = PAIR,
     ANSWERS = BLAS_ELEMENT},
    {.name = "nrm2",
     .fortran = "%?nrm2_",
     .arguments = "n x(n)",
     ANSWERS = BLAS_REAL},
    {.name = "asum",
     .fortran = "%?asum_",
     .arguments = "n x(n)",
     ANSWERS = BLAS_REAL},
    {.name = "amax",
     .fortran = "i?amax_",
     .arguments = "n x(n)",
     ANSWERS = BLAS_INDEX},
};

const struct blas_routine *
blas_routine(const char *name)
{
    for (size_t i = 0; i < sizeof(routines) / sizeof(routines[0]); i++) {
        if (strcmp(routines[i].name, name) == 0) {
            return &routines[i];
        }
    }
    return NULL;
}
