/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where what a stage reads and writes is: from its words, its folder and its
 * descriptors, without touching the files. Nothing here waits, so that a mount
 * that hangs stops its own users only. Pure functions; any thread.
 */
#ifndef FERRY_PROXY_CLIENT_CLASSIFY_H
#define FERRY_PROXY_CLIENT_CLASSIFY_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "annotations/commands/command.h"
#include "common/buffer.h"
#include "proxy/wire/reason.h"
#include "proxy/wire/spec.h"
#include "proxy/wire/transport.h"

/* The facts about one of fds 0-2 of the stage. */
struct fy_stream_fact {
    bool open;
    mode_t mode;
    uint64_t device, inode, rdevice;
    uint64_t
        mount; /* as STATX_MNT_ID has it; 0: not known (before Linux 5.8) */
    int flags; /* of fcntl(F_GETFL) */
    int64_t offset;
    uint32_t links;
    int64_t bytes, stored_bytes; /* of a file: its size, and what it occupies */
    bool unread;                 /* a pipe to be written without a reader */
    char path[PATH_MAX];         /* as /proc/PID/fd/N names it */
};

struct fy_stage_facts {
    const char *path; /* of the program, as given to execve */
    const char *const *argv, *const *env;
    char cwd[PATH_MAX]; /* absolute; "" when unknown */
    uint64_t cwd_mount; /* as `mount' of a stream */
    struct fy_stream_fact streams[3];
    uint32_t same;        /* see fy_stub_hello */
    uint32_t extra_fds;   /* beyond 2, ... */
    uint32_t extra_pipes; /* ... and those that are ends of nameless pipes */
    uint32_t umask;
};

struct fy_stream_plan {
    enum fy_stream_kind kind;
    const char *path; /* FILE: of the facts */
    int64_t offset;
    uint32_t flags;
    uint64_t inode;
    bool is_pipe; /* its other end decides what becomes of it */
    uint64_t pipe_device, pipe_inode;
};

enum {
    FY_STAGE_MOUNTS = FY_SPEC_MAX_MOUNTS + 1
}; /* that one stage may see */

struct fy_stage_plan {
    const struct fy_mount *mount; /* NULL: a filter of another stage */
    /* All that it needs, of one host, none beneath another; [0] is `mount'. */
    const struct fy_mount *mounts[FY_STAGE_MOUNTS];
    unsigned nmounts;
    struct fy_stream_plan in, out, err;
    bool needs_link; /* its stdin is a pipe that it reads */
    bool may_stream; /* its stdin may be sent from here, if it is only its own;
                      * in.kind WIRE: that of a file of here has to be */
    int64_t local_bytes; /* of that file */
    bool effect;         /* something there or a file on the mount is changed */
    bool repeatable;     /* the command may be run again from its beginning */
};

/*
 * The descriptor `fd', which stays open. Never waits for a file system. FY_ERR_IO:
 * the kernel does not say what it is.
 */
int fy_stream_look(int fd, struct fy_stream_fact *out) FY_MUST_CHECK;

/*
 * Whether the path of a descriptor's file or folder is its name: the kernel did
 * not mark it as removed, or it is really called "x (deleted)". On FUSE a file may
 * be marked although its name is there: that was looked up by another process while
 * the file was being created. Nothing tells such a name from one that was removed
 * and made again, as sshfs numbers files by their names; so the file counts as
 * removed. Never waits for a file system.
 */
bool fy_stream_has_name(const struct fy_stream_fact *fact);

/* The same of a file to be opened by its name in place of the descriptor. */
bool fy_stream_is_named(const struct fy_stream_fact *fact);

/*
 * FY_STAGE_NONE and *out (pointers into the facts and mounts), or the reason
 * why it runs here, with one clause more in `why'.
 */
unsigned fy_classify(const struct fy_stage_facts *facts,
                     const struct fy_invocation *invocation,
                     const struct fy_mount *mounts, unsigned nmounts,
                     struct fy_stage_plan *out, struct fy_buffer *why);

/* Whether the file `path' may be read by name: it is an operand that is read, or
 * in a tree of one. True when that is not known. */
bool fy_classify_reads(const struct fy_stage_facts *facts,
                       const struct fy_invocation *invocation,
                       const char *path);

/* The innermost mount that holds the absolute path; NULL: none. */
const struct fy_mount *fy_mount_of(const struct fy_mount *mounts,
                                   unsigned nmounts, const char *path);

#endif
