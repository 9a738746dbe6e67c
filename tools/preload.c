/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The object to preload: made by shim/image/build.c from libferry.so and the model,
 * and kept in the cache under a name that hashes its sources.
 */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/hash.h"
#include "common/whole.h"
#include "shim/image/names.h"
#include "tools/launch.h"

enum {
    LIBFERRY_LIMIT_BYTES = 64 << 20,
    PRELOAD_LIMIT_BYTES = 512 << 20,
    CACHE_BYTES = 64 << 20, /* of all objects in the cache */
};

/* An object in the cache. */
struct cached {
    struct timespec used;
    off_t bytes;
    const char *name;
};

/*
 * Returns true if the file is as it was written: after a crash, on a full or
 * failing disk it may be another, and its code would run in every process.
 */
static bool
whole(const char *path)
{
    struct stat about;
    uint64_t sum, found;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool good = fd >= 0 && fstat(fd, &about) == 0 &&
                about.st_size > (off_t)sizeof sum &&
                about.st_size <= PRELOAD_LIMIT_BYTES;
    if (good) {
        uint64_t bytes = (uint64_t)about.st_size - sizeof sum;
        good = pread(fd, &sum, sizeof sum, (off_t)bytes) == sizeof sum &&
               fy_preload_sum(fd, bytes, &found) == 0 && sum == found;
    }
    if (fd >= 0) {
        close(fd);
    }
    return good;
}

/* Returns true if a file of the cache is there, whole, and nobody else's. */
static bool
usable(const char *path)
{
    struct stat status;
    return lstat(path, &status) == 0 && S_ISREG(status.st_mode) &&
           status.st_uid == geteuid() && (status.st_mode & 0022) == 0 &&
           whole(path);
}

static int
newest_first(const void *a, const void *b)
{
    const struct timespec *x = &((const struct cached *)a)->used;
    const struct timespec *y = &((const struct cached *)b)->used;
    if (x->tv_sec != y->tv_sec) {
        return x->tv_sec < y->tv_sec ? 1 : -1;
    }
    return (x->tv_nsec < y->tv_nsec) - (x->tv_nsec > y->tv_nsec);
}

static int
is_object(const struct dirent *entry)
{
    return strncmp(entry->d_name, FY_PRELOAD_PREFIX,
                   sizeof FY_PRELOAD_PREFIX - 1) == 0;
}

/*
 * Removes the objects of the cache that were used least recently, so that the others
 * have CACHE_BYTES at most. A running program keeps the object that it has mapped. Later
 * children of the program start without ferry, because the shim finds no object.
 */
static void
prune(const char *folder)
{
    struct dirent **entries;
    int at = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), found = 0;
    int n = at >= 0 ? scandir(folder, &entries, is_object, NULL) : -1;
    struct cached *all = n > 0 ? calloc((size_t)n, sizeof *all) : NULL;
    off_t sum = 0;
    for (int i = 0; all && i < n; i++) {
        struct stat about;
        if (fstatat(at, entries[i]->d_name, &about, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(about.st_mode)) {
            all[found++] = (struct cached){about.st_mtim, about.st_size,
                                           entries[i]->d_name};
        }
    }
    if (all) {
        qsort(all, (size_t)found, sizeof *all, newest_first);
    }
    for (int i = 0; all && i < found; i++) {
        sum += all[i].bytes;
        if (i > 0 && sum > CACHE_BYTES) {
            (void)unlinkat(at, all[i].name, 0);
        }
    }
    while (n > 0) {
        free(entries[--n]);
    }
    if (n == 0) {
        free(entries);
    }
    free(all);
    if (at >= 0) {
        (void)close(at);
    }
}

/* Makes it at state->preload; the rename in there is atomic. */
static int
build(struct fy_launch_state *state)
{
    char cause[160];
    struct fy_buffer why;
    fy_buffer_start(&why, cause, sizeof cause);
    int status = fy_preload_build(state->places.shim, state->model,
                                  state->preload, NULL, &why);
    if (status) {
        fy_launch_trouble(state, "%s%s%s",
                          cause[0] ? cause : fy_status_text(status),
                          status == FY_ERR_IO ? ": " : "",
                          status == FY_ERR_IO ? strerror(errno) : "");
    }
    return status;
}

/* A name in `folder' for this model and this libferry.so. */
static int
name(struct fy_launch_state *state, const char *folder)
{
    size_t bytes;
    char *base = fy_read_file(state->places.shim, LIBFERRY_LIMIT_BYTES, &bytes);
    if (!base) {
        fy_launch_trouble(state, "cannot read %s: %s", state->places.shim,
                          strerror(errno));
        return FY_ERR_IO;
    }
    uint64_t from = fy_hash_words(FY_HASH_START, base, bytes);
    free(base);
    from = fy_hash_words(from, PACKAGE_VERSION, sizeof PACKAGE_VERSION);
    int n = snprintf(state->preload, sizeof state->preload,
                     "%s/" FY_PRELOAD_PREFIX "%016llx%016llx.so", folder,
                     (unsigned long long)state->model->content_hash,
                     (unsigned long long)from);
    if (n < 0 || n >= PATH_MAX) {
        fy_launch_trouble(state, "the path of the cache is too long");
        return FY_ERR_OVERFLOW;
    }
    return 0;
}

int
fy_launch_preload(struct fy_launch_state *state)
{
    char folder[PATH_MAX];
    int status = fy_cache_folder(folder);
    if (status == 0) {
        status = name(state, folder);
    }
    if (status == 0 && usable(state->preload)) {
        (void)utimensat(AT_FDCWD, state->preload, NULL, 0); /* for prune() */
        return 0;
    }
    if (status == 0 && build(state) == 0) {
        prune(folder);
        return 0;
    }
    if (status && state->trouble[0]) {
        return status;
    }
    /* No cache, or a full one. Nothing that is removed at the end, from a folder
     * where others may make it again: programs outlive the run. */
    status = fy_runtime_folder(folder);
    if (status) {
        fy_launch_trouble(state,
                          "nothing can be preloaded: neither a cache nor "
                          "$XDG_RUNTIME_DIR can be used");
        return FY_ERR_UNSUPPORTED;
    }
    state->trouble[0] = '\0';
    status = name(state, folder);
    return status || usable(state->preload) ? status : build(state);
}
