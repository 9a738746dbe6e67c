/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One stage from its spec to its trailers. What it may do is decided here by
 * this host's own annotations and by confine.h, never by the client. Once its
 * process has ended and its output was read to the end, the trailers say how;
 * a stage that the proxy itself ended says so and nothing of exit statuses, so
 * that the client takes it for lost and not for done.
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
#include <time.h>
#include <unistd.h>

#include "proxy/server.h"

enum {
    KEPT_STAGES = 64,           /* that ended, for /touched */
    STDERR_PATIENCE_MS = 10000, /* for its reader, or a process that stayed */
};

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
    fy_run_clear(&stage->run);
    fy_run_close(&stage->in_left);
    fy_cage_free(stage->cage);
    fy_invocation_clear(&stage->invocation);
    fy_stage_spec_clear(&stage->spec);
    (void)ZSTD_freeCCtx(stage->zstd);
    free(stage->queue.bytes);
    free(stage->spec_bytes);
    free(stage);
}

/* Out of the list; freed when nothing can point at it any more. */
static void
discard(struct fy_server_stage *stage)
{
    *stage->link = stage->next;
    if (stage->next) {
        stage->next->link = stage->link;
    }
    stage->dead_next = stage->server->dead;
    stage->server->dead = stage;
}

static void
leave_exchanges(struct fy_server_stage *stage)
{
    if (stage->out_exchange) {
        stage->out_exchange->stage = NULL;
    }
    if (stage->err_exchange) {
        stage->err_exchange->stage = NULL;
    }
    stage->out_exchange = stage->err_exchange = NULL;
}

static void
close_watch(struct fy_server_stage *stage, struct fy_watch *watch, int *fd)
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
        discard(oldest);
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
    close_watch(stage, &stage->started, &stage->run.started);
    close_watch(stage, &stage->in, &stage->run.in);
    close_watch(stage, &stage->out, &stage->run.out);
    close_watch(stage, &stage->err, &stage->run.err);
    fy_run_clear(&stage->run);
    if (stage->err_exchange && !stage->err_exchange->finished) {
        fy_exchange_finish(stage->err_exchange, NULL, 0);
    }
    leave_exchanges(stage);
    fy_cage_free(stage->cage);
    stage->cage = NULL;
    stage->state = FY_STAGE_OVER;
    server->running--;
    if (!has_effects(stage)) {
        discard(stage);
        return;
    }
    server->over++;
    if (server->over > KEPT_STAGES) {
        forget_oldest(server);
    }
}

struct trailers {
    struct fy_wire_pair pairs[8];
    char values[8][24];
    size_t n;
};

static void
add_trailer(struct trailers *trailers, const char *name, uint64_t value)
{
    char *text = trailers->values[trailers->n];
    (void)snprintf(text, sizeof trailers->values[0], "%" PRIu64, value);
    trailers->pairs[trailers->n++] = (struct fy_wire_pair){name, text};
}

static void
send_trailers(struct fy_server_stage *stage)
{
    struct trailers trailers = {.n = 0};
    if (stage->failed) {
        trailers.pairs[trailers.n++] = (struct fy_wire_pair){
            "ferry-reason", fy_stage_reason_word(stage->failed)};
    } else if (WIFSIGNALED(stage->status)) {
        add_trailer(&trailers, "ferry-signal",
                    (uint64_t)WTERMSIG(stage->status));
    } else {
        add_trailer(&trailers, "ferry-exit",
                    (uint64_t)WEXITSTATUS(stage->status));
    }
    if (stage->offsets[0] >= 0) {
        add_trailer(&trailers, "ferry-stdin-offset",
                    (uint64_t)stage->offsets[0]);
    }
    if (stage->offsets[1] >= 0) {
        add_trailer(&trailers, "ferry-stdout-offset",
                    (uint64_t)stage->offsets[1]);
    }
    if (stage->offsets[2] >= 0) {
        add_trailer(&trailers, "ferry-stderr-offset",
                    (uint64_t)stage->offsets[2]);
    }
    add_trailer(&trailers, "ferry-cpu-ns", stage->cpu_ns);
    add_trailer(&trailers, "ferry-in-bytes", stage->in_bytes);
    add_trailer(&trailers, "ferry-out-bytes",
                stage->out_linked ? stage->out_linked_bytes : stage->out_bytes);
    fy_exchange_finish(stage->out_exchange, trailers.pairs, trailers.n);
}

/* Sends the trailers, or forgets the stage, once there is nothing to wait for. */
static void
settle(struct fy_server_stage *stage)
{
    const struct fy_exchange *exchange = stage->out_exchange;
    if (stage->state != FY_STAGE_EXITED) {
        return;
    }
    if (exchange && !exchange->finished) {
        if (stage->out.fd >= 0 && !stage->failed) {
            return;
        }
        send_trailers(stage);
    }
    /* The client asks for stderr with the stage, but that may come later. */
    if (stage->err.fd >= 0 && !stage->abandoned) {
        if (stage->err_end_ns == 0) {
            stage->err_end_ns =
                fy_server_now_ns() + STDERR_PATIENCE_MS * UINT64_C(1000000);
        }
        return;
    }
    over(stage);
}

/* ---- ending it ------------------------------------------------------------------ */

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

void
fy_server_stage_signal(struct fy_server_stage *stage, int signal)
{
    /* A session of its own is an orphaned one, where the terminal's stops are
     * not obeyed; the client saw one that was. */
    if (signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU) {
        signal = SIGSTOP;
    }
    stage->killed |= signal == SIGKILL;
    signal_group(stage, signal);
}

/* First its output goes, then it is asked, then it is made to end. */
static void
next_step(struct fy_server_stage *stage)
{
    static const unsigned waits_ms[] = {100, 500, 1000};
    uint64_t now = fy_server_now_ns();
    if (stage->kill_step == 1) {
        signal_group(stage, SIGTERM);
        signal_group(stage, SIGCONT);
    } else if (stage->kill_step >= 2) {
        stage->killed = true;
        (void)fy_descendants_signal(getpid(), stage->run.pid, SIGKILL);
        signal_group(stage, SIGKILL);
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
    if (stage->state == FY_STAGE_WAITING) {
        leave_exchanges(stage);
        stage->state = FY_STAGE_OVER;
        stage->server->running--;
        discard(stage);
        return;
    }
    /* Its readers are gone, so it ends as it would here. Its input stays open:
     * an end that is none would make its result look whole. */
    if (!stage->out_linked) {
        close_watch(stage, &stage->out, &stage->run.out);
    }
    close_watch(stage, &stage->err, &stage->run.err);
    stage->kill_step = stage->failed || stage->state == FY_STAGE_EXITED;
    next_step(stage);
    settle(stage);
}

/* The proxy ends it: so must what reads from it, which would see an end of
 * input that is none. */
static void
fail(struct fy_server_stage *stage, unsigned reason)
{
    struct fy_server *server = stage->server;
    if (stage->failed) {
        return;
    }
    stage->failed = reason;
    fy_server_stage_abandon(stage);
    struct fy_server_stage *next;
    for (struct fy_server_stage *at = server->stages; at; at = next) {
        next = at->next;
        if (at->spec.in.kind == FY_STREAM_LINK &&
            at->spec.in.stage == stage->number &&
            (at->state == FY_STAGE_STARTING || at->state == FY_STAGE_RUNNING ||
             at->state == FY_STAGE_EXITED)) {
            fail(at, reason);
        }
    }
}

void
fy_server_stage_detach(struct fy_server_stage *stage,
                       const struct fy_exchange *exchange)
{
    if (exchange == stage->err_exchange) {
        stage->err_exchange = NULL;
        close_watch(stage, &stage->err, &stage->run.err);
        settle(stage);
        return;
    }
    stage->out_exchange = NULL;
    if (!exchange->finished) {
        fy_server_stage_abandon(stage);
    }
}

/* What it wrote in all, for those whose output never came past us. */
static uint64_t
written_bytes(pid_t pid)
{
    char path[64], text[512];
    (void)snprintf(path, sizeof path, "/proc/%d/io", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    fy_run_close(&fd);
    if (n <= 0) {
        return 0;
    }
    text[n] = '\0';
    const char *row = strstr(text, "wchar: ");
    return row ? strtoull(row + strlen("wchar: "), NULL, 10) : 0;
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
    stage->state = FY_STAGE_EXITED;
    /* Nobody asked for that: the kernel ran out of memory, or this host's
     * owner wants it gone. Not the command's own end. */
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && !stage->killed) {
        fail(stage, FY_STAGE_LIMITS);
    }
    if (stage->abandoned) {
        (void)fy_descendants_signal(getpid(), stage->run.pid, SIGKILL);
    }
}

void
fy_server_reap(struct fy_server *server)
{
    siginfo_t info = {0};
    bool any = false;
    while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid) {
        pid_t pid = info.si_pid;
        struct fy_server_stage *stage = server->stages;
        while (stage &&
               (stage->run.pid != pid || (stage->state != FY_STAGE_STARTING &&
                                          stage->state != FY_STAGE_RUNNING))) {
            stage = stage->next;
        }
        if (stage && stage->out_linked) {
            stage->out_linked_bytes = written_bytes(pid);
        }
        int status;
        struct rusage usage;
        if (wait4(pid, &status, 0, &usage) != pid) {
            break;
        }
        if (stage) {
            if (stage->state == FY_STAGE_STARTING && stage->started.fd >= 0) {
                /* What became of its exec is in the pipe by now. */
                stage->started.ready(stage, EPOLLIN);
            }
            exited(stage, status, &usage);
            any = true;
        }
        info.si_pid = 0;
    }
    /* Only now: a stage's end may be owed to that of the one before it. */
    struct fy_server_stage *next;
    for (struct fy_server_stage *at = server->stages; any && at; at = next) {
        next = at->next;
        if (at->state == FY_STAGE_EXITED) {
            fy_pump_out(at);
            fy_pump_err(at);
            settle(at);
        }
    }
}

/* ---- its start ------------------------------------------------------------------ */

static void
refuse(struct fy_server_stage *stage, int status, unsigned reason,
       const char *why)
{
    if (stage->out_exchange) {
        fy_exchange_refuse(stage->out_exchange, status, reason, why);
    }
}

/* The writer's output is the client's again, or the reader's for good. */
static void
settle_link(struct fy_server_stage *stage, bool started)
{
    struct fy_server_stage *writer =
        stage->spec.in.kind == FY_STREAM_LINK
            ? fy_server_stage_find(stage->server, stage->spec.in.stage)
            : NULL;
    if (!writer || writer->out.fd < 0) {
        return;
    }
    if (started) {
        close_watch(writer, &writer->out, &writer->run.out);
    } else {
        writer->out_linked = false;
        (void)fcntl(writer->out.fd, F_SETFL,
                    fcntl(writer->out.fd, F_GETFL) | O_NONBLOCK);
        fy_pump_out(writer);
    }
    settle(writer);
}

static void
on_started(void *owner, uint32_t events)
{
    struct fy_server_stage *stage = owner;
    int error = 0;
    (void)events;
    ssize_t n = read(stage->started.fd, &error, sizeof error);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    close_watch(stage, &stage->started, &stage->run.started);
    stage->state = FY_STAGE_RUNNING;
    settle_link(stage, n == 0 && !stage->abandoned);
    if (n != 0) {
        char why[256];
        (void)snprintf(why, sizeof why, "it could not be executed: %s",
                       strerror(n == sizeof error ? error : EIO));
        refuse(stage, 409,
               error == ENOENT || error == EACCES || error == ENOEXEC
                   ? FY_STAGE_OTHER_TOOL
                   : FY_STAGE_LIMITS,
               why);
        stage->killed = true;
        fy_server_stage_abandon(stage);
    } else if (stage->out_exchange) {
        struct fy_exchange *exchange = stage->out_exchange;
        const struct fy_wire_pair pair = {"ferry-encoding", "zstd"};
        exchange->responded = true;
        if (fy_wire_respond(stage->server->wire, exchange->stream, 200, &pair,
                            stage->zstd ? 1 : 0, true)) {
            fy_wire_cancel(stage->server->wire, exchange->stream);
        }
        fy_pump_in(stage);
        fy_pump_out(stage);
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
    fy_pump_out(owner);
    settle(owner);
}

static void
on_err(void *owner, uint32_t events)
{
    (void)events;
    fy_pump_err(owner);
    settle(owner);
}

static struct fy_watch
watch(struct fy_server_stage *stage, int fd,
      void (*ready)(void *owner, uint32_t events))
{
    return (struct fy_watch){.fd = fd, .ready = ready, .owner = stage};
}

/* Checks and forks; `link' as fy_run_start(). Refuses what it cannot. */
static int
launch(struct fy_server_stage *stage, int link)
{
    struct fy_server *server = stage->server;
    char text[512];
    struct fy_buffer why;
    int files[3] = {-1, -1, -1};
    unsigned reason = FY_STAGE_REFUSED;
    fy_buffer_start(&why, text, sizeof text);
    int status =
        fy_confine_check(server->confine, &stage->spec, &stage->invocation,
                         &stage->cage, files, &reason, &why);
    if (status) {
        refuse(stage, status == FY_ERR_UNSUPPORTED ? 403 : 503,
               status == FY_ERR_UNSUPPORTED ? reason : FY_STAGE_BUSY, text);
        return status;
    }
    struct timespec clock;
    (void)clock_gettime(CLOCK_REALTIME_COARSE, &clock);
    stage->began.seconds = clock.tv_sec;
    stage->began.ns = (uint32_t)clock.tv_nsec;
    status =
        fy_run_start(&stage->spec, stage->cage, files, link, &stage->run, &why);
    if (status) {
        refuse(stage, 503, FY_STAGE_BUSY, text);
        return status;
    }
    stage->state = FY_STAGE_STARTING;
    stage->started_ns = fy_server_now_ns();
    if (server->options->seconds > 0) {
        stage->deadline_ns =
            stage->started_ns + (uint64_t)(server->options->seconds * 1e9);
    }
    stage->started = watch(stage, stage->run.started, on_started);
    stage->in = watch(stage, stage->run.in, on_in);
    stage->out = watch(stage, stage->run.out, on_out);
    stage->err = watch(stage, stage->run.err, on_err);
    fy_watch_set(server, &stage->started, EPOLLIN);
    return 0;
}

void
fy_server_stage_unblock(struct fy_server_stage *stage)
{
    struct fy_server *server = stage->server;
    struct fy_server_stage *writer =
        fy_server_stage_find(server, stage->spec.in.stage);
    if (writer ? writer->state < FY_STAGE_RUNNING
               : fy_server_receiving(server)) {
        return; /* that may still come */
    }
    const char *why = NULL;
    if (!writer) {
        why = "the stage that it reads does not exist";
    } else if (writer->out.fd < 0 || writer->out_opened || writer->out_linked ||
               writer->abandoned || writer->spec.out.kind != FY_STREAM_WIRE ||
               writer->spec.compress) {
        why = "the stage that it reads cannot be linked any more";
    }
    if (why) {
        refuse(stage, 409, FY_STAGE_ODD_STREAM, why);
        fy_server_stage_abandon(stage);
        return;
    }
    writer->out_linked = true;
    if (launch(stage, writer->out.fd)) {
        writer->out_linked = false;
        fy_server_stage_abandon(stage);
    }
}

/* Whether this host has room for one more. */
static int
check_room(const struct fy_server *server, const struct fy_stage_spec *spec,
           struct fy_buffer *why)
{
    double limit = server->options->load_max;
    if (server->running >= server->stages_max) {
        fy_buffer_add(why, "as many stages run as may");
        return FY_ERR_BUSY;
    }
    /* A stage that continues one that runs here costs less than its output. */
    if (limit > 0 && spec->in.kind != FY_STREAM_LINK &&
        fy_server_load(server) > limit) {
        fy_buffer_add(why, "the load is too high");
        return FY_ERR_BUSY;
    }
    return 0;
}

/* By this host's own annotations. */
static int
understand(struct fy_server_stage *stage, unsigned *reason,
           struct fy_buffer *why)
{
    const struct fy_stage_spec *spec = &stage->spec;
    const char *slash = strrchr(spec->tool.path.at, '/');
    const char **argv = calloc((size_t)spec->argc + 1, sizeof *argv);
    const char **env = calloc((size_t)spec->envc + 1, sizeof *env);
    int status = FY_ERR_NOMEM;
    if (argv && env) {
        for (uint32_t i = 0; i < spec->argc; i++) {
            argv[i] = spec->argv[i].at;
        }
        for (uint32_t i = 0; i < spec->envc; i++) {
            env[i] = spec->env[i].at;
        }
        status = fy_invocation_parse(stage->server->options->commands,
                                     slash ? slash + 1 : spec->tool.path.at,
                                     argv, env, &stage->invocation, why);
        *reason = status == FY_ERR_NOENT         ? FY_STAGE_NOT_ANNOTATED
                  : status == FY_ERR_INVALID     ? FY_STAGE_NOT_PARSED
                  : status == FY_ERR_UNSUPPORTED ? FY_STAGE_FORBIDDEN
                                                 : FY_STAGE_BUSY;
    }
    free((void *)argv);
    free((void *)env);
    return status;
}

/* A stage that is in no list yet. */
static struct fy_server_stage *
new_stage(struct fy_exchange *exchange, char *bytes)
{
    struct fy_server_stage *stage = calloc(1, sizeof *stage);
    if (!stage) {
        return NULL;
    }
    stage->server = exchange->server;
    stage->spec_bytes = bytes;
    stage->run = (struct fy_run){.started = -1,
                                 .in = -1,
                                 .out = -1,
                                 .err = -1,
                                 .terminal = -1,
                                 .files = {-1, -1, -1}};
    stage->started.fd = stage->in.fd = stage->out.fd = stage->err.fd = -1;
    stage->in_left = -1;
    for (int i = 0; i < 3; i++) {
        stage->offsets[i] = -1;
    }
    return stage;
}

/* Whether it may run at all; its answer when not. */
static int
admit(struct fy_server_stage *stage, struct fy_exchange *exchange, size_t n)
{
    char text[512];
    struct fy_buffer why;
    unsigned reason = FY_STAGE_REFUSED;
    fy_buffer_start(&why, text, sizeof text);
    int status = fy_stage_spec_decode(stage->spec_bytes, n, &stage->spec, &why);
    if (!status) {
        status = fy_run_check(&stage->spec, &why);
    }
    if (!status &&
        fy_server_stage_find(stage->server, stage->spec.stage) != NULL) {
        fy_buffer_add(&why, "there is a stage of that number");
        status = FY_ERR_INVALID;
    }
    if (status) {
        fy_exchange_refuse(exchange, 400, FY_STAGE_REFUSED, text);
        return status;
    }
    if (check_room(stage->server, &stage->spec, &why)) {
        fy_exchange_refuse(exchange, 503, FY_STAGE_BUSY, text);
        return FY_ERR_BUSY;
    }
    status = understand(stage, &reason, &why);
    if (status) {
        fy_exchange_refuse(exchange, 403, reason, text);
        return status;
    }
    if (stage->spec.compress && stage->spec.out.kind == FY_STREAM_WIRE) {
        stage->zstd = ZSTD_createCCtx();
        if (!stage->zstd) {
            fy_exchange_refuse(exchange, 503, FY_STAGE_BUSY, "out of memory");
            return FY_ERR_NOMEM;
        }
        (void)ZSTD_CCtx_setParameter(stage->zstd, ZSTD_c_compressionLevel, 1);
    }
    return 0;
}

void
fy_server_stage_begin(struct fy_exchange *exchange, char *bytes, size_t n)
{
    struct fy_server *server = exchange->server;
    struct fy_server_stage *stage = new_stage(exchange, bytes);
    if (!stage) {
        fy_exchange_refuse(exchange, 503, FY_STAGE_BUSY, "out of memory");
        free(bytes);
        return;
    }
    if (admit(stage, exchange, n)) {
        fy_server_stage_free(stage);
        return;
    }
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
    if (stage->spec.in.kind != FY_STREAM_LINK && launch(stage, -1)) {
        fy_server_stage_abandon(stage);
    }
}

void
fy_server_stage_stderr(struct fy_server_stage *stage,
                       struct fy_exchange *exchange)
{
    exchange->responded = true;
    if (fy_wire_respond(stage->server->wire, exchange->stream, 200, NULL, 0,
                        true)) {
        fy_wire_cancel(stage->server->wire, exchange->stream);
        return;
    }
    if (stage->err_exchange ||
        (stage->state != FY_STAGE_WAITING && stage->err.fd < 0) ||
        (stage->spec.err.kind != FY_STREAM_WIRE &&
         stage->spec.err.kind != FY_STREAM_PTY)) {
        fy_exchange_finish(exchange, NULL, 0);
        return;
    }
    stage->err_exchange = exchange;
    exchange->stage = stage;
    fy_pump_err(stage);
    settle(stage);
}

void
fy_server_stage_ready(struct fy_server_stage *stage,
                      const struct fy_exchange *exchange)
{
    if (exchange == stage->out_exchange) {
        fy_pump_out(stage);
    } else {
        fy_pump_err(stage);
    }
    settle(stage);
}

/* ---- the clock ------------------------------------------------------------------ */

static void
check_memory(struct fy_server *server)
{
    struct fy_server_stage *next;
    for (struct fy_server_stage *at = server->stages; at; at = next) {
        next = at->next;
        if (at->state == FY_STAGE_RUNNING && !at->failed &&
            fy_descendants_memory_bytes(at->run.pid) >
                server->options->memory_bytes) {
            fail(at, FY_STAGE_LIMITS);
        }
    }
}

static uint64_t
sooner(uint64_t one, uint64_t other)
{
    return one == 0 || (other && other < one) ? other : one;
}

uint64_t
fy_server_timers(struct fy_server *server)
{
    uint64_t now = fy_server_now_ns(), next_ns = 0;
    if (server->options->memory_bytes && server->running &&
        now >= server->memory_ns) {
        check_memory(server);
        server->memory_ns = now + 250 * UINT64_C(1000000);
    }
    struct fy_server_stage *next;
    for (struct fy_server_stage *at = server->stages; at; at = next) {
        next = at->next;
        if (at->state == FY_STAGE_OVER || at->state == FY_STAGE_WAITING) {
            continue;
        }
        if (at->kill_ns && now >= at->kill_ns) {
            next_step(at);
        }
        if (at->deadline_ns && now >= at->deadline_ns &&
            at->state < FY_STAGE_EXITED) {
            at->deadline_ns = 0;
            fail(at, FY_STAGE_LIMITS);
            continue;
        }
        if (at->err_end_ns && now >= at->err_end_ns) {
            close_watch(at, &at->err, &at->run.err);
            settle(at);
            continue;
        }
        next_ns = sooner(next_ns, at->kill_ns);
        next_ns = sooner(next_ns, at->deadline_ns);
        next_ns = sooner(next_ns, at->err_end_ns);
    }
    if (server->options->memory_bytes && server->running) {
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
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 &&
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
    (void)fy_descendants_signal(getpid(), 0, SIGTERM);
    (void)fy_descendants_signal(getpid(), 0, SIGCONT);
    /* Time to remove temporary files; then no more. What cannot be killed waits
     * in the kernel for a disk, and is not waited for. */
    for (unsigned i = 0; i < 1000 && !alone(server); i++) {
        if (i >= 60) {
            (void)fy_descendants_signal(getpid(), 0, SIGKILL);
        }
        (void)nanosleep(&pause, NULL);
    }
}
