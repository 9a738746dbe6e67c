/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several copies of BLAS in one process, of different integer widths, found
 * with dlopen and dlsym; and a copy that goes away and comes back.
 * Arguments: both FILE FILE64... | reload FILE FILE | next.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void gemm(const char *, const char *, const void *, const void *,
                  const void *, const double *, const double *, const void *,
                  const double *, const void *, const double *, double *,
                  const void *);
typedef double dot(const void *, const double *, const void *, const double *,
                   const void *);

enum {
    N = 37
};

/*
 * An n x n product by that library. The sizes are 64-bit memory: a library
 * that reads 32 bits of it sees the same numbers. For a 64-bit one `high' is
 * what a 32-bit caller's stack may hold there.
 */
static long
wrong(gemm *multiply, dot *inner, int64_t n, unsigned seed)
{
    static double a[N * N], b[N * N], c[N * N], expected[N * N];
    const double one = 1, zero = 0;
    const int64_t step = 1;
    long errors = 0;
    double sum = 0;

    for (int i = 0; i < N * N; i++) {
        a[i] = (double)((seed + (unsigned)i * 7) % 11) - 5;
        b[i] = (double)((seed + (unsigned)i * 5) % 13) - 6;
        c[i] = 777;
        expected[i] = 777;
    }
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < n; i++) {
            expected[i + j * n] = 0;
            for (int64_t l = 0; l < n; l++) {
                expected[i + j * n] += a[i + l * n] * b[l + j * n];
            }
        }
    }
    multiply("N", "N", &n, &n, &n, &one, a, &n, b, &n, &zero, c, &n);
    for (int i = 0; i < N * N; i++) {
        errors += c[i] != expected[i];
    }
    for (int64_t i = 0; i < n; i++) {
        sum += a[i] * b[i];
    }
    return errors + (inner(&n, a, &step, b, &step) != sum) * 10000;
}

static int
use(const char *path, int flags, unsigned seed, void **handle)
{
    *handle = dlopen(path, flags);
    if (!*handle) {
        printf("dlopen failed\n");
        return 1;
    }
    gemm *multiply = (gemm *)(uintptr_t)dlsym(*handle, "dgemm_");
    dot *inner = (dot *)(uintptr_t)dlsym(*handle, "ddot_");
    printf("%s %s: ", multiply ? "dgemm_" : "-", inner ? "ddot_" : "-");
    if (!multiply || !inner) {
        return 1;
    }
    printf("%ld wrong\n", wrong(multiply, inner, N, seed) +
                              wrong(multiply, inner, 20, seed + 1));
    return 0;
}

int
main(int argc, char **argv)
{
    void *handles[8] = {NULL};

    if (argc > 2 && strcmp(argv[1], "both") == 0) {
        for (int round = 0; round < 2; round++) {
            for (int i = 2; i < argc && i < 10; i++) {
                if (use(argv[i], RTLD_NOW | RTLD_LOCAL, (unsigned)i,
                        &handles[i - 2])) {
                    return 1;
                }
            }
        }
        printf("%s\n", dlsym(RTLD_DEFAULT, "dgemm_") ? "global" : "not global");
        printf("%s\n",
               dlsym(handles[0], "no_such_name") ? "?" : "no such name");
        return 0;
    }
    if (argc > 3 && strcmp(argv[1], "reload") == 0) {
        for (int round = 0; round < 6; round++) {
            if (use(argv[2 + round % 2], RTLD_LAZY | RTLD_LOCAL,
                    (unsigned)round, &handles[0])) {
                return 1;
            }
            printf("dlclose: %d\n", dlclose(handles[0]));
        }
        return 0;
    }
    return 2;
}
