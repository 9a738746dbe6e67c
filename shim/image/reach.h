/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds which of a program's own calls ferry can reach, without running it:
 * for `ferry doctor -- PROGRAM'. Tool side: allocates.
 */
#ifndef FERRY_SHIM_IMAGE_REACH_H
#define FERRY_SHIM_IMAGE_REACH_H

#include "annotations/model/model.h"
#include "common/buffer.h"
#include "common/status.h"

enum fy_reach_kind {
    FY_REACH_SCRIPT,  /* object is a script; text: its interpreter, which is
                         looked at instead */
    FY_REACH_IMPORTS, /* it calls count annotated names; text: one of them */
    FY_REACH_STATIC,  /* it has no dynamic linker: nothing is seen */
    FY_REACH_FOREIGN, /* another CPU, word size or C library than ours */
    FY_REACH_SETUID,  /* the dynamic linker ignores LD_PRELOAD */
};

struct fy_reach_finding {
    enum fy_reach_kind kind;
    const char *object; /* path */
    const char *text;   /* see the kinds; "" otherwise */
    unsigned count;     /* of names, where the kind counts them */
};

typedef void fy_reach_report(void *closure,
                             const struct fy_reach_finding *finding);

/* One English sentence about a finding, without a full stop, into `to'. */
void fy_reach_describe(const struct fy_reach_finding *finding,
                       struct fy_buffer *to);

/*
 * Looks at `program' (searched in PATH if it has no slash), or for a script at
 * its interpreter; `report' gets each finding, strings borrowed for the call.
 * FY_ERR_NOENT or FY_ERR_IO (errno says why) if it cannot be read,
 * FY_ERR_INVALID if it is neither a program nor a script, FY_ERR_NOMEM; then
 * `why' (may be NULL) has a clause for a message.
 */
int fy_reach_scan(const char *program, const struct fy_model *model,
                  fy_reach_report *report, void *closure,
                  struct fy_buffer *why) FY_MUST_CHECK;

/* Returns true if the program, looked for in PATH as execvp(3) does, is one
 * into which no dynamic linker could load ferry (shim/image/head.h). */
bool fy_reach_is_foreign(const char *program);

#endif
