/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets of which only the names are known at first: a run uses one or two commands
 * of the ninety that are shipped, and compiling all takes longer than the rest of
 * its start. A first word is compiled when it is asked for.
 */
#include "config.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "annotations/commands/command.h"
#include "annotations/commands/model.h"

/* One first word, compiled. */
struct fy_known {
    struct fy_commands *commands;
    struct fy_known *next;
    char word[];
};

struct fy_lazy {
    pthread_mutex_t lock; /* of `known', whose rows stay */
    struct fy_known *known;
    char *library;
    char *folder;
};

static const char *const marks[] = {"", " stdin", " cwd", " stdin cwd"};

int
fy_commands_names(const struct fy_commands *commands, char **out, size_t *bytes)
{
    FILE *to = open_memstream(out, bytes);
    if (!to) {
        return FY_ERR_NOMEM;
    }
    for (size_t i = 0; i < commands->ncommands; i++) {
        const struct fy_command_name *name = &commands->commands[i].name;
        (void)fprintf(to, "%s%s\n", name->name,
                      marks[name->reads_stdin + 2 * name->reads_cwd]);
    }
    if (fclose(to) != 0) {
        free(*out);
        return FY_ERR_NOMEM;
    }
    return FY_OK;
}

/* One line, whose end is cut off; false: it is none of fy_commands_names(). */
static bool
read_line(char *line, struct fy_command_name *out)
{
    char *mark = line + strcspn(line, " ");
    unsigned i = sizeof marks / sizeof *marks;
    while (i-- > 0 && strcmp(mark, marks[i]) != 0) {
    }
    if (mark == line || i >= sizeof marks / sizeof *marks) {
        return false;
    }
    *mark = '\0';
    *out = (struct fy_command_name){
        .name = line, .reads_stdin = (i & 1) != 0, .reads_cwd = (i & 2) != 0};
    return true;
}

/* In a set's arena, which outlives nothing but the set. */
static int
read_names(struct fy_commands *set, const char *names, size_t bytes)
{
    size_t lines = 0;
    for (size_t i = 0; i < bytes; i++) {
        lines += names[i] == '\n';
    }
    if (lines > FY_MAX_BLOCKS || bytes == 0 || names[bytes - 1] != '\n' ||
        memchr(names, '\0', bytes)) {
        return FY_ERR_INVALID;
    }
    char *line = fy_arena_text(&set->arena, names, bytes);
    set->commands = fy_arena_array(&set->arena, lines, sizeof *set->commands);
    for (size_t i = 0; i < lines; i++) {
        char *end = strchr(line, '\n');
        struct fy_command_name *name = &set->commands[i].name;
        *end = '\0';
        if (!read_line(line, name) ||
            (i && strcmp(set->commands[i - 1].name.name, name->name) >= 0)) {
            return FY_ERR_INVALID;
        }
        line = end + 1;
    }
    set->ncommands = lines;
    return FY_OK;
}

int
fy_commands_lazy(const char *folder, const char *library_dir, const char *names,
                 size_t bytes, struct fy_commands **out)
{
    jmp_buf out_of_memory;
    volatile int status = FY_ERR_NOMEM;
    struct fy_commands *set = calloc(1, sizeof *set);
    if (!set) {
        return status;
    }
    set->lazy = calloc(1, sizeof *set->lazy);
    set->arena.out_of_memory = &out_of_memory;
    /* Only `set' is used after a longjmp, and it does not change. */
    if (set->lazy && pthread_mutex_init(&set->lazy->lock, NULL) != 0) {
        free(set->lazy);
        set->lazy = NULL;
    }
    if (set->lazy && setjmp(out_of_memory) == 0) {
        set->lazy->library = fy_arena_print(&set->arena, "%s", library_dir);
        set->lazy->folder = fy_arena_print(&set->arena, "%s", folder);
        status = names ? read_names(set, names, bytes) : FY_OK;
    }
    set->arena.out_of_memory = NULL;
    if (status) {
        fy_commands_free(set);
        return status;
    }
    *out = set;
    return FY_OK;
}

static int
compile(const struct fy_lazy *lazy, const char *word, struct fy_commands **out)
{
    const char *const paths[] = {lazy->folder, NULL};
    struct fy_diagnostics *diagnostics = fy_diagnostics_new();
    if (!diagnostics) {
        return FY_ERR_NOMEM;
    }
    int status = fy_commands_compile_word(paths, 1, lazy->library, word,
                                          diagnostics, out);
    fy_diagnostics_free(diagnostics);
    return status;
}

static bool
has(const struct fy_commands *commands, const char *word)
{
    for (size_t i = 0; i < commands->ncommands; i++) {
        if (strcmp(commands->commands[i].name.name, word) == 0) {
            return true;
        }
    }
    return false;
}

/* Any word may be asked for: those that mean nothing are not kept. */
static int
add_known(struct fy_lazy *lazy, const char *word)
{
    struct fy_commands *commands = NULL;
    int status = compile(lazy, word, &commands);
    if (status) {
        return status;
    }
    size_t n = strlen(word) + 1;
    struct fy_known *known =
        has(commands, word) ? malloc(sizeof *known + n) : NULL;
    if (!known) {
        status = has(commands, word) ? FY_ERR_NOMEM : FY_ERR_NOENT;
        fy_commands_free(commands);
        return status;
    }
    memcpy(known->word, word, n);
    known->commands = commands;
    known->next = lazy->known;
    lazy->known = known;
    return FY_OK;
}

int
fy_commands_of_word(const struct fy_commands *set, const char *word,
                    const struct fy_commands **out)
{
    struct fy_lazy *lazy = set->lazy;
    *out = set;
    if (!lazy) {
        return FY_OK;
    }
    if (!*word || (set->ncommands && !has(set, word))) {
        return FY_ERR_NOENT;
    }
    (void)pthread_mutex_lock(&lazy->lock);
    const struct fy_known *known = lazy->known;
    while (known && strcmp(known->word, word) != 0) {
        known = known->next;
    }
    int status = known ? FY_OK : add_known(lazy, word);
    if (!status) {
        *out = known ? known->commands : lazy->known->commands;
    }
    (void)pthread_mutex_unlock(&lazy->lock);
    return status;
}

void
fy_lazy_free(struct fy_lazy *lazy)
{
    while (lazy && lazy->known) {
        struct fy_known *known = lazy->known;
        lazy->known = known->next;
        fy_commands_free(known->commands);
        free(known);
    }
    if (lazy) {
        (void)pthread_mutex_destroy(&lazy->lock);
    }
    free(lazy);
}
