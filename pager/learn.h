/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What calls have really taken, on either side, over what the model expected: by
 * call site and size, by function and size, and by function. Nothing here trusts
 * one sample, and a choice is changed only for a clear gain. Any thread.
 */
#ifndef FERRY_PAGER_LEARN_H
#define FERRY_PAGER_LEARN_H

#include <stdbool.h>
#include <stdint.h>

enum fy_side {
    FY_SIDE_ORIGINAL,
    FY_SIDE_DEVICE,
    FY_SIDES
};

/* Whose calls are alike. */
struct fy_learn_key {
    uint64_t site;     /* the return address */
    uint32_t function; /* row of the variant */
    uint32_t size;     /* fy_learn_size() */
};

/* Operations by half powers of two, bytes by powers of two. */
uint32_t fy_learn_size(double operations, double bytes);

/* What to make of the model's numbers for one call. */
struct fy_advice {
    double factor[FY_SIDES]; /* to multiply its seconds with */
    /* The device is chosen when its seconds, corrected, times this are less
     * than the original's. */
    double bias;
};

/* Asked once for each call. */
void fy_learn_ask(const struct fy_learn_key *key, struct fy_advice *out);
/* What was chosen then. */
void fy_learn_chose(const struct fy_learn_key *key, enum fy_side side);
/* What it took: over the model's own, uncorrected seconds. */
void fy_learn_took(const struct fy_learn_key *key, enum fy_side side,
                   double ratio);

/* The model's seconds are others from now on. */
void fy_learn_forget(void);

/* pthread_atfork(): what was learnt is consistent in the child. */
void fy_learn_before_fork(void);
void fy_learn_after_fork(void);

#endif
