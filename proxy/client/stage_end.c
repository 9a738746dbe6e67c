/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ends of a stage: by itself, by the original, by running again, by an
 * error. The rule of every doubt: as long as nothing was delivered and no effect
 * begun, the original runs, and nothing shows that a proxy was tried.
 */
#include "config.h"

#include "common/clock.h"
#include "common/sha256.h"
#include "proxy/client/stage.h"

#include "common/debug.h"
#include "common/plain.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    /* How long a stage that ended before what feeds it waits for the end of
     * that. Its result is certain; but if the link breaks, what feeds it has the
     * status of one without a reader, unless both are run again. */
    FEEDER_MS = 200,
    GROUP_MAX = 64, /* stages that are joined */
    FAILED = 125,   /* the status of a stage that is known to be incomplete */
};
static const uint64_t ms_ns = 1000000;

/* ---- records ---------------------------------------------------------------------- */

void
fy_record_free(struct record *record)
{
    if (record) {
        free(record->argv);
        free(record);
    }
}

/* Remembers the words of a stage: one block behind the pointers. */
void
fy_record_new(struct stage *stage)
{
    struct fy_session *session = stage->session;
    if (!session->options.record || session->records.n >= RECORDS_MAX) {
        return;
    }
    size_t n = 0, argc = stage->hello.argc;
    for (size_t i = 0; i < argc; i++) {
        n += strlen(stage->argv[i]) + 1;
    }
    struct record *record = calloc(1, sizeof *record);
    char **argv = malloc((argc + 1) * sizeof *argv + n);
    if (!record || !argv) {
        free(record);
        free(argv);
        return;
    }
    char *to = (char *)(argv + argc + 1);
    for (size_t i = 0; i < argc; i++) {
        argv[i] = to;
        to = stpcpy(to, stage->argv[i]) + 1;
    }
    argv[argc] = NULL;
    record->argv = argv;
    record->report.argv = (const char *const *)argv;
    record->report.argc = (uint32_t)argc;
    record->report.pid = stage->hello.pid;
    record->report.exit = -1;
    record->report.declined = FY_STAGE_DISABLED;
    record->report.why = "";
    *session->records.end = record;
    session->records.end = &record->next;
    session->records.n++;
    stage->record = record;
}

void
fy_stage_note(struct stage *stage, unsigned reason, const char *why,
              int exit_status)
{
    struct record *record = stage->record;
    if (!record) {
        return;
    }
    record->report.declined = reason;
    record->report.exit = exit_status;
    record->report.placed = reason == FY_STAGE_NONE && stage->connection
                                ? stage->connection->name
                                : NULL;
    if (reason == FY_STAGE_NONE && stage->parts) {
        fy_parts_name(stage, record->placed, sizeof record->placed);
        record->report.placed = record->placed;
    } else if (record->report.placed) {
        (void)snprintf(record->placed, sizeof record->placed, "%.470s%s",
                       stage->connection->name,
                       stage->connection->programs == FY_TOOLS_HOST
                           ? ", the host's program"
                       : stage->carry.carried ? ", carried"
                                              : "");
        record->report.placed = record->placed;
    }
    record->report.seconds = (double)(fy_clock_ns() - stage->began_ns) / 1e9;
    record->report.bytes_from_link =
        stage->flow.received_bytes[0] + stage->flow.received_bytes[1];
    record->report.bytes_to_link = stage->input.sent_bytes + stage->carry.bytes;
    (void)snprintf(record->why, sizeof record->why, "%s", why ? why : "");
    record->report.why = record->why;
}

/* ---- the last word ------------------------------------------------------------------ */

void
fy_stage_finish(struct stage *stage)
{
    struct stub_client *client = stage->client;
    fy_loop_unset(&stage->session->loop, &stage->timer);
    fy_stage_event(stage, STAGE_LEAVES);
    stage->client = NULL;
    if (stage->parts) {
        fy_parts_end(stage);
    }
    if (client) {
        fy_stub_client_finish(client);
    }
    fy_link_wake(stage->session);
}

void
fy_stage_detach(struct stage *stage)
{
    if (stage->join.feeds) {
        stage->join.feeds->join.fed_by = NULL;
        stage->join.feeds = NULL;
    }
    if (stage->join.fed_by) {
        stage->join.fed_by->join.feeds = NULL;
        stage->join.fed_by = NULL;
    }
    if (stage->flow.out_open && stage->flow.out.connection) {
        fy_wire_cancel(stage->flow.out.connection->wire,
                       stage->flow.out.stream);
    }
    if (stage->flow.err_open && stage->flow.err.connection) {
        fy_wire_cancel(stage->flow.err.connection->wire,
                       stage->flow.err.stream);
    }
    if (stage->prepare.touched_open && stage->prepare.touched.connection) {
        fy_wire_cancel(stage->prepare.touched.connection->wire,
                       stage->prepare.touched.stream);
    }
}

void
fy_stage_decline(struct stage *stage, unsigned reason, const char *why)
{
    if (stage->whole) {
        fy_parts_fail(stage->whole, reason, why);
        return;
    }
    fy_debug(CLIENT, "stage of pid %d runs here: %s %s", stage->hello.pid,
             fy_stage_reason_word(reason), why ? why : "");
    fy_stage_note(stage, reason, why, -1);
    if (stage->client) {
        if (reason != FY_STAGE_OTHER_VIEW) {
            fy_foresee(stage);
        }
        fy_stub_client_send(stage->client, FY_STUB_EXEC, NULL, 0);
    }
    fy_stage_finish(stage);
}

static void
end_with(struct stage *stage, int signal, int status, int64_t input_bytes)
{
    const struct fy_stub_exit end = {signal, status, input_bytes};
    if (stage->client) {
        fy_stub_client_send(stage->client, FY_STUB_EXIT, &end, sizeof end);
    }
    fy_stage_finish(stage);
}

/* The command may have done something that cannot be done twice. */
static void
fail(struct stage *stage, const char *why)
{
    char text[512];
    (void)snprintf(text, sizeof text,
                   "%.100s: ferry: %.200s; what it did at %.100s is "
                   "incomplete or unknown\n",
                   stage->argv[0], why,
                   stage->connection ? stage->connection->name : "its proxy");
    fy_plain(text, "\n"); /* the proxy may have said why */
    const uint64_t now = FY_PLACE_ANY;
    if (stage->client) {
        fy_stub_client_send(stage->client, FY_STUB_PLACE, &now, sizeof now);
        fy_stub_client_send(stage->client, FY_STUB_ERR, text, strlen(text));
    }
    /* Its changes show here as soon as they can; no process waits for that. */
    (void)fy_prepare_after(stage);
    fy_stage_note(stage, FY_STAGE_LOST_LINK, why, FAILED);
    end_with(stage, 0, FAILED, -1);
}

void
fy_stage_give_up(struct stage *stage)
{
    static const char why[] = "it does not answer a signal";
    fy_debug(CLIENT, "stage of pid %d is given up: signal %d is not answered",
             stage->hello.pid, stage->order.ending);
    struct stage *reader = stage->join.feeds;
    if (stage->prepare.refresh == REFRESH_DUE) {
        (void)fy_prepare_after(stage);
    }
    fy_prepare_hurry(stage, true);
    if (stage->state == STAGE_DONE) {
        return;
    }
    fy_stage_detach(stage);
    fy_stage_note(stage, FY_STAGE_LOST_LINK, why, -1);
    if (stage->result.known) {
        end_with(stage, stage->result.signal, stage->result.status, -1);
    } else {
        end_with(stage, stage->order.ending, 0, -1);
    }
    if (reader) {
        fy_stage_try_end(reader); /* which may wait for the end of this stage */
    }
}

void
fy_stage_repeat(struct stage *stage, unsigned reason, const char *why)
{
    fy_debug(CLIENT,
             "stage of pid %d runs again here, behind %llu + %llu bytes: %s %s",
             stage->hello.pid,
             (unsigned long long)stage->flow.received_bytes[0],
             (unsigned long long)stage->flow.received_bytes[1],
             fy_stage_reason_word(reason), why ? why : "");
    fy_stage_note(stage, reason, why, -1);
    if (stage->client) {
        fy_stub_client_send(stage->client, FY_STUB_AGAIN, NULL, 0);
    }
    fy_stage_finish(stage);
}

/* One stage of those that cannot go on; its streams are cancelled. */
static void
recover(struct stage *stage, unsigned reason, const char *why)
{
    bool delivered =
        stage->flow.received_bytes[0] > 0 || stage->flow.received_bytes[1] > 0;
    bool begun = stage->state >= STAGE_ASKED && !stage->result.refused;
    fy_stage_detach(stage);
    if (stage->state == STAGE_DONE) {
        return;
    }
    if (begun && !stage->result.repeatable_here) {
        fail(stage, why);
    } else if (delivered) {
        fy_stage_repeat(stage, reason, why);
    } else {
        fy_stage_decline(stage, reason, why);
    }
}

/* From its beginning: it changes nothing, and its input is still there. */
static bool
is_repeatable(const struct stage *stage)
{
    return stage->plan.repeatable && !stage->input.consumed;
}

/* The stage and those joined to it, from the first; how many. Those of which the
 * original may run are marked. */
static unsigned
gather(struct stage *stage, struct stage *group[GROUP_MAX])
{
    unsigned n = 0;
    struct stage *first = stage;
    while (first->join.fed_by) {
        first = first->join.fed_by;
    }
    /* The feeder of a stage that runs again has to run again as well. */
    bool repeatable = !first->join.joined;
    for (struct stage *each = first; each && n < GROUP_MAX;
         each = each->join.feeds) {
        group[n++] = each;
        bool begun = each->state >= STAGE_ASKED && !each->result.refused;
        repeatable = repeatable && (!begun || is_repeatable(each)) &&
                     (each->client || each->state != STAGE_DONE);
        each->result.repeatable_here = repeatable;
    }
    return n;
}

bool
fy_stage_may_fall_back(struct stage *stage)
{
    struct stage *group[GROUP_MAX];
    unsigned n = gather(stage, group);
    return group[n - 1]->result.repeatable_here;
}

void
fy_stage_fall_back(struct stage *stage, unsigned reason, const char *why)
{
    if (stage->whole || stage->parts) {
        fy_parts_fail(stage->whole ? stage->whole : stage, reason, why);
        return;
    }
    struct stage *group[GROUP_MAX];
    unsigned n = gather(stage, group);
    for (unsigned i = 0; i < n; i++) {
        recover(group[i], reason, why);
    }
}

bool
fy_stage_is_cut(const struct stage *stage)
{
    return stage->state == STAGE_ENDED && stage->order.signalled &&
           stage->result.signal != 0;
}

void
fy_stage_try_end(struct stage *stage)
{
    if (stage->state != STAGE_ENDED || stage->flow.err_open ||
        stage->flow.out_open) {
        return;
    }
    if (stage->whole && !fy_part_may_send(stage)) {
        return; /* its turn comes later, or is over */
    }
    int held = stage->whole ? fy_part_flush(stage) : 0;
    if (held) {
        fy_part_stop(stage, held);
        return;
    }
    if (stage->join.feeds && is_repeatable(stage) &&
        stage->join.feeds->state < STAGE_DONE) {
        return; /* this stage may have to run again for its reader */
    }
    /* If that is lost, both run again. It comes, or the link breaks; what still
     * runs may do so for ever, and this stage has not read it to its end. */
    if (stage->join.fed_by && !stage->join.fed_by->result.known) {
        if (stage->result.feeder_ended) {
            return;
        }
        uint64_t waited = fy_clock_ns() - stage->result.ended_ns;
        if (waited < FEEDER_MS * ms_ns) {
            fy_loop_set(&stage->session->loop, &stage->timer,
                        FEEDER_MS * ms_ns - waited + ms_ns);
            return;
        }
    }
    bool cut = fy_stage_is_cut(stage);
    int whole = cut ? 0 : fy_flow_whole(stage);
    if (whole == FY_ERR_BUSY) {
        return; /* the stub has not yet taken what came */
    }
    if (whole) {
        fy_stage_fall_back(stage, FY_STAGE_LOST_LINK,
                           "some of its output is missing");
        return;
    }
    /* None of the commands that it ran wrote after its reader had gone: so it was
     * not told. Here one would have been ended, and it would have said so. */
    if (stage->flow.left_unread && stage->result.signal == 0 &&
        stage->result.status == 0 && stage->flow.received_bytes[1] == 0 &&
        fy_stage_may_fall_back(stage)) {
        fy_stage_fall_back(stage, FY_STAGE_LOST_LINK, strerrordesc_np(EPIPE));
        return;
    }
    if (stage->prepare.refresh == REFRESH_DUE) {
        stage->prepare.refresh = REFRESH_DONE;
        if (fy_prepare_after(stage)) {
            return; /* with nothing to refresh it has come here again, and ended */
        }
    }
    if (stage->prepare.refresh == REFRESH_RUNS) {
        fy_prepare_hurry(stage, false);
        return;
    }
    uint64_t now = fy_clock_ns();
    if (now < stage->prepare.fresh_ns && !cut) {
        fy_loop_set(&stage->session->loop, &stage->timer,
                    stage->prepare.fresh_ns - now);
        return;
    }
    for (int i = 0; i < 3; i++) {
        if (stage->files[i] >= 0 && stage->result.offsets[i] >= 0) {
            (void)lseek(stage->files[i], stage->result.offsets[i], SEEK_SET);
        }
    }
    if (stage->whole) {
        fy_part_ended(stage);
        return;
    }
    fy_debug(CLIENT,
             "stage of pid %d ended: status %d, signal %d, %llu bytes written",
             stage->hello.pid, stage->result.status, stage->result.signal,
             (unsigned long long)stage->result.out_bytes);
    fy_stage_note(stage, FY_STAGE_NONE, "",
                  stage->result.signal ? 128 + stage->result.signal
                                       : stage->result.status);
    struct stage *feeder = stage->join.fed_by;
    end_with(stage, stage->result.signal, stage->result.status,
             stage->input.streams ? stage->input.taken_bytes : -1);
    if (feeder) {
        feeder->join.feeds = NULL;
        stage->join.fed_by = NULL;
        fy_stage_try_end(feeder);
    }
}
