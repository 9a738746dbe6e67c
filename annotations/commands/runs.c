/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands that a command is told to run (find -exec, xargs). Each is parsed by
 * the blocks of its own name, with a symbol for the paths that it will get, and
 * what it means is added to what runs it. Where a statement depends on a path
 * that is not known, nothing is guessed: the whole is not parsed.
 *
 * Reads argv and the compiled set only; any thread.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "annotations/commands/match.h"
#include "common/path.h"

enum {
    PATHS_MAX = 3, /* no statement tells more of them from so many */
    RUNS_MAX = 8,
};

/* One command that is run. */
struct run {
    struct fy_match *match;
    struct fy_invocation *out;
    const struct fy_slot *slot;
    uint32_t base, words; /* in the outer arguments */
    uint32_t *places;     /* of each word: 1 + its use's index; 0: none yet */
    const char *const *argv;
    uint32_t at;     /* of a batch's paths, which are its last words */
    bool batch;      /* a run gets as many paths as fit */
    bool has_roots;  /* they lie below operands; else the working folder */
    bool told[2][2]; /* a path that is [written][followed] was met before */
    bool follows;    /* any of what they lie below */
    struct fy_path_symbol symbol;
    char starts[256];
};

/* The first characters of paths that come by stdin, see check_lists(). */
static const char fed_starts[] = "./_0123456789abcdefghijklmnopqrstuvwxyz"
                                 "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

static int
fail(const struct run *run, const char *what, const char *why)
{
    struct fy_buffer *to = run->match->why;
    fy_buffer_printf(to, "%s: %s%s", run->match->entry->name, what, why);
    return FY_ERR_UNSUPPORTED;
}

/* ---- its words ---- */

/*
 * "/usr/bin/NAME" of NAME; a path stays as it is, and is one of the system's. The
 * hosts compare the program, and the client that its PATH leads there. New.
 */
static char *
program_of(const char *word)
{
    static const char *const folders[] = {"/usr/bin/", "/bin/"};
    const char *slash = strrchr(word, '/');
    const char *name = slash ? slash + 1 : word;
    size_t n = (size_t)(name - word);
    const char *folder = slash ? NULL : folders[0];
    for (size_t i = 0; slash && i < sizeof folders / sizeof *folders; i++) {
        if (strlen(folders[i]) == n && strncmp(word, folders[i], n) == 0) {
            folder = folders[i];
        }
    }
    if (!folder || !*name || name[0] == '.') {
        return NULL;
    }
    char *program = malloc(strlen(folder) + strlen(name) + 1);
    if (program) {
        strcpy(stpcpy(program, folder), name);
    }
    return program;
}

/* Finds the words that stand for paths. */
static int
look_at_words(struct run *run)
{
    const char *place = run->slot->place;
    const char *const *words = run->match->argv + run->base;
    unsigned places = 0;
    run->at = run->words;
    for (uint32_t i = 0; place && i < run->words; i++) {
        if (strcmp(words[i], place) == 0 && i > 0) {
            run->at = i;
            places++;
        } else if (strstr(words[i], place)) {
            return fail(run,
                        "a word of its command is no path by itself: ", place);
        }
    }
    if (run->batch && place && (places != 1 || run->at + 1 != run->words)) {
        return fail(run, "its command has not one place for paths", "");
    }
    return FY_OK;
}

/* The first characters that the paths may have. */
static int
look_at_roots(struct run *run)
{
    const struct fy_invocation *out = run->out;
    char *to = run->starts;
    run->symbol.starts = run->starts;
    if (!run->slot->place) {
        run->symbol.starts = fed_starts;
        return FY_OK;
    }
    for (uint32_t i = 0; i < out->nuses; i++) {
        const struct fy_use *use = &out->uses[i];
        const char *text = run->match->argv[use->arg] + use->offset;
        if (!use->is_listed) {
            continue;
        }
        if (text[0] == '-' || text[0] == '\0') {
            return fail(run, "its paths begin with a dash", "");
        }
        run->has_roots = true;
        if (!memchr(run->starts, text[0], (size_t)(to - run->starts))) {
            *to++ = text[0];
        }
    }
    if (!run->has_roots) {
        *to++ = '.';
    }
    *to = '\0';
    return run->has_roots || (out->reads_cwd && out->cwd_is_tree)
               ? FY_OK
               : fail(run, "its paths may lie anywhere", "");
}

/* ---- what it means ---- */

/* A path that is not known is below those that are. */
static int
add_symbol(struct run *run, const struct fy_use *use)
{
    struct fy_invocation *out = run->out;
    bool writes = (use->access & FY_ACCESS_OUT) != 0;
    if (use->kind == FY_USE_FOLDER || use->is_stdin) {
        return fail(run, "its command takes a path for a folder to work in",
                    "");
    }
    if (!run->slot->place) {
        return writes || use->follows
                   ? fail(run, "what it changes or follows has no name here",
                          "")
                   : FY_OK;
    }
    bool *told = &run->told[writes][use->follows];
    for (uint32_t i = 0; i < out->nuses && !*told; i++) {
        struct fy_use *root = &out->uses[i];
        if (root->is_listed) {
            root->access |= writes ? FY_ACCESS_INOUT : FY_ACCESS_IN;
            root->kind = FY_USE_TREE;
            root->follows = root->follows || use->follows;
            run->follows = run->follows || root->follows;
        }
    }
    *told = true;
    if (!run->has_roots) {
        out->cwd_follows = out->cwd_follows || use->follows;
        out->writes_cwd = out->writes_cwd || writes;
        run->follows = out->cwd_follows;
    }
    return writes && run->follows
               ? fail(run, "what it changes may be behind a link", "")
               : FY_OK;
}

/* There is room for it; *place is 0, or 1 + where it is, from fewer paths. */
static void
add_use(struct fy_invocation *out, const struct fy_use *use, uint32_t *place)
{
    struct fy_use *known = *place ? &out->uses[*place - 1] : NULL;
    if (known && known->offset == use->offset) {
        known->access |= use->access;
        known->kind = use->kind > known->kind ? known->kind : use->kind;
        known->follows = known->follows || use->follows;
        return;
    }
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): it has room */
    out->uses[out->nuses] = *use;
    out->uses[out->nuses++].is_listed = false;
    *place = out->nuses;
}

static int
add_uses(struct run *run, const struct fy_invocation *inner)
{
    struct fy_invocation *out = run->out;
    if (inner->nuses == 0) {
        return FY_OK;
    }
    struct fy_use *uses =
        realloc(out->uses, (out->nuses + inner->nuses) * sizeof *uses);
    if (!uses) {
        return FY_ERR_NOMEM;
    }
    out->uses = uses;
    for (uint32_t i = 0; i < inner->nuses; i++) {
        struct fy_use use = inner->uses[i];
        if (run->argv[use.arg] == run->symbol.word) {
            int status = use.offset == 0
                             ? add_symbol(run, &use)
                             : fail(run, "a path is part of a word", "");
            if (status != FY_OK) {
                return status;
            }
            continue;
        }
        uint32_t *place = &run->places[use.arg];
        use.arg += run->base;
        add_use(out, &use, place);
    }
    return FY_OK;
}

static size_t
count_texts(const char *const *texts)
{
    size_t n = 0;
    while (texts && texts[n]) {
        n++;
    }
    return n;
}

static bool
has_text(const char *const *texts, size_t n, const char *text)
{
    size_t i = 0;
    while (i < n && strcmp(texts[i], text) != 0) {
        i++;
    }
    return i < n;
}

/* The texts of both lists and `more', each once; new, NULL: no memory. */
static const char **
join_texts(const char *const *a, const char *const *b, const char *more)
{
    size_t na = count_texts(a), nb = count_texts(b);
    const char **all = malloc((na + nb + 2) * sizeof *all);
    if (!all) {
        return NULL;
    }
    size_t n = 0;
    for (size_t i = 0; i < na + nb + (more != NULL); i++) {
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): b has nb */
        const char *text = i < na ? a[i] : i < na + nb ? b[i - na] : more;
        if (!has_text(all, n, text)) {
            all[n++] = text;
        }
    }
    all[n] = NULL;
    return all;
}

/* Files and variables that it reads unnamed. */
static int
add_lists(struct run *run, const struct fy_invocation *inner)
{
    struct fy_invocation *out = run->out;
    const char **configs = join_texts(out->configs, inner->configs, NULL);
    if (!configs) {
        return FY_ERR_NOMEM;
    }
    free((void *)out->configs); /* its program is there */
    out->configs = configs;
    const char **loads = join_texts(out->carries, inner->carries, NULL);
    if (!loads) {
        return FY_ERR_NOMEM;
    }
    if (!loads[0]) {
        free((void *)loads);
    } else {
        if (out->carries[0]) {
            free((void *)out->carries);
        }
        out->carries = loads;
    }
    if (inner->nabsents > 0) {
        struct fy_absent *absents =
            realloc((void *)out->absents,
                    (out->nabsents + inner->nabsents) * sizeof *absents);
        if (!absents) {
            return FY_ERR_NOMEM;
        }
        out->absents = absents;
        for (uint32_t i = 0; i < inner->nabsents; i++) {
            const struct fy_absent *absent = &inner->absents[i];
            uint32_t known = 0;
            while (known < out->nabsents &&
                   (absents[known].path != absent->path ||
                    absents[known].matching != absent->matching)) {
                known++;
            }
            absents[known] = *absent;
            out->nabsents += known == out->nabsents;
        }
    }
    return FY_OK;
}

/* Traits of the command and of one that it runs. */
static uint32_t
join_traits(const struct fy_invocation *out, const struct fy_invocation *inner)
{
    uint32_t changes = 1U << FY_TRAIT_CHANGES_MODES |
                       1U << FY_TRAIT_CHANGES_OPERANDS |
                       1U << FY_TRAIT_CHANGES_CONTENTS;
    uint32_t all = (1U << FY_TRAIT_MAKES_FILES) - 1; /* those of what is run */
    uint32_t lacks =
        (out->effect ? ~out->traits : 0) | (inner->effect ? ~inner->traits : 0);
    return (out->traits | (inner->traits & all)) & ~(lacks & changes);
}

/* All of it but what depends on the number of paths. */
static int
add_meaning(struct run *run, const struct fy_invocation *inner)
{
    struct fy_invocation *out = run->out;
    if (strchr(inner->command, ' ')) {
        return fail(run, inner->command, " looks for a repository");
    }
    if (inner->reads_stdin && run->slot->place) {
        return fail(run, inner->command, " reads its input");
    }
    if (inner->writes_cwd || inner->nwritten > 0) {
        return fail(run, inner->command, " writes files that no word names");
    }
    int status = add_uses(run, inner);
    status = status == FY_OK ? add_lists(run, inner) : status;
    out->traits = join_traits(out, inner);
    out->effect = out->effect || inner->effect;
    out->pure = out->pure && inner->pure && !out->effect;
    out->encoded = out->encoded || inner->encoded;
    out->reads_cwd = out->reads_cwd || inner->reads_cwd;
    out->cwd_is_tree = out->cwd_is_tree || inner->cwd_is_tree;
    out->cwd_follows = out->cwd_follows || inner->cwd_follows;
    out->runs[out->nruns - 1].effect |= inner->effect;
    return status;
}

/* Adds the expected cost of the inner command. */
static int
add_cost(struct run *run, const struct fy_invocation *inner)
{
    struct fy_invocation *out = run->out;
    out->work = inner->work > out->work ? inner->work : out->work;
    out->output = inner->output > out->output ? inner->output : out->output;
    char *key = malloc(strlen(out->key) + strlen(inner->key) + 4);
    if (!key) {
        return FY_ERR_NOMEM;
    }
    strcpy(stpcpy(stpcpy(key, out->key), " : "), inner->key);
    free(out->key);
    out->key = key;
    return FY_OK;
}

/* The command with so many paths. */
static int
parse_with(struct run *run, uint32_t paths)
{
    struct fy_match *match = run->match;
    const char *const *words = match->argv + run->base;
    const char **argv =
        calloc(run->words + (size_t)PATHS_MAX + 1, sizeof *argv);
    struct fy_invocation inner;
    if (!argv) {
        return FY_ERR_NOMEM;
    }
    uint32_t n = run->batch ? run->at : run->words;
    for (uint32_t i = 0; i < n; i++) {
        bool place =
            run->slot->place && strcmp(words[i], run->slot->place) == 0;
        argv[i] = place ? run->symbol.word : words[i];
    }
    for (uint32_t p = 0; run->batch && p < paths; p++) {
        argv[n++] = run->symbol.word; /* its last words */
    }
    run->argv = argv;
    int status = fy_match_parse(match->commands, fy_path_name(words[0]), argv,
                                match->environment, &run->symbol, false, &inner,
                                match->why);
    if (status == FY_OK) {
        status = add_meaning(run, &inner);
        if (status == FY_OK && paths == 1) {
            status = add_cost(run, &inner);
        }
        fy_invocation_clear(&inner);
    }
    free((void *)argv);
    return status == FY_ERR_INVALID ? FY_ERR_UNSUPPORTED : status;
}

/* Makes room for one more, and for its variables. */
static int
add_run(struct run *run)
{
    struct fy_invocation *out = run->out;
    if (out->nruns == RUNS_MAX) {
        return fail(run, "it runs too many commands", "");
    }
    struct fy_run_command *runs =
        realloc(out->runs, (out->nruns + 1) * sizeof *runs);
    if (!runs) {
        return FY_ERR_NOMEM;
    }
    out->runs = runs;
    char *program = program_of(run->match->argv[run->base]);
    if (!program) {
        return fail(run, "its command is no tool of the system", "");
    }
    const struct fy_command *command =
        fy_command_find(run->match->commands, strrchr(program, '/') + 1);
    if (!command) {
        fy_buffer_printf(run->match->why, "%s: no annotation of that name",
                         strrchr(program, '/') + 1);
        free(program);
        return FY_ERR_NOENT;
    }
    const char **variables =
        join_texts(out->variables, command->variables, NULL);
    const char **configs = join_texts(out->configs, NULL, program);
    if (!variables || !configs) {
        free(program);
        free((void *)variables);
        free((void *)configs);
        return FY_ERR_NOMEM;
    }
    if (out->nruns > 0) {
        free((void *)out->variables);
    }
    if (out->configs && out->configs[0]) {
        free((void *)out->configs);
    }
    out->variables = variables;
    out->configs = configs;
    runs[out->nruns++] = (struct fy_run_command){.command = command->name.name,
                                                 .program = program};
    return FY_OK;
}

static int
take_run(struct run *run, const struct fy_given *given)
{
    const char *end = run->slot->until[given->end];
    run->base = given->arg;
    run->words = given->words ? given->words : run->match->argc - given->arg;
    run->batch =
        !end || (strchr(end, ' ') &&
                 strncmp(end, run->slot->place, strlen(run->slot->place)) == 0);
    run->symbol.word = run->slot->place ? run->slot->place : "{}";
    if (run->match->parsed.symbol) {
        return fail(run, "it runs further commands", "");
    }
    int status = look_at_words(run);
    status = status == FY_OK ? look_at_roots(run) : status;
    status = status == FY_OK ? add_run(run) : status;
    /* Without a place for them there may be none; else there is one, or several. */
    uint32_t least = run->slot->place ? 1 : 0,
             most = run->batch ? PATHS_MAX : 1;
    run->places =
        status == FY_OK ? calloc(run->words, sizeof *run->places) : NULL;
    if (status == FY_OK && !run->places) {
        status = FY_ERR_NOMEM;
    }
    for (uint32_t n = least; n <= most && status == FY_OK; n++) {
        status = parse_with(run, n);
    }
    free(run->places);
    run->out->batches = run->out->batches || run->batch;
    run->out->fed = run->out->fed || !run->slot->place;
    return status;
}

/* Symbols are paths and nothing else. */
static int
check_symbols(struct fy_match *match)
{
    const struct fy_parsed *parsed = &match->parsed;
    for (size_t i = 0; i < parsed->ngiven; i++) {
        const struct fy_given *given = &parsed->given[i];
        const struct fy_slot *slot = &match->block->slots[given->slot];
        if (fy_is_symbol(parsed, given) &&
            (!slot->is_path ||
             (slot->kind != FY_SLOT_OPERAND &&
              !fy_condition_holds(&match->parsed, slot->present)))) {
            (void)fy_match_fail(match, WEIGHT_PARSE,
                                "takes what is a path for something else",
                                NULL);
            return FY_ERR_INVALID;
        }
    }
    return FY_OK;
}

/* Paths that begin otherwise are no list for others. */
static void
check_lists(const struct fy_match *match, struct fy_invocation *out)
{
    for (uint32_t i = 0; i < out->nuses; i++) {
        const struct fy_use *use = &out->uses[i];
        char first = match->argv[use->arg][use->offset];
        if (use->is_listed && !(first && strchr(fed_starts, first))) {
            out->traits &= ~(1U << FY_TRAIT_LISTS);
        }
    }
}

int
fy_match_runs(struct fy_match *match, struct fy_invocation *out)
{
    const struct fy_slot *before = NULL;
    int status = match->parsed.symbol ? check_symbols(match) : FY_OK;
    check_lists(match, out);
    for (size_t i = 0; i < match->parsed.ngiven && status == FY_OK; i++) {
        const struct fy_given *given = &match->given[i];
        const struct fy_slot *slot = &match->block->slots[given->slot];
        /* Of an operand, the first word; the others are behind it. */
        if (!slot->is_run ||
            (slot->kind == FY_SLOT_OPERAND && slot == before)) {
            continue;
        }
        struct run run = {.match = match, .out = out, .slot = slot};
        before = slot;
        status = take_run(&run, given);
        match->explained = match->explained || status != FY_OK;
    }
    for (uint32_t i = 0; i < out->nuses && out->nruns > 0; i++) {
        out->uses[i].is_listed = false; /* it is not split */
    }
    if (status == FY_OK && out->fed &&
        (out->effect || fy_invocation_is(out, FY_TRAIT_OWNERS) ||
         fy_invocation_is(out, FY_TRAIT_ATTRIBUTES) ||
         fy_invocation_is(out, FY_TRAIT_TARGETS))) {
        (void)fy_match_fail(match, WEIGHT_PARSE,
                            "runs what depends on the mount of its paths",
                            NULL);
        status = FY_ERR_INVALID;
    }
    if (out->nruns > 0) {
        out->split = FY_SPLIT_NONE;
        out->split_with = NULL;
        out->traits &= ~(1U << FY_TRAIT_STATUS_FOUND);
    }
    return status;
}
