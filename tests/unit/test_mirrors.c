/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schedules on operands with mirrors: sums of matrices whose tiles lie in mirrors, do
 * not fit one, or are of an algorithm that reads an old matrix while it writes a new one.
 * Each result is compared with host memory after every run. Pages are compared, so any
 * kernel will do.
 */
#include "config.h"

#include <check.h>
#include <string.h>
#include <sys/mman.h>

#include "pager/execute/executor.h"
#include "tests/baddevice/device.h"
#include "tests/unit/runner.h"

enum {
    N = 64,
    COUNT = N * N,
    BYTES = COUNT * 8,
    MATRICES = 3,
    MOST = 8, /* steps */
};

static struct fy_memory memory;
static struct fy_device *device;
static struct fy_executor *executor;
static double *x, *y, *z, expected[MATRICES * COUNT];

static struct fy_view views[4], operands[MATRICES];
static struct fy_tile tiles[2 * MOST];
static struct fy_step steps[MOST];
static struct fy_schedule schedule;
static unsigned noperands;
static uintptr_t copied_first; /* of the first row, as the first step begins */

/* Adds a matrix to another, or copies it. */
static void
add(double *to, int64_t to_ld, const double *from, int64_t from_ld,
    int64_t rows, int64_t columns, int64_t fresh)
{
    for (int64_t j = 0; j < columns; j++) {
        for (int64_t i = 0; i < rows; i++) {
            double *at = &to[i + j * to_ld];
            *at = (fresh ? 0 : *at) + from[i + j * from_ld];
        }
    }
}

static int
launch(void *planner, const struct fy_step *step, const struct fy_tile *t,
       const uint64_t *address, struct fy_stream *stream)
{
    static const uint8_t types[7] = {FY_T_POINTER, FY_T_I64, FY_T_POINTER,
                                     FY_T_I64,     FY_T_I64, FY_T_I64,
                                     FY_T_I64};
    int64_t fresh = t[0].access == FY_ACCESS_OUT;
    void *values[7] = {(void *)&address[0],
                       (void *)&t[0].device_stride[1],
                       (void *)&address[1],
                       (void *)&t[1].device_stride[1],
                       (void *)&t[0].n[0],
                       (void *)&t[0].n[1],
                       &fresh};
    struct fy_launch call = {.function = (void *)add,
                             .return_type = FY_T_VOID,
                             .nargs = 7,
                             .types = types,
                             .values = values};
    (void)planner;
    if (step == steps) {
        copied_first =
            schedule.hold->rows[0].copied - schedule.hold->rows[0].lo;
    }
    return device->ops->launch(stream, &call);
}

static struct fy_view
view_of(double *matrix, enum fy_access access)
{
    return (struct fy_view){.host = (char *)matrix,
                            .element_bytes = 8,
                            .access = (uint8_t)access,
                            .naxes = 2,
                            .extent = {N, N},
                            .stride = {1, N},
                            .lo = INT64_MIN,
                            .hi = INT64_MAX};
}

/* An empty schedule. */
static void
clear(void)
{
    memset(steps, 0, sizeof(steps));
    noperands = 0;
    schedule = (struct fy_schedule){.views = views,
                                    .nviews = 4,
                                    .tiles = tiles,
                                    .steps = steps,
                                    .launch = launch};
}

static void
begin(void)
{
    memset(&memory, 0, sizeof(memory));
    ck_assert_int_eq(
        fy_memory_start(&memory, FY_RESIDENCY_COMPARE, FY_PAGE_BYTES), 0);
    ck_assert_int_eq(fy_device_host.open(4 << 20, &device), 0);
    ck_assert_int_eq(fy_executor_new(device, &executor), 0);
    x = mmap(NULL, MATRICES * BYTES, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(x, MAP_FAILED);
    y = x + COUNT;
    z = y + COUNT;
    for (int i = 0; i < MATRICES * COUNT; i++) {
        x[i] = expected[i] = i % 97;
    }
    clear();
}

static void
end(void)
{
    fy_executor_free(executor);
    fy_memory_evict(&memory, UINT64_MAX);
    ck_assert_uint_eq(bad_used_bytes(device), 0);
    fy_compare_end(&memory.compare);
    device->ops->close(device);
    (void)munmap(x, MATRICES * BYTES);
}

/* Columns of a view, with so many elements between two of them on the device. */
static struct fy_tile *
tile(unsigned view, enum fy_access access, int64_t first, int64_t columns,
     int64_t ld)
{
    struct fy_tile *t = &tiles[schedule.ntiles++];
    *t = (struct fy_tile){.view = (uint16_t)view,
                          .access = (uint8_t)access,
                          .naxes = 2,
                          .lo = {0, first},
                          .n = {N, columns},
                          .device_stride = {1, ld}};
    return t;
}

/* Adds a step on whole matrices: `to' gets `from', or the sum. */
static struct fy_step *
step(unsigned to, enum fy_access access, unsigned from)
{
    struct fy_step *s = &steps[schedule.nsteps++];
    s->tiles = schedule.ntiles;
    s->ntiles = 2;
    tile(to, access, 0, N, N);
    tile(from, FY_ACCESS_IN, 0, N, N);
    return s;
}

static void
operand(double *matrix, enum fy_access access)
{
    operands[noperands++] = view_of(matrix, access);
}

/* One call. Returns the bytes that were copied in. */
static uint64_t
run(void)
{
    struct fy_traffic traffic;
    struct fy_hold hold;
    uint64_t budget = 2 << 20;
    fy_memory_hold(&memory, device, operands, noperands, &budget, 0, &hold);
    schedule.hold = &hold;
    ck_assert_int_eq(fy_executor_run(executor, &schedule, &traffic), 0);
    fy_memory_release(&memory, &hold, FY_HOLD_RAN);
    ck_assert_mem_eq(x, expected, sizeof(expected));
    ck_assert_uint_eq(bad_used_bytes(device), fy_memory_bytes(&memory));
    return traffic.bytes_in;
}

/* y += x, in two steps of half the columns. */
static void
plan_sum(void)
{
    clear();
    operand(y, FY_ACCESS_INOUT);
    operand(x, FY_ACCESS_IN);
    views[0] = operands[0];
    views[1] = operands[1];
    for (int half = 0; half < 2; half++) {
        steps[schedule.nsteps++] =
            (struct fy_step){.tiles = schedule.ntiles, .ntiles = 2};
        tile(0, FY_ACCESS_INOUT, half * N / 2, N / 2, N);
        tile(1, FY_ACCESS_IN, half * N / 2, N / 2, N);
    }
}

static void
expect_sum(void)
{
    add(expected + COUNT, N, expected, N, N, N, 0);
}

START_TEST(test_operands_stay)
{
    begin();
    plan_sum();
    for (int round = 0; round < 4; round++) {
        expect_sum();
        ck_assert_uint_eq(run(), round == 0   ? 2 * BYTES
                                 : round == 2 ? FY_PAGE_BYTES
                                              : 0);
        if (round == 1) {
            x[FY_PAGE_BYTES / 8 * 3 + 5] = expected[FY_PAGE_BYTES / 8 * 3 + 5] =
                7;
        }
    }
    end();
}
END_TEST

/* A step waits for the pages of its tiles, and for no more. */
START_TEST(test_copies_as_far_as_needed)
{
    begin();
    plan_sum();
    expect_sum();
    ck_assert_uint_eq(run(), 2 * BYTES);
    ck_assert_uint_eq(copied_first, BYTES / 2);
    end();
}
END_TEST

/* Stale pages are copied in before the kernel that uses them, however long that takes. */
START_TEST(test_copies_come_first)
{
    begin();
    plan_sum();
    for (uint64_t round = 0; round < 12; round++) {
        const struct bad_control control = {.latency_ns = 3000000,
                                            .seed = round};
        bad_control_set(device, &control);
        for (int i = 0; i < COUNT / 2; i++) {
            x[i] = expected[i] = (double)((i * 7 + (int)round) % 89);
        }
        expect_sum();
        ck_assert_uint_eq(run(), round == 0 ? 2 * BYTES : BYTES / 2);
    }
    end();
}
END_TEST

/* As in LAPACK's getri: the old matrix is read while a new one is written in its place. */
START_TEST(test_two_matrices_in_one_place)
{
    begin();
    operand(y, FY_ACCESS_INOUT);
    operand(x, FY_ACCESS_IN);
    views[0] = views[1] = operands[0];
    views[2] = operands[1];
    (void)step(1, FY_ACCESS_OUT, 2);
    (void)step(1, FY_ACCESS_INOUT, 0);
    expect_sum();
    (void)run();
    plan_sum(); /* the mirror has not what was written */
    expect_sum();
    (void)run();
    end();
}
END_TEST

/* What is only read may be as many matrices as an algorithm likes. */
START_TEST(test_two_views_that_are_read)
{
    begin();
    operand(y, FY_ACCESS_INOUT);
    operand(x, FY_ACCESS_IN);
    views[0] = operands[0];
    views[1] = views[2] = operands[1];
    (void)step(0, FY_ACCESS_INOUT, 1);
    (void)step(0, FY_ACCESS_INOUT, 2);
    for (int round = 0; round < 3; round++) {
        expect_sum();
        expect_sum();
        ck_assert_uint_eq(run(), round == 0 ? 2 * BYTES : 0);
    }
    end();
}
END_TEST

/* A tile with another layout has a separate buffer, and the mirror not the content. */
START_TEST(test_other_layouts)
{
    for (unsigned which = 0; which < 4; which++) {
        begin();
        plan_sum();
        tiles[which].device_stride[1] = N + 8;
        expect_sum();
        (void)run();
        for (int round = 0; round < 2; round++) {
            plan_sum();
            expect_sum();
            ck_assert_uint_eq(
                run(), round == 1 || which % 2 == 1 ? 0 : (uint64_t)BYTES);
        }
        end();
    }
}
END_TEST

/* A step that waits for all results in host memory finds them there. */
START_TEST(test_steps_in_order)
{
    begin();
    operand(y, FY_ACCESS_INOUT);
    operand(x, FY_ACCESS_IN);
    operand(z, FY_ACCESS_INOUT);
    for (int i = 0; i < MATRICES; i++) {
        views[i] = operands[i];
    }
    views[3] = view_of(y, FY_ACCESS_IN);
    (void)step(0, FY_ACCESS_INOUT, 1);
    step(2, FY_ACCESS_INOUT, 3)->after = true;
    (void)step(0, FY_ACCESS_INOUT, 1);
    expect_sum();
    add(expected + 2 * COUNT, N, expected + COUNT, N, N, N, 0);
    expect_sum();
    (void)run();
    end();
}
END_TEST

/* A matrix and a part of it, both read, are one operand. */
START_TEST(test_part_of_an_operand)
{
    begin();
    operand(x, FY_ACCESS_IN);
    operand(x, FY_ACCESS_IN);
    operand(y, FY_ACCESS_INOUT);
    operands[1].extent[1] = N / 2;
    memcpy(views, operands, sizeof(operands));
    (void)step(2, FY_ACCESS_INOUT, 0);
    (void)step(2, FY_ACCESS_INOUT, 0);
    tiles[2].n[1] = tiles[3].n[1] = N / 2;
    tiles[2].lo[1] = N / 2;
    tiles[3].view = 1;
    tiles[0].n[1] = tiles[1].n[1] = N / 2;
    for (int round = 0; round < 2; round++) {
        add(expected + COUNT, N, expected, N, N, N / 2, 0);
        add(expected + COUNT + COUNT / 2, N, expected, N, N, N / 2, 0);
        ck_assert_uint_eq(run(), round == 0 ? 2 * BYTES : 0);
    }
    end();
}
END_TEST

/* The upper half of a matrix is read, and a part of the lower half, whose bytes lie
 * between, written: pages are copied in once, for the one or for the other. */
START_TEST(test_result_between_columns)
{
    const uint64_t outer = ((N - 1) * N + N / 2) * 8;
    const uint64_t inner = outer - 2 * N * 8;
    for (int round = 0; round < 2; round++) {
        begin();
        operand(x, FY_ACCESS_IN);
        operand(x + N + N / 2, FY_ACCESS_INOUT);
        operands[0].extent[0] = operands[1].extent[0] = N / 2;
        operands[1].extent[1] = N - 2;
        memcpy(views, operands, sizeof(operands));
        (void)step(1, FY_ACCESS_INOUT, 0);
        tiles[0].n[0] = tiles[1].n[0] = N / 2;
        tiles[0].n[1] = tiles[1].n[1] = N - 2;
        if (round == 1) { /* no tile of it lies in the mirror */
            tiles[1].device_stride[1] = N + 8;
        }
        add(expected + N + N / 2, N, expected, N, N / 2, N - 2, 0);
        ck_assert_uint_eq(run(),
                          round == 0 ? outer : inner + N / 2 * (N - 2) * 8);
        end();
    }
}
END_TEST

/* The lower half of long columns gets the upper one; a later copy in of pages between leaves
 * alone what the first step has written there. */
START_TEST(test_blocks_between_one_another)
{
    enum {
        ROWS = 1024, /* two pages */
        HALF = ROWS / 2,
        COLUMNS = MATRICES * COUNT / 2 / ROWS,
    };
    static const int64_t first[] = {0, COLUMNS / 2, 0};
    begin();
    operand(x + ROWS * COLUMNS, FY_ACCESS_INOUT);
    operand(x, FY_ACCESS_IN); /* the object of the blocks */
    for (int i = 0; i < 2; i++) {
        operands[i].extent[0] = operands[i].stride[1] = ROWS;
        operands[i].extent[1] = COLUMNS;
        views[i] = operands[i];
    }
    (void)step(0, FY_ACCESS_INOUT, 1);
    for (int i = 0; i < 2; i++) {
        tiles[i].n[0] = tiles[i].device_stride[1] = ROWS;
        tiles[i].n[1] = COLUMNS;
    }
    add(expected + ROWS * COLUMNS, ROWS, expected, ROWS, ROWS, COLUMNS, 0);
    (void)run();
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        x[i] = expected[i] = i % 83;
    }
    clear();
    operand(x + HALF, FY_ACCESS_INOUT);
    operand(x, FY_ACCESS_IN);
    for (int i = 0; i < 2; i++) {
        operands[i].stride[1] = ROWS;
        operands[i].extent[0] = HALF;
        operands[i].extent[1] = COLUMNS;
        views[i] = operands[i];
    }
    for (int i = 0; i < 3; i++) {
        steps[schedule.nsteps++] =
            (struct fy_step){.tiles = schedule.ntiles, .ntiles = 2};
        tile(0, FY_ACCESS_INOUT, first[i], COLUMNS / 2, ROWS)->n[0] = HALF;
        tile(1, FY_ACCESS_IN, first[i], COLUMNS / 2, ROWS)->n[0] = HALF;
        add(expected + HALF + first[i] * ROWS, ROWS, expected + first[i] * ROWS,
            ROWS, HALF, COLUMNS / 2, 0);
    }
    ck_assert_uint_eq(run(), ROWS * COLUMNS * 8);
    end();
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("mirrors");
    TCase *tests = tcase_create("mirrors");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, test_operands_stay);
    tcase_add_test(tests, test_copies_as_far_as_needed);
    tcase_add_test(tests, test_copies_come_first);
    tcase_add_test(tests, test_two_matrices_in_one_place);
    tcase_add_test(tests, test_two_views_that_are_read);
    tcase_add_test(tests, test_other_layouts);
    tcase_add_test(tests, test_steps_in_order);
    tcase_add_test(tests, test_part_of_an_operand);
    tcase_add_test(tests, test_result_between_columns);
    tcase_add_test(tests, test_blocks_between_one_another);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
