/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A range is one operand's whole pages. Its first call leaves a row; from the
 * second on it is watched; when a later one finds that nothing has happened to
 * it, and the time that copies of it have lost in the ring is what registering
 * takes, it is registered. Whoever loses it (unmapped, moved, discarded; pushed
 * out; fork) needs twice as many calls the next time.
 *
 * Before each copy the watch is asked: what the program did before the call is
 * known then. What it does to an operand while the call runs is its own race;
 * the frames stay ours until the last copy is over, so that nothing else is hit.
 *
 * The lock is never held in the driver or in a question to the watch. A row that
 * is CHANGING belongs to the one thread that changes it; rows with holders do
 * not change. Long because the states of a row belong together.
 */
#include "config.h"

#include "pager/device/cuda/register.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/debug.h"
#include "common/signals.h"
#include "pager/base/explain.h"
#include "pager/device/cuda/internal.h"
#include "pager/device/cuda/users.h"
#include "pager/device/cuda/watch.h"
#include "pager/device/host_memory.h"
#include "pager/device/own_thread.h"

enum {
    PAGE = 4096,
    ROWS = 48,
    STREAMS = 8,           /* that have copied of one row */
    LEAST_BYTES = 4 << 20, /* of a range */
    LEAST_COPY_BYTES = 1 << 20,
    SMALL_EDGE_BYTES = 256 << 10,
    FIRST_USES = 3,
    MOST_USES = 1 << 20,
    PART_OF_MEMORY = 4,
};

#define REGISTER_RATE  1.5e9 /* bytes a second, until one was measured */
#define LINK_RATE      50e9  /* of a copy that goes past the ring */
#define SLOW_RING_RATE 8e9   /* what takes longer has waited for others */

enum state {
    UNUSED,
    SEEN, /* not watched */
    WATCHED,
    CHANGING,
    LIVE,  /* registered */
    STUCK, /* for ever, the driver says: goes by the ring */
};

struct mark {
    uint64_t stream; /* number; 0: none */
    fy_cuda_handle event;
};

struct row {
    enum state state;
    bool refused; /* by the driver or the watch: not tried again */
    uintptr_t start, end;
    unsigned uses, needed;
    unsigned watch;
    unsigned holders;
    uint64_t last_use;
    double lost_seconds;
    struct mark marks[STREAMS];
};

struct cuda_registry {
    struct cuda_device *device;
    pthread_mutex_t lock;
    pthread_cond_t change;
    struct row rows[ROWS];
    uint64_t calls;
    uint64_t live_bytes;
    double register_rate;
    bool off, started, stop;
    pthread_t reaper;
    sem_t lost;
};

static uint64_t limit_setting = UINT64_MAX;
static unsigned staying; /* let_go() without resume() */

void
cuda_register_limit(uint64_t bytes)
{
    limit_setting = bytes;
}

static uint64_t
limit_bytes(void)
{
    uint64_t all = (uint64_t)sysconf(_SC_PHYS_PAGES) * PAGE;
    return limit_setting == UINT64_MAX ? all / PART_OF_MEMORY : limit_setting;
}

struct cuda_registry *
cuda_registry_new(struct cuda_device *device)
{
    struct cuda_registry *r = calloc(1, sizeof *r);
    if (!r) {
        return NULL;
    }
    r->device = device;
    r->off = limit_setting == 0;
    r->register_rate = REGISTER_RATE;
    if (pthread_mutex_init(&r->lock, NULL) != 0) {
        goto free_registry;
    }
    if (pthread_cond_init(&r->change, NULL) != 0) {
        goto destroy_lock;
    }
    if (sem_init(&r->lost, 0, 0) != 0) {
        goto destroy_change;
    }
    return r;

destroy_change:
    pthread_cond_destroy(&r->change);
destroy_lock:
    pthread_mutex_destroy(&r->lock);
free_registry:
    free(r);
    return NULL;
}

/* ---- rows: lock held ------------------------------------------------------ */

static bool
overlaps(const struct row *row, uintptr_t start, uintptr_t end)
{
    return row->state != UNUSED && row->start < end && start < row->end;
}

static struct row *
find(struct cuda_registry *r, uintptr_t start, uintptr_t end)
{
    for (unsigned i = 0; i < ROWS; i++) {
        struct row *row = &r->rows[i];
        if (row->state != UNUSED && row->start == start && row->end == end) {
            return row;
        }
    }
    return NULL;
}

/* A row for a new range: an unused one, else the one used longest ago. */
static struct row *
take_row(struct cuda_registry *r)
{
    struct row *best = NULL;
    for (unsigned i = 0; i < ROWS; i++) {
        struct row *row = &r->rows[i];
        if (row->state == UNUSED) {
            return row;
        }
        if (row->state == SEEN && (!best || row->last_use < best->last_use)) {
            best = row;
        }
    }
    return best;
}

/* Counts again, from one, and to more. */
static void
start_again(struct row *row)
{
    row->state = SEEN;
    row->uses = 1;
    row->lost_seconds = 0;
    row->needed *= row->needed < MOST_USES ? 2 : 1;
}

/* Lock held; a call begins by reading the sum without it. */
static void
add_live(struct cuda_registry *r, int64_t bytes)
{
    __atomic_fetch_add(&r->live_bytes, (uint64_t)bytes, __ATOMIC_RELAXED);
}

/* ---- letting go ------------------------------------------------------------ */

/* Waits for the copies of a row. Nobody holds it, or will. */
static void
sync_marks(struct cuda_registry *r, struct row *row, bool dead)
{
    const struct fy_cuda_driver *driver = r->device->driver;
    for (unsigned i = 0; i < STREAMS; i++) {
        if (row->marks[i].event && !dead) {
            (void)cuda_status(r->device, "a transfer",
                              driver->event_sync(row->marks[i].event));
            (void)driver->event_destroy(row->marks[i].event);
        }
        row->marks[i] = (struct mark){.stream = 0};
    }
}

/*
 * A WATCHED or LIVE row becomes SEEN (or STUCK). The context is current. Lock held, but
 * for the driver's and the watch's part.
 */
static void
release(struct cuda_registry *r, struct row *row)
{
    bool was_live = row->state == LIVE, stuck = false;
    row->state = CHANGING;
    while (row->holders > 0) {
        pthread_cond_wait(&r->change, &r->lock);
    }
    pthread_mutex_unlock(&r->lock);
    if (was_live) {
        bool dead = cuda_is_dead(r->device);
        sync_marks(r, row, dead);
        if (!dead) {
            int result = r->device->driver->host_unregister((void *)row->start);
            stuck = result != 0;
            fy_debug(MEMORY, "unregisters %p: result %d", (void *)row->start,
                     result);
            (void)cuda_status(r->device, "registered memory", result);
        }
    }
    fy_watch_remove(row->watch);
    pthread_mutex_lock(&r->lock);
    if (was_live) {
        add_live(r, -(int64_t)(row->end - row->start));
    }
    if (stuck) {
        row->state = STUCK;
        r->off = true; /* with others it would do no better */
    } else {
        start_again(row);
    }
    pthread_cond_broadcast(&r->change);
}

/* The next row that is registered (or, `all', watched); NULL: none. */
static struct row *
next_held(struct cuda_registry *r, bool lost_only, bool all)
{
    for (unsigned i = 0; i < ROWS; i++) {
        struct row *row = &r->rows[i];
        if ((row->state == LIVE || (all && row->state == WATCHED)) &&
            (!lost_only || fy_watch_is_lost(row->watch))) {
            return row;
        }
    }
    return NULL;
}

static bool
any_changing(const struct cuda_registry *r)
{
    for (unsigned i = 0; i < ROWS; i++) {
        if (r->rows[i].state == CHANGING) {
            return true;
        }
    }
    return false;
}

/* Frees page frames of memory that the program has given up. */
static void *
reap(void *argument)
{
    struct cuda_registry *r = argument;
    struct cuda_device *device = r->device;
    cuda_thread_begins();
    bool pushed = device->driver->context_push(device->context) == 0;
    (void)cuda_relax(device);
    for (;;) {
        while (sem_wait(&r->lost) != 0 && errno == EINTR) {
        }
        pthread_mutex_lock(&device->lock);
        device->inside++;
        bool dead = device->dead;
        pthread_mutex_unlock(&device->lock);
        pthread_mutex_lock(&r->lock);
        bool stop = r->stop;
        struct row *row;
        while (!stop && pushed && !dead && (row = next_held(r, true, true))) {
            release(r, row);
        }
        pthread_mutex_unlock(&r->lock);
        cuda_come_out(device);
        if (stop) {
            return NULL;
        }
    }
}

static void
let_go(struct cuda_registry *r, bool all)
{
    struct row *row;
    pthread_mutex_lock(&r->lock);
    for (;;) {
        if (any_changing(r)) {
            pthread_cond_wait(&r->change, &r->lock);
        } else if ((row = next_held(r, false, all))) {
            release(r, row);
        } else {
            break;
        }
    }
    pthread_mutex_unlock(&r->lock);
}

void
cuda_register_stay(bool stay)
{
    if (stay) {
        __atomic_add_fetch(&staying, 1, __ATOMIC_SEQ_CST);
    } else {
        __atomic_sub_fetch(&staying, 1, __ATOMIC_SEQ_CST);
    }
}

void
cuda_register_let_go(struct cuda_registry *r)
{
    sigset_t before;
    int cancel;
    fy_signals_block(&before);
    pthread_mutex_lock(&r->lock);
    bool any = r->started;
    pthread_mutex_unlock(&r->lock);
    if (any && cuda_enter_caller(r->device, &cancel)) {
        let_go(r, false);
        cuda_leave_caller(r->device, cancel);
    }
    fy_signals_restore(&before);
}

void
cuda_registry_free(struct cuda_registry *r)
{
    int cancel;
    if (!r) {
        return;
    }
    if (cuda_is_ours(r->device)) {
        if (r->started) {
            pthread_mutex_lock(&r->lock);
            r->stop = true;
            pthread_mutex_unlock(&r->lock);
            (void)sem_post(&r->lost);
            pthread_join(r->reaper, NULL);
            /* Where the device is dead, only the watches go. */
            bool entered = cuda_enter_caller(r->device, &cancel);
            let_go(r, true);
            if (entered) {
                cuda_leave_caller(r->device, cancel);
            }
        }
        (void)sem_destroy(&r->lost);
        pthread_cond_destroy(&r->change);
        pthread_mutex_destroy(&r->lock);
    }
    free(r);
}

/* ---- calls ------------------------------------------------------------------- */

/* The watch, and the thread that answers to it. Lock held. */
static bool
start(struct cuda_registry *r)
{
    const char *why = NULL;
    if (r->started || r->off) {
        return r->started && !r->off;
    }
    pthread_mutex_unlock(&r->lock);
    int status = fy_watch_start(limit_setting != UINT64_MAX, &why);
    pthread_mutex_lock(&r->lock);
    if (status != FY_OK) {
        char text[160];
        (void)snprintf(text, sizeof text, "no memory is registered: %s", why);
        fy_explain_line(text);
        r->off = true;
        return false;
    }
    if (!r->started && !r->off) {
        r->started =
            fy_own_thread_start(&r->reaper, CUDA_STACK_BYTES, reap, r) == 0;
        r->off = !r->started;
    }
    return r->started;
}

static void
watch(struct cuda_registry *r, struct row *row)
{
    int status = FY_ERR_UNSUPPORTED;
    row->state = CHANGING;
    if (start(r)) {
        pthread_mutex_unlock(&r->lock);
        status = fy_watch_add(row->start, row->end - row->start, &r->lost,
                              &row->watch);
        pthread_mutex_lock(&r->lock);
    }
    row->state = WATCHED;
    if (status != FY_OK) {
        start_again(row);
    }
    pthread_cond_broadcast(&r->change);
}

/* Room for `bytes' more: what was used longest ago goes. Lock held. */
static bool
make_room(struct cuda_registry *r, uint64_t bytes)
{
    uint64_t limit = limit_bytes();
    if (bytes > limit || bytes > fy_host_available_bytes() / 2) {
        return false;
    }
    while (r->live_bytes + bytes > limit) {
        struct row *oldest = NULL;
        for (unsigned i = 0; i < ROWS; i++) {
            struct row *row = &r->rows[i];
            if (row->state == LIVE &&
                (!oldest || row->last_use < oldest->last_use)) {
                oldest = row;
            }
        }
        if (!oldest || oldest->last_use == r->calls) {
            return false; /* all are the call's own, or being changed */
        }
        release(r, oldest);
    }
    return true;
}

/* No two registrations may share a byte. Lock held. */
static void
clear_way(struct cuda_registry *r, const struct row *new)
{
    for (unsigned i = 0; i < ROWS; i++) {
        struct row *row = &r->rows[i];
        while (row != new && row->state == LIVE &&
               overlaps(row, new->start, new->end)) {
            release(r, row);
        }
    }
}

/* A WATCHED row whose time has come. Lock held, but for the driver's part. */
static void
register_row(struct cuda_registry *r, struct row *row)
{
    uint64_t bytes = row->end - row->start;
    row->state = CHANGING;
    clear_way(r, row);
    if (!make_room(r, bytes)) {
        row->state = WATCHED;
        pthread_cond_broadcast(&r->change);
        return;
    }
    add_live(r, (int64_t)bytes);
    pthread_mutex_unlock(&r->lock);
    bool intact = fy_watch_is_intact(row->watch);
    double before = fy_clock_seconds();
    int result =
        intact ? r->device->driver->host_register((void *)row->start, bytes, 0)
               : FY_CUDA_INVALID_VALUE;
    double after = fy_clock_seconds();
    fy_debug(MEMORY, "registers %llu bytes at %p in %.3g s: result %d",
             (unsigned long long)bytes, (void *)row->start, after - before,
             result);
    if (result != 0 && fy_cuda_is_fatal(result)) {
        (void)cuda_lost(r->device, "registering memory", result);
    }
    pthread_mutex_lock(&r->lock);
    row->state = LIVE;
    if (result == 0) {
        if (after > before) {
            r->register_rate = (double)bytes / (after - before);
        }
        pthread_cond_broadcast(&r->change);
        return;
    }
    add_live(r, -(int64_t)bytes);
    row->refused = intact && result != FY_CUDA_OUT_OF_MEMORY;
    row->state = WATCHED;
    release(r, row);
}

/* Whether another registration has all of it already. Lock held. */
static bool
is_inside_another(struct cuda_registry *r, uintptr_t start, uintptr_t end)
{
    for (unsigned i = 0; i < ROWS; i++) {
        struct row *row = &r->rows[i];
        if (row->state == LIVE && row->start <= start && end <= row->end &&
            (row->start != start || row->end != end)) {
            row->last_use = r->calls;
            return true;
        }
    }
    return false;
}

/*
 * Before libraries of the device's allocate at an address that the program has
 * given up: to the driver it is what it was until it is unregistered. Lock held.
 */
static void
release_lost(struct cuda_registry *r)
{
    struct row *row;
    while ((row = next_held(r, true, false))) {
        release(r, row);
    }
    for (unsigned i = 0; i < ROWS; i++) { /* by others, just now */
        while (r->rows[i].state == CHANGING &&
               fy_watch_is_lost(r->rows[i].watch)) {
            pthread_cond_wait(&r->change, &r->lock);
        }
    }
}

/* Lock held. */
static void
use(struct cuda_registry *r, uintptr_t start_at, uintptr_t end, bool force)
{
    if (is_inside_another(r, start_at, end)) {
        return;
    }
    struct row *row = find(r, start_at, end);
    if (!row) {
        row = take_row(r);
        if (!row) {
            return;
        }
        *row = (struct row){.state = SEEN, /* a SEEN row has no marks */
                            .start = start_at,
                            .end = end,
                            .needed = FIRST_USES};
    }
    if (row->last_use == r->calls) {
        return; /* two operands of one call */
    }
    row->last_use = r->calls;
    row->uses++;
    if (row->refused || row->state == CHANGING || row->state == LIVE ||
        row->state == STUCK) {
        return;
    }
    if (row->state == WATCHED && fy_watch_is_lost(row->watch)) {
        release(r, row); /* and this is the first call again */
        return;
    }
    if (row->state == SEEN && row->uses >= 2) {
        watch(r, row);
    }
    double cost = (double)(end - start_at) / r->register_rate;
    if (row->state == WATCHED && row->uses >= row->needed &&
        (force || row->lost_seconds >= cost) &&
        __atomic_load_n(&staying, __ATOMIC_SEQ_CST) == 0) {
        register_row(r, row);
    }
}

void
cuda_register_operands(struct cuda_registry *r, const struct fy_range *ranges,
                       size_t count, bool force)
{
    sigset_t before;
    int cancel;
    bool large = false;
    for (size_t i = 0; i < count; i++) {
        large = large || ranges[i].bytes >= LEAST_BYTES;
    }
    bool live = __atomic_load_n(&r->live_bytes, __ATOMIC_RELAXED) > 0;
    if (!large && !live) {
        return;
    }
    if (cuda_users_any()) {
        cuda_register_let_go(r);
        return;
    }
    fy_signals_block(&before);
    if (!cuda_enter_caller(r->device, &cancel)) {
        goto loud;
    }
    if (live) {
        fy_watch_settle();
    }
    pthread_mutex_lock(&r->lock);
    if (live) {
        release_lost(r);
    }
    count = r->off || !large ? 0 : count;
    r->calls++;
    for (size_t i = 0; i < count; i++) {
        uintptr_t low = (ranges[i].start + PAGE - 1) / PAGE * PAGE;
        uintptr_t high = (ranges[i].start + ranges[i].bytes) / PAGE * PAGE;
        if (ranges[i].bytes >= LEAST_BYTES && low < high) {
            use(r, low, high, force);
        }
    }
    pthread_mutex_unlock(&r->lock);
    cuda_leave_caller(r->device, cancel);
loud:
    fy_signals_restore(&before);
}

/* ---- copies -------------------------------------------------------------------- */

static uint64_t
bytes_of(const struct fy_copy *t)
{
    return fy_view_all_elements(&t->view) * t->view.element_bytes;
}

/* `count' of the last axis, from the first-th on. */
static struct fy_copy
part(const struct fy_copy *t, uint64_t first, uint64_t count)
{
    struct fy_copy p = *t;
    int last = t->view.naxes - 1;
    uint64_t at = first * t->view.element_bytes;
    p.view.host += at * (uint64_t)t->view.stride[last];
    p.device += at * (uint64_t)t->device_stride[last];
    p.view.extent[last] = (int64_t)count;
    return p;
}

/*
 * Cuts a transfer along its last axis into what lies in front of the registered
 * pages, or half in them, what lies in them, and the rest.
 */
static void
cut(const struct fy_copy *t, const struct row *row, uint64_t *first,
    uint64_t *behind)
{
    int last = t->view.naxes - 1;
    uintptr_t host = (uintptr_t)t->view.host;
    uint64_t pitch =
        (uint64_t)t->view.stride[last] * (uint64_t)t->view.element_bytes;
    uint64_t n = (uint64_t)t->view.extent[last];
    const struct fy_copy one = part(t, 0, 1);
    uint64_t slice = cuda_transfer_span(&one);
    uint64_t from =
        row->start <= host ? 0 : (row->start - host + pitch - 1) / pitch;
    uint64_t to =
        row->end < host + slice ? 0 : (row->end - host - slice) / pitch + 1;
    *first = from < n ? from : n;
    *behind = to < n ? to : n;
    *behind = *behind < *first ? *first : *behind;
}

enum which {
    EDGES,
    INSIDE
};

/* Only the edges first, and then what goes straight: see copy.c. */
static int
transfer(struct fy_stream *stream, const struct fy_copy *t,
         const struct row *row, enum which which)
{
    uint64_t first, behind;
    cut(t, row, &first, &behind);
    int status = 0;
    if (first < behind && which == INSIDE) {
        struct fy_copy middle = part(t, first, behind - first);
        status = cuda_transfer(stream->device, &middle, stream->handle);
    }
    uint64_t n = (uint64_t)t->view.extent[t->view.naxes - 1];
    const uint64_t edges[2][2] = {{0, first}, {behind, n}};
    for (int i = 0; i < 2 && status == 0; i++) {
        uint64_t count = edges[i][1] - edges[i][0];
        struct fy_copy edge = part(t, edges[i][0], count);
        if (count == 0) {
            continue;
        }
        if (count == 1 && t->view.naxes > 1 &&
            bytes_of(&edge) > SMALL_EDGE_BYTES) {
            edge.view.naxes--;
            status = transfer(stream, &edge, row, which);
        } else if (which == EDGES) {
            status = cuda_ring_copy(stream, &edge);
        }
    }
    return status;
}

/* An event behind the transfers, for release(). The row is held. */
static int
mark(struct cuda_registry *r, struct row *row, struct fy_stream *stream)
{
    const struct fy_cuda_driver *driver = r->device->driver;
    struct mark *m = NULL;
    pthread_mutex_lock(&r->lock);
    for (unsigned i = 0; i < STREAMS; i++) {
        struct mark *one = &row->marks[i];
        if (one->stream == stream->number ||
            (one->stream == 0 && (!m || m->stream == 0))) {
            m = one;
        }
        if (one->stream == stream->number) {
            break;
        }
    }
    if (m) {
        m->stream = stream->number;
    }
    pthread_mutex_unlock(&r->lock);
    int result = FY_CUDA_SUCCESS;
    if (m && !m->event) {
        result =
            driver->event_create(&m->event, FY_CUDA_EVENT_BLOCKING_SYNC |
                                                FY_CUDA_EVENT_DISABLE_TIMING);
    }
    if (m && result == 0) {
        result = driver->event_record(m->event, stream->handle);
    }
    if (!m || result != 0) {
        /* Nothing else says when they are over. */
        int synced = driver->stream_sync(stream->handle);
        result = result != 0 ? result : synced;
    }
    return cuda_status(r->device, "a transfer", result);
}

/* The row that nearly all of the bytes lie in, held. */
static struct row *
hold(struct cuda_registry *r, uintptr_t start_at, uint64_t bytes)
{
    struct row *found = NULL;
    pthread_mutex_lock(&r->lock);
    for (unsigned i = 0; i < ROWS && !found; i++) {
        struct row *row = &r->rows[i];
        if (row->state == LIVE && row->start < start_at + PAGE &&
            start_at + bytes < row->end + PAGE) {
            row->holders++;
            found = row;
        }
    }
    pthread_mutex_unlock(&r->lock);
    return found;
}

/* Whether the program, and not ferry, has page-locked it: the driver is asked,
 * while no registration can come or go. */
bool
cuda_register_is_foreign(struct cuda_registry *r, const struct fy_copy *t,
                         bool (*is_locked)(struct cuda_device *,
                                           const struct fy_copy *))
{
    uintptr_t start_at = (uintptr_t)t->view.host;
    uintptr_t end = start_at + cuda_transfer_span(t);
    bool ours = false;
    pthread_mutex_lock(&r->lock);
    for (unsigned i = 0; i < ROWS; i++) {
        const struct row *row = &r->rows[i];
        ours = ours || ((row->state == LIVE || row->state == CHANGING ||
                         row->state == STUCK) &&
                        overlaps(row, start_at, end));
    }
    bool foreign = !ours && is_locked(r->device, t);
    pthread_mutex_unlock(&r->lock);
    return foreign;
}

void
cuda_register_forget(struct cuda_registry *r, uint64_t stream)
{
    fy_cuda_handle events[ROWS];
    unsigned count = 0;
    pthread_mutex_lock(&r->lock);
    for (unsigned i = 0; i < ROWS; i++) {
        struct row *row = &r->rows[i];
        for (unsigned k = 0; k < STREAMS && row->state != CHANGING; k++) {
            if (row->marks[k].stream == stream) {
                events[count++] = row->marks[k].event;
                row->marks[k] = (struct mark){.stream = 0};
                break;
            }
        }
    }
    pthread_mutex_unlock(&r->lock);
    for (unsigned i = 0; i < count; i++) {
        (void)r->device->driver->event_destroy(events[i]);
    }
}

bool
cuda_register_copy(struct fy_stream *stream, const struct fy_copy *t,
                   int *status)
{
    struct cuda_registry *r = stream->device->registry;
    uint64_t bytes = cuda_transfer_span(t);
    if (bytes < LEAST_COPY_BYTES) {
        return false;
    }
    struct row *row = hold(r, (uintptr_t)t->view.host, bytes);
    if (!row) {
        return false;
    }
    bool intact = fy_watch_is_intact(row->watch);
    if (intact) {
        const struct fy_cuda_driver *driver = r->device->driver;
        *status = 0;
        if (t->direction == FY_TO_HOST &&
            ((uintptr_t)t->view.host < row->start ||
             (uintptr_t)t->view.host + bytes > row->end)) {
            /* Copying threads must not wait for work that may be long. */
            int result = driver->event_record(stream->ready, stream->handle);
            result = result != 0 ? result : driver->event_sync(stream->ready);
            *status = cuda_status(r->device, "the work before a copy", result);
        }
        if (*status == 0) {
            *status = transfer(stream, t, row, EDGES);
        }
        if (*status == 0) {
            *status = transfer(stream, t, row, INSIDE);
        }
        int marked = mark(r, row, stream);
        *status = *status != 0 ? *status : marked;
    }
    pthread_mutex_lock(&r->lock);
    row->holders--;
    pthread_cond_broadcast(&r->change);
    pthread_mutex_unlock(&r->lock);
    return intact;
}

void
cuda_register_missed(struct cuda_registry *r, const struct fy_copy *t,
                     double took)
{
    uintptr_t start_at = (uintptr_t)t->view.host;
    uint64_t bytes = bytes_of(t);
    uint64_t length = cuda_transfer_span(t);
    if (bytes < LEAST_COPY_BYTES) {
        return;
    }
    double slow = (double)bytes / SLOW_RING_RATE;
    double lost = (took < slow ? took : slow) - (double)bytes / LINK_RATE;
    pthread_mutex_lock(&r->lock);
    for (unsigned i = 0; i < ROWS && lost > 0; i++) {
        struct row *row = &r->rows[i];
        if (row->state != UNUSED && row->start < start_at + PAGE &&
            start_at + length < row->end + PAGE) {
            row->lost_seconds += lost;
        }
    }
    pthread_mutex_unlock(&r->lock);
}
