/* SPDX-License-Identifier: Apache-2.0
 *
 * The matrix-vector routines of the fake cuBLAS, and its two extensions that
 * BLAS has not: sums of transposed matrices and products with a diagonal.
 */
#include "config.h"

#include <complex.h>
#include <string.h>

#include "tests/fakecuda/blas.h"
#include "tests/fakecuda/netlib.h"

#define INVALID CUBLAS_STATUS_INVALID_VALUE
#define FINE    CUBLAS_STATUS_SUCCESS

typedef const void *word;
typedef void gemv(word, word, word, word, word, word, word, word, word, word,
                  word, size_t);
typedef void symv(word, word, word, word, word, word, word, word, word, word,
                  size_t);
typedef void trsv(word, word, word, word, word, word, word, word, size_t,
                  size_t, size_t);
typedef void ger(word, word, word, word, word, word, word, word, word);
typedef void syr(word, word, word, word, word, word, word, size_t);
typedef void syr2(word, word, word, word, word, word, word, word, word, size_t);

static int
check_gemv(struct blas_call *call)
{
    bool t = call->trans != CUBLAS_OP_N;

    if (!blas_is_op(call->trans) || call->m < 0 || call->n < 0 ||
        call->alpha == NULL || call->beta == NULL ||
        blas_use(call, call->A, call->m, call->n, call->lda, false) != FINE ||
        blas_use_vector(call, call->x, t ? call->m : call->n, call->incx,
                        false) != FINE ||
        blas_use_vector(call, call->y, t ? call->n : call->m, call->incy,
                        true) != FINE) {
        return INVALID;
    }
    return FINE;
}

static int
run_gemv(struct blas_call *call)
{
    gemv *function = (gemv *)netlib_routine("?gemv_", call->type);

    if (function == NULL) {
        return CUDA_ERROR_NOT_FOUND;
    }
    function(&blas_op[call->trans], &call->m, &call->n, call->alpha_value,
             blas_at(call->A), &call->lda, blas_at(call->x), &call->incx,
             call->beta_value, blas_at(call->y), &call->incy, 1);
    return CUDA_SUCCESS;
}

static int
check_symv(struct blas_call *call)
{
    if (!blas_is_binary(call->uplo) || call->n < 0 || call->alpha == NULL ||
        call->beta == NULL ||
        blas_use(call, call->A, call->n, call->n, call->lda, false) != FINE ||
        blas_use_vector(call, call->x, call->n, call->incx, false) != FINE ||
        blas_use_vector(call, call->y, call->n, call->incy, true) != FINE) {
        return INVALID;
    }
    return FINE;
}

static int
run_symv_named(struct blas_call *call, const char *name)
{
    symv *function = (symv *)netlib_routine(name, call->type);

    if (function == NULL) {
        return CUDA_ERROR_NOT_FOUND;
    }
    function(&blas_fill[call->uplo], &call->n, call->alpha_value,
             blas_at(call->A), &call->lda, blas_at(call->x), &call->incx,
             call->beta_value, blas_at(call->y), &call->incy, 1);
    return CUDA_SUCCESS;
}

static int
run_symv(struct blas_call *call)
{
    return run_symv_named(call, "?symv_");
}

static int
run_hemv(struct blas_call *call)
{
    return run_symv_named(call, "?hemv_");
}

static int
check_trsv(struct blas_call *call)
{
    if (!blas_is_binary(call->uplo) || !blas_is_op(call->trans) ||
        !blas_is_binary(call->diag) || call->n < 0 ||
        blas_use(call, call->A, call->n, call->n, call->lda, false) != FINE ||
        blas_use_vector(call, call->x, call->n, call->incx, true) != FINE) {
        return INVALID;
    }
    return FINE;
}

static int
run_trsv_named(struct blas_call *call, const char *name)
{
    trsv *function = (trsv *)netlib_routine(name, call->type);

    if (function == NULL) {
        return CUDA_ERROR_NOT_FOUND;
    }
    function(&blas_fill[call->uplo], &blas_op[call->trans],
             &blas_diag[call->diag], &call->n, blas_at(call->A), &call->lda,
             blas_at(call->x), &call->incx, 1, 1, 1);
    return CUDA_SUCCESS;
}

static int
run_trmv(struct blas_call *call)
{
    return run_trsv_named(call, "?trmv_");
}

static int
run_trsv(struct blas_call *call)
{
    return run_trsv_named(call, "?trsv_");
}

static int
check_ger(struct blas_call *call)
{
    if (call->m < 0 || call->n < 0 || call->alpha == NULL ||
        blas_use_vector(call, call->x, call->m, call->incx, false) != FINE ||
        blas_use_vector(call, call->y, call->n, call->incy, false) != FINE ||
        blas_use(call, call->A, call->m, call->n, call->lda, true) != FINE) {
        return INVALID;
    }
    return FINE;
}

static int
run_ger_named(struct blas_call *call, const char *name)
{
    ger *function = (ger *)netlib_routine(name, call->type);

    if (function == NULL) {
        return CUDA_ERROR_NOT_FOUND;
    }
    function(&call->m, &call->n, call->alpha_value, blas_at(call->x),
             &call->incx, blas_at(call->y), &call->incy, blas_at(call->A),
             &call->lda);
    return CUDA_SUCCESS;
}

static int
run_ger(struct blas_call *call)
{
    return run_ger_named(call, "?ger_");
}

static int
run_geru(struct blas_call *call)
{
    return run_ger_named(call, "?geru_");
}

static int
run_gerc(struct blas_call *call)
{
    return run_ger_named(call, "?gerc_");
}

static int
check_rank(struct blas_call *call, bool two)
{
    if (!blas_is_binary(call->uplo) || call->n < 0 || call->alpha == NULL ||
        blas_use_vector(call, call->x, call->n, call->incx, false) != FINE ||
        (two &&
         blas_use_vector(call, call->y, call->n, call->incy, false) != FINE) ||
        blas_use(call, call->A, call->n, call->n, call->lda, true) != FINE) {
        return INVALID;
    }
    return FINE;
}

static int
check_syr(struct blas_call *call)
{
    return check_rank(call, false);
}

static int
check_syr2(struct blas_call *call)
{
    return check_rank(call, true);
}

static int
run_syr_named(struct blas_call *call, const char *name)
{
    syr *function = (syr *)netlib_routine(name, call->type);

    if (function == NULL) {
        return CUDA_ERROR_NOT_FOUND;
    }
    function(&blas_fill[call->uplo], &call->n, call->alpha_value,
             blas_at(call->x), &call->incx, blas_at(call->A), &call->lda, 1);
    return CUDA_SUCCESS;
}

static int
run_syr(struct blas_call *call)
{
    return run_syr_named(call, "?syr_");
}

static int
run_her(struct blas_call *call)
{
    return run_syr_named(call, "?her_");
}

static int
run_syr2_named(struct blas_call *call, const char *name)
{
    syr2 *function = (syr2 *)netlib_routine(name, call->type);

    if (function == NULL) {
        return CUDA_ERROR_NOT_FOUND;
    }
    function(&blas_fill[call->uplo], &call->n, call->alpha_value,
             blas_at(call->x), &call->incx, blas_at(call->y), &call->incy,
             blas_at(call->A), &call->lda, 1);
    return CUDA_SUCCESS;
}

static int
run_syr2(struct blas_call *call)
{
    return run_syr2_named(call, "?syr2_");
}

static int
run_her2(struct blas_call *call)
{
    return run_syr2_named(call, "?her2_");
}

/* ---- extensions ---- */

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

/* op(M)'s element (i, j). */
static double complex
element(const struct blas_call *call, int trans, const char *base, int64_t ld,
        int64_t i, int64_t j)
{
    double complex value =
        load(call, base, trans == CUBLAS_OP_N ? i + j * ld : j + i * ld);

    return trans == CUBLAS_OP_C ? conj(value) : value;
}

/* In place for operands that are not transposed. */
static int
check_geam(struct blas_call *call)
{
    bool ta = call->transa != CUBLAS_OP_N, tb = call->transb != CUBLAS_OP_N;

    if (!blas_is_op(call->transa) || !blas_is_op(call->transb) || call->m < 0 ||
        call->n < 0 || call->alpha == NULL || call->beta == NULL ||
        (call->A == call->C && (ta || call->lda != call->ldc)) ||
        (call->B == call->C && (tb || call->ldb != call->ldc)) ||
        blas_use(call, call->A, ta ? call->n : call->m, ta ? call->m : call->n,
                 call->lda, false) != FINE ||
        blas_use(call, call->B, tb ? call->n : call->m, tb ? call->m : call->n,
                 call->ldb, false) != FINE ||
        blas_use(call, call->C, call->m, call->n, call->ldc, true) != FINE) {
        return INVALID;
    }
    return FINE;
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

const struct blas_routine blas_gemv = {check_gemv, run_gemv, 0, 0, 0};
const struct blas_routine blas_symv = {check_symv, run_symv, 0, 0, 0};
const struct blas_routine blas_hemv = {check_symv, run_hemv, 0, 0, 0};
const struct blas_routine blas_trmv = {check_trsv, run_trmv, 0, 0, 0};
const struct blas_routine blas_trsv = {check_trsv, run_trsv, 0, 0, 0};
const struct blas_routine blas_ger = {check_ger, run_ger, 0, 0, 0};
const struct blas_routine blas_geru = {check_ger, run_geru, 0, 0, 0};
const struct blas_routine blas_gerc = {check_ger, run_gerc, 0, 0, 0};
const struct blas_routine blas_syr = {check_syr, run_syr, 0, 0, 0};
const struct blas_routine blas_her = {check_syr, run_her, true, 0, 0};
const struct blas_routine blas_syr2 = {check_syr2, run_syr2, 0, 0, 0};
const struct blas_routine blas_her2 = {check_syr2, run_her2, 0, 0, 0};
const struct blas_routine blas_geam = {check_geam, run_geam, 0, 0, 0};
