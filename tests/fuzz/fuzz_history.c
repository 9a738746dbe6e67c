/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of what earlier runs taught (proxy/client/history.h): the input is the file, or
 * (when it begins with a quote) rows of SQL that another program put into it. What is
 * read is finite and not negative, and what is added is found again, also by the
 * next run where the file can be written.
 */
#include "config.h"

#include <math.h>
#include <sqlite3.h>

#include "proxy/client/history.h"
#include "tests/fuzz/target.h"

const char fuzz_shows[] = "no file makes a run learn what is no number";
const char *const fuzz_words[] = {"1e400", "-1",   "NULL", "x'00ff'", "'k'",
                                  "9e999", "'a'",  "),(",  "0x7f",    "''",
                                  "nan",   "char", "(0)",  "-9e999",  NULL};

static const char schema[] =
    "CREATE TABLE learned2 (key TEXT PRIMARY KEY, runs REAL, in_bytes REAL,"
    " out_bytes REAL, seconds REAL, used INTEGER) WITHOUT ROWID";

static bool
is_fine(double value)
{
    return isfinite(value) && value >= 0;
}

static void
judge(struct fy_history *history, const char *key)
{
    struct fy_learned learned;
    bool found = fy_history_find(history, key, &learned);
    MUST(is_fine(learned.runs) && is_fine(learned.in_bytes) &&
         is_fine(learned.out_bytes) && is_fine(learned.busy_seconds));
    MUST(found == (learned.runs > 0));
}

/* Rows, as far as they are SQL, by another program. */
static void
put_rows(const char *path, const char *rows)
{
    sqlite3 *file;
    char *text = sqlite3_mprintf(
        "INSERT OR REPLACE INTO learned2 VALUES (%s,1,1,1,1,1)", rows);
    MUST(text && sqlite3_open(path, &file) == SQLITE_OK);
    MUST(sqlite3_limit(file, SQLITE_LIMIT_LENGTH, 1 << 16) > 0);
    (void)sqlite3_exec(file, "PRAGMA synchronous = OFF", NULL, NULL, NULL);
    (void)sqlite3_exec(file, schema, NULL, NULL, NULL);
    (void)sqlite3_exec(file, text, NULL, NULL, NULL);
    (void)sqlite3_close(file);
    sqlite3_free(text);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct fy_history *history;
    char path[600];
    bool is_rows = n > 0 && bytes[0] == '\'';
    (void)snprintf(path, sizeof path, "%s/h-journal", fuzz_folder());
    (void)unlink(path);
    (void)snprintf(path, sizeof path, "%s",
                   fuzz_file("h", bytes, is_rows ? 0 : n));
    if (is_rows) {
        char *rows = fuzz_text(bytes, n);
        put_rows(path, rows);
        free(rows);
    }
    MUST(fy_history_open(path, &history) == 0);
    judge(history, "k");
    judge(history, "");
    fy_history_add(history, "k", UINT64_MAX, 1, 1e300);
    judge(history, "k");
    fy_history_add(history, "k", 5, 5, -1);
    judge(history, "k");
    int status = fy_history_save(history);
    MUST(status == 0 || status == FY_ERR_IO);
    fy_history_free(history);
    MUST(fy_history_open(path, &history) == 0);
    judge(history, "k");
    fuzz_taken += status == 0;
    fy_history_free(history);
    return 0;
}

void
fuzz_make_seeds(void)
{
    struct fy_history *history;
    FUZZ_SEED("'k'");
    FUZZ_SEED("'k',1,-1,1e400,9e999,1),('a',x'ff',NULL,'text','1e5',0),('b'");
    char path[600];
    (void)snprintf(path, sizeof path, "%s", fuzz_file("h", "", 0));
    MUST(!fy_history_open(path, &history));
    fy_history_add(history, "k", 1000, 10, 0.5);
    fy_history_add(history, "grep -c", 1 << 20, 10, 0.25);
    MUST(fy_history_save(history) == 0);
    fy_history_free(history);
    FILE *file = fopen(path, "rb");
    static char bytes[1 << 15];
    MUST(file);
    fuzz_seed(bytes, fread(bytes, 1, sizeof bytes, file));
    (void)fclose(file);
}
