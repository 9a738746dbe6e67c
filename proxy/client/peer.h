/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the rights and the root folder of a stub's process with those of the session,
 * which acts for the stub: if they differ, the original runs.
 */
#ifndef FERRY_PROXY_CLIENT_PEER_H
#define FERRY_PROXY_CLIENT_PEER_H

#include <stdbool.h>
#include <sys/types.h>

#include "common/buffer.h"
#include "common/status.h"

struct fy_peer;

/* Keeps the rights that this process has now. FY_ERR_NOMEM. */
int fy_peer_new(struct fy_peer **out) FY_MUST_CHECK;
void fy_peer_free(struct fy_peer *own);

/*
 * Returns true if the process at the other end of `socket' has the rights and the root
 * folder that this process had in fy_peer_new(). `pid': of that process, by SO_PEERCRED.
 * False also if the kernel does not tell; `why' gets the name of the difference.
 */
bool fy_peer_is_like_us(const struct fy_peer *own, int socket, pid_t pid,
                        struct fy_buffer *why);

#endif
