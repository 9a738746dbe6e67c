/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Algorithms with tiles beside the matrix (trtri, potri in blocked.ferry). Devices have
 * no function for a lone triangle: a block on the diagonal is solved for from the
 * identity, in a tile beside the matrix.
 */
#include "config.h"

#include "pager/blocked/nest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    N_CUTS,
    UNIT /* both sides of the plan's own matrices */
};
enum {
    WIDEST = 2048, /* of blocks: the plan's own matrices are as large */
    ENOUGH = 256,
    SPARE_TILES = 4
};
int
fy_tiles_setup(struct fy_algo *algo)
{
    struct fy_matrix *copy = &algo->matrices[1], *unit = &algo->matrices[3];

    if (algo->diag == 'U' && algo->n == 1) {
        return FY_ERR_UNSUPPORTED; /* nothing is accessed */
    }
    copy->row_cuts = copy->col_cuts = UNIT;
    copy->access = FY_ACCESS_INOUT;
    unit->row_cuts = unit->col_cuts = UNIT;
    unit->access = FY_ACCESS_IN;
    return FY_OK;
}

/* ---- sizes ---- */

/* The identity as large as the widest block, and a matrix beside it. */
static int
make_own(struct fy_algo *algo)
{
    const int64_t side = fy_cuts_longest(&algo->cuts[N_CUTS]);
    struct fy_matrix *copy = &algo->matrices[1], *unit = &algo->matrices[3];
    struct fy_planner *planner = algo->planner;
    const size_t bytes = algo->element_bytes;
    const size_t elements = (size_t)side * (size_t)side;
    const struct fy_value one = {.kind = FY_V_COMPLEX, .r = 1};
    union fy_raw raw;

    free(planner->factors);
    planner->factors = calloc(2 * elements, bytes);
    if (!planner->factors) {
        return FY_ERR_NOMEM;
    }
    copy->host = planner->factors;
    unit->host = copy->host + elements * bytes;
    copy->rows = copy->cols = copy->ld = side;
    unit->rows = unit->cols = unit->ld = side;
    algo->extent[UNIT] = side;
    memset(&raw, 0, sizeof(raw));
    fy_raw_store((enum fy_type)algo->element, &one, &raw);
    for (size_t i = 0; i < (size_t)side; i++) {
        memcpy(unit->host + i * ((size_t)side + 1) * bytes, &raw, bytes);
    }
    fy_cuts_free(&algo->cuts[UNIT]);
    return fy_cuts_even(side, 1, 1, &algo->cuts[UNIT]);
}

/* The plan for the blocks that are cut. */
static int
generate(struct fy_algo *algo)
{
    int status = make_own(algo);

    return status ? status : fy_algo_generate(algo);
}

static int
cut(struct fy_algo *algo, int64_t side)
{
    const double tiles = algo->room / (double)side / (double)side;
    const double macro = sqrt(tiles + 1 - SPARE_TILES) - 1;
    const int64_t count = (algo->n + side - 1) / side;

    fy_cuts_free(&algo->cuts[N_CUTS]);
    if (count > FY_MAX_BLOCK_STEPS) {
        return FY_ERR_NOFIT;
    }
    /* s^2 blocks, as many operands twice over, and what is its own. */
    algo->macro_rows = macro >= (double)count ? (uint32_t)count
                       : macro > 1            ? (uint32_t)macro
                                              : 1;
    algo->macro_cols = algo->macro_rows;
    return fy_cuts_even(algo->n, (uint32_t)count, side >= 64 ? 16 : 1,
                        &algo->cuts[N_CUTS]);
}

static int
search_randomly(struct fy_algo *algo)
{
    uint64_t state = algo->planner->options.seed + (uint64_t)algo->n;
    int64_t largest = 1 + (int64_t)fy_random_below(&state, (uint64_t)algo->n);
    int status = FY_ERR_NOFIT;

    for (unsigned round = 0; round < 16 && status == FY_ERR_NOFIT; round++) {
        fy_cuts_free(&algo->cuts[N_CUTS]);
        status = fy_cuts_random(algo->n, largest, 8u << (round / 2), 1, &state,
                                &algo->cuts[N_CUTS]);
        algo->macro_rows = 1 + (uint32_t)fy_random_below(&state, 4);
        algo->macro_cols = algo->macro_rows;
        if (status == FY_OK) {
            status = generate(algo);
        }
        largest = round > 10 ? 1 : largest * 2 / 3 + 1;
    }
    return status;
}

/* The plan for blocks of that side. */
static int
make(struct fy_algo *algo, int64_t side)
{
    int status = cut(algo, side);

    return status ? status : generate(algo);
}

static int
search_evenly(struct fy_algo *algo)
{
    /* Blocks that fill the device. */
    static const double parts[] = {4, 8, 16, 30, 60, 120};
    enum {
        COUNT = sizeof(parts) / sizeof(parts[0])
    };
    int64_t sides[COUNT];
    int64_t most = algo->n / 4 > ENOUGH ? algo->n / 4 : ENOUGH;

    most = most < WIDEST ? most : WIDEST;
    most = most < algo->n ? most : algo->n;
    for (unsigned i = 0; i < COUNT; i++) {
        const double side = fmin(sqrt(algo->room / parts[i]), (double)most);
        sides[i] =
            (int64_t)side >= 64 ? (int64_t)side / 16 * 16 : (int64_t)side;
    }
    return fy_algo_cheapest(algo, sides, COUNT, make);
}

int
fy_tiles_search(struct fy_algo *algo)
{
    if (!fy_algo_is_regular(algo)) {
        return FY_ERR_UNSUPPORTED;
    }
    return algo->planner->options.random ? search_randomly(algo)
                                         : search_evenly(algo);
}
