/* SPDX-License-Identifier: Apache-2.0 */
/* Streams with numbered marks; runs on the executor's thread. */
#include "config.h"

#include "pager/execute/lane.h"

#include <string.h>

int
fy_lane_init(struct fy_lane *lane, struct fy_device *device,
             enum fy_stream_kind kind)
{
    memset(lane, 0, sizeof *lane);
    lane->ops = device->ops;
    lane->index = (unsigned)kind;
    int status = lane->ops->stream_create(device, kind, &lane->stream);
    if (status != 0) {
        return status;
    }
    for (int i = 0; i < FY_LANE_EVENTS; i++) {
        status = lane->ops->event_create(device, &lane->events[i]);
        if (status != 0) {
            fy_lane_fini(lane);
            return status;
        }
    }
    return 0;
}

void
fy_lane_fini(struct fy_lane *lane)
{
    if (!lane->stream) {
        return;
    }
    lane->ops->stream_destroy(lane->stream);
    for (int i = 0; i < FY_LANE_EVENTS; i++) {
        if (lane->events[i]) {
            lane->ops->event_destroy(lane->events[i]);
        }
    }
    lane->stream = NULL;
}

int
fy_lane_mark(struct fy_lane *lane, uint64_t *turn)
{
    uint64_t next = lane->marked + 1;
    if (next > FY_LANE_EVENTS) {
        /* The event is still the one of an older turn. */
        int status = fy_lane_wait(lane, next - FY_LANE_EVENTS);
        if (status != 0) {
            return status;
        }
    }
    int status = lane->ops->event_record(lane->stream,
                                         lane->events[next % FY_LANE_EVENTS]);
    if (status != 0) {
        return status;
    }
    lane->marked = next;
    *turn = next;
    return 0;
}

int
fy_lane_after(struct fy_lane *lane, struct fy_lane *other, uint64_t turn)
{
    uint64_t *awaited = &lane->awaited[other->index];
    if (turn <= other->completed || turn <= *awaited) {
        return 0;
    }
    int status = lane->ops->event_wait(lane->stream,
                                       other->events[turn % FY_LANE_EVENTS]);
    if (status == 0) {
        *awaited = turn;
    }
    return status;
}

int
fy_lane_wait(struct fy_lane *lane, uint64_t turn)
{
    if (turn <= lane->completed) {
        return 0;
    }
    int status = lane->ops->event_sync(lane->events[turn % FY_LANE_EVENTS]);
    if (status == 0) {
        lane->completed = turn;
    }
    return status;
}

int
fy_lane_drain(struct fy_lane *lane)
{
    int status = lane->ops->stream_sync(lane->stream);
    lane->completed = lane->marked;
    return status;
}
