/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares two results of one call within the bound of its annotation. In
 * forked children; pure arithmetic.
 */
#ifndef FERRY_PAGER_VERIFY_COMPARE_H
#define FERRY_PAGER_VERIFY_COMPARE_H

#include <stdbool.h>

#include "pager/bind/bind.h"
#include "pager/verify/image.h"

struct fy_bounds {
    bool exact;
    /* absolute, of each operand; the last is the return value's */
    double bound[FY_MAX_OPERANDS + 1];
    double scale[FY_MAX_OPERANDS + 1]; /* magnitude that the bound is
                                        * relative to */
};

/*
 * The bounds of a call: c * eps * scale. c is the annotation's `error', else
 * 64 + 8 * (sum of all extents); scale is the largest magnitude among the
 * operand's true and old content and the product of the largest magnitudes of
 * the inputs and real scalars. Reads images->before and ->truth.
 */
void fy_bounds_make(const struct fy_bound *call, const struct fy_images *images,
                    const union fy_raw *result, struct fy_bounds *out);

struct fy_difference {
    bool found;
    double distance;  /* of the worst element; infinity when one is a NaN */
    double got, want; /* its values (real parts) */
    char place[96];   /* "(3, 5)" */
};

/*
 * Compares the written elements of an operand in two layouts of its image.
 * `skip' (may be NULL): a third layout; elements that still are as in it are
 * left out.
 */
void fy_compare_operand(const struct fy_images *images, unsigned operand,
                        const char *got, const char *want, const char *skip,
                        const struct fy_bounds *bounds,
                        struct fy_difference *out);

/* Compares return values of the function's type. */
void fy_compare_result(const struct fy_function *function,
                       unsigned integer_bits, const union fy_raw *got,
                       const union fy_raw *want, const struct fy_bounds *bounds,
                       struct fy_difference *out);

/* Returns true if the elements of this type are floating point. */
bool fy_type_is_real(enum fy_type type);
/* Machine epsilon of its real kind; 0 for integers. */
double fy_type_epsilon(enum fy_type type);

#endif
