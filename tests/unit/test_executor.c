/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The executor against schedules written here: tiled matrix products under
 * random memory limits, triangles, and eviction compared with an exhaustive
 * search for the best one. Failures are in test_executor_undo.c. Long because each case
 * is a schedule.
 */
#include "config.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "pager/execute/executor.h"
#include "tests/baddevice/device.h"
#include "tests/unit/product.h"
#include "tests/unit/runner.h"

/* Elements that belong to nobody still hold the mark. */
static void
run_random_products(bool c_is_read, uint64_t latency_ns, int rounds)
{
    for (int round = 0; round < rounds; round++) {
        struct product p;
        random_state = (uint64_t)round * 77 + 3 + c_is_read;
        make_product(&p, NULL, c_is_read);
        uint64_t limit = step_bytes(&p.schedule) + 256 * random_below(64);
        struct fy_device *device = open_device(limit);
        struct bad_control control = {
            .latency_ns = latency_ns, .seed = (uint64_t)round, .poison = true};
        bad_control_set(device, &control);
        p.schedule.planner = device;
        struct fy_executor *x;
        struct fy_traffic traffic;
        ck_assert_int_eq(fy_executor_new(device, &x), 0);
        ck_assert_int_eq(fy_executor_run(x, &p.schedule, &traffic), 0);
        check_result(&p);
        ck_assert_uint_eq(traffic.chunks, p.schedule.nsteps);
        ck_assert_uint_ge(traffic.bytes_out,
                          (uint64_t)(p.extent[0] * p.extent[1]) * 8);
        ck_assert_uint_eq(bad_used_bytes(device), 0);
        fy_executor_free(x);
        device->ops->close(device);
        free_product(&p);
    }
}

START_TEST(test_products_in_any_memory)
{
    run_random_products(_i != 0, 0, 60);
}
END_TEST

START_TEST(test_products_with_latency)
{
    run_random_products(_i != 0, 30000, 8);
}
END_TEST

/* With room for everything each element crosses the link once. */
START_TEST(test_traffic_is_minimal_with_room)
{
    struct product p;
    random_state = 99;
    struct fy_device *device = open_device(1 << 20);
    make_product(&p, device, _i != 0);
    struct fy_executor *x;
    struct fy_traffic traffic;
    ck_assert_int_eq(fy_executor_new(device, &x), 0);
    ck_assert_int_eq(fy_executor_run(x, &p.schedule, &traffic), 0);
    uint64_t m = (uint64_t)p.extent[0], n = (uint64_t)p.extent[1],
             k = (uint64_t)p.extent[2];
    ck_assert_uint_eq(traffic.bytes_out, m * n * 8);
    ck_assert_uint_eq(traffic.bytes_in,
                      (m * k + k * n + (_i != 0 ? m * n : 0)) * 8);
    fy_executor_free(x);
    device->ops->close(device);
    free_product(&p);
}
END_TEST

/* Executors of several threads share a device; each has its own program. */
static void *
run_in_thread(void *argument)
{
    struct product *p = argument;
    struct fy_executor *x;
    struct fy_traffic traffic;
    struct fy_device *device = p->schedule.planner;
    if (fy_executor_new(device, &x) != 0) {
        return "cannot make an executor";
    }
    for (int round = 0; round < 20; round++) {
        memcpy(p->memory[2], p->before[2], p->bytes[2]);
        if (fy_executor_run(x, &p->schedule, &traffic) != 0) {
            return "failed";
        }
        if (memcmp(p->memory[2], p->expected, p->bytes[2]) != 0) {
            return "differs";
        }
    }
    fy_executor_free(x);
    return NULL;
}

START_TEST(test_threads_share_a_device)
{
    enum {
        THREADS = 3
    };
    pthread_t threads[THREADS];
    struct product p[THREADS];
    struct fy_device *device = open_device(1 << 20);
    struct bad_control control = {.latency_ns = _i == 0 ? 0 : 20000};
    bad_control_set(device, &control);
    for (int i = 0; i < THREADS; i++) {
        random_state = (uint64_t)i + 40;
        make_product(&p[i], device, true);
        ck_assert_int_eq(
            pthread_create(&threads[i], NULL, run_in_thread, &p[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *why;
        ck_assert_int_eq(pthread_join(threads[i], &why), 0);
        ck_assert_msg(why == NULL, "thread %d %s", i, (char *)why);
        free_product(&p[i]);
    }
    ck_assert_uint_eq(bad_used_bytes(device), 0);
    device->ops->close(device);
}
END_TEST

START_TEST(test_too_small_memory_is_refused)
{
    struct product p;
    random_state = 5;
    make_product(&p, NULL, true);
    struct fy_device *device = open_device(step_bytes(&p.schedule) - 256);
    p.schedule.planner = device;
    struct fy_executor *x;
    struct fy_traffic traffic;
    ck_assert_int_eq(fy_executor_new(device, &x), 0);
    ck_assert_int_eq(fy_executor_run(x, &p.schedule, &traffic), FY_ERR_NOFIT);
    for (int i = 0; i < 3; i++) {
        ck_assert_mem_eq(p.memory[i], p.before[i], p.bytes[i]);
    }
    fy_executor_free(x);
    device->ops->close(device);
    free_product(&p);
}
END_TEST

/* --- eviction --- */

enum {
    PAGES = 6,
    LONGEST = 12
};

/* Fewest loads for uses[at..] with `cached' (a bit set), by trying all. */
static int
fewest_loads(const int *uses, int count, unsigned cached, int room)
{
    if (count == 0) {
        return 0;
    }
    unsigned bit = 1U << uses[0];
    if (cached & bit) {
        return fewest_loads(uses + 1, count - 1, cached, room);
    }
    if (__builtin_popcount(cached) < room) {
        return 1 + fewest_loads(uses + 1, count - 1, cached | bit, room);
    }
    int best = LONGEST + 1;
    for (unsigned page = 0; page < PAGES; page++) {
        if (cached & (1U << page)) {
            int loads = 1 + fewest_loads(uses + 1, count - 1,
                                         (cached & ~(1U << page)) | bit, room);
            best = loads < best ? loads : best;
        }
    }
    return best;
}

static void
nothing(void)
{
}

static int
launch_nothing(void *planner, const struct fy_step *step,
               const struct fy_tile *tiles, const uint64_t *address,
               struct fy_stream *stream)
{
    struct fy_launch launch = {.function = (void *)nothing,
                               .return_type = FY_T_VOID};
    struct fy_device *device = planner;
    (void)step;
    (void)tiles;
    (void)address;
    return device->ops->launch(stream, &launch);
}

START_TEST(test_eviction_is_optimal)
{
    double memory[PAGES * 32] = {0};
    for (int round = 0; round < 200; round++) {
        random_state = (uint64_t)round + 1000;
        int room = 1 + (int)random_below(4), uses[LONGEST];
        struct fy_tile tiles[LONGEST] = {0};
        struct fy_step steps[LONGEST] = {0};
        struct fy_view view = {.host = (char *)memory,
                               .element_bytes = 8,
                               .access = FY_ACCESS_IN,
                               .naxes = 1,
                               .extent = {PAGES * 32},
                               .stride = {1}};
        struct fy_device *device = open_device((uint64_t)room * 256);
        for (int i = 0; i < LONGEST; i++) {
            uses[i] = (int)random_below(PAGES);
            tiles[i] = (struct fy_tile){.access = FY_ACCESS_IN,
                                        .naxes = 1,
                                        .lo = {uses[i] * 32},
                                        .n = {32},
                                        .device_stride = {1}};
            steps[i] = (struct fy_step){.tiles = (uint32_t)i, .ntiles = 1};
        }
        struct fy_schedule schedule = {.views = &view,
                                       .nviews = 1,
                                       .tiles = tiles,
                                       .ntiles = LONGEST,
                                       .steps = steps,
                                       .nsteps = LONGEST,
                                       .launch = launch_nothing,
                                       .planner = device};
        struct fy_executor *x;
        struct fy_traffic traffic;
        ck_assert_int_eq(fy_executor_new(device, &x), 0);
        ck_assert_int_eq(fy_executor_run(x, &schedule, &traffic), 0);
        ck_assert_uint_eq(traffic.bytes_in,
                          256 * (uint64_t)fewest_loads(uses, LONGEST, 0, room));
        ck_assert_uint_eq(traffic.bytes_out, 0);
        fy_executor_free(x);
        device->ops->close(device);
    }
}
END_TEST

/* Steps of few and many tiles: each tile of a step has a buffer of its own. */
static uint32_t launched_tiles;

static int
launch_and_look(void *planner, const struct fy_step *step,
                const struct fy_tile *tiles, const uint64_t *address,
                struct fy_stream *stream)
{
    for (uint32_t i = 0; i < step->ntiles; i++) {
        ck_assert_uint_ne(address[i], 0);
        for (uint32_t k = 0; k < i; k++) {
            ck_assert((address[i] == address[k]) ==
                      (tiles[i].lo[0] == tiles[k].lo[0]));
        }
    }
    launched_tiles += step->ntiles;
    return launch_nothing(planner, step, tiles, address, stream);
}

START_TEST(test_steps_of_many_tiles)
{
    enum {
        TILES = 200,
        STEPS = 5
    };
    static const uint16_t count[STEPS] = {3, TILES, 2, TILES, 1};
    static double memory[TILES * 32];
    static struct fy_tile tiles[STEPS * TILES];
    struct fy_step steps[STEPS] = {{0}};
    struct fy_view view = {.host = (char *)memory,
                           .element_bytes = 8,
                           .access = FY_ACCESS_INOUT,
                           .naxes = 1,
                           .extent = {TILES * 32},
                           .stride = {1}};
    uint32_t ntiles = 0;
    for (uint32_t s = 0; s < STEPS; s++) {
        steps[s] = (struct fy_step){.tiles = ntiles, .ntiles = count[s]};
        for (uint32_t i = 0; i < count[s]; i++) {
            tiles[ntiles++] = (struct fy_tile){.access = FY_ACCESS_INOUT,
                                               .naxes = 1,
                                               .lo = {32 * (int64_t)i},
                                               .n = {32},
                                               .device_stride = {1}};
        }
    }
    struct fy_device *device = open_device(TILES * 256);
    struct fy_schedule schedule = {.views = &view,
                                   .nviews = 1,
                                   .tiles = tiles,
                                   .ntiles = ntiles,
                                   .steps = steps,
                                   .nsteps = STEPS,
                                   .launch = launch_and_look,
                                   .planner = device};
    struct fy_executor *x;
    struct fy_traffic traffic;
    ck_assert_int_eq(fy_executor_new(device, &x), 0);
    for (unsigned round = 0; round < 2; round++) {
        launched_tiles = 0;
        ck_assert_int_eq(fy_executor_run(x, &schedule, &traffic), 0);
        ck_assert_uint_eq(launched_tiles, ntiles);
        ck_assert_uint_eq(traffic.bytes_in, sizeof memory);
        ck_assert_uint_eq(traffic.bytes_out, sizeof memory);
    }
    fy_executor_free(x);
    ck_assert_uint_eq(bad_used_bytes(device), 0);
    device->ops->close(device);
}
END_TEST

/* Host memory that another view has overwritten is not copied in. */
START_TEST(test_once_means_once)
{
    double memory[32] = {0};
    struct fy_view views[2] = {{.host = (char *)memory,
                                .element_bytes = 8,
                                .access = FY_ACCESS_INOUT,
                                .naxes = 1,
                                .extent = {32},
                                .stride = {1}}};
    struct fy_tile tiles[3] = {0};
    struct fy_step steps[3] = {0};

    views[1] = views[0];
    views[1].access = FY_ACCESS_IN;
    views[1].once = true;
    for (uint32_t i = 0; i < 3; i++) { /* the second one reads */
        tiles[i] = (struct fy_tile){.view = i % 2,
                                    .access = views[i % 2].access,
                                    .naxes = 1,
                                    .n = {32},
                                    .device_stride = {1}};
        steps[i] = (struct fy_step){.tiles = i, .ntiles = 1};
    }
    for (unsigned room = 1; room <= 2; room++) {
        struct fy_device *device = open_device(room * 256);
        struct fy_schedule schedule = {.views = views,
                                       .nviews = 2,
                                       .tiles = tiles,
                                       .ntiles = 3,
                                       .steps = steps,
                                       .nsteps = 3,
                                       .launch = launch_nothing,
                                       .planner = device};
        struct fy_executor *x;
        struct fy_traffic traffic;
        ck_assert_int_eq(fy_executor_new(device, &x), 0);
        ck_assert_int_eq(fy_executor_run(x, &schedule, &traffic),
                         room == 1 ? FY_ERR_NOFIT : FY_OK);
        fy_executor_free(x);
        device->ops->close(device);
    }
}
END_TEST

/* --- constraints, scratch, first touch --- */

/* Adds 1 to every element of the box, declared or not. */
static void
add_one(double *a, int64_t s0, int64_t s1, int64_t n0, int64_t n1)
{
    for (int64_t i = 0; i < n0; i++) {
        for (int64_t j = 0; j < n1; j++) {
            a[i * s0 + j * s1] += 1;
        }
    }
}

static int
launch_add_one(void *planner, const struct fy_step *step,
               const struct fy_tile *t, const uint64_t *address,
               struct fy_stream *stream)
{
    static const uint8_t types[5] = {FY_T_POINTER, FY_T_I64, FY_T_I64, FY_T_I64,
                                     FY_T_I64};
    void *values[5] = {(void *)address, (void *)&t->device_stride[0],
                       (void *)&t->device_stride[1], (void *)&t->n[0],
                       (void *)&t->n[1]};
    struct fy_launch launch = {.function = (void *)add_one,
                               .return_type = FY_T_VOID,
                               .nargs = 5,
                               .types = types,
                               .values = values};
    struct fy_device *device = planner;
    (void)step;
    return device->ops->launch(stream, &launch);
}

START_TEST(test_only_declared_elements_move)
{
    enum {
        N = 13,
        LD = 16,
        T = 4,
        BLOCKS = 4
    };
    double memory[N * LD];
    for (int round = 0; round < 40; round++) {
        random_state = (uint64_t)round + 500;
        for (int i = 0; i < N * LD; i++) {
            memory[i] = i;
        }
        int sign = random_below(2) ? 1 : -1;
        int64_t lo = (int64_t)random_below(20) - 10;
        int64_t hi = lo + (int64_t)random_below(16);
        if (random_below(3) == 0) {
            lo = INT64_MIN;
        } else if (random_below(3) == 0) {
            hi = INT64_MAX;
        }
        struct fy_view view = {.host = (char *)memory,
                               .element_bytes = 8,
                               .access = FY_ACCESS_INOUT,
                               .naxes = 2,
                               .sign = (int8_t)sign,
                               .extent = {N, N},
                               .stride = {1, LD},
                               .lo = lo,
                               .hi = hi};
        struct fy_tile tiles[BLOCKS * BLOCKS];
        struct fy_step steps[BLOCKS * BLOCKS] = {0};
        uint32_t count = 0;
        for (int64_t i = 0; i < N; i += T) {
            for (int64_t j = 0; j < N; j += T) {
                set_tile(&tiles[count], 0, FY_ACCESS_INOUT, (int64_t[]){i, j},
                         (int64_t[]){shorter(T, N - i), shorter(T, N - j)});
                steps[count] = (struct fy_step){.tiles = count, .ntiles = 1};
                count++;
            }
        }
        struct fy_device *device = open_device(512);
        struct fy_schedule schedule = {.views = &view,
                                       .nviews = 1,
                                       .tiles = tiles,
                                       .ntiles = count,
                                       .steps = steps,
                                       .nsteps = count,
                                       .launch = launch_add_one,
                                       .planner = device};
        struct fy_executor *x;
        struct fy_traffic traffic;
        uint64_t declared = 0;
        ck_assert_int_eq(fy_executor_new(device, &x), 0);
        ck_assert_int_eq(fy_executor_run(x, &schedule, &traffic), 0);
        for (int64_t j = 0; j < N; j++) {
            for (int64_t i = 0; i < LD; i++) {
                int64_t d = i + sign * j;
                bool in = i < N && d >= lo && d <= hi;
                declared += in;
                ck_assert_double_eq(memory[i + j * LD],
                                    (double)(i + j * LD) + in);
            }
        }
        ck_assert_uint_eq(traffic.bytes_in, declared * 8);
        ck_assert_uint_eq(traffic.bytes_out, declared * 8);
        fy_executor_free(x);
        device->ops->close(device);
    }
}
END_TEST

/* A kernel that changes its input and changes it back finds no copy of it under way. */
struct glance {
    struct fy_device *device;
    const double *host;
    double seen;
};

static void
look_at(struct glance *glance)
{
    glance->seen = *glance->host;
}

static int
launch_one_then_look(void *planner, const struct fy_step *step,
                     const struct fy_tile *t, const uint64_t *address,
                     struct fy_stream *stream)
{
    static const uint8_t types[1] = {FY_T_POINTER};
    struct glance *glance = planner;
    void *values[1] = {&planner};
    struct fy_launch launch = {.function = (void *)look_at,
                               .return_type = FY_T_VOID,
                               .nargs = 1,
                               .types = types,
                               .values = values};
    return step->tiles == 0
               ? launch_add_one(glance->device, step, t, address, stream)
               : glance->device->ops->launch(stream, &launch);
}

START_TEST(test_restored_tiles_stay)
{
    enum {
        STEPS = 6
    };
    for (int restored = 0; restored < 2; restored++) {
        double memory[4] = {0};
        struct fy_view view = {.host = (char *)memory,
                               .element_bytes = 8,
                               .access = FY_ACCESS_INOUT,
                               .naxes = 2,
                               .extent = {2, 2},
                               .stride = {1, 2}};
        struct fy_tile tiles[STEPS];
        struct fy_step steps[STEPS];
        set_tile(&tiles[0], 0, FY_ACCESS_INOUT, (int64_t[]){0, 0},
                 (int64_t[]){2, 2});
        for (uint32_t i = 0; i < STEPS; i++) {
            tiles[i] = tiles[0];
            steps[i] = (struct fy_step){.tiles = i, .ntiles = 1};
            if (i > 0) {
                tiles[i].access =
                    (uint8_t)(restored ? FY_ACCESS_IN | FY_ACCESS_RESTORED
                                       : FY_ACCESS_IN);
            }
        }
        struct glance glance = {.device = open_device(512), .host = memory};
        struct fy_schedule schedule = {.views = &view,
                                       .nviews = 1,
                                       .tiles = tiles,
                                       .ntiles = STEPS,
                                       .steps = steps,
                                       .nsteps = STEPS,
                                       .launch = launch_one_then_look,
                                       .planner = &glance};
        struct fy_executor *x;
        struct fy_traffic traffic;
        ck_assert_int_eq(fy_executor_new(glance.device, &x), 0);
        ck_assert_int_eq(fy_executor_run(x, &schedule, &traffic), 0);
        ck_assert_double_eq(glance.seen, restored ? 0 : 1);
        ck_assert_double_eq(memory[3], 1);
        fy_executor_free(x);
        glance.device->ops->close(glance.device);
    }
}
END_TEST

START_TEST(test_scratch_is_never_copied)
{
    double memory[64];
    for (int i = 0; i < 64; i++) {
        memory[i] = i;
    }
    struct fy_view view = {.host = (char *)memory,
                           .element_bytes = 8,
                           .access = FY_ACCESS_SCRATCH,
                           .naxes = 2,
                           .extent = {8, 8},
                           .stride = {1, 8}};
    struct fy_tile tiles[2];
    struct fy_step steps[2] = {{.tiles = 0, .ntiles = 1},
                               {.tiles = 1, .ntiles = 1}};
    set_tile(&tiles[0], 0, FY_ACCESS_SCRATCH, (int64_t[]){0, 0},
             (int64_t[]){8, 8});
    set_tile(&tiles[1], 0, FY_ACCESS_INOUT, (int64_t[]){0, 0},
             (int64_t[]){8, 8});
    struct fy_device *device = open_device(4096);
    struct fy_schedule schedule = {.views = &view,
                                   .nviews = 1,
                                   .tiles = tiles,
                                   .ntiles = 2,
                                   .steps = steps,
                                   .nsteps = 2,
                                   .launch = launch_add_one,
                                   .planner = device};
    struct fy_executor *x;
    struct fy_traffic traffic;
    ck_assert_int_eq(fy_executor_new(device, &x), 0);
    ck_assert_int_eq(fy_executor_run(x, &schedule, &traffic), 0);
    ck_assert_uint_eq(traffic.bytes_in + traffic.bytes_out, 0);
    for (int i = 0; i < 64; i++) {
        ck_assert_double_eq(memory[i], i);
    }
    fy_executor_free(x);
    device->ops->close(device);
}
END_TEST

/* A planner's mistakes are refused before anything is touched. */
START_TEST(test_malformed_schedules_are_refused)
{
    double memory[64] = {0};
    struct fy_view view = {.host = (char *)memory,
                           .element_bytes = 8,
                           .access = FY_ACCESS_IN,
                           .naxes = 2,
                           .extent = {8, 8},
                           .stride = {1, 8}};
    struct fy_tile tile;
    struct fy_step step = {.ntiles = 1};
    struct fy_device *device = open_device(4096);
    struct fy_schedule schedule = {.views = &view,
                                   .nviews = 1,
                                   .tiles = &tile,
                                   .ntiles = 1,
                                   .steps = &step,
                                   .nsteps = 1,
                                   .launch = launch_add_one,
                                   .planner = device};
    struct fy_executor *x;
    struct fy_traffic traffic;
    ck_assert_int_eq(fy_executor_new(device, &x), 0);
    static const struct {
        int64_t lo, n, device_stride;
        uint8_t access;
        int status;
    } rows[] = {
        {0, 9, 1, FY_ACCESS_IN, FY_ERR_INVALID},
        {1, 8, 1, FY_ACCESS_IN, FY_ERR_INVALID},
        {-1, 4, 1, FY_ACCESS_IN, FY_ERR_INVALID},
        {0, 0, 1, FY_ACCESS_IN, FY_ERR_INVALID},
        {0, 8, 1, FY_ACCESS_OUT, FY_ERR_INVALID},
        {0, 8, INT64_MAX, FY_ACCESS_IN, FY_ERR_OVERFLOW},
        {0, 8, 1, FY_ACCESS_IN, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        set_tile(&tile, 0, rows[i].access, (int64_t[]){rows[i].lo, 0},
                 (int64_t[]){rows[i].n, 8});
        tile.device_stride[0] = rows[i].device_stride;
        tile.device_stride[1] = 8;
        ck_assert_int_eq(fy_executor_run(x, &schedule, &traffic),
                         rows[i].status);
    }
    fy_executor_free(x);
    device->ops->close(device);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("executor");
    TCase *tests = tcase_create("executor");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, test_products_in_any_memory, 0, 2);
    tcase_add_loop_test(tests, test_products_with_latency, 0, 2);
    tcase_add_loop_test(tests, test_traffic_is_minimal_with_room, 0, 2);
    tcase_add_loop_test(tests, test_threads_share_a_device, 0, 2);
    tcase_add_test(tests, test_too_small_memory_is_refused);
    tcase_add_test(tests, test_eviction_is_optimal);
    tcase_add_test(tests, test_steps_of_many_tiles);
    tcase_add_test(tests, test_once_means_once);
    tcase_add_test(tests, test_only_declared_elements_move);
    tcase_add_test(tests, test_restored_tiles_stay);
    tcase_add_test(tests, test_scratch_is_never_copied);
    tcase_add_test(tests, test_malformed_schedules_are_refused);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
