/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking the process that serves a mount of ferry, by the socket that is its `control'
 * (proxy/files/client/control.h has the requests).
 */
#ifndef FERRY_PROXY_STORAGE_CONTROL_H
#define FERRY_PROXY_STORAGE_CONTROL_H

#include <stddef.h>

#include "common/buffer.h"
#include "common/status.h"

/*
 * Sends one line of words and waits for the end of the answer, at most `patience_ms', 0:
 * for ever. Its lines but the last are added to `lines' (NULL: dropped). FY_ERR_INVALID:
 * the mount says an error, which `why' gets. FY_ERR_IO: nothing answers, or what answers
 * ended meanwhile; FY_ERR_BUSY: not in time; `why' says so. Any thread; waits.
 */
int fy_control_ask(const char *socket, const char *request,
                   unsigned patience_ms, struct fy_buffer *lines,
                   struct fy_buffer *why) FY_MUST_CHECK;

/* Sends a line and the block behind it without waiting: bytes that the socket does not take at
 * once are lost, and all are where nothing listens. Any thread. */
void fy_control_tell(const char *socket, const char *block, size_t n);

/* The number of the line "KEY NUMBER" in an answer; 0: there is none. */
unsigned long long fy_control_number(const char *lines, const char *key);
/* The text of the line "KEY TEXT", up to its end; NULL: there is none. */
const char *fy_control_text(const char *lines, const char *key,
                            size_t *out_bytes);

#endif
