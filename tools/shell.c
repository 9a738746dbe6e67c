/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ferry shell: an interactive shell under ferry, in a folder of another host where one is
 * named. The shell itself does all job
 * control; ferry only waits, in the process group that it was started in.
 */
#include "config.h"

#include <errno.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/child.h"
#include "tools/launch.h"
#include "tools/mount/mount.h"

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

/* [USER@]HOST:[PATH] or a place: no shell's name has a colon before its first slash. */
static bool
is_source(const char *word)
{
    size_t n = strcspn(word, ":/");
    return word[n] == ':';
}

/* A private folder to mount on, new; false: it was said. */
static bool
make_folder(char out[PATH_MAX])
{
    char folder[PATH_MAX];
    int n = fy_runtime_folder(folder) && fy_cache_folder(folder)
                ? -1
                : snprintf(out, PATH_MAX, "%s/shell-XXXXXX", folder);
    if (n > 0 && n < PATH_MAX && mkdtemp(out)) {
        return true;
    }
    fy_say("cannot make a private folder to mount on");
    return false;
}

/* This program's words for the shell in the mount: all but the source, which stands at
 * `at'. New. */
static char **
words_of(int argc, char **argv, int at, char *ferry)
{
    static char shell[] = "shell", end[] = "--";
    char **words = calloc((size_t)argc + 4, sizeof *words);
    unsigned n = 0;
    if (!words) {
        return NULL;
    }
    words[n++] = ferry;
    words[n++] = shell;
    for (int i = 1; i < at; i++) {
        words[n++] = argv[i];
    }
    if (strcmp(words[n - 1], "--") != 0) {
        words[n++] = end;
    }
    for (int i = at + 1; i < argc; i++) {
        words[n++] = argv[i];
    }
    return words;
}

/* ferry shell HOST:PATH: the shell's folder is a mount that ends with it. */
static int
run_there(int argc, char **argv, int at)
{
    char cause[512];
    struct fy_buffer why;
    struct fy_child child = {0};
    struct fy_places places;
    struct fy_mount_request request;
    memset(&request, 0, sizeof request);
    fy_buffer_start(&why, cause, sizeof cause);
    fy_places_find(&places);
    request.how = FY_MOUNT_QUIETLY;
    if (fy_mount_source(argv[at], &request, &why)) {
        fy_say("%s", cause);
        return fy_usage_error("shell");
    }
    char **words = words_of(argc, argv, at, places.ferry);
    int status = FY_EXIT_FAILURE;
    if (!words || !make_folder(request.folder)) {
        free(words);
        return status;
    }
    status = fy_mount_start(&request);
    if (status) {
        goto remove;
    }
    fy_child_survive();
    status = chdir(request.folder) == 0 &&
                     setenv("PWD", request.folder, 1) == 0 &&
                     fy_child_run(words, NULL, &child) == 0
                 ? 0
                 : FY_EXIT_FAILURE;
    if (status) {
        fy_say("%s: %s", request.folder, strerror(errno));
    }
    if (chdir("/") != 0 || fy_mount_end(request.folder, false, false)) {
        fy_say("it stays mounted: 'ferry umount %s' ends it", request.folder);
    }
remove:
    (void)rmdir(request.folder);
    free(words);
    return status ? status : fy_child_imitate(&child, argv);
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
    if (options.command && is_source(options.command[0])) {
        return run_there(argc, argv, (int)(options.command - argv));
    }
    if (!options.command) {
        command[0] = find_shell();
        options.command = command;
    }
    return fy_launch(&options);
}
