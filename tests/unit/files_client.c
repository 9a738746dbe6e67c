/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client of the files process; see the header.
 */
#include "config.h"

#include "tests/patience.h"
#include "tests/unit/files_client.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proxy/files/server/serve.h"

bool files_lingers;

void
files_start(struct files_client *client, const char *root)
{
    int ends[2];
    memset(client, 0, sizeof *client);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    client->server = fork();
    ck_assert_int_ge(client->server, 0);
    if (client->server == 0) {
        (void)close(ends[0]);
        struct fy_files_options options = {
            .root = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC),
            .socket = ends[1],
            .door = -1};
        if (files_lingers) {
            options.door = fy_files_listen(options.token);
        }
        int status = fy_files_serve(&options);
        /* The sanitizer's search for leaks traces this process, which needs one user
         * that never changed. */
        (void)seteuid(getuid());
        (void)prctl(PR_SET_DUMPABLE, 1);
        exit(status);
    }
    (void)close(ends[1]);
    client->socket = ends[0];
}

void
files_open(struct files_client *client, const char *root, uint32_t flags)
{
    struct fy_files_message hello = {
        .type = FY_FILES_HELLO, .flags = flags, .number = FY_FILES_VERSION};
    struct fy_files_message answer;
    files_start(client, root);
    ck_assert_int_eq(files_call(client, &hello, &answer), 0);
    ck_assert_uint_eq(answer.number, FY_FILES_VERSION);
}

void
files_close(struct files_client *client)
{
    int status;
    if (client->socket >= 0) {
        (void)close(client->socket);
    }
    ck_assert_int_eq(waitpid(client->server, &status, 0), client->server);
    ck_assert_int_eq(status, 0);
    free(client->in);
    memset(client, 0, sizeof *client);
    client->socket = -1;
}

void
files_send_bytes(struct files_client *client, const void *bytes, size_t n)
{
    const char *at = bytes;
    while (n) {
        ssize_t sent = send(client->socket, at, n, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) {
            continue;
        }
        if (sent < 0) {
            return; /* the test meets the end where it reads */
        }
        at += sent;
        n -= (size_t)sent;
    }
}

uint64_t
files_send(struct files_client *client, struct fy_files_message *request)
{
    struct fy_files_out out = {.n = 0};
    bool unanswered = request->type == FY_FILES_CANCEL ||
                      request->type == FY_FILES_FORGET ||
                      request->type == FY_FILES_ACK;
    if (!request->id && !unanswered) {
        request->id = ++client->id;
    }
    ck_assert_int_eq(fy_files_encode(request, &out), 0);
    files_send_bytes(client, out.bytes, out.n);
    fy_files_out_free(&out);
    return request->id;
}

bool
files_receive(struct files_client *client, struct fy_files_message *out)
{
    char text[128];
    struct fy_buffer why;
    if (client->used) {
        memmove(client->in, client->in + client->used,
                client->in_bytes - client->used);
    }
    client->in_bytes -= client->used;
    client->used = 0;
    for (;;) {
        size_t want;
        fy_buffer_start(&why, text, sizeof text);
        int status =
            fy_files_decode(client->in, client->in_bytes, out, &want, &why);
        if (status == 0) {
            client->used = want;
            return true;
        }
        ck_assert_msg(status == FY_ERR_BUSY, "%s", text);
        size_t most = want + (256 << 10);
        if (client->in_capacity < most) {
            client->in = realloc(client->in, most);
            ck_assert_ptr_nonnull(client->in);
            client->in_capacity = most;
        }
        struct pollfd row = {.fd = client->socket, .events = POLLIN};
        ck_assert_msg(poll(&row, 1, (int)patient(60000)) == 1,
                      "the server says nothing");
        ssize_t n = recv(client->socket, client->in + client->in_bytes,
                         client->in_capacity - client->in_bytes, 0);
        if (n <= 0) {
            return false;
        }
        client->in_bytes += (size_t)n;
    }
}

int
files_call(struct files_client *client, struct fy_files_message *request,
           struct fy_files_message *answer)
{
    request->id = 0;
    uint64_t id = files_send(client, request);
    for (;;) {
        ck_assert_msg(files_receive(client, answer), "the server has ended");
        if (answer->id == id) {
            ck_assert_int_eq(answer->type, request->type);
            return answer->status;
        }
        client->notices++;
        if (client->notice) {
            client->notice(client, answer);
        }
    }
}

struct fy_files_bytes
files_text(const char *text)
{
    return (struct fy_files_bytes){text, strlen(text)};
}

struct fy_files_node
files_node(const char *path)
{
    return (struct fy_files_node){.path = files_text(path)};
}

int
files_make(struct files_client *client, const char *folder, const char *name,
           const char *text)
{
    char path[4096];
    struct fy_files_message answer;
    struct fy_files_message make = {.type = FY_FILES_MAKE,
                                    .node = files_node(folder),
                                    .name = files_text(name),
                                    .mode = S_IFREG | 0644,
                                    .flags = FY_FILES_EXCLUSIVE};
    int status = files_call(client, &make, &answer);
    if (status) {
        return status;
    }
    (void)snprintf(path, sizeof path, "%s%s%s", folder, *folder ? "/" : "",
                   name);
    struct fy_files_message write = {.type = FY_FILES_WRITE,
                                     .node = files_node(path),
                                     .data = files_text(text)};
    return files_call(client, &write, &answer);
}

/* ---- a folder and a client for each test -------------------------------------------------- */

char files_root[64];
struct files_client files_client;

static void
set_up(uint32_t flags)
{
    strcpy(files_root, "/tmp/ferry-files-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(files_root));
    files_open(&files_client, files_root, flags);
}

static void
set_up_plain(void)
{
    set_up(0);
}

static void
set_up_read_only(void)
{
    set_up(FY_FILES_READ_ONLY);
}

static void
tear_down(void)
{
    char command[96];
    files_close(&files_client);
    (void)snprintf(command, sizeof command, "rm -rf %s", files_root);
    ck_assert_int_eq(system(command), 0);
}

TCase *
files_case(Suite *suite, const char *name, uint32_t flags)
{
    TCase *tests = tcase_create(name);
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, flags ? set_up_read_only : set_up_plain,
                              tear_down);
    suite_add_tcase(suite, tests);
    return tests;
}

const char *
files_place(const char *below)
{
    static char path[4096];
    (void)snprintf(path, sizeof path, "%s/%s", files_root, below);
    return path;
}

void
files_put(const char *name, const char *text)
{
    int fd = open(files_place(name), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    (void)close(fd);
}

void
files_expect(const char *name, const char *text)
{
    char have[256];
    int fd = open(files_place(name), O_RDONLY);
    ck_assert_msg(fd >= 0, "%s: %s", name, strerror(errno));
    ssize_t n = read(fd, have, sizeof have - 1);
    (void)close(fd);
    ck_assert_int_ge(n, 0);
    have[n] = '\0';
    ck_assert_str_eq(have, text);
}

struct stat
files_look(const char *name)
{
    struct stat about;
    ck_assert_msg(lstat(files_place(name), &about) == 0, "%s: %s", name,
                  strerror(errno));
    return about;
}

void
files_same(const struct fy_files_message *answer, const char *text)
{
    ck_assert_uint_eq(answer->data.n, strlen(text));
    ck_assert_int_eq(memcmp(answer->data.at, text, answer->data.n), 0);
}
