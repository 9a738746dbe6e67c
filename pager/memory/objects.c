/* SPDX-License-Identifier: Apache-2.0 */
/* A row whose end is 0 is free. */
#include "config.h"

#include "pager/memory/objects.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/debug.h"
#include "pager/base/explain.h"

enum {
    MIRROR_ALIGN = 256,
    FIRST_SKIP = 8,
    TRIED_AGAIN = 4, /* in place of a useless one: the first bad use ends it */
    MOST_SKIP = 4096,
};

void
fy_object_publish(struct fy_memory *m, const struct fy_object *o,
                  uint64_t clean_bytes)
{
    struct fy_known *known = &m->known[o - m->objects];

    __atomic_store_n(&known->clean_bytes, clean_bytes, __ATOMIC_RELAXED);
    __atomic_store_n(&known->compared, o->hashes != NULL, __ATOMIC_RELAXED);
    __atomic_store_n(&known->start, o->start, __ATOMIC_RELAXED);
    __atomic_store_n(&known->end, clean_bytes ? o->end : o->start,
                     __ATOMIC_RELAXED);
}

void
fy_object_mark(struct fy_object *o, uintptr_t first, uintptr_t end, bool clean)
{
    uintptr_t base = fy_page_down(o->start);
    uintptr_t lo = first > o->start ? first : o->start;
    uintptr_t hi = end < o->end ? end : o->end;

    if (lo < hi) {
        size_t from = (lo - base) / FY_PAGE_BYTES;
        size_t to = (fy_page_up(hi) - base) / FY_PAGE_BYTES;
        memset(o->clean + from, clean, to - from);
    }
}

void
fy_objects_stale(void *opaque, uintptr_t first, uintptr_t end)
{
    struct fy_memory *m = opaque;
    m->found = true;
    for (unsigned i = 0; i < FY_MEMORY_OBJECTS; i++) {
        fy_object_mark(&m->objects[i], first, end, false);
    }
}

uint64_t
fy_object_clean_bytes(const struct fy_object *o)
{
    uint64_t pages = 0;
    for (size_t i = 0; i < fy_object_index(o, fy_page_up(o->end)); i++) {
        pages += o->clean[i];
    }
    return pages * FY_PAGE_BYTES;
}

static void
reclaim(void *of, uint64_t bytes)
{
    fy_memory_evict(of, bytes);
}

/* Tells the device that it may have the mirror back, or that it is about to be freed. */
static void
keep(struct fy_memory *m, const struct fy_object *o, bool kept)
{
    if (o->device->ops->keep) {
        if (o->device->reclaim_of != m) {
            o->device->reclaim_of = m;
            o->device->reclaim = reclaim;
        }
        o->device->ops->keep(o->device, o->buffer, kept);
    }
}

void
fy_memory_explain(uintptr_t lo, uintptr_t hi, const struct fy_object *o,
                  const char *why)
{
    char line[256], state[64] = "not kept";
    const uint64_t hash =
        (lo ^ hi << 20 ^ (uintptr_t)why) * UINT64_C(0x9e3779b97f4a7c15) | 1;
    if (!fy_explains() || !fy_explain_once(hash)) {
        return;
    }
    if (o) {
        (void)snprintf(state, sizeof(state), "dropped, %s, %llu bytes clean",
                       o->hashes ? "compared" : "watched",
                       (unsigned long long)fy_object_clean_bytes(o));
    }
    int n = snprintf(
        line, sizeof(line), "operand %#lx-%#lx of %llu bytes pid=%ld: %s: %s\n",
        lo, hi, (unsigned long long)(hi - lo), (long)getpid(), state, why);
    fy_explain_write(line, (size_t)n);
}

void
fy_object_drop(struct fy_memory *m, struct fy_object *o, const char *why)
{
    if (o->owner) {
        o->dead = true;
        return;
    }
    fy_debug(MEMORY, "object at %#lx of %llu bytes dropped: %s", o->start,
             (unsigned long long)(o->end - o->start), why);
    fy_memory_explain(o->start, o->end, o, why);
    if (o->buffer) {
        keep(m, o, false);
        o->device->ops->free(o->device, o->buffer);
    }
    m->resident_bytes -= o->buffer_bytes;
    fy_object_publish(m, o, 0);
    free(o->clean);
    free(o->hashes);
    memset(o, 0, sizeof(*o));
}

static struct fy_past *
remember(struct fy_memory *m, uintptr_t lo, uintptr_t hi)
{
    struct fy_past *oldest = &m->past[0];
    for (unsigned i = 0; i < FY_MEMORY_PAST; i++) {
        struct fy_past *past = &m->past[i];
        if (past->start == lo && past->end == hi) {
            past->used = m->holds;
            return past;
        }
        if (past->used < oldest->used) {
            oldest = past;
        }
    }
    *oldest = (struct fy_past){lo, hi, m->holds, 0, 0};
    return oldest;
}

void
fy_object_back_off(struct fy_memory *m, const struct fy_object *o)
{
    struct fy_past *past = remember(m, o->start, o->end);
    past->backoff =
        past->backoff == 0 || o->was_kept ? FIRST_SKIP : 2 * past->backoff;
    past->backoff = past->backoff > MOST_SKIP ? MOST_SKIP : past->backoff;
    past->skip = past->backoff;
}

struct fy_object *
fy_object_find(struct fy_memory *m, uintptr_t lo, uintptr_t hi,
               const void *owner, enum fy_absence *why)
{
    for (unsigned i = 0; i < FY_MEMORY_OBJECTS; i++) {
        struct fy_object *o = &m->objects[i];
        if (o->start >= hi || o->end <= lo) {
            continue;
        }
        if ((o->owner && o->owner != owner) || o->dead) {
            *why = FY_ABSENCE_IN_USE;
            return NULL;
        }
        if (o->start <= lo && o->end >= hi) {
            return o;
        }
        if (o->owner) {
            *why = FY_ABSENCE_IN_USE;
            return NULL;
        }
        fy_object_drop(m, o, "an operand reaches beyond it");
    }
    return NULL;
}

/* Has the kernel watch the bytes; asks it once whether it can. */
static bool
watch(struct fy_memory *m, uintptr_t lo, uintptr_t hi)
{
    if (m->holds < m->unwatched_until) {
        return false;
    }
    if (m->watch.wanted && m->watch.fd < 0) {
        m->watch.wanted = fy_pages_open(&m->watch) == FY_OK;
        fy_debug(MEMORY, "this kernel, or a filter, %s writes be watched",
                 m->watch.wanted ? "lets" : "does not let");
    }
    m->has_watched = m->has_watched || m->watch.fd >= 0;
    return m->watch.fd >= 0 && fy_pages_add(&m->watch, lo, hi) == FY_OK;
}

static bool
may_compare(struct fy_memory *m)
{
    if (m->compare.wanted && !m->compare.block) {
        m->compare.wanted = fy_compare_start(&m->compare) == FY_OK;
    }
    return m->compare.block && __atomic_load_n(&m->compares, __ATOMIC_RELAXED);
}

struct fy_object *
fy_object_make(struct fy_memory *m, struct fy_device *device, uintptr_t lo,
               uintptr_t hi, uint64_t *budget, uint64_t least,
               enum fy_absence *why)
{
    const uint64_t bytes = ((uint64_t)(hi - lo) + 2 * MIRROR_ALIGN - 1) /
                           MIRROR_ALIGN * MIRROR_ALIGN;
    struct fy_object *o = NULL;

    for (unsigned i = 0; i < FY_MEMORY_OBJECTS && !o; i++) {
        o = m->objects[i].end == 0 ? &m->objects[i] : NULL;
    }
    struct fy_past *past = remember(m, lo, hi);
    if (past->skip > 0) {
        past->skip--;
        *why = FY_ABSENCE_UNUSED;
        return NULL;
    }
    *why = FY_ABSENCE_NO_ROOM;
    if (!o || bytes > *budget || *budget - bytes < least) {
        return NULL;
    }
    bool watched = watch(m, lo, hi);
    if (!watched && !may_compare(m)) {
        *why = m->holds < m->unwatched_until && m->is_pinned
                   ? FY_ABSENCE_PINNED
                   : FY_ABSENCE_UNWATCHED;
        return NULL;
    }
    size_t pages = (fy_page_up(hi) - fy_page_down(lo)) / FY_PAGE_BYTES;
    o->clean = calloc(pages, 1);
    o->hashes = watched ? NULL : calloc(pages, sizeof *o->hashes);
    if (!o->clean || (!watched && !o->hashes) ||
        device->ops->alloc(device, bytes, &o->buffer) != FY_OK) {
        free(o->clean);
        free(o->hashes);
        memset(o, 0, sizeof(*o));
        return NULL;
    }
    o->wasted = past->backoff > 0 ? TRIED_AGAIN : 0;
    o->start = lo;
    o->end = hi;
    o->device = device;
    o->buffer_bytes = bytes;
    o->mirror = o->buffer + lo % MIRROR_ALIGN;
    keep(m, o, true);
    m->resident_bytes += bytes;
    *budget -= bytes;
    fy_debug(MEMORY, "object at %#lx of %llu bytes made, %s", lo,
             (unsigned long long)(hi - lo), watched ? "watched" : "compared");
    return o;
}

/* Returns true if the object's last use was of no use, and no call is about to use it. */
static bool
is_useless(const struct fy_memory *m, const struct fy_object *o)
{
    return o->wasted > 0 && o->used <= m->holds;
}

/* Returns true if the first is to be evicted before the second. */
static bool
goes_before(const struct fy_memory *m, const struct fy_object *a,
            const struct fy_object *b)
{
    const bool useless = is_useless(m, a), other = is_useless(m, b);
    return useless != other ? useless : a->used < b->used;
}

void
fy_memory_evict(struct fy_memory *m, uint64_t bytes)
{
    int saved = errno;
    if (m->residency == FY_RESIDENCY_OFF) {
        return;
    }
    pthread_mutex_lock(&m->lock);
    for (uint64_t freed = 0; freed < bytes;) {
        struct fy_object *oldest = NULL;
        for (unsigned i = 0; i < FY_MEMORY_OBJECTS; i++) {
            struct fy_object *o = &m->objects[i];
            if (o->end != 0 && !o->owner &&
                (!oldest || goes_before(m, o, oldest))) {
                oldest = o;
            }
        }
        if (!oldest) {
            break;
        }
        freed += oldest->buffer_bytes;
        if (!oldest->was_kept) {
            fy_object_back_off(m, oldest);
        }
        fy_object_drop(m, oldest, "other calls need the memory");
    }
    pthread_mutex_unlock(&m->lock);
    errno = saved;
}
