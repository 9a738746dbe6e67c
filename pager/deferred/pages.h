/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges of the program's memory whose pages were taken away: what they held,
 * or will hold, is in a shadow elsewhere, and what touches them (any thread,
 * a system call, a forked child) waits until it has been put back. Linux only:
 * userfaultfd with kernel faults. Everything but start and lock is called with
 * the lock held, and nothing under the lock may touch a taken page.
 */
#ifndef FERRY_PAGER_DEFERRED_PAGES_H
#define FERRY_PAGER_DEFERRED_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

enum {
    FY_PAGES_RANGES = 64,  /* at once */
    FY_PAGES_SEGMENTS = 64 /* of one range, after others moved parts of it */
};

/* Pages of a range that lie together, at `at' in the program's memory. */
struct fy_pages_segment {
    size_t first, count;
    uintptr_t at;
};

struct fy_pages {
    bool used;
    bool before, after; /* a page more of the mapping is watched */
    bool watched;       /* registered: not yet left */
    bool disturbed;     /* unmapped, moved or dropped, in part or whole */
    bool kept;          /* unused but for children that still read the shadow */
    uintptr_t start;    /* where it was when it was taken */
    size_t bytes;
    char *shadow;
    uint64_t *out; /* bit per page: not at home */
    size_t nout;
    unsigned nsegments;
    struct fy_pages_segment segments[FY_PAGES_SEGMENTS];
};

struct fy_pages_hooks {
    /*
     * Under the lock, on a thread of ferry's: the shadow of a range (NULL: of all)
     * must hold what the program is to see before this returns.
     */
    void (*settle)(struct fy_pages *needed);
    /* Some range is disturbed: everything is settled, it is released. */
    void (*disturbed)(void);
    /* A range is at home again: release it unless its shadow is needed. */
    void (*filled)(struct fy_pages *range);
    /* Whether its shadow will be read once the range is at home. */
    bool (*needed)(const struct fy_pages *range);
};

/*
 * Starts the two threads that keep the descriptor, in a table of descriptors of
 * their own: no close() of the program reaches it. FY_ERR_UNSUPPORTED where the
 * kernel, its settings or the allocator do not allow it.
 */
int fy_pages_start(const struct fy_pages_hooks *hooks) FY_MUST_CHECK;

/* Its holder has all signals blocked and is not cancelled. */
void fy_pages_lock(void);
void fy_pages_unlock(void);
/* All that others have unmapped or moved until now is known after this. */
void fy_pages_sync(void);

/* The range of exactly these pages, all of them out, or NULL. */
struct fy_pages *fy_pages_find(uintptr_t start, size_t bytes);
/*
 * Bits of the rows whose pages any of these are; `others': but for the range
 * that is exactly these, and all of them out.
 */
uint64_t fy_pages_overlaps(uintptr_t start, size_t bytes, bool others);
/* Ranges that may still be taken. */
unsigned fy_pages_room(void);
/* Row of the table, to number ranges by. */
unsigned fy_pages_row(const struct fy_pages *range);
struct fy_pages *fy_pages_at(unsigned row); /* NULL: unused */
bool fy_pages_is_out(const struct fy_pages *range, size_t page);

/*
 * Takes whole pages away: of one private anonymous writable mapping that malloc
 * does not keep its own notes in and no stack lies in. FY_ERR_UNSUPPORTED when
 * that is not sure, FY_ERR_NOMEM. `before', `after': the operand has elements in
 * the next page; that is watched as well. The kernel then keeps the parts of a
 * mapping alike, and they become one again, which mremap() can move, once
 * nothing is watched. Nobody else's page is, as ferry might unmap it itself.
 */
int fy_pages_take(uintptr_t start, size_t bytes, bool before, bool after,
                  struct fy_pages **out) FY_MUST_CHECK;

/* Puts all pages that are out back, and forgets the range. */
void fy_pages_release(struct fy_pages *range);
/* All of it is at home: no longer watches it, but keeps the shadow. */
void fy_pages_leave(struct fy_pages *range);
/* Forgets a range whose content no reader will see. */
void fy_pages_drop(struct fy_pages *range);

#endif
