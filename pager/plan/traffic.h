/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reduces a schedule to the tiles that each step touches, to count the bytes
 * that a cache which knows the future would move. Private to the planner.
 */
#ifndef FERRY_PAGER_PLAN_TRAFFIC_H
#define FERRY_PAGER_PLAN_TRAFFIC_H

#include "pager/plan/build.h"

/* Plans are compared by time and this share of their traffic: others use the link, too, and
 * guesses are wrong. A step costs that part of options.overlap_bytes. */
#define FY_TRACE_TRAFFIC_SHARE 0.1
enum {
    FY_TRACE_STEP_SHARE = 12
};

struct fy_trace_tile {
    uint64_t bytes;        /* bytes of the declared elements, which a copy
                            * moves */
    uint64_t device_bytes; /* the bytes it occupies */
};

struct fy_trace_access {
    uint32_t step; /* ascending */
    uint32_t tile;
    uint8_t access; /* enum fy_access */
    float work;     /* of the step, by any measure; 0 in all: they are alike */
};

struct fy_access_trace {
    struct fy_trace_tile *tiles;
    uint32_t ntiles;
    struct fy_trace_access *accesses;
    uint32_t naccesses;
};

/*
 * When the steps end, where copies in, kernels and copies out go on side by side: in
 * bytes that the link carries meanwhile.
 */
struct fy_trace_time {
    double kernels; /* of all steps; */
    double start;   /* of each one besides */
    double end;
    double cost;   /* the end and the share of the traffic */
    bool gives_up; /* the schedule's: the better one */
    bool evicts;   /* room is short */
};

/* `time' may be NULL: nothing overlaps. FY_ERR_NOFIT when a step's tiles exceed the budget; FY_ERR_NOMEM. */
int fy_trace_run(const struct fy_access_trace *trace, uint64_t budget_bytes,
                 struct fy_trace_time *time,
                 struct fy_traffic *out) FY_MUST_CHECK;

#endif
