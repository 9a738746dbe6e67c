/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole files, read up to a limit.
 */
#include "config.h"

#include "tools/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

uint64_t
fy_hash(uint64_t state, const char *bytes, size_t n)
{
    size_t i = 0;
    for (uint64_t word; i + sizeof word <= n; i += sizeof word) {
        memcpy(&word, bytes + i, sizeof word);
        state = (state ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        state ^= state >> 29;
    }
    for (; i < n; i++) {
        state = (state ^ (unsigned char)bytes[i]) * UINT64_C(0x100000001b3);
    }
    return state;
}

char *
fy_read_file(const char *path, size_t limit_bytes, size_t *out_bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd >= 0 ? fy_read_open(fd, limit_bytes, out_bytes) : NULL;
}

char *
fy_read_open(int fd, size_t limit_bytes, size_t *out_bytes)
{
    struct stat about;
    char *text = NULL;
    size_t used = 0, room = 0, first = 16384;
    if (fstat(fd, &about) == 0 && about.st_size > 0 &&
        (size_t)about.st_size <= limit_bytes) {
        first = (size_t)about.st_size + 2;
    }
    for (;;) {
        if (room - used < 2) {
            room = room ? room * 2 : first;
            char *larger = realloc(text, room);
            if (!larger) {
                break;
            }
            text = larger;
        }
        ssize_t n = read(fd, text + used, room - used - 1);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            break;
        }
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
