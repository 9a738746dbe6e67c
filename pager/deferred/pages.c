/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See pages.h. A range is registered with a userfaultfd for missing pages
 * and then moved away by mremap(MREMAP_DONTUNMAP): at no time does a reader see
 * anything but its content. It comes back by UFFDIO_COPY, which fails, and does
 * no harm, where the program has unmapped it meanwhile.
 *
 * Threads: the keeper reads events and answers faults; the server carries out
 * what others ask for, as only these two have the descriptor. While somebody
 * else holds the lock and asks, the server reads events too: what moves memory
 * waits for its event to be read, and UFFDIO_COPY for what moves memory.
 * Long because the states of a range and its events belong together.
 */
#include "config.h"

#include "pager/deferred/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <linux/userfaultfd.h>

#include "common/clock.h"
#include "common/signals.h"
#include "pager/base/lasting.h"
#include "pager/deferred/child.h"
#include "pager/deferred/where.h"
#include "pager/device/own_thread.h"

#ifndef USERFAULTFD_IOC_NEW
#define USERFAULTFD_IOC_NEW _IO(0xAA, 0x00)
#endif
#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE (1U << 1)
#endif

enum {
    PAGE = 4096,
    PIECE_PAGES = 512, /* copied at once */
    MAX_WAITING = 4096,
    MAX_FORKED = 16,
    GIVE_UP_SECONDS = 10, /* for the event of what is no longer mapped */
};

#define FEATURES                                          \
    (UFFD_FEATURE_EVENT_FORK | UFFD_FEATURE_EVENT_REMAP | \
     UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_EVENT_UNMAP)

static struct fy_pages *ranges; /* FY_PAGES_RANGES */
static const struct fy_pages_hooks *hooks;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sigset_t kept_mask; /* of the lock's holder */
static int kept_cancel;

/* Of the threads that have the descriptor; nobody else may use it. */
static int fd = -1;
static char *canary; /* a registered page that is there: see changing() */

/* What the server is asked for, one thing at a time, by the lock's holder. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    void (*run)(void *argument);
    void *argument;
    bool wanted;
} job = {.lock = PTHREAD_MUTEX_INITIALIZER,
         .changed = PTHREAD_COND_INITIALIZER};

/* Threads whose fault was read in passing, to be woken and asked again. */
static uint64_t *waiting; /* MAX_WAITING */
static unsigned nwaiting;

/* The move that fy_pages_take() is in the middle of. */
static struct {
    uintptr_t start;
    size_t bytes;
    uintptr_t shadow;
    bool before, after;
    enum {
        IDLE,
        WANTED,
        REGISTERED,
        REFUSED, /* by the kernel, or the move failed */
        MOVED
    } state;
    bool seen; /* its event */
    /* Children of meanwhile: with or without what is being taken. */
    int forked[MAX_FORKED];
    unsigned nforked;
} taking;

void
fy_pages_lock(void)
{
    sigset_t before;
    int cancel;

    fy_signals_block(&before);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    pthread_mutex_lock(&lock);
    kept_mask = before;
    kept_cancel = cancel;
}

static void
release_lock(void)
{
    sigset_t before = kept_mask;
    int cancel = kept_cancel;

    pthread_mutex_unlock(&lock);
    pthread_setcancelstate(cancel, NULL);
    fy_signals_restore(&before);
}

/* Runs something on a thread that has the descriptor. */
static void
ask(void (*run)(void *), void *argument)
{
    if (fy_own_block()->has_descriptor) {
        run(argument);
        return;
    }
    pthread_mutex_lock(&job.lock);
    job.run = run;
    job.argument = argument;
    job.wanted = true;
    pthread_cond_broadcast(&job.changed);
    while (job.wanted) {
        pthread_cond_wait(&job.changed, &job.lock);
    }
    pthread_mutex_unlock(&job.lock);
}

static void *
serve(void *unused)
{
    (void)unused;
    fy_own_thread_begins(false);
    fy_own_block()->has_descriptor = true;
    pthread_mutex_lock(&job.lock);
    for (;;) {
        while (!job.wanted) {
            pthread_cond_wait(&job.changed, &job.lock);
        }
        pthread_mutex_unlock(&job.lock);
        job.run(job.argument);
        pthread_mutex_lock(&job.lock);
        job.wanted = false;
        pthread_cond_broadcast(&job.changed);
    }
    return NULL;
}

/* ---- pages of a range --------------------------------------------------- */

bool
fy_pages_is_out(const struct fy_pages *range, size_t page)
{
    return (range->out[page / 64] >> (page % 64) & 1) != 0;
}

static void
set_home(struct fy_pages *range, size_t page)
{
    if (fy_pages_is_out(range, page)) {
        range->out[page / 64] &= ~(UINT64_C(1) << (page % 64));
        range->nout--;
    }
}

static void
remove_segment(struct fy_pages *range, unsigned i)
{
    range->nsegments--;
    memmove(&range->segments[i], &range->segments[i + 1],
            sizeof(range->segments[0]) * (range->nsegments - i));
}

/*
 * Takes what lies in [from, to) out of the segments of a range; each piece is
 * told to `piece', which may add it again elsewhere. FY_PAGES_SEGMENTS is more
 * than can be cut before the range is given back: beyond it, pages are lost to
 * their owner, as if unmapped.
 */
static void
cut_segments(struct fy_pages *range, uintptr_t from, uintptr_t to,
             struct fy_pages_segment *pieces, unsigned *npieces)
{
    *npieces = 0;
    for (unsigned i = 0; i < range->nsegments;) {
        struct fy_pages_segment s = range->segments[i];
        uintptr_t end = s.at + s.count * PAGE;
        uintptr_t low = s.at > from ? s.at : from;
        uintptr_t high = end < to ? end : to;
        if (low >= high) {
            i++;
            continue;
        }
        remove_segment(range, i);
        pieces[(*npieces)++] = (struct fy_pages_segment){
            s.first + (low - s.at) / PAGE, (high - low) / PAGE, low};
        if (high < end && range->nsegments < FY_PAGES_SEGMENTS) {
            memmove(&range->segments[i + 1], &range->segments[i],
                    sizeof(s) * (range->nsegments - i));
            range->segments[i] = (struct fy_pages_segment){
                s.first + (high - s.at) / PAGE, (end - high) / PAGE, high};
            range->nsegments++;
            i++;
        }
        if (low > s.at && range->nsegments < FY_PAGES_SEGMENTS) {
            range->segments[range->nsegments++] =
                (struct fy_pages_segment){s.first, (low - s.at) / PAGE, s.at};
        }
    }
}

/* What happened to the program's pages: their old content is gone for all, or the
 * pages lie at `at' now; unmapped ones lie nowhere. */
static void
change_pages(uintptr_t from, uintptr_t to, uintptr_t at, bool gone,
             bool unmapped)
{
    for (unsigned r = 0; r < FY_PAGES_RANGES; r++) {
        struct fy_pages *range = &ranges[r];
        struct fy_pages_segment pieces[FY_PAGES_SEGMENTS];
        unsigned n;
        if (!range->used) {
            continue;
        }
        cut_segments(range, from, to, pieces, &n);
        for (unsigned i = 0; i < n; i++) {
            for (size_t k = 0; gone && k < pieces[i].count; k++) {
                set_home(range, pieces[i].first + k);
            }
            range->disturbed = true;
            pieces[i].at = pieces[i].at - from + at;
            if (!unmapped && range->nsegments < FY_PAGES_SEGMENTS) {
                range->segments[range->nsegments++] = pieces[i];
            }
        }
    }
}

/* The range and page of an address, or NULL. */
static struct fy_pages *
range_at(uint64_t address, size_t *page)
{
    for (unsigned r = 0; r < FY_PAGES_RANGES; r++) {
        struct fy_pages *range = &ranges[r];
        for (unsigned i = 0; range->used && i < range->nsegments; i++) {
            const struct fy_pages_segment *s = &range->segments[i];
            if (address >= s->at && (address - s->at) / PAGE < s->count) {
                *page = s->first + (address - s->at) / PAGE;
                return range;
            }
        }
    }
    return NULL;
}

/* ---- events, on threads that have the descriptor ------------------------ */

static void
wake(uint64_t address)
{
    struct uffdio_range range = {address & ~UINT64_C(4095), PAGE};
    (void)ioctl(fd, UFFDIO_WAKE, &range);
}

static void
change(const struct uffd_msg *message)
{
    switch (message->event) {
    case UFFD_EVENT_FORK:
        if (taking.state != IDLE && taking.nforked < MAX_FORKED) {
            taking.forked[taking.nforked++] = (int)message->arg.fork.ufd;
        } else {
            fy_child_add((int)message->arg.fork.ufd);
        }
        break;
    case UFFD_EVENT_REMAP:
        if (taking.state != IDLE && !taking.seen &&
            message->arg.remap.from == taking.start &&
            message->arg.remap.len == taking.bytes) {
            taking.shadow = message->arg.remap.to;
            taking.seen = true;
            break;
        }
        change_pages(message->arg.remap.from,
                     message->arg.remap.from + message->arg.remap.len,
                     message->arg.remap.to, false, false);
        break;
    case UFFD_EVENT_REMOVE:
    case UFFD_EVENT_UNMAP:
        change_pages(message->arg.remove.start, message->arg.remove.end,
                     message->arg.remove.start, true,
                     message->event == UFFD_EVENT_UNMAP);
        break;
    default:
        break;
    }
}

/* Reads what is there; faults, which come first, are put off. */
static void
drain(void)
{
    struct uffd_msg message;

    while (read(fd, &message, sizeof(message)) == (ssize_t)sizeof(message)) {
        if (message.event != UFFD_EVENT_PAGEFAULT) {
            change(&message);
        } else if (nwaiting < MAX_WAITING) {
            waiting[nwaiting++] = message.arg.pagefault.address;
        } else {
            wake(message.arg.pagefault.address);
        }
    }
}

/* Those put off fault again, if need be, and the keeper sees it. */
static void
wake_waiting(void)
{
    while (nwaiting > 0) {
        wake(waiting[--nwaiting]);
    }
}

/*
 * Whether some thread is between changing the memory map and telling of it: the
 * kernel then refuses to fill pages, also one that is there.
 */
static bool
changing(void)
{
    struct uffdio_zeropage zero = {
        .range = {(uint64_t)(uintptr_t)canary, PAGE}};

    return ioctl(fd, UFFDIO_ZEROPAGE, &zero) != 0 && errno == EAGAIN;
}

static void
pause_briefly(void)
{
    const struct timespec moment = {.tv_nsec = 20000};
    nanosleep(&moment, NULL);
}

static void
sync_events(void *unused)
{
    (void)unused;
    drain();
    while (changing()) {
        pause_briefly();
        drain();
    }
    wake_waiting();
}

void
fy_pages_sync(void)
{
    ask(sync_events, NULL);
}

/* ---- back home ------------------------------------------------------------ */

/* The next pages that are out and lie together; false: none. */
static bool
next_run(const struct fy_pages *range, size_t most,
         struct fy_pages_segment *out)
{
    for (unsigned i = 0; i < range->nsegments; i++) {
        const struct fy_pages_segment *s = &range->segments[i];
        for (size_t k = 0; k < s->count; k++) {
            size_t n = 0;
            if (s->count - k >= 64 && (s->first + k) % 64 == 0 &&
                range->out[(s->first + k) / 64] == 0) {
                k += 63;
                continue;
            }
            while (n < most && k + n < s->count &&
                   fy_pages_is_out(range, s->first + k + n)) {
                n++;
            }
            if (n > 0) {
                *out = (struct fy_pages_segment){s->first + k, n,
                                                 s->at + k * PAGE};
                return true;
            }
        }
    }
    return false;
}

/* Pages of a shadow that nobody will read: the program has its own again, and
 * memory is not to be needed twice. */
static void
give_back(const struct fy_pages *range, const struct fy_pages_segment *run,
          size_t pages)
{
    (void)madvise(range->shadow + run->first * PAGE, pages * PAGE,
                  MADV_DONTNEED);
}

static void
done_run(struct fy_pages *range, const struct fy_pages_segment *run,
         size_t pages)
{
    for (size_t k = 0; k < pages; k++) {
        set_home(range, run->first + k);
    }
}

/* Every page that is out is filled from the shadow. */
static void
fill(void *argument)
{
    struct fy_pages *range = argument;
    struct fy_pages_segment run;
    double stuck_since = 0;
    size_t most = PIECE_PAGES;
    bool needed = hooks->needed(range);

    while (next_run(range, most, &run)) {
        struct uffdio_copy copy = {
            .dst = run.at,
            .src = (uint64_t)(uintptr_t)range->shadow + run.first * PAGE,
            .len = run.count * PAGE,
        };
        int status = ioctl(fd, UFFDIO_COPY, &copy), error = errno;
        if (status == 0) {
            copy.copy = (int64_t)copy.len;
        }
        if (copy.copy > 0) {
            done_run(range, &run, (size_t)copy.copy / PAGE);
            if (!needed && !fy_children_wait()) {
                give_back(range, &run, (size_t)copy.copy / PAGE);
            }
            stuck_since = 0;
            most = PIECE_PAGES;
            continue;
        }
        if (error == EEXIST) { /* it is there: whoever waits may go on */
            done_run(range, &run, 1);
            wake(run.at);
            continue;
        }
        if (error == ESRCH) {
            return; /* the process ends */
        }
        drain();
        if (error == EAGAIN) {
            pause_briefly();
            continue;
        }
        /* ENOENT: two mappings by now, of other protection perhaps... */
        if (error != ENOMEM && run.count > 1) {
            most = run.count / 2;
            continue;
        }
        /* ... or unmapped, and its event is on its way. ENOMEM: wait. */
        if (stuck_since == 0) {
            stuck_since = fy_clock_seconds();
        } else if (error != ENOMEM &&
                   fy_clock_seconds() - stuck_since > GIVE_UP_SECONDS) {
            done_run(range, &run, 1);
        }
        pause_briefly();
    }
    wake_waiting();
}

static bool
unregister_pages(uintptr_t at, size_t bytes)
{
    struct uffdio_range range = {at, bytes};

    return ioctl(fd, UFFDIO_UNREGISTER, &range) == 0;
}

/* A page at an end, unless it is one that another range waits for. */
static void
unregister_end(const struct fy_pages *range, uintptr_t at)
{
    size_t page;
    const struct fy_pages *other = range_at(at, &page);

    if (!other || other == range || !other->watched) {
        (void)unregister_pages(at, PAGE);
    }
}

/* Once: what is there afterwards may be watched by somebody else. */
static void
unregister(void *argument)
{
    struct fy_pages *range = argument;

    for (unsigned i = 0; range->watched && i < range->nsegments; i++) {
        const struct fy_pages_segment *s = &range->segments[i];
        size_t bytes = s->count * PAGE;
        (void)unregister_pages(s->at, bytes);
        if (range->before && s->first == 0) {
            unregister_end(range, s->at - PAGE);
        }
        if (range->after && s->first + s->count == range->bytes / PAGE) {
            unregister_end(range, s->at + bytes);
        }
    }
    range->watched = false;
}

static void
forget(struct fy_pages *range)
{
    if (fy_children_wait()) {
        range->kept = true; /* serve_children() frees it */
    } else {
        (void)munmap(range->shadow, range->bytes);
        free(range->out);
        range->out = NULL;
    }
    range->used = false;
}

void
fy_pages_release(struct fy_pages *range)
{
    ask(fill, range);
    ask(unregister, range);
    forget(range);
}

void
fy_pages_leave(struct fy_pages *range)
{
    ask(unregister, range);
}

void
fy_pages_drop(struct fy_pages *range)
{
    ask(unregister, range);
    forget(range);
}

static void
serve_children(void *unused)
{
    (void)unused;
    hooks->settle(NULL);
    fy_children_serve();
    for (unsigned r = 0; r < FY_PAGES_RANGES; r++) {
        if (ranges[r].kept) {
            ranges[r].kept = false;
            forget(&ranges[r]);
        }
    }
}

static void
fault(uint64_t address)
{
    size_t page;
    struct fy_pages *range = range_at(address, &page);

    if (range && fy_pages_is_out(range, page)) {
        hooks->settle(range);
        fill(range);
        hooks->filled(range);
        return;
    }
    /* Back already, dropped by the program, or never ours: a page of zeros. */
    struct uffdio_zeropage zero = {.range = {address & ~UINT64_C(4095), PAGE}};
    for (;;) {
        if (ioctl(fd, UFFDIO_ZEROPAGE, &zero) == 0) {
            return;
        }
        if (errno != EAGAIN && errno != ENOMEM) {
            wake(address);
            return;
        }
        drain();
        wake_waiting();
        pause_briefly();
    }
}

static bool
any_disturbed(void)
{
    for (unsigned r = 0; r < FY_PAGES_RANGES; r++) {
        if (ranges[r].used && ranges[r].disturbed) {
            return true;
        }
    }
    return false;
}

static void *
keep(void *unused)
{
    struct pollfd watch = {.fd = fd, .events = POLLIN};

    (void)unused;
    fy_own_block()->has_descriptor = true;
    for (;;) {
        struct uffd_msg message;
        if (poll(&watch, 1, -1) < 0 && errno != EINTR) {
            return NULL; /* cannot be: nobody else has the descriptor */
        }
        fy_pages_lock();
        if (read(fd, &message, sizeof(message)) == (ssize_t)sizeof(message)) {
            if (message.event == UFFD_EVENT_PAGEFAULT) {
                fault(message.arg.pagefault.address);
            } else {
                change(&message);
            }
        }
        fy_pages_unlock();
    }
}

void
fy_pages_unlock(void)
{
    while (any_disturbed()) {
        hooks->disturbed();
    }
    while (fy_children_wait()) {
        ask(serve_children, NULL);
    }
    release_lock();
}

/* ---- taking --------------------------------------------------------------- */

static void
set_taking(int state)
{
    __atomic_store_n(&taking.state, state, __ATOMIC_RELEASE);
}

static int
taking_state(void)
{
    return __atomic_load_n(&taking.state, __ATOMIC_ACQUIRE);
}

/* Registers, then waits for the move's event, and lets go of the shadow. */
static void
register_and_see(void *unused)
{
    struct uffdio_register r = {
        .range = {taking.start - (taking.before ? PAGE : 0),
                  taking.bytes + (taking.before ? PAGE : 0) +
                      (taking.after ? PAGE : 0)},
        .mode = UFFDIO_REGISTER_MODE_MISSING,
    };
    struct pollfd watch = {.fd = fd, .events = POLLIN};

    (void)unused;
    if (ioctl(fd, UFFDIO_REGISTER, &r) != 0) {
        set_taking(REFUSED);
        return;
    }
    set_taking(REGISTERED);
    while (taking_state() != REFUSED && !taking.seen) {
        (void)poll(&watch, 1, 1);
        drain();
    }
    if (taking.seen) {
        struct uffdio_range shadow = {taking.shadow, taking.bytes};
        (void)ioctl(fd, UFFDIO_UNREGISTER, &shadow);
    } else {
        (void)ioctl(fd, UFFDIO_UNREGISTER, &r.range);
    }
    wake_waiting();
}

/* As ask(), with the move in the middle of it. */
static char *
move_away(uintptr_t start, size_t bytes, bool before, bool after)
{
    char *shadow = MAP_FAILED;

    taking.start = start;
    taking.bytes = bytes;
    taking.before = before;
    taking.after = after;
    taking.seen = false;
    set_taking(WANTED);
    pthread_mutex_lock(&job.lock);
    job.run = register_and_see;
    job.argument = NULL;
    job.wanted = true;
    pthread_cond_broadcast(&job.changed);
    pthread_mutex_unlock(&job.lock);
    while (taking_state() == WANTED) {
        pause_briefly();
    }
    if (taking_state() == REGISTERED) {
        shadow = mremap((void *)start, bytes, bytes,
                        MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
        if (shadow == MAP_FAILED) {
            set_taking(REFUSED);
        }
    }
    pthread_mutex_lock(&job.lock);
    while (job.wanted) {
        pthread_cond_wait(&job.changed, &job.lock);
    }
    pthread_mutex_unlock(&job.lock);
    set_taking(IDLE);
    return shadow;
}

static struct fy_pages *
unused_range(void)
{
    for (unsigned r = 0; r < FY_PAGES_RANGES; r++) {
        if (!ranges[r].used && !ranges[r].kept) {
            return &ranges[r];
        }
    }
    return NULL;
}

static void
add_forked(void)
{
    while (taking.nforked > 0) {
        fy_child_add(taking.forked[--taking.nforked]);
    }
}

int
fy_pages_take(uintptr_t start, size_t bytes, bool before, bool after,
              struct fy_pages **out)
{
    size_t pages = bytes / PAGE, words = (pages + 63) / 64;
    struct fy_pages *range = unused_range();

    if (!range || pages == 0 || start % PAGE || bytes % PAGE ||
        !fy_may_take(start, bytes)) {
        return FY_ERR_UNSUPPORTED;
    }
    uint64_t *bits = malloc(words * sizeof(*bits));
    if (!bits) {
        return FY_ERR_NOMEM;
    }
    memset(bits, 0xff, words * sizeof(*bits));
    char *shadow = move_away(start, bytes, before, after);
    if (shadow == MAP_FAILED) {
        add_forked();
        free(bits);
        return FY_ERR_UNSUPPORTED;
    }
    *range = (struct fy_pages){
        .used = true,
        .before = before,
        .after = after,
        .watched = true,
        .start = start,
        .bytes = bytes,
        .shadow = shadow,
        .out = bits,
        .nout = pages,
        .nsegments = 1,
        .segments = {{0, pages, start}},
    };
    add_forked(); /* a page that one has already is left to it */
    *out = range;
    return FY_OK;
}

static bool
is_exactly(const struct fy_pages *range, uintptr_t start, size_t bytes)
{
    return range->used && range->start == start && range->bytes == bytes &&
           !range->disturbed && range->nout == bytes / PAGE;
}

struct fy_pages *
fy_pages_find(uintptr_t start, size_t bytes)
{
    for (unsigned r = 0; r < FY_PAGES_RANGES; r++) {
        if (is_exactly(&ranges[r], start, bytes)) {
            return &ranges[r];
        }
    }
    return NULL;
}

uint64_t
fy_pages_overlaps(uintptr_t start, size_t bytes, bool others)
{
    uint64_t rows = 0;

    for (unsigned r = 0; r < FY_PAGES_RANGES; r++) {
        const struct fy_pages *range = &ranges[r];
        if (!range->used || (others && is_exactly(range, start, bytes))) {
            continue;
        }
        for (unsigned i = 0; i < range->nsegments; i++) {
            const struct fy_pages_segment *s = &range->segments[i];
            if (s->at < start + bytes && start < s->at + s->count * PAGE) {
                rows |= UINT64_C(1) << r;
            }
        }
    }
    return rows;
}

unsigned
fy_pages_room(void)
{
    unsigned room = 0;

    for (unsigned r = 0; r < FY_PAGES_RANGES; r++) {
        room += !ranges[r].used && !ranges[r].kept;
    }
    return room;
}

unsigned
fy_pages_row(const struct fy_pages *range)
{
    return (unsigned)(range - ranges);
}

struct fy_pages *
fy_pages_at(unsigned row)
{
    return ranges[row].used ? &ranges[row] : NULL;
}

/* ---- start ------------------------------------------------------------------ */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int status; /* 1: not known yet */
} starting = {.lock = PTHREAD_MUTEX_INITIALIZER,
              .changed = PTHREAD_COND_INITIALIZER,
              .status = 1};

static int
open_descriptor(void)
{
    struct uffdio_api api = {.api = UFFD_API, .features = FEATURES};

    /* From here on this thread's descriptors are its own: none. */
    if (syscall(SYS_close_range, 0, ~0U, CLOSE_RANGE_UNSHARE) != 0) {
        return FY_ERR_UNSUPPORTED;
    }
    for (int i = 0; i < 3; i++) { /* whoever complains shall not hit ours */
        if (open("/dev/null", O_RDWR | O_CLOEXEC) != i) {
            return FY_ERR_UNSUPPORTED;
        }
    }
    fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        int device = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
        if (device < 0) {
            return FY_ERR_UNSUPPORTED;
        }
        fd = ioctl(device, USERFAULTFD_IOC_NEW, O_CLOEXEC | O_NONBLOCK);
        close(device);
    }
    if (fd < 0 || ioctl(fd, UFFDIO_API, &api) != 0 ||
        (api.features & FEATURES) != FEATURES) {
        return FY_ERR_UNSUPPORTED;
    }
    canary = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (canary == MAP_FAILED) {
        return FY_ERR_NOMEM;
    }
    /* Else every fork() would have an event, which waits for the lock. */
    if (madvise(canary, PAGE, MADV_DONTFORK) != 0) {
        return FY_ERR_UNSUPPORTED;
    }
    struct uffdio_register r = {
        .range = {(uint64_t)(uintptr_t)canary, PAGE},
        .mode = UFFDIO_REGISTER_MODE_MISSING,
    };
    struct uffdio_zeropage zero = {.range = r.range};
    if (ioctl(fd, UFFDIO_REGISTER, &r) != 0 ||
        ioctl(fd, UFFDIO_ZEROPAGE, &zero) != 0) {
        return FY_ERR_UNSUPPORTED;
    }
    return FY_OK;
}

static void *
keeper(void *unused)
{
    pthread_t server;
    fy_own_thread_begins(true);
    int status = open_descriptor();

    if (status == FY_OK && pthread_create(&server, NULL, serve, NULL) != 0) {
        status = FY_ERR_NOMEM;
    }
    if (status == FY_OK) {
        pthread_detach(server);
    }
    pthread_mutex_lock(&starting.lock);
    starting.status = status;
    pthread_cond_broadcast(&starting.changed);
    pthread_mutex_unlock(&starting.lock);
    return status == FY_OK ? keep(unused) : NULL;
}

int
fy_pages_start(const struct fy_pages_hooks *given)
{
    sigset_t before;
    pthread_t thread;

    if (!fy_may_take_at_all()) {
        return FY_ERR_UNSUPPORTED;
    }
    hooks = given;
    ranges = fy_lasting(FY_PAGES_RANGES * sizeof(*ranges));
    waiting = fy_lasting(MAX_WAITING * sizeof(*waiting));
    if (!ranges || !waiting) {
        return FY_ERR_NOMEM;
    }
    fy_signals_block(&before);
    int error = pthread_create(&thread, NULL, keeper, NULL);
    fy_signals_restore(&before);
    if (error) {
        return FY_ERR_NOMEM;
    }
    pthread_detach(thread);
    pthread_mutex_lock(&starting.lock);
    while (starting.status > 0) {
        pthread_cond_wait(&starting.changed, &starting.lock);
    }
    pthread_mutex_unlock(&starting.lock);
    return starting.status;
}
