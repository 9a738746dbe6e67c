/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls without libc: no errno, no cancellation, no name to look up and
 * no other preload in between. The exec wrappers use them in vfork children,
 * which run on the parent's memory.
 */
#ifndef FERRY_SHIM_ARCH_RAW_H
#define FERRY_SHIM_ARCH_RAW_H

/* As the kernel returns it: -4095 .. -1 are errors. */
static inline long
fy_raw(long number, long a, long b, long c, long d, long e, long f)
{
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8),
                       "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

#endif
