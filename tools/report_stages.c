/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of a report that is about commands: stages, and links to proxies.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "common/plain.h"
#include "tools/json.h"
#include "tools/report.h"

enum {
    LINES_MAX = 1000,
    SHOWN_BYTES = 72
};

/* At most `most' bytes of text that may come from anywhere; how many. */
static size_t
print_some(const char *text, size_t most, FILE *to)
{
    size_t used = 0;
    while (text[used]) {
        size_t n = fy_plain_bytes(text + used), step = n ? n : 1;
        if (used + step > most) {
            return most;
        }
        (void)fwrite(n ? text + used : "?", 1, step, to);
        used += step;
    }
    return used;
}

static void
print_text(const char *text, FILE *to)
{
    (void)print_some(text, SIZE_MAX, to);
}

/* argv as one line, cut off. */
static void
print_argv(const struct fy_stage_report *stage, FILE *to)
{
    size_t left = SHOWN_BYTES;
    for (uint32_t i = 0; i < stage->argc && left; i++) {
        if (i) {
            (void)putc(' ', to);
            left--;
        }
        left -= print_some(stage->argv[i], left, to);
    }
    if (!left) {
        (void)fputs("...", to);
    }
}

static void
print_stage(const struct fy_stage_report *stage, FILE *to)
{
    (void)fprintf(to, "ferry: [%d] ", (int)stage->pid);
    print_argv(stage, to);
    if (stage->placed) {
        (void)fputs(": at ", to);
        print_text(stage->placed, to);
        if (stage->linked_to) {
            (void)fprintf(to, ", into [%d] there", (int)stage->linked_to);
        }
        (void)fprintf(to, "; %llu bytes came, %llu went; exit %d; %.3f s",
                      (unsigned long long)stage->bytes_from_link,
                      (unsigned long long)stage->bytes_to_link,
                      (int)stage->exit, stage->seconds);
    } else {
        (void)fprintf(to, ": here: %s", fy_stage_reason_word(stage->declined));
    }
    if (stage->why && stage->why[0]) {
        (void)fputs(" (", to);
        print_text(stage->why, to);
        (void)putc(')', to);
    }
    if (stage->predicted_seconds > 0) {
        (void)fprintf(to, "; predicted %.3f s there, %.3f s here",
                      stage->predicted_seconds, stage->predicted_local_seconds);
    }
    (void)putc('\n', to);
}

void
fy_report_print_stages(const struct fy_report *report, FILE *to)
{
    for (size_t i = 0; i < report->nstages && i < LINES_MAX; i++) {
        print_stage(&report->stages[i], to);
    }
    if (report->nstages > LINES_MAX) {
        (void)fprintf(to, "ferry: %zu more stages are not shown\n",
                      report->nstages - LINES_MAX);
    }
}

void
fy_report_print_pipelines(const struct fy_report *report, FILE *to)
{
    size_t placed = 0, declined[FY_STAGE_REASON_COUNT] = {0};
    if (!report->links) {
        return;
    }
    for (size_t i = 0; i < report->nstages; i++) {
        const struct fy_stage_report *stage = &report->stages[i];
        placed += stage->placed != NULL;
        if (!stage->placed && stage->declined < FY_STAGE_REASON_COUNT) {
            declined[stage->declined]++;
        }
    }
    (void)fprintf(to, "ferry: %zu annotated commands, %zu of them at a proxy\n",
                  report->nstages, placed);
    const char *separator = "    here: ";
    for (unsigned i = 0; i < FY_STAGE_REASON_COUNT; i++) {
        if (declined[i]) {
            (void)fprintf(to, "%s%s %zu", separator, fy_stage_reason_word(i),
                          declined[i]);
            separator = ", ";
        }
    }
    if (separator[0] == ',') {
        (void)putc('\n', to);
    }
    for (size_t i = 0; i < report->nlinks; i++) {
        const struct fy_link_report *link = &report->links[i];
        (void)fputs("    ", to);
        print_text(link->place, to);
        (void)fputs(": ", to);
        if (link->trouble && link->trouble[0]) {
            print_text(link->trouble, to);
            (void)putc('\n', to);
            continue;
        }
        (void)fprintf(to,
                      "%llu bytes came, %llu went; round trip %.2f ms; "
                      "connected %.3f s\n",
                      (unsigned long long)link->received_bytes,
                      (unsigned long long)link->sent_bytes,
                      1e3 * link->rtt_seconds, link->seconds);
        if (link->open && link->open[0]) {
            (void)fputs("        commands there are not kept from: ", to);
            print_text(link->open, to);
            (void)putc('\n', to);
        }
    }
}

/* ---- JSON ---- */

static void
write_word(const char *text, FILE *to)
{
    if (text) {
        fy_json_write_string(text, to);
    } else {
        (void)fputs("null", to);
    }
}

static void
write_stage(const struct fy_stage_report *stage, FILE *to)
{
    (void)fputs("    {\"argv\": [", to);
    for (uint32_t i = 0; i < stage->argc; i++) {
        (void)fputs(i ? ", " : "", to);
        fy_json_write_string(stage->argv[i], to);
    }
    (void)fprintf(to, "], \"pid\": %d, \"placed\": ", (int)stage->pid);
    write_word(stage->placed, to);
    (void)fputs(", \"declined\": ", to);
    write_word(stage->placed ? NULL : fy_stage_reason_word(stage->declined),
               to);
    (void)fputs(", \"why\": ", to);
    fy_json_write_string(stage->why ? stage->why : "", to);
    if (stage->linked_to) {
        (void)fprintf(to, ", \"linked_to\": %d", (int)stage->linked_to);
    } else {
        (void)fputs(", \"linked_to\": null", to);
    }
    (void)fprintf(to,
                  ", \"bytes_from_link\": %llu, \"bytes_to_link\": %llu, "
                  "\"seconds\": %.6f, \"predicted_seconds\": %.6f, "
                  "\"predicted_local_seconds\": %.6f, \"exit\": ",
                  (unsigned long long)stage->bytes_from_link,
                  (unsigned long long)stage->bytes_to_link, stage->seconds,
                  stage->predicted_seconds, stage->predicted_local_seconds);
    if (stage->exit >= 0) {
        (void)fprintf(to, "%d}", (int)stage->exit);
    } else {
        (void)fputs("null}", to);
    }
}

void
fy_report_write_pipelines(const struct fy_report *report, FILE *to)
{
    (void)fputs("  \"stages\": [", to);
    for (size_t i = 0; i < report->nstages; i++) {
        (void)fputs(i ? ",\n" : "\n", to);
        write_stage(&report->stages[i], to);
    }
    (void)fputs(
        report->nstages ? "\n  ],\n  \"links\": [" : "],\n  \"links\": [", to);
    for (size_t i = 0; i < report->nlinks; i++) {
        const struct fy_link_report *link = &report->links[i];
        (void)fputs(i ? ",\n    {\"place\": " : "\n    {\"place\": ", to);
        fy_json_write_string(link->place, to);
        (void)fprintf(to,
                      ", \"received_bytes\": %llu, \"sent_bytes\": %llu, "
                      "\"seconds\": %.6f, \"rtt_seconds\": %.9f, "
                      "\"trouble\": ",
                      (unsigned long long)link->received_bytes,
                      (unsigned long long)link->sent_bytes, link->seconds,
                      link->rtt_seconds);
        write_word(link->trouble && link->trouble[0] ? link->trouble : NULL,
                   to);
        (void)putc('}', to);
    }
    (void)fputs(report->nlinks ? "\n  ]" : "]", to);
}

static const char *
text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static int
read_stage(const json_t *object, struct fy_stage_report *out)
{
    const json_t *list = json_object_get(object, "argv");
    const json_t *word;
    size_t i;
    const char **argv = calloc(json_array_size(list) + 1, sizeof *argv);
    if (!argv) {
        return FY_ERR_NOMEM;
    }
    out->argv = argv;
    json_array_foreach(list, i, word)
    {
        const char *text = json_string_value(word);
        argv[out->argc++] = text ? text : "";
    }
    out->pid = (int32_t)fy_json_count(object, "pid");
    out->placed = text_of(object, "placed");
    const char *declined = text_of(object, "declined");
    out->declined = declined ? fy_stage_reason_find(declined) : 0;
    out->why = text_of(object, "why");
    out->linked_to = (int32_t)fy_json_count(object, "linked_to");
    out->bytes_from_link = fy_json_count(object, "bytes_from_link");
    out->bytes_to_link = fy_json_count(object, "bytes_to_link");
    out->seconds = fy_json_number(object, "seconds");
    out->predicted_seconds = fy_json_number(object, "predicted_seconds");
    out->predicted_local_seconds =
        fy_json_number(object, "predicted_local_seconds");
    out->exit = json_is_number(json_object_get(object, "exit"))
                    ? (int32_t)fy_json_count(object, "exit")
                    : -1;
    return 0;
}

static void
read_link(const json_t *object, struct fy_link_report *out)
{
    const char *place = text_of(object, "place");
    out->place = place ? place : "";
    out->received_bytes = fy_json_count(object, "received_bytes");
    out->sent_bytes = fy_json_count(object, "sent_bytes");
    out->seconds = fy_json_number(object, "seconds");
    out->rtt_seconds = fy_json_number(object, "rtt_seconds");
    out->trouble = text_of(object, "trouble");
}

int
fy_report_read_pipelines(const json_t *root, struct fy_report *out)
{
    const json_t *stages = json_object_get(root, "stages");
    const json_t *links = json_object_get(root, "links");
    size_t nstages = json_array_size(stages), nlinks = json_array_size(links);
    if (nstages + nlinks == 0) {
        return 0;
    }
    out->stages = calloc(nstages + 1, sizeof *out->stages);
    out->links = calloc(nlinks + 1, sizeof *out->links);
    if (!out->stages || !out->links) {
        return FY_ERR_NOMEM;
    }
    for (size_t i = 0; i < nstages; i++) {
        int status =
            read_stage(json_array_get(stages, i), &out->stages[out->nstages++]);
        if (status) {
            return status;
        }
    }
    for (size_t i = 0; i < nlinks; i++) {
        read_link(json_array_get(links, i), &out->links[out->nlinks++]);
    }
    return 0;
}

void
fy_report_clear(struct fy_report *report)
{
    /* The arrays of arguments are ours when they were read from JSON. */
    for (size_t i = 0; report->document && i < report->nstages; i++) {
        free((void *)report->stages[i].argv);
    }
    free(report->stages);
    free(report->links);
    free(report->rows);
    json_decref(report->document);
    report->stages = NULL;
    report->links = NULL;
    report->rows = NULL;
    report->document = NULL;
    report->nstages = report->nlinks = report->nrows = 0;
}
