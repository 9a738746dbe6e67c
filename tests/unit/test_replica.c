/* SPDX-License-Identifier: Apache-2.0 */
/* The replica table: equal tiles, their future, and whose past matters. */
#include "config.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "pager/execute/executor.h"
#include "pager/execute/replica.h"
#include "tests/unit/runner.h"

enum {
    STEPS = 6
};

static struct fy_view view;
static struct fy_tile tiles[STEPS * 2];
static struct fy_step steps[STEPS];
static struct fy_schedule schedule;

/* A vector of 100 doubles in tiles of 10. */
static void
set_up(void)
{
    memset(tiles, 0, sizeof tiles);
    view = (struct fy_view){.host = (char *)4096,
                            .element_bytes = 8,
                            .access = FY_ACCESS_INOUT,
                            .naxes = 1,
                            .extent = {100},
                            .stride = {-2}};
    schedule = (struct fy_schedule){
        .views = &view, .nviews = 1, .tiles = tiles, .steps = steps};
}

static void
add_step(uint8_t access, int first, int second)
{
    int which[2] = {first, second};
    struct fy_step *step = &steps[schedule.nsteps++];
    *step = (struct fy_step){.tiles = schedule.ntiles, .ntiles = 2};
    for (int k = 0; k < 2; k++) {
        tiles[schedule.ntiles++] = (struct fy_tile){.access = access,
                                                    .naxes = 1,
                                                    .lo = {which[k] * 10},
                                                    .n = {10},
                                                    .device_stride = {1}};
    }
}

START_TEST(test_equal_tiles_are_one_replica_with_a_future)
{
    struct fy_replica_table table = {0};
    add_step(FY_ACCESS_IN, 0, 1);
    add_step(FY_ACCESS_IN, 1, 1);
    add_step(FY_ACCESS_IN, 2, 0);
    for (int again = 0; again < 2; again++) {
        ck_assert_int_eq(fy_replica_build(&table, &schedule), 0);
        const struct fy_use *u = table.uses;
        ck_assert_uint_eq(HASH_COUNT(table.by_place), 3);
        ck_assert_ptr_eq(u[0].replica, u[5].replica);
        ck_assert_ptr_eq(u[1].replica, u[2].replica);
        ck_assert_ptr_eq(u[2].replica, u[3].replica);
        ck_assert_ptr_ne(u[0].replica, u[1].replica);
        ck_assert_uint_eq(u[0].replica->next_use, 0);
        ck_assert_uint_eq(u[4].replica->next_use, 2);
        ck_assert_uint_eq(u[0].next, 2);
        ck_assert_uint_eq(u[1].next, 1);
        ck_assert_uint_eq(u[2].next, FY_NIL);
        ck_assert_uint_eq(u[3].next, FY_NIL);
        ck_assert_ptr_eq(u[4].replica->copy.view.host,
                         (char *)4096 - 20 * 2 * 8);
        ck_assert_uint_eq(u[0].replica->elements_bytes, 80);
        fy_replica_reset(&table);
        ck_assert_uint_eq(HASH_COUNT(table.by_place), 0);
    }
    fy_replica_table_free(&table);
}
END_TEST

/* Rows: access of the view, of the first and of the second use. */
START_TEST(test_whose_old_content_matters)
{
    static const struct {
        uint8_t view, first, second;
        bool written, old_matters;
    } rows[] = {
        {FY_ACCESS_IN, FY_ACCESS_IN, FY_ACCESS_IN, false, true},
        {FY_ACCESS_INOUT, FY_ACCESS_OUT, FY_ACCESS_INOUT, true, true},
        {FY_ACCESS_INOUT, FY_ACCESS_INOUT, FY_ACCESS_IN, true, true},
        {FY_ACCESS_OUT, FY_ACCESS_OUT, FY_ACCESS_INOUT, true, false},
        {FY_ACCESS_OUT, FY_ACCESS_INOUT, FY_ACCESS_OUT, true, true},
        {FY_ACCESS_SCRATCH, FY_ACCESS_INOUT, FY_ACCESS_INOUT, false, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct fy_replica_table table = {0};
        set_up();
        view.access = rows[i].view;
        add_step(rows[i].first, 3, 3);
        add_step(rows[i].second, 3, 3);
        ck_assert_int_eq(fy_replica_build(&table, &schedule), 0);
        const struct fy_replica *r = table.uses[0].replica;
        ck_assert_int_eq(r->written, rows[i].written);
        if (rows[i].view != FY_ACCESS_IN) {
            ck_assert_int_eq(r->old_matters, rows[i].old_matters);
        }
        fy_replica_table_free(&table);
    }
}
END_TEST

START_TEST(test_contradictions_are_refused)
{
    struct fy_replica_table table = {0};
    add_step(FY_ACCESS_IN, 0, 1);
    add_step(FY_ACCESS_IN, 1, 2);
    tiles[2].device_stride[0] = 2; /* not where the first step has it */
    ck_assert_int_eq(fy_replica_build(&table, &schedule), FY_ERR_INVALID);
    tiles[2].device_stride[0] = 1;
    tiles[2].view = 1;
    ck_assert_int_eq(fy_replica_build(&table, &schedule), FY_ERR_INVALID);
    tiles[2].view = 0;
    steps[1].ntiles = 3; /* beyond the rows */
    ck_assert_int_eq(fy_replica_build(&table, &schedule), FY_ERR_INVALID);
    steps[1].ntiles = 2;
    view.stride[0] = INT64_MAX;
    ck_assert_int_eq(fy_replica_build(&table, &schedule), FY_ERR_OVERFLOW);
    view.stride[0] = 1;
    ck_assert_int_eq(fy_replica_build(&table, &schedule), 0);
    fy_replica_table_free(&table);
}
END_TEST

START_TEST(test_device_bytes)
{
    struct fy_tile t = {.naxes = 2, .n = {10, 3}, .device_stride = {1, 10}};
    ck_assert_uint_eq(fy_tile_device_bytes(&view, &t), 256);
    t.device_stride[1] = -20; /* 9 + 40 + 1 elements */
    ck_assert_uint_eq(fy_tile_device_bytes(&view, &t), 512);
    t.device_stride[1] = INT64_MAX / 2;
    ck_assert_uint_eq(fy_tile_device_bytes(&view, &t), UINT64_MAX);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("replica");
    TCase *tests = tcase_create("replica");
    tcase_add_checked_fixture(tests, set_up, NULL);
    tcase_add_test(tests, test_equal_tiles_are_one_replica_with_a_future);
    tcase_add_test(tests, test_whose_old_content_matters);
    tcase_add_test(tests, test_contradictions_are_refused);
    tcase_add_test(tests, test_device_bytes);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
