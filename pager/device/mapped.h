/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small reads of host memory that may turn out not to be there: the kernel
 * copies, so that a wild pointer is an error instead of a signal.
 */
#ifndef FERRY_PAGER_DEVICE_MAPPED_H
#define FERRY_PAGER_DEVICE_MAPPED_H

#include <stddef.h>

#include "common/status.h"

/*
 * Copies `most' bytes from `from' if they can be read, else as many as the
 * page of the last needed byte has; zeroes the rest. FY_ERR_INVALID when not even
 * `least' can be read. Keeps errno. Any thread, after fork, in signal handlers.
 */
int fy_read_mapped(const void *from, void *to, size_t least,
                   size_t most) FY_MUST_CHECK;

#endif
