/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ferry report: a JSON report as the table that ferry run --report prints, or the
 * counters of a mount of ferry.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "common/whole.h"
#include "tools/mount/mount.h"
#include "tools/report.h"
#include "tools/tool.h"

int
fy_tool_report(int argc, char **argv)
{
    enum {
        LIMIT_BYTES = 64 << 20
    };
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        printf("Usage: ferry report FILE.json|FOLDER\n"
               "Prints a report that 'ferry run --report=FILE.json' wrote, or "
               "what the mount of\nferry on FOLDER has done so far.\n");
        return fy_finish_output(FY_EXIT_OK);
    }
    if (argc != 2 || (argv[1][0] == '-' && argv[1][1])) {
        fy_say(argc < 2 ? "a report file is missing"
                        : "expected one report file");
        return fy_usage_error("report");
    }
    int mounted;
    if (fy_mount_report(argv[1], &mounted)) {
        return mounted;
    }
    size_t bytes;
    char why[160];
    struct fy_report report;
    char *text = fy_read_file(argv[1], LIMIT_BYTES, &bytes);
    if (!text) {
        fy_say("cannot read %s: %m", argv[1]);
        return FY_EXIT_FAILURE;
    }
    int status = fy_report_read_json(text, bytes, &report, why, sizeof why);
    free(text);
    if (status) {
        fy_say("%s is not a report: %s", argv[1],
               status == FY_ERR_INVALID ? why : fy_status_text(status));
        return FY_EXIT_FAILURE;
    }
    fy_report_print(&report, stdout);
    fy_report_clear(&report);
    return fy_finish_output(FY_EXIT_OK);
}
