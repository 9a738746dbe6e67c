/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of the fake cuSOLVER only: as blas.h, for the host's LAPACK. Work
 * spaces are filled with garbage, so that one too small or still used is seen.
 */
#ifndef FERRY_TESTS_FAKECUDA_SOLVER_H
#define FERRY_TESTS_FAKECUDA_SOLVER_H

#include "tests/fakecuda/core.h"
#include "tests/fakecuda/cusolver_abi.h"

struct solver_call {
    const char *name;
    char type; /* S, D, C or Z */
    cusolverDnHandle_t handle;
    int side, uplo, trans, jobz;
    signed char jobu, jobvt;
    int64_t m, n, k, nrhs, k1, k2, incx;
    const void *A, *B, *C, *U, *VT, *tau;
    int64_t lda, ldb, ldc, ldu, ldvt;
    const void *W, *S, *rwork, *work;
    int lwork;
    int *size; /* of the bufferSize functions, on the host */
    const int *ipiv, *info;

    struct fake_use uses[FAKE_USES_MAX];
    size_t n_uses;
};

struct solver_routine {
    int (*check)(struct solver_call *call); /* a cusolverStatus_t */
    int (*run)(struct solver_call *call);   /* a CUresult; NULL: a size */
    bool silent;                            /* has no devInfo */
};

struct fake_solver {
    cudaStream_t stream;
};

cusolverStatus_t solver_issue(struct solver_call *call,
                              const struct solver_routine *routine);

size_t solver_bytes(const struct solver_call *call);
bool solver_complex(const struct solver_call *call);

bool solver_valid(cusolverDnHandle_t handle);

/* Operands: as blas_use(); the unit is a byte count. */
int solver_use(struct solver_call *call, const void *address, int64_t rows,
               int64_t columns, int64_t ld, size_t unit_bytes, bool write);

/* The work space: given with lwork elements, needed elements. */
int solver_use_work(struct solver_call *call, int given, int64_t needed);

void *solver_at(const void *address);

/* Inside run: *info on the device. */
int solver_info(const struct solver_call *call, int64_t info);

extern const struct solver_routine solver_potrf_size;
extern const struct solver_routine solver_potrf;
extern const struct solver_routine solver_potrs;
extern const struct solver_routine solver_potri_size;
extern const struct solver_routine solver_potri;
extern const struct solver_routine solver_getrf_size;
extern const struct solver_routine solver_getrf;
extern const struct solver_routine solver_getrs;
extern const struct solver_routine solver_laswp;
extern const struct solver_routine solver_geqrf_size;
extern const struct solver_routine solver_geqrf;
extern const struct solver_routine solver_orgqr_size;
extern const struct solver_routine solver_orgqr;
extern const struct solver_routine solver_ormqr_size;
extern const struct solver_routine solver_ormqr;
extern const struct solver_routine solver_syevd_size;
extern const struct solver_routine solver_syevd;
extern const struct solver_routine solver_gesvd_size;
extern const struct solver_routine solver_gesvd;

#endif
