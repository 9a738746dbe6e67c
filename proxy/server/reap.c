/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that have ended: their status and offsets go into the stage's result. A
 * death by SIGKILL that neither client nor proxy asked for counts as a failure of
 * this host. At the connection's end all that descends from the proxy is ended.
 */
#include "config.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "proxy/server/server.h"
#include "proxy/server/split.h"
#include "proxy/wire/process.h"

/* At one go: a stage may have left thousands. */
#define REAP_NS (20 * UINT64_C(1000000))

static void
exited(struct fy_server_stage *stage, int status)
{
    stage->result.status = status;
    for (int i = 0; i < 3; i++) {
        if (stage->run.files[i] >= 0) {
            stage->result.offsets[i] = lseek(stage->run.files[i], 0, SEEK_CUR);
        }
    }
    fy_pump_in_settle(stage);
    fy_server_stage_event(stage, FY_STAGE_HAS_EXITED);
    /* Neither client nor proxy did that: the kernel ran out of memory, or this host's
     * owner wants it gone. Not the command's own end. */
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL &&
        !stage->end.killed) {
        fy_server_stage_fail(stage, FY_STAGE_LIMITS);
    }
    if (stage->spec.copies > 1 && WIFEXITED(status) &&
        WEXITSTATUS(status) == FY_SPLIT_LOST) {
        fy_server_stage_fail(stage, FY_STAGE_LIMITS);
    }
    if (stage->end.abandoned) {
        fy_descent_signal(stage, SIGKILL, NULL);
    }
}

/* A child that has ended, or 0. Jobs wait for their own. */
static pid_t
find_ended(void)
{
    siginfo_t info = {0};
    int status;
    do {
        status =
            waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WNOTHREAD);
    } while (status < 0 && errno == EINTR);
    return status == 0 ? info.si_pid : 0;
}

void
fy_server_reap(struct fy_server *server)
{
    bool any = false;
    pid_t pid;
    uint64_t until = fy_clock_ns() + REAP_NS;
    server->unreaped = false;
    while ((pid = find_ended()) != 0) {
        if (fy_clock_ns() >= until) {
            server->unreaped = true;
            break;
        }
        struct fy_server_stage *stage = server->stages;
        while (stage &&
               (stage->run.pid != pid || (stage->state != FY_STAGE_STARTING &&
                                          stage->state != FY_STAGE_RUNNING))) {
            stage = stage->next;
        }
        if (stage && stage->result.io >= 0) {
            fy_server_stage_counted(stage);
        }
        int status;
        pid_t reaped;
        do {
            reaped = wait4(pid, &status, 0, NULL);
        } while (reaped < 0 && errno == EINTR);
        if (reaped != pid) {
            continue; /* a job that had started it has waited for it by now */
        }
        if (stage) {
            if (stage->state == FY_STAGE_STARTING && stage->started.fd >= 0) {
                /* The result of its exec is in the pipe by now. */
                stage->started.ready(stage, EPOLLHUP);
            }
            exited(stage, status);
            any = true;
        }
    }
    /* Only now: a stage's end may be owed to that of the one before it. */
    struct fy_server_stage *next;
    for (struct fy_server_stage *at = server->stages; any && at; at = next) {
        next = at->next;
        if (at->state == FY_STAGE_EXITED ||
            at->spec.in.kind == FY_STREAM_LINK) {
            fy_server_stage_output(at);
            fy_pump_err(at);
            fy_server_stage_settle(at);
        }
    }
}

/* To all that descends from this process, but for a files process that may go on. */
static void
signal_all(const struct fy_server *server, int signal)
{
    struct fy_descent all = {.signals = UINT64_C(1) << (signal - 1),
                             .others = server->lingers};
    fy_descendants_deliver(getpid(), &all);
}

/* Whether this process has no children left, but for files processes. */
static bool
alone(struct fy_server *server)
{
    siginfo_t info = {0};
    fy_server_reap(server);
    if (server->lingers) {
        return fy_strays_count() == 0;
    }
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
        at->end.killed = true;
        fy_server_stage_abandon(at);
    }
    if (!alone(server)) {
        signal_all(server, SIGTERM);
        signal_all(server, SIGCONT);
    }
    /* Time to remove temporary files; then no more. A process that cannot be
     * killed waits in the kernel for a disk, and is not waited for. */
    for (unsigned i = 0; i < 1000 && !alone(server); i++) {
        if (i >= 60) {
            signal_all(server, SIGKILL);
        }
        (void)nanosleep(&pause, NULL);
    }
}
