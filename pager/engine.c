/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libferry-engine.so: bind, decide, plan, run. One device, opened at the first
 * call that may use it, and one executor behind a lock; calls that cannot have
 * it in time run their originals. Runs in host programs, on their threads.
 */
#include "config.h"

#include "pager/engine.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/record.h"
#include "common/settings.h"
#include "pager/cost.h"
#include "pager/executor.h"
#include "pager/explain.h"
#include "pager/handles.h"
#include "pager/host.h"
#include "pager/plan.h"
#include "pager/provider.h"
#include "pager/verify.h"

enum {
    MAX_DEVICE_ERRORS = 3,
    MAX_WAIT_NS = 2000000000, /* for the device, before the original runs */
};

static const struct fy_shim_services *services;
static struct fy_settings settings;
static struct fy_rates rates;
static const struct fy_device_ops *ops; /* NULL: no device */

/* Whoever set `device_taken' has device and executor for itself. */
static pthread_mutex_t device_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t device_released; /* by CLOCK_MONOTONIC */
static bool device_taken;
static pthread_t holder; /* while device_taken */
static uint64_t releases;
/* Somebody waited for nothing at this one: its holder may have left the call by
 * longjmp out of the original, so nobody waits for it again. */
static uint64_t given_up_at = UINT64_MAX;

static struct fy_device *device;
static struct fy_device *inherited; /* the parent process's, to be closed */
static struct fy_executor *executor;
static bool open_failed;
static unsigned busy_opens; /* by whoever had taken the device */
static bool forked; /* of a process that used a device that cannot follow */

static struct fy_verifier *verifier; /* ferry verify: nothing is offloaded */
static unsigned device_errors;       /* since a call succeeded */

/* One offloaded call on its way. */
struct offload {
    const struct fy_intercepted *call;
    struct fy_bound bound;
    struct fy_decision decision;
    uint64_t lower_bound_bytes;
    bool bound_ok;
};

static double
now_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int
init_released(void)
{
    pthread_condattr_t attributes;
    int error = pthread_condattr_init(&attributes);

    if (error) {
        return error;
    }
    error = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    if (!error) {
        error = pthread_cond_init(&device_released, &attributes);
    }
    pthread_condattr_destroy(&attributes);
    return error;
}

/* None of these locks is ever held for long. */
static void
before_fork(void)
{
    fy_handles_before_fork();
    fy_provider_before_fork();
    fy_explain_before_fork();
    pthread_mutex_lock(&device_lock);
}

static void
after_fork_parent(void)
{
    pthread_mutex_unlock(&device_lock);
    fy_explain_after_fork();
    fy_provider_after_fork();
    fy_handles_after_fork();
}

/*
 * Other threads are gone: whoever had taken the device, and the device's own.
 * It is left behind as it is.
 */
static void
after_fork_child(void)
{
    if (device && ops != &fy_device_host) {
        forked = true;
    } else if (device) {
        inherited = device; /* closed when the child opens its own */
    }
    device = NULL;
    executor = NULL;
    device_taken = false;
    init_released();
    after_fork_parent();
}

/* What the device says of its last trouble; of NULL: of opening one. */
static void
take_note(struct fy_decision *decision, struct fy_device *of)
{
    const char *text = ops->error_text(of);

    (void)snprintf(decision->note, sizeof(decision->note), "%s",
                   text ? text : "");
}

/* Opens device and executor once. Has taken the device. */
static enum fy_reason
open_device(struct fy_decision *decision)
{
    if (forked) {
        return FY_REASON_FORKED;
    }
    if (executor) {
        return FY_REASON_NONE;
    }
    if (!ops || open_failed) {
        return FY_REASON_NO_DEVICE;
    }
    if (inherited) {
        ops->close(inherited);
        inherited = NULL;
    }
    int status = ops->open(settings.memory_bytes, &device);
    if (status) {
        device = NULL;
        take_note(decision, NULL);
        /* BUSY: not from inside a library's constructor; later it may. */
        if (status != FY_ERR_BUSY || ++busy_opens == MAX_DEVICE_ERRORS) {
            __atomic_store_n(&open_failed, true, __ATOMIC_RELAXED);
        }
        return FY_REASON_NO_DEVICE;
    }
    if (fy_executor_new(device, &executor)) {
        executor = NULL;
        ops->close(device);
        device = NULL;
        __atomic_store_n(&open_failed, true, __ATOMIC_RELAXED);
        return FY_REASON_NO_DEVICE;
    }
    return FY_REASON_NONE;
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

/* Whether the model expects the device to be faster; --force does not ask. */
static bool
pays(struct offload *offload, const struct fy_traffic *traffic,
     double touched_bytes)
{
    struct fy_decision *decision = &offload->decision;

    decision->original_seconds = fy_cost_original(&rates, &offload->bound);
    decision->device_seconds =
        fy_cost_device(&rates, &offload->bound, traffic, touched_bytes);
    return settings.force ||
           decision->device_seconds < decision->original_seconds;
}

/* The best any plan could do, before one is made. */
static bool
may_pay(struct offload *offload)
{
    const struct fy_bound *bound = &offload->bound;
    struct fy_traffic least = {.chunks = 1};

    for (unsigned i = 0; i < bound->function->noperands; i++) {
        uint64_t bytes = fy_view_all_elements(&bound->views[i]) *
                         bound->views[i].element_bytes;
        if (bound->views[i].access & FY_ACCESS_IN) {
            least.bytes_in += bytes;
        }
        if (bound->views[i].access & FY_ACCESS_OUT) {
            least.bytes_out += bytes;
        }
    }
    return pays(offload, &least, 0);
}

static enum fy_reason
run_plan(struct offload *offload, struct fy_plan *plan)
{
    struct fy_decision *decision = &offload->decision;
    union fy_raw value;
    double start = now_seconds();
    int status = fy_executor_run(executor, &plan->schedule, &decision->traffic);

    decision->actual_seconds = now_seconds() - start;
    if (status == FY_ERR_DEVICE) {
        __atomic_fetch_add(&device_errors, 1, __ATOMIC_RELAXED);
        take_note(decision, device);
    }
    if (status) {
        return plan_reason(status);
    }
    __atomic_store_n(&device_errors, 0, __ATOMIC_RELAXED);
    fy_plan_result(plan, &value);
    return_value(offload, &value);
    return FY_REASON_NONE;
}

/* With device and executor: plan, decide again with the plan, run. */
static enum fy_reason
plan_and_run(struct offload *offload)
{
    const struct fy_intercepted *call = offload->call;
    const struct fy_target target = {
        .original = call->original,
        .symbol = call->symbol,
        .integer_bits = offload->bound.integer_bits,
        .sibling = services->sibling,
    };
    const struct fy_plan_options options = {
        .ops = ops,
        .device = device,
        .budget_bytes = fy_executor_budget_bytes(executor),
        .random = settings.chunk_random,
        .seed = settings.chunk_seed,
    };
    struct fy_plan *plan;
    int status = fy_plan_new(&offload->bound, &target, &options, &plan);
    enum fy_reason reason;

    if (status) {
        return plan_reason(status);
    }
    offload->decision.method = plan->method;
    offload->lower_bound_bytes =
        fy_lower_bound_bytes(&offload->bound, options.budget_bytes);
    if (pays(offload, &plan->predicted, plan->touched_bytes)) {
        reason = run_plan(offload, plan);
    } else {
        reason = FY_REASON_UNPROFITABLE;
    }
    fy_plan_free(plan);
    return reason;
}

/* Takes the device, but does not wait for it longer than it is worth. */
static bool
take_device(double worth_seconds)
{
    struct timespec until;
    uint64_t wait = MAX_WAIT_NS;
    int error = 0;

    if (!settings.force && worth_seconds * 1e9 < (double)wait) {
        wait = (uint64_t)(worth_seconds * 1e9);
    }
    clock_gettime(CLOCK_MONOTONIC, &until);
    wait += (uint64_t)until.tv_nsec;
    until.tv_sec += (time_t)(wait / 1000000000);
    until.tv_nsec = (long)(wait % 1000000000);
    pthread_mutex_lock(&device_lock);
    while (device_taken && error == 0 && given_up_at != releases) {
        error = pthread_cond_timedwait(&device_released, &device_lock, &until);
    }
    if (error) {
        given_up_at = releases;
    }
    bool taken = !device_taken;
    if (taken) {
        device_taken = true;
        holder = pthread_self();
    }
    pthread_mutex_unlock(&device_lock);
    return taken;
}

static void
release_device(void)
{
    pthread_mutex_lock(&device_lock);
    device_taken = false;
    releases++;
    pthread_cond_signal(&device_released);
    pthread_mutex_unlock(&device_lock);
}

/* A device with functions of its own runs only what is told to it: whether some
 * variant of the function is. Asked first, since most calls are of no other. */
static bool
has_device_call(uint32_t function)
{
    const struct fy_function *rows =
        FY_TABLE(services->model, fy_function, functions);

    for (; function != FY_NIL; function = rows[function].next_variant) {
        if (rows[function].cuda_call != FY_NIL || rows[function].blocked_by) {
            return true;
        }
    }
    return false;
}

static enum fy_reason
decide(struct offload *offload)
{
    const struct fy_intercepted *call = offload->call;
    const struct fy_symbol *symbol =
        &FY_TABLE(services->model, fy_symbol, symbols)[call->symbol];
    unsigned bits = symbol->integer_bits;
    enum fy_reason reason;

    if (__atomic_load_n(&device_errors, __ATOMIC_RELAXED) >=
        MAX_DEVICE_ERRORS) {
        return FY_REASON_DISABLED;
    }
    if (!ops || __atomic_load_n(&open_failed, __ATOMIC_RELAXED)) {
        return FY_REASON_NO_DEVICE;
    }
    if (!verifier && ops->resolve && !has_device_call(call->function)) {
        return FY_REASON_NO_DEVICE_CALL;
    }
    if (bits == 0 &&
        fy_function_uses_integer(services->model, call->function)) {
        bits = fy_provider_integer_bits(services, call->original);
    }
    if (verifier) {
        fy_verify_intercepted(verifier, call, bits, fy_handle_find);
        return FY_REASON_DISABLED;
    }
    reason = fy_bind(services->model, call->function, bits, call->registers,
                     fy_handle_find, &offload->bound);
    if (reason != FY_REASON_NONE) {
        return reason;
    }
    offload->bound_ok = true;
    if (!may_pay(offload)) {
        return FY_REASON_UNPROFITABLE;
    }
    reason = fy_bound_check_memory(&offload->bound);
    if (reason != FY_REASON_NONE) {
        return reason;
    }
    if (!take_device(offload->decision.original_seconds)) {
        return FY_REASON_DEVICE_BUSY;
    }
    reason = open_device(&offload->decision);
    if (reason == FY_REASON_NONE) {
        reason = plan_and_run(offload);
    }
    release_device();
    return reason;
}

static void
count(const struct offload *offload)
{
    const struct fy_decision *decision = &offload->decision;

    if (!services->record || decision->reason != FY_REASON_NONE ||
        offload->call->function >= services->record->nrows) {
        return;
    }
    struct fy_record_row *row =
        &services->record->rows[offload->call->function];
    FY_RECORD_ADD(row->offloaded, 1);
    FY_RECORD_ADD(row->bytes_in, decision->traffic.bytes_in);
    FY_RECORD_ADD(row->bytes_out, decision->traffic.bytes_out);
    FY_RECORD_ADD(row->chunks, decision->traffic.chunks);
    FY_RECORD_ADD(row->lower_bound_bytes, offload->lower_bound_bytes);
    FY_RECORD_ADD(row->device_ns, decision->actual_seconds * 1e9);
}

static enum fy_reason
engine_call(const struct fy_intercepted *call)
{
    int saved = errno;
    struct offload offload;

    offload.call = call;
    offload.bound_ok = false;
    offload.lower_bound_bytes = 0;
    memset(&offload.decision, 0, sizeof(offload.decision));
    services->enter(1);
    enum fy_reason reason = decide(&offload);
    offload.decision.reason = reason;
    offload.decision.model = services->model;
    offload.decision.symbol = call->symbol;
    offload.decision.function = call->function;
    offload.decision.caller = call->caller;
    offload.decision.bound = offload.bound_ok ? &offload.bound : NULL;
    count(&offload);
    fy_explain(&offload.decision);
    services->enter(-1);
    errno = saved;
    return reason;
}

static void
engine_observe(const struct fy_intercepted *call)
{
    const struct fy_function *function =
        &FY_TABLE(services->model, fy_function, functions)[call->function];
    const struct fy_symbol *symbol =
        &FY_TABLE(services->model, fy_symbol, symbols)[call->symbol];
    struct fy_value cells[FY_MAX_CELLS];
    unsigned bits = symbol->integer_bits;
    int saved = errno;

    services->enter(1);
    if (function->flags & FY_FN_FREES) {
        fy_handle_freed(call->registers->integer[0]);
    }
    if (function->flags & FY_FN_MAKES && call->registers->result[0] != 0) {
        if (bits == 0 &&
            fy_function_uses_integer(services->model, call->function)) {
            bits = fy_provider_integer_bits(services, call->original);
        }
        if (fy_bind_cells(services->model, call->function, bits,
                          call->registers, cells) == FY_REASON_NONE) {
            fy_handle_made(call->registers->result[0], call->function,
                           function->ncells, cells);
        } else {
            fy_handle_freed(call->registers->result[0]);
        }
    }
    services->enter(-1);
    errno = saved;
}

/*
 * The device is left as it is, in the middle of a step: a new one is opened at
 * the next call, unless that happens again and again.
 */
static void
engine_abandon(void)
{
    if (device_taken && pthread_equal(holder, pthread_self())) {
        device = NULL;
        executor = NULL;
        __atomic_fetch_add(&device_errors, 1, __ATOMIC_RELAXED);
        release_device();
    }
}

static const struct fy_engine engine = {
    .size_bytes = sizeof(engine),
    .call = engine_call,
    .observe = engine_observe,
    .abandon = engine_abandon,
    .forget = fy_provider_forget,
};

__attribute__((visibility("default"))) const struct fy_engine *
fy_engine_start(const struct fy_shim_services *given)
{
    int saved = errno;

    if (!given || given->size_bytes < sizeof(*given) || !given->model ||
        !given->enter) {
        return NULL;
    }
    services = given;
    if (fy_settings_decode(given->settings, &settings, NULL)) {
        errno = saved; /* the tool has checked it: someone else's text */
        return NULL;
    }
    if (settings.faults[0]) {
        struct fy_host_control control;
        if (fy_host_control_parse(settings.faults, &control)) {
            errno = saved;
            return NULL;
        }
        fy_host_control_set(NULL, &control);
    }
    /* The tool has looked for a card: whoever still says auto wants one. */
    ops = fy_device_find(
        strcmp(settings.device, "auto") == 0 ? "cuda" : settings.device);
    const char *kind = ops ? ops->name : "host";
    fy_rates_default(kind, &rates);
    if (settings.calibration[0] &&
        fy_rates_read(settings.calibration, kind, &rates) == FY_ERR_INVALID) {
        fy_rates_default(kind, &rates);
    }
    fy_explain_to(settings.explain);
    if (settings.verify[0] && fy_verifier_new(given->model, settings.verify,
                                              given->sibling, &verifier)) {
        errno = saved;
        return NULL;
    }
    if (init_released() ||
        pthread_atfork(before_fork, after_fork_parent, after_fork_child)) {
        errno = saved;
        return NULL;
    }
    errno = saved;
    return &engine;
}
