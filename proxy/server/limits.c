/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stages that are due by the clock.
 */
#include "config.h"

#include <signal.h>
#include <sys/ioctl.h>

#include "common/clock.h"
#include "proxy/server/server.h"

static uint64_t
sooner(uint64_t one, uint64_t other)
{
    return one == 0 || (other && other < one) ? other : one;
}

/* Whether the stage's words on stderr wait for a reader that has no room now: a
 * pager may take its time. */
static bool
err_is_wanted(const struct fy_server_stage *stage)
{
    int waiting = 0;
    return stage->err_exchange &&
           ioctl(stage->err.fd, FIONREAD, &waiting) == 0 && waiting > 0;
}

uint64_t
fy_server_timers(struct fy_server *server)
{
    uint64_t now = fy_clock_ns(), next_ns = 0;
    struct fy_server_stage *next;
    for (struct fy_server_stage *at = server->stages; at; at = next) {
        next = at->next;
        if (at->state == FY_STAGE_OVER) {
            continue;
        }
        if (fy_server_stage_has_no_process(at) && at->limits.deadline_ns &&
            now >= at->limits.deadline_ns) {
            if (at->out_exchange) {
                fy_exchange_refuse(
                    at->out_exchange, 503, FY_STAGE_LIMITS,
                    at->state == FY_STAGE_WAITING
                        ? "the stage that it reads does not start"
                        : "its files are not looked at in time");
            }
            fy_server_stage_abandon(at);
            continue;
        }
        if (at->end.kill_ns && now >= at->end.kill_ns) {
            fy_server_stage_press(at);
        }
        if (at->result.err_end_ns && now >= at->result.err_end_ns) {
            bool wanted = err_is_wanted(at);
            at->result.err_end_ns = 0; /* once more, from now on */
            if (!wanted) {
                fy_watch_close(at, &at->err, &at->run.err);
            }
            fy_server_stage_settle(at);
            if (!wanted) {
                continue;
            }
        }
        next_ns = sooner(next_ns, at->end.kill_ns);
        next_ns = sooner(next_ns, at->limits.deadline_ns);
        next_ns = sooner(next_ns, at->result.err_end_ns);
    }
    return next_ns;
}
