/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a schedule on a device as one transaction: on success every written
 * operand is complete in host memory; on any error every element that the call
 * may read is byte for byte as before (from the undo log), so that the
 * original can run instead. Elements that the call only writes (OUT views) are
 * unspecified then; elements that no view declares are never touched.
 *
 * A view that is written must not share elements with another view.
 */
#ifndef FERRY_PAGER_EXECUTE_EXECUTOR_H
#define FERRY_PAGER_EXECUTE_EXECUTOR_H

#include "pager/execute/schedule.h"

struct fy_executor; /* one per thread and device; not thread safe in itself */

/* Returns new: streams and events on `device' (borrowed, outlives it). */
int fy_executor_new(struct fy_device *device,
                    struct fy_executor **out) FY_MUST_CHECK;
/* Destroys its streams, events and replicas, before the device is closed. NULL: fine. */
void fy_executor_free(struct fy_executor *executor);

/*
 * Returns the bytes of device memory that a tile takes: the span there, rounded to
 * the device's alignment. UINT64_MAX: too many.
 */
uint64_t fy_tile_device_bytes(const struct fy_view *view,
                              const struct fy_tile *tile);

/*
 * Runs it to the end and commits. 0; FY_ERR_NOFIT (a step's tiles do not fit);
 * FY_ERR_NOMEM (undo log); FY_ERR_DEVICE; FY_ERR_FAULT (an operand cannot be
 * accessed); FY_ERR_UNSUPPORTED when the planner did not accept the outcome. `traffic' is filled in every case.
 */
int fy_executor_run(struct fy_executor *executor,
                    const struct fy_schedule *schedule,
                    struct fy_traffic *traffic) FY_MUST_CHECK;

#endif
