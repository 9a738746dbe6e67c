/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One command as the proxy runs it in copies, for parts.py:
 * split COPIES PROGRAM FILE.ferry... -- ARGV. Its output and status are the
 * command's; 125 when there is nothing to split by the annotation. What is too small
 * for parts runs whole, as it does there.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "annotations/base/diagnostics.h"
#include "annotations/commands/command.h"
#include "proxy/server/split.h"

extern char **environ;

enum {
    FIRST_FILE = 3, /* of argv */
    FAILED = 125,
};

static int
fail(const char *what)
{
    (void)fprintf(stderr, "split: %s\n", what);
    return FAILED;
}

int
main(int argc, char **argv)
{
    struct fy_diagnostics *diagnostics = fy_diagnostics_new();
    struct fy_commands *commands = NULL;
    struct fy_invocation call;
    char text[256];
    struct fy_buffer why;
    uint32_t arg;
    int files = 0;
    while (FIRST_FILE + files < argc &&
           strcmp(argv[FIRST_FILE + files], "--") != 0) {
        files++;
    }
    char **command = argv + FIRST_FILE + files + 1;
    if (argc < FIRST_FILE + files + 2) {
        return fail("COPIES PROGRAM FILE.ferry... -- ARGV");
    }
    if (fy_commands_compile((const char *const *)(argv + FIRST_FILE),
                            (unsigned)files, NULL, diagnostics, &commands)) {
        fy_diagnostics_print(diagnostics, stderr);
        return FAILED;
    }
    fy_buffer_start(&why, text, sizeof text);
    if (fy_invocation_parse(commands, command[0], (const char *const *)command,
                            (const char *const *)environ, &call, &why)) {
        return fail(text);
    }
    if (!fy_split_possible(&call, &arg)) {
        return fail("it is not split");
    }
    const struct fy_split_job job = {
        .program = argv[2],
        .argv = command,
        .env = environ,
        .invocation = &call,
        .status_found = fy_invocation_is(&call, FY_TRAIT_STATUS_FOUND),
        .copies = (unsigned)strtoul(argv[1], NULL, 10),
        .part_bytes_min = 1,
    };
    fy_split_run(&job);
    (void)execv(argv[2], command);
    return fail("it cannot be executed");
}
