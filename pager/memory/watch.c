/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Raw system calls throughout: descriptors of /proc live only for the question, and the
 * headers of Debian 12 lack the names of Linux 6.7.
 */
#include "config.h"

#include "pager/memory/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/kernel.h"
#include "common/procmap.h"

#define WP_UNPOPULATED (UINT64_C(1) << 13)
#define WP_ASYNC       (UINT64_C(1) << 15)

enum {
    USER_MODE_ONLY = 1, /* UFFD_USER_MODE_ONLY */
    HIGH_FD = 900,      /* away from numbers that the program counts on */
    LISTING_BYTES = 2048,
    MAX_FDS = 512, /* more are not looked through */
    REGIONS = 128,
};

/* struct page_region and struct pm_scan_arg of linux/fs.h. */
struct region {
    uint64_t start, end, categories;
};

struct scan {
    uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
    uint64_t inverted, all_of, any_of, returned;
};

#define PAGEMAP_SCAN _IOWR('f', 16, struct scan)

enum {
    SCAN_PROTECTS = 1, /* PM_SCAN_WP_MATCHING */
    SCAN_CHECKS = 2,   /* PM_SCAN_CHECK_WPASYNC */
    PAGE_WRITTEN = 1 << 1,
    PAGE_PRESENT = 1 << 3,
    PAGE_SWAPPED = 1 << 4,
};

static const char own_target[] = "anon_inode:[userfaultfd]";

static int
control(int fd, unsigned long request, void *argument)
{
    return (int)syscall(SYS_ioctl, fd, request, argument);
}

static int
open_proc(const char *path)
{
    return (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
}

static void
close_fd(int fd)
{
    (void)syscall(SYS_close, fd);
}

/* Returns true if the number on that line of the thread's status is not 0, or unknown. */
static bool
has_status(const char *label)
{
    char text[4096];
    int fd = open_proc("/proc/thread-self/status");
    if (fd < 0) {
        return true;
    }
    long got = syscall(SYS_read, fd, text, sizeof(text) - 1);
    close_fd(fd);
    text[got > 0 ? got : 0] = '\0';
    const char *line = strstr(text, label);
    if (!line) {
        return got <= 0 || got == sizeof(text) - 1; /* it has many groups */
    }
    line += strlen(label);
    return line[strspn(line, " \t")] != '0';
}

/* Moves the descriptor to a high number. Returns -1 if there is none, because a program
 * with so few descriptors may need all of them. */
static int
move_up(int fd)
{
    int high = -1;
    if (fd >= 0) {
        high = (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, HIGH_FD);
        close_fd(fd);
    }
    return high;
}

int
fy_pages_open(struct fy_pages *watch)
{
    int saved = errno;
    struct uffdio_api api = {.api = UFFD_API, .features = WP_ASYNC};

    watch->fd = -1;
    if (!watch->control) {
        watch->control = control;
    }
    if (has_status("\nSeccomp:") || fy_pages_rival(watch) == FY_PAGES_WATCHED) {
        errno = saved;
        return FY_ERR_UNSUPPORTED;
    }
    int fd = move_up(
        (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | USER_MODE_ONLY));
    if (fd >= 0 &&
        (watch->control(fd, UFFDIO_API, &api) != 0 ||
         !(api.features & WP_ASYNC) || !(api.features & WP_UNPOPULATED))) {
        close_fd(fd);
        fd = -1;
    }
    watch->fd = fd;
    errno = saved;
    return fd >= 0 ? FY_OK : FY_ERR_UNSUPPORTED;
}

void
fy_pages_close(struct fy_pages *watch)
{
    int saved = errno;
    char path[40], target[sizeof(own_target)];
    (void)snprintf(path, sizeof(path), "/proc/thread-self/fd/%d", watch->fd);
    /* The program may have closed it, and another file may have the number. */
    if (watch->fd >= 0 &&
        syscall(SYS_readlinkat, AT_FDCWD, path, target, sizeof(target)) ==
            sizeof(own_target) - 1 &&
        memcmp(target, own_target, sizeof(own_target) - 1) == 0) {
        close_fd(watch->fd);
    }
    watch->fd = -1;
    errno = saved;
}

/* The mapping at `at' into *query, if residency may watch it. */
static bool
may_watch(int maps, uintptr_t at, struct fy_procmap *query)
{
    char name[64] = "";

    *query = (struct fy_procmap){.size = sizeof(*query),
                                 .query_addr = at,
                                 .vma_name_size = sizeof(name),
                                 .vma_name_addr = (uintptr_t)name};
    if (control(maps, FY_PROCMAP_QUERY, query) != 0) {
        return false; /* also a name of a file that is too long */
    }
    const uint64_t both = FY_PROCMAP_READABLE | FY_PROCMAP_WRITABLE;
    return (query->vma_flags & both) == both &&
           !(query->vma_flags & FY_PROCMAP_SHARED) && query->inode == 0 &&
           query->dev_major == 0 && query->dev_minor == 0 &&
           query->vma_page_size == FY_PAGE_BYTES &&
           strncmp(name, "[stack", 6) != 0;
}

int
fy_pages_add(const struct fy_pages *watch, uintptr_t start, uintptr_t end)
{
    int saved = errno, status = FY_OK;
    int maps = open_proc("/proc/thread-self/maps");

    if (maps < 0 || watch->fd < 0) {
        status = FY_ERR_UNSUPPORTED;
    }
    for (uintptr_t at = start; status == FY_OK && at < end;) {
        struct fy_procmap mapping;
        struct uffdio_register range;
        if (!may_watch(maps, at, &mapping)) {
            status = FY_ERR_UNSUPPORTED;
            break;
        }
        range = (struct uffdio_register){
            .range = {.start = mapping.vma_start,
                      .len = mapping.vma_end - mapping.vma_start},
            .mode = UFFDIO_REGISTER_MODE_WP};
        if (watch->control(watch->fd, UFFDIO_REGISTER, &range) != 0) {
            status = FY_ERR_UNSUPPORTED;
        }
        at = mapping.vma_end;
    }
    if (maps >= 0) {
        close_fd(maps);
    }
    errno = saved;
    return status;
}

/* Scans to the end, telling `told' of each region found. */
static int
scan_all(const struct fy_pages *watch, int fd, struct scan scan,
         fy_pages_told *told, void *state)
{
    struct region regions[REGIONS];

    scan.size = sizeof(scan);
    scan.vec = (uintptr_t)regions;
    scan.vec_len = REGIONS;
    while (scan.start < scan.end) {
        scan.walk_end = 0;
        int found = watch->control(fd, PAGEMAP_SCAN, &scan);
        if (found < 0) {
            return errno == EPERM ? FY_ERR_UNSUPPORTED : FY_ERR_IO;
        }
        for (int i = 0; i < found; i++) {
            told(state, regions[i].start, regions[i].end);
        }
        if (scan.walk_end <= scan.start || scan.walk_end > scan.end) {
            return FY_ERR_IO;
        }
        scan.start = scan.walk_end;
    }
    return FY_OK;
}

/* Finds the gaps between regions that have pages. */
struct gaps {
    uintptr_t at;
    fy_pages_told *gone;
    void *state;
};

static void
has_pages(void *opaque, uintptr_t first, uintptr_t end)
{
    struct gaps *gaps = opaque;
    if (first > gaps->at) {
        gaps->gone(gaps->state, gaps->at, first);
    }
    gaps->at = end;
}

int
fy_pages_scan(const struct fy_pages *watch, uintptr_t first, uintptr_t end,
              fy_pages_told *written, fy_pages_told *gone, void *state)
{
    int saved = errno;
    struct gaps gaps = {first, gone, state};

    if (first >= end) {
        return FY_OK;
    }
    int fd = open_proc("/proc/thread-self/pagemap");
    if (fd < 0) {
        errno = saved;
        return FY_ERR_IO;
    }
    int status = scan_all(watch, fd,
                          (struct scan){.flags = SCAN_PROTECTS | SCAN_CHECKS,
                                        .start = first,
                                        .end = end,
                                        .all_of = PAGE_WRITTEN,
                                        .returned = PAGE_WRITTEN},
                          written, state);
    /* A page that was taken away has no protection, nor has a write been seen. */
    if (status == FY_OK) {
        status = scan_all(watch, fd,
                          (struct scan){.flags = SCAN_CHECKS,
                                        .start = first,
                                        .end = end,
                                        .any_of = PAGE_PRESENT | PAGE_SWAPPED,
                                        .returned = 0},
                          has_pages, &gaps);
    }
    if (status == FY_OK && gaps.at < end) {
        gone(state, gaps.at, end);
    }
    close_fd(fd);
    errno = saved;
    return status;
}

void
fy_pages_let(const struct fy_pages *watch, uintptr_t first, uintptr_t end)
{
    int saved = errno;
    if (first < end) {
        struct uffdio_writeprotect range = {
            .range = {.start = first, .len = end - first}, .mode = 0};
        (void)watch->control(watch->fd, UFFDIO_WRITEPROTECT, &range);
    }
    errno = saved;
}

/*
 * By the first letters of a descriptor's target, the longest row first. Drivers pin memory
 * for their devices (RDMA and other fabrics, VFIO, graphics, XPMEM): of one that is not
 * listed ferry believes that it does. Of NVIDIA's the engine knows more.
 */
static enum fy_pages_rival
rival_of(const char *target)
{
    static const struct {
        const char *begins;
        enum fy_pages_rival is;
    } kinds[] = {
        {"anon_inode:[io_uring]", FY_PAGES_PINNED},
        {"anon_inode:[vfio", FY_PAGES_PINNED},
        {own_target, FY_PAGES_WATCHED},
        {"/dev/userfaultfd", FY_PAGES_WATCHED},
        {"/dev/null", FY_PAGES_ALONE},
        {"/dev/zero", FY_PAGES_ALONE},
        {"/dev/full", FY_PAGES_ALONE},
        {"/dev/random", FY_PAGES_ALONE},
        {"/dev/urandom", FY_PAGES_ALONE},
        {"/dev/tty", FY_PAGES_ALONE},
        {"/dev/pts/", FY_PAGES_ALONE},
        {"/dev/ptmx", FY_PAGES_ALONE},
        {"/dev/console", FY_PAGES_ALONE},
        {"/dev/shm/", FY_PAGES_ALONE},
        {"/dev/hugepages/", FY_PAGES_ALONE},
        {"/dev/mqueue/", FY_PAGES_ALONE},
        {"/dev/fuse", FY_PAGES_ALONE},
        {"/dev/nvidia", FY_PAGES_ALONE},
        {"/dev/", FY_PAGES_PINNED},
    };

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strncmp(target, kinds[i].begins, strlen(kinds[i].begins)) == 0) {
            return kinds[i].is;
        }
    }
    return FY_PAGES_ALONE;
}

enum fy_pages_rival
fy_pages_rival(const struct fy_pages *watch)
{
    _Alignas(struct dirent64) char listing[LISTING_BYTES];
    char target[64];
    int saved = errno;
    unsigned count = 0;
    enum fy_pages_rival found = FY_PAGES_ALONE;
    int folder = (int)syscall(SYS_openat, AT_FDCWD, "/proc/thread-self/fd",
                              O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct fy_entries entries = {folder, listing, sizeof(listing), 0, 0};
    const struct dirent64 *entry;

    while (!found && (entry = fy_entries_next(&entries))) {
        if (entry->d_name[0] == '.' || atoi(entry->d_name) == watch->fd) {
            continue;
        }
        long got = syscall(SYS_readlinkat, folder, entry->d_name, target,
                           sizeof(target) - 1);
        target[got > 0 ? got : 0] = '\0';
        found = ++count > MAX_FDS ? FY_PAGES_PINNED : rival_of(target);
        /* A read in the background (libaio, another thread) pins the pages. */
        long flags = syscall(SYS_fcntl, atoi(entry->d_name), F_GETFL);
        if (!found && flags >= 0 && (flags & O_DIRECT)) {
            found = FY_PAGES_PINNED;
        }
    }
    if (folder >= 0) {
        close_fd(folder);
    }
    if (entries.n < 0 ||
        /* A ring of io_uring may be left without a descriptor. */
        (!found && has_status("\nVmPin:"))) {
        found = FY_PAGES_PINNED;
    }
    errno = saved;
    return found;
}
