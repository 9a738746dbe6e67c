/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products of matrices of whole numbers, checked in O(n^2): C x = A (B x) + beta C' x for
 * a random vector x, modulo 2 to the power of 64. Column-major, leading dimension `ld'.
 */
#ifndef FERRY_TESTS_PROGRAM_EXACT_H
#define FERRY_TESTS_PROGRAM_EXACT_H

#include "common.h"

enum {
    EXACT_MOST = 256, /* rows or columns */
};

/* y := scale * A x, or y += that if `adds'. */
static inline void
exact_times(const double *a, int m, int n, int ld, uint64_t scale,
            const uint64_t *x, uint64_t *y, int adds)
{
    for (int i = 0; i < m && !adds; i++) {
        y[i] = 0;
    }
    for (int k = 0; k < n; k++) {
        for (int i = 0; i < m; i++) {
            y[i] +=
                scale * (uint64_t)(int64_t)a[(size_t)k * (size_t)ld + i] * x[k];
        }
    }
}

/* Counts rows of C that are not those of A * B + beta * `before'; all m, n, k apart. */
static inline unsigned
exact_errors(const double *a, const double *b, const double *c,
             const double *before, uint64_t beta, int m, int n, int k, int ld,
             uint64_t seed)
{
    uint64_t x[EXACT_MOST], y[EXACT_MOST], is[EXACT_MOST], wanted[EXACT_MOST];
    unsigned errors = 0;

    for (int i = 0; i < n; i++) {
        seed = seed * 6364136223846793005U + 1442695040888963407U;
        x[i] = seed >> 33 | 1;
    }
    exact_times(b, k, n, ld, 1, x, y, 0);
    exact_times(a, m, k, ld, 1, y, wanted, 0);
    if (beta) {
        exact_times(before, m, n, ld, beta, x, wanted, 1);
    }
    exact_times(c, m, n, ld, 1, x, is, 0);
    for (int i = 0; i < m; i++) {
        errors += is[i] != wanted[i];
    }
    return errors;
}

#endif
