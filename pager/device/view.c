/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arithmetic of strided elements. Overlap is decided by descending into the axes
 * from the longest stride, with a bound on the work.
 */
#include "config.h"

#include "pager/device/view.h"

static uint64_t
magnitude(int64_t v)
{
    return v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
}

bool
fy_view_is_empty(const struct fy_view *v)
{
    for (unsigned k = 0; k < v->naxes; k++) {
        if (v->extent[k] <= 0) {
            return true;
        }
    }
    return v->naxes == 0;
}

/* 1 + 2 + ... + x */
static __int128
triangle(__int128 x)
{
    return x > 0 ? x * (x + 1) / 2 : 0;
}

/* Pairs of 0 <= i < n0, 0 <= j < n1 with i + j <= h. */
static __int128
pairs_up_to(__int128 n0, __int128 n1, __int128 h)
{
    if (h >= n0 + n1 - 2) {
        return n0 * n1;
    }
    return triangle(h + 1) - triangle(h + 1 - n0) - triangle(h + 1 - n1) +
           triangle(h + 1 - n0 - n1);
}

uint64_t
fy_view_all_elements(const struct fy_view *v)
{
    uint64_t count = 1;
    if (fy_view_is_empty(v)) {
        return 0;
    }
    for (unsigned k = v->sign == 0 ? 0 : 2; k < v->naxes; k++) {
        count *= (uint64_t)v->extent[k];
    }
    if (v->sign == 0) {
        return count;
    }
    __int128 n0 = v->extent[0], n1 = v->naxes > 1 ? v->extent[1] : 1;
    /* i - j is i + j' - (n1 - 1) with j' counted from the other end. */
    __int128 shift = v->sign < 0 ? n1 - 1 : 0;
    __int128 pairs = pairs_up_to(n0, n1, v->hi + shift) -
                     pairs_up_to(n0, n1, v->lo + shift - 1);
    return pairs < 0 ? 0 : count * (uint64_t)pairs;
}

uint64_t
fy_view_elements(const struct fy_view *view, const int64_t *lo,
                 const int64_t *n)
{
    struct fy_view part;
    fy_view_part(view, lo, n, &part);
    return fy_view_all_elements(&part);
}

bool
fy_view_span(const struct fy_view *v, int64_t *low, int64_t *high)
{
    int64_t size = v->element_bytes;
    *low = 0;
    *high = size;
    for (unsigned k = 0; k < v->naxes; k++) {
        int64_t reach;
        if (__builtin_mul_overflow(v->extent[k] - 1, v->stride[k], &reach) ||
            __builtin_mul_overflow(reach, size, &reach)) {
            return false;
        }
        int64_t *end = reach < 0 ? low : high;
        if (__builtin_add_overflow(*end, reach, end)) {
            return false;
        }
    }
    return true;
}

static int64_t
clamp(__int128 v)
{
    return v < INT64_MIN ? INT64_MIN : v > INT64_MAX ? INT64_MAX : (int64_t)v;
}

void
fy_view_shift(struct fy_view *v, int64_t lo0, int64_t lo1)
{
    __int128 by = (__int128)lo0 + (__int128)v->sign * lo1;
    __int128 lo = v->lo - by, hi = v->hi - by;
    if (v->lo != INT64_MIN) {
        v->lo = clamp(lo);
    }
    if (v->hi != INT64_MAX) {
        v->hi = clamp(hi);
    }
}

void
fy_view_part(const struct fy_view *view, const int64_t *lo, const int64_t *n,
             struct fy_view *out)
{
    uint64_t at = 0;
    *out = *view;
    for (unsigned k = 0; k < view->naxes; k++) {
        at += (uint64_t)lo[k] * (uint64_t)view->stride[k];
        out->extent[k] = n[k];
    }
    at *= view->element_bytes;
    out->host = (char *)((uintptr_t)view->host + (uintptr_t)at);
    if (view->sign != 0) {
        fy_view_shift(out, lo[0], view->naxes > 1 ? lo[1] : 0);
    }
}

/* The part of an axis' indices between two bounds that may lie anywhere. */
static int64_t
clip(const struct fy_view *v, int axis, __int128 lo, __int128 hi,
     int64_t *first)
{
    int64_t n = axis < v->naxes ? v->extent[axis] : 1;
    if (lo < 0) {
        lo = 0;
    }
    if (hi > n - 1) {
        hi = n - 1;
    }
    *first = (int64_t)lo;
    return hi < lo ? 0 : (int64_t)(hi - lo + 1);
}

int64_t
fy_view_rows(const struct fy_view *v, int inner, int64_t *first)
{
    if (v->sign == 0) {
        return clip(v, 1 - inner, 0, INT64_MAX, first);
    }
    /* lo <= s * row + [a, b] <= hi */
    __int128 last = (inner < v->naxes ? v->extent[inner] : 1) - 1;
    __int128 a = inner == 1 && v->sign < 0 ? -last : 0, b = a + last;
    return inner == 0 && v->sign < 0
               ? clip(v, 1, a - v->hi, b - v->lo, first)
               : clip(v, 1 - inner, v->lo - b, v->hi - a, first);
}

int64_t
fy_view_row(const struct fy_view *v, int inner, int64_t row, int64_t *first)
{
    __int128 by = inner == 0 ? (__int128)v->sign * row : row;
    if (v->sign == 0) {
        return clip(v, inner, 0, INT64_MAX, first);
    }
    return inner == 1 && v->sign < 0
               ? clip(v, inner, by - v->hi, by - v->lo, first)
               : clip(v, inner, v->lo - by, v->hi - by, first);
}

int
fy_view_order(const struct fy_view *view, const int64_t *stride,
              uint8_t order[FY_MAX_OPERAND_AXES])
{
    int count = 0;
    for (uint8_t k = 0; k < view->naxes; k++) {
        if (view->extent[k] == 1) {
            continue;
        }
        int at = count++;
        for (;
             at > 0 && magnitude(stride[order[at - 1]]) > magnitude(stride[k]);
             at--) {
            order[at] = order[at - 1];
        }
        order[at] = k;
    }
    return count;
}

uint64_t
fy_view_pack(const struct fy_view *view, int64_t stride[FY_MAX_OPERAND_AXES])
{
    uint8_t order[FY_MAX_OPERAND_AXES];
    int64_t dense = 1;
    int count = fy_view_order(view, view->stride, order);
    for (unsigned k = 0; k < view->naxes; k++) {
        stride[k] = 1; /* of one element: any will do */
    }
    for (int i = 0; i < count; i++) {
        stride[order[i]] = dense;
        if (__builtin_mul_overflow(dense, view->extent[order[i]], &dense)) {
            return UINT64_MAX;
        }
    }
    return (uint64_t)dense;
}

bool
fy_view_range(const struct fy_view *view, struct fy_range *out, bool *overflow)
{
    int64_t low, high, base = (int64_t)(uintptr_t)view->host;
    *out = (struct fy_range){0};
    *overflow = false;
    if (fy_view_is_empty(view)) {
        return false;
    }
    *overflow = base < 0 || !fy_view_span(view, &low, &high) ||
                base + low < 0 || high > INT64_MAX - base;
    if (*overflow) {
        return false;
    }
    *out = (struct fy_range){.start = (uintptr_t)(base + low),
                             .bytes = (uint64_t)(high - low),
                             .write = (view->access & FY_ACCESS_OUT) != 0};
    return true;
}

/* --- overlap --- */

/* Bytes first + sum(i_k * stride_k) + 0 .. run - 1, strides ascending. */
struct strided {
    __int128 first;
    __int128 run;
    int naxes;
    struct {
        __int128 n, stride;
    } axes[FY_MAX_OPERAND_AXES];
};

/* False when the view has no elements. Contiguous axes go into the run. */
static bool
flatten(const struct fy_view *view, struct strided *out)
{
    uint8_t order[FY_MAX_OPERAND_AXES];
    *out = (struct strided){.first = (__int128)(uintptr_t)view->host,
                            .run = view->element_bytes};
    if (fy_view_is_empty(view)) {
        return false;
    }
    int count = fy_view_order(view, view->stride, order);
    for (int i = 0; i < count; i++) {
        __int128 last = view->extent[order[i]] - 1;
        __int128 stride =
            (__int128)view->stride[order[i]] * view->element_bytes;
        if (stride < 0) {
            out->first += last * stride;
            stride = -stride;
        }
        if (out->naxes == 0 && stride <= out->run) {
            out->run += last * stride;
            continue;
        }
        out->axes[out->naxes].n = last + 1;
        out->axes[out->naxes++].stride = stride;
    }
    return true;
}

/* Bytes from the first to behind the last, of the lowest `naxes' axes. */
static __int128
width(const struct strided *s, int naxes)
{
    __int128 bytes = s->run;
    for (int k = 0; k < naxes; k++) {
        bytes += (s->axes[k].n - 1) * s->axes[k].stride;
    }
    return bytes;
}

static __int128
floor_div(__int128 a, __int128 b)
{
    return a / b - (a % b < 0);
}

/*
 * Whether a's lowest na axes, begun at byte 0, meet b's lowest nb axes, begun
 * at byte d. *budget counts the comparisons left; at 0 the answer is yes.
 */
static bool
meet(const struct strided *a, int na, const struct strided *b, int nb,
     __int128 d, unsigned *budget)
{
    if (*budget == 0) {
        return true;
    }
    --*budget;
    if (d >= width(a, na) || -d >= width(b, nb)) {
        return false;
    }
    if (na == 0 && nb == 0) {
        return true;
    }
    /* Opens the axis of the longest stride; of both, where they are equal. */
    __int128 sa = na > 0 ? a->axes[na - 1].stride : 0;
    __int128 sb = nb > 0 ? b->axes[nb - 1].stride : 0;
    __int128 stride = sa > sb ? sa : sb;
    __int128 most = 0, least = 0; /* of t = index in a - index in b */
    if (sa == stride) {
        most = a->axes[--na].n - 1;
    }
    if (sb == stride) {
        least = -(b->axes[--nb].n - 1);
    }
    /* Rows meet only where d - width(a row) < t * stride < d + width(b row). */
    __int128 from = floor_div(d - width(a, na), stride) + 1;
    __int128 to = -floor_div(-(d + width(b, nb)), stride) - 1;
    from = from < least ? least : from;
    to = to > most ? most : to;
    for (__int128 t = from; t <= to; t++) {
        if (meet(a, na, b, nb, d - t * stride, budget)) {
            return true;
        }
    }
    return false;
}

/* Parts of one array that a constraint keeps apart: two triangles. */
static bool
are_apart_by_constraint(const struct fy_view *a, const struct fy_view *b)
{
    if (a->sign == 0 || a->sign != b->sign || a->host != b->host ||
        a->element_bytes != b->element_bytes || a->naxes != 2 ||
        b->naxes != 2) {
        return false;
    }
    for (int k = 0; k < 2; k++) {
        if (a->stride[k] != b->stride[k]) {
            return false;
        }
    }
    if (a->hi >= b->lo && b->hi >= a->lo) {
        return false;
    }
    /* Over both boxes together an element must have one pair of indices. */
    struct fy_view both = *a;
    both.sign = 0;
    for (int k = 0; k < 2; k++) {
        if (b->extent[k] > both.extent[k]) {
            both.extent[k] = b->extent[k];
        }
    }
    return fy_view_is_injective(&both);
}

bool
fy_views_overlap(const struct fy_view *a, const struct fy_view *b)
{
    struct strided sa, sb;
    unsigned budget = 4096;
    if (!flatten(a, &sa) || !flatten(b, &sb)) {
        return false;
    }
    if (!meet(&sa, sa.naxes, &sb, sb.naxes, sb.first - sa.first, &budget)) {
        return false;
    }
    return !are_apart_by_constraint(a, b);
}

bool
fy_view_is_injective(const struct fy_view *view)
{
    struct fy_view band;
    uint8_t order[FY_MAX_OPERAND_AXES];
    uint64_t span = 0; /* of the axes so far */
    if (fy_view_is_empty(view)) {
        return true;
    }
    /* The boxes of bands stored with stride ld - 1 overlap, their elements do not:
     * i = d - sign * j, so of the axes (d, j) with strides s0, s1 - sign * s0. */
    if (view->sign != 0 && view->naxes >= 2 && view->lo != INT64_MIN &&
        view->hi != INT64_MAX) {
        band = *view;
        band.extent[0] = view->hi - view->lo + 1;
        band.stride[1] -= view->sign * view->stride[0];
        view = &band;
    }
    int count = fy_view_order(view, view->stride, order);
    for (int i = 0; i < count; i++) {
        uint64_t stride = magnitude(view->stride[order[i]]);
        if (stride <= span) {
            return false;
        }
        span += stride * (uint64_t)(view->extent[order[i]] - 1);
    }
    return true;
}
