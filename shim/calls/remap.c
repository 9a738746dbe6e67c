/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mremap(2) by name: memory that deferred calls are about is watched in parts,
 * and the kernel moves no mapping of several parts. So everything is brought
 * home first. Calls inside libc (realloc) do not come here and need not: they
 * copy where they cannot move.
 */
#include "config.h"

#include <errno.h>
#include <stdarg.h>
#include <sys/mman.h>

#include "shim/programs/exec.h"

typedef void *remap_fn(void *old, size_t old_bytes, size_t new_bytes, int flags,
                       ...);

__attribute__((visibility("default"))) void *
mremap(void *old, size_t old_bytes, size_t new_bytes, int flags, ...)
{
    remap_fn *original = FY_ORIGINAL(remap_fn, FY_MREMAP);
    va_list rest;

    /* Looked at only where the caller has passed it, as libc's own does. */
    va_start(rest, flags);
    void *wanted =
        flags & (MREMAP_FIXED | MREMAP_DONTUNMAP) ? va_arg(rest, void *) : NULL;
    va_end(rest);
    bool told = fy_engine_before_change();
    void *moved = original(old, old_bytes, new_bytes, flags, wanted);
    int saved = errno;
    fy_engine_after_change(told);
    errno = saved;
    return moved;
}
