/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /files: a process next to the files serves one `ferry mount' (files/server). The
 * proxy starts it in a sandbox of its own and passes bytes between its socket and the
 * stream of the wire, as far as each side takes them. It is of the proxy's session: no
 * stage, and no stray.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/kernel.h"
#include "proxy/files/message.h"
#include "proxy/files/server/serve.h"
#include "proxy/server/server.h"

enum {
    INPUT_BYTES = 16 << 20, /* that the client may send ahead of the process */
    FILES_MAX = 16,         /* processes of one connection */
    TURNS = 4,
    FIRST_FD = 3,
};

struct fy_server_files {
    struct fy_exchange *exchange;
    struct fy_watch socket;
    struct fy_queue queue; /* for the process */
    size_t taken;          /* by the process, and not granted again yet */
    bool ended;            /* the client's body is complete */
    bool full;             /* the client takes no more now */
};

/* Facts that are found out before its process is started. */
struct opening {
    struct fy_job job;
    bool read_only;
    int root, status;
    int ruleset; /* of fy_policy_own() */
    int socket;  /* of a process that lingers; -1: none, one is started */
    char token[FY_FILES_TOKEN_BYTES];
    size_t token_bytes;
    unsigned reason;
    char why[512];
    char path[];
};

/* ---- bytes ------------------------------------------------------------------------------ */

static void
watch(struct fy_server_files *files)
{
    uint32_t events =
        (files->queue.n ? EPOLLOUT : 0) | (files->full ? 0 : EPOLLIN);
    (void)fy_loop_watch(&files->exchange->server->loop, &files->socket,
                        events ? events : (uint32_t)EPOLLERR);
}

static void
close_socket(struct fy_server_files *files)
{
    fy_loop_unwatch(&files->exchange->server->loop, &files->socket);
    files->queue.n = 0;
}

/* To the process, as far as it takes it now. */
static void
push(struct fy_server_files *files)
{
    struct fy_queue *queue = &files->queue;
    size_t done = 0;
    while (queue->n && files->socket.fd >= 0) {
        ssize_t n = send(files->socket.fd, queue->bytes + queue->at, queue->n,
                         MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            /* Its end is seen where it is read. */
            queue->n = errno == EAGAIN ? queue->n : 0;
            break;
        }
        queue->at += (size_t)n;
        queue->n -= (size_t)n;
        done += (size_t)n;
    }
    if (queue->n == 0) {
        queue->at = 0;
    }
    files->taken += done;
    if (files->taken >= INPUT_BYTES / 2 && !files->ended) {
        fy_exchange_grant(files->exchange, files->taken);
        files->taken = 0;
    }
    if (queue->n == 0 && files->ended && files->socket.fd >= 0) {
        (void)shutdown(files->socket.fd, SHUT_WR);
    }
}

/* To the client, as far as its window is open. */
static void
pull(struct fy_server_files *files)
{
    struct fy_exchange *exchange = files->exchange;
    struct fy_server *server = exchange->server;
    for (unsigned turn = 0; turn < TURNS && files->socket.fd >= 0; turn++) {
        size_t room = fy_wire_room(server->wire, exchange->stream);
        files->full = room == 0;
        if (files->full) {
            return;
        }
        ssize_t n =
            recv(files->socket.fd, server->buffer,
                 room < sizeof server->buffer ? room : sizeof server->buffer,
                 MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        }
        if (n <= 0) {
            close_socket(files);
            fy_exchange_finish(exchange, NULL, 0);
        } else if (fy_wire_send(server->wire, exchange->stream, server->buffer,
                                (size_t)n)) {
            fy_wire_cancel(server->wire, exchange->stream);
            return;
        }
    }
}

static void
on_socket(void *owner, uint32_t events)
{
    struct fy_server_files *files = owner;
    if (events & EPOLLOUT) {
        push(files);
    }
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
        pull(files);
    }
    watch(files);
}

/* The client's body is complete: the mount has ended, and no client resumes it. */
static void
end_body(struct fy_server_files *files)
{
    const struct fy_files_message over = {.type = FY_FILES_ACK,
                                          .number = UINT64_MAX};
    struct fy_files_out frame = {.n = 0};
    if (files->ended) {
        return;
    }
    files->ended = true;
    if (fy_files_encode(&over, &frame) ||
        fy_queue_add(&files->queue, frame.bytes, frame.n)) {
        fy_wire_cancel(files->exchange->server->wire, files->exchange->stream);
    }
    fy_files_out_free(&frame);
    push(files);
    watch(files);
}

/* ---- the process --------------------------------------------------------------------------- */

static _Noreturn void
child(struct opening *opening, int socket)
{
    /* The two that it has become 3 and 4, everything else of the proxy's is closed. */
    int root = fcntl(opening->root, F_DUPFD, FIRST_FD + 4);
    socket = fcntl(socket, F_DUPFD, FIRST_FD + 4);
    unsigned char token[FY_FILES_TOKEN_BYTES];
    int door = fy_files_listen(token);
    door = door < 0 ? -1 : fcntl(door, F_DUPFD, FIRST_FD + 4);
    int ruleset = opening->ruleset < 0
                      ? -1
                      : fcntl(opening->ruleset, F_DUPFD, FIRST_FD + 4);
    int null = open("/dev/null", O_RDWR);
    if (root < 0 || socket < 0 || null < 0 || dup2(null, 0) < 0 ||
        dup2(null, 1) < 0 || dup2(root, FIRST_FD) < 0 ||
        dup2(socket, FIRST_FD + 1) < 0) {
        _exit(EXIT_FAILURE);
    }
    /* Without a door it ends with the stream. */
    int last = FIRST_FD + 1;
    door = door < 0 ? -1 : dup2(door, ++last);
    if (ruleset >= 0 && dup2(ruleset, ++last) < 0) {
        _exit(EXIT_FAILURE);
    }
    fy_close_range((unsigned)last + 1, ~0U, false);
    opening->ruleset = ruleset >= 0 ? last : -1;
    if (fy_own_sandbox_enter(opening->ruleset) != 0) {
        _exit(EXIT_FAILURE);
    }
    struct fy_files_options options = {
        .root = FIRST_FD,
        .socket = FIRST_FD + 1,
        .read_only = opening->read_only,
        .door = door,
    };
    memcpy(options.token, token, sizeof token);
    _exit(fy_files_serve(&options));
}

/* Our end of its socket; -1: it could not be started. */
static int
start(struct opening *opening)
{
    int ends[2];
    if (opening->socket >= 0) {
        int found = opening->socket;
        opening->socket = -1;
        return found;
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        return -1;
    }
    pid_t pid = fork();
    if (pid == 0) {
        child(opening, ends[1]);
    }
    (void)close(ends[1]);
    if (pid < 0 || fy_wire_unblock(ends[0])) {
        (void)close(ends[0]);
        return -1;
    }
    return ends[0];
}

/* ---- begin and end --------------------------------------------------------------------------- */

static void
run_opening(struct fy_job *job)
{
    struct opening *opening = (struct opening *)job;
    struct fy_buffer why;
    fy_buffer_start(&why, opening->why, sizeof opening->why);
    opening->socket = fy_files_reach(opening->token, opening->token_bytes);
    if (opening->socket >= 0) {
        return;
    }
    opening->status =
        fy_policy_open_root(job->server->policy, opening->path, &opening->root,
                            &opening->reason, &why);
    if (!opening->status) {
        opening->status = fy_policy_own(job->server->policy, opening->root,
                                        !opening->read_only, &opening->ruleset);
    }
}

/* The process runs: waiting bytes are for it. */
static void
begin(struct fy_exchange *exchange, struct opening *opening)
{
    struct fy_server *server = exchange->server;
    struct fy_server_files *files = calloc(1, sizeof *files);
    int socket = files ? start(opening) : -1;
    if (socket < 0 ||
        fy_queue_add(&files->queue, exchange->body, exchange->body_bytes)) {
        fy_exchange_refuse(exchange, 503, FY_STAGE_BUSY,
                           "no process can be started");
        fy_run_close(&socket);
        free(files);
        return;
    }
    files->exchange = exchange;
    files->socket =
        (struct fy_watch){.fd = socket, .ready = on_socket, .owner = files};
    bool over = exchange->finished;
    exchange->files = files;
    server->lingers = true;
    exchange->responded = true;
    exchange->finished = false;
    if (fy_wire_respond(server->wire, exchange->stream, 200, NULL, 0, true)) {
        fy_wire_cancel(server->wire, exchange->stream);
        return;
    }
    /* Waiting bytes were granted when they came. */
    fy_exchange_grant(exchange, INPUT_BYTES);
    push(files);
    watch(files);
    if (over) {
        end_body(files);
    }
}

static void
finish_opening(struct fy_job *job)
{
    struct opening *opening = (struct opening *)job;
    struct fy_exchange *exchange = job->exchange;
    if (exchange && opening->status) {
        bool refused = opening->status == FY_ERR_UNSUPPORTED;
        fy_exchange_refuse(exchange, refused ? 403 : 503,
                           refused ? opening->reason : FY_STAGE_BUSY,
                           opening->why[0] ? opening->why
                                           : "the folder cannot be opened");
    } else if (exchange) {
        begin(exchange, opening);
    }
    fy_run_close(&opening->socket);
    fy_run_close(&opening->root);
    fy_run_close(&opening->ruleset);
    free(opening);
}

void
fy_server_files_begin(struct fy_exchange *exchange)
{
    struct fy_files_message hello;
    char text[128];
    struct fy_buffer why;
    size_t used;
    if (exchange->job || exchange->responded) {
        return;
    }
    fy_buffer_start(&why, text, sizeof text);
    int status = fy_files_decode(exchange->body, exchange->body_bytes, &hello,
                                 &used, &why);
    if (status == FY_ERR_BUSY) {
        return;
    }
    if (status || hello.type != FY_FILES_HELLO ||
        hello.frame_flags & FY_FILES_ANSWER) {
        fy_exchange_refuse(exchange, 400, FY_STAGE_REFUSED,
                           status ? text : "it does not begin with a hello");
        return;
    }
    unsigned running = 0;
    for (const struct fy_exchange *at = exchange->server->exchanges; at;
         at = at->next) {
        running += at->kind == FY_EXCHANGE_FILES && (at->files || at->job);
    }
    if (running >= FILES_MAX) {
        fy_exchange_refuse(exchange, 503, FY_STAGE_BUSY,
                           "too many mounts on this connection");
        return;
    }
    struct opening *opening = calloc(1, sizeof *opening + hello.name.n + 1);
    if (opening) {
        opening->job = (struct fy_job){.server = exchange->server,
                                       .exchange = exchange,
                                       .run = run_opening,
                                       .finish = finish_opening};
        opening->root = opening->socket = opening->ruleset = -1;
        if (hello.data.n == sizeof opening->token) {
            memcpy(opening->token, hello.data.at, hello.data.n);
            opening->token_bytes = hello.data.n;
        }
        opening->reason = FY_STAGE_REFUSED;
        opening->read_only = (hello.flags & FY_FILES_READ_ONLY) != 0;
        memcpy(opening->path, hello.name.at, hello.name.n);
    }
    if (!opening || fy_job_start(&opening->job)) {
        free(opening);
        fy_exchange_refuse(exchange, 503, FY_STAGE_BUSY, "out of memory");
        return;
    }
    exchange->job = &opening->job;
}

void
fy_server_files_add(struct fy_exchange *exchange, const char *bytes, size_t n)
{
    struct fy_server_files *files = exchange->files;
    if (files->socket.fd < 0) {
        return;
    }
    if (fy_queue_add(&files->queue, bytes, n)) {
        fy_wire_cancel(exchange->server->wire, exchange->stream);
        return;
    }
    push(files);
    watch(files);
}

void
fy_server_files_end(struct fy_exchange *exchange)
{
    struct fy_server_files *files = exchange->files;
    if (files) {
        end_body(files);
    } else if (exchange->job) {
        exchange->finished = true; /* begin() tells its process */
    } else {
        fy_exchange_refuse(exchange, 400, FY_STAGE_REFUSED,
                           "the hello is incomplete");
    }
}

void
fy_server_files_ready(struct fy_exchange *exchange)
{
    struct fy_server_files *files = exchange->files;
    if (files->socket.fd >= 0) {
        pull(files);
        watch(files);
    }
}

void
fy_server_files_detach(struct fy_exchange *exchange)
{
    struct fy_server_files *files = exchange->files;
    close_socket(files);
    free(files->queue.bytes);
    free(files);
    exchange->files = NULL;
}
