/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the small test programs share: Fortran BLAS by its C prototype (hidden
 * lengths left out, as most C programs do) and matrices of small whole
 * numbers. Their products are exact in double, so a right result is the same
 * to the bit however the call was cut.
 */
#ifndef FERRY_TESTS_PROGRAM_COMMON_H
#define FERRY_TESTS_PROGRAM_COMMON_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef ILP64
typedef int64_t integer;
#else
typedef int integer;
#endif

void dgemm_(const char *transa, const char *transb, const integer *m,
            const integer *n, const integer *k, const double *alpha,
            const double *a, const integer *lda, const double *b,
            const integer *ldb, const double *beta, double *c,
            const integer *ldc);
void dgemv_(const char *trans, const integer *m, const integer *n,
            const double *alpha, const double *a, const integer *lda,
            const double *x, const integer *incx, const double *beta, double *y,
            const integer *incy);
void dsyrk_(const char *uplo, const char *trans, const integer *n,
            const integer *k, const double *alpha, const double *a,
            const integer *lda, const double *beta, double *c,
            const integer *ldc);
void dtrsm_(const char *side, const char *uplo, const char *transa,
            const char *diag, const integer *m, const integer *n,
            const double *alpha, const double *a, const integer *lda, double *b,
            const integer *ldb);
void daxpy_(const integer *n, const double *alpha, const double *x,
            const integer *incx, double *y, const integer *incy);
void dcopy_(const integer *n, const double *x, const integer *incx, double *y,
            const integer *incy);
void dswap_(const integer *n, double *x, const integer *incx, double *y,
            const integer *incy);
void dscal_(const integer *n, const double *alpha, double *x,
            const integer *incx);
double ddot_(const integer *n, const double *x, const integer *incx,
             const double *y, const integer *incy);
double dasum_(const integer *n, const double *x, const integer *incx);

/* Whole numbers from -4 to 4 that depend on `seed'. */
static inline void
fill(double *x, size_t count, unsigned seed)
{
    uint32_t state = seed * 2654435761u + 1;

    for (size_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = (double)((state >> 24) % 9) - 4;
    }
}

/* A number that tells two arrays apart; the same for the same bytes. */
static inline uint64_t
digest(const double *x, size_t count)
{
    uint64_t sum = 14695981039346656037u;

    for (size_t i = 0; i < count; i++) {
        uint64_t bits;
        double plain = x[i] + 0.0; /* -0 counts as 0 */
        memcpy(&bits, &plain, sizeof bits);
        sum = (sum ^ bits ^ (bits >> 32)) * 1099511628211u;
    }
    return sum;
}

/*
 * One product c := a * b + c of n x n matrices with padding in the leading
 * dimension, checked against plain loops. Returns the number of wrong
 * elements, padding included; -1 when there is no memory.
 */
static inline long
product_errors(integer n, unsigned seed)
{
    const double one = 1;
    const integer ld = n + 3;
    const size_t count = (size_t)ld * (size_t)n;
    double *a = calloc(4 * count, sizeof *a);
    long errors = 0;

    if (!a)
        return -1;
    double *b = a + count, *c = b + count, *expected = c + count;
    fill(a, 3 * count, seed);
    memcpy(expected, c, count * sizeof *c);
    for (integer j = 0; j < n; j++)
        for (integer l = 0; l < n; l++)
            for (integer i = 0; i < n; i++)
                expected[i + j * ld] += a[i + l * ld] * b[l + j * ld];
    dgemm_("N", "N", &n, &n, &n, &one, a, &ld, b, &ld, &one, c, &ld);
    for (size_t i = 0; i < count; i++)
        errors += c[i] != expected[i];
    free(a);
    return errors;
}

#endif
