/* SPDX-License-Identifier: Apache-2.0
 *
 * The program's own BLAS beside a card that is simulated in time: it computes
 * nothing, and takes the time of the simulated host (clock.h): twelve processors
 * whose products and memory have the rates of an H200's host. Integers of 32 bits.
 */
#include "config.h"

#include <stddef.h>
#include <stdint.h>

#include "tests/fakecuda/clock.h"

#define EXPORT __attribute__((visibility("default")))

/* Of a processor; all of them where a call is long enough for threads. */
static const double flops_f64 = 45e9, bytes_second = 12e9;
static const double processors = 12, all_bytes = 150e9;
static const double call_seconds = 3e-7, fork_seconds = 8e-6;

static void
take(double flops, double bytes, double ease)
{
    double one = flops / (flops_f64 * ease);
    double memory = bytes / bytes_second;
    double seconds = one > memory ? one : memory;
    double flat = one / processors, all = bytes / all_bytes;
    double shared = fork_seconds + (flat > all ? flat : all);
    seconds = call_seconds + (shared < seconds ? shared : seconds);
    if (fakeclock_is_on != NULL && fakeclock_is_on()) {
        fakeclock_sleep((uint64_t)(seconds * 1e9));
    }
}

/* ease: operations of that type for one of a double. */
#define GEMM(name, bytes, ease)                                              \
    EXPORT void name(const char *, const char *, const int *m, const int *n, \
                     const int *k);                                          \
    void name(const char *ta, const char *tb, const int *m, const int *n,    \
              const int *k)                                                  \
    {                                                                        \
        double x = *m, y = *n, z = *k;                                       \
        (void)ta;                                                            \
        (void)tb;                                                            \
        take(2 * x * y * z, (bytes) * (x * z + z * y + x * y), ease);        \
    }
GEMM(sgemm_, 4, 2)
GEMM(dgemm_, 8, 1)
GEMM(zgemm_, 16, 0.25)

#define GEMV(name, bytes, ease)                                 \
    EXPORT void name(const char *, const int *m, const int *n); \
    void name(const char *t, const int *m, const int *n)        \
    {                                                           \
        double x = *m, y = *n;                                  \
        (void)t;                                                \
        take(2 * x * y, (bytes) * (x * y + x + y), ease);       \
    }
GEMV(sgemv_, 4, 2)
GEMV(dgemv_, 8, 1)

#define RANK_K(name, bytes, ease)                                             \
    EXPORT void name(const char *, const char *, const int *n, const int *k); \
    void name(const char *u, const char *t, const int *n, const int *k)       \
    {                                                                         \
        double x = *n, y = *k;                                                \
        (void)u;                                                              \
        (void)t;                                                              \
        take(x *x *y, (bytes) * (x * y + x * x / 2), ease);                   \
    }
RANK_K(ssyrk_, 4, 2)

EXPORT void dsymm_(const char *, const char *, const int *m, const int *n);
void
dsymm_(const char *side, const char *uplo, const int *m, const int *n)
{
    double x = *m, y = *n;
    (void)uplo;
    take(2 * x * y * (*side == 'L' ? x : y), 8 * (x * x / 2 + 2 * x * y), 1);
}

EXPORT void dtrsm_(const char *, const char *, const char *, const char *,
                   const int *m, const int *n);
void
dtrsm_(const char *side, const char *uplo, const char *t, const char *diag,
       const int *m, const int *n)
{
    double x = *m, y = *n;
    (void)uplo;
    (void)t;
    (void)diag;
    take(x * y * (*side == 'L' ? x : y), 8 * (x * x / 2 + x * y), 1);
}

EXPORT void dpotrf_(const char *, const int *n, double *a, const int *lda,
                    int *info);
void
dpotrf_(const char *uplo, const int *n, double *a, const int *lda, int *info)
{
    double x = *n;
    (void)uplo;
    (void)a;
    (void)lda;
    *info = 0;
    take(x * x * x / 3, 4 * x * x, 0.8);
}

EXPORT void dgetrf_(const int *m, const int *n, double *a, const int *lda,
                    int *pivots, int *info);
void
dgetrf_(const int *m, const int *n, double *a, const int *lda, int *pivots,
        int *info)
{
    double x = *n;
    (void)m;
    (void)a;
    (void)lda;
    (void)pivots;
    *info = 0;
    take(2 * x * x * x / 3, 8 * x * x, 0.7);
}

/* By this one ferry finds out the width of INTEGER. */
EXPORT int isamax_(const int *n, const float *x, const int *step);
int
isamax_(const int *n, const float *x, const int *step)
{
    int best = *n > 0 ? 1 : 0;
    for (int i = 1; i < *n; i++) {
        best = x[(ptrdiff_t)i * *step] > x[(ptrdiff_t)(best - 1) * *step]
                   ? i + 1
                   : best;
    }
    return best;
}
