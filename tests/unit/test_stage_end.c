/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a stage at the session (proxy/client/stage_end.c): its stub gets one last
 * word, when the mount shows what it did. The stub and the mount are the test's.
 */
#include "config.h"

#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/client/stage.h"
#include "tests/unit/runner.h"

static struct fy_session session;
static struct stub_client client;
static struct stage stage;
static struct fy_stub_exit last; /* that the stub was told */
static unsigned words, finished, hurried;
static enum {
    NOTHING,   /* there is nothing to refresh: told at once, by a nested call */
    SOMETHING, /* a job refreshes it */
    NO_CACHE,
} mount;

bool
fy_prepare_after(struct stage *of)
{
    if (mount == NO_CACHE) {
        return false;
    }
    of->prepare.refresh = REFRESH_RUNS;
    if (mount == NOTHING) {
        of->prepare.refresh = REFRESH_DONE;
        fy_stage_try_end(of);
    }
    return true;
}

void
fy_prepare_hurry(struct stage *of, bool now)
{
    (void)of;
    hurried += now;
}

int
fy_stub_client_send(struct stub_client *to, uint32_t type, const void *bytes,
                    size_t n)
{
    ck_assert_ptr_eq(to, &client);
    ck_assert_uint_eq(type, FY_STUB_EXIT);
    ck_assert_uint_eq(n, sizeof(struct fy_stub_exit));
    memcpy(&last, bytes, sizeof last);
    words++;
    return 0;
}

void
fy_stub_client_finish(struct stub_client *of)
{
    ck_assert_ptr_eq(of, &client);
    finished++;
}

int
fy_flow_whole(const struct stage *of)
{
    (void)of;
    return 0;
}

void
fy_loop_set(struct fy_loop *of, struct fy_timer *timer, uint64_t delay_ns)
{
    (void)of, (void)timer, (void)delay_ns;
}

void
fy_loop_unset(struct fy_loop *of, struct fy_timer *timer)
{
    (void)of, (void)timer;
}

void
fy_link_wake(struct fy_session *of)
{
    (void)of;
}

void
fy_wire_cancel(struct fy_wire *wire, int32_t stream)
{
    (void)wire, (void)stream;
}

void
fy_part_ended(struct stage *part)
{
    (void)part;
}

int
fy_part_flush(struct stage *part)
{
    (void)part;
    return 0;
}

bool
fy_part_may_send(const struct stage *part)
{
    (void)part;
    return true;
}

void
fy_part_stop(struct stage *part, int status)
{
    (void)part, (void)status;
}

void
fy_parts_end(struct stage *whole)
{
    (void)whole;
}

void
fy_parts_fail(struct stage *whole, unsigned reason, const char *why)
{
    (void)whole, (void)reason, (void)why;
}

void
fy_parts_name(const struct stage *whole, char *out, size_t capacity)
{
    (void)whole, (void)out, (void)capacity;
}

static void
setup(void)
{
    words = finished = hurried = 0;
    stage = (struct stage){.session = &session,
                           .client = &client,
                           .state = STAGE_ENDED,
                           .files = {-1, -1, -1},
                           .result = {.known = true}};
}

static void
check_ended(unsigned times)
{
    ck_assert_uint_eq(words, times);
    ck_assert_uint_eq(finished, times);
    ck_assert_int_eq(stage.state == STAGE_DONE, times == 1);
}

START_TEST(it_ends_once)
{
    mount = NO_CACHE;
    fy_stage_try_end(&stage);
    check_ended(1);
}
END_TEST

START_TEST(with_nothing_to_refresh_it_ends_once)
{
    mount = NOTHING;
    fy_stage_try_end(&stage);
    check_ended(1);
}
END_TEST

START_TEST(it_ends_when_its_mount_is_fresh)
{
    mount = SOMETHING;
    fy_stage_try_end(&stage);
    fy_stage_try_end(&stage);
    check_ended(0);
    stage.prepare.refresh = REFRESH_DONE;
    fy_stage_try_end(&stage);
    check_ended(1);
}
END_TEST

/* Nothing more is waited for: a second signal came while the mount was looked at. */
START_TEST(given_up_it_ends_as_it_ended)
{
    mount = SOMETHING;
    fy_stage_try_end(&stage);
    stage.order.ending = SIGINT;
    stage.result.status = 3;
    fy_stage_give_up(&stage);
    check_ended(1);
    ck_assert_uint_eq(hurried, 1);
    ck_assert_int_eq(last.signal, 0);
    ck_assert_int_eq(last.status, 3);
}
END_TEST

/* What reads its output has ended, and waits for the end of what feeds it. */
START_TEST(given_up_it_lets_its_reader_end)
{
    struct stage feeder = {.session = &session,
                           .state = STAGE_RUNNING,
                           .prepare.refresh = REFRESH_DONE,
                           .order.ending = SIGTERM,
                           .join.feeds = &stage};
    mount = NO_CACHE;
    stage.join.fed_by = &feeder;
    stage.result.feeder_ended = true;
    fy_stage_try_end(&stage);
    check_ended(0);
    fy_stage_give_up(&feeder);
    check_ended(1);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("stage_end");
    TCase *tests = tcase_create("stage_end");
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_test(tests, it_ends_once);
    tcase_add_test(tests, with_nothing_to_refresh_it_ends_once);
    tcase_add_test(tests, it_ends_when_its_mount_is_fresh);
    tcase_add_test(tests, given_up_it_ends_as_it_ended);
    tcase_add_test(tests, given_up_it_lets_its_reader_end);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
