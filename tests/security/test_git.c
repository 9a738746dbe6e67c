/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Repositories that make git run a program, against the annotation of git: each of
 * them is refused; and a stage that was started all the same (a key that nobody
 * knew of) executes nothing of theirs. git itself is asked first whether it runs
 * the marker, by the same command on the same repository, outside of a proxy.
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

static char where[160], home[96], marker[96];
static struct fy_commands *commands;

/* Tools of the scripts: repositories of two commits; `evil' is a shell's command
 * that makes the marker, top/evil a program that does. */
static const char prelude[] =
    "set -e; cd $B/top; export HOME=$B/home; evil=\"touch $B/top/marker #\"\n"
    "repo() { git init -q \"$1\"; (cd \"$1\"; echo one >f; git add f; "
    "git commit -qm one; echo two >f; git commit -qam two; echo three >f); }\n"
    "nest() { repo \"$1/$2\"; (cd \"$1\"; git add \"$2\" 2>/dev/null; "
    "git commit -qm nested); }\n"
    "monitor() { git -C \"$1\" config core.fsmonitor \"$evil\"; }\n";

struct repository {
    const char *name, *script;
    const char *folder; /* where git is called */
    const char *argv[7];
};

static const struct repository repositories[] = {
    {"at the top", "repo r; monitor r", "r", {"git", "status"}},
    {"in a nested one",
     "repo r; nest r n; monitor r/n",
     "r",
     {"git", "status"}},
    {"in a nested one, seen by diff",
     "repo r; nest r n; monitor r/n",
     "r",
     {"git", "diff"}},
    {"in a nested one, seen by commit",
     "repo r; nest r n; monitor r/n",
     "r",
     {"git", "commit", "-am", "x"}},
    {"in a nested one, called from a folder",
     "repo r; nest r n; monitor r/n; mkdir r/d",
     "r/d",
     {"git", "status"}},
    {"in one nested in a nested one",
     "repo r; nest r n; nest r/n m; monitor r/n/m",
     "r",
     {"git", "status"}},
    {"in a nested one whose folder is elsewhere",
     "repo r; nest r n; mv r/n/.git else; monitor else 2>/dev/null || "
     "git config -f else/config core.fsmonitor \"$evil\"; "
     "echo gitdir: $B/top/else >r/n/.git",
     "r",
     {"git", "status"}},
    {"in a nested one of an index of version 4",
     "repo r; nest r n; monitor r/n; git -C r update-index --index-version 4",
     "r",
     {"git", "status"}},
    {"in a nested one of a split index",
     "repo r; nest r n; monitor r/n; git -C r update-index --split-index",
     "r",
     {"git", "status"}},
    {"in a folder that is a bare repository",
     "repo r; mv r/.git bare; rm bare/index; git -C r init -q . ; "
     "git config -f bare/config core.worktree $B/top/r; "
     "git config -f bare/config core.bare false; "
     "git config -f bare/config core.fsmonitor \"$evil\"",
     "bare",
     {"git", "status"}},
    {"in the folder that another one's settings are in",
     "repo r; repo s; monitor s; mv r/.git/config keep; "
     "echo ../../s/.git >r/.git/commondir",
     "r",
     {"git", "status"}},
    {"where .git is a file",
     "repo r; mv r/.git else; git config -f else/config core.fsmonitor "
     "\"$evil\"; "
     "echo gitdir: $B/top/else >r/.git",
     "r",
     {"git", "status"}},
    {"where .git is a link",
     "repo r; mv r/.git else; git config -f else/config core.fsmonitor "
     "\"$evil\"; "
     "ln -s ../else r/.git",
     "r",
     {"git", "status"}},
    {"in a folder above what is exported",
     "rm -rf ../.git; repo ..; monitor ..; mkdir e",
     "e",
     {"git", "status"}},
    {"by include",
     "repo r; git config -f $B/top/more core.fsmonitor \"$evil\"; "
     "git -C r config include.path $B/top/more",
     "r",
     {"git", "status"}},
    {"by a conditional include",
     "repo r; git config -f $B/top/more core.fsmonitor \"$evil\"; "
     "git -C r config includeIf.gitdir:/.path $B/top/more",
     "r",
     {"git", "status"}},
    {"of the working tree",
     "repo r; git -C r config extensions.worktreeConfig true; "
     "git config -f r/.git/config.worktree core.fsmonitor \"$evil\"",
     "r",
     {"git", "status"}},
    {"a hook when the index changes",
     "repo r; cp $B/top/evil r/.git/hooks/post-index-change; touch -d@1 r/f; "
     "git -C r checkout -q f; touch -d@2 r/f; rm -f $B/top/marker",
     "r",
     {"git", "status"}},
    {"a hook elsewhere",
     "repo r; mkdir hooks; cp $B/top/evil hooks/pre-commit; "
     "git -C r config core.hooksPath $B/top/hooks",
     "r",
     {"git", "commit", "-am", "x"}},
    {"a hook",
     "repo r; cp $B/top/evil r/.git/hooks/pre-commit",
     "r",
     {"git", "commit", "-am", "x"}},
    {"a filter",
     "repo r; git -C r config filter.x.clean \"$evil\"; "
     "echo 'f filter=x' >r/.gitattributes; touch r/f",
     "r",
     {"git", "add", "f"}},
    {"a filter of the home in a folder below",
     "repo r; git config --global filter.x.clean \"$evil\"; mkdir r/d; "
     "echo 'g filter=x' >r/d/.gitattributes; echo one >r/d/g",
     "r",
     {"git", "add", "d"}},
    {"a diff driver of the home in a folder below",
     "repo r; git config --global diff.x.command \"$evil\"; mkdir r/d; "
     "echo 'g diff=x' >r/d/.gitattributes; echo one >r/d/g; git -C r add d; "
     "echo two >r/d/g",
     "r",
     {"git", "diff"}},
    {"an external diff",
     "repo r; git -C r config diff.external \"$evil\"",
     "r",
     {"git", "diff"}},
    {"a text converter",
     "repo r; git -C r config diff.x.textconv \"$evil\"; "
     "echo 'f diff=x' >r/.git/info/attributes",
     "r",
     {"git", "log", "-p"}},
    {"a diff driver",
     "repo r; git -C r config diff.x.command \"$evil\"; "
     "echo 'f diff=x' >r/.gitattributes",
     "r",
     {"git", "diff"}},
    {"a program that checks signatures",
     "repo r; git -C r config gpg.program $B/top/evil; tree=$(git -C r "
     "rev-parse "
     "HEAD^{tree}); printf 'tree %s\\nauthor a <b> 1 +0000\\ncommitter a <b> 1 "
     "+0000\\ngpgsig -----BEGIN PGP SIGNATURE-----\\n \\n x\\n -----END PGP "
     "SIGNATURE-----\\n\\nm\\n' $tree >c; git -C r reset -q $(git -C r "
     "hash-object -t commit -w $B/top/c); git -C r config log.showSignature "
     "true",
     "r",
     {"git", "log"}},
    {"a text converter that is the linker, which runs a file",
     "repo r; mkdir r/d; cp $SELF r/d/evil; git -C r add d; "
     "echo '* diff=x' >r/.git/info/attributes; git -C r config diff.x.textconv "
     "$(ls /lib64/ld-linux-*.so.* /lib/ld-linux-*.so.* 2>&1 | grep -m 1 ^/)",
     "r",
     {"git", "commit", "--dry-run", "-v", "-m", "x"}},
};

static int
shell_of_git(const char *script)
{
    char line[4096], self[40];
    (void)snprintf(self, sizeof self, "/proc/%d/exe", (int)getpid());
    ck_assert_int_eq(setenv("B", base, 1), 0);
    ck_assert_int_eq(setenv("SELF", self, 1), 0);
    ck_assert_int_lt(
        snprintf(line, sizeof line, "{ %s%s\n} >$B/said 2>&1", prelude, script),
        (int)sizeof line);
    return system(line);
}

static void
setup(void)
{
    commands = shipped_commands("git");
    make_base("git");
    (void)snprintf(home, sizeof home, "HOME=%s/home", base);
    (void)snprintf(marker, sizeof marker, "%s/marker", root);
    ck_assert_int_eq(putenv(home), 0); /* the proxy's, too */
    shell("mkdir $B/top $B/home && printf '[user]\\nname = a\\nemail = "
          "b@c\\n[protocol \"file\"]\\nallow = always\\n' "
          ">$B/home/.gitconfig && printf '#!/bin/sh\\n: "
          ">%s/top/marker\\ncat >/dev/null\\n' $B >$B/top/evil && "
          "chmod 755 $B $B/top/evil");
}

static void
setup_user(void)
{
    become_ordinary_user();
    setup();
}

static void
teardown(void)
{
    fy_commands_free(commands);
    shell("chmod -R u+rwX $B; rm -rf $B");
}

static void
prepare(struct stage *stage, const struct repository *repository, bool blind)
{
    const char *env[] = {home, "PATH=/usr/bin:/bin", NULL};
    stage_new(stage, commands, "/usr/bin/git", repository->argv, env, where);
    if (blind) {
        stage->invocation.nabsents = 0;
    }
    if (strcmp(repository->argv[1], "commit") == 0) { /* what it starts */
        struct fy_config_hash *config = stage->configs;
        config->path = bytes("/usr/lib/git-core/git");
        ck_assert_int_eq(fy_config_hash(config->path.at, config->sha256), 0);
        stage->spec.nconfigs = 1;
    }
}

/* Whether the proxy would start it; `blind': without looking for settings. */
static bool
ask(struct stage *stage, const struct repository *repository, bool blind)
{
    prepare(stage, repository, blind);
    return stage_is_accepted(stage);
}

/* Runs git as the client does (sandbox NULL) or as the stage. */
static void
run(const struct repository *repository, struct fy_sandbox *sandbox)
{
    const char *env[] = {home, "PATH=/usr/bin:/bin", NULL};
    (void)run_in(sandbox, "/usr/bin/git", where, repository->argv, env);
}

static void
make(const struct repository *repository)
{
    (void)snprintf(where, sizeof where, "%s/%s", root, repository->folder);
    ck_assert_msg(shell_of_git(repository->script) == 0, "%s: cannot be made",
                  repository->name);
    (void)unlink(marker);
}

static bool
is_marked(void)
{
    return access(marker, F_OK) == 0;
}

START_TEST(runs_nothing_of_a_repository)
{
    const struct repository *repository = &repositories[_i];
    struct stage stage;
    make(repository);
    run(repository, NULL);
    if (!is_marked()) {
        skip_test("this git runs nothing there: %s", repository->name);
        return;
    }
    shell("rm -rf $B/top/*/ $B/top/marker");
    make(repository);
    bool accepted = ask(&stage, repository, false);
    ck_assert_msg(!accepted, "%s: it would run there", repository->name);
    ck_assert_msg(strstr(stage.why, "would run there") ||
                      strstr(stage.why, "cannot be looked into"),
                  "%s: %s", repository->name, stage.why);
    stage_end(&stage);
    ck_assert_msg(!is_marked(), "%s: by the check", repository->name);
    if (!ask(&stage, repository, true)) {
        /* For another reason (no Landlock, a link). */
        printf("# %s: %s\n", repository->name, stage.why);
    } else {
        run(repository, stage.sandbox);
        ck_assert_msg(!is_marked(), "%s: it ran there", repository->name);
    }
    stage_end(&stage);
}
END_TEST

/* git looks above what is no repository, also above the mount. */
START_TEST(leaves_what_is_no_repository)
{
    static const char *const scripts[] = {
        "mkdir -p r/.git",
        "repo r; rm r/.git/HEAD",
        "repo r; echo none >r/.git/HEAD",
        "repo r; echo ref: heads/master >r/.git/HEAD",
        "repo r; mv r/.git/objects r/.git/kept",
        "repo r; mv r/.git/refs r/.git/kept",
    };
    const struct repository repository = {
        scripts[_i], scripts[_i], "r", {"git", "status"}};
    struct stage stage;
    make(&repository);
    ck_assert_int_eq(
        shell_of_git("git init -q ..; "
                     "test $(git -C r rev-parse --show-prefix) = top/r/"),
        0);
    ck_assert_msg(!ask(&stage, &repository, false), "%s: sent", scripts[_i]);
    ck_assert_msg(strstr(stage.why, ".git/"), "%s", stage.why);
    stage_end(&stage);
}
END_TEST

/* What people have is sent, and does what it should. */
START_TEST(sends_a_plain_repository)
{
    static const struct repository plain[] = {
        {"status", "repo r", "r", {"git", "status"}},
        {"many",
         "repo r; cd r; touch $(seq 300); git add .",
         "r",
         {"git", "diff", "--cached"}},
        {"version 4",
         "repo r; git -C r update-index --index-version 4",
         "r",
         {"git", "status"}},
        {"intended",
         "repo r; cd r; touch new; git add -N new",
         "r",
         {"git", "diff"}},
        {"long name",
         "repo r; cd r; n=$(printf %0200d 0); mkdir -p $n/$n/$n; touch "
         "$n/$n/$n/$n; git add .",
         "r",
         {"git", "add", "f"}},
        {"log", "repo r", "r", {"git", "log", "-p"}},
        {"detached",
         "repo r; git -C r checkout -q HEAD^0",
         "r",
         {"git", "log"}},
    };
    struct stage stage;
    make(&plain[_i]);
    bool accepted = ask(&stage, &plain[_i], false);
    if (!landlock_here()) {
        skip_test("no Landlock");
    } else {
        ck_assert_msg(accepted, "%s: %s", plain[_i].name, stage.why);
        run(&plain[_i], stage.sandbox);
    }
    stage_end(&stage);
}
END_TEST

/* Settings may be exchanged after they were looked into: only Landlock keeps a git that
 * executes another one from executing what they name. */
START_TEST(needs_landlock_to_execute)
{
    static const struct repository plain[] = {
        {"status", "repo r", "r", {"git", "status"}},
        {"commit", "repo r", "r", {"git", "commit", "-m", "x"}},
    };
    for (unsigned i = 0; i < 2; i++) {
        struct stage stage;
        shell("rm -rf $B/top/*/");
        make(&plain[i]);
        prepare(&stage, &plain[i], false);
        fy_policy_free(stage.policy);
        ck_assert_int_eq(fy_policy_new(false, &stage.policy), 0);
        bool accepted = stage_is_accepted(&stage);
        ck_assert_msg(accepted == (i == 0), "%s: %s", plain[i].name, stage.why);
        stage_end(&stage);
    }
}
END_TEST

int
main(int argc, char **argv)
{
    if (argc > 0 && !strstr(argv[0], "test_git")) {
        return creat("../marker", 0600) < 0; /* a repository's copy of it */
    }
    Suite *suite = suite_create("git");
    if (access("/usr/bin/git", X_OK) != 0) {
        skip_test("no git");
        return 77;
    }
    for (int user = 0; user < 2; user++) {
        TCase *tests = tcase_create(user ? "user" : "here");
        tcase_add_checked_fixture(tests, user ? setup_user : setup, teardown);
        tcase_set_timeout(tests, 60);
        tcase_add_loop_test(tests, runs_nothing_of_a_repository, 0,
                            sizeof repositories / sizeof *repositories);
        tcase_add_loop_test(tests, leaves_what_is_no_repository, 0, 6);
        tcase_add_loop_test(tests, sends_a_plain_repository, 0, 7);
        tcase_add_test(tests, needs_landlock_to_execute);
        suite_add_tcase(suite, tests);
    }
    return run_suite(suite);
}
