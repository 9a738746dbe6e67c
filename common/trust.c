/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folders and files that other users cannot exchange, see the header. Walks from
 * the root folder by descriptors and follows no link on the way: links are
 * resolved before, and what they led to is then looked at as it is.
 */
#include "config.h"

#include "common/trust.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The owner that Linux shows for one who is not mapped, and what it says of a
 * namespace in which all are. */
static const uid_t unmapped = 65534;
static const unsigned long all = 4294967295;

static bool
is_root_unmapped(void)
{
    unsigned long inside, outside, count;
    FILE *file = fopen("/proc/self/uid_map", "re");
    bool read =
        file && fscanf(file, "%lu %lu %lu", &inside, &outside, &count) == 3;
    if (file) {
        (void)fclose(file);
    }
    return read && count != all;
}

/* `writers': bits of those who must not be able to write. A device is what it
 * is, whoever writes to it. */
static bool
passes(int fd, mode_t writers, struct stat *out)
{
    return fstat(fd, out) == 0 &&
           (out->st_uid == 0 || out->st_uid == geteuid() ||
            (out->st_uid == unmapped && is_root_unmapped())) &&
           (!(out->st_mode & writers) || S_ISCHR(out->st_mode) ||
            (S_ISDIR(out->st_mode) && (out->st_mode & S_ISVTX)));
}

/*
 * Along an absolute path without links. Its last folder, or a negative status;
 * *out_bytes is then how much of the path did not pass.
 */
static int
walk(const char *path, mode_t writers, bool make, size_t *out_bytes,
     struct stat *about)
{
    int fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    const char *at = path;
    for (;;) {
        *out_bytes = at > path ? (size_t)(at - path) : 1;
        if (fd < 0 || !passes(fd, writers, about)) {
            int status = fd < 0 ? FY_ERR_IO : FY_ERR_INVALID;
            if (fd >= 0) {
                (void)close(fd);
            }
            return status;
        }
        char name[NAME_MAX + 1];
        at += strspn(at, "/");
        size_t n = strcspn(at, "/");
        if (n == 0) {
            return fd;
        }
        int next = -1;
        errno = ENAMETOOLONG;
        if (n < sizeof name) {
            memcpy(name, at, n);
            name[n] = '\0';
            next = make && mkdirat(fd, name, 0700) != 0 && errno != EEXIST
                       ? -1
                       : openat(fd, name,
                                O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        }
        int cause = errno;
        (void)close(fd);
        errno = cause;
        fd = next;
        at += n;
    }
}

/*
 * The path without links; of the end that is not there yet, as it is. False:
 * it has no such path.
 */
static bool
resolve(const char *path, bool make, char out[PATH_MAX])
{
    char head[PATH_MAX];
    size_t n = strlen(path);
    if (path[0] != '/' || n >= sizeof head) {
        errno = path[0] == '/' ? ENAMETOOLONG : EINVAL;
        return false;
    }
    memcpy(head, path, n + 1);
    while (!realpath(head, out)) {
        char *slash = strrchr(head, '/');
        if (!make || errno != ENOENT || !head[1]) {
            return false;
        }
        slash[slash == head] = '\0';
    }
    size_t known = strcmp(head, "/") == 0 ? 0 : strlen(head);
    size_t used = strcmp(out, "/") == 0 ? 0 : strlen(out);
    if (used + n - known >= PATH_MAX || strstr(path + known, "/..")) {
        errno = ENAMETOOLONG;
        return false;
    }
    memcpy(out + used, path + known, n - known + 1);
    return true;
}

/* 0 with what is known of the last folder. */
static int
look(const char *path, mode_t writers, bool make, char out[PATH_MAX],
     struct stat *about)
{
    size_t bytes;
    if (!resolve(path, make, out)) {
        out[0] = '\0';
        return FY_ERR_IO;
    }
    int fd = walk(out, writers, false, &bytes, about);
    if (fd == FY_ERR_IO && make && errno == ENOENT) {
        fd = walk(out, writers, true, &bytes, about);
    }
    if (fd < 0) {
        out[fd == FY_ERR_INVALID ? bytes : 0] = '\0';
        return fd;
    }
    (void)close(fd);
    return 0;
}

int
fy_trusted_folder(const char *path, bool make, char out[PATH_MAX])
{
    struct stat about;
    return look(path, S_IWGRP | S_IWOTH, make, out, &about);
}

int
fy_private_folder(const char *path, bool make, char out[PATH_MAX])
{
    struct stat about;
    int status = look(path, S_IWGRP | S_IWOTH, make, out, &about);
    return status == 0 && (about.st_uid != geteuid() ||
                           (about.st_mode & (S_IWGRP | S_IWOTH)))
               ? FY_ERR_INVALID
               : status;
}

int
fy_trusted_open(const char *path)
{
    char real[PATH_MAX], folder[PATH_MAX];
    struct stat about;
    if (!realpath(path, real)) {
        return FY_ERR_IO;
    }
    char *slash = strrchr(real, '/');
    *slash = '\0';
    int status =
        look(slash == real ? "/" : real, S_IWOTH, false, folder, &about);
    *slash = '/';
    if (status) {
        return status;
    }
    int fd = open(real, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 && !passes(fd, S_IWOTH, &about)) {
        (void)close(fd);
        return FY_ERR_INVALID;
    }
    return fd >= 0 ? fd : FY_ERR_IO;
}
