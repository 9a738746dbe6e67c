/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Axes: their extents, allowed splits, and parts of sums. The
 * checks at the end ask of every split axis that a chunk of it is a call the
 * original understands: its extent in an argument, its results in one place.
 */
#include "config.h"

#include <string.h>

#include "annotations/functions/compile.h"

struct fy_axis_info *
fy_body_find_axis(struct fy_body *body, const char *name)
{
    for (unsigned i = 0; i < body->naxes; i++) {
        if (!body->axes[i].anonymous && strcmp(body->axes[i].name, name) == 0) {
            return &body->axes[i];
        }
    }
    return NULL;
}

/* Returns true if a device has a call of its own, which does not go by the
 * handle. */
static bool
has_device_call(const struct fy_body *body)
{
    for (const struct ast_statement *s = body->unit->body; s; s = s->next) {
        if (s->kind == AST_ON && strcmp(s->name.text, "cuda") == 0) {
            return true;
        }
    }
    return false;
}

static bool
all_cells(const struct fy_body *body, uint32_t node, uint32_t *cell,
          bool *several)
{
    const struct fy_node *n = &body->front->nodes.row[node];
    if (n->op == FY_OP_CELL) {
        if (body->unit->cells.row[n->a].kind == FY_CELL_HANDLE &&
            !has_device_call(body)) {
            return false; /* a call that is over cannot be changed */
        }
        *several = *several || (*cell != FY_NIL && *cell != n->a);
        *cell = n->a;
        return true;
    }
    return n->op == FY_OP_COND && all_cells(body, n->b, cell, several) &&
           all_cells(body, n->c, cell, several);
}

/* Returns true if the node is a bare cell in every branch of its
 * conditionals; *cell gets it if there is only one, else FY_NIL. */
static bool
is_cells(const struct fy_body *body, uint32_t node, uint32_t *cell)
{
    bool several = false;
    *cell = FY_NIL;
    if (!all_cells(body, node, cell, &several)) {
        *cell = FY_NIL;
        return false;
    }
    if (several) {
        *cell = FY_NIL;
    }
    return true;
}

/* The extent of one axis of the statement, or FY_NIL after an error. */
static uint32_t
extent_node(struct fy_body *body, const struct ast_axis *ast, const char *name)
{
    struct ast_expr bare = {.kind = AST_NAME,
                            .depth = 1,
                            .name = ast->name,
                            .span = ast->name.span};
    bool is_arg = fy_unit_find_arg(body->unit, name);
    if (!ast->extent && !is_arg) {
        /* Expressions may find a let; then the axis has that extent. */
        bool is_let = false;
        for (unsigned i = 0; i < body->nlets; i++) {
            is_let = is_let || strcmp(body->lets[i].name, name) == 0;
        }
        if (!is_let) {
            struct fy_suggestion suggestion = {.wanted = name};
            struct fy_diagnostic *diagnostic =
                fy_error(body->front, ast->name.span,
                         "axis '%.*s' is no argument and has no extent",
                         FY_MAX_QUOTED, name);
            for (uint16_t i = 0; i < body->unit->row.nargs; i++) {
                fy_suggestion_try(&suggestion, body->unit->args[i].name);
            }
            fy_diagnostic_suggest(diagnostic, &suggestion);
            fy_diagnostic_hint(diagnostic, "write axis %.*s = EXTENT",
                               FY_MAX_QUOTED, name);
            return FY_NIL;
        }
    }
    body->in_axis_extent = true;
    uint32_t node = fy_node_of_integer(body, ast->extent ? ast->extent : &bare);
    body->in_axis_extent = false;
    if (node != FY_NIL && ast->extent && is_arg) {
        const struct fy_node *n = &body->front->nodes.row[node];
        const struct fy_unit_arg *arg = fy_unit_find_arg(body->unit, name);
        if (n->op != FY_OP_CELL ||
            body->unit->cells.row[n->a].arg != arg - body->unit->args) {
            fy_diagnostic_hint(
                fy_error(body->front, ast->name.span,
                         "axis '%.*s' has the name of an argument and another "
                         "extent",
                         FY_MAX_QUOTED, name),
                "give the axis a name of its own");
            return FY_NIL;
        }
    }
    return node;
}

static void
axis_clause(struct fy_body *body, struct fy_axis_info *axis,
            const struct ast_clause *clause)
{
    struct fy_front *front = body->front;
    switch (clause->kind) {
    case AST_SPLIT:
        axis->row.flags |= FY_AXIS_SPLIT;
        break;
    case AST_MULTIPLE:
        if (clause->expr->kind != AST_INT || clause->expr->integer < 1 ||
            clause->expr->integer > (1 << 20)) {
            fy_error(front, clause->expr->span,
                     "`multiple' takes an integer from 1 to %d", 1 << 20);
        } else {
            axis->row.multiple = (uint32_t)clause->expr->integer;
        }
        break;
    case AST_SUMS_INTO:
    case AST_COMBINES:
        if (axis->row.flags & (FY_AXIS_SUMS | FY_AXIS_RETURN)) {
            fy_error(front, clause->span, "an axis sums into one place, once");
        }
        axis->row.flags |= clause->kind == AST_COMBINES || !clause->target
                               ? FY_AXIS_RETURN
                               : FY_AXIS_SUMS;
        break;
    default:
        break;
    }
}

/* More places with the same extent: a chunk must replace all of them. */
static void
also_cells(struct fy_body *body, struct fy_axis_info *axis,
           const struct ast_clause *clause, bool several)
{
    struct fy_front *front = body->front;
    unsigned count = 0;
    while (count < FY_MAX_ALSO && axis->row.also[count] != FY_NIL) {
        count++;
    }
    if (several) {
        fy_error(front, clause->span,
                 "`also' needs an axis statement of its own");
    }
    for (const struct ast_expr *e = clause->target; e; e = e->next) {
        uint32_t cell = fy_cell_of_path(front, body->unit, e);
        if (cell == FY_NIL) {
            return;
        }
        const struct fy_cell *c = &body->unit->cells.row[cell];
        if (!fy_is_integer_type(c->type) || c->kind == FY_CELL_HANDLE) {
            fy_error(front, e->span,
                     "an extent must be an integer that a chunk can replace");
            return;
        }
        if (count == FY_MAX_ALSO) {
            fy_error(front, e->span, "an axis has at most %d further extents",
                     FY_MAX_ALSO);
            return;
        }
        axis->row.also[count++] = cell;
    }
}

void
fy_compile_axis(struct fy_body *body, const struct ast_statement *statement)
{
    struct fy_front *front = body->front;
    for (const struct ast_axis *a = statement->axes; a; a = a->next) {
        const char *name = fy_expand(front, body->unit, a->name);
        if (!name) {
            continue;
        }
        if (fy_body_find_axis(body, name)) {
            fy_error(front, a->name.span, "axis '%.*s' is declared twice",
                     FY_MAX_QUOTED, name);
            continue;
        }
        if (body->naxes == FY_MAX_AXES) {
            fy_error(front, a->name.span,
                     "a function has at most %d axes, unnamed ones included",
                     FY_MAX_AXES);
            return;
        }
        struct fy_axis_info axis = {
            .name = name, .span = a->name.span, .clauses = statement->clauses};
        axis.row.name = fy_intern(front, name);
        axis.row.multiple = 1;
        axis.row.cell = axis.row.sums_into = FY_NIL;
        axis.row.with_cell = axis.row.with_node = FY_NIL;
        axis.row.extent = extent_node(body, a, name);
        if (axis.row.extent != FY_NIL) {
            (void)is_cells(body, axis.row.extent, &axis.row.cell);
        }
        memset(axis.row.also, 0xff, sizeof axis.row.also); /* FY_NIL */
        for (const struct ast_clause *c = statement->clauses; c; c = c->next) {
            axis_clause(body, &axis, c);
            if (c->kind == AST_AXIS_ALSO) {
                also_cells(body, &axis, c, statement->axes->next);
            }
        }
        body->axes[body->naxes++] = axis;
    }
}

/* ---- when all operands are known ---- */

static bool
spans(const struct fy_operand_info *operand, unsigned axis)
{
    for (unsigned i = 0; i < operand->row.naxes; i++) {
        if (operand->row.axes[i].axis == axis) {
            return true;
        }
    }
    return false;
}

static void
sum_into_operand(struct fy_body *body, struct fy_axis_info *axis,
                 const struct ast_clause *clause)
{
    struct fy_front *front = body->front;
    const char *name = fy_path_text(front, body->unit, clause->target);
    struct fy_operand_info *operand =
        name ? fy_body_find_operand(body, name) : NULL;
    if (!operand) {
        struct fy_suggestion suggestion = {.wanted = name ? name : ""};
        struct fy_diagnostic *diagnostic =
            fy_error(front, clause->target->span, "'%.*s' is no operand",
                     FY_MAX_QUOTED, name ? name : "");
        for (unsigned i = 0; i < body->noperands; i++) {
            fy_suggestion_try(&suggestion, body->operands[i].name);
        }
        fy_diagnostic_suggest(diagnostic, &suggestion);
        return;
    }
    if (spans(operand, (unsigned)(axis - body->axes))) {
        fy_error(front, clause->target->span,
                 "'%.*s' spans axis '%.*s': nothing is summed", FY_MAX_QUOTED,
                 name, FY_MAX_QUOTED, axis->name);
        return;
    }
    if (operand->row.access != FY_ACCESS_INOUT) {
        fy_diagnostic_hint(fy_error(front, clause->target->span,
                                    "'%.*s' must be inout to be summed into",
                                    FY_MAX_QUOTED, name),
                           "later chunks read what earlier ones wrote; "
                           "`out when' says when the first one does not");
        return;
    }
    axis->row.sums_into = (uint32_t)(operand - body->operands);
    if (!clause->with) {
        return;
    }
    uint32_t cell = fy_cell_of_path(front, body->unit, clause->with);
    axis->row.with_node = fy_node_of_expr(body, clause->expr);
    if (cell == FY_NIL || axis->row.with_node == FY_NIL) {
        return;
    }
    uint8_t type = body->unit->cells.row[cell].type;
    uint8_t kind = body->unit->cells.row[cell].kind;
    if (type == FY_T_POINTER || type == FY_T_HANDLE ||
        (kind != FY_CELL_VALUE && kind != FY_CELL_REFERENCE)) {
        fy_diagnostic_hint(fy_error(front, clause->with->span,
                                    "only a scalar argument can be replaced"),
                           "as in `with beta = 1'");
        return;
    }
    axis->row.with_cell = cell;
}

static void
return_rule(struct fy_body *body, const struct ast_clause *clause)
{
    static const struct {
        const char *name;
        uint8_t rule;
    } rules[] = {{"hypot", FY_RETURN_HYPOT},
                 {"max", FY_RETURN_MAX},
                 {"min", FY_RETURN_MIN}};
    struct fy_front *front = body->front;
    uint8_t rule = FY_RETURN_SUM, type = body->unit->result.type;
    if (clause->kind == AST_COMBINES) {
        struct fy_suggestion suggestion = {.wanted = clause->name.text};
        rule = FY_RETURN_PLAIN;
        for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
            fy_suggestion_try(&suggestion, rules[i].name);
            if (strcmp(clause->name.text, rules[i].name) == 0) {
                rule = rules[i].rule;
            }
        }
        if (rule == FY_RETURN_PLAIN) {
            struct fy_diagnostic *diagnostic =
                fy_error(front, clause->name.span, "unknown combination '%.*s'",
                         FY_MAX_QUOTED, clause->name.text);
            fy_diagnostic_suggest(diagnostic, &suggestion);
            fy_diagnostic_hint(diagnostic, "hypot, max or min");
            return;
        }
    }
    if (type == FY_T_VOID || type == FY_T_POINTER || type == FY_T_HANDLE) {
        fy_error(front, clause->span, "'%.*s' returns no number", FY_MAX_QUOTED,
                 body->unit->name);
        return;
    }
    if (body->unit->row.return_rule != FY_RETURN_PLAIN &&
        body->unit->row.return_rule != rule) {
        fy_error(front, clause->span,
                 "the return value is combined in two ways");
        return;
    }
    body->unit->row.return_rule = rule;
}

static bool
is_one_element(const struct fy_body *body,
               const struct fy_operand_info *operand)
{
    for (unsigned i = 0; i < operand->row.naxes; i++) {
        uint32_t extent = body->axes[operand->row.axes[i].axis].row.extent;
        const struct fy_node *node;
        if (extent == FY_NIL) {
            return true;
        }
        node = &body->front->nodes.row[extent];
        if (node->op != FY_OP_INT || node->u.i != 1) {
            return false;
        }
    }
    return true;
}

/* Operands that every chunk of a split axis writes whole. */
static void
check_written(struct fy_body *body, unsigned axis)
{
    const struct fy_axis_info *info = &body->axes[axis];
    for (unsigned i = 0; i < body->noperands; i++) {
        const struct fy_operand_info *operand = &body->operands[i];
        if (operand->row.access == FY_ACCESS_IN ||
            operand->row.access == FY_ACCESS_SCRATCH || spans(operand, axis) ||
            info->row.sums_into == i) {
            continue;
        }
        if (operand->row.access == FY_ACCESS_INOUT) {
            fy_diagnostic_hint(
                fy_error(body->front, operand->ast->expr->span,
                         "every chunk of axis '%.*s' updates the whole of "
                         "'%.*s'",
                         FY_MAX_QUOTED, info->name, FY_MAX_QUOTED,
                         operand->name),
                "say `sums into %.*s', or do not split '%.*s'", FY_MAX_QUOTED,
                operand->name, FY_MAX_QUOTED, info->name);
        } else if (body->unit->cells.row[operand->row.base].kind ==
                       FY_CELL_ADDRESS ||
                   !is_one_element(body, operand)) {
            fy_diagnostic_hint(
                fy_warning(body->front, operand->ast->expr->span,
                           "every chunk of axis '%.*s' writes the whole of "
                           "'%.*s'",
                           FY_MAX_QUOTED, info->name, FY_MAX_QUOTED,
                           operand->name),
                "that is right only when each of them writes the same");
        }
    }
}

void
fy_finish_axes(struct fy_body *body)
{
    struct fy_front *front = body->front;
    for (unsigned i = 0; i < body->naxes; i++) {
        struct fy_axis_info *axis = &body->axes[i];
        uint32_t cell;
        for (const struct ast_clause *c = axis->clauses; c; c = c->next) {
            if (c->kind == AST_SUMS_INTO && c->target) {
                sum_into_operand(body, axis, c);
            } else if (c->kind == AST_SUMS_INTO || c->kind == AST_COMBINES) {
                return_rule(body, c);
            }
        }
        if (!(axis->row.flags & FY_AXIS_SPLIT)) {
            if (axis->row.flags & (FY_AXIS_SUMS | FY_AXIS_RETURN)) {
                fy_diagnostic_hint(
                    fy_error(front, axis->span,
                             "axis '%.*s' sums, but is not split",
                             FY_MAX_QUOTED, axis->name),
                    "write axis %.*s split sums into ...", FY_MAX_QUOTED,
                    axis->name);
            }
            continue;
        }
        if (axis->row.extent == FY_NIL) {
            continue;
        }
        if (!is_cells(body, axis->row.extent, &cell)) {
            fy_diagnostic_hint(
                fy_error(front, axis->span,
                         "axis '%.*s' cannot be split: its extent is no "
                         "argument",
                         FY_MAX_QUOTED, axis->name),
                "a chunk is made by passing a smaller extent: it must be an "
                "argument, or one in each branch of ?:");
        }
        if (!axis->spanned) {
            fy_warning(front, axis->span,
                       "split axis '%.*s' is spanned by no operand",
                       FY_MAX_QUOTED, axis->name);
        }
        if (body->unit->result.type != FY_T_VOID &&
            !(axis->row.flags & FY_AXIS_RETURN)) {
            fy_diagnostic_hint(
                fy_warning(front, axis->span,
                           "axis '%.*s' is never split: '%.*s' returns a value",
                           FY_MAX_QUOTED, axis->name, FY_MAX_QUOTED,
                           body->unit->name),
                "say how those of the chunks make one: sums, or combines max, "
                "min or hypot, into return");
        }
        check_written(body, i);
    }
}
