/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The barrier before a stage. The kernel hands writes on at once; dirty pages of
 * mappings are written back first (mappings.c). sshfs sends writes at once and waits for their
 * answers at close(2); a request more on the same connection is answered after them:
 * one round trip.
 *
 * It is spared where sshfs has done nothing since: each answer to the kernel and
 * each request to the server is a write(2) of sshfs, which /proc/PID/io counts, and
 * a program's write(2) returns only after both. What the barrier itself makes of
 * them is known to the byte, so that anything else is seen as another number:
 *   OPENDIR     an answer
 *   IOCTL       an answer without content
 *   LOOKUP      a request for attributes, an answer without content
 *   RELEASEDIR  an answer without content, at some time after the close(2)
 * A mount of ferry says itself when nothing that it has acknowledged is outstanding: a
 * round trip only where something is.
 * Where the counters cannot be read, or sshfs names the folder by another path than
 * ferry, they never fit, and each barrier is a round trip.
 */
#include "config.h"

#include "proxy/client/barrier.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proxy/client/mappings.h"
#include "proxy/files/client/control.h"
#include "proxy/storage/control.h"
#include "proxy/wire/process.h"

enum {
    ANSWER_BYTES = 16,      /* struct fuse_out_header */
    OPEN_ANSWER_BYTES = 32, /* and struct fuse_open_out */
    LSTAT_BYTES = 13,       /* SSH_FXP_LSTAT without the path */
    NAME_BYTES = 24,        /* of what is looked up */
};

/* A random name in the mount's folder, which no file has. */
static bool
new_name(const char *folder, char *out, size_t capacity)
{
    uint64_t number;
    if (getrandom(&number, sizeof number, 0) != sizeof number) {
        return false;
    }
    int n = snprintf(out, capacity, "%s/.ferry-%016" PRIx64, folder, number);
    return n > 0 && (size_t)n < capacity;
}

/* A missing name is never cached: the host answers for this one. */
static int
round_trip(const char *folder)
{
    char path[PATH_MAX];
    struct stat about;
    if (!new_name(folder, path, sizeof path)) {
        return FY_ERR_IO;
    }
    return lstat(path, &about) != 0 && errno == ENOENT ? 0 : FY_ERR_IO;
}

/* False: they are not known. */
static bool
read_counters(const struct fy_mount *mount, struct fy_quiet *out)
{
    char path[32];
    struct fy_process_io io;
    if (mount->pid <= 0) {
        return false;
    }
    (void)snprintf(path, sizeof path, "/proc/%d/io", (int)mount->pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool known = fd >= 0 && fy_process_io(fd, &io);
    if (fd >= 0) {
        close(fd);
    }
    if (known) {
        *out = (struct fy_quiet){io.writes, io.written_bytes};
    }
    return known;
}

static bool
is_same(const struct fy_quiet *one, uint64_t writes, uint64_t bytes)
{
    return one->writes == writes && one->bytes == bytes;
}

/*
 * Nothing was done since the last barrier, and nothing is flushed now but what
 * waits in mappings of processes that may not be looked at, which is seen mostly:
 * syncfs(2) only queues that (Linux 6.18), but sshfs takes requests in their order,
 * and this ioctl(2), which it does not know, after them. `fd' is the mount's folder,
 * opened since.
 */
static bool
stays_quiet(const struct fy_mount *mount, int fd, const struct fy_quiet *before,
            struct fy_quiet *quiet)
{
    struct fy_quiet now;
    if (quiet->writes == 0 || !is_same(before, quiet->writes, quiet->bytes)) {
        return false;
    }
    (void)ioctl(fd, _IO('~', 0));
    if (!read_counters(mount, &now)) {
        return false;
    }
    /* The answer to the ioctl(2) may not be counted yet. */
    quiet->writes += 1;
    quiet->bytes += OPEN_ANSWER_BYTES;
    bool same = is_same(&now, quiet->writes, quiet->bytes) ||
                is_same(&now, quiet->writes + 1, quiet->bytes + ANSWER_BYTES);
    quiet->writes += 2;
    quiet->bytes += UINT64_C(2) * ANSWER_BYTES;
    return same;
}

int
fy_barrier(const struct fy_mount *mount, struct fy_quiet *quiet)
{
    struct fy_quiet before = {0}, now;
    if (!*mount->type) {
        return 0; /* files of this machine */
    }
    bool told = mount->traits & FY_MOUNT_TOLD, mapped = false;
    bool counted = !told && read_counters(mount, &before);
    if ((mount->traits & FY_MOUNT_FUSE) &&
        fy_mappings_write(mount->device, &mapped)) {
        return FY_ERR_IO;
    }
    if (told) {
        return fy_control_ask(mount->control, FY_FILES_CONTROL_SETTLE, 0, NULL,
                              NULL)
                   ? FY_ERR_IO
                   : 0;
    }
    int fd = open(mount->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return FY_ERR_IO;
    }
    int status = syncfs(fd) == 0 ? 0 : FY_ERR_IO;
    if (!status && !mapped && counted &&
        stays_quiet(mount, fd, &before, quiet)) {
        close(fd);
        return 0;
    }
    *quiet = (struct fy_quiet){0};
    counted = counted && read_counters(mount, &now);
    if (!status && !(mount->traits & FY_MOUNT_SYNCS)) {
        status = round_trip(mount->path);
    }
    close(fd);
    if (!status && counted) {
        const char *root = mount->place.path;
        size_t n = strlen(root);
        size_t path =
            n + (n > 0 && root[n - 1] == '/' ? 0 : 1) + NAME_BYTES - 1;
        quiet->writes = now.writes + 3;
        quiet->bytes =
            now.bytes + LSTAT_BYTES + path + ANSWER_BYTES + ANSWER_BYTES;
    }
    return status;
}
