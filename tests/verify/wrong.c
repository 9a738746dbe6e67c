/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls one function of wronglib.h eight times and prints what it left.
 * usage: wrong FUNCTION
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "wronglib.h"

enum {
    MOST = 48
};

enum {
    BYTES = MOST * MOST * sizeof(double)
};

/* x cannot be written during a call, and others may see what is in y and z. */
static double *x, *y, *z;
static float from[MOST], to[MOST];
static unsigned char bytes[2][MOST];

static void
print(const char *name, const double *v, int n)
{
    double sum = 0, weighted = 0;
    for (int i = 0; i < n; i++) {
        sum += v[i];
        weighted += v[i] * (i + 1);
    }
    printf("%s %.17g %.17g\n", name, sum, weighted);
}

static void
call_resample(bool whole, int n)
{
    static const float window[] = {1, 2, 3, 4};
    struct resampling r = {from, to, window, n, -1, 5, 1.5, {0}};
    int status = 0;
    if (whole) {
        status = resample(&r);
    } else {
        amplify(&r);
    }
    printf("%d %ld %ld %ld %g %d %d\n", status, r.frames, r.used, r.generated,
           (double)to[n - 1], r.histogram[0], r.histogram[n % 4]);
}

static void
call_product(int n)
{
    /* Nearly square, in matrices with room below. */
    product(n, n + 1, n + 2, x, MOST, y, MOST, 0.5, z, MOST);
    print("z", z, MOST * MOST);
}

static void
call_unary(const char *name, int n)
{
    if (strcmp(name, "sort") == 0) {
        sort(n, y);
    } else if (strcmp(name, "magnitudes") == 0) {
        magnitudes(n, y);
    } else if (strcmp(name, "at_least") == 0) {
        at_least(n, 0.25, y);
    } else if (strcmp(name, "saturate") == 0) {
        saturate(n, y);
    } else if (strcmp(name, "shift") == 0) {
        shift((int[]){n, 7}, y);
    } else if (strcmp(name, "cover") == 0) {
        cover(n, 0.5, y);
    }
    print("y", y, MOST);
}

static void
call_binary(const char *name, int n)
{
    if (strcmp(name, "fill_even") == 0) {
        fill_even(n, x, y);
    } else if (strcmp(name, "add_to") == 0) {
        add_to(n, x, y);
    } else if (strcmp(name, "all_but_last") == 0) {
        all_but_last(n, x, y);
    } else if (strcmp(name, "parts_of_one") == 0) {
        parts_of_one(n, x, y);
    } else if (strcmp(name, "roots") == 0) {
        errno = 0;
        roots(n, x, y);
        printf("errno %d\n", errno);
    } else if (strcmp(name, "doubles") == 0) {
        doubles(n, x, y);
    }
    print("y", y, MOST);
}

static void
fill(int seed)
{
    mprotect(x, BYTES, PROT_READ | PROT_WRITE);
    for (int i = 0; i < MOST * MOST; i++) {
        x[i] = (i * 37 + seed) % 64 / 16.0 - 1;
        y[i] = (i * 29 + seed) % 128 / 32.0 - 2;
        z[i] = (i * 23 + seed) % 16;
    }
    mprotect(x, BYTES, PROT_READ);
    for (int i = 0; i < MOST; i++) {
        from[i] = (float)(i + seed);
        bytes[0][i] = (unsigned char)(i * 5 + seed);
        bytes[1][i] = (unsigned char)(i * 3);
    }
}

int
main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    x = mmap(NULL, BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    y = mmap(NULL, 2 * BYTES, PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (x == MAP_FAILED || y == MAP_FAILED) {
        return 1;
    }
    z = y + MOST * MOST;
    for (int i = 0; i < 8; i++) {
        int n = 24 + 3 * i;
        fill(i);
        if (strcmp(name, "resample") == 0 || strcmp(name, "amplify") == 0) {
            call_resample(name[0] == 'r', n);
        } else if (strcmp(name, "product") == 0) {
            call_product(n);
        } else if (strcmp(name, "look_at") == 0) {
            look_at(n, x);
            printf("%g\n", what_was_seen());
        } else if (strcmp(name, "add_bytes") == 0) {
            add_bytes(n, bytes[0], bytes[1]);
            printf("%d\n", bytes[1][n - 1]);
        } else if (strchr("smac", name[0]) != NULL &&
                   strcmp(name, "add_to") != 0 &&
                   strcmp(name, "all_but_last") != 0) {
            call_unary(name, n);
        } else {
            call_binary(name, n);
        }
    }
    return 0;
}
