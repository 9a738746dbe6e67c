/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues, streams and events of the CUDA device; see internal.h for the
 * model. The caller's thread only enqueues and waits. It is never cancelled
 * while it holds the lock, and no handler of the program runs on our threads.
 * Long because queues, streams and events share that lock.
 */
#include "config.h"

#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "pager/device/cuda/internal.h"

enum {
    COMPUTE_STACK_BYTES = 8 << 20, /* cuBLAS may compile or plan in a call */
    WORKSPACE_IN_MEMORY = 16,      /* a larger part is not kept */
    REST_MS = 100,                 /* nor any, for longer */
};

static const char inherited[] =
    "the device belongs to the parent of this forked process";

/*
 * Gives up a reference; the last one takes the event. Lock held, but for the
 * driver's part. The context is current.
 */
static void
release_event(struct fy_event *event)
{
    struct cuda_device *device = event->device;
    if (--event->references > 0) {
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
    if (event->error != 0) {
        return event->error;
    }
    if (event->completed >= turn) {
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
    if (s->error == 0) {
        s->error = status;
    }
    if (status != 0) {
        event->completed = turn;
    }
    event->stream = s->number;
    event->infos = infos;
    event->error = s->error;
    event->issued = turn;
    pthread_cond_broadcast(&device->change);
    return 0;
}

/* Issues one operation. Lock held, but for the driver's part. */
static void
run_op(struct fy_stream *s, struct cuda_op *op)
{
    struct cuda_device *device = s->device;
    int status = 0;
    if (op->kind == CUDA_RECORD) {
        status = issue_record(s, op->u.mark.event, op->u.mark.turn);
    } else if (s->error != 0) {
        status = 0; /* skipped until stream_sync() has told */
    } else if (device->dead) {
        status = FY_ERR_DEVICE;
    } else if (op->kind == CUDA_WAIT) {
        status = issue_wait(s, op->u.mark.event, op->u.mark.turn);
    } else {
        s->unsynced = true;
        pthread_mutex_unlock(&device->lock);
        status = op->kind == CUDA_COPY ? cuda_copy_issue(s, &op->u.copy)
                                       : cuda_launch_issue(s, op->u.launch);
        pthread_mutex_lock(&device->lock);
    }
    if (s->error == 0) {
        s->error = status;
    }
    if (op->kind == CUDA_RECORD || op->kind == CUDA_WAIT) {
        release_event(op->u.mark.event);
    }
}

static void
free_op(struct cuda_op *op)
{
    if (op->kind == CUDA_LAUNCH) {
        cuda_launch_free(op->u.launch);
    }
    free(op);
}

/*
 * The process exits: whoever waits for the stream must not go on, and put back
 * what was there before, while a copy may land. Lock held, but for the wait.
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
        s->head == NULL && s->workspace != 0 && !s->unsynced) {
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
    int result = device->driver->context_push(device->context);
    if (result != 0) {
        (void)cuda_lost(device, "the context", result);
    }
    (void)cuda_relax(device);
    pthread_mutex_lock(&device->lock);
    while (!s->stop || s->head != NULL) {
        struct cuda_op *op = s->head;
        if (op == NULL && device->exits && !s->settled) {
            settle(s);
            continue;
        }
        if (op == NULL) {
            rest(s);
            continue;
        }
        s->head = op->next;
        if (s->head == NULL) {
            s->tail = NULL;
        }
        s->running = true;
        device->inside++;
        if (!device->dead) {
            pthread_mutex_unlock(&device->lock);
            (void)cuda_keeps_context(device);
            pthread_mutex_lock(&device->lock);
        }
        run_op(s, op);
        device->inside--;
        s->running = false;
        if (s->head == NULL || device->dead) {
            pthread_cond_broadcast(&device->change);
        }
        pthread_mutex_unlock(&device->lock);
        free_op(op);
        pthread_mutex_lock(&device->lock);
    }
    device->inside++;
    pthread_mutex_unlock(&device->lock);
    cuda_launch_end(s);
    cuda_come_out(device);
    return NULL;
}

/* Appends a copy of *model; nothing has been taken when it fails. */
static int
enqueue(struct fy_stream *s, const struct cuda_op *model)
{
    struct cuda_device *device = s->device;
    struct cuda_op *op = malloc(sizeof *op);
    if (op == NULL) {
        return cuda_error(device, FY_ERR_NOMEM, "no memory for an operation");
    }
    *op = *model;
    op->next = NULL;
    pthread_mutex_lock(&device->lock);
    if (device->dead) {
        pthread_mutex_unlock(&device->lock);
        free(op);
        return FY_ERR_DEVICE;
    }
    if (op->kind == CUDA_RECORD) {
        op->u.mark.turn = ++op->u.mark.event->recorded;
        op->u.mark.event->references++;
    } else if (op->kind == CUDA_WAIT) {
        op->u.mark.turn = op->u.mark.event->recorded;
        op->u.mark.event->references++;
    }
    if (s->tail != NULL) {
        s->tail->next = op;
    } else {
        s->head = op;
    }
    s->tail = op;
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&device->lock);
    return 0;
}

int
cuda_copy(struct fy_stream *s, const struct fy_copy *copy)
{
    struct cuda_op op = {.kind = CUDA_COPY, .u.copy = *copy};
    if (!cuda_is_ours(s->device)) {
        return cuda_error(s->device, FY_ERR_DEVICE, inherited);
    }
    if (copy->naxes < 1 || copy->naxes > FY_COPY_AXES ||
        copy->element_bytes == 0 || (copy->sign != 0 && copy->naxes < 2)) {
        return cuda_error(s->device, FY_ERR_INVALID, "malformed copy");
    }
    return enqueue(s, &op);
}

int
cuda_launch(struct fy_stream *s, const struct fy_launch *launch)
{
    struct cuda_op op = {.kind = CUDA_LAUNCH};
    if (!cuda_is_ours(s->device)) {
        return cuda_error(s->device, FY_ERR_DEVICE, inherited);
    }
    int status = cuda_launch_new(s, launch, &op.u.launch);
    if (status != 0) {
        return cuda_error(s->device, status, "the call cannot be prepared");
    }
    status = enqueue(s, &op);
    if (status != 0) {
        cuda_launch_free(op.u.launch);
    }
    return status;
}

int
cuda_event_record(struct fy_stream *s, struct fy_event *event)
{
    struct cuda_op op = {.kind = CUDA_RECORD, .u.mark.event = event};
    if (!cuda_is_ours(s->device)) {
        return cuda_error(s->device, FY_ERR_DEVICE, inherited);
    }
    return enqueue(s, &op);
}

int
cuda_event_wait(struct fy_stream *s, struct fy_event *event)
{
    struct cuda_op op = {.kind = CUDA_WAIT, .u.mark.event = event};
    if (!cuda_is_ours(s->device)) {
        return cuda_error(s->device, FY_ERR_DEVICE, inherited);
    }
    return enqueue(s, &op);
}

/* What a stream has sent back before the event. Lock held. */
static void
read_infos(const struct fy_event *event)
{
    for (struct fy_stream *s = event->device->streams; s != NULL; s = s->next) {
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
    uint64_t turn = event->recorded;
    int cancel, status = 0;
    /* A dead device's queues are emptied, too. */
    while (event->issued < turn && !device->abandoned) {
        pthread_cond_wait(&device->change, &device->lock);
    }
    if (event->error == 0 && event->completed >= turn) {
        return 0;
    }
    pthread_mutex_unlock(&device->lock);
    if (cuda_enter_caller(device, &cancel)) {
        status = cuda_status(device, "the work before an event",
                             device->driver->event_sync(event->handle));
        cuda_leave_caller(device, cancel);
    } else {
        status = FY_ERR_DEVICE;
    }
    pthread_mutex_lock(&device->lock);
    if (status == 0) {
        event->completed = event->completed < turn ? turn : event->completed;
        read_infos(event);
    }
    return event->error != 0 ? event->error : status;
}

int
cuda_event_sync(struct fy_event *event)
{
    struct cuda_device *device = event->device;
    int cancel;
    if (!cuda_is_ours(device)) {
        return cuda_error(device, FY_ERR_DEVICE, inherited);
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
        return cuda_error(device, FY_ERR_DEVICE, inherited);
    }
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    pthread_mutex_lock(&device->lock);
    while (s->head != NULL || s->running) {
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
        s->unsynced = s->head != NULL || s->running;
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
    if (s->error != 0) {
        status = s->error;
    }
    s->error = 0;
    bool large =
        s->workspace_bytes > device->memory.limit_bytes / WORKSPACE_IN_MEMORY;
    uint64_t spare = 0; /* others may plan with it */
    if (status == 0 && large && s->head == NULL && !s->running) {
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
        cuda_register_forget(s->device->registry, s->number);
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
        return cuda_error(device, FY_ERR_DEVICE, inherited);
    }
    int status = FY_ERR_NOMEM;
    struct fy_stream *s = calloc(1, sizeof *s);
    if (s == NULL) {
        goto fail;
    }
    s->device = device;
    s->kind = kind;
    if (pthread_cond_init(&s->wake, NULL) != 0) {
        goto free_stream;
    }
    status = open_stream(s);
    if (status != 0) {
        pthread_cond_destroy(&s->wake);
        free(s);
        return status; /* the text says what the driver said */
    }
    if (kind == FY_STREAM_COMPUTE) {
        cuda_launch_begin(s);
    }
    if (cuda_thread(&s->thread,
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
    if (s == NULL || !cuda_is_ours(s->device)) {
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
        return cuda_error(device, FY_ERR_DEVICE, inherited);
    }
    struct fy_event *event = calloc(1, sizeof *event);
    if (event == NULL) {
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
    event->references = 1;
    *out = event;
    return 0;
}

void
cuda_event_destroy(struct fy_event *event)
{
    if (event == NULL) {
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
