/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heads: one unit for every function and row of the families it mentions, its
 * arguments, and the symbols it has.
 */
#include "config.h"

#include <ctype.h>
#include <string.h>

#include "annotations/functions/compile.h"

/* Adds the family that <text> of `length' mentions, if it does. */
static void
mention(struct fy_front *front, const struct ast_function *function,
        const char *text, size_t length, unsigned *count,
        struct fy_family_info **found)
{
    const char *colon = memchr(text, ':', length);
    if (!colon &&
        fy_is_fixed_placeholder(fy_arena_text(&front->arena, text, length))) {
        return; /* <R> is no capital of a family r */
    }
    if (colon) {
        length -= (size_t)(colon + 1 - text);
        text = colon + 1;
    }
    const char *name = fy_arena_text(&front->arena, text, length);
    const struct fy_map_entry *entry =
        fy_map_find(&front->known.families, name);
    if (!entry && !colon) {
        entry = fy_map_find(&front->known.family_uppers, name);
    }
    if (!entry) {
        return;
    }
    struct fy_family_info *info = &front->family_rows[entry->value];
    for (unsigned k = 0; k < *count; k++) {
        if (found[k] == info) {
            return;
        }
    }
    if (*count == FY_MAX_FUNCTION_FAMILIES) {
        fy_error(front, function->span,
                 "a function mentions at most %d families",
                 FY_MAX_FUNCTION_FAMILIES);
    } else {
        found[(*count)++] = info;
    }
}

/* The families whose placeholders stand in the text of a function. */
static unsigned
mentioned_families(struct fy_front *front, const struct ast_function *function,
                   struct fy_family_info **found)
{
    const char *text = function->whole.source->text;
    unsigned count = 0;
    for (uint32_t i = function->whole.begin; i < function->whole.end; i++) {
        if (text[i] == '#') {
            while (i < function->whole.end && text[i] != '\n') {
                i++;
            }
        } else if (text[i] == '<') {
            uint32_t end = i + 1;
            while (isalnum((unsigned char)text[end]) || text[end] == '_' ||
                   text[end] == ':') {
                end++;
            }
            if (text[end] == '>' && end - i <= FY_MAX_NAME_BYTES) {
                mention(front, function, text + i + 1, end - i - 1, &count,
                        found);
            }
        }
    }
    return count;
}

struct fy_unit_arg *
fy_unit_find_arg(struct fy_unit *unit, const char *name)
{
    for (uint16_t i = 0; i < unit->row.nargs; i++) {
        if (strcmp(unit->args[i].name, name) == 0) {
            return &unit->args[i];
        }
    }
    return NULL;
}

/* ---- one unit ---- */

/* -1 after an error. */
static int
make_arg(struct fy_front *front, struct fy_unit *unit,
         const struct ast_declaration *ast)
{
    struct fy_unit_arg arg = {.span = ast->span, .maker = FY_NIL};
    unsigned stars = ast->stars + (ast->elements >= 0 ? 1 : 0);
    if (!ast->name.text) {
        fy_diagnostic_hint(
            fy_error(front, ast->span, "an argument needs a type and a name"),
            "conditions refer to arguments by name");
        return -1;
    }
    arg.name = fy_expand(front, unit, ast->name);
    if (!arg.name || fy_resolve_type(front, unit, ast->words, stars,
                                     ast->is_reference, &arg.resolved)) {
        return -1;
    }
    arg.span = ast->name.span;
    arg.from = ast->from;
    if (fy_unit_find_arg(unit, arg.name)) {
        fy_error(front, ast->name.span, "argument '%.*s' is declared twice",
                 FY_MAX_QUOTED, arg.name);
        return -1;
    }
    uint8_t type = arg.resolved.type, pointee = arg.resolved.pointee;
    if (type == FY_T_VOID) {
        fy_error(front, ast->span, "argument '%.*s' cannot be void",
                 FY_MAX_QUOTED, arg.name);
        return -1;
    }
    if (arg.resolved.is_reference && type == FY_T_HANDLE) {
        fy_error(front, ast->span, "a handle cannot be passed by reference");
        return -1;
    }
    if (arg.from.text && type != FY_T_HANDLE) {
        fy_error(front, arg.from.span, "only a handle comes `from' a call");
        return -1;
    }
    if (unit->is_fortran && type != FY_T_POINTER && type != FY_T_HANDLE) {
        arg.resolved.is_reference = true;
    }
    if (unit->is_fortran &&
        (type == FY_T_CHAR || (type == FY_T_POINTER && pointee == FY_T_CHAR))) {
        arg.flags |= FY_ARG_HIDDEN_LENGTH;
    }
    if (arg.resolved.is_reference) {
        arg.flags |= FY_ARG_REFERENCE;
    }
    if (arg.resolved.is_const) {
        arg.flags |= FY_ARG_CONST;
    }
    if (type == FY_T_INTEGER || pointee == FY_T_INTEGER) {
        unit->uses_integer = true;
    }
    unit->args[unit->row.nargs++] = arg;
    return 0;
}

static void
make_args(struct fy_front *front, struct fy_unit *unit)
{
    const struct ast_declaration *list = unit->ast->args;
    size_t count = 0;
    if (list && !list->next && !list->name.text && list->stars == 0 &&
        list->words && !list->words->next &&
        strcmp(list->words->name.text, "void") == 0) {
        list = NULL; /* f(void) */
    }
    for (const struct ast_declaration *a = list; a; a = a->next) {
        if (++count > FY_MAX_ARGS) {
            fy_error(front, a->span, "a function has at most %d arguments",
                     FY_MAX_ARGS);
            unit->failed = true;
            return;
        }
    }
    unit->args = fy_arena_array(&front->arena, count, sizeof *unit->args);
    for (const struct ast_declaration *a = list; a; a = a->next) {
        if (make_arg(front, unit, a)) {
            unit->failed = true;
        }
    }
}

/* Takes the interface off the head's words; returns those of the type. */
static const struct ast_names *
take_interface(struct fy_front *front, struct fy_unit *unit)
{
    const struct ast_names *words = unit->ast->head->words;
    const char *first = words->name.text;
    bool is_fortran = strcmp(first, "fortran") == 0;
    unit->interface = "c";
    if (!is_fortran && !fy_map_find(&front->known.interfaces, first)) {
        if (words->next && !fy_is_type_word(front, first)) {
            struct fy_suggestion suggestion = {.wanted = first};
            struct fy_diagnostic *diagnostic =
                fy_error(front, words->name.span,
                         "'%.*s' is neither a type nor an interface",
                         FY_MAX_QUOTED, first);
            fy_suggestion_try(&suggestion, "fortran");
            fy_suggest_names(&suggestion, &front->known.interfaces);
            fy_diagnostic_suggest(diagnostic, &suggestion);
            fy_diagnostic_hint(diagnostic,
                               "an interface is declared by `spelling'");
            return NULL;
        }
        return words;
    }
    unit->interface = first;
    unit->has_interface = true;
    unit->is_fortran = is_fortran;
    if (!fy_map_find(&front->known.interfaces, first)) {
        fy_diagnostic_hint(fy_error(front, words->name.span,
                                    "interface '%s' has no spelling", first),
                           "import \"types.ferry\" or declare one: spelling "
                           "fortran integer any: \"<name>_\";");
    }
    return words->next;
}

static void
make_unit(struct fy_front *front, struct ast_function *function,
          struct fy_family_info **families, const unsigned *rows,
          unsigned nfamilies)
{
    if (front->units.count >= FY_MAX_FUNCTIONS) {
        if (!front->too_many) {
            fy_error(front, function->span,
                     "more than %d functions, families expanded",
                     FY_MAX_FUNCTIONS);
        }
        front->too_many = true;
        return;
    }
    struct fy_unit *unit = fy_arena_alloc(&front->arena, sizeof *unit);
    unit->ast = function;
    unit->body = function->body;
    for (unsigned i = 0; i < nfamilies; i++) {
        unit->bindings[unit->nbindings++] = families[i]->rows[rows[i]];
    }
    if (!function->head->name.text) {
        fy_error(front, function->head->span,
                 "a function needs a type and a name");
        return;
    }
    const struct ast_names *type = take_interface(front, unit);
    unit->name = fy_expand(front, unit, function->head->name);
    if (!type && unit->has_interface) {
        fy_error(front, function->head->span,
                 "a function needs a type and a name");
    }
    if (!type || !unit->name ||
        fy_resolve_type(front, unit, type, function->head->stars, false,
                        &unit->result)) {
        return;
    }
    make_args(front, unit);
    *FY_APPEND(&front->arena, &front->units) = unit;
}

/* Every combination of rows, the first family's slowest. */
static void
make_rows(struct fy_front *front, struct ast_function *function)
{
    struct fy_family_info *families[FY_MAX_FUNCTION_FAMILIES];
    unsigned rows[FY_MAX_FUNCTION_FAMILIES] = {0};
    unsigned n = mentioned_families(front, function, families);
    for (unsigned i = 0; i < n; i++) {
        if (families[i]->nrows == 0) {
            return; /* its rows are wrong, and said so */
        }
    }
    for (;;) {
        make_unit(front, function, families, rows, n);
        unsigned i = n;
        while (i > 0 && ++rows[i - 1] == families[i - 1]->nrows) {
            rows[--i] = 0;
        }
        if (i == 0) {
            return;
        }
    }
}

void
fy_make_units(struct fy_front *front)
{
    for (struct ast_function *f = front->all.functions;
         f && !fy_diagnostics_full(front->diagnostics); f = f->next) {
        make_rows(front, f);
    }
}

/* ---- symbols ---- */

static void
add_symbol(struct fy_front *front, uint32_t index, const char *name,
           int integer_bits, uint8_t spelling, struct fy_span span)
{
    struct fy_unit *unit = front->units.row[index];
    int is_new;
    if (front->symbol_rows.count >= FY_MAX_SYMBOLS) {
        if (!front->too_many) {
            fy_error(front, span, "more than %d symbols", FY_MAX_SYMBOLS);
        }
        front->too_many = true;
        return;
    }
    struct fy_map_entry *entry =
        fy_map_add(&front->arena, &front->known.symbols, name, &is_new);
    if (!is_new) {
        const struct fy_unit *other =
            front->units.row[front->symbol_rows.row[entry->value].unit];
        if (other == front->units.row[unit->first] && index != unit->first) {
            return; /* a variant repeats it */
        }
        fy_diagnostic_hint(
            fy_error(front, span, "symbol '%.*s' is declared twice",
                     FY_MAX_QUOTED, name),
            "function '%.*s' at %s has it already", FY_MAX_QUOTED, other->name,
            fy_place(front, other->ast->span));
        return;
    }
    entry->value = front->symbol_rows.count;
    if (integer_bits < 0) {
        integer_bits = unit->uses_integer ? 0 : 32;
    }
    *FY_APPEND(&front->arena, &front->symbol_rows) =
        (struct fy_unit_symbol){.name = name,
                                .unit = unit->first,
                                .integer_bits = (uint8_t)integer_bits,
                                .spelling = spelling};
}

static const char *
spell(struct fy_front *front, const char *pattern, const char *name)
{
    const char *place = strstr(pattern, "<name>");
    if (!place) {
        return NULL; /* said when it was declared */
    }
    return fy_arena_print(&front->arena, "%.*s%s%s", (int)(place - pattern),
                          pattern, name, place + strlen("<name>"));
}

void
fy_make_symbols(struct fy_front *front, uint32_t index)
{
    struct fy_unit *unit = front->units.row[index];
    unsigned row = 0;
    if (unit->first == index && !unit->has_interface) {
        add_symbol(front, index, unit->name, -1, 0, unit->ast->span);
    }
    for (const struct ast_spelling *s = front->all.spellings;
         s && unit->first == index; s = s->next) {
        if (unit->has_interface &&
            strcmp(s->interface.text, unit->interface) == 0) {
            for (const struct ast_names *p = s->patterns; p; p = p->next) {
                const char *name = spell(front, p->name.text, unit->name);
                if (name) {
                    add_symbol(front, index, name, s->integer_bits,
                               (uint8_t)(row < 255 ? row : 255),
                               unit->ast->span);
                }
                row++;
            }
        }
    }
    for (const struct ast_statement *s = unit->ast->body; s; s = s->next) {
        for (const struct ast_symbol *a = s->symbols; a; a = a->next) {
            const char *name = fy_expand(front, unit, a->name);
            if (name && name[0] == '\0') {
                fy_error(front, a->name.span, "a symbol's name is empty");
            } else if (name) {
                add_symbol(front, index, name, a->integer_bits, 255,
                           a->name.span);
            }
        }
    }
}
