/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames on their way to the client. A thread that has one sends it itself, as far as
 * the socket takes it at once; the loop sends the rest. Those who make many frames wait
 * while the client is slow.
 */
#include "config.h"

#include "proxy/files/server/server.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum {
    UNSENT_MAX = 4 << 20, /* from there on producers wait */
};

int
fy_files_sending_open(struct fy_files_server *server)
{
    struct fy_files_sending *sending = &server->sending;
    sending->last_said = &sending->said;
    sending->epoch = 1;
    return pthread_mutex_init(&sending->lock, NULL) ||
                   pthread_cond_init(&sending->room, NULL)
               ? FY_ERR_NOMEM
               : 0;
}

void
fy_files_sending_close(struct fy_files_server *server)
{
    fy_files_out_free(&server->sending.out);
    fy_files_said_free(&server->sending, UINT64_MAX);
    (void)pthread_cond_destroy(&server->sending.room);
    (void)pthread_mutex_destroy(&server->sending.lock);
}

/* With the lock held, here and below. */
static void
fail(struct fy_files_sending *sending)
{
    sending->broken = true;
    sending->at = sending->out.n = 0;
    (void)pthread_cond_broadcast(&sending->room);
}

void
fy_files_sending_break(struct fy_files_server *server)
{
    (void)pthread_mutex_lock(&server->sending.lock);
    fail(&server->sending);
    (void)pthread_mutex_unlock(&server->sending.lock);
}

/* How many of the bytes the socket took. */
static size_t
push(struct fy_files_server *server, const char *bytes, size_t n)
{
    size_t done = 0;
    while (done < n && !server->sending.broken) {
        ssize_t sent = send(server->wire.fd, bytes + done, n - done,
                            MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent >= 0) {
            done += (size_t)sent;
        } else if (errno == EAGAIN) {
            break;
        } else if (errno != EINTR) {
            server->sending.away = true; /* the loop sees the end */
            return n;
        }
    }
    return done;
}

static int
append(struct fy_files_out *out, const char *bytes, size_t n)
{
    if (out->capacity - out->n < n) {
        size_t capacity = 2 * out->capacity + n;
        char *larger = realloc(out->bytes, capacity);
        if (!larger) {
            return FY_ERR_NOMEM;
        }
        out->bytes = larger;
        out->capacity = capacity;
    }
    memcpy(out->bytes + out->n, bytes, n);
    out->n += n;
    return 0;
}

static void
say(struct fy_files_server *server, const struct fy_files_out *frames)
{
    struct fy_files_sending *sending = &server->sending;
    size_t done = 0;
    if (sending->away) {
        return;
    }
    if (!sending->blocked) {
        done = push(server, frames->bytes, frames->n);
    }
    if (done == frames->n || sending->broken) {
        return;
    }
    if (append(&sending->out, frames->bytes + done, frames->n - done)) {
        fail(sending);
    }
    if (!sending->blocked || sending->broken) {
        sending->blocked = true;
        fy_loop_ring(&server->loop);
    }
}

void
fy_files_say(struct fy_files_server *server, const struct fy_files_out *frames,
             uint64_t epoch)
{
    struct fy_files_sending *sending = &server->sending;
    (void)pthread_mutex_lock(&sending->lock);
    while (sending->out.n - sending->at > UNSENT_MAX && !sending->broken &&
           !sending->away) {
        (void)pthread_cond_wait(&sending->room, &sending->lock);
    }
    if (!epoch || epoch == sending->epoch) {
        say(server, frames);
    }
    (void)pthread_mutex_unlock(&sending->lock);
}

bool
fy_files_say_message(struct fy_files_server *server,
                     const struct fy_files_message *message, uint64_t epoch,
                     bool keep)
{
    struct fy_files_sending *sending = &server->sending;
    struct fy_files_out out = {.n = 0};
    struct fy_files_message failed = *message;
    failed.status = -ENOMEM;
    bool encoded = fy_files_encode(message, &out) == 0 ||
                   fy_files_encode(&failed, &out) == 0;
    (void)pthread_mutex_lock(&sending->lock);
    bool said = !sending->away && (!epoch || epoch == sending->epoch);
    if (!encoded || (keep && !fy_files_said_add(sending, message->id, &out))) {
        fail(sending);
        fy_loop_ring(&server->loop);
    } else if (said) {
        sending->changes += keep;
        say(server, &out);
    }
    (void)pthread_mutex_unlock(&sending->lock);
    fy_files_out_free(&out);
    return said;
}

bool
fy_files_repeat(struct fy_files_server *server, uint64_t id)
{
    struct fy_files_out frame;
    (void)pthread_mutex_lock(&server->sending.lock);
    bool found = fy_files_said_find(&server->sending, id, &frame);
    if (found) {
        server->sending.changes++;
        say(server, &frame);
    }
    (void)pthread_mutex_unlock(&server->sending.lock);
    return found;
}

void
fy_files_acknowledged(struct fy_files_server *server, uint64_t upto)
{
    (void)pthread_mutex_lock(&server->sending.lock);
    fy_files_said_free(&server->sending, upto);
    (void)pthread_mutex_unlock(&server->sending.lock);
}

void
fy_files_sending_lose(struct fy_files_server *server)
{
    struct fy_files_sending *sending = &server->sending;
    (void)pthread_mutex_lock(&sending->lock);
    sending->away = true;
    sending->blocked = false;
    sending->at = sending->out.n = 0;
    sending->epoch++;
    (void)pthread_cond_broadcast(&sending->room);
    (void)pthread_mutex_unlock(&sending->lock);
}

void
fy_files_sending_resume(struct fy_files_server *server,
                        const struct fy_files_message *hello)
{
    struct fy_files_out out = {.n = 0};
    bool encoded = fy_files_encode(hello, &out) == 0;
    (void)pthread_mutex_lock(&server->sending.lock);
    server->sending.away = false;
    server->sending.changes = 0;
    if (encoded) {
        say(server, &out);
    } else {
        fail(&server->sending);
    }
    (void)pthread_mutex_unlock(&server->sending.lock);
    fy_files_out_free(&out);
}

bool
fy_files_send(struct fy_files_server *server)
{
    struct fy_files_sending *sending = &server->sending;
    (void)pthread_mutex_lock(&sending->lock);
    sending->at += push(server, sending->out.bytes + sending->at,
                        sending->out.n - sending->at);
    if (sending->at == sending->out.n) {
        sending->at = sending->out.n = 0;
        sending->blocked = false;
    } else if (sending->at >= UNSENT_MAX) {
        memmove(sending->out.bytes, sending->out.bytes + sending->at,
                sending->out.n - sending->at);
        sending->out.n -= sending->at;
        sending->at = 0;
    }
    if (sending->out.n - sending->at <= UNSENT_MAX / 2) {
        (void)pthread_cond_broadcast(&sending->room);
    }
    bool good = !sending->broken;
    (void)pthread_mutex_unlock(&sending->lock);
    return good;
}

bool
fy_files_send_waits(struct fy_files_server *server)
{
    (void)pthread_mutex_lock(&server->sending.lock);
    bool blocked = server->sending.blocked;
    (void)pthread_mutex_unlock(&server->sending.lock);
    return blocked;
}
