/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bump allocator and a hash map over it. The longjmp on exhaustion lands in
 * fy_compile(), which frees the arena and reports FY_ERR_NOMEM.
 */
#include "config.h"

#include "annotations/base/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"

enum {
    BLOCK_BYTES = 64 * 1024,
    ALIGNMENT = 16
};

struct fy_arena_block {
    struct fy_arena_block *next;
    _Alignas(ALIGNMENT) char bytes[];
};

static void __attribute__((noreturn)) fail(struct fy_arena *arena)
{
    longjmp(*arena->out_of_memory, 1);
}

void *
fy_arena_alloc(struct fy_arena *arena, size_t bytes)
{
    if (bytes > SIZE_MAX / 2) {
        fail(arena);
    }
    bytes = (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
    if (!arena->blocks || arena->capacity - arena->used < bytes) {
        size_t capacity = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
        if (arena->limit && capacity > arena->limit - arena->total) {
            fail(arena);
        }
        struct fy_arena_block *block = calloc(1, sizeof *block + capacity);
        if (!block) {
            fail(arena);
        }
        arena->total += capacity;
        block->next = arena->blocks;
        arena->blocks = block;
        arena->capacity = capacity;
        arena->used = 0;
    }
    void *result = arena->blocks->bytes + arena->used;
    arena->used += bytes;
    return result;
}

void *
fy_arena_array(struct fy_arena *arena, size_t count, size_t bytes)
{
    size_t total;
    if (__builtin_mul_overflow(count, bytes, &total)) {
        fail(arena);
    }
    return fy_arena_alloc(arena, total);
}

char *
fy_arena_text(struct fy_arena *arena, const char *text, size_t bytes)
{
    char *copy = fy_arena_alloc(arena, bytes + 1);
    memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    return copy;
}

char *
fy_arena_print(struct fy_arena *arena, const char *format, ...)
{
    va_list list, again;
    va_start(list, format);
    va_copy(again, list);
    int length = vsnprintf(NULL, 0, format, list);
    va_end(list);
    if (length < 0) {
        va_end(again);
        fail(arena);
    }
    char *text = fy_arena_alloc(arena, (size_t)length + 1);
    (void)vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}

void *
fy_arena_grow(struct fy_arena *arena, void *items, size_t count,
              size_t *capacity, size_t bytes)
{
    if (count < *capacity) {
        return items;
    }
    size_t wanted = *capacity ? *capacity * 2 : 8;
    void *larger = fy_arena_array(arena, wanted, bytes);
    if (count) {
        memcpy(larger, items, count * bytes);
    }
    *capacity = wanted;
    return larger;
}

void
fy_arena_free(struct fy_arena *arena)
{
    while (arena->blocks) {
        struct fy_arena_block *next = arena->blocks->next;
        free(arena->blocks);
        arena->blocks = next;
    }
    arena->used = arena->capacity = arena->total = 0;
}

static struct fy_map_entry *
slot(const struct fy_map *map, const char *key)
{
    size_t mask = map->capacity - 1;
    size_t i = fy_hash_text(FY_HASH_START, key) & mask;
    while (map->entries[i].key && strcmp(map->entries[i].key, key) != 0) {
        i = (i + 1) & mask;
    }
    return &map->entries[i];
}

struct fy_map_entry *
fy_map_find(const struct fy_map *map, const char *key)
{
    if (!map->capacity) {
        return NULL;
    }
    struct fy_map_entry *entry = slot(map, key);
    return entry->key ? entry : NULL;
}

struct fy_map_entry *
fy_map_add(struct fy_arena *arena, struct fy_map *map, const char *key,
           int *is_new)
{
    if (map->count * 2 >= map->capacity) {
        struct fy_map larger = {0};
        larger.capacity = map->capacity ? map->capacity * 2 : 32;
        larger.entries =
            fy_arena_array(arena, larger.capacity, sizeof *larger.entries);
        for (size_t i = 0; i < map->capacity; i++) {
            if (map->entries[i].key) {
                *slot(&larger, map->entries[i].key) = map->entries[i];
            }
        }
        larger.count = map->count;
        *map = larger;
    }
    struct fy_map_entry *entry = slot(map, key);
    if (is_new) {
        *is_new = !entry->key;
    }
    if (!entry->key) {
        entry->key = key;
        map->count++;
    }
    return entry;
}
