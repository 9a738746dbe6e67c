/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads for what may wait; see the header. Threads begin when jobs wait for
 * one, end when none is left, and own a share of the pool. A thread that has ended is
 * joined before its work is told to be done: a fork then copies no lock of the allocator
 * that the thread holds, which a sanitizer's allocator does not release in the child.
 */
#include "config.h"

#include "proxy/storage/work.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    THREADS_MAX = 8
};

struct fy_pool {
    pthread_mutex_t lock;
    unsigned owners; /* the session and each thread */
    unsigned threads;
    bool closed;
    pthread_t ended[THREADS_MAX]; /* to be joined */
    unsigned nended;
    int bell_fd;
    struct fy_work *todo, **todo_end;
    struct fy_work *ready, **ready_end;
};

static void
drop(struct fy_work *work)
{
    while (work) {
        struct fy_work *next = work->next;
        if (work->drop) {
            work->drop(work);
        }
        work = next;
    }
}

/* With the lock held; gives it back. */
static void
leave(struct fy_pool *pool)
{
    bool last = --pool->owners == 0;
    (void)pthread_mutex_unlock(&pool->lock);
    if (last) {
        drop(pool->todo);
        drop(pool->ready);
        (void)pthread_mutex_destroy(&pool->lock);
        free(pool);
    }
}

static void *
serve(void *argument)
{
    struct fy_pool *pool = argument;
    (void)pthread_mutex_lock(&pool->lock);
    while (pool->todo && !pool->closed) {
        struct fy_work *work = pool->todo;
        pool->todo = work->next;
        if (!pool->todo) {
            pool->todo_end = &pool->todo;
        }
        (void)pthread_mutex_unlock(&pool->lock);
        work->run(work);
        (void)pthread_mutex_lock(&pool->lock);
        work->next = NULL;
        *pool->ready_end = work;
        pool->ready_end = &work->next;
        if (!pool->closed) {
            const uint64_t one = 1;
            while (write(pool->bell_fd, &one, sizeof one) < 0 &&
                   errno == EINTR) {
            }
        }
    }
    pool->threads--;
    if (pool->closed) {
        (void)pthread_detach(pthread_self());
    } else {
        pool->ended[pool->nended++] = pthread_self();
    }
    leave(pool);
    return NULL;
}

/* With the lock held, which is free meanwhile. */
static void
join_ended(struct fy_pool *pool)
{
    while (pool->nended > 0) {
        pthread_t thread = pool->ended[--pool->nended];
        (void)pthread_mutex_unlock(&pool->lock);
        (void)pthread_join(thread, NULL);
        (void)pthread_mutex_lock(&pool->lock);
    }
}

int
fy_pool_new(int bell_fd, struct fy_pool **out)
{
    struct fy_pool *pool = calloc(1, sizeof *pool);
    if (!pool || pthread_mutex_init(&pool->lock, NULL) != 0) {
        free(pool);
        return FY_ERR_NOMEM;
    }
    pool->owners = 1;
    pool->bell_fd = bell_fd;
    pool->todo_end = &pool->todo;
    pool->ready_end = &pool->ready;
    *out = pool;
    return 0;
}

int
fy_pool_submit(struct fy_pool *pool, struct fy_work *work)
{
    int status = 0;
    (void)pthread_mutex_lock(&pool->lock);
    join_ended(pool);
    if (pool->threads < THREADS_MAX) {
        pthread_t thread;
        pool->owners++;
        pool->threads++;
        if (pthread_create(&thread, NULL, serve, pool) != 0) {
            pool->owners--;
            pool->threads--;
            status = pool->threads > 0 ? 0 : FY_ERR_NOMEM;
        }
    }
    if (!status) {
        work->next = NULL;
        *pool->todo_end = work;
        pool->todo_end = &work->next;
    }
    (void)pthread_mutex_unlock(&pool->lock);
    return status;
}

void
fy_work_collect(struct fy_pool *pool)
{
    (void)pthread_mutex_lock(&pool->lock);
    struct fy_work *work = pool->ready;
    pool->ready = NULL;
    pool->ready_end = &pool->ready;
    join_ended(pool);
    (void)pthread_mutex_unlock(&pool->lock);
    while (work) {
        struct fy_work *next = work->next;
        work->done(work);
        work = next;
    }
}

void
fy_pool_free(struct fy_pool *pool)
{
    if (pool) {
        (void)pthread_mutex_lock(&pool->lock);
        join_ended(pool);
        pool->closed = true;
        leave(pool);
    }
}
