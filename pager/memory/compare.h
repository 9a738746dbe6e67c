/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hashes pages of the program, so that a page with the hash of the mirror's page need not
 * be sent again: for kernels and memory whose writes cannot be watched. XXH3-128 with a
 * secret of this process, so that hostile data cannot have two pages of one hash.
 *
 * Any thread, one at a time for each struct; errno stays, no signal is raised.
 */
#ifndef FERRY_PAGER_MEMORY_COMPARE_H
#define FERRY_PAGER_MEMORY_COMPARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

enum {
    FY_COMPARE_SECRET_BYTES = 192,
};

struct fy_page_hash {
    uint64_t low, high;
};

struct fy_compare {
    unsigned char secret[FY_COMPARE_SECRET_BYTES];
    char *block; /* copies of pages while they are hashed; malloc */
    bool wanted; /* to be started with the first object */
};

/* Draws the secret. FY_ERR_NOMEM; FY_ERR_IO: the kernel has no random numbers. */
int fy_compare_start(struct fy_compare *compare) FY_MUST_CHECK;
/* Frees the block of fy_compare_start(). */
void fy_compare_end(struct fy_compare *compare);

/* Told the hash of the page at address `page'. */
typedef void fy_compare_told(void *state, uintptr_t page,
                             struct fy_page_hash hash);

/*
 * Tells the hash of each page of first .. end - 1 (addresses, multiples of FY_PAGE_BYTES).
 * FY_ERR_FAULT: some page cannot be read; earlier pages may have been told.
 */
int fy_compare_pages(struct fy_compare *compare, uintptr_t first, uintptr_t end,
                     fy_compare_told *told, void *state) FY_MUST_CHECK;

/*
 * Measures the bytes per second of fy_compare_pages(); 0: nothing can be compared. Reads
 * whole pages of `memory', which has a page more than `bytes', a multiple of a page.
 */
double fy_compare_rate(const char *memory, size_t bytes);

#endif
