/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registers and stack to arguments, cells, extents and views; every reason a
 * call can be declined for before its memory is looked at.
 */
#include "config.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "annotations/annotations.h"
#include "pager/bind.h"
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
    "}\n";

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
    tcase_add_test(cases, memory);
    suite_add_tcase(suite, cases);
    int status = run_suite(suite);
    free(model);
    return status;
}
