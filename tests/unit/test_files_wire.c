/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /files of a real proxy, in its real sandbox: requests go through the wire to the
 * files process and answers come back, however small the windows; what is not exported
 * is refused; the process ends with the stream.
 */
#include "config.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "proxy/files/message.h"
#include "proxy/server/proxy.h"
#include "proxy/wire/protocol.h"
#include "proxy/wire/transport.h"
#include "proxy/wire/wire.h"
#include "tests/unit/runner.h"

static char root[64];
static struct fy_wire *wire;
static pid_t proxy;
static int32_t stream;
static int response;
static bool ended, closed;
static char *in;
static size_t in_bytes;
static bool grants; /* what comes is granted anew */

static void
on_response(void *context, int32_t at, void *user, int status,
            const struct fy_wire_pair *pairs, size_t npairs)
{
    (void)context, (void)at, (void)user, (void)pairs, (void)npairs;
    response = status;
}

static void
on_data(void *context, int32_t at, void *user, const void *bytes, size_t n)
{
    (void)context, (void)user;
    in = realloc(in, in_bytes + n);
    ck_assert_ptr_nonnull(in);
    memcpy(in + in_bytes, bytes, n);
    in_bytes += n;
    if (grants) {
        ck_assert_int_eq(fy_wire_grant(wire, at, n), 0);
    }
}

static void
on_end(void *context, int32_t at, void *user,
       const struct fy_wire_pair *trailers, size_t ntrailers)
{
    (void)context, (void)at, (void)user, (void)trailers, (void)ntrailers;
    ended = true;
}

static void
on_closed(void *context, int32_t at, void *user, uint32_t error)
{
    (void)context, (void)at, (void)user, (void)error;
    closed = true;
}

static const struct fy_wire_events events = {.response = on_response,
                                             .data = on_data,
                                             .end = on_end,
                                             .closed = on_closed};

static void
setup(void)
{
    int ends[2];
    char magic[sizeof FY_PROXY_MAGIC];
    (void)signal(SIGPIPE, SIG_IGN);
    strcpy(root, "/tmp/ferry-files-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(root));
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends),
                     0);
    proxy = fork();
    ck_assert_int_ge(proxy, 0);
    if (proxy == 0) {
        const struct fy_proxy_options options = {.landlock = true};
        (void)close(ends[0]);
        exit(fy_proxy_serve(ends[1], ends[1], &options));
    }
    (void)close(ends[1]);
    size_t n = sizeof magic - 1;
    ck_assert_int_eq(recv(ends[0], magic, n, MSG_WAITALL), (ssize_t)n);
    ck_assert_int_eq(
        fy_wire_new(FY_WIRE_CLIENT, ends[0], ends[0], &events, NULL, &wire), 0);
    in_bytes = 0;
    response = 0;
    ended = closed = false;
}

static void
teardown(void)
{
    char command[96];
    int status;
    fy_wire_free(wire);
    ck_assert_int_eq(waitpid(proxy, &status, 0), proxy);
    ck_assert_int_eq(status, 0);
    free(in);
    in = NULL;
    (void)snprintf(command, sizeof command, "rm -rf %s", root);
    ck_assert_int_eq(system(command), 0);
}

static void
turn(void)
{
    struct pollfd row = {
        .fd = fy_wire_in_fd(wire),
        .events = (short)(POLLIN | (fy_wire_wants_write(wire) ? POLLOUT : 0))};
    ck_assert_int_ge(poll(&row, 1, 100), 0);
    ck_assert_int_eq(
        fy_wire_io(wire, row.revents & POLLIN, row.revents & POLLOUT), 0);
}

static void
say(const struct fy_files_message *message)
{
    struct fy_files_out out = {.n = 0};
    ck_assert_int_eq(fy_files_encode(message, &out), 0);
    ck_assert_int_eq(fy_wire_send(wire, stream, out.bytes, out.n), 0);
    fy_files_out_free(&out);
}

/* The next answer; false: the stream has ended before. */
static bool
hear(struct fy_files_message *out)
{
    static size_t used;
    char text[128];
    struct fy_buffer why;
    used = in_bytes ? used : 0;
    if (used) {
        memmove(in, in + used, in_bytes - used);
    }
    in_bytes -= used;
    uint64_t until = fy_clock_ns() + UINT64_C(20000000000);
    while (fy_clock_ns() < until) {
        fy_buffer_start(&why, text, sizeof text);
        int status = fy_files_decode(in, in_bytes, out, &used, &why);
        if (status == 0) {
            return true;
        }
        used = 0;
        ck_assert_msg(status == FY_ERR_BUSY, "%s", text);
        if (ended || closed) {
            return false;
        }
        turn();
    }
    ck_abort_msg("nothing comes");
    return false;
}

static void
ask(const char *path, uint32_t flags, size_t window)
{
    const struct fy_files_message hello = {.type = FY_FILES_HELLO,
                                           .id = 1,
                                           .number = FY_FILES_VERSION,
                                           .flags = flags,
                                           .name = {path, strlen(path)}};
    ck_assert_int_eq(fy_wire_request(wire, FY_PATH_FILES, true, NULL, &stream),
                     0);
    grants = true;
    ck_assert_int_eq(fy_wire_grant(wire, stream, window), 0);
    say(&hello);
}

START_TEST(requests_go_through_the_wire)
{
    struct fy_files_message answer;
    char *data = malloc(FY_FILES_DATA_BYTES);
    ask(root, 0, 4096);
    ck_assert(hear(&answer));
    ck_assert_int_eq(response, 200);
    ck_assert_int_eq(answer.type, FY_FILES_HELLO);
    ck_assert_int_eq(answer.status, 0);
    say(&(struct fy_files_message){.type = FY_FILES_MAKE,
                                   .id = 2,
                                   .name = {"f", 1},
                                   .mode = S_IFREG | 0600});
    memset(data, 'x', FY_FILES_DATA_BYTES);
    for (unsigned i = 0; i < 4; i++) {
        say(&(struct fy_files_message){.type = FY_FILES_WRITE,
                                       .id = 3 + i,
                                       .node = {.path = {"f", 1}},
                                       .offset =
                                           i * (uint64_t)FY_FILES_DATA_BYTES,
                                       .data = {data, FY_FILES_DATA_BYTES}});
    }
    for (unsigned i = 0; i < 5; i++) {
        ck_assert(hear(&answer));
        ck_assert_int_eq(answer.status, 0);
    }
    say(&(struct fy_files_message){.type = FY_FILES_READ,
                                   .id = 8,
                                   .node = {.path = {"f", 1}},
                                   .offset = FY_FILES_DATA_BYTES,
                                   .length = FY_FILES_DATA_BYTES});
    ck_assert(hear(&answer));
    ck_assert_uint_eq(answer.attr.size, 4 * (uint64_t)FY_FILES_DATA_BYTES);
    ck_assert_uint_eq(answer.data.n, FY_FILES_DATA_BYTES);
    ck_assert_int_eq(memcmp(answer.data.at, data, answer.data.n), 0);
    ck_assert_int_eq(fy_wire_finish(wire, stream, NULL, 0), 0);
    ck_assert(!hear(&answer));
    ck_assert(ended);
    free(data);
}
END_TEST

START_TEST(the_sandbox_lets_every_request_through)
{
    struct fy_files_message answer;
    ask(root, 0, 1 << 20);
    ck_assert(hear(&answer));
    const struct fy_files_node f = {.path = {"f", 1}}, top = {.ino = 0};
    const struct fy_files_message requests[] = {
        {.type = FY_FILES_MAKE, .name = {"f", 1}, .mode = S_IFREG | 0644},
        {.type = FY_FILES_WRITE, .node = f, .data = {"text", 4}},
        {.type = FY_FILES_FSYNC, .node = f},
        {.type = FY_FILES_SETATTR,
         .node = f,
         .mask = FY_FILES_SET_SIZE | FY_FILES_SET_MODE | FY_FILES_MTIME_NOW,
         .mode = 0600,
         .length = 2},
        {.type = FY_FILES_LISTXATTR, .node = f},
        {.type = FY_FILES_LOCK, .node = f, .mode = F_WRLCK, .length = 1},
        {.type = FY_FILES_LINK, .node = f, .other = top, .name = {"g", 1}},
        {.type = FY_FILES_RENAME, .name = {"f", 1}, .other_name = {"h", 1}},
        {.type = FY_FILES_MAKE, .name = {"d", 1}, .mode = S_IFDIR | 0755},
        {.type = FY_FILES_RENAME,
         .name = {"g", 1},
         .other = {.path = {"d", 1}},
         .other_name = {"g", 1}},
        {.type = FY_FILES_REMOVE, .name = {"h", 1}, .keep = 5},
        {.type = FY_FILES_READ, .node = {.kept = 5}, .length = 9},
        {.type = FY_FILES_LIST, .flags = FY_FILES_TREE},
        {.type = FY_FILES_STATFS},
        {.type = FY_FILES_BARRIER},
    };
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        struct fy_files_message request = requests[i];
        request.id = i + 2;
        say(&request);
        ck_assert(hear(&answer));
        ck_assert_msg(answer.status == 0, "%s: %s",
                      fy_files_type_name(request.type),
                      strerror(-answer.status));
    }
}
END_TEST

START_TEST(what_is_no_hello_is_refused)
{
    struct fy_files_message answer;
    ck_assert_int_eq(fy_wire_request(wire, FY_PATH_FILES, true, NULL, &stream),
                     0);
    say(&(struct fy_files_message){.type = FY_FILES_BARRIER, .id = 1});
    ck_assert(!hear(&answer));
    ck_assert_int_eq(response, 400);
}
END_TEST

int
main(void)
{
    Suite *all = suite_create("files_wire");
    TCase *open = tcase_create("open");
    tcase_set_timeout(open, 60);
    tcase_add_checked_fixture(open, setup, teardown);
    tcase_add_test(open, requests_go_through_the_wire);
    tcase_add_test(open, the_sandbox_lets_every_request_through);
    tcase_add_test(open, what_is_no_hello_is_refused);
    suite_add_tcase(all, open);
    return run_suite(all);
}
