/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that change names. Each is carried out alone, so between its look at a name
 * and the change only other programs of this host can come.
 */
#include "config.h"

#include "proxy/files/server/server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    MODE_BITS = 07777,
    SET_ID_BITS = S_ISUID | S_ISGID,
};

/* Of a name in a folder, which must be that inode (0: any). */
static int
look_at(const struct fy_files_server *server, int folder, const char *name,
        uint64_t ino, struct stat *out)
{
    if (fstatat(folder, name, out, AT_SYMLINK_NOFOLLOW) != 0) {
        return -errno;
    }
    return ino && fy_files_ino(server, out->st_dev, out->st_ino) != ino
               ? -ESTALE
               : 0;
}

/* The path of a name in a folder; new. NULL: no memory. */
static char *
join(const struct fy_files_bytes *folder, const struct fy_files_bytes *name,
     struct fy_files_bytes *out)
{
    size_t n = folder->n;
    char *path = malloc(n + 1 + name->n);
    if (!path) {
        return NULL;
    }
    if (n) {
        memcpy(path, folder->at, n);
        path[n++] = '/';
    }
    memcpy(path + n, name->at, name->n);
    *out = (struct fy_files_bytes){path, n + name->n};
    return path;
}

/* ---- make --------------------------------------------------------------------------- */

/* Opens the existing regular file of that name, and empties it if that was asked. */
static int
use_file(struct fy_files_request *request, int folder, const char *name,
         struct stat *about)
{
    struct fy_files_server *server = request->server;
    struct fy_files_object *object;
    int status = look_at(server, folder, name, 0, about);
    if (status || !S_ISREG(about->st_mode)) {
        return status ? status : -EEXIST;
    }
    if (!(request->message.flags & FY_FILES_TRUNCATE)) {
        return 0;
    }
    /* Behind the writes that came before by another name. */
    struct fy_files_node node = {
        .ino = fy_files_ino(server, about->st_dev, about->st_ino),
        .path.at = ""};
    if (fy_files_borrow(server, &node, FY_FILES_PATH, &object) == 0) {
        fy_files_take_turn(request, object);
    }
    int fd = openat(folder, name,
                    O_WRONLY | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY |
                        O_CLOEXEC);
    if (fd < 0) {
        return -errno;
    }
    status = fstat(fd, about) != 0 ? -errno : 0;
    (void)close(fd);
    return status;
}

/* A regular file; *out_made: it was not there. */
static int
make_file(struct fy_files_request *request, int folder, const char *name,
          struct stat *about, bool *out_made)
{
    struct fy_files_server *server = request->server;
    const struct fy_files_message *message = &request->message;
    int fd =
        openat(folder, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
               message->mode & MODE_BITS);
    if (fd < 0 && errno == EEXIST && !(message->flags & FY_FILES_EXCLUSIVE)) {
        *out_made = false;
        return use_file(request, folder, name, about);
    }
    if (fd < 0) {
        return -errno;
    }
    if (fstat(fd, about) != 0) {
        int error = errno;
        (void)close(fd);
        return -error;
    }
    fy_files_adopt(server, fy_files_untouched(fd, O_RDWR), about);
    return 0;
}

static int
make_other(struct fy_files_server *server,
           const struct fy_files_message *message, int folder, const char *name,
           struct stat *about)
{
    mode_t type = message->mode & S_IFMT;
    int status;
    if (S_ISDIR(type)) {
        status = mkdirat(folder, name, message->mode & MODE_BITS);
    } else if (S_ISLNK(type)) {
        char *target = strndup(message->other_name.at, message->other_name.n);
        status = target ? symlinkat(target, folder, name) : -1;
        free(target);
    } else {
        status = mknodat(folder, name, message->mode, message->rdev);
    }
    return status != 0 ? -errno : look_at(server, folder, name, 0, about);
}

/* Watches a folder that was just made. */
static uint64_t
watch_made(struct fy_files_server *server,
           const struct fy_files_message *message, int folder, const char *name,
           const struct stat *about)
{
    struct fy_files_bytes path;
    uint64_t number = 0;
    char *joined = join(&message->node.path, &message->name, &path);
    int fd = joined ? openat(folder, name,
                             O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                    : -1;
    if (fd >= 0) {
        number = fy_files_watch(server, fd, &path, about);
        (void)close(fd);
    }
    free(joined);
    return number;
}

/* Types that may be made. */
static int
check_make(const struct fy_files_server *server,
           const struct fy_files_message *message)
{
    mode_t type = message->mode & S_IFMT;
    bool devices = (server->flags & FY_FILES_DEVICES) != 0;
    if (!S_ISREG(type) && !S_ISDIR(type) && !S_ISLNK(type) && !S_ISFIFO(type) &&
        !S_ISSOCK(type) && !S_ISCHR(type) && !S_ISBLK(type)) {
        return -EINVAL;
    }
    if (!devices && (S_ISCHR(type) || S_ISBLK(type) ||
                     (!S_ISDIR(type) && message->mode & SET_ID_BITS))) {
        return -EPERM;
    }
    return 0;
}

int
fy_files_make(struct fy_files_request *request, struct fy_files_message *answer)
{
    struct fy_files_server *server = request->server;
    const struct fy_files_message *message = &request->message;
    char name[FY_FILES_NAME_BYTES + 1];
    struct stat about = {0};
    bool made = true;
    int folder;
    int status = check_make(server, message);
    status = status
                 ? status
                 : fy_files_open_folder(server, &message->node, &folder, NULL);
    if (status) {
        return status;
    }
    fy_files_name(&message->name, name);
    status = fy_files_user_begin(server, message->uid, message->gid);
    if (status) {
        goto close_folder;
    }
    status = S_ISREG(message->mode)
                 ? make_file(request, folder, name, &about, &made)
                 : make_other(server, message, folder, name, &about);
    fy_files_user_end(server);
    if (!status && message->keep) {
        status = fy_files_keep(server, message->keep, folder, name, &about);
    }
    if (!status) {
        answer->flags = made ? FY_FILES_MADE : 0;
        answer->number = S_ISDIR(about.st_mode)
                             ? watch_made(server, message, folder, name, &about)
                             : 0;
        fy_files_attr_of(server, &about, &answer->attr);
        status = fy_files_attr_at(server, folder, &answer->other_attr);
    }
close_folder:
    (void)close(folder);
    return status;
}

/* ---- link --------------------------------------------------------------------------- */

int
fy_files_link(struct fy_files_request *request, struct fy_files_message *answer)
{
    struct fy_files_server *server = request->server;
    const struct fy_files_message *message = &request->message;
    char name[FY_FILES_NAME_BYTES + 1], path[32];
    struct fy_files_object *object;
    int folder;
    int status =
        fy_files_borrow(server, &message->node, FY_FILES_PATH, &object);
    if (status) {
        return status;
    }
    status = fy_files_open_folder(server, &message->other, &folder, NULL);
    if (status) {
        goto give_back;
    }
    fy_files_name(&message->name, name);
    fy_files_fd_path(fy_files_fd(object), path);
    if (linkat(AT_FDCWD, path, folder, name, AT_SYMLINK_FOLLOW) != 0) {
        status = -errno;
    }
    status = status
                 ? status
                 : fy_files_attr_at(server, fy_files_fd(object), &answer->attr);
    status =
        status ? status : fy_files_attr_at(server, folder, &answer->other_attr);
    (void)close(folder);
give_back:
    fy_files_return(server, object);
    return status;
}

/* ---- remove, rename -------------------------------------------------------------------- */

/* The attributes of a file that has lost a name, `before' as it was; `held': O_PATH of
 * it. */
static int
attr_after(const struct fy_files_server *server, int held,
           const struct stat *before, struct fy_files_attr *out)
{
    if (held >= 0) {
        return fy_files_attr_at(server, held, out);
    }
    fy_files_attr_of(server, before, out);
    out->nlink = 0;
    return 0;
}

int
fy_files_remove(struct fy_files_request *request,
                struct fy_files_message *answer)
{
    struct fy_files_server *server = request->server;
    const struct fy_files_message *message = &request->message;
    char name[FY_FILES_NAME_BYTES + 1];
    struct stat about;
    int folder, held = -1;
    int status = fy_files_open_folder(server, &message->node, &folder, NULL);
    if (status) {
        return status;
    }
    fy_files_name(&message->name, name);
    status = look_at(server, folder, name, message->number, &about);
    if (!status && message->keep) {
        status = fy_files_keep(server, message->keep, folder, name, &about);
    }
    if (status) {
        goto close_folder;
    }
    bool is_folder = (message->flags & FY_FILES_FOLDER) != 0;
    if (!is_folder && about.st_nlink > 1) {
        held = openat(folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    }
    if (unlinkat(folder, name, is_folder ? AT_REMOVEDIR : 0) != 0) {
        status = -errno;
        if (message->keep) {
            fy_files_unkeep(server, message->keep);
        }
        goto close_folder;
    }
    if (about.st_nlink == 1) {
        fy_files_drop(server, &about);
    }
    status = attr_after(server, held, &about, &answer->attr);
    status =
        status ? status : fy_files_attr_at(server, folder, &answer->other_attr);
close_folder:
    if (held >= 0) {
        (void)close(held);
    }
    (void)close(folder);
    return status;
}

/* A folder, with the watched ones below it. In an exchange of two, those of the other one
 * are lost when something changes there. 0 or a negative errno. */
static int
rename_folder(struct fy_files_server *server,
              const struct fy_files_message *message, int from,
              const char *name, int to, const char *new_name)
{
    struct fy_files_bytes before, after;
    char *old = join(&message->node.path, &message->name, &before);
    char *new = join(&message->other.path, &message->other_name, &after);
    int status = old && new ? 0 : -ENOMEM;
    if (!status) {
        fy_files_watch_move(server);
        status = renameat2(from, name, to, new_name, message->flags) != 0
                     ? -errno
                     : 0;
        fy_files_watch_moved(server, status ? NULL : &before, &after);
    }
    free(old);
    free(new);
    return status;
}

/* Between two open folders. */
static int
rename_between(struct fy_files_server *server,
               const struct fy_files_message *message, int from, int to,
               struct fy_files_message *answer)
{
    char name[FY_FILES_NAME_BYTES + 1], new_name[FY_FILES_NAME_BYTES + 1];
    struct stat about, replaced;
    fy_files_name(&message->name, name);
    fy_files_name(&message->other_name, new_name);
    int status = look_at(server, from, name, message->number, &about);
    if (status) {
        return status;
    }
    status = look_at(server, to, new_name, message->length, &replaced);
    bool replaces = status == 0;
    if (status && (status != -ENOENT || message->length)) {
        return status == -ENOENT ? -ESTALE : status;
    }
    bool exchanges = (message->flags & RENAME_EXCHANGE) != 0;
    bool keeps = message->keep && replaces && !exchanges;
    status = keeps
                 ? fy_files_keep(server, message->keep, to, new_name, &replaced)
                 : 0;
    if (status) {
        return status;
    }
    if (S_ISDIR(about.st_mode)) {
        status = rename_folder(server, message, from, name, to, new_name);
    } else if (renameat2(from, name, to, new_name, message->flags) != 0) {
        status = -errno;
    }
    if (status) {
        if (keeps) {
            fy_files_unkeep(server, message->keep);
        }
        return status;
    }
    if (replaces && !exchanges && replaced.st_nlink == 1) {
        fy_files_drop(server, &replaced);
    }
    /* Others may have taken it away since: it was renamed all the same. */
    if (look_at(server, to, new_name, 0, &replaced) == 0 &&
        replaced.st_ino == about.st_ino) {
        about = replaced;
    }
    fy_files_attr_of(server, &about, &answer->attr);
    status = fy_files_attr_at(server, from, &answer->other_attr);
    return status ? status : fy_files_attr_at(server, to, &answer->third_attr);
}

int
fy_files_rename(struct fy_files_request *request,
                struct fy_files_message *answer)
{
    struct fy_files_server *server = request->server;
    const struct fy_files_message *message = &request->message;
    int from, to;
    if (message->flags & ~(unsigned)(RENAME_NOREPLACE | RENAME_EXCHANGE)) {
        return -EINVAL;
    }
    int status = fy_files_open_folder(server, &message->node, &from, NULL);
    if (status) {
        return status;
    }
    status = fy_files_open_folder(server, &message->other, &to, NULL);
    if (!status) {
        status = rename_between(server, message, from, to, answer);
        (void)close(to);
    }
    (void)close(from);
    return status;
}
