/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiles `worth' to machine code (thunk.h): integer arithmetic over scalar
 * arguments in registers that the thunk saved, no calls, no memory but the
 * arguments. It only guesses: whatever it cannot know is answered "yes", and
 * the engine decides. Refuses expressions that would grow beyond 2 KiB.
 */
#include "config.h"

#include <string.h>

#include "annotations/model/operators.h"
#include "shim/arch/x86_64/thunk.h"

enum {
    REGISTERS = 5,
    MAX_BYTES = 2048,
    MAX_VISITS = 512, /* trees share nodes: bounds the work */
};

/* Encodings of registers that an expression may use, rax first; none needs a SIB. */
static const uint8_t registers[REGISTERS] = {0, 10, 3, 14, 15};
/* rdi rsi rdx rcx r8 r9 */
static const uint8_t arguments[6] = {7, 6, 2, 1, 8, 9};

enum condition { /* x86 condition codes */
    IF_O = 0,
    IF_E = 4,
    IF_NE = 5,
    IF_S = 8,
    IF_L = 12,
    IF_GE = 13,
    IF_LE = 14,
    IF_G = 15,
};

struct compiler {
    struct fy_code *code;
    struct fy_predicate *predicate;
    const struct fy_node *nodes;
    unsigned visits;
    bool unsupported;
};

static void
byte(struct compiler *c, unsigned value)
{
    char b = (char)value;
    fy_code_add(c->code, &b, 1);
}

static void
add_fixup(struct fy_fixups *to, size_t at)
{
    if (to->count == sizeof to->at / sizeof to->at[0]) {
        to->overflowed = true;
    } else {
        to->at[to->count++] = at;
    }
}

static void
jump_if(struct compiler *c, enum condition condition, struct fy_fixups *to)
{
    byte(c, 0x0f);
    byte(c, 0x80 + condition);
    add_fixup(to, c->code->used);
    fy_code_add32(c->code, 0);
}

static void
jump(struct compiler *c, struct fy_fixups *to)
{
    byte(c, 0xe9);
    add_fixup(to, c->code->used);
    fy_code_add32(c->code, 0);
}

static void
land(struct compiler *c, const struct fy_fixups *from)
{
    for (unsigned i = 0; i < from->count; i++) {
        fy_code_patch(c->code, from->at[i]);
    }
    c->unsupported |= from->overflowed;
}

/* REX.W opcode reg, rm with both registers. */
static void
two(struct compiler *c, unsigned opcode, unsigned reg, unsigned rm)
{
    byte(c, 0x48 | (reg >= 8) << 2 | (rm >= 8));
    if (opcode > 0xff) {
        byte(c, opcode >> 8);
    }
    byte(c, opcode & 0xff);
    byte(c, 0xc0 | (reg & 7) << 3 | (rm & 7));
}

/* ---- expressions -------------------------------------------------------- */

static const struct fy_node *
resolve(struct compiler *c, uint32_t index)
{
    const struct fy_function *function = c->predicate->function;
    const struct fy_axis *axes =
        FY_TABLE(c->predicate->model, fy_axis, axes) + function->axes;
    const struct fy_node *node = &c->nodes[index];
    for (unsigned hops = 0; node->op == FY_OP_EXTENT; hops++) {
        if (hops == FY_MAX_AXES || node->a >= function->naxes) {
            c->unsupported = true;
            break;
        }
        node = &c->nodes[axes[node->a].extent];
    }
    return node;
}

static bool
immediate(const struct fy_node *node)
{
    return node->op == FY_OP_INT && node->u.i >= INT32_MIN &&
           node->u.i <= INT32_MAX;
}

/* Returns the number of registers it takes; sets unsupported for nodes
 * without code. */
static unsigned
registers_needed(struct compiler *c, uint32_t index)
{
    if (c->unsupported || ++c->visits > MAX_VISITS) {
        c->unsupported = true;
        return 1;
    }
    const struct fy_node *node = resolve(c, index);
    unsigned a, b, third;
    switch (node->op) {
    case FY_OP_INT:
    case FY_OP_CELL:
        return 1;
    case FY_OP_NEG:
    case FY_OP_NOT:
    case FY_OP_IN:
        return registers_needed(c, node->a);
    case FY_OP_ABS: /* takes one for the sign */
        a = registers_needed(c, node->a);
        return a > 2 ? a : 2;
    case FY_OP_COND:
        a = registers_needed(c, node->a);
        b = registers_needed(c, node->b);
        third = registers_needed(c, node->c);
        a = a > b ? a : b;
        return a > third ? a : third;
    case FY_OP_AND:
    case FY_OP_OR:
        a = registers_needed(c, node->a);
        b = registers_needed(c, node->b);
        return a > b ? a : b;
    default:
        if (fy_node_arity(node) != 2 || !fy_operators[node->op].is_cheap) {
            c->unsupported = true;
            return 1;
        }
        a = registers_needed(c, node->a);
        b = 1 + registers_needed(c, node->b);
        if (immediate(resolve(c, node->b)) && node->op != FY_OP_MIN &&
            node->op != FY_OP_MAX) {
            b = 1;
        }
        return a > b ? a : b;
    }
}

/* ---- values ------------------------------------------------------------------ */

static void value(struct compiler *c, uint32_t index, unsigned d);
static void condition(struct compiler *c, uint32_t index, bool when,
                      struct fy_fixups *to);

/* Opcode of the load that widens a type to 64 bits; 0: not an integer. */
static unsigned
load_opcode(const struct compiler *c, unsigned type, bool *rex_w)
{
    *rex_w = true;
    switch (type) {
    case FY_T_CHAR:
    case FY_T_I8:
        return 0x0fbe;
    case FY_T_U8:
        return 0x0fb6;
    case FY_T_I16:
        return 0x0fbf;
    case FY_T_U16:
        return 0x0fb7;
    case FY_T_U32:
        *rex_w = false;
        return 0x8b;
    case FY_T_INTEGER:
        return c->predicate->integer_bits == 64 ? 0x8b : 0x63;
    case FY_T_I32:
        return 0x63;
    case FY_T_I64:
    case FY_T_U64:
        return 0x8b;
    default:
        return 0;
    }
}

/* Argument word of the stack to a register, through `opcode'. */
static void
load_stack(struct compiler *c, unsigned opcode, bool rex_w, unsigned d,
           unsigned word)
{
    unsigned words = c->predicate->pushed + c->predicate->scratch + 1 + word;
    byte(c, 0x40 | rex_w << 3 | (d >= 8) << 2);
    if (opcode > 0xff) {
        byte(c, opcode >> 8);
    }
    byte(c, opcode & 0xff);
    byte(c, 0x84 | (d & 7) << 3);
    byte(c, 0x24); /* SIB: rsp */
    fy_code_add32(c->code, words * 8);
}

static void
cell_value(struct compiler *c, uint32_t index, unsigned d)
{
    const struct fy_predicate *p = c->predicate;
    if (index >= p->function->ncells) {
        c->unsupported = true;
        return;
    }
    const struct fy_cell *cell =
        FY_TABLE(p->model, fy_cell, cells) + p->function->cells + index;
    bool rex_w;
    unsigned opcode = load_opcode(c, cell->type, &rex_w);
    struct fy_place place = fy_abi_place(p->model, p->function, cell->arg);
    if (!opcode || place.kind == FY_IN_VECTOR || cell->kind == FY_CELL_HANDLE ||
        cell->offset > INT32_MAX) {
        c->unsupported = true;
        return;
    }
    bool direct = cell->kind == FY_CELL_VALUE;
    unsigned from = 0;
    if (place.kind == FY_IN_INTEGER) {
        from = arguments[place.index];
    } else if (!direct) {
        load_stack(c, 0x8b, true, d, place.index);
        from = d;
    } else {
        load_stack(c, opcode, rex_w, d, place.index);
    }
    if (!direct) {
        two(c, 0x85, from, from); /* test: null is not ours to judge */
        jump_if(c, IF_E, &c->predicate->yes);
    }
    if (!direct || place.kind == FY_IN_INTEGER) {
        byte(c, 0x40 | rex_w << 3 | (d >= 8) << 2 | (from >= 8));
        if (opcode > 0xff) {
            byte(c, opcode >> 8);
        }
        byte(c, opcode & 0xff);
        bool field = cell->kind == FY_CELL_FIELD;
        byte(c, (direct ? 0xc0 : field ? 0x80 : 0) | (d & 7) << 3 | (from & 7));
        if (field) {
            fy_code_add32(c->code, cell->offset);
        }
    }
    if (cell->type == FY_T_U64) { /* beyond 63 bits: not ours to judge */
        two(c, 0x85, d, d);
        jump_if(c, IF_S, &c->predicate->yes);
    }
}

static void
literal(struct compiler *c, int64_t i, unsigned d)
{
    if (i >= INT32_MIN && i <= INT32_MAX) {
        byte(c, 0x48 | (d >= 8)); /* mov $imm32, r64 */
        byte(c, 0xc7);
        byte(c, 0xc0 | (d & 7));
        fy_code_add32(c->code, (uint32_t)i);
    } else {
        byte(c, 0x48 | (d >= 8));
        byte(c, 0xb8 | (d & 7));
        fy_code_add64(c->code, (uint64_t)i);
    }
}

/* Both sides of a binary operation: the left in d, the right an immediate. */
static bool
right_immediate(struct compiler *c, const struct fy_node *node, int32_t *out)
{
    const struct fy_node *right = resolve(c, node->b);
    if (!immediate(right)) {
        return false;
    }
    *out = (int32_t)right->u.i;
    return true;
}

/* add (0), sub (5) or cmp (7) $imm32, r64 */
static void
immediate_operation(struct compiler *c, unsigned digit, unsigned d, int32_t i)
{
    byte(c, 0x48 | (d >= 8));
    byte(c, 0x81);
    byte(c, 0xc0 | digit << 3 | (d & 7));
    fy_code_add32(c->code, (uint32_t)i);
}

static void
binary(struct compiler *c, const struct fy_node *node, unsigned at)
{
    unsigned d = registers[at], e = 0;
    int32_t i;
    bool constant = right_immediate(c, node, &i);
    value(c, node->a, at);
    if (!constant || node->op == FY_OP_MIN || node->op == FY_OP_MAX) {
        value(c, node->b, at + 1);
        if (c->unsupported) {
            return;
        }
        e = registers[at + 1];
        constant = false;
    }
    switch (node->op) {
    case FY_OP_ADD:
    case FY_OP_SUB:
        if (constant) {
            immediate_operation(c, node->op == FY_OP_ADD ? 0 : 5, d, i);
        } else {
            two(c, node->op == FY_OP_ADD ? 0x01 : 0x29, e, d);
        }
        break;
    case FY_OP_MUL:
        if (constant) {
            two(c, 0x69, d, d); /* imul $imm32, r64, r64 */
            fy_code_add32(c->code, (uint32_t)i);
        } else {
            two(c, 0x0faf, d, e);
        }
        break;
    default:
        two(c, 0x39, e, d);                                    /* cmp e, d */
        two(c, node->op == FY_OP_MIN ? 0x0f4f : 0x0f4c, d, e); /* cmovg/l */
        return;
    }
    jump_if(c, IF_O, &c->predicate->yes);
}

static void
value(struct compiler *c, uint32_t index, unsigned at)
{
    if (at >= REGISTERS || c->code->overflowed) {
        c->unsupported = true;
    }
    if (c->unsupported) {
        return;
    }
    const struct fy_node *node = resolve(c, index);
    unsigned d = registers[at];
    struct fy_fixups no = {.count = 0}, end = {.count = 0};
    switch (node->op) {
    case FY_OP_INT:
        literal(c, node->u.i, d);
        return;
    case FY_OP_CELL:
        cell_value(c, node->a, d);
        return;
    case FY_OP_NEG:
        value(c, node->a, at);
        two(c, 0xf7, 3, d);
        jump_if(c, IF_O, &c->predicate->yes);
        return;
    case FY_OP_ABS:
        value(c, node->a, at);
        if (at + 1 >= REGISTERS) {
            c->unsupported = true;
            return;
        }
        two(c, 0x89, d, registers[at + 1]);
        two(c, 0xf7, 3, d);
        jump_if(c, IF_O, &c->predicate->yes);
        two(c, 0x0f48, d, registers[at + 1]); /* cmovs */
        return;
    case FY_OP_COND:
        condition(c, node->a, false, &no);
        value(c, node->b, at);
        jump(c, &end);
        land(c, &no);
        value(c, node->c, at);
        land(c, &end);
        return;
    default:
        break;
    }
    if (!fy_operators[node->op].is_truth) {
        binary(c, node, at);
        return;
    }
    condition(c, index, false, &no);
    literal(c, 1, d);
    jump(c, &end);
    land(c, &no);
    literal(c, 0, d);
    land(c, &end);
}

/* ---- conditions ---------------------------------------------------------------- */

static void
comparison(struct compiler *c, const struct fy_node *node, bool when,
           struct fy_fixups *to)
{
    static const uint8_t codes[] = {IF_L, IF_LE, IF_G, IF_GE, IF_E, IF_NE};
    int32_t i;
    value(c, node->a, 0);
    if (right_immediate(c, node, &i)) {
        immediate_operation(c, 7, registers[0], i);
    } else {
        value(c, node->b, 1);
        two(c, 0x39, registers[1], registers[0]); /* cmp */
    }
    /* NOLINTNEXTLINE(clang-analyzer-core.uninitialized.Assign): a comparison */
    unsigned code = codes[node->op - FY_OP_LT];
    jump_if(c, when ? code : code ^ 1, to);
}

static void
membership(struct compiler *c, const struct fy_node *node, bool when,
           struct fy_fixups *to)
{
    struct fy_fixups found = {.count = 0};
    const char *set = fy_model_string(c->predicate->model, node->b);
    value(c, node->a, 0);
    for (; *set; set++) {
        immediate_operation(c, 7, registers[0], *set);
        jump_if(c, IF_E, when ? to : &found);
    }
    if (!when) {
        jump(c, to);
        land(c, &found);
    }
}

/* Jumps to `to' when the truth of the expression is `when'. */
static void
condition(struct compiler *c, uint32_t index, bool when, struct fy_fixups *to)
{
    if (c->code->overflowed || c->unsupported || ++c->visits > 2 * MAX_VISITS) {
        c->unsupported = true;
        return;
    }
    const struct fy_node *node = resolve(c, index);
    struct fy_fixups past = {.count = 0};
    switch (node->op) {
    case FY_OP_NOT:
        condition(c, node->a, !when, to);
        return;
    case FY_OP_AND:
    case FY_OP_OR:
        if ((node->op == FY_OP_OR) == when) {
            condition(c, node->a, when, to);
            condition(c, node->b, when, to);
        } else {
            condition(c, node->a, !when, &past);
            condition(c, node->b, when, to);
            land(c, &past);
        }
        return;
    case FY_OP_IN:
        membership(c, node, when, to);
        return;
    default:
        if (fy_is_comparison(node->op)) {
            comparison(c, node, when, to);
            return;
        }
        value(c, index, 0);
        two(c, 0x85, registers[0], registers[0]);
        jump_if(c, when ? IF_NE : IF_E, to);
        return;
    }
}

/*
 * Comparisons start at register 0 again, so a condition may not stand where
 * registers hold something: under arithmetic.
 */
static bool
conditions_on_top(struct compiler *c, uint32_t index, bool top)
{
    const struct fy_node *node = resolve(c, index);
    if (c->unsupported || ++c->visits > 2 * MAX_VISITS) {
        return false;
    }
    switch (node->op) {
    case FY_OP_INT:
    case FY_OP_CELL:
        return true;
    case FY_OP_NOT:
    case FY_OP_IN:
    case FY_OP_NEG:
    case FY_OP_ABS:
        return (top || !fy_operators[node->op].is_truth) &&
               conditions_on_top(c, node->a, top && node->op == FY_OP_NOT);
    case FY_OP_AND:
    case FY_OP_OR:
        return top && conditions_on_top(c, node->a, true) &&
               conditions_on_top(c, node->b, true);
    case FY_OP_COND:
        return top && conditions_on_top(c, node->a, true) &&
               conditions_on_top(c, node->b, true) &&
               conditions_on_top(c, node->c, true);
    default:
        /* The left side is computed while nothing else is held. */
        if (fy_operators[node->op].is_truth && !top) {
            return false;
        }
        return conditions_on_top(c, node->a, top) &&
               conditions_on_top(c, node->b, false);
    }
}

static void
push_pop(struct fy_code *code, unsigned opcode, unsigned reg)
{
    char bytes[2] = {0x41, (char)(opcode | (reg & 7))};
    fy_code_add(code, reg >= 8 ? bytes : bytes + 1, reg >= 8 ? 2 : 1);
}

void
fy_predicate_pop(struct fy_code *code, const struct fy_predicate *predicate)
{
    unsigned first = predicate->pushed + 1;
    for (unsigned i = 1; i <= predicate->scratch; i++) {
        fy_code_depth(code, (first + predicate->scratch) * 8, registers[i],
                      first + i);
    }
    for (unsigned i = predicate->scratch; i > 0; i--) {
        push_pop(code, 0x58, registers[i]);
        fy_code_depth(code, (first + i - 1) * 8, registers[i], 0);
    }
}

int
fy_predicate_emit(struct fy_code *code, struct fy_predicate *predicate)
{
    struct compiler c = {
        .code = code,
        .predicate = predicate,
        .nodes = FY_TABLE(predicate->model, fy_node, nodes),
    };
    size_t start = code->used;
    uint32_t worth = predicate->function->worth;
    unsigned needed = registers_needed(&c, worth);
    c.visits = 0;
    if (c.unsupported || needed > REGISTERS ||
        !conditions_on_top(&c, worth, true)) {
        return FY_ERR_UNSUPPORTED;
    }
    c.visits = 0;
    predicate->scratch = needed - 1;
    predicate->yes.count = 0;
    predicate->yes.overflowed = false;
    for (unsigned i = 1; i < needed; i++) {
        push_pop(code, 0x50, registers[i]);
        fy_code_depth(code, (predicate->pushed + 1 + i) * 8, registers[i],
                      predicate->pushed + 1 + i);
    }
    condition(&c, worth, true, &predicate->yes);
    if (c.unsupported || predicate->yes.overflowed ||
        code->used - start > MAX_BYTES) {
        code->used = start;
        return FY_ERR_UNSUPPORTED;
    }
    return 0;
}
