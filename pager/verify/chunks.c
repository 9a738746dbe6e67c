/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The annotated form of a call: the planner's schedule, step by step, on one
 * thread, every tile in a guarded block of its own with poison in its gaps.
 * Slow and simple on purpose: it shares the planner with the engine, and
 * nothing else. In forked children only.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pager/device/call.h"
#include "pager/device/copy.h"
#include "pager/plan/plan.h"
#include "pager/verify/copies.h"
#include "pager/verify/guard.h"

enum {
    MAX_STEPS = 24,
    HANDLE_ALIGN = 64
};

/* Where the tiles of one step are. */
struct tiles {
    struct fy_trial *trial;
    const struct fy_schedule *schedule;
    unsigned step;
    const struct fy_tile *tile; /* of the step */
    struct fy_guard guard[FY_MAX_OPERANDS];
    struct fy_view view[FY_MAX_OPERANDS]; /* the tile as it lies there */
    int64_t first[FY_MAX_OPERANDS]; /* bytes from the block to element 0, 0 */
    char *before[FY_MAX_OPERANDS];  /* the block's content before the step */
    struct fy_guard inactive;       /* for pointers the call must not follow */
};

/* The synchronous device: launches run on the spot, nothing else is called. */
static int
launch_now(struct fy_stream *stream, const struct fy_launch *launch)
{
    static struct fy_cif *cifs;
    struct fy_call *call;
    (void)stream;
    int status = fy_call_new(&cifs, launch, &call);
    if (status != 0) {
        return status;
    }
    fy_call_run(call);
    free(call);
    return 0;
}

static const struct fy_device_ops launch_ops = {
    .name = "verify",
    .launch = launch_now,
};

static const char *
operand_name(const struct tiles *s, unsigned view)
{
    const struct fy_bound *call = s->trial->call;
    if (view >= call->function->noperands) {
        return "(work)";
    }
    const struct fy_operand *o = FY_OF(call, fy_operand, operands) + view;
    return fy_model_string(call->model, o->name);
}

static uint32_t
operand_of(const struct tiles *s, unsigned view)
{
    return view < s->trial->call->function->noperands ? view : FY_NIL;
}

static enum fy_type
element_of(const struct tiles *s, unsigned view)
{
    const struct fy_bound *call = s->trial->call;
    if (view >= call->function->noperands) {
        return FY_T_F64;
    }
    const struct fy_operand *o = FY_OF(call, fy_operand, operands) + view;
    return (enum fy_type)o->element;
}

static void
step_text(const struct tiles *s, char *out, size_t bytes)
{
    (void)snprintf(out, bytes, "in chunk %u of %u", s->step + 1,
                   s->schedule->nsteps);
}

static void
on_chunk_fault(struct fy_child_report *report, void *context)
{
    struct tiles *s = context;
    const char *verb = report->write ? "writes" : "reads";
    char where[64];
    int64_t offset;
    step_text(s, where, sizeof where);
    unsigned n = !s->tile ? 0 : s->schedule->steps[s->step].ntiles;
    for (unsigned i = 0; i < n && report->has_address; i++) {
        if (!fy_guard_locate(&s->guard[i], report->address, &offset)) {
            continue;
        }
        unsigned view = s->tile[i].view;
        fy_trial_problem(
            s->trial, operand_of(s, view), FY_FINDING_CHUNK_OUTSIDE,
            "%s the function %s `%s' %lld bytes %s its chunk", where, verb,
            operand_name(s, view),
            offset < 0 ? (long long)-offset
                       : (long long)(offset - (int64_t)s->guard[i].bytes),
            offset < 0 ? "before" : "past");
        return;
    }
    if (report->has_address &&
        fy_guard_locate(&s->inactive, report->address, &offset)) {
        fy_trial_problem(s->trial, FY_NIL, FY_FINDING_CHUNK_OUTSIDE,
                         "%s the function %s an operand that its `when' "
                         "excludes",
                         where, verb);
    } else {
        fy_trial_problem(s->trial, FY_NIL, FY_FINDING_CRASHED,
                         "%s the function dies of signal %d", where,
                         report->signal);
    }
}

/* The tile as a view of its own, at element (0, 0) of a packed block. */
static void
tile_view(const struct fy_view *whole, const struct fy_tile *tile,
          struct fy_view *out, int64_t *first, int64_t *bytes)
{
    int64_t low, high;
    fy_view_part(whole, tile->lo, tile->n, out);
    out->access = tile->access;
    memcpy(out->stride, tile->device_stride, sizeof out->stride);
    *first = *bytes = 0;
    if (fy_view_span(out, &low, &high)) {
        *first = -low;
        *bytes = high - low;
    }
}

static void
copy_tile(struct tiles *s, unsigned i, enum fy_direction direction)
{
    const struct fy_tile *tile = &s->tile[i];
    const struct fy_view *whole = &s->schedule->views[tile->view];
    struct fy_copy copy = {
        .direction = direction,
        .device = (uint64_t)(uintptr_t)(s->guard[i].block + s->first[i]),
    };
    fy_view_part(whole, tile->lo, tile->n, &copy.view);
    memcpy(copy.device_stride, tile->device_stride, sizeof copy.device_stride);
    fy_copy_run(&copy);
}

static int
place_tile(struct tiles *s, unsigned i, enum fy_guard_side side,
           enum fy_poison poison, uint64_t *address)
{
    const struct fy_tile *tile = &s->tile[i];
    const struct fy_view *whole = &s->schedule->views[tile->view];
    int64_t bytes;
    tile_view(whole, tile, &s->view[i], &s->first[i], &bytes);
    size_t align = whole->element_bytes & -whole->element_bytes;
    if (s->trial->call->function->host_call != FY_NIL) {
        align = HANDLE_ALIGN; /* plans are made for an alignment */
    }
    int status =
        fy_guard_new((size_t)bytes, align,
                     s->trial->state->soft ? fy_view_slack(&s->view[i]) : 0,
                     side, poison, element_of(s, tile->view), &s->guard[i]);
    if (status != 0) {
        return status;
    }
    if (tile->access & FY_ACCESS_IN && tile->access != FY_ACCESS_SCRATCH) {
        copy_tile(s, i, FY_TO_DEVICE);
    }
    s->before[i] = malloc((size_t)bytes);
    if (!s->before[i]) {
        return FY_ERR_NOMEM;
    }
    memcpy(s->before[i], s->guard[i].block, (size_t)bytes);
    *address = (uint64_t)(uintptr_t)(s->guard[i].block + s->first[i]);
    return 0;
}

/* The chunk wrote nothing but the elements it may write. */
static void
check_tile(struct tiles *s, unsigned i)
{
    const struct fy_view *v = &s->view[i];
    struct fy_guard *g = &s->guard[i];
    unsigned view = s->tile[i].view;
    char where[64];
    int64_t spilled;
    step_text(s, where, sizeof where);
    if (v->access & FY_ACCESS_OUT) {
        struct fy_walk w = {.view = v};
        while (fy_walk_next(&w)) { /* what may change is made equal */
            memcpy(s->before[i] + s->first[i] + w.offset,
                   g->block + s->first[i] + w.offset, v->element_bytes);
        }
    }
    const struct fy_bound *call = s->trial->call;
    const bool scratch =
        view < call->function->noperands &&
        FY_OF(call, fy_operand, operands)[view].access == FY_ACCESS_SCRATCH;
    if (!scratch && memcmp(s->before[i], g->block, g->bytes) != 0) {
        fy_trial_problem(s->trial, operand_of(s, view), FY_FINDING_CHUNK_WRITE,
                         "%s the function writes elements of `%s' that are "
                         "not declared out",
                         where, operand_name(s, view));
    }
    if (fy_guard_spilled(g, &spilled)) {
        fy_trial_problem(s->trial, operand_of(s, view),
                         FY_FINDING_CHUNK_OUTSIDE,
                         "%s the function writes `%s' outside its chunk", where,
                         operand_name(s, view));
    }
}

static int
run_step(struct tiles *s, unsigned number)
{
    const struct fy_step *step = &s->schedule->steps[s->step];
    uint64_t address[FY_MAX_OPERANDS];
    int status = 0;
    bool odd = (number + s->step) % 2 != 0;
    if (step->ntiles > FY_MAX_OPERANDS) {
        return FY_ERR_UNSUPPORTED;
    }
    s->tile = s->schedule->tiles + step->tiles;
    for (unsigned i = 0; i < step->ntiles && status == 0; i++) {
        status = place_tile(s, i, odd ? FY_GUARD_BEFORE : FY_GUARD_AFTER,
                            odd ? FY_POISON_LARGE : FY_POISON_NAN, &address[i]);
    }
    if (status == 0) {
        status = s->schedule->launch(s->schedule->planner, step, s->tile,
                                     address, NULL);
    }
    for (unsigned i = 0; i < step->ntiles; i++) {
        if (status == 0) {
            check_tile(s, i);
            if (s->tile[i].access & FY_ACCESS_OUT &&
                s->tile[i].access != FY_ACCESS_SCRATCH) {
                copy_tile(s, i, FY_TO_HOST);
            }
        }
        fy_guard_free(&s->guard[i]);
        free(s->before[i]);
        s->before[i] = NULL;
    }
    s->tile = NULL;
    return status;
}

enum {
    AXES = FY_TRY_AXES - FY_TRY_CHUNKS /* numbers from here on are axes' */
};

/* A plan that fits: the budget grows until it does. */
static int
make_plan(const struct fy_bound *call, const struct fy_target *target,
          uint64_t seed, unsigned number, uint64_t inactive,
          struct fy_plan **out)
{
    uint64_t all = fy_compulsory_bytes(call->views, call->function->noperands);
    struct fy_plan_options options = {
        .ops = &launch_ops,
        .budget_bytes =
            number == 0 || number >= AXES ? 4 * all + (1 << 20) : all >> number,
        .random = number > 0,
        .seed = seed + number,
        .axes = number >= AXES ? 1U << (number - AXES) : 0,
        .max_steps = MAX_STEPS,
        .inactive_address = inactive,
    };
    for (;;) {
        int status = fy_plan_new(call, target, &options, out);
        if ((status != FY_ERR_NOFIT && status != FY_ERR_UNSUPPORTED) ||
            options.budget_bytes > 8 * all + (1 << 21)) {
            return status;
        }
        options.budget_bytes = options.budget_bytes * 2 + 1024;
    }
}

static bool
is_passed(const struct fy_bound *call, uint32_t cell)
{
    const struct fy_call_row *row =
        FY_TABLE(call->model, fy_call_row, calls) + call->function->host_call;
    const struct fy_node *nodes = FY_TABLE(call->model, fy_node, nodes);
    for (uint32_t i = 0; i < row->nargs; i++) {
        if (nodes[row->args[i]].op == FY_OP_CELL &&
            nodes[row->args[i]].a == cell) {
            return true;
        }
    }
    return false;
}

/*
 * Arrays behind a handle that the `on host' call is given although no operand
 * declares them: the call must not look.
 */
static void
hide_handle_cells(struct fy_bound *call, uint64_t inactive)
{
    const struct fy_cell *cells = FY_OF(call, fy_cell, cells);
    const struct fy_operand *operands = FY_OF(call, fy_operand, operands);
    if (call->function->host_call == FY_NIL) {
        return;
    }
    for (uint32_t c = 0; c < call->function->ncells; c++) {
        bool declared = false;
        for (unsigned o = 0; o < call->function->noperands; o++) {
            declared |= call->cells[operands[o].base].p == call->cells[c].p;
        }
        if (!declared && cells[c].type == FY_T_POINTER &&
            call->cells[c].p != 0 && is_passed(call, c)) {
            call->cells[c].p = inactive;
        }
    }
}

/* Every step, then the result. */
static int
run_steps(struct tiles *s, struct fy_plan *plan, unsigned number,
          bool faults_are_findings, union fy_raw *result)
{
    int status = 0;
    if (faults_are_findings) {
        s->trial->state->report.on_fault = on_chunk_fault;
    }
    s->schedule = &plan->schedule;
    for (; s->step < s->schedule->nsteps && status == 0; s->step++) {
        status = run_step(s, number);
    }
    s->trial->state->report.on_fault = NULL;
    /* Not 0: an algorithm gave up, and the original would run. */
    if (status == 0) {
        fy_plan_result(plan, result);
    }
    return status;
}

int
fy_chunks_run(struct fy_copies *copies, unsigned number,
              bool faults_are_findings, uint32_t *out_steps,
              union fy_raw *result)
{
    struct fy_trial *t = copies->trial;
    struct fy_plan *plan;
    struct fy_bound *call = malloc(sizeof *call);
    struct tiles *s = calloc(1, sizeof *s);
    if (!call || !s ||
        fy_guard_new(0, 1, 0, FY_GUARD_AFTER, FY_POISON_NAN, FY_T_VOID,
                     &s->inactive) != 0) {
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the child ends soon */
        return FY_ERR_NOMEM;
    }
    *call = *t->call;
    for (unsigned o = 0; o < call->function->noperands; o++) {
        if (call->views[o].naxes > 0) {
            call->views[o].host =
                copies->guard[t->images->of[o]].block + t->images->first[o];
        }
    }
    hide_handle_cells(call, (uint64_t)(uintptr_t)s->inactive.block);
    s->trial = t;
    t->state->report.context = s;
    t->state->report.on_fault = NULL; /* planning is ours, not the author's */
    int status = make_plan(call, t->target, t->seed, number,
                           (uint64_t)(uintptr_t)s->inactive.block, &plan);
    if (status == 0) {
        memset(result, 0, sizeof *result);
        status = run_steps(s, plan, number, faults_are_findings, result);
        *out_steps = plan->schedule.nsteps;
        fy_plan_free(plan);
    }
    fy_guard_free(&s->inactive);
    free(call);
    free(s);
    return status;
}

void
fy_trial_chunks(struct fy_trial *t, unsigned number)
{
    struct fy_copies *copies;
    union fy_raw result;
    uint32_t steps;
    char *got[FY_MAX_OPERANDS], how[48];
    const struct fy_axis *axes = FY_OF(t->call, fy_axis, axes);
    if (number >= AXES && (number - AXES >= t->call->function->naxes ||
                           !(axes[number - AXES].flags & FY_AXIS_SPLIT))) {
        return;
    }
    if (fy_copies_new(t, FY_GUARD_AFTER, FY_POISON_LARGE, &copies) != 0) {
        return; /* the child is short of memory: nothing to say */
    }
    if (fy_chunks_run(copies, number, true, &steps, &result) == 0) {
        for (unsigned g = 0; g < t->images->count; g++) {
            got[g] = copies->guard[g].block;
        }
        (void)snprintf(how, sizeof how, "computed in %u chunks", steps);
        fy_trial_compare(t, got, &result, FY_FINDING_CHUNKS, how);
        if (number == 0 && t->call->function->host_call != FY_NIL) {
            fy_trial_count_changes(t, got);
        }
    } else if (number == 0) {
        FY_TALLY_ADD(
            fy_tally_function(t->tally, t->call->function_index)->uncut);
    }
    fy_copies_free(copies);
}
