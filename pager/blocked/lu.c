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

#include "pager/blocked/algo.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROWS = FY_PANEL_ROWS,
    COLUMNS = FY_PANEL_COLUMNS,
    SIDES = FY_PANEL_SIDES,
    ONE = FY_PANEL_ONE
};
enum {
    FACTOR = 1,
    SOLVE,
    MULTIPLY,
    SWAP
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
    return FY_OK;
}

/* The interchanges of step k on a panel, from row k on. */
static int
swap(struct fy_algo *algo, char matrix, uint32_t panel, uint32_t k)
{
    const struct fy_block blocks[3] = {
        fy_panel_part(matrix, panel, fy_panel_start(algo, k)), {'B', k, 0, 0}};
    struct fy_block_call call;

    memset(&call, 0, sizeof(call));
    call.routine = SWAP;
    call.n = fy_panel_width(algo, matrix, panel);
    call.k = fy_panel_width(algo, 'A', k);
    call.access[0] = FY_ACCESS_INOUT;
    call.access[1] = FY_ACCESS_IN;
    return fy_algo_call(algo, &call, blocks);
}

/* Rows of step k of a panel := L(k, k)^-1 or U(k, k)^-1 times themselves. */
static int
solve(struct fy_algo *algo, char matrix, uint32_t panel, uint32_t k, char uplo)
{
    int64_t row = fy_panel_start(algo, k);
    const struct fy_block blocks[3] = {fy_panel_part('A', k, row),
                                       fy_panel_part(matrix, panel, row)};
    struct fy_block_call call;

    memset(&call, 0, sizeof(call));
    call.routine = SOLVE;
    call.side = 'L';
    call.uplo = uplo;
    call.transa = 'N';
    call.diag = uplo == 'L' ? 'U' : 'N';
    call.m = fy_panel_width(algo, 'A', k);
    call.n = fy_panel_width(algo, matrix, panel);
    memcpy(call.alpha, fy_one, sizeof(call.alpha));
    call.access[0] = FY_ACCESS_IN;
    call.access[1] = FY_ACCESS_INOUT;
    return fy_algo_call(algo, &call, blocks);
}

/* `rows' rows of a panel from `to' on -= those of column panel k of A times
 * the panel's rows of step k. */
static int
multiply(struct fy_algo *algo, char matrix, uint32_t panel, uint32_t k,
         int64_t to, int64_t rows)
{
    struct fy_product product = {
        .transa = 'N',
        .transb = 'N',
        .alpha = fy_minus_one,
        .beta = fy_one,
        .a = fy_panel_part('A', k, to),
        .b = fy_panel_part(matrix, panel, fy_panel_start(algo, k)),
        .c = fy_panel_part(matrix, panel, to),
        .m = rows,
        .n = fy_panel_width(algo, matrix, panel),
        .k = fy_panel_width(algo, 'A', k),
        .c_access = FY_ACCESS_INOUT,
    };
    return rows > 0 ? fy_algo_gemm(algo, MULTIPLY, &product) : FY_OK;
}

/* Step k on a panel to its right, or on right hand sides. */
static int
apply(struct fy_algo *algo, char matrix, uint32_t panel, uint32_t k)
{
    int64_t below = fy_panel_start(algo, k) + fy_panel_width(algo, 'A', k);
    int status = swap(algo, matrix, panel, k);

    if (status == FY_OK) {
        status = solve(algo, matrix, panel, k, 'L');
    }
    if (status == FY_OK) {
        status = multiply(algo, matrix, panel, k, below, algo->m - below);
    }
    return status;
}

/* Forward with L, backward with U. */
static int
solve_macro(struct fy_algo *algo, uint32_t a, uint32_t b)
{
    uint32_t panels = algo->cuts[COLUMNS].count;
    int status = FY_OK;

    for (uint32_t k = 0; status == FY_OK && k < panels; k++) {
        status = fy_panels_apply(algo, apply, 'C', a, b, k);
    }
    for (uint32_t k = panels; status == FY_OK && k-- > 0;) {
        for (uint32_t j = a; status == FY_OK && j < b; j++) {
            status = solve(algo, 'C', j, k, 'U');
            if (status == FY_OK) {
                status = multiply(algo, 'C', j, k, 0, fy_panel_start(algo, k));
            }
        }
    }
    return status;
}

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
    uint32_t panels = algo->cuts[COLUMNS].count, size = algo->macro_cols;
    uint32_t sides = solves(algo) ? algo->cuts[SIDES].count : 0;
    int status = remember_pivots(algo);

    if (status == FY_OK) {
        status = fy_panels_factor(algo, FACTOR, panels, apply);
    }
    for (uint32_t a = 0; status == FY_OK && a < sides; a += size) {
        status = solve_macro(algo, a, a + size < sides ? a + size : sides);
    }
    for (uint32_t j = 0; status == FY_OK && j < panels; j++) {
        for (uint32_t k = j + 1; status == FY_OK && k < panels; k++) {
            status = swap(algo, 'A', j, k);
        }
    }
    return status;
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
