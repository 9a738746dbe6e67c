/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of mounts.c and sshfs.c: lines of mountinfo, and what a running sshfs
 * tells of how its host is reached.
 */
#ifndef FERRY_PROXY_MOUNTS_H
#define FERRY_PROXY_MOUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proxy/transport.h"
#include "proxy/transports.h"

struct fy_mount_line {
    unsigned id, parent;
    uint64_t device;
    const char *root, *point, *type, *source, *options;
    bool read_only;
};

struct fy_mount_table {
    char *text;
    struct fy_mount_line *lines;
    size_t n;
};

/* Lines that are not understood are skipped. FY_ERR_NOMEM. */
int fy_mount_table_parse(const char *text,
                         struct fy_mount_table *out) FY_MUST_CHECK;
void fy_mount_table_clear(struct fy_mount_table *table);

/* Absolute paths without a slash at the end; false when equal. */
bool fy_path_is_beneath(const char *path, const char *folder);

/*
 * Adds the port, options, configuration and command of the sshfs process that
 * serves `point' to mount->place. False when the mount shows files otherwise
 * than their host does (links followed, names recoded, no ssh at all).
 */
bool fy_sshfs_learn(const char *point, const char *source, const char *proc,
                    struct fy_mount *mount);

#endif
