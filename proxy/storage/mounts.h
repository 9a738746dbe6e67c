/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of mounts.c, mount_process.c, sshfs.c and gluster.c: what the process that
 * serves a mount tells of how its host is reached. One thread at a time.
 */
#ifndef FERRY_PROXY_STORAGE_MOUNTS_H
#define FERRY_PROXY_STORAGE_MOUNTS_H

#include <stdbool.h>

#include "proxy/wire/transport.h"
#include "proxy/wire/transports.h"

struct fy_mount_line {
    unsigned id, parent;
    uint64_t device;
    const char *root, *point, *type, *source, *options;
    bool read_only;
};

/* Of `of', the mount has those in `traits' and no others. */
static inline void
fy_mount_show(struct fy_mount *mount, unsigned of, unsigned traits)
{
    mount->traits = (mount->traits & ~of) | (traits & of);
}

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
/* Frees text and lines; the table is empty then. */
void fy_mount_table_clear(struct fy_mount_table *table);

/* The user who made a FUSE mount. False: neither this user nor root did, and
 * whatever serves it may answer with anything. */
bool fy_mount_user(const struct fy_mount_line *line, uid_t *out);

/* How certain it is that a process serves a mount. */
enum fy_serves {
    FY_SERVES_NOTHING, /* no FUSE mount, or the process cannot be believed */
    FY_SERVES_OTHER,   /* another one */
    FY_SERVES_PERHAPS, /* its descriptors cannot be seen: root's, for a user */
    FY_SERVES_SOME,    /* some FUSE mount: the kernel does not say which */
    FY_SERVES_THIS     /* its connection is that of this mount */
};

enum {
    FY_MOUNT_CMDLINE_BYTES = 64 << 10
};

/*
 * Visits each process that is named like one of `names' (NULL-terminated, as comm
 * has them), is wholly the user's who made the mount (and that is this user or
 * root), and serves it or may do so. `cmdline' has n bytes, with a NUL behind;
 * `visit' borrows it. `proc': "/proc", or a folder like it.
 */
void fy_mount_processes(const struct fy_mount_line *line, const char *proc,
                        const char *const *names,
                        void (*visit)(const char *cmdline, size_t n, pid_t pid,
                                      enum fy_serves how, void *data),
                        void *data);

/*
 * Adds the port, options, configuration and command of the sshfs process that
 * serves the mount to mount->place. What can start a program is taken only of a
 * process that is seen to serve it. False when the mount shows files otherwise
 * than their host does (links followed, names recoded, no ssh at all); what it is
 * that differs is set even so, for one that --mount names.
 */
bool fy_sshfs_learn(const struct fy_mount_line *line, const char *proc,
                    struct fy_mount *mount);

/*
 * glusterfs: "HOST:/VOLUME[/folder]" of mountinfo, with the mount's root in it:
 * place->host, and place->path as fy_volume_find() takes it.
 */
bool fy_gluster_source(const char *source, const char *root,
                       struct fy_place *place);

/* What the command line of the glusterfs process that serves the mount says of
 * its caches: mount->forgets_ms, lags_ms. False: they cannot be told. */
bool fy_gluster_learn(const struct fy_mount_line *line, const char *proc,
                      struct fy_mount *mount);

/*
 * "glusterfs://HOST/VOLUME[/folder]" as a path of this machine: below a mount of
 * that volume. `mountinfo': the text. False with `why': there is none, or it has
 * caches whose end cannot be waited for.
 */
bool fy_volume_find(const char *name, const char *mountinfo, char *out,
                    size_t capacity, struct fy_buffer *why);

#endif
