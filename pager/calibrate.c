/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures the rates of the cost model on this machine. Runs in tools only: it
 * loads a BLAS and takes about a second.
 */
#include "config.h"

#include "pager/cost.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pager/executor.h"

enum {
    COPY_BYTES = 32 << 20,
    ROUNDS = 3, /* the best counts: others had the machine */
    GEMM_ORDER = 512,
    STEPS = 256,
};

static double
now_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Bytes per second of a copy in memory, read and written counted. */
static double
measure_memory(char *a, char *b)
{
    double best = 0;

    for (unsigned i = 0; i < ROUNDS; i++) {
        double start = now_seconds();
        memcpy(b, a, COPY_BYTES);
        double rate = 2.0 * COPY_BYTES / (now_seconds() - start);
        best = rate > best ? rate : best;
    }
    return best;
}

/* 2 n^3 over the best time of the installed BLAS, or 0 when there is none. */
static double
measure_gemm(void *gemm, size_t element_bytes, char *memory)
{
    void (*run)(const char *, const char *, const int64_t *, const int64_t *,
                const int64_t *, const void *, const void *, const int64_t *,
                const void *, const int64_t *, const void *, void *,
                const int64_t *, size_t, size_t);
    const int64_t n = GEMM_ORDER; /* right for 32-bit integers, too */
    size_t bytes = element_bytes * GEMM_ORDER * GEMM_ORDER;
    union {
        float f;
        double d;
    } one = {.f = 0};
    double best = 0;

    *(void **)&run = gemm;
    if (element_bytes == 4) {
        one.f = 1;
    } else {
        one.d = 1;
    }
    memset(memory, 0, 3 * bytes);
    for (unsigned i = 0; i <= ROUNDS; i++) {
        double start = now_seconds();
        run("N", "N", &n, &n, &n, &one, memory, &n, memory + bytes, &n, &one,
            memory + 2 * bytes, &n, 1, 1);
        double rate = 2.0 * GEMM_ORDER * GEMM_ORDER * GEMM_ORDER /
                      (now_seconds() - start);
        if (i > 0 && rate > best) { /* the first one starts threads */
            best = rate;
        }
    }
    return best;
}

static void
measure_blas(struct fy_rates *rates, char *memory)
{
    void *library = dlopen("libblas.so.3", RTLD_NOW | RTLD_LOCAL);
    void *sgemm = library ? dlsym(library, "sgemm_") : NULL;
    void *dgemm = library ? dlsym(library, "dgemm_") : NULL;

    if (sgemm) {
        rates->cpu_flops_f32 = measure_gemm(sgemm, sizeof(float), memory);
    }
    if (dgemm) {
        rates->cpu_flops_f64 = measure_gemm(dgemm, sizeof(double), memory);
    }
    if (library) {
        dlclose(library);
    }
}

static void
nothing(void)
{
}

static int
launch_nothing(void *planner, const struct fy_step *step,
               const struct fy_tile *tiles, const uint64_t *address,
               struct fy_stream *stream)
{
    const struct fy_device_ops *ops = planner;
    struct fy_launch launch = {.return_type = FY_T_VOID};
    void (*function)(void) = nothing;

    (void)step;
    (void)tiles;
    (void)address;
    memcpy(&launch.function, &function, sizeof(function));
    return ops->launch(stream, &launch);
}

/*
 * One schedule of `steps' tiles of `bytes' in all, read or written: seconds of
 * a run, or a negative status.
 */
static double
run_schedule(struct fy_executor *executor, const struct fy_device_ops *ops,
             char *memory, uint64_t bytes, uint32_t steps, uint8_t access)
{
    struct fy_view view = {
        .host = memory,
        .element_bytes = 8,
        .access = access,
        .naxes = 1,
        .extent = {(int64_t)bytes / 8},
        .stride = {1},
        .lo = INT64_MIN,
        .hi = INT64_MAX,
    };
    struct fy_tile *tiles = calloc(steps, sizeof(*tiles));
    struct fy_step *rows = calloc(steps, sizeof(*rows));
    struct fy_traffic traffic;
    double seconds = FY_ERR_NOMEM;

    for (uint32_t i = 0; tiles && rows && i < steps; i++) {
        tiles[i] = (struct fy_tile){.access = access, .naxes = 1};
        tiles[i].n[0] = (int64_t)bytes / 8 / steps;
        tiles[i].lo[0] = tiles[i].n[0] * i;
        tiles[i].device_stride[0] = 1;
        rows[i] = (struct fy_step){.tiles = i, .ntiles = 1};
    }
    if (tiles && rows) {
        struct fy_schedule schedule = {
            .views = &view,
            .nviews = 1,
            .tiles = tiles,
            .ntiles = steps,
            .steps = rows,
            .nsteps = steps,
            .launch = launch_nothing,
            .planner = (void *)(uintptr_t)ops,
        };
        double start = now_seconds();
        int status = fy_executor_run(executor, &schedule, &traffic);
        seconds = status ? status : now_seconds() - start;
    }
    free(tiles);
    free(rows);
    return seconds;
}

static double
best_run(struct fy_executor *executor, const struct fy_device_ops *ops,
         char *memory, uint64_t bytes, uint32_t steps, uint8_t access)
{
    double best = 0;

    for (unsigned i = 0; i < ROUNDS; i++) {
        double seconds =
            run_schedule(executor, ops, memory, bytes, steps, access);
        if (seconds < 0) {
            return seconds;
        }
        if (i == 0 || seconds < best) {
            best = seconds;
        }
    }
    return best;
}

static int
measure_device(const char *name, struct fy_rates *rates, char *memory)
{
    const struct fy_device_ops *ops = fy_device_find(name);
    struct fy_device *device;
    struct fy_executor *executor;
    int status;

    if (!ops) {
        return FY_ERR_NOENT;
    }
    status = ops->open(2 * (uint64_t)COPY_BYTES, &device);
    if (status) {
        return status;
    }
    status = fy_executor_new(device, &executor);
    if (status) {
        ops->close(device);
        return status;
    }
    double in = best_run(executor, ops, memory, COPY_BYTES, 8, FY_ACCESS_IN);
    double out = best_run(executor, ops, memory, COPY_BYTES, 8, FY_ACCESS_OUT);
    double small = best_run(executor, ops, memory, (uint64_t)STEPS * 64, STEPS,
                            FY_ACCESS_INOUT);
    double one = best_run(executor, ops, memory, 64, 1, FY_ACCESS_INOUT);
    if (in > 0 && out > 0 && small > one && one > 0) {
        rates->in_bytes = COPY_BYTES / in;
        rates->out_bytes = COPY_BYTES / out;
        rates->call_seconds = one;
        rates->step_seconds = (small - one) / (STEPS - 1);
    } else {
        status = FY_ERR_DEVICE;
    }
    fy_executor_free(executor);
    ops->close(device);
    return status;
}

int
fy_calibrate_measure(const char *device, struct fy_rates *out)
{
    char *memory = malloc(2 * (size_t)COPY_BYTES);
    struct fy_rates rates;

    if (!memory) {
        return FY_ERR_NOMEM;
    }
    memset(memory, 1, 2 * (size_t)COPY_BYTES);
    fy_rates_default(device, &rates);
    rates.cpu_bytes = measure_memory(memory, memory + COPY_BYTES);
    measure_blas(&rates, memory);
    int status = measure_device(device, &rates, memory);
    if (status == FY_OK && strcmp(device, "host") == 0) {
        /* The same cores and the same memory, but never all at once. */
        rates.device_flops_f32 = rates.cpu_flops_f32;
        rates.device_flops_f64 = rates.cpu_flops_f64;
        rates.device_bytes = rates.cpu_bytes;
        rates.overlap = 0;
    }
    free(memory);
    if (status == FY_OK) {
        *out = rates;
    }
    return status;
}
