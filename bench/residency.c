/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products of n x n matrices, for `ferry run --report --residency ...': "chain" multiplies
 * the last result by the same matrix twelve times, "stream" overwrites both inputs before
 * each of 120 products. Prints a hash of the result.
 *
 * cc -O2 bench/residency.c -lblas
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void dgemm_(const char *transa, const char *transb, const int *m, const int *n,
            const int *k, const double *alpha, const double *a, const int *lda,
            const double *b, const int *ldb, const double *beta, double *c,
            const int *ldc);

static int n;

static void
product(const double *a, const double *b, double *c)
{
    const double one = 1, zero = 0;
    dgemm_("N", "N", &n, &n, &n, &one, a, &n, b, &n, &zero, c, &n);
}

static void
fill(double *a, double *b, int round)
{
    for (size_t i = 0; i < (size_t)n * (size_t)n; i++) {
        a[i] = (double)(i * 2654435761U % 1000 + (size_t)round) / 1000;
        b[i] = (double)(i * 40503U % 997) / 997 / n * 2;
    }
}

int
main(int argc, char **argv)
{
    int chain = argc == 3 && strcmp(argv[1], "chain") == 0;
    n = argc == 3 ? atoi(argv[2]) : 0;
    if (n < 1 || (!chain && strcmp(argv[1], "stream") != 0)) {
        (void)fprintf(stderr, "usage: residency chain|stream N\n");
        return 2;
    }
    size_t bytes = (size_t)n * (size_t)n * 8;
    double *a = malloc(bytes), *b = malloc(bytes), *c = malloc(bytes);
    if (!a || !b || !c) {
        return 1;
    }
    fill(a, b, 0);
    for (int i = 0; i < (chain ? 12 : 120); i++) {
        if (!chain) {
            fill(a, b, i);
        }
        product(a, b, c);
        if (chain) {
            double *t = a;
            a = c;
            c = t;
        }
    }
    uint64_t hash = 0, word;
    const double *result = chain ? a : c;
    for (size_t i = 0; i < bytes / 8; i++) {
        memcpy(&word, &result[i], 8);
        hash = hash * 31 + word;
    }
    printf("%016llx\n", (unsigned long long)hash);
    return 0;
}
