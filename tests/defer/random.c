/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random sequences of vector calls, touches, forks, and changes of the memory
 * they are about. `random SEED STEPS' prints a number of what it saw; the same
 * with and without ferry.
 */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/defer/vec.h"

enum {
    VECTORS = 7,
    PAGE = 4096,
    OFFSET = 16,
    LONG = 40 * PAGE / 8,
    SHORT = 17 * PAGE / 8 + 100,
};

static uint64_t state, seen = 1469598103934665603U;

struct vector {
    char *base;
    size_t bytes;
    double *v;
    int n;
    bool changed; /* in part: the kernel may hold it as several mappings */
};

static struct vector vectors[VECTORS];

static unsigned
below(unsigned bound)
{
    state = state * 6364136223846793005U + 1442695040888963407U;
    return (unsigned)(state >> 33) % bound;
}

static void
see(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    seen = (seen ^ bits) * 1099511628211U;
}

static void
make(struct vector *x, int n)
{
    x->n = n;
    x->changed = false;
    x->bytes = ((size_t)n * 8 + OFFSET + PAGE - 1) / PAGE * PAGE;
    x->base = mmap(NULL, x->bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (x->base == MAP_FAILED) {
        abort();
    }
    x->v = (double *)(void *)(x->base + OFFSET);
    if (below(4) != 0) {
        for (int i = 0; i < n; i++) {
            x->v[i] = 1 + below(1000) / 1024.0;
        }
    }
}

static struct vector *
any(void)
{
    return &vectors[below(VECTORS)];
}

/* One of the same length; the same one now and then. */
static struct vector *
like(const struct vector *x)
{
    struct vector *y;
    do {
        y = any();
    } while (y->n != x->n);
    return y;
}

static void
call(void)
{
    struct vector *r = any(), *a = like(r), *b = like(r);
    switch (below(5)) {
    case 0:
        vec_add(r->n, a->v, b->v, r->v);
        break;
    case 1:
        vec_mul(r->n, a->v, b->v, r->v);
        break;
    case 2:
        vec_sqrt(r->n, a->v, r->v);
        break;
    case 3:
        vec_axpy(r->n, (1 + below(7)) / 8.0, a->v, r->v);
        break;
    default: { /* a part, perhaps over the edge of another */
        int at = (int)below((unsigned)r->n / 2);
        vec_mul(r->n / 2, r->v + at, a->v + at, r->v + at);
        break;
    }
    }
}

static void
tame(struct vector *x)
{
    for (int i = 0; i < x->n; i++) {
        if (!(x->v[i] < 1e100 && x->v[i] > -1e100)) {
            x->v[i] = 1.25;
        }
    }
}

static void
in_child(void)
{
    int ends[2];
    uint64_t its;
    if (pipe(ends)) {
        abort();
    }
    pid_t child = fork();
    if (child < 0) {
        abort();
    }
    if (child == 0) {
        if (below(2)) {
            call();
        }
        struct vector *x = any();
        see(x->v[below((unsigned)x->n)]);
        _exit(write(ends[1], &seen, sizeof seen) != (ssize_t)sizeof seen);
    }
    if (read(ends[0], &its, sizeof its) != (ssize_t)sizeof its ||
        waitpid(child, NULL, 0) != child) {
        abort();
    }
    seen ^= its;
    (void)close(ends[0]);
    (void)close(ends[1]);
}

/*
 * As realloc() does it. Whether mappings that were changed in part have grown
 * together again is the kernel's affair, and it moves only one: else by a copy.
 */
static char *
grow(const struct vector *x)
{
    char *to = mremap(x->base, x->bytes, x->bytes + PAGE, MREMAP_MAYMOVE);
    if (to != MAP_FAILED) {
        return to;
    }
    to = mmap(NULL, x->bytes + PAGE, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!x->changed || to == MAP_FAILED) {
        abort();
    }
    memcpy(to, x->base, x->bytes);
    munmap(x->base, x->bytes);
    return to;
}

static void
change_memory(struct vector *x)
{
    size_t pages = x->bytes / PAGE, from = below((unsigned)pages);
    size_t count = 1 + below((unsigned)(pages - from));
    char *at = x->base + from * PAGE;
    int n = x->n;
    switch (below(5)) {
    case 0: /* free */
        munmap(x->base, x->bytes);
        make(x, n);
        break;
    case 1: /* realloc */
        at = grow(x);
        x->bytes += PAGE;
        x->base = at;
        x->v = (double *)(void *)(at + OFFSET);
        break;
    case 2:
        madvise(at, count * PAGE, MADV_DONTNEED);
        break;
    case 3: /* part of it anew */
        x->changed = true;
        if (mmap(at, count * PAGE, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != at) {
            abort();
        }
        break;
    default: /* another protection for a while */
        x->changed = true;
        if (mprotect(at, count * PAGE, PROT_READ)) {
            abort();
        }
        see(x->v[below((unsigned)n)]);
        if (mprotect(at, count * PAGE, PROT_READ | PROT_WRITE)) {
            abort();
        }
    }
}

static void
step(void)
{
    struct vector *x = any();
    switch (below(24)) {
    case 0:
    case 1:
        see(x->v[below((unsigned)x->n)]);
        break;
    case 2:
        x->v[below((unsigned)x->n)] = 1 + below(100) / 64.0;
        break;
    case 3:
        in_child();
        break;
    case 4:
        change_memory(x);
        break;
    case 5:
        see(vec_sum(x->n, x->v) > 0); /* rounded as it is cut */
        break;
    case 6:
        tame(x);
        break;
    case 7: {
        struct vector *y = like(x);
        memmove(y->v, x->v, (size_t)x->n * sizeof *x->v);
        break;
    }
    default:
        call();
    }
}

int
main(int argc, char **argv)
{
    if (argc != 3) {
        return 2;
    }
    state = strtoull(argv[1], NULL, 10) * 2 + 1;
    for (unsigned i = 0; i < VECTORS; i++) {
        make(&vectors[i], i % 3 == 2 ? SHORT : LONG);
    }
    for (long left = strtol(argv[2], NULL, 10); left > 0; left--) {
        step();
    }
    for (unsigned i = 0; i < VECTORS; i++) {
        for (int k = 0; k < vectors[i].n; k++) {
            see(vectors[i].v[k]);
        }
    }
    printf("%016llx\n", (unsigned long long)seen);
    return 0;
}
