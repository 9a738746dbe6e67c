/* SPDX-License-Identifier: Apache-2.0 */
/* See lasting.h. */
#include "config.h"

#include "pager/base/lasting.h"

#include <sys/mman.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

void *
fy_lasting(size_t bytes)
{
    void *made = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (made == MAP_FAILED) {
        return NULL;
    }
#ifdef __SANITIZE_ADDRESS__
    __lsan_register_root_region(made,
                                bytes); /* it may hold pointers to the heap */
#endif
    return made;
}
