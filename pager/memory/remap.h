/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves and resizes memory for a program whose mremap(2) the kernel refuses only because
 * ferry watches a part of it: the kernel merges no watched mapping with a new mapping
 * beside it, and moves and grows single mappings. Any thread, after fork too;
 * takes no lock, allocates nothing.
 */
#ifndef FERRY_PAGER_MEMORY_REMAP_H
#define FERRY_PAGER_MEMORY_REMAP_H

#include <stddef.h>

/*
 * Does what mremap(2) of these arguments would do if mappings side by side with equal
 * rights, private and of no file, had been merged. MAP_FAILED with errno: EFAULT where they are
 * not; ENOMEM.
 */
void *fy_remap(void *old, size_t old_bytes, size_t new_bytes, int flags,
               void *to);

#endif
