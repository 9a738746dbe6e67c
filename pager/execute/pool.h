/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device of this process and its executors: one for each thread that has a
 * call on its way, up to a bound, all on one device. Each call is given a part
 * of the device's memory to plan with, so that the tiles of several calls fit
 * beside one another. Nobody waits here longer than his call is worth.
 */
#ifndef FERRY_PAGER_EXECUTE_POOL_H
#define FERRY_PAGER_EXECUTE_POOL_H

#include "pager/execute/executor.h"

enum {
    FY_POOL_EXECUTORS = 8, /* threads with calls on the device at a time */
    FY_POOL_NOTE_BYTES = 256,
};

/* What one call has until it gives it back. */
struct fy_lease {
    struct fy_device *device;
    struct fy_executor *executor;
    uint64_t budget_bytes; /* of device memory */
    unsigned member;
};

/* Once, before all else. FY_ERR_NOMEM. NULL: there is no device. */
int fy_pool_start(const struct fy_device_ops *ops,
                  uint64_t memory_bytes) FY_MUST_CHECK;

/*
 * No device will be had any more: opening it has failed, or fy_pool_close()
 * said so. Any thread.
 */
bool fy_pool_is_closed(void);
/* Why, for the calls that come after; "" where there never was one. */
void fy_pool_why(char note[FY_POOL_NOTE_BYTES]);
/* Has no call start on the device again; the first reason stays. */
void fy_pool_close(const char *why);

/*
 * Opens the device at the first call. `useful_bytes': more memory would not
 * help the call; it may get less, but not less than what is worth running with.
 * FY_REASON_NONE with *out; else DEVICE_BUSY, NO_DEVICE or FORKED, and the
 * device's words in `note' where it said something.
 */
enum fy_reason fy_pool_take(uint64_t useful_bytes, double wait_seconds,
                            char note[FY_POOL_NOTE_BYTES],
                            struct fy_lease *out);
void fy_pool_release(const struct fy_lease *lease);

/*
 * Device memory has run out under a call, which has been undone: halves its
 * budget, and has the device give back what nobody uses. False when less is
 * not worth planning with.
 */
bool fy_pool_shrink(struct fy_lease *lease);

/*
 * An exception leaves the call that this thread has the device for, in the
 * middle of a step. False: it has none.
 */
bool fy_pool_abandon(void);

/* In a forked child. */
void fy_pool_after_fork_child(void);

#endif
