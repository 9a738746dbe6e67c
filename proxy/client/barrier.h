/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes written through a mount are at its host before a stage begins.
 */
#ifndef FERRY_PROXY_CLIENT_BARRIER_H
#define FERRY_PROXY_CLIENT_BARRIER_H

#include <stdbool.h>
#include <stdint.h>

#include "proxy/wire/transport.h"

/*
 * How many writes, of how many bytes, an sshfs has made when it has only done what
 * the last barrier had it do: all that was written through it before is at its host.
 * That holds for ever; a later barrier replaces it. Zeros: not known.
 */
struct fy_quiet {
    uint64_t writes, bytes;
};

/*
 * Everything written through the mount so far is on its host. Waits for the
 * host, unless `quiet' tells that nothing was done since the last call.
 * FY_ERR_IO: it does not answer, or a write failed: do not offload. Any thread.
 */
int fy_barrier(const struct fy_mount *mount,
               struct fy_quiet *quiet) FY_MUST_CHECK;

#endif
