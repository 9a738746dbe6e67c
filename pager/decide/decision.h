/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decision log: one line in a file per (function, reason, call site, shape
 * bucket), at its first occurrence in this process.
 */
#ifndef FERRY_PAGER_DECIDE_DECISION_H
#define FERRY_PAGER_DECIDE_DECISION_H

#include "pager/bind/bind.h"

struct fy_decision {
    const struct fy_model *model;
    uint32_t symbol;    /* row of model->symbols */
    uint32_t function;  /* row of the first variant */
    const void *caller; /* return address */
    enum fy_reason reason;
    const struct fy_bound *bound;            /* NULL: binding failed */
    const char *method;                      /* of the plan, or NULL */
    double original_seconds, device_seconds; /* predicted; 0: not asked */
    double actual_seconds;                   /* 0: did not run */
    struct fy_traffic traffic;
    char note[256]; /* the device's words on its trouble, or "" */
};

/* Any thread. Loses lines rather than failing; keeps errno. */
void fy_explain(const struct fy_decision *decision);
/* Appends the line of a call whose result differs to the file of that name. */
void fy_explain_difference(const char *path,
                           const struct fy_decision *decision);

#endif
