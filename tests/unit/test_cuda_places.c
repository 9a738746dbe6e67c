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
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pager/device/cuda/places.h"
#include "tests/unit/folder.h"
#include "tests/unit/possible.h"
#include "tests/unit/runner.h"

#define SONAME "libfyplaces.so.13"

static void
setup(void)
{
    folder_setup();
    ck_assert_int_eq(unsetenv("CUDA_HOME"), 0);
    ck_assert_int_eq(unsetenv("CUDA_PATH"), 0);
    ck_assert_int_eq(setenv("PATH", "", 1), 0);
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
    ck_assert_int_eq(stat(folder_place(below), &wanted), 0);
    ck_assert_uint_eq(found.st_ino, wanted.st_ino);
}

START_TEST(test_none)
{
    folder_put("somewhere/" SONAME);
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
    folder_put("v/lib/python3.9/site-packages/numpy/core.so");
    folder_put(wheels[_i]);
    folder_put("toolkit/lib64/" SONAME);
    ck_assert_int_eq(setenv("CUDA_HOME", folder_place("toolkit"), 1), 0);
    ck_assert_ptr_nonnull(dlopen(
        folder_place("v/lib/python3.9/site-packages/numpy/core.so"), RTLD_NOW));
    expect(wheels[_i]);
}
END_TEST

START_TEST(test_toolkit)
{
    static const char *const names[] = {"CUDA_HOME", "CUDA_PATH"};
    folder_put("toolkit/lib64/" SONAME);
    ck_assert_int_eq(setenv(names[_i], "toolkit", 1), 0);
    ck_assert_ptr_null(fy_cuda_places_open(SONAME)); /* where, nobody says */
    ck_assert_int_eq(setenv(names[_i], folder_place("toolkit"), 1), 0);
    expect("toolkit/lib64/" SONAME);
}
END_TEST

START_TEST(test_by_path)
{
    char path[PATH_MAX];
    folder_put("v/lib/python3.9/dist-packages/nvidia/cu13/lib/" SONAME);
    (void)snprintf(path, sizeof path, ":%s/none:%s/v/bin:", folder_root,
                   folder_root);
    ck_assert_int_eq(setenv("PATH", path, 1), 0);
    (void)folder_place("v/bin/python3");
    ck_assert_ptr_null(fy_cuda_places_open(SONAME)); /* no interpreter there */
    ck_assert_int_eq(symlink("/bin/sh", folder_place("v/bin/python3")), 0);
    expect("v/lib/python3.9/dist-packages/nvidia/cu13/lib/" SONAME);
}
END_TEST

/* Folders and files in which anybody may write; a sticky folder above is fine,
 * and a pipe of that name is not waited for. */
START_TEST(test_of_others)
{
    static const char *const parts[] = {"toolkit", "toolkit/lib64",
                                        "toolkit/lib64/" SONAME};
    static const mode_t modes[] = {0777, 01777, 0666};
    folder_put("toolkit/lib64/" SONAME);
    ck_assert_int_eq(symlink("toolkit", folder_place("link")), 0);
    ck_assert_int_eq(setenv("CUDA_PATH", folder_place("link"), 1), 0);
    ck_assert_int_eq(chmod(folder_place(parts[_i]), modes[_i]), 0);
    ck_assert_ptr_null(fy_cuda_places_open(SONAME));
    ck_assert_int_eq(chmod(folder_place(parts[_i]), _i == 0 ? 01777 : 0755), 0);
    expect("toolkit/lib64/" SONAME);
}
END_TEST

START_TEST(test_pipe)
{
    (void)folder_place("toolkit/lib64/");
    ck_assert_int_eq(mkfifo(folder_place("toolkit/lib64/" SONAME), 0600), 0);
    ck_assert_int_eq(setenv("CUDA_HOME", folder_place("toolkit"), 1), 0);
    ck_assert_ptr_null(fy_cuda_places_open(SONAME));
}
END_TEST

/* Another user's, below a folder of ours; the owner of the toolkit that was named
 * is trusted, that of a python3 somewhere is not. Only root can lay that out. */
START_TEST(test_owners)
{
    const uid_t nobody = 65534;
    if (geteuid() != 0) {
        skip_test("not root");
        return;
    }
    folder_put("toolkit/lib64/" SONAME);
    ck_assert_int_eq(setenv("CUDA_HOME", folder_place("toolkit"), 1), 0);
    ck_assert_int_eq(chown(folder_place("toolkit/lib64"), nobody, 0), 0);
    folder_put("v/lib/python3.9/site-packages/nvidia/cu13/lib/" SONAME);
    ck_assert_int_eq(symlink("/bin/sh", folder_place("v/bin/python3")), 0);
    ck_assert_int_eq(setenv("PATH", folder_place("v/bin"), 1), 0);
    ck_assert_int_eq(chown(folder_place("v/bin"), nobody, 0), 0);
    ck_assert_int_eq(chown(folder_place("v/lib"), nobody, 0), 0);
    ck_assert_int_eq(chown(folder_place("v"), nobody, 0), 0);
    ck_assert_ptr_null(fy_cuda_places_open(SONAME));
    ck_assert_int_eq(chown(folder_place("toolkit"), nobody, 0), 0);
    expect("toolkit/lib64/" SONAME);
}
END_TEST

/* Whether what lies in /tmp can be safe at all: root's may be an unknown user's
 * in a name space. */
static bool
has_safe_folders(void)
{
    struct stat top, tmp;
    return stat("/", &top) == 0 && stat("/tmp", &tmp) == 0 &&
           (top.st_uid == 0 || top.st_uid == geteuid()) &&
           (tmp.st_uid == 0 || tmp.st_uid == geteuid()) &&
           (!(top.st_mode & S_IWOTH) || (top.st_mode & S_ISVTX)) &&
           (!(tmp.st_mode & S_IWOTH) || (tmp.st_mode & S_ISVTX));
}

int
main(void)
{
    if (!has_safe_folders()) {
        skip_test("/ or /tmp is another user's");
        return 77;
    }
    Suite *suite = suite_create("cuda_places");
    TCase *tcase = tcase_create("all");
    tcase_add_checked_fixture(tcase, setup, folder_teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, test_none);
    tcase_add_loop_test(tcase, test_beside_program, 0, 3);
    tcase_add_loop_test(tcase, test_toolkit, 0, 2);
    tcase_add_test(tcase, test_by_path);
    tcase_add_loop_test(tcase, test_of_others, 0, 3);
    tcase_add_test(tcase, test_pipe);
    tcase_add_test(tcase, test_owners);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
