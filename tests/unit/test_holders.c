/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proxy/holders.c against real processes: who is found, with which ends, doing
 * what.
 */
#include "config.h"

#include <check.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proxy/holders.h"

static int ends[2];
static uint64_t inode;
static uint64_t since;
static pid_t children[8];
static unsigned nchildren;
static struct fy_holders holders;

static void
set_up(void)
{
    struct stat status;
    since = fy_holders_now();
    ck_assert_uint_ne(since, 0);
    usleep(30000); /* a clock tick, for those that must be older */
    ck_assert_int_eq(pipe(ends), 0);
    ck_assert_int_eq(fstat(ends[0], &status), 0);
    inode = status.st_ino;
    nchildren = 0;
    memset(&holders, 0, sizeof holders);
}

static void
tear_down(void)
{
    for (unsigned i = 0; i < nchildren; i++) {
        kill(children[i], SIGKILL);
        waitpid(children[i], NULL, 0);
    }
    close(ends[0]);
    close(ends[1]);
    fy_holders_clear(&holders);
}

static pid_t
child(void (*action)(void))
{
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        action();
        for (;;) {
            pause();
        }
    }
    children[nchildren++] = pid;
    return pid;
}

static void
read_it(void)
{
    char byte;
    close(ends[1]);
    (void)!read(ends[0], &byte, 1);
}

static void
write_it(void)
{
    static char block[1 << 20];
    close(ends[0]);
    (void)!write(ends[1], block, sizeof block);
}

static void
poll_it(void)
{
    struct pollfd fd = {.fd = ends[0], .events = POLLIN};
    close(ends[1]);
    (void)poll(&fd, 1, -1);
}

static void
wait_for_child(void)
{
    if (fork() == 0) {
        close(ends[0]);
        close(ends[1]);
        for (;;) {
            pause();
        }
    }
    (void)wait(NULL);
}

static void
read_another(void)
{
    int other[2];
    char byte;
    (void)!pipe(other);
    (void)!read(other[0], &byte, 1);
}

static void
hold_nothing(void)
{
    close(ends[0]);
    close(ends[1]);
}

/* The holder with that pid once it is in `state'; looks for up to 5 s. */
static struct fy_holder
expect(pid_t pid, uint8_t state)
{
    for (int tries = 0; tries < 500; tries++) {
        ck_assert_int_eq(fy_holders_find(&inode, 1, since, &holders), 0);
        for (unsigned i = 0; i < holders.n; i++) {
            if (holders.at[i].pid == pid && holders.at[i].state == state) {
                return holders.at[i];
            }
        }
        usleep(10000);
    }
    ck_abort_msg("process %d never came to state %d", (int)pid, state);
    return (struct fy_holder){0};
}

START_TEST(test_states)
{
    struct fy_holder holder = expect(child(read_it), FY_HOLDER_READS);
    ck_assert(holder.reads && !holder.writes);
    holder = expect(child(poll_it), FY_HOLDER_POLLS);
    ck_assert(holder.reads && !holder.writes);
    holder = expect(child(wait_for_child), FY_HOLDER_WAITS);
    ck_assert(holder.reads && holder.writes);
    holder = expect(child(read_another), FY_HOLDER_POLLS);
    ck_assert(holder.reads && holder.writes);
    struct stat self;
    ck_assert_int_eq(stat("/proc/self/exe", &self), 0);
    ck_assert_uint_eq(holder.exec_inode, self.st_ino);
}
END_TEST

START_TEST(test_writer)
{
    struct fy_holder holder = expect(child(write_it), FY_HOLDER_WRITES);
    ck_assert(!holder.reads && holder.writes);
}
END_TEST

START_TEST(test_who_is_not_found)
{
    pid_t none = child(hold_nothing);
    pid_t reader = child(read_it);
    (void)expect(reader, FY_HOLDER_READS);
    for (int tries = 0; tries < 500; tries++) {
        bool found = false;
        ck_assert_int_eq(fy_holders_find(&inode, 1, since, &holders), 0);
        for (unsigned i = 0; i < holders.n; i++) {
            found = found || holders.at[i].pid == none;
        }
        if (!found) {
            break;
        }
        ck_assert_int_lt(tries, 499);
        usleep(10000);
    }
    /* Whoever is older than the session. */
    ck_assert_int_eq(
        fy_holders_find(&inode, 1, fy_holders_now() + 1000, &holders), 0);
    ck_assert_uint_eq(holders.n, 0);
    ck_assert(!holders.incomplete);
    /* A zombie holds nothing. */
    kill(reader, SIGKILL);
    usleep(50000);
    ck_assert_int_eq(fy_holders_find(&inode, 1, since, &holders), 0);
    for (unsigned i = 0; i < holders.n; i++) {
        ck_assert_int_ne(holders.at[i].pid, reader);
    }
}
END_TEST

START_TEST(test_two_looks)
{
    struct fy_holders later = {0};
    pid_t reader = child(read_it);
    (void)expect(reader, FY_HOLDER_READS);
    ck_assert_int_eq(fy_holders_find(&inode, 1, since, &holders), 0);
    ck_assert_int_eq(fy_holders_find(&inode, 1, since, &later), 0);
    ck_assert(fy_holders_same(&holders, &later, 0));
    (void)child(poll_it);
    ck_assert_int_eq(fy_holders_find(&inode, 1, since, &later), 0);
    ck_assert(!fy_holders_same(&holders, &later, 0));
    ck_assert(!fy_holders_same(&later, &holders, 0));
    ck_assert(fy_holders_same(&holders, &later, 1)); /* no such pipe */
    later.incomplete = true;
    ck_assert(!fy_holders_same(&later, &later, 0));
    fy_holders_clear(&later);
}
END_TEST

START_TEST(test_several_pipes)
{
    int more[2];
    struct stat status;
    ck_assert_int_eq(pipe(more), 0);
    ck_assert_int_eq(fstat(more[0], &status), 0);
    uint64_t both[2] = {inode, status.st_ino};
    pid_t reader = child(read_it);
    (void)expect(reader, FY_HOLDER_READS);
    ck_assert_int_eq(fy_holders_find(both, 2, since, &holders), 0);
    unsigned seen = 0;
    for (unsigned i = 0; i < holders.n; i++) {
        if (holders.at[i].pid == reader) {
            seen |= 1u << holders.at[i].pipe;
            ck_assert_int_eq(holders.at[i].state, holders.at[i].pipe == 0
                                                      ? FY_HOLDER_READS
                                                      : FY_HOLDER_POLLS);
        }
    }
    ck_assert_uint_eq(seen, 3);
    close(more[0]);
    close(more[1]);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("holders");
    TCase *cases = tcase_create("holders");
    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_set_timeout(cases, 20);
    tcase_add_test(cases, test_states);
    tcase_add_test(cases, test_writer);
    tcase_add_test(cases, test_who_is_not_found);
    tcase_add_test(cases, test_two_looks);
    tcase_add_test(cases, test_several_pipes);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
