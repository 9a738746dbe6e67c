/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Comparison of results within bounds, see the header.
 */
#include "config.h"

#include "pager/verify/compare.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

bool
fy_type_is_real(enum fy_type type)
{
    return type == FY_T_F32 || type == FY_T_F64 || type == FY_T_C32 ||
           type == FY_T_C64;
}

double
fy_type_epsilon(enum fy_type type)
{
    if (type == FY_T_F32 || type == FY_T_C32) {
        return FLT_EPSILON;
    }
    return fy_type_is_real(type) ? DBL_EPSILON : 0;
}

/* An element as two doubles; integers up to 53 bits are exact, and longer
 * ones are compared byte for byte first. */
static void
parts(enum fy_type type, const char *at, double out[2])
{
    struct fy_value v = fy_raw_value(type, at);
    out[0] = v.kind == FY_V_INT       ? (double)v.i
             : v.kind == FY_V_POINTER ? (double)v.p
                                      : v.r;
    out[1] = v.kind == FY_V_COMPLEX ? v.im : 0;
}

static double
part_distance(double a, double b)
{
    if (isnan(a) || isnan(b)) {
        return isnan(a) && isnan(b) ? 0 : INFINITY;
    }
    if (a == b) {
        return 0;
    }
    double d = fabs(a - b);
    return isnan(d) ? INFINITY : d;
}

static double
distance(enum fy_type type, const char *a, const char *b)
{
    double x[2], y[2];
    if (memcmp(a, b, fy_type_bytes(type, 64)) == 0) {
        return 0;
    }
    parts(type, a, x);
    parts(type, b, y);
    double re = part_distance(x[0], y[0]), im = part_distance(x[1], y[1]);
    double d = re > im ? re : im;
    /* Integers that differ in bytes differ, also beyond 53 bits. */
    return d == 0 && !fy_type_is_real(type) ? 1 : d;
}

/* Not bitwise: signs of zeros and payloads of NaNs are the processor's. */
static bool
identical(enum fy_type type, const char *a, const char *b)
{
    double x[2], y[2];
    if (memcmp(a, b, fy_type_bytes(type, 64)) == 0) {
        return true;
    }
    parts(type, a, x);
    parts(type, b, y);
    return fy_type_is_real(type) && part_distance(x[0], y[0]) == 0 &&
           part_distance(x[1], y[1]) == 0;
}

static enum fy_type
element_type(const struct fy_images *images, unsigned operand)
{
    const struct fy_operand *o = FY_OF(images, fy_operand, operands) + operand;
    uint32_t bytes = images->views[operand].element_bytes;
    return fy_type_resolve((enum fy_type)o->element, bytes == 8 ? 64 : 32);
}

static double
largest(const struct fy_images *images, unsigned operand, const char *layout)
{
    enum fy_type type = element_type(images, operand);
    struct fy_walk w = {.view = &images->views[operand]};
    double most = 0;
    while (fy_walk_next(&w)) {
        double x[2];
        parts(type, layout + images->first[operand] + w.offset, x);
        for (int k = 0; k < 2; k++) {
            if (isfinite(x[k]) && fabs(x[k]) > most) {
                most = fabs(x[k]);
            }
        }
    }
    return most;
}

static double
constant(const struct fy_bound *call)
{
    struct fy_scope scope = {call->model, call->function, call->cells,
                             call->extents};
    double c, sum = 0;
    if (call->function->error != FY_NIL &&
        fy_eval_real(&scope, call->function->error, &c) == 0 && c > 0) {
        return c;
    }
    for (unsigned a = 0; a < call->function->naxes; a++) {
        sum += (double)call->extents[a];
    }
    return 64 + 8 * sum;
}

void
fy_bounds_make(const struct fy_bound *call, const struct fy_images *images,
               const union fy_raw *result, struct fy_bounds *out)
{
    const struct fy_function *f = call->function;
    double c = constant(call), product = 1, most = 0, eps = 0;
    memset(out, 0, sizeof *out);
    out->exact = (f->flags & FY_FN_EXACT) != 0;

    for (unsigned i = 0; i < f->ncells; i++) {
        double m = fmax(fabs(call->cells[i].r), fabs(call->cells[i].im));
        if ((call->cells[i].kind == FY_V_REAL ||
             call->cells[i].kind == FY_V_COMPLEX) &&
            isfinite(m) && m > 1) {
            product *= m;
        }
    }
    for (unsigned o = 0; o < f->noperands; o++) {
        enum fy_type type = element_type(images, o);
        const struct fy_view *v = &images->views[o];
        if (v->naxes == 0 || !(v->access & FY_ACCESS_IN) ||
            v->access == FY_ACCESS_SCRATCH || !fy_type_is_real(type)) {
            continue;
        }
        double m = largest(images, o, images->image[images->of[o]].before);
        product *= m;
        most = fmax(most, m);
        eps = fmax(eps, fy_type_epsilon(type));
    }
    product = fmax(product, most * most); /* A times its own transpose */
    for (unsigned o = 0; o < f->noperands; o++) {
        enum fy_type type = element_type(images, o);
        const struct fy_view *v = &images->views[o];
        const struct fy_image *image = &images->image[images->of[o]];
        if (v->naxes == 0 ||
            !((v->access & FY_ACCESS_OUT) || images->returned[o] > 0)) {
            continue;
        }
        double scale = fmax(product, largest(images, o, image->truth));
        if (v->access & FY_ACCESS_IN) {
            scale = fmax(scale, largest(images, o, image->before));
        }
        out->scale[o] = scale;
        out->bound[o] = c * fy_type_epsilon(type) * scale;
    }
    enum fy_type type = (enum fy_type)f->return_type;
    if (fy_type_is_real(type)) {
        double x[2];
        parts(type, (const char *)result, x);
        double m = fmax(fabs(x[0]), fabs(x[1]));
        out->scale[FY_MAX_OPERANDS] = isfinite(m) ? fmax(m, product) : product;
        out->bound[FY_MAX_OPERANDS] =
            c * fmax(eps, fy_type_epsilon(type)) * out->scale[FY_MAX_OPERANDS];
    }
}

static void
keep_worst(enum fy_type type, const char *got, const char *want, double d,
           struct fy_difference *out)
{
    double g[2], w[2];
    parts(type, got, g);
    parts(type, want, w);
    bool imaginary = part_distance(g[1], w[1]) > part_distance(g[0], w[0]);
    out->found = true;
    out->distance = d;
    out->got = g[imaginary];
    out->want = w[imaginary];
}

void
fy_compare_operand(const struct fy_images *images, unsigned operand,
                   const char *got, const char *want, const char *skip,
                   const struct fy_bounds *bounds, struct fy_difference *out)
{
    const struct fy_view *v = &images->views[operand];
    enum fy_type type = element_type(images, operand);
    struct fy_walk w = {.view = v};
    const char *before = images->image[images->of[operand]].before;
    int64_t left = images->returned[operand];
    bool scratch = v->access == FY_ACCESS_SCRATCH;
    memset(out, 0, sizeof *out);
    if (v->naxes == 0 || !(scratch ? left > 0 : v->access & FY_ACCESS_OUT)) {
        return;
    }
    /* The first element of a workspace is its best size, which each library tells
     * otherwise. */
    if ((FY_OF(images, fy_operand, operands)[operand].flags &
         FY_OPERAND_QUERY) &&
        fy_walk_next(&w)) {
        left--;
    }
    while (fy_walk_next(&w)) {
        int64_t at = images->first[operand] + w.offset;
        if (scratch && left-- <= 0) {
            break;
        }
        if (scratch && memcmp(before + at, want + at, v->element_bytes) == 0) {
            continue; /* not written: the program gets what it gave */
        }
        if (skip && memcmp(got + at, skip + at, v->element_bytes) == 0) {
            continue;
        }
        if (identical(type, got + at, want + at)) {
            continue;
        }
        double d = distance(type, got + at, want + at);
        if ((bounds->exact || !(d <= bounds->bound[operand])) &&
            (!out->found || d > out->distance)) {
            keep_worst(type, got + at, want + at, d, out);
            fy_walk_text(&w, out->place, sizeof out->place);
        }
    }
}

void
fy_compare_result(const struct fy_function *function, unsigned integer_bits,
                  const union fy_raw *got, const union fy_raw *want,
                  const struct fy_bounds *bounds, struct fy_difference *out)
{
    enum fy_type type =
        fy_type_resolve((enum fy_type)function->return_type, integer_bits);
    memset(out, 0, sizeof *out);
    if (type == FY_T_VOID || fy_type_bytes(type, integer_bits) == 0 ||
        identical(type, (const char *)got, (const char *)want)) {
        return;
    }
    double d = distance(type, (const char *)got, (const char *)want);
    if (bounds->exact || !(d <= bounds->bound[FY_MAX_OPERANDS])) {
        keep_worst(type, (const char *)got, (const char *)want, d, out);
    }
}
