/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of all commands, kept in the cache (annotations/commands/command.h): a text that
 * fy_commands_names() wrote, or something else of the user's. Names that are accepted
 * can be asked for and written again as they were.
 */
#include "config.h"

#include "annotations/commands/command.h"
#include "tests/fuzz/target.h"

const char fuzz_shows[] = "cached names are what was written, or none";
const char *const fuzz_words[] = {"\n", "\t", " ", "git", "0", "1", "\r", NULL};

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct fy_commands *commands = NULL, *again = NULL;
    char *text, *twice;
    size_t size, nagain;
    char *copy = malloc(n + 1);
    MUST(copy);
    memcpy(copy, bytes, n);
    copy[n] = '\0';
    int status =
        fy_commands_lazy("/nonexistent", "/nonexistent", copy, n, &commands);
    free(copy);
    MUST(status == 0 || status == FY_ERR_INVALID);
    if (status) {
        return 0;
    }
    fuzz_taken++;
    for (size_t i = 0; i < fy_commands_count(commands); i++) {
        MUST(*fy_commands_name(commands, i)->name);
        MUST(i == 0 || strcmp(fy_commands_name(commands, i - 1)->name,
                              fy_commands_name(commands, i)->name) < 0);
    }
    MUST(!fy_commands_names(commands, &text, &size));
    MUST(!fy_commands_lazy("/nonexistent", NULL, text, size, &again));
    MUST(!fy_commands_names(again, &twice, &nagain));
    MUST(size == nagain && !memcmp(text, twice, size));
    free(text);
    free(twice);
    fy_commands_free(again);
    fy_commands_free(commands);
    return 0;
}

void
fuzz_make_seeds(void)
{
    static const char block[] =
        "command cat {\n    operand FILE... in dash;\n"
        "    stdin when !FILE;\n    stdout filters;\n    work 1;\n    pure;\n"
        "}\ncommand ls, dir {\n    flag -a;\n    operand FILE... in;\n"
        "    reads cwd when !FILE;\n    work 1;\n    pure;\n}\n";
    struct fy_diagnostics *diagnostics = fy_diagnostics_new();
    struct fy_commands *commands;
    char *text;
    size_t n;
    MUST(diagnostics &&
         fy_commands_compile_text("fuzz", block, sizeof block - 1, diagnostics,
                                  &commands) == 0);
    MUST(!fy_commands_names(commands, &text, &n));
    fuzz_seed(text, n);
    free(text);
    fy_commands_free(commands);
    fy_diagnostics_free(diagnostics);
}
