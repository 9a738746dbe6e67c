/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into both sides of a mount by room.py: in ferry-mount the time of day jumps by
 * up to a year at each look at it (ODD_CLOCK); in the process next to the files no more
 * than ODD_QUOTA bytes can be written, the rest fails with EDQUOT (a kernel without quotas
 * cannot do that for us).
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    YEAR_S = 365 * 86400
};

static bool
is_in(const char *program, const char *variable)
{
    return strcmp(program_invocation_short_name, program) == 0 &&
           getenv(variable) != NULL;
}

/* Seconds by which the clock is wrong this time: there and back. */
static time_t
jump(void)
{
    static atomic_int looks;
    static const time_t jumps[] = {0, YEAR_S, -3600, -YEAR_S, 86400};
    if (!is_in("ferry-mount", "ODD_CLOCK")) {
        return 0;
    }
    return jumps[(unsigned)looks++ % (sizeof jumps / sizeof *jumps)];
}

int
clock_gettime(clockid_t clock, struct timespec *out)
{
    static int (*next)(clockid_t, struct timespec *);
    if (!next) {
        *(void **)&next = dlsym(RTLD_NEXT, "clock_gettime");
    }
    int status = next(clock, out);
    if (status == 0 &&
        (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        out->tv_sec += jump();
    }
    return status;
}

ssize_t
pwrite(int fd, const void *bytes, size_t n, off_t at)
{
    static ssize_t (*next)(int, const void *, size_t, off_t);
    static atomic_long written;
    if (!next) {
        *(void **)&next = dlsym(RTLD_NEXT, "pwrite");
    }
    if (is_in("ferry", "ODD_QUOTA")) {
        long left = atol(getenv("ODD_QUOTA")) - written;
        if (left <= 0) {
            errno = EDQUOT;
            return -1;
        }
        n = n < (size_t)left ? n : (size_t)left;
    }
    ssize_t done = next(fd, bytes, n, at);
    written += done > 0 ? done : 0;
    return done;
}
