/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folders and files that other users cannot exchange, see the header. Walks from
 * the root folder by descriptors. Links are followed here, component by component, as
 * who owns one says where the path leads.
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

enum {
    LINKS_MAX = 40, /* as Linux follows */
};

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

static bool
is_believed(const struct stat *about)
{
    return about->st_uid == 0 || about->st_uid == geteuid() ||
           (about->st_uid == unmapped && is_root_unmapped());
}

/* True if neither a group nor others can write; a device is what it is, whoever
 * writes to it. */
static bool
passes(int fd, struct stat *out)
{
    return fstat(fd, out) == 0 && is_believed(out) &&
           (!(out->st_mode & (S_IWGRP | S_IWOTH)) || S_ISCHR(out->st_mode) ||
            (S_ISDIR(out->st_mode) && (out->st_mode & S_ISVTX)));
}

/* A path that is walked: what is left of it, and what was passed. */
struct walk {
    bool make, file; /* missing folders are made; the last one may be a file */
    unsigned links;  /* that were followed */
    char rest[PATH_MAX], passed[PATH_MAX]; /* passed: "" is the root */
};

/* Takes the next component off the rest; "": there is none. False: too long. */
static bool
take_component(struct walk *walk, char out[NAME_MAX + 1])
{
    const char *at = walk->rest + strspn(walk->rest, "/");
    size_t n = strcspn(at, "/");
    if (n > NAME_MAX) {
        errno = ENAMETOOLONG;
        return false;
    }
    memcpy(out, at, n);
    out[n] = '\0';
    at += n;
    memmove(walk->rest, at, strlen(at) + 1);
    return true;
}

/* Puts the text in front of the rest. */
static bool
put_before(struct walk *walk, const char *text)
{
    size_t n = strlen(text), left = strlen(walk->rest);
    if (n + 1 + left >= sizeof walk->rest) {
        errno = ENAMETOOLONG;
        return false;
    }
    memmove(walk->rest + n + 1, walk->rest, left + 1);
    memcpy(walk->rest, text, n);
    walk->rest[n] = '/';
    return true;
}

/* The name is behind what was passed. */
static bool
pass(struct walk *walk, const char *name)
{
    size_t used = strlen(walk->passed), n = strlen(name);
    if (used + 1 + n >= sizeof walk->passed) {
        errno = ENAMETOOLONG;
        return false;
    }
    walk->passed[used] = '/';
    memcpy(walk->passed + used + 1, name, n + 1);
    return true;
}

/* A link: its text comes next, if its owner is believed. The folder to go on in. */
static int
follow(struct walk *walk, int folder, int link, const char *name)
{
    char text[PATH_MAX];
    struct stat about;
    ssize_t n = readlinkat(link, "", text, sizeof text - 1);
    if (n < 0 || fstat(link, &about) != 0) {
        return FY_ERR_IO;
    }
    if (!is_believed(&about)) {
        (void)pass(walk, name);
        return FY_ERR_INVALID;
    }
    if (++walk->links > LINKS_MAX) {
        errno = ELOOP;
        return FY_ERR_IO;
    }
    text[n] = '\0';
    if (!put_before(walk, text)) {
        return FY_ERR_IO;
    }
    if (text[0] == '/') {
        walk->passed[0] = '\0';
        return open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    }
    return fcntl(folder, F_DUPFD_CLOEXEC, 0);
}

/* One component on from the folder: the next descriptor, or a negative status. */
static int
step(struct walk *walk, int folder, const char *name)
{
    struct stat about;
    if (strcmp(name, "..") == 0) {
        char *slash = strrchr(walk->passed, '/');
        if (slash) {
            *slash = '\0';
        }
        return openat(folder, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
    }
    int next = openat(folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (next < 0 && errno == ENOENT && walk->make &&
        (mkdirat(folder, name, 0700) == 0 || errno == EEXIST)) {
        next = openat(folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    }
    if (next < 0) {
        return FY_ERR_IO;
    }
    if (fstat(next, &about) != 0) {
        (void)close(next);
        return FY_ERR_IO;
    }
    if (S_ISLNK(about.st_mode)) {
        int after = follow(walk, folder, next, name);
        int cause = errno;
        (void)close(next);
        errno = cause;
        return after;
    }
    bool last = walk->rest[strspn(walk->rest, "/")] == '\0';
    if (!S_ISDIR(about.st_mode) && !(walk->file && last)) {
        (void)close(next);
        errno = ENOTDIR;
        return FY_ERR_IO;
    }
    if (!pass(walk, name)) {
        (void)close(next);
        return FY_ERR_IO;
    }
    if (!S_ISDIR(about.st_mode)) {
        (void)close(next);
        next = openat(folder, name,
                      O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    }
    return next < 0 ? FY_ERR_IO : next;
}

/* Along an absolute path. A descriptor of its end with what is known of it, or a negative
 * status. */
static int
go(struct walk *walk, struct stat *about)
{
    char name[NAME_MAX + 1];
    int fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    while (fd >= 0) {
        int next = FY_ERR_IO;
        if (!passes(fd, about)) {
            next = FY_ERR_INVALID;
        } else if (take_component(walk, name)) {
            if (name[0] == '\0') {
                return fd;
            }
            next = strcmp(name, ".") == 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0)
                                          : step(walk, fd, name);
        }
        int cause = errno;
        (void)close(fd);
        errno = cause;
        fd = next;
    }
    return fd == FY_ERR_INVALID ? fd : FY_ERR_IO;
}

/* As fy_trusted_open() and fy_trusted_folder(). */
static int
look(const char *path, struct walk *walk, char out[PATH_MAX],
     struct stat *about)
{
    size_t n = strlen(path);
    int fd = FY_ERR_IO;
    errno = path[0] == '/' ? ENAMETOOLONG : EINVAL;
    if (path[0] == '/' && n < sizeof walk->rest) {
        memcpy(walk->rest, path, n + 1);
        fd = go(walk, about);
    }
    (void)snprintf(out, PATH_MAX, "%s",
                   fd == FY_ERR_IO   ? ""
                   : walk->passed[0] ? walk->passed
                                     : "/");
    return fd;
}

static int
look_at_folder(const char *path, bool make, char out[PATH_MAX],
               struct stat *about)
{
    struct walk walk = {.make = make};
    int fd = look(path, &walk, out, about);
    if (fd >= 0) {
        (void)close(fd);
    }
    return fd >= 0 ? 0 : fd;
}

int
fy_trusted_folder(const char *path, bool make, char out[PATH_MAX])
{
    struct stat about;
    return look_at_folder(path, make, out, &about);
}

int
fy_private_folder(const char *path, bool make, char out[PATH_MAX])
{
    struct stat about;
    int status = look_at_folder(path, make, out, &about);
    return status == 0 && (about.st_uid != geteuid() ||
                           (about.st_mode & (S_IWGRP | S_IWOTH)))
               ? FY_ERR_INVALID
               : status;
}

int
fy_trusted_open(const char *path)
{
    char absolute[PATH_MAX], out[PATH_MAX];
    struct walk walk = {.file = true};
    struct stat about;
    if (path[0] != '/') {
        size_t n = getcwd(absolute, sizeof absolute) ? strlen(absolute) : 0;
        if (n == 0 || n + 1 + strlen(path) >= sizeof absolute) {
            errno = n ? ENAMETOOLONG : errno;
            return FY_ERR_IO;
        }
        absolute[n] = '/';
        memcpy(absolute + n + 1, path, strlen(path) + 1);
        path = absolute;
    }
    int fd = look(path, &walk, out, &about);
    if (fd >= 0 && S_ISDIR(about.st_mode)) {
        (void)close(fd);
        errno = EISDIR;
        fd = FY_ERR_IO;
    }
    return fd;
}
