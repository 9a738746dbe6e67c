/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps of one pass of a transform that is larger than the device: tiles of
 * both sides, and the plan that goes from one to the other.
 */
#include "config.h"

#include "pager/blocked/fft.h"

#include "pager/plan/device_call.h"

#include <stdlib.h>
#include <string.h>

/* A tile of a side: dense, row-major. Elements of all but its first axis. */
static int64_t
set_tile(const struct fy_passes *f, const struct fy_pass *pass,
         const struct fy_pass_side *side, int64_t length, uint8_t access,
         struct fy_tile *tile)
{
    const struct fy_view *view = &f->views[side->view];
    int64_t stride = 1;

    tile->view = side->view;
    tile->access = access;
    tile->naxes = view->naxes;
    for (unsigned k = view->naxes; k-- > 0;) {
        tile->n[k] = k == side->cut              ? length
                     : k == 0 && pass->each == 0 ? 1
                                                 : view->extent[k];
        tile->device_stride[k] = stride;
        stride *= tile->n[k];
    }
    return tile->device_stride[0];
}

static void
set_layout(const struct fy_pass_side *side, int64_t length, int64_t block,
           const struct fy_tile *tile, unsigned rank,
           struct fy_transform_side *out)
{
    out->stride = side->columns ? length : 1;
    out->distance = side->columns ? 1 : block;
    for (unsigned i = 0; i < rank; i++) {
        /* Rows: the transform's axes are the tile's last ones. */
        out->embed[i] = side->columns ? tile->n[tile->naxes - 2]
                                      : tile->n[tile->naxes - rank + i];
    }
}

static int
pass_variant(struct fy_passes *f, struct fy_pass *pass, int64_t length,
             uint32_t *out)
{
    bool one = pass->from.view == pass->to.view;

    for (unsigned i = 0; i < pass->nknown; i++) {
        if (pass->known[i].length == length) {
            *out = pass->known[i].variant;
            return FY_OK;
        }
    }
    struct fy_variant *variant = calloc(1, sizeof(*variant));
    if (!variant) {
        return FY_ERR_NOMEM;
    }
    struct fy_tile *to = &variant->tiles[one ? 0 : 1];
    struct fy_transform *t = &variant->transform;
    variant->ntiles = one ? 1 : 2;
    *t = pass->transform;
    t->is_double = f->t.is_double;
    t->batch = length;
    int64_t block =
        set_tile(f, pass, &pass->from, length,
                 one ? FY_ACCESS_INOUT : FY_ACCESS_IN, &variant->tiles[0]);
    set_layout(&pass->from, length, block, &variant->tiles[0], t->rank,
               &t->from);
    if (!one) {
        block = set_tile(f, pass, &pass->to, length, FY_ACCESS_OUT, to);
    }
    set_layout(&pass->to, length, block, to, t->rank, &t->to);
    variant->function = fy_device_transform(f->planner, t->kind, t->is_double);
    variant->return_type = FY_T_I32;
    variant->on_device = true;
    variant->nslots = t->kind == FY_TRANSFORM_C2C ? 4 : 3;
    variant->slots[0] = (struct fy_slot){
        .kind = FY_SLOT_WORD, .type = FY_T_I32, .word = FY_WORD_CUFFT};
    for (unsigned i = 1; i < 3; i++) {
        variant->slots[i] =
            (struct fy_slot){.kind = FY_SLOT_TILE,
                             .type = FY_T_POINTER,
                             .tile = (uint8_t)(one ? 0 : i - 1)};
    }
    variant->slots[3] = (struct fy_slot){
        .kind = FY_SLOT_VALUE, .type = FY_T_I32, .value.i = f->sign};
    if (!variant->function) {
        free(variant);
        return FY_ERR_UNSUPPORTED;
    }
    int status = fy_planner_add_variant(f->planner, variant, out);
    if (status == FY_OK &&
        pass->nknown < sizeof(pass->known) / sizeof(pass->known[0])) {
        pass->known[pass->nknown].length = length;
        pass->known[pass->nknown++].variant = *out;
    }
    return status;
}

int
fy_passes_steps(struct fy_passes *f, struct fy_pass *pass, bool later)
{
    const struct fy_view *from = &f->views[pass->from.view];
    int64_t turns = pass->each == 0 ? from->extent[0] : 1;
    int status = FY_OK;

    for (int64_t turn = 0; turn < turns; turn++) {
        for (uint32_t i = 0; status == FY_OK && i < pass->cuts.count; i++) {
            int64_t lo[2][FY_MAX_OPERAND_AXES] = {{0}};
            uint32_t variant;
            lo[0][pass->from.cut] = lo[1][pass->to.cut] = pass->cuts.start[i];
            if (pass->each == 0) {
                lo[0][0] = lo[1][0] = turn;
            }
            if (pass->from.view == pass->to.view) {
                memcpy(lo[1], lo[0], sizeof(lo[0]));
            }
            status =
                pass_variant(f, pass, fy_cuts_length(&pass->cuts, i), &variant);
            if (status == FY_OK) {
                status = fy_planner_add_step(f->planner, variant, lo);
            }
            if (status == FY_OK && later && turn == 0 && i == 0) {
                struct fy_schedule *s = &f->planner->plan.schedule;
                s->steps[s->nsteps - 1].after = true;
            }
        }
    }
    return status;
}
