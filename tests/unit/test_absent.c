/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that must be absent or present for a stage: where they are looked for,
 * what counts as a match, and that what is unclear counts against the stage.
 */
#include "config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proxy/sandbox/policy.h"
#include "proxy/wire/reason.h"
#include "tests/unit/runner.h"

static char top[64];
static struct fy_root root;

static void
put(const char *path, const char *text)
{
    char full[256];
    snprintf(full, sizeof full, "%s/%s", top, path);
    FILE *file = fopen(full, "w");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    ck_assert_int_eq(fclose(file), 0);
}

/* A file with string constants. */
static void
put_words(const char *path, const char *const *words)
{
    char full[256];
    snprintf(full, sizeof full, "%s/%s", top, path);
    FILE *file = fopen(full, "w");
    ck_assert_ptr_nonnull(file);
    for (size_t i = 0; i < 4 && words[i]; i++) {
        fprintf(file, "%c%s%c", 0, words[i], 0);
    }
    ck_assert_int_eq(fclose(file), 0);
}

static void
make(const char *path)
{
    char full[256];
    snprintf(full, sizeof full, "%s/%s", top, path);
    ck_assert_int_eq(mkdir(full, 0700), 0);
}

static void
setup(void)
{
    char path[128];
    strcpy(top, "/tmp/ferry-absent-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(top));
    make("root");
    make("root/.git");
    make("root/.git/hooks");
    make("root/sub");
    make("root/sub/deep");
    make("home");
    put("root/.git/config", "[core]\n\tBare = false\n[user]\n\temail = a@b\n");
    snprintf(path, sizeof path, "%s/root", top);
    ck_assert_int_eq(fy_root_open(path, &root), 0);
}

static void
teardown(void)
{
    char line[128];
    fy_root_close(&root);
    snprintf(line, sizeof line, "rm -r '%s'", top);
    ck_assert_int_eq(system(line), 0);
}

static const char *program = "/usr/bin/git";

/* The reason, or 0. */
static unsigned
look_in(const char *base, const char *home, const struct fy_absent *absents,
        uint32_t n)
{
    char text[256];
    static struct fy_seen seen;
    unsigned reason = 0;
    struct fy_buffer why;
    struct fy_invocation invocation = {.absents = absents, .nabsents = n};
    seen.root = root;
    strcpy(seen.mount, "/mnt-of-the-client");
    const struct fy_absent_places places = {.root = &root,
                                            .base = base,
                                            .program = program,
                                            .home = home,
                                            .seen = &seen,
                                            .nseen = 1,
                                            .image = -1};
    fy_buffer_start(&why, text, sizeof text);
    int status = fy_check_absents(&places, &invocation, &reason, &why);
    ck_assert_int_eq(status != 0, reason != 0);
    ck_assert_int_eq(status != 0, text[0] != '\0');
    return reason;
}

static unsigned
look(const char *base, const struct fy_absent *absents, uint32_t n)
{
    char home[128];
    snprintf(home, sizeof home, "%s/home", top);
    return look_in(base, home, absents, n);
}

/* A program below another prefix has its part of /etc there, whatever it says. */
START_TEST(of_another_prefix)
{
    static char path[128], link_path[128], prefix[128];
    const struct fy_absent absent = {"/etc/ferry-none", "x", false};
    make("local");
    make("local/bin");
    make("local/etc");
    snprintf(path, sizeof path, "%s/local/bin/git", top);
    snprintf(prefix, sizeof prefix, "%s/local", top);
    put_words("local/bin/git",
              (const char *[]){"etc/ferry-none", prefix, NULL});
    snprintf(link_path, sizeof link_path, "%s/git", top);
    ck_assert_int_eq(symlink(path, link_path), 0);
    for (int i = 0; i < 2; i++) {
        program = i ? link_path : path;
        ck_assert_uint_eq(look(".", &absent, 1), 0);
        put("local/etc/ferry-none", "y");
        ck_assert_uint_eq(look(".", &absent, 1), FY_STAGE_OTHER_CONFIG);
        ck_assert_int_eq(unlinkat(root.fd, "../local/etc/ferry-none", 0), 0);
    }
    program = "/usr/bin/git";
}
END_TEST

/* What a program does not name it need not read: it may have been built for settings
 * elsewhere (sysconfdir), be moved (stow), or be a script that calls another. */
START_TEST(of_another_place)
{
    static char path[128], prefix[128];
    const struct fy_absent absent = {"/etc/ferry-none", "x", false};
    const struct {
        const char *words[4];
        bool fits;
    } programs[] = {
        {{"/etc/ferry-none"}, true},
        {{"a", "/etc/ferry-none", "b"}, true},
        {{"etc/ferry-none", prefix}, true},
        {{"etc/ferry-none", "/usr/local"}, false},
        {{prefix, "/opt/conf/ferry-none"}, false},
        {{prefix, "/opt/etc/ferry-none"}, false},
        {{"/etc/ferry-none.d", prefix}, false},
        {{"#!/bin/sh\nexec git # /etc/ferry-none"}, false},
        {{""}, false},
    };
    make("local");
    make("local/bin");
    snprintf(prefix, sizeof prefix, "%s/local", top);
    snprintf(path, sizeof path, "%s/local/bin/git", top);
    program = path;
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        put_words("local/bin/git", programs[i].words);
        ck_assert_uint_eq(look(".", &absent, 1),
                          programs[i].fits ? 0 : FY_STAGE_OTHER_CONFIG);
    }
    put_words("local/bin/git", programs[0].words);
    const struct fy_absent hook = {".git/hooks/x", NULL, false};
    ck_assert_uint_eq(look(".", &hook, 1), 0);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_uint_eq(look(".", &absent, 1), FY_STAGE_OTHER_CONFIG);
    program = "/usr/bin/git";
}
END_TEST

/* The stage finds them there; elsewhere they would be said to be missing. */
START_TEST(home_on_a_mount)
{
    static const char *const homes[] = {"/mnt-of-the-client/sub",
                                        "/mnt-of-the-client//./sub/"};
    static const char *const unclear[] = {
        "/mnt-of-the-client/../mnt-of-the-client/sub",
        "/proc/self/cwd/mnt-of-the-client/sub",
        "/proc/self/cwd",
        "sub",
        "",
    };
    const struct fy_absent monitor = {"~/.gitconfig", "fsmonitor", false};
    for (size_t i = 0; i < sizeof homes / sizeof *homes; i++) {
        (void)unlinkat(root.fd, "sub/.gitconfig", 0);
        ck_assert_uint_eq(look_in(".", homes[i], &monitor, 1), 0);
        put("root/sub/.gitconfig", "fsmonitor = x\n");
        ck_assert_uint_eq(look_in(".", homes[i], &monitor, 1),
                          FY_STAGE_OTHER_CONFIG);
    }
    for (size_t i = 0; i < sizeof unclear / sizeof *unclear; i++) {
        ck_assert_msg(look_in(".", unclear[i], &monitor, 1) ==
                          FY_STAGE_OTHER_CONFIG,
                      "%s", unclear[i]);
    }
    ck_assert_int_eq(unlinkat(root.fd, "sub/.gitconfig", 0), 0);
    ck_assert_int_eq(symlinkat("elsewhere", root.fd, "sub/.gitconfig"), 0);
    ck_assert_uint_eq(look_in(".", homes[0], &monitor, 1),
                      FY_STAGE_OTHER_CONFIG);
}
END_TEST

START_TEST(hooks)
{
    const struct fy_absent hook = {.path = ".git/hooks/pre-commit"};
    ck_assert_uint_eq(look(".", &hook, 1), 0);
    ck_assert_uint_eq(look("sub/deep", &hook, 1), 0);
    put("root/.git/hooks/pre-commit", "#!/bin/sh\n");
    ck_assert_uint_eq(look(".", &hook, 1), FY_STAGE_OTHER_CONFIG);
    ck_assert_uint_eq(look("sub/deep", &hook, 1), FY_STAGE_OTHER_CONFIG);
}
END_TEST

START_TEST(not_above_the_root)
{
    const struct fy_absent file = {.path = "outside"};
    put("outside", "x");
    ck_assert_uint_eq(look("sub", &file, 1), 0);
    put("root/sub/outside", "x");
    ck_assert_uint_eq(look("sub/deep", &file, 1), FY_STAGE_OTHER_CONFIG);
    ck_assert_uint_eq(look(".", &file, 1), 0);
}
END_TEST

START_TEST(lines)
{
    const struct fy_absent bare = {".git/config", "^[[:space:]]*bare", false};
    const struct fy_absent filter = {".git/config", "^\\[filter", false};
    const struct fy_absent folder = {".git", "^gitdir:", false};
    ck_assert_uint_eq(look("sub", &bare, 1), FY_STAGE_OTHER_CONFIG);
    ck_assert_uint_eq(look("sub", &filter, 1), 0);
    ck_assert_uint_eq(look("sub", &folder, 1), 0);
    put("root/.git/config", "[Filter \"lfs\"]");
    ck_assert_uint_eq(look("sub", &filter, 1), FY_STAGE_OTHER_CONFIG);
}
END_TEST

START_TEST(presents)
{
    const struct fy_absent either[] = {
        {"~/.gitconfig", "^[[:space:]]*email", true},
        {".git/config", "^[[:space:]]*email", true},
    };
    ck_assert_uint_eq(look("sub", either, 2), 0);
    ck_assert_uint_eq(look("sub", either, 1), FY_STAGE_OTHER_CONFIG);
    put("home/.gitconfig", "[user]\nemail=x\n");
    ck_assert_uint_eq(look("sub", either, 1), 0);
    put("root/.git/config", "");
    ck_assert_uint_eq(look("sub", either, 2), 0);
    put("home/.gitconfig", "");
    ck_assert_uint_eq(look("sub", either, 2), FY_STAGE_OTHER_CONFIG);
    put("home/.gitconfig", "[user]\nemail=x\n");
    const struct fy_absent each[] = {
        {".git", NULL, true}, {".svn", NULL, true}, either[0]};
    ck_assert_uint_eq(look("sub", each, 1), 0);
    ck_assert_uint_eq(look("sub", each, 3), FY_STAGE_OTHER_CONFIG);
    const struct fy_absent both[] = {either[0], {".git/HEAD", "^ref", true}};
    ck_assert_uint_eq(look("sub", both, 2), FY_STAGE_OTHER_CONFIG);
    put("root/.git/HEAD", "ref: refs/heads/master\n");
    ck_assert_uint_eq(look("sub", both, 2), 0);
    put("home/.gitconfig", "");
    ck_assert_uint_eq(look("sub", both, 2), FY_STAGE_OTHER_CONFIG);
}
END_TEST

START_TEST(unclear)
{
    char path[128];
    const struct fy_absent config = {".git/config", "x", false};
    const struct fy_absent hook = {.path = ".git/hooks/pre-commit"};
    put("root/.git/hooks/pre-commit", "");
    ck_assert_uint_eq(look("nosuch", &config, 1), FY_STAGE_OTHER_CONFIG);
    ck_assert_uint_eq(look("", &config, 1), FY_STAGE_OTHER_CONFIG);
    snprintf(path, sizeof path, "%s/root/.git/hooks/pre-commit", top);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(symlink("/nowhere/else", path), 0);
    ck_assert_uint_eq(look(".", &hook, 1), FY_STAGE_OTHER_CONFIG);
    snprintf(path, sizeof path, "%s/root/.git/config", top);
    ck_assert_int_eq(truncate(path, 2 << 20), 0);
    ck_assert_uint_eq(look(".", &config, 1), FY_STAGE_OTHER_CONFIG);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("absent");
    TCase *tcase = tcase_create("looked for");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, hooks);
    tcase_add_test(tcase, of_another_prefix);
    tcase_add_test(tcase, of_another_place);
    tcase_add_test(tcase, home_on_a_mount);
    tcase_add_test(tcase, not_above_the_root);
    tcase_add_test(tcase, lines);
    tcase_add_test(tcase, presents);
    tcase_add_test(tcase, unclear);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
