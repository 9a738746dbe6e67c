/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What lies between the elements of an operand belongs to somebody else: other
 * threads count there, without any lock, while calls write the operand. No
 * count may be lost. Argument: padding | triangle | columns | strided.
 */
#include "common.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    N = 60,
    LD = 75,
    CALLS = 150
};

static double a[N * N], c[LD * 2 * N];
static double *places[LD * 2 * N];
static int nplaces;
static atomic_int stop;
static long rounds;

/* Adds one to every place, in rounds, by plain loads and stores. */
static void *
count(void *unused)
{
    (void)unused;
    while (!atomic_load(&stop)) {
        for (int i = 0; i < nplaces; i++) {
            *(volatile double *)places[i] += 1;
        }
        rounds++;
    }
    return NULL;
}

/* Two threads write columns of one matrix in turn: even and odd ones. */
static void *
odd_columns(void *argument)
{
    const integer n = N, twice = 2 * LD;
    const double one = 1;

    for (int i = 0; i < CALLS; i++) {
        dgemm_("N", "N", &n, &n, &n, &one, a, &n, a, &n, &one,
               (double *)argument, &twice);
    }
    return NULL;
}

static int
columns(void)
{
    static double alone[LD * 2 * N];
    pthread_t thread;

    memcpy(alone, c, sizeof c);
    odd_columns(alone);
    odd_columns(alone + LD);
    pthread_create(&thread, NULL, odd_columns, c + LD);
    odd_columns(c);
    pthread_join(thread, NULL);
    printf("columns: %s\n", memcmp(alone, c, sizeof c) ? "differ" : "same");
    return 0;
}

int
main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "padding";
    const integer n = N, ld = LD, step = 3;
    const double one = 1;
    pthread_t thread;
    long lost = 0;

    fill(a, N * N, 1);
    if (strcmp(mode, "columns") == 0) {
        return columns();
    }
    for (int j = 0; j < N; j++) {
        const int from = strcmp(mode, "padding") == 0    ? N
                         : strcmp(mode, "triangle") == 0 ? j + 1
                                                         : LD;
        for (int i = from; i < LD; i++) {
            places[nplaces++] = &c[i + j * LD];
        }
    }
    if (strcmp(mode, "strided") == 0) {
        for (int i = 0; i < 3 * N; i++) {
            if (i % 3 != 0) {
                places[nplaces++] = &c[i];
            }
        }
    }
    pthread_create(&thread, NULL, count, NULL);
    for (int i = 0; i < CALLS; i++) {
        if (strcmp(mode, "padding") == 0) {
            dgemm_("N", "N", &n, &n, &n, &one, a, &n, a, &n, &one, c, &ld);
        } else if (strcmp(mode, "triangle") == 0) {
            dsyrk_("U", "N", &n, &n, &one, a, &n, &one, c, &ld);
        } else {
            dgemv_("N", &n, &n, &one, a, &n, a, &step, &one, c, &step);
        }
    }
    atomic_store(&stop, 1);
    pthread_join(thread, NULL);
    for (int i = 0; i < nplaces; i++) {
        lost += *places[i] != (double)rounds;
        *places[i] = 0;
    }
    printf("%s: %d places, %ld with lost counts, %016llx\n", mode, nplaces,
           lost, (unsigned long long)digest(c, LD * N));
    return 0;
}
