/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ioctl of /proc/PID/maps that tells of the mapping at an address: in
 * linux/fs.h since 6.11, and older headers lack it. Kernels that do not know it
 * answer ENOTTY.
 */
#ifndef COMMON_PROCMAP_H
#define COMMON_PROCMAP_H

#include <stdint.h>
#include <sys/ioctl.h>

/* struct procmap_query */
struct fy_procmap {
    uint64_t size, query_flags, query_addr;
    uint64_t vma_start, vma_end, vma_flags, vma_page_size, vma_offset, inode;
    uint32_t dev_major, dev_minor, vma_name_size, build_id_size;
    uint64_t vma_name_addr, build_id_addr;
};

#define FY_PROCMAP_QUERY _IOWR('f', 17, struct fy_procmap)

/* Bits of vma_flags and query_flags; the last two of query_flags alone. */
enum {
    FY_PROCMAP_READABLE = 1,
    FY_PROCMAP_WRITABLE = 2,
    FY_PROCMAP_EXECUTABLE = 4,
    FY_PROCMAP_SHARED = 8,
    FY_PROCMAP_OR_NEXT = 0x10,
    FY_PROCMAP_OF_FILE = 0x20
};

#endif
