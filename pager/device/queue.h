/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue of a stream, for every device: operations in their order, turns of
 * events, and the error that stays with a stream until a synchronisation has
 * returned it. Which thread executes an operation, and how, is the device's
 * business. One lock per device protects its queues and events.
 */
#ifndef FERRY_PAGER_DEVICE_QUEUE_H
#define FERRY_PAGER_DEVICE_QUEUE_H

#include <pthread.h>

#include "pager/device/device.h"

enum fy_work_kind {
    FY_WORK_COPY,
    FY_WORK_LAUNCH,
    FY_WORK_RECORD,
    FY_WORK_WAIT
};

/* One operation. */
struct fy_work {
    struct fy_work *next;
    enum fy_work_kind kind;
    uint64_t bytes; /* COPY */
    union {
        struct fy_copy copy;
        void *launch; /* of prepare() */
        struct {
            struct fy_event *event;
            uint64_t turn;
        } mark;
    } u;
};

/* First member of each device's struct fy_event. */
struct fy_turns {
    unsigned references; /* the owner, and the operations that name the event */
    uint64_t recorded;   /* turns enqueued */
    uint64_t completed;  /* the last turn that is known to be reached */
    int error;           /* of the stream when that was */
};

/* Operations of a device on its queues. Lock held, unless said otherwise. */
struct fy_queue_class {
    /* Sets the error text and returns `status'. Without the lock. */
    int (*fail)(struct fy_device *device, int status, const char *text);
    /* A copy of the launch that execute() can use. Without the lock. */
    int (*prepare)(struct fy_stream *stream, const struct fy_launch *launch,
                   void **out);
    void (*discard)(void *launch);
    /* Returns true if the device takes no operation any more. Unset: never. */
    bool (*is_dead)(const struct fy_stream *stream);
    /* An operation was appended. */
    void (*added)(struct fy_stream *stream);
    /* Returns true if a wait for that turn would not block. Unset: execute()
     * blocks. */
    bool (*is_ready)(const struct fy_event *event, uint64_t turn);
    /*
     * Returns the operation's status; with an error in the stream only records
     * come here. Gives up the lock meanwhile.
     */
    int (*execute)(struct fy_stream *stream, struct fy_work *work);
    /* Gives up the reference of an operation. Unset: none are counted. */
    void (*release)(struct fy_event *event);
};

/* First member of each device's struct fy_stream. */
struct fy_queue {
    const struct fy_queue_class *class;
    struct fy_device *device;
    pthread_mutex_t *lock;          /* of the device */
    const volatile unsigned *alive; /* of the device: 0 in forked children */
    struct fy_work *head, *tail;
    uint64_t bytes; /* of the copies that wait */
    bool running;   /* an operation is being executed */
    int error;      /* first since the last synchronisation */
};

/*
 * These are the operations of fy_device_ops. Each enqueues a copy of its arguments and
 * does not wait for the device; any thread. FY_ERR_DEVICE: a forked child, or a lost
 * device; FY_ERR_NOMEM; FY_ERR_INVALID: a malformed copy; of a launch also an
 * error of prepare().
 */
int fy_queue_copy(struct fy_stream *stream, const struct fy_copy *copy);
int fy_queue_launch(struct fy_stream *stream, const struct fy_launch *launch);
int fy_queue_record(struct fy_stream *stream, struct fy_event *event);
int fy_queue_wait(struct fy_stream *stream, struct fy_event *event);

/*
 * Executes the operation at the head. False when there is none, when another
 * thread executes one, or when it is a wait that is not ready. Lock held.
 */
bool fy_queue_run(struct fy_stream *stream);

/* Nothing waits in the queue or is executed. Lock held. */
bool fy_queue_is_idle(const struct fy_stream *stream);

/* The answers of a device's operations in a forked child. */
extern const char fy_queue_inherited[];

#endif
