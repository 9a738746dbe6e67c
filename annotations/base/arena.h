/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of one compilation: everything the scanner, the parser and the checker
 * allocate lives until the end and is freed at once, so that no error path has
 * anything to undo. Running out of memory leaves by longjmp.
 *
 * Tools and tests only; one thread at a time.
 */
#ifndef FERRY_ANNOTATIONS_BASE_ARENA_H
#define FERRY_ANNOTATIONS_BASE_ARENA_H

#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>

struct fy_arena {
    struct fy_arena_block *blocks;
    size_t used, capacity;  /* of the newest block, bytes */
    size_t total, limit;    /* of all blocks, bytes; limit 0: none */
    jmp_buf *out_of_memory; /* where a failed allocation goes; borrowed */
};

/* Zeroed memory, aligned for any type; never NULL (longjmp with 1 instead). */
void *fy_arena_alloc(struct fy_arena *arena, size_t bytes);
/* `count' objects of `bytes'; the product is checked. */
void *fy_arena_array(struct fy_arena *arena, size_t count, size_t bytes);
/* A NUL-terminated copy of `bytes' bytes at `text'. */
char *fy_arena_text(struct fy_arena *arena, const char *text, size_t bytes);
/* printf into the arena. */
char *fy_arena_print(struct fy_arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3), nonnull(2)));
/*
 * Room for one more element of a growing array: returns `items', or a larger
 * copy when *capacity is reached. `count' elements are in use.
 */
void *fy_arena_grow(struct fy_arena *arena, void *items, size_t count,
                    size_t *capacity, size_t bytes);
/* A growing array of one type, and a new row at its end, to be assigned. */
#define FY_ROWS(type)           \
    struct {                    \
        type *row;              \
        size_t count, capacity; \
    }
#define FY_APPEND(arena, rows)                                            \
    ((rows)->row = fy_arena_grow((arena), (rows)->row, (rows)->count,     \
                                 &(rows)->capacity, sizeof *(rows)->row), \
     &(rows)->row[(rows)->count++])
void fy_arena_free(struct fy_arena *arena); /* everything in it */

/* Names to numbers; keys are borrowed and must live as long as the map. */
struct fy_map {
    struct fy_map_entry *entries;
    size_t count, capacity; /* capacity is a power of two, or 0 */
};

struct fy_map_entry {
    const char *key; /* NULL: free */
    uint64_t value;
};

/* The entry of `key', or NULL. */
struct fy_map_entry *fy_map_find(const struct fy_map *map, const char *key);
/* The entry of `key', made with value 0 when it is new; *is_new may be NULL. */
struct fy_map_entry *fy_map_add(struct fy_arena *arena, struct fy_map *map,
                                const char *key, int *is_new);

#endif
