/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarded blocks, see the header. Guards are wide, not one page: a wrong
 * stride lands far away, and must still fault.
 */
#include "config.h"

#include "pager/verify/guard.h"

#include <string.h>
#include <sys/mman.h>

enum {
    PAGE = 4096,
    GUARD_LEAST = 1 << 20, /* on each side; address space only */
};
#define GUARD_MOST ((size_t)1 << 30)

static void
repeat(const void *bytes, size_t n, unsigned char out[FY_POISON_BYTES])
{
    for (size_t at = 0; at < FY_POISON_BYTES; at += n) {
        memcpy(out + at, bytes, n);
    }
}

void
fy_poison_pattern(enum fy_poison poison, enum fy_type element,
                  unsigned char out[FY_POISON_BYTES])
{
    static const uint32_t float_bits[] = {0x7fa5eed1, 0x6b5eed77};
    static const uint64_t double_bits[] = {0x7ff45eeddeadf00d,
                                           0x6a5eed123456789b};
    static const uint32_t integer_bits[] = {0x5a5a5a5a, 0xa5a5a5a5};
    switch (element) {
    case FY_T_F32:
    case FY_T_C32:
        repeat(&float_bits[poison], sizeof(uint32_t), out);
        break;
    case FY_T_F64:
    case FY_T_C64:
        repeat(&double_bits[poison], sizeof(uint64_t), out);
        break;
    default:
        repeat(&integer_bits[poison], sizeof(uint32_t), out);
    }
}

void
fy_poison_fill(const unsigned char pattern[FY_POISON_BYTES], const char *origin,
               char *at, size_t bytes)
{
    size_t phase = (size_t)(at - origin) % FY_POISON_BYTES;
    for (; bytes > 0 && phase != 0; bytes--, at++) {
        *at = (char)pattern[phase];
        phase = (phase + 1) % FY_POISON_BYTES;
    }
    for (; bytes >= FY_POISON_BYTES; bytes -= FY_POISON_BYTES) {
        memcpy(at, pattern, FY_POISON_BYTES);
        at += FY_POISON_BYTES;
    }
    memcpy(at, pattern, bytes);
}

int
fy_guard_new(size_t bytes, size_t align, size_t slack, enum fy_guard_side side,
             enum fy_poison poison, enum fy_type element, struct fy_guard *out)
{
    if (bytes > SIZE_MAX / 16 || slack > SIZE_MAX / 16) {
        return FY_ERR_OVERFLOW;
    }
    struct fy_guard g = {.bytes = bytes};
    g.usable_bytes = (bytes + align - 1 + PAGE - 1) / PAGE * PAGE;
    if (bytes == 0) {
        g.usable_bytes = 0;
    }
    slack = (slack + PAGE - 1) / PAGE * PAGE;
    g.usable_bytes += 2 * slack;
    size_t guard = g.usable_bytes * 4;
    guard = guard < GUARD_LEAST ? GUARD_LEAST : guard;
    guard = guard > GUARD_MOST ? GUARD_MOST : guard;
    g.reserve_bytes = g.usable_bytes + 2 * guard;
    g.reserve = mmap(NULL, g.reserve_bytes, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (g.reserve == MAP_FAILED) {
        return FY_ERR_NOMEM;
    }
    g.usable = g.reserve + guard;
    if (g.usable_bytes > 0 &&
        mprotect(g.usable, g.usable_bytes, PROT_READ | PROT_WRITE) != 0) {
        munmap(g.reserve, g.reserve_bytes);
        return FY_ERR_NOMEM;
    }
    g.block = g.usable + slack;
    if (side == FY_GUARD_AFTER) {
        g.block += (g.usable_bytes - 2 * slack - bytes) & ~(align - 1);
    }
    fy_poison_pattern(poison, element, g.poison);
    fy_poison_fill(g.poison, g.block - FY_POISON_BYTES * (uint64_t)PAGE,
                   g.usable, g.usable_bytes);
    *out = g;
    return 0;
}

void
fy_guard_free(struct fy_guard *guard)
{
    if (guard->reserve) {
        munmap(guard->reserve, guard->reserve_bytes);
    }
    memset(guard, 0, sizeof *guard);
}

static bool
spilled_range(const struct fy_guard *guard, const char *from, const char *to,
              int64_t *out_offset)
{
    size_t phase =
        (size_t)(from - guard->block + FY_POISON_BYTES * (int64_t)PAGE) %
        FY_POISON_BYTES;
    for (; from < to; from++) {
        if ((unsigned char)*from != guard->poison[phase]) {
            *out_offset = from - guard->block;
            return true;
        }
        phase = (phase + 1) % FY_POISON_BYTES;
    }
    return false;
}

bool
fy_guard_spilled(const struct fy_guard *guard, int64_t *out_offset)
{
    return spilled_range(guard, guard->block + guard->bytes,
                         guard->usable + guard->usable_bytes, out_offset) ||
           spilled_range(guard, guard->usable, guard->block, out_offset);
}

bool
fy_guard_locate(const struct fy_guard *guard, uint64_t address,
                int64_t *out_offset)
{
    uint64_t base = (uint64_t)(uintptr_t)guard->reserve;
    if (!guard->reserve || address < base ||
        address - base >= guard->reserve_bytes) {
        return false;
    }
    *out_offset = (int64_t)(address - (uint64_t)(uintptr_t)guard->block);
    return true;
}
