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
    bool device_scalars;
    uint64_t workspace;
    size_t workspace_bytes;
    bool default_workspace;
    struct fake_use uses[FAKE_USES_MAX];
    size_t n_uses;
};

struct blas_routine {
    int (*check)(struct blas_call *call); /* a cublasStatus_t */
    int (*run)(struct blas_call *call);   /* a CUresult */
    bool real_alpha, real_beta;           /* of the element's real type */
    bool answers; /* waits for its result when that is on the host */
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

/* One operand: a matrix, or a vector of n elements. CUBLAS_STATUS_INVALID_VALUE
 * for a NULL or misaligned address and a short leading dimension, unless it is
 * empty; an increment of 0 too. */
int blas_use(struct blas_call *call, const void *address, int64_t rows,
             int64_t columns, int64_t ld, bool write);
int blas_use_vector(struct blas_call *call, const void *address, int64_t n,
                    int64_t increment, bool write);

/* Inside run: the operand's bytes; empty operands have some address as well. */
void *blas_at(const void *address);

/* Whether arguments are of their enums. */
bool blas_is_op(int trans);
bool blas_is_binary(int value); /* side, fill mode, diagonal */

/* Their letters, as Fortran wants them. */
extern const char blas_op[], blas_fill[], blas_side[], blas_diag[];

extern const struct blas_routine blas_gemm;
extern const struct blas_routine blas_gemm_strided;
extern const struct blas_routine blas_gemm_batched;
extern const struct blas_routine blas_symm;
extern const struct blas_routine blas_hemm;
extern const struct blas_routine blas_syrk;
extern const struct blas_routine blas_herk;
extern const struct blas_routine blas_syr2k;
extern const struct blas_routine blas_her2k;
extern const struct blas_routine blas_trmm;
extern const struct blas_routine blas_trsm;
extern const struct blas_routine blas_geam;
extern const struct blas_routine blas_gemv;
extern const struct blas_routine blas_symv;
extern const struct blas_routine blas_hemv;
extern const struct blas_routine blas_trmv;
extern const struct blas_routine blas_trsv;
extern const struct blas_routine blas_ger;
extern const struct blas_routine blas_geru;
extern const struct blas_routine blas_gerc;
extern const struct blas_routine blas_syr;
extern const struct blas_routine blas_her;
extern const struct blas_routine blas_syr2;
extern const struct blas_routine blas_her2;
extern const struct blas_routine blas_gbmv;
extern const struct blas_routine blas_sbmv;
extern const struct blas_routine blas_hbmv;
extern const struct blas_routine blas_spmv;
extern const struct blas_routine blas_hpmv;
extern const struct blas_routine blas_tbmv;
extern const struct blas_routine blas_tbsv;
extern const struct blas_routine blas_tpmv;
extern const struct blas_routine blas_tpsv;
extern const struct blas_routine blas_spr;
extern const struct blas_routine blas_hpr;
extern const struct blas_routine blas_spr2;
extern const struct blas_routine blas_hpr2;
extern const struct blas_routine blas_axpy;
extern const struct blas_routine blas_scal;
extern const struct blas_routine blas_rscal;
extern const struct blas_routine blas_copy;
extern const struct blas_routine blas_swap;
extern const struct blas_routine blas_dot;
extern const struct blas_routine blas_dotu;
extern const struct blas_routine blas_dotc;
extern const struct blas_routine blas_nrm2;
extern const struct blas_routine blas_asum;
extern const struct blas_routine blas_amax;

#endif
