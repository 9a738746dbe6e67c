/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of what was learned, see the header. Rows fade by a fixed factor with
 * each run, so that a command whose data changed is soon known anew.
 */
#include "config.h"

#include "proxy/client/history.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

/* uthash without memory: the row is lost, the process goes on. */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

enum {
    MAX_KEYS = 4096,      /* read and kept; the latest used ones */
    MAX_KEY_BYTES = 1024, /* longer keys are not learned */
    BUSY_MS = 200,        /* another run's writing is waited for so long */
};

static const double fading = 0.8;

struct row {
    char *key;
    struct fy_learned learned;
    bool changed;
    UT_hash_handle hh;
};

struct fy_history {
    char *path; /* NULL: memory only */
    bool read;  /* what is in the file is in `rows' */
    struct row *rows;
};

static struct row *
find_row(const struct fy_history *history, const char *key)
{
    struct row *row;
    HASH_FIND_STR(history->rows, key, row);
    return row;
}

static void
free_row(struct row *row)
{
    free(row->key);
    free(row);
}

static struct row *
add_row(struct fy_history *history, const char *key)
{
    if (strlen(key) > MAX_KEY_BYTES ||
        HASH_COUNT(history->rows) >= 2 * MAX_KEYS) {
        return NULL;
    }
    struct row *row = calloc(1, sizeof *row);
    if (!row || !(row->key = strdup(key))) {
        free(row);
        return NULL;
    }
    HASH_ADD_KEYPTR(hh, history->rows, row->key, strlen(row->key), row);
    if (!row->hh.tbl) {
        free_row(row);
        return NULL;
    }
    return row;
}

/* Opened as a file; NULL when it cannot be. What is done with it may still fail. */
static sqlite3 *
open_file(const char *path, int more_flags)
{
    sqlite3 *file = NULL;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | more_flags;
    if (sqlite3_open_v2(path, &file, flags, NULL) != SQLITE_OK ||
        sqlite3_busy_timeout(file, BUSY_MS) != SQLITE_OK) {
        sqlite3_close(file);
        return NULL;
    }
    return file;
}

/* A number from a file that may hold anything. */
static double
positive(sqlite3_stmt *statement, int column)
{
    double value = sqlite3_column_double(statement, column);
    return value > 0 && value < 1e18 ? value : 0;
}

static void
read_rows(struct fy_history *history, sqlite3 *file)
{
    sqlite3_stmt *statement;
    if (sqlite3_prepare_v2(file,
                           "SELECT key, runs, in_bytes, out_bytes, seconds "
                           "FROM learned2 ORDER BY used DESC LIMIT 4096",
                           -1, &statement, NULL) != SQLITE_OK) {
        return;
    }
    while (sqlite3_step(statement) == SQLITE_ROW) {
        const char *key = (const char *)sqlite3_column_text(statement, 0);
        struct row *row =
            key && !find_row(history, key) ? add_row(history, key) : NULL;
        if (row) {
            row->learned = (struct fy_learned){
                .runs = positive(statement, 1),
                .in_bytes = positive(statement, 2),
                .out_bytes = positive(statement, 3),
                .busy_seconds = positive(statement, 4),
            };
        }
    }
    sqlite3_finalize(statement);
}

int
fy_history_open(const char *path, struct fy_history **out)
{
    struct fy_history *history = calloc(1, sizeof *history);
    if (!history || (path && !(history->path = strdup(path)))) {
        free(history);
        return FY_ERR_NOMEM;
    }
    *out = history;
    return 0;
}

static void
read_once(struct fy_history *history)
{
    if (history->read) {
        return;
    }
    history->read = true;
    sqlite3 *file = history->path ? open_file(history->path, 0) : NULL;
    if (file) {
        read_rows(history, file);
        sqlite3_close(file);
    }
}

bool
fy_history_find(struct fy_history *history, const char *key,
                struct fy_learned *out)
{
    read_once(history);
    const struct row *row = find_row(history, key);
    if (!row || !(row->learned.runs > 0)) {
        memset(out, 0, sizeof *out);
        return false;
    }
    *out = row->learned;
    return true;
}

void
fy_history_add(struct fy_history *history, const char *key, uint64_t in_bytes,
               uint64_t out_bytes, double busy_seconds)
{
    read_once(history);
    struct row *row = find_row(history, key);
    if (!row) {
        row = add_row(history, key);
    }
    if (!row) {
        return;
    }
    struct fy_learned *learned = &row->learned;
    double before = fading * learned->runs, runs = before + 1;
    learned->in_bytes = (before * learned->in_bytes + (double)in_bytes) / runs;
    learned->out_bytes =
        (before * learned->out_bytes + (double)out_bytes) / runs;
    learned->busy_seconds = (before * learned->busy_seconds +
                             (busy_seconds > 0 ? busy_seconds : 0)) /
                            runs;
    learned->runs = runs;
    row->changed = true;
}

static bool
write_row(sqlite3_stmt *statement, const struct row *row)
{
    const struct fy_learned *learned = &row->learned;
    sqlite3_reset(statement);
    return sqlite3_bind_text(statement, 1, row->key, -1, SQLITE_STATIC) ==
               SQLITE_OK &&
           sqlite3_bind_double(statement, 2, learned->runs) == SQLITE_OK &&
           sqlite3_bind_double(statement, 3, learned->in_bytes) == SQLITE_OK &&
           sqlite3_bind_double(statement, 4, learned->out_bytes) == SQLITE_OK &&
           sqlite3_bind_double(statement, 5, learned->busy_seconds) ==
               SQLITE_OK &&
           sqlite3_step(statement) == SQLITE_DONE;
}

static bool
write_rows(struct fy_history *history, sqlite3 *file)
{
    sqlite3_stmt *statement;
    if (sqlite3_prepare_v2(file,
                           "INSERT OR REPLACE INTO learned2 VALUES "
                           "(?1, ?2, ?3, ?4, ?5, strftime('%s', 'now'))",
                           -1, &statement, NULL) != SQLITE_OK) {
        return false;
    }
    bool good = true;
    struct row *row, *next;
    HASH_ITER (hh, history->rows, row, next) {
        if (row->changed && good) {
            good = write_row(statement, row);
        }
    }
    sqlite3_finalize(statement);
    return good;
}

int
fy_history_save(struct fy_history *history)
{
    bool changed = false;
    struct row *row, *next;
    HASH_ITER (hh, history->rows, row, next) {
        changed = changed || row->changed;
    }
    if (!changed || !history->path) {
        return 0;
    }
    sqlite3 *file = open_file(history->path, SQLITE_OPEN_CREATE);
    if (!file) {
        return FY_ERR_IO;
    }
    static const char begin[] =
        "PRAGMA synchronous = OFF;" /* the file may be lost at any time */
        "BEGIN IMMEDIATE;"
        /* The older table did not count input from files. */
        "DROP TABLE IF EXISTS learned1;"
        "CREATE TABLE IF NOT EXISTS learned2 (key TEXT PRIMARY KEY,"
        " runs REAL, in_bytes REAL, out_bytes REAL, seconds REAL,"
        " used INTEGER) WITHOUT ROWID";
    bool good = sqlite3_exec(file, begin, NULL, NULL, NULL) == SQLITE_OK;
    good = good && write_rows(history, file);
    /* Others may have added rows: the next run sees these. */
    if (good && HASH_COUNT(history->rows) >= MAX_KEYS) {
        good = sqlite3_exec(file,
                            "DELETE FROM learned2 WHERE key NOT IN (SELECT key "
                            "FROM learned2 ORDER BY used DESC LIMIT 4096)",
                            NULL, NULL, NULL) == SQLITE_OK;
    }
    good = good && sqlite3_exec(file, "COMMIT", NULL, NULL, NULL) == SQLITE_OK;
    sqlite3_close(file); /* an open transaction is rolled back */
    HASH_ITER (hh, history->rows, row, next) {
        row->changed = row->changed && !good;
    }
    return good ? 0 : FY_ERR_IO;
}

void
fy_history_free(struct fy_history *history)
{
    if (!history) {
        return;
    }
    struct row *row, *next;
    HASH_ITER (hh, history->rows, row, next) {
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): uthash has it no more */
        HASH_DEL(history->rows, row);
        free_row(row);
    }
    free(history->path);
    free(history);
}
