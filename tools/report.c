/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports: counters to rows, rows to a table for people or JSON for programs,
 * and JSON back to rows for `ferry report'.
 */
#include "config.h"

#include "tools/report.h"

#include "common/plain.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/status.h"
#include "tools/json.h"

enum {
    CROWD_BYTES = 64,
    CROWD_LEAST = 1 << 16,
    MEMBERS_MAX = 1 << 19, /* 70 MiB of jansson's memory */
};

/* ---- from counters ---- */

static void
add_row(struct fy_report_row *to, const struct fy_record_row *from)
{
    to->calls += from->calls;
    to->offloaded += from->offloaded;
    for (unsigned i = 0; i < FY_REASON_COUNT; i++) {
        to->declined[i] += from->declined[i];
    }
    to->bytes_in += from->bytes_in;
    to->bytes_out += from->bytes_out;
    to->kept_bytes += from->kept_bytes;
    for (unsigned i = 0; i < FY_ABSENCE_COUNT; i++) {
        to->absent[i] += from->absent[i];
    }
    to->chunks += from->chunks;
    to->lower_bound_bytes += from->lower_bound_bytes;
    to->original_seconds += 1e-9 * (double)from->original_ns;
    to->device_seconds += 1e-9 * (double)from->device_ns;
    to->trials += from->trials;
    to->trial_seconds += 1e-9 * (double)from->trial_ns;
}

static struct fy_report_row *
find_or_add(struct fy_report *report, const char *name)
{
    for (size_t i = 0; i < report->nrows; i++) {
        if (strcmp(report->rows[i].name, name) == 0) {
            return &report->rows[i];
        }
    }
    struct fy_report_row *row = &report->rows[report->nrows++];
    memset(row, 0, sizeof *row);
    (void)snprintf(row->name, sizeof row->name, "%s", name);
    return row;
}

int
fy_report_take(const struct fy_model *model, const struct fy_record *record,
               struct fy_report *out)
{
    const struct fy_function *functions =
        FY_TABLE(model, fy_function, functions);
    out->nrows = 0;
    out->rows = calloc(record->nrows + (size_t)1, sizeof *out->rows);
    if (!out->rows) {
        return FY_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < record->nrows && i < model->functions.count; i++) {
        /* Trials are counted with the variant that was called. */
        if (record->rows[i].calls == 0 && record->rows[i].offloaded == 0 &&
            record->rows[i].trials == 0) {
            continue;
        }
        add_row(find_or_add(out, fy_model_string(model, functions[i].name)),
                &record->rows[i]);
    }
    return 0;
}

/* ---- to a table ---- */

/* "1.5 GiB" into `out'. */
static const char *
human_bytes(uint64_t bytes, char out[16])
{
    static const char *const units[] = {"B",   "KiB", "MiB", "GiB",
                                        "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    unsigned unit = 0;
    while (value >= 1023.95 && unit < 6) {
        value /= 1024;
        unit++;
    }
    (void)snprintf(out, 16, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
    return out;
}

/* Prints a line of those counts that are not 0, with the word of each. */
static void
print_counts(const char *title, const uint64_t *counts, unsigned n,
             const char *word(unsigned), FILE *to)
{
    const char *separator = title;
    for (unsigned i = 0; i < n; i++) {
        if (counts[i]) {
            (void)fprintf(to, "%s%s%s %llu", separator == title ? "    " : "",
                          separator, word(i), (unsigned long long)counts[i]);
            separator = ", ";
        }
    }
    if (separator != title) {
        (void)putc('\n', to);
    }
}

static void
print_row(const struct fy_report_row *row, FILE *to)
{
    char in[16], back[16], bound[16];
    human_bytes(row->bytes_in, in);
    human_bytes(row->bytes_out, back);
    if (row->lower_bound_bytes) {
        (void)snprintf(bound, sizeof bound, "%.2f",
                       ((double)row->bytes_in + (double)row->bytes_out) /
                           (double)row->lower_bound_bytes);
    } else {
        strcpy(bound, "-");
    }
    (void)fprintf(to, "%-18s %9llu %9llu %9llu %10s %10s %7s %10.3f %10.3f\n",
                  row->name, (unsigned long long)row->calls,
                  (unsigned long long)row->offloaded,
                  (unsigned long long)row->chunks, in, back, bound,
                  row->original_seconds, row->device_seconds);
    if (row->kept_bytes) {
        human_bytes(row->kept_bytes, in);
        (void)fprintf(to, "    on the device already: %s\n", in);
    }
    if (row->trials) {
        (void)fprintf(to,
                      "    tried where it seemed slower: %llu calls, which "
                      "lost %.3f s\n",
                      (unsigned long long)row->trials, row->trial_seconds);
    }
    print_counts("operands that did not stay: ", row->absent, FY_ABSENCE_COUNT,
                 fy_absence_word, to);
    print_counts("declined: ", row->declined, FY_REASON_COUNT, fy_reason_word,
                 to);
}

void
fy_report_print(const struct fy_report *report, FILE *to)
{
    char memory[16];
    uint64_t calls = 0, offloaded = 0;
    for (size_t i = 0; i < report->nrows; i++) {
        calls += report->rows[i].calls;
        offloaded += report->rows[i].offloaded;
    }
    (void)fprintf(to, "ferry: %llu annotated calls, %llu offloaded; device %s",
                  (unsigned long long)calls, (unsigned long long)offloaded,
                  report->device);
    if (report->memory_bytes) {
        (void)fprintf(to, " with %s",
                      human_bytes(report->memory_bytes, memory));
    }
    (void)fprintf(to, "; %.3f s\n", report->seconds);
    if (report->trouble[0]) {
        (void)fprintf(to, "ferry: %s\n", report->trouble);
    }
    fy_report_print_pipelines(report, to);
    if (report->nrows == 0) {
        return;
    }
    (void)fprintf(to, "%-18s %9s %9s %9s %10s %10s %7s %10s %10s\n", "function",
                  "calls", "offloaded", "chunks", "bytes in", "bytes out",
                  "/ bound", "original s", "device s");
    for (size_t i = 0; i < report->nrows; i++) {
        print_row(&report->rows[i], to);
    }
}

/* ---- to JSON ---- */

/* Writes an object of those counts that are not 0. */
static void
write_counts(const char *name, const uint64_t *counts, unsigned n,
             const char *word(unsigned), FILE *to)
{
    const char *separator = "";
    (void)fprintf(to, ", \"%s\": {", name);
    for (unsigned i = 0; i < n; i++) {
        if (counts[i]) {
            (void)fprintf(to, "%s\"%s\": %llu", separator, word(i),
                          (unsigned long long)counts[i]);
            separator = ", ";
        }
    }
    (void)putc('}', to);
}

static void
write_row(const struct fy_report_row *row, FILE *to)
{
    (void)fputs("    {\"name\": ", to);
    fy_json_write_string(row->name, to);
    (void)fprintf(to, ", \"calls\": %llu, \"offloaded\": %llu",
                  (unsigned long long)row->calls,
                  (unsigned long long)row->offloaded);
    write_counts("declined", row->declined, FY_REASON_COUNT, fy_reason_word,
                 to);
    write_counts("not_kept", row->absent, FY_ABSENCE_COUNT, fy_absence_word,
                 to);
    (void)fprintf(
        to,
        ", \"bytes_in\": %llu, \"bytes_out\": %llu, \"kept_bytes\": %llu, "
        "\"chunks\": %llu, "
        "\"lower_bound_bytes\": %llu, \"original_seconds\": %.9f, "
        "\"device_seconds\": %.9f, \"trials\": %llu, "
        "\"trial_seconds\": %.9f}",
        (unsigned long long)row->bytes_in, (unsigned long long)row->bytes_out,
        (unsigned long long)row->kept_bytes, (unsigned long long)row->chunks,
        (unsigned long long)row->lower_bound_bytes, row->original_seconds,
        row->device_seconds, (unsigned long long)row->trials,
        row->trial_seconds);
}

void
fy_report_write_json(const struct fy_report *report, FILE *to)
{
    (void)fprintf(to, "{\n  \"ferry\": \"%s\",\n  \"command\": [",
                  PACKAGE_VERSION);
    for (size_t i = 0; report->command && report->command[i]; i++) {
        (void)fputs(i ? ", " : "", to);
        fy_json_write_string(report->command[i], to);
    }
    (void)fprintf(to,
                  "],\n  \"exit_status\": %d,\n  \"seconds\": %.6f,\n"
                  "  \"device\": ",
                  report->exit_status, report->seconds);
    fy_json_write_string(report->device, to);
    (void)fprintf(to, ",\n  \"memory_bytes\": %llu,\n",
                  (unsigned long long)report->memory_bytes);
    if (report->trouble[0]) {
        (void)fputs("  \"trouble\": ", to);
        fy_json_write_string(report->trouble, to);
        (void)fputs(",\n", to);
    }
    (void)fputs("  \"functions\": [", to);
    for (size_t i = 0; i < report->nrows; i++) {
        (void)fputs(i ? ",\n" : "\n", to);
        write_row(&report->rows[i], to);
    }
    (void)fputs(report->nrows ? "\n  ],\n" : "],\n", to);
    fy_report_write_pipelines(report, to);
    (void)fputs("\n}\n", to);
}

/* ---- from JSON ---- */

/* Copies a string member, control characters made harmless for a terminal. */
static void
copy_text(const json_t *object, const char *key, char *out, size_t capacity)
{
    const char *text = json_string_value(json_object_get(object, key));
    (void)snprintf(out, capacity, "%s", text ? text : "");
    fy_plain(out, "");
}

static void
read_row(const json_t *object, struct fy_report_row *row)
{
    memset(row, 0, sizeof *row);
    copy_text(object, "name", row->name, sizeof row->name);
    row->calls = fy_json_count(object, "calls");
    row->offloaded = fy_json_count(object, "offloaded");
    const json_t *declined = json_object_get(object, "declined");
    for (unsigned i = 0; i < FY_REASON_COUNT; i++) {
        row->declined[i] = fy_json_count(declined, fy_reason_word(i));
    }
    const json_t *absent = json_object_get(object, "not_kept");
    for (unsigned i = 0; i < FY_ABSENCE_COUNT; i++) {
        row->absent[i] = fy_json_count(absent, fy_absence_word(i));
    }
    row->bytes_in = fy_json_count(object, "bytes_in");
    row->bytes_out = fy_json_count(object, "bytes_out");
    row->kept_bytes = fy_json_count(object, "kept_bytes");
    row->chunks = fy_json_count(object, "chunks");
    row->lower_bound_bytes = fy_json_count(object, "lower_bound_bytes");
    row->original_seconds = fy_json_number(object, "original_seconds");
    row->device_seconds = fy_json_number(object, "device_seconds");
    row->trials = fy_json_count(object, "trials");
    row->trial_seconds = fy_json_number(object, "trial_seconds");
}

static int
read_root(const json_t *root, struct fy_report *out)
{
    const json_t *functions = json_object_get(root, "functions");
    const json_t *f;
    size_t i;
    if (!json_is_array(functions)) {
        return FY_ERR_INVALID;
    }
    out->rows = calloc(json_array_size(functions) + 1, sizeof *out->rows);
    if (!out->rows) {
        return FY_ERR_NOMEM;
    }
    json_array_foreach(functions, i, f)
    {
        if (!json_is_object(f)) {
            return FY_ERR_INVALID;
        }
        read_row(f, &out->rows[out->nrows++]);
    }
    copy_text(root, "device", out->device, sizeof out->device);
    copy_text(root, "trouble", out->trouble, sizeof out->trouble);
    out->memory_bytes = fy_json_count(root, "memory_bytes");
    out->seconds = fy_json_number(root, "seconds");
    uint64_t exit_status = fy_json_count(root, "exit_status");
    out->exit_status = exit_status < 255 ? (int)exit_status : 255;
    return fy_report_read_pipelines(root, out);
}

/*
 * Returns true if there are more objects and lists than a report has, of which
 * each one takes a hundred bytes of text, or more members: they take jansson's
 * memory.
 */
static bool
is_crowded(const char *text, size_t bytes)
{
    size_t left = CROWD_LEAST + bytes / CROWD_BYTES, members = MEMBERS_MAX;
    for (size_t i = 0; i < bytes && left && members; i++) {
        left -= text[i] == '{' || text[i] == '[';
        members -= text[i] == ',';
    }
    return left == 0 || members == 0;
}

int
fy_report_read_json(const char *text, size_t bytes, struct fy_report *out,
                    char *why, size_t why_bytes)
{
    json_error_t error;
    memset(out, 0, sizeof *out);
    if (is_crowded(text, bytes)) {
        (void)snprintf(why, why_bytes,
                       "it has too many objects, lists or members");
        return FY_ERR_INVALID;
    }
    out->document = json_loadb(text, bytes, FY_JSON_FLAGS, &error);
    if (!out->document) {
        if (json_error_code(&error) == json_error_out_of_memory) {
            return FY_ERR_NOMEM;
        }
        (void)snprintf(why, why_bytes, "line %d: %s", error.line, error.text);
        fy_plain(why, "");
        return FY_ERR_INVALID;
    }
    int status = read_root(out->document, out);
    if (status == FY_ERR_INVALID) {
        (void)snprintf(why, why_bytes, "it has no list of functions");
    }
    if (status) {
        fy_report_clear(out);
    }
    return status;
}
