/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who gets the device, with how much of its memory, and who goes without: the
 * pool of executors on the host device. Nothing here depends on how long
 * anything takes; waits that end in vain are given no time.
 */
#include "config.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

#include "pager/execute/pool.h"
#include "tests/patience.h"
#include "tests/unit/runner.h"

enum {
    TOTAL = 1 << 20,
    LONG = 60, /* seconds: the test fails by its own limit first */
};

static char note[FY_POOL_NOTE_BYTES];
static struct fy_pool pool;

static enum fy_reason
take(uint64_t useful_bytes, double seconds, struct fy_lease *out)
{
    return fy_pool_take(&pool, useful_bytes, useful_bytes, seconds, note, out);
}

static void
start(void)
{
    ck_assert_int_eq(fy_pool_start(&pool, &fy_device_host, TOTAL), 0);
    ck_assert(!fy_pool_is_closed(&pool));
}

START_TEST(test_small_calls_run_together)
{
    struct fy_lease one, two, three;
    start();
    ck_assert_int_eq(take(TOTAL / 4, 0, &one), FY_REASON_NONE);
    ck_assert_int_eq(take(TOTAL / 4, 0, &two), FY_REASON_NONE);
    ck_assert_ptr_eq(one.device, two.device);
    ck_assert_ptr_ne(one.executor, two.executor);
    ck_assert_uint_eq(one.budget_bytes, TOTAL / 4);
    /* A large one gets the half that is left. */
    ck_assert_int_eq(take(10 * TOTAL, 0, &three), FY_REASON_NONE);
    ck_assert_uint_eq(three.budget_bytes, TOTAL / 2);
    fy_pool_release(&pool, &one);
    fy_pool_release(&pool, &two);
    fy_pool_release(&pool, &three);
    /* Alone, it gets everything; executors are used again. */
    ck_assert_int_eq(take(10 * TOTAL, 0, &two), FY_REASON_NONE);
    ck_assert_uint_eq(two.budget_bytes, TOTAL);
    ck_assert_ptr_eq(two.executor, one.executor);
    fy_pool_release(&pool, &two);
}
END_TEST

START_TEST(test_large_calls_wait)
{
    struct fy_lease one, two;
    start();
    ck_assert_int_eq(take(10 * TOTAL, 0, &one), FY_REASON_NONE);
    ck_assert_int_eq(take(10 * TOTAL, 0, &two), FY_REASON_DEVICE_BUSY);
    /* Nobody waits again for who has been waited for in vain. */
    ck_assert_int_eq(take(10 * TOTAL, LONG, &two), FY_REASON_DEVICE_BUSY);
    fy_pool_release(&pool, &one);
    ck_assert_int_eq(take(10 * TOTAL, LONG, &two), FY_REASON_NONE);
    fy_pool_release(&pool, &two);
}
END_TEST

static struct fy_lease held;
static pthread_barrier_t barrier;

static void *
give_up_later(void *unused)
{
    (void)unused;
    pthread_barrier_wait(&barrier);
    fy_pool_release(&pool, &held);
    return NULL;
}

START_TEST(test_waiting_ends_with_the_release)
{
    struct fy_lease mine;
    pthread_t other;
    start();
    pthread_barrier_init(&barrier, NULL, 2);
    ck_assert_int_eq(take(10 * TOTAL, 0, &held), FY_REASON_NONE);
    ck_assert_int_eq(pthread_create(&other, NULL, give_up_later, NULL), 0);
    pthread_barrier_wait(&barrier);
    ck_assert_int_eq(take(10 * TOTAL, LONG, &mine), FY_REASON_NONE);
    ck_assert_uint_eq(mine.budget_bytes, TOTAL);
    fy_pool_release(&pool, &mine);
    pthread_join(other, NULL);
}
END_TEST

START_TEST(test_bound_of_executors)
{
    struct fy_lease all[FY_POOL_EXECUTORS], more;
    start();
    for (int i = 0; i < FY_POOL_EXECUTORS; i++) {
        ck_assert_int_eq(take(4096, 0, &all[i]), FY_REASON_NONE);
    }
    ck_assert_int_eq(take(4096, 0, &more), FY_REASON_DEVICE_BUSY);
    fy_pool_release(&pool, &all[3]);
    ck_assert_int_eq(take(4096, 0, &more), FY_REASON_NONE);
    ck_assert_ptr_eq(more.executor, all[3].executor);
}
END_TEST

START_TEST(test_shrinking)
{
    struct fy_lease one, two;
    unsigned times = 0;
    start();
    ck_assert_int_eq(take(10 * TOTAL, 0, &one), FY_REASON_NONE);
    ck_assert(fy_pool_shrink(&pool, &one));
    ck_assert_uint_eq(one.budget_bytes, TOTAL / 2);
    /* What it has given up is there for others. */
    ck_assert_int_eq(take(10 * TOTAL, 0, &two), FY_REASON_NONE);
    ck_assert_uint_eq(two.budget_bytes, TOTAL / 2);
    while (fy_pool_shrink(&pool, &one)) {
        ck_assert_uint_lt(++times, 20);
    }
    ck_assert_uint_gt(one.budget_bytes, 0);
    fy_pool_release(&pool, &one);
    fy_pool_release(&pool, &two);
    ck_assert_int_eq(take(10 * TOTAL, 0, &two), FY_REASON_NONE);
    ck_assert_uint_eq(two.budget_bytes, TOTAL);
}
END_TEST

/* Takes a lease for a call that needs so many bytes, holds an operand of a quarter of the
 * device, and gives the lease back. Returns the lease's size. */
static uint64_t
call_with_mirror(struct fy_memory *memory, char *operand, uint64_t needed_bytes)
{
    const struct fy_view view = {.host = operand,
                                 .element_bytes = 1,
                                 .access = FY_ACCESS_IN,
                                 .naxes = 1,
                                 .extent = {TOTAL / 4},
                                 .stride = {1},
                                 .lo = INT64_MIN,
                                 .hi = INT64_MAX};
    struct fy_lease lease;
    struct fy_hold hold;
    ck_assert_int_eq(fy_pool_take(&pool, TOTAL, needed_bytes, 0, note, &lease),
                     FY_REASON_NONE);
    const uint64_t got = lease.budget_bytes;
    uint64_t left = got;
    fy_memory_hold(memory, lease.device, &view, operand != NULL, &left, 0,
                   &hold);
    fy_pool_part(&pool, &lease, left);
    for (unsigned i = 0; i < hold.count; i++) {
        hold.rows[i].placed = true;
    }
    fy_memory_release(memory, &hold, FY_HOLD_RAN);
    fy_pool_release(&pool, &lease);
    return got;
}

/* Mirrors are no memory of a call; one that needs it has them evicted, no more of them than
 * it needs. */
START_TEST(test_mirrors_make_room)
{
    enum {
        MIRROR = TOTAL / 4 + 256
    };
    static struct fy_memory memory;
    struct fy_lease lease;
    char *operands = calloc(3, TOTAL / 4);
    start();
    ck_assert_int_eq(fy_memory_start(&memory, FY_RESIDENCY_COMPARE, 4096), 0);
    pool.memory = &memory;
    ck_assert_uint_eq(call_with_mirror(&memory, operands, 4096), TOTAL);
    ck_assert_uint_eq(call_with_mirror(&memory, operands + TOTAL / 4, 4096),
                      TOTAL - MIRROR);
    ck_assert_uint_eq(fy_memory_bytes(&memory), 2 * MIRROR);
    /* What is left is enough; what is left with one mirror less; with none. */
    ck_assert_uint_eq(call_with_mirror(&memory, NULL, TOTAL - 2 * MIRROR),
                      TOTAL - 2 * MIRROR);
    ck_assert_uint_eq(call_with_mirror(&memory, NULL, TOTAL - MIRROR),
                      TOTAL - MIRROR);
    ck_assert_uint_eq(fy_memory_bytes(&memory), MIRROR);
    ck_assert_uint_eq(call_with_mirror(&memory, NULL, TOTAL), TOTAL);
    ck_assert_uint_eq(fy_memory_bytes(&memory), 0);
    /* So does one whose memory ran out in the middle. */
    ck_assert_uint_eq(call_with_mirror(&memory, operands + TOTAL / 2, 4096),
                      TOTAL);
    ck_assert_uint_eq(fy_memory_bytes(&memory), MIRROR);
    ck_assert_int_eq(fy_pool_take(&pool, TOTAL / 2, 0, 0, note, &lease),
                     FY_REASON_NONE);
    ck_assert(fy_pool_shrink(&pool, &lease));
    ck_assert_uint_eq(fy_memory_bytes(&memory), 0);
    fy_pool_release(&pool, &lease);
    fy_compare_end(&memory.compare);
    free(operands);
}
END_TEST

/* What an abandoned lease had is never freed: LeakSanitizer is to know. */
static void
expect_leaks(void)
{
#ifdef __SANITIZE_ADDRESS__
    __lsan_disable(); /* for this thread; the test has a process of its own */
#endif
}

static void *
leave_by_exception(void *unused)
{
    struct fy_lease lease;
    (void)unused;
    expect_leaks();
    ck_assert_int_eq(take(TOTAL / 4, 0, &lease), FY_REASON_NONE);
    ck_assert(fy_pool_abandon(&pool));
    ck_assert(!fy_pool_abandon(&pool));
    return NULL;
}

/* The device is left when its last user is done; until then all can go on. */
START_TEST(test_abandoned)
{
    struct fy_lease mine, next;
    pthread_t other;
    expect_leaks();
    start();
    ck_assert(!fy_pool_abandon(&pool));
    ck_assert_int_eq(take(TOTAL / 4, 0, &mine), FY_REASON_NONE);
    struct fy_device *before = mine.device;
    ck_assert_int_eq(pthread_create(&other, NULL, leave_by_exception, NULL), 0);
    pthread_join(other, NULL);
    ck_assert_int_eq(take(TOTAL / 4, 0, &next), FY_REASON_NONE);
    ck_assert_ptr_eq(next.device, before);
    fy_pool_release(&pool, &next);
    fy_pool_release(&pool, &mine);
    ck_assert_int_eq(take(10 * TOTAL, 0, &next), FY_REASON_NONE);
    ck_assert_ptr_ne(next.device, before);
    ck_assert_uint_eq(next.budget_bytes, TOTAL);
}
END_TEST

/* A call that was given up may be a coroutine's and still end. */
START_TEST(test_abandoned_lease_ends)
{
    struct fy_lease given_up, mine, other;
    expect_leaks();
    start();
    ck_assert_int_eq(take(TOTAL / 4, 0, &given_up), FY_REASON_NONE);
    ck_assert(fy_pool_abandon(&pool));
    ck_assert_int_eq(take(10 * TOTAL, 0, &mine), FY_REASON_NONE);
    ck_assert(!fy_pool_shrink(&pool, &given_up));
    fy_pool_release(&pool, &given_up);
    ck_assert_int_eq(take(TOTAL, 0, &other), FY_REASON_DEVICE_BUSY);
    fy_pool_release(&pool, &mine);
    ck_assert_int_eq(take(TOTAL, 0, &other), FY_REASON_NONE);
}
END_TEST

/* A child of a process whose threads have everything has a device of its own. */
START_TEST(test_forked)
{
    struct fy_lease mine;
    int status;
    start();
    ck_assert_int_eq(take(10 * TOTAL, 0, &mine), FY_REASON_NONE);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        alarm((unsigned)patient(
            LONG)); /* a sanitizer's malloc may be locked here for ever */
        fy_pool_after_fork_child(&pool);
        enum fy_reason reason = take(10 * TOTAL, LONG, &mine);
        _exit(reason == FY_REASON_NONE && mine.budget_bytes == TOTAL ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    fy_pool_release(&pool, &mine);
}
END_TEST

START_TEST(test_no_device)
{
    struct fy_lease lease;
    ck_assert_int_eq(fy_pool_start(&pool, NULL, 0), 0);
    ck_assert(fy_pool_is_closed(&pool));
    ck_assert_int_eq(take(4096, LONG, &lease), FY_REASON_NO_DEVICE);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("pool");
    TCase *tests = tcase_create("pool");
    tcase_set_timeout(tests, 50);
    tcase_add_test(tests, test_small_calls_run_together);
    tcase_add_test(tests, test_large_calls_wait);
    tcase_add_test(tests, test_waiting_ends_with_the_release);
    tcase_add_test(tests, test_bound_of_executors);
    tcase_add_test(tests, test_shrinking);
    tcase_add_test(tests, test_mirrors_make_room);
    tcase_add_test(tests, test_abandoned);
    tcase_add_test(tests, test_abandoned_lease_ends);
    tcase_add_test(tests, test_forked);
    tcase_add_test(tests, test_no_device);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
