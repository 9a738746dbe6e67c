/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `blocked NAME { ... }': algorithms that files declare (model/nest.h), and `blocked by
 * NAME', which has a function made by one of them or by one that the pager has in C.
 */
#include "config.h"

#include <string.h>

#include "annotations/functions/compile.h"
#include "annotations/model/nest.h"

static const char *const built_in[] = {
    "getrf", "getri", "gesv", "geqrf", "gels", "fft",
};

/* The text between the braces, after a check. NULL: malformed. */
static const char *
nest_text(struct fy_front *front, struct fy_span span, uint32_t begin)
{
    const char *all = span.source->text;
    const char *text =
        fy_arena_text(&front->arena, all + begin, span.end - 1 - begin);
    struct fy_nest_reader reader = {.at = text};

    if (fy_nest_check(&reader)) {
        return text;
    }
    span.begin = begin + (uint32_t)(reader.at - text);
    span.end = span.begin + 1;
    fy_error(front, span, "malformed blocked algorithm, expected %s",
             reader.expected);
    return NULL;
}

/* The declared algorithm of a name, or NULL. */
static struct ast_raw *
find_nest(struct fy_front *front, const char *name)
{
    struct ast_raw *raw = front->all.nests;

    while (raw && (!raw->name || strcmp(raw->name, name) != 0)) {
        raw = raw->next;
    }
    return raw;
}

void
fy_declare_nests(struct fy_front *front)
{
    static const char blanks[] = " \t\r\n";

    for (struct ast_raw *raw = front->all.nests; raw; raw = raw->next) {
        const char *all = raw->span.source->text;
        const char *at = all + raw->span.begin + strlen("blocked");
        at += strspn(at, blanks);
        const size_t bytes = strcspn(at, " \t\r\n#{\"");
        const char *brace = at + bytes + strspn(at + bytes, blanks);
        const uint32_t begin = (uint32_t)(at - all);
        if (bytes == 0 || *brace != '{') {
            fy_error(front, raw->span, "write `blocked NAME { ... }'");
            continue;
        }
        const char *name = fy_arena_text(&front->arena, at, bytes);
        if (find_nest(front, name)) {
            const struct fy_span span = {raw->span.source, begin,
                                         begin + (uint32_t)bytes};
            fy_error(front, span, "algorithm '%.*s' is declared twice",
                     FY_MAX_QUOTED, name);
        }
        raw->name = name;
        raw->text = nest_text(front, raw->span, (uint32_t)(brace + 1 - all));
    }
}

/* Returns true if that is the algorithm, and the text of one that a file
 * declares. */
static bool
find_algorithm(struct fy_front *front, const char *name, struct fy_span span,
               const char **text)
{
    const struct ast_raw *nest = find_nest(front, name);
    struct fy_suggestion suggestion = {.wanted = name};
    const char *all = "";

    *text = nest ? nest->text : "";
    if (nest) {
        return nest->text != NULL;
    }
    for (size_t i = 0; i < sizeof built_in / sizeof built_in[0]; i++) {
        if (strcmp(built_in[i], name) == 0) {
            return true;
        }
        fy_suggestion_try(&suggestion, built_in[i]);
        all = fy_arena_print(&front->arena, "%s%s ", all, built_in[i]);
    }
    for (nest = front->all.nests; nest; nest = nest->next) {
        if (nest->name) {
            fy_suggestion_try(&suggestion, nest->name);
        }
    }
    struct fy_diagnostic *diagnostic =
        fy_error(front, span, "unknown algorithm '%.*s'", FY_MAX_QUOTED, name);
    fy_diagnostic_suggest(diagnostic, &suggestion);
    fy_diagnostic_hint(
        diagnostic, "%sor one that is declared: import \"blocked.ferry\"", all);
    return false;
}

/* The interface of the functions that an algorithm calls. */
static const char *
interface_of(const struct fy_unit *unit)
{
    return strcmp(unit->interface, "lapacke") == 0 ? "fortran"
                                                   : unit->interface;
}

static const struct fy_unit *
find_unit(struct fy_front *front, const struct fy_unit *unit, const char *name)
{
    const struct fy_map_entry *entry = fy_map_find(
        &front->known.functions,
        fy_arena_print(&front->arena, "%s %s", interface_of(unit), name));

    return entry ? front->units.row[entry->value] : NULL;
}

/* The function of that name behind a prefix: one of a list, or the unit. NULL: none. */
static const struct fy_unit *
find_called(struct fy_front *front, const struct fy_unit *unit,
            const char *list, const char *name)
{
    const size_t bytes = strlen(name);

    for (; *list; list += strspn(list, " ")) {
        const size_t length = strcspn(list, " ");
        if (length > bytes && memcmp(list + length - bytes, name, bytes) == 0) {
            return find_unit(front, unit,
                             fy_arena_text(&front->arena, list, length));
        }
        list += length;
    }
    return NULL;
}

static unsigned
count_matrices(const struct fy_unit *unit)
{
    static const char *const names[] = {"a", "b", "c", "ipiv", "tau"};
    unsigned count = 0;

    for (unsigned i = 0; i < unit->row.nargs; i++) {
        for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
            count += strcmp(unit->args[i].name, names[n]) == 0 ? 1 : 0;
        }
    }
    return count;
}

/* A call must name the function itself or another annotated one. */
static bool
check_call(struct fy_body *body, const struct ast_statement *s,
           const struct fy_nest_call *call, const char *algorithm,
           const char *using)
{
    const bool own =
        strcmp(call->name, "self") == 0 || strcmp(call->name, algorithm) == 0;
    const struct fy_unit *called =
        own ? body->unit
            : find_called(body->front, body->unit, using, call->name);

    if (!called) {
        fy_error(body->front, s->name.span,
                 "'%s' calls %s, which `using' does not name", algorithm,
                 call->name);
    } else if (count_matrices(called) != call->noperands) {
        fy_error(body->front, s->name.span,
                 "'%s' calls %s with %u matrices, which has %u", algorithm,
                 called->name, call->noperands, count_matrices(called));
        called = NULL;
    }
    return called != NULL;
}

static void
check_calls(struct fy_body *body, const struct ast_statement *s,
            const char *algorithm, const char *text, const char *using)
{
    struct fy_nest_reader reader = {.at = text};
    struct fy_nest_head head;
    struct fy_nest nest;
    bool good = fy_nest_read_head(&reader, &head);

    while (good && fy_nest_more(&reader) && fy_nest_read(&reader, &nest)) {
        for (unsigned b = 0; good && b < nest.nbodies; b++) {
            for (unsigned c = 0; good && c < nest.bodies[b].ncalls; c++) {
                good = check_call(body, s, &nest.bodies[b].calls[c], algorithm,
                                  using);
            }
        }
    }
}

/* The functions behind `using', with blanks between; NULL after an error. */
static const char *
functions_used(struct fy_front *front, struct fy_unit *unit,
               const struct ast_statement *s)
{
    const char *using = "";
    bool good = true;

    for (const struct ast_names *n = s->names; n; n = n->next) {
        const char *name = fy_expand(front, unit, n->name);
        if (!name) {
            return NULL;
        }
        if (!find_unit(front, unit, name)) {
            good = false;
            struct fy_suggestion near = {.wanted = name};
            for (size_t u = 0; u < front->units.count; u++) {
                if (strcmp(front->units.row[u]->interface, unit->interface) ==
                    0) {
                    fy_suggestion_try(&near, front->units.row[u]->name);
                }
            }
            fy_diagnostic_suggest(
                fy_error(front, n->name.span, "unknown %s function '%.*s'",
                         unit->interface, FY_MAX_QUOTED, name),
                &near);
        }
        using = fy_arena_print(&front->arena, "%s%s%s", using,
                               using[0] ? " " : "", name);
    }
    return good ? using : NULL;
}

void
fy_compile_blocked(struct fy_body *body, const struct ast_statement *s)
{
    struct fy_front *front = body->front;
    struct fy_unit *unit = body->unit;
    const char *algorithm = fy_expand(front, unit, s->name);
    const char *text, *using;

    if (!algorithm || !find_algorithm(front, algorithm, s->name.span, &text)) {
        return;
    }
    using = functions_used(front, unit, s);
    if (!using) {
        return;
    }
    if (text[0]) {
        check_calls(body, s, algorithm, text, using);
    }
    if (unit->row.blocked_by) {
        fy_error(front, s->span, "this statement stands here twice");
    }
    unit->row.blocked_by = fy_intern(front, algorithm);
    unit->row.blocked_using = fy_intern(front, using);
    unit->row.blocked_nest = fy_intern(front, text);
}
