/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The object to preload: made by shim/image/build.c from libferry.so and the model,
 * and kept in the cache under a name that says what it was made from.
 */
#include "config.h"

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
};

/*
 * Whether the file is as it was written: after a crash, on a full or failing
 * disk it may not be, and whatever it says would run in every process.
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

/* Whether a file of the cache is there, whole, and nobody else's. */
static bool
usable(const char *path)
{
    struct stat status;
    return lstat(path, &status) == 0 && S_ISREG(status.st_mode) &&
           status.st_uid == geteuid() && (status.st_mode & 0022) == 0 &&
           whole(path);
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
        return 0;
    }
    if (status == 0 && build(state) == 0) {
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
