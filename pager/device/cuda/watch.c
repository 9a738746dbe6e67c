/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See watch.h. The mapping of a range is registered with a userfaultfd for
 * write protection, of which none is ever made, so that no access faults; what
 * counts are the events. Whole mappings, because one that is registered in part
 * is two for mremap(), which would refuse it.
 *
 * Two threads have the descriptor, in a table of descriptors of their own (no
 * close() of the program reaches it). The keeper reads events: a thread of the
 * program waits in its system call until then, perhaps with malloc's locks. So
 * nothing here allocates, and the lock of the table is taken by these two
 * threads only. The server answers questions; it reads events first.
 *
 * unmap, map over, move: the event follows the change. One that is not told yet
 * makes UFFDIO_ZEROPAGE fail with EAGAIN, which is how the server finds it. On a
 * page that is there that call does nothing but answer; in a mapping that is
 * not ours any more (shmat(SHM_REMAP) has no event) it fails with ENOENT.
 * madvise: the event comes before the pages go, and nobody says when they have
 * gone. What was discarded once is therefore never watched again, at that
 * address, until it has been unmapped.
 *
 * Who waits for an event cannot be stopped, so whoever stops the keeper first,
 * and then waits for the others to stop, waits for ever: LeakSanitizer does, at
 * the end of a process. The descriptor is therefore closed before.
 *
 * Not told, and harmless to page-locked memory: migration, compaction, merging
 * and collapsing (they refuse pinned pages), swapping, mprotect(). fork(): since
 * Linux 5.19, which is asked for, a pinned page stays the parent's.
 * Long because what an event and a question may find belongs together.
 */
#include "config.h"

#include "pager/device/cuda/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/procmap.h"
#include "pager/device/own_thread.h"

#include <linux/userfaultfd.h>

#include "common/signals.h"

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE (1U << 1)
#endif
#define SINCE_5_19 (UINT64_C(1) << 12) /* WP_HUGETLBFS_SHMEM */
#define FEATURES                                            \
    (UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_EVENT_REMOVE | \
     UFFD_FEATURE_EVENT_UNMAP)

enum {
    PAGE = 4096,
    GUARD_INSTALL = 102, /* MADV_GUARD_INSTALL, Linux 6.13 */
    GUARD_REMOVE = 103,
    MAX_DISCARDED = 64,
    MAX_EVENTS = 20000, /* a program that makes so many pays for them */
    STACK_BYTES = 256 << 10,
    NAME_BYTES = 64,
    TRIAL_PAGES = 8,
    END_SECONDS = 2,     /* for the keeper to close the descriptor */
    SETTLE_SECONDS = 10, /* for changes that have begun to be over */
};

struct mapping {
    uint64_t start, end;
    bool readable, writable, executable, shared;
    uint64_t inode;
    char name[NAME_BYTES];
};

struct watch {
    bool used, lost;
    uintptr_t start, end;
    uintptr_t low, high; /* what was registered for it */
    sem_t *told;
};

/* Addresses whose pages somebody may still be discarding. */
struct discarded {
    uintptr_t start, end;
};

/* Of the keeper and the server. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct watch watches[FY_WATCHES];
static struct discarded discarded[MAX_DISCARDED];
static unsigned ndiscarded;
static unsigned nevents;
static bool closed; /* too much happens: nothing is watched any more */
static int fd = -1, maps = -1;
static int ending = -1; /* wakes the keeper, to close fd */
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;

/* One question at a time. */
static struct {
    pthread_mutex_t asking; /* of those who ask */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool wanted;
    enum question {
        ADD,
        IS_INTACT,
        SETTLE,
        REMOVE,
        FORGET,
        END
    } what;
    uintptr_t start, here;
    size_t bytes;
    sem_t *told;
    unsigned watch;
    int status; /* and the answer of IS_INTACT */
} job = {.asking = PTHREAD_MUTEX_INITIALIZER,
         .lock = PTHREAD_MUTEX_INITIALIZER,
         .changed = PTHREAD_COND_INITIALIZER};

static void
pause_briefly(void)
{
    const struct timespec moment = {.tv_nsec = 20000};
    nanosleep(&moment, NULL);
}

/* ---- what is mapped ------------------------------------------------------ */

static uint64_t
hex(const char **at)
{
    uint64_t value = 0;
    for (;; ++*at) {
        char c = **at;
        if (c >= '0' && c <= '9') {
            value = value << 4 | (uint64_t)(c - '0');
        } else if (c >= 'a' && c <= 'f') {
            value = value << 4 | (uint64_t)(c - 'a' + 10);
        } else {
            return value;
        }
    }
}

/* "start-end rwxp offset dev inode   name" */
static void
parse_mapping(const char *line, struct mapping *out)
{
    *out = (struct mapping){.start = hex(&line)};
    line += *line == '-';
    out->end = hex(&line);
    if (strlen(line) < 5) {
        return;
    }
    out->readable = line[1] == 'r';
    out->writable = line[2] == 'w';
    out->executable = line[3] == 'x';
    out->shared = line[4] != 'p';
    for (int field = 0; field < 4; field++) {
        line += strcspn(line, " ");
        line += strspn(line, " ");
        for (const char *c = line; field == 3 && *c >= '0' && *c <= '9'; c++) {
            out->inode = out->inode * 10 + (uint64_t)(*c - '0');
        }
    }
    line += strcspn(line, " ");
    line += strspn(line, " ");
    (void)snprintf(out->name, sizeof out->name, "%s", line);
}

/* Kernels without PROCMAP_QUERY: reads the text. Lock held. */
static int
read_mapping(uint64_t address, struct mapping *out)
{
    static char text[8192];
    size_t used = 0;
    int found = -1, file = open("/proc/thread-self/maps", O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return -1;
    }
    while (found < 0) {
        ssize_t got = read(file, text + used, sizeof text - 1 - used);
        if (got <= 0) {
            /* Part of a row: its name is longer than `text'. */
            found = got == 0 && used == 0 ? 0 : -1;
            break;
        }
        used += (size_t)got;
        text[used] = '\0';
        char *line = text, *end;
        while (found < 0 && (end = strchr(line, '\n'))) {
            *end = '\0';
            parse_mapping(line, out);
            if (address < out->end) {
                found = 1;
            }
            line = end + 1;
        }
        used -= (size_t)(line - text);
        memmove(text, line, used);
    }
    close(file);
    return found;
}

/* The mapping there, else the next one. 1: one, 0: none, -1: unknown. */
static int
mapping_from(uint64_t address, struct mapping *out)
{
    *out = (struct mapping){.start = 0};
    struct fy_procmap q = {
        .size = sizeof q,
        .query_flags = FY_PROCMAP_OR_NEXT,
        .query_addr = address,
        .vma_name_addr = (uint64_t)(uintptr_t)out->name,
        .vma_name_size = NAME_BYTES,
    };
    if (syscall(SYS_ioctl, maps, FY_PROCMAP_QUERY, &q) != 0) {
        return errno == ENOENT   ? 0
               : errno == ENOTTY ? read_mapping(address, out)
                                 : -1;
    }
    out->start = q.vma_start;
    out->end = q.vma_end;
    out->readable = (q.vma_flags & 1) != 0;
    out->writable = (q.vma_flags & 2) != 0;
    out->executable = (q.vma_flags & 4) != 0;
    out->shared = (q.vma_flags & 8) != 0;
    out->inode = q.inode;
    if (q.vma_page_size != PAGE) {
        out->shared = true; /* huge pages come from a file, too */
    }
    return 1;
}

/* 1: something, 0: nothing, -1: unknown. */
static int
mapping_at(uint64_t address, struct mapping *out)
{
    int found = mapping_from(address, out);
    return found > 0 && out->start > address ? 0 : found;
}

/* `here': in the asking thread's stack. */
static bool
may_watch(const struct mapping *m, uintptr_t start, uintptr_t end,
          uintptr_t here)
{
    struct mapping below;
    char byte;
    struct iovec to = {&byte, 1}, from = {(void *)(uintptr_t)m->start, 1};
    if (m->start > start || m->end < end || !m->readable || !m->writable ||
        m->executable || m->shared || m->inode != 0 ||
        (m->name[0] != '\0' && strcmp(m->name, "[heap]") != 0 &&
         strncmp(m->name, "[anon:", 6) != 0) ||
        (here >= m->start && here < m->end)) {
        return false;
    }
    /* A mapping with a guard below, or at its start, is taken for a stack. */
    int found = mapping_at(m->start - 1, &below);
    return (found == 0 || (found > 0 && (below.readable || below.writable))) &&
           process_vm_readv(gettid(), &to, 1, &from, 1, 0) == 1;
}

/* ---- events: lock held ---------------------------------------------------- */

static void
lose(struct watch *w)
{
    if (w->used && !w->lost) {
        __atomic_store_n(&w->lost, true, __ATOMIC_RELEASE);
        (void)sem_post(w->told);
    }
}

static void
lose_range(uintptr_t start, uintptr_t end)
{
    for (unsigned i = 0; i < FY_WATCHES; i++) {
        if (watches[i].start < end && start < watches[i].end) {
            lose(&watches[i]);
        }
    }
}

static bool
is_needed(uintptr_t start, uintptr_t end)
{
    for (unsigned i = 0; i < FY_WATCHES; i++) {
        if (watches[i].used && !watches[i].lost && watches[i].low < end &&
            start < watches[i].high) {
            return true;
        }
    }
    return false;
}

/*
 * What lies there, but for what others need. Whole mappings, which may have
 * grown: of one that were registered in part mremap() would move nothing.
 */
static void
unregister(uintptr_t start, uintptr_t end)
{
    struct mapping m;
    for (uint64_t at = start;
         at < end && mapping_from(at, &m) == 1 && m.start < end && m.end > at;
         at = m.end) {
        struct uffdio_range range = {m.start, m.end - m.start};
        if (!is_needed((uintptr_t)m.start, (uintptr_t)m.end)) {
            (void)ioctl(fd, UFFDIO_UNREGISTER, &range);
        }
    }
}

static void
close_all(void)
{
    closed = true;
    for (unsigned i = 0; i < FY_WATCHES; i++) {
        lose(&watches[i]);
    }
    for (unsigned i = 0; i < FY_WATCHES; i++) {
        if (watches[i].used) {
            unregister(watches[i].low, watches[i].high);
        }
    }
}

static void
note_discarded(uintptr_t start, uintptr_t end)
{
    for (unsigned i = 0; i < ndiscarded;) {
        if (discarded[i].start <= end && start <= discarded[i].end) {
            start = discarded[i].start < start ? discarded[i].start : start;
            end = discarded[i].end > end ? discarded[i].end : end;
            discarded[i] = discarded[--ndiscarded];
        } else {
            i++;
        }
    }
    if (ndiscarded == MAX_DISCARDED) {
        close_all();
        return;
    }
    discarded[ndiscarded++] = (struct discarded){start, end};
}

static void
forget_discarded(uintptr_t start, uintptr_t end)
{
    for (unsigned i = 0; i < ndiscarded;) {
        if (start <= discarded[i].start && discarded[i].end <= end) {
            discarded[i] = discarded[--ndiscarded];
        } else {
            i++;
        }
    }
}

static bool
was_discarded(uintptr_t start, uintptr_t end)
{
    for (unsigned i = 0; i < ndiscarded; i++) {
        if (discarded[i].start < end && start < discarded[i].end) {
            return true;
        }
    }
    return false;
}

static void
take_event(const struct uffd_msg *m)
{
    uintptr_t start = m->arg.remove.start, end = m->arg.remove.end;
    switch (m->event) {
    case UFFD_EVENT_REMAP:
        start = m->arg.remap.from;
        end = start + m->arg.remap.len;
        break;
    case UFFD_EVENT_REMOVE:
        note_discarded(start, end);
        break;
    case UFFD_EVENT_UNMAP:
        forget_discarded(start, end);
        break;
    default:
        return;
    }
    lose_range(start, end);
    if (m->event == UFFD_EVENT_REMAP) {
        /* The moved pages took their registration along. */
        unregister(m->arg.remap.to, m->arg.remap.to + m->arg.remap.len);
    }
    if (++nevents == MAX_EVENTS) {
        close_all();
    }
}

/* False: no events can be read. */
static bool
drain(void)
{
    struct uffd_msg message;
    ssize_t got;
    while ((got = read(fd, &message, sizeof message)) ==
           (ssize_t)sizeof message) {
        take_event(&message);
    }
    return got < 0 && (errno == EAGAIN || errno == EINTR);
}

static void *
keep(void *unused)
{
    struct pollfd watch[] = {{.fd = fd, .events = POLLIN},
                             {.fd = ending, .events = POLLIN}};
    (void)unused;
    while (poll(watch, 2, -1) >= 0 || errno == EINTR || errno == ENOMEM) {
        pthread_mutex_lock(&lock);
        bool reads = drain();
        pthread_mutex_unlock(&lock);
        if (!reads || watch[1].revents != 0) {
            break;
        }
    }
    /* The end, or a filter of system calls, for all threads: who waits for an
     * event goes on when the descriptor is gone. Questions find nothing
     * registered. */
    pthread_mutex_lock(&lock);
    close_all();
    (void)close(fd);
    fd = -1;
    pthread_cond_broadcast(&ended);
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* ---- questions: the server, lock held ------------------------------------- */

/* 0 or EEXIST: registered, and nobody is changing the map; EAGAIN; ENOENT ... */
static int
probe(uintptr_t address)
{
    struct uffdio_zeropage zero = {.range = {address / PAGE * PAGE, PAGE},
                                   .mode = UFFDIO_ZEROPAGE_MODE_DONTWAKE};
    return ioctl(fd, UFFDIO_ZEROPAGE, &zero) == 0 ? 0 : errno;
}

/* All that was changed before is known when this returns 0 or EEXIST. */
static int
settled_probe(uintptr_t address)
{
    uint64_t until = fy_clock_ns() + SETTLE_SECONDS * UINT64_C(1000000000);
    int error;
    (void)drain();
    while ((error = probe(address)) == EAGAIN && fy_clock_ns() < until) {
        pthread_mutex_unlock(&lock);
        pause_briefly();
        pthread_mutex_lock(&lock);
        (void)drain();
    }
    (void)drain(); /* what was told before the probe was made */
    return error;
}

static bool
is_intact(struct watch *w)
{
    uintptr_t at = w->start;
    while (!w->lost && at < w->end) {
        struct mapping m;
        /* The first page of each mapping has been there since the first. */
        int error = settled_probe(at);
        if ((error != EEXIST && error != 0) || mapping_at(at, &m) != 1 ||
            m.shared || m.inode != 0) {
            lose(w);
            break;
        }
        at = m.end;
    }
    return !w->lost;
}

static void
remove_watch(struct watch *w)
{
    w->used = false;
    unregister(w->low, w->high);
}

static int
add(void)
{
    uintptr_t end = job.start + job.bytes;
    struct mapping m, again;
    struct watch *w = NULL;
    for (unsigned i = 0; i < FY_WATCHES && !w; i++) {
        w = watches[i].used ? NULL : &watches[i];
    }
    if (!w) {
        return FY_ERR_NOFIT;
    }
    (void)drain();
    if (closed || mapping_at(job.start, &m) != 1 ||
        !may_watch(&m, job.start, end, job.here) ||
        was_discarded(job.start, end)) {
        return FY_ERR_UNSUPPORTED;
    }
    /* From here on events find it. */
    *w = (struct watch){.used = true,
                        .start = job.start,
                        .end = end,
                        .low = (uintptr_t)m.start,
                        .high = (uintptr_t)m.end,
                        .told = job.told};
    struct uffdio_register r = {.range = {m.start, m.end - m.start},
                                .mode = UFFDIO_REGISTER_MODE_WP};
    if (ioctl(fd, UFFDIO_REGISTER, &r) != 0) {
        w->used = false;
        return FY_ERR_UNSUPPORTED;
    }
    int error = settled_probe(job.start);
    if ((error != 0 && error != EEXIST) || w->lost || closed ||
        was_discarded(job.start, end) || mapping_at(job.start, &again) != 1 ||
        !may_watch(&again, job.start, end, job.here)) {
        remove_watch(w);
        return FY_ERR_UNSUPPORTED;
    }
    job.watch = (unsigned)(w - watches);
    return FY_OK;
}

/* The keeper closes what it waits for. A filter may refuse that to wake it. */
static void
end(void)
{
    struct timespec until;
    int error = 0;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += END_SECONDS;
    closed = true;
    (void)eventfd_write(ending, 1);
    while (fd >= 0 && error == 0) {
        error = pthread_cond_timedwait(&ended, &lock, &until);
    }
}

static int
answer(void)
{
    int status = FY_OK;
    pthread_mutex_lock(&lock);
    switch (job.what) {
    case ADD:
        status = add();
        break;
    case IS_INTACT:
        status = is_intact(&watches[job.watch]);
        break;
    case SETTLE:
        for (unsigned i = 0; i < FY_WATCHES; i++) {
            if (watches[i].used) {
                (void)is_intact(&watches[i]);
            }
        }
        break;
    case REMOVE:
        (void)drain();
        remove_watch(&watches[job.watch]);
        break;
    case FORGET:
        (void)drain();
        forget_discarded(job.start, job.start + job.bytes);
        break;
    case END:
        end();
        break;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

static void *
serve(void *unused)
{
    (void)unused;
    fy_own_thread_begins(false);
    pthread_mutex_lock(&job.lock);
    for (;;) {
        while (!job.wanted) {
            pthread_cond_wait(&job.changed, &job.lock);
        }
        job.status = answer();
        job.wanted = false;
        pthread_cond_broadcast(&job.changed);
    }
    return NULL;
}

/* Where the program's stack of this thread is: the call runs on one of ferry's. */
static __thread uintptr_t callers_stack;

void
fy_watch_callers_stack(const void *address)
{
    callers_stack = (uintptr_t)address;
}

/* Nobody's handler may come between, and ask itself. */
static int
ask(enum question what, uintptr_t start, size_t bytes, sem_t *told,
    unsigned *watch)
{
    sigset_t before;
    fy_signals_block(&before);
    pthread_mutex_lock(&job.asking);
    pthread_mutex_lock(&job.lock);
    job.what = what;
    job.start = start;
    job.bytes = bytes;
    job.here =
        callers_stack ? callers_stack : (uintptr_t)__builtin_frame_address(0);
    job.told = told;
    job.watch = watch ? *watch : 0;
    job.wanted = true;
    pthread_cond_broadcast(&job.changed);
    while (job.wanted) {
        pthread_cond_wait(&job.changed, &job.lock);
    }
    int status = job.status;
    if (watch) {
        *watch = job.watch;
    }
    pthread_mutex_unlock(&job.lock);
    pthread_mutex_unlock(&job.asking);
    fy_signals_restore(&before);
    return status;
}

int
fy_watch_add(uintptr_t start, size_t bytes, sem_t *lost, unsigned *out)
{
    unsigned watch = 0;
    int status = ask(ADD, start, bytes, lost, &watch);
    if (status == FY_OK) {
        *out = watch;
    }
    return status;
}

bool
fy_watch_is_intact(unsigned watch)
{
    return ask(IS_INTACT, 0, 0, NULL, &watch) != 0;
}

void
fy_watch_settle(void)
{
    (void)ask(SETTLE, 0, 0, NULL, NULL);
}

bool
fy_watch_is_lost(unsigned watch)
{
    return __atomic_load_n(&watches[watch].lost, __ATOMIC_ACQUIRE);
}

void
fy_watch_remove(unsigned watch)
{
    (void)ask(REMOVE, 0, 0, NULL, &watch);
}

/* ---- start ------------------------------------------------------------------ */

static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;
static const char *start_why; /* NULL: it works; "" before the first start */
static bool started, running, is_silent;
static sem_t opened;

static const char *
open_descriptor(void)
{
    struct uffdio_api api = {.api = UFFD_API, .features = FEATURES};
    if (sysconf(_SC_PAGESIZE) != PAGE) {
        return "pages are not of 4 KiB";
    }
    /* From here on this thread's descriptors are its own: none. */
    if (syscall(SYS_close_range, 0, ~0U, CLOSE_RANGE_UNSHARE) != 0) {
        return "no table of descriptors of its own";
    }
    for (int i = 0; i < 3; i++) { /* whoever complains shall not hit ours */
        if (open("/dev/null", O_RDWR | O_CLOEXEC) != i) {
            return "no /dev/null";
        }
    }
    maps = open("/proc/thread-self/maps", O_RDONLY | O_CLOEXEC);
    fd = (int)syscall(SYS_userfaultfd,
                      O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
    ending = eventfd(0, EFD_CLOEXEC);
    if (maps < 0 || fd < 0 || ending < 0) {
        return "no userfaultfd";
    }
    if (ioctl(fd, UFFDIO_API, &api) != 0 ||
        (api.features & FEATURES) != FEATURES ||
        (api.features & SINCE_5_19) == 0) {
        return "the kernel is older than 5.19";
    }
    return NULL;
}

static void *
keeper(void *unused)
{
    pthread_t server;
    fy_own_thread_begins(true);
    start_why = open_descriptor();
    if (!start_why && pthread_create(&server, NULL, serve, NULL) != 0) {
        start_why = "no thread";
    }
    bool works = !start_why;
    if (works) {
        pthread_detach(server);
    }
    (void)sem_post(&opened);
    return works ? keep(unused) : NULL;
}

/* Does to watched memory what is to be noticed; whether it was. */
static bool
is_noticed(int what)
{
    size_t bytes = TRIAL_PAGES * (size_t)PAGE;
    sem_t told;
    unsigned watch;
    int advice = what == 0   ? MADV_DONTNEED
                 : what == 1 ? MADV_FREE
                             : GUARD_INSTALL;
    char *all = mmap(NULL, bytes + 2 * (size_t)PAGE, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *at = all + PAGE, *to = at + bytes, *page = at + 2 * (size_t)PAGE;
    bool hole = false; /* where other threads may have mapped theirs since */
    if (all == MAP_FAILED) {
        return false;
    }
    /* So no neighbour of the program's becomes one with it. */
    (void)madvise(at, bytes, MADV_DONTDUMP);
    memset(at, 1, bytes);
    (void)sem_init(&told, 0, 0);
    bool noticed = false;
    if (fy_watch_add((uintptr_t)at, bytes, &told, &watch) == FY_OK) {
        bool before = fy_watch_is_intact(watch);
        if (what < 3) {
            noticed = madvise(page, PAGE, advice) != 0;
        } else if (what == 3) {
            hole = munmap(page, PAGE) == 0;
        } else if (what == 4) {
            (void)mmap(page, PAGE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        } else {
            hole = mremap(page, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
                          to) == to;
        }
        noticed = before && (noticed || !fy_watch_is_intact(watch));
        fy_watch_remove(watch);
    }
    char *rest = hole ? page + PAGE : page;
    (void)munmap(all, (size_t)(page - all));
    (void)munmap(rest, (size_t)(to + PAGE - rest));
    (void)ask(FORGET, (uintptr_t)at, bytes, NULL, NULL);
    (void)sem_destroy(&told);
    return noticed;
}

static const char *
start(void)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t before;
    if (sem_init(&opened, 0, 0) != 0 || pthread_attr_init(&attributes) != 0) {
        return "no memory";
    }
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    fy_signals_block(&before);
    int error = pthread_create(&thread, &attributes, keeper, NULL);
    pthread_attr_destroy(&attributes);
    if (error == 0) {
        while (sem_wait(&opened) != 0) {
        }
    }
    fy_signals_restore(&before);
    if (error != 0) {
        return "no thread";
    }
    running = !start_why;
    static const int told[] = {0, 1, 3, 4, 5};
    for (unsigned i = 0; i < sizeof told / sizeof told[0]; i++) {
        if (!start_why && !is_noticed(told[i])) {
            return "the kernel does not tell of every change";
        }
    }
    if (!start_why) {
        is_silent = !is_noticed(2);
    }
    return start_why;
}

int
fy_watch_start(bool silent_too, const char **why)
{
    pthread_mutex_lock(&start_lock);
    if (!started) {
        started = true;
        start_why = start();
    }
    *why = start_why ? start_why
           : is_silent && !silent_too
               ? "the kernel does not tell of MADV_GUARD_INSTALL"
               : NULL;
    pthread_mutex_unlock(&start_lock);
    return !*why ? FY_OK : FY_ERR_UNSUPPORTED;
}

void
fy_watch_end(void)
{
    pthread_mutex_lock(&start_lock);
    if (!started) {
        started = true;
        start_why = "the process exits";
    }
    if (running) {
        (void)ask(END, 0, 0, NULL, NULL);
    }
    pthread_mutex_unlock(&start_lock);
}
