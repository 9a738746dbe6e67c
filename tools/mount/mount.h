/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interface of tools/mount to the subcommands: a mount that a user asks for,
 * the start of its process (ferry-mount, of proxy/files/client), and the
 * process's words about itself. One thread.
 */
#ifndef FERRY_TOOLS_MOUNT_H
#define FERRY_TOOLS_MOUNT_H

#include <limits.h>
#include <stdbool.h>

#include "proxy/wire/transport.h"

/* As mount(8) has them. */
enum {
    FY_EXIT_MOUNT_USAGE = 1,
    FY_EXIT_MOUNT_SYSTEM = 2,
    FY_EXIT_MOUNT_INTERRUPTED = 8,
    FY_EXIT_MOUNT_FAILED = 32,
};

enum fy_mount_how {
    FY_MOUNT_BACKGROUND,
    FY_MOUNT_FOREGROUND,
    FY_MOUNT_QUIETLY, /* in the background, and a success is not said */
};

/* The user's request. Zeroed: nothing yet. */
struct fy_mount_request {
    struct fy_place place;
    const char *source; /* as the user wrote it: borrowed */
    char folder[PATH_MAX];
    enum fy_mount_how how;
    bool nonempty, read_only, strict, async, allow_other, numbers, devices;
    unsigned soft_seconds, ac_ms;
    char kernel[256]; /* options of mount(2) that are passed on */
};

/*
 * A list like that of mount(8)'s -o. FY_ERR_INVALID, and `why' names the option: unknown,
 * a value that is none, or one of sshfs that a mount of ferry does not have.
 */
int fy_mount_words(const char *list, struct fy_mount_request *out,
                   struct fy_buffer *why) FY_MUST_CHECK;

/* "[user@]host:path", "loopback:///path", "ssh://host/path" into out->place and source.
 * FY_ERR_INVALID with `why'. */
int fy_mount_source(const char *source, struct fy_mount_request *out,
                    struct fy_buffer *why) FY_MUST_CHECK;

/*
 * Mounts: returns when the mount answers, or (FY_MOUNT_FOREGROUND) only when
 * it could not be started, because ferry-mount then has replaced this process.
 * Returns an exit status of mount(8); errors were said.
 */
int fy_mount_start(const struct fy_mount_request *request);

/* Unmounts; returns an exit status of mount(8). Errors, and the holders of
 * the folder, were said. */
int fy_mount_end(const char *folder, bool lazy, bool force);

/*
 * Finds the mount of ferry on that folder, of which no file is looked at.
 * FY_ERR_NOENT: nothing is mounted there; FY_ERR_INVALID: something else,
 * of out->type; FY_ERR_IO: there is no such folder, errno says why.
 */
int fy_mount_find(const char *folder, struct fy_mount *out) FY_MUST_CHECK;

/* Prints the work of the mount on that folder; *out_status: an exit status.
 * False: no mount of ferry is there, and nothing was said. */
bool fy_mount_report(const char *folder, int *out_status);
/* A line for each of this user's remote mounts, for `ferry doctor'. */
void fy_mounts_print(void);

#endif
