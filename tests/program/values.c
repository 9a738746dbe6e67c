/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Results in corner cases: alpha, beta and k of zero, NaN and infinity,
 * operands that are the same or overlap, huge sizes with nothing to do,
 * increments of every sign. Prints digests; NaN counts by class.
 */
#include "common.h"

#include <limits.h>
#include <math.h>

enum {
    N = 50,
    COUNT = 3 * N * N
};

static double a[COUNT], b[COUNT], c[COUNT];

static void
fresh(void)
{
    fill(a, COUNT, 1);
    fill(b, COUNT, 2);
    fill(c, COUNT, 3);
}

static void
show(const char *what)
{
    int classes[3] = {0};
    static double plain[COUNT];

    for (int i = 0; i < COUNT; i++) {
        classes[0] += isnan(c[i]) != 0;
        classes[1] += isinf(c[i]) && c[i] > 0;
        classes[2] += isinf(c[i]) && c[i] < 0;
        plain[i] = isnan(c[i]) ? 12345 : c[i];
    }
    printf("%s: nan %d, inf %d -inf %d, %016llx\n", what, classes[0],
           classes[1], classes[2], (unsigned long long)digest(plain, COUNT));
}

static void
zeros(void)
{
    const integer n = N, none = 0;
    const double zero = 0, one = 1, two = 2, nan = NAN, inf = INFINITY;

    fresh();
    a[7] = NAN, b[9] = INFINITY;
    dgemm_("N", "N", &n, &n, &n, &zero, a, &n, b, &n, &two, c, &n);
    show("alpha 0");
    dgemm_("N", "N", &n, &n, &none, &one, a, &n, b, &n, &two, c, &n);
    show("k 0");
    c[3] = NAN;
    dgemm_("N", "N", &n, &n, &none, &one, a, &n, b, &n, &zero, c, &n);
    show("k 0, beta 0");
    fresh();
    c[3] = NAN, c[60] = INFINITY;
    dgemm_("N", "T", &n, &n, &n, &one, a, &n, b, &n, &zero, c, &n);
    show("beta 0 over nan");
    fresh();
    a[3] = NAN, b[60] = -INFINITY;
    dgemm_("T", "N", &n, &n, &n, &one, a, &n, b, &n, &one, c, &n);
    show("nan and inf");
    fresh();
    dgemm_("N", "N", &n, &n, &n, &nan, a, &n, b, &n, &one, c, &n);
    show("alpha nan");
    fresh();
    dgemm_("N", "N", &n, &n, &n, &one, a, &n, b, &n, &inf, c, &n);
    show("beta inf");
    fresh();
    dsyrk_("U", "N", &n, &n, &one, a, &n, &zero, c, &n);
    show("syrk beta 0");
    dsyrk_("L", "T", &n, &none, &one, a, &n, &two, c, &n);
    show("syrk k 0");
}

static void
overlaps(void)
{
    const integer n = N, twice = 2 * N, one_step = 1, minus = -1, two_step = 2;
    const double one = 1, zero = 0;

    fresh();
    dgemm_("N", "T", &n, &n, &n, &one, a, &n, a, &n, &one, c, &n);
    show("a is b");
    fresh();
    dgemm_("N", "N", &n, &n, &n, &one, c, &n, b, &n, &zero, c, &n);
    show("c is a");
    fresh();
    dgemm_("N", "N", &n, &n, &n, &one, c + 5, &n, b, &n, &one, c, &n);
    show("c overlaps a");
    fresh(); /* columns of one parent, interleaved: no element in common */
    dgemm_("N", "N", &n, &n, &n, &one, c + N, &twice, b, &n, &one, c, &twice);
    show("interleaved");
    fresh();
    daxpy_(&n, &one, c, &one_step, c, &one_step);
    show("axpy x is y");
    fresh();
    daxpy_(&n, &one, c, &one_step, c + 1, &one_step);
    show("axpy overlaps");
    fresh();
    dcopy_(&n, c, &one_step, c + 10, &one_step);
    show("copy overlaps");
    dcopy_(&n, c, &minus, c, &one_step);
    show("copy onto itself, reversed");
    dswap_(&n, c, &two_step, c + 1, &two_step);
    show("swap of odd and even");
    fresh();
    dgemv_("N", &n, &n, &one, a, &n, c, &one_step, &one, c + 10, &one_step);
    show("gemv overlaps");
}

static void
sizes(void)
{
    const integer huge = sizeof(integer) == 8 ? (integer)INT64_MAX : INT_MAX;
    const integer none = 0, n = 40, m1 = -1, p1 = 1, p3 = 3, m2 = -2;
    const double zero = 0, one = 1, two = 2;

    fresh();
    dgemm_("N", "N", &huge, &huge, &none, &one, a, &huge, b, &huge, &one, c,
           &huge);
    show("huge, k 0, beta 1");
    dgemm_("N", "N", &huge, &huge, &huge, &zero, a, &huge, b, &huge, &one, c,
           &huge);
    show("huge, alpha 0, beta 1");
    dgemm_("N", "N", &none, &huge, &huge, &one, a, &huge, b, &huge, &two, c,
           &huge);
    show("huge, m 0");
    daxpy_(&huge, &zero, a, &huge, c, &huge);
    show("huge axpy, alpha 0");
    dscal_(&huge, &two, c, &none);
    show("huge scal, inc 0");
    printf("%g %g\n", ddot_(&m1, a, &p1, b, &p1), dasum_(&m1, a, &p1));
    daxpy_(&n, &two, a, &m1, c, &p3);
    show("axpy -1 3");
    daxpy_(&n, &two, a, &m2, c, &m1);
    show("axpy -2 -1");
    daxpy_(&n, &two, a, &none, c, &p1);
    show("axpy 0 1");
    daxpy_(&n, &two, a, &p1, c, &none);
    show("axpy 1 0");
    dscal_(&n, &two, c, &m1);
    show("scal -1");
    dgemv_("T", &n, &n, &one, a, &n, b, &m2, &two, c, &m1);
    show("gemv -2 -1");
    printf("%g %g %g\n", ddot_(&n, a, &m1, b, &p3), ddot_(&n, a, &none, b, &p1),
           dasum_(&n, a, &m2));
}

int
main(void)
{
    printf("first: %ld wrong\n", product_errors(40, 1));
    zeros();
    overlaps();
    sizes();
    return 0;
}
