/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a declined call costs: nanoseconds of a 13-argument dgemm_ that does
 * nothing, called through the PLT. The best of many short rounds, which leaves
 * out what other processes take; bench/decline.sh runs it in turn with and
 * without the preload. Arguments: rounds, calls per round.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

void dgemm_(const char *transa, const char *transb, const int *m, const int *n,
            const int *k, const double *alpha, const double *a, const int *lda,
            const double *b, const int *ldb, const double *beta, double *c,
            const int *ldc);

static double
now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

int
main(int argc, char **argv)
{
    long rounds = argc > 1 ? atol(argv[1]) : 500;
    long calls = argc > 2 ? atol(argv[2]) : 20000;
    int n = 8;
    double one = 1, a[64] = {0}, b[64] = {0}, c[64] = {0}, best = 1e300;
    for (long round = 0; round < rounds; round++) {
        double start = now_ns();
        for (long i = 0; i < calls; i++) {
            dgemm_("N", "N", &n, &n, &n, &one, a, &n, b, &n, &one, c, &n);
        }
        double each = (now_ns() - start) / (double)calls;
        if (each < best) {
            best = each;
        }
    }
    printf("%.3f\n", best);
    return 0;
}
