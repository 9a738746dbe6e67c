/* SPDX-License-Identifier: Apache-2.0
 *
 * cusolverDnXgesvdp of the fake cuSOLVER, with the economic form only: LAPACK's
 * gesdd, whose V^H is turned to V. What the caller must not count on is spoiled:
 * A, both workspaces, and h_err_sigma until the stream comes to it.
 */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fakecuda/netlib.h"
#include "tests/fakecuda/solver.h"

#include "tests/fakecuda/cusolver_rows.h"

#define INVALID CUSOLVER_STATUS_INVALID_VALUE
#define FINE    CUSOLVER_STATUS_SUCCESS

struct fake_solver_params {
    int unused;
};

typedef const void *word;
typedef void gesdd(word, word, word, word, word, word, word, word, word, word,
                   word, word, word, int64_t *, size_t);
typedef void cgesdd(word, word, word, word, word, word, word, word, word, word,
                    word, word, word, word, int64_t *, size_t);

struct polar {
    struct solver_call call;
    int64_t ldv;
    void *v, *host;
    size_t device_bytes, host_bytes;
    double *perturbation;
};

cusolverStatus_t
fake_cusolverDnCreateParams(cusolverDnParams_t *params)
{
    if (params == NULL) {
        return INVALID;
    }
    *params =
        fakecuda_new(FAKE_SOLVER_PARAMS, sizeof(struct fake_solver_params),
                     "cusolverDnCreateParams");
    return *params == NULL ? CUSOLVER_STATUS_ALLOC_FAILED : FINE;
}

static bool
valid_params(cusolverDnParams_t params)
{
    if (fakecuda_valid(params, FAKE_SOLVER_PARAMS)) {
        return true;
    }
    fakecuda_note("bad-handle", "cuSOLVER's parameters %p", (void *)params);
    return false;
}

cusolverStatus_t
fake_cusolverDnDestroyParams(cusolverDnParams_t params)
{
    if (!valid_params(params)) {
        return INVALID;
    }
    fakecuda_destroy(params);
    return FINE;
}

/* The letter of a combination of types, or 0. */
static char
letter(cudaDataType a, cudaDataType s, cudaDataType u, cudaDataType v,
       cudaDataType compute)
{
    static const struct {
        char letter;
        cudaDataType type, real;
    } types[] = {{'S', CUDA_R_32F, CUDA_R_32F},
                 {'D', CUDA_R_64F, CUDA_R_64F},
                 {'C', CUDA_C_32F, CUDA_R_32F},
                 {'Z', CUDA_C_64F, CUDA_R_64F}};

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (a == types[i].type && s == types[i].real && u == a && v == a &&
            compute == a) {
            return types[i].letter;
        }
    }
    return 0;
}

static int
check_shape(const struct polar *polar, int jobz, int econ)
{
    const struct solver_call *call = &polar->call;
    int64_t m = call->m, n = call->n;

    if (call->type == 0 || m < 1 || n < 1 || call->lda < m || call->ldu < m ||
        polar->ldv < n || econ < 0 || econ > 1) {
        return INVALID;
    }
    /* The real one can do more; nobody here asks for it. */
    if (jobz != CUSOLVER_EIG_MODE_VECTOR || econ != 1 || m < n) {
        return CUSOLVER_STATUS_NOT_SUPPORTED;
    }
    return FINE;
}

static size_t
device_need(const struct solver_call *call)
{
    return (size_t)(call->m * call->n) * solver_bytes(call) + 1000;
}

static size_t
host_need(const struct solver_call *call)
{
    return (size_t)call->n * 8 + 77;
}

cusolverStatus_t
fake_cusolverDnXgesvdp_bufferSize(
    cusolverDnHandle_t handle, cusolverDnParams_t params,
    cusolverEigMode_t jobz, int econ, int64_t m, int64_t n,
    cudaDataType dataTypeA, const void *A, int64_t lda, cudaDataType dataTypeS,
    const void *S, cudaDataType dataTypeU, const void *U, int64_t ldu,
    cudaDataType dataTypeV, const void *V, int64_t ldv,
    cudaDataType computeType, size_t *workspaceInBytesOnDevice,
    size_t *workspaceInBytesOnHost)
{
    struct polar polar = {
        .call = {.type = letter(dataTypeA, dataTypeS, dataTypeU, dataTypeV,
                                computeType),
                 .m = m,
                 .n = n,
                 .lda = lda,
                 .ldu = ldu},
        .ldv = ldv};
    int status = check_shape(&polar, jobz, econ);

    (void)A, (void)S, (void)U, (void)V;
    if (!solver_valid(handle)) {
        return CUSOLVER_STATUS_NOT_INITIALIZED;
    }
    if (!valid_params(params) || workspaceInBytesOnDevice == NULL ||
        workspaceInBytesOnHost == NULL) {
        return INVALID;
    }
    if (status == FINE) {
        *workspaceInBytesOnDevice = device_need(&polar.call);
        *workspaceInBytesOnHost =
            (size_t)fakecuda_setting("POLAR_HOST", host_need(&polar.call));
    }
    return status;
}

/* V from V^H, both where the host finds them. */
static void
turn(const struct polar *polar, const char *vh, char *v)
{
    const struct solver_call *call = &polar->call;
    const size_t bytes = solver_bytes(call);

    for (int64_t j = 0; j < call->n; j++) {
        for (int64_t i = 0; i < call->n; i++) {
            char *to = v + (size_t)(j * polar->ldv + i) * bytes;
            memcpy(to, vh + (size_t)(i * call->n + j) * bytes, bytes);
            if (solver_complex(call)) { /* the sign of the imaginary part */
                to[bytes - 1] = (char)(to[bytes - 1] ^ 0x80);
            }
        }
    }
}

static int
decompose(const struct polar *polar, char *vh, void *work, int64_t lwork,
          void *rwork, int64_t *iwork, int64_t *info)
{
    const struct solver_call *call = &polar->call;
    void *function = netlib_routine("?gesdd_", call->type);

    if (function == NULL) {
        return CUDA_ERROR_NOT_FOUND;
    }
    if (solver_complex(call)) {
        ((cgesdd *)function)("S", &call->m, &call->n, solver_at(call->A),
                             &call->lda, solver_at(call->S), solver_at(call->U),
                             &call->ldu, vh, &call->n, work, &lwork, rwork,
                             iwork, info, 1);
    } else {
        ((gesdd *)function)("S", &call->m, &call->n, solver_at(call->A),
                            &call->lda, solver_at(call->S), solver_at(call->U),
                            &call->ldu, vh, &call->n, work, &lwork, iwork, info,
                            1);
    }
    return CUDA_SUCCESS;
}

static int
run(void *argument)
{
    struct polar *polar = argument;
    struct solver_call *call = &polar->call;
    const int64_t m = call->m, n = call->n, lwork = 4 * n * n + 64 * (m + n);
    const size_t bytes = solver_bytes(call);
    const char *said = getenv("FAKECUDA_PERTURBATION");
    int64_t info = 0;
    char *vh = calloc((size_t)(n * n), bytes);
    void *work = calloc((size_t)lwork, bytes);
    void *rwork = calloc((size_t)(8 * n * n + 2 * m * n + 8 * n), bytes);
    int64_t *iwork = calloc((size_t)(8 * n), sizeof(*iwork));
    int result = CUDA_ERROR_NOT_FOUND;

    memset(solver_at(call->work), 0xFF, polar->device_bytes);
    memset(polar->host, 0xFF, polar->host_bytes);
    fakecuda_pause();
    if (vh != NULL && work != NULL && rwork != NULL && iwork != NULL) {
        result = decompose(polar, vh, work, lwork, rwork, iwork, &info);
    }
    if (result == CUDA_SUCCESS) {
        turn(polar, vh, solver_at(polar->v));
        for (int64_t j = 0; j < n; j++) {
            memset((char *)solver_at(call->A) + (size_t)(j * call->lda) * bytes,
                   0xFF, (size_t)m * bytes);
        }
        *polar->perturbation = said == NULL ? 0 : strtod(said, NULL);
        result = solver_info(
            call, (int64_t)fakecuda_setting("POLAR_INFO", (uint64_t)info));
        if (fakecuda_is_wrong(call->name)) {
            fakecuda_spoil((uintptr_t)call->U,
                           solver_complex(call) ? bytes / 2 : bytes);
        }
    }
    free(vh);
    free(work);
    free(rwork);
    free(iwork);
    return result;
}

static int
check(struct polar *polar, int jobz, int econ)
{
    struct solver_call *call = &polar->call;
    const size_t bytes = solver_bytes(call);
    const size_t device = device_need(call), host = host_need(call);
    int64_t m = call->m, n = call->n;
    int status = check_shape(polar, jobz, econ);

    if (status != FINE) {
        return status;
    }
    if (polar->device_bytes < device || polar->host_bytes < host) {
        fakecuda_note("small-workspace",
                      "%s: %zu of %zu, on the host %zu of "
                      "%zu",
                      call->name, polar->device_bytes, device,
                      polar->host_bytes, host);
        return INVALID;
    }
    polar->device_bytes = device;
    polar->host_bytes = host;
    if (polar->host == NULL || polar->perturbation == NULL ||
        fakecuda_is_device((uintptr_t)polar->host) ||
        fakecuda_is_device((uintptr_t)polar->perturbation) ||
        solver_use(call, call->A, m, n, call->lda, bytes, true) != FINE ||
        solver_use(call, call->S, n, 1, n,
                   solver_complex(call) ? bytes / 2 : bytes, true) != FINE ||
        solver_use(call, call->U, m, n, call->ldu, bytes, true) != FINE ||
        solver_use(call, polar->v, n, n, polar->ldv, bytes, true) != FINE ||
        solver_use(call, call->work, (int64_t)device, 1, (int64_t)device, 1,
                   true) != FINE ||
        solver_use(call, call->info, 1, 1, 1, sizeof(int), true) != FINE) {
        return INVALID;
    }
    *polar->perturbation = NAN;
    return FINE;
}

cusolverStatus_t
fake_cusolverDnXgesvdp(cusolverDnHandle_t handle, cusolverDnParams_t params,
                       cusolverEigMode_t jobz, int econ, int64_t m, int64_t n,
                       cudaDataType dataTypeA, void *A, int64_t lda,
                       cudaDataType dataTypeS, void *S, cudaDataType dataTypeU,
                       void *U, int64_t ldu, cudaDataType dataTypeV, void *V,
                       int64_t ldv, cudaDataType computeType,
                       void *bufferOnDevice, size_t workspaceInBytesOnDevice,
                       void *bufferOnHost, size_t workspaceInBytesOnHost,
                       int *d_info, double *h_err_sigma)
{
    struct polar polar = {
        .call = {.name = "cusolverDnXgesvdp",
                 .type = letter(dataTypeA, dataTypeS, dataTypeU, dataTypeV,
                                computeType),
                 .handle = handle,
                 .m = m,
                 .n = n,
                 .A = A,
                 .lda = lda,
                 .S = S,
                 .U = U,
                 .ldu = ldu,
                 .work = bufferOnDevice,
                 .info = d_info},
        .ldv = ldv,
        .v = V,
        .host = bufferOnHost,
        .device_bytes = workspaceInBytesOnDevice,
        .host_bytes = workspaceInBytesOnHost,
        .perturbation = h_err_sigma};

    if (!solver_valid(handle)) {
        return CUSOLVER_STATUS_NOT_INITIALIZED;
    }
    int status = valid_params(params) ? check(&polar, jobz, econ) : INVALID;
    if (status != FINE) {
        fakecuda_note("bad-argument", "%s", polar.call.name);
        return status;
    }
    return fakecuda_status(FAKE_CUSOLVER,
                           fakecuda_submit(handle->stream, polar.call.name, run,
                                           &polar, sizeof(polar),
                                           polar.call.uses, polar.call.n_uses));
}
