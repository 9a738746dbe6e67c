/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names that the files of one compilation declare, and the placeholders of
 * families in names, types and strings.
 */
#include "config.h"

#include <ctype.h>
#include <string.h>

#include "annotations/functions/compile.h"

const char *
fy_place(struct fy_front *front, struct fy_span span)
{
    uint32_t line, column;
    fy_span_position(span, &line, &column);
    return fy_arena_print(&front->arena, "%s:%u", span.source->name, line);
}

/* Adds `name' to `map'; reports a second declaration. */
static bool
declare(struct fy_front *front, struct fy_map *map, struct ast_name name,
        const char *what, uint64_t value)
{
    int is_new;
    if (strchr(name.text, '<')) {
        fy_error(front, name.span, "the name of a %s cannot have placeholders",
                 what);
        return false;
    }
    struct fy_map_entry *entry =
        fy_map_add(&front->arena, map, name.text, &is_new);
    if (!is_new) {
        fy_error(front, name.span, "%s '%.*s' is declared twice", what,
                 FY_MAX_QUOTED, name.text);
        return false;
    }
    entry->value = value;
    return true;
}

static const char *
upper_case(struct fy_front *front, const char *text)
{
    char *copy = fy_arena_text(&front->arena, text, strlen(text));
    for (char *c = copy; *c != '\0'; c++) {
        *c = (char)toupper((unsigned char)*c);
    }
    return copy;
}

static const char *
first_upper(struct fy_front *front, const char *text)
{
    char *copy = fy_arena_text(&front->arena, text, strlen(text));
    copy[0] = (char)toupper((unsigned char)copy[0]);
    return copy;
}

/* A row has a value for each column of its family. */
static void
check_values(struct fy_front *front, const struct ast_family *family,
             const struct ast_row *row)
{
    unsigned columns = 0, values = 0;
    for (const struct ast_names *n = family->columns; n; n = n->next) {
        columns++;
    }
    for (const struct ast_expr *e = row->values; e; e = e->next) {
        values++;
    }
    if (columns != values) {
        fy_error(front, row->name.span,
                 "row '%.*s' has %u values; family '%.*s' has %u columns",
                 FY_MAX_QUOTED, row->name.text, values, FY_MAX_QUOTED,
                 family->name.text, columns);
    }
}

static void
declare_row(struct fy_front *front, struct fy_family_info *info,
            const struct ast_row *row)
{
    struct fy_resolved type;
    for (unsigned i = 0; i < info->nrows; i++) {
        if (strcmp(info->rows[i].row->name.text, row->name.text) == 0) {
            fy_error(front, row->name.span,
                     "family '%.*s' has row '%.*s' twice", FY_MAX_QUOTED,
                     info->ast->name.text, FY_MAX_QUOTED, row->name.text);
            return;
        }
    }
    if (info->nrows == FY_MAX_FAMILY_ROWS) {
        fy_error(front, row->name.span, "a family has at most %d rows",
                 FY_MAX_FAMILY_ROWS);
        return;
    }
    check_values(front, info->ast, row);
    if (row->type && fy_resolve_type(front, NULL, row->type, 0, false, &type)) {
        return;
    }
    struct fy_binding *binding = &info->rows[info->nrows++];
    binding->family = info->ast;
    binding->row = row;
    if (!row->type) {
        return;
    }
    binding->type = type.type;
    binding->real_type = type.type == FY_T_C32   ? FY_T_F32
                         : type.type == FY_T_C64 ? FY_T_F64
                                                 : type.type;
    const char *text = row->type->name.text;
    for (const struct ast_names *w = row->type->next; w; w = w->next) {
        text = fy_arena_print(&front->arena, "%s %s", text, w->name.text);
    }
    binding->type_text = text;
    binding->real_text = type.type == FY_T_C32   ? "float"
                         : type.type == FY_T_C64 ? "double"
                                                 : text;
}

static const char *const fixed_placeholders[] = {
    "T", "R", "S", "is_complex", "ops", "eps", "name",
};

void
fy_suggest_names(struct fy_suggestion *suggestion, const struct fy_map *names)
{
    for (size_t i = 0; i < names->capacity; i++) {
        if (names->entries[i].key) {
            fy_suggestion_try(suggestion, names->entries[i].key);
        }
    }
}

bool
fy_is_fixed_placeholder(const char *name)
{
    for (size_t i = 0;
         i < sizeof fixed_placeholders / sizeof fixed_placeholders[0]; i++) {
        if (strcmp(name, fixed_placeholders[i]) == 0) {
            return true;
        }
    }
    return false;
}

static bool
same_words(const struct ast_names *a, const struct ast_names *b)
{
    for (; a && b; a = a->next, b = b->next) {
        if (strcmp(a->name.text, b->name.text) != 0) {
            return false;
        }
    }
    return !a && !b;
}

/* By their text, which is simple to keep the same. */
static bool
same_values(const struct ast_row *a, const struct ast_row *b)
{
    uint32_t bytes = a->whole.end - a->whole.begin;
    return (!a->values && !b->values) ||
           (bytes == b->whole.end - b->whole.begin &&
            memcmp(a->whole.source->text + a->whole.begin,
                   b->whole.source->text + b->whole.begin, bytes) == 0);
}

/* Files that stand alone repeat declarations: the same again is no error. */
static bool
same_rows(const struct ast_family *a, const struct ast_family *b)
{
    const struct ast_row *x = a->rows, *y = b->rows;
    for (; x && y; x = x->next, y = y->next) {
        if (!same_words(x->type, y->type) ||
            strcmp(x->name.text, y->name.text) != 0 || !same_values(x, y)) {
            return false;
        }
    }
    return !x && !y && same_words(a->columns, b->columns);
}

static void
declare_families(struct fy_front *front)
{
    size_t count = 0, i = 0;
    for (const struct ast_family *f = front->all.families; f; f = f->next) {
        count++;
    }
    front->family_rows =
        fy_arena_array(&front->arena, count, sizeof *front->family_rows);
    for (const struct ast_family *f = front->all.families; f; f = f->next) {
        struct fy_family_info *info = &front->family_rows[i];
        if (fy_is_fixed_placeholder(f->name.text)) {
            fy_error(front, f->name.span,
                     "'%s' cannot name a family: <%s> has a meaning of its own",
                     f->name.text, f->name.text);
            continue;
        }
        const struct fy_map_entry *old =
            fy_map_find(&front->known.families, f->name.text);
        if (old && same_rows(front->family_rows[old->value].ast, f)) {
            continue;
        }
        if (old) {
            fy_diagnostic_hint(
                fy_error(front, f->name.span,
                         "family '%.*s' is declared twice with different rows",
                         FY_MAX_QUOTED, f->name.text),
                "the first is at %s",
                fy_place(front, front->family_rows[old->value].ast->name.span));
            continue;
        }
        if (!declare(front, &front->known.families, f->name, "family", i)) {
            continue;
        }
        info->ast = f;
        info->upper = upper_case(front, f->name.text);
        fy_map_add(&front->arena, &front->known.family_uppers, info->upper,
                   NULL)
            ->value = i;
        info->title = first_upper(front, f->name.text);
        fy_map_add(&front->arena, &front->known.family_uppers, info->title,
                   NULL)
            ->value = i;
        for (const struct ast_row *row = f->rows; row; row = row->next) {
            declare_row(front, info, row);
        }
        i++;
    }
}

static bool
same_fields(const struct ast_struct *a, const struct ast_struct *b)
{
    const struct ast_declaration *x = a->fields, *y = b->fields;
    for (; x && y; x = x->next, y = y->next) {
        if (!x->name.text || !y->name.text ||
            strcmp(x->name.text, y->name.text) != 0 || x->stars != y->stars ||
            x->elements != y->elements || !same_words(x->words, y->words)) {
            return false;
        }
    }
    return !x && !y;
}

static void
declare_structs(struct fy_front *front)
{
    size_t i = 0;
    for (const struct ast_struct *s = front->all.structs; s; s = s->next) {
        i++;
    }
    front->layouts = fy_arena_array(&front->arena, i, sizeof *front->layouts);
    i = 0;
    for (const struct ast_struct *s = front->all.structs; s; s = s->next) {
        const struct fy_map_entry *old =
            fy_map_find(&front->known.structs, s->name.text);
        if (old && same_fields(front->layouts[old->value].ast, s)) {
            continue;
        }
        if (declare(front, &front->known.structs, s->name, "struct", i)) {
            front->layouts[i++].ast = s;
        }
    }
}

/* A pattern that stands twice in an interface counts once. */
static void
declare_pattern(struct fy_front *front, const struct ast_spelling *spelling,
                struct ast_names *pattern, struct fy_map *known)
{
    int is_new;
    struct fy_map_entry *entry =
        fy_map_add(&front->arena, known,
                   fy_arena_print(&front->arena, "%s %s",
                                  spelling->interface.text, pattern->name.text),
                   &is_new);
    if (!strstr(pattern->name.text, "<name>")) {
        fy_diagnostic_hint(fy_error(front, pattern->name.span,
                                    "a spelling must have <name> in it"),
                           "\"<name>_\" makes 'dgemm_' of 'dgemm'");
    }
    if (is_new) {
        entry->value = (uint64_t)spelling->integer_bits + 1;
        return;
    }
    if (entry->value != (uint64_t)spelling->integer_bits + 1) {
        fy_error(front, pattern->name.span,
                 "spelling \"%.*s\" of '%.*s' has two widths", FY_MAX_QUOTED,
                 pattern->name.text, FY_MAX_QUOTED, spelling->interface.text);
    }
    pattern->name.text = "";
}

static void
declare_spellings(struct fy_front *front)
{
    struct fy_map known = {0};
    unsigned patterns = 0;
    for (const struct ast_spelling *s = front->all.spellings; s; s = s->next) {
        /* The value is not used: rows of one interface may repeat. */
        (void)fy_map_add(&front->arena, &front->known.interfaces,
                         s->interface.text, NULL);
        for (struct ast_names *p = s->patterns; p; p = p->next) {
            if (++patterns == FY_MAX_SPELLINGS + 1) {
                fy_error(front, p->name.span, "more than %d spellings",
                         FY_MAX_SPELLINGS);
            }
            declare_pattern(front, s, p, &known);
        }
    }
}

void
fy_declare_all(struct fy_front *front)
{
    for (const struct ast_handle *h = front->all.handles; h; h = h->next) {
        if (!fy_map_find(&front->known.handles, h->name.text)) {
            (void)declare(front, &front->known.handles, h->name, "handle", 0);
        }
    }
    declare_structs(front);
    declare_spellings(front);
    declare_families(front);
    fy_declare_nests(front);
    fy_layout_all(front);
}

/* ---- placeholders ---- */

/* The n-th of the unit's bindings that have types, from 0; NULL: there are fewer. */
static const struct fy_binding *
typed(const struct fy_unit *unit, unsigned n)
{
    for (unsigned i = 0; i < unit->nbindings; i++) {
        if (unit->bindings[i].row->type && n-- == 0) {
            return &unit->bindings[i];
        }
    }
    return NULL;
}

/* The binding `family' (may be NULL: the only one with types) names; NULL: none. */
static const struct fy_binding *
binding_of(const struct fy_unit *unit, const char *family)
{
    if (!unit) {
        return NULL;
    }
    if (!family) {
        return typed(unit, 1) ? NULL : typed(unit, 0);
    }
    for (unsigned i = 0; i < unit->nbindings; i++) {
        if (strcmp(unit->bindings[i].family->name.text, family) == 0) {
            return &unit->bindings[i];
        }
    }
    return NULL;
}

static const char *
fixed_value(const struct fy_binding *binding, const char *name)
{
    bool is_complex = binding->type == FY_T_C32 || binding->type == FY_T_C64;
    if (!binding->row->type) {
        return NULL;
    }
    if (strcmp(name, "T") == 0 || strcmp(name, "S") == 0) {
        return binding->type_text;
    }
    if (strcmp(name, "R") == 0) {
        return binding->real_text;
    }
    if (strcmp(name, "is_complex") == 0) {
        return is_complex ? "1" : "0";
    }
    if (strcmp(name, "ops") == 0) {
        return is_complex ? "4" : "1";
    }
    if (strcmp(name, "eps") == 0) {
        return binding->real_type == FY_T_F32 ? "1.1920928955078125e-07"
                                              : "2.220446049250313e-16";
    }
    return NULL;
}

/* Returns the text that <name:family> stands for; NULL: nothing. */
static const char *
placeholder(struct fy_front *front, const struct fy_unit *unit,
            const char *name, const char *family)
{
    if (fy_is_fixed_placeholder(name)) {
        const struct fy_binding *binding = binding_of(unit, family);
        return binding ? fixed_value(binding, name) : NULL;
    }
    if (family || !unit) {
        return NULL;
    }
    for (unsigned i = 0; i < unit->nbindings; i++) {
        const struct fy_binding *binding = &unit->bindings[i];
        if (strcmp(binding->family->name.text, name) == 0) {
            return binding->row->name.text;
        }
        const struct fy_map_entry *entry =
            fy_map_find(&front->known.families, binding->family->name.text);
        if (entry &&
            strcmp(front->family_rows[entry->value].upper, name) == 0) {
            return upper_case(front, binding->row->name.text);
        }
        if (entry &&
            strcmp(front->family_rows[entry->value].title, name) == 0) {
            return first_upper(front, binding->row->name.text);
        }
    }
    return NULL;
}

/* Counts the families, or those of the named family, that have the column;
 * *value is the last one's. */
static unsigned
columns(const struct fy_unit *unit, const char *column, const char *family,
        const struct ast_expr **value)
{
    unsigned count = 0;
    for (unsigned i = 0; i < unit->nbindings; i++) {
        const struct fy_binding *binding = &unit->bindings[i];
        const struct ast_expr *v = binding->row->values;
        if (family && strcmp(binding->family->name.text, family) != 0) {
            continue;
        }
        for (const struct ast_names *n = binding->family->columns; n && v;
             n = n->next, v = v->next) {
            if (strcmp(n->name.text, column) == 0) {
                *value = v;
                count++;
            }
        }
    }
    return count;
}

static void
bad_placeholder(struct fy_front *front, const struct fy_unit *unit,
                struct fy_span span, const char *name, const char *family)
{
    struct fy_diagnostic *diagnostic;
    const struct ast_expr *value;
    bool fixed = fy_is_fixed_placeholder(name);
    if (unit && !family &&
        (fixed ? typed(unit, 1) != NULL
               : columns(unit, name, NULL, &value) > 1)) {
        const struct fy_binding *first =
            fixed ? typed(unit, 0) : &unit->bindings[0];
        const struct fy_binding *second =
            fixed ? typed(unit, 1) : &unit->bindings[1];
        diagnostic =
            fy_error(front, span, "<%s> is ambiguous with two families", name);
        fy_diagnostic_hint(diagnostic, "write <%s:%s> or <%s:%s>", name,
                           first->family->name.text, name,
                           second->family->name.text);
        return;
    }
    if (fixed && !family) {
        diagnostic = fy_error(
            front, span, "<%s> needs a family, and none is named here", name);
        fy_diagnostic_hint(diagnostic,
                           "a family's <name> must occur in the function");
        return;
    }
    diagnostic =
        fy_error(front, span, "unknown placeholder <%.*s%s%.*s>", FY_MAX_QUOTED,
                 name, family ? ":" : "", FY_MAX_QUOTED, family ? family : "");
    struct fy_suggestion suggestion = {.wanted = family ? family : name};
    fy_suggest_names(&suggestion, &front->known.families);
    fy_diagnostic_suggest(diagnostic, &suggestion);
}

/*
 * Splits "<name:family>..." at `text'; NULL when it is none, else where it
 * ends. Copies are in the arena.
 */
static const char *
split_placeholder(struct fy_front *front, const char *text, const char **name,
                  const char **family)
{
    const char *end = text + 1;
    const char *colon = NULL;
    while (isalnum((unsigned char)*end) || *end == '_' ||
           (*end == ':' && !colon)) {
        if (*end == ':') {
            colon = end;
        }
        end++;
    }
    if (*end != '>' || end == text + 1 || end - text > FY_MAX_NAME_BYTES) {
        return NULL;
    }
    const char *stop = colon ? colon : end;
    *name = fy_arena_text(&front->arena, text + 1, (size_t)(stop - text - 1));
    *family = colon ? fy_arena_text(&front->arena, colon + 1,
                                    (size_t)(end - colon - 1))
                    : NULL;
    return end + 1;
}

const struct ast_expr *
fy_value_of_row(struct fy_front *front, const struct fy_unit *unit,
                struct ast_name name)
{
    const char *column, *family, *end = NULL;
    const struct ast_expr *found;
    if (name.text[0] == '<') {
        end = split_placeholder(front, name.text, &column, &family);
    }
    return end && *end == '\0' && !placeholder(front, unit, column, family) &&
                   columns(unit, column, family, &found) == 1
               ? found
               : NULL;
}

/* A text of bounded length that grows at its end. */
struct builder {
    char *text;
    size_t used, limit;
    bool overflowed;
};

static void
add(struct builder *builder, const char *text, size_t bytes)
{
    if (bytes > builder->limit - builder->used) {
        bytes = builder->limit - builder->used;
        builder->overflowed = true;
    }
    memcpy(builder->text + builder->used, text, bytes);
    builder->used += bytes;
    builder->text[builder->used] = '\0';
}

/* `span' NULL: documentation, in which all but placeholders stays. */
static const char *
expand(struct fy_front *front, const struct fy_unit *unit, const char *text,
       const struct fy_span *span)
{
    const char *open;
    if (!strchr(text, '<')) {
        return text;
    }
    struct builder builder = {.limit =
                                  span ? strlen(text) + FY_MAX_EXPANDED_BYTES
                                       : (size_t)FY_MAX_DOC_BYTES};
    builder.text = fy_arena_alloc(&front->arena, builder.limit + 1);
    while ((open = strchr(text, '<'))) {
        const char *name, *family, *value = NULL;
        const char *end = split_placeholder(front, open, &name, &family);
        if (end) {
            value = placeholder(front, unit, name, family);
        }
        if (end && !value && span) {
            bad_placeholder(front, unit, *span, name, family);
            return NULL;
        }
        add(&builder, text, (size_t)(open - text));
        add(&builder, value ? value : "<", value ? strlen(value) : 1);
        text = value ? end : open + 1;
    }
    add(&builder, text, strlen(text));
    if (builder.overflowed && span) {
        fy_error(front, *span,
                 "name is too long with its placeholders "
                 "replaced");
        return NULL;
    }
    return builder.text;
}

const char *
fy_expand(struct fy_front *front, const struct fy_unit *unit,
          struct ast_name name)
{
    return expand(front, unit, name.text, &name.span);
}

const char *
fy_expand_doc(struct fy_front *front, const struct fy_unit *unit,
              const char *text)
{
    return expand(front, unit, text, NULL);
}
