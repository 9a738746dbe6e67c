/* SPDX-License-Identifier: Apache-2.0 */
/* Random calls of BLAS level 2. */
#include "config.h"

#include "drive.h"

/* The reference cblas_[cz]gemv never returns from some empty matrices. */
static int64_t
extent(struct call *c)
{
    int64_t n = random_size(c);
    return c->interface == CBLAS && is_complex(c->type) ? most(1, n) : n;
}

/* alpha, A's shape known, x, beta, y: what is not read stays poison. */
static void
gemv(struct call *c)
{
    layout(c);
    bool nt = flag(c, "trans", "NTC") == 'N';
    int64_t m = size(c, "m", extent(c)), n = size(c, "n", extent(c));
    bool unread = scalar(c, "alpha", c->type) & IS_ZERO;
    c->growth += (double)most(m, n);
    matrix(c, "a", c->type, &(struct shape){.m = m, .n = n, .unread = unread},
           "lda");
    vector(c, "x", c->type, nt ? n : m, true, unread, "incx");
    bool fresh = scalar(c, "beta", c->type) & IS_ZERO;
    vector(c, "y", c->type, nt ? m : n, true, fresh, "incy");
}

static void
gbmv(struct call *c)
{
    layout(c);
    bool nt = flag(c, "trans", "NTC") == 'N';
    int64_t m = extent(c), n = extent(c);
    int64_t kl = random_int(c, 0, 6), ku = random_int(c, 0, 6);
    /* Mostly a band that reaches every row and column. */
    if (random_int(c, 0, 3)) {
        n = most(least(m, 1), random_int(c, m - kl, m + ku));
    }
    size(c, "m", m);
    size(c, "n", n);
    size(c, "kl", kl);
    size(c, "ku", ku);
    bool unread = scalar(c, "alpha", c->type) & IS_ZERO;
    c->growth += (double)most(m, n);
    band(c, "a", &(struct shape){.m = m, .n = n, .unread = unread}, kl, ku,
         "lda");
    vector(c, "x", c->type, nt ? n : m, true, unread, "incx");
    bool fresh = scalar(c, "beta", c->type) & IS_ZERO;
    vector(c, "y", c->type, nt ? m : n, true, fresh, "incy");
}

enum storage {
    FULL,
    BAND,
    PACKED
};

static void
symmetric(struct call *c, enum storage storage)
{
    layout(c);
    char uplo = flag(c, "uplo", "UL");
    int64_t n = size(c, "n", random_size(c)), k = 0;
    if (storage == BAND) {
        k = size(c, "k", random_int(c, 0, 8));
    }
    bool unread = scalar(c, "alpha", c->type) & IS_ZERO;
    c->growth += (double)n;
    struct shape shape = {
        .m = n, .n = n, .uplo = uplo, .real_diagonal = true, .unread = unread};
    if (storage == FULL) {
        matrix(c, "a", c->type, &shape, "lda");
    } else if (storage == BAND) {
        band(c, "a", &shape, uplo == 'L' ? k : 0, uplo == 'U' ? k : 0, "lda");
    } else {
        packed(c, "ap", &shape);
    }
    vector(c, "x", c->type, n, true, unread, "incx");
    bool fresh = scalar(c, "beta", c->type) & IS_ZERO;
    vector(c, "y", c->type, n, true, fresh, "incy");
}

static void
symv(struct call *c)
{
    symmetric(c, FULL);
}

static void
sbmv(struct call *c)
{
    symmetric(c, BAND);
}

static void
spmv(struct call *c)
{
    symmetric(c, PACKED);
}

static void
triangular(struct call *c, enum storage storage)
{
    layout(c);
    char uplo = flag(c, "uplo", "UL");
    flag(c, "trans", "NTC");
    bool unit = flag(c, "diag", "NU") == 'U';
    int64_t n = size(c, "n", random_size(c)), k = 0;
    if (storage == BAND) {
        k = size(c, "k", random_int(c, 0, 8));
    }
    c->growth += 4 * (double)n;
    /* Small beside its diagonal, so that solving loses nothing. */
    struct shape shape = {.m = n,
                          .n = n,
                          .uplo = uplo,
                          .unit = unit,
                          .diagonal = 2,
                          .scale = 1.0 / (double)(n + 1)};
    if (storage == FULL) {
        matrix(c, "a", c->type, &shape, "lda");
    } else if (storage == BAND) {
        band(c, "a", &shape, uplo == 'L' ? k : 0, uplo == 'U' ? k : 0, "lda");
    } else {
        packed(c, "ap", &shape);
    }
    vector(c, "x", c->type, n, true, false, "incx");
}

static void
trmv(struct call *c)
{
    triangular(c, FULL);
}

static void
tbmv(struct call *c)
{
    triangular(c, BAND);
}

static void
tpmv(struct call *c)
{
    triangular(c, PACKED);
}

static void
ger(struct call *c)
{
    layout(c);
    int64_t m = size(c, "m", random_size(c)), n = size(c, "n", random_size(c));
    bool unread = scalar(c, "alpha", c->type) & IS_ZERO;
    vector(c, "x", c->type, m, true, unread, "incx");
    vector(c, "y", c->type, n, true, unread, "incy");
    matrix(c, "a", c->type, &(struct shape){.m = m, .n = n}, "lda");
}

static void
rank_update(struct call *c, unsigned vectors, enum storage storage)
{
    layout(c);
    char uplo = flag(c, "uplo", "UL");
    int64_t n = size(c, "n", random_size(c));
    bool unread =
        scalar(c, "alpha", vectors == 1 ? real_of(c->type) : c->type) & IS_ZERO;
    vector(c, "x", c->type, n, true, unread, "incx");
    if (vectors == 2) {
        vector(c, "y", c->type, n, true, unread, "incy");
    }
    struct shape shape = {.m = n, .n = n, .uplo = uplo, .real_diagonal = true};
    if (storage == FULL) {
        matrix(c, "a", c->type, &shape, "lda");
    } else {
        packed(c, "ap", &shape);
    }
}

static void
syr(struct call *c)
{
    rank_update(c, 1, FULL);
}

static void
spr(struct call *c)
{
    rank_update(c, 1, PACKED);
}

static void
syr2(struct call *c)
{
    rank_update(c, 2, FULL);
}

static void
spr2(struct call *c)
{
    rank_update(c, 2, PACKED);
}

#define BOTH (1 << FORTRAN | 1 << CBLAS)

const struct routine blas2_routines[] = {
    {"%cgemv", "sdcz", 0, gemv, BOTH}, {"%cgbmv", "sdcz", 0, gbmv, BOTH},
    {"%csymv", "sd", 0, symv, BOTH},   {"%chemv", "cz", 0, symv, BOTH},
    {"%csbmv", "sd", 0, sbmv, BOTH},   {"%chbmv", "cz", 0, sbmv, BOTH},
    {"%cspmv", "sd", 0, spmv, BOTH},   {"%chpmv", "cz", 0, spmv, BOTH},
    {"%ctrmv", "sdcz", 0, trmv, BOTH}, {"%ctrsv", "sdcz", 0, trmv, BOTH},
    {"%ctbmv", "sdcz", 0, tbmv, BOTH}, {"%ctbsv", "sdcz", 0, tbmv, BOTH},
    {"%ctpmv", "sdcz", 0, tpmv, BOTH}, {"%ctpsv", "sdcz", 0, tpmv, BOTH},
    {"%cger", "sd", 0, ger, BOTH},     {"%cgeru", "cz", 0, ger, BOTH},
    {"%cgerc", "cz", 0, ger, BOTH},    {"%csyr", "sd", 0, syr, BOTH},
    {"%cher", "cz", 0, syr, BOTH},     {"%cspr", "sd", 0, spr, BOTH},
    {"%chpr", "cz", 0, spr, BOTH},     {"%csyr2", "sd", 0, syr2, BOTH},
    {"%cher2", "cz", 0, syr2, BOTH},   {"%cspr2", "sd", 0, spr2, BOTH},
    {"%chpr2", "cz", 0, spr2, BOTH},   {0},
};
