/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the process's limits leave room for a card beside the program. A driver
 * reserves addresses for all memory there is, and starts threads, as ferry does;
 * the program later misses their part of a small allowance, when it is no longer
 * ferry's to say no: its threads do not start, its files do not open.
 */
#include "config.h"

#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "pager/device/cuda/internal.h"

enum {
    LEAST_THREADS = 128,
    LEAST_DESCRIPTORS = 64,
};

/* A driver's own reservation is of the size of the machine's memory or more. */
#define LEAST_ADDRESS_BYTES (UINT64_C(256) << 30)

static bool
is_below(int which, uint64_t least)
{
    struct rlimit limit;
    return getrlimit(which, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
           limit.rlim_cur < least;
}

int
cuda_limits(char text[FY_CUDA_TEXT_BYTES])
{
    const char *what = NULL;
    if (is_below(RLIMIT_AS, LEAST_ADDRESS_BYTES)) {
        what = "addresses (ulimit -v)";
    } else if (is_below(RLIMIT_NOFILE, LEAST_DESCRIPTORS)) {
        what = "descriptors (ulimit -n)";
    } else if (geteuid() != 0 && is_below(RLIMIT_NPROC, LEAST_THREADS)) {
        what = "threads (ulimit -u)"; /* which do not count for root */
    }
    if (!what) {
        return 0;
    }
    (void)snprintf(text, FY_CUDA_TEXT_BYTES,
                   "the process may have too few %s for a card", what);
    return FY_ERR_UNSUPPORTED;
}
