/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder of a test with what a proxy may show in it, the ordinary user, and the
 * stage that a client asks for: for the tests of the sandbox and of what is refused.
 */
#ifndef FERRY_TESTS_UNIT_STAGE_H
#define FERRY_TESTS_UNIT_STAGE_H

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "annotations/base/diagnostics.h"
#include "annotations/commands/command.h"
#include "proxy/sandbox/policy.h"
#include "proxy/storage/tools.h"

static char base[64],
    root[80]; /* $B of shell(); its folder `top', a proxy's root */

static inline struct fy_bytes
bytes(const char *text)
{
    return (struct fy_bytes){text, strlen(text)};
}

static inline void
shell(const char *script)
{
    ck_assert_int_eq(setenv("B", base, 1), 0);
    ck_assert_msg(system(script) == 0, "%s", script);
}

static inline void
make_base(const char *name)
{
    (void)snprintf(base, sizeof base, "/var/tmp/ferry-%s-XXXXXX", name);
    ck_assert_ptr_nonnull(mkdtemp(base));
    (void)snprintf(root, sizeof root, "%s/top", base);
}

/* Where root runs the tests; that user's /proc/self is then not root's. */
static inline void
become_ordinary_user(void)
{
    if (geteuid() == 0) {
        ck_assert_int_eq(setgid(65534), 0);
        ck_assert_int_eq(setuid(65534), 0);
        ck_assert_int_eq(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0), 0);
    }
}

/* The limits of this process. */
static inline void
set_limits(struct fy_stage_spec *spec)
{
    for (unsigned i = 0; i < 16; i++) {
        struct rlimit own;
        getrlimit((__rlimit_resource_t)i, &own);
        spec->limits[i][0] = spec->limits[i][1] =
            own.rlim_max == RLIM_INFINITY ? UINT64_MAX : own.rlim_max;
    }
}

static inline void
set_tool(struct fy_stage_spec *spec, const char *path, char *identity,
         size_t size)
{
    ck_assert_int_eq(fy_tool_identity(path, identity, size), 0);
    spec->tool.path = bytes(path);
    spec->tool.identity = bytes(identity);
}

/* ---- a stage as the client's words and the annotations make it ---- */

struct stage {
    struct fy_policy *policy;
    struct fy_stage_spec spec;
    struct fy_invocation invocation;
    struct fy_bytes argv[12], env[2];
    struct fy_config_hash configs[2];
    char identity[512], why[512];
    struct fy_sandbox *sandbox;
};

/* The annotation of one command, or of all (NULL). */
static inline struct fy_commands *
shipped_commands(const char *word)
{
    const char *source = getenv("FERRY_SRCDIR");
    char path[4096];
    const char *paths[] = {path};
    struct fy_commands *commands;
    struct fy_diagnostics *diagnostics = fy_diagnostics_new();
    (void)snprintf(path, sizeof path, "%s/annotations/lib/commands",
                   source ? source : ".");
    ck_assert_int_eq(
        word ? fy_commands_compile_word(paths, 1, NULL, word, diagnostics,
                                        &commands)
             : fy_commands_compile(paths, 1, NULL, diagnostics, &commands),
        FY_OK);
    fy_diagnostics_free(diagnostics);
    return commands;
}

/* A client of `root' asks for these words in that folder. */
static inline void
stage_new(struct stage *stage, const struct fy_commands *commands,
          const char *tool, const char *const *argv, const char *const *env,
          const char *folder)
{
    struct fy_buffer why;
    memset(stage, 0, sizeof *stage);
    fy_buffer_start(&why, stage->why, sizeof stage->why);
    ck_assert_int_eq(fy_policy_new(true, &stage->policy), 0);
    struct fy_stage_spec *spec = &stage->spec;
    *spec = (struct fy_stage_spec){.argv = stage->argv,
                                   .env = stage->env,
                                   .configs = stage->configs,
                                   .mount = bytes(root),
                                   .root = bytes(root),
                                   .cwd = bytes(folder),
                                   .umask = 022};
    set_tool(spec, tool, stage->identity, sizeof stage->identity);
    set_limits(spec);
    for (; argv[spec->argc]; spec->argc++) {
        stage->argv[spec->argc] = bytes(argv[spec->argc]);
    }
    for (; env && env[spec->envc]; spec->envc++) {
        stage->env[spec->envc] = bytes(env[spec->envc]);
    }
    ck_assert_int_eq(fy_invocation_parse(commands, argv[0], argv, env,
                                         &stage->invocation, &why),
                     FY_OK);
}

/* Whether the proxy would start it. */
static inline bool
stage_is_accepted(struct stage *stage)
{
    struct fy_buffer why;
    int files[3];
    unsigned reason = FY_STAGE_NONE;
    fy_buffer_start(&why, stage->why, sizeof stage->why);
    return fy_policy_check(stage->policy, &stage->spec, &stage->invocation,
                           &stage->sandbox, files, &reason, &why) == 0;
}

/* Runs other words in its sandbox, or a program in a folder without one; its status. */
static inline int
run_in(struct fy_sandbox *sandbox, const char *program, const char *folder,
       const char *const *argv, const char *const *env)
{
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        (void)!freopen("/dev/null", "r+", stdin);
        (void)dup2(0, 1);
        (void)dup2(0, 2);
        if (sandbox ? fy_sandbox_enter(sandbox) : chdir(folder)) {
            _exit(126);
        }
        (void)execve(sandbox ? fy_sandbox_program(sandbox) : program,
                     (char *const *)(uintptr_t)argv,
                     (char *const *)(uintptr_t)env);
        _exit(127);
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) != 126 &&
              WEXITSTATUS(status) != 127);
    return WEXITSTATUS(status);
}

static inline void
stage_end(struct stage *stage)
{
    if (stage->sandbox) {
        fy_sandbox_free(stage->sandbox);
    }
    fy_invocation_clear(&stage->invocation);
    fy_policy_free(stage->policy);
}

#endif
