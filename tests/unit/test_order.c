/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order in which joined stages get a signal (proxy/client/order.c): what reads gets
 * it before what feeds it, however long its stub has no processor, and no stub
 * that is stopped or gone is waited for without end. Time, processes and what is
 * sent are the test's own.
 */
#include "config.h"

#include <check.h>
#include <signal.h>

#include "common/clock.h"
#include "proxy/client/stage.h"
#include "proxy/wire/process.h"
#include "tests/unit/runner.h"

enum {
    MS = 1000000
};

static uint64_t now_ns;
static char state; /* of every stub's process */
static unsigned pings, sent[8], nsent;
static struct fy_session session;
static struct stub_client clients[3];
static struct stage stages[3]; /* each feeds the next */

uint64_t
fy_clock_ns(void)
{
    return now_ns;
}

void
fy_loop_set(struct fy_loop *of, struct fy_timer *timer, uint64_t delay_ns)
{
    ck_assert_ptr_eq(of, &session.loop);
    timer->due_ns = now_ns + delay_ns;
}

int
fy_stub_client_send(struct stub_client *client, uint32_t type,
                    const void *bytes, size_t n)
{
    (void)client;
    (void)bytes;
    ck_assert_uint_eq(type, FY_STUB_PING);
    ck_assert_uint_eq(n, 0);
    pings++;
    return 0;
}

void
fy_flow_signal(struct stage *stage, uint32_t signal)
{
    ck_assert_uint_eq(signal, SIGINT);
    ck_assert_uint_lt(nsent, sizeof sent / sizeof *sent);
    sent[nsent++] = (unsigned)(stage - stages);
}

bool
fy_process_read(int proc, const char *name, struct fy_process *out)
{
    (void)proc;
    ck_assert_str_eq(name, "/proc/77");
    *out = (struct fy_process){.pid = 77, .state = state};
    return state != 0;
}

static void
setup(void)
{
    now_ns = UINT64_C(1000) * MS;
    state = 'S';
    pings = nsent = 0;
    session = (struct fy_session){.stages = stages};
    for (int i = 0; i < 3; i++) {
        clients[i] = (struct stub_client){.pid = 77};
        stages[i] = (struct stage){
            .session = &session,
            .state = STAGE_RUNNING,
            .client = &clients[i],
            .join.feeds = i < 2 ? &stages[i + 1] : NULL,
            .next = i < 2 ? &stages[i + 1] : NULL,
        };
    }
}

static void
later(unsigned ms)
{
    now_ns += ms * (uint64_t)MS;
    if (session.order.timer.due_ns != 0 &&
        session.order.timer.due_ns <= now_ns) {
        session.order.timer.due_ns = 0;
    }
    fy_signals_release(&session);
}

START_TEST(the_last_is_first)
{
    fy_signal_take(&stages[0], SIGINT);
    fy_signal_take(&stages[1], SIGINT);
    ck_assert_uint_eq(pings, 3);
    later(0);
    ck_assert_uint_eq(nsent, 0);
    fy_signal_take(&stages[2], SIGINT); /* nobody reads it */
    ck_assert_uint_eq(nsent, 1);
    ck_assert_uint_eq(sent[0], 2);
    fy_signal_answered(&stages[2]);
    fy_signal_answered(&stages[2]);
    fy_signal_answered(&stages[1]);
    later(1);
    ck_assert_uint_eq(nsent, 3);
    ck_assert_uint_eq(sent[1], 1);
    ck_assert_uint_eq(sent[2], 0);
    ck_assert_uint_eq(session.order.n, 0);
}
END_TEST

START_TEST(a_stopped_one_is_not_waited_for)
{
    state = 'T';
    fy_signal_take(&stages[1], SIGINT);
    later(2900);
    ck_assert_uint_eq(nsent, 0);
    ck_assert_uint_eq(session.order.timer.due_ns, now_ns + 100 * (uint64_t)MS);
    later(200);
    ck_assert_uint_eq(nsent, 1);
}
END_TEST

START_TEST(one_that_is_gone_is_not_waited_for)
{
    fy_signal_take(&stages[1], SIGINT);
    stages[2].client = NULL;
    later(1);
    ck_assert_uint_eq(nsent, 1);
}
END_TEST

START_TEST(one_without_a_processor_is_waited_for)
{
    state = 'R';
    fy_signal_take(&stages[0], SIGINT);
    fy_signal_take(&stages[1], SIGINT);
    for (int i = 0; i < 10; i++) {
        later(3000);
        ck_assert_uint_eq(nsent, 0);
        /* Somebody comes to look again. */
        ck_assert_uint_gt(session.order.timer.due_ns, now_ns);
    }
    fy_signal_answered(&stages[2]);
    fy_signal_answered(&stages[2]);
    fy_signal_answered(&stages[1]);
    later(1);
    ck_assert_uint_eq(nsent, 2);
    ck_assert_uint_eq(sent[0], 1);
    ck_assert_uint_eq(sent[1], 0);
}
END_TEST

START_TEST(nor_that_without_end)
{
    state = 'R';
    fy_signal_take(&stages[0], SIGINT);
    fy_signal_take(&stages[1], SIGINT);
    later(61000);
    ck_assert_uint_eq(nsent, 2);
    ck_assert_uint_eq(sent[0], 1); /* the reader first, also then */
    ck_assert_uint_eq(sent[1], 0);
    ck_assert_uint_eq(session.order.n, 0);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("order");
    TCase *tests = tcase_create("order");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_test(tests, the_last_is_first);
    tcase_add_test(tests, a_stopped_one_is_not_waited_for);
    tcase_add_test(tests, one_that_is_gone_is_not_waited_for);
    tcase_add_test(tests, one_without_a_processor_is_waited_for);
    tcase_add_test(tests, nor_that_without_end);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
