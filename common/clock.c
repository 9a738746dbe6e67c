/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "common/clock.h"

uint64_t
fy_clock_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return fy_clock_of(&now);
}
