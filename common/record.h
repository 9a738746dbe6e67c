/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters of one run, in a file that `ferry run' makes and every process of
 * the run maps MAP_SHARED. Only relaxed atomic adds: safe from any thread, in
 * signal handlers and after fork, and complete however a process dies.
 */
#ifndef FERRY_COMMON_RECORD_H
#define FERRY_COMMON_RECORD_H

#include <stdint.h>

#include "common/status.h"

#define FY_RECORD_MAGIC   "ferryREC"
#define FY_RECORD_VERSION 4

struct fy_record_row { /* one per row of model->functions */
    uint64_t calls, offloaded;
    uint64_t declined[32]; /* by enum fy_reason */
    uint64_t bytes_in, bytes_out, kept_bytes, chunks, lower_bound_bytes;
    uint64_t absent[16]; /* operands that did not stay, by enum fy_absence */
    uint64_t original_ns, device_ns;
    uint64_t trials, trial_ns; /* calls on the side that seemed slower, made
                                * to learn its time; their cost in ns */
};

struct fy_record {
    char magic[8];
    uint32_t version;
    uint32_t nrows;
    struct fy_record_row rows[];
};

#define FY_RECORD_ADD(field, n) \
    ((void)__atomic_fetch_add(&(field), (uint64_t)(n), __ATOMIC_RELAXED))

_Static_assert(FY_REASON_COUNT <= 32, "a record row has room for 32 reasons");
_Static_assert(FY_ABSENCE_COUNT <= 16, "a record row has room for 16 absences");

#endif
