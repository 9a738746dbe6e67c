/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA device in trouble, on the fake driver: every call of the driver and
 * of the libraries fails once by number, memory runs out, drivers are missing or
 * old. Whatever happens, there is a status and a text, results are right or
 * refused, and nothing hangs, crashes or is left behind.
 */
#include "config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "pager/device/cuda/library.h"
#include "tests/unit/cuda_rig.h"
#include "tests/unit/cuda_run.h"
#include "tests/unit/possible.h"
#include "tests/unit/runner.h"

/* Everything made and not destroyed, as the fake has counted. */
static unsigned long
left_behind(void)
{
    static const char *const pairs[][2] = {
        {"cuMemAlloc_v2", "cuMemFree_v2"},
        {"cuMemCreate", "cuMemRelease"},
        {"cuMemMap", "cuMemUnmap"},
        {"cuMemAddressReserve", "cuMemAddressFree"},
        {"cuMemHostAlloc", "cuMemFreeHost"},
        {"cuEventCreate", "cuEventDestroy_v2"},
        {"cuStreamCreate", "cuStreamDestroy_v2"},
        {"cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRelease_v2"},
        {"cublasCreate_v2", "cublasDestroy_v2"},
        {"cusolverDnCreate", "cusolverDnDestroy"},
    };
    unsigned long left = 0;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        unsigned long made = cuda_count(pairs[i][0]);
        unsigned long gone = cuda_count(pairs[i][1]);
        left += made > gone ? made - gone : 0;
    }
    return left;
}

/* Exit statuses of a child that has run the call. */
enum {
    RIGHT,
    REFUSED,
    WRONG = 10,
    NO_TEXT,
    STRANGE_STATUS,
    LEFT_BEHIND,
    FAULT,
};

static int
run_once(void)
{
    struct cuda_run run;
    if (cuda_run_begin(&run, CUDA_RUN_BYTES)) {
        cuda_run_enqueue(&run, true);
    }
    cuda_run_drain(&run);
    int outcome = run.status == 0 ? RIGHT : REFUSED;
    if (run.status == 0 && (run.info != 0 || !cuda_run_is_right(&run, 2))) {
        outcome = WRONG;
    }
    if (run.status != 0 && run.ops->error_text(run.device)[0] == '\0') {
        outcome = NO_TEXT;
    }
    if (run.status != 0 && run.status != FY_ERR_DEVICE &&
        run.status != FY_ERR_NOFIT && run.status != FY_ERR_NOMEM &&
        run.status != FY_ERR_NOENT && run.status != FY_ERR_UNSUPPORTED) {
        outcome = STRANGE_STATUS;
    }
    cuda_run_end(&run);
    if (outcome <= REFUSED && cuda_faults() > 0) {
        outcome = FAULT;
    }
    unsigned long left = left_behind();
    struct fy_device *other;
    int again = run.ops->open(CUDA_RUN_BYTES, &other);
    bool lost = again == FY_ERR_DEVICE &&
                strstr(run.ops->error_text(NULL), "failed before") != NULL;
    if (again == 0) {
        run.ops->close(other);
    }
    /* A stream whose end failed leaves an event, too, and memory that cannot
     * be unmapped its addresses; memory stays in a context that cannot be
     * entered again; a lost one is left. */
    if (outcome <= REFUSED && !lost && left > 4) {
        outcome = LEFT_BEHIND;
    }
    return outcome;
}

static int
count_calls(void)
{
    int outcome = run_once();
    unsigned long calls = cuda_count("calls");
    return outcome != RIGHT ? 0 : calls < 250 ? (int)calls : 250;
}

static const int codes[] = {0, 2, 1};

/* Returns the distance of the calls that fail: larger for ./check, and with
 * ThreadSanitizer, which is twenty times as slow. */
static int
step(void)
{
#ifdef __SANITIZE_THREAD__
    return 7;
#else
    const char *tier = getenv("FERRY_TEST_TIER");
    return tier && strcmp(tier, "edit") == 0 ? 7 : 1;
#endif
}

/* The N-th call of all fails, for every CUDA_RUN_N: as a lost context, no memory, and a
 * refused argument. */
START_TEST(test_every_call_fails)
{
    (void)setenv("FAKECUDA_DELAY", "5", 1); /* there are hundreds of runs */
    int calls = cuda_in_child(NULL, NULL, count_calls), refused = 0;
    ck_assert_int_gt(calls, 50);
    for (int at = 1 + _i % step(); at <= calls; at += step()) {
        char value[32];
        (void)snprintf(value, sizeof value, "%d:%d", at, codes[_i]);
        int outcome = cuda_in_child("FAKECUDA_FAIL_ANY", value, run_once);
        ck_assert_msg(outcome == RIGHT || outcome == REFUSED,
                      "call %d of %d failing with %d: outcome %d", at, calls,
                      codes[_i], outcome);
        refused += outcome == REFUSED;
    }
    ck_assert_int_gt(refused, calls / step() / 8);
}
END_TEST

START_TEST(test_operations_fail_late)
{
    for (int at = 1; at <= 30; at++) {
        char value[32];
        (void)snprintf(value, sizeof value, "%d", at);
        int outcome = cuda_in_child("FAKECUDA_FAIL_ASYNC", value, run_once);
        ck_assert_msg(outcome == RIGHT || outcome == REFUSED,
                      "operation %d: outcome %d", at, outcome);
        if (at < 4) {
            ck_assert_int_eq(outcome, REFUSED);
        }
    }
}
END_TEST

enum {
    ENTRIES = 100 /* into the context, before it cannot be entered any more */
};

/* Closes a device while its budget's thread is in the driver. */
static int
close_while_returning(void)
{
    static const char push[] = "cuCtxPushCurrent_v2";
    struct cuda_run run;
    if (!cuda_run_begin(&run, CUDA_RUN_BYTES)) {
        return REFUSED;
    }
    const struct fy_device_ops *ops = run.ops;
    ops->free(run.device, run.a);
    ops->free(run.device, run.c);
    ops->stream_destroy(run.in);
    ops->stream_destroy(run.compute);
    ops->stream_destroy(run.out);
    ops->event_destroy(run.copied);
    ops->event_destroy(run.computed);
    for (int i = 0; i < 5000 && cuda_count("cuMemUnmap") == 0; i++) {
        (void)usleep(2000);
    }
    while (cuda_count(push) < ENTRIES &&
           ops->event_create(run.device, &run.copied) == 0) {
        if (cuda_count(push) < ENTRIES) {
            ops->event_destroy(run.copied);
        }
    }
    int outcome = cuda_count(push) == ENTRIES ? RIGHT : STRANGE_STATUS;
    ops->close(run.device);
    free(run.host_a);
    free(run.host_c);
    return cuda_count("refused") == 0 ? outcome : LEFT_BEHIND;
}

/* The context cannot be entered any more when the device is closed: the budget's thread
 * ends before the context and the device's locks do. */
START_TEST(test_close_without_context)
{
    char value[64];
    (void)setenv("FAKECUDA_FIRST", "cuMemUnmap:200000", 1);
    (void)snprintf(value, sizeof value, "cuCtxPushCurrent_v2:%d+:2",
                   ENTRIES + 1);
    ck_assert_int_eq(
        cuda_in_child("FAKECUDA_FAIL", value, close_while_returning), RIGHT);
}
END_TEST

/* --- errors --- */

START_TEST(test_errors_stay_with_their_stream)
{
    struct cuda_run run;
    ck_assert(cuda_run_begin(&run, CUDA_RUN_BYTES));
    const struct fy_device_ops *ops = run.ops;
    ck_assert_int_eq(cuda_run_gemm(&run, 1),
                     0); /* lda < n: fails when issued */
    ck_assert_int_eq(ops->event_record(run.compute, run.computed), 0);
    ck_assert_int_eq(ops->event_wait(run.out, run.computed), 0);
    struct fy_copy c = cuda_run_copy(FY_TO_HOST, run.host_c, run.c);
    run.host_c[0] = 77;
    ck_assert_int_eq(ops->copy(run.out, &c), 0);
    ck_assert_int_eq(ops->event_sync(run.computed), FY_ERR_DEVICE);
    ck_assert_int_eq(ops->stream_sync(run.out), FY_ERR_DEVICE);
    ck_assert_double_eq(run.host_c[0], 77); /* it was skipped */
    ck_assert_ptr_nonnull(strstr(ops->error_text(run.device), "cuBLAS"));
    ck_assert_int_eq(ops->stream_sync(run.compute), FY_ERR_DEVICE);
    ck_assert_int_eq(ops->stream_sync(run.compute), 0); /* told once */
    run.host_c[0] = 0;
    cuda_run_enqueue(&run, true);
    cuda_run_drain(&run);
    ck_assert_int_eq(run.status, 0);
    ck_assert(cuda_run_is_right(&run, 2));
    ck_assert_int_eq(run.info, 0);
    cuda_run_end(&run);
    ck_assert_uint_eq(left_behind(), 0);
}
END_TEST

/* A matrix that has no factor says so in the integer, not as an error. */
START_TEST(test_info_comes_back)
{
    struct cuda_run run;
    ck_assert(cuda_run_begin(&run, CUDA_RUN_BYTES));
    const struct fy_device_ops *ops = run.ops;
    int64_t infos[100];
    for (int i = 0; i < CUDA_RUN_N; i++) {
        run.host_c[(CUDA_RUN_N + 1) * i + i] = i == 4 ? -1 : 1;
    }
    for (int i = 0; i < 100; i++) { /* more than are kept on their way */
        struct fy_copy c = cuda_run_copy(FY_TO_DEVICE, run.host_c, run.c);
        infos[i] = run.info = -7;
        ck_assert_int_eq(ops->copy(run.compute, &c), 0);
        ck_assert_int_eq(cuda_run_potrf(&run), 0);
        if (i % 40 == 39) {
            ck_assert_int_eq(ops->event_record(run.compute, run.computed), 0);
            ck_assert_int_eq(ops->event_sync(run.computed), 0);
            ck_assert_int_eq(run.info, 5);
        }
    }
    ck_assert_int_eq(ops->stream_sync(run.compute), 0);
    ck_assert_int_eq(run.info, 5);
    ck_assert_int_eq(infos[0], -7);
    cuda_run_end(&run);
}
END_TEST

/* A context that a kernel has spoiled: every call after fails, and no open. */
START_TEST(test_spoiled_context_is_off)
{
    struct cuda_run run;
    struct fy_device *other;
    (void)setenv("FAKECUDA_FAIL_ASYNC", "1", 1);
    ck_assert(cuda_run_begin(&run, CUDA_RUN_BYTES));
    const struct fy_device_ops *ops = run.ops;
    cuda_run_enqueue(&run, false);
    cuda_run_drain(&run);
    ck_assert_int_eq(run.status, FY_ERR_DEVICE);
    uint64_t address;
    struct fy_copy c = cuda_run_copy(FY_TO_HOST, run.host_c, run.c);
    ck_assert_int_eq(ops->alloc(run.device, 8, &address), FY_ERR_DEVICE);
    ck_assert_int_eq(ops->copy(run.out, &c), FY_ERR_DEVICE);
    ck_assert_int_eq(ops->stream_sync(run.out), FY_ERR_DEVICE);
    ck_assert_ptr_nonnull(ops->resolve(run.device, "cublasDgemm_v2"));
    ck_assert_int_eq(ops->open(CUDA_RUN_BYTES, &other), FY_ERR_DEVICE);
    ck_assert_ptr_nonnull(strstr(ops->error_text(NULL), "failed before"));
    cuda_run_end(&run);
}
END_TEST

START_TEST(test_device_memory_runs_out)
{
    struct fy_device *device;
    (void)setenv("FAKECUDA_MEMORY", "64M", 1);
    const struct fy_device_ops *ops = fy_device_find("cuda");
    uint64_t one, two, three;
    ck_assert_int_eq(ops->open(0, &device), 0);
    ck_assert_uint_gt(ops->memory_bytes(device), 16 << 20);
    ck_assert_uint_le(ops->memory_bytes(device), 60 << 20);
    ops->close(device);
    /* A limit is no promise. */
    ck_assert_int_eq(ops->open((uint64_t)1 << 30, &device), 0);
    uint64_t usable = ops->memory_bytes(device);
    ck_assert_uint_gt(usable, 32 << 20);
    ck_assert_uint_le(usable, 64 << 20);
    ck_assert_int_eq(ops->alloc(device, (uint64_t)64 << 20, &one),
                     FY_ERR_NOFIT);
    ck_assert_int_ne(ops->error_text(device)[0], '\0');
    /* What is used by nobody is there for others, wherever it is. */
    ck_assert_int_eq(ops->alloc(device, 16 << 20, &one), 0);
    ck_assert_int_eq(ops->alloc(device, 16 << 20, &two), 0);
    ck_assert_int_eq(ops->alloc(device, 32 << 20, &three), FY_ERR_NOFIT);
    ops->free(device, one);
    ck_assert_int_eq(ops->alloc(device, 32 << 20, &three), 0);
    ck_assert_uint_eq(cuda_count("free-in-use"), 0);
    ops->close(device);
    ck_assert_uint_eq(cuda_count("cuMemMap"), cuda_count("cuMemUnmap"));
}
END_TEST

/* Memory comes with the calls, stays for the next ones, and can be had back. */
START_TEST(test_memory_grows_with_calls)
{
    struct fy_device *device;
    uint64_t one, two;
    const struct fy_device_ops *ops = fy_device_find("cuda");
    ck_assert_int_eq(ops->open((uint64_t)256 << 20, &device), 0);
    ck_assert_uint_eq(ops->memory_bytes(device), (uint64_t)256 << 20);
    /* One to see whether it may, given back at once. */
    ck_assert_uint_eq(cuda_count("cuMemCreate"), 1);
    ck_assert_uint_eq(cuda_count("cuMemRelease"), 1);
    ck_assert_int_eq(ops->alloc(device, 10 << 20, &one), 0);
    unsigned long chunks = cuda_count("cuMemCreate");
    ck_assert_uint_gt(chunks, 1);
    ck_assert_uint_lt(chunks, 9);
    ops->free(device, one);
    ck_assert_int_eq(ops->alloc(device, 10 << 20, &two), 0);
    ck_assert_uint_eq(two, one);
    ck_assert_uint_eq(cuda_count("cuMemCreate"), chunks);
    ops->give_back(device, false); /* not what is in use */
    ck_assert_uint_eq(cuda_count("cuMemRelease"), 1);
    ops->free(device, two);
    ops->give_back(device, false);
    ck_assert_uint_eq(cuda_count("cuMemRelease"), chunks);
    ck_assert_uint_eq(ops->memory_bytes(device), (uint64_t)256 << 20);
    ops->close(device);
    ck_assert_uint_eq(left_behind(), 0);
}
END_TEST

/* A card that cannot do that: one block at open, a quarter of what is free. */
START_TEST(test_card_without_virtual_memory)
{
    static const char *const settings[][2] = {
        {"FAKECUDA_VIRTUAL", "0"},
        /* It can, and may not; or has no addresses for it. */
        {"FAKECUDA_FAIL", "cuMemCreate:1+:800"},
        {"FAKECUDA_FAIL", "cuMemCreate:1+:801"},
        {"FAKECUDA_FAIL", "cuMemAddressReserve:1+:801"}};
    struct cuda_run run;
    (void)setenv(settings[_i][0], settings[_i][1], 1);
    (void)setenv("FAKECUDA_MEMORY", "64M", 1);
    ck_assert(cuda_run_begin(&run, 0));
    ck_assert_uint_ge(run.ops->memory_bytes(run.device), 8 << 20);
    ck_assert_uint_le(run.ops->memory_bytes(run.device), 16 << 20);
    cuda_run_enqueue(&run, true);
    cuda_run_drain(&run);
    ck_assert_int_eq(run.status, 0);
    ck_assert(cuda_run_is_right(&run, 2));
    run.ops->give_back(run.device, false);
    cuda_run_end(&run);
    ck_assert_uint_le(cuda_count("cuMemCreate"), 1);
    ck_assert_uint_le(left_behind(), _i > 0); /* that call made nothing */
    ck_assert_uint_eq(cuda_faults(), 0);
}
END_TEST

/* Workspaces and status integers are taken from what calls can plan with. */
START_TEST(test_workspaces_count)
{
    struct cuda_run run;
    ck_assert(cuda_run_begin(&run, (uint64_t)256 << 20));
    const struct fy_device_ops *ops = run.ops;
    uint64_t before = ops->memory_bytes(run.device);
    /* cuBLAS's is kept free from the beginning. */
    ck_assert_uint_eq(before, (256 - 4) << 20);
    unsigned long blocks = cuda_count("cuMemAlloc_v2");
    cuda_run_enqueue(&run, true);
    cuda_run_drain(&run);
    ck_assert_int_eq(run.status, 0);
    uint64_t after = ops->memory_bytes(run.device);
    ck_assert_uint_lt(after, before);
    ck_assert_uint_gt(after, before - (4 << 20));
    ck_assert_uint_eq(cuda_count("cuMemAlloc_v2"), blocks);
    cuda_run_end(&run);
    ck_assert_uint_eq(left_behind(), 0);
}
END_TEST

/* --- no device --- */

static const struct refusal {
    const char *variable, *value, *device, *text;
} refusals[] = {
    {"CUDA_VISIBLE_DEVICES", "", "cuda", "CUDA_VISIBLE_DEVICES is empty"},
    {"CUDA_VISIBLE_DEVICES", "7", "cuda", "CUDA_VISIBLE_DEVICES=7"},
    {"FAKECUDA_DEVICES", "0", "cuda", "finds no device"},
    {"FAKECUDA_FAIL", "cuInit:1:34", "cuda", "stub"},
    {"FAKECUDA_FAIL", "cuInit:1:803", "cuda", "different versions"},
    {"FAKECUDA_FAIL", "cuInit:1:999", "cuda", "cuInit"},
    {"FAKECUDA_DRIVER", "10020", "cuda", "for CUDA 10.2"},
    {"FAKECUDA_DEVICES", "2", "cuda:2", "no CUDA device 2: 2 are"},
    {"FAKECUDA_FAIL", "cuDevicePrimaryCtxRetain:1:2", "cuda", "the context"},
};

START_TEST(test_no_device_says_why)
{
    const struct refusal *row = &refusals[_i];
    struct fy_device *device;
    (void)setenv(row->variable, row->value, 1);
    const struct fy_device_ops *ops = fy_device_find(row->device);
    ck_assert_ptr_nonnull(ops);
    ck_assert_int_ne(ops->open(CUDA_RUN_BYTES, &device), 0);
    ck_assert_msg(strstr(ops->error_text(NULL), row->text) != NULL, "%s=%s: %s",
                  row->variable, row->value, ops->error_text(NULL));
}
END_TEST

/* Below these a card is not tried: what it takes the program would miss. */
static const struct {
    int which;
    rlim_t limit;
    const char *text; /* NULL: enough */
} limits[] = {
    {RLIMIT_AS, (rlim_t)8 << 30, "too few addresses"},
    {RLIMIT_AS, (rlim_t)1 << 40, NULL},
    {RLIMIT_NOFILE, 32, "too few descriptors"},
    {RLIMIT_NOFILE, 64, NULL},
    {RLIMIT_NPROC, 20, "too few threads"},
};

START_TEST(test_limits)
{
    struct fy_device *device;
    struct rlimit limit;
    const struct fy_device_ops *ops = fy_device_find("cuda");
    ck_assert_int_eq(getrlimit(limits[_i].which, &limit), 0);
    if (limits[_i].text == NULL && limit.rlim_max < limits[_i].limit) {
        skip_test("this machine allows less");
        return;
    }
    limit.rlim_cur = limits[_i].limit;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    if (limits[_i].which != RLIMIT_NOFILE) {
        skip_test("sanitizers have terabytes, and start a thread at the end");
        return;
    }
#endif
    ck_assert_int_eq(setrlimit(limits[_i].which, &limit), 0);
    if (limits[_i].which == RLIMIT_NPROC && geteuid() == 0) {
        ck_assert_int_eq(seteuid(65534), 0); /* root has no such limit */
    }
    if (limits[_i].text == NULL) {
        ck_assert_int_eq(ops->open(CUDA_RUN_BYTES, &device), 0);
        ops->close(device);
    } else {
        ck_assert_int_ne(ops->open(CUDA_RUN_BYTES, &device), 0);
        ck_assert_ptr_nonnull(strstr(ops->error_text(NULL), limits[_i].text));
        ck_assert_uint_eq(cuda_count("cuInit"), 0);
    }
}
END_TEST

START_TEST(test_units)
{
    struct fy_device *device;
    (void)setenv("FAKECUDA_DEVICES", "2", 1);
    const struct fy_device_ops *ops = fy_device_find("cuda:1");
    ck_assert_ptr_eq(ops, &fy_device_cuda);
    ck_assert_int_eq(ops->open(CUDA_RUN_BYTES, &device), 0);
    ops->close(device);
    ck_assert_ptr_eq(fy_device_find("cuda"), ops);
    ck_assert_ptr_null(fy_device_find("cuda:"));
    ck_assert_ptr_null(fy_device_find("cuda:x"));
    ck_assert_ptr_null(fy_device_find("cuda:1x"));
    ck_assert_ptr_null(fy_device_find("cuda:1000"));
    ck_assert_ptr_null(fy_device_find("host:0"));
}
END_TEST

START_TEST(test_library_newer_than_driver)
{
    struct fy_device *device;
    char why[FY_CUDA_TEXT_BYTES];
    (void)setenv("FAKECUDA_DRIVER", "11080", 1);
    const struct fy_device_ops *ops = fy_device_find("cuda");
    ck_assert_int_eq(ops->open(CUDA_RUN_BYTES, &device), 0);
    ck_assert_ptr_null(ops->resolve(device, "cublasDgemm_v2"));
    fy_cuda_library_why(FY_CUDA_CUBLAS, why);
    ck_assert_ptr_nonnull(strstr(why, "libcublas.so.13 needs one for 13.0"));
    ck_assert_ptr_nonnull(strstr(why, "for CUDA 11.8"));
    ck_assert_ptr_null(ops->resolve(device, "strlen"));
    ops->close(device);
}
END_TEST

START_TEST(test_names)
{
    struct fy_device *device;
    const struct fy_device_ops *ops = fy_device_find("cuda");
    ck_assert_int_eq(ops->open(CUDA_RUN_BYTES, &device), 0);
    ck_assert_ptr_nonnull(ops->resolve(device, "cublasDgemm_v2"));
    ck_assert_ptr_null(ops->resolve(device, "cublasDgemm_v99"));
    ck_assert_ptr_null(ops->resolve(device, "cuMemAlloc_v2"));
    ck_assert_ptr_null(ops->resolve(device, ""));
    ops->close(device);
}
END_TEST

int
main(int argc, char **argv)
{
    (void)argc;
    cuda_rig_start(argv);
    (void)setenv("FAKECUDA_STRICT", "1", 1);
    Suite *suite = suite_create("cuda_trouble");
    TCase *tests = tcase_create("cuda_trouble");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, test_every_call_fails, 0,
                        (int)(sizeof codes / sizeof codes[0]));
    tcase_add_test(tests, test_operations_fail_late);
    tcase_add_test(tests, test_close_without_context);
    tcase_add_test(tests, test_errors_stay_with_their_stream);
    tcase_add_test(tests, test_info_comes_back);
    tcase_add_test(tests, test_spoiled_context_is_off);
    tcase_add_test(tests, test_device_memory_runs_out);
    tcase_add_test(tests, test_memory_grows_with_calls);
    tcase_add_loop_test(tests, test_card_without_virtual_memory, 0, 4);
    tcase_add_test(tests, test_workspaces_count);
    tcase_add_loop_test(tests, test_no_device_says_why, 0,
                        (int)(sizeof refusals / sizeof refusals[0]));
    tcase_add_loop_test(tests, test_limits, 0,
                        (int)(sizeof limits / sizeof limits[0]));
    tcase_add_test(tests, test_units);
    tcase_add_test(tests, test_library_newer_than_driver);
    tcase_add_test(tests, test_names);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
