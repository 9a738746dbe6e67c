/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Factorisations by panels of full height, left-looking: panels of equal width, as many
 * at a time on the device as fit beside the finished ones, which stream past and are
 * applied to them (nest_panels.c). Right hand sides are panels that are not factored.
 *
 * getrf and gesv, A = P L U: multipliers keep the row order of their own step until the
 * end, when later interchanges are applied to them once. A zero pivot ends in the
 * original on restored inputs.
 *
 * geqrf and gels, A = Q R in LAPACK's own layout, R and the reflectors of all columns in
 * the same order. Matrices that LAPACK scales (numbers near the ends of the range) or
 * calls singular are the original's.
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

static bool
has_pivots(const struct fy_algo *algo)
{
    return strcmp(algo->row->using[0], "getrf") == 0;
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
    struct fy_matrix *a = &algo->matrices[0], *vector = &algo->matrices[1],
                     *b = &algo->matrices[2];

    if (solves(algo) && has_pivots(algo)) {
        algo->m = algo->n;
    }
    if (algo->m < algo->n) {
        if (has_pivots(algo)) {
            return FY_ERR_UNSUPPORTED;
        }
        if (solves(algo)) {
            turn(algo);
        }
    }
    const int64_t factors = least(algo->m, algo->n);
    a->rows = algo->m;
    a->cols = algo->n;
    a->row_cuts = ROWS;
    a->col_cuts = COLUMNS;
    vector->rows = factors;
    vector->cols = 1;
    vector->ld = algo->turned ? 1 : factors;
    vector->row_cuts = FACTORS;
    vector->col_cuts = ONE;
    b->rows = from_right(algo) ? algo->k : algo->m;
    b->cols = from_right(algo) ? algo->m : algo->k;
    b->row_cuts = from_right(algo) ? SIDES : ROWS;
    b->col_cuts = from_right(algo) ? ROWS : SIDES;
    algo->extent[ROWS] = algo->m;
    algo->extent[COLUMNS] = algo->n;
    algo->extent[SIDES] = solves(algo) ? algo->k : 0;
    algo->extent[ONE] = 1;
    algo->extent[FACTORS] = factors;
    if (has_pivots(algo)) {
        vector->element_bytes = algo->planner->bound->integer_bits / 8;
    } else if (solves(algo)) {
        vector->access = FY_ACCESS_INOUT;
    }
    return FY_OK;
}

#define FACTOR_LU                                     \
    "for j, k {"                                      \
    "  j = k: getrf(A[k:, j], B[k]);"                 \
    "  j > k: laswp(A[k:, j], B[k]);"                 \
    "  j > k: trsm(unit A[k, k], A[k, j]);"           \
    "  j > k: gemm(- A[k+:, k], A[k, j], A[k+:, j]);" \
    "}"
#define SOLVE_LU                               \
    "for s, k {"                               \
    "  laswp(C[k:, s], B[k]);"                 \
    "  trsm(unit A[k, k], C[k, s]);"           \
    "  gemm(- A[k+:, k], C[k, s], C[k+:, s]);" \
    "} down {"                                 \
    "  trsm(upper A[k, k], C[k, s]);"          \
    "  gemm(- A[:k, k], C[k, s], C[:k, s]);"   \
    "}"
#define INTERCHANGE                   \
    "for each j, k {"                 \
    "  j < k: laswp(A[k:, j], B[k]);" \
    "}"
#define FACTOR_QR                                \
    "for j, k {"                                 \
    "  j = k: geqrf(A[k:, j], B[k]);"            \
    "  j > k: ormqr(A[k:, k]', B[k], A[k:, j]);" \
    "}"
/* X := R^-1 Q^H B: the least squares. */
#define SOLVE_QR                             \
    "for s, k {"                             \
    "  ormqr(A[k:, k]', B[k], C[k:, s]);"    \
    "} down {"                               \
    "  trsm(upper A[k, k], C[k, s]);"        \
    "  gemm(- A[:k, k], C[k, s], C[:k, s]);" \
    "}"
/* X := Q R^-H B: the least norm. Rows n .. m - 1 are 0 before Q is applied. */
#define SOLVE_ADJOINT                                    \
    "for s, k {"                                         \
    "  gemm(- A[:k, k]', C[:k, s], C[k, s]);"            \
    "  trsm(upper A[k, k]', C[k, s]);"                   \
    "} then {"                                           \
    "  k = e: gemm(0 A[k+:, k], C[:k, s], = C[k+:, s]);" \
    "} down {"                                           \
    "  ormqr(A[k:, k], B[k], C[k:, s]);"                 \
    "}"

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

/* The factors of a call that has no argument for them, and LAPACK's WORK. */
static int
prepare(struct fy_algo *algo)
{
    struct fy_planner *planner = algo->planner;
    const size_t bytes = algo->element_bytes;
    const int64_t widest = algo->n > algo->k ? algo->n : algo->k;

    if (has_pivots(algo)) {
        return FY_OK;
    }
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
    if (!planner->options.ops->resolve) { /* devices have none of LAPACK's */
        planner->workspace = malloc((size_t)algo->lwork * bytes);
        if (!planner->workspace) {
            return FY_ERR_NOMEM;
        }
    }
    return FY_OK;
}

/* ---- sizes ---- */

/* Cuts the factors as the columns are cut, as far as there are factors. */
static int
cut_factors(struct fy_algo *algo)
{
    const struct fy_cuts *columns = &algo->cuts[FY_PANEL_COLUMNS];
    struct fy_cuts *factors = &algo->cuts[FY_PANEL_FACTORS];
    const int64_t extent = algo->extent[FY_PANEL_FACTORS];

    if (extent < 1) {
        return FY_OK;
    }
    factors->start = calloc(columns->count + 1, sizeof(*factors->start));
    if (!factors->start) {
        return FY_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < columns->count && columns->start[i] < extent;
         i++) {
        factors->start[factors->count++] = columns->start[i];
    }
    factors->start[factors->count] = extent;
    return FY_OK;
}

/* As many panels as fit beside two more. */
static uint32_t
fitting(const struct fy_algo *algo, double panel)
{
    const double room = algo->room / (double)algo->m / panel;

    return room > 4 ? (uint32_t)(room - 2.5) : 1;
}

static int
search(struct fy_algo *algo)
{
    /* Parts of the panels that fit; parts of all columns, where copies overlap kernels. */
    static const double parts[] = {8, 5, 12, 20, 3.5},
                        all[] = {2, 3, 4, 6, 8, 12, 16};
    enum {
        PARTS = sizeof(parts) / sizeof(parts[0]),
        COUNT = PARTS + sizeof(all) / sizeof(all[0])
    };
    const double widest = algo->room / (double)algo->m, n = (double)algo->n;
    int64_t panels[COUNT];

    for (unsigned i = 0; i < COUNT; i++) {
        panels[i] =
            (int64_t)(i < PARTS ? fmin(widest / parts[i], n)
                                : fmin(widest / 3.5, n / all[i - PARTS]));
    }
    return fy_algo_cheapest(
        algo, panels, algo->planner->options.overlap_bytes > 0 ? COUNT : PARTS);
}

/* flops / sqrt(S) less a filling of the device, and A and B out. */
static double
lu_bound(const struct fy_algo *algo, double elements)
{
    double m = (double)algo->m, n = (double)algo->n;
    double k = solves(algo) ? (double)algo->k : 0;
    return (n * n * (m - n / 3) + 2 * n * n * k) / sqrt(elements) + m * n +
           m * k - elements;
}

/* At least the traffic of LU of the smaller square, and every element once. */
static double
qr_bound(const struct fy_algo *algo, double elements)
{
    const double m = (double)algo->m, n = (double)algo->n;
    const double t = m < n ? m : n;
    const double k = solves(algo) ? (double)algo->k : 0;
    return t * t * ((m < n ? n : m) - t / 3) / sqrt(elements) + m * n + m * k -
           elements;
}

static const struct fy_algo_sizes sizes = {
    .free = 1u << COLUMNS | 1u << SIDES,
    .macro = fitting,
    .beside = cut_factors,
    .search = search,
};

const struct fy_algo_row fy_algo_panels[] = {
    {.name = "getrf",
     .signature = "mnA1Bi",
     .using = {"getrf", "trsm", "gemm", "laswp"},
     .nest = FACTOR_LU INTERCHANGE,
     .bound = lu_bound,
     .diagonal = FY_DIAGONAL_REGULAR,
     .setup = setup,
     .prepare = prepare,
     .sizes = &sizes},
    {.name = "gesv",
     .signature = "nkA1BC3i",
     .using = {"getrf", "trsm", "gemm", "laswp"},
     .nest = FACTOR_LU SOLVE_LU INTERCHANGE,
     .bound = lu_bound,
     .diagonal = FY_DIAGONAL_REGULAR,
     .setup = setup,
     .prepare = prepare,
     .sizes = &sizes},
    {.name = "geqrf",
     .signature = "mnA1BwWi",
     .using = {"geqrf", "ormqr"},
     .nest = FACTOR_QR,
     .bound = qr_bound,
     .diagonal = FY_DIAGONAL_FINITE,
     .setup = setup,
     .prepare = prepare,
     .sizes = &sizes},
    {.name = "gels",
     .signature = "tmnkA1C3wWi",
     .using = {"geqrf", "ormqr", "trsm", "gemm"},
     .nest = FACTOR_QR SOLVE_QR,
     .adjoint = FACTOR_QR SOLVE_ADJOINT,
     .bound = qr_bound,
     .diagonal = FY_DIAGONAL_REGULAR,
     .setup = setup,
     .prepare = prepare,
     .sizes = &sizes},
    {NULL},
};
