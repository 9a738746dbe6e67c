/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line of `ferry run'. Everything is checked before anything runs.
 */
#include "config.h"

#include "tools/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/debug.h"
#include "tools/tool.h"

static const char help_run[] =
    "Usage: ferry run [OPTION]... [--] COMMAND [ARGUMENT]...\n"
    "Runs COMMAND; library calls that annotations name may run on a device, "
    "and\n"
    "commands that they name next to the files of a remote mount.\n"
    "The exit status is COMMAND's.\n\n";

static const char help_shell[] =
    "Usage: ferry shell [OPTION]... [--] [SHELL [ARGUMENT]...]\n"
    "Starts your shell (SHELL, or the one of your account) as 'ferry run' "
    "does.\n\n";

static const char help[] =
    "  --mount FOLDER=PLACE  the files of FOLDER are at PLACE, such as\n"
    "                        ssh://user@host:port/path; more than once\n"
    "  --no-discover         do not look for sshfs and NFS mounts\n"
    "  --device auto|none|host|cuda[:N][,memory=SIZE]\n"
    "                        where calls may run. 'auto' takes a GPU if there "
    "is "
    "one;\n"
    "                        'host' computes here, 'cuda' on the Nth GPU from "
    "0,\n"
    "                        within SIZE bytes (64MiB, 1GiB)\n"
    "  --residency auto|off|write-through|compare\n"
    "                        what stays on the device between calls (auto)\n"
    "  --force               whenever the annotation allows, not when it pays\n"
    "  --verify[=RATE[:SEED]] compare offloaded calls, or a part of them "
    "(0.01),\n"
    "                        with their originals\n"
    "  --chunk random[:SEED] random chunk shapes instead of planned ones\n"
    "  --early               start CUDA also before a program that may use "
    "it does\n"
    "  --annotations PATH    also use this file, or every *.ferry in this "
    "folder\n"
    "  --report[=FILE.json]  afterwards print what happened, or write it as "
    "JSON\n"
    "  --explain             afterwards print each decision and its reason\n"
    "  --debug[=ROOM,...]    log what these rooms of ferry do, or all; "
    "ferry-run(1)\n"
    "  --debug-file FILE     append that to FILE (default: printed "
    "afterwards)\n"
    "  --help\n";

enum option_id {
    OPTION_MOUNT = 256,
    OPTION_NO_DISCOVER,
    OPTION_DEVICE,
    OPTION_RESIDENCY,
    OPTION_FORCE,
    OPTION_CHUNK,
    OPTION_VERIFY,
    OPTION_EARLY,
    OPTION_ANNOTATIONS,
    OPTION_REPORT,
    OPTION_EXPLAIN,
    OPTION_DEBUG,
    OPTION_DEBUG_FILE,
    OPTION_HELP,
    OPTION_REMOVED,
};

static const struct option long_options[] = {
    {"mount", required_argument, NULL, OPTION_MOUNT},
    {"no-discover", no_argument, NULL, OPTION_NO_DISCOVER},
    {"device", required_argument, NULL, OPTION_DEVICE},
    {"residency", required_argument, NULL, OPTION_RESIDENCY},
    {"force", no_argument, NULL, OPTION_FORCE},
    {"chunk", required_argument, NULL, OPTION_CHUNK},
    {"verify", optional_argument, NULL, OPTION_VERIFY},
    {"early", no_argument, NULL, OPTION_EARLY},
    {"annotations", required_argument, NULL, OPTION_ANNOTATIONS},
    {"report", optional_argument, NULL, OPTION_REPORT},
    {"explain", no_argument, NULL, OPTION_EXPLAIN},
    {"debug", optional_argument, NULL, OPTION_DEBUG},
    {"debug-file", required_argument, NULL, OPTION_DEBUG_FILE},
    {"help", no_argument, NULL, OPTION_HELP},
    {"defer", no_argument, NULL, OPTION_REMOVED},
    {NULL, 0, NULL, 0},
};

int
fy_debug_option(const char *option, const char *rooms, uint64_t *out_mask)
{
    char cause[512];
    struct fy_buffer why;
    uint32_t mask;
    fy_buffer_start(&why, cause, sizeof cause);
    int status = fy_debug_parse(rooms, &mask, &why);
    if (status) {
        fy_say("%s: %s", option, cause);
        return status;
    }
    *out_mask = mask;
    return 0;
}

/* Sets one setting from an option; reports a wrong value. */
static int
set(struct fy_settings *settings, unsigned origin, const char *option,
    const char *name, const char *value)
{
    char cause[128];
    struct fy_buffer why;
    fy_buffer_start(&why, cause, sizeof cause);
    int status = fy_settings_set(settings, origin, name, value, &why);
    if (status) {
        fy_say("%s '%s': %s", option, value, cause);
    }
    return status;
}

/* "auto", "none", "host" or "host,memory=SIZE"; reports a wrong one. */
static int
parse_device_option(const char *text, struct fy_settings *settings)
{
    char copy[FY_SETTINGS_NAME_BYTES + 1]; /* one longer than any name */
    const char *comma = strchr(text, ',');
    (void)snprintf(copy, sizeof copy, "%.*s",
                   (int)(comma ? comma - text : (ptrdiff_t)sizeof copy - 1),
                   text);
    int status = set(settings, FY_SETTING_WIRE, "--device", "device", copy);
    if (status == 0 && comma) {
        if (strncmp(comma + 1, "memory=", 7) != 0) {
            fy_say("--device '%s': after the comma expected memory=SIZE", text);
            status = FY_ERR_INVALID;
        } else if (strcmp(copy, "auto") == 0 || strcmp(copy, "none") == 0) {
            fy_say("--device '%s': only host and cuda have a memory limit",
                   text);
            status = FY_ERR_INVALID;
        } else {
            status = set(settings, FY_SETTING_WIRE, "--device memory", "memory",
                         comma + 8);
            if (status == 0 && settings->memory_bytes == 0 &&
                strcmp(copy, "host") == 0) {
                fy_say(
                    "--device '%s': a device without memory computes nothing",
                    text);
                status = FY_ERR_INVALID;
            }
        }
    }
    return status;
}

/* The log's file, from any folder that a program may change to. */
static int
set_debug_file(const char *option, const char *path,
               struct fy_settings *settings)
{
    char whole[2 * PATH_MAX], folder[PATH_MAX] = "";
    if (*path && *path != '/' && !getcwd(folder, sizeof folder)) {
        fy_say("%s '%s': %s", option, path, strerror(errno));
        return FY_ERR_INVALID;
    }
    (void)snprintf(whole, sizeof whole, "%s%s%s", folder, *folder ? "/" : "",
                   path);
    return set(settings, FY_SETTING_WIRE, option, "debug_file", whole);
}

/* FERRY_DEBUG and FERRY_DEBUG_FILE, which options go before. */
static int
read_debug_variables(struct fy_settings *settings)
{
    const char *rooms = getenv("FERRY_DEBUG");
    const char *file = getenv("FERRY_DEBUG_FILE");
    int status = 0;
    if (rooms && *rooms) {
        status = fy_debug_option("FERRY_DEBUG", rooms, &settings->debug);
    }
    if (!status && file && *file) {
        status = set_debug_file("FERRY_DEBUG_FILE", file, settings);
    }
    return status;
}

static int
add_annotations(const char *path, struct fy_run_options *options)
{
    if (options->nannotations == FY_MAX_ANNOTATION_PATHS) {
        fy_say("more than %d annotation paths", FY_MAX_ANNOTATION_PATHS);
        return FY_ERR_INVALID;
    }
    options->annotations[options->nannotations++] = path;
    return 0;
}

/* Adds each path of a ':'-separated list, cut up in place. */
static int
add_annotation_list(char *list, struct fy_run_options *options)
{
    char *state = NULL;
    for (char *path = strtok_r(list, ":", &state); path;
         path = strtok_r(NULL, ":", &state)) {
        int status = add_annotations(path, options);
        if (status) {
            return status;
        }
    }
    return 0;
}

static int
take(int id, struct fy_run_options *options)
{
    switch (id) {
    case OPTION_MOUNT:
        return set(&options->settings, FY_SETTING_USER, "--mount", "mount",
                   optarg);
    case OPTION_NO_DISCOVER:
        options->settings.discover = false;
        return 0;
    case OPTION_DEVICE:
        return parse_device_option(optarg, &options->settings);
    case OPTION_RESIDENCY:
        return set(&options->settings, FY_SETTING_WIRE, "--residency",
                   "residency", optarg);
    case OPTION_FORCE:
        options->settings.force = true;
        return 0;
    case OPTION_CHUNK:
        return set(&options->settings, FY_SETTING_WIRE, "--chunk", "chunk",
                   optarg);
    case OPTION_VERIFY:
        return set(&options->settings, FY_SETTING_WIRE, "--verify", "check",
                   optarg ? optarg : "1");
    case OPTION_EARLY:
        options->settings.early = true;
        return 0;
    case OPTION_ANNOTATIONS:
        return add_annotations(optarg, options);
    case OPTION_REPORT:
        options->report = true;
        options->report_path = optarg;
        return 0;
    case OPTION_EXPLAIN:
        options->explain = true;
        return 0;
    case OPTION_DEBUG:
        return fy_debug_option("--debug", optarg ? optarg : "all",
                               &options->settings.debug);
    case OPTION_DEBUG_FILE:
        return set_debug_file("--debug-file", optarg, &options->settings);
    case OPTION_REMOVED:
        fy_say("the option --defer was removed");
        return FY_ERR_INVALID;
    default: /* getopt has said it */
        return FY_ERR_INVALID;
    }
}

int
fy_run_options_parse(const char *name, int argc, char **argv,
                     struct fy_run_options *out, int *out_status)
{
    bool shell = strcmp(name, "shell") == 0;
    char config[PATH_MAX];
    memset(out, 0, sizeof *out);
    *out_status = FY_EXIT_USAGE;
    fy_settings_init(&out->settings);
    fy_config_path(config);
    fy_config_read(config, &out->settings);
    /* From here on the list of paths is in options->annotations. */
    if (add_annotation_list(out->settings.annotations, out) ||
        read_debug_variables(&out->settings)) {
        return FY_ERR_INVALID;
    }
    optind = 0; /* also reads POSIXLY_CORRECT anew; '+' stops at COMMAND */
    int id;
    while ((id = getopt_long(argc, argv, "+", long_options, NULL)) != -1) {
        if (id == OPTION_HELP) {
            (void)fputs(shell ? help_shell : help_run, stdout);
            (void)fputs(help, stdout);
            *out_status = fy_finish_output(FY_EXIT_OK);
            return FY_ERR_INVALID;
        }
        if (take(id, out)) {
            fy_usage_error(name);
            return FY_ERR_INVALID;
        }
    }
    if (optind >= argc && shell) {
        return 0;
    }
    if (optind >= argc) {
        fy_say("a command is missing");
        fy_usage_error(name);
        return FY_ERR_INVALID;
    }
    out->command = argv + optind;
    return 0;
}
