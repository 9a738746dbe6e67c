/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory of a plan's own: what lies between the passes of an algorithm, and
 * its tables. Never more than half of what there is.
 */
#include "config.h"

#include <sys/mman.h>

#include "pager/device/host_memory.h"
#include "pager/plan/build.h"

/* Stands at the beginning of it. */
struct fy_held_memory {
    struct fy_held_memory *next;
    uint64_t bytes;
};

enum {
    HEADER_BYTES = 4096,
    CHECK_BYTES = 64 << 20, /* from here on, ask how much there is */
};

void *
fy_planner_hold(struct fy_planner *planner, uint64_t bytes)
{
    if (bytes > SIZE_MAX / 4 ||
        (bytes > CHECK_BYTES && bytes > fy_host_available_bytes() / 2)) {
        return NULL;
    }
    bytes += HEADER_BYTES;
    char *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) {
        return NULL;
    }
    (void)madvise(base, bytes, MADV_HUGEPAGE);
    struct fy_held_memory *held = (void *)base;
    held->next = planner->held;
    held->bytes = bytes;
    planner->held = held;
    return base + HEADER_BYTES;
}

void
fy_planner_let_go(struct fy_planner *planner)
{
    while (planner->held) {
        struct fy_held_memory *held = planner->held;
        planner->held = held->next;
        (void)munmap(held, held->bytes);
    }
}
