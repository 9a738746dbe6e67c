/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One stub's connection: who it is, frames in, frames out. Never blocks: what
 * the socket does not take waits, bounded by the credits of flow.c. A stub that
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
fy_guest_close_fds(struct guest *guest)
{
    for (unsigned i = 0; i < guest->nfds; i++) {
        (void)close(guest->fds[i]);
    }
    guest->nfds = 0;
}

void
fy_guest_drop(struct guest *guest)
{
    if (guest->gone) {
        return;
    }
    guest->gone = true;
    fy_guest_close_fds(guest);
    fy_session_unwatch(guest->session, &guest->watch);
    if (guest->stage) {
        guest->session->calls->orphan(guest->stage);
    }
}

/* ---- out ---------------------------------------------------------------------- */

/* 0 also when the socket is full. */
static int
push(struct guest *guest)
{
    while (guest->out_at < guest->out_used) {
        ssize_t n =
            send(guest->watch.fd, guest->out + guest->out_at,
                 guest->out_used - guest->out_at, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM)) {
            fy_session_change(guest->session, &guest->watch,
                              EPOLLIN | EPOLLOUT);
            return 0;
        }
        if (n <= 0) {
            return FY_ERR_IO;
        }
        guest->out_at += (size_t)n;
    }
    guest->out_at = guest->out_used = 0;
    fy_session_change(guest->session, &guest->watch, EPOLLIN);
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
fy_guest_send(struct guest *guest, uint32_t type, const void *bytes, size_t n)
{
    struct fy_stub_frame frame = {.bytes = (uint32_t)n, .type = type};
    bool output = type == FY_STUB_OUT || type == FY_STUB_ERR;
    if (guest->gone) {
        return 0;
    }
    if (guest->out_at > guest->out_used / 2) {
        memmove(guest->out, guest->out + guest->out_at,
                guest->out_used - guest->out_at);
        guest->out_used -= guest->out_at;
        guest->out_at = 0;
    }
    bool waits = guest->out_used > guest->out_at;
    if (reserve(&guest->out, &guest->out_capacity, guest->out_used,
                sizeof frame + n + (output ? OUT_SPARE_BYTES : 0))) {
        if (!output) {
            fy_guest_drop(guest);
        }
        return FY_ERR_NOMEM;
    }
    memcpy(guest->out + guest->out_used, &frame, sizeof frame);
    if (n > 0) {
        memcpy(guest->out + guest->out_used + sizeof frame, bytes, n);
    }
    guest->out_used += sizeof frame + n;
    if (!waits && push(guest)) {
        fy_guest_drop(guest);
    }
    return 0;
}

void
fy_guest_finish(struct guest *guest)
{
    /* The peer ends or execs, which closes its side; until then `in' is read
     * and ignored, and what is queued goes out. */
    fy_guest_close_fds(guest);
    guest->stage = NULL;
    if (!guest->gone && guest->out_used == 0) {
        (void)shutdown(guest->watch.fd, SHUT_WR);
    }
}

/* ---- in ----------------------------------------------------------------------- */

/* Descriptors come with the first bytes only. */
static void
take_fds(struct guest *guest, struct msghdr *message)
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
            if (guest->nfds < 4 && !guest->greeted) {
                guest->fds[guest->nfds++] = fd;
            } else {
                (void)close(fd);
            }
        }
    }
}

static void
obey(struct guest *guest)
{
    size_t at = 0;
    struct fy_stub_frame frame;
    while (!guest->gone && guest->in_used - at >= sizeof frame) {
        memcpy(&frame, guest->in + at, sizeof frame);
        bool hello = frame.type == FY_STUB_HELLO;
        if (frame.bytes > (hello ? FY_STUB_FRAME_BYTES : FY_STUB_DATA_BYTES)) {
            fy_guest_drop(guest);
            return;
        }
        if (guest->in_used - at - sizeof frame < frame.bytes) {
            break;
        }
        const char *body = guest->in + at + sizeof frame;
        at += sizeof frame + frame.bytes;
        if (hello && !guest->greeted) {
            guest->greeted = true;
            guest->session->calls->begin(guest, body, frame.bytes);
            fy_guest_close_fds(guest);
        } else if (!hello && guest->stage) {
            guest->session->calls->frame(guest->stage, frame.type, body,
                                         frame.bytes);
        }
    }
    memmove(guest->in, guest->in + at, guest->in_used - at);
    guest->in_used -= at;
}

static void
receive(struct guest *guest)
{
    union {
        struct cmsghdr header;
        char block[CMSG_SPACE(8 * sizeof(int))];
    } control;
    if (reserve(&guest->in, &guest->in_capacity, guest->in_used, 64 << 10) &&
        guest->in_used == guest->in_capacity) {
        fy_guest_drop(guest);
        return;
    }
    struct iovec part = {guest->in + guest->in_used,
                         guest->in_capacity - guest->in_used};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.block,
                             .msg_controllen = sizeof control.block};
    ssize_t n =
        recvmsg(guest->watch.fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n > 0) {
        take_fds(guest, &message);
        if (message.msg_flags & MSG_CTRUNC) {
            fy_guest_drop(guest); /* too few descriptors are left here */
            return;
        }
        guest->in_used += (size_t)n;
        obey(guest);
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        fy_guest_drop(guest);
    }
}

static void
serve(struct watch *watch, uint32_t events)
{
    struct guest *guest = (struct guest *)watch;
    if (events & EPOLLOUT) {
        if (push(guest)) {
            fy_guest_drop(guest);
            return;
        }
        if (guest->greeted && !guest->stage && guest->out_used == 0) {
            (void)shutdown(guest->watch.fd, SHUT_WR);
        }
    }
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
        receive(guest);
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
        fy_session_change(session, &session->stubs.listener, 0);
        fy_session_set(session, &session->stubs.rest, rest_ns);
    }
    session->stubs.spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return fd >= 0;
}

void
fy_guests_rested(struct timer *timer)
{
    struct fy_session *session =
        (struct fy_session *)((char *)timer -
                              offsetof(struct fy_session, stubs.rest));
    fy_session_change(session, &session->stubs.listener, EPOLLIN);
}

void
fy_guests_accept(struct watch *watch, uint32_t events)
{
    struct fy_session *session =
        (struct fy_session *)((char *)watch -
                              offsetof(struct fy_session, stubs.listener));
    (void)events;
    for (;;) {
        int fd = accept4(watch->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
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
        struct guest *guest = calloc(1, sizeof *guest);
        if (!guest ||
            reserve(&guest->out, &guest->out_capacity, 0, OUT_SPARE_BYTES) ||
            getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) != 0 ||
            peer.uid != geteuid()) {
            (void)close(fd);
            free(guest ? guest->out : NULL);
            free(guest);
            continue;
        }
        guest->session = session;
        guest->pid = peer.pid;
        guest->watch = (struct watch){.fd = fd, .ready = serve};
        guest->next = session->stubs.guests;
        session->stubs.guests = guest;
        if (fy_session_watch(session, &guest->watch, EPOLLIN)) {
            fy_guest_drop(guest);
        } else {
            receive(guest); /* the hello is usually there already */
        }
    }
}

void
fy_guests_sweep(struct fy_session *session)
{
    struct guest **link = &session->stubs.guests;
    while (*link) {
        struct guest *guest = *link;
        if (!guest->gone) {
            link = &guest->next;
            continue;
        }
        *link = guest->next;
        free(guest->in);
        free(guest->out);
        free(guest);
    }
}
