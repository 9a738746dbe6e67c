/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every device must do, asked of the host device and of the CUDA device on
 * the fake driver: limits of memory, copies of any shape compared element by
 * element with the bytes between them untouched, order of streams and events
 * under random delays, and closing while busy.
 */
#include "config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pager/device/copy.h"
#include "pager/device/cuda/kernel_compile.h"
#include "pager/device/device.h"
#include "tests/unit/cuda_rig.h"
#include "tests/unit/random.h"
#include "tests/unit/runner.h"

static const char *const kinds[] = {"host", "cuda"};

enum {
    KINDS = 2,
    GUARD = 64,
#ifdef __SANITIZE_THREAD__ /* twenty times as slow */
    FEWER = 8,
#else
    FEWER = 1,
#endif
};

static struct fy_device *
open_kind(int kind, uint64_t bytes)
{
    const struct fy_device_ops *ops = fy_device_find(kinds[kind]);
    struct fy_device *device;
    ck_assert_ptr_nonnull(ops);
    int status = ops->open(bytes, &device);
    ck_assert_msg(status == 0, "open: %d: %s", status, ops->error_text(NULL));
    return device;
}

START_TEST(test_memory)
{
    struct fy_device *device = open_kind(_i, 1 << 20);
    const struct fy_device_ops *ops = device->ops;
    uint64_t at[16], one;
    ck_assert_uint_eq(ops->memory_bytes(device), 1 << 20);
    for (int i = 0; i < 16; i++) {
        ck_assert_int_eq(ops->alloc(device, (1 << 16) - 17, &at[i]), 0);
        ck_assert_uint_eq(at[i] % 256, 0);
        ck_assert_uint_ne(at[i], 0);
    }
    ck_assert_int_eq(ops->alloc(device, 1, &one), FY_ERR_NOFIT);
    ck_assert_int_ne(ops->error_text(device)[0], '\0');
    ops->free(device, at[3]);
    ck_assert_int_eq(ops->alloc(device, 1 << 17, &one), FY_ERR_NOFIT);
    ops->free(device, at[4]);
    ck_assert_int_eq(ops->alloc(device, 1 << 17, &at[3]), 0);
    ops->free(device, at[3]);
    for (int i = 0; i < 16; i++) {
        if (i != 3 && i != 4) {
            ops->free(device, at[i]);
        }
    }
    ck_assert_int_eq(ops->alloc(device, 1 << 20, &one), 0);
    ops->close(device);
}
END_TEST

/*
 * Strides that keep elements apart: axes nested in random order, with gaps,
 * some descending. Returns the elements that the whole spans.
 */
static int64_t
random_strides(int naxes, const int64_t *extent, int64_t *stride,
               int64_t *origin, bool dense)
{
    int order[FY_MAX_OPERAND_AXES] = {0, 1, 2, 3};
    for (int k = naxes - 1; k > 0 && random_below(2); k--) {
        int other = (int)random_below(k + 1), swap = order[k];
        order[k] = order[other];
        order[other] = swap;
    }
    int64_t span = 1;
    *origin = 0;
    for (int i = 0; i < naxes; i++) {
        int k = order[i];
        int64_t gap = dense || random_below(2) ? 0 : random_below(3);
        stride[k] = span + gap;
        span = stride[k] * (extent[k] > 0 ? extent[k] : 1);
        if (!dense && random_below(4) == 0) {
            *origin += (extent[k] > 0 ? extent[k] - 1 : 0) * stride[k];
            stride[k] = -stride[k];
        }
    }
    return span;
}

static void
random_constraint(struct fy_copy *c)
{
    int64_t n = c->view.extent[0] + c->view.extent[1] + 1;
    c->view.sign = random_below(2) ? 1 : -1;
    c->view.lo = random_below(2 * n) - n;
    c->view.hi = c->view.lo + random_below(n) - 1;
    if (random_below(3) == 0) {
        c->view.lo = INT64_MIN;
    } else if (random_below(3) == 0) {
        c->view.hi = INT64_MAX;
    }
}

/* Copies what `from' declares at its host side to `to's, element by element. */
static void
copy_simply(const struct fy_copy *from, const struct fy_copy *to)
{
    int64_t n[FY_MAX_OPERAND_AXES] = {1, 1, 1, 1}, i[FY_MAX_OPERAND_AXES];
    for (int k = 0; k < from->view.naxes; k++) {
        n[k] = from->view.extent[k];
    }
    for (i[3] = 0; i[3] < n[3]; i[3]++) {
        for (i[2] = 0; i[2] < n[2]; i[2]++) {
            for (i[1] = 0; i[1] < n[1]; i[1]++) {
                for (i[0] = 0; i[0] < n[0]; i[0]++) {
                    int64_t d = i[0] + from->view.sign * i[1], a = 0, b = 0;
                    if (from->view.sign != 0 &&
                        (d < from->view.lo || d > from->view.hi)) {
                        continue;
                    }
                    for (int k = 0; k < from->view.naxes; k++) {
                        a += i[k] * from->view.stride[k];
                        b += i[k] * to->view.stride[k];
                    }
                    memcpy((char *)to->view.host + b * to->view.element_bytes,
                           (char *)from->view.host +
                               a * from->view.element_bytes,
                           from->view.element_bytes);
                }
            }
        }
    }
}

static char *
random_bytes(size_t n)
{
    char *bytes = malloc(n);
    ck_assert_ptr_nonnull(bytes);
    for (size_t i = 0; i < n; i++) {
        bytes[i] = (char)random_below(256);
    }
    return bytes;
}

/* Extents of a copy of up to about `most' elements. */
static void
random_extents(struct fy_copy *c, int64_t most)
{
    c->view.naxes = (uint8_t)(1 + random_below(4));
    int64_t share = 1, power;
    do {
        share++;
        power = 1;
        for (int k = 0; k < c->view.naxes; k++) {
            power *= share;
        }
    } while (power < most);
    for (int k = 0; k < c->view.naxes; k++) {
        c->view.extent[k] =
            random_below(60) == 0 ? 0 : 1 + random_below(share + share / 2);
    }
}

/* To the device in one layout of the host, back in another. */
static void
round_trip(struct fy_device *device, struct fy_stream *in,
           struct fy_stream *out, struct fy_event *event, int64_t most)
{
    static const uint32_t sizes[] = {1, 2, 4, 8, 12, 16};
    const struct fy_device_ops *ops = device->ops;
    struct fy_copy up = {.direction = FY_TO_DEVICE};
    int64_t at_up, at_down, at_device;
    up.view.element_bytes = sizes[random_below(6)];
    random_extents(&up, most);
    if (up.view.naxes > 1 && random_below(2)) {
        random_constraint(&up);
    }
    struct fy_copy down = up;
    down.direction = FY_TO_HOST;
    size_t e = up.view.element_bytes;
    size_t up_bytes = (size_t)random_strides(up.view.naxes, up.view.extent,
                                             up.view.stride, &at_up, false) *
                          e +
                      2 * (size_t)GUARD;
    size_t down_bytes =
        (size_t)random_strides(up.view.naxes, up.view.extent, down.view.stride,
                               &at_down, false) *
            e +
        2 * (size_t)GUARD;
    uint64_t device_bytes = (uint64_t)random_strides(
                                up.view.naxes, up.view.extent, up.device_stride,
                                &at_device, random_below(2) == 0) *
                            e;
    memcpy(down.device_stride, up.device_stride, sizeof up.device_stride);
    char *from = random_bytes(up_bytes), *to = random_bytes(down_bytes);
    char *expected = malloc(down_bytes), *kept = malloc(up_bytes);
    memcpy(expected, to, down_bytes);
    memcpy(kept, from, up_bytes);
    uint64_t buffer;
    ck_assert_int_eq(ops->alloc(device, device_bytes, &buffer), 0);
    up.device = down.device = buffer + (uint64_t)at_device * e;
    up.view.host = from + GUARD + (size_t)at_up * e;
    ck_assert_int_eq(ops->copy(in, &up), 0);
    ck_assert_int_eq(ops->event_record(in, event), 0);
    ck_assert_int_eq(ops->event_wait(out, event), 0);
    down.view.host = to + GUARD + (size_t)at_down * e;
    ck_assert_int_eq(ops->copy(out, &down), 0);
    int status = ops->stream_sync(in);
    ck_assert_msg(status == 0, "in: %s", ops->error_text(device));
    status = ops->stream_sync(out);
    ck_assert_msg(status == 0, "out: %s", ops->error_text(device));
    down.view.host = expected + GUARD + (size_t)at_down * e;
    copy_simply(&up, &down);
    ck_assert_mem_eq(to, expected, down_bytes);
    ck_assert_mem_eq(from, kept, up_bytes);
    ops->free(device, buffer);
    free(from);
    free(to);
    free(expected);
    free(kept);
}

static void
round_trips(int kind, unsigned rounds, int64_t most)
{
    (void)setenv("FAKECUDA_DELAY", "20", 1);
    struct fy_device *device = open_kind(kind, 256 << 20);
    const struct fy_device_ops *ops = device->ops;
    struct fy_stream *in, *out;
    struct fy_event *event;
    ck_assert_int_eq(ops->stream_create(device, FY_STREAM_COPY_IN, &in), 0);
    ck_assert_int_eq(ops->stream_create(device, FY_STREAM_COPY_OUT, &out), 0);
    ck_assert_int_eq(ops->event_create(device, &event), 0);
    for (unsigned round = 0; round < rounds; round++) {
        random_state = round * 31 + 7;
        round_trip(device, in, out, event, most);
    }
    ops->stream_destroy(in);
    ops->stream_destroy(out);
    ops->event_destroy(event);
    ops->close(device);
}

START_TEST(test_small_copies)
{
    round_trips(_i, 400 / FEWER, 3000);
}
END_TEST

START_TEST(test_large_copies)
{
    round_trips(_i, 40 / FEWER, 400000);
}
END_TEST

/* A driver that has no rectangles, or some: then row by row. */
START_TEST(test_copies_without_rectangles)
{
    static const char *const refused[] = {
        "cuMemcpy3DAsync_v2:1+:1",
        "cuMemcpy3DAsync_v2:1+:1,cuMemcpy2DAsync_v2:1+:1",
        "cuMemcpy3DAsync_v2:3:1,cuMemcpy2DAsync_v2:5:1"};
    (void)setenv("FAKECUDA_FAIL", refused[_i], 1);
    round_trips(1, 60 / FEWER, 3000);
}
END_TEST

/* A tile's way through three streams, again and again, with other delays. */
START_TEST(test_events_order_streams)
{
    enum {
        N = 3000,
        ROUNDS = 40
    };
    struct fy_device *device = open_kind(_i, 1 << 20);
    const struct fy_device_ops *ops = device->ops;
    struct fy_stream *in, *out;
    struct fy_event *copied, *fetched;
    uint64_t buffer;
    ck_assert_int_eq(ops->stream_create(device, FY_STREAM_COPY_IN, &in), 0);
    ck_assert_int_eq(ops->stream_create(device, FY_STREAM_COPY_OUT, &out), 0);
    ck_assert_int_eq(ops->event_create(device, &copied), 0);
    ck_assert_int_eq(ops->event_create(device, &fetched), 0);
    ck_assert_int_eq(ops->alloc(device, N * 8, &buffer), 0);
    double *from = malloc(sizeof(double) * N * ROUNDS);
    double *to = calloc((size_t)N * ROUNDS, sizeof(double));
    for (int i = 0; i < N * ROUNDS; i++) {
        from[i] = i;
    }
    for (int round = 0; round < ROUNDS; round++) {
        struct fy_copy c = {.direction = FY_TO_DEVICE,
                            .view.host = (char *)(from + (size_t)round * N),
                            .device = buffer,
                            .view.element_bytes = 8,
                            .view.naxes = 1,
                            .view.extent = {N},
                            .view.stride = {1},
                            .device_stride = {1}};
        ck_assert_int_eq(ops->copy(in, &c), 0);
        ck_assert_int_eq(ops->event_record(in, copied), 0);
        ck_assert_int_eq(ops->event_wait(out, copied), 0);
        c.direction = FY_TO_HOST;
        c.view.host = (char *)(to + (size_t)round * N);
        ck_assert_int_eq(ops->copy(out, &c), 0);
        ck_assert_int_eq(ops->event_record(out, fetched), 0);
        ck_assert_int_eq(ops->event_wait(in, fetched), 0);
        if (round % 3 == 0) {
            ck_assert_int_eq(ops->event_sync(fetched), 0);
            ck_assert_mem_eq(to + (size_t)round * N, from + (size_t)round * N,
                             sizeof(double) * N);
        }
    }
    ck_assert_int_eq(ops->stream_sync(out), 0);
    ck_assert_int_eq(ops->stream_sync(in), 0); /* it waits for an event, too */
    ck_assert_mem_eq(from, to, sizeof(double) * N * ROUNDS);
    ops->event_destroy(copied);
    ops->event_destroy(fetched);
    ops->close(device);
    free(from);
    free(to);
}
END_TEST

START_TEST(test_malformed_copies)
{
    struct fy_device *device = open_kind(_i, 1 << 16);
    const struct fy_device_ops *ops = device->ops;
    struct fy_stream *in;
    char byte = 1;
    struct fy_copy c = {
        .view.host = &byte, .view.element_bytes = 1, .view.naxes = 0};
    ck_assert_int_eq(ops->stream_create(device, FY_STREAM_COPY_IN, &in), 0);
    ck_assert_int_eq(ops->copy(in, &c), FY_ERR_INVALID);
    c.view.naxes = FY_MAX_OPERAND_AXES + 1;
    ck_assert_int_eq(ops->copy(in, &c), FY_ERR_INVALID);
    c.view.naxes = 1;
    c.view.sign = 1;
    ck_assert_int_eq(ops->copy(in, &c), FY_ERR_INVALID);
    ck_assert_int_eq(ops->stream_sync(in), 0);
    ops->close(device);
}
END_TEST

/* Streams with work left are closed with the device. */
/* What threads save is what one thread saves; memory that is not there is an error. */
START_TEST(test_saving)
{
    enum {
        ORDER = 700 /* several pieces */
    };
    struct fy_device *device = open_kind(1, 1 << 20);
    double *from = malloc(sizeof(double) * 2 * ORDER * ORDER);
    double *one = calloc(ORDER * ORDER, sizeof(double));
    double *many = calloc(ORDER * ORDER, sizeof(double));
    ck_assert(from && one && many);
    for (int i = 0; i < 2 * ORDER * ORDER; i++) {
        from[i] = i + 1;
    }
    for (int i = 0; i < 6; i++) {
        struct fy_copy c = {.direction = FY_TO_DEVICE,
                            .view = {.host = (char *)from,
                                     .element_bytes = 8,
                                     .access = FY_ACCESS_INOUT,
                                     .naxes = 2,
                                     .extent = {ORDER, ORDER},
                                     .stride = {1, 2 * ORDER},
                                     .lo = i % 2 ? 0 : INT64_MIN,
                                     .hi = INT64_MAX,
                                     .sign = i % 2 ? -1 : 0}};
        if (i % 3 == 1) { /* by rows */
            c.view.stride[0] = 2 * ORDER;
            c.view.stride[1] = 1;
        }
        (void)fy_view_pack(&c.view, c.device_stride);
        memset(one, 0, ORDER * ORDER * sizeof(double));
        memset(many, 0, ORDER * ORDER * sizeof(double));
        c.device = (uint64_t)(uintptr_t)one;
        ck_assert_int_eq(fy_copy_run_host(&c), 0);
        c.device = (uint64_t)(uintptr_t)many;
        ck_assert_int_eq(device->ops->save(device, &c), 0);
        ck_assert_mem_eq(one, many, ORDER * ORDER * sizeof(double));
        ck_assert(many[0] != 0);
        c.view.host = (char *)4096;
        ck_assert_int_eq(device->ops->save(device, &c), FY_ERR_FAULT);
    }
    free(from);
    free(one);
    free(many);
    device->ops->close(device);
}
END_TEST

static bool
has_no_seven(const void *block, uint64_t bytes, const void *argument)
{
    const double *numbers = block;
    for (uint64_t i = 0; i < bytes / sizeof(*numbers); i++) {
        if (numbers[i] == *(const double *)argument) {
            return false;
        }
    }
    return true;
}

/* The threads that copy look at each declared element, and at no other. */
START_TEST(test_looking)
{
    enum {
        ROWS = 700,
        COLUMNS = 900,
        LD = 703
    };
    const double seven = 7;
    struct fy_device *device = open_kind(1, 1 << 20);
    double *memory = calloc(LD * COLUMNS, sizeof(*memory));
    struct fy_view view = {.host = (char *)memory,
                           .element_bytes = sizeof(*memory),
                           .naxes = 2,
                           .extent = {ROWS, COLUMNS},
                           .stride = {1, LD},
                           .sign = -1, /* the lower triangle */
                           .lo = 0,
                           .hi = INT64_MAX};
    const struct {
        int64_t row, column;
        bool declared;
    } places[] = {{0, 0, true},           {ROWS - 1, 0, true},
                  {ROWS - 1, 5, true},    {ROWS - 1, ROWS - 1, true},
                  {350, 349, true},       {0, 1, false},
                  {349, 350, false},      {ROWS, 3, false},
                  {3, COLUMNS - 1, false}};

    ck_assert_ptr_nonnull(memory);
    ck_assert_int_eq(device->ops->look(device, &view, has_no_seven, &seven),
                     FY_OK);
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        double *one = &memory[places[i].column * LD + places[i].row];
        *one = seven;
        ck_assert_int_eq(device->ops->look(device, &view, has_no_seven, &seven),
                         places[i].declared ? FY_ERR_UNSUPPORTED : FY_OK);
        *one = 0;
    }
    view.extent[1] = 1; /* not worth waking anybody */
    ck_assert_int_eq(device->ops->look(device, &view, has_no_seven, &seven),
                     FY_ERR_DEVICE);
    free(memory);
    device->ops->close(device);
}
END_TEST

START_TEST(test_close_while_busy)
{
    enum {
        BYTES = 4 << 20
    };
    for (int round = 0; round < 5; round++) {
        struct fy_device *device = open_kind(_i, 2 * BYTES);
        const struct fy_device_ops *ops = device->ops;
        struct fy_stream *in, *out;
        struct fy_event *event;
        uint64_t buffer;
        char *from = calloc(1, BYTES), *to = calloc(1, BYTES);
        ck_assert_int_eq(ops->stream_create(device, FY_STREAM_COPY_IN, &in), 0);
        ck_assert_int_eq(ops->stream_create(device, FY_STREAM_COPY_OUT, &out),
                         0);
        ck_assert_int_eq(ops->event_create(device, &event), 0);
        ck_assert_int_eq(ops->alloc(device, BYTES, &buffer), 0);
        struct fy_copy c = {.view.host = from,
                            .device = buffer,
                            .view.element_bytes = 1,
                            .view.naxes = 1,
                            .view.extent = {BYTES},
                            .view.stride = {1},
                            .device_stride = {1}};
        for (int i = 0; i < 3; i++) {
            ck_assert_int_eq(ops->copy(in, &c), 0);
            ck_assert_int_eq(ops->event_record(in, event), 0);
            ck_assert_int_eq(ops->event_wait(out, event), 0);
            c.direction = FY_TO_HOST;
            c.view.host = to;
            ck_assert_int_eq(ops->copy(out, &c), 0);
            c.direction = FY_TO_DEVICE;
            c.view.host = from;
        }
        ops->event_destroy(event);
        ops->close(device);
        free(from);
        free(to);
    }
}
END_TEST

/* Whether the compiler that is here knows any of these architectures. */
static bool
compiler_knows(int first, int last)
{
    int (*count_of)(int *);
    int (*list)(int *);
    int all[64], count = 0;
    bool loaded;
    *(void **)&count_of =
        fy_cuda_function(13000, "nvrtcGetNumSupportedArchs", &loaded);
    *(void **)&list =
        fy_cuda_function(13000, "nvrtcGetSupportedArchs", &loaded);
    ck_assert(count_of && list && count_of(&count) == 0);
    ck_assert(count > 0 && count <= 64 && list(all) == 0);
    for (int i = 0; i < count; i++) {
        if (all[i] >= first && all[i] <= last) {
            return true;
        }
    }
    return false;
}

/* Machine code where the compiler has any for the card, its own or an older one of
 * its major version; else text, that a driver has to be new enough for. */
START_TEST(test_machine_code_of_the_major_version)
{
    static const struct {
        int capability;
        int arch;  /* where the compiler knows none from there to the card's */
        bool real; /* likewise */
    } rows[] = {{90, 90, true},   {91, 90, true},    {103, 100, true},
                {121, 120, true}, {87, 87, true},    {101, 100, false},
                {72, 0, false},   {130, 120, false}, {75, 75, true}};
    int judged = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct fy_kernel_target target = {.arch = ""};
        char why[FY_CUDA_TEXT_BYTES], wanted[FY_KERNEL_ARCH_BYTES] = "";
        bool loaded;
        int capability = rows[i].capability, arch = rows[i].arch;
        bool own = compiler_knows(capability, capability);
        if (!own && ((arch != 0 && !compiler_knows(arch, arch)) ||
                     compiler_knows(arch + 1, capability))) {
            continue;
        }
        arch = own ? capability : arch;
        if (arch != 0) {
            (void)snprintf(wanted, sizeof wanted, "%s_%d",
                           own || rows[i].real ? "sm" : "compute", arch);
        }
        int status = fy_kernel_target(13000, capability, &target, &loaded, why);
        ck_assert_int_eq(status, arch != 0 ? 0 : FY_ERR_NOENT);
        ck_assert_str_eq(target.arch, wanted);
        ck_assert_int_eq(target.real, wanted[0] == 's');
        judged++;
    }
    ck_assert_int_gt(judged, 4);
}
END_TEST

int
main(int argc, char **argv)
{
    (void)argc;
    cuda_rig_start(argv);
    Suite *suite = suite_create("cuda_device");
    TCase *tests = tcase_create("cuda_device");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, test_memory, 0, KINDS);
    tcase_add_loop_test(tests, test_small_copies, 0, KINDS);
    tcase_add_loop_test(tests, test_large_copies, 0, KINDS);
    tcase_add_loop_test(tests, test_copies_without_rectangles, 0, 3);
    tcase_add_loop_test(tests, test_events_order_streams, 0, KINDS);
    tcase_add_loop_test(tests, test_malformed_copies, 0, KINDS);
    tcase_add_test(tests, test_saving);
    tcase_add_test(tests, test_looking);
    tcase_add_loop_test(tests, test_close_while_busy, 1, KINDS);
    tcase_add_test(tests, test_machine_code_of_the_major_version);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
