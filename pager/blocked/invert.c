/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Algorithms with tiles beside the matrix (trtri, potri in blocked.ferry). Devices have
 * no function for a lone triangle: a block on the diagonal is solved for from the
 * identity, in a tile beside the matrix.
 */
#include "config.h"

#include "pager/blocked/nest.h"

#include <math.h>

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

/* s^2 blocks, as many operands twice over, and what is its own. */
static uint32_t
fitting(const struct fy_algo *algo, double side)
{
    const double tiles = algo->room / side / side;
    const double macro = sqrt(tiles + 1 - SPARE_TILES) - 1;
    const double count = ceil((double)algo->n / side);

    return macro >= count ? (uint32_t)count : macro > 1 ? (uint32_t)macro : 1;
}

static int
make_own(struct fy_algo *algo)
{
    return fy_algo_identity(algo, UNIT, true);
}

static int
search(struct fy_algo *algo)
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
    return fy_algo_cheapest(algo, sides, COUNT);
}

const struct fy_algo_sizes fy_tiles_sizes = {
    .free = 1u << N_CUTS,
    .macro = fitting,
    .beside = make_own,
    .search = search,
};
