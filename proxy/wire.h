/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection between a session and a proxy: HTTP/2 over two file
 * descriptors, by nghttp2. Both ends use this file; what the requests mean is
 * PROTOCOL.md, spec.h has their bodies.
 *
 * Nothing blocks: the owner polls the descriptors and calls fy_wire_io(). One
 * thread per connection. Callbacks run inside fy_wire_io(); they may call
 * anything here but fy_wire_free().
 *
 * Flow control: a stream's receive window is 0 until fy_wire_grant() opens it,
 * which is how the output of a stage waits at its proxy until its reader is
 * known. The connection's own window is handled here.
 */
#ifndef FERRY_PROXY_WIRE_H
#define FERRY_PROXY_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

enum fy_wire_role {
    FY_WIRE_CLIENT,
    FY_WIRE_SERVER
};

struct fy_wire;

/* A header or trailer of ours: lower-case name, value without newlines. */
struct fy_wire_pair {
    const char *name, *value;
};

struct fy_wire_events {
    /* Server: a request began. `method' is "GET" or "POST". Sets *out_user. */
    void (*request)(void *context, int32_t stream, const char *method,
                    const char *path, void **out_user);
    /* Client: the head of a response. status: 200, 4xx, 5xx. */
    void (*response)(void *context, int32_t stream, void *user, int status,
                     const struct fy_wire_pair *pairs, size_t npairs);
    /* Bytes of the body; they count against what was granted. */
    void (*data)(void *context, int32_t stream, void *user, const void *bytes,
                 size_t n);
    /* The other side's body is complete; with trailers, if it sent some. */
    void (*end)(void *context, int32_t stream, void *user,
                const struct fy_wire_pair *trailers, size_t ntrailers);
    /* What we queued on this stream went below half of the queue limit, or the
     * peer's window opened: more may be sent. */
    void (*ready)(void *context, int32_t stream, void *user);
    /* The stream is gone; error: 0, or an HTTP/2 error code. Last callback. */
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

int fy_wire_in_fd(const struct fy_wire *wire);
int fy_wire_out_fd(const struct fy_wire *wire);
bool fy_wire_wants_write(const struct fy_wire *wire);

/* Reads and writes what can be. FY_ERR_IO: ended or broken: free it. */
int fy_wire_io(struct fy_wire *wire, bool readable, bool writable)
    FY_MUST_CHECK;

/* Client: a request; body: fy_wire_send() and fy_wire_finish() follow (POST),
 * else GET. The stream's number in *out. */
int fy_wire_request(struct fy_wire *wire, const char *path, bool body,
                    void *user, int32_t *out) FY_MUST_CHECK;
/* Server: the head of the response; body as above. */
int fy_wire_respond(struct fy_wire *wire, int32_t stream, int status,
                    const struct fy_wire_pair *pairs, size_t npairs, bool body)
    FY_MUST_CHECK;

/* How many bytes fy_wire_send() takes now: the peer's window less what waits;
 * 0 while the peer has not opened the window. */
size_t fy_wire_room(const struct fy_wire *wire, int32_t stream);
/* Queues a copy of the bytes; more than fy_wire_room() is queued all the same
 * (spec bodies), FY_ERR_OVERFLOW beyond 16 MiB. */
int fy_wire_send(struct fy_wire *wire, int32_t stream, const void *bytes,
                 size_t n) FY_MUST_CHECK;
/* Ends our body, with trailers (ntrailers may be 0; server only). */
int fy_wire_finish(struct fy_wire *wire, int32_t stream,
                   const struct fy_wire_pair *trailers, size_t ntrailers)
    FY_MUST_CHECK;
/* Lets the peer send `bytes' more on this stream. */
int fy_wire_grant(struct fy_wire *wire, int32_t stream, size_t bytes)
    FY_MUST_CHECK;
/* RST_STREAM(CANCEL); `closed' follows from fy_wire_io(). */
void fy_wire_cancel(struct fy_wire *wire, int32_t stream);

/* Bytes that crossed the descriptors so far, and a PING's last round trip. */
struct fy_wire_counters {
    uint64_t received_bytes, sent_bytes;
    uint64_t rtt_ns; /* 0: none yet */
};
void fy_wire_counters(const struct fy_wire *wire, struct fy_wire_counters *out);
int fy_wire_ping(struct fy_wire *wire) FY_MUST_CHECK;

#endif
