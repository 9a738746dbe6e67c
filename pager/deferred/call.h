/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One deferred call: everything that its annotation made of it, kept until it
 * is run on shadows (pages.h) instead of the program's memory: slice by
 * slice, by the original itself or on a device. One thread at a time.
 */
#ifndef FERRY_PAGER_DEFERRED_CALL_H
#define FERRY_PAGER_DEFERRED_CALL_H

#include "pager/plan/build.h"

enum {
    FY_DEFER_LENGTHS = 8 /* of slices that one call is prepared for */
};

/* What runs slices of it: the original, or the device. */
struct fy_deferred_runner {
    struct fy_planner planner;
    unsigned nlengths;
    int64_t lengths[FY_DEFER_LENGTHS]; /* by variant */
};

struct fy_deferred {
    struct fy_bound bound;
    struct fy_target target;
    uint32_t symbol, function;    /* rows of the model, for the counters */
    int64_t first, count;         /* elements of its whole pages */
    uint8_t row[FY_MAX_OPERANDS]; /* of the range that each operand is */
    uint64_t reads, writes;       /* bit per row of a range */
    bool ran;                     /* kept to be run again, if ever */
    bool live;                    /* in the evaluation in progress */
    struct fy_step step;          /* handed to the planner's launch */
    struct fy_deferred_runner direct, device;
};

/*
 * Whether calls of this kind may be deferred: every operand is a vector along
 * the one axis, which may be cut anywhere, nothing is returned, and all that it
 * reads is numbers that are known now. FY_REASON_NONE, or UNSUPPORTED.
 */
enum fy_reason fy_deferrable(const struct fy_bound *bound);

/*
 * Elements of an operand that lie in whole pages: the same for all operands,
 * with some in front of them, where that can be (fy_pages_take() says why).
 * False when there are too few, or they differ.
 */
bool fy_deferred_inner(const struct fy_bound *bound, int64_t least_pages,
                       int64_t *first, int64_t *count);

/* Returns new; row, reads and writes are the caller's to fill. */
int fy_deferred_new(const struct fy_bound *bound,
                    const struct fy_target *target,
                    const struct fy_plan_options *options,
                    struct fy_deferred **out) FY_MUST_CHECK;
void fy_deferred_free(struct fy_deferred *call);

/* Prepares slices of that length; needs no memory when it was done before. */
int fy_deferred_length(struct fy_deferred *call,
                       struct fy_deferred_runner *runner, int64_t length,
                       uint32_t *variant) FY_MUST_CHECK;

/*
 * Runs elements [0, length) of slices at these addresses (by operand) by the
 * original, here and now. The length was prepared for `direct'.
 */
void fy_deferred_direct(struct fy_deferred *call, int64_t length,
                        char *const address[FY_MAX_OPERANDS]);

/* Launches a prepared variant of `device'; address by operand. */
int fy_deferred_launch(struct fy_deferred *call, uint32_t variant,
                       const uint64_t address[FY_MAX_OPERANDS],
                       struct fy_stream *stream) FY_MUST_CHECK;

#endif
