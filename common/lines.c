/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of lines, see the header.
 */
#include "config.h"

#include "common/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/signals.h"

enum {
    SPARE_BYTES = 4 << 10 /* what other processes may append meanwhile */
};

/* The file may be another user's: after the run its folder is free to be made again. */
static int
check(int fd)
{
    struct stat about;
    struct rlimit limit;
    if (fstat(fd, &about) != 0) {
        return -errno;
    }
    if (!S_ISREG(about.st_mode) || about.st_uid != geteuid()) {
        return -EPERM;
    }
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
        limit.rlim_cur != RLIM_INFINITY &&
        (rlim_t)about.st_size + SPARE_BYTES > limit.rlim_cur) {
        return -EFBIG;
    }
    return 0;
}

int
fy_lines_append(const char *path, const char *text, size_t bytes)
{
    int saved = errno, cancel;
    sigset_t mask;
    /* A handler of the program may leave by siglongjmp, and not close it. */
    fy_signals_block(&mask);
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    /* O_NONBLOCK: a FIFO would be waited for. */
    int fd = open(path,
                  O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC |
                      O_NOCTTY | O_NONBLOCK,
                  0600);
    int status = fd < 0 ? -errno : check(fd);
    if (!status && write(fd, text, bytes) < 0) {
        status = -errno;
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    (void)pthread_setcancelstate(cancel, NULL);
    fy_signals_restore(&mask);
    errno = saved;
    return status;
}
