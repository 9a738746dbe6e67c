/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls that kernels since 4.18 may lack, by older ones where that is as safe.
 * Structures and flags are the kernel's, of linux/openat2.h and linux/close_range.h.
 */
#ifndef FERRY_COMMON_KERNEL_H
#define FERRY_COMMON_KERNEL_H

#include <linux/openat2.h>
#include <stdbool.h>

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

#endif
