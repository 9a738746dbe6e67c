/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See handles.h. One lock, held only for table operations.
 */
#include "config.h"

#define HASH_NONFATAL_OOM         1
#define uthash_nonfatal_oom(elem) ((elem)->failed = true)

#include "pager/handles.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

struct handle {
    uint64_t value;
    uint32_t maker;
    bool failed;
    unsigned ncells;
    UT_hash_handle hh;
    struct fy_value cells[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct handle *handles;

static void
forget(uint64_t value)
{
    struct handle *old;

    HASH_FIND(hh, handles, &value, sizeof(value), old);
    if (old) {
        HASH_DEL(handles, old);
        free(old);
    }
}

void
fy_handle_made(uint64_t value, uint32_t maker, unsigned ncells,
               const struct fy_value *cells)
{
    struct handle *made =
        calloc(1, sizeof(*made) + ncells * sizeof(made->cells[0]));

    if (made) {
        made->value = value;
        made->maker = maker;
        made->ncells = ncells;
        memcpy(made->cells, cells, ncells * sizeof(made->cells[0]));
    }
    pthread_mutex_lock(&lock);
    forget(value); /* its memory was used again */
    if (made) {
        HASH_ADD(hh, handles, value, sizeof(value), made);
        if (made->failed) {
            free(made);
        }
    }
    pthread_mutex_unlock(&lock);
}

void
fy_handle_freed(uint64_t value)
{
    pthread_mutex_lock(&lock);
    forget(value);
    pthread_mutex_unlock(&lock);
}

uint32_t
fy_handle_find(uint64_t value, struct fy_value cells[FY_MAX_CELLS])
{
    struct handle *found;
    uint32_t maker = FY_NIL;

    pthread_mutex_lock(&lock);
    HASH_FIND(hh, handles, &value, sizeof(value), found);
    if (found) {
        memcpy(cells, found->cells, found->ncells * sizeof(cells[0]));
        maker = found->maker;
    }
    pthread_mutex_unlock(&lock);
    return maker;
}

void
fy_handles_before_fork(void)
{
    pthread_mutex_lock(&lock);
}

void
fy_handles_after_fork(void)
{
    pthread_mutex_unlock(&lock);
}
