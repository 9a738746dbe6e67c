/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that runs out: one allocation of the calling thread fails. A program is
 * linked with $(NOMEM_WRAP), which has malloc(), calloc(), realloc(), free()
 * and mmap() of its objects come here; libraries keep their own.
 */
#ifndef FERRY_TESTS_NOMEM_H
#define FERRY_TESTS_NOMEM_H

#include <stdbool.h>
#include <stdint.h>

/* The n-th allocation of this thread from now on fails; 0: none. */
void nomem_at(uint64_t n);
/* Whether that allocation was asked for; none fails any more. */
bool nomem_reached(void);
/* What all threads have allocated since then, but by mmap(), and not freed. */
unsigned nomem_live(void);

#endif
