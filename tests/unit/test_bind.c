/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registers and stack to arguments, cells, extents and views; every reason a
 * call can be declined for before its memory is looked at.
 */
#include "config.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "annotations/model/annotations.h"
#include "pager/bind/bind.h"
#include "tests/unit/runner.h"

static struct fy_model *model;

static const char text[] =
    "spelling fortran integer any: \"<name>_\";\n"
    "struct box { size_t rows; size_t cols; size_t pitch; double *data; };\n"
    "function fortran void gemm(char ta, integer m, integer n, integer k,\n"
    "    double alpha, const double *a, integer lda, double *c, integer ldc)\n"
    "{\n"
    "    require m >= 0 && n >= 0 && k >= 0;\n"
    "    require m > 0 && n > 0 else empty;\n"
    "    axis m, n split;\n"
    "    axis k;\n"
    "    in a[m: 1, k: lda] when alpha != 0;\n"
    "    inout c[m: 1, n: ldc] out when alpha == 0;\n"
    "}\n"
    "function void many(double a, float b, complex double z, double c,\n"
    "    double d, double e, complex double w, double f, int i1, int i2,\n"
    "    int i3, int i4, int i5, int i6, long i7, const double *p)\n"
    "{\n"
    "    require a == 1 && b == 2 && c == 3 && d == 4 && e == 5 && f == 6;\n"
    "    require i1 == -1 && i6 == -6 && i7 == 7;\n"
    "    axis n = i7;\n"
    "    in p[n: 1];\n"
    "}\n"
    "function void boxed(struct box *b)\n"
    "{\n"
    "    axis i = b->rows; axis j = b->cols;\n"
    "    inout b->data[i: b->pitch, j: 1];\n"
    "}\n"
    "function void tri(int n, double *x, int step, const double *t)\n"
    "{\n"
    "    axis i = n, j = n;\n"
    "    inout x[i: inc step];\n"
    "    in t[i: 1, j: n] lower;\n"
    "}\n"
    "handle plan; handle list;\n"
    "function plan make(int n, const double *x) { opaque x; }\n"
    "function list count(int n, int *m) { opaque m; }\n"
    "function void run(plan p from make, list q from count)\n"
    "{ axis i = p.n, j = q.n; inout p.x[i: 1, j: p.n]; }\n"
    "function void odd(int n, int m, double *x)\n"
    "{ require 4611686018427387904 * n > 0; require 1 / m == 1;\n"
    "  axis i = m; inout x[i: 1]; }\n"
    "function void either(int n, plan p from make)\n"
    "{ require n > 1; axis i = p.n; inout p.x[i: 1]; }\n"
    "function void either(int n, plan p from make)\n"
    "{ require n > 2 else empty; axis i = p.n; inout p.x[i: 1]; }\n"
    "function void priced(int n, int m, double *x)\n"
    "{ axis i = n; inout x[i: 1]; flops 2.5 * n * (12 / m); }\n"
    "struct sum { int before; double of; };\n"
    "function void summed(int n, const double *x, struct sum *s)\n"
    "{ axis i = n; in x[i: 1]; out s->of; }\n";

static uint32_t
function_of(const char *symbol)
{
    uint32_t row = fy_model_find_symbol(model, symbol);
    ck_assert_msg(row != FY_NIL, "%s", symbol);
    return FY_TABLE(model, fy_symbol, symbols)[row].function;
}

/* gemm_(ta, m, n, k, alpha, a, [lda, c, ldc on the stack]) */
struct gemm {
    char ta;
    int32_t m, n, k, lda, ldc;
    double alpha, *a, *c;
    uint64_t stack[3];
    struct fy_registers registers;
};

static void
pass(struct gemm *g)
{
    g->stack[0] = (uintptr_t)&g->lda;
    g->stack[1] = (uintptr_t)g->c;
    g->stack[2] = (uintptr_t)&g->ldc;
    g->registers = (struct fy_registers){
        .integer = {(uintptr_t)&g->ta, (uintptr_t)&g->m, (uintptr_t)&g->n,
                    (uintptr_t)&g->k, (uintptr_t)&g->alpha, (uintptr_t)g->a},
        .stack = g->stack,
    };
}

static enum fy_reason
bind_gemm(struct gemm *g, struct fy_bound *bound)
{
    pass(g);
    return fy_bind(model, function_of("gemm_"), 32, &g->registers, NULL, bound);
}

static double a_data[64], c_data[64];

static struct gemm
good(void)
{
    return (struct gemm){.ta = 'N',
                         .m = 3,
                         .n = 4,
                         .k = 5,
                         .lda = 6,
                         .ldc = 7,
                         .alpha = 2,
                         .a = a_data,
                         .c = c_data};
}

START_TEST(fortran_call)
{
    struct gemm g = good();
    struct fy_bound bound;

    ck_assert_int_eq(bind_gemm(&g, &bound), FY_REASON_NONE);
    ck_assert_int_eq(bound.extents[0], 3);
    ck_assert_int_eq(bound.extents[1], 4);
    ck_assert_int_eq(bound.extents[2], 5);
    ck_assert_ptr_eq(bound.views[0].host, a_data);
    ck_assert_int_eq(bound.views[0].naxes, 2);
    ck_assert_int_eq(bound.views[0].extent[1], 5);
    ck_assert_int_eq(bound.views[0].stride[1], 6);
    ck_assert_int_eq(bound.views[0].access, FY_ACCESS_IN);
    ck_assert_int_eq(bound.views[1].access, FY_ACCESS_INOUT);
    ck_assert_int_eq(bound.views[1].stride[1], 7);
    g.alpha = 0;
    ck_assert_int_eq(bind_gemm(&g, &bound), FY_REASON_NONE);
    ck_assert_int_eq(bound.views[0].naxes, 0);
    ck_assert_int_eq(bound.views[1].access, FY_ACCESS_OUT);
}
END_TEST

START_TEST(reasons)
{
    struct gemm g = good();
    struct fy_bound bound;

    g.m = -1;
    ck_assert_int_eq(bind_gemm(&g, &bound), FY_REASON_BAD_ARGUMENTS);
    g.m = 0;
    ck_assert_int_eq(bind_gemm(&g, &bound), FY_REASON_EMPTY);
    g = good();
    g.a = NULL;
    ck_assert_int_eq(bind_gemm(&g, &bound), FY_REASON_UNMAPPED);
    g.alpha = 0; /* then a is not accessed */
    ck_assert_int_eq(bind_gemm(&g, &bound), FY_REASON_NONE);
    g = good();
    pass(&g);
    g.registers.integer[1] = 0; /* m itself */
    ck_assert_int_eq(
        fy_bind(model, function_of("gemm_"), 32, &g.registers, NULL, &bound),
        FY_REASON_UNMAPPED);
    pass(&g);
    ck_assert_int_eq(
        fy_bind(model, function_of("gemm_"), 0, &g.registers, NULL, &bound),
        FY_REASON_INTEGER_WIDTH);
    g = good();
    g.ldc = 2; /* columns of c lie on each other */
    ck_assert_int_eq(bind_gemm(&g, &bound), FY_REASON_OVERLAP);
}
END_TEST

START_TEST(overflow)
{
    int64_t m = INT64_MAX / 4, n = 8, k = INT64_MAX / 4, ld = INT64_MAX / 2;
    double alpha = 1;
    char ta = 'N';
    uint64_t stack[3] = {(uintptr_t)&ld, (uintptr_t)c_data, (uintptr_t)&ld};
    struct fy_registers registers = {
        .integer = {(uintptr_t)&ta, (uintptr_t)&m, (uintptr_t)&n, (uintptr_t)&k,
                    (uintptr_t)&alpha, (uintptr_t)a_data},
        .stack = stack,
    };
    struct fy_bound bound;

    ck_assert_int_eq(
        fy_bind(model, function_of("gemm_"), 64, &registers, NULL, &bound),
        FY_REASON_OVERFLOW);
    m = n = k = 2;
    ld = 4;
    ck_assert_int_eq(
        fy_bind(model, function_of("gemm_"), 64, &registers, NULL, &bound),
        FY_REASON_NONE);
    ck_assert_int_eq(bound.views[1].stride[1], 4);
}
END_TEST

/* Vector registers run out in the middle; a complex never straddles them. */
START_TEST(registers_and_stack)
{
    struct fy_registers r = {.integer = {(uint32_t)-1, 2, 3, 4, 5,
                                         0xffffffff00000000u | (uint32_t)-6}};
    double one = 1, three = 3, four = 4, five = 5, six = 6;
    float two = 2;
    uint64_t stack[2] = {7, (uintptr_t)a_data};
    struct fy_bound bound;

    r.stack = stack;
    memcpy(&r.vector[0][0], &one, 8);
    memcpy(&r.vector[1][0], &two, 4);
    /* z: 2 and 3 */
    memcpy(&r.vector[4][0], &three, 8);
    memcpy(&r.vector[5][0], &four, 8);
    memcpy(&r.vector[6][0], &five, 8);
    /* w needs two, one is left: both halves on the stack, f in the register */
    uint64_t longer[4] = {0, 0, 7, (uintptr_t)a_data};
    r.stack = longer;
    memcpy(&r.vector[7][0], &six, 8);
    ck_assert_int_eq(fy_bind(model, function_of("many"), 32, &r, NULL, &bound),
                     FY_REASON_NONE);
    ck_assert_int_eq(bound.extents[0], 7);
    ck_assert_ptr_eq(bound.views[0].host, a_data);
}
END_TEST

START_TEST(structs)
{
    struct {
        size_t rows, cols, pitch;
        double *data;
    } box = {2, 3, 8, c_data};
    struct fy_registers r = {.integer = {(uintptr_t)&box}};
    struct fy_bound bound;

    ck_assert_int_eq(fy_bind(model, function_of("boxed"), 0, &r, NULL, &bound),
                     FY_REASON_NONE);
    ck_assert_int_eq(bound.views[0].stride[0], 8);
    ck_assert_ptr_eq(bound.views[0].host, c_data);
    r.integer[0] = 0;
    ck_assert_int_eq(fy_bind(model, function_of("boxed"), 0, &r, NULL, &bound),
                     FY_REASON_UNMAPPED);
}
END_TEST

START_TEST(negative_increment_and_triangle)
{
    struct fy_registers r = {
        .integer = {4, (uintptr_t)c_data, (uint32_t)-2, (uintptr_t)a_data}};
    struct fy_bound bound;

    ck_assert_int_eq(fy_bind(model, function_of("tri"), 0, &r, NULL, &bound),
                     FY_REASON_NONE);
    ck_assert_int_eq(bound.views[0].stride[0], -2);
    ck_assert_ptr_eq(bound.views[0].host, c_data + 6);
    ck_assert_uint_eq(fy_view_all_elements(&bound.views[1]), 10);
    const int64_t lo[FY_MAX_OPERAND_AXES] = {1, 2};
    const int64_t n[FY_MAX_OPERAND_AXES] = {3, 2};
    ck_assert_uint_eq(fy_view_elements(&bound.views[1], lo, n), 3);
}
END_TEST

/* An axis of -3 has no elements; more axes than there is room for are refused. */
START_TEST(odd_axes)
{
    const union fy_raw args[FY_MAX_ARGS] = {
        {.i = -3}, {.p = a_data}, {.i = 1}, {.p = c_data}};
    const uint32_t tri = function_of("tri");
    struct fy_function *row = (struct fy_function *)(uintptr_t)FY_TABLE(
                                  model, fy_function, functions) +
                              tri;
    struct fy_bound bound;

    (void)fy_bind_args(model, tri, 32, args, NULL, &bound);
    ck_assert_int_eq(bound.extents[0], 0);
    ck_assert_int_eq(bound.extents[1], 0);
    row->naxes = FY_MAX_AXES + 1;
    ck_assert_int_eq(fy_bind_args(model, tri, 32, args, NULL, &bound),
                     FY_REASON_UNSUPPORTED);
    row->naxes = 2;
}
END_TEST

START_TEST(memory)
{
    struct gemm g = good();
    struct fy_bound bound;

    ck_assert_int_eq(bind_gemm(&g, &bound), FY_REASON_NONE);
    ck_assert_int_eq(fy_bound_check_memory(&bound), FY_REASON_NONE);
    g.c = a_data + 1;
    ck_assert_int_eq(bind_gemm(&g, &bound), FY_REASON_NONE);
    ck_assert_int_eq(fy_bound_check_memory(&bound), FY_REASON_OVERLAP);
    g = good();
    g.a = (double *)(uintptr_t)0x1000;
    ck_assert_int_eq(bind_gemm(&g, &bound), FY_REASON_NONE);
    ck_assert_int_eq(fy_bound_check_memory(&bound), FY_REASON_UNMAPPED);
}
END_TEST

/* Handles are the addresses of these. */
static struct made {
    const char *maker;
    int64_t n;
} plan = {"make", 3}, list = {"count", 4}, other = {"count", 5};

static uint32_t
look_up(uint64_t handle, struct fy_value cells[FY_MAX_CELLS])
{
    const struct made *made = (const struct made *)(uintptr_t)handle;
    if (!made) {
        return FY_NIL;
    }
    uint32_t row = function_of(made->maker);
    const struct fy_function *f = &FY_TABLE(model, fy_function, functions)[row];
    for (unsigned i = 0; i < f->ncells; i++) {
        const char *name = fy_model_string(
            model, FY_TABLE(model, fy_cell, cells)[f->cells + i].name);
        cells[i] = strcmp(name, "n") == 0
                       ? (struct fy_value){.kind = FY_V_INT, .i = made->n}
                       : (struct fy_value){.kind = FY_V_POINTER,
                                           .p = (uintptr_t)c_data};
    }
    return row;
}

START_TEST(cells_of_handles_come_from_their_makers)
{
    const struct {
        struct made *first, *second;
        fy_handle_lookup *handles;
        enum fy_reason reason;
    } rows[] = {{&plan, &list, look_up, FY_REASON_NONE},
                {&plan, &other, look_up, FY_REASON_NONE},
                {&plan, NULL, look_up, FY_REASON_UNKNOWN_HANDLE},
                {NULL, &list, look_up, FY_REASON_UNKNOWN_HANDLE},
                {&list, &list, look_up, FY_REASON_UNKNOWN_HANDLE},
                {&plan, &plan, look_up, FY_REASON_UNKNOWN_HANDLE},
                {&plan, &list, NULL, FY_REASON_UNKNOWN_HANDLE}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct fy_registers r = {
            .integer = {(uintptr_t)rows[i].first, (uintptr_t)rows[i].second}};
        struct fy_bound bound;
        ck_assert_int_eq(
            fy_bind(model, function_of("run"), 32, &r, rows[i].handles, &bound),
            rows[i].reason);
        if (rows[i].reason == FY_REASON_NONE) {
            ck_assert_int_eq(bound.extents[0], 3);
            ck_assert_int_eq(bound.extents[1], rows[i].second->n);
            ck_assert_ptr_eq(bound.views[0].host, c_data);
        }
    }
}
END_TEST

START_TEST(cells_of_a_call_that_is_only_observed)
{
    const struct fy_registers value = {.integer = {3, (uintptr_t)c_data}};
    struct fy_value cells[FY_MAX_CELLS];
    uint32_t gemm = function_of("gemm_");
    struct gemm g = good();

    ck_assert_int_eq(
        fy_bind_cells(model, function_of("make"), 0, &value, true, cells),
        FY_REASON_NONE);
    ck_assert(cells[0].kind == FY_V_INT && cells[0].i == 3);
    pass(&g);
    ck_assert_int_eq(fy_bind_cells(model, gemm, 32, &g.registers, true, cells),
                     FY_REASON_NONE);
    ck_assert(cells[0].kind == FY_V_INT && cells[0].i == g.m);
    ck_assert_int_eq(fy_bind_cells(model, gemm, 0, &g.registers, true, cells),
                     FY_REASON_INTEGER_WIDTH);
    /* The original may not have looked behind a pointer. */
    static const uintptr_t places[] = {0, 0x1000};
    for (int i = 0; i < 2; i++) {
        g.registers.integer[1] = places[i];
        ck_assert_int_eq(
            fy_bind_cells(model, gemm, 32, &g.registers, true, cells),
            FY_REASON_UNMAPPED);
    }
}
END_TEST

START_TEST(width_of_integers_matters_where_there_are_some)
{
    ck_assert(fy_function_uses_integer(model, function_of("gemm_")));
    ck_assert(!fy_function_uses_integer(model, function_of("many")));
    ck_assert(!fy_function_uses_integer(model, function_of("boxed")));
    ck_assert(!fy_function_uses_integer(model, function_of("make")));
}
END_TEST

START_TEST(requirements_that_have_no_value)
{
    static const struct {
        int32_t n, m;
        enum fy_reason reason;
    } rows[] = {{1, 1, FY_REASON_NONE},
                {2, 1, FY_REASON_OVERFLOW},
                {-1, 1, FY_REASON_BAD_ARGUMENTS},
                {1, 0, FY_REASON_UNSUPPORTED},
                {1, 2, FY_REASON_BAD_ARGUMENTS}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct fy_registers r = {.integer = {(uint32_t)rows[i].n,
                                             (uint32_t)rows[i].m,
                                             (uintptr_t)c_data}};
        struct fy_bound bound;
        ck_assert_int_eq(
            fy_bind(model, function_of("odd"), 32, &r, NULL, &bound),
            rows[i].reason);
    }
}
END_TEST

/* Of several variants the first that fails for something else than a handle
 * gives the reason. */
START_TEST(reason_of_the_first_variant)
{
    static const struct {
        int32_t n;
        struct made *plan;
        enum fy_reason reason;
    } rows[] = {{3, &plan, FY_REASON_NONE},
                {2, &plan, FY_REASON_NONE},
                {1, &plan, FY_REASON_BAD_ARGUMENTS},
                {3, NULL, FY_REASON_UNKNOWN_HANDLE}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct fy_registers r = {
            .integer = {(uint32_t)rows[i].n, (uintptr_t)rows[i].plan}};
        struct fy_bound bound;
        ck_assert_int_eq(
            fy_bind(model, function_of("either"), 32, &r, look_up, &bound),
            rows[i].reason);
    }
}
END_TEST

/* What a call costs; a cost that has no value is 0, as that of a call without one. */
START_TEST(flops)
{
    static const struct {
        const char *function;
        int64_t n, m;
        double flops;
    } rows[] = {{"priced", 4, 3, 40},
                {"priced", 2, 12, 5},
                {"priced", 4, 0, 0},
                {"odd", 1, 1, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const union fy_raw args[FY_MAX_ARGS] = {
            {.i = rows[i].n}, {.i = rows[i].m}, {.p = c_data}};
        struct fy_bound bound = {.flops = -1};
        ck_assert_int_eq(fy_bind_args(model, function_of(rows[i].function), 32,
                                      args, NULL, &bound),
                         FY_REASON_NONE);
        ck_assert_double_eq(bound.flops, rows[i].flops);
    }
}
END_TEST

/* A field that is written: its address is known without a look behind the pointer. */
START_TEST(field_that_is_written)
{
    struct {
        int before;
        double of;
    } sum = {1, 2};
    union fy_raw args[FY_MAX_ARGS] = {{.i = 3}, {.p = a_data}, {.p = &sum}};
    const uint32_t summed = function_of("summed");
    struct fy_bound bound;

    ck_assert_int_eq(fy_bind_args(model, summed, 32, args, NULL, &bound),
                     FY_REASON_NONE);
    ck_assert_ptr_eq(bound.views[0].host, a_data);
    ck_assert_ptr_eq(bound.views[1].host, &sum.of);
    ck_assert_int_eq(bound.views[1].access, FY_ACCESS_OUT);
    args[2].p = NULL;
    ck_assert_int_eq(fy_bind_args(model, summed, 32, args, NULL, &bound),
                     FY_REASON_UNMAPPED);
}
END_TEST

/* Values instead of registers: the same. */
START_TEST(arguments_as_values)
{
    union fy_raw args[FY_MAX_ARGS] = {
        {.i = 4}, {.p = c_data}, {.i = -2}, {.p = a_data}};
    struct fy_bound bound;
    ck_assert_int_eq(
        fy_bind_args(model, function_of("tri"), 32, args, NULL, &bound),
        FY_REASON_NONE);
    ck_assert_uint_eq(bound.function_index, function_of("tri"));
    ck_assert_int_eq(bound.integer_bits, 32);
    ck_assert_int_eq(bound.extents[0], 4);
    ck_assert_int_eq(bound.views[0].stride[0], -2);
    ck_assert_ptr_eq(bound.views[0].host, c_data + 6);
}
END_TEST

int
main(void)
{
    struct fy_diagnostics *diagnostics = fy_diagnostics_new();
    Suite *suite = suite_create("bind");
    TCase *cases = tcase_create("bind");

    if (fy_compile_text("test_bind", text, sizeof(text) - 1, NULL, diagnostics,
                        &model)) {
        fy_diagnostics_print(diagnostics, stderr);
        return 99;
    }
    fy_diagnostics_free(diagnostics);
    tcase_add_test(cases, fortran_call);
    tcase_add_test(cases, reasons);
    tcase_add_test(cases, overflow);
    tcase_add_test(cases, registers_and_stack);
    tcase_add_test(cases, structs);
    tcase_add_test(cases, negative_increment_and_triangle);
    tcase_add_test(cases, odd_axes);
    tcase_add_test(cases, memory);
    tcase_add_test(cases, arguments_as_values);
    tcase_add_test(cases, cells_of_handles_come_from_their_makers);
    tcase_add_test(cases, cells_of_a_call_that_is_only_observed);
    tcase_add_test(cases, width_of_integers_matters_where_there_are_some);
    tcase_add_test(cases, requirements_that_have_no_value);
    tcase_add_test(cases, reason_of_the_first_variant);
    tcase_add_test(cases, flops);
    tcase_add_test(cases, field_that_is_written);
    suite_add_tcase(suite, cases);
    int status = run_suite(suite);
    free(model);
    return status;
}
