/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls that fail: one call of the process, or of a child that it forks. A
 * program is linked with $(NOCALL_WRAP), which has the calls of its objects come
 * here; calls inside libc and other libraries stay.
 */
#ifndef FERRY_TESTS_NOCALL_H
#define FERRY_TESTS_NOCALL_H

#include <stdbool.h>
#include <stdint.h>

/* The n-th call from now on fails with `error'; 0: none. A forked child goes on
 * counting by itself. */
void nocall_at(uint64_t n, int error);
/* Every call of this function fails; of syscall() those of that number alone. NULL:
 * none. */
void nocall_always(const char *name, long number, int error);
/* The name of the function that failed last, here or in a child that was forked
 * since; NULL: none. None fails any more in this process. */
const char *nocall_reached(void);

#endif
