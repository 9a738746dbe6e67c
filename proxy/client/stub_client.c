/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One stub's connection: its credentials, frames in, frames out. Never blocks: bytes
 * that the socket does not take wait, bounded by the credits of flow.c. A stub that
 * breaks the rules is dropped, and runs the original if it still may.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proxy/client/session.h"

enum {
    OUT_SPARE_BYTES = 4096, /* that output leaves to the other frames */
};

/* Of the listener, while nothing can be taken from it. */
static const uint64_t rest_ns = 50000000;

void
fy_stub_client_close_fds(struct stub_client *client)
{
    for (unsigned i = 0; i < client->nfds; i++) {
        (void)close(client->fds[i]);
    }
    client->nfds = 0;
}

void
fy_stub_client_drop(struct stub_client *client)
{
    if (client->gone) {
        return;
    }
    client->gone = true;
    fy_stub_client_close_fds(client);
    fy_loop_unwatch(&client->session->loop, &client->watch);
    if (client->stage) {
        client->session->calls->orphan(client->stage);
    }
}

/* ---- out ---------------------------------------------------------------------- */

/* 0 also when the socket is full. */
static int
push(struct stub_client *client)
{
    while (client->out_at < client->out_used) {
        ssize_t n = send(client->watch.fd, client->out + client->out_at,
                         client->out_used - client->out_at,
                         MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM)) {
            (void)fy_loop_watch(&client->session->loop, &client->watch,
                                EPOLLIN | EPOLLOUT);
            return 0;
        }
        if (n <= 0) {
            return FY_ERR_IO;
        }
        client->out_at += (size_t)n;
    }
    client->out_at = client->out_used = 0;
    (void)fy_loop_watch(&client->session->loop, &client->watch, EPOLLIN);
    return 0;
}

/* Room for n bytes more at the end of a block. */
static int
reserve(char **block, size_t *capacity, size_t used, size_t n)
{
    if (n <= *capacity - used) {
        return 0;
    }
    size_t wanted = *capacity > 0 ? *capacity : 4096;
    while (wanted < used + n) {
        wanted *= 2;
    }
    char *larger = realloc(*block, wanted);
    if (!larger) {
        return FY_ERR_NOMEM;
    }
    *block = larger;
    *capacity = wanted;
    return 0;
}

int
fy_stub_client_send(struct stub_client *client, uint32_t type,
                    const void *bytes, size_t n)
{
    struct fy_stub_frame frame = {.bytes = (uint32_t)n, .type = type};
    bool output = type == FY_STUB_OUT || type == FY_STUB_ERR;
    if (client->gone) {
        return 0;
    }
    if (client->out_at > client->out_used / 2) {
        memmove(client->out, client->out + client->out_at,
                client->out_used - client->out_at);
        client->out_used -= client->out_at;
        client->out_at = 0;
    }
    bool waits = client->out_used > client->out_at;
    if (reserve(&client->out, &client->out_capacity, client->out_used,
                sizeof frame + n + (output ? OUT_SPARE_BYTES : 0))) {
        if (!output) {
            fy_stub_client_drop(client);
        }
        return FY_ERR_NOMEM;
    }
    memcpy(client->out + client->out_used, &frame, sizeof frame);
    if (n > 0) {
        memcpy(client->out + client->out_used + sizeof frame, bytes, n);
    }
    client->out_used += sizeof frame + n;
    if (!waits && push(client)) {
        fy_stub_client_drop(client);
    }
    return 0;
}

void
fy_stub_client_finish(struct stub_client *client)
{
    /* The peer ends or execs, which closes its side; until then `in' is read
     * and ignored, and what is queued goes out. */
    fy_stub_client_close_fds(client);
    client->stage = NULL;
    if (!client->gone && client->out_used == 0) {
        (void)shutdown(client->watch.fd, SHUT_WR);
    }
}

/* ---- in ----------------------------------------------------------------------- */

/* Descriptors come with the first bytes only. */
static void
take_fds(struct stub_client *client, struct msghdr *message)
{
    for (struct cmsghdr *control = CMSG_FIRSTHDR(message); control;
         control = CMSG_NXTHDR(message, control)) {
        if (control->cmsg_level != SOL_SOCKET ||
            control->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        size_t n = (control->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(control) + i * sizeof fd, sizeof fd);
            if (client->nfds < 4 && !client->greeted) {
                client->fds[client->nfds++] = fd;
            } else {
                (void)close(fd);
            }
        }
    }
}

static void
handle_frame(struct stub_client *client)
{
    size_t at = 0;
    struct fy_stub_frame frame;
    while (!client->gone && client->in_used - at >= sizeof frame) {
        memcpy(&frame, client->in + at, sizeof frame);
        bool hello = frame.type == FY_STUB_HELLO;
        if (frame.bytes > (hello ? FY_STUB_FRAME_BYTES : FY_STUB_DATA_BYTES)) {
            fy_stub_client_drop(client);
            return;
        }
        if (client->in_used - at - sizeof frame < frame.bytes) {
            break;
        }
        const char *body = client->in + at + sizeof frame;
        at += sizeof frame + frame.bytes;
        if (hello && !client->greeted) {
            client->greeted = true;
            client->session->calls->begin(client, body, frame.bytes);
            fy_stub_client_close_fds(client);
        } else if (!hello && client->stage) {
            client->session->calls->frame(client->stage, frame.type, body,
                                          frame.bytes);
        }
    }
    memmove(client->in, client->in + at, client->in_used - at);
    client->in_used -= at;
}

static void
receive(struct stub_client *client)
{
    union {
        struct cmsghdr header;
        char block[CMSG_SPACE(8 * sizeof(int))];
    } control;
    if (reserve(&client->in, &client->in_capacity, client->in_used, 64 << 10) &&
        client->in_used == client->in_capacity) {
        fy_stub_client_drop(client);
        return;
    }
    struct iovec part = {client->in + client->in_used,
                         client->in_capacity - client->in_used};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.block,
                             .msg_controllen = sizeof control.block};
    ssize_t n =
        recvmsg(client->watch.fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n > 0) {
        take_fds(client, &message);
        if (message.msg_flags & MSG_CTRUNC) {
            fy_stub_client_drop(client); /* too few descriptors are left here */
            return;
        }
        client->in_used += (size_t)n;
        handle_frame(client);
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        fy_stub_client_drop(client);
    }
}

static void
serve(void *owner, uint32_t events)
{
    struct stub_client *client = owner;
    if (events & EPOLLOUT) {
        if (push(client)) {
            fy_stub_client_drop(client);
            return;
        }
        if (client->greeted && !client->stage && client->out_used == 0) {
            (void)shutdown(client->watch.fd, SHUT_WR);
        }
    }
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
        receive(client);
    }
}

/*
 * With no descriptor left, a stub is taken in the place of the spare one and let
 * go, so that its original runs: it may be what the others wait for. False: none
 * was there; or it cannot be taken, and the listener rests for a while.
 */
static bool
turn_away(struct fy_session *session)
{
    int fd = -1, error = EMFILE;
    if (session->stubs.spare_fd >= 0) {
        (void)close(session->stubs.spare_fd);
        fd = accept4(session->stubs.listener.fd, NULL, NULL, SOCK_CLOEXEC);
        error = errno;
    }
    if (fd >= 0) {
        (void)close(fd);
    } else if (error != EAGAIN) {
        (void)fy_loop_watch(&session->loop, &session->stubs.listener, 0);
        fy_loop_set(&session->loop, &session->stubs.rest, rest_ns);
    }
    session->stubs.spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return fd >= 0;
}

void
fy_stub_clients_rested(void *owner)
{
    struct fy_session *session = owner;
    (void)fy_loop_watch(&session->loop, &session->stubs.listener, EPOLLIN);
}

void
fy_stub_clients_accept(void *owner, uint32_t events)
{
    struct fy_session *session = owner;
    int listener = session->stubs.listener.fd;
    (void)events;
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            bool full = errno == EMFILE || errno == ENFILE ||
                        errno == ENOBUFS || errno == ENOMEM;
            if (full && turn_away(session)) {
                continue;
            }
            return;
        }
        struct ucred peer;
        socklen_t n = sizeof peer;
        struct stub_client *client = calloc(1, sizeof *client);
        if (!client ||
            reserve(&client->out, &client->out_capacity, 0, OUT_SPARE_BYTES) ||
            getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) != 0 ||
            peer.uid != geteuid()) {
            (void)close(fd);
            free(client ? client->out : NULL);
            free(client);
            continue;
        }
        client->session = session;
        client->pid = peer.pid;
        client->watch =
            (struct fy_watch){.fd = fd, .ready = serve, .owner = client};
        client->next = session->stubs.clients;
        session->stubs.clients = client;
        if (fy_loop_watch(&session->loop, &client->watch, EPOLLIN)) {
            fy_stub_client_drop(client);
        } else {
            receive(client); /* the hello is usually there already */
        }
    }
}

void
fy_stub_clients_sweep(struct fy_session *session)
{
    struct stub_client **link = &session->stubs.clients;
    while (*link) {
        struct stub_client *client = *link;
        if (!client->gone) {
            link = &client->next;
            continue;
        }
        *link = client->next;
        free(client->in);
        free(client->out);
        free(client);
    }
}
