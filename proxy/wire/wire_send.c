/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests, responses and bodies of ours: queued in their streams' ropes, made
 * into frames when nghttp2 says whose turn it is.
 */
#include "config.h"

#include "proxy/wire/wires.h"

#include <stdlib.h>
#include <string.h>

#include "common/debug.h"

enum {
    QUEUE_MAX_BYTES = 16 << 20
};

/* ---- frames ---- */

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

/* The end of a response goes when all of its body has, as a head: nghttp2 sends no
 * DATA frame, not even an empty one, without a window, which the peer may never
 * open (a stage that wrote nothing, or into another one; one whose reader takes no
 * more). */
static int
send_end(struct fy_wire_stream *stream)
{
    const struct fy_wire_trailers *trailers = stream->trailers;
    if (stream->wire->role == FY_WIRE_CLIENT ||
        stream->sending != FY_SENDING_REST || stream->queue.bytes) {
        return 0;
    }
    stream->sending = FY_SENDING_OVER;
    return nghttp2_submit_trailer(stream->wire->session, stream->id,
                                  trailers ? trailers->fields : NULL,
                                  trailers ? trailers->n : 0);
}

/* A frame's head and its body, out of the stream's queue. */
static int
on_send_data(nghttp2_session *session, nghttp2_frame *frame,
             const uint8_t *head, size_t n, nghttp2_data_source *source,
             void *user)
{
    struct fy_wire *wire = user;
    struct fy_wire_stream *stream = fy_wire_find(wire, frame->hd.stream_id);
    (void)session;
    (void)source;
    if (wire->out.bytes >= wire->batch_bytes) {
        return NGHTTP2_ERR_WOULDBLOCK;
    }
    if (!stream || stream->queue.bytes < n) { /* cancelled meanwhile */
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    if (fy_rope_add(&wire->out, &wire->pool, head, 9) ||
        fy_rope_move(&wire->out, &stream->queue, n) || send_end(stream)) {
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    }
    fy_wire_mark(stream);
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

/* nghttp2 asks for the next frame of a body. */
static ssize_t
on_read_body(nghttp2_session *session, int32_t id, uint8_t *buffer, size_t most,
             uint32_t *flags, nghttp2_data_source *source, void *user)
{
    struct fy_wire_stream *stream = fy_wire_find(user, id);
    (void)session;
    (void)buffer;
    (void)source;
    if (!stream) {
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    if (stream->sending >= FY_SENDING_OVER) {
        return NGHTTP2_ERR_DEFERRED; /* its end went before */
    }
    size_t n = stream->queue.bytes < most ? stream->queue.bytes : most;
    bool last = stream->sending == FY_SENDING_REST && !stream->trailers &&
                n == stream->queue.bytes;
    if (!n && !last) {
        stream->waits = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    if (n) {
        *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    }
    if (last) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        stream->sending = FY_SENDING_OVER;
    }
    return (ssize_t)n;
}

static int
on_frame_sent(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct fy_wire *wire = user;
    (void)session;
    if (frame->hd.type == NGHTTP2_DATA && frame->hd.length &&
        nghttp2_session_get_stream_remote_window_size(
            wire->session, frame->hd.stream_id) == 0) {
        fy_wire_full(wire);
    }
    if (frame->hd.type == NGHTTP2_HEADERS && wire->role == FY_WIRE_CLIENT) {
        struct fy_wire_stream *stream = fy_wire_find(wire, frame->hd.stream_id);
        if (stream) {
            stream->open = true;
            wire->any_untold |= stream->untold > 0;
        }
    }
    return 0;
}

void
fy_wire_send_callbacks(nghttp2_session_callbacks *callbacks)
{
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks,
                                                         on_frame_sent);
    nghttp2_session_callbacks_set_send_callback(callbacks, on_send);
    nghttp2_session_callbacks_set_send_data_callback(callbacks, on_send_data);
    nghttp2_session_callbacks_set_data_source_read_length_callback(
        callbacks, on_frame_length);
}

/* ---- requests and responses ---- */

/* A field to be sent: characters that no header may hold become '?'. */
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
    /* Small bodies (signals, stderr) go before large ones. */
    nghttp2_priority_spec priority;
    nghttp2_priority_spec_init(&priority, 0, body ? 16 : NGHTTP2_MAX_WEIGHT, 0);
    nghttp2_data_provider provider = {{0}, on_read_body};
    int32_t id = nghttp2_submit_request(wire->session, &priority, fields,
                                        sizeof fields / sizeof fields[0],
                                        body ? &provider : NULL, NULL);
    if (id < 0) {
        return id == NGHTTP2_ERR_NOMEM ? FY_ERR_NOMEM : FY_ERR_IO;
    }
    struct fy_wire_stream *stream = fy_wire_add(wire, id);
    if (!stream) {
        (void)nghttp2_submit_rst_stream(wire->session, NGHTTP2_FLAG_NONE, id,
                                        NGHTTP2_CANCEL);
        return FY_ERR_NOMEM;
    }
    stream->user = user;
    stream->told = true;
    stream->body = body;
    stream->sending = body ? FY_SENDING_BODY : FY_SENDING_OVER;
    fy_debug(WIRE, "stream %d: asks %s", id, path);
    *out = id;
    return FY_OK;
}

int
fy_wire_respond(struct fy_wire *wire, int32_t id, int status,
                const struct fy_wire_pair *pairs, size_t npairs, bool body)
{
    struct fy_wire_stream *stream = fy_wire_find(wire, id);
    if (wire->broken) {
        return FY_ERR_IO;
    }
    if (!stream || stream->sending == FY_SENDING_CANCELLED) {
        return FY_ERR_NOENT;
    }
    if (wire->role != FY_WIRE_SERVER || stream->headed || status < 200 ||
        status > 999 || npairs > FY_WIRE_MAX_PAIRS - 1) {
        return FY_ERR_INVALID;
    }
    fy_debug(WIRE, "stream %d: answers %d", id, status);
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
    stream->sending = body ? FY_SENDING_BODY : FY_SENDING_OVER;
    fy_wire_mark(stream); /* the window may be open already */
    return FY_OK;
}

/* ---- bodies ---- */

size_t
fy_wire_room(const struct fy_wire *wire, int32_t id)
{
    const struct fy_wire_stream *stream = fy_wire_find(wire, id);
    if (wire->broken || !stream || !stream->body ||
        stream->sending != FY_SENDING_BODY ||
        (wire->role == FY_WIRE_CLIENT && !stream->granted)) {
        return 0;
    }
    int32_t window =
        nghttp2_session_get_stream_remote_window_size(wire->session, id);
    int32_t whole = nghttp2_session_get_remote_window_size(wire->session);
    if (window > whole) {
        window = whole;
    }
    if (window > FY_WIRE_QUEUE_BYTES) {
        window = FY_WIRE_QUEUE_BYTES;
    }
    return window > 0 && (size_t)window > stream->queue.bytes
               ? (size_t)window - stream->queue.bytes
               : 0;
}

/* nghttp2 may ask again for the next frame. */
static void
resume(struct fy_wire_stream *stream)
{
    if (stream->waits) {
        stream->waits = false;
        (void)nghttp2_session_resume_data(stream->wire->session, stream->id);
    }
}

int
fy_wire_send(struct fy_wire *wire, int32_t id, const void *bytes, size_t n)
{
    fy_debug(WIRE, "stream %d: sends %zu bytes", id, n);
    struct fy_wire_stream *stream = fy_wire_find(wire, id);
    if (wire->broken) {
        return FY_ERR_IO;
    }
    if (!stream || stream->sending == FY_SENDING_CANCELLED) {
        return FY_ERR_NOENT;
    }
    if (!stream->body || stream->sending != FY_SENDING_BODY) {
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
    struct fy_wire_stream *stream = fy_wire_find(wire, id);
    if (wire->broken) {
        return FY_ERR_IO;
    }
    if (!stream || stream->sending == FY_SENDING_CANCELLED) {
        return FY_ERR_NOENT;
    }
    if (!stream->body || stream->sending != FY_SENDING_BODY ||
        npairs > FY_WIRE_MAX_PAIRS ||
        (npairs && wire->role != FY_WIRE_SERVER)) {
        return FY_ERR_INVALID;
    }
    if (npairs) {
        struct fy_wire_trailers *trailers = malloc(sizeof *trailers);
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
    stream->sending = FY_SENDING_REST;
    if (wire->role == FY_WIRE_CLIENT) {
        resume(stream);
    }
    return send_end(stream) ? FY_ERR_NOMEM : FY_OK;
}

int
fy_wire_grant(struct fy_wire *wire, int32_t id, size_t bytes)
{
    struct fy_wire_stream *stream = fy_wire_find(wire, id);
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
    struct fy_wire_stream *stream = fy_wire_find(wire, id);
    if (wire->broken || !stream || stream->sending == FY_SENDING_CANCELLED) {
        return;
    }
    fy_wire_drop(stream);
    (void)nghttp2_submit_rst_stream(wire->session, NGHTTP2_FLAG_NONE, id,
                                    NGHTTP2_CANCEL);
}
