/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditions: names to the flags, values and operands they mean, texts to
 * compiled regular expressions. An expression that could be made to take long or
 * to eat memory is refused here, so that matching hostile arguments is safe.
 */
#include "config.h"

#include <ctype.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "annotations/commands/check.h"

enum {
    MAX_REGEX_BYTES = 1024,
    MAX_REGEX_GROUPS = 32,
    MAX_REGEX_REPEATS = 1000, /* product of the upper bounds of {m,n} */
};

static uint16_t
node_new(struct fy_command_check *check, struct fy_span span, enum cmd_op op)
{
    struct fy_block *block = check->block;
    if (check->nconditions >= FY_MAX_CONDITIONS) {
        fy_command_too_many(check, span, "conditions", FY_MAX_CONDITIONS);
        return FY_NEVER;
    }
    block->conditions =
        fy_arena_grow(check->arena, block->conditions, check->nconditions,
                      &check->conditions_capacity, sizeof *block->conditions);
    struct fy_condition *node = &block->conditions[check->nconditions];
    memset(node, 0, sizeof *node);
    node->op = (uint8_t)op;
    return (uint16_t)check->nconditions++;
}

void
fy_command_first_conditions(struct fy_command_check *check)
{
    static const struct fy_span no_span;
    (void)node_new(check, no_span, CMD_TRUE);
    (void)node_new(check, no_span, CMD_FALSE);
}

uint16_t
fy_command_either(struct fy_command_check *check, uint16_t a, uint16_t b)
{
    static const struct fy_span no_span;
    if (a == FY_NEVER || b == FY_ALWAYS) {
        return b;
    }
    if (b == FY_NEVER || a == FY_ALWAYS) {
        return a;
    }
    uint16_t node = node_new(check, no_span, CMD_OR);
    if (node != FY_NEVER) {
        check->block->conditions[node].a = a;
        check->block->conditions[node].b = b;
    }
    return node;
}

/* ---- names ---- */

static void
list_add(struct fy_command_check *check, uint16_t slot)
{
    struct fy_block *block = check->block;
    block->lists = fy_arena_grow(check->arena, block->lists, check->nlists,
                                 &check->lists_capacity, sizeof *block->lists);
    block->lists[check->nlists++] = slot;
}

static const struct fy_form *
find_flag(struct fy_command_check *check, const char *text)
{
    const struct fy_form *form = NULL;
    if (!check->in_common || !check->is_sub) {
        form = fy_command_find_form(check, false, text);
    }
    return form ? form : fy_command_find_form(check, true, text);
}

/* Adds the slots of that value name to the list; `operands': only those. */
static unsigned
list_named(struct fy_command_check *check, const char *name, bool common,
           bool operands)
{
    const struct fy_block *block = check->block;
    unsigned count = 0;
    for (unsigned i = 0; i < block->nslots; i++) {
        const struct fy_slot *slot = &block->slots[i];
        if (slot->name && slot->name[0] == name[0] &&
            strcmp(slot->name, name) == 0 &&
            (!check->is_sub || slot->is_common == common) &&
            (!operands || slot->kind == FY_SLOT_OPERAND)) {
            list_add(check, (uint16_t)i);
            count++;
        }
    }
    return count;
}

/*
 * Resolves a name. `FILE' alone and count(FILE) ask for operands if any are
 * called so; its texts are those of options too, because conditions on them
 * are mostly reasons why something may not be done.
 */
static unsigned
list_values(struct fy_command_check *check, const char *name, bool given)
{
    unsigned count = 0;
    bool own = !check->in_common || !check->is_sub;
    if (given && own) {
        count = list_named(check, name, false, true);
    }
    if (count == 0 && own) {
        count = list_named(check, name, false, false);
    }
    return count ? count : list_named(check, name, true, false);
}

static void
unknown(struct fy_command_check *check, struct ast_name name)
{
    const struct fy_block *block = check->block;
    struct fy_suggestion suggestion = {.wanted = name.text};
    struct fy_diagnostic *diagnostic =
        fy_error(check, name.span, "'%.*s' is not declared in this block",
                 FY_MAX_QUOTED, name.text);
    bool of_common = check->in_common && check->is_sub;
    const struct fy_forms *forms = of_common ? block->common : &block->own;
    for (unsigned i = 0; i < forms->nall; i++) {
        fy_suggestion_try(&suggestion, forms->all[i].text);
    }
    for (unsigned i = 0; i < block->nslots; i++) {
        if (block->slots[i].name && (!of_common || block->slots[i].is_common)) {
            fy_suggestion_try(&suggestion, block->slots[i].name);
        }
    }
    fy_diagnostic_suggest(diagnostic, &suggestion);
}

/* Lists the slots that `name' means; false after an error. */
static bool
list_slots(struct fy_command_check *check, const struct cmd_condition *c,
           struct ast_name name, const char **out_name)
{
    struct fy_block *block = check->block;
    size_t begin = check->nlists;
    const struct fy_form *form = find_flag(check, name.text);
    bool given = c->op == CMD_GIVEN || c->op == CMD_COUNT;
    if (form) {
        list_add(check, form->slot);
    } else if (list_values(check, name.text, given) == 0) {
        unknown(check, name);
        return false;
    }
    for (size_t i = begin; i < check->nlists; i++) {
        const struct fy_slot *slot = &block->slots[block->lists[i]];
        if (slot->kind == FY_SLOT_OPERAND && check->in_presence) {
            fy_error(check, name.span,
                     "whether an operand is there cannot depend on operands");
            return false;
        }
        bool placed = c->op == CMD_BEFORE && block->own.is_words;
        if (slot->kind == FY_SLOT_FLAG && !given && !placed) {
            fy_error(check, name.span, "'%.*s' has no value", FY_MAX_QUOTED,
                     name.text);
            return false;
        }
        if (slot->is_run && !given && c->op != CMD_BEFORE) {
            fy_error(check, name.span, "'%.*s' is a command, which has no text",
                     FY_MAX_QUOTED, name.text);
            return false;
        }
    }
    if (check->nlists > UINT16_MAX) {
        fy_command_too_many(check, name.span, "names in conditions",
                            UINT16_MAX);
        return false;
    }
    *out_name = form ? form->text : block->slots[block->lists[begin]].name;
    return true;
}

/* Fills the node's lists of slots; false after an error. */
static bool
resolve_name(struct fy_command_check *check, const struct cmd_condition *c,
             uint16_t node)
{
    const char *name = NULL, *second = NULL;
    size_t begin = check->nlists;
    if (!list_slots(check, c, c->name, &name)) {
        return false;
    }
    size_t middle = check->nlists;
    if (c->op == CMD_BEFORE && !list_slots(check, c, c->text, &second)) {
        return false;
    }
    struct fy_condition *row = &check->block->conditions[node];
    row->name = name;
    row->a = (uint16_t)begin;
    row->b = (uint16_t)(middle - begin);
    row->c = (uint16_t)middle;
    row->d = (uint16_t)(check->nlists - middle);
    row->text = second ? second : row->text;
    return true;
}

/* ---- regular expressions ---- */

/* NULL, or why the expression is refused. */
static const char *
regex_objection(const char *text)
{
    unsigned groups = 0;
    unsigned long repeats = 1;
    if (strlen(text) > MAX_REGEX_BYTES) {
        return "it is too long";
    }
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '\\' && c[1] != '\0') {
            c++;
            if (isdigit((unsigned char)*c)) {
                return "references back to groups can take for ever";
            }
        } else if (*c == '(' && ++groups > MAX_REGEX_GROUPS) {
            return "it has too many groups";
        } else if (*c == '{') {
            unsigned long most = strtoul(c + 1, NULL, 10);
            const char *comma = strchr(c, ',');
            if (comma && comma < c + strcspn(c, "}")) {
                unsigned long to = strtoul(comma + 1, NULL, 10);
                most = to > most ? to : most;
            }
            if (most > MAX_REGEX_REPEATS) {
                return "it repeats too often";
            }
            repeats *= most > 1 ? most : 1;
            if (repeats > MAX_REGEX_REPEATS) {
                return "it repeats too often";
            }
        }
    }
    return NULL;
}

const regex_t *
fy_command_regex(struct fy_command_check *check, struct ast_name text)
{
    struct fy_commands *set = check->set;
    const char *objection = regex_objection(text.text);
    char message[128];
    if (objection) {
        fy_error(check, text.span, "a bad regular expression: %s", objection);
        return NULL;
    }
    struct fy_map_entry *known =
        fy_map_add(check->scratch, &set->regex_texts, text.text, NULL);
    if (known->value > 0) {
        return set->regexes[known->value - 1];
    }
    set->regexes = fy_arena_grow(check->arena, set->regexes, set->nregexes,
                                 &set->regexes_capacity, sizeof *set->regexes);
    regex_t *regex = fy_arena_alloc(check->arena, sizeof *regex);
    int error = regcomp(regex, text.text, REG_EXTENDED | REG_NOSUB);
    if (error == REG_ESPACE) {
        longjmp(*check->arena->out_of_memory, 1);
    }
    if (error) {
        (void)regerror(error, regex, message, sizeof message);
        fy_error(check, text.span, "a bad regular expression: %s", message);
        return NULL;
    }
    set->regexes[set->nregexes++] = regex;
    known->value = set->nregexes;
    return regex;
}

/* ---- conditions ---- */

static uint16_t
build(struct fy_command_check *check, const struct cmd_condition *c,
      unsigned depth)
{
    uint16_t a = FY_NEVER, b = FY_NEVER, node;
    const regex_t *regex = NULL;
    if (depth > FY_MAX_CONDITION_DEPTH) {
        fy_error(check, c->span, "a condition of more than %d parts",
                 FY_MAX_CONDITION_DEPTH);
        return FY_NEVER;
    }
    if (c->op == CMD_TRUE) {
        return FY_ALWAYS;
    }
    if (c->op == CMD_FALSE) {
        return FY_NEVER;
    }
    if (c->a) {
        a = build(check, c->a, depth + 1);
    }
    if (c->b) {
        b = build(check, c->b, depth + 1);
    }
    if ((c->op == CMD_MATCHES || c->op == CMD_ONLY) &&
        !(regex = fy_command_regex(check, c->text))) {
        return FY_NEVER;
    }
    node = node_new(check, c->span, (enum cmd_op)c->op);
    if (node == FY_NEVER) {
        return FY_NEVER;
    }
    struct fy_condition *row = &check->block->conditions[node];
    row->a = a;
    row->b = b;
    row->compare = c->compare;
    row->number = c->number;
    row->regex = regex;
    if (c->op == CMD_ENV) {
        row->text = fy_command_keep(check, c->name.text);
        fy_command_variable(check, c->name);
    } else if (c->name.text) {
        row->text = c->text.text ? fy_command_keep(check, c->text.text) : NULL;
        if (!resolve_name(check, c, node)) {
            return FY_NEVER;
        }
    }
    return node;
}

uint16_t
fy_command_condition(struct fy_command_check *check,
                     const struct cmd_condition *condition)
{
    return condition ? build(check, condition, 0) : FY_ALWAYS;
}
