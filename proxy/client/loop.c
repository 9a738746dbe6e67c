/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors and timers of the session's loop.
 */
#include "config.h"

#include <sys/epoll.h>
#include <unistd.h>

#include "common/clock.h"
#include "proxy/client/session.h"

enum {
    SCAN_MS = 1, /* until the holders of pipes are looked at */
};

int
fy_session_watch(struct fy_session *session, struct watch *watch,
                 uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = watch};
    watch->events = events;
    return epoll_ctl(session->epoll, EPOLL_CTL_ADD, watch->fd, &event) == 0
               ? 0
               : FY_ERR_IO;
}

void
fy_session_change(struct fy_session *session, struct watch *watch,
                  uint32_t events)
{
    if (watch->fd >= 0 && watch->events != events) {
        struct epoll_event event = {.events = events, .data.ptr = watch};
        watch->events = events;
        (void)epoll_ctl(session->epoll, EPOLL_CTL_MOD, watch->fd, &event);
    }
}

void
fy_session_unwatch(struct fy_session *session, struct watch *watch)
{
    if (watch->fd >= 0) {
        (void)epoll_ctl(session->epoll, EPOLL_CTL_DEL, watch->fd, NULL);
        (void)close(watch->fd);
        watch->fd = -1;
    }
}

void
fy_session_unset(struct fy_session *session, struct timer *timer)
{
    for (struct timer **link = &session->timers; *link; link = &(*link)->next) {
        if (*link == timer) {
            *link = timer->next;
            break;
        }
    }
    timer->due_ns = 0;
}

void
fy_session_set(struct fy_session *session, struct timer *timer,
               uint64_t delay_ns)
{
    fy_session_unset(session, timer);
    timer->due_ns = fy_clock_ns() + delay_ns;
    timer->next = session->timers;
    session->timers = timer;
}

void
fy_session_run_timers(struct fy_session *session)
{
    uint64_t now = fy_clock_ns();
    struct timer *due;
    do {
        due = session->timers;
        while (due && due->due_ns > now) {
            due = due->next;
        }
        if (due) {
            fy_session_unset(session, due);
            due->run(due);
        }
    } while (due);
}

int
fy_session_next_ms(const struct fy_session *session)
{
    uint64_t now = fy_clock_ns(), next = UINT64_MAX;
    for (const struct timer *timer = session->timers; timer;
         timer = timer->next) {
        next = timer->due_ns < next ? timer->due_ns : next;
    }
    if (next == UINT64_MAX || next <= now) {
        return next == UINT64_MAX ? -1 : 0;
    }
    uint64_t wait_ms = (next - now + 999999) / 1000000;
    return wait_ms < 60000 ? (int)wait_ms : 60000;
}

void
fy_link_wake(struct fy_session *session)
{
    session->scan.delay_ms = SCAN_MS;
    if (session->scan.timer.due_ns == 0 ||
        session->scan.timer.due_ns >
            fy_clock_ns() + SCAN_MS * UINT64_C(1000000)) {
        fy_session_set(session, &session->scan.timer,
                       SCAN_MS * UINT64_C(1000000));
    }
}
