/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What calls lead to while and after their library is closed: closing ACTION FILE FILE.
 * -DLIBRARY: work(), with a destructor that the program hears of. -DTOOL: a preloaded
 * dlclose() that tells the program when the library is gone, before whatever wraps it
 * goes on. Two threads: one closes, the other calls, always from one place.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#ifdef LIBRARY

void at_destructor(void);

#ifdef BEFORE
int
before(int n)
{
    return n * n * 7 + n / 3;
}
#endif

int
work(int n)
{
    return TAG + n;
}

__attribute__((destructor)) static void
destructor(void)
{
    at_destructor();
}

#elif defined TOOL

void after_close(void);

int
dlclose(void *handle)
{
    int (*next)(void *) = (int (*)(void *))dlsym(RTLD_NEXT, "dlclose");
    int result = next(handle);
    after_close();
    return result;
}

#else

typedef int function(int);

enum {
    ROUNDS = 400
};

static const char *second;
static pthread_barrier_t turn; /* the other thread's begins, and ends */
static bool is_watched;
static atomic_int state; /* of a round of at_once() */
enum {
    IDLE,
    CALLS,
    HAS_CALLED
};

static void *
open_library(const char *file, function **work)
{
    void *handle = dlopen(file, RTLD_NOW | RTLD_GLOBAL);
    *work = handle ? (function *)dlsym(handle, "work") : NULL;
    if (!*work) {
        puts("the library cannot be opened");
        exit(1);
    }
    return handle;
}

/* The one place: a binding is known by its caller's object. */
static __attribute__((noinline)) int
call(function *work, int n)
{
    int result = work(n);
    __asm__ volatile("" : "+r"(result));
    return result;
}

static void
let_other(void)
{
    pthread_barrier_wait(&turn);
    pthread_barrier_wait(&turn);
}

void
at_destructor(void)
{
    if (is_watched) {
        let_other();
    }
    while (atomic_load(&state) == CALLS) {
    }
}

void
after_close(void)
{
    if (is_watched) {
        let_other();
    }
    is_watched = false;
}

static void *
other(void *work)
{
    function *next;
    pthread_barrier_wait(&turn);
    printf("in the destructor: %d\n", call((function *)work, 2));
    pthread_barrier_wait(&turn);
    pthread_barrier_wait(&turn);
    void *handle = open_library(second, &next);
    printf("behind: %d\n", call(next, 3));
    pthread_barrier_wait(&turn);
    return handle;
}

/* The other thread calls in the destructor, and what comes at the same place. */
static void
one_by_one(const char *first, bool before)
{
    function *work;
    pthread_t thread;
    void *handle = open_library(first, &work);
    if (before) {
        printf("before: %d\n", call(work, 1));
    }
    pthread_barrier_init(&turn, NULL, 2);
    pthread_create(&thread, NULL, other, (void *)work);
    is_watched = true;
    dlclose(handle);
    pthread_join(thread, &handle);
    dlclose(handle);
}

static void *
caller(void *work)
{
    atomic_store(&state, CALLS);
    int result = call((function *)work, 4);
    atomic_store(&state, HAS_CALLED);
    return result == 1004 ? NULL : work;
}

/* The call begins while the library is still open, and its end is waited for. */
static void
at_once(const char *first)
{
    int wrong = 0;
    for (int i = 0; i < ROUNDS; i++) {
        pthread_t thread;
        function *work;
        void *handle = open_library(first, &work), *bad;
        atomic_store(&state, IDLE);
        pthread_create(&thread, NULL, caller, (void *)work);
        while (atomic_load(&state) == IDLE) {
            sched_yield();
        }
        for (volatile int k = i % 100 * 10; k > 0; k--) {
        }
        dlclose(handle);
        pthread_join(thread, &bad);
        handle = open_library(second, &work);
        wrong += bad || call(work, 5) != 2005;
        dlclose(handle);
    }
    printf("%d wrong\n", wrong);
}

/* No page can be mapped while the library is closed. */
static void
without_memory(const char *first)
{
    struct rlimit limit, none;
    function *work;
    void *handle = open_library(first, &work);
    printf("before: %d\n", call(work, 1));
    getrlimit(RLIMIT_AS, &limit);
    none = limit;
    none.rlim_cur = 0;
    setrlimit(RLIMIT_AS, &none);
    int closed = dlclose(handle);
    setrlimit(RLIMIT_AS, &limit);
    (void)open_library(second, &work);
    printf("closed: %d, behind: %d\n", closed, call(work, 3));
}

int
main(int argc, char **argv)
{
    const char *action = argc > 3 ? argv[1] : "";
    second = argc > 3 ? argv[3] : "";
    if (strcmp(action, "called") == 0 || strcmp(action, "new") == 0) {
        one_by_one(argv[2], *action == 'c');
    } else if (strcmp(action, "at-once") == 0) {
        at_once(argv[2]);
    } else if (strcmp(action, "memory") == 0) {
        without_memory(argv[2]);
    } else {
        return 2;
    }
    return 0;
}
#endif
