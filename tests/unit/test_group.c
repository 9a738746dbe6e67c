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
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proxy/sandbox/group.h"
#include "tests/unit/runner.h"

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

/* ---- a hierarchy of plain folders -------------------------------------------- */

static char top[64];

static void
put(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    ck_assert_msg(file && fputs(text, file) >= 0 && fclose(file) == 0, "%s",
                  path);
}

/* What /proc says of this process's groups, and of where they are mounted: `root' of
 * a hierarchy of that type at the folder, with `more' behind its name. */
static void
say(const char *cgroup, const char *root, const char *more, const char *type)
{
    char text[512];
    (void)snprintf(text, sizeof text,
                   "20 1 0:5 / /proc rw - proc proc rw\n"
                   "31 24 0:26 %s %s%s rw - %s none rw\n",
                   root, top, more, type);
    put("/proc/self/cgroup", cgroup);
    put("/proc/self/mountinfo", text);
}

static void
own_proc(void)
{
    strcpy(top, "/tmp/ferry-group-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(top));
    ck_assert_int_eq(unshare(CLONE_NEWNS), 0);
    ck_assert_int_eq(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
    ck_assert_int_eq(mount("none", "/proc", "tmpfs", 0, NULL), 0);
    ck_assert_int_eq(mkdir("/proc/self", 0755), 0);
}

/* At the test's end: the host's /proc again, which a sanitizer reads. */
static void
end_proc(void)
{
    ck_assert_int_eq(umount2("/proc", MNT_DETACH), 0);
    ck_assert_int_eq(rmdir(top), 0); /* nothing was left there */
}

START_TEST(without_groups_stages_run_all_the_same)
{
    static const struct {
        const char *cgroup, *root, *more, *type;
    } rows[] = {
        {"", "/", "", "cgroup2"},
        {"1:name=systemd:/a\n", "/", "", "cgroup2"},
        {"0::/../outside\n", "/", "", "cgroup2"},
        {"0::/missing\n", "/", "", "cgroup2"},
        {"0::/\n", "/part", "", "cgroup2"},
        {"0::/\n", "/", "", "cgroup"},
        {"0::/\n", "/", "\\040", "cgroup2"},
        {"0::/\n", "/", "/missing", "cgroup2"},
    };
    struct fy_groups groups;
    struct fy_group group;
    pid_t pids[2];

    own_proc();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        say(rows[i].cgroup, rows[i].root, rows[i].more, rows[i].type);
        fy_groups_open(&groups);
        ck_assert_str_eq(groups.path, "");
        fy_group_new(&groups, 1000, &group);
        ck_assert_int_eq(group.join, -1);
        ck_assert_uint_eq(group.number, 0);
        fy_group_kill(&groups, group.number);
        ck_assert_uint_eq(fy_group_list(&groups, 1, pids, 2), 0);
        fy_groups_close(&groups);
    }
    end_proc();
}
END_TEST

START_TEST(a_group_has_its_limit_and_its_processes)
{
    struct fy_groups groups;
    struct fy_group group;
    char path[PATH_MAX + 64], text[64];
    pid_t pids[4];
    int status;

    own_proc();
    say("1:name=systemd:/a\n0::/\n", "/", "", "cgroup2");
    fy_groups_open(&groups);
    ck_assert(strncmp(groups.path, top, strlen(top)) == 0);
    fy_group_new(&groups, 0, &group);
    ck_assert_uint_eq(group.number, 1);
    ck_assert(fy_group_remove(&groups, 1));
    ck_assert(fy_group_remove(&groups, 1)); /* it is gone */
    /* The second finds its files, as the kernel would have made them. */
    fy_group_new(&groups, 0, &group);
    ck_assert_int_eq(group.join, -1);
    snprintf(path, sizeof path, "%s/2/memory.max", groups.path);
    ck_assert(!is_there(path));
    ck_assert_int_ne(mkdir(groups.path, 0700), 0);

    pid_t pid = fork();
    if (pid == 0) {
        pause();
        _exit(0);
    }
    snprintf(path, sizeof path, "%s/2/cgroup.procs", groups.path);
    snprintf(text, sizeof text, "%d\n%d\n%d\n", (int)pid, (int)pid, (int)pid);
    put(path, text);
    ck_assert_uint_eq(fy_group_list(&groups, 2, pids, 4), 3);
    ck_assert_int_eq(pids[2], pid);
    ck_assert_uint_eq(fy_group_list(&groups, 2, pids, 2), 2);
    /* A kernel without cgroup.kill: one by one. */
    fy_group_kill(&groups, 0);
    ck_assert_int_eq(waitpid(pid, &status, WNOHANG), 0);
    fy_group_kill(&groups, 2);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    ck_assert(!fy_group_remove(&groups, 2)); /* something is in it */
    ck_assert_int_eq(unlink(path), 0);
    ck_assert(fy_group_remove(&groups, 2));
    fy_groups_close(&groups);
    end_proc();
}
END_TEST

/* A name that a live proxy of the same number holds is left to it. */
START_TEST(a_name_that_is_taken_is_left)
{
    struct fy_groups first, second;

    own_proc();
    say("0::/\n", "/", "", "cgroup2");
    fy_groups_open(&first);
    fy_groups_open(&second);
    ck_assert_str_ne(second.path, "");
    ck_assert_str_ne(first.path, second.path);
    ck_assert(is_there(first.path));
    fy_groups_close(&first);
    ck_assert(is_there(second.path));
    fy_groups_close(&second);
    end_proc();
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
    tcase_add_test(tests, without_groups_stages_run_all_the_same);
    tcase_add_test(tests, a_group_has_its_limit_and_its_processes);
    tcase_add_test(tests, a_name_that_is_taken_is_left);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
