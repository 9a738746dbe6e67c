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
    int integer_bytes;
    cublasHandle_t handle;
    int side, mode, uplo, trans, transa, transb, diag;
    int64_t m, n, k, kl, ku;
    const void *alpha, *beta;
    const void *A, *B, *x, *y;
    void *C, *result;
    int64_t lda, ldb, ldc, incx, incy;
    const void *Aarray, *Barray, *Carray; /* of pointers, on the device */
    int64_t strideA, strideB, strideC;    /* in elements */
    int64_t batchCount;

    /* Set by the issue and the check. */
    unsigned char alpha_value[16], beta_value[16];
    bool device_scalars, vector;
    uint64_t workspace;
    size_t workspace_bytes;
    bool default_workspace;
    struct fake_use uses[FAKE_USES_MAX];
    size_t n_uses;
};

/* Fortran's result, which goes to call->result. */
enum blas_answer {
    BLAS_NO_ANSWER,
    BLAS_ELEMENT,
    BLAS_REAL,
    BLAS_INDEX
};

struct blas_routine {
    const char *name;                     /* family of cublas_routines.rows */
    const char *fortran;                  /* as netlib_routine() takes it */
    const char *arguments;                /* as arguments.c takes it */
    bool real_alpha, real_beta;           /* of the element's real type */
    bool vector;                          /* n may be negative: nothing to do */
    enum blas_answer answer;              /* waited for if it is on the host */
    int (*check)(struct blas_call *call); /* further checks, or NULL */
    int (*run)(struct blas_call *call);   /* instead of Fortran's, or NULL */
};

struct fake_blas {
    cudaStream_t stream;
    int pointer_mode, math_mode, atomics_mode;
    uint64_t own_workspace;
    uint64_t workspace; /* the caller's, or own_workspace */
    size_t workspace_bytes;
};

/* Carries out a call of the family: gate, checks, the stream. */
cublasStatus_t blas_issue(struct blas_call *call, const char *family);

const struct blas_routine *blas_routine(const char *family);

/* Checks arguments and notes the memory that they use: a cublasStatus_t. */
int blas_check_arguments(struct blas_call *call, const char *arguments);

/* Calls the reference BLAS: a CUresult. answer may be NULL if it has none. */
int blas_call_fortran(struct blas_call *call,
                      const struct blas_routine *routine, void *answer);

/* Bytes of an element of the call's type. */
size_t blas_bytes(const struct blas_call *call);
bool blas_complex(const struct blas_call *call);

/* One operand: a matrix, or a vector of n elements. CUBLAS_STATUS_INVALID_VALUE
 * for a NULL or misaligned address and a short leading dimension, unless it is
 * empty; an increment of 0 too. */
int blas_use(struct blas_call *call, const void *address, int64_t rows,
             int64_t columns, int64_t ld, bool write);
int blas_use_vector(struct blas_call *call, const void *address, int64_t n,
                    int64_t increment, bool write);

/* Inside run: the operand's bytes; empty operands have some address as well. */
void *blas_at(const void *address);

#endif
