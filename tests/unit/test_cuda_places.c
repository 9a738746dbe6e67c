/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Libraries that the loader does not find: in the wheels beside the program's
 * own packages, in a toolkit, beside the python3 of PATH. Each test lays out a
 * folder of its own and is a process of its own, since nothing is unloaded.
 */
#include "config.h"

#include <check.h>
#include <dlfcn.h>
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pager/cuda_places.h"

#define SONAME "libfyplaces.so.13"

static char root[64];

static int
drop(const char *path, const struct stat *status, int type, struct FTW *at)
{
    (void)status;
    (void)type;
    (void)at;
    return remove(path);
}

static void
setup(void)
{
    (void)snprintf(root, sizeof root, "/tmp/fyplaces.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(root));
    ck_assert_int_eq(unsetenv("CUDA_HOME"), 0);
    ck_assert_int_eq(unsetenv("CUDA_PATH"), 0);
    ck_assert_int_eq(setenv("PATH", "", 1), 0);
}

static void
teardown(void)
{
    (void)nftw(root, drop, 8, FTW_DEPTH | FTW_PHYS);
}

/* root/below, with the folders that lead to it. */
static const char *
place(const char *below)
{
    static char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/%s", root, below);
    for (char *at = path + strlen(root); (at = strchr(at + 1, '/'));) {
        *at = '\0';
        ck_assert(mkdir(path, 0700) == 0 || errno == EEXIST);
        *at = '/';
    }
    return path;
}

/* A copy of a small library, which nobody has loaded, at root/below. */
static void
put(const char *below)
{
    const char *build = getenv("FERRY_BUILDDIR");
    char from[PATH_MAX], block[4096];
    size_t bytes;
    (void)snprintf(from, sizeof from, "%s/tests/unit/.libs/constructor.so",
                   build == NULL ? "." : build);
    FILE *in = fopen(from, "r"), *out = fopen(place(below), "w");
    ck_assert_ptr_nonnull(in);
    ck_assert_ptr_nonnull(out);
    while ((bytes = fread(block, 1, sizeof block, in)) > 0) {
        ck_assert_uint_eq(fwrite(block, 1, bytes, out), bytes);
    }
    ck_assert_int_eq(fclose(out), 0);
    (void)fclose(in);
}

/* That the library is found, and is the one at root/below. */
static void
expect(const char *below)
{
    struct link_map *map;
    struct stat found, wanted;
    void *handle = fy_cuda_places_open(SONAME);
    ck_assert_ptr_nonnull(handle);
    ck_assert_int_eq(dlinfo(handle, RTLD_DI_LINKMAP, &map), 0);
    ck_assert_int_eq(stat(map->l_name, &found), 0);
    ck_assert_int_eq(stat(place(below), &wanted), 0);
    ck_assert_uint_eq(found.st_ino, wanted.st_ino);
}

START_TEST(test_none)
{
    put("somewhere/" SONAME);
    ck_assert_ptr_null(fy_cuda_places_open(SONAME));
}
END_TEST

/* The program's own wheel before a toolkit's: it may load that later. */
START_TEST(test_beside_program)
{
    static const char *const wheels[] = {
        "v/lib/python3.9/site-packages/nvidia/cu13/lib/" SONAME,
        "v/lib/python3.9/site-packages/nvidia/cublas/lib/" SONAME,
        "v/lib/python3.9/site-packages/nvidia/cuda_nvrtc/lib/" SONAME};
    put("v/lib/python3.9/site-packages/numpy/core.so");
    put(wheels[_i]);
    put("toolkit/lib64/" SONAME);
    ck_assert_int_eq(setenv("CUDA_HOME", place("toolkit"), 1), 0);
    ck_assert_ptr_nonnull(
        dlopen(place("v/lib/python3.9/site-packages/numpy/core.so"), RTLD_NOW));
    expect(wheels[_i]);
}
END_TEST

START_TEST(test_toolkit)
{
    static const char *const names[] = {"CUDA_HOME", "CUDA_PATH"};
    put("toolkit/lib64/" SONAME);
    ck_assert_int_eq(setenv(names[_i], "toolkit", 1), 0);
    ck_assert_ptr_null(fy_cuda_places_open(SONAME)); /* where, nobody says */
    ck_assert_int_eq(setenv(names[_i], place("toolkit"), 1), 0);
    expect("toolkit/lib64/" SONAME);
}
END_TEST

START_TEST(test_by_path)
{
    char path[PATH_MAX];
    put("v/lib/python3.9/dist-packages/nvidia/cu13/lib/" SONAME);
    (void)snprintf(path, sizeof path, ":%s/none:%s/v/bin:", root, root);
    ck_assert_int_eq(setenv("PATH", path, 1), 0);
    (void)place("v/bin/python3");
    ck_assert_ptr_null(fy_cuda_places_open(SONAME)); /* no interpreter there */
    ck_assert_int_eq(symlink("/bin/sh", place("v/bin/python3")), 0);
    expect("v/lib/python3.9/dist-packages/nvidia/cu13/lib/" SONAME);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("cuda_places");
    TCase *tcase = tcase_create("all");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, test_none);
    tcase_add_loop_test(tcase, test_beside_program, 0, 3);
    tcase_add_loop_test(tcase, test_toolkit, 0, 2);
    tcase_add_test(tcase, test_by_path);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
