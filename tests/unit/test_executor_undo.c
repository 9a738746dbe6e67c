/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An injected failure at every single operation of a run leaves host memory,
 * byte for byte, as it was, and the executor fit for the next run.
 */
#include "config.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "pager/host.h"
#include "tests/unit/product.h"
#include "tests/unit/runner.h"

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
            for (int i = 0; i < 3; i++) {
                ck_assert_mem_eq(p.memory[i], p.before[i], p.bytes[i]);
            }
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

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static int
refuse_to_launch(void *planner, const struct fy_step *step,
                 const struct fy_tile *tiles, const uint64_t *address,
                 struct fy_stream *stream)
{
    (void)planner;
    (void)step;
    (void)tiles;
    (void)address;
    (void)stream;
    return FY_ERR_UNSUPPORTED;
}

/* No room for the log: refused before the first byte is overwritten. */
START_TEST(test_no_memory_for_the_log)
{
    enum {
        N = 4000000
    };
    double *memory = calloc(N, sizeof *memory);
    struct fy_view view = {.host = (char *)memory,
                           .element_bytes = 8,
                           .access = FY_ACCESS_INOUT,
                           .naxes = 2,
                           .extent = {N, 1},
                           .stride = {1, N}};
    struct fy_tile tile;
    struct fy_step step = {.ntiles = 1};
    set_tile(&tile, 0, FY_ACCESS_INOUT, (int64_t[]){0, 0}, (int64_t[]){N, 1});
    struct fy_device *device = open_device(64 << 20);
    struct fy_schedule schedule = {.views = &view,
                                   .nviews = 1,
                                   .tiles = &tile,
                                   .ntiles = 1,
                                   .steps = &step,
                                   .nsteps = 1,
                                   .launch = refuse_to_launch,
                                   .planner = device};
    struct fy_executor *x;
    struct fy_traffic traffic;
    struct rlimit before, tight;
    ck_assert_int_eq(fy_executor_new(device, &x), 0);
    ck_assert_int_eq(getrlimit(RLIMIT_AS, &before), 0);
    tight = before;
    tight.rlim_cur = 1 << 20; /* nothing new can be mapped */
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &tight), 0);
    int status = fy_executor_run(x, &schedule, &traffic);
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &before), 0);
    ck_assert_int_eq(status, FY_ERR_NOMEM);
    ck_assert_uint_eq(traffic.bytes_in + traffic.bytes_out, 0);
    /* With room the planner's own failure comes back as it is. */
    ck_assert_int_eq(fy_executor_run(x, &schedule, &traffic),
                     FY_ERR_UNSUPPORTED);
    ck_assert_uint_eq(fy_host_used_bytes(device), 0);
    fy_executor_free(x);
    device->ops->close(device);
    free(memory);
}
END_TEST
#endif

int
main(void)
{
    Suite *suite = suite_create("executor_undo");
    TCase *tests = tcase_create("executor_undo");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, test_failure_anywhere_leaves_host_memory, 0, 2);
    tcase_add_test(tests, test_lost_device_leaves_host_memory);
    tcase_add_test(tests, test_failure_under_latency_leaves_host_memory);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    tcase_add_test(tests, test_no_memory_for_the_log);
#endif
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
