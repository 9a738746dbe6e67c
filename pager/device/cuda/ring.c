/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each copying thread owns two page-locked slots: it packs one while the link
 * still transfers the other, and issues the transfer itself. So threads share
 * nothing but the number of the next piece, and the link always has a transfer
 * queued per thread. Slots are small enough to stay in the cache between the
 * thread and the link (a larger ring is read back from memory), and large
 * enough that the start of a transfer (about 5 us) is lost in it.
 *
 * Where there are processors enough, threads look for work a moment before they
 * sleep: waking twelve took 37 to 110 us on an H200's host, as long as the link needs
 * for 2 to 5 MB. Never writes host memory that a copy does not declare.
 */
#include "config.h"

#include "pager/device/cuda/ring.h"

#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "pager/device/copy.h"
#include "pager/device/cuda/internal.h"
#include "pager/device/cuda/users.h"
#include "pager/device/own_thread.h"

enum {
    SLOT_BYTES = 4 << 20,
    LEAST_PIECE_BYTES = 256 << 10,
    SMALL_SLOT_BYTES = 64 << 10,
    SMALL_COPY_BYTES = 256 << 10, /* not worth waking anybody */
    MOST_THREADS = 16,
    SAVES_WEIGHT = 12,
    LOOK_US = 50, /* threads look for work before they sleep */
};

/* One copy on its way. */
struct job {
    struct job *next;
    fy_cuda_handle stream;
    struct cuda_pieces pieces;
    bool out, saves;
    bool (*is_good)(const void *block, uint64_t bytes, const void *argument);
    const void *argument; /* of is_good, which only looks */
    uint64_t next_piece;
    unsigned active; /* pieces taken and not finished */
    int status;
};

/* A piece whose transfer out has been issued. */
struct pending {
    struct job *job; /* NULL: none */
    unsigned slot;
    struct cuda_piece piece;
};

struct worker {
    struct cuda_ring *ring;
    pthread_t thread;
    struct cuda_packer packer;
};

struct cuda_ring {
    struct cuda_device *device;
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    struct job *jobs;
    bool started, stop;
    bool looks;             /* threads look for work before they sleep */
    unsigned changes;       /* of the jobs; atomic */
    unsigned opening, live; /* threads that allocate their slots, that have */
    unsigned nworkers;
    struct worker workers[MOST_THREADS];
};

struct cuda_ring *
cuda_ring_new(struct cuda_device *device)
{
    struct cuda_ring *ring = calloc(1, sizeof *ring);
    if (!ring) {
        return NULL;
    }
    ring->device = device;
    if (pthread_mutex_init(&ring->lock, NULL) != 0) {
        goto free_ring;
    }
    if (pthread_cond_init(&ring->work, NULL) != 0) {
        goto destroy_lock;
    }
    if (pthread_cond_init(&ring->done, NULL) != 0) {
        goto destroy_work;
    }
    return ring;

destroy_work:
    pthread_cond_destroy(&ring->work);
destroy_lock:
    pthread_mutex_destroy(&ring->lock);
free_ring:
    free(ring);
    return NULL;
}

void
cuda_packer_free(struct cuda_packer *p)
{
    if (!p->device) {
        return;
    }
    const struct fy_cuda_driver *driver = p->device->driver;
    if (!cuda_is_dead(p->device)) {
        for (int i = 0; i < CUDA_SLOTS; i++) {
            if (p->slots[i].busy) {
                (void)driver->event_sync(p->slots[i].event);
            }
            if (p->slots[i].event) {
                (void)driver->event_destroy(p->slots[i].event);
            }
        }
        if (p->memory) {
            (void)driver->host_free(p->memory);
        }
    }
    memset(p, 0, sizeof *p);
}

static int
packer_open(struct cuda_packer *p, struct cuda_device *device,
            size_t slot_bytes)
{
    const struct fy_cuda_driver *driver = device->driver;
    if (p->device) {
        return 0;
    }
    p->device = device;
    int result = driver->host_alloc(&p->memory, CUDA_SLOTS * slot_bytes, 0);
    for (int i = 0; i < CUDA_SLOTS && result == 0; i++) {
        p->slots[i].memory = (char *)p->memory + (size_t)i * slot_bytes;
        result = driver->event_create(&p->slots[i].event,
                                      FY_CUDA_EVENT_BLOCKING_SYNC |
                                          FY_CUDA_EVENT_DISABLE_TIMING);
    }
    int status = cuda_status(device, "page-locked memory", result);
    if (status != 0) {
        cuda_packer_free(p);
    }
    /* It is the host's memory that has run out. */
    return status == FY_ERR_NOFIT ? FY_ERR_NOMEM : status;
}

/* The slot whose turn it is, once its last transfer is over. */
static int
take_slot(struct cuda_packer *p, unsigned *out)
{
    unsigned slot = p->turn % CUDA_SLOTS;
    if (p->slots[slot].busy) {
        int status =
            cuda_status(p->device, "a transfer",
                        cuda_event_reached(p->device, p->slots[slot].event));
        if (status != 0) {
            return status;
        }
        p->slots[slot].busy = false;
    }
    p->turn++;
    *out = slot;
    return 0;
}

/* Issues the transfer of a slot. */
static int
issue(struct cuda_packer *p, unsigned slot, const struct fy_copy *transfer,
      fy_cuda_handle stream)
{
    const struct fy_cuda_driver *driver = p->device->driver;
    int status = cuda_transfer(p->device, transfer, stream);
    int result = driver->event_record(p->slots[slot].event, stream);
    if (result != 0) {
        /* Nothing else says when the slot is free again. */
        (void)driver->stream_sync(stream);
        return status != 0 ? status
                           : cuda_status(p->device, "a transfer", result);
    }
    p->slots[slot].busy = true;
    return status;
}

/* A piece to the device: packed and issued. */
static int
send(struct cuda_packer *p, struct job *job, uint64_t index)
{
    struct cuda_piece piece;
    unsigned slot;
    int status = take_slot(p, &slot);
    if (status != 0 ||
        !cuda_piece_at(&job->pieces, index, p->slots[slot].memory, &piece)) {
        return status;
    }
    cuda_piece_blank(&piece);
    status = fy_copy_run_host(&piece.packing);
    return status != 0 ? status : issue(p, slot, &piece.transfer, job->stream);
}

/* A piece within the host's memory. */
static int
save(const struct job *job, uint64_t index)
{
    struct fy_copy c = *job->pieces.copy;
    struct cuda_piece piece;
    if (!cuda_piece_at(&job->pieces, index, NULL, &piece)) {
        return 0;
    }
    c.view = piece.packing.view;
    c.device = piece.transfer.device;
    return fy_copy_run_host(&c);
}

/* A piece that is only looked at. */
static int
look(struct cuda_packer *p, const struct job *job, uint64_t index)
{
    struct cuda_piece piece;
    unsigned slot = 0;
    int status = take_slot(p, &slot);
    void *memory = p->slots[slot].memory;
    if (status != 0 || !cuda_piece_at(&job->pieces, index, memory, &piece)) {
        return status;
    }
    cuda_piece_blank(&piece);
    status = fy_copy_run_host(&piece.packing);
    uint64_t bytes = fy_view_all_elements(&piece.transfer.view) *
                     piece.transfer.view.element_bytes;
    return status != 0                                  ? status
           : job->is_good(memory, bytes, job->argument) ? 0
                                                        : FY_ERR_UNSUPPORTED;
}

/* The end of a piece to the host. */
static int
deliver(struct cuda_packer *p, struct pending *pending)
{
    int status = cuda_status(
        p->device, "a transfer",
        cuda_event_reached(p->device, p->slots[pending->slot].event));
    if (status == 0) {
        p->slots[pending->slot].busy = false;
        status = fy_copy_run_host(&pending->piece.packing);
    }
    return status;
}

/* The beginning of one; pending->job stays NULL when it is empty. */
static int
fetch(struct cuda_packer *p, struct job *job, uint64_t index,
      struct pending *pending)
{
    int status = take_slot(p, &pending->slot);
    if (status != 0 ||
        !cuda_piece_at(&job->pieces, index, p->slots[pending->slot].memory,
                       &pending->piece)) {
        return status;
    }
    status = issue(p, pending->slot, &pending->piece.transfer, job->stream);
    if (status == 0) {
        pending->job = job;
    }
    return status;
}

/* The whole job on one thread. */
static int
run_alone(struct cuda_packer *p, struct job *job)
{
    struct pending one = {.job = NULL}, two;
    int status = 0;
    for (uint64_t i = 0; i < job->pieces.npieces && status == 0; i++) {
        if (!job->out) {
            status = send(p, job, i);
            continue;
        }
        two.job = NULL;
        status = fetch(p, job, i, &two);
        if (status == 0 && one.job) {
            status = deliver(p, &one);
        }
        one = two;
    }
    if (status == 0 && one.job) {
        status = deliver(p, &one);
    }
    return status;
}

static unsigned
wanted_threads(void)
{
    unsigned count = fy_own_cpus();
    return count > MOST_THREADS ? MOST_THREADS : count;
}

/* Waits for a change of the jobs, awake at first. Lock held, but meanwhile. */
static void
wait_for(struct cuda_ring *ring, pthread_cond_t *condition)
{
    unsigned seen = __atomic_load_n(&ring->changes, __ATOMIC_RELAXED);
    if (ring->looks) {
        pthread_mutex_unlock(&ring->lock);
        const double until = fy_clock_seconds() + 1e-6 * LOOK_US;
        while (__atomic_load_n(&ring->changes, __ATOMIC_RELAXED) == seen &&
               fy_clock_seconds() < until) {
            __asm__ volatile("" ::: "memory");
        }
        pthread_mutex_lock(&ring->lock);
    }
    if (__atomic_load_n(&ring->changes, __ATOMIC_RELAXED) == seen) {
        pthread_cond_wait(condition, &ring->lock);
    }
}

/* Lock held. */
static void
changed(struct cuda_ring *ring, pthread_cond_t *condition)
{
    (void)__atomic_add_fetch(&ring->changes, 1, __ATOMIC_RELAXED);
    pthread_cond_broadcast(condition);
}

/* A piece is over; wakes whoever waits for the job. Lock held. */
static void
finish(struct cuda_ring *ring, struct job *job, int status)
{
    job->active--;
    if (status != 0 && job->status == 0) {
        job->status = status;
        job->next_piece = job->pieces.npieces;
    }
    if (job->active == 0 && job->next_piece == job->pieces.npieces) {
        changed(ring, &ring->done);
    }
}

/* Threads that a job has, as they count against others: no step waits for old content yet. */
static unsigned
weight(const struct job *job)
{
    return job->saves ? SAVES_WEIGHT * job->active : job->active;
}

/* The job with pieces left that has the fewest threads. Lock held. */
static struct job *
pick(const struct cuda_ring *ring)
{
    struct job *best = NULL;
    for (struct job *job = ring->jobs; job; job = job->next) {
        if (job->next_piece < job->pieces.npieces &&
            (!best || weight(job) < weight(best))) {
            best = job;
        }
    }
    return best;
}

/* Serves jobs until the ring stops. Lock held, but for the work itself. */
static void
serve(struct cuda_ring *ring, struct cuda_packer *packer)
{
    struct pending last = {.job = NULL}, next;
    for (;;) {
        struct job *job = pick(ring);
        if (!job && !last.job) {
            if (ring->stop) {
                return;
            }
            wait_for(ring, &ring->work);
            continue;
        }
        uint64_t index = 0;
        int status = 0, delivered = 0;
        next.job = NULL;
        if (job) {
            index = job->next_piece++;
            job->active++;
        }
        pthread_mutex_unlock(&ring->lock);
        if (job) {
            status = job->saves     ? save(job, index)
                     : job->is_good ? look(packer, job, index)
                     : job->out     ? fetch(packer, job, index, &next)
                                    : send(packer, job, index);
        }
        if (last.job) {
            delivered = deliver(packer, &last);
        }
        pthread_mutex_lock(&ring->lock);
        if (last.job) {
            finish(ring, last.job, delivered);
        }
        if (job && !next.job) {
            finish(ring, job, status);
        }
        last = next;
    }
}

static void *
work(void *argument)
{
    struct worker *worker = argument;
    struct cuda_ring *ring = worker->ring;
    struct cuda_device *device = ring->device;
    int status = FY_ERR_DEVICE;
    cuda_thread_begins();
    pthread_mutex_lock(&device->lock);
    device->inside++;
    bool dead = device->dead;
    pthread_mutex_unlock(&device->lock);
    if (!dead && device->driver->context_push(device->context) == 0) {
        (void)cuda_relax(device);
        status = packer_open(&worker->packer, device, SLOT_BYTES);
    }
    cuda_come_out(device);
    pthread_mutex_lock(&ring->lock);
    ring->opening--;
    if (status == 0) {
        ring->live++;
    }
    pthread_cond_broadcast(&ring->done);
    if (status == 0) {
        serve(ring, &worker->packer);
    }
    while (!ring->stop) {
        pthread_cond_wait(&ring->work, &ring->lock);
    }
    pthread_mutex_unlock(&ring->lock);
    cuda_packer_free(&worker->packer);
    return NULL;
}

/* How many threads can take pieces; starts them. Lock held. */
static unsigned
start(struct cuda_ring *ring)
{
    if (!ring->started) {
        ring->started = true;
        unsigned wanted = wanted_threads();
        ring->looks = wanted >= CUDA_LOOKS;
        for (unsigned i = 0; i < wanted; i++) {
            struct worker *worker = &ring->workers[ring->nworkers];
            worker->ring = ring;
            if (fy_own_thread_start(&worker->thread, CUDA_STACK_BYTES, work,
                                    worker) != 0) {
                break;
            }
            ring->opening++;
            ring->nworkers++;
        }
    }
    while (ring->live == 0 && ring->opening > 0) {
        pthread_cond_wait(&ring->done, &ring->lock);
    }
    return ring->live;
}

static void
cut(struct job *job, const struct fy_copy *copy, uint64_t bytes, uint64_t most)
{
    uint64_t least = copy->view.element_bytes;
    cuda_pieces_init(&job->pieces, copy,
                     bytes < least  ? least
                     : bytes > most ? most
                                    : bytes);
}

/* The job by all threads. False: there are none. */
static bool
run_together(struct cuda_ring *ring, struct job *job,
             const struct fy_copy *copy, uint64_t bytes)
{
    pthread_mutex_lock(&ring->lock);
    unsigned threads = start(ring);
    if (threads > 0) {
        uint64_t share = bytes / (2 * (uint64_t)wanted_threads());
        share = share < LEAST_PIECE_BYTES ? LEAST_PIECE_BYTES : share;
        cut(job, copy, share, SLOT_BYTES);
        job->next = ring->jobs;
        ring->jobs = job;
        changed(ring, &ring->work);
        while (job->active > 0 || job->next_piece < job->pieces.npieces) {
            wait_for(ring, &ring->done);
        }
        struct job **link = &ring->jobs;
        while (*link != job) {
            link = &(*link)->next;
        }
        *link = job->next;
    }
    pthread_mutex_unlock(&ring->lock);
    return threads > 0;
}

int
cuda_ring_save(struct fy_device *base, const struct fy_copy *copy)
{
    struct cuda_device *device = (struct cuda_device *)base;
    struct job job = {.saves = true};
    uint64_t bytes =
        fy_view_all_elements(&copy->view) * copy->view.element_bytes;
    int cancel;
    if (bytes <= SMALL_COPY_BYTES || !cuda_is_ours(device)) {
        return fy_copy_run_host(copy);
    }
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    bool together = run_together(device->ring, &job, copy, bytes);
    (void)pthread_setcancelstate(cancel, NULL);
    return together ? job.status : fy_copy_run_host(copy);
}

int
cuda_ring_look(struct fy_device *base, const struct fy_view *view,
               bool (*is_good)(const void *block, uint64_t bytes,
                               const void *argument),
               const void *argument)
{
    struct cuda_device *device = (struct cuda_device *)base;
    struct fy_copy copy = {.direction = FY_TO_DEVICE, .view = *view};
    struct job job = {.is_good = is_good, .argument = argument};
    uint64_t bytes = fy_view_all_elements(view) * view->element_bytes;
    int cancel;
    if (bytes <= SMALL_COPY_BYTES || !cuda_is_ours(device)) {
        return FY_ERR_DEVICE;
    }
    (void)fy_view_pack(view, copy.device_stride);
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    bool together = run_together(device->ring, &job, &copy, bytes);
    (void)pthread_setcancelstate(cancel, NULL);
    return together ? job.status : FY_ERR_DEVICE;
}

int
cuda_ring_copy(struct fy_stream *stream, const struct fy_copy *copy)
{
    struct cuda_device *device = stream->device;
    struct cuda_ring *ring = device->ring;
    struct job job = {.stream = stream->handle,
                      .out = copy->direction == FY_TO_HOST};
    uint64_t bytes =
        fy_view_all_elements(&copy->view) * copy->view.element_bytes;
    if (copy->view.element_bytes > SMALL_SLOT_BYTES) {
        return cuda_error(device, FY_ERR_UNSUPPORTED, "elements too large");
    }
    if (bytes > SMALL_COPY_BYTES && run_together(ring, &job, copy, bytes)) {
        return job.status;
    }
    int status = packer_open(&stream->own, device, SMALL_SLOT_BYTES);
    if (status != 0) {
        return status;
    }
    cut(&job, copy, SMALL_SLOT_BYTES, SMALL_SLOT_BYTES);
    return run_alone(&stream->own, &job);
}

void
cuda_ring_free(struct cuda_ring *ring)
{
    if (!ring) {
        return;
    }
    pthread_mutex_lock(&ring->lock);
    ring->stop = true;
    changed(ring, &ring->work);
    pthread_mutex_unlock(&ring->lock);
    for (unsigned i = 0; i < ring->nworkers; i++) {
        pthread_join(ring->workers[i].thread, NULL);
    }
    pthread_cond_destroy(&ring->done);
    pthread_cond_destroy(&ring->work);
    pthread_mutex_destroy(&ring->lock);
    free(ring);
}
