/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A few threads for what may wait for a file system, so that the session's loop
 * never does. A job that never comes back (a mount that hangs) holds a thread,
 * and nothing else: the pool is left behind then.
 */
#ifndef FERRY_PROXY_STORAGE_WORK_H
#define FERRY_PROXY_STORAGE_WORK_H

#include "common/status.h"

struct fy_work {
    void (*run)(struct fy_work *work);  /* in a thread of the pool */
    void (*done)(struct fy_work *work); /* in fy_work_collect(); owns it */
    /* Instead of done(), where no fy_work_collect() follows: frees the work, no more.
     * Any thread. NULL: the owner frees it. */
    void (*drop)(struct fy_work *work);
    struct fy_work *next;
};

struct fy_pool;

/* `bell_fd': an eventfd (borrowed until fy_pool_free) that is rung after each
 * job. */
int fy_pool_new(int bell_fd, struct fy_pool **out) FY_MUST_CHECK;
/* FY_ERR_NOMEM: no thread can be had; `work' is untouched. */
int fy_pool_submit(struct fy_pool *pool, struct fy_work *work) FY_MUST_CHECK;
/* Calls done() of all that are ready. */
void fy_work_collect(struct fy_pool *pool);
/* done() is not called any more. Does not wait. */
void fy_pool_free(struct fy_pool *pool);

#endif
