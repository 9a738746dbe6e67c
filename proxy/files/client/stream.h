/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way to the storage: starts the proxy (ssh or loopback), says hello, opens POST
 * /files and keeps it open; after a break it is opened again, with growing pauses. This
 * file does not interpret the bytes. Of thread T1.
 */
#ifndef FERRY_PROXY_FILES_CLIENT_STREAM_H
#define FERRY_PROXY_FILES_CLIENT_STREAM_H

#include "proxy/wire/loop.h"
#include "proxy/wire/transport.h"
#include "proxy/wire/wire.h"

enum fy_stream_state {
    FY_FILES_STREAM_CLOSED, /* not begun, or it waits for the next try */
    FY_FILES_STREAM_GREETING, /* the proxy was started, its first line is awaited */
    FY_FILES_STREAM_HELLO, /* its answer to /hello is awaited */
    FY_FILES_STREAM_OPEN,  /* /files was asked for: bytes may be sent */
};

struct fy_stream_events {
    /* Bytes may be sent, from the begin of a new stream. */
    void (*opened)(void *owner);
    void (*bytes)(void *owner, const void *bytes, size_t n);
    void (*room)(void *owner);
    /* Broken or never opened. `final': another try cannot help. */
    void (*broken)(void *owner, const char *why, bool final);
};

struct fy_stream {
    struct fy_loop *loop;
    const struct fy_place *place;
    const char *ferry;
    const struct fy_stream_events *events;
    void *owner;
    enum fy_stream_state state;
    struct fy_link link;
    struct fy_wire *wire;
    struct fy_watch in, out; /* one descriptor: only `in' */
    struct fy_timer
        limit; /* of connecting; then the keep-alive; then the pause */
    int32_t hello, files; /* streams of the wire */
    size_t taken;         /* of `files', and not granted again yet */
    char *hello_bytes;
    size_t hello_used;
    uint32_t uid, gid; /* of the proxy's user, once OPEN */
    unsigned tries;    /* since the last that was OPEN */
    bool final;
    bool ending;       /* no more tries */
    char trouble[256]; /* why it is to be closed; "" */
    uint64_t heard_bytes;
    uint64_t received_bytes, sent_bytes, rtt_ns; /* of earlier connections */
};

/* Starts the first try. The strings and the place are borrowed. */
void fy_stream_start(struct fy_stream *stream);
/* After each turn of the loop: writes, and breaks the stream if that was asked. */
void fy_stream_flush(struct fy_stream *stream);
size_t fy_stream_room(const struct fy_stream *stream);
/* At most fy_stream_room() bytes. */
void fy_stream_send(struct fy_stream *stream, const void *bytes, size_t n);
/* A message cannot be understood: the stream is broken at the end of the round. */
void fy_stream_break(struct fy_stream *stream, const char *why, bool final);
/* Ends the body cleanly: the mount has ended. */
void fy_stream_finish(struct fy_stream *stream);
void fy_stream_close(struct fy_stream *stream);
/* Of all connections so far. */
void fy_stream_counters(const struct fy_stream *stream,
                        struct fy_wire_counters *out);

#endif
