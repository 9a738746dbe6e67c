/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bounds that no schedule can beat, for the report: compulsory traffic, and for
 * products of matrices the known bounds (Smith et al. 2017 for gemm, Beaumont et al.
 * 2022 for syrk and Cholesky).
 */
#include "config.h"

#include "pager/plan/build.h"

#include <math.h>

/* The bits of the axes longer than 1 that an operand spans. */
static unsigned
spanned(const struct fy_bound *bound, unsigned o)
{
    const struct fy_operand *operand = &FY_OF(bound, fy_operand, operands)[o];
    unsigned bits = 0;

    if (bound->views[o].naxes == 0) {
        return 0;
    }
    for (unsigned k = 0; k < operand->naxes; k++) {
        if (bound->extents[operand->axes[k].axis] > 1) {
            bits |= 1u << operand->axes[k].axis;
        }
    }
    return bits;
}

/*
 * Three axes, and three operands that span two of them each: every product of
 * the iteration space needs one element of all three (Loomis and Whitney).
 * Elements, 0 when the call is not of that kind.
 */
static double
product_bound(const struct fy_bound *bound, double elements)
{
    unsigned seen[3], count = 0, all = 0;
    double space = 1, written = 0;

    for (unsigned o = 0; o < bound->function->noperands; o++) {
        unsigned bits = spanned(bound, o);
        if (__builtin_popcount(bits) < 2) {
            continue;
        }
        if (count == 3) {
            return 0;
        }
        for (unsigned i = 0; i < count; i++) {
            if (seen[i] == bits) {
                return 0;
            }
        }
        seen[count++] = bits;
        all |= bits;
        if (bound->views[o].access & FY_ACCESS_OUT) {
            written += (double)fy_view_all_elements(&bound->views[o]);
        }
    }
    if (count != 3 || __builtin_popcount(all) != 3) {
        return 0;
    }
    for (unsigned a = 0; a < bound->function->naxes; a++) {
        if (all & 1u << a) {
            space *= (double)bound->extents[a];
        }
    }
    return 2 * space / sqrt(elements) + written;
}

uint64_t
fy_lower_bound_bytes(const struct fy_bound *bound, uint64_t memory_bytes)
{
    uint64_t least =
        fy_compulsory_bytes(bound->views, bound->function->noperands);
    uint32_t element = 0;
    double words = 0;

    if (least <= memory_bytes) {
        return least;
    }
    for (unsigned o = 0; o < bound->function->noperands; o++) {
        if (bound->views[o].naxes >= 2) {
            element = bound->views[o].element_bytes;
        }
    }
    if (element == 0) {
        return least;
    }
    double elements = (double)memory_bytes / element;
    if (bound->function->blocked_by != 0) {
        words = fy_blocked_bound(bound, elements);
    } else {
        words = product_bound(bound, elements);
    }
    double bytes = words * element;
    return bytes > (double)least ? (uint64_t)bytes : least;
}
