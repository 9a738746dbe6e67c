/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs deferred calls together: for each slice of their common axis all of them
 * in order, so that what one leaves for the next stays where it is (on the
 * device, or in the CPU's cache). Shadows only; no lock of its own.
 */
#ifndef FERRY_PAGER_DEFERRED_RUN_H
#define FERRY_PAGER_DEFERRED_RUN_H

#include "pager/deferred/call.h"
#include "pager/execute/pool.h"

struct fy_defer_group {
    struct fy_deferred **calls; /* in order, of one length */
    unsigned ncalls;
    uint64_t stored; /* rows whose results are wanted in their shadows */
    uint64_t loaded; /* rows whose old content some call reads */
    struct fy_traffic traffic;
    unsigned nkernels, nfused; /* kernels for so many of the calls */
    double touched_bytes;      /* on the device, over all steps */
};

/* Slice length of the original's runs: prepare these two beforehand. */
enum {
    FY_DEFER_DIRECT = 16384
};

/* Bytes of these rows' elements, as far as they are operands of the call. */
uint64_t fy_defer_bytes(const struct fy_deferred *call, uint64_t rows);

/* Cannot fail. */
void fy_defer_run_direct(const struct fy_defer_group *group);

/*
 * Bytes in and out, before anything is run. `random': a random slice length,
 * and a random limit of calls for a kernel.
 * FY_ERR_NOFIT, FY_ERR_NOMEM; FY_ERR_BUSY as fy_fusion_new(); as fy_executor_run() else, which see: on an error
 * what was read is as it was.
 */
void fy_defer_predict(struct fy_defer_group *group);
int fy_defer_run_device(struct fy_defer_group *group,
                        const struct fy_lease *lease, bool random,
                        uint64_t seed) FY_MUST_CHECK;

#endif
