/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps of a chunk on the device that are kernels: the user's own, and those
 * made from `map' statements. Private to the planner.
 */
#ifndef FERRY_PAGER_PLAN_KERNEL_CALL_H
#define FERRY_PAGER_PLAN_KERNEL_CALL_H

#include "pager/kernel/source.h"
#include "pager/plan/device_call.h"

/*
 * Fills a variant for a map row of the planner's call on the tiles of one
 * chunk. Scalars are those of the whole call: the value of an element does not
 * depend on its chunk. Statuses as fy_device_call().
 */
int fy_map_step(struct fy_planner *planner, const struct fy_call_row *row,
                const struct fy_device_operands *operands,
                struct fy_variant *variant) FY_MUST_CHECK;

/* The user's kernel; the slots are filled as for a library's function. */
int fy_kernel_step(struct fy_planner *planner, const struct fy_scope *scope,
                   const struct fy_call_row *row,
                   struct fy_variant *variant) FY_MUST_CHECK;

#endif
