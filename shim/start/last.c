/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a process whose main thread has ended alone (pthread_exit,
 * thrd_exit, cancellation). libc then calls exit(0) on the last thread, and
 * counts ferry's own, which never end. So ferry's are counted here, and once
 * the main thread is gone a thread of ours watches how many there are in all:
 * as soon as none is the program's, it calls exit(0) in libc's place. Where the
 * main thread itself is the last one, that calls exit(0), as it would have.
 *
 * Never too early: the kernel's count of threads and ours are compared. Ours
 * has only threads that have said themselves that they are ferry's and have not
 * begun to end, so equal counts leave nobody who could start another thread of
 * the program's. Where /proc cannot be read, the process goes on.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "shim/arch/x86_64/raw.h"
#include "shim/calls/shim.h"

/*
 * All there is to know in one word, so that no lock can be held by a thread that
 * a fork has left behind: the process it is about (0: no matter), how often the count has
 * changed (modulo), what has happened, and the count.
 */
enum {
    COUNT_MASK = 0xffff,
    WATCHED = 1 << 16, /* the watching thread has been started */
    ENDED = 1 << 17,   /* the main thread runs its last destructors, or none */
    ONE_CHANGE = 1 << 18,
    PROCESS_SHIFT = 32
};
static FY_NEAR uint64_t known;

enum {
    STEP_NS_MIN = 1000 * 1000,
    STEP_NS_MAX = 50 * 1000 * 1000, /* what the end may be late by */
    LINKS = 2,                      /* of a folder without folders */
    /* Whoever was joined may still be counted, and a thread of ferry's may have
     * yet to say that it is one. */
    JOINED_NS = 1000 * 1000,
    JOINED_TRIES = 50,
    ROUNDS = 4, /* PTHREAD_DESTRUCTOR_ITERATIONS of glibc */
    /*
     * Destructors run by the number of their key. This is the last that glibc has
     * room for without allocating; the program's get the numbers that they get
     * without us, and come before it.
     */
    KEY = 31,
    OWN_IDS = 64, /* more are not waited for */
    SETTLE_STEPS = 200,
    SETTLED = 3, /* steps in a row */
};

/*
 * What a thread's value of the key points at: the main thread's goes through
 * all rounds of destructors, so that those of the program come before its last.
 */
static const char rounds[ROUNDS], own;
static pthread_key_t key;
static FY_NEAR bool has_key;
static sigset_t main_mask;   /* exit handlers run under it */
static bool is_silent;       /* there are to be none of them */
static int own_ids[OWN_IDS]; /* of ferry's threads; 0: free */

/*
 * Adds to the count, sets flags and returns what then holds. As long as ferry has
 * had no thread it asks the kernel nothing: a filter of system calls may end who
 * does, and would have let the main thread end.
 */
static uint64_t
change(int delta, uint32_t set)
{
    uint64_t before = __atomic_load_n(&known, __ATOMIC_SEQ_CST), after;
    do {
        uint32_t low = (uint32_t)before;
        uint64_t process = before >> PROCESS_SHIFT;
        if (delta != 0 || process != 0) {
            uint32_t self = (uint32_t)getpid();
            if (process != 0 && process != self) {
                low = 0; /* a parent's, whose threads are not here */
            }
            process = self;
        }
        if (delta > 0 && (low & COUNT_MASK) < COUNT_MASK) {
            low += ONE_CHANGE + 1;
        } else if (delta < 0 && (low & COUNT_MASK) > 0) {
            low += ONE_CHANGE - 1;
        }
        after = process << PROCESS_SHIFT | low | set;
    } while (!__atomic_compare_exchange_n(&known, &before, after, false,
                                          __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
    return after;
}

/*
 * Whether no thread of the program's is left but the main thread: which has
 * ended when `ended' is set, and is asking otherwise. In doubt, no. Without a
 * descriptor: threads of the program that are left may rely on which number the
 * next one gets.
 */
static bool
none_left(bool ended)
{
    struct stat threads; /* a folder for each */
    char byte;
    uint64_t before = __atomic_load_n(&known, __ATOMIC_SEQ_CST);
    /* First: a main thread that is still there may start others. One that has no
     * memory any more has no program, either. */
    if (ended && fy_raw(SYS_readlink, (long)"/proc/self/exe", (long)&byte, 1, 0,
                        0, 0) != -ENOENT) {
        return false;
    }
    return fy_raw(SYS_stat, (long)"/proc/self/task", (long)&threads, 0, 0, 0,
                  0) == 0 &&
           before == __atomic_load_n(&known, __ATOMIC_SEQ_CST) &&
           before >> PROCESS_SHIFT == (uint32_t)getpid() &&
           /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): stat(2) fills it */
           threads.st_nlink == LINKS + (before & COUNT_MASK) + 1;
}

/* What the main thread has passed to _exit, of the kernel's; 0 in doubt. */
static int
main_status(void)
{
    enum {
        FIELDS = 50 /* behind the name, before the status; proc(5) */
    };
    char text[1024];
    const char *at = text;
    long file = fy_raw(SYS_open, (long)"/proc/self/stat", O_RDONLY, 0, 0, 0, 0);
    long n = fy_raw(SYS_read, file, (long)text, sizeof text - 1, 0, 0, 0);
    int status = 0;
    text[n > 0 ? n : 0] = '\0';
    for (const char *c = text; *c; c++) {
        at = *c == ')' ? c : at; /* the name may have some, too */
    }
    for (int fields = 0; *at && fields < FIELDS; at++) {
        fields += *at == ' ';
    }
    for (; *at >= '0' && *at <= '9'; at++) {
        status = status * 10 + (*at - '0');
    }
    return status >> 8 & 0xff;
}

static void *
watch(void *unused)
{
    struct timespec step = {0, STEP_NS_MIN};
    (void)unused;
    while (!none_left(true)) {
        (void)fy_raw(SYS_nanosleep, (long)&step, 0, 0, 0, 0, 0);
        step.tv_nsec *= 2;
        if (step.tv_nsec > STEP_NS_MAX) {
            step.tv_nsec = STEP_NS_MAX;
        }
    }
    if (__atomic_load_n(&is_silent, __ATOMIC_RELAXED)) {
        _exit(main_status());
    }
    (void)pthread_sigmask(SIG_SETMASK, &main_mask, NULL);
    exit(0); /* NOLINT(concurrency-mt-unsafe): nobody else is left */
}

/* Starts that thread, once, when there is anything to watch. */
static void
watch_if(uint64_t state)
{
    pthread_attr_t attributes;
    sigset_t all, before;
    pthread_t thread;
    while ((state & ENDED) && (state & COUNT_MASK) && !(state & WATCHED)) {
        if (!__atomic_compare_exchange_n(&known, &state, state | WATCHED, false,
                                         __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
            continue;
        }
        sigfillset(&all);
        (void)pthread_sigmask(SIG_BLOCK, &all, &before);
        bool started = pthread_attr_init(&attributes) == 0;
        if (started) {
            (void)pthread_attr_setdetachstate(&attributes,
                                              PTHREAD_CREATE_DETACHED);
            started = pthread_create(&thread, &attributes, watch, NULL) == 0;
            (void)pthread_attr_destroy(&attributes);
        }
        if (started) {
            /* Counted here, as it is there now, and never ends: the main thread
             * may ask before it has run. */
            (void)change(1, 0);
        } else {
            __atomic_fetch_and(&known, ~(uint64_t)WATCHED, __ATOMIC_SEQ_CST);
        }
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
        return;
    }
}

/* Replaces one of the numbers by another. */
static void
note_id(int before, int after)
{
    for (unsigned i = 0; i < OWN_IDS; i++) {
        int old = before;
        if (__atomic_compare_exchange_n(&own_ids[i], &old, after, false,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
            return;
        }
    }
}

/* Whether that thread is waiting in the kernel, or there is none. */
static bool
sleeps(int id)
{
    char text[256] = "", path[64];
    (void)snprintf(path, sizeof path, "/proc/self/task/%d/stat", id);
    long file = fy_raw(SYS_open, (long)path, O_RDONLY | O_CLOEXEC, 0, 0, 0, 0);
    if (file < 0) {
        return true;
    }
    (void)fy_raw(SYS_read, file, (long)text, sizeof text - 1, 0, 0, 0);
    (void)fy_raw(SYS_close, file, 0, 0, 0, 0, 0);
    const char *state = strrchr(text, ')');
    return !state || state[1] == '\0' || state[2] == 'S';
}

void
fy_last_settle(void)
{
    struct timespec step = {0, STEP_NS_MIN};
    for (int i = 0, calm = 0; i < SETTLE_STEPS && calm < SETTLED; i++) {
        bool all = true, any = false;
        for (unsigned k = 0; k < OWN_IDS && all; k++) {
            int id = __atomic_load_n(&own_ids[k], __ATOMIC_RELAXED);
            any = any || id;
            all = !id || sleeps(id);
        }
        if (!any) {
            return;
        }
        calm = all ? calm + 1 : 0;
        (void)fy_raw(SYS_nanosleep, (long)&step, 0, 0, 0, 0, 0);
    }
}

/* What the kernel counts, after what was joined. */
static bool
is_alone(void)
{
    struct stat threads;
    return fy_raw(SYS_stat, (long)"/proc/self/task", (long)&threads, 0, 0, 0,
                  0) == 0 &&
           /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): stat(2) fills it */
           threads.st_nlink == LINKS + 1;
}

void
fy_last_leave_alone(void)
{
    struct timespec step = {0, JOINED_NS};
    if (!(__atomic_load_n(&known, __ATOMIC_SEQ_CST) & COUNT_MASK) ||
        !none_left(false)) {
        return;
    }
    fy_engine_end_threads();
    for (int i = 0; i < JOINED_TRIES && !is_alone() &&
                    !(__atomic_load_n(&known, __ATOMIC_SEQ_CST) & COUNT_MASK);
         i++) {
        (void)fy_raw(SYS_nanosleep, (long)&step, 0, 0, 0, 0, 0);
    }
}

/* A thread that has a value of the key ends; not by exit(). */
static void
ends(void *value)
{
    const char *at = value;
    int *error = &errno, saved = *error;
    if (at == &own) {
        note_id(gettid(), 0);
        (void)change(-1, 0);
        *error = saved;
        return;
    }
    if (at == &rounds[0]) {
        (void)pthread_sigmask(SIG_SETMASK, NULL, &main_mask);
    }
    uint64_t state = change(0, ENDED);
    watch_if(state);
    if (at < &rounds[ROUNDS - 1]) {
        (void)pthread_setspecific(key, at + 1);
    } else if (state & COUNT_MASK) {
        struct timespec step = {0, JOINED_NS};
        for (int i = 0; i < JOINED_TRIES; i++) {
            if (none_left(false)) {
                exit(0); /* NOLINT(concurrency-mt-unsafe): as above */
            }
            (void)fy_raw(SYS_nanosleep, (long)&step, 0, 0, 0, 0, 0);
        }
    }
    *error = saved;
}

void
fy_last_start(void)
{
    pthread_key_t others[KEY], one;
    unsigned count = 0;
    while (!has_key && pthread_key_create(&one, ends) == 0) {
        if (one >= KEY || count == KEY) {
            key = one;
            has_key = true;
        } else {
            others[count++] = one;
        }
    }
    while (count > 0) {
        (void)pthread_key_delete(others[--count]);
    }
    fy_main_thread();
}

void
fy_main_thread(void)
{
    fy_stack_forked();
    /* In another name space a child may have its parent's number: both 1. */
    __atomic_store_n(&known, UINT64_C(0), __ATOMIC_SEQ_CST);
    if (has_key) {
        (void)pthread_setspecific(key, &rounds[0]);
    }
}

void
fy_last_silent(bool silent)
{
    __atomic_store_n(&is_silent, silent, __ATOMIC_RELAXED);
    if (silent && has_key) {
        watch_if(change(0, ENDED));
    }
}

void
fy_thread_begins(bool shares)
{
    int *error = &errno, saved = *error;
    if (has_key && pthread_setspecific(key, &own) == 0) {
        note_id(0, gettid());
        uint64_t state = change(1, 0);
        if (shares) { /* the watching thread will flush the program's files */
            watch_if(state);
        }
    }
    *error = saved;
}
