/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rights of a stub's process compared with this one's (proxy/client/peer.c): a child
 * that gives something up is another; so is one that has ended, whoever has its number.
 */
#include "config.h"

#include <check.h>
#include <grp.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proxy/client/peer.h"
#include "tests/unit/possible.h"
#include "tests/unit/runner.h"

static struct fy_peer *own;
static int listener, end[2]; /* a pipe that children read until they may end */
static struct sockaddr_un address = {.sun_family = AF_UNIX};
static char why[128];

static void
setup(void)
{
    struct sockaddr_un any = {.sun_family = AF_UNIX};
    socklen_t n = sizeof address;
    ck_assert_int_eq(fy_peer_new(&own), 0);
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(listener, (void *)&any, sizeof any.sun_family), 0);
    ck_assert_int_eq(getsockname(listener, (void *)&address, &n), 0);
    ck_assert_int_eq(listen(listener, 4), 0);
    ck_assert_int_eq(pipe(end), 0);
}

static void
teardown(void)
{
    fy_peer_free(own);
}

static void
keep_all(void)
{
}

static void
take_no_privileges(void)
{
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

static void
leave_groups(void)
{
    static const gid_t groups[] = {54321};
    (void)setgroups(1, groups);
}

static void
bound_capabilities(void)
{
    (void)prctl(PR_CAPBSET_DROP, 40, 0, 0, 0);
}

static void
change_root(void)
{
    (void)!chroot("/usr");
}

/* A child that has done so, and has connected; the connection. */
static int
start(void (*change)(void), pid_t *out_pid)
{
    *out_pid = fork();
    ck_assert_int_ge(*out_pid, 0);
    if (*out_pid == 0) {
        char byte;
        socklen_t n = (socklen_t)(sizeof address.sun_family + 6);
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        change();
        close(end[1]);
        if (connect(fd, (void *)&address, n) == 0) {
            (void)!read(end[0], &byte, 1);
        }
        _exit(0);
    }
    return accept(listener, NULL, NULL);
}

static bool
is_like_us(int socket, pid_t pid)
{
    struct fy_buffer buffer;
    fy_buffer_start(&buffer, why, sizeof why);
    return fy_peer_is_like_us(own, socket, pid, &buffer);
}

START_TEST(test_rights)
{
    static const struct {
        void (*change)(void);
        const char *differs; /* NULL: nothing */
        bool by_root;
    } rows[] = {
        {keep_all, NULL, false},
        {take_no_privileges, "NoNewPrivs:", false},
        {leave_groups, "Groups:", true},
        {bound_capabilities, "Cap", true},
        {change_root, "the root folder", true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pid_t pid;
        if (rows[i].by_root && geteuid() != 0) {
            skip_test("not root");
            return;
        }
        int socket = start(rows[i].change, &pid);
        bool same = is_like_us(socket, pid);
        ck_assert_msg(same == !rows[i].differs, "%zu: %s", i, why);
        ck_assert_msg(same || strstr(why, rows[i].differs), "%s", why);
        close(socket);
    }
    close(end[1]);
    while (wait(NULL) > 0) {
    }
}
END_TEST

START_TEST(test_ended)
{
    pid_t gone, other;
    int first = start(keep_all, &gone);
    close(end[1]);
    ck_assert_int_eq(waitpid(gone, NULL, 0), gone);
    ck_assert(!is_like_us(first, gone));
    /* Its number would be that of another process with all rights. */
    ck_assert_int_eq(pipe(end), 0);
    int second = start(keep_all, &other);
    ck_assert_msg(is_like_us(second, other), "%s", why);
    int pidfd;
    socklen_t n = sizeof pidfd;
    if (getsockopt(second, SOL_SOCKET, 77, &pidfd, &n) == 0) { /* Linux 6.5 */
        ck_assert(!is_like_us(first, other));
    }
    close(end[1]);
    ck_assert_int_eq(waitpid(other, NULL, 0), other);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("peer");
    TCase *tests = tcase_create("peer");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, test_rights);
    tcase_add_test(tests, test_ended);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
