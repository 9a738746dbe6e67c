/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See rope.h. Blocks come in two sizes: small ones for frames' heads and lines,
 * large ones for streams. A block may be named by pieces of two ropes; only the
 * rope whose last piece ends where the block's bytes end goes on filling it.
 */
#include "config.h"

#include "proxy/wire/rope.h"

#include <stdlib.h>
#include <string.h>

enum {
    SMALL_BYTES = 4 << 10,
    LARGE_BYTES = 64 << 10,
    MAX_FREE = 32, /* large blocks kept */
};

struct fy_block {
    struct fy_block *next; /* while free */
    uint32_t users, size, used;
    char bytes[];
};

static struct fy_block *
block_new(struct fy_block_pool *pool, size_t wanted)
{
    uint32_t size = wanted > SMALL_BYTES ? LARGE_BYTES : SMALL_BYTES;
    struct fy_block *block = NULL;
    if (size == LARGE_BYTES && pool->free) {
        block = pool->free;
        pool->free = block->next;
        pool->nfree--;
    } else {
        block = malloc(sizeof *block + size);
        if (!block) {
            return NULL;
        }
    }
    block->next = NULL;
    block->users = 1;
    block->size = size;
    block->used = 0;
    return block;
}

static void
block_release(struct fy_block *block, struct fy_block_pool *pool)
{
    if (--block->users > 0) {
        return;
    }
    if (block->size == LARGE_BYTES && pool->nfree < MAX_FREE) {
        block->next = pool->free;
        pool->free = block;
        pool->nfree++;
    } else {
        free(block);
    }
}

void
fy_block_pool_clear(struct fy_block_pool *pool)
{
    while (pool->free) {
        struct fy_block *next = pool->free->next;
        free(pool->free);
        pool->free = next;
    }
    pool->nfree = 0;
}

static struct fy_piece *
piece_at(const struct fy_rope *rope, size_t i)
{
    return &rope->pieces[(rope->first + i) & (rope->capacity - 1)];
}

/* Room for that many pieces more. */
static int
reserve(struct fy_rope *rope, size_t more)
{
    size_t capacity = rope->capacity ? rope->capacity : 8;
    while (capacity < rope->count + more) {
        capacity *= 2;
    }
    if (capacity == rope->capacity) {
        return FY_OK;
    }
    struct fy_piece *pieces = malloc(capacity * sizeof *pieces);
    if (!pieces) {
        return FY_ERR_NOMEM;
    }
    for (size_t i = 0; i < rope->count; i++) {
        pieces[i] = *piece_at(rope, i);
    }
    free(rope->pieces);
    rope->pieces = pieces;
    rope->capacity = capacity;
    rope->first = 0;
    return FY_OK;
}

/* Forgets the last n bytes, which were just added. */
static void
undo(struct fy_rope *rope, struct fy_block_pool *pool, size_t n)
{
    while (n) {
        struct fy_piece *last = piece_at(rope, rope->count - 1);
        uint32_t k = last->n < n ? last->n : (uint32_t)n;
        last->n -= k;
        last->block->used -= k;
        rope->bytes -= k;
        n -= k;
        if (!last->n) {
            block_release(last->block, pool);
            rope->count--;
        }
    }
}

int
fy_rope_add(struct fy_rope *rope, struct fy_block_pool *pool, const void *bytes,
            size_t n)
{
    const char *from = bytes;
    size_t added = 0;
    while (added < n) {
        struct fy_piece *last =
            rope->count ? piece_at(rope, rope->count - 1) : NULL;
        if (!last || last->from + last->n != last->block->used ||
            last->block->used == last->block->size) {
            struct fy_block *block;
            if (reserve(rope, 1) || !(block = block_new(pool, n - added))) {
                undo(rope, pool, added);
                return FY_ERR_NOMEM;
            }
            last = piece_at(rope, rope->count++);
            *last = (struct fy_piece){.block = block};
        }
        struct fy_block *block = last->block;
        size_t k = block->size - block->used;
        if (k > n - added) {
            k = n - added;
        }
        memcpy(block->bytes + block->used, from + added, k);
        block->used += (uint32_t)k;
        last->n += (uint32_t)k;
        rope->bytes += k;
        added += k;
    }
    return FY_OK;
}

static void
pop_first(struct fy_rope *rope)
{
    rope->first = (rope->first + 1) & (rope->capacity - 1);
    rope->count--;
}

int
fy_rope_move(struct fy_rope *to, struct fy_rope *from, size_t n)
{
    if (reserve(to, from->count)) {
        return FY_ERR_NOMEM;
    }
    while (n) {
        struct fy_piece *first = piece_at(from, 0);
        struct fy_piece *added = piece_at(to, to->count++);
        *added = *first;
        if (first->n > n) { /* both name the block now */
            first->block->users++;
            added->n = (uint32_t)n;
            first->from += (uint32_t)n;
            first->n -= (uint32_t)n;
        } else {
            pop_first(from);
        }
        to->bytes += added->n;
        from->bytes -= added->n;
        n -= added->n;
    }
    return FY_OK;
}

int
fy_rope_vector(const struct fy_rope *rope, struct iovec *out, int n)
{
    int i = 0;
    for (; i < n && (size_t)i < rope->count; i++) {
        const struct fy_piece *piece = piece_at(rope, (size_t)i);
        out[i].iov_base = piece->block->bytes + piece->from;
        out[i].iov_len = piece->n;
    }
    return i;
}

void
fy_rope_drop(struct fy_rope *rope, struct fy_block_pool *pool, size_t n)
{
    rope->bytes -= n;
    while (n) {
        struct fy_piece *first = piece_at(rope, 0);
        if (first->n > n) {
            first->from += (uint32_t)n;
            first->n -= (uint32_t)n;
            return;
        }
        n -= first->n;
        block_release(first->block, pool);
        pop_first(rope);
    }
}

void
fy_rope_clear(struct fy_rope *rope, struct fy_block_pool *pool)
{
    fy_rope_drop(rope, pool, rope->bytes);
    free(rope->pieces);
    *rope = (struct fy_rope){0};
}
