/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The executor against schedules written here: tiled matrix products under
 * random memory limits, triangles, eviction compared with an exhaustive search
 * for the best one, and an injected failure at every single operation.
 */
#include "config.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "pager/executor.h"
#include "pager/host.h"

static uint64_t random_state = 1;

static uint64_t
random_below(uint64_t n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (random_state >> 11) % n;
}

static struct fy_device *
open_device(uint64_t bytes)
{
    struct fy_device *device;
    ck_assert_int_eq(fy_device_host.open(bytes, &device), 0);
    return device;
}

/* A tiled product c += a * b, with everything around it to compare. */
struct product {
    int64_t extent[3]; /* m, n, k */
    int64_t tile[3];
    struct fy_view views[3]; /* a, b, c */
    double *memory[3], *before[3], *expected;
    size_t bytes[3];
    struct fy_schedule schedule;
};

enum {
    MARK = 12345
}; /* fills what no view declares */

/* c += a * b, or c = a * b; strides of both axes of each. */
static void
multiply(const double *a, int64_t a0, int64_t a1, const double *b, int64_t b0,
         int64_t b1, double *c, int64_t c0, int64_t c1, int64_t m, int64_t n,
         int64_t k, int64_t fresh)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = fresh ? 0 : c[i * c0 + j * c1];
            for (int64_t l = 0; l < k; l++)
                sum += a[i * a0 + l * a1] * b[l * b0 + j * b1];
            c[i * c0 + j * c1] = sum;
        }
}

static int
launch_product(void *planner, const struct fy_step *step,
               const struct fy_tile *t, const uint64_t *address,
               struct fy_stream *stream)
{
    static const uint8_t types[13] = {
        FY_T_POINTER, FY_T_I64,     FY_T_I64, FY_T_POINTER, FY_T_I64,
        FY_T_I64,     FY_T_POINTER, FY_T_I64, FY_T_I64,     FY_T_I64,
        FY_T_I64,     FY_T_I64,     FY_T_I64};
    int64_t fresh = t[2].access == FY_ACCESS_OUT;
    void *values[13] = {(void *)&address[0],
                        (void *)&t[0].device_stride[0],
                        (void *)&t[0].device_stride[1],
                        (void *)&address[1],
                        (void *)&t[1].device_stride[0],
                        (void *)&t[1].device_stride[1],
                        (void *)&address[2],
                        (void *)&t[2].device_stride[0],
                        (void *)&t[2].device_stride[1],
                        (void *)&t[2].n[0],
                        (void *)&t[2].n[1],
                        (void *)&t[0].n[1],
                        &fresh};
    struct fy_launch launch = {.function = (void *)multiply,
                               .return_type = FY_T_VOID,
                               .nargs = 13,
                               .types = types,
                               .values = values};
    struct fy_device *device = planner;
    (void)step;
    return device->ops->launch(stream, &launch);
}

/* A view of rows x columns with padding, either order, perhaps descending. */
static void
make_matrix(struct product *p, int which, int64_t rows, int64_t columns,
            uint8_t access)
{
    bool by_row = random_below(2);
    int64_t inner = by_row ? columns : rows, outer = by_row ? rows : columns;
    int64_t step = 1 + (int64_t)random_below(2);
    int64_t ld = inner * step + (int64_t)random_below(4);
    int64_t sign = random_below(4) == 0 ? -1 : 1;
    size_t count = (size_t)(ld * outer + 8);
    struct fy_view *v = &p->views[which];
    memset(v, 0, sizeof *v);
    p->bytes[which] = count * sizeof(double);
    p->memory[which] = malloc(p->bytes[which]);
    p->before[which] = malloc(p->bytes[which]);
    for (size_t i = 0; i < count; i++)
        p->memory[which][i] = MARK;
    v->element_bytes = sizeof(double);
    v->access = access;
    v->naxes = 2;
    v->extent[0] = rows;
    v->extent[1] = columns;
    v->stride[0] = by_row ? ld : step;
    v->stride[1] = by_row ? step : ld;
    double *origin = p->memory[which] + 4;
    if (sign < 0) {
        origin += (rows - 1) * v->stride[0];
        v->stride[0] = -v->stride[0];
    }
    v->host = (char *)origin;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            origin[i * v->stride[0] + j * v->stride[1]] =
                (double)random_below(100);
    memcpy(p->before[which], p->memory[which], p->bytes[which]);
}

static int64_t
shorter(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void
set_tile(struct fy_tile *t, int view, uint8_t access, const int64_t lo[2],
         const int64_t n[2])
{
    memset(t, 0, sizeof *t);
    t->view = (uint16_t)view;
    t->access = access;
    t->naxes = 2;
    for (int k = 0; k < 2; k++) {
        t->lo[k] = lo[k];
        t->n[k] = n[k];
    }
    t->device_stride[0] = 1;
    t->device_stride[1] = n[0];
}

static void
make_product(struct product *p, struct fy_device *device, bool c_is_read)
{
    memset(p, 0, sizeof *p);
    for (int i = 0; i < 3; i++) {
        p->extent[i] = 1 + (int64_t)random_below(24);
        p->tile[i] = 1 + (int64_t)random_below(10);
    }
    int64_t m = p->extent[0], n = p->extent[1], k = p->extent[2];
    uint8_t c_access = c_is_read ? FY_ACCESS_INOUT : FY_ACCESS_OUT;
    make_matrix(p, 0, m, k, FY_ACCESS_IN);
    make_matrix(p, 1, k, n, FY_ACCESS_IN);
    make_matrix(p, 2, m, n, c_access);

    p->expected = malloc(p->bytes[2]);
    memcpy(p->expected, p->memory[2], p->bytes[2]);
    const struct fy_view *v = p->views;
    ptrdiff_t c_at = (double *)v[2].host - p->memory[2];
    multiply((double *)v[0].host, v[0].stride[0], v[0].stride[1],
             (double *)v[1].host, v[1].stride[0], v[1].stride[1],
             p->expected + c_at, v[2].stride[0], v[2].stride[1], m, n, k,
             !c_is_read);

    size_t steps = 1;
    for (int i = 0; i < 3; i++)
        steps *= (size_t)((p->extent[i] + p->tile[i] - 1) / p->tile[i]);
    struct fy_tile *tile = calloc(steps * 3, sizeof *tile);
    struct fy_step *step = calloc(steps, sizeof *step);
    p->schedule = (struct fy_schedule){.views = p->views,
                                       .nviews = 3,
                                       .tiles = tile,
                                       .ntiles = (uint32_t)steps * 3,
                                       .steps = step,
                                       .nsteps = (uint32_t)steps,
                                       .launch = launch_product,
                                       .planner = device};
    for (int64_t i = 0; i < m; i += p->tile[0])
        for (int64_t l = 0; l < k; l += p->tile[2])
            for (int64_t j = 0; j < n; j += p->tile[1]) {
                int64_t ni = shorter(p->tile[0], m - i);
                int64_t nj = shorter(p->tile[1], n - j);
                int64_t nl = shorter(p->tile[2], k - l);
                step->tiles = (uint32_t)(tile - p->schedule.tiles);
                step->ntiles = 3;
                step++;
                set_tile(tile++, 0, FY_ACCESS_IN, (int64_t[]){i, l},
                         (int64_t[]){ni, nl});
                set_tile(tile++, 1, FY_ACCESS_IN, (int64_t[]){l, j},
                         (int64_t[]){nl, nj});
                set_tile(tile++, 2, l == 0 ? c_access : FY_ACCESS_INOUT,
                         (int64_t[]){i, j}, (int64_t[]){ni, nj});
            }
}

static void
free_product(struct product *p)
{
    for (int i = 0; i < 3; i++) {
        free(p->memory[i]);
        free(p->before[i]);
    }
    free(p->expected);
    free(p->schedule.tiles);
    free(p->schedule.steps);
}

/* The room that any step of the schedule needs. */
static uint64_t
step_bytes(const struct fy_schedule *s)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < s->nsteps; i++) {
        uint64_t bytes = 0;
        for (uint32_t k = 0; k < s->steps[i].ntiles; k++) {
            const struct fy_tile *t = &s->tiles[s->steps[i].tiles + k];
            bytes += fy_tile_device_bytes(&s->views[t->view], t);
        }
        most = bytes > most ? bytes : most;
    }
    return most;
}

static void
check_result(const struct product *p)
{
    for (int i = 0; i < 2; i++)
        ck_assert_mem_eq(p->memory[i], p->before[i], p->bytes[i]);
    ck_assert_mem_eq(p->memory[2], p->expected, p->bytes[2]);
}

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
        struct fy_host_control control = {
            .latency_ns = latency_ns, .seed = (uint64_t)round, .poison = true};
        fy_host_control_set(device, &control);
        p.schedule.planner = device;
        struct fy_executor *x;
        struct fy_traffic traffic;
        ck_assert_int_eq(fy_executor_new(device, &x), 0);
        ck_assert_int_eq(fy_executor_run(x, &p.schedule, &traffic), 0);
        check_result(&p);
        ck_assert_uint_eq(traffic.chunks, p.schedule.nsteps);
        ck_assert_uint_ge(traffic.bytes_out,
                          (uint64_t)(p.extent[0] * p.extent[1]) * 8);
        ck_assert_uint_eq(fy_host_used_bytes(device), 0);
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

/* One run with a failure at each operation, until a run has none left. */
static void
fail_everywhere(bool late, uint64_t latency_ns, uint64_t count)
{
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct product p;
        random_state = seed * 1001;
        make_product(&p, NULL, true);
        struct fy_device *device =
            open_device(step_bytes(&p.schedule) + 256 * random_below(8));
        p.schedule.planner = device;
        struct fy_executor *x;
        struct fy_traffic traffic;
        ck_assert_int_eq(fy_executor_new(device, &x), 0);
        uint64_t at = 1, failures = 0;
        for (;; at += latency_ns > 0 ? 7 : 1) {
            struct fy_host_control control = {.fail_at = at,
                                              .fail_count = count,
                                              .fail_late = late,
                                              .latency_ns = latency_ns,
                                              .seed = at};
            fy_host_control_set(device, &control);
            int status = fy_executor_run(x, &p.schedule, &traffic);
            ck_assert_uint_eq(fy_host_used_bytes(device), 0);
            if (fy_host_operations(device) < at) {
                ck_assert_int_eq(status, 0);
                break;
            }
            ck_assert_int_eq(status, FY_ERR_DEVICE);
            failures++;
            for (int i = 0; i < 3; i++)
                ck_assert_mem_eq(p.memory[i], p.before[i], p.bytes[i]);
        }
        ck_assert_uint_gt(failures, 2);
        check_result(&p);
        fy_executor_free(x);
        device->ops->close(device);
        free_product(&p);
    }
}

START_TEST(test_failure_anywhere_leaves_host_memory)
{
    fail_everywhere(_i != 0, 0, 1);
}
END_TEST

START_TEST(test_lost_device_leaves_host_memory)
{
    fail_everywhere(false, 0, UINT64_MAX);
}
END_TEST

START_TEST(test_failure_under_latency_leaves_host_memory)
{
    fail_everywhere(true, 20000, 1);
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
    for (int i = 0; i < 3; i++)
        ck_assert_mem_eq(p.memory[i], p.before[i], p.bytes[i]);
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
    if (count == 0)
        return 0;
    unsigned bit = 1U << uses[0];
    if (cached & bit)
        return fewest_loads(uses + 1, count - 1, cached, room);
    if (__builtin_popcount(cached) < room)
        return 1 + fewest_loads(uses + 1, count - 1, cached | bit, room);
    int best = LONGEST + 1;
    for (unsigned page = 0; page < PAGES; page++)
        if (cached & (1U << page)) {
            int loads = 1 + fewest_loads(uses + 1, count - 1,
                                         (cached & ~(1U << page)) | bit, room);
            best = loads < best ? loads : best;
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

/* --- constraints, scratch, first touch --- */

/* Adds 1 to every element of the box, declared or not. */
static void
add_one(double *a, int64_t s0, int64_t s1, int64_t n0, int64_t n1)
{
    for (int64_t i = 0; i < n0; i++)
        for (int64_t j = 0; j < n1; j++)
            a[i * s0 + j * s1] += 1;
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
        for (int i = 0; i < N * LD; i++)
            memory[i] = i;
        int sign = random_below(2) ? 1 : -1;
        int64_t lo = (int64_t)random_below(20) - 10;
        int64_t hi = lo + (int64_t)random_below(16);
        if (random_below(3) == 0)
            lo = INT64_MIN;
        else if (random_below(3) == 0)
            hi = INT64_MAX;
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
        for (int64_t i = 0; i < N; i += T)
            for (int64_t j = 0; j < N; j += T) {
                set_tile(&tiles[count], 0, FY_ACCESS_INOUT, (int64_t[]){i, j},
                         (int64_t[]){shorter(T, N - i), shorter(T, N - j)});
                steps[count] = (struct fy_step){.tiles = count, .ntiles = 1};
                count++;
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
        for (int64_t j = 0; j < N; j++)
            for (int64_t i = 0; i < LD; i++) {
                int64_t d = i + sign * j;
                bool in = i < N && d >= lo && d <= hi;
                declared += in;
                ck_assert_double_eq(memory[i + j * LD],
                                    (double)(i + j * LD) + in);
            }
        ck_assert_uint_eq(traffic.bytes_in, declared * 8);
        ck_assert_uint_eq(traffic.bytes_out, declared * 8);
        fy_executor_free(x);
        device->ops->close(device);
    }
}
END_TEST

START_TEST(test_scratch_is_never_copied)
{
    double memory[64];
    for (int i = 0; i < 64; i++)
        memory[i] = i;
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
    for (int i = 0; i < 64; i++)
        ck_assert_double_eq(memory[i], i);
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
    tcase_add_loop_test(tests, test_failure_anywhere_leaves_host_memory, 0, 2);
    tcase_add_test(tests, test_lost_device_leaves_host_memory);
    tcase_add_test(tests, test_failure_under_latency_leaves_host_memory);
    tcase_add_test(tests, test_too_small_memory_is_refused);
    tcase_add_test(tests, test_eviction_is_optimal);
    tcase_add_test(tests, test_only_declared_elements_move);
    tcase_add_test(tests, test_scratch_is_never_copied);
    tcase_add_test(tests, test_malformed_schedules_are_refused);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
