/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images of a call's operands, see the header. Built in the host process from
 * numbers alone; the program's memory is read in forked children only.
 */
#include "config.h"

#include "pager/verify/image.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pager/verify/child.h"

static bool
declared(const struct fy_view *v, int64_t i, int64_t j)
{
    if (v->sign == 0) {
        return true;
    }
    int64_t at = i + v->sign * j;
    return v->lo <= at && at <= v->hi;
}

bool
fy_walk_next(struct fy_walk *w)
{
    const struct fy_view *v = w->view;
    if (!w->started) {
        w->started = true;
        if (fy_view_is_empty(v)) {
            return false;
        }
        if (declared(v, 0, 0)) {
            return true;
        }
    }
    for (;;) {
        unsigned k = 0;
        for (; k < v->naxes; k++) {
            if (++w->index[k] < v->extent[k]) {
                break;
            }
            w->index[k] = 0;
        }
        if (k == v->naxes) {
            return false;
        }
        if (!declared(v, w->index[0], v->naxes > 1 ? w->index[1] : 0)) {
            continue;
        }
        int64_t at = 0;
        for (k = 0; k < v->naxes; k++) {
            at += w->index[k] * v->stride[k];
        }
        w->offset = at * (int64_t)v->element_bytes;
        return true;
    }
}

void
fy_walk_text(const struct fy_walk *w, char *out, size_t bytes)
{
    size_t used = 0;
    for (unsigned k = 0; k < w->view->naxes && used < bytes; k++) {
        used += (size_t)snprintf(out + used, bytes - used, "%s%lld",
                                 k == 0 ? "(" : ", ", (long long)w->index[k]);
    }
    if (used < bytes) {
        (void)snprintf(out + used, bytes - used, ")");
    }
}

/* The bytes that the declared elements of a view span, from element 0. */
static int
span(const struct fy_view *v, int64_t *lo, int64_t *hi)
{
    *lo = *hi = 0;
    if (fy_view_is_empty(v)) {
        return 0;
    }
    if (!fy_view_span(v, lo, hi) || *lo < INT32_MIN * (int64_t)1024 ||
        *hi > INT32_MAX * (int64_t)1024) {
        return FY_ERR_OVERFLOW;
    }
    /* A triangle or band may leave out the corners: look at each element. */
    if (v->sign != 0) {
        struct fy_walk w = {.view = v};
        int64_t least = INT64_MAX, most = INT64_MIN;
        while (fy_walk_next(&w)) {
            least = w.offset < least ? w.offset : least;
            most = w.offset > most ? w.offset : most;
        }
        *lo = least > most ? 0 : least;
        *hi = least > most ? 0 : most + v->element_bytes;
    }
    return 0;
}

size_t
fy_view_slack(const struct fy_view *v)
{
    enum {
        LEAST = 4096,
        MOST = 1 << 20
    };
    uint64_t most = 0;
    for (unsigned k = 0; k < v->naxes; k++) {
        int64_t stride = v->stride[k];
        uint64_t by = (uint64_t)(stride < 0 ? -stride : stride);
        most = by > most && by < MOST ? by : most;
    }
    uint64_t bytes = 2 * most * v->element_bytes;
    return LEAST + (bytes > MOST ? MOST : bytes);
}

static unsigned
mark_of(uint8_t access)
{
    switch (access) {
    case FY_ACCESS_IN:
        return FY_MARK_IN;
    case FY_ACCESS_OUT:
        return FY_MARK_OUT;
    case FY_ACCESS_INOUT:
        return FY_MARK_IN | FY_MARK_OUT;
    default:
        return FY_MARK_SCRATCH;
    }
}

static void
mark_operand(struct fy_image *image, const struct fy_view *v, int64_t first)
{
    unsigned mark = mark_of(v->access);
    struct fy_walk w = {.view = v};
    while (fy_walk_next(&w)) {
        for (uint32_t b = 0; b < v->element_bytes; b++) {
            image->marks[first + w.offset + b] |= (uint8_t)mark;
        }
    }
}

/* Which image each operand belongs to, and the span of each. */
static int
group(struct fy_images *out, char *const *base)
{
    const struct fy_operand *operands = FY_OF(out, fy_operand, operands);
    for (unsigned o = 0; o < out->function->noperands; o++) {
        const struct fy_view *v = &out->views[o];
        unsigned g = 0;
        while (g < out->count && out->image[g].cell != operands[o].base) {
            g++;
        }
        struct fy_image *image = &out->image[g];
        if (g == out->count) {
            out->count++;
            image->cell = operands[o].base;
            image->element = operands[o].element;
            image->base = base[o];
        }
        out->of[o] = (uint16_t)g;
        int64_t lo, hi;
        int status = span(v, &lo, &hi);
        if (status != 0) {
            return status;
        }
        if (lo == hi) {
            continue;
        }
        size_t slack = fy_view_slack(v);
        image->slack = slack > image->slack ? slack : image->slack;
        int64_t first = v->host - image->base;
        lo += first;
        hi += first;
        image->lo = !image->accessed || lo < image->lo ? lo : image->lo;
        image->hi = !image->accessed || hi > image->hi ? hi : image->hi;
        image->accessed = true;
    }
    return 0;
}

/* Scratch that `returns' is bound as a column of the whole room. */
static void
take_view(struct fy_images *out, unsigned o, const struct fy_view *bound)
{
    const struct fy_operand *operand = FY_OF(out, fy_operand, operands) + o;
    struct fy_view *v = &out->views[o];
    *v = *bound;
    out->returned[o] = 0;
    if (operand->access != FY_ACCESS_SCRATCH || v->naxes == 0 ||
        v->access == FY_ACCESS_SCRATCH) {
        return;
    }
    out->returned[o] = v->naxes == 2 ? v->hi + 1 : v->extent[0];
    v->access = FY_ACCESS_SCRATCH;
    v->naxes = operand->naxes;
    v->sign = 0;
}

int
fy_images_new(const struct fy_model *model, const struct fy_function *function,
              const struct fy_view *views, char *const *base,
              size_t limit_bytes, struct fy_images *out)
{
    memset(out, 0, sizeof *out);
    out->model = model;
    out->function = function;
    for (unsigned o = 0; o < function->noperands; o++) {
        take_view(out, o, &views[o]);
    }
    int status = group(out, base);
    if (status != 0) {
        return status;
    }
    size_t total = 64;
    for (unsigned g = 0; g < out->count; g++) {
        total += (size_t)(out->image[g].hi - out->image[g].lo) + 64;
    }
    if (total > limit_bytes) {
        return FY_ERR_NOFIT;
    }
    out->shared_bytes = 2 * total;
    out->shared = fy_shared_new(out->shared_bytes);
    char *marks = calloc(1, total);
    if (!out->shared || !marks) {
        free(marks);
        fy_shared_free(out->shared, out->shared_bytes);
        return FY_ERR_NOMEM;
    }
    char *at = out->shared;
    out->image[0].marks = (uint8_t *)marks; /* owns the block of all */
    for (unsigned g = 0; g < out->count; g++) {
        struct fy_image *image = &out->image[g];
        size_t bytes = ((size_t)(image->hi - image->lo) + 63) / 64 * 64;
        image->marks = (uint8_t *)marks;
        image->before = at;
        image->truth = at + total;
        marks += bytes;
        at += bytes;
    }
    for (unsigned o = 0; o < function->noperands; o++) {
        struct fy_image *image = &out->image[out->of[o]];
        if (out->views[o].naxes == 0 || !image->accessed) {
            continue;
        }
        out->first[o] = out->views[o].host - image->base - image->lo;
        mark_operand(image, &out->views[o], out->first[o]);
    }
    return 0;
}

void
fy_images_free(struct fy_images *images)
{
    if (images->count > 0 && images->shared) {
        free(images->image[0].marks);
    }
    fy_shared_free(images->shared, images->shared_bytes);
    memset(images, 0, sizeof *images);
}

void
fy_image_copy(const struct fy_image *image, unsigned marks, char *to,
              const char *from)
{
    int64_t bytes = image->hi - image->lo;
    for (int64_t at = 0; at < bytes;) {
        int64_t start = at;
        while (at < bytes && (image->marks[at] & marks) != 0) {
            at++;
        }
        if (at > start) {
            memcpy(to + start, from + start, (size_t)(at - start));
        }
        while (at < bytes && (image->marks[at] & marks) == 0) {
            at++;
        }
    }
}

/* Squares of distances in elements, so that "inside" is 0. */
static bool
find_element(const struct fy_images *images, unsigned operand, int64_t offset,
             struct fy_walk *w)
{
    const struct fy_view *v = &images->views[operand];
    *w = (struct fy_walk){.view = v};
    while (fy_walk_next(w)) {
        int64_t at = images->first[operand] + w->offset;
        if (offset >= at && offset < at + v->element_bytes) {
            return true;
        }
    }
    return false;
}

unsigned
fy_image_operand(const struct fy_images *images, unsigned image, int64_t offset)
{
    unsigned fallback = 0;
    bool have = false;
    for (unsigned o = 0; o < images->function->noperands; o++) {
        if (images->of[o] != image) {
            continue;
        }
        struct fy_walk w;
        if (images->views[o].naxes > 0 && find_element(images, o, offset, &w)) {
            return o;
        }
        if (!have || (images->views[fallback].naxes == 0 &&
                      images->views[o].naxes > 0)) {
            fallback = o;
        }
        have = true;
    }
    return fallback;
}

/* The element a foreign offset would be, for matrices: index of axis 1 by its
 * stride, the rest of axis 0. */
static bool
as_indices(const struct fy_view *v, int64_t offset, int64_t *i, int64_t *j)
{
    if (v->naxes != 2 || offset < 0 || v->stride[0] < 1 || v->stride[1] < 1) {
        return false;
    }
    bool first = v->stride[0] > v->stride[1]; /* the slow axis */
    int64_t slow = v->stride[first ? 0 : 1], fast = v->stride[first ? 1 : 0];
    int64_t at = offset / (int64_t)v->element_bytes;
    int64_t s = at / slow, f = at % slow;
    if (f % fast != 0) {
        return false;
    }
    *i = first ? s : f / fast;
    *j = first ? f / fast : s;
    return true;
}

void
fy_image_place(const struct fy_images *images, unsigned operand, int64_t offset,
               char *out, size_t bytes)
{
    const struct fy_image *image = &images->image[images->of[operand]];
    const struct fy_view *v = &images->views[operand];
    int64_t span_bytes = image->hi - image->lo, width = v->element_bytes;
    struct fy_walk w;
    char text[96];
    int64_t i, j;
    if (v->naxes > 0 && find_element(images, operand, offset, &w)) {
        fy_walk_text(&w, text, sizeof text);
        (void)snprintf(out, bytes, "element %s", text);
        return;
    }
    text[0] = '\0';
    if (v->naxes > 0 &&
        as_indices(v, offset - images->first[operand], &i, &j) &&
        i < 2 * v->extent[0] + 64 && j < 2 * v->extent[1] + 64) {
        (void)snprintf(text, sizeof text,
                       ", where element (%lld, %lld) would be", (long long)i,
                       (long long)j);
    }
    if (offset >= span_bytes) {
        (void)snprintf(out, bytes,
                       "%lld bytes past the last declared element%s",
                       (long long)(offset - span_bytes), text);
    } else if (offset < 0) {
        (void)snprintf(out, bytes,
                       "%lld bytes before the first declared element",
                       (long long)-offset);
    } else {
        (void)snprintf(out, bytes,
                       "an undeclared element between declared ones, at offset "
                       "%lld%s",
                       (long long)((offset - images->first[operand]) /
                                   (width > 0 ? width : 1)),
                       text);
    }
}
