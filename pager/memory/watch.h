/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks the kernel which pages of the program were written: userfaultfd(2) with
 * UFFD_FEATURE_WP_ASYNC (Linux 6.7) protects pages so that a first write costs a fault
 * inside the kernel and nothing else, and PAGEMAP_SCAN finds the pages that lost their
 * protection. No page becomes inaccessible, no signal is sent and no thread waits.
 * Source: Documentation/admin-guide/mm/pagemap.rst and userfaultfd.rst of Linux.
 *
 * All functions may be called by any thread, take no lock, allocate nothing and keep
 * errno. In a forked child nothing is watched.
 */
#ifndef FERRY_PAGER_MEMORY_WATCH_H
#define FERRY_PAGER_MEMORY_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

enum {
    FY_PAGE_BYTES = 4096
};

struct fy_pages {
    int fd;      /* userfaultfd; -1: not available */
    bool wanted; /* to be opened with the first object */
    /* ioctl(2), exchanged by tests that inject failures. */
    int (*control)(int fd, unsigned long request, void *argument);
};

/*
 * Opens the descriptor. FY_ERR_UNSUPPORTED: the kernel has no asynchronous write
 * protection, this process runs under a seccomp filter, which may end the process for
 * the question, or the program has a userfaultfd.
 */
int fy_pages_open(struct fy_pages *watch) FY_MUST_CHECK;
/* Closes the descriptor, which ends the protection of all pages. */
void fy_pages_close(struct fy_pages *watch);

/*
 * Registers the mappings that contain bytes start .. end - 1, each as a whole, so that
 * no mapping of the program is split. FY_ERR_UNSUPPORTED: some byte is not in private,
 * anonymous, readable and writable memory, or another userfaultfd has it.
 */
int fy_pages_add(const struct fy_pages *watch, uintptr_t start,
                 uintptr_t end) FY_MUST_CHECK;

/* Told pages first .. end - 1 (addresses, multiples of FY_PAGE_BYTES). */
typedef void fy_pages_told(void *state, uintptr_t first, uintptr_t end);

/*
 * Protects the pages of first .. end - 1 that are not protected, and tells `written' of
 * each in the same step; then tells `gone' of all that have no page any more (munmap(2),
 * MADV_DONTNEED). A page that is told of neither way has the content of the last scan.
 * FY_ERR_UNSUPPORTED: a mapping there is not registered, so it is another one than the
 * mapping of the last scan; FY_ERR_IO. After an error nothing is known.
 */
int fy_pages_scan(const struct fy_pages *watch, uintptr_t first, uintptr_t end,
                  fy_pages_told *written, fy_pages_told *gone,
                  void *state) FY_MUST_CHECK;

/* Takes the protection off pages that ferry is about to write. A failure costs time only. */
void fy_pages_let(const struct fy_pages *watch, uintptr_t first, uintptr_t end);

/* Reasons why writes to protected pages may not be seen, or protection is not wanted. */
enum fy_pages_rival {
    FY_PAGES_ALONE,
    FY_PAGES_PINNED,  /* io_uring, a device: pages that were pinned before */
    FY_PAGES_WATCHED, /* by a userfaultfd of the program's own, or soon */
};

/* Looks through the process's descriptors. PINNED also if the kernel does not say. */
enum fy_pages_rival fy_pages_rival(const struct fy_pages *watch);

#endif
