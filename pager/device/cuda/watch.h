/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches ranges of the program's memory for a change of their pages: unmapped,
 * mapped over, moved, or discarded by madvise(), by any thread and call. What
 * a device was told of their page frames is then no longer true. The kernel
 * says so before the system call returns (userfaultfd's events), and nothing is
 * taken from the program: no page is protected or missing because of this.
 *
 * Any thread of the process that has started it; not in a forked child.
 */
#ifndef FERRY_PAGER_DEVICE_CUDA_WATCH_H
#define FERRY_PAGER_DEVICE_CUDA_WATCH_H

#include <semaphore.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

enum {
    FY_WATCHES = 64 /* ranges at once */
};

/*
 * Starts the two threads that keep the descriptor; later calls get the first
 * one's answer. FY_ERR_UNSUPPORTED, with a clause in *why: this kernel does not
 * tell of every change (some are tried), or refuses userfaultfd.
 *
 * `silent_too': also where it keeps quiet about MADV_GUARD_INSTALL (since Linux
 * 6.13), which a program must not use on such memory then.
 */
int fy_watch_start(bool silent_too, const char **why) FY_MUST_CHECK;

/*
 * Tells an address on the program's stack of the calling thread, where that is
 * another one than what runs on now: its mapping is never watched.
 */
void fy_watch_callers_stack(const void *address);

/*
 * Begins to watch whole pages, which must be of one private anonymous writable
 * mapping that is no stack. `lost' is posted when they have changed. The number
 * is for the others. FY_ERR_UNSUPPORTED; FY_ERR_NOFIT: too many.
 */
int fy_watch_add(uintptr_t start, size_t bytes, sem_t *lost,
                 unsigned *out) FY_MUST_CHECK;

/*
 * Whether nothing has happened to the range since fy_watch_add(): every change
 * that was over before the question, by a system call that has returned, is
 * known. False for ever after.
 */
bool fy_watch_is_intact(unsigned watch);

/* Asks that for all ranges, for fy_watch_is_lost(). */
void fy_watch_settle(void);

/* The same of what is known without asking; cheap. */
bool fy_watch_is_lost(unsigned watch);

void fy_watch_remove(unsigned watch);

/*
 * Before the process ends: from here on all ranges have changed, nothing else is
 * watched, and no thread of the program waits for ours any more. At most a few
 * seconds; of signal handlers only where none of the calls above is interrupted.
 */
void fy_watch_end(void);

#endif
