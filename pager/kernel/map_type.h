/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Types of `map' expressions, for who writes kernels and who evaluates them:
 * float, double and 64-bit integers, by C's rules but for two: a real literal
 * takes the type that it meets, and integers are all long long.
 */
#ifndef FERRY_PAGER_KERNEL_MAP_TYPE_H
#define FERRY_PAGER_KERNEL_MAP_TYPE_H

#include <stdint.h>

#include "annotations/model/model.h"

enum {
    FY_MAP_LITERAL = FY_T_COUNT /* a real number without a type of its own */
};

/* Returns the common type of two values: F32, F64, I64 or FY_MAP_LITERAL. */
static inline uint8_t
fy_map_common(uint8_t a, uint8_t b)
{
    if (a == FY_T_F64 || b == FY_T_F64) {
        return FY_T_F64;
    }
    if (a == FY_T_F32 || b == FY_T_F32) {
        return FY_T_F32;
    }
    return a == FY_MAP_LITERAL || b == FY_MAP_LITERAL ? (uint8_t)FY_MAP_LITERAL
                                                      : (uint8_t)FY_T_I64;
}

/* Returns the type in which a function of <math.h> computes. */
static inline uint8_t
fy_map_real(uint8_t type)
{
    return type == FY_T_I64 ? (uint8_t)FY_T_F64 : type;
}

/* Returns the type of a scalar; VOID: no map computes with it. */
static inline uint8_t
fy_map_cell_type(const struct fy_cell *cell)
{
    switch (cell->type) {
    case FY_T_F32:
    case FY_T_F64:
        return cell->type;
    case FY_T_C32:
    case FY_T_C64:
    case FY_T_POINTER:
    case FY_T_HANDLE:
    case FY_T_VOID:
        return FY_T_VOID;
    default:
        return FY_T_I64;
    }
}

#endif
