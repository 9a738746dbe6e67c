/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this host grants: memory and seconds of a stage and of what it leaves behind,
 * by control groups and by looking at processes; and what else is due by the clock.
 */
#include "config.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/clock.h"
#include "proxy/server/server.h"
#include "proxy/wire/process.h"

/* The stages that may have processes, and these; there is room for running + 1.
 * How many. */
static size_t
list_stages(struct fy_server *server, struct fy_server_stage **stages,
            pid_t *pids)
{
    size_t n = 0;
    for (struct fy_server_stage *at = server->stages; at; at = at->next) {
        if (at->state == FY_STAGE_STARTING || at->state == FY_STAGE_RUNNING ||
            at->state == FY_STAGE_EXITED) {
            stages[n] = at;
            pids[n++] = at->run.pid;
        }
    }
    return n;
}

unsigned
fy_server_strays(struct fy_server *server)
{
    size_t most = server->running + 1;
    struct fy_server_stage **stages = calloc(most, sizeof *stages);
    pid_t *pids = calloc(most, sizeof *pids);
    unsigned count = 0;
    if (stages && pids && server->left_some) {
        count = fy_strays_count(pids, list_stages(server, stages, pids));
    }
    free((void *)stages);
    free(pids);
    return count;
}

struct fy_group
fy_server_group(struct fy_server_stage *stage)
{
    struct fy_server *server = stage->server;
    double seconds = server->options->seconds;
    uint64_t limit = server->options->memory_bytes;
    struct fy_group group = {.join = -1};
    struct fy_server_group *row =
        limit || seconds > 0 ? calloc(1, sizeof *row) : NULL;
    if (row) {
        fy_group_new(&server->groups, limit, &group);
        *row = (struct fy_server_group){server->grouped, group.number,
                                        stage->number, 0};
        if (seconds > 0) {
            row->deadline_ns = fy_clock_ns() + (uint64_t)(seconds * 1e9);
        }
    }
    if (group.number) {
        server->grouped = row;
        stage->limits.group = group.number;
    } else {
        free(row);
    }
    return group;
}

/* Of one group: what it holds resident; its processes are no strays. */
static uint64_t
measure_group(const pid_t *pids, size_t n, struct fy_strays *strays)
{
    uint64_t pages = 0;
    for (size_t i = 0; i < n; i++) {
        char path[32];
        struct fy_process process;
        (void)snprintf(path, sizeof path, "/proc/%d", (int)pids[i]);
        if (fy_process_read(AT_FDCWD, path, &process)) {
            pages += process.resident_pages;
        }
        for (unsigned j = 0; j < strays->n; j++) {
            if (strays->rows[j].pid == pids[i]) {
                strays->bytes -= strays->rows[j].bytes;
                strays->rows[j] = strays->rows[--strays->n];
            }
        }
    }
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Each is as large and as old as its stage may be, whether that is over or not. */
static void
check_groups(struct fy_server *server, struct fy_strays *strays)
{
    static pid_t pids[FY_STRAYS_MAX];
    uint64_t limit = server->options->memory_bytes, now = fy_clock_ns();
    struct fy_server_group **link = &server->grouped;
    while (*link) {
        struct fy_server_group *group = *link;
        struct fy_server_stage *stage =
            fy_server_stage_find(server, group->stage);
        bool over = !stage || stage->limits.group != group->number ||
                    stage->state == FY_STAGE_OVER;
        size_t n =
            fy_group_list(&server->groups, group->number, pids, FY_STRAYS_MAX);
        uint64_t bytes = measure_group(pids, n, strays);
        bool large = limit && bytes > limit;
        if (n && (large ||
                  (over && group->deadline_ns && now >= group->deadline_ns))) {
            fy_group_kill(&server->groups, group->number);
        }
        if (large && !over && !stage->end.failed) {
            fy_server_stage_fail(stage, FY_STAGE_LIMITS);
        }
        if (over && fy_group_remove(&server->groups, group->number)) {
            *link = group->next;
            free(group);
        } else {
            link = &group->next;
        }
    }
}

/* Together they are one command more: as long and as large as one may be. */
static void
check_strays(struct fy_server *server, const struct fy_strays *strays)
{
    const struct fy_proxy_options *options = server->options;
    uint64_t now = fy_clock_ns();
    if (strays->n == 0) {
        server->strays_ns = 0;
        return;
    }
    server->strays_ns = server->strays_ns ? server->strays_ns : now;
    bool large = options->memory_bytes && strays->bytes > options->memory_bytes;
    bool old = options->seconds > 0 &&
               now - server->strays_ns >= (uint64_t)(options->seconds * 1e9);
    for (unsigned i = 0; (large || old) && i < strays->n; i++) {
        (void)kill(strays->rows[i].pid, SIGKILL);
    }
}

static void
check_processes(struct fy_server *server)
{
    static struct fy_strays strays;
    size_t most = server->running + 1;
    struct fy_server_stage **stages = calloc(most, sizeof *stages);
    pid_t *pids = calloc(most, sizeof *pids);
    uint64_t *bytes = calloc(most, sizeof *bytes);
    uint64_t limit = server->options->memory_bytes;
    if (stages && pids && bytes) {
        size_t n = list_stages(server, stages, pids);
        fy_descendants_look(pids, n, bytes, &strays);
        server->left_some =
            strays.n > 0 || server->running > 0 || server->grouped;
        check_groups(server, &strays);
        check_strays(server, &strays);
        for (size_t i = 0; limit && i < n; i++) {
            /* Nothing is freed before the end of the turn. */
            if (bytes[i] > limit && !stages[i]->end.failed) {
                fy_server_stage_fail(stages[i], FY_STAGE_LIMITS);
            }
        }
    }
    free((void *)stages);
    free(pids);
    free(bytes);
}

/* Whether processes are looked at: some may be over a limit. */
static bool
has_limits(const struct fy_server *server)
{
    return server->left_some &&
           (server->options->memory_bytes || server->options->seconds > 0);
}

static uint64_t
sooner(uint64_t one, uint64_t other)
{
    return one == 0 || (other && other < one) ? other : one;
}

/* Whether what it said waits for a reader who is there, but has no room: a pager
 * may take its time. */
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
    if (has_limits(server) && now >= server->memory_ns) {
        check_processes(server);
        server->memory_ns = now + 250 * UINT64_C(1000000);
    }
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
        if (at->limits.deadline_ns && now >= at->limits.deadline_ns) {
            at->limits.deadline_ns = 0;
            /* What has its output open; a reader may take its time. */
            if (at->state != FY_STAGE_EXITED ||
                fy_descendants_signal(getpid(), at->run.pid, SIGKILL)) {
                fy_server_stage_fail(at, FY_STAGE_LIMITS);
                continue;
            }
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
    if (has_limits(server)) {
        next_ns = sooner(next_ns, server->memory_ns);
    }
    return next_ns;
}
