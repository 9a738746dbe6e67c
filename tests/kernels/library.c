/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that tests/kernels/run.sh offloads; see vml.h. */
#include "tests/kernels/vml.h"

/* ferry asks for it to tell the width of the library's integers. */
int cblas_isamax(int n, const float *x, int incx);

int
cblas_isamax(int n, const float *x, int incx)
{
    int best = 0;
    for (int i = 1; i < n; i++) {
        best = fabsf(x[i * incx]) > fabsf(x[best * incx]) ? i : best;
    }
    return best;
}

#define UNARY(name, value, range)                    \
    void vd##name(int n, const double *x, double *r) \
    {                                                \
        for (int i = 0; i < n; i++) {                \
            double a = x[i];                         \
            r[i] = value;                            \
        }                                            \
    }                                                \
    void vs##name(int n, const float *x, float *r)   \
    {                                                \
        for (int i = 0; i < n; i++) {                \
            double a = x[i];                         \
            r[i] = (float)(value);                   \
        }                                            \
    }
#define BINARY(name, value, range)                                    \
    void vd##name(int n, const double *x, const double *y, double *r) \
    {                                                                 \
        for (int i = 0; i < n; i++) {                                 \
            double a = x[i], b = y[i];                                \
            r[i] = value;                                             \
        }                                                             \
    }                                                                 \
    void vs##name(int n, const float *x, const float *y, float *r)    \
    {                                                                 \
        for (int i = 0; i < n; i++) {                                 \
            double a = x[i], b = y[i];                                \
            r[i] = (float)(value);                                    \
        }                                                             \
    }
VML_UNARY(UNARY)
VML_BINARY(BINARY)

void
vdPowx(int n, const double *a, double b, double *r)
{
    for (int i = 0; i < n; i++) {
        r[i] = pow(a[i], b);
    }
}

void
vsLinearFrac(int n, const float *a, const float *b, float scalea, float shifta,
             float scaleb, float shiftb, float *r)
{
    for (int i = 0; i < n; i++) {
        r[i] = (scalea * a[i] + shifta) / (scaleb * b[i] + shiftb);
    }
}

void
scale(int n, double alpha, const double *x, double *y)
{
    for (int i = 0; i < n; i++) {
        y[i] = alpha * x[i];
    }
}

void
grid2(int m, int n, const float *v, float *a, int lda, float s)
{
    for (int j = 0; j < n; j++) {
        for (int i = 0; i < m; i++) {
            float *x = &a[i + (long)j * lda];
            *x = *x > 0 ? s * *x + v[i] : (float)m;
        }
    }
}

void
broken(int n, double *x)
{
    for (int i = 0; i < n; i++) {
        x[i] += 1;
    }
}

void
counts(long n, const int *x, short *y)
{
    for (long i = 0; i < n; i++) {
        y[i] = (short)(x[i] % 7 == 3 ? -x[i] : x[i] / 2);
    }
}

static double
normal(double d)
{
    return erfc(-d * M_SQRT1_2) / 2;
}

void
black_scholes(int n, double rate, double v, const double *s, const double *x,
              const double *t, double *call, double *put)
{
    for (int i = 0; i < n; i++) {
        double q = v * sqrt(t[i]);
        double d = (log(s[i] / x[i]) + (rate + 0.5 * v * v) * t[i]) / q;
        double z = x[i] * exp(-rate * t[i]);
        call[i] = s[i] * normal(d) - z * normal(d - q);
        put[i] = call[i] - s[i] + z;
    }
}

/* Columns take v's share where u says so, else s. */
void
blend(int m, int n, const float *u, const float *v, float *a, int lda, float s)
{
    for (int j = 0; j < n; j++) {
        for (int i = 0; i < m; i++) {
            float *x = &a[i + (long)j * lda];
            *x = *x > u[i] ? *x - v[j] / 4 : s * *x + u[i];
        }
    }
}

void
row_shares(int n, int m, const double *a, int lda, double *y)
{
    for (int i = 0; i < n; i++) {
        y[i] = 0;
        for (int j = 0; j < m; j++) {
            y[i] += a[(long)i * lda + j];
        }
    }
    for (int i = 0; i < n; i += 32) {
        double most = 0;
        for (int k = i; k < i + 32 && k < n; k++) {
            most = fmax(most, fabs(y[k]));
        }
        for (int k = i; k < i + 32 && k < n && most > 0; k++) {
            y[k] /= most;
        }
    }
}

void
row_shares_short(int n, int m, const double *a, int lda, double *y)
{
    row_shares(n, m, a, lda, y);
}

/* c := c - a b, n x n, column-major */
void
take_product(int n, const float *a, const float *b, float *c)
{
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++) {
            for (int k = 0; k < n; k++) {
                c[i + j * n] -= a[i + k * n] * b[k + j * n];
            }
        }
    }
}
