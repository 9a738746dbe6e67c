/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transforms of several axes that are larger than the device, in passes over host
 * memory that each move every element once in and once out: the inner axes together,
 * then the others one by one, as columns. One of a single axis runs locally. A pass sees the same memory in other tiles
 * than the one before it, so that it begins when that is back (fy_step.after).
 * Only on a device with functions of its own: chunks of FFTW would need plans of
 * FFTW, whose planner other threads of the program may be in.
 */
#include "config.h"

#include "pager/blocked/fft.h"

#include "pager/plan/device_call.h"

#include <stdlib.h>
#include <string.h>

enum {
    SPARE_BUFFERS = 3, /* copied in, computed, copied out */
};

/* ---- views ---- */

static uint16_t
add_view(struct fy_passes *f, char *host, uint32_t bytes, uint8_t access,
         unsigned naxes, const int64_t *extent, const int64_t *stride)
{
    struct fy_view *view = &f->views[f->nviews];

    *view = (struct fy_view){.host = host,
                             .element_bytes = bytes,
                             .access = access,
                             .naxes = (uint8_t)naxes,
                             .lo = INT64_MIN,
                             .hi = INT64_MAX};
    for (unsigned k = 0; k < naxes; k++) {
        view->extent[k] = extent[k];
        view->stride[k] = stride[k];
    }
    return (uint16_t)f->nviews++;
}

/*
 * How a pass may access an array: what it writes first in the program's own
 * input must be undone, what a pass before it has written must not.
 */
static uint8_t
access_of(struct fy_passes *f, const char *host, bool reads, bool first)
{
    if (!first) {
        return FY_ACCESS_INOUT;
    }
    return f->in_place && host == f->x ? FY_ACCESS_INOUT
           : reads                     ? FY_ACCESS_IN
                                       : FY_ACCESS_OUT;
}

/* Elements of the last axis that a side has. */
static int64_t
last_of(const struct fy_passes *f, bool real)
{
    int64_t n = f->t.n[f->t.rank - 1];
    return real || f->t.kind == FY_TRANSFORM_C2C ? n : n / 2 + 1;
}

/* ---- sizes ---- */

/* Device bytes of one index of the axis that a pass cuts: tiles, work area. */
static void
unit_bytes(const struct fy_passes *f, const struct fy_pass *pass, double *tiles,
           double *work)
{
    const struct fy_pass_side *sides[] = {&pass->from, &pass->to};
    unsigned count = pass->from.view == pass->to.view ? 1 : 2;

    *tiles = 0;
    for (unsigned s = 0; s < count; s++) {
        const struct fy_view *view = &f->views[sides[s]->view];
        double bytes = view->element_bytes;
        for (unsigned k = 0; k < view->naxes; k++) {
            if (k != sides[s]->cut && !(k == 0 && pass->each == 0)) {
                bytes *= (double)view->extent[k];
            }
        }
        *tiles += bytes;
    }
    *work = f->bytes;
    for (unsigned i = 0; i < pass->transform.rank; i++) {
        *work *= (double)pass->transform.n[i];
    }
}

/* Cuts a pass; FY_ERR_NOFIT. */
static int
cut(struct fy_passes *f, struct fy_pass *pass)
{
    const struct fy_plan_options *options = &f->planner->options;
    double tiles, work, room;
    int64_t longest;

    unit_bytes(f, pass, &tiles, &work);
    /* Buffers are rounded up. */
    room = (double)options->budget_bytes - 4096;
    double fits = room / (SPARE_BUFFERS * tiles + work);
    if (fits < 1) {
        fits = room / (tiles + work);
    }
    if (fits < 1) {
        return FY_ERR_NOFIT;
    }
    longest = fits > (double)pass->extent ? pass->extent : (int64_t)fits;
    fy_cuts_free(&pass->cuts);
    if (options->random) {
        longest = 1 + (int64_t)fy_random_below(&f->random, (uint64_t)longest);
        return fy_cuts_random(pass->extent, longest, 64, 1, &f->random,
                              &pass->cuts);
    }
    uint64_t count = (uint64_t)((pass->extent + longest - 1) / longest);
    return count > FY_DEFAULT_MAX_STEPS
               ? FY_ERR_NOFIT
               : fy_cuts_even(pass->extent, (uint32_t)count, 1, &pass->cuts);
}

/* ---- several axes ---- */

/* Every `inner' axes of the last ones together. */
static void
rows_pass(struct fy_passes *f, unsigned inner, char *from, char *to, bool first)
{
    const struct fy_transform *t = &f->t;
    struct fy_pass *pass = &f->passes[f->npasses++];
    bool real_from = t->kind == FY_TRANSFORM_R2C;
    bool real_to = t->kind == FY_TRANSFORM_C2R;
    unsigned outer = t->rank - inner;
    uint16_t view[2];

    *pass = (struct fy_pass){.each = FY_NOT_EACH, .extent = 1};
    for (unsigned i = 0; i < outer; i++) {
        pass->extent *= t->n[i];
    }
    pass->transform.kind = t->kind;
    pass->transform.rank = (uint8_t)inner;
    memcpy(pass->transform.n, t->n + outer, inner * sizeof(t->n[0]));
    for (unsigned s = 0; s < 2; s++) {
        const struct fy_transform_side *side = s ? &t->to : &t->from;
        bool real = s ? real_to : real_from;
        int64_t extent[3] = {pass->extent}, stride[3], step = 1;
        for (unsigned i = inner; i > 0; i--) {
            unsigned axis = outer + i - 1;
            extent[i] = i == inner ? last_of(f, real) : t->n[axis];
            stride[i] = step;
            step *= axis == t->rank - 1u ? side->embed[axis] : t->n[axis];
        }
        stride[0] = step;
        view[s] =
            add_view(f, s ? to : from, real ? f->bytes / 2 : f->bytes,
                     s == 0 && to != from ? FY_ACCESS_IN
                                          : access_of(f, s ? to : from, false,
                                                      first || to != from),
                     1 + inner, extent, stride);
        f->views[view[s]].temporary = !first;
    }
    pass->from = (struct fy_pass_side){.view = view[0]};
    pass->to = (struct fy_pass_side){.view = view[1]};
    if (from == to && t->kind == FY_TRANSFORM_C2C) {
        pass->to = pass->from;
    }
}

/* One axis in front of the last, on the complex side. */
static void
columns_pass(struct fy_passes *f, unsigned axis, char *from, char *to,
             bool first)
{
    const struct fy_transform *t = &f->t;
    struct fy_pass *pass = &f->passes[f->npasses++];
    int64_t outer = 1, inner = 1;

    for (unsigned i = 0; i < t->rank; i++) {
        int64_t n = i == t->rank - 1u ? last_of(f, false) : t->n[i];
        outer *= i < axis ? n : 1;
        inner *= i > axis ? n : 1;
    }
    const int64_t extent[] = {outer, t->n[axis], inner};
    const int64_t stride[] = {t->n[axis] * inner, inner, 1};
    *pass = (struct fy_pass){.each = 0, .extent = inner};
    pass->transform.kind = FY_TRANSFORM_C2C;
    pass->transform.rank = 1;
    pass->transform.n[0] = t->n[axis];
    uint16_t a =
        add_view(f, from, f->bytes,
                 from == to ? access_of(f, from, false, first) : FY_ACCESS_IN,
                 3, extent, stride);
    f->views[a].temporary = !first;
    pass->from = (struct fy_pass_side){.view = a, .cut = 2, .columns = true};
    pass->to = pass->from;
    if (from != to) {
        pass->to.view = add_view(f, to, f->bytes, access_of(f, to, false, true),
                                 3, extent, stride);
    }
}

/* Returns true if a side is dense but for the room of its rows, `row'
 * elements. */
static bool
is_plain(const struct fy_passes *f, const struct fy_transform_side *side,
         bool real)
{
    const struct fy_transform *t = &f->t;

    for (unsigned i = 1; i + 1 < t->rank; i++) {
        if (side->embed[i] != t->n[i]) {
            return false;
        }
    }
    return side->stride == 1 && (real || t->rank == 1 ||
                                 side->embed[t->rank - 1] == last_of(f, false));
}

static int
plan_axes(struct fy_passes *f, unsigned inner)
{
    const struct fy_transform *t = &f->t;
    unsigned outer = t->rank - inner;

    f->npasses = f->nviews = 0;
    if (t->kind != FY_TRANSFORM_C2R) {
        rows_pass(f, inner, f->x, f->y, true);
        for (unsigned axis = outer; axis-- > 0;) {
            columns_pass(f, axis, f->y, f->y, false);
        }
    } else {
        char *between = f->x; /* the program's input stays as it is */
        if (!f->in_place) {
            uint64_t bytes = f->bytes;
            for (unsigned i = 0; i + 1 < t->rank; i++) {
                bytes *= (uint64_t)t->n[i];
            }
            bytes *= (uint64_t)last_of(f, false);
            between = fy_planner_hold(f->planner, bytes);
            if (!between) {
                return FY_ERR_NOMEM;
            }
        }
        for (unsigned axis = 0; axis < outer; axis++) {
            columns_pass(f, axis, axis == 0 ? f->x : between, between,
                         axis == 0);
        }
        rows_pass(f, inner, between, f->y, false);
        if (!f->in_place) {
            f->views[f->passes[f->npasses - 1].to.view].access = FY_ACCESS_OUT;
        }
    }
    for (unsigned p = 0; p < f->npasses; p++) {
        int status = cut(f, &f->passes[p]);
        if (status) {
            return status;
        }
    }
    return FY_OK;
}

/* ---- the call ---- */

/* Which operand an argument is: noted, and made a tile of that number. */
static int
note_operand(void *state, unsigned operand, struct fy_slot *slot)
{
    (void)state;
    slot->kind = FY_SLOT_TILE;
    slot->tile = (uint8_t)operand;
    return FY_OK;
}

/* Takes the call's own plan apart. */
static int
begin(struct fy_passes *f, struct fy_planner *planner)
{
    const struct fy_bound *bound = planner->bound;
    const struct fy_scope scope = {bound->model, bound->function, bound->cells,
                                   bound->extents};
    const struct fy_device_operands operands = {NULL, note_operand, NULL};
    struct fy_variant *whole = calloc(1, sizeof(*whole));

    if (!whole) {
        return FY_ERR_NOMEM;
    }
    int status = fy_device_call(planner, &scope, &operands, whole);
    if (status == FY_OK &&
        (whole->then || whole->nslots < 3 ||
         whole->slots[0].kind != FY_SLOT_WORD ||
         whole->slots[0].word != FY_WORD_CUFFT ||
         whole->slots[1].kind != FY_SLOT_TILE ||
         whole->slots[2].kind != FY_SLOT_TILE || whole->transform.batch != 1)) {
        status = FY_ERR_UNSUPPORTED;
    }
    if (status == FY_OK) {
        const struct fy_view *x = &bound->views[whole->slots[1].tile];
        const struct fy_view *y = &bound->views[whole->slots[2].tile];
        *f = (struct fy_passes){.planner = planner,
                                .t = whole->transform,
                                .sign = whole->slots[3].value.i,
                                .bytes = whole->transform.is_double ? 16 : 8,
                                .x = x->host,
                                .y = y->host,
                                .in_place = x->host == y->host,
                                .random = planner->options.seed};
        if (f->t.kind != FY_TRANSFORM_C2C) {
            f->sign = f->t.kind == FY_TRANSFORM_R2C ? -1 : 1;
        }
        if (x->naxes == 0 || y->naxes == 0) {
            status = FY_ERR_UNSUPPORTED;
        }
    }
    fy_variant_free(whole);
    return status;
}

int
fy_plan_fft(struct fy_planner *planner)
{
    struct fy_passes f;
    int status = FY_ERR_UNSUPPORTED;

    if (!fy_plan_on_device(planner) || (status = begin(&f, planner)) != FY_OK) {
        return status;
    }
    if (!is_plain(&f, &f.t.from, f.t.kind == FY_TRANSFORM_R2C) ||
        !is_plain(&f, &f.t.to, f.t.kind == FY_TRANSFORM_C2R)) {
        return FY_ERR_UNSUPPORTED;
    }
    status = FY_ERR_NOFIT;
    for (unsigned inner = f.t.rank - 1u; status == FY_ERR_NOFIT && inner > 0;
         inner--) {
        status = plan_axes(&f, inner);
    }
    if (status == FY_OK) {
        status = fy_planner_views(planner, f.views, f.nviews);
    }
    for (unsigned p = 0; status == FY_OK && p < f.npasses; p++) {
        status = fy_passes_steps(&f, &f.passes[p], p > 0);
    }
    for (unsigned p = 0; p < FY_MAX_PASSES; p++) {
        fy_cuts_free(&f.passes[p].cuts);
    }
    if (status == FY_OK) {
        status = fy_planner_finish(planner);
    }
    if (status == FY_OK) {
        planner->plan.method = "fft";
    }
    return status;
}
