/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures the rates of the cost model on this machine. Runs in tools only: it
 * loads a BLAS and takes about a second. Long because every rate has a measurement, over
 * the same helpers.
 */
#include "config.h"

#include "common/clock.h"
#include "pager/decide/cost.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pager/device/copy.h"
#include "pager/execute/executor.h"
#include "pager/memory/compare.h"

enum {
    COPY_BYTES = 32 << 20,
    LINK_BYTES = 64 << 20, /* as much as the tools' buffer */
    LINK_PASSES = 4,
    ROUNDS = 3, /* the best counts: others had the machine */
    GEMM_ORDER = 512,
    GEMM_SMALL = 192, /* first: some libraries take long for more */
    GEMM_LARGE = 768,
    STEPS = 256,
    QUICK_STEPS = 48,
};

/* Bytes per second of a copy in memory, read and written counted. */
static double
measure_memory(char *a, char *b)
{
    double best = 0;

    for (unsigned i = 0; i < ROUNDS; i++) {
        double start = fy_clock_seconds();
        memcpy(b, a, COPY_BYTES);
        double rate = 2.0 * COPY_BYTES / (fy_clock_seconds() - start);
        best = rate > best ? rate : best;
    }
    return best;
}

/* 2 n^3 over the best time of the installed BLAS, or 0 when there is none. */
static double
measure_gemm(void *gemm, size_t element_bytes, unsigned order, char *memory)
{
    void (*run)(const char *, const char *, const int64_t *, const int64_t *,
                const int64_t *, const void *, const void *, const int64_t *,
                const void *, const int64_t *, const void *, void *,
                const int64_t *, size_t, size_t);
    const int64_t n = order; /* right for 32-bit integers, too */
    size_t bytes = element_bytes * order * order;
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
        double start = fy_clock_seconds();
        run("N", "N", &n, &n, &n, &one, memory, &n, memory + bytes, &n, &one,
            memory + 2 * bytes, &n, 1, 1);
        double rate =
            2.0 * order * order * order / (fy_clock_seconds() - start);
        if (i > 0 && rate > best) { /* the first one starts threads */
            best = rate;
        }
    }
    return best;
}

double
fy_calibrate_gemm(void *gemm)
{
    const double patience = 0.02;
    /* NOLINTNEXTLINE(clang-analyzer-unix.MallocSizeof): three matrices */
    char *memory = malloc(3 * sizeof(double) * GEMM_LARGE * GEMM_LARGE);
    double rate = 0;

    if (memory) {
        rate = measure_gemm(gemm, sizeof(double), GEMM_SMALL, memory);
        double large = 2.0 * GEMM_LARGE * GEMM_LARGE * GEMM_LARGE;
        if ((ROUNDS + 1) * large / rate < patience) {
            rate = measure_gemm(gemm, sizeof(double), GEMM_LARGE, memory);
        }
    }
    free(memory);
    return rate;
}

static void
measure_blas(struct fy_rates *rates, char *memory)
{
    void *library = dlopen("libblas.so.3", RTLD_NOW | RTLD_LOCAL);
    void *sgemm = library ? dlsym(library, "sgemm_") : NULL;
    void *dgemm = library ? dlsym(library, "dgemm_") : NULL;

    if (sgemm) {
        rates->cpu_flops_f32 =
            measure_gemm(sgemm, sizeof(float), GEMM_ORDER, memory);
    }
    if (dgemm) {
        rates->cpu_flops_f64 =
            measure_gemm(dgemm, sizeof(double), GEMM_ORDER, memory);
    }
    if (library) {
        dlclose(library);
    }
}

static void
nothing(void)
{
}

/* A step that only has its tiles there. */
static int
launch_nothing(void *planner, const struct fy_step *step,
               const struct fy_tile *tiles, const uint64_t *address,
               struct fy_stream *stream)
{
    const struct fy_device_ops *ops = planner;
    struct fy_launch launch = {.return_type = FY_T_VOID};

    if (ops->resolve) { /* it has no such function, and needs none */
        return FY_OK;
    }
    void (*function)(void) = nothing;

    (void)step;
    (void)tiles;
    (void)address;
    memcpy(&launch.function, &function, sizeof(function));
    return ops->launch(stream, &launch);
}

/*
 * One schedule of `steps' tiles of `bytes' in all, read or written; or each of nearly all
 * of them, which are read again and again: seconds of a run, or a negative status.
 */
static double
run_tiles(struct fy_executor *executor, const struct fy_device_ops *ops,
          char *memory, uint64_t bytes, uint32_t steps, uint8_t access,
          bool again)
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
        tiles[i].n[0] =
            again ? (int64_t)bytes / 8 - steps : (int64_t)bytes / 8 / steps;
        tiles[i].lo[0] = again ? i : tiles[i].n[0] * i;
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
        double start = fy_clock_seconds();
        int status = fy_executor_run(executor, &schedule, &traffic);
        seconds = status ? status : fy_clock_seconds() - start;
    }
    free(tiles);
    free(rows);
    return seconds;
}

static double
run_schedule(struct fy_executor *executor, const struct fy_device_ops *ops,
             char *memory, uint64_t bytes, uint32_t steps, uint8_t access)
{
    return run_tiles(executor, ops, memory, bytes, steps, access, false);
}

static double
best_run(struct fy_executor *executor, const struct fy_device_ops *ops,
         unsigned rounds, char *memory, uint64_t bytes, uint32_t steps,
         uint8_t access)
{
    double best = 0;

    for (unsigned i = 0; i < rounds; i++) {
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

/* ---- a device with functions of its own ------------------------------------------- */

enum {
    CARD_FIRST = 256, /* orders of products, until one takes long enough */
    CARD_LAST = 8192,
    CARD_REPEATS = 4,
    LATEST = 8, /* times as long as it may take, with all that is set up */
};
static const double card_seconds = 0.02;

struct product {
    const struct fy_device_ops *ops;
    void *function; /* cuBLAS's gemm */
    uint64_t n;
    bool single;
};

/* C := A B, three squares in one tile that is only read: nothing comes back. */
static int
launch_product(void *planner, const struct fy_step *step,
               const struct fy_tile *tiles, const uint64_t *address,
               struct fy_stream *stream)
{
    static const double one = 1, zero = 0;
    static const float one_single = 1, zero_single = 0;
    enum {
        ARGUMENTS = 14
    };
    const struct product *product = planner;
    uint64_t square = product->n * product->n * (product->single ? 4 : 8);
    const void *alpha = product->single ? (const void *)&one_single : &one;
    const void *beta = product->single ? (const void *)&zero_single : &zero;
    /* handle, opa, opb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc */
    uint64_t numbers[ARGUMENTS] = {
        0,
        0,
        0,
        product->n,
        product->n,
        product->n,
        (uint64_t)(uintptr_t)alpha,
        address[0],
        product->n,
        address[0] + square,
        product->n,
        (uint64_t)(uintptr_t)beta,
        address[0] + 2 * square,
        product->n,
    };
    const uint8_t words[ARGUMENTS] = {FY_WORD_CUBLAS};
    uint8_t types[ARGUMENTS];
    void *values[ARGUMENTS];

    (void)step;
    (void)tiles;
    for (unsigned i = 0; i < ARGUMENTS; i++) {
        types[i] = FY_T_U64;
        values[i] = &numbers[i];
    }
    const struct fy_launch launch = {
        .function = product->function,
        .return_type = FY_T_I32,
        .nargs = ARGUMENTS,
        .types = types,
        .values = values,
        .words = words,
        .status = true,
    };
    return product->ops->launch(stream, &launch);
}

/* Seconds of `steps' products with their operands there, or a status. */
static double
run_products(struct fy_executor *executor, struct product *product,
             char *memory, uint32_t steps)
{
    struct fy_view view = {
        .host = memory,
        .element_bytes = product->single ? 4 : 8,
        .access = FY_ACCESS_IN,
        .naxes = 1,
        .extent = {3 * (int64_t)(product->n * product->n)},
        .stride = {1},
        .lo = INT64_MIN,
        .hi = INT64_MAX,
    };
    struct fy_tile tile = {.access = FY_ACCESS_IN, .naxes = 1};
    struct fy_step rows[1 + CARD_REPEATS];
    struct fy_traffic traffic;

    tile.n[0] = view.extent[0];
    tile.device_stride[0] = 1;
    for (uint32_t i = 0; i < steps; i++) {
        rows[i] = (struct fy_step){.ntiles = 1};
    }
    struct fy_schedule schedule = {
        .views = &view,
        .nviews = 1,
        .tiles = &tile,
        .ntiles = 1,
        .steps = rows,
        .nsteps = steps,
        .launch = launch_product,
        .planner = product,
    };
    double start = fy_clock_seconds();
    int status = fy_executor_run(executor, &schedule, &traffic);
    return status ? status : fy_clock_seconds() - start;
}

/* Operations a second of products of that size, or a status; *spent: seconds of
 * one run. */
static double
rate_of(struct fy_executor *executor, struct product *product, double patience,
        double *spent)
{
    const double n = (double)product->n, operations = 2 * n * n * n;
    size_t bytes = 3 * product->n * product->n * (product->single ? 4 : 8);
    char *memory = calloc(1, bytes);

    if (!memory) {
        return FY_ERR_NOMEM;
    }
    /* Makes the library's handle, loads the kernel of that type and size. */
    double one = run_products(executor, product, memory, 1);
    if (one >= 0) {
        one = run_products(executor, product, memory, 1);
    }
    double more =
        one > patience || one < 0
            ? one
            : run_products(executor, product, memory, 1 + CARD_REPEATS);
    free(memory);
    *spent = more;
    if (more < 0) {
        return more;
    }
    /* Of a slow one all is counted, its copies as well. */
    return one > patience ? operations / one
           : more > one   ? CARD_REPEATS * operations / (more - one)
                          : 0;
}

/*
 * Operations a second of the largest product that is still quick, or 0. What is
 * set up for the first of a size does not count as time that was spent.
 */
static double
product_rate(struct fy_executor *executor, struct fy_device *device,
             bool single, double seconds)
{
    struct product product = {.ops = device->ops, .single = single};
    const double patience = seconds < INFINITY ? 2 * card_seconds : 1;
    const double latest = fy_clock_seconds() + LATEST * seconds;
    double rate = 0, spent = 0, all = 0;

    product.function = device->ops->resolve(device, single ? "cublasSgemm_v2"
                                                           : "cublasDgemm_v2");
    for (product.n = CARD_FIRST;
         product.function && product.n <= CARD_LAST && spent < card_seconds &&
         (product.n == CARD_FIRST ||
          (all + 16 * spent < seconds && fy_clock_seconds() < latest));
         product.n *= 2) {
        double found = rate_of(executor, &product, patience, &spent);
        if (found < 0) {
            break;
        }
        all += 2 * spent;
        rate = found > rate ? found : rate;
    }
    return rate;
}

static int
measure_card(struct fy_executor *executor, struct fy_device *device,
             double seconds, struct fy_rates *rates)
{
    rates->device_flops_f32 = product_rate(executor, device, true, seconds / 2);
    rates->device_flops_f64 =
        product_rate(executor, device, false, seconds / 2);
    /* Its own memory is measured by nothing here: what products need at least. */
    rates->overlap = 1;
    return rates->device_flops_f32 > 0 && rates->device_flops_f64 > 0
               ? FY_OK
               : FY_ERR_DEVICE;
}

/*
 * How much is copied to measure a link, and in how many tiles: those of a card as
 * large as calls have them, for its copying threads share a tile, as far as its
 * memory goes. At most LINK_BYTES.
 */
static uint64_t
link_bytes(struct fy_device *device, uint32_t *tiles)
{
    uint64_t tile = LINK_BYTES / 2;

    if (!device->ops->resolve) {
        *tiles = 8;
        return COPY_BYTES;
    }
    while (tile > COPY_BYTES / 8 &&
           device->ops->memory_bytes(device) < 2 * tile) {
        tile /= 2;
    }
    *tiles = 1;
    return 2 * tile;
}

/*
 * Bytes a second of copies that go on and on, by the time that twice as much takes
 * longer, within reason. The cost of each call is measured apart.
 */
static double
lasting_rate(struct fy_executor *executor, const struct fy_device_ops *ops,
             unsigned rounds, char *memory, uint64_t bytes, uint32_t tiles,
             uint8_t access)
{
    const double all =
        best_run(executor, ops, rounds, memory, bytes, tiles, access);
    const double half = best_run(executor, ops, rounds, memory, bytes / 2,
                                 (tiles + 1) / 2, access);
    double more = all - half;

    if (!(all > 0 && half > 0)) {
        return FY_ERR_DEVICE;
    }
    more = more < all / 4 ? all / 4 : more > all / 2 ? all / 2 : more;
    return (double)bytes / 2 / more;
}

/* Bytes a second of old content, from half of the memory to the other half. */
static double
undo_rate(struct fy_device *device, char *memory, uint64_t bytes)
{
    struct fy_copy copy = {
        .direction = FY_TO_DEVICE,
        .view = {.host = memory,
                 .element_bytes = 8,
                 .naxes = 1,
                 .extent = {(int64_t)bytes / 16},
                 .stride = {1},
                 .lo = INT64_MIN,
                 .hi = INT64_MAX},
        .device = (uint64_t)(uintptr_t)(memory + bytes / 2),
        .device_stride = {1},
    };
    double best = 0;

    for (unsigned i = 0; i < ROUNDS; i++) {
        double start = fy_clock_seconds();
        int status = device->ops->save ? device->ops->save(device, &copy)
                                       : fy_copy_run_host(&copy);
        double rate = (double)bytes / 2 / (fy_clock_seconds() - start);
        best = status == 0 && rate > best ? rate : best;
    }
    return best;
}

/* Copies both ways, and what calls and steps cost. */
static int
measure_link(struct fy_executor *executor, struct fy_device *device, bool quick,
             char *memory, struct fy_rates *rates)
{
    const struct fy_device_ops *ops = device->ops;
    uint32_t tiles;
    const uint64_t bytes = link_bytes(device, &tiles);
    const unsigned rounds = quick ? ROUNDS - 1 : ROUNDS;
    const uint32_t steps = quick ? QUICK_STEPS : STEPS;
    /* Once for what the first copies set up. */
    (void)run_schedule(executor, ops, memory, bytes, tiles, FY_ACCESS_IN);
    double in =
        lasting_rate(executor, ops, rounds, memory, bytes, tiles, FY_ACCESS_IN);
    double out = lasting_rate(executor, ops, rounds, memory, bytes, tiles,
                              FY_ACCESS_OUT);
    if (ops->resolve && in > 0 && out > 0) {
        /* Pieces of copying threads go in turns: only a long copy has the link's rate. */
        const double one_pass =
            run_tiles(executor, ops, memory, bytes, 1, FY_ACCESS_IN, true);
        const double passes = run_tiles(executor, ops, memory, bytes,
                                        1 + LINK_PASSES, FY_ACCESS_IN, true);
        const double lasting =
            LINK_PASSES * (double)bytes / (passes - one_pass);
        if (one_pass > 0 && passes > one_pass && lasting > in) {
            out *= lasting / in;
            in = lasting;
        }
    }
    double small = best_run(executor, ops, rounds, memory, (uint64_t)steps * 64,
                            steps, FY_ACCESS_INOUT);
    double one =
        best_run(executor, ops, ROUNDS, memory, 64, 1, FY_ACCESS_INOUT);

    double undo = undo_rate(device, memory, bytes);

    if (!(in > 0 && out > 0 && undo > 0 && small > one && one > 0)) {
        return FY_ERR_DEVICE;
    }
    rates->in_bytes = in;
    rates->out_bytes = out;
    rates->undo_bytes = undo;
    rates->call_seconds = one;
    rates->step_seconds = (small - one) / (steps - 1);
    return FY_OK;
}

int
fy_calibrate_card(struct fy_executor *executor, struct fy_device *device,
                  double seconds, struct fy_rates *rates)
{
    double start = fy_clock_seconds();
    char *memory = malloc(LINK_BYTES);

    if (!memory) {
        return FY_ERR_NOMEM;
    }
    memset(memory, 1, LINK_BYTES);
    int status = measure_link(executor, device, true, memory, rates);
    free(memory);
    /* Products, however long the copies took: they decide what goes. */
    double left = seconds - (fy_clock_seconds() - start);
    return status
               ? status
               : measure_card(executor, device,
                              left > seconds / 2 ? left : seconds / 2, rates);
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
    /* A card takes what it has: products of several sizes are tried. */
    double start = fy_clock_seconds();
    status = ops->open(strcmp(name, "host") == 0 ? 2 * (uint64_t)COPY_BYTES : 0,
                       &device);
    if (status) {
        return status;
    }
    status = fy_executor_new(device, &executor);
    if (status) {
        ops->close(device);
        return status;
    }
    rates->open_seconds = fy_clock_seconds() - start;
    status = measure_link(executor, device, false, memory, rates);
    if (status == FY_OK && ops->resolve) {
        status = measure_card(executor, device, INFINITY, rates);
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
    double hash = fy_compare_rate(memory, COPY_BYTES);
    rates.cpu_hash_bytes = hash > 0 ? hash : rates.cpu_hash_bytes;
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
