/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The streams of a stage at its proxy: the answer to its request, its output and
 * result, and what the proxy is told meanwhile (signals, window sizes, readers that
 * are gone). flow.c keeps the account of the bytes.
 */
#include "config.h"

#include <endian.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "proxy/client/stage.h"
#include "proxy/wire/protocol.h"
#include "proxy/wire/signals.h"

enum {
    SIGNAL_BYTES = 4 << 10,
    SIGNALS_MAX = 64,
    TRIP_MS = 2000, /* longest round trip that is allowed for */
    ANSWER_MS =
        2000, /* and a round trip: time to answer a signal that ends a command */
    ANOTHER_MS =
        100, /* and two round trips: a later signal counts as another */
};
static const uint64_t ms_ns = 1000000;

static struct stage *
of_out(struct exchange *exchange)
{
    return (struct stage *)((char *)exchange -
                            offsetof(struct stage, flow.out));
}

static struct stage *
of_err(struct exchange *exchange)
{
    return (struct stage *)((char *)exchange -
                            offsetof(struct stage, flow.err));
}

/* ---- bytes -------------------------------------------------------------------------- */

static void
deliver(struct stage *stage, int i, const char *bytes, size_t n)
{
    if (stage->state != STAGE_RUNNING && stage->state != STAGE_ENDED) {
        return;
    }
    if (stage->whole) {
        stage->flow.received_bytes[i] += n;
        int status = fy_part_deliver(stage, i, bytes, n);
        if (status) {
            fy_part_stop(stage, status);
        }
    } else if (fy_flow_deliver(stage, i, bytes, n)) {
        fy_stage_fall_back(stage, FY_STAGE_LOST_LINK, "no memory");
    }
}

/* Decodes what the stub has room for. */
static void
unpack(struct stage *stage)
{
    struct stage_flow *flow = &stage->flow;
    char block[FY_STUB_DATA_BYTES];
    while (flow->unsqueeze && fy_stage_stub_client(stage) &&
           (stage->state == STAGE_RUNNING || stage->state == STAGE_ENDED)) {
        uint64_t held = flow->handed_bytes - flow->credited_bytes;
        size_t n = held < FLOW_OUT_BYTES ? (size_t)(FLOW_OUT_BYTES - held) : 0;
        n = n < sizeof block ? n : sizeof block;
        if (n && fy_unsqueeze_take(flow->unsqueeze, block, n, &n)) {
            fy_stage_fall_back(stage, FY_STAGE_LOST_LINK,
                               "its output cannot be decoded");
            return;
        }
        if (!n) {
            return;
        }
        deliver(stage, 0, block, n);
    }
}

void
fy_flow_credit(struct stage *stage, uint32_t bytes)
{
    struct stage_flow *flow = &stage->flow;
    if (bytes > flow->handed_bytes - flow->credited_bytes) {
        bytes = (uint32_t)(flow->handed_bytes - flow->credited_bytes);
    }
    flow->credited_bytes += bytes;
    if (stage->parts && fy_parts_current(stage)) {
        fy_flow_credit(fy_parts_current(stage), bytes);
        return;
    }
    unpack(stage);
    fy_flow_grant(stage);
    fy_input_want(stage);
    fy_stage_try_end(stage);
}

/* ---- the stage's own stream -------------------------------------------------------------- */

static const char *
field(const struct fy_wire_pair *pairs, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(pairs[i].name, name) == 0) {
            return pairs[i].value;
        }
    }
    return NULL;
}

/* A decimal number of a trailer; `missing' when it is not one. */
static int64_t
number(const struct fy_wire_pair *pairs, size_t n, const char *name,
       int64_t missing)
{
    const char *text = field(pairs, n, name);
    char *end;
    if (!text || text[0] < '0' || text[0] > '9') {
        return missing;
    }
    long long value = strtoll(text, &end, 10);
    return *end == '\0' ? value : missing;
}

/* A command that runs others lives on without a reader: the others write, and
 * end by SIGPIPE. */
static uint32_t
pipes(const struct stage *stage)
{
    static const struct {
        enum fy_trait trait;
        uint32_t pipes;
    } rows[] = {
        {FY_TRAIT_EXCUSES_PIPES, FY_STUB_NO_FAILURE},
        {FY_TRAIT_OUTLIVES_PIPES,
         FY_STUB_OUTLIVES | FY_STUB_NO_SIGNAL | FY_STUB_IGNORES_PIPE},
        {FY_TRAIT_IGNORES_INTERRUPTS, FY_STUB_NO_INTERRUPT},
    };
    uint32_t found = stage->plan.repeatable ? 0 : FY_STUB_OUTLIVES;
    if (stage->invocation.nruns > 0) {
        return FY_STUB_OUTLIVES | FY_STUB_NO_FAILURE | FY_STUB_NO_SIGNAL;
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (fy_invocation_is(&stage->invocation, rows[i].trait)) {
            found |= rows[i].pipes;
        }
    }
    return found;
}

/* Whether to compare once more: the mount may have shown what it remembered. */
static bool
may_retry(const struct stage *stage)
{
    bool waits = stage->prepare.has_root_hash && !stage->prepare.retried &&
                 !stage->join.fed_by;
    for (const struct stage *each = stage->join.feeds; each;
         each = each->join.feeds) {
        waits = waits && each->state == STAGE_ASKED;
    }
    return waits;
}

static void
out_response(struct exchange *exchange, int status,
             const struct fy_wire_pair *pairs, size_t n)
{
    struct stage *stage = of_out(exchange);
    if (stage->state != STAGE_ASKED) {
        return;
    }
    if (status == 200) {
        stage->input.keeps = stage->input.streams && stage->plan.in.is_pipe &&
                             stage->plan.repeatable;
        const struct fy_stub_run run = {.reads_stdin = stage->input.streams,
                                        .keeps_stdin = stage->input.keeps,
                                        .pipes = pipes(stage)};
        const char *encoding = field(pairs, n, FY_FIELD_ENCODING);
        fy_stage_event(stage, STAGE_IS_ACCEPTED);
        if (encoding && (strcmp(encoding, FY_ENCODING_ZSTD) != 0 ||
                         fy_unsqueeze_new(&stage->flow.unsqueeze))) {
            fy_stage_fall_back(stage, FY_STAGE_LOST_LINK,
                               "its output cannot be decoded");
            return;
        }
        fy_carry_learn(stage, true);
        if (stage->prepare.has_root_hash) {
            for (unsigned i = 0; i < stage->plan.nmounts; i++) {
                size_t at =
                    (size_t)(stage->plan.mounts[i] - stage->session->mounts);
                stage->connection->proven[at] =
                    stage->connection->proven[at] || stage->prepare.hashed[i];
                if (stage->prepare.hashed[i] && stage->prepare.retried) {
                    fy_proof_keep(stage->session->logins,
                                  stage->plan.mounts[i]);
                }
            }
        }
        if (stage->client) {
            fy_stub_client_send(stage->client, FY_STUB_RUN, &run, sizeof run);
        }
        if (stage->whole) {
            fy_part_runs(stage);
            return;
        }
        fy_flow_grant(stage);
        fy_input_want(stage);
        return;
    }
    char text[512];
    const char *word = field(pairs, n, FY_FIELD_REASON);
    const char *why = field(pairs, n, FY_FIELD_WHY);
    unsigned reason =
        word ? fy_stage_reason_find(word) : (unsigned)FY_STAGE_REFUSED;
    if (reason == FY_STAGE_NONE || reason >= FY_STAGE_REASON_COUNT ||
        reason == FY_STAGE_NOT_ANNOTATED || reason == FY_STAGE_NOT_PARSED ||
        reason == FY_STAGE_FORBIDDEN) {
        reason = FY_STAGE_REFUSED; /* those are said of this host's */
    }
    if (reason == FY_STAGE_OTHER_TOOL) {
        fy_carry_learn(stage, false);
        reason = fy_carry_explain(stage, why ? why : "", text, sizeof text);
        why = text;
    }
    if (reason == FY_STAGE_OTHER_CONFIG && may_retry(stage)) {
        fy_stage_retry(stage);
        return;
    }
    /* Nothing has begun, here or there; what feeds it goes on by itself. */
    struct stage *feeder = stage->join.fed_by;
    stage->result.refused = true;
    fy_stage_detach(stage);
    fy_stage_decline(stage, reason, why);
    if (feeder) {
        fy_stage_open(feeder);
        fy_stage_try_end(feeder);
    }
}

static void
out_room(struct exchange *exchange)
{
    fy_input_want(of_out(exchange));
}

static void
out_data(struct exchange *exchange, const void *bytes, size_t n)
{
    struct stage *stage = of_out(exchange);
    if (!stage->flow.unsqueeze) {
        deliver(stage, 0, bytes, n);
        return;
    }
    stage->flow.packed_bytes += n;
    if (fy_unsqueeze_add(stage->flow.unsqueeze, bytes, n)) {
        fy_stage_fall_back(stage, FY_STAGE_LOST_LINK, "no memory");
        return;
    }
    unpack(stage);
    fy_flow_grant(stage);
}

/*
 * How it ended: by one status or one signal that ends processes. The stub will end
 * likewise; any other signal would stop it, or not end it. NULL, or why the
 * answer is none.
 */
static const char *
read_end(struct stage *stage, const struct fy_wire_pair *trailers, size_t n)
{
    static const char absurd[] = "its end is told as none can be";
    int64_t taken = number(trailers, n, FY_FIELD_IN_BYTES, -1);
    int64_t status = number(trailers, n, FY_FIELD_EXIT, -1);
    int64_t death = number(trailers, n, FY_FIELD_DEATH, -1);
    unsigned ends = 0;
    for (size_t i = 0; i < n; i++) {
        ends += strcmp(trailers[i].name, FY_FIELD_EXIT) == 0 ||
                strcmp(trailers[i].name, FY_FIELD_DEATH) == 0;
    }
    const char *word = field(trailers, n, FY_FIELD_REASON);
    if (ends == 0) {
        return word ? word : "it was cut off";
    }
    if (ends > 1 || word || status > 255 ||
        (status < 0 && !fy_signal_kills(death)) ||
        (stage->input.streams && taken > (int64_t)stage->input.sent_bytes)) {
        return absurd;
    }
    stage->result.status = status >= 0 ? (int)status : 0;
    stage->result.signal = status >= 0 ? 0 : (int)death;
    stage->input.taken_bytes = taken;
    return NULL;
}

/* Ends a stage in the middle of its output by a signal: the proxy may hold
 * stderr for which no stub here has room. */
static void
end_by(struct stage *stage, int signal)
{
    stage->result.signal = signal;
    if (stage->flow.err_open && stage->flow.err.connection) {
        fy_wire_cancel(stage->flow.err.connection->wire,
                       stage->flow.err.stream);
    }
}

static void
out_end(struct exchange *exchange, const struct fy_wire_pair *trailers,
        size_t n)
{
    struct stage *stage = of_out(exchange);
    struct stage_result *result = &stage->result;
    if (stage->state != STAGE_RUNNING) {
        return;
    }
    const char *why = read_end(stage, trailers, n);
    if (why) {
        fy_stage_fall_back(stage, FY_STAGE_LOST_LINK, why);
        return;
    }
    result->known = true;
    result->offsets[0] = number(trailers, n, FY_FIELD_STDIN_OFFSET, -1);
    result->offsets[1] = number(trailers, n, FY_FIELD_STDOUT_OFFSET, -1);
    result->offsets[2] = number(trailers, n, FY_FIELD_STDERR_OFFSET, -1);
    result->feeder_ended = number(trailers, n, FY_FIELD_FEEDER, 0) > 0;
    result->out_bytes = (uint64_t)number(trailers, n, FY_FIELD_OUT_BYTES, 0);
    int64_t rate = number(trailers, n, FY_FIELD_RATE, 0);
    if (rate > 0) { /* a lower bound: the best that was seen */
        stage->connection->bytes_a_second =
            (double)rate > stage->connection->bytes_a_second
                ? (double)rate
                : stage->connection->bytes_a_second;
    }
    result->ended_ns = fy_clock_ns();
    fy_stage_event(stage, STAGE_HAS_RESULT);
    if (result->signal && stage->order.passed >> (result->signal - 1) & 1) {
        stage->order.signalled = true; /* SIGUSR1, too, which ends few */
    }
    /* The command there had ended before the signal came; here the stage is in
     * the middle of its output, which its reader may never take. */
    if (stage->order.signalled && !result->signal &&
        (stage->flow.handed_bytes > stage->flow.credited_bytes ||
         (stage->flow.unsqueeze &&
          fy_unsqueeze_waiting(stage->flow.unsqueeze) > 0))) {
        end_by(stage, stage->order.last);
    }
}

/* Its stream ended too early: with the connection, or with what became none. */
static void
lose(struct stage *stage)
{
    bool greets = stage->connection->state == CONNECTION_GREETING;
    fy_stage_fall_back(stage, greets ? FY_STAGE_NO_PROXY : FY_STAGE_LOST_LINK,
                       greets ? stage->connection->trouble
                              : "the connection broke");
}

static void
out_closed(struct exchange *exchange, uint32_t error)
{
    struct stage *stage = of_out(exchange);
    (void)error;
    stage->flow.out_open = false;
    if (stage->state == STAGE_RETRYING) {
        fy_stage_retry(stage);
    } else if (stage->state == STAGE_ASKED || stage->state == STAGE_RUNNING) {
        lose(stage);
    } else if (stage->state == STAGE_ENDED) {
        struct stage *reader = stage->join.feeds;
        fy_stage_try_end(stage);
        if (reader && reader->state == STAGE_ENDED) {
            fy_stage_try_end(reader);
        }
    }
}

static void
err_head(struct stage_flow *flow, char byte)
{
    uint64_t at;
    flow->head[flow->head_bytes++ % FY_PLACE_BYTES] = (unsigned char)byte;
    if (flow->head_bytes % FY_PLACE_BYTES == 0) {
        memcpy(&at, flow->head, sizeof at);
        memcpy(&flow->record_left, flow->head + sizeof at,
               sizeof flow->record_left);
        flow->place = be64toh(at);
        flow->record_left = be32toh(flow->record_left);
    }
}

static void
err_data(struct exchange *exchange, const void *bytes, size_t n)
{
    struct stage *stage = of_err(exchange);
    struct stage_flow *flow = &stage->flow;
    const char *at = bytes;
    while (n > 0) {
        if (flow->record_left == 0) {
            err_head(flow, *at++);
            n--;
            continue;
        }
        size_t part = n < flow->record_left ? n : flow->record_left;
        flow->record_left -= (uint32_t)part;
        deliver(stage, 1, at, part);
        at += part;
        n -= part;
    }
}

static void
err_closed(struct exchange *exchange, uint32_t error)
{
    struct stage *stage = of_err(exchange);
    struct stage_flow *flow = &stage->flow;
    flow->err_open = false;
    if (stage->state == STAGE_DONE) {
        return;
    }
    bool torn = flow->head_bytes % FY_PLACE_BYTES != 0 || flow->record_left > 0;
    if (stage->state == STAGE_RETRYING) {
        fy_stage_retry(stage);
    } else if (error != 0 && !fy_stage_is_cut(stage)) {
        lose(stage);
    } else if (torn && !fy_stage_is_cut(stage)) {
        fy_stage_fall_back(stage, FY_STAGE_LOST_LINK, "its stderr was cut off");
    } else {
        fy_stage_try_end(stage);
    }
}

const struct exchange fy_out_exchange = {
    .response = out_response,
    .room = out_room,
    .data = out_data,
    .end = out_end,
    .closed = out_closed,
};

const struct exchange fy_err_exchange = {
    .data = err_data,
    .closed = err_closed,
};

/* ---- to the command ------------------------------------------------------------------------ */

static void
told(struct exchange *exchange, uint32_t error)
{
    (void)error;
    free(exchange);
}

/* A request whose answer does not matter. */
static void
tell(struct stage *stage, const char *path)
{
    struct exchange *exchange;
    if (stage->state != STAGE_RUNNING || !stage->connection->wire ||
        stage->connection->broken) {
        return;
    }
    exchange = calloc(1, sizeof *exchange);
    if (exchange) {
        exchange->closed = told;
        if (fy_connection_request(stage->connection, path, false, exchange)) {
            free(exchange);
        }
    }
}

/* Returns true for a signal that ends a command which does not catch it. */
static bool
ends_command(const struct stage *stage, uint32_t signal)
{
    return fy_signal_ends(signal) ||
           ((signal == SIGUSR1 || signal == SIGUSR2) &&
            !fy_invocation_is(&stage->invocation, FY_TRAIT_HANDLES_SIGNALS));
}

/*
 * Bounds the time in which a host answers a signal that ends a command, because the host may
 * hang. Returns true if the stage was given up: a second signal has come.
 */
static bool
bound_answer(struct stage *stage, uint32_t signal)
{
    struct stage_order *order = &stage->order;
    uint64_t now = fy_clock_ns(),
             trip_ns = stage->connection ? stage->connection->rtt_ns : 0;
    /* A host that answers late must not make the time long. */
    trip_ns = trip_ns < TRIP_MS * ms_ns ? trip_ns : TRIP_MS * ms_ns;
    if (!order->ending) {
        order->ending = (int)signal;
        order->ending_ns = now;
        order->due_ns = now + ANSWER_MS * ms_ns + trip_ns;
        fy_loop_set(&stage->session->loop, &stage->timer, order->due_ns - now);
        return false;
    }
    if (now - order->ending_ns < ANOTHER_MS * ms_ns + 2 * trip_ns) {
        return false;
    }
    fy_stage_give_up(stage);
    return true;
}

void
fy_flow_signal(struct stage *stage, uint32_t signal)
{
    char path[64];
    if (signal < 1 || signal > SIGNALS_MAX) {
        return;
    }
    bool ends = ends_command(stage, signal);
    if (ends && stage->client &&
        (stage->state == STAGE_RUNNING ||
         (stage->state == STAGE_ENDED &&
          stage->prepare.refresh == REFRESH_RUNS)) &&
        !(signal == SIGINT &&
          fy_invocation_is(&stage->invocation, FY_TRAIT_IGNORES_INTERRUPTS)) &&
        bound_answer(stage, signal)) {
        return;
    }
    for (unsigned i = 0; stage->parts && fy_parts_get(stage, i); i++) {
        fy_flow_signal(fy_parts_get(stage, i), signal);
    }
    /* Once all have ended the whole is what still writes. */
    if ((stage->parts && stage->state != STAGE_ENDED) ||
        (stage->whole && fy_part_is_over(stage))) {
        return;
    }
    stage->order.passed |= UINT64_C(1) << (signal - 1);
    if (ends) {
        stage->order.signalled = true;
        stage->order.last = (int)signal;
    }
    if (stage->state == STAGE_ENDED && ends && !stage->result.signal) {
        end_by(stage, (int)signal);
        fy_stage_try_end(stage);
        return;
    }
    if (stage->flow.unsqueeze && stage->flow.out_open && !stage->join.feeds) {
        /* The end of a compressed body may not find room in its window. */
        fy_flow_allow(stage, 0, SIGNAL_BYTES);
    }
    (void)snprintf(path, sizeof path, "/stage/%llu/signal?%u",
                   (unsigned long long)stage->number, signal);
    tell(stage, path);
}

/*
 * The original meets an error of writing itself, where it may run again. What has
 * effects goes on: without a reader as without one here; and where a disk is full
 * its stub drops the rest, and says so when it has ended.
 */
void
fy_flow_broken(struct stage *stage, int fd, int error)
{
    char path[64];
    /* The command gets a signal that came before, then this, as it would here.
     * What still runs commands says itself how they end when their reader goes; if
     * there never was one, none of them may do what it did there. */
    bool runs = stage->invocation.nruns > 0 && stage->state == STAGE_RUNNING &&
                stage->flow.credited_bytes > 0;
    bool later =
        error == EPIPE && (runs || stage->order.signalled || stage->order.held);
    if (fd < 1 || fd > 2 || (!later && fy_stage_may_fall_back(stage))) {
        fy_stage_fall_back(stage, FY_STAGE_LOST_LINK, strerrordesc_np(error));
    } else if (error == EPIPE) {
        stage->flow.left_unread = stage->flow.left_unread || runs;
        (void)snprintf(path, sizeof path, "/stage/%llu/unread?%d",
                       (unsigned long long)stage->number, fd);
        tell(stage, path);
    }
}

void
fy_flow_window(struct stage *stage, unsigned rows, unsigned columns)
{
    char path[96];
    for (unsigned i = 0; stage->parts && fy_parts_get(stage, i); i++) {
        fy_flow_window(fy_parts_get(stage, i), rows, columns);
    }
    if (stage->parts) {
        return;
    }
    (void)snprintf(path, sizeof path, "/stage/%llu/window?rows=%u&columns=%u",
                   (unsigned long long)stage->number, rows, columns);
    tell(stage, path);
}
