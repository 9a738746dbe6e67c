/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `form f(...) = g(...)': f is g with these arguments. Each variant of g becomes a
 * variant of f, whose body is g's with the arguments in the place of g's names. From
 * there on a form is compiled as if it had been written out. Here, too, columns of
 * families give way to the values of the unit's rows.
 */
#include "config.h"

#include <string.h>

#include "annotations/functions/compile.h"

/* A variant of the target on its way into the form. */
struct copy {
    struct fy_front *front;
    const struct fy_unit *form, *target;
    const struct ast_expr *args[FY_MAX_ARGS]; /* in place of the target's */
    bool on_device, in_value, in_where;
};

#define NEW(type, from) \
    ((struct type *)copy_of(&copy->front->arena, (from), sizeof(struct type)))

static void *
copy_of(struct fy_arena *arena, const void *from, size_t bytes)
{
    return memcpy(fy_arena_alloc(arena, bytes), from, bytes);
}

/* ---- names ---- */

static struct ast_name
plain_name(const struct copy *copy, struct ast_name name)
{
    if (name.text) {
        const char *text = fy_expand(copy->front, copy->target, name);
        name.text = text ? text : "";
    }
    return name;
}

/* What stands for an argument of the target; NULL: the name is none. */
static const struct ast_expr *
given(const struct copy *copy, const char *name)
{
    for (uint16_t i = 0; i < copy->target->row.nargs; i++) {
        if (strcmp(copy->target->args[i].name, name) == 0) {
            return copy->args[i];
        }
    }
    return NULL;
}

static bool
names_axis(const struct copy *copy, const char *name)
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
axis_name(const struct copy *copy, struct ast_name name)
{
    name = plain_name(copy, name);
    const struct ast_expr *by = given(copy, name.text);
    return by && by->kind == AST_NAME ? by->name : name;
}

/* A name in a list: of an argument, it is what is given for it. */
static struct ast_names *
copy_names(const struct copy *copy, const struct ast_names *list)
{
    struct ast_names *first = NULL, **end = &first;
    for (; list; list = list->next) {
        struct ast_names *item = NEW(ast_names, list);
        item->name = plain_name(copy, item->name);
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

static struct ast_expr *copy_list(struct copy *copy,
                                  const struct ast_expr *list);
static struct ast_expr *copy_expr(struct copy *copy,
                                  const struct ast_expr *expr);

static struct ast_expr *
copy_value(struct copy *copy, const struct ast_expr *expr,
           const struct ast_expr *value)
{
    if (copy->in_value) {
        fy_error(copy->front, expr->span,
                 "a value of a row cannot mention another");
        struct ast_expr *nothing = NEW(ast_expr, expr);
        nothing->kind = AST_INT;
        nothing->next = NULL;
        return nothing;
    }
    copy->in_value = true;
    struct ast_expr *result = copy_expr(copy, value);
    copy->in_value = false;
    return result;
}

static struct ast_expr *
copy_name(struct copy *copy, const struct ast_expr *expr)
{
    const struct ast_expr *value =
        fy_value_of_row(copy->front, copy->target, expr->name);
    if (value) {
        return copy_value(copy, expr, value);
    }
    struct ast_expr *result = NEW(ast_expr, expr);
    result->name = plain_name(copy, expr->name);
    const struct ast_expr *by = given(copy, result->name.text);
    if (by && !(copy->on_device && fy_is_device_word(result->name.text)) &&
        !(copy->in_where && by->kind != AST_NAME &&
          names_axis(copy, result->name.text))) {
        result = NEW(ast_expr, by);
    }
    result->next = NULL;
    return result;
}

static struct ast_expr *
copy_expr(struct copy *copy, const struct ast_expr *expr)
{
    if (!expr || expr->kind == AST_NAME) {
        return expr ? copy_name(copy, expr) : NULL;
    }
    struct ast_expr *result = NEW(ast_expr, expr);
    result->name = plain_name(copy, expr->name);
    result->a = copy_expr(copy, expr->a);
    result->b = copy_expr(copy, expr->b);
    result->c = copy_expr(copy, expr->c);
    result->list = copy_list(copy, expr->list);
    result->next = NULL;
    return result;
}

static struct ast_expr *
copy_list(struct copy *copy, const struct ast_expr *list)
{
    struct ast_expr *first = NULL, **end = &first;
    for (; list; list = list->next) {
        *end = copy_expr(copy, list);
        end = &(*end)->next;
    }
    return first;
}

/* ---- statements ---- */

static struct ast_axis *
copy_axes(struct copy *copy, const struct ast_axis *list)
{
    struct ast_axis *first = NULL, **end = &first;
    for (; list; list = list->next) {
        struct ast_axis *axis = NEW(ast_axis, list);
        axis->name = axis_name(copy, list->name);
        const struct ast_expr *by =
            given(copy, plain_name(copy, list->name).text);
        if (list->extent) {
            axis->extent = copy_expr(copy, list->extent);
        } else if (by && by->kind != AST_NAME) {
            axis->extent = NEW(ast_expr, by);
        }
        *end = axis;
        end = &axis->next;
    }
    return first;
}

static struct ast_dimension *
copy_dimensions(struct copy *copy, const struct ast_dimension *list)
{
    struct ast_dimension *first = NULL, **end = &first;
    for (; list; list = list->next) {
        struct ast_dimension *dimension = NEW(ast_dimension, list);
        copy->in_where = list->axis->kind == AST_NAME;
        dimension->axis = copy_expr(copy, list->axis);
        copy->in_where = false;
        dimension->stride = copy_expr(copy, list->stride);
        *end = dimension;
        end = &dimension->next;
    }
    return first;
}

static struct ast_clause *
copy_clauses(struct copy *copy, const struct ast_clause *list)
{
    struct ast_clause *first = NULL, **end = &first;
    for (; list; list = list->next) {
        struct ast_clause *clause = NEW(ast_clause, list);
        clause->name = plain_name(copy, list->name);
        copy->in_where = list->kind == AST_WHERE;
        clause->expr = copy_expr(copy, list->expr);
        copy->in_where = false;
        clause->target = list->kind == AST_AXIS_ALSO
                             ? copy_list(copy, list->target)
                             : copy_expr(copy, list->target);
        clause->with = copy_expr(copy, list->with);
        *end = clause;
        end = &clause->next;
    }
    return first;
}

/* What a plan was made for is no pointer of the form: nothing is said of it. */
static struct ast_expr *
copy_opaque(struct copy *copy, const struct ast_expr *list)
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

/* NULL: the statement is the target's alone. */
static struct ast_statement *
copy_statement(struct copy *copy, const struct ast_statement *s)
{
    if (s->kind == AST_ALSO) {
        return NULL;
    }
    struct ast_statement *result = NEW(ast_statement, s);
    result->name = plain_name(copy, s->name);
    result->word = plain_name(copy, s->word);
    result->base = copy_expr(copy, s->base);
    result->axes = copy_axes(copy, s->axes);
    result->dimensions = copy_dimensions(copy, s->dimensions);
    result->clauses = copy_clauses(copy, s->clauses);
    result->names = copy_names(copy, s->names);
    result->next = NULL;
    result->is_inherited = copy->form != copy->target;
    copy->on_device = s->kind == AST_ON && strcmp(s->name.text, "cuda") == 0;
    result->expr = s->kind == AST_OPAQUE ? copy_opaque(copy, s->expr)
                                         : copy_expr(copy, s->expr);
    result->launch = copy_list(copy, s->launch);
    copy->on_device = false;
    return s->kind == AST_OPAQUE && !result->expr ? NULL : result;
}

/* ---- the form's own statements ---- */

static bool
is_device_step(const struct ast_statement *s)
{
    return s->kind == AST_MAP ||
           (s->kind == AST_ON && strcmp(s->name.text, "host") != 0);
}

static bool
same_path(const struct copy *copy, const struct ast_expr *a,
          const struct ast_expr *b)
{
    const char *x = fy_path_text(copy->front, copy->form, a);
    const char *y = fy_path_text(copy->front, copy->form, b);
    return x && y && strcmp(x, y) == 0;
}

static bool
shares_axis(const struct copy *copy, const struct ast_statement *own,
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

/* Whether the form's own statement stands in place of the target's. */
static bool
replaces(const struct copy *copy, const struct ast_statement *own,
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
append(const struct copy *copy, struct list *list,
       const struct ast_statement *s)
{
    struct ast_statement *item = NEW(ast_statement, s);
    item->next = NULL;
    *list->end = item;
    list->end = &item->next;
}

/* A chunk on the host has operands elsewhere than the plan: it is the target's call. */
static void
add_host_call(struct copy *copy, struct list *list)
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
merge(struct copy *copy)
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
        append(copy, &list, copy_statement(copy, s));
    }
    i = 0;
    for (const struct ast_statement *o = own; o; o = o->next, i++) {
        placed[i] = is_let(o);
        if (placed[i]) {
            append(copy, &list, o);
        }
    }
    for (; s; s = s->next) {
        struct ast_statement *copied = copy_statement(copy, s);
        bool replaced = copied == NULL;
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

/* A name for what an argument is, which two must have in common. */
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
check_argument(struct copy *copy, const struct fy_unit_arg *wanted,
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
take_arguments(struct copy *copy)
{
    struct copy own = *copy;
    const struct ast_expr *list = copy->form->ast->form_of->list;
    unsigned count = 0,
             errors = fy_diagnostics_errors(copy->front->diagnostics);
    own.target = copy->form; /* names of the form stand for themselves */
    memset(own.args, 0, sizeof own.args);
    for (const struct ast_expr *e = list; e; e = e->next, count++) {
        if (count < copy->target->row.nargs) {
            check_argument(copy, &copy->target->args[count], e);
            copy->args[count] = copy_expr(&own, e);
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
take_makers(struct copy *copy, struct fy_unit *unit)
{
    for (uint16_t i = 0; i < copy->target->row.nargs; i++) {
        const struct ast_expr *by = copy->args[i];
        struct fy_unit_arg *arg =
            by->kind == AST_NAME ? fy_unit_find_arg(unit, by->name.text) : NULL;
        if (arg && !arg->from.text) {
            arg->from = plain_name(copy, copy->target->args[i].from);
        }
    }
}

static struct fy_unit *
make_variant(struct fy_front *front, const struct fy_unit *form,
             const struct fy_unit *target)
{
    struct copy all = {.front = front, .form = form, .target = target};
    struct copy *copy = &all;
    if (!take_arguments(copy)) {
        return NULL;
    }
    struct fy_unit *unit = NEW(fy_unit, form);
    if (form->row.nargs > 0) {
        unit->args = copy_of(&front->arena, form->args,
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
    struct copy all = {.front = front, .form = unit, .target = unit};
    struct copy *copy = &all;
    struct list list = {.end = &list.first};
    bool any = false;
    for (unsigned i = 0; i < unit->nbindings; i++) {
        any = any || unit->bindings[i].family->columns != NULL;
    }
    for (const struct ast_statement *s = unit->body; s && any; s = s->next) {
        const struct ast_statement *copied = copy_statement(copy, s);
        if (copied) {
            append(copy, &list, copied);
        }
    }
    return any ? list.first : unit->body;
}

/* ---- all forms ---- */

/* How well a unit fits as the target; 0: not at all. What a path given later declares
 * replaces others, but no form of an earlier one knows it. */
static unsigned
fit(const struct fy_unit *form, const struct fy_unit *unit, const char *name)
{
    return strcmp(unit->name, name) != 0 || unit->ast->path > form->ast->path
               ? 0
               : 2 * (unit->ast->path + 1) +
                     (strcmp(unit->interface, form->interface) == 0);
}

static void
unknown_target(struct fy_front *front, const struct fy_unit *form,
               const char *name)
{
    struct fy_suggestion suggestion = {.wanted = name};
    for (size_t u = 0; u < front->nunits; u++) {
        if (strcmp(front->units[u]->name, form->name) != 0) {
            fy_suggestion_try(&suggestion, front->units[u]->name);
        }
    }
    fy_diagnostic_suggest(fy_error(front, form->ast->form_of->name.span,
                                   "unknown function '%.*s'", FY_MAX_QUOTED,
                                   name),
                          &suggestion);
}

/* The variants of a unit: itself, or what it is a form of. */
struct variants {
    struct fy_unit **units;
    size_t n, capacity;
    bool begun, done;
};

struct forms {
    struct fy_front *front;
    struct variants *of; /* each unit */
    size_t made;
};

static void
add_variants(struct forms *forms, const struct fy_unit *form,
             struct variants *to, const struct variants *targets)
{
    struct fy_front *front = forms->front;
    for (size_t i = 0; i < targets->n && !form->ast->failed; i++) {
        struct fy_unit *unit = make_variant(front, form, targets->units[i]);
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
        to->units =
            fy_arena_grow(&front->arena, to->units, to->n, &to->capacity,
                          sizeof unit); /* NOLINT(bugprone-sizeof-expression) */
        to->units[to->n++] = unit;
    }
}

static void expand_form(struct forms *forms, size_t index, unsigned depth);

/* Whether the target's variants are known. */
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
    struct fy_unit *form = front->units[index];
    unsigned best = 0;
    const char *name = fy_expand(front, form, form->ast->form_of->name);
    forms->of[index].begun = true;
    for (size_t u = 0; name && u < front->nunits; u++) {
        unsigned fits = fit(form, front->units[u], name);
        best = fits > best ? fits : best;
    }
    if (name && best == 0) {
        unknown_target(front, form, name);
    }
    form->ast->failed = form->ast->failed || best == 0;
    for (size_t u = 0; u < front->nunits && !form->ast->failed; u++) {
        if (fit(form, front->units[u], name) != best) {
            continue;
        }
        if (is_ready(forms, form, u, depth)) {
            add_variants(forms, form, &forms->of[index], &forms->of[u]);
        } else {
            form->ast->failed = true;
        }
    }
    forms->of[index].done = true;
}

void
fy_expand_forms(struct fy_front *front)
{
    size_t total = 0, kept = 0;
    struct forms forms = {.front = front};
    forms.of =
        fy_arena_array(&front->arena, front->nunits + 1, sizeof *forms.of);
    for (size_t u = 0; u < front->nunits; u++) {
        unsigned errors = fy_diagnostics_errors(front->diagnostics);
        front->units[u]->body = with_values(front, front->units[u]);
        if (fy_diagnostics_errors(front->diagnostics) > errors) {
            front->units[u]->ast->failed = true;
        }
        if (!front->units[u]->ast->form_of) {
            forms.of[u] = (struct variants){
                .units = &front->units[u], .n = 1, .begun = true, .done = true};
        }
    }
    for (size_t u = 0; u < front->nunits; u++) {
        if (!forms.of[u].done && !fy_diagnostics_full(front->diagnostics)) {
            expand_form(&forms, u, 1);
        }
        total += forms.of[u].n;
    }
    struct fy_unit **units =
        fy_arena_array(&front->arena, total + 1,
                       sizeof *units); /* NOLINT(bugprone-sizeof-expression) */
    for (size_t u = 0; u < front->nunits; u++) {
        for (size_t i = 0; i < forms.of[u].n; i++) {
            units[kept++] = forms.of[u].units[i];
        }
    }
    front->units = units;
    front->nunits = front->units_capacity = kept;
}
