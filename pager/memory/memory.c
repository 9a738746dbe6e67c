/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The use of objects by calls. The rules that lose an update when they are broken: protect
 * (scan), then copy; a written page is stale in every object; only pages that lie wholly
 * in the operand become clean; of a result only pages without gaps do; each use scans
 * again, and a mapping that is not registered ends the object. Of compared objects: a
 * page is clean if the hash was the same before and after the copy, and still is.
 */
#include "config.h"

#include "pager/memory/objects.h"

#include <errno.h>
#include <string.h>

#include "common/debug.h"

enum {
    MOST_WASTED =
        6, /* and the object is dropped: three uses more than of use, */
    WASTED = 2,
    CHEAP =
        1, /* where no page was clean, or a result was not read: no copy in */
    UNWATCHED_HOLDS = 64, /* until the kernel is asked again */
};

int
fy_memory_start(struct fy_memory *m, enum fy_residency residency,
                uint64_t least_bytes)
{
    m->residency = residency;
    m->least_bytes = least_bytes ? least_bytes : FY_MEMORY_LEAST_BYTES;
    m->watch.fd = -1;
    m->watch.wanted = residency == FY_RESIDENCY_AUTO ||
                      residency == FY_RESIDENCY_WRITE_THROUGH;
    m->compare.wanted =
        residency == FY_RESIDENCY_AUTO || residency == FY_RESIDENCY_COMPARE;
    m->compares = true;
    return pthread_mutex_init(&m->lock, NULL) ? FY_ERR_NOMEM : FY_OK;
}

/* A page with another hash than the mirror's is stale. Keeps the hash for settle_read(). */
static void
compare_before(void *opaque, uintptr_t page, struct fy_page_hash hash)
{
    struct fy_object *o = opaque;
    struct fy_page_hash *old = &o->hashes[fy_object_index(o, page)];
    if (old->low != hash.low || old->high != hash.high) {
        o->clean[fy_object_index(o, page)] = false;
        *old = hash;
    }
}

/* A stale page was copied in: it is clean if it was the same before and after that. */
static void
compare_after(void *opaque, uintptr_t page, struct fy_page_hash hash)
{
    struct fy_object *o = opaque;
    struct fy_page_hash *old = &o->hashes[fy_object_index(o, page)];
    o->clean[fy_object_index(o, page)] =
        old->low == hash.low && old->high == hash.high;
}

/* The mirror has the page's content. */
static void
take_hash(void *opaque, uintptr_t page, struct fy_page_hash hash)
{
    struct fy_object *o = opaque;
    o->hashes[fy_object_index(o, page)] = hash;
    o->clean[fy_object_index(o, page)] = true;
}

static int
hash_pages(struct fy_memory *m, struct fy_object *o, uintptr_t lo, uintptr_t hi,
           fy_compare_told *told)
{
    return fy_compare_pages(&m->compare, fy_page_up(lo), fy_page_down(hi), told,
                            o);
}

/* Finds pages that lie wholly in the operand and were written: they are stale. */
static int
look(struct fy_memory *m, const struct fy_held *held)
{
    struct fy_object *o = held->object;
    m->found = false;
    if (!o->hashes) {
        return fy_pages_scan(&m->watch, fy_page_up(held->lo),
                             fy_page_down(held->hi), fy_objects_stale,
                             fy_objects_stale, m);
    }
    if (!held->reads) { /* all of it will be other bytes */
        fy_object_mark(o, held->lo, held->hi, false);
        return FY_OK;
    }
    return hash_pages(m, o, held->lo, held->hi, compare_before);
}

static void
unwatch(struct fy_memory *m)
{
    fy_pages_close(&m->watch);
    m->watch.wanted = false;
    for (unsigned i = 0; i < FY_MEMORY_OBJECTS; i++) {
        struct fy_object *o = &m->objects[i];
        if (o->end != 0 && !o->hashes) {
            fy_object_drop(m, o, "the program uses userfaultfd(2)");
        }
    }
}

static uint64_t
stale_bytes(const struct fy_held *held)
{
    uintptr_t at = held->lo;
    uint64_t bytes, sum = 0;
    while (fy_held_stale(held, &at, &bytes)) {
        sum += bytes;
        at += bytes;
    }
    return sum;
}

/* Looks at the pages of the row. Returns true if the object is of use for it, else the
 * reason in *why. */
static bool
refresh(struct fy_memory *m, struct fy_object *o, struct fy_held *held,
        bool is_new, enum fy_absence *why)
{
    held->object = o;
    *why = FY_ABSENCE_REMAPPED;
    m->found = false;
    /* A result alone is stale anyway, and gets no protection before it is there. */
    if ((held->reads || is_new || o->hashes) && look(m, held) != FY_OK) {
        if (is_new && !o->hashes) {
            m->unwatched_until = m->holds + UNWATCHED_HOLDS;
            m->is_pinned = false;
        }
        fy_object_drop(
            m, o, "its mapping is another one, or the kernel refused a look");
        return false;
    }
    /* The scan has left out pages that the operand has only a part of. */
    fy_object_mark(o, fy_page_down(held->lo), fy_page_up(held->lo), false);
    fy_object_mark(o, fy_page_down(held->hi), fy_page_up(held->hi), false);
    /* Pinning is a write that is seen, unless it came before the protection, which may
     * be that of an object that was dropped. */
    enum fy_pages_rival rival = !o->hashes && (m->found || is_new)
                                    ? fy_pages_rival(&m->watch)
                                    : FY_PAGES_ALONE;
    if (rival == FY_PAGES_WATCHED) {
        unwatch(
            m); /* one that was made without libc, or has come from elsewhere */
        *why = FY_ABSENCE_UNWATCHED;
        return false;
    }
    if (rival == FY_PAGES_PINNED) {
        m->unwatched_until = m->holds + UNWATCHED_HOLDS;
        m->is_pinned = true;
        fy_object_drop(m, o, "memory may be pinned");
        *why = FY_ABSENCE_PINNED;
        return false;
    }
    if (o->owner) {
        return true; /* another row of the call has been counted */
    }
    bool waste = held->reads ? stale_bytes(held) > (held->hi - held->lo) / 8 * 7
                             : !o->was_read;
    o->was_read = held->reads;
    if (is_new) {
        return true;
    }
    o->wasted += !waste                           ? -WASTED
                 : o->was_partial || !held->reads ? CHEAP
                                                  : WASTED;
    o->wasted = o->wasted < -MOST_WASTED ? -MOST_WASTED : o->wasted;
    o->was_partial = false;
    o->was_kept = o->was_kept || (held->reads && !waste);
    if (o->wasted >= MOST_WASTED) {
        fy_object_back_off(m, o);
        fy_object_drop(m, o, "it is written between calls");
        *why = FY_ABSENCE_WRITTEN;
        return false;
    }
    return true;
}

/* Returns true if an earlier row has all of the last operand, and both are read only. */
static bool
is_again(const struct fy_hold *hold, const struct fy_held *held)
{
    for (const struct fy_held *row = hold->rows; row < held; row++) {
        if (row->lo <= held->lo && row->hi >= held->hi && row->reads &&
            held->reads && !row->writes && !held->writes) {
            return true;
        }
    }
    return false;
}

/* Fills *held; false: the operand is too small, too thin, or not aligned, as devices want
 * elements to be. */
static bool
describe(const struct fy_view *view, uint64_t least, struct fy_held *held)
{
    int64_t low, high;
    if (fy_view_is_empty(view) || view->access == FY_ACCESS_SCRATCH ||
        view->once || view->temporary ||
        (uintptr_t)view->host % view->element_bytes != 0 ||
        !fy_view_span(view, &low, &high)) {
        return false;
    }
    uint64_t bytes = fy_view_all_elements(view) * view->element_bytes;
    uint64_t span = (uint64_t)(high - low);
    *held = (struct fy_held){
        .lo = (uintptr_t)view->host + (uintptr_t)low,
        .hi = (uintptr_t)view->host + (uintptr_t)high,
        .reads = (view->access & FY_ACCESS_IN) != 0,
        .writes = (view->access & FY_ACCESS_OUT) != 0,
        .dense = bytes == span && view->sign == 0,
    };
    return span >= least && bytes >= span / 4;
}

/* Bytes of the operand that are hashed before and after its call. */
static uint64_t
hashed_bytes(const struct fy_held *held, bool compared)
{
    return compared ? (held->hi - held->lo) *
                          ((uint64_t)held->reads + (uint64_t)held->writes)
                    : 0;
}

struct fy_memory_guess
fy_memory_expect(const struct fy_memory *m, const struct fy_view *views,
                 unsigned n)
{
    struct fy_memory_guess guess = {0, 0};

    for (unsigned i = 0; m->residency != FY_RESIDENCY_OFF && i < n; i++) {
        struct fy_held held;
        if (!describe(&views[i], m->least_bytes, &held)) {
            continue;
        }
        for (unsigned k = 0; k < FY_MEMORY_OBJECTS; k++) {
            const struct fy_known *known = &m->known[k];
            if (__atomic_load_n(&known->start, __ATOMIC_RELAXED) > held.lo ||
                __atomic_load_n(&known->end, __ATOMIC_RELAXED) < held.hi) {
                continue;
            }
            uint64_t clean =
                __atomic_load_n(&known->clean_bytes, __ATOMIC_RELAXED);
            uint64_t all = held.hi - held.lo;
            guess.kept_bytes += !held.reads ? 0 : clean < all ? clean : all;
            guess.hashed_bytes += hashed_bytes(
                &held, __atomic_load_n(&known->compared, __ATOMIC_RELAXED));
            break;
        }
    }
    return guess;
}

void
fy_memory_compare(struct fy_memory *m, bool pays)
{
    __atomic_store_n(&m->compares, pays, __ATOMIC_RELAXED);
}

uint64_t
fy_memory_want(struct fy_memory *m, const struct fy_view *views, unsigned n)
{
    uint64_t bytes = 0;
    if (__atomic_load_n(&m->resident_bytes, __ATOMIC_RELAXED) == 0) {
        return 0;
    }
    pthread_mutex_lock(&m->lock);
    for (unsigned i = 0; i < n; i++) {
        struct fy_held held;
        for (unsigned k = 0; describe(&views[i], m->least_bytes, &held) &&
                             k < FY_MEMORY_OBJECTS;
             k++) {
            struct fy_object *o = &m->objects[k];
            if (o->start <= held.lo && o->end >= held.hi) {
                o->used = m->holds + 1;
                bytes += held.hi - held.lo;
            }
        }
    }
    pthread_mutex_unlock(&m->lock);
    return bytes;
}

/* Returns the object of the row, of use for it, or NULL for the reason in *why. */
static struct fy_object *
take(struct fy_memory *m, struct fy_device *device, struct fy_held *held,
     const struct fy_hold *hold, uint64_t *budget, uint64_t least,
     enum fy_absence *why)
{
    uint64_t before = m->resident_bytes;
    *why = FY_ABSENCE_COUNT;
    struct fy_object *o = fy_object_find(m, held->lo, held->hi, hold, why);
    const bool is_new = !o;

    *budget += before - m->resident_bytes;
    if (!o && *why != FY_ABSENCE_IN_USE) {
        o = fy_object_make(m, device, held->lo, held->hi, budget, least, why);
    }
    before = m->resident_bytes;
    if (o && o->device != device) {
        fy_object_drop(m, o, "it is of another device");
        o = NULL;
        *why = FY_ABSENCE_REMAPPED;
    } else if (o && !refresh(m, o, held, is_new, why)) {
        o = NULL;
    }
    *budget += before - m->resident_bytes;
    return o;
}

void
fy_memory_hold(struct fy_memory *m, struct fy_device *device,
               const struct fy_view *views, unsigned n, uint64_t *budget,
               uint64_t least, struct fy_hold *hold)
{
    int saved = errno;
    memset(hold, 0, sizeof(*hold));
    if (m->residency == FY_RESIDENCY_OFF) {
        return;
    }
    pthread_mutex_lock(&m->lock);
    m->holds++;
    for (unsigned i = 0; i < n && i < FY_MAX_OPERANDS; i++) {
        struct fy_held *held = &hold->rows[hold->count];
        if (!describe(&views[i], m->least_bytes, held)) {
            continue;
        }
        if (is_again(hold, held)) {
            hold->operands |= UINT32_C(1) << i;
            continue;
        }
        enum fy_absence why;
        struct fy_object *o = take(m, device, held, hold, budget, least, &why);
        if (!o) {
            hold->absent[why]++;
            fy_memory_explain(held->lo, held->hi, NULL, fy_absence_word(why));
            continue;
        }
        o->owner = hold;
        o->used = m->holds;
        hold->operands |= UINT32_C(1) << i;
        if (held->reads && stale_bytes(held) <= (held->hi - held->lo) / 8) {
            hold->kept |= UINT32_C(1) << i;
        }
        hold->count++;
    }
    for (unsigned i = 0; i < hold->count; i++) {
        struct fy_held *held = &hold->rows[i];
        uint64_t stale = stale_bytes(held), all = held->hi - held->lo;
        hold->stale_bytes += held->reads ? stale : 0;
        if (held->writes && !held->object->hashes) {
            /* Each page would cost a fault when it is copied back. */
            fy_pages_let(&m->watch, fy_page_up(held->lo),
                         fy_page_down(held->hi));
        }
        hold->held_bytes += all;
        hold->kept_bytes += held->reads ? all - stale : 0;
        hold->hashed_bytes += hashed_bytes(held, held->object->hashes != NULL);
    }
    pthread_mutex_unlock(&m->lock);
    errno = saved;
}

/* The mirror has the operand as the call read it: pages that lie wholly in it are clean. */
static void
settle_read(struct fy_memory *m, const struct fy_held *held)
{
    struct fy_object *o = held->object;
    uintptr_t at = held->lo;
    uint64_t bytes;

    if (!o->hashes) {
        fy_object_mark(o, fy_page_up(held->lo), fy_page_down(held->hi), true);
        return;
    }
    while (!held->writes && fy_held_stale(held, &at, &bytes)) {
        if (hash_pages(m, o, at, at + bytes, compare_after) != FY_OK) {
            fy_object_mark(o, at, at + bytes, false);
        }
        at += bytes;
    }
}

/* Results are in host memory and in the mirror: pages without gaps are clean. */
static void
settle_written(struct fy_memory *m, const struct fy_held *held)
{
    struct fy_object *o = held->object;
    bool whole = held->dense && held->placed && !held->missed;
    o->was_partial = !whole;

    if (o->hashes) {
        fy_objects_stale(m, held->lo, held->hi);
        if (whole && hash_pages(m, o, held->lo, held->hi, take_hash) != FY_OK) {
            fy_object_mark(o, held->lo, held->hi, false);
        }
        return;
    }
    bool seen = look(m, held) == FY_OK;
    fy_objects_stale(m, held->lo, held->hi);
    if (seen && whole && fy_pages_rival(&m->watch) == FY_PAGES_ALONE) {
        fy_object_mark(o, fy_page_up(held->lo), fy_page_down(held->hi), true);
    }
}

/* A call has run with the row. Returns false if the object is of no use to it. */
static bool
settle(struct fy_memory *m, const struct fy_held *held)
{
    if (held->placed && held->reads) {
        settle_read(m, held);
    }
    if (!held->placed) {
        fy_object_back_off(m, held->object);
    }
    return held->placed;
}

void
fy_memory_release(struct fy_memory *m, struct fy_hold *hold,
                  enum fy_hold_end end)
{
    int saved = errno;
    if (hold->count == 0) {
        return;
    }
    pthread_mutex_lock(&m->lock);
    for (unsigned i = 0; i < hold->count; i++) {
        struct fy_object *o = hold->rows[i].object;
        bool dead = end == FY_HOLD_FAILED ||
                    (end == FY_HOLD_RAN && !settle(m, &hold->rows[i]));
        o->dead = o->dead || dead;
    }
    for (unsigned i = 0; i < hold->count; i++) {
        if (end == FY_HOLD_RAN && hold->rows[i].writes) {
            settle_written(m, &hold->rows[i]);
        }
    }
    for (unsigned i = 0; i < hold->count; i++) {
        struct fy_object *o = hold->rows[i].object;
        if (o->owner != hold) {
            continue;
        }
        o->owner = NULL;
        uint64_t clean = fy_object_clean_bytes(o);
        if (o->dead || (end == FY_HOLD_UNUSED && clean == 0)) {
            fy_object_drop(m, o, "its call failed, or cannot use it");
        } else {
            fy_object_publish(m, o, clean);
        }
    }
    memset(hold, 0, sizeof(*hold));
    pthread_mutex_unlock(&m->lock);
    errno = saved;
}

uint64_t
fy_memory_bytes(const struct fy_memory *m)
{
    return __atomic_load_n(&m->resident_bytes, __ATOMIC_RELAXED);
}

void
fy_memory_unwatch(struct fy_memory *m)
{
    int saved = errno;
    if (m->residency == FY_RESIDENCY_OFF) {
        return;
    }
    pthread_mutex_lock(&m->lock);
    unwatch(m);
    pthread_mutex_unlock(&m->lock);
    errno = saved;
}

void
fy_memory_forget(struct fy_memory *m)
{
    if (m->residency == FY_RESIDENCY_OFF) {
        return;
    }
    pthread_mutex_lock(&m->lock);
    for (unsigned i = 0; i < FY_MEMORY_OBJECTS; i++) {
        struct fy_object *o = &m->objects[i];
        if (o->end != 0) {
            m->resident_bytes -= o->buffer_bytes;
            o->buffer = o->buffer_bytes = 0; /* left with the device */
            fy_object_drop(m, o, "its device is given up");
        }
    }
    pthread_mutex_unlock(&m->lock);
}

void
fy_memory_after_fork(struct fy_memory *m)
{
    /* The descriptor is of the parent's memory, which it keeps watched; another thread
     * may have the lock. */
    fy_pages_close(&m->watch);
    memset(m->objects, 0, sizeof(m->objects));
    memset(m->known, 0, sizeof(m->known));
    m->resident_bytes = 0;
    m->residency = FY_RESIDENCY_OFF;
    (void)pthread_mutex_init(&m->lock, NULL);
}

struct fy_held *
fy_hold_find(struct fy_hold *hold, const struct fy_view *view)
{
    int64_t low, high;
    if (!hold || fy_view_is_empty(view) || !fy_view_span(view, &low, &high)) {
        return NULL;
    }
    uintptr_t lo = (uintptr_t)view->host + (uintptr_t)low;
    uintptr_t hi = (uintptr_t)view->host + (uintptr_t)high;
    for (unsigned i = 0; i < hold->count; i++) {
        struct fy_held *held = &hold->rows[i];
        bool reads = (view->access & FY_ACCESS_IN) != 0;
        bool writes = (view->access & FY_ACCESS_OUT) != 0;
        if (held->lo <= lo && held->hi >= hi && (!reads || held->reads) &&
            held->writes == writes) {
            return held;
        }
    }
    return NULL;
}

uint64_t
fy_held_address(const struct fy_held *held, const char *host)
{
    return held->object->mirror + ((uintptr_t)host - held->object->start);
}

bool
fy_held_stale(const struct fy_held *held, uintptr_t *at, uint64_t *bytes)
{
    const struct fy_object *o = held->object;
    uintptr_t base = fy_page_down(o->start), from = *at;

    while (from < held->hi && o->clean[(from - base) / FY_PAGE_BYTES]) {
        from = fy_page_down(from) + FY_PAGE_BYTES;
    }
    uintptr_t end = from;
    while (end < held->hi && !o->clean[(end - base) / FY_PAGE_BYTES]) {
        end = fy_page_down(end) + FY_PAGE_BYTES;
    }
    end = end < held->hi ? end : held->hi;
    if (from >= end) {
        return false;
    }
    *at = from;
    *bytes = end - from;
    return true;
}
