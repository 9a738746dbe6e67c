/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bad links: a relay between a transport and the wire that cuts, stalls, spoils
 * or slows what passes, as its TEXT says.
 *
 * TEXT is words joined by commas. Offsets count the bytes of one direction from
 * its first, the proxy's line of greeting included; A..B is a place between,
 * chosen by the seed.
 *   down, up       the words after it are for what the proxy sends (this at
 *                  first), for what is sent to it; both: for each of them
 *   seed=N         1 at first
 *   cut=AT         so many bytes pass, then both directions are closed
 *   stall=AT       nothing passes for ...
 *   for=TIME       ... so long (forever without): 500ms, 2s, 10us
 *   corrupt=AT     the byte there is inverted; ssh would end the connection
 *   slow=RATE      so many bytes a second: 1MiB/s, 64KiB
 *   delay=TIME     each byte comes so much later
 *   chunk=N        at most so many bytes in one write
 */
#ifndef FERRY_TESTS_FAULT_H
#define FERRY_TESTS_FAULT_H

#include "common/buffer.h"
#include "common/status.h"

/* Whether the text can be read: FY_ERR_INVALID with `why'. */
int fy_fault_check(const char *text, struct fy_buffer *why) FY_MUST_CHECK;

/*
 * Relays between two sockets until either side has ended: what the proxy sends
 * comes from `inner', `outer' is the session's. Takes both, also on an error:
 * FY_ERR_INVALID, _NOMEM, _IO.
 */
int fy_fault_run(const char *text, int inner, int outer,
                 struct fy_buffer *why) FY_MUST_CHECK;

#endif
