/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The session's snapshot (common/snapshot.h) as this process sees it: mapped at
 * the first exec that wants it, checked once as a whole. A file that is missing,
 * short or not of this version is no session. System calls only: a vfork child
 * may be the first to come here, and its parent keeps the mapping.
 */
#include "config.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "shim/arch/x86_64/raw.h"
#include "shim/programs/exec.h"

enum {
    MOST_BYTES = 64 << 20
};

static FY_NEAR const struct fy_snapshot *published;
static FY_NEAR bool unusable; /* a file of this name can never become one */

static bool
is_string(const struct fy_snapshot *snapshot, uint32_t offset)
{
    return offset >= sizeof *snapshot && offset < snapshot->size_bytes &&
           memchr((const char *)snapshot + offset, '\0',
                  snapshot->size_bytes - offset);
}

static bool
is_table(const struct fy_snapshot *snapshot, uint32_t offset, uint32_t count,
         size_t row_bytes, size_t align)
{
    return offset >= sizeof *snapshot && offset <= snapshot->size_bytes &&
           offset % align == 0 &&
           count <= (snapshot->size_bytes - offset) / row_bytes;
}

static const struct fy_snapshot_command *
commands_of(const struct fy_snapshot *snapshot)
{
    return (const void *)((const char *)snapshot + snapshot->commands);
}

static bool
is_valid(const struct fy_snapshot *snapshot, uint64_t bytes)
{
    if (memcmp(snapshot->magic, FY_SNAPSHOT_MAGIC, sizeof snapshot->magic) !=
            0 ||
        snapshot->version != FY_SNAPSHOT_VERSION ||
        snapshot->size_bytes != bytes || !is_string(snapshot, snapshot->stub) ||
        !is_string(snapshot, snapshot->socket) ||
        !is_table(snapshot, snapshot->commands, snapshot->ncommands,
                  sizeof(struct fy_snapshot_command), 4) ||
        !is_table(snapshot, snapshot->mounts, snapshot->nmounts,
                  sizeof(struct fy_snapshot_mount), 8)) {
        return false;
    }
    const struct fy_snapshot_command *command = commands_of(snapshot);
    for (uint32_t i = 0; i < snapshot->ncommands; i++) {
        if (!is_string(snapshot, command[i].name)) {
            return false;
        }
    }
    const struct fy_snapshot_mount *mount =
        (const void *)((const char *)snapshot + snapshot->mounts);
    for (uint32_t i = 0; i < snapshot->nmounts; i++) {
        if (!is_string(snapshot, mount[i].path) || mount[i].path_bytes < 2 ||
            *fy_snapshot_string(snapshot, mount[i].path) != '/' ||
            strlen(fy_snapshot_string(snapshot, mount[i].path)) !=
                mount[i].path_bytes ||
            (mount[i].control && !is_string(snapshot, mount[i].control))) {
            return false;
        }
    }
    return true;
}

/*
 * A process may outlive its run, and variables of its children name a
 * folder that is gone, which anybody may make again in /tmp.
 */
static bool
is_ours(const struct stat *status)
{
    return status->st_uid == (uid_t)fy_raw(SYS_geteuid, 0, 0, 0, 0, 0, 0) &&
           !(status->st_mode & (S_IWGRP | S_IWOTH));
}

/* Its own frame: the path is only in the way of later calls. */
static __attribute__((noinline)) const struct fy_snapshot *
map(void)
{
    struct stat status = {.st_size = 0};
    const struct fy_snapshot *snapshot = NULL;
    size_t room = strlen(fy_settings_text()) + 1;
    room = room < PATH_MAX ? room : PATH_MAX;
    char *path = __builtin_alloca(room);
    if (!fy_settings_value("snapshot", path, room)) {
        __atomic_store_n(&unusable, true, __ATOMIC_RELAXED);
        return NULL;
    }
    long file = fy_raw(SYS_openat, AT_FDCWD, (long)path,
                       O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0, 0, 0);
    if (file < 0) {
        return NULL; /* perhaps only for lack of fds */
    }
    if (fy_raw(SYS_fstat, file, (long)&status, 0, 0, 0, 0) == 0 &&
        S_ISREG(status.st_mode) && is_ours(&status) &&
        status.st_size >= (off_t)sizeof(struct fy_snapshot) &&
        status.st_size <= MOST_BYTES) {
        long at =
            fy_raw(SYS_mmap, 0, status.st_size, PROT_READ, MAP_SHARED, file, 0);
        if (at > 0 || at < -4095) {
            snapshot = (const void *)at;
        }
    }
    fy_raw(SYS_close, file, 0, 0, 0, 0, 0);
    if (snapshot && !is_valid(snapshot, (uint64_t)status.st_size)) {
        fy_raw(SYS_munmap, (long)snapshot, status.st_size, 0, 0, 0, 0);
        __atomic_store_n(&unusable, true, __ATOMIC_RELAXED);
        return NULL;
    }
    const struct fy_snapshot *none = NULL;
    if (snapshot &&
        !__atomic_compare_exchange_n(&published, &none, snapshot, false,
                                     __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        fy_raw(SYS_munmap, (long)snapshot, status.st_size, 0, 0, 0, 0);
        snapshot = none; /* another thread's */
    }
    return snapshot;
}

const struct fy_snapshot *
fy_snapshot(void)
{
    const struct fy_snapshot *snapshot =
        __atomic_load_n(&published, __ATOMIC_ACQUIRE);
    if (!snapshot && !__atomic_load_n(&unusable, __ATOMIC_RELAXED)) {
        snapshot = map();
    }
    return snapshot && __atomic_load_n(&snapshot->active, __ATOMIC_ACQUIRE)
               ? snapshot
               : NULL;
}

bool
fy_snapshot_find(const struct fy_snapshot *snapshot, const char *name,
                 uint32_t *out_flags)
{
    const struct fy_snapshot_command *command = commands_of(snapshot);
    uint32_t low = 0, high = snapshot->ncommands;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order =
            strcmp(name, fy_snapshot_string(snapshot, command[middle].name));
        if (order == 0) {
            *out_flags = command[middle].flags;
            return true;
        }
        if (order < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return false;
}
