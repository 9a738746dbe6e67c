/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks valgrind, which translates the whole process, whether it is there, in the way that
 * the manual of valgrind says: rotations by 128 bits, then an exchange of a register with
 * itself, which do nothing on a processor.
 */
#ifndef FERRY_SHIM_ARCH_VALGRIND_H
#define FERRY_SHIM_ARCH_VALGRIND_H

#include <stdbool.h>
#include <stdint.h>

static inline bool
fy_runs_on_valgrind(void)
{
    const volatile uint64_t request[6] = {0x1001};
    uint64_t answer = 0;
    __asm__ volatile("rolq $3, %%rdi\n\t"
                     "rolq $13, %%rdi\n\t"
                     "rolq $61, %%rdi\n\t"
                     "rolq $51, %%rdi\n\t"
                     "xchgq %%rbx, %%rbx"
                     : "+d"(answer)
                     : "a"(request)
                     : "cc", "memory");
    return answer > 0;
}

#endif
