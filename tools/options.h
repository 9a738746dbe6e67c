/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of `ferry run', also used by verify and explain.
 */
#ifndef FERRY_TOOLS_OPTIONS_H
#define FERRY_TOOLS_OPTIONS_H

#include <stdbool.h>

#include "common/settings.h"

enum {
    FY_MAX_ANNOTATION_PATHS = 256
};

struct fy_run_options {
    struct fy_settings settings;
    const char *annotations[FY_MAX_ANNOTATION_PATHS]; /* borrowed */
    unsigned nannotations;
    bool report;             /* a table on stderr, or JSON in report_path */
    const char *report_path; /* NULL: stderr; borrowed */
    bool explain;
    char *const *command; /* NULL-terminated; NULL: none was given; borrowed */
};

/*
 * `name': the subcommand, for messages; a command must be there for all but
 * "shell". Defaults, ferry.conf, then the command line. 0, or an exit status to end
 * with (--help was printed, or the line was wrong and that was said): then
 * *out_status has it and the result is FY_ERR_INVALID.
 */
int fy_run_options_parse(const char *name, int argc, char **argv,
                         struct fy_run_options *out,
                         int *out_status) FY_MUST_CHECK;

/*
 * The mask of "client,pager" into *out_mask; FY_ERR_INVALID: a room is unknown, which was
 * said with the name of the option.
 */
int fy_debug_option(const char *option, const char *rooms,
                    uint64_t *out_mask) FY_MUST_CHECK;

#endif
