/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Command blocks where tests/lang cannot look: arguments of any length and any
 * bytes, limits of a block, memory and sharing between threads.
 * Long because they share the ways in which blocks are compiled.
 */
#include "config.h"

#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "annotations/commands/command.h"
#include "tests/unit/runner.h"

static const char grep_text[] =
    "command grep {\n"
    "  flag -v --invert-match, -i, -c --count, -r, -z;\n"
    "  option -e --regexp PATTERN, -A NUM, --color[=WHEN], -f FILE in;\n"
    "  operand PATTERN unless -e || -f;\n"
    "  operand FILE... in dash tree when -r;\n"
    "  stdin when !FILE;\n"
    "  never matches(PATTERN, \"bad|worse\") \"a bad pattern\";\n"
    "  pure; split lines; merge concat;\n"
    "}\n";

/* Compiles text that must be right. */
static struct fy_commands *
compile(const char *text)
{
    struct fy_diagnostics *diagnostics = fy_diagnostics_new();
    struct fy_commands *commands = NULL;
    ck_assert_ptr_nonnull(diagnostics);
    int status = fy_commands_compile_text("test", text, strlen(text),
                                          diagnostics, &commands);
    if (status) {
        fy_diagnostics_print(diagnostics, stderr);
    }
    ck_assert_int_eq(status, FY_OK);
    fy_diagnostics_free(diagnostics);
    return commands;
}

/* Compiles text that must be wrong; the diagnostics are returned. */
static char *
complain(const char *text)
{
    struct fy_diagnostics *diagnostics = fy_diagnostics_new();
    struct fy_commands *commands = NULL;
    char *printed = NULL;
    size_t bytes;
    ck_assert_ptr_nonnull(diagnostics);
    ck_assert_int_eq(fy_commands_compile_text("test", text, strlen(text),
                                              diagnostics, &commands),
                     FY_ERR_INVALID);
    ck_assert_ptr_null(commands);
    FILE *to = open_memstream(&printed, &bytes);
    ck_assert_ptr_nonnull(to);
    fy_diagnostics_print(diagnostics, to);
    fclose(to);
    fy_diagnostics_free(diagnostics);
    return printed;
}

static void
complains(const char *text, const char *expected)
{
    char *printed = complain(text);
    ck_assert_msg(strstr(printed, expected) != NULL, "no '%s' in:\n%.500s",
                  expected, printed);
    free(printed);
}

/* before, then `times' pieces, then after: new memory. */
static char *
repeat(const char *before, const char *piece, size_t times, const char *after)
{
    size_t length = strlen(piece);
    char *text = malloc(strlen(before) + length * times + strlen(after) + 1);
    ck_assert_ptr_nonnull(text);
    char *to = stpcpy(text, before);
    for (size_t i = 0; i < times; i++) {
        to = stpcpy(to, piece);
    }
    strcpy(to, after);
    return text;
}

static void
write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
}

/* ---- hostile arguments ---- */

static int
parse(const struct fy_commands *commands, const char *const *argv)
{
    char text[64];
    struct fy_buffer why;
    struct fy_invocation invocation;
    fy_buffer_start(&why, text, sizeof text);
    int status =
        fy_invocation_parse(commands, "grep", argv, NULL, &invocation, &why);
    if (status == FY_OK) {
        ck_assert_uint_eq(why.used, 0);
        fy_invocation_clear(&invocation);
    } else {
        ck_assert_uint_gt(why.used, 0);
    }
    return status;
}

START_TEST(no_arguments)
{
    struct fy_commands *commands = compile(grep_text);
    const char *none[] = {NULL};
    ck_assert_int_eq(parse(commands, NULL), FY_ERR_INVALID);
    ck_assert_int_eq(parse(commands, none), FY_ERR_INVALID);
    fy_commands_free(commands);
    commands = compile("");
    const char *one[] = {"grep", NULL};
    ck_assert_uint_eq(fy_commands_count(commands), 0);
    ck_assert_int_eq(parse(commands, one), FY_ERR_NOENT);
    fy_commands_free(commands);
    fy_commands_free(NULL);
}
END_TEST

START_TEST(very_many_arguments)
{
    enum {
        MANY = 300000
    };
    struct fy_commands *commands = compile(grep_text);
    const char **argv = calloc(MANY + 1, sizeof *argv);
    struct fy_invocation invocation;
    ck_assert_ptr_nonnull(argv);
    argv[0] = "grep";
    for (unsigned i = 1; i < MANY; i++) {
        argv[i] = i % 3 == 0 ? "-v" : i % 3 == 1 ? "x" : "-A5";
    }
    ck_assert_int_eq(
        fy_invocation_parse(commands, "grep", argv, NULL, &invocation, NULL),
        FY_OK);
    ck_assert_uint_eq(invocation.nuses, MANY / 3 - 1);
    ck_assert_str_eq(invocation.key, "grep -A -v");
    fy_invocation_clear(&invocation);
    /* Many patterns, all of them looked at. */
    for (unsigned i = 1; i < MANY; i++) {
        argv[i] = i + 1 < MANY ? "-enice" : "-eworse";
    }
    ck_assert_int_eq(parse(commands, argv), FY_ERR_UNSUPPORTED);
    free(argv);
    fy_commands_free(commands);
}
END_TEST

/* Were time to grow with the square of the arguments, each of these took an hour. */
START_TEST(millions_of_arguments)
{
    enum {
        MANY = 1000000
    };
    struct fy_commands *commands = compile(
        "command grep { option -d WORD, -f LIST in when WORD == \"read\";"
        " operand FILE... in tree when matches(WORD, \"^rec\")"
        " follows when WORD == \"recurse\"; pure; }"
        "command find { style words; operand PATH... in tree; pure;"
        " option -exec COMMAND runs \"{}\" until \";\"; }"
        "command cat { operand FILE... in; pure; }");
    /* "...": the word before it, MANY in all. */
    static const struct {
        const char *words[12];
        unsigned uses;
        enum fy_use_kind kind;
    } calls[] = {
        {{"grep", "f", "..."}, MANY, FY_USE_FILE},
        {{"grep", "f", "...", "-d", "skip"}, MANY, FY_USE_FILE},
        {{"grep", "-d", "recurse", "f", "..."}, MANY, FY_USE_TREE},
        {{"grep", "f", "-fl", "...", "-dread"}, MANY + 1, FY_USE_FILE},
        {{"find", "p", "-exec", "cat", "f", "...", "{}", ";"},
         MANY + 1,
         FY_USE_TREE},
        {{"find", "p", "...", "-exec", "cat", "{}", "...", ";"},
         MANY,
         FY_USE_TREE},
        {{"find", ".", "-exec", "cat", "f", "...", "{}", "...", ";"},
         MANY + 1,
         FY_USE_TREE},
    };
    const char **argv = calloc(2 * MANY + 16, sizeof *argv);
    ck_assert_ptr_nonnull(argv);
    for (size_t c = 0; c < sizeof calls / sizeof *calls; c++) {
        struct fy_invocation call;
        size_t n = 0;
        for (const char *const *word = calls[c].words; *word; word++) {
            bool more = strcmp(*word, "...") == 0;
            for (unsigned i = more; i < (more ? MANY : 1); i++, n++) {
                argv[n] = more ? argv[n - 1] : *word;
            }
        }
        argv[n] = NULL;
        ck_assert_int_eq(
            fy_invocation_parse(commands, argv[0], argv, NULL, &call, NULL),
            FY_OK);
        ck_assert_msg(call.nuses == calls[c].uses, "%zu: %u", c, call.nuses);
        ck_assert_msg(call.uses[0].kind == calls[c].kind, "%zu", c);
        fy_invocation_clear(&call);
    }
    free(argv);
    fy_commands_free(commands);
}
END_TEST

/* Only what an expression read decides whether an encoding matters. */
START_TEST(words_beyond_ascii)
{
    struct fy_commands *commands = compile(
        "command grep { flag -x; option -e TEXT; operand FILE... in;"
        " never matches(TEXT, \"[*]\") \"no\";"
        " split lines when -x && only(FILE, \"a\"); merge concat; pure; }");
    static const struct {
        const char *argv[5];
        bool encoded;
    } calls[] = {
        {{"grep", "-e", "plain", "\x81\x5c"}, false},
        {{"grep", "-e", "\x81\x5c", "plain"}, true},
        {{"grep", "-x", "\x81\x5c", NULL}, true},
        {{"grep", "-x", "plain", NULL}, false},
        {{"grep", "-x", "a\x80", NULL}, true},
        {{"grep", "-x", "a\x7f", NULL}, false},
        {{"grep", "-x", "\x81\x5c", "plain"}, true},
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        struct fy_invocation invocation;
        ck_assert_int_eq(fy_invocation_parse(commands, "grep", calls[i].argv,
                                             NULL, &invocation, NULL),
                         FY_OK);
        ck_assert_msg(invocation.encoded == calls[i].encoded, "%zu", i);
        fy_invocation_clear(&invocation);
    }
    fy_commands_free(commands);
}
END_TEST

/* As above, of paths of which only the first bytes are known. */
START_TEST(paths_beyond_ascii)
{
    struct fy_commands *commands = compile(
        "command find { style words; operand PATH... in tree; pure;"
        " option -exec COMMAND runs \"{}\" until \";\"; }"
        "command x { operand FILE... in; never matches(FILE, \"^@\") \"no\";"
        " pure; } command y { operand FILE... in; pure; }"
        "command z { operand FILE... in; never matches(FILE, \"^[^@]\") "
        "\"no\"; pure; }");
    static const struct {
        const char *root, *command;
        bool encoded;
    } calls[] = {{"a", "x", false},    {"\x7f", "x", false},
                 {"\x80z", "x", true}, {"\xff", "x", true},
                 {"\xff", "y", false}, {"a\xff", "x", false}};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        struct fy_invocation call;
        const char *argv[] = {"find", calls[i].root, "-exec", calls[i].command,
                              "{}",   ";",           NULL};
        ck_assert_int_eq(
            fy_invocation_parse(commands, "find", argv, NULL, &call, NULL),
            FY_OK);
        ck_assert_msg(call.encoded == calls[i].encoded, "%zu", i);
        fy_invocation_clear(&call);
    }
    /* Each of 256 bytes is one that [^@] matches, but for that one. */
    for (unsigned c = 1; c < 256; c++) {
        const char root[] = {(char)c, 'z', '\0'};
        const char *argv[] = {"find", root, "-exec", "z", "{}", ";", NULL};
        struct fy_invocation call;
        if (c == '-') {
            continue;
        }
        ck_assert_int_eq(
            fy_invocation_parse(commands, "find", argv, NULL, &call, NULL),
            c == '@' ? FY_OK : FY_ERR_UNSUPPORTED);
        if (c == '@') {
            fy_invocation_clear(&call);
        }
    }
    fy_commands_free(commands);
}
END_TEST

/* A number as the text has it, whatever errno was; NAME without a value is there. */
START_TEST(numbers_and_variables)
{
    struct fy_commands *commands =
        compile("command grep { option -n N; never value(N) == 7 \"seven\"; "
                "never env(SIZE) \"sized\"; pure; }");
    static const char *const sized[] = {"SIZE", NULL}, *const other[] = {
                                                           "SIZES", NULL};
    struct fy_invocation call;
    const char *argv[] = {"grep", "-n", "8", NULL};
    errno = ERANGE;
    ck_assert_int_eq(parse(commands, argv), FY_OK);
    argv[2] = "7";
    errno = ERANGE;
    ck_assert_int_eq(parse(commands, argv), FY_ERR_UNSUPPORTED);
    argv[2] = "99999999999999999999";
    ck_assert_int_eq(parse(commands, argv), FY_ERR_INVALID);
    argv[2] = "8";
    ck_assert_int_eq(
        fy_invocation_parse(commands, "grep", argv, sized, &call, NULL),
        FY_ERR_UNSUPPORTED);
    ck_assert_int_eq(
        fy_invocation_parse(commands, "grep", argv, other, &call, NULL), FY_OK);
    fy_invocation_clear(&call);
    fy_commands_free(commands);
}
END_TEST

START_TEST(very_long_arguments)
{
    struct fy_commands *commands = compile(grep_text);
    struct fy_invocation invocation;
    char *cluster = repeat("-", "vic", 1000000, "fx");
    char *pattern = repeat("", "abc", 1000000, "");
    char *option = repeat("--", "count", 1000000, "=");
    const char *argv[] = {"grep", cluster, "p", NULL};
    ck_assert_int_eq(
        fy_invocation_parse(commands, "grep", argv, NULL, &invocation, NULL),
        FY_OK);
    ck_assert_uint_eq(invocation.nuses, 2);
    ck_assert_uint_eq(invocation.uses[0].arg, 1);
    ck_assert_uint_eq(invocation.uses[0].offset, 3000002);
    fy_invocation_clear(&invocation);
    cluster[2000000] = '?';
    ck_assert_int_eq(parse(commands, argv), FY_ERR_INVALID);
    argv[1] = option;
    ck_assert_int_eq(parse(commands, argv), FY_ERR_INVALID);
    /* What cannot be looked at is not taken for harmless. */
    argv[1] = pattern;
    ck_assert_int_eq(parse(commands, argv), FY_ERR_INVALID);
    pattern[60000] = '\0';
    ck_assert_int_eq(parse(commands, argv), FY_OK);
    memcpy(pattern + 50000, "worse", 5);
    ck_assert_int_eq(parse(commands, argv), FY_ERR_UNSUPPORTED);
    free(cluster);
    free(pattern);
    free(option);
    fy_commands_free(commands);
}
END_TEST

START_TEST(any_bytes)
{
    struct fy_commands *commands = compile(grep_text);
    for (unsigned c = 1; c < 256; c++) {
        char option[] = {'-', (char)c, '\0'}, name[] = {(char)c, (char)c, '\0'};
        char name_bad[] = {(char)c, 'b', 'a', 'd', '\0'};
        const char *argv[] = {"grep", name, option, name, NULL};
        bool known = strchr("vicrAe", (int)c) != NULL;
        int status = parse(commands, argv);
        /* -z is a flag that nobody asks for; -- and - are no options. */
        ck_assert_int_eq(status, known || c == 'f' || c == 'z' || c == '-'
                                     ? FY_OK
                                     : FY_ERR_INVALID);
        argv[1] = name_bad;
        argv[2] = "--";
        ck_assert_int_eq(parse(commands, argv),
                         c == '-' ? FY_ERR_INVALID : FY_ERR_UNSUPPORTED);
    }
    fy_commands_free(commands);
}
END_TEST

START_TEST(the_reason_is_cut_and_plain)
{
    struct fy_commands *commands = compile(grep_text);
    char *option = repeat("--", "\033[31m\n", 100000, "");
    const char *argv[] = {"grep", option, NULL};
    char text[200];
    struct fy_buffer why;
    struct fy_invocation invocation;
    fy_buffer_start(&why, text, sizeof text);
    ck_assert_int_eq(
        fy_invocation_parse(commands, "grep", argv, NULL, &invocation, &why),
        FY_ERR_INVALID);
    ck_assert(!why.overflowed);
    ck_assert_ptr_null(strchr(text, '\033'));
    ck_assert_ptr_null(strchr(text, '\n'));
    ck_assert_ptr_nonnull(strstr(text, "...' is not declared"));
    free(option);
    fy_commands_free(commands);
}
END_TEST

/* ---- what a use says ---- */

START_TEST(uses_point_into_the_arguments)
{
    struct fy_commands *commands = compile(grep_text);
    const char *argv[] = {"/bin/grep", "-rf",     "pats", "-",
                          "-vfq",      "--color", "d",    NULL};
    struct fy_invocation invocation;
    ck_assert_int_eq(
        fy_invocation_parse(commands, "grep", argv, NULL, &invocation, NULL),
        FY_OK);
    ck_assert_str_eq(invocation.command, "grep");
    ck_assert_str_eq(invocation.key, "grep --color -f -r -v");
    ck_assert_str_eq(invocation.file, "test");
    ck_assert_uint_eq(invocation.line, 1);
    ck_assert_uint_eq(invocation.nuses, 4);
    static const struct fy_use expected[] = {
        {2, 0, FY_ACCESS_IN, FY_USE_FILE, false, false, false},
        {3, 0, FY_ACCESS_IN, FY_USE_FILE, false, true, false},
        {4, 3, FY_ACCESS_IN, FY_USE_FILE, false, false, false},
        {6, 0, FY_ACCESS_IN, FY_USE_TREE, false, false, false},
    };
    for (unsigned i = 0; i < 4; i++) {
        ck_assert_uint_eq(invocation.uses[i].arg, expected[i].arg);
        ck_assert_uint_eq(invocation.uses[i].offset, expected[i].offset);
        ck_assert_uint_eq(invocation.uses[i].access, expected[i].access);
        ck_assert_uint_eq(invocation.uses[i].kind, expected[i].kind);
        ck_assert(invocation.uses[i].is_stdin == expected[i].is_stdin);
    }
    ck_assert(invocation.pure && !invocation.effect && invocation.reads_stdin);
    ck_assert_uint_eq(invocation.split, FY_SPLIT_LINES);
    ck_assert_ptr_null(invocation.configs[0]);
    fy_invocation_clear(&invocation);
    ck_assert_ptr_null(invocation.key);
    fy_invocation_clear(&invocation); /* twice is harmless */
    fy_commands_free(commands);
}
END_TEST

START_TEST(names_say_what_the_shim_must_know)
{
    struct fy_commands *commands = compile(
        "command b { stdin; pure; }\ncommand a c, a d { reads cwd; pure; }\n"
        "command c { operand F in dash; pure; }\n"
        "command d { operand F out dash; pure; writes cwd when F; }\n"
        "command a { pure; }\n");
    static const struct fy_command_name expected[] = {
        {"a", false, true},
        {"b", true, false},
        {"c", true, false},
        {"d", false, true},
    };
    ck_assert_uint_eq(fy_commands_count(commands), 4);
    for (unsigned i = 0; i < 4; i++) {
        const struct fy_command_name *name = fy_commands_name(commands, i);
        ck_assert_str_eq(name->name, expected[i].name);
        ck_assert(name->reads_stdin == expected[i].reads_stdin);
        ck_assert(name->reads_cwd == expected[i].reads_cwd);
    }
    ck_assert_ptr_null(fy_commands_name(commands, 4));
    fy_commands_free(commands);
}
END_TEST

/* ---- files ---- */

START_TEST(paths_and_folders)
{
    char place[] = "/tmp/ferry-command-XXXXXX";
    ck_assert_ptr_nonnull(mkdtemp(place));
    ck_assert_int_eq(chdir(place), 0);
    ck_assert_int_eq(mkdir("lib", 0700) | mkdir("lib/commands", 0700), 0);
    write_file("lib/f.ferry", "function void f(int n, double *x) { in x[n]; }"
                              "command both { flag -f; pure; }");
    write_file("lib/commands/a.ferry",
               "command a { flag -1; pure; } command a { flag -2; pure; }"
               "command a b { flag -1; pure; } common a { flag -c; }");
    write_file("user.ferry", "command a { flag -3; pure; }");
    const char *paths[] = {"lib", "user.ferry"};
    struct fy_diagnostics *diagnostics = fy_diagnostics_new();
    struct fy_commands *commands = NULL;
    ck_assert_int_eq(
        fy_commands_compile(paths, 2, NULL, diagnostics, &commands), FY_OK);
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    fy_commands_dump(commands, to);
    fclose(to);
    ck_assert_str_eq(text,
                     "command a b  # lib/commands/a.ferry:1\n"
                     "    common flag -c\n    flag -1\n    pure\n"
                     "command a  # user.ferry:1\n"
                     "    flag -c\n    flag -3\n    pure\n"
                     "command both  # lib/f.ferry:1\n    flag -f\n    pure\n");
    free(text);
    fy_commands_free(commands);
    /* Functions alone: the sub-folder is not looked into. */
    struct fy_model *model = NULL;
    write_file("lib/commands/a.ferry", "command a { nonsense }");
    ck_assert_int_eq(fy_compile(paths, 1, NULL, diagnostics, &model), FY_OK);
    ck_assert_uint_eq(model->functions.count, 1);
    free(model);
    ck_assert_int_eq(
        fy_commands_compile(paths, 1, NULL, diagnostics, &commands),
        FY_ERR_INVALID);
    fy_diagnostics_free(diagnostics);
    ck_assert_int_eq(unlink("lib/commands/a.ferry") | unlink("lib/f.ferry") |
                         unlink("user.ferry") | rmdir("lib/commands") |
                         rmdir("lib") | chdir("/") | rmdir(place),
                     0);
}
END_TEST

/* A lazy set means what the whole one means, and knows what it is told. */
START_TEST(of_a_lazy_set)
{
    const char *source = getenv("FERRY_SRCDIR");
    static const char *const calls[][4] = {{"git", "add", "x"},
                                           {"sort", "-k2", "f"},
                                           {"git", "status"},
                                           {"[", "-e", "f", "]"}};
    char path[4096], *names, *again, text[200];
    const char *paths[] = {path};
    size_t bytes, more;
    struct fy_diagnostics *diagnostics = fy_diagnostics_new();
    struct fy_commands *all = NULL, *lazy[2] = {NULL, NULL};
    struct fy_buffer why;
    (void)snprintf(path, sizeof path, "%s/annotations/lib/commands",
                   source ? source : ".");
    ck_assert_int_eq(fy_commands_compile(paths, 1, NULL, diagnostics, &all),
                     FY_OK);
    ck_assert_int_eq(fy_commands_names(all, &names, &bytes), FY_OK);
    ck_assert_int_eq(fy_commands_lazy(path, "", names, bytes, &lazy[0]), FY_OK);
    ck_assert_int_eq(fy_commands_lazy(path, "", NULL, 0, &lazy[1]), FY_OK);
    ck_assert_int_eq(fy_commands_names(lazy[0], &again, &more), FY_OK);
    ck_assert(more == bytes && memcmp(names, again, bytes) == 0);
    ck_assert_uint_eq(fy_commands_count(lazy[1]), 0);
    for (size_t i = 0; i < 8; i++) {
        const char *argv[5] = {NULL};
        struct fy_invocation call, expected;
        memcpy(argv, calls[i / 2], sizeof calls[0]);
        fy_buffer_start(&why, text, sizeof text);
        int status =
            fy_invocation_parse(all, argv[0], argv, NULL, &expected, &why);
        ck_assert_int_eq(
            fy_invocation_parse(lazy[i % 2], argv[0], argv, NULL, &call, &why),
            status);
        if (status == FY_OK) {
            ck_assert_str_eq(call.key, expected.key);
            ck_assert(call.line == expected.line &&
                      call.nuses == expected.nuses);
            fy_invocation_clear(&call);
            fy_invocation_clear(&expected);
        }
        argv[0] = i & 2 ? "none" : "";
        ck_assert_int_eq(
            fy_invocation_parse(lazy[i % 2], argv[0], argv, NULL, &call, &why),
            FY_ERR_NOENT);
    }
    fy_commands_free(lazy[0]);
    fy_commands_free(lazy[1]);
    fy_commands_free(all);
    fy_diagnostics_free(diagnostics);
    free(again);
    free(names);
}
END_TEST

/* Whatever stands in the file of names. */
START_TEST(names_that_are_none)
{
    static const char *const texts[] = {
        "",       "a",        "a\nb",          "b\na\n",
        "a\na\n", " stdin\n", "a cwd stdin\n", "a \n",
        "\n",     "a  cwd\n"};
    struct fy_commands *set = NULL;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        ck_assert_int_eq(
            fy_commands_lazy("/none", "", texts[i], strlen(texts[i]), &set),
            FY_ERR_INVALID);
    }
    ck_assert_int_eq(fy_commands_lazy("/none", "", "a\n\0\n", 4, &set),
                     FY_ERR_INVALID);
    ck_assert_int_eq(
        fy_commands_lazy("/none", "", "a cwd\nb stdin cwd\n", 18, &set), FY_OK);
    ck_assert_uint_eq(fy_commands_count(set), 2);
    const struct fy_command_name *name = fy_commands_name(set, 0);
    ck_assert(name->reads_cwd && !name->reads_stdin);
    const char *const argv[] = {"a", NULL};
    struct fy_invocation call;
    struct fy_buffer why;
    char text[200];
    fy_buffer_start(&why, text, sizeof text);
    ck_assert_int_eq(fy_invocation_parse(set, "a", argv, NULL, &call, &why),
                     FY_ERR_NOENT);
    ck_assert_str_eq(text, "no annotation of that name");
    fy_commands_free(set);
}
END_TEST

/* The blocks of a word are the same as those that the whole set has for it. */
START_TEST(of_one_word)
{
    const char *source = getenv("FERRY_SRCDIR");
    static const char *const argv[] = {"git", "add", "x", NULL};
    char path[4096];
    const char *paths[] = {path};
    struct fy_diagnostics *diagnostics = fy_diagnostics_new();
    struct fy_commands *all = NULL;
    (void)snprintf(path, sizeof path, "%s/annotations/lib/commands",
                   source ? source : ".");
    ck_assert_int_eq(fy_commands_compile(paths, 1, NULL, diagnostics, &all),
                     FY_OK);
    ck_assert_uint_gt(fy_commands_count(all), 80);
    for (size_t w = 0; w <= fy_commands_count(all); w++) {
        const char *word = w < fy_commands_count(all)
                               ? fy_commands_name(all, w)->name
                               : "none";
        struct fy_commands *some = NULL;
        size_t found[2] = {0};
        ck_assert_int_eq(
            fy_commands_compile_word(paths, 1, NULL, word, diagnostics, &some),
            FY_OK);
        ck_assert_uint_lt(fy_commands_count(some), 12);
        for (size_t i = 0; i < fy_commands_count(all); i++) {
            found[0] += strcmp(fy_commands_name(all, i)->name, word) == 0;
        }
        for (size_t i = 0; i < fy_commands_count(some); i++) {
            found[1] += strcmp(fy_commands_name(some, i)->name, word) == 0;
        }
        ck_assert_uint_eq(found[0], found[1]);
        if (strcmp(word, "git") == 0) {
            struct fy_invocation call;
            char text[200];
            struct fy_buffer why;
            fy_buffer_start(&why, text, sizeof text);
            ck_assert_int_eq(
                fy_invocation_parse(some, "git", argv, NULL, &call, &why),
                FY_OK);
            ck_assert(call.writes_cwd && call.nwritten == 2);
            ck_assert_str_eq(call.written[0].path, ".git");
            ck_assert_uint_eq(call.written[0].how, FY_WRITTEN);
            ck_assert_uint_eq(call.written[1].how, FY_WRITTEN_MAKES);
            fy_invocation_clear(&call);
        }
        fy_commands_free(some);
    }
    fy_commands_free(all);
    fy_diagnostics_free(diagnostics);
}
END_TEST

START_TEST(the_shipped_commands_have_no_findings)
{
    const char *source = getenv("FERRY_SRCDIR");
    char path[4096];
    const char *paths[] = {path};
    struct fy_diagnostics *diagnostics = fy_diagnostics_new();
    struct fy_commands *commands = NULL;
    (void)snprintf(path, sizeof path, "%s/annotations/lib/commands",
                   source ? source : ".");
    int status = fy_commands_compile(paths, 1, NULL, diagnostics, &commands);
    fy_diagnostics_print(diagnostics, stderr);
    ck_assert_int_eq(status, FY_OK);
    ck_assert_uint_eq(fy_diagnostics_warnings(diagnostics), 0);
    ck_assert_uint_gt(fy_commands_count(commands), 50);
    fy_commands_free(commands);
    fy_diagnostics_free(diagnostics);
}
END_TEST

/* ---- threads ---- */

static void *
parse_often(void *commands)
{
    const char *argv[] = {"grep", "-rn", "-e", "nice", "-e", "worse", NULL};
    for (unsigned i = 0; i < 2000; i++) {
        struct fy_invocation invocation;
        argv[1] = i % 2 ? "-rv" : "-ic";
        argv[5] = i % 3 ? "good" : "worse";
        int status = fy_invocation_parse(commands, "grep", argv, NULL,
                                         &invocation, NULL);
        if (status != (i % 3 ? FY_OK : FY_ERR_UNSUPPORTED)) {
            return commands;
        }
        if (status == FY_OK) {
            fy_invocation_clear(&invocation);
        }
    }
    return NULL;
}

START_TEST(a_set_is_shared_by_threads)
{
    struct fy_commands *commands = compile(grep_text);
    pthread_t threads[4];
    for (unsigned i = 0; i < 4; i++) {
        ck_assert_int_eq(
            pthread_create(&threads[i], NULL, parse_often, commands), 0);
    }
    for (unsigned i = 0; i < 4; i++) {
        void *result = NULL;
        ck_assert_int_eq(pthread_join(threads[i], &result), 0);
        ck_assert_ptr_null(result);
    }
    fy_commands_free(commands);
}
END_TEST

/* ---- limits of a block ---- */

/* "before", pieces with @ replaced by their number, "after". */
static char *
numbered(const char *before, const char *piece, unsigned times,
         const char *after)
{
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    ck_assert_ptr_nonnull(to);
    fputs(before, to);
    for (unsigned i = 0; i < times; i++) {
        for (const char *c = piece; *c != '\0'; c++) {
            if (*c == '@') {
                fprintf(to, "%u", i);
            } else {
                fputc(*c, to);
            }
        }
    }
    fputs(after, to);
    fclose(to);
    return text;
}

START_TEST(a_condition_of_too_many_parts)
{
    char *text = repeat("command a { flag -x; stdin when -x", " || -x", 300,
                        "; pure; }");
    complains(text, "a condition of more than 200 parts");
    free(text);
    text = repeat("command a { flag -x; stdin when -x", " || -x", 190,
                  "; pure; }");
    fy_commands_free(compile(text));
    free(text);
    text = repeat("command a { flag -x; stdin when ", "!(", 100000, "; }");
    complains(text, "too deeply nested");
    free(text);
    text = repeat("command a { flag -x; stdin when ", "!", 300, "-x; pure; }");
    complains(text, "a condition of more than 200 parts");
    free(text);
}
END_TEST

START_TEST(too_many_of_a_kind)
{
    static const struct {
        const char *before, *piece, *after, *expected;
        unsigned times;
    } rows[] = {
        {"command a { flag -x", ", --f@", "; pure; }",
         "too many flags, options and operands: at most 1000", 2000},
        {"command a { flag -x", " --f@", "; pure; }",
         "too many spellings: at most 2000", 3000},
        {"command a { ", "operand O@; ", "pure; }",
         "too many operands: at most 64", 100},
        {"command a { pure; ", "require @ == 1 || true; ", "}", "unexpected",
         300},
        {"command a { pure; flag -x; ", "never -x \"@\"; ", "}",
         "too many statements of a kind: at most 200", 300},
        {"command a ", "w@ ", "{ pure; }",
         "too many words of a name: at most 8", 9},
        {"", "command c@ { pure; }\n", "",
         "too many command blocks: at most 20000", 20100},
        {"command a { flag -x; pure; ", "stdin when -x && -x; ", "}",
         "too many conditions: at most 8000", 9000},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *text = numbered(rows[i].before, rows[i].piece, rows[i].times,
                              rows[i].after);
        complains(text, rows[i].expected);
        free(text);
    }
}
END_TEST

START_TEST(very_long_words)
{
    char *text = repeat("command ", "a", 300, " { pure; }");
    complains(text, "name of 300 bytes; at most 256 are allowed");
    free(text);
    text = repeat("command a { flag \"-", "a", 2000, "\"; pure; }");
    complains(text, "string of 2003 bytes; at most 1024 are allowed");
    free(text);
    text = repeat("command a { work ", "1", 300, "; pure; }");
    complains(text, "' is too large");
    free(text);
    text = repeat("command a { operand A; never matches(A, \"", "a", 1024,
                  "\") \"x\"; pure; }");
    fy_commands_free(compile(text));
    free(text);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("command");
    TCase *hostile = tcase_create("hostile");
    tcase_set_timeout(hostile, 60);
    tcase_add_test(hostile, no_arguments);
    tcase_add_test(hostile, very_many_arguments);
    tcase_add_test(hostile, millions_of_arguments);
    tcase_add_test(hostile, very_long_arguments);
    tcase_add_test(hostile, words_beyond_ascii);
    tcase_add_test(hostile, paths_beyond_ascii);
    tcase_add_test(hostile, numbers_and_variables);
    tcase_add_test(hostile, any_bytes);
    tcase_add_test(hostile, the_reason_is_cut_and_plain);
    suite_add_tcase(suite, hostile);
    TCase *results = tcase_create("results");
    tcase_set_timeout(results, 60);
    tcase_add_test(results, uses_point_into_the_arguments);
    tcase_add_test(results, names_say_what_the_shim_must_know);
    tcase_add_test(results, paths_and_folders);
    tcase_add_test(results, the_shipped_commands_have_no_findings);
    tcase_add_test(results, of_one_word);
    tcase_add_test(results, of_a_lazy_set);
    tcase_add_test(results, names_that_are_none);
    tcase_add_test(results, a_set_is_shared_by_threads);
    suite_add_tcase(suite, results);
    TCase *limits = tcase_create("limits");
    tcase_set_timeout(limits, 60);
    tcase_add_test(limits, a_condition_of_too_many_parts);
    tcase_add_test(limits, too_many_of_a_kind);
    tcase_add_test(limits, very_long_words);
    suite_add_tcase(suite, limits);
    return run_suite(suite);
}
