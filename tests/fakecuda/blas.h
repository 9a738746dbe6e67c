/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of the fake cuBLAS only. Every routine's arguments go into one
 * structure (made by generate.py from cublas_routines.rows, the fields have the
 * parameters' names), a check says what memory it uses, and when the stream
 * comes to it the host's reference BLAS computes.
 */
#ifndef FERRY_TESTS_FAKECUDA_BLAS_H
#define FERRY_TESTS_FAKECUDA_BLAS_H

#include "tests/fakecuda/core.h"
#include "tests/fakecuda/cublas_abi.h"

struct blas_call {
    const char *name;
    char type; /* S, D, C or Z */
    cublasHandle_t handle;
    int side, uplo, transa, transb, diag;
    int64_t m, n, k;
    const void *alpha, *beta;
    const void *A, *B;
    void *C;
    int64_t lda, ldb, ldc;

    /* Set by the issue and the check. */
    unsigned char alpha_value[16], beta_value[16];
    bool device_scalars;
    uint64_t workspace;
    size_t workspace_bytes;
    struct fake_use uses[FAKE_USES_MAX];
    size_t n_uses;
};

struct blas_routine {
    int (*check)(struct blas_call *call); /* a cublasStatus_t */
    int (*run)(struct blas_call *call);   /* a CUresult */
};

struct fake_blas {
    cudaStream_t stream;
    int pointer_mode, math_mode, atomics_mode;
    uint64_t own_workspace;
    uint64_t workspace; /* the caller's, or own_workspace */
    size_t workspace_bytes;
};

/* The whole of a routine: gate, checks, the stream. */
cublasStatus_t blas_issue(struct blas_call *call,
                          const struct blas_routine *routine);

/* Bytes of an element of the call's type. */
size_t blas_bytes(const struct blas_call *call);
bool blas_complex(const struct blas_call *call);

/* One matrix operand: what it needs (NULL or a short leading dimension make
 * it CUBLAS_STATUS_INVALID_VALUE) and what it uses. */
int blas_use(struct blas_call *call, const void *address, int64_t rows,
             int64_t columns, int64_t ld, bool write);

/* Inside run: the operand's bytes; empty operands have some address as well. */
void *blas_at(const void *address);

bool blas_is_zero(const struct blas_call *call, const void *scalar);

extern const struct blas_routine blas_gemm;

#endif
