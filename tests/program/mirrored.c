/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Offloaded products between random changes of their operands, each change made a second
 * time on a copy that no call sees: SEED ROUNDS THREADS. Every kind of memory (kinds.h),
 * every way to change, move, free or share it, with and without libc. Prints how many
 * products or bytes were wrong; numbers are whole, so each result is exact. A result is
 * checked with a random vector, C x = A (B x) + beta C x, modulo 2 to the power of 64.
 */
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exact.h"
#include "kinds.h"

/* ---- changes ------------------------------------------------------------------------ */

/* Puts some numbers into the buffer from this process, by a store or a system call. */
static void
put(struct worker *w, struct buffer *b)
{
    double numbers[FEW];
    size_t at = pick(w, COUNT - FEW), bytes = sizeof(numbers);
    struct iovec from = {numbers, bytes}, to = {b->at + at, bytes};
    ssize_t got = (ssize_t)bytes;

    for (int i = 0; i < FEW; i++) {
        b->copy[at + i] = numbers[i] = pick(w, 3);
    }
    switch (pick(w, 7)) {
    case 0:
        must(write(w->pair[1], numbers, bytes) == got, "write");
        got = read(w->pair[0], b->at + at, bytes);
        break;
    case 1:
        must(write(w->pair[1], numbers, bytes) == got, "write");
        got = syscall(SYS_recvfrom, w->pair[0], b->at + at, bytes, MSG_WAITALL,
                      NULL, NULL);
        break;
    case 2:
        must(write(w->pair[1], numbers, bytes) == got, "write");
        got = readv(w->pair[0], &to, 1);
        break;
    case 3:
        got = process_vm_writev(getpid(), &from, 1, &to, 1, 0);
        break;
    case 4: {
        int memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
        got = pwrite(memory, numbers, bytes, (off_t)(uintptr_t)(b->at + at));
        (void)close(memory);
        break;
    }
    case 5:
        for (int i = 0; i < FEW; i++) {
            ((volatile double *)b->at)[at + i] = numbers[i];
        }
        break;
    default:
        memcpy(b->at + at, numbers, bytes);
    }
    must(got == (ssize_t)bytes, "a change");
}

/* Another process writes; of private memory by process_vm_writev(2). */
static void
put_from_child(struct worker *w, struct buffer *b)
{
    size_t at = pick(w, COUNT - FEW);
    double numbers[FEW];
    pid_t parent = getpid();
    int status;

    for (int i = 0; i < FEW; i++) {
        b->copy[at + i] = numbers[i] = pick(w, 3);
    }
    pid_t child = pick(w, 2) ? fork() : (pid_t)syscall(SYS_fork);
    if (child == 0) {
        struct iovec from = {numbers, sizeof(numbers)},
                     to = {b->at + at, sizeof(numbers)};
        if (is_shared(b)) {
            memcpy(b->at + at, numbers, sizeof(numbers));
        } else if (process_vm_writev(parent, &from, 1, &to, 1, 0) !=
                   sizeof(numbers)) {
            _exit(1);
        }
        _exit(0);
    }
    must(child > 0 && waitpid(child, &status, 0) == child && status == 0,
         "the child's write");
}

/* Pages lose what they have. */
static void
take_away(struct worker *w, struct buffer *b)
{
    const bool whole = b->kind == HUGE_PAGES && pick(w, 2);
    size_t from = whole ? 0 : pick(w, BYTES / PAGE - 8);
    size_t count = whole ? HUGE / PAGE : 1 + pick(w, 8);
    char *at = (char *)b->at + from * PAGE;
    double *copy = b->copy + from * PAGE / 8;

    if (b->kind == SHARED_FILE) {
        must(fallocate(b->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                       (off_t)(from * PAGE), (off_t)(count * PAGE)) == 0,
             "fallocate");
    } else if (b->kind == PRIVATE_FILE) {
        return;
    } else if (b->kind == SHARED) {
        must(madvise(at, count * PAGE, MADV_REMOVE) == 0, "MADV_REMOVE");
    } else {
        switch (pick(w, 3)) {
        case 0:
            (void)map(w, at, count * PAGE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1);
            break;
        case 1:
            if (b->kind != LOCKED &&
                madvise(at, count * PAGE, MADV_FREE) == 0) {
                (void)madvise(at, count * PAGE, MADV_PAGEOUT);
                memset(at, 0, count * PAGE);
                break;
            }
            /* fallthrough */
        default:
            (void)munlock(at, count * PAGE);
            must(syscall(SYS_madvise, at, count * PAGE, MADV_DONTNEED) == 0,
                 "MADV_DONTNEED");
        }
    }
    size_t end = (from + count) * PAGE / 8;
    end = end < COUNT ? end : COUNT;
    memset(copy, 0, (end - from * PAGE / 8) * 8);
}

static void
advise(struct worker *w, struct buffer *b)
{
    static const int advices[] = {
        MADV_COLD,     MADV_PAGEOUT,           MADV_NOHUGEPAGE,
        MADV_HUGEPAGE, 25 /* MADV_COLLAPSE */, MADV_DONTFORK,
        MADV_DOFORK,   MADV_MERGEABLE,         MADV_UNMERGEABLE};
    char *first = (char *)(((uintptr_t)b->at + PAGE - 1) & -(uintptr_t)PAGE);
    size_t bytes = (size_t)PAGE * (1 + pick(w, 30));

    switch (pick(w, 3)) {
    case 0:
        (void)mprotect(first, bytes, PROT_READ);
        (void)mprotect(first, bytes, PROT_READ | PROT_WRITE);
        break;
    case 1:
        (void)mlock(first, bytes);
        (void)munlock(first, bytes);
        break;
    default:
        (void)madvise(first, bytes, advices[pick(w, 9)]);
        (void)madvise(first, bytes, MADV_DOFORK);
    }
}

static void
resize(struct worker *w, struct buffer *b)
{
    if (b->kind > CALLOC) {
        return;
    }
    double *other = malloc(BYTES / 2 + PAGE * pick(w, 40));
    b->at = realloc(b->at, BYTES + HUGE * (size_t)pick(w, 3));
    must(b->at && other, "realloc");
    free(other);
    b->at = realloc(b->at, BYTES);
}

/* Says once what is wrong, and takes it as it is. */
static unsigned
differences(struct worker *w, struct buffer *b, const char *of)
{
    int first = -1, count = 0;

    for (int i = 0; i < COUNT; i++) {
        if (b->at[i] != b->copy[i]) {
            first = first < 0 ? i : first;
            count++;
        }
    }
    if (count > 0) {
        fprintf(stderr,
                "thread %u, call %u: %s of kind %d at %p has %d others, the "
                "first is %d: %g, not %g\n",
                w->number, w->calls, of, b->kind, (void *)b->at, count, first,
                b->at[first], b->copy[first]);
        memcpy(b->copy, b->at, COUNT * 8);
    }
    return count > 0;
}

/* What another process reads of it, and what a system call takes. */
static unsigned
differences_elsewhere(struct worker *w, const struct buffer *b)
{
    double numbers[FEW];
    size_t at = pick(w, COUNT - FEW), bytes = sizeof(numbers);
    struct iovec of = {b->at + at, bytes}, to = {numbers, bytes};
    const pid_t parent = getpid();
    int status = 0;

    memset(numbers, 0, bytes);
    switch (pick(w, 4)) {
    case 0:
        must(write(w->pair[1], b->at + at, bytes) == (ssize_t)bytes &&
                 read(w->pair[0], numbers, bytes) == (ssize_t)bytes,
             "write");
        break;
    case 1:
        must(syscall(SYS_writev, w->pair[1], &of, 1) == (ssize_t)bytes &&
                 read(w->pair[0], numbers, bytes) == (ssize_t)bytes,
             "writev");
        break;
    case 2: {
        int memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
        must(pread(memory, numbers, bytes, (off_t)(uintptr_t)(b->at + at)) ==
                 (ssize_t)bytes,
             "/proc/self/mem");
        (void)close(memory);
        break;
    }
    default: {
        pid_t child = fork();
        if (child == 0) {
            ssize_t got = process_vm_readv(parent, &to, 1, &of, 1, 0);
            _exit(got != (ssize_t)bytes ||
                  memcmp(numbers, b->copy + at, bytes) != 0);
        }
        must(waitpid(child, &status, 0) == child, "waitpid");
        return status != 0;
    }
    }
    return memcmp(numbers, b->copy + at, bytes) != 0;
}

/* ---- products ----------------------------------------------------------------------- */

/* Makes the numbers small where a product could leave those that are exact. */
static void
reduce(struct buffer *b)
{
    for (int i = 0; i < COUNT; i++) {
        b->copy[i] = (double)((int64_t)b->copy[i] % 3);
    }
    memcpy(b->at, b->copy, COUNT * 8);
    b->most = 2;
}

/* C := A B + beta C, or a block of it; all three are compared with their copies. */
static void
product(struct worker *w, struct buffer *a, struct buffer *b, struct buffer *c)
{
    const double one = 1, beta = pick(w, 2);
    const int64_t most = INT64_C(1) << 50;
    const integer ld = N;
    integer m = N, n = N, k = N;
    const bool again = pick(w, 8) == 0;
    size_t offset = 0;

    if (pick(w, 3) == 0) { /* a block within the matrix: others have the gaps */
        m -= (integer)pick(w, 9);
        n -= (integer)pick(w, 9);
        k -= (integer)pick(w, 9);
        offset = pick(w, (unsigned)(N - m + 1)) +
                 (size_t)pick(w, (unsigned)(N - n + 1)) * N;
    }
    if (a->most > most / N / b->most) {
        reduce(a);
        reduce(b);
    }
    if (c->most > most) {
        reduce(c);
    }
    memcpy(w->before, c->copy, COUNT * 8);
    dgemm_("N", "N", &m, &n, &k, &one, a->at, &ld, b->at, &ld, &beta,
           c->at + offset, &ld);
    w->calls++;
    w->wrong += differences(w, a, "A") + differences(w, b, "B");
    unsigned errors =
        exact_errors(a->copy, b->copy, c->at + offset, c->copy + offset,
                     (uint64_t)beta, m, n, k, N, w->state);
    if (errors > 0) {
        fprintf(stderr,
                "thread %u, call %u: %u rows of %d, %d columns, k = %d, beta = "
                "%g, offset %zu, kinds %d %d %d at %p %p %p\n",
                w->number, w->calls, errors, m, n, k, beta, offset, a->kind,
                b->kind, c->kind, (void *)a->at, (void *)b->at, (void *)c->at);
    }
    w->wrong += errors;
    for (integer j = 0; j < n; j++) { /* the gaps are as they were */
        size_t at = offset + (size_t)j * N;
        memcpy(c->copy + at, c->at + at, (size_t)m * 8);
    }
    w->wrong += differences(w, c, "C");
    if (again) { /* in place once more, with the old numbers */
        memcpy(c->at, w->before, COUNT * 8);
        memcpy(c->copy, w->before, COUNT * 8);
    } else {
        c->most += N * a->most * b->most;
    }
}

/* A child makes products, while the parent changes what both have. */
static void
in_child(struct worker *w, struct buffer *a, struct buffer *b, struct buffer *c)
{
    int status;
    struct buffer *others[] = {a, b, c};
    for (int i = 0; i < 3; i++) { /* the child must have it, and its own */
        if (is_shared(others[i])) {
            return;
        }
        (void)madvise((char *)((uintptr_t)others[i]->at & -(uintptr_t)PAGE),
                      BYTES, MADV_DOFORK);
    }
    pid_t child = pick(w, 2) ? fork() : (pid_t)syscall(SYS_fork);
    if (child == 0) {
        w->wrong = 0;
        must(socketpair(AF_UNIX, SOCK_STREAM, 0, w->pair) == 0, "socketpair");
        product(w, a, b, c);
        put(w, a);
        product(w, a, b, c);
        _exit(w->wrong != 0);
    }
    put(w, a);
    product(w, a, b, c);
    must(child > 0 && waitpid(child, &status, 0) == child, "waitpid");
    w->wrong += status != 0;
}

static void
change(struct worker *w)
{
    struct buffer *b = &w->buffers[pick(w, BUFFERS)];

    switch (pick(w, 10)) {
    case 0:
        fill_random(w, b);
        break;
    case 1:
        if (has_mapping(b) || is_shared(b)) {
            take_away(w, b);
        }
        break;
    case 2:
        if (has_mapping(b)) {
            move_mapping(w, b, &w->buffers[pick(w, BUFFERS)]);
        }
        break;
    case 3:
        make_anew(w, b);
        break;
    case 4:
        advise(w, b);
        break;
    case 5:
        resize(w, b);
        break;
    case 6:
        if (pick(w, 8) == 0) {
            put_from_child(w, b);
        }
        break;
    case 7:
        if (pick(w, 3) == 0) {
            w->wrong += differences_elsewhere(w, b);
        }
        break;
    default:
        put(w, b);
    }
}

static void *
work(void *of)
{
    struct worker *w = of;
    char stack[BYTES + 64];

    for (unsigned i = 0; i < BUFFERS; i++) {
        struct buffer *b = &w->buffers[i];
        b->kind = (enum kind)(i % KINDS);
        b->file = -1;
        b->copy = calloc(COUNT, 8);
        must(b->copy != NULL, "calloc");
        b->at = (double *)make(w, b, stack);
        fill_random(w, b);
    }
    for (unsigned i = 0; i < w->rounds; i++) {
        /* Few are inputs at a time, so that they stay on the device. */
        unsigned first = i / 16 * 5;
        struct buffer *a = &w->buffers[(first + pick(w, 3)) % BUFFERS];
        struct buffer *b = &w->buffers[(first + pick(w, 3)) % BUFFERS];
        struct buffer *c = &w->buffers[(first + 3 + pick(w, 2)) % BUFFERS];
        if (pick(w, 25) == 0) {
            in_child(w, a, b, c);
        } else {
            product(w, a, b, c);
        }
        if (pick(w, 2)) {
            change(w);
        }
    }
    for (unsigned i = 0; i < BUFFERS; i++) {
        w->wrong += differences(w, &w->buffers[i], "the end");
    }
    return NULL;
}

int
main(int argc, char **argv)
{
    static struct worker workers[MOST_THREADS];
    const int threads = argc > 3 ? atoi(argv[3]) : 1;
    uint64_t wrong = 0;

    (void)alarm(PATIENCE_SECONDS);
    if (argc < 3 || threads < 1 || threads > MOST_THREADS) {
        return 1;
    }
    for (int i = 0; i < threads; i++) {
        struct worker *w = &workers[i];
        w->number = (unsigned)i;
        w->state = (uint64_t)atoi(argv[1]) * 1000 + (uint64_t)i;
        w->rounds = (unsigned)atoi(argv[2]);
        must(socketpair(AF_UNIX, SOCK_STREAM, 0, w->pair) == 0 &&
                 pthread_create(&w->thread, NULL, work, w) == 0,
             "start");
    }
    for (int i = 0; i < threads; i++) {
        (void)pthread_join(workers[i].thread, NULL);
        wrong += workers[i].wrong;
    }
    printf("%llu wrong\n", (unsigned long long)wrong);
    return wrong != 0;
}
