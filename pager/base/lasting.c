/* SPDX-License-Identifier: Apache-2.0 */
/* See lasting.h. */
#include "config.h"

#include "pager/base/lasting.h"

#include <sys/mman.h>

void *
fy_lasting(size_t bytes)
{
    void *made = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return made == MAP_FAILED ? NULL : made;
}
