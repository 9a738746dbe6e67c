/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ferry shell: an interactive shell under ferry. The shell itself does all job
 * control; ferry only waits, in the process group that it was started in.
 */
#include "config.h"

#include <pwd.h>
#include <stdlib.h>
#include <unistd.h>

#include "tools/launch.h"

/* $SHELL, else that of the account, else /bin/sh. */
static char *
find_shell(void)
{
    static char fallback[] = "/bin/sh";
    char *shell = getenv("SHELL");
    if (shell && shell[0] == '/') {
        return shell;
    }
    const struct passwd *user = getpwuid(getuid());
    return user && user->pw_shell && user->pw_shell[0] == '/' ? user->pw_shell
                                                              : fallback;
}

int
fy_tool_shell(int argc, char **argv)
{
    struct fy_run_options options;
    int status;
    if (fy_run_options_parse("shell", argc, argv, &options, &status)) {
        return status;
    }
    char *command[2] = {NULL, NULL};
    if (!options.command) {
        command[0] = find_shell();
        options.command = command;
    }
    return fy_launch(&options);
}
