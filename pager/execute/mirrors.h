/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles that are parts of mirrors: no buffer, no packing. The executor's thread only. */
#ifndef FERRY_PAGER_EXECUTE_MIRRORS_H
#define FERRY_PAGER_EXECUTE_MIRRORS_H

#include "pager/execute/lane.h"
#include "pager/execute/replica.h"

/*
 * Gives replicas of resident operands their places in the mirrors of schedule->hold,
 * if the schedule wants their elements in the program's layout.
 */
void fy_mirrors_place(struct fy_replica_table *table,
                      const struct fy_schedule *schedule);
/*
 * Enqueues the stale pages of all mirrors that the call reads, before everything that
 * `compute' gets from now on, and adds their size to *bytes_in. NULL: no mirrors.
 */
int fy_mirrors_copy(const struct fy_hold *hold, struct fy_lane *in,
                    struct fy_lane *compute, uint64_t *bytes_in) FY_MUST_CHECK;

#endif
