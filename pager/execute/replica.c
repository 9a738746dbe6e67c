/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds the replica table of a schedule: resolves tiles to replicas, computes
 * their geometry with overflow checks, and links every use to the next one,
 * which is what eviction by the known future needs.
 */
#include "config.h"

#include "pager/execute/replica.h"

#include <stdlib.h>
#include <string.h>

#include "pager/execute/executor.h"

enum {
    ALIGN = 256
};

/* The tile's elements as they lie on the device; its bytes from the lowest to behind
 * the highest, and from the lowest to element (0, 0, ..). False on overflow. */
static bool
device_span(const struct fy_tile *tile, uint32_t element_bytes,
            uint64_t *span_bytes, uint64_t *origin_bytes)
{
    struct fy_view v = {.element_bytes = element_bytes, .naxes = tile->naxes};
    int64_t low, high;
    memcpy(v.extent, tile->n, sizeof v.extent);
    memcpy(v.stride, tile->device_stride, sizeof v.stride);
    if (!fy_view_span(&v, &low, &high) || high > INT64_MAX / 2 + low) {
        return false;
    }
    *span_bytes = (uint64_t)(high - low);
    *origin_bytes = (uint64_t)-low;
    return true;
}

uint64_t
fy_tile_device_bytes(const struct fy_view *view, const struct fy_tile *tile)
{
    uint64_t span, origin;
    if (!device_span(tile, view->element_bytes, &span, &origin)) {
        return UINT64_MAX;
    }
    return (span + ALIGN - 1) / ALIGN * ALIGN;
}

/* The box lies in the view, and what it does is allowed there. */
static bool
tile_is_sound(const struct fy_tile *tile, const struct fy_view *view)
{
    if (tile->naxes != view->naxes || tile->naxes < 1 ||
        tile->naxes > FY_MAX_OPERAND_AXES || view->element_bytes == 0) {
        return false;
    }
    if (view->sign != 0 && view->naxes < 2) {
        return false;
    }
    for (int k = 0; k < tile->naxes; k++) {
        if (tile->lo[k] < 0 || tile->n[k] < 1 || tile->n[k] > view->extent[k] ||
            tile->lo[k] > view->extent[k] - tile->n[k]) {
            return false;
        }
    }
    if (view->access == FY_ACCESS_SCRATCH ||
        tile->access == FY_ACCESS_SCRATCH) {
        return true;
    }
    return (tile->access & FY_ACCESS_OUT) == 0 ||
           (view->access & FY_ACCESS_OUT) != 0;
}

static int
describe(struct fy_replica *r, const struct fy_tile *tile,
         const struct fy_view *view)
{
    int64_t low, high;
    if (!fy_view_span(view, &low, &high) ||
        !device_span(tile, view->element_bytes, &r->buffer_bytes,
                     &r->origin_bytes)) {
        return FY_ERR_OVERFLOW;
    }
    fy_view_part(view, tile->lo, tile->n, &r->copy.view);
    memcpy(r->copy.device_stride, tile->device_stride,
           sizeof r->copy.device_stride);
    r->elements_bytes =
        fy_view_all_elements(&r->copy.view) * view->element_bytes;
    r->scratch =
        view->access == FY_ACCESS_SCRATCH || tile->access == FY_ACCESS_SCRATCH;
    r->next_use = FY_NIL;
    return 0;
}

/* Returns true if a tile has the extents and the layout of the replica. */
static bool
is_same(const struct fy_replica *r, const struct fy_tile *tile)
{
    for (int k = 0; k < tile->naxes; k++) {
        if (tile->n[k] != r->copy.view.extent[k] ||
            (tile->n[k] > 1 &&
             tile->device_stride[k] != r->copy.device_stride[k])) {
            return false;
        }
    }
    return true;
}

int
fy_replica_find(struct fy_replica_table *table, const struct fy_tile *tile,
                const struct fy_view *view, struct fy_replica **out)
{
    struct fy_replica *r, probe;
    memset(&probe.key, 0, sizeof probe.key);
    probe.key.view = tile->view;
    probe.key.naxes = tile->naxes;
    memcpy(probe.key.lo, tile->lo, sizeof tile->lo[0] * tile->naxes);
    HASH_FIND(hh, table->by_place, &probe.key, sizeof probe.key, r);
    if (r) {
        *out = r;
        return is_same(r, tile) ? 0 : FY_ERR_INVALID;
    }
    r = table->spare;
    if (r) {
        table->spare = r->after;
    } else if (!(r = malloc(sizeof *r))) {
        return FY_ERR_NOMEM;
    }
    memset(r, 0, sizeof *r);
    r->key = probe.key;
    r->number = HASH_COUNT(table->by_place);
    int status = describe(r, tile, view);
    if (status == 0) {
        HASH_ADD(hh, table->by_place, key, sizeof r->key, r);
        if (!r->hh.tbl) {
            status = FY_ERR_NOMEM;
        }
    }
    if (status != 0) {
        free(r);
        return status;
    }
    *out = r;
    return 0;
}

/* Old host content matters when the call may read it before it writes it. */
static void
note_access(struct fy_replica *r, const struct fy_tile *tile,
            const struct fy_view *view, uint32_t step)
{
    if (r->scratch) {
        return;
    }
    if (!r->used) {
        r->first_use = step;
    }
    r->used = true;
    if (view->temporary) {
        /* old_matters stays false */
    } else if (view->access == FY_ACCESS_INOUT ||
               (r->first_use == step && (tile->access & FY_ACCESS_IN) != 0)) {
        r->old_matters = true;
    }
    if ((tile->access & FY_ACCESS_OUT) != 0) {
        r->written = true;
    }
}

static int
resolve_rows(struct fy_replica_table *table, const struct fy_schedule *s)
{
    for (uint32_t i = 0; i < s->nsteps; i++) {
        const struct fy_step *step = &s->steps[i];
        if (step->tiles > s->ntiles || step->ntiles > s->ntiles - step->tiles) {
            return FY_ERR_INVALID;
        }
        for (uint32_t row = step->tiles; row < step->tiles + step->ntiles;
             row++) {
            const struct fy_tile *tile = &s->tiles[row];
            if (tile->view >= s->nviews ||
                !tile_is_sound(tile, &s->views[tile->view])) {
                return FY_ERR_INVALID;
            }
            struct fy_replica *r;
            const struct fy_view *view = &s->views[tile->view];
            int status = fy_replica_find(table, tile, view, &r);
            if (status != 0) {
                return status;
            }
            note_access(r, tile, view, i);
            table->uses[row].replica = r;
        }
    }
    return 0;
}

/* Backwards, so that next_use ends as each replica's first use. */
static void
link_uses(struct fy_replica_table *table, const struct fy_schedule *s)
{
    for (uint32_t i = s->nsteps; i-- > 0;) {
        const struct fy_step *step = &s->steps[i];
        struct fy_use *uses = table->uses + step->tiles;
        for (uint32_t k = 0; k < step->ntiles; k++) {
            uses[k].next = uses[k].replica->next_use;
            uses[k].final = !uses[k].replica->rewritten;
        }
        for (uint32_t k = 0; k < step->ntiles; k++) {
            uses[k].replica->next_use = i;
            if ((s->tiles[step->tiles + k].access &
                 (FY_ACCESS_OUT | FY_ACCESS_RESTORED)) != 0) {
                uses[k].replica->rewritten = true;
            }
        }
    }
}

int
fy_replica_build(struct fy_replica_table *table, const struct fy_schedule *s)
{
    if (s->ntiles > table->capacity) {
        struct fy_use *uses = calloc(s->ntiles, sizeof *uses);
        if (!uses) {
            return FY_ERR_NOMEM;
        }
        free(table->uses);
        table->uses = uses;
        table->capacity = s->ntiles;
    }
    int status = resolve_rows(table, s);
    if (status != 0) {
        fy_replica_reset(table);
        return status;
    }
    link_uses(table, s);
    return 0;
}

void
fy_replica_reset(struct fy_replica_table *table)
{
    struct fy_replica *r, *next;
    HASH_ITER (hh, table->by_place, r, next) {
        r->after = table->spare;
        table->spare = r;
    }
    HASH_CLEAR(hh, table->by_place);
}

void
fy_replica_table_free(struct fy_replica_table *table)
{
    fy_replica_reset(table);
    while (table->spare) {
        struct fy_replica *next = table->spare->after;
        free(table->spare);
        table->spare = next;
    }
    free(table->uses);
    table->uses = NULL;
    table->capacity = 0;
}
