/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of wire*.c: a connection, its streams, and functions that the files
 * share.
 */
#ifndef FERRY_PROXY_WIRE_WIRES_H
#define FERRY_PROXY_WIRE_WIRES_H

#include "proxy/wire/wire.h"

#define HASH_NONFATAL_OOM         1
#define uthash_nonfatal_oom(elem) ((elem)->failed = true)

#include <uthash.h>

#include <nghttp2/nghttp2.h>

#include "proxy/wire/rope.h"

enum {
    FY_WIRE_QUEUE_BYTES = 1 << 20, /* of one stream, told by room() */
    FY_WIRE_RTTS = 8,              /* PINGs that count */
};

/* The fields of one header block; blocks never interleave on a connection. */
struct fy_wire_head {
    struct fy_wire_pair pairs[FY_WIRE_MAX_PAIRS];
    size_t npairs, used;
    int status;
    char *method, *path;
    char text[FY_WIRE_MAX_HEAD_BYTES];
};

/* Fields to be sent after the body. */
struct fy_wire_trailers {
    size_t n, used;
    nghttp2_nv fields[FY_WIRE_MAX_PAIRS];
    char text[FY_WIRE_MAX_HEAD_BYTES];
};

/* Progress of this side's half of a stream. */
enum fy_wire_sending {
    FY_SENDING_BODY,      /* if there is one, it goes on */
    FY_SENDING_REST,      /* fy_wire_finish(): the queue is the rest */
    FY_SENDING_OVER,      /* END_STREAM is on its way */
    FY_SENDING_CANCELLED, /* RST_STREAM is; nothing of the stream is told */
};

struct fy_wire_stream {
    UT_hash_handle hh;
    struct fy_wire *wire;
    void *user;
    struct fy_wire_trailers *trailers;
    struct fy_rope queue;
    uint64_t credit; /* granted and not received ... */
    uint64_t untold; /* ... and the part of it that nghttp2 was not told */
    int32_t id;
    enum fy_wire_sending sending;
    bool told;    /* the owner knows of it */
    bool open;    /* nghttp2 knows of it: its HEADERS went or came */
    bool headed;  /* the head of the response: sent or received */
    bool body;    /* we may still send */
    bool waits;   /* nghttp2 found nothing to send */
    bool granted; /* the peer granted something */
    bool changed; /* `ready' may have to be called */
    bool failed;  /* uthash: no memory */
};

struct fy_wire {
    struct fy_wire_events events;
    void *context;
    nghttp2_session *session;
    struct fy_wire_stream *streams;
    struct fy_wire_head *head; /* of the block that is being received */
    struct fy_rope out;
    struct fy_block_pool pool;
    size_t batch_bytes;
    struct fy_wire_counters counters;
    uint64_t ping_sent_ns; /* of the PING that is not answered; 0: none */
    uint64_t rtts_ns[FY_WIRE_RTTS]; /* the last, a ring */
    unsigned npings;
    uint64_t full_ns, full_bytes; /* time when it was full; bytes that it
                                   * took since */
    enum fy_wire_role role;
    int in_fd, out_fd;
    bool socket;  /* out_fd is one */
    bool blocked; /* the last write would have blocked */
    bool broken;
    bool any_untold, any_changed;
    unsigned char *block; /* FY_WIRE_READ_BYTES */
};

struct fy_wire_stream *fy_wire_find(const struct fy_wire *wire, int32_t id);
struct fy_wire_stream *fy_wire_add(struct fy_wire *wire, int32_t id);
/* Tells its owner that it is closed, and frees it. */
void fy_wire_remove(struct fy_wire_stream *stream, uint32_t error);
/* `ready' may have to be called. */
void fy_wire_mark(struct fy_wire_stream *stream);
/* Forgets queued bytes and takes no more. The caller sends RST_STREAM. */
void fy_wire_drop(struct fy_wire_stream *stream);

/* The peer takes no more now, by its window or the descriptor: how much did it
 * take since that was last so? */
void fy_wire_full(struct fy_wire *wire);

/* wire_receive.c, wire_send.c: set nghttp2's callbacks. */
void fy_wire_receive_callbacks(nghttp2_session_callbacks *callbacks);
void fy_wire_send_callbacks(nghttp2_session_callbacks *callbacks);

#endif
