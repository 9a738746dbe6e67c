/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles a call that a thunk did not send straight to its original. The frame
 * has everything that the call carries; if the answer is 0 the original gets
 * all of it as it was. The caller's stack may be small: the engine runs on one
 * of ferry's (stack.c), originals on the caller's.
 */
#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>

#include "shim/calls/shim.h"
#include "shim/programs/exec.h"

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

/* Runs the original where nothing is counted. */
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
 * Returns true if the program wants a signal for floating point exceptions.
 * Ferry's own arithmetic would raise some, and those of a chunk would come in
 * the middle of a call: such a program gets its originals.
 */
static bool
traps(uint32_t control)
{
    return (~control & 0x1f80) != 0; /* all masked: bits 7 to 12 set */
}

/* Control and flags of floating point: ferry's computations are not the program's. */
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

__thread struct fy_accepted fy_accepted
    __attribute__((tls_model("initial-exec")));

static void
engine_begin(struct fy_frame *frame)
{
    struct fy_accepted *a = &fy_accepted;
    fy_quiet_begin(&a->quiet);
    a->low = frame->own->low;
    a->bytes = (size_t)((const char *)frame->own - a->low);
    frame->accepted = a;
    a->frame = frame;
    fy_inside++;
}

/* Forgets the accepted call; *out gets the state of its thread. */
static void
accepted_ends(struct fy_quiet *out)
{
    *out = fy_accepted.quiet; /* a handler's call may be the next */
    fy_accepted.frame = NULL;
}

static __attribute__((noinline)) void
engine_end(struct fy_frame *frame)
{
    struct fy_quiet quiet;
    if (fy_accepted.frame != frame) {
        /* It was taken for left, but was another coroutine's, which goes on. */
        fy_inside = fy_accepted.frame ? fy_inside : 0;
        return;
    }
    fy_inside--;
    frame->accepted = NULL;
    accepted_ends(&quiet);
    fy_quiet_end(&quiet);
}

/* The accepted call will not go on: gives back all that it held but mask and
 * cancellation, which come in *out. */
static void
give_up(struct fy_quiet *out)
{
    const struct fy_engine *engine = fy_engine();
    if (engine && engine->abandon) {
        engine->abandon();
    }
    fy_inside = 0;
    accepted_ends(out);
}

void
fy_unwound(void)
{
    struct fy_quiet quiet;
    if (!fy_accepted.frame) {
        return; /* it comes out of an original that we only called */
    }
    give_up(&quiet);
    fy_quiet_end(&quiet);
}

/* Unblocks the signals that ferry has blocked, unless the program has set a mask since. */
static void
put_mask_back(const struct fy_quiet *quiet)
{
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    for (int number = 1; number < NSIG; number++) {
        if (sigismember(&quiet->blocked, number) == 1) {
            if (sigismember(&mask, number) != 1) {
                return;
            }
            if (sigismember(&quiet->mask, number) != 1) {
                sigdelset(&mask, number);
            }
        }
    }
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
}

static bool
on_alternate_stack(uintptr_t at)
{
    stack_t alternate;
    return sigaltstack(NULL, &alternate) != 0 ||
           ((alternate.ss_flags & SS_ONSTACK) &&
            at - (uintptr_t)alternate.ss_sp < alternate.ss_size);
}

void *
fy_jump(const void *env, unsigned which, uintptr_t target,
        const void **out_stack)
{
    const struct __jmp_buf_tag *to = env;
    const struct fy_accepted *a = &fy_accepted;
    int *error = &errno, saved = *error;
    struct fy_quiet quiet;
    const struct fy_own_stack *own =
        fy_own_stack ? fy_stack_at(__builtin_frame_address(0)) : NULL;
    *out_stack = which == FY_LONGJMP_CHECKED && own &&
                         own != fy_stack_at((const void *)target)
                     ? own->frame->registers.stack - 1
                     : NULL;
    if (a->frame && target > (uintptr_t)a->frame &&
        target - (uintptr_t)a->low >= a->bytes && !on_alternate_stack(target)) {
        give_up(&quiet);
        fy_linker_error_back(quiet.linker_error);
        pthread_setcancelstate(quiet.cancel, NULL);
        if (!to->__mask_was_saved) {
            put_mask_back(&quiet);
        }
    }
    *error = saved;
    return fy_original(which);
}

/*
 * Returns true if an accepted call was left by a jump that fy_jump() did not
 * see (setcontext, one of the program's own); then it is given up, because its
 * frame is overwritten by this frame or by others. A frame that still stands
 * counts as live: the thread may have several stacks.
 */
static __attribute__((noinline)) bool
is_left(const struct fy_frame *now)
{
    const struct fy_frame *old = fy_accepted.frame;
    struct fy_quiet quiet;
    uintptr_t apart = now < old ? (uintptr_t)old - (uintptr_t)now
                                : (uintptr_t)now - (uintptr_t)old;
    if (!old || on_alternate_stack((uintptr_t)now) ||
        (apart >= sizeof *old &&
         !fy_stack_differs(&old->accepted, &fy_accepted))) {
        return false;
    }
    give_up(&quiet);
    fy_linker_error_back(quiet.linker_error);
    pthread_setcancelstate(quiet.cancel, NULL);
    put_mask_back(&quiet);
    return true;
}

/* One call on its way: shared by the parts on both stacks. */
struct dispatch {
    struct fy_frame *frame;
    struct fy_record_row *row; /* or NULL */
    const struct fy_engine *engine;
    struct fy_intercepted call;
    enum fy_reason reason;
    uint32_t control; /* floating point, as the program has it */
    int saved;        /* errno, likewise */
    uint64_t took;
    bool held; /* engine_begin() was called; let_go() is, once */
};

/* Puts the program's floating point state aside, and masks exceptions (see
 * traps()). */
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
 * Returns true if the call comes on the alternate stack for handlers. The
 * kernel is asked once for calls from the same place at the same height of
 * this thread's stack: for another answer later on the program would have to
 * put its alternate stack where that frame was, and a handler to call from the
 * same place at the very same height.
 */
static bool
came_on_alternate_stack(const struct fy_frame *frame)
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
    if (came_on_alternate_stack(d->frame)) {
        d->reason = FY_REASON_IN_HANDLER;
        return false;
    }
    fy_stack_run(d->frame, part, d);
    return true;
}

/* Returns true where malloc and locks may be another's, or threads would end
 * too early. */
static bool
is_out_of_turn(const struct dispatch *d)
{
    return fy_in_handler(d->frame->registers.stack) || fy_is_vfork_child();
}

/* Another thread in dlopen() or dlclose() may be waiting for this one in a constructor or
 * destructor, and loading the engine would wait for that thread. */
static bool
may_load(const struct dispatch *d)
{
    return !is_out_of_turn(d) && !fy_others_link();
}

bool
fy_dispatch_hold(const struct fy_intercepted *call)
{
    struct dispatch *d =
        (void *)((char *)(uintptr_t)call - offsetof(struct dispatch, call));
    if (!d->held && !is_out_of_turn(d)) {
        engine_begin(d->frame);
        d->held = true;
    }
    return d->held;
}

static void
let_go(struct dispatch *d)
{
    if (d->held) {
        engine_end(d->frame);
    }
}

static void
find_engine(void *closure)
{
    struct dispatch *d = closure;
    if (fy_engine_is_settled() || may_load(d)) {
        d->engine = fy_engine();
    }
}

static void
tell_engine(void *closure)
{
    struct dispatch *d = closure;
    engine_begin(d->frame);
    d->engine->observe(&d->call);
    engine_end(d->frame);
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
    if (!fy_engine_is_settled() && !may_load(d)) {
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

/* Runs the original in place, then the engine's part after it. */
static void
run_and_look(struct dispatch *d)
{
    if (d->reason == FY_REASON_VERIFIED) {
        /* Calls that it makes in turn go to originals, too. */
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
    int *error = &errno, before = *error;
    if (fy_inside && !is_left(frame)) {
        return fy_dispatch_declined(frame);
    }
    *error = before;
    struct dispatch d = {.frame = frame,
                         .row = row_of(frame->u.binding),
                         .control = floating_point(),
                         .saved = errno,
                         .reason = fy_valgrind ? FY_REASON_VALGRIND
                                               : FY_REASON_HOST_MEMORY};
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
