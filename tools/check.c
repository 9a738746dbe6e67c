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

/* "m, n split" and the like, for --dump. */
static void
dump_axes(const struct fy_model *model, const struct fy_function *function)
{
    const struct fy_axis *axes =
        FY_TABLE(model, fy_axis, axes) + function->axes;
    for (unsigned i = 0; i < function->naxes; i++) {
        printf("    axis %s%s%s%s\n", fy_model_string(model, axes[i].name),
               axes[i].flags & FY_AXIS_SPLIT ? " split" : "",
               axes[i].flags & FY_AXIS_SUMS ? " sums" : "",
               axes[i].flags & FY_AXIS_RETURN ? " into return" : "");
    }
}

static void
dump_operands(const struct fy_model *model, const struct fy_function *function)
{
    static const char *const access[] = {"?", "in", "out", "inout", "scratch"};
    const struct fy_axis *axes =
        FY_TABLE(model, fy_axis, axes) + function->axes;
    const struct fy_operand *operands =
        FY_TABLE(model, fy_operand, operands) + function->operands;
    for (unsigned i = 0; i < function->noperands; i++) {
        const struct fy_operand *o = &operands[i];
        printf("    %s %s[", access[o->access <= 4 ? o->access : 0],
               fy_model_string(model, o->name));
        for (unsigned k = 0; k < o->naxes; k++)
            printf("%s%s", k ? ", " : "",
                   fy_model_string(model, axes[o->axes[k].axis].name));
        printf("]%s\n", o->sign ? " (bounded)" : "");
    }
}

static void
dump(const struct fy_model *model)
{
    const struct fy_function *functions =
        FY_TABLE(model, fy_function, functions);
    const struct fy_symbol *symbols = FY_TABLE(model, fy_symbol, symbols);
    for (uint32_t i = 0; i < model->functions.count; i++) {
        const struct fy_function *f = &functions[i];
        printf("%s (%s) %s:%u\n", fy_model_string(model, f->name),
               fy_model_string(model, f->family),
               fy_model_string(model, f->file), f->line);
        for (uint32_t k = 0; k < model->symbols.count; k++) {
            if (symbols[k].function != i)
                continue;
            printf("    symbol %s, integers %u bits\n",
                   fy_model_string(model, symbols[k].name),
                   symbols[k].integer_bits);
        }
        dump_axes(model, f);
        dump_operands(model, f);
    }
}

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
            fputs(help, stdout);
            return fy_finish_output(FY_EXIT_OK);
        }
        if (id != 'd')
            return fy_usage_error("check");
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
    if (status && !fy_diagnostics_errors(diagnostics))
        fy_say("cannot check: %s", fy_status_text(status));
    if (status == 0) {
        printf("%u functions, %u names: no errors", model->functions.count,
               model->symbols.count);
        unsigned warnings = fy_diagnostics_warnings(diagnostics);
        if (warnings)
            printf(", %u warning%s", warnings, warnings == 1 ? "" : "s");
        putchar('\n');
        if (want_dump)
            dump(model);
    }
    fy_diagnostics_free(diagnostics);
    free(model);
    return fy_finish_output(status ? FY_EXIT_FAILURE : FY_EXIT_OK);
}
