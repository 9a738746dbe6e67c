/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "common/whole.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* read(2), repeated while a signal interrupts it. */
static ssize_t
once(int fd, void *to, size_t n)
{
    ssize_t got;
    while ((got = read(fd, to, n)) < 0 && errno == EINTR) {
    }
    return got;
}

int
fy_read_most(int fd, void *to, size_t n, size_t *out_n)
{
    size_t done = 0;
    ssize_t got = 1;
    while (done < n && (got = once(fd, (char *)to + done, n - done)) > 0) {
        done += (size_t)got;
    }
    *out_n = done;
    return got < 0 ? FY_ERR_IO : 0;
}

int
fy_read_whole(int fd, void *to, size_t n)
{
    size_t done;
    int status = fy_read_most(fd, to, n, &done);
    return status ? status : done < n ? FY_ERR_IO : 0;
}

int
fy_read_whole_at(int fd, uint64_t at, void *to, size_t n)
{
    for (size_t done = 0; done < n;) {
        ssize_t got =
            at > INT64_MAX - done
                ? 0
                : pread(fd, (char *)to + done, n - done, (off_t)(at + done));
        if (got == 0 || (got < 0 && errno != EINTR)) {
            return FY_ERR_IO;
        }
        done += got > 0 ? (size_t)got : 0;
    }
    return 0;
}

int
fy_write_whole(int fd, const void *from, size_t n)
{
    for (size_t done = 0; done < n;) {
        ssize_t put = write(fd, (const char *)from + done, n - done);
        if (put == 0 || (put < 0 && errno != EINTR)) {
            return FY_ERR_IO;
        }
        done += put > 0 ? (size_t)put : 0;
    }
    return 0;
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
        ssize_t n = once(fd, text + used, room - used - 1);
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
