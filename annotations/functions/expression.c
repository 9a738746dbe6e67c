/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Expressions to nodes: names to cells, lets and axes, and the type of every
 * part. Equal nodes of one function are made once, so that sharing a `let' costs
 * nothing and equal extents are recognised by their number. Long because it has
 * one case for each kind of expression.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "annotations/functions/compile.h"

/* Returns the type of a value of an enum fy_type. */
static uint8_t
value_type(uint8_t type)
{
    switch (type) {
    case FY_T_CHAR:
        return FY_T_CHAR;
    case FY_T_F32:
    case FY_T_F64:
        return FY_T_F64;
    case FY_T_C32:
    case FY_T_C64:
        return FY_T_C64;
    case FY_T_POINTER:
    case FY_T_HANDLE:
        return FY_T_POINTER;
    case FY_T_VOID:
        return FY_T_VOID;
    default:
        return FY_T_I64;
    }
}

static const char *
value_type_name(uint8_t type)
{
    switch (type) {
    case FY_T_CHAR:
        return "a character";
    case FY_T_F64:
        return "a real number";
    case FY_T_C64:
        return "a complex number";
    case FY_T_POINTER:
        return "a pointer";
    default:
        return "an integer";
    }
}

static bool
is_integer(uint8_t type)
{
    return type == FY_T_I64 || type == FY_T_CHAR;
}

static bool
is_ordered(uint8_t type)
{
    return is_integer(type) || type == FY_T_F64;
}

/* ---- nodes ---- */

static uint32_t
bucket(const struct fy_node *node)
{
    uint64_t bits;
    memcpy(&bits, &node->u, sizeof bits);
    uint64_t h = node->op * UINT64_C(31) + node->type;
    h = (h ^ node->a) * UINT64_C(0x9e3779b97f4a7c15);
    h = (h ^ node->b) * UINT64_C(0x9e3779b97f4a7c15);
    h = (h ^ node->c) * UINT64_C(0x9e3779b97f4a7c15);
    h = (h ^ bits) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(h >> 56);
}

static bool
same_node(const struct fy_node *x, const struct fy_node *y)
{
    return x->op == y->op && x->type == y->type && x->a == y->a &&
           x->b == y->b && x->c == y->c &&
           x->u.i == y->u.i; /* the bits: 0.0 is not -0.0 */
}

/* Depth and steps of evaluating a node, from its parts'. */
static void
measure(const struct fy_body *body, const struct fy_node *node, unsigned *depth,
        unsigned *steps)
{
    const struct fy_front *front = body->front;
    uint32_t parts[3] = {node->a, node->b, node->c};
    unsigned nparts = fy_node_arity(node);
    *depth = 0;
    *steps = 1;
    if (node->op == FY_OP_EXTENT) { /* evaluated when no extents are given */
        parts[0] = body->axes[node->a].row.extent;
        nparts = parts[0] == FY_NIL ? 0 : 1;
    }
    for (unsigned i = 0; i < nparts; i++) {
        /* NOLINTNEXTLINE(clang-analyzer-core.uninitialized.ArraySubscript): arity <= 3 */
        if (front->notes.row[parts[i]].depth > *depth) {
            *depth = front->notes.row[parts[i]].depth;
        }
        *steps += front->notes.row[parts[i]].steps;
    }
    ++*depth;
}

uint32_t
fy_node_make(struct fy_body *body, struct fy_node node, struct fy_span span)
{
    struct fy_front *front = body->front;
    uint32_t *head = &body->heads[bucket(&node)];
    unsigned depth, steps;
    for (uint32_t i = *head; i != FY_NIL; i = front->notes.row[i].chain) {
        if (same_node(&front->nodes.row[i], &node)) {
            return i;
        }
    }
    measure(body, &node, &depth, &steps);
    if (depth > FY_MAX_NODE_DEPTH || steps > FY_MAX_NODE_STEPS) {
        if (!body->failed) {
            fy_diagnostic_hint(
                fy_error(front, span, "expression is too large"),
                "with its `let's written out it has %u steps, %u deep; "
                "%d and %d are allowed",
                steps, depth, FY_MAX_NODE_STEPS, FY_MAX_NODE_DEPTH);
        }
        body->failed = true;
        return FY_NIL;
    }
    if (front->nodes.count - body->nodes_begin >= FY_MAX_FUNCTION_NODES) {
        if (!body->failed) {
            fy_error(front, span, "function '%.*s' has too many expressions",
                     FY_MAX_QUOTED, body->unit->name);
        }
        body->failed = true;
        return FY_NIL;
    }
    uint32_t line, column;
    fy_span_position(span, &line, &column);
    node.line = (uint16_t)(line < UINT16_MAX ? line : UINT16_MAX);
    *FY_APPEND(&front->arena, &front->nodes) = node;
    *FY_APPEND(&front->arena, &front->notes) =
        (struct fy_node_note){(uint16_t)depth, (uint16_t)steps, *head};
    *head = (uint32_t)front->nodes.count - 1;
    return *head;
}

static struct fy_node
plain_node(unsigned op, uint8_t type)
{
    return (struct fy_node){.op = (uint8_t)op, .type = type};
}

uint32_t
fy_node_of_parts(struct fy_body *body, unsigned op, uint8_t type,
                 const uint32_t parts[3], struct fy_span span)
{
    struct fy_node node = plain_node(op, type);
    node.a = parts[0];
    node.b = parts[1];
    node.c = parts[2];
    return fy_node_make(body, node, span);
}

static uint32_t
leaf(struct fy_body *body, unsigned op, uint8_t type, uint32_t a,
     struct fy_span span)
{
    return fy_node_of_parts(body, op, type, (uint32_t[3]){a}, span);
}

uint32_t
fy_node_of_number(struct fy_body *body, int64_t i, struct fy_span span)
{
    struct fy_node node = plain_node(FY_OP_INT, FY_T_I64);
    node.u.i = i;
    return fy_node_make(body, node, span);
}

uint32_t
fy_node_int(struct fy_body *body, int64_t i)
{
    return fy_node_of_number(body, i, body->unit->ast->span);
}

static uint8_t
type_of(const struct fy_body *body, uint32_t node)
{
    return body->front->nodes.row[node].type;
}

/* ---- names ---- */

static void
unknown_name(struct fy_body *body, struct fy_span span, const char *name)
{
    struct fy_front *front = body->front;
    struct fy_suggestion suggestion = {.wanted = name};
    struct fy_diagnostic *diagnostic =
        fy_error(front, span, "unknown name '%.*s'", FY_MAX_QUOTED, name);
    for (uint16_t i = 0; i < body->unit->row.nargs; i++) {
        fy_suggestion_try(&suggestion, body->unit->args[i].name);
    }
    for (unsigned i = 0; i < body->nlets; i++) {
        fy_suggestion_try(&suggestion, body->lets[i].name);
    }
    for (unsigned i = 0; i < body->naxes; i++) {
        fy_suggestion_try(&suggestion, body->axes[i].name);
    }
    fy_diagnostic_suggest(diagnostic, &suggestion);
    /* A let or an axis further down is the usual reason. */
    for (const struct ast_statement *s = body->unit->body; s; s = s->next) {
        if (s->kind == AST_LET && strcmp(s->name.text, name) == 0) {
            fy_diagnostic_hint(diagnostic, "it is declared further down, at %s",
                               fy_place(front, s->span));
        }
    }
}

/* A placeholder that stands for a number: <ops>, <eps>, <is_complex>. */
static uint32_t
number_text(struct fy_body *body, const char *text, struct fy_span span)
{
    if (!strpbrk(text, ".e")) {
        return fy_node_of_number(body, strtoll(text, NULL, 10), span);
    }
    struct fy_node node = plain_node(FY_OP_REAL, FY_T_F64);
    node.u.r = strtod(text, NULL);
    return fy_node_make(body, node, span);
}

static uint32_t
cell_node(struct fy_body *body, const struct ast_expr *expr)
{
    uint32_t cell = fy_cell_of_path(body->front, body->unit, expr);
    if (cell == FY_NIL) {
        return FY_NIL;
    }
    return leaf(body, FY_OP_CELL, value_type(body->unit->cells.row[cell].type),
                cell, expr->span);
}

static uint32_t
name_node(struct fy_body *body, const struct ast_expr *expr)
{
    const char *name = fy_expand(body->front, body->unit, expr->name);
    if (!name) {
        return FY_NIL;
    }
    if (name[0] >= '0' && name[0] <= '9') {
        return number_text(body, name, expr->span);
    }
    if (fy_unit_find_arg(body->unit, name)) {
        return cell_node(body, expr);
    }
    for (unsigned i = 0; i < body->nlets; i++) {
        if (strcmp(body->lets[i].name, name) == 0) {
            return body->lets[i].node;
        }
    }
    struct fy_axis_info *axis = fy_body_find_axis(body, name);
    if (!axis) {
        unknown_name(body, expr->span, name);
        return FY_NIL;
    }
    if (body->in_axis_extent) {
        return axis->row.extent;
    }
    return leaf(body, FY_OP_EXTENT, FY_T_I64, (uint32_t)(axis - body->axes),
                expr->span);
}

/* A path: in a call's arguments an operand's name is its address. */
static uint32_t
path_node(struct fy_body *body, const struct ast_expr *expr)
{
    if (body->in_call) {
        const char *text = fy_path_text(body->front, body->unit, expr);
        struct fy_operand_info *operand =
            text ? fy_body_find_operand(body, text) : NULL;
        if (operand) {
            return leaf(body, FY_OP_ADDRESS, FY_T_POINTER,
                        (uint32_t)(operand - body->operands), expr->span);
        }
    }
    if (body->in_map) {
        bool known;
        uint32_t node = fy_map_name(body, expr, &known);
        if (known) {
            return node;
        }
    }
    return expr->kind == AST_NAME ? name_node(body, expr)
                                  : cell_node(body, expr);
}

/* ---- operators ---- */

static uint32_t
type_error(struct fy_body *body, struct fy_span span, const char *what,
           uint8_t type)
{
    struct fy_diagnostic *diagnostic = fy_error(
        body->front, span, "%s cannot be %s", what, value_type_name(type));
    if (type == FY_T_C64) {
        fy_diagnostic_hint(diagnostic,
                           "complex numbers can only be compared with == "
                           "and !=");
    }
    if (type == FY_T_POINTER) {
        fy_diagnostic_hint(diagnostic, "a pointer can only be compared with 0");
    }
    return FY_NIL;
}

static uint32_t
unary_node(struct fy_body *body, const struct ast_expr *expr)
{
    uint32_t a = fy_node_of_expr(body, expr->a);
    if (a == FY_NIL) {
        return FY_NIL;
    }
    uint8_t type = type_of(body, a);
    struct fy_node node = plain_node(expr->op, FY_T_I64);
    node.a = a;
    if (expr->op == FY_OP_SCALAR) {
        fy_diagnostic_hint(
            fy_error(body->front, expr->span, "no address can be taken here"),
            "& stands before a whole argument of an `on cuda' call");
        return FY_NIL;
    }
    if (expr->op == FY_OP_NEG) {
        if (!is_ordered(type)) {
            return type_error(body, expr->span, "what is negated", type);
        }
        const struct fy_node *inner = &body->front->nodes.row[a];
        if (inner->op == FY_OP_INT) { /* -1 is one node */
            node = plain_node(FY_OP_INT, FY_T_I64);
            node.u.i = -inner->u.i;
        } else if (type == FY_T_F64) {
            node.type = FY_T_F64;
        }
    }
    return fy_node_make(body, node, expr->span);
}

static uint32_t
binary_node(struct fy_body *body, const struct ast_expr *expr)
{
    uint32_t a = fy_node_of_expr(body, expr->a);
    uint32_t b = fy_node_of_expr(body, expr->b);
    if (a == FY_NIL || b == FY_NIL) {
        return FY_NIL;
    }
    uint8_t ta = type_of(body, a), tb = type_of(body, b);
    struct fy_node node = plain_node(expr->op, FY_T_I64);
    node.a = a;
    node.b = b;
    switch (expr->op) {
    case FY_OP_AND:
    case FY_OP_OR:
        if (a == b && fy_is_comparison(body->front->nodes.row[a].op)) {
            return a; /* of a form, say: p.x != p.y twice */
        }
        break;
    case FY_OP_EQ:
    case FY_OP_NE:
        if ((ta == FY_T_POINTER) != (tb == FY_T_POINTER)) {
            const struct fy_node *other =
                &body->front->nodes.row[ta == FY_T_POINTER ? b : a];
            if (other->op != FY_OP_INT || other->u.i != 0) {
                return type_error(body, expr->span, "one side of a comparison",
                                  FY_T_POINTER);
            }
        }
        break;
    case FY_OP_MOD:
        if (!is_integer(ta) || !is_integer(tb)) {
            return type_error(body, expr->span, "an operand of %",
                              is_integer(ta) ? tb : ta);
        }
        break;
    default:
        if (!is_ordered(ta) || !is_ordered(tb)) {
            return type_error(body, expr->span, "an operand of this operator",
                              is_ordered(ta) ? tb : ta);
        }
        if (expr->op < FY_OP_LT && (ta == FY_T_F64 || tb == FY_T_F64)) {
            node.type = FY_T_F64;
        }
    }
    return fy_node_make(body, node, expr->span);
}

/* The 0 that stands for no address. */
static bool
is_null(const struct fy_body *body, uint32_t node)
{
    const struct fy_node *row = &body->front->nodes.row[node];
    return row->op == FY_OP_INT && row->type == FY_T_I64 && row->u.i == 0;
}

static uint32_t
cond_node(struct fy_body *body, const struct ast_expr *expr)
{
    uint32_t a = fy_node_of_expr(body, expr->a);
    uint32_t b = fy_node_of_expr(body, expr->b);
    uint32_t c = fy_node_of_expr(body, expr->c);
    if (a == FY_NIL || b == FY_NIL || c == FY_NIL) {
        return FY_NIL;
    }
    uint8_t tb = type_of(body, b), tc = type_of(body, c);
    struct fy_node node = plain_node(FY_OP_COND, tb);
    if (tb != tc && body->in_call && (is_null(body, b) || is_null(body, c)) &&
        (tb == FY_T_POINTER || tc == FY_T_POINTER)) {
        node.type = FY_T_POINTER;
    } else if (tb != tc) {
        if (!is_ordered(tb) || !is_ordered(tc)) {
            fy_error(body->front, expr->span,
                     "the two sides of ?: are %s and %s", value_type_name(tb),
                     value_type_name(tc));
            return FY_NIL;
        }
        node.type = tb == FY_T_F64 || tc == FY_T_F64 ? FY_T_F64 : FY_T_I64;
    }
    node.a = a;
    node.b = b;
    node.c = c;
    return fy_node_make(body, node, expr->span);
}

static uint32_t
set_node(struct fy_body *body, const struct ast_expr *expr)
{
    uint32_t a = fy_node_of_expr(body, expr->a);
    const char *set = fy_expand(body->front, body->unit, expr->name);
    if (a == FY_NIL || !set) {
        return FY_NIL;
    }
    if (type_of(body, a) != FY_T_CHAR) {
        fy_diagnostic_hint(fy_error(body->front, expr->a->span,
                                    "only a character can be `in' a string"),
                           "this is %s", value_type_name(type_of(body, a)));
        return FY_NIL;
    }
    const uint32_t parts[3] = {a, fy_intern(body->front, set)};
    return fy_node_of_parts(body, FY_OP_IN, FY_T_I64, parts, expr->span);
}

/* The operator that is written as a call of `name', or FY_OP_COUNT. */
static unsigned
called(const char *name)
{
    unsigned op = 0;
    while (op < FY_OP_COUNT && (fy_operators[op].notation != FY_NOTATION_CALL ||
                                strcmp(fy_operators[op].word, name) != 0)) {
        op++;
    }
    return op;
}

void
fy_suggest_operators(struct fy_suggestion *suggestion)
{
    for (unsigned op = 0; op < FY_OP_COUNT; op++) {
        if (fy_operators[op].notation == FY_NOTATION_CALL) {
            fy_suggestion_try(suggestion, fy_operators[op].word);
        }
    }
}

/* min, max (folded to pairs) and abs. */
static uint32_t
call_node(struct fy_body *body, const struct ast_expr *expr)
{
    const char *name = expr->name.text;
    unsigned op = called(name);
    unsigned count = 0;
    uint32_t result = FY_NIL;
    if (op == FY_OP_COUNT && body->on_device &&
        fy_device_function(body, expr, &result)) {
        return result;
    }
    if (op == FY_OP_COUNT && body->in_map) {
        return fy_map_function(body, expr, &result) ? result : FY_NIL;
    }
    if (op == FY_OP_COUNT) {
        struct fy_suggestion suggestion = {.wanted = name};
        fy_suggest_operators(&suggestion);
        struct fy_diagnostic *diagnostic =
            fy_error(body->front, expr->name.span, "unknown function '%.*s'",
                     FY_MAX_QUOTED, name);
        fy_diagnostic_suggest(diagnostic, &suggestion);
        fy_diagnostic_hint(diagnostic,
                           body->on_device
                               ? "arguments of a device's function have min, "
                                 "max, abs, op, fill, side, diag and transposed"
                               : "expressions have min, max and abs only");
        return FY_NIL;
    }
    for (const struct ast_expr *e = expr->list; e; e = e->next) {
        uint32_t part = fy_node_of_expr(body, e);
        if (part == FY_NIL) {
            return FY_NIL;
        }
        uint8_t type = type_of(body, part);
        if (!is_ordered(type)) {
            return type_error(body, e->span, "an argument", type);
        }
        struct fy_node node =
            plain_node(op, type == FY_T_F64 ? type : FY_T_I64);
        node.a = part;
        if (op != FY_OP_ABS && count > 0) {
            node.a = result;
            node.b = part;
            if (type_of(body, result) == FY_T_F64) {
                node.type = FY_T_F64;
            }
        }
        if (op == FY_OP_ABS || count > 0) {
            result = fy_node_make(body, node, expr->span);
        } else {
            result = part;
        }
        if (result == FY_NIL) {
            return FY_NIL;
        }
        count++;
    }
    if (op == FY_OP_ABS ? count != 1 : count < 2) {
        fy_error(body->front, expr->span, "'%s' takes %s", name,
                 op == FY_OP_ABS ? "one argument" : "two arguments or more");
        return FY_NIL;
    }
    return result;
}

uint32_t
fy_node_of_expr(struct fy_body *body, const struct ast_expr *expr)
{
    struct fy_node node;
    switch (expr->kind) {
    case AST_INT:
        return fy_node_of_number(body, expr->integer, expr->span);
    case AST_CHAR:
        node = plain_node(FY_OP_INT, FY_T_CHAR);
        node.u.i = expr->integer;
        return fy_node_make(body, node, expr->span);
    case AST_REAL:
        node = plain_node(FY_OP_REAL, FY_T_F64);
        node.u.r = expr->real;
        return fy_node_make(body, node, expr->span);
    case AST_NAME:
    case AST_ARROW:
    case AST_DOT:
        return path_node(body, expr);
    case AST_DEREF:
    case AST_INDEX:
        return cell_node(body, expr);
    case AST_UNARY:
        return unary_node(body, expr);
    case AST_BINARY:
        return binary_node(body, expr);
    case AST_COND:
        return cond_node(body, expr);
    case AST_IN:
        return set_node(body, expr);
    default:
        return call_node(body, expr);
    }
}

uint32_t
fy_node_of_integer(struct fy_body *body, const struct ast_expr *expr)
{
    uint32_t node = fy_node_of_expr(body, expr);
    if (node == FY_NIL || type_of(body, node) == FY_T_I64) {
        return node;
    }
    struct fy_diagnostic *diagnostic =
        fy_error(body->front, expr->span, "this must be an integer, not %s",
                 value_type_name(type_of(body, node)));
    if (type_of(body, node) == FY_T_POINTER && expr->kind == AST_NAME) {
        fy_diagnostic_hint(diagnostic, "write *%.*s for what it points to",
                           FY_MAX_QUOTED, expr->name.text);
    }
    return FY_NIL;
}
