/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `runs' and `until': what a command block says of a command line among its
 * arguments. Refuses a command whose end could not be found.
 */
#include "config.h"

#include <string.h>

#include "annotations/commands/check.h"

/* A command's end is one word, or two with a space between them. */
static bool
is_end(const char *text)
{
    const char *space = strchr(text, ' ');
    return *text && *text != ' ' &&
           (!space || (space[1] && !strchr(space + 1, ' ')));
}

void
fy_command_take_run(struct fy_command_check *check, struct fy_slot *slot,
                    const struct cmd_value *value)
{
    unsigned ends = 0;
    for (const struct cmd_clause *c = value->clauses; c; c = c->next) {
        if (c->kind == CMD_CLAUSE_RUNS && slot->is_run) {
            fy_error(check, c->span, "a second `runs'");
        } else if (c->kind == CMD_CLAUSE_RUNS) {
            slot->is_run = true;
            slot->place =
                c->text.text ? fy_command_keep(check, c->text.text) : NULL;
            if (slot->place && (!*slot->place || strchr(slot->place, ' '))) {
                fy_error(check, c->text.span, "expected one word");
            }
        }
    }
    for (const struct cmd_clause *c = value->clauses; c; c = c->next) {
        if (slot->is_run && c->kind != CMD_CLAUSE_RUNS &&
            c->kind != CMD_CLAUSE_UNTIL) {
            fy_error(check, c->span,
                     "this is not said of a command that is run");
        } else if (c->kind == CMD_CLAUSE_UNTIL && !slot->is_run) {
            fy_diagnostic_hint(
                fy_error(check, c->span, "`until' is said of commands only"),
                "write `runs' before it");
        } else if (c->kind == CMD_CLAUSE_UNTIL && !is_end(c->text.text)) {
            fy_error(check, c->text.span, "expected one word, or two");
        } else if (c->kind == CMD_CLAUSE_UNTIL && ends == FY_MAX_ENDS) {
            fy_command_too_many(check, c->span, "ends of a command",
                                FY_MAX_ENDS);
        } else if (c->kind == CMD_CLAUSE_UNTIL) {
            slot->until[ends++] = fy_command_keep(check, c->text.text);
        }
    }
}

void
fy_command_check_run(struct fy_command_check *check, const struct fy_slot *slot,
                     bool is_alone)
{
    bool operand = slot->kind == FY_SLOT_OPERAND;
    if (!slot->is_run) {
        return;
    }
    if (!is_alone) {
        fy_error(check, slot->span,
                 "a command that is run is the only value of its option");
    } else if (!operand && (!slot->until[0] || !slot->place)) {
        fy_diagnostic_hint(
            fy_error(check, slot->span,
                     "nothing ends the command that this option runs"),
            "write runs \"{}\" until \";\"");
    } else if (operand && (slot->until[0] || slot->place)) {
        fy_error(check, slot->span,
                 "an operand that is run ends with the arguments");
    } else if (operand && (!slot->is_repeated || !check->block->is_first)) {
        fy_diagnostic_hint(
            fy_error(check, slot->span,
                     "an operand that is run has all words behind it"),
            "write `%s... runs' and `style first'", slot->name);
    }
}
