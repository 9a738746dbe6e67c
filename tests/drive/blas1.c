/* SPDX-License-Identifier: Apache-2.0 */
/* Random calls of BLAS level 1. */
#include "config.h"

#include "drive.h"

static void
axpy(struct call *c)
{
    int64_t n = size(c, "n", random_size(c));
    bool unread = scalar(c, "alpha", c->type) & IS_ZERO;
    vector(c, "x", c->type, n, true, unread, "incx");
    vector(c, "y", c->type, n, true, false, "incy");
}

static void
copy(struct call *c)
{
    int64_t n = size(c, "n", random_size(c));
    vector(c, "x", c->type, n, true, false, "incx");
    vector(c, "y", c->type, n, true, true, "incy");
}

static void
swap(struct call *c)
{
    int64_t n = size(c, "n", random_size(c));
    vector(c, "x", c->type, n, true, false, "incx");
    vector(c, "y", c->type, n, true, false, "incy");
}

static void
scal(struct call *c)
{
    int64_t n = size(c, "n", random_size(c));
    scalar(c, "alpha", c->type);
    vector(c, "x", c->type, n, false, false, "incx");
}

static void
real_scal(struct call *c)
{
    int64_t n = size(c, "n", random_size(c));
    scalar(c, "alpha", real_of(c->type));
    vector(c, "x", c->type, n, false, false, "incx");
}

static void
dsdot(struct call *c)
{
    int64_t n = size(c, "n", random_size(c));
    /* OpenBLAS sums blocks of 32 in single precision. */
    c->growth = (16 + (double)n) * 0x1p29;
    vector(c, "x", 's', n, true, false, "incx");
    vector(c, "y", 's', n, true, false, "incy");
}

static void
dot(struct call *c)
{
    int64_t n = size(c, "n", random_size(c));
    c->growth += (double)n;
    vector(c, "x", c->type, n, true, false, "incx");
    vector(c, "y", c->type, n, true, false, "incy");
}

static void
sdsdot(struct call *c)
{
    int64_t n = size(c, "n", random_size(c));
    scalar(c, "b", 's');
    vector(c, "x", 's', n, true, false, "incx");
    vector(c, "y", 's', n, true, false, "incy");
}

static void
dot_sub(struct call *c)
{
    dot(c);
    array(c, "result", c->type, 1);
}

static void
norm(struct call *c)
{
    int64_t n = size(c, "n", random_size(c));
    c->growth += (double)n;
    vector(c, "x", c->type, n, false, false, "incx");
}

static void
rot(struct call *c)
{
    int64_t n = size(c, "n", random_size(c));
    vector(c, "x", c->type, n, true, false, "incx");
    vector(c, "y", c->type, n, true, false, "incy");
    scalar(c, "c", real_of(c->type));
    scalar(c, "s", real_of(c->type));
}

static void
rotm(struct call *c)
{
    static const double flags[4] = {-2, -1, 0, 1};
    int64_t n = size(c, "n", random_size(c));
    vector(c, "x", c->type, n, true, false, "incx");
    vector(c, "y", c->type, n, true, false, "incy");
    struct buffer *param = array(c, "param", c->type, 5);
    for (size_t i = 1; i < 5; i++) {
        fill(c, param, i, 1, 0);
    }
    fill(c, param, 0, 0, flags[random_int(c, 0, 3)]);
}

static void
rotg(struct call *c)
{
    fill(c, array(c, "a", c->type, 1), 0, 1, 0);
    fill(c, array(c, "b", c->type, 1), 0, 1, 0);
    array(c, "c", real_of(c->type), 1);
    array(c, "s", c->type, 1);
}

static void
rotmg(struct call *c)
{
    fill(c, array(c, "d1", c->type, 1), 0, 1, 0.5);
    fill(c, array(c, "d2", c->type, 1), 0, 1, 0.5);
    fill(c, array(c, "x1", c->type, 1), 0, 1, 0);
    scalar(c, "y1", c->type);
    struct buffer *param = array(c, "param", c->type, 5);
    for (size_t i = 0; i < 5; i++) {
        fill(c, param, i, 1, 0);
    }
}

#define BOTH (1 << FORTRAN | 1 << CBLAS)

const struct routine blas1_routines[] = {
    {"%caxpy", "sdcz", 0, axpy, BOTH},
    {"%ccopy", "sdcz", 0, copy, BOTH},
    {"%cswap", "sdcz", 0, swap, BOTH},
    {"%cscal", "sdcz", 0, scal, BOTH},
    {"csscal", "c", 0, real_scal, BOTH},
    {"zdscal", "z", 0, real_scal, BOTH},
    {"%cdot", "sd", 'T', dot, BOTH},
    {"dsdot", "d", 'T', dsdot, BOTH},
    {"sdsdot", "s", 'T', sdsdot, BOTH},
    {"%cdotu_sub", "cz", 0, dot_sub, 1 << CBLAS},
    {"%cdotc_sub", "cz", 0, dot_sub, 1 << CBLAS},
    {"%cnrm2", "sd", 'T', norm, BOTH},
    {"scnrm2", "c", 'R', norm, BOTH},
    {"dznrm2", "z", 'R', norm, BOTH},
    {"%casum", "sd", 'T', norm, BOTH},
    {"scasum", "c", 'R', norm, BOTH},
    {"dzasum", "z", 'R', norm, BOTH},
    {"i%camax", "sdcz", 'i', norm, BOTH},
    {"%crot", "sd", 0, rot, BOTH},
    {"csrot", "c", 0, rot, BOTH},
    {"zdrot", "z", 0, rot, BOTH},
    {"%crotm", "sd", 0, rotm, BOTH},
    {"%crotg", "sdcz", 0, rotg, BOTH},
    {"%crotmg", "sd", 0, rotmg, BOTH},
    {0},
};
