/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which bounds verification grants a call, and what it says of results that
 * pass them: reals, complex numbers, integers, what comes back of scratch.
 */
#include "config.h"

#include <check.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "annotations/model/annotations.h"
#include "pager/verify/compare.h"
#include "tests/unit/runner.h"

enum {
    N = 6,
    X = 0,
    Y,
    Z,
    K,
    W,
    OPERANDS,
    RESULT = FY_MAX_OPERANDS
};

/* One call of a function with operands of all kinds, as verification has it
 * when the original has run. */
struct compared {
    struct fy_bound call;
    struct fy_images images;
    struct fy_model *model;
};

static void
set_cell(struct compared *c, const char *name, struct fy_value value)
{
    const struct fy_function *f = c->call.function;
    const struct fy_cell *cells = FY_TABLE(c->model, fy_cell, cells) + f->cells;
    for (unsigned i = 0; i < f->ncells; i++) {
        if (strcmp(fy_model_string(c->model, cells[i].name), name) == 0) {
            c->call.cells[i] = value;
        }
    }
}

/* The type of K, whose elements have 8 bytes. */
static const char *integers = "long";

static void
make_compared(struct compared *c, const char *statements)
{
    static const uint32_t bytes[] = {4, 4, 16, 8, 8};
    static const uint8_t access[] = {FY_ACCESS_IN, FY_ACCESS_INOUT,
                                     FY_ACCESS_OUT, FY_ACCESS_OUT,
                                     FY_ACCESS_SCRATCH};
    static char memory[OPERANDS][N * 16];
    char text[700];
    char *base[OPERANDS];
    struct fy_diagnostics *diagnostics = fy_diagnostics_new();
    memset(c, 0, sizeof *c);
    (void)snprintf(
        text, sizeof text,
        "function void g(int n, float *y) { axis n; inout y[n: 1]; }"
        "function double f(int n, float alpha, double beta, float *x,"
        " float *y, complex double *z, %s *k, double *w) {"
        " axis i = n; in x[i: 1]; inout y[i: 1]; out z[i: 1];"
        " out k[i: 1]; scratch w[i: 1];"
        " require alpha > 0 || beta > 0; %s }"
        "function void h(int n, float *y) { axis n; inout y[n: 1]; }",
        integers, statements);
    ck_assert_int_eq(
        fy_compile_text("t", text, strlen(text), NULL, diagnostics, &c->model),
        FY_OK);
    fy_diagnostics_free(diagnostics);
    c->call.model = c->model;
    c->call.function = FY_TABLE(c->model, fy_function, functions) + 1;
    c->call.integer_bits = 32;
    c->call.extents[0] = N;
    ck_assert_uint_eq(c->call.function->noperands, OPERANDS);
    for (int o = 0; o < OPERANDS; o++) {
        base[o] = memory[o];
        c->call.views[o] = (struct fy_view){.host = memory[o],
                                            .element_bytes = bytes[o],
                                            .access = access[o],
                                            .naxes = 1,
                                            .extent = {N},
                                            .stride = {1}};
    }
    ck_assert_int_eq(fy_images_new(c->model, c->call.function, c->call.views,
                                   base, 1 << 20, &c->images),
                     FY_OK);
    c->images.views[OPERANDS] = c->images.views[Y]; /* not the function's */
    c->images.of[OPERANDS] = c->images.of[Y];
    c->images.first[OPERANDS] = c->images.first[Y];
    c->call.cells[c->call.function->ncells] =
        (struct fy_value){.kind = FY_V_REAL, .r = 1000};
    for (unsigned i = 0; i < c->images.count; i++) {
        struct fy_image *image = &c->images.image[i];
        memset(image->before, 0, (size_t)(image->hi - image->lo));
        memset(image->truth, 0, (size_t)(image->hi - image->lo));
    }
}

static void
free_compared(struct compared *c)
{
    fy_images_free(&c->images);
    free(c->model);
}

/* Element `at' of an operand, before the call or as the original left it. */
static void *
element(struct compared *c, int operand, bool truth, int at)
{
    const struct fy_image *image = &c->images.image[c->images.of[operand]];
    return (truth ? image->truth : image->before) + c->images.first[operand] +
           at * (int64_t)c->images.views[operand].element_bytes;
}

START_TEST(a_bound_is_relative_to_the_largest_values)
{
    /* Scales: of a product of all inputs and scalars larger than 1, a square of
     * the largest input, the operand before and after. */
    static const struct {
        double alpha, beta, x, y, y_after, z, result;
        double scale_y, scale_z, scale_result;
    } rows[] = {
        {2, 3, 4, 5, 6, 7, 8, 120, 120, 120},
        {-2, -3, -4, -5, -6, -7, -8, 120, 120, 120},
        {0.5, 0.25, 4, 3, 1, 1, 1, 16, 16, 16},
        {1, 1, 0.5, 0.5, 70, 80, -90, 70, 80, 90},
        {1, 1, 0.125, 0.5, 0.125, 0.125, 0.125, 0.5, 0.25, 0.25},
        {INFINITY, NAN, 4, 5, 6, INFINITY, NAN, 25, 25, 25},
        {2, 3, INFINITY, 5, NAN, 7, INFINITY, 25, 25, 25},
    };
    /* The annotation's constant, where it is positive. */
    static const struct {
        const char *statements;
        double constant;
    } errors[] = {
        {"", 64 + 8 * N},
        {"error 3 * i;", 3 * N},
        {"error i - i;", 64 + 8 * N},
        {"error 1 - i;", 64 + 8 * N},
        {"error 1;", 1},
        {"error 0.25;", 0.25},
    };
    struct compared c;
    make_compared(&c, errors[_i].statements);
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        double constant = errors[_i].constant;
        union fy_raw result = {.d = {rows[r].result}};
        struct fy_bounds bounds;
        set_cell(&c, "n", (struct fy_value){.kind = FY_V_INT, .i = N, .r = 99});
        set_cell(&c, "alpha",
                 (struct fy_value){.kind = FY_V_REAL, .r = rows[r].alpha});
        set_cell(&c, "beta",
                 (struct fy_value){.kind = FY_V_COMPLEX, .im = rows[r].beta});
        *(float *)element(&c, X, false, N - 1) = (float)rows[r].x;
        *(float *)element(&c, Y, false, 0) = (float)rows[r].y;
        *(float *)element(&c, Y, true, 1) = (float)rows[r].y_after;
        ((double *)element(&c, Z, true, 2))[1] = rows[r].z;
        ((double *)element(&c, Z, false, 2))[1] = 1e6; /* not read */
        *(double *)element(&c, W, false, 2) = 1e6;
        if (isinf(rows[r].x)) {
            *(float *)element(&c, X, false, 0) = 0.5F; /* the largest number */
        }
        c.images.returned[W] = 2;
        fy_bounds_make(&c.call, &c.images, &result, &bounds);
        ck_assert(!bounds.exact);
        double product = rows[r].scale_result;
        ck_assert_double_eq(bounds.scale[Y], rows[r].scale_y);
        ck_assert_double_eq(bounds.bound[Y],
                            constant * FLT_EPSILON * rows[r].scale_y);
        ck_assert_double_eq(bounds.bound[Z],
                            constant * DBL_EPSILON * rows[r].scale_z);
        ck_assert_double_eq(bounds.bound[K], 0); /* integers */
        ck_assert(bounds.scale[X] == 0 && bounds.bound[X] == 0);
        ck_assert(bounds.scale[OPERANDS] == 0);
        ck_assert_double_gt(bounds.bound[W], 0);
        ck_assert_double_eq(bounds.scale[RESULT], product);
        /* As exact as the coarsest input. */
        ck_assert_double_eq(bounds.bound[RESULT],
                            constant * FLT_EPSILON * product);
        c.images.returned[W] = 0;
        fy_bounds_make(&c.call, &c.images, &result, &bounds);
        ck_assert_double_eq(bounds.scale[W], 0);
    }
    free_compared(&c);
}
END_TEST

static bool
differs(struct compared *c, int operand, const struct fy_bounds *bounds,
        const char *got, const char *skip, struct fy_difference *out)
{
    fy_compare_operand(&c->images, (unsigned)operand, got,
                       c->images.image[c->images.of[operand]].truth, skip,
                       bounds, out);
    return out->found;
}

START_TEST(reals_may_differ_by_the_bound)
{
    static const struct {
        double got, want, bound;
        bool differs;
        double distance;
    } rows[] = {
        {1, 1, 0, false, 0},
        {1, 1.5, 0.5, false, 0},
        {1.5, 1, 0.5, false, 0},
        {1, 1.5, 0.25, true, 0.5},
        {1.5, 1, 0.25, true, 0.5},
        {0.0, -0.0, 0, false, 0},
        {INFINITY, INFINITY, 0, false, 0},
        {INFINITY, -INFINITY, 1, true, INFINITY},
        {INFINITY, 1, 1, true, INFINITY},
        {NAN, -NAN, 0, false, 0},
        {NAN, 1, 1, true, INFINITY},
        {1, NAN, 1, true, INFINITY},
    };
    struct compared c;
    make_compared(&c, _i == 2 ? "exact;" : "");
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        char got[N * 16] = {0};
        struct fy_bounds bounds = {.exact = _i == 2};
        struct fy_difference difference;
        double *want = element(&c, Z, true, 4);
        bool expected = rows[r].differs || (_i == 2 && rows[r].bound == 0.5);
        int part = _i != 0; /* real, imaginary */
        bounds.bound[Z] = bounds.bound[RESULT] = rows[r].bound;
        want[part] = rows[r].want;
        want[!part] = 7;
        memcpy(got + 4 * sizeof(double[2]), want, sizeof(double[2]));
        ((double *)(void *)got)[4 * 2 + part] = rows[r].got;
        ck_assert_msg(differs(&c, Z, &bounds, got, NULL, &difference) ==
                          expected,
                      "row %zu", r);
        if (expected) {
            ck_assert_str_eq(difference.place, "(4)");
            ck_assert(difference.got == rows[r].got || isnan(rows[r].got));
            ck_assert(difference.want == rows[r].want || isnan(rows[r].want));
        }
        if (rows[r].differs) {
            ck_assert_double_eq(difference.distance, rows[r].distance);
        }
        /* What still is as it was before is left out. */
        ck_assert(!differs(&c, Z, &bounds, got, got, &difference));
        union fy_raw one = {.d = {rows[r].got}}, two = {.d = {rows[r].want}};
        fy_compare_result(c.call.function, 32, &one, &two, &bounds,
                          &difference);
        ck_assert_msg(difference.found == expected, "row %zu", r);
    }
    free_compared(&c);
}
END_TEST

START_TEST(the_worst_element_is_told)
{
    struct compared c;
    struct fy_bounds bounds = {.bound = {0}};
    struct fy_difference difference;
    float got[N] = {0, 3, -5, 5, 1, 0};
    make_compared(&c, "");
    ck_assert(differs(&c, Y, &bounds, (char *)got, NULL, &difference));
    ck_assert_str_eq(difference.place, "(2)"); /* the first of these */
    ck_assert_double_eq(difference.distance, 5);
    ck_assert_double_eq(difference.got, -5);
    /* Inputs are not compared, nor what this call does not access. */
    ck_assert(!differs(&c, X, &bounds, (char *)got, NULL, &difference));
    c.images.views[Y].naxes = 0;
    ck_assert(!differs(&c, Y, &bounds, (char *)got, NULL, &difference));
    free_compared(&c);
}
END_TEST

START_TEST(integers_must_be_equal)
{
    struct compared c;
    struct fy_bounds bounds = {.bound = {0}};
    struct fy_difference difference;
    int64_t got[N] = {0};
    integers = _i ? "integer" : "long";
    make_compared(&c, "");
    ck_assert(!differs(&c, K, &bounds, (char *)got, NULL, &difference));
    got[3] = INT64_C(1) << 60;
    *(int64_t *)element(&c, K, true, 3) = got[3] + 1; /* equal as doubles */
    ck_assert(differs(&c, K, &bounds, (char *)got, NULL, &difference));
    ck_assert_double_eq(difference.distance, 1);
    *(int64_t *)element(&c, K, true, 3) = got[3] + (INT64_C(1) << 40);
    ck_assert(differs(&c, K, &bounds, (char *)got, NULL, &difference));
    ck_assert_double_eq(difference.distance, 0x1p40);
    *(int64_t *)element(&c, K, true, 3) = got[3];
    ck_assert(!differs(&c, K, &bounds, (char *)got, NULL, &difference));
    free_compared(&c);
}
END_TEST

/* Of scratch: the first elements, so far as the original wrote them. */
START_TEST(what_comes_back_of_scratch_is_compared)
{
    struct compared c;
    struct fy_bounds bounds = {.bound = {0}};
    struct fy_difference difference;
    make_compared(&c, "");
    for (int at = 0; at < 3; at++) {
        double got[N] = {0};
        *(double *)element(&c, W, true, at) = 1;
        for (int returned = 0; returned < 4; returned++) {
            c.images.returned[W] = returned;
            ck_assert_int_eq(
                differs(&c, W, &bounds, (char *)got, NULL, &difference),
                at < returned);
        }
        *(double *)element(&c, W, false, at) = 1; /* was there before */
        ck_assert(!differs(&c, W, &bounds, (char *)got, NULL, &difference));
        *(double *)element(&c, W, false, at) = 2;
        c.images.returned[W] = 0;
        ck_assert(!differs(&c, W, &bounds, (char *)got, NULL, &difference));
        *(double *)element(&c, W, true, at) = 2;
    }
    free_compared(&c);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("verify_compare");
    TCase *c = tcase_create("verify_compare");
    tcase_add_loop_test(c, a_bound_is_relative_to_the_largest_values, 0, 6);
    tcase_add_loop_test(c, reals_may_differ_by_the_bound, 0, 3);
    tcase_add_test(c, the_worst_element_is_told);
    tcase_add_loop_test(c, integers_must_be_equal, 0, 2);
    tcase_add_test(c, what_comes_back_of_scratch_is_compared);
    suite_add_tcase(suite, c);
    return run_suite(suite);
}
