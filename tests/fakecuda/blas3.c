/* SPDX-License-Identifier: Apache-2.0
 *
 * The matrix-matrix routines of the fake cuBLAS.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "tests/fakecuda/blas.h"
#include "tests/fakecuda/netlib.h"

#define INVALID CUBLAS_STATUS_INVALID_VALUE
#define FINE    CUBLAS_STATUS_SUCCESS

/* Pointers and integers by reference, at the end the letters' lengths. */
typedef const void *word;
typedef void gemm(word, word, word, word, word, word, word, word, word, word,
                  word, word, word, size_t, size_t);
typedef void symm(word, word, word, word, word, word, word, word, word, word,
                  word, word, size_t, size_t);
typedef void syrk(word, word, word, word, word, word, word, word, word, word,
                  size_t, size_t);
typedef void trsm(word, word, word, word, word, word, word, word, word, word,
                  word, size_t, size_t, size_t, size_t);

static int
check_gemm_shape(struct blas_call *call, const void *a, const void *b, void *c)
{
    bool ta = call->transa != CUBLAS_OP_N, tb = call->transb != CUBLAS_OP_N;

    if (!blas_is_op(call->transa) || !blas_is_op(call->transb) || call->m < 0 ||
        call->n < 0 || call->k < 0 || call->alpha == NULL ||
        call->beta == NULL ||
        blas_use(call, a, ta ? call->k : call->m, ta ? call->m : call->k,
                 call->lda, false) != FINE ||
        blas_use(call, b, tb ? call->n : call->k, tb ? call->k : call->n,
                 call->ldb, false) != FINE ||
        blas_use(call, c, call->m, call->n, call->ldc, true) != FINE) {
        return INVALID;
    }
    return FINE;
}

static int
check_gemm(struct blas_call *call)
{
    return check_gemm_shape(call, call->A, call->B, call->C);
}

static int
run_gemm(struct blas_call *call)
{
    gemm *function = (gemm *)netlib_routine("?gemm_", call->type);

    if (function == NULL) {
        return CUDA_ERROR_NOT_FOUND;
    }
    function(&blas_op[call->transa], &blas_op[call->transb], &call->m, &call->n,
             &call->k, call->alpha_value, blas_at(call->A), &call->lda,
             blas_at(call->B), &call->ldb, call->beta_value, blas_at(call->C),
             &call->ldc, 1, 1);
    return CUDA_SUCCESS;
}

/* Every batch member is looked at, as one rectangle each would be too many. */
static int
check_gemm_strided(struct blas_call *call)
{
    int64_t last = call->batchCount - 1;
    int64_t bytes = (int64_t)blas_bytes(call);

    if (call->batchCount < 0 || call->strideC < 0) {
        return INVALID;
    }
    if (call->batchCount == 0) {
        return FINE;
    }
    if (check_gemm(call) != FINE) {
        return INVALID;
    }
    return last == 0
               ? FINE
               : check_gemm_shape(
                     call, (const char *)call->A + last * call->strideA * bytes,
                     (const char *)call->B + last * call->strideB * bytes,
                     (char *)call->C + last * call->strideC * bytes);
}

static int
run_gemm_strided(struct blas_call *call)
{
    int64_t bytes = (int64_t)blas_bytes(call);
    int result = CUDA_SUCCESS;

    for (int64_t i = 0; i < call->batchCount && result == CUDA_SUCCESS; i++) {
        struct blas_call one = *call;

        one.A = (const char *)call->A + i * call->strideA * bytes;
        one.B = (const char *)call->B + i * call->strideB * bytes;
        one.C = (char *)call->C + i * call->strideC * bytes;
        result = run_gemm(&one);
    }
    return result;
}

static int
check_gemm_batched(struct blas_call *call)
{
    const void *arrays[] = {call->Aarray, call->Barray, call->Carray};
    struct blas_call shape = *call;
    void *aligned = (void *)(uintptr_t)256;

    if (call->batchCount < 0 ||
        check_gemm_shape(&shape, aligned, aligned, aligned) != FINE) {
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
run_gemm_batched(struct blas_call *call)
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
        if (check_gemm(&one) != FINE) {
            return CUDA_ERROR_ILLEGAL_ADDRESS;
        }
        for (size_t j = 0; j < one.n_uses; j++) {
            const struct fake_use *use = &one.uses[j];
            if (fakecuda_at(use->address, use->pitch_bytes * (use->rows - 1) +
                                              use->width_bytes) == NULL) {
                return CUDA_ERROR_ILLEGAL_ADDRESS;
            }
        }
        result = run_gemm(&one);
    }
    return result;
}

static int
check_symm(struct blas_call *call)
{
    int64_t order = call->side == CUBLAS_SIDE_LEFT ? call->m : call->n;

    if (!blas_is_binary(call->side) || !blas_is_binary(call->uplo) ||
        call->m < 0 || call->n < 0 || call->alpha == NULL ||
        call->beta == NULL ||
        blas_use(call, call->A, order, order, call->lda, false) != FINE ||
        blas_use(call, call->B, call->m, call->n, call->ldb, false) != FINE ||
        blas_use(call, call->C, call->m, call->n, call->ldc, true) != FINE) {
        return INVALID;
    }
    return FINE;
}

static int
run_symm_named(struct blas_call *call, const char *name)
{
    symm *function = (symm *)netlib_routine(name, call->type);

    if (function == NULL) {
        return CUDA_ERROR_NOT_FOUND;
    }
    function(&blas_side[call->side], &blas_fill[call->uplo], &call->m, &call->n,
             call->alpha_value, blas_at(call->A), &call->lda, blas_at(call->B),
             &call->ldb, call->beta_value, blas_at(call->C), &call->ldc, 1, 1);
    return CUDA_SUCCESS;
}

static int
run_symm(struct blas_call *call)
{
    return run_symm_named(call, "?symm_");
}

static int
run_hemm(struct blas_call *call)
{
    return run_symm_named(call, "?hemm_");
}

static int
check_rank_k(struct blas_call *call, bool two)
{
    bool t = call->trans != CUBLAS_OP_N;
    int64_t rows = t ? call->k : call->n, columns = t ? call->n : call->k;

    if (!blas_is_op(call->trans) || !blas_is_binary(call->uplo) ||
        call->n < 0 || call->k < 0 || call->alpha == NULL ||
        call->beta == NULL ||
        blas_use(call, call->A, rows, columns, call->lda, false) != FINE ||
        (two &&
         blas_use(call, call->B, rows, columns, call->ldb, false) != FINE) ||
        blas_use(call, call->C, call->n, call->n, call->ldc, true) != FINE) {
        return INVALID;
    }
    return FINE;
}

/* A complex symmetric update has no conjugated form, a Hermitian one no plain
 * one. */
static int
check_syrk(struct blas_call *call)
{
    return blas_complex(call) && call->trans == CUBLAS_OP_C
               ? INVALID
               : check_rank_k(call, false);
}

static int
check_herk(struct blas_call *call)
{
    return call->trans == CUBLAS_OP_T ? INVALID : check_rank_k(call, false);
}

static int
check_syr2k(struct blas_call *call)
{
    return blas_complex(call) && call->trans == CUBLAS_OP_C
               ? INVALID
               : check_rank_k(call, true);
}

static int
check_her2k(struct blas_call *call)
{
    return call->trans == CUBLAS_OP_T ? INVALID : check_rank_k(call, true);
}

static int
run_rank_k(struct blas_call *call, const char *name)
{
    syrk *function = (syrk *)netlib_routine(name, call->type);

    if (function == NULL) {
        return CUDA_ERROR_NOT_FOUND;
    }
    function(&blas_fill[call->uplo], &blas_op[call->trans], &call->n, &call->k,
             call->alpha_value, blas_at(call->A), &call->lda, call->beta_value,
             blas_at(call->C), &call->ldc, 1, 1);
    return CUDA_SUCCESS;
}

static int
run_syrk(struct blas_call *call)
{
    return run_rank_k(call, "?syrk_");
}

static int
run_herk(struct blas_call *call)
{
    return run_rank_k(call, "?herk_");
}

static int
run_rank_2k(struct blas_call *call, const char *name)
{
    symm *function = (symm *)netlib_routine(name, call->type);

    if (function == NULL) {
        return CUDA_ERROR_NOT_FOUND;
    }
    function(&blas_fill[call->uplo], &blas_op[call->trans], &call->n, &call->k,
             call->alpha_value, blas_at(call->A), &call->lda, blas_at(call->B),
             &call->ldb, call->beta_value, blas_at(call->C), &call->ldc, 1, 1);
    return CUDA_SUCCESS;
}

static int
run_syr2k(struct blas_call *call)
{
    return run_rank_2k(call, "?syr2k_");
}

static int
run_her2k(struct blas_call *call)
{
    return run_rank_2k(call, "?her2k_");
}

static int
check_triangular(struct blas_call *call, bool write_b)
{
    int64_t order = call->side == CUBLAS_SIDE_LEFT ? call->m : call->n;

    if (!blas_is_binary(call->side) || !blas_is_binary(call->uplo) ||
        !blas_is_op(call->trans) || !blas_is_binary(call->diag) ||
        call->m < 0 || call->n < 0 || call->alpha == NULL ||
        blas_use(call, call->A, order, order, call->lda, false) != FINE ||
        blas_use(call, call->B, call->m, call->n, call->ldb, write_b) != FINE) {
        return INVALID;
    }
    return FINE;
}

static int
check_trsm(struct blas_call *call)
{
    return check_triangular(call, true);
}

/* B and C may be the same matrix, else they must not meet. */
static int
check_trmm(struct blas_call *call)
{
    if (check_triangular(call, false) != FINE ||
        blas_use(call, call->C, call->m, call->n, call->ldc, true) != FINE ||
        (call->B == call->C && call->ldb != call->ldc)) {
        return INVALID;
    }
    return FINE;
}

static int
run_triangular(struct blas_call *call, const char *name, void *b, int64_t ldb)
{
    trsm *function = (trsm *)netlib_routine(name, call->type);

    if (function == NULL) {
        return CUDA_ERROR_NOT_FOUND;
    }
    function(&blas_side[call->side], &blas_fill[call->uplo],
             &blas_op[call->trans], &blas_diag[call->diag], &call->m, &call->n,
             call->alpha_value, blas_at(call->A), &call->lda, b, &ldb, 1, 1, 1,
             1);
    return CUDA_SUCCESS;
}

static int
run_trsm(struct blas_call *call)
{
    return run_triangular(call, "?trsm_", blas_at(call->B), call->ldb);
}

static int
run_trmm(struct blas_call *call)
{
    size_t bytes = blas_bytes(call);
    char *c = blas_at(call->C);
    const char *b = blas_at(call->B);

    for (int64_t j = 0; j < call->n; j++) {
        memmove(c + (size_t)(j * call->ldc) * bytes,
                b + (size_t)(j * call->ldb) * bytes, (size_t)call->m * bytes);
    }
    return run_triangular(call, "?trmm_", c, call->ldc);
}

const struct blas_routine blas_gemm = {check_gemm, run_gemm, 0, 0, 0};
const struct blas_routine blas_gemm_strided = {check_gemm_strided,
                                               run_gemm_strided, 0, 0, 0};
const struct blas_routine blas_gemm_batched = {check_gemm_batched,
                                               run_gemm_batched, 0, 0, 0};
const struct blas_routine blas_symm = {check_symm, run_symm, 0, 0, 0};
const struct blas_routine blas_hemm = {check_symm, run_hemm, 0, 0, 0};
const struct blas_routine blas_syrk = {check_syrk, run_syrk, 0, 0, 0};
const struct blas_routine blas_herk = {check_herk, run_herk, true, true, 0};
const struct blas_routine blas_syr2k = {check_syr2k, run_syr2k, 0, 0, 0};
const struct blas_routine blas_her2k = {check_her2k, run_her2k, 0, true, 0};
const struct blas_routine blas_trmm = {check_trmm, run_trmm, 0, 0, 0};
const struct blas_routine blas_trsm = {check_trsm, run_trsm, 0, 0, 0};
