/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors in the epoll of the proxy.
 */
#include "config.h"

#include <errno.h>
#include <sys/epoll.h>

#include "proxy/server/server.h"

void
fy_watch_set(struct fy_server *server, struct fy_watch *watch, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = watch};
    if (watch->fd < 0 || watch->events == events) {
        return;
    }
    int op = watch->events == 0 ? EPOLL_CTL_ADD
             : events == 0      ? EPOLL_CTL_DEL
                                : EPOLL_CTL_MOD;
    if (epoll_ctl(server->epoll, op, watch->fd, &event) == 0) {
        watch->events = events;
    } else if (errno != EPERM) { /* a file: turn() */
        server->ending = true; /* what is unwatched may be waited for forever */
    }
}

void
fy_watch_close(struct fy_server_stage *stage, struct fy_watch *watch, int *fd)
{
    fy_watch_set(stage->server, watch, 0);
    watch->fd = -1;
    fy_run_close(fd);
}
