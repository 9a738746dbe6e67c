/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals that arrive during calls. Argument: count (a handler runs, the call
 * ends well, errno stays), jump (the handler leaves the call by siglongjmp and
 * the program calls again; a second argument: microseconds between signals), nested
 * (the handler calls BLAS itself), altstack (the same on a small signal stack),
 * alternate (a handler on that stack calls, and other signals come there meanwhile), coroutines (a handler changes
 * between stacks that all call), collector (handlers find themselves on the thread's
 * stack, as garbage collectors want), masks (no thread of ferry may
 * take a signal meant for the program).
 */
#define _GNU_SOURCE /* pthread_getattr_np */
#include "common.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

static volatile sig_atomic_t seen, inside, wrong_thread, nested_errors;
static sigjmp_buf back;
static pthread_t main_thread;

static void
counter(int number)
{
    (void)number;
    seen++;
    if (!pthread_equal(pthread_self(), main_thread)) {
        wrong_thread++;
    }
}

static void
jumper(int number)
{
    counter(number);
    if (inside) {
        inside = 0;
        siglongjmp(back, 1);
    }
}

static void
caller(int number)
{
    /* Static memory: malloc is not for signal handlers. */
    static double a[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    double c[9] = {0};
    const double one = 1, zero = 0;
    const integer n = 3;

    counter(number);
    dgemm_("N", "T", &n, &n, &n, &one, a, &n, a, &n, &zero, c, &n);
    if (c[0] != 66 || c[8] != 126 || c[2] != 90) {
        nested_errors++;
    }
}

static void
tick(void (*handler)(int), int flags, long microseconds)
{
    struct sigaction action;
    const struct itimerval every = {{0, microseconds}, {0, microseconds}};

    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = flags;
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
}

static long
some(int least)
{
    long errors = 0;

    for (unsigned i = 0; i < 4000 && (i < 40 || seen < least); i++) {
        errno = 4711;
        errors += product_errors((integer)(30 + i % 50), i);
        if (errno != 4711) {
            errors += 1000000;
        }
    }
    return errors;
}

static volatile sig_atomic_t patches;

/* Another signal's frame over this one's would change what it has. */
static void
interrupted(int number)
{
    volatile char mine[8192];

    (void)number;
    memset((char *)(uintptr_t)mine, 0x5a, sizeof mine);
    for (int i = 0; i < 20000 && seen < 300; i++) {
        caller(0);
        seen--;
    }
    for (size_t i = 0; i < sizeof mine; i++) {
        patches += mine[i] != 0x5a;
    }
}

enum {
    COROUTINES = 3
};
static ucontext_t coroutine[COROUTINES];
static volatile sig_atomic_t current;

static void
change(int number)
{
    const int old = current;

    (void)number;
    seen++;
    current = (old + 1) % COROUTINES;
    swapcontext(&coroutine[old], &coroutine[current]);
}

static void
call_for_ever(void)
{
    sigset_t alarm;

    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    sigprocmask(SIG_UNBLOCK, &alarm, NULL);
    for (;;) {
        caller(0);
        seen--;
    }
}

static int
coroutines(void)
{
    static char stacks[COROUTINES][256 * 1024];
    sigset_t all;

    printf("before: %ld wrong\n", product_errors(50, 1));
    for (int i = 1; i < COROUTINES; i++) {
        getcontext(&coroutine[i]);
        coroutine[i].uc_stack.ss_sp = stacks[i];
        coroutine[i].uc_stack.ss_size = sizeof stacks[i];
        /* swapcontext(3) opens signals first, then loads what change() may save. */
        sigaddset(&coroutine[i].uc_sigmask, SIGALRM);
        makecontext(&coroutine[i], call_for_ever, 0);
    }
    tick(change, 0, 100);
    for (int i = 0; i < 1000000 && seen < 1500; i++) {
        caller(0);
        seen--;
    }
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    printf("coroutines: %d wrong\n", (int)nested_errors);
    return 0;
}

static uintptr_t stack_low, stack_high;
static volatile sig_atomic_t elsewhere;

static void
collector(int number)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);

    (void)number;
    elsewhere += here < stack_low || here >= stack_high;
    seen++;
}

/* Calls that cost little beside their decision. */
static void *
collected(void *unused)
{
    static double a[100 * 100];
    const double zero = 0, one = 1;
    const integer n = 100;
    pthread_attr_t attributes;
    void *low;
    size_t bytes;
    sigset_t alarm;

    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, &low, &bytes);
    pthread_attr_destroy(&attributes);
    stack_low = (uintptr_t)low;
    stack_high = stack_low + bytes;
    seen = elsewhere = 0;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    pthread_sigmask(SIG_UNBLOCK, &alarm, NULL);
    for (long i = 0; i < 3000000 && seen < 2000; i++) {
        dgemm_("N", "N", &n, &n, &n, &zero, a, &n, a, &n, &one, a, &n);
    }
    pthread_sigmask(SIG_BLOCK, &alarm, NULL);
    printf("signals came: %d, elsewhere: %d\n", seen >= 20, (int)elsewhere);
    return unused;
}

/* By the main thread, and by another. */
static int
collectors(void)
{
    pthread_t thread;

    tick(collector, 0, 100);
    collected(NULL);
    pthread_create(&thread, NULL, collected, NULL);
    pthread_join(thread, NULL);
    return 0;
}

static void *
another(void *seed)
{
    return (void *)(intptr_t)product_errors(60, (unsigned)(uintptr_t)seed);
}

static int
jumps(long microseconds)
{
    static double a[90 * 90], b[90 * 90], c[90 * 90];
    volatile int finished = 0, jumped = 0, kept = 0;
    const double one = 1;
    const integer n = 90;
    int cancel;

    fill(a, 90 * 90, 1);
    fill(b, 90 * 90, 2);
    tick(jumper, 0, microseconds);
    while (jumped < 30 && finished < 20000) {
        if (sigsetjmp(back, 1)) {
            jumped++;
            pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &cancel);
            kept += cancel != PTHREAD_CANCEL_ENABLE;
            continue;
        }
        inside = 1;
        dgemm_("N", "N", &n, &n, &n, &one, a, &n, b, &n, &one, c, &n);
        inside = 0;
        finished++;
    }
    tick(SIG_IGN, 0, 0);
    printf("jumped enough: %d, not to be cancelled: %d\n", jumped >= 30, kept);
    printf("afterwards: %ld wrong\n", product_errors(70, 5));
    /* Others may not wait for a call that will never end. */
    for (unsigned i = 0; i < 3; i++) {
        pthread_t thread;
        void *errors = NULL;
        pthread_create(&thread, NULL, another, (void *)(uintptr_t)i);
        pthread_join(thread, &errors);
        printf("another thread: %ld wrong\n", (long)(intptr_t)errors);
    }
    return 0;
}

int
main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "count";
    static char stack[64 * 1024];

    main_thread = pthread_self();
    if (strcmp(mode, "jump") == 0) {
        return jumps(argc > 2 ? strtol(argv[2], NULL, 10) : 150);
    }
    if (strcmp(mode, "collector") == 0) {
        return collectors();
    }
    if (strcmp(mode, "coroutines") == 0) {
        return coroutines();
    }
    if (strcmp(mode, "masks") == 0) {
        sigset_t all;
        printf("before: %ld wrong\n", product_errors(50, 1));
        tick(counter, SA_RESTART, 500);
        sigfillset(&all);
        pthread_sigmask(SIG_BLOCK, &all, NULL);
        long errors = 0;
        for (unsigned i = 0; i < 300; i++) {
            errors += product_errors(60, i);
        }
        printf("blocked: %d signals, %ld wrong\n", (int)seen, errors);
        tick(SIG_IGN, 0, 0);
        return 0;
    }
    if (strcmp(mode, "alternate") == 0) {
        const stack_t where = {.ss_sp = stack, .ss_size = sizeof stack};
        struct sigaction action = {.sa_handler = interrupted,
                                   .sa_flags = SA_ONSTACK};
        printf("before: %ld wrong\n", product_errors(50, 1));
        sigaltstack(&where, NULL);
        sigaction(SIGUSR1, &action, NULL);
        tick(counter, SA_ONSTACK, 50);
        raise(SIGUSR1);
        tick(SIG_IGN, 0, 0);
        printf("on the stack: %d changed, %d wrong\n", (int)patches,
               (int)nested_errors);
        return 0;
    }
    if (strcmp(mode, "nested") == 0) {
        tick(caller, SA_RESTART, 300);
    } else if (strcmp(mode, "altstack") == 0) {
        const stack_t where = {.ss_sp = stack, .ss_size = sizeof stack};
        sigaltstack(&where, NULL);
        tick(caller, SA_ONSTACK, 300);
    } else {
        tick(counter, 0, 300);
    }
    const long errors = some(50);
    printf("signals came: %d, in another thread: %d\n", seen >= 20,
           (int)wrong_thread);
    printf("%ld wrong, %d in handlers\n", errors, (int)nested_errors);
    return 0;
}
