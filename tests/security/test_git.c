/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Repositories that make git run a program, against the annotation of git: each of
 * them is refused; and a stage that was started all the same (a key that nobody
 * knew of) executes nothing of theirs. git itself is asked first whether it runs
 * the marker, by the same command on the same repository, outside of a proxy.
 */
#include "config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "annotations/base/diagnostics.h"
#include "annotations/commands/command.h"
#include "proxy/sandbox/confines.h"
#include "proxy/storage/tools.h"
#include "tests/unit/possible.h"
#include "tests/unit/runner.h"

static char base[64], root[80], where[160], home[96], marker[96];
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
    const char *argv[6];
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
};

static int
shell(const char *script)
{
    char line[4096];
    ck_assert_int_eq(setenv("B", base, 1), 0);
    ck_assert_int_lt(
        snprintf(line, sizeof line, "{ %s%s\n} >$B/said 2>&1", prelude, script),
        (int)sizeof line);
    return system(line);
}

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
        fy_commands_compile_word(paths, 1, NULL, "git", diagnostics, &commands),
        FY_OK);
    fy_diagnostics_free(diagnostics);
    strcpy(base, "/var/tmp/ferry-git-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(base));
    (void)snprintf(root, sizeof root, "%s/top", base);
    (void)snprintf(home, sizeof home, "HOME=%s/home", base);
    (void)snprintf(marker, sizeof marker, "%s/marker", root);
    ck_assert_int_eq(setenv("B", base, 1), 0);
    ck_assert_int_eq(putenv(home), 0); /* the proxy's, too */
    ck_assert_int_eq(
        system("mkdir $B/top $B/home && printf '[user]\\nname = a\\nemail = "
               "b@c\\n[protocol \"file\"]\\nallow = always\\n' "
               ">$B/home/.gitconfig && printf '#!/bin/sh\\n: "
               ">%s/top/marker\\ncat >/dev/null\\n' $B >$B/top/evil && "
               "chmod 755 $B $B/top/evil"),
        0);
}

static void
setup_user(void)
{
    if (geteuid() == 0) {
        ck_assert_int_eq(setgid(65534), 0);
        ck_assert_int_eq(setuid(65534), 0);
        ck_assert_int_eq(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0), 0);
    }
    setup();
}

static void
teardown(void)
{
    fy_commands_free(commands);
    ck_assert_int_eq(system("chmod -R u+rwX $B; rm -rf $B"), 0);
}

/* Everything that is asked for of one stage of git. */
struct stage {
    struct fy_confine *confine;
    struct fy_stage_spec spec;
    struct fy_invocation invocation;
    struct fy_bytes argv[6], env[2];
    char identity[512], why[512];
    struct fy_cage *cage;
};

static struct fy_bytes
bytes(const char *text)
{
    return (struct fy_bytes){text, strlen(text)};
}

/* Whether the proxy would start it; `blind': without looking for settings. */
static bool
ask(struct stage *stage, const struct repository *repository, bool blind)
{
    const char *env[] = {home, "PATH=/usr/bin:/bin", NULL};
    const char *roots[] = {root, NULL};
    const struct fy_confine_options options = {.roots = roots,
                                               .landlock = true};
    struct fy_buffer why;
    int files[3];
    unsigned reason = FY_STAGE_NONE;
    memset(stage, 0, sizeof *stage);
    fy_buffer_start(&why, stage->why, sizeof stage->why);
    ck_assert_int_eq(fy_confine_new(&options, &why, &stage->confine), 0);
    ck_assert_int_eq(fy_tool_identity("/usr/bin/git", stage->identity,
                                      sizeof stage->identity),
                     0);
    struct fy_stage_spec *spec = &stage->spec;
    *spec = (struct fy_stage_spec){.argv = stage->argv,
                                   .env = stage->env,
                                   .envc = 2,
                                   .mount = bytes(root),
                                   .root = bytes(root),
                                   .cwd = bytes(where),
                                   .umask = 022};
    spec->tool.path = bytes("/usr/bin/git");
    spec->tool.identity = bytes(stage->identity);
    stage->env[0] = bytes(env[0]);
    stage->env[1] = bytes(env[1]);
    for (unsigned i = 0; i < 16; i++) {
        struct rlimit own;
        getrlimit((__rlimit_resource_t)i, &own);
        spec->limits[i][0] = spec->limits[i][1] =
            own.rlim_max == RLIM_INFINITY ? UINT64_MAX : own.rlim_max;
    }
    while (repository->argv[spec->argc]) {
        stage->argv[spec->argc] = bytes(repository->argv[spec->argc]);
        spec->argc++;
    }
    ck_assert_int_eq(fy_invocation_parse(commands, "git", repository->argv, env,
                                         &stage->invocation, &why),
                     FY_OK);
    if (blind) {
        stage->invocation.nabsents = 0;
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

/* Runs git as the client does (cage NULL) or as the stage. */
static void
run(const struct repository *repository, struct fy_cage *cage)
{
    pid_t pid = fork();
    if (pid == 0) {
        char *env[] = {home, "PATH=/usr/bin:/bin", NULL};
        (void)!freopen("/dev/null", "r+", stdin);
        (void)dup2(0, 1);
        (void)dup2(0, 2);
        if (cage ? fy_cage_enter(cage) : chdir(where)) {
            _exit(126);
        }
        (void)execve(cage ? fy_cage_program(cage) : "/usr/bin/git",
                     (char *const *)(uintptr_t)repository->argv, env);
        _exit(127);
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) != 126 &&
              WEXITSTATUS(status) != 127);
}

static void
make(const struct repository *repository)
{
    (void)snprintf(where, sizeof where, "%s/%s", root, repository->folder);
    ck_assert_msg(shell(repository->script) == 0, "%s: cannot be made",
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
    ck_assert_int_eq(system("rm -rf $B/top/*/ $B/top/marker"), 0);
    make(repository);
    bool accepted = ask(&stage, repository, false);
    ck_assert_msg(!accepted, "%s: it would run there", repository->name);
    ck_assert_msg(strstr(stage.why, "would run there") ||
                      strstr(stage.why, "cannot be looked into"),
                  "%s: %s", repository->name, stage.why);
    forget(&stage);
    ck_assert_msg(!is_marked(), "%s: by the check", repository->name);
    if (!ask(&stage, repository, true)) {
        /* For another reason (no Landlock, a link). */
        printf("# %s: %s\n", repository->name, stage.why);
    } else {
        run(repository, stage.cage);
        ck_assert_msg(!is_marked(), "%s: it ran there", repository->name);
    }
    forget(&stage);
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
    };
    struct stage stage;
    make(&plain[_i]);
    bool accepted = ask(&stage, &plain[_i], false);
    if (!landlock_here()) {
        skip_test("no Landlock");
    } else {
        ck_assert_msg(accepted, "%s: %s", plain[_i].name, stage.why);
        run(&plain[_i], stage.cage);
    }
    forget(&stage);
}
END_TEST

int
main(void)
{
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
        tcase_add_loop_test(tests, sends_a_plain_repository, 0, 6);
        suite_add_tcase(suite, tests);
    }
    return run_suite(suite);
}
