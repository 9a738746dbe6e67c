/* SPDX-License-Identifier: Apache-2.0 */
/* See operators.h. */
#include "config.h"

#include "annotations/model/operators.h"

enum {
    NOT_EQUAL = FY_LESS | FY_GREATER | FY_UNORDERED,
};

const struct fy_operator fy_operators[FY_OP_COUNT] = {
    [FY_OP_NEG] = {"-", FY_NOTATION_PREFIX, 1, 0, false, true},
    [FY_OP_NOT] = {"!", FY_NOTATION_PREFIX, 1, 0, true, true},
    [FY_OP_ABS] = {"abs", FY_NOTATION_CALL, 1, 0, false, false},
    [FY_OP_ADD] = {"+", FY_NOTATION_INFIX, 2, 0, false, true},
    [FY_OP_SUB] = {"-", FY_NOTATION_INFIX, 2, 0, false, true},
    [FY_OP_MUL] = {"*", FY_NOTATION_INFIX, 2, 0, false, true},
    [FY_OP_DIV] = {"/", FY_NOTATION_INFIX, 2, 0, false, false},
    [FY_OP_MOD] = {"%", FY_NOTATION_INFIX, 2, 0, false, false},
    [FY_OP_LT] = {"<", FY_NOTATION_INFIX, 2, FY_LESS, true, true},
    [FY_OP_LE] = {"<=", FY_NOTATION_INFIX, 2, FY_LESS | FY_EQUAL, true, true},
    [FY_OP_GT] = {">", FY_NOTATION_INFIX, 2, FY_GREATER, true, true},
    [FY_OP_GE] = {">=", FY_NOTATION_INFIX, 2, FY_GREATER | FY_EQUAL, true,
                  true},
    [FY_OP_EQ] = {"==", FY_NOTATION_INFIX, 2, FY_EQUAL, true, true},
    [FY_OP_NE] = {"!=", FY_NOTATION_INFIX, 2, NOT_EQUAL, true, true},
    [FY_OP_AND] = {"&&", FY_NOTATION_INFIX, 2, 0, true, true},
    [FY_OP_OR] = {"||", FY_NOTATION_INFIX, 2, 0, true, true},
    [FY_OP_COND] = {"?:", FY_NOTATION_OWN, 3, 0, false, true},
    [FY_OP_MIN] = {"min", FY_NOTATION_CALL, 2, FY_LESS, false, true},
    [FY_OP_MAX] = {"max", FY_NOTATION_CALL, 2, FY_GREATER, false, true},
    [FY_OP_IN] = {"in", FY_NOTATION_OWN, 1, 0, true, false},
    [FY_OP_SCALAR] = {"&", FY_NOTATION_PREFIX, 1, 0, false, false},
};

const struct fy_math_row fy_maths[FY_MATH_COUNT] = {
#define ROW(id, word, arity, exact) {word, arity, exact},
    FY_MATHS(ROW)
#undef ROW
};

unsigned
fy_node_arity(const struct fy_node *node)
{
    if (node->op == FY_OP_MATH) {
        return node->u.i >= 0 && node->u.i < FY_MATH_COUNT
                   ? fy_maths[node->u.i].arity
                   : 0;
    }
    return node->op < FY_OP_COUNT ? fy_operators[node->op].arity : 0;
}

bool
fy_node_walk(const struct fy_node *nodes, uint32_t index,
             bool (*visit)(const struct fy_node *node, void *state),
             void *state)
{
    const struct fy_node *node = &nodes[index];
    const uint32_t parts[3] = {node->a, node->b, node->c};
    const unsigned arity = fy_node_arity(node);
    bool goes_on = visit(node, state);
    for (unsigned i = 0; goes_on && i < arity; i++) {
        /* NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): arity <= 3 */
        goes_on = fy_node_walk(nodes, parts[i], visit, state);
    }
    return goes_on;
}
