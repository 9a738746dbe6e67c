/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verification of calls, see the header: which calls, the children that try
 * them, and what their ends mean. Runs on threads of the host program; all
 * that may go wrong happens in children (trial.c).
 */
#include "config.h"

#include "pager/verify/verify.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pager/verify/trial.h"

enum {
    ALWAYS = 100,      /* calls of a function that are verified in any case */
    SIMILAR = 2,       /* then: of one call site and shape, and every 2^n-th */
    SITES = 4096,      /* call sites and shapes that are told apart */
    TRUTH_MS = 120000, /* how long the original may take */
    ENOUGH = 4,        /* calls of a function with findings: then no more */
    LEAST_MS = 3000,   /* how long its experiments may at least take */
    SLAB_MS = 500,
};
#define LIMIT_BYTES ((size_t)256 << 20) /* images of one call */
#define SMALL_BYTES ((size_t)16 << 20)  /* up to here, all experiments */

struct fy_verifier {
    const struct fy_model *model;
    const char *path;
    void *(*sibling)(void *original, const char *name);
    struct fy_tally *tally;
    struct fy_trial_state *state; /* shared with the children */
    struct fy_bound *call;
    pthread_mutex_t lock;
    uint64_t random;
    uint32_t sites[SITES]; /* how often each was seen */
};

int
fy_verifier_new(const struct fy_model *model, const char *path,
                void *(*sibling)(void *original, const char *name),
                struct fy_verifier **out)
{
    struct fy_verifier *v = calloc(1, sizeof *v);
    if (!v) {
        return FY_ERR_NOMEM;
    }
    v->model = model;
    v->path = path;
    v->sibling = sibling;
    v->random = 0x9e3779b97f4a7c15u;
    pthread_mutex_init(&v->lock, NULL);
    int status = FY_ERR_NOMEM;
    v->call = calloc(1, sizeof *v->call);
    v->state = fy_shared_new(sizeof *v->state);
    if (v->call && v->state) {
        status = fy_tally_open(model, path, &v->tally);
    }
    if (status != 0) {
        fy_verifier_free(v);
        return status;
    }
    *out = v;
    return 0;
}

void
fy_verifier_free(struct fy_verifier *v)
{
    if (!v) {
        return;
    }
    fy_tally_close(v->tally);
    fy_shared_free(v->state, sizeof *v->state);
    free(v->call);
    pthread_mutex_destroy(&v->lock);
    free(v);
}

/* ---- which calls ---- */

static uint64_t
mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0xff51afd7ed558ccdu;
    return h ^ h >> 32;
}

/* Call site, variant, sizes by powers of two, and all small scalars. */
static uint64_t
shape_key(const struct fy_bound *call, void *caller)
{
    uint64_t h = mix(call->function_index, (uint64_t)(uintptr_t)caller);
    for (unsigned a = 0; a < call->function->naxes; a++) {
        h = mix(h, (uint64_t)(64 -
                              __builtin_clzll((uint64_t)call->extents[a] | 1)));
    }
    for (unsigned o = 0; o < call->function->noperands; o++) {
        h = mix(h, call->views[o].naxes == 0 ? 0 : call->views[o].access);
    }
    for (unsigned c = 0; c < call->function->ncells; c++) {
        if (call->cells[c].kind == FY_V_INT && call->cells[c].i >= -1 &&
            call->cells[c].i < 128 && call->cells[c].i > 'A') {
            h = mix(h, (uint64_t)call->cells[c].i); /* options: 'N', 'U' */
        }
    }
    return h;
}

static bool
is_due(struct fy_verifier *v, const struct fy_bound *call, void *caller)
{
    struct fy_tally_function *row =
        fy_tally_function(v->tally, call->function_index);
    if (__atomic_load_n(&row->faulty, __ATOMIC_RELAXED) >= ENOUGH) {
        return false;
    }
    uint32_t seen = ++v->sites[shape_key(call, caller) % SITES];
    /* Also the 4th, 8th, 16th, ...: loops often begin with special data. */
    if (__atomic_load_n(&row->checked, __ATOMIC_RELAXED) >= ALWAYS &&
        seen > SIMILAR && (seen & (seen - 1)) != 0) {
        return false;
    }
    return true;
}

/* ---- one call ---- */

struct context {
    struct fy_verifier *verifier;
    struct fy_trial trial;
    struct fy_tally_function *row;
    /* A read outside that may turn out to be harmless. */
    struct fy_problem overread;
    bool has_overread;
    bool faulty; /* something was found */
};

static void
report_problem(struct context *x, const struct fy_problem *p)
{
    const struct fy_bound *call = x->trial.call;
    if (p->kind >= FY_FINDING_COUNT ||
        (p->operand != FY_NIL && p->operand >= call->function->noperands)) {
        return;
    }
    fy_tally_report(
        x->verifier->tally, call->model, x->verifier->path,
        call->function_index,
        p->operand == FY_NIL ? FY_NIL : call->function->operands + p->operand,
        (enum fy_finding_kind)p->kind, p->text);
}

static void
report_problems(struct context *x)
{
    struct fy_trial_state *s = x->trial.state;
    if (s->nproblems > 0) {
        x->faulty = true;
    }
    if (x->has_overread && s->nproblems > 0) {
        report_problem(x, &x->overread); /* it was not harmless */
    }
    x->has_overread = false;
    for (uint32_t i = 0; i < s->nproblems && i < FY_PROBLEMS; i++) {
        report_problem(x, &s->problems[i]);
    }
    s->nproblems = 0;
}

/* The experiment after a read outside has gone well, with slack around. */
static void
note_overread(struct context *x)
{
    x->overread.kind = FY_FINDING_OVERREAD;
    report_problem(x, &x->overread);
    x->has_overread = false;
    /* From now on with slack at once: the same would happen every time. */
    __atomic_fetch_or(&x->row->reported, 1U << FY_FINDING_OVERREAD,
                      __ATOMIC_RELAXED);
}

static void
slab_mattered(struct context *x, uint32_t experiment)
{
    uint32_t k = experiment - FY_TRY_SLABS;
    struct fy_tally_operand *row = fy_tally_operand(
        x->verifier->tally, x->trial.call->function->operands + k / FY_SLABS);
    FY_TALLY_ADD(row->slab[k % FY_SLABS].read_mattered);
}

static unsigned
patience_ms(const struct fy_trial *t)
{
    const struct fy_trial_state *s = t->state;
    if (s->experiment == FY_TRY_TRUTH) {
        return TRUTH_MS;
    }
    uint64_t ms = s->truth_ns / 1000000 * 4 * t->experiments +
                  (s->experiment >= FY_TRY_SLABS ? SLAB_MS : LEAST_MS);
    return ms > TRUTH_MS ? TRUTH_MS : (unsigned)ms;
}

static void
measure_sensitivity(struct context *x)
{
    struct fy_trial_state *s = x->trial.state;
    uint32_t experiment = s->experiment;
    s->sensitivity_known = true; /* or, in exact functions, not needed */
    memset(s->sensitivity, 0, sizeof s->sensitivity);
    bool soft = s->soft;
    for (uint32_t run = 0; run < FY_SENSITIVITY_RUNS + 2; run++) {
        s->sensitivity_run = run;
        bool done = fy_isolated_run(fy_trial_sensitivity, &x->trial,
                                    patience_ms(&x->trial), &s->report) == 0 &&
                    s->report.end == FY_CHILD_DONE;
        /* On copies that a wrong annotation makes too small it may fault. */
        if (!done && run < FY_SENSITIVITY_RUNS) {
            memset(s->sensitivity, 0, sizeof s->sensitivity);
            break;
        }
    }
    s->soft = soft;
    s->experiment = experiment;
    s->nproblems = 0;
}

/* A child ended without finishing. False: no more experiments on this call. */
static bool
take_end(struct context *x)
{
    struct fy_trial_state *s = x->trial.state;
    uint32_t e = s->experiment;
    enum fy_child_end end = (enum fy_child_end)s->report.end;
    if (end == FY_CHILD_KILLED) {
        return false;
    }
    if (end == FY_CHILD_DONE && s->nproblems == 0) {
        FY_TALLY_ADD(x->row->failed);
        return false;
    }
    if (end == FY_CHILD_DONE && s->want_sensitivity && !s->sensitivity_known) {
        measure_sensitivity(x);
        return true;
    }
    if (end == FY_CHILD_FAULT && !s->report.write && !s->soft &&
        s->nproblems == 1 &&
        (s->problems[0].kind == FY_FINDING_OUTSIDE ||
         s->problems[0].kind == FY_FINDING_CHUNK_OUTSIDE)) {
        x->overread = s->problems[0];
        x->has_overread = true;
        s->soft = true;
        return true;
    }
    if (end != FY_CHILD_DONE && e >= FY_TRY_SLABS) {
        slab_mattered(x, e);
    } else if (end == FY_CHILD_EXITED && e != FY_TRY_TRUTH) {
        fy_trial_problem(&x->trial, FY_NIL, FY_FINDING_EXITED,
                         "on copies of its operands the call ends the "
                         "program (exit status %d)",
                         s->report.exit_status);
    } else if (end == FY_CHILD_TIMEOUT && e != FY_TRY_TRUTH &&
               e != FY_TRY_MAPS) { /* there it is our own slowness */
        fy_trial_problem(&x->trial, FY_NIL, FY_FINDING_TIMEOUT,
                         "on copies of its operands the call does not end");
    } else if (e == FY_TRY_TRUTH && s->nproblems == 0) {
        FY_TALLY_ADD(x->row->crashed);
        return false;
    }
    report_problems(x);
    s->experiment = e + 1;
    return s->truth_known;
}

static void
try_call(struct context *x)
{
    struct fy_trial *t = &x->trial;
    struct fy_trial_state *s = t->state;
    memset(s, 0, sizeof *s);
    s->soft = fy_tally_reported(x->verifier->tally, t->call->function_index,
                                FY_NIL, FY_FINDING_OVERREAD);
    do {
        s->nproblems = 0;
        s->want_sensitivity = false;
        uint32_t first = s->experiment;
        if (fy_isolated_run(fy_trial_body, t, patience_ms(t), &s->report) !=
            0) {
            FY_TALLY_ADD(x->row->failed);
            return;
        }
        if (x->has_overread && s->experiment > first) {
            note_overread(x);
        }
        if (s->report.end == FY_CHILD_DONE && s->nproblems == 0 &&
            s->experiment >= t->experiments) {
            break;
        }
        if (!take_end(x)) {
            return;
        }
    } while (s->experiment < t->experiments);
    FY_TALLY_ADD(x->row->checked);
}

static void
verify_bound(struct fy_verifier *v, const struct fy_bound *call,
             const struct fy_target *target)
{
    char *base[FY_MAX_OPERANDS];
    struct fy_images images;
    const struct fy_operand *operands = FY_OF(call, fy_operand, operands);
    for (unsigned o = 0; o < call->function->noperands; o++) {
        base[o] = (char *)(uintptr_t)call->cells[operands[o].base].p;
    }

    struct context x = {.verifier = v,
                        .row =
                            fy_tally_function(v->tally, call->function_index)};
    int status = fy_images_new(call->model, call->function, call->views, base,
                               LIMIT_BYTES, &images);
    if (status != 0) {
        if (status == FY_ERR_NOMEM) {
            FY_TALLY_ADD(x.row->failed);
        } else {
            FY_TALLY_ADD(x.row->large);
        }
        return;
    }
    v->random = mix(v->random, 1);
    x.trial = (struct fy_trial){
        .call = call,
        .target = target,
        .images = &images,
        .tally = v->tally,
        .state = v->state,
        .seed = v->random,
        .experiments =
            images.shared_bytes > SMALL_BYTES
                ? FY_TRY_CHUNKS + 2
                : FY_TRY_SLABS + FY_SLABS * call->function->noperands,
    };
    try_call(&x);
    if (x.faulty) {
        FY_TALLY_ADD(x.row->faulty);
    }
    fy_images_free(&images);
}

/* A call that does not bind: some reasons are the annotation's fault. */
static void
note_unbound(struct fy_verifier *v, uint32_t function, enum fy_reason reason)
{
    const char *text;
    enum fy_finding_kind kind = FY_FINDING_INVALID;
    switch (reason) {
    case FY_REASON_OVERLAP:
        text = "the elements of a written operand coincide: a stride is too "
               "small for the extents declared";
        break;
    case FY_REASON_OVERFLOW:
        text = "the size of an operand overflows";
        break;
    case FY_REASON_UNMAPPED:
        kind = FY_FINDING_UNMAPPED;
        text = "an operand is declared behind a null pointer";
        break;
    default:
        return;
    }
    fy_tally_report(v->tally, v->model, v->path, function, FY_NIL, kind, text);
}

static void
count_decline(struct fy_verifier *v, uint32_t function, enum fy_reason reason)
{
    struct fy_tally_function *row = fy_tally_function(v->tally, function);
    FY_TALLY_ADD(row->calls);
    FY_TALLY_ADD(row->declined[reason]);
}

static void
verify_locked(struct fy_verifier *v, const struct fy_intercepted *call,
              unsigned integer_bits, fy_handle_lookup *handles)
{
    enum fy_reason reason = fy_bind(v->model, call->function, integer_bits,
                                    call->registers, handles, v->call);
    if (reason != FY_REASON_NONE) {
        count_decline(v, call->function, reason);
        note_unbound(v, call->function, reason);
        return;
    }
    if (v->call->function->flags & (FY_FN_MAKES | FY_FN_FREES)) {
        return;
    }
    struct fy_tally_function *row =
        fy_tally_function(v->tally, v->call->function_index);
    if (!is_due(v, v->call, call->caller)) {
        FY_TALLY_ADD(row->calls);
        FY_TALLY_ADD(row->sampled);
        return;
    }
    reason = FY_REASON_NONE;
    if (v->call->function->noperands > 0) {
        reason = fy_bound_check_memory(v->call);
    } else if (v->call->function->host_call != FY_NIL) {
        fy_tally_report(v->tally, v->model, v->path, v->call->function_index,
                        FY_NIL, FY_FINDING_INVALID,
                        "nothing is declared that the call could touch");
    }
    if (reason == FY_REASON_OVERLAP || reason == FY_REASON_EMPTY ||
        reason == FY_REASON_OVERFLOW) {
        count_decline(v, v->call->function_index, reason);
        return;
    }
    FY_TALLY_ADD(row->calls);

    struct fy_target target = {.original = call->original,
                               .symbol = call->symbol,
                               .integer_bits = (uint8_t)integer_bits,
                               .sibling = v->sibling};
    verify_bound(v, v->call, &target);
}

void
fy_verify_intercepted(struct fy_verifier *v, const struct fy_intercepted *call,
                      unsigned integer_bits, fy_handle_lookup *handles)
{
    int saved_errno = errno;
    if (pthread_mutex_trylock(&v->lock) == 0) {
        verify_locked(v, call, integer_bits, handles);
        pthread_mutex_unlock(&v->lock);
    } else {
        struct fy_tally_function *row =
            fy_tally_function(v->tally, call->function);
        FY_TALLY_ADD(row->calls);
        FY_TALLY_ADD(row->sampled);
    }
    errno = saved_errno;
}
