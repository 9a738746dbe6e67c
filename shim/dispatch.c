/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happens to a call that a thunk did not send straight to its original.
 * Everything the call carries is in the frame; when the answer is 0 the original
 * gets all of it as it was. The caller's stack may be small: the engine runs on
 * one of ferry's (stack.c), originals on the caller's.
 */
#include "config.h"

#include <errno.h>
#include <signal.h>

#include "shim/shim.h"

/* The counters of the symbol's function, or NULL when nothing is counted. */
static struct fy_record_row *
row_of(const struct fy_binding *binding)
{
    struct fy_record *record = FY_MODE_COUNTS(fy_mode) ? fy_record() : NULL;
    if (!record) {
        return NULL;
    }
    const struct fy_symbol *symbols =
        FY_TABLE(fy_shim_model(), fy_symbol, symbols);
    return &record->rows[symbols[binding->symbol].function];
}

static size_t
words_of(const struct fy_binding *binding)
{
    return FY_IMAGE_TABLE(const struct fy_thunk_info, info)[binding->symbol]
        .stack_words;
}

/* Calls the original in place, errno as the program left it: how long it took. */
static uint64_t
time_original(struct fy_frame *frame, struct fy_record_row *row, int saved)
{
    const struct fy_binding *binding = frame->u.binding;
    uint64_t start = fy_now_ns();
    errno = saved;
    fy_call_through(frame, binding->original, words_of(binding));
    saved = errno;
    uint64_t took = fy_now_ns() - start;
    if (row) {
        FY_RECORD_ADD(row->original_ns, took);
    }
    errno = saved;
    return took;
}

/* The same; nobody asks where nothing is counted. */
static void
run_original(struct fy_frame *frame, struct fy_record_row *row, int saved)
{
    const struct fy_binding *binding = frame->u.binding;
    if (row) {
        (void)time_original(frame, row, saved);
        return;
    }
    errno = saved;
    fy_call_through(frame, binding->original, words_of(binding));
}

static void
describe(const struct fy_frame *frame, struct fy_intercepted *out)
{
    const struct fy_symbol *symbols =
        FY_TABLE(fy_shim_model(), fy_symbol, symbols);
    uint32_t symbol = frame->u.binding->symbol;
    *out = (struct fy_intercepted){
        .symbol = symbol,
        .function = symbols[symbol].function,
        .original = frame->u.binding->original,
        .caller = frame->caller,
        .registers = (struct fy_registers *)&frame->registers,
    };
}

/*
 * Whether the program wants a signal for floating point exceptions. Ferry's own
 * arithmetic would earn it some, and those of a chunk would come in the middle
 * of a call: such a program gets its originals.
 */
static bool
traps(uint32_t control)
{
    return (~control & 0x1f80) != 0; /* all masked: bits 7 to 12 set */
}

/* Control and flags of floating point: what ferry computes is not the program's. */
static uint32_t
floating_point(void)
{
    uint32_t control;
    __asm__ volatile("stmxcsr %0" : "=m"(control));
    return control;
}

static void
set_floating_point(uint32_t control)
{
    __asm__ volatile("ldmxcsr %0" : : "m"(control));
}

/* The accepted call that this thread is in, for fy_unwound(). */
static __thread struct fy_quiet *accepted
    __attribute__((tls_model("initial-exec")));

static void
engine_begin(struct fy_quiet *quiet)
{
    fy_quiet_begin(quiet);
    accepted = quiet;
    fy_inside++;
}

static void
engine_end(struct fy_quiet *quiet)
{
    fy_inside--;
    accepted = NULL;
    fy_quiet_end(quiet);
}

void
fy_unwound(void)
{
    struct fy_quiet *quiet = accepted;
    if (!quiet) {
        return; /* it comes out of an original that we only called */
    }
    const struct fy_engine *engine = fy_engine();
    if (engine && engine->abandon) {
        engine->abandon();
    }
    fy_inside = 0;
    accepted = NULL;
    fy_quiet_end(quiet);
}

/* One call on its way: what the parts on both stacks tell each other. */
struct dispatch {
    struct fy_frame *frame;
    struct fy_record_row *row; /* or NULL */
    const struct fy_engine *engine;
    struct fy_intercepted call;
    struct fy_quiet quiet;
    enum fy_reason reason;
    uint32_t control; /* floating point, as the program has it */
    int saved;        /* errno, likewise */
    uint64_t took;
    bool held; /* engine_begin() was called, and engine_end() not yet */
};

/* What the program had is put aside, and exceptions are masked (see traps()). */
static void
program_stops(struct dispatch *d)
{
    d->saved = errno;
    d->control = floating_point();
    set_floating_point(d->control | 0x1f80);
}

static void
program_goes_on(const struct dispatch *d)
{
    set_floating_point(d->control);
    errno = d->saved;
}

/*
 * Whether the call comes on the alternate stack for handlers. The kernel is asked once
 * for calls of one place at one height of this thread's stack: for another answer
 * later on the program would have to put its alternate stack where that frame was,
 * and a handler to call there from the same place at the very same height.
 */
static bool
on_alternate_stack(const struct fy_frame *frame)
{
    enum {
        KNOWN = 16,
        ADDRESS_BITS = 48
    };
    static __thread uint64_t known[KNOWN]
        __attribute__((tls_model("initial-exec")));
    static __thread unsigned next __attribute__((tls_model("initial-exec")));
    uint64_t here = (uint64_t)(uintptr_t)frame->registers.stack ^
                    (uint64_t)(uintptr_t)frame->caller << ADDRESS_BITS;
    stack_t alternate;

    for (unsigned i = 0; i < KNOWN; i++) {
        if (known[i] == here) {
            return false;
        }
    }
    if (sigaltstack(NULL, &alternate) || (alternate.ss_flags & SS_ONSTACK)) {
        return true;
    }
    known[next++ % KNOWN] = here;
    return false;
}

/*
 * Runs a part on a stack of ferry's; false, where there is none, and in handlers on
 * the alternate stack: another signal would come there over their frames.
 */
static bool
on_own_stack(struct dispatch *d, void (*part)(void *))
{
    if (!fy_stack_take(d->frame)) {
        return false;
    }
    if (on_alternate_stack(d->frame)) {
        d->reason = FY_REASON_IN_HANDLER;
        return false;
    }
    fy_stack_run(d->frame, part, d);
    return true;
}

bool
fy_dispatch_hold(const struct fy_intercepted *call)
{
    struct dispatch *d =
        (void *)((char *)(uintptr_t)call - offsetof(struct dispatch, call));
    if (!d->held && !fy_in_handler(d->frame->registers.stack)) {
        engine_begin(&d->quiet);
        d->held = true;
    }
    return d->held;
}

static void
let_go(struct dispatch *d)
{
    if (d->held) {
        d->held = false;
        engine_end(&d->quiet);
    }
}

static void
find_engine(void *closure)
{
    struct dispatch *d = closure;
    d->engine = fy_engine();
}

static void
tell_engine(void *closure)
{
    struct dispatch *d = closure;
    describe(d->frame, &d->call);
    engine_begin(&d->quiet);
    d->engine->observe(&d->call);
    engine_end(&d->quiet);
}

/*
 * A handle is made or destroyed: the original always runs, then we look, with
 * floating point exceptions masked: a call that went unseen would leave a dead
 * handle's story to the next one at its address.
 */
static void
observe(struct dispatch *d)
{
    program_stops(d);
    (void)on_own_stack(d, find_engine);
    program_goes_on(d);
    run_original(d->frame, d->row, d->saved);
    if (!d->engine) {
        return;
    }
    program_stops(d);
    (void)on_own_stack(d, tell_engine);
    program_goes_on(d);
}

/* On a stack of ferry's. After `verified' the thread stays inside. */
static void
decide(void *closure)
{
    struct dispatch *d = closure;
    if (traps(d->control)) {
        d->reason = FY_REASON_UNSUPPORTED;
        return;
    }
    if (!fy_engine_is_settled() && fy_in_handler(d->frame->registers.stack)) {
        d->reason = FY_REASON_IN_HANDLER;
        return;
    }
    d->engine = fy_engine();
    if (!d->engine) {
        d->reason = FY_REASON_ENGINE_MISSING;
        return;
    }
    d->reason = d->engine->call(&d->call);
    if (d->reason != FY_REASON_VERIFIED) {
        let_go(d);
    }
}

static void
compare(void *closure)
{
    struct dispatch *d = closure;
    d->reason = d->engine->compare(&d->call);
}

static void
ran(void *closure)
{
    struct dispatch *d = closure;
    d->engine->ran(d->took);
}

static void
count_reason(const struct dispatch *d)
{
    if (d->row && d->reason < FY_REASON_COUNT) {
        FY_RECORD_ADD(d->row->declined[d->reason], 1);
    }
}

/* The original in place, then what the engine has to say or learn about it. */
static void
run_and_look(struct dispatch *d)
{
    if (d->reason == FY_REASON_VERIFIED) {
        /* What it calls in turn is the original's business, too. */
        run_original(d->frame, d->row, d->saved);
        d->saved = errno;
        d->control = floating_point();
        if (!on_own_stack(d, compare)) {
            d->reason = FY_REASON_UNVERIFIED;
        }
        let_go(d);
        count_reason(d);
    } else {
        count_reason(d);
        d->took = time_original(d->frame, d->row, d->saved);
        d->saved = errno;
        d->control = floating_point();
        (void)on_own_stack(d, ran);
    }
    program_goes_on(d);
}

int
fy_dispatch(struct fy_frame *frame)
{
    struct dispatch d = {.frame = frame,
                         .row = row_of(frame->u.binding),
                         .control = floating_point(),
                         .saved = errno,
                         .reason = FY_REASON_HOST_MEMORY};
    describe(frame, &d.call);
    if (d.row) {
        FY_RECORD_ADD(d.row->calls, 1);
    }
    uint32_t flags =
        FY_TABLE(fy_shim_model(), fy_function, functions)[d.call.function]
            .flags;
    if (flags & (FY_FN_MAKES | FY_FN_FREES)) {
        observe(&d);
        return 1;
    }
    if (fy_engine_has(frame->caller)) { /* as it decides about another call */
        d.reason = FY_REASON_NESTED;
    } else {
        (void)on_own_stack(&d, decide);
    }
    errno = d.saved;
    if (d.reason == FY_REASON_NONE) {
        return 1;
    }
    set_floating_point(d.control);
    if (d.reason == FY_REASON_VERIFIED || d.reason == FY_REASON_UNPROFITABLE) {
        run_and_look(&d);
        return 1;
    }
    if (!d.row) {
        return 0;
    }
    count_reason(&d);
    run_original(frame, d.row, d.saved);
    return 1;
}

int
fy_dispatch_declined(struct fy_frame *frame)
{
    int saved = errno;
    struct fy_record_row *row = row_of(frame->u.binding);
    (void)fy_stack_take(frame); /* for the next call's vector registers */
    if (!row) {
        errno = saved;
        return 0;
    }
    enum fy_reason reason = fy_inside ? FY_REASON_NESTED : FY_REASON_TOO_SMALL;
    FY_RECORD_ADD(row->calls, 1);
    FY_RECORD_ADD(row->declined[reason], 1);
    errno = saved;
    if (fy_inside) {
        return 0; /* its time is part of the outer call's */
    }
    run_original(frame, row, saved);
    return 1;
}
