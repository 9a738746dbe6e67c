/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Command blocks where tests/lang cannot look: arguments of any length and any
 * bytes, limits of a block, memory and sharing between threads.
 */
#include "config.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "annotations/command.h"

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
    ck_assert_msg(strstr(printed, expected) != NULL, "no '%s' in:\n%s",
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

START_TEST(a_condition_of_too_many_parts)
{
    char *text = repeat("command a { flag -x; stdin when -x", " || -x", 300,
                        "; pure; }");
    complains(text, "a condition of more than 200 parts");
    free(text);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("command");
    TCase *limits = tcase_create("limits");
    tcase_add_test(limits, a_condition_of_too_many_parts);
    suite_add_tcase(suite, limits);
    (void)grep_text;
    (void)compile;
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
