/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proxy/split*.c: real commands in parts give what they give whole: output, exit
 * status, also where the parts are no use.
 */
#include "config.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proxy/server/split.h"
#include "tests/patience.h"
#include "tests/unit/runner.h"

extern char **environ;

static char folder[64];
static char input[96];

/* Lines of which some repeat, and the last one without a newline if asked. */
static void
write_input(unsigned lines, bool newline, const char *extra)
{
    FILE *file = fopen(input, "we");
    ck_assert_ptr_nonnull(file);
    unsigned state = 12345;
    for (unsigned i = 0; i < lines; i++) {
        state = state * 1103515245 + 12345;
        (void)fprintf(file, "line %u of %u words%s", (state >> 16) % 1000,
                      i / 3, i + 1 < lines || newline ? "\n" : "");
        if (extra && i == lines / 2) {
            (void)fputs(extra, file);
        }
    }
    ck_assert_int_eq(fclose(file), 0);
}

static void
make_folder(void)
{
    strcpy(folder, "/tmp/ferry-split-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    (void)snprintf(input, sizeof input, "%s/input", folder);
}

static void
remove_folder(void)
{
    unlink(input);
    rmdir(folder);
}

struct outcome {
    char *text;
    size_t bytes;
    int status;   /* of waitpid */
    bool split;   /* the copies did it: "split" was written to the side pipe */
    off_t offset; /* of stdin afterwards */
};

static char *
read_all(int fd, size_t *out_bytes, size_t limit)
{
    size_t room = 1 << 16, used = 0;
    char *text = malloc(room);
    ck_assert_ptr_nonnull(text);
    ssize_t n;
    while (used < limit && (n = read(fd, text + used, room - used)) != 0) {
        ck_assert_int_gt(n, 0);
        used += (size_t)n;
        if (used == room) {
            room *= 2;
            text = realloc(text, room);
            ck_assert_ptr_nonnull(text);
        }
    }
    *out_bytes = used;
    return text;
}

/* Runs argv whole (copies 0) or in parts; the output up to `limit' bytes. */
static struct outcome
run(char *const *argv, unsigned copies, const struct fy_invocation *invocation,
    bool found, size_t limit)
{
    struct outcome outcome = {0};
    char program[96];
    int out[2], side[2];
    int in = open(input, O_RDONLY);
    ck_assert_int_ge(in, 0);
    ck_assert_int_eq(pipe(out), 0);
    ck_assert_int_eq(pipe2(side, O_CLOEXEC), 0);
    (void)snprintf(program, sizeof program, "/usr/bin/%s", argv[0]);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        signal(SIGPIPE, SIG_DFL);
        dup2(in, 0);
        dup2(out[1], 1);
        close(out[0]);
        close(out[1]);
        close(in);
        if (copies) {
            struct fy_split_job job = {
                .program = program,
                .argv = argv,
                .env = environ,
                .invocation = invocation,
                .copies = copies,
                .part_bytes_min = 2000,
                .status_found = found,
            };
            fy_split_run(&job);
            (void)!write(side[1], "x", 1); /* it was not split */
        }
        execv(program, argv);
        _exit(127);
    }
    close(out[1]);
    close(side[1]);
    outcome.text = read_all(out[0], &outcome.bytes, limit);
    close(out[0]);
    char mark;
    outcome.split = read(side[0], &mark, 1) == 0;
    close(side[0]);
    ck_assert_int_eq(waitpid(pid, &outcome.status, 0), pid);
    outcome.offset = lseek(in, 0, SEEK_CUR);
    close(in);
    return outcome;
}

/* The status of argv with nowhere to write, whole (copies 0) or in parts. */
static int
run_full(char *const *argv, unsigned copies,
         const struct fy_invocation *invocation)
{
    char program[96];
    int status;
    (void)snprintf(program, sizeof program, "/usr/bin/%s", argv[0]);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        dup2(open(input, O_RDONLY), 0);
        dup2(open("/dev/full", O_WRONLY), 1);
        dup2(open("/dev/null", O_WRONLY), 2);
        if (copies) {
            const struct fy_split_job job = {.program = program,
                                             .argv = argv,
                                             .env = environ,
                                             .invocation = invocation,
                                             .copies = copies,
                                             .part_bytes_min = 2000};
            fy_split_run(&job);
        }
        execv(program, argv);
        _exit(127);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return status;
}

static void
compare(char *const *argv, const struct fy_invocation *invocation, bool found,
        bool expect_split)
{
    struct outcome whole = run(argv, 0, NULL, false, SIZE_MAX);
    struct outcome parts = run(argv, 3, invocation, found, SIZE_MAX);
    ck_assert_int_eq(parts.split, expect_split);
    ck_assert_int_eq(parts.status, whole.status);
    ck_assert_uint_eq(parts.bytes, whole.bytes);
    ck_assert_mem_eq(parts.text, whole.text, whole.bytes);
    ck_assert_int_eq(parts.offset, whole.offset);
    free(whole.text);
    free(parts.text);
}

/* By operand when `operand' is its place in argv, else by stdin. */
static void
check_command(char **argv, unsigned operand, enum fy_merge merge, bool found,
              bool expect_split)
{
    struct fy_use use = {
        .arg = operand, .access = FY_ACCESS_IN, .kind = FY_USE_FILE};
    struct fy_invocation invocation = {
        .uses = &use,
        .nuses = operand ? 1 : 0,
        .reads_stdin = !operand,
        .pure = true,
        .split = FY_SPLIT_LINES,
        .merge = (uint8_t)merge,
    };
    compare(argv, &invocation, found, expect_split);
}

#define ARGV(...) ((char *[]){__VA_ARGS__, NULL})

START_TEST(test_concat)
{
    write_input(5000, true, NULL);
    check_command(ARGV("grep", "7", input), 2, FY_MERGE_CONCAT, true, true);
    check_command(ARGV("grep", "7"), 0, FY_MERGE_CONCAT, true, true);
    check_command(ARGV("cut", "-c2-9", input), 2, FY_MERGE_CONCAT, false, true);
    check_command(ARGV("sed", "s/e/E/g", "--", input), 3, FY_MERGE_CONCAT,
                  false, true);
    check_command(ARGV("tr", "a-z", "A-Z"), 0, FY_MERGE_CONCAT, false, true);
    check_command(ARGV("cat", input), 1, FY_MERGE_CONCAT, false, true);
    /* Found in one part only; and nowhere. */
    check_command(ARGV("grep", "of 1666 ", input), 2, FY_MERGE_CONCAT, true,
                  true);
    check_command(ARGV("grep", "nowhere", input), 2, FY_MERGE_CONCAT, true,
                  true);
}
END_TEST

START_TEST(test_last_line_without_newline)
{
    write_input(3000, false, NULL);
    check_command(ARGV("grep", "9", input), 2, FY_MERGE_CONCAT, true, true);
    check_command(ARGV("cut", "-c2-9", input), 2, FY_MERGE_CONCAT, false, true);
    check_command(ARGV("sed", "s/e/E/g", input), 2, FY_MERGE_CONCAT, false,
                  true);
    check_command(ARGV("sort", input), 1, FY_MERGE_SORT, false, true);
}
END_TEST

START_TEST(test_merges)
{
    write_input(5000, true, NULL);
    check_command(ARGV("sort", "-k2,2n", "-k4", input), 3, FY_MERGE_SORT, false,
                  true);
    check_command(ARGV("sort", "-r"), 0, FY_MERGE_SORT, false, true);
    check_command(ARGV("wc", "-l"), 0, FY_MERGE_SUM, false, true);
    check_command(ARGV("grep", "-c", "3"), 0, FY_MERGE_SUM, true, true);
    check_command(ARGV("head", "-n", "70", input), 3, FY_MERGE_HEAD, false,
                  true);
    check_command(ARGV("head", "-n", "4900", input), 3, FY_MERGE_HEAD, false,
                  true);
    check_command(ARGV("uniq", "-f", "3", input), 3, FY_MERGE_UNIQ, false,
                  true);
}
END_TEST

START_TEST(test_parts_that_are_no_use)
{
    /* One number in each part, but wc pads three of them. */
    write_input(5000, true, NULL);
    check_command(ARGV("wc"), 0, FY_MERGE_SUM, false, true);
    /* A wrong annotation: every part complains, the whole says it once. */
    check_command(ARGV("grep", "(", "-E", input), 3, FY_MERGE_CONCAT, true,
                  true);
    check_command(ARGV("false", input), 1, FY_MERGE_CONCAT, false, true);
}
END_TEST

/* Text is split; with one bad byte anywhere it is not. */
/* The second part complains when the first one's output is delivered already:
 * what the whole command writes goes on behind that, or is found to differ. */
START_TEST(test_parts_that_are_no_use_any_more)
{
    const struct fy_invocation invocation = {.reads_stdin = true,
                                             .pure = true,
                                             .split = FY_SPLIT_LINES,
                                             .merge = FY_MERGE_CONCAT};
    char nap[32];
    (void)snprintf(nap, sizeof nap, "nap=sleep %.1f",
                   (double)patient(500) / 1000);
    char **differs = ARGV("awk", "-v", nap,
                          "/mark/ { seen = 1 } END { print NR; if (NR > 2000) {"
                          "printf(\"%200d\", 0) } else if (seen) {"
                          "system(nap); print \"x\" >\"/dev/stderr\" } }");
    write_input(5000, true, "mark\n");
    check_command(ARGV("awk", "-v", nap,
                       "{ print } /mark/ && NR < 2000 {"
                       "system(nap);"
                       "print \"x\" >\"/dev/stderr\" }"),
                  0, FY_MERGE_CONCAT, false, true);
    struct outcome parts = run(differs, 3, &invocation, false, SIZE_MAX);
    ck_assert(parts.split && WIFEXITED(parts.status));
    ck_assert_int_eq(WEXITSTATUS(parts.status), 125);
    ck_assert(parts.bytes > 0 && parts.bytes < 200); /* of the first parts */
    free(parts.text);
}
END_TEST

START_TEST(test_only_text)
{
    static const struct {
        const char *bytes;
        size_t n;
        bool text;
    } rows[] = {
        {"plain", 5, true},
        {"gr\xc3\xbc\xc3\x9f"
         "e",
         7, true},
        {"\xe2\x82\xac", 3, true},
        {"\xf0\x9f\x98\x80", 4, true},
        {"a\0b", 3, false},
        {"\xff", 1, false},
        {"\xc3", 1, false},
        {"\xc0\xaf", 2, false},
        {"\xed\xa0\x80", 3, false},
        {"\xf4\x90\x80\x80", 4, false},
        {"\x80", 1, false},
        {"\xe0\x80\x80", 3, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (int place = 0; place < 3; place++) {
            char line[32];
            write_input(5000, true, NULL);
            FILE *file = fopen(input, "r+e");
            ck_assert_ptr_nonnull(file);
            (void)fseek(file,
                        place == 0   ? 3
                        : place == 1 ? 60001
                                     : -9,
                        place == 2 ? SEEK_END : SEEK_SET);
            memcpy(line, rows[i].bytes, rows[i].n);
            ck_assert_uint_eq(fwrite(line, 1, rows[i].n, file), rows[i].n);
            ck_assert_int_eq(fclose(file), 0);
            check_command(ARGV("grep", "7", input), 2, FY_MERGE_CONCAT, true,
                          rows[i].text);
        }
    }
}
END_TEST

START_TEST(test_other_encodings)
{
    write_input(5000, true, NULL);
    setenv("LC_ALL", "ja_JP.eucJP", 1);
    check_command(ARGV("grep", "7", input), 2, FY_MERGE_CONCAT, true, false);
    setenv("LC_ALL", "C", 1);
    check_command(ARGV("grep", "7", input), 2, FY_MERGE_CONCAT, true, true);
}
END_TEST

START_TEST(test_early_end)
{
    struct fy_use use = {.arg = 1, .access = FY_ACCESS_IN, .kind = FY_USE_FILE};
    struct fy_invocation invocation = {
        .uses = &use, .nuses = 1, .pure = true, .split = FY_SPLIT_LINES};
    write_input(200000, true, NULL);
    struct outcome parts = run(ARGV("cat", input), 2, &invocation, false, 1000);
    ck_assert(WIFSIGNALED(parts.status));
    ck_assert_int_eq(WTERMSIG(parts.status), SIGPIPE);
    free(parts.text);
}
END_TEST

/* Bytes that could not be written were not delivered. */
START_TEST(test_full_disk)
{
    struct fy_use use = {.arg = 1, .access = FY_ACCESS_IN, .kind = FY_USE_FILE};
    struct fy_invocation invocation = {
        .pure = true, .split = FY_SPLIT_LINES, .reads_stdin = true};
    write_input(5000, true, NULL);
    invocation.merge = FY_MERGE_SUM;
    int whole = run_full(ARGV("wc", "-l"), 0, NULL);
    ck_assert_int_eq(WEXITSTATUS(whole), 1);
    ck_assert_int_eq(run_full(ARGV("wc", "-l"), 3, &invocation), whole);
    invocation.merge = FY_MERGE_SORT;
    whole = run_full(ARGV("sort"), 0, NULL);
    ck_assert_int_eq(run_full(ARGV("sort"), 3, &invocation), whole);
    invocation = (struct fy_invocation){.uses = &use,
                                        .nuses = 1,
                                        .pure = true,
                                        .split = FY_SPLIT_LINES,
                                        .merge = FY_MERGE_CONCAT};
    whole = run_full(ARGV("cat", input), 0, NULL);
    ck_assert_int_eq(run_full(ARGV("cat", input), 3, &invocation), whole);
}
END_TEST

START_TEST(test_too_small_or_not_a_file)
{
    write_input(20, true, NULL);
    check_command(ARGV("cat", input), 1, FY_MERGE_CONCAT, false, false);
    check_command(ARGV("cat", "/dev/null"), 1, FY_MERGE_CONCAT, false, false);
    check_command(ARGV("cat", folder), 1, FY_MERGE_CONCAT, false, false);
}
END_TEST

START_TEST(test_what_may_not)
{
    struct fy_use uses[2] = {
        {.arg = 1, .access = FY_ACCESS_IN, .kind = FY_USE_FILE},
        {.arg = 2, .access = FY_ACCESS_IN, .kind = FY_USE_FILE},
    };
    struct fy_invocation good = {
        .uses = uses, .nuses = 1, .pure = true, .split = FY_SPLIT_LINES};
    struct fy_invocation bad;
    uint32_t arg;
    ck_assert(fy_split_possible(&good, &arg));
    ck_assert_uint_eq(arg, 1);
    bad = good, bad.split = FY_SPLIT_NONE;
    ck_assert(!fy_split_possible(&bad, &arg));
    bad = good, bad.pure = false;
    ck_assert(!fy_split_possible(&bad, &arg));
    bad = good, bad.nuses = 2;
    ck_assert(!fy_split_possible(&bad, &arg));
    bad = good, bad.merge = FY_MERGE_SUM;
    ck_assert(!fy_split_possible(&bad, &arg));
    bad = good, bad.nuses = 0;
    ck_assert(!fy_split_possible(&bad, &arg));
    uses[0].kind = FY_USE_TREE;
    ck_assert(!fy_split_possible(&good, &arg));
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("split");
    TCase *cases = tcase_create("split");
    tcase_add_checked_fixture(cases, make_folder, remove_folder);
    tcase_set_timeout(cases, 20);
    tcase_add_test(cases, test_concat);
    tcase_add_test(cases, test_last_line_without_newline);
    tcase_add_test(cases, test_merges);
    tcase_add_test(cases, test_parts_that_are_no_use);
    tcase_add_test(cases, test_parts_that_are_no_use_any_more);
    tcase_add_test(cases, test_only_text);
    tcase_add_test(cases, test_other_encodings);
    tcase_add_test(cases, test_early_end);
    tcase_add_test(cases, test_full_disk);
    tcase_add_test(cases, test_too_small_or_not_a_file);
    tcase_add_test(cases, test_what_may_not);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
