/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that uses CUDA itself, or may: ferry does not start the driver before
 * it, so that the program's choice of devices counts and its forked children can
 * use CUDA; and of two libraries with one name ferry takes the program's, since
 * that name is then the program's, too. On the fake driver; each test is a process
 * of its own.
 */
#include "config.h"

#include <check.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pager/device/cuda/library.h"
#include "pager/execute/pool.h"
#include "tests/unit/cuda_rig.h"
#include "tests/unit/folder.h"
#include "tests/unit/runner.h"

static char note[FY_POOL_NOTE_BYTES];
static struct fy_pool pool;

static void
start(bool early)
{
    const struct fy_device_ops *ops = fy_device_find("cuda");
    ops->early(early);
    ck_assert_int_eq(fy_pool_start(&pool, ops, 0), 0);
}

static bool
is_opened(void)
{
    struct fy_lease lease;
    if (fy_pool_take(&pool, 1 << 20, 1 << 20, INFINITY, note, &lease) !=
        FY_REASON_NONE) {
        return false;
    }
    fy_pool_release(&pool, &lease);
    return true;
}

static int
call(const char *name, int *out)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    int (*init)(unsigned), (*count)(int *);
    if (library == NULL) {
        return -1;
    }
    if (out == NULL) {
        *(void **)&init = dlsym(library, name);
        return init(0);
    }
    *(void **)&count = dlsym(library, name);
    return count(out);
}

/* A forked child asks for two of the three devices, and gets them. */
static int
use_in_child(void)
{
    int status, count = 0;
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        (void)setenv("CUDA_VISIBLE_DEVICES", "2,1", 1);
        if (call("cuInit", NULL) != 0) {
            _exit(1);
        }
        _exit(call("cuDeviceGetCount", &count) != 0 || count != 2 ? 2 : 0);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return status;
}

START_TEST(test_program_with_driver_starts_it)
{
    int count = 0;
    ck_assert_ptr_nonnull(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL));
    start(false);
    for (int i = 0; i < 10; i++) {
        ck_assert(!is_opened());
    }
    ck_assert_msg(strstr(note, "--early") != NULL, "%s", note);
    ck_assert_int_eq(use_in_child(), 0);
    ck_assert_int_eq(setenv("CUDA_VISIBLE_DEVICES", "1", 1), 0);
    ck_assert_int_eq(call("cuInit", NULL), 0);
    ck_assert_int_eq(call("cuDeviceGetCount", &count), 0);
    ck_assert_int_eq(count, 1);
    ck_assert_msg(is_opened(), "%s", note);
}
END_TEST

/* The packages of the virtual environment, of PYTHONPATH, of the user. */
static const struct place {
    const char *variable, *value, *file;
} places[] = {
    {NULL, "", "v/lib/python3.9/site-packages/torch/lib/libtorch_cuda.so"},
    {"VIRTUAL_ENV", "w", "w/lib/python3.9/site-packages/cupy/__init__.py"},
    {"PYTHONPATH", "p", "p/torch/lib/libtorch_cuda.so"},
    {"HOME", "h", "h/.local/lib/python3.11/site-packages/pycuda/driver.py"},
};

START_TEST(test_python_with_packages_of_cuda_starts_it)
{
    char value[PATH_MAX];
    const struct place *p = &places[_i];
    folder_put("v/lib/python3.9/site-packages/numpy/core.so");
    ck_assert_ptr_nonnull(dlopen(
        folder_place("v/lib/python3.9/site-packages/numpy/core.so"), RTLD_NOW));
    folder_put(p->file);
    if (p->variable != NULL) {
        (void)snprintf(value, sizeof value, "/none:%s", folder_place(p->value));
        ck_assert_int_eq(setenv(p->variable,
                                strcmp(p->variable, "PYTHONPATH") == 0
                                    ? value
                                    : value + strlen("/none:"),
                                1),
                         0);
    }
    start(false);
    ck_assert(!is_opened());
    ck_assert_msg(strstr(note, "is installed") != NULL, "%s", note);
    ck_assert_int_eq(use_in_child(), 0);
    ck_assert_int_eq(call("cuInit", NULL), 0);
    ck_assert_msg(is_opened(), "%s", note);
}
END_TEST

/* Torch for processors only, or none: no sign of CUDA. */
START_TEST(test_python_without_such_packages_is_not_waited_for)
{
    folder_put("v/lib/python3.9/site-packages/numpy/core.so");
    folder_put("v/lib/python3.9/site-packages/torch/lib/libtorch_cpu.so");
    ck_assert_ptr_nonnull(dlopen(
        folder_place("v/lib/python3.9/site-packages/numpy/core.so"), RTLD_NOW));
    start(false);
    ck_assert_msg(is_opened() || strstr(note, "is installed") != NULL, "%s",
                  note);
    ck_assert_ptr_null(strstr(note, "torch"));
}
END_TEST

/* A card for one process at a time, and one for none. */
START_TEST(test_exclusive_card_is_left_to_the_program)
{
    int (*retain)(void **, int);
    void *context;
    (void)setenv("FAKECUDA_MODE", "3", 1);
    start(false);
    ck_assert(!is_opened());
    ck_assert_msg(strstr(note, "EXCLUSIVE_PROCESS") != NULL, "%s", note);
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    *(void **)&retain = dlsym(library, "cuDevicePrimaryCtxRetain");
    ck_assert_int_eq(retain(&context, 0), 0);
    ck_assert_msg(is_opened(), "%s", note);
}
END_TEST

START_TEST(test_exclusive_card_early)
{
    (void)setenv("FAKECUDA_MODE", "3", 1);
    start(true);
    ck_assert_msg(is_opened(), "%s", note);
}
END_TEST

START_TEST(test_prohibited_card)
{
    (void)setenv("FAKECUDA_MODE", "2", 1);
    start(_i);
    ck_assert(!is_opened());
    ck_assert_msg(strstr(note, "PROHIBITED") != NULL, "%s", note);
    ck_assert(fy_pool_is_closed(&pool));
}
END_TEST

/* The fake cuBLAS on the loader's path, as a system's. */
static const char *
system_library(void)
{
    static char path[PATH_MAX];
    const char *build = getenv("FERRY_BUILDDIR");
    (void)snprintf(path, sizeof path, "%s/tests/fakecuda/.libs/libcublas.so.13",
                   build == NULL ? "." : build);
    return path;
}

/* That ferry takes the library at `path', and that by its name no other comes. */
static void
expect(const char *path)
{
    struct stat wanted, taken;
    Dl_info info;
    bool loaded;
    void *function = fy_cuda_function(13000, "cublasCreate_v2", &loaded);
    ck_assert_ptr_nonnull(function);
    ck_assert_int_ne(dladdr(function, &info), 0);
    ck_assert_int_eq(stat(path, &wanted), 0);
    ck_assert_int_eq(stat(info.dli_fname, &taken), 0);
    ck_assert_msg(wanted.st_ino == taken.st_ino, "%s", info.dli_fname);
    void *again = dlopen("libcublas.so.13", RTLD_NOW | RTLD_LOCAL);
    ck_assert_ptr_nonnull(again);
    ck_assert_ptr_eq(dlsym(again, "cublasCreate_v2"), function);
}

START_TEST(test_library_of_the_loader)
{
    expect(system_library());
}
END_TEST

START_TEST(test_library_beside_the_program_before_the_system_s)
{
    static const char below[] =
        "v/lib/python3.9/site-packages/nvidia/cublas/lib/libcublas.so.13";
    folder_put("v/lib/python3.9/site-packages/numpy/core.so");
    folder_copy(system_library(), below);
    ck_assert_ptr_nonnull(dlopen(
        folder_place("v/lib/python3.9/site-packages/numpy/core.so"), RTLD_NOW));
    expect(folder_place(below));
}
END_TEST

START_TEST(test_library_that_the_program_has_loaded_before_all)
{
    static const char own[] = "own/libcublas.so.13";
    folder_put("v/lib/python3.9/site-packages/numpy/core.so");
    folder_copy(
        system_library(),
        "v/lib/python3.9/site-packages/nvidia/cublas/lib/libcublas.so.13");
    folder_copy(system_library(), own);
    ck_assert_ptr_nonnull(dlopen(
        folder_place("v/lib/python3.9/site-packages/numpy/core.so"), RTLD_NOW));
    ck_assert_ptr_nonnull(dlopen(folder_place(own), RTLD_NOW | RTLD_LOCAL));
    expect(folder_place(own));
}
END_TEST

START_TEST(test_early_does_not_wait)
{
    ck_assert_ptr_nonnull(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL));
    start(true);
    ck_assert_msg(is_opened(), "%s", note);
}
END_TEST

int
main(int argc, char **argv)
{
    (void)argc;
    cuda_rig_start(argv);
    (void)setenv("FAKECUDA_DEVICES", "3", 1);
    (void)unsetenv("CUDA_VISIBLE_DEVICES");
    Suite *suite = suite_create("cuda_start");
    TCase *tests = tcase_create("cuda_start");
    tcase_add_checked_fixture(tests, folder_setup, folder_teardown);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, test_program_with_driver_starts_it);
    tcase_add_loop_test(tests, test_python_with_packages_of_cuda_starts_it, 0,
                        4);
    tcase_add_test(tests, test_python_without_such_packages_is_not_waited_for);
    tcase_add_test(tests, test_early_does_not_wait);
    tcase_add_test(tests, test_exclusive_card_is_left_to_the_program);
    tcase_add_test(tests, test_exclusive_card_early);
    tcase_add_loop_test(tests, test_prohibited_card, 0, 2);
    tcase_add_test(tests, test_library_of_the_loader);
    tcase_add_test(tests, test_library_beside_the_program_before_the_system_s);
    tcase_add_test(tests, test_library_that_the_program_has_loaded_before_all);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
