/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles remember the call that made them: a table from a handle's value to
 * its maker and the maker's cells.
 */
#ifndef FERRY_PAGER_HANDLES_H
#define FERRY_PAGER_HANDLES_H

#include "pager/bind.h"

/* Any thread. Without memory the handle is not remembered. */
void fy_handle_made(uint64_t handle, uint32_t maker, unsigned ncells,
                    const struct fy_value *cells);
void fy_handle_freed(uint64_t handle);

fy_handle_lookup fy_handle_find;

/* pthread_atfork(): the table is consistent in the child. */
void fy_handles_before_fork(void);
void fy_handles_after_fork(void);

#endif
