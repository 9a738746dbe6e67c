/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library as its own author would write it, knowing nothing of ferry: the
 * forms that BLAS does not have (structs, size_t, dense rows without a leading
 * dimension, batches, accumulation into a histogram, returned sums and maxima).
 */
#ifndef FERRY_TESTS_USER_USERLIB_H
#define FERRY_TESTS_USER_USERLIB_H

#include <stddef.h>
#include <stdint.h>

struct image {
    int32_t width, height;
    size_t pitch; /* floats from one row to the next, >= width */
    float *pixels;
    const char *title;
};

/* pixels := gain * pixels + offset */
void image_adjust(struct image *im, float gain, float offset);

/* dst(y, x) := a(y, x) * b(y, x); all of one size, each with its own pitch. */
int image_multiply(struct image *dst, const struct image *a,
                   const struct image *b);

/* sums[i] := sum over j of a[i * cols + j] */
void row_sums(size_t rows, size_t cols, const double *a, double *sums);

/* bins[x[i]] += 1 for every i; 0 <= x[i] < nbins */
void histogram_add(size_t n, const uint8_t *x, int nbins, double *bins);

/* y(b, :) := A(b, :, :) x(b, :), nb dense m x n row-major matrices */
void batch_gemv(long nb, long m, long n, const double *a, const double *x,
                double *y);

double energy(size_t n, const float *v); /* sum of v[i]^2 */
double peak(size_t n, const double *v);  /* largest v[i], -HUGE_VAL if n = 0 */

/* out[i] := f(in[i * step], *table), table is never looked into by others */
struct table;
struct table *table_new(double base);
void table_free(struct table *table);
void table_map(const struct table *table, int n, const double *in, int step,
               double *out);

#endif
