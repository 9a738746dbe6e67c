/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operands to views: conditions, strides, constraint and address, with every
 * product checked. What would not fit 63 bits is refused, never wrapped.
 */
#include "config.h"

#include "pager/bind/bind.h"

static enum fy_reason
status_reason(int status)
{
    return status == FY_ERR_OVERFLOW ? FY_REASON_OVERFLOW
                                     : FY_REASON_UNSUPPORTED;
}

/* Offsets of the box's ends, in bytes, must fit, and the bytes of all elements too. */
static enum fy_reason
check_span(const struct fy_view *view, int64_t *low, int64_t *high)
{
    int64_t size = (int64_t)view->element_bytes;
    uint64_t elements = 1;
    bool fits = fy_view_span(view, low, high);

    for (unsigned k = 0; k < view->naxes; k++) {
        fits = fits && !__builtin_mul_overflow(
                           elements, (uint64_t)view->extent[k], &elements);
    }
    return fits && elements <= (uint64_t)(INT64_MAX / size)
               ? FY_REASON_NONE
               : FY_REASON_OVERFLOW;
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
           struct fy_view *view, int64_t *low, int64_t *high)
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
    return check_span(view, low, high);
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
    int64_t at = 0, low, high;
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
    reason = bind_shape(scope, operand, view, &low, &high);
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
    if (view->access & FY_ACCESS_OUT && !fy_view_is_injective(view)) {
        return FY_REASON_OVERLAP;
    }
    base = (uint64_t)(uintptr_t)view->host;
    return allow_null || (base <= INT64_MAX && (uint64_t)-low <= base &&
                          base <= (uint64_t)(INT64_MAX - high))
               ? FY_REASON_NONE
               : FY_REASON_OVERFLOW;
}

enum fy_reason
fy_bind_views(const struct fy_scope *scope, unsigned integer_bits,
              bool allow_null, struct fy_view views[FY_MAX_OPERANDS])
{
    const struct fy_operand *rows = FY_OF(scope, fy_operand, operands);

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
