/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A loop over descriptors and timers; see the header.
 */
#include "config.h"

#include "proxy/wire/loop.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/clock.h"

enum {
    EVENTS = 64, /* taken at once */
    WAIT_MS = 60000,
};

int
fy_loop_open(struct fy_loop *loop, void (*rung)(void *owner, uint32_t events),
             void *owner)
{
    loop->epoll = epoll_create1(EPOLL_CLOEXEC);
    loop->bell = (struct fy_watch){
        .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
        .ready = rung,
        .owner = owner,
    };
    /* By its edge: the count need not be read. */
    return loop->epoll < 0 || loop->bell.fd < 0
               ? FY_ERR_IO
               : fy_loop_watch(loop, &loop->bell, EPOLLIN | EPOLLET);
}

void
fy_loop_close(struct fy_loop *loop)
{
    fy_loop_unwatch(loop, &loop->bell);
    if (loop->epoll >= 0) {
        (void)close(loop->epoll);
    }
}

void
fy_loop_ring(const struct fy_loop *loop)
{
    const uint64_t one = 1;
    (void)!write(loop->bell.fd, &one, sizeof one);
}

int
fy_loop_watch(struct fy_loop *loop, struct fy_watch *watch, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = watch};
    if (watch->fd < 0 || watch->events == events) {
        return FY_OK;
    }
    int op = watch->events == 0 ? EPOLL_CTL_ADD
             : events == 0      ? EPOLL_CTL_DEL
                                : EPOLL_CTL_MOD;
    if (epoll_ctl(loop->epoll, op, watch->fd, &event) != 0) {
        loop->failed = loop->failed || errno != EPERM;
        return errno == EPERM ? FY_ERR_UNSUPPORTED : FY_ERR_IO;
    }
    watch->events = events;
    return FY_OK;
}

void
fy_loop_forget(struct fy_loop *loop, struct fy_watch *watch)
{
    (void)fy_loop_watch(loop, watch, 0);
    watch->fd = -1;
}

void
fy_loop_unwatch(struct fy_loop *loop, struct fy_watch *watch)
{
    int fd = watch->fd;
    fy_loop_forget(loop, watch);
    if (fd >= 0) {
        (void)close(fd);
    }
}

void
fy_loop_unset(struct fy_loop *loop, struct fy_timer *timer)
{
    for (struct fy_timer **link = &loop->timers; *link; link = &(*link)->next) {
        if (*link == timer) {
            *link = timer->next;
            break;
        }
    }
    timer->due_ns = 0;
}

void
fy_loop_set(struct fy_loop *loop, struct fy_timer *timer, uint64_t delay_ns)
{
    fy_loop_unset(loop, timer);
    timer->due_ns = fy_clock_ns() + delay_ns;
    timer->next = loop->timers;
    loop->timers = timer;
}

static void
run_timers(struct fy_loop *loop)
{
    uint64_t now = fy_clock_ns();
    struct fy_timer *due;
    do {
        due = loop->timers;
        while (due && due->due_ns > now) {
            due = due->next;
        }
        if (due) {
            fy_loop_unset(loop, due);
            due->run(due->owner);
        }
    } while (due);
}

/* For epoll_wait(): rounded up; -1: for as long as nothing comes. */
static int
wait_ms(const struct fy_loop *loop, uint64_t until_ns)
{
    uint64_t now = fy_clock_ns(), next = until_ns ? until_ns : UINT64_MAX;
    for (const struct fy_timer *timer = loop->timers; timer;
         timer = timer->next) {
        next = timer->due_ns < next ? timer->due_ns : next;
    }
    if (next == UINT64_MAX || next <= now) {
        return next == UINT64_MAX ? -1 : 0;
    }
    uint64_t ms = (next - now + 999999) / 1000000;
    return ms < WAIT_MS ? (int)ms : WAIT_MS;
}

int
fy_loop_turn(struct fy_loop *loop, uint64_t until_ns)
{
    struct epoll_event events[EVENTS];
    int n = epoll_wait(loop->epoll, events, EVENTS, wait_ms(loop, until_ns));
    int status = n < 0 && errno != EINTR ? FY_ERR_IO : FY_OK;
    for (int i = 0; i < n; i++) {
        const struct fy_watch *watch = events[i].data.ptr;
        if (watch->fd >= 0 &&
            watch->events) { /* not closed by an earlier one */
            watch->ready(watch->owner, events[i].events);
        }
    }
    run_timers(loop);
    return status;
}
