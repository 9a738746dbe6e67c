/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strided elements in memory: the one description of an operand from bind to the
 * devices' copies, and the questions about it. Nothing here allocates, takes a lock
 * or changes errno; safe from any thread and after fork.
 */
#ifndef FERRY_PAGER_DEVICE_VIEW_H
#define FERRY_PAGER_DEVICE_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "annotations/model/model.h"

/*
 * The elements (i0, i1, ...) with 0 <= ik < extent[k] and, when sign != 0,
 * lo <= i0 + sign * i1 <= hi: numbers only. Memory is borrowed. Bytes between the
 * elements belong to others.
 */
struct fy_view {
    char *host; /* element (0, 0, ...) */
    uint32_t element_bytes;
    uint8_t access; /* enum fy_access, conditions already applied */
    uint8_t naxes;  /* 0: not accessed in this call */
    int8_t sign;    /* 0, +1, -1 */
    int64_t extent[FY_MAX_OPERAND_AXES];
    int64_t stride[FY_MAX_OPERAND_AXES]; /* elements; may be negative */
    int64_t lo, hi;                      /* INT64_MIN, INT64_MAX: unbounded */
    bool temporary; /* steps before have written it: nothing to be undone */
    /* Another view has the same memory and writes it: bytes must be copied in before
     * any result goes out, and stay until their last use, or all is undone (NOFIT). */
    bool once;
};

/* Bytes of the host program's memory. */
struct fy_range {
    uintptr_t start;
    uint64_t bytes;
    bool write; /* must be writable; else readable */
};

/* Without axes, or with one along which nothing lies. */
bool fy_view_is_empty(const struct fy_view *view);

/* Returns the number of elements in the box lo[k] .. lo[k] + n[k] - 1 of the
 * view. */
uint64_t fy_view_elements(const struct fy_view *view, const int64_t *lo,
                          const int64_t *n);
/* Returns the number of elements of the view. */
uint64_t fy_view_all_elements(const struct fy_view *view);

/* The bytes from element (0, 0, ...) to the lowest one of the extents, and behind
 * the highest; the constraint aside. Not empty. False: they do not fit. */
bool fy_view_span(const struct fy_view *view, int64_t *low, int64_t *high);

/* The elements of the box lo[k] .. lo[k] + n[k] - 1, which lies in the view, counted
 * from the box. `out' may be the view. */
void fy_view_part(const struct fy_view *view, const int64_t *lo,
                  const int64_t *n, struct fy_view *out);

/* The constraint of the box that begins at lo0, lo1, counted from the box. Unbounded
 * sides stay unbounded. */
void fy_view_shift(struct fy_view *view, int64_t lo0, int64_t lo1);

/* Axes 0 and 1 as rows, one for each index of the one that is not `inner': how many
 * have an element of the view, from *first on. */
int64_t fy_view_rows(const struct fy_view *view, int inner, int64_t *first);
/* Returns the number of elements along axis `inner' that such a row has,
 * from *first on. */
int64_t fy_view_row(const struct fy_view *view, int inner, int64_t row,
                    int64_t *first);

/* The view's axes of more than one element, in the order of `stride', the shortest
 * first; returns how many. */
int fy_view_order(const struct fy_view *view, const int64_t *stride,
                  uint8_t order[FY_MAX_OPERAND_AXES]);

/* Strides of a box without gaps, its axes nested as the view's; returns how many
 * elements the box has, UINT64_MAX when these are too many. */
uint64_t fy_view_pack(const struct fy_view *view,
                      int64_t stride[FY_MAX_OPERAND_AXES]);

/*
 * The bytes from a view's first to behind its last, gaps included. False, and
 * out is empty, for a view without elements, or, with *overflow set, when they
 * do not fit the address space.
 */
bool fy_view_range(const struct fy_view *view, struct fy_range *out,
                   bool *overflow);

/*
 * Returns true if two views may share a byte. Exact for the layouts of one
 * parent array (blocks of rows, columns, vectors of either direction); where
 * that would take long, it says true.
 */
bool fy_views_overlap(const struct fy_view *a, const struct fy_view *b);

/*
 * Returns true if no two elements of the view lie on each other, as a written
 * view requires. May say false for exotic layouts. The view's span fits.
 */
bool fy_view_is_injective(const struct fy_view *view);

#endif
