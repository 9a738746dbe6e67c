/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a result is right, without computing it again: both sides of its
 * equation times one vector of signs, as Freivalds does for products. What a
 * product of random signs cannot see (one element, by little) stays unseen; a
 * tile that is missing, old or of another place does not.
 */
#include "config.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/gpu_matrix.h"

enum {
    STEP_COLUMNS = 16,
};

/* Which rows of column j take part. */
enum region {
    REGION_ALL,
    REGION_LOWER,
    REGION_BELOW, /* without the diagonal */
    REGION_UPPER,
};

static void
rows_of(enum region region, const struct matrix *m, int64_t j, int64_t *from,
        int64_t *to)
{
    bool below = region == REGION_LOWER || region == REGION_BELOW;
    int64_t diagonal = j < m->rows ? j : m->rows;
    int64_t after = j + 1 < m->rows ? j + 1 : m->rows;
    *from = below ? (region == REGION_LOWER ? diagonal : after) : 0;
    *to = region == REGION_UPPER ? after : m->rows;
}

/* Vectors are pairs of real and imaginary parts, whatever the matrix. */
struct product {
    const struct matrix *m;
    enum region region;
    bool original; /* the elements as they were filled */
    const double *x;
    double *y;
    double **own; /* sums: a vector of each thread */
    _Atomic int64_t *wrong;
};

static double *
vector(int64_t n)
{
    double *v = calloc((size_t)n * 2 + 1, sizeof *v);
    if (v == NULL) {
        abort();
    }
    return v;
}

/* Of column j of the matrix in memory with x. */
static void
dot(const struct matrix *m, int64_t j, int64_t from, int64_t to,
    const double *x, double *out)
{
    double re = 0, im = 0;
    if (m->type == 's') {
        const float *column = (const float *)m->data + j * m->rows;
        for (int64_t i = from; i < to; i++) {
            re += (double)column[i] * x[2 * i];
        }
    } else if (m->type == 'd') {
        const double *column = (const double *)m->data + j * m->rows;
        for (int64_t i = from; i < to; i++) {
            re += column[i] * x[2 * i];
        }
    } else {
        const double *column = (const double *)m->data + 2 * j * m->rows;
        for (int64_t i = from; i < to; i++) {
            double a = column[2 * i], b = column[2 * i + 1];
            re += a * x[2 * i] - b * x[2 * i + 1];
            im += a * x[2 * i + 1] + b * x[2 * i];
        }
    }
    out[0] = re;
    out[1] = im;
}

static void
dot_original(const struct matrix *m, int64_t j, const double *x, double *out)
{
    double re = 0;
    for (int64_t i = 0; i < m->rows; i++) {
        re += bench_element(m, i, j, 0) * x[2 * i];
    }
    out[0] = re;
    out[1] = 0;
}

static void
dots_body(void *argument, int thread, int64_t from, int64_t to)
{
    struct product *p = argument;
    (void)thread;
    for (int64_t j = from; j < to; j++) {
        if (p->original) {
            dot_original(p->m, j, p->x, p->y + 2 * j);
        } else {
            int64_t first, end;
            rows_of(p->region, p->m, j, &first, &end);
            dot(p->m, j, first, end, p->x, p->y + 2 * j);
        }
    }
}

/* M^T x over a region of M. */
static double *
dots(const struct matrix *m, enum region region, const double *x)
{
    struct product p = {.m = m, .region = region, .x = x};
    p.y = vector(m->columns);
    bench_parallel(m->columns, STEP_COLUMNS, dots_body, &p);
    return p.y;
}

/* M^T x of a real M as it was filled. */
static double *
dots_original(const struct matrix *m, const double *x)
{
    struct product p = {.m = m, .original = true, .x = x};
    p.y = vector(m->columns);
    bench_parallel(m->columns, STEP_COLUMNS, dots_body, &p);
    return p.y;
}

static void
sums_body(void *argument, int thread, int64_t from, int64_t to)
{
    struct product *p = argument;
    const struct matrix *m = p->m;
    double *y = p->own[thread];
    for (int64_t j = from; j < to; j++) {
        int64_t first, end;
        double x = p->x[2 * j];
        rows_of(p->region, m, j, &first, &end);
        if (m->type == 's') {
            const float *column = (const float *)m->data + j * m->rows;
            for (int64_t i = first; i < end; i++) {
                y[i] += (double)column[i] * x;
            }
        } else {
            const double *column = (const double *)m->data + j * m->rows;
            for (int64_t i = first; i < end; i++) {
                y[i] += column[i] * x;
            }
        }
    }
}

/* M x over a region of a real M. */
static double *
sums(const struct matrix *m, enum region region, const double *x)
{
    struct product p = {.m = m, .region = region, .x = x};
    int threads = bench_threads();
    p.y = vector(m->rows);
    p.own = calloc((size_t)threads, sizeof *p.own);
    if (p.own == NULL) {
        abort();
    }
    for (int t = 0; t < threads; t++) {
        p.own[t] = vector(m->rows);
    }
    bench_parallel(m->columns, STEP_COLUMNS, sums_body, &p);
    for (int t = 0; t < threads; t++) {
        for (int64_t i = 0; i < m->rows; i++) {
            p.y[2 * i] += p.own[t][i];
        }
        free(p.own[t]);
    }
    free(p.own);
    return p.y;
}

static void
wrong_body(void *argument, int thread, int64_t from, int64_t to)
{
    struct product *p = argument;
    int64_t wrong = 0;
    (void)thread;
    for (int64_t j = from; j < to; j++) {
        for (int64_t i = 0; i < j && i < p->m->rows; i++) {
            int64_t at = i + j * p->m->rows;
            wrong += p->m->type == 's'
                         ? ((const float *)p->m->data)[at] != (float)SENTINEL
                         : ((const double *)p->m->data)[at] != SENTINEL;
        }
    }
    *p->wrong += wrong;
}

/* Whether somebody wrote where the other triangle would be. */
static bool
other_triangle_is_untouched(const struct matrix *m)
{
    _Atomic int64_t wrong = 0;
    struct product p = {.m = m, .wrong = &wrong};
    bench_parallel(m->columns, STEP_COLUMNS, wrong_body, &p);
    return wrong == 0;
}

static double *
signs(int64_t n)
{
    static const struct matrix source = {.type = 'd', .seed = 77};
    double *x = vector(n);
    for (int64_t i = 0; i < n; i++) {
        x[2 * i] = bench_element(&source, i, 0, 0) < 0 ? -1 : 1;
    }
    return x;
}

/* P^T x; P exchanges row i with row pivots[i], i = 0, 1, ... */
static void
exchange(const struct job *job, double *x)
{
    for (int64_t i = job->n - 1; i >= 0; i--) {
        int64_t to = job->wide ? ((const int64_t *)job->pivots)[i]
                               : ((const int32_t *)job->pivots)[i];
        if (to < 1 || to > job->n) {
            x[0] = NAN; /* no row of it */
            return;
        }
        double kept = x[2 * i];
        x[2 * i] = x[2 * (to - 1)];
        x[2 * (to - 1)] = kept;
    }
}

/* y += z, both of n pairs; frees z. */
static void
add(double *y, double *z, int64_t n)
{
    for (int64_t i = 0; i < 2 * n; i++) {
        y[i] += z[i];
    }
    free(z);
}

/* Both sides of the equation times x: *got of the result, *want of the rest. */
static void
both_sides(const struct job *job, double *x, double **got, double **want)
{
    const struct matrix *a = &job->a, *b = &job->b, *c = &job->c;
    double *u;
    switch (job->kind) {
    case KIND_GEMM:
        u = dots(a, REGION_ALL, x);
        *want = dots(b, REGION_ALL, u);
        *got = dots(c, REGION_ALL, x);
        break;
    case KIND_SYMM:
        u = dots_original(a, x);
        *want = dots(b, REGION_ALL, u);
        *got = dots(c, REGION_ALL, x);
        break;
    case KIND_SYRK:
        u = dots(a, REGION_ALL, x);
        *want = sums(a, REGION_ALL, u);
        *got = dots(c, REGION_LOWER, x);
        add(*got, sums(c, REGION_BELOW, x), c->rows);
        break;
    case KIND_TRSM:
        u = dots_original(a, x);
        *want = dots_original(c, x);
        *got = dots(c, REGION_ALL, u);
        break;
    case KIND_POTRF:
        u = dots(c, REGION_LOWER, x);
        *want = dots_original(c, x);
        *got = sums(c, REGION_LOWER, u);
        break;
    default:
        u = dots(c, REGION_BELOW, x);
        for (int64_t i = 0; i < job->n; i++) {
            u[2 * i] += x[2 * i];
        }
        *got = dots(c, REGION_UPPER, u);
        exchange(job, x);
        *want = dots_original(c, x);
        break;
    }
    free(u);
}

double
bench_residual(const struct job *job)
{
    double *x = signs(job->c.rows), *got = NULL, *want = NULL;
    double largest = 0, difference = 0;
    bool right = true;
    both_sides(job, x, &got, &want);
    int64_t n = job->kind == KIND_SYRK || job->kind == KIND_POTRF
                    ? job->c.rows
                    : job->c.columns;
    for (int64_t i = 0; i < 2 * n; i++) {
        double by = fabs(got[i] - want[i]);
        right = right && isfinite(by); /* fmax passes over NaN */
        difference = fmax(difference, by);
        largest = fmax(largest, fabs(want[i]));
    }
    free(x);
    free(got);
    free(want);
    if ((job->kind == KIND_SYRK || job->kind == KIND_POTRF) &&
        !other_triangle_is_untouched(&job->c)) {
        right = false;
    }
    return right ? difference / (largest > 0 ? largest : 1) : HUGE_VAL;
}

double
bench_bound(const struct job *job)
{
    double n = fmax(fmax((double)job->m, (double)job->n), (double)job->k);
    return job->type == 's' ? 8 * sqrt(n) * (double)FLT_EPSILON
                            : 800 * sqrt(n) * DBL_EPSILON;
}
