/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shapes of the generic planner: how each axis is cut and in which order the
 * chunks run. Private to the planner.
 */
#ifndef FERRY_PAGER_PLAN_AXES_H
#define FERRY_PAGER_PLAN_AXES_H

#include "pager/plan/build.h"

struct fy_shape {
    uint8_t norder;
    uint8_t order[FY_MAX_AXES];       /* outermost loop first */
    struct fy_cuts cuts[FY_MAX_AXES]; /* count 0: not cut */
    bool straight;                    /* no snake */
};

void fy_shape_free(struct fy_shape *shape);
uint64_t fy_shape_steps(const struct fy_shape *shape);
void fy_shape_parts(const struct fy_shape *shape, uint64_t number,
                    uint32_t parts[FY_MAX_AXES]);

/* Returns true if chunks of the call along that axis are calls with the same
 * meaning. */
bool fy_axis_is_splittable(const struct fy_planner *planner, unsigned axis);

/* Makes the whole plan of a shape. */
int fy_plan_shape(struct fy_planner *planner,
                  const struct fy_shape *shape) FY_MUST_CHECK;

/* Returns true if the call moves so much that it is cut by time
 * (options.overlap_bytes). */
bool fy_plan_takes_long(const struct fy_planner *planner);

/*
 * Plans a call that fits whole but takes long on the link
 * (options.overlap_bytes): finds the shape whose copies and kernels end first
 * when they run side by side, each tile copied once. FY_ERR_NOFIT: the call
 * should go whole.
 */
int fy_plan_overlapped(struct fy_planner *planner) FY_MUST_CHECK;
/* Finds the shape that moves least and makes its plan. */
int fy_plan_search(struct fy_planner *planner) FY_MUST_CHECK;

#endif
