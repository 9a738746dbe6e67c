/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a call must leave behind when the original does not run. LAPACK returns a size
 * of each workspace in its first element: here the one that the caller gave, which
 * was enough. Operands with NaN or Inf go to the original, whose info then stands.
 */
#include "config.h"

#include "pager/plan/build.h"

#include <stdlib.h>
#include <string.h>

#include "pager/base/libm.h"

void
fy_plan_store_sizes(const struct fy_planner *planner)
{
    const struct fy_bound *bound = planner->bound;
    const struct fy_operand *operands = FY_OF(bound, fy_operand, operands);

    for (unsigned o = 0; o < bound->function->noperands; o++) {
        const struct fy_view *view = &bound->views[o];
        const enum fy_type type = fy_type_resolve(
            (enum fy_type)operands[o].element, bound->integer_bits);
        const bool is_integer = type == FY_T_I32 || type == FY_T_I64;
        const struct fy_value size = {
            .kind = is_integer ? FY_V_INT : FY_V_COMPLEX,
            .i = view->extent[0],
            .r = (double)view->extent[0],
        };
        if (operands[o].flags & FY_OPERAND_QUERY && view->naxes > 0) {
            fy_raw_store(type, &size, view->host);
        }
    }
}

/* ---- NaNs and infinities ---- */

enum {
    MANY_BYTES = 4 << 20 /* for a single thread to look at */
};

/*
 * Numbers side by side, so many bytes of them, a multiple of `bytes'. If all bits of
 * the exponent are set, a further bit carries into the sign; two or four numbers at
 * once.
 */
static bool
is_block_finite(const char *at, uint64_t size, unsigned bytes)
{
    typedef uint64_t doubles __attribute__((vector_size(16)));
    typedef uint32_t floats __attribute__((vector_size(16)));
    const doubles high = {UINT64_C(0x7ff0000000000000),
                          UINT64_C(0x7ff0000000000000)};
    const floats high_single = {0x7f800000, 0x7f800000, 0x7f800000, 0x7f800000};
    const uint64_t one = UINT64_C(1) << 52;
    doubles bad = {0, 0};
    floats bad_single = {0, 0, 0, 0};
    uint64_t i = 0;

    for (; i + 16 <= size && bytes == 8; i += 16) {
        doubles two;
        memcpy(&two, at + i, sizeof(two));
        bad |= (two & high) + one;
    }
    for (; i + 16 <= size && bytes == 4; i += 16) {
        floats four;
        memcpy(&four, at + i, sizeof(four));
        bad_single |= (four & high_single) + (UINT32_C(1) << 23);
    }
    uint64_t all = (bad[0] | bad[1]) >> 63;
    for (unsigned k = 0; k < 4; k++) {
        all |= bad_single[k] >> 31;
    }
    for (; i < size && bytes == 8; i += 8) {
        uint64_t bits;
        memcpy(&bits, at + i, sizeof(bits));
        all |= ((bits & high[0]) + one) >> 63;
    }
    for (; i < size && bytes == 4; i += 4) {
        uint32_t bits;
        memcpy(&bits, at + i, sizeof(bits));
        all |= ((bits & high_single[0]) + (UINT32_C(1) << 23)) >> 31;
    }
    return all == 0;
}

/* n numbers `stride' apart; floats when `bytes' is 4. */
static bool
is_run_finite(const char *at, int64_t n, int64_t stride_bytes, unsigned parts,
              unsigned bytes)
{
    uint64_t bad = 0;

    if (stride_bytes == (int64_t)parts * bytes) {
        return is_block_finite(at, (uint64_t)n * parts * bytes, bytes);
    }

    for (int64_t i = 0; i < n; i++, at += stride_bytes) {
        for (unsigned part = 0; part < parts; part++) {
            if (bytes == 4) {
                uint32_t bits;
                memcpy(&bits, at + (size_t)4 * part, 4);
                bad |= (bits & UINT32_C(0x7f800000)) == UINT32_C(0x7f800000);
            } else {
                uint64_t bits;
                memcpy(&bits, at + (size_t)8 * part, 8);
                bad |= (bits & UINT64_C(0x7ff0000000000000)) ==
                       UINT64_C(0x7ff0000000000000);
            }
        }
    }
    return bad == 0;
}

/* Along its shorter stride, row by row, and nothing that is not declared. */
bool
fy_view_is_finite(const struct fy_view *view, enum fy_type element)
{
    const bool is_complex = element == FY_T_C32 || element == FY_T_C64;
    const unsigned parts = is_complex ? 2 : 1;
    const unsigned bytes = view->element_bytes / parts;
    const int inner =
        view->naxes == 2 && llabs(view->stride[1]) < llabs(view->stride[0]);
    const int64_t size = view->element_bytes;
    int64_t start, rows = fy_view_rows(view, inner, &start);

    for (int64_t j = start; j < start + rows; j++) {
        int64_t first, n = fy_view_row(view, inner, j, &first);
        int64_t at = first * view->stride[inner];
        if (view->naxes == 2) {
            at += j * view->stride[1 - inner];
        }
        if (!is_run_finite(view->host + at * size, n,
                           view->stride[inner] * size, parts, bytes)) {
            return false;
        }
    }
    return true;
}

/* The part of an operand that must be finite: all that is read, or a triangle
 * of it. */
static int
wanted(const struct fy_bound *bound, unsigned o, struct fy_view *out)
{
    const struct fy_operand *operand = &FY_OF(bound, fy_operand, operands)[o];
    const struct fy_scope scope = {bound->model, bound->function, bound->cells,
                                   bound->extents};

    *out = bound->views[o];
    if (operand->finite_lo == FY_NIL || out->sign != 0) {
        return FY_OK;
    }
    int status = fy_eval_int(&scope, operand->finite_lo, &out->lo);
    if (status == FY_OK) {
        status = fy_eval_int(&scope, operand->finite_hi, &out->hi);
    }
    out->sign = -1;
    return status;
}

bool
fy_bound_has_finite_factors(const struct fy_bound *bound)
{
    for (unsigned c = 0; c < bound->function->ncells; c++) {
        const struct fy_value *value = &bound->cells[c];
        if ((value->kind == FY_V_REAL || value->kind == FY_V_COMPLEX) &&
            !isfinite(value->r)) {
            return false;
        }
        if (value->kind == FY_V_COMPLEX && !isfinite(value->im)) {
            return false;
        }
    }
    return true;
}

static bool
is_good_block(const void *block, uint64_t bytes, const void *argument)
{
    return is_block_finite(block, bytes, *(const unsigned *)argument);
}

/* By the threads that copy to the device, if the operand is large. */
static bool
is_operand_finite(const struct fy_view *view, enum fy_type element,
                  const struct fy_plan_options *options)
{
    const bool is_complex = element == FY_T_C32 || element == FY_T_C64;
    const unsigned bytes = view->element_bytes / (is_complex ? 2 : 1);
    int status = FY_ERR_DEVICE;

    if (options->device && options->ops->look &&
        fy_view_all_elements(view) * view->element_bytes >= MANY_BYTES) {
        status =
            options->ops->look(options->device, view, is_good_block, &bytes);
    }
    /* Memory that they cannot read is for this thread, with the program's handlers. */
    return status == FY_OK ||
           (status != FY_ERR_UNSUPPORTED && fy_view_is_finite(view, element));
}

bool
fy_bound_is_finite(const struct fy_bound *bound,
                   const struct fy_plan_options *options)
{
    const struct fy_operand *operands = FY_OF(bound, fy_operand, operands);

    for (unsigned o = 0; o < bound->function->noperands; o++) {
        struct fy_view view;
        if (!(operands[o].flags & FY_OPERAND_FINITE) ||
            bound->views[o].naxes == 0 ||
            !(bound->views[o].access & FY_ACCESS_IN)) {
            continue;
        }
        if (bound->views[o].naxes > 2 || wanted(bound, o, &view) ||
            !is_operand_finite(&view, (enum fy_type)operands[o].element,
                               options)) {
            return false;
        }
    }
    return true;
}

bool
fy_view_is_in_range(const struct fy_view *view, enum fy_type element, double lo,
                    double hi)
{
    double most = 0;

    for (int64_t j = 0; j < (view->naxes > 1 ? view->extent[1] : 1); j++) {
        for (int64_t i = 0; i < view->extent[0]; i++) {
            int64_t at = i * view->stride[0];
            at += view->naxes > 1 ? j * view->stride[1] : 0;
            const struct fy_value value = fy_raw_value(
                element, view->host + at * (int64_t)view->element_bytes);
            const double size = value.kind == FY_V_COMPLEX
                                    ? hypot(value.r, value.im)
                                    : fabs(value.r);
            if (!(size <= hi)) {
                return false;
            }
            most = size > most ? size : most;
        }
    }
    return most >= lo;
}
