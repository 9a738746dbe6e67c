/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ferry verify' inside the program: every intercepted call is tried in forked
 * children, on guarded copies and in chunks, before the original runs as if
 * nothing had been. Findings go to a file; see tally.h for their form.
 *
 * What is tried, and what each experiment can see, is described in trial.h.
 */
#ifndef FERRY_PAGER_VERIFY_VERIFY_H
#define FERRY_PAGER_VERIFY_VERIFY_H

#include "pager/bind/bind.h"
#include "pager/plan/plan.h"

struct fy_verifier; /* one per process */

/*
 * Returns new; borrows model and path. `sibling' as in struct fy_target.
 * FY_ERR_IO when the counters beside `path' cannot be made, FY_ERR_NOMEM.
 */
int fy_verifier_new(const struct fy_model *model, const char *path,
                    void *(*sibling)(void *original, const char *name),
                    struct fy_verifier **out) FY_MUST_CHECK;
void fy_verifier_free(struct fy_verifier *verifier);

/*
 * Verifies one call (or leaves it out, counted). Afterwards the caller must run
 * the original with the untouched registers. `handles' may be NULL. Any
 * thread; one at a time is verified, calls of others meanwhile are left out.
 * Leaves errno alone; the program's memory is not written.
 */
void fy_verify_intercepted(struct fy_verifier *verifier,
                           const struct fy_intercepted *call,
                           unsigned integer_bits, fy_handle_lookup *handles);

#endif
