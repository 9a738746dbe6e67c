/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session without the shim, for tests: starts it, puts a folder of small
 * scripts in front of PATH that exec the stub in their command's place, runs a
 * program, and prints what became of each stage on descriptor 9.
 *
 * drive STUB ANNOTATIONS FOLDER DIR=PLACE... -- PROGRAM ARGUMENT...
 *
 * As "drive proxy --stdio" it is the proxy of its loopback places.
 */
#include "config.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proxy/client/client.h"
#include "proxy/server/proxy.h"

extern char **environ;

static void
fail(const char *what, const char *why)
{
    (void)fprintf(stderr, "drive: %s: %s\n", what, why);
    exit(99);
}

/* FOLDER/bin/NAME for every annotated command that this machine has. */
static void
write_scripts(const struct fy_commands *commands, const char *folder,
              const char *stub)
{
    char path[4096], program[4096];
    (void)snprintf(path, sizeof path, "%s/bin", folder);
    (void)mkdir(path, 0700);
    for (size_t i = 0; i < fy_commands_count(commands); i++) {
        const char *name = fy_commands_name(commands, i)->name;
        (void)snprintf(program, sizeof program, "/usr/bin/%s", name);
        if (access(program, X_OK) != 0) {
            continue;
        }
        (void)snprintf(path, sizeof path, "%s/bin/%s", folder, name);
        FILE *file = fopen(path, "we");
        if (!file) {
            fail(path, "cannot be written");
        }
        (void)fprintf(file, "#!/bin/sh\nexec %s %s/session %s %s \"$@\"\n",
                      stub, folder, program, name);
        (void)fclose(file);
        (void)chmod(path, 0700);
    }
    const char *old = getenv("PATH");
    (void)snprintf(path, sizeof path, "%s/bin:%s", folder, old ? old : "/bin");
    (void)setenv("PATH", path, 1);
}

static void
print(struct fy_session *session)
{
    FILE *to = fdopen(9, "w");
    if (!to) {
        return;
    }
    for (unsigned i = 0; i < fy_session_stages(session); i++) {
        struct fy_stage_report row;
        fy_session_stage(session, i, &row);
        (void)fprintf(to, "%s %s %d %s%s\n", row.argv[0],
                      fy_stage_reason_word(row.declined), row.exit,
                      row.linked_to ? "linked " : "", row.why);
    }
    for (unsigned i = 0; i < fy_session_links(session); i++) {
        struct fy_link_report row;
        fy_session_link(session, i, &row);
        (void)fprintf(to, "# %s: received %llu sent %llu rtt %.6f %s\n",
                      row.place, (unsigned long long)row.received_bytes,
                      (unsigned long long)row.sent_bytes, row.rtt_seconds,
                      row.trouble);
    }
    (void)fclose(to);
}

static struct fy_commands *
compile(const char *path)
{
    struct fy_commands *commands;
    const char *const paths[] = {path, NULL};
    struct fy_diagnostics *diagnostics = fy_diagnostics_new();
    if (!path || fy_commands_compile(paths, 1, NULL, diagnostics, &commands)) {
        fail("the annotations", "cannot be compiled");
    }
    fy_diagnostics_free(diagnostics);
    return commands;
}

static int
serve(void)
{
    struct fy_commands *commands = compile(getenv("DRIVE_ANNOTATIONS"));
    const struct fy_proxy_options options = {
        .commands = commands, .stages_max = 64, .landlock = true};
    int status = fy_proxy_serve(0, 1, &options);
    fy_commands_free(commands);
    return status;
}

int
main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "proxy") == 0) {
        return serve();
    }
    char text[512] = "";
    struct fy_buffer why;
    struct fy_mount *mounts = calloc(FY_MAX_MOUNTS, sizeof *mounts);
    unsigned nmounts = 0;
    struct fy_session *session;
    fy_buffer_start(&why, text, sizeof text);
    int words = 4;
    while (words < argc && strcmp(argv[words], "--") != 0) {
        words++;
    }
    if (words + 1 >= argc || !mounts) {
        fail("usage", "STUB ANNOTATIONS FOLDER DIR=PLACE... -- ...");
    }
    argv[words] = NULL;
    struct fy_commands *commands = compile(argv[2]);
    (void)setenv("DRIVE_ANNOTATIONS", argv[2], 1);
    if (fy_mounts_find((const char *const *)argv + 4, false, mounts, &nmounts,
                       &why)) {
        fail("mounts", text);
    }
    const struct fy_session_options options = {
        .commands = commands,
        .mounts = mounts,
        .nmounts = nmounts,
        .folder = argv[3],
        .stub = argv[1],
        .ferry = "/proc/self/exe",
        .force = true,
        .logins = getenv("DRIVE_LOGINS"),
        .record = true,
    };
    /* Before there are threads that start processes: one that has a script
     * open for writing would make it busy. */
    write_scripts(commands, argv[3], argv[1]);
    if (fy_session_start(&options, &why, &session)) {
        fail("session", text);
    }
    (void)fcntl(9, F_SETFD, FD_CLOEXEC);
    pid_t pid;
    int status = 0;
    if (posix_spawnp(&pid, argv[words + 1], NULL, NULL, argv + words + 1,
                     environ) != 0) {
        fail(argv[words + 1], "cannot be run");
    }
    (void)waitpid(pid, &status, 0);
    fy_session_end(session, true);
    print(session);
    fy_session_free(session);
    fy_commands_free(commands);
    free(mounts);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
