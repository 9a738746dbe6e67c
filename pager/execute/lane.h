/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream with numbered marks, so that the executor can say "after the 17th
 * mark of the compute lane" without owning an event per operation. One thread.
 */
#ifndef FERRY_PAGER_EXECUTE_LANE_H
#define FERRY_PAGER_EXECUTE_LANE_H

#include "pager/device/device.h"

enum {
    FY_LANE_EVENTS = 8,
    FY_LANES = 4
};

struct fy_lane {
    const struct fy_device_ops *ops;
    struct fy_stream *stream;
    struct fy_event *events[FY_LANE_EVENTS]; /* turn t uses t modulo these */
    uint64_t marked;                         /* the last turn; the first is 1 */
    uint64_t completed;         /* every turn up to it has been waited for */
    unsigned index;             /* of this lane, below FY_LANES */
    uint64_t awaited[FY_LANES]; /* turns of other lanes this one waits for */
};

/* Returns new: a stream and its events on `device'. */
int fy_lane_init(struct fy_lane *lane, struct fy_device *device,
                 enum fy_stream_kind kind) FY_MUST_CHECK;
void fy_lane_fini(struct fy_lane *lane);

/* The turn that is reached when everything enqueued so far has run. */
int fy_lane_mark(struct fy_lane *lane, uint64_t *turn) FY_MUST_CHECK;
/* Work enqueued on `lane' from now on runs after `turn' of `other'. */
int fy_lane_after(struct fy_lane *lane, struct fy_lane *other,
                  uint64_t turn) FY_MUST_CHECK;
/* Blocks until `turn' is reached. */
int fy_lane_wait(struct fy_lane *lane, uint64_t turn) FY_MUST_CHECK;
/* Blocks until the lane is empty, also after a failure; its first error. */
int fy_lane_drain(struct fy_lane *lane);

#endif
