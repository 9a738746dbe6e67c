/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A report that `ferry report' is given (tools/report.h, tools/json.h): a file of
 * anybody's. What is accepted can be printed, and written it reads as the same; a
 * string is quoted so that it reads as itself.
 */
#include "config.h"

#include "common/plain.h"
#include "tests/fuzz/target.h"
#include "tools/json.h"
#include "tools/report.h"

const char fuzz_shows[] =
    "every report is refused with a reason, or comes back";
const char *const fuzz_words[] = {"\"functions\"",
                                  "\"pipelines\"",
                                  "[",
                                  "]",
                                  "{",
                                  "}",
                                  ":",
                                  ",",
                                  "\\u0000",
                                  "\\ud800\\udc00",
                                  "\\ud800",
                                  "1e400",
                                  "-0",
                                  "1e308",
                                  "true",
                                  "null",
                                  "\"name\"",
                                  "\"calls\"",
                                  "\"argv\"",
                                  "\"stages\"",
                                  "\"command\"",
                                  "18446744073709551616",
                                  "-1",
                                  NULL};

static char *
written(const struct fy_report *report, size_t *n)
{
    char *text = NULL;
    FILE *to = open_memstream(&text, n);
    MUST(to);
    fy_report_write_json(report, to);
    MUST(fclose(to) == 0);
    return text;
}

static void
try_report(const char *text, size_t n)
{
    struct fy_report report;
    char why[256] = "";
    int status = fy_report_read_json(text, n, &report, why, sizeof why);
    if (status) {
        MUST(status == FY_ERR_INVALID && *why && strlen(why) < sizeof why);
        return;
    }
    fuzz_taken++;
    FILE *nowhere = fopen("/dev/null", "w");
    MUST(nowhere);
    fy_report_print(&report, nowhere);
    fy_report_print_stages(&report, nowhere);
    (void)fclose(nowhere);
    /* Bytes that are no UTF-8 are escapes at first, then the character itself. */
    char *texts[3];
    size_t sizes[3];
    texts[0] = written(&report, &sizes[0]);
    fy_report_clear(&report);
    for (unsigned i = 1; i < 3; i++) {
        MUST(!fy_report_read_json(texts[i - 1], sizes[i - 1], &report, why,
                                  sizeof why));
        texts[i] = written(&report, &sizes[i]);
        fy_report_clear(&report);
    }
    MUST(sizes[1] == sizes[2] && !memcmp(texts[1], texts[2], sizes[1]));
    for (unsigned i = 0; i < 3; i++) {
        free(texts[i]);
    }
}

static void
try_string(const uint8_t *bytes, size_t n)
{
    char *text = fuzz_text(bytes, n), *quoted = NULL;
    size_t size;
    FILE *to = open_memstream(&quoted, &size);
    MUST(to);
    fy_json_write_string(text, to);
    MUST(fclose(to) == 0);
    json_t *root = json_loadb(quoted, size, JSON_DECODE_ANY, NULL);
    MUST(json_is_string(root));
    const char *at = text, *back = json_string_value(root);
    while (*at) { /* what is no UTF-8 became U+FFFD */
        size_t k = fy_utf8_bytes(at);
        MUST(k ? !strncmp(at, back, k) : !strncmp(back, "\xef\xbf\xbd", 3));
        at += k ? k : 1;
        back += k ? k : 3;
    }
    MUST(!*back);
    json_decref(root);
    free(quoted);
    free(text);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    try_report((const char *)bytes, n);
    try_string(bytes, n);
    return 0;
}

void
fuzz_make_seeds(void)
{
    static const char *const words[] = {"python3", "a b\"\xff", NULL};
    struct fy_report report = {.device = "host",
                               .trouble = "none, really",
                               .memory_bytes = 1 << 20,
                               .seconds = 1.5,
                               .exit_status = 3,
                               .command = (char *const *)(uintptr_t)words};
    struct fy_report_row row = {.name = "dgemm_", .calls = 4, .offloaded = 2};
    row.declined[3] = 2;
    report.rows = &row;
    report.nrows = 1;
    size_t n;
    char *text = written(&report, &n);
    fuzz_seed(text, n);
    free(text);
    FUZZ_SEED(
        "{\"ferry\": \"0\", \"command\": [], \"exit_status\": 0, \"seconds\": "
        "1e306, \"device\": \"host\", \"functions\": []}"); /* was too long */
    struct fy_stage_report stage = {0};
    report.stages = &stage;
    report.nstages = 1;
    text = written(&report, &n);
    fuzz_seed(text, n);
    free(text);
}
