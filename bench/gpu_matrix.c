/* SPDX-License-Identifier: Apache-2.0 */
/* Threads, time, and matrices for gpu_calls. */
#include "config.h"

#include "bench/gpu_matrix.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/fakecuda/clock.h"

enum {
    THREADS_MAX = 64,
    FILL_COLUMNS = 16,
    PAGE_BYTES = 4096, /* no two share one: pages are registered */
};

struct work {
    bench_body *body;
    void *argument;
    int64_t count, step;
    _Atomic int64_t next;
};

struct worker {
    struct work *work;
    int number;
};

int
bench_threads(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > THREADS_MAX ? THREADS_MAX : (int)n;
}

double
bench_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

bool
bench_is_simulated(void)
{
    return fakeclock_is_on != NULL && fakeclock_is_on();
}

void
bench_simulate(void)
{
    if (fakeclock_begin != NULL) {
        fakeclock_begin();
    }
}

void
bench_copy_rows(char *to, size_t to_pitch, const char *from, size_t from_pitch,
                size_t width_bytes, size_t rows)
{
    if (bench_is_simulated()) {
        fakeclock_copy(width_bytes * rows);
        return;
    }
    for (size_t row = 0; row < rows; row++) {
        memcpy(to + row * to_pitch, from + row * from_pitch, width_bytes);
    }
}

static void *
worker(void *argument)
{
    struct worker *self = argument;
    struct work *work = self->work;
    for (;;) {
        int64_t from = atomic_fetch_add(&work->next, work->step);
        if (from >= work->count) {
            return NULL;
        }
        int64_t to = from + work->step;
        work->body(work->argument, self->number, from,
                   to < work->count ? to : work->count);
    }
}

void
bench_parallel(int64_t count, int64_t step, bench_body *body, void *argument)
{
    struct work work = {
        .body = body, .argument = argument, .count = count, .step = step};
    struct worker workers[THREADS_MAX];
    pthread_t threads[THREADS_MAX];
    int started = 0, wanted = bench_threads();
    for (int i = 0; i < wanted; i++) {
        workers[i] = (struct worker){&work, i};
    }
    while (started + 1 < wanted &&
           pthread_create(&threads[started], NULL, worker, &workers[started]) ==
               0) {
        started++;
    }
    (void)worker(&workers[wanted - 1]);
    while (started > 0) {
        (void)pthread_join(threads[--started], NULL);
    }
}

size_t
bench_element_bytes(char type)
{
    return type == 's' ? 4 : type == 'd' ? 8 : 16;
}

/* A number in [-0.5, 0.5) that depends on all bits of its three. */
static double
scatter(unsigned seed, int64_t i, int64_t j)
{
    uint64_t x = (uint64_t)i * UINT64_C(0x9e3779b97f4a7c15) +
                 (uint64_t)j * UINT64_C(0xc2b2ae3d27d4eb4f) +
                 seed * UINT64_C(0x165667b19e3779f9);
    x = (x ^ (x >> 32)) * UINT64_C(0xd6e8feb86659fd93);
    x = (x ^ (x >> 29)) * UINT64_C(0x94d049bb133111eb);
    x ^= x >> 32;
    return (double)(x >> 11) * 0x1p-53 - 0.5;
}

double
bench_element(const struct matrix *m, int64_t i, int64_t j, int part)
{
    bool heavy = m->shape == SHAPE_LOWER || m->shape == SHAPE_DEFINITE;
    if (i < j && m->shape == SHAPE_LOWER) {
        return 0;
    }
    if (i < j && m->shape != SHAPE_WHOLE) {
        int64_t swap = i;
        i = j;
        j = swap;
    }
    double value = i == j && heavy
                       ? (double)m->rows
                       : scatter(m->seed + 1000U * (unsigned)part, i, j);
    return m->type == 's' ? (double)(float)value : value;
}

static void
put(const struct matrix *m, int64_t at, int part, double value)
{
    if (m->type == 's') {
        ((float *)m->data)[at] = (float)value;
    } else if (m->type == 'd') {
        ((double *)m->data)[at] = value;
    } else {
        ((double *)m->data)[2 * at + part] = value;
    }
}

static void
fill(void *argument, int thread, int64_t from, int64_t to)
{
    const struct matrix *m = argument;
    (void)thread;
    for (int64_t j = from; j < to; j++) {
        for (int64_t i = 0; i < m->rows; i++) {
            bool above = i < j && m->shape != SHAPE_WHOLE;
            for (int part = 0; part < (m->type == 'z' ? 2 : 1); part++) {
                put(m, i + j * m->rows, part,
                    above ? SENTINEL : bench_element(m, i, j, part));
            }
        }
    }
}

void
bench_matrix_fill(const struct matrix *m)
{
    if (!bench_is_simulated()) {
        bench_parallel(m->columns, FILL_COLUMNS, fill, (void *)m);
        return;
    }
    /* What factorisations look at. */
    for (int64_t i = 0; i < m->rows && i < m->columns; i++) {
        put(m, i + i * m->rows, 0, (double)m->rows);
    }
}

int
bench_matrix_make(struct matrix *m)
{
    size_t bytes =
        (size_t)m->rows * (size_t)m->columns * bench_element_bytes(m->type);
    bytes = (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    m->data = aligned_alloc(PAGE_BYTES, bytes);
    if (m->data == NULL) {
        return -1;
    }
    bench_matrix_fill(m);
    return 0;
}
