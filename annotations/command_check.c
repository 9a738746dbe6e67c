/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks as they are written to blocks that can be matched: what they inherit
 * from `common', their statements, and which block stands under which name.
 */
#include "config.h"

#include "annotations/command_check.h"

#include <stdlib.h>
#include <string.h>

const char *const fy_split_words[] = {"none", "lines", "files", NULL};
const char *const fy_merge_words[] = {"concat", "sum",  "sort", "uniq",
                                      "head",   "tail", NULL};
const char *const fy_output_words[] = {"nothing", "filters", "copies",
                                       "grows",   "names",   NULL};

const char *
fy_command_keep(struct fy_command_check *check, const char *text)
{
    return fy_arena_text(check->arena, text, strlen(text));
}

void
fy_command_too_many(struct fy_command_check *check, struct fy_span span,
                    const char *what, unsigned most)
{
    if (!check->too_many) {
        fy_error(check, span, "too many %s: at most %u", what, most);
    }
    check->too_many = true;
}

/* ---- statements ---- */

/* The index of a word in a list that ends with NULL; -1 after an error. */
static int
find_word(struct fy_command_check *check, struct ast_name name,
          const char *const *words, unsigned first)
{
    const char *all = "";
    for (unsigned i = first; words[i]; i++) {
        if (strcmp(words[i], name.text) == 0) {
            return (int)i;
        }
        all = fy_arena_print(check->scratch, "%s%s%s", all, *all ? ", " : "",
                             words[i]);
    }
    fy_diagnostic_hint(fy_error(check, name.span, "unknown word '%.*s'",
                                FY_MAX_QUOTED, name.text),
                       "one of: %s", all);
    return -1;
}

static void
rule_add(struct fy_command_check *check, const struct cmd_statement *statement,
         struct fy_rules *rules, struct fy_rule rule)
{
    size_t capacity = 0;
    if (rules->count >= FY_MAX_RULES) {
        fy_command_too_many(check, statement->span, "statements of a kind",
                            FY_MAX_RULES);
        return;
    }
    /* Capacities are 0, 8, 16, ...: the next one is needed at a power of 2. */
    if (rules->count > 0) {
        for (capacity = 8; capacity < rules->count; capacity *= 2) {
        }
    }
    rules->items = fy_arena_grow(check->arena, rules->items, rules->count,
                                 &capacity, sizeof *rules->items);
    rule.when = fy_command_condition(check, statement->condition);
    rules->items[rules->count++] = rule;
}

/* A rule whose only word is one of a list. */
static void
word_rule(struct fy_command_check *check, const struct cmd_statement *statement,
          struct fy_rules *rules, const char *const *words, unsigned first)
{
    int word = find_word(check, statement->words->name, words, first);
    if (word >= 0) {
        rule_add(check, statement, rules,
                 (struct fy_rule){.word = (uint8_t)word});
    }
}

static void
holds_too(struct fy_command_check *check, const struct cmd_statement *statement,
          uint16_t *condition)
{
    *condition = fy_command_either(
        check, *condition, fy_command_condition(check, statement->condition));
}

static void
folder_statement(struct fy_command_check *check,
                 const struct cmd_statement *statement)
{
    static const char *const folders[] = {"cwd", NULL};
    struct fy_block *block = check->block;
    if (find_word(check, statement->words->name, folders, 0) < 0) {
        return;
    }
    if (statement->kind == CMD_WRITES) {
        holds_too(check, statement, &block->writes_cwd);
        return;
    }
    holds_too(check, statement, &block->reads_cwd);
    if (statement->is_tree) {
        holds_too(check, statement, &block->cwd_is_tree);
    }
}

static void
compile_statement(struct fy_command_check *check,
                  const struct cmd_statement *statement)
{
    struct fy_block *block = check->block;
    struct fy_rule rule = {0};
    switch (statement->kind) {
    case CMD_STDIN:
        holds_too(check, statement, &block->reads_stdin);
        break;
    case CMD_STDOUT:
        word_rule(check, statement, &block->outputs, fy_output_words, 0);
        break;
    case CMD_REQUIRE:
        rule_add(check, statement, &block->requires, rule);
        break;
    case CMD_NEVER:
        rule.text = fy_command_keep(check, statement->words->name.text);
        rule_add(check, statement, &block->nevers, rule);
        break;
    case CMD_READS:
    case CMD_WRITES:
        folder_statement(check, statement);
        break;
    case CMD_CONFIGS:
        for (const struct ast_names *n = statement->words; n; n = n->next) {
            rule.text = fy_command_keep(check, n->name.text);
            rule_add(check, statement, &block->configs, rule);
        }
        break;
    case CMD_WORK:
        rule.number = statement->number;
        if (!(rule.number > 0)) {
            fy_error(check, statement->span, "work is a number above 0");
        }
        rule_add(check, statement, &block->works, rule);
        break;
    case CMD_OWNERS:
        holds_too(check, statement, &block->owners);
        break;
    case CMD_TERMINAL:
        holds_too(check, statement, &block->terminal);
        break;
    case CMD_PURE:
        holds_too(check, statement, &block->pure);
        break;
    case CMD_EFFECT:
        holds_too(check, statement, &block->effect);
        break;
    case CMD_SPLIT:
        word_rule(check, statement, &block->splits, fy_split_words, 1);
        break;
    case CMD_MERGE:
        word_rule(check, statement, &block->merges, fy_merge_words, 0);
        break;
    default:
        break;
    }
}

static void
take_style(struct fy_command_check *check,
           const struct cmd_statement *statement)
{
    static const char *const styles[] = {"words", "bundle", "first", "assign",
                                         NULL};
    for (const struct ast_names *n = statement->words; n; n = n->next) {
        switch (find_word(check, n->name, styles, 0)) {
        case 0:
            fy_command_forms(check)->is_words = true;
            break;
        case 1:
            check->block->is_bundle = true;
            break;
        case 2: /* options before a sub-command always end there */
            check->block->is_first =
                !check->in_common || !check->is_sub || check->block->is_first;
            break;
        default: /* `assign' is said by the options themselves */
            break;
        }
    }
}

/* ---- blocks ---- */

static bool
is_declaration(const struct cmd_statement *statement)
{
    return statement->kind == CMD_FLAG || statement->kind == CMD_OPTION ||
           statement->kind == CMD_NUMBER || statement->kind == CMD_OPERAND;
}

enum phase {
    STYLES,
    DECLARE,
    CLAUSES,
    STATEMENTS
};

static void
run_phase(struct fy_command_check *check, const struct cmd_block *block,
          enum phase phase, unsigned *slot)
{
    for (const struct cmd_statement *s = block->statements;
         s && !check->too_many; s = s->next) {
        if (phase == STYLES && s->kind == CMD_STYLE) {
            take_style(check, s);
        } else if (phase == DECLARE && is_declaration(s)) {
            fy_command_declare(check, s);
        } else if (phase == CLAUSES && is_declaration(s)) {
            fy_command_clauses(check, s, slot);
        } else if (phase == STATEMENTS) {
            compile_statement(check, s);
        }
    }
}

/* Whether a `common' block is for commands of that first word. */
static bool
is_for(const struct cmd_block *block, const char *word)
{
    for (const struct cmd_title *t = block->titles; t; t = t->next) {
        if (strcmp(t->words->name.text, word) == 0) {
            return true;
        }
    }
    return false;
}

static void
all_blocks(struct fy_command_check *check, const struct cmd_block *own,
           const char *first, enum phase phase)
{
    unsigned slot = 0;
    check->in_common = true;
    for (const struct cmd_block *b = check->commons; b; b = b->next_common) {
        if (is_for(b, first)) {
            run_phase(check, b, phase, &slot);
        }
    }
    check->in_common = false;
    run_phase(check, own, phase, &slot);
}

/* What must be true of a block as a whole. */
static void
check_whole(struct fy_command_check *check, const struct cmd_block *own)
{
    const struct fy_block *block = check->block;
    const struct fy_slot *repeated = NULL;
    if (block->pure == FY_NEVER && block->effect == FY_NEVER) {
        fy_diagnostic_hint(
            fy_error(check, own->span,
                     "neither `pure' nor `effect' is said of this command"),
            "pure: it may be run twice and writes nothing but its output");
    }
    if (block->merges.count > 0 && block->splits.count == 0) {
        fy_error(check, own->span, "`merge' without `split'");
    }
    if (block->splits.count > 0 && block->merges.count == 0) {
        fy_diagnostic_hint(
            fy_error(check, own->span, "`split' without `merge'"),
            "say how the outputs of the parts are put together");
    }
    for (unsigned i = 0; i < block->noperands; i++) {
        const struct fy_slot *slot = &block->slots[block->operands[i]];
        if (!slot->is_repeated || slot->present != FY_ALWAYS) {
            continue;
        }
        if (repeated) {
            fy_error(check, slot->span,
                     "only one operand can be repeated, and %s is",
                     repeated->name);
            break;
        }
        repeated = slot;
    }
}

static void
sort_keys(struct fy_command_check *check)
{
    struct fy_block *block = check->block;
    block->keys =
        fy_arena_array(check->arena, block->nslots, sizeof *block->keys);
    for (unsigned i = 0; i < block->nslots; i++) {
        unsigned at = block->nkeys;
        if (!block->slots[i].key) {
            continue;
        }
        /* Few of them: insertion keeps the order of equal ones. */
        for (; at > 0 && strcmp(block->slots[block->keys[at - 1]].key,
                                block->slots[i].key) > 0;
             at--) {
            block->keys[at] = block->keys[at - 1];
        }
        block->keys[at] = (uint16_t)i;
        block->nkeys++;
    }
}

static const struct fy_block *
compile_block(struct fy_command_check *check, const struct cmd_block *own,
              const char *first, bool is_sub)
{
    struct fy_block *block = fy_arena_alloc(check->arena, sizeof *block);
    unsigned before = fy_diagnostics_errors(check->diagnostics);
    uint32_t column;
    check->block = block;
    check->is_sub = is_sub;
    check->slots_capacity = check->conditions_capacity = 0;
    check->lists_capacity = check->operands_capacity = 0;
    check->forms_capacity[0] = check->forms_capacity[1] = 0;
    check->nconditions = check->nlists = 0;
    check->too_many = false;
    block->file = fy_command_keep(check, own->span.source->name);
    block->doc = fy_command_keep(check, own->doc);
    fy_span_position(own->span, &block->line, &column);
    block->reads_stdin = block->reads_cwd = block->cwd_is_tree = FY_NEVER;
    block->writes_cwd = block->owners = block->terminal = FY_NEVER;
    block->pure = block->effect = FY_NEVER;
    for (const struct cmd_block *b = check->commons; b && is_sub;
         b = b->next_common) {
        if (is_for(b, first) && !block->common) {
            block->common = fy_arena_alloc(check->arena, sizeof *block->common);
        }
    }
    fy_command_first_conditions(check);
    all_blocks(check, own, first, STYLES);
    all_blocks(check, own, first, DECLARE);
    /* What failed to be declared would be missed by every condition. */
    if (fy_diagnostics_errors(check->diagnostics) > before) {
        return block;
    }
    all_blocks(check, own, first, CLAUSES);
    all_blocks(check, own, first, STATEMENTS);
    check_whole(check, own);
    fy_command_finish_forms(check);
    sort_keys(check);
    return block;
}

/* ---- names ---- */

/* The words of a title in `entry'; false after an error. */
static bool
take_title(struct fy_command_check *check, const struct cmd_title *title,
           struct fy_entry *entry)
{
    const char *name = "";
    for (const struct ast_names *n = title->words; n; n = n->next) {
        if (entry->nwords == FY_MAX_WORDS) {
            fy_command_too_many(check, title->span, "words of a name",
                                FY_MAX_WORDS);
            return false;
        }
        if (n->name.text[0] == '\0' || strchr(n->name.text, '/')) {
            fy_error(check, n->name.span,
                     "a command's name is not empty and has no '/'");
            return false;
        }
        entry->words[entry->nwords++] = fy_command_keep(check, n->name.text);
        name = fy_arena_print(check->scratch, "%s%s%s", name,
                              name[0] ? " " : "", n->name.text);
    }
    entry->name = fy_command_keep(check, name);
    entry->span = title->span;
    return true;
}

static void
compile_titles(struct fy_command_check *check, const struct cmd_block *own,
               size_t *capacity)
{
    struct fy_commands *set = check->set;
    const struct fy_entry *previous = NULL;
    for (const struct cmd_title *t = own->titles; t; t = t->next) {
        struct fy_entry entry = {0};
        if (!take_title(check, t, &entry)) {
            continue;
        }
        bool is_sub = entry.nwords > 1;
        if (previous && strcmp(previous->words[0], entry.words[0]) == 0 &&
            is_sub == (previous->nwords > 1)) {
            entry.block = previous->block;
        } else {
            entry.block = compile_block(check, own, entry.words[0], is_sub);
        }
        if (set->nentries >= FY_MAX_BLOCKS) {
            fy_command_too_many(check, t->span, "command blocks",
                                FY_MAX_BLOCKS);
            return;
        }
        set->entries = fy_arena_grow(check->arena, set->entries, set->nentries,
                                     capacity, sizeof *set->entries);
        set->entries[set->nentries] = entry;
        previous = &set->entries[set->nentries++];
    }
}

/* By first word; longer names first, then as they are declared. */
static int
by_name(const void *a, const void *b)
{
    const struct fy_entry *x = a, *y = b;
    int order = strcmp(x->words[0], y->words[0]);
    if (order != 0) {
        return order;
    }
    if (x->nwords != y->nwords) {
        return x->nwords > y->nwords ? -1 : 1;
    }
    return x->order < y->order ? -1 : x->order > y->order;
}

static void
group_names(struct fy_command_check *check)
{
    struct fy_commands *set = check->set;
    if (set->nentries == 0) {
        return;
    }
    for (size_t i = 0; i < set->nentries; i++) {
        set->entries[i].order = i;
    }
    qsort(set->entries, set->nentries, sizeof *set->entries, by_name);
    set->commands =
        fy_arena_array(check->arena, set->nentries, sizeof *set->commands);
    for (size_t i = 0; i < set->nentries; i++) {
        const struct fy_entry *entry = &set->entries[i];
        struct fy_command *command =
            set->ncommands ? &set->commands[set->ncommands - 1] : NULL;
        if (!command || strcmp(command->name.name, entry->words[0]) != 0) {
            command = &set->commands[set->ncommands++];
            command->name.name = entry->words[0];
            command->entries = entry;
        }
        command->nentries++;
        const struct fy_block *block = entry->block;
        bool reads_stdin = block->reads_stdin != FY_NEVER;
        for (unsigned s = 0; s < block->nslots; s++) {
            reads_stdin =
                reads_stdin || (block->slots[s].is_dash &&
                                block->slots[s].access != FY_ACCESS_OUT);
        }
        command->name.reads_stdin = command->name.reads_stdin || reads_stdin;
        command->name.reads_cwd = command->name.reads_cwd ||
                                  block->reads_cwd != FY_NEVER ||
                                  block->writes_cwd != FY_NEVER;
    }
}

/* ---- all ---- */

static bool
same_title(const struct cmd_title *a, const struct cmd_title *b)
{
    const struct ast_names *x = a->words, *y = b->words;
    while (x && y && strcmp(x->name.text, y->name.text) == 0) {
        x = x->next;
        y = y->next;
    }
    return !x && !y;
}

/* Leads each block to the first one of a later path. */
static void
note_paths(struct cmd_block *blocks)
{
    struct cmd_block *next_path = NULL;
    for (struct cmd_block *b = blocks; b; b = b->next) {
        if (next_path == b) {
            next_path = NULL;
        }
        if (!next_path) {
            next_path = b->next;
            while (next_path && next_path->path == b->path) {
                next_path = next_path->next;
            }
        }
        b->next_path = next_path;
    }
}

/* Takes away the names of `block' that a block of a later path declares. */
static void
drop_replaced(struct cmd_block *block)
{
    struct cmd_title **link = &block->titles;
    while (*link) {
        bool replaced = false;
        for (const struct cmd_block *b = block->next_path; b && !replaced;
             b = b->next) {
            if (b->is_common != block->is_common) {
                continue;
            }
            for (const struct cmd_title *t = b->titles; t && !replaced;
                 t = t->next) {
                replaced = same_title(t, *link);
            }
        }
        if (replaced) {
            *link = (*link)->next;
        } else {
            link = &(*link)->next;
        }
    }
}

/* A `common' block that nothing inherits. */
static void
check_common(struct fy_command_check *check, const struct cmd_block *blocks,
             const struct cmd_block *common)
{
    for (const struct cmd_title *t = common->titles; t; t = t->next) {
        bool used = false;
        if (t->words->next) {
            fy_error(check, t->span, "`common' takes the first word only");
            continue;
        }
        for (const struct cmd_block *b = blocks; b && !used; b = b->next) {
            used = !b->is_common && is_for(b, t->words->name.text);
        }
        if (!used) {
            fy_warning(check, t->span, "no command '%.*s' inherits this",
                       FY_MAX_QUOTED, t->words->name.text);
        }
    }
}

void
fy_command_check_all(struct fy_arena *scratch,
                     struct fy_diagnostics *diagnostics,
                     struct cmd_block *blocks, struct fy_commands *set)
{
    struct fy_command_check check = {
        .diagnostics = diagnostics,
        .set = set,
        .arena = &set->arena,
        .scratch = scratch,
    };
    struct cmd_block **common = &check.commons;
    size_t capacity = 0;
    note_paths(blocks);
    for (struct cmd_block *b = blocks; b; b = b->next) {
        drop_replaced(b);
        if (b->is_common) {
            *common = b;
            common = &b->next_common;
        }
    }
    for (const struct cmd_block *b = blocks;
         b && !fy_diagnostics_full(diagnostics); b = b->next) {
        if (b->is_common) {
            check_common(&check, blocks, b);
        } else {
            compile_titles(&check, b, &capacity);
        }
    }
    group_names(&check);
    if (fy_diagnostics_errors(diagnostics) > 0) {
        return;
    }
    for (size_t i = 0; i < set->ncommands; i++) {
        fy_command_check_reach(diagnostics, &set->commands[i]);
    }
}
