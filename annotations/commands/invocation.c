/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interprets arguments: finds the first block of a name that parses them, and
 * takes all of its statements.
 *
 * Reads argv and the compiled set only; any thread.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "annotations/commands/match.h"
#include "common/plain.h"

enum {
    SMALL = 64 /* arguments that need no allocation */
};

static bool
holds(struct fy_match *match, uint16_t condition)
{
    return fy_condition_holds(&match->parsed, condition);
}

/* The first rule that holds, or NULL. */
static const struct fy_rule *
first_rule(struct fy_match *match, const struct fy_rules *rules)
{
    for (unsigned i = 0; i < rules->count; i++) {
        if (holds(match, rules->items[i].when)) {
            return &rules->items[i];
        }
    }
    return NULL;
}

/* What a slot's conditions are, once they were asked for: the same for all that it is
 * given, and each may look at all arguments. */
struct asked {
    uint8_t present, tree, follows; /* 0: not yet; 1: no; 2: it holds */
};

static bool
holds_once(struct fy_match *match, uint16_t condition, uint8_t *asked)
{
    if (*asked == 0) {
        *asked = holds(match, condition) ? 2 : 1;
    }
    return *asked == 2;
}

static int
make_uses(struct fy_match *match, struct fy_invocation *out)
{
    const struct fy_block *block = match->block;
    struct asked asked[FY_MAX_SLOTS] = {0};
    if (match->parsed.ngiven == 0) {
        return FY_OK;
    }
    out->uses = malloc(match->parsed.ngiven * sizeof *out->uses);
    if (!out->uses) {
        return FY_ERR_NOMEM;
    }
    for (size_t i = 0; i < match->parsed.ngiven; i++) {
        const struct fy_given *given = &match->given[i];
        const struct fy_slot *slot = &block->slots[given->slot];
        struct asked *of = &asked[given->slot];
        const char *text = match->argv[given->arg] + given->offset;
        if (!slot->is_path ||
            (slot->kind != FY_SLOT_OPERAND &&
             !holds_once(match, slot->present, &of->present))) {
            continue;
        }
        struct fy_use *use = &out->uses[out->nuses++];
        *use = (struct fy_use){.arg = given->arg, .offset = given->offset};
        use->access = slot->access;
        use->is_listed = slot->kind == FY_SLOT_OPERAND && slot->is_repeated;
        use->is_stdin = slot->is_dash && text[0] == '-' && text[1] == '\0';
        use->kind = FY_USE_FILE;
        if (slot->is_folder) {
            use->kind = FY_USE_FOLDER;
        } else if (!use->is_stdin && holds_once(match, slot->tree, &of->tree)) {
            use->kind = FY_USE_TREE;
        }
        use->follows = use->kind == FY_USE_TREE &&
                       holds_once(match, slot->follows, &of->follows);
        if (use->is_stdin && (use->access & FY_ACCESS_IN)) {
            out->reads_stdin = true;
        }
        if (!use->is_stdin && (use->access & FY_ACCESS_OUT)) {
            out->effect = true;
        }
    }
    return FY_OK;
}

/* The texts of the rules that hold; new in *out, or an empty list. */
static int
make_texts(struct fy_match *match, const struct fy_rules *rules,
           const char *const **out)
{
    static const char *const none[] = {NULL};
    size_t count = 0;
    *out = none;
    if (rules->count == 0) {
        return FY_OK;
    }
    const char **texts = malloc((rules->count + 1) * sizeof *texts);
    if (!texts) {
        return FY_ERR_NOMEM;
    }
    for (unsigned i = 0; i < rules->count; i++) {
        if (holds(match, rules->items[i].when)) {
            texts[count++] = rules->items[i].text;
        }
    }
    texts[count] = NULL;
    if (count == 0) {
        free(texts);
    } else {
        *out = texts;
    }
    return FY_OK;
}

static int
make_absents(struct fy_match *match, struct fy_invocation *out)
{
    const struct fy_rules *rules = &match->block->absents;
    if (rules->count == 0) {
        return FY_OK;
    }
    struct fy_absent *absents = malloc(rules->count * sizeof *absents);
    if (!absents) {
        return FY_ERR_NOMEM;
    }
    out->absents = absents;
    for (unsigned i = 0; i < rules->count; i++) {
        const struct fy_rule *rule = &rules->items[i];
        if (holds(match, rule->when)) {
            absents[out->nabsents++] =
                (struct fy_absent){rule->text, rule->matching, rule->word != 0};
        }
    }
    return FY_OK;
}

/* Nothing is listed where a statement that holds names nothing: anything. */
static int
make_written(struct fy_match *match, struct fy_invocation *out)
{
    const struct fy_rules *rules = &match->block->written;
    if (rules->count == 0) {
        return FY_OK;
    }
    struct fy_written *written = malloc(rules->count * sizeof *written);
    if (!written) {
        return FY_ERR_NOMEM;
    }
    bool anything = false;
    out->written = written;
    for (unsigned i = 0; i < rules->count; i++) {
        const struct fy_rule *rule = &rules->items[i];
        if (holds(match, rule->when)) {
            anything = anything || !rule->text;
            written[out->nwritten++] =
                (struct fy_written){rule->text, rule->word};
        }
    }
    out->nwritten = anything ? 0 : out->nwritten;
    return FY_OK;
}

static int
make_key(struct fy_match *match, struct fy_invocation *out)
{
    const struct fy_block *block = match->block;
    size_t bytes = strlen(match->entry->name) + 1;
    for (unsigned i = 0; i < block->nkeys; i++) {
        if (match->times[block->keys[i]] > 0) {
            bytes += strlen(block->slots[block->keys[i]].key) + 1;
        }
    }
    char *to = out->key = malloc(bytes);
    if (!to) {
        return FY_ERR_NOMEM;
    }
    to = stpcpy(to, match->entry->name);
    for (unsigned i = 0; i < block->nkeys; i++) {
        if (match->times[block->keys[i]] > 0) {
            *to++ = ' ';
            to = stpcpy(to, block->slots[block->keys[i]].key);
        }
    }
    return FY_OK;
}

static void
make_plan(struct fy_match *match, struct fy_invocation *out)
{
    const struct fy_block *block = match->block;
    /* A command that another one runs is not split. */
    bool splits = !match->parsed.symbol;
    const struct fy_rule *split =
        splits ? first_rule(match, &block->splits) : NULL;
    const struct fy_rule *merge =
        splits ? first_rule(match, &block->merges) : NULL;
    const struct fy_rule *output = first_rule(match, &block->outputs);
    const struct fy_rule *work = first_rule(match, &block->works);
    out->output = output ? output->word : FY_OUTPUT_COPIES;
    out->work = work ? work->number : 1;
    out->split = FY_SPLIT_NONE;
    out->merge = FY_MERGE_CONCAT;
    if (split && merge && out->pure) {
        out->split = split->word;
        out->merge = merge->word;
    }
    /* Each file has its own number: one sum of them says something else. */
    if (out->split == FY_SPLIT_FILES && out->merge == FY_MERGE_SUM) {
        out->split = FY_SPLIT_NONE;
    }
    out->split_with = out->split == FY_SPLIT_FILES ? split->text : NULL;
}

/* Everything that a block says of the arguments it parsed. */
static int
describe(struct fy_match *match, struct fy_invocation *out)
{
    const struct fy_block *block = match->block;
    memset(out, 0, sizeof *out);
    out->command = match->entry->name;
    out->variables = match->variables;
    out->file = block->file;
    out->line = block->line;
    out->reads_stdin = holds(match, block->reads_stdin);
    out->reads_cwd = holds(match, block->reads_cwd);
    out->cwd_is_tree = holds(match, block->cwd_is_tree);
    /* Without operands it does to the folder what it would do to them. */
    for (unsigned i = 0; out->reads_cwd && i < block->noperands; i++) {
        const struct fy_slot *slot = &block->slots[block->operands[i]];
        out->cwd_follows = out->cwd_follows || holds(match, slot->follows);
    }
    out->writes_cwd = holds(match, block->writes_cwd);
    for (unsigned i = 0; i < FY_TRAIT_PURE; i++) {
        out->traits |= holds(match, block->traits[i]) ? 1U << i : 0;
    }
    out->effect =
        out->writes_cwd || holds(match, block->traits[FY_TRAIT_EFFECT]);
    int status = make_uses(match, out);
    if (status == FY_OK) {
        status = make_texts(match, &block->configs, &out->configs);
    }
    if (status == FY_OK) {
        status = make_texts(match, &block->carries, &out->carries);
    }
    if (status == FY_OK) {
        status = make_absents(match, out);
    }
    if (status == FY_OK) {
        status = make_written(match, out);
    }
    if (status == FY_OK) {
        status = make_key(match, out);
    }
    /* What writes must not be repeated, whatever else is said of it. */
    bool pure = holds(match, block->traits[FY_TRAIT_PURE]);
    out->pure = pure && !out->effect;
    make_plan(match, out);
    if (status == FY_OK && !pure && !out->effect) {
        (void)fy_match_fail(match, WEIGHT_PARSE,
                            "is neither pure nor an effect", NULL);
        status = FY_ERR_INVALID;
    }
    out->encoded = match->parsed.encoded;
    if (status == FY_OK && match->parsed.failed) {
        (void)fy_match_fail(match, WEIGHT_PARSE,
                            match->parsed.unknown
                                ? "depends on the paths that it is given"
                                : "a value is too long to be looked at",
                            NULL);
        status = FY_ERR_INVALID;
    }
    if (status == FY_OK && !match->local) {
        status = fy_match_runs(match, out);
    }
    if (status != FY_OK) {
        fy_invocation_clear(out);
    }
    return status;
}

/* One block; FY_ERR_INVALID: the next one may parse. */
static int
try_entry(struct fy_match *match, const struct fy_entry *entry,
          struct fy_invocation *out)
{
    struct fy_invocation found;
    match->entry = entry;
    match->block = match->parsed.block = entry->block;
    match->next = 1;
    match->parsed.ngiven = 0;
    match->parsed.failed = match->parsed.unknown = false;
    memset(match->times, 0, entry->block->nslots * sizeof *match->times);
    if (!fy_match_arguments(match)) {
        return FY_ERR_INVALID;
    }
    for (unsigned i = 0; i < match->block->requires.count; i++) {
        if (!holds(match, match->block->requires.items[i].when)) {
            (void)fy_match_fail(match, WEIGHT_REQUIRE,
                                "is not used in this way", NULL);
            return FY_ERR_INVALID;
        }
    }
    const struct fy_rule *never =
        match->local ? NULL : first_rule(match, &match->block->nevers);
    if (never) {
        (void)fy_match_fail(match, WEIGHT_NEVER, never->text, NULL);
        return FY_ERR_UNSUPPORTED;
    }
    int status = describe(match, &found);
    if (status == FY_OK) {
        *out = found;
    }
    return status;
}

/* "grep: '-Z' is not declared"; arguments may be long. */
static void
explain(const struct fy_failure *failure, const char *name,
        struct fy_buffer *why)
{
    enum {
        SHOWN = 60
    };
    fy_buffer_printf(why, "%s: ", failure->entry ? failure->entry->name : name);
    if (failure->about) {
        char shown[SHOWN + 1];
        size_t bytes = strnlen(failure->about, SHOWN);
        memcpy(shown, failure->about, bytes);
        shown[bytes] = '\0';
        fy_plain(shown, "");
        fy_buffer_printf(why, "'%s%s", shown, bytes == SHOWN ? "...' " : "' ");
    }
    fy_buffer_add(why, failure->text ? failure->text : "no block parses it");
}

const struct fy_command *
fy_command_find(const struct fy_commands *set, const char *name)
{
    const struct fy_commands *commands;
    if (fy_commands_of_word(set, name, &commands)) {
        return NULL;
    }
    size_t low = 0, high = commands->ncommands;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = strcmp(name, commands->commands[middle].name.name);
        if (order == 0) {
            return &commands->commands[middle];
        }
        if (order < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return NULL;
}

int
fy_invocation_parse(const struct fy_commands *commands, const char *name,
                    const char *const *argv, const char *const *environment,
                    struct fy_invocation *out, struct fy_buffer *why)
{
    return fy_match_parse(commands, name, argv, environment, NULL, false, out,
                          why);
}

int
fy_invocation_parse_local(const struct fy_commands *commands, const char *name,
                          const char *const *argv,
                          const char *const *environment,
                          struct fy_invocation *out, struct fy_buffer *why)
{
    return fy_match_parse(commands, name, argv, environment, NULL, true, out,
                          why);
}

int
fy_match_parse(const struct fy_commands *commands, const char *name,
               const char *const *argv, const char *const *environment,
               const struct fy_path_symbol *symbol, bool local,
               struct fy_invocation *out, struct fy_buffer *why)
{
    const struct fy_command *command = fy_command_find(commands, name);
    struct fy_failure failure = {0};
    uint32_t times[FY_MAX_SLOTS];
    struct fy_given small[SMALL];
    struct fy_match match = {.failure = &failure,
                             .argv = argv,
                             .environment = environment,
                             .times = times,
                             .given = small,
                             .commands = commands,
                             .why = why,
                             .local = local};
    if (!command) {
        fy_buffer_add(why, "no annotation of that name");
        return FY_ERR_NOENT;
    }
    int status = FY_ERR_INVALID;
    for (match.argc = 0;
         argv && match.argc < FY_MAX_ARGUMENTS && argv[match.argc];
         match.argc++) {
    }
    if (match.argc == 0 || match.argc == FY_MAX_ARGUMENTS) {
        fy_buffer_add(why, "no arguments, or too many");
        return FY_ERR_INVALID;
    }
    /* Every argument is at most one value or operand. */
    if (match.argc > SMALL) {
        match.given = malloc(match.argc * sizeof *match.given);
        if (!match.given) {
            return FY_ERR_NOMEM;
        }
    }
    match.parsed.argv = argv;
    match.parsed.environment = environment;
    match.parsed.times = times;
    match.parsed.given = match.given;
    match.parsed.symbol = symbol;
    match.variables = command->variables;
    for (size_t i = 0; i < command->nentries && status == FY_ERR_INVALID; i++) {
        status = try_entry(&match, &command->entries[i], out);
    }
    if (!match.explained &&
        (status == FY_ERR_INVALID || status == FY_ERR_UNSUPPORTED)) {
        explain(&failure, name, why);
    }
    if (match.given != small) {
        free(match.given);
    }
    return status;
}

void
fy_invocation_clear(struct fy_invocation *invocation)
{
    if (invocation->configs && invocation->configs[0]) {
        free((void *)invocation->configs);
    }
    if (invocation->carries && invocation->carries[0]) {
        free((void *)invocation->carries);
    }
    for (uint32_t i = 0; i < invocation->nruns; i++) {
        free(invocation->runs[i].program);
    }
    free(invocation->runs);
    if (invocation->nruns > 0) {
        free((void *)invocation->variables);
    }
    free((void *)invocation->absents);
    free((void *)invocation->written);
    free(invocation->uses);
    free(invocation->key);
    memset(invocation, 0, sizeof *invocation);
}

static bool
is_listed(const char *entry, const char *const *names)
{
    while (*names && !fy_variable_fits(entry, *names)) {
        names++;
    }
    return *names;
}

bool
fy_invocation_wants(const struct fy_invocation *invocation, const char *entry)
{
    /* glibc: setlocale(3), gettext(3), tzset(3), iconv(3), getopt(3). */
    static const char *const all[] = {
        "LANG", "LC_*",           "LANGUAGE", "LOCPATH",         "NLSPATH",
        "TZ",   "OUTPUT_CHARSET", "TZDIR",    "POSIXLY_CORRECT", NULL};
    return is_listed(entry, all) || is_listed(entry, invocation->variables);
}
