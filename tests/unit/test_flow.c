/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What comes of a stage at a proxy (proxy/client/flow.c, streams.c): how much it may
 * send, what of it the stub gets, which ends are believed, and what becomes of signals
 * and broken readers. The connection, the stub and the stage's own end are the test's.
 * Long because each answer and each end of a stage has its case here.
 */
#include "config.h"

#include <check.h>
#include <endian.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "annotations/model/annotations.h"
#include "common/clock.h"
#include "proxy/client/stage.h"
#include "proxy/wire/protocol.h"
#include "tests/unit/runner.h"

enum {
    OUT_STREAM = 5,
    ERR_STREAM = 7,
    WINDOW = FY_STUB_WINDOW_BYTES,
    PACKED = 1 << 20,
    ERR_WINDOW = 64 << 10,
};

static struct fy_session session;
static struct connection connection;
static struct stub_client client;
static struct stage stage, other;
static unsigned cancelled;
static uint64_t granted[2]; /* out, err: by the last call */
static bool grant_fails, send_fails, may_fall_back, may_send, is_over, has_part;
static unsigned wanted, ended, sent[16], retried, opened, part_runs;
static uint64_t sent_bytes, part_bytes;
static char said[256], requested[256]; /* the last word about it; requests */
static struct fy_stub_run run_frame;
static uint64_t told_place; /* to the stub */

static uint64_t delayed_ns; /* of the last timer */

void
fy_loop_set(struct fy_loop *of, struct fy_timer *timer, uint64_t delay_ns)
{
    (void)of;
    (void)timer;
    delayed_ns = delay_ns;
}

unsigned
fy_carry_explain(const struct stage *of, const char *cause, char *out,
                 size_t capacity)
{
    (void)of;
    (void)snprintf(out, capacity, "%s", cause);
    return FY_STAGE_OTHER_TOOL;
}

void
fy_carry_learn(struct stage *of, bool accepted)
{
    (void)of;
    (void)accepted;
}

int
fy_wire_grant(struct fy_wire *wire, int32_t stream, size_t bytes)
{
    ck_assert_ptr_eq(wire, connection.wire);
    ck_assert(stream == OUT_STREAM || stream == ERR_STREAM);
    if (grant_fails) {
        return FY_ERR_NOMEM;
    }
    granted[stream == ERR_STREAM] += bytes;
    return 0;
}

int
fy_stub_client_send(struct stub_client *to, uint32_t type, const void *bytes,
                    size_t n)
{
    ck_assert_ptr_eq(to, &client);
    ck_assert_uint_lt(type, 16);
    if (send_fails) {
        return FY_ERR_NOMEM;
    }
    sent[type]++;
    if (type == FY_STUB_RUN) {
        memcpy(&run_frame, bytes, sizeof run_frame);
    } else if (type == FY_STUB_PLACE) {
        ck_assert_uint_eq(n, sizeof told_place);
        memcpy(&told_place, bytes, n);
    } else {
        ck_assert_uint_le(n, FY_STUB_DATA_BYTES);
        sent_bytes += n;
    }
    return 0;
}

void
fy_input_want(struct stage *of)
{
    ck_assert(of == &stage || of == &other);
    wanted++;
}

int
fy_connection_request(struct connection *of, const char *path, bool body,
                      struct exchange *exchange)
{
    ck_assert_ptr_eq(of, &connection);
    ck_assert(!body);
    strcat(strcat(requested, path), " ");
    exchange->closed(exchange, 0);
    return 0;
}

static void
say(const char *verb, unsigned reason, const char *why)
{
    snprintf(said, sizeof said, "%s %u %s", verb, reason, why ? why : "-");
}

void
fy_stage_fall_back(struct stage *of, unsigned reason, const char *why)
{
    say(of == &stage ? "falls back" : "other falls back", reason, why);
    of->state = STAGE_DONE;
}

void
fy_stage_give_up(struct stage *of)
{
    ck_assert_ptr_eq(of, &stage);
    say("given up", (unsigned)of->order.ending, NULL);
}

void
fy_stage_decline(struct stage *of, unsigned reason, const char *why)
{
    ck_assert_ptr_eq(of, &stage);
    say("declined", reason, why);
}

bool
fy_stage_may_fall_back(struct stage *of)
{
    (void)of;
    return may_fall_back;
}

void
fy_wire_cancel(struct fy_wire *wire, int32_t stream)
{
    (void)wire;
    ck_assert_int_eq(stream, ERR_STREAM);
    cancelled++;
}

bool
fy_stage_is_cut(const struct stage *of)
{
    return of->order.signalled && of->result.signal != 0;
}

void
fy_stage_try_end(struct stage *of)
{
    ended += of == &stage ? 1 : 100;
}

void
fy_stage_detach(struct stage *of)
{
    of->join.fed_by = NULL;
}

void
fy_stage_open(struct stage *of)
{
    opened += of == &other;
}

void
fy_stage_retry(struct stage *of)
{
    retried += of == &stage;
}

int
fy_part_deliver(struct stage *part, int i, const char *bytes, size_t n)
{
    (void)bytes;
    ck_assert_ptr_eq(part, &stage);
    ck_assert_int_eq(i, 0);
    part_bytes += n;
    return 0;
}

void
fy_part_stop(struct stage *part, int status)
{
    (void)part;
    ck_abort_msg("a part stops: %d", status);
}

void
fy_part_runs(struct stage *part)
{
    part_runs += part == &stage;
}

bool
fy_part_may_send(const struct stage *part)
{
    return part == &stage && may_send;
}

bool
fy_part_is_over(const struct stage *part)
{
    (void)part;
    return is_over;
}

struct stage *
fy_parts_current(const struct stage *whole)
{
    ck_assert_ptr_eq(whole, &stage);
    return has_part ? &other : NULL;
}

struct stage *
fy_parts_get(const struct stage *whole, unsigned i)
{
    return whole->parts && i == 0 ? &other : NULL;
}

/* A stage that runs, of whose output nothing came yet. */
static void
setup(void)
{
    static const char *argv[] = {"cat", "--", NULL};
    memset(&stage, 0, sizeof stage);
    memset(&other, 0, sizeof other);
    memset(&connection, 0, sizeof connection);
    memset(&client, 0, sizeof client);
    memset(&session, 0, sizeof session);
    memset(granted, 0, sizeof granted);
    cancelled = 0;
    memset(sent, 0, sizeof sent);
    grant_fails = send_fails = may_send = is_over = has_part = false;
    may_fall_back = true;
    wanted = ended = retried = opened = part_runs = 0;
    sent_bytes = part_bytes = 0;
    *said = *requested = '\0';
    connection.wire = (struct fy_wire *)(void *)&session;
    connection.state = CONNECTION_READY;
    stage.session = &session;
    stage.client = &client;
    stage.state = STAGE_RUNNING;
    stage.connection = &connection;
    stage.flow.out = fy_out_exchange;
    stage.flow.err = fy_err_exchange;
    stage.flow.out.connection = stage.flow.err.connection = &connection;
    stage.flow.out.stream = OUT_STREAM;
    stage.flow.err.stream = ERR_STREAM;
    stage.flow.out_open = stage.flow.err_open = stage.join.settled = true;
    stage.number = 3;
    stage.argv = argv;
    stage.hello.argc = 2;
    stage.invocation.command = "cat";
    stage.plan.out.kind = FY_STREAM_WIRE;
    stage.plan.repeatable = true;
    other.session = &session;
    other.connection = &connection;
    other.state = STAGE_RUNNING;
    other.number = 4;
}

static void
teardown(void)
{
    fy_flow_free(&stage);
}

static void
data(size_t n)
{
    static char block[1 << 21];
    ck_assert_uint_le(n, sizeof block);
    stage.flow.out.data(&stage.flow.out, block, n);
}

/* A record of stderr, in pieces of at most `step' bytes. */
static void
complain(uint64_t place, size_t n, size_t step)
{
    static char record[FY_PLACE_BYTES + ERR_WINDOW];
    uint64_t at = htobe64(place);
    uint32_t length = htobe32((uint32_t)n);
    memcpy(record, &at, sizeof at);
    memcpy(record + sizeof at, &length, sizeof length);
    for (size_t done = 0; done < FY_PLACE_BYTES + n; done += step) {
        size_t left = FY_PLACE_BYTES + n - done;
        stage.flow.err.data(&stage.flow.err, record + done,
                            left < step ? left : step);
    }
}

/* ---- windows --------------------------------------------------------------------- */

START_TEST(both_windows_share_the_stub)
{
    fy_flow_grant(&stage);
    ck_assert_uint_eq(granted[1], ERR_WINDOW);
    ck_assert_uint_eq(granted[0], WINDOW - ERR_WINDOW);
    fy_flow_grant(&stage); /* nothing is free */
    ck_assert_uint_eq(granted[0] + granted[1], WINDOW);
    /* What the stub wrote is granted anew, when it is worth a frame. */
    data(200 << 10);
    ck_assert_uint_eq(sent[FY_STUB_OUT], 4);
    ck_assert_uint_eq(sent_bytes, 200 << 10);
    fy_flow_credit(&stage, (128 << 10) - 1);
    ck_assert_uint_eq(granted[0] + granted[1], WINDOW);
    ck_assert_uint_eq(ended, 1);
    fy_flow_credit(&stage, 1);
    ck_assert_uint_eq(granted[0] + granted[1], WINDOW + (128 << 10));
    ck_assert_uint_eq(granted[1], ERR_WINDOW);
    /* A stub that says more than it was given gets no more for it. */
    fy_flow_credit(&stage, UINT32_MAX);
    ck_assert_uint_eq(stage.flow.credited_bytes, 200 << 10);
    ck_assert_uint_le(granted[0] + granted[1], WINDOW + (200 << 10));
    /* Of stderr the rest, when less than half is left. */
    stage.flow.out_open = false;
    data((size_t)(granted[0] - stage.flow.received_bytes[0]));
    fy_flow_credit(&stage, UINT32_MAX);
    complain(0, ERR_WINDOW / 2 - FY_PLACE_BYTES, ERR_WINDOW);
    fy_flow_credit(&stage, ERR_WINDOW / 2 - FY_PLACE_BYTES);
    ck_assert_uint_eq(granted[1], ERR_WINDOW);
    complain(0, 1, 1);
    fy_flow_credit(&stage, 1);
    ck_assert_uint_eq(granted[1],
                      ERR_WINDOW + ERR_WINDOW / 2 + FY_PLACE_BYTES + 1);
    ck_assert_uint_eq(sent[FY_STUB_ERR], 2);
}
END_TEST

/* The stub keeps stderr until stdout has come so far. */
START_TEST(stdout_has_room_while_the_stub_keeps_stderr)
{
    fy_flow_grant(&stage);
    uint64_t most = 0;
    while (granted[1] > most) {
        most = granted[1];
        complain(WINDOW,
                 (size_t)(granted[1] - stage.flow.head_bytes -
                          stage.flow.received_bytes[1] - FY_PLACE_BYTES),
                 ERR_WINDOW);
        data((size_t)(granted[0] - stage.flow.received_bytes[0]));
        /* Only of stdout. */
        uint64_t err = stage.flow.received_bytes[1];
        uint64_t credit = stage.flow.handed_bytes - stage.flow.credited_bytes;
        fy_flow_credit(&stage, (uint32_t)(credit - err));
    }
    ck_assert_uint_ge(granted[0] - stage.flow.received_bytes[0], 128 << 10);
}
END_TEST

/* Each record's place is told before its bytes, once. */
START_TEST(records_of_stderr_are_taken_apart)
{
    complain(0, 5, 1);
    ck_assert_uint_eq(sent[FY_STUB_PLACE], 0);
    ck_assert_uint_eq(sent[FY_STUB_ERR], 5);
    complain(0x0102030405060708, 7, 3);
    ck_assert_uint_eq(sent[FY_STUB_PLACE], 1);
    ck_assert_uint_eq(told_place, 0x0102030405060708);
    complain(0x0102030405060708, 0, 5);
    complain(0x0102030405060708, 2, 100);
    ck_assert_uint_eq(sent[FY_STUB_PLACE], 1);
    complain(FY_PLACE_ANY, 1, 100);
    ck_assert_uint_eq(told_place, FY_PLACE_ANY);
    ck_assert_uint_eq(stage.flow.received_bytes[1], 15);
    ck_assert_uint_eq(stage.flow.head_bytes, 5 * FY_PLACE_BYTES);
    ck_assert_uint_eq(stage.flow.handed_bytes, 15);
}
END_TEST

/* Bytes that the windows are opened by, in a state. */
static uint64_t
granted_in(enum stage_state state)
{
    memset(granted, 0, sizeof granted);
    memset(stage.flow.granted_bytes, 0, sizeof stage.flow.granted_bytes);
    stage.state = state;
    fy_flow_grant(&stage);
    return granted[0] + granted[1];
}

START_TEST(a_window_opens_when_its_reader_is_known)
{
    struct fy_placement *placement = (void *)&other;

    ck_assert_uint_eq(granted_in(STAGE_PREPARING), 0);
    ck_assert_uint_eq(granted_in(STAGE_ASKED), WINDOW);
    ck_assert_uint_eq(granted_in(STAGE_RUNNING), WINDOW);
    ck_assert_uint_eq(granted_in(STAGE_ENDED), WINDOW);
    ck_assert_uint_eq(granted_in(STAGE_DONE), 0);
    stage.join.settled = false;
    ck_assert_uint_eq(granted_in(STAGE_RUNNING), 0);
    stage.join.settled = true;
    stage.place.probe = placement; /* it may yet turn out not to pay */
    ck_assert_uint_eq(granted_in(STAGE_ASKED), 0);
    ck_assert_uint_eq(granted_in(STAGE_RUNNING), WINDOW);
    stage.place.probe = NULL;
    stage.whole = &other;
    ck_assert_uint_eq(granted_in(STAGE_ASKED), 0);
    ck_assert_uint_eq(granted_in(STAGE_RUNNING), 0);
    may_send = true;
    ck_assert_uint_eq(granted_in(STAGE_RUNNING), WINDOW);
    stage.whole = NULL;
    /* A reader there: of its output nothing comes here. */
    stage.join.feeds = &other;
    ck_assert_uint_eq(granted_in(STAGE_RUNNING), ERR_WINDOW);
    stage.join.feeds = NULL;
    stage.flow.err_open = false;
    ck_assert_uint_eq(granted_in(STAGE_RUNNING), WINDOW - ERR_WINDOW);
    ck_assert_uint_eq(granted[1], 0);
    stage.flow.out_open = false;
    ck_assert_uint_eq(granted_in(STAGE_RUNNING), 0);
    stage.flow.out_open = true;
    grant_fails = true;
    ck_assert_uint_eq(granted_in(STAGE_RUNNING), 0);
    ck_assert_uint_eq(stage.flow.granted_bytes[0], 0);
    grant_fails = false;
    stage.flow.out.connection = NULL; /* its stream is closed */
    ck_assert_uint_eq(granted_in(STAGE_RUNNING), 0);
}
END_TEST

/* ---- compressed output ------------------------------------------------------------- */

static int
arrive(void *context, const void *bytes, size_t n)
{
    (void)context;
    stage.flow.out.data(&stage.flow.out, bytes, n);
    return 0;
}

START_TEST(compressed_output_is_decoded_as_it_is_written)
{
    const struct fy_wire_pair zstd[] = {{FY_FIELD_ENCODING, "zstd"}};
    static char text[3 * WINDOW];
    struct fy_squeeze *squeeze;

    stage.state = STAGE_ASKED;
    stage.flow.out.response(&stage.flow.out, 200, zstd, 1);
    ck_assert_int_eq(stage.state, STAGE_RUNNING);
    ck_assert_ptr_nonnull(stage.flow.unsqueeze);
    ck_assert_uint_eq(granted[0], PACKED);
    ck_assert_uint_eq(granted[1], ERR_WINDOW);
    ck_assert_int_eq(fy_squeeze_new(0, &squeeze), 0);
    ck_assert_int_eq(
        fy_squeeze_add(squeeze, text, sizeof text, true, arrive, NULL), 0);
    ck_assert_int_eq(fy_squeeze_end(squeeze, arrive, NULL), 0);
    fy_squeeze_free(squeeze);
    ck_assert_str_eq(said, "");
    const uint32_t out = WINDOW - ERR_WINDOW;
    ck_assert_uint_eq(sent_bytes, out); /* the rest waits for the stub */
    fy_flow_credit(&stage, out);
    fy_flow_credit(&stage, out - 1);
    ck_assert_uint_eq(sent_bytes, 3 * out - 1);
    fy_flow_credit(&stage, out);
    stage.state = STAGE_ENDED;
    stage.result.out_bytes = sizeof text;
    ck_assert_int_eq(fy_flow_whole(&stage), FY_ERR_BUSY);
    fy_flow_credit(&stage, WINDOW);
    ck_assert_uint_eq(sent_bytes, sizeof text);
    fy_flow_credit(&stage, 1);
    ck_assert_int_eq(fy_flow_whole(&stage), FY_OK);
}
END_TEST

/* What the stub holds of stdout may all be unwritten yet. */
START_TEST(stderr_gets_no_window_for_what_may_be_written_stdout)
{
    const struct fy_wire_pair zstd[] = {{FY_FIELD_ENCODING, "zstd"}};
    static char text[WINDOW];
    struct fy_squeeze *squeeze;

    stage.state = STAGE_ASKED;
    stage.flow.out.response(&stage.flow.out, 200, zstd, 1);
    ck_assert_int_eq(fy_squeeze_new(0, &squeeze), 0);
    ck_assert_int_eq(
        fy_squeeze_add(squeeze, text, sizeof text, true, arrive, NULL), 0);
    ck_assert_int_eq(fy_squeeze_end(squeeze, arrive, NULL), 0);
    fy_squeeze_free(squeeze);
    ck_assert_uint_eq(stage.flow.received_bytes[0], WINDOW - ERR_WINDOW);
    complain(FY_PLACE_ANY, ERR_WINDOW / 2 + 1, ERR_WINDOW);
    fy_flow_credit(&stage, WINDOW - ERR_WINDOW);
    ck_assert_uint_eq(stage.flow.received_bytes[0], WINDOW);
    ck_assert_uint_eq(granted[1], ERR_WINDOW);
    fy_flow_credit(&stage, ERR_WINDOW + ERR_WINDOW / 2 - FY_PLACE_BYTES);
    ck_assert_uint_eq(granted[1], ERR_WINDOW);
    fy_flow_credit(&stage, 1);
    ck_assert_uint_eq(granted[1], ERR_WINDOW + ERR_WINDOW / 2 + 1);
}
END_TEST

/* A command that writes to neither, or to one of them only, never waits for ever. */
START_TEST(each_stream_flows_while_the_other_rests)
{
    fy_flow_grant(&stage);
    for (int i = 0; i < 100; i++) {
        uint64_t before = granted[1];
        complain(0,
                 (size_t)(before - stage.flow.head_bytes -
                          stage.flow.received_bytes[1] - FY_PLACE_BYTES),
                 ERR_WINDOW);
        fy_flow_credit(&stage, UINT32_MAX);
        ck_assert_uint_ge(granted[1], before + ERR_WINDOW / 2);
        ck_assert_uint_eq(granted[0], WINDOW - ERR_WINDOW);
    }
    complain(WINDOW * UINT64_C(9), ERR_WINDOW / 2, ERR_WINDOW); /* kept */
    for (int i = 0; i < 8; i++) {
        uint64_t before = granted[0];
        size_t n = (size_t)(before - stage.flow.received_bytes[0]);
        data(n);
        fy_flow_credit(&stage, (uint32_t)n);
        ck_assert_uint_ge(granted[0], before + WINDOW / 2);
    }
}
END_TEST

START_TEST(output_that_cannot_be_decoded_ends_it)
{
    const struct fy_wire_pair lz4[] = {{FY_FIELD_ENCODING, "lz4"}};
    const struct fy_wire_pair zstd[] = {{FY_FIELD_ENCODING, "zstd"}};
    char wanted_text[80];

    snprintf(wanted_text, sizeof wanted_text,
             "falls back %d its output cannot be decoded", FY_STAGE_LOST_LINK);
    stage.state = STAGE_ASKED;
    stage.flow.out.response(&stage.flow.out, 200, lz4, 1);
    ck_assert_str_eq(said, wanted_text);
    *said = '\0';
    stage.state = STAGE_ASKED;
    stage.flow.out.response(&stage.flow.out, 200, zstd, 1);
    stage.flow.out.data(&stage.flow.out, "no frame of zstd", 16);
    ck_assert_str_eq(said, wanted_text);
    ck_assert_uint_eq(sent_bytes, 0);
}
END_TEST

/* ---- the answer ---------------------------------------------------------------------- */

/* Accepted: how the stub is told to run. */
static uint32_t
pipes(const char *command, const char *a, const char *b)
{
    static const char text[] =
        "command cat, find { flag -i; operand FILE... in; pure; }\n"
        "command tee {"
        " flag -a --append, -i --ignore-interrupts, -p;"
        " option --output-error[=MODE];"
        " operand FILE... out;"
        " excuses pipes;"
        " outlives pipes when -p || --output-error;"
        " ignores interrupts when -i;"
        " effect; }\n";
    const char *argv[] = {command, a, b, NULL};
    char why_text[80];
    struct fy_buffer why;
    struct fy_commands *commands;
    struct fy_diagnostics *diagnostics = fy_diagnostics_new();
    uint32_t nruns = stage.invocation.nruns;
    ck_assert_int_eq(fy_commands_compile_text("test", text, sizeof text - 1,
                                              diagnostics, &commands),
                     0);
    fy_buffer_start(&why, why_text, sizeof why_text);
    ck_assert_int_eq(fy_invocation_parse(commands, command, argv, NULL,
                                         &stage.invocation, &why),
                     0);
    stage.invocation.nruns = nruns;
    stage.argv = argv;
    stage.state = STAGE_ASKED;
    stage.flow.out.response(&stage.flow.out, 200, NULL, 0);
    ck_assert_int_eq(stage.state, STAGE_RUNNING);
    stage.invocation.nruns = 0;
    fy_invocation_clear(&stage.invocation);
    fy_commands_free(commands);
    fy_diagnostics_free(diagnostics);
    return run_frame.pipes;
}

START_TEST(a_stub_is_told_what_a_lost_reader_means)
{
    const uint32_t all =
        FY_STUB_OUTLIVES | FY_STUB_NO_FAILURE | FY_STUB_NO_SIGNAL;
    const uint32_t ignores = all | FY_STUB_IGNORES_PIPE;

    ck_assert_uint_eq(pipes("cat", "-i", NULL), 0);
    ck_assert_uint_eq(pipes("tee", "file", NULL), FY_STUB_NO_FAILURE);
    ck_assert_uint_eq(pipes("tee", "-i", NULL),
                      FY_STUB_NO_FAILURE | FY_STUB_NO_INTERRUPT);
    ck_assert_uint_eq(pipes("tee", "--ignore-interrupts", NULL),
                      FY_STUB_NO_FAILURE | FY_STUB_NO_INTERRUPT);
    ck_assert_uint_eq(pipes("tee", "--output-error=warn", NULL), ignores);
    ck_assert_uint_eq(pipes("tee", "-ap", NULL), ignores);
    ck_assert_uint_eq(pipes("tee", "-pi", NULL),
                      ignores | FY_STUB_NO_INTERRUPT);
    ck_assert_uint_eq(pipes("tee", "--append", "i"), FY_STUB_NO_FAILURE);
    ck_assert_uint_eq(pipes("tee", "file", "-p"), ignores);
    ck_assert_uint_eq(pipes("tee", "--", "-p"), FY_STUB_NO_FAILURE);
    stage.plan.repeatable = false;
    ck_assert_uint_eq(pipes("cat", "file", NULL), FY_STUB_OUTLIVES);
    ck_assert_uint_eq(pipes("tee", "file", NULL),
                      FY_STUB_OUTLIVES | FY_STUB_NO_FAILURE);
    stage.invocation.nruns = 1;
    ck_assert_uint_eq(pipes("find", "file", NULL), all);
}
END_TEST

START_TEST(a_stub_is_told_what_it_reads)
{
    stage.state = STAGE_ASKED;
    stage.flow.out.response(&stage.flow.out, 200, NULL, 0);
    ck_assert_uint_eq(run_frame.reads_stdin, 0);
    ck_assert_uint_eq(wanted, 1);
    for (int i = 0; i < 4; i++) {
        stage.input.streams = true;
        stage.plan.in.is_pipe = i & 1;
        stage.plan.repeatable = i & 2;
        stage.state = STAGE_ASKED;
        stage.flow.out.response(&stage.flow.out, 200, NULL, 0);
        ck_assert_uint_eq(run_frame.reads_stdin, 1);
        ck_assert_uint_eq(run_frame.keeps_stdin, i == 3);
        ck_assert_int_eq(stage.input.keeps, i == 3);
    }
    /* A part has no stub. */
    stage.state = STAGE_ASKED;
    stage.client = NULL;
    stage.whole = &other;
    stage.flow.out.response(&stage.flow.out, 200, NULL, 0);
    ck_assert_uint_eq(part_runs, 1);
    ck_assert_uint_eq(wanted, 5);
    /* An answer to what has run for long is none. */
    wanted = 0;
    stage.flow.out.response(&stage.flow.out, 200, NULL, 0);
    ck_assert_uint_eq(wanted + part_runs, 1);
    stage.flow.out.room(&stage.flow.out);
    ck_assert_uint_eq(wanted, 1);
}
END_TEST

START_TEST(mounts_that_were_compared_are_proven)
{
    static struct fy_mount mounts[3];

    session.mounts = mounts;
    stage.plan.nmounts = 2;
    stage.plan.mounts[0] = &mounts[2];
    stage.plan.mounts[1] = &mounts[1];
    stage.prepare.hashed[0] = true;
    stage.state = STAGE_ASKED;
    stage.flow.out.response(&stage.flow.out, 200, NULL, 0);
    ck_assert(!connection.proven[2]);
    stage.prepare.has_root_hash = true;
    connection.proven[1] = true; /* by another stage */
    stage.state = STAGE_ASKED;
    stage.flow.out.response(&stage.flow.out, 200, NULL, 0);
    ck_assert(connection.proven[2]);
    ck_assert(connection.proven[1]);
    ck_assert(!connection.proven[0]);
}
END_TEST

static void
refuse(const char *reason)
{
    const struct fy_wire_pair pairs[] = {{FY_FIELD_WHY, "so"},
                                         {FY_FIELD_REASON, reason}};
    *said = '\0';
    stage.state = STAGE_ASKED;
    stage.result.refused = false;
    stage.flow.out.response(&stage.flow.out, 404, pairs, reason ? 2 : 1);
}

START_TEST(a_refusal_is_told_by_its_reason)
{
    char expected[80];

    snprintf(expected, sizeof expected, "declined %d so", FY_STAGE_OTHER_TOOL);
    refuse(fy_stage_reason_word(FY_STAGE_OTHER_TOOL));
    ck_assert_str_eq(said, expected);
    ck_assert(stage.result.refused);
    /* None, unknown ones, and those that only this host can mean. */
    const char *const odd[] = {
        NULL,
        "no such reason",
        fy_stage_reason_word(FY_STAGE_NONE),
        fy_stage_reason_word(FY_STAGE_NOT_ANNOTATED),
        fy_stage_reason_word(FY_STAGE_NOT_PARSED),
        fy_stage_reason_word(FY_STAGE_FORBIDDEN),
    };
    snprintf(expected, sizeof expected, "declined %d so", FY_STAGE_REFUSED);
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        refuse(odd[i]);
        ck_assert_str_eq(said, expected);
    }
    /* What feeds it goes on by itself. */
    ck_assert_uint_eq(opened, 0);
    stage.join.fed_by = &other;
    refuse("x");
    ck_assert_uint_eq(opened, 1);
    ck_assert_uint_eq(ended, 100);
}
END_TEST

START_TEST(another_root_is_asked_about_once_more)
{
    const char *word = fy_stage_reason_word(FY_STAGE_OTHER_CONFIG);

    refuse(word);
    ck_assert_uint_eq(retried, 0);
    stage.prepare.has_root_hash = true;
    refuse(word);
    ck_assert_uint_eq(retried, 1);
    ck_assert_str_eq(said, "");
    ck_assert(!stage.result.refused);
    refuse(fy_stage_reason_word(FY_STAGE_OTHER_TOOL));
    ck_assert_uint_eq(retried, 1);
    /* Not when what it feeds runs already, nor what is fed. */
    stage.join.feeds = &other;
    refuse(word);
    ck_assert_uint_eq(retried, 1);
    other.state = STAGE_ASKED;
    refuse(word);
    ck_assert_uint_eq(retried, 2);
    stage.join.fed_by = &other;
    refuse(word);
    ck_assert_uint_eq(retried, 2);
    stage.prepare.retried = true;
    refuse(word);
    ck_assert_uint_eq(retried, 2);
}
END_TEST

/* ---- the end ------------------------------------------------------------------------- */

/* The trailers NAME, VALUE, ..., NULL; whether that was an end. */
static bool
ends(const char *first, ...)
{
    struct fy_wire_pair pairs[16];
    size_t n = 0;
    va_list list;

    va_start(list, first);
    for (const char *name = first; name; name = va_arg(list, const char *)) {
        pairs[n].name = name;
        pairs[n++].value = va_arg(list, const char *);
    }
    va_end(list);
    *said = '\0';
    stage.state = STAGE_RUNNING;
    stage.result.known = false;
    stage.flow.out.end(&stage.flow.out, pairs, n);
    ck_assert(stage.result.known == (stage.state == STAGE_ENDED));
    ck_assert(stage.result.known == (*said == '\0'));
    return stage.result.known;
}

START_TEST(one_status_or_one_signal_is_an_end)
{
    const uint64_t began = fy_clock_ns();

    ck_assert(ends(FY_FIELD_EXIT, "0", NULL));
    ck_assert(ends(FY_FIELD_EXIT, "255", NULL));
    ck_assert_int_eq(stage.result.status, 255);
    ck_assert_int_eq(stage.result.signal, 0);
    ck_assert(stage.result.ended_ns >= began &&
              stage.result.ended_ns <= fy_clock_ns());
    ck_assert(ends(FY_FIELD_DEATH, "13", NULL));
    ck_assert_int_eq(stage.result.status, 0);
    ck_assert_int_eq(stage.result.signal, SIGPIPE);
    ck_assert(ends(FY_FIELD_DEATH, "64", NULL));

    ck_assert(!ends(NULL));
    ck_assert_ptr_nonnull(strstr(said, "it was cut off"));
    ck_assert(!ends(FY_FIELD_REASON, "killed there", NULL));
    ck_assert_ptr_nonnull(strstr(said, "killed there"));
    ck_assert(!ends(FY_FIELD_EXIT, "0", FY_FIELD_REASON, "killed", NULL));
    ck_assert_ptr_nonnull(strstr(said, "as none can be"));
    static const char *const statuses[] = {"256", "-1", "", "1x", " 1", "0x1"};
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
        ck_assert(!ends(FY_FIELD_EXIT, statuses[i], NULL));
    }
    static const char *const signals[] = {"0", "65", "17", "19", "-9", "9 "};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        ck_assert(!ends(FY_FIELD_DEATH, signals[i], NULL));
    }
    ck_assert(!ends(FY_FIELD_EXIT, "0", FY_FIELD_DEATH, "9", NULL));
    ck_assert(!ends(FY_FIELD_EXIT, "0", FY_FIELD_EXIT, "1", NULL));
    ck_assert(!ends(FY_FIELD_DEATH, "9", FY_FIELD_DEATH, "9", NULL));
}
END_TEST

/* It cannot have taken more of its stdin than was sent. */
START_TEST(what_was_taken_is_what_was_sent)
{
    stage.input.sent_bytes = 10;
    ck_assert(ends(FY_FIELD_EXIT, "0", FY_FIELD_IN_BYTES, "11", NULL));
    stage.input.streams = true;
    ck_assert(ends(FY_FIELD_EXIT, "0", FY_FIELD_IN_BYTES, "10", NULL));
    ck_assert_int_eq(stage.input.taken_bytes, 10);
    ck_assert(!ends(FY_FIELD_EXIT, "0", FY_FIELD_IN_BYTES, "11", NULL));
    ck_assert(ends(FY_FIELD_EXIT, "0", NULL));
    ck_assert_int_eq(stage.input.taken_bytes, -1);
}
END_TEST

START_TEST(an_end_says_where_files_stand)
{
    connection.bytes_a_second = 1000;
    ck_assert(ends(FY_FIELD_EXIT, "3", FY_FIELD_STDIN_OFFSET, "11",
                   FY_FIELD_STDOUT_OFFSET, "12", FY_FIELD_STDERR_OFFSET, "13",
                   FY_FIELD_FEEDER, "1", FY_FIELD_OUT_BYTES, "16",
                   FY_FIELD_RATE, "2000", NULL));
    ck_assert_int_eq(stage.result.status, 3);
    ck_assert_int_eq(stage.result.offsets[0], 11);
    ck_assert_int_eq(stage.result.offsets[1], 12);
    ck_assert_int_eq(stage.result.offsets[2], 13);
    ck_assert(stage.result.feeder_ended);
    ck_assert_uint_eq(stage.result.out_bytes, 16);
    ck_assert_double_eq(connection.bytes_a_second, 2000);
    ck_assert(ends(FY_FIELD_EXIT, "0", FY_FIELD_RATE, "1500", NULL));
    ck_assert_double_eq(connection.bytes_a_second, 2000); /* the best counts */
    ck_assert_int_eq(stage.result.offsets[0], -1);
    ck_assert_int_eq(stage.result.offsets[1], -1);
    ck_assert_int_eq(stage.result.offsets[2], -1);
    ck_assert_uint_eq(stage.result.out_bytes, 0);
    ck_assert(!stage.result.feeder_ended);
    /* The end of what is over is none. */
    const struct fy_wire_pair exit[] = {{FY_FIELD_EXIT, "9"}};
    stage.flow.out.end(&stage.flow.out, exit, 1);
    ck_assert_int_eq(stage.result.status, 0);
}
END_TEST

/* Short output is never taken for the whole. */
START_TEST(all_of_the_output_came)
{
    stage.state = STAGE_ENDED;
    stage.flow.granted_bytes[0] = WINDOW;
    stage.result.out_bytes = 100;
    data(99);
    ck_assert_int_eq(fy_flow_whole(&stage), FY_ERR_BUSY);
    fy_flow_credit(&stage, 98);
    ck_assert_int_eq(fy_flow_whole(&stage), FY_ERR_BUSY);
    fy_flow_credit(&stage, 1);
    ck_assert_int_eq(fy_flow_whole(&stage), FY_ERR_IO);
    data(1);
    fy_flow_credit(&stage, 1);
    ck_assert_int_eq(fy_flow_whole(&stage), FY_OK);
    data(1);
    fy_flow_credit(&stage, 1);
    ck_assert_int_eq(fy_flow_whole(&stage), FY_ERR_IO);
    /* Into a file there, to a reader there, or when nobody writes here. */
    stage.plan.out.kind = FY_STREAM_FILE;
    ck_assert_int_eq(fy_flow_whole(&stage), FY_OK);
    stage.plan.out.kind = FY_STREAM_WIRE;
    stage.flow.granted_bytes[0] = 0;
    ck_assert_int_eq(fy_flow_whole(&stage), FY_OK);
    stage.flow.granted_bytes[0] = WINDOW;
    stage.client = NULL;
    ck_assert_int_eq(fy_flow_whole(&stage), FY_OK);
}
END_TEST

START_TEST(frames_hold_what_a_stub_takes)
{
    static char text[2 * FY_STUB_DATA_BYTES + 3];
    ck_assert_int_eq(fy_flow_deliver(&stage, 0, text, 1), FY_OK);
    ck_assert_int_eq(fy_flow_deliver(&stage, 0, text + 1, sizeof text - 1),
                     FY_OK);
    ck_assert_int_eq(fy_flow_deliver(&stage, 1, text, 5), FY_OK);
    ck_assert_uint_eq(stage.flow.received_bytes[0], sizeof text);
    ck_assert_uint_eq(sent_bytes, sizeof text + 5);
    ck_assert_uint_eq(sent[FY_STUB_OUT], 4);
    ck_assert_uint_eq(sent[FY_STUB_ERR], 1);
}
END_TEST

START_TEST(output_of_what_does_not_run_is_dropped)
{
    stage.state = STAGE_ASKED;
    data(10);
    stage.state = STAGE_DONE;
    data(10);
    ck_assert_uint_eq(sent_bytes, 0);
    stage.state = STAGE_ENDED;
    data(10);
    ck_assert_uint_eq(sent_bytes, 10);
    ck_assert_uint_eq(stage.flow.received_bytes[0], 10);
    send_fails = true;
    data(10);
    ck_assert_ptr_nonnull(strstr(said, "no memory"));
    ck_assert_uint_eq(stage.flow.received_bytes[0], 10);
    ck_assert_uint_eq(stage.flow.handed_bytes, 10);
    stage.state = STAGE_RUNNING;
    stage.whole = &other;
    data(20);
    ck_assert_uint_eq(part_bytes, 20);
    ck_assert_uint_eq(stage.flow.received_bytes[0], 30);
}
END_TEST

START_TEST(a_stream_that_closes_too_early_is_a_lost_one)
{
    char expected[80];

    stage.flow.out.closed(&stage.flow.out, 0);
    ck_assert(!stage.flow.out_open);
    snprintf(expected, sizeof expected, "falls back %d the connection broke",
             FY_STAGE_LOST_LINK);
    ck_assert_str_eq(said, expected);
    stage.state = STAGE_ASKED;
    connection.state = CONNECTION_GREETING;
    strcpy(connection.trouble, "no ferry there");
    stage.flow.out.closed(&stage.flow.out, 0);
    snprintf(expected, sizeof expected, "falls back %d no ferry there",
             FY_STAGE_NO_PROXY);
    ck_assert_str_eq(said, expected);
    *said = '\0';
    stage.flow.out.closed(&stage.flow.out, 1); /* it has fallen back */
    ck_assert_str_eq(said, "");
    stage.state = STAGE_ENDED;
    stage.flow.out.closed(&stage.flow.out, 0);
    ck_assert_uint_eq(ended, 1);
    stage.join.feeds = &other;
    stage.flow.out.closed(&stage.flow.out, 0);
    ck_assert_uint_eq(ended, 2);
    other.state = STAGE_ENDED;
    stage.flow.out.closed(&stage.flow.out, 0);
    ck_assert_uint_eq(ended, 103);
    stage.state = STAGE_RETRYING;
    stage.flow.out.closed(&stage.flow.out, 0);
    ck_assert_uint_eq(retried, 1);
    ck_assert_uint_eq(ended, 103);
    ck_assert_str_eq(said, "");
}
END_TEST

START_TEST(stderr_closes_by_itself)
{
    stage.flow.err.closed(&stage.flow.err, 0);
    ck_assert(!stage.flow.err_open);
    ck_assert_uint_eq(ended, 1);
    ck_assert_str_eq(said, "");
    stage.state = STAGE_RETRYING;
    stage.flow.err.closed(&stage.flow.err, 1);
    ck_assert_uint_eq(retried, 1);
    stage.state = STAGE_RUNNING;
    stage.flow.err.closed(&stage.flow.err, 1);
    ck_assert_ptr_nonnull(strstr(said, "the connection broke"));
    *said = '\0';
    stage.flow.err.closed(&stage.flow.err, 1); /* done by now */
    ck_assert_str_eq(said, "");
    ck_assert_uint_eq(ended, 1);
}
END_TEST

/* A record of stderr that ends in its head or in its bytes is lost output. */
START_TEST(stderr_that_is_cut_off_is_lost)
{
    const unsigned char whole[] = {0, 0, 0, 0, 0,   0,   0,  0,
                                   0, 0, 0, 3, 'a', 'b', 'c'};

    for (size_t n = 0; n <= sizeof whole; n++) {
        stage.state = STAGE_RUNNING;
        stage.flow.head_bytes = stage.flow.record_left = 0;
        *said = '\0';
        stage.flow.err.data(&stage.flow.err, whole, n);
        stage.flow.err.closed(&stage.flow.err, 0);
        ck_assert_int_eq(strstr(said, "its stderr was cut off") != NULL,
                         n > 0 && n < sizeof whole);
    }
}
END_TEST

/* ---- to the command --------------------------------------------------------------------- */

START_TEST(a_signal_is_passed_on)
{
    fy_flow_signal(&stage, SIGTERM);
    ck_assert_str_eq(requested, "/stage/3/signal?15 ");
    ck_assert(stage.order.signalled);
    ck_assert_int_eq(stage.order.last, SIGTERM);
    *requested = '\0';
    stage.order.signalled = false;
    fy_flow_signal(&stage, SIGCONT); /* which ends nothing */
    ck_assert_str_eq(requested, "/stage/3/signal?18 ");
    ck_assert(!stage.order.signalled);
    *requested = '\0';
    fy_flow_signal(&stage, 0);
    fy_flow_signal(&stage, 65);
    ck_assert_str_eq(requested, "");
    fy_flow_signal(&stage, 1);
    fy_flow_signal(&stage, 64);
    ck_assert_str_eq(requested, "/stage/3/signal?1 /stage/3/signal?64 ");
    /* Nothing runs there, or nobody hears. */
    *requested = '\0';
    stage.state = STAGE_ASKED;
    fy_flow_signal(&stage, SIGTERM);
    stage.state = STAGE_RUNNING;
    connection.broken = true;
    fy_flow_signal(&stage, SIGTERM);
    connection.broken = false;
    connection.wire = NULL;
    fy_flow_signal(&stage, SIGTERM);
    ck_assert_str_eq(requested, "");
}
END_TEST

/* The time to answer is two seconds and a round trip; a later signal ends it. */
START_TEST(a_signal_has_a_time_to_be_answered)
{
    const uint64_t s_ns = 1000000000;

    connection.rtt_ns = s_ns;
    delayed_ns = 0;
    fy_flow_signal(&stage, SIGCONT);
    ck_assert_uint_eq(delayed_ns, 0);
    stage.invocation.traits = 1U << FY_TRAIT_IGNORES_INTERRUPTS;
    fy_flow_signal(&stage, SIGINT);
    ck_assert_uint_eq(delayed_ns, 0);
    fy_flow_signal(&stage, SIGTERM);
    ck_assert_uint_eq(delayed_ns, 3 * s_ns);
    fy_flow_signal(&stage, SIGHUP); /* on the way together */
    ck_assert_str_eq(said, "");
    stage.order.ending_ns -= 3 * s_ns;
    fy_flow_signal(&stage, SIGHUP);
    ck_assert_str_eq(said, "given up 15 -");
    /* A host that answers PINGs late gets no more time than two seconds for a trip. */
    connection.rtt_ns = 600 * s_ns;
    stage.order.ending = 0;
    fy_flow_signal(&stage, SIGTERM);
    ck_assert_uint_eq(delayed_ns, 4 * s_ns);
    connection.rtt_ns = 0;
}
END_TEST

START_TEST(a_signal_reaches_each_part)
{
    stage.parts = (struct fy_parts *)(void *)&other;
    fy_flow_signal(&stage, SIGTERM);
    ck_assert_str_eq(requested, "/stage/4/signal?15 ");
    ck_assert(other.order.signalled);
    ck_assert(!stage.order.signalled);
    fy_flow_window(&stage, 24, 80);
    ck_assert_str_eq(requested,
                     "/stage/4/signal?15 /stage/4/window?rows=24&columns=80 ");
    stage.state = STAGE_ENDED; /* what is left to be written is the whole's */
    fy_flow_signal(&stage, SIGTERM);
    ck_assert_int_eq(stage.result.signal, SIGTERM);
    stage.parts = NULL;
    *requested = '\0';
    stage.whole = &other;
    stage.state = STAGE_RUNNING;
    is_over = true;
    fy_flow_signal(&stage, SIGTERM);
    ck_assert_str_eq(requested, "");
    fy_flow_window(&stage, 24, 80);
    ck_assert_str_eq(requested, "/stage/3/window?rows=24&columns=80 ");
}
END_TEST

START_TEST(a_signal_ends_what_still_writes_here)
{
    stage.state = STAGE_ENDED;
    fy_flow_signal(&stage, SIGCONT);
    ck_assert_int_eq(stage.result.signal, 0);
    ck_assert_uint_eq(ended, 0);
    fy_flow_signal(&stage, SIGINT);
    ck_assert_int_eq(stage.result.signal, SIGINT);
    ck_assert_uint_eq(ended, 1);
    /* The proxy holds more of stderr than anyone will read. */
    ck_assert_uint_eq(cancelled, 1);
    stage.flow.err.closed(&stage.flow.err, ECANCELED);
    ck_assert_str_eq(said, "");
    ck_assert_uint_eq(ended, 2);
    ended = 1;
    fy_flow_signal(&stage, SIGTERM); /* the first one did */
    ck_assert_int_eq(stage.result.signal, SIGINT);
    ck_assert_str_eq(requested, "");

    /* It had ended there before the signal came. */
    stage.result.signal = 0;
    stage.order.signalled = true;
    stage.order.last = SIGHUP;
    ck_assert(ends(FY_FIELD_EXIT, "0", NULL)); /* and all is written */
    ck_assert_int_eq(stage.result.signal, 0);
    data(10);
    ck_assert(ends(FY_FIELD_EXIT, "0", NULL));
    ck_assert_int_eq(stage.result.signal, SIGHUP);
    ck_assert(ends(FY_FIELD_DEATH, "15", NULL));
    ck_assert_int_eq(stage.result.signal, SIGTERM);
    stage.order.signalled = false;
    ck_assert(ends(FY_FIELD_EXIT, "0", NULL));
    ck_assert_int_eq(stage.result.signal, 0);
}
END_TEST

START_TEST(a_lost_reader_is_the_originals_to_meet)
{
    char expected[80];

    snprintf(expected, sizeof expected, "falls back %d %s", FY_STAGE_LOST_LINK,
             strerrordesc_np(EPIPE));
    fy_flow_broken(&stage, 1, EPIPE);
    ck_assert_str_eq(said, expected);
    /* What has effects goes on, and is told that nobody reads. */
    may_fall_back = false;
    *said = '\0';
    stage.state = STAGE_RUNNING;
    fy_flow_broken(&stage, 2, EPIPE);
    fy_flow_broken(&stage, 1, EPIPE);
    ck_assert_str_eq(requested, "/stage/3/unread?2 /stage/3/unread?1 ");
    ck_assert(!stage.flow.left_unread);
    *requested = '\0';
    fy_flow_broken(&stage, 1, ENOSPC); /* its stub drops the rest */
    ck_assert_str_eq(requested, "");
    ck_assert_str_eq(said, "");
    fy_flow_broken(&stage, 0, EIO);
    ck_assert_ptr_nonnull(strstr(said, "falls back"));
    stage.state = STAGE_RUNNING;
    *said = '\0';
    fy_flow_broken(&stage, 3, EPIPE);
    ck_assert_ptr_nonnull(strstr(said, "falls back"));
}
END_TEST

/* A signal came first: it is what the command gets first. */
START_TEST(a_signal_comes_before_a_lost_reader)
{
    stage.order.signalled = true;
    fy_flow_broken(&stage, 1, EPIPE);
    ck_assert_str_eq(requested, "/stage/3/unread?1 ");
    fy_flow_broken(&stage, 1, EIO);
    ck_assert_ptr_nonnull(strstr(said, "falls back"));
    *said = '\0';
    stage.state = STAGE_RUNNING;
    stage.order.signalled = false;
    stage.order.held = 2;
    fy_flow_broken(&stage, 1, EPIPE);
    ck_assert_str_eq(said, "");
    /* Commands that are run, once they had a reader. */
    stage.order.held = 0;
    stage.invocation.nruns = 1;
    fy_flow_broken(&stage, 1, EPIPE);
    ck_assert_ptr_nonnull(strstr(said, "falls back"));
    *said = '\0';
    stage.state = STAGE_RUNNING;
    data(1);
    fy_flow_credit(&stage, 1);
    fy_flow_broken(&stage, 1, EPIPE);
    ck_assert_str_eq(said, "");
    ck_assert(stage.flow.left_unread);
}
END_TEST

/* Credits go to the part that writes. */
START_TEST(credits_of_parts)
{
    stage.parts = (struct fy_parts *)(void *)&other;
    stage.flow.handed_bytes = 100;
    other.flow.handed_bytes = 100;
    has_part = true;
    fy_flow_credit(&stage, 60);
    ck_assert_uint_eq(stage.flow.credited_bytes, 60);
    ck_assert_uint_eq(other.flow.credited_bytes, 60);
    ck_assert_uint_eq(ended, 100);
    has_part = false;
    fy_flow_credit(&stage, 10);
    ck_assert_uint_eq(stage.flow.credited_bytes, 70);
    ck_assert_uint_eq(other.flow.credited_bytes, 60);
    ck_assert_uint_eq(ended, 101);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("flow");
    TCase *tests = tcase_create("flow");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, both_windows_share_the_stub);
    tcase_add_test(tests, stdout_has_room_while_the_stub_keeps_stderr);
    tcase_add_test(tests, records_of_stderr_are_taken_apart);
    tcase_add_test(tests, a_window_opens_when_its_reader_is_known);
    tcase_add_test(tests, compressed_output_is_decoded_as_it_is_written);
    tcase_add_test(tests, stderr_gets_no_window_for_what_may_be_written_stdout);
    tcase_add_test(tests, each_stream_flows_while_the_other_rests);
    tcase_add_test(tests, output_that_cannot_be_decoded_ends_it);
    tcase_add_test(tests, a_stub_is_told_what_a_lost_reader_means);
    tcase_add_test(tests, a_stub_is_told_what_it_reads);
    tcase_add_test(tests, mounts_that_were_compared_are_proven);
    tcase_add_test(tests, a_refusal_is_told_by_its_reason);
    tcase_add_test(tests, another_root_is_asked_about_once_more);
    tcase_add_test(tests, one_status_or_one_signal_is_an_end);
    tcase_add_test(tests, what_was_taken_is_what_was_sent);
    tcase_add_test(tests, an_end_says_where_files_stand);
    tcase_add_test(tests, all_of_the_output_came);
    tcase_add_test(tests, frames_hold_what_a_stub_takes);
    tcase_add_test(tests, output_of_what_does_not_run_is_dropped);
    tcase_add_test(tests, a_stream_that_closes_too_early_is_a_lost_one);
    tcase_add_test(tests, stderr_that_is_cut_off_is_lost);
    tcase_add_test(tests, stderr_closes_by_itself);
    tcase_add_test(tests, a_signal_is_passed_on);
    tcase_add_test(tests, a_signal_has_a_time_to_be_answered);
    tcase_add_test(tests, a_signal_reaches_each_part);
    tcase_add_test(tests, a_signal_ends_what_still_writes_here);
    tcase_add_test(tests, a_lost_reader_is_the_originals_to_meet);
    tcase_add_test(tests, a_signal_comes_before_a_lost_reader);
    tcase_add_test(tests, credits_of_parts);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
