/* SPDX-License-Identifier: Apache-2.0 */
/*
 * getri: A^-1 from its factors, by panels of columns that are solved for from
 * the identity. A stays on the device as a whole while panels of the result,
 * which take its place in host memory, go out; one that is larger is the original's.
 * So are a singular one and interchanges that getrf cannot have made.
 */
#include "config.h"

#include "pager/blocked/algo.h"

#include <string.h>

enum {
    ALL = FY_PANEL_ROWS, /* of A, and the height of panels */
    COLUMNS = FY_PANEL_COLUMNS,
    UNIT = FY_PANEL_SIDES, /* both sides of the identity, D */
    ONE = FY_PANEL_ONE
};
enum {
    MULTIPLY = 1,
    SOLVE
};
enum {
    WIDEST = 1024, /* of panels: the identity is as large */
    SPARE_PANELS = 3
};

static int
setup(struct fy_algo *algo)
{
    struct fy_matrix *a = &algo->matrices[0], *pivots = &algo->matrices[1],
                     *x = &algo->matrices[2], *unit = &algo->matrices[3];

    a->rows = a->cols = algo->n;
    a->row_cuts = a->col_cuts = ALL;
    pivots->rows = algo->n;
    pivots->cols = 1;
    pivots->ld = algo->turned ? 1 : algo->n;
    pivots->row_cuts = ALL;
    pivots->col_cuts = ONE;
    pivots->element_bytes = algo->planner->bound->integer_bits / 8;
    *x = *a;
    x->col_cuts = COLUMNS;
    x->access = FY_ACCESS_INOUT;
    unit->row_cuts = unit->col_cuts = UNIT;
    unit->access = FY_ACCESS_IN;
    a->once = true;
    algo->extent[ALL] = algo->extent[COLUMNS] = algo->n;
    algo->extent[ONE] = 1;
    return FY_OK;
}

/* Panel j := the identity's, block by block from numbers that are finite; then it is
 * solved for. */
static int
emit_panel(struct fy_algo *algo, uint32_t j)
{
    const struct fy_cuts *cuts = &algo->cuts[COLUMNS];
    struct fy_block blocks[3] = {
        {'D', 0, 0, 0}, {'D', 0, 0, 0}, {'C', 0, j, 0}};
    struct fy_block_call fill, solve;

    memset(&fill, 0, sizeof(fill));
    fill.transa = 'N';
    fill.k = fy_cuts_length(cuts, j);
    fill.access[0] = fill.access[1] = FY_ACCESS_IN;
    fill.access[2] = FY_ACCESS_INOUT;
    memcpy(&solve, &fill, sizeof(solve));
    solve.routine = SOLVE;
    solve.n = algo->n;
    fill.routine = MULTIPLY;
    fill.transb = 'N';
    fill.n = fill.k;
    for (uint32_t i = 0; i < cuts->count; i++) {
        fill.m = fy_cuts_length(cuts, i);
        fill.alpha[0] = i == j ? 1 : 0;
        fill.access[2] = i == 0 ? FY_ACCESS_OUT : FY_ACCESS_INOUT;
        blocks[2].skip = cuts->start[i];
        int status = fy_algo_call(algo, &fill, blocks);
        if (status) {
            return status;
        }
    }
    blocks[0].matrix = 'A';
    blocks[1].matrix = 'B';
    blocks[2].skip = 0;
    return fy_algo_call(algo, &solve, blocks);
}

static int
program(struct fy_algo *algo)
{
    int status = FY_OK;

    for (uint32_t j = 0; status == FY_OK && j < algo->cuts[COLUMNS].count;
         j++) {
        status = emit_panel(algo, j);
    }
    return status;
}

/* getri reads no last interchange: getrf's is with itself. */
static bool
are_pivots(const struct fy_algo *algo)
{
    const struct fy_matrix *pivots = &algo->matrices[1];
    const enum fy_type type =
        fy_type_resolve(FY_T_INTEGER, algo->planner->bound->integer_bits);

    for (int64_t i = 0; i < algo->n; i++) {
        const struct fy_value pivot = fy_raw_value(
            type, pivots->host + i * (int64_t)pivots->element_bytes);
        if (pivot.i <= i || pivot.i > algo->n) {
            return false;
        }
    }
    return true;
}

/* Returns true if A, the identity and so many panels of that width fit on
 * the device together. */
static bool
fits(const struct fy_algo *algo, int64_t width, int count)
{
    const double n = (double)algo->n, w = (double)width;
    const double rounding = (5 + count) * 256.0; /* of buffers */

    return n * n + n + w * w + count * n * w + rounding / algo->element_bytes <=
           algo->room;
}

static int
make_unit(struct fy_algo *algo)
{
    return fits(algo, fy_cuts_longest(&algo->cuts[COLUMNS]), 1)
               ? fy_algo_identity(algo, UNIT, false)
               : FY_ERR_NOFIT;
}

static int
prepare(struct fy_algo *algo)
{
    return fy_algo_is_regular(algo) && are_pivots(algo) ? FY_OK
                                                        : FY_ERR_UNSUPPORTED;
}

static int
search(struct fy_algo *algo)
{
    int64_t width = algo->n < WIDEST ? algo->n : WIDEST;

    /* Some panels, so that results go out while others are computed. */
    while (width > 256 && 4 * width > algo->n) {
        width = (width + 1) / 2;
    }
    for (int count = SPARE_PANELS; count > 0; count--) {
        for (int64_t half = width; half > 0; half /= 2) {
            const int64_t w = half >= 64 ? half / 16 * 16 : half;
            if (fits(algo, w, count)) {
                return fy_algo_even(algo, w);
            }
        }
    }
    return FY_ERR_NOFIT;
}

/* Every element once in each direction, as any schedule. */
static double
bound(const struct fy_algo *algo, double elements)
{
    (void)elements;
    return 2.0 * (double)algo->n * (double)algo->n;
}

static const struct fy_algo_sizes sizes = {
    .free = 1u << COLUMNS,
    .beside = make_unit,
    .search = search,
};

const struct fy_algo_row fy_algo_inverse[] = {
    {.name = "getri",
     .signature = "nA1BwWi",
     .using = {"gemm", "getrs"},
     .setup = setup,
     .program = program,
     .bound = bound,
     .prepare = prepare,
     .sizes = &sizes,
     .diagonal = FY_RESULT_FINITE},
    {NULL},
};
