/* SPDX-License-Identifier: Apache-2.0 */
/* Random calls of LAPACK and LAPACKE. */
#include "config.h"

#include <string.h>

#include "drive.h"

/* LAPACKE's high-level functions bring their own workspace. */
static bool
has_work(const struct call *c)
{
    return c->interface == FORTRAN || c->work_variant;
}

static void
work(struct call *c, const char *name, char type, int64_t elements,
     const char *size_name)
{
    if (!has_work(c)) {
        return;
    }
    if (size_name) {
        elements += random_int(c, 0, 1) * random_int(c, 0, 100);
    }
    workspace(c, name, type, (size_t)most(1, elements), size_name ? 1 : 0);
    if (size_name) {
        size(c, size_name, most(1, elements));
    }
}

/* LAPACKE 3.11 itself mishandles some empty matrices: getri asks for no
 * workspace, row-major gesvd returns what malloc left. */
static int64_t
extent(struct call *c)
{
    int64_t n = random_size(c);
    return c->interface == LAPACKE ? most(1, n) : n;
}

/* Row interchanges as getrf leaves them. */
static void
pivots(struct call *c, int64_t n)
{
    struct buffer *ipiv = array(c, "ipiv", 'i', (size_t)n);
    for (int64_t i = 0; i < n; i++) {
        set_integer(ipiv, (size_t)i, random_int(c, i + 1, n));
    }
}

static struct shape
triangles(int64_t n, char uplo)
{
    return (struct shape){.m = n,
                          .n = n,
                          .uplo = uplo,
                          .diagonal = 2,
                          .scale = 1.0 / (double)(n + 1),
                          .real_diagonal = true};
}

static void
right_side(struct call *c, int64_t n, int64_t nrhs)
{
    matrix(c, "b", c->type, &(struct shape){.m = n, .n = nrhs}, "ldb");
}

static void
gesv(struct call *c)
{
    layout(c);
    int64_t n = size(c, "n", random_size(c));
    int64_t nrhs = size(c, "nrhs", random_size(c));
    c->growth += 64 * (double)n;
    matrix(c, "a", c->type,
           &(struct shape){.m = n, .n = n, .diagonal = 4, .scale = 2}, "lda");
    array(c, "ipiv", 'i', (size_t)n);
    right_side(c, n, nrhs);
    info(c);
}

static void
getrf(struct call *c)
{
    layout(c);
    int64_t m = size(c, "m", random_size(c)), n = size(c, "n", random_size(c));
    c->growth += 64 * (double)most(m, n);
    matrix(c, "a", c->type, &(struct shape){.m = m, .n = n, .diagonal = 1},
           "lda");
    array(c, "ipiv", 'i', (size_t)least(m, n));
    info(c);
}

static void
getrs(struct call *c)
{
    layout(c);
    flag(c, "trans", "NTC");
    int64_t n = size(c, "n", random_size(c));
    int64_t nrhs = size(c, "nrhs", random_size(c));
    c->growth += 16 * (double)n;
    struct shape a = triangles(n, 0);
    matrix(c, "a", c->type, &a, "lda");
    pivots(c, n);
    right_side(c, n, nrhs);
    info(c);
}

static void
getri(struct call *c)
{
    layout(c);
    int64_t n = size(c, "n", extent(c));
    c->growth += 16 * (double)n;
    struct shape a = triangles(n, 0);
    matrix(c, "a", c->type, &a, "lda");
    pivots(c, n);
    work(c, "work", c->type, n, "lwork");
    info(c);
}

static void
potrf(struct call *c)
{
    layout(c);
    char uplo = flag(c, "uplo", "UL");
    int64_t n = size(c, "n", random_size(c));
    c->growth += 16 * (double)n;
    struct shape a = triangles(n, uplo);
    if (random_int(c, 0, 9) == 0) {
        a.step = -3.0 / (double)(n + 1); /* not positive definite */
    }
    matrix(c, "a", c->type, &a, "lda");
    info(c);
}

static void
potrs(struct call *c)
{
    layout(c);
    char uplo = flag(c, "uplo", "UL");
    int64_t n = size(c, "n", random_size(c));
    int64_t nrhs = size(c, "nrhs", random_size(c));
    c->growth += 16 * (double)n;
    struct shape a = triangles(n, uplo);
    matrix(c, "a", c->type, &a, "lda");
    right_side(c, n, nrhs);
    info(c);
}

static void
posv(struct call *c)
{
    layout(c);
    char uplo = flag(c, "uplo", "UL");
    int64_t n = size(c, "n", random_size(c));
    int64_t nrhs = size(c, "nrhs", random_size(c));
    c->growth += 32 * (double)n;
    struct shape a = triangles(n, uplo);
    if (random_int(c, 0, 9) == 0) {
        a.step = -3.0 / (double)(n + 1); /* not positive definite */
    }
    matrix(c, "a", c->type, &a, "lda");
    right_side(c, n, nrhs);
    info(c);
}

static void
trtri(struct call *c)
{
    layout(c);
    char uplo = flag(c, "uplo", "UL");
    char diag = flag(c, "diag", "NU");
    int64_t n = size(c, "n", random_size(c));
    c->growth += 32 * (double)n;
    struct shape a = triangles(n, uplo);
    a.unit = diag == 'U';
    a.real_diagonal = false;
    matrix(c, "a", c->type, &a, "lda");
    info(c);
}

static void
geqrf(struct call *c)
{
    layout(c);
    int64_t m = size(c, "m", random_size(c)), n = size(c, "n", random_size(c));
    c->growth += 64 * (double)most(m, n);
    matrix(c, "a", c->type, &(struct shape){.m = m, .n = n, .diagonal = 3},
           "lda");
    array(c, "tau", c->type, (size_t)least(m, n));
    work(c, "work", c->type, n, "lwork");
    info(c);
}

static void
gels(struct call *c)
{
    layout(c);
    flag(c, "trans", is_complex(c->type) ? "NC" : "NT");
    int64_t m = size(c, "m", random_size(c)), n = size(c, "n", random_size(c));
    int64_t nrhs = size(c, "nrhs", random_size(c));
    c->growth += 1024 * (double)most(m, n);
    matrix(c, "a", c->type, &(struct shape){.m = m, .n = n, .diagonal = 8},
           "lda");
    right_side(c, most(m, n), nrhs);
    work(c, "work", c->type, least(m, n) + most(least(m, n), nrhs), "lwork");
    info(c);
}

/* Reflectors whose product is no larger than 2 or so. */
static void
reflectors(struct call *c, int64_t m, int64_t n, int64_t k)
{
    matrix(c, "a", c->type,
           &(struct shape){.m = m, .n = n, .scale = 1.0 / (double)(m + 1)},
           "lda");
    struct buffer *tau = array(c, "tau", c->type, (size_t)k);
    for (int64_t i = 0; i < k; i++) {
        fill(c, tau, (size_t)i, 1, 0.5);
    }
}

static void
ormqr(struct call *c)
{
    layout(c);
    char side = flag(c, "side", "LR");
    flag(c, "trans", is_complex(c->type) ? "NC" : "NT");
    int64_t m = size(c, "m", random_size(c)), n = size(c, "n", random_size(c));
    int64_t order = side == 'L' ? m : n;
    int64_t k = size(c, "k", random_int(c, 0, order));
    c->growth += 64 * (double)most(m, n);
    reflectors(c, order, k, k);
    matrix(c, "c", c->type, &(struct shape){.m = m, .n = n}, "ldc");
    work(c, "work", c->type, side == 'L' ? n : m, "lwork");
    info(c);
}

static void
orgqr(struct call *c)
{
    layout(c);
    int64_t m = size(c, "m", random_size(c));
    int64_t n = size(c, "n", random_int(c, 0, m));
    int64_t k = size(c, "k", random_int(c, 0, n));
    c->growth += 64 * (double)m;
    reflectors(c, m, n, k);
    work(c, "work", c->type, n, "lwork");
    info(c);
}

static void
eigen(struct call *c, bool divide)
{
    layout(c);
    bool vectors = flag(c, "jobz", "NV") == 'V';
    char uplo = flag(c, "uplo", "UL");
    int64_t n = size(c, "n", random_size(c));
    char real = real_of(c->type);
    c->growth += 256 * (double)n;
    /* Eigenvalues far apart, so that the vectors are well determined. */
    struct shape a = {.m = n,
                      .n = n,
                      .uplo = uplo,
                      .step = 3,
                      .scale = 0.5,
                      .real_diagonal = true};
    struct buffer *z = matrix(c, "a", c->type, &a, "lda");
    z->destroyed = !vectors;
    if (vectors) {
        unique_up_to_factor(c, z, true, n, n);
    }
    array(c, "w", real, (size_t)n);
    int64_t square = 2 * n * n;
    if (!divide && !is_complex(c->type)) {
        work(c, "work", c->type, 3 * n - 1, "lwork");
    } else if (!divide) {
        work(c, "work", c->type, 2 * n - 1, "lwork");
        work(c, "rwork", real, 3 * n - 2, NULL);
    } else if (!is_complex(c->type)) {
        work(c, "work", c->type, vectors ? 1 + 6 * n + square : 2 * n + 1,
             "lwork");
        work(c, "iwork", 'i', vectors ? 3 + 5 * n : 1, "liwork");
    } else {
        work(c, "work", c->type, vectors ? 2 * n + n * n : n + 1, "lwork");
        work(c, "rwork", real, vectors ? 1 + 5 * n + square : n, "lrwork");
        work(c, "iwork", 'i', vectors ? 3 + 5 * n : 1, "liwork");
    }
    info(c);
}

static void
syev(struct call *c)
{
    eigen(c, false);
}

static void
syevd(struct call *c)
{
    eigen(c, true);
}

/* u or vt; one element that nobody touches when it is not wanted. */
static void
singular_vectors(struct call *c, const char *name, int64_t m, int64_t n,
                 bool wanted, int64_t few, const char *ld_name)
{
    bool columns = *name == 'u';
    struct shape shape = {.m = wanted ? m : 1,
                          .n = wanted || c->row_major ? n : 1,
                          .unread = true};
    struct buffer *vectors = matrix(c, name, c->type, &shape, ld_name);
    if (wanted) {
        /* Beyond `few' any basis of what is left is right. */
        int64_t count = columns ? n : m;
        unique_up_to_factor(c, vectors, columns,
                            documented_only ? least(few, count) : count,
                            columns ? m : n);
    }
}

/* in_a: u, v or 0, the vectors that A receives. */
static void
svd_matrix(struct call *c, int64_t m, int64_t n, char in_a)
{
    c->growth += 1024 * (double)most(m, n);
    struct shape a = {.m = m, .n = n, .diagonal = 2, .step = 3, .scale = 0.5};
    struct buffer *vectors = matrix(c, "a", c->type, &a, "lda");
    vectors->destroyed = !in_a;
    if (in_a) {
        unique_up_to_factor(c, vectors, in_a == 'u', least(m, n),
                            in_a == 'u' ? m : n);
    }
    array(c, "s", real_of(c->type), (size_t)least(m, n));
}

static void
gesvd(struct call *c)
{
    layout(c);
    char u = flag(c, "jobu", "ASON");
    char vt = flag(c, "jobvt", u == 'O' ? "ASN" : "ASON");
    int64_t m = size(c, "m", extent(c)), n = size(c, "n", extent(c));
    int64_t k = least(m, n), l = most(m, n);
    svd_matrix(c, m, n, u == 'O' ? 'u' : vt == 'O' ? 'v' : 0);
    singular_vectors(c, "u", m, u == 'A' ? m : k, u == 'A' || u == 'S', k,
                     "ldu");
    singular_vectors(c, "vt", vt == 'A' ? n : k, n, vt == 'A' || vt == 'S', k,
                     "ldvt");
    if (!has_work(c)) {
        workspace(c, "superb", real_of(c->type), (size_t)most(1, k), 0);
    } else {
        /* LAPACK 3.11: less where only singular values of a long A are. */
        bool lean = (m >= n ? u : vt) == 'N' && l >= k * 8 / 5;
        int64_t wanted = is_complex(c->type) ? (lean ? 3 * k : 2 * k + l)
                         : lean              ? 5 * k
                                             : most(3 * k + l, 5 * k);
        work(c, "work", c->type, wanted, "lwork");
    }
    if (is_complex(c->type)) {
        work(c, "rwork", real_of(c->type), 5 * k, NULL);
    }
    info(c);
}

/* The least lwork that LAPACK 3.11 takes; k = min(m, n), l = max(m, n). */
static int64_t
gesdd_real_work(char job, int64_t k, int64_t l)
{
    int64_t bdsdc = job == 'N' ? 7 * k : 3 * k * k + 4 * k;
    if (l < k * 11 / 6) {
        return 3 * k + most(l, job == 'O' ? k * k + bdsdc : bdsdc);
    }
    switch (job) {
    case 'N':
        return bdsdc + k;
    case 'O':
        return bdsdc + 2 * k * k + 3 * k;
    case 'S':
        return bdsdc + k * k + 3 * k;
    default:
        return k * k + most(3 * k + bdsdc, k + l);
    }
}

static int64_t
gesdd_complex_work(char job, int64_t k, int64_t l)
{
    if (l < k * 17 / 9) {
        return 2 * k + l + (job == 'O' ? k * k : 0);
    }
    switch (job) {
    case 'N':
        return 3 * k;
    case 'O':
        return 2 * k * k + 3 * k;
    case 'S':
        return k * k + 3 * k;
    default:
        return k * k + most(3 * k, k + l);
    }
}

static void
gesdd(struct call *c)
{
    layout(c);
    char job = flag(c, "jobz", "ASON");
    int64_t m = size(c, "m", extent(c)), n = size(c, "n", extent(c));
    int64_t k = least(m, n), l = most(m, n);
    bool both = job == 'A' || job == 'S';
    svd_matrix(c, m, n, job != 'O' ? 0 : m >= n ? 'u' : 'v');
    singular_vectors(c, "u", m, job == 'A' ? m : k,
                     both || (job == 'O' && m < n), k, "ldu");
    singular_vectors(c, "vt", job == 'A' ? n : k, n,
                     both || (job == 'O' && m >= n), k, "ldvt");
    if (is_complex(c->type)) {
        bool tall = l >= k * 17 / 9;
        work(c, "work", c->type, gesdd_complex_work(job, k, l), "lwork");
        int64_t square = 5 * k * k + 5 * k;
        work(c, "rwork", real_of(c->type),
             job == 'N' ? 7 * k
             : tall     ? square
                        : most(square, 2 * l * k + 2 * k * k + k),
             NULL);
    } else {
        work(c, "work", c->type, gesdd_real_work(job, k, l), "lwork");
    }
    work(c, "iwork", 'i', 8 * k, NULL);
    info(c);
}

#define BOTH (1 << FORTRAN | 1 << LAPACKE)

const struct routine lapack_routines[] = {
    {"%cgesv", "sdcz", 0, gesv, BOTH},   {"%cgetrf", "sdcz", 0, getrf, BOTH},
    {"%cgetrs", "sdcz", 0, getrs, BOTH}, {"%cgetri", "sdcz", 0, getri, BOTH},
    {"%cpotrf", "sdcz", 0, potrf, BOTH}, {"%cpotri", "sdcz", 0, potrf, BOTH},
    {"%cpotrs", "sdcz", 0, potrs, BOTH}, {"%cposv", "sdcz", 0, posv, BOTH},
    {"%ctrtri", "sdcz", 0, trtri, BOTH}, {"%cgeqrf", "sdcz", 0, geqrf, BOTH},
    {"%cormqr", "sd", 0, ormqr, BOTH},   {"%cunmqr", "cz", 0, ormqr, BOTH},
    {"%corgqr", "sd", 0, orgqr, BOTH},   {"%cungqr", "cz", 0, orgqr, BOTH},
    {"%cgels", "sdcz", 0, gels, BOTH},   {"%csyev", "sd", 0, syev, BOTH},
    {"%cheev", "cz", 0, syev, BOTH},     {"%csyevd", "sd", 0, syevd, BOTH},
    {"%cheevd", "cz", 0, syevd, BOTH},   {"%cgesvd", "sdcz", 0, gesvd, BOTH},
    {"%cgesdd", "sdcz", 0, gesdd, BOTH}, {0},
};
