/* SPDX-License-Identifier: Apache-2.0 */
/* See queue.h. The enqueueing thread only appends, and never waits here. */
#include "config.h"

#include "pager/device/queue.h"

#include <stdlib.h>

#include "pager/device/copy.h"

const char fy_queue_inherited[] =
    "the device belongs to the parent of this forked process";

static struct fy_queue *
queue_of(struct fy_stream *stream)
{
    return (struct fy_queue *)stream;
}

static void
append(struct fy_queue *q, struct fy_work *work)
{
    work->next = NULL;
    if (work->kind == FY_WORK_RECORD || work->kind == FY_WORK_WAIT) {
        struct fy_turns *turns = (struct fy_turns *)work->u.mark.event;
        turns->recorded += work->kind == FY_WORK_RECORD;
        turns->references++;
        work->u.mark.turn = turns->recorded;
    }
    if (q->tail) {
        q->tail->next = work;
    } else {
        q->head = work;
    }
    q->tail = work;
    q->bytes += work->bytes;
}

/* Appends a copy of *model; nothing has been taken when it fails. */
static int
enqueue(struct fy_stream *stream, const struct fy_work *model)
{
    struct fy_queue *q = queue_of(stream);
    if (*q->alive == 0) {
        return q->class->fail(q->device, FY_ERR_DEVICE, fy_queue_inherited);
    }
    struct fy_work *work = malloc(sizeof *work);
    if (!work) {
        return q->class->fail(q->device, FY_ERR_NOMEM,
                              "no memory for an operation");
    }
    *work = *model;
    pthread_mutex_lock(q->lock);
    const bool dead = q->class->is_dead && q->class->is_dead(stream);
    if (!dead) {
        append(q, work);
        q->class->added(stream);
    }
    pthread_mutex_unlock(q->lock);
    if (dead) {
        free(work);
    }
    return dead ? FY_ERR_DEVICE : 0;
}

int
fy_queue_copy(struct fy_stream *stream, const struct fy_copy *copy)
{
    struct fy_queue *q = queue_of(stream);
    struct fy_work work = {.kind = FY_WORK_COPY, .u.copy = *copy};
    if (copy->view.naxes < 1 || copy->view.naxes > FY_MAX_OPERAND_AXES ||
        copy->view.element_bytes == 0 ||
        (copy->view.sign != 0 && copy->view.naxes < 2)) {
        return q->class->fail(q->device, FY_ERR_INVALID, "malformed copy");
    }
    work.bytes = fy_view_all_elements(&copy->view) * copy->view.element_bytes;
    return enqueue(stream, &work);
}

int
fy_queue_launch(struct fy_stream *stream, const struct fy_launch *launch)
{
    struct fy_queue *q = queue_of(stream);
    struct fy_work work = {.kind = FY_WORK_LAUNCH};
    if (*q->alive == 0) {
        return q->class->fail(q->device, FY_ERR_DEVICE, fy_queue_inherited);
    }
    int status = q->class->prepare(stream, launch, &work.u.launch);
    if (status != 0) {
        return q->class->fail(q->device, status, "the call cannot be prepared");
    }
    status = enqueue(stream, &work);
    if (status != 0) {
        q->class->discard(work.u.launch);
    }
    return status;
}

int
fy_queue_record(struct fy_stream *stream, struct fy_event *event)
{
    struct fy_work work = {.kind = FY_WORK_RECORD, .u.mark.event = event};
    return enqueue(stream, &work);
}

int
fy_queue_wait(struct fy_stream *stream, struct fy_event *event)
{
    struct fy_work work = {.kind = FY_WORK_WAIT, .u.mark.event = event};
    return enqueue(stream, &work);
}

static void
finish(struct fy_queue *q, struct fy_work *work)
{
    if (work->kind == FY_WORK_LAUNCH) {
        q->class->discard(work->u.launch);
    } else if (work->kind != FY_WORK_COPY && q->class->release) {
        q->class->release(work->u.mark.event);
    }
    free(work);
}

bool
fy_queue_run(struct fy_stream *stream)
{
    struct fy_queue *q = queue_of(stream);
    struct fy_work *work = q->head;
    if (!work || q->running ||
        (work->kind == FY_WORK_WAIT && q->error == 0 && q->class->is_ready &&
         !q->class->is_ready(work->u.mark.event, work->u.mark.turn))) {
        return false;
    }
    q->head = work->next;
    if (!q->head) {
        q->tail = NULL;
    }
    q->bytes -= work->bytes;
    q->running = true;
    if (q->error == 0 || work->kind == FY_WORK_RECORD) {
        int status = q->class->execute(stream, work);
        q->error = q->error != 0 ? q->error : status;
    }
    finish(q, work);
    q->running = false;
    return true;
}

bool
fy_queue_is_idle(const struct fy_stream *stream)
{
    const struct fy_queue *q = (const struct fy_queue *)stream;
    return !q->head && !q->running;
}
