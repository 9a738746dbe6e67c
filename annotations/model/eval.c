/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The expression evaluator: a walk over the node tables of a model. It runs in
 * host programs, so it calls nothing, allocates nothing and bounds its own
 * depth even on a model that was never validated.
 */
#include "config.h"

#include "annotations/model/eval.h"

#include <stddef.h>

#include "annotations/model/operators.h"

static int eval(const struct fy_scope *scope, uint32_t node, unsigned depth,
                struct fy_value *out);

static struct fy_value
int_value(int64_t i)
{
    struct fy_value value = {.kind = FY_V_INT, .i = i};
    return value;
}

static struct fy_value
real_value(double r)
{
    struct fy_value value = {.kind = FY_V_REAL, .r = r};
    return value;
}

static const struct fy_node *
node_at(const struct fy_scope *scope, uint32_t node)
{
    if (node >= scope->model->nodes.count) {
        return NULL;
    }
    return &FY_TABLE(scope->model, fy_node, nodes)[node];
}

/* Returns true if a value is not 0. */
static bool
truth(const struct fy_value *value)
{
    switch (value->kind) {
    case FY_V_INT:
        return value->i != 0;
    case FY_V_REAL:
        return value->r != 0;
    case FY_V_COMPLEX:
        return value->r != 0 || value->im != 0;
    default:
        return value->p != 0;
    }
}

static bool
is_number(const struct fy_value *value)
{
    return value->kind == FY_V_INT || value->kind == FY_V_REAL;
}

static double
as_real(const struct fy_value *value)
{
    return value->kind == FY_V_INT ? (double)value->i : value->r;
}

static int
integer_op(unsigned op, int64_t a, int64_t b, struct fy_value *out)
{
    int64_t result;
    bool overflow = false;
    switch (op) {
    case FY_OP_ADD:
        overflow = __builtin_add_overflow(a, b, &result);
        break;
    case FY_OP_SUB:
        overflow = __builtin_sub_overflow(a, b, &result);
        break;
    case FY_OP_MUL:
        overflow = __builtin_mul_overflow(a, b, &result);
        break;
    case FY_OP_DIV:
    case FY_OP_MOD:
        if (b == 0) {
            return FY_ERR_INVALID;
        }
        if (b == -1) { /* INT64_MIN / -1 traps */
            overflow = __builtin_sub_overflow(INT64_C(0), a, &result);
            if (op == FY_OP_MOD) {
                overflow = false;
                result = 0;
            }
        } else {
            result = op == FY_OP_DIV ? a / b : a % b;
        }
        break;
    default:
        result = fy_holds(op, fy_relation_of_integers(a, b));
        if (!fy_operators[op].is_truth) { /* min, max */
            result = result ? a : b;
        }
    }
    if (overflow) {
        return FY_ERR_OVERFLOW;
    }
    *out = int_value(result);
    return FY_OK;
}

static int
real_op(unsigned op, double a, double b, struct fy_value *out)
{
    switch (op) {
    case FY_OP_ADD:
        *out = real_value(a + b);
        return FY_OK;
    case FY_OP_SUB:
        *out = real_value(a - b);
        return FY_OK;
    case FY_OP_MUL:
        *out = real_value(a * b);
        return FY_OK;
    case FY_OP_DIV:
        if (b == 0) {
            return FY_ERR_INVALID;
        }
        *out = real_value(a / b);
        return FY_OK;
    case FY_OP_MOD:
        return FY_ERR_INVALID;
    default:
        *out = int_value(fy_holds(op, fy_relation_of_reals(a, b)));
        if (!fy_operators[op].is_truth) { /* min, max */
            *out = real_value(out->i ? a : b);
        }
        return FY_OK;
    }
}

/* == and != of values that have no order. */
static int
equality_op(unsigned op, const struct fy_value *a, const struct fy_value *b,
            struct fy_value *out)
{
    bool equal;
    if (op != FY_OP_EQ && op != FY_OP_NE) {
        return FY_ERR_INVALID;
    }
    if (a->kind == FY_V_POINTER || b->kind == FY_V_POINTER) {
        uint64_t x = a->kind == FY_V_POINTER ? a->p : (uint64_t)a->i;
        uint64_t y = b->kind == FY_V_POINTER ? b->p : (uint64_t)b->i;
        if ((a->kind != FY_V_POINTER && a->kind != FY_V_INT) ||
            (b->kind != FY_V_POINTER && b->kind != FY_V_INT)) {
            return FY_ERR_INVALID;
        }
        equal = x == y;
    } else {
        double ai = a->kind == FY_V_COMPLEX ? a->im : 0;
        double bi = b->kind == FY_V_COMPLEX ? b->im : 0;
        equal = as_real(a) == as_real(b) && ai == bi;
    }
    *out = int_value(equal == (op == FY_OP_EQ));
    return FY_OK;
}

static int
unary(const struct fy_scope *scope, const struct fy_node *node, unsigned depth,
      struct fy_value *out)
{
    struct fy_value a;
    int status = eval(scope, node->a, depth, &a);
    if (status) {
        return status;
    }
    if (node->op == FY_OP_NOT) {
        *out = int_value(!truth(&a));
        return FY_OK;
    }
    if (!is_number(&a)) {
        return FY_ERR_INVALID;
    }
    if (node->op == FY_OP_ABS && (a.kind == FY_V_INT ? a.i >= 0 : a.r >= 0)) {
        *out = a;
        return FY_OK;
    }
    if (a.kind == FY_V_INT) {
        return integer_op(FY_OP_SUB, 0, a.i, out);
    }
    *out = real_value(-a.r);
    return FY_OK;
}

static int
binary(const struct fy_scope *scope, const struct fy_node *node, unsigned depth,
       struct fy_value *out)
{
    struct fy_value a, b;
    int status = eval(scope, node->a, depth, &a);
    if (status == FY_OK) {
        status = eval(scope, node->b, depth, &b);
    }
    if (status) {
        return status;
    }
    if (a.kind == FY_V_INT && b.kind == FY_V_INT) {
        return integer_op(node->op, a.i, b.i, out);
    }
    if (is_number(&a) && is_number(&b)) {
        return real_op(node->op, as_real(&a), as_real(&b), out);
    }
    return equality_op(node->op, &a, &b, out);
}

/* && and ||: the right side is not evaluated when the left one decides. */
static int
logical(const struct fy_scope *scope, const struct fy_node *node,
        unsigned depth, struct fy_value *out)
{
    struct fy_value a;
    int status = eval(scope, node->a, depth, &a);
    if (status) {
        return status;
    }
    if (truth(&a) == (node->op == FY_OP_AND)) {
        status = eval(scope, node->b, depth, &a);
        if (status) {
            return status;
        }
    }
    *out = int_value(truth(&a));
    return FY_OK;
}

static int
membership(const struct fy_scope *scope, const struct fy_node *node,
           unsigned depth, struct fy_value *out)
{
    struct fy_value a;
    int status = eval(scope, node->a, depth, &a);
    if (status) {
        return status;
    }
    if (a.kind != FY_V_INT || node->b >= scope->model->strings.count) {
        return FY_ERR_INVALID;
    }
    const char *set = fy_model_string(scope->model, node->b);
    bool found = false;
    for (; *set != '\0' && !found; set++) {
        found = (unsigned char)*set == (uint64_t)a.i;
    }
    *out = int_value(found);
    return FY_OK;
}

static int
extent(const struct fy_scope *scope, uint32_t axis, unsigned depth,
       struct fy_value *out)
{
    const struct fy_function *function = scope->function;
    if (axis >= function->naxes) {
        return FY_ERR_INVALID;
    }
    if (scope->extents) {
        *out = int_value(scope->extents[axis]);
        return FY_OK;
    }
    uint64_t row = (uint64_t)function->axes + axis;
    if (row >= scope->model->axes.count) {
        return FY_ERR_INVALID;
    }
    const struct fy_axis *axes = FY_TABLE(scope->model, fy_axis, axes);
    return eval(scope, axes[row].extent, depth, out);
}

static int
eval(const struct fy_scope *scope, uint32_t index, unsigned depth,
     struct fy_value *out)
{
    const struct fy_node *node = node_at(scope, index);
    if (!node || depth >= FY_MAX_NODE_DEPTH) {
        return FY_ERR_INVALID;
    }
    depth++;
    switch (node->op) {
    case FY_OP_INT:
        *out = int_value(node->u.i);
        return FY_OK;
    case FY_OP_REAL:
        *out = real_value(node->u.r);
        return FY_OK;
    case FY_OP_CELL:
        if (node->a >= scope->function->ncells || !scope->cells) {
            return FY_ERR_INVALID;
        }
        *out = scope->cells[node->a];
        return FY_OK;
    case FY_OP_EXTENT:
        return extent(scope, node->a, depth, out);
    case FY_OP_NEG:
    case FY_OP_NOT:
    case FY_OP_ABS:
        return unary(scope, node, depth, out);
    case FY_OP_AND:
    case FY_OP_OR:
        return logical(scope, node, depth, out);
    case FY_OP_COND: {
        struct fy_value a;
        int status = eval(scope, node->a, depth, &a);
        if (status) {
            return status;
        }
        return eval(scope, truth(&a) ? node->b : node->c, depth, out);
    }
    case FY_OP_IN:
        return membership(scope, node, depth, out);
    default:
        /* Addresses, words and elements are known to those who bind the call. */
        return node->op < FY_OP_COUNT && fy_operators[node->op].arity == 2
                   ? binary(scope, node, depth, out)
                   : FY_ERR_INVALID;
    }
}

int
fy_eval(const struct fy_scope *scope, uint32_t node, struct fy_value *out)
{
    struct fy_value value;
    int status = eval(scope, node, 0, &value);
    if (status == FY_OK) {
        *out = value;
    }
    return status;
}

int
fy_eval_int(const struct fy_scope *scope, uint32_t node, int64_t *out)
{
    struct fy_value value;
    int status = eval(scope, node, 0, &value);
    if (status) {
        return status;
    }
    if (value.kind == FY_V_REAL) {
        /* The bounds are the doubles next to the ends of int64_t. */
        if (!(value.r >= -0x1p63 && value.r < 0x1p63) ||
            (double)(int64_t)value.r != value.r) {
            return FY_ERR_INVALID;
        }
        *out = (int64_t)value.r;
        return FY_OK;
    }
    if (value.kind != FY_V_INT) {
        return FY_ERR_INVALID;
    }
    *out = value.i;
    return FY_OK;
}

int
fy_eval_real(const struct fy_scope *scope, uint32_t node, double *out)
{
    struct fy_value value;
    int status = eval(scope, node, 0, &value);
    if (status) {
        return status;
    }
    if (!is_number(&value)) {
        return FY_ERR_INVALID;
    }
    *out = as_real(&value);
    return FY_OK;
}

int
fy_eval_bool(const struct fy_scope *scope, uint32_t node, bool *out)
{
    struct fy_value value;
    int status = eval(scope, node, 0, &value);
    if (status == FY_OK) {
        *out = truth(&value);
    }
    return status;
}

uint32_t
fy_eval_bare_cell(const struct fy_scope *scope, uint32_t index)
{
    for (unsigned depth = 0; depth < FY_MAX_NODE_DEPTH; depth++) {
        const struct fy_node *node = node_at(scope, index);
        struct fy_value condition;
        if (!node) {
            return FY_NIL;
        }
        if (node->op == FY_OP_CELL) {
            return node->a < scope->function->ncells ? node->a : FY_NIL;
        }
        if (node->op == FY_OP_EXTENT) {
            uint64_t row = (uint64_t)scope->function->axes + node->a;
            if (node->a >= scope->function->naxes ||
                row >= scope->model->axes.count) {
                return FY_NIL;
            }
            index = FY_TABLE(scope->model, fy_axis, axes)[row].extent;
            continue;
        }
        if (node->op != FY_OP_COND ||
            eval(scope, node->a, depth + 1, &condition)) {
            return FY_NIL;
        }
        index = truth(&condition) ? node->b : node->c;
    }
    return FY_NIL;
}

uint32_t
fy_type_bytes(enum fy_type type, unsigned integer_bits)
{
    switch (type) {
    case FY_T_CHAR:
    case FY_T_I8:
    case FY_T_U8:
        return 1;
    case FY_T_I16:
    case FY_T_U16:
        return 2;
    case FY_T_I32:
    case FY_T_U32:
    case FY_T_F32:
        return 4;
    case FY_T_I64:
    case FY_T_U64:
    case FY_T_F64:
    case FY_T_C32:
    case FY_T_POINTER:
    case FY_T_HANDLE:
        return 8;
    case FY_T_C64:
        return 16;
    case FY_T_INTEGER:
        return integer_bits == 64 ? 8 : 4;
    default:
        return 0;
    }
}
