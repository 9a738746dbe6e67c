/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks that a bound call's operands may be copied: mapped, and none written
 * that shares elements with another.
 */
#include "config.h"

#include "pager/bind/bind.h"

#include "pager/execute/hostmem.h"

enum fy_reason
fy_bound_check_memory(const struct fy_bound *bound)
{
    struct fy_range ranges[FY_MAX_OPERANDS];
    unsigned count = 0, n = bound->function->noperands;

    for (unsigned i = 0; i < n; i++) {
        const struct fy_view *view = &bound->views[i];
        bool overflow = false;
        if (view->naxes == 0) {
            continue;
        }
        if (fy_view_range(view, &ranges[count], &overflow)) {
            ranges[count].write = (view->access & FY_ACCESS_OUT) != 0;
            count++;
        }
        if (overflow) {
            return FY_REASON_OVERFLOW;
        }
    }
    if (count == 0) {
        return FY_REASON_EMPTY;
    }
    for (unsigned i = 0; i < n; i++) {
        for (unsigned j = i + 1; j < n; j++) {
            const struct fy_view *a = &bound->views[i], *b = &bound->views[j];
            if (a->naxes == 0 || b->naxes == 0) {
                continue;
            }
            if (((a->access | b->access) &
                 (FY_ACCESS_OUT | FY_ACCESS_SCRATCH)) &&
                fy_views_overlap(a, b)) {
                return FY_REASON_OVERLAP;
            }
        }
    }
    switch (fy_ranges_mapped(ranges, count)) {
    case FY_OK:
        return FY_REASON_NONE;
    case FY_ERR_NOENT:
        return FY_REASON_UNMAPPED;
    default:
        return FY_REASON_UNSUPPORTED;
    }
}
