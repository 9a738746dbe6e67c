/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ferry doctor -- PROGRAM: calls of a program that ferry can reach. The program is
 * looked at, not run.
 */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/plain.h"
#include "shim/image/reach.h"
#include "tools/doctor.h"
#include "tools/launch.h"

struct tally {
    unsigned imports, beyond_reach;
};

static const char *
mark(enum fy_reach_kind kind, struct tally *tally)
{
    switch (kind) {
    case FY_REACH_STATIC:
    case FY_REACH_FOREIGN:
    case FY_REACH_SETUID:
        tally->beyond_reach++;
        return "NO";
    case FY_REACH_IMPORTS:
        tally->imports++;
        return "yes";
    case FY_REACH_SCRIPT:
        return "";
    }
    return "?";
}

static void
print_finding(void *closure, const struct fy_reach_finding *finding)
{
    char text[PATH_MAX + 512];
    struct fy_buffer to;
    fy_buffer_start(&to, text, sizeof text);
    fy_reach_describe(finding, &to);
    fy_plain(text, "");
    printf("  %-4s %s\n", mark(finding->kind, closure), text);
}

int
fy_doctor_program(const char *program)
{
    struct fy_places places;
    struct fy_run_options options;
    struct tally tally = {0, 0};
    char text[512];
    struct fy_buffer why;
    memset(&options, 0, sizeof options);
    fy_settings_init(&options.settings);
    fy_places_find(&places);
    struct fy_model *model =
        fy_launch_compile(&options, &places, text, sizeof text);
    if (!model) {
        fy_say("%s", text);
        return FY_EXIT_FAILURE;
    }
    fy_buffer_start(&why, text, sizeof text);
    printf("%s\n", program);
    int status = fy_reach_scan(program, model, print_finding, &tally, &why);
    free(model);
    if (status) {
        fy_say("%s: %s", program, text[0] ? text : fy_status_text(status));
        return FY_EXIT_FAILURE;
    }
    if (tally.beyond_reach) {
        printf("What is marked NO stays with the program: its originals run as "
               "always.\n");
    } else if (!tally.imports) {
        printf("No annotated name is called directly; what its libraries "
               "call is seen when it runs.\n");
    }
    return FY_EXIT_OK;
}
