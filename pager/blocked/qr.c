/* SPDX-License-Identifier: Apache-2.0 */
/*
 * geqrf and gels: A = Q R by panels of full height (panels.c): every
 * finished panel applies its reflectors to the others. What comes out is
 * LAPACK's own layout, R and the reflectors of all columns in one order. For
 * gels right hand sides are panels that are not factored, and are solved with R;
 * what LAPACK scales (numbers near the ends of the range) or calls singular is
 * the original's.
 */
#include "config.h"

#include "pager/blocked/nest.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROWS = FY_PANEL_ROWS,
    COLUMNS = FY_PANEL_COLUMNS,
    SIDES = FY_PANEL_SIDES,
    ONE = FY_PANEL_ONE,
    FACTORS = FY_PANEL_FACTORS
};
enum {
    WORK_COLUMNS = 64,   /* of LAPACK's blocks, and */
    WORK_TRIANGLE = 4160 /* of their triangular factors */
};

static bool
solves(const struct fy_algo *algo)
{
    return strchr(algo->row->signature, 'C');
}

static int64_t
least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/*
 * With m < n LAPACK makes A = L Q, for which devices have no function. That is
 * the QR of A^T, stored in the same places: A^T = P R gives L = R^T, Q = P^T, and
 * the rows that LAPACK stores for Q are the columns of P's reflectors, with no
 * conjugate in complex ones, either. Right hand sides, which then want P^T and
 * conjugates of P, are transposed as well: B^T is multiplied from the right, where
 * P and P^H do.
 */
static void
turn(struct fy_algo *algo)
{
    const int64_t m = algo->m;

    algo->m = algo->n;
    algo->n = m;
    algo->transa = algo->transa == 'N' ? 'T' : 'N';
    algo->matrices[0].flipped = true;
    algo->matrices[2].flipped = algo->is_complex;
}

/* Complex right hand sides of a turned call lie transposed. */
static bool
from_right(const struct fy_algo *algo)
{
    return algo->matrices[2].flipped;
}

static int
setup(struct fy_algo *algo)
{
    struct fy_matrix *a = &algo->matrices[0], *tau = &algo->matrices[1],
                     *b = &algo->matrices[2];

    if (solves(algo) && algo->m < algo->n) {
        turn(algo);
    }
    const int64_t factors = least(algo->m, algo->n);
    a->rows = algo->m;
    a->cols = algo->n;
    a->row_cuts = ROWS;
    a->col_cuts = COLUMNS;
    tau->rows = factors;
    tau->cols = 1;
    tau->ld = algo->turned ? 1 : factors;
    tau->row_cuts = FACTORS;
    tau->col_cuts = ONE;
    b->rows = from_right(algo) ? algo->k : algo->m;
    b->cols = from_right(algo) ? algo->m : algo->k;
    b->row_cuts = from_right(algo) ? SIDES : ROWS;
    b->col_cuts = from_right(algo) ? ROWS : SIDES;
    algo->extent[ROWS] = algo->m;
    algo->extent[COLUMNS] = algo->n;
    algo->extent[SIDES] = solves(algo) ? algo->k : 0;
    algo->extent[ONE] = 1;
    algo->extent[FACTORS] = factors;
    if (solves(algo)) {
        tau->access = FY_ACCESS_INOUT;
    }
    return FY_OK;
}

static const char factor[] = "for j, k {"
                             "  j = k: geqrf(A[k:, j], B[k]);"
                             "  j > k: ormqr(A[k:, k]', B[k], A[k:, j]);"
                             "}";

/* X := R^-1 Q^H B: the least squares. */
static const char solve[] = "for s, k {"
                            "  ormqr(A[k:, k]', B[k], C[k:, s]);"
                            "} down {"
                            "  trsm(upper A[k, k], C[k, s]);"
                            "  gemm(- A[:k, k], C[k, s], C[:k, s]);"
                            "}";

/* X := Q R^-H B: the least norm. Rows n .. m - 1 are 0 before Q is applied. */
static const char solve_adjoint[] =
    "for s, k {"
    "  gemm(- A[:k, k]', C[:k, s], C[k, s]);"
    "  trsm(upper A[k, k]', C[k, s]);"
    "} then {"
    "  k = e: gemm(0 A[k+:, k], C[:k, s], = C[k+:, s]);"
    "} down {"
    "  ormqr(A[k:, k], B[k], C[k:, s]);"
    "}";

static int
program(struct fy_algo *algo)
{
    int status = fy_nest_run(algo, factor);

    if (status == FY_OK && solves(algo)) {
        status = fy_nest_run(algo, algo->transa == 'N' ? solve : solve_adjoint);
    }
    return status;
}

/* Returns true if gels would neither scale the matrices nor find them empty. */
static bool
is_plain(const struct fy_algo *algo)
{
    const bool is_single =
        algo->element == FY_T_F32 || algo->element == FY_T_C32;
    const double least_number =
        is_single ? FLT_MIN / FLT_EPSILON : DBL_MIN / DBL_EPSILON;

    for (unsigned i = 0; i < 3; i += 2) { /* A and C */
        struct fy_view view;
        fy_algo_view(algo, &algo->matrices[i], &view);
        if (i > 0 && algo->transa != 'N') {
            /* Below there is only room. */
            view.extent[from_right(algo) ? 1 : 0] = algo->n;
        }
        if (!fy_view_is_in_range(&view, (enum fy_type)algo->element,
                                 least_number, 1 / least_number)) {
            return false;
        }
    }
    return true;
}

static int
search(struct fy_algo *algo)
{
    struct fy_planner *planner = algo->planner;
    const size_t bytes = algo->element_bytes;
    const int64_t widest = algo->n > algo->k ? algo->n : algo->k;

    if (solves(algo)) {
        if (!is_plain(algo)) {
            return FY_ERR_UNSUPPORTED;
        }
        planner->factors = calloc((size_t)algo->n, bytes);
        if (!planner->factors) {
            return FY_ERR_NOMEM;
        }
        algo->matrices[1].host = planner->factors;
    }
    if (widest > (INT32_MAX - WORK_TRIANGLE) / WORK_COLUMNS) {
        return FY_ERR_NOFIT;
    }
    algo->lwork = widest * WORK_COLUMNS + WORK_TRIANGLE;
    if (!planner->options.ops->resolve) { /* a device has its own */
        planner->workspace = malloc((size_t)algo->lwork * bytes);
        if (!planner->workspace) {
            return FY_ERR_NOMEM;
        }
    }
    return fy_algo_panels(algo);
}

/* At least what LU of the smaller square moves, and every element once. */
static double
bound(const struct fy_algo *algo, double elements)
{
    const double m = (double)algo->m, n = (double)algo->n;
    const double t = m < n ? m : n;
    const double k = solves(algo) ? (double)algo->k : 0;
    return t * t * ((m < n ? n : m) - t / 3) / sqrt(elements) + m * n + m * k -
           elements;
}

const struct fy_algo_row fy_algo_qr[] = {
    {.name = "geqrf",
     .signature = "mnA1BwWi",
     .using = {"geqrf", "ormqr"},
     .setup = setup,
     .program = program,
     .bound = bound,
     .search = search,
     .diagonal = FY_DIAGONAL_FINITE},
    {.name = "gels",
     .signature = "tmnkA1C3wWi",
     .using = {"geqrf", "ormqr", "trsm", "gemm"},
     .setup = setup,
     .program = program,
     .bound = bound,
     .search = search,
     .diagonal = FY_DIAGONAL_REGULAR},
    {NULL},
};
