/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The body of one function: its statements in order, then the checks that need
 * all of them.
 */
#include "config.h"

#include <string.h>

#include "annotations/functions/compile.h"

/* ---- statements ---- */

static void
let(struct fy_body *body, const struct ast_statement *s)
{
    struct fy_front *front = body->front;
    const char *name = fy_expand(front, body->unit, s->name);
    if (!name) {
        return;
    }
    bool taken =
        fy_unit_find_arg(body->unit, name) || fy_body_find_axis(body, name);
    for (unsigned i = 0; i < body->nlets; i++) {
        taken = taken || strcmp(body->lets[i].name, name) == 0;
    }
    if (taken) {
        fy_error(front, s->name.span, "'%.*s' is declared twice", FY_MAX_QUOTED,
                 name);
        return;
    }
    if (body->nlets == FY_MAX_LETS) {
        fy_error(front, s->span, "a function has at most %d lets", FY_MAX_LETS);
        return;
    }
    uint32_t node = fy_node_of_expr(body, s->expr);
    /* Kept after an error too: its uses are not unknown names. */
    body->lets[body->nlets].name = name;
    body->lets[body->nlets++].node = node;
    if (node == FY_NIL) {
        return;
    }
    *FY_APPEND(&front->arena, &front->lets) =
        (struct fy_let){.name = fy_intern(front, name), .node = node};
}

static void
require(struct fy_body *body, const struct ast_statement *s)
{
    struct fy_front *front = body->front;
    struct fy_require row;
    memset(&row, 0, sizeof row);
    row.reason = FY_REASON_BAD_ARGUMENTS;
    if (s->word.text && strcmp(s->word.text, "empty") == 0) {
        row.reason = FY_REASON_EMPTY;
    } else if (s->word.text && strcmp(s->word.text, "unsupported") == 0) {
        row.reason = FY_REASON_UNSUPPORTED;
    } else if (s->word.text && strcmp(s->word.text, "bad_arguments") != 0) {
        fy_diagnostic_hint(fy_error(front, s->word.span,
                                    "unknown reason '%.*s'", FY_MAX_QUOTED,
                                    s->word.text),
                           "write empty or unsupported");
    }
    if (body->nrequires == FY_MAX_REQUIRES) {
        fy_error(front, s->span, "a function has at most %d requires",
                 FY_MAX_REQUIRES);
        return;
    }
    uint32_t line, column;
    fy_span_position(s->span, &line, &column);
    row.node = fy_node_of_expr(body, s->expr);
    row.line = line;
    if (row.node == FY_NIL) {
        return;
    }
    body->nrequires++;
    *FY_APPEND(&front->arena, &front->requires) = row;
}

/* The thunk's compiler handles integer arithmetic over arguments only. */
static bool
is_cheap(const struct fy_node *node, void *state)
{
    const struct fy_body *body = state;
    if (node->op == FY_OP_CELL) {
        return (node->type == FY_T_I64 || node->type == FY_T_CHAR) &&
               (body->unit->cells.row[node->a].kind == FY_CELL_VALUE ||
                body->unit->cells.row[node->a].kind == FY_CELL_REFERENCE);
    }
    return node->op == FY_OP_INT || fy_operators[node->op].is_cheap;
}

static void
set_once(struct fy_body *body, const struct ast_statement *s, uint32_t *place,
         uint32_t node)
{
    if (*place != FY_NIL) {
        fy_error(body->front, s->span, "this statement stands here twice");
    }
    *place = node;
}

static void
worth(struct fy_body *body, const struct ast_statement *s)
{
    uint32_t node = fy_node_of_expr(body, s->expr);
    if (node != FY_NIL &&
        !fy_node_walk(body->front->nodes.row, node, is_cheap, body)) {
        fy_diagnostic_hint(
            fy_error(body->front, s->expr->span,
                     "`worth' must be integer arithmetic over arguments"),
            "integers, + - * comparisons && || ! ?: min max; it runs in every "
            "call");
        return;
    }
    set_once(body, s, &body->unit->row.worth, node);
}

static void
cost(struct fy_body *body, const struct ast_statement *s, uint32_t *place)
{
    uint32_t node = fy_node_of_expr(body, s->expr);
    uint8_t type =
        node == FY_NIL ? (uint8_t)FY_T_I64 : body->front->nodes.row[node].type;
    if (type != FY_T_I64 && type != FY_T_F64) {
        fy_error(body->front, s->expr->span, "this must be a number");
    }
    set_once(body, s, place, node);
}

/* `error exact', as the value of a family's row may say it, is `exact'. */
static void
error(struct fy_body *body, const struct ast_statement *s)
{
    if (s->expr->kind == AST_NAME && strcmp(s->expr->name.text, "exact") == 0) {
        body->unit->row.flags |= FY_FN_EXACT;
        return;
    }
    cost(body, s, &body->unit->row.error);
}

static void
on(struct fy_body *body, const struct ast_statement *s)
{
    struct fy_front *front = body->front;
    bool host = strcmp(s->name.text, "host") == 0;
    struct fy_call_row row;
    memset(&row, 0, sizeof row);
    if (!host && strcmp(s->name.text, "cuda") != 0) {
        fy_diagnostic_hint(fy_error(front, s->name.span,
                                    "unknown device '%.*s'", FY_MAX_QUOTED,
                                    s->name.text),
                           "write host or cuda");
        return;
    }
    if (s->file.text) {
        if (host) {
            fy_error(front, s->name.span, "a kernel runs on cuda");
        } else {
            fy_compile_kernel(body, s);
        }
        return;
    }
    const char *name = fy_expand(front, body->unit, s->word);
    if (!name) {
        return;
    }
    row.function = fy_intern(front, name);
    row.next = row.kernel = FY_NIL;
    body->in_call = true;
    body->on_device = !host;
    for (const struct ast_expr *e = s->expr->list; e; e = e->next) {
        if (row.nargs == FY_MAX_ARGS) {
            fy_error(front, e->span, "a call has at most %d arguments",
                     FY_MAX_ARGS);
            break;
        }
        row.args[row.nargs++] =
            host ? fy_node_of_expr(body, e) : fy_device_argument(body, e, &row);
    }
    body->in_call = body->on_device = false;
    if (!host) {
        fy_device_call_check(body, s, &row);
        (void)fy_add_call(body, &row, s->word.span);
        memset(body->written, true, sizeof body->written);
        return;
    }
    set_once(body, s, &body->unit->row.host_call, (uint32_t)front->calls.count);
    *FY_APPEND(&front->arena, &front->calls) = row;
}

static void
makes(struct fy_body *body, const struct ast_statement *s)
{
    const struct fy_unit *unit = body->unit;
    const struct fy_map *handles = &body->front->known.handles;
    const char *name = fy_expand(body->front, unit, s->name);
    struct fy_suggestion suggestion = {.wanted = name};
    if (!name) {
        return;
    }
    if (fy_map_find(handles, name)) {
        if (unit->result.type != FY_T_HANDLE ||
            strcmp(unit->result.handle, name) != 0) {
            fy_error(body->front, s->name.span,
                     "'%.*s' does not return a '%.*s'", FY_MAX_QUOTED,
                     unit->name, FY_MAX_QUOTED, name);
        }
        return;
    }
    fy_suggest_names(&suggestion, handles);
    fy_diagnostic_suggest(fy_error(body->front, s->name.span,
                                   "unknown handle '%.*s'", FY_MAX_QUOTED,
                                   name),
                          &suggestion);
}

static void
frees(struct fy_body *body, const struct ast_statement *s)
{
    struct fy_unit *unit = body->unit;
    const char *name = fy_expand(body->front, unit, s->names->name);
    if (!name) {
        return;
    }
    const struct fy_unit_arg *arg = fy_unit_find_arg(unit, name);
    if (!arg || arg != &unit->args[0] || s->names->next ||
        arg->resolved.type != FY_T_HANDLE) {
        fy_error(body->front, s->names->name.span,
                 "`frees' takes the first argument, a handle");
        return;
    }
    unit->row.flags |= FY_FN_FREES;
}

static void
ambiguous(struct fy_body *body, const struct ast_statement *s)
{
    for (const struct ast_names *n = s->names; n; n = n->next) {
        const char *name = fy_expand(body->front, body->unit, n->name);
        struct fy_operand_info *info =
            name ? fy_body_find_operand(body, name) : NULL;
        if (info && (info->row.access & FY_ACCESS_OUT)) {
            info->row.flags |= FY_OPERAND_AMBIGUOUS;
        } else if (name) {
            fy_diagnostic_hint(
                fy_error(body->front, n->name.span,
                         "'%.*s' is no operand that is written", FY_MAX_QUOTED,
                         name),
                "`ambiguous' stands behind `out' and `inout' operands");
        }
    }
}

static void
statement(struct fy_body *body, const struct ast_statement *s)
{
    struct fy_function *row = &body->unit->row;
    switch (s->kind) {
    case AST_LET:
        let(body, s);
        break;
    case AST_REQUIRE:
        require(body, s);
        break;
    case AST_AXIS:
        fy_compile_axis(body, s);
        break;
    case AST_OPERAND:
        fy_compile_operand(body, s);
        break;
    case AST_OPAQUE:
        for (const struct ast_expr *e = s->expr; e; e = e->next) {
            fy_cell_make_opaque(body->front, body->unit, e);
        }
        break;
    case AST_AMBIGUOUS:
        ambiguous(body, s);
        break;
    case AST_FLOPS:
        cost(body, s, &row->flops);
        break;
    case AST_WORTH:
        worth(body, s);
        break;
    case AST_ERROR:
        error(body, s);
        break;
    case AST_EXACT:
        row->flags |= FY_FN_EXACT;
        break;
    case AST_BLOCKED:
        fy_compile_blocked(body, s);
        break;
    case AST_ON:
        on(body, s);
        break;
    case AST_MAP:
        fy_compile_map(body, s);
        break;
    case AST_MAKES:
        makes(body, s);
        break;
    case AST_FREES:
        frees(body, s);
        break;
    default: /* ALSO: see fy_make_symbols() */
        break;
    }
}

/* ---- the whole ---- */

static void
nothing_said(struct fy_body *body, struct fy_span span, const char *what)
{
    fy_diagnostic_hint(
        fy_error(body->front, span, "nothing says what the call does with '%s'",
                 what),
        "declare it as an operand (in, out, inout, scratch), or `opaque %s'",
        what);
}

/* Returns true if an operand or `opaque' names the pointer in a struct. */
static bool
is_named(const struct fy_body *body, uint16_t arg, uint32_t offset)
{
    const struct fy_unit *unit = body->unit;
    for (size_t c = 0; c < unit->cells.count; c++) {
        const struct fy_cell *cell = &unit->cells.row[c];
        if (cell->kind != FY_CELL_FIELD || cell->arg != arg ||
            cell->offset != offset) {
            continue;
        }
        if (cell->flags & FY_CELL_OPAQUE) {
            return true;
        }
        for (unsigned o = 0; o < body->noperands; o++) {
            if (body->operands[o].row.base == c) {
                return true;
            }
        }
    }
    return false;
}

static void
check_fields(struct fy_body *body, uint16_t number)
{
    const struct fy_unit_arg *arg = &body->unit->args[number];
    const struct fy_layout *layout = arg->resolved.layout;
    if (!layout || arg->flags & FY_ARG_OPAQUE) {
        return;
    }
    for (size_t i = 0; i < layout->nfields; i++) {
        const struct fy_layout_field *field = &layout->fields[i];
        if (field->has_pointer && !is_named(body, number, field->offset)) {
            nothing_said(body, arg->span,
                         fy_arena_print(&body->front->arena, "%.*s->%.*s",
                                        FY_MAX_QUOTED, arg->name, FY_MAX_QUOTED,
                                        field->name));
        }
    }
}

static void
check_pointers(struct fy_body *body)
{
    const struct fy_unit *unit = body->unit;
    if (unit->row.flags & (FY_FN_MAKES | FY_FN_FREES)) {
        return; /* observed, never run elsewhere */
    }
    for (uint16_t i = 0; i < unit->row.nargs; i++) {
        const struct fy_unit_arg *arg = &unit->args[i];
        if (arg->resolved.type != FY_T_POINTER) {
            continue;
        }
        if (arg->used) {
            check_fields(body, i);
        } else {
            nothing_said(body, arg->span,
                         fy_arena_print(&body->front->arena, "%.*s",
                                        FY_MAX_QUOTED, arg->name));
        }
    }
}

/* Returns true if anything of a call is handed to the program. */
static bool
has_result(const struct fy_body *body)
{
    bool found = body->unit->result.type != FY_T_VOID;
    for (unsigned o = 0; o < body->noperands; o++) {
        const struct fy_operand *row = &body->operands[o].row;
        found =
            found || (row->access & FY_ACCESS_OUT) || row->returns != FY_NIL;
    }
    return found;
}

static void
emit_rows(struct fy_body *body)
{
    struct fy_front *front = body->front;
    struct fy_function *row = &body->unit->row;
    row->axes = (uint32_t)front->axes.count;
    row->naxes = (uint16_t)body->naxes;
    for (unsigned i = 0; i < body->naxes; i++) {
        *FY_APPEND(&front->arena, &front->axes) = body->axes[i].row;
    }
    row->operands = (uint32_t)front->operands.count;
    row->noperands = (uint16_t)body->noperands;
    for (unsigned i = 0; i < body->noperands; i++) {
        *FY_APPEND(&front->arena, &front->operands) = body->operands[i].row;
    }
    row->nlets = (uint16_t)(front->lets.count - row->lets);
    row->nrequires = (uint16_t)body->nrequires;
}

void
fy_compile_body(struct fy_front *front, uint32_t index)
{
    struct fy_unit *unit = front->units.row[index];
    struct fy_body *body = front->body;
    struct fy_function *row = &unit->row;
    unsigned errors = fy_diagnostics_errors(front->diagnostics);
    uint32_t line, column;
    bool inherited = false;
    /* A broken head, or the same text with another row: nothing new. */
    if (unit->failed || unit->ast->failed) {
        return;
    }
    memset(body, 0, sizeof *body);
    body->front = front;
    body->unit = unit;
    body->nodes_begin = (uint32_t)front->nodes.count;
    memset(body->heads, 0xff, sizeof body->heads); /* FY_NIL */
    fy_span_position(unit->ast->span, &line, &column);
    row->line = line;
    row->name = fy_intern(front, unit->name);
    row->family = fy_intern(front, unit->interface);
    row->file = fy_intern(front, unit->ast->span.source->name);
    row->doc = fy_intern(front, fy_expand_doc(front, unit, unit->ast->doc));
    row->return_type = unit->result.type;
    row->flops = row->worth = row->error = FY_NIL;
    row->host_call = row->cuda_call = FY_NIL;
    body->map_row = FY_NIL;
    row->lets = (uint32_t)front->lets.count;
    row->requires = (uint32_t)front->requires.count;
    if (unit->is_fortran) {
        row->flags |= FY_FN_FORTRAN;
    }
    if (unit->result.type == FY_T_HANDLE) {
        row->flags |= FY_FN_MAKES;
    }
    for (const struct ast_statement *s = unit->body;
         s && !fy_diagnostics_full(front->diagnostics); s = s->next) {
        statement(body, s);
        inherited =
            inherited || (s->is_inherited &&
                          fy_diagnostics_errors(front->diagnostics) > errors);
    }
    if (inherited) {
        fy_error(front, unit->ast->form_of->span,
                 "with these arguments '%.*s' is wrong", FY_MAX_QUOTED,
                 unit->ast->form_of->name.text);
    }
    if (fy_diagnostics_errors(front->diagnostics) == errors) {
        fy_finish_axes(body);
        fy_finish_maps(body);
    }
    if (fy_diagnostics_errors(front->diagnostics) > errors) {
        unit->ast->failed = true;
        return; /* a missing part would only be told again */
    }
    if (body->noperands == 0) {
        row->flags |= FY_FN_OBSERVE_ONLY;
    }
    if (body->noperands == 0 && !(row->flags & (FY_FN_MAKES | FY_FN_FREES))) {
        fy_diagnostic_hint(
            fy_warning(front, unit->ast->span,
                       "'%.*s' declares no operands and is never offloaded",
                       FY_MAX_QUOTED, unit->name),
            "in, out, inout or scratch say what memory it touches");
    }
    if (body->noperands > 0 && !has_result(body)) {
        row->flags |= FY_FN_OBSERVE_ONLY;
        fy_diagnostic_hint(
            fy_warning(front, unit->ast->span,
                       "'%.*s' returns nothing and writes no operand: it is "
                       "never offloaded",
                       FY_MAX_QUOTED, unit->name),
            "what it does is not declared, or nothing would come back");
    }
    check_pointers(body);
    emit_rows(body);
}
