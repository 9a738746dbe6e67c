/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stages of a connection: a row for each event that moves one on, with the
 * states in which it may come, the state that follows and the file that raises it;
 * which stage feeds which; the list, and how stages leave it.
 */
#include "config.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/debug.h"
#include "proxy/server/server.h"
#include "proxy/wire/process.h"

#define IN(state) (1U << FY_STAGE_##state)

static const struct {
    const char *word;
    unsigned from;
    enum fy_stage_state to;
} events[] = {
    /* start.c: no other stage has to start before it. A job looks at its files. */
    [FY_STAGE_IS_CHECKED] = {"is checked", IN(WAITING), FY_STAGE_CHECKING},
    /* start.c: the sandbox allows it. Its process exists and is about to exec. */
    [FY_STAGE_IS_FORKED] = {"is forked", IN(CHECKING), FY_STAGE_STARTING},
    /* start.c: the exec was done, or failed: the process then ends at once. The
     * client is answered, bytes flow, readers of its output may be linked. */
    [FY_STAGE_HAS_EXECED] = {"has exec'd", IN(STARTING), FY_STAGE_RUNNING},
    /* reap.c: the process has ended. Output and trailers may still be on their way. */
    [FY_STAGE_HAS_EXITED] = {"has exited", IN(RUNNING), FY_STAGE_EXITED},
    /* result.c: all was sent. end.c: abandoned before it had a process. A stage
     * with effects is kept for /touched, any other is freed at the end of the turn. */
    [FY_STAGE_IS_DONE] = {"is done", IN(WAITING) | IN(CHECKING) | IN(EXITED),
                          FY_STAGE_OVER},
};

void
fy_server_stage_event(struct fy_server_stage *stage, enum fy_stage_event event)
{
    static const char *const words[] = {"waits", "is checked", "starts",
                                        "runs",  "exited",     "over"};
    enum fy_stage_state to = events[event].to;
    fy_debug_expect(events[event].from >> stage->state & 1);
    fy_debug(SERVER, "stage %llu, pid %d: %s -> %s (%s%s)",
             (unsigned long long)stage->number, (int)stage->run.pid,
             words[stage->state], words[to],
             events[event].from >> stage->state & 1 ? "" : "unexpected: ",
             events[event].word);
    stage->state = to;
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

struct fy_server_stage *
fy_server_stage_feeder(const struct fy_server_stage *stage)
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
 * Returns true if its feeder is about to end, or a feeder of that: its pipe was
 * closed, and it is not known yet whether the end of input was one. A process
 * says that it dies before it closes anything.
 */
bool
fy_server_stage_doubts(const struct fy_server_stage *stage)
{
    const struct fy_server_stage *feeder = stage;
    while ((feeder = fy_server_stage_feeder(feeder)) &&
           feeder->state == FY_STAGE_EXITED) {
    }
    return feeder && !feeder->end.failed &&
           (feeder->state == FY_STAGE_STARTING ||
            feeder->state == FY_STAGE_RUNNING) &&
           is_dying(feeder);
}

/* ---- its end ------------------------------------------------------------------ */

void
fy_watch_close(struct fy_server_stage *stage, struct fy_watch *watch, int *fd)
{
    fy_loop_forget(&stage->server->loop, watch);
    fy_run_close(fd);
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
fy_server_stage_free(struct fy_server_stage *stage)
{
    if (stage->jobs) {
        stage->orphaned = true;
        return;
    }
    fy_run_clear(&stage->run);
    fy_run_close(&stage->pump.in_left);
    fy_run_close(&stage->result.io);
    fy_sandbox_free(stage->sandbox);
    fy_invocation_clear(&stage->invocation);
    fy_stage_spec_clear(&stage->spec);
    fy_squeeze_free(stage->pump.squeeze);
    fy_before_free(stage->touched.before);
    free(stage->pump.queue.bytes);
    free(stage->spec_bytes);
    free(stage);
}
