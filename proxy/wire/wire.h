/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection between a session and a proxy: HTTP/2 over two file
 * descriptors, by nghttp2. Both ends use this file; PROTOCOL.md has the
 * meaning of the requests, spec.h has their bodies.
 *
 * Nothing blocks: the owner polls the descriptors and calls fy_wire_io(). One
 * thread per connection. Callbacks run inside fy_wire_io(); they may call
 * anything here but fy_wire_free().
 *
 * Flow control: bytes for a client's stream wait at the server until
 * fy_wire_grant() opens the window, which is how the output of a stage waits at
 * its proxy until its reader is known. A request may bring the first
 * FY_WIRE_REQUEST_WINDOW bytes of its body unasked, so that a spec costs no
 * round trip; fy_wire_room() still says 0 to a client until the server granted
 * something. The connection's own window is handled here.
 *
 * The owner must ignore or block SIGPIPE when out_fd is a pipe.
 */
#ifndef FERRY_PROXY_WIRE_WIRE_H
#define FERRY_PROXY_WIRE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

enum {
    FY_WIRE_FRAME_BYTES = 128 << 10, /* of a DATA frame's body at most */
    FY_WIRE_READ_BYTES = 256 << 10,  /* taken from the descriptor at once */
    FY_WIRE_REQUEST_WINDOW = 65535,  /* HTTP/2's own initial window */
    FY_WIRE_MAX_GRANT = 1 << 30,     /* open at once, on one stream */
    FY_WIRE_MAX_STREAMS = 4096,      /* open at once, on a connection */
    FY_WIRE_MAX_PAIRS = 32,          /* fields of a head or of trailers */
    FY_WIRE_MAX_HEAD_BYTES = 32 << 10,
    FY_WIRE_MAX_VALUE_BYTES = 8 << 10, /* longer values are cut */
};

enum fy_wire_role {
    FY_WIRE_CLIENT,
    FY_WIRE_SERVER
};

struct fy_wire;

/* A header or trailer that ferry sends: name of [a-z0-9-]; control characters in a value
 * are sent as '?', spaces at its ends not at all. */
struct fy_wire_pair {
    const char *name, *value;
};

struct fy_wire_events {
    /* Each may be NULL. Strings and bytes are borrowed for the call.
     *
     * Server: a request began. `method' is "GET" or "POST" (others are refused
     * here). Sets *out_user. */
    void (*request)(void *context, int32_t stream, const char *method,
                    const char *path, void **out_user);
    /* Client: the head of a response. status: 200, 4xx, 5xx. */
    void (*response)(void *context, int32_t stream, void *user, int status,
                     const struct fy_wire_pair *pairs, size_t npairs);
    /* Bytes of the body; they count against the grants. */
    void (*data)(void *context, int32_t stream, void *user, const void *bytes,
                 size_t n);
    /* The other side's body is complete (at once for a GET or a response without
     * one); with trailers, if it sent some. Later bytes of a client are
     * dropped then: the server has said all. */
    void (*end)(void *context, int32_t stream, void *user,
                const struct fy_wire_pair *trailers, size_t ntrailers);
    /* The bytes queued on this stream went below half of the queue limit, or
     * the peer's window opened: more may be sent. */
    void (*ready)(void *context, int32_t stream, void *user);
    /* The stream is gone; error: 0, or an HTTP/2 error code: 8 (CANCEL) when
     * either side cancelled, 7 when the server's wire refused it, 10 when the
     * connection was lost or freed. Last callback. */
    void (*closed)(void *context, int32_t stream, void *user, uint32_t error);
};

/*
 * Takes both descriptors (may be the same; made non-blocking; closed by free).
 * New in *out. FY_ERR_NOMEM, FY_ERR_IO.
 */
int fy_wire_new(enum fy_wire_role role, int in_fd, int out_fd,
                const struct fy_wire_events *events, void *context,
                struct fy_wire **out) FY_MUST_CHECK;
void fy_wire_free(struct fy_wire *wire); /* every stream gets `closed' */
/* Makes a descriptor non-blocking, as fy_wire_new() does with its own. */
int fy_wire_unblock(int fd) FY_MUST_CHECK;

/* Both are for poll() only; the wire keeps and closes them. */
int fy_wire_in_fd(const struct fy_wire *wire);
int fy_wire_out_fd(const struct fy_wire *wire);
/* Returns true if out_fd should be polled for writing; false on a broken
 * connection. */
bool fy_wire_wants_write(const struct fy_wire *wire);

/* Reads and writes as much as possible; `writable': poll() said so (writing
 * is tried anyway unless the last write would have blocked). FY_ERR_IO:
 * ended or broken: free it. */
int fy_wire_io(struct fy_wire *wire, bool readable,
               bool writable) FY_MUST_CHECK;

/* Client: a request; body: fy_wire_send() and fy_wire_finish() follow (POST),
 * else GET. The stream's number in *out. FY_ERR_BUSY: too many are open. */
int fy_wire_request(struct fy_wire *wire, const char *path, bool body,
                    void *user, int32_t *out) FY_MUST_CHECK;
/* Server: the head of the response; body as above. */
int fy_wire_respond(struct fy_wire *wire, int32_t stream, int status,
                    const struct fy_wire_pair *pairs, size_t npairs,
                    bool body) FY_MUST_CHECK;

/* Returns the number of bytes that fy_wire_send() takes now: the peer's
 * window less the queue; 0 while the peer has not opened the window. */
size_t fy_wire_room(const struct fy_wire *wire, int32_t stream);
/* Queues a copy of the bytes; more than fy_wire_room() is queued all the same
 * (spec bodies), FY_ERR_OVERFLOW beyond 16 MiB. FY_ERR_NOENT: the stream is
 * gone, here and below. */
int fy_wire_send(struct fy_wire *wire, int32_t stream, const void *bytes,
                 size_t n) FY_MUST_CHECK;
/* Ends our body, with trailers (ntrailers may be 0; server only). */
int fy_wire_finish(struct fy_wire *wire, int32_t stream,
                   const struct fy_wire_pair *trailers,
                   size_t ntrailers) FY_MUST_CHECK;
/* Lets the peer send `bytes' more on this stream. FY_ERR_OVERFLOW: more than
 * FY_WIRE_MAX_GRANT would be open. */
int fy_wire_grant(struct fy_wire *wire, int32_t stream,
                  size_t bytes) FY_MUST_CHECK;
/* RST_STREAM(CANCEL); `closed' follows from fy_wire_io(). */
void fy_wire_cancel(struct fy_wire *wire, int32_t stream);

/* Bytes that crossed the descriptors so far, the least round trip of the last
 * eight PINGs, how fast the link is. */
struct fy_wire_counters {
    uint64_t received_bytes, sent_bytes;
    uint64_t rtt_ns; /* 0: none yet */
    /* Bytes that the peer took in a second while there was more to send,
     * lately: the link carries at least that; 0: there never was more. */
    uint64_t link_rate;
};
/* Copies the counters as they are now. */
void fy_wire_counters(const struct fy_wire *wire, struct fy_wire_counters *out);
/* Sends a PING unless one is unanswered; a client's first four go by
 * themselves. */
int fy_wire_ping(struct fy_wire *wire) FY_MUST_CHECK;

#endif
