/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost model: calibration files, whatever they hold and whatever the
 * locale, and that predictions follow sizes and rates.
 */
#include "config.h"

#include <check.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pager/decide/cost.h"
#include "pager/decide/learn.h"
#include "tests/unit/calls.h"
#include "tests/unit/possible.h"
#include "tests/unit/runner.h"

static const struct fy_model *model;
static const char *kind = "host";

static int
read_text(const char *text, struct fy_rates *rates)
{
    char path[] = "/tmp/test_cost_XXXXXX";
    int file = mkstemp(path);

    ck_assert_int_ge(file, 0);
    ck_assert_int_eq(write(file, text, strlen(text)), (int)strlen(text));
    close(file);
    int status = fy_rates_read(path, kind, rates);
    unlink(path);
    return status;
}

START_TEST(files)
{
    struct fy_rates rates, again;
    char *text;
    size_t bytes;

    fy_rates_default("host", &rates);
    ck_assert_int_eq(read_text("# measured\n\ncpu_bytes=2.5e10\n"
                               "step_seconds=1e-6 # each\nnew_rate=5\n",
                               &rates),
                     0);
    ck_assert(rates.cpu_bytes == 2.5e10);
    ck_assert(rates.step_seconds == 1e-6);
    ck_assert_int_eq(read_text("cpu_bytes\n", &rates), FY_ERR_INVALID);
    ck_assert_int_eq(read_text("cpu_bytes=fast\n", &rates), FY_ERR_INVALID);
    ck_assert_int_eq(read_text("cpu_bytes=-1\n", &rates), FY_ERR_INVALID);
    ck_assert_int_eq(read_text("cpu_bytes=nan\n", &rates), FY_ERR_INVALID);
    ck_assert_int_eq(read_text("overlap=1e9\n", &rates), FY_ERR_INVALID);
    ck_assert_int_eq(read_text("cpu_bytes=0\noverlap=1\n", &rates), 0);
    ck_assert(rates.cpu_bytes == 2.5e10); /* nothing divides by zero */
    ck_assert(rates.overlap == 1);
    ck_assert_int_eq(fy_rates_read("/no/such/file", kind, &rates), FY_ERR_IO);

    FILE *to = open_memstream(&text, &bytes);
    ck_assert_int_eq(fy_rates_write(to, "host", &rates), 0);
    fclose(to);
    fy_rates_default("host", &again);
    ck_assert_int_eq(read_text(text, &again), 0);
    ck_assert_mem_eq(&again, &rates, sizeof(rates));
    free(text);
}
END_TEST

/* One file holds the rates of both kinds, and neither disturbs the other. */
START_TEST(of_a_card)
{
    static const char both[] = "cpu_bytes=3e10\ndevice_flops_f64=7\n"
                               "cuda.device_flops_f64=5e13\ncuda.cpu_bytes=1\n";
    struct fy_rates host, card, again;
    char *text;
    size_t bytes;

    fy_rates_default("host", &host);
    fy_rates_default("cuda", &card);
    ck_assert(card.overlap == 1 && host.overlap == 0);
    ck_assert_int_eq(read_text(both, &host), 0);
    kind = "cuda:1";
    ck_assert_int_eq(read_text(both, &card), 0);
    ck_assert(host.cpu_bytes == 3e10 && card.cpu_bytes == 3e10);
    ck_assert(host.device_flops_f64 == 7 && card.device_flops_f64 == 5e13);

    FILE *to = open_memstream(&text, &bytes);
    ck_assert_int_eq(fy_rates_write(to, "host", &host), 0);
    ck_assert_int_eq(fy_rates_write(to, "cuda", &card), 0);
    fclose(to);
    fy_rates_default("cuda", &again);
    ck_assert_int_eq(read_text(text, &again), 0);
    ck_assert(again.device_flops_f64 == 5e13 && again.cpu_bytes == 3e10);
    kind = "host";
    fy_rates_default("host", &again);
    ck_assert_int_eq(read_text(text, &again), 0);
    ck_assert_mem_eq(&again, &host, sizeof(host));
    free(text);
}
END_TEST

START_TEST(locales)
{
    struct fy_rates rates;

    fy_rates_default("host", &rates);
    if (!setlocale(LC_ALL, "de_DE.UTF-8")) {
        skip_test("no locale with decimal commas");
    }
    ck_assert_int_eq(read_text("cpu_bytes=1.5e9\n", &rates), 0);
    ck_assert(rates.cpu_bytes == 1.5e9);
}
END_TEST

static void
bind(const char *symbol, const char *signature, int64_t n,
     struct fy_bound *bound)
{
    static double memory[4];
    struct call_numbers numbers = {
        .transa = 'N',
        .transb = 'N',
        .m = n,
        .n = n,
        .k = n,
        .alpha = {1, 0},
        .beta = {1, 0},
        .ld = {n, n, n},
        .inc = {1, 1},
        .matrix = {memory, memory + 1, memory + 2},
    };
    static struct call call;

    ck_assert(call_make(model, symbol, signature, &numbers, &call));
    for (unsigned i = 0; i < call.nargs; i++) {
        if (call.args[i].p == NULL) {
            call.args[i].p = &call.scalars[i];
        }
    }
    ck_assert_int_eq(
        fy_bind_args(model, call.function, 32, call.args, NULL, bound),
        FY_REASON_NONE);
}

START_TEST(predictions)
{
    struct fy_rates rates;
    struct fy_bound small, large, vector;
    struct fy_traffic traffic = {
        .bytes_in = 3 << 20, .bytes_out = 1 << 20, .chunks = 1};

    fy_rates_default("host", &rates);
    bind("dgemm_", "tTmnkaA1B2bC3", 100, &small);
    bind("dgemm_", "tTmnkaA1B2bC3", 1000, &large);
    bind("daxpy_", "naAxBy", 1000000, &vector);
    /* A thousand times the arithmetic; memory for what has little of it. */
    ck_assert_double_eq_tol(fy_cost_original(&rates, &large) /
                                fy_cost_original(&rates, &small),
                            1000, 1e-6);
    ck_assert_double_eq_tol(fy_cost_original(&rates, &vector),
                            24e6 / rates.cpu_bytes, 1e-9);
    /* The same cores with copies around them never pay. */
    ck_assert(fy_cost_device(&rates, &large, &traffic, 0, 0) >
              fy_cost_original(&rates, &large));
    /* A fast device does for the product, not for the vector. */
    rates.device_flops_f64 = 5e13;
    rates.in_bytes = rates.out_bytes = 5e10;
    rates.device_bytes = 4e12;
    rates.overlap = 1;
    ck_assert(fy_cost_device(&rates, &large, &traffic, 0, 0) <
              fy_cost_original(&rates, &large));
    traffic.bytes_in = 16000000;
    traffic.bytes_out = 8000000;
    rates.cpu_bytes = 2e11;
    ck_assert(fy_cost_device(&rates, &vector, &traffic, 0, 0) >
              fy_cost_original(&rates, &vector));
    /* More steps and more bytes never cost less. */
    double before = fy_cost_device(&rates, &large, &traffic, 0, 0);
    traffic.chunks = 100;
    ck_assert(fy_cost_device(&rates, &large, &traffic, 0, 0) > before);
    before = fy_cost_device(&rates, &large, &traffic, 0, 0);
    traffic.hashed_bytes = 16000000;
    ck_assert_double_eq_tol(fy_cost_device(&rates, &large, &traffic, 0, 0) -
                                before,
                            16e6 / rates.cpu_hash_bytes, 1e-9);

    /* What the plan says of its end counts where all is not hidden. */
    before = fy_cost_device(&rates, &large, &traffic, 0, 0);
    ck_assert(fy_cost_device(&rates, &large, &traffic, 0,
                             2 * before * rates.in_bytes) > 1.9 * before);
    ck_assert(fy_cost_device(&rates, &large, &traffic, 0, 1) == before);
    rates.undo_bytes = 1; /* nothing else would be seen */
    const bool saves =
        fy_cost_device(&rates, &large, &traffic, 0, 0) > 1000 * before;
    ck_assert_int_eq(saves, (large.views[2].access & FY_ACCESS_IN) != 0);
}
END_TEST

START_TEST(measured)
{
    struct fy_rates rates;

    ck_assert_int_eq(fy_calibrate_measure("no-such-device", &rates),
                     FY_ERR_NOENT);
    ck_assert_int_eq(fy_calibrate_measure("host", &rates), 0);
    ck_assert(rates.cpu_bytes > 1e8 && rates.cpu_bytes < 1e13);
    ck_assert(rates.cpu_hash_bytes > 1e8 && rates.cpu_hash_bytes < 1e13);
    ck_assert(rates.in_bytes > 1e7 && rates.in_bytes < 1e13);
    ck_assert(rates.step_seconds > 0 && rates.step_seconds < 1);
    ck_assert(rates.cpu_flops_f64 > 1e8);
}
END_TEST

static struct fy_learned learned;
static const struct fy_learn_key here = {0x1000, 7, 42};
static const double prior[FY_SIDES] = {0.5, 0.5};

static double
factor_of(struct fy_learn_key key, enum fy_side side)
{
    struct fy_advice advice;

    fy_learn_ask(&learned, &key, prior, &advice);
    return advice.factor[side];
}

static bool
is_near(double a, double b)
{
    return a > 0.9 * b && a < 1.1 * b;
}

/* As expected, on that side, where the model says 1 s. */
static void
took(struct fy_learn_key key, enum fy_side side, double seconds)
{
    const struct fy_pick pick = {.side = side, .expected = seconds};

    (void)fy_learn_took(&learned, &key, &pick, 1, seconds);
}

static void
start_learning(void)
{
    fy_learn_start(&learned);
}

/* Nobody trusts one sample, nor the odd one among several. */
START_TEST(learnt_factors)
{
    const struct fy_learn_key site = {0x2000, 7, 42}, size = {0x2000, 7, 4200},
                              other = {0x1000, 8, 42};

    fy_learn_forget(&learned);
    took(here, FY_SIDE_ORIGINAL, 900);
    ck_assert(factor_of(here, FY_SIDE_ORIGINAL) < 300);
    for (int i = 0; i < 6; i++) {
        took(here, FY_SIDE_ORIGINAL, 3);
    }
    ck_assert(is_near(factor_of(here, FY_SIDE_ORIGINAL), 3));
    ck_assert(factor_of(here, FY_SIDE_DEVICE) == 1);
    /* Other sites and sizes of the function begin with it. */
    ck_assert(is_near(factor_of(site, FY_SIDE_ORIGINAL), 3));
    ck_assert(factor_of(size, FY_SIDE_ORIGINAL) > 1.3);
    ck_assert(factor_of(other, FY_SIDE_ORIGINAL) == 1);
    for (int i = 0; i < 7; i++) {
        took(size, FY_SIDE_ORIGINAL, 0.5);
    }
    ck_assert(is_near(factor_of(size, FY_SIDE_ORIGINAL), 0.5));
    ck_assert(factor_of(here, FY_SIDE_ORIGINAL) > 2);
    /* What is long ago does not count. */
    for (int i = 0; i < 7; i++) {
        took(here, FY_SIDE_ORIGINAL, 5);
    }
    ck_assert(is_near(factor_of(here, FY_SIDE_ORIGINAL), 5));
    took(other, FY_SIDE_ORIGINAL, NAN);
    took(other, FY_SIDE_ORIGINAL, -1);
    took(other, FY_SIDE_ORIGINAL, INFINITY);
    ck_assert(factor_of(other, FY_SIDE_ORIGINAL) == 1);
    fy_learn_forget(&learned);
    ck_assert(factor_of(here, FY_SIDE_ORIGINAL) == 1);
}
END_TEST

/* One side is kept unless the other is better; the other one is tried where it
 * may be, at a small part of what calls have taken. */
START_TEST(learnt_choices)
{
    const double even[] = {1, 0.97}, twice[] = {1, 2}, far[] = {1, 100};
    struct fy_advice advice;
    struct fy_pick pick;
    double spent = 0, lost = 0;

    fy_learn_forget(&learned);
    fy_learn_ask(&learned, &here, prior, &advice);
    ck_assert_int_eq(advice.last, -1);
    fy_learn_pick(&learned, &advice, even, &pick);
    ck_assert(pick.side == FY_SIDE_DEVICE && !pick.trial);
    took(here, FY_SIDE_ORIGINAL, 1);
    fy_learn_ask(&learned, &here, prior, &advice);
    fy_learn_pick(&learned, &advice, even, &pick);
    ck_assert(pick.trial || pick.side == FY_SIDE_ORIGINAL);
    for (unsigned call = 0; call < 1000; call++) {
        fy_learn_ask(&learned, &here, prior, &advice);
        const double seconds[] = {
            1, 2 * advice.factor[FY_SIDE_DEVICE]}; /* really 4 */
        fy_learn_pick(&learned, &advice, seconds, &pick);
        if (pick.side == FY_SIDE_DEVICE) {
            ck_assert(pick.trial);
            lost += fy_learn_took(&learned, &here, &pick, 2, 4);
        } else {
            spent += 1;
            ck_assert(fy_learn_took(&learned, &here, &pick, 1, 1) == 0);
        }
    }
    ck_assert_msg(lost > 2 && lost < 0.05 * spent + 2, "%.1f", lost);
    /* Far away is not tried at all. */
    fy_learn_ask(&learned, &here, prior, &advice);
    fy_learn_pick(&learned, &advice, far, &pick);
    ck_assert(pick.side == FY_SIDE_ORIGINAL);
    /* Nor is what has no time to pay with. */
    const struct fy_learn_key fresh = {0x3000, 9, 42};
    fy_learn_ask(&learned, &fresh, prior, &advice);
    fy_learn_pick(&learned, &advice, twice, &pick);
    ck_assert(pick.side == FY_SIDE_ORIGINAL && pick.instead == 2);
    ck_assert(!fy_learn_spend(&learned, 1e6));
}
END_TEST

/* Two odd calls in a row, and what was known of others is worth less. */
START_TEST(learnt_changes)
{
    const struct fy_learn_key other = {0x2000, 7, 4200};
    const struct fy_pick surprise = {.side = FY_SIDE_DEVICE, .expected = 1};
    struct fy_advice advice;

    fy_learn_forget(&learned);
    for (int i = 0; i < 7; i++) {
        took(here, FY_SIDE_DEVICE, 1);
    }
    fy_learn_ask(&learned, &here, prior, &advice);
    double before = advice.doubt[FY_SIDE_DEVICE];
    (void)fy_learn_took(&learned, &other, &surprise, 1, 10);
    fy_learn_ask(&learned, &here, prior, &advice);
    ck_assert(advice.doubt[FY_SIDE_DEVICE] < 1.2 * before);
    (void)fy_learn_took(&learned, &other, &surprise, 1, 8);
    fy_learn_ask(&learned, &here, prior, &advice);
    ck_assert(advice.doubt[FY_SIDE_DEVICE] > 1.5 * before);
}
END_TEST

/* Without memory for the table every call is as good as new. */
START_TEST(learnt_without_memory)
{
    struct fy_learned none = {.table = NULL};
    const struct fy_pick pick = {.side = FY_SIDE_DEVICE, .expected = 1};
    struct fy_advice advice;

    ck_assert(fy_learn_took(&none, &here, &pick, 1, 100) == 0);
    fy_learn_planned(&none, &here, 2);
    fy_learn_ask(&none, &here, prior, &advice);
    ck_assert(advice.factor[FY_SIDE_DEVICE] == 1 && advice.planned == 1);
    ck_assert_int_eq(advice.last, -1);
    fy_learn_forget(&none);
}
END_TEST

/* A table that is full has no room for what is new, and stays right. */
START_TEST(learnt_much)
{
    fy_learn_forget(&learned);
    for (uint32_t i = 0; i < 10000; i++) {
        const struct fy_learn_key key = {i * 64, i % 50, i % 30};
        took(key, FY_SIDE_DEVICE, 2);
        double factor = factor_of(key, FY_SIDE_DEVICE);
        ck_assert(factor >= 1 && factor <= 2);
    }
    ck_assert_uint_lt(fy_learn_size(1e6, 8e4), fy_learn_size(2e6, 8e4));
    ck_assert_uint_ne(fy_learn_size(1e6, 8e4), fy_learn_size(1e6, 8e5));
    ck_assert_uint_eq(fy_learn_size(0, 0), 0);
}
END_TEST

int
main(void)
{
    static const char *const files_of_blas[] = {"blas1.ferry", "blas3.ferry"};
    Suite *suite = suite_create("cost");
    TCase *cases = tcase_create("cost");

    model = calls_model(files_of_blas, 2);
    tcase_set_timeout(cases, 60);
    tcase_add_checked_fixture(cases, start_learning, NULL);
    tcase_add_test(cases, learnt_factors);
    tcase_add_test(cases, learnt_choices);
    tcase_add_test(cases, learnt_changes);
    tcase_add_test(cases, learnt_without_memory);
    tcase_add_test(cases, learnt_much);
    tcase_add_test(cases, files);
    tcase_add_test(cases, of_a_card);
    tcase_add_test(cases, locales);
    tcase_add_test(cases, predictions);
    tcase_add_test(cases, measured);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
