/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transforms larger than the device, and the twiddle factors of their four
 * steps. Private to the planner.
 */
#ifndef FERRY_PAGER_BLOCKED_FFT_H
#define FERRY_PAGER_BLOCKED_FFT_H

#include "pager/plan/build.h"

/*
 * w^(j k), w = exp(sign 2 pi i / (n1 n2)), 0 <= j < n2, 0 <= k < n1, as products
 * of two elements: base(j / rows, k) = w^((j - j % rows) k) and
 * table(j % rows, k) = w^((j % rows) k).
 */
struct fy_twiddles {
    int64_t n1, rows;
    char *bases, *table; /* rows of n1; held by the planner */
    char *spare;         /* as large as the table, for what is between */
    uint16_t factor_view[2], spare_view; /* of bases and table; of spare */
};

/* At most so many bytes of table. FY_ERR_NOFIT, FY_ERR_NOMEM. */
int fy_twiddles_new(struct fy_planner *planner, int64_t n1, int64_t n2,
                    int64_t sign, bool is_double, uint64_t table_bytes,
                    struct fy_twiddles *out) FY_MUST_CHECK;

/* exp(sign 2 pi i m / n), 0 <= m < n, as long double knows it. */
void fy_twiddle(int64_t m, int64_t n, int64_t sign, long double out[2]);

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
    int64_t multiple;
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
    uint64_t reserved_bytes; /* of the device, for what is there all the time */
    struct fy_twiddles twiddles;
};

/* The steps of a pass that is cut; `later': it is not the first. */
int fy_passes_steps(struct fy_passes *f, struct fy_pass *pass,
                    bool later) FY_MUST_CHECK;

/* FY_ERR_UNSUPPORTED, FY_ERR_NOFIT, FY_ERR_NOMEM, as fy_plan_blocked(). */
int fy_plan_fft(struct fy_planner *planner) FY_MUST_CHECK;

#endif
