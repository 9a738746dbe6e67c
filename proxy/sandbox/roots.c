/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Roots and what lies beneath them: the client's paths become descriptors here
 * and nowhere else. Refuses whatever leaves a root or might mean something else
 * to the client, even where it would be harmless.
 */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/path.h"
#include "proxy/sandbox/policy.h"
#include "proxy/sandbox/walk.h"
#include "proxy/storage/mounts.h"
#include "proxy/wire/transport.h"

enum {
    LINKS_MAX = 40,       /* as the kernel */
    FOLLOWED_MAX = 20000, /* entries of a tree whose links are followed */
    TARGETS_MAX = 300000, /* ... are read */
    FOLLOWED_DEPTH_MAX = 64,
};

int
fy_refuse(unsigned *out_reason, unsigned reason, struct fy_buffer *why,
          const char *a, const char *b, const char *c)
{
    *out_reason = reason;
    fy_buffer_printf(why, "%s%s%s", a ? a : "", b ? b : "", c ? c : "");
    return FY_ERR_UNSUPPORTED;
}

/* The true path of a descriptor's folder, marked by the kernel if it was removed;
 * false: none. */
static bool
true_path(int fd, char *out, size_t capacity)
{
    char link[40];
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, out, capacity);
    if (n <= 0 || (size_t)n >= capacity) {
        return false;
    }
    out[n] = '\0';
    return out[0] == '/';
}

int
fy_root_open(const char *path, struct fy_root *out)
{
    int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct stat about;
    if (fd < 0) {
        return FY_ERR_IO;
    }
    if (fstat(fd, &about) != 0 || !true_path(fd, out->path, sizeof out->path)) {
        close(fd);
        return FY_ERR_IO;
    }
    out->fd = fd;
    out->device = about.st_dev;
    out->inode = about.st_ino;
    return 0;
}

void
fy_root_close(struct fy_root *root)
{
    if (root->fd >= 0) {
        close(root->fd);
    }
    root->fd = -1;
}

int
fy_roots_find(struct fy_policy *policy, const char *path, struct fy_root *out,
              unsigned *out_reason, struct fy_buffer *why)
{
    char whole[PATH_MAX];
    int n = 0;
    if (path[0] == '~' && (!path[1] || path[1] == '/')) {
        n = snprintf(whole, sizeof whole, "%s%s", policy->home, path + 1);
    } else {
        n = snprintf(whole, sizeof whole, "%s", path);
    }
    if (n <= 0 || (size_t)n >= sizeof whole || whole[0] != '/') {
        return fy_refuse(out_reason, FY_STAGE_OUTSIDE, why,
                         "not an absolute folder: ", path, NULL);
    }
    if (fy_root_open(whole, out) != 0) {
        return fy_refuse(out_reason, FY_STAGE_OUTSIDE, why, whole, ": ",
                         strerrordesc_np(errno));
    }
    return 0;
}

int
fy_policy_open_root(struct fy_policy *policy, const char *root, int *out_fd,
                    unsigned *out_reason, struct fy_buffer *why)
{
    struct fy_root found;
    int status = fy_roots_find(policy, root, &found, out_reason, why);
    if (!status) {
        *out_fd = found.fd;
    }
    return status;
}

/* The next component of a path; its length in *n, 0 at the end. */
static const char *
component(const char *at, size_t *n)
{
    do {
        at += strspn(at, "/");
        *n = strcspn(at, "/");
    } while (*n == 1 && at[0] == '.' && (at += 1));
    return at;
}

bool
fy_client_relative(const char *mount, const char *path, char *out,
                   size_t capacity)
{
    if (path[0] != '/') {
        return false;
    }
    for (;;) {
        size_t in_mount, in_path;
        mount = component(mount, &in_mount);
        path = component(path, &in_path);
        if (!in_mount) {
            break;
        }
        if (in_mount != in_path || memcmp(mount, path, in_path) != 0 ||
            (in_path == 2 && memcmp(path, "..", 2) == 0)) {
            return false;
        }
        mount += in_mount;
        path += in_path;
    }
    size_t n = strlen(path);
    if (n >= capacity || capacity < 2) {
        return false;
    }
    strcpy(out, *path ? path : ".");
    return true;
}

struct fy_seen *
fy_seen_of(struct fy_seen *seen, unsigned n, const char *path, char *out,
           size_t capacity)
{
    for (unsigned i = 0; i < n; i++) {
        if (fy_client_relative(seen[i].mount, path, out, capacity)) {
            return &seen[i];
        }
    }
    return NULL;
}

static bool
has_dot_dot(const char *path)
{
    for (size_t n; *path; path += n) {
        path += strspn(path, "/");
        n = strcspn(path, "/");
        if (n == 2 && memcmp(path, "..", 2) == 0) {
            return true;
        }
    }
    return false;
}

/* A link that means the same to everybody: it stays below its own folder. */
static bool
is_plain(const char *target)
{
    return *target && *target != '/' && !has_dot_dot(target);
}

/*
 * Walks `relative' by hand and looks at every link on the way. True when all
 * are plain; what is missing ends the walk.
 */
static bool
links_are_plain(int root, const char *relative)
{
    char rest[PATH_MAX], target[PATH_MAX], done[PATH_MAX];
    unsigned links = 0;
    if (strlen(relative) >= sizeof rest) {
        return false;
    }
    strcpy(rest, relative);
    done[0] = '\0';
    char *at = rest;
    for (;;) {
        size_t n;
        at = (char *)component(at, &n);
        if (!n) {
            return true;
        }
        size_t used = strlen(done);
        if (used + n + 2 > sizeof done) {
            return false;
        }
        memcpy(done + used, at, n);
        done[used + n] = '\0';
        at += n;
        int fd = fy_open_beneath(root, done, O_PATH | O_NOFOLLOW,
                                 RESOLVE_NO_SYMLINKS);
        if (fd < 0) {
            return errno == ENOENT || errno == ENOTDIR;
        }
        ssize_t got = readlinkat(fd, "", target, sizeof target - 1);
        close(fd);
        if (got < 0) {
            strcpy(done + used + n, "/");
            continue;
        }
        target[got] = '\0';
        size_t left = strlen(at);
        if (++links > LINKS_MAX || !is_plain(target) ||
            (size_t)got + left + 2 > sizeof target) {
            return false;
        }
        done[used] = '\0';
        memcpy(target + got, at, left + 1);
        strcpy(rest, target);
        at = rest;
    }
}

/* Every link in the tree, or with `shallow' in the folder, is plain. Bounded;
 * false when it is too large. */
static bool
tree_is_plain(int folder, bool shallow, unsigned depth, unsigned *entries_left)
{
    DIR *dir = fy_folder_open(folder, ".");
    bool plain = depth < FOLLOWED_DEPTH_MAX && dir;
    if (!dir) {
        /* Neither can the command; but be sure that it is for that reason. */
        return errno == EACCES;
    }
    struct dirent *entry;
    for (errno = 0; plain && (entry = readdir(dir)); errno = 0) {
        if (strcmp(entry->d_name, ".") == 0 ||
            strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        unsigned type = entry->d_type;
        struct stat about;
        if (type == DT_UNKNOWN) {
            plain = fstatat(dirfd(dir), entry->d_name, &about,
                            AT_SYMLINK_NOFOLLOW) == 0;
            type = plain ? IFTODT(about.st_mode) : DT_UNKNOWN;
        }
        plain = plain && *entries_left && --*entries_left;
        if (plain && type == DT_LNK) {
            char target[PATH_MAX];
            ssize_t n = readlinkat(dirfd(dir), entry->d_name, target,
                                   sizeof target - 1);
            target[n > 0 ? n : 0] = '\0';
            plain = n > 0 && is_plain(target);
        } else if (plain && type == DT_DIR && !shallow) {
            int below = openat(dirfd(dir), entry->d_name,
                               O_PATH | O_NOFOLLOW | O_DIRECTORY | O_CLOEXEC);
            plain = below >= 0 &&
                    tree_is_plain(below, false, depth + 1, entries_left);
            if (below >= 0) {
                close(below);
            }
        }
    }
    plain = plain && errno == 0;
    closedir(dir);
    return plain;
}

static bool
is_owned(const struct stat *about)
{
    return about->st_uid == geteuid() && about->st_gid == getegid();
}

/* Down to `depth' folders below this one; bounded. */
static bool
tree_is_owned(int folder, unsigned depth, unsigned *entries)
{
    DIR *dir = fy_folder_open(folder, ".");
    if (!dir) {
        return false;
    }
    bool owned = true;
    struct dirent *entry;
    /* ".." too: a long listing shows it. */
    for (errno = 0; owned && (entry = readdir(dir)); errno = 0) {
        struct stat about;
        owned = ++*entries <= FOLLOWED_MAX &&
                fstatat(dirfd(dir), entry->d_name, &about,
                        AT_SYMLINK_NOFOLLOW) == 0 &&
                is_owned(&about);
        if (!owned || !depth || !S_ISDIR(about.st_mode) ||
            strcmp(entry->d_name, ".") == 0 ||
            strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        int below = openat(dirfd(dir), entry->d_name,
                           O_PATH | O_NOFOLLOW | O_DIRECTORY | O_CLOEXEC);
        owned = below >= 0 && tree_is_owned(below, depth - 1, entries);
        if (below >= 0) {
            close(below);
        }
    }
    owned = owned && errno == 0;
    closedir(dir);
    return owned;
}

bool
fy_all_owned(int fd, bool tree)
{
    struct stat about;
    unsigned entries = 0;
    if (fstat(fd, &about) != 0 || !is_owned(&about)) {
        return false;
    }
    return !S_ISDIR(about.st_mode) ||
           tree_is_owned(fd, tree ? FOLLOWED_DEPTH_MAX : 0, &entries);
}

static bool
has_mounts_below(int fd)
{
    char path[PATH_MAX];
    if (!true_path(fd, path, sizeof path)) {
        return true;
    }
    char **below = fy_mounts_below(path, NULL);
    bool some = !below || *below;
    free(below);
    return some;
}

static int
resolve_kind(int fd, unsigned flags, const char *shown, unsigned *out_reason,
             struct fy_buffer *why)
{
    struct stat about;
    if (fstat(fd, &about) != 0) {
        return fy_refuse(out_reason, FY_STAGE_UNCLEAR_PATH, why, shown,
                         ": cannot be looked at", NULL);
    }
    bool folder = S_ISDIR(about.st_mode);
    if (!folder && !S_ISREG(about.st_mode)) {
        return fy_refuse(out_reason, FY_STAGE_UNCLEAR_PATH, why, shown,
                         " is neither a file nor a folder", NULL);
    }
    if (!folder && flags & FY_RESOLVE_FOLDER) {
        return fy_refuse(out_reason, FY_STAGE_UNCLEAR_PATH, why, shown,
                         " is no folder", NULL);
    }
    if (folder && flags & FY_RESOLVE_TREE && has_mounts_below(fd)) {
        return fy_refuse(out_reason, FY_STAGE_NESTED_MOUNT, why,
                         "another mount lies below ", shown, NULL);
    }
    bool shallow = (flags & FY_RESOLVE_SHALLOW) != 0;
    unsigned entries = FOLLOWED_MAX;
    if (folder && flags & FY_RESOLVE_FOLLOWS &&
        !tree_is_plain(fd, shallow, 0, &entries)) {
        return fy_refuse(out_reason, FY_STAGE_UNCLEAR_PATH, why, "links below ",
                         shown, " would be followed and may leave the mount");
    }
    entries = TARGETS_MAX;
    if (folder && flags & FY_RESOLVE_TARGETS &&
        !tree_is_plain(fd, shallow, 0, &entries)) {
        return fy_refuse(out_reason, FY_STAGE_OTHER_NAMES, why, "links below ",
                         shown, " cannot be read through the mount");
    }
    return 0;
}

int
fy_resolve(const struct fy_root *root, const char *relative, unsigned flags,
           const char *shown, int *out_fd, unsigned *out_reason,
           struct fy_buffer *why)
{
    if (strlen(relative) >= PATH_MAX) {
        return fy_refuse(out_reason, FY_STAGE_UNCLEAR_PATH, why,
                         "a path is too long", NULL, NULL);
    }
    uint64_t resolve = root->exported ? RESOLVE_NO_XDEV : 0;
    if (root->exported && flags & FY_RESOLVE_SHOWS) {
        flags |= FY_RESOLVE_TREE;
    }
    int fd = fy_open_beneath(root->fd, relative, O_PATH,
                             resolve | RESOLVE_NO_SYMLINKS);
    if (fd < 0 && errno == ELOOP) {
        if (!links_are_plain(root->fd, relative)) {
            return fy_refuse(out_reason, FY_STAGE_UNCLEAR_PATH, why, shown,
                             " goes through a link that may leave the mount",
                             NULL);
        }
        fd = fy_open_beneath(root->fd, relative, O_PATH, resolve);
    }
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR) &&
        flags & FY_RESOLVE_MISSING) {
        /* mkdir -p could make the missing part and then leave the mount. */
        if (has_dot_dot(relative)) {
            return fy_refuse(out_reason, FY_STAGE_UNCLEAR_PATH, why, shown,
                             " does not exist and goes back by ..", NULL);
        }
        *out_fd = -1;
        return 0;
    }
    if (fd < 0 && errno == EXDEV) {
        return fy_refuse(out_reason, FY_STAGE_UNCLEAR_PATH, why, shown,
                         " leaves the mount", NULL);
    }
    if (fd < 0) {
        return fy_refuse(out_reason, FY_STAGE_UNCLEAR_PATH, why, shown, ": ",
                         strerrordesc_np(errno));
    }
    int status = resolve_kind(fd, flags, shown, out_reason, why);
    if (status) {
        close(fd);
        return status;
    }
    *out_fd = fd;
    return 0;
}
