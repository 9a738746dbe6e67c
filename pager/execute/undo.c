/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Undo log in anonymous memory. Old content lies there as a dense box; with a
 * constraint its holes are never touched and so cost no memory.
 */
#include "config.h"

#include "pager/execute/undo.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "pager/device/copy.h"
#include "pager/device/host_memory.h"

enum {
    KEEP_BYTES = 32 << 20,  /* kept between transactions */
    KEEP_SHARE = 32,        /* or that part of the machine's free memory */
    CHECK_BYTES = 64 << 20, /* from here on, ask how much memory there is */
};

static bool
needs_undo(const struct fy_replica *r)
{
    return r->written && r->old_matters && r->elements_bytes > 0;
}

/* Bytes of the dense box, rounded to cache lines; false on overflow. */
static bool
box_bytes(const struct fy_replica *r, uint64_t *out)
{
    uint64_t bytes = r->copy.view.element_bytes;
    for (int k = 0; k < r->copy.view.naxes; k++) {
        if (__builtin_mul_overflow(bytes, (uint64_t)r->copy.view.extent[k],
                                   &bytes)) {
            return false;
        }
    }
    if (__builtin_add_overflow(bytes, 63, &bytes)) {
        return false;
    }
    *out = bytes / 64 * 64;
    return true;
}

int
fy_undo_reserve(struct fy_undo *undo, struct fy_replica_table *table)
{
    uint64_t total = 0, touched = 0;
    struct fy_replica *r, *next;
    HASH_ITER (hh, table->by_place, r, next) {
        uint64_t bytes;
        if (!needs_undo(r)) {
            continue;
        }
        r->undo_at = total;
        if (!box_bytes(r, &bytes) ||
            __builtin_add_overflow(total, bytes, &total)) {
            return FY_ERR_NOMEM;
        }
        touched += r->elements_bytes;
    }
    if (total <= undo->bytes) {
        return 0;
    }
    if (touched > CHECK_BYTES) {
        uint64_t available = fy_host_available_bytes();
        if (touched > available / 4 * 3) {
            return FY_ERR_NOMEM;
        }
        undo->keep_bytes = available / KEEP_SHARE;
    }
    fy_undo_release(undo, true);
    /* Where only declared elements of a box are touched, claim no more. */
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    if (touched < total / 4 * 3) {
        flags |= MAP_NORESERVE;
    }
    char *base = mmap(NULL, total, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (base == MAP_FAILED) {
        return FY_ERR_NOMEM;
    }
    (void)madvise(base, total, MADV_HUGEPAGE);
    undo->base = base;
    undo->bytes = total;
    return 0;
}

bool
fy_undo_copy(const struct fy_undo *undo, struct fy_replica *r,
             struct fy_copy *out)
{
    if (!needs_undo(r)) {
        return false;
    }
    *out = r->copy;
    out->direction = FY_TO_LOG;
    out->device = (uint64_t)(uintptr_t)(undo->base + r->undo_at);
    out->saved = &r->logged;
    (void)fy_view_pack(&out->view, out->device_stride);
    return true;
}

void
fy_undo_restore(const struct fy_undo *undo,
                const struct fy_replica_table *table)
{
    struct fy_replica *r, *next;
    HASH_ITER (hh, table->by_place, r, next)
        if (r->logged) {
            struct fy_copy c = r->copy;
            c.direction = FY_TO_HOST;
            c.device = (uint64_t)(uintptr_t)(undo->base + r->undo_at);
            (void)fy_view_pack(&c.view, c.device_stride);
            /* Memory that is no longer there faults in the original, too. */
            (void)fy_copy_put_back(&c);
        }
}

void
fy_undo_release(struct fy_undo *undo, bool all)
{
    if (!undo->base || (!all && (undo->bytes <= KEEP_BYTES ||
                                 undo->bytes <= undo->keep_bytes))) {
        return;
    }
    (void)munmap(undo->base, undo->bytes);
    undo->base = NULL;
    undo->bytes = 0;
}
