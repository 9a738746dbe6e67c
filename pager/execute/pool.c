/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executors are made when threads collide, never before; the lock is held for
 * bookkeeping only. Whoever leaves a call by longjmp keeps what he had: that
 * executor and its memory are lost, the others go on, and nobody waits twice
 * for what does not come back.
 */
#include "config.h"

#include "pager/execute/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/debug.h"

enum {
    MAX_BUSY_OPENS = 3,
    MAX_WAIT_NS = 2000000000, /* before the original runs */
    LEAST_BUDGET_BYTES = 64 << 10,
    ABANDON_TRIES = 1000,
};

static int
init_released(struct fy_pool *pool)
{
    pthread_condattr_t attributes;
    int error = pthread_condattr_init(&attributes);

    if (error) {
        return error;
    }
    error = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    if (!error) {
        error = pthread_cond_init(&pool->released, &attributes);
    }
    pthread_condattr_destroy(&attributes);
    return error;
}

int
fy_pool_start(struct fy_pool *pool, const struct fy_device_ops *of,
              uint64_t memory_bytes)
{
    pool->ops = of;
    pool->given_up_at = UINT64_MAX;
    pool->limit_bytes = memory_bytes;
    pool->closed = !of;
    return pthread_mutex_init(&pool->lock, NULL) || init_released(pool)
               ? FY_ERR_NOMEM
               : FY_OK;
}

bool
fy_pool_is_closed(const struct fy_pool *pool)
{
    return __atomic_load_n(&pool->closed, __ATOMIC_RELAXED);
}

void
fy_pool_why(const struct fy_pool *pool, char note[FY_POOL_NOTE_BYTES])
{
    /* Written once, before `closed'. */
    if (__atomic_load_n(&pool->closed, __ATOMIC_ACQUIRE)) {
        memcpy(note, pool->closed_why, sizeof(pool->closed_why));
    }
}

void
fy_pool_close(struct fy_pool *pool, const char *why)
{
    pthread_mutex_lock(&pool->lock);
    if (!pool->closed) {
        (void)snprintf(pool->closed_why, sizeof(pool->closed_why), "%s", why);
        __atomic_store_n(&pool->closed, true, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&pool->lock);
}

/* The device's words on its last trouble; of NULL: on opening one. */
static void
take_note(const struct fy_pool *pool, char note[FY_POOL_NOTE_BYTES],
          struct fy_device *of)
{
    const char *text = pool->ops->error_text(of);

    (void)snprintf(note, FY_POOL_NOTE_BYTES, "%s", text ? text : "");
}

static void
deadline(double wait_seconds, struct timespec *until)
{
    uint64_t wait = MAX_WAIT_NS;

    if (wait_seconds * 1e9 < (double)wait) {
        wait = wait_seconds > 0 ? (uint64_t)(wait_seconds * 1e9) : 0;
    }
    *until = fy_clock_timespec(fy_clock_ns() + wait);
}

/* Whether something was released before `until'. Lock held. */
static bool
wait_for_release(struct fy_pool *pool, const struct timespec *until)
{
    if (pool->given_up_at == pool->releases) {
        return false;
    }
    if (pthread_cond_timedwait(&pool->released, &pool->lock, until) != 0) {
        pool->given_up_at = pool->releases;
        return false;
    }
    return true;
}

/* Lock held. */
static void
tell_all(struct fy_pool *pool)
{
    pool->releases++;
    pthread_cond_broadcast(&pool->released);
}

/* One with an executor, else one for which it can be made. Lock held. */
static struct fy_pool_member *
find_free(struct fy_pool *pool)
{
    struct fy_pool_member *empty = NULL;

    for (unsigned i = 0; i < FY_POOL_EXECUTORS; i++) {
        if (pool->members[i].taken) {
            continue;
        }
        if (pool->members[i].executor) {
            return &pool->members[i];
        }
        if (!empty) {
            empty = &pool->members[i];
        }
    }
    return pool->making ? NULL : empty;
}

static struct fy_pool_member *
take_member(struct fy_pool *pool, const struct timespec *until)
{
    struct fy_pool_member *m;

    pthread_mutex_lock(&pool->lock);
    while (!(m = find_free(pool)) && wait_for_release(pool, until)) {
    }
    if (m) {
        m->taken = true;
        m->holder = pthread_self();
        m->granted_bytes = 0;
        pool->making = pool->making || !m->executor;
    }
    pthread_mutex_unlock(&pool->lock);
    return m;
}

/* The device as an exception has left it is of no more use. Lock held. */
static void
leave_spoiled(struct fy_pool *pool)
{
    for (unsigned i = 0; i < FY_POOL_EXECUTORS; i++) {
        if (pool->members[i].taken) {
            return;
        }
    }
    memset(pool->members, 0, sizeof(pool->members));
    pool->granted_bytes = 0;
    pool->device = NULL;
    pool->spoiled = false;
}

static void
give_member(struct fy_pool *pool, struct fy_pool_member *m)
{
    if (m->claimed) {
        pool->ops->claim(pool->device, 0, NULL);
        m->claimed = false;
    }
    pthread_mutex_lock(&pool->lock);
    pool->granted_bytes -= m->granted_bytes;
    m->granted_bytes = 0;
    m->taken = false;
    if (pool->spoiled) {
        leave_spoiled(pool);
    }
    tell_all(pool);
    pthread_mutex_unlock(&pool->lock);
}

/* No other thread does it meanwhile. */
static enum fy_reason
open_device(struct fy_pool *pool, char note[FY_POOL_NOTE_BYTES])
{
    struct fy_device *opened;

    if (pool->inherited) {
        pool->ops->close(pool->inherited);
        pool->inherited = NULL;
    }
    int status = pool->ops->open(pool->limit_bytes, &opened);
    if (status) {
        take_note(pool, note, NULL);
        /* BUSY: not from inside a library's constructor; later it may. */
        if (status != FY_ERR_LATER &&
            (status != FY_ERR_BUSY || ++pool->busy_opens == MAX_BUSY_OPENS)) {
            fy_pool_close(pool, note);
        }
        return FY_REASON_NO_DEVICE;
    }
    pool->device = opened;
    return FY_REASON_NONE;
}

/* Sees to a device, and to an executor for the member. */
static enum fy_reason
prepare(struct fy_pool *pool, struct fy_pool_member *m,
        char note[FY_POOL_NOTE_BYTES])
{
    enum fy_reason reason = FY_REASON_NONE;
    struct fy_executor *made = NULL;

    if (m->executor) {
        return FY_REASON_NONE;
    }
    if (!pool->device) {
        reason = fy_pool_is_closed(pool) ? FY_REASON_NO_DEVICE
                                         : open_device(pool, note);
    }
    if (reason == FY_REASON_NONE && fy_executor_new(pool->device, &made)) {
        take_note(pool, note, pool->device);
        reason = FY_REASON_NO_DEVICE;
        made = NULL;
    }
    unsigned others = 0;
    pthread_mutex_lock(&pool->lock);
    m->executor = made;
    pool->making = false;
    for (unsigned i = 0; i < FY_POOL_EXECUTORS; i++) {
        others += pool->members[i].executor != NULL;
    }
    tell_all(pool);
    pthread_mutex_unlock(&pool->lock);
    if (pool->device && others == 0) {
        fy_pool_close(pool, note);
    } else if (pool->device && !made) {
        reason = FY_REASON_DEVICE_BUSY;
    }
    return reason;
}

/* Returns the part of `total' that mirrors leave, after evicting those in the way. */
static uint64_t
without_mirrors(struct fy_pool *pool, uint64_t total, uint64_t needed_bytes)
{
    uint64_t mirrors = pool->memory ? fy_memory_bytes(pool->memory) : 0;
    uint64_t taken =
        mirrors + __atomic_load_n(&pool->granted_bytes, __ATOMIC_RELAXED);

    if (mirrors > 0 && (taken > total || total - taken < needed_bytes)) {
        fy_memory_evict(pool->memory, taken + needed_bytes - total);
        mirrors = fy_memory_bytes(pool->memory);
    }
    return total > mirrors ? total - mirrors : 0;
}

/*
 * A part of the memory: as much as is of use, or what is free when that is at
 * least half of all (two large calls are faster one after the other).
 */
static bool
grant(struct fy_pool *pool, struct fy_pool_member *m, uint64_t useful_bytes,
      uint64_t needed_bytes, const struct timespec *until)
{
    bool found = false, more = true;

    while (!found && more) {
        uint64_t total = pool->ops->memory_bytes(pool->device);
        if (total < useful_bytes && pool->ops->claim && !m->claimed) {
            pool->ops->claim(pool->device, useful_bytes, until);
            m->claimed = true;
            total = pool->ops->memory_bytes(pool->device);
        }
        total = without_mirrors(pool, total, needed_bytes);
        uint64_t least = useful_bytes < total / 2 ? useful_bytes : total / 2;
        pthread_mutex_lock(&pool->lock);
        uint64_t unused =
            total > pool->granted_bytes ? total - pool->granted_bytes : 0;
        /* A caller that is alone learns from the planner that nothing fits. */
        found = unused >= least || pool->granted_bytes == 0;
        if (found) {
            m->granted_bytes = unused < useful_bytes ? unused : useful_bytes;
            pool->granted_bytes += m->granted_bytes;
        } else {
            more = wait_for_release(pool, until);
        }
        pthread_mutex_unlock(&pool->lock);
    }
    return found;
}

enum fy_reason
fy_pool_take(struct fy_pool *pool, uint64_t useful_bytes, uint64_t needed_bytes,
             double wait_seconds, char note[FY_POOL_NOTE_BYTES],
             struct fy_lease *out)
{
    struct timespec until;
    enum fy_reason reason = FY_REASON_DEVICE_BUSY;
    int cancel;

    if (pool->forked) {
        return FY_REASON_FORKED;
    }
    if (fy_pool_is_closed(pool)) {
        fy_pool_why(pool, note);
        return FY_REASON_NO_DEVICE;
    }
    deadline(wait_seconds, &until);
    /* A thread that is cancelled while it waits would take the lock along. */
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    struct fy_pool_member *m = take_member(pool, &until);
    if (m) {
        reason = prepare(pool, m, note);
        if (reason == FY_REASON_NONE &&
            !grant(pool, m, useful_bytes, needed_bytes, &until)) {
            reason = FY_REASON_DEVICE_BUSY;
        }
        if (reason == FY_REASON_NONE) {
            *out = (struct fy_lease){
                .device = pool->device,
                .executor = m->executor,
                .budget_bytes = m->granted_bytes,
                .member = (unsigned)(m - pool->members),
            };
        } else {
            give_member(pool, m);
        }
    }
    (void)pthread_setcancelstate(cancel, NULL);
    fy_debug(MEMORY, "a call of use for %llu bytes gets %llu: %s",
             (unsigned long long)useful_bytes,
             reason == FY_REASON_NONE ? (unsigned long long)out->budget_bytes
                                      : 0ULL,
             fy_reason_word(reason));
    return reason;
}

void
fy_pool_release(struct fy_pool *pool, const struct fy_lease *lease)
{
    struct fy_pool_member *m = &pool->members[lease->member];

    /* Otherwise the call was given up and goes on all the same (coroutines): its
     * executor is nobody else's, its place in the table is. */
    if (m->executor == lease->executor) {
        give_member(pool, m);
    }
}

void
fy_pool_part(struct fy_pool *pool, struct fy_lease *lease, uint64_t left)
{
    struct fy_pool_member *m = &pool->members[lease->member];

    pthread_mutex_lock(&pool->lock);
    if (m->executor == lease->executor) {
        pool->granted_bytes += left - m->granted_bytes;
        m->granted_bytes = left;
    }
    pthread_mutex_unlock(&pool->lock);
    lease->budget_bytes = left;
}

bool
fy_pool_shrink(struct fy_pool *pool, struct fy_lease *lease)
{
    struct fy_pool_member *m = &pool->members[lease->member];
    uint64_t smaller = lease->budget_bytes / 2;

    if (smaller < LEAST_BUDGET_BYTES || m->executor != lease->executor) {
        return false;
    }
    if (pool->memory) {
        fy_memory_evict(pool->memory, UINT64_MAX);
    }
    if (pool->ops->give_back) {
        pool->ops->give_back(lease->device, false);
    }
    pthread_mutex_lock(&pool->lock);
    pool->granted_bytes -= m->granted_bytes - smaller;
    m->granted_bytes = smaller;
    tell_all(pool);
    pthread_mutex_unlock(&pool->lock);
    lease->budget_bytes = smaller;
    fy_debug(MEMORY, "memory ran out: the call goes on with %llu bytes",
             (unsigned long long)smaller);
    return true;
}

bool
fy_pool_abandon(struct fy_pool *pool)
{
    bool found = false;

    /* A jump may come out of a handler that interrupted the holder, this thread. */
    for (unsigned i = 0; pthread_mutex_trylock(&pool->lock) != 0; i++) {
        if (i == ABANDON_TRIES) {
            return false;
        }
        sched_yield();
    }
    for (unsigned i = 0; i < FY_POOL_EXECUTORS; i++) {
        struct fy_pool_member *m = &pool->members[i];
        if (!m->taken || !pthread_equal(m->holder, pthread_self())) {
            continue;
        }
        /* Its streams and its memory stay as they are. */
        m->executor = NULL;
        m->granted_bytes = 0;
        m->taken = false;
        pool->spoiled = found = true;
    }
    if (found) {
        leave_spoiled(pool);
        tell_all(pool);
    }
    pthread_mutex_unlock(&pool->lock);
    return found;
}

void
fy_pool_end_threads(struct fy_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    if (pool->device && pool->ops->give_back) {
        pool->ops->give_back(pool->device, true);
    }
    pthread_mutex_unlock(&pool->lock);
}

/*
 * Other threads are gone: those that had calls on the device, and its own. It
 * is left behind as it is. The lock may have been held by one of them, so it and
 * all that it protects begin anew.
 */
void
fy_pool_after_fork_child(struct fy_pool *pool)
{
    if (pool->device && pool->ops != &fy_device_host) {
        pool->forked = true;
    } else if (pool->device) {
        pool->inherited =
            pool->device; /* closed when the child opens its own */
    }
    pool->device = NULL;
    memset(pool->members, 0, sizeof(pool->members));
    pool->granted_bytes = 0;
    pool->making = pool->spoiled = false;
    (void)pthread_mutex_init(&pool->lock, NULL);
    (void)init_released(pool);
}
