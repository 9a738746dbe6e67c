/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which looks at a pipe decide that a stage's output comes here (proxy/client/link.c).
 * What a look sees, and the stage's further life, are the test's.
 */
#include "config.h"

#include <check.h>

#include "common/clock.h"
#include "proxy/client/holders.h"
#include "proxy/client/stage.h"
#include "tests/unit/runner.h"

enum {
    STUB = 70,
    READER = 71,
};

static struct fy_session session;
static struct stub_client client;
static struct stage stage;
static bool settled, certain;
static unsigned opened;

int
fy_holders_scan(struct fy_holders *holders, struct fy_pipe_holders *pipes,
                unsigned npipes, enum fy_hidden *out_hidden)
{
    (void)holders;
    ck_assert_uint_eq(npipes, 1);
    pipes->n = 2;
    pipes->holders[0] = (struct fy_holder){.pid = STUB, .writes = true};
    pipes->holders[1] =
        (struct fy_holder){.pid = READER, .reads = true, .settled = settled};
    *out_hidden = certain ? FY_HIDDEN_NONE : FY_HIDDEN_MOVING;
    return 0;
}

bool
fy_holders_inherited(const struct fy_holders *holders, uint64_t device,
                     uint64_t inode)
{
    (void)holders;
    (void)device;
    return inode == 0;
}

bool
fy_pipe_has_data(pid_t pid)
{
    return pid == 0;
}

bool
fy_carry_wait(struct stage *of, struct connection *to)
{
    (void)of;
    (void)to;
    return false;
}

bool
fy_connection_takes(const struct connection *connection, const struct stage *of)
{
    return connection && of;
}

void
fy_loop_set(struct fy_loop *loop, struct fy_timer *timer, uint64_t delay_ns)
{
    ck_assert_ptr_eq(loop, &session.loop);
    timer->due_ns = fy_clock_ns() + delay_ns;
}

void
fy_stage_ask(struct stage *of, struct stage *feeder)
{
    ck_abort_msg("%p joined to %p", (void *)of, (void *)feeder);
}

void
fy_stage_decline(struct stage *of, unsigned reason, const char *why)
{
    ck_abort_msg("%p: %u %s", (void *)of, reason, why);
}

void
fy_stage_stream(struct stage *of)
{
    ck_abort_msg("%p is sent", (void *)of);
}

void
fy_stage_open(struct stage *of)
{
    of->join.settled = true;
    opened++;
}

static void
look(bool is_settled)
{
    uint64_t before = fy_clock_ns();
    settled = is_settled;
    while (fy_clock_ns() == before) {
    }
    session.scan.timer.due_ns = 0;
    fy_link_scan(&session);
}

/* A stage that writes into a pipe which a process of here reads. */
static void
set_up(void)
{
    client = (struct stub_client){.pid = STUB, .stage = &stage};
    stage = (struct stage){.session = &session,
                           .client = &client,
                           .state = STAGE_RUNNING,
                           .hello.pid = STUB,
                           .plan.out.is_pipe = true,
                           .asked_ns = fy_clock_ns()};
    session = (struct fy_session){.stages = &stage, .stubs.clients = &client};
    opened = 0;
    certain = true;
}

START_TEST(two_quiet_looks_in_a_row_open_an_output)
{
    certain = _i == 0;
    look(true);
    ck_assert_uint_eq(opened, 0);
    look(true);
    ck_assert_uint_eq(opened, 1);
}
END_TEST

START_TEST(a_look_at_a_process_on_its_way_counts_as_one)
{
    certain = _i == 0;
    look(true);
    look(false);
    look(true);
    ck_assert_uint_eq(opened, 0);
    look(false);
    look(false);
    ck_assert_uint_eq(opened, 0);
    look(true);
    look(true);
    ck_assert_uint_eq(opened, 1);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("link");
    TCase *tests = tcase_create("looks");
    tcase_add_checked_fixture(tests, set_up, NULL);
    tcase_add_loop_test(tests, two_quiet_looks_in_a_row_open_an_output, 0, 2);
    tcase_add_loop_test(tests, a_look_at_a_process_on_its_way_counts_as_one, 0,
                        2);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
