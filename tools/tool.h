/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the subcommands of `ferry'. One process, one thread; everything
 * here may print to stderr and allocate. A subcommand is one function and one
 * row of the table in main.c.
 */
#ifndef FERRY_TOOLS_TOOL_H
#define FERRY_TOOLS_TOOL_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/settings.h"
#include "common/status.h"

/* Exit statuses; a command's own status is passed through as it is. */
enum {
    FY_EXIT_OK = 0,
    FY_EXIT_FAILURE = 1,  /* errors in the files or hosts that were named */
    FY_EXIT_USAGE = 2,    /* the command line was not understood */
    FY_EXIT_FINDINGS = 3, /* ferry verify found something */
    FY_EXIT_CANNOT_RUN = 126,
    FY_EXIT_NOT_FOUND = 127,
};

typedef int fy_subcommand(int argc, char **argv); /* argv[0]: "ferry run" */

fy_subcommand fy_tool_run, fy_tool_shell, fy_tool_check, fy_tool_verify,
    fy_tool_explain, fy_tool_doctor, fy_tool_calibrate, fy_tool_report,
    fy_tool_proxy, fy_tool_deploy, fy_tool_mount, fy_tool_umount,
    fy_tool_mount_helper;

/* tools/stack.c: run(argc, argv) on a stack that has room for it, whatever limit the
 * process was started with. Once in a process; its result. */
int fy_run_ample(fy_subcommand *run, int argc, char **argv);

/* One line on stderr: "ferry: " and the formatted text. */
void fy_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* "try `ferry SUB --help'" on stderr; returns FY_EXIT_USAGE. */
int fy_usage_error(const char *subcommand);

/*
 * Flushes stdout and closes it: FY_EXIT_FAILURE and one line if the output
 * could not be written, else `status'.
 */
int fy_finish_output(int status);

struct fy_place;
/* Reads "[USER@]HOST", or a place with options (ssh://HOST/?option=...), that ssh can
 * reach. FY_ERR_INVALID after a message. In deploy.c. */
int fy_tool_host(const char *text, struct fy_place *out) FY_MUST_CHECK;

/* Paths of the parts of this installation (or build tree). */
struct fy_places {
    bool uninstalled;       /* running in a build tree */
    char engine[PATH_MAX];  /* libferry-engine.so */
    char shim[PATH_MAX];    /* libferry.so */
    char stub[PATH_MAX];    /* ferry-stub */
    char mount[PATH_MAX];   /* ferry-mount */
    char library[PATH_MAX]; /* folder of shipped annotations */
    char ferry[PATH_MAX];   /* this program */
};

/* Looks beside /proc/self/exe, then at the configured places. */
void fy_places_find(struct fy_places *out);

/*
 * The folder for caches, made with mode 0700 when missing: XDG_CACHE_HOME/ferry,
 * HOME/.cache/ferry, or /tmp/ferry-UID; the first that is ours, private and
 * usable as part of LD_PRELOAD. FY_ERR_IO when there is none.
 */
int fy_cache_folder(char out[PATH_MAX]) FY_MUST_CHECK;
/* Makes the folder XDG_RUNTIME_DIR/ferry likewise, for files that fit into
 * no cache. */
int fy_runtime_folder(char out[PATH_MAX]) FY_MUST_CHECK;

/* The first folder on the way to one of these that was not used because another
 * user could exchange it; or NULL. Static storage. */
const char *fy_cache_distrusted(void);

/* XDG_CONFIG_HOME/ferry/ferry.conf or HOME/.config/...; "" without a HOME. */
void fy_config_path(char out[PATH_MAX]);

/*
 * Reads a file of "name = value" lines into settings. Lines that cannot be
 * read or understood are said in one line each (at most three), and left out,
 * as is a file that another user can change. A missing file is no error.
 */
void fy_config_read(const char *path, struct fy_settings *settings);

/* Fills settings->kernels with the cache's folder for kernels. */
void fy_kernels_path(struct fy_settings *settings);
/* Fills settings->calibration with the cache's file when nothing is set. */
void fy_calibration_path(struct fy_settings *settings);
/* Path where the engine keeps its measurements of cards, or "". */
void fy_rates_path(struct fy_settings *settings);

#endif
