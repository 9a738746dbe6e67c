/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Newer system calls by older ones, see the header. System calls only: parts of the
 * sandbox use it between fork and exec.
 */
#include "config.h"

#include "common/kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <linux/magic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

enum {
    PARTS_MAX = 128,
    LINKS_MAX = 40, /* as the kernel */
    RACES_MAX = 16,
    BLOCK_BYTES = 4096,
};

/* ---- openat2 ----------------------------------------------------------------------- */

/* A walk from folder to folder. fds[0] is the first folder; those above are ours. */
struct walk {
    const struct open_how *how;
    int fds[PARTS_MAX];
    unsigned n; /* folders that are open */
    unsigned links;
    long mount; /* of fds[0]; with RESOLVE_NO_XDEV */
    char rest[PATH_MAX];
};

static bool
is_set(const struct walk *walk, uint64_t flag)
{
    return (walk->how->resolve & flag) != 0;
}

/* The number of the mount that the descriptor is on; -1: unknown. */
static long
mount_of(int fd)
{
    static const char word[] = "mnt_id:";
    char name[40], text[512];
    (void)snprintf(name, sizeof name, "/proc/self/fdinfo/%d", fd);
    int info = open(name, O_RDONLY | O_CLOEXEC);
    ssize_t n = info < 0 ? -1 : read(info, text, sizeof text - 1);
    if (info >= 0) {
        (void)close(info);
    }
    text[n > 0 ? n : 0] = '\0';
    const char *at = strstr(text, word);
    return at ? strtol(at + sizeof word - 1, NULL, 10) : -1;
}

static bool
crosses(const struct walk *walk, int fd)
{
    long mount = is_set(walk, RESOLVE_NO_XDEV) ? mount_of(fd) : 0;
    if (is_set(walk, RESOLVE_NO_XDEV) && (mount < 0 || mount != walk->mount)) {
        errno = EXDEV;
        return true;
    }
    return false;
}

static int
top(const struct walk *walk)
{
    return walk->fds[walk->n - 1];
}

/* Enters the folder, which is taken. */
static bool
enter(struct walk *walk, int fd)
{
    if (fd < 0) {
        return false;
    }
    if (walk->n == PARTS_MAX) {
        errno = ENAMETOOLONG;
    } else if (!crosses(walk, fd)) {
        walk->fds[walk->n++] = fd;
        return true;
    }
    int error = errno;
    (void)close(fd);
    errno = error;
    return false;
}

/* Goes back to the first folder. */
static void
restart(struct walk *walk)
{
    while (walk->n > 1) {
        (void)close(walk->fds[--walk->n]);
    }
}

static bool
go_up(struct walk *walk)
{
    if (!is_set(walk, RESOLVE_BENEATH | RESOLVE_IN_ROOT)) {
        return enter(walk,
                     openat(top(walk), "..", O_PATH | O_DIRECTORY | O_CLOEXEC));
    }
    if (walk->n > 1) {
        (void)close(walk->fds[--walk->n]);
        return true;
    }
    errno = EXDEV;
    return !is_set(walk, RESOLVE_BENEATH);
}

/* Goes to the folder in which an absolute path begins. */
static bool
go_to_root(struct walk *walk)
{
    if (is_set(walk, RESOLVE_BENEATH)) {
        errno = EXDEV;
        return false;
    }
    restart(walk);
    return is_set(walk, RESOLVE_IN_ROOT) ||
           enter(walk, open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
}

/* Puts the target of the open link before what is left of the path. */
static bool
follow(struct walk *walk, int fd, size_t done)
{
    char target[PATH_MAX];
    struct statfs about;
    if (is_set(walk, RESOLVE_NO_SYMLINKS) || ++walk->links > LINKS_MAX ||
        fstatfs(fd, &about) != 0 || about.f_type == PROC_SUPER_MAGIC) {
        errno = ELOOP;
        return false;
    }
    ssize_t n = readlinkat(fd, "", target, sizeof target);
    size_t left = strlen(walk->rest + done);
    if (n <= 0 || (size_t)n + left >= sizeof target) {
        errno = n == 0 ? ENOENT : n < 0 ? errno : ENAMETOOLONG;
        return false;
    }
    memmove(walk->rest + n, walk->rest + done, left + 1);
    memcpy(walk->rest, target, (size_t)n);
    return walk->rest[0] != '/' || go_to_root(walk);
}

/* Opens what a walk ends at. -2: it was a link, and the walk goes on. */
static int
open_last(struct walk *walk, const char *name, size_t done, bool folder)
{
    const struct open_how *how = walk->how;
    int flags = (int)how->flags | (folder ? O_DIRECTORY : 0);
    struct stat about;
    if (folder && (flags & O_CREAT)) {
        errno = EISDIR;
        return -1;
    }
    for (unsigned i = 0; i < RACES_MAX; i++) {
        int seen = openat(top(walk), name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (seen >= 0) {
            bool link = fstat(seen, &about) == 0 && S_ISLNK(about.st_mode);
            bool leave = crosses(walk, seen);
            bool follows = link && !leave &&
                           (!(flags & O_NOFOLLOW) || folder) &&
                           !((flags & O_CREAT) && (flags & O_EXCL));
            bool followed = follows && follow(walk, seen, done);
            int error = errno;
            (void)close(seen);
            if (leave || follows) {
                errno = error;
                return followed ? -2 : -1;
            }
        } else if (errno != ENOENT || !(flags & O_CREAT)) {
            return -1;
        }
        int fd = openat(top(walk), name, flags | O_NOFOLLOW, (mode_t)how->mode);
        if (fd >= 0 && crosses(walk, fd)) {
            (void)close(fd);
            errno = EXDEV;
            return -1;
        }
        /* ELOOP: it is a link since. */
        if (fd >= 0 || errno != ELOOP || (how->flags & O_NOFOLLOW)) {
            return fd;
        }
    }
    errno = EAGAIN;
    return -1;
}

/* Goes on by a part of the path that is not the last. */
static bool
go_down(struct walk *walk, const char *name, size_t done)
{
    struct stat about;
    for (unsigned i = 0; i < RACES_MAX; i++) {
        /* By O_DIRECTORY what is mounted on demand is. */
        int fd = openat(top(walk), name,
                        O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0 || errno != ENOTDIR) {
            return enter(walk, fd);
        }
        fd = openat(top(walk), name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0) {
            return false;
        }
        about.st_mode = 0;
        (void)fstat(fd, &about);
        bool link = S_ISLNK(about.st_mode);
        bool good = link && follow(walk, fd, done);
        int error = link ? errno : ENOTDIR;
        (void)close(fd);
        if (link || !S_ISDIR(about.st_mode)) {
            errno = error;
            return good;
        }
    }
    errno = EAGAIN;
    return false;
}

/* Walks until the path ends. */
static int
walk_on(struct walk *walk)
{
    char name[NAME_MAX + 1];
    for (;;) {
        size_t at = strspn(walk->rest, "/");
        size_t n = strcspn(walk->rest + at, "/"), done = at + n;
        bool folder = walk->rest[done] == '/'; /* also of a last name */
        bool last = !walk->rest[done + strspn(walk->rest + done, "/")];
        if (n > NAME_MAX) {
            errno = ENAMETOOLONG;
            return -1;
        }
        memcpy(name, walk->rest + at, n);
        name[n] = '\0';
        bool dots = strcmp(name, "..") == 0, dot = strcmp(name, ".") == 0;
        if (dots && !go_up(walk)) {
            return -1;
        }
        if (n == 0 || ((dots || dot) && last)) {
            return openat(top(walk), ".", (int)walk->how->flags,
                          (mode_t)walk->how->mode);
        }
        if (last) {
            int fd = open_last(walk, name, done, folder);
            if (fd != -2) {
                return fd;
            }
            continue;
        }
        if (dots || dot) {
            memmove(walk->rest, walk->rest + done,
                    strlen(walk->rest + done) + 1);
        } else {
            unsigned links = walk->links;
            if (!go_down(walk, name, done)) {
                return -1;
            }
            if (walk->links == links) {
                memmove(walk->rest, walk->rest + done,
                        strlen(walk->rest + done) + 1);
            }
        }
    }
}

static int
walk_path(int folder, const char *path, const struct open_how *how)
{
    struct walk walk = {.how = how, .n = 1};
    if ((how->resolve & RESOLVE_CACHED) || strlen(path) >= sizeof walk.rest) {
        errno = how->resolve & RESOLVE_CACHED ? EAGAIN : ENAMETOOLONG;
        return -1;
    }
    if (!*path) {
        errno = ENOENT;
        return -1;
    }
    strcpy(walk.rest, path);
    walk.fds[0] = folder;
    walk.mount = is_set(&walk, RESOLVE_NO_XDEV) ? mount_of(folder) : 0;
    bool begun = path[0] != '/' || go_to_root(&walk);
    int fd = begun ? walk_on(&walk) : -1;
    int error = errno;
    restart(&walk);
    errno = error;
    return fd;
}

int
fy_openat2(int folder, const char *path, const struct open_how *how)
{
    int fd = (int)syscall(SYS_openat2, folder, path, how, sizeof *how);
    /* EPERM: of older sandboxes, which do not know the call. */
    return fd < 0 && (errno == ENOSYS || errno == EPERM)
               ? walk_path(folder, path, how)
               : fd;
}

/* ---- close_range --------------------------------------------------------------------- */

static void
close_one(unsigned fd, bool later)
{
    if (later) {
        (void)fcntl((int)fd, F_SETFD, FD_CLOEXEC);
    } else {
        (void)close((int)fd);
    }
}

/* Closes those that /proc/self/fd lists; false: there is no such folder. */
static bool
close_listed(unsigned low, unsigned high, bool later)
{
    _Alignas(struct dirent64) char block[BLOCK_BYTES];
    int dir = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct fy_entries entries = {dir, block, sizeof block, 0, 0};
    const struct dirent64 *entry;
    if (dir < 0) {
        return false;
    }
    while ((entry = fy_entries_next(&entries))) {
        char *end;
        unsigned long fd = strtoul(entry->d_name, &end, 10);
        if (!*end && fd >= low && fd <= high && fd != (unsigned)dir) {
            close_one((unsigned)fd, later);
        }
    }
    (void)close(dir);
    return entries.n == 0;
}

void
fy_close_range(unsigned low, unsigned high, bool later)
{
    struct rlimit limit;
    if (low > high ||
        syscall(SYS_close_range, low, high, later ? CLOSE_RANGE_CLOEXEC : 0U) ==
            0 ||
        close_listed(low, high, later)) {
        return;
    }
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && high >= limit.rlim_cur) {
        high = limit.rlim_cur > 0 ? (unsigned)limit.rlim_cur - 1 : 0;
    }
    for (unsigned fd = low; fd <= high; fd++) {
        close_one(fd, later);
    }
}
