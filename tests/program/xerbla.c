/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bad arguments reach the program's own xerbla_ with the same name and number
 * as without ferry, and nothing is written. Also the CBLAS one.
 */
#include "common.h"

#include <stdarg.h>

void xerbla_(const char *name, const integer *info, size_t name_length);
void cblas_xerbla(integer p, const char *name, const char *form, ...);
void cblas_dgemm(int order, int transa, int transb, integer m, integer n,
                 integer k, double alpha, const double *a, integer lda,
                 const double *b, integer ldb, double beta, double *c,
                 integer ldc);
void cblas_dtrsm(int order, int side, int uplo, int transa, int diag, integer m,
                 integer n, double alpha, const double *a, integer lda,
                 double *b, integer ldb);
void zgemm_(const char *transa, const char *transb, const integer *m,
            const integer *n, const integer *k, const double *alpha,
            const double *a, const integer *lda, const double *b,
            const integer *ldb, const double *beta, double *c,
            const integer *ldc);

static int reports;

void
xerbla_(const char *name, const integer *info, size_t name_length)
{
    int length = 0;

    (void)name_length; /* OpenBLAS and C callers disagree about it */
    while (length < 6 && name[length] > ' ') {
        length++;
    }
    printf("xerbla %.*s %d\n", length, name, (int)*info);
    reports++;
}

void
cblas_xerbla(integer p, const char *name, const char *form, ...)
{
    va_list list;

    va_start(list, form);
    printf("cblas_xerbla %s %d: ", name, (int)p);
    vprintf(form, list);
    va_end(list);
    reports++;
}

static double a[400], b[400], c[400];

/* Prints whether the arrays are as they were. */
static void
same(const char *what)
{
    static double was[400];

    fill(was, 400, 1);
    int changed = memcmp(a, was, sizeof a) != 0;
    fill(was, 400, 2);
    changed += memcmp(b, was, sizeof b) != 0;
    fill(was, 400, 3);
    changed += memcmp(c, was, sizeof c) != 0;
    printf("%s: %d changed\n", what, changed);
    fill(a, 400, 1);
    fill(b, 400, 2);
    fill(c, 400, 3);
}

static void
fortran(void)
{
    /* transa transb m n k lda ldb ldc, each row with one or more errors */
    static const struct {
        const char *ta, *tb;
        integer m, n, k, lda, ldb, ldc;
    } rows[] = {
        {"X", "N", 4, 4, 4, 4, 4, 4},           {"N", "/", 4, 4, 4, 4, 4, 4},
        {"N", "N", -1, 4, 4, 4, 4, 4},          {"N", "N", 4, -1, 4, 4, 4, 4},
        {"N", "N", 4, 4, -1, 4, 4, 4},          {"N", "N", 4, 4, 4, 3, 4, 4},
        {"T", "N", 4, 4, 5, 4, 5, 4},           {"N", "T", 4, 5, 4, 4, 4, 4},
        {"N", "N", 4, 4, 4, 4, 3, 4},           {"N", "N", 4, 4, 4, 4, 4, 3},
        {"N", "N", 4, 4, 4, 4, 4, 0},           {"N", "N", 4, 4, 4, -4, 4, 4},
        {"q", "q", -1, -1, -1, 0, 0, 0},        {"C", "n", 4, 4, 4, 4, 4, 4},
        {"N", "N", 0, 0, 0, 0, 0, 0},           {"N", "N", 0, 0, 0, 1, 1, 1},
        {"N", "N", -2147483647, 4, 4, 4, 4, 4},
    };
    const double one = 1, complex_one[2] = {1, 0};
    const integer two = 2, minus = -2, three = 3, zero = 0;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        dgemm_(rows[i].ta, rows[i].tb, &rows[i].m, &rows[i].n, &rows[i].k, &one,
               a, &rows[i].lda, b, &rows[i].ldb, &one, c, &rows[i].ldc);
        printf("row %zu: ", i);
        same("dgemm");
    }
    zgemm_("N", "R", &two, &two, &two, complex_one, a, &two, b, &two,
           complex_one, c, &two);
    same("zgemm");
    dgemv_("N", &three, &three, &one, a, &two, b, &two, &one, c, &two);
    same("dgemv lda");
    dgemv_("N", &two, &two, &one, a, &two, b, &zero, &one, c, &two);
    same("dgemv incx");
    dgemv_("T", &two, &two, &one, a, &two, b, &two, &one, c, &zero);
    same("dgemv incy");
    dsyrk_("X", "N", &two, &two, &one, a, &two, &one, c, &two);
    same("dsyrk uplo");
    dsyrk_("U", "N", &two, &minus, &one, a, &two, &one, c, &two);
    same("dsyrk k");
    dsyrk_("U", "T", &two, &three, &one, a, &two, &one, c, &two);
    same("dsyrk lda");
    dtrsm_("X", "U", "N", "N", &two, &two, &one, a, &two, b, &two);
    same("dtrsm side");
    dtrsm_("L", "U", "N", "X", &two, &two, &one, a, &two, b, &two);
    same("dtrsm diag");
    dtrsm_("R", "U", "N", "N", &two, &three, &one, a, &two, b, &two);
    same("dtrsm lda");
}

static void
with_cblas(void)
{
    cblas_dgemm(100, 111, 111, 2, 2, 2, 1, a, 2, b, 2, 1, c, 2);
    same("order");
    cblas_dgemm(101, 110, 111, 2, 2, 2, 1, a, 2, b, 2, 1, c, 2);
    same("transa");
    cblas_dgemm(101, 111, 111, 2, 2, 2, 1, a, 1, b, 2, 1, c, 2);
    same("row lda");
    cblas_dgemm(102, 111, 111, 3, 2, 2, 1, a, 2, b, 2, 1, c, 3);
    same("column lda");
    cblas_dgemm(101, 111, 111, 2, 3, 2, 1, a, 2, b, 3, 1, c, 2);
    same("row ldc");
    cblas_dgemm(102, 111, 111, 2, -3, 2, 1, a, 2, b, 3, 1, c, 2);
    same("n");
    cblas_dtrsm(101, 141, 120, 111, 131, 2, 2, 1, a, 2, b, 2);
    same("uplo");
    cblas_dtrsm(102, 141, 121, 111, 131, 3, 2, 1, a, 2, b, 3);
    same("lda");
}

int
main(void)
{
    fill(a, 400, 1);
    fill(b, 400, 2);
    fill(c, 400, 3);
    fortran();
    printf("%d reports\n", reports);
    with_cblas();
    printf("%d reports\n", reports);
    printf("good: %ld wrong\n", product_errors(30, 1));
    return 0;
}
