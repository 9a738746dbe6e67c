/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The generic planner: knows an operand only by the axes it spans. Cuts the
 * axes that may be cut, walks the chunks in a snake so that neighbours share
 * tiles, and takes the shape and order that move least (search.c).
 */
#include "config.h"

#include "pager/plan/axes.h"

#include "pager/plan/device_call.h"

#include <stdlib.h>
#include <string.h>

static const struct fy_axis *
axis_rows(const struct fy_bound *bound)
{
    return FY_OF(bound, fy_axis, axes);
}

/* How often an operand spans an axis. */
static unsigned
spans(const struct fy_operand *operand, unsigned axis)
{
    unsigned count = 0;
    for (unsigned k = 0; k < operand->naxes; k++) {
        count += operand->axes[k].axis == axis;
    }
    return count;
}

/* A lone status integer, no field: every chunk may write it. */
static bool
is_status(const struct fy_bound *bound, const struct fy_operand *operand,
          const struct fy_view *view)
{
    const struct fy_cell *cells = FY_OF(bound, fy_cell, cells);

    return view->access == FY_ACCESS_OUT && fy_view_all_elements(view) == 1 &&
           cells[operand->base].kind != FY_CELL_ADDRESS &&
           operand->element <= FY_T_INTEGER && operand->element > FY_T_CHAR;
}

static bool
replaceable(const struct fy_planner *planner, uint32_t cell)
{
    const struct fy_bound *bound = planner->bound;
    const struct fy_cell *rows = FY_OF(bound, fy_cell, cells);
    return cell != FY_NIL && cell < bound->function->ncells &&
           (rows[cell].kind != FY_CELL_HANDLE || fy_plan_on_device(planner));
}

/* Whether operand o allows cuts of an axis. */
static bool
operand_allows(const struct fy_bound *bound, unsigned o, unsigned a)
{
    const struct fy_operand *operand = &FY_OF(bound, fy_operand, operands)[o];
    const struct fy_axis *axis = &axis_rows(bound)[a];
    const struct fy_view *view = &bound->views[o];
    unsigned count = spans(operand, a);

    if (view->naxes == 0) {
        return true;
    }
    if (count > 1) {
        return false;
    }
    for (unsigned k = 0; view->sign != 0 && k < 2 && k < operand->naxes; k++) {
        if (operand->axes[k].axis == a) {
            return false; /* a triangle or band is cut by algorithms only */
        }
    }
    if (!(view->access & FY_ACCESS_OUT) ||
        operand->access == FY_ACCESS_SCRATCH) {
        return true;
    }
    if (axis->sums_into == o) {
        return count == 0;
    }
    return count == 1 || is_status(bound, operand, view);
}

bool
fy_axis_uses_cell(const struct fy_bound *bound, unsigned a, uint32_t cell)
{
    const struct fy_axis *axis = &axis_rows(bound)[a];

    if (bound->axis_cell[a] == cell) {
        return true;
    }
    for (unsigned i = 0; i < FY_MAX_ALSO; i++) {
        if (axis->also[i] != FY_NIL && axis->also[i] == cell) {
            return true;
        }
    }
    return false;
}

bool
fy_axis_is_splittable(const struct fy_planner *planner, unsigned a)
{
    const struct fy_bound *bound = planner->bound;
    const struct fy_function *function = bound->function;
    const struct fy_axis *axis = &axis_rows(bound)[a];

    if (!(axis->flags & FY_AXIS_SPLIT) || bound->extents[a] < 2 ||
        !replaceable(planner, bound->axis_cell[a])) {
        return false;
    }
    for (unsigned b = 0; b < function->naxes; b++) {
        if (b != a && fy_axis_uses_cell(bound, b, bound->axis_cell[a])) {
            return false;
        }
    }
    for (unsigned i = 0; i < FY_MAX_ALSO; i++) {
        uint32_t cell = axis->also[i];
        if (cell == FY_NIL) {
            continue;
        }
        if (!replaceable(planner, cell) ||
            bound->cells[cell].kind != FY_V_INT ||
            bound->cells[cell].i != bound->extents[a]) {
            return false;
        }
        for (unsigned b = 0; b < function->naxes; b++) {
            if (b != a && fy_axis_uses_cell(bound, b, cell)) {
                return false;
            }
        }
    }
    if (function->return_type != FY_T_VOID && !(axis->flags & FY_AXIS_RETURN)) {
        return false;
    }
    if (axis->flags & FY_AXIS_RETURN &&
        (function->return_rule == FY_RETURN_PLAIN ||
         function->return_type == FY_T_C32 ||
         function->return_type == FY_T_C64)) {
        return false;
    }
    if (axis->flags & FY_AXIS_SUMS && axis->with_cell != FY_NIL &&
        !replaceable(planner, axis->with_cell)) {
        return false;
    }
    for (unsigned o = 0; o < function->noperands; o++) {
        if (!operand_allows(bound, o, a)) {
            return false;
        }
    }
    return true;
}

void
fy_shape_free(struct fy_shape *shape)
{
    for (unsigned a = 0; a < FY_MAX_AXES; a++) {
        fy_cuts_free(&shape->cuts[a]);
    }
}

uint64_t
fy_shape_steps(const struct fy_shape *shape)
{
    uint64_t steps = 1;
    for (unsigned i = 0; i < shape->norder; i++) {
        if (__builtin_mul_overflow(steps, shape->cuts[shape->order[i]].count,
                                   &steps)) {
            return UINT64_MAX;
        }
    }
    return steps;
}

/*
 * The parts of step `number' in a snake: each loop runs backwards when the
 * loops around it have made an odd number of turns.
 */
void
fy_shape_parts(const struct fy_shape *shape, uint64_t number,
               uint32_t parts[FY_MAX_AXES])
{
    uint64_t below = fy_shape_steps(shape), turns = 0;

    memset(parts, 0, sizeof(parts[0]) * FY_MAX_AXES);
    for (unsigned i = 0; i < shape->norder; i++) {
        uint32_t count = shape->cuts[shape->order[i]].count;
        below /= count;
        uint32_t digit = (uint32_t)(number / below % count);
        parts[shape->order[i]] =
            turns % 2 && !shape->straight ? count - 1 - digit : digit;
        turns = turns * count + digit;
    }
}

/* Which result tile of a sum a chunk adds to: mixed radix of its parts. */
static uint64_t
tile_number(const struct fy_bound *bound, const struct fy_shape *shape,
            unsigned o, const uint32_t *parts)
{
    const struct fy_operand *operand = &FY_OF(bound, fy_operand, operands)[o];
    uint64_t number = 0;

    for (unsigned k = 0; k < operand->naxes; k++) {
        unsigned a = operand->axes[k].axis;
        if (shape->cuts[a].count > 1) {
            number = number * shape->cuts[a].count + parts[a];
        }
    }
    return number;
}

/* Which sums have already written their tile: bytes by operand and tile, which the
 * caller frees. */
static int
visited_new(const struct fy_bound *bound, const struct fy_shape *shape,
            unsigned char *seen[FY_MAX_OPERANDS])
{
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the caller frees them */
    for (unsigned a = 0; a < bound->function->naxes; a++) {
        uint32_t o = axis_rows(bound)[a].sums_into;
        uint64_t tiles = 1;
        if (o >= bound->function->noperands || seen[o]) {
            continue;
        }
        for (unsigned k = 0; k < FY_OF(bound, fy_operand, operands)[o].naxes;
             k++) {
            uint32_t b = FY_OF(bound, fy_operand, operands)[o].axes[k].axis;
            if (shape->cuts[b].count > 1) {
                tiles *= shape->cuts[b].count;
            }
        }
        seen[o] = calloc(tiles, 1);
        if (!seen[o]) {
            return FY_ERR_NOMEM;
        }
    }
    return FY_OK;
}

static void
fill_chunk(const struct fy_bound *bound, const struct fy_shape *shape,
           const uint32_t *parts, unsigned char *const *seen,
           struct fy_chunk *chunk)
{
    memset(chunk, 0, sizeof(*chunk));
    for (unsigned a = 0; a < bound->function->naxes; a++) {
        const struct fy_cuts *cuts = &shape->cuts[a];
        chunk->n[a] = bound->extents[a];
        if (cuts->count > 1) {
            chunk->lo[a] = cuts->start[parts[a]];
            chunk->n[a] = fy_cuts_length(cuts, parts[a]);
        }
    }
    for (unsigned a = 0; a < bound->function->naxes; a++) {
        const struct fy_axis *axis = &axis_rows(bound)[a];
        if (!(axis->flags & FY_AXIS_SUMS) ||
            axis->sums_into >= bound->function->noperands ||
            shape->cuts[a].count < 2) {
            continue;
        }
        uint64_t tile = tile_number(bound, shape, axis->sums_into, parts);
        if (axis->with_cell != FY_NIL && seen[axis->sums_into][tile]) {
            chunk->later |= 1u << a;
        }
    }
    for (unsigned a = 0; a < bound->function->naxes; a++) {
        uint32_t o = axis_rows(bound)[a].sums_into;
        if (o < bound->function->noperands) {
            seen[o][tile_number(bound, shape, o, parts)] = 1;
        }
    }
}

/* Variants made so far, by chunk shape. */
struct known {
    struct {
        int64_t n[FY_MAX_AXES];
        uint32_t later;
    } * rows;
    uint32_t count, room;
};

static int
find_variant(struct fy_planner *planner, struct known *known,
             const struct fy_chunk *chunk, uint32_t *out)
{
    size_t bytes = sizeof(chunk->n[0]) * planner->bound->function->naxes;
    struct fy_variant *variant;
    int status;

    for (uint32_t i = known->count; i-- > 0;) {
        if (known->rows[i].later == chunk->later &&
            memcmp(known->rows[i].n, chunk->n, bytes) == 0) {
            *out = i;
            return FY_OK;
        }
    }
    if (known->count == known->room) {
        uint32_t room = known->room ? 2 * known->room : 16;
        void *rows = realloc(known->rows, room * sizeof(known->rows[0]));
        if (!rows) {
            return FY_ERR_NOMEM;
        }
        known->rows = rows;
        known->room = room;
    }
    status = fy_chunk_call_self(planner, chunk, &variant);
    if (status) {
        return status;
    }
    status = fy_planner_add_variant(planner, variant, out);
    if (status) {
        return status;
    }
    memcpy(known->rows[known->count].n, chunk->n, sizeof(chunk->n));
    known->rows[known->count++].later = chunk->later;
    return FY_OK;
}

static int
add_chunk(struct fy_planner *planner, struct known *known,
          const struct fy_chunk *chunk)
{
    int64_t lo[FY_MAX_OPERANDS][FY_MAX_OPERAND_AXES] = {{0}};
    uint32_t number;
    int status = find_variant(planner, known, chunk, &number);

    if (status) {
        return status;
    }
    const struct fy_variant *variant = planner->variants[number];
    for (unsigned i = 0; i < variant->ntiles; i++) {
        const struct fy_operand *operand = &FY_OF(
            planner->bound, fy_operand, operands)[variant->tiles[i].view];
        for (unsigned k = 0; k < operand->naxes; k++) {
            lo[i][k] = chunk->lo[operand->axes[k].axis];
        }
    }
    return fy_planner_add_step(planner, number, lo);
}

int
fy_plan_shape(struct fy_planner *planner, const struct fy_shape *shape)
{
    const struct fy_bound *bound = planner->bound;
    uint64_t steps = fy_shape_steps(shape);
    unsigned char *seen[FY_MAX_OPERANDS] = {NULL};
    struct known known = {0};
    int status;

    if (steps > FY_DEFAULT_MAX_STEPS) {
        return FY_ERR_NOFIT;
    }
    status =
        fy_planner_views(planner, bound->views, bound->function->noperands);
    if (status) {
        return status;
    }
    status = visited_new(bound, shape, seen);
    for (uint64_t i = 0; status == FY_OK && i < steps; i++) {
        uint32_t parts[FY_MAX_AXES];
        struct fy_chunk chunk;
        fy_shape_parts(shape, i, parts);
        fill_chunk(bound, shape, parts, seen, &chunk);
        status = add_chunk(planner, &known, &chunk);
    }
    for (unsigned o = 0; o < FY_MAX_OPERANDS; o++) {
        free(seen[o]);
    }
    free(known.rows);
    if (status == FY_OK) {
        status = fy_planner_finish(planner);
    }
    if (status == FY_OK) {
        planner->plan.method = steps == 1 ? "whole" : "axes";
    }
    return status;
}

int
fy_plan_whole(struct fy_planner *planner)
{
    const struct fy_shape whole = {.norder = 0};
    return fy_plan_shape(planner, &whole);
}

static bool
axis_sums(const struct fy_bound *bound, unsigned a)
{
    return (axis_rows(bound)[a].flags & (FY_AXIS_SUMS | FY_AXIS_RETURN)) != 0;
}

/*
 * Where the random numbers of an axis start. Never how many calls came before:
 * a program may rely on equal calls giving equal results. And for an axis that
 * sums only its own extent: what an element is the sum of is then added in the
 * same order whatever the other extents are (LAPACK's testers compare such).
 */
static uint64_t
axis_seed(const struct fy_planner *planner, unsigned a)
{
    const struct fy_bound *bound = planner->bound;
    uint64_t state = planner->options.seed;

    state = fy_random(&state) + a;
    for (unsigned b = 0; b < bound->function->naxes; b++) {
        if (b == a || !axis_sums(bound, a)) {
            state = fy_random(&state) + (uint64_t)bound->extents[b];
        }
    }
    return state;
}

static int
axes_random(struct fy_planner *planner, uint64_t *state, int64_t *largest,
            uint32_t most)
{
    const struct fy_bound *bound = planner->bound;
    const struct fy_axis *axes = axis_rows(bound);
    uint64_t seed = planner->options.seed;
    struct fy_shape shape = {.straight = fy_random_below(&seed, 2) != 0};
    int status = FY_OK;

    /* Those that sum first: `most' then depends on none of the others. */
    const unsigned naxes = bound->function->naxes;
    for (unsigned i = 0; status == FY_OK && i < 2 * naxes; i++) {
        /* NOLINTNEXTLINE(clang-analyzer-core.DivideZero): then no rounds */
        const unsigned a = i % naxes;
        if (!fy_axis_is_splittable(planner, a) ||
            axis_sums(bound, a) != (i < naxes) ||
            (planner->options.axes && !(planner->options.axes >> a & 1))) {
            continue;
        }
        uint64_t own = axis_seed(planner, a);
        status = fy_cuts_random(bound->extents[a], largest[a], most,
                                axes[a].multiple ? axes[a].multiple : 1, &own,
                                &shape.cuts[a]);
        if (status) {
            break;
        }
        most = most / shape.cuts[a].count + 1;
        /* A random place in the order of loops. */
        unsigned at = (unsigned)fy_random_below(state, shape.norder + 1u);
        memmove(&shape.order[at + 1], &shape.order[at], shape.norder - at);
        shape.order[at] = (uint8_t)a;
        shape.norder++;
    }
    if (status == FY_OK) {
        status = fy_plan_shape(planner, &shape);
    }
    fy_shape_free(&shape);
    return status;
}

/* Random parts; smaller ones until a step fits. */
static int
plan_random(struct fy_planner *planner)
{
    const struct fy_bound *bound = planner->bound;
    uint64_t state = planner->options.seed;
    int64_t largest[FY_MAX_AXES] = {0};
    /* Each further axis may double them, see axes_random(). */
    uint32_t most =
        planner->options.max_steps ? planner->options.max_steps / 4 + 1 : 400;
    bool smaller = true;
    int status = FY_ERR_NOFIT;

    for (unsigned a = 0; a < bound->function->naxes; a++) {
        uint64_t extent = (uint64_t)bound->extents[a];
        uint64_t own = axis_seed(planner, a) + 1;
        state += own;
        switch (fy_random_below(&own, 4)) {
        case 0:
            largest[a] = (int64_t)extent;
            break;
        case 1:
            largest[a] = 1;
            break;
        default:
            largest[a] = 1 + (int64_t)fy_random_below(&own, extent);
            break;
        }
        if (planner->options.axes) { /* in two at least */
            largest[a] = bound->extents[a] > 1 ? bound->extents[a] / 2 : 1;
        }
    }
    while (status == FY_ERR_NOFIT && smaller) {
        fy_planner_reset(planner);
        status = axes_random(planner, &state, largest, most);
        unsigned widest = 0;
        smaller = false;
        most = most < FY_DEFAULT_MAX_STEPS ? 2 * most : most;
        for (unsigned a = 0; a < bound->function->naxes; a++) {
            if (fy_axis_is_splittable(planner, a) &&
                (!smaller || largest[a] > largest[widest])) {
                widest = a;
                smaller = largest[a] > 1;
            }
        }
        if (smaller) {
            largest[widest] /= 2;
        }
    }
    return status;
}

int
fy_plan_axes(struct fy_planner *planner)
{
    return planner->options.random ? plan_random(planner)
                                   : fy_plan_search(planner);
}
