/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transforms of several axes that are larger than the device. Private to the
 * planner.
 */
#ifndef FERRY_PAGER_BLOCKED_FFT_H
#define FERRY_PAGER_BLOCKED_FFT_H

#include "pager/plan/build.h"

enum {
    FY_MAX_PASSES = 4,
    FY_MAX_PASS_VIEWS = 16,
    FY_NOT_EACH = 255,
};

/* One side of a pass: a view, which axis of it is cut. */
struct fy_pass_side {
    uint16_t view;
    uint8_t cut;
    bool columns; /* transforms lie next to one another, not one by one */
};

struct fy_pass {
    struct fy_transform transform; /* kind, rank, n */
    struct fy_pass_side from, to;  /* the same view: in place */
    uint8_t each;   /* axis 0 is walked one by one, or FY_NOT_EACH */
    int64_t extent; /* of the axis that is cut */
    struct fy_cuts cuts;
    struct {
        int64_t length;
        uint32_t variant;
    } known[8];
    unsigned nknown;
};

struct fy_passes {
    struct fy_planner *planner;
    struct fy_transform t; /* of the call */
    int64_t sign;
    uint32_t bytes; /* of a complex element */
    char *x, *y;
    bool in_place;
    struct fy_view views[FY_MAX_PASS_VIEWS];
    unsigned nviews;
    struct fy_pass passes[FY_MAX_PASSES];
    unsigned npasses;
    uint64_t random;
};

/* The steps of a pass that is cut; `later': it is not the first. */
int fy_passes_steps(struct fy_passes *f, struct fy_pass *pass,
                    bool later) FY_MUST_CHECK;

/* FY_ERR_UNSUPPORTED, FY_ERR_NOFIT, FY_ERR_NOMEM, as fy_plan_blocked(). */
int fy_plan_fft(struct fy_planner *planner) FY_MUST_CHECK;

#endif
