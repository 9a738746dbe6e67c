/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kinds of memory that an operand may be in, for mirrored.c: made, moved, exchanged and
 * made anew, with libc and by system calls. A buffer's `copy' has the same numbers.
 */
#ifndef FERRY_TESTS_PROGRAM_KINDS_H
#define FERRY_TESTS_PROGRAM_KINDS_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common.h"

enum {
    N = 136, /* 144.5 KiB */
    COUNT = N * N,
    PAGE = 4096,
    BYTES = (COUNT * 8 + PAGE - 1) / PAGE * PAGE,
    HUGE = 2 << 20,
    BUFFERS = 13,
    MOST_THREADS = 8,
    FEW = 512,              /* numbers that are changed at once */
    PATIENCE_SECONDS = 200, /* a deadlock ends the program */
};

enum kind {
    MALLOC, /* from its own mapping, later from the heap or an arena */
    CALLOC,
    ALIGNED,
    MAPPED,
    POPULATED,
    LOCKED,
    HUGE_PAGES,
    THREE, /* mappings, side by side */
    STATIC,
    STACK,
    SHARED,
    SHARED_FILE,
    PRIVATE_FILE,
    KINDS,
};

struct buffer {
    double *at;
    double *copy;
    int64_t most; /* bound of the numbers */
    enum kind kind;
    int file;
};

struct worker {
    pthread_t thread;
    unsigned number, rounds, calls;
    uint64_t state;
    uint64_t wrong;
    int pair[2];          /* of sockets */
    double before[COUNT]; /* of a result */
    struct buffer buffers[BUFFERS];
};

static char statics[MOST_THREADS][BYTES + PAGE];

static void
must(bool done, const char *what)
{
    if (!done) {
        fprintf(stderr, "%s: %s\n", what, strerror(errno));
        exit(1);
    }
}

static unsigned
pick(struct worker *w, unsigned n)
{
    w->state = w->state * 6364136223846793005U + 1442695040888963407U;
    return (unsigned)(w->state >> 33) % n;
}

/* ---- memory ----------------------------------------------------------------------- */

static bool
has_mapping(const struct buffer *b)
{
    return b->kind >= MAPPED && b->kind <= THREE;
}

static bool
is_shared(const struct buffer *b)
{
    return b->kind == SHARED || b->kind == SHARED_FILE;
}

/* mmap(2) with libc or without. */
static char *
map(struct worker *w, void *at, size_t bytes, int flags, int file)
{
    const int rights = PROT_READ | PROT_WRITE;
    void *b = pick(w, 2) ? mmap(at, bytes, rights, flags, file, 0)
                         : (void *)syscall(SYS_mmap, at, bytes, rights, flags,
                                           file, 0);
    must(b != MAP_FAILED, "mmap");
    return b;
}

static void
unmap(struct worker *w, void *at, size_t bytes)
{
    must((pick(w, 2) ? munmap(at, bytes)
                     : (int)syscall(SYS_munmap, at, bytes)) == 0,
         "munmap");
}

static char *
make(struct worker *w, struct buffer *b, char *stack)
{
    const int own = MAP_PRIVATE | MAP_ANONYMOUS;
    char *at = NULL;

    switch (b->kind) {
    case MALLOC:
        at = malloc(BYTES);
        break;
    case CALLOC:
        at = calloc(BYTES, 1);
        break;
    case ALIGNED:
        at = aligned_alloc(PAGE, BYTES);
        break;
    case POPULATED:
        at = map(w, NULL, BYTES, own | MAP_POPULATE | MAP_NORESERVE, -1);
        break;
    case HUGE_PAGES: {
        char *whole = map(w, NULL, 2 * HUGE, own, -1);
        at = whole + -(uintptr_t)whole % HUGE;
        if (at > whole) {
            unmap(w, whole, (size_t)(at - whole));
        }
        unmap(w, at + HUGE, (size_t)(whole + HUGE - at));
        (void)madvise(at, HUGE, MADV_HUGEPAGE);
        break;
    }
    case STATIC:
        at = statics[w->number] + 8;
        break;
    case STACK:
        at = stack;
        break;
    case SHARED:
        at = map(w, NULL, BYTES, MAP_SHARED | MAP_ANONYMOUS, -1);
        break;
    case SHARED_FILE:
    case PRIVATE_FILE:
        b->file = memfd_create("operand", MFD_CLOEXEC);
        must(b->file >= 0 && ftruncate(b->file, BYTES) == 0, "memfd");
        at = map(w, NULL, BYTES,
                 b->kind == SHARED_FILE ? MAP_SHARED : MAP_PRIVATE, b->file);
        break;
    default:
        at = map(w, NULL, BYTES, own, -1);
    }
    if (b->kind == LOCKED) {
        (void)mlock(at, BYTES); /* as far as the limit allows */
    } else if (b->kind == THREE) {
        (void)madvise(at + PAGE * (1 + pick(w, 10)), 9 * PAGE, MADV_DONTDUMP);
    }
    must(at != NULL, "malloc");
    return at;
}

static void
fill_random(struct worker *w, struct buffer *b)
{
    for (int i = 0; i < COUNT; i++) {
        b->copy[i] = pick(w, 3);
    }
    memcpy(b->at, b->copy, COUNT * 8);
    b->most = 2;
}

static size_t
mapped_bytes(const struct buffer *b)
{
    return b->kind == HUGE_PAGES ? HUGE : BYTES;
}

/* Frees the memory, and has another of its kind, often at the address. */
static void
make_anew(struct worker *w, struct buffer *b)
{
    if (b->kind <= ALIGNED) {
        free(b->at);
    } else if (b->kind == STATIC || b->kind == STACK) {
        return;
    } else {
        unmap(w, b->at, mapped_bytes(b));
        if (b->file >= 0) {
            (void)close(b->file);
        }
    }
    b->file = -1;
    b->at = (double *)make(w, b, NULL);
    if (b->kind != MALLOC && b->kind != ALIGNED && pick(w, 2)) {
        memset(b->copy, 0, COUNT * 8); /* so it must come */
    } else {
        fill_random(w, b);
    }
}

/* mremap(2) to `to', with libc or without. No other thread may get the old place. */
static bool
moved(struct worker *w, char *from, size_t bytes, int more, char *to)
{
    const int flags = MREMAP_MAYMOVE | MREMAP_FIXED | more;
    return (pick(w, 2) ? mremap(from, bytes, bytes, flags, to)
                       : (char *)syscall(SYS_mremap, from, bytes, bytes, flags,
                                         to)) == to;
}

static void
exchange(struct worker *w, struct buffer *b, struct buffer *other)
{
    const size_t bytes = mapped_bytes(b);
    struct buffer old = *b;
    char *third = map(w, NULL, bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1);

    if (moved(w, (char *)b->at, bytes, MREMAP_DONTUNMAP, third)) {
        if (!moved(w, (char *)other->at, bytes, MREMAP_DONTUNMAP,
                   (char *)b->at)) {
            must(moved(w, third, bytes, 0, (char *)b->at), "mremap back");
            return;
        }
        must(moved(w, third, bytes, 0, (char *)other->at), "mremap");
        b->copy = other->copy;
        b->most = other->most;
        other->copy = old.copy;
        other->most = old.most;
    } else {
        unmap(w, third, bytes);
    }
}

static void
move_mapping(struct worker *w, struct buffer *b, struct buffer *other)
{
    const int own = MAP_PRIVATE | MAP_ANONYMOUS;
    const size_t bytes = mapped_bytes(b);
    char *at = (char *)b->at, *now;

    switch (pick(w, 4)) {
    case 0: /* something else may come to the old place */
        now = map(w, NULL, bytes, own, -1);
        if (!moved(w, at, bytes, 0, now)) {
            unmap(w, now, bytes);
            return;
        }
        b->at = (double *)now;
        now = mmap(at, bytes, PROT_READ | PROT_WRITE, own | MAP_FIXED_NOREPLACE,
                   -1, 0);
        if (now != MAP_FAILED) {
            memset(now, 1, bytes);
            unmap(w, now, bytes);
        }
        break;
    case 1: /* the old mapping stays, without pages */
        now = mremap(at, bytes, bytes, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, 0);
        if (now != MAP_FAILED && pick(w, 2)) {
            must(moved(w, now, bytes, 0, at), "mremap back");
        } else if (now != MAP_FAILED) {
            unmap(w, at, bytes);
            b->at = (double *)now;
        }
        break;
    case 2: /* grown, perhaps elsewhere */
        now = mremap(at, bytes, bytes + HUGE, MREMAP_MAYMOVE);
        if (now != MAP_FAILED) {
            unmap(w, now + bytes, HUGE);
            b->at = (double *)now;
        }
        break;
    default:
        if (other != b && has_mapping(other) && bytes == mapped_bytes(other)) {
            exchange(w, b, other);
        }
    }
}

#endif
