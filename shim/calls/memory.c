/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mremap(2) and userfaultfd(2), by name or by number. The engine watches operands with a
 * userfaultfd, by which the kernel refuses the program some of the former, and its own
 * registrations of the same memory. Any thread, any handler.
 */
#include "config.h"

#include <errno.h>
#include <stdint.h>
#include <sys/syscall.h>

#include "shim/programs/exec.h"

typedef void *remap_fn(void *, size_t, size_t, int, ...);

/* As libc's, which reads the arguments whether there are so many or not; sys/mman.h would
 * have it variadic. */
void *mremap(void *old, size_t old_bytes, size_t new_bytes, int flags,
             void *to);
__attribute__((visibility("default"))) void *
mremap(void *old, size_t old_bytes, size_t new_bytes, int flags, void *to)
{
    remap_fn *original = FY_ORIGINAL(remap_fn, FY_MREMAP);
    int saved = errno;
    void *result = original(old, old_bytes, new_bytes, flags, to);
    if (result != (void *)-1 || errno != EFAULT) {
        return result;
    }
    result = fy_engine_remap(old, old_bytes, new_bytes, flags, to);
    errno = result != (void *)-1 ? saved : errno;
    return result;
}

long
fy_syscall_memory(long number, long a, long b, long c, long d, long e)
{
    if (number == SYS_mremap) {
        return (long)mremap((void *)a, (size_t)b, (size_t)c, (int)d, (void *)e);
    }
    if (!fy_is_vfork_child()) {
        fy_engine_unwatch();
    }
    return FY_ORIGINAL(fy_syscall_fn, FY_SYSCALL)(number, a, b, c, d, e);
}
