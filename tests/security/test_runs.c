/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands that a command runs, against a client that lies: what find may execute
 * at the proxy is the program that its own words name, and only where the client's
 * is the same. Inside the sandbox find is given other words, as if it had been
 * taken over: it executes nothing else.
 */
#include "config.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "annotations/base/diagnostics.h"
#include "annotations/commands/command.h"
#include "proxy/sandbox/confines.h"
#include "proxy/storage/tools.h"
#include "tests/unit/possible.h"
#include "tests/unit/runner.h"

enum {
    WORDS_MAX = 12
};

static char base[64], root[80];
static struct fy_commands *commands;

/* One stage, and what its client says of programs. */
struct stage {
    struct fy_confine *confine;
    struct fy_stage_spec spec;
    struct fy_invocation invocation;
    struct fy_bytes argv[WORDS_MAX];
    struct fy_config_hash configs[2];
    char identity[512], why[512];
    struct fy_cage *cage;
};

static void
setup(void)
{
    const char *source = getenv("FERRY_SRCDIR");
    char path[4096];
    const char *paths[] = {path};
    struct fy_diagnostics *diagnostics = fy_diagnostics_new();
    (void)snprintf(path, sizeof path, "%s/annotations/lib/commands",
                   source ? source : ".");
    ck_assert_int_eq(
        fy_commands_compile(paths, 1, NULL, diagnostics, &commands), FY_OK);
    fy_diagnostics_free(diagnostics);
    strcpy(base, "/var/tmp/ferry-runs-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(base));
    (void)snprintf(root, sizeof root, "%s/top", base);
    ck_assert_int_eq(setenv("B", base, 1), 0);
    ck_assert_int_eq(system("mkdir $B/top && cd $B/top && echo x >f && "
                            "printf '#!/bin/sh\\n: >marker\\n' >evil && "
                            "chmod 755 $B evil"),
                     0);
}

static void
teardown(void)
{
    fy_commands_free(commands);
    ck_assert_int_eq(system("rm -rf $B"), 0);
}

static struct fy_bytes
bytes(const char *text)
{
    return (struct fy_bytes){text, strlen(text)};
}

static int
parse(const char *const *argv, struct stage *stage)
{
    struct fy_buffer why;
    fy_buffer_start(&why, stage->why, sizeof stage->why);
    return fy_invocation_parse(commands, "find", argv, NULL, &stage->invocation,
                               &why);
}

/* Whether the proxy would start find with these words. `programs' are named by the
 * client as equal; `forged': by a digest of something else. */
static bool
ask(struct stage *stage, const char *const *argv, const char *const *programs,
    bool forged)
{
    const char *roots[] = {root, NULL};
    const struct fy_confine_options options = {.roots = roots,
                                               .landlock = true};
    struct fy_stage_spec *spec = &stage->spec;
    struct fy_buffer why;
    int files[3];
    unsigned reason = FY_STAGE_NONE;
    memset(stage, 0, sizeof *stage);
    ck_assert_int_eq(parse(argv, stage), FY_OK);
    fy_buffer_start(&why, stage->why, sizeof stage->why);
    ck_assert_int_eq(fy_confine_new(&options, &why, &stage->confine), 0);
    ck_assert_int_eq(fy_tool_identity("/usr/bin/find", stage->identity,
                                      sizeof stage->identity),
                     0);
    *spec = (struct fy_stage_spec){.argv = stage->argv,
                                   .configs = stage->configs,
                                   .mount = bytes(root),
                                   .root = bytes(root),
                                   .cwd = bytes(root),
                                   .umask = 022};
    spec->tool.path = bytes("/usr/bin/find");
    spec->tool.identity = bytes(stage->identity);
    for (unsigned i = 0; i < 16; i++) {
        struct rlimit own;
        getrlimit((__rlimit_resource_t)i, &own);
        spec->limits[i][0] = spec->limits[i][1] =
            own.rlim_max == RLIM_INFINITY ? UINT64_MAX : own.rlim_max;
    }
    for (; argv[spec->argc]; spec->argc++) {
        stage->argv[spec->argc] = bytes(argv[spec->argc]);
    }
    for (; programs[spec->nconfigs]; spec->nconfigs++) {
        struct fy_config_hash *config = &stage->configs[spec->nconfigs];
        config->path = bytes(programs[spec->nconfigs]);
        ck_assert_int_eq(
            fy_config_hash(programs[spec->nconfigs], config->sha256), 0);
        config->sha256[0] ^= forged;
    }
    return fy_confine_check(stage->confine, spec, &stage->invocation,
                            &stage->cage, files, &reason, &why) == 0;
}

static void
forget(struct stage *stage)
{
    if (stage->cage) {
        fy_cage_free(stage->cage);
    }
    fy_invocation_clear(&stage->invocation);
    fy_confine_free(stage->confine);
}

/* find inside, with other words than were asked for. */
static int
run(const struct stage *stage, const char *const *argv)
{
    pid_t pid = fork();
    if (pid == 0) {
        char *env[] = {NULL};
        (void)!freopen("/dev/null", "r+", stdin);
        (void)dup2(0, 1);
        (void)dup2(0, 2);
        if (fy_cage_enter(stage->cage)) {
            _exit(126);
        }
        (void)execve(fy_cage_program(stage->cage),
                     (char *const *)(uintptr_t)argv, env);
        _exit(127);
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) < 126);
    return WEXITSTATUS(status);
}

static const char *const greps[] = {"find", ".", "-type", "f", "-exec", "grep",
                                    "-q",   "x", "{}",    "+", NULL};
static const char *const grep_only[] = {"/usr/bin/grep", NULL};
static const char *const nothing[] = {NULL};

START_TEST(executes_what_its_words_name)
{
    static const char *const match[] = {"find", "f",  "-exec", "grep",  "-q",
                                        "x",    "{}", ";",     "-quit", NULL};
    static const char *const others[][WORDS_MAX] = {
        {"find", "f", "-exec", "sh", "-c", ": >marker", "x", ";"},
        {"find", "f", "-exec", "/bin/sh", "-c", ": >marker", "x", ";"},
        {"find", "f", "-exec", "./evil", ";"},
        {"find", "f", "-exec", "touch", "marker", ";"},
        {"find", "f", "-fprint", "marker"},
    };
    struct stage stage;
    bool accepted = ask(&stage, greps, grep_only, false);
    if (!landlock_here()) {
        skip_test("no Landlock");
        forget(&stage);
        return;
    }
    ck_assert_msg(accepted, "%s", stage.why);
    ck_assert_int_eq(run(&stage, greps), 0);
    ck_assert_int_eq(run(&stage, match), 0);
    char marker[96];
    (void)snprintf(marker, sizeof marker, "%s/marker", root);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        (void)run(&stage, others[i]);
        ck_assert_msg(access(marker, F_OK) != 0, "by %s", others[i][3]);
    }
    forget(&stage);
}
END_TEST

START_TEST(refuses_programs_that_differ)
{
    static const char *const more[] = {"/usr/bin/grep", "/bin/sh", NULL};
    struct stage stage;
    ck_assert(!ask(&stage, greps, grep_only, true));
    if (!landlock_here()) {
        skip_test("no Landlock");
        forget(&stage);
        return;
    }
    ck_assert_ptr_nonnull(strstr(stage.why, "/usr/bin/grep"));
    forget(&stage);
    ck_assert(!ask(&stage, greps, more, false));
    ck_assert_ptr_nonnull(strstr(stage.why, "/bin/sh"));
    forget(&stage);
}
END_TEST

/* A program of which the client says nothing is not executed. */
START_TEST(executes_nothing_unsaid)
{
    struct stage stage;
    if (ask(&stage, greps, nothing, false)) {
        ck_assert_int_ne(run(&stage, greps), 0); /* as no grep can be */
    }
    forget(&stage);
}
END_TEST

START_TEST(parses_no_other_command)
{
    static const char *const lies[][WORDS_MAX] = {
        {"find", ".", "-exec", "sh", "-c", "x", ";"},
        {"find", ".", "-exec", "./grep", "x", "{}", ";"},
        {"find", ".", "-exec", "/tmp/grep", "x", "{}", ";"},
        {"find", ".", "-exec", "/usr/bin/../../tmp/grep", "x", "{}", ";"},
        {"find", ".", "-exec", "..", "x", "{}", ";"},
        {"find", ".", "-exec", "", "x", "{}", ";"},
        {"find", ".", "-exec", "{}", ";"},
        {"find", ".", "-execdir", "grep", "x", "{}", ";"},
        {"find", ".", "-ok", "grep", "x", "{}", ";"},
        {"find", ".", "-exec", "git", "status", ";"},
        {"find", ".", "-exec", "sed", "e", "{}", ";"},
        {"find", ".", "-exec", "awk", "BEGIN{system(1)}", "{}", ";"},
        {"find", ".", "-exec", "sed", "-n", "{}", "f", ";"},
    };
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        struct stage stage = {.why = ""};
        ck_assert_msg(parse(lies[i], &stage) != FY_OK, "%zu: %s %s", i,
                      lies[i][3], lies[i][4]);
        ck_assert_str_ne(stage.why, "");
    }
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("runs");
    TCase *tests = tcase_create("find");
    if (access("/usr/bin/find", X_OK) != 0) {
        skip_test("no find");
        return 77;
    }
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, executes_what_its_words_name);
    tcase_add_test(tests, refuses_programs_that_differ);
    tcase_add_test(tests, executes_nothing_unsaid);
    tcase_add_test(tests, parses_no_other_command);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
