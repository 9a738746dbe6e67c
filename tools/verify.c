/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ferry verify: runs a program whose annotated calls are tried out in the
 * engine, then prints the findings. The trying and the judging are the
 * engine's (pager/verify*); here is only the frame around them.
 */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "annotations/model/annotations.h"
#include "pager/verify/tally.h"
#include "tools/child.h"
#include "tools/launch.h"

static const char help[] =
    "Usage: ferry verify FILE... -- COMMAND [ARGUMENT]...\n"
    "Runs COMMAND and compares each call that the annotation FILEs describe "
    "with its\n"
    "original: accesses, and results within the stated bound. Exits with 3 "
    "when\n"
    "something was found.\n\n"
    "  --help\n";

/* Splits the line at "--"; false after a message. */
static bool
split(int argc, char **argv, unsigned *out_nfiles, char *const **out_command)
{
    int end = 1;
    while (end < argc && strcmp(argv[end], "--") != 0) {
        if (argv[end][0] == '-' && argv[end][1]) {
            fy_say("unknown option '%s'", argv[end]);
            return false;
        }
        end++;
    }
    if (end == 1 || end + 1 >= argc) {
        fy_say(end == 1 ? "an annotation file is missing"
                        : "'-- COMMAND' is missing");
        return false;
    }
    *out_nfiles = (unsigned)end - 1;
    *out_command = argv + end + 1;
    return true;
}

/* Only these files: a shipped one given here is not there twice. */
static struct fy_model *
compile(char **files, unsigned nfiles, const struct fy_places *places)
{
    struct fy_model *model = NULL;
    struct fy_diagnostics *diagnostics = fy_diagnostics_new();
    if (!diagnostics) {
        fy_say("out of memory");
        return NULL;
    }
    int status = fy_compile((const char *const *)files, nfiles, places->library,
                            diagnostics, &model);
    fy_diagnostics_print(diagnostics, stderr);
    if (status && !fy_diagnostics_errors(diagnostics)) {
        fy_say("cannot compile the annotations: %s", fy_status_text(status));
    }
    fy_diagnostics_free(diagnostics);
    return status ? NULL : model;
}

/* Everything the program needs; 0, or a status with state->trouble set. */
static int
prepare(struct fy_launch_state *state, struct fy_settings *settings)
{
    if (access(state->places.engine, R_OK) != 0) {
        fy_launch_trouble(state, "cannot read the engine %s: %s",
                          state->places.engine, strerror(errno));
        return FY_ERR_NOENT;
    }
    int status = fy_launch_scratch(state);
    if (status == 0) {
        status = fy_launch_preload(state);
    }
    if (status) {
        return status;
    }
    (void)snprintf(settings->engine, sizeof settings->engine, "%s",
                   state->places.engine);
    int n = snprintf(settings->verify, sizeof settings->verify, "%s/findings",
                     state->scratch);
    settings->mode = FY_MODE_FORCE;
    settings->force = true;
    strcpy(settings->device, "host");
    /* Threads of a BLAS would not survive the forks of an experiment. */
    if (n >= (int)sizeof settings->verify ||
        fy_launch_environment(state->preload, settings) ||
        setenv("OPENBLAS_NUM_THREADS", "1", 1) ||
        setenv("OMP_NUM_THREADS", "1", 1)) {
        fy_launch_trouble(state, "cannot set the environment");
        return FY_ERR_NOMEM;
    }
    return 0;
}

/* The exit status, after the findings are printed. */
static int
judge(const struct fy_launch_state *state, const struct fy_settings *settings,
      const struct fy_child *child, char *const *command)
{
    struct fy_verify_totals totals;
    int status =
        fy_verify_report(state->model, settings->verify, stderr, &totals);
    if (status) {
        fy_say("cannot read the findings: %s", fy_status_text(status));
        return FY_EXIT_FAILURE;
    }
    if (totals.functions == 0) {
        fy_say("no call of a function in these files was seen");
    }
    if (totals.findings) {
        return fy_finish_output(FY_EXIT_FINDINGS);
    }
    status = fy_finish_output(FY_EXIT_OK);
    if (WIFEXITED(child->wait_status) && WEXITSTATUS(child->wait_status) == 0) {
        return status;
    }
    fy_say("'%s' itself failed", command[0]);
    return fy_child_imitate(child, command);
}

int
fy_tool_verify(int argc, char **argv)
{
    struct fy_launch_state state;
    struct fy_settings settings;
    struct fy_child child = {0};
    unsigned nfiles;
    char *const *command;
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        (void)fputs(help, stdout);
        return fy_finish_output(FY_EXIT_OK);
    }
    if (!split(argc, argv, &nfiles, &command)) {
        return fy_usage_error("verify");
    }
    memset(&state, 0, sizeof state);
    fy_settings_init(&settings);
    fy_places_find(&state.places);
    state.model = compile(argv + 1, nfiles, &state.places);
    if (!state.model) {
        return FY_EXIT_FAILURE;
    }
    int result = FY_EXIT_FAILURE;
    if (prepare(&state, &settings)) {
        fy_say("cannot verify: %s", state.trouble);
    } else if (fy_child_run(command, NULL, &child)) {
        fy_say("cannot start a process: %s", strerror(errno));
    } else if (child.exec_errno) {
        result = fy_child_imitate(&child, command);
    } else {
        result = judge(&state, &settings, &child, command);
    }
    fy_launch_end(&state);
    return result;
}
