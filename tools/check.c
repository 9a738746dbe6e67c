/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ferry check: compiles annotation files and prints their errors.
 */
#include "config.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "annotations/commands/command.h"
#include "annotations/model/annotations.h"
#include "common/buffer.h"
#include "common/path.h"
#include "tools/check_kernels.h"
#include "tools/tool.h"

static const char help[] =
    "Usage: ferry check [--dump] FILE... [--argv COMMAND ARGUMENT...]\n"
    "Checks annotation files (and every *.ferry in a folder and in its\n"
    "sub-folder `commands'). Exits with 1 when there are errors.\n\n"
    "  --dump   also print the checked functions, their axes and operands,\n"
    "           and the checked commands\n"
    "  --argv   also print what the command that follows would read and mean;\n"
    "           exits with 1 when it would not be offloaded\n"
    "  --help\n";

/* Cuts --argv and the words behind it off the arguments; NULL: there is none. */
static char **
cut_command(int *argc, char **argv)
{
    for (int i = 1; i < *argc; i++) {
        if (strcmp(argv[i], "--argv") == 0) {
            *argc = i;
            argv[i] = NULL;
            return argv + i + 1;
        }
    }
    return NULL;
}

static int
explain_command(const struct fy_commands *commands, char **command)
{
    char text[256];
    struct fy_buffer why;
    struct fy_invocation invocation;
    const char *const *argv = (const char *const *)command;
    fy_buffer_start(&why, text, sizeof text);
    if (!command[0]) {
        fy_say("the command is missing");
        return FY_ERR_INVALID;
    }
    int status =
        fy_invocation_parse(commands, fy_path_name(command[0]), argv,
                            (const char *const *)environ, &invocation, &why);
    if (status) {
        printf("not offloaded: %s\n", text);
        return status;
    }
    fy_invocation_dump(&invocation, argv, stdout);
    fy_invocation_clear(&invocation);
    return FY_OK;
}

static void
print_summary(const struct fy_model *model, const struct fy_commands *commands,
              unsigned warnings)
{
    size_t ncommands = fy_commands_count(commands);
    if (model->functions.count || !ncommands) {
        printf("%u functions, %u names%s", model->functions.count,
               model->symbols.count, ncommands ? ", " : "");
    }
    if (ncommands) {
        printf("%zu command%s", ncommands, ncommands == 1 ? "" : "s");
    }
    (void)fputs(": no errors", stdout);
    if (warnings) {
        printf(", %u warning%s", warnings, warnings == 1 ? "" : "s");
    }
    putchar('\n');
}

int
fy_tool_check(int argc, char **argv)
{
    static const struct option long_options[] = {
        {"dump", no_argument, NULL, 'd'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    bool want_dump = false;
    char **command = cut_command(&argc, argv);
    int id;
    optind = 0;
    while ((id = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        if (id == 'h') {
            (void)fputs(help, stdout);
            return fy_finish_output(FY_EXIT_OK);
        }
        if (id != 'd') {
            return fy_usage_error("check");
        }
        want_dump = true;
    }
    if (optind >= argc) {
        fy_say("a file is missing");
        return fy_usage_error("check");
    }
    for (int i = optind; i < argc; i++) {
        if (access(argv[i], R_OK) != 0) {
            fy_say("cannot read %s: %s", argv[i], strerror(errno));
            return FY_EXIT_FAILURE;
        }
    }
    struct fy_places places;
    struct fy_model *model = NULL;
    struct fy_commands *commands = NULL;
    struct fy_diagnostics *diagnostics = fy_diagnostics_new();
    if (!diagnostics) {
        fy_say("out of memory");
        return FY_EXIT_FAILURE;
    }
    fy_places_find(&places);
    int status = fy_compile_with_commands(
        (const char *const *)argv + optind, (unsigned)(argc - optind),
        places.library, diagnostics, &model, &commands);
    fy_diagnostics_print(diagnostics, stderr);
    if (status && !fy_diagnostics_errors(diagnostics)) {
        fy_say("cannot check: %s", fy_status_text(status));
    }
    if (status == 0) {
        print_summary(model, commands, fy_diagnostics_warnings(diagnostics));
        if (want_dump) {
            fy_model_dump(model, stdout);
            fy_commands_dump(commands, stdout);
        }
        status = fy_check_kernels(model);
        if (command && status == 0) {
            status = explain_command(commands, command);
        }
    }
    fy_diagnostics_free(diagnostics);
    free(model);
    fy_commands_free(commands);
    return fy_finish_output(status ? FY_EXIT_FAILURE : FY_EXIT_OK);
}
