/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The floating point environment belongs to the program. Argument: flags (what
 * exceptions a call raises), exact (not even that something was rounded), traps (a program that wants a signal for each
 * exception gets none from ferry's own arithmetic), trapped (and gets the one
 * that its own numbers earn), zero (denormals are zero).
 */
#define _GNU_SOURCE
#include "common.h"

#include <fenv.h>
#include <float.h>
#include <signal.h>
#include <xmmintrin.h>

enum {
    N = 60,
    FLAGS = FE_ALL_EXCEPT & ~FE_INEXACT
};

static double a[N * N], b[N * N], c[N * N];
static const integer n = N;
static const double one = 1;

static void
multiply(void)
{
    dgemm_("N", "T", &n, &n, &n, &one, a, &n, b, &n, &one, c, &n);
}

static void
show(const char *what)
{
    const int raised = fetestexcept(FLAGS);

    printf("%s:%s%s%s%s %016llx\n", what, raised & FE_INVALID ? " invalid" : "",
           raised & FE_DIVBYZERO ? " division" : "",
           raised & FE_OVERFLOW ? " overflow" : "",
           raised & FE_UNDERFLOW ? " underflow" : "",
           (unsigned long long)digest(c, N * N));
    feclearexcept(FE_ALL_EXCEPT);
    fill(a, N * N, 1);
    fill(b, N * N, 2);
    memset(c, 0, sizeof c);
}

static int
flags(void)
{
    feclearexcept(FE_ALL_EXCEPT);
    show("start");
    multiply();
    show("whole numbers");
    feraiseexcept(FE_DIVBYZERO);
    multiply();
    show("raised before");
    a[7] = DBL_MAX;
    b[7] = 4;
    multiply();
    show("overflow");
    a[9] = DBL_MIN;
    for (int i = 0; i < N * N; i++) {
        b[i] = 0x1p-30;
    }
    multiply();
    show("underflow");
    multiply();
    show("none");
    return 0;
}

/* Large enough to be thought about. */
static int
exact(void)
{
    enum {
        LARGE = 160
    };
    static double x[LARGE * LARGE], y[LARGE * LARGE], z[LARGE * LARGE];
    const integer large = LARGE;

    fill(x, LARGE * LARGE, 1);
    fill(y, LARGE * LARGE, 2);
    for (int i = 0; i < 4; i++) {
        feclearexcept(FE_ALL_EXCEPT);
        dgemm_("N", "T", &large, &large, &large, &one, x, &large, y, &large,
               &one, z, &large);
        printf("inexact: %d\n", fetestexcept(FE_INEXACT) != 0);
    }
    return 0;
}

static int
traps(void)
{
    show("start");
    feclearexcept(FE_ALL_EXCEPT);
    feenableexcept(FE_ALL_EXCEPT); /* inexact as well: products are exact */
    for (int i = 0; i < 5; i++) {
        multiply();
    }
    fedisableexcept(FE_ALL_EXCEPT);
    show("none came");
    return 0;
}

static int
trapped(void)
{
    show("start");
    setvbuf(stdout, NULL, _IONBF, 0);
    printf("before\n");
    feenableexcept(FE_OVERFLOW);
    a[7] = DBL_MAX;
    b[7] = 4;
    multiply();
    printf("not here\n");
    return 0;
}

static int
zero(void)
{
    show("start");
    _mm_setcsr(_mm_getcsr() | 0x8040); /* flush to zero, denormals are zero */
    for (int i = 0; i < N * N; i++) {
        a[i] = DBL_MIN / 8;
        b[i] = 1024;
    }
    multiply();
    _mm_setcsr(_mm_getcsr() & ~0x8040u);
    show("denormals are zero");
    for (int i = 0; i < N * N; i++) {
        a[i] = DBL_MIN / 8;
        b[i] = 1024;
    }
    multiply();
    show("denormals count");
    return 0;
}

int
main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "flags";

    if (strcmp(mode, "exact") == 0) {
        return exact();
    }
    if (strcmp(mode, "traps") == 0) {
        return traps();
    }
    if (strcmp(mode, "trapped") == 0) {
        return trapped();
    }
    if (strcmp(mode, "zero") == 0) {
        return zero();
    }
    return flags();
}
