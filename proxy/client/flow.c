/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The account of a stage's output: windows, bytes and credits. Memory is bounded: the
 * proxy may send what the stub has not yet written up to FY_STUB_WINDOW_BYTES, and
 * nothing before its reader is known.
 */
#include "config.h"

#include "proxy/client/stage.h"

enum {
    STEP_BYTES = 128 << 10, /* less is not worth a frame */
    PACKED_BYTES = 1 << 20, /* the window of compressed output, not decoded */
};

void
fy_flow_allow(struct stage *stage, int i, uint64_t bytes)
{
    struct exchange *exchange = i == 0 ? &stage->flow.out : &stage->flow.err;
    if (exchange->connection &&
        fy_wire_grant(exchange->connection->wire, exchange->stream,
                      (size_t)bytes) == 0) {
        stage->flow.granted_bytes[i] += bytes;
    }
}

static uint64_t
beyond(uint64_t bytes, uint64_t limit)
{
    return bytes > limit ? bytes - limit : 0;
}

void
fy_flow_grant(struct stage *stage)
{
    struct stage_flow *flow = &stage->flow;
    /* Along with the request, unless it may yet turn out not to pay. */
    bool early =
        stage->state == STAGE_ASKED && !stage->place.probe && !stage->whole;
    if ((!early && stage->state != STAGE_RUNNING &&
         stage->state != STAGE_ENDED) ||
        !stage->join.settled || (stage->whole && !fy_part_may_send(stage))) {
        return;
    }
    /* The stub says of both streams together what it has written: that of one is at
     * least what the other has not had. stderr has a window of its own, since what
     * the stub keeps of it may wait for stdout. */
    uint64_t written[2] = {
        beyond(flow->credited_bytes, flow->received_bytes[1]),
        beyond(flow->credited_bytes, flow->received_bytes[0]),
    };
    uint64_t err = flow->granted_bytes[1] - flow->head_bytes - written[1];
    if (flow->err_open && err < FLOW_ERR_BYTES / 2) {
        fy_flow_allow(stage, 1, FLOW_ERR_BYTES - err);
    }
    uint64_t room = beyond(FLOW_OUT_BYTES, flow->granted_bytes[0] - written[0]);
    /* Joined to a reader there, it has no output here. */
    if (flow->out_open && !stage->join.feeds && flow->unsqueeze) {
        uint64_t ahead = flow->granted_bytes[0] - flow->packed_bytes +
                         fy_unsqueeze_waiting(flow->unsqueeze);
        if (ahead <= PACKED_BYTES / 2) {
            fy_flow_allow(stage, 0, PACKED_BYTES - ahead);
        }
    } else if (flow->out_open && !stage->join.feeds && room >= STEP_BYTES) {
        fy_flow_allow(stage, 0, room);
    }
}

int
fy_flow_deliver(struct stage *stage, int i, const char *bytes, size_t n)
{
    struct stage_flow *flow = &stage->flow;
    if (i == 1 && stage->client && flow->place != flow->told_place) {
        if (fy_stub_client_send(stage->client, FY_STUB_PLACE, &flow->place,
                                sizeof flow->place)) {
            return FY_ERR_NOMEM;
        }
        flow->told_place = flow->place;
    }
    while (n > 0) {
        size_t part = n < FY_STUB_DATA_BYTES ? n : FY_STUB_DATA_BYTES;
        if (stage->client &&
            fy_stub_client_send(stage->client,
                                i == 0 ? FY_STUB_OUT : FY_STUB_ERR, bytes,
                                part)) {
            return FY_ERR_NOMEM;
        }
        flow->received_bytes[i] += part;
        flow->handed_bytes += part;
        bytes += part;
        n -= part;
    }
    return 0;
}

int
fy_flow_whole(const struct stage *stage)
{
    const struct stage_flow *flow = &stage->flow;
    /* A write that fails is told before its credit, and is no good end. */
    if (fy_stage_stub_client(stage) &&
        flow->handed_bytes > flow->credited_bytes) {
        return FY_ERR_BUSY;
    }
    return fy_stage_stub_client(stage) && flow->granted_bytes[0] &&
                   stage->plan.out.kind == FY_STREAM_WIRE &&
                   flow->received_bytes[0] != stage->result.out_bytes
               ? FY_ERR_IO
               : FY_OK;
}

void
fy_flow_free(struct stage *stage)
{
    fy_unsqueeze_free(stage->flow.unsqueeze);
}
