/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded beside ferry: watches each mutex that libferry-engine.so takes. A
 * thread that takes one has every signal blocked that a handler of the program
 * could run for, but for faults; two mutexes are never taken in both orders; and
 * no thread forks while it holds one. What is otherwise ends the process with
 * status 77 and an offset into the engine on stderr (addr2line -e).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    DEPTH = 16,
    PAIRS = 1 << 14,
};

static int (*real_lock)(pthread_mutex_t *);
static int (*real_trylock)(pthread_mutex_t *);
static int (*real_unlock)(pthread_mutex_t *);
static __thread const void *held[DEPTH]
    __attribute__((tls_model("initial-exec")));
static __thread unsigned depth __attribute__((tls_model("initial-exec")));
static uint64_t seen[PAIRS]; /* hashes of (first, second); 0: none */
static unsigned long taken;

static __attribute__((noreturn)) void
end(const char *what, const void *where)
{
    char line[256];
    Dl_info info;
    const char *base = dladdr(where, &info) ? info.dli_fbase : NULL;
    int n = snprintf(line, sizeof line, "lockcheck: %s at 0x%lx\n", what,
                     (unsigned long)((const char *)where - base));

    (void)!write(STDERR_FILENO, line, (size_t)n);
    _exit(77);
}

static void
at_fork(void)
{
    if (depth > 0) {
        end("a mutex is held over fork", __builtin_return_address(0));
    }
}

__attribute__((constructor)) static void
start(void)
{
    *(void **)&real_lock = dlsym(RTLD_NEXT, "pthread_mutex_lock");
    *(void **)&real_trylock = dlsym(RTLD_NEXT, "pthread_mutex_trylock");
    *(void **)&real_unlock = dlsym(RTLD_NEXT, "pthread_mutex_unlock");
    pthread_atfork(at_fork, NULL, NULL);
}

/* A byte for each process whose engine has taken any. */
__attribute__((destructor)) static void
stop(void)
{
    const char *path = getenv("LOCKCHECK_FILE");
    FILE *file = taken > 0 && path ? fopen(path, "a") : NULL;

    if (file) {
        fputc('x', file);
        fclose(file);
    }
}

/* The engine's code lies within 1 MiB of the first address that was in it. */
static int
is_engine(const void *where)
{
    static const char *low, *high;
    const char *at = where;
    Dl_info info;

    if (!__atomic_load_n(&high, __ATOMIC_ACQUIRE)) {
        if (!dladdr(where, &info) || !info.dli_fname ||
            !strstr(info.dli_fname, "libferry-engine")) {
            return 0;
        }
        __atomic_store_n(&low, info.dli_fbase, __ATOMIC_RELAXED);
        __atomic_store_n(&high, (const char *)info.dli_fbase + (1 << 20),
                         __ATOMIC_RELEASE);
    }
    return at >= low && at < high;
}

static void
check_signals(const void *where)
{
    static const int faults[] = {SIGSEGV, SIGBUS,  SIGFPE,
                                 SIGILL,  SIGTRAP, SIGABRT};
    sigset_t mask;

    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        sigaddset(&mask, faults[i]);
    }
    for (int number = 1; number < 32; number++) {
        struct sigaction action;
        if (!sigismember(&mask, number) &&
            sigaction(number, NULL, &action) == 0 &&
            action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN) {
            end("a handler may run under a mutex", where);
        }
    }
}

static uint64_t
hash(const void *first, const void *second)
{
    uint64_t z = (uint64_t)(uintptr_t)first * 0x9e3779b97f4a7c15U +
                 (uint64_t)(uintptr_t)second;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9U;
    return (z ^ z >> 27) | 1;
}

/* Whether the pair was there; adds it. */
static int
find(uint64_t pair, int add)
{
    for (unsigned i = 0; i < PAIRS; i++) {
        uint64_t *slot = &seen[(pair / 2 + i) % PAIRS];
        uint64_t is = __atomic_load_n(slot, __ATOMIC_RELAXED);
        if (is == 0 && add) {
            __atomic_compare_exchange_n(slot, &is, pair, 0, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED);
        }
        if (is == pair || is == 0) {
            return is == pair;
        }
    }
    return 0;
}

static void
note(const void *mutex, const void *where)
{
    __atomic_fetch_add(&taken, 1, __ATOMIC_RELAXED);
    check_signals(where);
    for (unsigned i = 0; i < depth && i < DEPTH; i++) {
        if (held[i] == mutex || find(hash(mutex, held[i]), 0)) {
            end("two mutexes are taken in both orders", where);
        }
        find(hash(held[i], mutex), 1);
    }
    if (depth < DEPTH) {
        held[depth] = mutex;
    }
    depth++;
}

int
pthread_mutex_lock(pthread_mutex_t *mutex)
{
    const void *where = __builtin_return_address(0);

    if (real_lock && is_engine(where)) {
        note(mutex, where);
    }
    return real_lock ? real_lock(mutex) : 0;
}

int
pthread_mutex_trylock(pthread_mutex_t *mutex)
{
    const void *where = __builtin_return_address(0);
    int error = real_trylock ? real_trylock(mutex) : 0;

    if (real_trylock && error == 0 && is_engine(where)) {
        note(mutex, where);
    }
    return error;
}

int
pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    if (real_unlock && is_engine(__builtin_return_address(0))) {
        for (unsigned i = depth; i > 0; i--) {
            if (i <= DEPTH && held[i - 1] == mutex) {
                memmove(&held[i - 1], &held[i], (depth - i) * sizeof held[0]);
                depth--;
                break;
            }
        }
    }
    return real_unlock ? real_unlock(mutex) : 0;
}

/* Both make ferry take this library for a runtime that has to know of all threads: its
 * objects then call the functions that are found first. */
void *__libc_memalign(size_t alignment, size_t bytes);

void *
__libc_memalign(size_t alignment, size_t bytes)
{
    return aligned_alloc(alignment, bytes);
}

int
pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
               void *(*run)(void *), void *argument)
{
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

    *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    return real(thread, attributes, run, argument);
}
