/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that calls tests/defer/vec.c and then does, in each case, one of
 * the things that deferred calls must not be noticed by. `touch CASE' prints
 * what it sees; run with and without ferry, the outputs must be the same. With
 * DEFERRED set, also says on descriptor 3 how many times the library was
 * entered before anything was touched.
 * Long because it has one case after the other.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <fenv.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/defer/cases.h"
#include "tests/defer/vec.h"

enum {
    N = 300000, /* 2.3 MiB a vector: malloc maps each */
    PAGE = 4096
};

static double *a, *b, *t, *r;

static double *
vector(int n)
{
    double *v = malloc((size_t)n * sizeof *v);
    if (!v) {
        abort();
    }
    for (int i = 0; i < n; i++) {
        v[i] = (i * 7 % 1000) + 0.5;
    }
    return v;
}

static void
show(const char *what, const double *v, int n)
{
    uint64_t hash = 1469598103934665603U;
    for (int i = 0; i < n; i++) {
        uint64_t bits;
        memcpy(&bits, &v[i], sizeof bits);
        hash = (hash ^ bits) * 1099511628211U;
    }
    printf("%s %016llx %a %a\n", what, (unsigned long long)hash, v[0],
           v[n - 1]);
}

/* Says whether anything was deferred, where somebody wants to know. */
static void
mark(void)
{
    if (getenv("DEFERRED")) {
        (void)dprintf(3, "%ld\n", vec_calls);
    }
}

/* r = sqrt((a + b) * a); t in between. */
static void
chain(void)
{
    vec_add(N, a, b, t);
    vec_mul(N, t, a, r);
    vec_sqrt(N, r, r);
    mark();
}

static void
begin(void)
{
    a = vector(N);
    b = vector(N);
    t = vector(N);
    r = vector(N);
    for (int i = 0; i < N; i++) {
        b[i] += i % 13;
    }
}

static void
read_output(void)
{
    chain();
    show("r", r, N);
    show("t", t, N);
    show("a", a, N);
}

static void
write_input(void)
{
    chain();
    a[N / 2] = -1;
    b[5] = -1;
    show("r", r, N);
    show("a", a, N);
    show("b", b, N);
}

static void
write_output(void)
{
    chain();
    r[N / 2] = -1; /* the rest of the page is the result's */
    show("r", r, N);
}

static void
by_memcpy(void)
{
    double *copy = malloc(N * sizeof *copy);
    chain();
    memcpy(copy, r, N * sizeof *copy);
    show("copy", copy, N);
    free(copy);
}

static void
by_write(void)
{
    int ends[2];
    double got[1000];
    if (pipe(ends)) {
        abort();
    }
    chain();
    if (write(ends[1], r + N / 2, sizeof got) != (ssize_t)sizeof got ||
        read(ends[0], got, sizeof got) != (ssize_t)sizeof got) {
        printf("failed: %s\n", strerror(errno));
    }
    show("got", got, 1000);
}

/* The kernel writes into an input, and into an output. */
static void
by_read(void)
{
    int zero = open("/dev/zero", O_RDONLY);
    chain();
    if (read(zero, a + N / 2, 80000) != 80000 ||
        read(zero, r + N / 2, 80000) != 80000) {
        printf("failed: %s\n", strerror(errno));
    }
    show("r", r, N);
    show("a", a, N);
}

static void *
thread_reads(void *unused)
{
    (void)unused;
    show("r", r, N);
    return NULL;
}

static void
by_thread(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, thread_reads, NULL)) {
        abort();
    }
    pthread_join(thread, NULL);
    chain();
    if (pthread_create(&thread, NULL, thread_reads, NULL)) {
        abort();
    }
    pthread_join(thread, NULL);
}

static void
child_shows(void)
{
    show("child r", r, N);
    show("child t", t, N);
    show("child a", a, N);
    (void)fflush(stdout);
    _exit(0);
}

static void
await(pid_t child)
{
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        printf("the child failed\n");
    }
}

static void
by_fork(void)
{
    chain();
    (void)fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        child_shows();
    }
    await(child);
    show("r", r, N);
    show("t", t, N);
    chain();
    show("r", r, N);
}

/* Handlers of pthread_atfork() do not run. */
static void
by_bare_fork(void)
{
    chain();
    (void)fflush(stdout);
    pid_t child = (pid_t)syscall(SYS_fork);
    if (child == 0) {
        child_shows();
    }
    r[7] = 0; /* the parent's own */
    await(child);
    show("r", r, N);
}

static void
fork_in_child(void)
{
    (void)fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        chain();
        child_shows();
    }
    await(child);
    chain();
    show("r", r, N);
}

static void
on_signal(int number)
{
    (void)number;
    static char text[64];
    /* NOLINTNEXTLINE(bugprone-signal-handler): it comes from raise(3) */
    (void)snprintf(text, sizeof text, "handler %a\n", r[N / 2]);
    if (write(1, text, strlen(text)) < 0) {
        _exit(1);
    }
}

static void
by_handler(void)
{
    (void)signal(SIGUSR1, on_signal);
    chain();
    (void)raise(SIGUSR1);
    show("r", r, N);
}

static void
free_inputs(void)
{
    chain();
    free(a);
    free(b);
    free(t);
    a = b = t = NULL;
    show("r", r, N);
}

static void
free_and_again(void)
{
    for (int i = 0; i < 20; i++) {
        double *x = vector(N), *y = vector(N);
        vec_axpy(N, i, a, x);
        vec_mul(N, x, x, y);
        free(x);
        vec_axpy(N, 0.25, y, r);
        free(y);
    }
    mark();
    show("r", r, N);
}

static void
by_realloc(void)
{
    chain();
    r = realloc(r, 4 * N * sizeof *r); /* moves, or grows where it is */
    memset(r + N, 0, 3 * N * sizeof *r);
    show("r", r, 4 * N);
    chain();
    r = realloc(r, N / 2 * sizeof *r);
    show("r", r, N / 2);
    show("t", t, N);
    r = realloc(r, N * sizeof *r);
    memset(r, 0, N * sizeof *r);
    vec_mul(N, a, a, r);
    a = realloc(a, 2 * N * sizeof *a);
    a[0] = 5;
    show("r", r, N);
    show("a", a, N);
}

/* As malloc has it: 16 bytes behind the start of a mapping. */
static double *
mapped(int flags)
{
    double *v = mmap(NULL, N * sizeof *v + PAGE, PROT_READ | PROT_WRITE,
                     flags | MAP_ANONYMOUS, -1, 0);
    if (v == MAP_FAILED) {
        abort();
    }
    memset(v, 0, N * sizeof *v);
    return v + 2;
}

static double *
base(double *v)
{
    return v - 2;
}

/* Parts of operands are unmapped, moved, dropped. */
static void
by_mappings(void)
{
    enum {
        HALF = 64 * PAGE / 8
    };
    double *x = mapped(MAP_PRIVATE), *y = mapped(MAP_PRIVATE),
           *z = mapped(MAP_PRIVATE);
    double *other = mmap(NULL, HALF * sizeof *other, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    vec_add(N, a, b, x);
    vec_mul(N, x, x, y);
    vec_mul(N, y, x, z);
    mark();
    munmap(base(x), HALF * sizeof *x);
    show("x", x + HALF, N - HALF);
    madvise(base(y), HALF * sizeof *y, MADV_DONTNEED);
    show("y", y, N);
    /* A part in the middle lands elsewhere. */
    double *moved = mremap(base(z) + HALF, HALF * sizeof *z, HALF * sizeof *z,
                           MREMAP_MAYMOVE | MREMAP_FIXED, other);
    show("moved", moved, HALF);
    show("z", z, HALF - 2);
    show("z end", z + 2 * HALF, N - 2 * HALF);
}

static void
drop_input(void)
{
    double *x = mapped(MAP_PRIVATE);
    vec_add(N, a, b, x);
    vec_mul(N, x, a, r);
    mark();
    madvise(base(x), N * sizeof *x, MADV_DONTNEED);
    show("r", r, N);
    show("x", x, N);
}

/* New memory where an operand was. */
static void
same_address(void)
{
    double *x = mapped(MAP_PRIVATE);
    vec_add(N, a, b, x);
    vec_mul(N, x, a, r);
    mark();
    munmap(base(x), N * sizeof *x + PAGE);
    double *y = mmap(base(x), N * sizeof *x + PAGE, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    y += 2;
    for (int i = 0; i < N; i++) {
        y[i] = i;
    }
    vec_mul(N, y, y, t);
    show("t", t, N);
    show("r", r, N);
    show("y", y, N);
}

/* Offsets within the page that differ, lengths around a page. */
static void
odd_edges(void)
{
    static const int lengths[] = {1,    511,  512,  513,  1022, 1023,
                                  1024, 1025, 1536, 5000, 40000};
    for (unsigned i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        for (int shift = 0; shift < 3; shift++) {
            int n = lengths[i];
            vec_add(n, a + shift, b + shift, t + shift);
            vec_mul(n, t + shift, a + shift, r + shift);
            vec_axpy(n, 0.5, t + shift, r + 2 * shift);
            show("r", r, n + 3);
            show("t", t, n + 3);
        }
    }
}

static void
overlaps(void)
{
    vec_add(N - 8, a, b, t);
    vec_mul(N - 8, t + 1, t + 2, r);
    vec_sqrt(N - 1024, r + 512, r + 512);
    vec_add(N - 8, r, t, t);
    vec_axpy(N - 1, 1.5, r, r + 1); /* each element of the one before */
    mark();
    show("r", r, N);
    show("t", t, N);
}

static void
in_place(void)
{
    for (int i = 0; i < 10; i++) {
        vec_mul(N, r, a, r);
        vec_sqrt(N, r, r);
        vec_axpy(N, 0.125, r, r);
        vec_add(N, r, r, r);
    }
    mark();
    show("r", r, N);
    for (int i = 0; i < 3; i++) {
        vec_sqrt(N, r, r);
        vec_add(N, r, t, t);
        printf("%a\n", r[N / 3]);
        show("t", t, N);
    }
}

static void
two_chains(void)
{
    double *x = vector(N / 2), *y = vector(N / 2);
    vec_add(N, a, b, t);
    vec_mul(N / 2, x, x, y);
    vec_mul(N, t, t, r);
    vec_sqrt(N / 2, y, y);
    vec_axpy(N / 2, 2, x, y);
    mark();
    show("y", y, N / 2);
    show("r", r, N);
    show("t", t, N);
    show("x", x, N / 2);
}

/* Temporaries used again and again; results read between. */
static void
rounds(void)
{
    for (int i = 0; i < 6; i++) {
        double *u = vector(N);
        vec_add(N, a, b, t);
        vec_mul(N, t, u, u);
        vec_sqrt(N, u, t);
        vec_add(N, t, u, r);
        vec_axpy(N, i, t, b);
        if (i % 2) {
            printf("%a\n", r[i * 1000]);
        }
        if (i == 4) {
            printf("%a\n", t[i * 1000]);
        }
        free(u);
    }
    show("t", t, N);
    show("b", b, N);
    show("r", r, N);
}

/* What was only passed on is asked for later, by reading what it became. */
static void
passed_on(void)
{
    chain();
    printf("%a\n", r[3]);
    vec_add(N, r, t, b); /* r was stored, t not */
    printf("%a\n", b[N / 2]);
    a[0] = 77; /* an input of what stays */
    show("t", t, N);
    show("r", r, N);
    chain();
    show("r", r, N);
    show("t", t, N);
    show("a", a, N);
}

static void
other_call(void)
{
    chain();
    printf("%a\n", vec_sum(N, r));
    printf("%a\n", vec_sum(N - 3, t + 3));
}

static void
by_spawn(void)
{
    static char echo[] = "echo", hello[] = "hello";
    char *const argv[] = {echo, hello, NULL};
    pid_t child;
    chain();
    (void)fflush(stdout);
    if (posix_spawnp(&child, "echo", NULL, NULL, argv, NULL)) {
        abort();
    }
    await(child);
    if (system("echo again")) {
        abort();
    }
    show("r", r, N);
}

static void
by_exec(void)
{
    chain();
    (void)fflush(stdout);
    (void)execlp("echo", "echo", "replaced", (char *)NULL);
}

static void
shows_at_exit(void)
{
    show("r", r, N);
}

static void
at_exit(void)
{
    (void)atexit(shows_at_exit);
    chain();
}

static void
close_everything(void)
{
    chain();
    /* Not 1, where the rest is said. */
    if (syscall(SYS_close_range, 3, ~0U, 0)) {
        abort();
    }
    show("r", r, N);
    show("a", a, N);
}

static void
from_outside(void)
{
    static double got[4000];
    int ends[2];
    if (pipe(ends)) {
        abort();
    }
    (void)fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        struct iovec to = {got, sizeof got};
        struct iovec from = {r + N / 2, sizeof got};
        char c;
        if (read(ends[0], &c, 1) != 1 ||
            process_vm_readv(getppid(), &to, 1, &from, 1, 0) !=
                (ssize_t)sizeof got) {
            printf("failed: %s\n", strerror(errno));
        }
        show("got", got, 4000);
        (void)fflush(stdout);
        _exit(0);
    }
    chain();
    if (write(ends[1], "x", 1) != 1) {
        abort();
    }
    await(child);
}

/* Memory that must not be taken: shared, of a file, on the stack, small. */
static void
other_memory(void)
{
    double room[20000 + 1024];
    double *stack = (double *)((uintptr_t)(room + 511) & -(uintptr_t)PAGE) + 2;
    double *shared = mapped(MAP_SHARED);
    double *small = malloc(10000 * sizeof *small);
    vec_add(N, a, b, shared);
    (void)fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        vec_mul(N, shared, shared, shared);
        _exit(0);
    }
    await(child);
    show("shared", shared, N);
    vec_mul(20000, a, b, stack);
    vec_sqrt(20000, stack, stack);
    show("stack", stack, 20000);
    memset(small, 0, 10000 * sizeof *small);
    vec_axpy(10000, 2, a, small);
    show("small", small, 10000);
    free(small);
}

static void
protections(void)
{
    double *x = mapped(MAP_PRIVATE);
    vec_add(N, a, b, x);
    vec_mul(N, x, a, r);
    mark();
    if (mprotect(base(x), N / 2 * sizeof *x / PAGE * PAGE, PROT_READ) ||
        mlock(r, 1000)) {
        printf("failed: %s\n", strerror(errno));
    }
    show("r", r, N);
    show("x", x, N);
    munlock(r, 1000);
    madvise(base(x), N / 2 * sizeof *x / PAGE * PAGE, MADV_PAGEOUT);
    show("x", x, N);
}

static void
roundings(void)
{
    fesetround(FE_UPWARD);
    vec_axpy(N, 1e-3, a, r);
    vec_sqrt(N, r, r);
    fesetround(FE_TONEAREST);
    vec_axpy(N, 1e-3, a, r);
    fesetround(FE_DOWNWARD);
    show("r", r, N);
}

static void *
own_chain(void *argument)
{
    int seed = *(const int *)argument;
    double *x = vector(N / 4), *y = vector(N / 4), *z = vector(N / 4);
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    for (int i = 0; i < 10; i++) {
        vec_axpy(N / 4, seed + i, x, y);
        vec_mul(N / 4, x, y, z);
        vec_sqrt(N / 4, z, z);
        if (i % 3 == seed % 3) {
            x[i] = z[i];
        }
        if (i == 7) {
            free(z);
            z = vector(N / 4);
        }
    }
    double sum = 0;
    for (int i = 0; i < N / 4; i++) {
        sum += z[i] + y[i] / 3;
    }
    pthread_mutex_lock(&lock);
    ((double *)(uintptr_t)t)[seed] = sum;
    pthread_mutex_unlock(&lock);
    free(x);
    free(y);
    free(z);
    return NULL;
}

static void
threads(void)
{
    pthread_t ids[6];
    int seeds[6];
    for (int i = 0; i < 6; i++) {
        seeds[i] = i;
        if (pthread_create(&ids[i], NULL, own_chain, &seeds[i])) {
            abort();
        }
    }
    for (int i = 0; i < 3; i++) {
        pid_t child = fork();
        if (child == 0) {
            _exit(0);
        }
        await(child);
    }
    for (int i = 0; i < 6; i++) {
        pthread_join(ids[i], NULL);
        printf("%a\n", t[i]);
    }
}

/* The allocator's own use of memory that is pending. */
static void
allocator(void)
{
    void *small[200];
    for (int round = 0; round < 5; round++) {
        double *x = vector(N), *y = NULL;
        if (posix_memalign((void **)&y, PAGE, N * sizeof *y)) {
            abort();
        }
        vec_mul(N, a, b, x);
        vec_sqrt(N, x, x);
        memset(y, 0, N * sizeof *y);
        vec_mul(N, y, y, y);
        for (int i = 0; i < 200; i++) {
            small[i] = malloc((size_t)(i + 1) * 1000);
            memset(small[i], 1, (size_t)(i + 1) * 1000);
        }
        printf("%a\n", x[round * 999]);
        free(x);
        free(y);
        for (int i = 0; i < 200; i++) {
            free(small[i]);
        }
    }
    /* From now on malloc maps nothing below 32 MiB. */
    chain();
    show("r", r, N);
}

/*
 * u is of what t was before it was overwritten: asked for when t has been
 * computed, but only been passed on.
 */
static void
kept_old(void)
{
    double *u = vector(N), *v = vector(N);
    vec_add(N, t, a, u);
    vec_add(N, u, a, v);
    vec_mul(N, a, b, v);
    vec_mul(N, a, b, t);
    vec_mul(N, t, t, r);
    mark();
    show("r", r, N);
    show("u", u, N);
    show("t", t, N);
    show("v", v, N);
}

/* A thread whose end has been asked for is not to end in fork(). */
static void *
forks(void *unused)
{
    (void)unused;
    (void)pthread_cancel(pthread_self());
    pid_t child = fork();
    if (child == 0) {
        _exit(0);
    }
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    await(child);
    return &r;
}

static void
cancelled_fork(void)
{
    pthread_t thread;
    void *result;
    chain();
    if (pthread_create(&thread, NULL, forks, NULL) ||
        pthread_join(thread, &result)) {
        abort();
    }
    printf("%s\n", result == &r ? "went on" : "ended");
    show("r", r, N);
}

/* A child by a bare system call, that changes its memory, and has its own. */
static void
child_changes(void)
{
    double *x = mapped(MAP_PRIVATE), *y = mapped(MAP_PRIVATE);
    double *other = mmap(NULL, 64 * PAGE, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    vec_add(N, a, b, x);
    vec_mul(N, x, a, y);
    (void)fflush(stdout);
    pid_t child = (pid_t)syscall(SYS_fork);
    if (child == 0) {
        madvise(base(x), 8 * PAGE, MADV_DONTNEED);
        if (mmap(base(y), 8 * PAGE, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != base(y)) {
            abort();
        }
        double *moved = mremap(base(x) + 512 * 64L, 64 * PAGE, 64 * PAGE,
                               MREMAP_MAYMOVE | MREMAP_FIXED, other);
        if (moved == MAP_FAILED) {
            abort();
        }
        child = (pid_t)syscall(SYS_fork);
        show("moved", moved, 64 * PAGE / 8);
        show("x", x, 512 * 32);
        show("y", y, N);
        (void)fflush(stdout);
        if (child == 0) {
            _exit(0);
        }
        await(child);
        (void)fflush(stdout);
        _exit(0);
    }
    await(child);
    show("x", x, N);
    show("y", y, N);
}

/* Moved, and then the child by a bare system call. */
static void
moved_fork(void)
{
    size_t bytes = N * sizeof *a / PAGE * PAGE;
    void *other = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                       0); /* were it PROT_NONE, x would look like a stack */
    double *x = mapped(MAP_PRIVATE);
    vec_add(N, a, b, x);
    double *moved = (double *)syscall(SYS_mremap, base(x), bytes, bytes,
                                      MREMAP_MAYMOVE | MREMAP_FIXED, other) +
                    2;
    (void)fflush(stdout);
    pid_t child = (pid_t)syscall(SYS_fork);
    if (child == 0) {
        show("child", moved, (int)(bytes / 8) - 2);
        (void)fflush(stdout);
        _exit(0);
    }
    await(child);
    show("moved", moved, (int)(bytes / 8) - 2);
}

/* A mapping of which only a part is an operand: it grows, it moves. */
static void
remap(void)
{
    size_t bytes = 3 * N * sizeof *a / PAGE * PAGE;
    for (int shift = 0; shift < 3; shift++) {
        double *x = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(x, 1, bytes);
        /* As malloc's vectors lie, in front, in the middle, at the end. */
        double *at = x + 2 + (size_t)shift * (N / 512 * 512);
        vec_add(N / 2, a, b, at);
        if (shift == 2) {
            vec_mul(N / 2, a, b, x + 2);
        }
        double *y = mremap(x, bytes, 2 * bytes, MREMAP_MAYMOVE);
        if (y == MAP_FAILED) {
            printf("failed: %s\n", strerror(errno));
            continue;
        }
        at += y - x;
        vec_add(N / 2, a, b, at);
        double *z = mmap(NULL, 2 * bytes, PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        z = mremap(y, 2 * bytes, 2 * bytes, MREMAP_MAYMOVE | MREMAP_FIXED, z);
        if (z == MAP_FAILED) {
            printf("failed: %s\n", strerror(errno));
            continue;
        }
        show("z", z, (int)(2 * bytes / 8));
    }
}

/* An operand begins with the page in which another one ends. */
static void
neighbours(void)
{
    double *x = base(mapped(MAP_PRIVATE)), *y = base(mapped(MAP_PRIVATE));
    for (int i = 0; i < 40 * 512; i++) {
        x[i] = i % 77 + 1;
        y[i] = i % 13 + 2;
    }
    vec_add(3 * 512 + 100 - 2, y + 2, y + 2, x + 2);
    vec_mul(10 * 512, y + 2 * 512 + 2, y + 2 * 512 + 2, x + 2 * 512 + 2);
    vec_mul(10 * 512, y + 3 * 512, y + 3 * 512, x + 3 * 512);
    mark();
    printf("%a\n", x[600]);
    show("x", x, N);
    for (int i = 0; i < 4; i++) {
        vec_add(4 * 512 - 8, y, y, x);
        vec_mul(20 * 512, y + 2 * 512, y + 2 * 512, x + 3 * 512);
        printf("%a\n", i % 2 ? x[600] : x[9 * 512]);
        show("x", x, N);
    }
}

/* A function that looks at its input: not deferred, and sees what is there. */
static void
clean(void)
{
    a[N / 2] = (double)INFINITY;
    vec_add(N, a, b, t);
    vec_clean(N, t, r);
    mark();
    show("r", r, N);
}

static const struct test_case cases[] = {
    {"read-output", read_output},
    {"write-input", write_input},
    {"write-output", write_output},
    {"memcpy", by_memcpy},
    {"write", by_write},
    {"read", by_read},
    {"thread", by_thread},
    {"fork", by_fork},
    {"bare-fork", by_bare_fork},
    {"fork-in-child", fork_in_child},
    {"handler", by_handler},
    {"free-inputs", free_inputs},
    {"free-and-again", free_and_again},
    {"realloc", by_realloc},
    {"mappings", by_mappings},
    {"drop-input", drop_input},
    {"same-address", same_address},
    {"odd-edges", odd_edges},
    {"overlaps", overlaps},
    {"in-place", in_place},
    {"two-chains", two_chains},
    {"rounds", rounds},
    {"passed-on", passed_on},
    {"other-call", other_call},
    {"spawn", by_spawn},
    {"exec", by_exec},
    {"at-exit", at_exit},
    {"close-everything", close_everything},
    {"from-outside", from_outside},
    {"other-memory", other_memory},
    {"protections", protections},
    {"roundings", roundings},
    {"threads", threads},
    {"allocator", allocator},
    {"kept-old", kept_old},
    {"cancelled-fork", cancelled_fork},
    {"child-changes", child_changes},
    {"moved-fork", moved_fork},
    {"remap", remap},
    {"neighbours", neighbours},
    {"clean", clean},
};

int
main(int argc, char **argv)
{
    return run_cases(cases, sizeof cases / sizeof cases[0], begin, argc, argv);
}
