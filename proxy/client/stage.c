/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of one stage up to its request: what it waits for. stage_stub.c has what
 * it is, stage_end.c the end.
 */
#include "config.h"

#include "proxy/client/stage.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "proxy/wire/protocol.h"

enum {
    WAIT_REACH_MS = 5000,
    ANSWER_MS = 2000, /* of the files of this machine */
};
static const uint64_t ms_ns = 1000000;

/* ---- asking -------------------------------------------------------------------------- */

static void
decline_cost(struct stage *stage)
{
    fy_stage_decline(
        stage, stage->place.small ? FY_STAGE_TOO_SMALL : FY_STAGE_UNPROFITABLE,
        "");
}

void
fy_stage_open(struct stage *stage)
{
    stage->join.settled = true;
    if (stage->place.unprofitable && !stage->join.feeds &&
        stage->plan.out.is_pipe && !stage->join.fed_by &&
        stage->plan.repeatable && stage->flow.received_bytes[1] == 0) {
        fy_stage_detach(stage);
        decline_cost(stage);
        return;
    }
    fy_flow_grant(stage);
}

void
fy_stage_ask(struct stage *stage, struct stage *feeder)
{
    char path[64];
    char *body = NULL;
    size_t n;
    stage->number = stage->session->next_stage++;
    fy_loop_unset(&stage->session->loop, &stage->timer);
    char text[200] = "";
    struct fy_buffer why;
    fy_buffer_start(&why, text, sizeof text);
    if (!fy_ask_is_same_user(stage, &why)) {
        fy_stage_decline(stage, FY_STAGE_OTHER_NAMES, text);
        return;
    }
    int status = fy_ask_encode(stage, feeder, &body, &n);
    if (status == FY_ERR_UNSUPPORTED) {
        fy_stage_decline(stage, FY_STAGE_ODD_STREAM,
                         "its output cannot be compared with what it reads");
        return;
    }
    if (status) {
        fy_stage_decline(stage, FY_STAGE_BUSY, "out of memory");
        return;
    }
    fy_stage_event(stage, STAGE_ASKS);
    stage->asked_ns = fy_clock_ns();
    stage->flow.out = *stage->session->calls->out;
    stage->flow.err = *stage->session->calls->err;
    if (fy_connection_request(stage->connection, FY_PATH_STAGE, true,
                              &stage->flow.out)) {
        goto refuse;
    }
    stage->flow.out_open = true;
    struct fy_wire *wire = stage->connection->wire;
    if (fy_wire_send(wire, stage->flow.out.stream, body, n) ||
        (!stage->input.streams &&
         fy_wire_finish(wire, stage->flow.out.stream, NULL, 0))) {
        goto refuse;
    }
    if (stage->plan.err.kind == FY_STREAM_WIRE) {
        (void)snprintf(path, sizeof path, "/stage/%llu/stderr",
                       (unsigned long long)stage->number);
        if (fy_connection_request(stage->connection, path, false,
                                  &stage->flow.err)) {
            goto refuse;
        }
        stage->flow.err_open = true;
    }
    fy_prepare_touched(stage);
    free(body);
    if (stage->connection->state == CONNECTION_GREETING) {
        fy_loop_set(&stage->session->loop, &stage->timer,
                    WAIT_REACH_MS * ms_ns);
    }
    if (feeder) {
        stage->join.joined = true;
        feeder->join.feeds = stage;
        stage->join.fed_by = feeder;
        if (feeder->record) {
            feeder->record->report.linked_to = stage->hello.pid;
        }
        fy_stage_open(feeder); /* its stderr, that is */
    }
    if (!stage->plan.out.is_pipe) {
        stage->join.settled = true;
        fy_flow_grant(stage);
    }
    fy_link_wake(stage->session);
    return;
refuse:
    free(body);
    stage->result.refused = true;
    fy_stage_detach(stage);
    fy_stage_decline(stage, FY_STAGE_BUSY, "the request cannot be sent");
}

void
fy_stage_prepare(struct stage *stage)
{
    if (stage->prepare.job || fy_prepare_before(stage)) {
        fy_loop_set(&stage->session->loop, &stage->timer, ANSWER_MS * ms_ns);
    } else {
        fy_stage_decline(stage, FY_STAGE_BUSY, "no thread can be had");
    }
}

/* Whether a look at its files is under way; there is one at most. */
static bool
looks(struct stage *stage)
{
    return stage->place.look ||
           (!stage->place.looked && fy_placement_look(stage));
}

void
fy_stage_place(struct stage *stage)
{
    /* Again, if the connection broke meanwhile. */
    struct connection *connection =
        fy_connection_of(stage->session, stage->mount);
    if (!connection || connection->state == CONNECTION_BAD) {
        fy_stage_decline(stage, FY_STAGE_NO_PROXY,
                         connection ? connection->trouble : "");
    } else if (fy_connection_takes(connection, stage)) {
        fy_stage_event(stage, STAGE_IS_TAKEN);
        if (stage->carry.active) {
            return; /* fy_stage_prepared() follows */
        }
        if (stage->prepare.done) {
            fy_stage_prepared(stage, 0);
        } else if (stage->prepare.job || !looks(stage)) {
            fy_stage_prepare(stage);
        }
    } else {
        /* The stage does not run meanwhile, so earlier writes are still
         * earlier. */
        fy_stage_event(stage, STAGE_LACKS_HOST);
        fy_connection_awaited(connection, stage);
        fy_loop_set(&stage->session->loop, &stage->timer,
                    WAIT_REACH_MS * ms_ns);
        if (!stage->prepare.done && !stage->prepare.job && !looks(stage)) {
            (void)fy_prepare_before(stage);
        }
    }
}

void
fy_stage_looked(struct stage *stage)
{
    stage->place.looked = true;
    if (stage->state != STAGE_WAIT_REACH && stage->state != STAGE_PREPARING) {
        return;
    }
    if (stage->place.hopeless && !stage->flow.out_open) {
        decline_cost(stage);
    } else if (!stage->prepare.done && !stage->prepare.job) {
        fy_stage_place(stage);
    }
}

void
fy_stage_prepared(struct stage *stage, int status)
{
    /* A preparation that fails while the proxy is waited for is tried again
     * then. */
    stage->prepare.done = !status || stage->state != STAGE_WAIT_REACH;
    if (stage->state != STAGE_PREPARING && stage->state != STAGE_WAIT_INPUT) {
        return;
    }
    const char *why;
    unsigned reason = fy_gather_reason(stage->prepare.gather, &why);
    fy_loop_unset(&stage->session->loop, &stage->timer);
    if (reason) {
        fy_stage_decline(stage, reason, why);
    } else if (status) {
        fy_stage_decline(stage, FY_STAGE_NO_PROXY, "the mount does not answer");
    } else if (stage->state == STAGE_WAIT_INPUT) {
        if (fy_carry_wait(stage, stage->connection)) {
            stage->prepare.done = false; /* it is joined afterwards */
        } else {
            fy_link_wake(stage->session);
        }
    } else if (!fy_connection_takes(stage->connection, stage)) {
        fy_stage_place(stage);
    } else if (!fy_placement_ask(stage)) {
        fy_stage_placed(stage);
    }
}

/*
 * Names that sshfs remembers may be older than what was done there meanwhile.
 * The second look is a fresh one. What was joined waits again for its input.
 */
void
fy_stage_retry(struct stage *stage)
{
    if (stage->state != STAGE_RETRYING) {
        struct stage *reader = stage->join.feeds;
        stage->prepare.retried = stage->prepare.retried || !stage->join.joined;
        fy_stage_event(stage, STAGE_RETRIES);
        stage->join.settled = false;
        fy_loop_unset(&stage->session->loop, &stage->timer); /* of a login */
        fy_placement_forget(stage);
        fy_stage_detach(stage);
        memset(stage->flow.granted_bytes, 0, sizeof stage->flow.granted_bytes);
        if (reader) {
            fy_stage_retry(reader);
        }
    }
    if (stage->state != STAGE_RETRYING || stage->flow.out_open ||
        stage->flow.err_open || stage->prepare.touched_open) {
        return;
    }
    if (stage->join.joined) {
        stage->join.joined = false;
        fy_stage_event(stage, STAGE_LACKS_INPUT);
        fy_link_wake(stage->session);
    } else {
        stage->prepare.done = false;
        fy_stage_place(stage);
    }
}

void
fy_stage_placed(struct stage *stage)
{
    if (!stage->whole && stage->place.unprofitable &&
        (stage->place.hopeless || !stage->plan.out.is_pipe ||
         stage->input.streams)) {
        decline_cost(stage);
    } else if (fy_carry_wait(stage, stage->connection)) {
        return; /* it comes again */
    } else if (stage->whole) {
        fy_part_placed(stage);
    } else if (!fy_connection_takes(stage->connection, stage)) {
        fy_stage_place(stage);
    } else {
        fy_stage_ask(stage, NULL);
    }
}

void
fy_stage_stream(struct stage *stage)
{
    stage->input.streams = true;
    stage->plan.in.kind = FY_STREAM_WIRE;
    if (fy_placement_beats_login(stage)) {
        decline_cost(stage);
    } else if (!stage->prepare.job && stage->prepare.done &&
               fy_connection_takes(stage->connection, stage)) {
        fy_stage_event(stage, STAGE_IS_TAKEN);
        fy_stage_prepared(stage, 0);
    } else if (stage->prepare.job || stage->carry.active) {
        /* The stage goes on when the preparation is done. */
        fy_stage_event(stage, STAGE_IS_TAKEN);
    } else {
        fy_stage_place(stage);
    }
}

void
fy_stages_reached(struct fy_session *session, struct connection *connection)
{
    struct stage *next;
    for (struct stage *stage = session->stages; stage; stage = next) {
        next = stage->next;
        if (stage->connection != connection ||
            stage->state != STAGE_WAIT_REACH) {
            continue;
        }
        fy_stage_place(stage);
    }
    fy_link_wake(session);
}

static void
on_timer(void *owner)
{
    struct stage *stage = owner;
    if (stage->state == STAGE_RUNNING && stage->order.ending) {
        fy_stage_give_up(stage);
    } else if (stage->state == STAGE_WAIT_REACH) {
        fy_stage_decline(stage, FY_STAGE_NO_PROXY,
                         "it does not answer in time");
    } else if (stage->state == STAGE_ASKED &&
               stage->connection->state == CONNECTION_GREETING) {
        fy_stage_fall_back(stage, FY_STAGE_NO_PROXY,
                           "it does not answer in time");
    } else if (fy_prepare_is_stuck(stage)) {
        fy_stage_decline(stage, FY_STAGE_OTHER_CONFIG,
                         "files that it reads here do not answer");
    } else if (stage->state == STAGE_PREPARING && stage->prepare.done) {
        fy_stage_placed(stage);
    } else if (stage->state == STAGE_WAIT_INPUT && !stage->prepare.done &&
               !stage->prepare.job) {
        fy_stage_prepared(stage, 0);
    } else {
        fy_stage_try_end(stage);
    }
}

/* ---- its begin and end -------------------------------------------------------- */

void
fy_stage_clear(struct stage *stage)
{
    memset(stage->files, -1, sizeof stage->files);
    memset(stage->result.offsets, -1, sizeof stage->result.offsets);
    stage->timer.run = on_timer;
    stage->timer.owner = stage;
}

static void
stage_free(struct stage *stage)
{
    fy_flow_free(stage);
    fy_prepare_forget(stage);
    fy_placement_forget(stage);
    fy_carry_forget(stage);
    fy_part_forget(stage);
    if (stage->parsed) {
        fy_invocation_clear(&stage->invocation);
    }
    for (int i = 0; i < 3; i++) {
        if (stage->files[i] >= 0) {
            (void)close(stage->files[i]);
        }
    }
    free(stage->block);
    free(stage->argv);
    free(stage->env);
    free(stage);
}

void
fy_stages_sweep(struct fy_session *session)
{
    struct stage **link = &session->stages;
    while (*link) {
        struct stage *stage = *link;
        if (stage->state != STAGE_DONE || stage->flow.out_open ||
            stage->flow.err_open || stage->prepare.touched_open ||
            fy_parts_left(stage)) {
            link = &stage->next;
            continue;
        }
        *link = stage->next;
        if (stage->join.feeds) {
            stage->join.feeds->join.fed_by = NULL;
        }
        if (stage->join.fed_by) {
            stage->join.fed_by->join.feeds = NULL;
        }
        stage_free(stage);
    }
}
