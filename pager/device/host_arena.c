/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Best-fit allocator with coalescing over one mapping. Segments form a list in
 * address order; free ones are also in bins by power of two, allocated ones in
 * a hash by address. Runs under the host device's lock.
 */
#include "config.h"

#include "pager/device/host_arena.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

enum {
    BINS = 64,
    /* Kernels read past strided vectors (OpenBLAS's zgemv by one element). */
    SLACK_BYTES = 1 << 20,
    OFFER_BYTES = 64 << 20, /* less is not worth a system call */
};

struct segment {
    uint64_t at, bytes;                     /* at: address */
    struct segment *before, *after;         /* neighbours in memory */
    struct segment *bin_before, *bin_after; /* of a free one */
    bool is_free;
    UT_hash_handle hh;
};

struct fy_host_arena {
    void *mapping; /* with readable slack before and behind the arena */
    uint64_t base; /* address */
    uint64_t bytes, used_bytes;
    uint64_t touched_bytes; /* from the base, since last offered back */
    struct segment *first;
    struct segment *bins[BINS];
    struct segment *allocated; /* hash by `at' */
};

static int
bin_of(uint64_t bytes)
{
    return 63 - __builtin_clzll(bytes | 1);
}

static void
bin_add(struct fy_host_arena *arena, struct segment *s)
{
    struct segment **head = &arena->bins[bin_of(s->bytes)];
    s->is_free = true;
    s->bin_before = NULL;
    s->bin_after = *head;
    if (*head) {
        (*head)->bin_before = s;
    }
    *head = s;
}

static void
bin_remove(struct fy_host_arena *arena, struct segment *s)
{
    if (s->bin_before) {
        s->bin_before->bin_after = s->bin_after;
    } else {
        arena->bins[bin_of(s->bytes)] = s->bin_after;
    }
    if (s->bin_after) {
        s->bin_after->bin_before = s->bin_before;
    }
    s->is_free = false;
}

int
fy_host_arena_new(uint64_t bytes, struct fy_host_arena **out)
{
    struct fy_host_arena *arena = calloc(1, sizeof *arena);
    if (!arena) {
        return FY_ERR_NOMEM;
    }
    arena->bytes = bytes / FY_ARENA_ALIGN * FY_ARENA_ALIGN;
    if (arena->bytes == 0) {
        *out = arena;
        return 0;
    }
    struct segment *s = calloc(1, sizeof *s);
    if (!s) {
        goto free_arena;
    }
    arena->mapping = mmap(NULL, arena->bytes + 2 * (size_t)SLACK_BYTES,
                          PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (arena->mapping == MAP_FAILED) {
        goto free_segment;
    }
    char *base = (char *)arena->mapping + SLACK_BYTES;
    (void)madvise(base, arena->bytes, MADV_HUGEPAGE);
    arena->base = s->at = (uint64_t)(uintptr_t)base;
    s->bytes = arena->bytes;
    arena->first = s;
    bin_add(arena, s);
    *out = arena;
    return 0;

free_segment:
    free(s);
free_arena:
    free(arena);
    return FY_ERR_NOMEM;
}

int
fy_arena_new_at(uint64_t base, uint64_t bytes, struct fy_host_arena **out)
{
    struct fy_host_arena *arena = calloc(1, sizeof *arena);
    if (!arena) {
        return FY_ERR_NOMEM;
    }
    arena->bytes = bytes / FY_ARENA_ALIGN * FY_ARENA_ALIGN;
    arena->base = base;
    if (arena->bytes > 0) {
        struct segment *s = calloc(1, sizeof *s);
        if (!s) {
            free(arena);
            return FY_ERR_NOMEM;
        }
        s->at = base;
        s->bytes = arena->bytes;
        arena->first = s;
        bin_add(arena, s);
    }
    *out = arena;
    return 0;
}

void
fy_host_arena_free(struct fy_host_arena *arena)
{
    if (!arena) {
        return;
    }
    /* Clearing frees the table only; the segments stay linked. */
    HASH_CLEAR(hh, arena->allocated);
    for (struct segment *s = arena->first, *next; s; s = next) {
        next = s->after;
        free(s);
    }
    if (arena->mapping) {
        (void)munmap(arena->mapping, arena->bytes + 2 * (size_t)SLACK_BYTES);
    }
    free(arena);
}

/* The smallest free segment of the first bin that has one large enough. */
static struct segment *
best_fit(struct fy_host_arena *arena, uint64_t bytes)
{
    for (int bin = bin_of(bytes); bin < BINS; bin++) {
        struct segment *best = NULL;
        for (struct segment *s = arena->bins[bin]; s; s = s->bin_after) {
            if (s->bytes >= bytes && (!best || s->bytes < best->bytes)) {
                best = s;
            }
        }
        if (best) {
            return best;
        }
    }
    return NULL;
}

int
fy_host_arena_alloc(struct fy_host_arena *arena, uint64_t bytes, uint64_t *out)
{
    if (bytes == 0) {
        bytes = 1;
    }
    if (bytes > arena->bytes) {
        return FY_ERR_NOFIT;
    }
    bytes = (bytes + FY_ARENA_ALIGN - 1) / FY_ARENA_ALIGN * FY_ARENA_ALIGN;
    struct segment *s = best_fit(arena, bytes);
    if (!s) {
        return FY_ERR_NOFIT;
    }
    struct segment *rest = NULL;
    if (s->bytes > bytes) {
        rest = calloc(1, sizeof *rest);
        if (!rest) {
            return FY_ERR_NOMEM;
        }
    }
    HASH_ADD(hh, arena->allocated, at, sizeof s->at, s);
    if (!s->hh.tbl) {
        free(rest);
        return FY_ERR_NOMEM;
    }
    bin_remove(arena, s);
    if (rest) {
        rest->at = s->at + bytes;
        rest->bytes = s->bytes - bytes;
        rest->before = s;
        rest->after = s->after;
        if (s->after) {
            s->after->before = rest;
        }
        s->after = rest;
        s->bytes = bytes;
        bin_add(arena, rest);
    }
    arena->used_bytes += bytes;
    uint64_t end = s->at + bytes - arena->base;
    if (end > arena->touched_bytes) {
        arena->touched_bytes = end;
    }
    *out = s->at;
    return 0;
}

/*
 * An empty arena keeps its pages for the next call, but the kernel may take
 * them first when memory is short.
 */
static void
offer_back(struct fy_host_arena *arena)
{
    if (!arena->mapping || arena->used_bytes > 0 ||
        arena->touched_bytes < OFFER_BYTES) {
        return;
    }
    (void)madvise((void *)(uintptr_t)arena->base, arena->touched_bytes,
                  MADV_FREE);
    arena->touched_bytes = 0;
}

/* Makes s and the free segment behind it one. */
static void
swallow_next(struct fy_host_arena *arena, struct segment *s)
{
    struct segment *next = s->after;
    bin_remove(arena, next);
    s->bytes += next->bytes;
    s->after = next->after;
    if (next->after) {
        next->after->before = s;
    }
    free(next);
}

void
fy_host_arena_release(struct fy_host_arena *arena, uint64_t address)
{
    struct segment *s;
    HASH_FIND(hh, arena->allocated, &address, sizeof address, s);
    if (!s) {
        return;
    }
    HASH_DEL(arena->allocated, s);
    arena->used_bytes -= s->bytes;
    if (s->after && s->after->is_free) {
        swallow_next(arena, s);
    }
    if (s->before && s->before->is_free) {
        struct segment *before = s->before;
        bin_remove(arena, before);
        s->is_free = true;
        bin_add(arena, s);
        swallow_next(arena, before);
        bin_add(arena, before);
    } else {
        bin_add(arena, s);
    }
    offer_back(arena);
}

uint64_t
fy_host_arena_size(const struct fy_host_arena *arena, uint64_t address)
{
    struct segment *s;
    HASH_FIND(hh, arena->allocated, &address, sizeof address, s);
    return !s ? 0 : s->bytes;
}

uint64_t
fy_host_arena_bytes(const struct fy_host_arena *arena)
{
    return arena->bytes;
}

uint64_t
fy_host_arena_used_bytes(const struct fy_host_arena *arena)
{
    return arena->used_bytes;
}
