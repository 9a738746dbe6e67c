/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "common/room.h"

#include <errno.h>
#include <sys/resource.h>

bool
fy_may_write(uint64_t bytes)
{
    struct rlimit limit;
    int saved = errno;
    bool may = getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
               (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= bytes);

    errno = saved;
    return may;
}
