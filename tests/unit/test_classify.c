/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proxy/client/classify.c: names joined to folders, and where what a stage reads and
 * writes is, from facts that the test makes up. Long because each case needs blocks of
 * its own.
 */
#include "config.h"

#include <check.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/path.h"
#include "proxy/client/classify.h"
#include "tests/unit/runner.h"

static const char commands_text[] =
    "command cat { operand FILE... in dash; stdin when !FILE || FILE == \"-\";"
    " stdout copies; pure; }\n"
    "command tee { operand FILE... out; stdin; effect; streams; drains; }\n"
    "command find { operand DIR... in tree; shows modes; removes folders; "
    "pure; }\n"
    "command git { operand WORD...; reads cwd tree; takes descriptors; pure; "
    "}\n"
    "command touch { operand FILE... out; effect; }\n"
    "command ls { operand FILE... in; owners; attributes; shows modes; pure; "
    "}\n"
    "command grep { operand DIR... in tree; reads cwd when !DIR; pure; }\n"
    "command less { operand FILE... in; terminal; pure; }\n"
    "command cp { flag -f; operand SOURCE... in; operand DEST out;"
    " changes contents unless -f; effect; }\n"
    "command tar { option -C DIR folder; operand FILE... in tree; shows modes; "
    "pure; }\n"
    "command untar { writes cwd; makes files; effect; }\n"
    "command clean { writes cwd; effect; }\n"
    "command chmod { flag -R; operand MODE; operand FILE... inout tree when -R;"
    " changes modes; effect; }\n"
    "command sed { flag -i; operand PROGRAM; operand FILE... inout when -i;"
    " operand FILE... in unless -i; replaces operands when -i; pure unless -i;"
    " }\n"
    "command stat { operand FILE... in; shows modes; pure; }\n"
    "command each { style words; option -exec COMMAND runs \"{}\" until \";\";"
    " operand DIR... in tree; pure; }\n"
    "command prune { operand DIR... inout tree; effect; }\n"
    "command pack { operand DIR... in tree; effect; }\n"
    "command list { operand DIR... in tree; lists; pure; }\n"
    "command takes { operand FILE... in; takes descriptors; pure; }\n";

static struct fy_commands *commands;
static struct fy_mount mounts[5];
static struct fy_stage_facts facts;
static struct fy_invocation invocation;
static struct fy_stage_plan plan;

char **__real_fy_mounts_below(const char *path);
char **__wrap_fy_mounts_below(const char *path);

/* One mount is on /more. */
char **
__wrap_fy_mounts_below(const char *path)
{
    static char inner[] = "/more/inner";
    if (strcmp(path, "/more") != 0) {
        return __real_fy_mounts_below(path);
    }
    char **list = calloc(2, sizeof *list);
    ck_assert_ptr_nonnull(list);
    list[0] = inner;
    return list;
}

static struct fy_stream_fact
stream(mode_t mode, int flags, const char *path)
{
    struct fy_stream_fact fact = {.open = true,
                                  .mode = mode | 0600,
                                  .device = 7,
                                  .inode = 70,
                                  .flags = flags,
                                  .links = 1};
    (void)snprintf(fact.path, sizeof fact.path, "%s", path);
    return fact;
}

static void
set_up(void)
{
    struct fy_diagnostics *diagnostics = fy_diagnostics_new();
    ck_assert_int_eq(fy_commands_compile_text("test", commands_text,
                                              sizeof commands_text - 1,
                                              diagnostics, &commands),
                     0);
    fy_diagnostics_free(diagnostics);
    memset(mounts, 0, sizeof mounts);
    (void)strcpy(mounts[0].path, "/data");
    (void)strcpy(mounts[1].path, "/data/other");
    (void)strcpy(mounts[2].path, "/ro");
    mounts[2].traits |= FY_MOUNT_READ_ONLY;
    (void)strcpy(mounts[3].path, "/more");
    (void)strcpy(mounts[4].path, "/far");
    (void)strcpy(mounts[4].place.host, "elsewhere");
    memset(&facts, 0, sizeof facts);
    facts.umask = 022;
    facts.path = "/usr/bin/x";
    (void)strcpy(facts.cwd, "/data/sub");
    facts.streams[0] = stream(S_IFCHR, O_RDONLY, "/dev/null");
    facts.streams[0].rdevice = makedev(1, 3);
    facts.streams[1] = stream(S_IFIFO, O_WRONLY, "pipe:[71]");
    facts.streams[1].inode = 71;
    facts.streams[2] = stream(S_IFCHR, O_RDWR, "/dev/pts/4");
    facts.streams[2].rdevice = makedev(136, 4);
}

static void
tear_down(void)
{
    fy_commands_free(commands);
}

/* The words are one text, parted by blanks. */
static unsigned
classify(const char *text)
{
    static char words[512];
    static const char *argv[32];
    char why_text[256];
    struct fy_buffer why;
    unsigned n = 0;
    (void)snprintf(words, sizeof words, "%s", text);
    char *rest = NULL;
    for (char *word = strtok_r(words, " ", &rest); word;
         word = strtok_r(NULL, " ", &rest)) {
        argv[n++] = word;
    }
    argv[n] = NULL;
    facts.argv = argv;
    fy_buffer_start(&why, why_text, sizeof why_text);
    ck_assert_int_eq(
        fy_invocation_parse(commands, argv[0], argv, NULL, &invocation, &why),
        0);
    unsigned reason = fy_classify(&facts, &invocation, mounts, 5, &plan, &why);
    fy_invocation_clear(&invocation);
    return reason;
}

START_TEST(test_join)
{
    static const struct {
        const char *base, *text;
        int status;
        const char *path;
    } rows[] = {
        {"/a/b", "c", 0, "/a/b/c"},
        {"/a/b", "./c//d/.", 0, "/a/b/c/d"},
        {"/a/b", "../c", 0, "/a/c"},
        {"/a/b", "../../../c", 0, "/c"},
        {"/a/b", "..", 0, "/a"},
        {"/a", "..", 0, "/"},
        {"/", "a", 0, "/a"},
        {"/a/b", "c/..", FY_ERR_INVALID, NULL},
        {"/a/b", "/x/../y", FY_ERR_INVALID, NULL},
        {"/a/b", "/..", FY_ERR_INVALID, NULL},
        {"/a/b", "/x//y/", 0, "/x/y"},
        {"/a/b", ".", 0, "/a/b"},
        {"a", "b", FY_ERR_INVALID, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char path[PATH_MAX];
        ck_assert_int_eq(fy_path_join(rows[i].base, rows[i].text, path),
                         rows[i].status);
        if (rows[i].path) {
            ck_assert_str_eq(path, rows[i].path);
        }
    }
    char *text = malloc(2 * PATH_MAX), path[PATH_MAX];
    ck_assert_ptr_nonnull(text);
    memset(text, 'x', 2 * PATH_MAX - 1);
    text[2 * PATH_MAX - 1] = '\0';
    ck_assert_int_eq(fy_path_join("/a", text, path), FY_ERR_OVERFLOW);
    text[PATH_MAX - 3] = '\0';
    ck_assert_int_eq(fy_path_join("/a", text, path), FY_ERR_OVERFLOW);
    free(text);
}
END_TEST

/* Whether the command line reads that file by name. */
static bool
reads(const char *path, const char *const *argv)
{
    char text[64];
    struct fy_buffer why;
    fy_buffer_start(&why, text, sizeof text);
    ck_assert_int_eq(
        fy_invocation_parse(commands, argv[0], argv, NULL, &invocation, &why),
        0);
    facts.argv = argv;
    bool result = fy_classify_reads(&facts, &invocation, path);
    fy_invocation_clear(&invocation);
    return result;
}

START_TEST(test_reads)
{
    const char *const cat[] = {"cat", "-", "../x", NULL};
    const char *const find[] = {"find", "/data/sub", NULL};
    const char *const git[] = {"git", "log", NULL};
    const char *const touch[] = {"touch", "x", NULL};
    const char *const odd[] = {"cat", "y/../x", NULL};
    ck_assert(reads("/data/x", cat));
    ck_assert(!reads("/data/sub/x", cat));
    ck_assert(reads("/data/sub/y/x", find));
    ck_assert(!reads("/data/x", find));
    ck_assert(reads("/data/sub/x", git));
    ck_assert(!reads("/data/x", git));
    ck_assert(!reads("/data/sub/x", touch));
    ck_assert(reads("/data/z", odd));
}
END_TEST

START_TEST(test_mount_of)
{
    ck_assert_ptr_eq(fy_mount_of(mounts, 3, "/data/x"), &mounts[0]);
    ck_assert_ptr_eq(fy_mount_of(mounts, 3, "/data"), &mounts[0]);
    ck_assert_ptr_eq(fy_mount_of(mounts, 3, "/data/other/x"), &mounts[1]);
    ck_assert_ptr_null(fy_mount_of(mounts, 3, "/datax"));
    ck_assert_ptr_null(fy_mount_of(mounts, 3, "/"));
}
END_TEST

START_TEST(test_operands)
{
    static const struct {
        const char *words;
        unsigned reason;
    } rows[] = {
        {"cat x", FY_STAGE_NONE},
        {"cat x ../y /data/z", FY_STAGE_NONE},
        {"cat x /dev/null", FY_STAGE_NONE},
        {"cat x /etc/hosts", FY_STAGE_MIXED_PLACES},
        {"cat /etc/hosts x", FY_STAGE_MIXED_PLACES},
        {"cat /etc/hosts", FY_STAGE_LOCAL_FILES},
        {"cat x /data/other/y", FY_STAGE_NESTED_MOUNT},
        {"cat /data/other/y x", FY_STAGE_NESTED_MOUNT},
        {"cat /data/other/y /more/x", FY_STAGE_NONE},
        {"cat x /more/y", FY_STAGE_NONE},
        {"cat x /more/y /etc/hosts", FY_STAGE_MIXED_PLACES},
        {"cat x /far/y", FY_STAGE_MIXED_PLACES},
        {"cat /more/x /far/y /more/x", FY_STAGE_MIXED_PLACES},
        {"touch x /more/y /ro/x", FY_STAGE_REFUSED},
        {"cat a/../x", FY_STAGE_UNCLEAR_PATH},
        {"cat x /dev/stdin", FY_STAGE_UNCLEAR_PATH},
        {"cat /proc/self/maps x", FY_STAGE_UNCLEAR_PATH},
        {"cat ../../x", FY_STAGE_LOCAL_FILES},
        {"cat -", FY_STAGE_LOCAL_FILES}, /* stdin is /dev/null */
        {"git status", FY_STAGE_NONE},
        {"tar -C /data/q y", FY_STAGE_NONE},
        {"tar -C /tmp y", FY_STAGE_LOCAL_FILES},
        {"tar -C /data/q ../y", FY_STAGE_UNCLEAR_PATH},
        {"touch /ro/x", FY_STAGE_REFUSED},
        {"cat /ro/x", FY_STAGE_NONE},
        {"less x", FY_STAGE_TERMINAL_INPUT}, /* stderr is one */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        unsigned reason = classify(rows[i].words);
        ck_assert_msg(reason == rows[i].reason, "%s: %s", rows[i].words,
                      fy_stage_reason_word(reason));
    }
    (void)strcpy(facts.cwd, "/tmp");
    ck_assert_uint_eq(classify("git status"), FY_STAGE_LOCAL_FILES);
    ck_assert_uint_eq(classify("cat /data/x"), FY_STAGE_NONE);
    facts.cwd[0] = '\0';
    ck_assert_uint_eq(classify("cat /data/x"), FY_STAGE_UNCLEAR_PATH);
}
END_TEST

START_TEST(test_plan)
{
    ck_assert_uint_eq(classify("cat x"), FY_STAGE_NONE);
    ck_assert_ptr_eq(plan.mount, &mounts[0]);
    ck_assert(plan.repeatable && !plan.effect && !plan.needs_link);
    ck_assert_int_eq(plan.in.kind, FY_STREAM_NULL);
    ck_assert_int_eq(plan.out.kind, FY_STREAM_WIRE);
    ck_assert(plan.out.is_pipe && plan.out.pipe_inode == 71);
    ck_assert_int_eq(plan.err.kind, FY_STREAM_WIRE);
    ck_assert_uint_eq(classify("touch x"), FY_STAGE_NONE);
    ck_assert(!plan.repeatable && plan.effect);
    ck_assert_uint_eq(classify("cat /more/x x /more/y"), FY_STAGE_NONE);
    ck_assert_uint_eq(plan.nmounts, 2);
    ck_assert_ptr_eq(plan.mount, &mounts[3]);
    ck_assert_ptr_eq(plan.mounts[0], &mounts[3]);
    ck_assert_ptr_eq(plan.mounts[1], &mounts[0]);
    /* Its output is on one more mount of that host, or of another. */
    facts.streams[1] = stream(S_IFREG, O_WRONLY, "/more/out");
    ck_assert_uint_eq(classify("cat x"), FY_STAGE_NONE);
    ck_assert_int_eq(plan.out.kind, FY_STREAM_FILE);
    ck_assert_uint_eq(plan.nmounts, 2);
    facts.streams[1] = stream(S_IFREG, O_WRONLY, "/far/out");
    ck_assert_uint_eq(classify("cat x"), FY_STAGE_NONE);
    ck_assert_int_eq(plan.out.kind, FY_STREAM_WIRE);
    ck_assert_uint_eq(plan.nmounts, 1);
    facts.streams[1] = stream(S_IFREG, O_WRONLY, "/data/other/out");
    ck_assert_uint_eq(classify("cat x"), FY_STAGE_NONE);
    ck_assert_int_eq(plan.out.kind, FY_STREAM_WIRE);
}
END_TEST

START_TEST(test_input)
{
    facts.streams[0] = stream(S_IFIFO, O_RDONLY, "pipe:[72]");
    ck_assert_uint_eq(classify("cat"), FY_STAGE_NONE);
    ck_assert(plan.needs_link && !plan.mount);
    ck_assert_int_eq(plan.in.kind, FY_STREAM_LINK);
    ck_assert_uint_eq(classify("cat - x"), FY_STAGE_NONE);
    ck_assert(plan.needs_link && plan.mount == &mounts[0]);
    ck_assert_uint_eq(classify("cat x"), FY_STAGE_NONE);
    ck_assert(!plan.needs_link);
    facts.streams[0] = stream(S_IFREG, O_RDONLY, "/data/in");
    facts.streams[0].offset = 12;
    ck_assert_uint_eq(classify("cat"), FY_STAGE_NONE);
    ck_assert_int_eq(plan.in.kind, FY_STREAM_FILE);
    ck_assert_uint_eq(plan.in.inode, 70);
    fy_mount_set_type(&mounts[0], "fuse.sshfs");
    ck_assert_uint_eq(classify("cat"), FY_STAGE_NONE);
    ck_assert_uint_eq(plan.in.inode, 0);
    fy_mount_set_type(&mounts[0], "");
    ck_assert_uint_eq(classify("cat"), FY_STAGE_NONE);
    ck_assert_str_eq(plan.in.path, "/data/in");
    ck_assert_int_eq(plan.in.offset, 12);
    facts.streams[0] = stream(S_IFREG, O_RDONLY, "/data/in (deleted)");
    ck_assert_uint_eq(classify("cat"), FY_STAGE_ODD_STREAM);
    facts.streams[0] = stream(S_IFREG, O_RDONLY, "/tmp/in");
    ck_assert_uint_eq(classify("cat"), FY_STAGE_LOCAL_INPUT);
    facts.streams[0] = stream(S_IFSOCK, O_RDWR, "socket:[1]");
    ck_assert_uint_eq(classify("cat"), FY_STAGE_ODD_STREAM);
    facts.streams[0] = facts.streams[2];
    ck_assert_uint_eq(classify("cat"), FY_STAGE_TERMINAL_INPUT);
    ck_assert_uint_eq(classify("cat x"), FY_STAGE_NONE);
    facts.streams[0].open = false;
    ck_assert_uint_eq(classify("cat x"), FY_STAGE_ODD_STREAM);
}
END_TEST

/* A pipe that nobody reads ends what has effects at its first write. */
START_TEST(test_unread_outputs)
{
    facts.streams[1] = stream(S_IFIFO, O_WRONLY, "pipe:[71]");
    facts.streams[2] = stream(S_IFIFO, O_WRONLY, "pipe:[72]");
    ck_assert_uint_eq(classify("tee x"), FY_STAGE_NONE);
    facts.streams[2].unread = true;
    ck_assert_uint_eq(classify("cat x"), FY_STAGE_NONE);
    ck_assert_uint_eq(classify("tee x"), FY_STAGE_ODD_STREAM);
    facts.streams[2].unread = false;
    facts.streams[1].unread = true;
    ck_assert_uint_eq(classify("cat x"), FY_STAGE_NONE);
    ck_assert_uint_eq(classify("tee x"), FY_STAGE_ODD_STREAM);
}
END_TEST

static bool
is_named(int fd)
{
    struct fy_stream_fact fact;
    ck_assert_int_eq(fy_stream_look(fd, &fact), 0);
    return fy_stream_is_named(&fact);
}

/* That the kernel appends " (deleted)" to the path of what was removed proves
 * nothing of a file that is called so. */
START_TEST(test_tells_removed_files_from_names)
{
    static const char *const names[] = {"a", "b", "b (deleted)", "c (deleted)"};
    char folder[] = "/tmp/ferry-named-XXXXXX";
    ck_assert_ptr_nonnull(mkdtemp(folder));
    int in = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), fds[4];
    ck_assert_int_ge(in, 0);
    for (int i = 0; i < 4; i++) {
        fds[i] = openat(in, names[i], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        ck_assert(is_named(fds[i]));
    }
    /* Removed, with links to the files elsewhere. */
    ck_assert_int_eq(linkat(in, "a", in, "a2", 0), 0);
    ck_assert_int_eq(linkat(in, "b", in, "b2", 0), 0);
    static const char *const gone[] = {"a",  "b",  "c (deleted)",
                                       "a2", "b2", "b (deleted)"};
    for (size_t i = 0; i < 6; i++) {
        ck_assert_int_eq(unlinkat(in, gone[i], 0), 0);
        ck_assert(i < 1 || !is_named(fds[0]));
        ck_assert(is_named(fds[2]) == (i < 5));
    }
    for (int i = 0; i < 4; i++) {
        ck_assert(!is_named(fds[i]) && close(fds[i]) == 0);
    }
    close(in);
    ck_assert_int_eq(rmdir(folder), 0);
}
END_TEST

START_TEST(test_looks_for_a_reader)
{
    struct fy_stream_fact fact;
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    ck_assert_int_eq(fy_stream_look(ends[1], &fact), 0);
    ck_assert(fact.open && !fact.unread);
    ck_assert_int_eq(fy_stream_look(ends[0], &fact), 0);
    ck_assert(fact.open && !fact.unread);
    close(ends[0]);
    ck_assert_int_eq(fy_stream_look(ends[1], &fact), 0);
    ck_assert(fact.open && fact.unread);
    close(ends[1]);
}
END_TEST

/* Standard input of this machine, for commands that do not mind. */
START_TEST(test_input_from_here)
{
    facts.streams[0] = stream(S_IFIFO, O_RDONLY, "pipe:[72]");
    ck_assert_uint_eq(classify("tee x"), FY_STAGE_NONE);
    ck_assert(plan.needs_link && plan.may_stream && plan.mount == &mounts[0]);
    ck_assert_uint_eq(classify("tee"), FY_STAGE_NONE);
    ck_assert(plan.needs_link && !plan.may_stream); /* a filter */
    ck_assert_uint_eq(classify("cat - x"), FY_STAGE_NONE);
    ck_assert(!plan.may_stream); /* it does mind */
    facts.streams[0].flags |= O_NONBLOCK;
    ck_assert_uint_eq(classify("tee x"), FY_STAGE_NONE);
    ck_assert(!plan.may_stream);

    facts.streams[0] = stream(S_IFREG, O_RDONLY, "/tmp/in (deleted)");
    facts.streams[0].bytes = 10000;
    facts.streams[0].offset = 1000;
    facts.streams[0].stored_bytes = 12288;
    ck_assert_uint_eq(classify("tee x"), FY_STAGE_NONE);
    ck_assert(plan.may_stream && !plan.needs_link);
    ck_assert_int_eq(plan.in.kind, FY_STREAM_WIRE);
    ck_assert_int_eq(plan.in.offset, 1000);
    ck_assert_int_eq(plan.local_bytes, 9000);
    ck_assert_uint_eq(classify("cat - x"), FY_STAGE_LOCAL_INPUT);
    /* A filter, but for what it writes. */
    ck_assert_uint_eq(classify("tee"), FY_STAGE_LOCAL_INPUT);
    facts.streams[1] = stream(S_IFREG, O_WRONLY, "/data/out");
    ck_assert_uint_eq(classify("tee"), FY_STAGE_NONE);
    ck_assert(plan.may_stream && plan.mount == &mounts[0]);
    facts.streams[1] = stream(S_IFREG, O_WRONLY, "/tmp/out");
    ck_assert_uint_eq(classify("tee"), FY_STAGE_LOCAL_INPUT);
    facts.streams[0].stored_bytes = 4096; /* holes */
    ck_assert_uint_eq(classify("tee x"), FY_STAGE_LOCAL_INPUT);
    facts.streams[0].stored_bytes = 12288;
    facts.streams[0].flags = O_WRONLY;
    ck_assert_uint_eq(classify("tee x"), FY_STAGE_ODD_STREAM);
}
END_TEST

START_TEST(test_output)
{
    facts.streams[1] = stream(S_IFREG, O_WRONLY, "/data/out");
    ck_assert_uint_eq(classify("cat x"), FY_STAGE_NONE);
    ck_assert_int_eq(plan.out.kind, FY_STREAM_FILE);
    ck_assert(plan.effect && plan.repeatable);
    facts.streams[1].flags |= O_APPEND;
    ck_assert_uint_eq(classify("cat x"), FY_STAGE_NONE);
    ck_assert(plan.effect && !plan.repeatable);
    facts.same = 2;
    ck_assert_uint_eq(classify("cat x"), FY_STAGE_NONE);
    ck_assert_int_eq(plan.err.kind, FY_STREAM_SAME);
    facts.same = 4;
    ck_assert_uint_eq(classify("cat x"), FY_STAGE_ODD_STREAM);
    facts.same = 0;
    facts.streams[0] = stream(S_IFREG, O_RDONLY, "/data/out");
    ck_assert_uint_eq(classify("cat"), FY_STAGE_ODD_STREAM);
    facts.streams[0] = stream(S_IFIFO, O_RDONLY, "pipe:[72]");
    ck_assert_uint_eq(classify("cat"), FY_STAGE_NONE);
    ck_assert(plan.needs_link && plan.mount == &mounts[0]);
    facts.streams[1] = stream(S_IFREG, O_WRONLY, "/tmp/out");
    ck_assert_uint_eq(classify("cat x"), FY_STAGE_NONE);
    ck_assert_int_eq(plan.out.kind, FY_STREAM_WIRE);
    facts.streams[1] = facts.streams[2];
    ck_assert_uint_eq(classify("cat x"), FY_STAGE_NONE);
    ck_assert_int_eq(plan.out.kind, FY_STREAM_PTY);
    ck_assert_int_eq(plan.err.kind, FY_STREAM_SAME);
    facts.streams[1].rdevice = makedev(1, 7); /* /dev/full */
    ck_assert_uint_eq(classify("cat x"), FY_STAGE_ODD_STREAM);
    facts.streams[1].open = false;
    ck_assert_uint_eq(classify("cat x"), FY_STAGE_ODD_STREAM);
}
END_TEST

/* Of each kind of output: closed, or open for reading only. */
START_TEST(test_outputs_that_cannot_be_written)
{
    static const struct {
        mode_t mode;
        const char *path;
    } rows[] = {{S_IFREG, "/data/out"},
                {S_IFREG, "/tmp/out"},
                {S_IFIFO, "pipe:[72]"},
                {S_IFSOCK, "socket:[73]"},
                {S_IFCHR, "/dev/null"}};
    static const char *const names[] = {"stdout", "stderr"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (int fd = 1; fd <= 2; fd++) {
            const struct fy_stream_fact before = facts.streams[fd];
            for (int how = 0; how < 3; how++) {
                struct fy_stream_fact *fact = &facts.streams[fd];
                *fact = stream(rows[i].mode, how == 1 ? O_RDONLY : O_WRONLY,
                               rows[i].path);
                fact->rdevice = makedev(1, 3);
                fact->open = how != 0;
                ck_assert_msg(
                    classify("cat x") ==
                        (how == 2 ? FY_STAGE_NONE : FY_STAGE_ODD_STREAM),
                    "%s %s, %d", names[fd - 1], rows[i].path, how);
            }
            facts.streams[fd] = before;
        }
    }
}
END_TEST

START_TEST(test_rest)
{
    facts.extra_fds = 1;
    ck_assert_uint_eq(classify("cat x"), FY_STAGE_OPEN_FILES);
    facts.extra_fds = 0;
    facts.extra_pipes = 2;
    ck_assert_uint_eq(classify("cat x"), FY_STAGE_NONE);
    ck_assert_uint_eq(classify("cat x /dev/fd/63"), FY_STAGE_OPEN_FILES);
    ck_assert_uint_eq(classify("cat /proc/7/fd/63"), FY_STAGE_OPEN_FILES);
    ck_assert_uint_eq(classify("touch x"), FY_STAGE_OPEN_FILES);
    ck_assert_uint_eq(classify("git log"), FY_STAGE_OPEN_FILES);
    const char *const names[] = {"A=/dev/fd/63", NULL};
    const char *const *environment = facts.env;
    facts.env = names;
    ck_assert_uint_eq(classify("cat x"), FY_STAGE_OPEN_FILES);
    facts.env = environment;
    facts.extra_fds = UINT32_MAX;
    ck_assert_uint_eq(classify("cat x"), FY_STAGE_OPEN_FILES);
    facts.extra_fds = facts.extra_pipes = 0;
    facts.path = "/data/bin/cat";
    ck_assert_uint_eq(classify("cat x"), FY_STAGE_UNCLEAR_PATH);
    facts.path = "/bin/ls";
    ck_assert_uint_eq(classify("ls x"), FY_STAGE_NONE);
    mounts[0].traits |= FY_MOUNT_OWNERS_DIFFER;
    ck_assert_uint_eq(classify("ls x"), FY_STAGE_OTHER_NAMES);
    mounts[0].traits &= ~(unsigned)FY_MOUNT_OWNERS_DIFFER;
    fy_mount_set_type(&mounts[0], "fuse.sshfs");
    ck_assert_uint_eq(classify("ls x"), FY_STAGE_OTHER_NAMES);
    fy_mount_set_type(&mounts[0], "nfs4");
    ck_assert_uint_eq(classify("ls x"), FY_STAGE_NONE);
}
END_TEST

/* Options of a mount that make its files look like others than the host's. */
START_TEST(test_unlike)
{
    facts.path = "/bin/cat";
    mounts[0].traits |= FY_MOUNT_FOLLOWS_LINKS;
    ck_assert_uint_eq(classify("cat x"), FY_STAGE_NONE);
    ck_assert_uint_eq(classify("grep sub"), FY_STAGE_OTHER_NAMES);
    ck_assert_uint_eq(classify("grep"), FY_STAGE_OTHER_NAMES);
    ck_assert_uint_eq(classify("cp x y"), FY_STAGE_OTHER_NAMES);
    ck_assert_uint_eq(classify("ls x"), FY_STAGE_OTHER_NAMES);
    mounts[0].traits &= ~(unsigned)FY_MOUNT_FOLLOWS_LINKS;
    mounts[0].traits |= FY_MOUNT_MODES_DIFFER;
    ck_assert_uint_eq(classify("cat x"), FY_STAGE_NONE);
    ck_assert_uint_eq(classify("grep sub"), FY_STAGE_NONE);
    ck_assert_uint_eq(classify("cp x y"), FY_STAGE_OTHER_NAMES);
    ck_assert_uint_eq(classify("ls x"), FY_STAGE_OTHER_NAMES);
    facts.streams[1] = stream(S_IFREG, O_WRONLY, "/data/out");
    ck_assert_uint_eq(classify("cat x"), FY_STAGE_OTHER_NAMES);
    facts.streams[1] = stream(S_IFIFO, O_WRONLY, "pipe:[71]");
    ck_assert_uint_eq(classify("each d -exec cat {} ;"), FY_STAGE_NONE);
    ck_assert_uint_eq(classify("each d -exec stat {} ;"), FY_STAGE_OTHER_NAMES);
    ck_assert_uint_eq(classify("list d"), FY_STAGE_OTHER_NAMES);
    mounts[0].traits &= ~(unsigned)FY_MOUNT_MODES_DIFFER;
    ck_assert_uint_eq(classify("list d"), FY_STAGE_NONE);
    mounts[0].traits |= FY_MOUNT_OTHER_FILES;
    ck_assert_uint_eq(classify("cat x"), FY_STAGE_OTHER_NAMES);
    mounts[0].traits &= ~(unsigned)FY_MOUNT_OTHER_FILES;
    ck_assert_uint_eq(classify("cat x"), FY_STAGE_NONE);
}
END_TEST

/* What caches and servers make of a change that is done behind the mount. */
START_TEST(test_changes)
{
    ck_assert_uint_eq(classify("cp x y"), FY_STAGE_NONE);
    mounts[0].traits |= FY_MOUNT_KEEPS;
    ck_assert_uint_eq(classify("cp x y"), FY_STAGE_FORBIDDEN);
    ck_assert_uint_eq(classify("cat x"), FY_STAGE_NONE);
    mounts[0].traits &= ~(unsigned)FY_MOUNT_KEEPS;
    fy_mount_set_type(&mounts[0], "fuse.sshfs");
    ck_assert_uint_eq(classify("cp x y"), FY_STAGE_NONE);
    facts.umask = 027;
    ck_assert_uint_eq(classify("cp x y"), FY_STAGE_NONE);
    facts.umask = 02;
    ck_assert_uint_eq(classify("cp x y"), FY_STAGE_OTHER_CONFIG);
    ck_assert_uint_eq(classify("cat x"), FY_STAGE_NONE);
    fy_mount_set_type(&mounts[0], "nfs4");
    ck_assert_uint_eq(classify("cp x y"), FY_STAGE_NONE);
}
END_TEST

/* What a block says of names: sshfs goes on showing those that are gone. */
START_TEST(test_removes)
{
    static const struct {
        const char *words;
        unsigned reason;
    } cases[] = {
        {"clean", FY_STAGE_FORBIDDEN},
        {"untar", FY_STAGE_NONE},
        {"prune d", FY_STAGE_FORBIDDEN},
        {"pack d", FY_STAGE_NONE},
        {"chmod 600 f", FY_STAGE_NONE},
        {"chmod -R 600 d", FY_STAGE_NONE},
        {"each d -exec chmod 600 {} ;", FY_STAGE_NONE},
        {"each d -exec cat {} ;", FY_STAGE_NONE},
        {"each d -exec sed -i p {} ;", FY_STAGE_FORBIDDEN},
        {"each d -exec chmod 600 {} ; -exec sed -i p {} ;", FY_STAGE_FORBIDDEN},
        {"each d -exec sed -i p {} ; -exec chmod 600 {} ;", FY_STAGE_FORBIDDEN},
        {"each d -exec chmod 600 {} ; -exec sed p {} ;", FY_STAGE_NONE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fy_mount_set_type(&mounts[0], "fuse.sshfs");
        ck_assert_uint_eq(classify(cases[i].words), cases[i].reason);
        fy_mount_set_type(&mounts[0], "nfs4");
        ck_assert_uint_eq(classify(cases[i].words), FY_STAGE_NONE);
    }
}
END_TEST

/* A server that knows of no open file: who has it open loses one that is gone. */
START_TEST(test_loses_files)
{
    static const char *const kept[] = {
        "cp x y", "chmod 600 f", "each d -exec chmod 600 {} ;",
        "cat x",  "sed p f",     "each d -exec cat {} ;",
    };
    static const char *const removed[] = {
        "cp -f x y",
        "sed -i p f",
        "clean",
        "untar",
        "prune d",
        "pack d",
        "each d -exec sed -i p {} ;",
        "each d -exec chmod 600 {} ; -exec sed -i p {} ;",
    };
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        fy_mount_set_type(&mounts[0], "nfs");
        ck_assert_uint_eq(classify(kept[i]), FY_STAGE_NONE);
    }
    for (size_t i = 0; i < sizeof removed / sizeof *removed; i++) {
        fy_mount_set_type(&mounts[0], "nfs");
        ck_assert_uint_eq(classify(removed[i]), FY_STAGE_FORBIDDEN);
        fy_mount_set_type(&mounts[0], "nfs4");
        ck_assert_uint_eq(classify(removed[i]), FY_STAGE_NONE);
    }
    /* What the shell has opened is written by its offset, and stays. */
    fy_mount_set_type(&mounts[0], "nfs");
    facts.streams[1] = stream(S_IFREG, O_WRONLY, "/data/out");
    ck_assert_uint_eq(classify("cat x"), FY_STAGE_NONE);
}
END_TEST

/* A new file in the place of another has the owner that the mount shows. */
START_TEST(test_replaces)
{
    mounts[0].traits |= FY_MOUNT_OWNERS_DIFFER;
    ck_assert_uint_eq(classify("sed -i p f"), FY_STAGE_OTHER_NAMES);
    ck_assert_uint_eq(classify("sed p f"), FY_STAGE_NONE);
    ck_assert_uint_eq(classify("chmod 600 f"), FY_STAGE_NONE);
    ck_assert_uint_eq(classify("each d -exec sed -i p {} ;"),
                      FY_STAGE_OTHER_NAMES);
    ck_assert_uint_eq(classify("each d -exec sed p {} ; -exec chmod 600 {} ;"),
                      FY_STAGE_NONE);
}
END_TEST

/* Pipes that it was handed beside its streams. */
START_TEST(test_pipes)
{
    facts.extra_pipes = 1;
    ck_assert_uint_eq(classify("cat x"), FY_STAGE_NONE);
    ck_assert_uint_eq(classify("takes x"), FY_STAGE_OPEN_FILES);
    ck_assert_uint_eq(classify("each d -exec takes {} ;"), FY_STAGE_OPEN_FILES);
}
END_TEST

/* A mount on the mount: what is on it is refused, and trees that hold it. */
START_TEST(test_mount_on_the_mount)
{
    static const struct {
        const char *command;
        unsigned reason;
    } rows[] = {
        {"cat /more", FY_STAGE_NONE},
        {"cat /more/x", FY_STAGE_NONE},
        {"cat /more/inner", FY_STAGE_NESTED_MOUNT},
        {"cat /more/inner/x", FY_STAGE_NESTED_MOUNT},
        {"cat /more/innermost", FY_STAGE_NONE},
        {"grep x /more", FY_STAGE_NESTED_MOUNT},
        {"grep x /more/x", FY_STAGE_NONE},
        {"grep x /more/inner", FY_STAGE_NESTED_MOUNT},
        {"grep x /more/innermost", FY_STAGE_NONE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ck_assert_msg(classify(rows[i].command) == rows[i].reason, "%s",
                      rows[i].command);
    }
}
END_TEST

START_TEST(test_nested)
{
    /* Of this machine's own mounts: /proc lies below the root. */
    char root[] = "/";
    memcpy(mounts[0].path, root, sizeof root);
    facts.streams[0] = stream(S_IFIFO, O_RDONLY, "pipe:[72]");
    (void)strcpy(facts.cwd, "/usr");
    char **below = fy_mounts_below("/");
    ck_assert_ptr_nonnull(below);
    bool has_proc = false;
    for (char **each = below; *each; each++) {
        has_proc = has_proc || strcmp(*each, "/proc") == 0;
    }
    free(below);
    ck_assert(has_proc);
    /* The program itself is on that mount, so all is unclear before. */
    ck_assert_uint_eq(classify("find ."), FY_STAGE_UNCLEAR_PATH);
}
END_TEST

START_TEST(test_look)
{
    struct fy_stream_fact fact;
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    ck_assert_int_eq(fy_stream_look(ends[0], &fact), 0);
    ck_assert(fact.open && S_ISFIFO(fact.mode));
    ck_assert_int_eq(fact.flags & O_ACCMODE, O_RDONLY);
    ck_assert(strncmp(fact.path, "pipe:[", 6) == 0);
    close(ends[0]);
    close(ends[1]);
    ck_assert_int_eq(fy_stream_look(ends[0], &fact), FY_ERR_IO);
    ck_assert(!fact.open);
    int null = open("/dev/null", O_WRONLY);
    ck_assert_int_eq(fy_stream_look(null, &fact), 0);
    ck_assert_uint_eq(fact.rdevice, makedev(1, 3));
    close(null);
}
END_TEST

/* A file with a hole, which has two names and is read from its middle. */
START_TEST(test_look_at_a_file)
{
    char path[] = "/tmp/test_classify_XXXXXX", other[40];
    struct fy_stream_fact fact;
    struct stat status;
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    (void)snprintf(other, sizeof other, "%s.2", path);
    ck_assert_int_eq(link(path, other), 0);
    ck_assert_int_eq(write(fd, path, 10), 10);
    ck_assert_int_eq(ftruncate(fd, 1 << 20), 0);
    ck_assert_int_eq(fsync(fd), 0);
    ck_assert_int_eq(lseek(fd, 7, SEEK_SET), 7);
    ck_assert_int_eq(fstat(fd, &status), 0);
    ck_assert_int_eq(fy_stream_look(fd, &fact), 0);
    ck_assert(fact.open && !fact.unread);
    ck_assert_uint_eq(fact.mode, status.st_mode);
    ck_assert_uint_eq(fact.device, status.st_dev);
    ck_assert_uint_eq(fact.inode, status.st_ino);
    ck_assert_uint_eq(fact.links, 2);
    ck_assert_int_eq(fact.bytes, 1 << 20);
    ck_assert_int_eq(fact.stored_bytes, status.st_blocks * 512);
    ck_assert_int_gt(fact.stored_bytes, 0);
    ck_assert_int_eq(fact.flags & O_ACCMODE, O_RDWR);
    ck_assert_int_eq(fact.offset, 7);
    ck_assert_str_eq(fact.path, path);
    (void)unlink(other);
    (void)unlink(path);
    close(fd);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("classify");
    TCase *tcase = tcase_create("classify");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, test_join);
    tcase_add_test(tcase, test_reads);
    tcase_add_test(tcase, test_unread_outputs);
    tcase_add_test(tcase, test_looks_for_a_reader);
    tcase_add_test(tcase, test_tells_removed_files_from_names);
    tcase_add_test(tcase, test_mount_of);
    tcase_add_test(tcase, test_operands);
    tcase_add_test(tcase, test_plan);
    tcase_add_test(tcase, test_input);
    tcase_add_test(tcase, test_input_from_here);
    tcase_add_test(tcase, test_output);
    tcase_add_test(tcase, test_outputs_that_cannot_be_written);
    tcase_add_test(tcase, test_rest);
    tcase_add_test(tcase, test_unlike);
    tcase_add_test(tcase, test_changes);
    tcase_add_test(tcase, test_removes);
    tcase_add_test(tcase, test_loses_files);
    tcase_add_test(tcase, test_replaces);
    tcase_add_test(tcase, test_pipes);
    tcase_add_test(tcase, test_mount_on_the_mount);
    tcase_add_test(tcase, test_nested);
    tcase_add_test(tcase, test_look);
    tcase_add_test(tcase, test_look_at_a_file);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
