/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes `map' expressions on the CPU, one element at a time: with the same
 * types and conversions as the kernel that source.c writes, each operation
 * rounded in its type. For `ferry verify', where no device is.
 */
#ifndef FERRY_PAGER_KERNEL_MAP_VALUE_H
#define FERRY_PAGER_KERNEL_MAP_VALUE_H

#include "pager/bind/bind.h"

/*
 * Runs the maps of a row (kind FY_CALL_MAP) at one index: at[] has, by
 * operand, the address of its element there, or NULL if the operand is not
 * accessed (it reads as 0). Results are written after all have been computed.
 * FY_ERR_UNSUPPORTED: not with these arguments; nothing was written.
 */
int fy_map_evaluate(const struct fy_bound *bound, const struct fy_call_row *row,
                    char *const *at) FY_MUST_CHECK;

/* Nodes that one index takes, shared ones each time they are met. */
uint32_t fy_map_steps(const struct fy_bound *bound,
                      const struct fy_call_row *row);

#endif
