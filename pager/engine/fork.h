/* SPDX-License-Identifier: Apache-2.0 */
/* What a fork of the program means to each room of the engine. */
#ifndef FERRY_PAGER_ENGINE_FORK_H
#define FERRY_PAGER_ENGINE_FORK_H

#include "pager/engine/state.h"

/* Once: from here on the rows of fork.c run around every fork. FY_ERR_NOMEM. */
int fy_fork_start(struct fy_state *state) FY_MUST_CHECK;

#endif
