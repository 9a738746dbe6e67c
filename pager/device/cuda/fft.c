/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans of cuFFT: made when a call of their shape is issued, kept with the
 * stream, the least recently used ones given up. All plans of a stream share
 * its workspace, since their executions follow one another there. Issuing
 * threads only.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "pager/device/cuda/internal.h"

enum {
    MAX_PLANS = 32,
    UNSUPPORTED_SIZE = 8, /* CUFFT_INVALID_SIZE: there is no plan for it */
    NOT_SUPPORTED = 16,
};

struct plan {
    struct fy_transform of; /* kind 0: none */
    int handle;
    size_t area_bytes;
    uint64_t area; /* that it was given */
    uint64_t used; /* turn of the last use */
};

struct cuda_plans {
    struct plan rows[MAX_PLANS];
    uint64_t turns;
};

struct functions {
    int (*create)(int *plan);
    int (*destroy)(int plan);
    int (*make)(int plan, int rank, long long *n, long long *inembed,
                long long istride, long long idist, long long *onembed,
                long long ostride, long long odist, int type, long long batch,
                size_t *area_bytes);
    int (*set_allocation)(int plan, int automatic);
    int (*set_area)(int plan, void *area);
    int (*set_stream)(int plan, fy_cuda_handle stream);
};

static bool
find(int driver_version, const char *name, void *out, bool *loaded)
{
    bool fresh;
    void *function = fy_cuda_function(driver_version, name, &fresh);
    memcpy(out, &function, sizeof function);
    *loaded = *loaded || fresh;
    return function;
}

static bool
find_all(int version, struct functions *f, bool *loaded)
{
    *loaded = false;
    return find(version, "cufftCreate", &f->create, loaded) &&
           find(version, "cufftDestroy", &f->destroy, loaded) &&
           find(version, "cufftMakePlanMany64", &f->make, loaded) &&
           find(version, "cufftSetAutoAllocation", &f->set_allocation,
                loaded) &&
           find(version, "cufftSetWorkArea", &f->set_area, loaded) &&
           find(version, "cufftSetStream", &f->set_stream, loaded);
}

/* cufftType */
static int
type_of(const struct fy_transform *t)
{
    static const int types[][2] = {[FY_TRANSFORM_C2C] = {0x29, 0x69},
                                   [FY_TRANSFORM_R2C] = {0x2a, 0x6a},
                                   [FY_TRANSFORM_C2R] = {0x2c, 0x6c}};
    return types[t->kind][t->is_double];
}

static bool
same_side(const struct fy_transform_side *a, const struct fy_transform_side *b,
          unsigned rank)
{
    return a->stride == b->stride && a->distance == b->distance &&
           memcmp(a->embed, b->embed, rank * sizeof a->embed[0]) == 0;
}

static bool
same(const struct fy_transform *a, const struct fy_transform *b)
{
    return a->kind == b->kind && a->rank == b->rank &&
           a->is_double == b->is_double && a->batch == b->batch &&
           memcmp(a->n, b->n, a->rank * sizeof a->n[0]) == 0 &&
           same_side(&a->from, &b->from, a->rank) &&
           same_side(&a->to, &b->to, a->rank);
}

/* The plan of that shape, or the row for it: a free one, or the oldest. */
static struct plan *
find_row(struct cuda_plans *plans, const struct fy_transform *t)
{
    struct plan *row = &plans->rows[0];
    for (unsigned i = 0; i < MAX_PLANS; i++) {
        if (same(&plans->rows[i].of, t)) {
            return &plans->rows[i];
        }
        if (plans->rows[i].used < row->used) {
            row = &plans->rows[i];
        }
    }
    return row;
}

static int
make(struct fy_stream *s, const struct functions *f,
     const struct fy_transform *t, struct plan *row)
{
    long long n[3], from[3], to[3];
    struct plan made = {.of = *t};
    for (unsigned i = 0; i < 3; i++) {
        n[i] = t->n[i];
        from[i] = t->from.embed[i];
        to[i] = t->to.embed[i];
    }
    int result = f->create(&made.handle);
    if (result != 0) {
        return cuda_library_status(s->device, FY_CUDA_CUFFT, result);
    }
    result = f->set_allocation(made.handle, 0);
    if (result == 0) {
        result = f->make(made.handle, t->rank, n, from, t->from.stride,
                         t->from.distance, to, t->to.stride, t->to.distance,
                         type_of(t), t->batch, &made.area_bytes);
    }
    /* Not every cuFFT takes one for a plan that is not made yet. */
    if (result == 0) {
        result = f->set_stream(made.handle, s->handle);
    }
    if (result != 0) {
        (void)f->destroy(made.handle);
        int status = cuda_library_status(s->device, FY_CUDA_CUFFT, result);
        return result == UNSUPPORTED_SIZE || result == NOT_SUPPORTED
                   ? FY_ERR_UNSUPPORTED
                   : status;
    }
    *row = made;
    return 0;
}

/* Ends a plan whose executions may still run. */
static int
forget(struct fy_stream *s, const struct functions *f, struct plan *row)
{
    if (row->of.kind == 0) {
        return 0;
    }
    int result = s->device->driver->stream_sync(s->handle);
    if (result != 0) {
        return cuda_status(s->device, "transforms", result);
    }
    result = f->destroy(row->handle);
    memset(row, 0, sizeof *row);
    return cuda_library_status(s->device, FY_CUDA_CUFFT, result);
}

int
cuda_fft_plan(struct fy_stream *s, const struct fy_transform *t, int *plan)
{
    struct cuda_device *device = s->device;
    struct functions f;
    bool loaded;
    int status = 0;
    bool found = find_all(device->driver->version, &f, &loaded);
    if (loaded) {
        cuda_guard_exit();
    }
    if (!found) {
        char why[FY_CUDA_TEXT_BYTES];
        fy_cuda_library_why(FY_CUDA_CUFFT, why);
        return cuda_error(device, FY_ERR_UNSUPPORTED, why);
    }
    if (!s->plans && !(s->plans = calloc(1, sizeof *s->plans))) {
        return FY_ERR_NOMEM;
    }
    struct plan *row = find_row(s->plans, t);
    if (!same(&row->of, t)) {
        status = forget(s, &f, row);
        if (status == 0) {
            status = make(s, &f, t, row);
        }
    }
    /* It may ask for nothing, and still wants an area. */
    if (status == 0) {
        status = cuda_workspace(s, row->area_bytes > 0 ? row->area_bytes : 1);
    }
    if (status != 0) {
        return status;
    }
    if (row->area != s->workspace) {
        int result = f.set_area(row->handle, (void *)(uintptr_t)s->workspace);
        if (result != 0) {
            return cuda_library_status(device, FY_CUDA_CUFFT, result);
        }
        row->area = s->workspace;
    }
    row->used = ++s->plans->turns;
    *plan = row->handle;
    return 0;
}

void
cuda_fft_end(struct fy_stream *s)
{
    struct functions f;
    bool loaded;
    if (!s->plans) {
        return;
    }
    if (!cuda_is_dead(s->device) &&
        find_all(s->device->driver->version, &f, &loaded)) {
        for (unsigned i = 0; i < MAX_PLANS; i++) {
            if (s->plans->rows[i].of.kind != 0) {
                (void)f.destroy(s->plans->rows[i].handle);
            }
        }
    }
    free(s->plans);
    s->plans = NULL;
}
