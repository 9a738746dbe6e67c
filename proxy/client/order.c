/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order in which signals reach stages that are joined. A signal for a group
 * is there for all of its processes before one of them can see what it does to
 * another. At the proxy they get it one by one, and if what feeds a stage dies
 * first, the stage takes that for the end of its input and delivers a result.
 * So such a signal waits until the stubs of the stage's readers have said what
 * they got, the last one first: before a stub answers a PING it has told of every
 * signal that came earlier.
 */
#include "config.h"

#include "common/clock.h"
#include "proxy/client/stage.h"
#include "proxy/wire/process.h"
#include "proxy/wire/signals.h"

#include <fcntl.h>
#include <stdio.h>

enum {
    /* For a reader's stub that does not answer: it is stopped, or waits in
     * write(2), where a signal would have reached it. */
    PATIENCE_MS = 3000,
    /* For one that only has no processor: it answers as soon as it has. */
    LONGEST_MS = 60000,
    AGAIN_MS = 50,
    SIGNALS = 64,
};

static void
woken(void *owner)
{
    (void)owner; /* the loop looks at what is held */
}

void
fy_signal_take(struct stage *stage, uint32_t signal)
{
    struct fy_session *session = stage->session;
    bool waits = stage->state == STAGE_RUNNING && stage->join.feeds &&
                 signal >= 1 && signal <= SIGNALS && fy_signal_ends(signal);
    if (!waits) {
        fy_flow_signal(stage, signal);
        return;
    }
    for (struct stage *reader = stage->join.feeds; reader;
         reader = reader->join.feeds) {
        if (reader->client) {
            reader->order.pings++;
            fy_stub_client_send(reader->client, FY_STUB_PING, NULL, 0);
        }
    }
    if (!stage->order.held) {
        session->order.n++;
        stage->order.held_ns = fy_clock_ns();
    }
    stage->order.held |= UINT64_C(1) << (signal - 1);
    session->order.timer.run = woken;
    fy_loop_set(&session->loop, &session->order.timer,
                PATIENCE_MS * UINT64_C(1000000));
}

void
fy_signal_answered(struct stage *stage)
{
    stage->order.pings -= stage->order.pings > 0;
}

static bool
is_runnable(pid_t pid)
{
    char path[32];
    struct fy_process process;
    (void)snprintf(path, sizeof path, "/proc/%d", (int)pid);
    return pid > 0 && fy_process_read(AT_FDCWD, path, &process) &&
           process.state == 'R';
}

/*
 * Whether all that read it have said what they got, and have it. Those that hold
 * signals themselves get them first; the last of them waits for none.
 */
static bool
is_due(const struct stage *stage, uint64_t now)
{
    if (stage->state != STAGE_RUNNING) {
        return true;
    }
    uint64_t waited_ms = (now - stage->order.held_ns) / 1000000;
    for (const struct stage *reader = stage->join.feeds; reader;
         reader = reader->join.feeds) {
        if (!reader->client) {
            continue;
        }
        if (reader->order.held ||
            (reader->order.pings &&
             (waited_ms < PATIENCE_MS ||
              (waited_ms < LONGEST_MS && is_runnable(reader->client->pid))))) {
            return false;
        }
    }
    return true;
}

void
fy_signals_release(struct fy_session *session)
{
    uint64_t now = session->order.n > 0 ? fy_clock_ns() : 0;
    bool again = session->order.n > 0;
    while (again) {
        again = false;
        for (struct stage *stage = session->stages; stage;
             stage = stage->next) {
            if (!stage->order.held || !is_due(stage, now)) {
                continue;
            }
            uint64_t signals = stage->order.held;
            stage->order.held = 0;
            session->order.n--;
            again = session->order.n > 0;
            for (uint32_t i = 1; i <= SIGNALS; i++) {
                if (signals >> (i - 1) & 1) {
                    fy_flow_signal(stage, i);
                }
            }
        }
    }
    if (session->order.n > 0 && session->order.timer.due_ns <= now) {
        fy_loop_set(&session->loop, &session->order.timer,
                    AGAIN_MS * UINT64_C(1000000));
    }
}
