/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All blocks of a compilation: which of them a later path replaces, which stand
 * under which name, and in which order they are tried.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "annotations/commands/check.h"

bool
fy_command_is_for(const struct cmd_block *block, const char *word)
{
    for (const struct cmd_title *t = block->titles; t; t = t->next) {
        if (strcmp(t->words->name.text, word) == 0) {
            return true;
        }
    }
    return false;
}

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
            entry.block = fy_command_block(check, own, entry.words[0], is_sub);
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
    struct fy_command *command = NULL;
    for (size_t i = 0; i < set->nentries; i++) {
        const struct fy_entry *entry = &set->entries[i];
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

/* What any block of the command reads: so the same block is chosen where only
 * these are known. */
static void
join_variables(struct fy_command_check *check, struct fy_command *command)
{
    size_t count = 1;
    for (size_t i = 0; i < command->nentries; i++) {
        count += command->entries[i].block->variables.count;
    }
    command->variables =
        fy_arena_array(check->arena, count, sizeof *command->variables);
    count = 0;
    for (size_t i = 0; i < command->nentries; i++) {
        const struct fy_rules *rules = &command->entries[i].block->variables;
        for (unsigned r = 0; r < rules->count; r++) {
            size_t known = 0;
            while (known < count && strcmp(command->variables[known],
                                           rules->items[r].text) != 0) {
                known++;
            }
            command->variables[known] = rules->items[r].text;
            count += known == count;
        }
    }
    command->variables[count] = NULL;
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
            used = !b->is_common && fy_command_is_for(b, t->words->name.text);
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
    memset(&set->regex_texts, 0, sizeof set->regex_texts);
    group_names(&check);
    if (fy_diagnostics_errors(diagnostics) > 0) {
        return;
    }
    for (size_t i = 0; i < set->ncommands; i++) {
        join_variables(&check, &set->commands[i]);
        fy_command_check_reach(diagnostics, &set->commands[i]);
    }
}
