/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA device inside a process that forks, exits, cancels threads and
 * handles signals in the middle of its work, or that has page-locked memory of
 * its own; on the fake driver. Nothing may hang or crash, and no call may reach
 * the driver from a child or after its end. Long because each process is another
 * story.
 */
#include "config.h"

#include <check.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pager/device/cuda/internal.h"
#include "tests/patience.h"
#include "tests/unit/cuda_rig.h"
#include "tests/unit/cuda_run.h"
#include "tests/unit/possible.h"
#include "tests/unit/runner.h"

static int
use_inherited(struct cuda_run *run)
{
    const struct fy_device_ops *ops = run->ops;
    struct fy_copy c = cuda_run_copy(FY_TO_DEVICE, run->host_a, run->a);
    struct fy_stream *stream;
    struct fy_event *event;
    struct fy_device *own;
    uint64_t address;
    unsigned long calls = cuda_count("calls");
    bool refused = ops->inherited(run->device) &&
                   ops->copy(run->in, &c) == FY_ERR_DEVICE &&
                   cuda_run_gemm(run, CUDA_RUN_N) != 0 &&
                   ops->event_record(run->in, run->copied) == FY_ERR_DEVICE &&
                   ops->event_wait(run->in, run->copied) == FY_ERR_DEVICE &&
                   ops->event_sync(run->copied) == FY_ERR_DEVICE &&
                   ops->stream_sync(run->in) == FY_ERR_DEVICE &&
                   ops->alloc(run->device, 8, &address) == FY_ERR_DEVICE &&
                   ops->event_create(run->device, &event) == FY_ERR_DEVICE &&
                   ops->stream_create(run->device, FY_STREAM_COPY_IN,
                                      &stream) == FY_ERR_DEVICE &&
                   ops->error_text(run->device)[0] != '\0';
    ops->free(run->device, run->a);
    ops->stream_destroy(run->in);
    ops->event_destroy(run->copied);
    ops->close(run->device);
    if (ops->open(CUDA_RUN_BYTES, &own) != FY_ERR_NOENT ||
        strstr(ops->error_text(NULL), "forked child") == NULL) {
        return 2;
    }
    return !refused ? 3 : cuda_count("calls") != calls ? 4 : 0;
}

START_TEST(test_fork_while_busy)
{
    struct cuda_run run;
    ck_assert(cuda_run_begin(&run, CUDA_RUN_BYTES));
    for (int round = 0; round < 20; round++) {
        cuda_run_enqueue(&run, round % 2 == 0);
        pid_t pid = fork();
        ck_assert_int_ge(pid, 0);
        if (pid == 0) {
            alarm((unsigned)patient(60));
            int outcome = use_inherited(&run);
#ifndef __SANITIZE_ADDRESS__ /* what gone threads had in hand is no leak */
            if (round % 4 == 0) {
                /* Handlers of the parent's exit run here, too. */
                exit(outcome); /* NOLINT(concurrency-mt-unsafe) */
            }
#endif
            _exit(outcome);
        }
        int status;
        cuda_run_drain(&run);
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_int_eq(status, 0);
        ck_assert_int_eq(run.status, 0);
    }
    cuda_run_end(&run);
}
END_TEST

static struct cuda_run shared;

/* Copies without end; the device refuses when the process exits. */
static void *
keep_busy(void *argument)
{
    struct cuda_run *run = argument;
    for (;;) {
        struct fy_copy c = cuda_run_copy(FY_TO_DEVICE, run->host_a, run->a);
        int status = run->ops->copy(run->in, &c);
        for (int i = 0; i < 8 && status == 0; i++) {
            status = run->ops->copy(run->in, &c);
        }
        if (status == 0) {
            status = cuda_run_gemm(run, CUDA_RUN_N);
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
    if (!cuda_run_begin(&shared, CUDA_RUN_BYTES) ||
        pthread_create(&thread, NULL, keep_busy, &shared) != 0) {
        return 3;
    }
    (void)pthread_detach(thread);
    usleep((useconds_t)(getpid() % 17) * 1000);
    alarm((unsigned)patient(60));
    exit(0); /* NOLINT(concurrency-mt-unsafe): that is the test */
}

START_TEST(test_exit_while_busy)
{
    for (int round = 0; round < 30; round++) {
        ck_assert_int_eq(cuda_in_child(NULL, NULL, exit_while_busy), 0);
    }
}
END_TEST

/* A handler of the program's that was registered before CUDA came. */
static void
use_late(void)
{
    int status = shared.ops->stream_sync(shared.in);
    struct fy_copy c = cuda_run_copy(FY_TO_DEVICE, shared.host_a, shared.a);
    if (status != FY_ERR_DEVICE ||
        shared.ops->copy(shared.in, &c) != FY_ERR_DEVICE) {
        _exit(5);
    }
    cuda_run_end(&shared);
}

static int
use_after_exit(void)
{
    if (atexit(use_late) != 0 || !cuda_run_begin(&shared, CUDA_RUN_BYTES)) {
        return 3;
    }
    cuda_run_enqueue(&shared, true);
    alarm((unsigned)patient(60));
    exit(0); /* NOLINT(concurrency-mt-unsafe): that is the test */
}

START_TEST(test_use_after_exit)
{
    ck_assert_int_eq(cuda_in_child(NULL, NULL, use_after_exit), 0);
}
END_TEST

/* --- a call that is given up at exit --- */

static double *landing; /* what is copied to, in a thread that waits */
static size_t landing_bytes;
static pthread_t waiter;
static void *cuda;

/* Waits as a call does that then puts back what was there before. */
static void *
wait_and_undo(void *unused)
{
    (void)unused;
    while (shared.ops->memory_bytes(shared.device) != 0) {
        usleep(1000); /* until the process exits */
    }
    (void)shared.ops->stream_sync(shared.out);
    memset(landing, 0x55, landing_bytes);
    return NULL;
}

/* Runs after ferry's own part of the exit, and before the driver's. */
static void
look_at_landing(void)
{
    int (*push)(void *), (*wait)(void);
    *(void **)&push = dlsym(cuda, "cuCtxPushCurrent_v2");
    *(void **)&wait = dlsym(cuda, "cuCtxSynchronize");
    if (push == NULL || wait == NULL || pthread_join(waiter, NULL) != 0 ||
        push(((struct cuda_device *)shared.device)->context) != 0 ||
        wait() != 0) {
        _exit(3);
    }
    for (size_t i = 0; i < landing_bytes; i++) {
        if (((unsigned char *)landing)[i] != 0x55) {
            _exit(4);
        }
    }
}

static int
exit_while_copies_land(bool locked)
{
    const struct fy_cuda_driver *driver;
    char why[FY_CUDA_TEXT_BYTES];
    fy_cuda_handle context, popped;
    void *memory = NULL;
    landing_bytes = (size_t)(CUDA_RUN_N + 1) * CUDA_RUN_N * sizeof(double);
    cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (cuda == NULL || atexit(look_at_landing) != 0 ||
        !cuda_run_begin(&shared, CUDA_RUN_BYTES) ||
        fy_cuda_driver_get(&driver, why) != 0) {
        return 3;
    }
    context = ((struct cuda_device *)shared.device)->context;
    if (shared.status != 0 || driver->context_push(context) != 0 ||
        driver->host_alloc(&memory, landing_bytes, 0) != 0 ||
        driver->context_pop(&popped) != 0) {
        return 3;
    }
    landing = locked ? memory : malloc(landing_bytes);
    struct fy_copy c = cuda_run_copy(FY_TO_HOST, landing, shared.c);
    if (landing == NULL || shared.ops->copy(shared.out, &c) != 0 ||
        pthread_create(&waiter, NULL, wait_and_undo, NULL) != 0) {
        return 3;
    }
    /* Until the copy is on its way. */
    while (cuda_count("cuMemcpy2DAsync_v2") +
               cuda_count("cuMemcpyDtoHAsync_v2") ==
           0) {
        usleep(1000);
    }
    exit(0); /* NOLINT(concurrency-mt-unsafe): that is the test */
}

static int
exit_while_locked_copies_land(void)
{
    return exit_while_copies_land(true);
}

static int
exit_while_copies_are_unpacked(void)
{
    return exit_while_copies_land(false);
}

/* Within the time that an exit waits, and long after it. */
START_TEST(test_no_undo_before_copies_have_landed)
{
    static const char *const slow[] = {
        "cuMemcpy2DAsync:500000", "cuMemcpy2DAsync:4000000",
        "cuMemcpyDtoHAsync:500000", "cuMemcpyDtoHAsync:4000000"};
    int outcome = cuda_in_child("FAKECUDA_SLOW", slow[_i],
                                _i < 2 ? exit_while_locked_copies_land
                                       : exit_while_copies_are_unpacked);
    ck_assert_int_eq(outcome, 0);
}
END_TEST

static void *
wait_for_it(void *argument)
{
    struct cuda_run *run = argument;
    for (;;) {
        cuda_run_enqueue(run, false);
        cuda_run_drain(run);
        pthread_testcancel();
    }
    return NULL;
}

START_TEST(test_cancelled_thread)
{
    struct cuda_run run;
    ck_assert(cuda_run_begin(&run, CUDA_RUN_BYTES));
    for (int round = 0; round < 10; round++) {
        pthread_t thread;
        void *result;
        ck_assert_int_eq(pthread_create(&thread, NULL, wait_for_it, &run), 0);
        usleep((useconds_t)round * 700);
        ck_assert_int_eq(pthread_cancel(thread), 0);
        ck_assert_int_eq(pthread_join(thread, &result), 0);
        ck_assert_ptr_eq(result, PTHREAD_CANCELED);
        cuda_run_drain(&run); /* no lock was left behind */
        ck_assert_int_eq(run.status, 0);
    }
    cuda_run_end(&run);
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
    struct cuda_run run;
    sigset_t one, before;
    main_thread = pthread_self();
    signal(SIGUSR1, on_signal);
    ck_assert(cuda_run_begin(&run, CUDA_RUN_BYTES));
    cuda_run_enqueue(&run, true);
    cuda_run_drain(&run);
    ck_assert_int_eq(run.status, 0);
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    ck_assert_int_eq(pthread_sigmask(SIG_BLOCK, &one, &before), 0);
    ck_assert_int_eq(kill(getpid(), SIGUSR1), 0);
    usleep(20000);
    ck_assert_int_eq(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
    ck_assert_int_eq(handled_elsewhere, 0);
    cuda_run_end(&run);
}
END_TEST

/* --- a locked loader --- */

static struct cuda_run constructed;
static enum {
    BEGIN,
    USE_OPEN,
    WAIT
} in_constructor;
static pthread_barrier_t loading;

void fy_constructor_hook(void);

/* A whole call: threads of ours would look up cuBLAS's functions. */
__attribute__((visibility("default"))) void
fy_constructor_hook(void)
{
    if (in_constructor == WAIT) {
        pthread_barrier_wait(&loading);
        pthread_barrier_wait(&loading);
    } else if (in_constructor == USE_OPEN ||
               cuda_run_begin(&constructed, CUDA_RUN_BYTES)) {
        cuda_run_enqueue(&constructed, true);
        cuda_run_drain(&constructed);
    }
}

static void *
load_library(void *unused)
{
    const char *build = getenv("FERRY_BUILDDIR");
    char path[4096];
    (void)unused;
    (void)snprintf(path, sizeof path, "%s/tests/unit/.libs/constructor.so",
                   build == NULL ? "." : build);
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

/* The device is open, but its streams have no handles of cuBLAS yet. */
START_TEST(test_constructor_with_an_open_device)
{
    alarm((unsigned)patient(100));
    in_constructor = USE_OPEN;
    ck_assert(cuda_run_begin(&constructed, CUDA_RUN_BYTES));
    void *library = load_library(NULL);
    ck_assert_ptr_nonnull(library);
    ck_assert_int_eq(constructed.status, FY_ERR_BUSY);
    ck_assert_ptr_nonnull(
        strstr(constructed.ops->error_text(constructed.device), "constructor"));
    constructed.status = 0;
    cuda_run_enqueue(&constructed, true);
    cuda_run_drain(&constructed);
    ck_assert_int_eq(constructed.status, 0);
    ck_assert(cuda_run_is_right(&constructed, 2));
    cuda_run_end(&constructed);
    dlclose(library);
}
END_TEST

/* Another thread is in dlopen(), for as long as it likes. */
START_TEST(test_another_thread_loads)
{
    struct cuda_run run;
    pthread_t loader;
    void *library;
    alarm((unsigned)patient(100));
    in_constructor = WAIT;
    ck_assert_int_eq(pthread_barrier_init(&loading, NULL, 2), 0);
    ck_assert_int_eq(pthread_create(&loader, NULL, load_library, NULL), 0);
    pthread_barrier_wait(&loading);
    ck_assert(!cuda_run_begin(&run, CUDA_RUN_BYTES));
    ck_assert_int_eq(run.status, FY_ERR_BUSY);
    pthread_barrier_wait(&loading);
    ck_assert_int_eq(pthread_join(loader, &library), 0);
    ck_assert_ptr_nonnull(library);
    cuda_run_end(&run);
    ck_assert(cuda_run_begin(&run, CUDA_RUN_BYTES));
    cuda_run_enqueue(&run, true);
    cuda_run_drain(&run);
    ck_assert_int_eq(run.status, 0);
    cuda_run_end(&run);
    dlclose(library);
}
END_TEST

START_TEST(test_constructor_runs_without)
{
    const char *build = getenv("FERRY_BUILDDIR");
    char path[4096];
    struct fy_device *device;
    (void)snprintf(path, sizeof path, "%s/tests/unit/.libs/constructor.so",
                   build == NULL ? "." : build);
    alarm((unsigned)patient(100));
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(library != NULL, "%s", dlerror());
    ck_assert_int_eq(constructed.status, FY_ERR_BUSY);
    const struct fy_device_ops *ops = fy_device_find("cuda");
    ck_assert_ptr_nonnull(strstr(ops->error_text(NULL), "constructor"));
    ck_assert_int_eq(ops->open(CUDA_RUN_BYTES, &device), 0);
    ops->close(device);
    cuda_run_end(&constructed);
    dlclose(library);
}
END_TEST

/* --- page-locked memory of the program --- */

START_TEST(test_locked_memory_goes_straight)
{
    struct cuda_run run;
    const struct fy_cuda_driver *driver;
    char why[FY_CUDA_TEXT_BYTES];
    fy_cuda_handle context, popped;
    void *memory;
    int unit;
    ck_assert(cuda_run_begin(&run, CUDA_RUN_BYTES));
    ck_assert_int_eq(fy_cuda_driver_get(&driver, why), 0);
    ck_assert_int_eq(driver->device_get(&unit, 0), 0);
    ck_assert_int_eq(driver->context_retain(&context, unit), 0);
    ck_assert_int_eq(driver->context_push(context), 0);
    size_t bytes = (size_t)(CUDA_RUN_N + 1) * CUDA_RUN_N * sizeof(double);
    ck_assert_int_eq(driver->host_alloc(&memory, 2 * bytes, 0), 0);
    double *from = memory, *to = from + (size_t)(CUDA_RUN_N + 1) * CUDA_RUN_N;
    for (int i = 0; i < (CUDA_RUN_N + 1) * CUDA_RUN_N; i++) {
        from[i] = i;
        to[i] = -1;
    }
    struct fy_copy c = cuda_run_copy(FY_TO_DEVICE, from, run.a);
    unsigned long rings = cuda_count("cuMemHostAlloc");
    ck_assert_int_eq(run.ops->copy(run.in, &c), 0);
    ck_assert_int_eq(run.ops->stream_sync(run.in), 0);
    c = cuda_run_copy(FY_TO_HOST, to, run.a);
    ck_assert_int_eq(run.ops->copy(run.out, &c), 0);
    ck_assert_int_eq(run.ops->stream_sync(run.out), 0);
    for (int j = 0; j < CUDA_RUN_N; j++) {
        for (int i = 0; i <= CUDA_RUN_N; i++) {
            int at = (CUDA_RUN_N + 1) * j + i;
            ck_assert_double_eq(to[at], i < CUDA_RUN_N ? at : -1);
        }
    }
    ck_assert_uint_eq(cuda_count("cuMemHostAlloc"), rings);
    ck_assert_uint_eq(cuda_count("cuMemcpy2DAsync_v2"), 2);
    ck_assert_int_eq(driver->host_free(memory), 0);
    ck_assert_int_eq(driver->context_pop(&popped), 0);
    ck_assert_ptr_eq(popped, context);
    ck_assert_int_eq(driver->context_release(unit), 0);
    cuda_run_end(&run);
}
END_TEST

/* A copy that the card makes on its own time, and nobody waits for but the end of
 * its stream. */
static int
drop_a_busy_stream(void)
{
    const struct fy_cuda_driver *driver;
    char why[FY_CUDA_TEXT_BYTES];
    fy_cuda_handle context, popped;
    void *memory;
    struct fy_stream *stream;
    const size_t count = (size_t)(CUDA_RUN_N + 1) * CUDA_RUN_N;
    if (!cuda_run_begin(&shared, CUDA_RUN_BYTES) ||
        fy_cuda_driver_get(&driver, why) != 0) {
        return 3;
    }
    context = ((struct cuda_device *)shared.device)->context;
    if (driver->context_push(context) != 0 ||
        driver->host_alloc(&memory, 2 * count * sizeof(double), 0) != 0 ||
        driver->context_pop(&popped) != 0) {
        return 3;
    }
    double *from = memory, *to = from + count;
    for (size_t i = 0; i < count; i++) {
        from[i] = (double)i;
        to[i] = -1;
    }
    struct fy_copy c = cuda_run_copy(FY_TO_DEVICE, from, shared.a);
    if (shared.ops->copy(shared.in, &c) != 0 ||
        shared.ops->stream_sync(shared.in) != 0 ||
        shared.ops->stream_create(shared.device, FY_STREAM_COPY_OUT, &stream) !=
            0) {
        return 3;
    }
    c = cuda_run_copy(FY_TO_HOST, to, shared.a);
    if (shared.ops->copy(stream, &c) != 0) {
        return 3;
    }
    shared.ops->stream_destroy(stream);
    /* The last element that is copied. */
    return to[count - 2] == (double)(count - 2) ? 0 : 1;
}

START_TEST(test_drop_a_busy_stream)
{
    ck_assert_int_eq(cuda_in_child("FAKECUDA_SLOW", "cuMemcpy2DAsync:200000",
                                   drop_a_busy_stream),
                     0);
}
END_TEST

/* --- a program that uses CUDA itself --- */

/* Its context is the current one before and after every operation of ours. */
START_TEST(test_context_of_the_program_stays)
{
    struct cuda_run run;
    const struct fy_cuda_driver *driver;
    char why[FY_CUDA_TEXT_BYTES];
    fy_cuda_handle context, popped;
    uint64_t address;
    (void)setenv("FAKECUDA_DEVICES", "2", 1);
    ck_assert_int_eq(fy_cuda_driver_get(&driver, why), 0);
    ck_assert_int_eq(driver->context_retain(&context, 1), 0);
    ck_assert_int_eq(driver->context_push(context), 0);
    ck_assert(cuda_run_begin(&run, CUDA_RUN_BYTES));
    ck_assert_int_eq(driver->alloc(&address, 256), 0);
    ck_assert_int_eq(driver->free(address), 0);
    cuda_run_enqueue(&run, true);
    cuda_run_drain(&run);
    ck_assert_int_eq(run.status, 0);
    ck_assert(cuda_run_is_right(&run, 2));
    cuda_run_end(&run);
    ck_assert_int_eq(driver->context_pop(&popped), 0);
    ck_assert_ptr_eq(popped, context);
    ck_assert_int_ne(driver->context_pop(&popped), 0); /* none below it */
    ck_assert_int_eq(driver->context_release(1), 0);
    ck_assert_uint_eq(cuda_faults(), 0);
}
END_TEST

static size_t
free_bytes(const struct fy_cuda_driver *driver)
{
    size_t unused = 0, total;
    ck_assert_int_eq(driver->memory_info(&unused, &total), 0);
    return unused;
}

/* Once no call has any, soon all of it is the program's again: with the program's
 * use of CUDA (_i 1) all but a little at once. */
START_TEST(test_idle_memory_goes_back)
{
    const uint64_t most = 800 << 20;
    const struct fy_cuda_driver *driver;
    char why[FY_CUDA_TEXT_BYTES];
    struct fy_device *device;
    fy_cuda_handle context, popped;
    const struct fy_device_ops *ops = fy_device_find("cuda");
    uint64_t address;
    (void)setenv("FAKECUDA_DIRTY", "4K", 1);
    if (_i == 1) {
        ck_assert_ptr_nonnull(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL));
    }
    ck_assert_int_eq(ops->open(0, &device), 0);
    ck_assert_int_eq(fy_cuda_driver_get(&driver, why), 0);
    ck_assert_int_eq(driver->context_retain(&context, 0), 0);
    ck_assert_int_eq(driver->context_push(context), 0);
    size_t before = free_bytes(driver);
    for (int round = 0; round < 2; round++) {
        ck_assert_int_eq(ops->alloc(device, most, &address), 0);
        ck_assert_uint_lt(free_bytes(driver), before - most + 1);
        ops->free(device, address);
        if (_i == 1) {
            ck_assert_uint_ge(free_bytes(driver), before - (64 << 20));
        }
        for (long i = patient(6000); i > 0 && free_bytes(driver) < before;
             i++) {
            usleep(10000);
        }
        ck_assert_uint_eq(free_bytes(driver), before);
    }
    ck_assert_int_eq(driver->alloc(&address, before - (4 << 20)), 0);
    ck_assert_int_eq(driver->free(address), 0);
    ck_assert_int_eq(driver->context_pop(&popped), 0);
    ck_assert_int_eq(driver->context_release(0), 0);
    ops->close(device);
}
END_TEST

/* Calls go on while the program captures a stream, and do not spoil the capture;
 * its own thread's mode is what it was. */
START_TEST(test_beside_a_capture)
{
    struct cuda_run run;
    const struct fy_cuda_driver *driver;
    char why[FY_CUDA_TEXT_BYTES];
    fy_cuda_handle context, popped, stream;
    void *graph;
    uint64_t address;
    int (*begin)(void *, int), (*end)(void *, void **), mode = 0;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    ck_assert_ptr_nonnull(library);
    *(void **)&begin = dlsym(library, "cuStreamBeginCapture_v2");
    *(void **)&end = dlsym(library, "cuStreamEndCapture");
    ck_assert(begin != NULL && end != NULL);
    ck_assert_int_eq(fy_cuda_driver_get(&driver, why), 0);
    ck_assert_int_eq(driver->context_retain(&context, 0), 0);
    ck_assert_int_eq(driver->context_push(context), 0);
    ck_assert_int_eq(driver->stream_create(&stream, 1), 0);
    ck_assert_int_eq(begin(stream, 0), 0);
    ck_assert(cuda_run_begin(&run, CUDA_RUN_BYTES));
    cuda_run_enqueue(&run, true);
    cuda_run_drain(&run);
    ck_assert_int_eq(run.status, 0);
    ck_assert(cuda_run_is_right(&run, 2));
    cuda_run_end(&run);
    ck_assert_int_eq(end(stream, &graph), 0);
    ck_assert_int_eq(driver->capture_mode(&mode), 0);
    ck_assert_int_eq(mode, 0);
    /* The fake does refuse what a program may not do. */
    ck_assert_int_eq(begin(stream, 0), 0);
    ck_assert_int_eq(driver->alloc(&address, 256), 900);
    ck_assert_int_eq(end(stream, &graph), 901);
    ck_assert_int_eq(driver->stream_destroy(stream), 0);
    ck_assert_int_eq(driver->context_pop(&popped), 0);
    ck_assert_int_eq(driver->context_release(0), 0);
    ck_assert_uint_eq(cuda_faults(), 0);
}
END_TEST

static void *
sleep_on(void *unused)
{
    (void)unused;
    pause();
    return NULL;
}

/* The first thread is bound to one processor, by itself or by an OpenMP runtime:
 * the copying threads use all that the process may, and it stays bound. */
START_TEST(test_bound_thread)
{
    struct cuda_run run;
    pthread_t other;
    cpu_set_t all, one;
    ck_assert_int_eq(sched_getaffinity(0, sizeof all, &all), 0);
    if (CPU_COUNT(&all) < 2) {
        skip_test("one processor");
        return;
    }
    if (_i == 0) {
        ck_assert_int_eq(pthread_create(&other, NULL, sleep_on, NULL), 0);
        size_t cpu = 0;
        while (!CPU_ISSET(cpu, &all)) {
            cpu++;
        }
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        ck_assert_int_eq(sched_setaffinity(0, sizeof one, &one), 0);
    } else {
        ck_assert_int_eq(setenv("OMP_PROC_BIND", "true", 1), 0);
        ck_assert_int_eq(setenv("OMP_PLACES", "threads", 1), 0);
        if (dlopen("libgomp.so.1", RTLD_NOW | RTLD_LOCAL) == NULL) {
            skip_test("no libgomp");
            return;
        }
    }
    ck_assert_int_eq(sched_getaffinity(0, sizeof one, &one), 0);
    if (CPU_COUNT(&one) > 1) {
        skip_test("this runtime binds nothing yet");
        return;
    }
    ck_assert(cuda_run_begin(&run, CUDA_RUN_BYTES));
    cuda_run_enqueue(&run, false);
    cuda_run_drain(&run);
    ck_assert_int_eq(run.status, 0);
    /* One block of slots for each of them. */
    unsigned long wanted = (unsigned long)CPU_COUNT(&all);
    wanted = wanted > 12 ? 12 : wanted;
    for (long i = patient(6000); i > 0 && cuda_count("cuMemHostAlloc") < wanted;
         i++) {
        usleep(10000);
    }
    ck_assert_uint_ge(cuda_count("cuMemHostAlloc"), wanted);
    cpu_set_t now;
    ck_assert_int_eq(sched_getaffinity(0, sizeof now, &now), 0);
    ck_assert(CPU_EQUAL(&now, &one));
    cuda_run_end(&run);
}
END_TEST

/* Parts of one card (MIG) are told apart, by what is kept of them and shared. */
START_TEST(test_parts_of_a_card_have_names)
{
    const struct fy_device_ops *ops = fy_device_find("cuda");
    struct fy_device *devices[2];
    char names[2][64];
    (void)setenv("FAKECUDA_MIG", "1", 1);
    (void)setenv("FAKECUDA_DEVICES", "2", 1);
    for (unsigned i = 0; i < 2; i++) {
        ops->choose(i);
        ck_assert_int_eq(ops->open(CUDA_RUN_BYTES, &devices[i]), 0);
        ck_assert_int_eq(ops->identity(devices[i], names[i], sizeof names[i]),
                         0);
    }
    ck_assert_str_ne(names[0], names[1]);
    ops->close(devices[0]);
    ops->close(devices[1]);
}
END_TEST

static uint64_t
kept_bytes(struct cuda_memory *m)
{
    ck_assert_int_eq(pthread_mutex_lock(&m->lock), 0);
    uint64_t kept = m->kept_bytes;
    ck_assert_int_eq(pthread_mutex_unlock(&m->lock), 0);
    return kept;
}

/* The workspace of the last factorisation goes back, too. */
START_TEST(test_idle_workspace_goes_back)
{
    struct cuda_run run;
    ck_assert(cuda_run_begin(&run, CUDA_RUN_BYTES));
    struct cuda_memory *m = &((struct cuda_device *)run.device)->memory;
    const uint64_t info_bytes = 256;
    for (int round = 0; round < 2; round++) {
        cuda_run_enqueue(&run, true);
        cuda_run_drain(&run);
        ck_assert_int_eq(run.status, 0);
        for (long i = patient(6000); i > 0 && kept_bytes(m) > info_bytes; i++) {
            usleep(10000);
        }
        ck_assert_uint_eq(kept_bytes(m), info_bytes);
    }
    cuda_run_end(&run);
    ck_assert_uint_eq(cuda_faults(), 0);
}
END_TEST

/*
 * It resets the card and takes memory: that may be where ours was. Nothing of
 * ours touches it, and every operation says that it cannot go on.
 */
START_TEST(test_program_resets_the_card)
{
    struct cuda_run run;
    const struct fy_cuda_driver *driver;
    char why[FY_CUDA_TEXT_BYTES];
    fy_cuda_handle context, popped;
    uint64_t address;
    int (*reset)(int), unit;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    ck_assert_ptr_nonnull(library);
    *(void **)&reset = dlsym(library, "cuDevicePrimaryCtxReset_v2");
    ck_assert_ptr_nonnull(reset);
    (void)setenv("FAKECUDA_MEMORY", "8M", 1); /* addresses come back soon */
    ck_assert(cuda_run_begin(&run, CUDA_RUN_BYTES));
    cuda_run_enqueue(&run, true);
    cuda_run_drain(&run);
    ck_assert_int_eq(run.status, 0);
    const struct fy_device_ops *ops = run.ops;
    struct fy_copy in = cuda_run_copy(FY_TO_DEVICE, run.host_a, run.a);
    if (_i == 1) {
        /* Its error stays with the stream, as what the next drain tells. */
        ck_assert_int_eq(cuda_run_gemm(&run, 1), 0);
    }
    ck_assert_int_eq(fy_cuda_driver_get(&driver, why), 0);
    ck_assert_int_eq(driver->device_get(&unit, 0), 0);
    if (_i == 1) {
        ck_assert_int_eq(ops->stream_sync(run.compute), FY_ERR_DEVICE);
    }
    ck_assert_int_eq(reset(unit), 0);
    ck_assert_int_eq(driver->context_retain(&context, unit), 0);
    ck_assert_int_eq(driver->context_push(context), 0);
    ck_assert_int_eq(driver->alloc(&address, 7 << 20), 0);
    int status = ops->copy(run.in, &in);
    ck_assert(status == 0 || status == FY_ERR_DEVICE);
    (void)cuda_run_gemm(&run, CUDA_RUN_N);
    (void)ops->event_record(run.in, run.copied);
    (void)ops->event_sync(run.copied);
    ck_assert_int_eq(ops->stream_sync(run.in), FY_ERR_DEVICE);
    ck_assert_int_eq(ops->stream_sync(run.compute), FY_ERR_DEVICE);
    ck_assert_ptr_nonnull(strstr(ops->error_text(run.device), "reset"));
    ck_assert_int_eq(driver->free(address), 0);
    ck_assert_int_eq(driver->context_pop(&popped), 0);
    ck_assert_int_eq(driver->context_release(unit), 0);
    struct fy_device *other;
    ck_assert_int_eq(ops->open(CUDA_RUN_BYTES, &other), FY_ERR_DEVICE);
    cuda_run_end(&run);
    ck_assert_uint_eq(cuda_faults(), 0);
}
END_TEST

int
main(int argc, char **argv)
{
    (void)argc;
    cuda_rig_start(argv);
    (void)setenv("FAKECUDA_STRICT", "1", 1);
    Suite *suite = suite_create("cuda_process");
    TCase *tests = tcase_create("cuda_process");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, test_fork_while_busy);
    tcase_add_test(tests, test_exit_while_busy);
    tcase_add_test(tests, test_use_after_exit);
    tcase_add_loop_test(tests, test_no_undo_before_copies_have_landed, 0, 4);
    tcase_add_test(tests, test_cancelled_thread);
    tcase_add_test(tests, test_threads_take_no_signals);
    tcase_add_test(tests, test_constructor_runs_without);
    tcase_add_test(tests, test_constructor_with_an_open_device);
    tcase_add_test(tests, test_another_thread_loads);
    tcase_add_test(tests, test_locked_memory_goes_straight);
    tcase_add_test(tests, test_drop_a_busy_stream);
    tcase_add_test(tests, test_context_of_the_program_stays);
    tcase_add_loop_test(tests, test_idle_memory_goes_back, 0, 2);
    tcase_add_test(tests, test_idle_workspace_goes_back);
    tcase_add_loop_test(tests, test_bound_thread, 0, 2);
    tcase_add_test(tests, test_beside_a_capture);
    tcase_add_test(tests, test_parts_of_a_card_have_names);
    tcase_add_loop_test(tests, test_program_resets_the_card, 0, 2);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
