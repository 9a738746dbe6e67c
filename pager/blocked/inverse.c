/* SPDX-License-Identifier: Apache-2.0 */
/*
 * getri: A^-1 from its factors, by panels of columns that are solved for from
 * the identity. A stays on the device as a whole while panels of the result,
 * which take its place in host memory, go out; one that is larger is the original's.
 * So are a singular one and interchanges that getrf cannot have made.
 */
#include "config.h"

#include "pager/blocked/algo.h"

#include <math.h>
#include <stdlib.h>
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

/* Block (i, j) of a panel := the identity's, from numbers that are finite. */
static int
fill(struct fy_algo *algo, uint32_t i, uint32_t j)
{
    static const double zero[2] = {0, 0};
    struct fy_product product = {
        .transa = 'N',
        .transb = 'N',
        .alpha = i == j ? fy_one : zero,
        .beta = zero,
        .a = {'D', 0, 0, 0},
        .b = {'D', 0, 0, 0},
        .c = {'C', 0, j, algo->cuts[COLUMNS].start[i]},
        .m = fy_algo_length(algo, COLUMNS, i),
        .n = fy_algo_length(algo, COLUMNS, j),
        .k = fy_algo_length(algo, COLUMNS, j),
        .c_access = i == 0 ? FY_ACCESS_OUT : FY_ACCESS_INOUT,
    };
    return fy_algo_gemm(algo, MULTIPLY, &product);
}

static int
solve(struct fy_algo *algo, uint32_t j)
{
    const struct fy_block blocks[3] = {
        {'A', 0, 0, 0}, {'B', 0, 0, 0}, {'C', 0, j, 0}};
    struct fy_block_call call;

    memset(&call, 0, sizeof(call));
    call.routine = SOLVE;
    call.transa = 'N';
    call.n = algo->n;
    call.k = fy_algo_length(algo, COLUMNS, j);
    call.access[0] = call.access[1] = FY_ACCESS_IN;
    call.access[2] = FY_ACCESS_INOUT;
    return fy_algo_call(algo, &call, blocks);
}

static int
program(struct fy_algo *algo)
{
    const uint32_t panels = algo->cuts[COLUMNS].count;
    int status = FY_OK;

    for (uint32_t j = 0; status == FY_OK && j < panels; j++) {
        for (uint32_t i = 0; status == FY_OK && i < panels; i++) {
            status = fill(algo, i, j);
        }
        if (status == FY_OK) {
            status = solve(algo, j);
        }
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

/* The identity as large as the widest panel. */
static int
make_unit(struct fy_algo *algo)
{
    const int64_t side = fy_cuts_longest(&algo->cuts[COLUMNS]);
    struct fy_matrix *unit = &algo->matrices[3];
    struct fy_planner *planner = algo->planner;
    const size_t bytes = algo->element_bytes;

    free(planner->factors);
    planner->factors = calloc((size_t)side * (size_t)side, bytes);
    if (!planner->factors) {
        return FY_ERR_NOMEM;
    }
    unit->host = planner->factors;
    unit->rows = unit->cols = unit->ld = side;
    algo->extent[UNIT] = side;
    for (int64_t i = 0; i < side; i++) {
        const struct fy_value one = {.kind = FY_V_COMPLEX, .r = 1};
        union fy_raw raw;
        memset(&raw, 0, sizeof(raw));
        fy_raw_store((enum fy_type)algo->element, &one, &raw);
        memcpy(unit->host + (size_t)(i * (side + 1)) * bytes, &raw, bytes);
    }
    return FY_OK;
}

/* Cuts of every dimension but that of the panels, which is there. */
static int
finish_cuts(struct fy_algo *algo)
{
    static const uint8_t whole[] = {ALL, UNIT, ONE};
    int status = make_unit(algo);

    for (unsigned i = 0; i < sizeof(whole); i++) {
        struct fy_cuts *cuts = &algo->cuts[whole[i]];
        fy_cuts_free(cuts);
        if (status == FY_OK) {
            status = fy_cuts_even(algo->extent[whole[i]], 1, 1, cuts);
        }
    }
    return status ? status : fy_algo_generate(algo);
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
search_randomly(struct fy_algo *algo, int64_t widest)
{
    uint64_t state = algo->planner->options.seed + (uint64_t)algo->n;
    int64_t width = 1 + (int64_t)fy_random_below(&state, (uint64_t)widest);

    while (width > 1 && !fits(algo, width, 1)) {
        width /= 2;
    }
    if (!fits(algo, width, 1)) {
        return FY_ERR_NOFIT;
    }
    int status =
        fy_cuts_random(algo->n, width, 12, 1, &state, &algo->cuts[COLUMNS]);
    return status ? status : finish_cuts(algo);
}

static int
search(struct fy_algo *algo)
{
    int64_t width = algo->n < WIDEST ? algo->n : WIDEST;

    if (!fy_algo_is_regular(algo) || !are_pivots(algo)) {
        return FY_ERR_UNSUPPORTED;
    }
    if (algo->planner->options.random) {
        return search_randomly(algo, width);
    }
    /* Some panels, so that results go out while others are computed. */
    while (width > 256 && 4 * width > algo->n) {
        width = (width + 1) / 2;
    }
    for (int count = SPARE_PANELS; count > 0; count--) {
        for (int64_t half = width; half > 0; half /= 2) {
            const int64_t w = half >= 64 ? half / 16 * 16 : half;
            if (!fits(algo, w, count)) {
                continue;
            }
            const uint32_t panels = (uint32_t)((algo->n + w - 1) / w);
            int status = fy_cuts_even(algo->n, panels, w >= 64 ? 16 : 1,
                                      &algo->cuts[COLUMNS]);
            return status ? status : finish_cuts(algo);
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

const struct fy_algo_row fy_algo_inverse[] = {
    {.name = "getri",
     .signature = "nA1BwWi",
     .using = {"gemm", "getrs"},
     .setup = setup,
     .program = program,
     .bound = bound,
     .search = search,
     .diagonal = FY_RESULT_FINITE},
    {NULL},
};
