/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See provider.h. isamax with n = 0xffffffff00000003 sees 3 elements where
 * INTEGER has 32 bits and a negative number, hence none, where it has 64 (the
 * idea is libblastrampoline's).
 */
#include "config.h"

#define HASH_NONFATAL_OOM         1
#define uthash_nonfatal_oom(elem) ((elem)->failed = true)

#include "pager/provider.h"

#include <pthread.h>
#include <stdlib.h>
#include <uthash.h>

struct provider {
    void *original;
    unsigned bits;
    bool failed;
    UT_hash_handle hh;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct provider *providers;

static unsigned
probe_fortran(void *function)
{
    int64_t (*isamax)(const int64_t *, const float *, const int64_t *);
    const int64_t n = (int64_t)0xffffffff00000003, one = 1;
    static const float x[4] = {1, 2, 3, 0};

    *(void **)&isamax = function;
    switch ((int32_t)isamax(&n, x, &one)) {
    case 3:
        return 32;
    case 0:
        return 64;
    default:
        return 0;
    }
}

static unsigned
probe_c(void *function)
{
    size_t (*isamax)(int64_t, const float *, int64_t);
    static const float x[4] = {1, 2, 3, 0};

    *(void **)&isamax = function;
    switch ((int32_t)isamax((int64_t)0xffffffff00000003, x, 1)) {
    case 2:
        return 32;
    case 0:
        return 64;
    default:
        return 0;
    }
}

static unsigned
probe(const struct fy_shim_services *services, void *original)
{
    static const char *const fortran[] = {"isamax_", "isamax", "isamax_64_"};
    void *function;

    if (!services->sibling) {
        return 0;
    }
    for (unsigned i = 0; i < sizeof(fortran) / sizeof(fortran[0]); i++) {
        function = services->sibling(original, fortran[i]);
        if (function) {
            return probe_fortran(function);
        }
    }
    function = services->sibling(original, "cblas_isamax");
    return function ? probe_c(function) : 0;
}

unsigned
fy_provider_integer_bits(const struct fy_shim_services *services,
                         void *original)
{
    struct provider *known;
    unsigned bits;

    pthread_mutex_lock(&lock);
    HASH_FIND_PTR(providers, &original, known);
    bits = known ? known->bits : 0;
    if (!known) {
        bits = probe(services, original);
        known = calloc(1, sizeof(*known));
        if (known) {
            known->original = original;
            known->bits = bits;
            HASH_ADD_PTR(providers, original, known);
            if (known->failed) {
                free(known);
            }
        }
    }
    pthread_mutex_unlock(&lock);
    return bits;
}

void
fy_provider_forget(void)
{
    struct provider *known, *next;

    pthread_mutex_lock(&lock);
    known = providers; /* clearing frees the table only: they stay linked */
    HASH_CLEAR(hh, providers);
    for (; known; known = next) {
        next = known->hh.next;
        free(known);
    }
    pthread_mutex_unlock(&lock);
}

void
fy_provider_before_fork(void)
{
    pthread_mutex_lock(&lock);
}

void
fy_provider_after_fork(void)
{
    pthread_mutex_unlock(&lock);
}
