/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host device behind a table of operations that counts and spoils them, see
 * device.h. What fails late is a copy from an inaccessible page, which the host
 * device itself notices while it runs: its error then takes the way of every
 * error, and is named FY_ERR_DEVICE on the way out. Latency is a launch that
 * sleeps, behind a copy large enough to wake a worker.
 */
#include "config.h"

#include "tests/baddevice/device.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
    WAKE_BYTES = 256 << 10 /* see KICK_BYTES of pager/device/host/stream.c */
};

/* Under -Wl,--wrap the linker names the host device so, and this one as it. */
extern const struct fy_device_ops __real_fy_device_host; /* NOLINT */
extern const struct fy_device_ops __wrap_fy_device_host; /* NOLINT */
#define real __real_fy_device_host

struct block {
    struct block *next;
    uint64_t inner, at, bytes; /* in the host device; as given; requested */
    void *mapping;             /* with guards */
    size_t mapping_bytes;
};

/* The host device's streams and events hide behind these. */
struct fy_stream {
    struct bad_device *device;
    struct fy_stream *inner, *next;
    enum fy_stream_kind kind;
    char *scratch; /* two of WAKE_BYTES */
};

struct fy_event {
    struct bad_device *device;
    struct fy_event *inner;
};

struct bad_device {
    struct fy_device base;
    struct fy_device *inner;
    struct bad_control control;
    uint64_t operations;
    bool injected; /* a failure, since the control was set */
    pthread_mutex_t lock;
    struct block *blocks;
    struct fy_stream *streams;
    unsigned turn;
    bool half_saved;
    char *nowhere; /* an inaccessible page */
    char sink;
};

static struct bad_control initial;

/* What is to happen to one operation. */
struct fate {
    bool fail, corrupt;
    uint64_t latency_ns;
};

static struct fate
begin(struct bad_device *d)
{
    const struct bad_control *c = &d->control;
    uint64_t at = __atomic_add_fetch(&d->operations, 1, __ATOMIC_RELAXED);
    uint64_t count = c->fail_count == 0 ? 1 : c->fail_count;
    struct fate fate = {.fail = (c->fail_at != 0 && at >= c->fail_at &&
                                 at - c->fail_at < count) ||
                                (c->fail_every != 0 && at % c->fail_every == 0),
                        .corrupt = c->corrupt_at != 0 && at == c->corrupt_at};
    if (c->latency_ns != 0) { /* splitmix64: differs but repeats */
        uint64_t z = c->seed + at * 0x9e3779b97f4a7c15U;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
        fate.latency_ns = (z ^ (z >> 31)) % c->latency_ns + 1;
    }
    if (fate.fail) {
        __atomic_store_n(&d->injected, true, __ATOMIC_RELAXED);
    }
    return fate;
}

static bool
fails(struct bad_device *d)
{
    return !real.inherited(d->inner) && begin(d).fail;
}

/* The error of a late failure is the device's. */
static int
named(struct bad_device *d, int status)
{
    return status == FY_ERR_FAULT &&
                   __atomic_load_n(&d->injected, __ATOMIC_RELAXED)
               ? FY_ERR_DEVICE
               : status;
}

/* ---- the device and its memory ---- */

static int
bad_open(uint64_t memory_bytes, struct fy_device **out)
{
    struct bad_device *d = calloc(1, sizeof *d);
    if (d == NULL) {
        return FY_ERR_NOMEM;
    }
    d->base.ops = &__wrap_fy_device_host;
    d->control = initial;
    d->nowhere = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int status = d->nowhere == MAP_FAILED ? FY_ERR_NOMEM
                                          : real.open(memory_bytes, &d->inner);
    if (status != 0) {
        free(d);
        return status;
    }
    (void)pthread_mutex_init(&d->lock, NULL);
    *out = &d->base;
    return 0;
}

static void
forget(struct block *block)
{
    if (block->mapping != NULL) {
        (void)munmap(block->mapping, block->mapping_bytes);
    }
    free(block);
}

static void
bad_close(struct fy_device *base)
{
    struct bad_device *d = (struct bad_device *)base;
    if (d == NULL) {
        return;
    }
    real.close(d->inner); /* and its streams */
    while (d->streams != NULL) {
        struct fy_stream *s = d->streams;
        d->streams = s->next;
        free(s->scratch);
        free(s);
    }
    while (d->blocks != NULL) {
        struct block *block = d->blocks;
        d->blocks = block->next;
        forget(block);
    }
    (void)munmap(d->nowhere, (size_t)sysconf(_SC_PAGESIZE));
    free(d);
}

static bool
bad_inherited(struct fy_device *base)
{
    return real.inherited(((struct bad_device *)base)->inner);
}

static bool
bad_is_shared(void)
{
    return initial.shared;
}

static uint64_t
bad_memory_bytes(struct fy_device *base)
{
    return real.memory_bytes(((struct bad_device *)base)->inner);
}

/* Full pages between two inaccessible ones; exactly against the one behind or
 * the one before in turn. */
static bool
guard(struct bad_device *d, struct block *block)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t data = (block->bytes + page - 1) / page * page;
    char *mapping = mmap(NULL, data + 2 * page, PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED) {
        return false;
    }
    block->mapping = mapping;
    block->mapping_bytes = data + 2 * page;
    block->at = (uint64_t)(uintptr_t)mapping + page;
    if (__atomic_fetch_add(&d->turn, 1, __ATOMIC_RELAXED) % 2 == 0) {
        block->at += data - block->bytes;
    }
    return mprotect(mapping + page, data, PROT_READ | PROT_WRITE) == 0;
}

static int
bad_alloc(struct fy_device *base, uint64_t bytes, uint64_t *out)
{
    struct bad_device *d = (struct bad_device *)base;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), room = bytes;
    if (fails(d)) {
        return FY_ERR_DEVICE;
    }
    struct block *block = calloc(1, sizeof *block);
    if (block == NULL) {
        return FY_ERR_NOMEM;
    }
    block->bytes = bytes > 0 ? bytes : 1;
    if (d->control.guard && bytes < UINT64_MAX - page) {
        room = (block->bytes + page - 1) / page * page;
    }
    int status = real.alloc(d->inner, room, &block->inner);
    if (status != 0) {
        free(block);
        return status;
    }
    block->at = block->inner;
    if (d->control.guard && !guard(d, block)) {
        real.free(d->inner, block->inner);
        forget(block);
        return FY_ERR_NOMEM;
    }
    if (d->control.poison) {
        memset((void *)(uintptr_t)block->at, 0xff, bytes);
    }
    pthread_mutex_lock(&d->lock);
    block->next = d->blocks;
    d->blocks = block;
    pthread_mutex_unlock(&d->lock);
    *out = block->at;
    return 0;
}

static void
bad_free(struct fy_device *base, uint64_t address)
{
    struct bad_device *d = (struct bad_device *)base;
    if (real.inherited(d->inner)) {
        return;
    }
    pthread_mutex_lock(&d->lock);
    struct block **link = &d->blocks, *block;
    while ((block = *link) != NULL && block->at != address) {
        link = &block->next;
    }
    if (block != NULL) {
        *link = block->next;
        real.free(d->inner, block->inner);
        forget(block);
    }
    pthread_mutex_unlock(&d->lock);
}

static const char *
bad_error_text(struct fy_device *base)
{
    struct bad_device *d = (struct bad_device *)base;
    return d == NULL ? real.error_text(NULL)
           : __atomic_load_n(&d->injected, __ATOMIC_RELAXED)
               ? "injected failure"
               : real.error_text(d->inner);
}

/* ---- streams and events ---- */

static int
bad_stream_create(struct fy_device *base, enum fy_stream_kind kind,
                  struct fy_stream **out)
{
    struct bad_device *d = (struct bad_device *)base;
    if (fails(d)) {
        return FY_ERR_DEVICE;
    }
    struct fy_stream *s = calloc(1, sizeof *s);
    int status = s == NULL ? FY_ERR_NOMEM
                           : real.stream_create(d->inner, kind, &s->inner);
    if (status != 0) {
        free(s);
        return status;
    }
    s->device = d;
    s->kind = kind;
    pthread_mutex_lock(&d->lock);
    s->next = d->streams;
    d->streams = s;
    pthread_mutex_unlock(&d->lock);
    *out = s;
    return 0;
}

static void
bad_stream_destroy(struct fy_stream *s)
{
    if (s == NULL || real.inherited(s->device->inner)) {
        return;
    }
    real.stream_destroy(s->inner);
    pthread_mutex_lock(&s->device->lock);
    struct fy_stream **link = &s->device->streams;
    while (*link != s) {
        link = &(*link)->next;
    }
    *link = s->next;
    pthread_mutex_unlock(&s->device->lock);
    free(s->scratch);
    free(s);
}

static int
bad_event_create(struct fy_device *base, struct fy_event **out)
{
    struct bad_device *d = (struct bad_device *)base;
    if (fails(d)) {
        return FY_ERR_DEVICE;
    }
    struct fy_event *event = calloc(1, sizeof *event);
    int status = event == NULL ? FY_ERR_NOMEM
                               : real.event_create(d->inner, &event->inner);
    if (status != 0) {
        free(event);
        return status;
    }
    event->device = d;
    *out = event;
    return 0;
}

static void
bad_event_destroy(struct fy_event *event)
{
    if (event != NULL) {
        real.event_destroy(event->inner);
        free(event);
    }
}

static int
bad_event_record(struct fy_stream *s, struct fy_event *event)
{
    return fails(s->device) ? FY_ERR_DEVICE
                            : real.event_record(s->inner, event->inner);
}

static int
bad_event_wait(struct fy_stream *s, struct fy_event *event)
{
    return fails(s->device) ? FY_ERR_DEVICE
                            : real.event_wait(s->inner, event->inner);
}

static int
bad_event_sync(struct fy_event *event)
{
    bool fail = fails(event->device);
    int status = named(event->device, real.event_sync(event->inner));
    return fail && status == 0 ? FY_ERR_DEVICE : status;
}

static int
bad_stream_sync(struct fy_stream *s)
{
    bool fail = fails(s->device);
    int status = named(s->device, real.stream_sync(s->inner));
    return fail && status == 0 ? FY_ERR_DEVICE : status;
}

/* ---- copies and launches ---- */

static struct fy_copy
row(char *from, char *to, int64_t bytes)
{
    return (struct fy_copy){.direction = FY_TO_DEVICE,
                            .view.host = from,
                            .device = (uint64_t)(uintptr_t)to,
                            .view.element_bytes = 1,
                            .view.naxes = 1,
                            .view.extent = {bytes},
                            .view.stride = {1},
                            .device_stride = {1}};
}

static void
doze(int64_t ns)
{
    const struct timespec time = {ns / 1000000000, ns % 1000000000};
    (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
}

static int
delay(struct fy_stream *s, uint64_t ns)
{
    static const uint8_t types[] = {FY_T_I64};
    int64_t value = (int64_t)ns;
    void *values[] = {&value};
    const struct fy_launch launch = {.function = (void *)doze,
                                     .return_type = FY_T_VOID,
                                     .nargs = 1,
                                     .types = types,
                                     .values = values};
    if (ns == 0) {
        return 0;
    }
    if (s->kind != FY_STREAM_COMPUTE) {
        if (s->scratch == NULL) {
            s->scratch = calloc(2, WAKE_BYTES);
        }
        if (s->scratch == NULL) {
            return FY_ERR_NOMEM;
        }
        struct fy_copy wake =
            row(s->scratch, s->scratch + WAKE_BYTES, WAKE_BYTES);
        int status = real.copy(s->inner, &wake);
        if (status != 0) {
            return status;
        }
    }
    return real.launch(s->inner, &launch);
}

/* The stream fails when it comes to this. */
static int
fail_here(struct fy_stream *s)
{
    struct fy_copy copy = row(s->device->nowhere, &s->device->sink, 1);
    return real.copy(s->inner, &copy);
}

/* Flips a bit that matters in the first declared element it wrote. */
static void
spoil(const struct fy_copy *c)
{
    bool in = c->direction == FY_TO_DEVICE;
    char *to = in ? (char *)(uintptr_t)c->device : c->view.host;
    const int64_t *stride = in ? c->device_stride : c->view.stride;
    int64_t columns = c->view.naxes > 1 ? c->view.extent[1] : 1;
    for (int64_t j = 0; j < columns; j++) {
        for (int64_t i = 0; i < c->view.extent[0]; i++) {
            int64_t d = i + c->view.sign * j;
            if (c->view.sign != 0 && (d < c->view.lo || d > c->view.hi)) {
                continue;
            }
            int64_t at = i * stride[0] + (columns > 1 ? j * stride[1] : 0);
            to[(at + 1) * (int64_t)c->view.element_bytes - 1] ^= 0x40;
            return;
        }
    }
}

static int
bad_copy(struct fy_stream *s, const struct fy_copy *copy)
{
    struct bad_device *d = s->device;
    if (real.inherited(d->inner)) {
        return real.copy(s->inner, copy);
    }
    struct fate fate = begin(d);
    if (fate.fail && !d->control.fail_late) {
        return FY_ERR_DEVICE;
    }
    struct fy_copy some = *copy;
    if (fate.fail) {
        some.view.extent[some.view.naxes - 1] /= 2;
        some.saved = &d->half_saved;
    }
    int status = delay(s, fate.latency_ns);
    status = status != 0 ? status : real.copy(s->inner, &some);
    if (status == 0 && fate.fail) {
        return fail_here(s);
    }
    if (status == 0 && fate.corrupt) {
        status = real.stream_sync(s->inner);
        if (status == 0) {
            spoil(copy);
        }
    }
    return status;
}

static int
bad_launch(struct fy_stream *s, const struct fy_launch *launch)
{
    struct bad_device *d = s->device;
    if (real.inherited(d->inner)) {
        return real.launch(s->inner, launch);
    }
    struct fate fate = begin(d);
    if (fate.fail && !d->control.fail_late) {
        return FY_ERR_DEVICE;
    }
    int status = delay(s, fate.latency_ns);
    status = status != 0 ? status : real.launch(s->inner, launch);
    return status == 0 && fate.fail ? fail_here(s) : status;
}

const struct fy_device_ops __wrap_fy_device_host = {
    .name = "host",
    .open = bad_open,
    .close = bad_close,
    .inherited = bad_inherited,
    .is_shared = bad_is_shared,
    .memory_bytes = bad_memory_bytes,
    .alloc = bad_alloc,
    .free = bad_free,
    .stream_create = bad_stream_create,
    .stream_destroy = bad_stream_destroy,
    .event_create = bad_event_create,
    .event_destroy = bad_event_destroy,
    .event_record = bad_event_record,
    .event_wait = bad_event_wait,
    .event_sync = bad_event_sync,
    .stream_sync = bad_stream_sync,
    .copy = bad_copy,
    .launch = bad_launch,
    .error_text = bad_error_text,
};

/* ---- control ---- */

void
bad_control_set(struct fy_device *base, const struct bad_control *control)
{
    struct bad_device *d = (struct bad_device *)base;
    if (d == NULL) {
        initial = *control;
        return;
    }
    d->control = *control;
    d->operations = 0;
    d->injected = false;
}

uint64_t
bad_operations(struct fy_device *base)
{
    return __atomic_load_n(&((struct bad_device *)base)->operations,
                           __ATOMIC_RELAXED);
}

uint64_t
bad_used_bytes(struct fy_device *base)
{
    struct bad_device *d = (struct bad_device *)base;
    uint64_t used = 0;
    pthread_mutex_lock(&d->lock);
    for (const struct block *block = d->blocks; block; block = block->next) {
        used += block->bytes;
    }
    pthread_mutex_unlock(&d->lock);
    return used;
}
