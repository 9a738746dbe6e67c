/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vector functions for tests of deferred calls, as a library would have them,
 * without threads or locks. Counts its calls, so that a program can tell.
 */
#include "tests/defer/vec.h"

#include <math.h>

long vec_calls;

void
vec_add(int n, const double *a, const double *b, double *r)
{
    __atomic_fetch_add(&vec_calls, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < n; i++) {
        r[i] = a[i] + b[i];
    }
}

void
vec_mul(int n, const double *a, const double *b, double *r)
{
    __atomic_fetch_add(&vec_calls, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < n; i++) {
        r[i] = a[i] * b[i];
    }
}

void
vec_sqrt(int n, const double *a, double *r)
{
    __atomic_fetch_add(&vec_calls, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < n; i++) {
        r[i] = sqrt(a[i]);
    }
}

void
vec_axpy(int n, double alpha, const double *x, double *y)
{
    __atomic_fetch_add(&vec_calls, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < n; i++) {
        y[i] += alpha * x[i];
    }
}

void
vec_linear(int n, const double *a, double s, double h, double t, double u,
           double *r)
{
    __atomic_fetch_add(&vec_calls, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < n; i++) {
        r[i] = (s * a[i] + h) / (t * a[i] + u);
    }
}

void
vec_halves(int n, const float *a, float s, float *r)
{
    __atomic_fetch_add(&vec_calls, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < n; i++) {
        r[i] = s * a[i];
    }
}

void
vec_copy(int n, const double *a, double *r)
{
    __atomic_fetch_add(&vec_calls, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < n; i++) {
        r[i] = a[i];
    }
}

void
vec_clean(int n, const double *a, double *r)
{
    __atomic_fetch_add(&vec_calls, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < n; i++) {
        r[i] = isfinite(a[i]) ? a[i] : 0;
    }
}

void
vec_touch(int n, double *r)
{
    __atomic_fetch_add(&vec_calls, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < n; i++) {
        volatile double *at = &r[i];
        *at = *at;
    }
}

double
vec_sum(int n, const double *a)
{
    double sum = 0;

    __atomic_fetch_add(&vec_calls, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < n; i++) {
        sum += a[i];
    }
    return sum;
}
