/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several processes on one card. Whoever needs more than he can get says so and
 * waits a little; an idle process then gives back all that it has, and a busy
 * one all beyond its share, when its call is over. A thread per device
 * sleeps until another process asks or a call begins, and returns all memory when
 * no call has come for a while: an idle program makes no calls that could look.
 */
#include "config.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "pager/device/cuda/internal.h"
#include "pager/device/cuda/share.h"
#include "pager/device/cuda/users.h"
#include "pager/device/own_thread.h"

enum {
    REST_MS = 100 /* without a call; then the card's memory goes back */
};

void
cuda_budget_tell(struct cuda_memory *m)
{
    if (!m->share) {
        return;
    }
    bool idle = cuda_memory_is_idle(m);
    uint64_t spare = idle ? cuda_memory_spare(m) : 0;
    cuda_share_tell(m->share,
                    &(struct cuda_share_state){
                        .held_bytes = m->backed_bytes,
                        .spare_bytes = idle ? spare + m->mirror_bytes : 0,
                        .busy = !idle});
    if (m->asleep && (!idle || spare > 0)) {
        m->asleep = false;
        cuda_share_ask(m->share);
    }
    if (m->claims > 0) {
        cuda_share_want(m->share, m->claimed_bytes > m->backed_bytes
                                      ? m->claimed_bytes - m->backed_bytes
                                      : 0);
    }
    if (m->owes && idle) {
        m->owes = false;
        cuda_share_ask(m->share); /* the keeper's turn */
    }
}

uint64_t
cuda_budget_limit(struct cuda_memory *m, uint64_t usable)
{
    struct cuda_share_view view;
    if (!cuda_share_is_wanted(m->share)) {
        return usable;
    }
    cuda_share_look(m->share, m->card_bytes, true, &view);
    uint64_t left = usable > view.wanted_bytes ? usable - view.wanted_bytes : 0;
    if (view.wanted_bytes == 0) {
        return usable;
    }
    /* A fair share is left to this process, too. */
    uint64_t own = usable < view.fair_bytes ? usable : view.fair_bytes;
    return left > own ? left : own;
}

/* Has mirrors given up: all while no call runs, else those beyond a fair share. */
static void
reclaim(struct cuda_device *device, bool idle, uint64_t fair_bytes)
{
    struct cuda_memory *m = &device->memory;
    pthread_mutex_lock(&m->lock);
    uint64_t bytes = idle ? UINT64_MAX
                     : m->backed_bytes > fair_bytes
                         ? m->backed_bytes - fair_bytes
                         : 0;
    bool has_some = m->mirror_bytes > 0 && bytes > 0;
    pthread_mutex_unlock(&m->lock);
    if (has_some) {
        device->base.reclaim(device->base.reclaim_of, bytes);
    }
}

/* Gives back memory that others want and this process need not have. */
static void
serve(struct cuda_device *device)
{
    struct cuda_memory *m = &device->memory;
    struct cuda_share_view view;
    int cancel;
    if (!cuda_share_is_wanted(m->share)) {
        return;
    }
    pthread_mutex_lock(&m->lock);
    bool idle = cuda_memory_is_idle(m) && m->claims == 0;
    pthread_mutex_unlock(&m->lock);
    cuda_share_look(m->share, m->card_bytes, !idle, &view);
    if (view.wanted_bytes == 0) {
        return;
    }
    reclaim(device, idle, view.fair_bytes);
    if (!cuda_enter_caller(device, &cancel)) {
        return;
    }
    pthread_mutex_lock(&m->lock);
    uint64_t bytes = UINT64_MAX;
    if (!cuda_memory_is_idle(m)) {
        uint64_t beyond = m->backed_bytes > view.fair_bytes
                              ? m->backed_bytes - view.fair_bytes
                              : 0;
        bytes = beyond;
        m->owes = true;
    }
    uint64_t returned = bytes == 0 ? 0 : cuda_memory_return(device, bytes);
    pthread_mutex_unlock(&m->lock);
    cuda_leave_caller(device, cancel);
    if (returned > 0) {
        cuda_share_returned(m->share);
    }
}

/* Whether all calls have been over for so long, and something can go back. */
static bool
is_resting(struct cuda_memory *m)
{
    pthread_mutex_lock(&m->lock);
    bool idle = cuda_memory_is_idle(m) && m->claims == 0;
    if (!idle || m->uses != m->seen_uses) {
        m->seen_uses = m->uses;
        m->idle_since = fy_clock_ns();
    }
    bool resting =
        idle && fy_clock_ns() - m->idle_since >= REST_MS * UINT64_C(1000000);
    pthread_mutex_unlock(&m->lock);
    return resting;
}

/* Whether there is something to watch: else the next call asks. */
static bool
rest(struct cuda_device *device)
{
    struct cuda_memory *m = &device->memory;
    int cancel;
    if (is_resting(m) && cuda_enter_caller(device, &cancel)) {
        pthread_mutex_lock(&m->lock);
        uint64_t returned =
            cuda_memory_is_idle(m) ? cuda_memory_return(device, UINT64_MAX) : 0;
        pthread_mutex_unlock(&m->lock);
        cuda_leave_caller(device, cancel);
        if (returned > 0) {
            cuda_share_returned(m->share);
        }
    }
    pthread_mutex_lock(&m->lock);
    m->asleep = cuda_is_dead(device) ||
                (cuda_memory_is_idle(m) && cuda_memory_spare(m) == 0);
    bool asleep = m->asleep;
    pthread_mutex_unlock(&m->lock);
    return !asleep;
}

static void *
keep(void *argument)
{
    static const struct timespec tick = {.tv_nsec = REST_MS * 1000000L};
    struct cuda_device *device = argument;
    struct cuda_memory *m = &device->memory;
    uint32_t seen;
    bool watch;
    cuda_thread_begins();
    do {
        seen = cuda_share_asked(m->share);
        if (__atomic_load_n(&m->stop, __ATOMIC_ACQUIRE)) {
            break;
        }
        serve(device);
        watch = rest(device);
    } while (cuda_share_wait_asked(m->share, seen, watch ? &tick : NULL));
    return NULL;
}

void
cuda_budget_open(struct cuda_device *device)
{
    struct cuda_memory *m = &device->memory;
    unsigned char uuid[16];
    char card[64];
    unsigned any = 0;
    if (fy_cuda_uuid(device->driver, device->unit, uuid) != 0) {
        memset(uuid, 0, sizeof uuid);
    }
    for (int i = 0; i < 16; i++) {
        any |= uuid[i];
        (void)snprintf(card + (size_t)2 * i, sizeof card - 2 * (size_t)i,
                       "%02x", uuid[i]);
    }
    /* With an older driver parts of one card have its name, but not its size. */
    (void)snprintf(card + 32, sizeof card - 32, "-%llu",
                   (unsigned long long)(m->card_bytes >> 20));
    if (any != 0) { /* else it has no name that others could know it by */
        m->share = cuda_share_join(card);
    }
    if (!m->share) {
        m->share = cuda_share_alone();
    }
    if (!m->share) {
        return;
    }
    m->has_keeper =
        fy_own_thread_start(&m->keeper, CUDA_STACK_BYTES, keep, device) == 0;
    if (!m->has_keeper) {
        cuda_share_leave(m->share);
        m->share = NULL;
    }
}

void
cuda_budget_close(struct cuda_device *device)
{
    struct cuda_memory *m = &device->memory;
    if (!m->share) {
        return;
    }
    if (!cuda_is_ours(device)) {
        cuda_share_forget(m->share);
    } else {
        __atomic_store_n(&m->stop, true, __ATOMIC_RELEASE);
        cuda_share_ask(m->share);
        pthread_join(m->keeper, NULL);
        cuda_share_leave(m->share);
    }
    m->share = NULL;
}

/* Notes a claim, or that one is over. */
static void
note_claim(struct cuda_memory *m, uint64_t bytes)
{
    pthread_mutex_lock(&m->lock);
    if (bytes > 0) {
        m->claims++;
        m->claimed_bytes = bytes > m->claimed_bytes ? bytes : m->claimed_bytes;
    } else if (m->claims > 0 && --m->claims == 0) {
        m->claimed_bytes = 0;
        cuda_share_want(m->share, 0);
    }
    pthread_mutex_unlock(&m->lock);
}

static uint64_t
usable(struct cuda_device *device)
{
    return device->base.ops->memory_bytes(&device->base);
}

void
cuda_budget_claim(struct cuda_device *device, uint64_t bytes,
                  const struct timespec *until)
{
    struct cuda_memory *m = &device->memory;
    struct cuda_share_view view;
    if (!m->share) {
        return;
    }
    bytes = bytes < m->limit_bytes ? bytes : m->limit_bytes;
    cuda_share_look(m->share, m->card_bytes, true, &view);
    note_claim(m, bytes < view.fair_bytes ? bytes : view.fair_bytes);
    while (bytes > 0) {
        uint32_t turn = cuda_share_turn(m->share);
        cuda_share_look(m->share, m->card_bytes, true, &view);
        uint64_t fair = bytes < view.fair_bytes ? bytes : view.fair_bytes;
        pthread_mutex_lock(&m->lock);
        bool in_vain = m->in_vain && m->vain_turn == turn;
        if (!in_vain) {
            m->claimed_bytes =
                fair > m->claimed_bytes ? fair : m->claimed_bytes;
            cuda_budget_tell(m); /* says how much is wanted */
        }
        pthread_mutex_unlock(&m->lock);
        if (in_vain || view.surplus_bytes == 0 || usable(device) >= fair) {
            return;
        }
        /* Others may give back and take for ever. */
        if (fy_clock_ns() >= fy_clock_of(until) ||
            !cuda_share_wait(m->share, turn, until)) {
            pthread_mutex_lock(&m->lock);
            m->in_vain = true;
            m->vain_turn = turn;
            pthread_mutex_unlock(&m->lock);
            return;
        }
    }
}
