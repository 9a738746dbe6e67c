/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FNV-1a, and the same by words of eight bytes. It names and finds; it guards
 * nothing.
 */
#ifndef FERRY_COMMON_HASH_H
#define FERRY_COMMON_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define FY_HASH_START UINT64_C(0xcbf29ce484222325)

static inline uint64_t
fy_hash_add(uint64_t hash, uint64_t value)
{
    return (hash ^ value) * UINT64_C(0x100000001b3);
}

/* FNV-1a of n bytes, which follow those that gave `hash'. */
static inline uint64_t
fy_hash_bytes(uint64_t hash, const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        hash = fy_hash_add(hash, ((const unsigned char *)bytes)[i]);
    }
    return hash;
}

static inline uint64_t
fy_hash_text(uint64_t hash, const char *text)
{
    return fy_hash_bytes(hash, text, strlen(text));
}

/* Hashes eight bytes at a time: the hash of two halves differs from that of
 * the whole. */
static inline uint64_t
fy_hash_words(uint64_t hash, const void *bytes, size_t n)
{
    const char *at = (const char *)bytes;
    for (uint64_t word; n >= sizeof word; n -= sizeof word) {
        memcpy(&word, at, sizeof word);
        at += sizeof word;
        hash = fy_hash_add(hash, word);
        hash ^= hash >> 32;
    }
    return fy_hash_bytes(hash, at, n);
}

#endif
