/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of memory between pages that fault, filled with poison: what
 * `ferry verify' lets a function run on. A block touches a guard on one side;
 * the bytes that page granularity leaves on the other are poisoned and can be
 * checked. Used in forked children only; no locks, no allocation but mmap.
 */
#ifndef FERRY_PAGER_VERIFY_GUARD_H
#define FERRY_PAGER_VERIFY_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "annotations/model/model.h"
#include "common/status.h"

enum fy_guard_side {
    FY_GUARD_AFTER,  /* the block ends where the guard begins */
    FY_GUARD_BEFORE, /* the block begins where the guard ends */
};

/* Two patterns, because one shows an access that the other hides. */
enum fy_poison {
    FY_POISON_NAN,   /* signalling NaNs; 0x5a bytes for integers */
    FY_POISON_LARGE, /* huge finite numbers; negative integers */
};

enum {
    FY_POISON_BYTES = 16
}; /* a pattern repeats after so many bytes */

struct fy_guard {
    char *reserve; /* the whole mapping */
    size_t reserve_bytes;
    char *usable; /* its accessible pages */
    size_t usable_bytes;
    char *block; /* within them */
    size_t bytes;
    unsigned char poison[FY_POISON_BYTES];
};

/* The pattern for elements of a type (enum fy_type). */
void fy_poison_pattern(enum fy_poison poison, enum fy_type element,
                       unsigned char out[FY_POISON_BYTES]);

/*
 * Maps a block of `bytes' (0 is allowed: every touch of it faults), aligned to
 * `align' (a power of two <= 4096; at least what the element type needs; with
 * FY_GUARD_AFTER up to align - 1 bytes may lie between block and guard), all
 * accessible bytes poisoned. With `slack', so many accessible bytes more lie
 * on both sides, also of an empty block. FY_ERR_OVERFLOW, FY_ERR_NOMEM.
 */
int fy_guard_new(size_t bytes, size_t align, size_t slack,
                 enum fy_guard_side side, enum fy_poison poison,
                 enum fy_type element, struct fy_guard *out) FY_MUST_CHECK;
void fy_guard_free(struct fy_guard *guard); /* of zeros: fine */

/* Fills `bytes' at `at' as if the pattern began at `origin'. */
void fy_poison_fill(const unsigned char pattern[FY_POISON_BYTES],
                    const char *origin, char *at, size_t bytes);

/*
 * The first accessible byte outside the block that is no longer poison, as an
 * offset from the block; false when there is none.
 */
bool fy_guard_spilled(const struct fy_guard *guard, int64_t *out_offset);

/*
 * Returns true if an address lies in the mapping, and its offset from the
 * block's first byte. Async-signal-safe.
 */
bool fy_guard_locate(const struct fy_guard *guard, uint64_t address,
                     int64_t *out_offset);

#endif
