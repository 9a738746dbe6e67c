/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deferred calls: elementwise calls that return at once and are run together,
 * chunk by chunk, when something they wrote is touched (README.md).
 * Off unless asked for. The engine's threads and any of the program's.
 */
#ifndef FERRY_PAGER_DEFERRED_DEFER_H
#define FERRY_PAGER_DEFERRED_DEFER_H

#include "pager/decide/choice.h"
#include "pager/engine/engine.h"
#include "pager/plan/plan.h"

struct fy_defer_options {
    const struct fy_device_ops *ops;
    const struct fy_shim_services *services;
    struct fy_pool *pool;
    const struct fy_chooser *chooser;
    bool force; /* without the cost model, and small calls too */
    bool chunk_random;
    uint64_t chunk_seed;
};

/*
 * Once, before the first call. FY_ERR_UNSUPPORTED where it cannot be made safe:
 * then nothing is deferred.
 */
int fy_defer_start(const struct fy_defer_options *options) FY_MUST_CHECK;

/*
 * FY_REASON_NONE: the call has been deferred, or run; else nothing has happened
 * and it is to go the usual way, after fy_defer_settle().
 */
enum fy_reason fy_defer_call(const struct fy_intercepted *call,
                             const struct fy_bound *bound);

/* Whatever the call's operands have in common with deferred ones is at home. */
void fy_defer_settle(const struct fy_bound *bound);

/* engine/fork.c: everything is at home, and nothing deferred until after. */
void fy_defer_before_fork(void);
void fy_defer_after_fork(void); /* in the parent; children defer nothing */

/*
 * Both enclose another change that page faults and events do not report. The first
 * waits until all results are at home. Pairs may overlap, in any threads.
 */
void fy_defer_before_change(void);
void fy_defer_after_change(void);

#endif
