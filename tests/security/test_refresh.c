/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A proxy that lies about what its stages changed: proxy/storage/fresh.c opens, links and
 * chowns what it names, and may do that on the mount only, whatever names and
 * links lead elsewhere. The mount is a plain folder that says it is sshfs's.
 */
#include "config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "proxy/storage/fresh.h"
#include "tests/unit/runner.h"
#include "tests/unit/stage.h"

static struct fy_mount mount;

static void
setup(void)
{
    make_base("refresh");
    shell("mkdir -p $B/mnt/sub $B/mntx/sub $B/outside/sub && cd $B/mnt && "
          "ln -s ../outside up && ln -s $B/outside far && ln -s sub near && "
          "ln -s /dev dev");
    memset(&mount, 0, sizeof mount);
    snprintf(mount.path, sizeof mount.path, "%s/mnt", base);
    fy_mount_set_type(&mount, "fuse.sshfs");
}

static void
teardown(void)
{
    shell("rm -rf $B");
}

/* Whether `changed', below the base, is touched when the proxy names `told'. */
static bool
touches(const char *told, const char *changed)
{
    char path[256], other[256];
    struct stat before, after;
    const struct timespec pause = {0, 20000000}; /* the clock of ctime */
    snprintf(path, sizeof path, "%s/%s", base, told);
    snprintf(other, sizeof other, "%s/%s", base, changed);
    const char *paths[] = {path, NULL};
    ck_assert_int_eq(stat(other, &before), 0);
    nanosleep(&pause, NULL);
    (void)fy_fresh_after(&mount, paths, NULL);
    ck_assert_int_eq(stat(other, &after), 0);
    return memcmp(&before.st_ctim, &after.st_ctim, sizeof before.st_ctim) != 0;
}

START_TEST(test_paths)
{
    ck_assert(touches("mnt/sub", "mnt/sub"));
    ck_assert(touches("mnt/sub/", "mnt/sub"));
    ck_assert(touches("mnt", "mnt"));
    shell("mkdir $B/mnt/sub/below");
    ck_assert(touches("mnt/near/below", "mnt/sub/below"));

    ck_assert(!touches("mnt/../outside", "outside"));
    ck_assert(!touches("mnt/sub/../../outside/sub", "outside/sub"));
    ck_assert(!touches("mnt/sub/..", "mnt"));
    ck_assert(!touches("mnt/..", "."));
    ck_assert(!touches("mntx/sub", "mntx/sub"));
    ck_assert(!touches("outside", "outside"));
    ck_assert(!touches("mnt/up", "outside"));
    ck_assert(!touches("mnt/up/sub", "outside/sub"));
    ck_assert(!touches("mnt/far/sub", "outside/sub"));
}
END_TEST

/* Whether `changed' gets what the proxy says is the owner of `told'. */
static bool
chowns(const char *told, const char *changed)
{
    char path[256], other[256];
    struct stat before, after;
    const struct timespec pause = {0, 20000000};
    snprintf(path, sizeof path, "%s/%s", base, told);
    snprintf(other, sizeof other, "%s/%s", base, changed);
    const char *paths[] = {path, NULL};
    const struct fy_folder folder = {{path, strlen(path)},
                                     geteuid() == 0 ? 7 : getuid()};
    const struct fy_told owners = {
        .owners = true, .folders = &folder, .nfolders = 1};
    ck_assert_int_eq(stat(other, &before), 0);
    nanosleep(&pause, NULL);
    (void)fy_fresh_after(&mount, paths, &owners);
    ck_assert_int_eq(stat(other, &after), 0);
    return memcmp(&before.st_ctim, &after.st_ctim, sizeof before.st_ctim) !=
               0 &&
           after.st_uid == folder.uid;
}

/* Owners are believed of the mount's own folders, and through no link. */
START_TEST(test_owners)
{
    shell("mkdir -p $B/mnt/sub/below $B/mnt/sub/other");
    ck_assert(chowns("mnt/sub", "mnt/sub"));
    ck_assert(chowns("mnt/sub/below", "mnt/sub/below"));
    ck_assert(chowns("mnt", "mnt"));

    ck_assert(!chowns("mnt/near", "mnt/sub"));
    ck_assert(!chowns("mnt/near/other", "mnt/sub/other"));
    ck_assert(!chowns("mnt/far", "outside"));
    ck_assert(!chowns("mnt/far/sub", "outside/sub"));
    ck_assert(!chowns("mnt/up/sub", "outside/sub"));
    ck_assert(!chowns("mnt/../outside", "outside"));
    ck_assert(!chowns("mntx/sub", "mntx/sub"));
    ck_assert(!chowns("outside", "outside"));

    /* Whose owner is not told is left alone. */
    char path[256];
    struct stat before, after;
    const struct timespec pause = {0, 20000000};
    snprintf(path, sizeof path, "%s/mnt/sub/other", base);
    const char *paths[] = {path, NULL};
    const struct fy_told none = {.owners = true};
    ck_assert_int_eq(stat(path, &before), 0);
    nanosleep(&pause, NULL);
    (void)fy_fresh_after(&mount, paths, &none);
    ck_assert_int_eq(stat(path, &after), 0);
    ck_assert_mem_eq(&before.st_ctim, &after.st_ctim, sizeof before.st_ctim);
}
END_TEST

/* So many of one folder that it is read as a whole. */
START_TEST(test_crowd)
{
    static char names[64][128];
    const char *paths[65] = {NULL};
    char folder[256];
    struct stat before, after;
    for (int i = 0; i < 64; i++) {
        snprintf(names[i], sizeof names[i], "%s/mnt/up/%d", base, i);
        paths[i] = names[i];
    }
    snprintf(folder, sizeof folder, "%s/outside", base);
    shell("cd $B/outside && touch 1 2 3");
    ck_assert_int_eq(stat(folder, &before), 0);
    usleep(20000);
    (void)fy_fresh_after(&mount, paths, NULL);
    ck_assert_int_eq(stat(folder, &after), 0);
    ck_assert_mem_eq(&before.st_ctim, &after.st_ctim, sizeof before.st_ctim);
}
END_TEST

/* Where /dev/null is, a link to it is made, not only tried. */
START_TEST(test_link)
{
    char path[256], name[64];
    snprintf(name, sizeof name, "ferry-refresh-%d", (int)getpid());
    snprintf(path, sizeof path, "%s/mnt/dev/%s", base, name);
    const char *paths[] = {path, NULL};
    (void)fy_fresh_after(&mount, paths, NULL);
    snprintf(path, sizeof path, "%s/mnt/../../../../../dev/%s", base, name);
    (void)fy_fresh_after(&mount, paths, NULL);
    snprintf(path, sizeof path, "/dev/%s", name);
    ck_assert_int_ne(unlink(path), 0);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("refresh");
    TCase *tests = tcase_create("refresh");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, test_paths);
    tcase_add_test(tests, test_owners);
    tcase_add_test(tests, test_crowd);
    tcase_add_test(tests, test_link);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
