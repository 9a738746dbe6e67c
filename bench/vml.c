/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The side that a card is compared with: vectorised by the compiler, libmvec's
 * functions where it has them, on all cores.
 */
#ifdef __x86_64__
#pragma GCC target("avx2,fma") /* of every machine that has a card to race */
#endif

#include "bench/vml.h"

#include <math.h>
#include <stddef.h>

/* What math.h says only to those who want fast and sloppy arithmetic, too. */
#pragma omp declare simd notinbranch
double exp(double x);
#pragma omp declare simd notinbranch
double log(double x);
#pragma omp declare simd notinbranch
double erf(double x);
#pragma omp declare simd notinbranch
double sin(double x);
#pragma omp declare simd notinbranch
double cos(double x);
#pragma omp declare simd notinbranch
double asin(double x);

enum {
    SHARED = 1 << 14 /* elements; fewer are not worth waking threads for */
};

/* MKL has BLAS beside it: what ferry tells the width of its integers by. */
size_t cblas_isamax(int n, const float *x, int incx);

size_t
cblas_isamax(int n, const float *x, int incx)
{
    size_t best = 0;

    for (int i = 1; i < n && incx > 0; i++) {
        if (fabsf(x[(size_t)i * (size_t)incx]) >
            fabsf(x[best * (size_t)incx])) {
            best = (size_t)i;
        }
    }
    return best;
}

void
vdAdd(int n, const double *a, const double *b, double *r)
{
#pragma omp parallel for simd if (n > SHARED)
    for (int i = 0; i < n; i++) {
        r[i] = a[i] + b[i];
    }
}

void
vdSub(int n, const double *a, const double *b, double *r)
{
#pragma omp parallel for simd if (n > SHARED)
    for (int i = 0; i < n; i++) {
        r[i] = a[i] - b[i];
    }
}

void
vdMul(int n, const double *a, const double *b, double *r)
{
#pragma omp parallel for simd if (n > SHARED)
    for (int i = 0; i < n; i++) {
        r[i] = a[i] * b[i];
    }
}

void
vdDiv(int n, const double *a, const double *b, double *r)
{
#pragma omp parallel for simd if (n > SHARED)
    for (int i = 0; i < n; i++) {
        r[i] = a[i] / b[i];
    }
}

void
vdSqr(int n, const double *a, double *r)
{
#pragma omp parallel for simd if (n > SHARED)
    for (int i = 0; i < n; i++) {
        r[i] = a[i] * a[i];
    }
}

void
vdSqrt(int n, const double *a, double *r)
{
#pragma omp parallel for simd if (n > SHARED)
    for (int i = 0; i < n; i++) {
        r[i] = sqrt(a[i]);
    }
}

void
vdExp(int n, const double *a, double *r)
{
#pragma omp parallel for simd if (n > SHARED)
    for (int i = 0; i < n; i++) {
        r[i] = exp(a[i]);
    }
}

void
vdLn(int n, const double *a, double *r)
{
#pragma omp parallel for simd if (n > SHARED)
    for (int i = 0; i < n; i++) {
        r[i] = log(a[i]);
    }
}

void
vdErf(int n, const double *a, double *r)
{
#pragma omp parallel for simd if (n > SHARED)
    for (int i = 0; i < n; i++) {
        r[i] = erf(a[i]);
    }
}

void
vdSin(int n, const double *a, double *r)
{
#pragma omp parallel for simd if (n > SHARED)
    for (int i = 0; i < n; i++) {
        r[i] = sin(a[i]);
    }
}

void
vdCos(int n, const double *a, double *r)
{
#pragma omp parallel for simd if (n > SHARED)
    for (int i = 0; i < n; i++) {
        r[i] = cos(a[i]);
    }
}

void
vdAsin(int n, const double *a, double *r)
{
#pragma omp parallel for simd if (n > SHARED)
    for (int i = 0; i < n; i++) {
        r[i] = asin(a[i]);
    }
}

void
vdLinearFrac(int n, const double *a, const double *b, double scale_a,
             double shift_a, double scale_b, double shift_b, double *r)
{
    if (scale_b == 0.0 && shift_b == 1.0) {
#pragma omp parallel for simd if (n > SHARED)
        for (int i = 0; i < n; i++) {
            r[i] = scale_a * a[i] + shift_a;
        }
    } else {
#pragma omp parallel for simd if (n > SHARED)
        for (int i = 0; i < n; i++) {
            r[i] = (scale_a * a[i] + shift_a) / (scale_b * b[i] + shift_b);
        }
    }
}
