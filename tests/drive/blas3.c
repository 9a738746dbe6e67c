/* SPDX-License-Identifier: Apache-2.0 */
/* Random calls of BLAS level 3. */
#include "config.h"

#include "drive.h"

/* op(X) is rows x columns. */
static struct shape
operand(bool plain, int64_t rows, int64_t columns, bool unread)
{
    return (struct shape){.m = plain ? rows : columns,
                          .n = plain ? columns : rows,
                          .unread = unread};
}

static void
gemm(struct call *c)
{
    layout(c);
    bool na = flag(c, "transa", "NTC") == 'N';
    bool nb = flag(c, "transb", "NTC") == 'N';
    int64_t m = size(c, "m", random_size(c)), n = size(c, "n", random_size(c));
    int64_t k = size(c, "k", random_size(c));
    c->growth += (double)k;
    bool unread = scalar(c, "alpha", c->type) & IS_ZERO;
    struct shape a = operand(na, m, k, unread), b = operand(nb, k, n, unread);
    matrix(c, "a", c->type, &a, "lda");
    matrix(c, "b", c->type, &b, "ldb");
    bool fresh = scalar(c, "beta", c->type) & IS_ZERO;
    matrix(c, "c", c->type, &(struct shape){.m = m, .n = n, .unread = fresh},
           "ldc");
}

static void
symm(struct call *c)
{
    layout(c);
    bool left = flag(c, "side", "LR") == 'L';
    char uplo = flag(c, "uplo", "UL");
    int64_t m = size(c, "m", random_size(c)), n = size(c, "n", random_size(c));
    int64_t order = left ? m : n;
    c->growth += (double)order;
    bool unread = scalar(c, "alpha", c->type) & IS_ZERO;
    struct shape a = {.m = order,
                      .n = order,
                      .uplo = uplo,
                      .real_diagonal = true,
                      .unread = unread};
    matrix(c, "a", c->type, &a, "lda");
    matrix(c, "b", c->type, &(struct shape){.m = m, .n = n, .unread = unread},
           "ldb");
    bool fresh = scalar(c, "beta", c->type) & IS_ZERO;
    matrix(c, "c", c->type, &(struct shape){.m = m, .n = n, .unread = fresh},
           "ldc");
}

static void
rank_k(struct call *c, bool hermitian, bool two)
{
    layout(c);
    char uplo = flag(c, "uplo", "UL");
    const char *letters = hermitian ? "NC" : is_complex(c->type) ? "NT" : "NTC";
    bool nt = flag(c, "trans", letters) == 'N';
    int64_t n = size(c, "n", random_size(c)), k = size(c, "k", random_size(c));
    c->growth += 2 * (double)k;
    bool unread =
        scalar(c, "alpha", hermitian && !two ? real_of(c->type) : c->type) &
        IS_ZERO;
    struct shape a = operand(nt, n, k, unread);
    matrix(c, "a", c->type, &a, "lda");
    if (two) {
        matrix(c, "b", c->type, &a, "ldb");
    }
    bool fresh =
        scalar(c, "beta", hermitian ? real_of(c->type) : c->type) & IS_ZERO;
    struct shape result = {.m = n,
                           .n = n,
                           .uplo = uplo,
                           .real_diagonal = hermitian,
                           .unread = fresh};
    matrix(c, "c", c->type, &result, "ldc");
}

static void
syrk(struct call *c)
{
    rank_k(c, false, false);
}

static void
herk(struct call *c)
{
    rank_k(c, true, false);
}

static void
syr2k(struct call *c)
{
    rank_k(c, false, true);
}

static void
her2k(struct call *c)
{
    rank_k(c, true, true);
}

static void
trmm(struct call *c)
{
    layout(c);
    bool left = flag(c, "side", "LR") == 'L';
    char uplo = flag(c, "uplo", "UL");
    flag(c, "transa", "NTC");
    bool unit = flag(c, "diag", "NU") == 'U';
    int64_t m = size(c, "m", random_size(c)), n = size(c, "n", random_size(c));
    int64_t order = left ? m : n;
    c->growth += 4 * (double)order;
    bool zero = scalar(c, "alpha", c->type) & IS_ZERO;
    /* Small beside its diagonal, so that solving loses nothing. */
    struct shape a = {.m = order,
                      .n = order,
                      .uplo = uplo,
                      .unit = unit,
                      .diagonal = 2,
                      .scale = 1.0 / (double)(order + 1),
                      .unread = zero};
    matrix(c, "a", c->type, &a, "lda");
    matrix(c, "b", c->type, &(struct shape){.m = m, .n = n, .unread = zero},
           "ldb");
}

#define BOTH (1 << FORTRAN | 1 << CBLAS)

const struct routine blas3_routines[] = {
    {"%cgemm", "sdcz", 0, gemm, BOTH}, {"%csymm", "sdcz", 0, symm, BOTH},
    {"%chemm", "cz", 0, symm, BOTH},   {"%csyrk", "sdcz", 0, syrk, BOTH},
    {"%cherk", "cz", 0, herk, BOTH},   {"%csyr2k", "sdcz", 0, syr2k, BOTH},
    {"%cher2k", "cz", 0, her2k, BOTH}, {"%ctrmm", "sdcz", 0, trmm, BOTH},
    {"%ctrsm", "sdcz", 0, trmm, BOTH}, {0},
};
