/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams and events of the host device; see internal.h for the model.
 * Worker threads block every signal, so that no handler of the program ever
 * runs on them, and do nothing but copy.
 */
#include "config.h"

#include "pager/device/host/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "pager/device/copy.h"
#include "pager/device/own_thread.h"

enum {
    /* Waiting bytes that are worth the wake-up of a worker (about 5 us). */
    KICK_BYTES = 256 * 1024,
    IDLE_NS =
        100 * 1000 * 1000, /* then a worker ends, so that it keeps no process */
};

/* Wakes whoever may now go on. Lock held. */
static void
announce(struct host_device *device)
{
    if (device->waiting > 0) {
        pthread_cond_broadcast(&device->change);
    }
    for (struct fy_stream *s = device->streams; s; s = s->next) {
        if (s->parked && s->kicked) {
            pthread_cond_signal(&s->wake);
        }
    }
}

static int
fail(struct fy_device *base, int status, const char *text)
{
    return host_error((struct host_device *)base, status, text);
}

static int
prepare(struct fy_stream *s, const struct fy_launch *launch, void **out)
{
    return fy_call_new(&s->cifs, launch, (struct fy_call **)out);
}

static bool
is_ready(const struct fy_event *event, uint64_t turn)
{
    return event->turns.completed >= turn;
}

static int
execute(struct fy_stream *s, struct fy_work *work)
{
    struct host_device *device = s->device;
    struct fy_turns *turns = (struct fy_turns *)work->u.mark.event;
    int status = 0;
    if (work->kind == FY_WORK_WAIT) {
        return turns->error;
    }
    if (work->kind == FY_WORK_RECORD) {
        turns->completed = work->u.mark.turn;
        turns->error = s->queue.error;
        return 0;
    }
    pthread_mutex_unlock(&device->lock);
    if (work->kind == FY_WORK_LAUNCH) {
        fy_call_run(work->u.launch);
    } else {
        status = work->u.copy.direction == FY_TO_LOG
                     ? fy_copy_save(&work->u.copy, NULL)
                     : fy_copy_run_host(&work->u.copy);
    }
    if (status != 0) {
        (void)host_error(device, status, "an operand cannot be accessed");
    }
    pthread_mutex_lock(&device->lock);
    return status;
}

/* fy_queue_run(); after an operation others may go on. Lock held. */
static bool
run_head(struct fy_stream *s)
{
    if (!fy_queue_run(s)) {
        return false;
    }
    announce(s->device);
    return true;
}

/* Waits for work. False: none has come for IDLE_NS. Lock held, but meanwhile. */
static bool
wait_for_work(struct fy_stream *s)
{
    struct timespec until;
    int error = 0;

    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += IDLE_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    s->parked = true;
    while (!s->stop && !s->kicked && error == 0) {
        error = pthread_cond_clockwait(&s->wake, &s->device->lock,
                                       CLOCK_MONOTONIC, &until);
    }
    s->parked = false;
    return s->kicked || error != ETIMEDOUT;
}

static void *
work(void *argument)
{
    struct fy_stream *s = argument;
    struct host_device *device = s->device;
    fy_own_thread_begins();
    pthread_mutex_lock(&device->lock);
    bool goes_on = true;
    while (!s->stop && goes_on) {
        if (s->kicked && run_head(s)) {
            continue;
        }
        if (!s->queue.head) {
            s->kicked = false;
        }
        if (!s->kicked) { /* the owner runs the operations that are left */
            goes_on = wait_for_work(s);
        } else {
            s->parked = true; /* until another stream has gone on */
            pthread_cond_wait(&s->wake, &device->lock);
            s->parked = false;
        }
    }
    s->stop = s->kicked = false;
    s->ended = true;
    announce(device);
    pthread_mutex_unlock(&device->lock);
    fy_own_thread_ends(&s->starters);
    return NULL;
}

/* Lock held, which a worker that has ended does not take again. */
static void
join_ended(struct fy_stream *s)
{
    if (s->has_worker && s->ended) {
        pthread_join(s->worker, NULL);
        s->has_worker = s->ended = false;
    }
}

/* A copy stream gets a worker, or wakes it, when enough waits. The stream of old content gets
 * none, since each thread takes 72 MiB of addresses. */
static void
added(struct fy_stream *s)
{
    s->owner = pthread_self();
    if (s->kind == FY_STREAM_COMPUTE || s->kind == FY_STREAM_SAVE ||
        s->kicked || s->queue.bytes < KICK_BYTES) {
        return;
    }
    join_ended(s);
    /* A child on its parent's memory (vfork) starts none: it would end with the child. */
    if (!s->has_worker && !s->no_worker &&
        *s->device->alive == (unsigned)getpid()) {
        (void)pthread_sigmask(SIG_SETMASK, NULL, &s->starters);
        s->has_worker = fy_own_thread_start(&s->worker, 0, work, s) == 0;
        s->no_worker = !s->has_worker;
    }
    if (s->has_worker) {
        s->kicked = true;
        if (s->parked) {
            pthread_cond_signal(&s->wake);
        }
    }
}

static const struct fy_queue_class queue_class = {
    .fail = fail,
    .prepare = prepare,
    .discard = free,
    .added = added,
    .is_ready = is_ready,
    .execute = execute,
};

/* Goal of a waiting thread: a turn of an event, or an empty stream. */
struct goal {
    const struct fy_event *event;
    uint64_t turn;
    struct fy_stream *stream;
};

static bool
reached(const struct goal *goal)
{
    if (goal->event) {
        return goal->event->turns.completed >= goal->turn;
    }
    return fy_queue_is_idle(goal->stream);
}

/*
 * Runs operations that this thread has enqueued and no worker runs, until the goal is
 * reached; sleeps while only others can go on. Lock held.
 */
static void
advance(struct host_device *device, const struct goal *goal)
{
    pthread_t self = pthread_self();
    while (!reached(goal)) {
        bool progress = false;
        for (struct fy_stream *s = device->streams; s; s = s->next) {
            if (s->queue.head && pthread_equal(s->owner, self) && !s->kicked &&
                run_head(s)) {
                progress = true;
                if (reached(goal)) {
                    return;
                }
            }
        }
        if (progress) {
            continue;
        }
        device->waiting++;
        pthread_cond_wait(&device->change, &device->lock);
        device->waiting--;
    }
}

int
host_event_sync(struct fy_event *event)
{
    struct host_device *device = event->device;
    if (!host_is_ours(device)) {
        return host_error(device, FY_ERR_DEVICE, fy_queue_inherited);
    }
    pthread_mutex_lock(&device->lock);
    struct goal goal = {.event = event, .turn = event->turns.recorded};
    advance(device, &goal);
    int status = event->turns.error;
    pthread_mutex_unlock(&device->lock);
    return status;
}

int
host_stream_sync(struct fy_stream *s)
{
    struct host_device *device = s->device;
    if (!host_is_ours(device)) {
        return host_error(device, FY_ERR_DEVICE, fy_queue_inherited);
    }
    pthread_mutex_lock(&device->lock);
    struct goal goal = {.stream = s};
    advance(device, &goal);
    int status = s->queue.error;
    s->queue.error = 0;
    pthread_mutex_unlock(&device->lock);
    return status;
}

int
host_stream_create(struct fy_device *base, enum fy_stream_kind kind,
                   struct fy_stream **out)
{
    struct host_device *device = (struct host_device *)base;
    if (!host_is_ours(device)) {
        return host_error(device, FY_ERR_DEVICE, fy_queue_inherited);
    }
    struct fy_stream *s = calloc(1, sizeof *s);
    if (!s) {
        return host_error(device, FY_ERR_NOMEM, "no memory for a stream");
    }
    if (pthread_cond_init(&s->wake, NULL) != 0) {
        free(s);
        return host_error(device, FY_ERR_NOMEM, "no memory for a stream");
    }
    s->queue = (struct fy_queue){.class = &queue_class,
                                 .device = base,
                                 .lock = &device->lock,
                                 .alive = device->alive};
    s->device = device;
    s->kind = kind;
    pthread_mutex_lock(&device->lock);
    s->next = device->streams;
    device->streams = s;
    pthread_mutex_unlock(&device->lock);
    *out = s;
    return 0;
}

void
host_stream_destroy(struct fy_stream *s)
{
    if (!s || !host_is_ours(s->device)) {
        return;
    }
    struct host_device *device = s->device;
    pthread_mutex_lock(&device->lock);
    struct goal goal = {.stream = s};
    advance(device, &goal);
    struct fy_stream **link = &device->streams;
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): s is among them */
    while (*link != s) {
        link = &(*link)->next;
    }
    *link = s->next;
    s->stop = true;
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&device->lock);
    if (s->has_worker) {
        pthread_join(s->worker, NULL);
    }
    pthread_cond_destroy(&s->wake);
    fy_cifs_free(s->cifs);
    free(s);
}

void
host_give_back(struct fy_device *base, bool threads)
{
    struct host_device *device = (struct host_device *)base;
    if (!threads || !host_is_ours(device)) {
        return;
    }
    pthread_mutex_lock(&device->lock);
    for (struct fy_stream *s = device->streams; s;) {
        if (s->has_worker && !s->ended && !s->queue.head && !s->queue.running) {
            s->stop = true;
            pthread_cond_signal(&s->wake);
            device->waiting++;
            pthread_cond_wait(&device->change, &device->lock);
            device->waiting--;
            s = device->streams; /* others may have changed them */
        } else {
            join_ended(s);
            s = s->next;
        }
    }
    pthread_mutex_unlock(&device->lock);
}

int
host_event_create(struct fy_device *base, struct fy_event **out)
{
    struct host_device *device = (struct host_device *)base;
    if (!host_is_ours(device)) {
        return host_error(device, FY_ERR_DEVICE, fy_queue_inherited);
    }
    struct fy_event *event = calloc(1, sizeof *event);
    if (!event) {
        return host_error(device, FY_ERR_NOMEM, "no memory for an event");
    }
    event->device = device;
    *out = event;
    return 0;
}

void
host_event_destroy(struct fy_event *event)
{
    free(event);
}
