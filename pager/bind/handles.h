/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles remember the call that made them: a table from a handle's value to
 * its maker and the maker's cells.
 */
#ifndef FERRY_PAGER_BIND_HANDLES_H
#define FERRY_PAGER_BIND_HANDLES_H

#include "pager/bind/bind.h"

/*
 * Any thread, with the program's signals blocked: takes a lock. Without memory the
 * handle is not remembered. At most FY_MAX_CELLS cells.
 */
void fy_handle_made(uint64_t handle, uint32_t maker, unsigned ncells,
                    const struct fy_value *cells);
/* Forgets the handle if it is known. Threads and lock as fy_handle_made(). */
void fy_handle_freed(uint64_t handle);

/*
 * Any thread, also where a handler of the program may interrupt it. While writers
 * leave no gap, a handle counts as unknown. What is in `cells' means nothing then.
 */
fy_handle_lookup fy_handle_find;

/*
 * In a forked child, which knows no handle of its parent: a thread of the parent
 * may have been changing the table.
 */
void fy_handles_after_fork(void);

#endif
