/* SPDX-License-Identifier: Apache-2.0 */
/* The work of each room of the engine around a fork of the program. */
#ifndef FERRY_PAGER_ENGINE_FORK_H
#define FERRY_PAGER_ENGINE_FORK_H

#include "pager/engine/state.h"

/* Makes the rows of fork.c run around every fork from now on. Call once.
 * FY_ERR_NOMEM. */
int fy_fork_start(struct fy_state *state) FY_MUST_CHECK;

#endif
