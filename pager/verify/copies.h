/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of everything a call declares, each pointer's in a guarded block of
 * its own with the program's strides, and the call on them. Pointers that the
 * call must not follow lead to pages that fault. In forked children only.
 */
#ifndef FERRY_PAGER_VERIFY_COPIES_H
#define FERRY_PAGER_VERIFY_COPIES_H

#include "pager/verify/guard.h"
#include "pager/verify/invoke.h"
#include "pager/verify/trial.h"

struct fy_copies {
    struct fy_trial *trial;
    enum fy_poison poison;
    struct fy_guard guard[FY_MAX_OPERANDS]; /* by image */
    struct fy_guard opaque[FY_MAX_ARGS];    /* by argument */
    struct fy_invocation invocation;        /* the call on them */
};

/*
 * Returns new: inputs copied from image->before, everything else poisoned.
 * From here to fy_copies_free() a fault becomes a problem of the trial. On
 * errors the child ends anyway: nothing is undone.
 */
int fy_copies_new(struct fy_trial *trial, enum fy_guard_side side,
                  enum fy_poison poison, struct fy_copies **out) FY_MUST_CHECK;
/* The program's own bytes in place of an image's poison, where mapped. */
void fy_copies_fill_real(struct fy_copies *copies, unsigned image);
void fy_copies_free(struct fy_copies *copies);

/*
 * The call on the copies in chunks, in chunks.c: 0 is in as few as
 * possible, others are random. FY_ERR_UNSUPPORTED or FY_ERR_NOFIT when the
 * planner has no chunks for it, other codes when a step failed.
 */
int fy_chunks_run(struct fy_copies *copies, unsigned number,
                  bool faults_are_findings, uint32_t *out_steps,
                  union fy_raw *result) FY_MUST_CHECK;

#endif
