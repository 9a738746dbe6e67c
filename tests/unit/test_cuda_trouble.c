/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA device in trouble, on the fake driver: every call of the driver and
 * of the libraries fails once by number, memory runs out, drivers are missing or
 * old, processes fork, exit and cancel threads in the middle. Whatever happens,
 * there is a status and a text, results are right or refused, and nothing
 * hangs, crashes or is left behind.
 */
#include "config.h"

#include <check.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "annotations/model.h"
#include "pager/cuda_driver.h"
#include "pager/cuda_library.h"
#include "pager/device.h"
#include "tests/unit/cuda_rig.h"

enum {
    N = 192, /* its matrices are larger than what goes without the ring */
    MEMORY_BYTES = 4 << 20,
};

/* What the fake counts: calls by name. */
static unsigned long
count_of(const char *name)
{
    unsigned long (*count)(const char *);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    ck_assert_ptr_nonnull(driver);
    *(void **)&count = dlsym(driver, "fakecuda_count");
    ck_assert_ptr_nonnull(count);
    unsigned long calls = count(name);
    dlclose(driver);
    return calls;
}

/* --- one call from end to end --- */

struct run {
    const struct fy_device_ops *ops;
    struct fy_device *device;
    struct fy_stream *in, *compute, *out;
    struct fy_event *copied, *computed;
    uint64_t a, c;
    double *host_a, *host_c;
    int64_t info;
    int status; /* the first error */
};

static bool
works(struct run *run, int status)
{
    if (run->status == 0) {
        run->status = status;
    }
    return run->status == 0;
}

static struct fy_copy
matrix_copy(enum fy_direction direction, double *host, uint64_t device)
{
    return (struct fy_copy){.direction = direction,
                            .host = host,
                            .device = device,
                            .element_bytes = 8,
                            .naxes = 2,
                            .extent = {N, N},
                            .host_stride = {1, N + 1},
                            .device_stride = {1, N}};
}

/* C = A A + C by cuBLAS. */
static int
launch_gemm(struct run *run, int lda)
{
    static const uint8_t types[] = {
        FY_T_POINTER, FY_T_I32,     FY_T_I32, FY_T_I32, FY_T_I32,
        FY_T_I32,     FY_T_POINTER, FY_T_U64, FY_T_I32, FY_T_U64,
        FY_T_I32,     FY_T_POINTER, FY_T_U64, FY_T_I32};
    static const uint8_t words[14] = {FY_WORD_CUBLAS};
    static const double one = 1;
    const void *alpha = &one;
    int n = N, none = 0;
    void *values[] = {NULL,    &none, &none,   &n,   &n,     &n,      &alpha,
                      &run->a, &lda,  &run->a, &lda, &alpha, &run->c, &n};
    struct fy_launch launch = {.return_type = FY_T_I32,
                               .nargs = 14,
                               .types = types,
                               .values = values,
                               .words = words,
                               .status = true};
    launch.function = run->ops->resolve(run->device, "cublasDgemm_v2");
    return launch.function == NULL ? FY_ERR_UNSUPPORTED
                                   : run->ops->launch(run->compute, &launch);
}

/* Cholesky of C by cuSOLVER: a workspace, and an integer that comes back. */
static int
launch_potrf(struct run *run)
{
    static const uint8_t types[] = {FY_T_POINTER, FY_T_I32,    FY_T_I32,
                                    FY_T_U64,     FY_T_I32,    FY_T_POINTER,
                                    FY_T_I64,     FY_T_POINTER};
    static const uint8_t words[] = {
        FY_WORD_CUSOLVER, FY_WORD_NONE,      FY_WORD_NONE,  FY_WORD_NONE,
        FY_WORD_NONE,     FY_WORD_WORKSPACE, FY_WORD_LWORK, FY_WORD_INFO};
    int n = N, lower = 0;
    void *values[] = {NULL, &lower, &n, &run->c, &n, NULL, NULL, NULL};
    struct fy_launch launch = {.return_type = FY_T_I32,
                               .nargs = 8,
                               .types = types,
                               .values = values,
                               .words = words,
                               .element_bytes = 8,
                               .info = &run->info,
                               .status = true};
    launch.function = run->ops->resolve(run->device, "cusolverDnDpotrf");
    launch.size_function =
        run->ops->resolve(run->device, "cusolverDnDpotrf_bufferSize");
    return launch.function == NULL || launch.size_function == NULL
               ? FY_ERR_UNSUPPORTED
               : run->ops->launch(run->compute, &launch);
}

static bool
begin(struct run *run, uint64_t memory_bytes)
{
    memset(run, 0, sizeof *run);
    run->ops = fy_device_find("cuda");
    run->info = -7;
    run->host_a = calloc((size_t)(N + 1) * N, sizeof(double));
    run->host_c = calloc((size_t)(N + 1) * N, sizeof(double));
    if (run->host_a == NULL || run->host_c == NULL ||
        !works(run, run->ops->open(memory_bytes, &run->device))) {
        return false;
    }
    const struct fy_device_ops *ops = run->ops;
    return works(run, ops->stream_create(run->device, FY_STREAM_COPY_IN,
                                         &run->in)) &&
           works(run, ops->stream_create(run->device, FY_STREAM_COMPUTE,
                                         &run->compute)) &&
           works(run, ops->stream_create(run->device, FY_STREAM_COPY_OUT,
                                         &run->out)) &&
           works(run, ops->event_create(run->device, &run->copied)) &&
           works(run, ops->event_create(run->device, &run->computed)) &&
           works(run, ops->alloc(run->device, N * N * 8, &run->a)) &&
           works(run, ops->alloc(run->device, N * N * 8, &run->c));
}

/* A = I, C = 3 I; then C := A A + C = 4 I and its Cholesky factor 2 I. */
static void
enqueue(struct run *run, bool factor)
{
    const struct fy_device_ops *ops = run->ops;
    for (int i = 0; i < N; i++) {
        run->host_a[(N + 1) * i + i] = 1;
        run->host_c[(N + 1) * i + i] = 3;
    }
    struct fy_copy a = matrix_copy(FY_TO_DEVICE, run->host_a, run->a);
    struct fy_copy c = matrix_copy(FY_TO_DEVICE, run->host_c, run->c);
    if (works(run, ops->copy(run->in, &a)) &&
        works(run, ops->copy(run->in, &c)) &&
        works(run, ops->event_record(run->in, run->copied)) &&
        works(run, ops->event_wait(run->compute, run->copied)) &&
        works(run, launch_gemm(run, N)) &&
        (!factor || works(run, launch_potrf(run))) &&
        works(run, ops->event_record(run->compute, run->computed)) &&
        works(run, ops->event_wait(run->out, run->computed)) &&
        works(run, ops->event_sync(run->computed))) {
        c.direction = FY_TO_HOST;
        (void)works(run, ops->copy(run->out, &c));
    }
}

static void
drain(struct run *run)
{
    struct fy_stream *streams[] = {run->compute, run->in, run->out};
    for (int i = 0; i < 3; i++) {
        if (streams[i] != NULL) {
            (void)works(run, run->ops->stream_sync(streams[i]));
        }
    }
}

static void
end(struct run *run)
{
    if (run->device != NULL) {
        const struct fy_device_ops *ops = run->ops;
        ops->stream_destroy(run->in);
        ops->stream_destroy(run->compute);
        ops->stream_destroy(run->out);
        ops->event_destroy(run->copied);
        ops->event_destroy(run->computed);
        ops->close(run->device);
    }
    free(run->host_a);
    free(run->host_c);
}

static bool
is_right(const struct run *run, double diagonal)
{
    for (int j = 0; j < N; j++) {
        for (int i = 0; i <= N; i++) {
            double expected = i == j ? diagonal : 0;
            if (run->host_c[(N + 1) * j + i] != expected) {
                return false;
            }
        }
    }
    return true;
}

/* Everything made and not destroyed, as the fake has counted. */
static unsigned long
left_behind(void)
{
    static const char *const pairs[][2] = {
        {"cuMemAlloc_v2", "cuMemFree_v2"},
        {"cuMemHostAlloc", "cuMemFreeHost"},
        {"cuEventCreate", "cuEventDestroy_v2"},
        {"cuStreamCreate", "cuStreamDestroy_v2"},
        {"cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRelease_v2"},
        {"cublasCreate_v2", "cublasDestroy_v2"},
        {"cusolverDnCreate", "cusolverDnDestroy"},
    };
    unsigned long left = 0;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        unsigned long made = count_of(pairs[i][0]);
        unsigned long gone = count_of(pairs[i][1]);
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
};

static int
run_once(void)
{
    struct run run;
    if (begin(&run, MEMORY_BYTES)) {
        enqueue(&run, true);
    }
    drain(&run);
    int outcome = run.status == 0 ? RIGHT : REFUSED;
    if (run.status == 0 && (run.info != 0 || !is_right(&run, 2))) {
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
    end(&run);
    unsigned long left = left_behind();
    struct fy_device *other;
    int again = run.ops->open(MEMORY_BYTES, &other);
    bool lost = again == FY_ERR_DEVICE &&
                strstr(run.ops->error_text(NULL), "failed before") != NULL;
    if (again == 0) {
        run.ops->close(other);
    }
    /* A stream whose end failed leaves an event, too; a lost context is left. */
    if (outcome <= REFUSED && !lost && left > 2) {
        outcome = LEFT_BEHIND;
    }
    return outcome;
}

/* Runs `body' in a child with one more variable; its exit status, -1: killed. */
static int
in_child(const char *variable, const char *value, int (*body)(void))
{
    int status;
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        if (variable != NULL) {
            (void)setenv(variable, value, 1);
        }
        alarm(60);
        int outcome = body();
        _exit(outcome);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int
count_calls(void)
{
    int outcome = run_once();
    unsigned long calls = count_of("calls");
    return outcome != RIGHT ? 0 : calls < 250 ? (int)calls : 250;
}

static const int codes[] = {0, 2, 1};

/* The N-th call of all fails, for every N: as a lost context, no memory, and a
 * refused argument. */
START_TEST(test_every_call_fails)
{
    int calls = in_child(NULL, NULL, count_calls), refused = 0;
    ck_assert_int_gt(calls, 50);
    for (int at = 1; at <= calls; at++) {
        char value[32];
        (void)snprintf(value, sizeof value, "%d:%d", at, codes[_i]);
        int outcome = in_child("FAKECUDA_FAIL_ANY", value, run_once);
        ck_assert_msg(outcome == RIGHT || outcome == REFUSED,
                      "call %d of %d failing with %d: outcome %d", at, calls,
                      codes[_i], outcome);
        refused += outcome == REFUSED;
    }
    ck_assert_int_gt(refused, calls / 8);
}
END_TEST

START_TEST(test_operations_fail_late)
{
    for (int at = 1; at <= 30; at++) {
        char value[32];
        (void)snprintf(value, sizeof value, "%d", at);
        int outcome = in_child("FAKECUDA_FAIL_ASYNC", value, run_once);
        ck_assert_msg(outcome == RIGHT || outcome == REFUSED,
                      "operation %d: outcome %d", at, outcome);
        if (at < 4) {
            ck_assert_int_eq(outcome, REFUSED);
        }
    }
}
END_TEST

/* --- errors --- */

START_TEST(test_errors_stay_with_their_stream)
{
    struct run run;
    ck_assert(begin(&run, MEMORY_BYTES));
    const struct fy_device_ops *ops = run.ops;
    ck_assert_int_eq(launch_gemm(&run, 1), 0); /* lda < n: fails when issued */
    ck_assert_int_eq(ops->event_record(run.compute, run.computed), 0);
    ck_assert_int_eq(ops->event_wait(run.out, run.computed), 0);
    struct fy_copy c = matrix_copy(FY_TO_HOST, run.host_c, run.c);
    run.host_c[0] = 77;
    ck_assert_int_eq(ops->copy(run.out, &c), 0);
    ck_assert_int_eq(ops->event_sync(run.computed), FY_ERR_DEVICE);
    ck_assert_int_eq(ops->stream_sync(run.out), FY_ERR_DEVICE);
    ck_assert_double_eq(run.host_c[0], 77); /* it was skipped */
    ck_assert_ptr_nonnull(strstr(ops->error_text(run.device), "cuBLAS"));
    ck_assert_int_eq(ops->stream_sync(run.compute), FY_ERR_DEVICE);
    ck_assert_int_eq(ops->stream_sync(run.compute), 0); /* told once */
    run.host_c[0] = 0;
    enqueue(&run, true);
    drain(&run);
    ck_assert_int_eq(run.status, 0);
    ck_assert(is_right(&run, 2));
    ck_assert_int_eq(run.info, 0);
    end(&run);
    ck_assert_uint_eq(left_behind(), 0);
}
END_TEST

/* A matrix that has no factor says so in the integer, not as an error. */
START_TEST(test_info_comes_back)
{
    struct run run;
    ck_assert(begin(&run, MEMORY_BYTES));
    const struct fy_device_ops *ops = run.ops;
    int64_t infos[100];
    for (int i = 0; i < N; i++) {
        run.host_c[(N + 1) * i + i] = i == 4 ? -1 : 1;
    }
    for (int i = 0; i < 100; i++) { /* more than are kept on their way */
        struct fy_copy c = matrix_copy(FY_TO_DEVICE, run.host_c, run.c);
        infos[i] = run.info = -7;
        ck_assert_int_eq(ops->copy(run.compute, &c), 0);
        ck_assert_int_eq(launch_potrf(&run), 0);
        if (i % 40 == 39) {
            ck_assert_int_eq(ops->event_record(run.compute, run.computed), 0);
            ck_assert_int_eq(ops->event_sync(run.computed), 0);
            ck_assert_int_eq(run.info, 5);
        }
    }
    ck_assert_int_eq(ops->stream_sync(run.compute), 0);
    ck_assert_int_eq(run.info, 5);
    ck_assert_int_eq(infos[0], -7);
    end(&run);
}
END_TEST

/* A context that a kernel has spoiled: every call after fails, and no open. */
START_TEST(test_spoiled_context_is_off)
{
    struct run run;
    struct fy_device *other;
    (void)setenv("FAKECUDA_FAIL_ASYNC", "1", 1);
    ck_assert(begin(&run, MEMORY_BYTES));
    const struct fy_device_ops *ops = run.ops;
    enqueue(&run, false);
    drain(&run);
    ck_assert_int_eq(run.status, FY_ERR_DEVICE);
    uint64_t address;
    struct fy_copy c = matrix_copy(FY_TO_HOST, run.host_c, run.c);
    ck_assert_int_eq(ops->alloc(run.device, 8, &address), FY_ERR_DEVICE);
    ck_assert_int_eq(ops->copy(run.out, &c), FY_ERR_DEVICE);
    ck_assert_int_eq(ops->stream_sync(run.out), FY_ERR_DEVICE);
    ck_assert_ptr_null(ops->resolve(run.device, "cublasDgemm_v2"));
    ck_assert_int_eq(ops->open(MEMORY_BYTES, &other), FY_ERR_DEVICE);
    ck_assert_ptr_nonnull(strstr(ops->error_text(NULL), "failed before"));
    end(&run);
}
END_TEST

START_TEST(test_device_memory_runs_out)
{
    struct fy_device *device;
    (void)setenv("FAKECUDA_MEMORY", "64M", 1);
    const struct fy_device_ops *ops = fy_device_find("cuda");
    ck_assert_int_eq(ops->open((uint64_t)1 << 30, &device), FY_ERR_NOFIT);
    ck_assert_ptr_nonnull(strstr(ops->error_text(NULL), "1024 MiB"));
    ck_assert_int_eq(ops->open(0, &device), 0);
    ck_assert_uint_gt(ops->memory_bytes(device), 16 << 20);
    ck_assert_uint_le(ops->memory_bytes(device), 60 << 20);
    ops->close(device);
    ck_assert_uint_eq(left_behind(),
                      1); /* the one that there was no room for */
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
    ck_assert_int_ne(ops->open(MEMORY_BYTES, &device), 0);
    ck_assert_msg(strstr(ops->error_text(NULL), row->text) != NULL, "%s=%s: %s",
                  row->variable, row->value, ops->error_text(NULL));
}
END_TEST

START_TEST(test_units)
{
    struct fy_device *device;
    (void)setenv("FAKECUDA_DEVICES", "2", 1);
    const struct fy_device_ops *ops = fy_device_find("cuda:1");
    ck_assert_ptr_eq(ops, &fy_device_cuda);
    ck_assert_int_eq(ops->open(MEMORY_BYTES, &device), 0);
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
    ck_assert_int_eq(ops->open(MEMORY_BYTES, &device), 0);
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
    ck_assert_int_eq(ops->open(MEMORY_BYTES, &device), 0);
    ck_assert_ptr_nonnull(ops->resolve(device, "cublasDgemm_v2"));
    ck_assert_ptr_null(ops->resolve(device, "cublasDgemm_v99"));
    ck_assert_ptr_null(ops->resolve(device, "cuMemAlloc_v2"));
    ck_assert_ptr_null(ops->resolve(device, ""));
    ops->close(device);
}
END_TEST

/* --- processes and threads --- */

static int
use_inherited(struct run *run)
{
    const struct fy_device_ops *ops = run->ops;
    struct fy_copy c = matrix_copy(FY_TO_DEVICE, run->host_a, run->a);
    struct fy_stream *stream;
    struct fy_event *event;
    struct fy_device *own;
    uint64_t address;
    unsigned long calls = count_of("calls");
    bool refused =
        ops->inherited(run->device) &&
        ops->copy(run->in, &c) == FY_ERR_DEVICE && launch_gemm(run, N) != 0 &&
        ops->event_record(run->in, run->copied) == FY_ERR_DEVICE &&
        ops->event_wait(run->in, run->copied) == FY_ERR_DEVICE &&
        ops->event_sync(run->copied) == FY_ERR_DEVICE &&
        ops->stream_sync(run->in) == FY_ERR_DEVICE &&
        ops->alloc(run->device, 8, &address) == FY_ERR_DEVICE &&
        ops->event_create(run->device, &event) == FY_ERR_DEVICE &&
        ops->stream_create(run->device, FY_STREAM_COPY_IN, &stream) ==
            FY_ERR_DEVICE &&
        ops->error_text(run->device)[0] != '\0';
    ops->free(run->device, run->a);
    ops->stream_destroy(run->in);
    ops->event_destroy(run->copied);
    ops->close(run->device);
    if (ops->open(MEMORY_BYTES, &own) != FY_ERR_NOENT ||
        strstr(ops->error_text(NULL), "forked child") == NULL) {
        return 2;
    }
    return !refused ? 3 : count_of("calls") != calls ? 4 : 0;
}

START_TEST(test_fork_while_busy)
{
    struct run run;
    ck_assert(begin(&run, MEMORY_BYTES));
    for (int round = 0; round < 20; round++) {
        enqueue(&run, round % 2 == 0);
        pid_t pid = fork();
        ck_assert_int_ge(pid, 0);
        if (pid == 0) {
            alarm(20);
            int outcome = use_inherited(&run);
            /* Handlers of the parent's exit run here, too. */
            round % 4 == 0 ? exit(outcome) : _exit(outcome);
        }
        int status;
        drain(&run);
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_int_eq(status, 0);
        ck_assert_int_eq(run.status, 0);
    }
    end(&run);
}
END_TEST

static struct run shared;

/* Copies without end; the device refuses when the process exits. */
static void *
keep_busy(void *argument)
{
    struct run *run = argument;
    for (;;) {
        struct fy_copy c = matrix_copy(FY_TO_DEVICE, run->host_a, run->a);
        int status = run->ops->copy(run->in, &c);
        for (int i = 0; i < 8 && status == 0; i++) {
            status = run->ops->copy(run->in, &c);
        }
        if (status == 0) {
            status = launch_gemm(run, N);
        }
        if (status == 0) {
            status = run->ops->stream_sync(run->in);
        }
        if (status != 0) {
            return NULL;
        }
    }
}

static int
exit_while_busy(void)
{
    pthread_t thread;
    if (!begin(&shared, MEMORY_BYTES) ||
        pthread_create(&thread, NULL, keep_busy, &shared) != 0) {
        return 3;
    }
    usleep((useconds_t)(getpid() % 17) * 1000);
    alarm(10);
    exit(0); /* NOLINT(concurrency-mt-unsafe): that is the test */
}

START_TEST(test_exit_while_busy)
{
    for (int round = 0; round < 30; round++) {
        ck_assert_int_eq(in_child(NULL, NULL, exit_while_busy), 0);
    }
}
END_TEST

/* A handler of the program's that was registered before CUDA came. */
static void
use_late(void)
{
    int status = shared.ops->stream_sync(shared.in);
    struct fy_copy c = matrix_copy(FY_TO_DEVICE, shared.host_a, shared.a);
    if (status != FY_ERR_DEVICE ||
        shared.ops->copy(shared.in, &c) != FY_ERR_DEVICE) {
        _exit(5);
    }
    end(&shared);
}

static int
use_after_exit(void)
{
    if (atexit(use_late) != 0 || !begin(&shared, MEMORY_BYTES)) {
        return 3;
    }
    enqueue(&shared, true);
    alarm(10);
    exit(0); /* NOLINT(concurrency-mt-unsafe): that is the test */
}

START_TEST(test_use_after_exit)
{
    ck_assert_int_eq(in_child(NULL, NULL, use_after_exit), 0);
}
END_TEST

static void *
wait_for_it(void *argument)
{
    struct run *run = argument;
    for (;;) {
        enqueue(run, false);
        drain(run);
        pthread_testcancel();
    }
    return NULL;
}

START_TEST(test_cancelled_thread)
{
    struct run run;
    ck_assert(begin(&run, MEMORY_BYTES));
    for (int round = 0; round < 10; round++) {
        pthread_t thread;
        void *result;
        ck_assert_int_eq(pthread_create(&thread, NULL, wait_for_it, &run), 0);
        usleep((useconds_t)round * 700);
        ck_assert_int_eq(pthread_cancel(thread), 0);
        ck_assert_int_eq(pthread_join(thread, &result), 0);
        ck_assert_ptr_eq(result, PTHREAD_CANCELED);
        drain(&run); /* no lock was left behind */
        ck_assert_int_eq(run.status, 0);
    }
    end(&run);
}
END_TEST

static volatile sig_atomic_t handled_elsewhere;
static pthread_t main_thread;

static void
on_signal(int number)
{
    (void)number;
    /* NOLINTNEXTLINE(bugprone-signal-handler): only compares */
    if (!pthread_equal(pthread_self(), main_thread)) {
        handled_elsewhere = 1;
    }
}

START_TEST(test_threads_take_no_signals)
{
    struct run run;
    sigset_t one, before;
    main_thread = pthread_self();
    signal(SIGUSR1, on_signal);
    ck_assert(begin(&run, MEMORY_BYTES));
    enqueue(&run, true);
    drain(&run);
    ck_assert_int_eq(run.status, 0);
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    ck_assert_int_eq(pthread_sigmask(SIG_BLOCK, &one, &before), 0);
    ck_assert_int_eq(kill(getpid(), SIGUSR1), 0);
    usleep(20000);
    ck_assert_int_eq(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
    ck_assert_int_eq(handled_elsewhere, 0);
    end(&run);
}
END_TEST

/* --- page-locked memory of the program --- */

START_TEST(test_locked_memory_goes_straight)
{
    struct run run;
    const struct fy_cuda_driver *driver;
    char why[FY_CUDA_TEXT_BYTES];
    fy_cuda_handle context, popped;
    void *memory;
    int unit;
    ck_assert(begin(&run, MEMORY_BYTES));
    ck_assert_int_eq(fy_cuda_driver_get(&driver, why), 0);
    ck_assert_int_eq(driver->device_get(&unit, 0), 0);
    ck_assert_int_eq(driver->context_retain(&context, unit), 0);
    ck_assert_int_eq(driver->context_push(context), 0);
    size_t bytes = (size_t)(N + 1) * N * sizeof(double);
    ck_assert_int_eq(driver->host_alloc(&memory, 2 * bytes, 0), 0);
    double *from = memory, *to = from + (size_t)(N + 1) * N;
    for (int i = 0; i < (N + 1) * N; i++) {
        from[i] = i;
        to[i] = -1;
    }
    struct fy_copy c = matrix_copy(FY_TO_DEVICE, from, run.a);
    unsigned long rings = count_of("cuMemHostAlloc");
    ck_assert_int_eq(run.ops->copy(run.in, &c), 0);
    ck_assert_int_eq(run.ops->stream_sync(run.in), 0);
    c = matrix_copy(FY_TO_HOST, to, run.a);
    ck_assert_int_eq(run.ops->copy(run.out, &c), 0);
    ck_assert_int_eq(run.ops->stream_sync(run.out), 0);
    for (int j = 0; j < N; j++) {
        for (int i = 0; i <= N; i++) {
            int at = (N + 1) * j + i;
            ck_assert_double_eq(to[at], i < N ? at : -1);
        }
    }
    ck_assert_uint_eq(count_of("cuMemHostAlloc"), rings);
    ck_assert_uint_eq(count_of("cuMemcpy2DAsync_v2"), 2);
    ck_assert_int_eq(driver->host_free(memory), 0);
    ck_assert_int_eq(driver->context_pop(&popped), 0);
    ck_assert_ptr_eq(popped, context);
    ck_assert_int_eq(driver->context_release(unit), 0);
    end(&run);
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
    tcase_set_timeout(tests, 300);
    tcase_add_loop_test(tests, test_every_call_fails, 0,
                        (int)(sizeof codes / sizeof codes[0]));
    tcase_add_test(tests, test_operations_fail_late);
    tcase_add_test(tests, test_errors_stay_with_their_stream);
    tcase_add_test(tests, test_info_comes_back);
    tcase_add_test(tests, test_spoiled_context_is_off);
    tcase_add_test(tests, test_device_memory_runs_out);
    tcase_add_loop_test(tests, test_no_device_says_why, 0,
                        (int)(sizeof refusals / sizeof refusals[0]));
    tcase_add_test(tests, test_units);
    tcase_add_test(tests, test_library_newer_than_driver);
    tcase_add_test(tests, test_names);
    tcase_add_test(tests, test_fork_while_busy);
    tcase_add_test(tests, test_exit_while_busy);
    tcase_add_test(tests, test_use_after_exit);
    tcase_add_test(tests, test_cancelled_thread);
    tcase_add_test(tests, test_threads_take_no_signals);
    tcase_add_test(tests, test_locked_memory_goes_straight);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
