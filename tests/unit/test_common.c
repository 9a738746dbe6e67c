/* SPDX-License-Identifier: Apache-2.0 */
/*
 * common/whole.c, path.c, hash.h and clock.h.
 */
#include "config.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/hash.h"
#include "common/path.h"
#include "common/whole.h"
#include "tests/unit/runner.h"

enum {
    MUCH = 1 << 20 /* more than a pipe holds */
};

static void
nothing(int number)
{
    (void)number;
}

/* A timer interrupts both ends of a pipe all the while. */
START_TEST(much_passes_through_interrupted_calls)
{
    int ends[2];
    const struct sigaction action = {.sa_handler = nothing};
    const struct itimerval often = {{0, 300}, {0, 300}},
                           never = {{0, 0}, {0, 0}};
    char *bytes = malloc(MUCH), *back = malloc(MUCH);
    ck_assert_int_eq(pipe(ends), 0);
    for (size_t i = 0; i < MUCH; i++) {
        bytes[i] = (char)(i * 7 + i / 251);
    }
    ck_assert_int_eq(sigaction(SIGALRM, &action, NULL), 0);
    pid_t child = fork();
    ck_assert_int_eq(setitimer(ITIMER_REAL, &often, NULL), 0);
    if (child == 0) {
        _exit(fy_write_whole(ends[1], bytes, MUCH) == 0 ? 0 : 1);
    }
    ck_assert_int_eq(close(ends[1]), 0);
    ck_assert_int_eq(fy_read_whole(ends[0], back, MUCH), 0);
    ck_assert_mem_eq(back, bytes, MUCH);
    ck_assert_int_eq(fy_read_whole(ends[0], back, 1), FY_ERR_IO);
    ck_assert_int_eq(setitimer(ITIMER_REAL, &never, NULL), 0);
    int status = 1;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    free(bytes);
    free(back);
}
END_TEST

START_TEST(ends_and_errors_are_told_apart)
{
    char name[] = "/tmp/ferry-common-XXXXXX", text[8] = "";
    size_t n = 9;
    int fd = mkstemp(name);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(fy_write_whole(fd, "abcde", 5), 0);
    ck_assert_int_eq(fy_read_whole_at(fd, 2, text, 3), 0);
    ck_assert_str_eq(text, "cde");
    ck_assert_int_eq(fy_read_whole_at(fd, 3, text, 3), FY_ERR_IO);
    ck_assert_int_eq(fy_read_whole_at(fd, UINT64_MAX, text, 3), FY_ERR_IO);
    ck_assert_int_eq(lseek(fd, 1, SEEK_SET), 1);
    ck_assert_int_eq(fy_read_most(fd, text, sizeof text, &n), 0);
    ck_assert_uint_eq(n, 4);
    ck_assert_int_eq(fy_read_most(fd, text, sizeof text, &n), 0);
    ck_assert_uint_eq(n, 0);
    char *whole = fy_read_file(name, 5, &n);
    ck_assert_ptr_nonnull(whole);
    ck_assert_str_eq(whole, "abcde");
    free(whole);
    ck_assert_ptr_null(fy_read_file(name, 4, &n));
    ck_assert_int_eq(errno, EFBIG);
    ck_assert_int_eq(close(fd), 0);
    ck_assert_int_eq(fy_read_most(fd, text, sizeof text, &n), FY_ERR_IO);
    ck_assert_int_eq(fy_write_whole(fd, text, 1), FY_ERR_IO);
    ck_assert_int_eq(unlink(name), 0);
    ck_assert_ptr_null(fy_read_file(name, 5, &n));
}
END_TEST

START_TEST(path_is_searched_as_execvp_does)
{
    char folder[] = "/tmp/ferry-common-XXXXXX", text[128], out[PATH_MAX];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    (void)snprintf(text, sizeof text, "%s/here", folder);
    int fd = open(text, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(setenv("PATH", "/absent", 1), 0);
    ck_assert(!fy_path_search("here", out));
    ck_assert_int_eq(errno, ENOENT);
    ck_assert_str_eq(out, "");
    (void)snprintf(text, sizeof text, "/absent:%s:/bin", folder);
    ck_assert_int_eq(setenv("PATH", text, 1), 0);
    ck_assert(!fy_path_search("here", out)); /* not executable */
    ck_assert_int_eq(fchmod(fd, 0755), 0);
    ck_assert(fy_path_search("here", out));
    ck_assert_ptr_nonnull(strstr(out, folder));
    ck_assert_int_eq(chdir(folder), 0);
    ck_assert_int_eq(setenv("PATH", "/absent::/bin", 1), 0);
    ck_assert(fy_path_search("here", out));
    ck_assert_str_eq(out, "./here");
    ck_assert_int_eq(unsetenv("PATH"), 0);
    ck_assert(fy_path_search("sh", out));
    ck_assert_str_eq(out, "/bin/sh");
    ck_assert(fy_path_search("/bin/sh", out));
    ck_assert(!fy_path_search("/absent/sh", out));
    ck_assert_int_eq(close(fd) | unlink("here") | rmdir(folder), 0);
}
END_TEST

START_TEST(folders_hold_what_is_beneath)
{
    ck_assert(fy_path_is_beneath("/a/b", "/a"));
    ck_assert(fy_path_is_beneath("/a/b", "/a/"));
    ck_assert(fy_path_is_beneath("/a", "/a"));
    ck_assert(fy_path_is_beneath("/a", "/"));
    ck_assert(!fy_path_is_beneath("/ab", "/a"));
    ck_assert(!fy_path_is_beneath("/", "/a"));
}
END_TEST

START_TEST(hashes_are_fnv_1a)
{
    ck_assert_uint_eq(fy_hash_text(FY_HASH_START, ""), FY_HASH_START);
    ck_assert_uint_eq(fy_hash_text(FY_HASH_START, "foobar"),
                      UINT64_C(0x85944171f73967e8));
    ck_assert_uint_eq(fy_hash_words(FY_HASH_START, "foobar", 6),
                      UINT64_C(0x85944171f73967e8));
    ck_assert_uint_ne(fy_hash_words(FY_HASH_START, "12345678foobar", 14),
                      fy_hash_words(FY_HASH_START, "12345679foobar", 14));
}
END_TEST

START_TEST(clock_goes_on)
{
    uint64_t before = fy_clock_ns();
    struct timespec time = fy_clock_timespec(UINT64_C(3000000007));
    ck_assert_int_eq(time.tv_sec, 3);
    ck_assert_int_eq(time.tv_nsec, 7);
    ck_assert_uint_eq(fy_clock_of(&time), UINT64_C(3000000007));
    ck_assert_uint_ge(fy_clock_ns(), before);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("common");
    TCase *tcase = tcase_create("common");
    tcase_add_test(tcase, much_passes_through_interrupted_calls);
    tcase_add_test(tcase, ends_and_errors_are_told_apart);
    tcase_add_test(tcase, path_is_searched_as_execvp_does);
    tcase_add_test(tcase, folders_hold_what_is_beneath);
    tcase_add_test(tcase, hashes_are_fnv_1a);
    tcase_add_test(tcase, clock_goes_on);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
