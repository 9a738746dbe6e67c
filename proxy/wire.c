/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/2 over two descriptors, for the session and for the proxy: nghttp2 does
 * the protocol, this file the bytes. A body is copied once, into its stream's
 * rope (rope.h); its frames take it from there to writev(). Whatever is wrong
 * with what the peer sends ends the stream or the connection, nothing else.
 * Runs in the one thread that owns the connection.
 */
#include "config.h"

#include "proxy/wire.h"

#define HASH_NONFATAL_OOM         1
#define uthash_nonfatal_oom(elem) ((elem)->failed = true)

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <uthash.h>

#include <nghttp2/nghttp2.h>

#include "proxy/rope.h"

enum {
    QUEUE_BYTES = 1 << 20, /* of one stream, told by fy_wire_room() */
    QUEUE_MAX_BYTES = 16 << 20,
    BATCH_MIN_BYTES = 32 << 10, /* made into frames before a write */
    BATCH_MAX_BYTES = 1 << 20,
    ROUNDS = 16, /* reads or writes in one fy_wire_io() */
    VECTORS = 64,
    RESETS = 1 << 20, /* a loop of `yes | head' resets a stream each time */
    RESETS_PER_SECOND = 1 << 16,
};

/* The fields of one header block; blocks never interleave on a connection. */
struct head {
    struct fy_wire_pair pairs[FY_WIRE_MAX_PAIRS];
    size_t npairs, used;
    int status;
    char *method, *path;
    char text[FY_WIRE_MAX_HEAD_BYTES];
};

/* Fields to be sent after the body. */
struct trailers {
    size_t n, used;
    nghttp2_nv fields[FY_WIRE_MAX_PAIRS];
    char text[FY_WIRE_MAX_HEAD_BYTES];
};

struct stream {
    UT_hash_handle hh;
    struct fy_wire *wire;
    void *user;
    struct trailers *trailers;
    struct fy_rope queue;
    uint64_t credit; /* granted and neither received nor told to nghttp2 ... */
    uint64_t untold; /* ... and the part of it that nghttp2 was not told */
    int32_t id;
    bool told;      /* the owner knows of it */
    bool open;      /* nghttp2 knows of it: its HEADERS went or came */
    bool headed;    /* the head of the response: sent or received */
    bool body;      /* we may still send */
    bool finished;  /* fy_wire_finish() */
    bool last_sent; /* END_STREAM is on its way */
    bool waits;     /* nghttp2 found nothing to send */
    bool granted;   /* the peer granted something */
    bool changed;   /* `ready' may have to be called */
    bool cancelled;
    bool failed; /* uthash: no memory */
};

struct fy_wire {
    struct fy_wire_events events;
    void *context;
    nghttp2_session *session;
    struct stream *streams;
    struct head *head; /* of the block that is being received */
    struct fy_rope out;
    struct fy_block_pool pool;
    size_t batch_bytes;
    struct fy_wire_counters counters;
    uint64_t ping_sent_ns; /* of the PING that is not answered; 0: none */
    enum fy_wire_role role;
    int in_fd, out_fd;
    bool socket;  /* out_fd is one */
    bool blocked; /* the last write would have blocked */
    bool broken;
    bool any_untold, any_changed;
    unsigned char *block; /* FY_WIRE_READ_BYTES */
};

static uint64_t
now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

/* ---- streams ---- */

static struct stream *
find_stream(const struct fy_wire *wire, int32_t id)
{
    struct stream *stream;
    HASH_FIND(hh, wire->streams, &id, sizeof id, stream);
    return stream;
}

static struct stream *
add_stream(struct fy_wire *wire, int32_t id)
{
    struct stream *stream = calloc(1, sizeof *stream);
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

static void
remove_stream(struct stream *stream, uint32_t error)
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

static void
mark_changed(struct stream *stream)
{
    stream->changed = true;
    stream->wire->any_changed = true;
}

static void
drop_queue(struct stream *stream)
{
    fy_rope_clear(&stream->queue, &stream->wire->pool);
    stream->body = false;
}

/* ---- what is received ---- */

static int
on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame,
                 void *user)
{
    struct fy_wire *wire = user;
    (void)session;
    wire->head->npairs = wire->head->used = 0;
    wire->head->status = 0;
    wire->head->method = wire->head->path = NULL;
    if (wire->role == FY_WIRE_SERVER && frame->hd.type == NGHTTP2_HEADERS &&
        frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
        struct stream *stream = add_stream(wire, frame->hd.stream_id);
        if (!stream) {
            return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
        }
        stream->open = true;
    }
    return 0;
}

/* A NUL-terminated copy within the head, or NULL. */
static char *
head_copy(struct head *head, const uint8_t *bytes, size_t n)
{
    if (n >= sizeof head->text - head->used || memchr(bytes, 0, n)) {
        return NULL;
    }
    char *copy = head->text + head->used;
    memcpy(copy, bytes, n);
    copy[n] = 0;
    head->used += n + 1;
    return copy;
}

static int
on_header(nghttp2_session *session, const nghttp2_frame *frame,
          const uint8_t *name, size_t nname, const uint8_t *value,
          size_t nvalue, uint8_t flags, void *user)
{
    struct fy_wire *wire = user;
    struct head *head = wire->head;
    (void)session;
    (void)frame;
    (void)flags;
    const char *n = head_copy(head, name, nname);
    char *v = n ? head_copy(head, value, nvalue) : NULL;
    if (!v || head->npairs == FY_WIRE_MAX_PAIRS) {
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* resets the stream */
    }
    if (n[0] != ':') {
        head->pairs[head->npairs++] = (struct fy_wire_pair){n, v};
    } else if (!strcmp(n, ":method")) {
        head->method = v;
    } else if (!strcmp(n, ":path")) {
        head->path = v;
    } else if (!strcmp(n, ":status")) {
        head->status = (int)strtol(v, NULL, 10); /* nghttp2: three digits */
    }
    return 0;
}

/* The peer's body is complete. */
static void
ended(struct stream *stream, const struct fy_wire_pair *pairs, size_t npairs)
{
    struct fy_wire *wire = stream->wire;
    if (wire->events.end && stream->told && !stream->cancelled) {
        wire->events.end(wire->context, stream->id, stream->user, pairs,
                         npairs);
    }
    /* The server is done: nobody reads what the client would still send. */
    if (wire->role == FY_WIRE_CLIENT && !stream->last_sent &&
        !stream->cancelled && (!stream->finished || stream->queue.bytes)) {
        drop_queue(stream);
        stream->cancelled = true;
        (void)nghttp2_submit_rst_stream(wire->session, NGHTTP2_FLAG_NONE,
                                        stream->id, NGHTTP2_NO_ERROR);
    }
}

static void
received_head(struct stream *stream, const nghttp2_frame *frame)
{
    struct fy_wire *wire = stream->wire;
    struct head *head = wire->head;
    bool last = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
    if (wire->role == FY_WIRE_SERVER &&
        frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
        if (!head->path || !head->method ||
            (strcmp(head->method, "GET") != 0 &&
             strcmp(head->method, "POST") != 0)) {
            (void)nghttp2_submit_rst_stream(wire->session, NGHTTP2_FLAG_NONE,
                                            stream->id, NGHTTP2_REFUSED_STREAM);
            return;
        }
        stream->told = true;
        if (wire->events.request) {
            wire->events.request(wire->context, stream->id, head->method,
                                 head->path, &stream->user);
        }
        if (last) {
            ended(stream, NULL, 0);
        }
    } else if (wire->role == FY_WIRE_CLIENT && !stream->headed) {
        if (head->status < 200) {
            return; /* nobody sends those */
        }
        stream->headed = true;
        if (wire->events.response && !stream->cancelled) {
            wire->events.response(wire->context, stream->id, stream->user,
                                  head->status, head->pairs, head->npairs);
        }
        if (last) {
            ended(stream, NULL, 0);
        }
    } else if (last) {
        ended(stream, head->pairs, head->npairs);
    }
}

static int
on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct fy_wire *wire = user;
    struct stream *stream = find_stream(wire, frame->hd.stream_id);
    (void)session;
    switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
        if (stream) {
            received_head(stream, frame);
        }
        break;
    case NGHTTP2_DATA:
        if (stream && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)) {
            ended(stream, NULL, 0);
        }
        break;
    case NGHTTP2_WINDOW_UPDATE:
        if (stream) {
            stream->granted = true;
            mark_changed(stream);
        } else if (!frame->hd.stream_id) {
            for (stream = wire->streams; stream; stream = stream->hh.next) {
                mark_changed(stream);
            }
        }
        break;
    case NGHTTP2_SETTINGS:
        if (!(frame->hd.flags & NGHTTP2_FLAG_ACK) &&
            wire->role == FY_WIRE_CLIENT && !wire->counters.rtt_ns) {
            return fy_wire_ping(wire) == FY_OK ? 0
                                               : NGHTTP2_ERR_CALLBACK_FAILURE;
        }
        break;
    case NGHTTP2_PING:
        if ((frame->hd.flags & NGHTTP2_FLAG_ACK) && wire->ping_sent_ns &&
            !memcmp(frame->ping.opaque_data, &wire->ping_sent_ns,
                    sizeof wire->ping_sent_ns)) {
            uint64_t took = now_ns() - wire->ping_sent_ns;
            wire->counters.rtt_ns = took ? took : 1;
            wire->ping_sent_ns = 0;
        }
        break;
    default:
        break;
    }
    return 0;
}

static int
on_data(nghttp2_session *session, uint8_t flags, int32_t id,
        const uint8_t *bytes, size_t n, void *user)
{
    struct fy_wire *wire = user;
    struct stream *stream = find_stream(wire, id);
    (void)flags;
    if (stream) {
        stream->credit -= stream->credit < n ? stream->credit : n;
    }
    if (stream && stream->told && !stream->cancelled && wire->events.data) {
        wire->events.data(wire->context, id, stream->user, bytes, n);
    }
    /* Each stream's window bounds what is on its way; the connection's own
     * never holds anything up. */
    return nghttp2_session_consume_connection(session, n)
               ? NGHTTP2_ERR_CALLBACK_FAILURE
               : 0;
}

static int
on_stream_close(nghttp2_session *session, int32_t id, uint32_t error,
                void *user)
{
    struct stream *stream = find_stream(user, id);
    (void)session;
    if (stream) {
        remove_stream(stream, error);
    }
    return 0;
}

/* ---- what is sent ---- */

static ssize_t
on_send(nghttp2_session *session, const uint8_t *bytes, size_t n, int flags,
        void *user)
{
    struct fy_wire *wire = user;
    (void)session;
    (void)flags;
    if (wire->out.bytes >= wire->batch_bytes) {
        return NGHTTP2_ERR_WOULDBLOCK;
    }
    return fy_rope_add(&wire->out, &wire->pool, bytes, n)
               ? NGHTTP2_ERR_CALLBACK_FAILURE
               : (ssize_t)n;
}

/* A frame's head and its body, out of the stream's queue. */
static int
on_send_data(nghttp2_session *session, nghttp2_frame *frame,
             const uint8_t *head, size_t n, nghttp2_data_source *source,
             void *user)
{
    struct fy_wire *wire = user;
    struct stream *stream = find_stream(wire, frame->hd.stream_id);
    (void)session;
    (void)source;
    if (wire->out.bytes >= wire->batch_bytes) {
        return NGHTTP2_ERR_WOULDBLOCK;
    }
    if (!stream || stream->queue.bytes < n) { /* cancelled meanwhile */
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    if (fy_rope_add(&wire->out, &wire->pool, head, 9) ||
        fy_rope_move(&wire->out, &stream->queue, n)) {
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    }
    mark_changed(stream);
    return 0;
}

static ssize_t
on_frame_length(nghttp2_session *session, uint8_t type, int32_t id,
                int32_t connection_window, int32_t stream_window, uint32_t most,
                void *user)
{
    (void)session;
    (void)type;
    (void)id;
    (void)connection_window;
    (void)stream_window;
    (void)user;
    return most < FY_WIRE_FRAME_BYTES ? most : FY_WIRE_FRAME_BYTES;
}

/* nghttp2 asks what the next frame of a body holds. */
static ssize_t
on_read_body(nghttp2_session *session, int32_t id, uint8_t *buffer, size_t most,
             uint32_t *flags, nghttp2_data_source *source, void *user)
{
    struct stream *stream = find_stream(user, id);
    (void)buffer;
    (void)source;
    if (!stream) {
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    if (stream->last_sent) {
        return NGHTTP2_ERR_DEFERRED; /* its trailers went before */
    }
    size_t n = stream->queue.bytes < most ? stream->queue.bytes : most;
    bool last = stream->finished && n == stream->queue.bytes;
    if (!n && !last) {
        stream->waits = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    if (n) {
        *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    }
    if (last) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        stream->last_sent = true;
        if (stream->trailers) {
            *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
            if (nghttp2_submit_trailer(session, id, stream->trailers->fields,
                                       stream->trailers->n)) {
                return NGHTTP2_ERR_CALLBACK_FAILURE;
            }
        }
    }
    return (ssize_t)n;
}

static int
on_frame_sent(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct fy_wire *wire = user;
    (void)session;
    if (frame->hd.type == NGHTTP2_HEADERS && wire->role == FY_WIRE_CLIENT) {
        struct stream *stream = find_stream(wire, frame->hd.stream_id);
        if (stream) {
            stream->open = true;
            wire->any_untold |= stream->untold > 0;
        }
    }
    return 0;
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
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks,
                                                            on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks,
                                                              on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks,
                                                           on_stream_close);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks,
                                                         on_frame_sent);
    nghttp2_session_callbacks_set_send_callback(callbacks, on_send);
    nghttp2_session_callbacks_set_send_data_callback(callbacks, on_send_data);
    nghttp2_session_callbacks_set_data_source_read_length_callback(
        callbacks, on_frame_length);
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

static int
set_nonblocking(int fd)
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
    wire->batch_bytes = 4 * BATCH_MIN_BYTES;
    wire->head = malloc(sizeof *wire->head);
    wire->block = malloc(FY_WIRE_READ_BYTES);
    if (!wire->head || !wire->block || (status = make_session(wire))) {
        goto free_wire;
    }
    if (set_nonblocking(in_fd) || set_nonblocking(out_fd) ||
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
        remove_stream(wire->streams, NGHTTP2_CONNECT_ERROR);
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

/* Tells nghttp2 what was granted; one WINDOW_UPDATE for many small grants. */
static int
tell_grants(struct fy_wire *wire)
{
    struct stream *stream, *next;
    if (!wire->any_untold) {
        return FY_OK;
    }
    wire->any_untold = false;
    HASH_ITER (hh, wire->streams, stream, next) {
        if (!stream->untold || !stream->open) {
            continue;
        }
        int32_t n = (int32_t)stream->untold;
        stream->untold = 0;
        int rv = nghttp2_submit_window_update(wire->session, NGHTTP2_FLAG_NONE,
                                              stream->id, n);
        if (rv == NGHTTP2_ERR_NOMEM) {
            return FY_ERR_NOMEM;
        }
    }
    return FY_OK;
}

/* Writes what waits. *out_all: nothing waits any more. */
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
            *out_all = false;
            return FY_OK;
        }
        if (sent < 0) {
            return FY_ERR_IO;
        }
        wire->counters.sent_bytes += (uint64_t)sent;
        fy_rope_drop(&wire->out, &wire->pool, (size_t)sent);
    }
    *out_all = true;
    return FY_OK;
}

/* Frames are made only when those before are written, so that a reset or a
 * grant does not wait behind more than a batch; the batch follows what the
 * descriptor takes. */
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
    struct stream *stream, *next;
    if (!wire->any_changed) {
        return;
    }
    wire->any_changed = false;
    HASH_ITER (hh, wire->streams, stream, next) {
        bool changed = stream->changed;
        stream->changed = false;
        if (changed && stream->told && stream->body && !stream->finished &&
            !stream->cancelled && stream->queue.bytes <= QUEUE_BYTES / 2 &&
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

/* ---- requests and responses ---- */

/* A field to be sent: what no header may hold becomes '?'. */
static int
set_field(nghttp2_nv *field, const char *name, const char *value, char *text,
          size_t room, size_t *out_used)
{
    while (*value == ' ' || *value == '\t') {
        value++;
    }
    size_t n = strlen(value);
    while (n && (value[n - 1] == ' ' || value[n - 1] == '\t')) {
        n--;
    }
    size_t nname = strlen(name);
    if (n > FY_WIRE_MAX_VALUE_BYTES) {
        n = FY_WIRE_MAX_VALUE_BYTES;
    }
    if (nname + n > room) {
        return FY_ERR_OVERFLOW;
    }
    if (!nname || name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-")]) {
        return FY_ERR_INVALID;
    }
    memcpy(text, name, nname);
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)value[i];
        text[nname + i] = (char)((c < ' ' && c != '\t') || c == 0x7f ? '?' : c);
    }
    *field = (nghttp2_nv){(uint8_t *)text, (uint8_t *)text + nname, nname, n,
                          NGHTTP2_NV_FLAG_NONE};
    *out_used = nname + n;
    return FY_OK;
}

static int
set_fields(nghttp2_nv *fields, const struct fy_wire_pair *pairs, size_t npairs,
           char *text, size_t room)
{
    for (size_t i = 0; i < npairs; i++) {
        size_t used = 0;
        int status = set_field(&fields[i], pairs[i].name, pairs[i].value, text,
                               room, &used);
        if (status) {
            return status;
        }
        text += used;
        room -= used;
    }
    return FY_OK;
}

static nghttp2_nv
pseudo(const char *name, const char *value)
{
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value,
                        strlen(name), strlen(value), NGHTTP2_NV_FLAG_NONE};
}

int
fy_wire_request(struct fy_wire *wire, const char *path, bool body, void *user,
                int32_t *out)
{
    if (wire->broken) {
        return FY_ERR_IO;
    }
    if (wire->role != FY_WIRE_CLIENT || path[0] != '/' ||
        strlen(path) > FY_WIRE_MAX_VALUE_BYTES) {
        return FY_ERR_INVALID;
    }
    /* More would wait in nghttp2, behind stages that may wait for them. */
    uint32_t most = nghttp2_session_get_remote_settings(
        wire->session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
    if (HASH_COUNT(wire->streams) >=
        (most < FY_WIRE_MAX_STREAMS ? most : FY_WIRE_MAX_STREAMS)) {
        return FY_ERR_BUSY;
    }
    const nghttp2_nv fields[] = {
        pseudo(":method", body ? "POST" : "GET"),
        pseudo(":scheme", "http"),
        pseudo(":authority", "ferry"),
        pseudo(":path", path),
    };
    /* What is small (signals, stderr) goes before what is large. */
    nghttp2_priority_spec priority;
    nghttp2_priority_spec_init(&priority, 0, body ? 16 : NGHTTP2_MAX_WEIGHT, 0);
    nghttp2_data_provider provider = {{0}, on_read_body};
    int32_t id = nghttp2_submit_request(wire->session, &priority, fields,
                                        sizeof fields / sizeof fields[0],
                                        body ? &provider : NULL, NULL);
    if (id < 0) {
        return id == NGHTTP2_ERR_NOMEM ? FY_ERR_NOMEM : FY_ERR_IO;
    }
    struct stream *stream = add_stream(wire, id);
    if (!stream) {
        (void)nghttp2_submit_rst_stream(wire->session, NGHTTP2_FLAG_NONE, id,
                                        NGHTTP2_CANCEL);
        return FY_ERR_NOMEM;
    }
    stream->user = user;
    stream->told = true;
    stream->body = body;
    stream->last_sent = !body;
    *out = id;
    return FY_OK;
}

int
fy_wire_respond(struct fy_wire *wire, int32_t id, int status,
                const struct fy_wire_pair *pairs, size_t npairs, bool body)
{
    struct stream *stream = find_stream(wire, id);
    if (wire->broken) {
        return FY_ERR_IO;
    }
    if (!stream || stream->cancelled) {
        return FY_ERR_NOENT;
    }
    if (wire->role != FY_WIRE_SERVER || stream->headed || status < 200 ||
        status > 999 || npairs > FY_WIRE_MAX_PAIRS - 1) {
        return FY_ERR_INVALID;
    }
    nghttp2_nv fields[FY_WIRE_MAX_PAIRS];
    char text[FY_WIRE_MAX_HEAD_BYTES / 2];
    char number[4] = {(char)('0' + status / 100),
                      (char)('0' + status / 10 % 10), (char)('0' + status % 10),
                      0};
    fields[0] = pseudo(":status", number);
    int result = set_fields(fields + 1, pairs, npairs, text, sizeof text);
    if (result) {
        return result;
    }
    nghttp2_data_provider provider = {{0}, on_read_body};
    if (nghttp2_submit_response(wire->session, id, fields, npairs + 1,
                                body ? &provider : NULL)) {
        return FY_ERR_NOMEM;
    }
    stream->headed = true;
    stream->body = body;
    stream->last_sent = !body;
    mark_changed(stream); /* the window may be open already */
    return FY_OK;
}

/* ---- bodies ---- */

size_t
fy_wire_room(const struct fy_wire *wire, int32_t id)
{
    const struct stream *stream = find_stream(wire, id);
    if (wire->broken || !stream || !stream->body || stream->finished ||
        stream->cancelled ||
        (wire->role == FY_WIRE_CLIENT && !stream->granted)) {
        return 0;
    }
    int32_t window =
        nghttp2_session_get_stream_remote_window_size(wire->session, id);
    int32_t whole = nghttp2_session_get_remote_window_size(wire->session);
    if (window > whole) {
        window = whole;
    }
    if (window > QUEUE_BYTES) {
        window = QUEUE_BYTES;
    }
    return window > 0 && (size_t)window > stream->queue.bytes
               ? (size_t)window - stream->queue.bytes
               : 0;
}

/* nghttp2 may ask again what the next frame holds. */
static void
resume(struct stream *stream)
{
    if (stream->waits) {
        stream->waits = false;
        (void)nghttp2_session_resume_data(stream->wire->session, stream->id);
    }
}

int
fy_wire_send(struct fy_wire *wire, int32_t id, const void *bytes, size_t n)
{
    struct stream *stream = find_stream(wire, id);
    if (wire->broken) {
        return FY_ERR_IO;
    }
    if (!stream || stream->cancelled) {
        return FY_ERR_NOENT;
    }
    if (!stream->body || stream->finished) {
        return FY_ERR_INVALID;
    }
    if (n > QUEUE_MAX_BYTES - stream->queue.bytes) {
        return FY_ERR_OVERFLOW;
    }
    int status = fy_rope_add(&stream->queue, &wire->pool, bytes, n);
    if (!status && n) {
        resume(stream);
    }
    return status;
}

int
fy_wire_finish(struct fy_wire *wire, int32_t id,
               const struct fy_wire_pair *pairs, size_t npairs)
{
    struct stream *stream = find_stream(wire, id);
    if (wire->broken) {
        return FY_ERR_IO;
    }
    if (!stream || stream->cancelled) {
        return FY_ERR_NOENT;
    }
    if (!stream->body || stream->finished || npairs > FY_WIRE_MAX_PAIRS ||
        (npairs && wire->role != FY_WIRE_SERVER)) {
        return FY_ERR_INVALID;
    }
    if (npairs) {
        struct trailers *trailers = malloc(sizeof *trailers);
        if (!trailers) {
            return FY_ERR_NOMEM;
        }
        trailers->n = npairs;
        int status = set_fields(trailers->fields, pairs, npairs, trailers->text,
                                sizeof trailers->text);
        if (status) {
            free(trailers);
            return status;
        }
        stream->trailers = trailers;
    }
    stream->finished = true;
    /* All of the body was sent: its trailers need no window, which the peer may
     * never open (a stage that wrote nothing, or into another one). */
    if (stream->trailers && !stream->queue.bytes) {
        stream->last_sent = true;
        return nghttp2_submit_trailer(wire->session, id,
                                      stream->trailers->fields,
                                      stream->trailers->n)
                   ? FY_ERR_NOMEM
                   : FY_OK;
    }
    resume(stream);
    return FY_OK;
}

int
fy_wire_grant(struct fy_wire *wire, int32_t id, size_t bytes)
{
    struct stream *stream = find_stream(wire, id);
    if (wire->broken) {
        return FY_ERR_IO;
    }
    if (!stream) {
        return FY_ERR_NOENT;
    }
    if (bytes > FY_WIRE_MAX_GRANT - stream->credit) {
        return FY_ERR_OVERFLOW;
    }
    stream->credit += bytes;
    stream->untold += bytes;
    wire->any_untold |= stream->open && stream->untold > 0;
    return FY_OK;
}

void
fy_wire_cancel(struct fy_wire *wire, int32_t id)
{
    struct stream *stream = find_stream(wire, id);
    if (wire->broken || !stream || stream->cancelled) {
        return;
    }
    drop_queue(stream);
    stream->cancelled = true;
    (void)nghttp2_submit_rst_stream(wire->session, NGHTTP2_FLAG_NONE, id,
                                    NGHTTP2_CANCEL);
}

/* ---- facts ---- */

void
fy_wire_counters(const struct fy_wire *wire, struct fy_wire_counters *out)
{
    *out = wire->counters;
    out->unanswered_ns = wire->ping_sent_ns ? now_ns() - wire->ping_sent_ns : 0;
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
    wire->ping_sent_ns = now_ns();
    memcpy(payload, &wire->ping_sent_ns, sizeof payload);
    if (nghttp2_submit_ping(wire->session, NGHTTP2_FLAG_NONE, payload)) {
        wire->ping_sent_ns = 0;
        return FY_ERR_NOMEM;
    }
    return FY_OK;
}
