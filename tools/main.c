/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ferry, the command: finds the subcommand's row and calls it.
 */
#include "config.h"

#include "tools/tool.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/path.h"
#include "common/settings.h"

static const struct {
    const char *name;
    fy_subcommand *run;
    const char *arguments;
    const char *help;
} subcommands[] = {
    {"run", fy_tool_run, "[OPTION]... [--] COMMAND...",
     "run a program: its annotated calls on a device, its commands near the "
     "storage"},
    {"shell", fy_tool_shell, "[OPTION]... [SHELL [ARGUMENT]...]",
     "an interactive shell whose commands run near the storage"},
    {"mount", fy_tool_mount, "[OPTION]... [USER@]HOST:[PATH] FOLDER",
     "mount another host's files, at the speed of the link"},
    {"umount", fy_tool_umount, "[--force] FOLDER",
     "wait until all is written there, and unmount"},
    {"check", fy_tool_check, "[--dump] FILE...", "check annotation files"},
    {"verify", fy_tool_verify, "FILE... -- COMMAND...",
     "compare annotated calls with their originals while a program runs"},
    {"explain", fy_tool_explain, "[-- COMMAND...]",
     "what each reason means, or why a program's calls went where they did"},
    {"report", fy_tool_report, "FILE.json|FOLDER",
     "print a report written by run, or what a mount has done"},
    {"doctor", fy_tool_doctor, "[-- PROGRAM]",
     "what this machine has, and what of a program ferry can reach"},
    {"proxy", fy_tool_proxy, "--stdio [OPTION]...",
     "run commands next to their files, for another machine"},
    {"deploy", fy_tool_deploy, "[--remove] [USER@]HOST...",
     "copy ferry to a storage host, or remove it there"},
    {"calibrate", fy_tool_calibrate, "", "measure this machine's rates"},
};

enum {
    SUBCOMMANDS = sizeof subcommands / sizeof subcommands[0]
};

static void
print_help(void)
{
    printf("Usage: ferry SUBCOMMAND [ARGUMENT]...\n"
           "Runs unmodified programs: annotated library calls on a device, "
           "annotated commands\nnext to the storage that they read.\n\n");
    for (size_t i = 0; i < SUBCOMMANDS; i++) {
        printf("  ferry %s %s\n        %s\n", subcommands[i].name,
               subcommands[i].arguments, subcommands[i].help);
    }
    printf("  ferry --help, ferry --version\n\n"
           "'ferry SUBCOMMAND --help' and ferry(1) say more.\n");
}

/* A symbol of the library that an outer ferry run has preloaded into this
 * process. */
extern const char ferry_image[] __attribute__((weak));

/*
 * Starts the command again without an outer run's library, which would preload itself
 * into programs that are executed here: also into a proxy's stages, where its file is not
 * seen.
 */
static void
start_alone(char **argv)
{
    static const char mark[] = "FERRY_STARTED_ALONE";
    bool again = getenv(mark);
    (void)unsetenv(mark);
    if (!ferry_image || again || setenv(mark, "1", 1)) {
        return;
    }
    if (!setenv(FY_SETTINGS_ENV, "", 1)) { /* to an outer run: none */
        (void)execv("/proc/self/exe", argv);
    }
    (void)unsetenv(FY_SETTINGS_ENV);
    (void)unsetenv(mark);
}

int
main(int argc, char **argv)
{
    start_alone(argv);
    /* A second thread's own arena would be 64 MiB of addresses, and twice that
     * for a moment: under a limit (ulimit -v) whatever another thread wants just
     * then fails. */
    (void)mallopt(M_ARENA_MAX, 1);
    if (argc > 0 && strcmp(fy_path_name(argv[0]), "mount.ferry") == 0) {
        return fy_run_ample(fy_tool_mount_helper, argc, argv);
    }
    if (argc < 2) {
        fy_say("a subcommand is missing");
        return fy_usage_error("");
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0) {
        print_help();
        return fy_finish_output(FY_EXIT_OK);
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("ferry %s\n", PACKAGE_VERSION);
        return fy_finish_output(FY_EXIT_OK);
    }
    for (size_t i = 0; i < SUBCOMMANDS; i++) {
        if (strcmp(argv[1], subcommands[i].name) != 0) {
            continue;
        }
        char name[32]; /* getopt's messages begin with it */
        (void)snprintf(name, sizeof name, "ferry %s", argv[1]);
        argv[1] = name;
        return fy_run_ample(subcommands[i].run, argc - 1, argv + 1);
    }
    fy_say("there is no subcommand '%s'", argv[1]);
    return fy_usage_error("");
}
