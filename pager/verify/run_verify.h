/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine's part of `ferry run --verify': which calls are sampled, the one of
 * this thread whose original runs now, and the functions that are switched off
 * because their results differed. Any thread; a call stays on its own.
 */
#ifndef FERRY_PAGER_VERIFY_RUN_VERIFY_H
#define FERRY_PAGER_VERIFY_RUN_VERIFY_H

#include "common/settings.h"
#include "pager/decide/decision.h"
#include "pager/engine/engine.h"
#include "pager/verify/rerun.h"

/* Zeros: no call is sampled. */
struct fy_checks {
    double rate;
    uint64_t seed;
    const char *path; /* file for lines about differences; of the settings */
    uint64_t calls;   /* offloaded so far */
    uint8_t *off;     /* by row of a function; NULL: not asked for */
};

/* Starts the checks; call once, before all others; without it no call is
 * sampled. */
void fy_run_verify_start(struct fy_checks *checks,
                         const struct fy_settings *settings,
                         const struct fy_model *model);

/* Returns true if calls of this function have differed. */
bool fy_run_verify_is_off(const struct fy_checks *checks, uint32_t function);

/* Before a call runs on the device. Returns new when it is sampled and can be
 * compared, else NULL; decision->note says why it cannot. */
struct fy_rerun *fy_run_verify_begin(struct fy_checks *checks,
                                     const struct fy_bound *bound,
                                     struct fy_decision *decision);
/*
 * The device has computed it: takes `rerun'. FY_REASON_VERIFIED: the original
 * has to run, then fy_run_verify_compare(); else it has to run all the same.
 */
enum fy_reason fy_run_verify_take(struct fy_rerun *rerun,
                                  const union fy_raw *value);
/* Receives the decision of a call, once compared. */
void fy_run_verify_decision(const struct fy_decision *decision);
/* The original of this thread's call has returned; the reason to count. */
enum fy_reason fy_run_verify_compare(struct fy_checks *checks,
                                     const struct fy_intercepted *call);
/* Forgets this thread's call: an exception or longjmp() has left it. */
void fy_run_verify_drop(void);

#endif
