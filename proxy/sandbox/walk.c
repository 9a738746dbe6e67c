/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bounded walk, see the header. Any thread.
 */
#include "config.h"

#include "common/clock.h"
#include "common/kernel.h"
#include "proxy/sandbox/walk.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    MAX_DEPTH = 64, /* open folders at a time */
    CLOCK_EVERY = 64,
};

struct place {
    char path[PATH_MAX];
    size_t n;
    uint64_t device;
    unsigned depth;
};

int
fy_open_beneath(int folder, const char *path, uint64_t flags, uint64_t resolve)
{
    const struct open_how how = {.flags = flags | O_CLOEXEC,
                                 .resolve = RESOLVE_BENEATH |
                                            RESOLVE_NO_MAGICLINKS | resolve};
    int fd;
    unsigned tries = 0;
    do {
        fd = fy_openat2(folder, path, &how);
    } while (fd < 0 && (errno == EINTR || (errno == EAGAIN && tries++ < 16)));
    return fd;
}

static uint64_t
device_of(const struct statx *facts)
{
    return (uint64_t)facts->stx_dev_major << 32 | facts->stx_dev_minor;
}

/* Whether one more may be looked at. */
static bool
allowed(struct fy_walk *walk)
{
    if (walk->entries_left == 0) {
        walk->complete = false;
        return false;
    }
    walk->entries_left--;
    if (walk->entries_left % CLOCK_EVERY == 0) {
        if (fy_clock_ns() >= walk->end_ns) {
            walk->complete = false;
            walk->entries_left = 0;
            return false;
        }
    }
    return true;
}

static int
stat_at(int folder, const char *name, struct statx *out)
{
    int flags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT;
    return statx(folder, name, flags | (*name ? 0 : AT_EMPTY_PATH),
                 STATX_BASIC_STATS | STATX_BTIME, out);
}

/* Everything in the folder `fd', which is taken. */
static void
walk_folder(struct fy_walk *walk, int fd, struct place *place)
{
    DIR *folder = place->depth < MAX_DEPTH ? fdopendir(fd) : NULL;
    if (!folder) {
        walk->complete = false;
        (void)close(fd);
        return;
    }
    struct dirent *entry;
    size_t before = place->n;
    place->depth++;
    for (errno = 0; (entry = readdir(folder)); errno = 0) {
        struct statx facts;
        size_t n = strlen(entry->d_name);
        if (strcmp(entry->d_name, ".") == 0 ||
            strcmp(entry->d_name, "..") == 0 ||
            (walk->wanted && !walk->wanted(walk->context, entry->d_name))) {
            continue;
        }
        if (!allowed(walk)) {
            break;
        }
        if (before + 1 + n >= sizeof place->path) {
            walk->complete = false;
            continue;
        }
        if (stat_at(dirfd(folder), entry->d_name, &facts) < 0) {
            walk->complete &= errno == ENOENT; /* it went away */
            continue;
        }
        place->path[before] = '/';
        memcpy(place->path + before + 1, entry->d_name, n + 1);
        place->n = before + 1 + n;
        walk->found(walk->context, place->path, &facts);
        if (!S_ISDIR(facts.stx_mode) || device_of(&facts) != place->device ||
            (walk->enters &&
             !walk->enters(walk->context, place->path, place->depth))) {
            continue;
        }
        int below = openat(dirfd(folder), entry->d_name,
                           O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (below >= 0) {
            walk_folder(walk, below, place);
        } else {
            walk->complete = false;
        }
    }
    walk->complete &= entry || errno == 0;
    place->depth--;
    place->n = before;
    place->path[before] = '\0';
    (void)closedir(folder);
}

void
fy_walk(struct fy_walk *walk, int root_fd, const char *prefix, const char *name,
        bool tree)
{
    struct place place = {.depth = 0};
    struct statx facts;
    bool itself = strcmp(name, ".") == 0;
    int n = snprintf(place.path, sizeof place.path, "%s%s%s", prefix,
                     itself ? "" : "/", itself ? "" : name);
    if (n < 0 || (size_t)n >= sizeof place.path || !allowed(walk)) {
        walk->complete = false;
        return;
    }
    place.n = (size_t)n;
    int fd = fy_open_beneath(root_fd, name, O_PATH, 0);
    if (fd < 0) {
        walk->complete &= errno == ENOENT || errno == ENOTDIR;
        return;
    }
    if (stat_at(fd, "", &facts) == 0) {
        walk->found(walk->context, place.path, &facts);
        if (tree && S_ISDIR(facts.stx_mode)) {
            int folder =
                fy_open_beneath(root_fd, name, O_RDONLY | O_DIRECTORY, 0);
            place.device = device_of(&facts);
            if (folder >= 0) {
                walk_folder(walk, folder, &place);
            } else {
                walk->complete = false;
            }
        }
    } else {
        walk->complete = false;
    }
    (void)close(fd);
}

/* The path of `fd' beneath that of `root_fd', "." for itself; false: unknown. */
static bool
real_name(int root_fd, int fd, char out[PATH_MAX])
{
    char link[64], root[PATH_MAX], path[PATH_MAX];
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", root_fd);
    ssize_t top = readlink(link, root, sizeof root);
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (top < 1 || top >= PATH_MAX || n < top || n >= PATH_MAX - 1 ||
        memcmp(root, path, (size_t)top) != 0) {
        return false;
    }
    path[n] = '\0';
    top -= root[top - 1] == '/'; /* the root of all */
    if (path[top] && path[top] != '/') {
        return false;
    }
    const char *rest = path[top] && path[top + 1] ? path + top + 1 : ".";
    memcpy(out, rest, strlen(rest) + 1);
    return true;
}

bool
fy_walk_up(char *name)
{
    char *slash = strrchr(name, '/');
    if (strcmp(name, ".") == 0) {
        return false;
    }
    if (slash) {
        *slash = '\0';
    } else {
        memcpy(name, ".", sizeof ".");
    }
    return true;
}

void
fy_walk_behind(struct fy_walk *walk, int root_fd, const char *prefix,
               const char *name, bool tree)
{
    char at[PATH_MAX], real[PATH_MAX];
    size_t n = strlen(name);
    if (n >= sizeof at) {
        walk->complete = false;
        return;
    }
    memcpy(at, name, n + 1);
    int fd;
    do {
        fd = fy_open_beneath(root_fd, at, O_PATH, RESOLVE_NO_SYMLINKS);
        if (fd >= 0 || errno != ELOOP) {
            /* No link on the way: the name is the real one. */
            if (fd >= 0) {
                (void)close(fd);
            }
            return;
        }
        fd = fy_open_beneath(root_fd, at, O_PATH, 0);
        if (fd < 0 && errno != ENOENT && errno != ENOTDIR) {
            walk->complete = false;
            return;
        }
    } while (fd < 0 && fy_walk_up(at)); /* it is gone: the folder it was in */
    if (fd < 0) {
        return;
    }
    bool known = real_name(root_fd, fd, real);
    (void)close(fd);
    if (!known) {
        walk->complete = false;
        return;
    }
    fy_walk(walk, root_fd, prefix, real, tree && strcmp(at, name) == 0);
    while (fy_walk_up(real)) {
        fy_walk(walk, root_fd, prefix, real, false);
    }
}

/* Adds the parts of `path' to out, which is absolute and clean. */
static bool
join(const char *path, char *out, size_t *used, size_t capacity)
{
    while (*path) {
        size_t n = strcspn(path, "/");
        if (n == 2 && strncmp(path, "..", 2) == 0) {
            return false;
        }
        if (n && !(n == 1 && *path == '.')) {
            if (*used + 1 + n >= capacity) {
                return false;
            }
            out[(*used)++] = '/';
            memcpy(out + *used, path, n);
            *used += n;
        }
        path += n;
        path += *path == '/';
    }
    out[*used] = '\0';
    return true;
}

bool
fy_walk_name(const char *mount, const char *cwd, const char *path, char *out,
             size_t capacity)
{
    char whole[PATH_MAX] = "", clean[PATH_MAX] = "";
    size_t used = 0, n = 0;
    if (!join(mount, clean, &n, sizeof clean) ||
        (*path != '/' && !join(cwd, whole, &used, sizeof whole)) ||
        !join(path, whole, &used, sizeof whole)) {
        return false;
    }
    if (strncmp(whole, clean, n) != 0 || (whole[n] && whole[n] != '/')) {
        return false;
    }
    const char *rest = whole[n] ? whole + n + 1 : ".";
    size_t bytes = strlen(rest) + 1;
    if (bytes > capacity) {
        return false;
    }
    memcpy(out, rest, bytes);
    return true;
}

bool
fy_name_related(const char *entry, const char *name, size_t n)
{
    size_t stem = n, bytes = strlen(entry);
    for (size_t i = 1; i < n; i++) {
        stem = name[i] == '.' ? i : stem;
    }
    return strncmp(entry, name, stem) == 0 ||
           (bytes < n && memcmp(entry, name, bytes) == 0 &&
            !isalnum((unsigned char)name[bytes]));
}
