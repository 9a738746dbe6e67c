/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What transforms larger than the device stand on: schedules whose later passes see
 * what earlier ones wrote in other tiles of the same memory, and are undone
 * as one. Whole transforms: tests/drive/run.sh.
 */
#include "config.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "pager/blocked/fft.h"
#include "pager/execute/executor.h"
#include "tests/baddevice/device.h"
#include "tests/unit/product.h"
#include "tests/unit/runner.h"

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
    tcase_add_loop_test(tcase, test_passes_follow_each_other, 0, 9);
    tcase_add_loop_test(tcase, test_passes_are_undone_as_one, 0, 9);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
