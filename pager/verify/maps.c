/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ferry verify' of maps: what a device would compute, on the CPU, against the
 * original. A map is the only part of `on cuda' that can be judged here; calls
 * of libraries and kernels of the user are counted, so that nobody takes them
 * for tried. In forked children only.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "pager/kernel/map_value.h"
#include "pager/verify/trial.h"

enum {
    STEPS = 4 << 20 /* nodes evaluated in one call: a fraction of a second */
};

static const struct fy_call_row *
row_at(const struct fy_bound *call, uint32_t index)
{
    return &FY_TABLE(call->model, fy_call_row, calls)[index];
}

static int64_t
elements_of(const struct fy_view *view)
{
    int64_t n = 1;
    for (unsigned k = 0; k < view->naxes; k++) {
        n *= view->extent[k];
    }
    return n;
}

/* A multiplicative hash: which of many indices are computed. */
static bool
is_chosen(int64_t index, uint64_t every)
{
    return every == 1 ||
           /* NOLINTNEXTLINE(clang-analyzer-core.DivideZero): every >= 1 */
           ((uint64_t)index * UINT64_C(0x9e3779b97f4a7c15) >> 33) % every == 0;
}

/* Where each operand has the element that belongs to this one of `target'. */
static void
place(const struct fy_trial *t, char *const *got, const struct fy_walk *walk,
      const struct fy_operand *target, char **at)
{
    const struct fy_operand *rows = FY_OF(t->call, fy_operand, operands);
    for (unsigned o = 0; o < t->call->function->noperands; o++) {
        const struct fy_view *v = &t->images->views[o];
        int64_t offset = 0;
        at[o] = NULL;
        if (v->naxes == 0 || v->access == FY_ACCESS_SCRATCH) {
            continue;
        }
        for (unsigned j = 0; j < v->naxes; j++) {
            for (unsigned k = 0; k < target->naxes; k++) {
                if (rows[o].axes[j].axis == target->axes[k].axis) {
                    offset += walk->index[k] * v->stride[j];
                }
            }
        }
        at[o] = got[t->images->of[o]] + t->images->first[o] +
                offset * (int64_t)v->element_bytes;
    }
}

/* What is not computed is as it should be. */
static void
take_truth(const struct fy_trial *t, const struct fy_call_row *row, char **at,
           char *const *got)
{
    for (uint32_t k = 0; k < row->nargs; k++) {
        const unsigned o = row->to[k], g = t->images->of[o];
        if (at[o]) {
            memcpy(at[o], t->images->image[g].truth + (at[o] - got[g]),
                   t->images->views[o].element_bytes);
        }
    }
}

static int
run_row(const struct fy_trial *t, const struct fy_call_row *row, uint64_t every,
        char *const *got)
{
    const struct fy_operand *target =
        FY_OF(t->call, fy_operand, operands) + row->to[0];
    struct fy_walk walk = {.view = &t->images->views[row->to[0]]};
    char *at[FY_MAX_OPERANDS];
    int status = 0;
    for (int64_t i = 0; status == 0 && fy_walk_next(&walk); i++) {
        place(t, got, &walk, target, at);
        if (is_chosen(i, every)) {
            status = fy_map_evaluate(t->call, row, at);
        } else {
            take_truth(t, row, at, got);
        }
    }
    return status;
}

/* All rows; FY_ERR_UNSUPPORTED when no device would run this call, or when it
 * is too large for what one row leaves to the next. */
static int
run_rows(const struct fy_trial *t, char *const *got)
{
    const struct fy_function *f = t->call->function;
    uint64_t steps = 0;
    for (uint32_t i = f->cuda_call; i != FY_NIL; i = row_at(t->call, i)->next) {
        const struct fy_call_row *row = row_at(t->call, i);
        const struct fy_view *view = &t->images->views[row->to[0]];
        if (view->naxes == 0) {
            return FY_ERR_UNSUPPORTED;
        }
        steps += (uint64_t)elements_of(view) * fy_map_steps(t->call, row);
    }
    const uint64_t every = steps / STEPS + 1;
    if (every > 1 && row_at(t->call, f->cuda_call)->next != FY_NIL) {
        return FY_ERR_UNSUPPORTED;
    }
    int status = 0;
    for (uint32_t i = f->cuda_call; i != FY_NIL && status == 0;
         i = row_at(t->call, i)->next) {
        status = run_row(t, row_at(t->call, i), every, got);
    }
    return status;
}

static bool
is_maps_only(const struct fy_model *model, const struct fy_function *f)
{
    const struct fy_call_row *rows = FY_TABLE(model, fy_call_row, calls);
    for (uint32_t i = f->cuda_call; i != FY_NIL; i = rows[i].next) {
        if (rows[i].kind != FY_CALL_MAP) {
            return false;
        }
    }
    return f->cuda_call != FY_NIL;
}

void
fy_trial_maps(struct fy_trial *t)
{
    struct fy_tally_function *tally =
        fy_tally_function(t->tally, t->call->function_index);
    const struct fy_function *f = t->call->function;
    char *got[FY_MAX_OPERANDS] = {NULL};
    union fy_raw result = {{0, 0}};
    bool memory = true;
    if (!is_maps_only(t->call->model, f)) {
        return;
    }
    for (unsigned g = 0; g < t->images->count; g++) {
        const struct fy_image *image = &t->images->image[g];
        const size_t bytes = (size_t)(image->hi - image->lo);
        got[g] = malloc(bytes + 1);
        memory = memory && got[g];
        if (got[g]) {
            memcpy(got[g], image->before, bytes);
        }
    }
    if (memory && run_rows(t, got) == 0) {
        fy_trial_compare(t, got, &result, FY_FINDING_MAP, "by its map");
        if (t->state->undecided) {
            FY_TALLY_ADD(tally->undecided);
        } else if (!t->state->want_sensitivity) { /* else once more */
            FY_TALLY_ADD(tally->mapped);
        }
    }
    for (unsigned g = 0; g < t->images->count; g++) {
        free(got[g]);
    }
}
