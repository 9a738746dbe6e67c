/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host device's arena against a list of live blocks, and what lies around
 * its memory: slack, or guard pages.
 */
#include "config.h"

#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "pager/device/host_arena.h"
#include "tests/unit/random.h"
#include "tests/unit/runner.h"

enum {
    BLOCKS = 64,
    ARENA_BYTES = 1 << 18
};

START_TEST(test_arena_blocks_stay_apart)
{
    struct fy_host_arena *arena;
    struct {
        uint64_t at, bytes;
        unsigned char mark;
    } live[BLOCKS] = {0};
    uint64_t most = 0;
    ck_assert_int_eq(fy_host_arena_new(ARENA_BYTES, &arena), 0);
    for (int round = 0; round < 1000; round++) {
        int slot = (int)random_below(BLOCKS);
        if (live[slot].bytes > 0) {
            unsigned char *p = (unsigned char *)(uintptr_t)live[slot].at;
            uint64_t wrong = 0;
            for (uint64_t i = 0; i < live[slot].bytes; i++) {
                wrong += p[i] != live[slot].mark;
            }
            ck_assert_uint_eq(wrong, 0);
            fy_host_arena_release(arena, live[slot].at);
            live[slot].bytes = 0;
            continue;
        }
        uint64_t bytes = 1 + random_below(ARENA_BYTES / 8), at;
        int status = fy_host_arena_alloc(arena, bytes, &at);
        if (status != 0) {
            ck_assert_int_eq(status, FY_ERR_NOFIT);
            continue;
        }
        ck_assert_uint_eq(at % FY_ARENA_ALIGN, 0);
        live[slot].at = at;
        live[slot].bytes = bytes;
        live[slot].mark = (unsigned char)round;
        memset((void *)(uintptr_t)at, (unsigned char)round, bytes);
        if (fy_host_arena_used_bytes(arena) > most) {
            most = fy_host_arena_used_bytes(arena);
        }
    }
    ck_assert_uint_le(most, ARENA_BYTES);
    ck_assert_uint_gt(most, ARENA_BYTES / 2);
    for (int slot = 0; slot < BLOCKS; slot++) {
        if (live[slot].bytes > 0) {
            fy_host_arena_release(arena, live[slot].at);
        }
    }
    /* All freed again: one gap of full size. */
    uint64_t at;
    ck_assert_uint_eq(fy_host_arena_used_bytes(arena), 0);
    ck_assert_int_eq(fy_host_arena_alloc(arena, ARENA_BYTES, &at), 0);
    ck_assert_int_eq(fy_host_arena_alloc(arena, 1, &at), FY_ERR_NOFIT);
    fy_host_arena_free(arena);
}
END_TEST

START_TEST(test_arena_odd_requests)
{
    struct fy_host_arena *arena;
    uint64_t at;
    ck_assert_int_eq(fy_host_arena_new(1024, &arena), 0);
    ck_assert_int_eq(fy_host_arena_alloc(arena, UINT64_MAX, &at), FY_ERR_NOFIT);
    ck_assert_int_eq(fy_host_arena_alloc(arena, 1025, &at), FY_ERR_NOFIT);
    ck_assert_int_eq(fy_host_arena_alloc(arena, 0, &at), 0);
    fy_host_arena_release(arena, at + 1); /* not ours: ignored */
    ck_assert_uint_eq(fy_host_arena_used_bytes(arena), 256);
    fy_host_arena_free(arena);
    ck_assert_int_eq(fy_host_arena_new(0, &arena), 0);
    ck_assert_int_eq(fy_host_arena_alloc(arena, 1, &at), FY_ERR_NOFIT);
    fy_host_arena_free(arena);
}
END_TEST

/* One element before and behind the arena can be read, as kernels do. */
START_TEST(test_slack)
{
    struct fy_host_arena *arena;
    uint64_t at;
    ck_assert_int_eq(fy_host_arena_new(1 << 16, &arena), 0);
    ck_assert_int_eq(fy_host_arena_alloc(arena, 1 << 16, &at), 0);
    volatile char *p = (volatile char *)(uintptr_t)at;
    ck_assert_int_eq(p[-16] + p[(1 << 16) + 16], 0);
    fy_host_arena_free(arena);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("host_arena");
    TCase *tests = tcase_create("host_arena");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, test_arena_blocks_stay_apart);
    tcase_add_test(tests, test_arena_odd_requests);
    tcase_add_test(tests, test_slack);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
