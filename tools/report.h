/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report of a run, function by function: from the shared counters or from a
 * JSON report, and out as a table or as JSON.
 */
#ifndef FERRY_TOOLS_REPORT_H
#define FERRY_TOOLS_REPORT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "annotations/model/model.h"
#include "common/record.h"
#include "common/status.h"
#include "proxy/client/client.h"

struct fy_report_row {
    char name[128]; /* the annotation's name, as "dgemm" or "cblas_dgemm" */
    uint64_t calls, offloaded;
    uint64_t declined[FY_REASON_COUNT]; /* by enum fy_reason */
    uint64_t bytes_in, bytes_out, kept_bytes, chunks, lower_bound_bytes;
    uint64_t absent[FY_ABSENCE_COUNT]; /* operands, by enum fy_absence */
    double original_seconds, device_seconds;
    uint64_t trials;      /* on the side that seemed slower */
    double trial_seconds; /* lost by them */
};

struct json_t;

struct fy_report {
    char device[128];           /* "host", "none", ... */
    char trouble[512];          /* why the run went without ferry, or "" */
    uint64_t memory_bytes;      /* its limit; 0: the device's own */
    double seconds;             /* of the whole command */
    int exit_status;            /* as a shell has it: 128 + signal */
    char *const *command;       /* NULL-terminated, borrowed; NULL: not known */
    struct fy_report_row *rows; /* functions that were called */
    size_t nrows;
    struct fy_stage_report *stages; /* array owned, strings borrowed, or of */
    size_t nstages;
    struct fy_link_report *links;
    size_t nlinks;
    struct json_t *document; /* ... this; owned, NULL without */
};

/*
 * Rows of the functions that were called, in the model's order; variants of
 * one name add up. `rows' and `nrows' are set; free rows with free().
 */
int fy_report_take(const struct fy_model *model, const struct fy_record *record,
                   struct fy_report *out) FY_MUST_CHECK;

void fy_report_print(const struct fy_report *report, FILE *to);
/* One line a stage: its words, its place and the reason. At most 1000. */
void fy_report_print_stages(const struct fy_report *report, FILE *to);

/* Parts of the others, about commands. */
void fy_report_print_pipelines(const struct fy_report *report, FILE *to);
void fy_report_write_pipelines(const struct fy_report *report, FILE *to);
int fy_report_read_pipelines(const struct json_t *root,
                             struct fy_report *out) FY_MUST_CHECK;

/* Frees everything that the report owns. */
void fy_report_clear(struct fy_report *report);

/* The caller checks ferror(to). */
void fy_report_write_json(const struct fy_report *report, FILE *to);

/*
 * Reads the text of fy_report_write_json(), which is not trusted.
 * FY_ERR_INVALID with a clause in `why' (of `why_bytes'), or FY_ERR_NOMEM.
 */
int fy_report_read_json(const char *text, size_t bytes, struct fy_report *out,
                        char *why, size_t why_bytes) FY_MUST_CHECK;

#endif
