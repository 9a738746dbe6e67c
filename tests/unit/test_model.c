/* SPDX-License-Identifier: Apache-2.0 */
/*
 * annotations/model.c and validate.c: look-up, and blocks that are no models.
 */
#include "config.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "annotations/annotations.h"
#include "tests/unit/runner.h"

static const char text[] =
    "handle plan;\n"
    "function plan make(int n, double *x) { opaque x; }\n"
    "function void run(plan p from make) { axis i = p.n; let e = i;\n"
    "  require p.n > 0; inout p.x[i: 1] when e > 1; flops 2.0 * i;\n"
    "  on host go(p, p.x); }\n"
    "function void f(int n, char u, double *a, double *c, double beta) {\n"
    "  axis i = n, j = n; axis n split sums into c with beta = 1;\n"
    "  in a[i: 1, j: n] lower when u in \"Ll\" as tri;\n"
    "  in a[n: 1]; inout c[2: 1] out when beta == 0;\n"
    "  also \"g\" integer 64, \"h\"; worth n > 3; blocked by trsm; }\n";

static struct fy_model *model;
static size_t size; /* of its block */

static void
setup(void)
{
    struct fy_diagnostics *diagnostics = fy_diagnostics_new();
    if (fy_compile_text("t", text, strlen(text), NULL, diagnostics, &model)) {
        fy_diagnostics_print(diagnostics, stderr);
    }
    fy_diagnostics_free(diagnostics);
    ck_assert_ptr_nonnull(model);
    size = model->size_bytes;
}

static void
teardown(void)
{
    free(model);
    model = NULL;
}

START_TEST(test_find_symbol)
{
    static const char *const there[] = {"f", "g", "h", "make", "run"};
    static const char *const absent[] = {"", "a", "ff", "zz", "mak", "makes"};
    for (size_t i = 0; i < sizeof there / sizeof there[0]; i++) {
        uint32_t row = fy_model_find_symbol(model, there[i]);
        ck_assert_uint_eq(row, i); /* the table is sorted */
    }
    for (size_t i = 0; i < sizeof absent / sizeof absent[0]; i++) {
        ck_assert_uint_eq(fy_model_find_symbol(model, absent[i]), FY_NIL);
    }
    const struct fy_symbol *g = FY_TABLE(model, fy_symbol, symbols) + 1;
    ck_assert_uint_eq(g->integer_bits, 64);
    ck_assert_uint_eq(g->function, 2);
}
END_TEST

START_TEST(test_valid)
{
    errno = 5;
    ck_assert_int_eq(fy_model_validate(model, model->size_bytes), FY_OK);
    ck_assert_int_eq(errno, 5);
    for (size_t bytes = 0; bytes < model->size_bytes; bytes++) {
        ck_assert_int_eq(fy_model_validate(model, bytes), FY_ERR_INVALID);
    }
    ck_assert_int_eq(model->size_bytes % 8, 0);
}
END_TEST

START_TEST(test_any_changed_byte_is_seen)
{
    unsigned char *bytes = (unsigned char *)model;
    for (size_t i = 0; i < size; i++) {
        bytes[i] ^= 0x40;
        ck_assert_msg(fy_model_validate(bytes, size) == FY_ERR_INVALID,
                      "byte %zu", i);
        bytes[i] ^= 0x40;
    }
    ck_assert_int_eq(fy_model_validate(model, size), FY_OK);
}
END_TEST

/* Changed fields under a right hash: each alone makes the model invalid. */
static void
refuse(void *field, size_t bytes, uint64_t value, const char *what)
{
    unsigned char old[8];
    memcpy(old, field, bytes);
    memcpy(field, &value, bytes); /* little endian */
    if (model->size_bytes >= sizeof *model && model->size_bytes <= size) {
        model->content_hash = fy_model_hash(model);
    }
    ck_assert_msg(fy_model_validate(model, size) == FY_ERR_INVALID, "%s", what);
    memcpy(field, old, bytes);
    model->content_hash = fy_model_hash(model);
    ck_assert_int_eq(fy_model_validate(model, model->size_bytes), FY_OK);
}

#define REFUSE(field, value) refuse(&(field), sizeof(field), value, #field)
#define ROW(kind, table, i) \
    ((struct kind *)(void *)((char *)model + model->table.offset) + (i))

START_TEST(test_fields)
{
    struct fy_function *f = ROW(fy_function, functions, 2);
    struct fy_function *run = ROW(fy_function, functions, 1);
    REFUSE(model->version, 1);
    REFUSE(model->size_bytes, 8);
    REFUSE(model->symbols.offset, 4);
    REFUSE(model->symbols.count, 0x10000000);
    REFUSE(model->nodes.offset, 0xfffffff8);
    REFUSE(model->strings.count, 0);
    REFUSE(model->strings.count, model->strings.count - 1);
    REFUSE(ROW(fy_symbol, symbols, 0)->name, 0x7fffffff);
    REFUSE(ROW(fy_symbol, symbols, 1)->name,
           ROW(fy_symbol, symbols, 0)->name); /* not sorted */
    REFUSE(ROW(fy_symbol, symbols, 0)->function, 3);
    REFUSE(ROW(fy_symbol, symbols, 0)->integer_bits, 16);
    REFUSE(f->name, model->strings.count);
    REFUSE(f->next_variant, 0);
    REFUSE(f->next_variant, 3);
    REFUSE(f->return_type, FY_T_COUNT);
    REFUSE(f->return_rule, 9);
    REFUSE(f->nargs, FY_MAX_ARGS + 1);
    REFUSE(f->args, 1000);
    REFUSE(f->ncells, FY_MAX_CELLS + 1);
    REFUSE(f->naxes, FY_MAX_AXES + 1);
    REFUSE(f->noperands, FY_MAX_OPERANDS + 1);
    REFUSE(f->requires, 1000);
    REFUSE(f->lets, 1000);
    REFUSE(f->worth, model->nodes.count);
    REFUSE(run->flops, model->nodes.count);
    REFUSE(run->host_call, 1);
    REFUSE(ROW(fy_call_row, calls, 0)->nargs, FY_MAX_ARGS + 1);
    REFUSE(ROW(fy_call_row, calls, 0)->args[0], model->nodes.count);
    REFUSE(ROW(fy_arg, args, 0)->type, FY_T_COUNT);
    REFUSE(ROW(fy_cell, cells, run->cells)->maker, 3);
    REFUSE(ROW(fy_cell, cells, run->cells)->offset, 50);
    REFUSE(ROW(fy_cell, cells, run->cells)->arg, 1);
    REFUSE(ROW(fy_cell, cells, run->cells)->kind, FY_CELL_ADDRESS + 1);
    REFUSE(ROW(fy_axis, axes, f->axes)->extent, model->nodes.count);
    REFUSE(ROW(fy_axis, axes, f->axes)->multiple, 0);
    REFUSE(ROW(fy_axis, axes, f->axes + 2)->sums_into, 9);
    REFUSE(ROW(fy_axis, axes, f->axes + 2)->with_cell, 90);
    REFUSE(ROW(fy_axis, axes, f->axes + 2)->with_node, FY_NIL);
    REFUSE(ROW(fy_operand, operands, f->operands)->base, 90);
    REFUSE(ROW(fy_operand, operands, f->operands)->element, FY_T_VOID);
    REFUSE(ROW(fy_operand, operands, f->operands)->access, 0);
    REFUSE(ROW(fy_operand, operands, f->operands)->naxes, 5);
    REFUSE(ROW(fy_operand, operands, f->operands)->naxes, 1); /* sign */
    REFUSE(ROW(fy_operand, operands, f->operands)->sign, 2);
    REFUSE(ROW(fy_operand, operands, f->operands)->lo, model->nodes.count);
    REFUSE(ROW(fy_operand, operands, f->operands)->axes[1].axis, 12);
    REFUSE(ROW(fy_operand, operands, f->operands)->axes[1].stride, FY_NIL);
    REFUSE(ROW(fy_node, nodes, run->flops)->op, FY_OP_COUNT);
    REFUSE(ROW(fy_node, nodes, run->flops)->a, run->flops); /* a cycle */
    REFUSE(ROW(fy_node, nodes, run->flops)->b, model->nodes.count);
}
END_TEST

START_TEST(test_deep_and_wide)
{
    /* Every node the sum of the one before with itself: 2^n steps. */
    uint32_t count = model->nodes.count;
    struct fy_node *nodes = ROW(fy_node, nodes, 0);
    struct fy_function *run = ROW(fy_function, functions, 1);
    for (uint32_t i = 1; i < count; i++) {
        memset(&nodes[i], 0, sizeof nodes[i]);
        nodes[i].op = FY_OP_ADD;
        nodes[i].type = FY_T_I64;
        nodes[i].a = nodes[i].b = i - 1;
    }
    run->flops = count - 1;
    model->content_hash = fy_model_hash(model);
    ck_assert_int_eq(fy_model_validate(model, model->size_bytes),
                     FY_ERR_INVALID);
}
END_TEST

START_TEST(test_unaligned_and_foreign)
{
    char *copy = calloc(1, model->size_bytes + 8);
    memcpy(copy + 1, model, model->size_bytes);
    ck_assert_int_eq(fy_model_validate(copy + 1, model->size_bytes),
                     FY_ERR_INVALID);
    memset(copy, 0, model->size_bytes);
    ck_assert_int_eq(fy_model_validate(copy, model->size_bytes),
                     FY_ERR_INVALID);
    free(copy);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("model");
    TCase *tests = tcase_create("model");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, test_find_symbol);
    tcase_add_test(tests, test_valid);
    tcase_add_test(tests, test_any_changed_byte_is_seen);
    tcase_add_test(tests, test_fields);
    tcase_add_test(tests, test_deep_and_wide);
    tcase_add_test(tests, test_unaligned_and_foreign);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
