/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of the host device only.
 *
 * A stream is a queue. Copy streams have a worker thread, started when enough
 * bytes wait to be worth a wake-up; until then, and for everything on the
 * compute stream, the queue is run by the thread that enqueued, whenever it
 * waits for something. So small calls never make a thread, and originals run
 * on their caller's thread. One lock per device protects queues and events;
 * copies and launches run without it.
 */
#ifndef FERRY_PAGER_DEVICE_HOST_INTERNAL_H
#define FERRY_PAGER_DEVICE_HOST_INTERNAL_H

#include <pthread.h>
#include <signal.h>

#include "pager/device/call.h"
#include "pager/device/device.h"
#include "pager/device/host_arena.h"
#include "pager/device/queue.h"

struct fy_event {
    struct fy_turns turns;
    struct host_device *device;
};

struct fy_stream {
    struct fy_queue queue;
    struct host_device *device;
    enum fy_stream_kind kind;
    struct fy_stream *next; /* of the device */
    bool kicked;            /* the worker runs the queue until it is empty */
    bool parked;            /* the worker sleeps on `wake' */
    bool has_worker, stop, no_worker;
    sigset_t starters; /* signal mask of the thread that started the worker */
    bool ended;        /* the worker, which has yet to be joined */
    pthread_t owner;   /* the thread that enqueued last */
    pthread_t worker;
    pthread_cond_t wake;
    struct fy_cif *cifs; /* owner's thread only */
};

struct host_device {
    struct fy_device base;
    pthread_mutex_t lock;
    pthread_cond_t change; /* an operation or event completed */
    unsigned waiting;      /* threads in wait on `change' */
    struct fy_stream *streams;
    struct fy_host_arena *arena;
    const volatile unsigned *alive; /* the process; a page that is zero in
                                     * forked children */
    const char *error;
};

/* False in a forked child: its threads are gone and its locks are undefined. */
bool host_is_ours(const struct host_device *device);

/* Sets the text of the last error and returns `status'. */
int host_error(struct host_device *device, int status, const char *text);

int host_stream_create(struct fy_device *device, enum fy_stream_kind kind,
                       struct fy_stream **out);
void host_stream_destroy(struct fy_stream *stream);
void host_give_back(struct fy_device *base, bool threads);
int host_event_create(struct fy_device *device, struct fy_event **out);
void host_event_destroy(struct fy_event *event);
int host_event_sync(struct fy_event *event);
int host_stream_sync(struct fy_stream *stream);

#endif
