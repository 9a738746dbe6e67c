/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Factorisations by panels of full height (LU, QR), left-looking: panels of one
 * width, as many at a time on the device as fit beside the finished ones, which
 * stream past and are applied to them. Sizes; the loop is in nest_panels.c.
 */
#include "config.h"

#include "pager/blocked/algo.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What belongs to the columns of each panel, as far as it goes. */
static int
cut_factors(struct fy_algo *algo)
{
    const struct fy_cuts *columns = &algo->cuts[FY_PANEL_COLUMNS];
    struct fy_cuts *factors = &algo->cuts[FY_PANEL_FACTORS];
    const int64_t extent = algo->extent[FY_PANEL_FACTORS];

    fy_cuts_free(factors);
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

/* Panels of that width, macro-blocks of as many as fit beside two more. */
static int
cut(struct fy_algo *algo, int64_t panel)
{
    double room = algo->room / (double)algo->m / (double)panel;
    int status = FY_OK;

    for (unsigned d = 0; d < FY_MAX_DIMENSIONS; d++) {
        int64_t extent = algo->extent[d];
        int64_t side = d == FY_PANEL_ROWS || d == FY_PANEL_ONE ? extent : panel;
        fy_cuts_free(&algo->cuts[d]);
        if (status || extent < 1 || d == FY_PANEL_FACTORS) {
            continue;
        }
        const int64_t count = (extent + side - 1) / side;
        status = count > FY_MAX_BLOCK_STEPS
                     ? FY_ERR_NOFIT
                     : fy_cuts_even(extent, (uint32_t)count,
                                    side >= 64 ? 16 : 1, &algo->cuts[d]);
    }
    algo->macro_cols = room > 4 ? (uint32_t)(room - 2.5) : 1;
    return status ? status : cut_factors(algo);
}

static int
cut_randomly(struct fy_algo *algo, int64_t largest, uint32_t most,
             uint64_t *state)
{
    int status = cut(algo, algo->n);

    for (unsigned d = FY_PANEL_COLUMNS; status == FY_OK && d <= FY_PANEL_SIDES;
         d++) {
        fy_cuts_free(&algo->cuts[d]);
        if (algo->extent[d] > 0) {
            status = fy_cuts_random(algo->extent[d], largest, most, 1, state,
                                    &algo->cuts[d]);
        }
    }
    algo->macro_cols = 1 + (uint32_t)fy_random_below(state, 3);
    return status ? status : cut_factors(algo);
}

static int
search_randomly(struct fy_algo *algo)
{
    uint64_t state = algo->planner->options.seed + (uint64_t)algo->n;
    int64_t largest = 1 + (int64_t)fy_random_below(&state, (uint64_t)algo->n);
    int status = FY_ERR_NOFIT;

    for (unsigned round = 0; round < 16 && status == FY_ERR_NOFIT; round++) {
        status = cut_randomly(algo, largest, 12u << round, &state);
        if (status == FY_OK) {
            status = fy_algo_generate(algo);
        }
        largest = largest / 2 + 1;
        if (round > 8) {
            largest = 1; /* nothing less will do, either */
        }
    }
    return status;
}

/* The plan for panels of that width. */
static int
make(struct fy_algo *algo, int64_t panel)
{
    int status = cut(algo, panel);

    return status ? status : fy_algo_generate(algo);
}

int
fy_algo_panels(struct fy_algo *algo)
{
    static const double parts[] = {8, 5, 12, 20, 3.5};
    enum {
        COUNT = sizeof(parts) / sizeof(parts[0])
    };
    const double widest = algo->room / (double)algo->m;
    int64_t panels[COUNT];

    if (algo->planner->options.random) {
        return search_randomly(algo);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        panels[i] = (int64_t)fmin(widest / parts[i], (double)algo->n);
    }
    return fy_algo_cheapest(algo, panels, COUNT, make);
}
