/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and writes the program's memory where that must not fault: on threads of
 * ferry's, whose signals are blocked, and inside a call that must be undone first.
 * The program may have truncated the file behind a mapping, protect pages to learn
 * of writes, or take them away meanwhile; its handler is to meet such a fault in
 * the original, on its own thread. So the kernel copies (process_vm_readv(2) and
 * process_vm_writev(2) on this process), which answers EFAULT and sends no signal.
 * Memory of devices, of which it hands out no pages, is copied in blocks as the
 * caller's side of such a system call.
 *
 * Where a filter refuses that, pages are asked for first (madvise(2), Linux 5.14)
 * and then copied: memory that another thread takes away in between is a signal again.
 * Any thread; no lock, no allocation; errno stays.
 */
#ifndef FERRY_PAGER_DEVICE_HOST_ACCESS_H
#define FERRY_PAGER_DEVICE_HOST_ACCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "common/status.h"

enum {
    FY_HOST_ACCESS_RUNS = 64
};

/* Rows that wait for one system call. */
struct fy_host_access {
    bool writes; /* to the program's memory; else from it */
    bool skips;  /* goes on behind memory that cannot be written */
    int status;
    unsigned nhost, nown;
    size_t bytes;
    struct iovec host[FY_HOST_ACCESS_RUNS], own[FY_HOST_ACCESS_RUNS];
};

/*
 * Returns true if the calling thread can access that memory now, protection
 * keys included, which the copies here do not look at. True if the kernel is
 * older than 5.14. Of memory of devices only one byte is asked for at a time.
 */
bool fy_host_can_be_had(const void *at, size_t bytes, bool writes);

/* Begins copies to (`writes') or from the program's memory; `skips': see the struct. */
void fy_host_access_begin(struct fy_host_access *access, bool writes,
                          bool skips);

/*
 * n elements of `bytes' each, strides in bytes of any sign; between the elements
 * nothing is written on either side. `own' is ferry's memory.
 */
void fy_host_access_row(struct fy_host_access *access, char *host, char *own,
                        int64_t n, int64_t host_stride, int64_t own_stride,
                        size_t bytes);

/* Does the copies that still wait. FY_ERR_FAULT: some of the program's
 * memory could not be accessed; unless `skips', other parts may not have
 * been copied then. */
int fy_host_access_end(struct fy_host_access *access) FY_MUST_CHECK;

#endif
