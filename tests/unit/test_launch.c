/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tools/launch.c: the environment that programs get, while threads may read it.
 */
#include "config.h"

#include <check.h>
#include <string.h>
#include <unistd.h>

#include "common/settings.h"
#include "tests/unit/runner.h"
#include "tools/launch.h"

/* Kept, so that none counts as leaked. */
static char **arrays[4];

static void
expect(char *const *found, const char *const *wanted)
{
    for (; *wanted; wanted++, found++) {
        ck_assert_ptr_nonnull(*found);
        ck_assert_msg(strncmp(*found, *wanted, strlen(*wanted)) == 0,
                      "%s, not %s", *found, *wanted);
    }
    ck_assert_ptr_null(*found);
}

START_TEST(test_environment_keeps_what_is_read)
{
    static char *user[] = {"A=1", "LD_PRELOAD=libuser.so", "B=2", NULL};
    static const char *const preloads[] = {"/x/libferry.so", "/y/libferry.so",
                                           ""};
    static const char *const wanted[][5] = {
        {"A=1", "LD_PRELOAD=libuser.so", "B=2", NULL},
        {"A=1", "LD_PRELOAD=/x/libferry.so:libuser.so", "B=2",
         FY_SETTINGS_ENV "=", NULL},
        {"A=1", "LD_PRELOAD=/y/libferry.so:libuser.so", "B=2",
         FY_SETTINGS_ENV "=", NULL},
        {"A=1", "LD_PRELOAD=libuser.so", "B=2", NULL},
    };
    struct fy_settings settings;
    fy_settings_init(&settings);
    arrays[0] = environ = user;
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(fy_launch_environment(preloads[i], &settings), 0);
        arrays[i + 1] = environ;
        for (int j = 0; j <= i + 1; j++) {
            ck_assert(j == i + 1 || arrays[j] != environ);
            expect(arrays[j], wanted[j]);
        }
    }
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("launch");
    TCase *tests = tcase_create("all");
    tcase_add_test(tests, test_environment_keeps_what_is_read);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
