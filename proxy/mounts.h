/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of mounts.c and sshfs.c: what a running sshfs tells of how its host is
 * reached.
 */
#ifndef FERRY_PROXY_MOUNTS_H
#define FERRY_PROXY_MOUNTS_H

#include <stdbool.h>

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
/* The text of /proc/self/mountinfo, new; NULL: it cannot be read. */
char *fy_mountinfo_read(void);
void fy_mount_table_clear(struct fy_mount_table *table);

/*
 * Adds the port, options, configuration and command of the sshfs process that
 * serves `point' to mount->place. False when the mount shows files otherwise
 * than their host does (links followed, names recoded, no ssh at all); what it is
 * that differs is set even so, for one that --mount names.
 */
bool fy_sshfs_learn(const char *point, const char *source, const char *proc,
                    struct fy_mount *mount);

/*
 * glusterfs: "HOST:/VOLUME[/folder]" of mountinfo, with the mount's root in it:
 * place->host, and place->path as fy_volume_find() takes it.
 */
bool fy_gluster_source(const char *source, const char *root,
                       struct fy_place *place);

/* What the command line of the glusterfs process that serves `point' says of its
 * caches: mount->forgets_ms, lags_ms. False: they cannot be told. */
bool fy_gluster_learn(const char *point, const char *proc,
                      struct fy_mount *mount);

/*
 * "glusterfs://HOST/VOLUME[/folder]" as a path of this machine: below a mount of
 * that volume. `mountinfo': the text. False with `why': there is none, or it has
 * caches that nobody can wait for.
 */
bool fy_volume_find(const char *name, const char *mountinfo, char *out,
                    size_t capacity, struct fy_buffer *why);

/* The bytes of proc/PID/NAME, NUL-terminated; 0 when it cannot be read. */
size_t fy_mount_process_read(const char *proc, const char *pid,
                             const char *name, char *out, size_t capacity,
                             uid_t *owner);

#endif
