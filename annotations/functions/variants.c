/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of one name: those of a path given later replace those of earlier
 * ones, the rest are variants that are tried in order.
 */
#include "config.h"

#include <string.h>

#include "annotations/functions/compile.h"

static const char *
key_of(struct fy_front *front, const char *interface, const char *name)
{
    return fy_arena_print(&front->arena, "%s %s", interface, name);
}

/* Leaves only the units of the last path that declares their name. */
static void
drop_replaced(struct fy_front *front)
{
    struct fy_map newest = {0};
    size_t kept = 0;
    for (size_t i = 0; i < front->units.count; i++) {
        const struct fy_unit *unit = front->units.row[i];
        struct fy_map_entry *entry =
            fy_map_add(&front->arena, &newest,
                       key_of(front, unit->interface, unit->name), NULL);
        if (unit->ast->path > entry->value) {
            entry->value = unit->ast->path;
        }
    }
    for (size_t i = 0; i < front->units.count; i++) {
        struct fy_unit *unit = front->units.row[i];
        const struct fy_map_entry *entry =
            fy_map_find(&newest, key_of(front, unit->interface, unit->name));
        if (unit->ast->path == entry->value) {
            front->units.row[kept++] = unit;
        }
    }
    front->units.count = kept;
}

static void
chain_variant(struct fy_front *front, struct fy_unit *unit, uint32_t index)
{
    int is_new;
    const char *key = key_of(front, unit->interface, unit->name);
    struct fy_map_entry *entry =
        fy_map_add(&front->arena, &front->known.functions, key, &is_new);
    unit->row.next_variant = FY_NIL;
    unit->first = unit->last = index;
    if (is_new) {
        entry->value = index;
        return;
    }
    struct fy_unit *first = front->units.row[entry->value];
    bool same = first->row.nargs == unit->row.nargs &&
                first->result.type == unit->result.type;
    for (uint16_t i = 0; same && i < unit->row.nargs; i++) {
        same = first->args[i].resolved.type == unit->args[i].resolved.type &&
               first->args[i].resolved.is_reference ==
                   unit->args[i].resolved.is_reference;
    }
    if (!same) {
        fy_diagnostic_hint(
            fy_error(front, unit->ast->span,
                     "function '%.*s' is declared twice with different heads",
                     FY_MAX_QUOTED, unit->name),
            "the first is at %s; variants of a function have one head",
            fy_place(front, first->ast->span));
    }
    unit->first = (uint32_t)entry->value;
    front->units.row[first->last]->row.next_variant = index;
    first->last = index;
}

/* The unit a handle argument comes `from'. */
static void
find_maker(struct fy_front *front, struct fy_unit *unit,
           struct fy_unit_arg *arg)
{
    const char *name = fy_expand(front, unit, arg->from);
    if (!name) {
        return;
    }
    const struct fy_map_entry *entry = fy_map_find(
        &front->known.functions, key_of(front, unit->interface, name));
    if (entry) {
        arg->maker = (uint32_t)entry->value;
        return;
    }
    struct fy_suggestion suggestion = {.wanted = name};
    struct fy_diagnostic *diagnostic = fy_error(
        front, arg->from.span, "unknown function '%.*s'", FY_MAX_QUOTED, name);
    for (size_t u = 0; u < front->units.count; u++) {
        fy_suggestion_try(&suggestion, front->units.row[u]->name);
    }
    fy_diagnostic_suggest(diagnostic, &suggestion);
}

void
fy_chain_variants(struct fy_front *front)
{
    drop_replaced(front);
    for (size_t i = 0; i < front->units.count; i++) {
        chain_variant(front, front->units.row[i], (uint32_t)i);
    }
    for (size_t i = 0;
         i < front->units.count && !fy_diagnostics_full(front->diagnostics);
         i++) {
        for (uint16_t k = 0; k < front->units.row[i]->row.nargs; k++) {
            if (front->units.row[i]->args[k].from.text) {
                find_maker(front, front->units.row[i],
                           &front->units.row[i]->args[k]);
            }
        }
    }
}

/* Returns true if something can make this variant pass a call on to the
 * next. */
static bool
can_decline(const struct fy_unit *unit)
{
    for (uint16_t i = 0; i < unit->row.nargs; i++) {
        if (unit->args[i].from.text) {
            return true;
        }
    }
    return unit->row.nrequires > 0;
}

void
fy_check_variants(struct fy_front *front)
{
    for (size_t i = 0; i < front->units.count; i++) {
        const struct fy_unit *unit = front->units.row[i];
        if (unit->row.next_variant == FY_NIL || can_decline(unit)) {
            continue;
        }
        const struct fy_unit *next = front->units.row[unit->row.next_variant];
        fy_diagnostic_hint(
            fy_error(front, next->ast->span,
                     "function '%.*s' is declared twice", FY_MAX_QUOTED,
                     next->name),
            "the one at %s takes every call: a variant before it needs a "
            "`require' or a handle `from' a call",
            fy_place(front, unit->ast->span));
    }
}
