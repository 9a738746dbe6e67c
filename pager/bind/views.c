/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operands to views: conditions, strides, constraint and address, with every
 * product checked. What would not fit 63 bits is refused, never wrapped.
 */
#include "config.h"

#include "pager/bind/bind.h"

#include <stdlib.h>

static enum fy_reason
status_reason(int status)
{
    return status == FY_ERR_OVERFLOW ? FY_REASON_OVERFLOW
                                     : FY_REASON_UNSUPPORTED;
}

static int64_t
clamp_add(int64_t a, int64_t b)
{
    int64_t sum;
    if (__builtin_add_overflow(a, b, &sum)) {
        return a < 0 ? INT64_MIN : INT64_MAX;
    }
    return sum;
}

/* The j-th row's bounds of i in [0, extent) under the constraint. */
static uint64_t
row_count(const struct fy_view *view, const int64_t *lo, const int64_t *n,
          int64_t j)
{
    int64_t second = view->sign * (lo[1] + j);
    int64_t first =
        view->lo == INT64_MIN ? INT64_MIN : clamp_add(view->lo, -second);
    int64_t last =
        view->hi == INT64_MAX ? INT64_MAX : clamp_add(view->hi, -second);

    if (first < lo[0]) {
        first = lo[0];
    }
    if (last > lo[0] + n[0] - 1) {
        last = lo[0] + n[0] - 1;
    }
    return last < first ? 0 : (uint64_t)(last - first) + 1;
}

uint64_t
fy_view_elements(const struct fy_view *view, const int64_t *lo,
                 const int64_t *n)
{
    uint64_t count = 1;

    if (view->naxes == 0) {
        return 0;
    }
    for (unsigned k = 0; k < view->naxes; k++) {
        if (n[k] <= 0) {
            return 0;
        }
    }
    for (unsigned k = view->sign != 0 ? 2 : 0; k < view->naxes; k++) {
        count *= (uint64_t)n[k];
    }
    if (view->sign != 0) {
        uint64_t box = 0;
        for (int64_t j = 0; j < n[1]; j++) {
            box += row_count(view, lo, n, j);
        }
        count *= box;
    }
    return count;
}

uint64_t
fy_view_all_elements(const struct fy_view *view)
{
    const int64_t zero[FY_MAX_OPERAND_AXES] = {0};
    return fy_view_elements(view, zero, view->extent);
}

/*
 * Whether two different index tuples of the box may name one element: then it
 * must not be written. Axes sorted by stride must each step over the span of
 * all smaller ones. Under a constraint the first two axes may overlap as a box
 * (bands stored with stride ld - 1) while their elements do not.
 */
static bool
may_repeat(const struct fy_view *view)
{
    uint64_t stride[FY_MAX_OPERAND_AXES + 1], last[FY_MAX_OPERAND_AXES + 1];
    unsigned count = 0, k = 0;
    uint64_t span = 0;

    if (view->sign != 0 && view->naxes >= 2 && view->lo != INT64_MIN &&
        view->hi != INT64_MAX) {
        /* i = d - sign * j: axes (d, j) with strides s0, s1 - sign * s0. */
        stride[count] = (uint64_t)llabs(view->stride[0]);
        last[count++] = (uint64_t)(view->hi - view->lo);
        stride[count] =
            (uint64_t)llabs(view->stride[1] - view->sign * view->stride[0]);
        last[count++] = (uint64_t)view->extent[1] - 1;
        k = 2;
    }
    for (; k < view->naxes; k++) {
        stride[count] = (uint64_t)llabs(view->stride[k]);
        last[count++] = (uint64_t)view->extent[k] - 1;
    }
    for (unsigned i = 0; i < count; i++) {
        for (unsigned j = i + 1; j < count; j++) {
            if (stride[j] < stride[i]) {
                uint64_t t = stride[i];
                stride[i] = stride[j];
                stride[j] = t;
                t = last[i];
                last[i] = last[j];
                last[j] = t;
            }
        }
        if (last[i] == 0) {
            continue;
        }
        if (stride[i] <= span) {
            return true;
        }
        span += stride[i] * last[i]; /* fits: checked by check_span() */
    }
    return false;
}

/* Offsets of the box's ends, in bytes, must fit, and the address space too. */
static enum fy_reason
check_span(const struct fy_view *view)
{
    int64_t low = 0, high = 0, size = (int64_t)view->element_bytes;
    uint64_t elements = 1;

    for (unsigned k = 0; k < view->naxes; k++) {
        int64_t reach;
        if (__builtin_mul_overflow(view->extent[k] - 1, view->stride[k],
                                   &reach) ||
            __builtin_mul_overflow(reach, size, &reach) ||
            __builtin_add_overflow(reach < 0 ? low : high, reach,
                                   reach < 0 ? &low : &high) ||
            __builtin_mul_overflow(elements, (uint64_t)view->extent[k],
                                   &elements)) {
            return FY_REASON_OVERFLOW;
        }
    }
    if (high > INT64_MAX - size || elements > (uint64_t)(INT64_MAX / size)) {
        return FY_REASON_OVERFLOW;
    }
    return FY_REASON_NONE;
}

static enum fy_reason
check_addresses(const struct fy_view *view)
{
    int64_t low = 0, high = view->element_bytes;
    uint64_t base = (uint64_t)(uintptr_t)view->host;

    for (unsigned k = 0; k < view->naxes; k++) {
        int64_t reach =
            (view->extent[k] - 1) * view->stride[k] * view->element_bytes;
        if (reach < 0) {
            low += reach;
        } else {
            high += reach;
        }
    }
    if (base > INT64_MAX || (uint64_t)-low > base ||
        base > (uint64_t)(INT64_MAX - high)) {
        return FY_REASON_OVERFLOW;
    }
    return FY_REASON_NONE;
}

/* A node's truth, `absent' when there is none. */
static enum fy_reason
condition(const struct fy_scope *scope, uint32_t node, bool absent, bool *out)
{
    *out = absent;
    if (node == FY_NIL) {
        return FY_REASON_NONE;
    }
    int status = fy_eval_bool(scope, node, out);
    return status ? status_reason(status) : FY_REASON_NONE;
}

static enum fy_reason
access_of(const struct fy_scope *scope, const struct fy_operand *operand,
          uint8_t *out)
{
    bool out_only, in_only;
    enum fy_reason reason =
        condition(scope, operand->out_when, false, &out_only);
    if (reason == FY_REASON_NONE) {
        reason = condition(scope, operand->in_when, false, &in_only);
    }
    if (reason != FY_REASON_NONE) {
        return reason;
    }
    *out = operand->access;
    if (operand->access == FY_ACCESS_INOUT && in_only) {
        *out = FY_ACCESS_IN;
    } else if (operand->access == FY_ACCESS_INOUT && out_only) {
        *out = FY_ACCESS_OUT;
    }
    return FY_REASON_NONE;
}

/* Extents and strides; sets naxes to 0 when the operand is empty. */
static enum fy_reason
bind_shape(const struct fy_scope *scope, const struct fy_operand *operand,
           struct fy_view *view)
{
    view->naxes = operand->naxes;
    for (unsigned k = 0; k < operand->naxes; k++) {
        uint32_t axis = operand->axes[k].axis;
        if (axis >= scope->function->naxes) {
            return FY_REASON_UNSUPPORTED;
        }
        view->extent[k] = scope->extents[axis];
        if (view->extent[k] <= 0) {
            view->naxes = 0;
        }
    }
    if (view->naxes == 0) {
        return FY_REASON_NONE;
    }
    for (unsigned k = 0; k < operand->naxes; k++) {
        int status =
            fy_eval_int(scope, operand->axes[k].stride, &view->stride[k]);
        if (status) {
            return status_reason(status);
        }
    }
    return check_span(view);
}

static enum fy_reason
bind_constraint(const struct fy_scope *scope, const struct fy_operand *operand,
                struct fy_view *view)
{
    int status = 0;

    view->lo = INT64_MIN;
    view->hi = INT64_MAX;
    view->sign = 0;
    if (operand->sign == 0 || view->naxes < 2) {
        return FY_REASON_NONE;
    }
    if (operand->lo != FY_NIL) {
        status = fy_eval_int(scope, operand->lo, &view->lo);
    }
    if (!status && operand->hi != FY_NIL) {
        status = fy_eval_int(scope, operand->hi, &view->hi);
    }
    if (status) {
        return status_reason(status);
    }

    /* Bounds beyond the box say nothing; inside they are kept exact. */
    int64_t least = operand->sign < 0 ? -(view->extent[1] - 1) : 0;
    int64_t most =
        view->extent[0] - 1 + (operand->sign > 0 ? view->extent[1] - 1 : 0);
    if (view->lo <= least) {
        view->lo = INT64_MIN;
    }
    if (view->hi >= most) {
        view->hi = INT64_MAX;
    }
    if (view->lo > most || view->hi < least || view->lo > view->hi) {
        view->naxes = 0;
    }
    if (view->lo != INT64_MIN || view->hi != INT64_MAX) {
        view->sign = operand->sign;
    }
    return FY_REASON_NONE;
}

/*
 * Scratch of which the first elements come back: as a column whose box is the
 * whole room and whose elements are those few.
 */
static enum fy_reason
bind_returns(const struct fy_scope *scope, const struct fy_operand *operand,
             struct fy_view *view)
{
    int64_t count;

    if (operand->access != FY_ACCESS_SCRATCH || operand->returns == FY_NIL ||
        view->naxes != 1) {
        return FY_REASON_NONE;
    }
    int status = fy_eval_int(scope, operand->returns, &count);
    if (status) {
        return status_reason(status);
    }
    if (count <= 0) {
        return FY_REASON_NONE;
    }
    view->access = FY_ACCESS_OUT;
    if (count >= view->extent[0]) {
        return FY_REASON_NONE;
    }
    view->naxes = 2;
    view->extent[1] = 1;
    view->stride[1] = view->extent[0];
    view->sign = -1;
    view->hi = count - 1;
    return FY_REASON_NONE;
}

static enum fy_reason
bind_view(const struct fy_scope *scope, const struct fy_operand *operand,
          unsigned bits, bool allow_null, struct fy_view *view)
{
    bool accessed;
    int64_t at = 0;
    enum fy_reason reason = condition(scope, operand->when, true, &accessed);

    *view = (struct fy_view){.lo = INT64_MIN, .hi = INT64_MAX};
    if (reason != FY_REASON_NONE || !accessed) {
        return reason;
    }
    view->element_bytes = fy_type_bytes((enum fy_type)operand->element, bits);
    if (view->element_bytes == 0 || operand->naxes == 0 ||
        operand->naxes > FY_MAX_OPERAND_AXES ||
        operand->base >= scope->function->ncells) {
        return FY_REASON_UNSUPPORTED;
    }
    reason = bind_shape(scope, operand, view);
    if (reason == FY_REASON_NONE && view->naxes != 0) {
        reason = bind_constraint(scope, operand, view);
    }
    if (reason == FY_REASON_NONE && view->naxes != 0) {
        reason = access_of(scope, operand, &view->access);
    }
    if (reason != FY_REASON_NONE || view->naxes == 0) {
        return reason;
    }
    if (operand->at != FY_NIL) {
        int status = fy_eval_int(scope, operand->at, &at);
        if (status) {
            return status_reason(status);
        }
        if (__builtin_mul_overflow(at, (int64_t)view->element_bytes, &at)) {
            return FY_REASON_OVERFLOW;
        }
    }
    reason = bind_returns(scope, operand, view);
    if (reason != FY_REASON_NONE) {
        return reason;
    }
    uint64_t base = scope->cells[operand->base].p;
    if (base == 0 && !allow_null) {
        return FY_REASON_UNMAPPED;
    }
    view->host = (char *)(uintptr_t)(base + (uint64_t)at);
    if (view->access & FY_ACCESS_OUT && may_repeat(view)) {
        return FY_REASON_OVERLAP;
    }
    return allow_null ? FY_REASON_NONE : check_addresses(view);
}

enum fy_reason
fy_bind_views(const struct fy_scope *scope, unsigned integer_bits,
              bool allow_null, struct fy_view views[FY_MAX_OPERANDS])
{
    const struct fy_operand *rows =
        FY_TABLE(scope->model, fy_operand, operands) +
        scope->function->operands;

    if (scope->function->noperands > FY_MAX_OPERANDS) {
        return FY_REASON_UNSUPPORTED;
    }
    for (unsigned i = 0; i < scope->function->noperands; i++) {
        enum fy_reason reason =
            bind_view(scope, &rows[i], integer_bits, allow_null, &views[i]);
        if (reason != FY_REASON_NONE) {
            return reason;
        }
    }
    return FY_REASON_NONE;
}
