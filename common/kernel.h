/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls that kernels since 4.18 may lack, by older ones where that is as safe.
 * Structures and flags are the kernel's, of linux/openat2.h and linux/close_range.h.
 */
#ifndef FERRY_COMMON_KERNEL_H
#define FERRY_COMMON_KERNEL_H

#include <dirent.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * openat2(2). A kernel without it is asked for each part of the path by openat(2) with
 * O_NOFOLLOW, from descriptor to descriptor: an exchange of names meanwhile leads nowhere
 * else either. Then links in /proc, RESOLVE_CACHED, and paths of more than 128 parts are
 * refused. A descriptor, or -1 with errno. Any thread; async-signal-safe.
 */
int fy_openat2(int folder, const char *path, const struct open_how *how);

/*
 * close_range(2): descriptors from `low' to `high' are closed, or with `later' when a
 * program is executed. Without that call they are looked for in /proc/self/fd. Any thread;
 * async-signal-safe.
 */
void fy_close_range(unsigned low, unsigned high, bool later);

/* A walk through the entries of an open folder, in memory of the caller. */
struct fy_entries {
    int folder;
    void *block; /* aligned as struct dirent64 */
    size_t capacity;
    long n, at; /* bytes in the block; the next entry. n < 0: reading failed */
};

/*
 * getdents64(2): the next entry, borrowed until the next call; NULL: the end, or
 * entries->n < 0 with errno. Any thread; async-signal-safe.
 */
static inline const struct dirent64 *
fy_entries_next(struct fy_entries *entries)
{
    if (entries->at >= entries->n) {
        entries->at = 0;
        entries->n = syscall(SYS_getdents64, entries->folder, entries->block,
                             entries->capacity);
        if (entries->n <= 0) {
            return NULL;
        }
    }
    const struct dirent64 *entry =
        (const void *)((const char *)entries->block + entries->at);
    entries->at += entry->d_reclen;
    return entry;
}

#endif
