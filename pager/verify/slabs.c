/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a call makes of changed inputs: whether the elements on a slab matter
 * at all (else they are declared in vain), and how far results move when
 * inputs move by a few units in the last place. In forked children only.
 */
#include "config.h"

#include <malloc.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pager/verify/copies.h"

enum {
    GARBAGE_BYTES = 32 * 1024, /* of the stack */
};

/* A layout of every image that a call with a changed slab runs on. */
struct stage {
    struct fy_trial *trial;
    struct fy_copies *copies;
    char *at[FY_MAX_OPERANDS]; /* by image, of image->lo */
    union fy_raw result;
};

static int
stage_new(struct fy_trial *t, struct stage *out)
{
    *out = (struct stage){.trial = t};
    t->state->soft = true; /* a fault would count as an answer */
    int status = fy_copies_new(t, FY_GUARD_AFTER, FY_POISON_NAN, &out->copies);
    if (status != 0) {
        return status;
    }
    for (unsigned g = 0; g < t->images->count; g++) {
        out->at[g] = out->copies->guard[g].block;
    }
    t->state->report.on_fault = NULL; /* a fault is an answer here */
    return 0;
}

static int
stage_call(struct stage *s)
{
    uint32_t steps;
    if (s->trial->call->function->host_call != FY_NIL) {
        return fy_chunks_run(s->copies, 0, false, &steps, &s->result);
    }
    int status = fy_invoke(&s->copies->invocation);
    s->result = s->copies->invocation.result;
    return status;
}

/* Whether the outputs tell that the elements of a slab were changed. */
static bool
slab_matters(const struct stage *s, unsigned operand, const char *changed)
{
    struct fy_trial *t = s->trial;
    struct fy_bounds bounds;
    struct fy_difference d;
    fy_bounds_make(t->call, t->images, &t->state->truth, &bounds);
    for (unsigned o = 0; o < t->call->function->noperands; o++) {
        unsigned g = t->images->of[o];
        if (t->images->views[o].naxes == 0) {
            continue;
        }
        fy_compare_operand(t->images, o, s->at[g], t->images->image[g].truth,
                           g == t->images->of[operand] ? changed : NULL,
                           &bounds, &d);
        if (d.found) {
            return true;
        }
    }
    fy_compare_result(t->call->function, t->call->integer_bits, &s->result,
                      &t->state->truth, &bounds, &d);
    return d.found;
}

/* Whether elements came out as they were put in, and not as the truth is. */
static bool
slab_kept(const struct stage *s, unsigned operand)
{
    const struct fy_trial *t = s->trial;
    const struct fy_bounds none = {.exact = true};
    struct fy_difference d;
    unsigned g = t->images->of[operand];
    fy_compare_operand(t->images, operand, s->at[g], t->images->image[g].truth,
                       NULL, &none, &d);
    return d.found;
}

void
fy_slab_mark_others(const struct fy_images *images, unsigned operand,
                    unsigned slab, char *marks)
{
    const struct fy_image *image = &images->image[images->of[operand]];
    memset(marks, 0, (size_t)(image->hi - image->lo));
    struct fy_walk w = {.view = &images->views[operand]};
    while (fy_walk_next(&w)) {
        if (!fy_walk_on_slab(&w, slab)) {
            marks[images->first[operand] + w.offset] = 1;
        }
    }
}

/* What takes the place of the values of a slab. */
enum spoiler {
    SPOIL_NAN,
    SPOIL_LARGE,    /* for those who skip NaNs; growing, for who looks for the
                     * largest */
    SPOIL_NEGATIVE, /* for who saturates, or takes magnitudes */
    SPOIL_FRACTION, /* between 0 and 1, likewise */
    SPOIL_SHUFFLED, /* the same values, for who accepts no others */
    SPOILERS
};

static double
spoilt(enum spoiler how, double was, unsigned n, bool whole)
{
    double v = (isfinite(was) ? fabs(was) : 1) * 0.37 + 0.013 * (1 + n % 5);
    if (how == SPOIL_NEGATIVE) {
        return whole ? -floor(v) - 1 - n % 3 : -v;
    }
    return whole ? fmod(floor(v) + 1 + n % 3, 5) : fmod(v, 1);
}

/* The n-th element of a slab; `other' is what another one of it holds. */
static void
spoil(enum spoiler how, enum fy_type type, uint32_t bytes, unsigned n,
      const char *other, char *at)
{
    bool real = fy_type_is_real(type);
    bool narrow = type == FY_T_F32 || type == FY_T_C32;
    double large = (narrow ? 1e20 : 1e150) * (1 + n);
    struct fy_value v = fy_raw_value(type, at);
    unsigned char pattern[FY_POISON_BYTES];
    if (how == SPOIL_SHUFFLED) {
        memcpy(at, other, bytes);
    } else if (how == SPOIL_LARGE && real) {
        v = (struct fy_value){.kind = FY_V_COMPLEX, .r = large, .im = large};
        fy_raw_store(type, &v, at);
    } else if (how <= SPOIL_LARGE || v.kind == FY_V_POINTER) {
        fy_poison_pattern(how == SPOIL_LARGE ? FY_POISON_LARGE : FY_POISON_NAN,
                          type, pattern);
        fy_poison_fill(pattern, at, at, bytes);
    } else {
        v.i = (int64_t)spoilt(how, (double)v.i, n, true);
        v.r = spoilt(how, v.r, n, false);
        v.im = spoilt(how, v.im, n, false);
        fy_raw_store(type, &v, at);
    }
}

/* Spoils the elements of a slab that no other shares. */
static void
spoil_slab(const struct stage *s, unsigned operand, unsigned slab,
           enum spoiler how, const char *others)
{
    const struct fy_images *images = s->trial->images;
    const struct fy_image *image = &images->image[images->of[operand]];
    char *block = s->at[images->of[operand]];
    const char *behind[3] = {NULL}; /* of elements before, as they were */
    unsigned count = 0;
    struct fy_walk w = {.view = &images->views[operand]};
    while (fy_walk_next(&w)) {
        int64_t at = images->first[operand] + w.offset;
        if (!fy_walk_on_slab(&w, slab) || others[at]) {
            continue;
        }
        const char *other = behind[count % 3];
        behind[count % 3] = image->before + at;
        spoil(how, (enum fy_type)image->element, w.view->element_bytes, count,
              other ? other : image->before + at, block + at);
        count++;
    }
}

/* Changes a slab, calls, and looks. *matters is set on success. */
static int
try_slab_with(struct fy_trial *t, unsigned operand, unsigned slab,
              enum spoiler how, bool *matters, bool *kept)
{
    unsigned g = t->images->of[operand];
    const struct fy_image *image = &t->images->image[g];
    size_t bytes = (size_t)(image->hi - image->lo);
    struct stage s;
    char *changed = malloc(bytes);
    int status = !changed ? FY_ERR_NOMEM : stage_new(t, &s);
    if (status != 0) {
        free(changed);
        return status;
    }
    fy_slab_mark_others(t->images, operand, slab, changed);
    spoil_slab(&s, operand, slab, how, changed);
    memcpy(changed, s.at[g], bytes);
    status = stage_call(&s);
    *matters = status == 0 && slab_matters(&s, operand, changed);
    *kept = status == 0 && !*matters && slab_kept(&s, operand);
    fy_copies_free(s.copies);
    free(changed);
    return status;
}

static bool
has_own_elements(const struct fy_images *images, unsigned operand,
                 unsigned slab)
{
    const struct fy_image *image = &images->image[images->of[operand]];
    char *marks = malloc((size_t)(image->hi - image->lo));
    struct fy_walk w = {.view = &images->views[operand]};
    bool found = false;
    if (!marks) {
        return false;
    }
    fy_slab_mark_others(images, operand, slab, marks);
    while (!found && fy_walk_next(&w)) {
        found = fy_walk_on_slab(&w, slab) &&
                !marks[images->first[operand] + w.offset];
    }
    free(marks);
    return found;
}

/* One element where there may be more: the largest of one, say, is no news. */
static bool
is_degenerate(const struct fy_trial *t, unsigned operand)
{
    const struct fy_bound *call = t->call;
    const struct fy_operand *o = FY_OF(call, fy_operand, operands) + operand;
    const struct fy_axis *axes = FY_OF(call, fy_axis, axes);
    const struct fy_node *nodes = FY_TABLE(call->model, fy_node, nodes);
    bool varies = false;
    for (unsigned k = 0; k < o->naxes; k++) {
        varies |= nodes[axes[o->axes[k].axis].extent].op != FY_OP_INT;
        if (t->images->views[operand].extent[k] > 1) {
            return false;
        }
    }
    return varies;
}

static bool
slab_pending(const struct fy_trial *t, unsigned operand, unsigned slab)
{
    enum {
        ENOUGH = 64
    };
    const struct fy_view *v = &t->images->views[operand];
    const struct fy_tally_slab *row =
        &fy_tally_operand(t->tally, t->call->function->operands + operand)
             ->slab[slab];
    if (v->naxes == 0 || !(v->access & FY_ACCESS_IN) ||
        v->access == FY_ACCESS_SCRATCH || row->read_mattered > 0 ||
        row->read_tested >= ENOUGH) {
        return false;
    }
    return !is_degenerate(t, operand) &&
           has_own_elements(t->images, operand, slab);
}

int
fy_trial_slab(struct fy_trial *t, unsigned operand, unsigned slab)
{
    if (!slab_pending(t, operand, slab)) {
        return 0;
    }
    struct fy_tally_slab *row =
        &fy_tally_operand(t->tally, t->call->function->operands + operand)
             ->slab[slab];
    bool matters = false, kept = false;
    int status = 0;
    FY_TALLY_ADD(row->read_tested); /* before: it may fault */
    for (int how = 0; how < SPOILERS && status == 0 && !matters; how++) {
        status =
            try_slab_with(t, operand, slab, (enum spoiler)how, &matters, &kept);
        if (kept) {
            FY_TALLY_ADD(row->kept);
        }
    }
    if (matters) {
        FY_TALLY_ADD(row->read_mattered);
    }
    return status;
}

static uint64_t
next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* A factor within some units of the last place around 1. */
static double
jitter(uint64_t *random, double eps)
{
    return 1 + eps * 4 * ((double)(next_random(random) >> 11) / 0x1p52 - 1);
}

void
fy_trial_perturb(enum fy_type type, char *at, uint64_t *random)
{
    double eps = fy_type_epsilon(type);
    union fy_raw r;
    uint32_t bytes = fy_type_bytes(type, 64);
    memcpy(&r, at, bytes);
    if (type == FY_T_F32 || type == FY_T_C32) {
        for (uint32_t k = 0; k < bytes / 4; k++) {
            r.f[k] = (float)((double)r.f[k] * jitter(random, eps));
        }
    } else {
        for (uint32_t k = 0; k < bytes / 8; k++) {
            r.d[k] *= jitter(random, eps);
        }
    }
    memcpy(at, &r, bytes);
}

/* Puts the inputs back into the program's memory, slightly changed. */
static void
perturb_inputs(struct fy_trial *t, uint64_t *random)
{
    const struct fy_images *images = t->images;
    const struct fy_operand *operands = FY_OF(t->call, fy_operand, operands);
    for (unsigned o = 0; o < t->call->function->noperands; o++) {
        const struct fy_view *v = &images->views[o];
        const char *before = images->image[images->of[o]].before;
        if (v->naxes == 0 || !(v->access & FY_ACCESS_IN) ||
            v->access == FY_ACCESS_SCRATCH) {
            continue;
        }
        bool real = fy_type_is_real((enum fy_type)operands[o].element);
        struct fy_walk w = {.view = v};
        while (fy_walk_next(&w)) {
            char element[16];
            memcpy(element, before + images->first[o] + w.offset,
                   v->element_bytes);
            if (real) {
                fy_trial_perturb((enum fy_type)operands[o].element, element,
                                 random);
            }
            memcpy(v->host + w.offset, element, v->element_bytes);
        }
    }
}

/*
 * Results may also depend on memory nobody has set: a temporary array of the
 * function that is copied out before it is filled. Then they mean nothing, and
 * move without bounds here.
 */
static void
perturb_garbage(unsigned run)
{
    static const int fill[FY_SENSITIVITY_RUNS] = {0x01, 0x81, 0xc1, 0x40};
    volatile unsigned char stack[GARBAGE_BYTES];
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the child has one thread */
    mallopt(M_PERTURB, fill[run]); /* what malloc returns, and after free */
    for (size_t i = 0; i < sizeof stack; i++) {
        stack[i] = (unsigned char)fill[run];
    }
}

/* Takes in how far the outputs of a run are from the truth. */
static void
take_distances(struct fy_trial *t, char *const *got, const union fy_raw *result)
{
    struct fy_trial_state *s = t->state;
    const struct fy_function *f = t->call->function;
    struct fy_bounds none = {.exact = true};
    struct fy_difference d;
    for (unsigned o = 0; o < f->noperands; o++) {
        unsigned g = t->images->of[o];
        if (t->images->views[o].naxes == 0) {
            continue;
        }
        fy_compare_operand(t->images, o, got[g], t->images->image[g].truth,
                           NULL, &none, &d);
        s->sensitivity[o] = fmax(s->sensitivity[o], d.distance);
    }
    fy_compare_result(f, t->call->integer_bits, result, &s->truth, &none, &d);
    s->sensitivity[FY_MAX_OPERANDS] =
        fmax(s->sensitivity[FY_MAX_OPERANDS], d.distance);
}

/*
 * On copies at other addresses, with the program's own bytes all around: what
 * differs now is alignment's doing (vector kernels and NaNs, sums).
 */
static void
run_elsewhere(struct fy_trial *t, enum fy_guard_side side)
{
    struct fy_copies *c;
    char *got[FY_MAX_OPERANDS];
    t->state->soft = true;
    if (fy_copies_new(t, side, FY_POISON_NAN, &c) != 0) {
        return;
    }
    t->state->report.on_fault = NULL;
    for (unsigned g = 0; g < t->images->count; g++) {
        got[g] = c->guard[g].block;
        fy_copies_fill_real(c, g);
    }
    if (fy_invoke(&c->invocation) == 0) {
        take_distances(t, got, &c->invocation.result);
    }
    fy_copies_free(c);
}

void
fy_trial_sensitivity(void *opaque)
{
    struct fy_trial *t = opaque;
    uint32_t run = t->state->sensitivity_run;
    if (fy_child_own(t->call) != 0) {
        return;
    }
    if (run >= FY_SENSITIVITY_RUNS) {
        run_elsewhere(t, run % 2 == 0 ? FY_GUARD_AFTER : FY_GUARD_BEFORE);
        return;
    }
    uint64_t random = (t->seed + 0x9e3779b97f4a7c15u * run) | 1;
    perturb_inputs(t, &random);
    perturb_garbage(run);
    union fy_raw result;
    if (fy_trial_in_place(t, &result) != 0) {
        return;
    }
    char *got[FY_MAX_OPERANDS];
    for (unsigned g = 0; g < t->images->count; g++) {
        got[g] = t->images->image[g].base + t->images->image[g].lo;
    }
    take_distances(t, got, &result);
}
