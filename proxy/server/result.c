/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The result of a stage: once its process has ended and its output was read to
 * the end, the trailers say how. A stage that the proxy itself ended says so and
 * nothing of exit statuses, so that the client takes it for lost and not for
 * done. A stage with effects is remembered for a while, for /touched.
 */
#include "config.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/wait.h>

#include "common/clock.h"
#include "proxy/server/server.h"
#include "proxy/wire/process.h"
#include "proxy/wire/protocol.h"

enum {
    KEPT_STAGES = 64, /* that ended, for /touched */
    KEPT_BYTES = 32 << 20,
    STDERR_PATIENCE_S = 10, /* for its reader, or a process that stayed */
};

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
    fy_sandbox_free(stage->sandbox);
    stage->sandbox = NULL;
    fy_server_stage_event(stage, FY_STAGE_IS_DONE);
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

/* Whether its output goes through this process. */
static bool
is_pumped(const struct fy_server_stage *stage)
{
    return stage->pump.output != FY_OUTPUT_LINKED &&
           (stage->spec.out.kind == FY_STREAM_WIRE ||
            stage->spec.out.kind == FY_STREAM_PTY);
}

static void
send_trailers(struct fy_server_stage *stage)
{
    struct trailers trailers = {.n = 0};
    if (stage->end.failed) {
        trailers.pairs[trailers.n++] = (struct fy_wire_pair){
            FY_FIELD_REASON, fy_stage_reason_word(stage->end.failed)};
    } else if (WIFSIGNALED(stage->result.status)) {
        add_trailer(&trailers, FY_FIELD_DEATH,
                    (uint64_t)WTERMSIG(stage->result.status));
    } else {
        add_trailer(&trailers, FY_FIELD_EXIT,
                    (uint64_t)WEXITSTATUS(stage->result.status));
    }
    if (stage->result.offsets[0] >= 0) {
        add_trailer(&trailers, FY_FIELD_STDIN_OFFSET,
                    (uint64_t)stage->result.offsets[0]);
    }
    if (stage->result.offsets[1] >= 0) {
        add_trailer(&trailers, FY_FIELD_STDOUT_OFFSET,
                    (uint64_t)stage->result.offsets[1]);
    }
    if (stage->result.offsets[2] >= 0) {
        add_trailer(&trailers, FY_FIELD_STDERR_OFFSET,
                    (uint64_t)stage->result.offsets[2]);
    }
    add_trailer(&trailers, FY_FIELD_IN_BYTES, stage->pump.in_bytes);
    uint64_t written =
        is_pumped(stage) ? stage->pump.out_bytes : stage->result.written_bytes;
    add_trailer(&trailers, FY_FIELD_OUT_BYTES, written);
    if (stage->spec.in.kind == FY_STREAM_LINK) {
        const struct fy_server_stage *feeder = fy_server_stage_feeder(stage);
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
        if (!stage->end.failed &&
            (stage->out.fd >= 0 || fy_server_stage_doubts(stage))) {
            return;
        }
        send_trailers(stage);
    }
    /* The client asks for stderr with the stage, but that may come later. */
    if (stage->err.fd >= 0 && !stage->end.abandoned) {
        if (stage->result.err_end_ns == 0) {
            double most = stage->server->options->wait_seconds;
            most =
                most > 0 && most < STDERR_PATIENCE_S ? most : STDERR_PATIENCE_S;
            stage->result.err_end_ns = fy_clock_ns() + (uint64_t)(most * 1e9);
        }
        return;
    }
    over(stage);
}

void
fy_server_stage_count(struct fy_server_stage *stage)
{
    char path[64];
    /* The file of an ended process belongs to root, so it is opened at the fork. An
     * open one is read by the process's own user as well. */
    (void)snprintf(path, sizeof path, "/proc/%d/io", (int)stage->run.pid);
    stage->result.io = open(path, O_RDONLY | O_CLOEXEC);
}

void
fy_server_stage_counted(struct fy_server_stage *stage)
{
    struct fy_process_io io;
    if (fy_process_io(stage->result.io, &io)) {
        stage->result.written_bytes = io.written_bytes;
    }
    fy_run_close(&stage->result.io);
}
