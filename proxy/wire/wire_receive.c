/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Passes the peer's frames from nghttp2 to the owner of the wire. All of it is untrusted:
 * fields are bounded, order is checked by nghttp2.
 */
#include "config.h"

#include "common/clock.h"
#include "common/debug.h"
#include "proxy/wire/wires.h"

#include <stdlib.h>
#include <string.h>

static int
on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame,
                 void *user)
{
    struct fy_wire *wire = user;
    (void)session;
    wire->head->npairs = wire->head->used = 0;
    wire->head->method = wire->head->path = NULL;
    if (wire->role == FY_WIRE_SERVER && frame->hd.type == NGHTTP2_HEADERS &&
        frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
        struct fy_wire_stream *stream = fy_wire_add(wire, frame->hd.stream_id);
        if (!stream) {
            return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
        }
        stream->open = true;
    }
    return 0;
}

/* A NUL-terminated copy within the head, or NULL. */
static char *
head_copy(struct fy_wire_head *head, const uint8_t *bytes, size_t n)
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
    struct fy_wire_head *head = wire->head;
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
ended(struct fy_wire_stream *stream, const struct fy_wire_pair *pairs,
      size_t npairs)
{
    struct fy_wire *wire = stream->wire;
    if (wire->events.end && stream->told &&
        stream->sending != FY_SENDING_CANCELLED) {
        wire->events.end(wire->context, stream->id, stream->user, pairs,
                         npairs);
    }
    /* The server is done: this proxy drops later bytes of the client. */
    if (wire->role == FY_WIRE_CLIENT &&
        (stream->sending == FY_SENDING_BODY ||
         (stream->sending == FY_SENDING_REST && stream->queue.bytes))) {
        fy_wire_drop(stream);
        (void)nghttp2_submit_rst_stream(wire->session, NGHTTP2_FLAG_NONE,
                                        stream->id, NGHTTP2_NO_ERROR);
    }
}

static void
received_head(struct fy_wire_stream *stream, const nghttp2_frame *frame)
{
    struct fy_wire *wire = stream->wire;
    struct fy_wire_head *head = wire->head;
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
        fy_debug(WIRE, "stream %d: is asked %s", stream->id, head->path);
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
        fy_debug(WIRE, "stream %d: is answered %d", stream->id, head->status);
        if (wire->events.response && stream->sending != FY_SENDING_CANCELLED) {
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

/* Notes a round trip. Whatever is slower than the least of the last ones waited
 * for something else than the link: a peer that was busy, a queue. */
static int
pinged(struct fy_wire *wire, const uint8_t *payload)
{
    if (!wire->ping_sent_ns ||
        memcmp(payload, &wire->ping_sent_ns, sizeof wire->ping_sent_ns) != 0) {
        return 0;
    }
    uint64_t took = fy_clock_ns() - wire->ping_sent_ns;
    wire->rtts_ns[wire->npings++ % FY_WIRE_RTTS] = took ? took : 1;
    wire->ping_sent_ns = 0;
    uint64_t least = UINT64_MAX;
    for (unsigned i = 0; i < FY_WIRE_RTTS && i < wire->npings; i++) {
        least = wire->rtts_ns[i] < least ? wire->rtts_ns[i] : least;
    }
    wire->counters.rtt_ns = least;
    /* The first ones come while the peer is just starting. */
    if (wire->role == FY_WIRE_CLIENT && wire->npings < FY_WIRE_RTTS / 2 &&
        fy_wire_ping(wire)) {
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    }
    return 0;
}

static int
on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct fy_wire *wire = user;
    struct fy_wire_stream *stream = fy_wire_find(wire, frame->hd.stream_id);
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
            fy_wire_mark(stream);
        } else if (!frame->hd.stream_id) {
            for (stream = wire->streams; stream; stream = stream->hh.next) {
                fy_wire_mark(stream);
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
        if (frame->hd.flags & NGHTTP2_FLAG_ACK) {
            return pinged(wire, frame->ping.opaque_data);
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
    struct fy_wire_stream *stream = fy_wire_find(wire, id);
    (void)flags;
    fy_debug(WIRE, "stream %d: %zu bytes came", id, n);
    if (stream) {
        stream->credit -= stream->credit < n ? stream->credit : n;
    }
    if (stream && stream->told && stream->sending != FY_SENDING_CANCELLED &&
        wire->events.data) {
        wire->events.data(wire->context, id, stream->user, bytes, n);
    }
    /* Each stream's window bounds the bytes on their way; the connection's own
     * never holds anything up. */
    return nghttp2_session_consume_connection(session, n)
               ? NGHTTP2_ERR_CALLBACK_FAILURE
               : 0;
}

static int
on_stream_close(nghttp2_session *session, int32_t id, uint32_t error,
                void *user)
{
    struct fy_wire_stream *stream = fy_wire_find(user, id);
    (void)session;
    fy_debug(WIRE, "stream %d: closed, error %u", id, error);
    if (stream) {
        fy_wire_remove(stream, error);
    }
    return 0;
}

void
fy_wire_receive_callbacks(nghttp2_session_callbacks *callbacks)
{
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks,
                                                            on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks,
                                                              on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks,
                                                           on_stream_close);
}
