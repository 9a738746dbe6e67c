/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libferry-engine.so: bind, decide, plan, run. The device and its executors are
 * execute/pool.c's; calls that cannot have one in time run their originals. Runs in
 * host programs, on their threads. Long because the way of one call is read in
 * one piece.
 */
#include "config.h"

#include "pager/engine/engine.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/clock.h"
#include "common/debug.h"
#include "common/record.h"
#include "pager/base/explain.h"
#include "pager/base/lasting.h"
#include "pager/bind/handles.h"
#include "pager/decide/decision.h"
#include "pager/device/cuda/kernel_compile.h"
#include "pager/device/own_thread.h"
#include "pager/engine/fork.h"
#include "pager/engine/state.h"
#include "pager/execute/hostmem.h"
#include "pager/memory/remap.h"
#include "pager/plan/plan.h"

enum {
    MAX_DEVICE_ERRORS = 3,
    LEAST_USEFUL_BYTES = 16 << 20, /* of device memory, of any call */
    SLACK_BYTES = 256 << 10,       /* between tiles */
};

/* Copies in of LONG_SECONDS run beside kernels, which hide them if they take HIDING times
 * as long. */
static const double LONG_SECONDS = 0.01, HIDING = 1.1;

static struct fy_state state;

/* One offloaded call on its way. */
struct offload {
    const struct fy_intercepted *call;
    struct fy_bound bound;
    struct fy_decision decision;
    uint64_t lower_bound_bytes;
    struct fy_choice choice;
    bool bound_ok;
    bool held; /* handlers of the program wait */
};

/* What the device says of its last trouble. */
static void
take_note(struct fy_decision *decision, struct fy_device *of)
{
    const char *text = state.ops->error_text(of);

    (void)snprintf(decision->note, sizeof(decision->note), "%s",
                   text ? text : "");
}

static enum fy_reason
plan_reason(int status)
{
    switch (status) {
    case FY_ERR_NOFIT:
        return FY_REASON_NO_FIT;
    case FY_ERR_NOMEM:
        return FY_REASON_HOST_MEMORY;
    case FY_ERR_OVERFLOW:
        return FY_REASON_OVERFLOW;
    case FY_ERR_DEVICE:
        return FY_REASON_DEVICE_ERROR;
    case FY_ERR_COMPILE:
        return FY_REASON_NO_KERNEL;
    case FY_ERR_FAULT: /* the original meets the fault itself */
        return FY_REASON_UNMAPPED;
    default:
        return FY_REASON_UNSUPPORTED;
    }
}

/* The call's return value into the registers it is returned in. */
static void
return_value(const struct offload *offload, const union fy_raw *value)
{
    struct fy_registers *registers = offload->call->registers;
    enum fy_type type =
        fy_type_resolve((enum fy_type)offload->bound.function->return_type,
                        offload->bound.integer_bits);

    switch (type) {
    case FY_T_VOID:
        break;
    case FY_T_F32:
    case FY_T_F64:
    case FY_T_C32:
        memcpy(&registers->vector_result[0][0], &value->u[0], 8);
        break;
    case FY_T_C64:
        memcpy(&registers->vector_result[0][0], &value->u[0], 8);
        memcpy(&registers->vector_result[1][0], &value->u[1], 8);
        break;
    default: {
        struct fy_value number = fy_raw_value(type, value);
        registers->result[0] =
            number.kind == FY_V_POINTER ? number.p : (uint64_t)number.i;
        break;
    }
    }
}

/* Of a device that has been lost for good, one is enough. */
static void
count_error(const struct fy_decision *decision, struct fy_device *of)
{
    unsigned errors =
        __atomic_add_fetch(&state.device_errors, 1, __ATOMIC_RELAXED);

    fy_debug(ENGINE, "error %u of the device: %s", errors, decision->note);
    if (errors >= MAX_DEVICE_ERRORS || state.ops->memory_bytes(of) == 0) {
        __atomic_store_n(&state.device_errors, MAX_DEVICE_ERRORS,
                         __ATOMIC_RELAXED);
        fy_pool_close(&state.pool, decision->note);
    }
}

/* A status of fy_executor_run(); 0: *out has what to answer. */
static int
run_plan(struct offload *offload, const struct fy_lease *lease,
         struct fy_plan *plan, struct fy_hold *hold, enum fy_reason *out)
{
    struct fy_decision *decision = &offload->decision;
    union fy_raw value;
    decision->note[0] = '\0'; /* of a try with more memory */
    struct fy_rerun *rerun =
        fy_run_verify_begin(&state.checks, &offload->bound, decision);
    double start = fy_clock_seconds();
    int status =
        fy_executor_run(lease->executor, &plan->schedule, &decision->traffic);

    decision->traffic.kept_bytes = hold->kept_bytes;
    /* A verification puts the operands back later. */
    fy_memory_release(&state.memory, hold,
                      status == FY_OK ? FY_HOLD_RAN : FY_HOLD_FAILED);
    decision->actual_seconds = fy_clock_seconds() - start;
    if (status == FY_ERR_DEVICE || status == FY_ERR_NOFIT ||
        status == FY_ERR_BUSY || status == FY_ERR_UNSUPPORTED) {
        take_note(decision, lease->device);
    }
    if (status == FY_ERR_DEVICE) {
        count_error(decision, lease->device);
    }
    if (status) {
        if (rerun) {
            fy_rerun_put_back(rerun);
        }
        fy_rerun_free(rerun);
        return status;
    }
    __atomic_store_n(&state.device_errors, 0, __ATOMIC_RELAXED);
    fy_plan_result(plan, &value);
    *out = FY_REASON_NONE;
    if (rerun) {
        *out = fy_run_verify_take(rerun, &value);
    } else {
        return_value(offload, &value);
    }
    return FY_OK;
}

static void
count_tried(const struct fy_tried *tried)
{
    struct fy_record *record = state.services->record;

    if (record && tried->trial && tried->function < record->nrows) {
        FY_RECORD_ADD(record->rows[tried->function].trials, 1);
        FY_RECORD_ADD(record->rows[tried->function].trial_ns,
                      tried->lost_seconds * 1e9);
    }
}

/* With device and executor: plan, decide again with the plan, run. */
static enum fy_reason
plan_and_run(struct offload *offload, const struct fy_lease *lease,
             struct fy_hold *hold, bool *ran_out)
{
    const struct fy_intercepted *call = offload->call;
    const struct fy_target target = {
        .original = call->original,
        .symbol = call->symbol,
        .integer_bits = offload->bound.integer_bits,
        .sibling = state.services->sibling,
    };
    const struct fy_rates *rates = fy_choice_rates(&state.chooser);
    bool missing = false;
    const struct fy_plan_options options = {
        .ops = state.ops,
        .device = lease->device,
        .resident = hold->operands,
        .kept = hold->kept,
        .budget_bytes = lease->budget_bytes + hold->held_bytes,
        .overlap_bytes =
            rates->overlap > 0 ? (uint64_t)(rates->in_bytes / 1000) : 0,
        .kernel_bytes =
            fy_cost_kernels(rates, &offload->bound) * rates->in_bytes,
        .random = state.settings->chunk_random,
        .seed = state.settings->chunk_seed,
        .missing = &missing,
    };
    struct fy_plan *plan;
    double start = fy_clock_seconds();
    int status = fy_plan_new(&offload->bound, &target, &options, &plan);

    *ran_out = false;
    fy_debug(PLAN,
             "%s with %llu bytes of device memory: %s, %u steps, predicted "
             "%llu bytes in, %llu out",
             status ? fy_status_text(status) : plan->method,
             (unsigned long long)options.budget_bytes,
             status ? "no plan" : "planned", status ? 0 : plan->schedule.nsteps,
             status ? 0ULL : (unsigned long long)plan->predicted.bytes_in,
             status ? 0ULL : (unsigned long long)plan->predicted.bytes_out);
    if (status && missing) { /* also where an algorithm found no way without */
        take_note(&offload->decision, lease->device);
        return FY_REASON_UNSUPPORTED;
    }
    if (status == FY_ERR_NOFIT && !offload->decision.note[0]) {
        (void)snprintf(offload->decision.note, sizeof(offload->decision.note),
                       "%llu KiB of device memory could be had",
                       (unsigned long long)(lease->budget_bytes >> 10));
    }
    if (status == FY_ERR_COMPILE) {
        take_note(&offload->decision, lease->device);
        if (state
                .without_kernel) { /* the function runs no more on the device */
            __atomic_store_n(
                &state.without_kernel[offload->bound.function_index], 1,
                __ATOMIC_RELAXED);
        }
    }
    if (status) {
        return plan_reason(status);
    }
    plan->schedule.hold = hold;
    plan->predicted.hashed_bytes = hold->hashed_bytes;
    plan->predicted.bytes_in -= hold->kept_bytes < plan->predicted.bytes_in
                                    ? hold->kept_bytes
                                    : plan->predicted.bytes_in;
    if (hold->kept_bytes > 0) {
        plan->end_bytes = 0; /* earlier than planned */
    }
    offload->decision.method = plan->method;
    offload->lower_bound_bytes =
        fy_lower_bound_bytes(&offload->bound, options.budget_bytes);
    enum fy_reason reason = FY_REASON_UNPROFITABLE;
    if (fy_choice_pays(&state.chooser, &offload->choice, &offload->bound,
                       &plan->predicted, plan->touched_bytes, plan->end_bytes,
                       &offload->decision)) {
        status = run_plan(offload, lease, plan, hold, &reason);
        if (status == FY_OK) {
            struct fy_tried tried = fy_choice_ran(
                &state.chooser, &offload->choice, fy_clock_seconds() - start);
            count_tried(&tried);
        } else if (status == FY_ERR_FAULT) {
            /* It is computed twice, as all calls may be that find it so. */
            (void)fy_choice_ran(&state.chooser, &offload->choice,
                                fy_clock_seconds() - start +
                                    offload->decision.original_seconds);
        }
        *ran_out = status == FY_ERR_NOFIT;
        reason = status ? plan_reason(status) : reason;
    }
    fy_plan_free(plan);
    return reason;
}

/* The call's operands as boxes. */
static double
operand_bytes(const struct fy_bound *bound)
{
    double bytes = 0;

    for (unsigned i = 0; i < bound->function->noperands; i++) {
        const struct fy_view *view = &bound->views[i];
        double box = view->element_bytes;
        for (unsigned k = 0; k < view->naxes; k++) {
            box *= (double)view->extent[k];
        }
        bytes += view->naxes > 0 ? box : 0;
    }
    return bytes;
}

/*
 * More device memory than this does not help the call: its operands, and as much again
 * for what an algorithm keeps beside them.
 */
static uint64_t
useful_bytes(const struct fy_bound *bound)
{
    double bytes = LEAST_USEFUL_BYTES + 2 * operand_bytes(bound);

    return bytes < (double)INT64_MAX ? (uint64_t)bytes : INT64_MAX;
}

/* Returns the memory with which the call needs no chunks: for that mirrors of others are
 * evicted. */
static uint64_t
needed_bytes(const struct fy_bound *bound, uint64_t resident)
{
    double bytes = operand_bytes(bound);
    if (bound->function->blocked_by) {
        bytes *= 2;
    }
    bytes = bytes > (double)resident ? bytes - (double)resident : 0;
    bytes += SLACK_BYTES;
    return bytes < (double)INT64_MAX ? (uint64_t)bytes : INT64_MAX;
}

/* The program's own BLAS, by a function that every one has. */
static void *
find_gemm(void *original)
{
    static const char *const names[] = {"dgemm_", "dgemm_64_", "scipy_dgemm_",
                                        "scipy_dgemm_64_"};
    void *found = NULL;

    for (size_t i = 0; i < sizeof(names) / sizeof(*names) && !found; i++) {
        found = state.services->sibling
                    ? state.services->sibling(original, names[i])
                    : NULL;
    }
    return found;
}

/* Returns true if the program uses such a device itself: then nothing stays there. */
static bool
give_up_mirrors(void)
{
    bool is_shared = state.ops->is_shared && state.ops->is_shared();
    if (is_shared && fy_memory_bytes(&state.memory) > 0) {
        fy_memory_evict(&state.memory, UINT64_MAX);
    }
    return is_shared;
}

/*
 * Returns true if kernels hide the copies in: mirrors would save none of the call's time,
 * and to look at them would cost some (2 GiB: 4 to 8 ms a scan). A tier by name has them.
 */
static bool
hides_copies(const struct fy_bound *bound)
{
    const struct fy_rates *rates = fy_choice_rates(&state.chooser);
    const double copies =
        (double)fy_least_traffic(bound->views, bound->function->noperands)
            .bytes_in /
        rates->in_bytes;

    return rates->overlap > 0 && !state.settings->force &&
           state.settings->residency == FY_RESIDENCY_AUTO &&
           copies > LONG_SECONDS &&
           fy_cost_kernels(rates, bound) > HIDING * copies;
}

/* Makes or finds objects for the operands. New mirrors get at most half of the lease, or
 * the operands' need, and none of it if those do not fit: then each byte saves traffic
 * of this call. */
static void
hold_operands(const struct offload *offload, struct fy_lease *lease,
              uint64_t needed, struct fy_hold *hold)
{
    const struct fy_rates *rates = fy_choice_rates(&state.chooser);
    const uint64_t room =
        needed <= lease->budget_bytes ? lease->budget_bytes : 0;
    const uint64_t least = needed > room       ? UINT64_MAX
                           : needed < room / 2 ? room / 2
                                               : room - needed;
    uint64_t left = room;

    const bool is_shared = give_up_mirrors();
    if (is_shared || hides_copies(&offload->bound)) {
        *hold = (struct fy_hold){.count = 0};
        hold->absent[is_shared ? FY_ABSENCE_SHARED_DEVICE : FY_ABSENCE_HIDDEN] =
            1;
        return;
    }
    fy_memory_compare(&state.memory,
                      state.settings->force ||
                          rates->cpu_hash_bytes > rates->in_bytes);
    fy_memory_hold(&state.memory, lease->device, offload->bound.views,
                   offload->bound.function->noperands, &left, least, hold);
    if (left != room) {
        fy_pool_part(&state.pool, lease, lease->budget_bytes + left - room);
    }
}

static void
count_absent(const struct offload *offload, const struct fy_hold *hold)
{
    struct fy_record *record = state.services->record;

    for (unsigned i = 0; record && i < FY_ABSENCE_COUNT; i++) {
        if (hold->absent[i] > 0 && offload->call->function < record->nrows) {
            FY_RECORD_ADD(record->rows[offload->call->function].absent[i],
                          hold->absent[i]);
        }
    }
}

/*
 * Device memory may run out in the middle, also in a library's own allocation
 * or because of another process: again with half of it, as long as that plans.
 */
static enum fy_reason
run_on_device(struct offload *offload)
{
    struct fy_decision *decision = &offload->decision;
    struct fy_lease lease;
    bool ran_out;
    const struct fy_bound *bound = &offload->bound;
    const uint64_t useful = useful_bytes(bound);
    const uint64_t resident =
        fy_memory_want(&state.memory, bound->views, bound->function->noperands);
    const uint64_t needed = needed_bytes(bound, resident);
    double worth =
        state.settings->force ? INFINITY : decision->original_seconds;
    double start = fy_clock_seconds();
    enum fy_reason reason =
        fy_pool_take(&state.pool, useful, needed < useful ? needed : useful,
                     worth, decision->note, &lease);

    if (reason != FY_REASON_NONE) {
        return reason;
    }
    fy_choice_opened(&state.chooser, fy_clock_seconds() - start);
    if (fy_choice_is_unmeasured(&state.chooser, &lease)) {
        fy_choice_measure(&state.chooser, &lease,
                          find_gemm(offload->call->original));
        fy_choice_begin(&state.chooser, &offload->choice, &offload->bound,
                        offload->call->caller);
    }
    struct fy_hold hold;
    hold_operands(offload, &lease, needed, &hold);
    count_absent(offload, &hold);
    do { /* again without mirrors: the release has emptied the hold */
        reason = plan_and_run(offload, &lease, &hold, &ran_out);
        fy_memory_release(&state.memory, &hold, FY_HOLD_UNUSED);
    } while (ran_out && fy_pool_shrink(&state.pool, &lease));
    fy_pool_release(&state.pool, &lease);
    return reason;
}

/* A device with functions of its own runs only what is told to it: whether some
 * variant of the function is. Asked first, since most calls are of no other. */
static bool
has_device_call(uint32_t function)
{
    const struct fy_function *rows =
        FY_TABLE(state.services->model, fy_function, functions);

    for (; function != FY_NIL; function = rows[function].next_variant) {
        if (rows[function].cuda_call != FY_NIL || rows[function].blocked_by) {
            return true;
        }
    }
    return false;
}

/* See `hold' and `call' in engine.h. */
static bool
hold(struct offload *offload)
{
    if (!offload->held && state.services->hold(offload->call)) {
        offload->held = true;
        fy_own_block()->raised = 0;
    }
    return offload->held;
}

static enum fy_reason
decide(struct offload *offload)
{
    const struct fy_intercepted *call = offload->call;
    const struct fy_symbol *symbol =
        &FY_TABLE(state.services->model, fy_symbol, symbols)[call->symbol];
    unsigned bits = symbol->integer_bits;
    enum fy_reason reason;

    if ((state.verifier || fy_explains()) && !hold(offload)) {
        return FY_REASON_IN_HANDLER;
    }
    if (__atomic_load_n(&state.device_errors, __ATOMIC_RELAXED) >=
        MAX_DEVICE_ERRORS) {
        fy_pool_why(&state.pool, offload->decision.note);
        return FY_REASON_DISABLED;
    }
    if (fy_pool_is_closed(&state.pool)) {
        fy_pool_why(&state.pool, offload->decision.note);
        return FY_REASON_NO_DEVICE;
    }
    if (fy_run_verify_is_off(&state.checks, call->function)) {
        return FY_REASON_DISABLED;
    }
    if (!state.verifier && state.ops->resolve &&
        !has_device_call(call->function)) {
        return FY_REASON_NO_DEVICE_CALL;
    }
    if (bits == 0 &&
        fy_function_uses_integer(state.services->model, call->function) &&
        !fy_provider_is_known(&state.providers, call->original, &bits)) {
        if (!hold(offload)) {
            return FY_REASON_IN_HANDLER;
        }
        bits = fy_provider_integer_bits(&state.providers, state.services,
                                        call->original);
    }
    if (state.verifier) {
        fy_verify_intercepted(state.verifier, call, bits, fy_handle_find);
        return FY_REASON_DISABLED;
    }
    /* Each decision is made anew if the user wants to hear of each. */
    const uint64_t shape =
        state.settings->force || fy_debugs(DECIDE) || fy_explains()
            ? 0
            : fy_choice_shape(call, state.services->model, bits);
    if (shape != 0 && fy_choice_is_settled(call, shape)) {
        return FY_REASON_UNPROFITABLE;
    }
    reason = fy_bind(state.services->model, call->function, bits,
                     call->registers, fy_handle_find, &offload->bound);
    if (reason != FY_REASON_NONE) {
        return reason;
    }
    offload->bound_ok = true;
    if (offload->bound.function->flags & FY_FN_OBSERVE_ONLY) {
        return FY_REASON_UNSUPPORTED; /* nothing would come back */
    }
    if (state.without_kernel &&
        __atomic_load_n(&state.without_kernel[offload->bound.function_index],
                        __ATOMIC_RELAXED)) {
        return FY_REASON_NO_KERNEL;
    }
    fy_choice_begin(&state.chooser, &offload->choice, &offload->bound,
                    call->caller);
    const struct fy_memory_guess resident =
        fy_memory_expect(&state.memory, offload->bound.views,
                         offload->bound.function->noperands);
    if (!fy_choice_may_pay(&state.chooser, &offload->choice, &offload->bound,
                           &resident, &offload->decision)) {
        if (resident.kept_bytes == 0) {
            fy_choice_settle(&offload->choice, call, shape);
        }
        return FY_REASON_UNPROFITABLE;
    }
    if (!hold(offload)) {
        return FY_REASON_IN_HANDLER;
    }
    reason = fy_bound_check_memory(&offload->bound);
    if (reason != FY_REASON_NONE) {
        return reason;
    }
    return run_on_device(offload);
}

static void
count(const struct offload *offload)
{
    const struct fy_decision *decision = &offload->decision;

    if (!state.services->record ||
        (decision->reason != FY_REASON_NONE &&
         decision->reason != FY_REASON_VERIFIED) ||
        offload->call->function >= state.services->record->nrows) {
        return;
    }
    struct fy_record_row *row =
        &state.services->record->rows[offload->call->function];
    if (decision->reason == FY_REASON_NONE) {
        FY_RECORD_ADD(row->offloaded, 1);
    }
    FY_RECORD_ADD(row->bytes_in, decision->traffic.bytes_in);
    FY_RECORD_ADD(row->bytes_out, decision->traffic.bytes_out);
    FY_RECORD_ADD(row->kept_bytes, decision->traffic.kept_bytes);
    FY_RECORD_ADD(row->chunks, decision->traffic.chunks);
    FY_RECORD_ADD(row->lower_bound_bytes, offload->lower_bound_bytes);
    FY_RECORD_ADD(row->device_ns, decision->actual_seconds * 1e9);
}

static void
log_decision(const struct offload *offload)
{
    const struct fy_decision *d = &offload->decision;
    const struct fy_symbol *symbol = &FY_TABLE(state.services->model, fy_symbol,
                                               symbols)[offload->call->symbol];
    fy_debug(DECIDE,
             "%s called from %p: %s; predicted %.3g s here, %.3g s on the "
             "device; took %.3g s%s%s",
             fy_model_string(state.services->model, symbol->name),
             offload->call->caller,
             d->reason == FY_REASON_NONE ? "offloaded"
                                         : fy_reason_word(d->reason),
             d->original_seconds, d->device_seconds, d->actual_seconds,
             d->note[0] ? ": " : "", d->note);
}

static enum fy_reason
engine_call(const struct fy_intercepted *call)
{
    int saved = errno;
    uint32_t raised = fy_floating_point() & FY_RAISED;
    struct offload offload;

    offload.call = call;
    offload.bound_ok = false;
    offload.held = false;
    offload.lower_bound_bytes = 0;
    memset(&offload.decision, 0, sizeof(offload.decision));
    enum fy_reason reason = decide(&offload);
    offload.decision.reason = reason;
    offload.decision.model = state.services->model;
    offload.decision.symbol = call->symbol;
    offload.decision.function = call->function;
    offload.decision.caller = call->caller;
    offload.decision.bound = offload.bound_ok ? &offload.bound : NULL;
    count(&offload);
    if (fy_debugs(DECIDE)) {
        log_decision(&offload);
    }
    if (reason == FY_REASON_UNPROFITABLE && offload.bound_ok) {
        fy_choice_declined(&offload.choice);
    }
    if (reason == FY_REASON_VERIFIED) {
        fy_run_verify_decision(&offload.decision);
    } else if (offload.held) { /* all are, where anything is explained */
        fy_explain(&offload.decision);
    }
    if (offload.held) {
        raised |= fy_own_block()->raised;
    }
    fy_set_floating_point((fy_floating_point() & ~FY_RAISED) | raised);
    errno = saved;
    return reason;
}

static enum fy_reason
engine_compare(const struct fy_intercepted *call)
{
    int saved = errno;
    state.services->enter(1);
    enum fy_reason reason = fy_run_verify_compare(&state.checks, call);
    state.services->enter(-1);
    errno = saved;
    return reason;
}

static void
engine_silence(void)
{
    __atomic_store_n(&fy_debug_mask, 0, __ATOMIC_RELAXED);
}

static void
engine_ran(uint64_t nanoseconds)
{
    struct fy_tried tried =
        fy_choice_original_ran(&state.chooser, 1e-9 * (double)nanoseconds);

    count_tried(&tried);
}

static void
engine_observe(const struct fy_intercepted *call)
{
    const struct fy_function *function = &FY_TABLE(
        state.services->model, fy_function, functions)[call->function];
    const struct fy_symbol *symbol =
        &FY_TABLE(state.services->model, fy_symbol, symbols)[call->symbol];
    struct fy_value cells[FY_MAX_CELLS];
    unsigned bits = symbol->integer_bits;
    int saved = errno;

    state.services->enter(1);
    if (function->flags & FY_FN_FREES) {
        fy_handle_freed(call->registers->integer[0]);
    }
    if (function->flags & FY_FN_MAKES && call->registers->result[0] != 0) {
        if (bits == 0 &&
            fy_function_uses_integer(state.services->model, call->function)) {
            bits = fy_provider_integer_bits(&state.providers, state.services,
                                            call->original);
        }
        if (fy_bind_cells(state.services->model, call->function, bits,
                          call->registers, true, cells) == FY_REASON_NONE) {
            fy_handle_made(call->registers->result[0], call->function,
                           function->ncells, cells);
        } else {
            fy_handle_freed(call->registers->result[0]);
        }
    }
    state.services->enter(-1);
    errno = saved;
}

/*
 * The device is left as it is, in the middle of a step: a new one is opened at
 * the next call, unless that happens again and again.
 */
static void
engine_abandon(void)
{
    fy_run_verify_drop();
    if (fy_pool_abandon(&state.pool)) {
        fy_memory_forget(&state.memory);
        __atomic_fetch_add(&state.device_errors, 1, __ATOMIC_RELAXED);
    }
}

static void
engine_forget(void)
{
    fy_provider_forget(&state.providers);
}

static void
engine_loading(const char *file)
{
    int saved = errno;

    if (state.ops && state.ops->loading) {
        state.ops->loading(file);
        (void)give_up_mirrors();
    }
    errno = saved;
}

static void
end_threads(void)
{
    fy_pool_end_threads(&state.pool);
}

static void *
engine_remap(void *old, size_t old_bytes, size_t new_bytes, int flags, void *to)
{
    if (!state.memory.has_watched) {
        errno = EFAULT;
        return MAP_FAILED;
    }
    return fy_remap(old, old_bytes, new_bytes, flags, to);
}

static void
engine_unwatch(void)
{
    fy_memory_unwatch(&state.memory);
}

static const struct fy_engine engine = {
    .size_bytes = sizeof(engine),
    .call = engine_call,
    .observe = engine_observe,
    .abandon = engine_abandon,
    .forget = engine_forget,
    .compare = engine_compare,
    .ran = engine_ran,
    .loading = engine_loading,
    .silence = engine_silence,
    .end_threads = end_threads,
    .remap = engine_remap,
    .unwatch = engine_unwatch,
};

__attribute__((visibility("default"))) const struct fy_engine *
fy_engine_start(const struct fy_shim_services *given)
{
    int saved = errno;

    if (!given || given->size_bytes != sizeof(*given) || !given->model ||
        !given->enter || !given->hold) {
        return NULL;
    }
    struct fy_settings *settings = fy_lasting(sizeof(*settings));
    if (!settings) {
        errno = saved;
        return NULL;
    }
    state.services = given;
    state.settings = settings;
    fy_own_threads_tell(given);
    if (fy_settings_decode(given->settings, settings, NULL)) {
        errno = saved; /* the tool has checked it: someone else's text */
        return NULL;
    }
    fy_debug_start((uint32_t)settings->debug, settings->debug_file);
    /* The tool has looked for a card: whoever still says auto wants one. */
    state.ops = fy_device_find(
        strcmp(settings->device, "auto") == 0 ? "cuda" : settings->device);
    const char *kind = state.ops ? state.ops->name : "host";
    fy_choice_start(&state.chooser, settings, kind);
    fy_kernel_cache_to(settings->kernels);
    state.without_kernel = calloc(given->model->functions.count + 1, 1);
    fy_explain_to(settings->explain);
    fy_run_verify_start(&state.checks, settings, given->model);
    if (settings->verify[0] &&
        fy_verifier_new(given->model, settings->verify, given->sibling,
                        &state.verifier)) {
        errno = saved;
        return NULL;
    }
    state.pool.memory = &state.memory;
    /* Random chunks are for tests, which have small operands. */
    if (fy_memory_start(&state.memory, settings->residency,
                        settings->chunk_random ? 4096 : 0) ||
        fy_pool_start(&state.pool, state.ops, settings->memory_bytes) ||
        fy_fork_start(&state)) {
        errno = saved;
        return NULL;
    }
    if (state.ops && state.ops->early) {
        state.ops->early(settings->early);
    }
    fy_debug(ENGINE, "started: device %s, memory limit %llu bytes%s%s",
             state.ops ? state.ops->name : "none",
             (unsigned long long)settings->memory_bytes,
             state.verifier ? ", verifies" : "",
             settings->force ? ", forced" : "");
    errno = saved;
    return &engine;
}
