/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks that host memory is mapped, before a call is offloaded. Nothing here
 * allocates, takes a lock or changes errno; safe from any thread and after
 * fork.
 */
#ifndef FERRY_PAGER_EXECUTE_HOSTMEM_H
#define FERRY_PAGER_EXECUTE_HOSTMEM_H

#include <stddef.h>

#include "common/status.h"
#include "pager/device/view.h"

/*
 * Checks that every byte of every range is mapped with the access it needs,
 * asked of the kernel once for all (PROCMAP_QUERY, else /proc/self/maps). 0;
 * FY_ERR_NOENT: some byte is not; FY_ERR_IO: the kernel would not say.
 */
int fy_ranges_mapped(const struct fy_range *ranges, size_t count) FY_MUST_CHECK;

#endif
