/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions whose annotations in tests/verify/library are wrong in one point
 * each: what they do is easily left out of a declaration.
 */
#include "wronglib.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

int
resample(struct resampling *r)
{
    for (long i = 0; i < r->frames; i++) {
        r->out[i] = (float)(r->ratio * (double)r->in[i]) + r->window[i % 4];
    }
    r->used = r->frames;
    r->generated += r->frames;
    r->histogram[r->frames % 4] += 1;
    return 0;
}

void
amplify(struct resampling *r)
{
    for (long i = 0; i < r->frames; i++) {
        r->out[i] = (float)(r->ratio * (double)r->in[i]);
    }
    r->generated += r->frames;
}

void
shift(const int *n, double *x)
{
    for (int i = 0; i < n[0]; i++) {
        x[i] += n[1];
    }
}

void
fill_even(int n, const double *x, double *y)
{
    for (int i = 0; i < n; i += 2) {
        y[i] = 3 * x[i];
    }
}

void
add_to(int n, const double *x, double *y)
{
    for (int i = 0; i < n; i++) {
        y[i] += x[i];
    }
}

void
all_but_last(int n, const double *x, double *y)
{
    for (int i = 0; i < n; i++) {
        y[i] = 2 * y[i] + (i + 1 < n ? x[i] : 0);
    }
}

void
product(int m, int n, int k, const double *a, int lda, const double *b, int ldb,
        double beta, double *c, int ldc)
{
    for (int j = 0; j < n; j++) {
        for (int i = 0; i < m; i++) {
            double sum = 0;
            for (int l = 0; l < k; l++) {
                sum += a[i + (long)l * lda] * b[l + (long)j * ldb];
            }
            double *at = c + i + (long)j * ldc;
            *at = sum + (beta == 0 ? 0 : beta * *at);
        }
    }
}

static double seen;

void
look_at(int n, const double *x)
{
    for (int i = 0; i < n; i++) {
        seen += x[i];
    }
}

double
what_was_seen(void)
{
    return seen;
}

static int
by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void
sort(int n, double *x)
{
    qsort(x, (size_t)n, sizeof *x, by_value);
}

void
magnitudes(int n, double *x)
{
    for (int i = 0; i < n; i++) {
        x[i] = fabs(x[i]);
    }
}

void
at_least(int n, double least, double *x)
{
    for (int i = 0; i < n; i++) {
        x[i] = x[i] > least ? x[i] : least;
    }
}

void
saturate(int n, double *x)
{
    for (int i = 0; i < n; i++) {
        x[i] = x[i] < 0 ? 0 : x[i] > 1 ? 1 : x[i];
    }
}

void
add_bytes(int n, const unsigned char *x, unsigned char *y)
{
    for (int i = 0; i < n; i++) {
        unsigned sum = x[i] + y[i];
        y[i] = (unsigned char)(sum > 255 ? 255 : sum);
    }
}

void
cover(int n, double by, double *x)
{
    for (int i = 0; i < n; i++) {
        x[i] = by * i;
    }
}

void
parts_of_one(int n, const double *x, double *y)
{
    for (int i = 0; i < n; i++) {
        double whole;
        y[i] = modf(x[i], &whole);
    }
}

void
roots(int n, const double *x, double *y)
{
    for (int i = 0; i < n; i++) {
        if (x[i] < 0) {
            errno = EDOM;
        }
        y[i] = x[i] < 0 ? 0 : sqrt(x[i]);
    }
}

void
doubles(int n, const double *x, double *y)
{
    printf("%d numbers\n", n);
    for (int i = 0; i < n; i++) {
        y[i] = 2 * x[i];
    }
}
