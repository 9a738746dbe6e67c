/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells if a command that is about to be started could touch a mount of the
 * session: its working folder, its arguments, its standard input. Looks, and
 * never opens, reads or waits for any of them. Runs in vfork children.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "shim/arch/x86_64/raw.h"
#include "shim/programs/exec.h"

enum {
    MOST_LOOKED_AT = 64, /* arguments */
    NAME_MOST = 1024,
};

/* As st_dev of stat(2) has it. */
static uint64_t
device_number(uint64_t major, uint64_t minor)
{
    return (major & 0xfff) << 8 | (major & ~UINT64_C(0xfff)) << 32 |
           (minor & 0xff) | (minor & ~UINT64_C(0xff)) << 12;
}

/*
 * Type and device of a file, from the client's cache, without asking a file
 * server again. NULL: dir itself.
 */
struct file {
    uint64_t device;
    unsigned mode;
};

static bool
look(int dir, const char *path, struct file *out)
{
    struct statx status = {.stx_mode = 0};
    int flags = AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC;
    if (!path) {
        path = "";
        flags |= AT_EMPTY_PATH;
    }
    if (fy_raw(SYS_statx, dir, (long)path, flags, STATX_TYPE, (long)&status,
               0) < 0) {
        return false;
    }
    out->device = device_number(status.stx_dev_major, status.stx_dev_minor);
    out->mode = status.stx_mode;
    return true;
}

static bool
has_device(const struct fy_snapshot *snapshot, uint64_t device)
{
    for (uint32_t i = 0; i < snapshot->nmounts; i++) {
        /* 0: a folder that is no mount point has no device of its own. */
        if (device && fy_snapshot_mounts(snapshot)[i].device == device) {
            return true;
        }
    }
    return false;
}

static bool
is_below(const struct fy_snapshot *snapshot, const char *path)
{
    for (uint32_t i = 0; i < snapshot->nmounts; i++) {
        const struct fy_snapshot_mount *mount =
            &fy_snapshot_mounts(snapshot)[i];
        if (strncmp(path, fy_snapshot_string(snapshot, mount->path),
                    mount->path_bytes) == 0 &&
            (path[mount->path_bytes] == '/' ||
             path[mount->path_bytes] == '\0')) {
            return true;
        }
    }
    return false;
}

/*
 * By name: parts of a mount may have other devices, or none that tells, and a file that a
 * command is to create has none yet. A working folder above a mount leads to it by the
 * rest of the mount's path. A path with a longer name is told by its device only, for the
 * sake of small stacks.
 */
static __attribute__((noinline)) bool
folder_leads(const struct fy_snapshot *snapshot, char *const argv[])
{
    char path[NAME_MOST];
    long bytes = fy_raw(SYS_getcwd, (long)path, sizeof path, 0, 0, 0, 0);
    if (bytes <= 1 || is_below(snapshot, path)) {
        return bytes > 1;
    }
    /* NOLINTNEXTLINE(clang-analyzer-core.uninitialized.Branch): the kernel wrote it */
    size_t n = path[1] ? strlen(path) : 0;
    for (uint32_t i = 0; i < snapshot->nmounts; i++) {
        const char *mount =
            fy_snapshot_string(snapshot, fy_snapshot_mounts(snapshot)[i].path);
        const char *rest = mount + n + 1;
        if (strncmp(mount, path, n) != 0 || mount[n] != '/') {
            continue;
        }
        for (size_t j = 1; argv[0] && argv[j]; j++) {
            if (strstr(argv[j], rest)) {
                return true;
            }
        }
    }
    return false;
}

static __attribute__((noinline)) bool
input_is_below(const struct fy_snapshot *snapshot)
{
    char path[NAME_MOST];
    long bytes = fy_raw(SYS_readlinkat, AT_FDCWD, (long)"/proc/self/fd/0",
                        (long)path, sizeof path, 0, 0);
    if (bytes <= 0 || bytes >= (long)sizeof path) {
        return false;
    }
    path[bytes] = '\0';
    return is_below(snapshot, path);
}

static bool
names_a_mount(const struct fy_snapshot *snapshot, const char *argument)
{
    for (uint32_t i = 0; i < snapshot->nmounts; i++) {
        if (strstr(argument,
                   fy_snapshot_string(snapshot,
                                      fy_snapshot_mounts(snapshot)[i].path))) {
            return true;
        }
    }
    return false;
}

/* A pipe from which nothing has come yet: its writer may be remote. */
static bool
waits_for_input(void)
{
    struct pollfd in = {.fd = 0, .events = POLLIN};
    return fy_raw(SYS_poll, (long)&in, 1, 0, 0, 0, 0) == 0;
}

bool
fy_touches(const struct fy_snapshot *snapshot, uint32_t flags,
           char *const argv[], bool fds_change)
{
    struct file file;
    if (fds_change && (flags & FY_SNAPSHOT_STDIN)) {
        return true;
    }
    if (!fds_change && look(0, NULL, &file)) {
        if ((S_ISREG(file.mode) || S_ISDIR(file.mode)) &&
            (has_device(snapshot, file.device) || input_is_below(snapshot))) {
            return true;
        }
        if (S_ISFIFO(file.mode) && (flags & FY_SNAPSHOT_STDIN) &&
            waits_for_input()) {
            return true;
        }
    }
    if ((look(AT_FDCWD, ".", &file) && has_device(snapshot, file.device)) ||
        folder_leads(snapshot, argv)) {
        return true;
    }
    unsigned looked_at = 0;
    for (size_t i = 1; argv[0] && argv[i]; i++) {
        if (names_a_mount(snapshot, argv[i])) {
            return true;
        }
        if (argv[i][0] != '-' && argv[i][0] && looked_at < MOST_LOOKED_AT) {
            looked_at++;
            if (look(AT_FDCWD, argv[i], &file) &&
                has_device(snapshot, file.device)) {
                return true;
            }
        }
    }
    return false;
}
