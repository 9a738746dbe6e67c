/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The session's data for the exec wrappers of the shim, in one block that
 * ferry run writes into a file and every process maps read-only at its first
 * exec: the names of annotated commands, the mounts, the paths of the stub and
 * of the session's socket. Offsets are from the block's start; strings end in
 * NUL.
 *
 * Reading the block needs no libc, no lock and no memory: safe in vfork
 * children and signal handlers. `active' alone changes after the block was
 * published.
 */
#ifndef FERRY_COMMON_SNAPSHOT_H
#define FERRY_COMMON_SNAPSHOT_H

#include <stdint.h>

#define FY_SNAPSHOT_MAGIC   "ferrySNP"
#define FY_SNAPSHOT_VERSION 2

enum fy_snapshot_command_flag {
    FY_SNAPSHOT_STDIN = 1 << 0, /* may be a filter: a pipe on stdin counts */
    FY_SNAPSHOT_CWD = 1 << 1,   /* reads the working folder without naming it */
};

/* One annotated name. Sorted by name (strcmp). */
struct fy_snapshot_command {
    uint32_t name;
    uint32_t flags; /* enum fy_snapshot_command_flag */
};

struct fy_snapshot_mount {
    uint64_t device; /* st_dev of everything on it; 0: told by path alone */
    uint32_t path;   /* of the mount point, absolute, no trailing slash */
    uint32_t path_bytes;
    uint32_t
        control; /* path of the socket of a mount of ferry; 0: of another */
    uint32_t reserved;
};

struct fy_snapshot {
    char magic[8];
    uint32_t version;
    uint32_t size_bytes; /* of the whole block */
    uint32_t active;     /* 0: exec everything as it is; read atomically */
    uint32_t stub;       /* path of ferry-stub */
    uint32_t socket;     /* path of the session's unix socket */
    uint32_t ncommands;
    uint32_t commands; /* struct fy_snapshot_command[ncommands] */
    uint32_t nmounts;
    uint32_t mounts; /* struct fy_snapshot_mount[nmounts] */
    uint32_t reserved;
};

#endif
