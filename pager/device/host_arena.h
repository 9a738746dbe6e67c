/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of the host device: one private mapping with a real allocator.
 * Bookkeeping lies outside the mapping, so that a stray write of a kernel
 * never reaches it. Not thread safe: the device's lock protects it.
 */
#ifndef FERRY_PAGER_DEVICE_HOST_ARENA_H
#define FERRY_PAGER_DEVICE_HOST_ARENA_H

#include <stdbool.h>
#include <stdint.h>

#include "common/status.h"

enum {
    FY_ARENA_ALIGN = 256
};

struct fy_host_arena;

/*
 * Returns new: `bytes' of address space, backed when touched.
 */
int fy_host_arena_new(uint64_t bytes, struct fy_host_arena **out) FY_MUST_CHECK;
/* Makes an arena over addresses of another owner; the arena never touches
 * them. */
int fy_arena_new_at(uint64_t base, uint64_t bytes,
                    struct fy_host_arena **out) FY_MUST_CHECK;
/* Unmaps the memory that _new() mapped, with all that was allocated. NULL: fine. */
void fy_host_arena_free(struct fy_host_arena *arena);

/* FY_ERR_NOFIT: no gap is large enough; FY_ERR_NOMEM: bookkeeping. */
int fy_host_arena_alloc(struct fy_host_arena *arena, uint64_t bytes,
                        uint64_t *out) FY_MUST_CHECK;
/* Takes an address that alloc gave; others are ignored. */
void fy_host_arena_release(struct fy_host_arena *arena, uint64_t address);

/* Returns the rounded size of an address that alloc gave; else 0. */
uint64_t fy_host_arena_size(const struct fy_host_arena *arena,
                            uint64_t address);
/* The size of the arena in bytes. */
uint64_t fy_host_arena_bytes(const struct fy_host_arena *arena);
/* Bytes now allocated, as rounded: 0 says that nothing leaked. */
uint64_t fy_host_arena_used_bytes(const struct fy_host_arena *arena);

#endif
