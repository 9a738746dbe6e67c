/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The outside of the command blocks: making a set, its names, its end.
 */
#include "config.h"

#include "annotations/commands/command.h"

#include <stdlib.h>

#include "annotations/commands/check.h"
#include "annotations/functions/compile.h"

int
fy_commands_compile(const char *const *paths, unsigned npaths,
                    const char *library_dir, struct fy_diagnostics *diagnostics,
                    struct fy_commands **out)
{
    struct fy_compile_input input = {.paths = paths,
                                     .npaths = npaths,
                                     .library_dir = library_dir,
                                     .commands = out};
    return fy_compile_input(&input, diagnostics);
}

int
fy_commands_compile_word(const char *const *paths, unsigned npaths,
                         const char *library_dir, const char *word,
                         struct fy_diagnostics *diagnostics,
                         struct fy_commands **out)
{
    struct fy_compile_input input = {.paths = paths,
                                     .npaths = npaths,
                                     .library_dir = library_dir,
                                     .word = word,
                                     .commands = out};
    return fy_compile_input(&input, diagnostics);
}

int
fy_commands_compile_text(const char *name, const char *text, size_t bytes,
                         struct fy_diagnostics *diagnostics,
                         struct fy_commands **out)
{
    struct fy_compile_input input = {
        .name = name, .text = text, .bytes = bytes, .commands = out};
    return fy_compile_input(&input, diagnostics);
}

int
fy_compile_with_commands(const char *const *paths, unsigned npaths,
                         const char *library_dir,
                         struct fy_diagnostics *diagnostics,
                         struct fy_model **model, struct fy_commands **commands)
{
    struct fy_compile_input input = {.paths = paths,
                                     .npaths = npaths,
                                     .library_dir = library_dir,
                                     .model = model,
                                     .commands = commands};
    return fy_compile_input(&input, diagnostics);
}

void
fy_commands_free(struct fy_commands *commands)
{
    if (!commands) {
        return;
    }
    for (size_t i = 0; i < commands->nregexes; i++) {
        regfree(commands->regexes[i]);
    }
    fy_lazy_free(commands->lazy);
    fy_arena_free(&commands->arena);
    free(commands);
}

size_t
fy_commands_count(const struct fy_commands *commands)
{
    return commands->ncommands;
}

const struct fy_command_name *
fy_commands_name(const struct fy_commands *commands, size_t i)
{
    return i < commands->ncommands ? &commands->commands[i].name : NULL;
}
