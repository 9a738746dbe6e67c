/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiled command blocks as text, in the words of the language.
 */
#include "config.h"

#include "annotations/commands/model.h"

static const char *const compare_words[] = {"==", "!=", "<", "<=", ">", ">="};

static void
dump_text(FILE *to, const char *text)
{
    (void)fputc('"', to);
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\') {
            (void)fputc('\\', to);
        }
        (void)fputc(*text, to);
    }
    (void)fputc('"', to);
}

/* A spelling or a name; those that are no token of the language are quoted. */
static void
dump_name(FILE *to, const char *name)
{
    const char *c = name;
    while ((*c == '-' || *c == '+') && c < name + 2) {
        c++;
    }
    bool plain = *c != '\0' && *c != '-' && *c != '.';
    for (; *c != '\0' && plain; c++) {
        plain = *c == '_' || *c == '-' || *c == '.' ||
                (*c >= '0' && *c <= '9') || (*c >= 'a' && *c <= 'z') ||
                (*c >= 'A' && *c <= 'Z') || (*c == '=' && name[0] != '-');
    }
    if (plain) {
        (void)fputs(name, to);
    } else {
        dump_text(to, name);
    }
}

static void
dump_condition(const struct fy_block *block, uint16_t index, FILE *to)
{
    const struct fy_condition *node = &block->conditions[index];
    switch (node->op) {
    case CMD_TRUE:
        (void)fputs("true", to);
        return;
    case CMD_FALSE:
        (void)fputs("false", to);
        return;
    case CMD_NOT:
        (void)fputc('!', to);
        dump_condition(block, node->a, to);
        return;
    case CMD_AND:
    case CMD_OR:
        (void)fputc('(', to);
        dump_condition(block, node->a, to);
        (void)fputs(node->op == CMD_AND ? " && " : " || ", to);
        dump_condition(block, node->b, to);
        (void)fputc(')', to);
        return;
    case CMD_GIVEN:
        dump_name(to, node->name);
        return;
    case CMD_ENV:
        (void)fputs("env(", to);
        dump_name(to, node->text);
        (void)fputc(')', to);
        return;
    case CMD_BEFORE:
        (void)fputs("before(", to);
        dump_name(to, node->name);
        (void)fputs(", ", to);
        dump_name(to, node->text);
        (void)fputc(')', to);
        return;
    case CMD_EQUAL:
        dump_name(to, node->name);
        (void)fputs(" == ", to);
        dump_text(to, node->text);
        return;
    case CMD_MATCHES:
    case CMD_ONLY:
        (void)fputs(node->op == CMD_ONLY ? "only(" : "matches(", to);
        dump_name(to, node->name);
        (void)fputs(", ", to);
        dump_text(to, node->text);
        (void)fputc(')', to);
        return;
    default:
        (void)fputs(node->op == CMD_COUNT ? "count(" : "value(", to);
        dump_name(to, node->name);
        (void)fprintf(to, ") %s %lld", compare_words[node->compare],
                      (long long)node->number);
    }
}

static void
dump_when(const struct fy_block *block, uint16_t condition, FILE *to)
{
    if (condition != FY_ALWAYS) {
        (void)fputs(" when ", to);
        dump_condition(block, condition, to);
    }
}

/* A statement of one condition, unless that never holds. */
static void
dump_if(const struct fy_block *block, const char *words, uint16_t condition,
        FILE *to)
{
    if (condition != FY_NEVER) {
        (void)fprintf(to, "    %s", words);
        dump_when(block, condition, to);
        (void)fputc('\n', to);
    }
}

static void
dump_clauses(const struct fy_block *block, const struct fy_slot *slot, FILE *to)
{
    static const char *const words[] = {"", " in", " out", " inout"};
    if (slot->is_path) {
        (void)fputs(slot->is_folder ? " folder" : words[slot->access & 3], to);
    }
    (void)fputs(slot->is_dash ? " dash" : "", to);
    (void)fputs(slot->is_run ? " runs" : "", to);
    if (slot->place) {
        (void)fputc(' ', to);
        dump_text(to, slot->place);
    }
    for (unsigned i = 0; i < FY_MAX_ENDS && slot->until[i]; i++) {
        (void)fputs(" until ", to);
        dump_text(to, slot->until[i]);
    }
    if (slot->present != FY_ALWAYS) {
        dump_when(block, slot->present, to);
    }
    if (slot->tree != FY_NEVER) {
        (void)fputs(" tree", to);
        dump_when(block, slot->tree, to);
    }
    if (slot->follows != FY_NEVER) {
        (void)fputs(" follows", to);
        dump_when(block, slot->follows, to);
    }
}

static void
dump_form(const struct fy_form *form, FILE *to)
{
    (void)fputc(' ', to);
    dump_name(to, form->text);
    if (form->argument == CMD_ARGUMENT_EQUALS) {
        (void)fprintf(to, "[=%s]", form->value);
    } else if (form->argument == CMD_ARGUMENT_ATTACHED) {
        (void)fprintf(to, "[%s]", form->value);
    }
}

static void
dump_slot(const struct fy_block *block, unsigned index, FILE *to)
{
    static const char *const words[] = {"flag", "option", "number -",
                                        "operand"};
    const struct fy_slot *slot = &block->slots[index];
    const struct fy_forms *forms =
        slot->is_common && block->common ? block->common : &block->own;
    bool needs_name = slot->kind != FY_SLOT_VALUE;
    if (slot->kind == FY_SLOT_VALUE && !slot->key) {
        return; /* printed with the first value */
    }
    (void)fprintf(to, "    %s%s", forms == block->common ? "common " : "",
                  words[slot->kind]);
    for (unsigned i = 0; i < forms->nall; i++) {
        if (forms->all[i].slot == index && slot->key &&
            slot->kind != FY_SLOT_NUMBER) {
            dump_form(&forms->all[i], to);
            needs_name =
                needs_name || forms->all[i].argument == CMD_ARGUMENT_NEXT;
        }
    }
    if (slot->name && needs_name) {
        (void)fprintf(to, "%s%s%s", slot->kind == FY_SLOT_NUMBER ? "" : " ",
                      slot->name,
                      slot->is_repeated   ? "..."
                      : slot->is_optional ? "?"
                                          : "");
    }
    if (slot->name) {
        dump_clauses(block, slot, to);
    }
    for (unsigned more = slot->next; more != 0;
         more = block->slots[more].next) {
        (void)fprintf(to, " %s", block->slots[more].name);
        dump_clauses(block, &block->slots[more], to);
    }
    (void)fputc('\n', to);
}

static void
dump_rules(const struct fy_block *block, const char *statement,
           const struct fy_rules *rules, const char *const *words, FILE *to)
{
    for (unsigned i = 0; i < rules->count; i++) {
        (void)fprintf(to, "    %s %s", statement, words[rules->items[i].word]);
        if (rules->items[i].text) {
            (void)fputs(" with ", to);
            dump_text(to, rules->items[i].text);
        }
        dump_when(block, rules->items[i].when, to);
        (void)fputc('\n', to);
    }
}

static void
dump_texts(const struct fy_block *block, FILE *to)
{
    for (unsigned i = 0; i < block->requires.count; i++) {
        (void)fputs("    require ", to);
        dump_condition(block, block->requires.items[i].when, to);
        (void)fputc('\n', to);
    }
    for (unsigned i = 0; i < block->nevers.count; i++) {
        (void)fputs("    never ", to);
        if (block->nevers.items[i].when != FY_ALWAYS) {
            dump_condition(block, block->nevers.items[i].when, to);
            (void)fputc(' ', to);
        }
        dump_text(to, block->nevers.items[i].text);
        (void)fputc('\n', to);
    }
    for (unsigned i = 0; i < block->configs.count; i++) {
        (void)fputs("    reads ", to);
        dump_text(to, block->configs.items[i].text);
        dump_when(block, block->configs.items[i].when, to);
        (void)fputc('\n', to);
    }
    for (unsigned i = 0; i < block->carries.count; i++) {
        (void)fputs("    carries ", to);
        dump_text(to, block->carries.items[i].text);
        dump_when(block, block->carries.items[i].when, to);
        (void)fputc('\n', to);
    }
    for (unsigned i = 0; i < block->variables.count; i++) {
        (void)fprintf(to, "%s \"%s\"%s", i ? "," : "    environment",
                      block->variables.items[i].text,
                      i + 1 < block->variables.count ? "" : "\n");
    }
    for (unsigned i = 0; i < block->absents.count; i++) {
        const struct fy_rule *rule = &block->absents.items[i];
        (void)fputs(rule->word ? "    present " : "    absent ", to);
        dump_text(to, rule->text);
        if (rule->matching) {
            (void)fputs(" matching ", to);
            dump_text(to, rule->matching);
        }
        dump_when(block, rule->when, to);
        (void)fputc('\n', to);
    }
}

static void
dump_block(const struct fy_block *block, FILE *to)
{
    if (block->own.is_words || block->is_bundle || block->is_first) {
        (void)fprintf(
            to, "    style%s%s%s\n", block->own.is_words ? " words" : "",
            block->is_bundle ? " bundle" : "", block->is_first ? " first" : "");
    }
    for (unsigned i = 0; i < block->nslots; i++) {
        dump_slot(block, i, to);
    }
    dump_texts(block, to);
    dump_if(block, "stdin", block->reads_stdin, to);
    dump_if(block, "reads cwd", block->reads_cwd, to);
    dump_if(block, "reads cwd tree", block->cwd_is_tree, to);
    for (unsigned i = 0; i < block->written.count; i++) {
        const struct fy_rule *rule = &block->written.items[i];
        (void)fprintf(to, "    writes cwd%s", fy_written_words[rule->word]);
        if (rule->text) {
            (void)fputc(' ', to);
            dump_text(to, rule->text);
        }
        dump_when(block, rule->when, to);
        (void)fputc('\n', to);
    }
    dump_rules(block, "stdout", &block->outputs, fy_output_words, to);
    for (unsigned i = 0; i < block->works.count; i++) {
        (void)fprintf(to, "    work %g", block->works.items[i].number);
        dump_when(block, block->works.items[i].when, to);
        (void)fputc('\n', to);
    }
    for (unsigned i = 0; i < FY_TRAITS; i++) {
        dump_if(block, fy_trait_words[i], block->traits[i], to);
    }
    dump_rules(block, "split", &block->splits, fy_split_words, to);
    dump_rules(block, "merge", &block->merges, fy_merge_words, to);
}

void
fy_commands_dump(const struct fy_commands *commands, FILE *to)
{
    for (size_t i = 0; i < commands->nentries; i++) {
        const struct fy_entry *entry = &commands->entries[i];
        (void)fprintf(to, "command %s  # %s:%u\n", entry->name,
                      entry->block->file, entry->block->line);
        dump_block(entry->block, to);
    }
}

static void
dump_use(const struct fy_use *use, const char *const *argv, FILE *to)
{
    static const char *const accesses[] = {"", "in", "out", "inout"};
    static const char *const kinds[] = {"", " tree", " folder"};
    (void)fprintf(to, "%s%s%s ", accesses[use->access & 3], kinds[use->kind],
                  use->follows ? " follows" : "");
    dump_text(to, argv[use->arg] + use->offset);
    (void)fprintf(to, "%s\n", use->is_stdin ? " # a stream" : "");
}

void
fy_invocation_dump(const struct fy_invocation *invocation,
                   const char *const *argv, FILE *to)
{
    (void)fprintf(to, "%s # %s:%u\n", invocation->key, invocation->file,
                  invocation->line);
    for (uint32_t i = 0; i < invocation->nuses; i++) {
        (void)fputs("    ", to);
        dump_use(&invocation->uses[i], argv, to);
    }
    for (uint32_t i = 0; i < invocation->nruns; i++) {
        (void)fputs("    runs ", to);
        dump_text(to, invocation->runs[i].program);
        (void)fprintf(to, "%s\n",
                      invocation->runs[i].effect ? " # an effect" : "");
    }
    for (size_t i = 0; invocation->configs[i]; i++) {
        (void)fputs("    reads ", to);
        dump_text(to, invocation->configs[i]);
        (void)fputc('\n', to);
    }
    for (size_t i = 0; invocation->carries[i]; i++) {
        (void)fputs("    carries ", to);
        dump_text(to, invocation->carries[i]);
        (void)fputc('\n', to);
    }
    for (size_t i = 0; invocation->variables[i]; i++) {
        (void)fprintf(to, "%s %s%s", i ? "," : "    environment",
                      invocation->variables[i],
                      invocation->variables[i + 1] ? "" : "\n");
    }
    for (uint32_t i = 0; i < invocation->nabsents; i++) {
        const struct fy_absent *absent = &invocation->absents[i];
        (void)fputs(absent->present ? "    present " : "    absent ", to);
        dump_text(to, absent->path);
        if (absent->matching) {
            (void)fputs(" matching ", to);
            dump_text(to, absent->matching);
        }
        (void)fputc('\n', to);
    }
    for (uint32_t i = 0; i < invocation->nwritten; i++) {
        (void)fprintf(to, "    writes cwd%s ",
                      fy_written_words[invocation->written[i].how]);
        dump_text(to, invocation->written[i].path);
        (void)fputc('\n', to);
    }
    (void)fprintf(to, "    %s%s%s%s%s%s",
                  invocation->pure && !invocation->effect ? "pure" : "effect",
                  invocation->reads_stdin ? ", stdin" : "",
                  invocation->reads_cwd ? ", reads cwd" : "",
                  invocation->cwd_is_tree ? " tree" : "",
                  invocation->cwd_follows ? " follows" : "",
                  invocation->writes_cwd ? ", writes cwd" : "");
    for (unsigned i = 0; i < FY_TRAITS; i++) {
        if (fy_invocation_is(invocation, i)) {
            (void)fprintf(to, ", %s", fy_trait_words[i]);
        }
    }
    (void)fprintf(to, "%s\n    stdout %s, work %g",
                  invocation->fed ? ", fed" : "",
                  fy_output_words[invocation->output], invocation->work);
    if (invocation->split != FY_SPLIT_NONE) {
        (void)fprintf(to, ", split %s%s%s, merge %s",
                      fy_split_words[invocation->split],
                      invocation->split_with ? " with " : "",
                      invocation->split_with ? invocation->split_with : "",
                      fy_merge_words[invocation->merge]);
    }
    (void)fputc('\n', to);
}
