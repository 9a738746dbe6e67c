/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cells: the places a call offers to its expressions. An argument, its
 * target, a field of the struct it points to, or a cell of the call that made
 * the handle it is.
 */
#include "config.h"

#include <string.h>

#include "annotations/functions/compile.h"
#include "annotations/model/eval.h"

const char *
fy_path_text(struct fy_front *front, const struct fy_unit *unit,
             const struct ast_expr *path)
{
    const char *inner, *name;
    switch (path->kind) {
    case AST_NAME:
        return fy_expand(front, unit, path->name);
    case AST_ARROW:
    case AST_DOT:
        inner = fy_path_text(front, unit, path->a);
        name = fy_expand(front, unit, path->name);
        if (!inner || !name) {
            return NULL;
        }
        return fy_arena_print(&front->arena, "%s%s%s", inner,
                              path->kind == AST_DOT ? "." : "->", name);
    case AST_DEREF:
        inner = fy_path_text(front, unit, path->a);
        return inner ? fy_arena_print(&front->arena, "*%s", inner) : NULL;
    case AST_INDEX:
        inner = fy_path_text(front, unit, path->a);
        return inner ? fy_arena_print(&front->arena, "%s[%lld]", inner,
                                      (long long)path->integer)
                     : NULL;
    default:
        return NULL;
    }
}

static uint32_t
add_cell(struct fy_front *front, struct fy_unit *unit, struct fy_cell cell,
         struct fy_span span)
{
    for (size_t i = 0; i < unit->cells.count; i++) {
        const struct fy_cell *old = &unit->cells.row[i];
        if (old->arg == cell.arg && old->kind == cell.kind &&
            old->offset == cell.offset && old->type == cell.type) {
            return (uint32_t)i;
        }
    }
    if (unit->cells.count == FY_MAX_CELLS) {
        fy_error(front, span, "a function reads at most %d places",
                 FY_MAX_CELLS);
        return FY_NIL;
    }
    *FY_APPEND(&front->arena, &unit->cells) = cell;
    return (uint32_t)unit->cells.count - 1;
}

/* The argument at the root of a path, or NULL after an error. */
static struct fy_unit_arg *
root_arg(struct fy_front *front, struct fy_unit *unit,
         const struct ast_expr *expr)
{
    const char *name;
    if (expr->kind != AST_NAME) {
        fy_diagnostic_hint(
            fy_error(front, expr->span, "only an argument can be read here"),
            "one step from an argument: *n, n[1], a->size, plan.n0");
        return NULL;
    }
    name = fy_expand(front, unit, expr->name);
    if (!name) {
        return NULL;
    }
    struct fy_unit_arg *arg = fy_unit_find_arg(unit, name);
    if (!arg) {
        struct fy_suggestion suggestion = {.wanted = name};
        struct fy_diagnostic *diagnostic =
            fy_error(front, expr->span, "'%.*s' is not an argument of '%.*s'",
                     FY_MAX_QUOTED, name, FY_MAX_QUOTED, unit->name);
        for (uint16_t i = 0; i < unit->row.nargs; i++) {
            fy_suggestion_try(&suggestion, unit->args[i].name);
        }
        fy_diagnostic_suggest(diagnostic, &suggestion);
    }
    return arg;
}

static bool
is_scalar(uint8_t type)
{
    return type != FY_T_VOID && type != FY_T_POINTER && type != FY_T_HANDLE;
}

/* *n and n[k]. */
static uint32_t
element_cell(struct fy_front *front, struct fy_unit *unit,
             const struct ast_expr *path, int64_t element, const char *text)
{
    struct fy_unit_arg *arg = root_arg(front, unit, path->a);
    if (!arg) {
        return FY_NIL;
    }
    if (arg->resolved.is_reference) {
        fy_diagnostic_hint(fy_error(front, path->span,
                                    "'%.*s' is passed by reference",
                                    FY_MAX_QUOTED, arg->name),
                           "write it plainly: %.*s", FY_MAX_QUOTED, arg->name);
        return FY_NIL;
    }
    if (arg->resolved.type != FY_T_POINTER ||
        !is_scalar(arg->resolved.pointee)) {
        fy_error(front, path->span, "'%.*s' does not point to a scalar",
                 FY_MAX_QUOTED, arg->name);
        return FY_NIL;
    }
    if (element < 0 || element > 1024) {
        fy_error(front, path->span, "an element from 0 to 1024 can be read");
        return FY_NIL;
    }
    if (element > 0 && arg->resolved.pointee == FY_T_INTEGER) {
        fy_diagnostic_hint(fy_error(front, path->span,
                                    "elements of 'integer' have no fixed size"),
                           "only element 0 can be read");
        return FY_NIL;
    }
    arg->used = true;
    struct fy_cell cell = {.name = fy_intern(front, text)};
    cell.arg = (uint16_t)(arg - unit->args);
    cell.type = arg->resolved.pointee;
    cell.maker = FY_NIL;
    cell.kind = element == 0 ? FY_CELL_REFERENCE : FY_CELL_FIELD;
    cell.offset = (uint32_t)element * fy_type_bytes(cell.type, 32);
    if (element == 0) {
        arg->flags |= FY_ARG_REFERENCE;
    }
    return add_cell(front, unit, cell, path->span);
}

/* The argument and the field that a->field names; NULL after an error. */
static const struct fy_layout_field *
field_of_path(struct fy_front *front, struct fy_unit *unit,
              const struct ast_expr *path, struct fy_unit_arg **out)
{
    struct fy_unit_arg *arg = root_arg(front, unit, path->a);
    if (!arg) {
        return NULL;
    }
    const struct fy_layout *layout = arg->resolved.layout;
    if (arg->resolved.type != FY_T_POINTER || !layout) {
        struct fy_diagnostic *diagnostic =
            fy_error(front, path->span, "'%.*s' does not point to a struct",
                     FY_MAX_QUOTED, arg->name);
        if (arg->resolved.type == FY_T_HANDLE) {
            fy_diagnostic_hint(diagnostic,
                               "write %.*s.name for an argument of the call "
                               "that made it",
                               FY_MAX_QUOTED, arg->name);
        }
        return NULL;
    }
    const char *name = path->name.text;
    const struct fy_layout_field *field = fy_layout_field(arg, name);
    if (!field) {
        struct fy_suggestion suggestion = {.wanted = name};
        for (size_t i = 0; i < layout->nfields; i++) {
            fy_suggestion_try(&suggestion, layout->fields[i].name);
        }
        fy_diagnostic_suggest(fy_error(front, path->name.span,
                                       "struct '%.*s' has no field '%.*s'",
                                       FY_MAX_QUOTED, layout->ast->name.text,
                                       FY_MAX_QUOTED, name),
                              &suggestion);
    }
    *out = arg;
    return field;
}

static struct fy_cell
cell_of_field(struct fy_front *front, const struct fy_unit *unit,
              struct fy_unit_arg *arg, const struct fy_layout_field *field,
              const char *text)
{
    struct fy_cell cell = {.name = fy_intern(front, text)};
    arg->used = true;
    cell.arg = (uint16_t)(arg - unit->args);
    cell.kind = FY_CELL_FIELD;
    cell.type = field->type;
    cell.pointee = field->pointee;
    cell.offset = field->offset;
    cell.maker = FY_NIL;
    return cell;
}

/* a->field */
static uint32_t
field_cell(struct fy_front *front, struct fy_unit *unit,
           const struct ast_expr *path, const char *text)
{
    struct fy_unit_arg *arg;
    const struct fy_layout_field *field =
        field_of_path(front, unit, path, &arg);
    if (!field) {
        return FY_NIL;
    }
    if (field->is_array || field->type == FY_T_VOID) {
        fy_error(front, path->span,
                 "field '%.*s' is an array or a struct and cannot be read",
                 FY_MAX_QUOTED, field->name);
        return FY_NIL;
    }
    return add_cell(front, unit, cell_of_field(front, unit, arg, field, text),
                    path->span);
}

uint32_t
fy_cell_of_written_field(struct fy_front *front, struct fy_unit *unit,
                         const struct ast_expr *path, uint32_t *elements)
{
    const char *text = fy_path_text(front, unit, path);
    struct fy_unit_arg *arg;
    if (!text) {
        return FY_NIL;
    }
    if (path->kind != AST_ARROW) {
        fy_diagnostic_hint(fy_error(front, path->span,
                                    "'%.*s' needs its extents", FY_MAX_QUOTED,
                                    text),
                           "write %.*s[n]; only a field that is written stands "
                           "alone",
                           FY_MAX_QUOTED, text);
        return FY_NIL;
    }
    const struct fy_layout_field *field =
        field_of_path(front, unit, path, &arg);
    if (!field) {
        return FY_NIL;
    }
    if (field->has_pointer || !is_scalar(field->type)) {
        fy_diagnostic_hint(
            fy_error(front, path->span,
                     "field '%.*s' holds no numbers that could be written",
                     FY_MAX_QUOTED, field->name),
            field->type == FY_T_POINTER
                ? "write %.*s[n] for what it points to"
                : "a call that writes it cannot be annotated",
            FY_MAX_QUOTED, text);
        return FY_NIL;
    }
    struct fy_cell cell = cell_of_field(front, unit, arg, field, text);
    cell.kind = FY_CELL_ADDRESS;
    cell.type = FY_T_POINTER;
    cell.pointee = field->type;
    *elements = field->elements;
    return add_cell(front, unit, cell, path->span);
}

void
fy_cell_make_opaque(struct fy_front *front, struct fy_unit *unit,
                    const struct ast_expr *path)
{
    struct fy_unit_arg *arg;
    if (path->kind != AST_ARROW) {
        arg = root_arg(front, unit, path);
        if (arg) {
            arg->used = true;
            arg->flags |= FY_ARG_OPAQUE;
        }
        return;
    }
    const char *text = fy_path_text(front, unit, path);
    const struct fy_layout_field *field =
        field_of_path(front, unit, path, &arg);
    if (!field || !text) {
        return;
    }
    if (!field->has_pointer) {
        fy_error(front, path->span, "field '%.*s' is no pointer", FY_MAX_QUOTED,
                 field->name);
        return;
    }
    struct fy_cell cell = cell_of_field(front, unit, arg, field, text);
    cell.type = FY_T_POINTER; /* of several in it, the first */
    uint32_t index = add_cell(front, unit, cell, path->span);
    if (index != FY_NIL) {
        unit->cells.row[index].flags |= FY_CELL_OPAQUE;
    }
}

/* p.name: a cell of the maker, found by the same rules there. */
static uint32_t
handle_cell(struct fy_front *front, struct fy_unit *unit,
            const struct ast_expr *path, const struct ast_expr *handle,
            struct ast_expr inner, const char *text)
{
    struct fy_unit_arg *arg = root_arg(front, unit, handle);
    if (!arg) {
        return FY_NIL;
    }
    if (arg->resolved.type != FY_T_HANDLE) {
        struct fy_diagnostic *diagnostic =
            fy_error(front, path->span, "'%.*s' is not a handle", FY_MAX_QUOTED,
                     arg->name);
        if (arg->resolved.layout) {
            fy_diagnostic_hint(diagnostic, "write %.*s->name for a field",
                               FY_MAX_QUOTED, arg->name);
        }
        return FY_NIL;
    }
    if (arg->maker == FY_NIL) {
        if (!arg->from.text) {
            fy_diagnostic_hint(
                fy_error(front, path->span,
                         "it is not known which call made '%.*s'",
                         FY_MAX_QUOTED, arg->name),
                "write `%.*s from FUNCTION' in the head", FY_MAX_QUOTED,
                arg->name);
        }
        return FY_NIL;
    }
    struct fy_unit *maker = front->units.row[arg->maker];
    if (maker->result.type != FY_T_HANDLE ||
        strcmp(maker->result.handle, arg->resolved.handle) != 0) {
        fy_error(front, arg->from.span, "'%.*s' does not make a '%s'",
                 FY_MAX_QUOTED, maker->name, arg->resolved.handle);
        return FY_NIL;
    }
    uint32_t there = fy_cell_of_path(front, maker, &inner);
    if (there == FY_NIL) {
        return FY_NIL;
    }
    struct fy_cell cell = maker->cells.row[there];
    cell.name = fy_intern(front, text);
    cell.arg = (uint16_t)(arg - unit->args);
    cell.kind = FY_CELL_HANDLE;
    cell.offset = there;
    cell.maker = arg->maker;
    return add_cell(front, unit, cell, path->span);
}

static uint32_t
argument_cell(struct fy_front *front, struct fy_unit *unit,
              const struct ast_expr *path, const char *text)
{
    struct fy_unit_arg *arg = root_arg(front, unit, path);
    if (!arg) {
        return FY_NIL;
    }
    struct fy_cell cell = {.name = fy_intern(front, text)};
    cell.arg = (uint16_t)(arg - unit->args);
    cell.kind = arg->resolved.is_reference ? FY_CELL_REFERENCE : FY_CELL_VALUE;
    cell.type = arg->resolved.type;
    cell.pointee = arg->resolved.pointee;
    cell.maker = FY_NIL;
    return add_cell(front, unit, cell, path->span);
}

uint32_t
fy_cell_of_path(struct fy_front *front, struct fy_unit *unit,
                const struct ast_expr *path)
{
    const char *text = fy_path_text(front, unit, path);
    const struct ast_expr *a = path->a;
    struct ast_expr inner = *path;
    if (path->kind != AST_NAME && a && a->kind != AST_NAME &&
        a->kind != AST_DOT && a->kind != AST_ARROW) {
        (void)root_arg(front, unit, a); /* tells the readable cells */
        return FY_NIL;
    }
    if (!text || (path->kind != AST_NAME && !a)) {
        return FY_NIL;
    }
    switch (path->kind) {
    case AST_NAME:
        return argument_cell(front, unit, path, text);
    case AST_ARROW:
        return field_cell(front, unit, path, text);
    case AST_DOT: /* p.n: name n in the maker */
        inner.kind = AST_NAME;
        inner.a = NULL;
        return handle_cell(front, unit, path, a, inner, text);
    case AST_DEREF:
    case AST_INDEX: {
        int64_t element = path->kind == AST_INDEX ? path->integer : 0;
        if (a->kind != AST_DOT) {
            return element_cell(front, unit, path, element, text);
        }
        struct ast_expr name = *a; /* *p.n: *n in the maker */
        name.kind = AST_NAME;
        name.a = NULL;
        inner.a = &name;
        return handle_cell(front, unit, path, a->a, inner, text);
    }
    default:
        return FY_NIL;
    }
}
