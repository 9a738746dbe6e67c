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
 * Enqueues stale pages of mirrors, before a kernel uses a replica that lies in them, and
 * adds their size to *bytes_in: of each row that has bytes in the replica's pages, all up to
 * the last of these. So no page is copied in that a kernel has written. NULL: the rest.
 */
int fy_mirrors_copy(struct fy_hold *hold, const struct fy_replica *replica,
                    struct fy_lane *in, uint64_t *bytes_in) FY_MUST_CHECK;

#endif
