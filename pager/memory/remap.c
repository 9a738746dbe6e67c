/* SPDX-License-Identifier: Apache-2.0 */
/* Moves mapping after mapping; after a failure those that were moved go back. */
#define _GNU_SOURCE
#include "config.h"

#include "pager/memory/remap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/procmap.h"

enum {
    PAGE_BYTES = 4096
};

/* System calls by number: libc's mremap is ferry's. */
static char *
move(char *old, size_t old_bytes, size_t new_bytes, int flags, char *to)
{
    return (char *)syscall(SYS_mremap, old, old_bytes, new_bytes, flags, to);
}

/* The end of the mapping at `at', if it is like the others; else 0. */
static uintptr_t
end_of(int maps, uintptr_t at, bool any, uint64_t *rights)
{
    struct fy_procmap query = {.size = sizeof(query), .query_addr = at};

    if (syscall(SYS_ioctl, maps, FY_PROCMAP_QUERY, &query) != 0 ||
        (query.vma_flags & FY_PROCMAP_SHARED) || query.inode != 0 ||
        query.vma_page_size != PAGE_BYTES ||
        (*rights != UINT64_MAX && *rights != query.vma_flags && !any)) {
        return 0;
    }
    *rights = query.vma_flags;
    return query.vma_end;
}

/* Returns true if this kernel moves several mappings at once (Linux 6.17). */
static bool
moves_several(void)
{
    char *two = mmap(NULL, 4L * PAGE_BYTES, PROT_READ,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (two == MAP_FAILED) {
        return false;
    }
    bool does = mprotect(two, PAGE_BYTES, PROT_NONE) == 0 &&
                move(two, 2L * PAGE_BYTES, 2L * PAGE_BYTES,
                     MREMAP_MAYMOVE | MREMAP_FIXED,
                     two + 2L * PAGE_BYTES) != MAP_FAILED;
    (void)munmap(two, 4L * PAGE_BYTES);
    return does;
}

/* The end of the piece at old + at, of at most `bytes' in all. 0: it cannot be moved. */
static size_t
piece_end(int maps, const char *old, size_t at, size_t bytes, bool any,
          uint64_t *rights)
{
    uintptr_t end = end_of(maps, (uintptr_t)old + at, any, rights);
    size_t to = end ? end - (uintptr_t)old : 0;
    return to > bytes ? bytes : to;
}

/* Moves the pieces of old .. old + bytes - 1; the last one has `more' bytes then. */
static bool
move_all(int maps, char *old, size_t bytes, size_t more, char *to)
{
    uint64_t rights = UINT64_MAX;
    size_t at = 0, next;
    int flags = MREMAP_MAYMOVE | MREMAP_FIXED;

    for (; at < bytes; at = next) {
        next = piece_end(maps, old, at, bytes, true, &rights);
        size_t grows = next == bytes ? more : 0;
        if (!next || move(old + at, next - at, next - at + grows, flags,
                          to + at) == MAP_FAILED) {
            break;
        }
    }
    if (at >= bytes) {
        return true;
    }
    for (size_t back = 0; back < at; back = next) {
        next = piece_end(maps, to, back, at, true, &rights);
        if (!next || move(to + back, next - back, next - back, flags,
                          old + back) == MAP_FAILED) {
            break; /* the kernel has no more mappings: nothing can be done */
        }
    }
    return false;
}

static char *
remap(int maps, char *old, size_t old_bytes, size_t new_bytes, int flags,
      char *to)
{
    const bool fixed = flags & MREMAP_FIXED;
    const bool any = fixed && old_bytes == new_bytes && moves_several();
    const size_t bytes = old_bytes < new_bytes ? old_bytes : new_bytes;
    uint64_t rights = UINT64_MAX;
    size_t last = 0;

    for (size_t at = 0, next; at < bytes; at = next) {
        last = at;
        next = piece_end(maps, old, at, bytes, any, &rights);
        if (!next) {
            errno = EFAULT;
            return MAP_FAILED;
        }
    }
    if (!fixed && move(old + last, old_bytes - last, new_bytes - last, 0,
                       NULL) != MAP_FAILED) {
        return old;
    }
    if (!fixed && !(flags & MREMAP_MAYMOVE)) {
        return MAP_FAILED; /* ENOMEM of the last */
    }
    if (!fixed) {
        to = mmap(NULL, new_bytes, PROT_NONE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    }
    if (to == MAP_FAILED) {
        return MAP_FAILED;
    }
    if (!move_all(maps, old, bytes, new_bytes - bytes, to)) {
        (void)munmap(to, new_bytes);
        errno = ENOMEM;
        return MAP_FAILED;
    }
    if (old_bytes > new_bytes) {
        (void)munmap(old + new_bytes, old_bytes - new_bytes);
    }
    return to;
}

void *
fy_remap(void *old, size_t old_bytes, size_t new_bytes, int flags, void *to)
{
    const size_t below = PAGE_BYTES - 1;
    char *result = MAP_FAILED;

    if ((flags & ~(MREMAP_MAYMOVE | MREMAP_FIXED)) || old_bytes == 0 ||
        old_bytes > SIZE_MAX / 2 || new_bytes > SIZE_MAX / 2) {
        errno = EFAULT;
        return MAP_FAILED;
    }
    int maps = (int)syscall(SYS_openat, AT_FDCWD, "/proc/thread-self/maps",
                            O_RDONLY | O_CLOEXEC);
    if (maps < 0) {
        errno = EFAULT;
        return MAP_FAILED;
    }
    result = remap(maps, old, (old_bytes + below) & ~below,
                   (new_bytes + below) & ~below, flags, to);
    int error = errno;
    (void)syscall(SYS_close, maps);
    errno = error;
    return result;
}
