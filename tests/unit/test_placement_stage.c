/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a stage is worth its way (proxy/client/placement.c): what its cost is computed
 * from, which files are looked at through the mount, what its host is asked for, and
 * which answers count. Costs, threads and the connection are the test's.
 * Long because its doubles are a third of it.
 */
#include "config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "annotations/model/model.h"
#include "proxy/client/cost.h"
#include "proxy/client/stage.h"
#include "proxy/storage/work.h"
#include "proxy/wire/protocol.h"
#include "tests/unit/runner.h"

enum {
    STREAM = 9,
    RESULT = 4096, /* bytes of an answer that are kept */
};

static char folder[64];
static struct fy_session session;
static struct connection connection;
static struct fy_mount mounts[2];
static struct stage stage;
static struct fy_use uses[8];
static struct record record;
static const char *words[9];

static struct fy_cost_input inputs[2]; /* of the predictions: stays, as it is */
static struct fy_cost_host host;
static double there_seconds, here_seconds;
static bool pays, pays_if_it_stays, needs, needs_if_it_stays, refuses, no_wire;
static unsigned npredicted, placed, looked, cancelled, asked;
static struct fy_work *submitted;
static struct exchange *exchange;
static char *body;
static size_t nbody;

void
fy_cost_predict(const struct fy_invocation *invocation,
                const struct fy_cost_input *input,
                const struct fy_cost_host *at, struct fy_cost *out)
{
    ck_assert_ptr_eq(invocation, &stage.invocation);
    inputs[npredicted++ % 2] = *input;
    host = *at;
    *out = (struct fy_cost){there_seconds, here_seconds};
}

bool
fy_cost_pays(const struct fy_cost_input *input, const struct fy_cost *cost)
{
    (void)cost;
    return input->output_stays ? pays_if_it_stays : pays;
}

bool
fy_cost_needs_sizes(const struct fy_invocation *invocation,
                    const struct fy_cost_input *input,
                    const struct fy_cost_host *at)
{
    (void)invocation;
    (void)at;
    return input->output_stays ? needs_if_it_stays : needs;
}

double
fy_connection_login_seconds(const struct connection *of)
{
    return of->state == CONNECTION_READY ? 0 : 1.5;
}

int
fy_connection_request(struct connection *of, const char *path, bool has_body,
                      struct exchange *made)
{
    ck_assert_ptr_eq(of, &connection);
    ck_assert_str_eq(path, FY_PATH_PROBE);
    ck_assert(has_body);
    if (refuses) {
        return FY_ERR_BUSY;
    }
    asked++;
    exchange = made;
    exchange->stream = STREAM;
    return 0;
}

int
fy_wire_grant(struct fy_wire *wire, int32_t stream, size_t bytes)
{
    ck_assert_ptr_eq(wire, connection.wire);
    ck_assert_int_eq(stream, STREAM);
    ck_assert_uint_eq(bytes, RESULT);
    return no_wire ? FY_ERR_NOENT : 0;
}

int
fy_wire_send(struct fy_wire *wire, int32_t stream, const void *bytes, size_t n)
{
    ck_assert_ptr_eq(wire, connection.wire);
    ck_assert_int_eq(stream, STREAM);
    free(body);
    body = malloc(n);
    ck_assert_ptr_nonnull(body);
    memcpy(body, bytes, n);
    nbody = n;
    return 0;
}

int
fy_wire_finish(struct fy_wire *wire, int32_t stream,
               const struct fy_wire_pair *trailers, size_t ntrailers)
{
    (void)trailers;
    ck_assert_ptr_eq(wire, connection.wire);
    ck_assert_int_eq(stream, STREAM);
    ck_assert_uint_eq(ntrailers, 0);
    return 0;
}

void
fy_wire_cancel(struct fy_wire *wire, int32_t stream)
{
    ck_assert_ptr_eq(wire, connection.wire);
    ck_assert_int_eq(stream, STREAM);
    cancelled++;
}

void
fy_wire_counters(const struct fy_wire *wire, struct fy_wire_counters *out)
{
    ck_assert_ptr_eq(wire, connection.wire);
    out->rtt_ns = 2000000;
}

int
fy_pool_submit(struct fy_pool *pool, struct fy_work *work)
{
    (void)pool;
    if (refuses) {
        return FY_ERR_NOMEM;
    }
    submitted = work;
    return 0;
}

static void
be_placed(struct stage *of)
{
    placed += of == &stage;
}

static void
be_looked(struct stage *of)
{
    looked += of == &stage;
}

static const struct fy_session_calls calls = {.looked = be_looked,
                                              .placed = be_placed};

/* `cat a' in a folder of a mount; into a file there. */
static void
setup(void)
{
    strcpy(folder, "/tmp/ferry-placement-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    memset(&session, 0, sizeof session);
    memset(&connection, 0, sizeof connection);
    memset(mounts, 0, sizeof mounts);
    memset(&stage, 0, sizeof stage);
    memset(uses, 0, sizeof uses);
    memset(&record, 0, sizeof record);
    there_seconds = 2;
    here_seconds = 3;
    pays = pays_if_it_stays = true;
    needs = needs_if_it_stays = refuses = no_wire = false;
    npredicted = placed = looked = cancelled = asked = 0;
    submitted = NULL;
    exchange = NULL;
    body = NULL;
    strcpy(mounts[0].path, folder);
    strcpy(mounts[0].place.path, "/export");
    strcpy(mounts[1].path, "/other");
    strcpy(mounts[1].place.path, "/export/other");
    for (unsigned i = 0; i < 8; i++) {
        static const char *const names[] = {"a", "b", "c", "d",
                                            "e", "f", "g", "h"};
        words[i + 1] = names[i];
        uses[i] = (struct fy_use){.arg = i + 1, .access = FY_ACCESS_IN};
    }
    words[0] = "cat";
    connection.state = CONNECTION_READY;
    connection.wire = (struct fy_wire *)(void *)&session;
    connection.bytes_a_second = 1e6;
    connection.hello.cores = 4;
    connection.hello.load = 2;
    session.mounts = mounts;
    session.calls = &calls;
    stage.session = &session;
    stage.connection = &connection;
    stage.state = STAGE_PREPARING;
    stage.argv = words;
    stage.mount = &mounts[0];
    stage.plan.mounts[0] = &mounts[0];
    stage.plan.nmounts = 1;
    stage.plan.out.kind = FY_STREAM_FILE;
    stage.plan.in.kind = FY_STREAM_NULL;
    stage.plan.repeatable = true;
    stage.record = &record;
    stage.invocation.key = "the key";
    stage.invocation.uses = uses;
    stage.invocation.nuses = 1;
    strcpy(stage.facts.cwd, folder);
}

static void
teardown(void)
{
    char command[96];
    (void)snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
    free(body);
}

static void
put(const char *name, size_t bytes)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_int_eq(truncate(path, (off_t)bytes), 0);
}

/* ---- a look from here -------------------------------------------------------------- */

/* The look is taken and done; false: there is none. */
static bool
look(void)
{
    submitted = NULL;
    if (!fy_placement_look(&stage)) {
        ck_assert_ptr_null(stage.place.look);
        ck_assert_ptr_null(submitted);
        return false;
    }
    ck_assert_ptr_nonnull(stage.place.look);
    submitted->run(submitted);
    submitted->done(submitted);
    ck_assert_ptr_null(stage.place.look);
    return true;
}

START_TEST(few_files_are_looked_at_while_their_host_is_not_there)
{
    put("a", 1000);
    put("b", 200);
    ck_assert(!look()); /* it can be asked */
    connection.state = CONNECTION_GREETING;
    stage.invocation.nuses = 3; /* c is missing */
    ck_assert(look());
    ck_assert_uint_eq(looked, 1);
    ck_assert_uint_eq(inputs[1].remote_bytes, 1200);
    ck_assert_uint_eq(inputs[1].remote_files, 3);
    ck_assert_uint_eq(inputs[1].opened_files, 0);
    ck_assert(inputs[1].known);
    ck_assert(inputs[0].output_stays);
    ck_assert_double_eq(host.login_seconds, 1.5);
    /* What does not pay now may pay later: its host is asked then. */
    pays = false;
    ck_assert(look());
    ck_assert(!stage.place.judged);
    ck_assert(!stage.place.unprofitable);
    /* Standard input from a file of there. */
    stage.invocation.nuses = 1;
    stage.plan.in.kind = FY_STREAM_FILE;
    stage.facts.streams[0].bytes = 50;
    ck_assert(look());
    ck_assert_uint_eq(inputs[1].remote_bytes, 1050);
    ck_assert_uint_eq(inputs[1].remote_files, 2);
    ck_assert_uint_eq(inputs[1].opened_files, 1);
    stage.invocation.nuses = 0;
    ck_assert(look());
    ck_assert_uint_eq(inputs[1].remote_bytes, 50);
}
END_TEST

START_TEST(what_may_be_tiny_is_looked_at_in_any_case)
{
    put("a", 10);
    needs_if_it_stays = true;
    pays = false;
    stage.plan.out.kind = FY_STREAM_WIRE;
    ck_assert(look());
    ck_assert(stage.place.judged);
    ck_assert(stage.place.unprofitable);
    ck_assert(stage.place.small);
    ck_assert(!stage.place.hopeless);
    ck_assert_double_eq(host.login_seconds, 0);
    ck_assert_double_eq(host.rtt_seconds, 0.002);
    ck_assert_double_eq(host.bytes_a_second, 1e6);
    ck_assert_double_eq(host.load, 0.5);
    ck_assert_double_eq(stage.place.predicted_there, 2);
    ck_assert_double_eq(stage.place.predicted_here, 3);
    ck_assert_double_eq(record.report.predicted_seconds, 2);
    ck_assert_double_eq(record.report.predicted_local_seconds, 3);
    pays_if_it_stays = false;
    put("a", 64 << 10);
    stage.record = NULL;
    ck_assert(look());
    ck_assert(stage.place.hopeless);
    ck_assert(!stage.place.small);
}
END_TEST

START_TEST(what_few_looks_cannot_tell_is_not_looked_at)
{
    connection.state = CONNECTION_GREETING;
    ck_assert(look());
    session.options.force = true;
    ck_assert(!look());
    session.options.force = false;
    stage.input.streams = true;
    ck_assert(!look());
    stage.input.streams = false;
    stage.whole = &stage;
    ck_assert(!look());
    stage.whole = NULL;
    stage.parts = (struct fy_parts *)(void *)&stage;
    ck_assert(!look());
    stage.parts = NULL;
    stage.invocation.nuses = 4;
    ck_assert(look());
    stage.invocation.nuses = 5;
    ck_assert(!look());
    stage.invocation.nuses = 2;
    uses[1].kind = FY_USE_TREE;
    ck_assert(!look());
    uses[1].kind = FY_USE_FOLDER;
    ck_assert(!look());
    uses[1].kind = FY_USE_FILE;
    uses[1].is_stdin = true;
    ck_assert(!look());
    uses[1].is_stdin = false;
    stage.invocation.writes_cwd = true;
    ck_assert(!look());
    stage.invocation.writes_cwd = false;
    stage.invocation.cwd_is_tree = true;
    ck_assert(!look());
    stage.invocation.cwd_is_tree = false;
    refuses = true;
    ck_assert(!look());
    refuses = false;
    ck_assert(look());
    /* It reads nothing that has a size. */
    stage.invocation.nuses = 0;
    ck_assert(!look());
    stage.invocation.reads_cwd = true;
    ck_assert(look());
}
END_TEST

/* One look at a folder does not tell how much is in a large one. */
START_TEST(large_folders_are_not_judged)
{
    char name[80];

    connection.state = CONNECTION_GREETING;
    stage.invocation.nuses = 0;
    stage.invocation.reads_cwd = true;
    strcpy(stage.facts.cwd, "/proc/self");
    ck_assert(look());
    ck_assert_uint_eq(npredicted, 2);
    for (int i = 0; i < 400; i++) {
        (void)snprintf(name, sizeof name, "a name that fills its folder %d", i);
        put(name, 0);
    }
    strcpy(stage.facts.cwd, folder);
    ck_assert(look());
    ck_assert_uint_eq(looked, 2);
    struct stat about;
    ck_assert_int_eq(stat(folder, &about), 0);
    ck_assert_uint_eq(npredicted, about.st_size > 4096 ? 2 : 4);
}
END_TEST

START_TEST(a_stage_that_is_gone_is_told_nothing)
{
    connection.state = CONNECTION_GREETING;
    ck_assert(fy_placement_look(&stage));
    fy_placement_forget(&stage);
    ck_assert_ptr_null(stage.place.look);
    submitted->run(submitted);
    submitted->done(submitted);
    ck_assert_uint_eq(looked + npredicted, 0);
    ck_assert(fy_placement_look(&stage));
    fy_placement_forget(&stage);
    submitted->drop(submitted);
}
END_TEST

/* ---- at its host -------------------------------------------------------------------- */

static bool
ask(void)
{
    asked = 0;
    return fy_placement_ask(&stage);
}

/* The host's answer, and the stream's end. */
static void
answer(uint64_t bytes, uint64_t files, bool complete, uint32_t error)
{
    const struct fy_probe_result result = {bytes, files, complete};
    char *encoded;
    size_t n;

    ck_assert_int_eq(fy_probe_result_encode(&result, &encoded, &n), 0);
    exchange->data(exchange, encoded, n / 2);
    exchange->data(exchange, encoded + n / 2, n - n / 2);
    free(encoded);
    exchange->closed(exchange, error);
}

START_TEST(sizes_are_asked_for_where_they_matter)
{
    struct fy_probe probe;

    ck_assert(!ask());
    ck_assert_uint_eq(asked, 0);
    needs = needs_if_it_stays = true;
    session.options.force = true;
    ck_assert(!ask());
    session.options.force = false;
    stage.place.judged = true;
    ck_assert(!ask());
    stage.place.judged = false;
    ck_assert_uint_eq(asked, 0);

    /* Named files and folders, not what is only written. */
    stage.invocation.nuses = 4;
    uses[1].access = FY_ACCESS_OUT;
    uses[2].kind = FY_USE_FOLDER;
    uses[3].access = FY_ACCESS_INOUT;
    stage.plan.nmounts = 2;
    stage.plan.mounts[1] = &mounts[1];
    stage.plan.in.kind = FY_STREAM_FILE;
    stage.plan.in.path = "/other/input";
    ck_assert(ask());
    ck_assert_uint_eq(asked, 1);
    ck_assert_ptr_nonnull(stage.place.probe);
    ck_assert_int_eq(fy_probe_decode(body, nbody, &probe, NULL), 0);
    ck_assert_str_eq(probe.mount.at, folder);
    ck_assert_str_eq(probe.root.at, "/export");
    ck_assert_str_eq(probe.cwd.at, folder);
    ck_assert_uint_eq(probe.nmounts, 1);
    ck_assert_uint_eq(probe.npaths, 3);
    ck_assert_str_eq(probe.paths[0].at + strlen(folder), "/a");
    ck_assert_str_eq(probe.paths[1].at + strlen(folder), "/d");
    ck_assert_str_eq(probe.paths[2].at, "/other/input");
    ck_assert(!probe.tree);
    fy_probe_clear(&probe);
    answer(100000, 7, true, 0);
    ck_assert_uint_eq(placed, 1);
    ck_assert_ptr_null(stage.place.probe);
    ck_assert_uint_eq(inputs[1].remote_bytes, 100000);
    ck_assert_uint_eq(inputs[1].remote_files, 7);
    ck_assert(inputs[1].known);
    ck_assert(!stage.place.unprofitable);

    uses[0].kind = FY_USE_TREE;
    ck_assert(ask());
    ck_assert_int_eq(fy_probe_decode(body, nbody, &probe, NULL), 0);
    ck_assert(probe.tree);
    fy_probe_clear(&probe);
    pays = pays_if_it_stays = false;
    answer(10, 7, false, 0);
    ck_assert(!inputs[1].known);
    ck_assert(stage.place.unprofitable);
    ck_assert(stage.place.hopeless);
}
END_TEST

/* Without a good answer nothing is known against it. */
START_TEST(a_bad_answer_is_none)
{
    static char text[RESULT + 1];

    needs = true;
    pays = false;
    stage.plan.out.kind = FY_STREAM_WIRE;
    ck_assert(ask());
    answer(1, 1, true, 1);
    ck_assert(ask());
    exchange->data(exchange, "no answer", 9);
    exchange->closed(exchange, 0);
    ck_assert(ask());
    exchange->data(exchange, text, sizeof text);
    exchange->closed(exchange, 0);
    ck_assert(ask());
    struct fy_wire *wire = connection.wire;
    connection.wire = NULL; /* with its connection */
    answer(1, 1, true, 0);
    connection.wire = wire;
    ck_assert_uint_eq(placed, 4);
    ck_assert_uint_eq(npredicted, 0);
    ck_assert(!stage.place.unprofitable);
    no_wire = true;
    ck_assert(ask());
    ck_assert_uint_eq(cancelled, 1);
    exchange->closed(exchange, 8);
    ck_assert_uint_eq(placed, 5);
    refuses = true;
    ck_assert(!ask());
    refuses = no_wire = false;
    /* A stage that runs by now, and one that is gone. */
    stage.state = STAGE_RUNNING;
    ck_assert(ask());
    answer(1, 1, true, 0);
    ck_assert(stage.place.unprofitable);
    ck_assert(ask());
    fy_placement_forget(&stage);
    answer(1, 1, true, 0);
    ck_assert_uint_eq(placed, 5);
}
END_TEST

/* Into a pipe it is started meanwhile, unless that could take what the original
 * needs. */
START_TEST(what_writes_into_a_pipe_is_not_waited_for)
{
    needs = true;
    stage.plan.out.kind = FY_STREAM_WIRE;
    ck_assert(ask());
    answer(1, 1, true, 0);
    stage.plan.out.is_pipe = true;
    ck_assert(!ask());
    ck_assert_uint_eq(asked, 1);
    answer(1, 1, true, 0);
    needs_if_it_stays = true; /* it may be tiny */
    ck_assert(ask());
    answer(1, 1, true, 0);
    stage.invocation.reads_cwd = true; /* no: it reads what is not named */
    ck_assert(!ask());
    answer(1, 1, true, 0);
    stage.input.streams = true;
    ck_assert(ask());
    answer(1, 1, true, 0);
    stage.input.streams = false;
    /* What cannot be repeated is asked about only for its input. */
    stage.plan.repeatable = false;
    needs = true;
    needs_if_it_stays = false;
    ck_assert(!ask());
    ck_assert_uint_eq(asked, 0);
}
END_TEST

/* What filters data of here reads nothing there: judged without its host. */
START_TEST(a_filter_of_local_data_is_judged_at_once)
{
    stage.input.streams = true;
    stage.invocation.nuses = 0;
    stage.plan.local_bytes = 5000;
    pays = false;
    stage.plan.out.kind = FY_STREAM_WIRE;
    ck_assert(!ask());
    ck_assert(stage.place.unprofitable);
    ck_assert_uint_eq(asked, 0);
    ck_assert_uint_eq(inputs[1].local_bytes, 5000);
    ck_assert_uint_eq(inputs[1].stored_files, 0);
    ck_assert(!inputs[1].output_stays);
    ck_assert(stage.place.small);
    stage.plan.in.is_pipe = true; /* a guess */
    ck_assert(!ask());
    ck_assert_uint_eq(inputs[1].local_bytes, 1 << 20);
    stage.plan.in.is_pipe = false;
    stage.plan.local_bytes = 777;
    ck_assert(!ask());
    ck_assert_uint_eq(inputs[1].local_bytes, 777);
    /* tee a b: stored twice. Unpacked: many small files. */
    stage.invocation.nuses = 3;
    uses[0].access = uses[1].access = FY_ACCESS_OUT;
    uses[2].is_stdin = true;
    ck_assert(!ask());
    ck_assert_uint_eq(inputs[1].stored_files, 2);
    ck_assert_uint_eq(inputs[1].remote_files, 0); /* counted once */
    ck_assert_uint_eq(inputs[1].stored_bytes, 2 * 777);
    stage.invocation.nuses = 0;
    stage.invocation.writes_cwd = true;
    stage.plan.local_bytes = 10 * (32 << 10);
    ck_assert(!ask());
    ck_assert_uint_eq(inputs[1].stored_files, 11);
    ck_assert_uint_eq(inputs[1].stored_bytes, 10 * (32 << 10));
    stage.invocation.nuses = 1;
    uses[0].kind = FY_USE_TREE;
    ck_assert(!ask());
    ck_assert_uint_eq(inputs[1].stored_files, 12);
    ck_assert_uint_eq(inputs[1].stored_bytes, 10 * (32 << 10));
    /* One that reads there as well: its host is asked. */
    uses[0] = (struct fy_use){.arg = 1, .access = FY_ACCESS_IN};
    stage.plan.in.is_pipe = true;
    ck_assert(ask());
    ck_assert_uint_eq(asked, 1);
    answer(10, 1, true, 0);
    ck_assert_uint_eq(inputs[1].local_bytes, 1 << 20);
}
END_TEST

/* echo | tee: its bytes are here, and its host's login goes on. */
START_TEST(what_is_fed_from_here_may_end_before_a_login)
{
    stage.input.streams = stage.plan.in.is_pipe = true;
    uses[0].access = FY_ACCESS_OUT;
    pays = pays_if_it_stays = false;
    ck_assert(!fy_placement_beats_login(&stage)); /* it is over */
    ck_assert_uint_eq(npredicted, 0);
    connection.state = CONNECTION_GREETING;
    ck_assert(fy_placement_beats_login(&stage));
    ck_assert_double_eq(host.login_seconds, 1.5);
    ck_assert_uint_eq(inputs[1].stored_files, 1);
    ck_assert(!stage.place.unprofitable);
    /* It would pay if it were read there: that is not known yet. */
    pays_if_it_stays = true;
    ck_assert(!fy_placement_beats_login(&stage));
    ck_assert(!stage.place.unprofitable);
    pays_if_it_stays = false;
    uses[0].access = FY_ACCESS_IN; /* as much as there may be */
    ck_assert(!fy_placement_beats_login(&stage));
    uses[0].access = FY_ACCESS_OUT;
    stage.whole = &stage;
    ck_assert(!fy_placement_beats_login(&stage));
    stage.whole = NULL;
    session.options.force = true;
    ck_assert(!fy_placement_beats_login(&stage));
}
END_TEST

START_TEST(output_that_stays_there)
{
    needs = needs_if_it_stays = true;
    const struct {
        enum fy_stream_kind kind;
        bool feeds, stays;
    } rows[] = {{FY_STREAM_FILE, false, true},
                {FY_STREAM_NULL, false, true},
                {FY_STREAM_WIRE, false, false},
                {FY_STREAM_WIRE, true, true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        stage.plan.out.kind = rows[i].kind;
        stage.join.feeds = rows[i].feeds ? &stage : NULL;
        ck_assert(ask());
        answer(10, 0, true, 0);
        ck_assert(inputs[0].output_stays);
        ck_assert_int_eq(inputs[1].output_stays, rows[i].stays);
        ck_assert_uint_eq(inputs[1].remote_files, 1);
    }
    connection.hello.cores = 0;
    ck_assert(ask());
    answer(10, 0, true, 0);
    ck_assert_double_eq(host.load, 0);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("placement_stage");
    TCase *tests = tcase_create("placement_stage");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests,
                   few_files_are_looked_at_while_their_host_is_not_there);
    tcase_add_test(tests, what_may_be_tiny_is_looked_at_in_any_case);
    tcase_add_test(tests, what_few_looks_cannot_tell_is_not_looked_at);
    tcase_add_test(tests, large_folders_are_not_judged);
    tcase_add_test(tests, a_stage_that_is_gone_is_told_nothing);
    tcase_add_test(tests, sizes_are_asked_for_where_they_matter);
    tcase_add_test(tests, a_bad_answer_is_none);
    tcase_add_test(tests, what_writes_into_a_pipe_is_not_waited_for);
    tcase_add_test(tests, a_filter_of_local_data_is_judged_at_once);
    tcase_add_test(tests, what_is_fed_from_here_may_end_before_a_login);
    tcase_add_test(tests, output_that_stays_there);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
