/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See rerun.h. Contents of written operands are kept as dense boxes, as in the
 * undo log. Results that differ by more than the bound get a second opinion:
 * how far the original's own results move when its inputs do by rounding, as an
 * ill-conditioned system's do. That is found out in forked children.
 */
#include "config.h"

#include "pager/verify/rerun.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/clock.h"
#include "pager/device/copy.h"
#include "pager/device/host_memory.h"
#include "pager/verify/compare.h"
#include "pager/verify/invoke.h"
#include "pager/verify/trial.h"

enum {
    OPINION_RUNS = 3, /* and one with the inputs as they are */
    LEAST_MS = 2000,
    PATIENCE = 20, /* times what the original took; it may have had threads */
    FACTOR = 64, /* of what inputs moved by a few eps do, as in ferry verify */
    MEANINGLESS = 16, /* results that move by so many times their scale */
    LITTLE_BYTES =
        64 << 20, /* up to here nobody asks how much memory is left */
};

struct box {
    uint64_t bytes; /* of the dense box; 0: not written, nothing kept */
    char *before, *got, *truth; /* got, truth: NULL when it is not compared */
};

struct fy_rerun {
    struct fy_bound bound;
    union fy_raw result;                   /* the device's */
    struct fy_view dense[FY_MAX_OPERANDS]; /* the views over their boxes */
    struct box box[FY_MAX_OPERANDS];
    uint64_t taken_ms; /* when the device was done */
    char *base;        /* of all boxes: one mapping */
    size_t bytes;
};

bool
fy_rerun_is_due(double rate, uint64_t seed, uint64_t n)
{
    uint64_t z = seed * 0xd1342543de82ef95u + (n + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return rate >= 1 || (double)(z >> 11) * 0x1p-53 < rate;
}

static const struct fy_operand *
operand_row(const struct fy_bound *bound, unsigned o)
{
    return FY_OF(bound, fy_operand, operands) + o;
}

static bool
is_written(const struct fy_bound *bound, unsigned o)
{
    return bound->views[o].naxes > 0 &&
           (bound->views[o].access & FY_ACCESS_OUT) != 0;
}

/* Workspaces hold what their function likes, also where some comes back. */
static bool
is_compared(const struct fy_bound *bound, unsigned o)
{
    const struct fy_operand *row = operand_row(bound, o);

    return is_written(bound, o) && row->access != FY_ACCESS_SCRATCH &&
           !(row->flags & FY_OPERAND_AMBIGUOUS);
}

/* Dense strides, nested as those in host memory; false on overflow. */
static bool
make_dense(const struct fy_view *view, struct fy_view *dense, uint64_t *bytes)
{
    *dense = *view;
    uint64_t elements = fy_view_pack(view, dense->stride);
    return !__builtin_mul_overflow(elements, view->element_bytes, bytes) &&
           !__builtin_add_overflow(*bytes, 63, bytes) &&
           *bytes < (uint64_t)INT64_MAX;
}

/* Between a view of host memory and a layout of other strides. */
static void
move(const struct fy_view *view, const struct fy_view *other, char *box,
     enum fy_direction direction)
{
    struct fy_copy copy = {
        .direction = direction,
        .view = *view,
        .device = (uint64_t)(uintptr_t)box,
    };

    memcpy(copy.device_stride, other->stride, sizeof copy.device_stride);
    fy_copy_run(&copy);
}

/* Where each box lies, from 0; FY_ERR_UNSUPPORTED without one to compare. */
static int
lay_out(struct fy_rerun *s, uint64_t *touched)
{
    uint64_t total = 0;
    bool any = s->bound.function->return_type != FY_T_VOID;

    *touched = 0;
    for (unsigned o = 0; o < s->bound.function->noperands; o++) {
        const struct fy_view *view = &s->bound.views[o];
        /* Also of what is declared out: that may be the mistake. */
        unsigned copies = 1 + 2U * is_compared(&s->bound, o);
        uint64_t bytes, all;
        if (!is_written(&s->bound, o)) {
            continue;
        }
        if (!make_dense(view, &s->dense[o], &bytes) ||
            __builtin_mul_overflow(bytes / 64 * 64, copies, &all) ||
            __builtin_add_overflow(total, all, &total)) {
            return FY_ERR_NOMEM;
        }
        s->box[o].bytes = bytes / 64 * 64;
        *touched += copies * fy_view_all_elements(view) * view->element_bytes;
        any = any || is_compared(&s->bound, o);
    }
    s->bytes = total;
    return any ? FY_OK : FY_ERR_UNSUPPORTED;
}

int
fy_rerun_new(const struct fy_bound *bound, struct fy_rerun **out)
{
    struct fy_rerun *s = calloc(1, sizeof(*s));
    uint64_t touched;

    if (!s) {
        return FY_ERR_NOMEM;
    }
    s->bound = *bound;
    int status = lay_out(s, &touched);
    if (status == FY_OK && touched > LITTLE_BYTES &&
        touched > fy_host_available_bytes() / 4 * 3) {
        status = FY_ERR_NOMEM;
    }
    if (status == FY_OK && s->bytes > 0) {
        s->base = mmap(NULL, s->bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (s->base == MAP_FAILED) {
            s->base = NULL;
            status = FY_ERR_NOMEM;
        }
    }
    if (status) {
        free(s);
        return status;
    }
    char *at = s->base;
    for (unsigned o = 0; o < bound->function->noperands; o++) {
        struct box *box = &s->box[o];
        if (box->bytes == 0) {
            continue;
        }
        box->before = at;
        at += box->bytes;
        move(&bound->views[o], &s->dense[o], box->before, FY_TO_DEVICE);
        if (is_compared(bound, o)) {
            box->got = at;
            box->truth = at + box->bytes;
            at += 2 * box->bytes;
        }
    }
    *out = s;
    return FY_OK;
}

void
fy_rerun_free(struct fy_rerun *s)
{
    if (!s) {
        return;
    }
    if (s->base) {
        (void)munmap(s->base, s->bytes);
    }
    free(s);
}

const struct fy_bound *
fy_rerun_bound(const struct fy_rerun *s)
{
    return &s->bound;
}

void
fy_rerun_take(struct fy_rerun *s, const union fy_raw *result)
{
    s->result = *result;
    for (unsigned o = 0; o < s->bound.function->noperands; o++) {
        const struct box *box = &s->box[o];
        if (box->got) {
            move(&s->bound.views[o], &s->dense[o], box->got, FY_TO_DEVICE);
        }
    }
    fy_rerun_put_back(s);
    s->taken_ms = fy_clock_ns() / 1000000;
}

void
fy_rerun_put_back(const struct fy_rerun *s)
{
    for (unsigned o = 0; o < s->bound.function->noperands; o++) {
        if (s->box[o].before) {
            move(&s->bound.views[o], &s->dense[o], s->box[o].before,
                 FY_TO_HOST);
        }
    }
}

/* ---- comparison --------------------------------------------------------------- */

/* Every operand as an image of its own: boxes of what is written, the program's
 * memory of what is only read. */
static void
describe(const struct fy_rerun *s, struct fy_images *out)
{
    memset(out, 0, sizeof(*out));
    out->model = s->bound.model;
    out->function = s->bound.function;
    out->count = s->bound.function->noperands;
    for (unsigned o = 0; o < out->count; o++) {
        struct fy_image *image = &out->image[o];
        out->of[o] = (uint16_t)o;
        out->views[o] = s->bound.views[o];
        image->before = s->bound.views[o].host;
        if (!is_written(&s->bound, o)) {
            continue;
        }
        out->views[o] = s->dense[o];
        image->before = s->box[o].before;
        image->truth = s->box[o].truth;
        if (!image->truth) { /* what it was still gives the scale */
            out->views[o].access &= (uint8_t)~FY_ACCESS_OUT;
        }
    }
}

struct finding {
    struct fy_difference difference;
    double bound;
    const char *operand; /* NULL: the return value */
};

/* The first output that is out of its bound; false: none is. */
static bool
find(const struct fy_rerun *s, const struct fy_images *images,
     const union fy_raw *result, const struct fy_bounds *bounds,
     struct finding *out)
{
    for (unsigned o = 0; o < images->count; o++) {
        const struct box *box = &s->box[o];
        if (!box->got) {
            continue;
        }
        fy_compare_operand(images, o, box->got, box->truth, NULL, bounds,
                           &out->difference);
        if (out->difference.found) {
            out->bound = bounds->bound[o];
            out->operand =
                fy_model_string(images->model, operand_row(&s->bound, o)->name);
            return true;
        }
    }
    fy_compare_result(s->bound.function, s->bound.integer_bits, &s->result,
                      result, bounds, &out->difference);
    out->bound = bounds->bound[FY_MAX_OPERANDS];
    out->operand = NULL;
    return out->difference.found;
}

/* ---- the second opinion --------------------------------------------------------- */

/*
 * In forked copies of the process, on the program's own operands and all that
 * lies around them: copies of what is declared would have a wrong declaration
 * excuse itself. The first child's results are what those of the others, with
 * slightly different inputs, are compared with. Shared by parent and children.
 */
struct opinion {
    struct fy_child_report report;
    bool done;
    union fy_raw result; /* the first child's, as are the boxes behind */
    double moved[FY_MAX_OPERANDS + 1];
    char boxes[];
};

struct asking {
    const struct fy_rerun *rerun;
    void *original;
    struct opinion *opinion;
    unsigned run; /* 0: inputs as they are */
};

static void
perturb_inputs(const struct fy_bound *bound, unsigned run)
{
    uint64_t random = 0x9e3779b97f4a7c15u * (2 * run + 1);

    for (unsigned o = 0; o < bound->function->noperands; o++) {
        const struct fy_view *view = &bound->views[o];
        enum fy_type type = (enum fy_type)operand_row(bound, o)->element;
        struct fy_walk walk = {.view = view};
        if (!(view->access & FY_ACCESS_IN) || !fy_type_is_real(type)) {
            continue;
        }
        while (fy_walk_next(&walk)) {
            fy_trial_perturb(type, view->host + walk.offset, &random);
        }
    }
}

/* Keeps what the first child's call has made, compares what the others' have. */
static void
take_results(const struct asking *asking, const union fy_raw *result)
{
    const struct fy_rerun *s = asking->rerun;
    const struct fy_bounds none = {.exact = true};
    struct opinion *out = asking->opinion;
    struct fy_difference difference;
    struct fy_images images;
    char *at = out->boxes;

    describe(s, &images);
    for (unsigned o = 0; o < images.count; o++) {
        if (!s->box[o].got) {
            continue;
        }
        move(&s->bound.views[o], &s->dense[o],
             asking->run == 0 ? at : s->box[o].got, FY_TO_DEVICE);
        if (asking->run > 0) {
            fy_compare_operand(&images, o, s->box[o].got, at, NULL, &none,
                               &difference);
            out->moved[o] = fmax(out->moved[o], difference.distance);
        }
        at += s->box[o].bytes;
    }
    if (asking->run == 0) {
        out->result = *result;
        return;
    }
    fy_compare_result(s->bound.function, s->bound.integer_bits, result,
                      &out->result, &none, &difference);
    out->moved[FY_MAX_OPERANDS] =
        fmax(out->moved[FY_MAX_OPERANDS], difference.distance);
}

/* In a child: one call of the original. */
static void
run_again(void *context)
{
    const struct asking *asking = context;
    const struct fy_bound *bound = &asking->rerun->bound;
    static struct fy_invocation invocation;

    if (fy_child_own(bound)) {
        return;
    }
    fy_rerun_put_back(asking->rerun);
    if (asking->run > 0) {
        perturb_inputs(bound, asking->run);
    }
    invocation.call = bound;
    invocation.original = asking->original;
    if (fy_invoke(&invocation) == FY_OK) {
        take_results(asking, &invocation.result);
        asking->opinion->done = true;
    }
}

/* How far rounding of the inputs moves each result. */
static int
ask_again(const struct fy_rerun *s, void *original,
          double moved[FY_MAX_OPERANDS + 1])
{
    size_t bytes = sizeof(struct opinion) + s->bytes;
    struct opinion *opinion = fy_shared_new(bytes);
    struct asking asking = {s, original, opinion, 0};
    int status = FY_OK;

    if (!opinion) {
        return FY_ERR_NOMEM;
    }
    uint64_t ms = LEAST_MS + PATIENCE * (fy_clock_ns() / 1000000 - s->taken_ms);
    for (; asking.run <= OPINION_RUNS && status == FY_OK; asking.run++) {
        opinion->done = false;
        status = fy_isolated_run(run_again, &asking,
                                 ms > INT_MAX ? INT_MAX : (unsigned)ms,
                                 &opinion->report);
        if (status == FY_OK && !opinion->done) {
            status = FY_ERR_UNSUPPORTED;
        }
    }
    memcpy(moved, opinion->moved, sizeof(opinion->moved));
    fy_shared_free(opinion, bytes);
    return status;
}

static void
tell(const struct finding *finding, char *why, size_t why_bytes)
{
    const struct fy_difference *d = &finding->difference;

    if (finding->operand) {
        (void)snprintf(
            why, why_bytes,
            "`%s' differs: element %s is %.10g on the device instead "
            "of %.10g (allowed: %.2g)",
            finding->operand, d->place, d->got, d->want, finding->bound);
    } else {
        (void)snprintf(why, why_bytes,
                       "the device returns %.10g instead of %.10g (allowed: "
                       "%.2g)",
                       d->got, d->want, finding->bound);
    }
}

enum fy_reason
fy_rerun_compare(struct fy_rerun *s, void *original, const union fy_raw *result,
                 char *why, size_t why_bytes)
{
    double moved[FY_MAX_OPERANDS + 1];
    struct fy_images images;
    struct fy_bounds bounds;
    struct finding finding;
    bool meaningless = false;

    why[0] = '\0';
    for (unsigned o = 0; o < s->bound.function->noperands; o++) {
        if (s->box[o].truth) {
            move(&s->bound.views[o], &s->dense[o], s->box[o].truth,
                 FY_TO_DEVICE);
        }
    }
    describe(s, &images);
    fy_bounds_make(&s->bound, &images, result, &bounds);
    if (!find(s, &images, result, &bounds, &finding)) {
        return FY_REASON_VERIFIED;
    }
    tell(&finding, why, why_bytes);
    if (bounds.exact) {
        return FY_REASON_DIFFERENT;
    }
    if (ask_again(s, original, moved)) {
        return FY_REASON_UNVERIFIED;
    }
    for (unsigned o = 0; o <= FY_MAX_OPERANDS; o++) {
        double extra = FACTOR * moved[o];
        bool any = extra > 0 && extra > MEANINGLESS * bounds.scale[o];
        meaningless = meaningless || any;
        bounds.bound[o] = any ? INFINITY : bounds.bound[o] + extra;
    }
    if (find(s, &images, result, &bounds, &finding)) {
        tell(&finding, why, why_bytes);
        return FY_REASON_DIFFERENT;
    }
    if (meaningless) {
        return FY_REASON_UNVERIFIED;
    }
    why[0] = '\0';
    return FY_REASON_VERIFIED;
}
