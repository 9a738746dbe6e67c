/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks over the whole of a compilation.
 */
#include "config.h"

#include "annotations/compile.h"

/* Whether something can make this variant pass a call on to the next. */
static bool
can_decline(const struct fy_unit *unit)
{
    for (uint16_t i = 0; i < unit->row.nargs; i++)
        if (unit->args[i].from.text)
            return true;
    return unit->row.nrequires > 0;
}

void
fy_check_variants(struct fy_front *front)
{
    for (size_t i = 0; i < front->nunits; i++) {
        const struct fy_unit *unit = front->units[i];
        if (unit->row.next_variant == FY_NIL || can_decline(unit))
            continue;
        const struct fy_unit *next = front->units[unit->row.next_variant];
        fy_diagnostic_hint(
            fy_error(front, next->ast->span,
                     "function '%.*s' is declared twice", FY_MAX_QUOTED,
                     next->name),
            "the one at %s takes every call: a variant before it needs a "
            "`require' or a handle `from' a call",
            fy_place(front, unit->ast->span));
    }
}
