/* SPDX-License-Identifier: Apache-2.0 */
/* Moves mapping after mapping; after a failure those that were moved go back. */
#define _GNU_SOURCE
#include "config.h"

#include "pager/memory/remap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
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

/* A part of a mapping, within the range that is asked for. */
struct piece {
    char *start, *end;
    uint64_t rights;
    bool is_plain; /* private memory of no file */
};

/* Finds the first piece of at .. end - 1. Returns false if there is none. */
static bool
find_piece(int maps, char *at, char *end, struct piece *out)
{
    struct fy_procmap query = {.size = sizeof(query),
                               .query_flags = FY_PROCMAP_OR_NEXT,
                               .query_addr = (uintptr_t)at};

    if (syscall(SYS_ioctl, maps, FY_PROCMAP_QUERY, &query) != 0 ||
        query.vma_start >= (uintptr_t)end) {
        return false;
    }
    out->start = query.vma_start > (uintptr_t)at
                     ? at + (query.vma_start - (uintptr_t)at)
                     : at;
    out->end = query.vma_end < (uintptr_t)end
                   ? at + (query.vma_end - (uintptr_t)at)
                   : end;
    out->rights = query.vma_flags;
    out->is_plain = !(query.vma_flags & FY_PROCMAP_SHARED) &&
                    query.inode == 0 && query.vma_page_size == PAGE_BYTES;
    return true;
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

/* Moves the pieces of at .. end - 1 by `by' bytes, and gaps too; the last piece has `more'
 * bytes then. *moved is the end of those that were moved; true: all. */
static bool
move_pieces(int maps, char *at, char *end, ptrdiff_t by, size_t more,
            char **moved)
{
    bool done = true;

    while (at < end && done) {
        struct piece piece = {.start = end, .end = end};
        bool found = find_piece(maps, at, end, &piece);
        size_t bytes = (size_t)(piece.end - piece.start);
        if (piece.start > at) {
            (void)munmap(at + by, (size_t)(piece.start - at));
        }
        done =
            !found ||
            move(piece.start, bytes, bytes + (piece.end == end ? more : 0),
                 MREMAP_MAYMOVE | MREMAP_FIXED, piece.start + by) != MAP_FAILED;
        at = done ? piece.end : at;
    }
    *moved = at;
    return done;
}

/* Finds the last piece. Returns false if the pieces would not have been one mapping. */
static bool
are_alike(int maps, char *at, char *end, struct piece *last)
{
    const char *start = at;

    for (uint64_t rights = 0; at < end; at = last->end) {
        if (!find_piece(maps, at, end, last) || last->start > at ||
            !last->is_plain || (at > start && last->rights != rights)) {
            return false;
        }
        rights = last->rights;
    }
    return true;
}

static char *
remap(int maps, char *old, size_t old_bytes, size_t new_bytes, int flags,
      char *to)
{
    const bool fixed = flags & MREMAP_FIXED;
    const bool several = fixed && old_bytes == new_bytes && moves_several();
    const size_t bytes = old_bytes < new_bytes ? old_bytes : new_bytes;
    struct piece piece;
    char *from = old;

    if (several) { /* this far, the kernel has moved them before it refused one */
        if (!find_piece(maps, old, old + bytes, &piece)) {
            errno = EFAULT;
            return MAP_FAILED;
        }
        from = piece.start;
    } else if (!are_alike(maps, old, old + bytes, &piece)) {
        errno = EFAULT;
        return MAP_FAILED;
    }
    if (!fixed) {
        size_t last = (size_t)(piece.start - old);
        if (move(piece.start, old_bytes - last, new_bytes - last, 0, NULL) !=
            MAP_FAILED) {
            return old;
        }
        if (!(flags & MREMAP_MAYMOVE)) {
            return MAP_FAILED; /* with the errno of that */
        }
        to = mmap(NULL, new_bytes, PROT_NONE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (to == MAP_FAILED) {
            return MAP_FAILED;
        }
    }
    char *end;
    if (!move_pieces(maps, from, old + bytes, to - old, new_bytes - bytes,
                     &end)) {
        (void)move_pieces(maps, to, to + (end - old), old - to, 0, &end);
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
