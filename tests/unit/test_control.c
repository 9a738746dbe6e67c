/* SPDX-License-Identifier: Apache-2.0 */
/* Questions to a mount of ferry: what it may answer, and what a dead one does. */
#include "config.h"

#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proxy/storage/control.h"
#include "tests/unit/runner.h"

static char folder[64], path[96], text[1024], cause[256];
static struct fy_buffer lines, why;
static pid_t server;

static void
setup(void)
{
    strcpy(folder, "/tmp/ferry-control.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/control", folder);
    fy_buffer_start(&lines, text, sizeof text);
    fy_buffer_start(&why, cause, sizeof cause);
    server = 0;
}

static void
teardown(void)
{
    if (server > 0) {
        (void)kill(server, SIGKILL);
        (void)waitpid(server, NULL, 0);
    }
    (void)unlink(path);
    (void)rmdir(folder);
}

/* A process that answers one question; NULL: it never does. */
static void
serve(const char *answer)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(listen(fd, 1), 0);
    server = fork();
    if (server == 0) {
        char request[64];
        int client = accept(fd, NULL, NULL);
        if (read(client, request, sizeof request) == 7 &&
            memcmp(request, "report\n", 7) == 0 && answer) {
            (void)!write(client, answer, strlen(answer));
            _exit(0);
        }
        (void)pause();
    }
    close(fd);
}

static int
ask(unsigned patience_ms)
{
    return fy_control_ask(path, "report", patience_ms, &lines, &why);
}

START_TEST(gives_the_lines_before_ok)
{
    size_t n;
    serve("place ssh://h/a b\nrequests 12\nok\n");
    ck_assert_int_eq(ask(0), 0);
    ck_assert_str_eq(text, "place ssh://h/a b\nrequests 12\n");
    ck_assert_uint_eq(fy_control_number(text, "requests"), 12);
    ck_assert_uint_eq(fy_control_number(text, "request"), 0);
    const char *place = fy_control_text(text, "place", &n);
    ck_assert_uint_eq(n, strlen("ssh://h/a b"));
    ck_assert_mem_eq(place, "ssh://h/a b", n);
}
END_TEST

START_TEST(tells_an_error_without_control_characters)
{
    serve("error disk \033full\n");
    ck_assert_int_eq(ask(0), FY_ERR_INVALID);
    ck_assert_str_eq(cause, "disk ?full");
    ck_assert_str_eq(text, "");
}
END_TEST

START_TEST(believes_no_answer_without_its_end)
{
    serve("requests 12\n");
    ck_assert_int_eq(ask(0), FY_ERR_IO);
    ck_assert_str_eq(text, "");
    ck_assert_str_eq(cause, "the mount has ended");
}
END_TEST

START_TEST(waits_no_longer_than_it_was_told)
{
    serve(NULL);
    ck_assert_int_eq(ask(50), FY_ERR_BUSY);
    ck_assert_str_eq(cause, "the mount does not answer");
}
END_TEST

START_TEST(says_that_no_process_is_there)
{
    ck_assert_int_eq(ask(0), FY_ERR_IO);
    ck_assert_str_eq(cause, "no process serves the mount");
}
END_TEST

START_TEST(takes_no_endless_answer)
{
    static char much[100 << 10];
    memset(much, 'x', sizeof much - 1);
    serve(much);
    ck_assert_int_eq(ask(0), FY_ERR_IO);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("control");
    TCase *tcase = tcase_create("all");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, gives_the_lines_before_ok);
    tcase_add_test(tcase, tells_an_error_without_control_characters);
    tcase_add_test(tcase, believes_no_answer_without_its_end);
    tcase_add_test(tcase, waits_no_longer_than_it_was_told);
    tcase_add_test(tcase, says_that_no_process_is_there);
    tcase_add_test(tcase, takes_no_endless_answer);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
