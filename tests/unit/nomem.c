/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations that fail; see nomem.h. */
#include "config.h"

#include "tests/unit/nomem.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/types.h>

static _Thread_local uint64_t left;
static _Thread_local bool reached;

/* What was allocated since nomem_at() and is not freed. The table is of its own,
 * as libcheck, which is linked in, frees what libc has allocated for it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *live[1 << 14];
static unsigned nlive;

void
nomem_at(uint64_t n)
{
    pthread_mutex_lock(&lock);
    nlive = 0;
    pthread_mutex_unlock(&lock);
    left = n;
    reached = false;
}

bool
nomem_reached(void)
{
    left = 0;
    return reached;
}

unsigned
nomem_live(void)
{
    pthread_mutex_lock(&lock);
    unsigned count = nlive;
    pthread_mutex_unlock(&lock);
    return count;
}

static bool
fails(void)
{
    if (left == 0 || --left > 0) {
        return false;
    }
    reached = true;
    errno = ENOMEM;
    return true;
}

static void *
added(void *memory)
{
    pthread_mutex_lock(&lock);
    if (memory != NULL && nlive < sizeof live / sizeof live[0]) {
        live[nlive++] = memory;
    }
    pthread_mutex_unlock(&lock);
    return memory;
}

static void *
removed(void *memory)
{
    pthread_mutex_lock(&lock);
    for (unsigned i = nlive; i-- > 0;) {
        if (live[i] == memory) {
            live[i] = live[--nlive];
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    return memory;
}

/* The linker's names: NAME() is a call of __wrap_NAME(), __real_NAME() libc's. */
void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void __real_free(void *memory);
void *__real_mmap(void *at, size_t bytes, int protection, int flags, int fd,
                  off_t offset);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void __wrap_free(void *memory);
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd,
                  off_t offset);

void *
__wrap_malloc(size_t bytes)
{
    return fails() ? NULL : added(__real_malloc(bytes));
}

void *
__wrap_calloc(size_t count, size_t bytes)
{
    return fails() ? NULL : added(__real_calloc(count, bytes));
}

void *
__wrap_realloc(void *memory, size_t bytes)
{
    if (fails()) {
        return NULL;
    }
    return added(__real_realloc(removed(memory), bytes));
}

void
__wrap_free(void *memory)
{
    __real_free(removed(memory));
}

void *
__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd,
            off_t offset)
{
    return fails() ? MAP_FAILED
                   : __real_mmap(at, bytes, protection, flags, fd, offset);
}
