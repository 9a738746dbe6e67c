/* SPDX-License-Identifier: Apache-2.0
 *
 * Handles of the fake cuSOLVER and the way of all its routines.
 */
#include "config.h"

#include <string.h>

#include "tests/fakecuda/solver.h"

#include "tests/fakecuda/cusolver_rows.h"

bool
solver_valid(cusolverDnHandle_t handle)
{
    if (fakecuda_valid(handle, FAKE_SOLVER_HANDLE)) {
        return true;
    }
    fakecuda_note("bad-handle", "cuSOLVER %p", (void *)handle);
    return false;
}

cusolverStatus_t
fake_cusolverDnCreate(cusolverDnHandle_t *handle)
{
    if (handle == NULL) {
        return CUSOLVER_STATUS_INVALID_VALUE;
    }
    /* A driver older than the library. */
    if (fakecuda_setting("DRIVER", 13000) < 13000) {
        return CUSOLVER_STATUS_NOT_INITIALIZED;
    }
    *handle = fakecuda_new(FAKE_SOLVER_HANDLE, sizeof(struct fake_solver),
                           "cusolverDnCreate");
    return *handle == NULL ? CUSOLVER_STATUS_ALLOC_FAILED
                           : CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t
fake_cusolverDnDestroy(cusolverDnHandle_t handle)
{
    if (!solver_valid(handle)) {
        return CUSOLVER_STATUS_NOT_INITIALIZED;
    }
    if (fakecuda_stream_check(handle->stream) == CUDA_SUCCESS) {
        (void)fakecuda_drain(handle->stream);
    } else {
        fakecuda_note("bad-stream", "destroyed before its cuSOLVER handle");
    }
    fakecuda_destroy(handle);
    return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t
fake_cusolverDnSetStream(cusolverDnHandle_t handle, cudaStream_t streamId)
{
    if (!solver_valid(handle)) {
        return CUSOLVER_STATUS_NOT_INITIALIZED;
    }
    if (fakecuda_stream_check(streamId) != CUDA_SUCCESS) {
        return CUSOLVER_STATUS_INVALID_VALUE;
    }
    handle->stream = streamId;
    return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t
fake_cusolverDnGetStream(cusolverDnHandle_t handle, cudaStream_t *streamId)
{
    if (!solver_valid(handle)) {
        return CUSOLVER_STATUS_NOT_INITIALIZED;
    }
    *streamId = handle->stream;
    return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t
fake_cusolverGetVersion(int *version)
{
    if (version == NULL) {
        return CUSOLVER_STATUS_INVALID_VALUE;
    }
    *version = 12000;
    return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t
fake_cusolverGetProperty(libraryPropertyType type, int *value)
{
    if (value == NULL || type < 0 || type > 2) {
        return CUSOLVER_STATUS_INVALID_VALUE;
    }
    *value = type == 0 ? 12 : 0;
    return CUSOLVER_STATUS_SUCCESS;
}

/* ---- the way of a routine ---- */

bool
solver_complex(const struct solver_call *call)
{
    return call->type == 'C' || call->type == 'Z';
}

size_t
solver_bytes(const struct solver_call *call)
{
    size_t real = call->type == 'S' || call->type == 'C' ? 4 : 8;

    return solver_complex(call) ? real * 2 : real;
}

int
solver_use(struct solver_call *call, const void *address, int64_t rows,
           int64_t columns, int64_t ld, size_t unit_bytes, bool write)
{
    if (rows < 0 || columns < 0 || ld < (rows > 1 ? rows : 1)) {
        return CUSOLVER_STATUS_INVALID_VALUE;
    }
    if (rows == 0 || columns == 0) {
        return CUSOLVER_STATUS_SUCCESS;
    }
    if (address == NULL || call->n_uses == FAKE_USES_MAX ||
        (uintptr_t)address % unit_bytes != 0) {
        return CUSOLVER_STATUS_INVALID_VALUE;
    }
    call->uses[call->n_uses++] = (struct fake_use){(uintptr_t)address,
                                                   (size_t)rows * unit_bytes,
                                                   (size_t)ld * unit_bytes,
                                                   (size_t)columns,
                                                   write,
                                                   false};
    return CUSOLVER_STATUS_SUCCESS;
}

int
solver_use_work(struct solver_call *call, int given, int64_t needed)
{
    if (given < needed) {
        fakecuda_note("small-workspace", "%s: %d of %lld", call->name, given,
                      (long long)needed);
        return CUSOLVER_STATUS_INVALID_VALUE;
    }
    return solver_use(call, call->work, needed, 1, needed, solver_bytes(call),
                      true);
}

void *
solver_at(const void *address)
{
    static max_align_t nothing;
    void *at = address == NULL ? NULL : fakecuda_at((uintptr_t)address, 1);

    return at == NULL ? &nothing : at;
}

int
solver_info(const struct solver_call *call, int64_t info)
{
    int value = (int)info;
    void *at = fakecuda_at((uintptr_t)call->info, sizeof(value));

    if (at == NULL) {
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    memcpy(at, &value, sizeof(value));
    return CUDA_SUCCESS;
}

struct job {
    struct solver_call call;
    const struct solver_routine *routine;
};

/* What callers look at, where nothing is computed. */
static int
pretend(const struct solver_call *call, bool silent)
{
    int *pivots =
        strstr(call->name, "getrf") == NULL ? NULL : solver_at(call->ipiv);

    for (int64_t i = 0; pivots != NULL && i < call->m && i < call->n; i++) {
        pivots[i] = (int)i + 1;
    }
    return silent ? CUDA_SUCCESS : solver_info(call, 0);
}

static int
run_job(void *argument)
{
    struct job *job = argument;

    if (fakecuda_is_modelled()) {
        return pretend(&job->call, job->routine->silent);
    }

    for (size_t i = 0; i < job->call.n_uses; i++) {
        const struct fake_use *use = &job->call.uses[i];
        if (use->address == (uintptr_t)job->call.work) {
            memset(solver_at(job->call.work), 0xFF, use->width_bytes);
        }
    }
    fakecuda_pause();
    int result = job->routine->run(&job->call);
    if (fakecuda_is_wrong(job->call.name) && job->call.n_uses > 0) {
        fakecuda_spoil(job->call.uses[0].address, solver_bytes(&job->call));
    }
    return result;
}

/* What the card takes for a call. Factorisations and all like them have a part that
 * goes column by column: an H200 took 1.8 ms for dpotrf of 4096 and 13.4 for dgetrf. */
static void
price(const struct solver_call *call)
{
    static const struct {
        const char *name;
        double flops, column_us; /* of n^3; of a column */
    } rows[] = {
        {"potrf", 1.0 / 3, 0.34}, {"getrf", 2.0 / 3, 3},
        {"potri", 2.0 / 3, 1},    {"geqrf", 4.0 / 3, 3},
        {"orgqr", 4.0 / 3, 1},    {"ormqr", 2, 1},
        {"syevd", 9, 10},         {"gesvd", 20, 20},
        {"laswp", 0, 0.1},        {"", 2, 0.3},
    };
    const double n = (double)call->n;
    const double m = call->m > 0 ? (double)call->m : n;
    size_t i = 0;
    while (strstr(call->name, rows[i].name) == NULL) {
        i++;
    }
    double flops = rows[i].flops * n * n * m;
    if (m > n && (strcmp(rows[i].name, "getrf") == 0 ||
                  strcmp(rows[i].name, "geqrf") == 0)) {
        flops = 1.5 * rows[i].flops * n * n * (m - n / 3); /* of tall panels */
    }
    struct fake_kernel kernel = {
        .flops = flops * (solver_complex(call) ? 4 : 1),
        .single = call->type == 'S' || call->type == 'C',
        .serial_us = rows[i].column_us * (m < n ? m : n),
        .run = true};
    for (size_t k = 0; k < call->n_uses; k++) {
        kernel.bytes += call->uses[k].width_bytes * call->uses[k].rows;
    }
    fakecuda_kernel(&kernel);
}

static int
issue(struct solver_call *call, const struct solver_routine *routine)
{
    struct job job;
    int status;

    if (!solver_valid(call->handle)) {
        return CUSOLVER_STATUS_NOT_INITIALIZED;
    }
    status = routine->check(call);
    if (status == CUSOLVER_STATUS_SUCCESS && routine->run != NULL &&
        !routine->silent) {
        status = solver_use(call, call->info, 1, 1, 1, sizeof(int), true);
    }
    if (status != CUSOLVER_STATUS_SUCCESS) {
        fakecuda_note("bad-argument", "%s", call->name);
        return status;
    }
    if (routine->run == NULL) {
        return CUSOLVER_STATUS_SUCCESS;
    }
    job = (struct job){*call, routine};
    price(call);
    return fakecuda_status(FAKE_CUSOLVER,
                           fakecuda_submit(call->handle->stream, call->name,
                                           run_job, &job, sizeof(job),
                                           call->uses, call->n_uses));
}

cusolverStatus_t
solver_issue(struct solver_call *call, const struct solver_routine *routine)
{
    struct fake_call gate;
    int status = fakecuda_enter(&gate, call->name, FAKE_CUSOLVER, FAKE_CONTEXT);

    if (status == 0) {
        status = issue(call, routine);
    }
    return fakecuda_leave(&gate, status);
}
