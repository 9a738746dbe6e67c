/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that are offloaded, from two threads, with what they must leave alone:
 * errno, a pending dlerror() and the elements that no call writes. Prints sums that
 * are exact in any order, so that they are the same with and without ferry.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum {
    N = 150,
    LD = 160,
    THREADS = 2,
};

extern void dgemm_(const char *transa, const char *transb, const int *m,
                   const int *n, const int *k, const double *alpha,
                   const double *a, const int *lda, const double *b,
                   const int *ldb, const double *beta, double *c,
                   const int *ldc);
extern double ddot_(const int *n, const double *x, const int *incx,
                    const double *y, const int *incy);

static struct operands {
    double a[LD * N], b[LD * N], c[LD * N];
    double sum, dot;
    int error;
} all[THREADS + 1];

static void *
work(void *argument)
{
    struct operands *o = argument;
    const int n = N, ld = LD, one = 1, many = LD * N;
    const double alpha = 2, beta = -1;
    for (int i = 0; i < LD * N; i++) {
        o->a[i] = i % 7;
        o->b[i] = i % 5 - 2;
        o->c[i] = i % 3;
    }
    errno = 77;
    for (int i = 0; i < 3; i++) {
        dgemm_("N", "T", &n, &n, &n, &alpha, o->a, &ld, o->b, &ld, &beta, o->c,
               &ld);
    }
    o->dot = ddot_(&many, o->a, &one, o->b, &one);
    o->error = errno;
    for (int i = 0; i < LD * N; i++) {
        o->sum += o->c[i] * (i % 11 + 1);
    }
    return NULL;
}

int
main(void)
{
    pthread_t threads[THREADS];
    (void)dlopen("/nowhere/at-all.so", RTLD_NOW);
    (void)work(&all[THREADS]);
    const char *error = dlerror();
    printf("%s\n", error && strstr(error, "at-all") ? "dlerror" : "no dlerror");
    for (int i = 0; i < THREADS; i++) {
        if (pthread_create(&threads[i], NULL, work, &all[i]) != 0) {
            return 1;
        }
    }
    for (int i = 0; i < THREADS; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    for (int i = 0; i <= THREADS; i++) {
        printf("%.0f %.0f %d\n", all[i].sum, all[i].dot, all[i].error);
    }
    return 3;
}
