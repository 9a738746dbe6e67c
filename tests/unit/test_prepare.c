/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mount after a stage whose changes are not known (proxy/client/prepare.c): the
 * caches time out once, and no later effect by a mount of that host has to wait. A host that
 * says nothing, or too much, makes none wait for long either.
 */
#include "config.h"

#include <check.h>
#include <string.h>

#include "common/clock.h"
#include "proxy/client/stage.h"
#include "tests/unit/nomem.h"
#include "tests/unit/runner.h"

START_TEST(test_waits_once)
{
    static struct fy_mount mounts[4];
    static struct fy_session session = {.mounts = mounts, .nmounts = 4};
    static struct stage stage;
    for (unsigned i = 0; i < 4; i++) {
        strcpy(mounts[i].path, "/mnt/a");
        mounts[i].path[5] = (char)('a' + i);
        strcpy(mounts[i].place.host, i < 3 ? "liar" : "other");
        fy_mount_set_type(&mounts[i], i == 2 ? "nfs" : "fuse.sshfs");
        mounts[i].forgets_ms = i == 2 ? 0 : 22000;
    }
    stage.session = &session;
    stage.state = STAGE_ENDED;
    stage.mount = stage.plan.mounts[0] = &mounts[0];
    stage.plan.nmounts = 1;
    ck_assert(!fy_prepare_after(&stage)); /* without an effect */
    stage.plan.effect = true;
    stage.result.ended_ns = 5;
    nomem_at(1); /* as if the host had named nothing */
    ck_assert(!fy_prepare_after(&stage));
    ck_assert(nomem_reached());
    ck_assert_uint_eq(stage.prepare.fresh_ns, UINT64_C(22000000005));
    for (unsigned i = 0; i < 4; i++) {
        ck_assert_msg(!!(mounts[i].traits & FY_MOUNT_KEEPS) == (i < 2), "%u",
                      i);
    }
}
END_TEST

static struct fy_mount mount;
static struct connection connection;
static unsigned tried;

static void
try_end(struct stage *stage)
{
    (void)stage;
    tried++;
}

static const struct fy_session_calls calls = {.try_end = try_end};
static struct fy_session session = {
    .mounts = &mount, .nmounts = 1, .calls = &calls};

/* A stage with an effect, which ended so long ago after so long. */
static void
ended(struct stage *stage, uint64_t ago_ms, uint64_t ran_ms)
{
    mount = (struct fy_mount){.path = "/mnt/a", .forgets_ms = 22000};
    fy_mount_set_type(&mount, "fuse.sshfs");
    *stage = (struct stage){
        .session = &session,
        .connection = &connection,
        .state = STAGE_ENDED,
        .mount = &mount,
        .plan = {.mounts = {&mount}, .nmounts = 1, .effect = true},
        .result = {.known = true}};
    stage->result.ended_ns = fy_clock_ns() - ago_ms * 1000000;
    stage->asked_ns = stage->result.ended_ns - ran_ms * 1000000;
    tried = 0;
}

START_TEST(test_silent_host)
{
    static struct stage stage;
    ended(&stage, 0, 0);
    stage.invocation.effect = true;
    stage.prepare.touched_open = true;
    ck_assert(fy_prepare_after(&stage));
    fy_prepare_hurry(&stage, false);
    ck_assert_int_eq(stage.prepare.refresh, REFRESH_RUNS);
    ck_assert_ptr_nonnull(stage.prepare.job);
    if (_i == 0) { /* it said nothing for so long */
        stage.prepare.heard_ns -= UINT64_C(11000000000);
    } else if (_i == 1) { /* it goes on saying something */
        stage.result.ended_ns -= UINT64_C(23000000000);
    } else { /* a signal came */
        stage.order.ending = 2;
        stage.order.due_ns = fy_clock_ns();
    }
    fy_prepare_hurry(&stage, false);
    ck_assert_int_eq(stage.prepare.refresh, REFRESH_DONE);
    ck_assert_uint_eq(tried, 1);
    ck_assert_ptr_null(stage.prepare.job);
    ck_assert_uint_eq(stage.prepare.fresh_ns,
                      stage.result.ended_ns + UINT64_C(22000000000));
    ck_assert(mount.traits & FY_MOUNT_KEEPS);
}
END_TEST

static const struct {
    uint64_t ago_ms, ran_ms;
    bool trusted; /* after the first effect, after the second */
    bool still;
} looks[] = {
    {500, 0, true, true},
    {7000, 0, true, false},
    {12000, 0, false, false},
    {12000, 12000, true, true},
};

START_TEST(test_talkative_host)
{
    static struct stage stage;
    connection.excess_ns = 0;
    for (int i = 0; i < 2; i++) {
        bool trusted = i ? looks[_i].still : looks[_i].trusted;
        ended(&stage, looks[_i].ago_ms, looks[_i].ran_ms);
        ck_assert(fy_prepare_after(&stage));
        ck_assert_uint_eq(tried, 1);
        ck_assert_uint_eq(stage.prepare.fresh_ns, 0);
        ck_assert_int_eq(!(mount.traits & FY_MOUNT_KEEPS), trusted);
    }
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("prepare");
    TCase *tests = tcase_create("prepare");
    tcase_add_test(tests, test_waits_once);
    tcase_add_loop_test(tests, test_silent_host, 0, 3);
    tcase_add_loop_test(tests, test_talkative_host, 0,
                        sizeof looks / sizeof *looks);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
