/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan under construction: variants, steps, tiles and the registry that
 * keeps the executor's contract (tiles are equal or disjoint, one layout per
 * tile).
 */
#include "config.h"

#include "pager/plan/build.h"

#include <stdlib.h>
#include <string.h>

#include "pager/execute/executor.h"

void
fy_variant_free(struct fy_variant *variant)
{
    while (variant) {
        struct fy_variant *next = variant->then;
        free(variant);
        variant = next;
    }
}

void
fy_variant_add_lengths(struct fy_variant *variant, const struct fy_arg *args,
                       unsigned nargs)
{
    for (unsigned i = 0; i < nargs; i++) {
        if (args[i].flags & FY_ARG_HIDDEN_LENGTH) {
            variant->slots[variant->nslots++] = (struct fy_slot){
                .kind = FY_SLOT_VALUE, .type = FY_T_U64, .value.u = {1}};
        }
    }
}

void
fy_planner_reset(struct fy_planner *planner)
{
    struct fy_step_memory *memory, *next_memory;

    fy_replica_table_free(&planner->tiles);
    for (memory = planner->step_memory; memory; memory = next_memory) {
        next_memory = memory->next;
        free(memory);
    }
    fy_planner_let_go(planner);
    for (uint32_t i = 0; i < planner->nvariants; i++) {
        fy_variant_free(planner->variants[i]);
    }
    free(planner->variants);
    free(planner->views);
    free(planner->plan.schedule.tiles);
    free(planner->plan.schedule.steps);
    free(planner->results);
    free(planner->infos);
    fy_cuts_free(&planner->pivot_panels);
    *planner = (struct fy_planner){
        .plan.schedule = {.launch = fy_plan_launch,
                          .planner = planner,
                          .accept = fy_plan_accept},
        .bound = planner->bound,
        .target = planner->target,
        .options = planner->options,
        .workspace = planner->workspace,
        .factors = planner->factors,
    };
}

/* Doubles `*rows' when `used' rows fill it. */
static int
grow(void **rows, uint32_t *room, uint32_t used, size_t row_bytes)
{
    if (used < *room) {
        return FY_OK;
    }
    uint32_t more = *room ? *room * 2 : 16;
    if (more < *room || more > UINT32_MAX / 2) {
        return FY_ERR_OVERFLOW;
    }
    void *moved = realloc(*rows, (size_t)more * row_bytes);
    if (!moved) {
        return FY_ERR_NOMEM;
    }
    *rows = moved;
    *room = more;
    return FY_OK;
}

int
fy_planner_views(struct fy_planner *planner, const struct fy_view *views,
                 uint32_t count)
{
    planner->views = malloc(sizeof(*views) * (count ? count : 1));
    if (!planner->views) {
        return FY_ERR_NOMEM;
    }
    memcpy(planner->views, views, sizeof(*views) * count);
    planner->nviews = count;
    planner->plan.schedule.views = planner->views;
    planner->plan.schedule.nviews = count;
    return FY_OK;
}

int
fy_planner_add_variant(struct fy_planner *planner, struct fy_variant *variant,
                       uint32_t *out)
{
    void *rows = planner->variants;
    int status = grow(&rows, &planner->variant_room, planner->nvariants,
                      sizeof(variant));
    planner->variants = rows;
    if (status) {
        fy_variant_free(variant);
        return status;
    }
    if (variant->transform.kind) { /* cuFFT wants real numbers so, too */
        struct fy_schedule *s = &planner->plan.schedule;
        s->align_bytes = variant->transform.is_double ? 16 : 8;
        s->spoils = s->spoils || variant->transform.kind == FY_TRANSFORM_C2R;
    }
    planner->variants[planner->nvariants] = variant;
    *out = planner->nvariants++;
    return FY_OK;
}

/* Notes a tile. FY_ERR_UNSUPPORTED: an equal one had another layout. */
static int
register_tile(struct fy_planner *planner, struct fy_tile *tile)
{
    struct fy_replica *known;
    int status = fy_replica_find(&planner->tiles, tile,
                                 &planner->views[tile->view], &known);

    if (status) {
        return status == FY_ERR_INVALID ? FY_ERR_UNSUPPORTED : status;
    }
    memcpy(tile->device_stride, known->copy.device_stride,
           sizeof(tile->device_stride));
    return FY_OK;
}

int
fy_planner_add_step(struct fy_planner *planner, uint32_t variant,
                    const int64_t (*lo)[FY_MAX_OPERAND_AXES])
{
    struct fy_schedule *schedule = &planner->plan.schedule;
    const struct fy_variant *row = planner->variants[variant];
    uint64_t device_bytes = 0;
    uint32_t limit = planner->options.max_steps ? planner->options.max_steps
                                                : FY_DEFAULT_MAX_STEPS;
    void *rows = schedule->steps;
    int status;

    if (schedule->nsteps >= limit) {
        return FY_ERR_UNSUPPORTED;
    }
    status = grow(&rows, &planner->step_room, schedule->nsteps,
                  sizeof(*schedule->steps));
    schedule->steps = rows;
    if (status) {
        return status;
    }
    struct fy_step *step = &schedule->steps[schedule->nsteps];
    *step = (struct fy_step){
        .tiles = schedule->ntiles, .ntiles = row->ntiles, .tag = variant};
    for (unsigned i = 0; i < row->ntiles; i++) {
        rows = schedule->tiles;
        status = grow(&rows, &planner->tile_room, schedule->ntiles,
                      sizeof(*schedule->tiles));
        schedule->tiles = rows;
        if (status) {
            return status;
        }
        struct fy_tile *tile = &schedule->tiles[schedule->ntiles];
        *tile = row->tiles[i];
        memcpy(tile->lo, lo[i], sizeof(tile->lo[0]) * tile->naxes);
        status = register_tile(planner, tile);
        if (status) {
            return status;
        }
        device_bytes += fy_tile_device_bytes(&planner->views[tile->view], tile);
        schedule->ntiles++;
    }
    if (device_bytes > planner->options.budget_bytes) {
        return FY_ERR_NOFIT;
    }
    planner->plan.touched_bytes += (double)device_bytes;
    schedule->nsteps++;
    return FY_OK;
}

int
fy_planner_finish(struct fy_planner *planner)
{
    planner->plan.schedule.overlaps = planner->options.overlap_bytes > 0;
    struct fy_schedule *schedule = &planner->plan.schedule;
    size_t rows = schedule->nsteps ? schedule->nsteps : 1;

    planner->results = calloc(rows, sizeof(*planner->results));
    planner->infos = calloc(rows, sizeof(*planner->infos));
    if (!planner->results || !planner->infos) {
        return FY_ERR_NOMEM;
    }
    return fy_planner_traffic(planner);
}

void
fy_plan_free(struct fy_plan *plan)
{
    struct fy_planner *planner = (struct fy_planner *)plan;

    if (!planner) {
        return;
    }
    fy_planner_reset(planner);
    free(planner->workspace);
    free(planner->factors);
    free(planner);
}
