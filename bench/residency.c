/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workloads whose operands come again, for bench/residency: "residency MODE N" with n x n
 * matrices prints a hash of the result. With RESIDENCY_TRACE=FILE each call of BLAS and
 * each write of the program is a line there, from which an ideal cache is computed:
 * "call TEXT" and "write", each with operands ADDRESS:BYTES:ACCESS (r, w or x: both).
 *
 * cc -O2 bench/residency.c -llapack -lblas -lm
 */
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void dgemm_(const char *transa, const char *transb, const int *m, const int *n,
            const int *k, const double *alpha, const double *a, const int *lda,
            const double *b, const int *ldb, const double *beta, double *c,
            const int *ldc);
void dgemv_(const char *trans, const int *m, const int *n, const double *alpha,
            const double *a, const int *lda, const double *x, const int *incx,
            const double *beta, double *y, const int *incy);
void dsyrk_(const char *uplo, const char *trans, const int *n, const int *k,
            const double *alpha, const double *a, const int *lda,
            const double *beta, double *c, const int *ldc);
void dtrsm_(const char *side, const char *uplo, const char *transa,
            const char *diag, const int *m, const int *n, const double *alpha,
            const double *a, const int *lda, double *b, const int *ldb);
void dpotrf_(const char *uplo, const int *n, double *a, const int *lda,
             int *info);

enum {
    ROUNDS = 12,
    STREAM_ROUNDS = 120,
    CLUSTERS = 64,
};

static const double one = 1, zero = 0, minus = -1;
static const int unit = 1;
static FILE *trace;
static uint64_t hash;

/* Three arguments an operand: address, doubles, access; NULL ends them. */
static void
tell(const char *kind, ...)
{
    va_list operands;
    const double *at;

    if (!trace) {
        return;
    }
    (void)fputs(kind, trace);
    va_start(operands, kind);
    while ((at = va_arg(operands, const double *))) {
        size_t count = va_arg(operands, size_t);
        (void)fprintf(trace, " %llu:%zu:%c", (unsigned long long)(uintptr_t)at,
                      8 * count, va_arg(operands, int));
    }
    va_end(operands);
    (void)fputc('\n', trace);
}

static double *
matrix(size_t count, unsigned seed)
{
    double *a = malloc(count * sizeof *a);
    if (!a) {
        exit(1);
    }
    for (size_t i = 0; i < count; i++) {
        a[i] = (double)((i * 2654435761U + seed * 40503U) % 1000) / 1000 - 0.4;
    }
    return a;
}

static void
take(const double *of, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t word;
        memcpy(&word, &of[i], 8);
        hash = hash * 31 + word;
    }
}

static void
gemm(const char *ta, const char *tb, int m, int n, int k, const double *a,
     const double *b, double beta, double *c)
{
    const int lda = *ta == 'N' ? m : k, ldb = *tb == 'N' ? k : n;
    tell("call gemm", a, (size_t)m * (size_t)k, 'r', b, (size_t)k * (size_t)n,
         'r', c, (size_t)m * (size_t)n, beta == 0 ? 'w' : 'x', NULL);
    dgemm_(ta, tb, &m, &n, &k, &one, a, &lda, b, &ldb, &beta, c, &m);
}

static void
gemv(int n, const double *a, const double *x, double *y)
{
    tell("call gemv", a, (size_t)n * (size_t)n, 'r', x, (size_t)n, 'r', y,
         (size_t)n, 'w', NULL);
    dgemv_("N", &n, &n, &one, a, &n, x, &unit, &zero, y, &unit);
}

/* The last result times the same matrix. */
static void
chain(int n)
{
    const size_t all = (size_t)n * (size_t)n;
    double *a = matrix(all, 1), *b = matrix(all, 2), *c = matrix(all, 3);
    for (size_t i = 0; i < all; i++) {
        b[i] /= n;
    }
    for (int i = 0; i < ROUNDS; i++) {
        gemm("N", "N", n, n, n, a, b, 0, c);
        double *t = a;
        a = c;
        c = t;
    }
    take(a, all);
}

/* Nothing comes again: both inputs are new each time. */
static void
stream(int n)
{
    const size_t all = (size_t)n * (size_t)n;
    double *a = matrix(all, 1), *b = matrix(all, 2), *c = matrix(all, 3);
    for (int i = 0; i < STREAM_ROUNDS; i++) {
        for (size_t k = 0; k < all; k++) {
            a[k] += 0.5;
            b[k] -= 0.25;
        }
        tell("write", a, all, 'w', b, all, 'w', NULL);
        gemm("N", "N", n, n, n, a, b, 0, c);
    }
    take(c, all);
}

/* Other operands each time. */
static void
fresh(int n)
{
    const size_t all = (size_t)n * (size_t)n;
    for (unsigned i = 0; i < STREAM_ROUNDS; i++) {
        double *a = matrix(all, i), *b = matrix(all, i + 1),
               *c = malloc(all * 8);
        if (!c) {
            exit(1);
        }
        tell("write", a, all, 'w', b, all, 'w', NULL);
        gemm("N", "N", n, n, n, a, b, 0, c);
        take(c, all);
        free(a);
        free(b);
        free(c);
    }
}

/* The largest eigenvalue: the vector is scaled by the program. */
static void
power(int n)
{
    double *a = matrix((size_t)n * (size_t)n, 1), *x = matrix((size_t)n, 2),
           *y = matrix((size_t)n, 3);
    for (int i = 0; i < 5 * ROUNDS; i++) {
        double norm = 0;
        gemv(n, a, x, y);
        for (int k = 0; k < n; k++) {
            norm += y[k] * y[k];
        }
        for (int k = 0; k < n; k++) {
            x[k] = y[k] / sqrt(norm);
        }
        tell("write", x, (size_t)n, 'w', NULL);
    }
    take(x, (size_t)n);
}

/* Conjugate gradients for A'A + nI; vectors are too short for a device. */
static void
gradients(int n)
{
    const size_t all = (size_t)n * (size_t)n, some = (size_t)n;
    double *b = matrix(all, 1), *a = matrix(all, 2), *x = calloc(some, 8),
           *r = matrix(some, 3), *p = matrix(some, 3), *q = matrix(some, 4);
    if (!x) {
        exit(1);
    }
    gemm("T", "N", n, n, n, b, b, 0, a);
    for (int i = 0; i < n; i++) {
        a[i * (n + 1)] += n;
    }
    for (int i = 0; i < n; i++) { /* a page each, or some */
        tell("write", &a[i * (n + 1)], (size_t)1, 'w', NULL);
    }
    double rr = 0;
    for (int k = 0; k < n; k++) {
        rr += r[k] * r[k];
    }
    for (int i = 0; i < 2 * ROUNDS; i++) {
        double pq = 0, before = rr;
        gemv(n, a, p, q);
        for (int k = 0; k < n; k++) {
            pq += p[k] * q[k];
        }
        rr = 0;
        for (int k = 0; k < n; k++) {
            x[k] += before / pq * p[k];
            r[k] -= before / pq * q[k];
            rr += r[k] * r[k];
        }
        for (int k = 0; k < n; k++) {
            p[k] = r[k] + rr / before * p[k];
        }
        tell("write", p, some, 'w', NULL);
    }
    take(x, some);
}

/* k-means: distances of n points of n numbers to centres, which the program moves. */
static void
kmeans(int n)
{
    double *points = matrix((size_t)n * (size_t)n, 1),
           *centres = matrix(CLUSTERS * (size_t)n, 2),
           *d = matrix(CLUSTERS * (size_t)n, 3);
    for (int i = 0; i < ROUNDS; i++) {
        gemm("T", "N", CLUSTERS, n, n, centres, points, 0, d);
        for (size_t k = 0; k < CLUSTERS * (size_t)n; k++) {
            centres[k] += d[k] / n / 100;
        }
        tell("write", centres, CLUSTERS * (size_t)n, 'w', NULL);
    }
    take(centres, CLUSTERS * (size_t)n);
}

/* Right-hand sides, block after block, with one factor. */
static void
cholesky(int n)
{
    const size_t all = (size_t)n * (size_t)n;
    double *b = matrix(all, 1), *a = matrix(all, 2), *x = matrix(all / 4, 3);
    const int columns = n / 4;
    int info = 0;
    tell("call syrk", b, all, 'r', a, all, 'w', NULL);
    dsyrk_("L", "N", &n, &n, &one, b, &n, &zero, a, &n);
    for (int i = 0; i < n; i++) {
        a[i * (n + 1)] += n;
    }
    for (int i = 0; i < n; i++) {
        tell("write", &a[i * (n + 1)], (size_t)1, 'w', NULL);
    }
    tell("call potrf", a, all, 'x', NULL);
    dpotrf_("L", &n, a, &n, &info);
    for (int i = 0; i < ROUNDS; i++) {
        for (size_t k = 0; k < all / 4; k++) {
            x[k] = (double)(k % 7) + i;
        }
        tell("write", x, all / 4, 'w', NULL);
        for (int t = 0; t < 2; t++) {
            tell("call trsm", a, all, 'r', x, all / 4, 'x', NULL);
            dtrsm_("L", "L", t ? "T" : "N", "N", &n, &columns, &one, a, &n, x,
                   &n);
        }
        take(x, all / 4);
    }
}

/* Some principal components: the covariance, then a few of its directions again and
 * again, made orthogonal by the program. */
static void
components(int n)
{
    const size_t all = (size_t)n * (size_t)n, some = 16 * (size_t)n;
    double *data = matrix(all, 1), *c = matrix(all, 2), *v = matrix(some, 3),
           *w = matrix(some, 4);
    gemm("T", "N", n, n, n, data, data, 0, c);
    for (int i = 0; i < ROUNDS; i++) {
        gemm("N", "N", n, 16, n, c, v, 0, w);
        for (int k = 0; k < 16; k++) {
            double *of = &w[k * n], norm = 0;
            for (int j = 0; j < k; j++) {
                double dot = 0;
                for (int l = 0; l < n; l++) {
                    dot += of[l] * v[j * n + l];
                }
                for (int l = 0; l < n; l++) {
                    of[l] -= dot * v[j * n + l];
                }
            }
            for (int l = 0; l < n; l++) {
                norm += of[l] * of[l];
            }
            for (int l = 0; l < n; l++) {
                v[k * n + l] = of[l] / sqrt(norm);
            }
        }
        tell("write", v, some, 'w', NULL);
    }
    take(v, some);
}

/* Two layers, trained on the same batch: activations and weights change in the program. */
static void
training(int n)
{
    const size_t all = (size_t)n * (size_t)n;
    double *x = matrix(all, 1), *w1 = matrix(all, 2), *w2 = matrix(all, 3),
           *h = matrix(all, 4), *y = matrix(all, 5), *g = matrix(all, 6);
    for (int i = 0; i < ROUNDS / 2; i++) {
        gemm("N", "N", n, n, n, w1, x, 0, h);
        for (size_t k = 0; k < all; k++) {
            h[k] = h[k] > 0 ? h[k] / n : 0;
        }
        tell("write", h, all, 'w', NULL);
        gemm("N", "N", n, n, n, w2, h, 0, y);
        for (size_t k = 0; k < all; k++) {
            y[k] = (y[k] - 0.5) / n;
        }
        tell("write", y, all, 'w', NULL);
        gemm("T", "N", n, n, n, w2, y, 0, g);
        tell("call gemm", y, all, 'r', h, all, 'r', w2, all, 'x', NULL);
        dgemm_("N", "T", &n, &n, &n, &minus, y, &n, h, &n, &one, w2, &n);
        tell("call gemm", g, all, 'r', x, all, 'r', w1, all, 'x', NULL);
        dgemm_("N", "T", &n, &n, &n, &minus, g, &n, x, &n, &one, w1, &n);
    }
    take(w1, all);
    take(w2, all);
}

static const struct {
    const char *name;
    void (*run)(int n);
} modes[] = {
    {"chain", chain},           {"stream", stream},     {"power", power},
    {"gradients", gradients},   {"kmeans", kmeans},     {"cholesky", cholesky},
    {"components", components}, {"training", training}, {"fresh", fresh},
};

int
main(int argc, char **argv)
{
    const int n = argc == 3 ? atoi(argv[2]) : 0;
    const char *path = getenv("RESIDENCY_TRACE");
    trace = path ? fopen(path, "we") : NULL;
    for (size_t i = 0; n >= CLUSTERS && i < sizeof(modes) / sizeof(*modes);
         i++) {
        if (strcmp(argv[1], modes[i].name) == 0) {
            modes[i].run(n);
            printf("%016llx\n", (unsigned long long)hash);
            return trace && fclose(trace) != 0;
        }
    }
    (void)fprintf(stderr, "usage: residency MODE N\n");
    return 2;
}
