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

struct member {
    struct fy_executor *executor; /* NULL: to be made */
    bool taken;
    pthread_t holder; /* while taken */
    uint64_t granted_bytes;
    bool claimed; /* from other processes */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t released; /* by CLOCK_MONOTONIC */

static const struct fy_device_ops *ops;
static uint64_t limit_bytes; /* 0: the device's default */
static struct fy_device *device;
static struct fy_device *inherited; /* the parent process's, to be closed */
static bool forked; /* of a process that used a device that cannot follow */
static bool closed; /* no call may have it */
static char closed_why[FY_POOL_NOTE_BYTES];
static unsigned busy_opens; /* inside of constructors */

static struct member members[FY_POOL_EXECUTORS];
static unsigned most = FY_POOL_EXECUTORS; /* that can be made */
static bool making;                       /* the device or an executor */
static bool spoiled; /* by an exception: left when nobody uses it */
static uint64_t granted_bytes;
static uint64_t releases;
/* Somebody waited in vain at this one: what is held may never come back. */
static uint64_t given_up_at = UINT64_MAX;

static int
init_released(void)
{
    pthread_condattr_t attributes;
    int error = pthread_condattr_init(&attributes);

    if (error) {
        return error;
    }
    error = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    if (!error) {
        error = pthread_cond_init(&released, &attributes);
    }
    pthread_condattr_destroy(&attributes);
    return error;
}

int
fy_pool_start(const struct fy_device_ops *of, uint64_t memory_bytes)
{
    ops = of;
    limit_bytes = memory_bytes;
    closed = of == NULL;
    return init_released() ? FY_ERR_NOMEM : FY_OK;
}

bool
fy_pool_is_closed(void)
{
    return __atomic_load_n(&closed, __ATOMIC_RELAXED);
}

void
fy_pool_why(char note[FY_POOL_NOTE_BYTES])
{
    /* Written once, before `closed'. */
    if (__atomic_load_n(&closed, __ATOMIC_ACQUIRE)) {
        memcpy(note, closed_why, sizeof(closed_why));
    }
}

void
fy_pool_close(const char *why)
{
    pthread_mutex_lock(&lock);
    if (!closed) {
        (void)snprintf(closed_why, sizeof(closed_why), "%s", why);
        __atomic_store_n(&closed, true, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&lock);
}

/* What the device says of its last trouble; of NULL: of opening one. */
static void
take_note(char note[FY_POOL_NOTE_BYTES], struct fy_device *of)
{
    const char *text = ops->error_text(of);

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
wait_for_release(const struct timespec *until)
{
    if (given_up_at == releases) {
        return false;
    }
    if (pthread_cond_timedwait(&released, &lock, until) != 0) {
        given_up_at = releases;
        return false;
    }
    return true;
}

/* Lock held. */
static void
tell_all(void)
{
    releases++;
    pthread_cond_broadcast(&released);
}

/* One with an executor, else one for which it can be made. Lock held. */
static struct member *
find_free(void)
{
    struct member *empty = NULL;

    for (unsigned i = 0; i < most; i++) {
        if (members[i].taken) {
            continue;
        }
        if (members[i].executor) {
            return &members[i];
        }
        if (!empty) {
            empty = &members[i];
        }
    }
    return making ? NULL : empty;
}

static struct member *
take_member(const struct timespec *until)
{
    struct member *m;

    pthread_mutex_lock(&lock);
    while ((m = find_free()) == NULL && wait_for_release(until)) {
    }
    if (m) {
        m->taken = true;
        m->holder = pthread_self();
        m->granted_bytes = 0;
        making = making || m->executor == NULL;
    }
    pthread_mutex_unlock(&lock);
    return m;
}

/* The device as an exception has left it is no good for anybody. Lock held. */
static void
leave_spoiled(void)
{
    for (unsigned i = 0; i < FY_POOL_EXECUTORS; i++) {
        if (members[i].taken) {
            return;
        }
    }
    memset(members, 0, sizeof(members));
    granted_bytes = 0;
    device = NULL;
    spoiled = false;
}

static void
give_member(struct member *m)
{
    if (m->claimed) {
        ops->claim(device, 0, NULL);
        m->claimed = false;
    }
    pthread_mutex_lock(&lock);
    granted_bytes -= m->granted_bytes;
    m->granted_bytes = 0;
    m->taken = false;
    if (spoiled) {
        leave_spoiled();
    }
    tell_all();
    pthread_mutex_unlock(&lock);
}

/* Nobody else does it meanwhile. */
static enum fy_reason
open_device(char note[FY_POOL_NOTE_BYTES])
{
    struct fy_device *opened;

    if (inherited) {
        ops->close(inherited);
        inherited = NULL;
    }
    int status = ops->open(limit_bytes, &opened);
    if (status) {
        take_note(note, NULL);
        /* BUSY: not from inside a library's constructor; later it may. */
        if (status != FY_ERR_LATER &&
            (status != FY_ERR_BUSY || ++busy_opens == MAX_BUSY_OPENS)) {
            fy_pool_close(note);
        }
        return FY_REASON_NO_DEVICE;
    }
    device = opened;
    return FY_REASON_NONE;
}

/* Sees to a device, and to an executor for the member. */
static enum fy_reason
prepare(struct member *m, char note[FY_POOL_NOTE_BYTES])
{
    enum fy_reason reason = FY_REASON_NONE;
    struct fy_executor *made = NULL;

    if (m->executor) {
        return FY_REASON_NONE;
    }
    if (!device) {
        reason = fy_pool_is_closed() ? FY_REASON_NO_DEVICE : open_device(note);
    }
    if (reason == FY_REASON_NONE && fy_executor_new(device, &made)) {
        take_note(note, device);
        reason = FY_REASON_NO_DEVICE;
        made = NULL;
    }
    unsigned others = 0;
    pthread_mutex_lock(&lock);
    m->executor = made;
    making = false;
    for (unsigned i = 0; i < most; i++) {
        others += members[i].executor != NULL;
    }
    tell_all();
    pthread_mutex_unlock(&lock);
    if (device && others == 0) {
        fy_pool_close(note);
    } else if (device && !made) {
        reason = FY_REASON_DEVICE_BUSY;
    }
    return reason;
}

/*
 * A part of the memory: as much as is of use, or what is free when that is at
 * least half of all (two large calls are faster one after the other).
 */
static bool
grant(struct member *m, uint64_t useful_bytes, const struct timespec *until)
{
    bool found = false, more = true;

    while (!found && more) {
        uint64_t total = ops->memory_bytes(device);
        if (total < useful_bytes && ops->claim && !m->claimed) {
            ops->claim(device, useful_bytes, until);
            m->claimed = true;
            total = ops->memory_bytes(device);
        }
        uint64_t least = useful_bytes < total / 2 ? useful_bytes : total / 2;
        pthread_mutex_lock(&lock);
        uint64_t unused = total > granted_bytes ? total - granted_bytes : 0;
        /* Whoever is alone learns from the planner that nothing fits. */
        found = unused >= least || granted_bytes == 0;
        if (found) {
            m->granted_bytes = unused < useful_bytes ? unused : useful_bytes;
            granted_bytes += m->granted_bytes;
        } else {
            more = wait_for_release(until);
        }
        pthread_mutex_unlock(&lock);
    }
    return found;
}

enum fy_reason
fy_pool_take(uint64_t useful_bytes, double wait_seconds,
             char note[FY_POOL_NOTE_BYTES], struct fy_lease *out)
{
    struct timespec until;
    enum fy_reason reason = FY_REASON_DEVICE_BUSY;
    int cancel;

    if (forked) {
        return FY_REASON_FORKED;
    }
    if (fy_pool_is_closed()) {
        fy_pool_why(note);
        return FY_REASON_NO_DEVICE;
    }
    deadline(wait_seconds, &until);
    /* A thread that is cancelled while it waits would take the lock along. */
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    struct member *m = take_member(&until);
    if (m) {
        reason = prepare(m, note);
        if (reason == FY_REASON_NONE && !grant(m, useful_bytes, &until)) {
            reason = FY_REASON_DEVICE_BUSY;
        }
        if (reason == FY_REASON_NONE) {
            *out = (struct fy_lease){
                .device = device,
                .executor = m->executor,
                .budget_bytes = m->granted_bytes,
                .member = (unsigned)(m - members),
            };
        } else {
            give_member(m);
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
fy_pool_release(const struct fy_lease *lease)
{
    struct member *m = &members[lease->member];

    /* Otherwise the call was given up and goes on all the same (coroutines): its
     * executor is nobody else's, its place in the table is. */
    if (m->executor == lease->executor) {
        give_member(m);
    }
}

bool
fy_pool_shrink(struct fy_lease *lease)
{
    struct member *m = &members[lease->member];
    uint64_t smaller = lease->budget_bytes / 2;

    if (smaller < LEAST_BUDGET_BYTES || m->executor != lease->executor) {
        return false;
    }
    if (ops->give_back) {
        ops->give_back(lease->device);
    }
    pthread_mutex_lock(&lock);
    granted_bytes -= m->granted_bytes - smaller;
    m->granted_bytes = smaller;
    tell_all();
    pthread_mutex_unlock(&lock);
    lease->budget_bytes = smaller;
    fy_debug(MEMORY, "memory ran out: the call goes on with %llu bytes",
             (unsigned long long)smaller);
    return true;
}

bool
fy_pool_abandon(void)
{
    bool found = false;

    /* A jump may come out of a handler that interrupted the holder, this thread. */
    for (unsigned i = 0; pthread_mutex_trylock(&lock) != 0; i++) {
        if (i == ABANDON_TRIES) {
            return false;
        }
        sched_yield();
    }
    for (unsigned i = 0; i < FY_POOL_EXECUTORS; i++) {
        struct member *m = &members[i];
        if (!m->taken || !pthread_equal(m->holder, pthread_self())) {
            continue;
        }
        /* Its streams and its memory stay as they are. */
        m->executor = NULL;
        m->granted_bytes = 0;
        m->taken = false;
        spoiled = found = true;
    }
    if (found) {
        leave_spoiled();
        tell_all();
    }
    pthread_mutex_unlock(&lock);
    return found;
}

/*
 * Other threads are gone: those that had calls on the device, and its own. It
 * is left behind as it is. The lock may have been held by one of them, so it and
 * all that it protects begin anew.
 */
void
fy_pool_after_fork_child(void)
{
    if (device && ops != &fy_device_host) {
        forked = true;
    } else if (device) {
        inherited = device; /* closed when the child opens its own */
    }
    device = NULL;
    memset(members, 0, sizeof(members));
    granted_bytes = 0;
    making = spoiled = false;
    (void)pthread_mutex_init(&lock, NULL);
    (void)init_released();
}
