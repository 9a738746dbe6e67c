/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/2 over two descriptors, for the session and for the proxy: nghttp2 does
 * the protocol, these files the bytes. A body is copied once, into its stream's
 * rope (rope.h); its frames take it from there to writev(). Any error in the
 * peer's bytes ends the stream or the connection, nothing else.
 * Runs in the one thread that owns the connection.
 */
#include "config.h"

#include "common/clock.h"
#include "proxy/wire/wires.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    BATCH_MIN_BYTES = 32 << 10, /* made into frames before a write */
    BATCH_MAX_BYTES = 1 << 20,
    ROUNDS = 16, /* reads or writes in one fy_wire_io() */
    VECTORS = 64,
    RATE_NS = 20000000,    /* a link is full for so long, and takes so much, */
    RATE_BYTES = 64 << 10, /* before its rate is known */
    RESETS = 1 << 20, /* a loop of `yes | head' resets a stream each time */
    RESETS_PER_SECOND = 1 << 16,
};

/* ---- streams ---- */

struct fy_wire_stream *
fy_wire_find(const struct fy_wire *wire, int32_t id)
{
    struct fy_wire_stream *stream;
    HASH_FIND(hh, wire->streams, &id, sizeof id, stream);
    return stream;
}

struct fy_wire_stream *
fy_wire_add(struct fy_wire *wire, int32_t id)
{
    struct fy_wire_stream *stream = calloc(1, sizeof *stream);
    if (!stream) {
        return NULL;
    }
    stream->wire = wire;
    stream->id = id;
    HASH_ADD(hh, wire->streams, id, sizeof stream->id, stream);
    if (stream->failed) {
        free(stream);
        return NULL;
    }
    return stream;
}

void
fy_wire_remove(struct fy_wire_stream *stream, uint32_t error)
{
    struct fy_wire *wire = stream->wire;
    HASH_DEL(wire->streams, stream);
    if (stream->told && wire->events.closed) {
        wire->events.closed(wire->context, stream->id, stream->user, error);
    }
    fy_rope_clear(&stream->queue, &wire->pool);
    free(stream->trailers);
    free(stream);
}

void
fy_wire_mark(struct fy_wire_stream *stream)
{
    stream->changed = true;
    stream->wire->any_changed = true;
}

void
fy_wire_drop(struct fy_wire_stream *stream)
{
    fy_rope_clear(&stream->queue, &stream->wire->pool);
    stream->body = false;
    stream->sending = FY_SENDING_CANCELLED;
}

/* ---- making and ending ---- */

static int
make_session(struct fy_wire *wire)
{
    int status = FY_ERR_NOMEM;
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *option;
    if (nghttp2_session_callbacks_new(&callbacks)) {
        return status;
    }
    if (nghttp2_option_new(&option)) {
        goto free_callbacks;
    }
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_option_set_no_closed_streams(option, 1);
    nghttp2_option_set_max_reserved_remote_streams(option, 0);
    nghttp2_option_set_peer_max_concurrent_streams(option, FY_WIRE_MAX_STREAMS);
    nghttp2_option_set_stream_reset_rate_limit(option, RESETS,
                                               RESETS_PER_SECOND);
    fy_wire_receive_callbacks(callbacks);
    fy_wire_send_callbacks(callbacks);
    int rv = wire->role == FY_WIRE_CLIENT
                 ? nghttp2_session_client_new2(&wire->session, callbacks, wire,
                                               option)
                 : nghttp2_session_server_new2(&wire->session, callbacks, wire,
                                               option);
    if (rv) {
        goto free_option;
    }
    /* The server leaves INITIAL_WINDOW_SIZE at HTTP/2's 65,535, so that the
     * spec of a stage costs no round trip (FY_WIRE_REQUEST_WINDOW). */
    const nghttp2_settings_entry client[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0},
        {NGHTTP2_SETTINGS_MAX_FRAME_SIZE, FY_WIRE_FRAME_BYTES},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, FY_WIRE_MAX_HEAD_BYTES},
    };
    const nghttp2_settings_entry server[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, FY_WIRE_MAX_STREAMS},
        {NGHTTP2_SETTINGS_MAX_FRAME_SIZE, FY_WIRE_FRAME_BYTES},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, FY_WIRE_MAX_HEAD_BYTES},
    };
    bool is_client = wire->role == FY_WIRE_CLIENT;
    rv = nghttp2_submit_settings(wire->session, NGHTTP2_FLAG_NONE,
                                 is_client ? client : server,
                                 is_client ? sizeof client / sizeof client[0]
                                           : sizeof server / sizeof server[0]);
    if (!rv) {
        rv = nghttp2_session_set_local_window_size(
            wire->session, NGHTTP2_FLAG_NONE, 0, FY_WIRE_MAX_GRANT);
    }
    if (!rv) {
        status = FY_OK;
    }

free_option:
    nghttp2_option_del(option);
free_callbacks:
    nghttp2_session_callbacks_del(callbacks);
    return status;
}

int
fy_wire_unblock(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) ? FY_ERR_IO
                                                               : FY_OK;
}

int
fy_wire_new(enum fy_wire_role role, int in_fd, int out_fd,
            const struct fy_wire_events *events, void *context,
            struct fy_wire **out)
{
    struct stat st;
    int status = FY_ERR_NOMEM;
    struct fy_wire *wire = calloc(1, sizeof *wire);
    if (!wire) {
        return status;
    }
    wire->role = role;
    wire->events = *events;
    wire->context = context;
    wire->in_fd = in_fd;
    wire->out_fd = out_fd;
    wire->batch_bytes = 4 * (size_t)BATCH_MIN_BYTES;
    wire->head = malloc(sizeof *wire->head);
    wire->block = malloc(FY_WIRE_READ_BYTES);
    if (!wire->head || !wire->block || (status = make_session(wire))) {
        goto free_wire;
    }
    if (fy_wire_unblock(in_fd) || fy_wire_unblock(out_fd) ||
        fstat(out_fd, &st)) {
        status = FY_ERR_IO;
        goto free_wire;
    }
    wire->socket = S_ISSOCK(st.st_mode);
    *out = wire;
    return FY_OK;

free_wire:
    nghttp2_session_del(wire->session);
    free(wire->head);
    free(wire->block);
    free(wire);
    return status;
}

void
fy_wire_free(struct fy_wire *wire)
{
    if (!wire) {
        return;
    }
    wire->broken = true;
    while (wire->streams) {
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it takes the stream out */
        fy_wire_remove(wire->streams, NGHTTP2_CONNECT_ERROR);
    }
    nghttp2_session_del(wire->session);
    fy_rope_clear(&wire->out, &wire->pool);
    fy_block_pool_clear(&wire->pool);
    close(wire->in_fd);
    if (wire->out_fd != wire->in_fd) {
        close(wire->out_fd);
    }
    free(wire->head);
    free(wire->block);
    free(wire);
}

int
fy_wire_in_fd(const struct fy_wire *wire)
{
    return wire->in_fd;
}

int
fy_wire_out_fd(const struct fy_wire *wire)
{
    return wire->out_fd;
}

bool
fy_wire_wants_write(const struct fy_wire *wire)
{
    return !wire->broken && (wire->out.bytes || wire->any_untold ||
                             nghttp2_session_want_write(wire->session));
}

/* ---- input and output ---- */

static int
read_some(struct fy_wire *wire)
{
    for (int round = 0; round < ROUNDS; round++) {
        ssize_t n = read(wire->in_fd, wire->block, FY_WIRE_READ_BYTES);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            return FY_OK;
        }
        if (n <= 0) {
            return FY_ERR_IO;
        }
        wire->counters.received_bytes += (uint64_t)n;
        if (nghttp2_session_mem_recv(wire->session, wire->block, (size_t)n) <
            0) {
            return FY_ERR_IO;
        }
        if (n < FY_WIRE_READ_BYTES) {
            return FY_OK; /* poll() knows whether there is more */
        }
    }
    return FY_OK;
}

static int
tell_grant(struct fy_wire_stream *stream)
{
    int32_t n = (int32_t)stream->untold;
    stream->untold = 0;
    int rv = nghttp2_submit_window_update(stream->wire->session,
                                          NGHTTP2_FLAG_NONE, stream->id, n);
    return rv == NGHTTP2_ERR_NOMEM ? FY_ERR_NOMEM : FY_OK;
}

/* Tells nghttp2 of grants; one WINDOW_UPDATE for many small grants. Where
 * both have something to send, the one that may sends first: those of requests
 * without a body, stderr, are the first. */
static int
tell_grants(struct fy_wire *wire)
{
    struct fy_wire_stream *stream, *next;
    int status = FY_OK;
    if (!wire->any_untold) {
        return FY_OK;
    }
    wire->any_untold = false;
    for (int body = 0; body < 2; body++) {
        HASH_ITER (hh, wire->streams, stream, next) {
            if (!status && stream->untold && stream->open &&
                stream->body == (body > 0)) {
                status = tell_grant(stream);
            }
        }
    }
    return status;
}

void
fy_wire_full(struct fy_wire *wire)
{
    uint64_t now = fy_clock_ns();
    uint64_t took = now - wire->full_ns;
    if (wire->full_ns && (took < RATE_NS || wire->full_bytes < RATE_BYTES)) {
        return;
    }
    if (wire->full_ns) {
        uint64_t rate =
            (uint64_t)((double)wire->full_bytes * 1e9 / (double)took);
        uint64_t before = wire->counters.link_rate;
        wire->counters.link_rate =
            rate > before ? rate : (3 * before + rate) / 4;
    }
    wire->full_ns = now;
    wire->full_bytes = 0;
}

/* Writes waiting bytes. *out_all: nothing waits any more. */
static int
write_out(struct fy_wire *wire, bool *out_all)
{
    struct iovec vector[VECTORS];
    while (wire->out.bytes) {
        int n = fy_rope_vector(&wire->out, vector, VECTORS);
        struct msghdr message = {.msg_iov = vector, .msg_iovlen = (size_t)n};
        ssize_t sent = wire->socket
                           ? sendmsg(wire->out_fd, &message, MSG_NOSIGNAL)
                           : writev(wire->out_fd, vector, n);
        if (sent < 0 && errno == EINTR) {
            continue;
        }
        if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            wire->blocked = true;
            fy_wire_full(wire);
            *out_all = false;
            return FY_OK;
        }
        if (sent < 0) {
            return FY_ERR_IO;
        }
        wire->counters.sent_bytes += (uint64_t)sent;
        wire->full_bytes += (uint64_t)sent;
        fy_rope_drop(&wire->out, &wire->pool, (size_t)sent);
    }
    *out_all = true;
    return FY_OK;
}

/* Frames are made only when those before are written, so that a reset or a
 * grant does not wait behind more than a batch; the size of a batch
 * follows the descriptor. */
static int
write_some(struct fy_wire *wire)
{
    for (int round = 0; round < ROUNDS; round++) {
        bool all;
        if (wire->out.bytes < wire->batch_bytes &&
            (tell_grants(wire) || nghttp2_session_send(wire->session))) {
            return FY_ERR_IO;
        }
        if (!wire->out.bytes && !wire->any_untold) {
            return FY_OK;
        }
        if (write_out(wire, &all)) {
            return FY_ERR_IO;
        }
        if (!all) {
            if (wire->batch_bytes > BATCH_MIN_BYTES) {
                wire->batch_bytes /= 2;
            }
            return FY_OK;
        }
        if (wire->batch_bytes < BATCH_MAX_BYTES) {
            wire->batch_bytes *= 2;
        }
    }
    return FY_OK;
}

/* Calls `ready' where more may be sent now. */
static void
tell_ready(struct fy_wire *wire)
{
    struct fy_wire_stream *stream, *next;
    if (!wire->any_changed) {
        return;
    }
    wire->any_changed = false;
    HASH_ITER (hh, wire->streams, stream, next) {
        bool changed = stream->changed;
        stream->changed = false;
        if (changed && stream->told && stream->body &&
            stream->sending == FY_SENDING_BODY &&
            stream->queue.bytes <= FY_WIRE_QUEUE_BYTES / 2 &&
            fy_wire_room(wire, stream->id) && wire->events.ready) {
            wire->events.ready(wire->context, stream->id, stream->user);
        }
    }
}

int
fy_wire_io(struct fy_wire *wire, bool readable, bool writable)
{
    if (wire->broken) {
        return FY_ERR_IO;
    }
    if (writable) {
        wire->blocked = false;
    }
    int status = readable ? read_some(wire) : FY_OK;
    tell_ready(wire);
    if (!wire->blocked) {
        int written = write_some(wire);
        status = status ? status : written;
        tell_ready(wire);
    }
    /* It broke the protocol and was told so by a GOAWAY. */
    if (!nghttp2_session_want_read(wire->session)) {
        status = FY_ERR_IO;
    }
    if (status) {
        wire->broken = true;
    }
    return status;
}

/* ---- facts ---- */

void
fy_wire_counters(const struct fy_wire *wire, struct fy_wire_counters *out)
{
    *out = wire->counters;
}

int
fy_wire_ping(struct fy_wire *wire)
{
    uint8_t payload[8];
    if (wire->broken) {
        return FY_ERR_IO;
    }
    if (wire->ping_sent_ns) {
        return FY_OK;
    }
    wire->ping_sent_ns = fy_clock_ns();
    memcpy(payload, &wire->ping_sent_ns, sizeof payload);
    if (nghttp2_submit_ping(wire->session, NGHTTP2_FLAG_NONE, payload)) {
        wire->ping_sent_ns = 0;
        return FY_ERR_NOMEM;
    }
    return FY_OK;
}
