/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams of the fake device: a queue and a thread each, which takes its time,
 * more or less of it by seed. Sometimes an operation is over before its
 * submission returns, as a fast device's would be: a program that changes its
 * buffer then was lucky, and only then.
 */
#include "config.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/fakecuda/clock.h"
#include "tests/fakecuda/machine.h"

static __thread bool on_stream_thread;
static __thread bool holds_engine;

bool
fake_on_stream_thread(void)
{
    return on_stream_thread;
}

static void
nap_us(uint64_t us)
{
    struct timespec time = {(time_t)(us / 1000000),
                            (long)(us % 1000000) * 1000};

    if (us != 0) {
        (void)nanosleep(&time, NULL);
    }
}

/* Mostly soon, sometimes late, now and then very late. */
static void
nap(void)
{
    uint64_t delay_us = fake_delay_us();
    uint64_t kind = fakecuda_random(16);

    if (delay_us != 0 && kind >= 8) {
        nap_us(fakecuda_random(kind < 14 ? delay_us : delay_us * 8) + 1);
    }
}

void
fakecuda_pause(void)
{
    if (holds_engine && fakecuda_random(4) == 0) {
        (void)pthread_mutex_unlock(&machine.engine);
        nap();
        (void)pthread_mutex_lock(&machine.engine);
    }
}

static uint64_t
now_ns(void)
{
    struct timespec time;

    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

void
fake_moment_release(struct fake_moment *moment)
{
    if (moment != NULL && --moment->holders == 0) {
        free(moment);
    }
}

/* Whether every byte that the operation uses is memory. */
static bool
uses_exist(const struct fake_operation *operation)
{
    for (size_t i = 0; i < operation->n_uses; i++) {
        const struct fake_use *use = &operation->uses[i];
        size_t bytes = use->pitch_bytes * (use->rows - 1) + use->width_bytes;

        if (use->rows != 0 && use->width_bytes != 0 &&
            fakecuda_at(use->address, bytes) == NULL) {
            fakecuda_note("illegal-address", "%s: use %zu, %zu bytes at %#llx",
                          operation->name, i, bytes,
                          (unsigned long long)use->address);
            return false;
        }
    }
    return true;
}

/* Without machine.lock: the operation itself. */
static int
perform(struct fake_operation *operation)
{
    int result = fake_operation_fault();

    if (result != 0) {
        fakecuda_note("injected", "operation %s: %d", operation->name, result);
        return result;
    }
    if (operation->alone) {
        return operation->run(operation->argument);
    }
    (void)pthread_mutex_lock(&machine.engine);
    holds_engine = true;
    result = uses_exist(operation) ? operation->run(operation->argument)
                                   : CUDA_ERROR_ILLEGAL_ADDRESS;
    holds_engine = false;
    (void)pthread_mutex_unlock(&machine.engine);
    return result;
}

static void
hold(const struct fake_operation *operation, size_t i, int by)
{
    const struct fake_use *use = &operation->uses[i];

    if (use->rows != 0 && use->width_bytes != 0) {
        fake_hold(operation->held[i], use->address,
                  use->pitch_bytes * (use->rows - 1) + use->width_bytes, by);
    }
    operation->held[i]->pending += (unsigned)by;
}

/* Runs the head of the queue. Called and left with machine.lock. */
static void
run_head(struct fake_stream *stream, bool at_once)
{
    struct fake_operation *operation = stream->head;
    int result = 0;

    stream->running = true;
    if (operation->clock != NULL) {
        fake_host_join(operation->clock);
    }
    if (operation->run != NULL && stream->context->sticky == 0) {
        (void)pthread_mutex_unlock(&machine.lock);
        if (!at_once) {
            nap();
        }
        nap_us(fake_slowness_us(operation->name));
        if (operation->cost.ns != 0) {
            fake_engine_run(&operation->cost);
        }
        result = operation->cost.real ? perform(operation) : CUDA_SUCCESS;
        (void)pthread_mutex_lock(&machine.lock);
    }
    if (result != 0 && stream->context->sticky == 0) {
        stream->context->sticky = result;
    }
    if (operation->moment != NULL) {
        operation->moment->ns = now_ns();
        fake_moment_release(operation->moment);
    }
    for (size_t i = 0; i < operation->n_uses; i++) {
        if (operation->held[i] != NULL) {
            hold(operation, i, -1);
        }
    }
    stream->head = operation->next;
    if (stream->head == NULL) {
        stream->tail = &stream->head;
    }
    stream->completed = operation->ticket;
    stream->running = false;
    free(operation->clock);
    free(operation->argument);
    free(operation);
    (void)pthread_cond_broadcast(&machine.done);
    (void)pthread_cond_signal(&stream->work);
}

static void *
stream_thread(void *argument)
{
    struct fake_stream *stream = argument;

    on_stream_thread = true;
    if (fakecuda_is_modelled()) {
        fakeclock_device(true);
    }
    (void)pthread_mutex_lock(&machine.lock);
    while (!machine.ended) {
        struct fake_operation *head = stream->head;

        if (head == NULL && stream->destroyed) {
            break;
        }
        if (head == NULL || stream->running) {
            (void)pthread_cond_wait(&stream->work, &machine.lock);
        } else if (head->after != NULL &&
                   head->after->completed < head->after_ticket) {
            (void)pthread_cond_wait(&machine.done, &machine.lock);
        } else {
            run_head(stream, false);
        }
    }
    machine.threads--;
    (void)pthread_cond_broadcast(&machine.done);
    (void)pthread_mutex_unlock(&machine.lock);
    return NULL;
}

/* The program's signals are none of its streams' business. */
static bool
start_thread(struct fake_stream *stream)
{
    sigset_t all, before;
    pthread_attr_t attributes;
    pthread_t thread;
    int failed;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    (void)pthread_attr_init(&attributes);
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    failed = pthread_create(&thread, &attributes, stream_thread, stream);
    (void)pthread_attr_destroy(&attributes);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    stream->started = failed == 0;
    machine.threads += failed == 0;
    return failed == 0;
}

struct fake_operation *
fake_operation_new(const char *name, int (*run)(void *), const void *argument,
                   size_t bytes)
{
    struct fake_operation *operation = calloc(1, sizeof(*operation));

    if (operation == NULL) {
        return NULL;
    }
    operation->name = name;
    operation->cost.real = true;
    operation->run = run;
    operation->argument = malloc(bytes + 1);
    if (operation->argument == NULL) {
        free(operation);
        return NULL;
    }
    if (bytes != 0) {
        memcpy(operation->argument, argument, bytes);
    }
    return operation;
}

static void
append(struct fake_stream *stream, struct fake_operation *operation)
{
    for (size_t i = 0; i < operation->n_uses; i++) {
        operation->held[i] = fake_find_any(operation->uses[i].address);
        if (operation->held[i] != NULL) {
            hold(operation, i, 1);
        }
    }
    if (!fakecuda_is_modelled()) {
        fake_race_submit(stream, operation);
    }
    operation->ticket = ++stream->submitted;
    *stream->tail = operation;
    stream->tail = &operation->next;
}

static void
append_wait(struct fake_stream *stream, struct fake_stream *after)
{
    struct fake_operation *wait;

    fake_clock_join(&stream->clock, &after->clock);
    if (after == stream || after->completed == after->submitted) {
        return;
    }
    wait = fake_operation_new("wait", NULL, NULL, 0);
    if (wait != NULL) {
        wait->after = after;
        wait->after_ticket = after->submitted;
        append(stream, wait);
    }
}

/* The NULL stream waits for all blocking streams, and they for it. */
static void
append_legacy_waits(struct fake_stream *stream)
{
    struct fake_stream *legacy = stream->context->legacy;

    if (stream == legacy) {
        for (struct fake_stream *other = machine.streams; other != NULL;
             other = other->next) {
            if (other->context == stream->context &&
                (other->flags & CU_STREAM_NON_BLOCKING) == 0) {
                append_wait(stream, other);
            }
        }
    } else if ((stream->flags & CU_STREAM_NON_BLOCKING) == 0) {
        append_wait(stream, legacy);
    }
}

/* Without a thread to be had, the caller does the work. */
static void
wake(struct fake_stream *stream)
{
    while (stream->head != NULL && !stream->started && !start_thread(stream)) {
        run_head(stream, true);
    }
    (void)pthread_cond_signal(&stream->work);
}

void
fake_submit(struct fake_stream *stream, struct fake_operation *operation)
{
    bool at_once;

    append_legacy_waits(stream);
    at_once = !fakecuda_is_modelled() && stream->head == NULL &&
              operation->run != NULL && !operation->alone &&
              operation->after == NULL &&
              fake_slowness_us(operation->name) == 0 && fakecuda_random(4) == 0;
    append(stream, operation);
    if (at_once) {
        run_head(stream, true);
    }
    wake(stream);
}

int
fake_stream_get(CUstream handle, struct fake_stream **stream)
{
    struct fake_context *context = fake_current();

    if (context == NULL) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    if (handle == NULL || handle == CU_STREAM_LEGACY) {
        *stream = context->legacy;
        return CUDA_SUCCESS;
    }
    if (!fakecuda_valid(handle, FAKE_STREAM)) {
        fakecuda_note("bad-stream", "%p", (void *)handle);
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (handle->context != context) {
        fakecuda_note("bad-stream", "%p of another context", (void *)handle);
        return CUDA_ERROR_INVALID_HANDLE;
    }
    *stream = handle;
    return CUDA_SUCCESS;
}

int
fakecuda_stream_check(CUstream handle)
{
    struct fake_stream *stream;
    int result;

    (void)pthread_mutex_lock(&machine.lock);
    result = fake_stream_get(handle, &stream);
    (void)pthread_mutex_unlock(&machine.lock);
    return result;
}

int
fakecuda_submit(CUstream handle, const char *name, int (*run)(void *),
                const void *argument, size_t bytes, const struct fake_use *uses,
                size_t count)
{
    struct fake_operation *operation;
    struct fake_stream *stream;
    int result;

    operation = fake_operation_new(name, run, argument, bytes);
    if (operation == NULL || count > FAKE_USES_MAX) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    operation->cost = fake_cost_take();
    memcpy(operation->uses, uses, count * sizeof(*uses));
    operation->n_uses = count;
    (void)pthread_mutex_lock(&machine.lock);
    result = fake_stream_get(handle, &stream);
    if (result == CUDA_SUCCESS) {
        fake_submit(stream, operation);
    } else {
        free(operation->argument);
        free(operation);
    }
    (void)pthread_mutex_unlock(&machine.lock);
    return result;
}

int
fake_wait_ticket(struct fake_stream *stream, uint64_t ticket)
{
    while (stream->completed < ticket && !machine.ended) {
        (void)pthread_cond_wait(&machine.done, &machine.lock);
    }
    return machine.ended ? CUDA_ERROR_DEINITIALIZED : stream->context->sticky;
}

int
fakecuda_drain(CUstream handle)
{
    struct fake_clock clock;
    struct fake_stream *stream;
    int result;

    (void)pthread_mutex_lock(&machine.lock);
    result = fake_stream_get(handle, &stream);
    if (result == CUDA_SUCCESS) {
        append_legacy_waits(stream);
        wake(stream);
        clock = stream->clock;
        result = fake_wait_ticket(stream, stream->submitted);
        fake_host_join(&clock);
    }
    (void)pthread_mutex_unlock(&machine.lock);
    return result;
}

void
fake_context_drain(const struct fake_context *context)
{
    for (struct fake_stream *stream = machine.streams; stream != NULL;
         stream = stream->next) {
        if (stream->context == context) {
            struct fake_clock clock = stream->clock;

            (void)fake_wait_ticket(stream, stream->submitted);
            fake_host_join(&clock);
        }
    }
}

struct fake_stream *
fake_stream_new(struct fake_context *context, unsigned flags, int priority)
{
    struct fake_stream *stream =
        fakecuda_new(FAKE_STREAM, sizeof(*stream), "cuStreamCreate");

    if (stream == NULL) {
        return NULL;
    }
    stream->context = context;
    stream->flags = flags;
    stream->priority = priority;
    stream->tail = &stream->head;
    stream->slot = fake_clock_slot();
    (void)pthread_cond_init(&stream->work, NULL);
    stream->next = machine.streams;
    machine.streams = stream;
    return stream;
}

void
fake_streams_stop(void)
{
    machine.ended = true;
    for (struct fake_stream *stream = machine.streams; stream != NULL;
         stream = stream->next) {
        (void)pthread_cond_signal(&stream->work);
    }
    (void)pthread_cond_broadcast(&machine.done);
    while (machine.threads > (on_stream_thread ? 1U : 0U)) {
        (void)pthread_cond_wait(&machine.done, &machine.lock);
    }
}
