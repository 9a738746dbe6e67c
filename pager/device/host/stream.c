/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams and events of the host device; see internal.h for the model.
 * Worker threads block every signal, so that no handler of the program ever
 * runs on them, and do nothing but copy.
 */
#include "config.h"

#include "pager/device/host/internal.h"

#include <signal.h>
#include <stdlib.h>

#include "pager/device/copy.h"
#include "pager/device/own_thread.h"

enum {
    /* Waiting bytes that are worth the wake-up of a worker (about 5 us). */
    KICK_BYTES = 256 * 1024,
    WORKER_STACK_BYTES = 256 * 1024,
};

static const char inherited[] =
    "the device belongs to the parent of this forked process";

/* Wakes whoever may now go on. Lock held. */
static void
announce(struct host_device *device)
{
    if (device->waiting > 0) {
        pthread_cond_broadcast(&device->change);
    }
    for (struct fy_stream *s = device->streams; s != NULL; s = s->next) {
        if (s->parked && s->kicked) {
            pthread_cond_signal(&s->wake);
        }
    }
}

static struct host_op *
op_take(struct host_device *device)
{
    struct host_op *op = device->spare;
    if (op == NULL) {
        return malloc(sizeof *op);
    }
    device->spare = op->next;
    return op;
}

static void
op_give(struct host_device *device, struct host_op *op)
{
    op->next = device->spare;
    device->spare = op;
}

/* Without the lock. Returns the status of the operation. */
static int
execute(const struct host_op *op)
{
    if (op->kind == HOST_LAUNCH) {
        fy_call_run(op->u.call);
        return 0;
    }
    return fy_copy_run_host(&op->u.copy);
}

/*
 * Runs the operation at the head, the lock held around it. False when there is
 * none, it waits for an event, or another thread is at it.
 */
static bool
run_head(struct fy_stream *s)
{
    struct host_device *device = s->device;
    struct host_op *op = s->head;
    if (op == NULL || s->running) {
        return false;
    }
    struct fy_event *event = op->u.mark.event;
    if (op->kind == HOST_WAIT && s->error == 0) {
        if (event->completed < op->u.mark.turn) {
            return false;
        }
        s->error = event->error;
    }
    s->head = op->next;
    if (s->head == NULL) {
        s->tail = NULL;
    }
    s->pending_bytes -= op->bytes;
    if (op->kind == HOST_RECORD) {
        event->completed = op->u.mark.turn;
        event->error = s->error;
    } else if (op->kind != HOST_WAIT && s->error == 0) {
        s->running = true;
        pthread_mutex_unlock(&device->lock);
        int status = execute(op);
        pthread_mutex_lock(&device->lock);
        s->running = false;
        if (status != 0) {
            s->error = status;
            (void)host_error(device, status, "an operand cannot be accessed");
        }
    }
    if (op->kind == HOST_LAUNCH) {
        free(op->u.call);
    }
    op_give(device, op);
    announce(device);
    return true;
}

static void *
work(void *argument)
{
    struct fy_stream *s = argument;
    fy_own_thread_begins(true);
    pthread_mutex_lock(&s->device->lock);
    while (!s->stop) {
        if (s->kicked && run_head(s)) {
            continue;
        }
        if (s->head == NULL) {
            s->kicked = false;
        }
        s->parked = true;
        pthread_cond_wait(&s->wake, &s->device->lock);
        s->parked = false;
    }
    pthread_mutex_unlock(&s->device->lock);
    return NULL;
}

/* Starts the worker; without one the owner runs the queue. Lock held. */
static void
start_worker(struct fy_stream *s)
{
    sigset_t all, before;
    pthread_attr_t attributes;
    s->no_worker = true;
    if (pthread_attr_init(&attributes) != 0) {
        return;
    }
    sigfillset(&all);
    if (pthread_sigmask(SIG_BLOCK, &all, &before) == 0) {
        /* Programs with much thread-local memory refuse a small stack. */
        int failed =
            pthread_attr_setstacksize(&attributes, WORKER_STACK_BYTES) ||
            pthread_create(&s->worker, &attributes, work, s);
        if (failed) {
            failed = pthread_create(&s->worker, NULL, work, s);
        }
        s->has_worker = !failed;
        s->no_worker = failed;
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    pthread_attr_destroy(&attributes);
}

/* Appends an operation; the stream owns it now. Lock held. */
static void
push(struct fy_stream *s, struct host_op *op)
{
    op->next = NULL;
    if (s->tail != NULL) {
        s->tail->next = op;
    } else {
        s->head = op;
    }
    s->tail = op;
    s->owner = pthread_self();
    s->pending_bytes += op->bytes;
    if (s->kind == FY_STREAM_COMPUTE || s->kicked ||
        s->pending_bytes < KICK_BYTES) {
        return;
    }
    if (!s->has_worker && !s->no_worker) {
        start_worker(s);
    }
    if (s->has_worker) {
        s->kicked = true;
        if (s->parked) {
            pthread_cond_signal(&s->wake);
        }
    }
}

/* Enqueues a copy of *model. */
static int
enqueue(struct fy_stream *s, const struct host_op *model)
{
    struct host_device *device = s->device;
    if (!host_is_ours(device)) {
        return host_error(device, FY_ERR_DEVICE, inherited);
    }
    pthread_mutex_lock(&device->lock);
    int status = 0;
    struct host_op *op = op_take(device);
    if (op == NULL) {
        status = FY_ERR_NOMEM;
        goto unlock;
    }
    *op = *model;
    if (op->kind == HOST_RECORD) {
        op->u.mark.turn = ++op->u.mark.event->recorded;
    } else if (op->kind == HOST_WAIT) {
        op->u.mark.turn = op->u.mark.event->recorded;
    }
    push(s, op);
unlock:
    pthread_mutex_unlock(&device->lock);
    return status;
}

int
host_copy(struct fy_stream *s, const struct fy_copy *copy)
{
    struct host_op op = {.kind = HOST_COPY, .u.copy = *copy};
    if (copy->naxes < 1 || copy->naxes > FY_COPY_AXES ||
        (copy->sign != 0 && copy->naxes < 2)) {
        return host_error(s->device, FY_ERR_INVALID, "malformed copy");
    }
    op.bytes = fy_copy_elements(copy) * copy->element_bytes;
    return enqueue(s, &op);
}

int
host_launch(struct fy_stream *s, const struct fy_launch *launch)
{
    struct host_op op = {.kind = HOST_LAUNCH};
    if (!host_is_ours(s->device)) {
        return host_error(s->device, FY_ERR_DEVICE, inherited);
    }
    int status = fy_call_new(&s->cifs, launch, &op.u.call);
    if (status != 0) {
        return host_error(s->device, status, "the call cannot be prepared");
    }
    status = enqueue(s, &op);
    if (status != 0) {
        free(op.u.call);
    }
    return status;
}

int
host_event_record(struct fy_stream *s, struct fy_event *event)
{
    struct host_op op = {.kind = HOST_RECORD, .u.mark.event = event};
    return enqueue(s, &op);
}

int
host_event_wait(struct fy_stream *s, struct fy_event *event)
{
    struct host_op op = {.kind = HOST_WAIT, .u.mark.event = event};
    return enqueue(s, &op);
}

/* What a thread waits for: a turn of an event, or an empty stream. */
struct goal {
    const struct fy_event *event;
    uint64_t turn;
    struct fy_stream *stream;
};

static bool
reached(const struct goal *goal)
{
    if (goal->event != NULL) {
        return goal->event->completed >= goal->turn;
    }
    return goal->stream->head == NULL && !goal->stream->running;
}

/*
 * Runs what this thread has enqueued and no worker runs, until the goal is
 * reached; sleeps while only others can go on. Lock held.
 */
static void
advance(struct host_device *device, const struct goal *goal)
{
    pthread_t self = pthread_self();
    while (!reached(goal)) {
        bool progress = false;
        for (struct fy_stream *s = device->streams; s != NULL; s = s->next) {
            if (s->head != NULL && pthread_equal(s->owner, self) &&
                !s->kicked && run_head(s)) {
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
        return host_error(device, FY_ERR_DEVICE, inherited);
    }
    pthread_mutex_lock(&device->lock);
    struct goal goal = {.event = event, .turn = event->recorded};
    advance(device, &goal);
    int status = event->error;
    pthread_mutex_unlock(&device->lock);
    return status;
}

int
host_stream_sync(struct fy_stream *s)
{
    struct host_device *device = s->device;
    if (!host_is_ours(device)) {
        return host_error(device, FY_ERR_DEVICE, inherited);
    }
    pthread_mutex_lock(&device->lock);
    struct goal goal = {.stream = s};
    advance(device, &goal);
    int status = s->error;
    s->error = 0;
    pthread_mutex_unlock(&device->lock);
    return status;
}

int
host_stream_create(struct fy_device *base, enum fy_stream_kind kind,
                   struct fy_stream **out)
{
    struct host_device *device = (struct host_device *)base;
    if (!host_is_ours(device)) {
        return host_error(device, FY_ERR_DEVICE, inherited);
    }
    struct fy_stream *s = calloc(1, sizeof *s);
    if (s == NULL) {
        return host_error(device, FY_ERR_NOMEM, "no memory for a stream");
    }
    if (pthread_cond_init(&s->wake, NULL) != 0) {
        free(s);
        return host_error(device, FY_ERR_NOMEM, "no memory for a stream");
    }
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
    if (s == NULL || !host_is_ours(s->device)) {
        return;
    }
    struct host_device *device = s->device;
    pthread_mutex_lock(&device->lock);
    struct goal goal = {.stream = s};
    advance(device, &goal);
    struct fy_stream **link = &device->streams;
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

int
host_event_create(struct fy_device *base, struct fy_event **out)
{
    struct host_device *device = (struct host_device *)base;
    if (!host_is_ours(device)) {
        return host_error(device, FY_ERR_DEVICE, inherited);
    }
    struct fy_event *event = calloc(1, sizeof *event);
    if (event == NULL) {
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
