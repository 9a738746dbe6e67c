/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues of bytes for wire.c: pieces of counted blocks, so that bytes queued
 * on a stream go from there to the list that writev() takes without another
 * copy. One thread; not for use outside the wire.
 */
#ifndef FERRY_PROXY_WIRE_ROPE_H
#define FERRY_PROXY_WIRE_ROPE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "common/status.h"

struct fy_block;

/* Blocks that are free, kept for the next append; shared by many ropes. */
struct fy_block_pool {
    struct fy_block *free;
    unsigned nfree;
};

struct fy_piece {
    struct fy_block *block; /* counted */
    uint32_t from, n;
};

struct fy_rope {
    struct fy_piece *pieces; /* a ring; capacity is 0 or a power of two */
    size_t capacity, first, count;
    size_t bytes;
};

void fy_block_pool_clear(struct fy_block_pool *pool);

/* A copy of the bytes at the end; all or nothing: FY_ERR_NOMEM. */
int fy_rope_add(struct fy_rope *rope, struct fy_block_pool *pool,
                const void *bytes, size_t n) FY_MUST_CHECK;
/* Moves the first n <= from->bytes bytes; all or nothing: FY_ERR_NOMEM. */
int fy_rope_move(struct fy_rope *to, struct fy_rope *from,
                 size_t n) FY_MUST_CHECK;
/* Describes the first bytes; how many entries were filled. */
int fy_rope_vector(const struct fy_rope *rope, struct iovec *out, int n);
/* Forgets the first n <= bytes bytes. */
void fy_rope_drop(struct fy_rope *rope, struct fy_block_pool *pool, size_t n);
/* Forgets all, memory too. */
void fy_rope_clear(struct fy_rope *rope, struct fy_block_pool *pool);

#endif
