/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarded blocks and experiments in children: poison is where it should be,
 * touches outside fault and are located, and the parent survives anything.
 */
#include "config.h"

#include <check.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pager/verify/child.h"
#include "pager/verify/guard.h"
#include "tests/unit/runner.h"

static struct fy_child_report *report;

static void
setup(void)
{
    report = fy_shared_new(sizeof *report);
    ck_assert_ptr_nonnull(report);
}

static void
teardown(void)
{
    fy_shared_free(report, sizeof *report);
}

START_TEST(poison_is_nan)
{
    struct fy_guard g;
    ck_assert_int_eq(
        fy_guard_new(24, 8, 0, FY_GUARD_AFTER, FY_POISON_NAN, FY_T_F64, &g), 0);
    double d[3];
    memcpy(d, g.block, sizeof d);
    for (int i = 0; i < 3; i++) {
        ck_assert(isnan(d[i]));
    }
    int64_t at;
    ck_assert(!fy_guard_spilled(&g, &at));
    fy_guard_free(&g);
}
END_TEST

START_TEST(poison_is_large)
{
    struct fy_guard g;
    ck_assert_int_eq(
        fy_guard_new(12, 4, 0, FY_GUARD_BEFORE, FY_POISON_LARGE, FY_T_F32, &g),
        0);
    float f[3];
    memcpy(f, g.block, sizeof f);
    for (int i = 0; i < 3; i++) {
        ck_assert(isfinite(f[i]) && fabsf(f[i]) > 1e20f);
    }
    fy_guard_free(&g);
}
END_TEST

/* A spill into what page granularity leaves is seen, on either side. */
START_TEST(spills_are_seen)
{
    struct fy_guard g;
    int64_t at;
    ck_assert_int_eq(
        fy_guard_new(40, 8, 0, FY_GUARD_AFTER, FY_POISON_NAN, FY_T_F64, &g), 0);
    g.block[-1] ^= 1;
    ck_assert(fy_guard_spilled(&g, &at));
    ck_assert_int_eq(at, -1);
    fy_guard_free(&g);
    ck_assert_int_eq(
        fy_guard_new(40, 8, 0, FY_GUARD_BEFORE, FY_POISON_NAN, FY_T_F64, &g),
        0);
    g.block[40] ^= 1;
    ck_assert(fy_guard_spilled(&g, &at));
    ck_assert_int_eq(at, 40);
    fy_guard_free(&g);
}
END_TEST

struct touch {
    struct fy_guard guard;
    int64_t offset;
    bool write;
};

static void
touch(void *context)
{
    const struct touch *t = context;
    volatile char *p = t->guard.block + t->offset;
    if (t->write) {
        *p = 1;
    } else {
        (void)*p;
    }
}

static void
expect_touch(struct touch *t, bool faults)
{
    int64_t at;
    ck_assert_int_eq(fy_isolated_run(touch, t, 10000, report), 0);
    if (!faults) {
        ck_assert_int_eq(report->end, FY_CHILD_DONE);
        return;
    }
    ck_assert_int_eq(report->end, FY_CHILD_FAULT);
    ck_assert_int_eq(report->signal, SIGSEGV);
    ck_assert_int_eq(report->write, t->write);
    ck_assert(report->has_address);
    ck_assert(fy_guard_locate(&t->guard, report->address, &at));
    ck_assert_int_eq(at, t->offset);
}

START_TEST(touches_outside_fault)
{
    static const size_t sizes[] = {8, 24, 4096, 5000, 1 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct touch t = {.write = i % 2};
        int64_t bytes = (int64_t)sizes[i];
        ck_assert_int_eq(fy_guard_new(sizes[i], 8, 0, FY_GUARD_AFTER,
                                      FY_POISON_NAN, FY_T_F64, &t.guard),
                         0);
        t.offset = bytes - 1;
        expect_touch(&t, false);
        t.offset = bytes;
        expect_touch(&t, true);
        t.offset = bytes + 100000;
        expect_touch(&t, true);
        fy_guard_free(&t.guard);
        ck_assert_int_eq(fy_guard_new(sizes[i], 8, 0, FY_GUARD_BEFORE,
                                      FY_POISON_NAN, FY_T_F64, &t.guard),
                         0);
        t.offset = 0;
        expect_touch(&t, false);
        t.offset = -1;
        expect_touch(&t, true);
        fy_guard_free(&t.guard);
    }
}
END_TEST

START_TEST(nothing_is_inside_an_empty_block)
{
    struct touch t = {.offset = 0};
    ck_assert_int_eq(fy_guard_new(0, 1, 0, FY_GUARD_AFTER, FY_POISON_NAN,
                                  FY_T_F64, &t.guard),
                     0);
    expect_touch(&t, true);
    t.offset = -1;
    expect_touch(&t, true);
    fy_guard_free(&t.guard);
}
END_TEST

START_TEST(slack_is_poison)
{
    struct touch t = {.write = true};
    int64_t at;
    ck_assert_int_eq(fy_guard_new(40, 8, 5000, FY_GUARD_AFTER, FY_POISON_NAN,
                                  FY_T_F64, &t.guard),
                     0);
    t.offset = 40 + 5000;
    expect_touch(&t, false);
    t.offset = 40 + 8192;
    expect_touch(&t, true);
    ck_assert(!fy_guard_spilled(&t.guard, &at));
    t.guard.block[40 + 4999] ^= 1;
    ck_assert(fy_guard_spilled(&t.guard, &at));
    ck_assert_int_eq(at, 40 + 4999);
    fy_guard_free(&t.guard);
}
END_TEST

START_TEST(sizes_that_overflow_are_refused)
{
    struct fy_guard g;
    ck_assert_int_eq(fy_guard_new(SIZE_MAX - 5, 8, 0, FY_GUARD_AFTER,
                                  FY_POISON_NAN, FY_T_F64, &g),
                     FY_ERR_OVERFLOW);
}
END_TEST

static void
call_exit(void *context)
{
    (void)context;
    exit(7);
}

static void
hang(void *context)
{
    (void)context;
    for (;;) {
        pause();
    }
}

static void
call_abort(void *context)
{
    (void)context;
    abort();
}

static void
overflow_stack(void *context)
{
    volatile char big[4096];
    big[0] = 1;
    if (context != NULL) {
        overflow_stack((void *)big);
    }
    big[1] = 2;
}

START_TEST(ends_are_told_apart)
{
    errno = 1234;
    ck_assert_int_eq(fy_isolated_run(call_exit, NULL, 10000, report), 0);
    ck_assert_int_eq(report->end, FY_CHILD_EXITED);
    ck_assert_int_eq(report->exit_status, 7);
    ck_assert_int_eq(fy_isolated_run(hang, NULL, 100, report), 0);
    ck_assert_int_eq(report->end, FY_CHILD_TIMEOUT);
    ck_assert_int_eq(fy_isolated_run(call_abort, NULL, 10000, report), 0);
    ck_assert_int_eq(report->end, FY_CHILD_FAULT);
    ck_assert_int_eq(report->signal, SIGABRT);
    ck_assert_int_eq(fy_isolated_run(overflow_stack, report, 10000, report), 0);
    ck_assert_int_eq(report->end, FY_CHILD_FAULT);
    ck_assert_int_eq(report->signal, SIGSEGV);
    ck_assert_int_eq(errno, 1234);
}
END_TEST

static volatile sig_atomic_t chld_count;

static void
on_chld(int number)
{
    (void)number;
    chld_count++;
}

/* The host sees neither the signal nor the zombie of our child, and still
 * those of its own. */
START_TEST(host_does_not_notice)
{
    struct sigaction action = {.sa_handler = on_chld};
    sigaction(SIGCHLD, &action, NULL);
    for (int i = 0; i < 20; i++) {
        ck_assert_int_eq(fy_isolated_run(call_exit, NULL, 10000, report), 0);
    }
    ck_assert_int_eq(chld_count, 0);
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
    ck_assert_int_eq(errno, ECHILD);

    pid_t own = fork();
    if (own == 0) {
        _exit(3);
    }
    siginfo_t info;
    ck_assert_int_eq(waitid(P_PID, (id_t)own, &info, WEXITED | WNOWAIT), 0);
    ck_assert_int_eq(chld_count, 1);
    ck_assert_int_eq(fy_isolated_run(call_exit, NULL, 10000, report), 0);
    int status;
    ck_assert_int_eq(waitpid(own, &status, 0), own);
    ck_assert_int_eq(WEXITSTATUS(status), 3);
}
END_TEST

/* A host that lets the kernel reap its children. */
START_TEST(ignored_sigchld)
{
    signal(SIGCHLD, SIG_IGN);
    ck_assert_int_eq(fy_isolated_run(call_exit, NULL, 10000, report), 0);
    ck_assert_int_eq(report->end, FY_CHILD_EXITED);
    signal(SIGCHLD, SIG_DFL);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("guard");
    TCase *c = tcase_create("guard");
    tcase_set_timeout(c, 60);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, poison_is_nan);
    tcase_add_test(c, poison_is_large);
    tcase_add_test(c, spills_are_seen);
    tcase_add_test(c, touches_outside_fault);
    tcase_add_test(c, nothing_is_inside_an_empty_block);
    tcase_add_test(c, slack_is_poison);
    tcase_add_test(c, sizes_that_overflow_are_refused);
    tcase_add_test(c, ends_are_told_apart);
    tcase_add_test(c, host_does_not_notice);
    tcase_add_test(c, ignored_sigchld);
    suite_add_tcase(suite, c);
    return run_suite(suite);
}
