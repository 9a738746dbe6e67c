/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls by prototype through libffi: prepared with their own copy of the
 * arguments on one thread, run later on another. Every device that launches
 * functions uses it.
 */
#ifndef FERRY_PAGER_DEVICE_CALL_H
#define FERRY_PAGER_DEVICE_CALL_H

#include "pager/device/device.h"

struct fy_cif; /* a prepared call interface */

/* A launch with its own copy of the values. */
struct fy_call {
    const struct fy_cif *cif;
    void (*function)(void);
    void *result;
    uint8_t return_type;
    uint64_t values[][2];
};

/*
 * Returns new: the call of `launch' with copied values; freed with free().
 * Keeps prepared interfaces in *cifs, which outlive the call. Reads nothing of
 * the launch but the prototype, values and result. FY_ERR_UNSUPPORTED for
 * types that cannot be passed.
 */
int fy_call_new(struct fy_cif **cifs, const struct fy_launch *launch,
                struct fy_call **out) FY_MUST_CHECK;
/*
 * Calls the function and stores its result. Blocks as long as the function does; any
 * thread. Floating-point exceptions that it raises are noted for the program.
 */
void fy_call_run(const struct fy_call *call);
/* Frees the interfaces; calls that use them are run no more. NULL: fine. */
void fy_cifs_free(struct fy_cif *cifs);

#endif
