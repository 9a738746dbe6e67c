/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Built with AddressSanitizer: a product, then a write behind an array of the
 * heap. The runtime must say so, and end the program with its own status, under
 * ferry, too. `again': in a child of a shell that this one becomes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    N = 60
};

extern void dgemm_(const char *, const char *, const int *, const int *,
                   const int *, const double *, const double *, const int *,
                   const double *, const int *, const double *, double *,
                   const int *, size_t, size_t);

int
main(int argc, char **argv)
{
    const int n = N;
    const double one = 1;
    if (argc > 1 && strcmp(argv[1], "again") == 0) {
        char *command[] = {"sh", "-c", "\"$0\"; echo status $?", argv[0], NULL};
        return execvp("sh", command);
    }
    double *a = calloc((size_t)N * N, sizeof *a);
    double *c = calloc((size_t)N * N, sizeof *c);
    if (a == NULL || c == NULL) {
        return 2;
    }
    for (int i = 0; i < N; i++) {
        a[i + (size_t)N * i] = i;
    }
    dgemm_("N", "N", &n, &n, &n, &one, a, &n, a, &n, &one, c, &n, 1, 1);
    printf("%g %g\n", c[1 + N], c[(size_t)N * N - 1]);
    fflush(stdout);
    free(a);
    volatile size_t behind = (size_t)N * N;
    c[behind] = 1;
    free(c);
    return 0;
}
