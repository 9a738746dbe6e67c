/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of `ferry verify': what the counters say when the program is done,
 * and the findings as text. Runs in the tool, never in a host program.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "pager/verify/tally.h"

/* Fewer tests than this say nothing. */
enum {
    LEAST_TESTS = 3,
    LINES = 40, /* about functions that were never called */
};

struct writer {
    struct fy_tally *tally;
    const struct fy_model *model;
    const char *path;
};

static const char *
slab_text(const struct writer *w, const struct fy_function *f,
          const struct fy_operand *o, unsigned slab, char *out, size_t bytes)
{
    const char *axis = "";
    if (slab < o->naxes && o->axes[slab].axis != FY_NIL) {
        const struct fy_axis *axes =
            FY_TABLE(w->model, fy_axis, axes) + f->axes;
        axis = fy_model_string(w->model, axes[o->axes[slab].axis].name);
    }
    if (slab == FY_SLAB_ALL) {
        (void)snprintf(out, bytes, "its content");
    } else if (slab == FY_SLAB_LO || slab == FY_SLAB_HI) {
        (void)snprintf(out, bytes, "the diagonal on its %s bound",
                       slab == FY_SLAB_LO ? "lower" : "upper");
    } else if (axis[0] != '\0') {
        (void)snprintf(out, bytes, "the last index of axis %s", axis);
    } else {
        (void)snprintf(out, bytes, "the last index of its axis %u", slab + 1);
    }
    return out;
}

/*
 * Whether another operand spans the same axis and its last index is read or
 * written there: then the axis is right, and this operand has the shape its
 * documentation gives it, read or not.
 */
static bool
axis_is_right(const struct writer *w, const struct fy_function *f,
              const struct fy_operand *o, unsigned slab)
{
    const struct fy_operand *all =
        FY_TABLE(w->model, fy_operand, operands) + f->operands;
    if (slab >= o->naxes) {
        return false;
    }
    for (uint32_t i = 0; i < f->noperands; i++) {
        for (unsigned k = 0; k < all[i].naxes; k++) {
            const struct fy_tally_slab *s =
                &fy_tally_operand(w->tally, f->operands + i)->slab[k];
            if (&all[i] != o && all[i].axes[k].axis == o->axes[slab].axis &&
                s->read_mattered + s->written_changed > 0) {
                return true;
            }
        }
    }
    return false;
}

/* What many calls say about one operand. */
static void
judge_operand(const struct writer *w, uint32_t function, uint32_t operand)
{
    const struct fy_function *f =
        FY_TABLE(w->model, fy_function, functions) + function;
    const struct fy_operand *o =
        FY_TABLE(w->model, fy_operand, operands) + operand;
    struct fy_tally_operand *t = fy_tally_operand(w->tally, operand);
    const char *name = fy_model_string(w->model, o->name);
    char what[128], text[512];

    static const unsigned order[] = {FY_SLAB_ALL, 0,          1,         2,
                                     3,           FY_SLAB_LO, FY_SLAB_HI};
    bool read = o->access == FY_ACCESS_IN || o->access == FY_ACCESS_INOUT;
    for (unsigned k = 0; k < FY_SLABS && read; k++) {
        const struct fy_tally_slab *s = &t->slab[order[k]];
        slab_text(w, f, o, order[k], what, sizeof what);
        if (s->read_tested < LEAST_TESTS || s->read_mattered > 0) {
            continue;
        }
        if (o->access == FY_ACCESS_IN || s->written_changed == 0) {
            bool right = axis_is_right(w, f, o, order[k]);
            (void)snprintf(
                text, sizeof text,
                "`%s' is declared %s, but changing %s before the call "
                "never changed a result (%u calls tried)",
                name, o->access == FY_ACCESS_IN ? "in" : "inout", what,
                s->read_tested);
            fy_tally_report(w->tally, w->model, w->path, function, operand,
                            right ? FY_FINDING_UNREAD : FY_FINDING_NOT_READ,
                            text);
            if (!right) {
                break;
            }
        } else if (order[k] == FY_SLAB_ALL && s->kept == 0) {
            (void)snprintf(
                text, sizeof text,
                "`%s' is declared inout, but its content before the call "
                "never mattered (%u calls tried): out would do",
                name, s->read_tested);
            fy_tally_report(w->tally, w->model, w->path, function, operand,
                            FY_FINDING_NEVER_READ, text);
        }
    }
    const struct fy_tally_slab *all = &t->slab[FY_SLAB_ALL];
    /* Under a condition of its own the author has thought of both. */
    if (o->access == FY_ACCESS_INOUT && o->in_when == FY_NIL &&
        all->written_tested >= LEAST_TESTS && all->written_changed == 0) {
        (void)snprintf(
            text, sizeof text,
            "`%s' is declared inout, but no call changed it (%u calls)", name,
            all->written_tested);
        fy_tally_report(w->tally, w->model, w->path, function, operand,
                        FY_FINDING_NEVER_WRITTEN, text);
    }
}

static void
judge_function(const struct writer *w, uint32_t function)
{
    const struct fy_function *f =
        FY_TABLE(w->model, fy_function, functions) + function;
    const struct fy_tally_function *t = fy_tally_function(w->tally, function);
    uint32_t overlapping = t->declined[FY_REASON_OVERLAP];
    if (t->calls == 0) {
        return;
    }
    if (t->checked == 0 && overlapping >= LEAST_TESTS &&
        overlapping == t->calls) {
        char text[256];
        (void)snprintf(
            text, sizeof text,
            "none of %u calls could be checked: as declared, a written "
            "operand shares elements with another",
            t->calls);
        fy_tally_report(w->tally, w->model, w->path, function, FY_NIL,
                        FY_FINDING_NOT_CHECKABLE, text);
    }
    for (uint32_t o = 0; o < f->noperands; o++) {
        judge_operand(w, function, f->operands + o);
    }
}

static int
print_findings(const char *path, FILE *to, struct fy_verify_totals *totals)
{
    FILE *from = fopen(path, "re");
    if (!from) {
        return 0; /* nothing was ever appended */
    }
    char *row = NULL;
    size_t capacity = 0;
    while (getline(&row, &capacity, from) > 0) {
        char *field[6], *at = row;
        unsigned n = 0;
        row[strcspn(row, "\n")] = '\0';
        for (; n < 5 && at; n++) {
            field[n] = strsep(&at, "\t");
        }
        field[n++] = at;
        if (n < 6 || !at) {
            continue;
        }
        if (strncmp(field[4], "note-", 5) == 0) {
            totals->notes++;
        } else {
            totals->findings++;
        }
        if (to) {
            (void)fprintf(to, "%s:%s: %s: %s [%s]\n", field[0], field[1],
                          field[2], field[5], field[4]);
        }
    }
    free(row);
    int failed = ferror(from);
    (void)fclose(from);
    return failed ? FY_ERR_IO : 0;
}

/* What runs on a device alone: only maps can be computed here. */
static const char *
unjudged(const struct fy_model *model, const struct fy_function *f)
{
    const struct fy_call_row *rows = FY_TABLE(model, fy_call_row, calls);
    const char *text = "";
    for (uint32_t i = f->cuda_call; i != FY_NIL; i = rows[i].next) {
        if (rows[i].kind == FY_CALL_KERNEL) {
            return ", its kernel not judged";
        }
        if (rows[i].kind == FY_CALL_LIBRARY) {
            text = ", on cuda not judged";
        }
    }
    return text;
}

static void
print_function(const struct fy_model *model, uint32_t function,
               const struct fy_tally_function *t, FILE *to)
{
    const struct fy_function *f =
        FY_TABLE(model, fy_function, functions) + function;
    (void)fprintf(to, "%s:%u: %s: %u calls, %u checked",
                  fy_model_string(model, f->file), f->line,
                  fy_model_string(model, f->name), t->calls, t->checked);
    if (t->uncut > 0) {
        (void)fprintf(to, " (%u only as a whole)", t->uncut);
    }
    if (t->mapped > 0) {
        (void)fprintf(to, ", %u by its map", t->mapped);
    }
    if (t->undecided > 0) {
        (void)fprintf(to, ", %u whose map differs where the result jumps",
                      t->undecided);
    }
    if (t->sampled > 0) {
        (void)fprintf(to, ", %u left out", t->sampled);
    }
    if (t->large > 0) {
        (void)fprintf(to, ", %u too large", t->large);
    }
    if (t->failed > 0) {
        (void)fprintf(to, ", %u without memory or process", t->failed);
    }
    if (t->crashed > 0) {
        (void)fprintf(to, ", %u that do not return", t->crashed);
    }
    for (unsigned r = 0; r < FY_REASON_COUNT; r++) {
        if (t->declined[r] > 0) {
            (void)fprintf(to, ", %u %s", t->declined[r], fy_reason_word(r));
        }
    }
    (void)fprintf(to, "%s%s%s\n", unjudged(model, f),
                  f->flags & FY_FN_OBSERVE_ONLY
                      ? ", whose results cannot be compared: there are none"
                      : "",
                  t->checked == 0 ? " (not exercised)" : "");
}

/* Calls of a function, in any of its variants. */
static uint64_t
all_calls(const struct fy_model *model, struct fy_tally *tally, uint32_t f)
{
    const struct fy_function *rows = FY_TABLE(model, fy_function, functions);
    uint64_t calls = 0;
    for (; f != FY_NIL; f = rows[f].next_variant) {
        calls += fy_tally_function(tally, f)->calls;
    }
    return calls;
}

/*
 * Functions that no object has called: misspelt ones are among them. Those that
 * make and free handles are not counted. Rows of a family make one line.
 */
static void
print_never_called(const struct fy_model *model, struct fy_tally *tally,
                   FILE *to)
{
    const struct fy_function *rows = FY_TABLE(model, fy_function, functions);
    bool *is_variant = calloc(model->functions.count + 1, sizeof *is_variant);
    unsigned lines = 0, more = 0;
    const struct fy_function *before = NULL;
    for (uint32_t f = 0; is_variant && f < model->functions.count; f++) {
        if (rows[f].next_variant != FY_NIL) {
            is_variant[rows[f].next_variant] = true;
        }
        if (is_variant[f] || (rows[f].flags & (FY_FN_MAKES | FY_FN_FREES)) ||
            all_calls(model, tally, f) > 0) {
            continue;
        }
        const char *name = fy_model_string(model, rows[f].name);
        if (before && before->line == rows[f].line &&
            before->file == rows[f].file) {
            (void)fprintf(to, ", %s", name);
        } else if (lines == LINES) {
            more++;
        } else {
            (void)fprintf(to, "%s%s:%u: never called: %s", before ? "\n" : "",
                          fy_model_string(model, rows[f].file), rows[f].line,
                          name);
            before = &rows[f];
            lines++;
        }
    }
    if (before) {
        (void)fprintf(to, "\n");
    }
    if (more > 0) {
        (void)fprintf(to, "never called: %u functions more\n", more);
    }
    free(is_variant);
}

int
fy_verify_report(const struct fy_model *model, const char *path, FILE *to,
                 struct fy_verify_totals *out)
{
    struct fy_tally *tally;
    int status = fy_tally_open(model, path, &tally);
    if (status != 0) {
        return status;
    }
    struct writer w = {tally, model, path};
    struct fy_verify_totals totals = {0};
    for (uint32_t f = 0; f < model->functions.count; f++) {
        judge_function(&w, f);
    }
    status = print_findings(path, to, &totals);
    for (uint32_t f = 0; f < model->functions.count; f++) {
        const struct fy_tally_function *t = fy_tally_function(tally, f);
        if (t->calls == 0) {
            continue;
        }
        totals.functions++;
        totals.calls += t->calls;
        totals.checked += t->checked;
        if (to) {
            print_function(model, f, t, to);
        }
    }
    if (to && totals.functions > 0) {
        print_never_called(model, tally, to);
    }
    fy_tally_close(tally);
    if (status == 0) {
        *out = totals;
    }
    return status;
}
