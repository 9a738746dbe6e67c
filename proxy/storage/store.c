/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store, see the header. Everything is done by the open folder, whose path was trusted
 * when it was opened. Images of proxies that were killed are removed by the next proxy:
 * each holds a lock on the own image.
 */
#include "config.h"

#include "proxy/storage/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "common/path.h"
#include "common/sha256.h"
#include "common/trust.h"
#include "common/whole.h"
#include "proxy/wire/temporary.h"

enum {
    NAME_BYTES = 65,       /* 64 hexadecimal digits */
    FILES_MAX = 1 << 16,   /* of a store that is trimmed */
    ABANDONED_S = 60 * 60, /* a temporary file so old belongs to nobody */
    TRIES = 100,
};

#define IMAGE     "image-"
#define TEMPORARY "new-"

/* The host's, in every image: nothing of a client stands there. */
static const char *const reserved[] = {"/proc", "/sys", "/dev", "/tmp",
                                       "/var/tmp"};

struct fy_store {
    pthread_mutex_t lock;
    char path[PATH_MAX]; /* without links */
    int fd;
    uint64_t limit_bytes, bytes; /* bytes: 0 until it was counted */
    char place[PATH_MAX];        /* of the image; "": the store's folder */
    char image[PATH_MAX + 32];   /* "": not made */
    int image_fd;                /* locked; -1 */
    struct shown {
        char *path;
        unsigned char sha256[32];
    } * shown; /* all that stands in the image */
    size_t nshown, capacity;
    unsigned temporary;
};

static void
name_of(const unsigned char sha256[32], char out[NAME_BYTES])
{
    for (size_t i = 0; i < 32; i++) {
        (void)snprintf(out + 2 * i, 3, "%02x", sha256[i]);
    }
}

static bool
is_content(const char *name)
{
    return strlen(name) == NAME_BYTES - 1 &&
           strspn(name, "0123456789abcdef") == NAME_BYTES - 1;
}

/* Locks the open folder; false: another one has it, or removed it before. */
static bool
lock(const struct fy_store *store, int fd, const char *name, int how)
{
    struct stat opened, named;
    return flock(fd, how) == 0 && fstat(fd, &opened) == 0 &&
           fstatat(store->fd, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           opened.st_ino == named.st_ino;
}

/* ---- opening ---------------------------------------------------------------------- */

/* Removes images without a proxy, and files that were never finished. */
static void
clean(struct fy_store *store)
{
    DIR *dir = fy_folder_open(store->fd, ".");
    const struct dirent *entry;
    struct stat about;
    while (dir && (entry = readdir(dir))) {
        if (strncmp(entry->d_name, TEMPORARY, sizeof TEMPORARY - 1) == 0 &&
            fstatat(store->fd, entry->d_name, &about, AT_SYMLINK_NOFOLLOW) ==
                0 &&
            time(NULL) - about.st_mtim.tv_sec > ABANDONED_S) {
            (void)unlinkat(store->fd, entry->d_name, 0);
        }
        if (strncmp(entry->d_name, IMAGE, sizeof IMAGE - 1) != 0) {
            continue;
        }
        char path[PATH_MAX + 300];
        int fd = openat(store->fd, entry->d_name,
                        O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0 && lock(store, fd, entry->d_name, LOCK_EX | LOCK_NB)) {
            (void)snprintf(path, sizeof path, "%s/%s", store->path,
                           entry->d_name);
            fy_temporary_remove(path);
        }
        if (fd >= 0) {
            (void)close(fd);
        }
    }
    if (dir) {
        (void)closedir(dir);
    }
}

/* Writes the store's path: $XDG_CACHE_HOME, else ~/.cache. */
static bool
find_place(const char *home, char out[PATH_MAX])
{
    const char *cache = getenv("XDG_CACHE_HOME");
    int n = cache && *cache == '/'
                ? snprintf(out, PATH_MAX, "%s/ferry/store", cache)
            : *home == '/'
                ? snprintf(out, PATH_MAX, "%s/.cache/ferry/store", home)
                : 0;
    return n > 0 && n < PATH_MAX;
}

int
fy_store_open(const char *home, uint64_t limit_bytes, struct fy_buffer *why,
              struct fy_store **out)
{
    char place[PATH_MAX];
    struct statvfs about;
    struct fy_store *store = calloc(1, sizeof *store);
    if (!store) {
        return FY_ERR_NOMEM;
    }
    store->fd = store->image_fd = -1;
    store->limit_bytes = limit_bytes;
    if (!find_place(home, place)) {
        fy_buffer_add(why, "the user has no home");
        free(store);
        return FY_ERR_UNSUPPORTED;
    }
    int status = fy_private_folder(place, true, store->path);
    if (status) {
        fy_buffer_add(why, status == FY_ERR_INVALID ? store->path : place);
        fy_buffer_add(why, status == FY_ERR_INVALID
                               ? " can be changed by another user"
                               : " cannot be made: ");
        fy_buffer_add(why,
                      status == FY_ERR_INVALID ? "" : strerrordesc_np(errno));
        status = status == FY_ERR_INVALID ? FY_ERR_UNSUPPORTED : FY_ERR_IO;
        free(store);
        return status;
    }
    store->fd =
        open(store->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (store->fd < 0 || fstatvfs(store->fd, &about) != 0 ||
        (about.f_flag & ST_NOEXEC)) {
        bool read = store->fd < 0;
        fy_buffer_add(why, place);
        fy_buffer_add(why, read ? " cannot be opened"
                                : " is on a file system that executes nothing");
        fy_store_close(store);
        return FY_ERR_UNSUPPORTED;
    }
    (void)pthread_mutex_init(&store->lock, NULL);
    clean(store);
    *out = store;
    return 0;
}

void
fy_store_limit(struct fy_store *store, uint64_t bytes)
{
    (void)pthread_mutex_lock(&store->lock);
    store->limit_bytes = bytes;
    (void)pthread_mutex_unlock(&store->lock);
}

void
fy_store_close(struct fy_store *store)
{
    if (!store) {
        return;
    }
    if (*store->image) {
        fy_temporary_remove(store->image);
    }
    if (store->image_fd >= 0) {
        (void)close(store->image_fd);
    }
    if (store->fd >= 0) {
        (void)close(store->fd);
    }
    for (size_t i = 0; i < store->nshown; i++) {
        free(store->shown[i].path);
    }
    free(store->shown);
    free(store);
}

/* ---- contents --------------------------------------------------------------------- */

/* Returns true if the file was put there whole. */
static bool
is_whole(const struct fy_store *store, const char *name)
{
    struct stat about;
    return fstatat(store->fd, name, &about, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISREG(about.st_mode) && about.st_uid == geteuid() &&
           (about.st_mode & 0777) == 0500;
}

bool
fy_store_has(struct fy_store *store, const unsigned char sha256[32])
{
    char name[NAME_BYTES];
    name_of(sha256, name);
    return is_whole(store, name) &&
           utimensat(store->fd, name, NULL, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Makes the folder anew if it was deleted. With the lock. */
static void
restore(struct fy_store *store)
{
    struct stat about;
    char path[PATH_MAX];
    if (fstat(store->fd, &about) != 0 || about.st_nlink > 0 ||
        fy_private_folder(store->path, true, path) ||
        strcmp(path, store->path) != 0) {
        return;
    }
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0) {
        (void)dup3(fd, store->fd, O_CLOEXEC);
        (void)close(fd);
        store->bytes = 0;
    }
}

struct kept {
    char name[NAME_BYTES];
    uint64_t bytes;
    struct timespec used;
};

static int
compare_used(const void *a, const void *b)
{
    const struct timespec *one = &((const struct kept *)a)->used;
    const struct timespec *other = &((const struct kept *)b)->used;
    return one->tv_sec != other->tv_sec ? (one->tv_sec < other->tv_sec ? -1 : 1)
                                        : (one->tv_nsec > other->tv_nsec) -
                                              (one->tv_nsec < other->tv_nsec);
}

/* Lists the contents; returns their number, their bytes in *out_bytes. */
static size_t
list(const struct fy_store *store, struct kept *rows, uint64_t *out_bytes)
{
    DIR *dir = fy_folder_open(store->fd, ".");
    const struct dirent *entry;
    struct stat about;
    size_t n = 0;
    *out_bytes = 0;
    while (dir && n < FILES_MAX && (entry = readdir(dir))) {
        if (!is_content(entry->d_name) ||
            fstatat(store->fd, entry->d_name, &about, AT_SYMLINK_NOFOLLOW) !=
                0) {
            continue;
        }
        strcpy(rows[n].name, entry->d_name);
        rows[n].bytes = (uint64_t)about.st_size;
        rows[n++].used = about.st_mtim;
        *out_bytes += (uint64_t)about.st_size;
    }
    if (dir) {
        (void)closedir(dir);
    }
    return n;
}

/* Makes room for `n' bytes. A file that an image shows goes on being shown there. */
static void
trim(struct fy_store *store, uint64_t n)
{
    if (store->bytes > 0 && store->bytes + n <= store->limit_bytes) {
        return;
    }
    struct kept *rows = malloc(FILES_MAX * sizeof *rows);
    if (!rows) {
        return;
    }
    size_t count = list(store, rows, &store->bytes);
    if (store->bytes + n > store->limit_bytes) {
        qsort(rows, count, sizeof *rows, compare_used);
        for (size_t i = 0; i < count && store->bytes + n > store->limit_bytes;
             i++) {
            if (unlinkat(store->fd, rows[i].name, 0) == 0) {
                store->bytes -= rows[i].bytes;
            }
        }
    }
    free(rows);
}

/* Writes a file of that name which is on the disk when it has the name. */
static int
write_file(struct fy_store *store, const char *name, const void *bytes,
           size_t n)
{
    char temporary[64];
    (void)snprintf(temporary, sizeof temporary, TEMPORARY "%d-%u",
                   (int)getpid(), store->temporary++);
    int fd = openat(store->fd, temporary,
                    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        return FY_ERR_IO;
    }
    int status = fy_write_whole(fd, bytes, n);
    if (!status && (fchmod(fd, 0500) != 0 || fdatasync(fd) != 0)) {
        status = FY_ERR_IO;
    }
    int error = errno;
    if (close(fd) != 0 && !status) {
        error = errno;
        status = FY_ERR_IO;
    }
    if (!status && renameat(store->fd, temporary, store->fd, name) != 0) {
        error = errno;
        status = FY_ERR_IO;
    }
    if (status) {
        (void)unlinkat(store->fd, temporary, 0);
        errno = error;
    }
    return status;
}

int
fy_store_put(struct fy_store *store, const unsigned char sha256[32],
             const void *bytes, size_t n, struct fy_buffer *why)
{
    unsigned char found[32];
    char name[NAME_BYTES];
    fy_sha256_of(bytes, n, found);
    if (memcmp(found, sha256, sizeof found) != 0) {
        fy_buffer_add(why, "the bytes are not those that were named");
        return FY_ERR_INVALID;
    }
    name_of(sha256, name);
    (void)pthread_mutex_lock(&store->lock);
    int status = n > store->limit_bytes ? FY_ERR_OVERFLOW : 0;
    if (!status) {
        restore(store);
    }
    if (!status && !is_whole(store, name)) {
        trim(store, n);
        status = write_file(store, name, bytes, n);
        store->bytes += status ? 0 : n;
    }
    (void)pthread_mutex_unlock(&store->lock);
    if (status) {
        bool large = status == FY_ERR_OVERFLOW;
        fy_buffer_add(why, large ? "the file is larger than the store"
                                 : "the store cannot be written to: ");
        fy_buffer_add(why, large ? "" : strerrordesc_np(errno));
    }
    return status;
}

/* ---- the image -------------------------------------------------------------------- */

/* Makes the folders above and, if `all', the path itself in the open image. */
static int
make_folders(const struct fy_store *store, const char *path, bool all)
{
    char part[PATH_MAX];
    for (size_t n = 1; path[n - 1]; n++) {
        if (path[n] != '/' && (path[n] || !all)) {
            continue;
        }
        memcpy(part, path, n);
        part[n] = '\0';
        if (mkdirat(store->image_fd, part + 1, 0755) != 0 && errno != EEXIST) {
            return FY_ERR_IO;
        }
        if (!path[n]) {
            break;
        }
    }
    return 0;
}

static bool
is_plain(const char *path)
{
    char plain[PATH_MAX];
    return fy_path_plain(path, plain) && strcmp(path, plain) == 0;
}

static bool
is_reserved(const char *path)
{
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++) {
        if (fy_path_is_beneath(path, reserved[i])) {
            return true;
        }
    }
    return false;
}

/* Makes a locked folder; the next proxy may remove it before it is locked. */
static bool
make_locked(struct fy_store *store, const char *name)
{
    int fd = mkdirat(store->fd, name, 0755) != 0
                 ? -1
                 : openat(store->fd, name,
                          O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && lock(store, fd, name, LOCK_EX) && fchmod(fd, 0755) == 0) {
        store->image_fd = fd;
        return true;
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return false;
}

static bool
make_image(struct fy_store *store)
{
    char name[32];
    bool made = false;
    if (store->place[0]) {
        store->image_fd =
            open(store->place, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        made = store->image_fd >= 0 && fchmod(store->image_fd, 0755) == 0;
        strcpy(store->image, made ? store->place : "");
    }
    for (unsigned i = 0; !made && !store->place[0] && i < TRIES; i++) {
        (void)snprintf(name, sizeof name, IMAGE "%d-%u", (int)getpid(), i);
        made = make_locked(store, name);
    }
    if (made && !store->place[0]) {
        (void)snprintf(store->image, sizeof store->image, "%s/%s", store->path,
                       name);
    }
    for (size_t i = 0; made && i < sizeof reserved / sizeof *reserved; i++) {
        made = make_folders(store, reserved[i], true) == 0;
    }
    return made;
}

void
fy_store_set_place(struct fy_store *store, const char *folder)
{
    (void)snprintf(store->place, sizeof store->place, "%s", folder);
}

bool
fy_store_image_is_beneath(const struct fy_store *store, const char *root)
{
    return fy_path_is_beneath(store->place[0] ? store->place : store->path,
                              root);
}

const char *
fy_store_image(struct fy_store *store)
{
    (void)pthread_mutex_lock(&store->lock);
    bool made = store->image[0] || make_image(store);
    (void)pthread_mutex_unlock(&store->lock);
    return made ? store->image : NULL;
}

/* Links a content, or copies it where it cannot be linked. One that was changed in place
 * since it was kept is dropped: FY_ERR_NOENT. */
static int
show_content(struct fy_store *store, const char *path,
             const unsigned char sha256[32], const char *name)
{
    unsigned char found[32];
    size_t n = 0;
    int status = FY_ERR_IO, to = -1;
    int from = openat(store->fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    char *bytes = from < 0 ? NULL : fy_read_open(from, 1 << 30, &n);
    if (bytes) {
        fy_sha256_of(bytes, n, found);
        if (memcmp(found, sha256, sizeof found) != 0) {
            (void)unlinkat(store->fd, name, 0);
            status = FY_ERR_NOENT;
        } else if (linkat(store->fd, name, store->image_fd, path + 1, 0) == 0) {
            status = 0;
        } else {
            to = openat(store->image_fd, path + 1,
                        O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                        0700);
        }
    }
    if (to >= 0) {
        status = fy_write_whole(to, bytes, n);
        status = fchmod(to, 0500) == 0 ? status : FY_ERR_IO;
        status = close(to) == 0 ? status : FY_ERR_IO;
        if (status) {
            (void)unlinkat(store->image_fd, path + 1, 0);
        }
    }
    free(bytes);
    return status;
}

/* Notes that the content stands at the path. */
static int
note(struct fy_store *store, const char *path, const unsigned char sha256[32])
{
    if (store->nshown == store->capacity) {
        size_t capacity = store->capacity ? 2 * store->capacity : 64;
        struct shown *larger = realloc(store->shown, capacity * sizeof *larger);
        if (!larger) {
            return FY_ERR_NOMEM;
        }
        store->shown = larger;
        store->capacity = capacity;
    }
    struct shown *row = &store->shown[store->nshown];
    row->path = strdup(path);
    if (!row->path) {
        return FY_ERR_NOMEM;
    }
    memcpy(row->sha256, sha256, sizeof row->sha256);
    store->nshown++;
    return 0;
}

static int
show(struct fy_store *store, const char *path, const unsigned char sha256[32])
{
    char name[NAME_BYTES];
    for (size_t i = 0; i < store->nshown; i++) {
        if (strcmp(store->shown[i].path, path) == 0) {
            return memcmp(store->shown[i].sha256, sha256, 32) == 0
                       ? 0
                       : FY_ERR_BUSY;
        }
    }
    name_of(sha256, name);
    if (!is_whole(store, name)) {
        return FY_ERR_NOENT;
    }
    if (make_folders(store, path, false)) {
        return FY_ERR_IO;
    }
    int status = show_content(store, path, sha256, name);
    return status ? status : note(store, path, sha256);
}

int
fy_store_show(struct fy_store *store, const char *path,
              const unsigned char sha256[32])
{
    if (!is_plain(path) || is_reserved(path)) {
        return FY_ERR_INVALID;
    }
    if (!fy_store_image(store)) {
        return FY_ERR_IO;
    }
    (void)pthread_mutex_lock(&store->lock);
    int status = show(store, path, sha256);
    (void)pthread_mutex_unlock(&store->lock);
    return status;
}

int
fy_store_make_point(struct fy_store *store, const char *path)
{
    if (!is_plain(path) || !fy_store_image(store)) {
        return FY_ERR_INVALID;
    }
    (void)pthread_mutex_lock(&store->lock);
    int status = make_folders(store, path, true);
    (void)pthread_mutex_unlock(&store->lock);
    return status;
}
