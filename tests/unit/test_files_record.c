/* SPDX-License-Identifier: Apache-2.0 */
/* Records of what mounts have not delivered: of live, ended and killed processes. */
#include "config.h"

#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proxy/files/record.h"
#include "tests/unit/runner.h"

static char folder[64], path[96];

static void
setup(void)
{
    strcpy(folder, "/tmp/ferry-record.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/1.record", folder);
}

static void
teardown(void)
{
    (void)unlink(path);
    (void)rmdir(folder);
}

struct found {
    unsigned n;
    struct fy_files_record last;
};

static void
find(const struct fy_files_record *record, void *context)
{
    struct found *found = context;
    found->n++;
    found->last = *record;
}

/* A child that keeps a record of so many bytes, until it is killed. */
static pid_t
start(uint64_t bytes)
{
    int ready[2];
    char c;
    ck_assert_int_eq(pipe(ready), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        struct fy_files_record *record =
            fy_files_record_new(path, "ssh://host/data", "/mnt/data");
        if (record) {
            record->bytes = bytes;
            record->files = bytes > 0;
            (void)!write(ready[1], "r", 1);
        }
        close(ready[1]);
        (void)pause();
        _exit(0);
    }
    close(ready[1]);
    ck_assert_int_eq(read(ready[0], &c, 1), 1);
    close(ready[0]);
    return pid;
}

static void
end(pid_t pid)
{
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

START_TEST(tells_what_a_killed_process_had_outstanding)
{
    struct found found = {0};
    pid_t pid = start(4711);
    end(pid);
    fy_files_records_take(folder, find, &found);
    ck_assert_uint_eq(found.n, 1);
    ck_assert_uint_eq(found.last.bytes, 4711);
    ck_assert_uint_eq(found.last.files, 1);
    ck_assert_uint_eq(found.last.pid, (uint32_t)pid);
    ck_assert_str_eq(found.last.place, "ssh://host/data");
    ck_assert_str_eq(found.last.folder, "/mnt/data");
    /* It is told once. */
    fy_files_records_take(folder, find, &found);
    ck_assert_uint_eq(found.n, 1);
}
END_TEST

START_TEST(leaves_the_record_of_a_live_process)
{
    struct found found = {0};
    pid_t pid = start(1);
    fy_files_records_take(folder, find, &found);
    ck_assert_uint_eq(found.n, 0);
    ck_assert_int_eq(access(path, F_OK), 0);
    end(pid);
    fy_files_records_take(folder, find, &found);
    ck_assert_uint_eq(found.n, 1);
}
END_TEST

START_TEST(says_nothing_where_all_was_delivered)
{
    struct found found = {0};
    end(start(0));
    fy_files_records_take(folder, find, &found);
    ck_assert_uint_eq(found.n, 0);
    ck_assert_int_ne(access(path, F_OK), 0);
}
END_TEST

START_TEST(believes_no_other_file)
{
    struct found found = {0};
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    for (size_t i = 0; i < sizeof(struct fy_files_record); i++) {
        (void)fputc(1, file);
    }
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_ptr_null(fy_files_record_new(path, "", ""));
    fy_files_records_take(folder, find, &found);
    ck_assert_uint_eq(found.n, 0);
    ck_assert_int_eq(access(path, F_OK), 0);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("files record");
    TCase *tcase = tcase_create("all");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, tells_what_a_killed_process_had_outstanding);
    tcase_add_test(tcase, leaves_the_record_of_a_live_process);
    tcase_add_test(tcase, says_nothing_where_all_was_delivered);
    tcase_add_test(tcase, believes_no_other_file);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
