/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of a device's library with extents beyond a C int: the function's form
 * with 64-bit integers, when there is one. Only numbers are looked at, no memory
 * is there.
 */
#include "config.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#include "pager/plan/plan.h"
#include "tests/unit/calls.h"
#include "tests/unit/runner.h"

#define LARGE INT64_C(3000000000)

static bool has_wide;
static char resolved[64]; /* the last function of cuBLAS asked for */
static struct fy_launch launched;
static int64_t values[FY_MAX_ARGS];

static void *
resolve(struct fy_device *device, const char *name)
{
    static int something;
    size_t bytes = strlen(name);

    (void)device;
    snprintf(resolved, sizeof(resolved), "%s", name);
    return !has_wide && strcmp(name + bytes - 3, "_64") == 0 ? NULL
                                                             : &something;
}

static int
launch(struct fy_stream *stream, const struct fy_launch *launch)
{
    (void)stream;
    launched = *launch;
    for (unsigned i = 0; i < launch->nargs; i++) {
        if (launch->types[i] == FY_T_I64) {
            memcpy(&values[i], launch->values[i], sizeof(values[i]));
        }
    }
    return FY_OK;
}

static const struct fy_device_ops ops = {
    .name = "numbers", .resolve = resolve, .launch = launch};

/* C := alpha A B + beta C, planned for a device with room for all of it. */
static int
plan(int64_t m, int64_t n, int64_t k, int64_t lda, struct fy_plan **out)
{
    static char none = 'N';
    static double one = 1;
    static int64_t numbers[6];
    static struct fy_bound bound;
    static const struct fy_model *model;
    static const char *const files[] = {"blas3.ferry"};
    union fy_raw args[FY_MAX_ARGS];

    if (!model) {
        model = calls_model(files, 1);
    }
    const int64_t given[6] = {m, n, k, lda, k, m};
    memcpy(numbers, given, sizeof(given));
    memset(args, 0, sizeof(args));
    args[0].p = args[1].p = &none;
    for (unsigned i = 0; i < 3; i++) {
        args[2 + i].p = &numbers[i];
        args[6 + 2 * i + (i == 2)].p = (void *)(((uintptr_t)i + 1) << 20);
        args[7 + 2 * i + (i == 2)].p = &numbers[3 + i];
    }
    args[5].p = args[10].p = &one;
    uint32_t symbol = fy_model_find_symbol(model, "dgemm_64_");
    ck_assert_uint_ne(symbol, FY_NIL);
    ck_assert_int_eq(
        fy_bind_args(model,
                     FY_TABLE(model, fy_symbol, symbols)[symbol].function, 64,
                     args, NULL, &bound),
        FY_REASON_NONE);
    static struct fy_target target;
    target = (struct fy_target){.symbol = symbol, .integer_bits = 64};
    const struct fy_plan_options options = {.ops = &ops,
                                            .budget_bytes = UINT64_C(1) << 42};
    return fy_plan_new(&bound, &target, &options, out);
}

/* Launches the first step; its arguments are in `values' then. */
static void
launch_first(const struct fy_plan *plan)
{
    const struct fy_schedule *schedule = &plan->schedule;
    const uint64_t addresses[8] = {256, 512, 768};

    memset(values, 0, sizeof(values));
    ck_assert_int_eq(
        schedule->launch(schedule->planner, &schedule->steps[0],
                         schedule->tiles + schedule->steps[0].tiles, addresses,
                         NULL),
        FY_OK);
}

/* cublasDgemm(handle, opa, opb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc) */
START_TEST(wide)
{
    struct fy_plan *made;

    has_wide = true;
    ck_assert_int_eq(plan(LARGE, 2, 3, LARGE, &made), FY_OK);
    ck_assert_str_eq(resolved, "cublasDgemm_v2_64");
    launch_first(made);
    ck_assert_int_eq(launched.nargs, 14);
    ck_assert_int_eq(values[3], LARGE);
    ck_assert_int_eq(values[4], 2);
    ck_assert_int_eq(values[5], 3);
    ck_assert_int_eq(values[8], LARGE);
    ck_assert_int_eq(values[13], LARGE);
    fy_plan_free(made);
}
END_TEST

START_TEST(narrow)
{
    struct fy_plan *made;

    has_wide = true;
    ck_assert_int_eq(plan(INT32_MAX, 2, 3, INT32_MAX, &made), FY_OK);
    ck_assert_str_eq(resolved, "cublasDgemm_v2");
    fy_plan_free(made);
    /* A leading dimension is packed on the device. */
    ck_assert_int_eq(plan(5, 2, 3, LARGE, &made), FY_OK);
    ck_assert_str_eq(resolved, "cublasDgemm_v2");
    launch_first(made);
    ck_assert_int_eq(values[8], 5);
    fy_plan_free(made);
}
END_TEST

/* Without the wide form the call is declined, never cut short. */
START_TEST(no_wide)
{
    struct fy_plan *made;

    has_wide = false;
    ck_assert_int_eq(plan(LARGE, 2, 3, LARGE, &made), FY_ERR_UNSUPPORTED);
    ck_assert_int_eq(plan(3, LARGE, 2, 3, &made), FY_ERR_UNSUPPORTED);
    ck_assert_int_eq(plan(3, 2, 2, 3, &made), FY_OK);
    fy_plan_free(made);
}
END_TEST

static Suite *
suite(void)
{
    Suite *all = suite_create("device_call");
    TCase *cases = tcase_create("all");

    tcase_add_test(cases, wide);
    tcase_add_test(cases, narrow);
    tcase_add_test(cases, no_wide);
    suite_add_tcase(all, cases);
    return all;
}

int
main(void)
{
    return run_suite(suite());
}
