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
#include <unistd.h>

#include "tests/unit/possible.h"
#include "tests/unit/runner.h"
#include "tests/unit/stage.h"

enum {
    WORDS_MAX = 12
};

static struct fy_commands *commands;

static void
setup(void)
{
    commands = shipped_commands(NULL);
    make_base("runs");
    shell("mkdir $B/top && cd $B/top && echo x >f && "
          "printf '#!/bin/sh\\n: >marker\\n' >evil && "
          "chmod 755 $B evil");
}

static void
teardown(void)
{
    fy_commands_free(commands);
    shell("rm -rf $B");
}

/* Whether the proxy would start find with these words. `programs' are named by the
 * client as equal; `forged': by a digest of something else. */
static bool
ask(struct stage *stage, const char *const *argv, const char *const *programs,
    bool forged)
{
    struct fy_stage_spec *spec = &stage->spec;
    stage_new(stage, commands, "/usr/bin/find", argv, NULL, root);
    for (; programs[spec->nconfigs]; spec->nconfigs++) {
        struct fy_config_hash *config = &stage->configs[spec->nconfigs];
        config->path = bytes(programs[spec->nconfigs]);
        ck_assert_int_eq(
            fy_config_hash(programs[spec->nconfigs], config->sha256), 0);
        config->sha256[0] ^= forged;
    }
    return stage_is_accepted(stage);
}

/* find inside, with other words than were asked for. */
static int
run(const struct stage *stage, const char *const *argv)
{
    static const char *const none[] = {NULL};
    int status = run_in(stage->sandbox, "", "", argv, none);
    ck_assert_int_lt(status, 126);
    return status;
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
        stage_end(&stage);
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
    stage_end(&stage);
}
END_TEST

START_TEST(refuses_programs_that_differ)
{
    static const char *const more[] = {"/usr/bin/grep", "/bin/sh", NULL};
    struct stage stage;
    ck_assert(!ask(&stage, greps, grep_only, true));
    if (!landlock_here()) {
        skip_test("no Landlock");
        stage_end(&stage);
        return;
    }
    ck_assert_ptr_nonnull(strstr(stage.why, "/usr/bin/grep"));
    stage_end(&stage);
    ck_assert(!ask(&stage, greps, more, false));
    ck_assert_ptr_nonnull(strstr(stage.why, "/bin/sh"));
    stage_end(&stage);
}
END_TEST

/* A program of which the client says nothing is not executed. */
START_TEST(executes_nothing_unsaid)
{
    struct stage stage;
    if (ask(&stage, greps, nothing, false)) {
        ck_assert_int_ne(run(&stage, greps), 0); /* as no grep can be */
    }
    stage_end(&stage);
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
        struct fy_invocation invocation = {0};
        char text[512];
        struct fy_buffer why;
        fy_buffer_start(&why, text, sizeof text);
        ck_assert_msg(fy_invocation_parse(commands, "find", lies[i], NULL,
                                          &invocation, &why) != FY_OK,
                      "%zu: %s %s", i, lies[i][3], lies[i][4]);
        ck_assert_str_ne(text, "");
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
