/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The differential judge; differ.h says what a case is.
 *
 *   differ [OPTIONS] PLAIN MOUNT
 *
 * PLAIN and MOUNT are empty folders, whose files lie on the same file system in the end.
 *   --storage DIR  MOUNT at the storage: attributes must be the same there, inodes and
 *                  nanoseconds included
 *   --known FILE   differences that are known; lines "PATTERN <tab> REASON" with a
 *                  pattern of fnmatch(3) for "CASE: line | line"
 *   --sample N     N cases of all, drawn by --seed S (1); scripts always run
 *   --only TEXT    cases whose names contain TEXT
 *   --list         their names
 *   --show         what they say, of both sides
 * As root each call is also made as an ordinary user. Ends with "N passed, N failed, N
 * skipped"; status 1: there are differences.
 */
#include "config.h"

#include "tests/files/differ.h"
#include "tests/patience.h"

#include <errno.h>
#include <getopt.h>
#include <grp.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    CASE_SECONDS = 60,
    MAX_KNOWN_ROWS = 128,
    MAX_GROUPS = 400
};

/* How a call of a row is made. */
enum as {
    AS_ROOT,
    AS_OTHER,
    AS_OTHER_STICKY,
    AS_OTHER_SHUT,
    AS_END
};

struct test {
    const struct row *row; /* NULL: a script */
    const struct script *script;
    const char *form_x, *form_y; /* NULL: the object "x", "y" */
    unsigned char value, x, y, as;
};

static struct options {
    const char *storage, *known, *only;
    unsigned long sample, seed;
    bool list, show;
} options = {.seed = 1};
static struct test *tests;
static size_t ntests, tests_room;
static char running[512];

/* ---- text ---------------------------------------------------------------------------- */

void
say(struct side *side, const char *format, ...)
{
    va_list args;
    char text[8192];
    va_start(args, format);
    int n = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    size_t bytes = n < (int)sizeof(text) ? (size_t)n : sizeof(text) - 1;
    if (side->n + bytes + 1 > side->room) {
        side->room = 2 * (side->n + bytes + 4096);
        side->log = realloc(side->log, side->room);
        if (!side->log) {
            abort();
        }
    }
    memcpy(side->log + side->n, text, bytes + 1);
    side->n += bytes;
}

long
result(struct side *side, const char *text, long value)
{
    int error = errno;
    if (value < 0) {
        say(side, "%s: %s\n", text, strerrorname_np(error));
    } else {
        say(side, "%s = %ld\n", text, value);
    }
    errno = error;
    return value;
}

int
opened(struct side *side, const char *text, int fd)
{
    result(side, text, fd < 0 ? -1 : 0);
    return fd;
}

int
closed(int fd)
{
    int error = errno;
    if (fd >= 0) {
        close(fd);
    }
    errno = error;
    return fd < 0 ? -1 : 0;
}

long
must(struct side *side, const char *text, long value)
{
    return value < 0 ? result(side, text, value) : value;
}

void
become_other(void)
{
    if (geteuid() == 0 &&
        (setgroups(0, NULL) != 0 || setresgid(OTHER, OTHER, 0) != 0 ||
         setresuid(OTHER, OTHER, 0) != 0)) {
        perror("differ: no other user");
        exit(2);
    }
}

void
become_root(void)
{
    uid_t real, effective, saved;
    if (getresuid(&real, &effective, &saved) == 0 && saved == 0 &&
        (setresuid(0, 0, 0) != 0 || setresgid(0, 0, 0) != 0)) {
        perror("differ: not root again");
        exit(2);
    }
}

/* ---- which cases --------------------------------------------------------------------- */

static void
test_name(const struct test *test, char *out, size_t bytes)
{
    static const char *const as[] = {"", " as other", " as other in sticky",
                                     " as other in shut"};
    if (test->script) {
        snprintf(out, bytes, "%s", test->script->name);
        return;
    }
    const struct row *row = test->row;
    snprintf(out, bytes, "%s(%s%s%s%s%s%s)%s", row->name,
             test->form_x ? "path " : "",
             test->form_x ? test->form_x : kind_names[test->x],
             row->paths == 2 ? ", " : "",
             row->paths == 2 && test->form_y ? "path " : "",
             row->paths == 1 ? ""
             : test->form_y  ? test->form_y
                             : kind_names[test->y],
             "", as[test->as]);
    if (row->values[test->value].text[0]) {
        size_t n = strlen(out);
        snprintf(out + n, bytes - n, " %s", row->values[test->value].text);
    }
}

static void
test_add(struct test test)
{
    char name[512];
    test_name(&test, name, sizeof(name));
    if (options.only && !strstr(name, options.only)) {
        return;
    }
    if (ntests == tests_room) {
        tests_room = 2 * tests_room + 1024;
        tests = realloc(tests, tests_room * sizeof(*tests));
        if (!tests) {
            abort();
        }
    }
    tests[ntests++] = test;
}

static bool
possible(unsigned kind)
{
    return geteuid() == 0 || kind != DEVICE;
}

/* All kinds for calls of one path; for two those that differ for them. */
static void
kinds_add(struct test test)
{
    for (unsigned x = 0; x < KINDS; x++) {
        test.x = (unsigned char)x;
        if (!possible(x)) {
            continue;
        }
        if (test.row->paths == 1) {
            test_add(test);
            continue;
        }
        for (unsigned y = 0; y < KINDS; y++) {
            test.y = (unsigned char)y;
            bool plain = x != FILE_MODE_0 && y != FILE_MODE_0 &&
                         x != FILE_SETID && y != FILE_SETID &&
                         x != FILE_EMPTY && y != FILE_EMPTY;
            if (possible(y) && plain && (test.as || x < DEVICE)) {
                test_add(test);
            }
        }
    }
}

static void
forms_add(struct test test)
{
    for (const char *const *form = path_forms; *form; form++) {
        test.form_x = *form;
        test.form_y = test.row->paths == 2 ? "fresh" : NULL;
        test_add(test);
        if (test.row->paths == 2) {
            test.form_x = "f";
            test.form_y = *form;
            test_add(test);
            test.form_x = "d";
            test_add(test);
        }
    }
}

static void
rows_add(void)
{
    for (const struct row *row = rows; row->name; row++) {
        unsigned ends = geteuid() != 0 ? AS_OTHER
                        : row->parents ? AS_END
                                       : AS_OTHER_STICKY;
        for (unsigned v = 0; row->values[v].text; v++) {
            struct test test = {.row = row, .value = (unsigned char)v};
            for (unsigned as = 0; as < ends; as++) {
                test.as = (unsigned char)as;
                kinds_add(test);
            }
            test.as = AS_ROOT;
            if (v < 2) {
                forms_add(test);
                if (geteuid() == 0 && v == 0) {
                    test.as = AS_OTHER;
                    forms_add(test);
                }
            }
        }
    }
}

static void
scripts_add(const struct script *scripts)
{
    for (; scripts->name; scripts++) {
        if (!scripts->root || geteuid() == 0) {
            test_add((struct test){.script = scripts});
        }
    }
}

static unsigned long
draw(void)
{
    static unsigned long state;
    state = state ? state : options.seed * 2 + 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state >> 33;
}

/* Keeps a sample of those in front of `scripts_from', in their order. */
static void
sample(size_t scripts_from)
{
    size_t kept = 0, want = options.sample;
    for (size_t i = 0; i < scripts_from; i++) {
        if (draw() % (scripts_from - i) < want) {
            want--;
            tests[kept++] = tests[i];
        }
    }
    memmove(tests + kept, tests + scripts_from,
            (ntests - scripts_from) * sizeof(*tests));
    ntests -= scripts_from - kept;
}

/* ---- running ------------------------------------------------------------------------- */

static void
hangs(int number)
{
    (void)number;
    static const char text[] = "\nFAIL this case hangs: ";
    ssize_t n = write(1, text, sizeof(text) - 1);
    n += write(1, running, strlen(running));
    n += write(1, "\n0 passed, 1 failed, 0 skipped\n", 31);
    _exit(n > 0 ? 1 : 2);
}

static void
run_row(struct side *side, const struct test *test)
{
    static const mode_t modes[] = {0777, 0777, 01777, 0755};
    struct operands operands = {"x", "y", test->x,
                                &test->row->values[test->value]};
    if (test->form_x) {
        path_tree(side);
        operands = (struct operands){path_of(test->form_x),
                                     test->form_y ? path_of(test->form_y) : "",
                                     NONE, operands.value};
    } else {
        object_make(side, "x", test->x);
        if (test->row->paths == 2) {
            object_make(side, "y", test->y);
        }
    }
    MUST(side, chmod(".", modes[test->as]));
    state_settle(side);
    if (test->as != AS_ROOT) {
        become_other();
    }
    side->atimes = test->row->atimes;
    test->row->run(side, &operands);
    become_root();
    state_say(side);
}

/* Opens the case's folder and the one above again, which the case may have shut. */
static void
unshut(struct side *side)
{
    char above[PATH_MAX];
    snprintf(above, sizeof(above), "%s", side->folder);
    *strrchr(above, '/') = 0;
    MUST(side, chmod(above, 0755));
    MUST(side, chmod(side->folder, 0777));
}

/* True: the folder is empty again. */
static bool
run(struct side *side, const struct test *test)
{
    side->n = 0;
    side->apart[0] = 0;
    say(side, "%s", "");
    if (chdir(side->folder) != 0) {
        result(side, "chdir to the folder of the case", -1);
        return false;
    }
    side->nknown = 0;
    side->atimes = false;
    if (geteuid() == 0) {
        MUST(side, chown("..", 0, 0));
    }
    MUST(side, chmod("..", 0755));
    MUST(side, chmod(".", 0777));
    if (test->script) {
        test->script->run(side);
    } else {
        run_row(side, test);
    }
    become_root();
    unshut(side);
    MUST(side, chdir(side->folder));
    if (geteuid() == 0) {
        MUST(side, chown(".", 0, 0));
    }
    return state_wipe(side);
}

/* ---- all of them ---------------------------------------------------------------------- */

static int
run_all(struct side sides[2])
{
    unsigned failed = 0, passed = 0;
    for (size_t i = 0; i < ntests; i++) {
        bool clean = true;
        test_name(&tests[i], running, sizeof(running));
        for (unsigned s = 0; s < 2; s++) {
            alarm((unsigned)patient(CASE_SECONDS));
            clean = run(&sides[s], &tests[i]) && clean;
        }
        alarm(0);
        if (options.show) {
            printf("---- %s\n%s---- %s\n%s%s", running, sides[0].log,
                   sides[1].name, sides[1].log, sides[1].apart);
        }
        if (differs(running, tests[i].row ? tests[i].row->name : running,
                    &sides[0], &sides[1])) {
            failed++;
        } else {
            passed++;
        }
        if (!clean) {
            printf("# the folder cannot be cleared after %s:\n%s%s", running,
                   sides[0].log, sides[1].log);
            failed++;
            break;
        }
    }
    groups_show();
    printf("# %s\n%u passed, %u failed, %zu skipped\n", known_used(), passed,
           failed, ntests - passed - failed);
    return failed ? 1 : 0;
}

static void
options_read(int argc, char **argv)
{
    static const struct option table[] = {
        {"storage", required_argument, NULL, 's'},
        {"known", required_argument, NULL, 'k'},
        {"sample", required_argument, NULL, 'n'},
        {"seed", required_argument, NULL, 'r'},
        {"only", required_argument, NULL, 'o'},
        {"list", no_argument, NULL, 'l'},
        {"show", no_argument, NULL, 'v'},
        {NULL, 0, NULL, 0},
    };
    for (int c; (c = getopt_long(argc, argv, "", table, NULL)) != -1;) {
        switch (c) {
        case 's':
            options.storage = optarg;
            break;
        case 'k':
            options.known = optarg;
            break;
        case 'n':
            options.sample = strtoul(optarg, NULL, 10);
            break;
        case 'r':
            options.seed = strtoul(optarg, NULL, 10);
            break;
        case 'o':
            options.only = optarg;
            break;
        case 'l':
            options.list = true;
            break;
        case 'v':
            options.show = true;
            break;
        default:
            exit(2);
        }
    }
    if (argc - optind != 2 && !options.list) {
        fputs("usage: differ [OPTIONS] PLAIN MOUNT\n", stderr);
        exit(2);
    }
}

/* Where the cases are: "case" in the folder, so that ".." is of the same file system. */
static char *
case_folder(const char *root, bool make)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof(path), "%s/case", root);
    if (make && mkdir(path, 0777) != 0 && errno != EEXIST) {
        return NULL;
    }
    return realpath(path, NULL);
}

int
main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    options_read(argc, argv);
    known_read(options.known);
    umask(022);
    signal(SIGALRM, hangs);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    rows_add();
    size_t nrows = ntests;
    scripts_add(io_scripts);
    scripts_add(map_scripts);
    scripts_add(name_scripts);
    scripts_add(mode_scripts);
    scripts_add(user_scripts);
    scripts_add(lock_scripts);
    if (options.sample && options.sample < nrows) {
        sample(nrows);
    }
    if (options.list) {
        for (size_t i = 0; i < ntests; i++) {
            test_name(&tests[i], running, sizeof(running));
            puts(running);
        }
        return 0;
    }
    static struct side sides[2] = {{.name = "plain"}, {.name = "mount"}};
    sides[0].folder = case_folder(argv[optind], true);
    sides[1].folder = case_folder(argv[optind + 1], true);
    sides[1].storage =
        options.storage ? case_folder(options.storage, false) : NULL;
    if (!sides[0].folder || !sides[1].folder ||
        (options.storage && !sides[1].storage)) {
        perror("differ");
        return 2;
    }
    return run_all(sides);
}
