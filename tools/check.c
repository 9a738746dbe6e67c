/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ferry check: compiles annotation files and prints what is wrong with them.
 */
#include "config.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "annotations/annotations.h"
#include "tools/tool.h"

static const char help[] =
    "Usage: ferry check [--dump] FILE...\n"
    "Checks annotation files (and every *.ferry in a folder). Exits with 1 "
    "when\n"
    "there are errors.\n\n"
    "  --dump   also print the checked functions, their axes and operands\n"
    "  --help\n";

int
fy_tool_check(int argc, char **argv)
{
    static const struct option long_options[] = {
        {"dump", no_argument, NULL, 'd'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    bool want_dump = false;
    int id;
    optind = 0;
    while ((id = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        if (id == 'h') {
            (void)fputs(help, stdout);
            return fy_finish_output(FY_EXIT_OK);
        }
        if (id != 'd') {
            return fy_usage_error("check");
        }
        want_dump = true;
    }
    if (optind >= argc) {
        fy_say("a file is missing");
        return fy_usage_error("check");
    }
    for (int i = optind; i < argc; i++) {
        if (access(argv[i], R_OK) != 0) {
            fy_say("cannot read %s: %s", argv[i], strerror(errno));
            return FY_EXIT_FAILURE;
        }
    }
    struct fy_places places;
    struct fy_model *model = NULL;
    struct fy_diagnostics *diagnostics = fy_diagnostics_new();
    if (!diagnostics) {
        fy_say("out of memory");
        return FY_EXIT_FAILURE;
    }
    fy_places_find(&places);
    int status = fy_compile((const char *const *)argv + optind,
                            (unsigned)(argc - optind), places.library,
                            diagnostics, &model);
    fy_diagnostics_print(diagnostics, stderr);
    if (status && !fy_diagnostics_errors(diagnostics)) {
        fy_say("cannot check: %s", fy_status_text(status));
    }
    if (status == 0) {
        printf("%u functions, %u names: no errors", model->functions.count,
               model->symbols.count);
        unsigned warnings = fy_diagnostics_warnings(diagnostics);
        if (warnings) {
            printf(", %u warning%s", warnings, warnings == 1 ? "" : "s");
        }
        putchar('\n');
        if (want_dump) {
            fy_model_dump(model, stdout);
        }
    }
    fy_diagnostics_free(diagnostics);
    free(model);
    return fy_finish_output(status ? FY_EXIT_FAILURE : FY_EXIT_OK);
}
