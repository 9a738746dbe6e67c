/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole files in and out: bounded reading, and storing in the cache such that
 * concurrent runs and full disks never leave a half-written file behind.
 */
#include "config.h"

#include "tools/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char *
fy_read_file(const char *path, size_t limit_bytes, size_t *out_bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    char *text = NULL;
    size_t used = 0, room = 0;
    for (;;) {
        if (room - used < 2) {
            room = room ? room * 2 : 16384;
            char *larger = realloc(text, room);
            if (!larger)
                break;
            text = larger;
        }
        ssize_t n = read(fd, text + used, room - used - 1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            break;
        if (n == 0) {
            close(fd);
            text[used] = '\0';
            *out_bytes = used;
            return text;
        }
        used += (size_t)n;
        if (used > limit_bytes) {
            errno = EFBIG;
            break;
        }
    }
    int cause = errno;
    free(text);
    close(fd);
    errno = cause;
    return NULL;
}

static bool
write_all(int fd, const char *bytes, size_t size)
{
    while (size) {
        ssize_t n = write(fd, bytes, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        bytes += n;
        size -= (size_t)n;
    }
    return true;
}

int
fy_cache_store(const char *folder, const char *name, const void *bytes,
               size_t size, char out_path[PATH_MAX])
{
    char path[PATH_MAX], temporary[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/%s", folder, name);
    int m = snprintf(temporary, sizeof temporary, "%s/.new-XXXXXX", folder);
    if (n < 0 || n >= PATH_MAX || m < 0 || m >= PATH_MAX)
        return FY_ERR_OVERFLOW;
    int fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0)
        return FY_ERR_IO;
    /* fsync: after a power cut the name must not point at nothing. */
    if (!write_all(fd, bytes, size) || fchmod(fd, 0500) != 0 ||
        fsync(fd) != 0) {
        close(fd);
        goto remove_temporary;
    }
    if (close(fd) != 0 || rename(temporary, path) != 0)
        goto remove_temporary;
    memcpy(out_path, path, (size_t)n + 1);
    return 0;

remove_temporary:;
    int cause = errno;
    unlink(temporary);
    errno = cause;
    return FY_ERR_IO;
}
