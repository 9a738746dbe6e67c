/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Beginning a stage that was admitted: a job reads its words by this host's annotations
 * and checks by sandbox/sandbox.h the files that it may touch, then its process is
 * started, and it is accepted when that has exec'd. A stage that reads another one waits
 * until the other has started, and so do streams that ask for its stderr or for its
 * changes.
 */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "proxy/server/server.h"
#include "proxy/wire/protocol.h"

enum {
    /* For the stage that another one reads: on its way or starting, unless the
     * client is broken; and for files that do not answer. */
    WAIT_SECONDS = 60,
};

static void
refuse(struct fy_server_stage *stage, int status, unsigned reason,
       const char *why)
{
    if (stage->out_exchange) {
        fy_exchange_refuse(stage->out_exchange, status, reason, why);
    }
}

static void
on_started(void *owner, uint32_t events)
{
    struct fy_server_stage *stage = owner;
    int error = 0;
    ssize_t n;
    do {
        n = read(stage->started.fd, &error, sizeof error);
    } while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN) {
        if (!(events & EPOLLHUP)) {
            return;
        }
        /* Another thread's child still holds the other end, which it got by its fork. */
        n = 0;
    }
    fy_watch_close(stage, &stage->started, &stage->run.started);
    fy_server_stage_event(stage, FY_STAGE_HAS_EXECED);
    fy_server_stage_linked(stage, n == 0 && !stage->end.abandoned);
    if (n != 0) {
        char why[256];
        errno = n == sizeof error ? error : EIO;
        (void)snprintf(why, sizeof why, "it could not be executed: %m");
        refuse(stage, 409,
               error == ENOENT || error == EACCES || error == ENOEXEC
                   ? FY_STAGE_OTHER_TOOL
                   : FY_STAGE_LIMITS,
               why);
        stage->end.killed = true;
        fy_server_stage_abandon(stage);
    } else if (stage->out_exchange) {
        struct fy_exchange *exchange = stage->out_exchange;
        const struct fy_wire_pair pair = {FY_FIELD_ENCODING, FY_ENCODING_ZSTD};
        exchange->responded = true;
        if (fy_wire_respond(stage->server->wire, exchange->stream, 200, &pair,
                            stage->pump.squeeze ? 1 : 0, true)) {
            fy_wire_cancel(stage->server->wire, exchange->stream);
        }
        fy_pump_in(stage);
        fy_server_stage_output(stage);
        fy_pump_err(stage);
    }
    fy_server_settle(stage->server);
}

static void
on_in(void *owner, uint32_t events)
{
    (void)events;
    fy_pump_in(owner);
}

static void
on_out(void *owner, uint32_t events)
{
    (void)events;
    fy_server_stage_output(owner);
    fy_server_stage_settle(owner);
}

static void
on_err(void *owner, uint32_t events)
{
    (void)events;
    fy_pump_err(owner);
    fy_server_stage_settle(owner);
}

static struct fy_watch
watch(struct fy_server_stage *stage, int fd,
      void (*ready)(void *owner, uint32_t events))
{
    return (struct fy_watch){.fd = fd, .ready = ready, .owner = stage};
}

/* The check of a stage, and its findings. */
struct check {
    struct fy_job job;
    struct fy_sandbox *sandbox;
    struct fy_before *before;
    int files[3], status;
    bool forbidden; /* rather than not possible now */
    unsigned reason;
    char why[512];
};

static void
run_check(struct fy_job *job)
{
    struct check *check = (struct check *)job;
    struct fy_server_stage *stage = job->stage;
    struct fy_buffer why;
    fy_buffer_start(&why, check->why, sizeof check->why);
    check->status = fy_server_understand(stage, &check->reason, &why);
    if (check->status) {
        check->forbidden = check->reason != FY_STAGE_BUSY;
        return;
    }
    check->reason = FY_STAGE_REFUSED;
    check->status =
        fy_policy_check(job->server->policy, &stage->spec, &stage->invocation,
                        &check->sandbox, check->files, &check->reason, &why);
    check->forbidden = check->status == FY_ERR_UNSUPPORTED;
    if (!check->status && stage->invocation.effect) {
        check->before = fy_touched_before(stage);
    }
}

/* The stage that it reads, whose output is its own by now; *out_fd, or -1: it
 * reads none. False: that is gone. */
static bool
find_link(const struct fy_server_stage *stage, int *out_fd)
{
    *out_fd = -1;
    if (stage->spec.in.kind == FY_STREAM_LINK) {
        const struct fy_server_stage *writer =
            fy_server_stage_find(stage->server, stage->spec.in.stage);
        *out_fd = writer && !writer->end.abandoned ? writer->out.fd : -1;
        return *out_fd >= 0;
    }
    return true;
}

/* Returns true if its command may take the other one's output for paths. */
static bool
is_fed(const struct fy_server_stage *stage)
{
    const struct fy_server_stage *writer = fy_server_stage_feeder(stage);
    if (!stage->invocation.fed) {
        return true;
    }
    if (!writer) {
        return false;
    }
    const struct fy_stage_spec *from = &writer->spec, *to = &stage->spec;
    return fy_invocation_is(&writer->invocation, FY_TRAIT_LISTS) &&
           from->nmounts == 0 && to->nmounts == 0 &&
           strcmp(from->mount.at, to->mount.at) == 0 &&
           strcmp(from->root.at, to->root.at) == 0 &&
           strcmp(from->cwd.at, to->cwd.at) == 0;
}

/* Forks it. FY_ERR_*: it was refused. */
static int
launch(struct fy_server_stage *stage, struct check *check)
{
    struct fy_server *server = stage->server;
    char text[512];
    struct fy_buffer why;
    int link;
    fy_buffer_start(&why, text, sizeof text);
    if (!find_link(stage, &link)) {
        refuse(stage, 409, FY_STAGE_ODD_STREAM,
               "the stage that it reads cannot be linked any more");
        return FY_ERR_INVALID;
    }
    if (!is_fed(stage)) {
        refuse(stage, 409, FY_STAGE_ODD_STREAM,
               "the stage that it reads lists no paths for it");
        return FY_ERR_UNSUPPORTED;
    }
    struct timespec clock;
    (void)clock_gettime(CLOCK_REALTIME_COARSE, &clock);
    stage->touched.began.seconds = clock.tv_sec;
    stage->touched.began.ns = (uint32_t)clock.tv_nsec;
    stage->sandbox = check->sandbox;
    stage->touched.before = check->before;
    check->sandbox = NULL;
    check->before = NULL;
    int status = fy_run_start(&stage->spec, &stage->invocation, stage->sandbox,
                              check->files, link, &stage->run, &why);
    if (status) {
        refuse(stage, 503, FY_STAGE_BUSY, text);
        return status;
    }
    fy_server_stage_event(stage, FY_STAGE_IS_FORKED);
    fy_server_stage_count(stage);
    stage->limits.deadline_ns = 0;
    fy_server_stage_signal_kept(stage);
    stage->started = watch(stage, stage->run.started, on_started);
    stage->in = watch(stage, stage->run.in, on_in);
    stage->out = watch(stage, stage->run.out, on_out);
    stage->err = watch(stage, stage->run.err, on_err);
    (void)fy_loop_watch(&server->loop, &stage->started, EPOLLIN);
    return 0;
}

static void
finish_check(struct fy_job *job)
{
    struct check *check = (struct check *)job;
    struct fy_server_stage *stage = job->stage;
    if (stage->state == FY_STAGE_CHECKING) {
        int status = check->status;
        if (status) {
            refuse(stage, check->forbidden ? 403 : 503,
                   check->forbidden ? check->reason : FY_STAGE_BUSY,
                   check->why);
        } else {
            status = launch(stage, check);
        }
        if (status) {
            fy_server_stage_abandon(stage);
            fy_server_settle(job->server);
        }
    }
    for (int i = 0; i < 3; i++) {
        fy_run_close(&check->files[i]);
    }
    if (check->sandbox) {
        fy_sandbox_free(check->sandbox);
    }
    fy_before_free(check->before);
    free(check);
}

/* For as long as a stage may take before it runs. */
static void
set_patience(struct fy_server_stage *stage)
{
    const struct fy_proxy_options *options = stage->server->options;
    double seconds = options->wait_seconds > 0 ? options->wait_seconds
                                               : (double)WAIT_SECONDS;
    stage->limits.deadline_ns = fy_clock_ns() + (uint64_t)(seconds * 1e9);
}

/* By a job; it goes on in finish_check(). */
static void
begin_check(struct fy_server_stage *stage)
{
    struct check *check = calloc(1, sizeof *check);
    fy_server_stage_event(stage, FY_STAGE_IS_CHECKED);
    set_patience(stage);
    if (check) {
        check->job = (struct fy_job){.server = stage->server,
                                     .stage = stage,
                                     .run = run_check,
                                     .finish = finish_check};
        check->reason = FY_STAGE_REFUSED;
        check->files[0] = check->files[1] = check->files[2] = -1;
    }
    if (!check || fy_job_start(&check->job)) {
        free(check);
        refuse(stage, 503, FY_STAGE_BUSY, "out of memory");
        fy_server_stage_abandon(stage);
    }
}

/* Whether the stages before it never start, as one of them waits for itself. */
static bool
waits_for_ever(const struct fy_server_stage *stage)
{
    for (unsigned n = 0; n < stage->server->running; n++) {
        stage = fy_server_stage_find(stage->server, stage->spec.in.stage);
        if (!stage || stage->state != FY_STAGE_WAITING) {
            return false;
        }
    }
    return true;
}

/* Starts it, if the stage that it reads has started. */
static void
unblock(struct fy_server_stage *stage)
{
    struct fy_server *server = stage->server;
    struct fy_server_stage *writer =
        fy_server_stage_find(server, stage->spec.in.stage);
    const char *why = NULL;
    if (waits_for_ever(stage)) {
        why = "it reads, through others or not, itself";
    } else if (writer ? writer->state < FY_STAGE_RUNNING
                      : fy_server_receiving(server)) {
        return; /* that may still come */
    } else if (!writer) {
        why = "the stage that it reads does not exist";
    } else if (writer->out.fd < 0 || writer->pump.output != FY_OUTPUT_HELD ||
               writer->end.abandoned ||
               writer->spec.out.kind != FY_STREAM_WIRE) {
        why = "the stage that it reads cannot be linked any more";
    }
    if (why) {
        refuse(stage, 409, FY_STAGE_ODD_STREAM, why);
        fy_server_stage_abandon(stage);
        return;
    }
    writer->pump.output = FY_OUTPUT_LINKED;
    begin_check(stage);
}

void
fy_server_stage_begin(struct fy_exchange *exchange, char *bytes, size_t n)
{
    struct fy_server *server = exchange->server;
    struct fy_server_stage *stage = fy_server_admit(exchange, bytes, n);
    if (!stage) {
        return;
    }
    stage->nspec_bytes = n;
    stage->number = stage->spec.stage;
    stage->link = &server->stages;
    stage->next = server->stages;
    if (stage->next) {
        stage->next->link = &stage->next;
    }
    server->stages = stage;
    server->running++;
    stage->out_exchange = exchange;
    exchange->stage = stage;
    /* A reader is started by fy_server_settle(), when its writer runs. */
    if (stage->spec.in.kind == FY_STREAM_LINK) {
        set_patience(stage);
    } else {
        begin_check(stage);
    }
}

/* The exchange reads its stderr from now on. */
static void
join_stderr(struct fy_server_stage *stage, struct fy_exchange *exchange)
{
    exchange->responded = true;
    if (fy_wire_respond(stage->server->wire, exchange->stream, 200, NULL, 0,
                        true)) {
        fy_wire_cancel(stage->server->wire, exchange->stream);
        return;
    }
    if (stage->err_exchange ||
        (stage->state > FY_STAGE_CHECKING && stage->err.fd < 0) ||
        (stage->spec.err.kind != FY_STREAM_WIRE &&
         stage->spec.err.kind != FY_STREAM_PTY)) {
        fy_exchange_finish(exchange, NULL, 0);
        return;
    }
    stage->err_exchange = exchange;
    exchange->stage = stage;
    fy_pump_err(stage);
    fy_server_stage_settle(stage);
}

void
fy_server_settle(struct fy_server *server)
{
    struct fy_exchange *next_exchange;
    if (server->closed) {
        return;
    }
    for (struct fy_exchange *at = server->exchanges; at; at = next_exchange) {
        next_exchange = at->next;
        if ((at->kind != FY_EXCHANGE_STDERR &&
             at->kind != FY_EXCHANGE_TOUCHED) ||
            at->responded) {
            continue;
        }
        struct fy_server_stage *stage =
            fy_server_stage_find(server, at->number);
        if (stage && at->kind == FY_EXCHANGE_STDERR) {
            join_stderr(stage, at);
        } else if (stage) {
            fy_server_touched(stage, at);
        } else if (!fy_server_receiving(server)) {
            fy_exchange_refuse(at, 404, FY_STAGE_REFUSED, "no such stage");
        }
    }
    struct fy_server_stage *next;
    for (struct fy_server_stage *at = server->stages; at; at = next) {
        next = at->next;
        if (at->state == FY_STAGE_WAITING && at->out_exchange &&
            !at->end.abandoned) {
            unblock(at);
        }
    }
}
