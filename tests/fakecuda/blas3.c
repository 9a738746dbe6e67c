/* SPDX-License-Identifier: Apache-2.0
 *
 * The matrix-matrix routines of the fake cuBLAS.
 */
#include "config.h"

#include "tests/fakecuda/blas.h"
#include "tests/fakecuda/netlib.h"

static const char op_letter[] = "NTC";

static bool
is_op(int trans)
{
    return trans >= CUBLAS_OP_N && trans <= CUBLAS_OP_C;
}

/* NULL scalars are errors; alpha == 0 on the host means: operands unread. */
static int
check_scalars(const struct blas_call *call, bool beta)
{
    if (call->alpha == NULL || (beta && call->beta == NULL)) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    return CUBLAS_STATUS_SUCCESS;
}

static int
check_gemm(struct blas_call *call)
{
    bool ta = call->transa != CUBLAS_OP_N, tb = call->transb != CUBLAS_OP_N;

    if (!is_op(call->transa) || !is_op(call->transb) || call->m < 0 ||
        call->n < 0 || call->k < 0 ||
        check_scalars(call, true) != CUBLAS_STATUS_SUCCESS ||
        blas_use(call, call->A, ta ? call->k : call->m, ta ? call->m : call->k,
                 call->lda, false) != CUBLAS_STATUS_SUCCESS ||
        blas_use(call, call->B, tb ? call->n : call->k, tb ? call->k : call->n,
                 call->ldb, false) != CUBLAS_STATUS_SUCCESS ||
        blas_use(call, call->C, call->m, call->n, call->ldc, true) !=
            CUBLAS_STATUS_SUCCESS) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    return CUBLAS_STATUS_SUCCESS;
}

typedef void gemm(const char *, const char *, const int64_t *, const int64_t *,
                  const int64_t *, const void *, const void *, const int64_t *,
                  const void *, const int64_t *, const void *, void *,
                  const int64_t *, size_t, size_t);

static int
run_gemm(struct blas_call *call)
{
    gemm *function = (gemm *)netlib_routine("?gemm_", call->type);

    if (function == NULL) {
        return CUDA_ERROR_NOT_FOUND;
    }
    function(&op_letter[call->transa], &op_letter[call->transb], &call->m,
             &call->n, &call->k, call->alpha_value, blas_at(call->A),
             &call->lda, blas_at(call->B), &call->ldb, call->beta_value,
             blas_at(call->C), &call->ldc, 1, 1);
    return CUDA_SUCCESS;
}

const struct blas_routine blas_gemm = {check_gemm, run_gemm};
