/* SPDX-License-Identifier: Apache-2.0
 *
 * The routines of the fake cuSOLVER: what each needs, and LAPACK's call. The
 * sizes of work spaces are odd on purpose: nobody guesses them. Long because a
 * routine is three functions and there are many.
 */
#include "config.h"

#include <stdlib.h>

#include "tests/fakecuda/netlib.h"
#include "tests/fakecuda/solver.h"

#define INVALID CUSOLVER_STATUS_INVALID_VALUE
#define FINE    CUSOLVER_STATUS_SUCCESS

typedef const void *word;
typedef void potrf(word, word, word, word, int64_t *, size_t);
typedef void potrs(word, word, word, word, word, word, word, int64_t *, size_t);
typedef void getrf(word, word, word, word, int64_t *, int64_t *);
typedef void getrs(word, word, word, word, word, int64_t *, word, word,
                   int64_t *, size_t);
typedef void laswp(word, word, word, word, word, int64_t *, word);
typedef void geqrf(word, word, word, word, word, word, word, int64_t *);
typedef void orgqr(word, word, word, word, word, word, word, word, int64_t *);
typedef void ormqr(word, word, word, word, word, word, word, word, word, word,
                   word, word, int64_t *, size_t, size_t);
typedef void syevd(word, word, word, word, word, word, word, word, word, word,
                   int64_t *, size_t, size_t);
typedef void heevd(word, word, word, word, word, word, word, word, word, word,
                   word, word, int64_t *, size_t, size_t);
typedef void gesvd(word, word, word, word, word, word, word, word, word, word,
                   word, word, word, int64_t *, size_t, size_t);
typedef void cgesvd(word, word, word, word, word, word, word, word, word, word,
                    word, word, word, word, int64_t *, size_t, size_t);

static const char op[] = "NTC";
static const char fill[] = "LU";
static const char side[] = "LR";

static bool
is_fill(int uplo)
{
    return uplo == CUBLAS_FILL_MODE_LOWER || uplo == CUBLAS_FILL_MODE_UPPER;
}

static int
use(struct solver_call *call, const void *address, int64_t rows,
    int64_t columns, int64_t ld, bool write)
{
    return solver_use(call, address, rows, columns, ld, solver_bytes(call),
                      write);
}

static int
use_real(struct solver_call *call, const void *address, int64_t n, bool write)
{
    size_t bytes = solver_bytes(call) / (solver_complex(call) ? 2 : 1);

    return solver_use(call, address, n, 1, n < 1 ? 1 : n, bytes, write);
}

static int
give_size(struct solver_call *call, bool valid, int64_t elements)
{
    if (!valid || call->size == NULL || elements > INT32_MAX) {
        return INVALID;
    }
    *call->size = (int)elements;
    return FINE;
}

/* ---- Cholesky ---- */

static int64_t
potrf_work(const struct solver_call *call)
{
    return call->n * 24 + 33;
}

static int
check_potrf_size(struct solver_call *call)
{
    return give_size(call,
                     is_fill(call->uplo) && call->n >= 0 &&
                         call->lda >= (call->n > 1 ? call->n : 1),
                     potrf_work(call));
}

static int
check_potrf(struct solver_call *call)
{
    if (!is_fill(call->uplo) ||
        use(call, call->A, call->n, call->n, call->lda, true) != FINE ||
        solver_use_work(call, call->lwork, potrf_work(call)) != FINE) {
        return INVALID;
    }
    return FINE;
}

static int
run_potrf_named(struct solver_call *call, const char *name)
{
    potrf *function = (potrf *)netlib_routine(name, call->type);
    int64_t info = 0;

    if (function == NULL) {
        return CUDA_ERROR_NOT_FOUND;
    }
    function(&fill[call->uplo], &call->n, solver_at(call->A), &call->lda, &info,
             1);
    return solver_info(call, info);
}

static int
run_potrf(struct solver_call *call)
{
    return run_potrf_named(call, "?potrf_");
}

static int
run_potri(struct solver_call *call)
{
    return run_potrf_named(call, "?potri_");
}

static int
check_potrs(struct solver_call *call)
{
    if (!is_fill(call->uplo) ||
        use(call, call->A, call->n, call->n, call->lda, false) != FINE ||
        use(call, call->B, call->n, call->nrhs, call->ldb, true) != FINE) {
        return INVALID;
    }
    return FINE;
}

static int
run_potrs(struct solver_call *call)
{
    potrs *function = (potrs *)netlib_routine("?potrs_", call->type);
    int64_t info = 0;

    if (function == NULL) {
        return CUDA_ERROR_NOT_FOUND;
    }
    function(&fill[call->uplo], &call->n, &call->nrhs, solver_at(call->A),
             &call->lda, solver_at(call->B), &call->ldb, &info, 1);
    return solver_info(call, info);
}

/* ---- LU: indices of rows are int here and int64_t in the library ---- */

static int64_t
getrf_work(const struct solver_call *call)
{
    return call->m * 3 + call->n * 16 + 71;
}

static int
check_getrf_size(struct solver_call *call)
{
    return give_size(call,
                     call->m >= 0 && call->n >= 0 &&
                         call->lda >= (call->m > 1 ? call->m : 1),
                     getrf_work(call));
}

static int64_t
least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int
use_pivots(struct solver_call *call, int64_t n, bool write)
{
    return solver_use(call, call->ipiv, n, 1, n < 1 ? 1 : n, sizeof(int),
                      write);
}

static int
check_getrf(struct solver_call *call)
{
    if (use(call, call->A, call->m, call->n, call->lda, true) != FINE ||
        use_pivots(call, least(call->m, call->n), true) != FINE ||
        solver_use_work(call, INT32_MAX, getrf_work(call)) != FINE) {
        return INVALID;
    }
    return FINE;
}

static int
run_getrf(struct solver_call *call)
{
    getrf *function = (getrf *)netlib_routine("?getrf_", call->type);
    int64_t n = least(call->m, call->n), info = 0;
    int64_t *wide = calloc((size_t)n + 1, sizeof(*wide));
    int *narrow = solver_at(call->ipiv);

    if (function == NULL || wide == NULL) {
        free(wide);
        return CUDA_ERROR_NOT_FOUND;
    }
    function(&call->m, &call->n, solver_at(call->A), &call->lda, wide, &info);
    for (int64_t i = 0; i < n; i++) {
        narrow[i] = (int)wide[i];
    }
    free(wide);
    return solver_info(call, info);
}

static int
check_getrs(struct solver_call *call)
{
    if (call->trans < CUBLAS_OP_N || call->trans > CUBLAS_OP_C ||
        use(call, call->A, call->n, call->n, call->lda, false) != FINE ||
        use_pivots(call, call->n, false) != FINE ||
        use(call, call->B, call->n, call->nrhs, call->ldb, true) != FINE) {
        return INVALID;
    }
    return FINE;
}

/* Indices out of range would be illegal addresses. */
static int
run_getrs(struct solver_call *call)
{
    getrs *function = (getrs *)netlib_routine("?getrs_", call->type);
    int64_t *wide = calloc((size_t)call->n + 1, sizeof(*wide));
    const int *narrow = solver_at(call->ipiv);
    int64_t info = 0;

    if (function == NULL || wide == NULL) {
        free(wide);
        return CUDA_ERROR_NOT_FOUND;
    }
    for (int64_t i = 0; i < call->n; i++) {
        wide[i] = narrow[i];
        if (wide[i] < 1 || wide[i] > call->n) {
            fakecuda_note("illegal-address", "%s: pivot %lld", call->name,
                          (long long)wide[i]);
            free(wide);
            return CUDA_ERROR_ILLEGAL_ADDRESS;
        }
    }
    function(&op[call->trans], &call->n, &call->nrhs, solver_at(call->A),
             &call->lda, wide, solver_at(call->B), &call->ldb, &info, 1);
    free(wide);
    return solver_info(call, info);
}

static int64_t
pivot_step(const struct solver_call *call)
{
    return call->incx < 0 ? -call->incx : call->incx;
}

/* How many rows A has is nobody's argument: the pivots say it later. */
static int
check_laswp(struct solver_call *call)
{
    int64_t count = call->k1 + (call->k2 - call->k1) * pivot_step(call);

    if (call->n < 0 || call->k1 < 1 || call->k2 < call->k1 || call->incx == 0 ||
        use(call, call->A, call->k2, call->n, call->lda, true) != FINE ||
        use_pivots(call, count, false) != FINE) {
        return INVALID;
    }
    return FINE;
}

static int
run_laswp(struct solver_call *call)
{
    laswp *function = (laswp *)netlib_routine("?laswp_", call->type);
    int64_t count = call->k1 + (call->k2 - call->k1) * pivot_step(call);
    int64_t *wide = calloc((size_t)count, sizeof(*wide)), last = 0;
    const int *narrow = solver_at(call->ipiv);

    if (function == NULL || wide == NULL) {
        free(wide);
        return CUDA_ERROR_NOT_FOUND;
    }
    /* LAPACK reads every step-th from the k1-th on. */
    for (int64_t i = call->k1 - 1; i < count; i += pivot_step(call)) {
        wide[i] = narrow[i];
        last = wide[i] < 1 ? INT32_MAX : wide[i] > last ? wide[i] : last;
    }
    if (last > call->lda ||
        (call->n > 0 && fakecuda_at((uintptr_t)call->A,
                                    (size_t)(call->lda * (call->n - 1) + last) *
                                        solver_bytes(call)) == NULL)) {
        fakecuda_note("illegal-address", "%s: pivot %lld", call->name,
                      (long long)last);
        free(wide);
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    function(&call->n, solver_at(call->A), &call->lda, &call->k1, &call->k2,
             wide, &call->incx);
    free(wide);
    return CUDA_SUCCESS;
}

/* ---- QR ---- */

static int64_t
qr_work(const struct solver_call *call)
{
    return (call->m + call->n) * 32 + 5;
}

static int
check_geqrf_size(struct solver_call *call)
{
    return give_size(call,
                     call->m >= 0 && call->n >= 0 &&
                         call->lda >= (call->m > 1 ? call->m : 1),
                     qr_work(call));
}

static int
check_geqrf(struct solver_call *call)
{
    if (use(call, call->A, call->m, call->n, call->lda, true) != FINE ||
        use(call, call->tau, least(call->m, call->n), 1, INT32_MAX, true) !=
            FINE ||
        solver_use_work(call, call->lwork, qr_work(call)) != FINE) {
        return INVALID;
    }
    return FINE;
}

/* Memory of the host for LAPACK, of count elements and at least one. */
static void *
host_work(const struct solver_call *call, int64_t count)
{
    return calloc((size_t)count + 1, solver_bytes(call));
}

static int
run_geqrf(struct solver_call *call)
{
    geqrf *function = (geqrf *)netlib_routine("?geqrf_", call->type);
    int64_t lwork = qr_work(call), info = 0;
    void *work = host_work(call, lwork);

    if (function == NULL || work == NULL) {
        free(work);
        return CUDA_ERROR_NOT_FOUND;
    }
    function(&call->m, &call->n, solver_at(call->A), &call->lda,
             solver_at(call->tau), work, &lwork, &info);
    free(work);
    return solver_info(call, info);
}

static int
check_orgqr_size(struct solver_call *call)
{
    return give_size(call,
                     call->m >= call->n && call->n >= call->k && call->k >= 0 &&
                         call->lda >= (call->m > 1 ? call->m : 1),
                     qr_work(call));
}

static int
check_orgqr(struct solver_call *call)
{
    if (call->n > call->m || call->k > call->n ||
        use(call, call->A, call->m, call->n, call->lda, true) != FINE ||
        use(call, call->tau, call->k, 1, INT32_MAX, false) != FINE ||
        solver_use_work(call, call->lwork, qr_work(call)) != FINE) {
        return INVALID;
    }
    return FINE;
}

static int
run_orgqr(struct solver_call *call)
{
    orgqr *function = (orgqr *)netlib_routine(
        solver_complex(call) ? "?ungqr_" : "?orgqr_", call->type);
    int64_t lwork = qr_work(call), info = 0;
    void *work = host_work(call, lwork);

    if (function == NULL || work == NULL) {
        free(work);
        return CUDA_ERROR_NOT_FOUND;
    }
    function(&call->m, &call->n, &call->k, solver_at(call->A), &call->lda,
             solver_at(call->tau), work, &lwork, &info);
    free(work);
    return solver_info(call, info);
}

static int64_t
ormqr_order(const struct solver_call *call)
{
    return call->side == CUBLAS_SIDE_LEFT ? call->m : call->n;
}

/* For real matrices C is T, and for complex ones T is nothing. */
static bool
ormqr_valid(const struct solver_call *call)
{
    return (call->side == CUBLAS_SIDE_LEFT ||
            call->side == CUBLAS_SIDE_RIGHT) &&
           (call->trans == CUBLAS_OP_N ||
            (call->trans == CUBLAS_OP_T && !solver_complex(call)) ||
            (call->trans == CUBLAS_OP_C && solver_complex(call))) &&
           call->k >= 0 && call->k <= ormqr_order(call);
}

static int
check_ormqr_size(struct solver_call *call)
{
    return give_size(call, ormqr_valid(call) && call->m >= 0 && call->n >= 0,
                     qr_work(call));
}

static int
check_ormqr(struct solver_call *call)
{
    if (!ormqr_valid(call) ||
        use(call, call->A, ormqr_order(call), call->k, call->lda, false) !=
            FINE ||
        use(call, call->tau, call->k, 1, INT32_MAX, false) != FINE ||
        use(call, call->C, call->m, call->n, call->ldc, true) != FINE ||
        solver_use_work(call, call->lwork, qr_work(call)) != FINE) {
        return INVALID;
    }
    return FINE;
}

static int
run_ormqr(struct solver_call *call)
{
    ormqr *function = (ormqr *)netlib_routine(
        solver_complex(call) ? "?unmqr_" : "?ormqr_", call->type);
    int64_t lwork = (call->m + call->n) * 64 + 4160, info = 0;
    void *work = host_work(call, lwork);

    if (function == NULL || work == NULL) {
        free(work);
        return CUDA_ERROR_NOT_FOUND;
    }
    function(&side[call->side], &op[call->trans], &call->m, &call->n, &call->k,
             solver_at(call->A), &call->lda, solver_at(call->tau),
             solver_at(call->C), &call->ldc, work, &lwork, &info, 1, 1);
    free(work);
    return solver_info(call, info);
}

/* ---- eigenvalues and singular values ---- */

static int64_t
syevd_work(const struct solver_call *call)
{
    return call->n * call->n + call->n * 7 + 129;
}

static bool
syevd_valid(const struct solver_call *call)
{
    return (call->jobz == CUSOLVER_EIG_MODE_NOVECTOR ||
            call->jobz == CUSOLVER_EIG_MODE_VECTOR) &&
           is_fill(call->uplo) && call->n >= 0;
}

static int
check_syevd_size(struct solver_call *call)
{
    return give_size(
        call, syevd_valid(call) && call->lda >= (call->n > 1 ? call->n : 1),
        syevd_work(call));
}

static int
check_syevd(struct solver_call *call)
{
    if (!syevd_valid(call) ||
        use(call, call->A, call->n, call->n, call->lda, true) != FINE ||
        use_real(call, call->W, call->n, true) != FINE ||
        solver_use_work(call, call->lwork, syevd_work(call)) != FINE) {
        return INVALID;
    }
    return FINE;
}

static int
run_syevd(struct solver_call *call)
{
    void *function = netlib_routine(
        solver_complex(call) ? "?heevd_" : "?syevd_", call->type);
    const char *job = call->jobz == CUSOLVER_EIG_MODE_VECTOR ? "V" : "N";
    int64_t n = call->n, info = 0;
    int64_t lwork = 2 * n * n + 6 * n + 1, lrwork = 2 * n * n + 5 * n + 1,
            liwork = 5 * n + 3;
    void *work = host_work(call, lwork);
    void *rwork = host_work(call, lrwork);
    int64_t *iwork = calloc((size_t)liwork, sizeof(*iwork));
    int result = CUDA_ERROR_NOT_FOUND;

    if (function != NULL && work != NULL && rwork != NULL && iwork != NULL) {
        if (solver_complex(call)) {
            ((heevd *)function)(job, &fill[call->uplo], &n, solver_at(call->A),
                                &call->lda, solver_at(call->W), work, &lwork,
                                rwork, &lrwork, iwork, &liwork, &info, 1, 1);
        } else {
            ((syevd *)function)(job, &fill[call->uplo], &n, solver_at(call->A),
                                &call->lda, solver_at(call->W), work, &lwork,
                                iwork, &liwork, &info, 1, 1);
        }
        result = solver_info(call, info);
    }
    free(work);
    free(rwork);
    free(iwork);
    return result;
}

static int64_t
gesvd_work(const struct solver_call *call)
{
    return call->m * 4 + call->n * 40 + 257;
}

/* The real one takes no wide matrices. */
static int
check_gesvd_size(struct solver_call *call)
{
    return give_size(call, call->n >= 0 && call->m >= call->n,
                     gesvd_work(call));
}

static int
check_gesvd(struct solver_call *call)
{
    int64_t m = call->m, n = call->n;
    int64_t columns = call->jobu == 'A' ? m : call->jobu == 'S' ? n : 0;
    int64_t rows = call->jobvt == 'A' || call->jobvt == 'S' ? n : 0;
    bool letters = (call->jobu == 'A' || call->jobu == 'S' ||
                    call->jobu == 'O' || call->jobu == 'N') &&
                   (call->jobvt == 'A' || call->jobvt == 'S' ||
                    call->jobvt == 'O' || call->jobvt == 'N') &&
                   (call->jobu != 'O' || call->jobvt != 'O');

    if (!letters || n < 0 || m < n || call->ldu < 1 || call->ldvt < 1 ||
        use(call, call->A, m, n, call->lda, true) != FINE ||
        use_real(call, call->S, n, true) != FINE ||
        (columns != 0 &&
         use(call, call->U, m, columns, call->ldu, true) != FINE) ||
        (rows != 0 && use(call, call->VT, rows, n, call->ldvt, true) != FINE) ||
        solver_use_work(call, call->lwork, gesvd_work(call)) != FINE) {
        return INVALID;
    }
    return FINE;
}

static int
run_gesvd(struct solver_call *call)
{
    void *function = netlib_routine("?gesvd_", call->type);
    const char jobu = (char)call->jobu, jobvt = (char)call->jobvt;
    int64_t lwork = (call->m + 3 * call->n) * 32 + call->n * call->n + 64;
    int64_t info = 0;
    void *work = host_work(call, lwork);
    void *rwork = host_work(call, 5 * call->n);
    int result = CUDA_ERROR_NOT_FOUND;

    if (function != NULL && work != NULL && rwork != NULL) {
        if (solver_complex(call)) {
            ((cgesvd *)function)(&jobu, &jobvt, &call->m, &call->n,
                                 solver_at(call->A), &call->lda,
                                 solver_at(call->S), solver_at(call->U),
                                 &call->ldu, solver_at(call->VT), &call->ldvt,
                                 work, &lwork, rwork, &info, 1, 1);
        } else {
            ((gesvd *)function)(
                &jobu, &jobvt, &call->m, &call->n, solver_at(call->A),
                &call->lda, solver_at(call->S), solver_at(call->U), &call->ldu,
                solver_at(call->VT), &call->ldvt, work, &lwork, &info, 1, 1);
        }
        result = solver_info(call, info);
    }
    free(work);
    free(rwork);
    return result;
}

const struct solver_routine solver_potrf_size = {check_potrf_size, NULL, false};
const struct solver_routine solver_potrf = {check_potrf, run_potrf, false};
const struct solver_routine solver_potrs = {check_potrs, run_potrs, false};
const struct solver_routine solver_potri_size = {check_potrf_size, NULL, false};
const struct solver_routine solver_potri = {check_potrf, run_potri, false};
const struct solver_routine solver_getrf_size = {check_getrf_size, NULL, false};
const struct solver_routine solver_getrf = {check_getrf, run_getrf, false};
const struct solver_routine solver_getrs = {check_getrs, run_getrs, false};
const struct solver_routine solver_laswp = {check_laswp, run_laswp, true};
const struct solver_routine solver_geqrf_size = {check_geqrf_size, NULL, false};
const struct solver_routine solver_geqrf = {check_geqrf, run_geqrf, false};
const struct solver_routine solver_orgqr_size = {check_orgqr_size, NULL, false};
const struct solver_routine solver_orgqr = {check_orgqr, run_orgqr, false};
const struct solver_routine solver_ormqr_size = {check_ormqr_size, NULL, false};
const struct solver_routine solver_ormqr = {check_ormqr, run_ormqr, false};
const struct solver_routine solver_syevd_size = {check_syevd_size, NULL, false};
const struct solver_routine solver_syevd = {check_syevd, run_syevd, false};
const struct solver_routine solver_gesvd_size = {check_gesvd_size, NULL, false};
const struct solver_routine solver_gesvd = {check_gesvd, run_gesvd, false};
