/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `map y = expression': the computation of each element on a device, where the
 * function is elementwise. Maps that follow each other and run over the same
 * axes are one row of calls, and become one kernel; a map of a name that is no
 * operand only names a value for those behind it.
 */
#include "config.h"

#include <string.h>

#include "annotations/functions/compile.h"

/* ---- steps on the device, also those of `on cuda' ---- */

struct fy_call_row *
fy_add_call(struct fy_body *body, const struct fy_call_row *row,
            struct fy_span span)
{
    uint32_t column;
    struct fy_front *front = body->front;
    struct fy_function *function = &body->unit->row;
    uint32_t index = (uint32_t)front->calls.count;
    struct fy_call_row *call = FY_APPEND(&front->arena, &front->calls);
    *call = *row;
    call->next = FY_NIL;
    fy_span_position(span, &call->line, &column);
    if (function->cuda_call == FY_NIL) {
        function->cuda_call = index;
    } else {
        front->calls.row[body->last_call].next = index;
    }
    body->last_call = index;
    body->map_row = FY_NIL;
    body->rows++;
    for (uint32_t i = 0; row->kind != FY_CALL_MAP && i < row->nargs; i++) {
        if (row->args[i] != FY_NIL &&
            front->nodes.row[row->args[i]].op == FY_OP_WORD &&
            front->nodes.row[row->args[i]].a == FY_WORD_INFO) {
            body->infos++;
        }
    }
    return call;
}

void
fy_check_device_result(struct fy_body *body, struct fy_span span)
{
    const uint8_t result = body->unit->result.type;
    if (result != FY_T_VOID && !fy_is_integer_type(result)) {
        fy_diagnostic_hint(
            fy_error(body->front, span,
                     "a function that returns a number cannot run on cuda"),
            "only those that return nothing, or 0 for success");
    }
}

/* ---- functions ---- */

static int
find_math(const char *name)
{
    for (int i = 0; i < FY_MATH_COUNT; i++) {
        if (strcmp(fy_maths[i].word, name) == 0) {
            return i;
        }
    }
    return -1;
}

bool
fy_map_function(struct fy_body *body, const struct ast_expr *expr,
                uint32_t *out)
{
    const char *name = fy_expand(body->front, body->unit, expr->name);
    uint32_t parts[3] = {0, 0, 0};
    unsigned count = 0;
    *out = FY_NIL;
    if (!name) {
        return false;
    }
    const int math = find_math(name);
    if (math < 0) {
        struct fy_suggestion suggestion = {.wanted = name};
        for (int i = 0; i < FY_MATH_COUNT; i++) {
            fy_suggestion_try(&suggestion, fy_maths[i].word);
        }
        fy_suggest_operators(&suggestion);
        struct fy_diagnostic *diagnostic =
            fy_error(body->front, expr->name.span, "unknown function '%.*s'",
                     FY_MAX_QUOTED, name);
        fy_diagnostic_suggest(diagnostic, &suggestion);
        fy_diagnostic_hint(diagnostic,
                           "a map has the functions of C's <math.h>, each for "
                           "float and double under its plain name");
        return false;
    }
    for (const struct ast_expr *e = expr->list; e; e = e->next) {
        uint32_t node = fy_node_of_expr(body, e);
        if (node == FY_NIL) {
            return false;
        }
        uint8_t type = body->front->nodes.row[node].type;
        if (type != FY_T_F64 && type != FY_T_I64 && type != FY_T_CHAR) {
            fy_error(body->front, e->span, "'%s' takes real numbers", name);
            return false;
        }
        if (count < 3) {
            parts[count] = node;
        }
        count++;
    }
    if (count != fy_maths[math].arity) {
        fy_error(body->front, expr->span, "'%s' takes %u argument%s", name,
                 fy_maths[math].arity, fy_maths[math].arity == 1 ? "" : "s");
        return false;
    }
    struct fy_node node = {.op = FY_OP_MATH,
                           .type = FY_T_F64,
                           .a = parts[0],
                           .b = parts[1],
                           .c = parts[2],
                           .u.i = math};
    *out = fy_node_make(body, node, expr->span);
    return *out != FY_NIL;
}

/* ---- names ---- */

static const char *
element_trouble(uint8_t type)
{
    switch (type) {
    case FY_T_C32:
    case FY_T_C64:
        return "complex";
    case FY_T_U64:
        return "unsigned and 64 bits wide";
    case FY_T_POINTER:
    case FY_T_HANDLE:
        return "pointers";
    default:
        return NULL;
    }
}

enum {
    READS_VALUE = 1 << 30
};
_Static_assert(FY_MAX_OPERANDS <= 30, "one bit each");

struct reads {
    uint32_t operands;   /* whose elements are read: bits; READS_VALUE: values
                          * of an earlier map, too */
    const char *inexact; /* a function whose value is not `exact', or NULL */
};

static bool
add_read(const struct fy_node *node, void *state)
{
    struct reads *reads = state;
    if (node->op == FY_OP_ELEMENT) {
        reads->operands |= UINT32_C(1) << node->a;
    } else if (node->op == FY_OP_VALUE) {
        reads->operands |= READS_VALUE;
    } else if (node->op == FY_OP_MATH && !fy_maths[node->u.i].is_exact) {
        reads->inexact = fy_maths[node->u.i].word;
    }
    return true;
}

static struct reads
reads_of(const struct fy_body *body, uint32_t index)
{
    struct reads reads = {0, NULL};
    (void)fy_node_walk(body->front->nodes.row, index, add_read, &reads);
    return reads;
}

/* Returns the row of the kernel that the next map is part of. */
static unsigned
row_number(const struct fy_body *body)
{
    return body->rows + (body->map_row == FY_NIL);
}

/* A named value; between kernels it is gone, unless it is unchanged. */
static uint32_t
named_value(struct fy_body *body, struct fy_temp_info *temp,
            const struct ast_expr *expr)
{
    temp->used = true;
    if (temp->node == FY_NIL || row_number(body) == temp->row) {
        return temp->node;
    }
    uint32_t operands = reads_of(body, temp->node).operands;
    for (unsigned o = 0; o < body->noperands; o++) {
        if (operands >> o & 1 && body->written[o]) {
            operands |= READS_VALUE;
        }
    }
    if (operands & READS_VALUE) {
        fy_diagnostic_hint(
            fy_error(body->front, expr->span,
                     "the value '%.*s' is gone: another step ran since",
                     FY_MAX_QUOTED, temp->name),
            "maps over other axes are another kernel; name it again");
        return FY_NIL;
    }
    return temp->node;
}

uint32_t
fy_map_name(struct fy_body *body, const struct ast_expr *expr, bool *known)
{
    const char *text = fy_path_text(body->front, body->unit, expr);
    struct fy_operand_info *operand =
        text ? fy_body_find_operand(body, text) : NULL;
    *known = true;
    if (!operand) {
        for (unsigned i = 0; text && i < body->ntemps; i++) {
            if (strcmp(body->temps[i].name, text) == 0) {
                return named_value(body, &body->temps[i], expr);
            }
        }
        *known = !text;
        return FY_NIL;
    }
    const unsigned o = (unsigned)(operand - body->operands);
    const char *trouble = element_trouble(operand->row.element);
    if (trouble) {
        fy_error(body->front, expr->span,
                 "elements of '%.*s' are %s: no map computes with them",
                 FY_MAX_QUOTED, text, trouble);
        return FY_NIL;
    }
    if (operand->row.access == FY_ACCESS_SCRATCH) {
        fy_error(body->front, expr->span, "'%.*s' is scratch: it holds nothing",
                 FY_MAX_QUOTED, text);
        return FY_NIL;
    }
    struct fy_node node = {.op = FY_OP_ELEMENT,
                           .type = operand->row.element == FY_T_F32 ||
                                           operand->row.element == FY_T_F64
                                       ? FY_T_F64
                                       : FY_T_I64,
                           .a = o};
    if (body->map_row != FY_NIL && body->map_of[o] != FY_NIL) {
        node.op = FY_OP_VALUE;
        node.a = body->map_of[o];
    } else if (operand->row.access == FY_ACCESS_OUT && !body->written[o]) {
        fy_error(body->front, expr->span,
                 "'%.*s' is only written: it holds nothing yet", FY_MAX_QUOTED,
                 text);
        return FY_NIL;
    }
    return fy_node_make(body, node, expr->span);
}

/* ---- operands of a map ---- */

static bool
spans_axis(const struct fy_operand *operand, uint32_t axis)
{
    for (unsigned k = 0; k < operand->naxes; k++) {
        if (operand->axes[k].axis == axis) {
            return true;
        }
    }
    return false;
}

static bool
spans_twice(const struct fy_operand *operand)
{
    for (unsigned k = 0; k < operand->naxes; k++) {
        for (unsigned j = 0; j < k; j++) {
            if (operand->axes[k].axis == operand->axes[j].axis) {
                return true;
            }
        }
    }
    return false;
}

/* Every axis of `inner' is one of `outer''s. */
static bool
within(const struct fy_operand *inner, const struct fy_operand *outer)
{
    for (unsigned k = 0; k < inner->naxes; k++) {
        if (!spans_axis(outer, inner->axes[k].axis)) {
            return false;
        }
    }
    return true;
}

static bool
check_reads(struct fy_body *body, const struct ast_statement *s, uint32_t node,
            const struct fy_operand_info *target)
{
    const uint32_t operands = reads_of(body, node).operands;
    for (unsigned o = 0; o < body->noperands; o++) {
        const struct fy_operand_info *from = &body->operands[o];
        if (!(operands >> o & 1)) {
            continue;
        }
        if (from->row.sign != 0 || spans_twice(&from->row)) {
            fy_error(body->front, s->expr->span,
                     "'%.*s' is a triangle, a band or a diagonal: no map runs "
                     "over one",
                     FY_MAX_QUOTED, from->name);
            return false;
        }
        if (!within(&from->row, &target->row)) {
            fy_diagnostic_hint(
                fy_error(body->front, s->expr->span,
                         "'%.*s' spans an axis that '%.*s' does not",
                         FY_MAX_QUOTED, from->name, FY_MAX_QUOTED,
                         target->name),
                "a map computes each element of '%.*s' from one of each other "
                "operand",
                FY_MAX_QUOTED, target->name);
            return false;
        }
    }
    return true;
}

/* ---- the statement ---- */

/* A name for a value, for the maps behind it. */
static void
name_value(struct fy_body *body, const struct ast_statement *s,
           const char *name)
{
    struct fy_front *front = body->front;
    bool taken =
        fy_unit_find_arg(body->unit, name) || fy_body_find_axis(body, name);
    for (unsigned i = 0; i < body->nlets; i++) {
        taken = taken || strcmp(body->lets[i].name, name) == 0;
    }
    if (s->base->kind != AST_NAME || taken) {
        fy_diagnostic_hint(fy_error(front, s->base->span,
                                    "'%.*s' is no operand", FY_MAX_QUOTED,
                                    name),
                           "declare it above: out, inout");
        return;
    }
    for (unsigned i = 0; i < body->ntemps; i++) {
        if (strcmp(body->temps[i].name, name) == 0) {
            fy_error(front, s->base->span, "'%.*s' is declared twice",
                     FY_MAX_QUOTED, name);
            return;
        }
    }
    if (body->ntemps == FY_MAX_LETS) {
        fy_error(front, s->span, "a function has at most %d named values",
                 FY_MAX_LETS);
        return;
    }
    body->in_map = true;
    uint32_t node = fy_node_of_expr(body, s->expr);
    body->in_map = false;
    body->temps[body->ntemps++] =
        (struct fy_temp_info){.name = name,
                              .span = s->base->span,
                              .node = node,
                              .row = row_number(body)};
}

static bool
same_axes(const struct fy_operand *a, const struct fy_operand *b)
{
    return within(a, b) && within(b, a);
}

void
fy_compile_map(struct fy_body *body, const struct ast_statement *s)
{
    struct fy_front *front = body->front;
    const char *name = fy_path_text(front, body->unit, s->base);
    struct fy_operand_info *target =
        name ? fy_body_find_operand(body, name) : NULL;
    if (!name) {
        return;
    }
    if (!target) {
        name_value(body, s, name);
        return;
    }
    const unsigned o = (unsigned)(target - body->operands);
    if (target->row.access != FY_ACCESS_OUT &&
        target->row.access != FY_ACCESS_INOUT) {
        fy_diagnostic_hint(fy_error(front, s->base->span,
                                    "'%.*s' is not written by the call",
                                    FY_MAX_QUOTED, name),
                           "a map is of an out or inout operand");
        return;
    }
    if (element_trouble(target->row.element) || target->row.naxes == 0) {
        fy_error(front, s->base->span, "no map can write '%.*s'", FY_MAX_QUOTED,
                 name);
        return;
    }
    if (target->row.sign != 0 || spans_twice(&target->row)) {
        fy_error(front, s->base->span,
                 "'%.*s' is a triangle, a band or a diagonal: no map runs over "
                 "one",
                 FY_MAX_QUOTED, name);
        return;
    }
    /* Another index space is another kernel. */
    if (body->map_row != FY_NIL) {
        const struct fy_call_row *row = &front->calls.row[body->map_row];
        if (row->nargs == FY_MAX_ARGS ||
            !same_axes(&body->operands[row->to[0]].row, &target->row)) {
            body->map_row = FY_NIL;
        }
    }
    body->in_map = true;
    uint32_t node = fy_node_of_expr(body, s->expr);
    body->in_map = false;
    if (node == FY_NIL || !check_reads(body, s, node, target)) {
        return;
    }
    uint8_t type = front->nodes.row[node].type;
    if (type != FY_T_F64 && type != FY_T_I64 && type != FY_T_CHAR) {
        fy_error(front, s->expr->span, "a map's value must be a real number");
        return;
    }
    fy_check_device_result(body, s->span);
    if (body->map_row == FY_NIL) {
        struct fy_call_row row;
        memset(&row, 0, sizeof row);
        row.kind = FY_CALL_MAP;
        row.kernel = FY_NIL;
        (void)fy_add_call(body, &row, s->span);
        body->map_row = body->last_call;
        memset(body->map_of, 0xff, sizeof body->map_of); /* FY_NIL */
    }
    struct fy_call_row *row = &front->calls.row[body->map_row];
    body->map_of[o] = row->nargs;
    body->written[o] = true;
    row->to[row->nargs] = (uint8_t)o;
    row->args[row->nargs++] = node;
}

/* ---- after all statements ---- */

/* The last step has to leave behind all that the call writes. */
static void
check_all_written(struct fy_body *body)
{
    const struct fy_front *front = body->front;
    uint32_t index = body->unit->row.cuda_call;
    for (uint32_t i = index; i != FY_NIL; i = front->calls.row[i].next) {
        if (front->calls.row[i].kind != FY_CALL_MAP) {
            return; /* no later map or call reads its results */
        }
    }
    for (unsigned o = 0; o < body->noperands; o++) {
        const struct fy_operand_info *operand = &body->operands[o];
        if ((operand->row.access == FY_ACCESS_OUT ||
             operand->row.access == FY_ACCESS_INOUT) &&
            !body->written[o]) {
            fy_diagnostic_hint(
                fy_error(body->front, operand->ast->expr->span,
                         "no map says what the call writes to '%.*s'",
                         FY_MAX_QUOTED, operand->name),
                "write map %.*s = ...;", FY_MAX_QUOTED, operand->name);
        }
    }
}

void
fy_finish_maps(struct fy_body *body)
{
    const struct fy_front *front = body->front;
    const struct fy_function *function = &body->unit->row;
    bool any = false;
    if (body->infos > 1) {
        fy_error(body->front, body->unit->ast->span,
                 "only one step of '%.*s' can have info", FY_MAX_QUOTED,
                 body->unit->name);
    }
    for (unsigned i = 0; i < body->ntemps; i++) {
        if (!body->temps[i].used) {
            fy_diagnostic_hint(
                fy_warning(body->front, body->temps[i].span,
                           "'%.*s' is no operand, and no map uses it",
                           FY_MAX_QUOTED, body->temps[i].name),
                "a map of another name only names a value");
        }
    }
    for (uint32_t i = function->cuda_call; i != FY_NIL;
         i = front->calls.row[i].next) {
        const struct fy_call_row *row = &front->calls.row[i];
        for (uint32_t k = 0; row->kind == FY_CALL_MAP && k < row->nargs; k++) {
            const char *inexact = reads_of(body, row->args[k]).inexact;
            any = true;
            if (inexact && function->flags & FY_FN_EXACT) {
                fy_diagnostic_hint(
                    fy_error(body->front, body->unit->ast->span,
                             "'%.*s' cannot be exact: its map has '%s'",
                             FY_MAX_QUOTED, body->unit->name, inexact),
                    "say how large the error may be: error 2");
                return;
            }
        }
    }
    if (any) {
        check_all_written(body);
    }
}
