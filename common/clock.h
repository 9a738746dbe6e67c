/* SPDX-License-Identifier: Apache-2.0 */
/* The monotonic clock of all rooms but the preloaded library (shim/start/count.c). */
#ifndef FERRY_COMMON_CLOCK_H
#define FERRY_COMMON_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds of CLOCK_MONOTONIC. Any thread, any process, signal handlers. */
uint64_t fy_clock_ns(void);

/* Returns CLOCK_MONOTONIC in seconds. Any thread, any process, signal
 * handlers. */
static inline double
fy_clock_seconds(void)
{
    return 1e-9 * (double)fy_clock_ns();
}

/* Returns CLOCK_MONOTONIC in whole milliseconds. Any thread, any process,
 * signal handlers. */
static inline int64_t
fy_clock_ms(void)
{
    return (int64_t)(fy_clock_ns() / 1000000);
}

/* A time of CLOCK_MONOTONIC as the C library's functions take it, and back. */
static inline struct timespec
fy_clock_timespec(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000),
                             .tv_nsec = (long)(ns % 1000000000)};
}

static inline uint64_t
fy_clock_of(const struct timespec *time)
{
    return (uint64_t)time->tv_sec * 1000000000 + (uint64_t)time->tv_nsec;
}

#endif
