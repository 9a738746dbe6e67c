/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proxy/client/history.c and proxy/client/cost.c: what is learned, and what follows from it.
 */
#include "config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proxy/client/cost.h"
#include "proxy/client/history.h"
#include "tests/unit/runner.h"

static char folder[64];
static char path[96];

static void
make_folder(void)
{
    strcpy(folder, "/tmp/ferry-history-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/history.db", folder);
}

static void
remove_folder(void)
{
    unlink(path);
    rmdir(folder);
}

START_TEST(test_remembers)
{
    struct fy_history *history;
    struct fy_learned learned;
    ck_assert_int_eq(fy_history_open(path, &history), 0);
    ck_assert(!fy_history_find(history, "grep -v", &learned));
    ck_assert(learned.runs == 0);
    ck_assert_msg(access(path, F_OK) != 0, "a file is made to read nothing");
    fy_history_add(history, "grep -v", 1000, 100, 0.5);
    ck_assert(fy_history_find(history, "grep -v", &learned));
    ck_assert(learned.in_bytes == 1000 && learned.out_bytes == 100);
    ck_assert_int_eq(fy_history_save(history), 0);
    fy_history_free(history);

    ck_assert_int_eq(fy_history_open(path, &history), 0);
    ck_assert(fy_history_find(history, "grep -v", &learned));
    ck_assert(learned.busy_seconds == 0.5);
    ck_assert(!fy_history_find(history, "grep", &learned));
    /* The newest counts most. */
    for (int i = 0; i < 30; i++) {
        fy_history_add(history, "grep -v", 1000, 900, 0.5);
    }
    ck_assert(fy_history_find(history, "grep -v", &learned));
    ck_assert(learned.out_bytes > 890 && learned.out_bytes <= 900);
    fy_history_free(history);
}
END_TEST

START_TEST(test_two_runs_at_once)
{
    struct fy_history *one, *two;
    struct fy_learned learned;
    ck_assert_int_eq(fy_history_open(path, &one), 0);
    ck_assert_int_eq(fy_history_open(path, &two), 0);
    fy_history_add(one, "a", 1, 1, 0);
    fy_history_add(two, "b", 2, 2, 0);
    ck_assert_int_eq(fy_history_save(one), 0);
    ck_assert_int_eq(fy_history_save(two), 0);
    fy_history_free(one);
    fy_history_free(two);
    ck_assert_int_eq(fy_history_open(path, &one), 0);
    ck_assert(fy_history_find(one, "a", &learned));
    ck_assert(fy_history_find(one, "b", &learned));
    fy_history_free(one);
}
END_TEST

START_TEST(test_bad_files)
{
    static const char garbage[] = "this is no database, whatever it says";
    struct fy_history *history;
    struct fy_learned learned;
    FILE *file = fopen(path, "we");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_gt(fputs(garbage, file), 0);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_int_eq(fy_history_open(path, &history), 0);
    fy_history_add(history, "a", 1, 1, 0);
    ck_assert(fy_history_find(history, "a", &learned));
    ck_assert_int_eq(fy_history_save(history), FY_ERR_IO);
    fy_history_free(history);
    /* Not ours: it is as it was. */
    struct stat status;
    ck_assert_int_eq(stat(path, &status), 0);
    ck_assert_int_eq(status.st_size, sizeof garbage - 1);

    ck_assert_int_eq(fy_history_open("/proc/none/history.db", &history), 0);
    ck_assert_int_eq(fy_history_save(history), 0);
    fy_history_add(history, "a", 1, 1, 0);
    ck_assert_int_eq(fy_history_save(history), FY_ERR_IO);
    fy_history_free(history);
    fy_history_free(NULL);
}
END_TEST

START_TEST(test_many_keys_and_long_ones)
{
    struct fy_history *history;
    struct fy_learned learned;
    char key[2000];
    ck_assert_int_eq(fy_history_open(path, &history), 0);
    memset(key, 'x', sizeof key - 1);
    key[sizeof key - 1] = '\0';
    fy_history_add(history, key, 1, 1, 0);
    ck_assert(!fy_history_find(history, key, &learned));
    for (int i = 0; i < 20000; i++) {
        (void)snprintf(key, sizeof key, "command %d", i);
        fy_history_add(history, key, 1, 1, 0);
    }
    ck_assert_int_eq(fy_history_save(history), 0);
    fy_history_free(history);
    ck_assert_int_eq(fy_history_open(path, &history), 0);
    unsigned found = 0;
    for (int i = 0; i < 20000; i++) {
        (void)snprintf(key, sizeof key, "command %d", i);
        found += fy_history_find(history, key, &learned);
    }
    ck_assert_uint_eq(found, 4096);
    fy_history_free(history);
}
END_TEST

static const struct fy_cost_host lan = {.rtt_seconds = 0.5e-3,
                                        .bytes_a_second = 115e6};

static const struct fy_cost_host wan = {.rtt_seconds = 20e-3,
                                        .bytes_a_second = 70e6};

static bool
pays(uint8_t output, double ratio, struct fy_cost_input input,
     struct fy_cost_host host)
{
    struct fy_invocation invocation = {.output = output, .work = 1};
    struct fy_learned learned = {0};
    struct fy_cost cost;
    if (ratio >= 0) {
        learned = (struct fy_learned){.runs = 3,
                                      .in_bytes = 1e6,
                                      .out_bytes = 1e6 * ratio,
                                      .busy_seconds = 1e-3};
    }
    fy_cost_predict(&invocation, &learned, &input, &host, &cost);
    ck_assert(cost.there_seconds > 0 && cost.here_seconds >= 0);
    return fy_cost_pays(&input, &cost);
}

START_TEST(test_what_pays)
{
    struct fy_cost_input big = {
        .remote_bytes = 1000000000, .remote_files = 1, .known = true};
    struct fy_cost_input small = {
        .remote_bytes = 100, .remote_files = 1, .known = true};
    struct fy_cost_input mixed = {.remote_bytes = 1000,
                                  .local_bytes = 1000000000,
                                  .remote_files = 1,
                                  .known = true};
    ck_assert(pays(FY_OUTPUT_FILTERS, -1, big, lan));
    /* Where a round trip is short, next to nothing is done sooner here. */
    ck_assert(!pays(FY_OUTPUT_FILTERS, -1, small, lan));
    ck_assert(pays(FY_OUTPUT_FILTERS, -1, small, wan));
    /* Until the login has ended little is done sooner there. */
    struct fy_cost_host far = wan;
    far.login_seconds = 0.5;
    ck_assert(!pays(FY_OUTPUT_FILTERS, -1, small, far));
    ck_assert(pays(FY_OUTPUT_FILTERS, -1, big, far));
    /* What the shell opened is only read: a trip, as the stage's own. */
    struct fy_cost_input opened = small;
    opened.opened_files = 1;
    ck_assert(!pays(FY_OUTPUT_FILTERS, -1, opened, wan));
    opened.remote_files = 2;
    ck_assert(pays(FY_OUTPUT_FILTERS, -1, opened, wan));
    opened.remote_files = 1;
    opened.remote_bytes = 5000000;
    ck_assert(pays(FY_OUTPUT_FILTERS, -1, opened, wan));
    small.effect = true;
    ck_assert(!pays(FY_OUTPUT_FILTERS, -1, small, wan));
    small.remote_files = 5;
    ck_assert(pays(FY_OUTPUT_FILTERS, -1, small, wan));
    ck_assert(pays(FY_OUTPUT_COPIES, -1, big, lan));
    ck_assert(!pays(FY_OUTPUT_GROWS, -1, big, lan));
    ck_assert(!pays(FY_OUTPUT_FILTERS, -1, mixed, lan));
    /* What was learned overrules the annotation, both ways. */
    ck_assert(!pays(FY_OUTPUT_FILTERS, 5, big, lan));
    ck_assert(pays(FY_OUTPUT_GROWS, 0.01, big, lan));
    /* Nothing crosses when the output stays. */
    big.output_stays = true;
    ck_assert(pays(FY_OUTPUT_GROWS, -1, big, lan));
    /* A host at its limits. */
    struct fy_cost_host busy = lan;
    busy.load = 40;
    busy.bytes_a_second = 10e9;
    big.output_stays = false;
    ck_assert(!pays(FY_OUTPUT_FILTERS, -1, big, busy));
    /* So is this machine. */
    busy.here_load = 40;
    ck_assert(pays(FY_OUTPUT_FILTERS, -1, big, busy));
    busy.here_load = 0;
    big.known = false;
    ck_assert(pays(FY_OUTPUT_FILTERS, -1, big, busy));
}
END_TEST

START_TEST(test_input_from_here)
{
    /* A filter of what is here, to a file there: as many bytes either way. */
    struct fy_cost_input input = {
        .local_bytes = 100000000, .known = true, .output_stays = true};
    ck_assert(!pays(FY_OUTPUT_COPIES, -1, input, lan));
    ck_assert(!pays(FY_OUTPUT_FILTERS, -1, input, lan));
    ck_assert(pays(FY_OUTPUT_GROWS, -1, input, lan));
    /* To here: never. */
    input.output_stays = false;
    ck_assert(!pays(FY_OUTPUT_FILTERS, -1, input, lan));
    ck_assert(!pays(FY_OUTPUT_NOTHING, -1, input, lan));
    /* It looks at much there. */
    input.remote_bytes = 1000000000;
    input.remote_files = 1;
    ck_assert(pays(FY_OUTPUT_FILTERS, -1, input, lan));
    /* An archive: many files to be made. */
    input = (struct fy_cost_input){.local_bytes = 1000000,
                                   .stored_bytes = 1000000,
                                   .stored_files = 100,
                                   .known = true};
    ck_assert(pays(FY_OUTPUT_NOTHING, -1, input, lan));
    /* tee, when what it prints has to come back. */
    input.stored_files = 1;
    input.local_bytes = input.stored_bytes = 100000000;
    ck_assert(!pays(FY_OUTPUT_COPIES, -1, input, lan));
    input.output_stays = true;
    ck_assert(pays(FY_OUTPUT_COPIES, -1, input, lan));
    /* Input follows the stage's answer: one trip more. */
    const struct fy_invocation filter = {.output = FY_OUTPUT_FILTERS,
                                         .work = 1};
    const struct fy_learned none = {0};
    struct fy_cost without, with;
    input = (struct fy_cost_input){.remote_files = 1, .known = true};
    fy_cost_predict(&filter, &none, &input, &wan, &without);
    input.local_bytes = 1;
    fy_cost_predict(&filter, &none, &input, &wan, &with);
    ck_assert(with.there_seconds > without.there_seconds + wan.rtt_seconds);
    ck_assert(with.there_seconds <
              without.there_seconds + 1.1 * wan.rtt_seconds);
}
END_TEST

START_TEST(test_impossible_rows_predict_nothing)
{
    /* As cut once had: all of its output for the few bytes of its start. */
    const struct fy_learned rows[] = {
        {.runs = 3, .in_bytes = 1, .out_bytes = 5e8, .busy_seconds = 4},
        {.runs = 3, .in_bytes = 4096, .out_bytes = 4096, .busy_seconds = 4e-3},
        {.runs = 3, .in_bytes = 1e5, .out_bytes = 1e9, .busy_seconds = 1e-3},
        {.runs = 3, .in_bytes = 1e5, .out_bytes = 1e5, .busy_seconds = 40},
    };
    const struct fy_invocation invocation = {.output = FY_OUTPUT_FILTERS,
                                             .work = 1};
    const struct fy_learned none = {0};
    const struct fy_cost_input input = {
        .remote_bytes = 561000000, .remote_files = 1, .known = true};
    struct fy_cost wanted, cost;
    fy_cost_predict(&invocation, &none, &input, &lan, &wanted);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fy_cost_predict(&invocation, &rows[i], &input, &lan, &cost);
        ck_assert(cost.there_seconds == wanted.there_seconds);
        ck_assert(cost.here_seconds == wanted.here_seconds);
        ck_assert(!fy_cost_needs_sizes(&invocation, &rows[i], &input, &wan));
    }
}
END_TEST

START_TEST(test_when_sizes_matter)
{
    struct fy_learned none = {0};
    struct fy_learned grew = {.runs = 1, .in_bytes = 1e6, .out_bytes = 2e6};
    struct fy_cost_input input = {.remote_files = 1};
    struct fy_invocation filter = {.output = FY_OUTPUT_FILTERS};
    struct fy_invocation grows = {.output = FY_OUTPUT_GROWS};
    ck_assert(!fy_cost_needs_sizes(&filter, &none, &input, &wan));
    ck_assert(fy_cost_needs_sizes(&filter, &grew, &input, &wan));
    ck_assert(fy_cost_needs_sizes(&grows, &none, &input, &wan));
    /* It might be next to nothing. */
    ck_assert(fy_cost_needs_sizes(&filter, &none, &input, &lan));
    input.opened_files = 1;
    ck_assert(fy_cost_needs_sizes(&filter, &none, &input, &wan));
    input.opened_files = 0;
    input.output_stays = true;
    ck_assert(!fy_cost_needs_sizes(&grows, &none, &input, &wan));
    ck_assert(fy_cost_needs_sizes(&grows, &none, &input, &lan));
    input.local_bytes = 1;
    ck_assert(fy_cost_needs_sizes(&filter, &none, &input, &wan));
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("placement");
    TCase *files = tcase_create("history");
    tcase_add_checked_fixture(files, make_folder, remove_folder);
    tcase_add_test(files, test_remembers);
    tcase_add_test(files, test_two_runs_at_once);
    tcase_add_test(files, test_bad_files);
    tcase_add_test(files, test_many_keys_and_long_ones);
    suite_add_tcase(suite, files);
    TCase *model = tcase_create("cost");
    tcase_add_test(model, test_what_pays);
    tcase_add_test(model, test_input_from_here);
    tcase_add_test(model, test_impossible_rows_predict_nothing);
    tcase_add_test(model, test_when_sizes_matter);
    suite_add_tcase(suite, model);
    return run_suite(suite);
}
