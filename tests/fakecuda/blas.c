/* SPDX-License-Identifier: Apache-2.0
 *
 * Handles of the fake cuBLAS and the way of all its routines. A workspace is
 * written as the real library writes it: two streams that share one spoil
 * each other's result.
 */
#include "config.h"

#include <complex.h>
#include <stddef.h>
#include <string.h>

#include "tests/fakecuda/blas.h"
#include "tests/fakecuda/cublas_rows.h"

#define OWN_WORKSPACE_BYTES ((size_t)1 << 20)
#define ALIGNMENT_BYTES     256

FAKE_EXPORT const char *cublasGetStatusName(cublasStatus_t status);
FAKE_EXPORT const char *cublasGetStatusString(cublasStatus_t status);

const char *
cublasGetStatusName(cublasStatus_t status)
{
    switch (status) {
    case CUBLAS_STATUS_SUCCESS:
        return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
        return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
        return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
        return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_ARCH_MISMATCH:
        return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_MAPPING_ERROR:
        return "CUBLAS_STATUS_MAPPING_ERROR";
    case CUBLAS_STATUS_EXECUTION_FAILED:
        return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR:
        return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED:
        return "CUBLAS_STATUS_NOT_SUPPORTED";
    case CUBLAS_STATUS_LICENSE_ERROR:
        return "CUBLAS_STATUS_LICENSE_ERROR";
    default:
        return "unknown";
    }
}

const char *
cublasGetStatusString(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS ? "success"
                                           : cublasGetStatusName(status);
}

static bool
valid(cublasHandle_t handle)
{
    if (fakecuda_valid(handle, FAKE_BLAS_HANDLE)) {
        return true;
    }
    fakecuda_note("bad-handle", "cuBLAS %p", (void *)handle);
    return false;
}

cublasStatus_t
fake_cublasCreate_v2(cublasHandle_t *handle)
{
    struct fake_blas *new;
    uint64_t workspace;
    int result;

    if (handle == NULL) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    /* A driver older than the library. */
    if (fakecuda_setting("DRIVER", 13000) < 13000) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    result = fakecuda_memory_new(OWN_WORKSPACE_BYTES, &workspace);
    if (result != CUDA_SUCCESS) {
        return fakecuda_status(FAKE_CUBLAS, result);
    }
    new = fakecuda_new(FAKE_BLAS_HANDLE, sizeof(*new), "cublasCreate");
    if (new == NULL) {
        (void)fakecuda_memory_free(workspace);
        return CUBLAS_STATUS_ALLOC_FAILED;
    }
    new->own_workspace = workspace;
    new->workspace = workspace;
    new->workspace_bytes = OWN_WORKSPACE_BYTES;
    *handle = new;
    return CUBLAS_STATUS_SUCCESS;
}

/* The real one waits for the device. */
cublasStatus_t
fake_cublasDestroy_v2(cublasHandle_t handle)
{
    if (!valid(handle)) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    if (fakecuda_stream_check(handle->stream) == CUDA_SUCCESS) {
        (void)fakecuda_drain(handle->stream);
    } else {
        fakecuda_note("bad-stream", "destroyed before its cuBLAS handle");
    }
    (void)fakecuda_memory_free(handle->own_workspace);
    fakecuda_destroy(handle);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
fake_cublasGetVersion_v2(cublasHandle_t handle, int *version)
{
    (void)handle;
    if (version == NULL) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    *version = 130000;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
fake_cublasGetProperty(libraryPropertyType type, int *value)
{
    if (value == NULL || type < 0 || type > 2) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    *value = type == 0 ? 13 : 0;
    return CUBLAS_STATUS_SUCCESS;
}

/* As the manual says: the workspace becomes the default again. */
cublasStatus_t
fake_cublasSetStream_v2(cublasHandle_t handle, cudaStream_t streamId)
{
    if (!valid(handle)) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    if (fakecuda_stream_check(streamId) != CUDA_SUCCESS) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    handle->stream = streamId;
    handle->workspace = handle->own_workspace;
    handle->workspace_bytes = OWN_WORKSPACE_BYTES;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
fake_cublasGetStream_v2(cublasHandle_t handle, cudaStream_t *streamId)
{
    if (!valid(handle)) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    *streamId = handle->stream;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
fake_cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace,
                           size_t workspaceSizeInBytes)
{
    uintptr_t address = (uintptr_t)workspace;

    if (!valid(handle)) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    if (address % ALIGNMENT_BYTES != 0 ||
        (workspaceSizeInBytes != 0 &&
         fakecuda_at(address, workspaceSizeInBytes) == NULL)) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    handle->workspace = address;
    handle->workspace_bytes = workspaceSizeInBytes;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
fake_cublasSetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t mode)
{
    if (!valid(handle)) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    if (mode != CUBLAS_POINTER_MODE_HOST &&
        mode != CUBLAS_POINTER_MODE_DEVICE) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    handle->pointer_mode = mode;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
fake_cublasGetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t *mode)
{
    if (!valid(handle)) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    *mode = handle->pointer_mode;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
fake_cublasSetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t mode)
{
    if (!valid(handle)) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    handle->atomics_mode = mode;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
fake_cublasGetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t *mode)
{
    if (!valid(handle)) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    *mode = handle->atomics_mode;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
fake_cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode)
{
    if (!valid(handle)) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    handle->math_mode = mode;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
fake_cublasGetMathMode(cublasHandle_t handle, cublasMath_t *mode)
{
    if (!valid(handle)) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    *mode = handle->math_mode;
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- the way of a routine ---- */

bool
blas_complex(const struct blas_call *call)
{
    return call->type == 'C' || call->type == 'Z';
}

size_t
blas_bytes(const struct blas_call *call)
{
    size_t real = call->type == 'S' || call->type == 'C' ? 4 : 8;

    return blas_complex(call) ? real * 2 : real;
}

int
blas_use(struct blas_call *call, const void *address, int64_t rows,
         int64_t columns, int64_t ld, bool write)
{
    if (rows < 0 || columns < 0 || ld < (rows > 1 ? rows : 1)) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (rows == 0 || columns == 0) {
        return CUBLAS_STATUS_SUCCESS;
    }
    if (address == NULL || call->n_uses == FAKE_USES_MAX ||
        (uintptr_t)address % blas_bytes(call) != 0) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    call->uses[call->n_uses++] =
        (struct fake_use){(uintptr_t)address,
                          (size_t)rows * blas_bytes(call),
                          (size_t)ld * blas_bytes(call),
                          (size_t)columns,
                          write,
                          false};
    return CUBLAS_STATUS_SUCCESS;
}

void *
blas_at(const void *address)
{
    static max_align_t nothing;
    void *at = address == NULL ? NULL : fakecuda_at((uintptr_t)address, 1);

    return at == NULL ? &nothing : at;
}

/* From the first byte to the last, whatever the increment's sign. */
int
blas_use_vector(struct blas_call *call, const void *address, int64_t n,
                int64_t increment, bool write)
{
    int64_t step = increment < 0 ? -increment : increment;
    int status;

    if (increment == 0) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (n <= 0) {
        return CUBLAS_STATUS_SUCCESS;
    }
    status = blas_use(call, address, 1, n, step, write);
    return status;
}

struct job {
    struct blas_call call;
    const struct blas_routine *routine;
};

static size_t
scalar_bytes(const struct blas_call *call, bool real)
{
    return real && blas_complex(call) ? blas_bytes(call) / 2 : blas_bytes(call);
}

/*
 * A scalar on the host. The library may load it with the alignment of its own
 * complex types (16 bytes for cuDoubleComplex), which is that of their size.
 */
static int
read_scalar(const void *from, void *to, size_t bytes)
{
    if (from == NULL) {
        return CUBLAS_STATUS_SUCCESS;
    }
    if ((uintptr_t)from % bytes != 0) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    memcpy(to, from, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

/* Scalars from the device, only now. */
static int
fetch_scalar(const void *from, void *to, size_t bytes)
{
    const void *at;

    if (from == NULL) {
        return CUDA_SUCCESS;
    }
    at = fakecuda_at((uintptr_t)from, bytes);
    if (at == NULL) {
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    memcpy(to, at, bytes);
    return CUDA_SUCCESS;
}

/* Puts a result on the host, or on the device by pointer mode. */
static int
give_answer(const struct blas_call *call, const void *value, size_t bytes)
{
    void *to = call->device_scalars
                   ? fakecuda_at((uintptr_t)call->result, bytes)
                   : call->result;

    if (to == NULL) {
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    memcpy(to, value, bytes);
    return CUDA_SUCCESS;
}

static int
run(struct blas_call *call, const struct blas_routine *routine)
{
    union {
        max_align_t any;
        int64_t index;
        double complex element;
    } value;
    int result, index;

    if (routine->run != NULL) {
        return routine->run(call);
    }
    result = blas_call_fortran(call, routine, &value);
    if (result != CUDA_SUCCESS || routine->answer == BLAS_NO_ANSWER) {
        return result;
    }
    if (routine->answer == BLAS_INDEX && call->integer_bytes == sizeof(int)) {
        index = (int)value.index;
        return give_answer(call, &index, sizeof(index));
    }
    return give_answer(call, &value,
                       routine->answer == BLAS_INDEX
                           ? sizeof(value.index)
                           : scalar_bytes(call, routine->answer == BLAS_REAL));
}

static int
run_job(void *argument)
{
    struct job *job = argument;
    struct blas_call *call = &job->call;
    uint64_t *workspace = NULL;
    uint64_t stamp = fakecuda_random(UINT32_MAX);
    int result;

    if (call->device_scalars) {
        result = fetch_scalar(call->alpha, call->alpha_value,
                              scalar_bytes(call, job->routine->real_alpha));
        if (result == CUDA_SUCCESS) {
            result = fetch_scalar(call->beta, call->beta_value,
                                  scalar_bytes(call, job->routine->real_beta));
        }
        if (result != CUDA_SUCCESS) {
            return result;
        }
    }
    /* The library's own is one for each stream in truth. */
    if (call->workspace_bytes >= sizeof(stamp) && !call->default_workspace) {
        workspace = fakecuda_at(call->workspace, sizeof(stamp));
        if (workspace == NULL) {
            return CUDA_ERROR_ILLEGAL_ADDRESS;
        }
        *workspace = stamp;
    }
    fakecuda_pause();
    result = run(call, job->routine);
    for (size_t i = 0; i < call->n_uses && fakecuda_is_wrong(call->name); i++) {
        if (call->uses[i].write && call->uses[i].address != call->workspace) {
            fakecuda_spoil(call->uses[i].address, blas_bytes(call));
            break;
        }
    }
    if (result == CUDA_SUCCESS && workspace != NULL && *workspace != stamp) {
        fakecuda_note("workspace-race", "%s", call->name);
        for (size_t i = 0; i < call->n_uses; i++) {
            if (call->uses[i].write) {
                memset(blas_at((void *)(uintptr_t)call->uses[i].address), 0xFF,
                       call->uses[i].width_bytes);
            }
        }
    }
    return result;
}

/* What the card takes for a call: products by the shape of their result, all others
 * by the memory that they read and write. */
static void
price(const struct blas_call *call)
{
    const double m = (double)call->m, n = (double)call->n, k = (double)call->k;
    const bool left = call->side == CUBLAS_SIDE_LEFT;
    const char *name = strchr(call->name, 's') + 2; /* cublas?NAME */
    struct fake_kernel kernel = {.single =
                                     call->type == 'S' || call->type == 'C',
                                 .rows = call->m,
                                 .columns = call->n};
    for (size_t i = 0; i < call->n_uses; i++) {
        kernel.bytes += call->uses[i].width_bytes * call->uses[i].rows;
    }
    if (strncmp(name, "gemm", 4) == 0) {
        kernel.flops = 2 * m * n * k;
        kernel.flops *= call->batchCount > 0 ? (double)call->batchCount : 1;
    } else if (strncmp(name, "symm", 4) == 0 || strncmp(name, "hemm", 4) == 0) {
        kernel.flops = 2 * m * n * (left ? m : n);
    } else if (strncmp(name, "trsm", 4) == 0 || strncmp(name, "trmm", 4) == 0) {
        kernel.flops = m * n * (left ? m : n);
        kernel.serial_us = name[2] == 's' ? 0.1 * (left ? m : n) : 0;
    } else if (strncmp(name, "syrk", 4) == 0 || strncmp(name, "herk", 4) == 0 ||
               strncmp(name, "syr2k", 5) == 0 ||
               strncmp(name, "her2k", 5) == 0) {
        kernel.flops = n * n * k * (name[3] == '2' ? 2 : 1);
        kernel.rows = call->n;
    } else {
        kernel.rows = 0;
    }
    kernel.flops *= blas_complex(call) ? 4 : 1;
    fakecuda_kernel(&kernel);
}

static int
issue(struct blas_call *call, const struct blas_routine *routine)
{
    struct job job;
    int status = CUBLAS_STATUS_SUCCESS;

    if (!valid(call->handle)) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    call->device_scalars =
        call->handle->pointer_mode == CUBLAS_POINTER_MODE_DEVICE;
    if (!call->device_scalars) {
        status = read_scalar(call->alpha, call->alpha_value,
                             scalar_bytes(call, routine->real_alpha));
    }
    if (!call->device_scalars && status == CUBLAS_STATUS_SUCCESS) {
        status = read_scalar(call->beta, call->beta_value,
                             scalar_bytes(call, routine->real_beta));
    }
    if (status == CUBLAS_STATUS_SUCCESS) {
        call->vector = routine->vector;
        status = routine->answer != BLAS_NO_ANSWER && call->result == NULL
                     ? CUBLAS_STATUS_INVALID_VALUE
                     : blas_check_arguments(call, routine->arguments);
    }
    if (status == CUBLAS_STATUS_SUCCESS && routine->check != NULL) {
        status = routine->check(call);
    }
    if (status != CUBLAS_STATUS_SUCCESS) {
        fakecuda_note("bad-argument", "%s", call->name);
        return status;
    }
    price(call);
    call->workspace = call->handle->workspace;
    call->workspace_bytes = call->handle->workspace_bytes;
    call->default_workspace = call->workspace == call->handle->own_workspace;
    if (call->workspace_bytes != 0 && call->n_uses < FAKE_USES_MAX) {
        call->uses[call->n_uses++] = (struct fake_use){
            call->workspace,        call->workspace_bytes, 0, 1, true,
            call->default_workspace};
    }
    job = (struct job){*call, routine};
    status = fakecuda_submit(call->handle->stream, call->name, run_job, &job,
                             sizeof(job), call->uses, call->n_uses);
    if (status == CUDA_SUCCESS && routine->answer != BLAS_NO_ANSWER &&
        !call->device_scalars) {
        status = fakecuda_drain(call->handle->stream);
    }
    return fakecuda_status(FAKE_CUBLAS, status);
}

cublasStatus_t
blas_issue(struct blas_call *call, const char *family)
{
    struct fake_call gate;
    int status = fakecuda_enter(&gate, call->name, FAKE_CUBLAS, FAKE_CONTEXT);

    if (status == 0) {
        status = issue(call, blas_routine(family));
    }
    return fakecuda_leave(&gate, status);
}
