/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which planner makes a call's plan, by the memory, the device's functions and
 * what the operands hold; what a plan by another way than the original's refuses;
 * and plans without memory. Nothing of the library is called.
 */
#include "config.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pager/plan/build.h"
#include "pager/plan/device_call.h"
#include "tests/unit/calls.h"
#include "tests/unit/nomem.h"
#include "tests/unit/runner.h"

enum {
    N = 16,  /* order of the matrix */
    RHS = 4, /* columns of the right side */
    ALL = 1 << 20,
    SOME = 2048, /* bytes: parts fit, the whole does not */
    NONE = 64
};

static const struct fy_model *model;
static double a[N * N], b[N * RHS];
static int missing; /* the name of a device's function has this character */
static uint64_t fails_at;
static bool failed; /* the allocation of that number, while a plan was made */

static void *
resolve(struct fy_device *device, const char *name)
{
    static int something;

    (void)device;
    return missing && strchr(name, missing) ? NULL : &something;
}

static void *
sibling(void *original, const char *name)
{
    (void)name;
    return original;
}

static const struct fy_device_ops host = {.name = "host"};
static const struct fy_device_ops device = {.name = "cuda", .resolve = resolve};

static void
fill(void)
{
    for (int i = 0; i < N * N; i++) {
        a[i] = i % (N + 1) == 0 ? N : 0.5;
    }
    for (int i = 0; i < N * RHS; i++) {
        b[i] = 1;
    }
    missing = 0;
}

static double work[N];

/* Plans dpotrf_(uplo, n, a, lda, info), dgeqrf_(m, n, a, lda, tau, work, lwork,
 * info), or what has (uplo, n, nrhs, a, lda, b, ldb, info). */
static int
plan(const char *name, const struct fy_plan_options *options,
     struct fy_plan **out)
{
    static char upper = 'U';
    static int32_t n = N, rhs = RHS, info;
    static int original;
    static struct fy_bound bound;
    static struct fy_target target;
    const bool asks = strcmp(name, "dgeqrf_") == 0;
    union fy_raw args[3][FY_MAX_ARGS] = {
        {{.p = &upper},
         {.p = &n},
         {.p = &rhs},
         {.p = a},
         {.p = &n},
         {.p = b},
         {.p = &n},
         {.p = &info}},
        {{.p = &upper}, {.p = &n}, {.p = a}, {.p = &n}, {.p = &info}},
        {{.p = &n},
         {.p = &n},
         {.p = a},
         {.p = &n},
         {.p = b},
         {.p = work},
         {.p = &n},
         {.p = &info}}};

    target = (struct fy_target){.original = &original,
                                .symbol = fy_model_find_symbol(model, name),
                                .integer_bits = 32,
                                .sibling = sibling};
    ck_assert_uint_ne(target.symbol, FY_NIL);
    ck_assert_int_eq(
        fy_bind_args(
            model, FY_TABLE(model, fy_symbol, symbols)[target.symbol].function,
            32, args[asks ? 2 : strcmp(name, "dpotrf_") == 0], NULL, &bound),
        FY_REASON_NONE);
    nomem_at(fails_at);
    int status = fy_plan_new(&bound, &target, options, out);
    failed = nomem_reached();
    return status;
}

START_TEST(a_call_is_whole_blocked_cut_or_refused)
{
    static const struct {
        const char *name;
        const struct fy_device_ops *ops;
        uint64_t budget_bytes;
        char missing;
        bool random;
        uint32_t axes;
        int status;
        const char *method;
    } rows[] = {
        {"dposv_", &host, ALL, 0, false, 0, FY_OK, "whole"},
        {"dposv_", &host, SOME, 0, false, 0, FY_OK, "posv"},
        {"dposv_", &host, NONE, 0, false, 0, FY_ERR_NOFIT, NULL},
        /* Verification has random parts of what fits, too. */
        {"dposv_", &host, ALL, 0, true, 0, FY_OK, "posv"},
        {"dpotrs_", &host, ALL, 0, true, 0, FY_OK, "potrs"},
        {"dpotrs_", &host, ALL, 0, true, 1 << 2, FY_OK, "axes"},
        {"dposv_", &host, ALL, 0, true, 1 << 2, FY_OK, "whole"},
        {"dpotrs_", &host, SOME, 0, false, 1 << 2, FY_ERR_NOFIT, NULL},
        /* cuSOLVER has no posv, but its parts. */
        {"dpotrs_", &device, ALL, 0, false, 0, FY_OK, "whole"},
        {"dposv_", &device, ALL, 0, false, 0, FY_OK, "posv"},
        {"dposv_", &device, SOME, 0, false, 0, FY_OK, "posv"},
        {"dposv_", &device, NONE, 0, false, 0, FY_ERR_NOFIT, NULL},
        {"dposv_", &device, ALL, 's', false, 0, FY_ERR_UNSUPPORTED, NULL},
        {"dposv_", &device, ALL, '_', false, 0, FY_ERR_UNSUPPORTED, NULL},
        {"dpotrs_", &device, ALL, 's', false, 0, FY_ERR_UNSUPPORTED, NULL},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        bool lacks = false;
        const struct fy_plan_options options = {.ops = rows[i].ops,
                                                .budget_bytes =
                                                    rows[i].budget_bytes,
                                                .random = rows[i].random,
                                                .seed = 3,
                                                .axes = rows[i].axes,
                                                .missing = &lacks};
        struct fy_plan *made = NULL;

        fill();
        /* NOLINTNEXTLINE(bugprone-signed-char-misuse): -1 is none */
        missing = rows[i].missing;
        int status = plan(rows[i].name, &options, &made);
        ck_assert_msg(status == rows[i].status, "row %zu: %d", i, status);
        ck_assert_msg((made != NULL) == (status == FY_OK), "row %zu", i);
        if (made != NULL) {
            ck_assert_msg(strcmp(made->method, rows[i].method) == 0,
                          "row %zu: %s", i, made->method);
        }
        ck_assert_msg(lacks == (rows[i].missing != 0), "row %zu", i);
        fy_plan_free(made);
    }
}
END_TEST

/*
 * The original alone knows what it makes of NaNs, and of a singular factor; a
 * factor that is given may be anything.
 */
START_TEST(odd_numbers_are_left_to_the_original)
{
    static const struct {
        const struct fy_device_ops *ops;
        uint64_t budget_bytes;
        const char *name;
        bool by_original;
    } rows[] = {
        {&host, ALL, "dposv_", true},    {&host, SOME, "dposv_", false},
        {&device, ALL, "dposv_", false}, {&device, ALL, "dpotrf_", false},
        {&host, ALL, "dpotrf_", true},   {&device, ALL, "dpotrs_", true},
    };
    static const double odd[] = {NAN, INFINITY, -INFINITY, 0};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct fy_plan_options options = {
            .ops = rows[i].ops, .budget_bytes = rows[i].budget_bytes};
        struct fy_plan *made = NULL;

        fill();
        ck_assert_int_eq(plan(rows[i].name, &options, &made), FY_OK);
        ck_assert(made->schedule.accept(made->schedule.planner));
        for (size_t k = 0; k < sizeof(odd) / sizeof(odd[0]); k++) {
            /* In the diagonal that the call leaves, its last element. */
            a[N * N - 1] = odd[k];
            ck_assert_msg(made->schedule.accept(made->schedule.planner) ==
                              rows[i].by_original,
                          "row %zu, %g", i, odd[k]);
            a[N * N - 1] = N;
        }
        fy_plan_free(made);
    }
    for (size_t i = 0; i < 3; i++) {
        for (size_t k = 0; k < 3; k++) {
            const struct fy_plan_options options = {
                .ops = rows[i].ops, .budget_bytes = rows[i].budget_bytes};
            struct fy_plan *made = NULL;

            b[N * RHS - 1] = odd[k];
            int status = plan(rows[i].name, &options, &made);
            ck_assert_int_eq(status,
                             rows[i].by_original ? FY_OK : FY_ERR_UNSUPPORTED);
            fy_plan_free(made);
            b[N * RHS - 1] = 1;
        }
    }
}
END_TEST

/* The original says what its workspace should be when it runs; what stands in says the
 * size that the workspace has. */
START_TEST(what_stands_in_tells_a_size_of_the_workspace)
{
    for (unsigned other = 0; other < 2; other++) {
        const struct fy_plan_options options = {.ops = other ? &device : &host,
                                                .budget_bytes = ALL};
        struct fy_plan *made = NULL;
        union fy_raw result;

        fill();
        work[0] = 5;
        ck_assert_int_eq(plan("dgeqrf_", &options, &made), FY_OK);
        ck_assert_str_eq(made->method, "whole");
        ck_assert_double_eq(work[0], 5);
        fy_plan_result(made, &result);
        ck_assert_double_eq(work[0], other ? N : 5);
        fy_plan_free(made);
    }
}
END_TEST

/* LAPACK's ormqr changes its reflectors for a time, what a solve reads stays as it is. */
START_TEST(reflectors_are_restored)
{
    const struct fy_plan_options options = {.ops = &host, .budget_bytes = SOME};
    for (unsigned solves = 0; solves < 2; solves++) {
        struct fy_plan *made = NULL;
        unsigned restored = 0;

        fill();
        ck_assert_int_eq(plan(solves ? "dposv_" : "dgeqrf_", &options, &made),
                         FY_OK);
        for (uint32_t i = 0; i < made->schedule.ntiles; i++) {
            restored +=
                (made->schedule.tiles[i].access & FY_ACCESS_RESTORED) != 0;
        }
        ck_assert_int_eq(restored > 0, !solves);
        fy_plan_free(made);
    }
}
END_TEST

/* Each allocation fails once: no plan, and nothing is kept. */
START_TEST(no_memory_for_a_plan)
{
    static const struct {
        const char *name;
        const struct fy_device_ops *ops;
        uint64_t budget_bytes;
    } rows[] = {
        {"dposv_", &host, ALL},
        {"dpotrf_", &device, ALL},
        {"dposv_", &host, SOME},
    };

    fill();
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct fy_plan_options options = {
            .ops = rows[i].ops, .budget_bytes = rows[i].budget_bytes};
        fails_at = 0;
        do {
            struct fy_plan *made = NULL;
            fails_at++;
            int status = plan(rows[i].name, &options, &made);
            ck_assert_msg(status == (failed ? FY_ERR_NOMEM : FY_OK),
                          "row %zu, allocation %d: %s", i, (int)fails_at,
                          fy_status_text(status));
            ck_assert(failed == (made == NULL));
            fy_plan_free(made);
            ck_assert_uint_eq(nomem_live(), 0);
        } while (failed);
        ck_assert_uint_gt(fails_at, 5);
    }
}
END_TEST

int
main(void)
{
    static const char *const files[] = {"lapack.ferry"};
    Suite *suite = suite_create("plan_method");
    TCase *cases = tcase_create("plan_method");

    model = calls_model(files, 1);
    tcase_set_timeout(cases, 60);
    tcase_add_test(cases, a_call_is_whole_blocked_cut_or_refused);
    tcase_add_test(cases, odd_numbers_are_left_to_the_original);
    tcase_add_test(cases, reflectors_are_restored);
    tcase_add_test(cases, what_stands_in_tells_a_size_of_the_workspace);
    tcase_add_test(cases, no_memory_for_a_plan);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
