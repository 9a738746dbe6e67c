/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proxy/PROTOCOL.md says what the code does: its tables of paths, fields, keys
 * and limits are the code's, row for row, and its example is what the encoder
 * makes.
 */
#include "config.h"

#include <check.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/files/message.h"
#include "proxy/wire/compress.h"
#include "proxy/wire/protocol.h"
#include "proxy/wire/reason.h"
#include "proxy/wire/spec.h"
#include "proxy/wire/wire.h"
#include "tests/unit/runner.h"

enum {
    MAX_ROWS = 300,
    MAX_CELLS = 4,
    CELL_BYTES = 256
};

/* A row of a table whose first cell is in `back quotes'. */
struct row {
    char heading[64];
    char cells[MAX_CELLS][CELL_BYTES];
    bool seen;
};
static struct row rows[MAX_ROWS];
static unsigned nrows;
static char *document;

/* The text of a cell: no blanks around, no quotes. */
static void
set_cell(char *cell, const char *at, size_t n)
{
    while (n && *at == ' ') {
        at++, n--;
    }
    while (n && at[n - 1] == ' ') {
        n--;
    }
    if (n > 1 && *at == '`' && at[n - 1] == '`') {
        at++, n -= 2;
    }
    ck_assert_uint_lt(n, CELL_BYTES);
    memcpy(cell, at, n);
    cell[n] = 0;
}

static void
read_rows(void)
{
    char heading[64] = "";
    for (const char *line = document; *line;
         line += strcspn(line, "\n"), line += *line == '\n') {
        size_t n = strcspn(line, "\n");
        if (*line == '#') {
            size_t skip = strspn(line, "# ");
            ck_assert_uint_lt(n - skip, sizeof heading);
            memcpy(heading, line + skip, n - skip);
            heading[n - skip] = 0;
        }
        if (strncmp(line, "| `", 3) != 0) {
            continue;
        }
        ck_assert_uint_lt(nrows, MAX_ROWS);
        struct row *row = &rows[nrows++];
        strcpy(row->heading, heading);
        const char *at = line + 1;
        for (unsigned i = 0; i < MAX_CELLS && at < line + n; i++) {
            size_t k = strcspn(at, "|\n");
            set_cell(row->cells[i], at, k);
            at += k + 1;
        }
    }
}

static void
read_document(void)
{
    char path[4096];
    const char *source = getenv("FERRY_SRCDIR");
    (void)snprintf(path, sizeof path, "%s/proxy/PROTOCOL.md",
                   source ? source : ".");
    FILE *file = fopen(path, "r");
    ck_assert_msg(file != NULL, "%s", path);
    document = calloc(1, 1 << 16);
    ck_assert_ptr_nonnull(document);
    size_t n = fread(document, 1, (1 << 16) - 1, file);
    fclose(file);
    ck_assert_uint_gt(n, 1000);
    ck_assert_uint_lt(n, (1 << 16) - 1);
    nrows = 0;
    memset(rows, 0, sizeof rows);
    read_rows();
}

static struct row *
row(const char *heading, const char *first)
{
    for (unsigned i = 0; i < nrows; i++) {
        if (!strcmp(rows[i].heading, heading) &&
            !strcmp(rows[i].cells[0], first)) {
            ck_assert_msg(!rows[i].seen, "%s is there twice", first);
            rows[i].seen = true;
            return &rows[i];
        }
    }
    ck_abort_msg("PROTOCOL.md, %s: no row for %s", heading, first);
    return NULL;
}

/* The fields of a message of `ferry mount' as its row writes them. */
static void
fields_of(unsigned type, bool answer, char text[CELL_BYTES])
{
    struct fy_buffer fields;
    fy_buffer_start(&fields, text, CELL_BYTES);
    if (!fy_files_type_fields(type, answer, &fields)) {
        strcpy(text, "-");
    }
}

START_TEST(the_tables_are_those_of_the_code)
{
    static const struct {
        const char *method, *path;
    } paths[] = {
#define PATH(id, method, path) {method, path},
        FY_PATHS(PATH)
#undef PATH
    };
    static const struct {
        const char *name, *where;
    } fields[] = {
#define FIELD(id, name, where) {name, where},
        FY_FIELDS(FIELD)
#undef FIELD
    };
#define LIMIT(name) \
    {               \
#name, name \
    }
    static const struct {
        const char *name;
        long value;
    } limits[] = {
        LIMIT(FY_WIRE_MAX_STREAMS),    LIMIT(FY_WIRE_MAX_PAIRS),
        LIMIT(FY_WIRE_MAX_HEAD_BYTES), LIMIT(FY_WIRE_MAX_VALUE_BYTES),
        LIMIT(FY_WIRE_FRAME_BYTES),    LIMIT(FY_WIRE_REQUEST_WINDOW),
        LIMIT(FY_WIRE_MAX_GRANT),      LIMIT(FY_SPEC_MAX_BYTES),
        LIMIT(FY_SPEC_MAX_STRINGS),    LIMIT(FY_SPEC_LENGTH_BYTES),
    };
    char text[CELL_BYTES];
    read_document();
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        (void)snprintf(text, sizeof text, "%s %s", paths[i].method,
                       paths[i].path);
        (void)row("Paths", text);
    }
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        ck_assert_str_eq(row("Heads and trailers", fields[i].name)->cells[1],
                         fields[i].where);
    }
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        (void)snprintf(text, sizeof text, "%ld", limits[i].value);
        ck_assert_str_eq(row("Limits", limits[i].name)->cells[1], text);
    }
    struct fy_spec_key key;
    unsigned nkeys = 0;
    for (; fy_spec_key(nkeys, &key); nkeys++) {
        const struct row *r = row(key.map, key.key);
        ck_assert_msg(!strcmp(r->cells[1], key.type), "%s, %s: %s, not %s",
                      key.map, key.key, key.type, r->cells[1]);
        ck_assert_msg(
            !strcmp(r->cells[2], key.required ? "required" : "optional"),
            "%s, %s: %s", key.map, key.key, r->cells[2]);
    }
    ck_assert_uint_gt(nkeys, 50);
    for (unsigned type = 1; type < FY_FILES_TYPES; type++) {
        const struct row *r = row("Files", fy_files_type_name(type));
        fields_of(type, false, text);
        ck_assert_str_eq(r->cells[1], text);
        fields_of(type, true, text);
        ck_assert_str_eq(r->cells[2], text);
    }
    for (unsigned i = 0; i < nrows; i++) {
        ck_assert_msg(rows[i].seen, "PROTOCOL.md, %s: the code knows no %s",
                      rows[i].heading, rows[i].cells[0]);
    }
    free(document);
}
END_TEST

/* The constants are the rows that the names are compared with. */
START_TEST(the_constants_are_those_rows)
{
#define FIELD(id, name, where) ck_assert_str_eq(FY_FIELD_##id, name);
    FY_FIELDS(FIELD)
#undef FIELD
    ck_assert_int_eq(FY_PROTOCOL_VERSION, 1);
    ck_assert_int_eq(1 << FY_SQUEEZE_WINDOW_LOG, 1 << 20); /* "1 MiB" */
    read_document();
    ck_assert_ptr_nonnull(strstr(document, "\nVersion 3. "));
    static const char *const kinds =
        "0 null, 1 closed, 2 wire, 3 file, 4 link, 5 pty, 6 same";
    ck_assert_str_eq(row("stream", "kind")->cells[3], kinds);
    ck_assert(FY_STREAM_NULL == 0 && FY_STREAM_CLOSED == 1 &&
              FY_STREAM_WIRE == 2 && FY_STREAM_FILE == 3 &&
              FY_STREAM_LINK == 4 && FY_STREAM_PTY == 5 && FY_STREAM_SAME == 6);
    /* Reasons that it names exist. */
    static const char *const reasons[] = {"busy", "outside", "other-tool",
                                          "refused"};
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++) {
        char quoted[64];
        (void)snprintf(quoted, sizeof quoted, "`%s`", reasons[i]);
        ck_assert_ptr_nonnull(strstr(document, quoted));
        ck_assert_uint_ne(fy_stage_reason_find(reasons[i]),
                          FY_STAGE_REASON_COUNT);
    }
    free(document);
}
END_TEST

/* The bytes as the document writes them, without line ends. */
static bool
is_written(const char *bytes, size_t n)
{
    char *text = malloc(4 * n + 1), *flat = malloc(strlen(document) + 1);
    ck_assert_ptr_nonnull(text);
    ck_assert_ptr_nonnull(flat);
    size_t used = 0, nflat = 0;
    for (size_t i = 0; i < n; i++) {
        used += (size_t)sprintf(text + used, "%s%02x", i ? " " : "",
                                (unsigned)(unsigned char)bytes[i]);
    }
    for (const char *c = document; *c; c++) { /* blanks become one */
        if (!isspace((unsigned char)*c)) {
            flat[nflat++] = *c;
        } else if (nflat && flat[nflat - 1] != ' ') {
            flat[nflat++] = ' ';
        }
    }
    flat[nflat] = 0;
    bool found = strstr(flat, text) != NULL;
    free(flat);
    free(text);
    return found;
}

START_TEST(the_example_is_what_is_sent)
{
    struct fy_bytes paths[] = {{"logs", 4}};
    struct fy_probe probe = {.mount = {"/mnt/d", 6},
                             .root = {"/srv/d", 6},
                             .cwd = {"/mnt/d", 6},
                             .npaths = 1,
                             .paths = paths,
                             .tree = true};
    struct fy_probe_result result = {123456, 7, true};
    char *bytes = NULL;
    size_t n = 0;
    read_document();
    ck_assert_int_eq(fy_probe_encode(&probe, &bytes, &n), 0);
    ck_assert_uint_eq(n, 55);
    ck_assert(is_written(bytes, n));
    bytes[1] ^= 1;
    ck_assert(!is_written(bytes, n));
    free(bytes);
    ck_assert_int_eq(fy_probe_result_encode(&result, &bytes, &n), 0);
    ck_assert_uint_eq(n, 29);
    ck_assert(is_written(bytes, n));
    free(bytes);
    free(document);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("protocol");
    TCase *tcase = tcase_create("protocol");
    tcase_add_test(tcase, the_tables_are_those_of_the_code);
    tcase_add_test(tcase, the_constants_are_those_rows);
    tcase_add_test(tcase, the_example_is_what_is_sent);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
