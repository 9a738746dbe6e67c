/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which planner makes a call's plan: the whole call, a blocked program, or the
 * call cut along its axes.
 */
#include "config.h"

#include <stdlib.h>

#include "pager/plan/axes.h"
#include "pager/plan/build.h"
#include "pager/plan/device_call.h"

/* Blocks have to be so much faster than the whole call, as predicted. */
static const double LATEST = 0.9;

/* The original's side effects beside the work, for calls where the original
 * does not run, or not on the whole of its operands. */
static int
stand_in(struct fy_planner *planner, bool blocked)
{
    const bool other = blocked || fy_plan_on_device(planner);

    if ((other || planner->plan.schedule.nsteps > 1) &&
        !fy_bound_has_finite_factors(planner->bound)) {
        return FY_ERR_UNSUPPORTED;
    }
    if (other && !fy_bound_is_finite(planner->bound, &planner->options)) {
        return FY_ERR_UNSUPPORTED;
    }
    if (other && planner->bound->function->blocked_by != 0) {
        fy_plan_diagonal(planner);
    }
    planner->stores_sizes = other || planner->plan.schedule.nsteps > 1;
    return FY_OK;
}

/* Blocks whose copies overlap kernels, where the whole call would end later. */
static int
plan_blocks(struct fy_planner *planner)
{
    const struct fy_bound *bound = planner->bound;
    const struct fy_traffic least =
        fy_least_traffic(bound->views, bound->function->noperands);
    const double whole = (double)least.bytes_in + (double)least.bytes_out +
                         planner->options.kernel_bytes;

    if (bound->function->blocked_by == 0 || planner->options.axes != 0 ||
        !fy_plan_takes_long(planner)) {
        return FY_ERR_NOFIT;
    }
    fy_planner_reset(planner);
    int status = fy_plan_blocked(planner);
    return status != FY_OK                            ? FY_ERR_NOFIT
           : planner->plan.end_bytes < LATEST * whole ? FY_OK
                                                      : FY_ERR_NOFIT;
}

int
fy_plan_new(const struct fy_bound *bound, const struct fy_target *target,
            const struct fy_plan_options *options, struct fy_plan **out)
{
    struct fy_planner *planner = calloc(1, sizeof(*planner));
    int status = FY_ERR_NOFIT;
    bool blocked = false, refused = false;

    if (!planner) {
        return FY_ERR_NOMEM;
    }
    planner->bound = bound;
    planner->target = target;
    planner->options = *options;
    fy_planner_reset(planner);
    if (!options->random) {
        status = fy_plan_overlapped(planner);
        if (status == FY_ERR_NOFIT || status == FY_ERR_UNSUPPORTED) {
            status = plan_blocks(planner);
            blocked = status == FY_OK;
        }
        if (status == FY_ERR_NOFIT || status == FY_ERR_UNSUPPORTED) {
            fy_planner_reset(planner);
            status = fy_plan_whole(planner);
        }
    }
    /* A device may have the parts of a function but not the whole. */
    if ((status == FY_ERR_NOFIT || status == FY_ERR_UNSUPPORTED) &&
        bound->function->blocked_by != 0 && options->axes == 0) {
        fy_planner_reset(planner);
        refused = status == FY_ERR_UNSUPPORTED;
        status = fy_plan_blocked(planner);
        blocked = status == FY_OK;
        refused = refused && status == FY_ERR_UNSUPPORTED;
        if (status == FY_ERR_UNSUPPORTED) {
            status = FY_ERR_NOFIT;
        }
    }
    if (status == FY_ERR_NOFIT) {
        status = fy_plan_axes(planner);
        if (status == FY_ERR_NOFIT && refused) {
            status = FY_ERR_UNSUPPORTED; /* with any memory */
        }
    }
    if (status == FY_OK) {
        status = stand_in(planner, blocked);
    }
    if (status) {
        fy_plan_free(&planner->plan);
        return status;
    }
    *out = &planner->plan;
    return FY_OK;
}
