/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls the original of a bound call with other pointers in place of the
 * program's: the whole call, on copies. One thread at a time.
 */
#ifndef FERRY_PAGER_VERIFY_INVOKE_H
#define FERRY_PAGER_VERIFY_INVOKE_H

#include "pager/bind/bind.h"

struct fy_invocation {
    const struct fy_bound *call;
    void *original;
    /* By relative cell: whether it is replaced, and by what pointer. */
    bool replaced[FY_MAX_CELLS];
    char *pointer[FY_MAX_CELLS];
    char *opaque[FY_MAX_ARGS]; /* replaces an argument, when not NULL */
    /* Afterwards. */
    union fy_raw result;
    /* An argument whose scalar changed, or a field of whose struct that no
     * operand declares, at byte field_at; FY_NIL: none, no field. */
    uint32_t scalar_written, field_at;
    int error; /* errno after it, which was 0 before */
};

/*
 * FY_ERR_UNSUPPORTED when the call cannot be made this way (pointers behind
 * handles, complex results), FY_ERR_NOMEM.
 */
int fy_invoke(struct fy_invocation *invocation) FY_MUST_CHECK;

#endif
