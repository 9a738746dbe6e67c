/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proxy/client/cost.c: where a stage would end sooner; proxy/storage/logins.c: hosts that
 * have answered before.
 */
#include "config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "proxy/client/cost.h"
#include "proxy/storage/logins.h"
#include "proxy/wire/transport.h"
#include "tests/unit/runner.h"

static const struct fy_cost_host lan = {.rtt_seconds = 0.5e-3,
                                        .bytes_a_second = 115e6};

static const struct fy_cost_host wan = {.rtt_seconds = 20e-3,
                                        .bytes_a_second = 70e6};

static bool
pays(uint8_t output, struct fy_cost_input input, struct fy_cost_host host)
{
    struct fy_invocation invocation = {.output = output, .work = 1};
    struct fy_cost cost;
    fy_cost_predict(&invocation, &input, &host, &cost);
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
    ck_assert(pays(FY_OUTPUT_FILTERS, big, lan));
    /* Where a round trip is short, next to nothing is done sooner here. */
    ck_assert(!pays(FY_OUTPUT_FILTERS, small, lan));
    ck_assert(pays(FY_OUTPUT_FILTERS, small, wan));
    /* Until the login has ended little is done sooner there. */
    struct fy_cost_host far = wan;
    far.login_seconds = 0.5;
    ck_assert(!pays(FY_OUTPUT_FILTERS, small, far));
    ck_assert(pays(FY_OUTPUT_FILTERS, big, far));
    /* What the shell opened is only read: a trip, as the stage's own. */
    struct fy_cost_input opened = small;
    opened.opened_files = 1;
    ck_assert(!pays(FY_OUTPUT_FILTERS, opened, wan));
    opened.remote_files = 2;
    ck_assert(pays(FY_OUTPUT_FILTERS, opened, wan));
    opened.remote_files = 1;
    opened.remote_bytes = 5000000;
    ck_assert(pays(FY_OUTPUT_FILTERS, opened, wan));
    small.effect = true;
    ck_assert(!pays(FY_OUTPUT_FILTERS, small, wan));
    small.remote_files = 5;
    ck_assert(pays(FY_OUTPUT_FILTERS, small, wan));
    ck_assert(pays(FY_OUTPUT_COPIES, big, lan));
    ck_assert(!pays(FY_OUTPUT_GROWS, big, lan));
    ck_assert(!pays(FY_OUTPUT_FILTERS, mixed, lan));
    /* Nothing crosses when the output stays. */
    big.output_stays = true;
    ck_assert(pays(FY_OUTPUT_GROWS, big, lan));
    /* A host at its limits. */
    struct fy_cost_host busy = lan;
    busy.load = 40;
    busy.bytes_a_second = 10e9;
    big.output_stays = false;
    ck_assert(!pays(FY_OUTPUT_FILTERS, big, busy));
    /* So is this machine. */
    busy.here_load = 40;
    ck_assert(pays(FY_OUTPUT_FILTERS, big, busy));
    busy.here_load = 0;
    big.known = false;
    ck_assert(pays(FY_OUTPUT_FILTERS, big, busy));
}
END_TEST

START_TEST(test_input_from_here)
{
    /* A filter of what is here, to a file there: as many bytes either way. */
    struct fy_cost_input input = {
        .local_bytes = 100000000, .known = true, .output_stays = true};
    ck_assert(!pays(FY_OUTPUT_COPIES, input, lan));
    ck_assert(!pays(FY_OUTPUT_FILTERS, input, lan));
    ck_assert(pays(FY_OUTPUT_GROWS, input, lan));
    /* To here: never. */
    input.output_stays = false;
    ck_assert(!pays(FY_OUTPUT_FILTERS, input, lan));
    ck_assert(!pays(FY_OUTPUT_NOTHING, input, lan));
    /* It looks at much there. */
    input.remote_bytes = 1000000000;
    input.remote_files = 1;
    ck_assert(pays(FY_OUTPUT_FILTERS, input, lan));
    /* An archive: many files to be made. */
    input = (struct fy_cost_input){.local_bytes = 1000000,
                                   .stored_bytes = 1000000,
                                   .stored_files = 100,
                                   .known = true};
    ck_assert(pays(FY_OUTPUT_NOTHING, input, lan));
    /* tee, when what it prints has to come back. */
    input.stored_files = 1;
    input.local_bytes = input.stored_bytes = 100000000;
    ck_assert(!pays(FY_OUTPUT_COPIES, input, lan));
    input.output_stays = true;
    ck_assert(pays(FY_OUTPUT_COPIES, input, lan));
    /* Input follows the stage's answer: one trip more. */
    const struct fy_invocation filter = {.output = FY_OUTPUT_FILTERS,
                                         .work = 1};
    struct fy_cost without, with;
    input = (struct fy_cost_input){.remote_files = 1, .known = true};
    fy_cost_predict(&filter, &input, &wan, &without);
    input.local_bytes = 1;
    fy_cost_predict(&filter, &input, &wan, &with);
    ck_assert(with.there_seconds > without.there_seconds + wan.rtt_seconds);
    ck_assert(with.there_seconds <
              without.there_seconds + 1.1 * wan.rtt_seconds);
}
END_TEST

START_TEST(test_when_sizes_matter)
{
    struct fy_cost_input input = {.remote_files = 1};
    struct fy_invocation filter = {.output = FY_OUTPUT_FILTERS};
    struct fy_invocation grows = {.output = FY_OUTPUT_GROWS};
    ck_assert(!fy_cost_needs_sizes(&filter, &input, &wan));
    ck_assert(fy_cost_needs_sizes(&grows, &input, &wan));
    /* It might be next to nothing. */
    ck_assert(fy_cost_needs_sizes(&filter, &input, &lan));
    input.opened_files = 1;
    ck_assert(fy_cost_needs_sizes(&filter, &input, &wan));
    input.opened_files = 0;
    input.output_stays = true;
    ck_assert(!fy_cost_needs_sizes(&grows, &input, &wan));
    ck_assert(fy_cost_needs_sizes(&grows, &input, &lan));
    input.local_bytes = 1;
    ck_assert(fy_cost_needs_sizes(&filter, &input, &wan));
}
END_TEST

/* 3 MB take 3 s at 1 MB/s, a quarter of a second on a link that nobody measured. */
START_TEST(test_what_is_sent_first)
{
    static const struct {
        double here, there, bytes, rate;
        bool worth;
    } rows[] = {
        {1, 0.1, 3e6, 0, true},    {0.3, 0.1, 3e6, 0, false},
        {4, 0.5, 3e6, 1e6, true},  {3.4, 0.5, 3e6, 1e6, false},
        {0.3, 0.1, 0, 1e6, true},  {0, 0, 3e6, 1e6, true},
        {0.1, 0.3, 1, 1e9, false}, {0.3, 0.1, 3e6, 1e8, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct fy_cost cost = {.here_seconds = rows[i].here,
                                     .there_seconds = rows[i].there};
        ck_assert_msg(fy_cost_worth_sending(&cost, rows[i].bytes,
                                            rows[i].rate) == rows[i].worth,
                      "row %zu", i);
    }
}
END_TEST

START_TEST(test_logins)
{
    char folder[] = "/tmp/ferry-logins-XXXXXX", prefix[64], command[128];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    (void)snprintf(prefix, sizeof prefix, "%s/login-", folder);
    ck_assert(fy_login_last(prefix, "a/../b") == 0);
    fy_login_keep(prefix, "a/../b", 1.25);
    ck_assert(fy_login_last(prefix, "a/../b") == 1.25);
    ck_assert(fy_login_last(prefix, "a") == 0);
    fy_login_keep(prefix, "a/../b", 0);
    ck_assert(fy_login_last(prefix, "a/../b") == 0.001);
    /* What a process served says nothing of another one. */
    struct fy_mount mount = {.path = "/mnt/data", .pid = getpid()};
    ck_assert(!fy_proof_known(prefix, &mount));
    fy_proof_keep(prefix, &mount);
    ck_assert(fy_proof_known(prefix, &mount));
    mount.pid = getppid();
    ck_assert(!fy_proof_known(prefix, &mount));
    mount = (struct fy_mount){.path = "/mnt/other", .pid = getpid()};
    ck_assert(!fy_proof_known(prefix, &mount));
    mount.pid = 0;
    fy_proof_keep(prefix, &mount);
    ck_assert(!fy_proof_known(prefix, &mount));
    (void)snprintf(command, sizeof command,
                   "for i in %s*; do echo word >$i; done", prefix);
    ck_assert_int_eq(system(command), 0);
    ck_assert(fy_login_last(prefix, "a/../b") == 0);
    (void)snprintf(command, sizeof command, "rm -r %s", folder);
    ck_assert_int_eq(system(command), 0);
    fy_login_keep(prefix, "a", 1);
    ck_assert(fy_login_last(prefix, "a") == 0);
    fy_login_keep(NULL, "a", 1);
    ck_assert(fy_login_last(NULL, "a") == 0);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("placement");
    TCase *model = tcase_create("cost");
    tcase_add_test(model, test_what_pays);
    tcase_add_test(model, test_input_from_here);
    tcase_add_test(model, test_when_sizes_matter);
    tcase_add_test(model, test_what_is_sent_first);
    suite_add_tcase(suite, model);
    TCase *logins = tcase_create("logins");
    tcase_add_test(logins, test_logins);
    suite_add_tcase(suite, logins);
    return run_suite(suite);
}
