/* SPDX-License-Identifier: Apache-2.0
 *
 * The fake CUDA is as hostile as it says: each misuse of its list is done here
 * on purpose and must be seen. Every case runs in a child of its own, with its
 * own settings, because the fake reads them once. Long because it is one list
 * of misuses, over one small set of helpers.
 */
#include "config.h"

#include <check.h>
#include <dlfcn.h>
#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/fakecuda/cublas_abi.h"
#include "tests/fakecuda/cusolver_abi.h"
#include "tests/fakecuda/nvrtc_abi.h"
#include "tests/unit/possible.h"
#include "tests/unit/runner.h"

#define COUNT 1000

/* What the cases call; loaded in the child. */
static void *libraries[5];

static void *
load(const char *name)
{
    const char *folder = getenv("FERRY_BUILDDIR");
    char path[4096];

    (void)snprintf(path, sizeof(path), "%s/tests/fakecuda/.libs/%s",
                   folder == NULL ? "." : folder, name);
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (library == NULL) {
        (void)fprintf(stderr, "%s\n", dlerror());
        _exit(99);
    }
    return library;
}

static void *
function(const char *name)
{
    for (size_t i = 0; i < 5; i++) {
        void *found = libraries[i] == NULL ? NULL : dlsym(libraries[i], name);
        if (found != NULL) {
            return found;
        }
    }
    (void)fprintf(stderr, "no %s\n", name);
    _exit(98);
}

/* Any function of CUDA: int from integers and pointers. */
typedef int call(uintptr_t, ...);
#define CU(name, ...) (((call *)function(#name))((uintptr_t)__VA_ARGS__))
#define P(x)          ((uintptr_t)(x))

static unsigned long
count(const char *name)
{
    return ((unsigned long (*)(const char *))function("fakecuda_count"))(name);
}

/* Runs a case with settings ("NAME=VALUE", NULL at the end) in a child; its
 * exit status, or 128 and the signal's number. */
static int
run(int (*what)(void), ...)
{
    pid_t pid = fork();
    int status;

    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        va_list settings;
        const char *setting;

        va_start(settings, what);
        while ((setting = va_arg(settings, const char *)) != NULL) {
            (void)putenv((char *)setting);
        }
        va_end(settings);
        libraries[0] = load("libcuda.so.1");
        libraries[1] = load("libcublas.so.13");
        libraries[2] = load("libcusolver.so.12");
        libraries[3] = load("libcufft.so.12");
        libraries[4] = load("libnvrtc.so.13");
        exit(what());
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* The same for a seed. */
static int
run_seeded(int (*what)(void), int seed)
{
    char setting[32];

    (void)snprintf(setting, sizeof(setting), "FAKECUDA_SEED=%d", seed);
    return run(what, setting, NULL);
}

/* In a case: what must hold, else the child says where and ends. */
#define HOLDS(condition)                                                 \
    do {                                                                 \
        if (!(condition)) {                                              \
            (void)fprintf(stderr, "%s:%d: not %s\n", __FILE__, __LINE__, \
                          #condition);                                   \
            _exit(97);                                                   \
        }                                                                \
    } while (0)

static CUcontext context;

static void
begin(void)
{
    HOLDS(CU(cuInit, 0) == 0);
    HOLDS(CU(cuDevicePrimaryCtxRetain, &context, P(0)) == 0);
    HOLDS(CU(cuCtxSetCurrent, context) == 0);
}

static CUdeviceptr
device(size_t bytes)
{
    CUdeviceptr address;

    HOLDS(CU(cuMemAlloc_v2, &address, P(bytes)) == 0);
    return address;
}

static void *
pinned(size_t bytes)
{
    void *address;

    HOLDS(CU(cuMemHostAlloc, &address, P(bytes), P(0)) == 0);
    return address;
}

static CUstream
stream(void)
{
    CUstream new;

    HOLDS(CU(cuStreamCreate, &new, P(CU_STREAM_NON_BLOCKING)) == 0);
    return new;
}

/* Deliberate races with the fake's copies: TSan shall not look. */
__attribute__((no_sanitize("thread"), noinline)) static void
set_all(volatile int *at, size_t n, int value)
{
    for (size_t i = 0; i < n; i++) {
        at[i] = value;
    }
}

__attribute__((no_sanitize("thread"), noinline)) static int
peek(const volatile int *at)
{
    return *at;
}

/* A stream that stops until it is told to go on. */
static sem_t go, held;

static void
wait_for_go(void *unused)
{
    (void)unused;
    (void)sem_post(&held);
    while (sem_wait(&go) != 0) {
    }
}

static void
stop(CUstream which)
{
    HOLDS(sem_init(&go, 0, 0) == 0 && sem_init(&held, 0, 0) == 0);
    HOLDS(CU(cuLaunchHostFunc, which, P(wait_for_go), P(NULL)) == 0);
}

/* ---- device memory ---- */

static void
seen(int signal)
{
    (void)signal;
    _exit(42);
}

static int
read_device(void)
{
    begin();
    CUdeviceptr address = device(64);
    (void)signal(SIGSEGV, seen);
    return *(volatile char *)(uintptr_t)address; /* never returns */
}

static int
write_device(void)
{
    begin();
    CUdeviceptr address = device(64);
    (void)signal(SIGSEGV, seen);
    *(volatile char *)(uintptr_t)address = 1;
    return 0;
}

static int
system_call_on_device(void)
{
    int ends[2];

    begin();
    HOLDS(pipe(ends) == 0);
    HOLDS(write(ends[1], (void *)(uintptr_t)device(64), 64) == -1);
    return errno == EFAULT ? 0 : 1;
}

START_TEST(test_host_cannot_touch_device_memory)
{
    ck_assert_int_eq(run(read_device, NULL), 42);
    ck_assert_int_eq(run(write_device, NULL), 42);
    ck_assert_int_eq(run(system_call_on_device, NULL), 0);
}
END_TEST

static int
new_memory_is_garbage(void)
{
    double values[8];

    begin();
    CUdeviceptr address = device(sizeof(values));
    HOLDS(CU(cuMemcpyDtoH_v2, values, P(address), P(sizeof(values))) == 0);
    for (size_t i = 0; i < 8; i++) {
        HOLDS(values[i] != 0);
    }
    return 0;
}

static int
limits(void)
{
    size_t free_bytes, total_bytes;
    CUdeviceptr first, second;

    begin();
    HOLDS(CU(cuMemGetInfo_v2, &free_bytes, P(&total_bytes)) == 0);
    HOLDS(total_bytes == 1 << 20 && free_bytes == 1 << 20);
    HOLDS(CU(cuMemAlloc_v2, &first, P((1 << 20) + 1)) == 2);
    HOLDS(CU(cuMemAlloc_v2, &first, P(600 << 10)) == 0);
    HOLDS(CU(cuMemAlloc_v2, &second, P(600 << 10)) == 2);
    HOLDS(CU(cuMemFree_v2, first) == 0);
    HOLDS(CU(cuMemFree_v2, first) == 1);
    HOLDS(CU(cuMemAlloc_v2, &second, P(600 << 10)) == 0);
    HOLDS(second != first);
    HOLDS(CU(cuMemAlloc_v2, &first, P(0)) == 1);
    HOLDS(CU(cuMemHostAlloc, &first, P(65 << 10), P(0)) == 2);
    return 0;
}

START_TEST(test_memory_is_limited_and_dirty)
{
    ck_assert_int_eq(
        run(limits, "FAKECUDA_MEMORY=1M", "FAKECUDA_PINNED_MEMORY=64K", NULL),
        0);
    for (int seed = 1; seed < 4; seed++) {
        ck_assert_int_eq(run_seeded(new_memory_is_garbage, seed), 0);
    }
}
END_TEST

/* ---- asynchronous copies ---- */

/* 1: the device got the first value, 2: the second. */
static int
change_source(void)
{
    int *host, result[COUNT];

    begin();
    CUdeviceptr address = device(sizeof(result));
    host = pinned(sizeof(result));
    CUstream on = stream();
    set_all(host, COUNT, 1);
    HOLDS(CU(cuMemcpyHtoDAsync_v2, address, P(host), P(sizeof(result)),
             P(on)) == 0);
    set_all(host, COUNT, 2);
    HOLDS(CU(cuStreamSynchronize, on) == 0);
    HOLDS(CU(cuMemcpyDtoH_v2, result, P(address), P(sizeof(result))) == 0);
    return result[COUNT - 1];
}

static int
read_early(void)
{
    int *host;

    begin();
    CUdeviceptr address = device(sizeof(int));
    host = pinned(sizeof(int));
    CUstream on = stream();
    set_all(host, 1, 1);
    HOLDS(CU(cuMemsetD32Async, address, P(2), P(1), P(on)) == 0);
    HOLDS(CU(cuMemcpyDtoHAsync_v2, host, P(address), P(sizeof(int)), P(on)) ==
          0);
    return peek(host);
}

START_TEST(test_copies_are_seen_late_or_soon)
{
    int changed[3] = {0}, early[3] = {0};

    for (int seed = 1; seed <= 24; seed++) {
        int which = run_seeded(change_source, seed);
        ck_assert_int_ge(which, 1);
        ck_assert_int_le(which, 2);
        changed[which]++;
        which = run_seeded(read_early, seed);
        ck_assert_int_ge(which, 1);
        ck_assert_int_le(which, 2);
        early[which]++;
    }
    ck_assert_int_gt(changed[1], 0);
    ck_assert_int_gt(changed[2], 0);
    ck_assert_int_gt(early[1], 0);
    ck_assert_int_gt(early[2], 0);
}
END_TEST

static int
unpinned(void)
{
    static int host[COUNT];

    begin();
    CUdeviceptr address = device(sizeof(host));
    CUstream on = stream();
    int result =
        CU(cuMemcpyHtoDAsync_v2, address, P(host), P(sizeof(host)), P(on));
    HOLDS(count("unpinned") == 1);
    return result;
}

START_TEST(test_unpinned_copies_are_counted)
{
    ck_assert_int_eq(run(unpinned, NULL), 0);
    ck_assert_int_eq(run(unpinned, "FAKECUDA_STRICT=1", NULL),
                     CUDA_ERROR_INVALID_VALUE);
}
END_TEST

static int
pinned_in_part(void)
{
    begin();
    CUdeviceptr address = device(16384);
    char *host = pinned(4096);
    CUstream on = stream();
    HOLDS(CU(cuMemcpyHtoDAsync_v2, address, P(host), P(8192), P(on)) == 1);
    HOLDS(CU(cuMemcpyHtoDAsync_v2, address + 12288, P(host), P(8192), P(on)) ==
          1);
    HOLDS(CU(cuMemcpyHtoDAsync_v2, P(host), P(host), P(8), P(on)) == 1 ||
          count("bad-copy") == 2);
    return 0;
}

START_TEST(test_copies_beyond_memory_are_errors)
{
    ck_assert_int_eq(run(pinned_in_part, NULL), 0);
}
END_TEST

/* A box in a larger one, both ways, against the indices. */
static int
boxes(void)
{
    enum {
        X = 7,
        Y = 5,
        Z = 4
    };
    unsigned char *host = pinned(X * Y * Z), *back;
    CUDA_MEMCPY3D copy = {.srcXInBytes = 2,
                          .srcY = 1,
                          .srcZ = 1,
                          .srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = host,
                          .srcPitch = X,
                          .srcHeight = Y,
                          .dstXInBytes = 1,
                          .dstY = 2,
                          .dstZ = 1,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstPitch = 16,
                          .dstHeight = 6,
                          .WidthInBytes = 4,
                          .Height = 3,
                          .Depth = 2};
    CUdeviceptr address = device(16 * 6 * 4);
    CUstream on = stream();

    for (int i = 0; i < X * Y * Z; i++) {
        host[i] = (unsigned char)i;
    }
    back = pinned(16 * 6 * 4);
    copy.dstDevice = address;
    HOLDS(CU(cuMemsetD8Async, address, P(200), P(16 * 6 * 4), P(on)) == 0);
    HOLDS(CU(cuMemcpy3DAsync_v2, &copy, P(on)) == 0);
    HOLDS(CU(cuMemcpyDtoHAsync_v2, back, P(address), P(16 * 6 * 4), P(on)) ==
          0);
    HOLDS(CU(cuStreamSynchronize, on) == 0);
    for (int z = 0; z < 4; z++) {
        for (int y = 0; y < 6; y++) {
            for (int x = 0; x < 16; x++) {
                int i = x - 1, j = y - 2, k = z - 1, want = 200;
                if (i >= 0 && i < 4 && j >= 0 && j < 3 && k >= 0 && k < 2) {
                    want = i + 2 + (j + 1) * X + (k + 1) * X * Y;
                }
                HOLDS(back[x + 16 * (y + 6 * z)] == want);
            }
        }
    }
    copy.dstPitch = (size_t)1 << 31;
    HOLDS(CU(cuMemcpy3DAsync_v2, &copy, P(on)) == 1);
    copy.dstPitch = 4;
    HOLDS(CU(cuMemcpy3DAsync_v2, &copy, P(on)) == 1);
    return 0;
}

static int
boxes_begin(void)
{
    begin();
    return boxes();
}

START_TEST(test_boxes_are_copied_exactly)
{
    for (int seed = 1; seed <= 4; seed++) {
        ck_assert_int_eq(run_seeded(boxes_begin, seed), 0);
    }
}
END_TEST

/* ---- order ---- */

static int with_wait;

/* 1: right, 2: wrong. */
static int
two_streams(void)
{
    CUevent event;
    int result;

    begin();
    CUdeviceptr address = device(sizeof(int)), other = device(sizeof(int));
    CUstream first = stream(), second = stream();
    HOLDS(CU(cuMemsetD32_v2, address, P(2), P(1)) == 0);
    HOLDS(CU(cuCtxSynchronize, 0) == 0);
    HOLDS(CU(cuEventCreate, &event, P(CU_EVENT_DISABLE_TIMING)) == 0);
    HOLDS(CU(cuMemsetD32Async, address, P(1), P(1), P(first)) == 0);
    HOLDS(CU(cuEventRecord, event, P(first)) == 0);
    if (with_wait) {
        HOLDS(CU(cuStreamWaitEvent, second, P(event), P(0)) == 0);
    }
    HOLDS(CU(cuMemcpyDtoDAsync_v2, other, P(address), P(4), P(second)) == 0);
    HOLDS(CU(cuStreamSynchronize, second) == 0);
    HOLDS(CU(cuMemcpyDtoH_v2, &result, P(other), P(4)) == 0);
    HOLDS(count("race") == (with_wait ? 0 : 1));
    return result;
}

/* Columns of one matrix by two streams: beside each other they do not race,
 * and what the host waited for is over for all. */
static int
neighbours(void)
{
    CUevent event;

    begin();
    CUdeviceptr matrix = device(1000);
    CUstream first = stream(), second = stream();
    HOLDS(CU(cuEventCreate, &event, P(CU_EVENT_DISABLE_TIMING)) == 0);
    HOLDS(CU(cuMemsetD2D8Async, matrix, P(100), P(1), P(60), P(10), P(first)) ==
          0);
    HOLDS(CU(cuMemsetD2D8Async, matrix + 60, P(100), P(1), P(40), P(10),
             P(second)) == 0);
    HOLDS(count("race") == 0);
    HOLDS(CU(cuMemsetD2D8Async, matrix + 59, P(100), P(1), P(2), P(5),
             P(second)) == 0);
    HOLDS(count("race") == 1);
    HOLDS(CU(cuEventRecord, event, P(first)) == 0);
    HOLDS(CU(cuEventSynchronize, event) == 0);
    HOLDS(CU(cuMemsetD2D8Async, matrix, P(100), P(1), P(60), P(10),
             P(second)) == 0);
    HOLDS(count("race") == 1);
    HOLDS(CU(cuMemcpyDtoDAsync_v2, matrix + 900, P(matrix), P(10), P(first)) ==
          0);
    HOLDS(count("race") > 1);
    HOLDS(CU(cuCtxSynchronize, 0) == 0);
    unsigned long before = count("race");
    HOLDS(CU(cuMemsetD8Async, matrix, P(0), P(1000), P(first)) == 0);
    HOLDS(count("race") == before);
    HOLDS(CU(cuStreamSynchronize, first) == 0);
    return 0;
}

START_TEST(test_races)
{
    for (int seed = 1; seed <= 4; seed++) {
        ck_assert_int_eq(run_seeded(neighbours, seed), 0);
    }
}
END_TEST

START_TEST(test_streams_need_waits)
{
    int results[3] = {0};

    for (int seed = 1; seed <= 16; seed++) {
        with_wait = 1;
        ck_assert_int_eq(run_seeded(two_streams, seed), 1);
        with_wait = 0;
        int which = run_seeded(two_streams, seed);
        ck_assert_int_ge(which, 1);
        ck_assert_int_le(which, 2);
        results[which]++;
    }
    ck_assert_int_gt(results[1], 0);
    ck_assert_int_gt(results[2], 0);
}
END_TEST

static int
events(void)
{
    CUevent event, end;
    float ms;

    begin();
    CUstream on = stream();
    HOLDS(CU(cuEventCreate, &event, P(0)) == 0);
    HOLDS(CU(cuEventCreate, &end, P(0)) == 0);
    HOLDS(CU(cuEventQuery, event) == 0);
    HOLDS(CU(cuEventElapsedTime, &ms, P(event), P(end)) == 400);
    HOLDS(CU(cuEventRecord, event, P(on)) == 0);
    stop(on);
    HOLDS(CU(cuEventRecord, end, P(on)) == 0);
    HOLDS(CU(cuEventQuery, end) == CUDA_ERROR_NOT_READY);
    HOLDS(CU(cuStreamQuery, on) == CUDA_ERROR_NOT_READY);
    HOLDS(sem_post(&go) == 0);
    HOLDS(CU(cuEventSynchronize, end) == 0);
    HOLDS(CU(cuEventQuery, end) == 0);
    HOLDS(CU(cuEventElapsedTime, &ms, P(event), P(end)) == 0 && ms >= 0);
    HOLDS(CU(cuEventDestroy_v2, end) == 0);
    HOLDS(CU(cuEventQuery, end) == 400);
    HOLDS(CU(cuEventDestroy_v2, end) == 400);
    HOLDS(CU(cuStreamDestroy_v2, on) == 0);
    HOLDS(CU(cuStreamSynchronize, on) == 400);
    HOLDS(CU(cuEventRecord, event, P(on)) == 400);
    HOLDS(CU(cuStreamSynchronize, 12345) == 400);
    return 0;
}

START_TEST(test_events)
{
    for (int seed = 1; seed <= 4; seed++) {
        ck_assert_int_eq(run_seeded(events, seed), 0);
    }
}
END_TEST

/* The NULL stream waits for blocking streams, and these for it. */
static int
legacy(void)
{
    CUstream blocking;
    int result;

    begin();
    CUdeviceptr address = device(4);
    HOLDS(CU(cuStreamCreate, &blocking, P(0)) == 0);
    stop(blocking);
    HOLDS(CU(cuMemsetD32Async, address, P(1), P(1), P(blocking)) == 0);
    HOLDS(CU(cuMemsetD32Async, address, P(2), P(1), P(NULL)) == 0);
    HOLDS(CU(cuMemsetD32Async, address, P(3), P(1), P(blocking)) == 0);
    HOLDS(sem_post(&go) == 0);
    HOLDS(CU(cuStreamSynchronize, blocking) == 0);
    HOLDS(CU(cuMemcpyDtoH_v2, &result, P(address), P(4)) == 0);
    HOLDS(result == 3);
    return 0;
}

START_TEST(test_null_stream)
{
    for (int seed = 1; seed <= 8; seed++) {
        ck_assert_int_eq(run_seeded(legacy, seed), 0);
    }
}
END_TEST

static int in_callback_status;

static void
in_callback(void *unused)
{
    CUdeviceptr address;

    (void)unused;
    in_callback_status = CU(cuMemAlloc_v2, &address, P(64));
}

static int
callbacks(void)
{
    begin();
    CUstream on = stream();
    HOLDS(CU(cuLaunchHostFunc, on, P(in_callback), P(NULL)) == 0);
    HOLDS(CU(cuStreamSynchronize, on) == 0);
    return in_callback_status == CUDA_ERROR_NOT_PERMITTED ? 0 : 1;
}

START_TEST(test_callbacks_cannot_call)
{
    ck_assert_int_eq(run(callbacks, NULL), 0);
}
END_TEST

/* ---- misuse ---- */

static int
free_in_use(void)
{
    static char own[4096];

    begin();
    CUdeviceptr address = device(4096), spare = device(4096);
    char *host = pinned(4096);
    CUstream on = stream();
    HOLDS(CU(cuMemHostRegister_v2, own, P(sizeof(own)), P(0)) == 0);
    HOLDS(CU(cuMemHostRegister_v2, own, P(sizeof(own)), P(0)) == 712);
    stop(on);
    HOLDS(CU(cuMemcpyHtoDAsync_v2, address, P(host), P(4096), P(on)) == 0);
    HOLDS(CU(cuMemcpyHtoDAsync_v2, address, P(own), P(4096), P(on)) == 0);
    HOLDS(CU(cuMemFree_v2, address) == CUDA_ERROR_ILLEGAL_STATE);
    HOLDS(CU(cuMemFreeHost, host) == CUDA_ERROR_ILLEGAL_STATE);
    HOLDS(CU(cuMemHostUnregister, own) == CUDA_ERROR_ILLEGAL_STATE);
    HOLDS(count("free-in-use") == 3);
    HOLDS(CU(cuMemFree_v2, spare) == 0);
    HOLDS(sem_post(&go) == 0);
    HOLDS(CU(cuStreamSynchronize, on) == 0);
    HOLDS(CU(cuMemFree_v2, address) == 0);
    HOLDS(CU(cuMemFreeHost, host) == 0);
    HOLDS(CU(cuMemHostUnregister, own) == 0);
    HOLDS(CU(cuMemHostUnregister, own) == 713);
    HOLDS(CU(cuMemHostRegister_v2, (void *)4096, P(4096), P(0)) == 1);
    return 0;
}

START_TEST(test_free_in_use)
{
    ck_assert_int_eq(run(free_in_use, NULL), 0);
}
END_TEST

static int
forked(void)
{
    CUdeviceptr address;
    cublasHandle_t handle;
    int status;

    begin();
    HOLDS(CU(cublasCreate_v2, &handle) == 0);
    CUstream on = stream();
    stop(on); /* a lock held, a thread that the child has not */
    while (sem_wait(&held) != 0) { /* it holds no lock of a sanitizer's then */
    }
    pid_t pid = fork();
    if (pid == 0) {
        HOLDS(CU(cuMemAlloc_v2, &address, P(64)) == 3);
        HOLDS(CU(cuInit, 0) == 3);
        HOLDS(CU(cublasSetStream_v2, handle, P(NULL)) == 1);
        HOLDS(CU(cublasDestroy_v2, handle) == 1);
        exit(7); /* its report of leaks is not the child's */
    }
    HOLDS(waitpid(pid, &status, 0) == pid);
    HOLDS(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    HOLDS(sem_post(&go) == 0);
    HOLDS(CU(cuStreamSynchronize, on) == 0);
    HOLDS(CU(cuMemAlloc_v2, &address, P(64)) == 0);
    return 0;
}

START_TEST(test_forked_child_is_refused)
{
    ck_assert_int_eq(run(forked, NULL), 0);
}
END_TEST

static int
no_context(void)
{
    CUdeviceptr address;
    cublasHandle_t handle;
    cusolverDnHandle_t solver;

    HOLDS(CU(cuMemAlloc_v2, &address, P(64)) == CUDA_ERROR_NOT_INITIALIZED);
    HOLDS(CU(cuInit, 0) == 0);
    HOLDS(CU(cuMemAlloc_v2, &address, P(64)) == CUDA_ERROR_INVALID_CONTEXT);
    HOLDS(CU(cublasCreate_v2, &handle) == CUBLAS_STATUS_NOT_INITIALIZED);
    HOLDS(CU(cusolverDnCreate, &solver) == CUSOLVER_STATUS_NOT_INITIALIZED);
    begin();
    HOLDS(CU(cuMemAlloc_v2, &address, P(64)) == 0);
    HOLDS(CU(cuCtxSetCurrent, NULL) == 0);
    HOLDS(CU(cuMemFree_v2, address) == CUDA_ERROR_INVALID_CONTEXT);
    HOLDS(CU(cuDevicePrimaryCtxRelease_v2, 0) == 0);
    HOLDS(CU(cuDevicePrimaryCtxRelease_v2, 0) == CUDA_ERROR_INVALID_CONTEXT);
    HOLDS(CU(cuCtxSetCurrent, context) == 0);
    HOLDS(CU(cuMemAlloc_v2, &address, P(64)) ==
          CUDA_ERROR_CONTEXT_IS_DESTROYED);
    return 0;
}

static int
no_device(void)
{
    int devices = -1;

    HOLDS(CU(cuInit, 0) == CUDA_ERROR_NO_DEVICE);
    HOLDS(CU(cuDeviceGetCount, &devices) == CUDA_ERROR_NOT_INITIALIZED);
    return 0;
}

static int
old_driver(void)
{
    cublasHandle_t handle;
    int version;

    begin();
    HOLDS(CU(cuDriverGetVersion, &version) == 0 && version == 12040);
    HOLDS(CU(cublasCreate_v2, &handle) == CUBLAS_STATUS_NOT_INITIALIZED);
    return 0;
}

static int
two_contexts(void)
{
    CUcontext other;

    begin();
    CUstream on = stream();
    CUdeviceptr address = device(64);
    HOLDS(CU(cuDevicePrimaryCtxRetain, &other, P(1)) == 0);
    HOLDS(CU(cuCtxPushCurrent_v2, other) == 0);
    HOLDS(CU(cuMemsetD8Async, address, P(0), P(64), P(on)) == 400);
    HOLDS(CU(cuCtxPopCurrent_v2, &other) == 0);
    HOLDS(CU(cuMemsetD8Async, address, P(0), P(64), P(on)) == 0);
    HOLDS(CU(cuStreamSynchronize, on) == 0);
    return 0;
}

START_TEST(test_contexts_and_devices)
{
    ck_assert_int_eq(run(no_context, NULL), 0);
    ck_assert_int_eq(run(no_device, "CUDA_VISIBLE_DEVICES=", NULL), 0);
    ck_assert_int_eq(run(no_device, "CUDA_VISIBLE_DEVICES=3", NULL), 0);
    ck_assert_int_eq(run(no_device, "FAKECUDA_DEVICES=0", NULL), 0);
    ck_assert_int_eq(run(old_driver, "FAKECUDA_DRIVER=12040", NULL), 0);
    ck_assert_int_eq(run(two_contexts, "FAKECUDA_DEVICES=2", NULL), 0);
}
END_TEST

/* ---- cuBLAS ---- */

static cublasHandle_t
handle_on(CUstream on)
{
    cublasHandle_t handle;

    HOLDS(CU(cublasCreate_v2, &handle) == 0);
    HOLDS(CU(cublasSetStream_v2, handle, P(on)) == 0);
    return handle;
}

static int
gemm(cublasHandle_t handle, int n, const double *alpha, CUdeviceptr a, int lda,
     CUdeviceptr b, const double *beta, CUdeviceptr c)
{
    return CU(cublasDgemm_v2, handle, P(0), P(0), P(n), P(n), P(n), P(alpha),
              P(a), P(lda), P(b), P(n), P(beta), P(c), P(n));
}

static int
blas_misuse(void)
{
    const double one = 1, zero = 0;

    begin();
    CUstream on = stream();
    cublasHandle_t handle = handle_on(on);
    CUdeviceptr a = device(800), b = device(800), c = device(800);
    HOLDS(gemm(handle, 10, &one, a, 9, b, &zero, c) == 7);
    HOLDS(gemm(handle, -1, &one, a, 10, b, &zero, c) == 7);
    HOLDS(gemm(handle, 10, NULL, a, 10, b, &zero, c) == 7);
    HOLDS(gemm(handle, 10, &one, 0, 10, b, &zero, c) == 7);
    HOLDS(gemm(handle, 10, &one, a + 4, 10, b, &zero, c) == 7);
    HOLDS(gemm(handle, 10, &one, a, 10, b, &zero, c) == 0);
    HOLDS(CU(cublasDestroy_v2, handle) == 0);
    HOLDS(gemm(handle, 10, &one, a, 10, b, &zero, c) == 1);
    HOLDS(CU(cublasDestroy_v2, handle) == 1);
    handle = handle_on(on);
    HOLDS(CU(cuStreamDestroy_v2, on) == 0);
    HOLDS(gemm(handle, 10, &one, a, 10, b, &zero, c) != 0);
    return 0;
}

/* Scalars are read at the call; matrices when the stream comes to it. */
static int
blas_scalars(void)
{
    volatile double alpha = 3, beta = 0;
    double *host;

    begin();
    CUstream on = stream();
    cublasHandle_t handle = handle_on(on);
    CUdeviceptr a = device(8), c = device(8);
    host = pinned(8);
    *host = 2;
    HOLDS(CU(cuMemcpyHtoDAsync_v2, a, P(host), P(8), P(on)) == 0);
    HOLDS(gemm(handle, 1, (const double *)&alpha, a, 1, a,
               (const double *)&beta, c) == 0);
    alpha = 77;
    beta = 77;
    HOLDS(CU(cuStreamSynchronize, on) == 0);
    HOLDS(CU(cuMemcpyDtoHAsync_v2, host, P(c), P(8), P(on)) == 0);
    HOLDS(CU(cuStreamSynchronize, on) == 0);
    HOLDS(*host == 12);
    HOLDS(CU(cublasSetPointerMode_v2, handle, P(1)) == 0);
    HOLDS(gemm(handle, 1, (const double *)(uintptr_t)c, a, 1, a,
               (const double *)(uintptr_t)a, c) == 0);
    HOLDS(CU(cuMemcpyDtoHAsync_v2, host, P(c), P(8), P(on)) == 0);
    HOLDS(CU(cuStreamSynchronize, on) == 0);
    HOLDS(*host == 12 * 4 + 2 * 12);
    return 0;
}

static int
blas_beyond(void)
{
    const double one = 1, zero = 0;

    begin();
    CUstream on = stream();
    cublasHandle_t handle = handle_on(on);
    CUdeviceptr a = device(800), c = device(799);
    HOLDS(gemm(handle, 10, &one, a, 10, a, &zero, c) == 0);
    HOLDS(CU(cuStreamSynchronize, on) == CUDA_ERROR_ILLEGAL_ADDRESS);
    HOLDS(CU(cuMemFree_v2, a) == CUDA_ERROR_ILLEGAL_ADDRESS);
    HOLDS(gemm(handle, 10, &one, a, 10, a, &zero, a) ==
          CUBLAS_STATUS_EXECUTION_FAILED);
    return 0;
}

/* 1: the streams met in the workspace, 0: they did not. */
static int
blas_shared_workspace(void)
{
    const double one = 1, zero = 0;

    begin();
    CUstream on[2] = {stream(), stream()};
    CUdeviceptr space = device(4096);
    for (int i = 0; i < 2; i++) {
        cublasHandle_t handle = handle_on(on[i]);
        CUdeviceptr a = device(800), c = device(800);
        HOLDS(CU(cublasSetWorkspace_v2, handle, P(space), P(4096)) == 0);
        for (int k = 0; k < 20; k++) {
            HOLDS(gemm(handle, 10, &one, a, 10, a, &zero, c) == 0);
        }
    }
    HOLDS(CU(cuCtxSynchronize, 0) == 0);
    return count("workspace-race") != 0;
}

START_TEST(test_blas_misuse)
{
    int met = 0;

    ck_assert_int_eq(run(blas_misuse, NULL), 0);
    ck_assert_int_eq(run(blas_beyond, NULL), 0);
    for (int seed = 1; seed <= 4; seed++) {
        ck_assert_int_eq(run_seeded(blas_scalars, seed), 0);
        met += run_seeded(blas_shared_workspace, seed) == 1;
    }
    ck_assert_int_gt(met, 0);
}
END_TEST

/* ---- kernels ---- */

static const char kernel_source[] =
    "extern \"C\" __global__ void scale(double *out, const double *in,\n"
    "                                  double factor, unsigned n)\n"
    "{\n"
    "    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    if (i < n) out[i] = factor * exp(in[i]) * normcdf(0.0) * 2;\n"
    "}\n"
    "__global__ void mangled(int *) {}\n";

/* The image of the source, or NULL and the status. */
static char *
compile(const char *source, const char *arch, int *status)
{
    const char *options[] = {arch, "--fmad=false"};
    nvrtcProgram program;
    char *image = NULL;
    size_t bytes;

    HOLDS(CU(nvrtcCreateProgram, &program, P(source), P("k.cu"), P(0), P(NULL),
             P(NULL)) == 0);
    *status = CU(nvrtcCompileProgram, program, P(2), P(options));
    if (*status == 0) {
        HOLDS(CU(nvrtcGetPTXSize, program, P(&bytes)) == 0);
        image = malloc(bytes);
        HOLDS(CU(nvrtcGetPTX, program, P(image)) == 0);
    } else if (*status == NVRTC_ERROR_COMPILATION) {
        HOLDS(CU(nvrtcGetProgramLogSize, program, P(&bytes)) == 0);
        image = malloc(bytes);
        HOLDS(CU(nvrtcGetProgramLog, program, P(image)) == 0);
        HOLDS(strstr(image, "k.cu") != NULL);
        free(image);
        image = NULL;
    }
    HOLDS(CU(nvrtcDestroyProgram, &program) == 0);
    return image;
}

static int
launch(CUfunction kernel, unsigned block, void **arguments, CUstream on)
{
    return CU(cuLaunchKernel, kernel, P(2), P(1), P(1), P(block), P(1), P(1),
              P(0), P(on), P(arguments), P(NULL));
}

static int
kernels(void)
{
    double *host, factor = 3;
    unsigned n = 5;
    int status;
    CUmodule module;
    CUfunction kernel;

    begin();
    CUstream on = stream();
    CUdeviceptr in = device(40), out = device(40);
    void *arguments[] = {&out, &in, &factor, &n};
    host = pinned(40);
    for (int i = 0; i < 5; i++) {
        host[i] = i == 0 ? 0 : 99;
    }
    HOLDS(compile("__global__ void f() { wrong; }", "--gpu-architecture=sm_90",
                  &status) == NULL &&
          status == NVRTC_ERROR_COMPILATION);
    HOLDS(compile("#include <stdio.h>\n", "--gpu-architecture=sm_90",
                  &status) == NULL &&
          status == NVRTC_ERROR_COMPILATION);
    HOLDS(compile(kernel_source, "--gpu-architecture=sm_12", &status) == NULL &&
          status == NVRTC_ERROR_INVALID_OPTION);
    char *image =
        compile(kernel_source, "--gpu-architecture=compute_90", &status);
    HOLDS(image != NULL);
    HOLDS(CU(cuModuleLoadData, &module, P("no PTX")) == 200);
    HOLDS(CU(cuModuleLoadData, &module, P(image)) == 0);
    free(image);
    HOLDS(CU(cuModuleGetFunction, &kernel, P(module), P("mangled")) == 500);
    HOLDS(CU(cuModuleGetFunction, &kernel, P(module), P("scale")) == 0);
    HOLDS(CU(cuMemcpyHtoDAsync_v2, in, P(host), P(40), P(on)) == 0);
    HOLDS(launch(kernel, 1025, arguments, on) == 1);
    HOLDS(launch(kernel, 4, arguments, on) == 0);
    factor = 77; /* read at the launch */
    HOLDS(CU(cuMemcpyDtoHAsync_v2, host, P(out), P(40), P(on)) == 0);
    HOLDS(CU(cuStreamSynchronize, on) == 0);
    HOLDS(host[0] == 3 && host[4] > 1e40);
    stop(on);
    HOLDS(launch(kernel, 4, arguments, on) == 0);
    HOLDS(CU(cuMemFree_v2, in) == CUDA_ERROR_ILLEGAL_STATE);
    HOLDS(sem_post(&go) == 0);
    HOLDS(CU(cuModuleUnload, module) == 0);
    HOLDS(launch(kernel, 4, arguments, on) == 400);
    HOLDS(CU(cuStreamSynchronize, on) == 0);
    HOLDS(CU(cuMemFree_v2, in) == 0);
    return 0;
}

static int
kernel_beyond(void)
{
    int status;
    CUmodule module;
    CUfunction kernel;
    double factor = 1;
    unsigned n = 1;
    CUdeviceptr in = 4096;

    begin();
    CUstream on = stream();
    CUdeviceptr out = device(8);
    void *arguments[] = {&out, &in, &factor, &n};
    char *image = compile(kernel_source, "--gpu-architecture=sm_90", &status);
    HOLDS(CU(cuModuleLoadData, &module, P(image)) == 0);
    free(image);
    HOLDS(CU(cuModuleGetFunction, &kernel, P(module), P("scale")) == 0);
    HOLDS(launch(kernel, 1, arguments, on) == 0);
    HOLDS(CU(cuStreamSynchronize, on) == CUDA_ERROR_ILLEGAL_ADDRESS);
    return 0;
}

START_TEST(test_kernels)
{
    if (access("/usr/bin/c++", X_OK) != 0) {
        skip_test("no c++ for the fake NVRTC");
        return;
    }
    ck_assert_int_eq(run(kernels, NULL), 0);
    ck_assert_int_eq(run(kernel_beyond, NULL), 0);
}
END_TEST

/* ---- an older major version ---- */

START_TEST(test_cuda_12_names)
{
    static const char *const names[][2] = {
        {"libcuda.so.1", "cuInit"},
        {"libcublas.so.12", "cublasCreate_v2"},
        {"libcusolver.so.11", "cusolverDnCreate"},
        {"libcufft.so.11", "cufftPlan1d"},
        {"libnvrtc.so.12", "nvrtcCreateProgram"},
    };
    const char *folder = getenv("FERRY_BUILDDIR");

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char path[4096];

        (void)snprintf(path, sizeof(path), "%s/tests/fakecuda/cuda12/%s",
                       folder == NULL ? "." : folder, names[i][0]);
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        ck_assert_msg(library != NULL, "%s", path);
        ck_assert_ptr_nonnull(dlsym(library, names[i][1]));
    }
}
END_TEST

/* ---- injected failures ---- */

static int
sticky(void)
{
    begin();
    CUdeviceptr address = device(64);
    CUstream on = stream();
    HOLDS(CU(cuMemsetD8Async, address, P(0), P(64), P(on)) == 0);
    HOLDS(CU(cuMemsetD8Async, address, P(0), P(64), P(on)) == 0);
    HOLDS(CU(cuStreamSynchronize, on) == CUDA_ERROR_LAUNCH_FAILED);
    HOLDS(CU(cuMemFree_v2, address) == CUDA_ERROR_LAUNCH_FAILED);
    HOLDS(CU(cuStreamSynchronize, on) == CUDA_ERROR_LAUNCH_FAILED);
    return 0;
}

static int
by_number(void)
{
    CUdeviceptr address;

    begin();
    HOLDS(CU(cuMemAlloc_v2, &address, P(64)) == 0);
    HOLDS(CU(cuMemAlloc_v2, &address, P(64)) == 2);
    HOLDS(CU(cuMemAlloc_v2, &address, P(64)) == 0);
    HOLDS(CU(cuMemFree_v2, address) == 0);
    HOLDS(CU(cuMemFree_v2, address) == CUDA_ERROR_UNKNOWN);
    HOLDS(CU(cuMemFree_v2, address) == CUDA_ERROR_UNKNOWN);
    return 0;
}

static int
any_number(void)
{
    CUdeviceptr address;

    begin(); /* three calls */
    HOLDS(CU(cuMemAlloc_v2, &address, P(64)) == 0);
    HOLDS(CU(cuMemFree_v2, address) == 5);
    HOLDS(CU(cuMemFree_v2, address) == 0);
    return 0;
}

/* Each exported function by its name: nothing else of it may run. */
static int
all_names(void)
{
    FILE *names = fopen(getenv("NAMES"), "r");
    char line[128];
    int tried = 0;

    HOLDS(names != NULL);
    while (fgets(line, sizeof(line), names) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        call *function_named = (call *)function(line);
        int status = function_named(0, P(0), P(0), P(0), P(0), P(0), P(0), P(0),
                                    P(0), P(0), P(0), P(0), P(0), P(0), P(0),
                                    P(0), P(0), P(0), P(0), P(0));
        if (status != 77) {
            (void)fprintf(stderr, "%s: %d\n", line, status);
            return 1;
        }
        tried++;
    }
    (void)fclose(names);
    HOLDS(tried > 300);
    return 0;
}

static char *
fail_all_names(const char *path)
{
    FILE *names = fopen(path, "r");
    static char setting[65536];
    char line[128];
    size_t length = (size_t)snprintf(setting, sizeof(setting), "FAKECUDA_FAIL");

    ck_assert_ptr_nonnull(names);
    while (fgets(line, sizeof(line), names) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        length += (size_t)snprintf(setting + length, sizeof(setting) - length,
                                   "%c%s:1:77", setting[13] == '\0' ? '=' : ',',
                                   line);
    }
    (void)fclose(names);
    ck_assert_uint_lt(length, sizeof(setting) - 1);
    return setting;
}

START_TEST(test_failures_by_number)
{
    char path[4096], names[4200];
    const char *folder = getenv("FERRY_BUILDDIR");

    ck_assert_int_eq(run(sticky, "FAKECUDA_FAIL_ASYNC=2", NULL), 0);
    ck_assert_int_eq(
        run(by_number, "FAKECUDA_FAIL=cuMemAlloc_v2:2:2,cuMemFree_v2:2+", NULL),
        0);
    ck_assert_int_eq(run(any_number, "FAKECUDA_FAIL_ANY=5:5", NULL), 0);
    (void)snprintf(path, sizeof(path), "%s/tests/fakecuda/names",
                   folder == NULL ? "." : folder);
    (void)snprintf(names, sizeof(names), "NAMES=%s", path);
    ck_assert_int_eq(run(all_names, names, fail_all_names(path), NULL), 0);
}
END_TEST

/* ---- the log ---- */

static int
leaks(void)
{
    CUevent event;
    cublasHandle_t handle;

    begin();
    (void)device(1000);
    (void)pinned(2000);
    (void)stream();
    HOLDS(CU(cuEventCreate, &event, P(0)) == 0);
    HOLDS(CU(cublasCreate_v2, &handle) == 0);
    HOLDS(count("calls") == 8 && count("cuEventCreate") == 1);
    return 0;
}

static int
no_leaks(void)
{
    cublasHandle_t handle;

    begin();
    CUdeviceptr address = device(1000);
    void *host = pinned(2000);
    CUstream on = stream();
    HOLDS(CU(cublasCreate_v2, &handle) == 0);
    HOLDS(CU(cublasDestroy_v2, handle) == 0);
    HOLDS(CU(cuStreamDestroy_v2, on) == 0);
    HOLDS(CU(cuMemFreeHost, host) == 0);
    HOLDS(CU(cuMemFree_v2, address) == 0);
    return 0;
}

/* How many lines of the file contain the word. */
static int
lines_with(const char *path, const char *word)
{
    FILE *file = fopen(path, "r");
    char line[1024];
    int found = 0;

    ck_assert_ptr_nonnull(file);
    while (fgets(line, sizeof(line), file) != NULL) {
        found += strstr(line, word) != NULL;
    }
    (void)fclose(file);
    return found;
}

START_TEST(test_log)
{
    char path[] = "/tmp/fakecuda.XXXXXX", setting[64];
    int file = mkstemp(path);

    ck_assert_int_ge(file, 0);
    (void)close(file);
    (void)snprintf(setting, sizeof(setting), "FAKECUDA_LOG=%s", path);
    ck_assert_int_eq(run(no_leaks, setting, NULL), 0);
    ck_assert_int_eq(lines_with(path, "leak:"), 0);
    ck_assert_int_eq(lines_with(path, " cuMemAlloc_v2 = 0"), 1);
    ck_assert_int_eq(lines_with(path, "0 leaks"), 1);
    ck_assert_int_eq(run(leaks, setting, NULL), 0);
    ck_assert_int_eq(lines_with(path, "leak: 1000 bytes of device"), 1);
    ck_assert_int_eq(lines_with(path, "leak: 2000 bytes of pinned"), 1);
    ck_assert_int_eq(lines_with(path, "of cuStreamCreate"), 1);
    ck_assert_int_eq(lines_with(path, "of cuEventCreate"), 1);
    ck_assert_int_eq(lines_with(path, "of cublasCreate"), 1);
    ck_assert_int_eq(lines_with(path, "6 leaks"), 1);
    (void)unlink(path);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("fakecuda");
    TCase *cases = tcase_create("fakecuda");

    tcase_set_timeout(cases, 60);
    tcase_add_test(cases, test_host_cannot_touch_device_memory);
    tcase_add_test(cases, test_memory_is_limited_and_dirty);
    tcase_add_test(cases, test_copies_are_seen_late_or_soon);
    tcase_add_test(cases, test_unpinned_copies_are_counted);
    tcase_add_test(cases, test_copies_beyond_memory_are_errors);
    tcase_add_test(cases, test_boxes_are_copied_exactly);
    tcase_add_test(cases, test_streams_need_waits);
    tcase_add_test(cases, test_races);
    tcase_add_test(cases, test_events);
    tcase_add_test(cases, test_null_stream);
    tcase_add_test(cases, test_callbacks_cannot_call);
    tcase_add_test(cases, test_free_in_use);
    tcase_add_test(cases, test_forked_child_is_refused);
    tcase_add_test(cases, test_contexts_and_devices);
    tcase_add_test(cases, test_blas_misuse);
    tcase_add_test(cases, test_kernels);
    tcase_add_test(cases, test_cuda_12_names);
    tcase_add_test(cases, test_failures_by_number);
    tcase_add_test(cases, test_log);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
