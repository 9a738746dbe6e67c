/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A function's statements with other expressions in place of its arguments. Each kind of
 * part has its copy; their meaning is for the later phases, which know of no copies.
 */
#include "config.h"

#include "annotations/functions/form_copy.h"

#include <string.h>

void *
fy_copy_of(struct fy_arena *arena, const void *from, size_t bytes)
{
    return memcpy(fy_arena_alloc(arena, bytes), from, bytes);
}

/* ---- names ---- */

struct ast_name
fy_copy_name(const struct fy_form_copy *copy, struct ast_name name)
{
    if (name.text) {
        const char *text = fy_expand(copy->front, copy->target, name);
        name.text = text ? text : "";
    }
    return name;
}

/* Returns the expression that stands for an argument of the target; NULL:
 * the name is none. */
static const struct ast_expr *
given(const struct fy_form_copy *copy, const char *name)
{
    for (uint16_t i = 0; i < copy->target->row.nargs; i++) {
        if (strcmp(copy->target->args[i].name, name) == 0) {
            return copy->args[i];
        }
    }
    return NULL;
}

static bool
names_axis(const struct fy_form_copy *copy, const char *name)
{
    for (const struct ast_statement *s = copy->target->body; s; s = s->next) {
        for (const struct ast_axis *a = s->axes; a; a = a->next) {
            const char *text = fy_expand(copy->front, copy->target, a->name);
            if (text && strcmp(text, name) == 0) {
                return true;
            }
        }
    }
    return false;
}

/* An axis that is named after an argument takes the name of the one given for it. */
static struct ast_name
axis_name(const struct fy_form_copy *copy, struct ast_name name)
{
    name = fy_copy_name(copy, name);
    const struct ast_expr *by = given(copy, name.text);
    return by && by->kind == AST_NAME ? by->name : name;
}

/* A name in a list: of an argument, it is replaced by the given one. */
static struct ast_names *
copy_names(const struct fy_form_copy *copy, const struct ast_names *list)
{
    struct ast_names *first = NULL, **end = &first;
    for (; list; list = list->next) {
        struct ast_names *item = FY_COPY(ast_names, list);
        item->name = fy_copy_name(copy, item->name);
        const struct ast_expr *by = given(copy, item->name.text);
        const char *text =
            by ? fy_path_text(copy->front, copy->form, by) : NULL;
        item->name.text = text ? text : item->name.text;
        *end = item;
        end = &item->next;
    }
    return first;
}

/* ---- expressions ---- */

static struct ast_expr *copy_list(struct fy_form_copy *copy,
                                  const struct ast_expr *list);

static struct ast_expr *
copy_value(struct fy_form_copy *copy, const struct ast_expr *expr,
           const struct ast_expr *value)
{
    if (copy->in_value) {
        fy_error(copy->front, expr->span,
                 "a value of a row cannot mention another");
        struct ast_expr *nothing = FY_COPY(ast_expr, expr);
        nothing->kind = AST_INT;
        nothing->next = NULL;
        return nothing;
    }
    copy->in_value = true;
    struct ast_expr *result = fy_copy_expr(copy, value);
    copy->in_value = false;
    return result;
}

static struct ast_expr *
copy_name(struct fy_form_copy *copy, const struct ast_expr *expr)
{
    const struct ast_expr *value =
        fy_value_of_row(copy->front, copy->target, expr->name);
    if (value) {
        return copy_value(copy, expr, value);
    }
    struct ast_expr *result = FY_COPY(ast_expr, expr);
    result->name = fy_copy_name(copy, expr->name);
    const struct ast_expr *by = given(copy, result->name.text);
    if (by && !(copy->on_device && fy_is_device_word(result->name.text)) &&
        !(copy->in_where && by->kind != AST_NAME &&
          names_axis(copy, result->name.text))) {
        result = FY_COPY(ast_expr, by);
    }
    result->next = NULL;
    return result;
}

struct ast_expr *
fy_copy_expr(struct fy_form_copy *copy, const struct ast_expr *expr)
{
    if (!expr || expr->kind == AST_NAME) {
        return expr ? copy_name(copy, expr) : NULL;
    }
    struct ast_expr *result = FY_COPY(ast_expr, expr);
    result->name = fy_copy_name(copy, expr->name);
    result->a = fy_copy_expr(copy, expr->a);
    result->b = fy_copy_expr(copy, expr->b);
    result->c = fy_copy_expr(copy, expr->c);
    result->list = copy_list(copy, expr->list);
    result->next = NULL;
    return result;
}

static struct ast_expr *
copy_list(struct fy_form_copy *copy, const struct ast_expr *list)
{
    struct ast_expr *first = NULL, **end = &first;
    for (; list; list = list->next) {
        *end = fy_copy_expr(copy, list);
        end = &(*end)->next;
    }
    return first;
}

/* ---- statements ---- */

static struct ast_axis *
copy_axes(struct fy_form_copy *copy, const struct ast_axis *list)
{
    struct ast_axis *first = NULL, **end = &first;
    for (; list; list = list->next) {
        struct ast_axis *axis = FY_COPY(ast_axis, list);
        axis->name = axis_name(copy, list->name);
        const struct ast_expr *by =
            given(copy, fy_copy_name(copy, list->name).text);
        if (list->extent) {
            axis->extent = fy_copy_expr(copy, list->extent);
        } else if (by && by->kind != AST_NAME) {
            axis->extent = FY_COPY(ast_expr, by);
        }
        *end = axis;
        end = &axis->next;
    }
    return first;
}

static struct ast_dimension *
copy_dimensions(struct fy_form_copy *copy, const struct ast_dimension *list)
{
    struct ast_dimension *first = NULL, **end = &first;
    for (; list; list = list->next) {
        struct ast_dimension *dimension = FY_COPY(ast_dimension, list);
        copy->in_where = list->axis->kind == AST_NAME;
        dimension->axis = fy_copy_expr(copy, list->axis);
        copy->in_where = false;
        dimension->stride = fy_copy_expr(copy, list->stride);
        *end = dimension;
        end = &dimension->next;
    }
    return first;
}

static struct ast_clause *
copy_clauses(struct fy_form_copy *copy, const struct ast_clause *list)
{
    struct ast_clause *first = NULL, **end = &first;
    for (; list; list = list->next) {
        struct ast_clause *clause = FY_COPY(ast_clause, list);
        clause->name = fy_copy_name(copy, list->name);
        copy->in_where = list->kind == AST_WHERE;
        clause->expr = fy_copy_expr(copy, list->expr);
        copy->in_where = false;
        clause->target = list->kind == AST_AXIS_ALSO
                             ? copy_list(copy, list->target)
                             : fy_copy_expr(copy, list->target);
        clause->with = fy_copy_expr(copy, list->with);
        *end = clause;
        end = &clause->next;
    }
    return first;
}

/* The operand of a plan is no pointer of the form: nothing is said of it. */
static struct ast_expr *
copy_opaque(struct fy_form_copy *copy, const struct ast_expr *list)
{
    struct ast_expr *copied = copy_list(copy, list), **end = &copied;
    while (*end) {
        if ((*end)->kind == AST_DOT && copy->form != copy->target) {
            *end = (*end)->next;
        } else {
            end = &(*end)->next;
        }
    }
    return copied;
}

struct ast_statement *
fy_copy_statement(struct fy_form_copy *copy, const struct ast_statement *s)
{
    if (s->kind == AST_ALSO) {
        return NULL;
    }
    struct ast_statement *result = FY_COPY(ast_statement, s);
    result->name = fy_copy_name(copy, s->name);
    result->word = fy_copy_name(copy, s->word);
    result->base = fy_copy_expr(copy, s->base);
    result->axes = copy_axes(copy, s->axes);
    result->dimensions = copy_dimensions(copy, s->dimensions);
    result->clauses = copy_clauses(copy, s->clauses);
    result->names = copy_names(copy, s->names);
    result->next = NULL;
    result->is_inherited = copy->form != copy->target;
    copy->on_device = s->kind == AST_ON && strcmp(s->name.text, "cuda") == 0;
    result->expr = s->kind == AST_OPAQUE ? copy_opaque(copy, s->expr)
                                         : fy_copy_expr(copy, s->expr);
    result->launch = copy_list(copy, s->launch);
    copy->on_device = false;
    return s->kind == AST_OPAQUE && !result->expr ? NULL : result;
}
