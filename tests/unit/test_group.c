/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control groups of proxies (proxy/sandbox/group.c): those of a live proxy stay, in whatever
 * PID namespace it is, those of a dead one are removed by the next.
 */
#include "config.h"

#include <check.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proxy/sandbox/group.h"

static struct fy_groups mine;

/* In a PID namespace of its own, where it is process 1: opens groups, says where, and
 * closes them, or ends without. */
static void
other_proxy(bool closes, char out[PATH_MAX])
{
    int ends[2], status;
    struct fy_groups groups;

    memset(out, 0, PATH_MAX);
    ck_assert_int_eq(pipe(ends), 0);
    pid_t outer = fork();
    if (outer == 0) {
        if (unshare(CLONE_NEWPID) != 0) {
            _exit(77);
        }
        pid_t inner = fork();
        if (inner == 0) {
            fy_groups_open(&groups);
            bool said = write(ends[1], groups.path, PATH_MAX) == PATH_MAX;
            if (closes) {
                fy_groups_close(&groups);
            }
            _exit(said ? 0 : 1);
        }
        waitpid(inner, &status, 0);
        _exit(WEXITSTATUS(status));
    }
    close(ends[1]);
    while (read(ends[0], out, PATH_MAX) > 0) {
    }
    close(ends[0]);
    ck_assert_int_eq(waitpid(outer, &status, 0), outer);
    ck_assert_int_eq(WEXITSTATUS(status), 0);
}

static bool
is_there(const char *path)
{
    return access(path, F_OK) == 0;
}

START_TEST(live_proxy_of_another_namespace_keeps_its_groups)
{
    char theirs[PATH_MAX];

    fy_groups_open(&mine);
    other_proxy(true, theirs);
    ck_assert_str_ne(theirs, "");
    ck_assert(!is_there(theirs));
    ck_assert(is_there(mine.path));
    fy_groups_close(&mine);
    ck_assert(!is_there(mine.path));
}
END_TEST

START_TEST(groups_of_a_dead_proxy_are_removed)
{
    char first[PATH_MAX], second[PATH_MAX];

    other_proxy(false, first);
    ck_assert(is_there(first));
    other_proxy(false, second); /* the same process number: 1 */
    ck_assert_str_ne(second, "");
    fy_groups_open(&mine);
    ck_assert(!is_there(first) || strcmp(first, mine.path) == 0);
    ck_assert(!is_there(second));
    fy_groups_close(&mine);
}
END_TEST

/* Whether this user may have control groups and PID namespaces here. */
static bool
can_be_tried(void)
{
    int status = 0;

    fy_groups_open(&mine);
    bool can = mine.path[0] != '\0';
    fy_groups_close(&mine);
    pid_t pid = fork();
    if (pid == 0) {
        _exit(unshare(CLONE_NEWPID) != 0);
    }
    waitpid(pid, &status, 0);
    return can && status == 0;
}

int
main(void)
{
    if (!can_be_tried()) {
        (void)puts("no control groups or PID namespaces here");
        return 77;
    }
    Suite *suite = suite_create("group");
    TCase *tests = tcase_create("group");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, live_proxy_of_another_namespace_keeps_its_groups);
    tcase_add_test(tests, groups_of_a_dead_proxy_are_removed);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
