/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests about attributes, plain and extended, and about links' targets. Extended
 * attributes are reached through /proc/self/fd, which leads to the very object.
 */
#include "config.h"

#include "proxy/files/server/server.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

enum {
    MODE_BITS = 07777,
    SET_ID_BITS = S_ISUID | S_ISGID,
    VALUE_BYTES = 64 << 10, /* of an extended attribute, or of their names */
};

/* A link's target behind `request', for the answer to borrow. */
static int
read_target(struct fy_files_request *request, int fd,
            struct fy_files_bytes *out)
{
    char *target = malloc(PATH_MAX);
    if (!target) {
        return -ENOMEM;
    }
    request->scratch.bytes = target;
    ssize_t n = readlinkat(fd, "", target, PATH_MAX);
    if (n < 0) {
        return -errno;
    }
    *out = (struct fy_files_bytes){target, (size_t)n};
    return 0;
}

int
fy_files_lookup(struct fy_files_request *request,
                struct fy_files_message *answer)
{
    struct fy_files_server *server = request->server;
    const struct fy_files_node *node = &request->message.node;
    char name[FY_FILES_NAME_BYTES + 1];
    struct stat about;
    int folder;
    int status = fy_files_open_folder(server, node, &folder, &about);
    if (status) {
        return status;
    }
    /* Before the look: later changes are told. */
    answer->number = fy_files_watch(server, folder, &node->path, &about);
    fy_files_name(&request->message.name, name);
    int found = fstatat(folder, name, &about, AT_SYMLINK_NOFOLLOW);
    if (found != 0 && errno != ENOENT) {
        status = -errno;
    }
    if (found == 0) {
        answer->flags = FY_FILES_PRESENT;
        fy_files_attr_of(server, &about, &answer->attr);
    }
    if (found == 0 && S_ISLNK(about.st_mode)) {
        int link = openat(folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        status = link < 0 ? -errno : read_target(request, link, &answer->data);
        if (link >= 0) {
            (void)close(link);
        }
    }
    (void)close(folder);
    return status;
}

int
fy_files_getattr(struct fy_files_request *request,
                 struct fy_files_message *answer)
{
    return fy_files_attr_at(request->server, fy_files_fd(request->object),
                            &answer->attr);
}

int
fy_files_readlink(struct fy_files_request *request,
                  struct fy_files_message *answer)
{
    if (!S_ISLNK(request->object->type)) {
        return -EINVAL;
    }
    return read_target(request, request->object->path, &answer->data);
}

/* ---- setattr -------------------------------------------------------------------------- */

/* By the descriptor that writes, if there is one: its right outlives the mode's. */
static int
set_size(const struct fy_files_object *object, uint64_t size)
{
    char path[32];
    if (size > INT64_MAX) {
        return -EINVAL;
    }
    if (object->writes >= 0) {
        return ftruncate(object->writes, (off_t)size) != 0 ? -errno : 0;
    }
    fy_files_fd_path(fy_files_fd(object), path);
    return truncate(path, (off_t)size) != 0 ? -errno : 0;
}

static int
set_mode(const struct fy_files_server *server, struct fy_files_object *object,
         uint32_t mode)
{
    char path[32];
    struct stat about;
    int fd = fy_files_fd(object);
    if (S_ISLNK(object->type)) {
        return -EOPNOTSUPP;
    }
    mode &= MODE_BITS;
    if (mode & SET_ID_BITS && !S_ISDIR(object->type) &&
        !(server->flags & FY_FILES_DEVICES)) {
        if (fstat(fd, &about) != 0) {
            return -errno;
        }
        if (mode & SET_ID_BITS & ~about.st_mode) {
            return -EPERM;
        }
    }
    fy_files_fd_path(fd, path);
    if (chmod(path, mode) != 0) {
        return -errno;
    }
    object->stays = !(mode & S_IWUSR);
    return 0;
}

static struct timespec
time_of(const struct fy_files_time *time, bool set, bool now)
{
    return (struct timespec){.tv_sec = (time_t)time->seconds,
                             .tv_nsec = now   ? UTIME_NOW
                                        : set ? (long)time->ns
                                              : UTIME_OMIT};
}

int
fy_files_setattr(struct fy_files_request *request,
                 struct fy_files_message *answer)
{
    const struct fy_files_message *message = &request->message;
    struct fy_files_object *object = request->object;
    uint32_t mask = message->mask;
    int fd = fy_files_fd(object);
    int status = fy_files_attr_at(request->server, fd, &answer->other_attr);
    if (!status && mask & FY_FILES_SET_SIZE) {
        bool marked =
            fy_files_own_begin(request->server, answer->other_attr.ino);
        status = set_size(object, message->length);
        fy_files_own_end(request->server, marked);
    }
    /* Nothing: chown(-1, -1), which sets the ctime. */
    if (!status && (!mask || mask & (FY_FILES_SET_UID | FY_FILES_SET_GID))) {
        uid_t uid = mask & FY_FILES_SET_UID ? message->uid : (uid_t)-1;
        gid_t gid = mask & FY_FILES_SET_GID ? message->gid : (gid_t)-1;
        if (fchownat(fd, "", uid, gid, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW)) {
            status = -errno;
        }
    }
    if (!status && mask & FY_FILES_SET_MODE) {
        status = set_mode(request->server, object, message->mode);
    }
    if (!status && mask & (FY_FILES_SET_ATIME | FY_FILES_SET_MTIME |
                           FY_FILES_ATIME_NOW | FY_FILES_MTIME_NOW)) {
        const struct timespec times[] = {
            time_of(&message->atime, mask & FY_FILES_SET_ATIME,
                    mask & FY_FILES_ATIME_NOW),
            time_of(&message->mtime, mask & FY_FILES_SET_MTIME,
                    mask & FY_FILES_MTIME_NOW)};
        if (utimensat(fd, "", times, AT_EMPTY_PATH) != 0) {
            status = -errno;
        }
    }
    return status ? status
                  : fy_files_attr_at(request->server, fd, &answer->attr);
}

int
fy_files_statfs(struct fy_files_request *request,
                struct fy_files_message *answer)
{
    struct statvfs about;
    if (fstatvfs(fy_files_fd(request->object), &about) != 0) {
        return -errno;
    }
    answer->number = about.f_blocks;
    answer->offset = about.f_bfree;
    answer->other_offset = about.f_bavail;
    answer->length = about.f_files;
    answer->keep = about.f_ffree;
    answer->mode = (uint32_t)about.f_frsize;
    answer->mask = (uint32_t)about.f_bsize;
    answer->flags = (uint32_t)about.f_namemax;
    return 0;
}

/* ---- extended attributes ----------------------------------------------------------------- */

/* The path of the object, and the attribute's name. */
struct xattr {
    char path[32];
    char name[XATTR_NAME_MAX + 1];
};

static int
prepare(const struct fy_files_request *request, struct xattr *out)
{
    const struct fy_files_bytes *name = &request->message.name;
    if (name->n > XATTR_NAME_MAX) {
        return -ERANGE;
    }
    if (name->n) {
        memcpy(out->name, name->at, name->n);
    }
    out->name[name->n] = '\0';
    fy_files_fd_path(fy_files_fd(request->object), out->path);
    return 0;
}

/* An attribute that changes the rights of the file, as set-id bits do. */
static bool
is_guarded(const struct fy_files_request *request, const char *name)
{
    return !(request->server->flags & FY_FILES_DEVICES) &&
           strcmp(name, "security.capability") == 0;
}

/* Room for a value; the answer borrows the bytes. */
static char *
value_of(struct fy_files_request *request)
{
    request->scratch.bytes = malloc(VALUE_BYTES);
    return request->scratch.bytes;
}

int
fy_files_getxattr(struct fy_files_request *request,
                  struct fy_files_message *answer)
{
    struct xattr xattr;
    int status = prepare(request, &xattr);
    char *value = status ? NULL : value_of(request);
    if (!value) {
        return status ? status : -ENOMEM;
    }
    ssize_t n = getxattr(xattr.path, xattr.name, value, VALUE_BYTES);
    answer->data = (struct fy_files_bytes){value, n < 0 ? 0 : (size_t)n};
    return n < 0 ? -errno : 0;
}

int
fy_files_listxattr(struct fy_files_request *request,
                   struct fy_files_message *answer)
{
    char path[32], *value = value_of(request);
    if (!value) {
        return -ENOMEM;
    }
    fy_files_fd_path(fy_files_fd(request->object), path);
    ssize_t n = listxattr(path, value, VALUE_BYTES);
    answer->data = (struct fy_files_bytes){value, n < 0 ? 0 : (size_t)n};
    return n < 0 ? -errno : 0;
}

int
fy_files_setxattr(struct fy_files_request *request,
                  struct fy_files_message *answer)
{
    const struct fy_files_message *message = &request->message;
    struct xattr xattr;
    int status = prepare(request, &xattr);
    if (status || is_guarded(request, xattr.name)) {
        return status ? status : -EPERM;
    }
    if (setxattr(xattr.path, xattr.name, message->data.at, message->data.n,
                 (int)message->flags) != 0) {
        return -errno;
    }
    return fy_files_attr_at(request->server, fy_files_fd(request->object),
                            &answer->attr);
}

int
fy_files_removexattr(struct fy_files_request *request,
                     struct fy_files_message *answer)
{
    struct xattr xattr;
    int status = prepare(request, &xattr);
    if (status) {
        return status;
    }
    if (removexattr(xattr.path, xattr.name) != 0) {
        return -errno;
    }
    return fy_files_attr_at(request->server, fy_files_fd(request->object),
                            &answer->attr);
}
