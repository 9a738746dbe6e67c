/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of requests. They are taken from the queue as they came. Until its node is
 * resolved to a descriptor, a SHARED request may run beside other ones, an ORDERED one
 * beside SHARED ones, an ALONE one beside none: so each request sees names as the
 * requests before it left them. ORDERED requests of one inode are also carried out one
 * after the other.
 */
#include "config.h"

#include "proxy/files/server/server.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    ACTIVE_MAX = 4096, /* requests that are not answered */
    ACTIVE_BYTES_MAX = 64 << 20,
    THREADS_LEAST = 4, /* workers wait for disks rather than compute */
};

/* ---- a request's life ---------------------------------------------------------------- */

static void
free_request(struct fy_files_request *request)
{
    struct fy_files_server *server = request->server;
    fy_files_return(server, request->object);
    fy_files_return(server, request->source);
    fy_files_out_free(&request->scratch);
    free(request->frame);
    free(request);
}

/* Called with the queue's lock held, as all functions that say so. */
static void
end_resolving(struct fy_files_queue *queue, struct fy_files_request *request)
{
    if (request->resolving) {
        request->resolving = false;
        queue->nresolving--;
        if (request->order == FY_FILES_ORDERED) {
            queue->ordering = false;
        } else if (request->order == FY_FILES_ALONE) {
            queue->alone = false;
        }
        if (queue->first) {
            (void)pthread_cond_signal(&queue->work);
        }
    }
}

void
fy_files_resolved(struct fy_files_request *request)
{
    struct fy_files_queue *queue = &request->server->queue;
    (void)pthread_mutex_lock(&queue->lock);
    end_resolving(queue, request);
    (void)pthread_mutex_unlock(&queue->lock);
}

/* The next request of the inode has its turn. Locked. */
static void
pass_turn(struct fy_files_queue *queue, struct fy_files_request *request)
{
    struct fy_files_object *object = request->object;
    struct fy_files_request *next = object->first;
    request->turned = false;
    if (!next) {
        object->taken = false;
        (void)pthread_cond_broadcast(&queue->turn);
        return;
    }
    object->first = next->next;
    if (!object->first) {
        object->last = &object->first;
    }
    next->next = NULL;
    next->turned = true;
    *queue->ready_last = next;
    queue->ready_last = &next->next;
    (void)pthread_cond_signal(&queue->work);
}

/* Takes the turn of its inode. False: it waits for it, or, ALONE, has waited in
 * vain. Locked. */
static bool
take_turn(struct fy_files_queue *queue, struct fy_files_request *request)
{
    struct fy_files_object *object = request->object;
    while (object->taken && request->order == FY_FILES_ALONE) {
        (void)pthread_cond_wait(&queue->turn, &queue->lock);
    }
    if (object->taken) {
        request->next = NULL;
        *object->last = request;
        object->last = &request->next;
        return false;
    }
    object->taken = request->turned = true;
    return true;
}

void
fy_files_take_turn(struct fy_files_request *request,
                   struct fy_files_object *object)
{
    struct fy_files_queue *queue = &request->server->queue;
    request->object = object;
    (void)pthread_mutex_lock(&queue->lock);
    (void)take_turn(queue, request);
    (void)pthread_mutex_unlock(&queue->lock);
}

static void
forget(struct fy_files_queue *queue, struct fy_files_request *request)
{
    *request->active_link = request->active_next;
    if (request->active_next) {
        request->active_next->active_link = request->active_link;
    }
    queue->nactive--;
    queue->active_bytes -= request->frame_bytes;
}

void
fy_files_finish(struct fy_files_request *request, int result,
                struct fy_files_message *answer)
{
    struct fy_files_server *server = request->server;
    struct fy_files_queue *queue = &server->queue;
    bool keep = fy_files_type_changes(request->message.type) && result <= 0;
    bool said = true;
    if (result <= 0) {
        answer->status = result;
        said = fy_files_say_message(server, answer, request->epoch, keep);
    }
    (void)pthread_mutex_lock(&queue->lock);
    if (request->turned) {
        pass_turn(queue, request);
    }
    end_resolving(queue, request);
    forget(queue, request);
    bool again = request->again && keep && !said;
    bool stalled = queue->stalled;
    queue->stalled = false;
    (void)pthread_mutex_unlock(&queue->lock);
    if (stalled) {
        fy_loop_ring(&server->loop);
    }
    if (again) {
        (void)fy_files_repeat(server, request->message.id);
    }
    free_request(request);
}

/* ---- carrying out ----------------------------------------------------------------------- */

/* Opens the named object. Negative errno. */
static int
resolve(struct fy_files_request *request)
{
    struct fy_files_server *server = request->server;
    const struct fy_files_message *message = &request->message;
    enum fy_files_access access = request->call->access;
    if (access == FY_FILES_NONE) {
        return 0;
    }
    if (message->type != FY_FILES_COPY) {
        return fy_files_borrow(server, &message->node, access,
                               &request->object);
    }
    int status = fy_files_borrow(server, &message->node, FY_FILES_READS,
                                 &request->source);
    return status ? status
                  : fy_files_borrow(server, &message->other, FY_FILES_WRITES,
                                    &request->object);
}

/* Whether it may be done at all. Negative errno. */
static int
admit(const struct fy_files_request *request)
{
    const struct fy_files_server *server = request->server;
    return fy_files_type_changes(request->message.type) &&
                   server->flags & FY_FILES_READ_ONLY
               ? -EROFS
               : 0;
}

static void
carry_out(struct fy_files_request *request)
{
    struct fy_files_queue *queue = &request->server->queue;
    struct fy_files_message answer = {
        .type = request->message.type,
        .frame_flags = FY_FILES_ANSWER,
        .id = request->message.id,
    };
    int result = 0;
    if (!request->turned) {
        result = admit(request);
        result = result ? result : resolve(request);
        (void)pthread_mutex_lock(&queue->lock);
        bool turn = result || request->order == FY_FILES_SHARED ||
                    !request->object || take_turn(queue, request);
        if (request->order == FY_FILES_ORDERED ||
            (request->order == FY_FILES_SHARED &&
             request->call->access != FY_FILES_NONE)) {
            end_resolving(queue, request);
        }
        (void)pthread_mutex_unlock(&queue->lock);
        if (!turn) {
            return;
        }
    }
    if (!result) {
        result = request->call->run(request, &answer);
    }
    if (result != FY_FILES_LATER) {
        fy_files_finish(request, result, &answer);
    }
}

/* Takes the next request that can begin; NULL: none. Locked. */
static struct fy_files_request *
pick(struct fy_files_queue *queue)
{
    struct fy_files_request *request = queue->ready;
    if (request) {
        queue->ready = request->next;
        if (!queue->ready) {
            queue->ready_last = &queue->ready;
        }
        return request;
    }
    request = queue->first;
    if (!request || queue->alone ||
        (request->order == FY_FILES_ALONE && queue->nresolving) ||
        (request->order == FY_FILES_ORDERED && queue->ordering)) {
        return NULL;
    }
    queue->first = request->next;
    if (!queue->first) {
        queue->last = &queue->first;
    }
    request->resolving = true;
    queue->nresolving++;
    queue->alone = request->order == FY_FILES_ALONE;
    queue->ordering = queue->ordering || request->order == FY_FILES_ORDERED;
    if (queue->first && !queue->alone) {
        (void)pthread_cond_signal(&queue->work);
    }
    return request;
}

static void *
work(void *argument)
{
    struct fy_files_queue *queue = argument;
    (void)pthread_mutex_lock(&queue->lock);
    for (;;) {
        struct fy_files_request *request = pick(queue);
        if (request) {
            (void)pthread_mutex_unlock(&queue->lock);
            carry_out(request);
            (void)pthread_mutex_lock(&queue->lock);
        } else if (queue->ended && !queue->first && !queue->nresolving) {
            break;
        } else {
            (void)pthread_cond_wait(&queue->work, &queue->lock);
        }
    }
    (void)pthread_cond_broadcast(&queue->work);
    (void)pthread_mutex_unlock(&queue->lock);
    return NULL;
}

/* ---- for the loop ------------------------------------------------------------------------ */

int
fy_files_queue_open(struct fy_files_server *server)
{
    struct fy_files_queue *queue = &server->queue;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned most = sizeof queue->threads / sizeof queue->threads[0];
    unsigned n = cores > THREADS_LEAST ? (unsigned)cores : THREADS_LEAST;
    queue->last = &queue->first;
    queue->ready_last = &queue->ready;
    if (pthread_mutex_init(&queue->lock, NULL) ||
        pthread_cond_init(&queue->work, NULL) ||
        pthread_cond_init(&queue->turn, NULL)) {
        return FY_ERR_NOMEM;
    }
    while (queue->nthreads < most && queue->nthreads < n &&
           pthread_create(&queue->threads[queue->nthreads], NULL, work,
                          queue) == 0) {
        queue->nthreads++;
    }
    /* Two: one may wait for the turn that another passes on. */
    return queue->nthreads >= 2 ? 0 : FY_ERR_NOMEM;
}

void
fy_files_queue_close(struct fy_files_server *server)
{
    struct fy_files_queue *queue = &server->queue;
    (void)pthread_mutex_lock(&queue->lock);
    queue->ended = true;
    (void)pthread_cond_broadcast(&queue->work);
    (void)pthread_mutex_unlock(&queue->lock);
    for (unsigned i = 0; i < queue->nthreads; i++) {
        (void)pthread_join(queue->threads[i], NULL);
    }
}

bool
fy_files_queue_has_room(struct fy_files_server *server)
{
    struct fy_files_queue *queue = &server->queue;
    (void)pthread_mutex_lock(&queue->lock);
    queue->stalled =
        queue->nactive >= ACTIVE_MAX || queue->active_bytes >= ACTIVE_BYTES_MAX;
    bool room = !queue->stalled;
    (void)pthread_mutex_unlock(&queue->lock);
    return room;
}

int
fy_files_queue_add(struct fy_files_server *server, char *frame, size_t n,
                   const struct fy_files_message *message)
{
    struct fy_files_queue *queue = &server->queue;
    struct fy_files_request *request = calloc(1, sizeof *request);
    if (!request) {
        free(frame);
        return FY_ERR_NOMEM;
    }
    request->server = server;
    request->epoch = server->sending.epoch; /* which the loop alone changes */
    request->frame = frame;
    request->frame_bytes = n;
    request->message = *message;
    request->call = &server->calls[message->type];
    request->order =
        message->type == FY_FILES_SETATTR && message->mask & FY_FILES_SET_SIZE
            ? FY_FILES_ALONE
            : request->call->order;
    (void)pthread_mutex_lock(&queue->lock);
    request->active_link = &queue->active;
    request->active_next = queue->active;
    if (queue->active) {
        queue->active->active_link = &request->active_next;
    }
    queue->active = request;
    queue->nactive++;
    queue->active_bytes += n;
    *queue->last = request;
    queue->last = &request->next;
    (void)pthread_cond_signal(&queue->work);
    (void)pthread_mutex_unlock(&queue->lock);
    return 0;
}

/* Whether that one is not answered yet. Locked. */
static struct fy_files_request *
find_active(struct fy_files_queue *queue, uint64_t id)
{
    struct fy_files_request *request = queue->active;
    while (request && request->message.id != id) {
        request = request->active_next;
    }
    return request;
}

bool
fy_files_again(struct fy_files_server *server, uint64_t id)
{
    struct fy_files_queue *queue = &server->queue;
    (void)pthread_mutex_lock(&queue->lock);
    struct fy_files_request *request = find_active(queue, id);
    if (request) {
        request->again = true; /* it is answered by its end */
    }
    (void)pthread_mutex_unlock(&queue->lock);
    return request || fy_files_repeat(server, id);
}

void
fy_files_cancel(struct fy_files_server *server, uint64_t id)
{
    struct fy_files_queue *queue = &server->queue;
    (void)pthread_mutex_lock(&queue->lock);
    struct fy_files_request *request = find_active(queue, id);
    if (request) {
        request->cancelled = true;
        if (request->waiting) {
            fy_files_lock_interrupt(request->waiting);
        }
    }
    (void)pthread_mutex_unlock(&queue->lock);
}
