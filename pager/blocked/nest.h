/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Algorithms that are loop nests over blocks, in text (annotations/model/nest.h): steps
 * or traces of them. Private to pager/blocked.
 */
#ifndef FERRY_PAGER_BLOCKED_NEST_H
#define FERRY_PAGER_BLOCKED_NEST_H

#include "pager/blocked/algo.h"

/* Where a walk is: positions by variable, from the last block where `reversed'. */
struct fy_nest_place {
    uint32_t at[FY_NEST_VARIABLES];
    bool reversed;
};

/* Whether the call's own transposition is that matrix's. */
bool fy_nest_is_turnable(const struct fy_algo *algo, char matrix);
/* Makes the steps of loops; algo->row->shapes is of its matrices. */
int fy_nest_run(struct fy_algo *algo, const char *text) FY_MUST_CHECK;
/* One call. `first': its result has its value of before the call, which beta scales. */
int fy_nest_call(struct fy_algo *algo, const struct fy_nest_call *call,
                 const struct fy_nest_place *place, bool first) FY_MUST_CHECK;
/* All panels of loops without an inner variable. */
int fy_nest_panels(struct fy_algo *algo,
                   const struct fy_nest *nest) FY_MUST_CHECK;
/* The tile and the identity beside A of a declared algorithm. FY_ERR_UNSUPPORTED: there
 * is nothing to do. */
int fy_tiles_setup(struct fy_algo *algo) FY_MUST_CHECK;
extern const struct fy_algo_sizes fy_tiles_sizes; /* of algorithms with tiles */
/* Whether the call's `when' holds there. */
bool fy_nest_holds(const char *when, const uint32_t *at);

#endif
