/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells how much memory this process may still take without danger to the
 * program: the rest of the machine's memory, within its control groups and
 * limits.
 */
#ifndef FERRY_PAGER_DEVICE_HOST_MEMORY_H
#define FERRY_PAGER_DEVICE_HOST_MEMORY_H

#include <stdint.h>

/*
 * An estimate in bytes; UINT64_MAX where nothing says. About 50 us. Allocates
 * nothing, keeps errno; any thread, after fork.
 */
uint64_t fy_host_available_bytes(void);

/* The number behind `name' in a text of "name number" lines, or `otherwise'. */
uint64_t fy_number_after(const char *text, const char *name,
                         uint64_t otherwise);

/*
 * Returns the bytes that RLIMIT_AS and RLIMIT_DATA still let this process map;
 * UINT64_MAX without limits. Any thread.
 */
uint64_t fy_host_unlimited_bytes(void);

#endif
