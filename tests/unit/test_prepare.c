/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mount after a stage whose changes are not known (proxy/client/prepare.c): the
 * caches time out once, and no later effect by a mount of that host has to wait.
 */
#include "config.h"

#include <check.h>
#include <string.h>

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

int
main(void)
{
    Suite *suite = suite_create("prepare");
    TCase *tests = tcase_create("prepare");
    tcase_add_test(tests, test_waits_once);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
