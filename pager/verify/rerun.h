/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ferry run --verify': a call that the device computed is computed by its
 * original as well, from the same inputs, and both results are compared within
 * the annotation's bound. The program gets the original's. Runs on threads of
 * the host program; touches no memory of it but the call's written operands,
 * and those only to put back what they held.
 */
#ifndef FERRY_PAGER_VERIFY_RERUN_H
#define FERRY_PAGER_VERIFY_RERUN_H

#include "pager/bind/bind.h"

struct fy_rerun; /* one call, from before it runs to the comparison */

/* Returns true if the n-th call (from 0) is one of those sampled; rate 0 to
 * 1. */
bool fy_rerun_is_due(double rate, uint64_t seed, uint64_t n);

/*
 * Returns new: keeps the contents of the operands that the call writes.
 * FY_ERR_UNSUPPORTED: none of its results is determined by its inputs alone
 * (eigenvectors); FY_ERR_NOMEM.
 */
int fy_rerun_new(const struct fy_bound *bound,
                 struct fy_rerun **out) FY_MUST_CHECK;
void fy_rerun_free(struct fy_rerun *rerun); /* NULL: fine */

/* The call, for as long as the rerun lives. */
const struct fy_bound *fy_rerun_bound(const struct fy_rerun *rerun);

/*
 * Keeps the results of the device, which has succeeded, and puts the old
 * contents back, for the original.
 */
void fy_rerun_take(struct fy_rerun *rerun, const union fy_raw *result);

/*
 * Puts the old contents of the operands back: the device has failed, and may
 * have overwritten operands that are declared out by mistake.
 */
void fy_rerun_put_back(const struct fy_rerun *rerun);

/*
 * The original has returned `result'. FY_REASON_VERIFIED; FY_REASON_DIFFERENT;
 * FY_REASON_UNVERIFIED: they differ, but inputs that differ by rounding move
 * the original's result without bounds, or by an amount that is not known.
 * Then `why' has a clause.
 */
enum fy_reason fy_rerun_compare(struct fy_rerun *rerun, void *original,
                                const union fy_raw *result, char *why,
                                size_t why_bytes);

#endif
