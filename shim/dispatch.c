/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happens to a call that a thunk did not send straight to its original.
 * Runs on the caller's stack, with everything the call carries in the frame;
 * when it answers 0 the original gets all of it as it was.
 */
#include "config.h"

#include <errno.h>

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

/*
 * A handle is made or destroyed: the original always runs, then we look, with
 * floating point exceptions masked (see traps()): a call that went
 * unseen would leave a dead handle's story to the next one at its address.
 */
static void
observe(struct fy_frame *frame, struct fy_record_row *row, int saved)
{
    uint32_t control = floating_point();
    set_floating_point(control | 0x1f80);
    const struct fy_engine *engine = fy_engine();
    set_floating_point(control);
    struct fy_intercepted call;
    run_original(frame, row, saved);
    if (!engine) {
        return;
    }
    saved = errno;
    control = floating_point();
    set_floating_point(control | 0x1f80);
    describe(frame, &call);
    struct fy_quiet quiet;
    engine_begin(&quiet);
    engine->observe(&call);
    engine_end(&quiet);
    set_floating_point(control);
    errno = saved;
}

int
fy_dispatch(struct fy_frame *frame)
{
    int saved = errno;
    uint32_t control = floating_point();
    const struct fy_model *model = fy_shim_model();
    struct fy_intercepted call;
    describe(frame, &call);
    struct fy_record_row *row = row_of(frame->u.binding);
    if (row) {
        FY_RECORD_ADD(row->calls, 1);
    }
    uint32_t flags =
        FY_TABLE(model, fy_function, functions)[call.function].flags;
    if (flags & (FY_FN_MAKES | FY_FN_FREES)) {
        observe(frame, row, saved);
        return 1;
    }
    enum fy_reason reason = traps(control)    ? FY_REASON_UNSUPPORTED
                            : fy_in_handler() ? FY_REASON_IN_HANDLER
                                              : FY_REASON_NONE;
    const struct fy_engine *engine =
        reason == FY_REASON_NONE ? fy_engine() : NULL;
    if (reason == FY_REASON_NONE) {
        reason = FY_REASON_ENGINE_MISSING;
    }
    if (engine) {
        struct fy_quiet quiet;
        engine_begin(&quiet);
        reason = engine->call(&call);
        if (reason == FY_REASON_VERIFIED) {
            /* What it calls in turn is the original's business, too. */
            set_floating_point(control);
            run_original(frame, row, saved);
            saved = errno;
            control = floating_point();
            reason = engine->compare(&call);
            set_floating_point(control);
            engine_end(&quiet);
            if (row) {
                FY_RECORD_ADD(row->declined[reason], 1);
            }
            errno = saved;
            return 1;
        }
        engine_end(&quiet);
    }
    errno = saved;
    if (reason == FY_REASON_NONE) {
        return 1;
    }
    set_floating_point(control);
    if (reason == FY_REASON_UNPROFITABLE) {
        if (row) {
            FY_RECORD_ADD(row->declined[reason], 1);
        }
        uint64_t took = time_original(frame, row, saved);
        saved = errno;
        control = floating_point();
        engine->ran(took);
        set_floating_point(control);
        errno = saved;
        return 1;
    }
    if (!row) {
        return 0;
    }
    if (reason < FY_REASON_COUNT) {
        FY_RECORD_ADD(row->declined[reason], 1);
    }
    run_original(frame, row, saved);
    return 1;
}

int
fy_dispatch_declined(struct fy_frame *frame)
{
    int saved = errno;
    struct fy_record_row *row = row_of(frame->u.binding);
    if (!row) {
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
