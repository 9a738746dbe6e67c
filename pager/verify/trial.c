/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The experiments on one call, see the header. Everything here runs in forked
 * children; the program's memory is there as it was before the call.
 */
#include "config.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "pager/verify/copies.h"

enum {
    SENSITIVITY_FACTOR = 64, /* of what inputs moved by a few eps do */
    MEANINGLESS = 16, /* results that move by so many times their scale */
};

const char *
fy_trial_name(const struct fy_trial *t, uint32_t operand)
{
    const struct fy_operand *o = FY_OF(t->call, fy_operand, operands) + operand;
    return fy_model_string(t->call->model, o->name);
}

/* "dgemm(m=3, n=4, alpha=1.5)": the call's scalars. */
static void
call_text(const struct fy_trial *t, char *out, size_t bytes)
{
    const struct fy_bound *call = t->call;
    const struct fy_cell *cells = FY_OF(call, fy_cell, cells);
    size_t used = (size_t)snprintf(
        out, bytes, "%s(", fy_model_string(call->model, call->function->name));
    const char *comma = "";
    for (unsigned c = 0; c < call->function->ncells && used < bytes; c++) {
        const struct fy_value *v = &call->cells[c];
        const char *name = fy_model_string(call->model, cells[c].name);
        if (v->kind == FY_V_POINTER) {
            continue;
        }
        if (cells[c].type == FY_T_CHAR && v->i > ' ' && v->i < 127) {
            used += (size_t)snprintf(out + used, bytes - used, "%s%s='%c'",
                                     comma, name, (char)v->i);
        } else if (v->kind == FY_V_INT) {
            used += (size_t)snprintf(out + used, bytes - used, "%s%s=%lld",
                                     comma, name, (long long)v->i);
        } else if (v->kind == FY_V_REAL) {
            used += (size_t)snprintf(out + used, bytes - used, "%s%s=%g", comma,
                                     name, v->r);
        } else {
            used += (size_t)snprintf(out + used, bytes - used, "%s%s=%g%+gi",
                                     comma, name, v->r, v->im);
        }
        comma = ", ";
    }
    if (used < bytes) {
        (void)snprintf(out + used, bytes - used, ")");
    }
}

void
fy_trial_problem(struct fy_trial *t, uint32_t operand,
                 enum fy_finding_kind kind, const char *format, ...)
{
    struct fy_trial_state *s = t->state;
    for (unsigned i = 0; i < s->nproblems; i++) {
        if (s->problems[i].operand == operand && s->problems[i].kind == kind) {
            return;
        }
    }
    if (s->nproblems == FY_PROBLEMS) {
        return;
    }
    struct fy_problem *p = &s->problems[s->nproblems];
    char call[200], text[FY_PROBLEM_TEXT];
    call_text(t, call, sizeof call);
    va_list list;
    va_start(list, format);
    (void)vsnprintf(text, sizeof text, format, list);
    va_end(list);
    p->operand = operand;
    p->kind = kind;
    if (snprintf(p->text, sizeof p->text, "%s, in %s", text, call) >=
        (int)sizeof p->text) {
        memcpy(p->text + sizeof p->text - 4, "...", 4);
    }
    s->nproblems++;
}

/* ---- the truth ---- */

static void
on_truth_fault(struct fy_child_report *report, void *context)
{
    struct fy_trial *t = context;
    (void)report;
    if (!t->state->reading) {
        return;
    }
    fy_trial_problem(t, t->state->operand, FY_FINDING_UNMAPPED,
                     "`%s' is declared larger than it is: reading it as "
                     "declared leaves the program's memory",
                     fy_trial_name(t, t->state->operand));
}

/* Copies declared content into image->before or ->truth. */
static void
read_program(struct fy_trial *t, bool after)
{
    struct fy_images *images = t->images;
    for (unsigned o = 0; o < t->call->function->noperands; o++) {
        const struct fy_view *v = &images->views[o];
        const struct fy_image *image = &images->image[images->of[o]];
        if (v->naxes == 0) {
            continue;
        }
        t->state->operand = o;
        t->state->reading = true;
        char *to = (after ? image->truth : image->before) + images->first[o];
        struct fy_walk w = {.view = v};
        while (fy_walk_next(&w)) {
            memcpy(to + w.offset, v->host + w.offset, v->element_bytes);
        }
        t->state->reading = false;
    }
}

/* The call has written a scalar that no operand declares. */
static void
note_scalar(struct fy_trial *t, const struct fy_invocation *i)
{
    const struct fy_model *model = t->call->model;
    if (i->scalar_written == FY_NIL) {
        return;
    }
    const struct fy_arg *arg = FY_TABLE(model, fy_arg, args) +
                               t->call->function->args + i->scalar_written;
    const char *name = fy_model_string(model, arg->name), *field = NULL;
    int length = 0;
    for (const char *row = fy_model_string(model, arg->fields);
         i->field_at < arg->struct_bytes && *row != '\0';) {
        char *word;
        if (strtoul(row, &word, 10) > i->field_at) {
            break;
        }
        field = word + 1;
        length = (int)strcspn(field, "\n");
        row = field + length + 1;
    }
    if (field) {
        fy_trial_problem(t, FY_NIL, FY_FINDING_SCALAR_WRITTEN,
                         "the call wrote `%s->%.*s', which is not declared: "
                         "out %s->%.*s, or inout",
                         name, length, field, name, length, field);
    } else {
        fy_trial_problem(t, FY_NIL, FY_FINDING_SCALAR_WRITTEN,
                         "the call wrote %s `%s', which is not declared as an "
                         "operand",
                         i->field_at == FY_NIL ? "argument" : "what follows",
                         name);
    }
}

/* What a call does beside its operands and its value. */
static void
note_effects(struct fy_trial *t, const struct fy_invocation *i, int64_t written)
{
    char why[64];
    if (i->error != 0) {
        fy_trial_problem(t, FY_NIL, FY_FINDING_ERRNO,
                         "the call sets errno to %d (%s), which an offloaded "
                         "one leaves as it is",
                         i->error, strerror_r(i->error, why, sizeof why));
    }
    if (written > 0) {
        fy_trial_problem(t, FY_NIL, FY_FINDING_PRINTS,
                         "the call writes %lld bytes to open files, an "
                         "offloaded one does so for each chunk",
                         (long long)written);
    }
}

int
fy_trial_in_place(struct fy_trial *t, union fy_raw *result)
{
    struct fy_invocation *i = calloc(1, sizeof *i);
    if (!i) {
        return FY_ERR_NOMEM;
    }
    i->call = t->call;
    i->original = t->target->original;
    int64_t written = fy_child_written();
    int status = fy_invoke(i);
    *result = i->result;
    if (status == 0) {
        note_scalar(t, i);
        note_effects(t, i, written < 0 ? 0 : fy_child_written() - written);
    }
    free(i);
    return status;
}

bool
fy_walk_on_slab(const struct fy_walk *w, unsigned slab)
{
    const struct fy_view *v = w->view;
    int64_t at = w->index[0] + v->sign * (v->naxes > 1 ? w->index[1] : 0);
    switch (slab) {
    case FY_SLAB_ALL:
        return true;
    case FY_SLAB_LO:
        return v->sign != 0 && at == v->lo;
    case FY_SLAB_HI:
        return v->sign != 0 && at == v->hi;
    default:
        return slab < v->naxes && w->index[slab] == v->extent[slab] - 1;
    }
}

/* Whether a slab has elements of its own, and whether the call changed one. */
static void
look_at_slab(const struct fy_images *images, unsigned o, unsigned slab,
             const char *after, char *marks, bool *tested, bool *changed)
{
    const struct fy_view *v = &images->views[o];
    const struct fy_image *image = &images->image[images->of[o]];
    fy_slab_mark_others(images, o, slab, marks);
    struct fy_walk w = {.view = v};
    *tested = *changed = false;
    while (fy_walk_next(&w) && !*changed) {
        int64_t at = images->first[o] + w.offset;
        if (!fy_walk_on_slab(&w, slab) || marks[at]) {
            continue;
        }
        *tested = true;
        *changed =
            memcmp(image->before + at, after + at, v->element_bytes) != 0;
    }
}

void
fy_trial_count_changes(struct fy_trial *t, char *const *after)
{
    const struct fy_images *images = t->images;
    for (unsigned o = 0; o < t->call->function->noperands; o++) {
        const struct fy_view *v = &images->views[o];
        const struct fy_image *image = &images->image[images->of[o]];
        struct fy_tally_operand *row =
            fy_tally_operand(t->tally, t->call->function->operands + o);
        if (v->naxes == 0 || v->access != FY_ACCESS_INOUT) {
            continue;
        }
        char *marks = malloc((size_t)(image->hi - image->lo));
        for (unsigned k = 0; k < FY_SLABS && marks; k++) {
            bool tested, changed;
            if (row->slab[k].written_changed > 0) {
                continue;
            }
            look_at_slab(images, o, k, after[images->of[o]], marks, &tested,
                         &changed);
            if (tested) {
                FY_TALLY_ADD(row->slab[k].written_tested);
            }
            if (changed) {
                FY_TALLY_ADD(row->slab[k].written_changed);
            }
        }
        free(marks);
    }
}

static int
try_truth(struct fy_trial *t)
{
    t->state->report.on_fault = on_truth_fault;
    t->state->report.context = t;
    read_program(t, false);
    uint64_t start = fy_clock_ns();
    int status = fy_trial_in_place(t, &t->state->truth);
    t->state->truth_ns = fy_clock_ns() - start;
    if (status != 0) {
        return status;
    }
    read_program(t, true);
    t->state->truth_known = true;
    return 0;
}

/* ---- comparison ---- */

static void
note_difference(struct fy_trial *t, uint32_t operand,
                const struct fy_difference *d, double bound,
                enum fy_finding_kind kind, const char *how)
{
    if (operand == FY_NIL) {
        fy_trial_problem(t, FY_NIL, kind,
                         "%s the call returns %.10g instead of %.10g", how,
                         d->got, d->want);
    } else {
        fy_trial_problem(
            t, operand, kind,
            "%s `%s' differs: element %s is %.10g instead of %.10g "
            "(allowed: %.2g)",
            how, fy_trial_name(t, operand), d->place, d->got, d->want, bound);
    }
}

void
fy_trial_compare(struct fy_trial *t, char *const *got,
                 const union fy_raw *result, enum fy_finding_kind kind,
                 const char *how)
{
    struct fy_bounds bounds;
    struct fy_trial_state *s = t->state;
    unsigned n = t->call->function->noperands;
    fy_bounds_make(t->call, t->images, &s->truth, &bounds);
    s->undecided = false;
    for (unsigned o = 0; o <= FY_MAX_OPERANDS && s->sensitivity_known; o++) {
        double extra = SENSITIVITY_FACTOR * s->sensitivity[o];
        bool any = extra > MEANINGLESS * bounds.scale[o] && extra > 0;
        bounds.bound[o] = any ? INFINITY : bounds.bound[o] + extra;
        s->undecided = s->undecided || any;
    }
    for (unsigned o = 0; o <= n; o++) {
        struct fy_difference d;
        if (o == n) {
            fy_compare_result(t->call->function, t->call->integer_bits, result,
                              &s->truth, &bounds, &d);
        } else {
            unsigned g = t->images->of[o];
            if (t->images->views[o].naxes == 0) {
                continue;
            }
            fy_compare_operand(t->images, o, got[g], t->images->image[g].truth,
                               NULL, &bounds, &d);
        }
        if (!d.found) {
            continue;
        }
        if (!s->sensitivity_known) {
            s->want_sensitivity = true;
        }
        note_difference(t, o == n ? FY_NIL : o, &d,
                        bounds.bound[o == n ? FY_MAX_OPERANDS : o], kind, how);
    }
}

/* ---- guarded copies ---- */

/* What the call may not have written is as it was. */
static void
check_untouched(struct fy_copies *c, unsigned g)
{
    struct fy_trial *t = c->trial;
    const struct fy_image *image = &t->images->image[g];
    const struct fy_guard *guard = &c->guard[g];
    char place[200];
    int64_t bytes = image->hi - image->lo, at;
    for (at = 0; at < bytes; at++) {
        unsigned mark = image->marks[at];
        unsigned char was = mark & FY_MARK_IN
                                ? (unsigned char)image->before[at]
                                : guard->poison[at % FY_POISON_BYTES];
        if (mark & (FY_MARK_OUT | FY_MARK_SCRATCH) ||
            (unsigned char)guard->block[at] == was) {
            continue;
        }
        unsigned o = fy_image_operand(t->images, g, at);
        fy_image_place(t->images, o, at, place, sizeof place);
        if (mark & FY_MARK_IN) {
            fy_trial_problem(t, o, FY_FINDING_IN_MODIFIED,
                             "the call writes `%s' (%s), which is declared in",
                             fy_trial_name(t, o), place);
        } else {
            fy_trial_problem(t, o, FY_FINDING_UNDECLARED_WRITE,
                             "the call writes `%s' at %s", fy_trial_name(t, o),
                             place);
        }
    }
    if (fy_guard_spilled(guard, &at)) {
        unsigned o = fy_image_operand(t->images, g, at);
        fy_image_place(t->images, o, at, place, sizeof place);
        fy_trial_problem(t, o, FY_FINDING_OUTSIDE, "the call writes `%s' %s",
                         fy_trial_name(t, o), place);
    }
}

/* Every declared `out' element was written. */
static void
check_written(struct fy_copies *c, unsigned o)
{
    struct fy_trial *t = c->trial;
    const struct fy_view *v = &t->images->views[o];
    unsigned g = t->images->of[o];
    const struct fy_image *image = &t->images->image[g];
    struct fy_walk w = {.view = v};
    char place[96];
    if (v->access != FY_ACCESS_OUT) {
        return;
    }
    while (fy_walk_next(&w)) {
        int64_t at = t->images->first[o] + w.offset;
        bool same = !(image->marks[at] & FY_MARK_IN);
        for (uint32_t b = 0; b < v->element_bytes && same; b++) {
            same = (unsigned char)c->guard[g].block[at + b] ==
                   c->guard[g].poison[(at + b) % FY_POISON_BYTES];
        }
        /* What the program got may be the very bytes of the poison. */
        if (!same || memcmp(image->truth + at, c->guard[g].block + at,
                            v->element_bytes) == 0) {
            continue;
        }
        fy_walk_text(&w, place, sizeof place);
        fy_trial_problem(t, o, FY_FINDING_NOT_WRITTEN,
                         "`%s' is declared out, but the call does not write "
                         "element %s",
                         fy_trial_name(t, o), place);
        return;
    }
}

/* Whether the result is wrong when only one image has poison around it. */
static int
is_to_blame(struct fy_trial *t, unsigned image, enum fy_guard_side side,
            enum fy_poison poison, bool *out)
{
    struct fy_copies *c;
    char *got[FY_MAX_OPERANDS];
    int status = fy_copies_new(t, side, poison, &c);
    if (status != 0) {
        return status;
    }
    t->state->report.on_fault = NULL;
    for (unsigned g = 0; g < t->images->count; g++) {
        got[g] = c->guard[g].block;
        if (g != image) {
            fy_copies_fill_real(c, g);
        }
    }
    status = fy_invoke(&c->invocation);
    uint32_t problems = t->state->nproblems;
    if (status == 0) {
        fy_trial_compare(t, got, &c->invocation.result, FY_FINDING_COUNT, "");
    }
    *out = t->state->nproblems > problems;
    t->state->nproblems = problems;
    fy_copies_free(c);
    return status;
}

/*
 * The result depends on undeclared memory: finds out behind which pointer, so
 * that the finding stands at the operand that is wrong and not at the one that
 * shows it. The program's memory is still untouched in this child.
 */
static void
blame(struct fy_trial *t, enum fy_guard_side side, enum fy_poison poison,
      uint32_t problem)
{
    for (unsigned g = 0; g < t->images->count; g++) {
        bool guilty;
        if (!t->images->image[g].accessed ||
            is_to_blame(t, g, side, poison, &guilty) != 0 || !guilty) {
            continue;
        }
        uint32_t o = 0;
        while (t->images->of[o] != g || t->images->views[o].naxes == 0) {
            o++;
        }
        struct fy_problem *p = &t->state->problems[problem];
        char text[FY_PROBLEM_TEXT];
        memcpy(text, p->text, sizeof text);
        const char *what = t->images->views[o].access == FY_ACCESS_OUT
                               ? "or the old content "
                               : "";
        p->operand = o;
        if (snprintf(p->text, sizeof p->text,
                     "elements behind `%s' that it does not declare %smatter: "
                     "%s",
                     fy_trial_name(t, o), what, text) >= (int)sizeof p->text) {
            memcpy(p->text + sizeof p->text - 4, "...", 4);
        }
        return;
    }
}

static int
try_guarded(struct fy_trial *t, enum fy_guard_side side, enum fy_poison poison)
{
    struct fy_copies *c;
    char *got[FY_MAX_OPERANDS];
    int status = fy_copies_new(t, side, poison, &c);
    if (status == 0) {
        status = fy_invoke(&c->invocation);
    }
    if (status == FY_ERR_UNSUPPORTED) {
        fy_copies_free(c); /* pointers behind a handle: chunks are guarded */
        return 0;
    }
    if (status != 0) {
        return status;
    }
    note_scalar(t, &c->invocation);
    for (unsigned g = 0; g < t->images->count; g++) {
        got[g] = c->guard[g].block;
        if (t->images->image[g].accessed) {
            check_untouched(c, g);
        }
    }
    for (unsigned o = 0; o < t->call->function->noperands; o++) {
        if (t->images->views[o].naxes > 0) {
            check_written(c, o);
        }
    }
    if (side == FY_GUARD_AFTER) {
        fy_trial_count_changes(t, got);
    }
    uint32_t problems = t->state->nproblems;
    fy_trial_compare(t, got, &c->invocation.result, FY_FINDING_DEPENDS,
                     "with undeclared memory changed");
    fy_copies_free(c);
    if (t->state->nproblems > problems && t->state->sensitivity_known) {
        blame(t, side, poison, problems);
    }
    return 0;
}

static int
run_experiment(struct fy_trial *t, uint32_t e)
{
    switch (e) {
    case FY_TRY_TRUTH:
        return try_truth(t);
    case FY_TRY_GUARD_AFTER:
        return try_guarded(t, FY_GUARD_AFTER, FY_POISON_NAN);
    case FY_TRY_GUARD_BEFORE:
        return try_guarded(t, FY_GUARD_BEFORE, FY_POISON_LARGE);
    case FY_TRY_MAPS:
        fy_trial_maps(t);
        return 0;
    default:
        if (e < FY_TRY_CHUNKS_END) {
            fy_trial_chunks(t, e - FY_TRY_CHUNKS);
            return 0;
        }
        e -= FY_TRY_SLABS;
        return fy_trial_slab(t, e / FY_SLABS, e % FY_SLABS);
    }
}

void
fy_trial_body(void *opaque)
{
    struct fy_trial *t = opaque;
    struct fy_trial_state *s = t->state;
    if (fy_child_own(t->call) != 0) {
        return;
    }
    while (s->experiment < t->experiments) {
        int status = run_experiment(t, s->experiment);
        if (status != 0 && s->experiment < FY_TRY_CHUNKS) {
            s->report.exit_status = status;
            return;
        }
        if (s->nproblems > 0) {
            return;
        }
        s->experiment++;
    }
}
