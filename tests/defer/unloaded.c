/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that has vec.c's library from dlopen() and closes it while calls
 * are put off, whose code is gone then. `unloaded LIBRARY' prints what it sees.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    N = 300000
};

typedef void add_fn(int n, const double *a, const double *b, double *r);

int
main(int argc, char **argv)
{
    void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
    double *a = malloc(N * sizeof *a), *r = malloc(N * sizeof *r), sum = 0;
    if (!library || !a || !r) {
        return 2;
    }
    add_fn *add = (add_fn *)(uintptr_t)dlsym(library, "vec_add");
    for (int i = 0; i < N; i++) {
        a[i] = i % 17;
    }
    add(N, a, a, r);
    add(N, r, a, r);
    if (dlclose(library) || dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD)) {
        return 3;
    }
    for (int i = 0; i < N; i++) {
        sum += r[i];
    }
    printf("%a\n", sum);
    free(a);
    free(r);
    return 0;
}
