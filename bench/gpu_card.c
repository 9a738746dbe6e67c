/* SPDX-License-Identifier: Apache-2.0 */
/* See gpu_card.h: opening the card, and copies by threads. */
#include "config.h"

#include "bench/gpu_card.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SLOTS = 2,
    MOVE_BYTES = 32 << 20, /* pieces of a whole matrix */
};

/* One copying thread's own, kept for the life of the process. */
struct lane {
    fy_cuda_handle stream, busy[SLOTS];
    void *slot[SLOTS];
    size_t slot_bytes;
    bool used[SLOTS];
};

static struct lane lanes[2][CARD_THREADS_MAX];
static struct card the_card;

struct mover {
    struct card *card;
    struct piece *pieces;
    int count;
    bool out, straight;
    _Atomic int next, lane;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t threads[CARD_THREADS_MAX];
    int started;
};

void
bench_must(const char *what, int result)
{
    if (result != 0) {
        (void)fprintf(stderr, "gpu_calls: %s: error %d\n", what, result);
        exit(EXIT_FAILURE);
    }
}

void *
bench_function(void *library, const char *name)
{
    return library == NULL ? NULL : dlsym(library, name);
}

static void *
open_library(const char *const *names)
{
    char path[128];
    for (; *names != NULL; names++) {
        void *library = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
        if (library == NULL) {
            (void)snprintf(path, sizeof path, "/usr/local/cuda/lib64/%s",
                           *names);
            library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        }
        if (library != NULL) {
            return library;
        }
    }
    return NULL;
}

bool
bench_find(void *library, const char *name, void *out)
{
    void *function = dlsym(library, name);
    memcpy(out, &function, sizeof function);
    return function != NULL;
}

static bool
load_driver(struct card *card)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        return false;
    }
#define LOAD(member, name, parameters)                      \
    if (!bench_find(library, name, &card->driver.member)) { \
        return false;                                       \
    }
    FY_CUDA_FUNCTIONS(LOAD)
#undef LOAD
    return bench_find(library, "cuMemHostRegister_v2", &card->host_register) &&
           bench_find(library, "cuMemHostUnregister", &card->host_unregister);
}

static void *
make_handle(void *library, const char *create_name, const char *stream_name,
            fy_cuda_handle stream)
{
    int (*create)(void **handle), (*set_stream)(void *, fy_cuda_handle);
    void *handle;
    if (!bench_find(library, create_name, &create) ||
        !bench_find(library, stream_name, &set_stream)) {
        return NULL;
    }
    bench_must(create_name, create(&handle));
    bench_must(stream_name, set_stream(handle, stream));
    return handle;
}

struct card *
bench_card(const char **why)
{
    static const char *const cublas[] = {"libcublas.so.13", "libcublas.so.12",
                                         NULL};
    static const char *const cusolver[] = {"libcusolver.so.12",
                                           "libcusolver.so.11", NULL};
    struct card *card = &the_card;
    struct fy_cuda_driver *driver = &card->driver;
    int devices = 0;
    if (card->blas != NULL) {
        return card;
    }
    if (!load_driver(card) || driver->init(0) != 0 ||
        driver->device_count(&devices) != 0 || devices == 0) {
        *why = "no CUDA card";
        return NULL;
    }
    bench_must("cuDeviceGet", driver->device_get(&card->device, 0));
    bench_must("context", driver->context_retain(&card->context, card->device));
    bench_must("context", driver->context_push(card->context));
    bench_must("stream", driver->stream_create(&card->compute,
                                               FY_CUDA_STREAM_NON_BLOCKING));
    card->cublas = open_library(cublas);
    card->cusolver = open_library(cusolver);
    if (card->cublas == NULL) {
        *why = "no cuBLAS";
        return NULL;
    }
    card->blas = make_handle(card->cublas, "cublasCreate_v2",
                             "cublasSetStream_v2", card->compute);
    if (card->cusolver != NULL) {
        card->solver = make_handle(card->cusolver, "cusolverDnCreate",
                                   "cusolverDnSetStream", card->compute);
    }
    if (card->blas == NULL) {
        *why = "cuBLAS lacks a function";
        return NULL;
    }
    return card;
}

uint64_t
bench_card_alloc(struct card *card, size_t bytes)
{
    uint64_t address;
    bench_must("cuMemAlloc", card->driver.alloc(&address, bytes));
    return address;
}

/* Makes sure that the lane has slots of that size. */
static void
prepare_lane(struct card *card, struct lane *lane, size_t bytes)
{
    struct fy_cuda_driver *driver = &card->driver;
    if (lane->stream == NULL) {
        bench_must("stream", driver->stream_create(
                                 &lane->stream, FY_CUDA_STREAM_NON_BLOCKING));
        for (int s = 0; s < SLOTS; s++) {
            bench_must("event",
                       driver->event_create(&lane->busy[s],
                                            FY_CUDA_EVENT_DISABLE_TIMING));
        }
    }
    if (lane->slot_bytes >= bytes) {
        return;
    }
    for (int s = 0; s < SLOTS; s++) {
        if (lane->slot[s] != NULL) {
            bench_must("cuMemFreeHost", driver->host_free(lane->slot[s]));
        }
        lane->used[s] = false;
        bench_must("cuMemHostAlloc",
                   driver->host_alloc(&lane->slot[s], bytes, 0));
        if (!bench_is_simulated()) {
            memset(lane->slot[s], 0, bytes);
        }
    }
    lane->slot_bytes = bytes;
}

/* The rectangle between host memory (or a slot) and the device. */
static void
transfer(struct card *card, const struct piece *p, bool out, void *host,
         size_t host_pitch, fy_cuda_handle stream)
{
    struct fy_cuda_copy2 copy = {.width_bytes = p->width_bytes,
                                 .height = p->rows};
    if (out) {
        copy.from_type = FY_CUDA_MEMORY_DEVICE;
        copy.from_device = p->device;
        copy.from_pitch = p->device_pitch;
        copy.to_type = FY_CUDA_MEMORY_HOST;
        copy.to_host = host;
        copy.to_pitch = host_pitch;
    } else {
        copy.from_type = FY_CUDA_MEMORY_HOST;
        copy.from_host = host;
        copy.from_pitch = host_pitch;
        copy.to_type = FY_CUDA_MEMORY_DEVICE;
        copy.to_device = p->device;
        copy.to_pitch = p->device_pitch;
    }
    bench_must("cuMemcpy2DAsync", card->driver.copy2(&copy, stream));
}

static void
move_in(struct mover *mover, struct lane *lane, struct piece *p, int slot)
{
    struct fy_cuda_driver *driver = &mover->card->driver;
    if (mover->straight) {
        transfer(mover->card, p, false, p->host, p->host_pitch, lane->stream);
    } else {
        if (lane->used[slot]) {
            bench_must("event", driver->event_sync(lane->busy[slot]));
        }
        bench_copy_rows(lane->slot[slot], p->width_bytes, p->host,
                        p->host_pitch, p->width_bytes, p->rows);
        transfer(mover->card, p, false, lane->slot[slot], p->width_bytes,
                 lane->stream);
        bench_must("event",
                   driver->event_record(lane->busy[slot], lane->stream));
        lane->used[slot] = true;
    }
    bench_must("event", driver->event_record(p->event, lane->stream));
    (void)pthread_mutex_lock(&mover->lock);
    p->issued = true;
    (void)pthread_cond_broadcast(&mover->changed);
    (void)pthread_mutex_unlock(&mover->lock);
}

static void
wait_issued(struct mover *mover, const struct piece *p)
{
    (void)pthread_mutex_lock(&mover->lock);
    while (!p->issued) {
        (void)pthread_cond_wait(&mover->changed, &mover->lock);
    }
    (void)pthread_mutex_unlock(&mover->lock);
}

static void
move_out(struct mover *mover, struct lane *lane, struct piece *p)
{
    struct fy_cuda_driver *driver = &mover->card->driver;
    wait_issued(mover, p);
    bench_must("wait", driver->stream_wait(lane->stream, p->event, 0));
    if (mover->straight) {
        transfer(mover->card, p, true, p->host, p->host_pitch, lane->stream);
        return;
    }
    transfer(mover->card, p, true, lane->slot[0], p->width_bytes, lane->stream);
    bench_must("cuStreamSynchronize", driver->stream_sync(lane->stream));
    bench_copy_rows(p->host, p->host_pitch, lane->slot[0], p->width_bytes,
                    p->width_bytes, p->rows);
}

static void *
mover_body(void *argument)
{
    struct mover *mover = argument;
    struct lane *lane = &lanes[mover->out][atomic_fetch_add(&mover->lane, 1)];
    struct card *card = mover->card;
    int slot = 0;
    bench_must("context", card->driver.context_push(card->context));
    for (;;) {
        int i = atomic_fetch_add(&mover->next, 1);
        if (i >= mover->count) {
            break;
        }
        if (mover->out) {
            move_out(mover, lane, &mover->pieces[i]);
        } else {
            move_in(mover, lane, &mover->pieces[i], slot);
            slot = (slot + 1) % SLOTS;
        }
    }
    bench_must("cuStreamSynchronize", card->driver.stream_sync(lane->stream));
    return NULL;
}

struct mover *
bench_mover_start(struct card *card, struct piece *pieces, int count, bool out,
                  bool straight)
{
    struct mover *mover = calloc(1, sizeof *mover);
    int threads = bench_threads();
    size_t bytes = 0;
    if (mover == NULL) {
        abort();
    }
    threads = straight                     ? 1
              : threads > CARD_THREADS_MAX ? CARD_THREADS_MAX
                                           : threads;
    *mover = (struct mover){.card = card,
                            .pieces = pieces,
                            .count = count,
                            .out = out,
                            .straight = straight};
    (void)pthread_mutex_init(&mover->lock, NULL);
    (void)pthread_cond_init(&mover->changed, NULL);
    for (int i = 0; i < count; i++) {
        size_t b = pieces[i].width_bytes * pieces[i].rows;
        bytes = b > bytes ? b : bytes;
        pieces[i].issued = false;
        if (pieces[i].event == NULL) {
            bench_must("event",
                       card->driver.event_create(&pieces[i].event,
                                                 FY_CUDA_EVENT_DISABLE_TIMING));
        }
    }
    for (int t = 0; t < threads; t++) {
        prepare_lane(card, &lanes[out][t], straight ? 0 : bytes);
    }
    for (; mover->started < threads; mover->started++) {
        bench_must("pthread_create",
                   pthread_create(&mover->threads[mover->started], NULL,
                                  mover_body, mover));
    }
    return mover;
}

void
bench_mover_await(struct mover *mover, int piece, fy_cuda_handle stream)
{
    struct piece *p = &mover->pieces[piece];
    wait_issued(mover, p);
    bench_must("wait", mover->card->driver.stream_wait(stream, p->event, 0));
}

void
bench_mover_allow(struct mover *mover, int piece, fy_cuda_handle stream)
{
    struct piece *p = &mover->pieces[piece];
    bench_must("event", mover->card->driver.event_record(p->event, stream));
    (void)pthread_mutex_lock(&mover->lock);
    p->issued = true;
    (void)pthread_cond_broadcast(&mover->changed);
    (void)pthread_mutex_unlock(&mover->lock);
}

void
bench_mover_end(struct mover *mover)
{
    while (mover->started > 0) {
        (void)pthread_join(mover->threads[--mover->started], NULL);
    }
    for (int i = 0; i < mover->count; i++) {
        bench_must("event",
                   mover->card->driver.event_destroy(mover->pieces[i].event));
    }
    (void)pthread_mutex_destroy(&mover->lock);
    (void)pthread_cond_destroy(&mover->changed);
    free(mover);
}

void
bench_card_move(struct card *card, const struct matrix *m, uint64_t device,
                bool out)
{
    size_t bytes =
        (size_t)m->rows * (size_t)m->columns * bench_element_bytes(m->type);
    int count = (int)((bytes + MOVE_BYTES - 1) / MOVE_BYTES);
    struct piece *pieces = calloc((size_t)count, sizeof *pieces);
    if (pieces == NULL) {
        abort();
    }
    for (int i = 0; i < count; i++) {
        size_t at = (size_t)i * MOVE_BYTES, left = bytes - at;
        size_t width = left < MOVE_BYTES ? left : MOVE_BYTES;
        pieces[i] = (struct piece){.host = (char *)m->data + at,
                                   .device = device + at,
                                   .width_bytes = width,
                                   .rows = 1,
                                   .host_pitch = width,
                                   .device_pitch = width};
    }
    struct mover *mover = bench_mover_start(card, pieces, count, out, false);
    for (int i = 0; out && i < count; i++) {
        bench_mover_allow(mover, i, card->compute);
    }
    bench_mover_end(mover);
    free(pieces);
}
