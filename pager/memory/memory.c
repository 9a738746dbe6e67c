/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of objects. The rules that lose an update when they are broken: protect
 * (scan), then copy; a written page is stale in every object; only pages that lie wholly
 * in the operand become clean; of a result only pages without gaps do; each use scans
 * again, and a mapping that is not registered ends the object.
 */
#include "config.h"

#include "pager/memory/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/debug.h"

enum {
    LEAST_BYTES = 128 << 10, /* of an object; smaller operands are copied */
    MIRROR_ALIGN = 256,
    WASTED_USES = 2, /* in a row, and the object is dropped */
    FIRST_SKIP = 16,
    MOST_SKIP = 4096,
};

static uintptr_t
page_down(uintptr_t at)
{
    return at & ~(uintptr_t)(FY_PAGE_BYTES - 1);
}

static uintptr_t
page_up(uintptr_t at)
{
    return page_down(at + FY_PAGE_BYTES - 1);
}

int
fy_memory_start(struct fy_memory *m, enum fy_residency residency)
{
    m->residency = residency;
    m->watch.fd = -1;
    if (residency != FY_RESIDENCY_OFF && fy_pages_open(&m->watch) != FY_OK) {
        fy_debug(MEMORY, "nothing stays on the device: this kernel, or a "
                         "filter, does not let writes be watched");
        m->residency = FY_RESIDENCY_OFF;
    }
    return pthread_mutex_init(&m->lock, NULL) ? FY_ERR_NOMEM : FY_OK;
}

/* Lock held, for all functions down to the next remark. */
static void
set_pages(struct fy_object *o, uintptr_t first, uintptr_t end, bool clean)
{
    uintptr_t base = page_down(o->start);
    uintptr_t lo = first > o->start ? first : o->start;
    uintptr_t hi = end < o->end ? end : o->end;

    if (lo < hi) {
        size_t from = (lo - base) / FY_PAGE_BYTES;
        size_t to = (page_up(hi) - base) / FY_PAGE_BYTES;
        memset(o->clean + from, clean, to - from);
    }
}

static void
turn_stale(void *opaque, uintptr_t first, uintptr_t end)
{
    struct fy_memory *m = opaque;
    m->found = true;
    for (unsigned i = 0; i < FY_MEMORY_OBJECTS; i++) {
        set_pages(&m->objects[i], first, end, false);
    }
}

/* Protects the pages that lie wholly in lo .. hi - 1; those written are stale. */
static int
protect(struct fy_memory *m, uintptr_t lo, uintptr_t hi)
{
    m->found = false;
    return fy_pages_scan(&m->watch, page_up(lo), page_down(hi), turn_stale,
                         turn_stale, m);
}

static void
drop(struct fy_memory *m, struct fy_object *o, const char *why)
{
    if (o->owner) {
        o->dead = true;
        return;
    }
    fy_debug(MEMORY, "object of %llu bytes dropped: %s",
             (unsigned long long)(o->end - o->start), why);
    if (o->buffer) {
        o->device->ops->free(o->device, o->buffer);
    }
    m->resident_bytes -= o->buffer_bytes;
    free(o->clean);
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

/* Has the next objects of that range made later and later. */
static void
back_off(struct fy_memory *m, uintptr_t lo, uintptr_t hi)
{
    struct fy_past *past = remember(m, lo, hi);
    past->backoff = past->backoff == 0 ? FIRST_SKIP : 2 * past->backoff;
    past->backoff = past->backoff > MOST_SKIP ? MOST_SKIP : past->backoff;
    past->skip = past->backoff;
}

/* The object that has all of the range; drops others that overlap and are free. */
static struct fy_object *
find(struct fy_memory *m, uintptr_t lo, uintptr_t hi, const void *owner,
     bool *busy)
{
    for (unsigned i = 0; i < FY_MEMORY_OBJECTS; i++) {
        struct fy_object *o = &m->objects[i];
        if (o->start >= hi || o->end <= lo) {
            continue;
        }
        if ((o->owner && o->owner != owner) || o->dead) {
            *busy = true;
            return NULL;
        }
        if (o->start <= lo && o->end >= hi) {
            return o;
        }
        if (o->owner) {
            *busy = true;
            return NULL;
        }
        drop(m, o, "an operand reaches beyond it");
    }
    return NULL;
}

static struct fy_object *
make(struct fy_memory *m, struct fy_device *device, uintptr_t lo, uintptr_t hi,
     uint64_t *budget, uint64_t least)
{
    const uint64_t bytes = (uint64_t)(hi - lo) + MIRROR_ALIGN;
    struct fy_object *o = NULL;

    for (unsigned i = 0; i < FY_MEMORY_OBJECTS && !o; i++) {
        o = m->objects[i].end == 0 ? &m->objects[i] : NULL;
    }
    struct fy_past *past = remember(m, lo, hi);
    if (past->skip > 0) {
        past->skip--;
        return NULL;
    }
    if (!o || bytes > *budget || *budget - bytes < least ||
        fy_pages_add(&m->watch, lo, hi) != FY_OK) {
        return NULL;
    }
    size_t pages = (page_up(hi) - page_down(lo)) / FY_PAGE_BYTES;
    o->clean = calloc(pages, 1);
    if (!o->clean || device->ops->alloc(device, bytes, &o->buffer) != FY_OK) {
        free(o->clean);
        memset(o, 0, sizeof(*o));
        return NULL;
    }
    o->start = lo;
    o->end = hi;
    o->device = device;
    o->buffer_bytes = bytes;
    o->mirror = o->buffer + lo % MIRROR_ALIGN;
    m->resident_bytes += bytes;
    *budget -= bytes;
    fy_debug(MEMORY, "object of %llu bytes made",
             (unsigned long long)(hi - lo));
    return o;
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

/* Returns true if the object is of use for that row: its pages are looked at. */
static bool
refresh(struct fy_memory *m, struct fy_object *o, struct fy_held *held,
        bool is_new)
{
    held->object = o;
    if (protect(m, held->lo, held->hi) != FY_OK) {
        drop(m, o, "its mapping is another one, or the kernel refused a scan");
        return false;
    }
    /* The scan has left out pages that the operand has only a part of. */
    set_pages(o, page_down(held->lo), page_up(held->lo), false);
    set_pages(o, page_down(held->hi), page_up(held->hi), false);
    /* Pinning is a write that is seen, unless it came before the protection, which may
     * be that of an object that was dropped. */
    if ((m->found || is_new) && fy_pages_is_blind()) {
        drop(m, o, "memory may be pinned");
        return false;
    }
    bool waste = held->reads ? stale_bytes(held) > (held->hi - held->lo) / 8 * 7
                             : !o->was_read;
    o->was_read = held->reads;
    if (is_new) {
        return true;
    }
    o->wasted = waste ? o->wasted + 1 : 0;
    if (o->wasted >= WASTED_USES) {
        back_off(m, o->start, o->end);
        drop(m, o, "it is written between calls");
        return false;
    }
    return true;
}

/* Returns true if the last row of the hold is an operand that an earlier row has, too. */
static bool
is_again(const struct fy_hold *hold, const struct fy_held *held)
{
    for (const struct fy_held *row = hold->rows; row < held; row++) {
        if (row->lo == held->lo && row->hi == held->hi && row->reads &&
            held->reads && !row->writes && !held->writes) {
            return true;
        }
    }
    return false;
}

/* Fills *held; false: the operand is too small, or too thin. */
static bool
describe(const struct fy_view *view, struct fy_held *held)
{
    int64_t low, high;
    if (fy_view_is_empty(view) || view->access == FY_ACCESS_SCRATCH ||
        view->once || view->temporary || !fy_view_span(view, &low, &high)) {
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
    return span >= LEAST_BYTES && bytes >= span / 4;
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
        bool busy = false;
        if (!describe(&views[i], held)) {
            continue;
        }
        if (is_again(hold, held)) {
            hold->operands |= UINT32_C(1) << i;
            continue;
        }
        struct fy_object *o = find(m, held->lo, held->hi, hold, &busy);
        bool is_new = !o;
        if (o && o->device != device) {
            drop(m, o, "it is of another device");
            continue;
        }
        if (!o && !busy) {
            o = make(m, device, held->lo, held->hi, budget, least);
        }
        if (!o || !refresh(m, o, held, is_new)) {
            continue;
        }
        o->owner = hold;
        o->used = m->holds;
        hold->operands |= UINT32_C(1) << i;
        hold->count++;
    }
    for (unsigned i = 0; i < hold->count; i++) {
        struct fy_held *held = &hold->rows[i];
        uint64_t stale = stale_bytes(held), all = held->hi - held->lo;
        hold->stale_bytes += held->reads ? stale : 0;
        if (held->writes) { /* each page would cost a fault when it is copied back */
            fy_pages_let(&m->watch, page_up(held->lo), page_down(held->hi));
        }
        hold->kept_bytes += held->reads ? all - stale : 0;
    }
    pthread_mutex_unlock(&m->lock);
    errno = saved;
}

/* Results are in host memory and in the mirror: pages without gaps are clean. */
static void
settle_written(struct fy_memory *m, const struct fy_held *held)
{
    bool seen = protect(m, held->lo, held->hi) == FY_OK;
    turn_stale(m, held->lo, held->hi);
    if (seen && held->dense && held->placed && !held->missed &&
        !fy_pages_is_blind()) {
        set_pages(held->object, page_up(held->lo), page_down(held->hi), true);
    }
}

void
fy_memory_release(struct fy_memory *m, struct fy_hold *hold, bool ok)
{
    int saved = errno;
    if (hold->count == 0) {
        return;
    }
    pthread_mutex_lock(&m->lock);
    for (unsigned i = 0; i < hold->count; i++) {
        const struct fy_held *held = &hold->rows[i];
        if (ok && held->placed && held->reads) {
            set_pages(held->object, page_up(held->lo), page_down(held->hi),
                      true);
        }
    }
    for (unsigned i = 0; i < hold->count; i++) {
        const struct fy_held *held = &hold->rows[i];
        if (ok && held->writes) {
            settle_written(m, held);
        }
        if (ok && !held->placed) {
            back_off(m, held->object->start, held->object->end);
        }
        held->object->dead |= !ok || !held->placed;
    }
    for (unsigned i = 0; i < hold->count; i++) {
        struct fy_object *o = hold->rows[i].object;
        if (o->owner == hold) {
            o->owner = NULL;
            if (o->dead) {
                drop(m, o, "its call failed, or cannot use it");
            }
        }
    }
    hold->count = 0;
    hold->operands = 0;
    pthread_mutex_unlock(&m->lock);
    errno = saved;
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
                (!oldest || o->used < oldest->used)) {
                oldest = o;
            }
        }
        if (!oldest) {
            break;
        }
        freed += oldest->buffer_bytes;
        drop(m, oldest, "other calls need the memory");
    }
    pthread_mutex_unlock(&m->lock);
    errno = saved;
}

uint64_t
fy_memory_bytes(const struct fy_memory *m)
{
    return __atomic_load_n(&m->resident_bytes, __ATOMIC_RELAXED);
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
            drop(m, o, "its device is given up");
        }
    }
    pthread_mutex_unlock(&m->lock);
}

void
fy_memory_after_fork(struct fy_memory *m)
{
    /* The descriptor is the parent's memory's; another thread may have the lock. */
    memset(m->objects, 0, sizeof(m->objects));
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
    uintptr_t base = page_down(o->start), from = *at;

    while (from < held->hi && o->clean[(from - base) / FY_PAGE_BYTES]) {
        from = page_down(from) + FY_PAGE_BYTES;
    }
    uintptr_t end = from;
    while (end < held->hi && !o->clean[(end - base) / FY_PAGE_BYTES]) {
        end = page_down(end) + FY_PAGE_BYTES;
    }
    end = end < held->hi ? end : held->hi;
    if (from >= end) {
        return false;
    }
    *at = from;
    *bytes = end - from;
    return true;
}
