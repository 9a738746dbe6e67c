/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vector math with the names and prototypes of MKL, which is not installed: a
 * library of loops, and what a program expects of it. One row per function.
 */
#ifndef FERRY_TESTS_KERNELS_VML_H
#define FERRY_TESTS_KERNELS_VML_H

#include <math.h>

/* name, value of a (and b) in double; what a is made of: 0: (0, 1), 1: about
 * -4 .. 4, 2: above 1 */
#define VML_UNARY(X)                       \
    X(Abs, fabs(a), 1)                     \
    X(Sqr, a *a, 1)                        \
    X(Sqrt, sqrt(a), 2)                    \
    X(Inv, 1 / a, 2)                       \
    X(Floor, floor(a), 1)                  \
    X(Ceil, ceil(a), 1)                    \
    X(Trunc, trunc(a), 1)                  \
    X(Rint, rint(a), 1)                    \
    X(Round, round(a), 1)                  \
    X(InvSqrt, 1 / sqrt(a), 2)             \
    X(Cbrt, cbrt(a), 1)                    \
    X(InvCbrt, 1 / cbrt(a), 2)             \
    X(Pow2o3, pow(fabs(a), 2.0 / 3), 1)    \
    X(Pow3o2, pow(a, 1.5), 2)              \
    X(Exp, exp(a), 1)                      \
    X(Exp2, exp2(a), 1)                    \
    X(Exp10, pow(10, a), 1)                \
    X(Expm1, expm1(a), 1)                  \
    X(Ln, log(a), 2)                       \
    X(Log2, log2(a), 2)                    \
    X(Log10, log10(a), 2)                  \
    X(Log1p, log1p(a), 2)                  \
    X(Sin, sin(a), 1)                      \
    X(Cos, cos(a), 1)                      \
    X(Tan, tan(a), 0)                      \
    X(Asin, asin(a), 0)                    \
    X(Acos, acos(a), 0)                    \
    X(Atan, atan(a), 1)                    \
    X(Sinh, sinh(a), 1)                    \
    X(Cosh, cosh(a), 1)                    \
    X(Tanh, tanh(a), 1)                    \
    X(Asinh, asinh(a), 1)                  \
    X(Acosh, acosh(a), 2)                  \
    X(Atanh, atanh(a), 0)                  \
    X(Erf, erf(a), 1)                      \
    X(Erfc, erfc(a), 1)                    \
    X(CdfNorm, erfc(-a *M_SQRT1_2) / 2, 1) \
    X(TGamma, tgamma(a), 2)                \
    X(LGamma, lgamma(a), 2)

#define VML_BINARY(X)                \
    X(Add, a + b, 1)                 \
    X(Sub, a - b, 1)                 \
    X(Mul, a *b, 1)                  \
    X(Div, a / b, 2)                 \
    X(Fmax, fmax(a, b), 1)           \
    X(Fmin, fmin(a, b), 1)           \
    X(CopySign, copysign(a, b), 1)   \
    X(Fdim, fdim(a, b), 1)           \
    X(Fmod, fmod(a, b), 2)           \
    X(Remainder, remainder(a, b), 2) \
    X(Pow, pow(a, b), 2)             \
    X(Atan2, atan2(a, b), 1)         \
    X(Hypot, hypot(a, b), 1)

#define VML_DECLARE_UNARY(name, value, range)         \
    void vd##name(int n, const double *a, double *r); \
    void vs##name(int n, const float *a, float *r);
#define VML_DECLARE_BINARY(name, value, range)                         \
    void vd##name(int n, const double *a, const double *b, double *r); \
    void vs##name(int n, const float *a, const float *b, float *r);
VML_UNARY(VML_DECLARE_UNARY)
VML_BINARY(VML_DECLARE_BINARY)
void vdPowx(int n, const double *a, double b, double *r);
void vsLinearFrac(int n, const float *a, const float *b, float scalea,
                  float shifta, float scaleb, float shiftb, float *r);

/* Functions of kernels.ferry. */
void scale(int n, double alpha, const double *x, double *y);
void grid2(int m, int n, const float *v, float *a, int lda, float s);
void broken(int n, double *x);
void counts(long n, const int *x, short *y);

/* Functions of maps.ferry. */
void black_scholes(int n, double rate, double v, const double *s,
                   const double *x, const double *t, double *call, double *put);
void blend(int m, int n, const float *u, const float *v, float *a, int lda,
           float s);

/* Functions of shared.ferry. */
void row_shares(int n, int m, const double *a, int lda, double *y);
void row_shares_short(int n, int m, const double *a, int lda, double *y);
void take_product(int n, const float *a, const float *b, float *c);

#endif
