/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks as they are written to blocks that can be matched: their statements,
 * with what they inherit from `common'.
 */
#include "config.h"

#include "annotations/commands/check.h"

#include <stdlib.h>
#include <string.h>

const char *const fy_split_words[] = {"none", "lines", "files", NULL};
const char *const fy_merge_words[] = {"concat", "sum",  "sort", "uniq",
                                      "head",   "tail", NULL};
const char *const fy_trait_words[FY_TRAITS] = {"owners",
                                               "attributes",
                                               "terminal",
                                               "targets",
                                               "handles signals",
                                               "shows modes",
                                               "removes folders",
                                               "replaces operands",
                                               "takes descriptors",
                                               "makes folders",
                                               "changes modes",
                                               "changes operands",
                                               "changes contents",
                                               "makes files",
                                               "excuses pipes",
                                               "outlives pipes",
                                               "ignores interrupts",
                                               "streams",
                                               "drains",
                                               "lists",
                                               "loads paths",
                                               "status found",
                                               "walks",
                                               "pure",
                                               "effect"};
const char *const fy_written_words[] = {"", " makes", " keeps"};
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

/* `name': the compilation's. */
static void
note_variable(struct fy_command_check *check, const char *name,
              struct fy_span span)
{
    const struct cmd_statement statement = {.span = span};
    struct fy_rules *known = &check->block->variables;
    for (unsigned i = 0; i < known->count; i++) {
        if (strcmp(known->items[i].text, name) == 0) {
            return;
        }
    }
    rule_add(check, &statement, known,
             (struct fy_rule){.text = fy_command_keep(check, name)});
}

/* "~/file" and "$NAME/file" are read where a variable says. */
static void
path_variable(struct fy_command_check *check, struct ast_name path)
{
    size_t n = strcspn(path.text, "/");
    if (path.text[0] == '~') {
        note_variable(check, "HOME", path.span);
    } else if (path.text[0] == '$' && n > 1) {
        note_variable(check,
                      fy_arena_text(check->scratch, path.text + 1, n - 1),
                      path.span);
    }
}

void
fy_command_variable(struct fy_command_check *check, struct ast_name name)
{
    size_t plain = strspn(name.text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789"
                                     "abcdefghijklmnopqrstuvwxyz");
    if (plain == 0 || strlen(name.text) > plain + (name.text[plain] == '*')) {
        fy_diagnostic_hint(
            fy_error(check, name.span, "expected the name of a variable"),
            "a `*' may stand at the end of a name");
        return;
    }
    note_variable(check, name.text, name.span);
}

static void
environment_statement(struct fy_command_check *check,
                      const struct cmd_statement *statement)
{
    for (const struct ast_names *n = statement->words; n; n = n->next) {
        fy_command_variable(check, n->name);
    }
}

/* One of several of which the first that holds counts. */
static void
choice_add(struct fy_command_check *check,
           const struct cmd_statement *statement, struct fy_rules *rules,
           struct fy_rule rule)
{
    if (rules->count > 0 && !check->in_common &&
        rules->items[rules->count - 1].when == FY_ALWAYS) {
        fy_diagnostic_hint(
            fy_warning(check, statement->span, "this is never looked at"),
            "one without a condition stands before it");
    }
    rule_add(check, statement, rules, rule);
}

/* A rule whose only word is one of a list. */
static void
word_rule(struct fy_command_check *check, const struct cmd_statement *statement,
          struct fy_rules *rules, const char *const *words, unsigned first)
{
    int word = find_word(check, statement->words->name, words, first);
    if (word >= 0) {
        choice_add(check, statement, rules,
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

/* A path that begins at no root, and stays below where it begins. */
static bool
is_inner_path(const char *text)
{
    size_t n;
    for (bool first = true; first || *text; first = false, text += n) {
        text += first ? 0 : 1;
        n = strcspn(text, "/");
        if (n == 0 || (n == 1 && text[0] == '.') ||
            (n == 2 && memcmp(text, "..", 2) == 0)) {
            return false;
        }
    }
    return true;
}

static void
written_statement(struct fy_command_check *check,
                  const struct cmd_statement *statement)
{
    struct fy_block *block = check->block;
    struct fy_rule rule = {.word = statement->how};
    const struct ast_names *paths = statement->words->next;
    holds_too(check, statement, &block->writes_cwd);
    if (!paths) {
        rule_add(check, statement, &block->written, rule);
    }
    for (; paths; paths = paths->next) {
        if (!is_inner_path(paths->name.text)) {
            fy_error(check, paths->name.span,
                     "expected a path below the working folder");
            return;
        }
        rule.text = fy_command_keep(check, paths->name.text);
        rule_add(check, statement, &block->written, rule);
    }
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
        written_statement(check, statement);
        return;
    }
    holds_too(check, statement, &block->reads_cwd);
    if (statement->is_tree) {
        holds_too(check, statement, &block->cwd_is_tree);
    }
}

static void
split_statement(struct fy_command_check *check,
                const struct cmd_statement *statement)
{
    int word = find_word(check, statement->words->name, fy_split_words, 1);
    if (word < 0) {
        return;
    }
    struct fy_rule rule = {.word = (uint8_t)word};
    if (statement->text.text) {
        rule.text = fy_command_keep(check, statement->text.text);
        if (word != FY_SPLIT_FILES || rule.text[0] != '-') {
            fy_error(check, statement->text.span,
                     "`with' is a flag that each part of `files' gets");
        }
    }
    choice_add(check, statement, &check->block->splits, rule);
}

static void
absent_statement(struct fy_command_check *check,
                 const struct cmd_statement *statement)
{
    struct fy_rule rule = {.word = statement->kind == CMD_PRESENT};
    if (statement->text.text) {
        if (!fy_command_regex(check, statement->text)) {
            return;
        }
        rule.matching = fy_command_keep(check, statement->text.text);
    }
    for (const struct ast_names *n = statement->words; n; n = n->next) {
        path_variable(check, n->name);
        rule.text = fy_command_keep(check, n->name.text);
        rule_add(check, statement, &check->block->absents, rule);
    }
}

/* `owners'; or `shows modes': a verb and one object that it knows. */
static void
trait_statement(struct fy_command_check *check,
                const struct cmd_statement *statement)
{
    const char *verb = statement->words->name.text;
    const char *objects[FY_TRAITS + 1] = {NULL};
    size_t n = strlen(verb);
    unsigned traits[FY_TRAITS], count = 0;
    for (unsigned i = 0; i < FY_TRAITS; i++) {
        if (strcmp(fy_trait_words[i], verb) == 0) {
            holds_too(check, statement, &check->block->traits[i]);
            return;
        }
        if (strncmp(fy_trait_words[i], verb, n) == 0 &&
            fy_trait_words[i][n] == ' ') {
            objects[count] = fy_trait_words[i] + n + 1;
            traits[count++] = i;
        }
    }
    int at = find_word(check, statement->words->next->name, objects, 0);
    if (at >= 0) {
        holds_too(check, statement, &check->block->traits[traits[at]]);
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
            path_variable(check, n->name);
            rule.text = fy_command_keep(check, n->name.text);
            rule_add(check, statement, &block->configs, rule);
        }
        break;
    case CMD_CARRIES:
        for (const struct ast_names *n = statement->words; n; n = n->next) {
            if (n->name.text[0] != '/') {
                fy_error(check, n->name.span, "the path is not absolute");
            }
            rule.text = fy_command_keep(check, n->name.text);
            rule_add(check, statement, &block->carries, rule);
        }
        break;
    case CMD_WORK:
        rule.number = statement->number;
        if (!(rule.number > 0)) {
            fy_error(check, statement->span, "work is a number above 0");
        }
        choice_add(check, statement, &block->works, rule);
        break;
    case CMD_ABSENT:
    case CMD_PRESENT:
        absent_statement(check, statement);
        break;
    case CMD_TRAIT:
        trait_statement(check, statement);
        break;
    case CMD_ENVIRONMENT:
        environment_statement(check, statement);
        break;
    case CMD_SPLIT:
        split_statement(check, statement);
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
    EXPECT,
    DECLARE,
    CLAUSES,
    STATEMENTS
};

static void
run_phase(struct fy_command_check *check, const struct cmd_block *block,
          enum phase phase, unsigned *slot)
{
    if (phase == EXPECT) {
        fy_command_expect(check, block->statements);
        return;
    }
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

static void
common_blocks(struct fy_command_check *check, const char *first,
              enum phase phase, unsigned *slot)
{
    check->in_common = true;
    for (const struct cmd_block *b = check->commons; b; b = b->next_common) {
        if (fy_command_is_for(b, first)) {
            run_phase(check, b, phase, slot);
        }
    }
    check->in_common = false;
}

static void
all_blocks(struct fy_command_check *check, const struct cmd_block *own,
           const char *first, enum phase phase)
{
    unsigned slot = 0;
    if (phase == STATEMENTS) { /* the first that holds: a block's own */
        run_phase(check, own, phase, &slot);
        common_blocks(check, first, phase, &slot);
    } else {
        common_blocks(check, first, phase, &slot);
        run_phase(check, own, phase, &slot);
    }
}

/* Paths are said to be made below or kept, and none to be written. */
static bool
only_limits(const struct fy_rules *written)
{
    for (size_t i = 0; i < written->count; i++) {
        if (written->items[i].word == FY_WRITTEN) {
            return false;
        }
    }
    return written->count > 0;
}

/* Checks the rules for a block as a whole. */
static void
check_whole(struct fy_command_check *check, const struct cmd_block *own)
{
    const struct fy_block *block = check->block;
    const struct fy_slot *repeated = NULL;
    if (block->traits[FY_TRAIT_PURE] == FY_NEVER &&
        block->traits[FY_TRAIT_EFFECT] == FY_NEVER) {
        fy_diagnostic_hint(
            fy_error(check, own->span,
                     "neither `pure' nor `effect' is said of this command"),
            "pure: it may be run twice and writes nothing but its output");
    }
    if (only_limits(&block->written)) {
        fy_diagnostic_hint(
            fy_error(check, own->span,
                     "`writes cwd makes' or `keeps' without `writes cwd'"),
            "they say more of a path that is said to be written");
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
    const char **texts =
        fy_arena_array(check->scratch, block->nslots, sizeof *texts);
    uint16_t *slots =
        fy_arena_array(check->scratch, block->nslots, sizeof *slots);
    for (unsigned i = 0; i < block->nslots; i++) {
        if (block->slots[i].key) {
            texts[block->nkeys] = block->slots[i].key;
            slots[block->nkeys++] = (uint16_t)i;
        }
    }
    block->keys =
        fy_arena_array(check->arena, block->nkeys, sizeof *block->keys);
    fy_command_sort(texts, block->nkeys, block->keys);
    for (unsigned i = 0; i < block->nkeys; i++) {
        block->keys[i] = slots[block->keys[i]];
    }
}

const struct fy_block *
fy_command_block(struct fy_command_check *check, const struct cmd_block *own,
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
    memset(check->spellings, 0, sizeof check->spellings);
    check->too_many = false;
    block->file = fy_command_keep(check, own->span.source->name);
    block->doc = fy_command_keep(check, own->doc);
    fy_span_position(own->span, &block->line, &column);
    block->reads_stdin = block->reads_cwd = block->cwd_is_tree = FY_NEVER;
    block->writes_cwd = FY_NEVER;
    for (unsigned i = 0; i < FY_TRAITS; i++) {
        block->traits[i] = FY_NEVER;
    }
    for (const struct cmd_block *b = check->commons; b && is_sub;
         b = b->next_common) {
        if (fy_command_is_for(b, first) && !block->common) {
            block->common = fy_arena_alloc(check->arena, sizeof *block->common);
        }
    }
    fy_command_first_conditions(check);
    all_blocks(check, own, first, STYLES);
    all_blocks(check, own, first, EXPECT);
    fy_command_reserve(check);
    all_blocks(check, own, first, DECLARE);
    /* A name that could not be declared would be missed by every condition. */
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
