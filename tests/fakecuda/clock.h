/* SPDX-License-Identifier: Apache-2.0
 *
 * Simulated time for a process, from libfakeclock.so, which is preloaded. The
 * clock stands still while any thread runs and jumps to the next thing that
 * happens when none can go on; a thread that has computed sleeps for the
 * processor time that it took. So the figures do not depend on how many
 * processors there are, nor on what else they do. Without the object all of
 * these are absent (weak), and time is the machine's.
 */
#ifndef FERRY_TESTS_FAKECUDA_CLOCK_H
#define FERRY_TESTS_FAKECUDA_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAKE_WEAK __attribute__((weak, visibility("default")))

/* From now on time is simulated in this process, not in its children. */
FAKE_WEAK void fakeclock_begin(void);
FAKE_WEAK bool fakeclock_is_on(void);
/* Nanoseconds of CLOCK_MONOTONIC. */
FAKE_WEAK uint64_t fakeclock_now(void);
FAKE_WEAK void fakeclock_sleep(uint64_t ns);
FAKE_WEAK void fakeclock_sleep_until(uint64_t ns);
/* This thread is the device (or no more): what it computes takes no time, and it
 * is woken at once. Calls nest. */
FAKE_WEAK void fakeclock_device(bool enters);
/* This thread copies so many bytes of the host's memory. */
FAKE_WEAK void fakeclock_copy(size_t bytes);

#endif
