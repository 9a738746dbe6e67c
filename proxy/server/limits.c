/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this host grants: memory and seconds of a stage and of what it leaves behind,
 * by control groups and by looking at processes; and what else is due by the clock.
 * A job looks at the processes, since that takes as long as this host has some.
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
    if (stages && pids && server->looks.left_some) {
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

/* A group, and what its processes hold resident. */
struct holding {
    uint64_t number;
    uint64_t bytes;
    bool any; /* process */
};

struct look {
    struct fy_job job; /* first */
    uint64_t launched; /* the server's, when it began */
    size_t nstages, ngroups;
    pid_t *pids; /* of the stages, as numbers and bytes are */
    uint64_t *numbers, *bytes;
    struct holding *groups;
    struct fy_strays strays;
    pid_t members[FY_STRAYS_MAX];
};

/* Its processes are no strays. */
static void
measure_group(struct look *look, struct holding *group)
{
    struct fy_strays *strays = &look->strays;
    uint64_t pages = 0;
    size_t n = fy_group_list(&look->job.server->groups, group->number,
                             look->members, FY_STRAYS_MAX);
    for (size_t i = 0; i < n; i++) {
        char path[32];
        struct fy_process process;
        (void)snprintf(path, sizeof path, "/proc/%d", (int)look->members[i]);
        if (fy_process_read(AT_FDCWD, path, &process)) {
            pages += process.resident_pages;
        }
        for (unsigned j = 0; j < strays->n; j++) {
            if (strays->rows[j].pid == look->members[i]) {
                strays->bytes -= strays->rows[j].bytes;
                strays->rows[j] = strays->rows[--strays->n];
            }
        }
    }
    group->bytes = pages * (uint64_t)sysconf(_SC_PAGESIZE);
    group->any = n > 0;
}

static void
run_look(struct fy_job *job)
{
    struct look *look = (struct look *)job;
    fy_descendants_look(look->pids, look->nstages, look->bytes, &look->strays);
    for (size_t i = 0; i < look->ngroups; i++) {
        measure_group(look, &look->groups[i]);
    }
}

/* Each is as large and as old as its stage may be, whether that is over or not. False:
 * it was empty, and is gone. */
static bool
check_group(struct fy_server *server, const struct fy_server_group *group,
            const struct holding *found)
{
    uint64_t limit = server->options->memory_bytes;
    struct fy_server_stage *stage = fy_server_stage_find(server, group->stage);
    bool over = !stage || stage->limits.group != group->number ||
                stage->state == FY_STAGE_OVER;
    bool large = limit && found->bytes > limit;
    bool old =
        over && group->deadline_ns && fy_clock_ns() >= group->deadline_ns;
    if (found->any && (large || old)) {
        fy_group_kill(&server->groups, group->number);
    }
    if (large && !over && !stage->end.failed) {
        fy_server_stage_fail(stage, FY_STAGE_LIMITS);
    }
    return !over || !fy_group_remove(&server->groups, group->number);
}

static void
check_groups(struct fy_server *server, const struct look *look)
{
    struct fy_server_group **link = &server->grouped;
    while (*link) {
        struct fy_server_group *group = *link;
        size_t i = 0;
        while (i < look->ngroups && look->groups[i].number != group->number) {
            i++;
        }
        if (i == look->ngroups ||
            check_group(server, group, &look->groups[i])) {
            link = &group->next;
        } else {
            *link = group->next;
            free(group);
        }
    }
}

/* Together they are one command more: as long and as large as one may be. Its number
 * may be another's since the job has read it. */
static void
check_strays(struct fy_server *server, const struct fy_strays *strays)
{
    const struct fy_proxy_options *options = server->options;
    uint64_t now = fy_clock_ns();
    if (strays->n == 0) {
        server->looks.strays_ns = 0;
        return;
    }
    server->looks.strays_ns =
        server->looks.strays_ns ? server->looks.strays_ns : now;
    bool large = options->memory_bytes && strays->bytes > options->memory_bytes;
    bool old = options->seconds > 0 && now - server->looks.strays_ns >=
                                           (uint64_t)(options->seconds * 1e9);
    for (unsigned i = 0; (large || old) && i < strays->n; i++) {
        const struct fy_process stray = {.pid = strays->rows[i].pid,
                                         .start = strays->rows[i].start};
        fy_process_signal(&stray, UINT64_C(1) << (SIGKILL - 1));
    }
}

static void
free_look(struct look *look)
{
    if (look) {
        free(look->pids);
        free(look->bytes);
        free(look->numbers);
        free(look->groups);
        free(look);
    }
}

static void
finish_look(struct fy_job *job)
{
    struct look *look = (struct look *)job;
    struct fy_server *server = job->server;
    uint64_t limit = server->options->memory_bytes;
    server->looks.measures = false;
    server->looks.left_some = look->strays.n > 0 || look->nstages > 0 ||
                              server->running > 0 || server->grouped ||
                              server->looks.launched != look->launched;
    check_groups(server, look);
    check_strays(server, &look->strays);
    for (size_t i = 0; limit && i < look->nstages; i++) {
        struct fy_server_stage *stage =
            look->bytes[i] > limit
                ? fy_server_stage_find(server, look->numbers[i])
                : NULL;
        if (stage && stage->run.pid == look->pids[i] && !stage->end.failed) {
            fy_server_stage_fail(stage, FY_STAGE_LIMITS);
        }
    }
    free_look(look);
}

/* What is looked at: the stages that may have processes, and the groups. */
static bool
list_all(struct fy_server *server, struct look *look)
{
    size_t n = 0, most = server->running + 1;
    struct fy_server_stage **stages = calloc(most, sizeof *stages);
    for (const struct fy_server_group *at = server->grouped; at;
         at = at->next) {
        look->ngroups++;
    }
    look->pids = calloc(most, sizeof *look->pids);
    look->bytes = calloc(most, sizeof *look->bytes);
    look->numbers = calloc(most, sizeof *look->numbers);
    look->groups = calloc(look->ngroups + 1, sizeof *look->groups);
    bool all =
        stages && look->pids && look->bytes && look->numbers && look->groups;
    if (all) {
        look->nstages = list_stages(server, stages, look->pids);
    }
    for (size_t i = 0; all && i < look->nstages; i++) {
        look->numbers[i] = stages[i]->number;
    }
    for (const struct fy_server_group *at = server->grouped; all && at;
         at = at->next) {
        look->groups[n++].number = at->number;
    }
    free((void *)stages);
    return all;
}

/* Unless one is on its way. */
static void
start_look(struct fy_server *server)
{
    struct look *look = server->looks.measures ? NULL : calloc(1, sizeof *look);
    if (!look) {
        return;
    }
    look->job = (struct fy_job){
        .server = server, .run = run_look, .finish = finish_look};
    look->launched = server->looks.launched;
    server->looks.measures =
        list_all(server, look) && fy_look_start(&look->job) == 0;
    if (!server->looks.measures) {
        free_look(look);
    }
}

/* Whether processes are looked at: some may be over a limit. */
static bool
has_limits(const struct fy_server *server)
{
    return server->looks.left_some &&
           (server->options->memory_bytes || server->options->seconds > 0);
}

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

/* A process that keeps the stage's output open is over its time; a reader may
 * take its own. */
static void
check_output(struct fy_server_stage *stage, unsigned found)
{
    if (found && stage->state == FY_STAGE_EXITED) {
        fy_server_stage_fail(stage, FY_STAGE_LIMITS);
        fy_descent_signal(stage, SIGKILL, NULL);
    }
}

uint64_t
fy_server_timers(struct fy_server *server)
{
    uint64_t now = fy_clock_ns(), next_ns = 0;
    if (has_limits(server) && now >= server->looks.measure_ns) {
        start_look(server);
        server->looks.measure_ns = now + 250 * UINT64_C(1000000);
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
            if (at->state == FY_STAGE_EXITED) {
                fy_descent_signal(at, 0, check_output);
            } else {
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
        next_ns = sooner(next_ns, server->looks.measure_ns);
    }
    return next_ns;
}
