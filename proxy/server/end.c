/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bringing stages to their end: because the client does not want them any more,
 * because they are over this host's limits, because the connection is gone. A
 * stage first loses its readers, then is asked, then is made to end. Who reads its
 * output is settled here, since output that is lost, and a pipe that no reader takes
 * over, end a stage as well.
 */
#include "config.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/debug.h"
#include "proxy/server/server.h"
#include "proxy/wire/process.h"

bool
fy_server_stage_has_no_process(const struct fy_server_stage *stage)
{
    return stage->state == FY_STAGE_WAITING ||
           stage->state == FY_STAGE_CHECKING;
}

static void
signal_group(struct fy_server_stage *stage, int signal)
{
    if (stage->state == FY_STAGE_STARTING || stage->state == FY_STAGE_RUNNING) {
        /* The leader is not reaped: the number is its. It may not have made
         * its group yet. */
        if (kill(-stage->run.pid, signal) < 0) {
            (void)kill(stage->run.pid, signal);
        }
    } else if (stage->state == FY_STAGE_EXITED) {
        fy_descent_signal(stage, signal, NULL);
    }
}

/* After its descendants, or they would be found below it no more. */
static void
kill_group(struct fy_server_stage *stage, unsigned found)
{
    (void)found;
    if (stage->state != FY_STAGE_EXITED) {
        signal_group(stage, SIGKILL);
    }
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
    stage->end.killed |= signal == SIGKILL;
    stage->end.signalled = true;
    stage->end.last_signal = ends(signal) ? signal : stage->end.last_signal;
    if (stage->state == FY_STAGE_EXITED) {
        fy_server_stage_output(stage);
        fy_server_stage_settle(stage);
    }
    if (fy_server_stage_has_no_process(stage)) {
        stage->end.kept_signals =
            fy_signals_add(stage->end.kept_signals, signal);
    } else {
        signal_group(stage, signal);
    }
}

void
fy_server_stage_signal_kept(struct fy_server_stage *stage)
{
    for (int signal = 1; stage->end.kept_signals; signal++) {
        uint64_t bit = UINT64_C(1) << (signal - 1);
        if (stage->end.kept_signals & bit) {
            stage->end.kept_signals &= ~bit;
            signal_group(stage, signal);
        }
    }
}

void
fy_server_stage_press(struct fy_server_stage *stage)
{
    static const unsigned waits_ms[] = {100, 500, 1000};
    uint64_t now = fy_clock_ns();
    if (stage->end.kill_step == 1) {
        signal_group(stage, SIGTERM);
        signal_group(stage, SIGCONT);
    } else if (stage->end.kill_step >= 2) {
        stage->end.killed = true;
        fy_descent_signal(stage, SIGKILL, kill_group);
    }
    unsigned last = sizeof waits_ms / sizeof waits_ms[0] - 1;
    unsigned step = stage->end.kill_step < last ? stage->end.kill_step : last;
    stage->end.kill_step++;
    stage->end.kill_ns = now + waits_ms[step] * UINT64_C(1000000);
}

void
fy_server_stage_abandon(struct fy_server_stage *stage)
{
    if (stage->state == FY_STAGE_OVER || stage->end.abandoned) {
        return;
    }
    stage->end.abandoned = true;
    if (stage->state == FY_STAGE_CHECKING) {
        fy_server_stage_linked(stage, false);
    }
    if (fy_server_stage_has_no_process(stage)) {
        if (stage->err_exchange && !stage->err_exchange->finished) {
            fy_exchange_finish(stage->err_exchange, NULL, 0);
        }
        fy_server_stage_leave(stage);
        fy_server_stage_event(stage, FY_STAGE_IS_DONE);
        stage->server->running--;
        fy_server_stage_discard(stage);
        return;
    }
    /* Its readers are gone, so it ends as it would here. Its input stays open:
     * an end that is none would make its result look whole. */
    if (stage->pump.output != FY_OUTPUT_LINKED) {
        fy_watch_close(stage, &stage->out, &stage->run.out);
    }
    fy_watch_close(stage, &stage->err, &stage->run.err);
    stage->end.kill_step = stage->end.failed || stage->state == FY_STAGE_EXITED;
    fy_server_stage_press(stage);
    fy_server_stage_settle(stage);
}

/* The proxy ends it: so must its reader, which would see an end of
 * input that is none. */
void
fy_server_stage_fail(struct fy_server_stage *stage, unsigned reason)
{
    struct fy_server *server = stage->server;
    if (stage->end.failed) {
        return;
    }
    fy_debug(SERVER, "stage %llu is ended by the proxy: %s",
             (unsigned long long)stage->number, fy_stage_reason_word(reason));
    stage->end.failed = reason;
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

void
fy_server_stage_output(struct fy_server_stage *stage)
{
    if (fy_pump_out(stage)) {
        fy_server_stage_fail(stage, FY_STAGE_LIMITS);
    }
}

void
fy_server_stage_linked(struct fy_server_stage *stage, bool started)
{
    struct fy_server_stage *writer =
        stage->spec.in.kind == FY_STREAM_LINK
            ? fy_server_stage_find(stage->server, stage->spec.in.stage)
            : NULL;
    if (!writer || writer->out.fd < 0) {
        return;
    }
    if (started) {
        fy_watch_close(writer, &writer->out, &writer->run.out);
    } else {
        writer->pump.output = FY_OUTPUT_HELD;
        int flags = fcntl(writer->out.fd, F_GETFL);
        if (flags < 0 ||
            fcntl(writer->out.fd, F_SETFL, flags | O_NONBLOCK) != 0) {
            fy_server_stage_fail(writer, FY_STAGE_LIMITS);
        } else {
            fy_server_stage_output(writer);
        }
    }
    fy_server_stage_settle(writer);
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
