/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names and sizes of this CPU's vector registers. Built for general registers
 * only, because it runs before they are saved.
 */
#include "config.h"

#include <cpuid.h>

#include "shim/calls/shim.h"

#define GENERAL __attribute__((target("general-regs-only")))

enum {
    FXSAVE_BYTES = 512,
    /* SSE, AVX, the masks and both halves of the wide registers. */
    COMPONENTS = 1 << 1 | 1 << 2 | 1 << 5 | 1 << 6 | 1 << 7,
};

FY_HIDDEN uint32_t fy_state_bytes; /* of the area; 0: not known yet */
FY_HIDDEN uint32_t fy_state_mask;  /* for xsave; 0: only fxsave is there */

/* Returns fy_state_bytes. Every thread that races here stores the same. */
FY_HIDDEN GENERAL uint32_t fy_state_init(void);

uint32_t
fy_state_init(void)
{
    uint32_t a, b, c, d, bytes = FXSAVE_BYTES, mask = 0;
    if (__get_cpuid(1, &a, &b, &c, &d) && (c & bit_OSXSAVE)) {
        uint32_t low, high;
        __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
        mask = low & COMPONENTS;
        bytes = 512 + 64; /* legacy part and header */
        for (uint32_t i = 2; i < 8; i++) {
            if (!(mask >> i & 1)) {
                continue;
            }
            __cpuid_count(0xd, i, a, b, c, d);
            if (a + b > bytes) {
                bytes = a + b;
            }
        }
        bytes = (bytes + 63) & ~UINT32_C(63);
    }
    __atomic_store_n(&fy_state_mask, mask, __ATOMIC_RELAXED);
    __atomic_store_n(&fy_state_bytes, bytes, __ATOMIC_RELEASE);
    return bytes;
}
