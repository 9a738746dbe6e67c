/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Warnings about blocks that cannot be reached: the first block that parses is
 * taken, so that one which takes everything hides those behind it.
 */
#include "config.h"

#include <string.h>

#include "annotations/commands/check.h"

static bool
same_words(const struct fy_entry *a, const struct fy_entry *b)
{
    return strcmp(a->name, b->name) == 0;
}

static const struct fy_form *
find_form(const struct fy_forms *forms, const char *text)
{
    for (unsigned i = 0; i < forms->nall; i++) {
        if (strcmp(forms->all[i].text, text) == 0) {
            return &forms->all[i];
        }
    }
    return NULL;
}

/* Returns true if `a' knows every spelling of `b', with as much behind it. */
static bool
knows_all(const struct fy_forms *a, const struct fy_forms *b)
{
    if (a->is_words != b->is_words || (b->number && !a->number)) {
        return false;
    }
    for (unsigned i = 0; i < b->nall; i++) {
        const struct fy_form *form = find_form(a, b->all[i].text);
        if (!form || form->argument != b->all[i].argument) {
            return false;
        }
    }
    return true;
}

/* Finds how many operands a block may take; false if that depends on the
 * arguments. */
static bool
operand_range(const struct fy_block *block, unsigned *least, unsigned *most)
{
    *least = *most = 0;
    for (unsigned i = 0; i < block->noperands; i++) {
        const struct fy_slot *slot = &block->slots[block->operands[i]];
        if (slot->present != FY_ALWAYS) {
            return false;
        }
        *least += !slot->is_optional && !slot->is_repeated;
        *most =
            slot->is_repeated || *most == UINT32_MAX ? UINT32_MAX : *most + 1;
    }
    return true;
}

/* Returns true if `a' parses all that `b' would. */
static bool
hides(const struct fy_block *a, const struct fy_block *b)
{
    unsigned a_least, a_most, b_least, b_most;
    if (a->requires.count > 0 || a->is_bundle != b->is_bundle ||
        a->is_first != b->is_first || !a->common != !b->common ||
        (a->traits[FY_TRAIT_PURE] != FY_ALWAYS &&
         a->traits[FY_TRAIT_EFFECT] != FY_ALWAYS)) {
        return false;
    }
    return knows_all(&a->own, &b->own) && operand_range(a, &a_least, &a_most) &&
           operand_range(b, &b_least, &b_most) && a_least <= b_least &&
           a_most >= b_most;
}

void
fy_command_check_reach(struct fy_diagnostics *diagnostics,
                       const struct fy_command *command)
{
    for (size_t i = 1; i < command->nentries; i++) {
        const struct fy_entry *later = &command->entries[i];
        for (size_t j = 0; j < i; j++) {
            const struct fy_entry *earlier = &command->entries[j];
            if (!same_words(earlier, later) ||
                !hides(earlier->block, later->block)) {
                continue;
            }
            fy_diagnostic_hint(
                fy_diagnostics_add(
                    diagnostics, FY_SEVERITY_WARNING, later->span,
                    "this block of '%s' is never reached", later->name),
                "the block at %s:%u takes all that it would",
                earlier->block->file, earlier->block->line);
            break;
        }
    }
}
