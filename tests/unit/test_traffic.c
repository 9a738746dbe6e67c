/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes moved: plans for 4096 x 4096 doubles in 64 MiB against the bounds, one
 * pass for vectors, and that the executor moves what the plan says.
 */
#include "config.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pager/plan/traffic.h"
#include "tests/unit/calls.h"
#include "tests/unit/runner.h"

/* Elements moved at most: limit * (products n^3 / sqrt(S) + matrices n^2). */
struct row {
    const char *name, *signature;
    double limit, products, matrices;
};

static const struct row rows[] = {
    {"dgemm_", "tTmnkaA1B2bC3", 1.25, 2, 1},
    {"dsymm_", "sumnaA1B2bC3", 1.4, 1.4142, 1},
    {"dsyrk_", "utnkaA1bC3", 1.4, 0.7071, 0.5},
    {"dtrsm_", "sutdmnaA1B2", 1.4, 1, 1},
    {"dtrmm_", "sutdmnaA1B2", 1.4, 1, 1},
    {"dsyr2k_", "utnkaA1B2bC3", 1.6, 1.4142, 0.5},
    {"dpotrf_", "unA1i", 1.3, 0.2357, 0.5},
};

enum {
    ROWS = sizeof(rows) / sizeof(rows[0])
};

static const struct fy_model *model;

static struct call_numbers
numbers_of(int64_t n)
{
    static int32_t info;
    struct call_numbers numbers = {
        .side = 'L',
        .uplo = 'L',
        .transa = 'N',
        .transb = 'N',
        .diag = 'N',
        .m = n,
        .n = n,
        .k = n,
        .order = 102,
        .alpha = {1, 0},
        .ld = {n, n, n},
        .inc = {1, 1},
        .info = &info,
    };
    return numbers;
}

START_TEST(planned)
{
    const struct row *row = &rows[_i];
    struct call_numbers numbers = numbers_of(4096);
    struct call call;
    struct call_run run;
    /* Planning reads what must be finite. */
    double *zeros = calloc((size_t)4096 * 4096, sizeof *zeros);

    ck_assert_ptr_nonnull(zeros);
    for (unsigned i = 0; i < 3; i++) {
        numbers.matrix[i] = zeros;
    }
    ck_assert(call_make(model, row->name, row->signature, &numbers, &call));
    ck_assert_int_eq(call_planned(&call, 64 << 20, &run), FY_REASON_NONE);
    ck_assert_int_eq(run.status, 0);
    free(zeros);
    double n = 4096, s = (64 << 20) / 8;
    double bound =
        8 * (row->products * n * n * n / sqrt(s) + row->matrices * n * n);
    if (bound < (double)run.lower_bound_bytes) {
        bound = (double)run.lower_bound_bytes;
    }
    double moved = (double)(run.predicted.bytes_in + run.predicted.bytes_out);
    ck_assert_msg(moved <= row->limit * bound, "%s: %.3f of the bound",
                  row->name, moved / bound);
    /* The report's bound is the same one, and is one. */
    ck_assert_double_eq_tol((double)run.lower_bound_bytes, bound, 0.01 * bound);
    ck_assert(moved >= 0.999 * bound);
}
END_TEST

START_TEST(executed)
{
    const struct row *row = &rows[_i];
    int64_t n = 512;
    struct call_numbers numbers = numbers_of(n);
    struct fy_device *device;
    struct call call;
    struct call_run run;
    uint64_t state = 1;

    for (unsigned i = 0; i < 3; i++) {
        double *matrix = malloc((size_t)(n * n) * sizeof(double));
        for (int64_t j = 0; j < n * n; j++) {
            call_fill(FY_T_F64, &matrix[j], &state);
        }
        for (int64_t j = 0; j < n; j++) {
            matrix[j * n + j] += (double)n;
        }
        numbers.matrix[i] = matrix;
    }
    ck_assert_int_eq(fy_device_host.open(1 << 20, &device), 0);
    ck_assert(call_make(model, row->name, row->signature, &numbers, &call));
    ck_assert_int_eq(call_chunked(&call, device, false, 0, &run),
                     FY_REASON_NONE);
    ck_assert_int_eq(run.status, 0);
    ck_assert_uint_gt(run.traffic.chunks, 1);
    ck_assert_uint_ge(run.traffic.bytes_out, run.predicted.bytes_out);
    double moved = (double)(run.traffic.bytes_in + run.traffic.bytes_out);
    double said = (double)(run.predicted.bytes_in + run.predicted.bytes_out);
    ck_assert_msg(moved <= 1.08 * said, "%s: %.3f of the plan", row->name,
                  moved / said);
    fy_device_host.close(device);
    for (unsigned i = 0; i < 3; i++) {
        free(numbers.matrix[i]);
    }
}
END_TEST

/* A result that kernels change for a time goes out after them, else while they run. */
START_TEST(restored)
{
    enum {
        STEPS = 6
    };
    struct fy_trace_tile tile = {.bytes = 100, .device_bytes = 100};
    struct fy_trace_access accesses[STEPS];
    const struct fy_access_trace trace = {
        .tiles = &tile, .ntiles = 1, .accesses = accesses, .naccesses = STEPS};
    struct fy_trace_time time = {.kernels = 100 * STEPS};
    struct fy_traffic traffic;

    for (uint32_t i = 0; i < STEPS; i++) {
        accesses[i] = (struct fy_trace_access){
            .step = i,
            .access = i == 0 ? FY_ACCESS_OUT
                      : _i   ? FY_ACCESS_IN | FY_ACCESS_RESTORED
                             : FY_ACCESS_IN};
    }
    ck_assert_int_eq(fy_trace_run(&trace, 100, &time, &traffic), 0);
    ck_assert_double_eq_tol(time.end, 100 * (STEPS + _i), 1e-6);
    ck_assert_uint_eq(traffic.bytes_in, 0);
    ck_assert_uint_eq(traffic.bytes_out, 100);
}
END_TEST

/* Every declared element once, however little memory there is. */
START_TEST(one_pass)
{
    static const struct row vectors[] = {
        {"dgemv_", "tmnaA1BxbCy", 0, 0, 0}, {"daxpy_", "naAxBy", 0, 0, 0},
        {"ddot_", "nAxBy", 0, 0, 0},        {"dscal_", "naAx", 0, 0, 0},
        {"dcopy_", "nAxBy", 0, 0, 0},       {"dger_", "mnaAxByC3", 0, 0, 0},
    };
    struct call_numbers numbers = numbers_of(600);
    struct fy_device *device;

    ck_assert_int_eq(fy_device_host.open(64 * 1024, &device), 0);
    for (unsigned i = 0; i < 3; i++) {
        numbers.matrix[i] = calloc(600 * 600, sizeof(double));
    }
    for (unsigned i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
        struct call_numbers own = numbers;
        struct call call;
        struct call_run run;
        if (!strchr(vectors[i].signature, 'm')) {
            own.n = 300000;
        }
        own.beta[0] = 1;
        ck_assert_msg(call_make(model, vectors[i].name, vectors[i].signature,
                                &own, &call),
                      "%s", vectors[i].name);
        ck_assert_int_eq(call_chunked(&call, device, false, 0, &run),
                         FY_REASON_NONE);
        ck_assert_int_eq(run.status, 0);
        ck_assert_uint_gt(run.traffic.chunks, 1);
        ck_assert_msg(run.traffic.bytes_in + run.traffic.bytes_out ==
                          run.lower_bound_bytes,
                      "%s moved %llu + %llu, declared %llu", vectors[i].name,
                      (unsigned long long)run.traffic.bytes_in,
                      (unsigned long long)run.traffic.bytes_out,
                      (unsigned long long)run.lower_bound_bytes);
    }
    fy_device_host.close(device);
    for (unsigned i = 0; i < 3; i++) {
        free(numbers.matrix[i]);
    }
}
END_TEST

int
main(void)
{
    static const char *const files[] = {"blas1.ferry", "blas2.ferry",
                                        "blas3.ferry", "lapack.ferry"};
    Suite *suite = suite_create("traffic");
    TCase *cases = tcase_create("traffic");

    model = calls_model(files, 4);
    tcase_set_timeout(cases, 60);
    tcase_add_loop_test(cases, planned, 0, ROWS);
    tcase_add_loop_test(cases, executed, 0, ROWS);
    tcase_add_loop_test(cases, restored, 0, 2);
    tcase_add_test(cases, one_pass);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
