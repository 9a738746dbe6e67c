/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The undo log of one transaction: the old content of host elements that are
 * about to be overwritten. All of its memory is claimed before the first is.
 */
#ifndef FERRY_PAGER_EXECUTE_UNDO_H
#define FERRY_PAGER_EXECUTE_UNDO_H

#include "pager/execute/replica.h"

struct fy_undo {
    char *base; /* a mapping, kept between transactions while small */
    size_t bytes;
    uint64_t keep_bytes; /* more is small on a machine with that much memory */
};

/*
 * Claims room for every replica of the table whose old content matters and is
 * overwritten. FY_ERR_NOMEM when the machine cannot give it without danger.
 */
int fy_undo_reserve(struct fy_undo *undo,
                    struct fy_replica_table *table) FY_MUST_CHECK;
/* Returns true for a replica that is to be saved before its first copy out, and the copy
 * that does it. */
bool fy_undo_copy(const struct fy_undo *undo, struct fy_replica *replica,
                  struct fy_copy *out);
/*
 * Puts back everything saved that is still there. No operation may be running on
 * that memory, nor any copy out.
 */
void fy_undo_restore(const struct fy_undo *undo,
                     const struct fy_replica_table *table);
/* Gives memory back; all of it when `all', else what is worth it. */
void fy_undo_release(struct fy_undo *undo, bool all);

#endif
