/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The generic planner on functions that only this file annotates: structs,
 * returned sums, sums into operands, batches, bands, strides that nothing can
 * pack. What may not be cut is not; what fails leaves memory as it was.
 * Long because each function stands here as an annotation, in C and as a call.
 */
#include "config.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "annotations/model/annotations.h"
#include "pager/execute/executor.h"
#include "pager/plan/axes.h"
#include "tests/baddevice/device.h"
#include "tests/unit/nomem.h"
#include "tests/unit/runner.h"

static const char text[] =
    "struct box { size_t rows; size_t cols; size_t pitch; double *data; };\n"
    "function double total(long n, const double *x)\n"
    "{ axis n split sums into return; in x[n: 1]; error n; }\n"
    "function double length(long n, const double *x)\n"
    "{ axis n split combines hypot into return; in x[n: 1]; error n; }\n"
    "function double largest(long n, const double *x)\n"
    "{ axis n split combines max into return; in x[n: 1]; exact; }\n"
    "function int least(long n, const int *x)\n"
    "{ axis n split combines min into return; in x[n: 1]; exact; }\n"
    "function double first(long n, const double *x)\n"
    "{ axis n; in x[n: 1]; }\n"
    "function void histogram(long n, const unsigned char *x, long nb,\n"
    "                        double *bins)\n"
    "{ axis n split sums into bins; axis b = nb;\n"
    "  in x[n: 1]; inout bins[b: 1]; error 1; }\n"
    "function void scale(struct box *b, double by)\n"
    "{ axis r = b->rows split; axis c = b->cols split;\n"
    "  inout b->data[r: b->pitch, c: 1]; }\n"
    "function void add(struct box *d, const struct box *s)\n"
    "{ require s->rows == d->rows && s->cols >= d->cols;\n"
    "  axis r = d->rows also s->rows split; axis c = d->cols also s->cols "
    "split;\n"
    "  inout d->data[r: d->pitch, c: 1]; in s->data[r: s->pitch, c: 1]; }\n"
    "function void batch(long nb, long m, const double *a, double *y)\n"
    "{ axis nb split; axis i = m, j = m;\n"
    "  in a[nb: m * m, i: m, j: 1]; out y[nb: m, i: 1]; }\n"
    "function void spread(long n, const double *x, long step, double *y)\n"
    "{ axis n split; in x[n: step + 1]; out y[n: 2]; }\n"
    "function void reversed(long n, const double *x, long step, double *y)\n"
    "{ axis n split; in x[n: inc step]; out y[n: 1]; }\n"
    "function void outer(long m, long n, const double *x, const double *y,\n"
    "                    double *c, long ldc, double beta)\n"
    "{ axis m, n split; in x[m: 1]; in y[n: 1];\n"
    "  inout c[m: ldc, n: 1] out when beta == 0; }\n"
    "function void product(long m, long n, long k, const double *a, long lda,\n"
    "    const double *b, long ldb, double beta, double *c, long ldc)\n"
    "{ require m > 0 && n > 0 && k > 0;\n"
    "  require lda >= k && ldb >= n && ldc >= n;\n"
    "  axis k split sums into c with beta = 1; axis m, n split;\n"
    "  in a[m: lda, k: 1]; in b[k: ldb, n: 1];\n"
    "  inout c[m: ldc, n: 1] out when beta == 0; }\n"
    "function void said_int(long n, double *x, int *s)\n"
    "{ axis n split; inout x[n: 1]; out s[1: 1]; }\n"
    "function void said_long(long n, double *x, long *s)\n"
    "{ axis n split; inout x[n: 1]; out s[1: 1]; }\n"
    "function void said_two(long n, double *x, int *s)\n"
    "{ axis n split; inout x[n: 1]; out s[2: 1]; }\n"
    "function void said_char(long n, double *x, char *s)\n"
    "{ axis n split; inout x[n: 1]; out s[1: 1]; }\n"
    "function void said_double(long n, double *x, double *s)\n"
    "{ axis n split; inout x[n: 1]; out s[1: 1]; }\n"
    "function void shared(long n, long m, double *x, const double *y)\n"
    "{ axis n split; axis j = n; inout x[n: 1]; in y[1: 1]; }\n"
    "function void apart(long n, long m, double *x, const double *y)\n"
    "{ axis n split; axis j = m; inout x[n: 1]; in y[1: 1]; }\n"
    "function void alike(long n, long m, double *x, const double *y)\n"
    "{ axis n also m split; inout x[n: 1]; in y[n: 1]; }\n"
    "function void alike_shared(long n, long m, double *x, const double *y)\n"
    "{ axis n also m split; axis j = m; inout x[n: 1]; in y[1: 1]; }\n"
    "function double answers(long n, long m, double *x, const double *y)\n"
    "{ axis n split; axis j = m; inout x[n: 1]; in y[1: 1]; }\n"
    "function void whole(long n, long m, double *x, const double *y)\n"
    "{ axis n; axis j = m; inout x[n: 1]; in y[1: 1]; }\n"
    "function void rows(long m, long k, const double *a, double beta,\n"
    "    double *y)\n"
    "{ axis m split; axis k split sums into y with beta = 1;\n"
    "  in a[m: k, k: 1]; inout y[m: 1] out when beta == 0; }\n"
    "function void deep(long k, long m, double beta, const double *x,\n"
    "    double *z, long two, long one, const double *w,\n"
    "    const double *v, const double *u)\n"
    "{ require beta >= 0; axis k split sums into z with beta = 1; axis m;\n"
    "  axis a = two, b = one, c = one, d = one, e = two, f = one, g = one;\n"
    "  axis h = one, i = one, j = one; in x[k: 1]; inout z[m: 1];\n"
    "  in w[a: 8, b: 4, c: 2, d: 1]; in v[e: 8, f: 4, g: 2, h: 1];\n"
    "  in u[i: 2, j: 1]; }\n"
    "function void lapack_like(long n, double *work, long lwork, double *x)\n"
    "{ axis n split; scratch work[lwork: 1] returns 1; inout x[n: 1]; }\n";

struct box {
    size_t rows, cols, pitch;
    double *data;
};

static double
total(long n, const double *x)
{
    double sum = 0;
    for (long i = 0; i < n; i++) {
        sum += x[i];
    }
    return sum;
}

static double
length(long n, const double *x)
{
    double sum = 0;
    for (long i = 0; i < n; i++) {
        sum += x[i] * x[i];
    }
    return sqrt(sum);
}

static double
largest(long n, const double *x)
{
    double most = x[0];
    for (long i = 1; i < n; i++) {
        most = x[i] > most ? x[i] : most;
    }
    return most;
}

static int
least(long n, const int *x)
{
    int least_so_far = x[0];
    for (long i = 1; i < n; i++) {
        least_so_far = x[i] < least_so_far ? x[i] : least_so_far;
    }
    return least_so_far;
}

static double
first(long n, const double *x)
{
    return x[0] + (double)n;
}

static void
histogram(long n, const unsigned char *x, long nb, double *bins)
{
    for (long i = 0; i < n; i++) {
        bins[x[i] % nb] += 1;
    }
}

static void
scale(struct box *b, double by)
{
    for (size_t r = 0; r < b->rows; r++) {
        for (size_t c = 0; c < b->cols; c++) {
            b->data[r * b->pitch + c] *= by;
        }
    }
}

static void
add(struct box *d, const struct box *s)
{
    if (s->rows != d->rows || s->cols < d->cols) {
        abort();
    }
    for (size_t r = 0; r < d->rows; r++) {
        for (size_t i = 0; i < d->cols; i++) {
            d->data[r * d->pitch + i] += s->data[r * s->pitch + i];
        }
    }
}

static void
batch(long nb, long m, const double *a, double *y)
{
    for (long b = 0; b < nb; b++) {
        for (long i = 0; i < m; i++) {
            y[b * m + i] = 0;
            for (long j = 0; j < m; j++) {
                y[b * m + i] += a[(b * m + i) * m + j] * (double)(j + 1);
            }
        }
    }
}

static void
spread(long n, const double *x, long step, double *y)
{
    for (long i = 0; i < n; i++) {
        y[2 * i] = x[i * (step + 1)] + 1;
    }
}

static void
reversed(long n, const double *x, long step, double *y)
{
    for (long i = 0; i < n; i++) {
        y[i] = step < 0 ? x[(i - n + 1) * step] : x[i * step];
    }
}

static void
outer(long m, long n, const double *x, const double *y, double *c, long ldc,
      double beta)
{
    for (long i = 0; i < m; i++) {
        for (long j = 0; j < n; j++) {
            c[i * ldc + j] =
                (beta == 0 ? 0 : beta * c[i * ldc + j]) + x[i] * y[j];
        }
    }
}

static void
product(long m, long n, long k, const double *a, long lda, const double *b,
        long ldb, double beta, double *c, long ldc)
{
    for (long i = 0; i < m; i++) {
        for (long j = 0; j < n; j++) {
            double sum = beta == 0 ? 0 : beta * c[i * ldc + j];
            for (long l = 0; l < k; l++) {
                sum += a[i * lda + l] * b[l * ldb + j];
            }
            c[i * ldc + j] = sum;
        }
    }
}

static void
lapack_like(long n, double *work, long lwork, double *x)
{
    for (long i = 0; i < n; i++) {
        work[i % lwork] = x[i];
        x[i] = 2 * work[i % lwork];
    }
    work[0] = 77;
}

static void
deep(long k, long m, double beta, const double *from, double *z, long two,
     long one, const double *w, const double *v, const double *u)
{
    double sum = (double)two * (double)one * w[0] + v[0] + u[0];
    for (long l = 0; l < k; l++) {
        sum += from[l];
    }
    for (long l = 0; l < m; l++) {
        z[l] = beta * z[l] + sum;
    }
}

static struct fy_model *model;
static struct fy_device *device;
static uint64_t state = 5;

/* A plan of a call of one of the functions above. */
struct run {
    struct fy_bound bound;
    struct fy_target target;
    struct fy_plan *plan;
    struct fy_traffic traffic;
    union fy_raw result;
};

static enum fy_reason
bind(struct run *run, const char *name, void (*function)(void),
     const union fy_raw *given, unsigned nargs)
{
    union fy_raw args[FY_MAX_ARGS] = {{{0, 0}}};
    uint32_t symbol = fy_model_find_symbol(model, name);

    ck_assert_msg(symbol != FY_NIL, "%s", name);
    memset(run, 0, sizeof(*run));
    memcpy(args, given, nargs * sizeof(args[0]));
    run->target.symbol = symbol;
    run->target.integer_bits = 32;
    memcpy(&run->target.original, &function, sizeof(function));
    return fy_bind_args(model,
                        FY_TABLE(model, fy_symbol, symbols)[symbol].function,
                        32, args, NULL, &run->bound);
}

/* Plans and runs; the executor's status. */
static int
execute(struct run *run, uint64_t seed)
{
    struct fy_executor *executor;
    int status = fy_executor_new(device, &executor);
    if (status != FY_OK) {
        return status;
    }
    struct fy_plan_options options = {
        .ops = device->ops,
        .budget_bytes = device->ops->memory_bytes(device),
        .random = seed != 0,
        .seed = seed,
    };
    status = fy_plan_new(&run->bound, &run->target, &options, &run->plan);
    if (status == FY_OK) {
        status = fy_executor_run(executor, &run->plan->schedule, &run->traffic);
        if (status == FY_OK) {
            fy_plan_result(run->plan, &run->result);
        }
        fy_plan_free(run->plan);
    }
    fy_executor_free(executor);
    return status;
}

#define CALL(run, function, seed, ...)                                      \
    do {                                                                    \
        const union fy_raw args_[] = {__VA_ARGS__};                         \
        ck_assert_int_eq(bind((run), #function, (void (*)(void))(function), \
                              args_, sizeof(args_) / sizeof(args_[0])),     \
                         FY_REASON_NONE);                                   \
        ck_assert_int_eq(execute((run), (seed)), 0);                        \
    } while (0)

#define INT(value)   \
    {                \
        .i = (value) \
    }
#define REAL(value)     \
    {                   \
        .d = {(value) } \
    }
#define POINTER(value)                  \
    {                                   \
        .p = (void *)(uintptr_t)(value) \
    }

static double x[20000], y[20000], c[20000], expected[20000];

static void
fill(double *array, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        array[i] = (double)(int64_t)fy_random(&state) / 9.3e18;
    }
}

/* Returns true for two NaNs, or for equal numbers of one sign. */
static bool
same_special(double p, double q)
{
    return isnan(p) ? isnan(q) : p == q && signbit(p) == signbit(q);
}

START_TEST(returned_values)
{
    static int numbers[9000];
    struct run run;
    uint64_t seed = (uint64_t)_i;

    fill(x, 9000);
    x[8000] = 3;
    CALL(&run, total, seed, INT(9000), POINTER(x));
    ck_assert_double_eq_tol(run.result.d[0], total(9000, x), 1e-10);
    ck_assert_uint_gt(run.traffic.chunks, 1);
    CALL(&run, length, seed, INT(9000), POINTER(x));
    ck_assert_double_eq_tol(run.result.d[0], length(9000, x), 1e-10);
    CALL(&run, largest, seed, INT(9000), POINTER(x));
    ck_assert(run.result.d[0] == 3);
    for (int i = 0; i < 9000; i++) {
        numbers[i] = i * 7919 % 9001 - 4000;
    }
    CALL(&run, least, seed, INT(9000), POINTER(numbers));
    ck_assert_int_eq(run.result.i32, least(9000, numbers));
}
END_TEST

/* Sums and lengths of parts give what the original gives of all. */
START_TEST(special_values_in_each_part)
{
    const double values[] = {NAN, INFINITY, -INFINITY, -0.0, 1};
    enum {
        VALUES = sizeof values / sizeof values[0]
    };
    struct run run;

    for (int a = 0; a < VALUES; a++) {
        for (int b = 0; b < VALUES; b++) {
            memset(x, 0, 9000 * sizeof x[0]);
            x[10] = values[a];
            x[8990] = values[b];
            CALL(&run, total, (uint64_t)_i, INT(9000), POINTER(x));
            ck_assert_uint_gt(run.traffic.chunks, 1);
            ck_assert(same_special(run.result.d[0], total(9000, x)));
            CALL(&run, length, (uint64_t)_i, INT(9000), POINTER(x));
            ck_assert(same_special(run.result.d[0], length(9000, x)));
        }
    }
}
END_TEST

START_TEST(whole_only)
{
    struct run run;
    const union fy_raw args[] = {INT(9000), POINTER(x)};

    /* A plain return value: larger than the device is declined. */
    ck_assert_int_eq(bind(&run, "first", (void (*)(void))first, args, 2),
                     FY_REASON_NONE);
    ck_assert_int_eq(execute(&run, 0), FY_ERR_NOFIT);
    x[0] = 1;
    CALL(&run, first, 3, INT(50), POINTER(x));
    ck_assert(run.result.d[0] == 51);
    ck_assert_uint_eq(run.traffic.chunks, 1);
}
END_TEST

/* Every chunk may write a status, which is a lone integer that is only written. */
START_TEST(only_a_status_is_written_by_every_chunk)
{
    static const struct {
        const char *name;
        int status;
    } rows[] = {
        {"said_int", FY_OK},           {"said_long", FY_OK},
        {"said_two", FY_ERR_NOFIT},    {"said_char", FY_ERR_NOFIT},
        {"said_double", FY_ERR_NOFIT},
    };
    const struct fy_plan_options options = {.ops = device->ops,
                                            .budget_bytes = 8192};
    const union fy_raw args[] = {INT(9000), POINTER(x), POINTER(y)};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct run run;
        ck_assert_int_eq(
            bind(&run, rows[i].name, (void (*)(void))first, args, 3),
            FY_REASON_NONE);
        int status = fy_plan_new(&run.bound, &run.target, &options, &run.plan);
        ck_assert_msg(status == rows[i].status, "%s: %d", rows[i].name, status);
        if (status == FY_OK) {
            fy_plan_free(run.plan);
        }
    }
}
END_TEST

/* An axis is cut where each of its extents stands for it alone, and no answer is lost. */
START_TEST(axes_that_are_cut)
{
    static const struct {
        const char *name;
        int64_t n, m;
        int status;
    } rows[] = {
        {"apart", 9000, 3, FY_OK},
        {"alike", 9000, 9000, FY_OK},
        {"whole", 9000, 3, FY_ERR_NOFIT},
        {"shared", 9000, 3, FY_ERR_NOFIT},
        {"alike", 9000, 9001, FY_ERR_NOFIT},
        {"alike_shared", 9000, 9000, FY_ERR_NOFIT},
        {"answers", 9000, 3, FY_ERR_NOFIT},
    };
    const struct fy_plan_options options = {.ops = device->ops,
                                            .budget_bytes = 8192};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const union fy_raw args[] = {INT(rows[i].n), INT(rows[i].m), POINTER(x),
                                     POINTER(y)};
        struct run run;
        ck_assert_int_eq(
            bind(&run, rows[i].name, (void (*)(void))first, args, 4),
            FY_REASON_NONE);
        int status = fy_plan_new(&run.bound, &run.target, &options, &run.plan);
        ck_assert_msg(status == rows[i].status, "%s: %d", rows[i].name, status);
        if (status == FY_OK) {
            fy_plan_free(run.plan);
        }
    }
}
END_TEST

/* A call that fits is cut where it takes long on the link, and moves no more for it. */
START_TEST(a_call_that_fits_is_cut_by_time)
{
    static const struct {
        uint64_t overlap_bytes, budget_bytes;
        bool is_cut;
    } rows[] = {
        {0, UINT64_C(1) << 30, false},
        {1 << 9, UINT64_C(1) << 30, true},
        {1 << 20, UINT64_C(1) << 30, false},
    };
    const union fy_raw args[] = {INT(9000), INT(3), POINTER(x), POINTER(y)};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct fy_plan_options options = {
            .ops = device->ops,
            .budget_bytes = rows[i].budget_bytes,
            .overlap_bytes = rows[i].overlap_bytes};
        struct run run;
        ck_assert_int_eq(bind(&run, "apart", (void (*)(void))first, args, 4),
                         FY_REASON_NONE);
        ck_assert_int_eq(
            fy_plan_new(&run.bound, &run.target, &options, &run.plan), FY_OK);
        ck_assert_str_eq(run.plan->method, rows[i].is_cut ? "axes" : "whole");
        ck_assert_uint_eq(run.plan->schedule.nsteps > 1, rows[i].is_cut);
        ck_assert_uint_eq(run.plan->predicted.bytes_in +
                              run.plan->predicted.bytes_out,
                          fy_compulsory_bytes(run.bound.views,
                                              run.bound.function->noperands));
        fy_plan_free(run.plan);
    }
}
END_TEST

/* Sums are cut so that kernels begin after the first blocks: not if they are there. */
START_TEST(what_is_on_the_device_needs_no_cuts)
{
    const union fy_raw args[] = {INT(1024),  INT(1024),  INT(1024), POINTER(x),
                                 INT(1024),  POINTER(x), INT(1024), REAL(0),
                                 POINTER(y), INT(1024)};
    for (uint32_t kept = 0; kept < 4; kept += 3) {
        const struct fy_plan_options options = {.ops = device->ops,
                                                .budget_bytes = UINT64_C(1)
                                                                << 30,
                                                .resident = kept,
                                                .kept = kept,
                                                .overlap_bytes = 1 << 18,
                                                .kernel_bytes = 3 << 20};
        struct run run;
        bool cuts = false;
        ck_assert_int_eq(bind(&run, "product", (void (*)(void))first, args, 10),
                         FY_REASON_NONE);
        ck_assert_int_eq(
            fy_plan_new(&run.bound, &run.target, &options, &run.plan), FY_OK);
        const struct fy_schedule *schedule = &run.plan->schedule;
        for (uint32_t i = 0; i < schedule->nsteps; i++) {
            cuts = cuts || schedule->tiles[schedule->steps[i].tiles].lo[1] > 0;
        }
        ck_assert_uint_gt(schedule->nsteps, 1);
        ck_assert_uint_eq(cuts, kept == 0);
        fy_plan_free(run.plan);
    }
}
END_TEST

/* Where a random plan of `rows' cuts its sums: a bit for each place. */
static uint64_t
cuts_of_sums(uint64_t seed, long m)
{
    const struct fy_plan_options options = {.ops = device->ops,
                                            .budget_bytes = UINT64_MAX,
                                            .random = true,
                                            .seed = seed};
    const union fy_raw args[] = {INT(m), INT(60), POINTER(x), REAL(1),
                                 POINTER(y)};
    struct run run;
    uint64_t cuts = 0;

    ck_assert_int_eq(bind(&run, "rows", (void (*)(void))first, args, 5),
                     FY_REASON_NONE);
    ck_assert_int_eq(fy_plan_new(&run.bound, &run.target, &options, &run.plan),
                     FY_OK);
    const struct fy_schedule *schedule = &run.plan->schedule;
    for (uint32_t i = 0; i < schedule->nsteps; i++) {
        cuts |= UINT64_C(1) << schedule->tiles[schedule->steps[i].tiles].lo[1];
    }
    fy_plan_free(run.plan);
    return cuts;
}

/* A random plan adds in the same order whatever the other extents are. */
START_TEST(cuts_of_sums_depend_on_their_extent)
{
    bool differ = false;

    for (uint64_t seed = 1; seed < 60; seed++) {
        uint64_t cuts = cuts_of_sums(seed, 2);
        for (long m = 3; m < 300; m *= 3) {
            ck_assert_uint_eq(cuts_of_sums(seed, m), cuts);
        }
        differ = differ || cuts != cuts_of_sums(1, 2);
    }
    ck_assert(differ);
}
END_TEST

/* As many axes as there may be. */
START_TEST(many_axes)
{
    double u[16] = {3}, v[16] = {4}, w[16] = {1}, z[3] = {1, 2, 3};
    struct run run;

    for (int i = 0; i < 9000; i++) {
        x[i] = i;
    }
    CALL(&run, deep, (uint64_t)_i, INT(9000), INT(3), REAL(2), POINTER(x),
         POINTER(z), INT(2), INT(1), POINTER(w), POINTER(v), POINTER(u));
    ck_assert_uint_gt(run.traffic.chunks, 1);
    for (int i = 0; i < 3; i++) {
        ck_assert_double_eq(z[i], 2 * (i + 1) + 8999 * 4500 +
                                      9 * (double)run.traffic.chunks);
    }
}
END_TEST

START_TEST(sums_without_a_factor)
{
    static unsigned char bytes[30000];
    struct run run;
    double bins[16], same[16];

    for (int i = 0; i < 30000; i++) {
        bytes[i] = (unsigned char)fy_random(&state);
    }
    for (int i = 0; i < 16; i++) {
        bins[i] = same[i] = i;
    }
    histogram(30000, bytes, 16, same);
    CALL(&run, histogram, (uint64_t)_i, INT(30000), POINTER(bytes), INT(16),
         POINTER(bins));
    ck_assert_mem_eq(bins, same, sizeof(bins));
    ck_assert_uint_gt(run.traffic.chunks, 1);
    ck_assert_uint_eq(run.traffic.bytes_in, 30000 + sizeof(bins));
    ck_assert_uint_eq(run.traffic.bytes_out, sizeof(bins));
}
END_TEST

START_TEST(structs)
{
    struct run run;
    struct box box = {90, 100, 110, x}, before = box;

    fill(x, 10000);
    memcpy(expected, x, sizeof(x));
    struct box same = {90, 100, 110, expected};
    scale(&same, 3);
    CALL(&run, scale, (uint64_t)_i, POINTER(&box), REAL(3));
    ck_assert_mem_eq(x, expected, sizeof(x));
    ck_assert_mem_eq(&box, &before, sizeof(box));
    ck_assert_uint_gt(run.traffic.chunks, 1);
    ck_assert_uint_eq(run.traffic.bytes_in, 90 * 100 * 8);

    /* An extent that stands in two places. */
    struct box source = {90, 100, 120, y};
    fill(y, 20000);
    memcpy(expected, x, sizeof(x));
    add(&same, &source);
    CALL(&run, add, (uint64_t)_i, POINTER(&box), POINTER(&source));
    ck_assert_mem_eq(x, expected, sizeof(x));
    ck_assert_uint_gt(run.traffic.chunks, 1);
    /* ... with different values there: not one extent, so not cut. */
    const union fy_raw args[] = {POINTER(&box), POINTER(&source)};
    source.cols = 101;
    ck_assert_int_eq(bind(&run, "add", (void (*)(void))add, args, 2),
                     FY_REASON_NONE);
    const struct fy_planner planner = {.bound = &run.bound,
                                       .options = {.ops = &fy_device_host}};
    ck_assert(!fy_axis_is_splittable(&planner, 1));
    ck_assert(fy_axis_is_splittable(&planner, 0));
}
END_TEST

START_TEST(strides)
{
    struct run run;
    uint64_t seed = (uint64_t)_i;

    fill(x, 20000);
    memset(y, 0, sizeof(y));
    memset(expected, 0, sizeof(expected));
    batch(40, 20, x, expected);
    CALL(&run, batch, seed, INT(40), INT(20), POINTER(x), POINTER(y));
    ck_assert_mem_eq(y, expected, sizeof(y));
    ck_assert_uint_gt(run.traffic.chunks, 1);

    /* Strides that are not arguments stay as they are. */
    spread(4000, x, 2, expected);
    CALL(&run, spread, seed, INT(4000), POINTER(x), INT(2), POINTER(y));
    ck_assert_mem_eq(y, expected, sizeof(y));

    reversed(5000, x, -3, expected);
    CALL(&run, reversed, seed, INT(5000), POINTER(x), INT(-3), POINTER(y));
    ck_assert_mem_eq(y, expected, sizeof(y));
    reversed(5000, x, 2, expected);
    CALL(&run, reversed, seed, INT(5000), POINTER(x), INT(2), POINTER(y));
    ck_assert_mem_eq(y, expected, sizeof(y));
}
END_TEST

START_TEST(products)
{
    struct run run;
    uint64_t seed = (uint64_t)_i;

    fill(x, 20000);
    fill(y, 20000);
    for (int beta = 0; beta < 3; beta++) {
        fill(c, 20000);
        if (beta == 0) {
            memset(c, 0xff, sizeof(c)); /* must not matter */
        }
        memcpy(expected, c, sizeof(c));
        outer(70, 80, x, y, expected, 90, beta);
        CALL(&run, outer, seed, INT(70), INT(80), POINTER(x), POINTER(y),
             POINTER(c), INT(90), REAL(beta));
        ck_assert_mem_eq(c, expected, sizeof(c));

        if (beta == 0) {
            memset(c, 0xff, sizeof(c));
        }
        memcpy(expected, c, sizeof(c));
        product(60, 70, 80, x, 85, y, 75, beta, expected, 77);
        CALL(&run, product, seed, INT(60), INT(70), INT(80), POINTER(x),
             INT(85), POINTER(y), INT(75), REAL(beta), POINTER(c), INT(77));
        for (int i = 0; i < 60; i++) {
            for (int j = 0; j < 77; j++) {
                double *mine = &c[i * 77 + j], *other = &expected[i * 77 + j];
                ck_assert(memcmp(mine, other, 8) == 0 ||
                          fabs(*mine - *other) < 1e-10);
            }
        }
    }
}
END_TEST

START_TEST(returned_workspace)
{
    struct run run;
    double work[100];

    fill(x, 3000);
    memset(work, 0, sizeof(work));
    memcpy(expected, x, sizeof(x));
    for (int i = 0; i < 3000; i++) {
        expected[i] *= 2;
    }
    CALL(&run, lapack_like, (uint64_t)_i, INT(3000), POINTER(work), INT(100),
         POINTER(x));
    ck_assert_mem_eq(x, expected, sizeof(x));
    ck_assert(work[0] == 77);
    for (int i = 1; i < 100; i++) {
        ck_assert(work[i] == 0);
    }
}
END_TEST

/* Every operation of the device fails once: memory is as it was. */
START_TEST(failures)
{
    static double before[20000];
    const struct bad_control none = {0};
    unsigned failed = 0;
    bool done = false;

    fill(x, 20000);
    fill(y, 20000);
    fill(before, 20000);
    for (uint64_t at = 1; !done && at < 2000; at++) {
        struct run run;
        const union fy_raw args[] = {
            INT(40),    INT(50), INT(30),    POINTER(x), INT(30),
            POINTER(y), INT(50), REAL(1.25), POINTER(c), INT(50)};
        memcpy(c, before, sizeof(c));
        ck_assert_int_eq(
            bind(&run, "product", (void (*)(void))product, args, 10),
            FY_REASON_NONE);
        struct fy_executor *executor;
        ck_assert_int_eq(fy_executor_new(device, &executor), 0);
        const struct fy_plan_options options = {.ops = device->ops,
                                                .budget_bytes = 8192};
        ck_assert_int_eq(
            fy_plan_new(&run.bound, &run.target, &options, &run.plan), 0);
        const struct bad_control control = {.fail_at = at,
                                            .fail_late = at % 2 != 0};
        bad_control_set(device, &control);
        int status =
            fy_executor_run(executor, &run.plan->schedule, &run.traffic);
        done = bad_operations(device) < at;
        bad_control_set(device, &none);
        fy_plan_free(run.plan);
        fy_executor_free(executor);
        if (status) {
            ck_assert_mem_eq(c, before, sizeof(c));
            failed++;
        } else if (done) {
            memcpy(expected, before, sizeof(c));
            product(40, 50, 30, x, 30, y, 50, 1.25, expected, 50);
            for (int i = 0; i < 2000; i++) {
                ck_assert_double_eq_tol(c[i], expected[i], 1e-10);
            }
        }
    }
    ck_assert(done);
    ck_assert_uint_gt(failed, 20);
    ck_assert_uint_eq(bad_used_bytes(device), 0);
}
END_TEST

static void
open_device(void)
{
    ck_assert_int_eq(fy_device_host.open(16 * 1024, &device), 0);
}

static void
close_device(void)
{
    fy_device_host.close(device);
}

/* Plans and runs a call while the at-th allocation fails; false: there is none. */
static bool
executed_without_memory(struct run *run, uint64_t seed, uint64_t at)
{
    nomem_at(at);
    int status = execute(run, seed);
    bool failed = nomem_reached();
    ck_assert_msg(status == (failed ? FY_ERR_NOMEM : FY_OK), "%s at %llu",
                  fy_status_text(status), (unsigned long long)at);
    ck_assert_uint_eq(bad_used_bytes(device), 0);
    close_device(); /* which keeps some memory until then */
    ck_assert_uint_eq(nomem_live(), 0);
    open_device();
    return failed;
}

/* Each allocation of planning and running fails once: nothing is changed. */
START_TEST(no_memory)
{
    /* A search needs a call that does not fit. */
    static double before[600];
    const int64_t rows = _i ? 4 : 20, columns = _i ? 5 : 30,
                  depth = _i ? 6 : 25;
    struct box to = {(size_t)rows, 40, 40, c}, from = {(size_t)rows, 40, 40, x};
    const union fy_raw boxes[] = {POINTER(&to), POINTER(&from)};
    const union fy_raw numbers[] = {
        INT(rows),  INT(columns), INT(depth), POINTER(x), INT(depth),
        POINTER(y), INT(columns), REAL(2),    POINTER(c), INT(columns)};
    struct run run;

    if (_i) {
        to.cols = from.cols = 3;
    }
    fill(x, 1500);
    fill(y, 1500);
    fill(before, 600);
    for (unsigned call = 0; call < 2; call++) {
        bool failed = true;
        uint64_t at = 0;
        while (failed) {
            ck_assert_int_eq(
                call ? bind(&run, "add", (void (*)(void))add, boxes, 2)
                     : bind(&run, "product", (void (*)(void))product, numbers,
                            10),
                FY_REASON_NONE);
            memcpy(c, before, sizeof(before));
            failed = executed_without_memory(&run, (uint64_t)_i, ++at);
            ck_assert(failed == (memcmp(c, before, sizeof(before)) == 0));
        }
        ck_assert_uint_gt(at, 20);
    }
}
END_TEST

int
main(void)
{
    struct fy_diagnostics *diagnostics = fy_diagnostics_new();
    Suite *suite = suite_create("plan");
    TCase *cases = tcase_create("plan");

    if (fy_compile_text("test_plan", text, sizeof(text) - 1, NULL, diagnostics,
                        &model)) {
        fy_diagnostics_print(diagnostics, stderr);
        return 99;
    }
    fy_diagnostics_free(diagnostics);
    tcase_add_checked_fixture(cases, open_device, close_device);
    tcase_set_timeout(cases, 60);
    /* 0: searched shapes; others: seeds of random ones. */
    tcase_add_loop_test(cases, returned_values, 0, 8);
    tcase_add_loop_test(cases, special_values_in_each_part, 0, 8);
    tcase_add_test(cases, whole_only);
    tcase_add_test(cases, only_a_status_is_written_by_every_chunk);
    tcase_add_test(cases, axes_that_are_cut);
    tcase_add_test(cases, a_call_that_fits_is_cut_by_time);
    tcase_add_test(cases, what_is_on_the_device_needs_no_cuts);
    tcase_add_test(cases, cuts_of_sums_depend_on_their_extent);
    tcase_add_loop_test(cases, many_axes, 0, 4);
    tcase_add_loop_test(cases, sums_without_a_factor, 0, 1);
    tcase_add_loop_test(cases, structs, 0, 8);
    tcase_add_loop_test(cases, strides, 0, 8);
    tcase_add_loop_test(cases, products, 0, 8);
    tcase_add_loop_test(cases, returned_workspace, 0, 8);
    tcase_add_test(cases, failures);
    tcase_add_loop_test(cases, no_memory, 0, 2);
    suite_add_tcase(suite, cases);
    int status = run_suite(suite);
    free(model);
    return status;
}
