/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the client's paths to descriptors, and from stat(2) to attributes. No link is
 * followed and nothing outside of the root is reached, whatever is renamed meanwhile:
 * each path is opened by openat2(2) from the root's descriptor.
 */
#include "config.h"

#include "proxy/files/server/server.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "proxy/sandbox/walk.h"

/* The first n bytes of `path' beneath a folder. */
static int
open_part(int folder, const char *path, size_t n, int flags)
{
    char part[PATH_MAX];
    memcpy(part, path, n);
    part[n] = '\0';
    int fd = fy_open_beneath(folder, n ? part : ".", (uint64_t)(unsigned)flags,
                             RESOLVE_NO_SYMLINKS);
    return fd < 0 ? -errno : fd;
}

int
fy_files_untouched(int fd, int flags)
{
    if (fd >= 0 && !(flags & O_PATH)) {
        (void)fcntl(fd, F_SETFL, (flags & O_NONBLOCK) | O_NOATIME);
    }
    return fd;
}

int
fy_files_open(struct fy_files_server *server, const struct fy_files_bytes *path,
              int flags)
{
    int folder = server->root, fd;
    const char *at = path->at;
    size_t left = path->n;
    while (left >= PATH_MAX) {
        const char *slash = memrchr(at, '/', PATH_MAX - 1);
        fd = open_part(folder, at, (size_t)(slash - at), O_PATH | O_DIRECTORY);
        if (folder != server->root) {
            (void)close(folder);
        }
        if (fd < 0) {
            return fd;
        }
        folder = fd;
        left -= (size_t)(slash - at) + 1;
        at = slash + 1;
    }
    fd = open_part(folder, at, left, flags | O_NOFOLLOW);
    if (folder != server->root) {
        (void)close(folder);
    }
    return fy_files_untouched(fd, flags);
}

void
fy_files_name(const struct fy_files_bytes *name,
              char out[FY_FILES_NAME_BYTES + 1])
{
    memcpy(out, name->at, name->n);
    out[name->n] = '\0';
}

/* ---- attributes ----------------------------------------------------------------- */

uint64_t
fy_files_ino(const struct fy_files_server *server, dev_t dev, ino_t ino)
{
    if (dev == server->root_dev) {
        return ino;
    }
    return (ino ^ (dev * UINT64_C(0x9e3779b97f4a7c15))) | UINT64_C(1) << 63;
}

static void
set_time(struct fy_files_time *out, const struct timespec *time)
{
    out->seconds = time->tv_sec;
    out->ns = (uint32_t)time->tv_nsec;
}

void
fy_files_attr_of(const struct fy_files_server *server, const struct stat *about,
                 struct fy_files_attr *out)
{
    *out = (struct fy_files_attr){
        .ino = fy_files_ino(server, about->st_dev, about->st_ino),
        .size = (uint64_t)about->st_size,
        .blocks = (uint64_t)about->st_blocks,
        .mode = about->st_mode,
        .nlink = (uint32_t)about->st_nlink,
        .uid = about->st_uid,
        .gid = about->st_gid,
        .rdev = (uint32_t)about->st_rdev,
        .blksize = (uint32_t)about->st_blksize,
    };
    set_time(&out->atime, &about->st_atim);
    set_time(&out->mtime, &about->st_mtim);
    set_time(&out->ctime, &about->st_ctim);
}

int
fy_files_attr_at(const struct fy_files_server *server, int fd,
                 struct fy_files_attr *out)
{
    struct stat about;
    if (fstat(fd, &about) != 0) {
        return -errno;
    }
    fy_files_attr_of(server, &about, out);
    return 0;
}

int
fy_files_open_folder(struct fy_files_server *server,
                     const struct fy_files_node *node, int *out,
                     struct stat *about)
{
    struct stat unused;
    if (node->kept) {
        return -ENOENT; /* it has no name: nothing can be made in it */
    }
    int fd = fy_files_open(server, &node->path, O_PATH | O_DIRECTORY);
    if (fd < 0) {
        return fd;
    }
    int status = 0;
    if (node->ino || about) {
        about = about ? about : &unused;
        status = fstat(fd, about) != 0 ? -errno
                 : node->ino && fy_files_ino(server, about->st_dev,
                                             about->st_ino) != node->ino
                     ? -ESTALE
                     : 0;
    }
    if (status) {
        (void)close(fd);
        return status;
    }
    *out = fd;
    return 0;
}

void
fy_files_fd_path(int fd, char out[32])
{
    (void)snprintf(out, 32, "/proc/self/fd/%d", fd);
}
