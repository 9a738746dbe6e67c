/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What transforms larger than the device stand on: twiddle factors that are as
 * accurate as their type whatever the size, and schedules whose later passes
 * see what earlier ones wrote in other tiles of the same memory, and are undone
 * as one. Whole transforms: tests/drive/run.sh.
 */
#include "config.h"

#include <check.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pager/blocked/fft.h"
#include "pager/execute/executor.h"
#include "tests/baddevice/device.h"
#include "tests/unit/product.h"
#include "tests/unit/runner.h"

/* ---- twiddle factors ---- */

START_TEST(test_exact_angles)
{
    static const int64_t sizes[] = {8, 24, INT64_C(1) << 40, 1000000000008};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        int64_t n = sizes[i];
        for (int64_t eighth = 0; eighth < 8; eighth++) {
            long double w[2], back[2];
            long double half = sqrtl(0.5L);
            const long double re[] = {1, half, 0, -half, -1, -half, 0, half};
            fy_twiddle(n / 8 * eighth, n, 1, w);
            fy_twiddle(n / 8 * eighth, n, -1, back);
            ck_assert(fabsl(w[0] - re[eighth]) <= LDBL_EPSILON);
            ck_assert(fabsl(w[1] - re[(eighth + 6) % 8]) <= LDBL_EPSILON);
            ck_assert(back[0] == w[0] && back[1] == -w[1]);
            if (eighth % 2 == 0) { /* quarters are exact */
                ck_assert(w[0] == re[eighth]);
            }
        }
    }
}
END_TEST

/* Half a turn further is the negative, to the last bit; and the modulus is 1. */
START_TEST(test_symmetries)
{
    random_state = 5;
    for (int round = 0; round < 2000; round++) {
        int64_t n = 2 * (1 + (int64_t)random_below(UINT64_C(1) << 44));
        int64_t m = (int64_t)random_below((uint64_t)n / 2);
        long double a[2], b[2];
        fy_twiddle(m, n, 1, a);
        fy_twiddle(m + n / 2, n, 1, b);
        ck_assert(a[0] == -b[0] && a[1] == -b[1]);
        ck_assert(fabsl(a[0] * a[0] + a[1] * a[1] - 1) <= 4 * LDBL_EPSILON);
        /* Small angles, where sine and angle are nearly one. */
        long double angle = 2 * acosl(-1.0L) * (long double)m / (long double)n;
        if (8 * m < n) {
            ck_assert(fabsl(a[1] - sinl(angle)) <= 4 * LDBL_EPSILON * a[1]);
        }
    }
}
END_TEST

/* Base times table is the factor, to two roundings. */
START_TEST(test_tables)
{
    static const int64_t sizes[][2] = {
        {2, 2}, {6, 35}, {64, 64}, {100, 1024}, {3, 4099}};
    const bool is_double = _i % 2 != 0;
    const int64_t sign = _i / 2 != 0 ? 1 : -1;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        int64_t n1 = sizes[i][0], n2 = sizes[i][1];
        struct fy_planner planner = {0};
        struct fy_twiddles w;
        ck_assert_int_eq(fy_twiddles_new(&planner, n1, n2, sign, is_double,
                                         (uint64_t)n1 * 16 * 16, &w),
                         0);
        ck_assert_int_ge(w.rows, 2);
        for (int64_t j = 0; j < n2; j++) {
            for (int64_t k = 0; k < n1; k++) {
                long double exact[2], base[2], rest[2];
                int64_t at = j / w.rows * n1 + k, in = j % w.rows * n1 + k;
                fy_twiddle(j * k % (n1 * n2), n1 * n2, sign, exact);
                for (int p = 0; p < 2; p++) {
                    base[p] = is_double
                                  ? ((double *)(void *)w.bases)[2 * at + p]
                                  : ((float *)(void *)w.bases)[2 * at + p];
                    rest[p] = is_double
                                  ? ((double *)(void *)w.table)[2 * in + p]
                                  : ((float *)(void *)w.table)[2 * in + p];
                }
                long double bound = 2 * (is_double ? DBL_EPSILON : FLT_EPSILON);
                ck_assert(fabsl(base[0] * rest[0] - base[1] * rest[1] -
                                exact[0]) <= bound);
                ck_assert(fabsl(base[0] * rest[1] + base[1] * rest[0] -
                                exact[1]) <= bound);
            }
        }
        ck_assert_int_eq(
            fy_twiddles_new(&planner, n1, n2, sign, is_double, 8, &w),
            FY_ERR_NOFIT);
        fy_planner_reset(&planner);
    }
}
END_TEST

/* ---- passes over the same memory ---- */

enum {
    N = 24 /* rows and columns */
};

static double matrix[N][N], before[N][N];

/* Sums up along a line: what comes first matters. */
static void
sum_up(double *tile, int64_t lines, int64_t line_stride, int64_t step)
{
    for (int64_t l = 0; l < lines; l++) {
        for (int64_t i = 1; i < N; i++) {
            tile[l * line_stride + i * step] +=
                tile[l * line_stride + (i - 1) * step];
        }
    }
}

/* tag 0: lines are rows of the tile; 1: its columns. */
static int
launch(void *planner, const struct fy_step *step, const struct fy_tile *tiles,
       const uint64_t *address, struct fy_stream *stream)
{
    static const uint8_t types[] = {FY_T_POINTER, FY_T_I64, FY_T_I64, FY_T_I64};
    const struct fy_device *device = planner;
    bool columns = step->tag != 0;
    int64_t lines = tiles->n[columns ? 1 : 0];
    int64_t line_stride = columns ? 1 : N, along = columns ? lines : 1;
    uint64_t tile = address[0];
    void *values[] = {&tile, &lines, &line_stride, &along};
    const struct fy_launch call = {.function = (void *)(uintptr_t)sum_up,
                                   .return_type = FY_T_VOID,
                                   .nargs = 4,
                                   .types = types,
                                   .values = values};
    return device->ops->launch(stream, &call);
}

static bool
refuse(void *planner)
{
    (void)planner;
    return false;
}

static int
run_passes(int64_t part, uint64_t memory, bool (*accept)(void *),
           struct fy_traffic *traffic)
{
    struct fy_device *device = open_device(memory);
    struct bad_control control = {.latency_ns = 20000, .poison = true};
    struct fy_view views[2];
    struct fy_tile tiles[2 * N];
    struct fy_step steps[2 * N];
    struct fy_schedule s = {.views = views,
                            .nviews = 2,
                            .tiles = tiles,
                            .steps = steps,
                            .launch = launch,
                            .planner = device,
                            .accept = accept};
    struct fy_executor *x;
    bad_control_set(device, &control);
    for (int v = 0; v < 2; v++) {
        views[v] = (struct fy_view){.host = (char *)matrix,
                                    .element_bytes = 8,
                                    .access = FY_ACCESS_INOUT,
                                    .naxes = 2,
                                    .extent = {N, N},
                                    .stride = {N, 1},
                                    .lo = INT64_MIN,
                                    .hi = INT64_MAX,
                                    .temporary = v == 1};
        for (int64_t at = 0; at < N; at += part) {
            int64_t length = shorter(part, N - at);
            const int64_t lo[] = {v == 0 ? at : 0, v == 0 ? 0 : at};
            const int64_t n[] = {v == 0 ? length : N, v == 0 ? N : length};
            set_tile(&tiles[s.ntiles], v, FY_ACCESS_INOUT, lo, n);
            /* Row-major on the device. */
            tiles[s.ntiles].device_stride[0] = n[1];
            tiles[s.ntiles].device_stride[1] = 1;
            steps[s.nsteps++] = (struct fy_step){.tiles = s.ntiles++,
                                                 .ntiles = 1,
                                                 .tag = (uint32_t)v,
                                                 .after = v == 1 && at == 0};
        }
    }
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) {
            matrix[i][j] = before[i][j] = i + 3 * j + 1;
        }
    }
    ck_assert_int_eq(fy_executor_new(device, &x), 0);
    int status = fy_executor_run(x, &s, traffic);
    ck_assert_uint_eq(bad_used_bytes(device), 0);
    fy_executor_free(x);
    device->ops->close(device);
    return status;
}

START_TEST(test_passes_follow_each_other)
{
    struct fy_traffic traffic;
    const int64_t part = _i + 1;
    static double expected[N][N];
    ck_assert_int_eq(run_passes(part, 1 << 20, NULL, &traffic), 0);
    memcpy(expected, before, sizeof expected);
    sum_up(&expected[0][0], N, N, 1);
    sum_up(&expected[0][0], N, 1, N);
    ck_assert_mem_eq(matrix, expected, sizeof matrix);
    ck_assert_uint_eq(traffic.bytes_in, 2 * sizeof matrix);
    ck_assert_uint_eq(traffic.bytes_out, 2 * sizeof matrix);
    /* ... and with room for little more than a step. */
    ck_assert_int_eq(
        run_passes(part, (uint64_t)part * N * 8 + 512, NULL, &traffic), 0);
    ck_assert_mem_eq(matrix, expected, sizeof matrix);
}
END_TEST

/* What is undone is what the program had, not what a pass has left. */
START_TEST(test_passes_are_undone_as_one)
{
    struct fy_traffic traffic;
    ck_assert_int_eq(run_passes(_i + 1, 1 << 20, refuse, &traffic),
                     FY_ERR_UNSUPPORTED);
    ck_assert_mem_eq(matrix, before, sizeof matrix);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("fft");
    TCase *tcase = tcase_create("fft");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, test_exact_angles);
    tcase_add_test(tcase, test_symmetries);
    tcase_add_loop_test(tcase, test_tables, 0, 4);
    tcase_add_loop_test(tcase, test_passes_follow_each_other, 0, 9);
    tcase_add_loop_test(tcase, test_passes_are_undone_as_one, 0, 9);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
