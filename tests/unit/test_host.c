/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host device: calls of every argument type, order of streams and events,
 * which thread runs what, injected failures, and forks that must not hang.
 */
#include "config.h"

#include <check.h>
#include <complex.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "annotations/model/model.h"
#include "pager/device/host_memory.h"
#include "tests/baddevice/device.h"
#include "tests/patience.h"
#include "tests/unit/runner.h"

/* --- launches --- */

static struct fy_device *
open_device(void)
{
    struct fy_device *device;
    ck_assert_int_eq(fy_device_host.open(1 << 20, &device), 0);
    return device;
}

static struct fy_stream *
open_stream(struct fy_device *device, enum fy_stream_kind kind)
{
    struct fy_stream *stream;
    ck_assert_int_eq(device->ops->stream_create(device, kind, &stream), 0);
    return stream;
}

static double
every_type(char c, int8_t i8, uint8_t u8, int16_t i16, uint16_t u16,
           int32_t i32, uint32_t u32, int64_t i64, uint64_t u64, float f,
           double d, float complex fc, double complex dc, void *p)
{
    return c + i8 + u8 + i16 + u16 + i32 + u32 + (double)i64 + (double)u64 +
           (double)f + d + (double)(crealf(fc) + 3 * cimagf(fc)) + creal(dc) +
           3 * cimag(dc) + *(double *)p;
}

START_TEST(test_every_argument_type)
{
    static const uint8_t types[] = {FY_T_CHAR, FY_T_I8,     FY_T_U8,  FY_T_I16,
                                    FY_T_U16,  FY_T_I32,    FY_T_U32, FY_T_I64,
                                    FY_T_U64,  FY_T_F32,    FY_T_F64, FY_T_C32,
                                    FY_T_C64,  FY_T_POINTER};
    char c = -1;
    int8_t i8 = -2;
    uint8_t u8 = 250;
    int16_t i16 = -3000;
    uint16_t u16 = 60000;
    int32_t i32 = -70000;
    uint32_t u32 = 4000000000U;
    int64_t i64 = -(INT64_C(1) << 40);
    uint64_t u64 = UINT64_C(1) << 50;
    float f = 0.5F;
    double d = 0.25, pointed = 1024;
    float complex fc = 1 + 2 * I;
    double complex dc = 4 + 8 * I;
    void *p = &pointed;
    void *values[] = {&c,   &i8,  &u8, &i16, &u16, &i32, &u32,
                      &i64, &u64, &f,  &d,   &fc,  &dc,  &p};
    double expected =
        every_type(c, i8, u8, i16, u16, i32, u32, i64, u64, f, d, fc, dc, p);
    double result[2] = {0, 77};
    struct fy_launch launch = {.function = (void *)every_type,
                               .return_type = FY_T_F64,
                               .nargs = 14,
                               .types = types,
                               .values = values,
                               .result = &result};
    struct fy_device *device = open_device();
    struct fy_stream *s = open_stream(device, FY_STREAM_COMPUTE);
    for (int again = 0; again < 2; again++) {
        result[0] = 0;
        c = -1;
        ck_assert_int_eq(device->ops->launch(s, &launch), 0);
        c = 50;                            /* the values were copied */
        ck_assert_double_eq(result[0], 0); /* and nothing has run yet */
        ck_assert_int_eq(device->ops->stream_sync(s), 0);
        ck_assert_double_eq(result[0], expected);
        ck_assert_double_eq(result[1], 77);
    }
    device->ops->close(device);
}
END_TEST

static int8_t
negative_byte(void)
{
    return -5;
}

static float
a_float(void)
{
    return 1.5F;
}

START_TEST(test_results)
{
    struct fy_device *device = open_device();
    struct fy_stream *s = open_stream(device, FY_STREAM_COMPUTE);
    int64_t wide = 0;
    float f = 0;
    struct fy_launch launch = {.function = (void *)negative_byte,
                               .return_type = FY_T_I8,
                               .result = &wide};
    ck_assert_int_eq(device->ops->launch(s, &launch), 0);
    ck_assert_int_eq(device->ops->stream_sync(s), 0);
    ck_assert_int_eq((int8_t)wide, -5);
    union {
        double room;
        float f;
    } result = {0};
    launch = (struct fy_launch){.function = (void *)a_float,
                                .return_type = FY_T_F32,
                                .result = &result};
    ck_assert_int_eq(device->ops->launch(s, &launch), 0);
    ck_assert_int_eq(device->ops->stream_sync(s), 0);
    f = result.f;
    ck_assert_float_eq(f, 1.5F);
    device->ops->close(device);
}
END_TEST

START_TEST(test_unsupported_types_are_refused)
{
    static const uint8_t integer[] = {FY_T_INTEGER}, nothing[] = {FY_T_VOID};
    int64_t value = 1;
    void *values[] = {&value};
    struct fy_launch rows[] = {
        {.function = (void *)a_float, .return_type = FY_T_C32},
        {.function = (void *)a_float, .return_type = FY_T_C64},
        {.function = (void *)a_float, .return_type = FY_T_INTEGER},
        {.function = (void *)a_float, .return_type = FY_T_COUNT},
        {.function = (void *)a_float,
         .return_type = FY_T_VOID,
         .nargs = 1,
         .types = integer,
         .values = values},
        {.function = (void *)a_float,
         .return_type = FY_T_VOID,
         .nargs = 1,
         .types = nothing,
         .values = values},
    };
    struct fy_device *device = open_device();
    struct fy_stream *s = open_stream(device, FY_STREAM_COMPUTE);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ck_assert_int_eq(device->ops->launch(s, &rows[i]), FY_ERR_UNSUPPORTED);
    }
    ck_assert_int_eq(device->ops->stream_sync(s), 0);
    device->ops->close(device);
}
END_TEST

/* --- streams and events --- */

enum {
    ROW = 40000
}; /* doubles: enough to wake a worker */

static pthread_t ran_on;
static double *seen_at_launch;
static double seen_value;

static void
look(void)
{
    ran_on = pthread_self();
    seen_value = seen_at_launch[ROW - 1];
}

static struct fy_copy
row_copy(enum fy_direction direction, double *host, uint64_t device)
{
    return (struct fy_copy){.direction = direction,
                            .view.host = (char *)host,
                            .device = device,
                            .view.element_bytes = 8,
                            .view.naxes = 1,
                            .view.extent = {ROW},
                            .view.stride = {1},
                            .device_stride = {1}};
}

/* Copy in, compute, copy out, each after the other through events. */
START_TEST(test_events_order_streams)
{
    struct fy_device *device = open_device();
    const struct fy_device_ops *ops = device->ops;
    struct bad_control control = {.latency_ns = _i == 0 ? 0 : 2000000,
                                  .seed = (uint64_t)_i};
    bad_control_set(device, &control);
    struct fy_stream *in = open_stream(device, FY_STREAM_COPY_IN);
    struct fy_stream *compute = open_stream(device, FY_STREAM_COMPUTE);
    struct fy_stream *out = open_stream(device, FY_STREAM_COPY_OUT);
    struct fy_event *copied, *computed;
    uint64_t buffer;
    ck_assert_int_eq(ops->event_create(device, &copied), 0);
    ck_assert_int_eq(ops->event_create(device, &computed), 0);
    ck_assert_int_eq(ops->alloc(device, ROW * 8, &buffer), 0);
    double *from = malloc(ROW * 8), *to = calloc(ROW, 8);
    seen_at_launch = (double *)(uintptr_t)buffer;
    for (int round = 1; round <= 10; round++) {
        for (int i = 0; i < ROW; i++) {
            from[i] = round;
        }
        struct fy_copy c = row_copy(FY_TO_DEVICE, from, buffer);
        struct fy_launch launch = {.function = (void *)look,
                                   .return_type = FY_T_VOID};
        ck_assert_int_eq(ops->copy(in, &c), 0);
        ck_assert_int_eq(ops->event_record(in, copied), 0);
        ck_assert_int_eq(ops->event_wait(compute, copied), 0);
        ck_assert_int_eq(ops->launch(compute, &launch), 0);
        ck_assert_int_eq(ops->event_record(compute, computed), 0);
        ck_assert_int_eq(ops->event_wait(out, computed), 0);
        c = row_copy(FY_TO_HOST, to, buffer);
        ck_assert_int_eq(ops->copy(out, &c), 0);
        ck_assert_int_eq(ops->stream_sync(out), 0);
        ck_assert_double_eq(seen_value, round);
        ck_assert_mem_eq(from, to, ROW * 8);
        ck_assert(pthread_equal(ran_on, pthread_self()));
    }
    ops->free(device, buffer);
    ops->event_destroy(copied);
    ops->event_destroy(computed);
    ops->close(device);
    free(from);
    free(to);
}
END_TEST

/* An error skips what follows it, travels with events, and is told once. */
START_TEST(test_errors_travel)
{
    struct fy_device *device = open_device();
    const struct fy_device_ops *ops = device->ops;
    struct fy_stream *in = open_stream(device, FY_STREAM_COPY_IN);
    struct fy_stream *compute = open_stream(device, FY_STREAM_COMPUTE);
    struct fy_event *event;
    uint64_t buffer;
    ck_assert_int_eq(ops->event_create(device, &event), 0);
    ck_assert_int_eq(ops->alloc(device, ROW * 8, &buffer), 0);
    double *from = calloc(ROW, 8);
    struct fy_copy c = row_copy(FY_TO_DEVICE, from, buffer);
    struct fy_launch launch = {.function = (void *)look,
                               .return_type = FY_T_VOID};
    struct bad_control control = {.fail_at = 1, .fail_late = true};
    seen_at_launch = from;
    bad_control_set(device, &control);
    seen_value = -1;
    ck_assert_int_eq(ops->copy(in, &c), 0); /* fails later */
    ck_assert_int_eq(ops->event_record(in, event), 0);
    ck_assert_int_eq(ops->event_wait(compute, event), 0);
    ck_assert_int_eq(ops->launch(compute, &launch), 0);
    ck_assert_int_eq(ops->event_sync(event), FY_ERR_DEVICE);
    ck_assert_int_eq(ops->stream_sync(compute), FY_ERR_DEVICE);
    ck_assert_double_eq(seen_value, -1);
    ck_assert_int_eq(ops->stream_sync(in), FY_ERR_DEVICE);
    ck_assert_int_ne(ops->error_text(device)[0], '\0');
    ck_assert_int_eq(ops->stream_sync(in), 0);
    ck_assert_int_eq(ops->launch(compute, &launch), 0);
    ck_assert_int_eq(ops->stream_sync(compute), 0);
    ck_assert_double_eq(seen_value, 0);
    ops->event_destroy(event);
    ops->close(device);
    free(from);
}
END_TEST

START_TEST(test_corruption_is_visible)
{
    struct fy_device *device = open_device();
    const struct fy_device_ops *ops = device->ops;
    struct fy_stream *in = open_stream(device, FY_STREAM_COPY_IN);
    uint64_t buffer;
    ck_assert_int_eq(ops->alloc(device, ROW * 8, &buffer), 0);
    double *from = calloc(ROW, 8);
    for (int i = 0; i < ROW; i++) {
        from[i] = 1.5;
    }
    struct fy_copy c = row_copy(FY_TO_DEVICE, from, buffer);
    struct bad_control control = {.corrupt_at = 1};
    bad_control_set(device, &control);
    ck_assert_int_eq(ops->copy(in, &c), 0);
    ck_assert_int_eq(ops->stream_sync(in), 0);
    ck_assert_double_ne(*(double *)(uintptr_t)buffer, 1.5);
    ck_assert_mem_eq((char *)(uintptr_t)buffer + 8, from + 1, (ROW - 1) * 8);
    ops->close(device);
    free(from);
}
END_TEST

/* A signal for the process goes to its own threads, never to a worker. */
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

START_TEST(test_workers_take_no_signals)
{
    struct fy_device *device = open_device();
    const struct fy_device_ops *ops = device->ops;
    struct fy_stream *in = open_stream(device, FY_STREAM_COPY_IN);
    uint64_t buffer;
    sigset_t one, before;
    main_thread = pthread_self();
    signal(SIGUSR1, on_signal);
    ck_assert_int_eq(ops->alloc(device, ROW * 8, &buffer), 0);
    double *from = calloc(ROW, 8);
    struct fy_copy c = row_copy(FY_TO_DEVICE, from, buffer);
    ck_assert_int_eq(ops->copy(in, &c), 0);
    ck_assert_int_eq(ops->stream_sync(in), 0);
    /* Were a worker to accept it, it would be the only one to. */
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    ck_assert_int_eq(pthread_sigmask(SIG_BLOCK, &one, &before), 0);
    ck_assert_int_eq(kill(getpid(), SIGUSR1), 0);
    usleep(20000);
    ck_assert_int_eq(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
    ck_assert_int_eq(handled_elsewhere, 0);
    ops->close(device);
    free(from);
}
END_TEST

#ifndef __SANITIZE_THREAD__ /* its runtime has a thread of its own */
static unsigned
count_threads(void)
{
    struct stat about;

    ck_assert_int_eq(stat("/proc/self/task", &about), 0);
    return (unsigned)about.st_nlink - 2;
}

/* Else they would keep a process whose main thread has ended. */
START_TEST(test_idle_workers_end)
{
    struct fy_device *device = open_device();
    const struct fy_device_ops *ops = device->ops;
    struct fy_stream *in = open_stream(device, FY_STREAM_COPY_IN);
    const unsigned before = count_threads();
    uint64_t buffer;
    ck_assert_int_eq(ops->alloc(device, ROW * 8, &buffer), 0);
    double *from = calloc(ROW, 8);
    struct fy_copy c = row_copy(FY_TO_DEVICE, from, buffer);
    for (int round = 0; round < 2; round++) {
        from[ROW - 1] = round;
        ck_assert_int_eq(ops->copy(in, &c), 0);
        ck_assert_int_eq(ops->stream_sync(in), 0);
        ck_assert_double_eq(((double *)(uintptr_t)buffer)[ROW - 1], round);
        for (int i = 0; i < 3000 && count_threads() > before; i++) {
            usleep(10000);
        }
        ck_assert_uint_eq(count_threads(), before);
    }
    ops->close(device);
    free(from);
}
END_TEST
#endif

/* --- fork --- */

/* What a child can still do with a device of its parent: nothing, quickly. */
static int
use_inherited(struct fy_device *device, struct fy_stream *s,
              struct fy_event *event, uint64_t buffer)
{
    const struct fy_device_ops *ops = device->ops;
    struct fy_launch launch = {.function = (void *)look,
                               .return_type = FY_T_VOID};
    double host[1] = {0};
    struct fy_copy c = row_copy(FY_TO_DEVICE, host, buffer);
    struct fy_stream *other;
    struct fy_event *another;
    uint64_t address;
    c.view.extent[0] = 1;
    int refused =
        ops->inherited(device) && ops->copy(s, &c) == FY_ERR_DEVICE &&
        ops->launch(s, &launch) == FY_ERR_DEVICE &&
        ops->event_record(s, event) == FY_ERR_DEVICE &&
        ops->event_wait(s, event) == FY_ERR_DEVICE &&
        ops->event_sync(event) == FY_ERR_DEVICE &&
        ops->stream_sync(s) == FY_ERR_DEVICE &&
        ops->alloc(device, 8, &address) == FY_ERR_DEVICE &&
        ops->event_create(device, &another) == FY_ERR_DEVICE &&
        ops->stream_create(device, FY_STREAM_COPY_IN, &other) == FY_ERR_DEVICE;
    ops->free(device, buffer);
    ops->stream_destroy(s);
    ops->close(device);
    /* A device of its own works. */
    struct fy_device *own;
    if (ops->open(1 << 20, &own) != 0) {
        return 2;
    }
    if (ops->inherited(own) || ops->alloc(own, 8, &address) != 0) {
        return 3;
    }
    ops->close(own);
    return refused ? 0 : 1;
}

/* Forks while the worker copies: its lock may be held at that moment. */
START_TEST(test_fork_while_copying)
{
    struct fy_device *device = open_device();
    const struct fy_device_ops *ops = device->ops;
    struct fy_stream *in = open_stream(device, FY_STREAM_COPY_IN);
    struct fy_event *event;
    uint64_t buffer;
    ck_assert_int_eq(ops->event_create(device, &event), 0);
    ck_assert_int_eq(ops->alloc(device, ROW * 8, &buffer), 0);
    double *from = calloc(ROW, 8);
    for (int round = 0; round < 20; round++) {
        struct fy_copy c = row_copy(FY_TO_DEVICE, from, buffer);
        for (int i = 0; i < 20; i++) {
            ck_assert_int_eq(ops->copy(in, &c), 0);
            ck_assert_int_eq(ops->event_record(in, event), 0);
        }
        pid_t pid = fork();
        ck_assert_int_ge(pid, 0);
        if (pid == 0) {
            alarm((unsigned)patient(60));
            _exit(use_inherited(device, in, event, buffer));
        }
        int status;
        ck_assert_int_eq(ops->stream_sync(in), 0);
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_int_eq(status, 0);
    }
    ck_assert(!ops->inherited(device));
    ops->event_destroy(event);
    ops->close(device);
    free(from);
}
END_TEST

/* --- what tests make it do --- */

static char *guarded;

/* A write one byte behind, or before, a guarded block. Each must fault. */
START_TEST(test_guard_pages)
{
    struct fy_device *device = open_device();
    const struct bad_control control = {.guard = true};
    uint64_t at[2];
    bad_control_set(device, &control);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(device->ops->alloc(device, 24, &at[i]), 0);
    }
    guarded = (char *)(uintptr_t)at[0];
    memset(guarded, 1, 24);
    memset((char *)(uintptr_t)at[1], 1, 24);
    if (_i == 0) {
        guarded[24] = 1;
    } else {
        ((volatile char *)(uintptr_t)at[1])[-1] = 1;
    }
}
END_TEST

START_TEST(test_control_parse)
{
    struct bad_control c;
    ck_assert_int_eq(bad_control_parse("", &c), 0);
    ck_assert_uint_eq(c.fail_at, 0);
    ck_assert_int_eq(
        bad_control_parse("latency:500,fail:7,late:1,count:2,corrupt:9,"
                          "seed:18446744073709551615,guard:1,poison:1,"
                          "every:5",
                          &c),
        0);
    ck_assert_uint_eq(c.fail_at, 7);
    ck_assert_uint_eq(c.fail_count, 2);
    ck_assert_uint_eq(c.fail_every, 5);
    ck_assert_uint_eq(c.corrupt_at, 9);
    ck_assert_uint_eq(c.latency_ns, 500);
    ck_assert_uint_eq(c.seed, UINT64_MAX);
    ck_assert(c.fail_late && c.guard && c.poison);
    static const char *const bad[] = {
        "fail",    "fail:",   "fail:x",
        "fail:1;", "fail:-1", "nothing:1",
        ",fail:1", "fail:1 ", "fail:18446744073709551616"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert_int_eq(bad_control_parse(bad[i], &c), FY_ERR_INVALID);
    }
}
END_TEST

START_TEST(test_default_memory)
{
    struct fy_device *device;
    uint64_t physical =
        (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    ck_assert_int_eq(fy_device_host.open(0, &device), 0);
    ck_assert_uint_gt(device->ops->memory_bytes(device), 1 << 20);
    ck_assert_uint_le(device->ops->memory_bytes(device), physical / 4);
    device->ops->close(device);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    /* Less address space than the default: a smaller one, not a failure. */
    struct rlimit limit = {512 << 20, RLIM_INFINITY};
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
    ck_assert_int_eq(fy_device_host.open(0, &device), 0);
    ck_assert_uint_ge(device->ops->memory_bytes(device), 16 << 20);
    ck_assert_uint_le(device->ops->memory_bytes(device), 128 << 20);
    device->ops->close(device);
    uint64_t more = (uint64_t)1 << 32;
    ck_assert_int_eq(fy_device_host.open(more, &device), 0);
    ck_assert_uint_le(device->ops->memory_bytes(device), 128 << 20);
    device->ops->close(device);
#endif
    ck_assert_int_eq(fy_device_host.open(10000, &device), 0);
    ck_assert_uint_eq(device->ops->memory_bytes(device), 9984);
    device->ops->close(device);
}
END_TEST

START_TEST(test_available_memory)
{
    uint64_t available = fy_host_available_bytes();
    uint64_t physical =
        (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    ck_assert_uint_gt(available, 1 << 20);
    ck_assert_uint_le(available, physical);
    static const char text[] = "a 1\nbb: 22 kB\nc\t3\nd x\nbig "
                               "99999999999999999999999\n";
    ck_assert_uint_eq(fy_number_after(text, "a", 9), 1);
    ck_assert_uint_eq(fy_number_after(text, "bb:", 9), 22);
    ck_assert_uint_eq(fy_number_after(text, "c", 9), 3);
    ck_assert_uint_eq(fy_number_after(text, "b", 9), 9);
    ck_assert_uint_eq(fy_number_after(text, "d", 9), 9);
    ck_assert_uint_eq(fy_number_after(text, "big", 9), 9);
    ck_assert_uint_eq(fy_number_after("", "a", 9), 9);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("host");
    TCase *tests = tcase_create("host");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, test_every_argument_type);
    tcase_add_test(tests, test_results);
    tcase_add_test(tests, test_unsupported_types_are_refused);
    tcase_add_loop_test(tests, test_events_order_streams, 0, 2);
    tcase_add_test(tests, test_errors_travel);
    tcase_add_test(tests, test_corruption_is_visible);
    tcase_add_test(tests, test_workers_take_no_signals);
#ifndef __SANITIZE_THREAD__
    tcase_add_test(tests, test_idle_workers_end);
#endif
    tcase_add_test(tests, test_fork_while_copying);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    tcase_add_loop_test_raise_signal(tests, test_guard_pages, SIGSEGV, 0, 2);
#endif
    tcase_add_test(tests, test_control_parse);
    tcase_add_test(tests, test_default_memory);
    tcase_add_test(tests, test_available_memory);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
