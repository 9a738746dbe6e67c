/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pager/base/brief.h and pager/bind/handles.c: what handlers of the program may interrupt
 * never waits, and readers meet whole records only.
 */
#include "config.h"

#include <check.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

#include "pager/base/brief.h"
#include "pager/bind/handles.h"
#include "tests/unit/runner.h"

START_TEST(abandoned_lock_is_taken_over)
{
    struct fy_brief lock = {0};
    uint32_t lost, mine, other;
    unsigned refusals = 0;

    ck_assert(
        fy_brief_take(&lock, &lost)); /* and its holder never comes back */
    while (!fy_brief_take(&lock, &mine)) {
        ck_assert_uint_lt(++refusals, FY_BRIEF_PATIENCE);
    }
    ck_assert(!fy_brief_take(&lock, &other));
    fy_brief_give(&lock, lost); /* too late: it is another's */
    ck_assert(!fy_brief_take(&lock, &other));
    fy_brief_give(&lock, mine);
    ck_assert(fy_brief_take(&lock, &other));
    fy_brief_give(&lock, other);
}
END_TEST

START_TEST(patience_begins_anew_with_each_holder)
{
    struct fy_brief lock = {0};
    uint32_t holding, other;

    for (int i = 0; i < 3; i++) {
        ck_assert(fy_brief_take(&lock, &holding));
        for (unsigned k = 1; k < FY_BRIEF_PATIENCE; k++) {
            ck_assert(!fy_brief_take(&lock, &other));
        }
        fy_brief_give(&lock, holding);
    }
}
END_TEST

enum {
    HANDLES = 300,
    ROUNDS = 200,
};

/* All cells of one making say the same number. */
static void
make(uint64_t value, unsigned ncells, int64_t number)
{
    struct fy_value cells[FY_MAX_CELLS];

    memset(cells, 0, sizeof(cells));
    for (unsigned i = 0; i < ncells; i++) {
        cells[i].i = number;
    }
    fy_handle_made(value, (uint32_t)number, ncells, cells);
}

static bool stop;

static void *
read_all(void *wrong)
{
    struct fy_value cells[FY_MAX_CELLS];

    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        for (uint64_t v = 1; v <= HANDLES; v++) {
            uint32_t maker = fy_handle_find(v << 4, cells);
            for (unsigned i = 0; maker != FY_NIL && i < 1 + v % 9; i++) {
                *(unsigned *)wrong += cells[i].i != (int64_t)maker;
            }
        }
    }
    return NULL;
}

START_TEST(readers_meet_whole_records)
{
    pthread_t reader;
    unsigned wrong = 0;
    struct fy_value cells[FY_MAX_CELLS];
#ifdef __SANITIZE_ADDRESS__
    /* Old tables are kept for readers, and a forked child forgets all. */
    __lsan_disable();
#endif

    ck_assert_int_eq(pthread_create(&reader, NULL, read_all, &wrong), 0);
    for (int round = 1; round <= ROUNDS; round++) {
        for (uint64_t v = 1; v <= HANDLES; v++) {
            make(v << 4, 1 + v % 9, round * 1000 + (int)v);
        }
        for (uint64_t v = 1; v <= HANDLES; v += 1 + (unsigned)round % 3) {
            fy_handle_freed(v << 4);
        }
    }
    for (uint64_t v = 1; v <= HANDLES; v++) {
        make(v << 4, 1 + v % 9, (int)v);
    }
    fy_handle_freed(7 << 4);
    for (uint64_t v = 1; v <= HANDLES; v++) {
        uint32_t maker = fy_handle_find(v << 4, cells);
        ck_assert_uint_eq(maker, v == 7 ? FY_NIL : v);
        ck_assert(v == 7 || cells[v % 9].i == (int64_t)v);
    }
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
    pthread_join(reader, NULL);
    ck_assert_uint_eq(wrong, 0);
    fy_handles_after_fork();
    ck_assert_uint_eq(fy_handle_find(1 << 4, cells), FY_NIL);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("brief");
    TCase *tc = tcase_create("brief");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, abandoned_lock_is_taken_over);
    tcase_add_test(tc, patience_begins_anew_with_each_holder);
    tcase_add_test(tc, readers_meet_whole_records);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
