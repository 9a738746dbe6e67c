/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declarations of a command block: flags, options with their values, operands,
 * and the tables of spellings that the argv parser looks them up in.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "annotations/commands/check.h"

struct fy_forms *
fy_command_forms(struct fy_command_check *check)
{
    return check->in_common && check->is_sub ? check->block->common
                                             : &check->block->own;
}

const struct fy_form *
fy_command_find_form(const struct fy_command_check *check, bool common,
                     const char *text)
{
    const struct fy_map_entry *entry =
        fy_map_find(&check->spellings[common], text);
    const struct fy_forms *forms =
        common ? check->block->common : &check->block->own;
    return entry ? &forms->all[entry->value - 1] : NULL;
}

static struct fy_slot *
slot_new(struct fy_command_check *check, enum fy_slot_kind kind,
         struct fy_span span)
{
    struct fy_block *block = check->block;
    if (block->nslots >= FY_MAX_SLOTS) {
        fy_command_too_many(check, span, "flags, options and operands",
                            FY_MAX_SLOTS);
        return NULL;
    }
    block->slots = fy_arena_grow(check->arena, block->slots, block->nslots,
                                 &check->slots_capacity, sizeof *block->slots);
    struct fy_slot *slot = &block->slots[block->nslots++];
    memset(slot, 0, sizeof *slot);
    slot->kind = (uint8_t)kind;
    slot->span = span;
    slot->is_common = check->in_common;
    return slot;
}

/* Says what is wrong with a spelling; false when it cannot be used. */
static bool
form_is_good(struct fy_command_check *check, const struct cmd_form *form)
{
    const char *text = form->name.text;
    const struct fy_forms *forms = fy_command_forms(check);
    bool words = forms->is_words;
    size_t bytes = strlen(text);
    if (bytes == 0 || (strcmp(text, "--") == 0 && !words)) {
        fy_error(check, form->name.span, "'%s' cannot be declared", text);
        return false;
    }
    if (fy_command_find_form(check, forms != &check->block->own, text)) {
        fy_error(check, form->name.span, "'%.*s' is declared twice",
                 FY_MAX_QUOTED, text);
        return false;
    }
    if (words || form->is_assignment) {
        return true;
    }
    if ((text[0] == '+' && bytes > 1) ||
        (text[0] == '-' && text[1] != '-' && bytes > 2)) {
        fy_diagnostic_hint(fy_error(check, form->name.span,
                                    "'%.*s' is no option of getopt_long()",
                                    FY_MAX_QUOTED, text),
                           "options like -name and +name need `style words;'");
        return false;
    }
    if (text[0] == '-' && strchr(text, '=')) {
        fy_error(check, form->name.span, "'%s' cannot be declared", text);
        return false;
    }
    if (form->argument == CMD_ARGUMENT_EQUALS && text[1] != '-') {
        fy_diagnostic_hint(fy_error(check, form->name.span,
                                    "a value after a short option has no '='"),
                           "write %.2s[%s]", text, form->value.text);
        return false;
    }
    if (form->argument == CMD_ARGUMENT_ATTACHED && text[1] == '-') {
        fy_diagnostic_hint(fy_error(check, form->name.span,
                                    "the value of a long option comes after "
                                    "'='"),
                           "write %s[=%s]", text, form->value.text);
        return false;
    }
    return true;
}

static void
form_new(struct fy_command_check *check, const struct cmd_form *form,
         uint16_t slot, uint8_t argument)
{
    struct fy_forms *forms = fy_command_forms(check);
    bool common = forms != &check->block->own;
    size_t *capacity = &check->forms_capacity[common];
    if (!form_is_good(check, form)) {
        return;
    }
    if (forms->nall >= FY_MAX_FORMS) {
        fy_command_too_many(check, form->name.span, "spellings", FY_MAX_FORMS);
        return;
    }
    forms->all = fy_arena_grow(check->arena, forms->all, forms->nall, capacity,
                               sizeof *forms->all);
    struct fy_form *row = &forms->all[forms->nall++];
    memset(row, 0, sizeof *row);
    row->text = fy_command_keep(check, form->name.text);
    row->bytes = (uint32_t)strlen(row->text);
    fy_map_add(check->scratch, &check->spellings[common], row->text, NULL)
        ->value = forms->nall;
    row->slot = slot;
    row->argument = argument;
    row->is_assignment = form->is_assignment;
    if (form->value.text) {
        row->value = fy_command_keep(check, form->value.text);
    }
}

static void
clause_access(struct fy_command_check *check, struct fy_slot *slot,
              const struct cmd_clause *clause, enum fy_access access)
{
    if (slot->is_path) {
        fy_error(check, clause->span, "a second access");
        return;
    }
    slot->is_path = true;
    slot->access = (uint8_t)access;
}

/* Takes the clauses, but for their conditions. */
static void
take_clauses(struct fy_command_check *check, struct fy_slot *slot,
             const struct cmd_value *value)
{
    for (const struct cmd_clause *c = value->clauses; c; c = c->next) {
        switch (c->kind) {
        case CMD_CLAUSE_IN:
            clause_access(check, slot, c, FY_ACCESS_IN);
            break;
        case CMD_CLAUSE_OUT:
            clause_access(check, slot, c, FY_ACCESS_OUT);
            break;
        case CMD_CLAUSE_INOUT:
            clause_access(check, slot, c, FY_ACCESS_INOUT);
            break;
        case CMD_CLAUSE_FOLDER:
            clause_access(check, slot, c, FY_ACCESS_IN);
            slot->is_folder = true;
            break;
        case CMD_CLAUSE_DASH:
            slot->is_dash = true;
            break;
        default:
            break;
        }
    }
    for (const struct cmd_clause *c = value->clauses; c; c = c->next) {
        bool wants_path = c->kind == CMD_CLAUSE_TREE ||
                          c->kind == CMD_CLAUSE_FOLLOWS ||
                          c->kind == CMD_CLAUSE_DASH;
        if (wants_path && (!slot->is_path || slot->is_folder)) {
            fy_diagnostic_hint(
                fy_error(check, c->span, "this is said of paths only"),
                "write in, out or inout before it");
            break;
        }
    }
    fy_command_take_run(check, slot, value);
    slot->tree = slot->follows = FY_NEVER;
    slot->present = FY_ALWAYS;
    slot->is_optional = value->is_optional;
    slot->is_repeated = value->is_repeated;
}

static void
declare_flags(struct fy_command_check *check, const struct cmd_item *item)
{
    unsigned index = check->block->nslots;
    struct fy_slot *slot = slot_new(check, FY_SLOT_FLAG, item->span);
    if (!slot) {
        return;
    }
    slot->key = fy_command_keep(check, item->forms->name.text);
    slot->tree = slot->follows = FY_NEVER;
    for (const struct cmd_form *f = item->forms; f; f = f->next) {
        form_new(check, f, (uint16_t)index, CMD_ARGUMENT_NONE);
    }
}

static void
declare_option(struct fy_command_check *check, const struct cmd_item *item)
{
    static const struct cmd_value no_value;
    const struct cmd_value *first = item->values ? item->values : &no_value;
    unsigned index = check->block->nslots, previous = 0;
    const char *bracket = NULL;
    bool has_bracket = false, named = first->name.text;
    const struct cmd_form *form = item->forms; /* there is one */
    do {
        if (form->value.text) {
            has_bracket = true;
            bracket = form->value.text;
        }
    } while ((form = form->next));
    if (!has_bracket && !named) {
        fy_diagnostic_hint(
            fy_error(check, item->span, "an option without a value"),
            "write its value's name behind it, or `flag'");
        return;
    }
    for (const struct cmd_value *v = first; v; v = v->next) {
        unsigned here = check->block->nslots;
        struct fy_slot *slot = slot_new(check, FY_SLOT_VALUE, item->span);
        if (!slot) {
            return;
        }
        slot->name =
            fy_command_keep(check, v->name.text ? v->name.text : bracket);
        take_clauses(check, slot, v);
        fy_command_check_run(check, slot,
                             v == first && !v->next && !has_bracket);
        if (v == first) {
            slot->key = fy_command_keep(check, item->forms->name.text);
        } else { /* which may have moved */
            slot[(ptrdiff_t)previous - (ptrdiff_t)here].next = (uint16_t)here;
        }
        previous = here;
    }
    for (const struct cmd_form *f = item->forms; f; f = f->next) {
        uint8_t argument = f->argument;
        if (argument == CMD_ARGUMENT_NONE && named) {
            argument = CMD_ARGUMENT_NEXT;
        }
        if (f->is_assignment && !named) {
            fy_error(check, f->name.span, "an option without a value");
            return;
        }
        form_new(check, f, (uint16_t)index, argument);
    }
}

static void
declare_number(struct fy_command_check *check, const struct cmd_item *item)
{
    struct fy_forms *forms = fy_command_forms(check);
    unsigned index = check->block->nslots;
    struct fy_slot *slot;
    if (forms->number) {
        fy_error(check, item->span, "a second `number'");
        return;
    }
    if (!(slot = slot_new(check, FY_SLOT_NUMBER, item->span))) {
        return;
    }
    slot->name = fy_command_keep(check, item->values->name.text);
    slot->key = "-NUM";
    slot->tree = slot->follows = FY_NEVER;
    forms->number = (uint16_t)(index + 1);
}

static void
declare_operand(struct fy_command_check *check, const struct cmd_item *item)
{
    struct fy_block *block = check->block;
    unsigned index = block->nslots;
    if (check->in_common && check->is_sub) {
        fy_error(check, item->span,
                 "an operand in front of a sub-command's name");
        return;
    }
    if (block->noperands >= FY_MAX_OPERAND_SPECS) {
        fy_command_too_many(check, item->span, "operands",
                            FY_MAX_OPERAND_SPECS);
        return;
    }
    struct fy_slot *slot = slot_new(check, FY_SLOT_OPERAND, item->span);
    if (!slot) {
        return;
    }
    slot->name = fy_command_keep(check, item->values->name.text);
    take_clauses(check, slot, item->values);
    fy_command_check_run(check, slot, true);
    block->operands =
        fy_arena_grow(check->arena, block->operands, block->noperands,
                      &check->operands_capacity, sizeof *block->operands);
    block->operands[block->noperands++] = (uint16_t)index;
}

void
fy_command_expect(struct fy_command_check *check,
                  const struct cmd_statement *statements)
{
    struct fy_forms *forms = fy_command_forms(check);
    bool common = forms != &check->block->own;
    for (const struct cmd_statement *s = statements; s; s = s->next) {
        for (const struct cmd_item *item = s->items; item; item = item->next) {
            check->slots_capacity += !item->values;
            for (const struct cmd_value *v = item->values; v; v = v->next) {
                check->slots_capacity++;
            }
            for (const struct cmd_form *f = item->forms; f; f = f->next) {
                check->forms_capacity[common]++;
            }
        }
    }
}

void
fy_command_reserve(struct fy_command_check *check)
{
    struct fy_block *block = check->block;
    if (check->slots_capacity > FY_MAX_SLOTS) {
        check->slots_capacity = FY_MAX_SLOTS;
    }
    block->slots = fy_arena_array(check->arena, check->slots_capacity,
                                  sizeof *block->slots);
    for (unsigned i = 0; i < 2; i++) {
        struct fy_forms *forms = i == 0 ? &block->own : block->common;
        struct fy_map *map = &check->spellings[i];
        if (!forms) {
            continue;
        }
        if (check->forms_capacity[i] > FY_MAX_FORMS) {
            check->forms_capacity[i] = FY_MAX_FORMS;
        }
        forms->all = fy_arena_array(check->arena, check->forms_capacity[i],
                                    sizeof *forms->all);
        for (map->capacity = 16;
             map->capacity < check->forms_capacity[i] * 2 + 2;
             map->capacity *= 2) {
        }
        map->entries =
            fy_arena_array(check->scratch, map->capacity, sizeof *map->entries);
    }
}

void
fy_command_declare(struct fy_command_check *check,
                   const struct cmd_statement *statement)
{
    for (const struct cmd_item *item = statement->items;
         item && !check->too_many; item = item->next) {
        switch (statement->kind) {
        case CMD_FLAG:
            declare_flags(check, item);
            break;
        case CMD_OPTION:
            declare_option(check, item);
            break;
        case CMD_NUMBER:
            declare_number(check, item);
            break;
        default:
            declare_operand(check, item);
            break;
        }
    }
}

/* The conditions of the clauses of the value of `slot'. */
static void
resolve_clauses(struct fy_command_check *check, unsigned index,
                const struct cmd_value *value)
{
    bool has_present = false;
    for (const struct cmd_clause *c = value->clauses; c; c = c->next) {
        uint16_t condition;
        if (c->kind != CMD_CLAUSE_TREE && c->kind != CMD_CLAUSE_FOLLOWS &&
            c->kind != CMD_CLAUSE_WHEN) {
            continue;
        }
        check->in_presence = c->kind == CMD_CLAUSE_WHEN &&
                             check->block->slots[index].kind == FY_SLOT_OPERAND;
        condition = fy_command_condition(check, c->condition);
        check->in_presence = false;
        struct fy_slot *slot = &check->block->slots[index];
        if (c->kind == CMD_CLAUSE_TREE) {
            slot->tree = fy_command_either(check, slot->tree, condition);
        } else if (c->kind == CMD_CLAUSE_FOLLOWS) {
            slot->follows = fy_command_either(check, slot->follows, condition);
        } else if (has_present) {
            fy_diagnostic_hint(fy_error(check, c->span, "a second condition"),
                               "join them by && or ||");
        } else {
            slot->present = condition;
            has_present = true;
        }
    }
}

void
fy_command_clauses(struct fy_command_check *check,
                   const struct cmd_statement *statement, unsigned *slot)
{
    for (const struct cmd_item *item = statement->items; item;
         item = item->next) {
        if (statement->kind == CMD_FLAG || statement->kind == CMD_NUMBER ||
            !item->values) {
            ++*slot;
            continue;
        }
        for (const struct cmd_value *v = item->values; v; v = v->next) {
            resolve_clauses(check, (*slot)++, v);
        }
    }
}

/* The first bytes of a text, so that their order is that of strcmp(). */
static uint64_t
prefix_of(const char *text)
{
    uint64_t prefix = 0;
    for (unsigned i = 0; i < sizeof prefix; i++) {
        prefix = prefix << 8 | (unsigned char)*text;
        text += *text != '\0';
    }
    return prefix;
}

void
fy_command_sort(const char *const *texts, unsigned count, uint16_t *order)
{
    uint64_t prefixes[FY_MAX_FORMS];
    for (unsigned i = 0; i < count; i++) {
        uint64_t prefix = prefix_of(texts[i]);
        unsigned low = 0, high = i; /* where it belongs */
        while (low < high) {
            unsigned middle = (low + high) / 2;
            if (prefixes[middle] > prefix ||
                (prefixes[middle] == prefix &&
                 strcmp(texts[order[middle]], texts[i]) > 0)) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        memmove(prefixes + low + 1, prefixes + low,
                (i - low) * sizeof *prefixes);
        memmove(order + low + 1, order + low, (i - low) * sizeof *order);
        prefixes[low] = prefix;
        order[low] = (uint16_t)i;
    }
}

/* Which of the tables a spelling belongs to. */
enum table {
    SHORT,
    LONG,
    WORD,
    ASSIGN
};

static enum table
table_of(const struct fy_forms *forms, const struct fy_form *form)
{
    if (form->is_assignment) {
        return ASSIGN;
    }
    if (forms->is_words || form->text[0] != '-' || form->bytes == 1) {
        return WORD;
    }
    return form->text[1] == '-' ? LONG : SHORT;
}

static void
finish(struct fy_command_check *check, struct fy_forms *forms)
{
    unsigned counts[4] = {0};
    const char **texts =
        fy_arena_array(check->scratch, forms->nall, sizeof *texts);
    uint16_t *order =
        fy_arena_array(check->scratch, forms->nall, sizeof *order);
    for (unsigned i = 0; i < forms->nall; i++) {
        counts[table_of(forms, &forms->all[i])]++;
        texts[i] = forms->all[i].text;
    }
    fy_command_sort(texts, forms->nall, order);
    forms->longs =
        fy_arena_array(check->arena, counts[LONG], sizeof *forms->longs);
    forms->words =
        fy_arena_array(check->arena, counts[WORD], sizeof *forms->words);
    forms->assign =
        fy_arena_array(check->arena, counts[ASSIGN], sizeof *forms->assign);
    for (unsigned i = 0; i < forms->nall; i++) {
        const struct fy_form *form = &forms->all[order[i]];
        switch (table_of(forms, form)) {
        case SHORT:
            forms->shorts[(unsigned char)form->text[1]] =
                (uint16_t)(order[i] + 1);
            break;
        case LONG:
            forms->longs[forms->nlongs] = *form;
            forms->longs[forms->nlongs].text += 2;
            forms->longs[forms->nlongs++].bytes -= 2;
            break;
        case WORD:
            forms->words[forms->nwords++] = *form;
            forms->has_plus = forms->has_plus || form->text[0] == '+';
            forms->has_brackets = forms->has_brackets ||
                                  form->argument == CMD_ARGUMENT_EQUALS ||
                                  form->argument == CMD_ARGUMENT_ATTACHED;
            break;
        case ASSIGN:
            forms->assign[forms->nassign++] = *form;
            break;
        }
    }
}

void
fy_command_finish_forms(struct fy_command_check *check)
{
    finish(check, &check->block->own);
    if (check->block->common) {
        finish(check, check->block->common);
    }
}
