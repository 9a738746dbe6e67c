/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stores to shared mappings of files that the kernel has not handed to the file system
 * yet.
 */
#ifndef FERRY_PROXY_CLIENT_MAPPINGS_H
#define FERRY_PROXY_CLIENT_MAPPINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/status.h"

/*
 * Writes back the dirty pages of each file of the FUSE file system `device' that a
 * process has mapped shared; the file system has answered these writes then. Costs
 * no request where nothing is mapped. *out_some: something is. Processes of which
 * /proc shows no mappings to this one (another user's) are passed over. Waits for
 * the file system. FY_ERR_IO: a mapped file cannot be reached. Any thread.
 */
int fy_mappings_write(uint64_t device, bool *out_some) FY_MUST_CHECK;

#endif
