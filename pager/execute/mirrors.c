/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles in mirrors of resident operands; runs on the executor's thread. */
#include "config.h"

#include "pager/execute/mirrors.h"

#include "common/debug.h"
#include "pager/memory/objects.h"

/* Returns true if the replica's elements lie in a mirror as the schedule wants them. */
static bool
fits_mirror(const struct fy_replica *r, const struct fy_schedule *s)
{
    const struct fy_view *view = &r->copy.view;
    const uint32_t align =
        s->align_bytes ? s->align_bytes : view->element_bytes;
    if ((uintptr_t)view->host % align != 0 || (s->spoils && !r->written)) {
        return false;
    }
    for (unsigned k = 0; k < view->naxes; k++) {
        if (view->extent[k] > 1 &&
            view->stride[k] != r->copy.device_stride[k]) {
            return false;
        }
    }
    return !r->scratch;
}

/* Finds rows that an algorithm uses as several matrices: it reads an old matrix while it
 * writes another in the same memory. */
static void
find_parted(const struct fy_replica_table *table, const struct fy_schedule *s)
{
    for (const struct fy_replica *r = table->by_place; r; r = r->hh.next) {
        struct fy_held *held = fy_hold_find(s->hold, &s->views[r->key.view]);
        if (!held) {
            continue;
        }
        held->parted = held->parted || (held->writes && held->view != 0 &&
                                        held->view != r->key.view + 1);
        held->view = r->key.view + 1;
    }
}

void
fy_mirrors_place(struct fy_replica_table *table, const struct fy_schedule *s)
{
    struct fy_replica *r, *next;
    bool ordered = false;

    for (uint32_t i = 0; i < s->nsteps; i++) {
        ordered = ordered || s->steps[i].after;
    }
    find_parted(table, s);
    HASH_ITER (hh, table->by_place, r, next) {
        struct fy_held *held = fy_hold_find(s->hold, &s->views[r->key.view]);
        if (!held) {
            continue;
        }
        if (ordered || held->parted || !fits_mirror(r, s)) {
            held->missed = true;
            continue;
        }
        held->placed = r->mirrored = true;
        held->copied = held->lo;
        r->buffer = fy_held_address(held, r->copy.view.host);
        r->copy.device = r->buffer;
        r->state = held->reads ? FY_REPLICA_SHARED : FY_REPLICA_HOST;
    }
}

/* Returns how many of the bytes at *at no row has copied in yet. If that is 0, *at moves
 * behind the copied bytes. */
static uint64_t
not_copied(const struct fy_hold *hold, uintptr_t *at, uint64_t bytes)
{
    for (unsigned i = 0; i < hold->count; i++) {
        const struct fy_held *row = &hold->rows[i];
        if (row->copied <= *at) { /* also a row without a tile in the mirror */
            continue;
        }
        if (row->lo <= *at) {
            *at = row->copied;
            return 0;
        }
        bytes = row->lo - *at < bytes ? row->lo - *at : bytes;
    }
    return bytes;
}

/* Enqueues the row's stale bytes below `to' that have not been copied yet. */
static int
copy_below(const struct fy_hold *hold, struct fy_held *held, uintptr_t to,
           struct fy_lane *in, uint64_t *bytes_in)
{
    uint64_t bytes;

    while (held->copied < to && fy_held_stale(held, &held->copied, &bytes) &&
           held->copied < to) {
        bytes = bytes < to - held->copied ? bytes : to - held->copied;
        bytes = not_copied(hold, &held->copied, bytes);
        if (bytes == 0) {
            continue;
        }
        struct fy_copy copy = {.direction = FY_TO_DEVICE};
        copy.view = (struct fy_view){.host = (char *)held->copied,
                                     .element_bytes = 1,
                                     .access = FY_ACCESS_IN,
                                     .naxes = 1,
                                     .extent = {(int64_t)bytes},
                                     .stride = {1},
                                     .lo = INT64_MIN,
                                     .hi = INT64_MAX};
        copy.device = fy_held_address(held, copy.view.host);
        copy.device_stride[0] = 1;
        int status = in->ops->copy(in->stream, &copy);
        if (status != 0) {
            return status;
        }
        fy_debug(EXECUTE, "copies %llu bytes in, of a mirror",
                 (unsigned long long)bytes);
        *bytes_in += bytes;
        held->copied += bytes;
    }
    held->copied = held->copied > to ? held->copied : to;
    return 0;
}

/* Finds the pages that the replica's elements lie in: [*lo, *hi). */
static void
find_pages(const struct fy_replica *r, uintptr_t *lo, uintptr_t *hi)
{
    const struct fy_view *view = &r->copy.view;
    int64_t low = 0, high = 0;

    (void)fy_view_span(view, &low,
                       &high); /* known since the replica was made */
    *lo = fy_page_down((uintptr_t)view->host + (uintptr_t)low);
    *hi = fy_page_up((uintptr_t)view->host + (uintptr_t)high);
}

int
fy_mirrors_copy(struct fy_hold *hold, const struct fy_replica *r,
                struct fy_lane *in, uint64_t *bytes_in)
{
    uintptr_t lo = 0, hi = UINTPTR_MAX;
    int status = 0;

    if (r) {
        find_pages(r, &lo, &hi);
    }
    for (unsigned i = 0; status == 0 && hold && i < hold->count; i++) {
        struct fy_held *held = &hold->rows[i];
        if (held->placed && held->reads && lo < held->hi && hi > held->lo) {
            status = copy_below(hold, held, hi < held->hi ? hi : held->hi, in,
                                bytes_in);
        }
    }
    return status;
}
