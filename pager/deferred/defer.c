/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue of deferred calls and what is known of the values between them. A
 * set of ranges is 64 bits, one per row of pages.c's table. A range is
 * *pending* when its shadow does not yet hold what the program is to see.
 *
 * An evaluation wants the range that was touched and every result that no
 * later call read. What calls only passed on to each other is computed and
 * thrown away; the calls that made it stay in the queue, to be run once more
 * should somebody touch it after all.
 *
 * Evaluations run on one thread of ours, for whoever holds the lock.
 * Long because the queue, its evaluation and its hooks share one state.
 */
#include "config.h"

#include "pager/deferred/defer.h"

#include <errno.h>
#include <fenv.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/record.h"
#include "common/signals.h"
#include "pager/base/explain.h"
#include "pager/decide/choice.h"
#include "pager/deferred/call.h"
#include "pager/deferred/pages.h"
#include "pager/deferred/run.h"
#include "pager/deferred/where.h"
#include "pager/device/own_thread.h"
#include "pager/execute/hostmem.h"
#include "pager/execute/pool.h"

enum {
    PAGE = 4096,
    MAX_CALLS = 256,
    LEAST_PAGES = 256, /* of an operand; with force 1 */
};
#define DEVICE_WAIT_SECONDS 2.0

static struct fy_defer_options options;
static bool *on;       /* alone on its page, which no forked child inherits */
static unsigned stops; /* nothing is deferred while there are any */

/* Under the lock of pages.h. */
static struct fy_deferred *queue[MAX_CALLS];
static unsigned nqueue;
static uint64_t pending;

/* The evaluating thread: one job at a time, for the holder of the lock. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool wanted;
    bool all;
    uint64_t want;
    const char *why;
} job = {.lock = PTHREAD_MUTEX_INITIALIZER,
         .changed = PTHREAD_COND_INITIALIZER};

static bool
is_on(void)
{
    const bool *there = __atomic_load_n(&on, __ATOMIC_ACQUIRE);

    return there && __atomic_load_n(there, __ATOMIC_ACQUIRE);
}

static uint64_t
bit(unsigned row)
{
    return UINT64_C(1) << row;
}

/* Ranges that the program has unmapped: nobody will look. */
static uint64_t
gone(void)
{
    uint64_t rows = 0;

    for (unsigned r = 0; r < FY_PAGES_RANGES; r++) {
        const struct fy_pages *range = fy_pages_at(r);
        rows |= range && range->nsegments == 0 ? bit(r) : 0;
    }
    return rows;
}

static uint64_t
referenced(void)
{
    uint64_t rows = 0;

    for (unsigned i = 0; i < nqueue; i++) {
        rows |= queue[i]->reads | queue[i]->writes;
    }
    return rows;
}

/*
 * Marks the calls that `need' needs, last to first. Returns the ranges whose
 * stored content they read, and in *written what they write.
 */
static uint64_t
mark_live(uint64_t need, uint64_t *written)
{
    *written = 0;
    for (unsigned i = nqueue; i-- > 0;) {
        struct fy_deferred *call = queue[i];
        call->live = (call->writes & need) != 0;
        if (call->live) {
            need = (need & ~(call->writes & ~call->reads)) | call->reads;
            *written |= call->writes;
        }
    }
    return need;
}

/* Pending ranges whose value no later call has read. */
static uint64_t
results(void)
{
    uint64_t read = 0;

    for (unsigned i = 0; i < nqueue; i++) {
        read |= queue[i]->reads;
        read &= ~queue[i]->writes;
    }
    return pending & ~read;
}

struct evaluation {
    uint64_t stored;  /* whose shadows are to hold results */
    uint64_t loaded;  /* whose old content is read */
    uint64_t written; /* by some call that runs */
    uint64_t kept;    /* what could still be wanted: their calls stay */
};

/* Everything pending is stored; the queue will be empty. */
static void
plan_all(struct evaluation *e)
{
    uint64_t away = gone();

    e->loaded = mark_live(pending & ~away, &e->written);
    e->stored = e->written & (~away | e->loaded);
    e->kept = 0;
}

/*
 * Only what is wanted, where the calls that stay can be run again: none reads
 * a stored value that is overwritten now (where originals run, also one that is
 * only passed on), and none runs a third time.
 */
static bool
plan_some(uint64_t want, struct evaluation *e)
{
    uint64_t written;

    want &= pending;
    e->kept = pending & ~want & ~gone();
    uint64_t old = mark_live(e->kept, &written);
    e->loaded = mark_live(want, &e->written);
    e->stored = want;
    if ((old | e->loaded) & e->written) {
        return false;
    }
    for (unsigned i = 0; i < nqueue; i++) {
        if (queue[i]->live && queue[i]->ran) {
            return false;
        }
    }
    return true;
}

/* Counters of the function of one of the calls. */
static struct fy_record_row *
record_row(const struct fy_defer_group *group, unsigned call)
{
    return &options.services->record->rows[group->calls[call]->function];
}

/*
 * What was moved belongs to who wanted it: bytes in to the first that reads
 * them, bytes out to the last that writes them; what is moved again as memory
 * is short, and steps that do not divide, to the first call.
 */
static void
count(const struct fy_defer_group *group, const struct fy_traffic *predicted)
{
    const struct fy_traffic *moved = &group->traffic;
    uint64_t read = 0, written = 0, chunks = moved->chunks / group->ncalls;

    if (!options.services->record) {
        return;
    }
    for (unsigned i = 0; i < group->ncalls; i++) {
        const struct fy_deferred *call = group->calls[i];
        FY_RECORD_ADD(
            record_row(group, i)->bytes_in,
            fy_defer_bytes(call, call->reads & group->loaded & ~read));
        FY_RECORD_ADD(record_row(group, i)->chunks, chunks);
        read |= call->reads | call->writes;
    }
    for (unsigned i = group->ncalls; i-- > 0;) {
        const struct fy_deferred *call = group->calls[i];
        FY_RECORD_ADD(
            record_row(group, i)->bytes_out,
            fy_defer_bytes(call, call->writes & group->stored & ~written));
        written |= call->writes;
    }
    FY_RECORD_ADD(record_row(group, 0)->bytes_in,
                  moved->bytes_in - predicted->bytes_in);
    FY_RECORD_ADD(record_row(group, 0)->bytes_out,
                  moved->bytes_out - predicted->bytes_out);
    FY_RECORD_ADD(record_row(group, 0)->chunks, moved->chunks % group->ncalls);
}

static bool
pays(const struct fy_defer_group *group)
{
    struct fy_bound all = group->calls[0]->bound;
    double original = 0;

    all.flops = 0;
    for (unsigned i = 0; i < group->ncalls; i++) {
        all.flops += group->calls[i]->bound.flops;
        original += fy_cost_original(fy_choice_rates(options.chooser),
                                     &group->calls[i]->bound);
    }
    return options.force ||
           fy_cost_device(fy_choice_rates(options.chooser), &all,
                          &group->traffic, group->touched_bytes) < original;
}

/* False: nothing has happened, or what was read is as it was. */
static bool
run_on_device(struct fy_defer_group *group, char *note, size_t room)
{
    struct fy_lease lease;
    char words[FY_POOL_NOTE_BYTES] = "";
    int status;

    if (!pays(group)) {
        (void)snprintf(note, room, "by the originals: cheaper");
        return false;
    }
    if (fy_pool_take(options.pool, INT64_MAX, DEVICE_WAIT_SECONDS, words,
                     &lease) != FY_REASON_NONE) {
        (void)snprintf(note, room, "by the originals: no device: %s", words);
        return false;
    }
    do {
        status = fy_defer_run_device(group, &lease, options.chunk_random,
                                     options.chunk_seed);
    } while (status == FY_ERR_NOFIT && fy_pool_shrink(options.pool, &lease));
    if (status) {
        const char *text = options.ops->error_text(lease.device);
        (void)snprintf(note, room, "by the originals: %s", text ? text : "");
    }
    fy_pool_release(options.pool, &lease);
    return status == FY_OK;
}

static void
tell(const struct fy_defer_group *group, const char *note)
{
    char line[512], fused[64] = "";

    if (group->nkernels > 0) {
        (void)snprintf(fused, sizeof(fused), ", %u calls as %u kernels",
                       group->nfused, group->nkernels);
    }
    (void)snprintf(line, sizeof(line),
                   "deferred calls of %lld elements, forced by %s: %u calls, "
                   "%llu bytes in, %llu out, %llu chunks%s%s%s",
                   (long long)group->calls[0]->count, job.why, group->ncalls,
                   (unsigned long long)group->traffic.bytes_in,
                   (unsigned long long)group->traffic.bytes_out,
                   (unsigned long long)group->traffic.chunks, fused,
                   note[0] ? ", " : "", note);
    fy_explain_line(line);
}

static void
run_group(struct fy_defer_group *group)
{
    char note[FY_POOL_NOTE_BYTES + 64] = "";
    struct fy_traffic predicted;

    fy_defer_predict(group);
    predicted = group->traffic;
    if (!run_on_device(group, note, sizeof(note))) {
        memset(&group->traffic, 0, sizeof(group->traffic));
        group->nkernels = 0;
        fy_defer_run_direct(group);
    } else {
        count(group, &predicted);
    }
    tell(group, note);
}

/* Calls of different lengths have no range in common: one group each. */
static void
run_live(const struct evaluation *e)
{
    struct fy_deferred *calls[MAX_CALLS];

    for (unsigned i = 0; i < nqueue; i++) {
        struct fy_defer_group group = {
            .calls = calls, .stored = e->stored, .loaded = e->loaded};
        int64_t count = queue[i]->count;
        if (!queue[i]->live) {
            continue;
        }
        for (unsigned k = i; k < nqueue; k++) {
            if (queue[k]->live && queue[k]->count == count) {
                calls[group.ncalls++] = queue[k];
                queue[k]->live = false;
                queue[k]->ran = true;
            }
        }
        run_group(&group);
    }
}

/* Calls that nothing in `keep' needs are forgotten. */
static void
trim_queue(uint64_t keep)
{
    uint64_t written;
    unsigned n = 0;

    (void)mark_live(keep, &written);
    for (unsigned i = 0; i < nqueue; i++) {
        if (queue[i]->live) {
            queue[n++] = queue[i];
        } else {
            fy_deferred_free(queue[i]);
        }
    }
    nqueue = n;
}

static void
evaluate(bool all, uint64_t want)
{
    struct evaluation e;

    if (!(pending & ~gone())) {
        pending = 0;
        trim_queue(0);
        return;
    }
    if (all || !plan_some(want | (results() & ~gone()), &e)) {
        plan_all(&e);
    }
    run_live(&e);
    pending = e.kept;
    trim_queue(e.kept);
}

static void *
work(void *unused)
{
    (void)unused;
    fy_own_thread_begins(true);
    (void)fesetenv(FE_DFL_ENV); /* not that of whoever made us */
    options.services->enter(1); /* what originals call is not to be taken */
    pthread_mutex_lock(&job.lock);
    for (;;) {
        while (!job.wanted) {
            pthread_cond_wait(&job.changed, &job.lock);
        }
        pthread_mutex_unlock(&job.lock);
        evaluate(job.all, job.want);
        pthread_mutex_lock(&job.lock);
        job.wanted = false;
        pthread_cond_broadcast(&job.changed);
    }
    return NULL;
}

static void
evaluate_there(bool all, uint64_t want, const char *why)
{
    if (nqueue == 0) {
        pending = 0;
        return;
    }
    pthread_mutex_lock(&job.lock);
    job.all = all;
    job.want = want;
    job.why = why;
    job.wanted = true;
    pthread_cond_broadcast(&job.changed);
    while (job.wanted) {
        pthread_cond_wait(&job.changed, &job.lock);
    }
    pthread_mutex_unlock(&job.lock);
}

/* Shadows that nobody needs and nobody will ask for. */
static void
sweep(void)
{
    uint64_t needed = referenced();

    for (unsigned r = 0; r < FY_PAGES_RANGES; r++) {
        struct fy_pages *range = fy_pages_at(r);
        if (range && range->nout == 0 && !(needed & bit(r))) {
            fy_pages_drop(range);
            pending &= ~bit(r);
        }
    }
}

/* Everything back, or what the given ranges of memory touch. */
static void
bring_home(bool all, uint64_t rows, const char *why)
{
    evaluate_there(true, 0, why);
    for (unsigned r = 0; r < FY_PAGES_RANGES; r++) {
        struct fy_pages *range = fy_pages_at(r);
        if (range && (all || rows & bit(r))) {
            fy_pages_release(range);
        }
    }
    sweep();
}

/* ---- hooks of pages.c --------------------------------------------- */

static void
settle(struct fy_pages *needed)
{
    if (!needed) {
        evaluate_there(true, 0, "a fork");
    } else if (pending & bit(fy_pages_row(needed))) {
        evaluate_there(false, bit(fy_pages_row(needed)), "a touch");
        sweep();
    }
}

static void
disturbed(void)
{
    uint64_t rows = 0;

    for (unsigned r = 0; r < FY_PAGES_RANGES; r++) {
        struct fy_pages *range = fy_pages_at(r);
        if (range && range->disturbed) {
            range->disturbed = false;
            /* Unmapped as a whole: its shadow serves the queue, if at all. */
            rows |= range->nsegments > 0 ? bit(r) : 0;
        }
    }
    if (rows) {
        bring_home(false, rows, "a change of mappings");
    }
    sweep();
}

static void
filled(struct fy_pages *range)
{
    if (!(referenced() & bit(fy_pages_row(range)))) {
        fy_pages_drop(range);
    } else {
        fy_pages_leave(range);
    }
}

static bool
needed(const struct fy_pages *range)
{
    return (referenced() & bit(fy_pages_row(range))) != 0;
}

static const struct fy_pages_hooks hooks = {
    .settle = settle,
    .disturbed = disturbed,
    .filled = filled,
    .needed = needed,
};

/* ---- calls ---------------------------------------------------------------- */

/* The bytes of an operand's whole pages. */
static uintptr_t
inner(const struct fy_deferred *call, unsigned o, size_t *bytes)
{
    const struct fy_view *view = &call->bound.views[o];

    *bytes = (size_t)call->count * view->element_bytes;
    return (uintptr_t)view->host + (size_t)call->first * view->element_bytes;
}

/* Calls in the queue see other elements in a range than this one. */
static bool
is_of_others(const struct fy_deferred *call, unsigned row)
{
    for (unsigned i = 0; i < nqueue; i++) {
        if ((queue[i]->reads | queue[i]->writes) & bit(row) &&
            queue[i]->count != call->count) {
            return true;
        }
    }
    return false;
}

/*
 * Ranges that have something in common with an operand, but are not it, or as
 * elements of another size: groups of one length have none in common.
 */
static uint64_t
in_the_way(const struct fy_deferred *call)
{
    uint64_t rows = 0;

    for (unsigned o = 0; o < call->bound.function->noperands; o++) {
        size_t bytes;
        uintptr_t at = inner(call, o, &bytes);
        rows |= fy_pages_overlaps(at, bytes, true);
        const struct fy_pages *same = fy_pages_find(at, bytes);
        if (same && is_of_others(call, fy_pages_row(same))) {
            rows |= bit(fy_pages_row(same));
        }
    }
    return rows;
}

/* Each operand's range: one there is, or a new one. Sets reads and writes. */
static int
take_operands(struct fy_deferred *call)
{
    for (unsigned o = 0; o < call->bound.function->noperands; o++) {
        const struct fy_view *view = &call->bound.views[o];
        struct fy_pages *range;
        size_t bytes;
        uintptr_t at = inner(call, o, &bytes);
        range = fy_pages_find(at, bytes);
        if (!range) {
            int status = fy_pages_overlaps(at, bytes, false)
                             ? FY_ERR_UNSUPPORTED
                             : fy_pages_take(at, bytes, call->first > 0,
                                             call->first + call->count <
                                                 call->bound.extents[0],
                                             &range);
            if (status) {
                return status;
            }
        }
        call->row[o] = (uint8_t)fy_pages_row(range);
        if (view->access & FY_ACCESS_IN) {
            call->reads |= bit(call->row[o]);
        }
        if (view->access & FY_ACCESS_OUT) {
            call->writes |= bit(call->row[o]);
        }
    }
    return FY_OK;
}

/*
 * Memory that the program does not have any more, or has again, and that queued
 * calls still need: what deferring costs it.
 */
static size_t
held_bytes(void)
{
    size_t bytes = 0;

    for (unsigned r = 0; r < FY_PAGES_RANGES; r++) {
        const struct fy_pages *range = fy_pages_at(r);
        if (range) {
            bytes += range->nsegments == 0
                         ? range->bytes
                         : range->bytes - range->nout * (size_t)PAGE;
        }
    }
    return bytes;
}

/*
 * Whether it reads what an earlier evaluation has stored and a call that stays
 * in the queue would compute again.
 */
static bool
reads_stored_again(const struct fy_deferred *call)
{
    uint64_t written = 0;

    for (unsigned i = 0; i < nqueue; i++) {
        written |= queue[i]->writes;
    }
    return (call->reads & written & ~pending) != 0;
}

static int
enqueue(struct fy_deferred *call)
{
    if (__atomic_load_n(&stops, __ATOMIC_SEQ_CST) != 0) {
        return FY_ERR_BUSY;
    }
    fy_pages_sync();
    uint64_t others = in_the_way(call);
    if (others || nqueue == MAX_CALLS || fy_pages_room() < FY_MAX_OPERANDS) {
        bring_home(others == 0, others, others ? "an overlap" : "a full queue");
    } else if (held_bytes() > fy_may_hold()) {
        bring_home(true, 0, "the memory that queued calls need");
    }
    int status = take_operands(call);
    if (status) {
        call->reads = call->writes = 0;
        /* What was taken for it and is of no use, or can never be. */
        bring_home(true, 0, "memory that cannot be deferred");
        return status;
    }
    if (reads_stored_again(call)) {
        evaluate_there(true, 0, "a second use");
    }
    queue[nqueue++] = call;
    pending |= call->writes;
    return FY_OK;
}

/* Elements outside the whole pages, now: nobody can see whether they wait. */
static void
run_edges(struct fy_deferred *call)
{
    const int64_t from[2] = {0, call->first + call->count};
    const int64_t n[2] = {call->first,
                          call->bound.extents[0] - call->first - call->count};

    for (unsigned i = 0; i < 2; i++) {
        char *address[FY_MAX_OPERANDS];
        for (unsigned o = 0; o < call->bound.function->noperands; o++) {
            const struct fy_view *view = &call->bound.views[o];
            address[o] = view->host + from[i] * view->element_bytes;
        }
        if (n[i] > 0) {
            fy_deferred_direct(call, n[i], address);
        }
    }
}

static int
prepare_direct(struct fy_deferred *call, const int64_t lengths[2])
{
    uint32_t variant;
    int status = FY_OK;

    for (unsigned i = 0; i < 2 && status == FY_OK; i++) {
        if (lengths[i] > 0) {
            status =
                fy_deferred_length(call, &call->direct, lengths[i], &variant);
        }
    }
    return status;
}

/* Every length that may be asked for when there is no way back. */
static int
prepare(struct fy_deferred *call)
{
    const int64_t lengths[] = {
        call->count < FY_DEFER_DIRECT ? call->count : FY_DEFER_DIRECT,
        call->count % FY_DEFER_DIRECT,
    };
    uint32_t variant;
    int status = prepare_direct(call, lengths);

    return status
               ? status
               : fy_deferred_length(call, &call->device, call->count, &variant);
}

static int
prepare_edges(struct fy_deferred *call)
{
    const int64_t lengths[] = {
        call->first,
        call->bound.extents[0] - call->first - call->count,
    };

    return prepare_direct(call, lengths);
}

/* Ranges are equal or apart, and each pair's elements too. */
static bool
operands_agree(const struct fy_bound *bound)
{
    for (unsigned i = 0; i < bound->function->noperands; i++) {
        for (unsigned k = i + 1; k < bound->function->noperands; k++) {
            const struct fy_view *a = &bound->views[i], *b = &bound->views[k];
            uintptr_t x = (uintptr_t)a->host, y = (uintptr_t)b->host;
            uint64_t bytes = (uint64_t)a->extent[0] * a->element_bytes;
            if (a->element_bytes != b->element_bytes ||
                (x != y && x < y + bytes && y < x + bytes)) {
                return false;
            }
        }
    }
    return true;
}

/* Rounding, flushing and traps are those of a thread that never set any. */
static bool
arithmetic_is_plain(void)
{
    uint32_t control;
    uint16_t x87;

    __asm__ volatile("stmxcsr %0" : "=m"(control));
    __asm__ volatile("fnstcw %0" : "=m"(x87));
    return (control & 0xffc0) == 0x1f80 && (x87 & 0xf3f) == 0x33f;
}

static bool
provider_is_safe(const void *original)
{
    static const void *known;
    static bool safe;
    /* Cards have their own functions; the original is only the way out. */
    if (options.ops->resolve) {
        return true;
    }
    if (__atomic_load_n(&known, __ATOMIC_ACQUIRE) != original) {
        bool answer = !fy_takes_locks(original);
        __atomic_store_n(&safe, answer, __ATOMIC_RELAXED);
        __atomic_store_n(&known, original, __ATOMIC_RELEASE);
        return answer;
    }
    return __atomic_load_n(&safe, __ATOMIC_RELAXED);
}

/*
 * The call, and once more for its edges, which are run when others may already
 * be at work on the first. The device is opened here, never by a touch.
 */
static enum fy_reason
new_deferred(const struct fy_intercepted *call, const struct fy_bound *bound,
             struct fy_deferred **out, struct fy_deferred **out_edges)
{
    const struct fy_target target = {
        .original = call->original,
        .symbol = call->symbol,
        .integer_bits = bound->integer_bits,
        .sibling = options.services->sibling,
    };
    struct fy_lease lease;
    char note[FY_POOL_NOTE_BYTES];
    enum fy_reason reason =
        fy_pool_take(options.pool, 0, DEVICE_WAIT_SECONDS, note, &lease);

    if (reason != FY_REASON_NONE) {
        return reason;
    }
    const struct fy_plan_options plan = {.ops = options.ops,
                                         .device = lease.device};
    int status = fy_deferred_new(bound, &target, &plan, out);
    if (status == FY_OK) {
        status = fy_deferred_new(bound, &target, &plan, out_edges);
        if (status == FY_OK) {
            (*out)->symbol = call->symbol;
            (*out)->function = call->function;
            status = prepare(*out);
            if (status == FY_OK) {
                status = prepare_edges(*out_edges);
            }
            if (status) {
                fy_deferred_free(*out_edges);
            }
        }
        if (status) {
            fy_deferred_free(*out);
        }
    }
    fy_pool_release(options.pool, &lease);
    return status == FY_ERR_NOMEM ? FY_REASON_HOST_MEMORY
           : status               ? FY_REASON_UNSUPPORTED
                                  : FY_REASON_NONE;
}

enum fy_reason
fy_defer_call(const struct fy_intercepted *call, const struct fy_bound *bound)
{
    struct fy_deferred *deferred, *edges;
    int64_t first, count;

    if (!is_on()) {
        return FY_REASON_UNSUPPORTED;
    }
    if (fy_deferrable(bound) != FY_REASON_NONE ||
        !fy_deferred_inner(bound, options.force ? 1 : LEAST_PAGES, &first,
                           &count) ||
        !operands_agree(bound) || !arithmetic_is_plain() ||
        !provider_is_safe(call->original)) {
        return FY_REASON_UNSUPPORTED;
    }
    enum fy_reason reason = new_deferred(call, bound, &deferred, &edges);
    if (reason != FY_REASON_NONE) {
        return reason;
    }
    fy_pages_lock();
    int status = enqueue(deferred);
    fy_pages_unlock();
    if (status) {
        fy_deferred_free(deferred);
    } else {
        run_edges(edges);
    }
    fy_deferred_free(edges);
    return status ? FY_REASON_UNSUPPORTED : FY_REASON_NONE;
}

void
fy_defer_settle(const struct fy_bound *bound)
{
    uint64_t rows = 0;

    if (!is_on()) {
        return;
    }
    fy_pages_lock();
    for (unsigned o = 0; o < bound->function->noperands; o++) {
        struct fy_range range;
        bool overflow;
        if (bound->views[o].naxes > 0 &&
            fy_view_range(&bound->views[o], &range, &overflow)) {
            rows |= fy_pages_overlaps(range.start, range.bytes, false);
        }
    }
    if (rows) {
        bring_home(false, rows, "another call");
    }
    fy_pages_unlock();
}

/* ---- start, fork, and what else is told to us ------------------------------- */

static void
all_home(const char *why)
{
    int saved = errno;

    __atomic_fetch_add(&stops, 1, __ATOMIC_SEQ_CST);
    if (is_on()) {
        fy_pages_lock();
        bring_home(true, 0, why);
        fy_pages_unlock();
    }
    errno = saved;
}

/*
 * The lock is not kept: whatever of the program's is still registered, against
 * all we know, the fork would wait for the keeper to read its event.
 */
void
fy_defer_before_fork(void)
{
    all_home("a fork");
}

void
fy_defer_after_fork(void)
{
    __atomic_fetch_sub(&stops, 1, __ATOMIC_SEQ_CST);
}

void
fy_defer_before_change(void)
{
    all_home("what comes next");
}

void
fy_defer_after_change(void)
{
    __atomic_fetch_sub(&stops, 1, __ATOMIC_SEQ_CST);
}

int
fy_defer_start(const struct fy_defer_options *given)
{
    sigset_t before;
    pthread_t thread;

    options = *given;
    bool *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) {
        return FY_ERR_NOMEM;
    }
    /* The threads are not in a child, however it was made. */
    if (madvise(page, PAGE, MADV_WIPEONFORK) != 0) {
        (void)munmap(page, PAGE);
        return FY_ERR_UNSUPPORTED;
    }
    int status = fy_pages_start(&hooks);
    if (status) {
        (void)munmap(page, PAGE);
        return status;
    }
    fy_signals_block(&before);
    int error = pthread_create(&thread, NULL, work, NULL);
    fy_signals_restore(&before);
    if (error) {
        (void)munmap(page, PAGE);
        return FY_ERR_NOMEM;
    }
    pthread_detach(thread);
    *page = true;
    __atomic_store_n(&on, page, __ATOMIC_RELEASE);
    return FY_OK;
}
