/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program with its own malloc, which itself calls BLAS now and then: ferry
 * may neither deadlock nor call itself. With FAIL=n the n-th and later
 * allocations of calls fail.
 */
#include "common.h"

#include <errno.h>
#include <stdatomic.h>

static _Alignas(64) char pool[64 << 20];
static atomic_size_t used;
static atomic_long allocations;
static long fail_from;
static __thread int inside;

void *
malloc(size_t bytes)
{
    static const double x[4] = {1, 2, 3, 4};
    const size_t room = (bytes + 79) / 64 * 64 + 64;
    const size_t at = atomic_fetch_add(&used, room);
    const integer n = 4, step = 1;

    if (at + room > sizeof pool ||
        (fail_from && atomic_fetch_add(&allocations, 1) >= fail_from)) {
        errno = ENOMEM;
        return NULL;
    }
    if (!inside) {
        inside = 1;
        if (ddot_(&n, x, &step, x, &step) != 30) {
            abort();
        }
        inside = 0;
    }
    memcpy(pool + at, &bytes, sizeof bytes);
    return pool + at + 64;
}

void
free(void *memory)
{
    (void)memory;
}

void *
calloc(size_t count, size_t bytes)
{
    if (bytes && count > SIZE_MAX / bytes) {
        return NULL;
    }
    /* NOLINTNEXTLINE(clang-analyzer-optin.portability.UnixAPI): our malloc */
    return malloc(count * bytes); /* the pool is zero and never used twice */
}

void *
realloc(void *memory, size_t bytes)
{
    char *copy = malloc(bytes);
    size_t old;

    if (!copy || !memory) {
        return copy;
    }
    memcpy(&old, (char *)memory - 64, sizeof old);
    memcpy(copy, memory, old < bytes ? old : bytes);
    return copy;
}

static void *
aligned(size_t alignment, size_t bytes)
{
    char *memory = malloc(bytes + alignment);
    const uintptr_t at = (uintptr_t)memory;

    return memory ? memory + (alignment - at % alignment) % alignment : NULL;
}

int
posix_memalign(void **out, size_t alignment, size_t bytes)
{
    *out = aligned(alignment, bytes);
    return *out ? 0 : ENOMEM;
}

void *
aligned_alloc(size_t alignment, size_t bytes)
{
    return aligned(alignment, bytes);
}

void *
memalign(size_t alignment, size_t bytes)
{
    return aligned(alignment, bytes);
}

int
main(void)
{
    enum {
        M = 60
    };
    static double a[M * M], b[M * M], c[M * M];
    const integer n = M;
    const double one = 1;

    setvbuf(stdout, NULL, _IONBF, 0);
    fill(a, M * M, 1);
    fill(b, M * M, 2);
    if (getenv("FAIL")) {
        /* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): FAIL is set */
        fail_from = 1 + atol(getenv("FAIL"));
    }
    for (int i = 0; i < 4; i++) {
        dgemm_("N", "N", &n, &n, &n, &one, a, &n, b, &n, &one, c, &n);
        printf("%016llx\n", (unsigned long long)digest(c, M * M));
    }
    return 0;
}
