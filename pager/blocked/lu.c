/* SPDX-License-Identifier: Apache-2.0 */
/*
 * getrf and gesv: A = P L U by panels of full height, left-looking: a macro-block of
 * panels stays on the device while every finished panel streams past, swaps
 * its rows, solves with its triangle and subtracts its product. Multipliers
 * keep the row order of their own step until the end, when later interchanges
 * are applied to them once. Right hand sides are panels that are not factored.
 * A zero pivot ends in the original on restored inputs.
 */
#include "config.h"

#include "pager/blocked/nest.h"

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

static bool
solves(const struct fy_algo *algo)
{
    return strchr(algo->row->signature, 'C');
}

static int
setup(struct fy_algo *algo)
{
    struct fy_matrix *a = &algo->matrices[0], *pivots = &algo->matrices[1],
                     *b = &algo->matrices[2];

    if (solves(algo)) {
        algo->m = algo->n;
    }
    if (algo->m < algo->n) {
        return FY_ERR_UNSUPPORTED;
    }
    a->rows = b->rows = algo->m;
    a->cols = algo->n;
    b->cols = algo->k;
    a->row_cuts = b->row_cuts = ROWS;
    a->col_cuts = COLUMNS;
    b->col_cuts = SIDES;
    pivots->rows = algo->n;
    pivots->cols = 1;
    pivots->ld = algo->turned ? 1 : algo->n;
    pivots->row_cuts = COLUMNS;
    pivots->col_cuts = ONE;
    pivots->element_bytes = algo->planner->bound->integer_bits / 8;
    algo->extent[ROWS] = algo->m;
    algo->extent[COLUMNS] = algo->n;
    algo->extent[SIDES] = solves(algo) ? algo->k : 0;
    algo->extent[ONE] = 1;
    algo->extent[FACTORS] = algo->n;
    return FY_OK;
}

static const char factor[] = "for j, k {"
                             "  j = k: getrf(A[k:, j], B[k]);"
                             "  j > k: laswp(A[k:, j], B[k]);"
                             "  j > k: trsm(unit A[k, k], A[k, j]);"
                             "  j > k: gemm(- A[k+:, k], A[k, j], A[k+:, j]);"
                             "}";

static const char solve[] = "for s, k {"
                            "  laswp(C[k:, s], B[k]);"
                            "  trsm(unit A[k, k], C[k, s]);"
                            "  gemm(- A[k+:, k], C[k, s], C[k+:, s]);"
                            "} down {"
                            "  trsm(upper A[k, k], C[k, s]);"
                            "  gemm(- A[:k, k], C[k, s], C[:k, s]);"
                            "}";

static const char interchange[] = "for each j, k {"
                                  "  j < k: laswp(A[k:, j], B[k]);"
                                  "}";

static int
remember_pivots(struct fy_algo *algo)
{
    struct fy_planner *planner = algo->planner;
    const struct fy_cuts *cuts = &algo->cuts[COLUMNS];
    size_t bytes = sizeof(*cuts->start) * (cuts->count + 1);

    planner->pivot_starts = malloc(bytes);
    if (!planner->pivot_starts) {
        return FY_ERR_NOMEM;
    }
    memcpy(planner->pivot_starts, cuts->start, bytes);
    planner->npivot_panels = cuts->count;
    planner->pivots = algo->matrices[1].host;
    planner->narrow_pivots = algo->matrices[1].narrow;
    return FY_OK;
}

static int
program(struct fy_algo *algo)
{
    int status = remember_pivots(algo);

    if (status == FY_OK) {
        status = fy_nest_run(algo, factor);
    }
    if (status == FY_OK && solves(algo)) {
        status = fy_nest_run(algo, solve);
    }
    return status ? status : fy_nest_run(algo, interchange);
}

/* flops / sqrt(S) less what one filling of the device gives, A and B out. */
static double
bound(const struct fy_algo *algo, double elements)
{
    double m = (double)algo->m, n = (double)algo->n;
    double k = solves(algo) ? (double)algo->k : 0;
    return (n * n * (m - n / 3) + 2 * n * n * k) / sqrt(elements) + m * n +
           m * k - elements;
}

const struct fy_algo_row fy_algo_lu[] = {
    {.name = "getrf",
     .signature = "mnA1Bi",
     .using = {"getrf", "trsm", "gemm", "laswp"},
     .setup = setup,
     .program = program,
     .bound = bound,
     .search = fy_algo_panels,
     .diagonal = FY_DIAGONAL_REGULAR},
    {.name = "gesv",
     .signature = "nkA1BC3i",
     .using = {"getrf", "trsm", "gemm", "laswp"},
     .setup = setup,
     .program = program,
     .bound = bound,
     .search = fy_algo_panels,
     .diagonal = FY_DIAGONAL_REGULAR},
    {NULL},
};
