/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files process: its loop, which reads frames and hands them on, its begin and its
 * end. A frame that is not understood ends the connection.
 */
#include "config.h"

#include "proxy/files/server/server.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "common/debug.h"

enum {
    IN_BYTES = 256 << 10,
    BUFFER_BYTES = 4 << 20, /* of the socket, as far as the host allows */
};

#define SWEEP_NS  (UINT64_C(50000000))
#define LINGER_NS (120 * UINT64_C(1000000000))

/* ---- answers of the loop itself ---------------------------------------------------------- */

/* Whether it is the token of this process. */
static bool
is_ours(const struct fy_files_server *server, const struct fy_files_bytes *data)
{
    unsigned differs = data->n != FY_FILES_TOKEN_BYTES || server->door.fd < 0;
    for (size_t i = 0; !differs && i < data->n; i++) {
        differs |= server->options.token[i] ^ (unsigned char)data->at[i];
    }
    return !differs;
}

/* Describes this process to the first client or to one that comes back. */
static int
describe(struct fy_files_server *server, struct fy_files_message *answer)
{
    answer->number = FY_FILES_VERSION;
    answer->flags =
        server->watches.runs && server->local ? FY_FILES_NOTICES : 0;
    answer->length = FY_FILES_NAME_BYTES;
    answer->uid = geteuid();
    answer->gid = getegid();
    if (server->door.fd >= 0) {
        answer->data = (struct fy_files_bytes){
            (const char *)server->options.token, sizeof server->options.token};
    }
    return fy_files_attr_at(server, server->root, &answer->attr);
}

static int
greet(struct fy_files_server *server, const struct fy_files_message *message,
      struct fy_files_message *answer)
{
    uint32_t flags = message->flags &
                     (FY_FILES_READ_ONLY | FY_FILES_USERS | FY_FILES_DEVICES);
    if (server->greeted) {
        return -EINVAL;
    }
    if (message->number != FY_FILES_VERSION) {
        return -EPROTONOSUPPORT;
    }
    flags |= server->options.read_only ? FY_FILES_READ_ONLY : 0;
    flags &= ~(geteuid() == 0 ? 0 : (unsigned)FY_FILES_USERS);
    server->flags = flags;
    server->greeted = true;
    return describe(server, answer);
}

/* Whether the peer has the token, so is the client that was lost. */
static bool
greet_again(struct fy_files_server *server,
            const struct fy_files_message *message,
            struct fy_files_message *answer)
{
    if (message->type != FY_FILES_HELLO ||
        message->number != FY_FILES_VERSION ||
        !is_ours(server, &message->data)) {
        return false;
    }
    answer->status = describe(server, answer);
    answer->flags |= FY_FILES_RESUMED;
    fy_files_acknowledged(server, message->offset);
    fy_files_sending_resume(server, answer);
    fy_files_unwatch_all(server);
    fy_loop_unset(&server->loop, &server->linger);
    server->expected = false;
    return true;
}

static void
forget(struct fy_files_server *server, const struct fy_files_message *message)
{
    struct fy_files_bytes rows = message->data;
    uint64_t number;
    while (fy_files_number_take(&rows, &number)) {
        if (number & 1) {
            fy_files_unkeep(server, number >> 1);
        } else {
            fy_files_unwatch(server, number >> 1);
        }
    }
}

/* Takes the frame. False: the connection ends. */
static bool
handle(struct fy_files_server *server, char *frame, size_t n)
{
    char text[128];
    struct fy_buffer why;
    struct fy_files_message message;
    size_t used;
    fy_buffer_start(&why, text, sizeof text);
    bool good = fy_files_decode(frame, n, &message, &used, &why) == 0 &&
                !(message.frame_flags & FY_FILES_ANSWER) &&
                (server->greeted || message.type == FY_FILES_HELLO) &&
                message.type < FY_FILES_CHANGED;
    if (!good) {
        fy_debug(SERVER, "files: a frame is refused: %s", text);
        free(frame);
        return false;
    }
    struct fy_files_message answer = {
        .type = message.type, .frame_flags = FY_FILES_ANSWER, .id = message.id};
    if (server->expected) {
        good = greet_again(server, &message, &answer);
        free(frame);
        return good;
    }
    if (message.type < FY_FILES_CANCEL && message.type != FY_FILES_HELLO) {
        if (message.frame_flags & FY_FILES_AGAIN &&
            fy_files_type_changes(message.type) &&
            fy_files_again(server, message.id)) {
            free(frame);
            return true;
        }
        return fy_files_queue_add(server, frame, n, &message) == 0;
    }
    if (message.type == FY_FILES_HELLO) {
        answer.status = greet(server, &message, &answer);
        (void)fy_files_say_message(server, &answer, 0, false);
    } else if (message.type == FY_FILES_CANCEL) {
        fy_files_cancel(server, message.number);
    } else if (message.type == FY_FILES_FORGET) {
        forget(server, &message);
    } else {
        server->over = message.number == UINT64_MAX;
        fy_files_acknowledged(server, message.number);
    }
    free(frame);
    return true;
}

/* ---- frames ------------------------------------------------------------------------------ */

/* How many bytes the frame has that begins there; 0: not known yet. */
static size_t
frame_bytes(const char *at, size_t n)
{
    uint32_t body = 0;
    if (n < FY_FILES_HEAD_BYTES) {
        return 0;
    }
    for (unsigned i = 0; i < 4; i++) {
        body |= (uint32_t)(unsigned char)at[i] << (8 * i);
    }
    return FY_FILES_HEAD_BYTES + (size_t)body;
}

/* The frames that are complete; the begin of one that is not becomes `partial'. False:
 * the connection ends. */
static bool
take_frames(struct fy_files_server *server)
{
    size_t at = 0, bytes;
    while ((bytes = frame_bytes(server->in + at, server->in_bytes - at))) {
        if (bytes > FY_FILES_FRAME_BYTES + FY_FILES_HEAD_BYTES) {
            return false;
        }
        size_t here = server->in_bytes - at;
        char *frame = malloc(bytes);
        if (!frame) {
            return false;
        }
        memcpy(frame, server->in + at, here < bytes ? here : bytes);
        if (here < bytes) {
            server->partial = frame;
            server->partial_bytes = here;
            server->partial_whole = bytes;
            at += here;
            break;
        }
        if (!handle(server, frame, bytes)) {
            return false;
        }
        at += bytes;
    }
    memmove(server->in, server->in + at, server->in_bytes - at);
    server->in_bytes -= at;
    return true;
}

/* Results of reading. */
enum {
    LOST = -1,  /* the connection is gone */
    BROKEN = -2 /* it makes no sense */
};

/* Reads once. 1; 0: nothing has come; or LOST, BROKEN. */
static int
receive(struct fy_files_server *server)
{
    bool large = server->partial != NULL;
    char *to = large ? server->partial + server->partial_bytes
                     : server->in + server->in_bytes;
    size_t room = large ? server->partial_whole - server->partial_bytes
                        : IN_BYTES - server->in_bytes;
    ssize_t n = recv(server->wire.fd, to, room, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return 0;
    }
    if (n <= 0) {
        return LOST;
    }
    if (!large) {
        server->in_bytes += (size_t)n;
        return take_frames(server) ? 1 : BROKEN;
    }
    server->partial_bytes += (size_t)n;
    if (server->partial_bytes < server->partial_whole) {
        return 1;
    }
    char *frame = server->partial;
    server->partial = NULL;
    return handle(server, frame, server->partial_whole) ? 1 : BROKEN;
}

/* ---- without a connection ------------------------------------------------------------------ */

/* The client may come back within the time. */
static void
lose(struct fy_files_server *server)
{
    fy_files_sending_lose(server);
    fy_loop_unwatch(&server->loop, &server->wire);
    free(server->partial);
    server->partial = NULL;
    server->in_bytes = 0;
    server->expected = true;
    if (server->over || !server->greeted || server->door.fd < 0) {
        server->ended = true;
    } else if (!server->linger.due_ns) {
        fy_loop_set(&server->loop, &server->linger, LINGER_NS);
    }
}

static void
on_linger(void *owner)
{
    struct fy_files_server *server = owner;
    server->ended = true;
}

/* A peer at the private socket sent its HELLO. The token gets the connection, also where
 * the old one is dead and does not know it yet. */
static void
on_visitor(void *owner, uint32_t events)
{
    struct fy_files_server *server = owner;
    char text[128];
    struct fy_buffer why;
    struct fy_files_message hello;
    size_t used;
    (void)events;
    ssize_t n = recv(server->visitor.fd, server->visit, sizeof server->visit,
                     MSG_PEEK | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    fy_buffer_start(&why, text, sizeof text);
    int status =
        n > 0 ? fy_files_decode(server->visit, (size_t)n, &hello, &used, &why)
              : FY_ERR_IO;
    if (status == FY_ERR_BUSY && used <= sizeof server->visit) {
        return; /* by its edge: more comes */
    }
    if (status || hello.type != FY_FILES_HELLO || !server->greeted ||
        !is_ours(server, &hello.data)) {
        fy_loop_unwatch(&server->loop, &server->visitor);
        return;
    }
    int fd = server->visitor.fd;
    fy_loop_forget(&server->loop, &server->visitor);
    lose(server);
    server->wire.fd = fd; /* which has the hello still to be read */
}

static void
on_door(void *owner, uint32_t events)
{
    struct fy_files_server *server = owner;
    (void)events;
    int fd = fy_files_accept(server);
    if (fd >= 0) {
        fy_loop_unwatch(&server->loop, &server->visitor);
        server->visitor.fd = fd;
        (void)fy_loop_watch(&server->loop, &server->visitor, EPOLLIN | EPOLLET);
    }
}

/* ---- the loop ------------------------------------------------------------------------------ */

static void
watch_wire(struct fy_files_server *server)
{
    if (server->wire.fd < 0) {
        return;
    }
    uint32_t events = fy_files_queue_has_room(server) ? EPOLLIN : 0;
    events |= fy_files_send_waits(server) ? EPOLLOUT : 0;
    /* The end of the connection is seen in any case. */
    (void)fy_loop_watch(&server->loop, &server->wire,
                        events ? events : (uint32_t)EPOLLERR);
}

static void
on_wire(void *owner, uint32_t events)
{
    struct fy_files_server *server = owner;
    if (events & EPOLLOUT && !fy_files_send(server)) {
        server->ended = true;
    }
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
        int got = 1;
        for (unsigned i = 0;
             got > 0 && i < 16 && fy_files_queue_has_room(server); i++) {
            got = receive(server);
        }
        server->ended = server->ended || (got == BROKEN && !server->expected);
        if (got == LOST || (got == BROKEN && server->expected)) {
            lose(server);
        }
    }
    if (!server->sweep.due_ns) {
        fy_loop_set(&server->loop, &server->sweep, SWEEP_NS);
    }
}

static void
on_bell(void *owner, uint32_t events)
{
    (void)owner;
    (void)events;
}

static void
sweep(void *owner)
{
    struct fy_files_server *server = owner;
    bool some = fy_files_objects_sweep(server);
    some |= fy_files_locks_press(server);
    if (some) {
        fy_loop_set(&server->loop, &server->sweep, SWEEP_NS);
    }
}

/* ---- begin and end --------------------------------------------------------------------------- */

static bool
is_local(int root)
{
    static const long shared[] = {
        NFS_SUPER_MAGIC,   0x65735546 /* FUSE */, SMB_SUPER_MAGIC,
        SMB2_SUPER_MAGIC,  CIFS_SUPER_MAGIC,      CEPH_SUPER_MAGIC,
        AFS_SUPER_MAGIC,   CODA_SUPER_MAGIC,      V9FS_MAGIC,
        OCFS2_SUPER_MAGIC, 0x01161970 /* GFS2 */, 0x0bd00bd0 /* Lustre */};
    struct statfs about;
    if (fstatfs(root, &about) != 0) {
        return false;
    }
    for (size_t i = 0; i < sizeof shared / sizeof shared[0]; i++) {
        if ((uint32_t)about.f_type == (uint32_t)shared[i]) {
            return false;
        }
    }
    return true;
}

static int
open_server(struct fy_files_server *server)
{
    struct stat about;
    int bytes = BUFFER_BYTES;
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
    (void)umask(0);
    (void)setsockopt(server->options.socket, SOL_SOCKET, SO_SNDBUF, &bytes,
                     sizeof bytes);
    if (fstat(server->root, &about) != 0) {
        return FY_ERR_IO;
    }
    server->root_dev = about.st_dev;
    server->local = is_local(server->root);
    server->in = malloc(IN_BYTES);
    server->wire = (struct fy_watch){
        .fd = server->options.socket, .ready = on_wire, .owner = server};
    server->sweep = (struct fy_timer){.run = sweep, .owner = server};
    server->linger = (struct fy_timer){.run = on_linger, .owner = server};
    server->visitor =
        (struct fy_watch){.fd = -1, .ready = on_visitor, .owner = server};
    server->door = (struct fy_watch){
        .fd = server->options.door, .ready = on_door, .owner = server};
    return !server->in                     ? FY_ERR_NOMEM
           : fy_files_sending_open(server) ? FY_ERR_NOMEM
           : fy_files_objects_open(server) ? FY_ERR_NOMEM
           : fy_files_watches_open(server) ? FY_ERR_NOMEM
           : fy_files_locks_open(server)   ? FY_ERR_NOMEM
           : fy_loop_open(&server->loop, on_bell, server)
               ? FY_ERR_IO
               : fy_files_queue_open(server);
}

static void
close_server(struct fy_files_server *server)
{
    fy_files_sending_break(server);
    fy_files_queue_close(server);
    fy_files_locks_close(server);
    fy_files_watches_close(server);
    fy_files_objects_close(server);
    fy_files_sending_close(server);
    fy_loop_unwatch(&server->loop, &server->wire);
    fy_loop_unwatch(&server->loop, &server->door);
    fy_loop_unwatch(&server->loop, &server->visitor);
    fy_loop_close(&server->loop);
    (void)close(server->root);
    free(server->partial);
    free(server->in);
}

int
fy_files_serve(const struct fy_files_options *options)
{
    struct fy_files_server *server = calloc(1, sizeof *server);
    sigset_t signals, before;
    if (!server) {
        return EXIT_FAILURE;
    }
    server->options = *options;
    server->root = options->root;
    server->calls = fy_files_calls;
    server->loop.epoll = server->loop.bell.fd = -1;
    (void)sigfillset(&signals);
    (void)pthread_sigmask(SIG_BLOCK, &signals, &before);
    if (open_server(server) ||
        fy_loop_watch(&server->loop, &server->door, EPOLLIN)) {
        fy_debug(SERVER, "files: cannot serve: %m");
        _exit(EXIT_FAILURE);
    }
    while (!server->ended && !server->loop.failed) {
        watch_wire(server);
        if (fy_loop_turn(&server->loop, 0)) {
            break;
        }
    }
    close_server(server);
    free(server);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return EXIT_SUCCESS;
}
