/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arguments made at random, parsed by a command block and by getopt_long()
 * itself: the same flags, values and operands, or both refuse.
 */
#include "config.h"

#include <check.h>
#include <getopt.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "annotations/commands/command.h"
#include "tests/unit/runner.h"

enum {
    MAX_ARGS = 12,
    MAX_VALUES = 40,
    ROUNDS = 60000
};

/* The same options in both languages; every value and operand is an input. */
static const char options_text[] =
    "command tool {\n"
    "  flag -a --all, -b, --bare, --alpha-beta, -n --no;\n"
    "  option -c --count N in, -d[D] --date[=D] in, --dated X in;\n"
    "  option --co Y in, -o O in;\n"
    "  number -NUM;\n"
    "  operand FILE... in;\n"
    "  pure;\n"
    "}\n";
static const struct option long_options[] = {
    {"all", no_argument, NULL, 'a'},
    {"bare", no_argument, NULL, 1},
    {"alpha-beta", no_argument, NULL, 2},
    {"no", no_argument, NULL, 'n'},
    {"count", required_argument, NULL, 'c'},
    {"date", optional_argument, NULL, 'd'},
    {"dated", required_argument, NULL, 3},
    {"co", required_argument, NULL, 4},
    {NULL, 0, NULL, 0},
};
static const char short_options[] = "abnc:d::o:";

static const char *const pieces[] = {
    "-a",        "-b",      "-ab",      "-abn",    "-c",       "-c5",
    "-ac5",      "-bac",    "-d",       "-d5",     "-ad",      "-ada",
    "--all",     "--al",    "--a",      "--alp",   "--bare",   "--b",
    "--bare=",   "--count", "--count=", "--cou=3", "--c",      "--co",
    "--co=x",    "--dat",   "--date",   "--date=", "--d=4",    "--dated",
    "--dated=7", "--dat=1", "--no",     "--n",     "--no=1",   "-",
    "--",        "x",       "y=z",      "",        "-o",       "-oa",
    "-x",        "--xyz",   "-ax",      "-co",     "---",      "--=",
    "-c=",       "-a-",     "\377\200", "-\377",   "--al\377", "5",
};

static uint64_t state = 20261121;

static uint32_t
below(uint32_t n)
{
    state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (uint32_t)(state >> 33) % n;
}

struct seen { /* what one of the two made of the arguments */
    bool refused;
    char flags[64];                 /* letters, sorted, once each */
    const char *values[MAX_VALUES]; /* pointers into the arguments, sorted */
    size_t nvalues;
};

static int
by_pointer(const void *a, const void *b)
{
    const char *x = *(const char *const *)a, *y = *(const char *const *)b;
    return (x > y) - (x < y);
}

static void
by_getopt(int argc, const char *const *argv, struct seen *seen)
{
    char *copy[MAX_ARGS + 2];
    bool given[256] = {false};
    int id;
    memcpy(copy, argv, ((size_t)argc + 1) * sizeof *copy);
    memset(seen, 0, sizeof *seen);
    opterr = 0;
    optind = 0;
    while ((id = getopt_long(argc, copy, short_options, long_options, NULL)) !=
           -1) {
        if (id == '?') {
            memset(seen, 0, sizeof *seen);
            seen->refused = true;
            return;
        }
        given[(unsigned char)id] = true;
        if (optarg) {
            seen->values[seen->nvalues++] = optarg;
        }
    }
    for (int i = optind; i < argc; i++) {
        seen->values[seen->nvalues++] = copy[i];
    }
    for (unsigned i = 1, n = 0; i < 256; i++) {
        if (given[i]) {
            seen->flags[n++] = (char)i;
        }
    }
    qsort(seen->values, seen->nvalues, sizeof *seen->values, by_pointer);
}

/* The letter that getopt_long() returns for a word of the key. */
static unsigned
letter_of(const char *word, size_t bytes)
{
    if (bytes == 2) {
        return (unsigned char)word[1];
    }
    for (const struct option *o = long_options; o->name; o++) {
        if (strlen(o->name) == bytes - 2 &&
            strncmp(o->name, word + 2, bytes - 2) == 0) {
            return (unsigned)o->val;
        }
    }
    ck_abort_msg("no option '%.*s'", (int)bytes, word);
}

static void
by_block(const struct fy_commands *commands, const char *const *argv,
         const char *const *environment, struct seen *seen)
{
    struct fy_invocation invocation;
    bool given[256] = {false};
    memset(seen, 0, sizeof *seen);
    if (fy_invocation_parse(commands, "tool", argv, environment, &invocation,
                            NULL) != FY_OK) {
        seen->refused = true;
        return;
    }
    for (uint32_t i = 0; i < invocation.nuses; i++) {
        const struct fy_use *use = &invocation.uses[i];
        ck_assert(i == 0 || use[-1].arg < use->arg);
        seen->values[seen->nvalues++] = argv[use->arg] + use->offset;
    }
    for (const char *c = strchr(invocation.key, ' '); c;) {
        size_t bytes = strcspn(c + 1, " ");
        given[letter_of(c + 1, bytes)] = true;
        c = strchr(c + 1, ' ');
    }
    for (unsigned i = 1, n = 0; i < 256; i++) {
        if (given[i]) {
            seen->flags[n++] = (char)i;
        }
    }
    qsort(seen->values, seen->nvalues, sizeof *seen->values, by_pointer);
    fy_invocation_clear(&invocation);
}

static void
compare_with_getopt(bool posixly_correct)
{
    static const char *const posix[] = {"A=b", "POSIXLY_CORRECT=", NULL};
    struct fy_diagnostics *diagnostics = fy_diagnostics_new();
    struct fy_commands *commands = NULL;
    ck_assert_ptr_nonnull(diagnostics);
    ck_assert_int_eq(fy_commands_compile_text("test", options_text,
                                              strlen(options_text), diagnostics,
                                              &commands),
                     FY_OK);
    fy_diagnostics_free(diagnostics);
    unsigned refused = 0, taken = 0;
    if (posixly_correct) {
        ck_assert_int_eq(setenv("POSIXLY_CORRECT", "", 1), 0);
    }
    for (unsigned round = 0; round < ROUNDS; round++) {
        const char *argv[MAX_ARGS + 2] = {"tool"};
        struct seen expected, found;
        int argc = 1 + (int)below(MAX_ARGS > 6 && round % 4 ? 4 : MAX_ARGS);
        char words[MAX_ARGS][16]; /* of their own: pointers are compared */
        for (int i = 1; i < argc; i++) {
            strcpy(words[i], pieces[below(sizeof pieces / sizeof pieces[0])]);
            argv[i] = words[i];
        }
        by_getopt(argc, argv, &expected);
        by_block(commands, argv, posixly_correct ? posix : NULL, &found);
        if (expected.refused != found.refused ||
            strcmp(expected.flags, found.flags) != 0 ||
            expected.nvalues != found.nvalues ||
            memcmp(expected.values, found.values,
                   expected.nvalues * sizeof *found.values) != 0) {
            for (int i = 0; i < argc; i++) {
                fprintf(stderr, " '%s'", argv[i]);
            }
            ck_abort_msg(": getopt_long %d '%s' %zu, block %d '%s' %zu",
                         expected.refused, expected.flags, expected.nvalues,
                         found.refused, found.flags, found.nvalues);
        }
        refused += found.refused;
        taken += !found.refused;
    }
    ck_assert_uint_gt(refused, ROUNDS / 20);
    ck_assert_uint_gt(taken, ROUNDS / 20);
    (void)unsetenv("POSIXLY_CORRECT");
    fy_commands_free(commands);
}

START_TEST(arguments_are_taken_as_by_getopt_long)
{
    compare_with_getopt(false);
}
END_TEST

START_TEST(arguments_are_taken_as_by_getopt_long_of_posix)
{
    compare_with_getopt(true);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("command_getopt");
    TCase *getopt = tcase_create("getopt");
    tcase_set_timeout(getopt, 60);
    tcase_add_test(getopt, arguments_are_taken_as_by_getopt_long);
    tcase_add_test(getopt, arguments_are_taken_as_by_getopt_long_of_posix);
    suite_add_tcase(suite, getopt);
    return run_suite(suite);
}
