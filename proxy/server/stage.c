/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The result of a stage: once its process has ended and its output was read to
 * the end, the trailers say how. A stage that the proxy itself ended says so and
 * nothing of exit statuses, so that the client takes it for lost and not for
 * done. What had effects is remembered for a while, for /touched.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/debug.h"
#include "proxy/server/server.h"
#include "proxy/server/split.h"
#include "proxy/wire/process.h"
#include "proxy/wire/protocol.h"

enum {
    KEPT_STAGES = 64, /* that ended, for /touched */
    KEPT_BYTES = 32 << 20,
    STDERR_PATIENCE_S = 10, /* for its reader, or a process that stayed */
};

void
fy_server_stage_enter(struct fy_server_stage *stage, enum fy_stage_state state)
{
    static const char *const words[] = {"waits", "is checked", "starts",
                                        "runs",  "exited",     "over"};
    fy_debug(SERVER, "stage %llu, pid %d: %s -> %s",
             (unsigned long long)stage->number, (int)stage->run.pid,
             words[stage->state], words[state]);
    stage->state = state;
}

struct fy_server_stage *
fy_server_stage_find(struct fy_server *server, uint64_t number)
{
    struct fy_server_stage *stage = server->stages;
    while (stage && stage->number != number) {
        stage = stage->next;
    }
    return stage;
}

void
fy_server_stage_free(struct fy_server_stage *stage)
{
    if (stage->jobs) {
        stage->orphaned = true;
        return;
    }
    fy_run_clear(&stage->run);
    fy_run_close(&stage->in_left);
    fy_run_close(&stage->io);
    fy_cage_free(stage->cage);
    fy_invocation_clear(&stage->invocation);
    fy_stage_spec_clear(&stage->spec);
    fy_squeeze_free(stage->squeeze);
    fy_before_free(stage->before);
    free(stage->queue.bytes);
    free(stage->spec_bytes);
    free(stage);
}

/* Out of the list; freed when nothing can point at it any more. */
void
fy_server_stage_discard(struct fy_server_stage *stage)
{
    *stage->link = stage->next;
    if (stage->next) {
        stage->next->link = stage->link;
    }
    stage->dead_next = stage->server->dead;
    stage->server->dead = stage;
}

void
fy_server_stage_leave(struct fy_server_stage *stage)
{
    if (stage->out_exchange) {
        stage->out_exchange->stage = NULL;
    }
    if (stage->err_exchange) {
        stage->err_exchange->stage = NULL;
    }
    stage->out_exchange = stage->err_exchange = NULL;
}

void
fy_watch_close(struct fy_server_stage *stage, struct fy_watch *watch, int *fd)
{
    fy_watch_set(stage->server, watch, 0);
    watch->fd = -1;
    fy_run_close(fd);
}

/* ---- its end ------------------------------------------------------------------- */

/* The oldest of those that are only kept for their list of changes. */
static void
forget_oldest(struct fy_server *server)
{
    struct fy_server_stage *oldest = NULL;
    for (struct fy_server_stage *at = server->stages; at; at = at->next) {
        if (at->state == FY_STAGE_OVER) {
            oldest = at; /* new ones are put at the front */
        }
    }
    if (oldest) {
        server->over--;
        server->over_bytes -= oldest->nspec_bytes;
        fy_server_stage_discard(oldest);
    }
}

static bool
has_effects(const struct fy_server_stage *stage)
{
    bool writes = stage->invocation.effect || stage->invocation.writes_cwd ||
                  stage->spec.out.kind == FY_STREAM_FILE ||
                  stage->spec.err.kind == FY_STREAM_FILE;
    for (uint32_t i = 0; !writes && i < stage->invocation.nuses; i++) {
        writes = stage->invocation.uses[i].access != FY_ACCESS_IN;
    }
    return writes;
}

static void
over(struct fy_server_stage *stage)
{
    struct fy_server *server = stage->server;
    fy_watch_close(stage, &stage->started, &stage->run.started);
    fy_watch_close(stage, &stage->in, &stage->run.in);
    fy_watch_close(stage, &stage->out, &stage->run.out);
    fy_watch_close(stage, &stage->err, &stage->run.err);
    fy_run_clear(&stage->run);
    if (stage->err_exchange && !stage->err_exchange->finished) {
        fy_exchange_finish(stage->err_exchange, NULL, 0);
    }
    fy_server_stage_leave(stage);
    fy_cage_free(stage->cage);
    stage->cage = NULL;
    fy_server_stage_enter(stage, FY_STAGE_OVER);
    server->running--;
    if (!has_effects(stage)) {
        fy_server_stage_discard(stage);
        return;
    }
    server->over++;
    server->over_bytes += stage->nspec_bytes;
    while (server->over > KEPT_STAGES || server->over_bytes > KEPT_BYTES) {
        forget_oldest(server);
    }
}

struct trailers {
    struct fy_wire_pair pairs[10];
    char values[10][24];
    size_t n;
};

static void
add_trailer(struct trailers *trailers, const char *name, uint64_t value)
{
    char *text = trailers->values[trailers->n];
    (void)snprintf(text, sizeof trailers->values[0], "%" PRIu64, value);
    trailers->pairs[trailers->n++] = (struct fy_wire_pair){name, text};
}

/* The stage that it reads, if there is one. */
static struct fy_server_stage *
feeder_of(const struct fy_server_stage *stage)
{
    return stage->spec.in.kind == FY_STREAM_LINK
               ? fy_server_stage_find(stage->server, stage->spec.in.stage)
               : NULL;
}

static bool
is_dying(const struct fy_server_stage *stage)
{
    char path[32];
    struct fy_process process;
    (void)snprintf(path, sizeof path, "/proc/%d", (int)stage->run.pid);
    return !fy_process_read(AT_FDCWD, path, &process) || process.exiting ||
           process.state == 'Z';
}

/*
 * Whether what fed it is about to end, itself or what feeds that: its pipe was
 * closed, and it is not known yet whether the end of input was one. A process
 * says that it dies before it closes anything.
 */
bool
fy_server_stage_doubts(const struct fy_server_stage *stage)
{
    const struct fy_server_stage *feeder = stage;
    while ((feeder = feeder_of(feeder)) && feeder->state == FY_STAGE_EXITED) {
    }
    return feeder && !feeder->failed &&
           (feeder->state == FY_STAGE_STARTING ||
            feeder->state == FY_STAGE_RUNNING) &&
           is_dying(feeder);
}

/* Whether its output goes through this process. */
static bool
is_pumped(const struct fy_server_stage *stage)
{
    return !stage->out_linked && (stage->spec.out.kind == FY_STREAM_WIRE ||
                                  stage->spec.out.kind == FY_STREAM_PTY);
}

/*
 * What it read of its input. A stage without effects reads again what it wrote
 * besides its output: temporary files (sort), pipes between copies (split.c).
 */
static uint64_t
net_read_bytes(const struct fy_server_stage *stage, uint64_t output)
{
    uint64_t again = !has_effects(stage) && stage->written_bytes > output
                         ? stage->written_bytes - output
                         : 0;
    return stage->read_bytes > again ? stage->read_bytes - again : 0;
}

static void
send_trailers(struct fy_server_stage *stage)
{
    struct trailers trailers = {.n = 0};
    if (stage->failed) {
        trailers.pairs[trailers.n++] = (struct fy_wire_pair){
            FY_FIELD_REASON, fy_stage_reason_word(stage->failed)};
    } else if (WIFSIGNALED(stage->status)) {
        add_trailer(&trailers, FY_FIELD_DEATH,
                    (uint64_t)WTERMSIG(stage->status));
    } else {
        add_trailer(&trailers, FY_FIELD_EXIT,
                    (uint64_t)WEXITSTATUS(stage->status));
    }
    if (stage->offsets[0] >= 0) {
        add_trailer(&trailers, FY_FIELD_STDIN_OFFSET,
                    (uint64_t)stage->offsets[0]);
    }
    if (stage->offsets[1] >= 0) {
        add_trailer(&trailers, FY_FIELD_STDOUT_OFFSET,
                    (uint64_t)stage->offsets[1]);
    }
    if (stage->offsets[2] >= 0) {
        add_trailer(&trailers, FY_FIELD_STDERR_OFFSET,
                    (uint64_t)stage->offsets[2]);
    }
    add_trailer(&trailers, FY_FIELD_CPU_NS, stage->cpu_ns);
    add_trailer(&trailers, FY_FIELD_IN_BYTES, stage->in_bytes);
    uint64_t written =
        is_pumped(stage) ? stage->out_bytes : stage->written_bytes;
    add_trailer(&trailers, FY_FIELD_OUT_BYTES, written);
    if (stage->read_bytes) {
        add_trailer(&trailers, FY_FIELD_READ_BYTES,
                    net_read_bytes(stage, written));
    }
    if (stage->spec.in.kind == FY_STREAM_LINK) {
        const struct fy_server_stage *feeder = feeder_of(stage);
        add_trailer(&trailers, FY_FIELD_FEEDER,
                    !feeder || feeder->state >= FY_STAGE_EXITED);
    }
    struct fy_wire_counters counters;
    fy_wire_counters(stage->server->wire, &counters);
    if (counters.link_rate) {
        add_trailer(&trailers, FY_FIELD_RATE, counters.link_rate);
    }
    fy_exchange_finish(stage->out_exchange, trailers.pairs, trailers.n);
    fy_server_touched_wanted(stage);
}

/* Sends the trailers, or forgets the stage, once there is nothing to wait for. */
void
fy_server_stage_settle(struct fy_server_stage *stage)
{
    const struct fy_exchange *exchange = stage->out_exchange;
    if (stage->state != FY_STAGE_EXITED) {
        return;
    }
    if (exchange && !exchange->finished) {
        if (!stage->failed &&
            (stage->out.fd >= 0 || fy_server_stage_doubts(stage))) {
            return;
        }
        send_trailers(stage);
    }
    /* The client asks for stderr with the stage, but that may come later. */
    if (stage->err.fd >= 0 && !stage->abandoned) {
        if (stage->err_end_ns == 0) {
            double most = stage->server->options->wait_seconds;
            most =
                most > 0 && most < STDERR_PATIENCE_S ? most : STDERR_PATIENCE_S;
            stage->err_end_ns = fy_clock_ns() + (uint64_t)(most * 1e9);
        }
        return;
    }
    over(stage);
}

void
fy_server_stage_detach(struct fy_server_stage *stage,
                       const struct fy_exchange *exchange)
{
    if (exchange == stage->err_exchange) {
        stage->err_exchange = NULL;
        fy_watch_close(stage, &stage->err, &stage->run.err);
        fy_server_stage_settle(stage);
        return;
    }
    stage->out_exchange = NULL;
    if (!exchange->finished) {
        fy_server_stage_abandon(stage);
    }
}

void
fy_server_stage_count(struct fy_server_stage *stage)
{
    char path[64];
    /* The file of an ended process belongs to root, so it is opened at the fork. An
     * open one is read by the process's own user as well. */
    (void)snprintf(path, sizeof path, "/proc/%d/io", (int)stage->run.pid);
    stage->io = open(path, O_RDONLY | O_CLOEXEC);
}

/* What it read and wrote in all, once it has ended; not reaped yet. */
static void
count_io(struct fy_server_stage *stage)
{
    struct fy_process_io io;
    if (fy_process_io(stage->run.pid, stage->io, &io)) {
        stage->read_bytes = io.read_bytes;
        stage->written_bytes = io.written_bytes;
    }
    fy_run_close(&stage->io);
}

static void
exited(struct fy_server_stage *stage, int status, const struct rusage *usage)
{
    stage->status = status;
    stage->cpu_ns =
        (uint64_t)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) *
            UINT64_C(1000000000) +
        (uint64_t)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) * 1000;
    for (int i = 0; i < 3; i++) {
        if (stage->run.files[i] >= 0) {
            stage->offsets[i] = lseek(stage->run.files[i], 0, SEEK_CUR);
        }
    }
    fy_pump_in_settle(stage);
    fy_server_stage_enter(stage, FY_STAGE_EXITED);
    /* Nobody asked for that: the kernel ran out of memory, or this host's
     * owner wants it gone. Not the command's own end. */
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && !stage->killed) {
        fy_server_stage_fail(stage, FY_STAGE_LIMITS);
    }
    if (stage->spec.copies > 1 && WIFEXITED(status) &&
        WEXITSTATUS(status) == FY_SPLIT_LOST) {
        fy_server_stage_fail(stage, FY_STAGE_LIMITS);
    }
    if (stage->abandoned) {
        (void)fy_descendants_signal(getpid(), stage->run.pid, SIGKILL);
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
    while ((pid = find_ended()) != 0) {
        struct fy_server_stage *stage = server->stages;
        while (stage &&
               (stage->run.pid != pid || (stage->state != FY_STAGE_STARTING &&
                                          stage->state != FY_STAGE_RUNNING))) {
            stage = stage->next;
        }
        if (stage && stage->io >= 0) {
            count_io(stage);
        }
        int status;
        struct rusage usage;
        pid_t reaped;
        do {
            reaped = wait4(pid, &status, 0, &usage);
        } while (reaped < 0 && errno == EINTR);
        if (reaped != pid) {
            continue; /* a job that had started it has waited for it by now */
        }
        if (stage) {
            if (stage->state == FY_STAGE_STARTING && stage->started.fd >= 0) {
                /* What became of its exec is in the pipe by now. */
                stage->started.ready(stage, EPOLLIN);
            }
            exited(stage, status, &usage);
            any = true;
        }
    }
    /* Only now: a stage's end may be owed to that of the one before it. */
    struct fy_server_stage *next;
    for (struct fy_server_stage *at = server->stages; any && at; at = next) {
        next = at->next;
        if (at->state == FY_STAGE_EXITED ||
            at->spec.in.kind == FY_STREAM_LINK) {
            fy_pump_out(at);
            fy_pump_err(at);
            fy_server_stage_settle(at);
        }
    }
}
