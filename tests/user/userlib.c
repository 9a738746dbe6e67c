/* SPDX-License-Identifier: Apache-2.0 */
/* The library of userlib.h: plain loops, no knowledge of ferry. */
#include "userlib.h"

#include <math.h>
#include <stdlib.h>

void
image_adjust(struct image *im, float gain, float offset)
{
    for (int32_t y = 0; y < im->height; y++) {
        float *row = im->pixels + (size_t)y * im->pitch;
        for (int32_t x = 0; x < im->width; x++) {
            row[x] = gain * row[x] + offset;
        }
    }
}

int
image_multiply(struct image *dst, const struct image *a, const struct image *b)
{
    if (a->width != dst->width || b->width != dst->width ||
        a->height != dst->height || b->height != dst->height) {
        return -1;
    }
    for (int32_t y = 0; y < dst->height; y++) {
        for (int32_t x = 0; x < dst->width; x++) {
            dst->pixels[(size_t)y * dst->pitch + (size_t)x] =
                a->pixels[(size_t)y * a->pitch + (size_t)x] *
                b->pixels[(size_t)y * b->pitch + (size_t)x];
        }
    }
    return 0;
}

void
row_sums(size_t rows, size_t cols, const double *a, double *sums)
{
    for (size_t i = 0; i < rows; i++) {
        double sum = 0;
        for (size_t j = 0; j < cols; j++) {
            sum += a[i * cols + j];
        }
        sums[i] = sum;
    }
}

void
histogram_add(size_t n, const uint8_t *x, int nbins, double *bins)
{
    for (size_t i = 0; i < n; i++) {
        if (x[i] < nbins) {
            bins[x[i]] += 1;
        }
    }
}

void
batch_gemv(long nb, long m, long n, const double *a, const double *x, double *y)
{
    for (long b = 0; b < nb; b++) {
        for (long i = 0; i < m; i++) {
            double sum = 0;
            for (long j = 0; j < n; j++) {
                sum += a[(b * m + i) * n + j] * x[b * n + j];
            }
            y[b * m + i] = sum;
        }
    }
}

double
energy(size_t n, const float *v)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += (double)v[i] * (double)v[i];
    }
    return sum;
}

double
peak(size_t n, const double *v)
{
    double max = -HUGE_VAL;
    for (size_t i = 0; i < n; i++) {
        max = v[i] > max ? v[i] : max;
    }
    return max;
}

struct table {
    double base;
};

struct table *
table_new(double base)
{
    struct table *table = malloc(sizeof *table);
    if (table != NULL) {
        table->base = base;
    }
    return table;
}

void
table_free(struct table *table)
{
    free(table);
}

void
table_map(const struct table *table, int n, const double *in, int step,
          double *out)
{
    for (int i = 0; i < n; i++) {
        out[i] = fma(in[(ptrdiff_t)i * step], table->base, 1.0);
    }
}
