/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connection of a mount to its proxy, and the one stream on it; see the header.
 */
#include "config.h"

#include "proxy/files/client/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "common/debug.h"
#include "proxy/wire/spec.h"

enum {
    CONNECT_SECONDS = 30,
    KEEPALIVE_SECONDS = 10, /* two of them without a byte: it is lost */
    PAUSE_SECONDS_MAX = 10,
    HELLO_BYTES = 64 << 10,
    WINDOW_BYTES = 32 << 20, /* bytes that the server may send ahead */
    CLOSE_MS = 500,
};
static const uint64_t second_ns = 1000000000;

void
fy_stream_break(struct fy_stream *stream, const char *why, bool final)
{
    if (!stream->trouble[0]) {
        (void)snprintf(stream->trouble, sizeof stream->trouble, "%s",
                       *why ? why : "the connection is lost");
    }
    stream->final = stream->final || final;
}

/* ---- events of the wire ---------------------------------------------------------------- */

static void
on_response(void *context, int32_t number, void *user, int status,
            const struct fy_wire_pair *pairs, size_t npairs)
{
    struct fy_stream *stream = context;
    (void)user;
    (void)pairs;
    (void)npairs;
    if (status == 200) {
        return;
    }
    fy_stream_break(stream,
                    number == stream->files && status == 403
                        ? "the proxy does not serve files"
                        : "its ferry is of another version",
                    true);
}

static void
on_data(void *context, int32_t number, void *user, const void *bytes, size_t n)
{
    struct fy_stream *stream = context;
    (void)user;
    if (stream->trouble[0]) {
        return;
    }
    if (number == stream->files) {
        stream->taken += n;
        if (stream->taken >= WINDOW_BYTES / 2) {
            if (fy_wire_grant(stream->wire, number, stream->taken)) {
                fy_stream_break(stream, "no memory", false);
            }
            stream->taken = 0;
        }
        stream->events->bytes(stream->owner, bytes, n);
        return;
    }
    if (n > HELLO_BYTES - stream->hello_used) {
        fy_stream_break(stream, "its hello is too long", true);
        return;
    }
    memcpy(stream->hello_bytes + stream->hello_used, bytes, n);
    stream->hello_used += n;
}

static int
ask_for_files(struct fy_stream *stream)
{
    int status =
        fy_wire_request(stream->wire, "/files", true, NULL, &stream->files);
    return status ? status
                  : fy_wire_grant(stream->wire, stream->files, WINDOW_BYTES);
}

/* The hello is complete. */
static void
hello_came(struct fy_stream *stream)
{
    char text[200];
    struct fy_buffer why;
    struct fy_hello hello;
    fy_buffer_start(&why, text, sizeof text);
    stream->hello_bytes[stream->hello_used] = '\0';
    if (fy_hello_decode(stream->hello_bytes, stream->hello_used, &hello,
                        &why)) {
        fy_stream_break(stream, text, true);
        return;
    }
    stream->uid = hello.uid;
    stream->gid = hello.gid;
    if (ask_for_files(stream) || fy_wire_ping(stream->wire)) {
        fy_stream_break(stream, "", false);
        return;
    }
    stream->state = FY_FILES_STREAM_OPEN;
    stream->heard_bytes = 0;
    fy_loop_set(stream->loop, &stream->limit, KEEPALIVE_SECONDS * second_ns);
    stream->events->opened(stream->owner);
}

static void
on_end(void *context, int32_t number, void *user,
       const struct fy_wire_pair *trailers, size_t ntrailers)
{
    struct fy_stream *stream = context;
    (void)user;
    (void)trailers;
    (void)ntrailers;
    if (stream->trouble[0]) {
        return;
    }
    if (number == stream->files) {
        fy_stream_break(stream, "the process at the storage ended", false);
    } else if (stream->state == FY_FILES_STREAM_HELLO) {
        hello_came(stream);
    }
}

static void
on_ready(void *context, int32_t number, void *user)
{
    struct fy_stream *stream = context;
    (void)user;
    if (number == stream->files && !stream->trouble[0]) {
        stream->events->room(stream->owner);
    }
}

static void
on_closed(void *context, int32_t number, void *user, uint32_t error)
{
    struct fy_stream *stream = context;
    (void)user;
    (void)error;
    if (number == stream->files ||
        (number == stream->hello && stream->state == FY_FILES_STREAM_HELLO)) {
        fy_stream_break(stream, "", false);
    }
}

static const struct fy_wire_events wire_events = {
    .response = on_response,
    .data = on_data,
    .end = on_end,
    .ready = on_ready,
    .closed = on_closed,
};

/* ---- connecting -------------------------------------------------------------------------- */

static void
move(struct fy_stream *stream, bool readable, bool writable)
{
    if (stream->wire && !stream->trouble[0] &&
        fy_wire_io(stream->wire, readable, writable)) {
        char text[200] = "";
        struct fy_buffer why;
        fy_buffer_start(&why, text, sizeof text);
        fy_link_last_words(&stream->link, &why);
        fy_stream_break(stream, text, false);
    }
}

static void
out_ready(void *owner, uint32_t events)
{
    (void)events;
    move(owner, false, true);
}

static int
say_hello(struct fy_stream *stream)
{
    char *body;
    size_t n;
    int status = fy_hello_client(&body, &n);
    if (status) {
        return status;
    }
    stream->hello_used = 0;
    stream->hello_bytes = malloc(HELLO_BYTES + 1);
    status = stream->hello_bytes ? fy_wire_request(stream->wire, "/hello", true,
                                                   NULL, &stream->hello)
                                 : FY_ERR_NOMEM;
    status = status ? status
                    : fy_wire_grant(stream->wire, stream->hello, HELLO_BYTES);
    status =
        status ? status : fy_wire_send(stream->wire, stream->hello, body, n);
    status =
        status ? status : fy_wire_finish(stream->wire, stream->hello, NULL, 0);
    free(body);
    return status;
}

/* The wire takes the link's descriptors, and the hello is queued. */
static void
open_wire(struct fy_stream *stream)
{
    struct fy_link *link = &stream->link;
    int out = link->out == link->in ? -1 : link->out;
    if (fy_wire_new(FY_WIRE_CLIENT, link->in, link->out, &wire_events, stream,
                    &stream->wire)) {
        fy_stream_break(stream, "no memory", false);
        return;
    }
    link->in = link->out = -1;
    stream->out =
        (struct fy_watch){.fd = out, .ready = out_ready, .owner = stream};
    if (fy_loop_watch(stream->loop, &stream->out, EPOLLERR) ||
        say_hello(stream)) {
        fy_stream_break(stream, "no memory", false);
    }
}

static void
greet(struct fy_stream *stream)
{
    char text[200];
    struct fy_buffer why;
    fy_buffer_start(&why, text, sizeof text);
    int status = fy_link_greet(&stream->link, &why);
    if (status == FY_ERR_BUSY) {
        return;
    }
    if (status) {
        fy_stream_break(stream, text, false);
        return;
    }
    stream->state = FY_FILES_STREAM_HELLO;
    open_wire(stream);
}

static void
in_ready(void *owner, uint32_t events)
{
    struct fy_stream *stream = owner;
    bool readable = (events & ~(uint32_t)EPOLLOUT) != 0;
    if (stream->state == FY_FILES_STREAM_GREETING) {
        if (readable && !stream->trouble[0]) {
            greet(stream);
        }
        return;
    }
    move(stream, readable, (events & EPOLLOUT) != 0);
}

static void
keep_alive(struct fy_stream *stream)
{
    struct fy_wire_counters counters;
    fy_wire_counters(stream->wire, &counters);
    if (stream->heard_bytes == counters.received_bytes) {
        fy_stream_break(stream, "the connection is silent", false);
        return;
    }
    stream->heard_bytes = counters.received_bytes;
    if (fy_wire_ping(stream->wire)) {
        fy_stream_break(stream, "", false);
        return;
    }
    fy_loop_set(stream->loop, &stream->limit, KEEPALIVE_SECONDS * second_ns);
}

static void
limit_due(void *owner)
{
    struct fy_stream *stream = owner;
    if (stream->state == FY_FILES_STREAM_CLOSED) {
        fy_stream_start(stream);
    } else if (stream->state == FY_FILES_STREAM_OPEN) {
        keep_alive(stream);
    } else {
        fy_stream_break(stream, "it did not answer in time", false);
    }
}

void
fy_stream_start(struct fy_stream *stream)
{
    char text[200] = "";
    struct fy_buffer why;
    fy_buffer_start(&why, text, sizeof text);
    stream->limit = (struct fy_timer){.run = limit_due, .owner = stream};
    stream->in = stream->out = (struct fy_watch){.fd = -1};
    stream->trouble[0] = '\0';
    stream->hello = stream->files = -1;
    stream->taken = 0;
    memset(&stream->link, 0, sizeof stream->link);
    stream->tries++;
    if (fy_link_open(stream->place, stream->ferry, &why, &stream->link)) {
        fy_stream_break(stream, text, stream->tries == 1);
        return;
    }
    stream->state = FY_FILES_STREAM_GREETING;
    stream->in = (struct fy_watch){
        .fd = stream->link.in, .ready = in_ready, .owner = stream};
    fy_loop_set(stream->loop, &stream->limit, CONNECT_SECONDS * second_ns);
    if (fy_loop_watch(stream->loop, &stream->in, EPOLLIN)) {
        fy_stream_break(stream, "no memory", false);
    }
}

/* ---- the end of a connection --------------------------------------------------------------- */

static void
disconnect(struct fy_stream *stream)
{
    fy_loop_forget(stream->loop, &stream->in);
    fy_loop_forget(stream->loop, &stream->out);
    fy_loop_unset(stream->loop, &stream->limit);
    if (stream->wire) {
        struct fy_wire_counters counters;
        fy_stream_counters(stream, &counters);
        stream->received_bytes = counters.received_bytes;
        stream->sent_bytes = counters.sent_bytes;
        stream->rtt_ns = counters.rtt_ns;
        struct fy_wire *wire = stream->wire;
        fy_wire_free(wire);
        stream->wire = NULL;
    }
    if (stream->state != FY_FILES_STREAM_CLOSED) {
        fy_link_close(&stream->link,
                      stream->state == FY_FILES_STREAM_OPEN && stream->ending
                          ? CLOSE_MS
                          : 0);
    }
    free(stream->hello_bytes);
    stream->hello_bytes = NULL;
    stream->state = FY_FILES_STREAM_CLOSED;
}

void
fy_stream_flush(struct fy_stream *stream)
{
    if (stream->wire && !stream->trouble[0] &&
        fy_wire_wants_write(stream->wire)) {
        move(stream, false, true);
    }
    if (stream->trouble[0]) {
        char why[sizeof stream->trouble];
        memcpy(why, stream->trouble, sizeof why);
        fy_debug(CLIENT, "mount: connection: %s", why);
        stream->tries =
            stream->state == FY_FILES_STREAM_OPEN ? 0 : stream->tries;
        disconnect(stream);
        stream->trouble[0] = '\0';
        unsigned pause = stream->tries < PAUSE_SECONDS_MAX ? stream->tries
                                                           : PAUSE_SECONDS_MAX;
        if (!stream->ending && !stream->final) {
            fy_loop_set(stream->loop, &stream->limit, pause * second_ns);
        }
        stream->events->broken(stream->owner, why, stream->final);
    }
    if (!stream->wire) {
        return;
    }
    bool more = fy_wire_wants_write(stream->wire);
    if (stream->out.fd >= 0) {
        (void)fy_loop_watch(stream->loop, &stream->out,
                            more ? EPOLLOUT : EPOLLERR);
    } else {
        (void)fy_loop_watch(stream->loop, &stream->in,
                            EPOLLIN | (more ? EPOLLOUT : 0));
    }
}

size_t
fy_stream_room(const struct fy_stream *stream)
{
    return stream->state == FY_FILES_STREAM_OPEN && !stream->trouble[0]
               ? fy_wire_room(stream->wire, stream->files)
               : 0;
}

void
fy_stream_send(struct fy_stream *stream, const void *bytes, size_t n)
{
    if (fy_wire_send(stream->wire, stream->files, bytes, n)) {
        fy_stream_break(stream, "", false);
    }
}

void
fy_stream_finish(struct fy_stream *stream)
{
    stream->ending = true;
    if (stream->state == FY_FILES_STREAM_OPEN && !stream->trouble[0] &&
        fy_wire_finish(stream->wire, stream->files, NULL, 0)) {
        fy_stream_break(stream, "", false);
    }
}

void
fy_stream_close(struct fy_stream *stream)
{
    stream->ending = true;
    disconnect(stream);
}

void
fy_stream_counters(const struct fy_stream *stream, struct fy_wire_counters *out)
{
    struct fy_wire_counters now = {0};
    if (stream->wire) {
        fy_wire_counters(stream->wire, &now);
    }
    *out = now;
    out->received_bytes += stream->received_bytes;
    out->sent_bytes += stream->sent_bytes;
    out->rtt_ns = now.rtt_ns ? now.rtt_ns : stream->rtt_ns;
}
