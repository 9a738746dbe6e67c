/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shim/: the machine code of a `worth' answers as the evaluator does, for
 * random expressions over arguments in registers, by reference and on the
 * stack; "yes" where the evaluator cannot know. Argument places are compared
 * with what the compiler does.
 */
#include "config.h"

#include <check.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "annotations/model/eval.h"
#include "shim/arch/x86_64/thunk.h"
#include "tests/unit/random.h"
#include "tests/unit/runner.h"

enum {
    ARGS = 11,
    NODES = 400,
    ROUNDS = 3000,
    CALLS = 20,
    CODE_BYTES = 8192,
};

static struct {
    struct fy_model model;
    struct fy_function function;
    struct fy_arg args[ARGS];
    struct fy_cell cells[ARGS];
    struct fy_axis axes[1];
    struct fy_node nodes[NODES];
    char strings[64];
} m;
/* What argument 8 points to. */
struct row {
    char name[300];
    int64_t size;
};

static uint32_t nnodes;
static uint8_t *code_bytes;

static void
start_model(void)
{
    static const uint8_t types[ARGS] = {
        FY_T_I32, FY_T_INTEGER, FY_T_I64, FY_T_CHAR,    FY_T_F64, FY_T_INTEGER,
        FY_T_U32, FY_T_I32,     FY_T_I64, FY_T_INTEGER, FY_T_I16};
    static const uint8_t by_reference[ARGS] = {0, 1, 0, 1, 0, 1, 0, 0, 1, 1, 0};
    memset(&m, 0, sizeof m);
#define TABLE(name, n)                                             \
    m.model.name.offset = (uint32_t)((char *)m.name - (char *)&m); \
    m.model.name.count = n
    TABLE(args, ARGS);
    TABLE(cells, ARGS);
    TABLE(axes, 1);
    TABLE(nodes, NODES);
    TABLE(strings, sizeof m.strings);
#undef TABLE
    m.function.nargs = m.function.ncells = ARGS;
    m.function.naxes = 1;
    for (unsigned i = 0; i < ARGS; i++) {
        m.args[i].type = m.cells[i].type = types[i];
        m.args[i].flags = by_reference[i] ? FY_ARG_REFERENCE : 0;
        m.cells[i].arg = (uint16_t)i;
        m.cells[i].kind = by_reference[i] ? FY_CELL_REFERENCE : FY_CELL_VALUE;
    }
    m.cells[8].kind = FY_CELL_FIELD; /* of a structure behind argument 8 */
    m.cells[8].offset = offsetof(struct row, size);
    m.args[8].flags = 0;
    m.args[8].type = FY_T_POINTER;
    memcpy(m.strings + 8, "NnTt", 5);
    nnodes = 0;
}

static uint32_t
add_node(struct fy_node node)
{
    ck_assert_uint_lt(nnodes, NODES);
    node.type = FY_T_I64;
    m.nodes[nnodes] = node;
    return nnodes++;
}

static uint32_t
random_leaf(void)
{
    static const int64_t literals[] = {
        0,         1,        -1, 7, 100, INT32_MAX, INT32_MIN, INT64_C(1) << 40,
        INT64_MIN, INT64_MAX};
    uint32_t cell = (uint32_t)(random_bits() % ARGS);
    if (random_bits() % 3 == 0 || cell == 4) {
        return add_node((struct fy_node){
            .op = FY_OP_INT,
            .u.i = literals[random_bits() %
                            (sizeof literals / sizeof literals[0])]});
    }
    if (random_bits() % 12 == 0) {
        return add_node((struct fy_node){.op = FY_OP_EXTENT, .a = 0});
    }
    return add_node((struct fy_node){.op = FY_OP_CELL, .a = cell});
}

static uint32_t
random_tree(unsigned depth)
{
    static const uint8_t binary[] = {FY_OP_ADD, FY_OP_SUB, FY_OP_MUL, FY_OP_MUL,
                                     FY_OP_LT,  FY_OP_LE,  FY_OP_GT,  FY_OP_GE,
                                     FY_OP_EQ,  FY_OP_NE,  FY_OP_AND, FY_OP_OR,
                                     FY_OP_MIN, FY_OP_MAX};
    static const uint8_t unary[] = {FY_OP_NEG, FY_OP_NOT, FY_OP_ABS};
    if (depth == 0 || random_bits() % 6 == 0) {
        return random_leaf();
    }
    struct fy_node node = {.op = 0};
    unsigned kind = (unsigned)(random_bits() % 10);
    if (kind == 0) {
        node.op = FY_OP_COND;
        node.a = random_tree(depth - 1);
        node.b = random_tree(depth - 1);
        node.c = random_tree(depth - 1);
    } else if (kind == 1) {
        node.op = FY_OP_IN;
        node.a = add_node((struct fy_node){.op = FY_OP_CELL, .a = 3});
        node.b = 8;
    } else if (kind == 2) {
        node.op = unary[random_bits() % sizeof unary];
        node.a = random_tree(depth - 1);
    } else {
        node.op = binary[random_bits() % sizeof binary];
        node.a = random_tree(depth - 1);
        node.b = random_tree(depth - 1);
    }
    return add_node(node);
}

/* A function of the same arguments that returns the predicate's answer. */
typedef int64_t predicate_function(int, const int *, int64_t, const char *,
                                   double, const int *, uint32_t, int,
                                   const struct row *, const int *, short);

static int
emit(uint32_t worth)
{
    m.function.worth = worth;
    struct fy_code code = {.bytes = code_bytes,
                           .capacity = CODE_BYTES,
                           .address = (uint64_t)(uintptr_t)code_bytes};
    struct fy_predicate predicate = {.model = &m.model,
                                     .function = &m.function,
                                     .integer_bits = 32,
                                     .pushed = 1};
    fy_code_add(&code, "\x50", 1);
    int status = fy_predicate_emit(&code, &predicate);
    if (status) {
        return status;
    }
    for (unsigned answer = 0; answer < 2; answer++) {
        fy_predicate_pop(&code, &predicate);
        fy_code_add(&code, "\x58\xb8", 2); /* pop %rax; mov $answer, %eax */
        fy_code_add32(&code, answer);
        fy_code_add(&code, "\xc3", 1);
        for (unsigned i = 0; i < predicate.yes.count && answer == 0; i++) {
            fy_code_patch(&code, predicate.yes.at[i]);
        }
    }
    ck_assert(!code.overflowed);
    return 0;
}

static int64_t
random_number(void)
{
    switch (random_bits() % 5) {
    case 0:
        return (int64_t)random_bits();
    case 1:
        return (int64_t)(random_bits() % 3) - 1;
    case 2:
        return random_bits() % 2 ? INT32_MAX : INT32_MIN;
    default:
        return (int64_t)(random_bits() % 2000) - 500;
    }
}

static void
compare_once(unsigned round)
{
    static const char letters[] = "NnTtCx";
    int a0 = (int)random_number(), a1 = (int)random_number(),
        a5 = (int)random_number(), a7 = (int)random_number(),
        a9 = (int)random_number();
    int64_t a2 = random_number(), a8 = random_number();
    char a3 = letters[random_bits() % 6];
    uint32_t a6 = (uint32_t)random_number();
    short a10 = (short)random_number();
    const int64_t numbers[ARGS] = {a0, a1, a2, a3, 0, a5, a6, a7, a8, a9, a10};
    struct fy_value cells[ARGS];
    int64_t extents[1];
    struct row row = {.size = a8};
    bool wanted;
    for (unsigned i = 0; i < ARGS; i++) {
        cells[i] = (struct fy_value){.kind = FY_V_INT, .i = numbers[i]};
    }
    extents[0] = a7;
    struct fy_scope scope = {&m.model, &m.function, cells, extents};
    if (fy_eval_bool(&scope, m.function.worth, &wanted)) {
        wanted = true; /* overflow */
    }
    predicate_function *run = (predicate_function *)(void *)code_bytes;
    int64_t got = run(a0, &a1, a2, &a3, 1.5, &a5, a6, a7, &row, &a9, a10);
    ck_assert_msg(got == wanted, "round %u: %d, evaluator %d", round, (int)got,
                  wanted);
}

START_TEST(test_random)
{
    unsigned compiled = 0;
    code_bytes = mmap(NULL, CODE_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(code_bytes, MAP_FAILED);
    for (unsigned round = 0; round < ROUNDS; round++) {
        start_model();
        m.axes[0].extent = add_node((struct fy_node){.op = FY_OP_CELL, .a = 7});
        int status = emit(random_tree(round % 5 + 1));
        if (status) {
            ck_assert_int_eq(status, FY_ERR_UNSUPPORTED);
            continue;
        }
        compiled++;
        for (unsigned i = 0; i < CALLS; i++) {
            compare_once(round);
        }
    }
    /* What people write is shallow: most of these must have code. */
    ck_assert_uint_gt(compiled, ROUNDS / 2);
    munmap(code_bytes, CODE_BYTES);
}
END_TEST

START_TEST(test_null)
{
    code_bytes = mmap(NULL, CODE_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    start_model();
    uint32_t a = add_node((struct fy_node){.op = FY_OP_CELL, .a = 1});
    uint32_t b = add_node((struct fy_node){.op = FY_OP_CELL, .a = 9});
    uint32_t product =
        add_node((struct fy_node){.op = FY_OP_MUL, .a = a, .b = b});
    uint32_t limit = add_node((struct fy_node){.op = FY_OP_INT, .u.i = 100});
    ck_assert_int_eq(emit(add_node((struct fy_node){
                         .op = FY_OP_GT, .a = product, .b = limit})),
                     0);
    predicate_function *run = (predicate_function *)(void *)code_bytes;
    int ten = 10, eleven = 11;
    ck_assert_int_eq(run(0, &ten, 0, 0, 0, 0, 0, 0, 0, &ten, 0), 0);
    ck_assert_int_eq(run(0, &ten, 0, 0, 0, 0, 0, 0, 0, &eleven, 0), 1);
    ck_assert_int_eq(run(0, NULL, 0, 0, 0, 0, 0, 0, 0, &ten, 0), 1);
    ck_assert_int_eq(run(0, &ten, 0, 0, 0, 0, 0, 0, 0, NULL, 0), 1);
    munmap(code_bytes, CODE_BYTES);
}
END_TEST

START_TEST(test_unsupported)
{
    code_bytes = malloc(CODE_BYTES);
    start_model();
    uint32_t a = add_node((struct fy_node){.op = FY_OP_CELL, .a = 0});
    uint32_t real = add_node((struct fy_node){.op = FY_OP_CELL, .a = 4});
    ck_assert_int_eq(emit(real), FY_ERR_UNSUPPORTED);
    ck_assert_int_eq(
        emit(add_node((struct fy_node){.op = FY_OP_DIV, .a = a, .b = a})),
        FY_ERR_UNSUPPORTED);
    ck_assert_int_eq(
        emit(add_node((struct fy_node){.op = FY_OP_REAL, .u.r = 1})),
        FY_ERR_UNSUPPORTED);
    /* A short text whose tree is huge: every node uses the one before twice. */
    for (unsigned i = 0; i < 60; i++) {
        a = add_node((struct fy_node){.op = FY_OP_ADD, .a = a, .b = a});
    }
    ck_assert_int_eq(emit(a), FY_ERR_UNSUPPORTED);
    free(code_bytes);
}
END_TEST

START_TEST(test_places)
{
    /* f(i, d, z, c32, p, i*, i, i, i, z x 3, i, len) */
    static const struct {
        uint8_t type;
        uint16_t flags;
        int kind;
        unsigned index;
    } rows[] = {
        {FY_T_I32, 0, FY_IN_INTEGER, 0},
        {FY_T_F64, 0, FY_IN_VECTOR, 0},
        {FY_T_C64, 0, FY_IN_VECTOR, 1},
        {FY_T_C32, 0, FY_IN_VECTOR, 3},
        {FY_T_POINTER, 0, FY_IN_INTEGER, 1},
        {FY_T_F64, FY_ARG_REFERENCE, FY_IN_INTEGER, 2},
        {FY_T_CHAR, FY_ARG_REFERENCE | FY_ARG_HIDDEN_LENGTH, FY_IN_INTEGER, 3},
        {FY_T_C64, 0, FY_IN_VECTOR, 4},
        {FY_T_F32, 0, FY_IN_VECTOR, 6},
        {FY_T_C64, 0, FY_ON_STACK, 0}, /* both halves or none */
        {FY_T_F64, 0, FY_IN_VECTOR, 7},
    };
    start_model();
    unsigned count = sizeof rows / sizeof rows[0];
    for (unsigned i = 0; i < count; i++) {
        m.args[i].type = rows[i].type;
        m.args[i].flags = rows[i].flags;
    }
    for (unsigned i = 0; i < count; i++) {
        struct fy_place place = fy_abi_place(&m.model, &m.function, i);
        ck_assert_int_eq((int)place.kind, rows[i].kind);
        ck_assert_uint_eq(place.index, rows[i].index);
    }
    ck_assert_uint_eq(fy_abi_stack_words(&m.model, &m.function), 2);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("predicate");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, test_random);
    tcase_add_test(tests, test_null);
    tcase_add_test(tests, test_unsupported);
    tcase_add_test(tests, test_places);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
