/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When all steps have run: whether the results may stand, and what the call
 * returns.
 */
#include "config.h"

#include <string.h>

#include "pager/base/libm.h"
#include "pager/plan/build.h"

/*
 * Whether calls have written scalars or fields of structs that no operand
 * declares: the program would never see that.
 */
static bool
is_scalar_lost(const struct fy_planner *planner)
{
    for (const struct fy_step_memory *m = planner->step_memory; m;
         m = m->next) {
        for (unsigned i = 0; i < m->variant->nimages; i++) {
            struct fy_image expected = m->given[i];
            for (unsigned k = 0; k < m->variant->npatches; k++) {
                const struct fy_patch *patch = &m->variant->patches[k];
                if (patch->image == i && patch->bytes > 0) {
                    memcpy(expected.content + patch->at,
                           m->images[i].content + patch->at, patch->bytes);
                }
            }
            if (memcmp(expected.content, m->images[i].content,
                       sizeof(expected.content)) != 0) {
                return true;
            }
        }
    }
    for (uint32_t v = 0; v < planner->nvariants; v++) {
        const struct fy_variant *variant = planner->variants[v];
        for (unsigned i = 0; variant->of_itself && i < variant->nslots; i++) {
            const struct fy_slot *slot = &variant->slots[i];
            if (slot->kind == FY_SLOT_REFERENCE &&
                /* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): bytes */
                memcmp(&slot->given, &slot->value, sizeof(slot->given)) != 0) {
                return true;
            }
        }
    }
    return false;
}

/* Returns the value of both parts. A NaN in either one stays: C's hypot(Inf, NaN) is
 * Inf, and a plain comparison loses one of two. */
static double
combine(unsigned rule, double a, double b)
{
    if (rule != FY_RETURN_PLAIN && (a != a || b != b)) {
        return a + b;
    }
    switch (rule) {
    case FY_RETURN_SUM:
        return a + b;
    case FY_RETURN_HYPOT:
        return hypot(a, b);
    case FY_RETURN_MAX:
        return a > b ? a : b;
    case FY_RETURN_MIN:
        return a < b ? a : b;
    default:
        return b;
    }
}

static void
number_pivots(const struct fy_planner *planner)
{
    for (uint32_t p = 0; p < planner->pivot_panels.count; p++) {
        int64_t start = planner->pivot_panels.start[p];
        for (int64_t i = start; i < planner->pivot_panels.start[p + 1]; i++) {
            if (planner->narrow_pivots) { /* the high half is not ours */
                int64_t *pivot = &((int64_t *)(void *)planner->pivots)[i];
                *pivot = (int32_t)*pivot + start;
            } else if (planner->bound->integer_bits == 64) {
                ((int64_t *)(void *)planner->pivots)[i] += start;
            } else {
                ((int32_t *)(void *)planner->pivots)[i] += (int32_t)start;
            }
        }
    }
}

void
fy_plan_result(const struct fy_plan *plan, union fy_raw *out)
{
    const struct fy_planner *planner = (const struct fy_planner *)plan;
    const struct fy_function *function = planner->bound->function;
    enum fy_type type = fy_type_resolve((enum fy_type)function->return_type,
                                        planner->bound->integer_bits);
    struct fy_value sum;

    memset(out, 0, sizeof(*out));
    if (planner->info_pointer && planner->uses_info) {
        memset(planner->info_pointer, 0, planner->bound->integer_bits / 8);
    }
    number_pivots(planner);
    if (planner->stores_sizes) {
        fy_plan_store_sizes(planner);
    }
    if (type == FY_T_VOID || plan->schedule.nsteps == 0) {
        return;
    }
    if (plan->schedule.nsteps == 1) {
        *out = planner->results[0];
        return;
    }
    sum = fy_raw_value(type, &planner->results[0]);
    for (uint32_t i = 1; i < plan->schedule.nsteps; i++) {
        struct fy_value next = fy_raw_value(type, &planner->results[i]);
        if (sum.kind == FY_V_INT) {
            int64_t a = sum.i, b = next.i;
            switch (function->return_rule) {
            case FY_RETURN_SUM:
                sum.i = (int64_t)((uint64_t)a + (uint64_t)b);
                break;
            case FY_RETURN_MAX:
                sum.i = a > b ? a : b;
                break;
            case FY_RETURN_MIN:
                sum.i = a < b ? a : b;
                break;
            default:
                sum.i = a != 0 ? a : b; /* a status: the first that failed */
                break;
            }
        } else {
            sum.r = combine(function->return_rule, sum.r, next.r);
            sum.im = combine(function->return_rule, sum.im, next.im);
        }
    }
    fy_raw_store(type, &sum, out);
}

bool
fy_diagonal_is_regular(const struct fy_diagonal *diagonal)
{
    for (int64_t i = 0; i < diagonal->count; i++) {
        struct fy_value value =
            fy_raw_value((enum fy_type)diagonal->element,
                         diagonal->host + i * diagonal->stride_bytes);
        if (value.kind != FY_V_COMPLEX) {
            value.im = 0;
        }
        if ((!diagonal->zeros && value.r == 0 && value.im == 0) ||
            !isfinite(value.r) || !isfinite(value.im)) {
            return false;
        }
    }
    return true;
}

/* Whether no chunk call reported that the computation cannot be finished. */
bool
fy_plan_accept(void *opaque)
{
    const struct fy_planner *planner = opaque;
    const struct fy_bound *bound = planner->bound;

    if (is_scalar_lost(planner) ||
        !fy_diagonal_is_regular(&planner->diagonal) ||
        (planner->wants_finite &&
         !fy_view_is_finite(
             &bound->views[0],
             (enum fy_type)FY_OF(bound, fy_operand, operands)[0].element))) {
        return false;
    }
    if (!planner->uses_info) {
        return true;
    }
    for (uint32_t i = 0; i < planner->plan.schedule.nsteps; i++) {
        if (planner->infos[i] != 0) {
            return false;
        }
    }
    return true;
}
