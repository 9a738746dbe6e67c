/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost model: seconds of the original against seconds on the device, from
 * rates that `ferry calibrate' measured or conservative defaults.
 */
#ifndef FERRY_PAGER_DECIDE_COST_H
#define FERRY_PAGER_DECIDE_COST_H

#include <stdio.h>

#include "pager/plan/plan.h"

struct fy_rates {
    double cpu_flops_f32, cpu_flops_f64; /* of the originals, per second */
    double cpu_bytes;                    /* streamed by the originals */
    double cpu_hash_bytes;               /* compared by residency */
    double device_flops_f32, device_flops_f64;
    double device_bytes;        /* the device's own memory */
    double in_bytes, out_bytes; /* the link, each way */
    double undo_bytes;   /* old content that is saved before it is lost */
    double open_seconds; /* until a card's first call can begin */
    double call_seconds, step_seconds;
    double overlap; /* 0: copies and compute share the machine; 1: apart */
};

/* Defaults for a device kind ("cuda" or "cuda:1" are one); unknown kinds get
 * the host's. */
void fy_rates_default(const char *device, struct fy_rates *out);

/*
 * Reads lines "key=value" ('#' begins a comment, unknown keys are skipped)
 * into *rates; other fields stay. Keys of the device itself begin with "cuda."
 * for that kind. FY_ERR_IO; FY_ERR_INVALID for a line that is neither.
 */
int fy_rates_read(const char *path, const char *device,
                  struct fy_rates *rates) FY_MUST_CHECK;
/* Writes the same form: everything for the host, only the device's own rates
 * for others, to follow it. FY_ERR_IO. */
int fy_rates_write(FILE *to, const char *device,
                   const struct fy_rates *rates) FY_MUST_CHECK;

/* Seconds of the original, on one machine alone. */
double fy_cost_original(const struct fy_rates *rates,
                        const struct fy_bound *bound);
/* Seconds of all kernels of the call on the device. */
double fy_cost_kernels(const struct fy_rates *rates,
                       const struct fy_bound *bound);
/*
 * Seconds of a plan with this traffic; `touched' and `end' as in struct fy_plan: as
 * much overlaps as the plan says, or everything if that is not known (0). Old content
 * is saved meanwhile.
 */
double fy_cost_device(const struct fy_rates *rates,
                      const struct fy_bound *bound,
                      const struct fy_traffic *traffic, double touched_bytes,
                      double end_bytes);

/*
 * Measures this machine: host copies, a device of that kind, and BLAS when a
 * library is installed. Takes about a second; for tools, never in a host
 * program. FY_ERR_NOENT: no such device; FY_ERR_DEVICE, FY_ERR_NOMEM.
 */
int fy_calibrate_measure(const char *device,
                         struct fy_rates *out) FY_MUST_CHECK;

struct fy_executor;
/*
 * Measures the rates of a device with functions of its own, in little more
 * than `seconds', into *rates; other fields stay. FY_ERR_DEVICE, FY_ERR_NOMEM.
 */
int fy_calibrate_card(struct fy_executor *executor, struct fy_device *device,
                      double seconds, struct fy_rates *rates) FY_MUST_CHECK;
/* Operations a second of a dgemm_ with integers of either width, in some
 * hundredths of a second; 0: there was no memory. */
double fy_calibrate_gemm(void *gemm);

#endif
