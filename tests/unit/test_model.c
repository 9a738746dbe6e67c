/* SPDX-License-Identifier: Apache-2.0 */
/*
 * annotations/model/model.c and annotations/model/validate.c: look-up, and blocks that are no models.
 */
#include "config.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "annotations/model/annotations.h"
#include "tests/unit/runner.h"

static const char text[] =
    "blocked trsm { over i < n, o < n; A'[i, k], B[i, o];"
    " for o, i, k { i = k: self(A[k, k], B[k, o]); } }"
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

/* What runs on a device, too. */
static const char device_text[] =
    "handle plan; struct s { int n; long used; };\n"
    "function plan make(int n, int count, complex double *x, int sign)\n"
    "{ makes plan; opaque x; }\n"
    "function void run(plan p from make) {\n"
    "  axis t = p.count split; inout p.x[t: p.n, p.n: 1];\n"
    "  on cuda cufftExecC2C(cufft(t, size(2, p.n), from(1, 2 * p.n),\n"
    "    to(1, 0, p.n + 1)), p.x, p.x, p.sign); }\n"
    "function void add(int n, char u, double a, const double *x, double *y) {\n"
    "  require u in \"Nn\"; let e = n > 4 ? 1 : 2; worth n > e;\n"
    "  axis n split; in x[n: 1]; inout y[n: 1] when e > 1;\n"
    "  map y = a * x + y; map y = sqrt(y) + x; }\n"
    "function void two(int n, const double *x, double *y, double *w) {\n"
    "  axis n split; in x[n: 1]; out y[n: 1]; on host h(n, x, y);\n"
    "  scratch w[n: 1]; on cuda f(cublas, &n, x, y); }\n"
    "function void last(struct s *a, double *x)\n"
    "{ axis i = a->n; inout x[i: 1]; out a->used; }\n"
    "function void late(int n, const double *x, double *y)\n"
    "{ axis n; in x[n: 1]; out y[n: 1]; on host h(n, x, y); }\n";

/* What launches a kernel of tests/kernels/kernels.cu. */
static const char kernel_text[] =
    "function void scale(int n, double alpha, const double *x, double *y) {\n"
    "  axis n split; in x[n]; out y[n];\n"
    "  on cuda kernel \"kernels.cu\" scale(n, alpha, x, y)\n"
    "    grid(n, n + 1, n + 2) block(n, 2, 3) shared(8 * n); }\n";

static struct fy_model *model;
static size_t size; /* of its block */

static void
compile(const char *source)
{
    struct fy_diagnostics *diagnostics = fy_diagnostics_new();
    char name[4096]; /* kernels lie beside it */
    (void)snprintf(name, sizeof name, "%s/tests/kernels/t", getenv("srcdir"));
    if (fy_compile_text(name, source, strlen(source), NULL, diagnostics,
                        &model)) {
        fy_diagnostics_print(diagnostics, stderr);
    }
    fy_diagnostics_free(diagnostics);
    ck_assert_ptr_nonnull(model);
    size = model->size_bytes;
}

static void
setup(void)
{
    compile(text);
}

static void
setup_device(void)
{
    compile(device_text);
}

static void
setup_kernel(void)
{
    compile(kernel_text);
}

static void
teardown(void)
{
    free(model);
    model = NULL;
}

START_TEST(symbols_are_found_by_their_whole_name)
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

START_TEST(a_compiled_model_is_valid)
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

START_TEST(any_changed_byte_is_seen)
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

static uint32_t
node_of(enum fy_op op)
{
    for (uint32_t i = 0; i < model->nodes.count; i++) {
        if (ROW(fy_node, nodes, i)->op == op) {
            return i;
        }
    }
    ck_abort_msg("no node of kind %d", op);
}

START_TEST(each_field_has_its_range)
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
    REFUSE(ROW(fy_axis, axes, f->axes + 1)->extent, node_of(FY_OP_EXTENT));
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

/* Rows of all kinds: each index one too large, each range one too long. */
START_TEST(no_field_goes_past_its_table)
{
    const uint32_t no_string = model->strings.count;
    const uint32_t no_node = model->nodes.count;
    for (uint32_t i = 0; i < model->functions.count; i++) {
        struct fy_function *f = ROW(fy_function, functions, i);
        REFUSE(f->family, no_string);
        REFUSE(f->file, no_string);
        REFUSE(f->blocked_by, no_string);
        REFUSE(f->blocked_using, no_string);
        REFUSE(f->blocked_nest, no_string);
        REFUSE(f->blocked_nest, f->name);
        REFUSE(f->doc, no_string);
        REFUSE(f->error, no_node);
        REFUSE(f->host_call, model->calls.count);
        REFUSE(f->cuda_call, model->calls.count);
        REFUSE(f->args, model->args.count - f->nargs + 1);
        REFUSE(f->cells, model->cells.count - f->ncells + 1);
        REFUSE(f->axes, model->axes.count - f->naxes + 1);
        REFUSE(f->operands, model->operands.count - f->noperands + 1);
        REFUSE(f->requires, model->requires.count - f->nrequires + 1);
        REFUSE(f->lets, model->lets.count - f->nlets + 1);
        REFUSE(f->next_variant, model->functions.count);
        for (unsigned k = 0; k < f->nargs; k++) {
            struct fy_arg *arg = ROW(fy_arg, args, f->args + k);
            REFUSE(arg->name, no_string);
            REFUSE(arg->handle, no_string);
            REFUSE(arg->fields, no_string);
            REFUSE(arg->pointee, FY_T_COUNT);
        }
        for (unsigned k = 0; k < f->ncells; k++) {
            struct fy_cell *cell = ROW(fy_cell, cells, f->cells + k);
            REFUSE(cell->name, no_string);
            REFUSE(cell->arg, f->nargs);
            REFUSE(cell->type, FY_T_COUNT);
            REFUSE(cell->pointee, FY_T_COUNT);
            if (cell->kind == FY_CELL_HANDLE) {
                REFUSE(cell->maker, model->functions.count);
                REFUSE(cell->maker, i); /* whose cells are handles' */
                REFUSE(cell->offset,
                       ROW(fy_function, functions, cell->maker)->ncells);
            } else {
                REFUSE(cell->offset, 1U << 30);
            }
        }
        for (unsigned k = 0; k < f->naxes; k++) {
            struct fy_axis *axis = ROW(fy_axis, axes, f->axes + k);
            REFUSE(axis->name, no_string);
            REFUSE(axis->flags, 8);
            REFUSE(axis->cell, f->ncells);
            REFUSE(axis->sums_into, f->noperands);
            REFUSE(axis->with_cell, f->ncells);
            REFUSE(axis->also[FY_MAX_ALSO - 1], f->ncells);
            if (axis->sums_into == FY_NIL) {
                REFUSE(axis->flags, FY_AXIS_SUMS);
            }
        }
        for (unsigned k = 0; k < f->noperands; k++) {
            struct fy_operand *o = ROW(fy_operand, operands, f->operands + k);
            REFUSE(o->name, no_string);
            REFUSE(o->base, f->ncells);
            for (unsigned c = 0; c < f->ncells; c++) {
                if (ROW(fy_cell, cells, f->cells + c)->type != FY_T_POINTER) {
                    REFUSE(o->base, c);
                }
            }
            REFUSE(o->element, FY_T_COUNT);
            REFUSE(o->access, FY_ACCESS_SCRATCH + 1);
            REFUSE(o->flags, FY_OPERAND_FINITE << 1);
            REFUSE(o->naxes, FY_MAX_OPERAND_AXES + 1);
            REFUSE(o->sign, (uint8_t)-2);
            REFUSE(o->axes[o->naxes - 1].axis, f->naxes);
            REFUSE(o->axes[o->naxes - 1].stride, no_node);
            REFUSE(o->at, no_node);
            REFUSE(o->hi, no_node);
            REFUSE(o->when, no_node);
            REFUSE(o->out_when, no_node);
            REFUSE(o->in_when, no_node);
            REFUSE(o->finite_lo, no_node);
            REFUSE(o->finite_hi, no_node);
            REFUSE(o->returns, no_node);
        }
        for (unsigned k = 0; k < f->nrequires; k++) {
            struct fy_require *r = ROW(fy_require, requires, f->requires + k);
            REFUSE(r->node, no_node);
            REFUSE(r->reason, FY_REASON_COUNT);
        }
        for (unsigned k = 0; k < f->nlets; k++) {
            REFUSE(ROW(fy_let, lets, f->lets + k)->name, no_string);
            REFUSE(ROW(fy_let, lets, f->lets + k)->node, no_node);
        }
    }
    REFUSE(ROW(fy_symbol, symbols, 0)->function, model->functions.count);
    struct fy_table *table = &model->symbols;
    for (; table <= &model->strings; table++) {
        if (table != &model->symbols && table->count > 0) {
            REFUSE(table->count, table->count - 1); /* its last row is used */
        }
        REFUSE(table->count, model->size_bytes);
        REFUSE(table->offset, 0);
        REFUSE(table->offset, model->size_bytes + 8);
    }
}
END_TEST

START_TEST(nodes_stand_where_they_may)
{
    struct fy_function *add = ROW(fy_function, functions, 2);
    /* Only within steps on a device. */
    static const enum fy_op there[] = {FY_OP_ADDRESS, FY_OP_WORD, FY_OP_ELEMENT,
                                       FY_OP_VALUE,   FY_OP_MATH, FY_OP_SCALAR};
    for (size_t i = 0; i < sizeof there / sizeof there[0]; i++) {
        uint32_t node = node_of(there[i]);
        REFUSE(add->worth, node);
        REFUSE(
            ROW(fy_call_row, calls, ROW(fy_function, functions, 3)->host_call)
                ->args[0],
            there[i] == FY_OP_ADDRESS ? model->nodes.count : node);
    }
    struct fy_node *node = ROW(fy_node, nodes, node_of(FY_OP_ELEMENT));
    REFUSE(node->a, add->noperands);
    node = ROW(fy_node, nodes, node_of(FY_OP_VALUE));
    REFUSE(node->a, 1); /* no map before this one */
    node = ROW(fy_node, nodes, node_of(FY_OP_MATH));
    REFUSE(node->u.i, FY_MATH_COUNT);
    REFUSE(node->u.i, UINT64_MAX);
    REFUSE(node->a, node_of(FY_OP_MATH));
    node = ROW(fy_node, nodes, node_of(FY_OP_IN));
    REFUSE(node->b, model->strings.count);
    REFUSE(node->a, node_of(FY_OP_IN));
    node = ROW(fy_node, nodes, node_of(FY_OP_COND));
    REFUSE(node->c, node_of(FY_OP_COND));
    REFUSE(node->type, FY_T_COUNT);
    node = ROW(fy_node, nodes, node_of(FY_OP_CELL));
    REFUSE(node->a, ROW(fy_function, functions, 1)->ncells);
    node = ROW(fy_node, nodes, node_of(FY_OP_EXTENT));
    REFUSE(node->a, ROW(fy_function, functions, 1)->naxes);
    struct fy_axis *axis =
        ROW(fy_axis, axes, ROW(fy_function, functions, 1)->axes);
    REFUSE(axis->extent, node_of(FY_OP_EXTENT)); /* of itself */
    node = ROW(fy_node, nodes, node_of(FY_OP_ADDRESS));
    REFUSE(node->a, 90);
    REFUSE(node->b, 2);
}
END_TEST

START_TEST(steps_have_what_they_need)
{
    const struct fy_function *run = ROW(fy_function, functions, 1);
    const struct fy_function *add = ROW(fy_function, functions, 2);
    const struct fy_function *two = ROW(fy_function, functions, 3);
    struct fy_call_row *map = ROW(fy_call_row, calls, add->cuda_call);
    struct fy_call_row *host = ROW(fy_call_row, calls, two->host_call);
    struct fy_call_row *fft = ROW(fy_call_row, calls, run->cuda_call);
    struct fy_node *word = ROW(fy_node, nodes, fft->args[0]);
    struct fy_call_row *plan = ROW(fy_call_row, calls, word->c);
    ck_assert(map->kind == FY_CALL_MAP && word->op == FY_OP_WORD);
    REFUSE(map->nargs, 0);
    REFUSE(map->to[0], add->noperands);
    REFUSE(map->to[map->nargs - 1], add->noperands);
    map->to[map->nargs] = (uint8_t)add->noperands; /* which is not read */
    map->args[map->nargs] = FY_NIL;
    REFUSE(host->kind, FY_CALL_MAP);
    REFUSE(host->next, model->calls.count - 1);
    REFUSE(host->next, ROW(fy_function, functions, 5)->host_call);
    REFUSE(fft->next, run->cuda_call);
    REFUSE(fft->next, model->calls.count);
    REFUSE(fft->kind, FY_CALL_MAP + 1);
    REFUSE(fft->kind, FY_CALL_KERNEL); /* there is none */
    REFUSE(fft->function, model->strings.count);
    REFUSE(fft->args[fft->nargs - 1], model->nodes.count);
    REFUSE(word->a, FY_WORD_NONE);
    REFUSE(word->a, FY_WORD_COUNT);
    REFUSE(word->a, FY_WORD_WORKSPACE); /* of no function */
    REFUSE(word->b, 1);                 /* no word else has one */
    REFUSE(word->b, model->strings.count);
    REFUSE(word->c, model->calls.count);
    REFUSE(plan->nargs, FY_CUFFT_ARGUMENTS - 1);
    REFUSE(model->calls.count, word->c);
    static const unsigned must[] = {FY_CUFFT_BATCH, FY_CUFFT_N,
                                    FY_CUFFT_FROM,  FY_CUFFT_FROM + 1,
                                    FY_CUFFT_TO,    FY_CUFFT_TO + 1};
    for (size_t i = 0; i < sizeof must / sizeof must[0]; i++) {
        REFUSE(plan->args[must[i]], FY_NIL);
        REFUSE(plan->args[must[i]], fft->args[0]); /* not before the word */
    }
}
END_TEST

START_TEST(kernels_have_what_they_need)
{
    struct fy_call_row *call =
        ROW(fy_call_row, calls, ROW(fy_function, functions, 0)->cuda_call);
    struct fy_kernel_row *kernel = ROW(fy_kernel_row, kernels, call->kernel);
    ck_assert(call->kind == FY_CALL_KERNEL && call->nargs == 4);
    REFUSE(call->kernel, model->kernels.count);
    REFUSE(kernel->file, model->strings.count);
    REFUSE(kernel->text, model->strings.count);
    REFUSE(kernel->shared, model->nodes.count);
    for (unsigned i = 0; i < 3; i++) {
        REFUSE(kernel->grid[i], model->nodes.count);
        REFUSE(kernel->block[i], model->nodes.count);
    }
    for (unsigned i = 0; i < call->nargs; i++) {
        REFUSE(call->to[i], FY_T_COUNT);
        REFUSE(call->args[i], model->nodes.count);
    }
    call->to[call->nargs] = FY_T_COUNT; /* which is not read */
    model->content_hash = fy_model_hash(model);
    ck_assert_int_eq(fy_model_validate(model, model->size_bytes), FY_OK);
}
END_TEST

/* Operands of as many axes as there may be, with a row behind each. */
START_TEST(operands_have_as_many_axes_as_may_be)
{
    free(model);
    compile("function void cube(int several, int numbers, double *of_cube,\n"
            "    const double *other, const double *third) {\n"
            "  axis i = several, j = several, k = several, l = numbers;\n"
            "  inout of_cube[i: 1, j: 8, k: 64, l: 512];\n"
            "  in other[i: 1, j: 8, k: 64, l: 512];\n"
            "  in third[i: 1, j: 8, k: 64, l: 512]; }\n");
    ck_assert_int_eq(fy_model_validate(model, model->size_bytes), FY_OK);
}
END_TEST

START_TEST(deep_and_wide_expressions_are_refused)
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

START_TEST(unaligned_and_foreign_blocks_are_refused)
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
    tcase_add_test(tests, symbols_are_found_by_their_whole_name);
    tcase_add_test(tests, a_compiled_model_is_valid);
    tcase_add_test(tests, any_changed_byte_is_seen);
    tcase_add_test(tests, each_field_has_its_range);
    tcase_add_test(tests, no_field_goes_past_its_table);
    tcase_add_test(tests, operands_have_as_many_axes_as_may_be);
    tcase_add_test(tests, deep_and_wide_expressions_are_refused);
    tcase_add_test(tests, unaligned_and_foreign_blocks_are_refused);
    suite_add_tcase(suite, tests);
    TCase *limits = tcase_create("limits");
    tcase_add_checked_fixture(limits, setup_device, teardown);
    tcase_add_test(limits, no_field_goes_past_its_table);
    tcase_add_test(limits, nodes_stand_where_they_may);
    tcase_add_test(limits, steps_have_what_they_need);
    suite_add_tcase(suite, limits);
    TCase *kernels = tcase_create("kernels");
    tcase_add_checked_fixture(kernels, setup_kernel, teardown);
    tcase_add_test(kernels, no_field_goes_past_its_table);
    tcase_add_test(kernels, kernels_have_what_they_need);
    suite_add_tcase(suite, kernels);
    return run_suite(suite);
}
