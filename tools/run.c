/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ferry run: gets everything ready, starts the command and reports
 * afterwards. Without a report the command replaces this process.
 */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/debug.h"
#include "common/lines.h"
#include "common/plain.h"
#include "common/whole.h"
#include "shim/image/reach.h"
#include "tools/child.h"
#include "tools/launch.h"
#include "tools/mount/status.h"
#include "tools/report.h"

enum {
    MEMORY_MIN_BYTES = 4096,  /* below, not even one element of each operand */
    EXPLAIN_LINES_MAX = 1000, /* printed; the counters have the rest */
    EXPLAIN_LIMIT_BYTES = 256 << 20,
};

/* A path in the scratch folder, as a setting. */
static bool
scratch_file(const struct fy_launch_state *state, const char *name,
             char out[FY_SETTINGS_PATH_BYTES])
{
    int n =
        snprintf(out, FY_SETTINGS_PATH_BYTES, "%s/%s", state->scratch, name);
    return n > 0 && n < FY_SETTINGS_PATH_BYTES;
}

/* Returns true if something is printed or written after the command's end. */
static bool
is_told(const struct fy_run_options *options)
{
    return options->report || options->explain ||
           options->settings.check_rate > 0;
}

/* The half of library calls: model, counters, the object to preload. */
static int
prepare_calls(struct fy_run_options *options, struct fy_launch_state *state)
{
    struct fy_settings *settings = &options->settings;
    bool count = is_told(options);
    if (strcmp(settings->device, "none") != 0 && settings->memory_bytes &&
        settings->memory_bytes < MEMORY_MIN_BYTES) {
        fy_launch_trouble(
            state,
            "%llu bytes of device memory are too few for any chunk (at "
            "least %d)",
            (unsigned long long)settings->memory_bytes, MEMORY_MIN_BYTES);
        return FY_ERR_NOFIT;
    }
    if (access(state->places.engine, R_OK) != 0) {
        fy_launch_trouble(state, "cannot read the engine %s: %s",
                          state->places.engine, strerror(errno));
        return FY_ERR_NOENT;
    }
    state->model = fy_launch_compile(options, &state->places, state->trouble,
                                     sizeof state->trouble);
    if (!state->model) {
        return FY_ERR_INVALID;
    }
    if (count) {
        int status = fy_launch_record(state, settings);
        if (status) {
            return status;
        }
        if (options->explain &&
            !scratch_file(state, "explain", settings->explain)) {
            return FY_ERR_OVERFLOW;
        }
        if (settings->check_rate > 0 &&
            !scratch_file(state, "checked", settings->checked)) {
            return FY_ERR_OVERFLOW;
        }
    }
    int status = fy_launch_preload(state);
    if (status) {
        return status;
    }
    (void)snprintf(settings->engine, sizeof settings->engine, "%s",
                   state->places.engine);
    fy_kernels_path(settings);
    fy_calibration_path(settings);
    if (access(settings->calibration, R_OK) != 0) {
        settings->calibration[0] = '\0';
    }
    fy_rates_path(settings);
    bool force = settings->force && strcmp(settings->device, "none") != 0;
    settings->mode = force ? (count ? FY_MODE_FORCE_COUNT : FY_MODE_FORCE)
                           : (count ? FY_MODE_ASK_COUNT : FY_MODE_ASK);
    return 0;
}

/*
 * The half of commands: a session that proxies are reached through, which takes
 * longer than all else here, so it begins first. A failure is said at once,
 * and the commands run here. `calls': the half of calls is prepared, too, and
 * reports common needs.
 */
static bool
start_commands(const struct fy_run_options *options,
               struct fy_launch_state *state, bool calls)
{
    char cause[sizeof state->trouble];
    if (access(state->places.shim, R_OK) != 0) {
        if (!calls) {
            fy_say("cannot read %s: %s; all commands run here",
                   state->places.shim, strerror(errno));
        }
        return false;
    }
    if (fy_launch_scratch(state)) {
        fy_say("%s; all commands run here", state->trouble);
        state->trouble[0] = '\0';
        return false;
    }
    if (fy_pipeline_start(&state->pipeline, &state->places, state->scratch,
                          options, cause, sizeof cause)) {
        fy_say("%s; all commands run here", cause);
        return false;
    }
    return true;
}

/* Its other half: the facts that programs need. */
static void
publish_commands(struct fy_run_options *options, struct fy_launch_state *state)
{
    char cause[sizeof state->trouble];
    if (state->trouble[0]) {
        fy_pipeline_drop(&state->pipeline); /* said: running without ferry */
        return;
    }
    if (fy_pipeline_publish(&state->pipeline, &state->places, options, cause,
                            sizeof cause)) {
        fy_say("%s; all commands run here", cause);
        return;
    }
    if (!state->preload[0]) {
        strcpy(state->preload, state->places.shim);
    }
}

/*
 * Sets the environment for the prepared halves: nothing for a setuid program, for
 * which the dynamic linker would ignore it, and where another dynamic linker than
 * glibc's loads the program, which would not start with libferry.so.
 */
static void
publish(struct fy_run_options *options, struct fy_launch_state *state)
{
    if (state->preload[0] && (fy_launch_gains_rights(options->command[0]) ||
                              fy_reach_is_foreign(options->command[0]))) {
        state->preload[0] = '\0';
    }
    if (fy_launch_environment(state->preload, &options->settings)) {
        fy_say("cannot set the environment; running without ferry");
        (void)unsetenv("LD_PRELOAD");
        (void)unsetenv(FY_SETTINGS_ENV);
    }
}

/* Lines that the engine wrote down, bounded. */
static void
print_lines(const char *path, size_t max, const char *what)
{
    size_t bytes;
    struct stat about;
    if (path[0] && stat(path, &about) == 0 &&
        about.st_size > EXPLAIN_LIMIT_BYTES) {
        fy_say("the %s are not shown: %lld MiB are more than %d", what,
               (long long)about.st_size >> 20, EXPLAIN_LIMIT_BYTES >> 20);
        return;
    }
    char *text =
        path[0] ? fy_read_file(path, EXPLAIN_LIMIT_BYTES, &bytes) : NULL;
    if (!text) {
        return; /* no call reached the engine: the counters say why */
    }
    fy_plain(text, "\n");
    size_t lines = 0;
    char *end = text;
    while (*end && lines < max) {
        lines++;
        end += strcspn(end, "\n");
        end += *end == '\n';
    }
    (void)fwrite(text, 1, (size_t)(end - text), stderr);
    for (lines = 0; *end; end++) {
        lines += *end == '\n';
    }
    if (lines) {
        fy_say("%zu more %s are not shown", lines, what);
    }
    free(text);
}

/* JSON into the file of --report=FILE; one line when that fails. */
static void
write_report(const struct fy_report *report, const char *path)
{
    FILE *file = fopen(path, "we");
    if (!file) {
        fy_say("cannot write the report %s: %s", path, strerror(errno));
        return;
    }
    errno = 0;
    fy_report_write_json(report, file);
    bool failed = ferror(file) != 0;
    if (fclose(file) != 0 || failed) {
        fy_say("cannot write the report %s: %s", path,
               strerror(errno ? errno : EIO));
    }
}

/* Prints the findings of --verify. */
static void
print_checked(const struct fy_run_options *options,
              const struct fy_report *report)
{
    unsigned long long verified = 0, different = 0, unverified = 0;
    for (size_t i = 0; i < report->nrows; i++) {
        verified += report->rows[i].declined[FY_REASON_VERIFIED];
        different += report->rows[i].declined[FY_REASON_DIFFERENT];
        unverified += report->rows[i].declined[FY_REASON_UNVERIFIED];
    }
    print_lines(options->settings.checked, EXPLAIN_LINES_MAX,
                "differing results");
    fy_say("%llu calls verified, %llu different, %llu unverified", verified,
           different, unverified);
}

static void
tell(const struct fy_run_options *options, struct fy_launch_state *state,
     int wait_status, double seconds)
{
    struct fy_report report = {
        .memory_bytes = options->settings.memory_bytes,
        .seconds = seconds,
        .command = options->command,
        .exit_status = WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status)
                                                : WEXITSTATUS(wait_status),
    };
    (void)snprintf(report.device, sizeof report.device, "%s",
                   state->trouble[0] ? "none" : options->settings.device);
    (void)snprintf(report.trouble, sizeof report.trouble, "%s", state->trouble);
    if ((state->record && state->model &&
         fy_report_take(state->model, state->record, &report)) ||
        fy_pipeline_report(&state->pipeline, &report)) {
        fy_say("no memory for the report");
        fy_report_clear(&report);
        return;
    }
    if (options->explain) {
        print_lines(options->settings.explain, EXPLAIN_LINES_MAX, "decisions");
        fy_report_print_stages(&report, stderr);
        if (!state->pipeline.session && report.nrows == 0) {
            fy_say("no remote mount was found or given (--mount): commands "
                   "were not looked at");
        }
        if (fy_cache_distrusted()) {
            fy_say("%s is not used for the cache: another user could exchange "
                   "what is in it",
                   fy_cache_distrusted());
        }
    }
    if (options->settings.check_rate > 0 && !state->trouble[0]) {
        print_checked(options, &report);
    }
    if (options->report && options->report_path) {
        write_report(&report, options->report_path);
    }
    if (options->explain || (options->report && !options->report_path)) {
        fy_report_print(&report, stderr);
    }
    fy_report_clear(&report);
}

/* The log goes to its file, or to one of the run that is printed afterwards: true. */
static bool
start_debug(struct fy_run_options *options, struct fy_launch_state *state)
{
    struct fy_settings *settings = &options->settings;
    bool printed = settings->debug && !settings->debug_file[0];
    if (printed && (fy_launch_scratch(state) ||
                    !scratch_file(state, "debug", settings->debug_file))) {
        fy_say("%s; there is no debug log", state->trouble);
        state->trouble[0] = '\0';
        settings->debug = 0;
    }
    int status =
        settings->debug ? fy_lines_append(settings->debug_file, "", 0) : 0;
    if (status) {
        fy_say("cannot write the debug log %s: %s", settings->debug_file,
               strerror(-status));
        settings->debug = 0;
    }
    if (!settings->debug) {
        settings->debug_file[0] = '\0';
        return false;
    }
    fy_debug_start((uint32_t)settings->debug, settings->debug_file);
    return printed;
}

static void
debug_start(const struct fy_run_options *options,
            const struct fy_launch_state *state)
{
    const struct fy_settings *settings = &options->settings;
    fy_debug(COMMAND, "runs %s: device %s, mode %d, preloads %s%s",
             options->command ? options->command[0] : "a shell",
             settings->device, (int)settings->mode,
             state->preload[0] ? state->preload : "nothing",
             state->pipeline.session ? ", with a session" : "");
    for (unsigned i = 0; i < state->pipeline.nmounts; i++) {
        fy_debug(COMMAND, "mount %s, found by %s",
                 state->pipeline.mounts[i].path,
                 state->pipeline.mounts[i].found_by);
    }
}

int
fy_launch(struct fy_run_options *options)
{
    struct fy_launch_state state;
    struct fy_child child = {0};
    memset(&state, 0, sizeof state);
    bool count = is_told(options);
    fy_child_survive();
    bool logged = start_debug(options, &state);
    /* By the files of the driver in /dev: loading CUDA is for programs that have
     * a call for it. */
    if (strcmp(options->settings.device, "auto") == 0) {
        bool card = access("/dev/nvidiactl", F_OK) == 0 ||
                    access("/dev/dxg", F_OK) == 0;
        strcpy(options->settings.device, card ? "cuda" : "none");
    }
    bool calls = strcmp(options->settings.device, "none") != 0 || count;
    bool mounts = fy_pipeline_find(&state.pipeline, options);
    fy_places_find(&state.places);
    bool commands = mounts && start_commands(options, &state, calls);
    if (!calls && !mounts) {
        fy_say_wrong(options, &state.places);
    } else if (!calls) { /* else it is said when they are compiled */
        fy_say_unreadable(options->annotations, options->nannotations);
    }
    if (calls && prepare_calls(options, &state) != 0) {
        fy_say("%s; running without ferry", state.trouble);
        state.preload[0] = '\0';
        options->settings.mode = FY_MODE_NEVER;
    }
    if (commands) {
        publish_commands(options, &state);
    }
    publish(options, &state);
    debug_start(options, &state);
    if (!count && !state.scratch[0]) {
        free(state.model);
        fy_pipeline_free(&state.pipeline);
        return fy_child_become(options->command);
    }
    double start = fy_clock_seconds();
    char **first =
        fy_pipeline_first(&state.pipeline, &state.places, options->command);
    struct fy_status_line line;
    if (fy_status_start(&line, &state.pipeline, options->command)) {
        child.each_second = fy_status_tick;
        child.owner = &line;
    }
    int status = fy_child_run(options->command, first, &child);
    fy_status_end(&line);
    free(first);
    if (status) {
        /* Too few descriptors or processes for two: this one will do. */
        fy_say("cannot start a process: %s; running without ferry",
               strerror(errno));
        fy_pipeline_end(&state.pipeline);
        state.preload[0] = '\0';
        publish(options, &state);
        fy_launch_end(&state);
        return fy_child_become(options->command);
    }
    double seconds = fy_clock_seconds() - start;
    fy_pipeline_end(&state.pipeline);
    fy_pipeline_advise(&state.pipeline, &state.places,
                       options->settings.deploy);
    if (count && !child.exec_errno) {
        tell(options, &state, child.wait_status, seconds);
    }
    fy_debug(COMMAND, "%s ended after %.3f s: wait status %#x",
             options->command[0], seconds, (unsigned)child.wait_status);
    if (logged) {
        print_lines(options->settings.debug_file, SIZE_MAX, "lines");
    }
    fy_launch_end(&state);
    return fy_child_imitate(&child, options->command);
}

int
fy_tool_run(int argc, char **argv)
{
    struct fy_run_options options;
    int status;
    if (fy_run_options_parse("run", argc, argv, &options, &status)) {
        return status;
    }
    return fy_launch(&options);
}
