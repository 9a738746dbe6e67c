/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `form f(...) = g(...)': f is g with these arguments. Each variant of g becomes a
 * variant of f, whose body is g's with the arguments in the place of g's names. From
 * there on a form is compiled as if it had been written out. Here, too, columns of
 * families give way to the values of the unit's rows.
 */
#include "config.h"

#include "annotations/functions/form_copy.h"

#include <string.h>

/* ---- the form's own statements ---- */

static bool
is_device_step(const struct ast_statement *s)
{
    return s->kind == AST_MAP ||
           (s->kind == AST_ON && strcmp(s->name.text, "host") != 0);
}

static bool
same_path(const struct fy_form_copy *copy, const struct ast_expr *a,
          const struct ast_expr *b)
{
    const char *x = fy_path_text(copy->front, copy->form, a);
    const char *y = fy_path_text(copy->front, copy->form, b);
    return x && y && strcmp(x, y) == 0;
}

static bool
shares_axis(const struct fy_form_copy *copy, const struct ast_statement *own,
            const struct ast_statement *s)
{
    for (const struct ast_axis *a = own->axes; a; a = a->next) {
        for (const struct ast_axis *b = s->axes; b; b = b->next) {
            const char *name = fy_expand(copy->front, copy->form, a->name);
            if (name && strcmp(name, b->name.text) == 0) {
                return true;
            }
        }
    }
    return false;
}

/* Returns true if the form's own statement stands in place of the target's. */
static bool
replaces(const struct fy_form_copy *copy, const struct ast_statement *own,
         const struct ast_statement *s)
{
    switch (own->kind) {
    case AST_FLOPS:
    case AST_WORTH:
    case AST_BLOCKED:
        return s->kind == own->kind;
    case AST_ERROR:
    case AST_EXACT:
        return s->kind == AST_ERROR || s->kind == AST_EXACT;
    case AST_AXIS:
        return s->kind == AST_AXIS && shares_axis(copy, own, s);
    case AST_OPERAND:
    case AST_OPAQUE:
        return (s->kind == AST_OPERAND || s->kind == AST_OPAQUE) &&
               same_path(copy, own->expr, s->expr);
    case AST_ON:
    case AST_MAP:
        return (s->kind == AST_ON || s->kind == AST_MAP) &&
               is_device_step(own) == is_device_step(s);
    default:
        return false;
    }
}

struct list {
    struct ast_statement *first, **end;
};

static void
append(const struct fy_form_copy *copy, struct list *list,
       const struct ast_statement *s)
{
    struct ast_statement *item = FY_COPY(ast_statement, s);
    item->next = NULL;
    *list->end = item;
    list->end = &item->next;
}

/* A chunk on the host has operands elsewhere than the plan: it is the target's call. */
static void
add_host_call(struct fy_form_copy *copy, struct list *list)
{
    struct ast_statement call = {.kind = AST_ON,
                                 .span = copy->form->ast->form_of->span,
                                 .name = {.text = "host"},
                                 .word = copy->form->ast->form_of->name,
                                 .expr = copy->form->ast->form_of};
    bool remembered = false;
    for (uint16_t i = 0; i < copy->target->row.nargs; i++) {
        remembered = remembered || copy->args[i]->kind == AST_DOT;
    }
    for (const struct ast_statement *s = list->first; s; s = s->next) {
        remembered = remembered && !(s->kind == AST_ON && !is_device_step(s));
    }
    if (remembered) {
        append(copy, list, &call);
    }
}

static bool
is_let(const struct ast_statement *s)
{
    return s->kind == AST_LET || s->kind == AST_REQUIRE;
}

static bool
is_place(const struct ast_statement *s)
{
    return s->kind == AST_AXIS || s->kind == AST_OPERAND ||
           s->kind == AST_OPAQUE;
}

/* The target's statements. Behind the lets and requires that they begin with stand the
 * form's; its axes and operands stand in the place of those that they replace, all else
 * of it at the end. */
static struct ast_statement *
merge(struct fy_form_copy *copy)
{
    struct list list = {.end = &list.first};
    const struct ast_statement *own = copy->form->body;
    const struct ast_statement *s = copy->target->body;
    size_t n = 0, i;
    for (const struct ast_statement *o = own; o; o = o->next) {
        n++;
    }
    bool *placed = fy_arena_array(&copy->front->arena, n, sizeof *placed);
    for (; s && is_let(s); s = s->next) {
        append(copy, &list, fy_copy_statement(copy, s));
    }
    i = 0;
    for (const struct ast_statement *o = own; o; o = o->next, i++) {
        placed[i] = is_let(o);
        if (placed[i]) {
            append(copy, &list, o);
        }
    }
    for (; s; s = s->next) {
        struct ast_statement *copied = fy_copy_statement(copy, s);
        bool replaced = !copied;
        i = 0;
        for (const struct ast_statement *o = copied ? own : NULL; o;
             o = o->next, i++) {
            bool replaces_it = replaces(copy, o, copied);
            replaced = replaced || replaces_it;
            if (replaces_it && is_place(o) && !placed[i]) {
                append(copy, &list, o);
                placed[i] = true;
            }
        }
        if (!replaced) {
            append(copy, &list, copied);
        }
    }
    i = 0;
    for (const struct ast_statement *o = own; o; o = o->next, i++) {
        if (!placed[i]) {
            append(copy, &list, o);
        }
    }
    add_host_call(copy, &list);
    return list.first;
}

/* ---- the target ---- */

/* A name for the kind of an argument, which two must have in common. */
static const char *
kind_of(const struct fy_resolved *type)
{
    switch (type->type) {
    case FY_T_CHAR:
        return "a character";
    case FY_T_F32:
    case FY_T_F64:
        return "a real number";
    case FY_T_C32:
    case FY_T_C64:
        return "a complex number";
    case FY_T_POINTER:
        return "a pointer";
    case FY_T_HANDLE:
        return "a handle";
    default:
        return "an integer";
    }
}

/* Plain names are compared here; of all else the compiled body says more. */
static void
check_argument(struct fy_form_copy *copy, const struct fy_unit_arg *wanted,
               const struct ast_expr *expr)
{
    const char *name = expr->kind == AST_NAME
                           ? fy_expand(copy->front, copy->form, expr->name)
                           : NULL;
    const struct fy_unit_arg *arg =
        name ? fy_unit_find_arg((struct fy_unit *)copy->form, name) : NULL;
    const char *is = arg ? kind_of(&arg->resolved) : NULL;
    if (!arg || (strcmp(is, kind_of(&wanted->resolved)) == 0 &&
                 arg->resolved.pointee == wanted->resolved.pointee)) {
        return;
    }
    fy_error(copy->front, expr->span,
             "'%.*s' is %s; argument '%.*s' of '%.*s' is %s%s", FY_MAX_QUOTED,
             name, is, FY_MAX_QUOTED, wanted->name, FY_MAX_QUOTED,
             copy->target->name, kind_of(&wanted->resolved),
             strcmp(is, kind_of(&wanted->resolved)) == 0 ? " to other elements"
                                                         : "");
}

/* The form's arguments, its families' rows in place of their placeholders. */
static bool
take_arguments(struct fy_form_copy *copy)
{
    struct fy_form_copy own = *copy;
    const struct ast_expr *list = copy->form->ast->form_of->list;
    unsigned count = 0,
             errors = fy_diagnostics_errors(copy->front->diagnostics);
    own.target = copy->form; /* names of the form stand for themselves */
    memset(own.args, 0, sizeof own.args);
    for (const struct ast_expr *e = list; e; e = e->next, count++) {
        if (count < copy->target->row.nargs) {
            check_argument(copy, &copy->target->args[count], e);
            copy->args[count] = fy_copy_expr(&own, e);
        }
    }
    if (count != copy->target->row.nargs) {
        fy_error(copy->front, copy->form->ast->form_of->span,
                 "'%.*s' takes %u arguments, not %u", FY_MAX_QUOTED,
                 copy->target->name, copy->target->row.nargs, count);
    }
    return fy_diagnostics_errors(copy->front->diagnostics) == errors;
}

/* A handle that is passed on comes from where the target's comes from. */
static void
take_makers(struct fy_form_copy *copy, struct fy_unit *unit)
{
    for (uint16_t i = 0; i < copy->target->row.nargs; i++) {
        const struct ast_expr *by = copy->args[i];
        struct fy_unit_arg *arg =
            /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): nargs of them are
             * there */
            by->kind == AST_NAME ? fy_unit_find_arg(unit, by->name.text) : NULL;
        if (arg && !arg->from.text) {
            arg->from = fy_copy_name(copy, copy->target->args[i].from);
        }
    }
}

static struct fy_unit *
make_variant(struct fy_front *front, const struct fy_unit *form,
             const struct fy_unit *target)
{
    struct fy_form_copy all = {.front = front, .form = form, .target = target};
    struct fy_form_copy *copy = &all;
    if (!take_arguments(copy)) {
        return NULL;
    }
    struct fy_unit *unit = FY_COPY(fy_unit, form);
    if (form->row.nargs > 0) {
        unit->args = fy_copy_of(&front->arena, form->args,
                                form->row.nargs * sizeof *form->args);
    }
    take_makers(copy, unit);
    unit->body = merge(copy);
    return unit;
}

/* A body with the values of rows in it, when there are such. */
static const struct ast_statement *
with_values(struct fy_front *front, const struct fy_unit *unit)
{
    struct fy_form_copy all = {.front = front, .form = unit, .target = unit};
    struct fy_form_copy *copy = &all;
    struct list list = {.end = &list.first};
    bool any = false;
    for (unsigned i = 0; i < unit->nbindings; i++) {
        any = any || unit->bindings[i].family->columns;
    }
    for (const struct ast_statement *s = unit->body; s && any; s = s->next) {
        const struct ast_statement *copied = fy_copy_statement(copy, s);
        if (copied) {
            append(copy, &list, copied);
        }
    }
    return any ? list.first : unit->body;
}

/* ---- all forms ---- */

/* Rates how well a unit of the name fits as the target; 0: not at all.
 * Declarations of a later path replace others, but no form of an earlier
 * path knows them. */
static unsigned
fit(const struct fy_unit *form, const struct fy_unit *unit)
{
    return unit->ast->path > form->ast->path
               ? 0
               : 2 * (unit->ast->path + 1) +
                     (strcmp(unit->interface, form->interface) == 0);
}

static void
unknown_target(struct fy_front *front, const struct fy_unit *form,
               const char *name)
{
    struct fy_suggestion suggestion = {.wanted = name};
    for (size_t u = 0; u < front->units.count; u++) {
        if (strcmp(front->units.row[u]->name, form->name) != 0) {
            fy_suggestion_try(&suggestion, front->units.row[u]->name);
        }
    }
    fy_diagnostic_suggest(fy_error(front, form->ast->form_of->name.span,
                                   "unknown function '%.*s'", FY_MAX_QUOTED,
                                   name),
                          &suggestion);
}

/* The variants of a unit: itself, or the function that it is a form of. */
struct variants {
    FY_ROWS(struct fy_unit *) units;
    bool begun, done;
};

struct forms {
    struct fy_front *front;
    struct variants *of;   /* each unit */
    struct fy_map by_name; /* the first unit of a name, plus 1 */
    size_t *next;          /* of that name, plus 1; 0: none */
    size_t made;
};

static void
add_variants(struct forms *forms, const struct fy_unit *form,
             struct variants *to, const struct variants *targets)
{
    struct fy_front *front = forms->front;
    for (size_t i = 0; i < targets->units.count && !form->ast->failed; i++) {
        struct fy_unit *unit = make_variant(front, form, targets->units.row[i]);
        if (unit && ++forms->made > FY_MAX_FUNCTIONS) {
            fy_error(front, form->ast->span,
                     "more than %d functions, families expanded",
                     FY_MAX_FUNCTIONS);
            unit = NULL;
        }
        if (!unit) {
            form->ast->failed = true;
            return;
        }
        *FY_APPEND(&front->arena, &to->units) = unit;
    }
}

static void expand_form(struct forms *forms, size_t index, unsigned depth);

/* Returns true if the target's variants are known. */
static bool
is_ready(struct forms *forms, struct fy_unit *form, size_t target,
         unsigned depth)
{
    struct variants *of = &forms->of[target];
    const struct fy_span span = form->ast->form_of->name.span;
    if (!of->begun && depth < FY_MAX_FORM_DEPTH) {
        expand_form(forms, target, depth + 1);
    } else if (!of->begun) {
        fy_error(forms->front, span, "forms are nested more than %d deep",
                 FY_MAX_FORM_DEPTH);
    } else if (!of->done) {
        fy_error(forms->front, span, "'%.*s' is a form of itself",
                 FY_MAX_QUOTED, form->name);
    }
    return of->done;
}

static void
expand_form(struct forms *forms, size_t index, unsigned depth)
{
    struct fy_front *front = forms->front;
    struct fy_unit *form = front->units.row[index];
    unsigned best = 0;
    const char *name = fy_expand(front, form, form->ast->form_of->name);
    const struct fy_map_entry *entry =
        name ? fy_map_find(&forms->by_name, name) : NULL;
    const size_t first = entry ? (size_t)entry->value : 0;
    forms->of[index].begun = true;
    for (size_t u = first; u > 0; u = forms->next[u - 1]) {
        unsigned fits = fit(form, front->units.row[u - 1]);
        best = fits > best ? fits : best;
    }
    if (name && best == 0) {
        unknown_target(front, form, name);
    }
    form->ast->failed = form->ast->failed || best == 0;
    for (size_t u = first; u > 0 && !form->ast->failed;
         u = forms->next[u - 1]) {
        if (fit(form, front->units.row[u - 1]) != best) {
            continue;
        }
        if (is_ready(forms, form, u - 1, depth)) {
            add_variants(forms, form, &forms->of[index], &forms->of[u - 1]);
        } else {
            form->ast->failed = true;
        }
    }
    forms->of[index].done = true;
}

/* Units by their names, in order. */
static void
index_names(struct forms *forms)
{
    struct fy_front *front = forms->front;
    forms->next = fy_arena_array(&front->arena, front->units.count + 1,
                                 sizeof *forms->next);
    for (size_t u = front->units.count; u > 0; u--) {
        struct fy_map_entry *entry =
            fy_map_add(&front->arena, &forms->by_name,
                       front->units.row[u - 1]->name, NULL);
        forms->next[u - 1] = (size_t)entry->value;
        entry->value = u;
    }
}

void
fy_expand_forms(struct fy_front *front)
{
    size_t total = 0, kept = 0;
    struct forms forms = {.front = front};
    forms.of =
        fy_arena_array(&front->arena, front->units.count + 1, sizeof *forms.of);
    index_names(&forms);
    for (size_t u = 0; u < front->units.count; u++) {
        unsigned errors = fy_diagnostics_errors(front->diagnostics);
        front->units.row[u]->body = with_values(front, front->units.row[u]);
        if (fy_diagnostics_errors(front->diagnostics) > errors) {
            front->units.row[u]->ast->failed = true;
        }
        if (!front->units.row[u]->ast->form_of) {
            forms.of[u] =
                (struct variants){.units = {&front->units.row[u], 1, 1},
                                  .begun = true,
                                  .done = true};
        }
    }
    for (size_t u = 0; u < front->units.count; u++) {
        if (!forms.of[u].done && !fy_diagnostics_full(front->diagnostics)) {
            expand_form(&forms, u, 1);
        }
        total += forms.of[u].units.count;
    }
    struct fy_unit **units =
        fy_arena_array(&front->arena, total + 1, sizeof *units);
    for (size_t u = 0; u < front->units.count; u++) {
        for (size_t i = 0; i < forms.of[u].units.count; i++) {
            units[kept++] = forms.of[u].units.row[i];
        }
    }
    front->units.row = units;
    front->units.count = front->units.capacity = kept;
}
