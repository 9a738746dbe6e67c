/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See call.h. A slice is a chunk as plan/chunk_call.c makes it; the original is
 * called through a device of one function, which runs what it is given at once.
 */
#include "config.h"

#include "pager/deferred/call.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pager/device/call.h"
#include "pager/plan/axes.h"
#include "pager/plan/device_call.h"

enum {
    PAGE = 4096
};

static bool
is_base(const struct fy_bound *bound, uint32_t cell)
{
    for (unsigned o = 0; o < bound->function->noperands; o++) {
        if (FY_OF(bound, fy_operand, operands)[o].base == cell) {
            return true;
        }
    }
    return false;
}

/* `on host f(...)': the same of what is passed instead. */
static bool
host_arguments_are_known(const struct fy_bound *bound)
{
    const struct fy_call_row *row =
        &FY_TABLE(bound->model, fy_call_row, calls)[bound->function->host_call];
    const struct fy_cell *cells = FY_OF(bound, fy_cell, cells);

    for (uint32_t i = 0; i < row->nargs; i++) {
        const struct fy_node *node =
            &FY_TABLE(bound->model, fy_node, nodes)[row->args[i]];
        bool known =
            node->op == FY_OP_CELL
                ? cells[node->a].type != FY_T_POINTER || is_base(bound, node->a)
                : node->op == FY_OP_ADDRESS || node->op == FY_OP_INT ||
                      node->op == FY_OP_REAL;
        if (!known) {
            return false;
        }
    }
    return true;
}

/* Arguments: numbers, and addresses of operands; nothing else to be read. */
static bool
arguments_are_known(const struct fy_bound *bound)
{
    const struct fy_function *function = bound->function;
    const struct fy_cell *cells = FY_OF(bound, fy_cell, cells);
    const struct fy_arg *args = FY_OF(bound, fy_arg, args);
    bool known[FY_MAX_ARGS] = {false};

    for (unsigned c = 0; c < function->ncells; c++) {
        bool base = is_base(bound, c);
        if (cells[c].kind != FY_CELL_VALUE &&
            cells[c].kind != FY_CELL_REFERENCE) {
            return false;
        }
        if (base && cells[c].kind != FY_CELL_VALUE) {
            return false;
        }
        if (base || cells[c].type != FY_T_POINTER) {
            known[cells[c].arg] = true;
        }
    }
    if (function->host_call != FY_NIL) {
        return host_arguments_are_known(bound);
    }
    for (unsigned i = 0; i < function->nargs; i++) {
        bool pointer = args[i].type == FY_T_POINTER ||
                       args[i].type == FY_T_HANDLE ||
                       (args[i].flags & FY_ARG_REFERENCE) != 0;
        if ((pointer && !known[i]) || args[i].flags & FY_ARG_OPAQUE) {
            return false;
        }
    }
    return true;
}

enum fy_reason
fy_deferrable(const struct fy_bound *bound)
{
    const struct fy_function *function = bound->function;
    const struct fy_axis *axis = FY_OF(bound, fy_axis, axes);

    if (function->naxes != 1 || function->return_type != FY_T_VOID ||
        function->flags & (FY_FN_MAKES | FY_FN_FREES | FY_FN_OBSERVE_ONLY) ||
        function->noperands == 0 || function->noperands > FY_MAX_OPERANDS ||
        axis->multiple > 1 || axis->flags & (FY_AXIS_SUMS | FY_AXIS_RETURN) ||
        !arguments_are_known(bound)) {
        return FY_REASON_UNSUPPORTED;
    }
    for (unsigned o = 0; o < function->noperands; o++) {
        const struct fy_view *view = &bound->views[o];
        if (FY_OF(bound, fy_operand, operands)[o].naxes != 1 ||
            view->naxes != 1 ||
            FY_OF(bound, fy_operand, operands)[o].flags & FY_OPERAND_FINITE ||
            view->stride[0] != 1 || view->sign != 0 ||
            view->extent[0] != bound->extents[0] ||
            view->access == FY_ACCESS_SCRATCH || view->access == 0) {
            return FY_REASON_UNSUPPORTED;
        }
    }
    return FY_REASON_NONE;
}

/* `one_more': leaves a whole page in front, where there is no part of one. */
static bool
find_inner(const struct fy_bound *bound, int64_t least_pages, bool one_more,
           int64_t *first, int64_t *count)
{
    for (unsigned o = 0; o < bound->function->noperands; o++) {
        const struct fy_view *view = &bound->views[o];
        uintptr_t at = (uintptr_t)view->host;
        uint64_t bytes = (uint64_t)view->extent[0] * view->element_bytes;
        uintptr_t low = (at + PAGE - !one_more) & ~(uintptr_t)(PAGE - 1);
        uintptr_t high = (at + bytes) & ~(uintptr_t)(PAGE - 1);
        if (PAGE % view->element_bytes != 0 || at % view->element_bytes != 0 ||
            high <= low || (int64_t)((high - low) / PAGE) < least_pages) {
            return false;
        }
        int64_t lo = (int64_t)((low - at) / view->element_bytes);
        int64_t n = (int64_t)((high - low) / view->element_bytes);
        if (o > 0 && (lo != *first || n != *count)) {
            return false;
        }
        *first = lo;
        *count = n;
    }
    return true;
}

bool
fy_deferred_inner(const struct fy_bound *bound, int64_t least_pages,
                  int64_t *first, int64_t *count)
{
    return find_inner(bound, least_pages, true, first, count) ||
           find_inner(bound, least_pages, false, first, count);
}

/* Runs a launch on the calling thread; waits for memory where there is none. */
static int
launch_here(struct fy_stream *stream, const struct fy_launch *launch)
{
    const struct timespec moment = {.tv_nsec = 1000000};
    struct fy_cif *cifs = NULL;
    struct fy_call *call;
    int status;

    (void)stream;
    while ((status = fy_call_new(&cifs, launch, &call)) == FY_ERR_NOMEM) {
        nanosleep(&moment, NULL);
    }
    if (status == FY_OK) {
        fy_call_run(call);
        free(call);
    }
    fy_cifs_free(cifs);
    return status;
}

static const struct fy_device_ops here = {
    .name = "here",
    .launch = launch_here,
};

static int
runner_init(struct fy_deferred *call, struct fy_deferred_runner *runner,
            const struct fy_plan_options *options)
{
    struct fy_planner *planner = &runner->planner;

    planner->bound = &call->bound;
    planner->target = &call->target;
    planner->options = *options;
    fy_planner_reset(planner);
    planner->results = calloc(1, sizeof(*planner->results));
    planner->infos = calloc(1, sizeof(*planner->infos));
    if (!planner->results || !planner->infos) {
        return FY_ERR_NOMEM;
    }
    return FY_OK;
}

int
fy_deferred_new(const struct fy_bound *bound, const struct fy_target *target,
                const struct fy_plan_options *options, struct fy_deferred **out)
{
    const struct fy_plan_options direct = {.ops = &here};
    struct fy_deferred *call = calloc(1, sizeof(*call));
    int status;

    if (!call) {
        return FY_ERR_NOMEM;
    }
    call->bound = *bound;
    call->target = *target;
    (void)fy_deferred_inner(bound, 1, &call->first, &call->count);
    status = runner_init(call, &call->direct, &direct);
    if (status == FY_OK) {
        status = runner_init(call, &call->device, options);
    }
    if (status == FY_OK && !(fy_axis_is_splittable(&call->direct.planner, 0) &&
                             fy_axis_is_splittable(&call->device.planner, 0))) {
        status = FY_ERR_UNSUPPORTED;
    }
    if (status) {
        fy_deferred_free(call);
        return status;
    }
    *out = call;
    return FY_OK;
}

void
fy_deferred_free(struct fy_deferred *call)
{
    if (call) {
        call->direct.planner.plan.schedule.steps = NULL; /* call->step */
        call->device.planner.plan.schedule.steps = NULL;
        fy_planner_reset(&call->direct.planner);
        fy_planner_reset(&call->device.planner);
        free(call);
    }
}

int
fy_deferred_length(struct fy_deferred *call, struct fy_deferred_runner *runner,
                   int64_t length, uint32_t *variant)
{
    const struct fy_chunk chunk = {.n = {length}};
    struct fy_variant *made;

    for (unsigned i = 0; i < runner->nlengths; i++) {
        if (runner->lengths[i] == length) {
            *variant = i;
            return FY_OK;
        }
    }
    if (runner->nlengths == FY_DEFER_LENGTHS) {
        return FY_ERR_UNSUPPORTED;
    }
    (void)call;
    int status = fy_chunk_call_self(&runner->planner, &chunk, &made);
    if (status == FY_OK) {
        status = fy_planner_add_variant(&runner->planner, made, variant);
    }
    if (status == FY_OK) {
        runner->lengths[runner->nlengths++] = length;
    }
    return status;
}

static int
launch(struct fy_deferred *call, struct fy_deferred_runner *runner,
       uint32_t number, const uint64_t *address, struct fy_stream *stream)
{
    struct fy_planner *planner = &runner->planner;
    const struct fy_variant *variant = planner->variants[number];
    uint64_t by_tile[FY_MAX_OPERANDS];

    for (unsigned t = 0; t < variant->ntiles; t++) {
        by_tile[t] = address[variant->tiles[t].view];
    }
    call->step = (struct fy_step){.ntiles = variant->ntiles, .tag = number};
    planner->plan.schedule.steps = &call->step;
    return planner->plan.schedule.launch(planner, &call->step, NULL, by_tile,
                                         stream);
}

void
fy_deferred_direct(struct fy_deferred *call, int64_t length,
                   char *const address[FY_MAX_OPERANDS])
{
    uint64_t addresses[FY_MAX_OPERANDS] = {0};
    uint32_t variant;

    for (unsigned o = 0; o < call->bound.function->noperands; o++) {
        addresses[o] = (uint64_t)(uintptr_t)address[o];
    }
    if (fy_deferred_length(call, &call->direct, length, &variant) == FY_OK &&
        launch(call, &call->direct, variant, addresses, NULL) == FY_OK) {
        return;
    }
    abort(); /* lengths and prototype were tried before it was deferred */
}

int
fy_deferred_launch(struct fy_deferred *call, uint32_t variant,
                   const uint64_t address[FY_MAX_OPERANDS],
                   struct fy_stream *stream)
{
    return launch(call, &call->device, variant, address, stream);
}
