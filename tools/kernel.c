/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel features, each tried on this process. The requests are newer than
 * Debian 12's headers, so their numbers and layouts are written out here from
 * the kernel's include/uapi/linux/fs.h and userfaultfd.h.
 */
#include "config.h"

#include "tools/kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/procmap.h"

#define USER_MODE_ONLY 1 /* UFFD_USER_MODE_ONLY, Linux 5.11 */

struct page_scan { /* struct pm_scan_arg, Linux 6.7 */
    uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
    uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};

const char *
fy_kernel_userfaultfd(int *out_kernel_faults)
{
    long fd = syscall(SYS_userfaultfd, O_CLOEXEC);
    *out_kernel_faults = fd >= 0;
    if (fd < 0) {
        fd = syscall(SYS_userfaultfd, O_CLOEXEC | USER_MODE_ONLY);
    }
    if (fd < 0) {
        return strerror(errno);
    }
    close((int)fd);
    return NULL;
}

/* One ioctl on a file of /proc/self. */
static const char *
ask(const char *path, unsigned long request, void *argument)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return strerror(errno);
    }
    const char *cause = NULL;
    if (ioctl(fd, request, argument) < 0) {
        cause = errno == ENOTTY ? "this kernel is too old" : strerror(errno);
    }
    close(fd);
    return cause;
}

const char *
fy_kernel_pagemap_scan(void)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t here = (uint64_t)(uintptr_t)&page / page * page;
    struct {
        uint64_t start, end, categories;
    } region;
    struct page_scan scan = {
        .size = sizeof scan,
        .start = here,
        .end = here + page,
        .vec = (uintptr_t)&region,
        .vec_len = 1,
        .category_mask = 1 << 3, /* PAGE_IS_PRESENT */
        .return_mask = 1 << 3,
    };
    return ask("/proc/self/pagemap", _IOWR('f', 16, struct page_scan), &scan);
}

const char *
fy_kernel_procmap_query(void)
{
    struct fy_procmap query = {
        .size = sizeof query,
        .query_addr = (uintptr_t)&query,
    };
    return ask("/proc/self/maps", FY_PROCMAP_QUERY, &query);
}
