/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of mounts.c, mount_options.c, mount_process.c, ferry.c and sshfs.c: what the
 * process that serves a mount tells of how its host is reached. One thread at a time.
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

/* ---- mount_options.c ---- */

enum {
    FY_MOUNT_TIMERS = 5
};

/* Values of options that are no traits. */
enum fy_said_fact {
    FY_SAID_BAD = 1 << 0,        /* it cannot be understood, or is too long */
    FY_SAID_LEFT_ALONE = 1 << 1, /* the mount is no plain view of its host */
    FY_SAID_KEEPS_NONE = 1 << 2, /* what serves the mount remembers nothing */
    FY_SAID_COMMANDS = 1 << 3,   /* may start a program, or choose the host */
};

/* All that the options of one mount say. Zeroed, it says nothing. */
struct fy_mount_said {
    unsigned traits; /* of enum fy_mount_trait */
    unsigned facts;  /* of enum fy_said_fact */
    unsigned timers; /* bits of those in `seconds' that are said */
    double seconds[FY_MOUNT_TIMERS];
    struct fy_place place; /* port, options, config, command only */
};

/* What one option means: a row of a kind's table, which ends with no name. */
struct fy_mount_option {
    const char *name;
    const char *only;  /* values with which it means that; NULL: any */
    const char *never; /* ... does not; "0 no": zero in any spelling, or no */
    unsigned traits, takes; /* said, and said no longer */
    unsigned facts, timers; /* the value is the seconds of these */
    size_t at, bytes;       /* the value is this text of struct fy_place */
};

/* Whether "name" or "name=value" has that name. */
bool fy_option_is(const char *option, const char *name);
/* Adds what "name" or "name=value" says. False: no row has it. */
bool fy_mount_option(const struct fy_mount_option *rows, const char *option,
                     struct fy_mount_said *said);
/* The same of a list with commas, in which a backslash takes the next character as it
 * is. `other' gets those that no row has; NULL: they are ignored. */
void fy_mount_options(const struct fy_mount_option *rows, const char *list,
                      void (*other)(const char *option,
                                    struct fy_mount_said *said),
                      struct fy_mount_said *said);
/* The longest seconds of those timers, at least `least'. */
double fy_mount_longest(const struct fy_mount_said *said, unsigned timers,
                        double least);

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
 * A mount of ferry: place, pid and control by the command line of the ferry-mount that is
 * seen to serve it. False: there is none, or another user's.
 */
bool fy_ferry_learn(const struct fy_mount_line *line, const char *proc,
                    struct fy_mount *mount);

#endif
