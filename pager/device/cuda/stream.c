/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues, streams and events of the CUDA device; see internal.h for the
 * model. The caller's thread only enqueues and waits. It is never cancelled
 * while it holds the lock, and no handler of the program runs on our threads.
 * Long because queues, streams and events share that lock.
 */
#include "config.h"

#include <stdlib.h>
#include <time.h>

#include "common/clock.h"
#include "pager/device/cuda/internal.h"
#include "pager/device/cuda/users.h"
#include "pager/device/own_thread.h"

enum {
    COMPUTE_STACK_BYTES = 8 << 20, /* cuBLAS may compile or plan in a call */
    WORKSPACE_IN_MEMORY = 16,      /* a larger part is not kept */
    LOOK_US = 20,                  /* at an event before the thread sleeps */
    REST_MS = 100,                 /* nor any, for longer */
};

/* Sleeping until an event took 46 us on an H200's host where looking took 11; not where
 * the processor is needed by others. */
int
cuda_event_reached(struct cuda_device *device, fy_cuda_handle event)
{
    const double until =
        fy_own_cpus() >= CUDA_LOOKS ? fy_clock_seconds() + 1e-6 * LOOK_US : 0;
    int result = device->driver->event_query(event);
    while (result == FY_CUDA_NOT_READY && fy_clock_seconds() < until) {
        result = device->driver->event_query(event);
    }
    return result == FY_CUDA_NOT_READY ? device->driver->event_sync(event)
                                       : result;
}

/*
 * Gives up a reference; the last one takes the event. Lock held, but for the
 * driver's part. The context is current.
 */
static void
release_event(struct fy_event *event)
{
    struct cuda_device *device = event->device;
    if (--event->turns.references > 0) {
        return;
    }
    bool dead = device->dead;
    pthread_mutex_unlock(&device->lock);
    if (!dead) {
        (void)device->driver->event_destroy(event->handle);
    }
    free(event);
    pthread_mutex_lock(&device->lock);
}

/* Lock held, but for the wait itself. */
static int
issue_wait(struct fy_stream *s, struct fy_event *event, uint64_t turn)
{
    struct cuda_device *device = s->device;
    while (event->issued < turn && !device->dead) {
        pthread_cond_wait(&device->change, &device->lock);
    }
    if (device->dead) {
        return FY_ERR_DEVICE;
    }
    if (event->turns.error != 0) {
        return event->turns.error;
    }
    if (event->turns.completed >= turn) {
        return 0;
    }
    pthread_mutex_unlock(&device->lock);
    int status =
        cuda_status(device, "a wait",
                    device->driver->stream_wait(s->handle, event->handle, 0));
    pthread_mutex_lock(&device->lock);
    return status;
}

/* Also after an error: whoever waits must know that nothing is running. */
static int
issue_record(struct fy_stream *s, struct fy_event *event, uint64_t turn)
{
    struct cuda_device *device = s->device;
    uint64_t infos = s->infos;
    int status = FY_ERR_DEVICE;
    if (!device->dead) {
        pthread_mutex_unlock(&device->lock);
        status =
            cuda_status(device, "an event",
                        device->driver->event_record(event->handle, s->handle));
        if (status != 0) {
            (void)device->driver->stream_sync(s->handle);
        }
        pthread_mutex_lock(&device->lock);
    }
    if (s->queue.error == 0) {
        s->queue.error = status;
    }
    if (status != 0) {
        event->turns.completed = turn;
    }
    event->stream = s->number;
    event->infos = infos;
    event->turns.error = s->queue.error;
    event->issued = turn;
    pthread_cond_broadcast(&device->change);
    return 0;
}

/* Issues one operation. Lock held, but for the driver's part. */
static int
issue(struct fy_stream *s, struct fy_work *work)
{
    struct cuda_device *device = s->device;
    if (work->kind == FY_WORK_RECORD) {
        return issue_record(s, work->u.mark.event, work->u.mark.turn);
    }
    if (device->dead) {
        return FY_ERR_DEVICE;
    }
    if (work->kind == FY_WORK_WAIT) {
        return issue_wait(s, work->u.mark.event, work->u.mark.turn);
    }
    s->unsynced = true;
    pthread_mutex_unlock(&device->lock);
    int status = work->kind == FY_WORK_COPY
                     ? cuda_copy_issue(s, &work->u.copy)
                     : cuda_launch_issue(s, work->u.launch);
    pthread_mutex_lock(&device->lock);
    return status;
}

/*
 * The process exits: whoever waits for the stream must not go on, and put back
 * old contents, while a copy may land. Lock held, but for the wait.
 */
static void
settle(struct fy_stream *s)
{
    struct cuda_device *device = s->device;
    if (s->unsynced) {
        device->inside++;
        pthread_mutex_unlock(&device->lock);
        (void)device->driver->stream_sync(s->handle);
        pthread_mutex_lock(&device->lock);
        device->inside--;
    }
    s->settled = true;
    pthread_cond_broadcast(&device->change);
}

/*
 * Waits for an operation; where none comes soon, the workspace that no work uses
 * any more goes back. Lock held, but for the wait and that.
 */
static void
rest(struct fy_stream *s)
{
    struct cuda_device *device = s->device;
    struct timespec until;
    if (s->workspace == 0 || s->unsynced || device->dead) {
        pthread_cond_wait(&s->wake, &device->lock);
        return;
    }
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += REST_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    if (pthread_cond_timedwait(&s->wake, &device->lock, &until) != 0 &&
        !s->queue.head && s->workspace != 0 && !s->unsynced) {
        uint64_t spare = s->workspace;
        s->workspace = 0;
        s->workspace_bytes = 0;
        pthread_mutex_unlock(&device->lock);
        cuda_memory_release(device, spare, true);
        pthread_mutex_lock(&device->lock);
    }
}

/* The issuing thread of a stream. */
static void *
work(void *argument)
{
    struct fy_stream *s = argument;
    struct cuda_device *device = s->device;
    cuda_thread_begins();
    int result = device->driver->context_push(device->context);
    if (result != 0) {
        (void)cuda_lost(device, "the context", result);
    }
    (void)cuda_relax(device);
    pthread_mutex_lock(&device->lock);
    while (!s->stop || s->queue.head) {
        if (!s->queue.head && device->exits && !s->settled) {
            settle(s);
            continue;
        }
        if (!s->queue.head) {
            rest(s);
            continue;
        }
        device->inside++;
        if (!device->dead) {
            pthread_mutex_unlock(&device->lock);
            (void)cuda_keeps_context(device);
            pthread_mutex_lock(&device->lock);
        }
        (void)fy_queue_run(s);
        device->inside--;
        if (!s->queue.head || device->dead) {
            pthread_cond_broadcast(&device->change);
        }
    }
    device->inside++;
    pthread_mutex_unlock(&device->lock);
    cuda_launch_end(s);
    cuda_come_out(device);
    return NULL;
}

static int
fail(struct fy_device *base, int status, const char *text)
{
    return cuda_error((struct cuda_device *)base, status, text);
}

static bool
is_dead(const struct fy_stream *s)
{
    return s->device->dead;
}

static void
added(struct fy_stream *s)
{
    pthread_cond_signal(&s->wake);
}

static const struct fy_queue_class queue_class = {
    .fail = fail,
    .prepare = cuda_launch_new,
    .discard = cuda_launch_free,
    .is_dead = is_dead,
    .added = added,
    .execute = issue,
    .release = release_event,
};

/* Copies that a stream has sent back before the event. Lock held. */
static void
read_infos(const struct fy_event *event)
{
    for (struct fy_stream *s = event->device->streams; s; s = s->next) {
        if (s->number == event->stream) {
            cuda_infos_read(s, event->infos);
        }
    }
}

/* Lock held, but for the driver's part. */
static int
sync_event(struct fy_event *event)
{
    struct cuda_device *device = event->device;
    uint64_t turn = event->turns.recorded;
    int cancel, status = 0;
    /* A dead device's queues are emptied, too. */
    while (event->issued < turn && !device->abandoned) {
        pthread_cond_wait(&device->change, &device->lock);
    }
    if (event->turns.error == 0 && event->turns.completed >= turn) {
        return 0;
    }
    pthread_mutex_unlock(&device->lock);
    if (cuda_enter_caller(device, &cancel)) {
        status = cuda_status(device, "the work before an event",
                             cuda_event_reached(device, event->handle));
        cuda_leave_caller(device, cancel);
    } else {
        status = FY_ERR_DEVICE;
    }
    pthread_mutex_lock(&device->lock);
    if (status == 0) {
        event->turns.completed =
            event->turns.completed < turn ? turn : event->turns.completed;
        read_infos(event);
    }
    return event->turns.error != 0 ? event->turns.error : status;
}

int
cuda_event_sync(struct fy_event *event)
{
    struct cuda_device *device = event->device;
    int cancel;
    if (!cuda_is_ours(device)) {
        return cuda_error(device, FY_ERR_DEVICE, fy_queue_inherited);
    }
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    pthread_mutex_lock(&device->lock);
    int status = sync_event(event);
    pthread_mutex_unlock(&device->lock);
    (void)pthread_setcancelstate(cancel, NULL);
    return status;
}

int
cuda_stream_sync(struct fy_stream *s)
{
    struct cuda_device *device = s->device;
    int cancel, again, status = FY_ERR_DEVICE;
    if (!cuda_is_ours(device)) {
        return cuda_error(device, FY_ERR_DEVICE, fy_queue_inherited);
    }
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    pthread_mutex_lock(&device->lock);
    while (!fy_queue_is_idle(s)) {
        pthread_cond_wait(&device->change, &device->lock);
    }
    pthread_mutex_unlock(&device->lock);
    if (cuda_enter_caller(device, &again)) {
        status = cuda_status(device, "the work of a stream",
                             device->driver->stream_sync(s->handle));
        cuda_leave_caller(device, again);
    }
    pthread_mutex_lock(&device->lock);
    if (status == 0) {
        s->unsynced = !fy_queue_is_idle(s);
        cuda_infos_read(s, s->infos);
        if (s->workspace != 0) {
            pthread_cond_signal(&s->wake); /* rest() may begin */
        }
    } else {
        while (device->exits && s->unsynced && !s->settled) {
            pthread_cond_wait(&device->change, &device->lock);
        }
        s->infos_read = s->infos; /* whoever waited for them stops now */
    }
    if (s->queue.error != 0) {
        status = s->queue.error;
    }
    s->queue.error = 0;
    bool large =
        s->workspace_bytes > device->memory.limit_bytes / WORKSPACE_IN_MEMORY;
    uint64_t spare = 0; /* others may plan with it */
    if (status == 0 && large && fy_queue_is_idle(s)) {
        spare = s->workspace;
        s->workspace = 0;
        s->workspace_bytes = 0;
    }
    pthread_mutex_unlock(&device->lock);
    if (spare != 0) {
        cuda_memory_release(device, spare, true);
    }
    (void)pthread_setcancelstate(cancel, NULL);
    return status;
}

/* The driver's side of a stream. */
static int
open_stream(struct fy_stream *s)
{
    struct cuda_device *device = s->device;
    const struct fy_cuda_driver *driver = device->driver;
    int cancel;
    if (!cuda_enter_caller(device, &cancel)) {
        return FY_ERR_DEVICE;
    }
    int result = driver->stream_create(&s->handle, FY_CUDA_STREAM_NON_BLOCKING);
    if (result == 0) {
        result =
            driver->event_create(&s->ready, FY_CUDA_EVENT_BLOCKING_SYNC |
                                                FY_CUDA_EVENT_DISABLE_TIMING);
        if (result != 0) {
            (void)driver->stream_destroy(s->handle);
        }
    }
    int status = cuda_status(device, "a stream", result);
    cuda_leave_caller(device, cancel);
    return status;
}

static void
close_stream(struct fy_stream *s)
{
    const struct fy_cuda_driver *driver = s->device->driver;
    int cancel;
    if (cuda_enter_caller(s->device, &cancel)) {
        (void)driver->event_destroy(s->ready);
        (void)driver->stream_destroy(s->handle);
        cuda_leave_caller(s->device, cancel);
    }
}

int
cuda_stream_create(struct fy_device *base, enum fy_stream_kind kind,
                   struct fy_stream **out)
{
    struct cuda_device *device = (struct cuda_device *)base;
    if (!cuda_is_ours(device)) {
        return cuda_error(device, FY_ERR_DEVICE, fy_queue_inherited);
    }
    int status = FY_ERR_NOMEM;
    struct fy_stream *s = calloc(1, sizeof *s);
    if (!s) {
        goto fail;
    }
    s->queue = (struct fy_queue){.class = &queue_class,
                                 .device = base,
                                 .lock = &device->lock,
                                 .alive = device->alive};
    s->device = device;
    s->kind = kind;
    if (pthread_cond_init(&s->wake, NULL) != 0) {
        goto free_stream;
    }
    status = open_stream(s);
    if (status != 0) {
        pthread_cond_destroy(&s->wake);
        free(s);
        return status; /* the text has the driver's words */
    }
    if (kind == FY_STREAM_COMPUTE) {
        cuda_launch_begin(s);
    }
    if (fy_own_thread_start(&s->thread,
                            kind == FY_STREAM_COMPUTE ? COMPUTE_STACK_BYTES
                                                      : CUDA_STACK_BYTES,
                            work, s) != 0) {
        cuda_memory_promise(device, -(int64_t)s->promised_bytes);
        status = FY_ERR_NOMEM;
        goto close;
    }
    pthread_mutex_lock(&device->lock);
    s->number = ++device->numbers;
    s->next = device->streams;
    device->streams = s;
    pthread_cond_signal(&s->wake); /* the process may have begun to exit */
    pthread_mutex_unlock(&device->lock);
    *out = s;
    return 0;

close:
    close_stream(s);
    pthread_cond_destroy(&s->wake);
free_stream:
    free(s);
fail:
    return cuda_error(device, status, "no memory or thread for a stream");
}

void
cuda_stream_destroy(struct fy_stream *s)
{
    if (!s || !cuda_is_ours(s->device)) {
        return;
    }
    struct cuda_device *device = s->device;
    int cancel;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    pthread_mutex_lock(&device->lock);
    bool abandoned = device->abandoned;
    pthread_mutex_unlock(&device->lock);
    if (!abandoned) {
        (void)cuda_stream_sync(s);
    }
    pthread_mutex_lock(&device->lock);
    abandoned = device->abandoned;
    struct fy_stream **link = &device->streams;
    while (*link != s) {
        link = &(*link)->next;
    }
    *link = s->next;
    s->stop = true;
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&device->lock);
    if (!abandoned) {
        pthread_join(s->thread, NULL);
        close_stream(s);
        pthread_cond_destroy(&s->wake);
        fy_cifs_free(s->cifs);
        free(s);
    }
    (void)pthread_setcancelstate(cancel, NULL);
}

int
cuda_event_create(struct fy_device *base, struct fy_event **out)
{
    struct cuda_device *device = (struct cuda_device *)base;
    if (!cuda_is_ours(device)) {
        return cuda_error(device, FY_ERR_DEVICE, fy_queue_inherited);
    }
    struct fy_event *event = calloc(1, sizeof *event);
    if (!event) {
        return cuda_error(device, FY_ERR_NOMEM, "no memory for an event");
    }
    int cancel, status = FY_ERR_DEVICE;
    if (cuda_enter_caller(device, &cancel)) {
        status =
            cuda_status(device, "an event",
                        device->driver->event_create(
                            &event->handle, FY_CUDA_EVENT_BLOCKING_SYNC |
                                                FY_CUDA_EVENT_DISABLE_TIMING));
        cuda_leave_caller(device, cancel);
    }
    if (status != 0) {
        free(event);
        return status;
    }
    event->device = device;
    event->turns.references = 1;
    *out = event;
    return 0;
}

void
cuda_event_destroy(struct fy_event *event)
{
    if (!event) {
        return;
    }
    struct cuda_device *device = event->device;
    if (!cuda_is_ours(device)) {
        free(event);
        return;
    }
    int cancel;
    bool entered = cuda_enter_caller(device, &cancel);
    pthread_mutex_lock(&device->lock);
    release_event(event);
    pthread_mutex_unlock(&device->lock);
    if (entered) {
        cuda_leave_caller(device, cancel);
    }
}
