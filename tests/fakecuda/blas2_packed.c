/* SPDX-License-Identifier: Apache-2.0
 *
 * The matrix-vector routines of the fake cuBLAS for band and packed matrices.
 */
#include "config.h"

#include "tests/fakecuda/blas.h"
#include "tests/fakecuda/netlib.h"

#define INVALID CUBLAS_STATUS_INVALID_VALUE
#define FINE    CUBLAS_STATUS_SUCCESS

typedef const void *word;
typedef void gbmv(word, word, word, word, word, word, word, word, word, word,
                  word, word, word, size_t);
typedef void sbmv(word, word, word, word, word, word, word, word, word, word,
                  word, size_t);
typedef void spmv(word, word, word, word, word, word, word, word, word, size_t);
typedef void tbsv(word, word, word, word, word, word, word, word, word, size_t,
                  size_t, size_t);
typedef void tpsv(word, word, word, word, word, word, word, size_t, size_t,
                  size_t);
typedef void spr(word, word, word, word, word, word, size_t);
typedef void spr2(word, word, word, word, word, word, word, word, size_t);

static int
use_packed(struct blas_call *call, bool write)
{
    int64_t elements = call->n < 0 ? -1 : call->n * (call->n + 1) / 2;

    return blas_use(call, call->A, elements, 1, elements < 1 ? 1 : elements,
                    write);
}

static int
check_gbmv(struct blas_call *call)
{
    bool t = call->trans != CUBLAS_OP_N;

    if (!blas_is_op(call->trans) || call->m < 0 || call->n < 0 ||
        call->kl < 0 || call->ku < 0 || call->alpha == NULL ||
        call->beta == NULL ||
        blas_use(call, call->A, call->kl + call->ku + 1, call->n, call->lda,
                 false) != FINE ||
        blas_use_vector(call, call->x, t ? call->m : call->n, call->incx,
                        false) != FINE ||
        blas_use_vector(call, call->y, t ? call->n : call->m, call->incy,
                        true) != FINE) {
        return INVALID;
    }
    return FINE;
}

static int
run_gbmv(struct blas_call *call)
{
    gbmv *function = (gbmv *)netlib_routine("?gbmv_", call->type);

    if (function == NULL) {
        return CUDA_ERROR_NOT_FOUND;
    }
    function(&blas_op[call->trans], &call->m, &call->n, &call->kl, &call->ku,
             call->alpha_value, blas_at(call->A), &call->lda, blas_at(call->x),
             &call->incx, call->beta_value, blas_at(call->y), &call->incy, 1);
    return CUDA_SUCCESS;
}

/* y := alpha A x + beta y */
static int
check_vectors(struct blas_call *call)
{
    if (!blas_is_binary(call->uplo) || call->n < 0 || call->alpha == NULL ||
        call->beta == NULL ||
        blas_use_vector(call, call->x, call->n, call->incx, false) != FINE ||
        blas_use_vector(call, call->y, call->n, call->incy, true) != FINE) {
        return INVALID;
    }
    return FINE;
}

static int
check_sbmv(struct blas_call *call)
{
    return call->k < 0 || blas_use(call, call->A, call->k + 1, call->n,
                                   call->lda, false) != FINE
               ? INVALID
               : check_vectors(call);
}

static int
run_band(struct blas_call *call, const char *name)
{
    sbmv *function = (sbmv *)netlib_routine(name, call->type);

    if (function == NULL) {
        return CUDA_ERROR_NOT_FOUND;
    }
    function(&blas_fill[call->uplo], &call->n, &call->k, call->alpha_value,
             blas_at(call->A), &call->lda, blas_at(call->x), &call->incx,
             call->beta_value, blas_at(call->y), &call->incy, 1);
    return CUDA_SUCCESS;
}

static int
run_sbmv(struct blas_call *call)
{
    return run_band(call, "?sbmv_");
}

static int
run_hbmv(struct blas_call *call)
{
    return run_band(call, "?hbmv_");
}

static int
check_spmv(struct blas_call *call)
{
    return use_packed(call, false) != FINE ? INVALID : check_vectors(call);
}

static int
run_packed(struct blas_call *call, const char *name)
{
    spmv *function = (spmv *)netlib_routine(name, call->type);

    if (function == NULL) {
        return CUDA_ERROR_NOT_FOUND;
    }
    function(&blas_fill[call->uplo], &call->n, call->alpha_value,
             blas_at(call->A), blas_at(call->x), &call->incx, call->beta_value,
             blas_at(call->y), &call->incy, 1);
    return CUDA_SUCCESS;
}

static int
run_spmv(struct blas_call *call)
{
    return run_packed(call, "?spmv_");
}

static int
run_hpmv(struct blas_call *call)
{
    return run_packed(call, "?hpmv_");
}

/* x := op(A) x, A triangular */
static int
check_triangle(struct blas_call *call)
{
    if (!blas_is_binary(call->uplo) || !blas_is_op(call->trans) ||
        !blas_is_binary(call->diag) || call->n < 0 ||
        blas_use_vector(call, call->x, call->n, call->incx, true) != FINE) {
        return INVALID;
    }
    return FINE;
}

static int
check_tbsv(struct blas_call *call)
{
    return call->k < 0 || blas_use(call, call->A, call->k + 1, call->n,
                                   call->lda, false) != FINE
               ? INVALID
               : check_triangle(call);
}

static int
run_triangle_band(struct blas_call *call, const char *name)
{
    tbsv *function = (tbsv *)netlib_routine(name, call->type);

    if (function == NULL) {
        return CUDA_ERROR_NOT_FOUND;
    }
    function(&blas_fill[call->uplo], &blas_op[call->trans],
             &blas_diag[call->diag], &call->n, &call->k, blas_at(call->A),
             &call->lda, blas_at(call->x), &call->incx, 1, 1, 1);
    return CUDA_SUCCESS;
}

static int
run_tbmv(struct blas_call *call)
{
    return run_triangle_band(call, "?tbmv_");
}

static int
run_tbsv(struct blas_call *call)
{
    return run_triangle_band(call, "?tbsv_");
}

static int
check_tpsv(struct blas_call *call)
{
    return use_packed(call, false) != FINE ? INVALID : check_triangle(call);
}

static int
run_triangle_packed(struct blas_call *call, const char *name)
{
    tpsv *function = (tpsv *)netlib_routine(name, call->type);

    if (function == NULL) {
        return CUDA_ERROR_NOT_FOUND;
    }
    function(&blas_fill[call->uplo], &blas_op[call->trans],
             &blas_diag[call->diag], &call->n, blas_at(call->A),
             blas_at(call->x), &call->incx, 1, 1, 1);
    return CUDA_SUCCESS;
}

static int
run_tpmv(struct blas_call *call)
{
    return run_triangle_packed(call, "?tpmv_");
}

static int
run_tpsv(struct blas_call *call)
{
    return run_triangle_packed(call, "?tpsv_");
}

/* A := alpha x x^T + A */
static int
check_spr(struct blas_call *call)
{
    if (!blas_is_binary(call->uplo) || call->n < 0 || call->alpha == NULL ||
        blas_use_vector(call, call->x, call->n, call->incx, false) != FINE ||
        use_packed(call, true) != FINE) {
        return INVALID;
    }
    return FINE;
}

static int
check_spr2(struct blas_call *call)
{
    return blas_use_vector(call, call->y, call->n, call->incy, false) != FINE
               ? INVALID
               : check_spr(call);
}

static int
run_rank(struct blas_call *call, const char *name)
{
    spr *function = (spr *)netlib_routine(name, call->type);

    if (function == NULL) {
        return CUDA_ERROR_NOT_FOUND;
    }
    function(&blas_fill[call->uplo], &call->n, call->alpha_value,
             blas_at(call->x), &call->incx, blas_at(call->A), 1);
    return CUDA_SUCCESS;
}

static int
run_spr(struct blas_call *call)
{
    return run_rank(call, "?spr_");
}

static int
run_hpr(struct blas_call *call)
{
    return run_rank(call, "?hpr_");
}

static int
run_rank2(struct blas_call *call, const char *name)
{
    spr2 *function = (spr2 *)netlib_routine(name, call->type);

    if (function == NULL) {
        return CUDA_ERROR_NOT_FOUND;
    }
    function(&blas_fill[call->uplo], &call->n, call->alpha_value,
             blas_at(call->x), &call->incx, blas_at(call->y), &call->incy,
             blas_at(call->A), 1);
    return CUDA_SUCCESS;
}

static int
run_spr2(struct blas_call *call)
{
    return run_rank2(call, "?spr2_");
}

static int
run_hpr2(struct blas_call *call)
{
    return run_rank2(call, "?hpr2_");
}

const struct blas_routine blas_gbmv = {check_gbmv, run_gbmv, 0, 0, 0};
const struct blas_routine blas_sbmv = {check_sbmv, run_sbmv, 0, 0, 0};
const struct blas_routine blas_hbmv = {check_sbmv, run_hbmv, 0, 0, 0};
const struct blas_routine blas_spmv = {check_spmv, run_spmv, 0, 0, 0};
const struct blas_routine blas_hpmv = {check_spmv, run_hpmv, 0, 0, 0};
const struct blas_routine blas_tbmv = {check_tbsv, run_tbmv, 0, 0, 0};
const struct blas_routine blas_tbsv = {check_tbsv, run_tbsv, 0, 0, 0};
const struct blas_routine blas_tpmv = {check_tpsv, run_tpmv, 0, 0, 0};
const struct blas_routine blas_tpsv = {check_tpsv, run_tpsv, 0, 0, 0};
const struct blas_routine blas_spr = {check_spr, run_spr, 0, 0, 0};
const struct blas_routine blas_hpr = {check_spr, run_hpr, true, 0, 0};
const struct blas_routine blas_spr2 = {check_spr2, run_spr2, 0, 0, 0};
const struct blas_routine blas_hpr2 = {check_spr2, run_hpr2, 0, 0, 0};
