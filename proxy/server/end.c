/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bringing stages to their end: because the client does not want them any more,
 * because they are over this host's limits, because the connection is gone. A
 * stage first loses its readers, then is asked, then is made to end.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/debug.h"
#include "proxy/server/server.h"
#include "proxy/wire/process.h"

static bool
has_no_process(const struct fy_server_stage *stage)
{
    return stage->state == FY_STAGE_WAITING ||
           stage->state == FY_STAGE_CHECKING;
}

static void
signal_group(const struct fy_server_stage *stage, int signal)
{
    if (stage->state == FY_STAGE_STARTING || stage->state == FY_STAGE_RUNNING) {
        /* The leader is not reaped: the number is its. It may not have made
         * its group yet. */
        if (kill(-stage->run.pid, signal) < 0) {
            (void)kill(stage->run.pid, signal);
        }
    } else if (stage->state == FY_STAGE_EXITED) {
        (void)fy_descendants_signal(getpid(), stage->run.pid, signal);
    }
}

/* As the kernel keeps them: a stop and a continuation undo each other. */
static void
keep_signal(struct fy_server_stage *stage, int signal)
{
    const uint64_t stop = UINT64_C(1) << (SIGSTOP - 1);
    const uint64_t go_on = UINT64_C(1) << (SIGCONT - 1);
    if (signal == SIGSTOP) {
        stage->kept_signals &= ~go_on;
    } else if (signal == SIGCONT) {
        stage->kept_signals &= ~stop;
    }
    stage->kept_signals |= UINT64_C(1) << (signal - 1);
}

/* Whether it ends a process that does not care. */
static bool
ends(int signal)
{
    return signal != SIGCONT && signal != SIGSTOP && signal != SIGWINCH &&
           signal != SIGUSR1 && signal != SIGUSR2 && signal != SIGCHLD &&
           signal != SIGURG;
}

void
fy_server_stage_signal(struct fy_server_stage *stage, int signal)
{
    /* A session of its own is an orphaned one, where the terminal's stops are
     * not obeyed; the client saw one that was. */
    if (signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU) {
        signal = SIGSTOP;
    }
    stage->killed |= signal == SIGKILL;
    stage->signalled = true;
    stage->last_signal = ends(signal) ? signal : stage->last_signal;
    if (stage->state == FY_STAGE_EXITED) {
        fy_pump_out(stage);
        fy_server_stage_settle(stage);
    }
    if (has_no_process(stage)) {
        keep_signal(stage, signal);
    } else {
        signal_group(stage, signal);
    }
}

void
fy_server_stage_signal_kept(struct fy_server_stage *stage)
{
    for (int signal = 1; stage->kept_signals; signal++) {
        uint64_t bit = UINT64_C(1) << (signal - 1);
        if (stage->kept_signals & bit) {
            stage->kept_signals &= ~bit;
            signal_group(stage, signal);
        }
    }
}

/* First its output goes, then it is asked, then it is made to end. */
static void
next_step(struct fy_server_stage *stage)
{
    static const unsigned waits_ms[] = {100, 500, 1000};
    uint64_t now = fy_clock_ns();
    if (stage->kill_step == 1) {
        signal_group(stage, SIGTERM);
        signal_group(stage, SIGCONT);
    } else if (stage->kill_step >= 2) {
        stage->killed = true;
        (void)fy_descendants_signal(getpid(), stage->run.pid, SIGKILL);
        signal_group(stage, SIGKILL);
        fy_group_kill(&stage->server->groups, stage->group);
    }
    unsigned last = sizeof waits_ms / sizeof waits_ms[0] - 1;
    unsigned step = stage->kill_step < last ? stage->kill_step : last;
    stage->kill_step++;
    stage->kill_ns = now + waits_ms[step] * UINT64_C(1000000);
}

void
fy_server_stage_abandon(struct fy_server_stage *stage)
{
    if (stage->state == FY_STAGE_OVER || stage->abandoned) {
        return;
    }
    stage->abandoned = true;
    if (stage->state == FY_STAGE_CHECKING) {
        fy_server_stage_unlink(stage);
    }
    if (has_no_process(stage)) {
        fy_server_stage_leave(stage);
        fy_server_stage_enter(stage, FY_STAGE_OVER);
        stage->server->running--;
        fy_server_stage_discard(stage);
        return;
    }
    /* Its readers are gone, so it ends as it would here. Its input stays open:
     * an end that is none would make its result look whole. */
    if (!stage->out_linked) {
        fy_watch_close(stage, &stage->out, &stage->run.out);
    }
    fy_watch_close(stage, &stage->err, &stage->run.err);
    stage->kill_step = stage->failed || stage->state == FY_STAGE_EXITED;
    next_step(stage);
    fy_server_stage_settle(stage);
}

/* The proxy ends it: so must what reads from it, which would see an end of
 * input that is none. */
void
fy_server_stage_fail(struct fy_server_stage *stage, unsigned reason)
{
    struct fy_server *server = stage->server;
    if (stage->failed) {
        return;
    }
    fy_debug(SERVER, "stage %llu is ended by the proxy: %s",
             (unsigned long long)stage->number, fy_stage_reason_word(reason));
    stage->failed = reason;
    fy_server_stage_abandon(stage);
    struct fy_server_stage *next;
    for (struct fy_server_stage *at = server->stages; at; at = next) {
        next = at->next;
        if (at->spec.in.kind == FY_STREAM_LINK &&
            at->spec.in.stage == stage->number &&
            (at->state == FY_STAGE_STARTING || at->state == FY_STAGE_RUNNING ||
             at->state == FY_STAGE_EXITED)) {
            fy_server_stage_fail(at, reason);
        }
    }
}

/* ---- the clock ------------------------------------------------------------------ */

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
        stage->group = group.number;
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
        bool over = !stage || stage->group != group->number ||
                    stage->state == FY_STAGE_OVER;
        size_t n =
            fy_group_list(&server->groups, group->number, pids, FY_STRAYS_MAX);
        uint64_t bytes = measure_group(pids, n, strays);
        bool large = limit && bytes > limit;
        if (n && (large ||
                  (over && group->deadline_ns && now >= group->deadline_ns))) {
            fy_group_kill(&server->groups, group->number);
        }
        if (large && !over && !stage->failed) {
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
            if (bytes[i] > limit && !stages[i]->failed) {
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
        if (has_no_process(at) && at->deadline_ns && now >= at->deadline_ns) {
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
        if (at->kill_ns && now >= at->kill_ns) {
            next_step(at);
        }
        if (at->deadline_ns && now >= at->deadline_ns) {
            at->deadline_ns = 0;
            /* What has its output open; a reader may take its time. */
            if (at->state != FY_STAGE_EXITED ||
                fy_descendants_signal(getpid(), at->run.pid, SIGKILL)) {
                fy_server_stage_fail(at, FY_STAGE_LIMITS);
                continue;
            }
        }
        if (at->err_end_ns && now >= at->err_end_ns) {
            bool wanted = err_is_wanted(at);
            at->err_end_ns = 0; /* once more, from now on */
            if (!wanted) {
                fy_watch_close(at, &at->err, &at->run.err);
            }
            fy_server_stage_settle(at);
            if (!wanted) {
                continue;
            }
        }
        next_ns = sooner(next_ns, at->kill_ns);
        next_ns = sooner(next_ns, at->deadline_ns);
        next_ns = sooner(next_ns, at->err_end_ns);
    }
    if (has_limits(server)) {
        next_ns = sooner(next_ns, server->memory_ns);
    }
    return next_ns;
}

/* ---- the connection's end --------------------------------------------------------- */

/* Whether this process has no children left. */
static bool
alone(struct fy_server *server)
{
    siginfo_t info = {0};
    fy_server_reap(server);
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WNOTHREAD) <
               0 &&
           errno == ECHILD;
}

void
fy_server_end_stages(struct fy_server *server)
{
    static const struct timespec pause = {.tv_nsec = 5000000};
    struct fy_server_stage *next;
    for (struct fy_server_stage *at = server->stages; at; at = next) {
        next = at->next;
        at->killed = true;
        fy_server_stage_abandon(at);
    }
    if (!alone(server)) {
        (void)fy_descendants_signal(getpid(), 0, SIGTERM);
        (void)fy_descendants_signal(getpid(), 0, SIGCONT);
    }
    /* Time to remove temporary files; then no more. What cannot be killed waits
     * in the kernel for a disk, and is not waited for. */
    for (unsigned i = 0; i < 1000 && !alone(server); i++) {
        if (i >= 60) {
            (void)fy_descendants_signal(getpid(), 0, SIGKILL);
        }
        (void)nanosleep(&pause, NULL);
    }
    while (server->grouped) {
        struct fy_server_group *group = server->grouped;
        server->grouped = group->next;
        free(group);
    }
    fy_groups_close(&server->groups);
}
