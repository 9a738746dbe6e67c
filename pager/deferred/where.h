/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which memory may be taken from under the program (pages.h): none that a thread may
 * touch while holding a lock that giving it back needs. In doubt, none. Called under
 * the lock of pages.h.
 */
#ifndef FERRY_PAGER_DEFERRED_WHERE_H
#define FERRY_PAGER_DEFERRED_WHERE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Once: whether this process's allocator is one whose habits we know. */
bool fy_may_take_at_all(void);
/* Whether these whole pages may be taken, by the calling thread. */
bool fy_may_take(uintptr_t start, size_t bytes);
/* Bytes that may be held beyond what the program has, for all ranges. */
size_t fy_may_hold(void);
/*
 * Whether a library of the program takes locks of its own or starts threads:
 * it might touch what is deferred while it holds what its functions need.
 */
bool fy_takes_locks(const void *function);

#endif
