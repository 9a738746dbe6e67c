/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stdin that is sent from here to a stage at a proxy. The stub may read ahead of
 * the command, so this is only for what no other process reads: a pipe of which the
 * stub is the only reader, a file that no other process has open (or that the command
 * reads to its end anyway). The stub reads what the proxy has room for, and
 * keeps what it read of a pipe as long as the command may have to run again.
 */
#include "config.h"

#include "proxy/client/holders.h"
#include "proxy/client/stage.h"

enum {
    STEP_BYTES =
        32 << 10, /* less is not worth a frame, but when nothing goes */
    PIPE_BYTES = 64 << 10,
};

bool
fy_input_is_own(const struct stage *stage)
{
    const struct fy_stream_fact *fact = &stage->facts.streams[0];
    return fy_invocation_is(&stage->invocation, FY_TRAIT_DRAINS) ||
           fy_holders_alone(stage->session->scan.holders, fact->path,
                            fact->device, fact->inode, stage->hello.pid);
}

/*
 * What may be on its way of a pipe, `taken' of which the stage's own pipe has taken.
 * Where another pipe follows, its reader may end early, and the writer here must not
 * go on for long behind it: a pipe's worth, and no more than was wanted already; no
 * more at all while the reader here is behind.
 */
static uint64_t
most_ahead(const struct stage *stage, uint64_t taken)
{
    if (!stage->plan.in.is_pipe || !stage->plan.out.is_pipe) {
        return UINT64_MAX;
    }
    if (stage->flow.handed_bytes - stage->flow.credited_bytes > PIPE_BYTES) {
        return 0;
    }
    return taken > PIPE_BYTES ? taken : PIPE_BYTES;
}

void
fy_input_want(struct stage *stage)
{
    if (!stage->input.streams || stage->state != STAGE_RUNNING ||
        !stage->client || stage->input.ended || !stage->flow.out.connection) {
        return;
    }
    uint64_t ahead = stage->input.wanted_bytes - stage->input.sent_bytes;
    uint64_t room =
        fy_wire_room(stage->flow.out.connection->wire, stage->flow.out.stream);
    if (room > stage->input.window_bytes) {
        stage->input.window_bytes = room; /* all of it, before any was used */
    }
    uint64_t sent = stage->input.window_bytes - room;
    uint64_t most = most_ahead(stage, stage->input.sent_bytes - sent);
    most = most > sent ? most - sent : 0;
    room = room < most ? room : most;
    if (room <= ahead || (ahead > 0 && room - ahead < STEP_BYTES)) {
        return;
    }
    uint32_t more = (uint32_t)(room - ahead); /* a window is no larger */
    stage->input.wanted_bytes += more;
    stage->input.consumed = stage->plan.in.is_pipe && !stage->input.keeps;
    fy_stub_client_send(stage->client, FY_STUB_WANT, &more, sizeof more);
}

void
fy_input_add(struct stage *stage, const char *bytes, size_t n)
{
    if (stage->state != STAGE_RUNNING || !stage->flow.out.connection) {
        return; /* it has ended, and reads no more */
    }
    if (!stage->input.streams || stage->input.ended ||
        n > stage->input.wanted_bytes - stage->input.sent_bytes) {
        fy_stub_client_drop(stage->client);
        return;
    }
    stage->input.sent_bytes += n;
    int status = fy_wire_send(stage->flow.out.connection->wire,
                              stage->flow.out.stream, bytes, n);
    if (status && status != FY_ERR_NOENT) {
        fy_stage_fall_back(stage, FY_STAGE_LOST_LINK,
                           "its input cannot be sent");
        return;
    }
    fy_input_want(stage);
}

void
fy_input_end(struct stage *stage)
{
    if (stage->state != STAGE_RUNNING || !stage->input.streams ||
        stage->input.ended || !stage->flow.out.connection) {
        return;
    }
    stage->input.ended = true;
    int status = fy_wire_finish(stage->flow.out.connection->wire,
                                stage->flow.out.stream, NULL, 0);
    if (status && status != FY_ERR_NOENT) {
        fy_stage_fall_back(stage, FY_STAGE_LOST_LINK,
                           "its input cannot be sent");
    }
}

/* The rest of a pipe is only taken if that is not needed: else the original has
 * all of it. A stage that could not be repeated anyway loses nothing. */
void
fy_input_full(struct stage *stage)
{
    if (stage->state != STAGE_RUNNING || !stage->input.keeps) {
        return;
    }
    if (fy_stage_may_fall_back(stage)) {
        fy_stage_fall_back(stage, FY_STAGE_LIMITS,
                           "more input than can be kept for another try");
        return;
    }
    stage->input.keeps = false;
    stage->input.consumed = true;
    if (stage->client) {
        fy_stub_client_send(stage->client, FY_STUB_FORGET, NULL, 0);
    }
    fy_input_want(stage);
}
