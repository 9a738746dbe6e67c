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

/* Folders and files in which anybody may write; a sticky folder above is fine,
 * and a pipe of that name is not waited for. */
START_TEST(test_of_others)
{
    static const char *const parts[] = {"toolkit", "toolkit/lib64",
                                        "toolkit/lib64/" SONAME};
    static const mode_t modes[] = {0777, 01777, 0666};
    put("toolkit/lib64/" SONAME);
    ck_assert_int_eq(symlink("toolkit", place("link")), 0);
    ck_assert_int_eq(setenv("CUDA_PATH", place("link"), 1), 0);
    ck_assert_int_eq(chmod(place(parts[_i]), modes[_i]), 0);
    ck_assert_ptr_null(fy_cuda_places_open(SONAME));
    ck_assert_int_eq(chmod(place(parts[_i]), _i == 0 ? 01777 : 0755), 0);
    expect("toolkit/lib64/" SONAME);
}
END_TEST

START_TEST(test_pipe)
{
    (void)place("toolkit/lib64/");
    ck_assert_int_eq(mkfifo(place("toolkit/lib64/" SONAME), 0600), 0);
    ck_assert_int_eq(setenv("CUDA_HOME", place("toolkit"), 1), 0);
    ck_assert_ptr_null(fy_cuda_places_open(SONAME));
}
END_TEST

/* Another user's, below a folder of ours; the owner of the toolkit that was named
 * is trusted, that of a python3 somewhere is not. Only root can lay that out. */
START_TEST(test_owners)
{
    const uid_t nobody = 65534;
    if (geteuid() != 0) {
        return;
    }
    put("toolkit/lib64/" SONAME);
    ck_assert_int_eq(setenv("CUDA_HOME", place("toolkit"), 1), 0);
    ck_assert_int_eq(chown(place("toolkit/lib64"), nobody, 0), 0);
    put("v/lib/python3.9/site-packages/nvidia/cu13/lib/" SONAME);
    ck_assert_int_eq(symlink("/bin/sh", place("v/bin/python3")), 0);
    ck_assert_int_eq(setenv("PATH", place("v/bin"), 1), 0);
    ck_assert_int_eq(chown(place("v/bin"), nobody, 0), 0);
    ck_assert_int_eq(chown(place("v/lib"), nobody, 0), 0);
    ck_assert_int_eq(chown(place("v"), nobody, 0), 0);
    ck_assert_ptr_null(fy_cuda_places_open(SONAME));
    ck_assert_int_eq(chown(place("toolkit"), nobody, 0), 0);
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
        (void)puts("skipped: / or /tmp is another user's");
        return 77;
    }
    Suite *suite = suite_create("cuda_places");
    TCase *tcase = tcase_create("all");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, test_none);
    tcase_add_loop_test(tcase, test_beside_program, 0, 3);
    tcase_add_loop_test(tcase, test_toolkit, 0, 2);
    tcase_add_test(tcase, test_by_path);
    tcase_add_loop_test(tcase, test_of_others, 0, 3);
    tcase_add_test(tcase, test_pipe);
    tcase_add_test(tcase, test_owners);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
