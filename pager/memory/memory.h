/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Residency: operands stay on the device from one call to the next. An *object* is a
 * range of the program's memory with a *mirror*, a copy of it in device memory with the
 * same layout. Each page of an object is either clean (the mirror has its content, and
 * the next call finds out if it was written) or stale. The kernel tells of writes
 * (write-through), or pages are hashed (compare). Host memory is always complete: results
 * are copied back when their call ends, and an object may be dropped at any time between
 * calls.
 *
 * A call owns the objects that it uses; another call that comes meanwhile copies as if
 * there were none. All functions may be called by any thread with the program's signals
 * blocked (inside an accepted call), and keep errno.
 */
#ifndef FERRY_PAGER_MEMORY_MEMORY_H
#define FERRY_PAGER_MEMORY_MEMORY_H

#include <pthread.h>

#include "common/settings.h"
#include "common/status.h"
#include "pager/device/device.h"
#include "pager/memory/compare.h"
#include "pager/memory/watch.h"

enum {
    FY_MEMORY_OBJECTS = 64,
    FY_MEMORY_PAST = 64,
    FY_MEMORY_LEAST_BYTES = 128 << 10,
};

struct fy_object {
    uintptr_t start, end; /* bytes of the program's memory; equal: a free row */
    struct fy_device *device;
    uint64_t buffer, buffer_bytes; /* device memory */
    uint64_t mirror;               /* device address of the byte at `start' */
    unsigned char *clean;          /* of each page that the object touches */
    /* Hashes of the mirror's pages, as in `clean'; NULL: the kernel tells of writes. */
    struct fy_page_hash *hashes;
    uint64_t used; /* count of holds when a call last had it */
    /* Uses that found it stale, or overwrote it unread, less those that were of use. */
    int wasted;
    bool was_read;     /* by the last call */
    bool was_partial;  /* a result with gaps, of the last call */
    bool was_kept;     /* some call found a good part of it clean */
    const void *owner; /* the call's struct fy_hold, or NULL */
    bool dead;         /* dropped when the owner lets go */
};

/* The part of an object that fy_memory_expect() reads without the lock. */
struct fy_known {
    uintptr_t start, end; /* equal: a free row */
    uint64_t clean_bytes;
    bool compared;
};

/* Effects of residency that a call may expect. */
struct fy_memory_guess {
    uint64_t kept_bytes;   /* that it reads and need not be copied */
    uint64_t hashed_bytes; /* read to find out */
};

/* An operand range that was seen, and the fate of the object there. */
struct fy_past {
    uintptr_t start, end;
    uint64_t used;
    unsigned skip,
        backoff; /* uses until an object is made again; the last skip */
};

struct fy_memory {
    enum fy_residency residency; /* OFF: every function does nothing */
    uint64_t least_bytes;        /* of an object; smaller operands are copied */
    struct fy_pages watch;
    struct fy_compare
        compare;          /* block NULL: none was compared yet, or can be */
    pthread_mutex_t lock; /* protects all below, and `compare' */
    uint64_t holds;
    uint64_t resident_bytes;  /* device memory of all mirrors */
    bool found;               /* a written page, by the last scan */
    bool has_watched;         /* some mapping, ever; stays in a forked child */
    uint64_t unwatched_until; /* count of holds: the kernel was asked in vain */
    bool is_pinned;           /* or memory may be pinned */
    struct fy_object objects[FY_MEMORY_OBJECTS];
    struct fy_past past[FY_MEMORY_PAST];
    struct fy_known known[FY_MEMORY_OBJECTS]; /* atomic, without the lock */
    bool compares; /* atomic: hashing is faster than copying */
};

/* One operand of a call that is a part of an object. */
struct fy_held {
    struct fy_object *object;
    uintptr_t lo, hi; /* bytes of the operand, gaps included */
    bool reads, writes;
    bool dense;  /* has every byte of lo .. hi - 1 */
    bool placed; /* some tile lies in the mirror */
    bool missed; /* some tile does not */
    uintptr_t
        copied; /* stale bytes below it have been copied in by this call */
    /* Number + 1 of a view of the schedule that has the row's bytes (0: none); other views
     * have them, too, and a tile of each has other content. */
    uint32_t view;
    bool parted;
};

struct fy_hold {
    unsigned count;
    uint32_t operands; /* bit i: view i is resident */
    uint32_t kept;     /* at most an eighth of the bytes read is stale */
    uint8_t absent[FY_ABSENCE_COUNT]; /* large operands without an object */
    struct fy_held rows[FY_MAX_OPERANDS];
    uint64_t
        held_bytes; /* of mirrors, which the operands need no other room than */
    uint64_t kept_bytes;  /* that the call reads and need not be copied */
    uint64_t stale_bytes; /* of pages to be copied in */
    uint64_t
        hashed_bytes; /* by the hold, and by the release if there are results */
};

/* Ends of a call's use of objects. */
enum fy_hold_end {
    FY_HOLD_FAILED, /* nothing is known of the mirrors: they are given up */
    FY_HOLD_UNUSED, /* nothing ran: pages stay clean or stale */
    FY_HOLD_RAN,    /* stale pages were copied in, results are in host memory */
};

/*
 * Starts the room. The first object asks the kernel for write protection, which `auto' and
 * `write-through' use; `auto' compares memory that cannot be watched, `compare' all. With
 * neither, and with `off', there are no objects. Objects have at least `least_bytes' (0:
 * FY_MEMORY_LEAST_BYTES). FY_ERR_NOMEM.
 */
int fy_memory_start(struct fy_memory *memory, enum fy_residency residency,
                    uint64_t least_bytes) FY_MUST_CHECK;

/*
 * Gives the call that owns `hold' an object for each of the n views (operands) that may
 * have one. Mirrors are allocated on `device' from *budget_bytes, which is reduced by
 * their size, and grows by that of dropped ones; at least `least_bytes' of it stay. fy_memory_release() must follow.
 */
void fy_memory_hold(struct fy_memory *memory, struct fy_device *device,
                    const struct fy_view *views, unsigned n,
                    uint64_t *budget_bytes, uint64_t least_bytes,
                    struct fy_hold *hold);

/* Ends the call's use of objects. Nothing happens for a hold that was released. */
void fy_memory_release(struct fy_memory *memory, struct fy_hold *hold,
                       enum fy_hold_end end);

/*
 * Guesses the results of fy_memory_hold() for the views, from the last calls alone: no
 * lock, no system call, any thread, signal handlers.
 */
struct fy_memory_guess fy_memory_expect(const struct fy_memory *memory,
                                        const struct fy_view *views,
                                        unsigned n);
/* Has objects compared, or not, that cannot be watched; at first they are. */
void fy_memory_compare(struct fy_memory *memory, bool pays);

/* Has the objects of the views evicted later than others. Returns the bytes of the views
 * that have objects. */
uint64_t fy_memory_want(struct fy_memory *memory, const struct fy_view *views,
                        unsigned n);
/* Frees mirrors that no call uses until `bytes' were freed or none is left: first those
 * whose last use was of no use, then the least recently used. */
void fy_memory_evict(struct fy_memory *memory, uint64_t bytes);
/* The device memory that mirrors have. */
uint64_t fy_memory_bytes(const struct fy_memory *memory);
/* Watches nothing from here on, because the program has made a userfaultfd. */
void fy_memory_unwatch(struct fy_memory *memory);
/* Forgets all objects because the device is left as it is: frees no device memory. */
void fy_memory_forget(struct fy_memory *memory);
/* In a forked child, which has no object of the parent. */
void fy_memory_after_fork(struct fy_memory *memory);

/* The row of the object that has all bytes of the view; NULL: there is none. */
struct fy_held *fy_hold_find(struct fy_hold *hold, const struct fy_view *view);
/* The device address of the byte at `host', which is in the row's object. */
uint64_t fy_held_address(const struct fy_held *held, const char *host);
/* The next run of stale bytes of a row at or behind *at, which becomes the start. False:
 * there is none. */
bool fy_held_stale(const struct fy_held *held, uintptr_t *at, uint64_t *bytes);

#endif
