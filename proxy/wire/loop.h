/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A loop over descriptors and timers, with a bell that other threads ring: the session
 * and the proxy have one each. Of one thread, but for the descriptor of the bell.
 */
#ifndef FERRY_PROXY_WIRE_LOOP_H
#define FERRY_PROXY_WIRE_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "common/status.h"

/* A descriptor of a loop. Zeroed, with fd and ready set, it is in none. */
struct fy_watch {
    int fd;          /* -1: none */
    uint32_t events; /* of epoll, that are waited for; 0: not in the loop */
    void (*ready)(void *owner, uint32_t events);
    void *owner;
};

struct fy_timer {
    uint64_t due_ns; /* CLOCK_MONOTONIC; 0: not set */
    void (*run)(void *owner);
    void *owner;
    struct fy_timer *next;
};

struct fy_loop {
    int epoll;
    struct fy_watch bell; /* an eventfd that any thread writes to */
    struct fy_timer *timers;
    bool failed; /* a descriptor could not be waited for: it may be forever */
};

/* `rung' is called with `owner' after the bell was rung. FY_ERR_IO: *loop can be
 * closed all the same. */
int fy_loop_open(struct fy_loop *loop,
                 void (*rung)(void *owner, uint32_t events),
                 void *owner) FY_MUST_CHECK;
/* Closes the epoll and the bell, those that are not -1. */
void fy_loop_close(struct fy_loop *loop);
/* Rings the bell. Any thread, signal handlers. */
void fy_loop_ring(const struct fy_loop *loop);

/* Waits for `events' of watch->fd, if there is one, from now on; EPOLLERR: for its end
 * alone; 0: takes it out. FY_ERR_UNSUPPORTED: a file, which is always ready;
 * FY_ERR_IO. */
int fy_loop_watch(struct fy_loop *loop, struct fy_watch *watch,
                  uint32_t events);
/* Takes it out; the owner of the descriptor closes that. */
void fy_loop_forget(struct fy_loop *loop, struct fy_watch *watch);
/* Takes it out and closes it. */
void fy_loop_unwatch(struct fy_loop *loop, struct fy_watch *watch);

/* Sets the timer anew, to `delay_ns' from now. */
void fy_loop_set(struct fy_loop *loop, struct fy_timer *timer,
                 uint64_t delay_ns);
/* A timer that is not set: fine. */
void fy_loop_unset(struct fy_loop *loop, struct fy_timer *timer);

/* Waits once, until a descriptor is ready, a timer is due or `until_ns' (0:
 * no such time), and makes the calls for these events. The calls may forget
 * any watch, but free only their own. FY_ERR_IO: nothing can be waited for. */
int fy_loop_turn(struct fy_loop *loop, uint64_t until_ns);

#endif
