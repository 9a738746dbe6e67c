/* SPDX-License-Identifier: Apache-2.0 */
/*
 * annotations/model/eval.c: values, overflow, laziness, and models that are wrong.
 * Long because each kind of expression has its rows here.
 */
#include "config.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "annotations/model/annotations.h"
#include "annotations/model/eval.h"
#include "tests/unit/runner.h"

/* f(i, j, x, z, c, p) with one require: the expression under test. */
struct one {
    struct fy_model *model;
    struct fy_value cells[8];
    struct fy_scope scope;
    uint32_t node;
};

static void
set_cells(struct one *one, const char *const *names,
          const struct fy_value *values, unsigned count)
{
    const struct fy_function *f = one->scope.function;
    const struct fy_cell *cells =
        FY_TABLE(one->model, fy_cell, cells) + f->cells;
    for (uint16_t i = 0; i < f->ncells; i++) {
        for (unsigned k = 0; k < count; k++) {
            if (strcmp(fy_model_string(one->model, cells[i].name), names[k]) ==
                0) {
                one->cells[i] = values[k];
            }
        }
    }
}

static void
start(struct one *one, const char *expression)
{
    static const char *const names[] = {"i", "j", "x", "z", "c", "p"};
    const struct fy_value values[] = {
        {.kind = FY_V_INT, .i = 7},    {.kind = FY_V_INT, .i = INT64_MAX},
        {.kind = FY_V_REAL, .r = 0.5}, {.kind = FY_V_COMPLEX, .r = 1, .im = 2},
        {.kind = FY_V_INT, .i = 'N'},  {.kind = FY_V_POINTER, .p = 0x1000},
    };
    struct fy_diagnostics *diagnostics = fy_diagnostics_new();
    char text[512];
    memset(one, 0, sizeof *one);
    (void)snprintf(text, sizeof text,
                   "function void f(long i, long j, double x, complex double "
                   "z, char c, double *p) { axis a = i * 2, b = j; require %s; "
                   "in p[a]; }",
                   expression);
    if (fy_compile_text("eval", text, strlen(text), NULL, diagnostics,
                        &one->model) != FY_OK) {
        fy_diagnostics_print(diagnostics, stderr);
        ck_abort_msg("%s", expression);
    }
    fy_diagnostics_free(diagnostics);
    one->scope.model = one->model;
    one->scope.function = FY_TABLE(one->model, fy_function, functions);
    one->scope.cells = one->cells;
    set_cells(one, names, values, 6);
    one->node = FY_TABLE(one->model, fy_require, requires)[0].node;
}

START_TEST(expressions_have_their_values)
{
    static const struct {
        const char *expression;
        int status;
        double value;
    } rows[] = {
        {"i + 2 * 3 - 1", 0, 12},
        {"i / 2", 0, 3},
        {"-i / 2", 0, -3},
        {"-i % 4", 0, -3},
        {"i % 4", 0, 3},
        {"i * x", 0, 3.5},
        {"i / 2.0", 0, 3.5},
        {"min(i, 3, 5)", 0, 3},
        {"max(i, 3.5, 8)", 0, 8},
        {"abs(-i)", 0, 7},
        {"abs(i)", 0, 7},
        {"abs(x)", 0, 0.5},
        {"abs(i - 7)", 0, 0},
        {"abs(x - 1)", 0, 0.5},
        {"!i", 0, 0},
        {"!(i - 7)", 0, 1},
        {"i < 8 && x > 0.25 || 0", 0, 1},
        {"i <= 7", 0, 1},
        {"i >= 8", 0, 0},
        {"i == 7.0", 0, 1},
        {"i != x", 0, 1},
        {"z == 1", 0, 0},
        {"z != 0", 0, 1},
        {"z == z", 0, 1},
        {"p != 0", 0, 1},
        {"p == 0", 0, 0},
        {"p == p", 0, 1},
        {"c == 'N'", 0, 1},
        {"c in \"Tt\"", 0, 0},
        {"c in \"nN\"", 0, 1},
        {"c in \"\"", 0, 0},
        {"i ? 3 : 1 / 0", 0, 3},
        {"i < 0 && 1 / 0 > 0", 0, 0},
        {"i > 0 || 1 / 0 > 0", 0, 1},
        {"1 / 0", FY_ERR_INVALID, 0},
        {"1 % (i - 7)", FY_ERR_INVALID, 0},
        {"1.0 / 0", FY_ERR_INVALID, 0},
        {"p", FY_ERR_INVALID, 0}, /* no number */
        {"j", 0, 9223372036854775807.0},
        {"j + 1", FY_ERR_OVERFLOW, 0},
        {"-j - 2", FY_ERR_OVERFLOW, 0},
        {"j * 2", FY_ERR_OVERFLOW, 0},
        {"-(j * 2)", FY_ERR_OVERFLOW, 0},
        {"!(j * 2)", FY_ERR_OVERFLOW, 0},
        {"abs(j * 2)", FY_ERR_OVERFLOW, 0},
        {"-j - 1", 0, -9223372036854775808.0},
        {"-(-j - 1)", FY_ERR_OVERFLOW, 0},
        {"abs(-j - 1)", FY_ERR_OVERFLOW, 0},
        {"(-j - 1) / -1", FY_ERR_OVERFLOW, 0},
        {"(-j - 1) % -1", 0, 0},
        {"j * 2.0", 0, 18446744073709551614.0},
        {"a", 0, 14},
        {"a + 1", 0, 15},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct one one;
        double value = -77;
        start(&one, rows[i].expression);
        errno = 5;
        int status = fy_eval_real(&one.scope, one.node, &value);
        ck_assert_int_eq(errno, 5);
        ck_assert_msg(status == rows[i].status, "%s: %d", rows[i].expression,
                      status);
        ck_assert_msg(value == (status ? -77 : rows[i].value), "%s: %.17g",
                      rows[i].expression, value);
        free(one.model);
    }
}
END_TEST

/* What `a op b' is in C, of integers or of reals; false: an error. */
static bool
expected(const char *op, double a, double b, bool integers, double *out)
{
    static const char *const names[] = {"+",  "-",   "*",  "/",  "%",
                                        "<",  "<=",  ">",  ">=", "==",
                                        "!=", "min", "max"};
    bool divides = strcmp(op, "/") == 0 || strcmp(op, "%") == 0;
    if ((divides && b == 0) || (strcmp(op, "%") == 0 && !integers)) {
        return false;
    }
    int64_t i = (int64_t)a, j = (int64_t)b;
    const double values[] = {a + b,
                             a - b,
                             a * b,
                             divides ? integers ? (double)(i / j) : a / b : 0,
                             divides && integers ? (double)(i % j) : 0,
                             a<b, a <= b, a>
                                 b,
                             a >= b,
                             a == b,
                             a != b,
                             a < b ? a : b,
                             a > b ? a : b};
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        if (strcmp(op, names[k]) == 0) {
            *out = values[k];
            return true;
        }
    }
    ck_abort_msg("%s", op);
}

START_TEST(operators_compute_as_in_c)
{
    static const struct {
        const char *op, *expression;
    } rows[] = {{"+", "i + j"},      {"-", "i - j"},   {"*", "i * j"},
                {"/", "i / j"},      {"%", "i % j"},   {"<", "i < j"},
                {"<=", "i <= j"},    {">", "i > j"},   {">=", "i >= j"},
                {"==", "i == j"},    {"!=", "i != j"}, {"min", "min(i, j)"},
                {"max", "max(i, j)"}};
    static const char *const names[] = {"i", "j"};
    static const int8_t numbers[] = {-7, -1, 0, 1, 2, 7};
    const unsigned n = sizeof numbers;
    for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++) {
        struct one one;
        start(&one, rows[row].expression);
        for (unsigned at = 0; at < n * n * 4; at++) {
            bool real[2] = {at & 1, at & 2};
            double number[2] = {numbers[at / 4 % n], numbers[at / 4 / n]};
            struct fy_value values[2];
            double value = -77, right;
            for (int k = 0; k < 2; k++) {
                values[k] =
                    real[k]
                        ? (struct fy_value){.kind = FY_V_REAL, .r = number[k]}
                        : (struct fy_value){.kind = FY_V_INT,
                                            .i = (int64_t)number[k]};
            }
            set_cells(&one, names, values, 2);
            bool good = expected(rows[row].op, number[0], number[1],
                                 !real[0] && !real[1], &right);
            int status = fy_eval_real(&one.scope, one.node, &value);
            ck_assert_msg(status == (good ? FY_OK : FY_ERR_INVALID) &&
                              value == (good ? right : -77),
                          "%g %s %g: %d, %g", number[0], rows[row].op,
                          number[1], status, value);
        }
        free(one.model);
    }
}
END_TEST

/* Of pointers and complex numbers only == and != can be told, and only of what
 * compares in C. */
START_TEST(pointers_and_complex_numbers_have_no_order)
{
    static const char *const names[] = {"i", "j"};
    const struct fy_value zero = {.kind = FY_V_INT};
    const struct fy_value half = {.kind = FY_V_REAL, .r = 0.5};
    const struct fy_value here = {.kind = FY_V_POINTER, .p = 0x1000};
    const struct fy_value there = {.kind = FY_V_POINTER, .p = 0x2000};
    const struct fy_value null = {.kind = FY_V_POINTER};
    const struct fy_value pure = {.kind = FY_V_COMPLEX, .r = 0.5};
    const struct fy_value mixed = {.kind = FY_V_COMPLEX, .r = 0.5, .im = 1};
    const struct fy_value other = {.kind = FY_V_COMPLEX, .r = 0.5, .im = 2};
    const struct {
        struct fy_value a, b;
        int status;
        bool equal;
    } rows[] = {
        {here, here, FY_OK, true},
        {here, there, FY_OK, false},
        {null, zero, FY_OK, true},
        {here, zero, FY_OK, false},
        {here, half, FY_ERR_INVALID, false},
        {here, pure, FY_ERR_INVALID, false},
        {pure, half, FY_OK, true},
        {mixed, half, FY_OK, false},
        {mixed, mixed, FY_OK, true},
        {mixed, other, FY_OK, false},
        {pure, zero, FY_OK, false},
    };
    struct one equal, unequal, less;
    start(&equal, "i == j");
    start(&unequal, "i != j");
    start(&less, "i < j");
    for (size_t row = 0; row < sizeof rows / sizeof rows[0] * 2; row++) {
        struct fy_value pair[] = {rows[row / 2].a, rows[row / 2].b};
        struct fy_value turned[] = {pair[1], pair[0]};
        struct one *const all[] = {&equal, &unequal, &less};
        for (int k = 0; k < 3; k++) {
            int64_t value = -77;
            set_cells(all[k], names, row % 2 ? turned : pair, 2);
            ck_assert_int_eq(fy_eval_int(&all[k]->scope, all[k]->node, &value),
                             k == 2 ? FY_ERR_INVALID : rows[row / 2].status);
            if (k < 2 && rows[row / 2].status == FY_OK) {
                ck_assert_int_eq(value, rows[row / 2].equal == (k == 0));
            }
        }
    }
    free(equal.model);
    free(unequal.model);
    free(less.model);
}
END_TEST

START_TEST(only_whole_numbers_are_integers)
{
    static const struct {
        const char *expression;
        int status;
        int64_t value;
    } rows[] = {
        {"i", 0, 7},
        {"x * 4", 0, 2},
        {"x", FY_ERR_INVALID, 0},
        {"j * 1.0", FY_ERR_INVALID, 0}, /* 2^63 does not fit */
        {"j * -2.0", FY_ERR_INVALID, 0},
        {"(-j - 1) * 1.0", 0, INT64_MIN},
        {"z", FY_ERR_INVALID, 0},
        {"p", FY_ERR_INVALID, 0},
        {"c", 0, 'N'},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct one one;
        int64_t value = -77;
        start(&one, rows[i].expression);
        ck_assert_msg(fy_eval_int(&one.scope, one.node, &value) ==
                          rows[i].status,
                      "%s", rows[i].expression);
        ck_assert_int_eq(value, rows[i].status ? -77 : rows[i].value);
        free(one.model);
    }
}
END_TEST

START_TEST(what_is_not_zero_is_true)
{
    static const struct {
        const char *expression;
        bool value;
    } rows[] = {{"i", true},
                {"i - 7", false},
                {"x", true},
                {"x - x", false},
                {"z", true},
                {"p", true},
                {"c", true},
                {"!z", false},
                {"i > 0 && x > 1", false},
                {"i > 0 && x < 1", true},
                {"x > 1 || i < 0", false},
                {"x > 1 || i > 0", true},
                {"7 && x - 0.5", false},
                {"0 || x - 0.5", false},
                {"7 && x", true},
                {"0 || x", true}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct one one;
        bool value = !rows[i].value;
        start(&one, rows[i].expression);
        ck_assert_int_eq(fy_eval_bool(&one.scope, one.node, &value), FY_OK);
        ck_assert_msg(value == rows[i].value, "%s", rows[i].expression);
        free(one.model);
    }
    /* A side that is evaluated and has no value: nor has the whole. */
    static const char *const none[] = {
        "1 / (i - 7) > 0 && i > 0", "i > 0 && 1 / (i - 7) > 0",
        "i > 0 && 1 / (i - 7)",     "1 / (i - 7) || i > 0",
        "i < 0 || 1 / (i - 7) > 0", "!(1 / (i - 7))"};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        struct one one;
        bool value;
        start(&one, none[i]);
        ck_assert_msg(fy_eval_bool(&one.scope, one.node, &value) ==
                          FY_ERR_INVALID,
                      "%s", none[i]);
        free(one.model);
    }
}
END_TEST

START_TEST(extents_of_a_chunk_replace_the_axes_own)
{
    const int64_t extents[] = {5, 6};
    struct one one;
    int64_t value;
    start(&one, "a * 10");
    ck_assert_int_eq(fy_eval_int(&one.scope, one.node, &value), FY_OK);
    ck_assert_int_eq(value, 140);
    one.scope.extents = extents;
    ck_assert_int_eq(fy_eval_int(&one.scope, one.node, &value), FY_OK);
    ck_assert_int_eq(value, 50);
    free(one.model);
    start(&one, "b - 1"); /* the second axis */
    ck_assert_int_eq(fy_eval_int(&one.scope, one.node, &value), FY_OK);
    ck_assert_int_eq(value, INT64_MAX - 1);
    one.scope.extents = extents;
    ck_assert_int_eq(fy_eval_int(&one.scope, one.node, &value), FY_OK);
    ck_assert_int_eq(value, 5);
    free(one.model);
}
END_TEST

START_TEST(a_bare_cell_is_found_behind_choices)
{
    static const struct {
        const char *expression;
        const char *cell; /* NULL: none */
    } rows[] = {
        {"i", "i"},
        {"i > 0 ? j : i", "j"},
        {"i < 0 ? j : i", "i"},
        {"i < 0 ? j : c == 'N' ? i : 3", "i"},
        {"i + 0", NULL},
        {"i > 0 ? 3 : i", NULL},
        {"1 / 0 ? i : j", NULL},
        {"a", NULL},
        {"b", "j"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct one one;
        start(&one, rows[i].expression);
        uint32_t cell = fy_eval_bare_cell(&one.scope, one.node);
        if (!rows[i].cell) {
            ck_assert_msg(cell == FY_NIL, "%s", rows[i].expression);
        } else {
            ck_assert_msg(cell != FY_NIL, "%s", rows[i].expression);
            const struct fy_cell *cells =
                FY_TABLE(one.model, fy_cell, cells) + one.scope.function->cells;
            ck_assert_str_eq(fy_model_string(one.model, cells[cell].name),
                             rows[i].cell);
        }
        free(one.model);
    }
}
END_TEST

START_TEST(malformed_nodes_have_no_value)
{
    struct one one;
    struct fy_value value;
    start(&one, "i + j");
    ck_assert_int_eq(fy_eval(&one.scope, FY_NIL, &value), FY_ERR_INVALID);
    ck_assert_int_eq(fy_eval(&one.scope, one.model->nodes.count, &value),
                     FY_ERR_INVALID);
    struct fy_node *nodes =
        (void *)((char *)one.model + one.model->nodes.offset);
    nodes[one.node].a = one.node; /* a cycle */
    ck_assert_int_eq(fy_eval(&one.scope, one.node, &value), FY_ERR_INVALID);
    nodes[one.node].op = 250;
    ck_assert_int_eq(fy_eval(&one.scope, one.node, &value), FY_ERR_INVALID);
    nodes[one.node].op = FY_OP_CELL;
    nodes[one.node].a = 1000;
    ck_assert_int_eq(fy_eval(&one.scope, one.node, &value), FY_ERR_INVALID);
    nodes[one.node].op = FY_OP_EXTENT;
    ck_assert_int_eq(fy_eval(&one.scope, one.node, &value), FY_ERR_INVALID);
    free(one.model);
}
END_TEST

/* What is no value is not looked into either: that would overflow. */
START_TEST(what_is_no_value_is_not_looked_into)
{
    static const uint8_t ops[] = {FY_OP_ADDRESS, FY_OP_WORD,  FY_OP_SCALAR,
                                  FY_OP_ELEMENT, FY_OP_VALUE, FY_OP_MATH};
    struct one one;
    struct fy_value value;
    start(&one, "j * 2 > i");
    ck_assert_int_eq(fy_eval(&one.scope, one.node, &value), FY_ERR_OVERFLOW);
    struct fy_node *nodes =
        (void *)((char *)one.model + one.model->nodes.offset);
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        nodes[one.node].op = ops[i];
        ck_assert_int_eq(fy_eval(&one.scope, one.node, &value), FY_ERR_INVALID);
    }
    free(one.model);
}
END_TEST

/* Each part of an operator without a value leaves the whole without one. */
START_TEST(a_part_without_a_value_leaves_none)
{
    static const char *const rows[] = {
        "1 / 0 + 1",     "1 + 1 / 0",     "1 / 0 < 1",     "1 < 1 / 0",
        "-(1 / 0)",      "abs(1 / 0)",    "1 / 0 ? 1 : 1", "1 ? 1 / 0 : 1",
        "0 ? 1 : 1 / 0", "min(1, 1 / 0)", "max(1 / 0, 1)"};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct fy_value value = {.i = -77};
        struct one one;
        start(&one, rows[i]);
        ck_assert_msg(fy_eval(&one.scope, one.node, &value) == FY_ERR_INVALID,
                      "%s", rows[i]);
        free(one.model);
    }
}
END_TEST

/* `in' is asked of an integer, and of a text that the model has. */
START_TEST(members_are_integers)
{
    static const char *const names[] = {"c"};
    const struct fy_value values[] = {
        {.kind = FY_V_REAL, .i = 'N', .r = 'N'},
        {.kind = FY_V_COMPLEX, .i = 'N', .r = 'N'},
        {.kind = FY_V_POINTER, .i = 'N', .p = 'N'}};
    struct fy_value value;
    struct one one;
    start(&one, "c in \"N\"");
    ck_assert_int_eq(fy_eval(&one.scope, one.node, &value), FY_OK);
    ck_assert_int_eq(value.i, 1);
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        set_cells(&one, names, &values[i], 1);
        ck_assert_int_eq(fy_eval(&one.scope, one.node, &value), FY_ERR_INVALID);
    }
    set_cells(&one, names, &(struct fy_value){.kind = FY_V_INT, .i = 'N'}, 1);
    struct fy_node *nodes =
        (void *)((char *)one.model + one.model->nodes.offset);
    nodes[one.node].b = one.model->strings.count;
    ck_assert_int_eq(fy_eval(&one.scope, one.node, &value), FY_ERR_INVALID);
    free(one.model);
}
END_TEST

/* FY_MAX_NODE_DEPTH nodes below each other have a value, one more has none. */
START_TEST(depth_is_bounded)
{
    static struct fy_node nodes[FY_MAX_NODE_DEPTH + 1];
    struct one one;
    struct fy_value value;
    start(&one, "i");
    struct fy_model *deep = malloc(one.model->size_bytes + sizeof nodes);
    ck_assert_ptr_nonnull(deep);
    memcpy(deep, one.model, one.model->size_bytes);
    nodes[0] = (struct fy_node){.op = FY_OP_INT, .u.i = 5};
    for (uint32_t i = 1; i <= FY_MAX_NODE_DEPTH; i++) {
        nodes[i] = (struct fy_node){.op = FY_OP_NEG, .a = i - 1};
    }
    deep->nodes.offset = one.model->size_bytes;
    deep->nodes.count = FY_MAX_NODE_DEPTH + 1;
    memcpy((char *)deep + deep->nodes.offset, nodes, sizeof nodes);
    one.scope.model = deep;
    for (uint32_t over = 0; over < 2; over++) {
        const uint32_t node = FY_MAX_NODE_DEPTH - 1 + over;
        const int status = over ? FY_ERR_INVALID : FY_OK;
        int64_t integer;
        double real;
        bool truth;
        ck_assert_int_eq(fy_eval(&one.scope, node, &value), status);
        ck_assert_int_eq(fy_eval_int(&one.scope, node, &integer), status);
        ck_assert_int_eq(fy_eval_real(&one.scope, node, &real), status);
        ck_assert_int_eq(fy_eval_bool(&one.scope, node, &truth), status);
    }
    ck_assert_int_eq(value.i, FY_MAX_NODE_DEPTH % 2 ? 5 : -5);
    free(deep);
    free(one.model);
}
END_TEST

/* A choice of a choice of ... a cell, as deep as an expression may be; and in a choice
 * as deep as that a condition counts from where it stands. */
START_TEST(depth_of_bare_cells_is_bounded)
{
    enum {
        CELL,
        YES,
        COUNT = FY_MAX_NODE_DEPTH + 3
    };
    static struct fy_node nodes[COUNT];
    struct one one;
    start(&one, "i");
    struct fy_model *deep = malloc(one.model->size_bytes + sizeof nodes);
    ck_assert_ptr_nonnull(deep);
    memcpy(deep, one.model, one.model->size_bytes);
    nodes[CELL] = (struct fy_node){.op = FY_OP_CELL, .a = 0};
    nodes[YES] = (struct fy_node){.op = FY_OP_INT, .u.i = 1};
    for (uint32_t i = YES + 1; i < COUNT; i++) {
        nodes[i] = (struct fy_node){.op = FY_OP_COND,
                                    .a = YES,
                                    .b = i == YES + 1 ? CELL : i - 1,
                                    .c = FY_NIL};
    }
    deep->nodes.offset = one.model->size_bytes;
    deep->nodes.count = COUNT;
    memcpy((char *)deep + deep->nodes.offset, nodes, sizeof nodes);
    one.scope.model = deep;
    /* The cell is the last of FY_MAX_NODE_DEPTH nodes, then one too many; the last
     * condition is as deep as the cell. */
    ck_assert_uint_eq(fy_eval_bare_cell(&one.scope, FY_MAX_NODE_DEPTH), 0);
    ck_assert_uint_eq(fy_eval_bare_cell(&one.scope, FY_MAX_NODE_DEPTH + 1),
                      FY_NIL);
    /* One choice whose condition is as deep as may be, then one deeper. */
    struct fy_node *at = (void *)((char *)deep + deep->nodes.offset);
    for (uint32_t i = YES + 1; i < COUNT - 1; i++) {
        at[i] = (struct fy_node){.op = FY_OP_NEG, .a = i - 1};
    }
    at[COUNT - 1] = (struct fy_node){.op = FY_OP_COND, .b = CELL, .c = FY_NIL};
    at[COUNT - 1].a = YES + FY_MAX_NODE_DEPTH - 2;
    ck_assert_uint_eq(fy_eval_bare_cell(&one.scope, COUNT - 1), 0);
    at[COUNT - 1].a++;
    ck_assert_uint_eq(fy_eval_bare_cell(&one.scope, COUNT - 1), FY_NIL);
    free(deep);
    free(one.model);
}
END_TEST

START_TEST(types_have_their_bytes)
{
    ck_assert_uint_eq(fy_type_bytes(FY_T_VOID, 32), 0);
    ck_assert_uint_eq(fy_type_bytes(FY_T_CHAR, 32), 1);
    ck_assert_uint_eq(fy_type_bytes(FY_T_I16, 32), 2);
    ck_assert_uint_eq(fy_type_bytes(FY_T_INTEGER, 32), 4);
    ck_assert_uint_eq(fy_type_bytes(FY_T_INTEGER, 64), 8);
    ck_assert_uint_eq(fy_type_bytes(FY_T_F32, 32), 4);
    ck_assert_uint_eq(fy_type_bytes(FY_T_C32, 32), 8);
    ck_assert_uint_eq(fy_type_bytes(FY_T_C64, 32), 16);
    ck_assert_uint_eq(fy_type_bytes(FY_T_POINTER, 32), sizeof(void *));
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("eval");
    TCase *tests = tcase_create("eval");
    tcase_add_test(tests, expressions_have_their_values);
    tcase_add_test(tests, operators_compute_as_in_c);
    tcase_add_test(tests, pointers_and_complex_numbers_have_no_order);
    tcase_add_test(tests, only_whole_numbers_are_integers);
    tcase_add_test(tests, what_is_not_zero_is_true);
    tcase_add_test(tests, extents_of_a_chunk_replace_the_axes_own);
    tcase_add_test(tests, a_bare_cell_is_found_behind_choices);
    tcase_add_test(tests, malformed_nodes_have_no_value);
    tcase_add_test(tests, what_is_no_value_is_not_looked_into);
    tcase_add_test(tests, a_part_without_a_value_leaves_none);
    tcase_add_test(tests, members_are_integers);
    tcase_add_test(tests, depth_is_bounded);
    tcase_add_test(tests, depth_of_bare_cells_is_bounded);
    tcase_add_test(tests, types_have_their_bytes);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
