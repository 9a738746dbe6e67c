/* SPDX-License-Identifier: Apache-2.0 */
/* See run_verify.h. */
#include "config.h"

#include "pager/verify/run_verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pager/device/own_thread.h"

struct checked {
    struct fy_rerun *rerun;
    struct fy_decision decision;
};

void
fy_run_verify_start(struct fy_checks *checks,
                    const struct fy_settings *settings,
                    const struct fy_model *model)
{
    if (settings->check_rate > 0) {
        checks->rate = settings->check_rate;
        checks->seed = settings->check_seed;
        checks->path = settings->checked;
        checks->off = calloc(model->functions.count, 1);
    }
}

bool
fy_run_verify_is_off(const struct fy_checks *checks, uint32_t function)
{
    return checks->off &&
           __atomic_load_n(&checks->off[function], __ATOMIC_RELAXED);
}

struct fy_rerun *
fy_run_verify_begin(struct fy_checks *checks, const struct fy_bound *bound,
                    struct fy_decision *decision)
{
    struct fy_rerun *rerun;

    if (!checks->off ||
        !fy_rerun_is_due(
            checks->rate, checks->seed,
            __atomic_fetch_add(&checks->calls, 1, __ATOMIC_RELAXED))) {
        return NULL;
    }
    int status = fy_rerun_new(bound, &rerun);
    if (status == FY_OK) {
        return rerun;
    }
    (void)snprintf(decision->note, sizeof(decision->note), "%s",
                   status == FY_ERR_UNSUPPORTED
                       ? "not verified, its results are ambiguous"
                       : "not verified, too little memory");
    return NULL;
}

enum fy_reason
fy_run_verify_take(struct fy_rerun *rerun, const union fy_raw *value)
{
    struct checked *checked = calloc(1, sizeof(*checked));

    fy_run_verify_drop();
    fy_rerun_take(rerun, value);
    if (!checked) {
        fy_rerun_free(rerun);
        return FY_REASON_HOST_MEMORY;
    }
    checked->rerun = rerun;
    fy_own_block()->checked = checked;
    return FY_REASON_VERIFIED;
}

void
fy_run_verify_decision(const struct fy_decision *decision)
{
    struct checked *checked = fy_own_block()->checked;

    checked->decision = *decision;
    checked->decision.bound = fy_rerun_bound(checked->rerun);
}

/* What the original has returned, of the function's type. */
static void
take_value(const struct fy_bound *bound, const struct fy_registers *registers,
           union fy_raw *out)
{
    switch (fy_type_resolve((enum fy_type)bound->function->return_type,
                            bound->integer_bits)) {
    case FY_T_F32:
    case FY_T_F64:
    case FY_T_C32:
        memcpy(&out->u[0], &registers->vector_result[0][0], 8);
        break;
    case FY_T_C64:
        memcpy(&out->u[0], &registers->vector_result[0][0], 8);
        memcpy(&out->u[1], &registers->vector_result[1][0], 8);
        break;
    default:
        out->u[0] = registers->result[0];
        break;
    }
}

enum fy_reason
fy_run_verify_compare(struct fy_checks *checks,
                      const struct fy_intercepted *call)
{
    struct checked *checked = fy_own_block()->checked;
    union fy_raw value = {.u = {0, 0}};

    if (!checked) {
        return FY_REASON_UNVERIFIED;
    }
    struct fy_decision *decision = &checked->decision;
    take_value(decision->bound, call->registers, &value);
    enum fy_reason reason =
        fy_rerun_compare(checked->rerun, call->original, &value, decision->note,
                         sizeof(decision->note));
    decision->reason = reason;
    if (reason == FY_REASON_DIFFERENT) {
        __atomic_store_n(&checks->off[call->function], 1, __ATOMIC_RELAXED);
        fy_explain_difference(checks->path, decision);
    }
    fy_explain(decision);
    fy_run_verify_drop();
    return reason;
}

void
fy_run_verify_drop(void)
{
    struct checked *checked = fy_own_block()->checked;

    if (checked) {
        fy_rerun_free(checked->rerun);
        free(checked);
        fy_own_block()->checked = NULL;
    }
}
