/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tools/report.c: a report survives the way through JSON, and text
 * that nobody vouches for never does harm.
 */
#include "config.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/random.h"
#include "tests/unit/runner.h"
#include "tools/report.h"

static char *
to_json(const struct fy_report *report, size_t *out_bytes)
{
    char *text = NULL;
    FILE *file = open_memstream(&text, out_bytes);
    ck_assert_ptr_nonnull(file);
    fy_report_write_json(report, file);
    ck_assert_int_eq(fclose(file), 0);
    return text;
}

static char *
to_table(const struct fy_report *report)
{
    char *text = NULL;
    size_t bytes;
    FILE *file = open_memstream(&text, &bytes);
    ck_assert_ptr_nonnull(file);
    fy_report_print(report, file);
    ck_assert_int_eq(fclose(file), 0);
    return text;
}

static struct fy_report_row rows[2] = {
    {.name = "cblas_dgemm",
     .calls = 12,
     .offloaded = 7,
     .bytes_in = 3 << 20,
     .bytes_out = 1 << 20,
     .chunks = 99,
     .lower_bound_bytes = 2 << 20,
     .original_seconds = 0.25,
     .device_seconds = 1.5,
     .trials = 3,
     .trial_seconds = 0.125},
    {.name = "dsyev", .calls = 1},
};
static char *command[] = {(char *)"./a \"b\"\n", (char *)"\xff\xc3\xa4", NULL};

static void
fill(struct fy_report *report)
{
    memset(report, 0, sizeof *report);
    strcpy(report->device, "host");
    report->memory_bytes = 64 << 20;
    report->seconds = 2.125;
    report->exit_status = 143;
    report->command = command;
    report->rows = rows;
    report->nrows = 2;
    rows[0].declined[FY_REASON_TOO_SMALL] = 4;
    rows[0].declined[FY_REASON_NESTED] = 1;
    rows[1].declined[FY_REASON_NO_FIT] = 1;
    rows[0].absent[FY_ABSENCE_PINNED] = 2;
}

START_TEST(test_round_trip)
{
    struct fy_report in, out;
    size_t bytes;
    char why[100];
    fill(&in);
    char *text = to_json(&in, &bytes);
    ck_assert_ptr_nonnull(strstr(text, "\"./a \\\"b\\\"\\u000a\""));
    ck_assert_ptr_nonnull(strstr(text, "\"\\ufffd\xc3\xa4\""));
    ck_assert_ptr_nonnull(
        strstr(text, "\"declined\": {\"too-small\": 4, \"nested\": 1}"));
    ck_assert_ptr_nonnull(strstr(text, "\"not_kept\": {\"pinned\": 2}"));
    ck_assert_int_eq(fy_report_read_json(text, bytes, &out, why, sizeof why),
                     0);
    ck_assert_uint_eq(out.nrows, 2);
    ck_assert_mem_eq(out.rows, rows, sizeof rows);
    ck_assert_int_eq(out.exit_status, 143);
    ck_assert_uint_eq(out.memory_bytes, 64 << 20);
    ck_assert_str_eq(out.device, "host");
    char *first = to_table(&in), *second = to_table(&out);
    ck_assert_str_eq(first, second);
    ck_assert_ptr_nonnull(strstr(first, "too-small 4, nested 1"));
    ck_assert_ptr_nonnull(strstr(first, "did not stay: pinned 2\n"));
    ck_assert_ptr_nonnull(
        strstr(first, "seemed slower: 3 calls, which lost 0.125 s"));
    ck_assert_ptr_nonnull(strstr(first, "2.00")); /* (3 + 1) / 2 */
    free(first);
    free(second);
    fy_report_clear(&out);
    free(text);
}
END_TEST

START_TEST(test_empty)
{
    struct fy_report in, out;
    size_t bytes;
    char why[100];
    memset(&in, 0, sizeof in);
    strcpy(in.trouble, "no engine");
    char *text = to_json(&in, &bytes);
    ck_assert_int_eq(fy_report_read_json(text, bytes, &out, why, sizeof why),
                     0);
    ck_assert_uint_eq(out.nrows, 0);
    ck_assert_str_eq(out.trouble, "no engine");
    fy_report_clear(&out);
    free(text);
}
END_TEST

START_TEST(test_bad_json)
{
    static const struct {
        const char *text, *why;
    } bad[] = {
        {"", "line 1: '[' or '{' expected near end of file"},
        {"{", "line 1: string or '}' expected near end of file"},
        {"{\n\"functions\"", "line 2: ':' expected near end of file"},
        {"{\"functions\": [}", "line 1: unexpected token near '}'"},
        {"{\"functions\": []} x", "line 1: end of file expected near 'x'"},
        {"{\"functions\": [1}", "line 1: ']' expected near '}'"},
        {"{\"a\": \"\\x\"}", "line 1: invalid escape near '\"\\x'"},
        {"{\"a\": \"\\ud800\"}",
         "line 1: invalid Unicode '\\uD800' near '\"\\ud800\"'"},
        {"{\"a\": \"\\u0000\"}", "line 1: \\u0000 is not allowed without "
                                 "JSON_ALLOW_NUL near '\"\\u0000\"'"},
        {"{\"a\": 1e999}", "line 1: real number overflow near '1e999'"},
        {"{\"a\": \"", "line 1: premature end of input near '\"'"},
        {"{\"a\": \"\xff\"}", "line 1: unable to decode byte 0xff near '\"'"},
        {"{\"a\": \x1b[2J}", "line 1: invalid token near '?'"},
        {"{\"a\": 1, \"a\": 2}", "line 1: duplicate object key near '\"a\"'"},
        {"[]", "it has no list of functions"},
        {"{}", "it has no list of functions"},
        {"{\"functions\": [1]}", "it has no list of functions"},
        {"{\"functions\": {}}", "it has no list of functions"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct fy_report out;
        char why[100];
        ck_assert_int_eq(fy_report_read_json(bad[i].text, strlen(bad[i].text),
                                             &out, why, sizeof why),
                         FY_ERR_INVALID);
        ck_assert_str_eq(why, bad[i].why);
    }
}
END_TEST

START_TEST(test_deep_json)
{
    char text[4096];
    struct fy_report out;
    char why[100];
    memset(text, '[', sizeof text);
    ck_assert_int_eq(
        fy_report_read_json(text, sizeof text, &out, why, sizeof why),
        FY_ERR_INVALID);
    ck_assert_str_eq(why, "line 1: maximum parsing depth reached near '['");
}
END_TEST

/* A few bytes of text each, and hundreds of memory. */
START_TEST(test_crowded_json)
{
    static const char start[] = "{\"functions\": [", end[] = "{}]}";
    size_t bytes = sizeof start - 1, objects = 200000;
    char *text = malloc(bytes + 3 * objects + sizeof end);
    struct fy_report out;
    char why[100];
    memcpy(text, start, bytes);
    for (size_t i = 0; i < objects; i++, bytes += 3) {
        memcpy(text + bytes, "{},", 3);
    }
    memcpy(text + bytes, end, sizeof end);
    bytes += sizeof end - 1;
    ck_assert_int_eq(fy_report_read_json(text, bytes, &out, why, sizeof why),
                     FY_ERR_INVALID);
    ck_assert_str_eq(why, "it has too many objects, lists or members");
    free(text);
}
END_TEST

/* Six million members of one object, 140 bytes of memory each. */
START_TEST(test_many_members)
{
    char *text = NULL, why[100];
    size_t bytes;
    struct fy_report out;
    FILE *to = open_memstream(&text, &bytes);
    (void)fprintf(to, "{\"functions\": []");
    for (unsigned i = 0; i < 6000000; i++) {
        (void)fprintf(to, ",\"%x\":1", i);
    }
    (void)fprintf(to, "}");
    ck_assert_int_eq(fclose(to), 0);
    ck_assert_int_eq(fy_report_read_json(text, bytes, &out, why, sizeof why),
                     FY_ERR_INVALID);
    ck_assert_str_eq(why, "it has too many objects, lists or members");
    free(text);
}
END_TEST

START_TEST(test_hostile_values)
{
    static const char text[] =
        "{\"functions\": [{\"name\": \"\\u001b[2Jx\", \"calls\": -5,"
        " \"offloaded\": 1e300, \"chunks\": \"7\", \"declined\": []}],"
        " \"exit_status\": 1e9}";
    struct fy_report out;
    char why[100];
    ck_assert_int_eq(
        fy_report_read_json(text, strlen(text), &out, why, sizeof why), 0);
    ck_assert_str_eq(out.rows[0].name, "?[2Jx");
    ck_assert_uint_eq(out.rows[0].calls, 0);
    ck_assert_uint_eq(out.rows[0].offloaded, UINT64_C(1) << 63);
    ck_assert_uint_eq(out.rows[0].chunks, 0);
    ck_assert_int_eq(out.exit_status, 255);
    fy_report_clear(&out);
}
END_TEST

/* Mutations of a good report, from a fixed seed: for the sanitizers. */
START_TEST(test_fuzz)
{
    struct fy_report report;
    size_t bytes;
    uint64_t read = 0;
    fill(&report);
    char *good = to_json(&report, &bytes), *text = malloc(bytes);
    for (int round = 0; round < 20000; round++) {
        struct fy_report out;
        char why[100];
        memcpy(text, good, bytes);
        size_t length = bytes;
        for (int change = 0; change < 1 + round % 3; change++) {
            static const char odd[] = "{}[]\",:\\u0e-+.9 \n\xff";
            uint64_t state = random_bits();
            text[state % bytes] = odd[(state >> 40) % (sizeof odd - 1)];
            if (state >> 60 == 0) {
                length = (state >> 20) % bytes;
            }
        }
        /* A block of its own, so that reading past it is seen. */
        char *block = malloc(length ? length : 1);
        memcpy(block, text, length);
        if (fy_report_read_json(block, length, &out, why, sizeof why) == 0) {
            read++;
            free(to_table(&out));
            fy_report_clear(&out);
        }
        free(block);
    }
    ck_assert_uint_gt(read, 100);
    free(text);
    free(good);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("report");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, test_round_trip);
    tcase_add_test(tests, test_empty);
    tcase_add_test(tests, test_bad_json);
    tcase_add_test(tests, test_deep_json);
    tcase_add_test(tests, test_crowded_json);
    tcase_add_test(tests, test_many_members);
    tcase_add_test(tests, test_hostile_values);
    tcase_add_test(tests, test_fuzz);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
