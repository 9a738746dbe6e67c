/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loop nests from text (annotations/model/nest.c): what each part of the grammar
 * becomes, and which texts are malformed.
 */
#include "config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "annotations/model/nest.h"
#include "tests/unit/runner.h"

/* Reads a copy that has no byte more, which AddressSanitizer watches; how much of it
 * was read, or -1. */
static long
read_nest(const char *text, struct fy_nest *out)
{
    char *copy = strdup(text);
    ck_assert_ptr_nonnull(copy);
    struct fy_nest_reader reader = {.at = copy};
    const bool good = fy_nest_read(&reader, out);
    ck_assert(reader.at >= copy && reader.at <= copy + strlen(copy));
    ck_assert(good || reader.expected);
    const long length = good ? (long)(reader.at - copy) : -1;
    free(copy);
    return length;
}

START_TEST(a_loop_names_its_variables)
{
    static const struct {
        const char *text;
        bool any;
        char outer, inner, step;
    } rows[] = {
        {"for i, j, k { i = j: self(A); }", false, 'i', 'j', 'k'},
        {"for any s, o, l { i = j: self(A); }", true, 's', 'o', 'l'},
        {"  for  i ,j,k{i=j:self(A);}", false, 'i', 'j', 'k'},
    };
    struct fy_nest nest;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ck_assert_msg(read_nest(rows[i].text, &nest) ==
                          (long)strlen(rows[i].text),
                      "%s", rows[i].text);
        ck_assert(nest.any == rows[i].any && nest.outer == rows[i].outer &&
                  nest.inner == rows[i].inner && nest.step == rows[i].step);
        ck_assert(nest.nbodies == 1 && nest.bodies[0].ncalls == 1 &&
                  !nest.bodies[0].down);
    }
}
END_TEST

START_TEST(a_call_has_its_condition_routine_and_operands)
{
    static const struct {
        const char *call, *when, *name;
        char factor;
        uint8_t noperands;
        struct fy_nest_operand operands[3];
    } rows[] = {
        {"self(A);", "", "self", '+', 1, {{.matrix = 'A'}}},
        {"i: self(A);", "i", "self", '+', 1, {{.matrix = 'A'}}},
        {"i > j = k: trsm(C[k]);",
         "i>j=k",
         "trsm",
         '+',
         1,
         {{.matrix = 'C', .row = 'k', .rows = '='}}},
        {"i!j<k=l: gemm(- A[i,k], B[k,o]', =D[s,o]);",
         "i!j<k=l",
         "gemm",
         '-',
         3,
         {{.matrix = 'A', .row = 'i', .col = 'k', .rows = '='},
          {.matrix = 'B', .row = 'k', .col = 'o', .rows = '=', .adjoint = true},
          {.matrix = 'D', .row = 's', .col = 'o', .rows = '=', .fresh = true}}},
        {"i = k: syrk(alpha A, = B' );",
         "i=k",
         "syrk",
         'a',
         2,
         {{.matrix = 'A'}, {.matrix = 'B', .adjoint = true, .fresh = true}}},
        {"i = k: syrk(conj alpha A[ i , j ] ' ) ;",
         "i=k",
         "syrk",
         'c',
         1,
         {{.matrix = 'A',
           .row = 'i',
           .col = 'j',
           .rows = '=',
           .adjoint = true}}},
        {"gemm(0 A[k:, j], A[k+:, j], A[:k, j]);",
         "",
         "gemm",
         '0',
         3,
         {{.matrix = 'A', .row = 'k', .col = 'j', .rows = '>'},
          {.matrix = 'A', .row = 'k', .col = 'j', .rows = 'v'},
          {.matrix = 'A', .row = 'k', .col = 'j', .rows = '^'}}},
        {"trsm(unit A[k, k], =upper B);",
         "",
         "trsm",
         '+',
         2,
         {{.matrix = 'A', .row = 'k', .col = 'k', .rows = '=', .triangle = '1'},
          {.matrix = 'B', .triangle = 'U', .fresh = true}}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[128];
        struct fy_nest nest;
        (void)snprintf(text, sizeof text, "for i, j, k { %s }", rows[i].call);
        ck_assert_msg(read_nest(text, &nest) == (long)strlen(text), "%s", text);
        const struct fy_nest_call *call = &nest.bodies[0].calls[0];
        ck_assert_str_eq(call->when, rows[i].when);
        ck_assert_int_eq(call->factor, rows[i].factor);
        ck_assert_str_eq(call->name, rows[i].name);
        ck_assert_uint_eq(call->noperands, rows[i].noperands);
        for (unsigned k = 0; k < 3; k++) {
            const struct fy_nest_operand *got = &call->operands[k];
            const struct fy_nest_operand *want = &rows[i].operands[k];
            ck_assert_msg(got->matrix == want->matrix &&
                              got->row == want->row && got->col == want->col &&
                              got->adjoint == want->adjoint &&
                              got->rows == want->rows &&
                              got->triangle == want->triangle &&
                              got->fresh == want->fresh,
                          "%s: operand %u", rows[i].call, k);
        }
    }
}
END_TEST

/* Bodies behind the first go down; what follows the third is another loop's. */
START_TEST(a_loop_has_three_bodies_at_most)
{
    static const char body[] = "{ i = j: self(A); } ";
    for (unsigned bodies = 1; bodies <= 5; bodies++) {
        char text[256] = "for i, j, k ";
        struct fy_nest nest;
        for (unsigned i = 0; i < bodies; i++) {
            strcat(strcat(text, i ? "down " : ""), body);
        }
        const long length = read_nest(text, &nest);
        ck_assert_uint_eq(nest.nbodies, bodies < 3 ? bodies : 3);
        ck_assert(!nest.bodies[0].down && nest.bodies[1].down == (bodies > 1));
        /* All of the bodies that were read, with the blank behind. */
        ck_assert_int_eq(length, (long)(12 + nest.nbodies * (sizeof body - 1) +
                                        (nest.nbodies - 1) * 5));
    }
    struct fy_nest nest;
    ck_assert_int_gt(read_nest("for i, o, k down { i = k: self(A); }", &nest),
                     0);
    ck_assert(nest.nbodies == 1 && nest.bodies[0].down);
    ck_assert_int_eq(
        read_nest("for i, j, k { i: self(A); } for j, i, k", &nest), 28);
}
END_TEST

START_TEST(a_body_has_nine_calls_at_most)
{
    for (unsigned calls = 0; calls <= FY_MAX_NEST_CALLS + 1; calls++) {
        char text[512] = "for i, j, k {";
        struct fy_nest nest;
        for (unsigned i = 0; i < calls; i++) {
            strcat(text, " i = j: self(A);");
        }
        strcat(text, "}");
        const bool good = calls > 0 && calls <= FY_MAX_NEST_CALLS;
        ck_assert_msg((read_nest(text, &nest) > 0) == good, "%u calls", calls);
        ck_assert(!good || nest.bodies[0].ncalls == calls);
    }
}
END_TEST

START_TEST(malformed_calls_are_refused)
{
    static const char *const calls[] = {
        ": self(A);",                  /* no variable */
        "m: self(A);",                 /* none of the six */
        "i j: self(A);",               /* nothing between them */
        "i =: self(A);",               /* nothing behind */
        "i = = j: self(A);",           /* no variable between */
        "i ? j: self(A);",             /* no such comparison */
        "i = j = k = l = o: self(A);", /* more than `when' has room for */
        "i = j self(A);",
        "i = j: (A);",
        "i = j: abcdefghijklmnop(A);", /* more than a name has room for */
        "i = j: self(unitA);",
        "i = j: self(A[k+]);",
        "i = j: self(A[:]);",
        "i = j: self(A[+:]);",
        "i = j: self(conj A);",
        "i = j: self A;",
        "i = j: self();",
        "i = j: self(E);",
        "i = j: self(@);",
        "i = j: self(+ A);", /* no such factor */
        "i = j: self(a);",
        "i = j: self(A[);",
        "i = j: self(A[]);",
        "i = j: self(A[m]);",
        "i = j: self(A[i);",
        "i = j: self(A[i,]);",
        "i = j: self(A[i,m]);",
        "i = j: self(A[i,j,k]);",
        "i = j: self(A, B, C, D);", /* four of them */
        "i = j: self(A,);",
        "i = j: self(A;",
        "i = j: self(A)",
        "i = j: self(A'');",
        "i = j: self(A) i = j: self(A);",
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        char text[128];
        struct fy_nest nest;
        (void)snprintf(text, sizeof text, "for i, j, k { %s }", calls[i]);
        ck_assert_msg(read_nest(text, &nest) < 0, "%s", calls[i]);
    }
}
END_TEST

START_TEST(malformed_loops_are_refused)
{
    static const char *const texts[] = {
        "",
        "for",
        "fori, j, k { i = j: self(A); }",
        "for { i = j: self(A); }",
        "for i { i = j: self(A); }",
        "for each any i, j { i = j: self(A); }",
        "for i j, k { i = j: self(A); }",
        "for i, j k { i = j: self(A); }",
        "for m, j, k { i = j: self(A); }",
        "for i, m, k { i = j: self(A); }",
        "for i, j, m { i = j: self(A); }",
        "for anyi, j, k { i = j: self(A); }",
        "for down i, j, k { i = j: self(A); }",
        "for i, j, k, l { i = j: self(A); }",
        "for i, j, k i = j: self(A); }",
        "for i, j, k { i = j: self(A); } down ",
        "for i, j, k { i = j: self(A); } then ",
        "for i, j { i = j: self(A); } then for",
        "for i, j, k { i = j: self(A); } down { }",
        "for i, j, k { i = j: self(A); } down { i = j: self(E); }",
    };
    struct fy_nest nest;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        ck_assert_msg(read_nest(texts[i], &nest) < 0, "%s", texts[i]);
    }
}
END_TEST

/* Whatever is cut off is missed. */
START_TEST(a_nest_that_is_cut_off_is_refused)
{
    static const char whole[] =
        "for any i, j, k down { i > j = k: gemm(- A[i,k], B[j,k]', =C[i,j]); }";
    struct fy_nest nest;
    ck_assert_int_eq(read_nest(whole, &nest), (long)sizeof whole - 1);
    for (size_t n = 0; n < sizeof whole - 1; n++) {
        char text[sizeof whole];
        memcpy(text, whole, n);
        text[n] = '\0';
        ck_assert_msg(read_nest(text, &nest) < 0, "%s", text);
    }
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("nest");
    TCase *cases = tcase_create("nest");
    tcase_add_test(cases, a_loop_names_its_variables);
    tcase_add_test(cases, a_call_has_its_condition_routine_and_operands);
    tcase_add_test(cases, a_loop_has_three_bodies_at_most);
    tcase_add_test(cases, a_body_has_nine_calls_at_most);
    tcase_add_test(cases, malformed_calls_are_refused);
    tcase_add_test(cases, malformed_loops_are_refused);
    tcase_add_test(cases, a_nest_that_is_cut_off_is_refused);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
