/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device of this process and its executors: one for each thread that has a
 * call on its way, up to a bound, all on one device. Each call is given a part
 * of the device's memory to plan with, so that the tiles of several calls fit
 * beside one another. A thread waits here no longer than its call is worth.
 */
#ifndef FERRY_PAGER_EXECUTE_POOL_H
#define FERRY_PAGER_EXECUTE_POOL_H

#include <pthread.h>

#include "pager/execute/executor.h"

enum {
    FY_POOL_EXECUTORS = 8, /* threads with calls on the device at a time */
    FY_POOL_NOTE_BYTES = 256,
};

/* All that one call has until it gives it back. */
struct fy_lease {
    struct fy_device *device;
    struct fy_executor *executor;
    uint64_t budget_bytes; /* of device memory */
    unsigned member;
};

struct fy_pool_member {
    struct fy_executor *executor; /* NULL: to be made */
    bool taken;
    pthread_t holder; /* while taken */
    uint64_t granted_bytes;
    bool claimed; /* from other processes */
};

struct fy_pool {
    struct fy_memory *memory; /* mirrors, which take from the same; or NULL */
    const struct fy_device_ops *ops;
    uint64_t limit_bytes; /* 0: the device's default */
    pthread_mutex_t lock;
    pthread_cond_t released; /* by CLOCK_MONOTONIC */
    struct fy_device *device;
    struct fy_device *inherited; /* the parent process's, to be closed */
    bool forked; /* of a process that used a device that cannot follow */
    bool closed; /* no call may have it */
    char closed_why[FY_POOL_NOTE_BYTES];
    unsigned busy_opens; /* inside of constructors */
    struct fy_pool_member members[FY_POOL_EXECUTORS];
    bool making;  /* the device or an executor */
    bool spoiled; /* by an exception: left when no call uses it */
    uint64_t granted_bytes;
    uint64_t releases;
    /* time at which a call gave up waiting for this executor, whose holder
     * may never come back */
    uint64_t given_up_at;
};

/* Starts a zeroed pool; call once, before all else. FY_ERR_NOMEM. NULL:
 * there is no device. */
int fy_pool_start(struct fy_pool *pool, const struct fy_device_ops *ops,
                  uint64_t memory_bytes) FY_MUST_CHECK;

/*
 * No device will be had any more: opening it has failed, or fy_pool_close()
 * said so. Any thread.
 */
bool fy_pool_is_closed(const struct fy_pool *pool);
/* Why, for the calls that come after; "" where there never was one. */
void fy_pool_why(const struct fy_pool *pool, char note[FY_POOL_NOTE_BYTES]);
/* Has no call start on the device again; the first reason stays. */
void fy_pool_close(struct fy_pool *pool, const char *why);

/*
 * Opens the device at the first call. `useful_bytes': more memory would not
 * help the call; it may get less, but not less than what is worth running with.
 * Mirrors are evicted until there are `needed_bytes'.
 * FY_REASON_NONE with *out; else DEVICE_BUSY, NO_DEVICE or FORKED, and the
 * device's words in `note' where it said something.
 */
enum fy_reason fy_pool_take(struct fy_pool *pool, uint64_t useful_bytes,
                            uint64_t needed_bytes, double wait_seconds,
                            char note[FY_POOL_NOTE_BYTES],
                            struct fy_lease *out);
/*
 * Gives the lease back, once, and wakes waiting threads. Does nothing for a call that
 * was given up and whose executor the pool has replaced.
 */
void fy_pool_release(struct fy_pool *pool, const struct fy_lease *lease);

/* Has mirrors take a part of the lease's budget, or leave it theirs: it is `left' now. */
void fy_pool_part(struct fy_pool *pool, struct fy_lease *lease, uint64_t left);

/*
 * Device memory has run out under a call, which has been undone: halves its
 * budget, and has the device give back what no call uses. False when less is
 * not worth planning with.
 */
bool fy_pool_shrink(struct fy_pool *pool, struct fy_lease *lease);

/*
 * An exception leaves the call that this thread has the device for, in the
 * middle of a step. False: it has none.
 */
bool fy_pool_abandon(struct fy_pool *pool);

/* Ends the device's threads that wait for work. */
void fy_pool_end_threads(struct fy_pool *pool);

/* In a forked child. */
void fy_pool_after_fork_child(struct fy_pool *pool);

#endif
