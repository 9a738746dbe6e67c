/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The states of a stage at the session. A row for each event: the states in which it
 * may come, the state that follows, who raises it and what is done then. What comes
 * without moving the stage on (bytes, credits, signals, timers) is dealt with where it
 * comes: streams.c, input.c, order.c, on_timer() of stage.c.
 */
#include "config.h"

#include "common/debug.h"
#include "proxy/client/stage.h"

#define IN(state) (1U << STAGE_##state)

enum {
    /* Nothing has begun at the proxy. */
    BEFORE = IN(WAIT_REACH) | IN(PREPARING) | IN(WAIT_INPUT) | IN(RETRYING),
    /* A request is on its way, or its stage runs or ran. */
    THERE = IN(ASKED) | IN(RUNNING) | IN(ENDED),
};

static const struct {
    const char *word;
    unsigned from;
    enum stage_state to;
} events[] = {
    /* fy_stage_place(): the connection takes no request yet. fy_stages_reached() places
     * it again; after 5 s it runs here. Meanwhile the mount is prepared. */
    [STAGE_LACKS_HOST] = {"lacks its host", BEFORE, STAGE_WAIT_REACH},
    /* fy_stage_place(), fy_stage_stream(): the connection takes its request. The mount is
     * prepared, sizes are asked for; fy_stage_ask() follows, or it runs here. */
    [STAGE_IS_TAKEN] = {"is taken", BEFORE, STAGE_PREPARING},
    /* begin() of stage_stub.c, fy_stage_retry(): it reads a pipe. link.c finds what feeds it:
     * fy_stage_ask() joins both, fy_stage_stream() sends what comes from here. */
    [STAGE_LACKS_INPUT] = {"lacks its input", IN(WAIT_REACH) | IN(RETRYING),
                           STAGE_WAIT_INPUT},
    /* fy_stage_ask(); fy_parts_start() for the whole. The request is sent. */
    [STAGE_ASKS] = {"asks", IN(WAIT_REACH) | IN(PREPARING) | IN(WAIT_INPUT),
                    STAGE_ASKED},
    /* out_response(): refused for a root that was remembered here. Its streams are
     * cancelled; once they are closed it is placed again, with its readers. */
    [STAGE_RETRIES] = {"retries", IN(ASKED), STAGE_RETRYING},
    /* out_response(): 200; of a whole: of all its parts. The stub is told, bytes flow. */
    [STAGE_IS_ACCEPTED] = {"is accepted", IN(ASKED), STAGE_RUNNING},
    /* out_end(): the trailers say how it ended; of a whole: its last part's.
     * fy_stage_try_end() waits for its output, its feeder and the mount. */
    [STAGE_HAS_RESULT] = {"has its result", IN(RUNNING), STAGE_ENDED},
    /* fy_stage_finish(): the stub got its last word (the result, or to run the original,
     * from its beginning or behind what was delivered), or is gone. */
    [STAGE_LEAVES] = {"leaves", BEFORE | THERE, STAGE_DONE},
};

void
fy_stage_event(struct stage *stage, enum stage_event event)
{
    static const char *const words[] = {"waits for its host",
                                        "prepares",
                                        "waits for input",
                                        "retries",
                                        "asked",
                                        "runs",
                                        "ended",
                                        "done"};
    enum stage_state to = events[event].to;
    fy_debug_expect(events[event].from >> stage->state & 1);
    fy_debug(CLIENT, "stage of pid %d%s: %s -> %s (%s%s)", stage->hello.pid,
             stage->whole ? ", part" : "", words[stage->state], words[to],
             events[event].from >> stage->state & 1 ? "" : "unexpected: ",
             events[event].word);
    stage->state = to;
}
