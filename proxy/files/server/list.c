/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LIST: a folder with the attributes of its entries, or a tree of folders, in the order
 * that the file system has: depth first, as programs walk, or under FY_FILES_SOME breadth
 * first, as names near the first folder are the likelier ones to be asked for. Each
 * folder is opened by its path from the root. A part of a folder is one answer; the last
 * answer is held back until it is known to be the last. Under FY_FILES_SOME the first
 * folder may end where the budget does.
 */
#include "config.h"

#include "proxy/files/server/server.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/kernel.h"

enum {
    PART_BYTES = 32 << 10, /* of rows in one answer */
    READ_BYTES = 64 << 10, /* of getdents64(2) */
    FAN_MAX =
        64, /* folders of one whose own entries come under FY_FILES_SOME */
    PART_NS = 1000000, /* parts that are made are kept back, at most */
};

/* Folders whose turn comes later: paths, each between two copies of its length. The next
 * is the first under FY_FILES_SOME, else the last. */
struct pending {
    char *bytes;
    size_t first, n, capacity;
};

struct walk {
    struct fy_files_request *request;
    struct fy_files_message *answer; /* of the part that is made */
    struct fy_files_out rows;        /* of it */
    struct pending pending;
    struct pending
        later;  /* not below the name that comes first, or of very many */
    char *path; /* of the folder that is listed */
    char *entries, target[PATH_MAX];
    uint64_t left;    /* of the budget */
    size_t last;      /* where the last frame begins in the request's scratch */
    uint64_t said_ns; /* when parts were sent last */
    unsigned folders; /* among the entries */
    bool tree, some, first, cut;
};

/* ---- parts ------------------------------------------------------------------------------ */

/* Ends a part. FY_ERR_*: no memory. */
static int
say_part(struct walk *walk, bool whole)
{
    struct fy_files_request *request = walk->request;
    uint64_t now_ns = fy_clock_ns();
    if (request->scratch.n >= PART_BYTES ||
        (request->scratch.n && now_ns - walk->said_ns >= PART_NS)) {
        walk->said_ns = now_ns;
        fy_files_say(request->server, &request->scratch, request->epoch);
        request->scratch.n = 0;
    }
    walk->answer->frame_flags = FY_FILES_ANSWER | FY_FILES_MORE;
    walk->answer->flags = whole ? FY_FILES_WHOLE : 0;
    walk->answer->data =
        (struct fy_files_bytes){walk->rows.bytes, walk->rows.n};
    walk->last = request->scratch.n;
    int status = fy_files_encode(walk->answer, &request->scratch);
    if (!walk->first || walk->some) {
        uint64_t bytes = request->scratch.n - walk->last;
        walk->left = walk->left > bytes ? walk->left - bytes : 0;
    }
    walk->rows.n = 0;
    return status;
}

/* ---- folders ------------------------------------------------------------------------------ */

/* Names beyond the budget are not kept. */
static int
add_pending(struct walk *walk, const char *name, size_t n)
{
    const struct fy_files_bytes *before_all = &walk->request->message.name;
    bool later = walk->first && before_all->n > 0 &&
                 (before_all->n != n || memcmp(before_all->at, name, n) != 0);
    struct pending *pending = later ? &walk->later : &walk->pending;
    size_t before = walk->answer->node.path.n;
    size_t bytes = before + (before > 0) + n;
    if (bytes > FY_FILES_PATH_BYTES ||
        pending->n - pending->first > walk->left) {
        return 0;
    }
    if (pending->capacity - pending->n < bytes + 2 * sizeof bytes) {
        size_t capacity = 2 * pending->capacity + bytes + 4096;
        char *larger = realloc(pending->bytes, capacity);
        if (!larger) {
            return FY_ERR_NOMEM;
        }
        pending->bytes = larger;
        pending->capacity = capacity;
    }
    char *to = pending->bytes + pending->n;
    memcpy(to, &bytes, sizeof bytes);
    to += sizeof bytes;
    if (before) {
        memcpy(to, walk->path, before);
        to[before] = '/';
    }
    memcpy(to + bytes - n, name, n);
    memcpy(to + bytes, &bytes, sizeof bytes);
    pending->n += bytes + 2 * sizeof bytes;
    return 0;
}

/* The next folder's path becomes walk->path; its length. */
static size_t
take_pending(struct walk *walk)
{
    struct pending *pending = &walk->pending;
    size_t bytes, at = pending->first;
    if (walk->some) {
        memcpy(&bytes, pending->bytes + at, sizeof bytes);
        pending->first += bytes + 2 * sizeof bytes;
    } else {
        memcpy(&bytes, pending->bytes + pending->n - sizeof bytes,
               sizeof bytes);
        pending->n -= bytes + 2 * sizeof bytes;
        at = pending->n;
    }
    memcpy(walk->path, pending->bytes + at + sizeof bytes, bytes);
    return bytes;
}

/* The folders that were added behind `from' are to come in the order in which they were
 * added. */
static int
turn_pending(struct pending *pending, size_t from)
{
    size_t n = pending->n - from, at = n, to = 0, bytes;
    char *turned = n ? malloc(n) : NULL;
    if (n && !turned) {
        return FY_ERR_NOMEM;
    }
    while (at > 0) {
        memcpy(&bytes, pending->bytes + from + at - sizeof bytes, sizeof bytes);
        bytes += 2 * sizeof bytes;
        at -= bytes;
        memcpy(turned + to, pending->bytes + from + at, bytes);
        to += bytes;
    }
    if (n) {
        memcpy(pending->bytes + from, turned, n);
    }
    free(turned);
    return 0;
}

/* Moves the folders that were added behind `from'. */
static int
move_pending(struct pending *pending, size_t from, struct pending *to)
{
    size_t n = pending->n - from;
    char *larger = realloc(to->bytes, to->n + n + 1);
    if (!larger) {
        return FY_ERR_NOMEM;
    }
    memcpy(larger + to->n, pending->bytes + from, n);
    to->bytes = larger;
    to->n += n;
    to->capacity = to->n + 1;
    pending->n = from;
    return 0;
}

/* False: no folder is left. */
static bool
has_pending(struct walk *walk)
{
    if (walk->pending.n == walk->pending.first) {
        struct pending over = walk->pending;
        walk->pending = walk->later;
        over.first = over.n = 0;
        walk->later = over;
    }
    return walk->pending.n > walk->pending.first;
}

/* `of': the open folder, as it came from the kernel. */
static int
add_entry(struct walk *walk, int fd, const struct dirent64 *of,
          const struct stat *folder)
{
    const char *name = of->d_name;
    struct stat about;
    size_t n = strlen(name);
    struct fy_files_entry entry = {.name = {name, n}};
    if (n > FY_FILES_NAME_BYTES || strcmp(name, ".") == 0 ||
        strcmp(name, "..") == 0) {
        return 0;
    }
    if (fstatat(fd, name, &about, AT_SYMLINK_NOFOLLOW) == 0) {
        fy_files_attr_of(walk->request->server, &about, &entry.attr);
    } else if (errno == ENOENT) {
        return 0;
    } else { /* this user may not search the folder */
        entry.attr.ino =
            fy_files_ino(walk->request->server, folder->st_dev, of->d_ino);
        entry.attr.rdev = DTTOIF((unsigned)of->d_type);
    }
    if (S_ISLNK(entry.attr.mode)) {
        ssize_t bytes = readlinkat(fd, name, walk->target, sizeof walk->target);
        if (bytes < 0) {
            entry.attr.mode = 0;
        }
        entry.target = (struct fy_files_bytes){walk->target,
                                               bytes > 0 ? (size_t)bytes : 0};
    }
    int status = fy_files_entry_put(&entry, &walk->rows);
    if (!status && walk->tree && S_ISDIR(entry.attr.mode)) {
        status = add_pending(walk, name, n);
        walk->folders++;
    }
    return status;
}

/* Its entries. FY_ERR_*, or the errno with which reading ended in *out_error. */
static int
add_entries(struct walk *walk, int fd, const struct stat *about,
            uint32_t *out_error)
{
    struct fy_entries entries = {fd, walk->entries, READ_BYTES, 0, 0};
    const struct dirent64 *entry;
    while ((entry = fy_entries_next(&entries))) {
        int status = add_entry(walk, fd, entry, about);
        bool some = walk->first && walk->some;
        bool full =
            walk->rows.n >= PART_BYTES || (some && walk->rows.n >= walk->left);
        if (!status && full) {
            status = say_part(walk, false);
            walk->cut = some && walk->left == 0;
        }
        if (walk->cut) {
            *out_error = 0;
            return status;
        }
        if (status || walk->request->cancelled) {
            *out_error = EINTR;
            return status;
        }
    }
    *out_error = entries.n < 0 ? (uint32_t)errno : 0;
    return 0;
}

/* The folder of answer->node. FY_ERR_*; or a negative errno of the first folder. */
static int
list_folder(struct walk *walk, int *out_errno)
{
    struct fy_files_server *server = walk->request->server;
    struct fy_files_message *answer = walk->answer;
    size_t before = walk->pending.n;
    struct stat about;
    int fd = fy_files_open(server, &answer->node.path, O_RDONLY | O_DIRECTORY);
    int error = fd < 0 ? -fd : fstat(fd, &about) != 0 ? errno : 0;
    if (!error) {
        fy_files_attr_of(server, &about, &answer->attr);
        error = answer->node.ino && answer->node.ino != answer->attr.ino
                    ? ESTALE
                    : 0;
        answer->node.ino = answer->attr.ino;
    }
    if (!error) {
        answer->number = fy_files_watch(server, fd, &answer->node.path, &about);
    }
    if (walk->first) {
        fy_files_resolved(walk->request);
    }
    int status = 0;
    walk->folders = 0;
    answer->mask = (uint32_t)error;
    if (error && walk->first) {
        *out_errno = -error;
    } else {
        status = error ? 0 : add_entries(walk, fd, &about, &answer->mask);
        status =
            status ? status : say_part(walk, answer->mask == 0 && !walk->cut);
        status = status        ? status
                 : !walk->some ? turn_pending(&walk->pending, before)
                 : walk->folders > FAN_MAX
                     ? move_pending(&walk->pending, before, &walk->later)
                     : 0;
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return status;
}

static int
list_all(struct walk *walk)
{
    struct fy_files_message *answer = walk->answer;
    int error = 0;
    int status = list_folder(walk, &error);
    walk->first = false;
    while (!status && !error && has_pending(walk) && walk->left &&
           !walk->request->cancelled) {
        size_t n = take_pending(walk);
        answer->node = (struct fy_files_node){.path = {walk->path, n}};
        answer->attr = (struct fy_files_attr){.ino = 0};
        answer->number = 0;
        status = list_folder(walk, &error);
    }
    return status ? -ENOMEM : error;
}

int
fy_files_list(struct fy_files_request *request, struct fy_files_message *answer)
{
    const struct fy_files_message *message = &request->message;
    if (message->node.kept) {
        return -ENOENT;
    }
    struct walk *walk = calloc(1, sizeof *walk);
    int status = -ENOMEM;
    if (!walk) {
        return status;
    }
    walk->request = request;
    walk->answer = answer;
    walk->left = message->length;
    walk->tree = (message->flags & FY_FILES_TREE) != 0;
    walk->some = (message->flags & FY_FILES_SOME) != 0;
    walk->first = true;
    walk->said_ns = fy_clock_ns();
    walk->path = malloc(FY_FILES_PATH_BYTES);
    walk->entries = malloc(READ_BYTES);
    if (walk->path && walk->entries) {
        answer->node = message->node;
        if (message->node.path.n) {
            memcpy(walk->path, message->node.path.at, message->node.path.n);
        }
        answer->node.path.at = walk->path;
        status = list_all(walk);
    }
    if (!status) {
        /* No answer follows the last one: its flags are the head's sixth byte. */
        request->scratch.bytes[walk->last + 5] = FY_FILES_ANSWER;
        fy_files_say(request->server, &request->scratch, request->epoch);
        status = FY_FILES_SAID;
    }
    fy_files_out_free(&walk->rows);
    free(walk->pending.bytes);
    free(walk->later.bytes);
    free(walk->path);
    free(walk->entries);
    free(walk);
    answer->frame_flags = FY_FILES_ANSWER;
    return status;
}
