/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zstd on the body of a response, for links that are slower than the processor
 * ("ferry-encoding: zstd" in the head). Memory is bounded on both sides: the
 * window is 1 MiB, and the decoder gives out only as much as its caller has room for, so
 * that a few bytes cannot become gigabytes. One thread for each object.
 *
 * Sending, when spec.compress:
 *     fy_squeeze_new(0, &squeeze);
 *     n = read(pipe, block, ...);          nothing more to read now: flush
 *     fy_squeeze_set(squeeze, counters.link_rate, fy_squeeze_speed());
 *     fy_squeeze_add(squeeze, block, n, flush, sink, stage);
 *     fy_squeeze_end(squeeze, sink, stage); before fy_wire_finish()
 * Receiving:
 *     fy_unsqueeze_add(unsqueeze, bytes, n);             in the data callback
 *     while (room && !fy_unsqueeze_take(unsqueeze, block, room, &n) && n) ...
 *     Whether all came is known by ferry-out-bytes.
 */
#ifndef FERRY_PROXY_WIRE_COMPRESS_H
#define FERRY_PROXY_WIRE_COMPRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

enum {
    FY_SQUEEZE_WINDOW_LOG = 20,
    FY_UNSQUEEZE_MAX_BYTES = 4 << 20, /* received and not yet taken */
};

/*
 * Returns true if compressing makes a stream faster over a link of that many
 * bytes/s, by a core that compresses at `speed' (fy_squeeze_speed(); 0: a
 * guess) and an output that shrinks to `ratio' of its size (0: a guess, of
 * text). False if the bandwidth is not known (0).
 */
bool fy_squeeze_pays(double bandwidth_bytes, double speed_bytes, double ratio);

/* Returns the bytes that a core of this machine compresses in a second;
 * measured once (a few milliseconds), then remembered. Any thread. */
double fy_squeeze_speed(void);

struct fy_squeeze;

/* Gets the compressed bytes, borrowed for the call; an error ends the call. */
typedef int fy_squeeze_sink(void *context, const void *bytes, size_t n);

/* Decides whether bytes added from now on are compressed (as at first) or
 * stored, which costs next to nothing: by fy_squeeze_pays() and the ratio of
 * the stream lately. */
void fy_squeeze_set(struct fy_squeeze *squeeze, double bandwidth_bytes,
                    double speed_bytes);
/* level: of zstd, 1 .. 19; 0: the fast default. FY_ERR_NOMEM, _INVALID. */
int fy_squeeze_new(int level, struct fy_squeeze **out) FY_MUST_CHECK;
/* Frees the compressor, at any point of a stream. NULL: fine. */
void fy_squeeze_free(struct fy_squeeze *squeeze);
/* flush: the peer can decode all that was given so far. The sink's error, or
 * FY_ERR_NOMEM; afterwards only fy_squeeze_free() makes sense. */
int fy_squeeze_add(struct fy_squeeze *squeeze, const void *bytes, size_t n,
                   bool flush, fy_squeeze_sink *sink,
                   void *context) FY_MUST_CHECK;
/* Ends the zstd frame; writes nothing when none was begun. Errors as fy_squeeze_add(). */
int fy_squeeze_end(struct fy_squeeze *squeeze, fy_squeeze_sink *sink,
                   void *context) FY_MUST_CHECK;

struct fy_unsqueeze;

/* Returns new. FY_ERR_NOMEM. */
int fy_unsqueeze_new(struct fy_unsqueeze **out) FY_MUST_CHECK;
/* Frees the decoder and the bytes that wait in it. NULL: fine. */
void fy_unsqueeze_free(struct fy_unsqueeze *unsqueeze);
/* Copies received bytes. FY_ERR_OVERFLOW: more than FY_UNSQUEEZE_MAX_BYTES
 * wait (grant less); FY_ERR_NOMEM. */
int fy_unsqueeze_add(struct fy_unsqueeze *unsqueeze, const void *bytes,
                     size_t n) FY_MUST_CHECK;
/* Decodes into at most `most' bytes; *out_n 0: more must be received first.
 * FY_ERR_INVALID: fy_squeeze did not make these bytes. */
int fy_unsqueeze_take(struct fy_unsqueeze *unsqueeze, void *to, size_t most,
                      size_t *out_n) FY_MUST_CHECK;
/* Returns the number of received bytes that are not decoded yet (grant as
 * many less). */
size_t fy_unsqueeze_waiting(const struct fy_unsqueeze *unsqueeze);

#endif
